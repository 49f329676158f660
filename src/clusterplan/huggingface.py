"""Shape of a model from a Hugging Face ``config.json``.

A configuration is read by its family (``model_type``): see :mod:`clusterplan.families`. A family that is not known is
read as llama where nothing speaks against it, which a warning says. What a :class:`Model` cannot say exactly is refused
with the key that says so; a key that decides the shape and is missing is an error, too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import NoReturn

from clusterplan.configuration import LARGEST_TABLE, VOCAB, Keys, quote
from clusterplan.consistency import inconsistent
from clusterplan.errors import ProfileError
from clusterplan.families import FAMILIES, NO_FEED_FORWARD, UNKNOWN
from clusterplan.family_layers import Family, dense, windowed
from clusterplan.workload import Experts, Layer, Model, compress

LARGEST_MODEL = 10**18
"""assumed: no model has more parameters; products of larger shapes would leave 64 bits."""

_REFUSED = {
    "kimi_linear": "a delta rule with gates for each channel (linear_attn_config)",
    "mllama_text_model": "cross-attention to images in some layers (cross_attention_layers)",
    "gemma3n_text": "a stream of several parts (altup_num_inputs)",
}
"""Families that a profile cannot say, and why."""

_TELLING = {
    "altup_num_inputs": "a stream of several parts",
    "attention_chunk_size": "attention in chunks",
    "attn_layer_period": "attention in some layers only",
    "attn_type_list": "attention that differs by layer",
    "block_configs": "layers that differ",
    "cla_share_factor": "layers that share keys and values",
    "cross_attention_layers": "cross-attention",
    "expert_layer_period": "experts in some layers only",
    "full_attention_interval": "linear attention in some layers",
    "hybrid_override_pattern": "layers that differ",
    "index_topk": "sparse attention by an indexer",
    "is_encoder_decoder": "an encoder",
    "layer_types": "layers that differ",
    "layers_block_type": "layers that differ",
    "linear_attn_config": "linear attention in some layers",
    "linear_num_value_heads": "linear attention in some layers",
    "mamba_d_state": "state-space layers",
    "moe_layers_enum": "experts in listed layers only",
    "num_kv_shared_layers": "layers that share keys and values",
    "parallel_attn": "attention beside the feed-forward part",
    "parallel_attn_mlp_res": "a dense part beside the experts",
    "share_q_dim": "queries through a rank",
    "sliding_window_pattern": "windows in some layers",
    "ssm_cfg": "state-space layers",
    "state_size": "state-space layers",
    "use_cla": "layers that share keys and values",
    "use_parallel_residual": "attention beside the feed-forward part",
    "zero_expert_num": "experts that compute nothing",
}
"""Keys that decide the shape: unless they are empty, zero or false, a family must have read them."""

_PARTS = ("text_config", "llm_config", "language_config", "thinker_config")
"""Where configurations of several parts keep the language model."""


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
    keys = _text_part(Keys(_parse(text, where), where))
    family = _family(keys)
    _refuse_values(keys, family)
    layers = _layers(keys, family)
    for layer in layers:
        if layer.moe and layer.moe.top_k > layer.moe.experts + layer.moe.zero_experts:
            keys.fail(f"{layer.moe.top_k} experts per token are more than the {layer.moe.experts} that there are")
    place = "standard input" if where == "-" else where
    model = Model(
        name=_name(keys),
        source=f"{place} (config.json, model_type {keys.text('model_type') or 'absent'})",
        layers=len(layers),
        hidden=keys.hidden,
        vocab=keys.whole(*VOCAB, most=LARGEST_TABLE),
        gated_mlp=family.gated,
        tied_embeddings=keys.flag("tie_word_embeddings", family.tied),
        learned_positions=_positions(keys, family),
        embedding_norm=family.embedding_norm,
        norm_place=family.norm_place,
        norm_weight=family.norm_weight,
        norm_bias=keys.switch(family.norm_bias),
        final_norm=keys.switch(family.final_norm),
        is_parallel=keys.switch(family.is_parallel),
        shared_norm=keys.switch(family.shared_norm),
        mlp_bias=keys.switch(family.mlp_bias),
        head_bias=keys.switch(family.head_bias),
        mtp_layers=keys.whole("num_nextn_predict_layers", "num_mtp_modules", least=0, default=0),
    )
    _refuse_unread(keys)
    _refuse_huge(keys, model, layers)
    model = with_layers(model, layers)
    for name, text in inconsistent(model):
        keys.fail(f"{name} {text}")
    return model, keys.warnings


def with_layers(model: Model, layers: Sequence[Layer]) -> Model:
    """The model with these layers: described once where they are alike, else by kinds and their pattern.

    Examples
    --------
    >>> from clusterplan.workload import Attention
    >>> model = Model(name="m", source="", layers=3, hidden=8, vocab=9, gated_mlp=True, tied_embeddings=True)
    >>> wide = Attention(heads=2, kv_heads=1, head_dim=4)
    >>> with_layers(model, [Layer(attention=wide, ffn=16)] * 3).kinds
    {}
    >>> local = Layer(attention=replace(wide, window=64), ffn=16)
    >>> mixed = with_layers(model, [local, local, Layer(attention=wide, ffn=16)])
    >>> mixed.pattern, list(mixed.kinds)
    ('2 local, global', ['local', 'global'])
    """
    first, leading = layers[0], sum(layer.moe is None for layer in layers)
    ffn, moe = first.ffn if leading else 0, layers[-1].moe
    plain = Layer(attention=first.attention, ffn=ffn), Layer(attention=first.attention, moe=moe)
    alike = [plain[at >= leading] for at in range(len(layers))]
    if first.attention and list(layers) == alike and (ffn or not leading):
        experts = replace(moe, dense_layers=leading) if moe else None
        return replace(model, attention=first.attention, ffn=ffn, moe=experts)
    names = _kind_names(list(dict.fromkeys(layers)))
    kinds = {names[layer]: layer for layer in dict.fromkeys(layers)}
    return replace(model, kinds=kinds, pattern=compress(tuple(names[layer] for layer in layers)))


def _kind_names(layers: Sequence[Layer]) -> dict[Layer, str]:
    """Names of kinds by what tells them from one another."""
    mixers, parts = [_mixer_name(layer) for layer in layers], [_part_name(layer) for layer in layers]
    if "local" in mixers or "chunked" in mixers:
        mixers = ["global" if name == "attention" else name for name in mixers]
    names: dict[Layer, str] = {}
    for layer, mixing, part in zip(layers, mixers, parts, strict=True):
        told = [name for name, every in ((mixing, mixers), (part, parts)) if name and len(set(every)) > 1]
        name = base = "-".join(told or [part if layer.moe else mixing or part])
        number = 1
        while name in names.values():
            number += 1
            name = f"{base}-{number}"
        names[layer] = name
    return names


def _mixer_name(layer: Layer) -> str:
    if attention := layer.attention:
        if attention.shared_kv:
            return "shared"
        return ("chunked" if attention.is_chunked else "local") if attention.window else "attention"
    return "mamba" if layer.state_space else "linear" if layer.linear_attention else ""


def _part_name(layer: Layer) -> str:
    return "moe" if layer.moe else "dense" if layer.ffn else ""


def _layers(keys: Keys, family: Family) -> list[Layer]:
    """All layers: mixers and feed-forward parts put together."""
    mixers = (family.mixers or windowed)(keys, family)
    if keys.text("model_type") in NO_FEED_FORWARD:
        return mixers
    parts = (family.feed_forward or dense)(keys, family)
    return [
        replace(mixing, ffn=part.ffn, moe=part.moe, moe_norm=part.moe_norm, repeats=part.repeats)
        for mixing, part in zip(mixers, parts, strict=True)
    ]


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


def _text_part(keys: Keys) -> Keys:
    """The language model of a configuration that has other parts too."""
    while name := next((name for name in _PARTS if keys.has(name)), ""):
        tables = [key for key, value in keys.table.items() if key != name and isinstance(value, dict)]
        others = [key for key in tables if key.split("_")[0] in ("vision", "audio", "talker", "speech", "vit")]
        if others:
            keys.warn(f"only the text model is read, {', '.join(others)} is left out")
        inner = keys.table[name]
        if not isinstance(inner, dict):
            keys.fail(f"{name} is not a table")
        tie = "tie_word_embeddings"
        if tie in keys.table and tie in inner and keys.table[tie] != inner[tie]:
            keys.fail(f"{tie} differs between the file and its {name}")
        outer = {key: keys.table[key] for key in (tie, "_name_or_path", "model_type") if key in keys.table}
        keys = Keys({**outer, **inner}, keys.where, keys.warnings)
    others = [key for key, value in keys.table.items() if isinstance(value, dict) and key.startswith("vision")]
    if others:
        keys.warn(f"only the text model is read, {', '.join(others)} is left out")
    return keys


def _family(keys: Keys) -> Family:
    """Family of the configuration; one that is not known is read as llama if nothing speaks against it."""
    kind = keys.text("model_type")
    if kind in _REFUSED:
        keys.fail(f"model_type {kind} cannot be said by a model profile: {_REFUSED[kind]}")
    if kind in FAMILIES:
        return FAMILIES[kind]
    named = f"model_type {kind} is not known" if kind else "model_type is missing"
    activation = keys.text("hidden_act")
    if activation not in ("silu", "swish", "swiglu"):
        keys.fail(f"{named}, and hidden_act = {quote(activation)} leaves open whether the feed-forward part is gated")
    is_latent = keys.has("kv_lora_rank")
    has_norms = any(keys.flag(name, False) for name in ("use_qk_norm", "qk_norm", "qk_layernorm"))
    attention = "latent attention as in deepseek_v3" if is_latent else "attention as there"
    norms = "a norm on queries and keys of each head" if has_norms else "no norm on queries and keys"
    keys.warn(
        f"{named}; read as llama: {attention}, two RMSNorms in each layer, gated feed-forward part, {norms}, "
        "biases only where attention_bias and mlp_bias say so"
    )
    return replace(UNKNOWN, latent=is_latent, qk_norm=has_norms)


def _refuse_values(keys: Keys, family: Family) -> None:
    """Refuse values of the family's own keys that the record cannot say."""
    for key, needed, absent in family.needs:
        if keys.flag(key, absent) is not needed:
            said = "" if keys.has(key) else " by default"
            keys.fail(f"{key} is {json.dumps(not needed)}{said}, which a model profile cannot say")
    if keys.has("word_embed_proj_dim") and keys.whole("word_embed_proj_dim") != keys.hidden:
        keys.fail("word_embed_proj_dim differs from hidden_size, which a model profile cannot say")


