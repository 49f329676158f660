"""What single changes would do to a plan: the run is made again with each, on the same layout or searched anew.

Nothing is derived or extrapolated: a row is what the planner says with that one change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from clusterplan import electricity, premises, run, search
from clusterplan.catalog import Catalog
from clusterplan.clock import clocks
from clusterplan.errors import ClusterplanError
from clusterplan.hardware import Machine, System
from clusterplan.outcome import Run
from clusterplan.plan import Plan, amount, layout_document, run_of, settling, violated
from clusterplan.reading import unknown
from clusterplan.scenario import AUTO, Resolved
from clusterplan.site import Cooling, Site
from clusterplan.units import SECONDS_PER_YEAR

GROUPS = (
    "clock", "electricity", "price", "cooling", "site", "failures", "bandwidth", "utilisation", "tokens", "pue",
    "staff", "basis",
)  # fmt: skip
"""Kinds of change."""

LIQUID = 0.3
"""A system that gives more than this share of its heat to liquid counts as liquid-cooled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lever:
    """One change of a question."""

    group: str
    """One of :data:`GROUPS`."""
    change: str
    """In words."""
    changed: Resolved
    """The question with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """What a plan becomes with one change."""

    lever: Lever
    outcome: Run
    """The run with it, one row."""
    breaks: tuple[str, ...]
    """Demands that the plan kept and no longer keeps."""
    layout: str
    """Name of the layout, where it was searched again; empty where it was kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effects:
    """All changes of a plan."""

    plan: Plan
    found: tuple[Effect, ...]
    """Those with most effect first."""
    refused: tuple[tuple[Lever, str], ...]
    """Changes with which there is no plan, and why."""
    is_interrupted: bool = False
    """Whether it was cut short, so that changes are missing."""


MEASURES: dict[str, Callable[[Run], float | None]] = {
    "wall_s": lambda one: float(one.progress.wall_s[0]),
    "total_usd": lambda one: None if one.cost is None else float(one.cost.total_usd[0]),
    "facility_kwh": lambda one: float(one.energy.facility_kwh[0]),
    "total_kg_co2e": lambda one: float(one.carbon.total_kg_co2e[0]),
    "peak_facility_w": lambda one: float(one.energy.peak_facility_w[0]),
}
"""What is looked at, by the name that it has in a plan's document; None for a cost without a price."""

OF_MONEY = ("electricity", "price", "staff", "basis")
"""Kinds of change that change nothing but money; without a price there are none."""


def change_fraction(name: str, before: Run, after: Run) -> float | None:
    """How much a measure grows, relative; None where there is none."""
    was, becomes = MEASURES[name](before), MEASURES[name](after)
    return None if was is None or becomes is None else becomes / was - 1


def effect_size(before: Run, after: Run) -> float:
    """Largest relative change of any measure."""
    changes = [change_fraction(name, before, after) for name in MEASURES]
    return max(abs(change) for change in changes if change is not None)


def saved_usd_per_year(before: Run, after: Run) -> float | None:
    """Saved in a year in which the plan as it was would do such runs one after another, for the same runs."""
    if before.cost is None or after.cost is None:
        return None
    runs = SECONDS_PER_YEAR / float(before.progress.wall_s[0])
    return float(before.cost.total_usd[0] - after.cost.total_usd[0]) * runs


def effects(
    resolved: Resolved,
    plan: Plan,
    catalog: Catalog,
    *,
    sites: Sequence[str] = (),
    only: Sequence[str] = (),
    replan: bool = False,
    progress: Callable[[float, str], None] | None = None,
    may_stop: bool = False,
) -> Effects:
    """What each single change does to a plan.

    Parameters
    ----------
    resolved : Resolved
        The question that the plan answers.
    plan : Plan
        The plan.
    catalog : Catalog
        Where other sites, cooling designs and systems are found.
    sites : sequence of str
        Names of other sites.
    only : sequence of str
        Kinds of change, of :data:`GROUPS`; all if empty.
    replan : bool
        Whether layout and size are searched again for each change.
    progress : callable
        Called with the share that is done and the change that comes.
    may_stop : bool
        Whether a keyboard interrupt ends it with the changes that are done, if there are any.
    """
    for name in only:
        if name not in GROUPS:
            raise unknown(f"no kind of change is called {name!r}", name, GROUPS, where="--only")
    if plan.run.cost is None and only and set(only) <= set(OF_MONEY):
        raise ClusterplanError(run.no_price(resolved.prices, plan.question.machine.system.name), where="--only")
    base = replace(resolved, hardware=(plan.question.machine,))
    if not replan and resolved.scenario.clock == AUTO:
        base = _at_clock(base, plan.question.clock_fraction)
    left = [kind for kind in only or GROUPS if plan.run.cost is not None or kind not in OF_MONEY]
    wanted = [lever for lever in levers(base, plan, catalog, sites) if lever.group in left]
    stopped = False
    found: list[Effect] = []
    refused: list[tuple[Lever, str]] = []
    for number, lever in enumerate(wanted):
        try:
            if progress:
                progress(number / len(wanted), lever.change)
            effect = _searched(lever, plan) if replan else _kept(lever, plan)
        except KeyboardInterrupt:
            if not (may_stop and found):
                raise
            stopped = True
            break
        if isinstance(effect, Effect):
            found.append(effect)
        else:
            refused.append((lever, effect))
    found = _best_cooling(found, settling(plan.run))
    found.sort(key=lambda one: -effect_size(plan.run, one.outcome))
    return Effects(plan=plan, found=tuple(found), refused=tuple(refused), is_interrupted=stopped)


