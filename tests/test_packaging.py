"""What users install: profiles in every kind of package, one version, quick help."""

import os
import shutil
import subprocess
import sys
import tarfile
import warnings
import zipfile
from dataclasses import dataclass
from email.parser import Parser
from pathlib import Path

import pytest

import clusterplan

ROOT = Path(__file__).parents[1]
DATA = {f"profiles/{p.relative_to(ROOT / 'profiles')}" for p in (ROOT / "profiles").rglob("*.csv")}
PROFILES = sorted(f"profiles/{p.relative_to(ROOT / 'profiles')}" for p in (ROOT / "profiles").rglob("*.toml"))

# --- Packages ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Packages:
    """The three kinds of package, and the wheel that is made from the sdist."""

    source: Path
    """Copy of the checkout that they were made from."""
    sdist: Path
    wheel: Path
    editable: Path
    wheel_of_sdist: Path


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Packages:
    pytest.importorskip("build", reason="packages are made with the package build: pip install -e '.[dev]'")
    from build import ProjectBuilder
    from build.env import DefaultIsolatedEnv

    base = tmp_path_factory.mktemp("packages")
    source = base / "source"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    for name in ("src", "profiles"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    with DefaultIsolatedEnv() as env:
        builder = ProjectBuilder.from_isolated_env(env, source, runner=quiet)
        env.install(builder.build_system_requires)
        sdist = Path(builder.build("sdist", base))
        wheel = Path(builder.build("wheel", base / "wheel"))
        shutil.rmtree(source / "build", ignore_errors=True)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Editable installation")  # advice that everybody gets
            editable = Path(builder.build("editable", base / "editable"))
        with tarfile.open(sdist) as archive:
            archive.extractall(base, filter="data")
        unpacked = ProjectBuilder.from_isolated_env(env, base / sdist.name.removesuffix(".tar.gz"), runner=quiet)
        wheel_of_sdist = Path(unpacked.build("wheel", base / "wheel-of-sdist"))
    return Packages(source, sdist, wheel, editable, wheel_of_sdist)


def quiet(command: list[str], cwd: str | None = None, extra_environ: dict[str, str] | None = None) -> None:
    environment = {**os.environ, **(extra_environ or {})}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def unpacked(package: Path, into: Path) -> Path:
    with zipfile.ZipFile(package) as archive:
        archive.extractall(into)
    return into


def python(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """A Python that sees neither this process's packages nor the checkout."""
    return subprocess.run(
        [sys.executable, "-I", "-S", *arguments], cwd=cwd, capture_output=True, text=True, check=False, timeout=60
    )


FIND = """
import site, sys
site.addsitedir(sys.argv[1])
from clusterplan.catalog import FOLDERS, Catalog
catalog = Catalog()
for folder in FOLDERS:
    for name in catalog.names(folder):
        print(catalog.path(folder, name))
print(catalog.directories[-1] / "defaults.toml")
"""
together = pytest.mark.xdist_group("packages")  # so that one process makes them, once


def found(package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    monkeypatch.delenv("CLUSTERPLAN_PROFILES", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    done = python("-c", FIND, str(unpacked(package, tmp_path / "installed")), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    return [Path(line) for line in done.stdout.splitlines()]


@together
@pytest.mark.parametrize("kind", ["wheel", "wheel_of_sdist"])
def test_a_wheel_brings_all_profiles(kind, packages, tmp_path, monkeypatch):
    files = found(getattr(packages, kind), tmp_path, monkeypatch)
    home = tmp_path / "installed" / "clusterplan"
    assert sorted(str(f.relative_to(home)) for f in files) == PROFILES
    assert all(f.read_bytes() == (ROOT / f.relative_to(home)).read_bytes() for f in files)


@together
def test_an_editable_install_uses_the_profiles_of_the_checkout(packages, tmp_path, monkeypatch):
    files = found(packages.editable, tmp_path, monkeypatch)
    assert sorted(str(f.relative_to(packages.source)) for f in files) == PROFILES


@together
def test_an_sdist_has_all_profiles_and_the_licence(packages):
    with tarfile.open(packages.sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {*PROFILES, *DATA} <= names
    assert {"LICENSE", "README.md", "pyproject.toml"} <= names


@together
def test_both_wheels_are_the_same(packages):
    def contents(package: Path) -> dict[str, bytes]:
        with zipfile.ZipFile(package) as archive:
            return {name: archive.read(name) for name in archive.namelist() if not name.endswith("/RECORD")}

    assert contents(packages.wheel) == contents(packages.wheel_of_sdist)


@together
def test_a_wheel_has_the_package_and_nothing_else(packages):
    with zipfile.ZipFile(packages.wheel) as archive:
        names = set(archive.namelist())
    modules = {f"clusterplan/{p.relative_to(ROOT / 'src/clusterplan')}" for p in (ROOT / "src").rglob("*.py")}
    modules |= {"clusterplan/py.typed", "clusterplan/profiles/__init__.py"}
    data = {f"clusterplan/{p}" for p in (*PROFILES, *DATA)}
    assert {name for name in names if ".dist-info/" not in name} == modules | data


@together
def test_the_metadata_has_the_version_of_the_package(packages):
    with zipfile.ZipFile(packages.wheel) as archive:
        name = f"clusterplan-{clusterplan.__version__}.dist-info"
        metadata = Parser().parsestr(archive.read(f"{name}/METADATA").decode())
        licence = archive.read(f"{name}/licenses/LICENSE").decode()
        scripts = archive.read(f"{name}/entry_points.txt").decode()
    assert metadata["Version"] == clusterplan.__version__
    assert metadata["License-Expression"] == "Apache-2.0"
    assert licence == (ROOT / "LICENSE").read_text()
    assert "clusterplan = clusterplan.cli:main" in scripts


# --- What a start imports ---------------------------------------------------------------------------------------------


def imported(*arguments: str) -> set[str]:
    """Packages that a fresh process imports."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, "-X", "importtime", *arguments], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    rows = [line.rsplit("|", 1)[-1].strip() for line in done.stderr.splitlines() if line.startswith("import time:")]
    return {name.partition(".")[0] for name in rows}


@pytest.mark.parametrize("arguments", [("--help",), ("--version",)])
def test_help_imports_nothing_heavy(arguments):
    packages = imported("-m", "clusterplan", *arguments)
    assert "typer" in packages
    assert packages.isdisjoint({"numpy", "scipy", "pydantic", "rich", "tomli_w"})


def test_the_catalog_lists_names_without_pydantic_and_numpy():
    packages = imported("-c", "from clusterplan.catalog import Catalog; Catalog().names('models')")
    assert "clusterplan" in packages
    assert packages.isdisjoint({"numpy", "scipy", "pydantic", "rich", "typer"})


def test_a_command_that_lists_profiles_solves_nothing():
    packages = imported("-m", "clusterplan", "profiles", "list")
    assert packages.isdisjoint({"scipy", "matplotlib"})
