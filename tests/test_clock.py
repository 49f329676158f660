"""The clock of the devices: lower is slower and draws less, and the best one is that of the whole site."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from clusterplan import search
from clusterplan.clock import CLOCK_STEP, best_clock, clocks
from clusterplan.electricity import LOWEST_CLOCK, lowest_clock
from clusterplan.errors import ClusterplanError
from clusterplan.estimate import estimate
from clusterplan.formulas import compute, power
from clusterplan.hardware import Accelerator
from clusterplan.plan import amount, run_of
from clusterplan.premises import demands_of
from examples import CATALOG, asked, machine

BASE = asked()
PLAN = search.size(BASE).plan


def at(clock, plan=PLAN):
    """The run of a plan's layout at another clock."""
    return run_of(
        replace(plan.question, clock_fraction=clock),
        replace(plan.circumstances, clock_fraction=clock),
        plan.cuts,
        plan.layouts,
    )


@given(st.floats(LOWEST_CLOCK, 1), st.floats(LOWEST_CLOCK, 1))
def test_lower_clock_never_draws_more_and_is_never_faster(one, other):
    low, high = at(min(one, other)), at(max(one, other))
    assert low.energy.mean_facility_w <= high.energy.mean_facility_w
    assert low.energy.peak_facility_w <= high.energy.peak_facility_w
    assert low.energy.it.accelerators_w <= high.energy.it.accelerators_w
    assert low.progress.wall_s >= high.progress.wall_s


def test_full_clock_changes_nothing():
    assert_allclose(at(1.0).cost.total_usd, PLAN.run.cost.total_usd, rtol=1e-12)


def test_half_the_arithmetic_clock_at_most_doubles_the_step():
    slower = at(LOWEST_CLOCK).progress.ideal_s / at(1.0).progress.ideal_s
    assert 1 < slower[0] < 1 / LOWEST_CLOCK


def test_given_clock_is_that_of_the_plan():
    document = search.size(asked(clock=0.9)).document()
    assert document["plan"]["clock_fraction"] == document["inputs"]["clock"] == 0.9
    assert search.size(BASE).document()["inputs"]["clock"] == 1.0


def test_cap_sets_the_clock_by_the_power_law():
    device = machine().accelerator
    (clock,) = clocks(asked(cap_w=500.0), 0)
    drawn = device.idle_w + (device.tdp_w - device.idle_w) * clock**device.clock_exponent
    assert_allclose(drawn, 500.0)
    assert clocks(asked(cap_w=10_000.0), 0) == (1.0,)


@pytest.mark.parametrize("given", [{"clock": 0.3}, {"cap_w": 150.0}, {"clock": 0.9, "cap_w": 500.0}])
def test_clocks_that_cannot_be(given):
    with pytest.raises(ClusterplanError, match=r"clock|cap"):
        search.size(asked(**given))


def test_lowest_clock_of_a_profile():
    low = replace(machine(), accelerator=replace(machine().accelerator, lowest_clock_fraction=0.8))
    assert min(clocks(replace(asked(clock="auto"), hardware=(low,)), 0)) == pytest.approx(0.8)


@pytest.mark.parametrize("objective", ["energy", "cost", "carbon", "water", "wall"])
def test_best_clock_is_that_of_a_fine_grid(objective):
    found = best_clock(PLAN.question, PLAN.circumstances, PLAN.cuts, PLAN.layouts, objective, demands_of(BASE))
    grid = np.arange(LOWEST_CLOCK, 1 + 1e-9, CLOCK_STEP)
    values = [float(amount(objective, at(clock))[0]) for clock in grid]
    assert float(amount(objective, at(found))[0]) <= min(values) * (1 + 1e-4)
    assert found == 1.0 or objective != "wall"


def test_dear_electricity_lowers_the_clock_of_least_cost():
    cheap, dear = (
        search.size(
            asked(clock="auto", objective="cost", sets={"site.usd_per_kwh": usd, "prices.staff_persons": "0"})
        ).plan.question.clock_fraction
        for usd in ("0.05", "2.0")
    )
    assert dear < cheap


