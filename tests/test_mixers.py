"""Mixers by head: widths of products, parameters, work, and what a cut leaves of them."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from clusterplan.mixers import mixer
from clusterplan.operators import Core, Product, Scan, Shape, Software, Vector, device_share
from clusterplan.workload import Attention, Layer, LinearAttention, StateSpace
from examples import TINY, cuts

PLAIN = Attention(heads=8, kv_heads=2, head_dim=128)
MAMBA = StateSpace(inner=2048, state=16, conv=4, dt_rank=64)
MAMBA2 = StateSpace(inner=2048, state=128, conv=4, heads=32, groups=8)
DELTA = LinearAttention(rule="gated_delta", key_heads=16, value_heads=32, key_dim=128, value_dim=64, conv=4)
LIGHTNING = LinearAttention(rule="lightning", key_heads=8, value_heads=8, key_dim=128, value_dim=128)
LAYERS = {
    "plain": Layer(attention=PLAIN),
    "window": Layer(attention=replace(PLAIN, window=512)),
    "gated": Layer(attention=replace(PLAIN, output_gate=True, sinks=True, qkv_bias=True)),
    "factorised": Layer(attention=replace(PLAIN, q_lora_rank=256)),
    "norms": Layer(attention=replace(PLAIN, qk_norm=True, qk_norm_weights="heads")),
    "shared": Layer(attention=replace(PLAIN, shared_kv=True)),
    "mamba": Layer(state_space=MAMBA),
    "mamba2": Layer(state_space=MAMBA2),
    "delta": Layer(linear_attention=DELTA),
    "lightning": Layer(linear_attention=LIGHTNING),
}


def mixed(layer, some=None, seq_len=2048):
    some = some or cuts()
    operators = mixer(TINY, layer, device_share(some, seq_len, Software(sequence_parallel=True)), seq_len)
    return Shape(operators=tuple(operators), input_bytes=np.zeros(some.size))


def products(layer):
    return {p.name: (p.n[0], p.k[0]) for p in mixed(layer).products}


def parameters(layer):
    return mixed(layer).weight_elements("dense")[0]


def test_gate_widens_the_queries():
    assert products(LAYERS["plain"])["query-key-value"] == (8 * 128 + 2 * 2 * 128, 1024)
    assert products(LAYERS["gated"])["query-key-value"] == (2 * 8 * 128 + 2 * 2 * 128, 1024)
    biases, sinks = 2 * 8 * 128 + 2 * 2 * 128, 8
    assert parameters(LAYERS["gated"]) == parameters(LAYERS["plain"]) + 8 * 128 * 1024 + biases + sinks


def test_queries_through_a_rank():
    found = products(LAYERS["factorised"])
    assert found == {
        "query down": (256, 1024),
        "query up": (1024, 256),
        "key-value": (512, 1024),
        "attention output": (1024, 1024),
    }
    assert parameters(LAYERS["factorised"]) == sum(n * k for n, k in found.values()) + 256


@pytest.mark.parametrize(("weights", "count"), [("head", 2 * 128), ("heads", (8 + 2) * 128), ("none", 0)])
def test_norms_of_queries_and_keys(weights, count):
    normed = Layer(attention=replace(PLAIN, qk_norm=True, qk_norm_weights=weights))
    assert parameters(normed) - parameters(LAYERS["plain"]) == count
    (norm,) = (v for v in mixed(normed).vectors if v.name == "query-key norm")
    assert norm.saved_bytes == 2 * 2048 * (8 + 2) * 128


def test_shared_keys_are_not_projected_but_seen():
    shared = mixed(LAYERS["shared"])
    assert products(LAYERS["shared"])["query-key-value"] == (8 * 128, 1024)
    assert_array_equal(shared.attention_flop, mixed(LAYERS["plain"]).attention_flop)


@pytest.mark.parametrize(("rotary", "width"), [(None, 128), (32, 32), (0, 0)])
def test_what_turns_with_its_position(rotary, width):
    turned = mixed(Layer(attention=replace(PLAIN, rotary_dim=rotary)))
    (vector,) = (v for v in turned.vectors if v.name == "rotary positions")
    assert vector.forward_bytes == 2 * 2 * 2048 * (8 + 2) * width


def test_window_bounds_the_work():
    full, window = mixed(LAYERS["plain"]), mixed(LAYERS["window"])
    assert_allclose(full.attention_flop, 4 * 8 * 128 * 2048 * 1024)
    assert_allclose(window.attention_flop, 4 * 8 * 128 * 2048 * (512 - 512**2 / 4096))
    assert_allclose(window.full_attention_flop, 4 * 8 * 128 * 2048 * 512)
    assert_array_equal(full.matrix_flop, window.matrix_flop)


def test_indexer_sees_all_keys_and_attention_a_few():
    picked = replace(PLAIN, window=512, index_heads=4, index_dim=64)
    layer = mixed(Layer(attention=picked))
    index = 2 * 4 * 64 * 2048 * 1024
    assert_allclose(layer.attention_flop, mixed(LAYERS["window"]).attention_flop + index)
    assert parameters(Layer(attention=picked)) - parameters(LAYERS["window"]) == 1024 * (4 * 64 + 64 + 4) + 2 * 64


# A. Gu, T. Dao, "Mamba," 2023: projections of 2 E D^2 and E D^2 dominate, with convolution, maps and states besides
def test_mamba():
    found = products(LAYERS["mamba"])
    assert found == {
        "state-space input": (4096, 1024),
        "step widths and maps": (64 + 2 * 16, 2048),
        "step widths": (2048, 64),
        "state-space output": (1024, 2048),
    }
    others = 2048 * 5 + 2048 + 2048 * 16 + 2048  # convolution with bias, bias of step widths, decays, skip
    assert parameters(LAYERS["mamba"]) == sum(n * k for n, k in found.values()) + others
    assert_allclose(mixed(LAYERS["mamba"]).attention_flop, 2048 * (2 * 4 * 2048 + 7 * 2048 * 16))
    normed = Layer(state_space=replace(MAMBA, inner_norms=True))
    assert parameters(normed) - parameters(LAYERS["mamba"]) == 64 + 16 + 16


def test_mamba_2():
    maps = 2 * 8 * 128
    assert products(LAYERS["mamba2"]) == {
        "state-space input": (2 * 2048 + maps + 32, 1024),
        "state-space output": (1024, 2048),
    }
    others = (2048 + maps) * 5 + 3 * 32 + 2048
    assert parameters(LAYERS["mamba2"]) == 1024 * (3 * 2048 + maps + 32) + others
    biased = Layer(state_space=replace(MAMBA2, bias=True, conv_bias=False))
    assert parameters(biased) - parameters(LAYERS["mamba2"]) == 2 * 2048 + maps + 32 + 1024 - (2048 + maps)


# Megatron-LM, num_floating_point_operations: 2 (h (2 qk + 2 v + 2 n) + conv (2 qk + v) + 4 n d^2 + h v) for a token
def test_gated_delta_rule():
    qk, v = 16 * 128, 32 * 64
    layer = mixed(LAYERS["delta"])
    expected = 2 * (1024 * (2 * qk + 2 * v + 2 * 32) + 4 * (2 * qk + v) + 4 * 32 * 128 * 64 + 1024 * v)
    assert_allclose((layer.matrix_flop + layer.attention_flop) / 2048, expected)
    assert parameters(LAYERS["delta"]) == 1024 * (2 * qk + 3 * v + 2 * 32) + 4 * (2 * qk + v) + 2 * 32 + 64


def test_lightning_attention():
    layer = mixed(LAYERS["lightning"])
    assert parameters(LAYERS["lightning"]) == 5 * 1024 * 1024 + 1024
    assert_allclose(layer.attention_flop, 5 * 2048 * 8 * 128 * 128)


def test_fixed_states_work_in_proportion_to_the_tokens():
    for name in ("mamba", "mamba2", "delta", "lightning"):
        short, long = mixed(LAYERS[name], seq_len=2048), mixed(LAYERS[name], seq_len=8192)
        assert_allclose(long.attention_flop, 4 * short.attention_flop)
        assert_array_equal(long.attention_flop, long.full_attention_flop)
    assert_allclose(mixed(LAYERS["plain"], seq_len=8192).attention_flop, 16 * mixed(LAYERS["plain"]).attention_flop)


@pytest.mark.parametrize("name", LAYERS)
def test_ranks_do_the_whole_work_together(name):
    tp, cp = np.array([1, 2, 4, 1]), np.array([1, 1, 1, 8])
    for operator in mixed(LAYERS[name], cuts(tp=tp, cp=cp)).operators:
        if isinstance(operator, Product | Core | Scan):
            together = operator.flop * tp * cp
            if operator.name not in ("query-key-value", "key-value"):  # two key-value heads do not divide by four
                assert_allclose(together, together[0], err_msg=operator.name)
        if isinstance(operator, Vector | Scan | Core):
            assert np.all(np.diff(operator.saved_bytes[:3]) <= 0)


@pytest.mark.parametrize("name", ["mamba", "mamba2", "delta", "lightning"])
def test_ranks_hold_the_whole_part_together(name):
    held = mixed(LAYERS[name], cuts(tp=[1, 8]))
    for operator in held.operators:
        if isinstance(operator, Product | Scan):
            whole, share = operator.weight_elements
            assert_allclose(share * 8, whole, err_msg=operator.name)


@pytest.mark.parametrize("name", LAYERS)
def test_array_equals_scalars(name):
    some = cuts(tp=[1, 2, 8], cp=[1, 2, 1], micro_batch=[1, 2, 4])
    together = mixed(LAYERS[name], some)
    for row in range(3):
        alone = mixed(LAYERS[name], some.take(np.array([row])))
        assert_allclose(alone.matrix_flop, together.matrix_flop[row])
        assert_allclose(alone.attention_flop, together.attention_flop[row])
        assert_allclose(alone.weight_elements("dense"), together.weight_elements("dense")[row])


def test_no_mixer_no_operators():
    assert mixed(Layer(ffn=4096)).operators == ()


def test_states_are_kept_once_in_a_chunk():
    (state,) = (scan for scan in mixed(LAYERS["mamba"]).scans if scan.name == "state")
    assert_allclose(state.saved_bytes, 4 * (2048 / 256) * 2048 * 16)
