"""Several kinds of machines at several sites: how many of each, and what the job is on all of them together.

The job is data-parallel over *parts*, each of one kind of machine at one site with a layout of its own. A part takes
sequences in proportion to its speed, so that all parts end a step together; then they add their gradients.

How many purchase units each pair of a machine and a site gets is a mixed-integer program (:mod:`clusterplan.allot`)
over what a unit of each gives. That depends on the layout, which depends on how many there are: the program and the
search for the parts' layouts follow each other until what was assumed of each unit is what comes out.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

import clusterplan
from clusterplan import allot, causes, cautions, choose, draw, premises, run, search, space
from clusterplan.allot import Bounds, Offers
from clusterplan.arrays import FloatArray, IntArray
from clusterplan.catalog import Catalog
from clusterplan.choose import Choice
from clusterplan.errors import ClusterplanError
from clusterplan.formulas import network, wan
from clusterplan.layout import BATCH_TOLERANCE, micro_batches, used_devices
from clusterplan.money import money
from clusterplan.outcome import Circumstances, Run, Work
from clusterplan.outcome import Progress as Course
from clusterplan.plan import (
    Blocking,
    Plan,
    cost_usd,
    critical_batch,
    evidence,
    inputs_document,
    make_plan,
    plan_document,
    work,
)
from clusterplan.reading import change
from clusterplan.scan import Found, Progress
from clusterplan.scenario import Resolved
from clusterplan.site import Site
from clusterplan.units import format_probability, parse

SCHEMA = "clusterplan/mix-1"
"""Name of the form of the document; a change that breaks readers changes it."""

ROUNDS = 6
"""Most times that the program and the layouts follow each other."""

MOST_TRIES = 16
"""The same with times in which a part had too few units for any layout."""

SMALLEST_SHARE = 0.03
"""Parts that would do less of the job are not looked at: so few sequences go badly into micro-batches."""

AIMS = (0.91, 1.0, 1.1)
"""Layouts of a part are looked for near these multiples of its share of the batch, each with its tolerance."""

MOST_WAYS = 6
"""Ways to put layouts together of which that with the shortest step is taken, the lines between sites included."""

LEAST_KEPT = 0.95
"""What waiting for the slowest part leaves is taken to be no less: other sizes may wait less."""

AGREED = 0.002
"""What was assumed of a unit and what came of it agree within this share."""

LEAST_MARGIN = 0.9
"""Share of the deadline that the program is held to at least, where layouts have missed it."""

WHOLE = ("deadline_s", "budget_usd", "water_m3", "carbon_kg")
"""What is asked of the whole job, and of none of its parts."""

NARROW = 0.8
"""A part's layout is looked for on this share of its units and more; units that it leaves are not bought."""

SYNCHRONOUS = (
    "the parts add their gradients before each update, weighted by their sequences: the same update as on one cluster, "
    "whatever their speeds; that formats and kernels of different hardware train alike is assumed"
)
"""What is assumed of the training where parts work together on each step."""