def test_hosts_and_capital_keep_the_clock_above_that_of_the_devices_alone():
    """Energy of the accelerators alone is least at a lower clock than energy at the meter."""
    grid = np.arange(LOWEST_CLOCK, 1 + 1e-9, CLOCK_STEP)
    runs = [at(clock) for clock in grid]
    alone = [float((one.energy.it.accelerators_w * one.progress.wall_s)[0]) for one in runs]
    meter = [float(one.energy.facility_kwh[0]) for one in runs]
    assert grid[np.argmin(alone)] <= grid[np.argmin(meter)]


def test_chosen_clock_keeps_the_deadline():
    wall = float(PLAN.run.progress.wall_s[0])
    answer = search.size(asked(clock="auto", objective="energy", deadline_s=1.02 * wall))
    assert answer.feasible
    assert answer.plan.run.progress.wall_s[0] <= 1.02 * wall
    free = search.size(asked(clock="auto", objective="energy"))
    assert amount("energy", free.plan.run)[0] <= amount("energy", answer.plan.run)[0]


def test_site_limit_is_kept_by_a_lower_clock():
    peak = float(search.size(asked(devices=(32, 32))).plan.run.energy.peak_facility_w[0])
    limits = {"devices": (32, 32), "power_w": 0.9 * peak}
    assert not search.size(asked(**limits)).feasible
    assert search.size(asked(clock="auto", **limits)).feasible


def test_estimate_takes_a_clock():
    full, lower = (estimate(asked(devices=(8, 8), tp=8, clock=clock)) for clock in (None, 0.8))
    assert lower.plan.step.time.total_s > full.plan.step.time.total_s
    best = estimate(asked(devices=(8, 8), tp=8, clock="auto", objective="energy"))
    assert amount("energy", best.plan.run) <= amount("energy", full.plan.run)


@pytest.mark.parametrize("name", CATALOG.names(Accelerator))
def test_lower_clock_never_draws_more_on_any_device(name):
    device = CATALOG.load(Accelerator, name)
    grid = np.linspace(lowest_clock(device), 1, 21)
    for activity in (0.2, 0.8, 1.0, 1.2):
        watts = power.accelerator_w(device.idle_w, device.tdp_w, activity, grid, device.clock_exponent)
        assert np.all(np.diff(watts) >= 0)
        assert np.all(watts >= device.idle_w)


@given(st.floats(60, 700))
def test_a_cap_is_kept_and_a_lower_one_never_draws_more(cap_w):
    device = machine().accelerator
    power_of = (device.idle_w, device.tdp_w)
    low, high = (
        power.capped_clock_fraction(*power_of, cap, 1.0, device.clock_exponent) for cap in (cap_w, 1.1 * cap_w)
    )
    assert low <= high
    drawn = power.accelerator_w(*power_of, 1.0, low, device.clock_exponent)
    assert drawn <= max(cap_w, device.idle_w) * (1 + 1e-9)


def test_capped_node():
    """Eight devices that draw 100 W less, fans a tenth, supplies 0.9: 800 / 0.81."""
    assert_allclose(power.capped_w(700, 600, 8, 0.1, 0.9), 800 / 0.81)
    assert_allclose(power.capped_w([700, 700], [700, 600], 8, 0.1, 0.9), [0, 800 / 0.81])
    assert_allclose(power.nameplate_w(10e3, 100, 0.8, 1e3), 720e3)


def test_arithmetic_of_kernels_goes_with_the_clock():
    """At half the clock products take twice their time; what they write keeps its time."""
    fast, slow = (
        compute.product_s(1024, 1024, 1024, 1, 1e12, 1, 1, 1, 1e12, 1, 2, clock_slowdown=factor) for factor in (1, 2)
    )
    write = compute.product_s(1024, 1024, 1024, 1, 1e30, 1, 1, 1, 1e12, 1, 2)
    assert_allclose(slow - write, 2 * (fast - write))
    assert_allclose(
        compute.attention_s(1e12, 4096, 1e14, 0.5, 1, clock_slowdown=2),
        2 * compute.attention_s(1e12, 4096, 1e14, 0.5, 1),
    )
    assert_allclose(compute.scan_s(1e12, 1e14, 0.5, 1, clock_slowdown=2), 2 * compute.scan_s(1e12, 1e14, 0.5, 1))
    assert_allclose(
        compute.eager_attention_s(1e12, 0, 14, 1e14, 1, 1, 1e12, 1, clock_slowdown=2),
        2 * compute.eager_attention_s(1e12, 0, 14, 1e14, 1, 1, 1e12, 1),
    )
