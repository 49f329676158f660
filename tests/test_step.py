"""One step: parts that add up, stages that matter, memory and traffic by head."""

from dataclasses import fields, replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from clusterplan import shapes, step
from clusterplan.formulas import network
from clusterplan.layer import price_layers
from clusterplan.layout import used_devices
from examples import TINY, TINY_HYBRID, TINY_MOE, cuts, layouts, machine, model, question


def stages_of(ask, some, rows, *, every):
    """The table of layers and the stage sums of a table of layouts, a pair for each row."""
    table = price_layers(ask, some)
    pairs = list(zip(rows.pp.tolist(), rows.vpp.tolist(), strict=True))
    pipes = step.pipelines(ask, pairs, every=every)
    return table, step.stage_table(ask, table, rows.cut, pipes, np.arange(rows.size))


def evaluated(ask, some, rows, *, every=False):
    table, stages = stages_of(ask, some, rows, every=every)
    return step.evaluate(ask, some, table, rows, stages)


def held(ask, some, rows, *, every=True):
    _, stages = stages_of(ask, some, rows, every=every)
    return step.stage_memory(ask, some, rows, stages)


def random_table(rng, shape, count=300, seq_len=2048):
    """Cuts and layouts of all kinds, legal or not: sums and bounds hold for any."""
    heads = next(layer.attention.heads for layer in shape.every_layer if layer.attention)
    ep = rng.choice([1, 2, 4, 8], count) if shape.is_moe else np.ones(count, int)
    some = cuts(
        tp=rng.choice([t for t in (1, 2, 4, 8) if heads % t == 0], count),
        cp=rng.choice([1, 2], count),
        ep=ep,
        micro_batch=rng.choice([1, 2, 4], count),
        recompute=rng.choice(["none", "selective", "full"], count),
    )
    pp = rng.integers(1, min(shape.layers, 24) + 1, count)
    vpp = np.where(pp > 1, rng.integers(1, 5, count), 1)
    vpp = np.where(pp * vpp <= shape.layers + 2, vpp, 1)
    dp = rng.integers(1, 12, count) * 8
    sharding = rng.choice(["none", "zero1", "zero2", "zero3", "fsdp"], count)
    batch = dp * some.micro_batch * rng.integers(1, 6, count) * pp
    return some, layouts(cut=np.arange(count), pp=pp, vpp=vpp, dp=dp, sharding=sharding, batch=batch)


MODELS = {
    "tiny": TINY,
    "tiny-moe": TINY_MOE,
    "tiny-hybrid": TINY_HYBRID,
    "llama": model("llama-3.1-405b"),
    "deepseek": model("deepseek-v3"),
    "gpt3": model("gpt3-175b"),
}
MACHINES = ["dgx-h100", "gb200-nvl72", "tpu-v5p-pod", "mi300x-platform", "cloudmatrix-384"]


# Parts and bounds -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("system", MACHINES)
def test_parts_add_up_and_are_not_negative(name, system):
    ask = question(MODELS[name], machine(system))
    some, rows = random_table(np.random.default_rng(1), ask.model)
    result = evaluated(ask, some, rows)
    time = result.time
    parts = [getattr(time, part.name) for part in fields(time)]
    assert all(np.all(np.isfinite(part)) and np.all(part >= 0) for part in parts)
    assert_allclose(np.sum(parts, axis=0), time.total_s)
    assert_allclose(time.busy_s + time.communication_s + time.waiting_s, time.total_s)
    assert np.all(result.memory_bound_s <= time.busy_s * (1 + 1e-9))
    assert np.all((result.mfu > 0) & (result.mfu < 1))
    assert np.all(result.hfu >= result.mfu)
    assert_allclose(result.tokens_per_s, rows.global_batch * 2048 / time.total_s)
    memory = held(ask, some, rows)
    sizes = [getattr(memory, part.name) for part in fields(memory)]
    assert all(np.all(np.isfinite(size)) and np.all(size >= 0) for size in sizes)
    assert_allclose(np.sum(sizes, axis=0), memory.total_bytes)


@pytest.mark.parametrize("name", MODELS)
def test_extreme_stages_are_enough(name):
    ask = question(MODELS[name], machine())
    some, rows = random_table(np.random.default_rng(2), ask.model)
    few, all_of_them = (evaluated(ask, some, rows, every=every).time for every in (False, True))
    for part in fields(few):
        assert_allclose(getattr(few, part.name), getattr(all_of_them, part.name), rtol=1e-12, err_msg=part.name)
    peaks = [held(ask, some, rows, every=every).total_bytes.max(axis=1) for every in (False, True)]
    assert_allclose(*peaks, rtol=1e-12)


