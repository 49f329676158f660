"""Layers that the keys of a ``config.json`` make, in the ways that families have.

A :class:`Family` says what a ``model_type`` means beyond its keys; the functions below are those of its parts that are
more than a fact: attention and its windows, states of fixed size, feed-forward parts. Facts are those of the
``transformers`` classes [1]_, or of the code published with the weights where the library has none (arctic, grok-1,
hunyuan, step3).

References
----------
.. [1] Hugging Face transformers, src/transformers/models/*/configuration_*.py and modeling_*.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Literal

from clusterplan.configuration import (
    EXPERT_FFN,
    EXPERTS,
    FFN,
    HEAD_DIM,
    KV_HEADS,
    LARGEST_TABLE,
    TOP_K,
    Keys,
    Switch,
    quote,
)
from clusterplan.workload import Attention, Experts, Layer, LinearAttention, NormPlace, StateSpace


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """What a ``model_type`` means beyond its keys."""

    tied: bool | None = False
    """``tie_word_embeddings`` when absent; None where it must be there."""
    kv_heads: Literal["key", "default", "each"] | Callable[[Keys, int], int] = "key"
    """Key and value heads: their key, which by default means as many as query heads; one each whatever it says."""
    head_dim_default: bool = True
    """An absent ``head_dim`` means hidden over heads."""
    gated: bool = True
    norm_place: NormPlace = "before"
    norm_weight: bool = True
    norm_bias: Switch = False
    embedding_norm: bool = False
    final_norm: Switch = True
    is_parallel: Switch = False
    shared_norm: Switch = False
    qk_norm: Switch = False
    qk_norm_weights: Literal["head", "heads", "none"] = "head"
    qkv_bias: Switch = False
    output_bias: Switch = False
    mlp_bias: Switch = False
    head_bias: Switch = False
    sinks: bool = False
    output_gate: bool = False
    rotary: float | Callable[[Keys], bool] = 1.0
    """Share of a head that turns where no key says it, or whether any does."""
    latent: bool = False
    """Keys and values are compressed (MLA)."""
    windows: Callable[[Keys, Family], list[int]] | None = None
    """Window of each layer where ``layer_types`` does not say it."""
    mixers: Callable[[Keys, Family], list[Layer]] | None = None
    """Mixers of the layers, where not all have attention."""
    feed_forward: Callable[[Keys, Family], list[Layer]] | None = None
    """Feed-forward parts of the layers, where they are not all dense and alike."""
    ffn_times_hidden: int = 0
    """An absent feed-forward width means this many times the hidden one; 0 where it must be there."""
    positions: str | Callable[[Keys], int] = ""
    """Key of the learned positions; empty with rotary or relative ones."""
    positions_more: int = 0
    """Entries of that table beyond the key."""
    needs: tuple[tuple[str, bool, bool], ...] = ()
    """Keys, the value without which the shape cannot be told, and the value when absent."""


# --- Attention ----------------------------------------------------------------------------------------------------


def attention(keys: Keys, family: Family) -> Attention:
    """Attention of a family, without windows."""
    if family.latent:
        return _latent(keys, family)
    heads, hidden = keys.heads, keys.hidden
    given = any(keys.has(name) for name in KV_HEADS)
    if callable(family.kv_heads):
        kv_heads = family.kv_heads(keys, heads)
    elif family.kv_heads == "each":
        kv_heads = heads
    elif family.kv_heads == "default" and not given:
        kv_heads = heads
        keys.warn(f"num_key_value_heads is missing; as many as query heads, {heads}")
    else:
        kv_heads = keys.whole(*KV_HEADS)
    if heads % kv_heads:
        keys.fail(f"num_attention_heads = {heads} is not a multiple of num_key_value_heads = {kv_heads}")
    has_width = any(keys.has(name) for name in HEAD_DIM)
    if not has_width and hidden % heads:
        keys.fail(f"head_dim is missing, and hidden_size = {hidden} is not a multiple of {heads} heads")
    head_dim = keys.whole(*HEAD_DIM, default=hidden // heads if family.head_dim_default else None)
    return Attention(
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        rotary_dim=_rotary(keys, family, head_dim),
        qkv_bias=keys.switch(family.qkv_bias),
        output_bias=keys.switch(family.output_bias),
        qk_norm=keys.switch(family.qk_norm),
        qk_norm_weights=family.qk_norm_weights if keys.switch(family.qk_norm) else "head",
        sinks=family.sinks,
        output_gate=family.output_gate,
    )


def indexed_attention(keys: Keys, family: Family) -> list[Layer]:
    """deepseek_v32, glm_moe_dsa: an indexer picks the keys that a query attends to."""
    if keys.whole("index_topk_freq", default=1) != 1:
        keys.fail("index_topk_freq is not 1: layers that share an indexer, which a model profile cannot say")
    picked = replace(
        attention(keys, family),
        window=keys.whole("index_topk", most=LARGEST_TABLE),
        index_heads=keys.whole("index_n_heads"),
        index_dim=keys.whole("index_head_dim"),
    )
    return [Layer(attention=picked)] * keys.layers


def _rotary(keys: Keys, family: Family, head_dim: int) -> int | None:
    """Width of a head that turns with its position; None for all of it, or where positions are learned."""
    if family.positions and not callable(family.positions):
        return None
    if callable(family.rotary) or family.rotary == 0:
        return None if callable(family.rotary) and family.rotary(keys) else 0
    if keys.has("rotary_dim"):
        turned = min(keys.whole("rotary_dim"), head_dim)
    else:
        rope = keys.get("rope_parameters")  # transformers 5; by kind of layer where they differ
        inner = Keys(rope, keys.where).share("partial_rotary_factor") if isinstance(rope, dict) else None
        outer = keys.share("partial_rotary_factor", "rotary_pct", "rope_pct")
        turned = int(head_dim * next(share for share in (outer, inner, family.rotary) if share is not None))
    return None if turned == head_dim else turned


def _latent(keys: Keys, family: Family) -> Attention:
    """Latent attention (MLA); ``head_dim``, where a file has it, is not used."""
    heads = keys.heads
    if keys.whole("num_key_value_heads", default=heads) != heads:
        keys.fail(f"num_key_value_heads differs from num_attention_heads = {heads}, which latent attention has not")
    if "q_lora_rank" not in keys.table:
        keys.fail("q_lora_rank is missing, and the shape cannot be told without it (null: queries are not compressed)")
    return Attention(
        heads=heads,
        kv_heads=heads,
        head_dim=keys.whole("qk_nope_head_dim"),
        q_lora_rank=keys.whole("q_lora_rank", default=0),
        kv_lora_rank=keys.whole("kv_lora_rank"),
        rope_head_dim=keys.whole("qk_rope_head_dim"),
        v_head_dim=keys.whole("v_head_dim"),
        qkv_bias=keys.switch(family.qkv_bias),
        output_bias=keys.switch(family.output_bias),
    )


def windowed(keys: Keys, family: Family) -> list[Layer]:
    """Attention of each layer with its window."""
    base = attention(keys, family)
    kinds = layer_types(keys)
    if kinds is None:
        windows = (family.windows or _everywhere_if_given)(keys, family)
        return [Layer(attention=replace(base, window=window)) for window in windows]
    made = {"full_attention": base}
    if "sliding_attention" in kinds:
        made["sliding_attention"] = replace(base, window=_window(keys))
    if "chunked_attention" in kinds:
        made["chunked_attention"] = _chunked(keys, base)
    for kind in kinds:
        if kind not in made:
            keys.fail(f"layer_types has {quote(kind)}, which is not known for this model_type")
    return [Layer(attention=made[kind]) for kind in kinds]


def layer_types(keys: Keys, name: str = "layer_types") -> list[str] | None:
    """Kind of each layer as the file lists them; None if it does not."""
    kinds = keys.get(name)
    if kinds is None:
        return None
    if not isinstance(kinds, list) or not all(isinstance(kind, str) for kind in kinds):
        keys.fail(f"{name} = {quote(kinds)} is no list of texts")
    if len(kinds) != keys.layers:
        keys.fail(f"{name} has {len(kinds)} entries for {keys.layers} layers")
    return kinds


def _window(keys: Keys) -> int:
    return keys.whole("sliding_window", most=LARGEST_TABLE)


def _chunked(keys: Keys, base: Attention) -> Attention:
    return replace(base, window=keys.whole("attention_chunk_size", most=LARGEST_TABLE), is_chunked=True)


def windows_everywhere(keys: Keys, _: Family) -> list[int]:
    """mistral, mixtral, phi3, starcoder2: one window for all layers, unless it is null."""
    return [keys.whole("sliding_window", most=LARGEST_TABLE, default=0)] * keys.layers


def mistral_windows(keys: Keys, _: Family) -> list[int]:
    """mistral: the window of its first model where the key is absent."""
    if "sliding_window" not in keys.table and layer_types(keys) is None:
        keys.warn("sliding_window is missing; 4,096 tokens, as transformers has it (null for full attention)")
        return [4096] * keys.layers
    return windows_everywhere(keys, _)


def _everywhere_if_given(keys: Keys, family: Family) -> list[int]:
    """A family that has no windows, or none that is known."""
    if keys.has("sliding_window") and keys.flag("use_sliding_window", True):
        keys.warn(f"sliding_window = {_window(keys)} is read as the window of all layers; null for full attention")
        return windows_everywhere(keys, family)
    return [0] * keys.layers


def windows_from_some_layer(keys: Keys, _: Family) -> list[int]:
    """qwen2, qwen3: windows from ``max_window_layers`` on, if they are switched on."""
    if not keys.flag("use_sliding_window", False) or not keys.has("sliding_window"):
        return [0] * keys.layers
    first = keys.whole("max_window_layers", least=0)
    return [_window(keys) if layer >= first else 0 for layer in range(keys.layers)]


def windows_but_every(period: int, *names: str) -> Callable[[Keys, Family], list[int]]:
    """Windows in all layers but each ``period``-th; a key may say another period."""

    def windows(keys: Keys, _: Family) -> list[int]:
        if "sliding_window" in keys.table and not keys.has("sliding_window"):
            return [0] * keys.layers
        if not any(keys.has(name) for name in names):
            missing = " (or ".join(("layer_types", *names)) + ")" * len(names)
            keys.warn(f"{missing} is missing; attention is full in every {_nth(period)} layer, as transformers has it")
        full = keys.whole(*names, default=period) if names else period
        return [_window(keys) if (layer + 1) % full else 0 for layer in range(keys.layers)]

    return windows


def _nth(number: int) -> str:
    return {2: "second", 3: "third"}.get(number, f"{number}th")


def gemma2_windows(keys: Keys, _: Family) -> list[int]:
    """gemma2: windows in the first and every second layer."""
    if "sliding_window" in keys.table and not keys.has("sliding_window"):
        return [0] * keys.layers
    return [0 if layer % 2 else _window(keys) for layer in range(keys.layers)]


def llama4_attention(keys: Keys, family: Family) -> list[Layer]:
    """llama4: chunks with positions, full attention without them in every fourth layer."""
    base = attention(keys, family)
    kinds, without = layer_types(keys), keys.numbers("no_rope_layers")
    if without is not None and len(without) not in (0, keys.layers):
        keys.fail(f"no_rope_layers has {len(without)} entries for {keys.layers} layers")
    if kinds is None and not without:
        every = keys.whole("no_rope_layer_interval", default=4)
        without = [int((layer + 1) % every != 0) for layer in range(keys.layers)]
    elif not without:
        without = [int(kind == "chunked_attention") for kind in kinds or ()]
    full = replace(base, rotary_dim=0, qk_norm=False, qk_norm_weights="head")
    if not keys.has("attention_chunk_size"):
        if "attention_chunk_size" not in keys.table:
            keys.fail("attention_chunk_size is missing, and the shape cannot be told without it (null: no chunks)")
        return [Layer(attention=base if turns else full) for turns in without or ()]
    return [Layer(attention=_chunked(keys, base) if turns else full) for turns in without or ()]


def shared_keys(keys: Keys, family: Family) -> list[Layer]:
    """hunyuan: of every few layers only the first projects keys and values (CLA)."""
    base = attention(keys, family)
    is_shared = keys.flag("use_cla", None if keys.text("model_type") == "hunyuan" else False)
    share = keys.whole("cla_share_factor") if is_shared else 1
    keys.used.add("cla_share_factor")
    return [Layer(attention=replace(base, shared_kv=layer % share > 0)) for layer in range(keys.layers)]


def hunyuan_norms(keys: Keys) -> bool:
    """Whether a hunyuan has norms on queries and keys; its first models say so."""
    return keys.flag("use_qk_norm", None if keys.text("model_type") == "hunyuan" else True)


def factorised_attention(keys: Keys, family: Family) -> list[Layer]:
    """step3: queries go through a rank with a norm (multi-matrix factorisation attention)."""
    base = attention(keys, family)
    return [Layer(attention=replace(base, q_lora_rank=keys.whole("share_q_dim")))] * keys.layers


def falcon_kv_heads(keys: Keys, heads: int) -> int:
    """falcon: one unless its newer layout says how many."""
    if keys.flag("new_decoder_architecture", False):
        return keys.whole("num_kv_heads", "n_head_kv", default=heads)
    return 1 if keys.flag("multi_query", True) else heads


def mpt_kv_heads(keys: Keys, heads: int) -> int:
    """mpt: by the name of its kind of attention."""
    kind = keys.text("attn_config.attn_type") or "multihead_attention"
    known = {"multihead_attention": heads, "multiquery_attention": 1}
    if kind == "grouped_query_attention":
        return keys.whole("attn_config.kv_n_heads")
    if kind not in known:
        keys.fail(f"attn_config.attn_type = {quote(kind)} is not known")
    return known[kind]


def bigcode_kv_heads(keys: Keys, heads: int) -> int:
    """gpt_bigcode: one, or as many as query heads."""
    return 1 if keys.flag("multi_query", True) else heads


def chatglm_kv_heads(keys: Keys, heads: int) -> int:
    """chatglm: groups, or as many as query heads."""
    return keys.whole("multi_query_group_num") if keys.flag("multi_query_attention", False) else heads


# --- States of fixed size -----------------------------------------------------------------------------------------


def mamba_mixers(keys: Keys, _: Family) -> list[Layer]:
    """mamba, falcon_mamba: a state space in each layer and nothing else."""
    hidden = keys.hidden
    expanded = keys.whole("expand", default=2) * hidden
    space = StateSpace(
        inner=keys.whole("intermediate_size", "d_inner", default=expanded),
        state=keys.whole("state_size"),
        conv=keys.whole("conv_kernel"),
        dt_rank=_dt_rank(keys, "time_step_rank"),
        conv_bias=keys.flag("use_conv_bias", True),
        bias=keys.flag("use_bias", False),
    )
    return [Layer(state_space=space)] * keys.layers


def _dt_rank(keys: Keys, name: str) -> int:
    """Rank of the step widths; ``auto`` is a sixteenth of the hidden width."""
    if keys.table.get(name) == "auto":
        keys.used.add(name)
        return ceil(keys.hidden / 16)
    return keys.whole(name)


def mamba2_mixers(keys: Keys, _: Family) -> list[Layer]:
    """mamba2: as mamba, with heads."""
    space = StateSpace(
        inner=keys.whole("expand") * keys.hidden,
        state=keys.whole("state_size"),
        conv=keys.whole("conv_kernel"),
        heads=keys.whole("num_heads"),
        groups=keys.whole("n_groups"),
        conv_bias=keys.flag("use_conv_bias", True),
        bias=keys.flag("use_bias", False),
    )
    _same_inner(keys, space, keys.whole("head_dim"))
    return [Layer(state_space=space)] * keys.layers


def _same_inner(keys: Keys, space: StateSpace, head_dim: int) -> None:
    if space.heads * head_dim != space.inner:
        keys.fail(f"{space.heads} heads of {head_dim} are not the expanded width {space.inner}")


def jamba_mixers(keys: Keys, family: Family) -> list[Layer]:
    """jamba: attention in one layer of a period, a state space in the others."""
    mixing = StateSpace(
        inner=keys.whole("mamba_expand") * keys.hidden,
        state=keys.whole("mamba_d_state"),
        conv=keys.whole("mamba_d_conv"),
        dt_rank=_dt_rank(keys, "mamba_dt_rank"),
        conv_bias=keys.flag("mamba_conv_bias", True),
        bias=keys.flag("mamba_proj_bias", False),
        inner_norms=True,
    )
    period, offset = keys.whole("attn_layer_period"), keys.whole("attn_layer_offset", least=0)
    return _some_attend(keys, family, mixing, [layer % period == offset for layer in range(keys.layers)])


def _some_attend(keys: Keys, family: Family, mixing: StateSpace, attends: list[bool]) -> list[Layer]:
    base = attention(keys, family)
    return [Layer(attention=base) if one else Layer(state_space=mixing) for one in attends]


def mamba2_and_attention(keys: Keys, family: Family) -> list[Layer]:
    """bamba, granitemoehybrid: attention in listed layers, Mamba-2 in the others."""
    mixing = StateSpace(
        inner=keys.whole("mamba_expand") * keys.hidden,
        state=keys.whole("mamba_d_state"),
        conv=keys.whole("mamba_d_conv"),
        heads=keys.whole("mamba_n_heads"),
        groups=keys.whole("mamba_n_groups"),
        conv_bias=keys.flag("mamba_conv_bias", True),
        bias=keys.flag("mamba_proj_bias", False),
    )
    if keys.table.get("mamba_d_head") != "auto":
        _same_inner(keys, mixing, keys.whole("mamba_d_head"))
    kinds = layer_types(keys) or layer_types(keys, "layers_block_type")
    if kinds is None:
        listed = keys.numbers("attn_layer_indices")
        if listed is None:
            keys.fail("layer_types (or attn_layer_indices) is missing, and the shape cannot be told without it")
        return _some_attend(keys, family, mixing, [layer in listed for layer in range(keys.layers)])
    if unknown := sorted(set(kinds) - {"mamba", "attention"}):
        keys.fail(f"layer_types has {quote(unknown[0])}, which is not known for this model_type")
    return _some_attend(keys, family, mixing, [kind == "attention" for kind in kinds])


def nemotron_h_mixers(keys: Keys, family: Family) -> list[Layer]:
    """nemotron_h: each layer is one part, by a letter of the pattern."""
    return [layer for layer, _ in _nemotron_h_parts(keys, family)]


def nemotron_h_feed_forward(keys: Keys, family: Family) -> list[Layer]:
    """nemotron_h: the feed-forward parts of the pattern."""
    return [layer for _, layer in _nemotron_h_parts(keys, family)]


def _nemotron_h_parts(keys: Keys, family: Family) -> list[tuple[Layer, Layer]]:
    pattern, nothing = keys.text("hybrid_override_pattern"), Layer()
    if len(pattern) != keys.layers or set(pattern) - set("M*-E"):
        keys.fail(f"hybrid_override_pattern = {quote(pattern)} does not say what each of {keys.layers} layers is")
    heads, head_dim = keys.whole("mamba_num_heads"), keys.whole("mamba_head_dim")
    space = StateSpace(
        inner=heads * head_dim,
        state=keys.whole("ssm_state_size"),
        conv=keys.whole("conv_kernel"),
        heads=heads,
        groups=keys.whole("n_groups"),
        conv_bias=keys.flag("use_conv_bias", True),
        bias=keys.flag("mamba_proj_bias", False),
    )
    parts = {"M": (Layer(state_space=space), nothing)}
    if "*" in pattern:
        parts["*"] = (Layer(attention=attention(keys, family)), nothing)
    if "-" in pattern:
        parts["-"] = (nothing, Layer(ffn=keys.whole(*FFN)))
    if "E" in pattern:
        shared = keys.whole("moe_shared_expert_intermediate_size", least=0) * keys.whole("n_shared_experts", least=0)
        moe = Experts(
            experts=keys.whole(*EXPERTS), top_k=keys.whole(*TOP_K), ffn=keys.whole(*EXPERT_FFN), shared_ffn=shared
        )
        parts["E"] = (nothing, Layer(moe=moe))
    return [parts[letter] for letter in pattern]


def qwen3_next_mixers(keys: Keys, family: Family) -> list[Layer]:
    """qwen3_next: full attention in every fourth layer, a gated delta rule in the others."""
    full = Layer(attention=attention(keys, family))
    linear = Layer(
        linear_attention=LinearAttention(
            rule="gated_delta",
            key_heads=keys.whole("linear_num_key_heads"),
            value_heads=keys.whole("linear_num_value_heads"),
            key_dim=keys.whole("linear_key_head_dim"),
            value_dim=keys.whole("linear_value_head_dim"),
            conv=keys.whole("linear_conv_kernel_dim"),
        )
    )
    return _full_or_linear(keys, full, linear)


def _full_or_linear(keys: Keys, full: Layer, linear: Layer) -> list[Layer]:
    kinds = layer_types(keys)
    keys.used.add("full_attention_interval")
    if kinds is None:
        every = keys.whole("full_attention_interval")
        return [linear if (layer + 1) % every else full for layer in range(keys.layers)]
    if unknown := sorted(set(kinds) - {"full_attention", "linear_attention"}):
        keys.fail(f"layer_types has {quote(unknown[0])}, which is not known for this model_type")
    return [full if kind == "full_attention" else linear for kind in kinds]


def minimax_mixers(keys: Keys, family: Family) -> list[Layer]:
    """minimax, minimax_text_01: lightning attention, full attention in listed layers."""
    base = attention(keys, family)
    full = Layer(attention=base)
    linear = Layer(
        linear_attention=LinearAttention(
            rule="lightning",
            key_heads=base.heads,
            value_heads=base.heads,
            key_dim=base.head_dim,
            value_dim=base.head_dim,
        )
    )
    listed = keys.numbers("attn_type_list")
    if listed is None:
        if layer_types(keys) is None:
            keys.fail("attn_type_list (or layer_types) is missing, and the shape cannot be told without it")
        return _full_or_linear(keys, full, linear)
    if len(listed) != keys.layers or set(listed) - {0, 1}:
        keys.fail(f"attn_type_list must have 0 or 1 for each of {keys.layers} layers")
    return [full if one else linear for one in listed]


# --- Feed-forward parts -------------------------------------------------------------------------------------------


def dense(keys: Keys, family: Family) -> list[Layer]:
    """A dense feed-forward part in each layer."""
    by_default = family.ffn_times_hidden * keys.hidden or None
    return [Layer(ffn=width) for width in keys.each(keys.layers, *FFN, default=by_default)]


def _some_sparse(keys: Keys, moe: Experts, sparse: Sequence[bool], *names: str) -> list[Layer]:
    """Experts in some layers, a dense part in the others; its width is asked for only if there are any."""
    if all(sparse):
        return [Layer(moe=moe)] * keys.layers
    if not any(sparse):
        keys.fail(f"none of {keys.layers} layers has experts, though there are {moe.experts}")
    widths = keys.each(keys.layers, *(names or FFN))
    return [Layer(moe=moe) if one else Layer(ffn=width) for one, width in zip(sparse, widths, strict=True)]


def mixtral_experts(keys: Keys, _: Family) -> list[Layer]:
    """mixtral, olmoe, phimoe, granitemoe, minimax, grok-1: experts in each layer, wide as ``intermediate_size``."""
    shared = keys.whole("shared_intermediate_size", least=0, default=0)
    moe = Experts(
        experts=keys.whole(*EXPERTS), top_k=keys.whole(*TOP_K), ffn=keys.whole("intermediate_size"), shared_ffn=shared
    )
    return [Layer(moe=moe)] * keys.layers


def gpt_oss_experts(keys: Keys, family: Family) -> list[Layer]:
    """gpt_oss: as mixtral, with biases everywhere."""
    return [
        Layer(moe=replace(one.moe, router_bias=True, expert_bias=True))
        for one in mixtral_experts(keys, family)
        if one.moe
    ]


def granite_hybrid_feed_forward(keys: Keys, family: Family) -> list[Layer]:
    """granitemoehybrid: experts, if any, beside a shared part; without them the shared part alone."""
    if keys.whole(*EXPERTS, least=0) == 0:
        return [Layer(ffn=keys.whole("shared_intermediate_size"))] * keys.layers
    return mixtral_experts(keys, family)


def _qwen3_sparse(keys: Keys) -> list[bool]:
    step, listed = keys.whole("decoder_sparse_step", default=1), keys.numbers("mlp_only_layers") or []
    return [layer not in listed and (layer + 1) % step == 0 for layer in range(keys.layers)]


def qwen3_experts(keys: Keys, _: Family) -> list[Layer]:
    """qwen3_moe: dense layers are listed in ``mlp_only_layers``."""
    moe = Experts(experts=keys.whole(*EXPERTS), top_k=keys.whole(*TOP_K), ffn=keys.whole(*EXPERT_FFN))
    return _some_sparse(keys, moe, _qwen3_sparse(keys))


def qwen2_experts(keys: Keys, _: Family) -> list[Layer]:
    """qwen2_moe, qwen3_next: as qwen3_moe, and one shared expert with a gate."""
    shared = keys.whole("shared_expert_intermediate_size", least=0)
    moe = Experts(
        experts=keys.whole(*EXPERTS),
        top_k=keys.whole(*TOP_K),
        ffn=keys.whole(*EXPERT_FFN),
        shared_ffn=shared,
        shared_gate=shared > 0,
    )
    return _some_sparse(keys, moe, _qwen3_sparse(keys))


def _deepseek_sparse(keys: Keys) -> list[bool]:
    every = keys.each(keys.layers, "moe_layer_freq", least=0, default=1)
    if isinstance(keys.table.get("moe_layer_freq"), list):  # 1 where a layer has experts
        return [one > 0 for one in every]
    first = keys.whole("first_k_dense_replace", least=0)
    return [layer >= first and layer % max(every[0], 1) == 0 for layer in range(keys.layers)]


def deepseek_experts(keys: Keys, _: Family) -> list[Layer]:
    """deepseek, glm4_moe: leading dense layers, then experts. The router's balancing bias is no parameter."""
    width = keys.whole(*EXPERT_FFN)
    if "n_shared_experts" not in keys.table:
        keys.fail("n_shared_experts is missing, and the shape cannot be told without it")
    moe = Experts(
        experts=keys.whole(*EXPERTS),
        top_k=keys.whole(*TOP_K),
        ffn=width,
        shared_ffn=width * keys.whole("n_shared_experts", least=0, default=0),
        groups=keys.whole("n_group", default=1),
        groups_per_token=keys.whole("topk_group", default=1),
    )
    return _some_sparse(keys, moe, _deepseek_sparse(keys))


