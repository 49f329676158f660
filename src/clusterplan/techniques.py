"""What each way to lose less to failures is worth: the run of a plan again, with one thing changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from clusterplan import run
from clusterplan.plan import Plan, work
from clusterplan.site import Operations

RECALL = 0.5
"""Assumed: share of failures that are foreseen where alarms are acted on; predictors in studies have 0.3 to 0.85."""
FASTER = 0.5
"""A restart that takes half as long."""
CHECKED_S = 60.0
"""Assumed: where steps are checked, a corruption is found within a minute. [s]"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Technique:
    """One thing changed, all else as in the plan."""

    technique: str
    change: str
    """As figures to ``--set``."""
    goodput_fraction: float
    """Goodput with it."""
    wall_s: float
    """Expected length with it. [s]"""
    saved_s: float
    """How much shorter that is; negative if it is longer. [s]"""
    saved_usd: float | None
    """How much less the run costs, without what the technique itself may cost; None without a price. [USD]"""


def techniques(plan: Plan) -> tuple[Technique, ...]:
    """Worth of each technique that the plan does not use, or of one that it does, by leaving it out."""
    step = work(plan.cuts, plan.layouts, plan.step)
    before, found = plan.run, []
    for name, changes in choices(plan.circumstances.operations).items():
        operations = replace(plan.circumstances.operations, **changes)
        after = run.evaluate(replace(plan.circumstances, operations=operations), step)
        found.append(
            Technique(
                technique=name,
                change=" ".join(f"operations.{key}={_said(value)}" for key, value in changes.items()),
                goodput_fraction=float(after.progress.goodput_fraction[0]),
                wall_s=float(after.progress.wall_s[0]),
                saved_s=float(before.progress.wall_s[0] - after.progress.wall_s[0]),
                saved_usd=None
                if before.cost is None or after.cost is None
                else float(before.cost.total_usd[0] - after.cost.total_usd[0]),
            )
        )
    return tuple(found)


def choices(operations: Operations) -> Mapping[str, Mapping[str, Any]]:
    """Changes by the name of the technique."""
    ways = {
        "checkpoints in storage only": {"recovery": "storage"},
        "copies in the memory of peers": {"recovery": "memory"},
        "other replicas go on": {"recovery": "replica"},
    }
    offered: dict[str, Mapping[str, Any]] = {
        name: change for name, change in ways.items() if change["recovery"] != operations.recovery
    }
    blocking = operations.asynchronous_checkpoint
    name = "blocking checkpoints" if blocking else "asynchronous checkpoints"
    offered[name] = {"asynchronous_checkpoint": not blocking}
    if operations.foreseen_fraction:
        offered["no alarm foresees a failure"] = {"foreseen_fraction": 0.0}
    elif operations.recovery == "storage":
        offered["half of the failures foreseen"] = {"foreseen_fraction": RECALL}
    parts = ("detect_s", "diagnose_s", "replace_s", "launch_s", "warmup_s")
    offered["restarts in half the time"] = {part: getattr(operations, part) * FASTER for part in parts}
    if operations.silent_fraction and operations.silent_found_s > CHECKED_S:
        offered["corruption found at once"] = {"silent_found_s": CHECKED_S}
    if operations.planned_stop_s:
        offered["no planned stops"] = {"planned_stop_s": 0.0}
    return offered


def _said(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)
