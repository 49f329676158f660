"""The catalog: where profiles are found by their names."""

from __future__ import annotations

import json
import os
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from clusterplan import plausible
from clusterplan.errors import ProfileError
from clusterplan.files import printable, read_text
from clusterplan.hardware import Accelerator, Fabric, Stack, System
from clusterplan.reading import (
    FOLDERS,
    Defaults,
    Record,
    folder_of,
    json_schema,
    parse_toml,
    read,
    read_defaults,
    shown,
    unknown,
)
from clusterplan.reading import check as check_file
from clusterplan.site import Prices, Site
from clusterplan.trace import Figure

__all__ = [
    "FOLDERS",
    "Catalog",
    "Defaults",
    "built_in_directory",
    "check",
    "check_all",
    "copied",
    "json_schema",
    "measured_files",
    "relative_of",
    "user_directory",
]

NOUNS: Mapping[str, str] = {
    "accelerators": "accelerator",
    "systems": "system",
    "fabrics": "fabric",
    "stacks": "stack",
    "storage": "storage",
    "models": "model",
    "sites": "site",
    "cooling": "cooling",
    "prices": "price",
}
"""What a message calls the profiles of a folder."""

ENVIRONMENT = "CLUSTERPLAN_PROFILES"
"""Environment variable with directories of profiles, separated as in ``PATH``."""


class Catalog:
    """Profiles on a search path.

    Parameters
    ----------
    directories : sequence of path
        Directories that are looked at first. Those of ``CLUSTERPLAN_PROFILES``, the user's own and the built-in
        ones follow.
    takes_first : bool
        Whether the first of several profiles of one name is taken; otherwise they are an error.
    """

    def __init__(self, directories: Sequence[str | os.PathLike[str]] = (), *, takes_first: bool = False) -> None:
        self.takes_first = takes_first
        self._open: list[str] = []
        given = [("--profiles", Path(directory)) for directory in directories]
        named = [(ENVIRONMENT, Path(part)) for part in os.environ.get(ENVIRONMENT, "").split(os.pathsep) if part]
        for origin, directory in given + named:
            if not _is_directory(directory):
                raise ProfileError(f"no directory {printable(directory)}", where=origin)
        user = user_directory()
        path = [directory for _, directory in given + named]
        if user is not None and _is_directory(user):
            path.append(user)
        path.append(built_in_directory())
        self.directories: tuple[Path, ...] = tuple({os.path.realpath(d): d for d in reversed(path)}.values())[::-1]
        self._files: dict[str, dict[str, list[Path]]] = {}
        self._records: dict[tuple[type, str], Any] = {}
        self._defaults: Defaults | None = None

    @property
    def folders(self) -> tuple[str, ...]:
        """Folders that a directory of profiles may have."""
        return tuple(FOLDERS)

    def names(self, of: type | str) -> tuple[str, ...]:
        """Names of all profiles of a folder, or of the record that its files become."""
        return tuple(sorted(self._found(folder_of(of))))

    def files(self, of: type | str, name: str) -> tuple[Path, ...]:
        """Files of a name: one, none, or several that are in each other's way."""
        return tuple(self._found(folder_of(of)).get(name, ()))

    def path(self, of: type | str, name: str) -> Path:
        """File of a profile; an error if there is none or more than one."""
        folder = folder_of(of)
        found = self._found(folder).get(name, [])
        if not found:
            message, listed_by = (
                f"no {NOUNS[folder]} profile named {shown(name)}",
                f"clusterplan profiles list {folder}",
            )
            raise unknown(message, name, self.names(folder), listed_by=listed_by)
        if len(found) > 1 and not self.takes_first:
            raise ProfileError(
                f"two profiles have the name {name!r}: {printable(found[0])} and {printable(found[1])}; "
                "rename one of them"
            )
        return found[0]

    def load(self, record: type[Record], name: str) -> Record:
        """Record of a profile; it is read once.

        Parameters
        ----------
        record : type
            One of the records in :data:`FOLDERS`.
        name : str
            Name of the profile.
        """
        if (record, name) not in self._records:
            self._records[record, name] = read(record, self.path(record, name), self.relative)
        loaded: Record = self._records[record, name]
        return loaded

    def systems_with(self, device: Accelerator) -> tuple[str, ...]:
        """Names of the systems that a device may mean: the usual one, or all that have it."""
        if device.system:
            return (device.system,)
        return tuple(name for name in self.names(System) if self.load(System, name).accelerator == device.name)

    def systems_called(self, name: str) -> tuple[str, ...]:
        """Names of the systems that a name of no system may mean: one if that is clear, else those to choose from."""
        wanted = name.lower()
        devices = [self.load(Accelerator, one) for one in self.names(Accelerator)]
        meant = [one for one in devices if wanted in {one.name, *one.plain, *map(str.lower, one.aliases)}]
        if not meant:
            meant = [one for one in devices if wanted and one.name.startswith(f"{wanted}-")]
        begun = [one for one in self.names(System) if wanted and one.startswith(f"{wanted}-")]
        found = [one for device in meant for one in self.systems_with(device)] or begun
        return tuple(dict.fromkeys(found))

    def relative(self, name: str) -> Accelerator:
        """Device whose constants another one takes."""
        if name in self._open:
            raise ProfileError(f"{' is like '.join([*self._open, name])}, a ring of relatives")
        self._open.append(name)
        try:
            return self.load(Accelerator, name)
        finally:
            self._open.pop()

    def defaults(self) -> Defaults:
        """Defaults of the first directory that has a ``defaults.toml``."""
        if self._defaults is None:
            files = [directory / "defaults.toml" for directory in self.directories]
            self._defaults = read_defaults(next((path for path in files if path.exists()), files[-1]))
        return self._defaults

    def _found(self, folder: str) -> dict[str, list[Path]]:
        """Files of a folder by name, in the order of the search path."""
        if folder not in self._files:
            files: dict[str, list[Path]] = {}
            for directory in self.directories:
                try:
                    entries = sorted(path for path in (directory / folder).iterdir() if path.suffix == ".toml")
                except FileNotFoundError:
                    continue
                except OSError as problem:
                    raise ProfileError(
                        f"cannot be listed: {problem.strerror}", where=printable(directory / folder)
                    ) from None
                for entry in entries:
                    files.setdefault(entry.stem, []).append(entry)
            self._files[folder] = files
        return self._files[folder]


