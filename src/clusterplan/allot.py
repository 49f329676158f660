"""How many purchase units of each kind of machine at each place: a mixed-integer linear program.

A job on several kinds of machines runs at the sum of their speeds, and its length is what it has to do over that sum,
plus what the lines between sites add. Money, energy and carbon are rates of all units times that length. The speed of
the job, one over its length, is concave in the sum of the speeds, so that tangents bound it from above; what is a rate
over that speed is minimised by Dinkelbach's method. Each step is one program for HiGHS, and the result is exact up to
:data:`GAP`.

W. Dinkelbach, "On nonlinear fractional programming," Management Science, vol. 13, no. 7, pp. 492-498, 1967.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace

import numpy as np

from clusterplan.arrays import FloatArray, IntArray

GAP = 1e-6
"""Relative distance from the best at which the program may stop."""

MOST_CUTS = 60
"""Tangents and steps of Dinkelbach's method after which the best so far is taken; a handful are usual."""

LONGEST_S = 20.0
"""Time after which one program gives the best that it has. [s]"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offers:
    """What one purchase unit of each pair of a machine and a site gives and takes; fields have shape ``(pair,)``."""

    kind: IntArray
    """Which kind of machine."""
    site: IntArray
    """Which site."""
    devices: IntArray
    """Devices of a unit."""
    least: IntArray
    """Fewest units, if any."""
    most: IntArray
    """Most units."""
    tokens_per_s: FloatArray
    power_w: FloatArray
    """Highest power at the meter. [W]"""
    cost: FloatArray
    """[USD/s]"""
    energy: FloatArray
    """[kWh/s]"""
    carbon: FloatArray
    """[kg CO2e/s]"""
    water: FloatArray
    """Water of the site. [m3/s]"""

    def take(self, rows: IntArray) -> Offers:
        """Only these pairs."""
        return Offers(**{f.name: getattr(self, f.name)[rows] for f in fields(self)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What the job has to do, and what it must keep to."""

    tokens: float
    goodput_fraction: float = 1.0
    """Share of the time that steps get."""
    lines_s: FloatArray = field(default_factory=lambda: np.zeros(1))
    """What the lines add to all steps together if so many sites take part: ``lines_s[n - 1]`` for ``n``. More than
    there are entries cannot. [s]"""
    fixed: dict[str, float] = field(default_factory=dict)
    """What is paid or drawn whatever the number of units, as the rates of :class:`Offers`."""
    deadline_s: float = np.inf
    budget_usd: float = np.inf
    water_m3: float = np.inf
    carbon_kg: float = np.inf
    site_power_w: FloatArray
    """Most that each site may draw, shape ``(site,)``. [W]"""
    power_w: float = np.inf
    """Most that all sites together may draw. [W]"""
    counts: IntArray
    """Devices that there are of each kind, shape ``(kind,)``."""
    devices: tuple[int, int] = (1, 2**53)
    """Fewest and most devices."""

    @property
    def endless(self) -> Bounds:
        """The same without what holds of the whole job."""
        return replace(self, deadline_s=np.inf, budget_usd=np.inf, water_m3=np.inf, carbon_kg=np.inf)

    @property
    def totals(self) -> dict[str, float]:
        """Most of what is paid by the second, over the whole job."""
        return {"cost": self.budget_usd, "water": self.water_m3, "carbon": self.carbon_kg}


RATES = ("cost", "energy", "carbon", "water")
"""What is paid by the second: :class:`Offers` have the rate of a unit."""


def wall_s(offers: Offers, bounds: Bounds, units: IntArray) -> float:
    """Length of the job on these units. [s]"""
    sites = len(set(offers.site[units > 0].tolist()))
    if not sites or sites > len(bounds.lines_s):
        return float("inf")
    speed = float(offers.tokens_per_s @ units)
    return float((bounds.tokens / speed + bounds.lines_s[sites - 1]) / bounds.goodput_fraction)


def value(offers: Offers, bounds: Bounds, units: IntArray, objective: str) -> float:
    """What an objective counts on these units."""
    if objective == "devices":
        return float(offers.devices @ units)
    wall = wall_s(offers, bounds, units)
    if objective == "wall":
        return wall
    return wall * (float(getattr(offers, objective) @ units) + bounds.fixed.get(objective, 0.0))


def keeps(offers: Offers, bounds: Bounds, units: IntArray, slack: float = 1e-6) -> bool:
    """Whether units keep to all bounds."""
    devices = int(offers.devices @ units)
    power = np.bincount(offers.site, offers.power_w * units, minlength=len(bounds.site_power_w))
    have = np.bincount(offers.kind, offers.devices * units, minlength=len(bounds.counts))
    return bool(
        wall_s(offers, bounds, units) <= bounds.deadline_s * (1 + slack)
        and all(value(offers, bounds, units, name) <= most * (1 + slack) for name, most in bounds.totals.items())
        and np.all(power <= bounds.site_power_w * (1 + slack))
        and power.sum() <= bounds.power_w * (1 + slack)
        and np.all(have <= bounds.counts)
        and bounds.devices[0] <= devices <= bounds.devices[1]
        and np.all((units == 0) | ((units >= offers.least) & (units <= offers.most)))
    )


