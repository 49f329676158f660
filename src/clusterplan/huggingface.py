"""Shape of a model from a Hugging Face ``config.json``.

A configuration is read by its family (``model_type``), because the same missing key means different things in
different families: no ``tie_word_embeddings`` is true for gpt2 and false for llama. What a :class:`Model` cannot say
exactly (windows in some layers, linear attention, layers that differ, attention beside the feed-forward part) is
refused with the key that says so. Defaults are those of the ``transformers`` classes [1]_ for the family.

References
----------
.. [1] Hugging Face transformers, src/transformers/models/*/configuration_*.py and modeling_*.py.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import NoReturn

from clusterplan.errors import ProfileError
from clusterplan.workload import Attention, Experts, Model

LARGEST_COUNT = 1_000_000
"""assumed: no width, number of heads, experts or layers is larger; what is, is a slip of the keyboard."""
LARGEST_TABLE = 16_777_216
"""assumed: no vocabulary and no table of positions has more entries."""
LARGEST_MODEL = 10**18
"""assumed: no model has more parameters; products of larger shapes would leave 64 bits."""

Switch = bool | tuple[str, bool]
"""A fact of a family, or the key that says it and what its absence means."""


class _Keys:
    """One configuration; each key is checked as it is read."""

    def __init__(self, table: dict[str, object], where: str) -> None:
        self.table = table
        self.where = where

    def fail(self, message: str) -> NoReturn:
        raise ProfileError(message, where=self.where)

    def has(self, name: str) -> bool:
        """Whether the key is there and not null, which transformers takes for absent."""
        return self.table.get(name) is not None

    def whole(self, *names: str, least: int = 1, most: int = LARGEST_COUNT, default: int | None = None) -> int:
        """A whole number under any of its names."""
        present = [name for name in names if self.has(name)]
        if not present:
            if default is None:
                others = f" (or {', '.join(names[1:])})" if names[1:] else ""
                state = "null" if names[0] in self.table else "missing"
                self.fail(f"{names[0]}{others} is {state}, and the shape cannot be told without it")
            return default
        values = [self._whole(name, least, most) for name in present]
        if len(set(values)) > 1:
            self.fail(f"{' and '.join(present)} differ: {values}")
        return values[0]

    def _whole(self, name: str, least: int, most: int) -> int:
        value = self.table[name]
        if isinstance(value, list):
            self.fail(f"{name} is a list: layers differ, which a model profile cannot say")
        if isinstance(value, bool) or not isinstance(value, int):
            self.fail(f"{name} = {_quote(value)} is not a whole number")
        if not least <= value <= most:
            self.fail(f"{name} = {_quote(value)} is not between {least} and {most}")
        return value

    def flag(self, name: str, default: bool | None = None) -> bool:
        """A boolean; numbers are refused."""
        if not self.has(name):
            if default is None:
                self.fail(f"{name} is missing, and its default is not known for this model_type")
            return default
        value = self.table[name]
        if not isinstance(value, bool):
            self.fail(f"{name} = {_quote(value)} is neither true nor false")
        return value

    def switch(self, fact: Switch) -> bool:
        return fact if isinstance(fact, bool) else self.flag(*fact)

    def text(self, name: str) -> str:
        """A string; empty if absent."""
        value = self.table.get(name)
        if value is None:
            return ""
        if not isinstance(value, str):
            self.fail(f"{name} = {_quote(value)} is not a text")
        return value


def _quote(value: object) -> str:
    """A value as JSON has it, shortened."""
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else json.dumps(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


# --- Experts: which layers, how many, how wide ---------------------------------------------------------------------


def _every_layer(keys: _Keys) -> Experts:
    """mixtral: experts in each layer, as wide as ``intermediate_size``."""
    return Experts(
        experts=keys.whole("num_local_experts"),
        top_k=keys.whole("num_experts_per_tok"),
        ffn=keys.whole("intermediate_size"),
    )


def _qwen3(keys: _Keys) -> Experts:
    """qwen3_moe: dense layers are listed in ``mlp_only_layers``."""
    if keys.whole("decoder_sparse_step", default=1) != 1:
        keys.fail("decoder_sparse_step is not 1: layers with and without experts alternate, which a profile cannot say")
    dense = keys.table.get("mlp_only_layers") or []
    if not isinstance(dense, list) or dense != list(range(len(dense))):
        keys.fail(f"mlp_only_layers = {_quote(dense)}: dense layers are not the leading ones")
    return Experts(
        experts=keys.whole("num_experts"),
        top_k=keys.whole("num_experts_per_tok"),
        ffn=keys.whole("moe_intermediate_size"),
        dense_layers=len(dense),
    )


def _qwen2(keys: _Keys) -> Experts:
    """qwen2_moe: as qwen3_moe, and one shared expert with a gate."""
    shared_ffn = keys.whole("shared_expert_intermediate_size", least=0)
    return replace(_qwen3(keys), shared_ffn=shared_ffn, shared_gate=shared_ffn > 0)


def _deepseek(keys: _Keys) -> Experts:
    """deepseek, glm4_moe: leading dense layers, then experts in each. The router's balancing bias is no parameter."""
    if keys.whole("moe_layer_freq", default=1) != 1:
        keys.fail("moe_layer_freq is not 1: layers with and without experts alternate, which a profile cannot say")
    width = keys.whole("moe_intermediate_size")
    if "n_shared_experts" not in keys.table:
        keys.fail("n_shared_experts is missing, and the shape cannot be told without it")
    return Experts(
        experts=keys.whole("n_routed_experts"),
        top_k=keys.whole("num_experts_per_tok"),
        ffn=width,
        shared_ffn=width * keys.whole("n_shared_experts", least=0, default=0),
        dense_layers=keys.whole("first_k_dense_replace", least=0),
    )


