"""Pipelines: limits by head, published formulas, a simulated schedule, array equals scalars."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from clusterplan.formulas import pipeline

# Limits ---------------------------------------------------------------------------------------------------------------


def test_one_stage_has_no_bubble():
    assert pipeline.bubble_s(3.0, 3.0, 1.0, 1, 1) == 0


def test_one_stage_holds_one_micro_batch():
    assert pipeline.micro_batches_in_flight(0, 1, 1, 64) == 1


def test_no_stage_holds_more_than_there_are():
    assert pipeline.micro_batches_in_flight(0, 64, 1, 3) == 3
    assert pipeline.micro_batches_in_flight(0, 8, 4, 8) == 8


def test_messages_of_the_fill_are_sent_both_ways():
    assert_allclose(pipeline.bubble_s(4.0, 1.0, 0.25, 4, 1), 3 + 2 * 3 * 0.25)


# Narayanan et al., SC21, section 2.2.1: bubble over ideal time (p - 1) / m; 2.2.2: (p - 1) / (v m) interleaved
@pytest.mark.parametrize(("p", "m", "v"), [(4, 8, 1), (8, 64, 1), (8, 64, 4), (64, 512, 2)])
def test_bubble_fraction_of_equal_stages(p, m, v):
    bubble = pipeline.bubble_s(p * 0.3, 0.3, 0.0, p, v)
    assert_allclose(bubble / pipeline.steady_s(m, 0.3), (p - 1) / (v * m))


def one_f_one_b(times, batches):
    """Length of 1F1B by simulation, and the activations that each stage held; backward takes twice the forward."""
    p = len(times)
    orders = []
    for s in range(p):
        warm = min(p - s - 1, batches)
        order = [("f", i) for i in range(warm)]
        for i in range(batches - warm):
            order += [("f", warm + i), ("b", i)]
        orders.append(order + [("b", i) for i in range(batches - warm, batches)])
    end, free, at = {}, [0.0] * p, [0] * p
    while any(at[s] < len(orders[s]) for s in range(p)):
        for s in range(p):
            while at[s] < len(orders[s]):
                kind, i = orders[s][at[s]]
                before = ("f", i, s - 1) if kind == "f" else ("b", i, s + 1)
                if kind == "b" and s == p - 1:
                    before = ("f", i, s)
                if (kind == "b" or s > 0) and before not in end:
                    break
                start = max(free[s], end.get(before, 0.0))
                free[s] = end[kind, i, s] = start + times[s] * (1 if kind == "f" else 2) / 3
                at[s] += 1
    held = []
    for order in orders:
        level = np.cumsum([1 if kind == "f" else -1 for kind, _ in order])
        held.append(level.max())
    return max(free), held


@pytest.mark.parametrize(("p", "m"), [(2, 4), (4, 4), (4, 16), (8, 32)])
def test_equal_stages_as_simulated(p, m):
    length, held = one_f_one_b([0.3] * p, m)
    assert_allclose(pipeline.steady_s(m, 0.3) + pipeline.bubble_s(p * 0.3, 0.3, 0.0, p, 1), length)
    assert_array_equal(pipeline.micro_batches_in_flight(np.arange(p), p, 1, m), held)


@given(st.lists(st.floats(0.2, 1.0), min_size=1, max_size=6), st.integers(1, 24))
def test_slow_last_stage_as_simulated(times, m):
    """The stage with the output head is the usual slow one; 1F1B keeps it busy from its first micro-batch on."""
    times = [*times, 1.0]
    length, _ = one_f_one_b(times, m)
    ours = pipeline.steady_s(m, 1.0) + pipeline.bubble_s(sum(times), 1.0, 0.0, len(times), 1)
    assert_allclose(ours, length)


@given(st.lists(st.floats(0.2, 1.0), min_size=2, max_size=6), st.integers(1, 24))
def test_unequal_stages_within_one_fill_of_the_simulated(times, m):
    """A slow stage in front works on while the first micro-batch is behind it, and ours says that it waits."""
    length, _ = one_f_one_b(times, m)
    fill = pipeline.bubble_s(sum(times), max(times), 0.0, len(times), 1)
    ours = pipeline.steady_s(m, max(times)) + fill
    assert length <= ours * (1 + 1e-9)
    assert ours <= (length + fill) * (1 + 1e-9)


# Korthikanti et al., 2022, section 4.2.3: the first stage holds activations of L (1 + (p - 1) / (p v)) layers
@pytest.mark.parametrize(("p", "v"), [(8, 3), (35, 3), (16, 8), (4, 2)])
def test_first_stage_when_interleaved(p, v):
    layers = p * v * 2
    in_flight = pipeline.micro_batches_in_flight(0, p, v, 10 * p)
    assert_allclose(in_flight * layers / p, layers * (1 + (p - 1) / (p * v)))


def test_interleaving_holds_more_and_waits_less():
    stages = np.arange(8)
    plain = pipeline.micro_batches_in_flight(stages, 8, 1, 64)
    for v in (2, 4, 8):
        assert np.all(pipeline.micro_batches_in_flight(stages, 8, v, 64) > plain)
        assert pipeline.bubble_s(8.0, 1.0, 0.0, 8, v) < pipeline.bubble_s(8.0, 1.0, 0.0, 8, 1)


def test_later_stages_hold_less():
    for v in (1, 2, 3):
        assert np.all(np.diff(pipeline.micro_batches_in_flight(np.arange(16), 16, v, 64)) < 0)


def test_array_equals_scalars():
    p, v, m = np.array([1, 2, 8, 64]), np.array([1, 1, 4, 2]), np.array([4, 4, 16, 512])
    rows = list(zip(p, v, m, strict=True))
    assert_allclose(pipeline.steady_s(m, 0.2), [pipeline.steady_s(i, 0.2) for i in m])
    assert_allclose(
        pipeline.bubble_s(p * 0.2, 0.2, 0.01, p, v), [pipeline.bubble_s(a * 0.2, 0.2, 0.01, a, b) for a, b, _ in rows]
    )
    assert_allclose(
        pipeline.micro_batches_in_flight(p - 1, p, v, m),
        [pipeline.micro_batches_in_flight(a - 1, a, b, c) for a, b, c in rows],
    )


# P. Qi et al., "Zero Bubble Pipeline Parallelism," 2023: ZB-2p leaves hardly a bubble and holds twice the activations.
def test_zero_bubble_schedules_trade_memory_for_the_fill():
    fills = [pipeline.bubble_s(8.0, 1.0, 0.0, 8, 1, share) for share in pipeline.FILL_BY_SCHEDULE]
    none, plain, interleaved, once, twice, v_shaped, both_ways = fills
    assert none == 0
    assert plain == interleaved == 7
    assert twice == v_shaped < 0.15 * plain < once == both_ways < 0.5 * plain
    tables = (pipeline.HELD_BY_SCHEDULE, pipeline.LEVEL_BY_SCHEDULE, pipeline.MORE_BY_SCHEDULE)
    first, last = (
        [float(pipeline.micro_batches_in_flight(s, 8, 1, 64, *of)) for of in zip(*tables, strict=True)] for s in (0, 7)
    )
    assert first == [8, 8, 8, 8, 16, 8, 9]
    assert last == [1, 1, 1, 1, 2, 8, 9]
