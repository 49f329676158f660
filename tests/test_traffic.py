"""What groups send over the levels of the network, and what the order of groups changes."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from clusterplan import step
from clusterplan.layer import price_layers
from clusterplan.traffic import traffic
from examples import TINY, TINY_MOE, cuts, layouts, machine, question

SWAPPED = "tp-cp-ep-pp-dp"


def sent(ask, some_cuts, some_layouts):
    return traffic(ask, price_layers(ask, some_cuts), some_cuts, some_layouts)


def test_a_single_device_sends_nothing():
    found = sent(question(TINY, machine()), cuts(), layouts())
    assert all(np.all(part == 0) for part in found.sent_bytes.values())


def test_what_replicas_send_by_head():
    """Sharded states of a model on two nodes: gradients are reduced and weights gathered once."""
    ask = question(TINY, machine())
    some = cuts()
    found = sent(ask, some, layouts(dp=16))
    table = price_layers(ask, some)
    parameters = float(table.dense_parameters[0] @ step.model_counts(ask))
    stack = ask.machine.stack
    whole = parameters * (stack.gradient_message_bytes + stack.weight_bytes) * 15 / 16
    assert_allclose(found.sent_bytes["dp"].sum(), whole)
    # Of eight rings over eight devices each carries an eighth out of the node.
    assert_allclose(found.sent_bytes["dp"][1:].sum(), whole / 8)
    assert set(np.flatnonzero(found.total_bytes)) == {0, 1}


def test_tensor_parallel_groups_stay_in_a_node():
    found = sent(question(TINY, machine()), cuts(tp=8), layouts(dp=4))
    assert found.sent_bytes["tp"][0] > 0
    assert found.sent_bytes["tp"][1:].sum() == 0
    assert found.busy_s[0] == pytest.approx(found.total_bytes[0] / found.bytes_per_s[0])


def test_experts_exchange_with_all_devices_of_their_group():
    ask = question(TINY_MOE, machine())
    inside, across = (sent(ask, cuts(ep=ep), layouts(dp=16)) for ep in (4, 8))
    # Equal routed tokens: 3/4 of them go to others of four, 7/8 to others of eight.
    assert_allclose(across.sent_bytes["ep"][0] / inside.sent_bytes["ep"][0], (7 / 8) / (3 / 4))
    assert inside.sent_bytes["ep"][1:].sum() == across.sent_bytes["ep"][1:].sum() == 0


def test_stages_are_neighbours_in_the_other_order():
    ask = question(TINY, machine())
    usual = sent(ask, cuts(), layouts(pp=8, dp=8, batch=64))
    swapped = sent(ask, cuts(), layouts(pp=8, dp=8, batch=64, placement=SWAPPED))
    assert usual.sent_bytes["dp"][1:].sum() == 0 < usual.sent_bytes["pp"][1:].sum()
    assert swapped.sent_bytes["pp"][1:].sum() == 0 < swapped.sent_bytes["dp"][1:].sum()
    for kind in ("pp", "dp"):  # as much in all
        assert_allclose(usual.sent_bytes[kind].sum(), swapped.sent_bytes[kind].sum())


@pytest.mark.parametrize("axes", [{"tp": 2}, {"tp": 2, "cp": 2}, {"cp": 4}])
def test_one_stage_or_one_replica_has_one_order(axes):
    ask = question(TINY, machine())
    for outer in ({"dp": 16}, {"pp": 4}):
        same = [step_s(ask, cuts(**axes), layouts(**outer, placement=order)) for order in ("tp-cp-ep-dp-pp", SWAPPED)]
        assert same[0] == pytest.approx(same[1])


def test_replicas_far_apart_take_longer():
    ask = question(TINY, machine())
    near, far = (step_s(ask, cuts(tp=2), layouts(pp=4, dp=4, placement=o)) for o in ("tp-cp-ep-dp-pp", SWAPPED))
    assert far != near


def step_s(ask, some, rows):
    table = price_layers(ask, some)
    return float(step.evaluate(ask, some, table, rows, step.one_stage_table(ask, table, rows)).time.total_s[0])


def test_larger_shard_groups_need_less_memory_up_to_those_of_fsdp():
    ask = question(TINY, machine(stack="fsdp2-torchtitan"), batch=64)

    def peak(**axes):
        rows = layouts(dp=64, **axes)
        table = price_layers(ask, cuts())
        stages = step.one_stage_table(ask, table, rows)
        return float(step.stage_memory(ask, cuts(), rows, stages).total_bytes.max())

    peaks = [peak(sharding="hsdp", shard_group=group) for group in (8, 16, 32, 64)]
    assert peaks == sorted(peaks, reverse=True)
    assert peaks[0] > peaks[-1]
    assert peaks[0] == peak(sharding="hsdp")  # a domain has eight
    assert peaks[-1] == peak(sharding="fsdp")


@pytest.mark.parametrize("vpp", [1, 4])
def test_what_stages_send_by_head(vpp):
    """Two stages: a chunk hands each micro-batch on, but for the last, and its gradient comes back."""
    ask = question(TINY, machine())
    found = sent(ask, cuts(), layouts(pp=2, vpp=vpp, dp=4, batch=64))
    crossings = 2 * vpp - 1
    assert_allclose(found.sent_bytes["pp"].sum(), 2 * (64 / 4) * crossings / 2 * 2 * 2048 * 1024)


def test_what_context_parallel_ranks_send_by_head():
    """Keys and values are gathered forward and again backward, where their gradients are reduced as well."""
    found = sent(question(TINY, machine()), cuts(cp=2), layouts(dp=4, batch=64))
    keys_and_values = 2 * 2048 * 2 * 8 * 128
    assert_allclose(found.sent_bytes["cp"].sum(), 8 * (64 / 4) * 3 * keys_and_values / 2)


def test_what_shard_groups_send_by_head():
    """Two nodes, each of which shares all: gathered and reduced inside, the pieces all-reduced between the nodes."""
    ask = question(TINY, machine())
    found = sent(ask, cuts(), layouts(dp=16, sharding="hsdp", batch=16))
    parameters = float(price_layers(ask, cuts()).dense_parameters[0] @ step.model_counts(ask))
    stack = ask.machine.stack
    gathered = 2 * stack.weight_bytes + stack.gradient_message_bytes  # one micro-batch: forward, backward; reduced
    assert_allclose(found.sent_bytes["dp"][0], parameters * gathered * 7 / 8)
    assert_allclose(found.sent_bytes["dp"][1:].sum(), 2 * parameters / 8 * stack.gradient_message_bytes / 2)