@pytest.mark.parametrize("name", MODELS)
def test_step_takes_at_least_its_micro_batches_and_the_fill(name):
    ask = question(MODELS[name], machine())
    some, rows = random_table(np.random.default_rng(3), ask.model)
    table, stages = stages_of(ask, some, rows, every=False)
    assert np.all(step.least_s(some, rows, stages) <= step.evaluate(ask, some, table, rows, stages).time.total_s)


def test_array_equals_scalars():
    ask = question(TINY_MOE, machine("gb200-nvl72"))
    some, rows = random_table(np.random.default_rng(4), TINY_MOE, count=12)
    together, memory = evaluated(ask, some, rows), held(ask, some, rows, every=False)
    for row in range(rows.size):
        one, cut = rows.take(np.array([row])), some.take(rows.cut[[row]])
        one = replace(one, cut=np.zeros(1, np.int64))
        alone = step.evaluate(ask, cut, table := price_layers(ask, cut), one, step.one_stage_table(ask, table, one))
        for part in fields(together.time):
            assert_allclose(getattr(alone.time, part.name)[0], getattr(together.time, part.name)[row])
        peak = step.stage_memory(ask, cut, one, step.one_stage_table(ask, table, one)).total_bytes.max()
        assert_allclose(peak, memory.total_bytes[row].max())


# Time by head ---------------------------------------------------------------------------------------------------------


def test_one_device():
    """No traffic, no bubble, no waiting; compute is micro-batches times parts."""
    ask = question(TINY, machine(changes=[("stack", {"host_s_per_layer": 0.0})]))
    some, row = cuts(micro_batch=2), layouts(batch=64)
    time = evaluated(ask, some, row).time
    table = price_layers(ask, some)
    assert_allclose(time.compute_s, 32 * table.compute_s[0] @ [8, 0, 0, 1, 1, 0])
    assert time.communication_s == time.waiting_s == time.contention_s == 0
    assert_allclose(time.total_s, time.compute_s + time.optimizer_s)


def test_published_bubble():
    """Narayanan et al., SC21: (p - 1) / (v m) of the work, for stages that are equal but for the ends."""
    shape = replace(TINY, layers=128, vocab=128)
    ask = question(shape, machine(changes=[("stack", {"pp_hidden_fraction": 1.0})]))
    rows = layouts(pp=[8, 8, 16], vpp=[1, 4, 2], batch=64)
    result = evaluated(ask, cuts(), replace(rows, cut=np.zeros(3, np.int64))).time
    send = step._send_s(ask, cuts(), rows) * 2 * (rows.pp - 1)
    share = (result.bubble_s - send) / (result.compute_s + result.host_s)
    assert_allclose(share, (rows.pp - 1) / (rows.vpp * 64), rtol=0.1)


def test_replicas_share_the_batch():
    ask = question(TINY, machine(changes=[("stack", {"step_noise_fraction": 0.0})]), batch=512)
    rows = layouts(dp=[1, 8, 64], batch=512)
    time = evaluated(ask, cuts(), rows).time
    assert_allclose(time.compute_s, time.compute_s[0] / rows.dp)
    assert time.dp_exposed_s[0] == 0
    assert np.all(np.diff(time.dp_exposed_s) > 0)


def test_gradients_and_weights_move_once_or_for_each_micro_batch():
    """Eight nodes, one replica each: wire time of a ring is 7/8 of the tensor over eight interfaces."""
    on = machine(changes=[("stack", {"dp_hidden_fraction": 0.0}), ("fabric", {"decay_per_doubling": 0.0})])
    shape = replace(TINY, hidden=8192, ffn=32768)
    ask = question(shape, on, batch=64)
    some = cuts(tp=8)
    rows = layouts(dp=8, sharding=["none", "zero1", "fsdp"], batch=64)
    time = evaluated(ask, some, replace(rows, cut=np.zeros(3, np.int64))).time
    table = price_layers(ask, some)
    parameters = table.dense_parameters[0] @ [8, 0, 0, 1, 1, 0]
    rate = 50e9 * on.fabric.efficiency
    wire = 7 / 8 * parameters / rate
    stack = on.stack
    expected = [
        2 * stack.gradient_message_bytes * wire,
        (stack.gradient_message_bytes + stack.weight_bytes) * wire,
        8 * (stack.gradient_message_bytes + 2 * stack.weight_bytes) * wire,
    ]
    assert_allclose(time.dp_exposed_s, expected, rtol=0.06)  # the rest is latency and start


