"""Candidates: bounds that are bounds, screening that drops no winner, nothing that depends on batches of work."""

from dataclasses import asdict, replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal, assert_equal

from clusterplan import scan, search, space, step
from clusterplan.layout import SHARDING, broken_layout_rules, used_devices
from clusterplan.plan import amount
from clusterplan.scan import Fastest, Tally
from examples import TINY, TINY_MOE, asked, bench, crowded, limits, machine

OBJECTIVES = ("wall", "cost", "energy", "carbon", "water", "devices")
SMALL = [
    pytest.param({"of": TINY}, id="dense"),
    pytest.param({"of": TINY_MOE, "allow": ("none",)}, id="experts"),
    pytest.param({"of": TINY, "hardware": "gb200-nvl72", "devices": (8, 144)}, id="rack"),
    pytest.param({"of": TINY, "hardware": "tpu-v5p-pod", "devices": (8, 128)}, id="torus"),
    pytest.param({"of": TINY, "hardware": "mi300x-platform", "devices": (16, 16)}, id="two nodes"),
    pytest.param({"of": TINY, "batch_fixed": False, "global_batch": 100}, id="batch near a target"),
    pytest.param({"of": TINY, "global_batch": 63, "stack": "fsdp2-torchtitan"}, id="odd batch"),
]


# Sizes ----------------------------------------------------------------------------------------------------------------


def test_range_of_replicas():
    looked = bench(asked(devices=(64, 256), global_batch=1024, batch_fixed=False))
    least, most = scan.replica_range(looked, looked.pairs)
    used = looked.pairs.devices * looked.pairs.stride
    assert np.all(used * most <= 256)
    assert np.all((used * least >= 51) | (least == 1))
    samples = scan.samples(looked, looked.pairs)
    assert np.all(most * samples <= 1.05 * 1024)


def test_replicas_that_the_user_sets():
    looked = bench(asked(of=TINY_MOE, dp=4))
    least, most = scan.replica_range(looked, looked.pairs)
    counts, rows = scan.ladder(looked, looked.pairs, least, most)
    assert_array_equal(counts * looked.pairs.stride[rows], 4)
    assert len(rows) < len(looked.pairs.cut)  # 8 experts over 8 devices need dp x cp x tp = 8


def test_fixed_batch_is_made_by_all_its_divisors():
    looked = bench(asked(devices=(8, 512), global_batch=192))
    least, most = scan.replica_range(looked, looked.pairs)
    counts, rows = scan.ladder(looked, looked.pairs, least, most)
    samples = scan.samples(looked, looked.pairs)
    assert np.all(192 % (counts * samples[rows]) == 0)
    for row in range(0, len(samples), 37):
        whole = 192 / samples[row]
        expected = [d for d in range(least[row], most[row] + 1) if whole % d == 0]
        assert_array_equal(counts[rows == row], expected)


def test_a_given_number_of_devices_is_a_cluster_with_idle_ones():
    looked = bench(asked(devices=(64, 64)))
    rows = looked.expand(
        np.zeros(2, int),
        np.zeros(2, int),
        np.array([52, 64]),
        np.ones(2, int),
        np.zeros(2, int),
        np.full(2, -1),
        *np.zeros((2, 2), int),
    )
    assert_array_equal(rows.bought_devices, 64)


@pytest.mark.parametrize(("devices", "fewest"), [(8, 6), (16, 8), (24, 16), (64, 51), (16384, 13107)])
def test_small_clusters_may_keep_a_node_in_reserve(devices, fewest):
    assert bench(asked(devices=(devices, devices))).fewest_used == fewest