def allot(offers: Offers, bounds: Bounds, objective: str) -> IntArray | None:
    """Units of each pair with the least of an objective; None if nothing keeps to the bounds.

    Parameters
    ----------
    offers : Offers
        What there is to choose from.
    bounds : Bounds
        What must be kept to.
    objective : str
        ``wall``, ``cost``, ``energy``, ``carbon``, ``water``, ``devices``, or ``power N`` for the power of site ``N``.

    Examples
    --------
    Two kinds, of which the cheaper one is too slow for the deadline with the four units that there are:

    >>> offers = Offers(
    ...     kind=np.array([0, 1]), site=np.zeros(2, int), devices=np.ones(2, int), least=np.ones(2, int),
    ...     most=np.full(2, 10), tokens_per_s=np.array([1.0, 2.0]), power_w=np.ones(2), cost=np.array([1.0, 3.0]),
    ...     energy=np.ones(2), carbon=np.ones(2), water=np.zeros(2),
    ... )
    >>> bounds = Bounds(tokens=60.0, deadline_s=10.0, site_power_w=np.array([np.inf]), counts=np.array([4, 10]))
    >>> allot(offers, bounds, "cost").tolist()
    [4, 1]
    """
    if objective in RATES and not bounds.fixed.get(objective) and objective != "cost":
        none = getattr(offers, objective) == 0
        if none.any():  # units that have none of it are as good as can be, so what they cost decides
            units = allot(replace(offers, most=np.where(none, offers.most, 0)), bounds, "cost")
            if units is not None:
                return units
    found: list[IntArray] = []
    sites = len(set(offers.site.tolist()))
    for number in range(1, min(sites, len(bounds.lines_s)) + 1):
        units = _Program(offers, bounds, number).least(objective)
        if units is not None:
            found.append(units)
    return min(found, key=lambda units: measured(offers, bounds, units, objective), default=None)


def measured(offers: Offers, bounds: Bounds, units: IntArray, objective: str) -> float:
    """What is minimised: an objective, the power of a site, or the devices of a kind."""
    if objective.startswith("power "):
        return float((offers.power_w * units)[offers.site == int(objective.split()[1])].sum())
    if objective.startswith("kind "):
        return float((offers.devices * units)[offers.kind == int(objective.split()[1])].sum())
    return value(offers, bounds, units, objective)


