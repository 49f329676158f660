"""Plain JSON values: records as documents, documents as text, and the ways into them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from clusterplan.report.blocks import Document
from clusterplan.report.remarks import reason
from clusterplan.trace import Figure


def to_json(document: Document) -> str:
    """The document with sorted keys, in ASCII, so that the same answer is the same bytes everywhere."""
    return f"{dumps(document, indent=2)}\n"


def dumps(value: Any, indent: int | None = None) -> str:
    """JSON with sorted keys, in ASCII."""
    return json.dumps(value, indent=indent, sort_keys=True, allow_nan=False)


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Numbers and texts of a document with the way to each; of lists, only those that fit into one cell."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from leaves(inner, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        if path == "blocking":
            yield path, "; ".join(reason(one) for one in value)
        elif all(not isinstance(one, Mapping | list) for one in value):
            yield path, joined(value)
    elif isinstance(value, bool):
        yield path, str(value).lower()
    else:
        yield path, "" if value is None else value


def joined(value: Any) -> str:
    """A list as words; nothing for None."""
    return " ".join(str(one) for one in value) if isinstance(value, list | tuple) else str(value or "")


def plain(value: Any) -> Any:
    """A record as plain JSON values."""
    if is_dataclass(value):
        return {entry.name: plain(getattr(value, entry.name)) for entry in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    return float(value) if isinstance(value, Figure) else value