SELDOM = (
    "each site takes {every} steps on its own before they are brought together: that this needs no more tokens is "
    "assumed. It held for 8 workers and 500 steps with an outer Nesterov step on models of 60M to 400M parameters "
    "(DiLoCo, A. Douillard et al., arXiv:2311.08105); larger models and more workers are an extrapolation"
)
"""The same where sites synchronise every so many steps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a mix may be made of, beside the question itself."""

    sites: tuple[Site, ...]
    """Places, each with the power that it may draw."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """Devices that there are, by system; as many as are wanted of the others."""
    line_bytes_per_s: float | None = None
    """Line of each site to the others, one way; None if sites cannot work together. [byte/s]"""
    line_latency_s: float = 0.0
    """One way between sites. [s]"""
    steps_between: int = 1
    """Optimizer steps from one synchronisation of the sites to the next."""
    power_w: float | None = None
    """Most that all sites together may draw. [W]"""


def asked(
    resolved: Resolved,
    catalog: Catalog,
    *,
    sites: Sequence[str] = (),
    counts: Sequence[str] = (),
    site_power: Sequence[str] = (),
    line: str | None = None,
    sync_every: str | None = None,
) -> Asked:
    """What the options of a mix say.

    Parameters
    ----------
    resolved : Resolved
        The question; its site is taken if no sites are named.
    catalog : Catalog
        Where profiles of sites are found.
    sites : sequence of str
        Names of sites.
    counts, site_power : sequence of str
        Texts ``SYSTEM=DEVICES`` and ``SITE=POWER``.
    line : str
        Bandwidth and latency of the line of each site: ``1.6Tbit/s,20ms``.
    sync_every : str
        Steps from one synchronisation of the sites to the next.
    """
    systems = [machine.system.name for machine in resolved.hardware]
    places = [_site(resolved, catalog, name) for name in dict.fromkeys(sites)]
    if not places:
        places = [replace(resolved.site, power_w=None) if resolved.scenario.power_w is not None else resolved.site]
    for name, text in _pairs(site_power, [one.name for one in places], "--site-power").items():
        power_w = parse(text, "power", where=f"--site-power {name}")
        places = [replace(one, power_w=power_w) if one.name == name else one for one in places]
    bandwidth, _, latency = (line or "").partition(",")
    every = 1 if sync_every is None else parse(sync_every, "count", where="--sync-every")
    if every < 1:
        raise ClusterplanError("must be 1 or more", where="--sync-every")
    return Asked(
        sites=tuple(places),
        counts={
            name: parse(text, "devices", where=f"--counts {name}")
            for name, text in _pairs(counts, systems, "--counts").items()
        },
        line_bytes_per_s=parse(bandwidth, "bandwidth", where="--wan") if line else None,
        line_latency_s=parse(latency.replace("latency", ""), "time", where="--wan") if latency.strip() else 0.0,
        steps_between=every,
        power_w=resolved.scenario.power_w,
    )


def _site(resolved: Resolved, catalog: Catalog, name: str) -> Site:
    """A place, with the figures that the user changed."""
    site = catalog.load(Site, name)
    for key, text in resolved.scenario.sets.items():
        first, _, rest = key.partition(".")
        if first == "site":
            site = change(site, rest, text, where=f"--set {key}")
    return site


def _pairs(texts: Sequence[str], names: Sequence[str], where: str) -> dict[str, str]:
    """Texts ``NAME=VALUE`` by name."""
    found = {}
    for text in texts:
        name, equals, rest = (part.strip() for part in text.partition("="))
        if not equals or not rest:
            raise ClusterplanError(f"must be NAME=VALUE, not {text!a}", where=where)
        if name not in names:
            raise ClusterplanError(f"{name!a} is not among {', '.join(names)}", where=where)
        found[name] = rest
    return found


# --- Parts and what they come to --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A kind of machine at a site."""

    kind: int
    site: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One kind of machine at one site, with its share of the job; arrays have one row."""

    pair: Pair
    plan: Plan
    """Its layout as if it were alone, with the batch that it takes."""
    circumstances: Circumstances
    """What its share runs in: the failures of the other parts, its part of the people."""
    work: Work
    """Its step as it is beside the others, waiting and lines included."""
    run: Run
    """Its share of the whole job: all of the time, its own devices, power and money."""
    batch_share_fraction: float
    wait_s: float
    """Time of each step in which it waits for the slowest part. [s]"""

    @property
    def staff_usd(self) -> float:
        """People, whatever the number of units. [USD]"""
        paid = self.run.cost
        return 0.0 if paid is None or paid.staff_usd is None else float(paid.staff_usd[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """How far what was assumed of the units is from what their layouts do."""

    rounds: int = 0
    """Times that the program and the layouts followed each other; 0 if the program had nothing to choose."""
    speed_residual_fraction: float = 0.0
    """Speed of the layouts over what was assumed of the units, less 1."""
    units_residual: int = 0
    """Most units of a part that its layout left over; they are not bought."""


@dataclass(frozen=True, kw_only=True)
class Mix:
    """A job on several parts."""

    parts: tuple[Part, ...]
    step_s: float
    """Step of the slowest part. [s]"""
    line_s: float
    """What the lines between sites add to each step. [s]"""
    lines_s: tuple[float, ...]
    """The same for any number of sites that take part. [s]"""
    global_batch: int
    agreement: Agreement = Agreement()

    @property
    def progress(self) -> Course:
        """How long the whole job takes."""
        return self.parts[0].run.progress

    @property
    def wall_s(self) -> float:
        """Expected length of the job. [s]"""
        return float(self.progress.wall_s[0])

    @cached_property
    def totals(self) -> dict[str, float]:
        """What all parts come to."""
        runs = [part.run for part in self.parts]
        return {
            "wall": self.wall_s,
            "cost": sum(float(cost_usd(one)[0]) for one in runs),
            "energy": sum(float(one.energy.facility_kwh[0]) for one in runs),
            "carbon": sum(float(one.carbon.total_kg_co2e[0]) for one in runs),
            "water": sum(float(one.energy.water_m3[0]) for one in runs),
            "devices": sum(float(one.fleet.devices[0]) for one in runs),
        }

    @property
    def kept_fraction(self) -> float:
        """Speed of all parts together over the sum of their own: what waiting for the slowest leaves."""
        own = sum(part.batch_share_fraction / (self.step_s - part.wait_s) for part in self.parts)
        return max(1 / self.step_s / own, LEAST_KEPT)

    @property
    def tokens_per_s(self) -> float:
        """Speed of all parts, without lines and losses."""
        return self.global_batch * self.parts[0].plan.question.job.seq_len / self.step_s

    @property
    def staff_usd(self) -> float:
        """People, whatever the number of units. [USD]"""
        return sum(part.staff_usd for part in self.parts)

    def units(self, pairs: Sequence[Pair]) -> IntArray:
        """Purchase units of each pair."""
        have = {part.pair: int(part.run.fleet.units[0]) for part in self.parts}
        return np.array([have.get(pair, 0) for pair in pairs], dtype=np.int64)

    def power_w(self, site: int) -> float:
        """Highest power of a site at the meter. [W]"""
        return sum(float(p.run.energy.peak_facility_w[0]) for p in self.parts if p.pair.site == site)


def window_s(plan: Plan) -> float:
    """Work behind which gradients can be sent: the last micro-batches that add to them. [s]"""
    batches = int(micro_batches(plan.layouts, plan.cuts)[0])
    last = min(int(plan.layouts.pp[0]), batches) if int(plan.layouts.vpp[0]) > 1 else 1
    return float(plan.step.time.busy_s[0]) * last / batches


def _shared_work(plan: Plan, wait_s: float, line_s: float, batch: int) -> Work:
    """A part's step beside the others: it waits for the slowest, lines are added, and the batch is that of all."""
    alone = work(plan.cuts, plan.layouts, plan.step)
    return replace(
        alone,
        step_s=alone.step_s + wait_s + line_s,
        communication_s=alone.communication_s + line_s,
        waiting_s=alone.waiting_s + wait_s,
        global_batch=np.array([batch]),
    )