def ernie_experts(keys: Keys, _: Family) -> list[Layer]:
    """ernie4_5_moe: experts between a first and a last layer. The router's balancing bias is stored as a parameter."""
    layers, every = keys.layers, keys.whole("moe_layer_interval", default=1)
    first, last = keys.whole("moe_layer_start_index", least=0), keys.whole("moe_layer_end_index", least=-1, default=-1)
    last = layers - 1 if last == -1 else last
    width = keys.whole(*EXPERT_FFN)
    moe = Experts(
        experts=keys.whole(*EXPERTS),
        top_k=keys.whole(*TOP_K),
        ffn=width,
        shared_ffn=width * keys.whole("moe_num_shared_experts", least=0),
        router_bias=True,
    )
    sparse = [first <= layer <= last and (layer + 1) % every == 0 for layer in range(layers)]
    return _some_sparse(keys, moe, sparse)


def llama4_experts(keys: Keys, _: Family) -> list[Layer]:
    """llama4: experts and a shared one of their width in every so many layers; dense layers have another width."""
    width, listed = keys.whole("intermediate_size"), keys.numbers("moe_layers")
    if listed is None:
        every = keys.whole("interleave_moe_layer_step")
        listed = list(range(every - 1, keys.layers, every))
    moe = Experts(experts=keys.whole(*EXPERTS), top_k=keys.whole(*TOP_K), ffn=width, shared_ffn=width)
    sparse = [layer in listed for layer in range(keys.layers)]
    return _some_sparse(keys, moe, sparse, "intermediate_size_mlp")


