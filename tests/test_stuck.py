"""Runs that make no progress, and what would let them."""

from dataclasses import replace

import pytest

from clusterplan.estimate import estimate
from clusterplan.stuck import CAUSES, LEAST_GOODPUT, least_factor, letting, stuck, with_failures
from examples import asked

PLAN = estimate(asked(devices=(8, 8))).plan


def failing_often():
    """A plan on devices that fail so often that nothing is done."""
    question = asked(devices=(8, 8))
    (on,) = question.hardware
    device = replace(on.accelerator, failures_per_device_s=3e5 * on.accelerator.failures_per_device_s)
    system = replace(on.system, failures_per_node_s=3e5 * on.system.failures_per_node_s)
    return estimate(replace(question, hardware=(replace(on, accelerator=device, system=system),))).plan


def test_a_run_that_makes_progress_is_not_stuck():
    assert PLAN.run.progress.goodput_fraction[0] > LEAST_GOODPUT
    assert stuck(PLAN) == ()


def test_each_cause_alone_would_let_the_run_go_on():
    plan = failing_often()
    whole, *stops = stuck(plan)
    assert (whole.constraint, whole.required) == ("goodput", LEAST_GOODPUT)
    assert whole.best == plan.run.progress.goodput_fraction[0] < LEAST_GOODPUT
    causes = {cause.name: cause for cause in CAUSES}
    factors = [letting(plan, causes[stop.constraint]) for stop in stops]
    assert len(factors) > 1
    assert factors == sorted(factors)  # nearest first
    for stop, factor in zip(stops, factors, strict=True):
        eased = causes[stop.constraint].eased(plan, factor)
        assert eased.progress.goodput_fraction[0] >= LEAST_GOODPUT
        assert causes[stop.constraint].eased(plan, 0.98 * factor).progress.goodput_fraction[0] < LEAST_GOODPUT
        assert stop.nearest_feasible == pytest.approx(float(causes[stop.constraint].measure(eased.progress)[0]))


def test_the_least_factor_is_found_to_a_per_cent():
    assert least_factor(lambda factor: factor / 1000) == pytest.approx(50, rel=0.01)
    assert least_factor(lambda factor: factor * 0) is None


def test_the_failures_of_a_run_are_those_of_all_its_parts():
    twice = with_failures(PLAN, 2)
    assert twice.progress.mtbf_s[0] == pytest.approx(PLAN.run.progress.mtbf_s[0] / 2)
    assert twice.fleet.used_devices == PLAN.run.fleet.used_devices