def _ernie(keys: _Keys) -> Experts:
    """ernie4_5_moe: experts between a first and a last layer."""
    layers = keys.whole("num_hidden_layers")
    if keys.whole("moe_layer_interval", default=1) != 1:
        keys.fail("moe_layer_interval is not 1: layers with and without experts alternate, which a profile cannot say")
    last = keys.whole("moe_layer_end_index", least=-1, default=-1)
    if last != -1 and last < layers - 1:  # -1: up to the last one
        keys.fail("moe_layer_end_index leaves dense layers at the end, which a profile cannot say")
    width = keys.whole("moe_intermediate_size")
    return Experts(
        experts=keys.whole("moe_num_experts"),
        top_k=keys.whole("moe_k"),
        ffn=width,
        shared_ffn=width * keys.whole("moe_num_shared_experts", least=0),
        dense_layers=keys.whole("moe_layer_start_index", least=0),
    )


# --- Families ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Family:
    """What a ``model_type`` means beyond its keys."""

    tied: bool | None = False
    """``tie_word_embeddings`` when absent; None where it must be there."""
    one_kv_head_each: bool = False
    """Multi-head attention whatever ``num_key_value_heads`` says."""
    kv_heads_default: bool = False
    """An absent ``num_key_value_heads`` means as many as query heads."""
    head_dim_default: bool = True
    """An absent ``head_dim`` means hidden over heads."""
    windowed: bool = True
    """Whether ``sliding_window`` alone switches the window on."""
    gated: bool = True
    norm_bias: bool = False
    qk_norm: Switch = False
    qkv_bias: Switch = False
    output_bias: Switch = False
    mlp_bias: Switch = False
    ffn_times_hidden: int = 0
    """An absent feed-forward width means this many times the hidden one; 0 where it must be there."""
    positions: str = ""
    """Key of the learned positions; empty with rotary or relative ones."""
    positions_more: int = 0
    """Entries of that table beyond the key."""
    latent: bool = False
    """Keys and values are compressed (MLA)."""
    experts: Callable[[_Keys], Experts] | None = None
    needs: tuple[tuple[str, bool, bool], ...] = ()
    """Keys, the value without which a profile cannot say the shape, and the value when absent."""
    left_out: str = ""
    """What a profile leaves out, if it is too small to matter."""


