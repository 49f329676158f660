"""What a ``model_type`` of a Hugging Face ``config.json`` means beyond its keys: a table of families.

The same missing key means different things in different families: no ``tie_word_embeddings`` is true for gpt2 and false
for llama. Facts are those that :mod:`clusterplan.family_layers` names.
"""

from __future__ import annotations

from dataclasses import replace

from clusterplan.configuration import LARGEST_TABLE, Keys, Switch
from clusterplan.family_layers import (
    Family,
    arctic_experts,
    bigcode_kv_heads,
    chatglm_kv_heads,
    dbrx_experts,
    deepseek_experts,
    ernie_experts,
    factorised_attention,
    falcon_kv_heads,
    gemma2_windows,
    gpt_oss_experts,
    granite_hybrid_feed_forward,
    hunyuan_experts,
    hunyuan_norms,
    indexed_attention,
    jamba_experts,
    jamba_mixers,
    llama4_attention,
    llama4_experts,
    longcat_experts,
    mamba2_and_attention,
    mamba2_mixers,
    mamba_mixers,
    minimax_mixers,
    mistral_windows,
    mixtral_experts,
    mpt_feed_forward,
    mpt_kv_heads,
    nemotron_h_feed_forward,
    nemotron_h_mixers,
    qwen1_feed_forward,
    qwen2_experts,
    qwen3_experts,
    qwen3_next_mixers,
    shared_keys,
    step3_experts,
    unknown_feed_forward,
    windows_but_every,
    windows_everywhere,
    windows_from_some_layer,
)

