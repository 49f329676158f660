"""Operators of a layer: parameters and work of public models, cuts that lose nothing, activations as published."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from clusterplan import shapes
from clusterplan.layout import RECOMPUTE
from clusterplan.operators import Core, Message, Product, Software, Vector
from clusterplan.workload import Attention, Experts, Layer, Model
from examples import CATALOG, TINY, TINY_HYBRID, TINY_MOE, cuts, limits, machine, model, question

SHARED = Software(sequence_parallel=True, vocab_multiple=128, logit_traffic_bytes=17)
REPEATED = replace(SHARED, sequence_parallel=False)
PAPER = machine("dgx-a100", stack="megatron-lm-2022").stack  # what Korthikanti et al. run


def transformer(layers, hidden, heads, ffn, vocab, *, kv=None, head=None, gated=True, tied=False, **rest):
    attention = {name: rest.pop(name) for name in ("qkv_bias", "output_bias", "qk_norm") if name in rest}
    return Model(
        name="public",
        source="",
        layers=layers,
        hidden=hidden,
        vocab=vocab,
        ffn=ffn,
        gated_mlp=gated,
        tied_embeddings=tied,
        attention=Attention(heads=heads, kv_heads=kv or heads, head_dim=head or hidden // heads, **attention),
        **rest,
    )


BIASED = {"qkv_bias": True, "output_bias": True, "mlp_bias": True, "norm_bias": True}
GPT = {"gated": False, "tied": True, **BIASED}

# Parameters ----------------------------------------------------------------------------------------------------------

# Counts of the safetensors index on the Hugging Face hub ("total_parameters" or bytes over two), shapes of config.json.
# Tied heads count once; DeepSeek's and Kimi's counts have one balancing bias for each expert besides, subtracted here.
PUBLISHED = {
    "openai-community/gpt2-xl": (transformer(48, 1600, 25, 6400, 50257, learned_positions=1024, **GPT), 1557611200),
    "facebook/opt-6.7b": (transformer(32, 4096, 32, 16384, 50272, learned_positions=2050, **GPT), 6658473984),
    "EleutherAI/pythia-12b": (transformer(36, 5120, 40, 20480, 50688, gated=False, **BIASED), 11846072320),
    "meta-llama/Llama-2-70b": (transformer(80, 8192, 64, 28672, 32000, kv=8), 68976648192),
    "meta-llama/Meta-Llama-3-8B": (transformer(32, 4096, 32, 14336, 128256, kv=8), 8030261248),
    "meta-llama/Meta-Llama-3-70B": (transformer(80, 8192, 64, 28672, 128256, kv=8), 70553706496),
    "meta-llama/Llama-3.1-405B": (transformer(126, 16384, 128, 53248, 128256, kv=8), 405853388800),
    "meta-llama/Llama-3.2-1B": (transformer(16, 2048, 32, 8192, 128256, kv=8, tied=True), 1235814400),
    "mistralai/Mistral-7B-v0.1": (transformer(32, 4096, 32, 14336, 32000, kv=8), 7241732096),
    "mistralai/Mistral-Nemo-Base-2407": (transformer(40, 5120, 32, 14336, 131072, kv=8, head=128), 12247782400),
    "01-ai/Yi-34B": (transformer(60, 7168, 56, 20480, 64000, kv=8), 34388917248),
    "Qwen/Qwen2.5-0.5B": (transformer(24, 896, 14, 4864, 151936, kv=2, tied=True, qkv_bias=True), 494032768),
    "Qwen/Qwen2.5-72B": (transformer(80, 8192, 64, 29568, 152064, kv=8, qkv_bias=True), 72706203648),
    "Qwen/Qwen3-8B": (transformer(36, 4096, 32, 12288, 151936, kv=8, head=128, qk_norm=True), 8190735360),
    "Qwen/Qwen3-14B": (transformer(40, 5120, 40, 17408, 151936, kv=8, head=128, qk_norm=True), 14768307200),
    "Qwen/Qwen1.5-MoE-A2.7B": (
        transformer(
            24,
            2048,
            16,
            5632,
            151936,
            qkv_bias=True,
            moe=Experts(experts=60, top_k=4, ffn=1408, shared_ffn=5632, shared_gate=True),
        ),
        14315784192,
    ),
    "Qwen/Qwen3-30B-A3B": (
        transformer(
            48, 2048, 32, 6144, 151936, kv=4, head=128, qk_norm=True, moe=Experts(experts=128, top_k=8, ffn=768)
        ),
        30532122624,
    ),
    "Qwen/Qwen3-235B-A22B": ("qwen3-235b-a22b", 235093634560),
    "deepseek-ai/DeepSeek-V3": ("deepseek-v3", 671026419200 - 58 * 256),
    "moonshotai/Kimi-K2-Instruct": ("kimi-k2", 1026408232448 - 60 * 384),
    "meta-llama/Llama-3.1-8B": ("llama-3.1-8b", 8030261248),
    "meta-llama/Llama-3.1-70B": ("llama-3.1-70b", 70553706496),
    "meta-llama/Llama-3.1-405B, shipped": ("llama-3.1-405b", 405853388800),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters_are_exact(name):
    shape, count = PUBLISHED[name]
    assert shapes.parameters(model(shape) if isinstance(shape, str) else shape).total == count


# Papers round: GPT-3 Table 2.1; MT-NLG, arXiv:2201.11990; Mixtral 8x22B announcement, 140.6e9 in the model card
@pytest.mark.parametrize(
    ("name", "count", "tolerance"),
    [("gpt3-175b", 175.0e9, 3e-3), ("mt-nlg-530b", 530e9, 2e-3), ("mixtral-8x22b", 140.6e9, 5e-4)],
)
def test_rounded_parameters(name, count, tolerance):
    assert_allclose(shapes.parameters(model(name)).total, count, rtol=tolerance)


# Narayanan et al., SC21, Table 1, without biases and norms in the formula: 12 l h^2 (1 + 13 / 12 h + (V + s) / 12 l h)
@pytest.mark.parametrize(
    ("layers", "hidden", "heads", "billions"),
    [
        (24, 2304, 24, 1.7),
        (36, 4096, 32, 7.5),
        (40, 6144, 48, 18.4),
        (48, 8192, 64, 39.1),
        (60, 10240, 80, 76.1),
        (80, 12288, 96, 145.6),
        (96, 16384, 128, 310.1),
        (105, 20480, 128, 529.6),
        (128, 25600, 160, 1008.0),
    ],
)
def test_megatron_table(layers, hidden, heads, billions):
    shape = transformer(layers, hidden, heads, 4 * hidden, 51200, learned_positions=2048, **GPT)
    assert abs(shapes.parameters(shape).total / 1e9 - billions) <= 0.051
    if billions == 1008.0:
        assert shapes.parameters(model("gpt-1t")) == shapes.parameters(shape)


# Papers: DeepSeek-V3 37B, Kimi K2 32B (Table 2: 32.6), Qwen3 22B, Mixtral 39B active
@pytest.mark.parametrize(
    ("name", "active", "tolerance"),
    [
        ("deepseek-v3", 37e9, 0.02),
        ("kimi-k2", 32.6e9, 0.01),
        ("qwen3-235b-a22b", 22e9, 0.01),
        ("mixtral-8x22b", 39e9, 0.01),
    ],
)
def test_active_parameters(name, active, tolerance):
    assert_allclose(shapes.parameters(model(name)).active, active, rtol=tolerance)


def test_dense_models_use_all():
    counted = shapes.parameters(model("llama-3.1-405b"))
    assert counted.active == counted.total
    assert counted.mtp == 0
    assert counted.embedding == 128256 * 16384


# DeepSeek-V3, README_WEIGHTS: 11.5e9 parameters of the prediction module without the embedding and head that it shares
def test_multi_token_prediction():
    assert_allclose(shapes.parameters(model("deepseek-v3")).mtp, 11.5e9, rtol=0.01)


# Work -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["llama-3.1-8b", "llama-3.1-405b"])
def test_work_of_dense_models_by_head(name):
    """Six for each parameter but embedding and norms, and 12 L h s over the whole square of attention."""
    shape = model(name)
    counted = shapes.parameters(shape)
    multiplied = counted.total - counted.embedding - (2 * shape.layers + 1) * shape.hidden
    flop = shapes.flop_per_token(shape, 8192)
    assert_allclose(flop.matrix, 6 * multiplied, rtol=1e-12)
    assert_allclose(flop.attention, 12 * shape.layers * shape.hidden * 8192, rtol=1e-12)
    assert_allclose(flop.attention_causal, flop.attention / 2)
    assert_allclose(flop.head, 6 * shape.vocab * shape.hidden)
    assert flop.model == flop.matrix + flop.attention


# MLPerf Training, reference of llama31_405b: 21,508 model TFLOP for a sample of 8,192 tokens, attention in full; of
# llama31_8b: 421.6, the causal half.
def test_mlperf():
    flop = shapes.flop_per_token(model("llama-3.1-405b"), 8192)
    assert_allclose(8192 * flop.model, 21508e12, rtol=2e-3)
    flop = shapes.flop_per_token(model("llama-3.1-8b"), 8192)
    assert_allclose(8192 * flop.model_causal, 421.6e12, rtol=5e-3)


# Korthikanti et al., 2022, appendix A: 72 B L s h^2 (1 + s / 6 h + V / 12 h L)
@pytest.mark.parametrize(("layers", "hidden", "heads"), [(48, 6144, 64), (96, 12288, 96), (128, 25600, 160)])
def test_megatron_work(layers, hidden, heads):
    shape = transformer(layers, hidden, heads, 4 * hidden, 51200, learned_positions=2048, **GPT)
    expected = 72 * layers * hidden**2 * (1 + 2048 / (6 * hidden) + 51200 / (12 * hidden * layers))
    assert_allclose(shapes.flop_per_token(shape, 2048).model, expected, rtol=1e-12)


def test_work_of_experts_by_head():
    """Of the routed experts only those visited count, at any number of them."""
    shape = model("mixtral-8x22b")
    counted = shapes.parameters(shape)
    multiplied = counted.active - counted.embedding - (2 * shape.layers + 1) * shape.hidden
    assert_allclose(shapes.flop_per_token(shape, 4096).matrix, 6 * multiplied, rtol=1e-12)


# DeepSeek-V3, arXiv:2412.19437, section 4.2: 37e9 active, of which 0.9e9 embedding (README_WEIGHTS) is not multiplied;
# 192 wide queries and keys, 128 wide values, each of 128 heads, 61 layers, three times, half the square.
def test_work_of_latent_attention():
    flop = shapes.flop_per_token(model("deepseek-v3"), 4096)
    assert_allclose(flop.attention_causal, 3 * 61 * 128 * (128 + 64 + 128) * 4096, rtol=1e-12)
    assert_allclose(flop.matrix, 6 * (37e9 - 0.9e9), rtol=0.02)


# Cuts lose nothing ----------------------------------------------------------------------------------------------------

WHOLE = ["llama-3.1-8b", "gpt3-175b", "deepseek-v3", "qwen3-235b-a22b", "kimi-k2"]
REPLICATED = {"router", "query down", "key-value down", "shared expert gate"}
"""Products whose weight every tensor-parallel rank holds."""


def operators(shape, kind):
    return {o.name: o for o in shape.operators if isinstance(o, kind)}


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize("kind", shapes.KINDS)
def test_ranks_do_the_whole_work_together(name, kind):
    shape = model(name)
    if (kind == "mtp" and not shape.mtp_layers) or (kind == "moe" and not shape.is_moe):
        return
    tp, cp = np.array([1, 2, 4, 4, 1]), np.array([1, 1, 1, 2, 8])
    ep, etp = np.array([1, 8, 8, 2, 8]), np.array([1, 1, 4, 4, 1])
    some = cuts(tp=tp, cp=cp, ep=ep if shape.is_moe else 1, etp=etp if shape.is_moe else 1)
    layer = shapes.layer_shape(shape, kind, some, 8192, replace(SHARED, vocab_multiple=1))
    for operator in (*layer.products, *layer.cores):
        together = operator.flop * tp * cp
        if operator.name != "output head":  # it is padded
            assert_allclose(together, together[0], rtol=1e-12, err_msg=operator.name)


@pytest.mark.parametrize("name", WHOLE)
def test_ranks_hold_the_whole_model_together(name):
    shape = model(name)
    tp = np.array([1, 2, 4])
    some = cuts(tp=tp, ep=[1, 4, 8] if shape.is_moe else 1, etp=[1, 1, 4] if shape.is_moe else 1)
    kind = "moe" if shape.is_moe else "dense"
    layer = shapes.layer_shape(shape, kind, some, 8192, SHARED)
    for product in layer.products:
        held = product.weight_elements
        row_bias = shape.hidden if product.name in ("attention output", "feed-forward down") and shape.mlp_bias else 0
        if product.pool == "expert":
            assert_allclose(held * some.ep * some.etp, held[0])
        elif product.name in REPLICATED:
            assert_array_equal(held, held[0])
        else:
            assert_allclose((held - row_bias) * tp, held[0] - row_bias)
    for vector in layer.vectors:
        assert_array_equal(vector.weight_elements, vector.weight_elements[0])


def test_key_value_heads_are_repeated_beyond_their_number():
    shape = model("qwen3-235b-a22b")  # 4 key-value heads of 128, 64 query heads
    layer = shapes.layer_shape(shape, "moe", cuts(tp=[2, 4, 8]), 4096, SHARED)
    assert_array_equal(operators(layer, Product)["query-key-value"].n, [(32 + 4) * 128, (16 + 2) * 128, (8 + 2) * 128])


def test_products_of_a_llama_layer_by_head():
    layer = shapes.layer_shape(model("llama-3.1-405b"), "dense", cuts(tp=8, micro_batch=2), 8192, SHARED)
    found = {p.name: (p.m[0], p.n[0], p.k[0], p.count[0]) for p in layer.products}
    assert found == {
        "query-key-value": (16384, (16 + 2) * 128, 16384, 1),
        "attention output": (16384, 16384, 2048, 1),
        "feed-forward up": (16384, 2 * 6656, 16384, 1),
        "feed-forward down": (16384, 16384, 6656, 1),
    }


def test_products_of_experts_by_head():
    """8 of 256 experts on 32 devices: 8 local ones, each with 4096 x 8 / 8 tokens, if tokens spread evenly."""
    layer = shapes.layer_shape(model("deepseek-v3"), "moe", cuts(ep=32), 4096, SHARED)
    found = operators(layer, Product)
    up, down = found["expert up"], found["expert down"]
    assert (up.m[0], up.n[0], up.k[0], up.count[0]) == (4096, 4096, 7168, 8)
    assert (down.m[0], down.n[0], down.k[0], down.count[0]) == (4096, 7168, 2048, 8)
    assert found["shared expert up"].n[0] == 4096
    assert (found["query up"].n[0], found["query up"].k[0]) == (128 * 192, 1536)
    assert found["key-value down"].n[0] == 512 + 64
    assert (found["key-value up"].n[0], found["key-value up"].k[0]) == (128 * 256, 512)
    assert found["attention output"].k[0] == 128 * 128
    (core,) = layer.cores
    assert (core.qk_dim, core.value_dim, core.heads[0], core.keys[0]) == (192, 128, 128, 4096)


def test_context_parallel_ranks_share_queries_not_keys():
    layer = shapes.layer_shape(model("llama-3.1-8b"), "dense", cuts(cp=[1, 4], micro_batch=2), 8192, SHARED)
    (core,) = layer.cores
    assert_array_equal(core.queries, [8192, 2048])
    assert_array_equal(core.keys, 8192)
    assert_array_equal(core.heads, 64)


def test_experts_may_be_cut_by_less_than_attention():
    """With etp = 1 a rank sends its own part of the tokens; with etp = tp it works on those of the whole group."""
    some = cuts(tp=4, ep=8, etp=[1, 4])
    layer = shapes.layer_shape(model("mixtral-8x22b"), "moe", some, 4096, SHARED)
    up = operators(layer, Product)["expert up"]
    assert_array_equal(up.m * up.count, [1024 * 2, 4096 * 2])
    assert_array_equal(up.n, [2 * 16384, 2 * 4096])
    sent = operators(layer, Message)
    assert_array_equal(sent["expert dispatch"].bytes, 2 * 1024 * 2 * 6144)
    assert_array_equal(sent["expert gather"].bytes, 2 * np.array([1024, 4096]) * 2 * 6144)


# Messages -------------------------------------------------------------------------------------------------------------


# Korthikanti et al., 2022, section 4.2.2: an all-gather and a reduce-scatter move as much as the all-reduce that they
# replace; the input gathered once more in the backward pass is the price.
def test_tensor_parallel_messages():
    shared = shapes.layer_shape(model("gpt3-175b"), "dense", cuts(tp=8), 2048, SHARED)
    sent = [m for m in shared.messages if m.group == "tp"]
    assert all(m.bytes[0] == 2 * 2048 * 12288 for m in sent)
    counts = {
        c: sum(m.forward + m.backward for m in sent if m.collective == c) for c in ("all_gather", "reduce_scatter")
    }
    assert counts == {"all_gather": 2 * 3, "reduce_scatter": 2 * 2}
    # Shoeybi et al., 2019, section 3: four all-reduces in a layer, two forward and two backward
    repeated = shapes.layer_shape(model("gpt3-175b"), "dense", cuts(tp=8), 2048, REPEATED)
    sent = [m for m in repeated.messages if m.group == "tp"]
    assert {m.collective for m in sent} == {"all_reduce"}
    assert sum(m.forward for m in sent) == sum(m.backward for m in sent) == 2


# Megatron-LM, multi_latent_attention.py: down projections are repeated on each rank's own tokens, and what they make is
# gathered for the up projections
def test_latent_attention_gathers_what_is_compressed():
    layer = shapes.layer_shape(model("deepseek-v3"), "moe", cuts(tp=8), 4096, SHARED)
    sent = operators(layer, Message)
    assert sent["attention gather"].bytes[0] == 2 * 4096 * (1536 + 512 + 64)
    assert sent["attention scatter"].bytes[0] == 2 * 4096 * 7168


def test_keys_and_values_travel_whole():
    layer = shapes.layer_shape(model("llama-3.1-405b"), "dense", cuts(tp=8, cp=16), 131072, SHARED)
    (exchange,) = (m for m in layer.messages if m.group == "cp")
    assert exchange.bytes[0] == 2 * 131072 * 1 * (128 + 128)  # one key-value head on each rank


def test_stages_send_their_share():
    shape = model("gpt3-175b")
    some = cuts(tp=[1, 8, 8], cp=[1, 1, 2])
    assert_array_equal(shapes.boundary_bytes(shape, some, 2048, SHARED), 2 * 2048 * 12288 / np.array([1, 8, 16]))


# Activations ----------------------------------------------------------------------------------------------------------


def kept(shape, kind, some, seq_len, software, *, eager=True, stack=PAPER):
    layer = shapes.layer_shape(shape, kind, some, seq_len, software)
    return shapes.saved_bytes(layer, some, stack, eager)


# Korthikanti et al., 2022, table 2. Our models have no dropout, whose two masks are 2 of the 34 and 10 s b h bytes.
@pytest.mark.parametrize(("hidden", "heads", "tp", "batch"), [(6144, 64, 8, 4), (12288, 96, 8, 1), (25600, 160, 4, 2)])
def test_activations_of_the_paper(hidden, heads, tp, batch):
    shape = transformer(4, hidden, heads, 4 * hidden, 51200, learned_positions=2048, **GPT)
    some = cuts(tp=tp, micro_batch=batch, recompute=list(RECOMPUTE))
    sbh, scores = 2048 * batch * hidden, 5 * heads * 2048 / hidden
    shared = sbh * np.array([(32 + scores) / tp, 32 / tp, (34 + scores) / tp / 2, 2 / tp])
    assert_allclose(kept(shape, "dense", some, 2048, SHARED), shared)
    repeated = sbh * np.array([8 + (24 + scores) / tp, 8 + 24 / tp, 5 + (24 + scores) / tp / 2, 2])
    assert_allclose(kept(shape, "dense", some, 2048, REPEATED), repeated)


def test_activations_of_a_gated_layer_by_head():
    """Fused attention: no scores but 4 bytes a row. Both halves of a gated product are kept, and their product."""
    h, ffn = 4096, 14336
    elements = 4 * h + (h + 2 * 1024) + h + 3 * ffn  # norms and residuals, q k v, attended, up and activation
    expected = 2 * 8192 * elements + 4 * 8192 * 32
    shape = model("llama-3.1-8b")
    assert_allclose(kept(shape, "dense", cuts(tp=[1, 8]), 8192, SHARED, eager=False), expected / np.array([1, 8]))


def test_activations_do_not_depend_on_replicas_but_on_context():
    shape = model("llama-3.1-405b")
    one, eight = kept(shape, "dense", cuts(tp=8, cp=[1, 8]), 8192, SHARED, eager=False)
    assert_allclose(one, 8 * eight)


def test_working_set_returns_what_recompute_dropped():
    some = cuts(tp=8, recompute=list(RECOMPUTE))
    layer = shapes.layer_shape(model("gpt3-175b"), "dense", some, 2048, SHARED)
    held = shapes.working_bytes(layer, PAPER, True)
    saved = shapes.saved_bytes(layer, some, PAPER, True)
    assert_array_equal(held, held[0])
    assert held[0] == saved[0] > saved[1] > saved[3]
    assert_allclose(saved[2], (saved[0] + saved[3]) / 2)


@pytest.mark.parametrize("stack", CATALOG.names("stacks"))
def test_selective_modules_name_operators(stack):
    record = machine(stack=stack).stack
    names = set()
    for shape, kind in [(model("deepseek-v3"), "moe"), (model("llama-3.1-8b"), "dense")]:
        layer = shapes.layer_shape(shape, kind, cuts(), 1024, SHARED)
        names |= {o.module for o in layer.operators if isinstance(o, Product | Core | Vector)}
    assert set(record.selective_modules) <= names


# Parts of a layer -------------------------------------------------------------------------------------------------


def norms(layer):
    return [v.name for v in layer.vectors if v.module == "layernorm"]


def one_layer(shape, kind="dense", some=None):
    return shapes.layer_shape(shape, kind, some or cuts(), 2048, SHARED)


@pytest.mark.parametrize(
    ("changes", "names", "sums", "messages"),
    [
        ({}, ["attention norm", "feed-forward norm"], 2, 4),
        ({"norm_place": "after"}, ["attention norm", "feed-forward norm"], 2, 4),
        (
            {"norm_place": "around"},
            ["attention norm", "attention result norm", "feed-forward norm", "feed-forward result norm"],
            2,
            4,
        ),
        ({"is_parallel": True}, ["attention norm", "feed-forward norm"], 1, 2),
        ({"is_parallel": True, "shared_norm": True}, ["attention norm"], 1, 2),
    ],
)
def test_norms_sums_and_messages(changes, names, sums, messages):
    layer = one_layer(replace(TINY, **changes))
    assert norms(layer) == names
    assert layer.weight_elements("dense") == 1024 * len(names) + 4 * 1024 * 1024 + 2 * 1024 * 4096
    assert sum(v.saved_bytes[0] > 0 for v in layer.vectors if v.name.endswith("residual")) == sums
    assert len([m for m in layer.messages if m.group == "tp"]) == messages


@pytest.mark.parametrize(("weight", "bias", "sets"), [(True, False, 1), (True, True, 2), (False, False, 0)])
def test_weights_of_norms(weight, bias, sets):
    layer = one_layer(replace(TINY, norm_weight=weight, norm_bias=bias))
    assert sum(v.weight_elements[0] for v in layer.vectors) == sets * 2 * 1024


def test_experts_beside_a_dense_part():
    moe = Experts(experts=8, top_k=2, ffn=512)
    both = Layer(attention=TINY.attention, ffn=4096, moe=moe)
    shape = replace(TINY, layers=1, ffn=0, attention=None, pattern="both", kinds={"both": both})
    normed = replace(shape, kinds={"both": replace(both, moe_norm=True)})
    twice = replace(shape, kinds={"both": replace(both, repeats=2)})
    plain, experts = one_layer(TINY), 8 * (2 * 1024 * 512 + 1024)
    count = {
        name: shapes.parameters(one).total - shapes.parameters(replace(TINY, layers=1)).total
        for name, one in {"beside": shape, "normed": normed, "twice": twice}.items()
    }
    assert count == {
        "beside": experts,
        "normed": experts + 1024,
        "twice": experts + plain.weight_elements("dense")[0],
    }
    assert norms(one_layer(normed, "both")) == ["attention norm", "feed-forward norm", "expert norm"]


def test_experts_without_weights_take_no_work():
    zero = replace(TINY_MOE, moe=replace(TINY_MOE.moe, top_k=3, zero_experts=4))
    same = replace(TINY_MOE, moe=replace(TINY_MOE.moe, top_k=2))
    ours, theirs = one_layer(zero, "moe"), one_layer(same, "moe")
    router = 2 * 2048 * 1024 * 4
    assert_allclose(ours.matrix_flop - theirs.matrix_flop, router)
    assert_allclose(ours.weight_elements("dense") - theirs.weight_elements("dense"), 1024 * 4)
    assert shapes.parameters(zero).active - shapes.parameters(same).active == 7 * 1024 * 4
    assert_array_equal(
        *(next(m.bytes for m in layer.messages if m.name == "expert dispatch") for layer in (ours, theirs))
    )


def test_biases_of_experts():
    biased = one_layer(replace(TINY_MOE, moe=replace(TINY_MOE.moe, expert_bias=True, router_bias=True)), "moe")
    plain = one_layer(TINY_MOE, "moe")
    assert biased.weight_elements("expert") - plain.weight_elements("expert") == 8 * (2 * 1024 + 1024)
    assert biased.weight_elements("dense") - plain.weight_elements("dense") == 8
    some = cuts(ep=8)
    assert one_layer(biased_model(), "moe", some).weight_elements("expert") * 8 == biased.weight_elements("expert")


def biased_model():
    return replace(TINY_MOE, moe=replace(TINY_MOE.moe, expert_bias=True))


def test_kinds_of_layers():
    assert shapes.kinds(TINY_HYBRID) == ("mamba", "local", "linear", "mtp")
    assert shapes.kinds(TINY) == shapes.KINDS
    assert_array_equal(shapes.kind_counts(TINY_HYBRID), [2, 4, 1, 1])
    assert_array_equal(shapes.layer_kinds(TINY_HYBRID).sum(axis=0), [2, 4, 1, 0])
    assert_array_equal(shapes.layer_kinds(TINY_HYBRID)[:, 1], [0, 1, 1, 0, 1, 1, 0])
    assert norms(one_layer(TINY_HYBRID, "mamba")) == ["mixer norm", "feed-forward norm"]


def test_parameters_and_work_add_up_over_kinds():
    parts = {kind: one_layer(TINY_HYBRID, kind) for kind in TINY_HYBRID.kinds}
    held = {kind: part.weight_elements("dense")[0] + part.weight_elements("expert")[0] for kind, part in parts.items()}
    counted = shapes.parameters(TINY_HYBRID)
    assert counted.total == 2 * held["mamba"] + 4 * held["local"] + held["linear"] + 2 * 32000 * 1024 + 1024
    assert counted.total - counted.active == 6 / 8 * parts["linear"].weight_elements("expert")[0]
    flop = shapes.flop_per_token(TINY_HYBRID, 2048)
    window = 4 * 3 * 4 * 8 * 128 * np.array([256, 256 - 256**2 / 4096])
    fixed = 3 * (2 * (2 * 4 * 2048 + 7 * 2048 * 16) + 5 * 4 * 128 * 128)
    assert_allclose([flop.attention, flop.attention_causal], window + fixed)


@pytest.mark.parametrize("name", ["deepseek-v3", "llama-3.1-8b"])
def test_one_layer_of_each_kind_adds_up(name):
    shape = model(name)
    whole, flop = shapes.parameters(shape), shapes.flop_per_token(shape, 4096)
    layers = {kind: shapes.one_layer(shape, kind, 4096) for kind in shape.layer_counts}
    ends = (1 if shape.tied_embeddings else 2) * shape.vocab * shape.hidden + shape.hidden

    def summed(field):
        return sum(count * getattr(layers[kind], field) for kind, count in shape.layer_counts.items())

    assert summed("parameters") + ends == whole.total
    assert summed("active") + ends == whole.active
    assert_allclose(summed("matrix") + flop.head, flop.matrix)
    assert_allclose([summed("attention"), summed("attention_causal")], [flop.attention, flop.attention_causal])


def test_prediction_module_works_as_a_layer_a_projection_and_the_head():
    shape = model("deepseek-v3")
    module, layer = (shapes.one_layer(shape, kind, 4096) for kind in ("mtp", "moe"))
    assert_allclose(module.matrix - layer.matrix, 6 * (2 * 7168**2 + 129280 * 7168))
    assert module.attention == layer.attention


def test_limits_are_what_all_layers_have_in_common():
    found = limits(question(TINY_HYBRID, machine()))
    assert (found.heads, found.kv_heads, found.experts, found.layers) == (4, 4, 8, 7)


# Ends -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("vocab", "multiple", "tp", "padded"),
    [(50257, 128, 8, 51200), (50257, 128, 1, 50304), (128256, 128, 8, 129024), (51200, 128, 8, 51200), (7, 1, 1, 7)],
)
def test_vocabulary_is_padded(vocab, multiple, tp, padded):
    assert shapes.padded_vocab(vocab, multiple, np.array([tp])) == padded


def test_tied_head_multiplies_but_holds_nothing():
    tied, untied = (
        shapes.head_shape(replace(TINY, tied_embeddings=flag), cuts(tp=2), 2048, SHARED) for flag in (True, False)
    )
    assert_array_equal(tied.matrix_flop, untied.matrix_flop)
    assert tied.weight_elements("dense")[0] == 1024
    assert untied.weight_elements("dense")[0] == 1024 + 16000 * 1024  # 32,000 is a multiple of 256


def test_norm_after_the_embedding_and_bias_of_the_head():
    plain, more = TINY, replace(TINY, embedding_norm=True, head_bias=True, final_norm=False)
    embeddings = [shapes.embedding_shape(m, cuts(tp=2), 2048, SHARED).weight_elements("dense") for m in (plain, more)]
    heads = [shapes.head_shape(m, cuts(tp=2), 2048, SHARED).weight_elements("dense") for m in (plain, more)]
    assert embeddings[1] - embeddings[0] == 1024
    assert heads[1] - heads[0] == 16000 - 1024


def test_embedding_is_looked_up():
    embedding = shapes.embedding_shape(model("gpt3-175b"), cuts(tp=8), 2048, SHARED)
    assert embedding.matrix_flop == 0
    assert embedding.weight_elements("dense")[0] == (51200 / 8 + 2048) * 12288


def test_logits():
    assert shapes.logits(TINY, cuts(tp=2, cp=2, micro_batch=2), 2048, SHARED) == 2048 * 16000


def test_prediction_module_has_its_own_head_product():
    layer = shapes.layer_shape(TINY_MOE, "mtp", cuts(), 2048, SHARED)
    plain = shapes.layer_shape(TINY_MOE, "moe", cuts(), 2048, SHARED)
    more = layer.matrix_flop - plain.matrix_flop
    assert_allclose(more, 2 * 2048 * (2 * 1024 * 1024 + 32000 * 1024))
    assert layer.weight_elements("dense") - plain.weight_elements("dense") == 2 * 1024 * 1024 + 3 * 1024


def test_array_equals_scalars():
    modes = ["none", "block", "full"]
    some = cuts(tp=[1, 2, 8], cp=[1, 2, 1], ep=[1, 2, 8], etp=[1, 2, 1], micro_batch=[1, 2, 4], recompute=modes)
    for kind in shapes.KINDS:
        together = shapes.layer_shape(TINY_MOE, kind, some, 2048, SHARED)
        saved = shapes.saved_bytes(together, some, PAPER, True)
        for row in range(3):
            one = some.take(np.array([row]))
            alone = shapes.layer_shape(TINY_MOE, kind, one, 2048, SHARED)
            assert_allclose(alone.matrix_flop, together.matrix_flop[row])
            assert_allclose(alone.attention_flop, together.attention_flop[row])
            assert_allclose(shapes.saved_bytes(alone, one, PAPER, True), saved[row])
            for a, b in zip(alone.messages, together.messages, strict=True):
                assert_allclose(a.bytes, b.bytes[row])