def jamba_experts(keys: Keys, family: Family) -> list[Layer]:
    """jamba: experts in one layer of a period, as wide as the dense part of the others."""
    if keys.whole("num_experts") == 1:
        keys.used |= {"expert_layer_period", "expert_layer_offset"}
        return dense(keys, family)
    period, offset = keys.whole("expert_layer_period"), keys.whole("expert_layer_offset", least=0)
    moe = Experts(experts=keys.whole("num_experts"), top_k=keys.whole(*TOP_K), ffn=keys.whole("intermediate_size"))
    return _some_sparse(keys, moe, [layer % period == offset for layer in range(keys.layers)])


def hunyuan_experts(keys: Keys, _: Family) -> list[Layer]:
    """hunyuan, hunyuan_v1_moe: experts, shared ones beside them, any of it by layer."""
    layers = keys.layers
    dense_widths = keys.each(layers, "intermediate_size")
    widths = keys.each(layers, "moe_intermediate_size") if keys.has("moe_intermediate_size") else dense_widths
    experts, top_k = keys.each(layers, *EXPERTS), keys.each(layers, *TOP_K)
    is_mixed = keys.flag("use_mixed_mlp_moe", None if keys.text("model_type") == "hunyuan" else True)
    shared = keys.each(layers, "num_shared_expert", least=0) if is_mixed else [0] * layers
    skipped = keys.whole("moe_layer_num_skipped", least=0, default=0)
    return [
        Layer(ffn=dense_widths[at])
        if at < skipped or experts[at] == 1
        else Layer(
            moe=Experts(experts=experts[at], top_k=top_k[at], ffn=widths[at], shared_ffn=shared[at] * widths[at])
        )
        for at in range(layers)
    ]


