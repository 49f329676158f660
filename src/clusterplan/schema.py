"""JSON Schema of the files of profiles, for editors: tables by kind with sources, keys in any unit of their field."""

from __future__ import annotations

from typing import Any

from clusterplan.fields import Field, fields_of, range_of
from clusterplan.reading import FOLDERS, folder_of
from clusterplan.trace import KINDS
from clusterplan.units import SUFFIXES, to_si

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def profile_schema(of: type | str) -> dict[str, Any]:
    """JSON Schema of the profiles of a folder.

    Parameters
    ----------
    of : type or str
        A folder, as ``accelerators``, or the record that its files become.
    """
    folder = folder_of(of)
    record = FOLDERS[folder]
    fields = fields_of(record)
    schema: dict[str, Any] = {"$schema": DIALECT, "title": f"clusterplan profile: {folder}"}
    if "source" in fields:  # a model: one source for the whole shape
        return schema | _table(record, required=[entry.name for entry in _needed(record)])
    tables: dict[str, Any] = {kind: _one_or_more(_sourced(record, nested=False)) for kind in KINDS}
    texts = {name: _value(record, entry) for name, entry in fields.items() if not entry.nested and not _counts(entry)}
    parts = {}
    for name, entry in fields.items():
        if entry.nested:
            part = _sourced(entry.base, kind=True)
            parts[name] = {"type": "array", "items": part, "minItems": 1} if entry.form == "list" else part
    needed = [entry.name for entry in _needed(record) if entry.name in texts or entry.name in parts]
    return schema | {
        "type": "object",
        "properties": {**texts, **parts, **tables},
        "required": needed,
        "additionalProperties": False,
    }


def keys_of(field: str) -> tuple[str, ...]:
    """Keys that stand for a field, in all units that it may be written in.

    Examples
    --------
    >>> keys_of("tdp_w"), keys_of("layers"), "memory_gib" in keys_of("memory_bytes")
    (('tdp_w', 'tdp_kw', 'tdp_mw', 'tdp_gw'), ('layers',), True)
    """
    head, per, tail = field.rpartition("_per_")
    tried = [_stem(field, unit.si) + suffix for suffix, unit in SUFFIXES.items() if _ends(field, unit.si)]
    if per:
        above = [_stem(head, unit.si) + suffix for suffix, unit in SUFFIXES.items() if _ends(head, unit.si)]
        below = [s for s, unit in SUFFIXES.items() if tail in {unit.si, "byte" if unit.si == "bytes" else ""}]
        tried += [f"{one}_per_{other}" for one in above or [head] for other in [tail, *below]]
    return tuple(key for key in dict.fromkeys([field, *tried]) if _is(key, field))


def _ends(field: str, si: str) -> bool:
    return field == si or field.endswith(f"_{si}")


def _stem(field: str, si: str) -> str:
    return field[: len(field) - len(si)]


def _is(key: str, field: str) -> bool:
    from clusterplan.errors import ClusterplanError

    try:
        return to_si(key, 1)[0] == field
    except ClusterplanError:
        return False


def _needed(record: type) -> list[Field]:
    """Fields that a file must have; its name may be left to the name of the file."""
    return [entry for entry in fields_of(record).values() if entry.required and entry.name != "name"]


def _counts(entry: Field) -> bool:
    return entry.base in (int, float)


def _table(record: type, *, nested: bool = True, required: list[str] | None = None) -> dict[str, Any]:
    """A table of fields, keys in any unit."""
    properties: dict[str, Any] = {}
    patterns: dict[str, Any] = {}
    for name, entry in fields_of(record).items():
        if entry.nested and not nested:
            continue
        properties[name] = _value(record, entry)
        others = keys_of(name)[1:] if _counts(entry) else ()
        if others:
            patterns[f"^({'|'.join(others)})$"] = _value(record, entry, is_scaled=True)
    table: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
    if patterns:
        table["patternProperties"] = patterns
    if required:
        table["required"] = [name for name in required if name in properties]
    return table


def _sourced(record: type, *, nested: bool = True, kind: bool = False) -> dict[str, Any]:
    """A table that says who says so, and how it is known where its name does not."""
    table = _table(record, nested=nested)
    table["properties"] |= {"source": {"type": "string", "minLength": 1}}
    if kind:
        table["properties"] |= {"kind": {"enum": list(KINDS)}}
    table["required"] = ["source", *(["kind"] if kind else [])]
    return table


def _one_or_more(table: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [table, {"type": "array", "items": table}]}


def _value(record: type, entry: Field, *, is_scaled: bool = False) -> dict[str, Any]:
    """What may stand for one field, in its own unit or in another one."""
    one: dict[str, Any]
    if entry.nested:
        one = _table(entry.base)
    elif entry.choices:
        one = {"enum": list(entry.choices)}
    elif entry.base is bool:
        one = {"type": "boolean"}
    elif entry.base is str:
        one = {"type": "string"}
    else:
        least, most, _ = range_of(record, entry.name)
        one = {"type": "integer" if entry.base is int else "number"}
        if least >= 0:
            one["minimum"] = least
        if most == 1 and not is_scaled:
            one["maximum"] = most
    if entry.form == "list":
        return {"type": "array", "items": one}
    return {"type": "object", "additionalProperties": one} if entry.form == "mapping" else one
