"""A model: its shape, its parameters, and the work of a token."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from clusterplan import __version__
from clusterplan.report.blocks import Block, Document
from clusterplan.report.plain import leaves, plain
from clusterplan.report.quantities import said
from clusterplan.units import format_count

if TYPE_CHECKING:
    from clusterplan.workload import Model


MODEL = "clusterplan/model-1"


def model_document(model: Model, seq_len: int, warnings: Sequence[str] = ()) -> dict[str, Any]:
    """Shape of a model, its parameters, and the work of a token in both conventions.

    Parameters
    ----------
    model : Model
        The network.
    seq_len : int
        Tokens of a sequence, for the work of attention.
    warnings : sequence of str
        What its description left open.
    """
    from clusterplan import shapes

    counts, flop = shapes.parameters(model), shapes.flop_per_token(model, seq_len)
    return {
        "schema": MODEL,
        "version": __version__,
        **plain(model),
        "parameters": {name: getattr(counts, name) for name in ("total", "active", "embedding", "mtp")},
        "flop_per_token": {
            name: getattr(flop, name)
            for name in ("matrix", "attention", "attention_causal", "head", "model", "model_causal")
        }
        | {"seq_len": seq_len},
        "warnings": list(warnings),
    }


def model_blocks(document: Document) -> Iterator[Block]:
    """Blocks of a model."""
    yield Block(title=str(document["name"]), rows=(("", str(document["source"])),), are_notes=True)
    names = {
        "total": "total",
        "active": "active for a token",
        "embedding": "embedding",
        "mtp": "token prediction modules",
    }
    counts = document["parameters"]
    rows = [(label, f"{counts[name]:,}", format_count(counts[name])) for name, label in names.items() if counts[name]]
    yield Block(title="Parameters", rows=tuple(rows), right=(1, 2))
    flop = document["flop_per_token"]
    work = [
        ("model FLOP, attention in full", flop["model"]),
        ("model FLOP, attention causal", flop["model_causal"]),
        ("weights", flop["matrix"]),
        ("of which output head", flop["head"]),
        ("attention in full", flop["attention"]),
        ("attention, causal half", flop["attention_causal"]),
    ]
    title = f"Work of one token, forward and backward, in sequences of {flop['seq_len']:,}"
    yield Block(title=title, rows=tuple((label, f"{value / 1e9:,.1f} GFLOP") for label, value in work), right=(1,))
    hidden = {"schema", "version", "name", "source", "parameters", "flop_per_token", "warnings"}
    shape = {key: value for key, value in document.items() if key not in hidden}
    numbers = [(path, said("", value)) for path, value in leaves(shape) if value not in ("", 0, "false")]
    yield Block(title="Shape", rows=tuple(numbers), right=(1,))
    if document["warnings"]:
        yield Block(title="Warnings", rows=tuple(("", text) for text in document["warnings"]), are_notes=True)
