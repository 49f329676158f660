"""The answer to a question at many values of one or two of its parts, and what more devices bring."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from clusterplan import premises, search, shapes
from clusterplan.arrays import FloatArray
from clusterplan.catalog import Catalog
from clusterplan.choose import knee
from clusterplan.errors import ClusterplanError
from clusterplan.plan import Answer, cost_usd
from clusterplan.scenario import Resolved, override, resolve
from clusterplan.units import parse_range

MOST_AXES = 2
"""A table has no room for more."""

POINTS = 8
"""Points of a range where nobody says."""

MOST_POINTS = 1000
"""Points of all axes together: each is a search."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """One part of a question and the values that it takes."""

    key: str
    """Option without its dashes, as ``devices``, or figure of a profile, as ``site.usd_per_kwh``."""
    values: tuple[str, ...]
    """As people write them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One question and its answer."""

    values: tuple[str, ...]
    """One for each axis."""
    answer: Answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaling:
    """What more devices bring; fields have shape ``(point,)``, of the points that have a plan, smallest first."""

    points: tuple[Point, ...]
    efficiency: FloatArray
    """Speed for each device over that of the smallest."""
    on_front: tuple[bool, ...] | None
    """Whether no other point is faster and cheaper; None where a point has no price."""
    knee: int | None
    """Point of the front where more devices stop paying: what ``size`` takes if nothing is asked."""


_NUMBER = re.compile(r"([-+]?[0-9][0-9_,]*(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?)(.*)")


def read_axis(text: str, points: int, unit: int) -> Axis:
    """An axis as people write it.

    Parameters
    ----------
    text : str
        ``key=a,b,c`` for these values, ``key=a:b`` for a range; devices grow by equal factors, all else by equal steps.
    points : int
        Values of a range.
    unit : int
        Devices of one purchase unit, of which numbers of devices are multiples.

    Examples
    --------
    >>> read_axis("site.usd_per_kwh=0.04:0.10", 4, 8).values
    ('0.04', '0.06', '0.08', '0.1')
    >>> read_axis("devices=1024:8192", 4, 8).values
    ('1024', '2048', '4096', '8192')
    >>> read_axis("deadline=60d,90d", 4, 8).values
    ('60d', '90d')
    """
    key, equals, given = text.partition("=")
    key = key.strip().removeprefix("--")
    if not (equals and key and given.strip()):
        raise ClusterplanError(f"must be KEY=A:B or KEY=A,B,C, not {text!r}", where="--over")
    key = key if "." in key else key.replace("-", "_")
    values = tuple(part.strip() for part in given.split(","))
    if points > MOST_POINTS:
        raise ClusterplanError(f"is {points:,}; at most {MOST_POINTS:,}", where="--points")
    if len(values) == 1 and ":" in given:
        values = _devices(given, points, unit) if key == "devices" else _range(given, points, text)
    if len(set(values)) < len(values) or not all(values):
        raise ClusterplanError(f"has a value twice, or an empty one: {given!r}", where=f"--over {key}")
    return Axis(key=key, values=values)


def _devices(given: str, points: int, unit: int) -> tuple[str, ...]:
    low, high = parse_range(given, where="--over devices")
    exact = np.geomspace(max(low, unit), max(high, unit), points) / unit
    return tuple(dict.fromkeys(str(int(n) * unit) for n in np.round(exact)))


def _range(given: str, points: int, text: str) -> tuple[str, ...]:
    ends = [_NUMBER.fullmatch(end.strip()) for end in given.split(":")]
    if len(ends) != 2 or None in ends:
        raise ClusterplanError(f"must be a range A:B of numbers, not {given!r}", where=f"--over {text.split('=')[0]}")
    (low, first), (high, last) = ((end[1], end[2]) for end in ends if end is not None)
    if first not in ("", last):
        raise ClusterplanError(f"has two units, {first} and {last}", where=f"--over {text.split('=')[0]}")
    numbers = np.linspace(float(re.sub("[_,]", "", low)), float(re.sub("[_,]", "", high)), points)
    return tuple(f"{number:.6g}{last}" for number in numbers)


def sweep(
    resolved: Resolved,
    catalog: Catalog,
    axes: Sequence[Axis],
    progress: Callable[[float, str], None] | None = None,
    *,
    may_stop: bool = False,
) -> tuple[Point, ...]:
    """Answers at all combinations of the values of the axes, the last axis fastest.

    Parameters
    ----------
    resolved : Resolved
        The question.
    catalog : Catalog
        Where profiles are found.
    axes : sequence of Axis
        One or two.
    progress : callable
        Called with the share that is done and the point that comes.
    may_stop : bool
        Whether a keyboard interrupt ends it with the points that are done, if there are any.
    """
    if not 1 <= len(axes) <= MOST_AXES:
        raise ClusterplanError(f"is given {len(axes)} times; once or twice is right", where="--over")
    if len({axis.key for axis in axes}) < len(axes):
        raise ClusterplanError(f"{axes[0].key} is given twice", where="--over")
    combinations = list(itertools.product(*(axis.values for axis in axes)))
    if len(combinations) > MOST_POINTS:
        raise ClusterplanError(f"has {len(combinations):,} points; at most {MOST_POINTS:,}", where="--over")
    questions = [at_point(resolved, catalog, axes, values) for values in combinations]  # mistakes before any search
    premises.check_prices(questions)
    points: list[Point] = []
    for number, (values, question) in enumerate(zip(combinations, questions, strict=True)):
        try:
            if progress:
                told = ", ".join(f"{axis.key} {value}" for axis, value in zip(axes, values, strict=True))
                progress(number / len(combinations), told)
            points.append(
                Point(values=values, answer=search.answer(question, tuple(range(len(question.hardware))), None))
            )
        except KeyboardInterrupt:
            if not (may_stop and points):
                raise
            break
    return tuple(points)


def at_point(resolved: Resolved, catalog: Catalog, axes: Sequence[Axis], values: Sequence[str]) -> Resolved:
    """The question at one combination of values."""
    pairs = list(zip(axes, values, strict=True))
    given: dict[str, object] = {axis.key: value for axis, value in pairs if "." not in axis.key}
    given["sets"] = {axis.key: value for axis, value in pairs if "." in axis.key}
    try:
        question = override(resolved.scenario, given)
    except ClusterplanError as problem:
        raise ClusterplanError(problem.message, where=f"--over, {problem.where}", nearest=problem.nearest) from None
    return resolve(question, catalog, lambda model: shapes.parameters(model).active)


def scaling(axes: Sequence[Axis], points: Sequence[Point]) -> Scaling | None:
    """What more devices bring, of a sweep over devices alone; None of others, or with fewer than two plans."""
    found = [p for p in points if p.answer.feasible and p.answer.plan is not None]
    if [axis.key for axis in axes] != ["devices"] or len(found) < 2:
        return None
    plans = [p.answer.plan for p in found if p.answer.plan is not None]
    devices = np.array([float(plan.run.fleet.devices[0]) for plan in plans])
    order = np.argsort(devices)
    found, plans, devices = [found[n] for n in order], [plans[n] for n in order], devices[order]
    wall = np.array([float(plan.run.progress.wall_s[0]) for plan in plans])
    efficiency = wall[0] * devices[0] / (wall * devices)
    if any(plan.run.cost is None for plan in plans):
        return Scaling(points=tuple(found), efficiency=efficiency, on_front=None, knee=None)
    cost = np.array([float(cost_usd(plan.run)[0]) for plan in plans])
    front = tuple(
        not any(
            (wall[m] <= wall[n] and cost[m] <= cost[n]) and (wall[m], cost[m]) != (wall[n], cost[n])
            for m in range(len(wall))
        )
        for n in range(len(wall))
    )
    return Scaling(
        points=tuple(found),
        efficiency=efficiency,
        on_front=front,
        knee=knee(wall, cost, devices),
    )