# Bounds ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", [*SMALL, pytest.param({"stack": "two", "allow": ("fsdp",)}, id="two shardings")])
def test_no_layout_of_a_pair_needs_less_than_its_bound(given):
    if given.get("stack") == "two":
        resolved = asked(of=TINY_MOE, hardware="dgx-h100", allow=("fsdp",), devices=(8, 16), global_batch=8)
        both = machine(changes=[("stack", {"sharding": ("zero1", "fsdp")})])
        resolved = replace(resolved, hardware=(both,))
    else:
        resolved = asked(**given)
    looked = bench(resolved)
    least, most = scan.replica_range(looked, looked.pairs)
    rows = np.flatnonzero(most >= least)
    pairs = looked.pairs.take(rows)
    stages = looked.stages(pairs.cut, pairs.pipe)
    bound = scan.least_bytes(looked, pairs, stages, most[rows])
    rng = np.random.default_rng(7)
    for _ in range(8):
        dp = rng.integers(least[rows], most[rows] + 1) * pairs.stride
        for sharding in looked.shardings:
            layouts = looked.expand(
                pairs.cut, pairs.pipe, dp, np.full(len(rows), sharding), 0 * dp, 0 * dp - 1, 0 * dp, 0 * dp
            )
            peak = scan.peak_bytes(looked, layouts, stages)
            assert np.all(bound <= peak * (1 + 1e-12))


@pytest.mark.parametrize("given", SMALL)
def test_what_is_screened_by_speed_is_slower_than_the_bound_says(given):
    looked = bench(asked(**given))
    pairs = looked.pairs.take(np.arange(0, len(looked.pairs.cut), 3))
    stages = looked.stages(pairs.cut, pairs.pipe)
    none = 0 * pairs.cut
    layouts = looked.expand(
        pairs.cut, pairs.pipe, 3 * pairs.stride, none + looked.shardings[0], none, none - 1, none, none
    )
    result = step.evaluate(looked.question, looked.cuts, looked.table, layouts, stages)
    assert np.all(step.least_s(looked.cuts, layouts, stages) <= result.time.total_s)


@pytest.mark.parametrize("given", SMALL)
def test_runs_of_parts_are_those_of_the_whole(given):
    looked = bench(asked(**given))
    found = scan.look(looked, Tally())
    again = scan.evaluated(found.bench, found.candidates, Tally())
    assert_array_equal(found.value, again.value)
    assert_equal(asdict(found.outcome), asdict(again.outcome))


# Nothing is lost ------------------------------------------------------------------------------------------------------


def without_screening(looked):
    """All layouts that are legal and fit, whatever their speed, with their whole runs."""
    kept = []
    fastest = Fastest.on(looked)
    fastest.keeps = lambda layouts, _: np.ones(layouts.size, dtype=bool)
    pairs = looked.pairs
    most = scan.replica_range(looked, pairs)[1]
    stages = looked.stages(pairs.cut, pairs.pipe)
    counts = [np.arange(1, max(m, 0) + 1) for m in most]
    pair = np.repeat(np.arange(len(most)), [len(c) for c in counts])
    dp = np.concatenate(counts) * pairs.stride[pair]
    for sharding in looked.shardings:
        layouts = looked.expand(
            pairs.cut[pair], pairs.pipe[pair], dp, np.full(len(pair), sharding), 0 * dp, 0 * dp - 1, 0 * dp, 0 * dp
        )
        kept.append(scan.timed(looked, layouts, stages.at(pair), fastest, Tally()))
    return scan.evaluated(looked, scan.Candidates.joined(kept), Tally())


@pytest.mark.parametrize("given", SMALL)
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_screening_never_drops_the_winner(given, objective):
    resolved = asked(**given)
    for looked in search.benches(resolved, 0, objective):
        found, whole = scan.look(looked, Tally()), without_screening(looked)
        assert whole.feasible.any()
        best = whole.value[whole.feasible].min()
        assert_allclose(found.value[found.feasible].min(), best, rtol=1e-12)
        assert_allclose(amount(objective, found.outcome), found.value)


@pytest.mark.parametrize("gigabytes", [3, 6, 12])
def test_little_memory(gigabytes):
    looked = bench(crowded(asked(of=TINY_MOE, allow=("none",)), gigabytes), "wall")
    tally = Tally()
    found, whole = scan.look(looked, tally), without_screening(looked)
    assert tally.rejected["memory"] > 0
    assert found.feasible.any() == whole.feasible.any()
    if whole.feasible.any():
        assert np.all(found.candidates.peak_bytes <= looked.allowed_bytes)
        assert_allclose(found.value[found.feasible].min(), whole.value[whole.feasible].min(), rtol=1e-12)
    else:
        assert tally.least_bytes > looked.allowed_bytes


