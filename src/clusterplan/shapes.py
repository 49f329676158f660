"""One layer, and the ends of the model, under one cut: operators, bytes, FLOP and messages.

Parameters, FLOP, matrix products, memory traffic, saved activations and messages all come from one list of operators;
``compute``, ``memory`` and ``network`` price that list. A new kind of layer is a new list. All arrays have shape
``(cut,)``; amounts are those of one device, one micro-batch.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import gcd

import numpy as np

from clusterplan.arrays import FloatArray, IntArray, total
from clusterplan.hardware import Stack
from clusterplan.layout import RECOMPUTE, Cuts, Limits
from clusterplan.mixers import gathered_width, mixer
from clusterplan.operators import (
    ELEMENT_BYTES,
    Core,
    Message,
    Operator,
    Shape,
    Share,
    Software,
    Work,
    device_share,
    product,
    residual,
    stream_norm,
    tensor_parallel_messages,
    vector,
)
from clusterplan.trace import formula
from clusterplan.workload import Experts, Job, Layer, Model

KINDS = ("dense", "moe", "mtp")
"""Kinds of layer where a model names none: dense feed-forward, experts, multi-token prediction."""


def kinds(model: Model) -> tuple[str, ...]:
    """Kinds of layer of a model; the last one is multi-token prediction, which the last stage carries besides."""
    return (*model.kinds, "mtp") if model.kinds else KINDS


# --- Layers -------------------------------------------------------------------------------------------------------


def _feed_forward(model: Model, cut: Share, width: float, name: str) -> list[Operator]:
    """Two or three products of a dense feed-forward part or of the shared experts."""
    h = model.hidden
    local = width / cut.tp
    factor = 2 if model.gated_mlp else 1
    activated = cut.tokens * local
    return [
        product(
            f"{name} up",
            "mlp_fc1",
            cut.tokens,
            factor * local,
            h,
            bias=factor * local if model.mlp_bias else 0.0,
        ),
        vector(
            f"{name} activation",
            "mlp_act",
            activated,
            forward=(factor + 1) * activated,
            backward=(2 * factor + 1) * activated,
            saved=activated,
            saved_element_bytes=cut.input_bytes,
        ),
        product(
            f"{name} down",
            "residual",
            cut.tokens,
            h,
            local,
            bias=float(h) if model.mlp_bias else 0.0,
            saved=False,
        ),
    ]


def _experts(model: Model, moe: Experts, cut: Share, cuts: Cuts) -> list[Operator]:
    """Router, exchange of tokens, grouped products of the local experts."""
    h = model.hidden
    routed = cut.shared_tokens * moe.visited  # tokens that one device sends, and on the mean receives
    received = routed * cuts.etp.astype(float)
    choices = float(moe.experts + moe.zero_experts)
    parts: list[Operator] = [
        product("router", "router", cut.shared_tokens, choices, h, bias=choices if moe.router_bias else 0.0),
        vector(
            "routing of tokens",
            "moe_dispatch",
            routed,
            forward=4 * routed * h,
            backward=4 * routed * h,
            is_permutation=True,
        ),
        *_expert_messages(moe, ELEMENT_BYTES * routed * h, ELEMENT_BYTES * received * h),
        *_grouped_products(model, moe, received, cut, cuts),
    ]
    if moe.shared_ffn:
        parts += _feed_forward(model, cut, moe.shared_ffn, "shared expert")
    if moe.shared_gate:
        parts.append(product("shared expert gate", "router", cut.shared_tokens, 1.0, h))
    return parts


def _expert_messages(moe: Experts, exchanged_bytes: FloatArray, gathered_bytes: FloatArray) -> list[Message]:
    """Tokens to their experts and back; ranks that cut an expert between them gather and scatter what it gets."""
    return [
        *(
            Message(
                name=f"expert {name}",
                group="ep",
                collective="all_to_all",
                bytes=exchanged_bytes,
                forward=1,
                backward=1,
                copies=moe.visited,
                reach_fraction=moe.groups_per_token / moe.groups,
            )
            for name in ("dispatch", "combine")
        ),
        Message(
            name="expert gather", group="etp", collective="all_gather", bytes=gathered_bytes, forward=1, backward=1
        ),
        Message(
            name="expert scatter", group="etp", collective="reduce_scatter", bytes=gathered_bytes, forward=1, backward=1
        ),
    ]


def _grouped_products(model: Model, moe: Experts, received: FloatArray, cut: Share, cuts: Cuts) -> list[Operator]:
    """The local experts, on the tokens that a device receives."""
    h = model.hidden
    local_experts = moe.experts / cuts.ep.astype(float)
    factor = 2 if model.gated_mlp else 1
    local = moe.ffn / cuts.etp.astype(float)
    activated = received * local
    return [
        vector("expert input", "moe_input", received, saved=received * h, saved_element_bytes=cut.input_bytes),
        product(
            "expert up",
            "moe_fc1",
            received / local_experts,
            factor * local,
            h,
            bias=factor * local * local_experts if moe.expert_bias else 0.0,
            count=local_experts,
            pool="expert",
        ),
        vector(
            "expert activation",
            "moe_act",
            activated,
            forward=(factor + 1) * activated,
            backward=(2 * factor + 1) * activated,
            saved=activated,
            saved_element_bytes=cut.input_bytes,
        ),
        product(
            "expert down",
            "residual",
            received / local_experts,
            h,
            local,
            bias=h * local_experts if moe.expert_bias else 0.0,
            count=local_experts,
            pool="expert",
            saved=False,
        ),
    ]


def _part(
    model: Model,
    cut: Share,
    name: str,
    inner: list[Operator],
    *,
    is_gathered: bool = True,
    gathered: int | None = None,
    has_router: bool = False,
) -> list[Operator]:
    """A mixer or a feed-forward part with its norms, its messages and the sum into the residual stream.

    A router reads the normed input in 16 bits; nothing else needs it but products.
    """
    place = model.norm_place
    normed_bytes = ELEMENT_BYTES if has_router else cut.input_bytes
    result_name = f"{name} norm" if place == "after" else f"{name} result norm"
    return [
        *([stream_norm(model, f"{name} norm", cut, normed_bytes)] if place != "after" else []),
        *(tensor_parallel_messages(name, cut, model.hidden, gathered) if is_gathered else []),
        *inner,
        *([stream_norm(model, result_name, cut)] if place != "before" else []),
        residual(f"{name} residual", cut.shared_tokens * model.hidden),
    ]


def _side_by_side(model: Model, cut: Share, mixing: list[Operator], mixed: list[Operator]) -> list[Operator]:
    """Mixer and feed-forward part on the same input: one gathering and one sum for both."""
    elements = cut.shared_tokens * model.hidden
    return [
        stream_norm(model, "attention norm", cut, cut.input_bytes),
        *([] if model.shared_norm else [stream_norm(model, "feed-forward norm", cut, cut.input_bytes)]),
        *tensor_parallel_messages("layer", cut, model.hidden),
        *mixing,
        residual("attention residual", elements, saved=False),
        *mixed,
        residual("feed-forward residual", elements),
    ]


def _layer(model: Model, layer: Layer, cut: Share, cuts: Cuts, seq_len: int) -> list[Operator]:
    """Operators of one layer."""
    name = "attention" if layer.attention else "mixer"
    mixing = mixer(model, layer, cut, seq_len)
    dense = _feed_forward(model, cut, layer.ffn, "feed-forward") if layer.ffn else []
    experts = _experts(model, layer.moe, cut, cuts) if layer.moe else []
    # Routed experts exchange the shared tokens themselves; dense products and shared experts need them gathered.
    is_gathered = layer.moe is not None and layer.moe.shared_ffn > 0
    if model.is_parallel and mixing and (dense or experts):
        return layer.repeats * _side_by_side(model, cut, mixing, dense or experts)
    parts: list[Operator] = []
    for _ in range(layer.repeats):
        parts += _part(model, cut, name, mixing, gathered=gathered_width(model, layer)) if mixing else []
        parts += _part(model, cut, "feed-forward", dense) if dense else []
    if dense and experts:
        own_norm = [stream_norm(model, "expert norm", cut)] if layer.moe_norm else []
        messages = tensor_parallel_messages("expert", cut, model.hidden) if is_gathered else []
        together = residual("expert residual", cut.shared_tokens * model.hidden, saved=False)
        return [*parts, *own_norm, *messages, *experts, together]
    if not experts:
        return parts
    return parts + _part(model, cut, "feed-forward", experts, is_gathered=is_gathered, has_router=True)


def layer_shape(model: Model, kind: str, cuts: Cuts, seq_len: int, software: Software) -> Shape:
    """Operators of one layer of a kind (one of :func:`kinds`)."""
    cut = device_share(cuts, seq_len, software)
    h = model.hidden
    operators = _layer(model, model.layer(kind), cut, cuts, seq_len)
    if kind == "mtp":
        operators += [
            stream_norm(model, "prediction norm", cut),
            stream_norm(model, "embedding norm", cut),
            stream_norm(model, "prediction head norm", cut),
            product("prediction projection", "residual", cut.tokens, h / cut.tp, 2 * h),
            *_head(model, cut, software, is_own=False),
        ]
    return Shape(operators=tuple(operators), input_bytes=ELEMENT_BYTES * cut.shared_tokens * h)


# --- Ends ---------------------------------------------------------------------------------------------------------


def padded_vocab(vocab: int, multiple: int, tp: IntArray | FloatArray) -> FloatArray:
    """Entries of the vocabulary after padding to a multiple of ``multiple`` × tp, shape ``(cut,)``.

    >>> padded_vocab(50257, 128, np.array([1, 8])).tolist()
    [50304.0, 51200.0]
    """
    step = np.asarray(multiple * tp, dtype=float)
    return np.ceil(vocab / step) * step


def embedding_shape(model: Model, cuts: Cuts, seq_len: int, software: Software) -> Shape:
    """Operators before the first layer. The look-up is traffic, not a product."""
    cut = device_share(cuts, seq_len, software)
    elements = cut.shared_tokens * model.hidden
    rows = padded_vocab(model.vocab, software.vocab_multiple, cuts.tp) / cut.tp + model.learned_positions
    looked_up = vector(
        "embedding",
        "residual",
        elements,
        forward=2 * elements,
        backward=3 * elements,
        weights=rows * model.hidden,
        saved=elements,
    )
    normed = [stream_norm(model, "embedding norm", cut)] if model.embedding_norm else []
    messages = _vocabulary_messages("embedding", cut, model.hidden)
    return Shape(operators=(looked_up, *messages, *normed), input_bytes=cut.zero)


def _vocabulary_messages(name: str, cut: Share, hidden: int) -> list[Message]:
    size = ELEMENT_BYTES * cut.tokens * hidden
    if cut.is_sequence_parallel:
        return [
            Message(name=f"{name} scatter", group="tp", collective="reduce_scatter", bytes=size, forward=1, backward=1)
        ]
    return [Message(name=f"{name} reduce", group="tp", collective="all_reduce", bytes=size, forward=1, backward=0)]


def _head(model: Model, cut: Share, software: Software, *, is_own: bool) -> list[Operator]:
    """Logits and loss. A head that is not the module's own, or tied, has no weight but the same product."""
    width = padded_vocab(model.vocab, software.vocab_multiple, cut.tp) / cut.tp
    owned = width * (model.hidden * (not model.tied_embeddings) + model.head_bias) * is_own
    logits = cut.tokens * width
    head = product("output head", "head", cut.tokens, width, model.hidden, saved=False)
    # Both passes: losses run them back to back.
    traffic = loss_traffic_bytes(logits, software.logit_traffic_bytes)
    loss = replace(vector("loss", "head", logits), forward_bytes=traffic)
    return [replace(head, weight_elements=owned), loss]


