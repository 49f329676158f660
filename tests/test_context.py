"""The phase of longer sequences: part of the run, a layout of its own on the same cluster, demands kept with it."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from clusterplan import context, levers, mix, search
from clusterplan.errors import ClusterplanError
from clusterplan.estimate import estimate
from clusterplan.layout import used_devices
from clusterplan.plan import violated
from clusterplan.premises import demands_of
from clusterplan.scenario import AUTO
from examples import CATALOG, TINY, TINY_HYBRID, TINY_MOE, asked, crowded, machine

DAY_S = 86400.0
LONG = "16384:2B"


def with_phase(text=LONG, **given):
    return search.size(asked(**({"devices": (8, 32), "long_context": text} | given)))


@pytest.mark.parametrize("of", [TINY, TINY_MOE, TINY_HYBRID], ids=["dense", "experts", "hybrid"])
def test_phase_has_a_layout_on_the_devices_of_the_plan(of):
    plan = with_phase(of=of).plan
    assert plan.long is not None
    assert used_devices(plan.long.layouts, plan.long.cuts)[0] <= plan.run.fleet.devices[0]
    job, rest = plan.long.question.job, plan.question.job
    assert job.seq_len == 16384
    tokens = [int(one.layouts.global_batch[0]) * n for one, n in ((plan.long, 16384), (plan, rest.seq_len))]
    assert_allclose(*tokens, rtol=0.11)  # one sequence of the batch is a sixteenth, and each is within 5 % of a target
    _, told = search.size(asked(of=of, long_context=LONG)).document()["plan"]["run"]["phases"]
    assert (told["name"], told["seq_len"], told["layout"]["tp"]) == ("long-context", 16384, plan.long.cuts.tp[0])
    assert_allclose(told["steps"] * told["step_s"], plan.run.progress.long_s[0])
    assert 0 < told["mfu_causal"] < told["mfu"] < 1


def test_time_and_money_of_the_run_have_the_phase():
    plain, longer = search.size(asked(devices=(32, 32))).plan.run, with_phase(devices=(32, 32)).plan.run
    assert longer.progress.wall_s > plain.progress.wall_s
    assert longer.energy.facility_kwh > plain.energy.facility_kwh
    assert longer.cost.total_usd > plain.cost.total_usd
    assert longer.progress.long_s < longer.progress.ideal_s


def test_longer_sequences_are_never_cheaper_a_token():
    runs = [with_phase(f"{seq_len}:2B", devices=(32, 32)).plan.run for seq_len in (4096, 8192, 16384, 32768)]
    spent = [float(run.progress.long_s[0]) for run in runs]
    usd = [float(run.cost.total_usd[0]) for run in runs]
    assert spent == sorted(spent)
    assert usd == sorted(usd)


@pytest.mark.parametrize("more", [{}, {"batch_ramp": "8:2B", "eval_fraction": 0.05}])
def test_demands_are_kept_with_the_phase(more):
    free = float(with_phase(devices=(8, 64), objective="wall", **more).plan.run.progress.wall_s[0])
    resolved = asked(devices=(8, 64), long_context=LONG, deadline_s=1.3 * free, **more)
    answer = search.size(resolved)
    assert answer.feasible
    assert not any(np.any(mask) for mask in violated(demands_of(resolved), answer.plan.run).values())
    phases = answer.document()["plan"]["run"]["phases"]
    assert_allclose(sum(one["time_s"] for one in phases), answer.plan.run.progress.wall_s[0])


@pytest.mark.parametrize(("name", "field"), [("deadline", "deadline_s"), ("budget", "budget_usd")])
def test_nearest_feasible_value_is_feasible(name, field):
    given = {"devices": (8, 64), "long_context": LONG}
    answer = search.size(asked(**given, **{field: 60.0}))
    (stop,) = answer.blocking
    assert stop.constraint == name
    assert search.size(asked(**given, **{field: stop.nearest_feasible})).feasible
    assert not search.size(asked(**given, **{field: 0.9 * stop.nearest_feasible})).feasible


def test_sequences_that_fit_nowhere_are_told_with_the_least_memory():
    answer = search.size(crowded(asked(devices=(8, 8), long_context="262144:2B"), 10))
    assert not answer.feasible
    (stop,) = answer.blocking
    assert stop.constraint == "at 262,144 tokens: memory"
    assert stop.nearest_feasible > stop.required
    assert any("has no layout on the 8 devices" in line for line in answer.warnings)
    given = {"devices": (8, 8), "tp": 8, "long_context": "262144:2B"}
    one = estimate(crowded(asked(**given), 10))
    assert one.plan is not None
    assert not one.feasible


def test_an_estimate_has_the_phase_too():
    plan = estimate(asked(devices=(16, 16), tp=8, pp=2, long_context=LONG)).plan
    assert plan.long.layouts.global_batch[0] == 8
    assert plan.run.progress.long_steps[0] == np.ceil(2e9 / 8 / 16384)


def test_same_groups_where_they_are_as_fast():
    resolved = asked(devices=(32, 32), long_context="4096:2B")
    plan = search.size(resolved).plan
    same = [getattr(plan.cuts, name)[0] == getattr(plan.long.cuts, name)[0] for name in ("tp", "ep", "etp")]
    assert all(same)
    assert plan.layouts.pp[0] == plan.long.layouts.pp[0]


def test_flop_say_how_much_slower_a_token_is():
    assert context.flop_slowdown(TINY, 2048, 2048) == 1
    assert context.flop_slowdown(TINY, 2048, 32768) > context.flop_slowdown(TINY, 2048, 16384) > 1


def test_clock_and_levers_go_through_the_phase():
    base = asked(devices=(32, 32), long_context=LONG)
    plan = search.size(base).plan
    (slower,) = levers.effects(base, plan, CATALOG, only=["clock"]).found
    assert slower.outcome.progress.long_s > plan.run.progress.long_s
    low = search.size(asked(devices=(32, 32), long_context=LONG, clock=0.8)).plan
    assert low.run.progress.long_s > plan.run.progress.long_s
    chosen = search.size(asked(devices=(32, 32), long_context=LONG, clock=AUTO, objective="energy")).plan
    assert chosen.long.question.clock_fraction == chosen.question.clock_fraction


def test_a_mix_has_no_such_phase():
    resolved = asked(hardware=("dgx-h100", "dgx-a100"), deadline_s=DAY_S, long_context=LONG)
    with pytest.raises(ClusterplanError, match="sequences of one length"):
        mix.mix(resolved, mix.asked(resolved, CATALOG))


def test_machines_side_by_side_have_it():
    first, second = search.compare(asked(hardware=("dgx-h100", "dgx-b200"), long_context=LONG))
    assert first.plan.long.question.machine == machine("dgx-h100")
    assert second.plan.long.question.machine.system.name == "dgx-b200"