def _beside(plan: Plan, failures_beside_s: float, share_fraction: float) -> Circumstances:
    """A part's circumstances beside the others: their failures stop it too, and it has its share of the people."""
    prices = plan.circumstances.prices
    return replace(
        plan.circumstances,
        failures_beside_s=failures_beside_s,
        prices=replace(prices, staff_persons=prices.staff_persons * share_fraction),
    )


@dataclass
class Shop:
    """A question with all that its mixes are made of."""

    resolved: Resolved
    asked: Asked
    objective: str
    progress: Progress | None = None
    remarks: list[str] = field(default_factory=list)
    looked: dict[tuple[int, int, int], list[Found]] = field(default_factory=dict)
    """Layouts of parts by kind, devices and batch."""

    # --- Searches -------------------------------------------------------------------------------------------

    def at(self, site: int, **scenario: Any) -> Resolved:
        """The question at one site."""
        return replace(self.resolved, site=self.asked.sites[site], scenario=replace(self.resolved.scenario, **scenario))

    def most_devices(self, kind: int) -> int:
        """Devices that there can be of a kind."""
        machine = self.resolved.hardware[kind]
        most = min(self.resolved.devices[1], machine.largest_cluster)
        return min(most, self.asked.counts.get(machine.system.name, most))

    def sized(self, pair: Pair) -> tuple[list[Found], Choice | None]:
        """All candidates of one machine at one site alone, and the best of those that keep to everything.

        A machine without a price has none: the parts of a mix are put together by what they cost as well.
        """
        prices, system = self.resolved.prices, self.resolved.hardware[pair.kind].system.name
        if not run.is_priced(prices, system):
            left_out = f"{system} is left out: {run.no_price(prices, system)}"
            self.remarks = list(dict.fromkeys([*self.remarks, left_out]))
            return [], None
        resolved = self.at(pair.site)
        resolved = replace(resolved, devices=(resolved.devices[0], self.most_devices(pair.kind)))
        if resolved.devices[0] > resolved.devices[1]:
            resolved = replace(resolved, devices=(1, resolved.devices[1]))
        if self.asked.power_w is not None:
            cap = min(self.asked.power_w, resolved.site.power_w or np.inf)
            resolved = replace(resolved, site=replace(resolved.site, power_w=cap))
        founds, _, reasons = search.search_machine(resolved, pair.kind, self.objective, self.progress)
        self.remarks += [text for text in reasons if text not in self.remarks]
        founds = [found for found in founds if found.candidates.layouts.size]
        return founds, choose.best_choice(founds)[0]

    def layouts_of(self, kind: int, devices: int, batch: int) -> list[Found]:
        """Layouts of one kind on at most so many devices, with so many sequences of each step."""
        key = (kind, devices, batch)
        if key not in self.looked:
            unlimited: dict[str, Any] = dict.fromkeys(WHOLE)
            free = replace(
                self.resolved,
                job=replace(self.resolved.job, global_batch=batch, batch_low=None, batch_fixed=False),
                site=replace(self.resolved.site, power_w=None),
                devices=(max(int(NARROW * devices), 1), devices),
                scenario=replace(self.resolved.scenario, **unlimited),
            )
            founds, _, _ = search.search_machine(free, kind, "wall", self.progress)
            self.looked[key] = [found for found in founds if found.feasible.any()]
        return self.looked[key]

    # --- One mix --------------------------------------------------------------------------------------------

    def lines_s(self, plans: Sequence[Plan]) -> tuple[float, ...]:
        """What the lines add to a step of parts with these layouts, by the number of sites that take part. [s]"""
        if self.asked.line_bytes_per_s is None:
            return (0.0,)
        stacks = [plan.question.machine.stack for plan in plans]
        message = network.message_bytes(
            plans[0].circumstances.parameters,
            max(plan.question.machine.stack.sent_gradient_bytes(plan.question.job.precision) for plan in plans),
        )
        hidden, window = min(s.dp_hidden_fraction for s in stacks), min(window_s(plan) for plan in plans)
        added = []
        for sites in range(1, len(self.asked.sites) + 1):
            sent = wan.sites_all_reduce_s(message, sites, self.asked.line_bytes_per_s, self.asked.line_latency_s)
            added.append(float(wan.per_step_s(network.exposed_s(sent, hidden, window), self.asked.steps_between)))
        return tuple(added)

    def plan(self, pair: Pair, choice: Choice, *, trimmed: bool) -> Plan:
        """A layout in full; ``trimmed`` to the purchase units that it needs."""
        bench = choice.found.bench
        layouts = choice.found.candidates.layouts.take(np.array([choice.row]))
        cuts = bench.cuts.take(layouts.cut)
        layouts = replace(layouts, cut=np.zeros(1, np.int64))
        if trimmed:
            bought = space.bought_devices(bench.question, used_devices(layouts, cuts), 0)
            layouts = replace(layouts, bought_devices=bought)
        circumstances = premises.circumstances_of(self.at(pair.site), pair.kind)
        return make_plan(bench.question, circumstances, cuts, layouts)

    def joined(self, plans: Mapping[Pair, Plan]) -> Mix:
        """The job on parts with these layouts."""
        batches = {pair: int(plan.layouts.global_batch[0]) for pair, plan in plans.items()}
        batch = sum(batches.values())
        own_s = {pair: float(plan.step.time.total_s[0]) for pair, plan in plans.items()}
        slowest_s = max(own_s.values())
        lines_s = self.lines_s(list(plans.values()))
        line_s = lines_s[len({pair.site for pair in plans}) - 1]
        # Of burned-in machines: what burn-in adds is counted once, over the time of the whole job.
        failures = {
            pair: 1 / float(run.steady_mtbf_s(plan.circumstances, plan.run.fleet)[0]) for pair, plan in plans.items()
        }
        given = {
            pair: _beside(plan, sum(failures.values()) - failures[pair], batches[pair] / batch)
            if len(plans) > 1
            else plan.circumstances
            for pair, plan in plans.items()
        }
        done = {pair: _shared_work(plan, slowest_s - own_s[pair], line_s, batch) for pair, plan in plans.items()}
        fleets = {pair: run.fleet_of(given[pair], one.used_devices, one.bought_devices) for pair, one in done.items()}
        courses = {pair: run.progress_of(given[pair], done[pair], fleets[pair]) for pair in plans}
        # All end together, with the one that loses most.
        course = max(courses.values(), key=lambda one: float(one.wall_s[0]))
        parts = []
        for pair, plan in plans.items():
            at_site = sum(count for other, count in batches.items() if other.site == pair.site)
            own_share = courses[pair].storage_share_fraction * (batches[pair] / at_site)
            own = replace(course, storage_share_fraction=own_share)
            parts.append(
                Part(
                    pair=pair,
                    plan=plan,
                    circumstances=given[pair],
                    work=done[pair],
                    run=run.priced(given[pair], done[pair], fleets[pair], own),
                    batch_share_fraction=batches[pair] / batch,
                    wait_s=slowest_s - own_s[pair],
                )
            )
        return Mix(parts=tuple(parts), step_s=slowest_s, line_s=line_s, lines_s=lines_s, global_batch=batch)

    def realised(self, pairs: Sequence[Pair], units: IntArray, offers: Offers) -> Mix | Pair:
        """The job on these units, each part with its best layout; or the pair that has none with its share."""
        mixes: list[Mix] = []
        for aims in ((1.0,), AIMS):  # other layouts hide other parts of what the lines carry
            found = self.fastest(pairs, units, offers, aims)
            if isinstance(found, Pair):
                missing = found
            else:
                mixes += found
        return min(mixes, key=lambda one: (one.step_s + one.line_s) / one.global_batch) if mixes else missing

    def fastest(
        self, pairs: Sequence[Pair], units: IntArray, offers: Offers, aims: Sequence[float]
    ) -> list[Mix] | Pair:
        """The fastest jobs of parts whose batches are near some multiples of their shares."""
        speeds = offers.tokens_per_s * units
        taken = [index for index in range(len(pairs)) if units[index] > 0]
        target, seq_len = self.resolved.job.global_batch, self.resolved.job.seq_len
        rows: list[tuple[list[Choice], IntArray, FloatArray]] = []
        for index in taken:
            kind, devices = pairs[index].kind, int(units[index] * offers.devices[index])
            share = target * speeds[index] / speeds.sum()
            batches = dict.fromkeys(max(round(share * aim), 1) for aim in aims)
            founds = [found for batch in batches for found in self.layouts_of(kind, devices, batch)]
            choices = [Choice(found=f, row=int(row)) for f in founds for row in np.flatnonzero(f.feasible)]
            if not choices:
                return pairs[index]
            made = np.array([int(c.found.candidates.layouts.global_batch[c.row]) for c in choices])
            tokens_per_s = np.array([float(c.found.candidates.tokens_per_s[c.row]) for c in choices])
            rows.append((choices, made, made * seq_len / tokens_per_s))
        several = len({pairs[index].site for index in taken}) > 1
        ways = together(
            [(made, times) for _, made, times in rows],
            target,
            is_exact=self.resolved.job.batch_fixed,
            number=MOST_WAYS if several else 1,
        )
        plans = [
            {
                pairs[i]: self.plan(pairs[i], part[0][row], trimmed=True)
                for i, part, row in zip(taken, rows, way, strict=True)
            }
            for way in ways
        ]
        return [self.joined(one) for one in plans]

    # --- Many -----------------------------------------------------------------------------------------------

    def offers(self, pairs: Sequence[Pair], mixes: Mapping[Pair, Mix]) -> Offers:
        """What a unit of each pair gives, from the last mix that had some."""
        names = ("tokens_per_s", "power_w", "cost", "energy", "carbon", "water")
        columns: dict[str, list[float]] = {name: [] for name in names}
        seq_len = self.resolved.job.seq_len
        for pair in pairs:
            mix = mixes[pair]
            part = next(part for part in mix.parts if part.pair == pair)
            units = float(part.run.fleet.units[0])
            batch = int(part.plan.layouts.global_batch[0])
            money = float(cost_usd(part.run)[0]) - part.staff_usd
            columns["tokens_per_s"].append(batch * seq_len / (mix.step_s - part.wait_s) / units)
            columns["power_w"].append(float(part.run.energy.peak_facility_w[0]) / units)
            columns["cost"].append(money / units / mix.wall_s)
            columns["energy"].append(float(part.run.energy.facility_kwh[0]) / units / mix.wall_s)
            columns["carbon"].append(float(part.run.carbon.total_kg_co2e[0]) / units / mix.wall_s)
            columns["water"].append(float(part.run.energy.water_m3[0]) / units / mix.wall_s)
        kinds = np.array([pair.kind for pair in pairs])
        devices = np.array([machine.system.devices for machine in self.resolved.hardware])[kinds]
        return Offers(
            kind=kinds,
            site=np.array([pair.site for pair in pairs]),
            devices=devices,
            least=np.ones(len(pairs), dtype=np.int64),
            most=np.array([self.most_devices(pair.kind) for pair in pairs]) // devices,
            **{name: np.array(column) for name, column in columns.items()},
        )

    def bounds(self, mix: Mix) -> Bounds:
        """What the program must keep to, with losses and spread as they are in a mix."""
        resolved, asked = self.resolved, self.asked
        steps = float(mix.progress.steps[0])
        goodput = steps * (mix.step_s + mix.line_s) / mix.wall_s
        surely = max(float(mix.progress.finish_s(resolved.confidence)[0]), mix.wall_s)
        deadline = resolved.scenario.deadline_s
        caps = [np.inf if site.power_w is None else site.power_w for site in asked.sites]
        return Bounds(
            tokens=steps * mix.global_batch * resolved.job.seq_len / mix.kept_fraction,
            goodput_fraction=goodput,
            lines_s=steps * np.array(mix.lines_s),
            fixed={"cost": mix.staff_usd / mix.wall_s},
            deadline_s=np.inf if deadline is None else deadline * mix.wall_s / surely,
            budget_usd=resolved.scenario.budget_usd or np.inf,
            water_m3=resolved.scenario.water_m3 or np.inf,
            carbon_kg=resolved.scenario.carbon_kg or np.inf,
            site_power_w=np.array(caps),
            power_w=asked.power_w or np.inf,
            counts=np.array([self.most_devices(kind) for kind in range(len(resolved.hardware))]),
            devices=resolved.devices,
        )

    def broken(self, mix: Mix) -> list[str]:
        """Demands that a mix does not keep."""
        return [name for name, limit, _, value in self.limits(mix) if value > limit * (1 + 1e-9)]

    def limits(self, mix: Mix) -> list[tuple[str, float, str, float]]:
        """What is asked for at most: name, value, unit, and what a mix has."""
        resolved, asked = self.resolved, self.asked
        surely = max(float(mix.progress.finish_s(resolved.confidence)[0]), mix.wall_s)
        found: list[tuple[str, float | None, str, float]] = [
            ("deadline", resolved.scenario.deadline_s, "s", surely),
            ("budget", resolved.scenario.budget_usd, "USD", mix.totals["cost"]),
            ("water", resolved.scenario.water_m3, "m3", mix.totals["water"]),
            ("carbon", resolved.scenario.carbon_kg, "kg CO2e", mix.totals["carbon"]),
            ("power", asked.power_w, "W", sum(mix.power_w(site) for site in range(len(asked.sites)))),
            ("devices", float(resolved.devices[1]), "devices", mix.totals["devices"]),
        ]
        for number, site in enumerate(asked.sites):
            found.append((f"site power of {site.name}", site.power_w, "W", mix.power_w(number)))
        for kind, machine in enumerate(resolved.hardware):
            count = asked.counts.get(machine.system.name)
            have = sum(int(p.run.fleet.devices[0]) for p in mix.parts if p.pair.kind == kind)
            found.append((f"count of {machine.system.name}", None if count is None else float(count), "devices", have))
        return [(name, limit, unit, value) for name, limit, unit, value in found if limit is not None]

    def settled(self, pairs: Sequence[Pair], seeds: Mapping[Pair, Mix], objective: str, freed: str = "") -> list[Mix]:
        """Mixes of some pairs, as the program and the layouts follow each other.

        ``freed`` is the name of a demand that is left out.
        """
        known = dict(seeds)
        last = max(seeds.values(), key=lambda mix: mix.totals["devices"])
        mixes: list[Mix] = []
        seen: set[tuple[int, ...]] = set()
        margin = 1.0
        least = np.ones(len(pairs), dtype=np.int64)
        for _ in range(MOST_TRIES):
            if len(mixes) == ROUNDS:
                break
            offers = self.offers(pairs, known)
            smallest = SMALLEST_SHARE * last.tokens_per_s / offers.tokens_per_s
            offers = replace(offers, least=np.maximum(least, np.ceil(smallest).astype(np.int64)))
            bounds = self.freed(self.bounds(last), freed)
            bounds = replace(bounds, deadline_s=bounds.deadline_s * margin)
            units = allot.allot(offers, bounds, objective)
            if units is None:  # the fastest is most likely to be nearly there
                units = allot.allot(offers, bounds.endless, "wall")
            if units is None:
                break
            mix = self.realised(pairs, units, offers)
            if isinstance(mix, Pair):  # too few units or sequences for any layout
                few = int(units[pairs.index(mix)])
                least = np.where([pair.kind == mix.kind for pair in pairs], np.maximum(least, 2 * few), least)
                continue
            assumed = float(offers.tokens_per_s @ units) * last.kept_fraction
            agreement = Agreement(
                rounds=len(mixes) + 1,
                speed_residual_fraction=mix.tokens_per_s / assumed - 1,
                units_residual=int(np.abs(units - mix.units(pairs)).max()),
            )
            last = replace(mix, agreement=agreement)
            mixes.append(last)
            known |= {part.pair: last for part in last.parts}
            # Layouts come in steps: what just missed the deadline is asked for a little more the next time.
            late = next((value / limit for name, limit, _, value in self.limits(last) if name == "deadline"), 0.0)
            margin = min(max(margin / late, LEAST_MARGIN), 1.0) if late > 1 else 1.0
            key = (*units.tolist(), *(int(part.plan.layouts.global_batch[0]) for part in last.parts))
            is_same = abs(agreement.speed_residual_fraction) < AGREED and agreement.units_residual == 0
            if key in seen or is_same:
                break
            seen.add(key)
        return mixes

    def freed(self, bounds: Bounds, name: str) -> Bounds:
        """The same without one of the demands."""
        if name == "deadline":
            return replace(bounds, deadline_s=np.inf)
        if name == "budget":
            return replace(bounds, budget_usd=np.inf)
        if name == "water":
            return replace(bounds, water_m3=np.inf)
        if name == "carbon":
            return replace(bounds, carbon_kg=np.inf)
        if name == "power":
            return replace(bounds, power_w=np.inf)
        if name == "devices":
            return replace(bounds, devices=(1, 2**53), counts=np.full_like(bounds.counts, 2**53))
        for number, site in enumerate(self.asked.sites):
            if name == f"site power of {site.name}":
                caps = bounds.site_power_w.copy()
                caps[number] = np.inf
                return replace(bounds, site_power_w=caps)
        return bounds


