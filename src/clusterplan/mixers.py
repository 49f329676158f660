"""Mixers: operators by which tokens of a sequence see one another, with their projections.

Attention in its variants, state spaces, linear attention. Norms of the residual stream, the sum into it and the
messages around the part belong to the layer, not to its mixer.

References
----------
.. [1] T. Dao, A. Gu, "Transformers are SSMs: Generalized Models and Efficient Algorithms Through Structured State
   Space Duality," 2024; projections and parameters of Mamba and Mamba-2.
.. [2] S. Yang, J. Kautz, A. Hatamizadeh, "Gated Delta Networks: Improving Mamba2 with Delta Rule," 2024.
.. [3] MiniMax, "MiniMax-01: Scaling Foundation Models with Lightning Attention," 2025.
"""

from __future__ import annotations

import numpy as np

from clusterplan.arrays import FloatArray
from clusterplan.operators import ELEMENT_BYTES, Core, Message, Operator, Scan, Share, norm, product, vector
from clusterplan.workload import Attention, Layer, LinearAttention, Model, StateSpace

STATE_SPACE_FLOP = 7.0
"""Work of one entry of the state for one token: discretise (2), decay and add (3), read (2). As Megatron-LM counts."""
DELTA_RULE_FLOP = 8.0
"""Work of one entry of the state for one token: decay, read by key, correct, read; two each, as Megatron-LM counts."""
LIGHTNING_FLOP = 5.0
"""Work of one entry of the state for one token: decay (1), add (2), read (2)."""
TOKENS_PER_STATE = 256.0
"""assumed: kernels keep the state once in so many tokens, the chunk of the published Mamba-2 kernels."""
STATE_BYTES = 4.0
"""Kept states are in 32 bits."""


def mixer(model: Model, layer: Layer, cut: Share, seq_len: int) -> list[Operator]:
    """Operators of a layer's mixer; none if the layer has none."""
    if layer.attention:
        return _attention(model, layer.attention, cut, seq_len)
    if layer.state_space:
        return _state_space(model.hidden, layer.state_space, cut)
    if layer.linear_attention:
        return _linear_attention(model.hidden, layer.linear_attention, cut)
    return []


def _local(count: float, cut: Share) -> FloatArray:
    """Of this many heads or groups those of one device; it has at least one, which several then repeat."""
    return np.maximum(count / cut.tp, 1.0)


# --- Attention ----------------------------------------------------------------------------------------------------


def _queries(model: Model, a: Attention, cut: Share, width: FloatArray) -> list[Operator]:
    """Queries through a low rank."""
    rank = a.q_lora_rank
    return [
        product("query down", "qkv", cut.shared_tokens, rank, model.hidden, bias=float(rank * a.qkv_bias)),
        norm("query norm", cut.shared_tokens * rank, float(rank), cut.input_bytes),
        product("query up", "mla_up_proj", cut.tokens, width, rank),
    ]


def _latent(model: Model, a: Attention, cut: Share) -> list[Operator]:
    """Projections of latent attention (MLA): queries, and keys and values through their common rank."""
    h, heads = model.hidden, a.heads / cut.tp
    width, down = heads * a.qk_dim, a.kv_lora_rank + a.rope_head_dim
    queries = _queries(model, a, cut, width) if a.q_lora_rank else [product("query", "qkv", cut.tokens, width, h)]
    return [
        *queries,
        product("key-value down", "qkv", cut.shared_tokens, down, h, bias=float(down * a.qkv_bias)),
        norm("key-value norm", cut.shared_tokens * a.kv_lora_rank, float(a.kv_lora_rank), cut.input_bytes),
        product("key-value up", "mla_up_proj", cut.tokens, heads * (a.head_dim + a.value_dim), a.kv_lora_rank),
    ]


def gathered_width(model: Model, layer: Layer) -> int:
    """Width of what tensor-parallel ranks gather before the mixer: for MLA the compressed queries, keys and values."""
    a = layer.attention
    if not a or not a.is_latent:
        return model.hidden
    return (a.q_lora_rank or model.hidden) + a.kv_lora_rank + a.rope_head_dim