def test_gathered_weights_pay_the_latency_of_every_layer():
    """A message without bytes: hops over two nodes for three collectives of each of eight layers and micro-batch."""
    on = machine(changes=[("stack", {"dp_hidden_fraction": 0.0, "gradient_message_bytes": 0.0, "weight_bytes": 0.0})])
    ask = question(TINY, on)
    time = evaluated(ask, cuts(), layouts(cut=[0, 0], dp=16, sharding=["fsdp", "zero1"], batch=64)).time
    ring = 14 * on.system.scaleup_latency_s + on.fabric.tiers[0].latency_s
    assert_allclose(time.dp_exposed_s, [4 * 3 * 8 * ring, 2 * ring])


def test_context_parallel_ranks_reduce_gradients_too():
    on = machine(changes=[("stack", {"dp_hidden_fraction": 0.0})])
    ask = question(TINY, on)
    time = evaluated(ask, cuts(cp=[8, 1]), layouts(cut=[0, 1], dp=[1, 8], sharding="zero1", batch=64)).time
    assert_allclose(time.dp_exposed_s[0], time.dp_exposed_s[1])


def test_experts_reduce_gradients_over_their_own_replicas():
    on = machine(changes=[("stack", {"dp_hidden_fraction": 0.0})])
    ask = question(TINY_MOE, on)
    some = cuts(ep=[1, 8])
    split = step.shards(ask, layouts(cut=[0, 1], dp=16, batch=64), some)
    assert_array_equal(split.replicas, 16)
    assert_array_equal(split.expert_replicas, [16, 2])
    # 8 of 8 experts on each device and 16 replicas in two nodes, or one expert and 2 replicas of it in two nodes
    time = evaluated(ask, some, layouts(cut=[0, 1], dp=16, batch=64)).time
    assert time.dp_exposed_s[1] < time.dp_exposed_s[0]


def test_hybrid_sharding_shares_in_the_node_and_repeats_beyond():
    """64 replicas in 8 nodes: eight times the states, gathers in the node, one all-reduce between nodes."""
    on = machine(stack="fsdp2-torchtitan", changes=[("stack", {"dp_hidden_fraction": 0.0})])
    ask = question(TINY, on, batch=512)
    both = layouts(dp=64, sharding=["fsdp", "hsdp"], batch=512)
    split = step.shards(ask, both, cuts())
    assert_array_equal(split.weights, [64, 8])
    stages = evaluated(ask, cuts(), both).time.dp_exposed_s
    assert stages[1] < stages[0]  # eight micro-batches gather in the node instead of over eight


def test_neighbouring_stages_meet_where_the_pipeline_fits():
    """Four stages of four devices fill two nodes: some hop crosses the network, although most do not."""
    ask = question(TINY, machine())
    size = shapes.boundary_bytes(TINY, cuts(tp=4), 2048, ask.software)[0]
    rows = layouts(pp=[1, 2, 4, 8], dp=1)
    send = step._send_s(ask, cuts(tp=4), replace(rows, cut=np.zeros(4, np.int64)))
    on = ask.machine
    inside = network.send_s(
        size, on.system.scaleup_bytes_per_s * on.system.scaleup_efficiency, on.system.scaleup_latency_s
    )
    across = network.send_s(size, on.system.scaleout_bytes_per_s * on.fabric.efficiency, on.fabric.tiers[0].latency_s)
    assert_allclose(send, [0, inside, across, across])


def test_long_pipelines_cross_the_core():
    ask = question(TINY, machine())
    send = step._send_s(ask, cuts(tp=8), layouts(cut=[0, 0, 0], pp=[4, 4, 8], dp=[8, 64, 1024]))
    tiers = ask.machine.fabric.tiers
    assert_allclose(np.diff(send), [tiers[1].latency_s - tiers[0].latency_s, tiers[2].latency_s - tiers[1].latency_s])


def test_work_is_counted_once():
    """Model FLOP do not depend on the layout; recompute adds a forward pass of the layers to the hardware's."""
    ask = question(model("gpt3-175b"), machine("dgx-a100", stack="megatron-lm-2022"))
    some = cuts(tp=[1, 8, 8, 8], recompute=["none", "none", "selective", "full"])
    rows = layouts(cut=[0, 1, 2, 3], pp=[1, 8, 8, 8], sharding="none", batch=64)
    result = evaluated(ask, some, rows)
    flop = shapes.flop_per_token(ask.model, 2048)
    assert_allclose(result.model_flop, 64 * 2048 * flop.model)
    extra = (result.hardware_flop - result.model_flop) / (64 * 2048)
    assert_allclose(extra, [0, 0, flop.attention / 3, (flop.model - flop.head) / 3])
    assert_allclose(result.mfu, result.model_flop / result.time.total_s / used_devices(rows, some) / 312e12)


