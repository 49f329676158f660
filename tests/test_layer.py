"""Prices of the parts of a model: what they add up to, and how they follow model, cut, machine and software."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from clusterplan import layer, shapes
from clusterplan.catalog import Catalog
from clusterplan.formulas import compute
from clusterplan.hardware import Accelerator
from clusterplan.layer import LayerTable, group, parts, price_layers
from clusterplan.layout import RECOMPUTE
from examples import TINY, TINY_HYBRID, TINY_MOE, cuts, machine, model, question

NO_HOST = {"stack": {"host_s_per_layer": 0.0}}
DENSE, MOE, MTP, EMBEDDING, HEAD, COPY = range(len(parts(TINY)))


def priced(shape, some=None, on=None, **rest):
    return price_layers(question(shape, on or machine(), **rest), some or cuts())


# Where groups sit -----------------------------------------------------------------------------------------------------


def members(on, size, stride, **rest):
    return group(question(TINY, on, **rest), np.atleast_1d(size), np.atleast_1d(stride)).members[:, 0].tolist()


def test_groups_of_a_node():
    on = machine("dgx-h100")  # domains of 8, leaves of 256, spines of 2,048
    assert members(on, 8, 1) == [8, 8, 8, 8]
    assert members(on, 4, 8) == [1, 4, 4, 4]
    assert members(on, 64, 8) == [1, 32, 64, 64]
    assert members(on, 16, 2) == [4, 16, 16, 16]
    assert members(on, 16384, 1) == [8, 256, 2048, 16384]


def test_groups_of_a_rack():
    on = machine("gb200-nvl72")
    assert members(on, 64, 1)[0] == 8  # 64 of 72: some groups lie across the edge
    assert members(on, 64, 1, domain=64)[0] == 64
    assert members(on, 8, 9)[0] == 8
    assert members(on, 8, 8, domain=64)[0] == 8


def test_faster_tiers_come_first():
    for name in ("dgx-h100", "gb200-nvl72", "tpu-v5p-pod"):
        where = group(question(TINY, machine(name)), np.array([16384]), np.array([1]))
        assert where.bytes_per_s[0] > where.bytes_per_s[1]
        assert np.all(np.diff(where.members, axis=0) >= 0)


# The table ------------------------------------------------------------------------------------------------------------


def test_parts_that_a_model_lacks_cost_nothing():
    table = priced(TINY)
    for name in LayerTable.__dataclass_fields__:
        assert not np.any(getattr(table, name)[:, [MOE, MTP]])
    whole = priced(TINY_MOE)
    assert np.all(whole.compute_s[:, [DENSE, MOE, MTP, EMBEDDING, HEAD]] > 0)


@pytest.mark.parametrize("name", ["llama-3.1-8b", "gpt3-175b", "deepseek-v3"])
def test_parameters_are_those_of_the_model(name):
    shape = model(name)
    plain = machine(changes=[("stack", {"vocab_multiple": 1})])
    table = priced(shape, on=plain)
    held = (table.dense_parameters + table.expert_parameters)[0]
    counts = [shape.dense_layers, shape.moe_layers, 0, 1, 1, 0]
    assert held @ counts == shapes.parameters(shape).total
    assert held[MTP] * shape.mtp_layers == shapes.parameters(shape).mtp


def test_columns_of_kinds():
    names = parts(TINY_HYBRID)
    assert names == ("mamba", "local", "linear", "mtp", "embedding", "head", "tied copy")
    table = priced(TINY_HYBRID)
    assert np.all(table.compute_s[0, :-1] > 0)
    held = (table.dense_parameters + table.expert_parameters)[0]
    plain = machine(changes=[("stack", {"vocab_multiple": 1})])
    held = (priced(TINY_HYBRID, on=plain).dense_parameters + priced(TINY_HYBRID, on=plain).expert_parameters)[0]
    assert held @ [2, 4, 1, 0, 1, 1, 0] == shapes.parameters(TINY_HYBRID).total
    assert held[3] == shapes.parameters(TINY_HYBRID).mtp


def test_windows_are_faster_on_long_sequences_alone_and_not_where_all_scores_are_written():
    full = replace(TINY, attention=replace(TINY.attention, window=4096))
    short, long = (priced(full, seq_len=n).compute_s[0, DENSE] for n in (4096, 65536))
    assert short == priced(TINY, seq_len=4096).compute_s[0, DENSE]
    assert long < 0.6 * priced(TINY, seq_len=65536).compute_s[0, DENSE]
    eager = machine("dgx-a100", stack="megatron-lm-2022")
    windowed, whole = (priced(one, on=eager, seq_len=8192) for one in (full, TINY))
    assert windowed.saved_bytes[0, DENSE] == whole.saved_bytes[0, DENSE]
    assert windowed.compute_s[0, DENSE] == whole.compute_s[0, DENSE]


def test_states_of_fixed_size_take_time_and_memory_in_proportion():
    on = machine(changes=NO_HOST.items())
    short, long = (priced(TINY_HYBRID, on=on, seq_len=n) for n in (4096, 16384))
    assert_allclose(long.saved_bytes[0, 0], 4 * short.saved_bytes[0, 0])
    assert 3.5 < long.compute_s[0, 0] / short.compute_s[0, 0] < 4.01
    assert np.all(long.memory_bound_s <= long.compute_s)
    again = priced(TINY_HYBRID, cuts(recompute="full"), on=on)
    assert 0.25 < again.recompute_s[0, 0] / again.compute_s[0, 0] < 0.5


def test_tied_head_is_a_copy_of_the_embedding():
    tied = priced(TINY, cuts(tp=[1, 8]))
    assert_array_equal(tied.dense_parameters[:, COPY], 1024 * np.array([32000, 32768 / 8]))  # a multiple of 8 x 128
    untied = priced(replace(TINY, tied_embeddings=False), cuts(tp=[1, 8]))
    assert not np.any(untied.dense_parameters[:, COPY])
    assert_array_equal(
        untied.dense_parameters[:, HEAD] - tied.dense_parameters[:, HEAD], tied.dense_parameters[:, COPY]
    )
    assert_array_equal(untied.compute_s[:, HEAD], tied.compute_s[:, HEAD])


def test_products_by_head():
    """One layer on a machine with boundless memory, no host, no ramp, no waves: products and attention alone."""
    on = machine(
        changes=[
            ("accelerator", {"memory_bytes_per_s": 1e30, "k_ramp": 0, "wave_hardness": 0, "tile_m": 1, "tile_n": 1}),
            ("stack", {"host_s_per_layer": 0.0}),
        ]
    )
    shape = model("llama-3.1-8b")
    device = on.accelerator
    rate = device.bf16_flop_per_s * device.in_training_efficiency * on.stack.kernel_share
    multiplied = 4096 * (4096 + 2 * 1024 + 4096) + 3 * 4096 * 14336
    products = 6 * 8192 * multiplied / (rate * device.gemm_efficiency["bf16"])
    share = device.attention_efficiency["cudnn"] * 8192 / (8192 + compute.ATTENTION_HALF_LENGTH)
    attention = 2 * 4096 * 8192**2 * (1 + 2 / device.attention_backward_ratio) / (rate * share)
    assert_allclose(priced(shape, on=on, seq_len=8192).compute_s[0, DENSE], products + attention, rtol=1e-6)


def test_recompute():
    modes = cuts(tp=8, recompute=list(RECOMPUTE))
    table = priced(model("gpt3-175b"), modes, on=machine("dgx-a100", stack="megatron-lm-2022", changes=NO_HOST.items()))
    none, selective, half, full = table.recompute_s[:, DENSE]
    assert none == 0 < selective < half < full
    assert_allclose(half, full / 2)
    assert_array_equal(table.compute_s[:, DENSE], table.compute_s[0, DENSE])
    # the whole forward pass once more: a third of the work, somewhat less where backward is the slower half
    assert 0.27 < full / table.compute_s[0, DENSE] < 0.36
    saved = table.saved_bytes[:, DENSE]  # half keeps scores, selective drops them all
    assert saved[0] > saved[2] > saved[1] > saved[3]
    assert np.all(np.diff(table.working_bytes[:, DENSE]) >= 0)
    assert table.working_bytes[2, DENSE] == table.working_bytes[3, DENSE] > table.working_bytes[1, DENSE] > 0
    # Korthikanti et al., 2022: selective recompute of GPT-3 repeats s / 6 h of the layer's forward work, 2.7 %
    flop = table.recompute_flop[:, DENSE] * 8
    layer = 24 * 2048 * 12288**2 * (1 + 2048 / (6 * 12288))
    assert_allclose(flop, [0, 4 * 2048**2 * 12288, layer / 2, layer])


def test_ends_are_never_recomputed():
    table = priced(TINY, cuts(recompute=list(RECOMPUTE)))
    assert not np.any(table.recompute_s[:, [EMBEDDING, HEAD]])
    assert not np.any(table.recompute_flop[:, [EMBEDDING, HEAD]])


def test_full_recompute_repeats_forward_traffic():
    on = machine(changes=[("stack", {"tp_hidden_fraction": 0.0})])
    none, full = priced(TINY, cuts(tp=8, recompute=["none", "full"]), on=on).tp_exposed_s[:, DENSE]
    assert_allclose(full / none, (2 * 2 + 3) / (1 + 1 + 2 + 1))  # gather and scatter: 1 + 1 forward, 2 + 1 backward


def test_groups_of_one_send_nothing():
    table = priced(TINY_MOE)
    for name in ("tp_exposed_s", "cp_exposed_s", "ep_exposed_s", "contention_s"):
        assert not np.any(getattr(table, name))


def test_each_group_sends_its_own():
    some = cuts(tp=[8, 1, 1, 8], cp=[1, 8, 1, 1], ep=[1, 1, 8, 1], etp=[1, 1, 1, 8])
    table = priced(TINY_MOE, some)
    assert_array_equal(table.tp_exposed_s[:, MOE] > 0, [True, False, False, True])
    assert_array_equal(table.cp_exposed_s[:, MOE] > 0, [False, True, False, False])
    assert_array_equal(table.ep_exposed_s[:, MOE] > 0, [False, False, True, False])


def test_hidden_traffic_costs_contention():
    shown = machine(changes=[("stack", {"tp_hidden_fraction": 0.0})])
    hidden = machine(changes=[("stack", {"tp_hidden_fraction": 0.5})])
    some = cuts(tp=8, micro_batch=4)
    before, after = (priced(model("llama-3.1-405b"), some, on=on, seq_len=8192) for on in (shown, hidden))
    assert_allclose(after.tp_exposed_s[0, DENSE], before.tp_exposed_s[0, DENSE] / 2)
    share = shown.stack.contention_fraction
    assert_allclose(after.contention_s[0, DENSE], share * before.tp_exposed_s[0, DENSE] / 2)
    assert not np.any(before.contention_s)


def test_nothing_of_tensor_parallel_traffic_hides_across_nodes():
    on = machine(changes=[("stack", {"tp_hidden_fraction": 1.0})])
    table = priced(model("llama-3.1-405b"), cuts(tp=[8, 16]), on=on, seq_len=8192)
    inside, across = table.tp_exposed_s[:, DENSE]
    assert inside == 0 < across


def test_host_time_bounds_small_layers():
    slow = machine(changes=[("stack", {"host_s_per_layer": 1.0})])
    table = priced(TINY, on=slow)
    assert_allclose(table.compute_s[0, DENSE] + table.host_s[0, DENSE], 2.0)
    assert table.host_s[0, HEAD] == 0


def test_only_layers_with_experts_wait_for_the_routing():
    on = machine(changes=[("stack", {"host_s_per_layer": 0.0, "moe_stall_s_per_layer": 4e-3})])
    table = priced(model("deepseek-v3"), cuts(ep=8, recompute=["none", "full"]), on=on, seq_len=4096)
    kinds = [name for name, _ in model("deepseek-v3").layer_counts.items()]
    assert_array_equal(table.host_s[:, kinds.index("dense")], 0.0)
    assert_allclose(table.host_s[:, kinds.index("moe")], [4e-3, 6e-3])


def test_devices_on_which_a_step_is_one_graph_do_not_wait():
    stack = machine(stack="megatron-bridge-2026").stack
    catalog = Catalog()
    waits = {
        name: stack.on(catalog.load(Accelerator, name)).moe_stall_s_per_layer for name in catalog.names(Accelerator)
    }
    assert waits["gb200-186gb"] == 0
    assert waits["h100-sxm-80gb"] == stack.moe_stall_s_per_layer > 0


def test_eight_bit_products_are_faster_but_attention_is_not():
    shape, some = model("llama-3.1-405b"), cuts(tp=8)
    on = machine(changes=NO_HOST.items())
    half, eighth = (priced(shape, some, on=on, precision=p, seq_len=8192) for p in ("bf16", "fp8"))
    assert 1.3 < half.compute_s[0, DENSE] / eighth.compute_s[0, DENSE] < 2
    kept = eighth.saved_bytes[0, DENSE] / half.saved_bytes[0, DENSE]
    assert 0.75 < kept < 0.9  # only what feeds products is kept in 8 bits


def test_eager_attention_keeps_and_moves_its_scores():
    eager = machine("dgx-a100", stack="megatron-lm-2022", changes=NO_HOST.items())
    fused = replace(eager, stack=replace(eager.stack, attention_kernels=("flash2",)))
    shape = model("gpt3-175b")
    before, after = (priced(shape, cuts(tp=8), on=on) for on in (eager, fused))
    scores = 12 * 2048**2
    assert before.compute_s[0, DENSE] > after.compute_s[0, DENSE]
    statistics = 4 * 12 * 2048
    assert_allclose(before.saved_bytes[0, DENSE] - after.saved_bytes[0, DENSE], scores * 5 - statistics)


def test_busiest_rank_of_experts():
    on = machine(changes=NO_HOST.items())
    even = replace(on, stack=replace(on.stack, expert_imbalance_fraction=0.0))
    busy = replace(on, stack=replace(on.stack, expert_imbalance_fraction=0.5))
    a, b = (priced(model("mixtral-8x22b"), cuts(ep=8), on=m, seq_len=8192).compute_s[0, MOE] for m in (even, busy))
    assert 1.3 < b / a < 1.5


def test_memory_bound_part_is_within_the_work():
    table = priced(TINY_MOE, cuts(recompute=list(RECOMPUTE)), on=machine(changes=NO_HOST.items()))
    assert np.all(table.memory_bound_s >= 0)
    assert np.all(table.memory_bound_s <= table.compute_s + table.recompute_s)


def test_array_equals_scalars():
    modes = ["none", "block", "full"]
    some = cuts(tp=[1, 2, 8], cp=[1, 2, 1], ep=[1, 4, 8], etp=[1, 2, 1], micro_batch=[1, 2, 4], recompute=modes)
    for name in ("dgx-h100", "gb200-nvl72", "mi300x-platform", "tpu-v5p-pod"):
        on = machine(name)
        together = priced(TINY_MOE, some, on=on)
        for row in range(3):
            alone = priced(TINY_MOE, some.take(np.array([row])), on=on)
            for field in LayerTable.__dataclass_fields__:
                assert_allclose(getattr(alone, field)[0], getattr(together, field)[row], err_msg=field)


def weight_traffic_s(on):
    """Time to write each of a layer's weights once, at two bytes, as products write their results."""
    device = on.accelerator
    products = shapes.layer_shape(TINY, "dense", cuts(), 2048, question(TINY, on).software).products
    weights = sum(float((p.n * p.k * p.count)[0]) for p in products)
    return compute.EPILOGUE_SHARE * 2 * weights / (device.memory_bytes_per_s * device.memory_efficiency)