LLAMA = Family(
    kv_heads="default",
    qkv_bias=("attention_bias", False),
    output_bias=("attention_bias", False),
    mlp_bias=("mlp_bias", False),
)
UNKNOWN = replace(LLAMA, tied=None, kv_heads="key", feed_forward=unknown_feed_forward)
_MISTRAL = Family(windows=windows_everywhere)
_QWEN2 = Family(qkv_bias=True, windows=windows_from_some_layer)
_QWEN3 = Family(
    head_dim_default=False,  # 128 in transformers when absent, whatever hidden and heads are
    windows=windows_from_some_layer,
    qk_norm=True,
    qkv_bias=("attention_bias", False),
    output_bias=("attention_bias", False),
)
_QWEN2_MOE = replace(_QWEN2, qkv_bias=("qkv_bias", True), feed_forward=qwen2_experts)
_QWEN3_MOE = replace(_QWEN3, feed_forward=qwen3_experts)
_LATENT = Family(
    latent=True,
    qkv_bias=("attention_bias", False),
    output_bias=("attention_bias", False),
    feed_forward=deepseek_experts,
)
_BIASED = Family(kv_heads="each", gated=False, norm_bias=True, qkv_bias=True, output_bias=True, mlp_bias=True)
_GEMMA = Family(
    tied=True, head_dim_default=False, qkv_bias=("attention_bias", False), output_bias=("attention_bias", False)
)
_GEMMA3 = replace(_GEMMA, norm_place="around", qk_norm=True, windows=windows_but_every(6, "sliding_window_pattern"))
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
    tied=None, qkv_bias=("attention_bias", False), output_bias=("attention_bias", False), feed_forward=mixtral_experts
)
_HUNYUAN = Family(
    tied=None,
    qk_norm=hunyuan_norms,
    qkv_bias=("attention_bias", False),
    output_bias=("attention_bias", False),
    mixers=shared_keys,
    feed_forward=hunyuan_experts,
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
    "mistral": replace(_MISTRAL, windows=mistral_windows),
    "ministral": _MISTRAL,
    "mixtral": replace(_MISTRAL, feed_forward=mixtral_experts),
    "phi3": _MISTRAL,
    "llama4_text": replace(
        LLAMA,
        qk_norm=("use_qk_norm", True),
        qk_norm_weights="none",
        mlp_bias=False,
        mixers=llama4_attention,
        feed_forward=llama4_experts,
    ),
    "gemma": _GEMMA,
    "gemma2": replace(_GEMMA, norm_place="around", windows=gemma2_windows),
    "gemma3_text": _GEMMA3,
    "gemma3": _GEMMA3,
    "granite": replace(LLAMA, tied=None),
    "granitemoe": _GRANITE_MOE,
    "granitemoeshared": _GRANITE_MOE,
    "granitemoehybrid": replace(_GRANITE_MOE, mixers=mamba2_and_attention, feed_forward=granite_hybrid_feed_forward),
    "smollm3": replace(LLAMA, tied=None, kv_heads="key", windows=windows_from_some_layer),
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
        windows=windows_everywhere,
    ),
    "gpt_bigcode": replace(_BIASED, tied=True, kv_heads=bigcode_kv_heads, ffn_times_hidden=4, positions="n_positions"),
    "qwen": replace(_QWEN2, windows=None, kv_heads="each", feed_forward=qwen1_feed_forward),
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
    "qwen3_next": replace(
        _QWEN3, windows=None, output_gate=True, rotary=0.25, mixers=qwen3_next_mixers, feed_forward=qwen2_experts
    ),
    "deepseek": Family(
        qkv_bias=("attention_bias", False), output_bias=("attention_bias", False), feed_forward=deepseek_experts
    ),
    "deepseek_v2": _LATENT,
    "deepseek_v3": _LATENT,
    "deepseek_v32": replace(_LATENT, mixers=indexed_attention),
    "glm_moe_dsa": replace(_LATENT, mixers=indexed_attention),
    "kimi_k2": _LATENT,
    "longcat_flash": replace(_LATENT, feed_forward=longcat_experts),
    "glm": Family(qkv_bias=("attention_bias", True), rotary=0.5),
    "glm4": Family(qkv_bias=("attention_bias", False), rotary=0.5, norm_place="around"),
    "glm4_moe": Family(
        head_dim_default=False,
        qk_norm=("use_qk_norm", False),
        qkv_bias=("attention_bias", False),
        rotary=0.5,
        feed_forward=deepseek_experts,
    ),
    "chatglm": Family(
        kv_heads=chatglm_kv_heads,
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
        windows=windows_but_every(2),
        feed_forward=gpt_oss_experts,
    ),
    "ernie4_5": _ERNIE,
    "ernie4_5_moe": replace(_ERNIE, feed_forward=ernie_experts),
    "hunyuan": _HUNYUAN,
    "hunyuan_v1_moe": _HUNYUAN,
    "hunyuan_v1_dense": replace(_HUNYUAN, feed_forward=None),
    "step3_text": Family(head_dim_default=False, mixers=factorised_attention, feed_forward=step3_experts),
    "minimax_m2": Family(
        head_dim_default=False,
        qk_norm=("use_qk_norm", True),
        qk_norm_weights="heads",
        feed_forward=mixtral_experts,
    ),
    "minimax": Family(mixers=minimax_mixers, feed_forward=mixtral_experts),
    "minimax_text_01": Family(mixers=minimax_mixers, feed_forward=mixtral_experts),
    "cohere": _COHERE,
    "cohere2": replace(_COHERE, windows=windows_but_every(4, "sliding_window_pattern")),
    "dbrx": Family(feed_forward=dbrx_experts),
    "grok-1": Family(tied=None, norm_place="around", feed_forward=mixtral_experts),
    "arctic": Family(kv_heads="default", feed_forward=arctic_experts),
    "falcon": Family(
        tied=True,
        kv_heads=falcon_kv_heads,
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
        kv_heads=mpt_kv_heads,
        gated=False,
        feed_forward=mpt_feed_forward,
        positions=_mpt_positions,
        rotary=_mpt_turns,
        needs=(("no_bias", True, True), ("attn_config.qk_ln", False, False)),
    ),
    "olmo": replace(_OLMO, norm_weight=False),
    "olmo2": _OLMO2,
    "olmo3": replace(_OLMO2, windows=windows_but_every(4)),
    "olmoe": replace(_OLMO, qk_norm=True, qk_norm_weights="heads", feed_forward=mixtral_experts),
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
        windows=windows_everywhere,
        feed_forward=mixtral_experts,
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
        mixers=nemotron_h_mixers,
        feed_forward=nemotron_h_feed_forward,
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
    "jamba": Family(rotary=0, mixers=jamba_mixers, feed_forward=jamba_experts),
    "bamba": Family(rotary=0.5, mixers=mamba2_and_attention),
    "mamba": Family(tied=True, mixers=mamba_mixers),
    "falcon_mamba": Family(tied=True, mixers=mamba_mixers),
    "mamba2": Family(mixers=mamba2_mixers),
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