def head_shape(model: Model, cuts: Cuts, seq_len: int, software: Software) -> Shape:
    """Operators after the last layer: final norm, output head, loss."""
    cut = device_share(cuts, seq_len, software)
    operators: list[Operator] = [
        *([stream_norm(model, "final norm", cut)] if model.final_norm else []),
        *_vocabulary_messages("head", cut, model.hidden),
        *_head(model, cut, software, is_own=True),
    ]
    return Shape(operators=tuple(operators), input_bytes=cut.zero)


def tied_copy_parameters(model: Model, cuts: Cuts, software: Software) -> FloatArray:
    """Parameters of the embedding that the last stage of a pipeline repeats for a tied head, shape ``(cut,)``."""
    width = padded_vocab(model.vocab, software.vocab_multiple, cuts.tp) / cuts.tp
    return width * model.hidden * model.tied_embeddings


def logits(model: Model, cuts: Cuts, seq_len: int, software: Software) -> FloatArray:
    """Logits of one micro-batch on a device of the last stage, shape ``(cut,)``."""
    cut = device_share(cuts, seq_len, software)
    return cut.tokens * padded_vocab(model.vocab, software.vocab_multiple, cuts.tp) / cut.tp


def boundary_bytes(model: Model, cuts: Cuts, seq_len: int, software: Software) -> FloatArray:
    """What a device sends to the next stage for one micro-batch, shape ``(cut,)``. [byte]"""
    cut = device_share(cuts, seq_len, software)
    return ELEMENT_BYTES * cut.tokens / cut.tp * model.hidden


