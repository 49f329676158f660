"""Which way a knob turns: mistakes that people and calculators make, each with where it was reported."""

from dataclasses import replace

import numpy as np
import pytest

from clusterplan import shapes
from clusterplan.errors import LayoutError
from clusterplan.estimate import estimate as estimated
from clusterplan.scenario import Scenario, resolve
from examples import CATALOG


def estimate(model="llama-3.1-70b", hardware="dgx-h100", **given):
    """An estimate of a scenario; sizes that are not named are those of a plain 70B run on 64 devices."""
    plain = {
        "devices": (64, 64), "tp": 8, "pp": 4, "micro_batch": 1, "global_batch": 64, "seq_len": 4096,
        "recompute": "none", "tokens": 10**12,
    }  # fmt: skip
    scenario = Scenario(model=model, hardware=(hardware,), **(plain | given))
    return estimated(resolve(scenario, CATALOG, lambda m: shapes.parameters(m).active)).plan


def step_s(plan):
    return float(plan.step.time.total_s[0])


# Megatron-Bridge, memory tuning notes (PR 3107): virtual stages hold more activations, not fewer.
def test_virtual_stages_do_not_save_memory():
    assert estimate(vpp=5).peak_bytes > estimate().peak_bytes


# TransformerEngine issue 1261: eight bits are for speed; 16-bit weights stay, and their copies come besides.
def test_eight_bits_are_faster_and_save_no_weights():
    half, eight = estimate(), estimate(precision="fp8")
    assert step_s(eight) < step_s(half)
    assert eight.memory.weights_bytes.max() >= half.memory.weights_bytes.max()


# Megatron-Bridge issue 3880: fused attention has no scores to drop.
def test_recompute_of_the_attention_core_saves_next_to_nothing_with_fused_attention():
    core = {"sets": {"stack.selective_modules": '["core_attn"]'}}
    plain, dropped = estimate(), estimate(recompute="selective", **core)
    assert dropped.peak_bytes > 0.97 * plain.peak_bytes
    eager = {"hardware": "dgx-a100", "stack": "megatron-lm-2022", "seq_len": 2048, "model": "gpt3-175b", "pp": 8}
    plain, dropped = estimate(**eager), estimate(recompute="selective", **eager)
    assert plain.memory.activations_bytes.max() > 2 * dropped.memory.activations_bytes.max()  # 5as/h against 34


# BigScience chronicles (61 against 47 GB), Megatron-Bridge issue 5077: one stage is full, the others have room.
def test_the_heaviest_stage_is_not_the_average():
    plan = estimate(pp=8)
    stages = plan.memory.total_bytes[0]
    assert stages.max() > 1.2 * stages.mean()
    held = plan.memory.activations_bytes[0]
    assert held[1] > 3 * held[-1]  # the last stage holds one micro-batch, the second seven
    assert plan.memory.logits_bytes[0, -1] > 0 == plan.memory.logits_bytes[0, 0]


# llama-cookbook issue 785: more replicas do not make the sequences of a device shorter.
def test_activations_do_not_shrink_with_replicas():
    few, many = estimate(devices=(64, 64)), estimate(devices=(512, 512), global_batch=512)
    np.testing.assert_array_equal(few.memory.activations_bytes, many.memory.activations_bytes)
    assert many.memory.optimizer_bytes.max() < few.memory.optimizer_bytes.max()


# DeepSpeed issues 237 and 2131: there is nobody to share with; stage 2 keeps whole weights.
def test_sharding_does_nothing_for_one_replica_and_stage_two_keeps_weights():
    alone = {"model": "llama-3.1-8b", "tp": 1, "pp": 1, "devices": (1, 1), "stack": "deepspeed-zero"}
    none, one, two, three = (
        estimate(**alone, sharding=name).peak_bytes for name in ("none", "zero1", "zero2", "zero3")
    )
    assert none == one == two <= three  # gathered layers are held besides
    shared = alone | {"devices": (8, 8)}
    two, three = (estimate(**shared, sharding=name).memory for name in ("zero2", "zero3"))
    assert two.weights_bytes.max() == pytest.approx(8 * three.weights_bytes.max())


# Megatron-Bridge, parallelism notes: expert groups lie inside the others, they do not multiply the devices.
def test_expert_parallelism_needs_no_devices_of_its_own():
    plan = estimate("mixtral-8x22b", tp=2, pp=8, ep=4, devices=(64, 64))
    assert int(plan.layouts.dp[0]) == 4
    with pytest.raises(LayoutError, match="no multiple of ep × etp"):
        estimate("mixtral-8x22b", tp=1, pp=16, ep=8, devices=(64, 64))


# BigScience chronicles: 229 s at micro-batch 8 against 208 s at 2; the pipeline drains.
def test_the_largest_micro_batch_is_not_always_the_fastest():
    times = [step_s(estimate(pp=8, micro_batch=m, global_batch=128)) for m in (1, 4, 16)]
    assert times[2] > times[1]


# Megatron-Bridge skills: tensor parallelism over nodes costs more than it brings.
def test_tensor_parallelism_stays_in_the_node():
    assert step_s(estimate(tp=16, pp=2)) > step_s(estimate(tp=8, pp=4))


# alpa issue 824, OLMo issue 845: at a fixed batch each device does less.
def test_more_devices_at_a_fixed_batch_are_used_less_well():
    mfu = [float(estimate(devices=(n, n)).step.mfu[0]) for n in (64, 256, 1024)]
    assert mfu[0] > mfu[1] > mfu[2]


# Megatron-LM issue 1456: an exchange of tokens that leaves the domain costs more.
def test_experts_inside_a_domain_are_exchanged_faster():
    wide = {"model": "qwen3-235b-a22b", "tp": 1, "pp": 4, "devices": (256, 256), "global_batch": 1024}
    rack = estimate(hardware="gb200-nvl72", ep=32, **wide)
    node = estimate(hardware="dgx-b200", ep=32, **wide)
    share = [float(p.step.time.ep_exposed_s[0]) / step_s(p) for p in (rack, node)]
    assert share[0] < 0.5 * share[1]


# users of offers for fabrics: over-subscription and slow interfaces show in the step.
@pytest.mark.parametrize("change", [{"fabric": "roce-400g-7to1"}, {"sets": {"system.scaleout_gbit_per_s": "100"}}])
def test_a_slower_network_is_slower(change):
    plain = estimate(devices=(4096, 4096), global_batch=1024, fabric="roce-400g")
    other = estimate(devices=(4096, 4096), global_batch=1024, **({"fabric": "roce-400g"} | change))
    assert step_s(other) > step_s(plain)


# Infrastructure pages that plan without failures: they cost more on more devices.
def test_failures_cost_more_on_more_devices():
    lost = [
        1 - float(estimate(devices=(n, n), global_batch=4096).run.progress.goodput_fraction[0]) for n in (512, 8192)
    ]
    assert 0 < lost[0] < lost[1]


def test_the_helper_changes_what_it_says():
    plan = estimate(pp=2, micro_batch=2)
    assert (int(plan.layouts.pp[0]), int(plan.cuts.micro_batch[0])) == (2, 2)
    assert replace(plan, usable_bytes=np.array(1.0)).verdict != "fits"
