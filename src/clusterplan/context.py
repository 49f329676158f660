"""The phase of longer sequences at the end of a run: a layout of its own, on the cluster of the plan.

A search takes a token of that phase to be slower than others by a factor. The chosen plan gets a layout for it, which
says what the factor is; where that changes what a plan keeps to, the search is done again with it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from clusterplan import shapes
from clusterplan.arrays import IntArray
from clusterplan.choose import best_choice, blocking, preferred, tied
from clusterplan.errors import LayoutError
from clusterplan.outcome import LongContext
from clusterplan.plan import Blocking, Demands, Plan, long_question, make_plan
from clusterplan.scan import Found, Tally, look, make_bench
from clusterplan.scenario import Scenario
from clusterplan.space import Fixed
from clusterplan.workload import Model

AGREED = 0.02
"""A slowdown that was assumed and the one of the layout agree within this share."""


def flop_slowdown(model: Model, seq_len: int, long_seq_len: int) -> float:
    """FLOP of a token in long sequences over those in others, attention causal."""
    return shapes.flop_per_token(model, long_seq_len).model_causal / shapes.flop_per_token(model, seq_len).model_causal


def lengthened(plan: Plan, scenario: Scenario) -> tuple[Plan, tuple[Blocking, ...]]:
    """The plan with a layout for its phase of longer sequences, and what stands in the way if there is none.

    It uses the devices of the plan, and as many tokens a step. Of layouts that are as fast within the error, those with
    the tensor, pipeline and expert groups of the plan come first: its checkpoint then needs no other cut. Sharding,
    offloading and placement that the scenario sets hold for the phase too, the sizes of groups do not.
    """
    long = plan.circumstances.long
    if long is None:
        return plan, ()
    machine, total = plan.question.machine, int(plan.run.fleet.devices[0])
    question = long_question(plan.question, long, int(plan.layouts.global_batch[0]))
    demands = Demands(
        deadline_s=None,
        confidence=0.5,
        budget_usd=None,
        power_w=None,
        devices=(total, total),
        borderline="borderline" in scenario.allow,
        joined_devices=machine.largest_cluster,
    )
    alone = replace(
        plan.circumstances,
        tokens=long.tokens,
        seq_len=long.seq_len,
        deadline_s=None,
        evaluation_fraction=0.0,
        ramp=None,
        long=None,
    )
    fixed = Fixed(sharding=scenario.sharding, offload=scenario.offload, placement=scenario.placement)
    where = f"at {long.seq_len:,} tokens: "
    try:
        found = look(make_bench(question, alone, demands, "wall", fixed, scenario.allow), Tally())
    except LayoutError as problem:
        raise LayoutError(f"{where}{problem.message}", where=problem.where) from None
    if not found.feasible.any():
        return plan, tuple(replace(stop, constraint=where + stop.constraint) for stop in blocking([found], demands))
    row = chosen_row(found, plan)
    layouts = found.candidates.layouts.take(np.array([row]))
    cuts = found.bench.cuts.take(layouts.cut)
    layouts = replace(layouts, cut=np.zeros(1, np.int64))
    circumstances = replace(plan.circumstances, long=replace(long, cuts=cuts, layouts=layouts))
    return make_plan(plan.question, circumstances, plan.cuts, plan.layouts), ()


def chosen_row(found: Found, plan: Plan) -> int:
    """Row of the layout to take beside that of a plan."""
    choice, _ = best_choice([found])
    assert choice is not None, "there is a feasible row"
    error = float(plan.question.machine.stack.ranking_error_fraction)
    rows = tied(found, float(found.value[found.feasible].min()) * (1 + error) / (1 - error))
    layouts = found.candidates.layouts.take(rows)

    def same(name: str) -> IntArray:
        return np.asarray(getattr(found.bench.cuts, name)[layouts.cut] == getattr(plan.cuts, name)[0])

    like = rows[same("tp") & same("ep") & same("etp") & (layouts.pp == plan.layouts.pp[0])]
    return int(preferred(found, like)[0]) if len(like) else choice.row


def slowdown(plan: Plan) -> float | None:
    """Time of a token of the phase over that of the rest, as its layout has it; None where it has none."""
    if plan.long is None:
        return None
    return float(plan.step.tokens_per_s[0] / plan.long.step.tokens_per_s[0])


def long_context(model: Model, seq_len: int, asked: tuple[int, float], slower: float) -> LongContext:
    """The phase before it has a layout, slower than its FLOP say by a factor."""
    return LongContext(seq_len=asked[0], tokens=asked[1], slowdown=slower * flop_slowdown(model, seq_len, asked[0]))
