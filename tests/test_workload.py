"""Patterns of layers, and what a model says about its layers."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterplan.workload import Attention, Experts, Layer, StateSpace, compress, expand
from examples import TINY, TINY_MOE

ATTENTION = Attention(heads=8, kv_heads=8, head_dim=128)
HYBRID = replace(
    TINY,
    name="hybrid",
    layers=5,
    ffn=0,
    attention=None,
    kinds={
        "mamba": Layer(state_space=StateSpace(inner=2048, state=16, conv=4, dt_rank=64), ffn=4096),
        "full": Layer(attention=ATTENTION, moe=Experts(experts=8, top_k=2, ffn=1024)),
    },
    pattern="2 (mamba, full), mamba",
)


@given(st.lists(st.sampled_from(["a", "b", "long-name_2"]), min_size=1, max_size=40).map(tuple))
def test_compressed_names_expand_to_themselves(names):
    assert expand(compress(names)) == names


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("3 a", "aaa"),
        ("a", "a"),
        ("2(a,b)", "abab"),
        (" 2 ( 2 (a, b), c ), a ", "ababcababca"),
        ("(a, b)", "ab"),
    ],
)
def test_patterns(pattern, names):
    assert expand(pattern) == tuple(names)


@pytest.mark.parametrize(
    "pattern",
    ["", " ", "3", "(a", "a)", "a,,b", "3 4 a", "a b", "0 a", "A", ",a", "a,", "()", "99999 a", "9 (9 (9 (9 (9 a))))"],
)
def test_what_is_no_pattern_is_empty(pattern):
    assert expand(pattern) == ()


def test_shortest_pattern():
    assert compress(("local",) * 5) == "5 local"
    assert compress((*("local",) * 5, "global") * 10 + ("local", "local")) == "10 (5 local, global), 2 local"
    assert compress(("dense",) * 3 + ("moe",) * 58) == "3 dense, 58 moe"


def test_layers_that_are_described_once():
    assert TINY.layer_names == ("dense",) * 8
    assert TINY_MOE.layer_counts == {"dense": 1, "moe": 7}
    assert TINY_MOE.layer("dense") == Layer(attention=TINY.attention, ffn=4096)
    assert TINY_MOE.layer("mtp") == TINY_MOE.layer("moe") == Layer(attention=TINY.attention, moe=TINY_MOE.moe)
    assert (TINY_MOE.dense_layers, TINY_MOE.moe_layers, TINY_MOE.is_moe) == (1, 7, True)
    assert (TINY.dense_layers, TINY.moe_layers, TINY.is_moe, TINY.has_fixed_state) == (8, 0, False, False)


def test_layers_by_kind():
    assert HYBRID.layer_names == ("mamba", "full", "mamba", "full", "mamba")
    assert HYBRID.layer_counts == {"mamba": 3, "full": 2}
    assert (HYBRID.dense_layers, HYBRID.moe_layers, HYBRID.is_moe, HYBRID.has_fixed_state) == (3, 2, True, True)
    assert HYBRID.layer("mtp") == HYBRID.kinds["mamba"]


def test_experts_without_weights_are_visited_in_proportion():
    assert Experts(experts=512, top_k=12, ffn=2048, zero_experts=256).visited == 8
    assert Experts(experts=8, top_k=2, ffn=1024).visited == 2