# --- Trying a change --------------------------------------------------------------------------------------------


def _kept(lever: Lever, plan: Plan) -> Effect | str:
    """The same layout with one change; why there is no run if there is none."""
    changed = lever.changed
    clock = clocks(changed, 0)[0]
    circumstances = replace(premises.circumstances_of(changed, 0, clock), long=plan.circumstances.long)
    reasons = run.unsupported(circumstances)
    if plan.run.cost is not None and not run.is_priced(changed.prices, changed.hardware[0].system.name):
        reasons.append(run.no_price(changed.prices, changed.hardware[0].system.name))
    if reasons:
        return "; ".join(reasons)
    job = replace(changed.job, precision=plan.question.job.precision)
    question = replace(plan.question, job=job, machine=changed.hardware[0], clock_fraction=clock)
    return _effect(lever, plan, run_of(question, circumstances, plan.cuts, plan.layouts), "")


def _searched(lever: Lever, plan: Plan) -> Effect | str:
    """The best plan with one change; why there is none if so."""
    answer = search.answer(lever.changed, (0,), None)
    if answer.plan is None:
        return "; ".join([one.constraint for one in answer.blocking] or answer.warnings)
    return _effect(lever, plan, answer.plan.run, str(layout_document(answer.plan)["name"]))


def _effect(lever: Lever, plan: Plan, outcome: Run, layout: str) -> Effect:
    demands = premises.demands_of(lever.changed)
    broken = {name for name, mask in violated(demands, outcome).items() if mask[0]}
    before = {name for name, mask in violated(demands, plan.run).items() if mask[0]}
    return Effect(lever=lever, outcome=outcome, breaks=tuple(sorted(broken - before)), layout=layout)


def _best_cooling(found: list[Effect], counted: str) -> list[Effect]:
    """Of the designs of each kind only that which costs least, or takes least energy where that is counted."""
    best: dict[str, Effect] = {}
    for effect in found:
        if effect.lever.group == "cooling":
            kind = effect.lever.change.partition(":")[0]
            less = kind not in best or amount(counted, effect.outcome)[0] < amount(counted, best[kind].outcome)[0]
            if less:
                best[kind] = effect
    return [one for one in found if one.lever.group != "cooling" or one in best.values()]


# --- Changes ----------------------------------------------------------------------------------------------------