_LLAMA = _Family(
    kv_heads_default=True,
    qkv_bias=("attention_bias", False),
    output_bias=("attention_bias", False),
    mlp_bias=("mlp_bias", False),
)
_MISTRAL = _Family()
_QWEN2 = _Family(qkv_bias=True, windowed=False)
_QWEN3 = _Family(
    head_dim_default=False,  # 128 in transformers when absent, whatever hidden and heads are
    windowed=False,
    qk_norm=True,
    qkv_bias=("attention_bias", False),
    output_bias=("attention_bias", False),
)
_QWEN2_MOE = replace(_QWEN2, qkv_bias=("qkv_bias", True), experts=_qwen2)
_QWEN3_MOE = replace(_QWEN3, experts=_qwen3)
_LATENT = _Family(latent=True, experts=_deepseek, needs=(("attention_bias", False, False),))
_BIASED = _Family(one_kv_head_each=True, gated=False, norm_bias=True, qkv_bias=True, output_bias=True, mlp_bias=True)

_FAMILIES: dict[str, _Family] = {
    "llama": _LLAMA,
    "mistral": _MISTRAL,
    "mixtral": replace(_MISTRAL, experts=_every_layer),
    "phi3": _MISTRAL,
    "gemma": _Family(tied=True, head_dim_default=False),
    "granite": replace(_LLAMA, tied=None),
    "smollm3": replace(_LLAMA, tied=None, kv_heads_default=False),
    "seed_oss": replace(
        _LLAMA,
        tied=None,
        kv_heads_default=False,
        head_dim_default=False,
        qkv_bias=("attention_bias", True),
        output_bias=("attention_out_bias", False),
    ),
    "internlm2": _Family(qkv_bias=("bias", False), output_bias=("bias", False)),
    "baichuan": _Family(one_kv_head_each=True),
    "starcoder2": _Family(
        tied=True,
        gated=False,
        norm_bias=True,
        qkv_bias=("use_bias", True),
        output_bias=("use_bias", True),
        mlp_bias=("use_bias", True),
    ),
    "qwen2": _QWEN2,
    "qwen2_vl": _QWEN2,
    "qwen2_vl_text": _QWEN2,
    "qwen2_5_vl": _QWEN2,
    "qwen2_5_vl_text": _QWEN2,
    "qwen2_moe": _QWEN2_MOE,
    "qwen3": _QWEN3,
    "qwen3_vl_text": _QWEN3,
    "qwen3_moe": _QWEN3_MOE,
    "qwen3_vl_moe_text": _QWEN3_MOE,
    "deepseek": _Family(experts=_deepseek, needs=(("attention_bias", False, False),)),
    "deepseek_v2": _LATENT,
    "deepseek_v3": _LATENT,
    "kimi_k2": _LATENT,
    "glm4_moe": _Family(
        head_dim_default=False, qk_norm=("use_qk_norm", False), qkv_bias=("attention_bias", False), experts=_deepseek
    ),
    "ernie4_5_moe": _Family(
        tied=None,
        qkv_bias=("use_bias", False),
        output_bias=("use_bias", False),
        mlp_bias=("use_bias", False),
        experts=_ernie,
    ),
    "gpt2": replace(
        _BIASED, tied=True, ffn_times_hidden=4, positions="n_positions", needs=(("add_cross_attention", False, False),)
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
    "bloom": replace(_BIASED, tied=True, ffn_times_hidden=4, left_out="the layer norm after the embedding"),
    "gpt_neox": replace(
        _BIASED,
        qkv_bias=("attention_bias", True),
        output_bias=("attention_bias", True),
        needs=(("use_parallel_residual", False, True),),
    ),
}

_REFUSED = {
    "arctic": "a dense feed-forward part stands beside the experts (parallel_attn_mlp_res)",
    "bamba": "state-space layers",
    "cohere": "attention and feed-forward part stand side by side after one norm",
    "cohere2": "attention and feed-forward part stand side by side after one norm",
    "dbrx": "its keys stand in tables (attn_config, ffn_config) that are not read",
    "falcon": "attention and feed-forward part stand side by side (parallel_attn)",
    "gemma2": "four norms in each layer, and windows in every second layer (sliding_window)",
    "gemma3": "four norms in each layer, and windows in most layers (sliding_window)",
    "gemma3_text": "four norms in each layer, and windows in most layers (sliding_window)",
    "glm4": "four norms in each layer",
    "gptj": "attention and feed-forward part stand side by side after one norm",
    "grok-1": "four norms in each layer",
    "hunyuan": "layers share keys and values (use_cla, cla_share_factor)",
    "longcat_flash": "two attention parts in each layer, and experts that compute nothing (zero_expert_num)",
    "minimax_m2": "norms on queries and keys are as wide as all heads together (qk_norm_type)",
    "mpt": "its keys stand in a table (attn_config) that is not read",
    "olmo": "norms without weights",
    "olmo2": "norms stand after each part, and those on queries and keys are as wide as all heads together",
    "olmo3": "norms stand after each part, and windows in most layers (layer_types)",
    "olmoe": "norms on queries and keys are as wide as all heads together",
    "phi": "attention and feed-forward part stand side by side after one norm",
    "phimoe": "the output head has a bias (lm_head_bias)",
    "qwen": "intermediate_size counts gate and up projection together",
    "stablelm": "attention and feed-forward part may stand side by side (use_parallel_residual)",
    "step3_text": "factorised queries (share_q_dim)",
}
"""Families that a profile cannot say, and why."""

_KINDS_OF_LAYERS = {
    "attention_chunk_size": "attention in chunks",
    "attn_layer_period": "attention in some layers only",
    "attn_type_list": "attention that differs by layer",
    "block_configs": "layers that differ",
    "cla_share_factor": "layers that share keys and values",
    "expert_layer_period": "experts in some layers only",
    "full_attention_interval": "linear attention in some layers",
    "hybrid_override_pattern": "layers that differ",
    "index_topk": "sparse attention by an indexer",
    "layers_block_type": "layers that differ",
    "linear_attn_config": "linear attention in some layers",
    "linear_num_value_heads": "linear attention in some layers",
    "mamba_d_state": "state-space layers",
    "moe_layers_enum": "experts in listed layers only",
    "num_kv_shared_layers": "layers that share keys and values",
    "sliding_window_pattern": "windows in some layers",
    "ssm_cfg": "state-space layers",
    "state_size": "state-space layers",
    "zero_expert_num": "experts that compute nothing",
}
"""Keys that stand, unless they are empty or zero, for what a profile cannot say."""

_NEVER_TRUE = ("parallel_attn", "parallel_attn_mlp_res", "use_parallel_residual", "is_encoder_decoder")
_MOE_KEYS = (
    "num_local_experts",
    "num_experts",
    "n_routed_experts",
    "moe_num_experts",
    "num_experts_per_tok",
    "moe_intermediate_size",
    "kv_lora_rank",
)
_TEXT_PARTS = ("text_config", "llm_config", "language_config")


# --- Reading -------------------------------------------------------------------------------------------------------


def read_model(text: str, where: str) -> tuple[Model, list[str]]:
    """Record of the model that a ``config.json`` describes.

    Parameters
    ----------
    text : str
        Contents of the file.
    where : str
        Name of the file, for messages and for the record's ``source``; ``-`` for standard input.

    Returns
    -------
    tuple of Model and list of str
        The shape, and one line for each assumption that the file left open.

    Raises
    ------
    ProfileError
        If the text is no JSON object, a value is not what it should be, a key that decides the shape is missing, or
        the record cannot say the shape exactly.

    Examples
    --------
    >>> model, warnings = read_model(
    ...     '{"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12, "n_positions": 1024,'
    ...     ' "vocab_size": 50257}',
    ...     "gpt2.json",
    ... )
    >>> model.name, model.ffn, model.attention.head_dim, model.tied_embeddings, warnings
    ('gpt2', 3072, 64, True, [])
    """
    keys, warnings = _text_part(_Keys(_parse(text, where), where))
    _refuse_kinds_of_layers(keys)
    family = _family(keys, warnings)
    _refuse_values(keys, family)

    hidden = keys.whole("hidden_size", "n_embd", "n_embed")
    layers = keys.whole("num_hidden_layers", "n_layer")
    moe = family.experts(keys) if family.experts else None
    if moe and moe.dense_layers >= layers:
        keys.fail(f"{moe.dense_layers} dense layers leave none of {layers} layers to the experts")
    if moe and moe.top_k > moe.experts:
        keys.fail(f"{moe.top_k} experts per token are more than the {moe.experts} that there are")
    dense = moe.dense_layers if moe else layers
    by_default = family.ffn_times_hidden * hidden or None

    model = Model(
        name=_name(keys),
        source=f"{where} (config.json, model_type {keys.text('model_type') or 'absent'})",
        layers=layers,
        hidden=hidden,
        vocab=keys.whole("vocab_size", most=LARGEST_TABLE),
        ffn=keys.whole("intermediate_size", "n_inner", "ffn_dim", default=by_default) if dense else 0,
        gated_mlp=family.gated,
        tied_embeddings=keys.flag("tie_word_embeddings", family.tied),
        attention=_latent(keys) if family.latent else _attention(keys, family, hidden, warnings),
        moe=moe,
        learned_positions=_positions(keys, family),
        norm_bias=family.norm_bias,
        mlp_bias=keys.switch(family.mlp_bias),
        mtp_layers=keys.whole("num_nextn_predict_layers", least=0, default=0),
    )
    _refuse_huge(keys, model)
    if family.left_out:
        warnings.append(f"{where}: {family.left_out} is left out ({2 * hidden:,} parameters)")
    return model, warnings


def _parse(text: str, where: str) -> dict[str, object]:
    """The JSON object; NaN, infinities and repeated keys are errors."""

    def constant(name: str) -> NoReturn:
        raise ProfileError(f"{name} is not a number that a shape can have", where=where)

    def once(pairs: Iterable[tuple[str, object]]) -> dict[str, object]:
        table: dict[str, object] = {}
        for key, value in pairs:
            if key in table:
                raise ProfileError(f"{key} stands there twice", where=where)
            table[key] = value
        return table

    try:
        value = json.loads(text.removeprefix("\ufeff"), parse_constant=constant, object_pairs_hook=once)
    except (ValueError, RecursionError) as error:  # ValueError: also numbers of thousands of digits
        raise ProfileError(f"not readable as JSON: {str(error).splitlines()[0]}", where=where) from error
    if not isinstance(value, dict):
        raise ProfileError("a config.json holds a JSON object", where=where)
    return value


def _text_part(keys: _Keys) -> tuple[_Keys, list[str]]:
    """The language model of a configuration that has other parts too."""
    warnings: list[str] = []
    name = next((name for name in _TEXT_PARTS if keys.has(name)), "")
    others = [key for key, value in keys.table.items() if key != name and isinstance(value, dict) and "config" in key]
    others = [key for key in others if key.split("_")[0] in ("vision", "audio", "talker", "speech")]
    if others:
        warnings.append(f"{keys.where}: only the text model is read, {', '.join(others)} is left out")
    if not name:
        return keys, warnings
    inner = keys.table[name]
    if not isinstance(inner, dict):
        keys.fail(f"{name} is not a table")
    tie = "tie_word_embeddings"
    if tie in keys.table and tie in inner and keys.table[tie] != inner[tie]:
        keys.fail(f"{tie} differs between the file and its {name}")
    outer = {key: keys.table[key] for key in (tie, "_name_or_path") if key in keys.table}
    return _Keys({**outer, **inner}, keys.where), warnings


def _family(keys: _Keys, warnings: list[str]) -> _Family:
    """Family of the configuration; one that is not known is read as llama if nothing speaks against it."""
    kind = keys.text("model_type")
    if kind in _REFUSED:
        keys.fail(f"model_type {kind} cannot be said by a model profile: {_REFUSED[kind]}")
    if kind in _FAMILIES:
        return _FAMILIES[kind]
    named = f"model_type {kind} is not known" if kind else "model_type is missing"
    for key in _MOE_KEYS:
        if keys.has(key):
            keys.fail(f"{named}, and {key} can mean more than one shape")
    activation = keys.text("hidden_act")
    if activation not in ("silu", "swish", "swiglu"):
        keys.fail(f"{named}, and hidden_act = {_quote(activation)} leaves open whether the feed-forward part is gated")
    warnings.append(
        f"{keys.where}: {named}; read as llama: two RMSNorms in each layer, gated feed-forward part, "
        "no norm on queries and keys, biases only where attention_bias and mlp_bias say so"
    )
    return replace(_LLAMA, tied=None, kv_heads_default=False)


def _refuse_kinds_of_layers(keys: _Keys) -> None:
    """Refuse keys that no family that the record can say has."""
    for key, what in _KINDS_OF_LAYERS.items():
        if keys.table.get(key):
            keys.fail(f"{key}: {what}, which a model profile cannot say")
    kinds = keys.table.get("layer_types") or []
    if not isinstance(kinds, list) or any(kind != "full_attention" for kind in kinds):
        keys.fail("layer_types: attention that is not full in each layer, which a model profile cannot say")
    for key in _NEVER_TRUE:
        if keys.flag(key, False):
            keys.fail(f"{key} is true, which a model profile cannot say")


def _refuse_values(keys: _Keys, family: _Family) -> None:
    """Refuse values of the family's own keys that the record cannot say."""
    for key, needed, absent in family.needs:
        if keys.flag(key, absent) is not needed:
            said = "" if keys.has(key) else " by default"
            keys.fail(f"{key} is {json.dumps(not needed)}{said}, which a model profile cannot say")
    if keys.has("word_embed_proj_dim") and keys.whole("word_embed_proj_dim") != keys.whole("hidden_size"):
        keys.fail("word_embed_proj_dim differs from hidden_size, which a model profile cannot say")
    if keys.has("sliding_window") and keys.flag("use_sliding_window", family.windowed):
        window = keys.whole("sliding_window", most=LARGEST_TABLE)
        longest = keys.whole("max_position_embeddings", most=LARGEST_TABLE, default=LARGEST_TABLE)
        if window < longest:
            keys.fail(
                f"sliding_window = {window} bounds attention, which a model profile cannot say; "
                "null gives full attention, the same for sequences up to that length"
            )


def _attention(keys: _Keys, family: _Family, hidden: int, warnings: list[str]) -> Attention:
    heads = keys.whole("num_attention_heads", "n_head")
    if family.one_kv_head_each:
        kv_heads = heads
    elif family.kv_heads_default and not keys.has("num_key_value_heads"):
        kv_heads = heads
        warnings.append(f"{keys.where}: num_key_value_heads is missing; as many as query heads, {heads}")
    else:
        kv_heads = keys.whole("num_key_value_heads")
    if heads % kv_heads:
        keys.fail(f"num_attention_heads = {heads} is not a multiple of num_key_value_heads = {kv_heads}")
    even = hidden // heads if family.head_dim_default else None
    if not keys.has("head_dim") and hidden % heads:
        keys.fail(f"head_dim is missing, and hidden_size = {hidden} is not a multiple of {heads} heads")
    return Attention(
        heads=heads,
        kv_heads=kv_heads,
        head_dim=keys.whole("head_dim", default=even),
        qkv_bias=keys.switch(family.qkv_bias),
        output_bias=keys.switch(family.output_bias),
        qk_norm=keys.switch(family.qk_norm),
    )


def _latent(keys: _Keys) -> Attention:
    """Latent attention (MLA); ``head_dim``, where a file has it, is not used."""
    heads = keys.whole("num_attention_heads")
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
    )