def check(path: Path, catalog: Catalog | None = None) -> list[str]:
    """Everything that is wrong or unlikely in a profile, a line each with its file and line; empty if nothing is.

    Parameters
    ----------
    path : Path
        TOML file. What it describes is told by the folder that it lies in, or else by its keys.
    catalog : Catalog
        Where profiles are found that it names; those of its own directory and the built-in ones unless given.
    """
    if catalog is None:
        catalog = Catalog(_roots([path]), takes_first=True)
    return check_file(path, catalog.relative, lambda record: _doubts(record, catalog))


def check_all(paths: Iterable[Path], directories: Sequence[Path] = ()) -> dict[Path, list[str]]:
    """What is wrong with profiles, by file.

    Parameters
    ----------
    paths : iterable of path
        Files, and folders of which all profiles are meant.
    directories : sequence of path
        Directories of profiles that they may name, as ``--profiles`` gives them. All profiles in them are checked
        if no path is given.
    """
    files: dict[Path, None] = {}
    for path in paths or directories:
        found = sorted(path.rglob("*.toml")) if _is_directory(path) else [path]
        if not found:
            raise ProfileError("has no profile in it", where=printable(path))
        files |= dict.fromkeys(found)
    catalog = Catalog([*directories, *_roots(files)], takes_first=True)
    used = Catalog(directories)
    return {path: [*check(path, catalog), *_taken(path, used)] for path in files}


def _taken(path: Path, used: Catalog) -> list[str]:
    """That a profile on the search path has a name of another one, if it has."""
    folder = path.absolute().parent
    if folder.name not in FOLDERS or os.path.realpath(folder.parent) not in map(os.path.realpath, used.directories):
        return []
    others = [one for one in used.files(folder.name, path.stem) if not one.samefile(path)]
    return [f"{printable(path)}: {printable(one)} has the same name; rename one of them" for one in others]


OWN = ("name", "aliases", "plain", "system", "is_measured")
"""What a profile says of itself, and no other may say by being copied."""


def copied(path: Path) -> str:
    """Text of a profile that may be saved under another name: without what holds of it alone.

    Parameters
    ----------
    path : Path
        TOML file.
    """
    text = read_text(path, ProfileError)
    content = {key: value for key, value in parse_toml(text, printable(path)).items() if key not in OWN}
    kept, in_top = [], True
    for line in text.splitlines(keepends=True):
        in_top = in_top and not line.startswith("[")
        if not (in_top and line.split("=")[0].strip() in OWN):
            kept.append(line)
    with suppress(ValueError):  # a list over several lines, of which the first is gone
        if tomllib.loads("".join(kept)) == content:
            return "".join(kept)
    import tomli_w

    return tomli_w.dumps(content)