def test_gradients_are_added_to_what_is_there():
    on = machine(changes=NO_HOST.items())
    times = []
    for accumulation in (2.0, 8.0):
        stack = replace(on.stack, accumulation_bytes=accumulation)
        times.append(priced(TINY, on=replace(on, stack=stack)).compute_s[0, DENSE])
    assert_allclose(times[1] - times[0], 3 * weight_traffic_s(on))


def test_operands_are_cast_before_each_pass(monkeypatch):
    on = machine(changes=NO_HOST.items())
    device, cast = on.accelerator, priced(TINY, on=on, precision="fp8").compute_s[0, DENSE]
    monkeypatch.setattr(layer, "CAST_BYTES", 0.0)
    products = list(shapes.layer_shape(TINY, "dense", cuts(), 2048, question(TINY, on).software).products)
    inputs = sum(float((p.m * p.k * p.count)[0]) for p in products)
    gradients = sum(float((p.m * p.n * p.count)[0]) for p in products)  # of the results
    rate = device.memory_bytes_per_s * device.memory_efficiency
    without = priced(TINY, on=on, precision="fp8").compute_s[0, DENSE]
    assert_allclose(cast - without, 4 * (inputs + gradients) / rate)


def test_vector_work_by_head():
    """Each operand is moved once each way, times what the software moves of it."""
    on = machine(changes=NO_HOST.items())
    device, stack = on.accelerator, on.stack
    shape = shapes.layer_shape(TINY_MOE, "moe", cuts(), 2048, question(TINY_MOE, on).software)
    moved = sum(
        float((v.forward_bytes + v.backward_bytes)[0])
        * (stack.permutation_traffic if v.is_permutation else stack.vector_traffic)
        for v in shape.vectors
    )
    expected = moved / (device.memory_bytes_per_s * device.memory_efficiency)
    assert_allclose(priced(TINY_MOE, on=on).memory_bound_s[0, MOE], expected)
    assert stack.permutation_traffic != stack.vector_traffic


