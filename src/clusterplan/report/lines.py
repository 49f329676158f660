"""Documents one line a plan: what JSON Lines and CSV have a line for."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

from clusterplan.report.blocks import Document
from clusterplan.report.plain import joined, leaves
from clusterplan.report.remarks import common_warnings, reasons


def rows_of(document: Document) -> list[dict[str, Any]]:
    """What JSON Lines and CSV have a line for: each plan and alternative, each column, each figure, each run."""
    if "levers" in document:
        return [{**row, "breaks": "; ".join(row["breaks"])} for row in document["levers"]]
    if "points" in document:
        return list(document["points"])
    if "columns" in document:
        shared = common_warnings(document["columns"])
        columns = [{**one, "warnings": [w for w in one["warnings"] if w not in shared]} for one in document["columns"]]
        return [row for column in columns for row in rows_of(column)[:1]]
    if "parts" in document:
        parts = [{"choice": f"part {number}", **part} for number, part in enumerate(document["parts"], 1)]
        totals = [("total", document["total"]), ("best single type", document["best_single"])]
        rows = [*parts, *({"choice": name, **total} for name, total in totals if total)]
        return rows or [{"choice": "none", "feasible": False, "blocking": document["blocking"]}]
    if "figures" in document:
        return list(document["figures"])
    if "rows" in document:
        return [{**row, "inferred": "; ".join(row["inferred"])} for row in document["rows"]]
    if "profiles" in document:
        return list(document["profiles"])
    if "plan" not in document:
        return [dict(document)]
    if document["plan"] is None:
        return [
            {"choice": "none", "hardware": joined(document["inputs"].get("hardware")), "feasible": False}
            | {"blocking": document["blocking"], "why": "; ".join(reasons(document))}
        ]
    chosen = {"choice": "chosen", "feasible": document["feasible"], "blocking": document["blocking"], "why": ""}
    others = [
        {"choice": f"alternative {number}", "feasible": True, "blocking": [], **plan}
        for number, plan in enumerate(document["alternatives"], 1)
    ]
    return [chosen | document["plan"], *others]


def to_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """RFC 4180: one header line; columns are ways into the JSON document, joined by points."""
    flat = [dict(leaves(row)) for row in rows]
    heads = list(dict.fromkeys(head for row in flat for head in row))
    out = io.StringIO()
    writer = csv.DictWriter(out, heads, restval="", lineterminator="\r\n")
    writer.writeheader()
    writer.writerows(flat)
    return out.getvalue()
