"""A model: its shape, its parameters, and the work of a token."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import MISSING, fields
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
    counted = model.layer_counts | ({"mtp": model.mtp_layers} if model.mtp_layers else {})
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
        "one_layer": {
            kind: {"layers": count, **plain(shapes.one_layer(model, kind, seq_len))} for kind, count in counted.items()
        },
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
    rates = [
        ("model FLOP, attention in full", flop["model"]),
        ("model FLOP, attention causal", flop["model_causal"]),
        ("weights", flop["matrix"]),
        ("of which output head", flop["head"]),
        ("attention in full", flop["attention"]),
        ("attention, causal half", flop["attention_causal"]),
    ]
    title = f"Work of one token, forward and backward, in sequences of {flop['seq_len']:,}"
    yield Block(title=title, rows=tuple((label, f"{value / 1e9:,.1f} GFLOP") for label, value in rates), right=(1,))
    work = ("matrix", "attention", "attention_causal")
    yield Block(
        title="One layer, work of a token in GFLOP",
        heads=("kind", "layers", "parameters", "active", "weights", "attention", "causal"),
        rows=tuple(
            (
                kind,
                f"{one['layers']:,}",
                *(format_count(one[name]) for name in ("parameters", "active")),
                *(f"{one[name] / 1e9:,.3f}" for name in work),
            )
            for kind, one in document["one_layer"].items()
        ),
        right=(1, 2, 3, 4, 5, 6),
    )
    hidden = {"schema", "version", "name", "source", "parameters", "flop_per_token", "one_layer", "warnings"}
    hidden |= {"kinds", "pattern"}
    shape = {key: value for key, value in document.items() if key not in hidden}
    numbers = [(path, said("", value)) for path, value in leaves(shape) if not _is_usual(path, value)]
    yield Block(title="Shape", rows=tuple(numbers), right=(1,))
    if document["kinds"]:
        kinds = [(kind, _layer_text(layer)) for kind, layer in document["kinds"].items()]
        yield Block(title="Layers", rows=(*kinds, ("pattern", document["pattern"])))
    if document["warnings"]:
        yield Block(title="Warnings", rows=tuple(("", text) for text in document["warnings"]), are_notes=True)


def _is_usual(path: str, value: object) -> bool:
    """Whether a value is absent, or what a record has where nothing is given."""
    from clusterplan.workload import Attention, Experts, Model

    name = path.rsplit(".", 1)[-1]
    records = (Model, Attention, Experts)
    defaults = [entry.default for record in records for entry in fields(record) if entry.name == name]
    texts = [str(one).lower() if isinstance(one, bool) else one for one in defaults if one is not MISSING]
    return value == "" or value in (texts or (0, "false"))


def _layer_text(layer: Document) -> str:
    """One kind of layer in a line.

    Examples
    --------
    >>> attention = {"heads": 32, "kv_heads": 16, "head_dim": 128, "window": 1024, "is_chunked": False}
    >>> _layer_text({"attention": attention, "ffn": 21504})
    'attention 32/16 × 128, window 1,024; feed-forward 21,504'
    """
    parts = []
    if a := layer.get("attention"):
        text = f"attention {a['heads']}/{a['kv_heads']} × {a['head_dim']}"
        if a.get("kv_lora_rank"):
            text = f"latent attention {a['heads']} × {a['head_dim']} + {a['rope_head_dim']}, rank {a['kv_lora_rank']}"
        if a.get("window"):
            text += f", {'chunks of' if a['is_chunked'] else 'window'} {a['window']:,}"
        parts.append(text + (", keys and values of a layer before" if a.get("shared_kv") else ""))
    if s := layer.get("state_space"):
        heads = f", {s['heads']} heads" if s["heads"] else ""
        parts.append(f"state space {s['inner']:,} × {s['state']}{heads}")
    if a := layer.get("linear_attention"):
        rule = a["rule"].replace("_", " ")
        parts.append(f"{rule} attention {a['value_heads']}/{a['key_heads']}, state {a['key_dim']} × {a['value_dim']}")
    if layer.get("ffn"):
        parts.append(f"feed-forward {layer['ffn']:,}")
    if layer.get("repeats", 1) > 1:
        parts = [f"{layer['repeats']} × ({'; '.join(parts)})"]
    if m := layer.get("moe"):
        shared = f", shared {m['shared_ffn']:,}" if m["shared_ffn"] else ""
        idle = f" and {m['zero_experts']} without weights" if m["zero_experts"] else ""
        parts.append(f"{m['top_k']} of {m['experts']} experts{idle} × {m['ffn']:,}{shared}")
    return "; ".join(parts)