def together(
    parts: Sequence[tuple[IntArray, FloatArray]], batch: int, *, is_exact: bool = False, number: int = 1
) -> list[list[int]]:
    """A layout for each part, such that all together are fastest; and the next such ways, with other steps.

    All parts wait for the slowest, so for each length of the step a part takes the layout that does most in it.

    Parameters
    ----------
    parts : sequence of (ndarray, ndarray)
        Sequences of a step, and its length, of each layout of each part. [-, s]
    batch : int
        Sequences that all parts should come to; the nearest where none is within the tolerance of a batch.
    is_exact : bool
        Whether it is to be met exactly, if it can be.
    number : int
        Most ways to give, best first.

    Examples
    --------
    The first part waits for the second one rather than doing fewer sequences:

    >>> together([(np.array([4, 6]), np.array([1.0, 1.5])), (np.array([10, 4]), np.array([2.0, 1.0]))], 16)
    [[1, 0]]
    """
    ends = np.unique(np.concatenate([times for _, times in parts]))
    ends = ends[ends >= max(times.min() for _, times in parts)]
    sums = np.zeros(len(ends))
    for batches, times in parts:
        order = np.argsort(times, kind="stable")
        most = np.maximum.accumulate(batches[order])
        sums += most[np.searchsorted(times[order], ends, side="right") - 1]
    off = np.abs(sums / batch - 1)
    near = off <= max(off.min(), 0.0 if is_exact else BATCH_TOLERANCE) + 1e-12
    ways = []
    for best in np.argsort(np.where(near, -sums / ends, 0.0), kind="stable")[: min(number, int(near.sum()))]:
        way = []
        for batches, times in parts:
            rows = np.flatnonzero(times <= ends[best])
            way.append(int(rows[np.lexsort((times[rows], -batches[rows]))[0]]))
        ways.append(way)
    return ways


