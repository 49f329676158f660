"""Commands over profiles: lists, copies to start from, checks, and plain names."""

import json

import pytest

from clusterplan.catalog import FOLDERS, Catalog, built_in_directory
from clusterplan.hardware import Accelerator, System
from examples import asked
from test_cli import ONE, SHOWN, refused, run

# --- Lists ---


def rows(*arguments):
    result = run("profiles", "list", *arguments, "--json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)["profiles"]


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_list_has_the_main_figures_and_fits_a_page(folder):
    found = rows(folder)
    assert [row["name"] for row in found] == list(Catalog().names(folder))
    assert all(len(row) >= 5 and "problem" not in row for row in found)
    lines = run("profiles", "list", folder).stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert len(lines) == len(found) + 2  # a title and a head; no row takes two lines


def test_figures_of_a_list():
    (h100,) = [row for row in rows("accelerators") if row["name"] == "h100-sxm-80gb"]
    assert (h100["vendor"], h100["tdp_w"], h100["is_measured"], h100["status"]) == ("NVIDIA", 700, True, "")
    assert h100["peak_flop_per_s"] == 989.4e12
    systems = {row["name"]: row for row in rows("systems")}
    assert systems["dgx-h100"]["has_price"]
    assert not systems["atlas-950-8192"]["has_price"]
    assert systems["atlas-950-8192"]["status"] == "announced"


def test_a_list_can_be_filtered_and_sorted():
    found = rows("accelerators", "--match", "nvidia", "--sort", "-memory_bytes")
    assert {row["vendor"] for row in found} == {"NVIDIA"}
    sizes = [row["memory_bytes"] for row in found]
    assert sizes == sorted(sizes, reverse=True)
    cheap = rows("sites", "--sort", "usd_per_kwh")
    assert cheap[0]["name"] == "qa-doha"
    folders = [row["folder"] for row in rows("--match", "h100", "--sort", "name")]
    assert folders == sorted(folders, key=list(FOLDERS).index)
    assert run("profiles", "list", "--match", "no such text").stdout == "  no profile\n"
    refused(run("profiles", "list", "systems", "--sort", "rated_kw"), "--sort", "rated_w")


def test_a_list_goes_on_past_a_broken_profile(tmp_path):
    (tmp_path / "sites").mkdir()
    (tmp_path / "sites" / "mine.toml").write_text("name = 3")
    (mine,) = [row for row in rows("sites", "--profiles", tmp_path) if row["name"] == "mine"]
    assert "name" in mine["problem"]
    assert "sites that cannot be read" in run("profiles", "list", "sites", "--profiles", tmp_path).stdout


# --- Starting a profile ---


@pytest.mark.parametrize("name", [*SHOWN, "models/deepseek-v3"])
def test_a_copy_under_another_name_is_right(tmp_path, name):
    folder = tmp_path / name.split("/")[0]
    folder.mkdir()
    text = run("profiles", "show", name, "--toml").stdout
    (folder / "mine.toml").write_text(text, encoding="utf-8")
    result = run("profiles", "check", folder / "mine.toml")
    assert (result.exit_code, result.stderr) == (0, "")


def test_a_copy_without_its_name_whose_lists_take_several_lines(tmp_path):
    folder = tmp_path / "accelerators"
    folder.mkdir()
    text = run("profiles", "show", "h100-sxm-80gb", "--toml").stdout
    (folder / "mine.toml").write_text('aliases = [\n  "a",\n  "b",\n]\n' + text, encoding="utf-8")
    (folder / "yours.toml").write_text(run("profiles", "show", "mine", "--toml", "--profiles", tmp_path).stdout)
    assert Catalog([tmp_path]).load(Accelerator, "yours").aliases == ()
    assert run("profiles", "check", "--profiles", tmp_path).exit_code == 0


def own(tmp_path, device):
    """Profiles of a device and of a server with it."""
    for folder in ("accelerators", "systems"):
        (tmp_path / folder).mkdir(exist_ok=True)
    named = device.replace("title of the datasheet, date, column", "Mine 96GB, datasheet of 2026, first column")
    (tmp_path / "accelerators" / "mine-96gb.toml").write_text(named, encoding="utf-8")
    server = run("profiles", "show", "dgx-h100", "--toml").stdout.replace('"h100-sxm-80gb"', '"mine-96gb"')
    (tmp_path / "systems" / "my-server.toml").write_text(server, encoding="utf-8")
    return tmp_path


def estimated(directory, system="my-server"):
    arguments = [system if one == "dgx-h100" else one for one in ONE]
    price = f"prices.system_usd.{system}=300000"
    result = run("estimate", *arguments, "--profiles", directory, "--set", price, "--json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def test_a_device_of_ten_lines_is_planned_with_a_wider_interval(tmp_path):
    text = run("profiles", "show", "h100-sxm-80gb", "--like").stdout
    assert len(text.splitlines()) <= 14
    directory = own(tmp_path, text.replace("memory_gib = 79.2", "memory_gib = 95"))
    assert run("profiles", "check", "--profiles", directory).exit_code == 0
    mine, h100 = estimated(directory), estimated(directory, "dgx-h100")
    assert mine["plan"]["step"]["total_s"] == pytest.approx(h100["plan"]["step"]["total_s"])
    width = [(one["plan"]["step"]["interval"]["high_s"] / one["plan"]["step"]["total_s"] - 1) for one in (mine, h100)]
    assert width[0] == pytest.approx((width[1] ** 2 + 0.21**2) ** 0.5)
    assert any("no training run on mine-96gb is among the measured ones" in text for text in mine["warnings"])
    assert not any("no training run" in text for text in h100["warnings"])
    device = Catalog([directory]).load(Accelerator, "mine-96gb")
    assert device.tdp_w.origin.kind == "datasheet"
    for figure in (device.k_ramp, device.gemm_efficiency["bf16"], device.failures_per_device_s, device.idle_w):
        assert figure.origin.kind == "assumed"
        assert figure.origin.source.startswith("assumed: as h100-sxm-80gb, its nearest measured relative: ")
        assert figure.origin.profile == "accelerators/mine-96gb"


@pytest.mark.parametrize(
    ("like", "message"),
    [
        ("h100-sxm-80", "like: no accelerator profile named 'h100-sxm-80'; did you mean: h100-sxm-80gb"),
        ("mi300x", "like: mi300x is not measured itself; name a device that is"),
        ("mine-96gb", "like: "),
    ],
)
def test_a_relative_is_a_measured_device(tmp_path, like, message):
    text = run("profiles", "show", "h100-sxm-80gb", "--like").stdout
    directory = own(tmp_path, text.replace('like = "h100-sxm-80gb"', f'like = "{like}"'))
    result = run("profiles", "check", directory / "accelerators")
    assert result.exit_code == 1
    assert f"mine-96gb.toml:3: {message}" in result.stderr
    assert ("a ring of relatives" in result.stderr) == (like == "mine-96gb")


def test_only_a_measured_device_is_a_start():
    refused(run("profiles", "show", "mi300x", "--like"), "--like", "no run on mi300x is known")
    refused(run("profiles", "show", "dgx-h100", "--like"), "--like", "is for accelerators")


# --- Checks ---


def test_check_takes_folders_and_says_file_line_and_right_value(tmp_path):
    text = run("profiles", "show", "h100-sxm-80gb", "--like").stdout
    directory = own(tmp_path, text.replace("bf16_tflops = 989.4", "bf16_tflops = 1979").replace("79.2", "95"))
    server = directory / "systems" / "my-server.toml"
    server.write_text(server.read_text().replace("scaleup_gb_per_s = 450", "scaleup_gb_per_s = 900"))
    server.write_text(server.read_text().replace('"ndr-fat-tree"', '"ndr-fat-treee"'))
    result = run("profiles", "check", directory)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "mine-96gb.toml:7: bf16_tflops: " in result.stderr
    assert "Dense would be bf16_tflops = 989.5" in result.stderr
    assert "my-server.toml:13: scaleup_gb_per_s: " in result.stderr
    assert "One way: scaleup_gb_per_s = 450" in result.stderr
    assert (
        "my-server.toml:5: fabric: no fabric profile named 'ndr-fat-treee'; did you mean: ndr-fat-tree" in result.stderr
    )
    told = json.loads(run("profiles", "check", directory, "--json").stdout)
    assert [len(one["problems"]) for one in told["files"]] == [1, 2]


def test_software_that_names_no_device_is_found(tmp_path):
    (tmp_path / "stacks").mkdir()
    text = run("profiles", "show", "megatron-bridge-2026", "--toml").stdout
    file = tmp_path / "stacks" / "mine.toml"
    file.write_text(text.replace('"b200-sxm-180gb", ', '"b200-sxm", '))
    result = run("profiles", "check", file)
    assert result.exit_code == 1
    assert "free_of_stalls: no accelerator profile named 'b200-sxm'; did you mean: b200-sxm-180gb" in result.stderr
    file.write_text(text)
    assert run("profiles", "check", file).exit_code == 0


def test_check_of_all_built_in_profiles():
    result = run("profiles", "check", built_in_directory())
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.endswith(" profiles: no problem\n")


def test_check_needs_something_to_check(tmp_path):
    assert run("profiles", "check").exit_code == 2
    refused(run("profiles", "check", tmp_path), "has no profile in it")


def test_schema():
    told = json.loads(run("profiles", "schema", "accelerators").stdout)
    assert told["properties"]["vendor"] == {"type": "string"}
    assert run("profiles", "schema", "accelerator").stdout == run("profiles", "schema", "accelerators").stdout
    refused(run("profiles", "schema", "acelerators"), "accelerators")


# --- Names that leave something open ---


@pytest.mark.parametrize(
    ("name", "system"),
    [
        ("h100", "dgx-h100"),
        ("H100", "dgx-h100"),
        ("a100", "dgx-a100"),
        ("b200", "dgx-b200"),
        ("gb200", "gb200-nvl72"),
        ("mi300x", "mi300x-platform"),
        ("h200-sxm-141gb", "dgx-h200"),
        ("trainium2", "trn2-48xlarge"),
        ("frontier", "frontier-node"),
    ],
)
def test_a_plain_name_is_the_usual_system(name, system):
    assert Catalog().systems_called(name) == (system,)


def test_what_was_taken_is_said():
    arguments = ["h100" if one == "dgx-h100" else one for one in ONE]
    document = json.loads(run("estimate", *arguments, "--json").stdout)
    assert document["inputs"]["hardware"] == ["dgx-h100"]
    assert any(text.startswith("h100 is taken as dgx-h100, with h100-sxm-80gb") for text in document["warnings"])


@pytest.mark.parametrize("name", ["gh200", "tpu", "trn2", "atlas-950"])
def test_an_ambiguous_name_lists_the_choices(name):
    arguments = [name if one == "dgx-h100" else one for one in ONE]
    refused(run("estimate", *arguments), "--hardware", "may be any of", *Catalog().systems_called(name))


@pytest.mark.parametrize("name", Catalog().names(Accelerator))
def test_a_device_of_several_systems_that_is_measured_has_a_usual_one(name):
    catalog = Catalog()
    device = catalog.load(Accelerator, name)
    assert all(catalog.load(System, one).accelerator == name for one in catalog.systems_with(device))
    assert len(catalog.systems_with(device)) == 1 or not device.is_measured


def test_figures_that_were_not_read_are_told_in_one_line():
    (told,) = [text for text in asked(hardware="tpu-v3-pod").warnings if "recalled" in text]
    assert "figures are recalled (" in told
    assert "systems/tpu-v3-pod " in told
    assert "accelerators/tpu-v3 " in told


def test_the_name_may_be_left_to_the_file(tmp_path):
    (tmp_path / "models").mkdir()
    text = (built_in_directory() / "models" / "gpt-1t.toml").read_text(encoding="utf-8")
    (tmp_path / "models" / "mine.toml").write_text(text.replace('name = "gpt-1t"\n', ""), encoding="utf-8")
    assert "mine" in run("models", "show", "mine", "--profiles", tmp_path).stdout


def test_an_interval_that_the_user_gives_is_kept():
    given = asked(hardware="mi300x-platform", sets={"stack.step_error_fraction": "0.1"})
    assert given.hardware[0].stack.step_error_fraction == 0.1
    wider = asked(hardware="mi300x-platform").hardware[0].stack.step_error_fraction
    assert wider.origin.kind == "assumed"
    assert asked(hardware="dgx-h100").hardware[0].stack.step_error_fraction < wider
    assert not any("no training run" in text for text in given.warnings)


def test_a_reason_of_a_column_is_not_what_all_have():
    arguments = ("compare", "llama-3.1-8b", "--hardware", "a100,h100", "--precision", "fp8", "--devices", "64")
    text = run(*arguments, "--tokens", "100B").stdout
    assert "dgx-a100: no feasible plan\n  dgx-a100 with megatron-core has no fp8" in text
    assert "\n  a100 is taken as dgx-a100" in text


def test_check_says_that_a_name_is_taken(tmp_path):
    (tmp_path / "systems").mkdir()
    text = Catalog().path("systems", "dgx-h100").read_text(encoding="utf-8")
    (tmp_path / "systems" / "dgx-h100.toml").write_text(text, encoding="utf-8")
    assert run("profiles", "check", tmp_path).exit_code == 0  # a copy, which no plan finds
    result = run("profiles", "check", "--profiles", tmp_path)
    assert result.exit_code == 1
    assert "has the same name; rename one of them" in result.stderr
