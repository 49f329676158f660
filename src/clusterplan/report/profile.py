"""Profiles: their figures with units and sources, and their names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from clusterplan import __version__
from clusterplan.report.blocks import Block, Document
from clusterplan.report.plain import joined, plain
from clusterplan.report.quantities import as_written, said, unit_at
from clusterplan.trace import Figure

PROFILE = "clusterplan/profile-1"

PROFILES = "clusterplan/profiles-1"


def profile_document(folder: str, name: str, path: str, record: object) -> dict[str, Any]:
    """Every figure of a profile with its unit, kind and source, in SI units.

    Parameters
    ----------
    folder, name : str
        Where the profile is found.
    path : str
        File that it was read from.
    record : dataclass
        What it became.
    """
    return {
        "schema": PROFILE,
        "version": __version__,
        "folder": folder,
        "name": name,
        "path": path,
        "figures": list(_figures(record, "")),
    }


def _figures(value: Any, path: str) -> Iterator[dict[str, Any]]:
    """Values of a record; a figure with where it is from."""
    if is_dataclass(value):
        for entry in fields(value):
            yield from _figures(getattr(value, entry.name), f"{path}.{entry.name}" if path else entry.name)
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _figures(inner, f"{path}.{key}")
    elif isinstance(value, list | tuple) and any(is_dataclass(one) for one in value):
        for one in value:
            yield from _figures(one, f"{path}.{one.name}")
    elif value is not None:
        origin = value.origin if isinstance(value, Figure) else None
        yield {
            "key": path,
            "value": joined(value) if isinstance(value, list | tuple) else plain(value),
            "unit": unit_at(path) if isinstance(value, float) else "",
            "kind": origin.kind if origin else "",
            "source": origin.source if origin else "",
            "file_key": origin.key if origin else path,
        }


def profile_blocks(document: Document) -> Iterator[Block]:
    """Blocks of a profile."""
    yield Block(title=f"{document['folder']}/{document['name']}", rows=(("", document["path"]),), are_notes=True)
    plain = [one for one in document["figures"] if not one["kind"]]
    if plain:
        yield Block(rows=tuple((one["key"], said("", one["value"])) for one in plain))
    sources: dict[tuple[str, str], list[Document]] = {}
    for one in document["figures"]:
        if one["kind"]:
            sources.setdefault((one["kind"], one["source"]), []).append(one)
    for (kind, source), figures in sources.items():
        rows = tuple((one["file_key"], as_written(one["file_key"], one["value"]), kind) for one in figures)
        yield Block(rows=rows, right=(1,), caption=source)


def profiles_document(names: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Names of profiles by folder."""
    rows = [{"folder": folder, "name": name} for folder, found in names.items() for name in found]
    return {"schema": PROFILES, "version": __version__, "profiles": rows}


def profiles_blocks(document: Document) -> Iterator[Block]:
    """Blocks of a list of profiles."""
    folders: dict[str, list[str]] = {}
    for row in document["profiles"]:
        folders.setdefault(row["folder"], []).append(row["name"])
    for folder, names in folders.items():
        yield Block(title=folder, rows=tuple(("", name) for name in names), are_notes=True)