# --- Answers ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The mix to propose, the best with one kind of machine, or why there is none."""

    shop: Shop
    mix: Mix | None
    single: Mix | None
    """Best that one kind of machine does under the same constraints."""
    blocking: tuple[Blocking, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def feasible(self) -> bool:
        """Whether there is a mix that keeps to everything."""
        return self.mix is not None

    def document(self) -> dict[str, Any]:
        """The answer as plain JSON values."""
        return {
            "schema": SCHEMA,
            "version": clusterplan.__version__,
            "inputs": _inputs(self.shop),
            "feasible": self.feasible,
            "parts": [] if self.mix is None else [part_document(self.shop, self.mix, p) for p in self.mix.parts],
            "total": None if self.mix is None else total_document(self.shop, self.mix),
            "best_single": None if self.single is None else total_document(self.shop, self.single),
            "saving": _saving(self.mix, self.single),
            "convergence": _convergence(self.shop.asked, self.mix),
            "agreement": None if self.mix is None else dataclasses.asdict(self.mix.agreement),
            "warnings": list(self.warnings),
            "evidence": _evidence(self.shop, self.mix),
            "blocking": [dataclasses.asdict(one) for one in self.blocking],
        }


def objective_of(resolved: Resolved, asked: Asked) -> str:
    """What is minimised unless the user says: cost under a deadline, else time."""
    scenario = resolved.scenario
    if scenario.long_context is not None:
        text = "a mix trains all of its tokens in sequences of one length; size and compare plan such a phase"
        raise ClusterplanError(text, where="mix: --long-context")
    if scenario.objective is not None:
        return scenario.objective
    if scenario.deadline_s is not None:
        return "cost"
    limited = any(getattr(scenario, name) is not None for name in (*WHOLE, "devices"))
    if not limited and not asked.counts and not asked.power_w:
        text = "nothing limits the mix; give --deadline, --budget, --counts, --devices or --objective"
        raise ClusterplanError(text, where="mix")
    return "wall"


def mix(resolved: Resolved, asked: Asked, progress: Progress | None = None) -> Answer:
    """How many units of each machine at each site, and the job on them."""
    lacking = [one.system.name for one in resolved.hardware if not run.is_priced(resolved.prices, one.system.name)]
    if len(lacking) == len(resolved.hardware):
        raise ClusterplanError("; ".join(run.no_price(resolved.prices, name) for name in lacking), where="mix")
    shop = Shop(resolved=resolved, asked=asked, objective=objective_of(resolved, asked), progress=progress)
    seeds: dict[Pair, Mix] = {}
    alone: dict[Pair, Mix] = {}
    for kind in range(len(resolved.hardware)):
        for site in range(len(asked.sites)):
            pair = Pair(kind=kind, site=site)
            founds, best = shop.sized(pair)
            if best is not None:
                seeds[pair] = alone[pair] = shop.joined({pair: shop.plan(pair, best, trimmed=False)})
            elif founds:
                seeds[pair] = shop.joined({pair: shop.plan(pair, _usable(founds), trimmed=True)})
    if not seeds:
        return Answer(shop=shop, mix=None, single=None, warnings=(*resolved.warnings, *shop.remarks))
    pairs = list(seeds)
    by_kind = {kind: [pair for pair in pairs if pair.kind == kind] for kind in {pair.kind for pair in pairs}}
    singles = [one for one in alone.values() if not shop.broken(one)]
    if len(by_kind) > 1 or len(pairs) == 1:
        for some in by_kind.values():
            if len(some) > 1:
                mixes = shop.settled(some, {pair: seeds[pair] for pair in some}, shop.objective)
                singles += [one for one in mixes if not shop.broken(one)]
    mixes = shop.settled(pairs, seeds, shop.objective) if len(pairs) > 1 else []
    kept = [one for one in mixes if not shop.broken(one)]
    if len(by_kind) == 1:
        singles += kept
    single = min(singles, key=lambda one: one.totals[shop.objective], default=None)
    best_mix = min([*singles, *kept], key=lambda one: one.totals[shop.objective], default=None)
    stops: tuple[Blocking, ...] = ()
    if best_mix is None:
        stops, more = _blocking(shop, pairs, seeds, [*mixes, *seeds.values()])
        best_mix = min(more, key=lambda one: one.totals[shop.objective], default=None)
        stops = () if more else stops
    return Answer(
        shop=shop,
        mix=best_mix,
        single=single,
        blocking=stops,
        warnings=(*resolved.warnings, *shop.remarks, *([] if best_mix is None else _warnings(shop, best_mix))),
    )


def _usable(founds: list[Found]) -> Choice:
    """Of layouts that do not keep to everything alone, the one with most speed a device on what there is."""
    pools = []
    for found in founds:
        within = ~found.broken["devices"] & ~found.broken.get("site power", np.zeros_like(found.broken["devices"]))
        rows = np.flatnonzero(within if within.any() else np.ones_like(within))
        speed = found.candidates.tokens_per_s[rows]
        row = int(rows[np.argmax(speed if within.any() else speed / found.outcome.fleet.devices[rows])])
        pools.append((bool(within.any()), float(found.candidates.tokens_per_s[row]), found, row))
    _, _, found, row = max(pools, key=lambda one: one[:2])
    return Choice(found=found, row=row)


def _blocking(
    shop: Shop, pairs: Sequence[Pair], seeds: Mapping[Pair, Mix], tried: Sequence[Mix]
) -> tuple[tuple[Blocking, ...], list[Mix]]:
    """Which demands stand in the way: the nearest value of each alone with which there is a mix.

    Mixes that keep to everything after all, found on the way, come with them.
    """
    measures = {"deadline": "wall", "budget": "cost", "power": "devices", "devices": "devices"}
    measures |= {"water": "water", "carbon": "carbon"}
    measures |= {f"site power of {site.name}": f"power {number}" for number, site in enumerate(shop.asked.sites)}
    measures |= {f"count of {m.system.name}": f"kind {number}" for number, m in enumerate(shop.resolved.hardware)}
    stops: list[Blocking] = []
    kept_all: list[Mix] = []
    for name, required, unit, _ in shop.limits(tried[0]):
        if kept_all:
            break
        mixes = [] if name.startswith("count") else shop.settled(pairs, seeds, measures[name], freed=name)
        values = {id(one): {n: v for n, _, _, v in shop.limits(one)}[name] for one in [*tried, *mixes]}
        kept_all += [one for one in mixes if not shop.broken(one)]
        kept = [values[id(one)] for one in mixes if set(shop.broken(one)) <= {name}]
        if kept or any(name in shop.broken(one) for one in tried):
            stops.append(
                Blocking(
                    constraint=name,
                    required=required,
                    best=min(kept or values.values()),
                    unit=unit,
                    nearest_feasible=min(kept, default=None),
                )
            )
    standing = [one for one in stops if one.nearest_feasible is not None]
    return tuple(standing or stops), kept_all


def _warnings(shop: Shop, mix: Mix) -> list[str]:
    found = []
    job = shop.resolved.job
    if job.batch_fixed and mix.global_batch != job.global_batch:
        text = f"the batch is {mix.global_batch:,} sequences, not {job.global_batch:,}"
        found.append(f"{text}: parts of different speed make no other near it")
    elif abs(mix.global_batch / job.global_batch - 1) > BATCH_TOLERANCE:
        text = f"the batch is {mix.global_batch:,} sequences where {job.global_batch:,} were aimed at"
        found.append(f"{text}: the layouts of the parts make none nearer")
    for part in mix.parts:
        where = f"{part.plan.question.machine.system.name} at {shop.asked.sites[part.pair.site].name}"
        if part.wait_s > 0.05 * mix.step_s:
            found.append(f"{where} waits {part.wait_s / mix.step_s:.0%} of each step for the slowest part")
        found += [f"{where}: {text}" for text in cautions.host_warnings(part.plan)]
    found += cautions.batch_warnings(
        critical_batch(mix.parts[0].plan.question, mix.global_batch), mix.parts[0].plan.question.job.seq_len
    )
    sure = mix.progress.deadline_probability
    if sure is not None and float(sure[0]) < cautions.SURE:
        text = f"--confidence {cautions.SURE} plans for more"
        found.append(f"the deadline is met with probability {format_probability(float(sure[0]))}; {text}")
    return found


# --- Documents --------------------------------------------------------------------------------------------------


def _inputs(shop: Shop) -> dict[str, Any]:
    asked = shop.asked
    return inputs_document(shop.resolved, shop.objective) | {
        "site": ", ".join(site.name for site in asked.sites),
        "sites": [site.name for site in asked.sites],
        "site_power_w": {site.name: None if site.power_w is None else float(site.power_w) for site in asked.sites},
        "counts": dict(asked.counts),
        "line_bytes_per_s": asked.line_bytes_per_s,
        "line_latency_s": asked.line_latency_s,
        "steps_between": asked.steps_between,
    }


def part_document(shop: Shop, mix: Mix, part: Part) -> dict[str, Any]:
    """One part: its layout as a plan has it, its share of the job, and what it waits for."""
    share = replace(
        part.plan,
        circumstances=part.circumstances,
        run=part.run,
        draw=draw.draw(part.circumstances, part.work, part.run),
        causes=causes.interruptions_by_cause(part.circumstances, part.run),
        money=money(part.circumstances, part.run),
    )
    return plan_document(share) | {
        "site": shop.asked.sites[part.pair.site].name,
        "batch_share_fraction": part.batch_share_fraction,
        "wait_s": part.wait_s,
        "line_exposed_s": mix.line_s,
    }


def total_document(shop: Shop, mix: Mix) -> dict[str, Any]:
    """What all parts come to."""
    runs = [part.run for part in mix.parts]
    progress, totals = mix.progress, mix.totals
    sure = progress.deadline_probability
    sites = {part.pair.site for part in mix.parts}
    return {
        "hardware": list(dict.fromkeys(part.plan.question.machine.system.name for part in mix.parts)),
        "sites": [shop.asked.sites[number].name for number in sorted(sites)],
        "devices": int(totals["devices"]),
        "units": sum(int(one.fleet.units[0]) for one in runs),
        "global_batch": mix.global_batch,
        "step_s": mix.step_s + mix.line_s,
        "line_exposed_s": mix.line_s,
        "steps": int(progress.steps[0]),
        "wall_s": mix.wall_s,
        "p90_s": float(progress.p90_s[0]),
        "goodput_fraction": float(progress.goodput_fraction[0]),
        "mtbf_s": float(progress.mtbf_s[0]) if np.isfinite(progress.mtbf_s[0]) else None,
        "deadline_probability": None if sure is None else float(sure[0]),
        "mean_facility_w": sum(float(one.energy.mean_facility_w[0]) for one in runs),
        "peak_facility_w": sum(float(one.energy.peak_facility_w[0]) for one in runs),
        "site_peak_w": {shop.asked.sites[number].name: mix.power_w(number) for number in sorted(sites)},
        "facility_kwh": totals["energy"],
        "total_kg_co2e": totals["carbon"],
        "water_m3": totals["water"],
        "total_usd": totals["cost"],
        "usd_per_million_tokens": sum(
            float(each[0]) for one in runs for each in [one.usd_per_million_tokens] if each is not None
        ),
    }


def _saving(mix: Mix | None, single: Mix | None) -> dict[str, float] | None:
    """What the mix has less of than the best with one kind of machine."""
    if mix is None or single is None:
        return None
    names = {"wall": "wall_s", "cost": "total_usd", "energy": "facility_kwh", "carbon": "total_kg_co2e"}
    return {names[key]: single.totals[key] - mix.totals[key] for key in names}


def _convergence(asked: Asked, mix: Mix | None) -> str:
    """What is assumed of the training."""
    if mix is None or len(mix.parts) == 1:
        return "one part: nothing is assumed beyond what is of any cluster"
    several = len({part.pair.site for part in mix.parts}) > 1
    return SELDOM.format(every=asked.steps_between) if several and asked.steps_between > 1 else SYNCHRONOUS


def _evidence(shop: Shop, mix: Mix | None) -> list[dict[str, Any]]:
    """Figures of all parts, then the defaults."""
    plans = [None] if mix is None else [part.plan for part in mix.parts]
    rows = {str(row["what"]): row for plan in plans for row in evidence(shop.resolved, plan)}
    if [site.name for site in shop.asked.sites] != [shop.resolved.site.name]:
        rows.pop("input: site", None)
    return sorted(rows.values(), key=lambda row: str(row["what"]).startswith("input: "))
