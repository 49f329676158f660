"""Choosing: ties and what settles them, the knee, alternatives."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from clusterplan import choose, search
from clusterplan.scan import Tally, look
from clusterplan.workload import Model
from examples import CATALOG, TINY_MOE, asked, bench


@pytest.fixture(scope="module")
def found():
    return look(bench(asked(of=TINY_MOE, devices=(8, 64)), "cost"), Tally())


def with_values(found, values, feasible):
    """The same candidates with other values, and one constraint."""
    broken = {"budget": ~np.asarray(feasible)}
    return replace(found, value=np.asarray(values, dtype=float), broken=broken)


# Ties -----------------------------------------------------------------------------------------------------------------


def test_ties_lie_within_the_error_and_are_feasible(found):
    size = len(found.value)
    values = 100 + np.arange(size)
    feasible = np.arange(size) % 2 == 1
    error = found.bench.question.machine.stack.ranking_error_fraction
    choice, ties = choose.best_choice([with_values(found, values, feasible)])
    limit = 101 * (1 + error) / (1 - error)
    expected = np.flatnonzero(feasible & (values <= limit))
    assert ties == len(expected)
    assert choice.row in expected


def test_no_feasible_row_is_no_choice(found):
    nothing = with_values(found, found.value, np.zeros(len(found.value), bool))
    assert choose.best_choice([nothing]) == (None, 0)
    assert choose.best_choice([]) == (None, 0)


def test_an_infeasible_bargain_is_not_chosen(found):
    feasible = np.ones(len(found.value), bool)
    feasible[np.argmin(found.value)] = False
    choice, _ = choose.best_choice([with_values(found, found.value, feasible)])
    assert feasible[choice.row]


def test_what_settles_ties(found):
    rows = np.arange(len(found.value))
    ordered = choose.preferred(found, rows)
    assert_array_equal(np.sort(ordered), rows)
    layouts, cuts = found.candidates.layouts, found.bench.cuts
    device = found.bench.question.machine.accelerator
    free = 1 - found.candidates.peak_bytes[ordered] / device.memory_bytes
    margin = np.floor(np.minimum(free, choose.USEFUL_MARGIN) / choose.MARGIN_STEP)
    assert np.all(np.diff(margin) <= 0)
    same = np.diff(margin) == 0
    recompute = cuts.recompute[layouts.cut[ordered]]
    assert np.all(np.diff(recompute)[same] >= 0)
    same &= np.diff(recompute) == 0
    again = cuts.recomputed[layouts.cut[ordered]]
    assert np.all(np.diff(again)[same] >= 0)
    same &= np.diff(again) == 0
    cut = layouts.cut[ordered]
    groups = cuts.tp[cut] * cuts.cp[cut] * cuts.ep[cut] * layouts.pp[ordered]
    assert np.all(np.diff(groups)[same] >= 0)


def test_value_comes_last_but_it_comes(found):
    """Of rows that differ in nothing but their value the best one is taken."""
    row = np.full(3, 0)
    copies = replace(
        found, candidates=found.candidates.take(row), value=np.array([3.0, 1.0, 2.0]), broken={"x": row > 0}
    )
    assert_array_equal(choose.preferred(copies, np.arange(3)), [1, 2, 0])


def test_hardware_is_not_changed_by_a_tie():
    """Ties are settled on the leading machine: what differs between machines is for the reader to weigh."""
    one = look(bench(asked(), "cost"), Tally())
    rest = (np.ones(len(one.value), bool),)
    cheap = with_values(one, np.full(len(one.value), 100.0), *rest)
    dear = with_values(one, np.full(len(one.value), 101.0), *rest)
    choice, ties = choose.best_choice([dear, cheap])
    assert choice.found is cheap
    assert ties == 2 * len(one.value)


# Knee -----------------------------------------------------------------------------------------------------------------


DAY = 86_400.0


def knee_of(days, cost, devices=None):
    """Row of the knee of runs of so many days, on clusters that grow as they get shorter."""
    wall = np.array(days) * DAY
    return choose.knee(wall, np.array(cost), np.round(8e8 / wall) if devices is None else np.array(devices))


def test_knee_by_head():
    # halving the time costs 10 %, then 4 times as much
    assert knee_of([8, 4, 2], [1.0, 1.1, 4.4]) == 1
    # beyond 10 % over the least cost it is not taken, however short the run, and dear ends of the front change nothing
    assert knee_of([8, 4, 2, 1], [1.0, 1.02, 1.12, 9.0]) == 1
    assert knee_of([900, 8, 4, 2], [50.0, 1.0, 1.02, 1.12]) == 2
    assert knee_of([5], [3.0]) == 0
    assert knee_of([5, 4], [3.0, 3.0]) == 1  # faster at the same price


def test_knee_is_no_run_of_hours():
    """However cheap it is: what the cheapest is compared with leaves such runs out too."""
    assert knee_of([8, 2, 1.5, 0.5], [9.0, 5.0, 4.9, 1.0]) == 2
    # unless the smallest cluster is done sooner
    assert knee_of([0.5, 0.25], [1.0, 0.5]) == 0
    assert knee_of([0.6, 0.5, 0.25], [1.0, 0.9, 0.5], devices=[8, 8, 16]) == 1


@given(st.lists(st.tuples(st.floats(1, 1e6), st.floats(1, 1e6)), min_size=1, max_size=30))
def test_knee_is_on_the_front(points):
    """Of the runs that are long enough."""
    days, cost = np.array(points).T
    row = knee_of(days, cost)
    dominated = (days <= days[row]) & (cost <= cost[row]) & ((days < days[row]) | (cost < cost[row]))
    assert not dominated.any()


def test_nothing_asked_gives_a_plan_at_the_knee():
    answer = search.size(asked(devices=None))
    assert answer.objective == "knee"
    assert answer.plan is not None
    looked = look(bench(asked(devices=None), "cost"), Tally())
    wall, cost, devices = (
        values[looked.feasible]
        for values in (
            looked.outcome.progress.wall_s, looked.outcome.cost.total_usd, looked.outcome.fleet.devices,
        )
    )  # fmt: skip
    row = choose.knee(wall, cost, devices)
    assert answer.plan.run.progress.wall_s[0] <= wall[row] * (1 + 1e-6)
    assert answer.plan.run.progress.wall_s[0] >= min(DAY, wall[devices == devices.min()].min()) * (1 - 1e-6)


def test_nothing_asked_of_a_small_model_is_no_cluster_of_thousands_for_hours():
    """The cheapest plan is, and stands beside the chosen one."""
    of = CATALOG.load(Model, "llama-3.1-8b")
    question = asked(of=of, tokens=160 * 10**9, devices=None, seq_len=8192, global_batch=2048)
    answer = search.size(question)
    assert answer.plan is not None
    assert answer.plan.run.fleet.devices[0] < 512
    assert answer.plan.run.progress.wall_s[0] >= DAY * (1 - 1e-6)
    why, cheapest = answer.alternatives[0]
    assert why == "least cost"
    assert cheapest.run.cost.total_usd[0] < answer.plan.run.cost.total_usd[0]
    assert any("less than a day" in text for text in answer.warnings)


# Alternatives ---------------------------------------------------------------------------------------------------------


def test_alternatives_are_the_best_of_their_kind(found):
    chosen, _ = choose.best_choice([found])
    for why, other in choose.alternatives([found], chosen):
        devices = found.outcome.fleet.devices
        kind = {
            "fewer devices": devices <= 0.75 * chosen.devices,
            "more devices": devices >= 1.33 * chosen.devices,
            "other tensor-parallel size": found.bench.cuts.tp[found.candidates.layouts.cut] != chosen.key("tp"),
            "other pipeline length": found.candidates.layouts.pp != chosen.key("pp"),
        }[why]
        assert kind[other.row]
        assert found.feasible[other.row]
        assert found.value[other.row] == found.value[kind & found.feasible].min()


def test_choice_is_the_row_in_full(found):
    chosen, _ = choose.best_choice([found])
    plan = chosen.plan()
    assert plan.run.cost.total_usd[0] == pytest.approx(found.outcome.cost.total_usd[chosen.row], rel=1e-12)
    assert plan.peak_bytes == pytest.approx(found.candidates.peak_bytes[chosen.row], rel=1e-12)
    assert plan.step.tokens_per_s[0] == pytest.approx(found.candidates.tokens_per_s[chosen.row], rel=1e-12)
    assert chosen.devices == plan.run.fleet.devices[0]


def test_the_least_of_the_ties_is_told(found):
    """It saves, by the figures, what the errors of the model cannot tell; of itself there is nothing to tell."""
    row = int(choose.preferred(found, np.arange(len(found.value)))[0])
    values = np.full(len(found.value), 101.0)
    values[row - 1] = 100.0
    given = with_values(found, values, np.ones(len(values), bool))
    chosen = choose.Choice(found=given, row=row)
    other, saved = choose.least(chosen)
    assert other.row == (row - 1) % len(values)
    assert saved == pytest.approx(1 / 101)
    assert choose.least(other) is None
    values[row - 1] = 100.6
    near = choose.Choice(found=with_values(found, values, np.ones(len(values), bool)), row=row)
    assert choose.least(near) is None