@pytest.mark.parametrize("objective", ["wall", "energy"])
@pytest.mark.parametrize(("pairs", "layouts"), [(1, 1), (7, 64), (64, 100), (10**6, 10**6)])
def test_batches_of_work_do_not_matter(monkeypatch, objective, pairs, layouts):
    resolved = asked(of=TINY_MOE, devices=(8, 16), recompute="none", cp=1)
    expected = scan.look(bench(resolved, objective), Tally())
    monkeypatch.setattr(scan, "PAIRS_AT_ONCE", pairs)
    monkeypatch.setattr(scan, "LAYOUTS_AT_ONCE", layouts)
    tally = Tally()
    found = scan.look(bench(resolved, objective), tally)
    best, again = (f.value[f.feasible].min() for f in (expected, found))
    assert_allclose(again, best, rtol=1e-12)
    assert tally.considered > 100
    ties = [int(np.sum(f.feasible & (f.value <= 1.02 * best))) for f in (expected, found)]
    assert ties[0] == ties[1]


# Legal and counted ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", SMALL)
def test_candidates_are_legal_and_within_the_network(given):
    resolved = asked(**given)
    looked = bench(resolved)
    tally = Tally()
    found = scan.look(looked, tally)
    layouts, some = found.candidates.layouts, found.bench.cuts
    assert not np.any(list(broken_layout_rules(layouts, some, limits(looked.question)).values()))
    assert np.all(used_devices(layouts, some) <= looked.question.machine.largest_cluster)
    assert np.all(found.candidates.peak_bytes <= looked.allowed_bytes)
    assert set(layouts.sharding) <= set(looked.shardings)
    assert 0 < tally.evaluated <= tally.considered
    broken = {name: int(np.sum(mask)) for name, mask in found.broken.items()}
    assert all(tally.rejected[name] >= count for name, count in broken.items())


def test_fleet_adds_up_and_a_rack_may_work_with_64_of_72():
    resolved = asked(hardware="gb200-nvl72", devices=(72, 144))
    whole, part = search.benches(resolved, 0, "wall")
    assert (whole.question.domain_devices, part.question.domain_devices) == (72, 64)
    for looked in (whole, part):
        fleet = scan.look(looked, Tally()).outcome.fleet
        assert_array_equal(fleet.used_devices + fleet.spare_devices + fleet.idle_devices, fleet.devices)
        assert np.all(fleet.devices % 72 == 0)
        assert np.all(fleet.idle_devices >= 0)
    found = scan.look(part, Tally())
    assert np.all(found.outcome.fleet.used_devices <= 64 * (found.candidates.layouts.bought_devices // 72))


def test_units_of_equal_clusters():
    """Devices that are bought and not at work are spares first, so that a full node needs one more."""
    looked = bench(asked(hardware="tpu-v5p-pod", devices=(8, 256)))
    fastest = Fastest.on(looked)
    cut = int(np.flatnonzero((looked.cuts.tp == 1) & (looked.cuts.cp == 1) & (looked.cuts.ep == 1))[0])
    rows = looked.expand(
        np.full(3, cut),
        np.zeros(3, int),
        np.array([32, 64, 128]),
        np.ones(3, int),
        np.zeros(3, int),
        np.full(3, -1),
        *np.zeros((2, 3), int),
    )
    assert_array_equal(fastest.units(rows), [1, 2, 3])
    fastest.see(rows.take(np.array([1])), np.array([100.0]))
    assert_array_equal(fastest.keeps(rows, np.array([1.0, 99.0 / 1.3, 1.0])), [True, False, True])


def test_pipe_of():
    looked = bench(asked())
    ones = np.ones(len(looked.pairs.cut), int)
    layouts = looked.expand(
        looked.pairs.cut, looked.pairs.pipe, looked.pairs.stride, ones, 0 * ones, -ones, 0 * ones, 0 * ones
    )
    assert_array_equal(scan.pipe_of(looked, layouts), looked.pairs.pipe)
    assert SHARDING[looked.shardings[0]] == "zero1"


def test_sizes_between_the_rungs_are_tried_around_the_best():
    resolved = asked(devices=(256, 1024), global_batch=4096, batch_fixed=False)
    found = scan.look(bench(resolved, "cost"), Tally())
    rungs = space.replica_counts(256, 1024)
    assert len(np.setdiff1d(found.candidates.layouts.dp, rungs)) > 0