def recomputed_share(operator: Work, cuts: Cuts, stack: Stack) -> FloatArray:
    """How often, on the mean over layers, an operator runs again before its backward pass, shape ``(cut,)``."""
    selective = (cuts.recompute == RECOMPUTE.index("selective")) & (operator.module in stack.selective_modules)
    return cuts.recomputed + selective


def saved_bytes(shape: Shape, cuts: Cuts, stack: Stack, eager: bool) -> FloatArray:
    """What one layer keeps for the backward pass of one micro-batch, on the mean, shape ``(cut,)``. [byte]"""
    kept = [(1 - recomputed_share(o, cuts, stack)) * _held_bytes(o, stack, eager) for o in _workers(shape)]
    return total(kept) + cuts.recomputed / cuts.checkpoint_layers * shape.input_bytes


def working_bytes(shape: Shape, stack: Stack, eager: bool) -> FloatArray:
    """What one layer holds while its own backward pass runs, everything kept, shape ``(cut,)``. [byte]"""
    return total(_held_bytes(o, stack, eager) for o in _workers(shape))


def _workers(shape: Shape) -> Iterable[Work]:
    return (o for o in shape.operators if not isinstance(o, Message))


@formula
def kept_bytes(nominal: FloatArray, factor: float) -> FloatArray:
    """What an operator keeps for the backward pass: its nominal result, or its scores, times what software holds of it.

    >>> kept_bytes(np.array([100.0]), 1.5).tolist()
    [150.0]
    """
    return nominal * factor


