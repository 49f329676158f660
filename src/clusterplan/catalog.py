"""The catalog: where profiles are found by their names."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from clusterplan.errors import ProfileError
from clusterplan.files import printable
from clusterplan.reading import (
    FOLDERS,
    Defaults,
    Record,
    check,
    folder_of,
    json_schema,
    read,
    read_defaults,
    shown,
    unknown,
)

__all__ = [
    "FOLDERS",
    "Catalog",
    "Defaults",
    "built_in_directory",
    "check",
    "json_schema",
    "measured_files",
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
    """

    def __init__(self, directories: Sequence[str | os.PathLike[str]] = ()) -> None:
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
        if len(found) > 1:
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
            self._records[record, name] = read(record, self.path(record, name))
        loaded: Record = self._records[record, name]
        return loaded

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
