"""One layer, and the ends of the model, under one cut: operators, bytes, FLOP and messages.

This is the only module that knows what a transformer is. Parameters, FLOP, matrix products, memory traffic, saved
activations and messages all come from one list of operators; ``compute``, ``memory`` and ``network`` price that list.
A new kind of layer is a new list. All arrays have shape ``(cut,)``; amounts are those of one device, one micro-batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from clusterplan.arrays import BoolArray, FloatArray, IntArray, total
from clusterplan.hardware import Stack
from clusterplan.layout import RECOMPUTE, Cuts, Limits
from clusterplan.workload import Job, Model

ELEMENT_BYTES = 2.0
"""An activation in 16 bits; 8-bit products keep their saved inputs in 16 bits too (assumed: the common default)."""

Pool = Literal["dense", "expert"]
Group = Literal["tp", "cp", "ep", "etp"]
Collective = Literal["all_reduce", "all_gather", "reduce_scatter", "all_to_all"]

KINDS = ("dense", "moe", "mtp")
"""Kinds of layer: dense feed-forward, experts, multi-token prediction (which the last stage carries besides)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """``count`` matrix products of (m × k) by (k × n)."""

    name: str
    module: str
    """What has to be recomputed if the result is not kept."""
    m: FloatArray
    n: FloatArray
    k: FloatArray
    count: FloatArray
    pool: Pool = "dense"
    weight_elements: FloatArray
    """Parameters on this device, biases included."""
    saved_bytes: FloatArray
    """Kept of the result for the backward pass. [byte]"""

    @property
    def flop(self) -> FloatArray:
        """Forward; each of the two backward products has as many. [FLOP]"""
        return 2 * self.m * self.n * self.k * self.count

    @property
    def full_flop(self) -> FloatArray:
        """The same: products have no masked half. [FLOP]"""
        return self.flop


@dataclass(frozen=True, slots=True, kw_only=True)
class Core:
    """Scores, softmax and weighted sum of attention, causal."""

    name: str
    module: str
    heads: FloatArray
    """Query heads on this device times sequences."""
    queries: FloatArray
    """Query tokens on this device, of one sequence."""
    keys: FloatArray
    """Key tokens of the whole sequence."""
    qk_dim: int
    value_dim: int
    saved_bytes: FloatArray
    """Kept whatever the kernel: softmax statistics. [byte]"""

    @property
    def flop(self) -> FloatArray:
        """Forward, both products, causal half only. [FLOP]"""
        return self.heads * self.queries * self.keys * (self.qk_dim + self.value_dim)

    @property
    def full_flop(self) -> FloatArray:
        """The same with the masked half, as most published utilisations count it. [FLOP]"""
        return 2 * self.flop

    @property
    def scores(self) -> FloatArray:
        """Entries of the score matrices, the masked half included: eager kernels write them all."""
        return self.heads * self.queries * self.keys


@dataclass(frozen=True, slots=True, kw_only=True)
class Vector:
    """Element-wise work, bound by memory: norms, activations, residuals, routing."""

    name: str
    module: str
    forward_bytes: FloatArray
    """Nominal memory traffic, each operand moved once. [byte]"""
    backward_bytes: FloatArray
    weight_elements: FloatArray
    saved_bytes: FloatArray
    is_permutation: bool = False
    """Routing of tokens to experts and back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A collective that the layer needs."""

    name: str
    group: Group
    collective: Collective
    bytes: FloatArray
    """Size on each device: of the whole gathered tensor, or of what a device sends in an all-to-all. [byte]"""
    forward: float
    """Times in the forward pass; repeated when the forward pass is recomputed."""
    backward: float
    """Times in the backward pass."""


Operator = Product | Core | Vector | Message