@formula
def loss_traffic_bytes(logits: FloatArray, logit_traffic_bytes: float) -> FloatArray:
    """Memory traffic of the loss, both passes. [byte]

    >>> loss_traffic_bytes(np.array([1000.0]), 17.0).tolist()
    [17000.0]
    """
    return logits * logit_traffic_bytes


def _held_bytes(operator: Work, stack: Stack, eager: bool) -> FloatArray:
    if isinstance(operator, Core) and eager:
        return kept_bytes(operator.scores, stack.score_bytes)
    return kept_bytes(operator.saved_bytes, stack.activation_factor)


def layer_kinds(model: Model) -> FloatArray:
    """1 where a layer is of a kind, shape ``(layer, kind)``, without multi-token-prediction modules."""
    names = np.array(model.layer_names)
    return (names[:, None] == np.array(kinds(model))).astype(float)


def kind_counts(model: Model) -> FloatArray:
    """Layers of each kind, multi-token-prediction modules included, shape ``(kind,)``."""
    counts = model.layer_counts | {"mtp": model.mtp_layers}
    return np.array([counts.get(kind, 0) for kind in kinds(model)], dtype=float)


# --- The whole model ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """Parameters of a whole model, each counted once."""

    total: int
    """All parameters without multi-token-prediction modules, which published totals leave out."""
    active: int
    """Those that one token uses: of the routed experts only those visited, embeddings included."""
    embedding: int
    """The input embedding, positions included: looked up, not multiplied."""
    mtp: int
    """Multi-token-prediction modules, without the embedding and head that they share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenFlop:
    """Work for one token of the training run by convention, forward and backward."""

    matrix: float
    """Products with weights, the output head included, the embedding look-up not. [FLOP]"""
    attention: float
    """Scores and weighted sums over the whole square, as most published utilisations count them. [FLOP]"""
    attention_causal: float
    """The same, only the half that a causal mask leaves. [FLOP]"""
    head: float
    """The output head's part of ``matrix``. [FLOP]"""

    @property
    def model(self) -> float:
        """Model FLOP of one token, attention counted in full. [FLOP]"""
        return self.matrix + self.attention

    @property
    def model_causal(self) -> float:
        """Model FLOP of one token, attention counted as executed. [FLOP]"""
        return self.matrix + self.attention_causal


