import os
import subprocess
import sys

import pytest

from clusterplan import catalog as catalogs
from clusterplan.catalog import ENVIRONMENT, FOLDERS, Catalog, built_in_directory, user_directory
from clusterplan.errors import ProfileError
from clusterplan.hardware import Accelerator, System
from clusterplan.site import Cooling, Site
from clusterplan.workload import Model

MODEL = """
name = "NAME"
source = "a paper"
layers = 4
hidden = 64
vocab = 1000
ffn = 256
gated_mlp = true
tied_embeddings = false
attention = { heads = 8, kv_heads = 2, head_dim = 8 }
"""


@pytest.fixture(autouse=True)
def _nothing_of_the_user(monkeypatch, tmp_path):
    monkeypatch.delenv(ENVIRONMENT, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr(sys, "platform", "linux")


def add(directory, name, text=MODEL):
    (directory / "models").mkdir(parents=True, exist_ok=True)
    path = directory / "models" / f"{name}.toml"
    path.write_text(text.replace("NAME", name))
    return path


def test_built_in_profiles_are_found_by_name():
    catalog = Catalog()
    assert catalog.directories == (built_in_directory(),)
    assert "llama-3.1-405b" in catalog.names(Model)
    assert catalog.names("models") == catalog.names(Model)
    assert catalog.folders == tuple(FOLDERS)
    assert catalog.path("models", "gpt-1t").name == "gpt-1t.toml"
    assert catalog.load(Model, "gpt-1t").hidden == 25600


def test_a_profile_is_read_once():
    catalog = Catalog()
    assert catalog.load(Model, "gpt-1t") is catalog.load(Model, "gpt-1t")


def test_the_search_path_has_an_order(tmp_path, monkeypatch):
    given, named, other = tmp_path / "given", tmp_path / "named", tmp_path / "other"
    user = tmp_path / "config" / "clusterplan" / "profiles"
    for directory in (given, named, other, user):
        add(directory, directory.parent.name + directory.name)
    monkeypatch.setenv(ENVIRONMENT, os.pathsep.join(["", str(named), str(other)]))
    catalog = Catalog([given])
    assert catalog.directories == (given, named, other, user, built_in_directory())
    for directory in (given, named, other, user):
        assert catalog.load(Model, directory.parent.name + directory.name).layers == 4


def test_a_directory_that_is_named_twice_is_one(tmp_path, monkeypatch):
    add(tmp_path, "mine")
    monkeypatch.setenv(ENVIRONMENT, str(tmp_path))
    assert Catalog([tmp_path, tmp_path / "models" / ".."]).load(Model, "mine").layers == 4


def test_two_profiles_of_one_name_are_an_error_that_names_both(tmp_path):
    first, second = add(tmp_path / "a", "mine"), add(tmp_path / "b", "mine")
    catalog = Catalog([tmp_path / "a", tmp_path / "b"])
    assert catalog.names(Model).count("mine") == 1
    with pytest.raises(ProfileError) as caught:
        catalog.load(Model, "mine")
    assert str(first) in str(caught.value)
    assert str(second) in str(caught.value)


def test_a_name_of_a_built_in_profile_is_taken(tmp_path):
    add(tmp_path, "gpt-1t")
    with pytest.raises(ProfileError, match="two profiles have the name 'gpt-1t'"):
        Catalog([tmp_path]).load(Model, "gpt-1t")


def test_an_unknown_name_says_what_is_near():
    with pytest.raises(ProfileError) as caught:
        Catalog().load(Accelerator, "h100-smx-80gb")
    assert caught.value.message == "no accelerator profile named 'h100-smx-80gb'"
    assert caught.value.nearest[0] == "h100-sxm-80gb"


def test_a_name_that_is_near_to_nothing_says_what_there_is():
    with pytest.raises(ProfileError, match=r"no cooling profile named 'zzzz'; known: .*liquid-tower"):
        Catalog().load(Cooling, "zzzz")
    with pytest.raises(ProfileError, match=r"no site profile named 'zzzz'; clusterplan profiles list sites lists all"):
        Catalog().load(Site, "zzzz")


@pytest.mark.parametrize(
    "name", ["../models/gpt-1t", "/etc/passwd", "..", ".", "", "a\0b", "gpt-1t.toml", "x" * 9999, "GPT-1T"]
)
def test_a_name_is_never_a_path(name):
    with pytest.raises(ProfileError, match="no model profile named") as caught:
        Catalog().load(Model, name)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 500


def test_an_unknown_folder_says_what_is_near():
    with pytest.raises(ProfileError, match="no folder of profiles named 'sytems'; did you mean: systems"):
        Catalog().names("sytems")


@pytest.mark.parametrize("make", ["", "file", "pro\0files"])
def test_a_directory_that_is_not_there_is_an_error(tmp_path, monkeypatch, make):
    (tmp_path / "file").write_text("")
    directory = tmp_path / (make or "missing")
    with pytest.raises(ProfileError, match=r"^--profiles: no directory ") as caught:
        Catalog([directory])
    assert str(caught.value).isprintable()
    if "\0" not in make:
        monkeypatch.setenv(ENVIRONMENT, str(directory))
        with pytest.raises(ProfileError, match=f"^{ENVIRONMENT}: no directory "):
            Catalog()


@pytest.mark.parametrize(
    ("platform", "environment", "directory"),
    [
        ("linux", {"XDG_CONFIG_HOME": "/c", "HOME": "/h"}, "/c/clusterplan/profiles"),
        ("linux", {"XDG_CONFIG_HOME": "", "HOME": "/h"}, "/h/.config/clusterplan/profiles"),
        ("linux", {"XDG_CONFIG_HOME": "relative", "HOME": "/h"}, None),
        ("linux", {"XDG_CONFIG_HOME": "", "HOME": ""}, None),
        ("darwin", {"HOME": "/h"}, "/h/Library/Application Support/clusterplan/profiles"),
        ("win32", {"APPDATA": "/a", "HOME": ""}, "/a/clusterplan/profiles"),
        ("win32", {"APPDATA": "", "HOME": ""}, None),
    ],
)
def test_the_users_own_directory_is_where_the_platform_has_it(monkeypatch, platform, environment, directory):
    monkeypatch.setattr(sys, "platform", platform)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    found = user_directory()
    assert (None if found is None else found.as_posix()) == directory


def test_defaults_have_reasons():
    defaults = Catalog().defaults()
    assert defaults.seq_len == 8192
    assert defaults.precision == "bf16"
    assert defaults.tokens_per_parameter == 20
    assert defaults.operations.detect_s.origin.profile == "defaults"
    assert defaults.operations.detect_s.origin.key == "detect_s"
    assert all(defaults.sources[name] for name in ("site", "cooling", "prices", "storage", "seq_len", "confidence"))


def defaults_with(tmp_path, line, wrong):
    text = (built_in_directory() / "defaults.toml").read_text()
    assert line in text
    (tmp_path / "defaults.toml").write_text(text.replace(line, wrong, 1))
    return Catalog([tmp_path])


def test_the_first_defaults_on_the_path_hold(tmp_path):
    assert defaults_with(tmp_path, "seq_len = 8192", "seq_len = 4096").defaults().seq_len == 4096


@pytest.mark.parametrize(
    ("line", "wrong", "message"),
    [
        ("seq_len = 8192", "seq_len = 0", "[workload 1] seq_len: must be at least 1, not 0"),
        ("seq_len = 8192", "sequence_len = 1", "[workload 1] sequence_len: unknown key; did you mean: seq_len"),
        ("seq_len = 8192", "", "missing: seq_len"),
        (
            'precision = "bf16"',
            'precision = "bf17"',
            "[workload 2] precision: must be 'bf16', 'fp16', 'fp8', 'fp4' or 'int8'",
        ),
        ("[search]", "[serch]", "serch: unknown table; did you mean: search"),
        ("detect_s = 120", "detect_s = -1", "[operations.assumed 1] detect_s: must be at least 0, not -1"),
        ("detect_s = 120", "", "missing: detect_s"),
        ("devices_low = 8", "devices_low = 131_073", "devices_low: must be at most devices_high = 131072, not 131073"),
        ("[[operations.measured]]", "[[operations.heard]]", "[operations] heard: must be in a table [operations.KIND]"),
        ("confidence = 0.5", "confidence = 50", "[search 2] confidence: must be more than 0 and at most 1, not 50"),
    ],
)
def test_mistakes_in_defaults_are_named(tmp_path, line, wrong, message):
    catalog = defaults_with(tmp_path, line, wrong)
    with pytest.raises(ProfileError) as caught:
        catalog.defaults()
    assert message in str(caught.value)
    assert str(caught.value).isprintable()
    assert any(message in problem for problem in catalogs.check(tmp_path / "defaults.toml"))


def test_the_catalog_is_imported_without_pydantic():
    code = "import sys, clusterplan.catalog; sys.exit('pydantic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_systems_are_not_accelerators():
    catalog = Catalog()
    assert not set(catalog.names(System)) & set(catalog.names(Accelerator))