def _query_key_value(model: Model, a: Attention, cut: Share) -> list[Operator]:
    """Projections to queries, keys and values, with their norms."""
    if a.is_latent:
        return _latent(model, a, cut)
    h = model.hidden
    heads = a.heads / cut.tp
    kv_heads = cut.zero if a.shared_kv else _local(a.kv_heads, cut)
    queries, keys_and_values = heads * a.head_dim * (2 if a.output_gate else 1), 2 * kv_heads * a.head_dim
    parts: list[Operator] = []
    if a.q_lora_rank:
        parts += _queries(model, a, cut, queries)
        if not a.shared_kv:
            bias = keys_and_values if a.qkv_bias else 0.0
            parts.append(product("key-value", "qkv", cut.tokens, keys_and_values, h, bias=bias))
    else:
        width = queries + keys_and_values
        parts.append(product("query-key-value", "qkv", cut.tokens, width, h, bias=width if a.qkv_bias else 0.0))
    if a.qk_norm:
        # A layer that takes its keys from another one still stores the weights of their norm.
        sets = {"head": cut.zero + 2, "heads": heads + kv_heads, "none": cut.zero}
        normed = cut.tokens * (heads + kv_heads) * a.head_dim
        parts.append(norm("query-key norm", normed, sets[a.qk_norm_weights] * a.head_dim))
    return parts


def _rotated(model: Model, a: Attention) -> int:
    """Width of a head that turns with its position."""
    if a.is_latent:
        return a.rope_head_dim
    if a.rotary_dim is not None:
        return a.rotary_dim
    return 0 if model.learned_positions else a.head_dim


def _indexer(model: Model, a: Attention, cut: Share, seq_len: int) -> list[Operator]:
    """Scores of all keys by a few small heads; each tensor-parallel rank needs the choice, so each makes it.

    References: DeepSeek-AI, "DeepSeek-V3.2-Exp," 2025, section 2.1, and its published inference code.
    """
    if not a.index_heads:
        return []
    width, queries = a.index_heads * a.index_dim, cut.tokens / cut.batch
    return [
        product("index queries", "qkv", cut.tokens, width, a.q_lora_rank or model.hidden),
        product("index keys", "qkv", cut.tokens, a.index_dim, model.hidden),
        norm("index key norm", cut.tokens * a.index_dim, 2.0 * a.index_dim),
        product("index weights", "qkv", cut.tokens, a.index_heads, model.hidden),
        Core(
            name="index scores",
            module="core_attn",
            heads=a.index_heads * cut.batch,
            queries=queries,
            keys=np.full_like(queries, seq_len),
            qk_dim=a.index_dim,
            value_dim=0,
            saved_bytes=cut.zero,
        ),
    ]


def _attention(model: Model, a: Attention, cut: Share, seq_len: int) -> list[Operator]:
    heads = a.heads / cut.tp
    kv_heads = heads if a.is_latent else _local(a.kv_heads, cut)
    queries = cut.tokens / cut.batch
    turned = cut.tokens * (heads + kv_heads) * _rotated(model, a)
    attended = cut.tokens * heads * a.value_dim
    gate: list[Operator] = []
    if a.output_gate:
        gate = [
            vector("attention gate", "attn_out", attended, forward=3 * attended, backward=5 * attended, saved=attended)
        ]
    return [
        *_query_key_value(model, a, cut),
        vector("rotary positions", "qkv", turned, forward=2 * turned, backward=2 * turned),
        Message(
            name="key-value exchange",
            group="cp",
            collective="all_gather",
            bytes=ELEMENT_BYTES * cut.batch * seq_len * kv_heads * (a.qk_dim + a.value_dim),
            forward=1,
            backward=2,
        ),
        *_indexer(model, a, cut, seq_len),
        Core(
            name="attention core",
            module="core_attn",
            heads=heads * cut.batch,
            queries=queries,
            keys=np.full_like(queries, seq_len),
            qk_dim=a.qk_dim,
            value_dim=a.value_dim,
            saved_bytes=4 * cut.tokens * heads,
            window=a.window,
            is_chunked=a.is_chunked,
        ),
        # The core's result is the projection's input; it is kept even where the core is recomputed.
        vector("attended values", "attn_out", attended, weights=heads if a.sinks else 0.0, saved=attended),
        *gate,
        product(
            "attention output",
            "residual",
            cut.tokens,
            model.hidden,
            heads * a.value_dim,
            bias=float(model.hidden) if a.output_bias else 0.0,
            saved=False,
        ),
    ]


