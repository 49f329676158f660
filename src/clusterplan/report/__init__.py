"""The answer as people and programs read it: terminal, JSON, JSON Lines, CSV and Markdown.

A document (plain JSON values) becomes blocks of rows, once; a writer then prints the blocks. JSON
prints the document itself. Nothing is computed here but shares, differences and who is best.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from clusterplan.report.blocks import WIDTH, Block, Document, Page
from clusterplan.report.calibration import CALIBRATION, calibration_blocks, calibration_document
from clusterplan.report.comparison import COMPARISON, comparison, comparison_blocks
from clusterplan.report.encoding import encodable
from clusterplan.report.evidence import evidence_blocks
from clusterplan.report.explanation import EXPLANATION, explanation_blocks
from clusterplan.report.fabric import FABRIC, fabric_blocks, fabric_document
from clusterplan.report.levers import LEVERS, levers_blocks, levers_document
from clusterplan.report.lines import rows_of, to_csv
from clusterplan.report.markdown import to_markdown
from clusterplan.report.mix import MIX, mix_blocks
from clusterplan.report.model import MODEL, model_blocks, model_document
from clusterplan.report.plain import dumps, to_json
from clusterplan.report.plan import answer_blocks
from clusterplan.report.profile import (
    PROFILE,
    PROFILES,
    profile_blocks,
    profile_document,
    profiles_blocks,
    profiles_document,
)
from clusterplan.report.quantities import apportioned, in_currency, said, said_in, tree
from clusterplan.report.remarks import reason
from clusterplan.report.sweep import SWEEP, sweep_blocks, sweep_document
from clusterplan.report.terminal import to_terminal
from clusterplan.report.validation import VALIDATION, validation_blocks, validation_document

__all__ = [
    "FORMATS", "WIDTH", "Block", "Page", "apportioned", "blocks_of", "calibration_document", "comparison", "encodable",
    "fabric_document", "levers_document", "model_document", "profile_document", "profiles_document", "reason", "render",
    "rows_of", "said", "said_in", "sweep_document", "to_json", "tree", "validation_document",
]  # fmt: skip

FORMATS = ("table", "json", "jsonl", "csv", "md")
"""Forms that an answer can take."""


def render(document: Document, form: str = "table", page: Page | None = None) -> str:
    """Text of a document.

    Parameters
    ----------
    document : mapping
        Answer, comparison, explanation, model or profile, as plain JSON values.
    form : str
        One of :data:`FORMATS`.
    page : Page
        Width, colour and encoding; 80 columns of plain UTF-8 unless told otherwise.
    """
    page = page or Page()
    if form == "json":
        return to_json(document)
    if form == "jsonl":
        return "".join(f"{dumps(row)}\n" for row in rows_of(document))
    if form == "csv":
        return encodable(to_csv(rows_of(document)), page.encoding)
    inputs = document.get("inputs")
    with in_currency(inputs if isinstance(inputs, Mapping) else {}):
        blocks = list(blocks_of(document, page))
    text = to_markdown(blocks) if form == "md" else to_terminal(blocks, page)
    return encodable(text, page.encoding)


def blocks_of(document: Document, page: Page) -> Iterator[Block]:
    """Parts of a report, in the order in which they are read."""
    schema = document.get("schema", "")
    writers: Mapping[str, Callable[[Document], Iterable[Block]]] = {
        CALIBRATION: calibration_blocks,
        COMPARISON: comparison_blocks,
        EXPLANATION: explanation_blocks,
        FABRIC: fabric_blocks,
        MIX: mix_blocks,
        LEVERS: levers_blocks,
        MODEL: model_blocks,
        PROFILE: profile_blocks,
        PROFILES: profiles_blocks,
        SWEEP: sweep_blocks,
    }
    if schema == VALIDATION:
        yield from validation_blocks(document, rows=page.rows)
    elif schema in writers:
        yield from writers[schema](document)
    else:
        yield from answer_blocks(document, stages=page.stages)
    evidence = document.get("evidence") or [one for column in document.get("columns", []) for one in column["evidence"]]
    if evidence:
        yield from evidence_blocks(evidence, all_of_them=page.sources)
