"""The importer: fields against published shapes, refusals that name their key, and nonsense that is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from clusterplan.errors import ClusterplanError
from clusterplan.huggingface import read_model
from clusterplan.workload import Attention, Experts, Model

CONFIGS = Path(__file__).parent / "data" / "configs"


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


def test_bloom_warns_of_the_norm_that_is_left_out():
    model, warnings = read(config("bloom-7b1"))
    assert (model.hidden, model.ffn, model.learned_positions, model.tied_embeddings) == (4096, 16384, 0, True)
    assert warnings == ["some/config.json: the layer norm after the embedding is left out (8,192 parameters)"]


def test_gpt_neox_without_parallel_residual():
    table = config("llama-3.1-8b", model_type="gpt_neox", use_parallel_residual=False, attention_bias=...)
    model, _ = read(table)
    assert model.attention == Attention(heads=32, kv_heads=32, head_dim=128, qkv_bias=True, output_bias=True)
    assert (model.gated_mlp, model.norm_bias, model.tied_embeddings) == (False, True, False)


@pytest.mark.parametrize("kind", ["llama", "mistral", "qwen2"])
def test_llama_like_models_are_not_tied_when_the_key_is_absent(kind):
    assert not shape("llama-3.1-8b", model_type=kind, tie_word_embeddings=...).tied_embeddings


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
    assert where in model.source


def test_name_in_the_file_goes_first():
    assert shape("llama-3.1-8b", _name_or_path="meta-llama/Llama-3.1-8B").name == "llama-3.1-8b"


def test_text_part_of_a_larger_model_is_read_with_the_outer_tie():
    inner = config("qwen3-30b-a3b", tie_word_embeddings=...)
    outer = {"model_type": "x", "tie_word_embeddings": True, "text_config": inner, "vision_config": {"hidden_size": 1}}
    model, warnings = read(outer)
    assert (model.hidden, model.tied_embeddings) == (2048, True)
    assert warnings == ["some/config.json: only the text model is read, vision_config is left out"]


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


# --- Refusals ------------------------------------------------------------------------------------------------------

UNKNOWN = {"model_type": "brandnew"}


@pytest.mark.parametrize(
    ("name", "changes", "named"),
    [
        ("llama-3.1-8b", {"hidden_size": ...}, "hidden_size (or n_embd, n_embed) is missing"),
        ("llama-3.1-8b", {"intermediate_size": None}, "intermediate_size (or n_inner, ffn_dim) is null"),
        ("llama-3.1-8b", {"vocab_size": ...}, "vocab_size"),
        ("llama-3.1-8b", {"hidden_size": 4100}, "head_dim is missing"),
        ("llama-3.1-8b", {"num_key_value_heads": 5}, "num_key_value_heads = 5"),
        ("llama-3.1-8b", {"num_key_value_heads": [8, 4]}, "num_key_value_heads is a list"),
        ("llama-3.1-8b", {"layer_types": ["full_attention", "sliding_attention"]}, "layer_types"),
        ("llama-3.1-8b", {"sliding_window": 4096}, "sliding_window = 4096"),
        ("llama-3.1-8b", {"n_embd": 4097}, "hidden_size and n_embd differ"),
        ("llama-3.1-8b", {"use_parallel_residual": True}, "use_parallel_residual"),
        ("llama-3.1-8b", {"is_encoder_decoder": True}, "is_encoder_decoder"),
        ("llama-3.1-8b", {"full_attention_interval": 4}, "full_attention_interval"),
        ("llama-3.1-8b", {"model_type": "gpt_neox"}, "use_parallel_residual is true by default"),
        ("llama-3.1-8b", {"model_type": "gemma2"}, "model_type gemma2"),
        ("llama-3.1-8b", {"model_type": "mistral", "num_key_value_heads": ...}, "num_key_value_heads is missing"),
        ("llama-3.1-8b", {"model_type": "qwen3"}, "head_dim is missing"),
        ("llama-3.1-8b", {"model_type": "granite", "tie_word_embeddings": ...}, "tie_word_embeddings is missing"),
        ("llama-3.1-8b", UNKNOWN | {"tie_word_embeddings": ...}, "tie_word_embeddings is missing"),
        ("llama-3.1-8b", UNKNOWN | {"num_key_value_heads": ...}, "num_key_value_heads is missing"),
        ("llama-3.1-8b", UNKNOWN | {"hidden_act": "relu2"}, "hidden_act"),
        ("llama-3.1-8b", UNKNOWN | {"num_experts": 8}, "num_experts can mean"),
        ("qwen2.5-0.5b", {"use_sliding_window": True, "sliding_window": 4096}, "sliding_window = 4096"),
        ("qwen3-30b-a3b", {"decoder_sparse_step": 2}, "decoder_sparse_step"),
        ("qwen3-30b-a3b", {"mlp_only_layers": [47]}, "mlp_only_layers"),
        ("qwen3-30b-a3b", {"mlp_only_layers": list(range(48))}, "dense layers leave none"),
        ("qwen3-30b-a3b", {"num_experts_per_tok": 129}, "129 experts per token"),
        ("qwen1.5-moe-a2.7b", {"shared_expert_intermediate_size": ...}, "shared_expert_intermediate_size is missing"),
        ("deepseek-v3", {"q_lora_rank": ...}, "q_lora_rank is missing"),
        ("deepseek-v3", {"first_k_dense_replace": ...}, "first_k_dense_replace is missing"),
        ("deepseek-v3", {"n_shared_experts": ...}, "n_shared_experts is missing"),
        ("deepseek-v3", {"moe_layer_freq": 2}, "moe_layer_freq"),
        ("deepseek-v3", {"attention_bias": True}, "attention_bias is true"),
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
    table = config("llama-3.1-8b", hidden_size=999_936, intermediate_size=999_999, num_hidden_layers=999_999)
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