def dbrx_experts(keys: Keys, _: Family) -> list[Layer]:
    """dbrx: experts in each layer, by a table of their own."""
    moe = Experts(
        experts=keys.whole("ffn_config.moe_num_experts"),
        top_k=keys.whole("ffn_config.moe_top_k"),
        ffn=keys.whole("ffn_config.ffn_hidden_size"),
    )
    return [Layer(moe=moe)] * keys.layers


def arctic_experts(keys: Keys, _: Family) -> list[Layer]:
    """arctic: experts of ``intermediate_size`` beside a dense part as wide as the stream, each with its norm."""
    moe = Experts(experts=keys.whole(*EXPERTS), top_k=keys.whole(*TOP_K), ffn=keys.whole("intermediate_size"))
    every = keys.whole("moe_layer_frequency")
    beside = keys.flag("parallel_attn_mlp_res") and keys.flag("use_residual", True)
    sparse = Layer(ffn=keys.hidden, moe=moe, moe_norm=True) if beside else Layer(moe=moe)
    plain = Layer(ffn=keys.whole("intermediate_size"))
    return [plain if (layer + 1) % every else sparse for layer in range(keys.layers)]


def longcat_experts(keys: Keys, _: Family) -> list[Layer]:
    """longcat_flash: attention and dense part twice in each layer, experts beside them, some of which do nothing."""
    if (kind := keys.text("zero_expert_type") or "identity") != "identity":
        keys.fail(f"zero_expert_type = {quote(kind)} is not known")
    moe = Experts(
        experts=keys.whole(*EXPERTS),
        top_k=keys.whole(*TOP_K),
        ffn=keys.whole(*EXPERT_FFN),
        zero_experts=keys.whole("zero_expert_num", least=0),
        router_bias=keys.flag("router_bias", False),
    )
    return [Layer(ffn=keys.whole(*FFN), moe=moe, repeats=2)] * keys.layers