def _positions(keys: _Keys, family: _Family) -> int:
    if not family.positions:
        return 0
    return keys.whole(family.positions, most=LARGEST_TABLE) + family.positions_more


def _refuse_huge(keys: _Keys, model: Model) -> None:
    """Refuse shapes whose parameters, roughly, are beyond any model."""
    attention, moe = model.attention, model.moe
    assert attention is not None
    feed_forward = model.ffn + (moe.experts * moe.ffn + moe.shared_ffn if moe else 0)
    width = 4 * attention.heads * max(attention.qk_dim, attention.value_dim) + 3 * feed_forward
    roughly = model.hidden * (model.layers * width + 2 * model.vocab)
    if roughly > LARGEST_MODEL:
        keys.fail(f"about {roughly:.0e} parameters by hidden_size, num_hidden_layers and the widths: one is a slip")


def _name(keys: _Keys) -> str:
    """Name of the profile: what the file calls itself, else its own name or its folder's, else its family."""
    path = PurePath(keys.where)
    stem = path.parent.name if path.stem == "config" else path.stem
    called = PurePath(keys.text("_name_or_path")).name
    for candidate in (called, stem, keys.text("model_type")):
        name = re.sub(r"[^a-z0-9.]+", "-", candidate.lower()).strip("-.")
        if name:
            return name
    return "model"