def relative_of(device: Accelerator) -> str:
    """Ten lines of a device like another one: what its datasheet says, to be changed; all else is the other's.

    Parameters
    ----------
    device : Accelerator
        A device of which runs are known.
    """
    if not device.is_measured:
        raise ProfileError(f"no run on {device.name} is known; start from a device that is measured", where="--like")
    texts = {"vendor": device.vendor, "device": device.device, "like": device.name}
    figures = [getattr(device, name) for name in DATASHEET]
    lines = [
        *(f"{key} = {json.dumps(text)}" for key, text in texts.items()),
        "",
        "[datasheet]",
        f'source = "{plausible.UNNAMED_SOURCE}"',
        *(plausible.written(figure, figure) for figure in figures if isinstance(figure, Figure)),
        f"compute_units = {device.compute_units}",
    ]
    return "\n".join(lines) + "\n"


DATASHEET = (
    "bf16_flop_per_s", "fp16_flop_per_s", "fp8_flop_per_s", "fp4_flop_per_s", "int8_flop_per_s", "memory_bytes",
    "memory_bytes_per_s", "tdp_w",
)  # fmt: skip
"""Figures of a device that its datasheet has, and that no relative stands for."""


def _roots(paths: Iterable[Path]) -> list[Path]:
    """Directories of profiles that files lie in."""
    inside = [path.absolute().parent for path in paths]
    return list(dict.fromkeys(folder.parent for folder in inside if folder.name in FOLDERS and _is_directory(folder)))


def _doubts(record: Any, catalog: Catalog) -> Iterator[tuple[str, str]]:
    """Names that a record has of no profile, and what is unlikely about its figures."""
    named: dict[str, Any] = {}
    for key, of in NAMED.items():
        name = getattr(record, key, "")
        if isinstance(record, System | Accelerator) and name and isinstance(name, str):
            try:
                named[key] = catalog.load(of, name)
            except ProfileError as problem:
                yield key, str(problem)
    if isinstance(record, Accelerator):
        yield from plausible.implausible_device(record)
    elif isinstance(record, System):
        device = named.get("accelerator")
        yield from plausible.implausible_system(record, device, named.get("fabric"), _others(catalog, device))
    elif isinstance(record, Fabric):
        yield from plausible.implausible_fabric(record)
    elif isinstance(record, Site):
        yield from plausible.implausible_site(record)
    elif isinstance(record, Stack):
        try:
            check_devices(record, catalog)
        except ProfileError as problem:
            yield "free_of_stalls", str(problem)
    elif isinstance(record, Prices):
        for key in ("rent_usd_per_device_h", "system_usd"):
            for name in getattr(record, key):
                if name not in catalog.names(System):
                    yield key, str(unknown(f"no system profile named {shown(name)}", name, catalog.names(System)))


def check_devices(stack: Stack, catalog: Catalog, where: str = "") -> None:
    """Raise if software names a device of which there is no profile: what it says of that device holds of none."""
    if not stack.free_of_stalls:
        return
    known = catalog.names(Accelerator)
    for name in stack.free_of_stalls:
        if name not in known:
            raise unknown(f"no accelerator profile named {shown(name)}", name, known, where=where)


NAMED: Mapping[str, type] = {
    "accelerator": Accelerator,
    "fabric": Fabric,
    "stack": Stack,
    "system": System,
    "like": Accelerator,
}
"""Fields of systems and devices that hold the name of another profile."""


def _others(catalog: Catalog, device: Accelerator | None) -> list[System]:
    """Systems with a device, or with its relative if that has about the same memory bandwidth."""
    if device is None:
        return []
    names = {device.name}
    if device.like:
        relative = catalog.relative(device.like)
        if 0.7 <= device.memory_bytes_per_s / relative.memory_bytes_per_s <= 1.4:
            names.add(relative.name)
    found = []
    for name in catalog.names(System):
        with suppress(ProfileError):
            system = catalog.load(System, name)
            if system.accelerator in names:
                found.append(system)
    return found


def user_directory() -> Path | None:
    """Directory for profiles of the user's own, as the platform has it; None if the user has no home."""
    home = os.environ.get("HOME", "")
    if sys.platform == "win32":
        base = os.environ.get("APPDATA", "")
    elif sys.platform == "darwin":
        base = home and f"{home}/Library/Application Support"
    else:
        base = os.environ.get("XDG_CONFIG_HOME", "") or (home and f"{home}/.config")
    return Path(base, "clusterplan", "profiles") if Path(base).is_absolute() else None


def built_in_directory() -> Path:
    """Directory of the profiles that come with the package."""
    from importlib.resources import files

    try:
        return Path(str(files("clusterplan.profiles")))
    except ModuleNotFoundError:  # run from a checkout that is not installed
        return Path(__file__).resolve().parents[2] / "profiles"


def measured_files() -> list[Path]:
    """Tables of published runs that come with the package."""
    return sorted((built_in_directory() / "measured").glob("*.csv"))


def _is_directory(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False
