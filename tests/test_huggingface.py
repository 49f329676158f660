"""The importer: fields against published shapes, refusals that name their key, and nonsense that is refused."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from numpy.testing import assert_allclose

from clusterplan import shapes
from clusterplan.errors import ClusterplanError
from clusterplan.families import FAMILIES
from clusterplan.huggingface import read_model
from clusterplan.workload import Attention, Experts, LinearAttention, Model, StateSpace

DATA = Path(__file__).parent / "data"
CONFIGS = DATA / "configs"
with (DATA / "parameters.csv").open(encoding="utf-8", newline="") as _file:
    PUBLISHED = {row["name"]: row for row in csv.DictReader(_file)}


def config(name: str, **changes: Any) -> dict[str, Any]:
    """A public configuration with some keys changed; ``...`` takes a key out."""
    table = json.loads((CONFIGS / f"{name}.json").read_text()) | changes
    return {key: value for key, value in table.items() if value is not ...}


def read(table: dict[str, Any]) -> tuple[Model, list[str]]:
    return read_model(json.dumps(table), "some/config.json")


def shape(name: str, **changes: Any) -> Model:
    model, warnings = read(config(name, **changes))
    assert warnings == []
    return model


def refusal(table: dict[str, Any] | str) -> str:
    text = table if isinstance(table, str) else json.dumps(table)
    with pytest.raises(ClusterplanError) as caught:
        read_model(text, "some/config.json")
    message = str(caught.value)
    assert message.startswith("some/config.json: ")
    assert "\n" not in message
    return message


# --- Parameters of public models -----------------------------------------------------------------------------------

WARNED = {
    "gemma-3-27b-it-multimodal": "only the text model is read, vision_config is left out",
    "llama-4-scout-multimodal": "only the text model is read, vision_config is left out",
    "dots.llm1-142b": "model_type dots1 is not known",
}
"""What the other files do not leave open."""


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters(name):
    row = PUBLISHED[name]
    model, warnings = read(config(name))
    counted = shapes.parameters(model)
    assert_allclose(counted.total, int(row["parameters"]), rtol=float(row["tolerance"]))
    if row["active"]:
        assert_allclose(counted.active, int(row["active"]), rtol=float(row["active_tolerance"]))
    assert [WARNED[name] in one for one in warnings[:1]] == ([True] if name in WARNED else [])


def test_every_configuration_has_its_count():
    assert {path.stem for path in CONFIGS.glob("*.json")} == set(PUBLISHED) | {
        "deepseek-v3",
        "llama-3.1-8b",
        "mixtral-8x22b",
    }  # the same shapes as deepseek-r1, llama-3-8b and mixtral-8x22b-v0.1


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("gemma-2-9b", "21 (local, global)"),
        ("gemma-3-27b-text", "10 (5 local, global), 2 local"),
        ("gpt-oss-120b", "18 (local, global)"),
        ("llama-4-maverick-text", "12 (chunked-dense, chunked-moe, chunked-dense, global-moe)"),
        ("minimax-text-01-456b", "10 (7 linear, attention)"),
        ("qwen3-next-80b-a3b", "12 (3 linear, attention)"),
        ("hunyuan-large-389b", "32 (attention, shared)"),
        ("step3-321b-text", "4 dense, 56 moe, dense"),
        ("longcat-flash-560b", "28 moe"),
        ("mamba2-2.7b", "64 mamba"),
        ("llama-3.1-8b", ""),
        ("mistral-7b-v0.1", ""),
    ],
)
def test_pattern(name, pattern):
    assert read(config(name))[0].pattern == pattern


# --- Fields of each family -----------------------------------------------------------------------------------------


def test_llama_31_8b():
    # arXiv:2407.21783, Table 3
    model = shape("llama-3.1-8b")
    assert (model.layers, model.hidden, model.ffn, model.vocab) == (32, 4096, 14336, 128256)
    assert model.attention == Attention(heads=32, kv_heads=8, head_dim=128)
    assert (model.gated_mlp, model.tied_embeddings, model.norm_bias, model.moe) == (True, False, False, None)


def test_llama_biases_follow_their_keys():
    model = shape("llama-3.1-8b", attention_bias=True, mlp_bias=True)
    assert (model.attention.qkv_bias, model.attention.output_bias, model.mlp_bias) == (True, True, True)


def test_dtype_and_rope_of_transformers_5_change_nothing():
    newer = config("llama-3.1-8b", torch_dtype=..., dtype="bfloat16", rope_parameters={"rope_theta": 500000.0})
    assert read(newer)[0] == shape("llama-3.1-8b")


def test_qwen2_has_biases_on_qkv_alone_and_an_unused_window():
    # arXiv:2412.15115, Table 1: 0.5B has 14 query and 2 key-value heads and tied embeddings
    model = shape("qwen2.5-0.5b", sliding_window=1024)
    assert model.attention == Attention(heads=14, kv_heads=2, head_dim=64, qkv_bias=True)
    assert model.tied_embeddings


def test_qwen3_moe_has_its_own_head_dim_and_no_dense_layer():
    # arXiv:2505.09388, Table 2: 48 layers, 32 / 4 heads, 128 / 8 experts
    model = shape("qwen3-30b-a3b")
    assert model.attention == Attention(heads=32, kv_heads=4, head_dim=128, qk_norm=True)
    assert model.moe == Experts(experts=128, top_k=8, ffn=768)
    assert (model.ffn, model.moe_layers) == (0, 48)


def test_leading_dense_layers_of_qwen_keep_their_width():
    model = shape("qwen3-30b-a3b", mlp_only_layers=[0, 1])
    assert model.moe is not None
    assert (model.ffn, model.moe.dense_layers) == (6144, 2)


def test_qwen2_moe_has_a_gated_shared_expert():
    model = shape("qwen1.5-moe-a2.7b")
    assert model.moe == Experts(experts=60, top_k=4, ffn=1408, shared_ffn=5632, shared_gate=True)
    assert model.attention.qkv_bias


def test_mixtral_experts_are_as_wide_as_intermediate_size():
    model = shape("mixtral-8x22b")
    assert model.moe == Experts(experts=8, top_k=2, ffn=16384)
    assert model.ffn == 0


def test_deepseek_v3():
    # arXiv:2412.19437, section 4.2
    model = shape("deepseek-v3")
    assert model.attention == Attention(
        heads=128, kv_heads=128, head_dim=128, q_lora_rank=1536, kv_lora_rank=512, rope_head_dim=64, v_head_dim=128
    )
    assert model.moe == Experts(experts=256, top_k=8, ffn=2048, shared_ffn=2048, dense_layers=3)
    assert (model.layers, model.ffn, model.mtp_layers) == (61, 18432, 1)


def test_null_query_rank_means_a_full_projection():
    model = shape("moonlight-16b-a3b")
    assert model.attention.q_lora_rank == 0
    assert model.moe is not None
    assert (model.moe.shared_ffn, model.mtp_layers) == (2 * 1408, 0)


def test_kimi_k2_is_read_as_deepseek_v3():
    assert shape("deepseek-v3", model_type="kimi_k2").attention == shape("deepseek-v3").attention


def test_gpt2_is_tied_and_biased_by_default():
    model = shape("gpt2-xl")
    assert model.attention == Attention(heads=25, kv_heads=25, head_dim=64, qkv_bias=True, output_bias=True)
    assert (model.ffn, model.learned_positions) == (6400, 1024)
    assert (model.gated_mlp, model.tied_embeddings, model.norm_bias, model.mlp_bias) == (False, True, True, True)


def test_opt_has_two_positions_more():
    # arXiv:2205.01068, Table 1: 6.7B has 32 layers, 32 heads, width 4096
    model = shape("opt-6.7b")
    assert (model.ffn, model.learned_positions, model.tied_embeddings) == (16384, 2050, True)


def test_bloom_has_a_norm_after_the_embedding():
    model = shape("bloom-7b1")
    assert (model.hidden, model.ffn, model.learned_positions, model.tied_embeddings) == (4096, 16384, 0, True)
    assert model.embedding_norm
    assert model.attention.rotary_dim == 0


def test_a_share_of_nothing_is_not_the_usual_share():
    assert shape("pythia-12b", rotary_pct=0.0).attention.rotary_dim == 0
    assert shape("llama-3.1-8b", rope_parameters={"partial_rotary_factor": 0}).attention.rotary_dim == 0


@pytest.mark.parametrize("is_parallel", [True, False])
def test_gpt_neox(is_parallel):
    model = shape("pythia-12b", use_parallel_residual=is_parallel)
    assert model.attention == Attention(
        heads=40, kv_heads=40, head_dim=128, rotary_dim=32, qkv_bias=True, output_bias=True
    )
    assert (model.gated_mlp, model.norm_bias, model.tied_embeddings) == (False, True, False)
    assert (model.is_parallel, model.shared_norm) == (is_parallel, False)


def test_window_of_all_layers():
    # arXiv:2310.06825, Table 1: a window of 4,096
    assert shape("mistral-7b-v0.1").attention == Attention(heads=32, kv_heads=8, head_dim=128, window=4096)
    assert shape("mistral-7b-v0.1", sliding_window=None).attention == Attention(heads=32, kv_heads=8, head_dim=128)


def test_windows_in_some_layers():
    # arXiv:2503.19786, section 2: 5 local layers of 1,024 tokens to each global one
    kinds = shape("gemma-3-27b-text").kinds
    assert (kinds["local"].attention.window, kinds["global"].attention.window) == (1024, 0)
    listed = shape("gemma-3-1b", sliding_window_pattern=..., layer_types=["sliding_attention", "full_attention"] * 13)
    assert listed.pattern == "13 (local, global)"


def test_windows_of_qwen_start_at_a_layer_if_switched_on():
    changes = {"use_sliding_window": True, "sliding_window": 4096, "max_window_layers": 20}
    assert shape("qwen2.5-0.5b", **changes).pattern == "20 global, 4 local"
    assert shape("qwen2.5-0.5b", **changes | {"max_window_layers": 24}).pattern == ""


def test_period_of_windows_that_is_not_said_is_warned_of():
    model, warnings = read(config("gemma-3-1b", sliding_window_pattern=...))
    assert model == shape("gemma-3-1b")
    assert warnings == [
        "some/config.json: layer_types (or sliding_window_pattern) is missing; attention is full in every 6th layer, "
        "as transformers has it"
    ]


def test_chunks_of_llama_4():
    kinds = shape("llama-4-maverick-text").kinds
    local, full = kinds["chunked-moe"].attention, kinds["global-moe"].attention
    assert (local.window, local.is_chunked, local.rotary_dim) == (8192, True, None)
    assert (full.window, full.is_chunked, full.rotary_dim) == (0, False, 0)
    assert (kinds["chunked-dense"].ffn, kinds["global-moe"].moe.shared_ffn) == (16384, 8192)


def test_norms_around_after_and_without_weights():
    assert shape("gemma-2-2b").norm_place == "around"
    assert shape("olmo-2-7b").norm_place == "after"
    assert shape("olmo-2-7b").attention.qk_norm_weights == "heads"
    assert (shape("olmo-7b").norm_weight, shape("olmo-7b").norm_bias) == (False, False)


def test_falcons():
    small, large = shape("falcon-7b"), shape("falcon-40b")
    assert (small.attention.kv_heads, large.attention.kv_heads) == (1, 8)
    assert (small.shared_norm, large.shared_norm) == (True, False)
    assert small.is_parallel
    assert large.is_parallel
    assert not shape("falcon-7b", parallel_attn=False).is_parallel


def test_keys_in_tables():
    model = shape("dbrx-132b")
    assert model.attention.kv_heads == 8
    assert model.moe == Experts(experts=16, top_k=4, ffn=10752)


def test_gpt_oss_has_sinks_and_biases():
    # arXiv:2508.10925, section 2: windows of 128 in every second layer
    kinds = shape("gpt-oss-120b").kinds
    assert kinds["local"].attention == Attention(
        heads=64, kv_heads=8, head_dim=64, window=128, qkv_bias=True, output_bias=True, sinks=True
    )
    assert kinds["global"].moe == Experts(experts=128, top_k=4, ffn=2880, router_bias=True, expert_bias=True)


def test_lists_by_layer():
    different = config("hunyuan-a13b", moe_topk=[8] * 31 + [4])
    model = read(different)[0]
    assert model.pattern == "31 moe, moe-2"
    assert model.kinds["moe-2"].moe.top_k == 4


def test_experts_beside_dense_parts():
    arctic, longcat = shape("snowflake-arctic-480b").kinds["moe"], shape("longcat-flash-560b").kinds["moe"]
    assert (arctic.ffn, arctic.moe.ffn, arctic.moe_norm, arctic.repeats) == (7168, 4864, True, 1)
    assert (longcat.ffn, longcat.moe_norm, longcat.repeats) == (12288, False, 2)
    # arXiv:2509.01322: 512 experts and 256 zero experts, 12 activated, 18.6B to 31.3B, about 27B active
    assert longcat.moe.visited == 8
    counted = shapes.parameters(shape("longcat-flash-560b"))
    assert_allclose(counted.active - counted.embedding, 27e9, rtol=0.01)


def test_indexer_picks_keys():
    # DeepSeek-V3.2-Exp, config.json of the published inference code: 64 heads of 128 pick 2,048 keys
    changes = {"index_topk": 2048, "index_n_heads": 64, "index_head_dim": 128}
    before, after = shape("deepseek-v3"), shape("deepseek-v3", model_type="deepseek_v32", **changes)
    assert (after.attention.window, after.attention.index_heads, after.attention.index_dim) == (2048, 64, 128)
    by_layer = 1536 * 64 * 128 + 7168 * (128 + 64) + 2 * 128
    assert shapes.parameters(after).total - shapes.parameters(before).total == 61 * by_layer
    assert "index_n_heads" in refusal(config("deepseek-v3", model_type="deepseek_v32", index_topk=2048))


def test_states_of_fixed_size():
    jamba, falcon = shape("jamba-v0.1").kinds["mamba-moe"], shape("falcon-mamba-7b").kinds["mamba"]
    assert jamba.state_space == StateSpace(inner=8192, state=16, conv=4, dt_rank=256, inner_norms=True)
    assert falcon.state_space == StateSpace(inner=8192, state=16, conv=4, dt_rank=256)
    assert shape("mamba-2.8b", time_step_rank="auto") == shape("mamba-2.8b")
    assert shape("qwen3-next-80b-a3b").kinds["linear"].linear_attention == LinearAttention(
        rule="gated_delta", key_heads=16, value_heads=32, key_dim=128, value_dim=128, conv=4
    )
    assert shape("qwen3-next-80b-a3b").kinds["attention"].attention.output_gate


def test_alternating_experts():
    model = shape("qwen3-30b-a3b", decoder_sparse_step=2, mlp_only_layers=[47])
    assert model.pattern == "23 (dense, moe), 2 dense"
    assert shape("deepseek-v3", moe_layer_freq=2).pattern == "4 dense, 28 (moe, dense), moe"
    assert shape("deepseek-v3", moe_layer_freq=[0] * 3 + [1] * 58) == shape("deepseek-v3")


def test_biases_of_latent_attention():
    attention = shape("deepseek-v3", attention_bias=True).attention
    assert (attention.qkv_bias, attention.output_bias) == (True, True)


@pytest.mark.parametrize("kind", ["llama", "mistral", "qwen2"])
def test_llama_like_models_are_not_tied_when_the_key_is_absent(kind):
    assert not shape("llama-3.1-8b", model_type=kind, sliding_window=None, tie_word_embeddings=...).tied_embeddings


# --- Names, parts, assumptions -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("where", "name"),
    [
        ("models/My Model/config.json", "my-model"),
        ("llama-3.1-8B.json", "llama-3.1-8b"),
        ("-", "llama"),
        ("config.json", "llama"),
    ],
)
def test_name_comes_from_the_file_its_folder_or_the_family(where, name):
    model, _ = read_model(json.dumps(config("llama-3.1-8b")), where)
    assert model.name == name
    assert ("standard input" if where == "-" else where) in model.source


def test_name_in_the_file_goes_first():
    assert shape("llama-3.1-8b", _name_or_path="meta-llama/Llama-3.1-8B").name == "llama-3.1-8b"


def test_text_part_of_a_larger_model_is_read_with_the_outer_tie():
    inner = config("qwen3-30b-a3b", tie_word_embeddings=...)
    outer = {"model_type": "x", "tie_word_embeddings": True, "text_config": inner, "vision_config": {"hidden_size": 1}}
    model, warnings = read(outer)
    assert (model.hidden, model.tied_embeddings) == (2048, True)
    assert warnings == ["some/config.json: only the text model is read, vision_config is left out"]
    assert read({"model_type": "x", "thinker_config": outer})[0] == model


def test_text_part_that_contradicts_the_whole_is_refused():
    outer = {"tie_word_embeddings": True, "text_config": config("qwen3-30b-a3b")}
    assert "tie_word_embeddings differs" in refusal(outer)


def test_missing_kv_heads_mean_as_many_as_heads_for_llama_and_are_said():
    model, warnings = read(config("llama-3.1-8b", num_key_value_heads=...))
    assert model.attention.kv_heads == 32
    assert len(warnings) == 1
    assert "num_key_value_heads" in warnings[0]


def test_family_that_is_not_known_is_read_as_llama_with_a_warning():
    model, warnings = read(config("llama-3.1-8b", model_type="brandnew"))
    assert model.attention == Attention(heads=32, kv_heads=8, head_dim=128)
    assert len(warnings) == 1
    assert "model_type brandnew is not known; read as llama" in warnings[0]


def test_experts_of_a_family_that_is_not_known():
    model, warnings = read(config("deepseek-v3", model_type="brandnew"))
    known = shape("deepseek-v3")
    assert (model.attention, model.moe, model.ffn) == (known.attention, known.moe, known.ffn)
    assert "latent attention as in deepseek_v3" in warnings[0]
    assert "experts are read as gated, in 58 of 61 layers, shared ones 2048 wide" in warnings[1]


def test_window_where_a_family_has_none_is_read_and_said():
    model, warnings = read(config("llama-3.1-8b", sliding_window=4096))
    assert model.attention.window == 4096
    assert "sliding_window = 4096 is read as the window of all layers" in warnings[0]


def test_most_families_have_a_configuration_here():
    told = [json.loads(path.read_text()) for path in CONFIGS.glob("*.json")]
    kinds = {table["model_type"] for table in told} | {
        table["text_config"]["model_type"] for table in told if "text_config" in table
    }
    assert len(kinds & set(FAMILIES)) >= 45


# Keys that transformers leaves out of a file where they are as in the class; their absence is no question.
DEFAULTED = {
    "tie_word_embeddings",
    "attention_bias",
    "num_nextn_predict_layers",
    "num_mtp_modules",
    "use_qk_norm",
    "qk_layernorm",
    "lm_head_bias",
    "use_parallel_residual",
    "new_decoder_architecture",
    "num_kv_heads",
    "multi_query_attention",
    "add_qkv_bias",
    "head_dim",
    "rotary_dim",
    "partial_rotary_factor",
    "sliding_window",
    "intermediate_size",
    "attn_config",
    "alibi",
}


def told(table):
    """The error, or the shape and what is warned of, as a text."""
    try:
        model, warnings = read(table)
    except ClusterplanError as problem:
        return str(problem)
    return f"{replace(model, name='', source='')} {warnings}"


@pytest.mark.parametrize("name", sorted(PUBLISHED))
def test_a_missing_key_is_named_or_changes_nothing(name):
    table = config(name)
    whole = told(table)
    for part in [table, *(table[key] for key in ("text_config", "attn_config", "ffn_config") if key in table)]:
        for key in sorted(set(part) - {"model_type", "text_config", "vision_config"}):
            value = part.pop(key)
            outcome = told(table)
            part[key] = value
            assert key in DEFAULTED or key in outcome or outcome == whole, (key, outcome)


def test_consistency_is_that_of_profiles():
    message = refusal(config("qwen3-next-80b-a3b", linear_num_key_heads=3))
    assert "kinds.linear.linear_attention.key_heads must divide value_heads = 32" in message


# --- Refusals ------------------------------------------------------------------------------------------------------

UNKNOWN = {"model_type": "brandnew"}


@pytest.mark.parametrize(
    ("name", "changes", "named"),
    [
        ("llama-3.1-8b", {"hidden_size": ...}, "hidden_size (or n_embd, n_embed, d_model) is missing"),
        (
            "llama-3.1-8b",
            {"intermediate_size": None},
            "intermediate_size (or n_inner, ffn_dim, ffn_hidden_size) is null",
        ),
        ("llama-3.1-8b", {"vocab_size": ...}, "vocab_size"),
        ("llama-3.1-8b", {"hidden_size": 4100}, "head_dim is missing"),
        ("llama-3.1-8b", {"num_key_value_heads": 5}, "num_key_value_heads = 5"),
        ("llama-3.1-8b", {"num_key_value_heads": [8, 4]}, "num_key_value_heads is a list"),
        ("llama-3.1-8b", {"intermediate_size": [14336, 1]}, "intermediate_size has 2 entries for 32 layers"),
        ("llama-3.1-8b", {"layer_types": ["full_attention", "sliding_attention"]}, "layer_types has 2 entries"),
        ("llama-3.1-8b", {"layer_types": ["sliding_attention"] * 32}, "sliding_window is missing"),
        ("llama-3.1-8b", {"layer_types": ["linear_attention"] * 32}, 'layer_types has "linear_attention"'),
        ("llama-3.1-8b", {"layer_types": "full"}, "layer_types"),
        ("llama-3.1-8b", {"n_embd": 4097}, "hidden_size and n_embd differ"),
        ("llama-3.1-8b", {"use_parallel_residual": True}, "use_parallel_residual"),
        ("llama-3.1-8b", {"is_encoder_decoder": True}, "is_encoder_decoder"),
        ("llama-3.1-8b", {"full_attention_interval": 4}, "full_attention_interval"),
        ("llama-3.1-8b", {"cross_attention_layers": [3]}, "cross_attention_layers"),
        ("llama-3.1-8b", {"model_type": "kimi_linear"}, "model_type kimi_linear"),
        ("llama-3.1-8b", {"model_type": "gemma2", "head_dim": 128}, "sliding_window is missing"),
        ("llama-3.1-8b", {"model_type": "mistral", "num_key_value_heads": ...}, "num_key_value_heads (or"),
        ("llama-3.1-8b", {"model_type": "qwen3"}, "head_dim (or attention_head_dim, kv_channels) is missing"),
        ("llama-3.1-8b", {"model_type": "granite", "tie_word_embeddings": ...}, "tie_word_embeddings is missing"),
        ("llama-3.1-8b", {"model_type": "jamba"}, "mamba_expand is missing"),
        ("llama-3.1-8b", {"model_type": "bamba"}, "mamba_expand is missing"),
        ("llama-3.1-8b", {"rope_parameters": {"partial_rotary_factor": 2}}, "partial_rotary_factor = 2"),
        ("llama-3.1-8b", UNKNOWN | {"tie_word_embeddings": ...}, "tie_word_embeddings is missing"),
        ("llama-3.1-8b", UNKNOWN | {"num_key_value_heads": ...}, "num_key_value_heads (or num_kv_heads"),
        ("llama-3.1-8b", UNKNOWN | {"hidden_act": "relu2"}, "hidden_act"),
        ("llama-3.1-8b", UNKNOWN | {"num_experts": 8}, "moe_intermediate_size (or"),
        ("llama-3.1-8b", UNKNOWN | {"num_experts": 8, "moe_intermediate_size": 7}, "num_experts_per_tok (or"),
        ("llama-3.1-8b", UNKNOWN | {"state_size": 8}, "state_size stands for state-space layers"),
        ("qwen2.5-0.5b", {"use_sliding_window": True, "max_window_layers": ...}, "max_window_layers is missing"),
        ("qwen3-30b-a3b", {"mlp_only_layers": [0.5]}, "mlp_only_layers"),
        ("qwen3-30b-a3b", {"mlp_only_layers": list(range(48))}, "none of 48 layers has experts"),
        ("qwen3-30b-a3b", {"num_experts_per_tok": 129}, "129 experts per token"),
        ("qwen1.5-moe-a2.7b", {"shared_expert_intermediate_size": ...}, "shared_expert_intermediate_size is missing"),
        ("qwen3-next-80b-a3b", {"full_attention_interval": ...}, "full_attention_interval is missing"),
        ("qwen3-next-80b-a3b", {"linear_num_key_heads": ...}, "linear_num_key_heads is missing"),
        ("minimax-text-01-456b", {"attn_type_list": ...}, "attn_type_list (or layer_types) is missing"),
        ("minimax-text-01-456b", {"attn_type_list": [1]}, "attn_type_list"),
        ("hunyuan-a13b", {"moe_topk": [8]}, "moe_topk has 1 entries for 32 layers"),
        ("hunyuan-large-389b", {"cla_share_factor": ...}, "cla_share_factor is missing"),
        ("llama-4-maverick-text", {"attention_chunk_size": ...}, "attention_chunk_size is missing"),
        ("llama-4-maverick-text", {"interleave_moe_layer_step": ...}, "interleave_moe_layer_step is missing"),
        ("step3-321b-text", {"moe_layers_enum": ...}, "moe_layers_enum is missing"),
        ("step3-321b-text", {"moe_layers_enum": "4,x"}, "moe_layers_enum"),
        ("longcat-flash-560b", {"zero_expert_num": ...}, "zero_expert_num is missing"),
        ("longcat-flash-560b", {"zero_expert_type": "copy"}, "zero_expert_type"),
        ("snowflake-arctic-480b", {"parallel_attn_mlp_res": ...}, "parallel_attn_mlp_res is missing"),
        ("mamba2-2.7b", {"head_dim": 32}, "80 heads of 32"),
        ("nemotron-h-8b", {"hybrid_override_pattern": "M*"}, "hybrid_override_pattern"),
        ("mpt-7b", {"no_bias": False}, "no_bias is false"),
        ("mpt-7b", {"attn_config": {"attn_type": "linear"}}, "attn_config.attn_type"),
        ("qwen-7b", {"intermediate_size": 22015}, "intermediate_size = 22015"),
        ("deepseek-v3", {"q_lora_rank": ...}, "q_lora_rank is missing"),
        ("deepseek-v3", {"first_k_dense_replace": ...}, "first_k_dense_replace is missing"),
        ("deepseek-v3", {"n_shared_experts": ...}, "n_shared_experts is missing"),
        ("deepseek-v3", {"num_key_value_heads": 8}, "num_key_value_heads"),
        ("deepseek-v3", {"index_topk": 2048}, "index_topk"),
        ("opt-6.7b", {"do_layer_norm_before": False}, "do_layer_norm_before is false"),
        ("opt-6.7b", {"word_embed_proj_dim": 512}, "word_embed_proj_dim"),
        ("gpt2-xl", {"add_cross_attention": True}, "add_cross_attention"),
        ("gpt2-xl", {"n_positions": ...}, "n_positions is missing"),
    ],
)
def test_refusal_names_the_key(name, changes, named):
    assert named in refusal(config(name, **changes))


@pytest.mark.parametrize("value", ["4096", 4096.0, 1.5, True, False, 0, -1, 10**9, [], {}])
@pytest.mark.parametrize("key", ["hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads"])
def test_what_is_no_count_is_refused(key, value):
    assert key in refusal(config("llama-3.1-8b", **{key: value}))


@pytest.mark.parametrize("value", [0, 1, "false", []])
def test_what_is_no_switch_is_refused(value):
    assert "tie_word_embeddings" in refusal(config("llama-3.1-8b", tie_word_embeddings=value))


def test_model_type_that_is_no_text_is_refused():
    assert "model_type" in refusal(config("llama-3.1-8b", model_type=7))


def test_huge_product_of_allowed_widths_is_refused():
    table = config("mixtral-8x22b", hidden_size=999_936, intermediate_size=999_999, num_local_experts=999_999)
    assert "parameters" in refusal(table)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "not json",
        "[]",
        "7",
        "null",
        '{"hidden_size": NaN}',
        '{"hidden_size": -Infinity}',
        '{"hidden_size": 1, "hidden_size": 2}',
        '{"hidden_size": ' + "9" * 5000 + "}",
        "[" * 100_000,
    ],
    ids=["empty", "words", "list", "number", "null", "nan", "infinity", "twice", "long-number", "deep"],
)
def test_what_is_no_configuration_is_refused(text):
    refusal(text)