def _uncut() -> Cuts:
    one = np.ones(1, dtype=np.int64)
    return Cuts(
        tp=one,
        cp=one,
        ep=one,
        etp=one,
        micro_batch=one,
        recompute=0 * one,
        recomputed=np.zeros(1),
        checkpoint_layers=one,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class OneLayer:
    """One layer of a kind, or one multi-token-prediction module: parameters, and work for one token."""

    parameters: int
    """All of its parameters."""
    active: int
    """Those that one token uses."""
    matrix: float
    """Products with weights, forward and backward. [FLOP]"""
    attention: float
    """Mixing of tokens without its projections, within the window but without a causal mask. [FLOP]"""
    attention_causal: float
    """The same, without what a causal mask hides. [FLOP]"""


def one_layer(model: Model, kind: str, seq_len: int) -> OneLayer:
    """Parameters and work of one layer of a kind (one of :func:`kinds`), without recomputation."""
    shape, moe = layer_shape(model, kind, _uncut(), seq_len, Software()), model.layer(kind).moe
    dense, expert = (int(shape.weight_elements(pool)[0]) for pool in ("dense", "expert"))
    work = (shape.matrix_flop, shape.full_attention_flop, shape.attention_flop)
    matrix, full, causal = (3 * float(one[0]) / seq_len for one in work)
    return OneLayer(
        parameters=dense + expert,
        active=dense + (round(expert * moe.visited / moe.experts) if moe else 0),
        matrix=matrix,
        attention=full,
        attention_causal=causal,
    )


def parameters(model: Model) -> Parameters:
    """Parameters of the model, from the same operators that are timed."""
    cuts, plain = _uncut(), Software()
    ends = [embedding_shape(model, cuts, 1, plain), head_shape(model, cuts, 1, plain)]
    embedding, head = (int(e.weight_elements("dense")[0]) for e in ends)
    layers = [(count, one_layer(model, kind, 1)) for kind, count in model.layer_counts.items()]
    return Parameters(
        total=embedding + head + sum(count * one.parameters for count, one in layers),
        active=embedding + head + sum(count * one.active for count, one in layers),
        embedding=embedding,
        mtp=model.mtp_layers * one_layer(model, "mtp", 1).parameters if model.mtp_layers else 0,
    )


def flop_per_token(model: Model, seq_len: int) -> TokenFlop:
    """Work of one token in training, forward and backward, without recomputation and multi-token prediction."""
    head = 3 * float(head_shape(model, _uncut(), seq_len, Software()).matrix_flop[0]) / seq_len
    layers = [(count, one_layer(model, kind, seq_len)) for kind, count in model.layer_counts.items()]
    return TokenFlop(
        matrix=head + sum(count * one.matrix for count, one in layers),
        attention=sum(count * one.attention for count, one in layers),
        attention_causal=sum(count * one.attention_causal for count, one in layers),
        head=head,
    )


def end_layers(model: Model, job: Job, stack: Stack) -> int:
    """Layers that the output head and token prediction are worth, by their work; 0 where stages cannot differ."""
    if not stack.uneven_pipeline or not model.layers:
        return 0
    flop = flop_per_token(model, job.seq_len)
    layer = (flop.matrix - flop.head + flop.attention_causal) / model.layers
    module = one_layer(model, "mtp", job.seq_len) if model.mtp_layers else None
    predicted = model.mtp_layers * (module.matrix + module.attention_causal) if module else 0.0
    return round((flop.head + predicted) / layer)


def _common(counts: Iterable[int]) -> int:
    """What divides all counts; 1 if there is none."""
    return gcd(*counts) or 1


def limits(model: Model, job: Job, stack: Stack) -> Limits:
    """What a layout of this model with this software must respect.

    Layers of several kinds are cut alike, so heads and experts are those that all have in common.
    """
    heads, kv_heads, experts = [], [], []
    for layer in model.every_layer:
        if a := layer.attention:
            heads.append(a.heads)
            kv_heads.append(a.heads if a.is_latent else a.kv_heads)
        if linear := layer.linear_attention:
            heads.append(linear.value_heads)
            kv_heads.append(linear.key_heads)
        if space := layer.state_space:
            heads.append(space.heads or space.inner)
        if layer.moe:
            experts.append(layer.moe.experts)
    return Limits(
        heads=_common(heads),
        kv_heads=_common(kv_heads or heads),
        layers=model.layers,
        seq_len=job.seq_len,
        experts=_common(experts) if experts else 0,
        sequence_parallel=stack.sequence_parallel,
        uneven_pipeline=stack.uneven_pipeline,
        expert_tensor_parallel=stack.expert_tensor_parallel,
        max_tp=stack.max_tp,
        max_pp=stack.max_pp,
        max_cp=stack.max_cp,
        max_ep=stack.max_ep,
        batch_fixed=job.batch_fixed,
        batch_target=job.global_batch,
        batch_low=job.batch_low,
    )