def step3_experts(keys: Keys, _: Family) -> list[Layer]:
    """step3_text: experts in listed layers, a shared expert beside them."""
    listed = keys.numbers("moe_layers_enum")
    if listed is None:
        keys.fail("moe_layers_enum is missing, and the shape cannot be told without it")
    moe = Experts(
        experts=keys.whole(*EXPERTS),
        top_k=keys.whole(*TOP_K),
        ffn=keys.whole(*EXPERT_FFN),
        shared_ffn=keys.whole("share_expert_dim", least=0),
    )
    return _some_sparse(keys, moe, [layer in listed for layer in range(keys.layers)])


def qwen1_feed_forward(keys: Keys, _: Family) -> list[Layer]:
    """qwen: ``intermediate_size`` counts both halves of the gated product."""
    width = keys.whole("intermediate_size")
    if width % 2:
        keys.fail(f"intermediate_size = {width} counts gate and up projection, so it must be even")
    return [Layer(ffn=width // 2)] * keys.layers


def mpt_feed_forward(keys: Keys, _: Family) -> list[Layer]:
    """mpt: a dense part as many times as wide as the stream."""
    kind = keys.text("ffn_config.ffn_type") or "mptmlp"
    if kind not in ("mptmlp", "mptgeglu"):
        keys.fail(f"ffn_config.ffn_type = {quote(kind)} is not known")
    return [Layer(ffn=keys.whole("expansion_ratio") * keys.hidden)] * keys.layers


UNKNOWN_SHARED = ("n_shared_experts", "num_shared_experts", "num_shared_expert", "moe_num_shared_experts")
UNKNOWN_SHARED_FFN = (
    "shared_expert_intermediate_size",
    "moe_shared_expert_intermediate_size",
    "share_expert_dim",
    "shared_intermediate_size",
)


def unknown_feed_forward(keys: Keys, family: Family) -> list[Layer]:
    """A family that is not known: dense, or experts where all that decides their shape is there."""
    if not any(keys.has(name) for name in (*EXPERTS, *TOP_K, *EXPERT_FFN)):
        return dense(keys, family)
    width = keys.whole(*EXPERT_FFN)
    shared = keys.whole(*UNKNOWN_SHARED_FFN, least=0, default=0)
    if not shared:
        shared = width * keys.whole(*UNKNOWN_SHARED, least=0, default=0)
    moe = Experts(experts=keys.whole(*EXPERTS), top_k=keys.whole(*TOP_K), ffn=width, shared_ffn=shared)
    sparse = [True] * keys.layers
    if keys.has("first_k_dense_replace"):
        sparse = _deepseek_sparse(keys)
    elif keys.has("mlp_only_layers") or keys.has("decoder_sparse_step"):
        sparse = _qwen3_sparse(keys)
    else:
        keys.warn("no key says which layers are dense (first_k_dense_replace, mlp_only_layers); none is")
    where = f"in {sum(sparse)} of {keys.layers} layers"
    beside = f"shared ones {shared} wide" if shared else "none shared (no n_shared_experts)"
    keys.warn(f"experts are read as gated, {where}, {beside}")
    return _some_sparse(keys, moe, sparse)
