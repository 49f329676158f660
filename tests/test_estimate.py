"""One layout in depth: what is given is kept, what is wrong is said at once."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from clusterplan import search
from clusterplan.errors import ClusterplanError, LayoutError
from clusterplan.estimate import estimate
from clusterplan.plan import layout_document
from examples import TINY_MOE, asked, crowded, with_span


def test_estimate_is_the_plan_that_was_given():
    answer = estimate(asked(devices=(16, 16), tp=2, pp=2, micro_batch=2, recompute="none"))
    document = layout_document(answer.plan)
    assert [document[name] for name in ("tp", "pp", "dp", "global_batch", "schedule")] == [2, 2, 4, 64, "1f1b"]
    assert answer.feasible


def test_estimate_agrees_with_the_search():
    plan = search.size(asked(objective="wall")).plan
    axes = {name: int(getattr(plan.cuts, name)[0]) for name in ("tp", "cp", "ep", "etp", "micro_batch")}
    axes |= {name: int(getattr(plan.layouts, name)[0]) for name in ("pp", "vpp", "dp")}
    again = estimate(asked(**axes, recompute=["none", "selective", "full"][int(plan.cuts.recompute[0])])).plan
    assert again.step.time.total_s == plan.step.time.total_s
    assert again.peak_bytes == plan.peak_bytes


def test_estimate_takes_the_least_recompute_that_fits():
    loose = estimate(asked(devices=(8, 8), tp=1, micro_batch=8))
    assert layout_document(loose.plan)["recompute"] == "none"
    tight = estimate(crowded(asked(devices=(8, 8), tp=1, micro_batch=8), 9.0))
    assert layout_document(tight.plan)["recompute"] in ("selective", "block", "full")
    assert tight.feasible


def test_estimate_that_does_not_fit_says_so():
    answer = estimate(crowded(asked(devices=(8, 8), micro_batch=8), 2.0))
    assert not answer.feasible
    assert answer.plan.verdict == "does_not_fit"
    (stop,) = answer.blocking
    assert (stop.constraint, stop.best) == ("memory", answer.plan.peak_bytes)


@pytest.mark.parametrize(
    ("axes", "rules"),
    [
        ({"tp": 3, "dp": 1}, ["heads divide by tp"]),
        ({"tp": 16, "pp": 11, "dp": 1}, ["heads divide by tp", "a layer for each stage"]),
        ({"pp": 3, "vpp": 2, "dp": 1}, ["interleaving divides micro-batches by pp"]),
        ({"dp": 3}, ["batch divides by dp × micro-batch"]),
        ({"ep": 2, "dp": 2}, ["ep needs experts"]),
    ],
)
def test_estimate_names_every_broken_rule(axes, rules):
    with pytest.raises(ClusterplanError) as caught:
        estimate(asked(devices=None, **axes))
    assert "\n" not in str(caught.value)
    for rule in rules:
        assert rule in str(caught.value)


def test_estimate_with_more_spares_than_the_network_joins():
    question = with_span(asked(devices=(64, 64)), 64)
    with pytest.raises(LayoutError, match=r"64 devices at work and 8 spare ones are more than the 64"):
        estimate(question)
    assert estimate(with_span(asked(devices=(64, 64)), 72)).plan.run.fleet.devices[0] == 72


def test_estimate_without_a_size_asks_for_it():
    with pytest.raises(ClusterplanError, match="devices"):
        estimate(asked(devices=None))
    with pytest.raises(LayoutError, match="multiple"):
        estimate(asked(devices=(9, 9), tp=2))
    with pytest.raises(ClusterplanError, match="8:16 is a range"):
        estimate(asked(devices=(8, 16)))


def test_estimate_of_two_systems_is_refused():
    with pytest.raises(ClusterplanError, match="one layout has one system, not 2"):
        estimate(asked(devices=(8, 8), hardware=("dgx-h100", "dgx-a100")))


@pytest.mark.parametrize(("ep", "dp", "part"), [(1, 72, 9), (1, 64, 9), (8, 72, 8), (8, 8, 8)])
def test_an_estimate_takes_the_part_of_each_domain_that_costs_least(ep, dp, part):
    """Groups of 8 lie across the edges of domains of 9, and fill 8 of them; groups of one are faster on all 9."""
    resolved = asked(hardware="gb200-nvl72", of=TINY_MOE, ep=ep, dp=dp, devices=None, global_batch=576)
    machine = resolved.hardware[0]
    system = replace(machine.system, scaleup_devices=9, devices=9, node_devices=9, used_devices_per_domain=(8,))
    answer = estimate(replace(resolved, hardware=(replace(machine, system=system),)))
    assert answer.plan.question.domain_devices == part
    assert answer.plan.run.fleet.devices >= -(-dp // part) * 9
    assert any("8 of the 9 devices of each scale-up domain" in text for text in answer.warnings) is (part < 9 < dp)


def test_layers_of_a_block_cost_time_and_save_memory_one_by_one():
    plans = [
        estimate(asked(devices=(8, 8), tp=1, micro_batch=8, recompute=text)).plan
        for text in ("none", "block:2", "block:4", "block:6", "full")
    ]
    assert np.all(np.diff([float(p.step.time.total_s[0]) for p in plans]) > 0)
    assert np.all(np.diff([p.peak_bytes for p in plans]) < 0)


def test_fewer_kept_inputs_hold_more_at_work():
    one, all_layers = (
        estimate(asked(devices=(8, 8), tp=1, micro_batch=8, recompute=text)).plan for text in ("full", "full:8")
    )
    assert all_layers.peak_bytes > one.peak_bytes
    assert all_layers.step.time.total_s == one.step.time.total_s


def test_a_block_of_more_layers_than_a_stage_has():
    with pytest.raises(LayoutError, match=r"a stage has \d layers; at most block:\d"):
        estimate(asked(devices=(8, 8), tp=1, pp=2, recompute="block:9"))


def test_optimizer_states_on_the_host_make_room_and_take_time():
    here, there = (estimate(asked(devices=(8, 8), tp=2, offload=what)).plan for what in ("none", "optimizer"))
    assert there.memory.optimizer_bytes.max() == 0 < here.memory.optimizer_bytes.max()
    assert there.host_bytes == pytest.approx(float(here.memory.optimizer_bytes.max()))
    assert there.step.time.optimizer_s > here.step.time.optimizer_s
    assert here.host_bytes == 0


def test_activations_on_the_host_make_room_and_take_time():
    given = {"devices": (8, 8), "tp": 1, "micro_batch": 8, "recompute": "none"}
    here, there = (estimate(asked(**given, offload=what)).plan for what in ("none", "activations"))
    moved = here.memory.activations_bytes.max() - there.memory.activations_bytes.max()
    assert there.host_bytes == pytest.approx(float(moved))
    assert moved > 0
    assert there.step.time.offload_exposed_s > 0 == here.step.time.offload_exposed_s


def test_host_memory_in_the_way():
    resolved = asked(devices=(8, 8), tp=1, offload="optimizer")
    (on,) = resolved.hardware
    small = replace(resolved, hardware=(replace(on, system=replace(on.system, host_memory_bytes=1e9)),))
    answer = estimate(small)
    assert [stop.constraint for stop in answer.blocking] == ["host memory"]
    unknown = replace(resolved, hardware=(replace(on, system=replace(on.system, host_memory_bytes=None)),))
    with pytest.raises(LayoutError, match="the host memory of dgx-h100 is not known; --set system"):
        estimate(unknown)
    other = replace(resolved, hardware=(replace(on, stack=replace(on.stack, offload=())),))
    with pytest.raises(LayoutError, match="megatron-core cannot keep optimizer in host memory"):
        estimate(other)


def test_fixes_name_the_least_block_and_the_allocator():
    tight = crowded(asked(devices=(8, 8), tp=1, micro_batch=8, recompute="none"), 10.5)
    given = {fix.change: fix for fix in estimate(tight).fixes}
    (block,) = [change for change in given if change.startswith("--recompute block")]
    assert given[block].fits
    fewer = int(block.rpartition(":")[2]) - 1
    less = replace(tight, scenario=replace(tight.scenario, recompute=f"block:{fewer}"))
    assert estimate(less).plan.verdict != "fits"
    barely = crowded(asked(devices=(8, 8), tp=1, micro_batch=8, recompute="none"), 12.0)
    allocator = [fix for fix in estimate(barely).fixes if "expandable_segments" in fix.change]
    assert [fix.fits for fix in allocator] == [True]
    assert allocator[0].slower_fraction == 0


def test_both_directions_hold_two_copies_and_hide_experts():
    of = {"of": replace(TINY_MOE, layers=8, mtp_layers=0), "devices": (16, 16), "pp": 4, "ep": 4, "micro_batch": 1}
    resolved = asked(**of, global_batch=64)
    (on,) = resolved.hardware
    able = replace(on, stack=replace(on.stack, schedules=(*on.stack.schedules, "dualpipe")))
    plain, both = (
        estimate(replace(resolved, hardware=(able,), scenario=replace(resolved.scenario, schedule=name))).plan
        for name in ("1f1b", "dualpipe")
    )
    assert_allclose(both.memory.weights_bytes, 2 * plain.memory.weights_bytes)
    assert_allclose(both.memory.optimizer_bytes, plain.memory.optimizer_bytes)
    assert both.step.time.ep_exposed_s < plain.step.time.ep_exposed_s
    assert both.step.time.contention_s > plain.step.time.contention_s
    assert both.step.time.bubble_s < plain.step.time.bubble_s