@dataclass(frozen=True, slots=True, kw_only=True)
class Software:
    """What the operator list depends on besides model and cut."""

    sequence_parallel: bool = False
    vocab_multiple: int = 1
    logit_traffic_bytes: float = 0.0
    """Memory traffic of one logit at the loss, both passes. [byte]"""

    @classmethod
    def of(cls, stack: Stack) -> Software:
        """The part of a software stack that shapes see."""
        return cls(
            sequence_parallel=stack.sequence_parallel,
            vocab_multiple=stack.vocab_multiple,
            logit_traffic_bytes=stack.logit_traffic_bytes,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The operators of one layer, or of one end of the model."""

    operators: tuple[Operator, ...]
    input_bytes: FloatArray
    """What a checkpoint of the layer keeps under full recompute: its input. [byte]"""

    @property
    def products(self) -> Iterator[Product]:
        """Matrix products with weights."""
        return (o for o in self.operators if isinstance(o, Product))

    @property
    def cores(self) -> Iterator[Core]:
        """Attention without its projections."""
        return (o for o in self.operators if isinstance(o, Core))

    @property
    def vectors(self) -> Iterator[Vector]:
        """Element-wise work."""
        return (o for o in self.operators if isinstance(o, Vector))

    @property
    def messages(self) -> Iterator[Message]:
        """Collectives."""
        return (o for o in self.operators if isinstance(o, Message))

    def weight_elements(self, pool: Pool) -> FloatArray:
        """Parameters on one device, shape ``(cut,)``."""
        owners = [p.weight_elements for p in self.products if p.pool == pool]
        if pool == "dense":
            owners += [v.weight_elements for v in self.vectors]
        return np.sum(owners, axis=0) if owners else np.zeros_like(self.input_bytes)

    @property
    def matrix_flop(self) -> FloatArray:
        """Products with weights, forward. [FLOP]"""
        return total([np.zeros_like(self.input_bytes), *(p.flop for p in self.products)])

    @property
    def attention_flop(self) -> FloatArray:
        """Attention without its projections, forward, causal half only. [FLOP]"""
        return total([np.zeros_like(self.input_bytes), *(c.flop for c in self.cores)])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cut:
    """Sizes of one device's share, derived from the cuts once."""

    tp: FloatArray
    sp: FloatArray
    """How many ways tokens are shared outside the products: tp with sequence parallelism, else 1."""
    tokens: FloatArray
    """Tokens of a micro-batch after context parallelism."""
    batch: FloatArray
    zero: FloatArray
    is_sequence_parallel: bool

    @property
    def shared_tokens(self) -> FloatArray:
        """Tokens outside the products."""
        return self.tokens / self.sp


def _device_share(cuts: Cuts, seq_len: int, sequence_parallel: bool) -> _Cut:
    tp = cuts.tp.astype(float)
    batch = cuts.micro_batch.astype(float)
    return _Cut(
        tp=tp,
        sp=tp if sequence_parallel else np.ones_like(tp),
        tokens=batch * seq_len / cuts.cp,
        batch=batch,
        zero=np.zeros_like(tp),
        is_sequence_parallel=sequence_parallel,
    )


def _norm(name: str, elements: FloatArray, width: float, bias: bool, module: str = "layernorm") -> Vector:
    weights = np.full_like(elements, width * (2 if bias else 1))
    return Vector(
        name=name,
        module=module,
        forward_bytes=2 * ELEMENT_BYTES * elements,
        backward_bytes=3 * ELEMENT_BYTES * elements,
        weight_elements=weights,
        saved_bytes=ELEMENT_BYTES * elements,
    )


def _residual(name: str, elements: FloatArray) -> Vector:
    return Vector(
        name=name,
        module="residual",
        forward_bytes=3 * ELEMENT_BYTES * elements,
        backward_bytes=2 * ELEMENT_BYTES * elements,
        weight_elements=np.zeros_like(elements),
        saved_bytes=ELEMENT_BYTES * elements,
    )


def _product(
    name: str,
    module: str,
    m: FloatArray,
    n: FloatArray | float,
    k: FloatArray | float,
    *,
    bias: FloatArray | float = 0.0,
    saved: bool = True,
    count: FloatArray | float = 1.0,
    pool: Pool = "dense",
) -> Product:
    """A product with a weight of its own; ``bias`` counts the elements of its bias on this device."""
    one = np.ones_like(m)
    return Product(
        name=name,
        module=module,
        m=m,
        n=n * one,
        k=k * one,
        count=count * one,
        pool=pool,
        weight_elements=(n * k * count + bias) * one,
        saved_bytes=(ELEMENT_BYTES if saved else 0.0) * m * n * count,
    )


def _tensor_parallel_messages(name: str, cut: _Cut, hidden: int) -> list[Message]:
    """Messages around a pair of products: gathered before and scattered after, or reduced after.

    With sequence parallelism the gathered input is not kept but gathered once more for the weight gradient
    (Korthikanti et al., 2022, section 4.2.2).
    """
    size = ELEMENT_BYTES * cut.tokens * hidden
    if cut.is_sequence_parallel:
        return [
            Message(name=f"{name} gather", group="tp", collective="all_gather", bytes=size, forward=1, backward=2),
            Message(name=f"{name} scatter", group="tp", collective="reduce_scatter", bytes=size, forward=1, backward=1),
        ]
    return [Message(name=f"{name} reduce", group="tp", collective="all_reduce", bytes=size, forward=1, backward=1)]


def _query_key_value(model: Model, cut: _Cut) -> list[Operator]:
    """Projections to queries, keys and values, with their norms."""
    a, h = model.attention, model.hidden
    heads = a.heads / cut.tp
    kv_heads = np.maximum(a.kv_heads / cut.tp, 1.0)
    if not a.is_latent:
        width = (heads + 2 * kv_heads) * a.head_dim
        parts: list[Operator] = [
            _product("query-key-value", "qkv", cut.tokens, width, h, bias=width if a.qkv_bias else 0.0)
        ]
        if a.qk_norm:
            normed = cut.tokens * (heads + kv_heads) * a.head_dim
            parts.append(_norm("query-key norm", normed, 2 * a.head_dim, bias=False))
        return parts
    parts = []
    if a.q_lora_rank:
        parts += [
            _product("query down", "qkv", cut.shared_tokens, a.q_lora_rank, h),
            _norm("query norm", cut.shared_tokens * a.q_lora_rank, a.q_lora_rank, bias=False),
            _product("query up", "mla_up_proj", cut.tokens, heads * a.qk_dim, a.q_lora_rank),
        ]
    else:
        parts.append(_product("query", "qkv", cut.tokens, heads * a.qk_dim, h))
    return [
        *parts,
        _product("key-value down", "qkv", cut.shared_tokens, a.kv_lora_rank + a.rope_head_dim, h),
        _norm("key-value norm", cut.shared_tokens * a.kv_lora_rank, a.kv_lora_rank, bias=False),
        _product("key-value up", "mla_up_proj", cut.tokens, heads * (a.head_dim + a.value_dim), a.kv_lora_rank),
    ]


def _attention(model: Model, cut: _Cut, seq_len: int) -> list[Operator]:
    a, h = model.attention, model.hidden
    heads = a.heads / cut.tp
    kv_heads = heads if a.is_latent else np.maximum(a.kv_heads / cut.tp, 1.0)
    queries = cut.tokens / cut.batch
    rotary = a.rope_head_dim or (0 if model.learned_positions else a.head_dim)
    turned = cut.tokens * (heads + kv_heads) * rotary
    attended = cut.tokens * heads * a.value_dim
    keys_and_values = ELEMENT_BYTES * cut.batch * seq_len * kv_heads * (a.qk_dim + a.value_dim)
    return [
        _norm("attention norm", cut.shared_tokens * h, h, model.norm_bias),
        *_tensor_parallel_messages("attention", cut, h),
        *_query_key_value(model, cut),
        Vector(
            name="rotary positions",
            module="qkv",
            forward_bytes=2 * ELEMENT_BYTES * turned,
            backward_bytes=2 * ELEMENT_BYTES * turned,
            weight_elements=cut.zero,
            saved_bytes=cut.zero,
        ),
        Message(
            name="key-value exchange",
            group="cp",
            collective="all_gather",
            bytes=keys_and_values,
            forward=1,
            backward=2,
        ),
        Core(
            name="attention core",
            module="core_attn",
            heads=heads * cut.batch,
            queries=queries,
            keys=np.full_like(queries, seq_len),
            qk_dim=a.qk_dim,
            value_dim=a.value_dim,
            saved_bytes=4 * cut.tokens * heads,
        ),
        # The core's result is the projection's input; it is kept even where the core is recomputed.
        Vector(
            name="attended values",
            module="attn_out",
            forward_bytes=cut.zero,
            backward_bytes=cut.zero,
            weight_elements=cut.zero,
            saved_bytes=ELEMENT_BYTES * attended,
        ),
        _product(
            "attention output",
            "residual",
            cut.tokens,
            h,
            heads * a.value_dim,
            bias=float(h) if a.output_bias else 0.0,
            saved=False,
        ),
        _residual("attention residual", cut.shared_tokens * h),
    ]


def _feed_forward(model: Model, cut: _Cut, width: float, name: str) -> list[Operator]:
    """Two or three products of a dense feed-forward part or of the shared experts."""
    h = model.hidden
    local = width / cut.tp
    factor = 2 if model.gated_mlp else 1
    activated = cut.tokens * local
    return [
        _product(
            f"{name} up",
            "mlp_fc1",
            cut.tokens,
            factor * local,
            h,
            bias=factor * local if model.mlp_bias else 0.0,
        ),
        Vector(
            name=f"{name} activation",
            module="mlp_act",
            forward_bytes=(factor + 1) * ELEMENT_BYTES * activated,
            backward_bytes=(2 * factor + 1) * ELEMENT_BYTES * activated,
            weight_elements=cut.zero,
            saved_bytes=ELEMENT_BYTES * activated,
        ),
        _product(
            f"{name} down",
            "residual",
            cut.tokens,
            h,
            local,
            bias=float(h) if model.mlp_bias else 0.0,
            saved=False,
        ),
    ]


def _experts(model: Model, cut: _Cut, cuts: Cuts) -> list[Operator]:
    """Router, exchange of tokens, grouped products of the local experts."""
    moe = model.moe
    assert moe is not None, "only called for layers with experts"
    h = model.hidden
    ep, etp = cuts.ep.astype(float), cuts.etp.astype(float)
    local_experts = moe.experts / ep
    routed = cut.shared_tokens * moe.top_k  # tokens that one device sends, and on the mean receives
    received = routed * etp
    factor = 2 if model.gated_mlp else 1
    local = moe.ffn / etp
    exchange = ELEMENT_BYTES * routed * h
    gathered = ELEMENT_BYTES * received * h
    parts: list[Operator] = [
        _product(
            "router",
            "router",
            cut.shared_tokens,
            float(moe.experts),
            h,
            bias=float(moe.experts) if moe.router_bias else 0.0,
        ),
        Vector(
            name="routing of tokens",
            module="moe_dispatch",
            forward_bytes=4 * exchange,
            backward_bytes=4 * exchange,
            weight_elements=cut.zero,
            saved_bytes=cut.zero,
            is_permutation=True,
        ),
        Message(name="expert dispatch", group="ep", collective="all_to_all", bytes=exchange, forward=1, backward=1),
        Message(name="expert combine", group="ep", collective="all_to_all", bytes=exchange, forward=1, backward=1),
        Message(name="expert gather", group="etp", collective="all_gather", bytes=gathered, forward=1, backward=1),
        Message(name="expert scatter", group="etp", collective="reduce_scatter", bytes=gathered, forward=1, backward=1),
        Vector(
            name="expert input",
            module="moe_input",
            forward_bytes=cut.zero,
            backward_bytes=cut.zero,
            weight_elements=cut.zero,
            saved_bytes=ELEMENT_BYTES * received * h,
        ),
        _product(
            "expert up", "moe_fc1", received / local_experts, factor * local, h, count=local_experts, pool="expert"
        ),
        Vector(
            name="expert activation",
            module="moe_act",
            forward_bytes=(factor + 1) * ELEMENT_BYTES * received * local,
            backward_bytes=(2 * factor + 1) * ELEMENT_BYTES * received * local,
            weight_elements=cut.zero,
            saved_bytes=ELEMENT_BYTES * received * local,
        ),
        _product(
            "expert down",
            "residual",
            received / local_experts,
            h,
            local,
            count=local_experts,
            pool="expert",
            saved=False,
        ),
    ]
    if moe.shared_ffn:
        parts += _feed_forward(model, cut, moe.shared_ffn, "shared expert")
    if moe.shared_gate:
        parts.append(_product("shared expert gate", "router", cut.shared_tokens, 1.0, h))
    return parts


def layer_shape(model: Model, kind: str, cuts: Cuts, seq_len: int, software: Software) -> Shape:
    """Operators of one layer of a kind (one of :data:`KINDS`)."""
    cut = _device_share(cuts, seq_len, software.sequence_parallel)
    h = model.hidden
    has_experts = kind == "moe" or (kind == "mtp" and model.is_moe)
    mixed = _experts(model, cut, cuts) if has_experts else _feed_forward(model, cut, model.ffn, "feed-forward")
    # Routed experts exchange the shared tokens themselves; dense products and shared experts need them gathered.
    is_gathered = not has_experts or (model.moe is not None and model.moe.shared_ffn > 0)
    tensor_parallel = _tensor_parallel_messages("feed-forward", cut, h) if is_gathered else []
    operators: list[Operator] = [
        *_attention(model, cut, seq_len),
        _norm("feed-forward norm", cut.shared_tokens * h, h, model.norm_bias),
        *tensor_parallel,
        *mixed,
        _residual("feed-forward residual", cut.shared_tokens * h),
    ]
    if kind == "mtp":
        operators += [
            _norm("prediction norm", cut.shared_tokens * h, h, model.norm_bias),
            _norm("embedding norm", cut.shared_tokens * h, h, model.norm_bias),
            _norm("prediction head norm", cut.shared_tokens * h, h, model.norm_bias),
            _product("prediction projection", "residual", cut.tokens, h / cut.tp, 2 * h),
            *_head(model, cut, software, own_weight=False),
        ]
    return Shape(operators=tuple(operators), input_bytes=ELEMENT_BYTES * cut.shared_tokens * h)


def padded_vocab(vocab: int, multiple: int, tp: IntArray | FloatArray) -> FloatArray:
    """Entries of the vocabulary after padding to a multiple of ``multiple`` × tp, shape ``(cut,)``.

    >>> padded_vocab(50257, 128, np.array([1, 8])).tolist()
    [50304.0, 51200.0]
    """
    step = np.asarray(multiple * tp, dtype=float)
    return np.ceil(vocab / step) * step


def embedding_shape(model: Model, cuts: Cuts, seq_len: int, software: Software) -> Shape:
    """Operators before the first layer. The look-up is traffic, not a product."""
    cut = _device_share(cuts, seq_len, software.sequence_parallel)
    elements = cut.shared_tokens * model.hidden
    rows = padded_vocab(model.vocab, software.vocab_multiple, cuts.tp) / cut.tp + model.learned_positions
    looked_up = Vector(
        name="embedding",
        module="residual",
        forward_bytes=2 * ELEMENT_BYTES * elements,
        backward_bytes=3 * ELEMENT_BYTES * elements,
        weight_elements=rows * model.hidden,
        saved_bytes=ELEMENT_BYTES * elements,
    )
    return Shape(operators=(looked_up, *_vocabulary_messages("embedding", cut, model.hidden)), input_bytes=cut.zero)


def _vocabulary_messages(name: str, cut: _Cut, hidden: int) -> list[Message]:
    size = ELEMENT_BYTES * cut.tokens * hidden
    if cut.is_sequence_parallel:
        return [
            Message(name=f"{name} scatter", group="tp", collective="reduce_scatter", bytes=size, forward=1, backward=1)
        ]
    return [Message(name=f"{name} reduce", group="tp", collective="all_reduce", bytes=size, forward=1, backward=0)]


def _head(model: Model, cut: _Cut, software: Software, *, own_weight: bool) -> list[Operator]:
    """Logits and loss. A tied head has no weight of its own but the same product."""
    width = padded_vocab(model.vocab, software.vocab_multiple, cut.tp) / cut.tp
    logits = cut.tokens * width
    product = _product("output head", "head", cut.tokens, width, model.hidden, saved=False)
    if not own_weight:
        product = Product(
            name=product.name,
            module=product.module,
            m=product.m,
            n=product.n,
            k=product.k,
            count=product.count,
            weight_elements=cut.zero,
            saved_bytes=cut.zero,
        )
    return [
        product,
        Vector(
            name="loss",
            module="head",
            forward_bytes=software.logit_traffic_bytes * logits,  # both passes: losses run them back to back
            backward_bytes=cut.zero,
            weight_elements=cut.zero,
            saved_bytes=cut.zero,
        ),
    ]


def head_shape(model: Model, cuts: Cuts, seq_len: int, software: Software) -> Shape:
    """Operators after the last layer: final norm, output head, loss."""
    cut = _device_share(cuts, seq_len, software.sequence_parallel)
    elements = cut.shared_tokens * model.hidden
    operators: list[Operator] = [
        _norm("final norm", elements, model.hidden, model.norm_bias),
        *_vocabulary_messages("head", cut, model.hidden),
        *_head(model, cut, software, own_weight=not model.tied_embeddings),
    ]
    return Shape(operators=tuple(operators), input_bytes=cut.zero)


def tied_copy_parameters(model: Model, cuts: Cuts, software: Software) -> FloatArray:
    """Parameters of the embedding that the last stage of a pipeline repeats for a tied head, shape ``(cut,)``."""
    width = padded_vocab(model.vocab, software.vocab_multiple, cuts.tp) / cuts.tp
    return width * model.hidden * model.tied_embeddings


def logits(model: Model, cuts: Cuts, seq_len: int, software: Software) -> FloatArray:
    """Logits of one micro-batch on a device of the last stage, shape ``(cut,)``."""
    cut = _device_share(cuts, seq_len, software.sequence_parallel)
    return cut.tokens * padded_vocab(model.vocab, software.vocab_multiple, cuts.tp) / cut.tp


def boundary_bytes(model: Model, cuts: Cuts, seq_len: int, software: Software) -> FloatArray:
    """What a device sends to the next stage for one micro-batch, shape ``(cut,)``. [byte]"""
    cut = _device_share(cuts, seq_len, software.sequence_parallel)
    return ELEMENT_BYTES * cut.tokens / cut.tp * model.hidden


def is_recomputed(operator: Product | Core | Vector, cuts: Cuts, stack: Stack) -> BoolArray:
    """Whether an operator's forward pass is run again before its backward pass, shape ``(cut,)``."""
    selective = operator.module in stack.selective_modules
    mode = np.asarray(cuts.recompute)
    return (mode == RECOMPUTE.index("full")) | ((mode == RECOMPUTE.index("selective")) & selective)


def saved_bytes(shape: Shape, cuts: Cuts, stack: Stack, eager: bool) -> FloatArray:
    """What one layer keeps for the backward pass of one micro-batch, shape ``(cut,)``. [byte]"""
    kept = [np.where(is_recomputed(o, cuts, stack), 0.0, _held_bytes(o, stack, eager)) for o in _workers(shape)]
    full = np.asarray(cuts.recompute) == RECOMPUTE.index("full")
    return np.where(full, shape.input_bytes, np.sum(kept, axis=0))


def working_bytes(shape: Shape, stack: Stack, eager: bool) -> FloatArray:
    """What one layer holds while its own backward pass runs, everything kept, shape ``(cut,)``. [byte]"""
    return total(_held_bytes(o, stack, eager) for o in _workers(shape))


def _workers(shape: Shape) -> Iterable[Product | Core | Vector]:
    return (o for o in shape.operators if not isinstance(o, Message))


def _held_bytes(operator: Product | Core | Vector, stack: Stack, eager: bool) -> FloatArray:
    if isinstance(operator, Core) and eager:
        return operator.scores * stack.score_bytes
    return operator.saved_bytes


def layer_kinds(model: Model) -> FloatArray:
    """1 where a layer is of a kind, shape ``(layer, kind)``, without multi-token-prediction modules."""
    kinds = np.zeros((model.layers, len(KINDS)))
    kinds[: model.dense_layers, 0] = 1
    kinds[model.dense_layers :, 1] = 1
    return kinds


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
    return Cuts(tp=one, cp=one, ep=one, etp=one, micro_batch=one, recompute=0 * one)


def _kind_counts(model: Model) -> dict[str, int]:
    return {"dense": model.dense_layers, "moe": model.moe_layers}


def parameters(model: Model) -> Parameters:
    """Parameters of the model, from the same operators that are timed."""
    cuts, plain = _uncut(), Software()
    ends = [embedding_shape(model, cuts, 1, plain), head_shape(model, cuts, 1, plain)]
    embedding, head = (int(e.weight_elements("dense")[0]) for e in ends)
    whole = active = embedding + head
    for kind, count in _kind_counts(model).items():
        if count:
            shape = layer_shape(model, kind, cuts, 1, plain)
            dense, expert = (int(shape.weight_elements(pool)[0]) for pool in ("dense", "expert"))
            visited = expert * model.moe.top_k // model.moe.experts if model.moe else 0
            whole += count * (dense + expert)
            active += count * (dense + visited)
    mtp = 0
    if model.mtp_layers:
        shape = layer_shape(model, "mtp", cuts, 1, plain)
        mtp = model.mtp_layers * int(shape.weight_elements("dense")[0] + shape.weight_elements("expert")[0])
    return Parameters(total=whole, active=active, embedding=embedding, mtp=mtp)


def flop_per_token(model: Model, seq_len: int) -> TokenFlop:
    """Work of one token in training, forward and backward, without recomputation."""
    cuts, plain = _uncut(), Software()
    head = 3 * float(head_shape(model, cuts, seq_len, plain).matrix_flop[0]) / seq_len
    matrix, causal = head, 0.0
    for kind, count in _kind_counts(model).items():
        if count:
            shape = layer_shape(model, kind, cuts, seq_len, plain)
            matrix += 3 * count * float(shape.matrix_flop[0]) / seq_len
            causal += 3 * count * float(shape.attention_flop[0]) / seq_len
    return TokenFlop(matrix=matrix, attention=2 * causal, attention_causal=causal, head=head)


def limits(model: Model, job: Job, stack: Stack) -> Limits:
    """What a layout of this model with this software must respect."""
    return Limits(
        heads=model.attention.heads,
        kv_heads=model.attention.heads if model.attention.is_latent else model.attention.kv_heads,
        layers=model.layers,
        seq_len=job.seq_len,
        experts=model.moe.experts if model.moe else 0,
        sequence_parallel=stack.sequence_parallel,
        uneven_pipeline=stack.uneven_pipeline,
        expert_tensor_parallel=stack.expert_tensor_parallel,
        max_tp=stack.max_tp,
        max_pp=stack.max_pp,
        max_cp=stack.max_cp,
        max_ep=stack.max_ep,
        batch_fixed=job.batch_fixed,
        batch_target=job.global_batch,
    )
