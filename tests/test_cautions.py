"""Remarks on a plan: there where they are due, and only there."""

import re
from dataclasses import replace

import numpy as np
import pytest

from clusterplan import search
from clusterplan.cautions import STAFF, batch_warnings, warnings
from clusterplan.estimate import estimate
from examples import TINY_MOE, asked, machine


def test_a_batch_beyond_the_critical_one_is_warned_of():
    few, many = (search.size(asked(tokens=10**10, global_batch=batch)) for batch in (1024, 64))
    assert any("beyond the critical batch" in text for text in few.warnings)
    (hint,) = [re.search(r"--global-batch (\d+):(\d+) keeps", text) for text in few.warnings if "critical" in text]
    below = search.size(asked(tokens=10**10, batch_low=int(hint[1]), global_batch=int(hint[2]), batch_fixed=False))
    assert not any("critical" in text for text in below.warnings)
    assert not any("critical" in text for text in many.warnings)
    told = few.document()["critical_batch"]
    assert told["batch_tokens"] == 1024 * 2048
    assert told["low_tokens"] == min(one["tokens"] for one in told["estimates"])


def test_sequences_longer_than_the_learned_positions_are_warned_of():
    plan = search.size(asked(devices=(8, 64))).plan
    for positions, warned in ((0, False), (plan.question.job.seq_len, False), (plan.question.job.seq_len - 1, True)):
        model = replace(plan.question.model, learned_positions=positions)
        found = warnings(replace(plan, question=replace(plan.question, model=model)))
        assert any("learned positions" in text for text in found) is warned


def test_a_run_of_less_than_a_step_is_warned_of():
    for tokens, warned in ((20, True), (10**10, False)):
        found = estimate(asked(devices=(8, 8), tokens=tokens, global_batch=None)).warnings
        assert any(text.startswith("a run of 20 tokens is less than one step of") for text in found) is warned


def test_limits_that_a_given_layout_breaks_are_said():
    kept = estimate(asked(devices=(8, 8)))
    run = kept.plan.run
    for name, value, limit in (
        ("budget", run.cost.total_usd, "budget_usd"),
        ("water", run.energy.water_m3, "water_m3"),
        ("carbon", run.carbon.total_kg_co2e, "carbon_kg"),
    ):
        for factor, broken in ((0.9, True), (1.1, False)):
            answer = estimate(asked(devices=(8, 8), **{limit: factor * float(value[0])}))
            assert any(text.startswith(f"{name} ") and "is not kept" in text for text in answer.warnings) is broken
            assert answer.feasible
    late = estimate(asked(devices=(8, 8), deadline_s=0.5 * float(run.progress.wall_s[0]))).warnings
    assert any(text.startswith("deadline ") and "with a probability of 50.0 %" in text for text in late)
    assert not any("plans for more" in text for text in late)


def test_staff_that_is_most_of_the_cost_is_remarked_on():
    small = estimate(asked(devices=(8, 8)))
    cost = small.plan.run.cost
    assert cost.staff_usd[0] > STAFF * cost.total_usd[0]
    assert sum("staff is" in text for text in small.warnings) == 1
    question = asked(devices=(8, 8))
    few = estimate(replace(question, prices=replace(question.prices, staff_persons=0.1)))
    assert not any("staff is" in text for text in few.warnings)


def test_much_of_a_small_cluster_that_is_not_at_work_is_remarked_on():
    question = asked(devices=(16, 16))
    assert any("8 of 16 devices are not at work (0 spare, 8 idle)" in text for text in search.size(question).warnings)
    none = replace(question, operations=replace(question.operations, spare_shortage_fraction=1.0))
    answer = search.size(none)
    assert answer.plan.run.fleet.used_devices[0] == 16
    assert not any("not at work" in text for text in answer.warnings)


def test_low_goodput_and_low_use_are_warned_of():
    plan = search.size(asked(devices=(8, 64))).plan
    progress, result = plan.run.progress, plan.step
    low = replace(plan.run, progress=replace(progress, goodput_fraction=np.array([0.7])))
    assert any("goodput 70.0 %" in text for text in warnings(replace(plan, run=low)))
    assert not any("goodput" in text for text in warnings(plan))
    device = replace(plan.question.machine.accelerator, best_published_mfu={plan.question.job.precision: 0.9})
    machine = replace(plan.question.machine, accelerator=device)
    question = replace(plan.question, machine=machine)
    for mfu, warned in ((0.44, True), (0.46, False)):
        found = warnings(replace(plan, question=question, step=replace(result, mfu=np.array([mfu]))))
        assert any("less than half" in text for text in found) is warned


@pytest.mark.parametrize(
    ("stack", "told"),
    [
        ({"moe_stall_s_per_layer": 0.1}, "layers with experts are not launched ahead"),
        ({"moe_stall_s_per_layer": 0.0, "host_s_per_layer": 0.1}, "layers take less time than their launches"),
        ({"moe_stall_s_per_layer": 0.0, "host_s_per_layer": 0.0}, None),
    ],
)
def test_what_devices_wait_for_is_told_after_its_cause(stack, told):
    resolved = replace(asked(of=TINY_MOE), hardware=(machine(changes=[("stack", stack)]),))
    waits = [text for text in search.size(resolved).warnings if "wait for their hosts" in text]
    assert len(waits) == (told is not None)
    assert told is None or told in waits[0]


@pytest.mark.parametrize(
    ("batch_tokens", "told"),
    [
        (9e6, None),
        (11e6, "beyond the lower estimate of the critical batch, 10M to 20M tokens (a: b): more tokens may be needed"),
        (21e6, "beyond the critical batch, 10M to 20M tokens (a: b): more tokens are needed"),
    ],
)
def test_a_batch_between_two_estimates_is_not_said_to_be_beyond_both(batch_tokens, told):
    critical = {
        "batch_tokens": batch_tokens,
        "low_tokens": 10e6,
        "high_tokens": 20e6,
        "estimates": [{"name": "a", "source": "b"}],
    }
    found = batch_warnings(critical, 2048)
    assert found == [] if told is None else told in found[0]