def test_layers_between_kept_inputs_are_restored_together():
    every, second = cuts(recompute="full"), replace(cuts(recompute="full"), checkpoint_layers=np.array([2]))
    one, two, whole = (priced(TINY, some) for some in (every, second, cuts()))
    held = whole.saved_bytes[0, DENSE]
    size = 2 * 2048 * 1024  # the input of a layer
    assert_allclose([one.saved_bytes[0, DENSE], two.saved_bytes[0, DENSE]], [size, size / 2])
    assert_allclose([t.working_bytes[0, DENSE] for t in (one, two)], [held - size, 2 * held - size])


def test_experts_cut_by_tensor_parallel_gather_their_tokens():
    on = machine(changes=[("stack", {"tp_hidden_fraction": 0.0, "host_s_per_layer": 0.0})])
    ask, some = question(TINY_MOE, on), cuts(tp=2, etp=[1, 2])
    alone, cut = price_layers(ask, some).tp_exposed_s[:, MOE]
    tokens = 2048 / 2 * 2  # of a device after sequence parallelism, each to two experts
    gathered = np.array([2.0 * (tokens * 2) * 1024])
    ring = group(ask, np.array([2]), np.array([1])).time_s("all_gather", gathered)
    assert_allclose(cut - alone, 4 * ring[0])  # gathered and scattered, forward and backward
