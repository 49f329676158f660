"""The clock of a plan's devices: what is asked for, and the one at which the objective is least.

A lower clock saves power and takes time, in which hosts, network and building draw power and everything is paid for.
The objective counts all of that, so its least is far above the clock at which the devices alone would need least.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from clusterplan.electricity import FULL_CLOCK, lowest_clock
from clusterplan.errors import ClusterplanError
from clusterplan.formulas import power
from clusterplan.layer import Question
from clusterplan.layout import Cuts, Layouts
from clusterplan.outcome import Circumstances, Run
from clusterplan.plan import Demands, Plan, amount, make_plan, run_of, settling, violated
from clusterplan.scenario import AUTO, Resolved, option

CLOCKS_TRIED = 4
"""Clocks at which a search looks at all layouts before the best one's is refined."""

CLOCK_STEP = 0.005
"""Assumed: clocks are set in steps of about 15 MHz of 1.8 to 2.1 GHz."""


def clocks(resolved: Resolved, index: int) -> tuple[float, ...]:
    """Clocks that a question asks for on one machine, over the clock in training; several if it is to be chosen."""
    scenario, device = resolved.scenario, resolved.hardware[index].accelerator
    lowest = lowest_clock(device)
    if scenario.clock == AUTO:
        return tuple(float(clock) for clock in np.linspace(FULL_CLOCK, lowest, CLOCKS_TRIED))
    if scenario.cap_w is not None:
        busy = resolved.operations.matrix_activity_fraction
        capped = power.capped_clock_fraction(device.idle_w, device.tdp_w, scenario.cap_w, busy, device.clock_exponent)
        if capped < lowest:
            least = power.accelerator_w(device.idle_w, device.tdp_w, busy, lowest, device.clock_exponent)
            text = f"holds {device.name} below {lowest:g} of its clock, where its power is not known"
            raise ClusterplanError(text, where=option("cap_w"), nearest=(f"{math.ceil(float(least))} W",))
        return (float(capped),)
    clock = FULL_CLOCK if scenario.clock is None else float(scenario.clock)
    if clock < lowest:
        text = f"{clock:g} is below {lowest:g}, where the power of {device.name} is not known"
        raise ClusterplanError(text, where=option("clock"), nearest=(f"{lowest:g}",))
    return (clock,)


def at_best_clock(resolved: Resolved, plan: Plan, objective: str, demands: Demands) -> Plan:
    """The plan at the clock at which it does best, if the clock is to be chosen; else the plan."""
    if resolved.scenario.clock != AUTO:
        return plan
    clock = best_clock(plan.question, plan.circumstances, plan.cuts, plan.layouts, objective, demands)
    return make_plan(
        replace(plan.question, clock_fraction=clock),
        replace(plan.circumstances, clock_fraction=clock),
        plan.cuts,
        plan.layouts,
    )


def best_clock(
    question: Question,
    circumstances: Circumstances,
    cuts: Cuts,
    layouts: Layouts,
    objective: str,
    demands: Demands,
) -> float:
    """Clock at which one layout does best and keeps to what it keeps to at the clock of the question.

    Parameters
    ----------
    question, circumstances : Question, Circumstances
        What the layout was found with.
    cuts, layouts : Cuts, Layouts
        The layout, as tables with one row.
    objective : str
        What is to be least, as :func:`~clusterplan.plan.amount` calls it; the cost where only devices count, or where
        there is none of it; without a price the energy.
    demands : Demands
        What the plan must keep to.
    """
    start = question.clock_fraction
    lowest = lowest_clock(question.machine.accelerator)

    def at(clock: float) -> Run:
        return run_of(
            replace(question, clock_fraction=clock), replace(circumstances, clock_fraction=clock), cuts, layouts
        )

    first = at(start)
    counted = settling(first) if objective == "devices" or not amount(objective, first)[0] else objective

    def value(clock: float) -> float:
        return float(amount(counted, at(clock))[0])

    def broken(clock: float) -> set[str]:
        return {name for name, mask in violated(demands, at(clock)).items() if mask[0]}

    allowed = broken(start)

    def keeps(clock: float) -> bool:
        return broken(clock) <= allowed

    low = start if start <= lowest else _edge(keeps, start, lowest)
    high = start if start >= FULL_CLOCK else _edge(keeps, start, FULL_CLOCK)
    tried = {low, start, high}
    if high - low > CLOCK_STEP:
        from scipy.optimize import minimize_scalar  # only a clock that is chosen pays for the import

        found = minimize_scalar(value, bounds=(low, high), method="bounded", options={"xatol": CLOCK_STEP / 5})
        steps = float(found.x) / CLOCK_STEP
        tried |= {CLOCK_STEP * math.floor(steps), CLOCK_STEP * math.ceil(steps)}
    kept = {round(clock, 6) for clock in tried if low <= clock <= high}
    return min(kept, key=lambda clock: (value(clock), -clock))


def _edge(keeps: Callable[[float], bool], good: float, end: float) -> float:
    """The clock nearest to an end that keeps to everything, between one that does and the end."""
    if keeps(end):
        return end
    from scipy.optimize import bisect

    edge = bisect(lambda clock: 1.0 if keeps(clock) else -1.0, good, end, xtol=CLOCK_STEP / 5)
    steps = edge / CLOCK_STEP  # the next step on the good side
    step = CLOCK_STEP * (math.ceil(steps) if good > end else math.floor(steps))
    return step if min(good, end) <= step <= max(good, end) and keeps(step) else good