# --- States of fixed size -----------------------------------------------------------------------------------------


def _convolution(cut: Share, channels: FloatArray, tokens_seen: int, *, bias: bool) -> Scan:
    """A convolution over the last tokens, each channel by itself."""
    elements = cut.tokens * channels
    return Scan(
        name="convolution",
        module="mixer",
        flop=2 * tokens_seen * elements,
        forward_bytes=2 * ELEMENT_BYTES * elements,
        backward_bytes=3 * ELEMENT_BYTES * elements,
        weight_elements=channels * (tokens_seen + bias),
        saved_bytes=ELEMENT_BYTES * elements,
    )


def _recurrence(cut: Share, operands: FloatArray, entries: FloatArray, flop: float, weights: FloatArray) -> Scan:
    """A state of so many entries that each token updates and reads, moving so many operands for it."""
    return Scan(
        name="state",
        module="mixer",
        flop=flop * cut.tokens * entries,
        forward_bytes=ELEMENT_BYTES * cut.tokens * operands,
        backward_bytes=2 * ELEMENT_BYTES * cut.tokens * operands,
        weight_elements=weights,
        saved_bytes=STATE_BYTES * cut.tokens / TOKENS_PER_STATE * entries,
    )


def _state_space(hidden: int, s: StateSpace, cut: Share) -> list[Operator]:
    inner = s.inner / cut.tp
    elements = cut.tokens * inner
    output: list[Operator] = [
        vector("mixed values", "mixer", elements, forward=3 * elements, backward=5 * elements, saved=elements),
        product("state-space output", "residual", cut.tokens, hidden, inner, bias=float(hidden * s.bias), saved=False),
    ]
    if s.heads:
        heads, both_maps = _local(s.heads, cut), 2 * _local(s.groups, cut) * s.state
        width = 2 * inner + both_maps + heads
        return [
            product("state-space input", "mixer", cut.tokens, width, hidden, bias=width * s.bias),
            _convolution(cut, inner + both_maps, s.conv, bias=s.conv_bias),
            _recurrence(cut, 2 * inner + both_maps + heads, inner * s.state, STATE_SPACE_FLOP, weights=3 * heads),
            norm("state-space norm", elements, inner),
            *output,
        ]
    maps = s.dt_rank + 2.0 * s.state
    norms = [norm("state-space norm", cut.tokens * maps, maps)] if s.inner_norms else []
    return [
        product("state-space input", "mixer", cut.tokens, 2 * inner, hidden, bias=2 * inner * s.bias),
        _convolution(cut, inner, s.conv, bias=s.conv_bias),
        product("step widths and maps", "mixer", cut.tokens, maps, inner),
        *norms,
        product("step widths", "mixer", cut.tokens, inner, float(s.dt_rank), bias=inner),
        _recurrence(cut, 3 * inner + 2 * s.state, inner * s.state, STATE_SPACE_FLOP, weights=inner * (s.state + 1)),
        *output,
    ]


def _linear_attention(hidden: int, a: LinearAttention, cut: Share) -> list[Operator]:
    keys, values = _local(a.key_heads, cut) * a.key_dim, _local(a.value_heads, cut) * a.value_dim
    heads = _local(a.value_heads, cut)
    mixed = cut.tokens * values
    convolution = [_convolution(cut, 2 * keys + values, a.conv, bias=False)] if a.conv else []
    is_delta = a.rule == "gated_delta"
    gates: list[Operator] = []
    if is_delta:  # step width and decay of each head
        gates.append(product("step widths", "mixer", cut.tokens, 2 * heads, hidden))
    return [
        # Queries, keys, values, and a gate for each value.
        product("linear query-key-value", "mixer", cut.tokens, 2 * keys + 2 * values, hidden),
        *gates,
        *convolution,
        _recurrence(
            cut,
            2 * keys + 2 * values,
            heads * a.key_dim * a.value_dim,
            DELTA_RULE_FLOP if is_delta else LIGHTNING_FLOP,
            weights=2 * heads if is_delta else cut.zero,
        ),
        norm("linear attention norm", mixed, float(a.value_dim) if is_delta else values),
        vector("mixed values", "mixer", mixed, forward=3 * mixed, backward=5 * mixed, saved=mixed),
        product("linear attention output", "residual", cut.tokens, hidden, values, saved=False),
    ]