# Memory by head -------------------------------------------------------------------------------------------------------


def test_states_of_a_dense_model():
    """18 bytes a parameter replicated, 6 + 12 / dp with a shared optimizer, 18 / dp with everything shared."""
    ask = question(TINY, machine())
    rows = layouts(dp=4, sharding=["none", "zero1", "zero2", "zero3"])
    memory = held(ask, cuts(), replace(rows, cut=np.zeros(4, np.int64)))
    states = (memory.weights_bytes + memory.gradients_bytes + memory.optimizer_bytes)[:, 0]
    parameters = shapes.parameters(TINY).total  # 32,000 is a multiple of 128
    assert_allclose(states / parameters, [18, 6 + 3, 2 + 1 + 3, 4.5])
    assert_array_equal(memory.buffers_bytes[:, 0] > 0, [False, False, False, True])


def test_states_of_experts():
    ask = question(TINY_MOE, machine())
    some = cuts(ep=[1, 8])
    memory = held(ask, some, layouts(cut=[0, 1], dp=16, sharding="zero1"))
    table = price_layers(ask, some)
    counts = [1, 7, 1, 1, 1, 0]
    dense, expert = table.dense_parameters @ counts, table.expert_parameters @ counts
    assert_allclose(expert[1], expert[0] / 8)
    assert_allclose(memory.weights_bytes[:, 0], 2 * (dense + expert))
    assert_allclose(memory.optimizer_bytes[:, 0], 12 * (dense / 16 + expert / [16, 2]))


def test_stages_hold_the_model_once_but_for_a_tied_embedding():
    for tied, copies in ((False, 0), (True, 1)):
        shape = replace(TINY, tied_embeddings=tied)
        ask = question(shape, machine())
        one, four = (held(ask, cuts(), layouts(pp=pp, dp=1)).weights_bytes.sum() for pp in (1, 4))
        assert one == 2 * shapes.parameters(shape).total
        assert four - one == copies * 2 * 32000 * 1024


def test_first_stage_holds_a_micro_batch_for_each_stage():
    shape = replace(TINY, layers=32)
    ask = question(shape, machine())
    memory = held(ask, cuts(), layouts(pp=4, batch=64))
    table = price_layers(ask, cuts())
    layer, embedding, head = (table.saved_bytes[0, i] for i in (0, 3, 4))
    kept = 8 * layer * np.array([4, 3, 2, 1]) + [4 * embedding, 0, 0, head]
    assert_allclose(memory.activations_bytes[0], kept)
    assert_array_equal(memory.logits_bytes[0] > 0, [False, False, False, True])
    short = held(ask, cuts(), layouts(pp=4, batch=2)).activations_bytes[0]
    assert_allclose(short[0], 2 * (8 * layer + embedding))


def test_replicas_do_not_share_activations():
    ask = question(TINY, machine())
    one, many = (held(ask, cuts(), layouts(dp=dp, batch=64)).activations_bytes for dp in (1, 64))
    assert_array_equal(one, many)


def test_gathered_layers_are_the_largest():
    ask = question(TINY_MOE, machine())
    memory = held(ask, cuts(), layouts(dp=8, sharding="fsdp"))
    table = price_layers(ask, cuts())
    largest = (table.dense_parameters + table.expert_parameters)[0].max()
    stack = ask.machine.stack
    assert_allclose(memory.buffers_bytes, largest * (2 * stack.weight_bytes + stack.gradient_bytes))


# Korthikanti et al., 2022, figure 1: GPT-3 175B, MT-NLG 530B, GPT-1T on A100 of 80 GB: with selective
# recompute and sequence parallelism all fit, without either none does.
@pytest.mark.parametrize(
    ("name", "pp", "vpp", "batch"), [("gpt3-175b", 8, 3, 64), ("mt-nlg-530b", 35, 3, 280), ("gpt-1t", 64, 1, 512)]
)
def test_what_fits_an_a100(name, pp, vpp, batch):
    on = machine("dgx-a100", stack="megatron-lm-2022")
    repeated = replace(on, stack=replace(on.stack, sequence_parallel=False))
    rows = layouts(pp=pp, vpp=vpp, sharding="none", batch=batch)
    shared = held(question(model(name), on), cuts(tp=8, recompute="selective"), rows).total_bytes.max()
    plain = held(question(model(name), repeated), cuts(tp=8), rows).total_bytes.max()
    assert shared < 80e9 < plain