def levers(base: Resolved, plan: Plan, catalog: Catalog, sites: Sequence[str]) -> Iterator[Lever]:
    """All single changes of a question about one machine."""
    site, prices, machine, job = base.site, base.prices, base.hardware[0], base.job
    system, device = machine.system, machine.accelerator

    def lever(group: str, change: str, **changed: object) -> Lever:
        return Lever(group=group, change=change, changed=replace(base, **changed))  # type: ignore[arg-type]

    lower = 0.9 * plan.question.clock_fraction
    if lower >= electricity.lowest_clock(device):
        yield Lever(group="clock", change="clock -10 %", changed=_at_clock(base, lower))
    doubled = replace(site, usd_per_kwh=2 * site.usd_per_kwh, demand_usd_per_kw_month=2 * site.demand_usd_per_kw_month)
    yield lever("electricity", "electricity × 2", site=doubled)
    listed = {"own": "system_usd"}.get(prices.basis, run.TERMS[prices.rent_term][0])
    figure = f"{listed}.{system.name}"
    paid = prices.figure(figure) or 0.0
    for factor, words in ((1.2, "device price +20 %"), (0.8, "device price -20 %")):
        yield lever("price", words, prices=prices.changed({figure: factor * paid}))
    for words, unit, cooling in _designs(machine, base.cooling, catalog):
        yield lever("cooling", words, cooling=cooling, hardware=(replace(machine, system=unit),))
    for name in sites:
        other = catalog.load(Site, name)
        yield lever("site", f"site {name}", site=replace(other, power_w=site.power_w))
    failing = replace(
        machine,
        accelerator=replace(device, failures_per_device_s=2 * device.failures_per_device_s),
        system=replace(system, failures_per_node_s=2 * system.failures_per_node_s),
    )
    yield lever("failures", "failures × 2", hardware=(failing,))
    for factor, words in ((0.5, "bandwidth × 0.5"), (2.0, "bandwidth × 2")):
        yield lever("bandwidth", words, hardware=(_with_bandwidth(machine, factor),))
    for points in (-0.1, 0.1):
        share = min(prices.utilisation_fraction + points, 1.0)
        if share > 0 and share != prices.utilisation_fraction and prices.basis == "own":
            changed = replace(prices, utilisation_fraction=share)
            yield lever("utilisation", f"utilisation {100 * share:.0f} %", prices=changed)
    yield lever("tokens", "tokens × 1.1", job=replace(job, tokens=round(1.1 * job.tokens)))
    yield lever("pue", "PUE +0.05", site=replace(site, misc_fraction=site.misc_fraction + 0.05))
    if prices.basis == "own":
        yield lever("staff", "staff × 2", prices=replace(prices, staff_persons=2 * prices.staff_persons))
    if prices.basis == "rent" and run.is_priced(replace(prices, basis="own"), system.name):
        yield lever("basis", "own", prices=replace(prices, basis="own"))
    rents = (
        ("rent on demand", "on-demand", prices.rent_usd_per_device_h),
        ("rent at 1-year rate", "1-year", prices.reserved_1_year_usd_per_device_h),
        ("rent at 3-year rate", "3-year", prices.reserved_3_year_usd_per_device_h),
    )
    for words, term, rent in rents:
        # The rest of a term is taken to carry other work, so that only the time of the run is paid.
        used = replace(prices, basis="rent", rent_term="on-demand", rent_usd_per_device_h=rent)
        if system.name in rent and (prices.basis == "own" or term != prices.rent_term):
            yield lever("basis", words, prices=used)


def _at_clock(resolved: Resolved, clock: float) -> Resolved:
    return replace(resolved, scenario=replace(resolved.scenario, clock=clock, cap_w=None))


def _with_bandwidth(machine: Machine, factor: float) -> Machine:
    """The machine with another bandwidth between its systems."""
    system, fabric = machine.system, machine.fabric
    return replace(
        machine,
        system=replace(system, scaleout_bytes_per_s=factor * system.scaleout_bytes_per_s),
        fabric=replace(fabric, port_bytes_per_s=factor * fabric.port_bytes_per_s),
    )


Kind = Literal["air", "rear door", "liquid", "immersion"]


def cooled_by(system: System, cooling: Cooling) -> Kind:
    """How most of the heat of a system leaves a design."""
    if cooling.immersion_fraction is not None:
        return "immersion"
    if electricity.housed(system, cooling).liquid_fraction > LIQUID:
        return "liquid"
    return "rear door" if cooling.rear_door else "air"


def _designs(machine: Machine, here: Cooling, catalog: Catalog) -> Iterator[tuple[str, System, Cooling]]:
    """Other cooling designs for a machine, or for its twin that is cooled otherwise."""
    twins = [machine.system]
    for name in catalog.names(System):
        unit = catalog.load(System, name)
        same = ("accelerator", "node_devices", "scaleup_devices", "scaleup_topology", "scaleout_bytes_per_s")
        if unit.cooling != machine.system.cooling and all(
            getattr(unit, key) == getattr(machine.system, key) for key in same
        ):
            twins.append(unit)
    for unit in twins:
        for name in catalog.names(Cooling):
            design = catalog.load(Cooling, name)
            if name != here.name or unit is not machine.system:
                what = name if unit is machine.system else f"{unit.name} in {name}"
                yield f"{cooled_by(unit, design)}: {what}", unit, design


def check_sites(names: Sequence[str], catalog: Catalog) -> None:
    """Refuse sites that have no profile before anything is computed."""
    for name in names:
        catalog.load(Site, name)
    if len(set(names)) < len(names):
        raise ClusterplanError("names a site twice", where="--site")