def _refuse_unread(keys: Keys) -> None:
    """Refuse keys that decide the shape, but not in a way that is known for the family."""
    for key, what in _TELLING.items():
        if keys.table.get(key) and key not in keys.used:
            keys.fail(f"{key} stands for {what}, which is not known for this model_type")


def _positions(keys: Keys, family: Family) -> int:
    if callable(family.positions):
        return family.positions(keys)
    if not family.positions:
        return 0
    return keys.whole(family.positions, most=LARGEST_TABLE) + family.positions_more


def _refuse_huge(keys: Keys, model: Model, layers: Sequence[Layer]) -> None:
    """Refuse shapes whose parameters, roughly, are beyond any model."""
    widths = {layer: _roughly(layer) for layer in set(layers)}
    roughly = model.hidden * (sum(widths[layer] for layer in layers) + 2 * model.vocab)
    if roughly > LARGEST_MODEL:
        keys.fail(f"about {roughly:.0e} parameters by hidden_size, num_hidden_layers and the widths: one is a slip")


def _roughly(layer: Layer) -> int:
    """Parameters of a layer over the hidden width, about."""
    moe: Experts | None = layer.moe
    width = 3 * (layer.ffn + (moe.experts * moe.ffn + moe.shared_ffn if moe else 0))
    if attention := layer.attention:
        width += 4 * attention.heads * max(attention.qk_dim, attention.value_dim)
    if linear := layer.linear_attention:
        width += 4 * linear.value_heads * max(linear.key_dim, linear.value_dim)
    if layer.state_space:
        width += 3 * layer.state_space.inner
    return width


def _name(keys: Keys) -> str:
    """Name of the profile: what the file calls itself, else its own name or its folder's, else its family."""
    path = PurePath(keys.where)
    stem = path.parent.name if path.stem == "config" else path.stem
    called = PurePath(keys.text("_name_or_path")).name
    for candidate in (called, stem, keys.text("model_type")):
        name = re.sub(r"[^a-z0-9.]+", "-", candidate.lower()).strip("-.")
        if name:
            return name
    return "model"