class _Program:
    """The program for at most so many sites.

    Its variables are the units of each pair, whether there are any, whether a site takes part, and the speed of the
    job, relative to that with all units.
    """

    def __init__(self, offers: Offers, bounds: Bounds, sites: int) -> None:
        self.offers, self.bounds = offers, bounds
        self.pairs, self.places = len(offers.kind), len(bounds.site_power_w)
        self.size = 2 * self.pairs + self.places + 1
        # At a rate of R tokens/s the job takes (T/R + L) / G: its speed is R G / (T + L R), concave in R.
        self.top = max(float(offers.tokens_per_s @ offers.most), 1e-300)
        self.line_s = float(bounds.lines_s[sites - 1])
        self.shortest_s = (bounds.tokens / self.top + self.line_s) / bounds.goodput_fraction
        self.rows: list[FloatArray] = []
        self.low: list[float] = []
        self.high: list[float] = []
        self._state(sites)
        for share in (1.0,) if self.line_s == 0 else (1.0, 0.3, 0.1, 0.03):
            self.touch(share)

    def add(self, low: float, high: float, *, units: FloatArray | None = None, speed: float = 0.0) -> None:
        """A row that is linear in the units and the speed, in numbers near 1."""
        row = np.zeros(self.size)
        if units is not None:
            row[: self.pairs] = units
        row[-1] = speed
        self.rows.append(row)
        self.low.append(low)
        self.high.append(high)

    def _state(self, sites: int) -> None:
        """Rows of all bounds."""
        offers, bounds, pairs = self.offers, self.bounds, self.pairs
        for pair in range(pairs):  # none, or from the fewest to the most, at a site that takes part
            row = np.zeros((3, self.size))
            row[0, pair], row[0, pairs + pair] = 1, -offers.least[pair]
            row[1, pair], row[1, pairs + pair] = -1, offers.most[pair]
            row[2, 2 * pairs + offers.site[pair]], row[2, pairs + pair] = 1, -1
            self.rows += list(row)
            self.low += [0.0] * 3
            self.high += [np.inf] * 3
        taking = np.zeros(self.size)
        taking[2 * pairs : 2 * pairs + self.places] = 1
        self.rows.append(taking)
        self.low.append(0.0)
        self.high.append(float(sites))
        for site, limit in enumerate(bounds.site_power_w):
            if np.isfinite(limit):
                self.add(-np.inf, 1.0, units=offers.power_w * (offers.site == site) / limit)
        if np.isfinite(bounds.power_w):
            self.add(-np.inf, 1.0, units=offers.power_w / bounds.power_w)
        for kind, count in enumerate(bounds.counts):
            self.add(-np.inf, float(count), units=(offers.devices * (offers.kind == kind)).astype(float))
        self.add(float(bounds.devices[0]), float(bounds.devices[1]), units=offers.devices.astype(float))
        if np.isfinite(bounds.deadline_s):
            left = bounds.deadline_s * bounds.goodput_fraction - self.line_s
            least = bounds.tokens / left / self.top if left > 0 else np.inf
            self.add(min(least, 2.0), np.inf, units=offers.tokens_per_s / self.top)
        for name, most in bounds.totals.items():
            if np.isfinite(most):
                dearest = most / self.shortest_s
                fixed = bounds.fixed.get(name, 0.0) / dearest
                self.add(-np.inf, -fixed, units=getattr(offers, name) / dearest, speed=-1.0)

    def speed(self, share: float) -> float:
        """Speed of the job with a share of the highest rate, relative to that with all of it."""
        rate = share * self.top
        return rate * self.bounds.goodput_fraction / (self.bounds.tokens + self.line_s * rate) * self.shortest_s

    def touch(self, share: float) -> None:
        """Bound the speed by its tangent at a share of the highest rate."""
        rate, tokens = share * self.top, self.bounds.tokens
        slope = tokens * self.bounds.goodput_fraction / (tokens + self.line_s * rate) ** 2 * self.shortest_s * self.top
        over = self.speed(share) - slope * share
        self.add(-np.inf, over, units=-slope * self.offers.tokens_per_s / self.top, speed=1.0)

    def solve(self, objective: FloatArray) -> tuple[IntArray, float] | None:
        """Units and speed with the least of a linear objective; tangents are added until the speed is a true one."""
        from scipy.optimize import Bounds as Box
        from scipy.optimize import LinearConstraint, milp

        pairs = self.pairs
        upper = np.concatenate([self.offers.most.astype(float), np.ones(pairs + self.places), [1.0]])
        integral = np.concatenate([np.ones(self.size - 1), [0.0]])
        for _ in range(MOST_CUTS):
            result = milp(
                objective,
                integrality=integral,
                bounds=Box(np.zeros(self.size), upper),
                constraints=LinearConstraint(np.array(self.rows), np.array(self.low), np.array(self.high)),
                options={"mip_rel_gap": GAP, "time_limit": LONGEST_S, "presolve": False},
            )
            if result.x is None:
                return None
            units = np.round(result.x[:pairs]).astype(np.int64)
            share = float(self.offers.tokens_per_s @ units) / self.top
            true = self.speed(share)
            if result.x[-1] <= true * (1 + GAP) + 1e-9:
                break
            self.touch(share)
        return units, true

    def least(self, objective: str) -> IntArray | None:
        """Units with the least of an objective; None if nothing keeps to the bounds."""
        linear = np.zeros(self.size)
        if objective == "wall":
            linear[-1] = -1.0
        elif objective == "devices" or objective.startswith(("power ", "kind ")):
            one = np.eye(self.pairs, dtype=np.int64)
            weights = np.array([measured(self.offers, self.bounds, row, objective) for row in one])
            linear[: self.pairs] = weights / max(float(weights @ self.offers.most), 1e-300)
        else:
            return self._least_ratio(objective)
        solved = self.solve(linear)
        return None if solved is None else solved[0]

    def _least_ratio(self, objective: str) -> IntArray | None:
        """Units with the least of a rate over the speed of the job."""
        rates = getattr(self.offers, objective)
        fixed = self.bounds.fixed.get(objective, 0.0)
        scale = max(float(rates @ self.offers.most) + fixed, 1e-300)
        linear = np.zeros(self.size)
        linear[-1] = -1.0
        solved = self.solve(linear)  # the fastest first
        best = None if solved is None else solved[0]
        for _ in range(MOST_CUTS):
            if solved is None or solved[1] <= 0:
                break
            units, speed = solved
            ratio = (float(rates @ units) + fixed) / scale / speed
            linear = np.zeros(self.size)
            linear[: self.pairs] = rates / scale
            linear[-1] = -ratio
            # One unit among thousands matters, so the program is stated in multiples of what there is to gain.
            solved = self.solve(linear / max(ratio * speed, 1e-300))
            best = units
            if solved is None:
                break
            after = (float(rates @ solved[0]) + fixed) / scale / max(solved[1], 1e-300)
            if after >= ratio * (1 - GAP):
                break
            best = solved[0]
        return best
