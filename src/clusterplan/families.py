"""What a ``model_type`` of a Hugging Face ``config.json`` means beyond its keys.

The same missing key means different things in different families: no ``tie_word_embeddings`` is true for gpt2 and false
for llama. Facts are those of the ``transformers`` classes [1]_, or of the code published with the weights where the
library has none (arctic, grok-1, hunyuan, step3).

References
----------
.. [1] Hugging Face transformers, src/transformers/models/*/configuration_*.py and modeling_*.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Literal, NoReturn

from clusterplan.errors import ProfileError
from clusterplan.workload import Attention, Experts, Layer, LinearAttention, NormPlace, StateSpace

LARGEST_COUNT = 1_000_000
"""assumed: no width, number of heads, experts or layers is larger; what is, is a slip of the keyboard."""
LARGEST_TABLE = 16_777_216
"""assumed: no vocabulary, no table of positions and no window has more entries."""
DEEPEST = 10_000
"""assumed: no network has more layers."""


class Keys:
    """One configuration; each key is checked as it is read, and it is known which were."""

    def __init__(self, table: dict[str, object], where: str, warnings: list[str] | None = None) -> None:
        self.table = dict(table)
        for part in ("attn_config", "ffn_config"):  # mpt, dbrx
            inner = table.get(part)
            if isinstance(inner, dict):
                self.table |= {f"{part}.{key}": value for key, value in inner.items()}
        self.where = where
        self.warnings: list[str] = [] if warnings is None else warnings
        self.used: set[str] = set()

    def fail(self, message: str) -> NoReturn:
        """Refuse the configuration."""
        raise ProfileError(message, where=self.where)

    def warn(self, message: str) -> None:
        """Note what the configuration leaves open."""
        if (text := f"{self.where}: {message}") not in self.warnings:
            self.warnings.append(text)

    def get(self, name: str) -> object:
        """The value under a name; null is taken for absent, as transformers does."""
        self.used.add(name)
        return self.table.get(name)

    def has(self, name: str) -> bool:
        """Whether the key is there and not null."""
        return self.get(name) is not None

    def whole(self, *names: str, least: int = 1, most: int = LARGEST_COUNT, default: int | None = None) -> int:
        """A whole number under any of its names."""
        return self.each(1, *names, least=least, most=most, default=default, listed=False)[0]

    def each(
        self,
        layers: int,
        *names: str,
        least: int = 1,
        most: int = LARGEST_COUNT,
        default: int | None = None,
        listed: bool = True,
    ) -> list[int]:
        """A whole number for each layer, under any of its names: one for all, or a list."""
        present = [name for name in names if self.has(name)]
        if not present:
            if default is None:
                others = f" (or {', '.join(names[1:])})" if names[1:] else ""
                state = "null" if names[0] in self.table else "missing"
                self.fail(f"{names[0]}{others} is {state}, and the shape cannot be told without it")
            return [default] * layers
        values = [self._each(name, layers, least, most, listed) for name in present]
        if any(value != values[0] for value in values):
            self.fail(
                f"{' and '.join(present)} differ: {[value[0] if len(set(value)) == 1 else value for value in values]}"
            )
        return values[0]

    def _each(self, name: str, layers: int, least: int, most: int, listed: bool) -> list[int]:
        value = self.table[name]
        if isinstance(value, list) and not listed:
            self.fail(f"{name} is a list, where one number for all layers is known")
        if isinstance(value, list) and len(value) != layers:
            self.fail(f"{name} has {len(value)} entries for {layers} layers")
        found = []
        for one in value if isinstance(value, list) else [value] * layers:
            if isinstance(one, bool) or not isinstance(one, int):
                self.fail(f"{name} = {quote(one)} is not a whole number")
            if not least <= one <= most:
                self.fail(f"{name} = {quote(one)} is not between {least} and {most}")
            found.append(one)
        return found

    def flag(self, name: str, default: bool | None = None) -> bool:
        """A boolean; numbers are refused."""
        if not self.has(name):
            if default is None:
                self.fail(f"{name} is missing, and its default is not known for this model_type")
            return default
        value = self.table[name]
        if not isinstance(value, bool):
            self.fail(f"{name} = {quote(value)} is neither true nor false")
        return value

    def switch(self, fact: Switch) -> bool:
        """A fact, or what its key says."""
        if isinstance(fact, bool):
            return fact
        return self.flag(*fact) if isinstance(fact, tuple) else fact(self)

    def share(self, *names: str) -> float | None:
        """A number from 0 to 1; None if absent."""
        for name in names:
            value = self.get(name)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
                self.fail(f"{name} = {quote(value)} is no share of a whole")
            return float(value)
        return None

    def text(self, name: str) -> str:
        """A string; empty if absent."""
        value = self.get(name)
        if value is None:
            return ""
        if not isinstance(value, str):
            self.fail(f"{name} = {quote(value)} is not a text")
        return value

    def numbers(self, name: str) -> list[int] | None:
        """A list of whole numbers, or their text with commas; None if absent."""
        value = self.get(name)
        if value is None:
            return None
        if isinstance(value, str) and all(part.strip().isdigit() for part in value.split(",")):
            value = [int(part) for part in value.split(",")]
        if not isinstance(value, list) or not all(isinstance(one, int) and not isinstance(one, bool) for one in value):
            self.fail(f"{name} = {quote(value)} is no list of whole numbers")
        return value

    @property
    def layers(self) -> int:
        """Layers of the model."""
        return self.whole(*LAYERS, most=DEEPEST)

    @property
    def hidden(self) -> int:
        """Width of the residual stream."""
        return self.whole(*HIDDEN)

    @property
    def heads(self) -> int:
        """Query heads."""
        return self.whole(*HEADS)


def quote(value: object) -> str:
    """A value as JSON has it, shortened."""
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else json.dumps(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


Switch = bool | tuple[str, bool] | Callable[[Keys], bool]
"""A fact of a family, or the key that says it and what its absence means, or how keys say it."""

HIDDEN = ("hidden_size", "n_embd", "n_embed", "d_model")
LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
HEADS = ("num_attention_heads", "n_head", "n_heads")
KV_HEADS = ("num_key_value_heads", "num_kv_heads", "attn_config.kv_n_heads", "num_attention_groups")
HEAD_DIM = ("head_dim", "attention_head_dim", "kv_channels")
FFN = ("intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size")
VOCAB = ("vocab_size", "padded_vocab_size")
EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts", "ffn_config.moe_num_experts")
TOP_K = ("num_experts_per_tok", "experts_per_token", "moe_k", "moe_topk", "moe_top_k", "ffn_config.moe_top_k")
EXPERT_FFN = ("moe_intermediate_size", "expert_ffn_hidden_size")


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


def _indexed(keys: Keys, family: Family) -> list[Layer]:
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


def _everywhere(keys: Keys, _: Family) -> list[int]:
    """mistral, mixtral, phi3, starcoder2: one window for all layers, unless it is null."""
    return [keys.whole("sliding_window", most=LARGEST_TABLE, default=0)] * keys.layers


def _mistral_window(keys: Keys, _: Family) -> list[int]:
    """mistral: the window of its first model where the key is absent."""
    if "sliding_window" not in keys.table and layer_types(keys) is None:
        keys.warn("sliding_window is missing; 4,096 tokens, as transformers has it (null for full attention)")
        return [4096] * keys.layers
    return _everywhere(keys, _)


def _everywhere_if_given(keys: Keys, family: Family) -> list[int]:
    """A family that has no windows, or none that is known."""
    if keys.has("sliding_window") and keys.flag("use_sliding_window", True):
        keys.warn(f"sliding_window = {_window(keys)} is read as the window of all layers; null for full attention")
        return _everywhere(keys, family)
    return [0] * keys.layers


def _from_some_layer(keys: Keys, _: Family) -> list[int]:
    """qwen2, qwen3: windows from ``max_window_layers`` on, if they are switched on."""
    if not keys.flag("use_sliding_window", False) or not keys.has("sliding_window"):
        return [0] * keys.layers
    first = keys.whole("max_window_layers", least=0)
    return [_window(keys) if layer >= first else 0 for layer in range(keys.layers)]


def _every(period: int, *names: str) -> Callable[[Keys, Family], list[int]]:
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


def _gemma2_windows(keys: Keys, _: Family) -> list[int]:
    """gemma2: windows in the first and every second layer."""
    if "sliding_window" in keys.table and not keys.has("sliding_window"):
        return [0] * keys.layers
    return [0 if layer % 2 else _window(keys) for layer in range(keys.layers)]


def _llama4(keys: Keys, family: Family) -> list[Layer]:
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


def _shared_keys(keys: Keys, family: Family) -> list[Layer]:
    """hunyuan: of every few layers only the first projects keys and values (CLA)."""
    base = attention(keys, family)
    is_shared = keys.flag("use_cla", None if keys.text("model_type") == "hunyuan" else False)
    share = keys.whole("cla_share_factor") if is_shared else 1
    keys.used.add("cla_share_factor")
    return [Layer(attention=replace(base, shared_kv=layer % share > 0)) for layer in range(keys.layers)]


def _hunyuan_norms(keys: Keys) -> bool:
    return keys.flag("use_qk_norm", None if keys.text("model_type") == "hunyuan" else True)


def _factorised(keys: Keys, family: Family) -> list[Layer]:
    """step3: queries go through a rank with a norm (multi-matrix factorisation attention)."""
    base = attention(keys, family)
    return [Layer(attention=replace(base, q_lora_rank=keys.whole("share_q_dim")))] * keys.layers


def _falcon_kv_heads(keys: Keys, heads: int) -> int:
    if keys.flag("new_decoder_architecture", False):
        return keys.whole("num_kv_heads", "n_head_kv", default=heads)
    return 1 if keys.flag("multi_query", True) else heads


def _mpt_kv_heads(keys: Keys, heads: int) -> int:
    kind = keys.text("attn_config.attn_type") or "multihead_attention"
    known = {"multihead_attention": heads, "multiquery_attention": 1}
    if kind == "grouped_query_attention":
        return keys.whole("attn_config.kv_n_heads")
    if kind not in known:
        keys.fail(f"attn_config.attn_type = {quote(kind)} is not known")
    return known[kind]


def _bigcode_kv_heads(keys: Keys, heads: int) -> int:
    return 1 if keys.flag("multi_query", True) else heads


def _chatglm_kv_heads(keys: Keys, heads: int) -> int:
    return keys.whole("multi_query_group_num") if keys.flag("multi_query_attention", False) else heads


# --- States of fixed size -----------------------------------------------------------------------------------------


def _mamba(keys: Keys, _: Family) -> list[Layer]:
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


def _mamba2(keys: Keys, _: Family) -> list[Layer]:
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


def _jamba(keys: Keys, family: Family) -> list[Layer]:
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


def _with_mamba2(keys: Keys, family: Family) -> list[Layer]:
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


def _nemotron_h(keys: Keys, family: Family) -> list[Layer]:
    """nemotron_h: each layer is one part, by a letter of the pattern."""
    return [layer for layer, _ in _nemotron_h_parts(keys, family)]


def _nemotron_h_feed_forward(keys: Keys, family: Family) -> list[Layer]:
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


def _qwen3_next(keys: Keys, family: Family) -> list[Layer]:
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


def _minimax(keys: Keys, family: Family) -> list[Layer]:
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


def _mixtral(keys: Keys, _: Family) -> list[Layer]:
    """mixtral, olmoe, phimoe, granitemoe, minimax, grok-1: experts in each layer, wide as ``intermediate_size``."""
    shared = keys.whole("shared_intermediate_size", least=0, default=0)
    moe = Experts(
        experts=keys.whole(*EXPERTS), top_k=keys.whole(*TOP_K), ffn=keys.whole("intermediate_size"), shared_ffn=shared
    )
    return [Layer(moe=moe)] * keys.layers


def _gpt_oss(keys: Keys, family: Family) -> list[Layer]:
    """gpt_oss: as mixtral, with biases everywhere."""
    return [
        Layer(moe=replace(one.moe, router_bias=True, expert_bias=True)) for one in _mixtral(keys, family) if one.moe
    ]


def _granite_hybrid(keys: Keys, family: Family) -> list[Layer]:
    """granitemoehybrid: experts, if any, beside a shared part; without them the shared part alone."""
    if keys.whole(*EXPERTS, least=0) == 0:
        return [Layer(ffn=keys.whole("shared_intermediate_size"))] * keys.layers
    return _mixtral(keys, family)


def _qwen3_sparse(keys: Keys) -> list[bool]:
    step, listed = keys.whole("decoder_sparse_step", default=1), keys.numbers("mlp_only_layers") or []
    return [layer not in listed and (layer + 1) % step == 0 for layer in range(keys.layers)]


def _qwen3(keys: Keys, _: Family) -> list[Layer]:
    """qwen3_moe: dense layers are listed in ``mlp_only_layers``."""
    moe = Experts(experts=keys.whole(*EXPERTS), top_k=keys.whole(*TOP_K), ffn=keys.whole(*EXPERT_FFN))
    return _some_sparse(keys, moe, _qwen3_sparse(keys))


def _qwen2(keys: Keys, _: Family) -> list[Layer]:
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


def _deepseek(keys: Keys, _: Family) -> list[Layer]:
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


def _ernie(keys: Keys, _: Family) -> list[Layer]:
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


def _llama4_experts(keys: Keys, _: Family) -> list[Layer]:
    """llama4: experts and a shared one of their width in every so many layers; dense layers have another width."""
    width, listed = keys.whole("intermediate_size"), keys.numbers("moe_layers")
    if listed is None:
        every = keys.whole("interleave_moe_layer_step")
        listed = list(range(every - 1, keys.layers, every))
    moe = Experts(experts=keys.whole(*EXPERTS), top_k=keys.whole(*TOP_K), ffn=width, shared_ffn=width)
    sparse = [layer in listed for layer in range(keys.layers)]
    return _some_sparse(keys, moe, sparse, "intermediate_size_mlp")


def _jamba_experts(keys: Keys, family: Family) -> list[Layer]:
    """jamba: experts in one layer of a period, as wide as the dense part of the others."""
    if keys.whole("num_experts") == 1:
        keys.used |= {"expert_layer_period", "expert_layer_offset"}
        return dense(keys, family)
    period, offset = keys.whole("expert_layer_period"), keys.whole("expert_layer_offset", least=0)
    moe = Experts(experts=keys.whole("num_experts"), top_k=keys.whole(*TOP_K), ffn=keys.whole("intermediate_size"))
    return _some_sparse(keys, moe, [layer % period == offset for layer in range(keys.layers)])


def _hunyuan(keys: Keys, _: Family) -> list[Layer]:
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


def _dbrx(keys: Keys, _: Family) -> list[Layer]:
    moe = Experts(
        experts=keys.whole("ffn_config.moe_num_experts"),
        top_k=keys.whole("ffn_config.moe_top_k"),
        ffn=keys.whole("ffn_config.ffn_hidden_size"),
    )
    return [Layer(moe=moe)] * keys.layers


def _arctic(keys: Keys, _: Family) -> list[Layer]:
    """arctic: experts of ``intermediate_size`` beside a dense part as wide as the stream, each with its norm."""
    moe = Experts(experts=keys.whole(*EXPERTS), top_k=keys.whole(*TOP_K), ffn=keys.whole("intermediate_size"))
    every = keys.whole("moe_layer_frequency")
    beside = keys.flag("parallel_attn_mlp_res") and keys.flag("use_residual", True)
    sparse = Layer(ffn=keys.hidden, moe=moe, moe_norm=True) if beside else Layer(moe=moe)
    plain = Layer(ffn=keys.whole("intermediate_size"))
    return [plain if (layer + 1) % every else sparse for layer in range(keys.layers)]


def _longcat(keys: Keys, _: Family) -> list[Layer]:
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


def _step3(keys: Keys, _: Family) -> list[Layer]:
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


def _qwen1(keys: Keys, _: Family) -> list[Layer]:
    """qwen: ``intermediate_size`` counts both halves of the gated product."""
    width = keys.whole("intermediate_size")
    if width % 2:
        keys.fail(f"intermediate_size = {width} counts gate and up projection, so it must be even")
    return [Layer(ffn=width // 2)] * keys.layers


def _mpt_ffn(keys: Keys, _: Family) -> list[Layer]:
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


def _unknown_feed_forward(keys: Keys, family: Family) -> list[Layer]:
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


# --- The families -------------------------------------------------------------------------------------------------

LLAMA = Family(
    kv_heads="default",
    qkv_bias=("attention_bias", False),
    output_bias=("attention_bias", False),
    mlp_bias=("mlp_bias", False),
)
UNKNOWN = replace(LLAMA, tied=None, kv_heads="key", feed_forward=_unknown_feed_forward)
_MISTRAL = Family(windows=_everywhere)
_QWEN2 = Family(qkv_bias=True, windows=_from_some_layer)
_QWEN3 = Family(
    head_dim_default=False,  # 128 in transformers when absent, whatever hidden and heads are
    windows=_from_some_layer,
    qk_norm=True,
    qkv_bias=("attention_bias", False),
    output_bias=("attention_bias", False),
)
_QWEN2_MOE = replace(_QWEN2, qkv_bias=("qkv_bias", True), feed_forward=_qwen2)
_QWEN3_MOE = replace(_QWEN3, feed_forward=_qwen3)
_LATENT = Family(
    latent=True,
    qkv_bias=("attention_bias", False),
    output_bias=("attention_bias", False),
    feed_forward=_deepseek,
)
_BIASED = Family(kv_heads="each", gated=False, norm_bias=True, qkv_bias=True, output_bias=True, mlp_bias=True)
_GEMMA = Family(
    tied=True, head_dim_default=False, qkv_bias=("attention_bias", False), output_bias=("attention_bias", False)
)
_GEMMA3 = replace(_GEMMA, norm_place="around", qk_norm=True, windows=_every(6, "sliding_window_pattern"))
_COHERE = Family(
    tied=True,
    kv_heads="default",
    is_parallel=True,
    shared_norm=True,
    qk_norm=("use_qk_norm", False),
    qk_norm_weights="heads",
    qkv_bias=("attention_bias", False),
    output_bias=("attention_bias", False),
)
_OLMO = Family(kv_heads="default", qkv_bias=("attention_bias", False), output_bias=("attention_bias", False))
_OLMO2 = replace(_OLMO, norm_place="after", qk_norm=True, qk_norm_weights="heads")
_GRANITE_MOE = Family(
    tied=None, qkv_bias=("attention_bias", False), output_bias=("attention_bias", False), feed_forward=_mixtral
)
_HUNYUAN = Family(
    tied=None,
    qk_norm=_hunyuan_norms,
    qkv_bias=("attention_bias", False),
    output_bias=("attention_bias", False),
    mixers=_shared_keys,
    feed_forward=_hunyuan,
)
_ERNIE = Family(tied=None, qkv_bias=("use_bias", False), output_bias=("use_bias", False), mlp_bias=("use_bias", False))
_FALCON_BIAS: Switch = ("bias", False)


def _falcon_is_parallel(keys: Keys) -> bool:
    return keys.flag("parallel_attn", True) or keys.flag("new_decoder_architecture", False)


def _falcon_shares(keys: Keys) -> bool:
    """Whether attention and feed-forward part of a falcon have one norm."""
    norms = 2 if keys.flag("new_decoder_architecture", False) else 1
    return _falcon_is_parallel(keys) and keys.whole("num_ln_in_parallel_attn", most=2, default=norms) == 1


def _has_no_alibi(keys: Keys) -> bool:
    return not keys.flag("alibi", False)


def _mpt_turns(keys: Keys) -> bool:
    return keys.flag("attn_config.rope", False)


def _mpt_positions(keys: Keys) -> int:
    if keys.flag("attn_config.alibi", False) or keys.flag("attn_config.rope", False):
        return 0
    if not keys.flag("learned_pos_emb", True):
        return 0
    return keys.whole("max_seq_len", most=LARGEST_TABLE)


FAMILIES: dict[str, Family] = {
    "llama": LLAMA,
    "mistral": replace(_MISTRAL, windows=_mistral_window),
    "ministral": _MISTRAL,
    "mixtral": replace(_MISTRAL, feed_forward=_mixtral),
    "phi3": _MISTRAL,
    "llama4_text": replace(
        LLAMA,
        qk_norm=("use_qk_norm", True),
        qk_norm_weights="none",
        mlp_bias=False,
        mixers=_llama4,
        feed_forward=_llama4_experts,
    ),
    "gemma": _GEMMA,
    "gemma2": replace(_GEMMA, norm_place="around", windows=_gemma2_windows),
    "gemma3_text": _GEMMA3,
    "gemma3": _GEMMA3,
    "granite": replace(LLAMA, tied=None),
    "granitemoe": _GRANITE_MOE,
    "granitemoeshared": _GRANITE_MOE,
    "granitemoehybrid": replace(_GRANITE_MOE, mixers=_with_mamba2, feed_forward=_granite_hybrid),
    "smollm3": replace(LLAMA, tied=None, kv_heads="key", windows=_from_some_layer),
    "seed_oss": replace(
        LLAMA,
        tied=None,
        kv_heads="key",
        head_dim_default=False,
        qkv_bias=("attention_bias", True),
        output_bias=("attention_out_bias", False),
    ),
    "internlm": Family(kv_heads="each", qkv_bias=("bias", True), output_bias=("bias", True)),
    "internlm2": Family(qkv_bias=("bias", False), output_bias=("bias", False)),
    "internlm3": Family(qkv_bias=("qkv_bias", False), output_bias=("bias", False), mlp_bias=("bias", False)),
    "baichuan": Family(kv_heads="each"),
    "starcoder2": Family(
        tied=True,
        gated=False,
        norm_bias=True,
        qkv_bias=("use_bias", True),
        output_bias=("use_bias", True),
        mlp_bias=("use_bias", True),
        windows=_everywhere,
    ),
    "gpt_bigcode": replace(_BIASED, tied=True, kv_heads=_bigcode_kv_heads, ffn_times_hidden=4, positions="n_positions"),
    "qwen": replace(_QWEN2, windows=None, kv_heads="each", feed_forward=_qwen1),
    "qwen2": _QWEN2,
    "qwen2_vl": _QWEN2,
    "qwen2_vl_text": _QWEN2,
    "qwen2_5_vl": _QWEN2,
    "qwen2_5_vl_text": _QWEN2,
    "qwen2_5_omni_text": _QWEN2,
    "qwen2_moe": _QWEN2_MOE,
    "qwen3": _QWEN3,
    "qwen3_vl_text": _QWEN3,
    "qwen3_moe": _QWEN3_MOE,
    "qwen3_vl_moe_text": _QWEN3_MOE,
    "qwen3_next": replace(_QWEN3, windows=None, output_gate=True, rotary=0.25, mixers=_qwen3_next, feed_forward=_qwen2),
    "deepseek": Family(
        qkv_bias=("attention_bias", False), output_bias=("attention_bias", False), feed_forward=_deepseek
    ),
    "deepseek_v2": _LATENT,
    "deepseek_v3": _LATENT,
    "deepseek_v32": replace(_LATENT, mixers=_indexed),
    "glm_moe_dsa": replace(_LATENT, mixers=_indexed),
    "kimi_k2": _LATENT,
    "longcat_flash": replace(_LATENT, feed_forward=_longcat),
    "glm": Family(qkv_bias=("attention_bias", True), rotary=0.5),
    "glm4": Family(qkv_bias=("attention_bias", False), rotary=0.5, norm_place="around"),
    "glm4_moe": Family(
        head_dim_default=False,
        qk_norm=("use_qk_norm", False),
        qkv_bias=("attention_bias", False),
        rotary=0.5,
        feed_forward=_deepseek,
    ),
    "chatglm": Family(
        kv_heads=_chatglm_kv_heads,
        qkv_bias=("add_qkv_bias", False),
        output_bias=("add_bias_linear", False),
        mlp_bias=("add_bias_linear", False),
        rotary=0.5,
        needs=(("rmsnorm", True, True), ("post_layer_norm", True, True)),
    ),
    "gpt_oss": Family(
        head_dim_default=False,
        qkv_bias=("attention_bias", True),
        output_bias=("attention_bias", True),
        sinks=True,
        windows=_every(2),
        feed_forward=_gpt_oss,
    ),
    "ernie4_5": _ERNIE,
    "ernie4_5_moe": replace(_ERNIE, feed_forward=_ernie),
    "hunyuan": _HUNYUAN,
    "hunyuan_v1_moe": _HUNYUAN,
    "hunyuan_v1_dense": replace(_HUNYUAN, feed_forward=None),
    "step3_text": Family(head_dim_default=False, mixers=_factorised, feed_forward=_step3),
    "minimax_m2": Family(
        head_dim_default=False,
        qk_norm=("use_qk_norm", True),
        qk_norm_weights="heads",
        feed_forward=_mixtral,
    ),
    "minimax": Family(mixers=_minimax, feed_forward=_mixtral),
    "minimax_text_01": Family(mixers=_minimax, feed_forward=_mixtral),
    "cohere": _COHERE,
    "cohere2": replace(_COHERE, windows=_every(4, "sliding_window_pattern")),
    "dbrx": Family(feed_forward=_dbrx),
    "grok-1": Family(tied=None, norm_place="around", feed_forward=_mixtral),
    "arctic": Family(kv_heads="default", feed_forward=_arctic),
    "falcon": Family(
        tied=True,
        kv_heads=_falcon_kv_heads,
        gated=False,
        norm_bias=True,
        is_parallel=_falcon_is_parallel,
        shared_norm=_falcon_shares,
        qkv_bias=_FALCON_BIAS,
        output_bias=_FALCON_BIAS,
        mlp_bias=_FALCON_BIAS,
        ffn_times_hidden=4,
        rotary=_has_no_alibi,
    ),
    "mpt": Family(
        tied=True,
        kv_heads=_mpt_kv_heads,
        gated=False,
        feed_forward=_mpt_ffn,
        positions=_mpt_positions,
        rotary=_mpt_turns,
        needs=(("no_bias", True, True), ("attn_config.qk_ln", False, False)),
    ),
    "olmo": replace(_OLMO, norm_weight=False),
    "olmo2": _OLMO2,
    "olmo3": replace(_OLMO2, windows=_every(4)),
    "olmoe": replace(_OLMO, qk_norm=True, qk_norm_weights="heads", feed_forward=_mixtral),
    "phi": Family(
        kv_heads="default",
        gated=False,
        norm_bias=True,
        is_parallel=True,
        shared_norm=True,
        qkv_bias=True,
        output_bias=True,
        mlp_bias=True,
        head_bias=True,
        rotary=0.5,
        needs=(("qk_layernorm", False, False),),
    ),
    "phimoe": Family(
        norm_bias=True,
        qkv_bias=("attention_bias", False),
        output_bias=("attention_bias", False),
        head_bias=("lm_head_bias", False),
        windows=_everywhere,
        feed_forward=_mixtral,
    ),
    "nemotron": Family(
        gated=False,
        norm_bias=True,
        qkv_bias=("attention_bias", False),
        output_bias=("attention_bias", False),
        mlp_bias=("mlp_bias", False),
        rotary=0.5,
    ),
    "nemotron_h": Family(
        gated=False,
        qkv_bias=("attention_bias", False),
        output_bias=("attention_bias", False),
        mlp_bias=("mlp_bias", False),
        rotary=0,
        mixers=_nemotron_h,
        feed_forward=_nemotron_h_feed_forward,
    ),
    "stablelm": Family(
        norm_bias=True,
        is_parallel=("use_parallel_residual", False),
        shared_norm=("use_parallel_residual", False),
        qk_norm=("qk_layernorm", False),
        qk_norm_weights="heads",
        qkv_bias=("use_qkv_bias", False),
        rotary=0.25,
    ),
    "jamba": Family(rotary=0, mixers=_jamba, feed_forward=_jamba_experts),
    "bamba": Family(rotary=0.5, mixers=_with_mamba2),
    "mamba": Family(tied=True, mixers=_mamba),
    "falcon_mamba": Family(tied=True, mixers=_mamba),
    "mamba2": Family(mixers=_mamba2),
    "gpt2": replace(
        _BIASED,
        tied=True,
        ffn_times_hidden=4,
        positions="n_positions",
        needs=(("add_cross_attention", False, False),),
    ),
    "opt": replace(
        _BIASED,
        tied=True,
        qkv_bias=("enable_bias", True),
        output_bias=("enable_bias", True),
        mlp_bias=("enable_bias", True),
        positions="max_position_embeddings",
        positions_more=2,  # the first two entries stand for padding
        needs=(
            ("do_layer_norm_before", True, True),
            ("layer_norm_elementwise_affine", True, True),
            ("_remove_final_layer_norm", False, False),
        ),
    ),
    "bloom": replace(_BIASED, tied=True, ffn_times_hidden=4, embedding_norm=True, rotary=0),
    "gpt_neox": replace(
        _BIASED,
        is_parallel=("use_parallel_residual", True),
        qkv_bias=("attention_bias", True),
        output_bias=("attention_bias", True),
        rotary=0.25,
    ),
    "gptj": Family(
        kv_heads="each",
        gated=False,
        norm_bias=True,
        is_parallel=True,
        shared_norm=True,
        mlp_bias=True,
        head_bias=True,
        ffn_times_hidden=4,
    ),
}

NO_FEED_FORWARD = ("mamba", "falcon_mamba", "mamba2")
"""Families whose layers have no feed-forward part."""
