"""Axes of the search: only legal rows, none that matter left out."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from clusterplan import layout, space
from clusterplan.layout import BATCH_TOLERANCE, RECOMPUTE, SCHEDULES, broken_cut_rules, broken_layout_rules
from clusterplan.space import Fixed
from examples import TINY, TINY_MOE, limits, machine, model, question

ALL = ("none", "1f1b", "interleaved")
FREE = Fixed()


@pytest.mark.parametrize("system", ["dgx-h100", "gb200-nvl72", "tpu-v5p-pod", "atlas-800t-a2"])
@pytest.mark.parametrize("name", ["llama-3.1-405b", "deepseek-v3", "qwen3-235b-a22b"])
def test_cuts_are_legal_and_differ(system, name):
    ask = question(model(name), machine(system), seq_len=8192, batch=1024)
    some = space.all_cuts(ask, FREE)
    assert some.size > 20
    assert not np.any(list(broken_cut_rules(some, limits(ask)).values()))
    rows = np.stack([some.tp, some.cp, some.ep, some.etp, some.micro_batch, some.recompute])
    assert len(np.unique(rows, axis=1).T) == some.size
    domain = ask.domain_devices
    for size in (some.tp, some.ep):
        assert np.all((domain % size == 0) | (size % domain == 0))
    assert np.all(ask.job.seq_len // some.cp >= space.FEWEST_TOKENS)
    assert set(some.recompute) == {RECOMPUTE.index(mode) for mode in ask.machine.stack.recompute}


def test_experts_are_cut_like_attention_or_not_at_all():
    some = space.all_cuts(question(TINY_MOE, machine()), FREE)
    assert np.all((some.etp == 1) | (some.etp == some.tp))
    assert np.any(some.etp > 1)
    assert np.all(space.all_cuts(question(TINY, machine()), FREE).etp == 1)


def test_fixed_axes():
    ask = question(TINY_MOE, machine())
    some = space.all_cuts(ask, Fixed(tp=4, cp=2, ep=8, etp=1, micro_batch=3, recompute="full"))
    assert (some.size, some.tp[0], some.cp[0], some.ep[0], some.micro_batch[0], some.recompute[0]) == (
        1,
        4,
        2,
        8,
        3,
        RECOMPUTE.index("full"),
    )
    assert space.all_cuts(ask, Fixed(tp=3)).size == 0  # 8 heads
    assert space.pipelines(ask, Fixed(pp=4, vpp=2), schedules=ALL) == [(4, 2)]
    assert space.pipelines(ask, Fixed(pp=1, vpp=2), schedules=ALL) == []


# Pipelines ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layers", [8, 61, 96, 105, 126])
@pytest.mark.parametrize("uneven", [True, False])
def test_pipelines_are_legal_and_reach_every_size_of_stage(layers, uneven):
    ask = question(replace(TINY, layers=layers), machine(changes=[("stack", {"uneven_pipeline": uneven})]))
    pairs = space.pipelines(ask, FREE, schedules=ALL)
    assert len(set(pairs)) == len(pairs)
    assert (1, 1) in pairs
    for pp, vpp in pairs:
        assert pp <= ask.machine.stack.max_pp
        assert vpp == 1 or pp > 1
        assert pp == 1 or pp * vpp <= layers + 2
        assert uneven or layers % (pp * vpp) == 0
    if uneven:
        largest = {-(-layers // pp) for pp, vpp in pairs if vpp == 1}
        reachable = {-(-layers // pp) for pp in range(1, min(layers, ask.machine.stack.max_pp) + 1)}
        assert largest >= reachable


def test_published_pipelines_are_among_them():
    """Llama 3: 126 layers on 16 stages; MT-NLG: 105 on 35; GPT-3: 96 on 8 stages of 3 chunks; DeepSeek-V3: 61 on 16."""
    for layers, pair in [(126, (16, 1)), (105, (35, 1)), (105, (35, 3)), (96, (8, 3)), (61, (16, 1)), (126, (9, 7))]:
        ask = question(replace(TINY, layers=layers), machine())
        assert pair in space.pipelines(ask, FREE, schedules=ALL)


def test_schedules_limit_pipelines():
    ask = question(TINY, machine())
    assert space.pipelines(ask, FREE, schedules=("none",)) == [(1, 1)]
    assert all(vpp == 1 for _, vpp in space.pipelines(ask, FREE, schedules=("none", "1f1b")))


# Sizes ----------------------------------------------------------------------------------------------------------------


@given(st.integers(1, 5000), st.integers(1, 20000))
def test_ladder_of_replicas(lowest, highest):
    counts = space.replica_counts(lowest, highest)
    if highest < lowest + space.EVERY_SIZE:
        assert_array_equal(counts, np.arange(lowest, highest + 1))
        return
    assert counts[0] == lowest
    assert counts[-1] == highest
    assert np.all(np.diff(counts) > 0)
    # small ones are all there, and no gap is wider than the ratio, but for rounding to whole numbers
    assert_array_equal(counts[counts <= space.EVERY_SIZE], np.arange(lowest, space.EVERY_SIZE + 1))
    assert np.all(counts[1:] <= np.maximum(counts[:-1] * space.SIZE_RATIO + 1, counts[:-1] + 1))


@given(st.integers(1, 3000), st.integers(1, 64), st.sampled_from([1, 2, 4]), st.sampled_from([1, 3, 8]))
def test_nearest_batch(target, dp, micro_batch, group):
    ask = question(TINY, machine(), batch=target)
    (batch,) = space.nearest_batch(ask, *(np.array([x]) for x in (dp, micro_batch, group)))
    unit = dp * micro_batch * group
    assert batch % unit == 0
    assert batch >= unit
    assert abs(batch - target) <= max(unit / 2, unit - target)


def test_batch_within_its_tolerance_is_found():
    ask = question(TINY, machine(), batch=1000)
    dp = np.arange(1, 1100)
    one = np.ones_like(dp)
    batch = space.nearest_batch(ask, dp, one, one)
    possible = np.array([any(abs(k * d - 1000) <= BATCH_TOLERANCE * 1000 for k in range(1, 1051)) for d in dp])
    assert_array_equal(np.abs(batch - 1000) <= BATCH_TOLERANCE * 1000, possible)


@given(st.integers(0, 5000))
def test_divisors_are_all_that_divide(number):
    assert space.divisors(number) == [d for d in range(1, number + 1) if number % d == 0]


def test_divisors_of_a_large_batch_take_no_time():
    assert len(space.divisors(10**12)) == 169


def test_purchase_units():
    rack = machine("gb200-nvl72")
    used = np.array([1, 64, 65, 72, 73, 128, 512])
    whole, part = question(TINY, rack), question(TINY, rack, domain=64)
    assert_array_equal(space.bought_devices(whole, used, 1), 72 * np.array([1, 1, 1, 1, 2, 2, 8]))
    assert_array_equal(space.bought_devices(part, used, 1), 72 * np.array([1, 1, 2, 2, 2, 2, 8]))
    assert_array_equal(space.bought_devices(part, used, 145), 72 * np.array([3, 3, 3, 3, 3, 3, 8]))
    # the purchase unit of a torus is a part of the domain
    cube = question(TINY, machine("tpu-v5p-pod"))
    assert_array_equal(space.bought_devices(cube, np.array([1, 64, 65]), 1), [64, 64, 128])


def test_expanded_layouts_are_legal():
    ask = question(TINY_MOE, machine(), batch=64)
    some = space.all_cuts(ask, FREE)
    pairs = space.pipelines(ask, FREE, schedules=ALL)
    rng = np.random.default_rng(5)
    cut = rng.integers(0, some.size, 2000)
    pp, vpp = np.array(pairs)[rng.integers(0, len(pairs), 2000)].T
    rows = space.expand(
        ask,
        some,
        cut,
        pp,
        vpp,
        rng.integers(1, 17, 2000),
        np.ones(2000, int),
        np.zeros(2000, int),
        np.full(2000, layout.USUAL),
        np.zeros(2000, int),
        np.zeros(2000, int),
        fewest=1,
    )
    broken = broken_layout_rules(rows, some, limits(ask))
    # what depends on numbers of replicas may fail and is counted; what the axes decide may not
    assert {name for name, mask in broken.items() if mask.any()} <= {
        "batch near its target",
        "dp × cp × tp divides by ep × etp",
    }
    assert set(rows.schedule[pp == 1]) == {SCHEDULES.index("none")}
    assert set(rows.schedule[vpp > 1]) == {SCHEDULES.index("interleaved")}


def test_shardings():
    ask = question(TINY, machine())  # megatron: none and zero1, zero1 by default
    assert space.shardings(ask, FREE, ()) == [1]
    assert space.shardings(ask, FREE, ("none",)) == [0, 1]
    assert space.shardings(ask, Fixed(sharding="none"), ()) == [0]