# More by head --------------------------------------------------------------------------------------------------------


def test_every_chunk_sends_on():
    """Each micro-batch crosses the border of every chunk, forward and backward."""
    ask = question(TINY, machine(changes=[("stack", {"pp_hidden_fraction": 0.0})]))
    rows = layouts(pp=[2, 2], vpp=[1, 4], batch=64)
    send = step._send_s(ask, cuts(), rows)
    assert_allclose(evaluated(ask, cuts(), rows).time.pp_exposed_s, 64 * 2 * send * [1, 4])


def test_work_is_the_same_however_it_is_cut():
    some = cuts(tp=[1, 2, 1, 2], cp=[1, 1, 2, 4], recompute="full")
    result = evaluated(question(TINY, machine(), seq_len=4096), some, layouts(cut=np.arange(4), batch=64))
    assert_allclose(result.hardware_flop, result.hardware_flop[0])
    assert_allclose(result.model_flop, result.model_flop[0])
    assert np.all(result.hardware_flop > 1.25 * result.model_flop)


def test_gathered_weights_hide_behind_each_micro_batch():
    quick = {"dp_hidden_fraction": 1.0, "keeps_gathered_in_pipeline": False}
    ask = question(replace(TINY, hidden=8192, ffn=32768), machine(changes=[("stack", quick)]), seq_len=8192, batch=512)
    time = evaluated(ask, cuts(), layouts(dp=8, sharding="fsdp", batch=512)).time
    assert time.dp_exposed_s == 0  # far less than the work of a micro-batch, but more than that of one in the step
    sent = evaluated(replace_stack(ask, dp_hidden_fraction=0.0), cuts(), layouts(dp=8, sharding="fsdp", batch=512))
    assert sent.time.dp_exposed_s > time.compute_s / 64


def replace_stack(ask, **changes):
    return replace(ask, machine=replace(ask.machine, stack=replace(ask.machine.stack, **changes)))


def test_devices_share_the_memory_of_their_host():
    ask = question(TINY, machine())
    system, stack = ask.machine.system, ask.machine.stack
    time = evaluated(ask, cuts(), layouts(dp=8, offload="optimizer")).time
    table = price_layers(ask, cuts())
    owned = float(table.dense_parameters[0] @ step.model_counts(ask)) / 8
    moved = (stack.gradient_bytes + stack.weight_bytes) / (0.8 * system.host_link_bytes_per_s)
    updated = stack.optimizer_traffic_bytes / (0.7 * system.host_memory_bytes_per_s / 8)
    assert_allclose(time.optimizer_s, owned * (moved + updated))


@pytest.mark.parametrize("faster", [1, 10])
def test_copies_to_the_host_hide_behind_the_work(faster):
    """Nine tenths of them, as long as there is so much work."""
    link = faster * machine().system.host_link_bytes_per_s
    on = machine(changes=[("system", {"host_link_bytes_per_s": link})])
    ask = question(replace(TINY, hidden=8192, ffn=32768), on, seq_len=2048)
    time = evaluated(ask, cuts(), layouts(batch=64, offload="activations")).time
    saved = price_layers(ask, cuts()).saved_bytes[0] @ step.model_counts(ask)
    sent = 2 * 64 * saved / (0.8 * link)
    assert_allclose(time.offload_exposed_s, sent - np.minimum(0.9 * sent, time.compute_s))


def test_both_directions_hold_a_stage_each():
    ask = question(TINY, machine())
    plain, both = (held(ask, cuts(), layouts(pp=2, dp=4, schedule=way)) for way in ("1f1b", "dualpipe"))
    assert_allclose(both.weights_bytes, 2 * plain.weights_bytes)
    assert_allclose(both.gradients_bytes, 2 * plain.gradients_bytes)
    assert_allclose(both.optimizer_bytes, plain.optimizer_bytes)


def test_a_node_waits_for_nobody():
    ask = question(TINY, machine(), batch=512)
    time = evaluated(ask, cuts(), layouts(dp=[8, 64], batch=512)).time
    noise = ask.machine.stack.step_noise_fraction
    without = time.total_s - time.jitter_s
    assert_allclose(time.jitter_s, without * noise * np.sqrt(2 * np.log([1, 8])), atol=1e-12)
