"""The whole job: parts add up, limits by head, published runs, every number from a formula."""

from dataclasses import fields, is_dataclass, replace
from itertools import pairwise, product

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from clusterplan import run
from clusterplan.catalog import Catalog
from clusterplan.formulas.finish import deadline_probability, wall_standard_deviation_s
from clusterplan.formulas.power import node_w
from clusterplan.hardware import Accelerator, Fabric, Machine, Stack, Storage, System, Tier
from clusterplan.outcome import Circumstances, LongContext, Work
from clusterplan.site import AirLoop, Cooling, LiquidLoop, Operations, Prices, Site
from clusterplan.trace import recording

DAY_S = 86400.0
YEAR_S = 365.25 * DAY_S

# Records with round figures of an eight-device node; nothing here follows the profiles.
DEVICE = Accelerator(
    name="device",
    vendor="v",
    device="one module",
    memory_bytes=80e9,
    memory_bytes_per_s=3e12,
    tdp_w=700.0,
    idle_w=100.0,
    compute_units=132,
    gemm_efficiency={"bf16": 0.8},
    in_training_efficiency=0.9,
    attention_efficiency={},
    attention_backward_ratio=0.7,
    memory_efficiency=0.85,
    k_ramp=100.0,
    wave_hardness=0.5,
    tile_m=128,
    tile_n=256,
    # Llama 3 Herd of Models, arXiv:2407.21783, table 5: 268 of 419 interruptions are the device's, 16,384 x 54 d
    failures_per_device_s=268 / (16384 * 54 * DAY_S),
    clock_exponent=2.5,
    embodied_kg_co2e=164.0,
    bf16_flop_per_s=1e15,
)
SYSTEM = System(
    name="node",
    vendor="v",
    accelerator="device",
    devices=8,
    node_devices=8,
    racks=0.5,
    scaleup_devices=8,
    scaleup_bytes_per_s=450e9,
    scaleup_latency_s=2e-6,
    scaleup_efficiency=0.8,
    scaleup_topology="switch",
    scaleout_bytes_per_s=50e9,
    host_link_bytes_per_s=50e9,
    rated_w=10e3,
    host_w=850.0,
    nics=8,
    nic_w=25.0,
    scaleup_w=320.0,
    fan_fraction=0.1,
    psu_efficiency=0.95,
    liquid_fraction=0.0,
    cooling="air",
    # the other 151 of the 419, in 2,048 nodes
    failures_per_node_s=151 / (2048 * 54 * DAY_S),
    host_embodied_kg_co2e=3000.0,
    fabric="fabric",
    stack="stack",
)
RACK = replace(
    SYSTEM, name="rack", devices=72, node_devices=4, racks=1.0, rated_w=130e3, liquid_fraction=0.85, cooling="liquid"
)
FABRIC = Fabric(
    name="fabric",
    technology="fat tree",
    port_bytes_per_s=50e9,
    efficiency=0.9,
    decay_per_doubling=0.05,
    tiers=(
        Tier(name="leaf", span_devices=256, oversubscription=1.0, latency_s=1e-5),
        Tier(name="spine", span_devices=2048, oversubscription=1.0, latency_s=1e-5),
        Tier(name="core", span_devices=65536, oversubscription=2.0, latency_s=1e-5),
    ),
    switch_w_per_port=10.0,
    optic_w=10.0,
)
STACK = Stack(
    name="stack",
    version="1",
    formats=("bf16",),
    attention_kernels=("eager",),
    schedules=("1f1b",),
    default_schedules=("1f1b",),
    sharding=("zero1",),
    default_sharding=("zero1",),
    recompute=("none",),
    selective_modules=(),
    sequence_parallel=True,
    uneven_pipeline=False,
    max_tp=8,
    max_pp=64,
    max_cp=8,
    max_ep=8,
    expert_tensor_parallel=False,
    vocab_multiple=128,
    weight_bytes=2.0,
    gradient_bytes=4.0,
    gradient_message_bytes=2.0,
    accumulation_bytes=8,
    optimizer_bytes=12.0,
    optimizer_traffic_bytes=30.0,
    activation_factor=1.0,
    logit_bytes=4.0,
    logit_traffic_bytes=12.0,
    score_bytes=5.0,
    score_traffic_forward_bytes=10.0,
    score_traffic_backward_bytes=10.0,
    kernel_share=1.0,
    vector_traffic=1.0,
    permutation_traffic=1.0,
    host_s_per_layer=1e-3,
    moe_stall_s_per_layer=0.0,
    tp_hidden_fraction=0.0,
    cp_hidden_fraction=0.0,
    ep_hidden_fraction=0.0,
    pp_hidden_fraction=0.0,
    dp_hidden_fraction=0.5,
    contention_fraction=0.1,
    expert_imbalance_fraction=0.1,
    step_noise_fraction=0.01,
    context_bytes=2e9,
    fragmentation_fraction=0.05,
    margin_fraction=0.05,
    step_error_fraction=0.1,
    moe_step_error_fraction=0.2,
    ranking_error_fraction=0.03,
)
STORAGE = Storage(
    name="store",
    technology="flash",
    write_bytes_per_s=1e12,
    read_bytes_per_s=2e12,
    node_bytes_per_s=25e9,
    capacity_bytes=100e15,
    w_per_byte=5e-13,
    w_per_bytes_per_s=5e-8,
)
# Rounded normals of Chicago; supplies and losses as the simulations behind the medians below have them.
SITE = Site(
    name="site",
    region="r",
    mean_c=10.5,
    seasonal_amplitude_c=14.0,
    daily_amplitude_c=4.9,
    mean_relative_humidity_fraction=0.70,
    ups_efficiency=0.945,
    distribution_loss_fraction=0.01,
    misc_fraction=0.001,
    transformer_efficiency=0.993,
    supply_factor=1.33,
    heat_reuse_fraction=0.2,
    grid_kg_co2e_per_kwh=0.4,
    contract_kg_co2e_per_kwh=0.1,
    grid_water_l_per_kwh=4.0,
    usd_per_kwh=0.08,
    demand_usd_per_kw_month=10.0,
    usd_per_m3_water=1.5,
)
AIR = AirLoop(
    rejection="tower",
    fan_pa=250.0,
    fan_efficiency=0.7,
    rise_k=14.0,
    pump_pa=165e3,
    pump_efficiency=0.72,
    water_rise_k=10.0,
    supply_c=26.0,
    return_c=36.0,
)
LIQUID = LiquidLoop(
    rejection="dry", pump_pa=250e3, pump_efficiency=0.7, water_rise_k=10.0, supply_c=36.0, return_c=46.0
)
COOLING = Cooling(
    name="cooling",
    air=AIR,
    liquid=LIQUID,
    tower_approach_k=4.5,
    exchanger_approach_k=2.2,
    tower_fraction=0.015,
    chiller_load_fraction=0.6,
    dry_approach_k=8.0,
    dry_fan_fraction=0.015,
    dry_rise_k=10.0,
    adiabatic_effectiveness=0.7,
    carnot_efficiency=0.5,
    condenser_lift_k=14.0,
    max_wet_bulb_c=21.0,
    concentration_cycles=4.0,
    latent_fraction=1.0,
    rack_limit_w=140e3,
    capex_factor=1.0,
)
OWN = Prices(
    name="list",
    date="2026-11-30",
    currency="USD",
    basis="own",
    rent_usd_per_device_h={"node": 2.0, "rack": 4.0},
    rent_includes_energy=True,
    system_usd={"node": 300e3, "rack": 3.2e6},
    network_usd_per_device=5000.0,
    storage_usd_per_tb=300.0,
    facility_usd_per_w=12.0,
    it_life_s=5 * YEAR_S,
    facility_life_s=20 * YEAR_S,
    interest_fraction_per_year=0.08,
    residual_fraction=0.0,
    utilisation_fraction=0.9,
    support_fraction_per_year=0.04,
    facility_support_fraction_per_year=0.03,
    staff_persons=20.0,
    usd_per_person_year=300e3,
    usd_per_kg_co2e=0.1,
    building_kg_co2e_per_w=2.0,
)
RENT = replace(OWN, basis="rent")
METERED = replace(RENT, rent_includes_energy=False)
OPERATIONS = Operations(
    detect_s=120.0,
    diagnose_s=120.0,
    replace_s=60.0,
    launch_s=60.0,
    communicator_s=2.0,
    communicator_s_per_device=0.0024,
    warmup_s=60.0,
    repair_s=2 * DAY_S,
    spare_shortage_fraction=0.01,
    asynchronous_checkpoint=True,
    longest_checkpoint_interval_s=3 * 3600.0,
    repeated_fraction=0.02,
    matrix_activity_fraction=1.0,
    memory_activity_fraction=0.8,
    communication_activity_fraction=0.45,
    waiting_activity_fraction=0.2,
    provision_fraction=0.85,
)


SLOW = replace(STORAGE, write_bytes_per_s=20e9)


def circumstances(system=SYSTEM, device=DEVICE, operations=OPERATIONS, **changes):
    machine = Machine(system=system, accelerator=device, fabric=FABRIC, stack=STACK)
    whole = Circumstances(
        machine=machine,
        site=SITE,
        cooling=COOLING,
        prices=OWN,
        storage=STORAGE,
        operations=operations,
        tokens=15.6e12,
        seq_len=8192,
        parameters=405e9,
        checkpoint_bytes_per_parameter=14.0,
        deadline_s=80 * DAY_S,
    )
    return replace(whole, **changes)


def failing(factor, system=SYSTEM, **changes):
    """Circumstances in which everything fails ``factor`` times as often."""
    return circumstances(
        system=replace(system, failures_per_node_s=system.failures_per_node_s * factor),
        device=replace(DEVICE, failures_per_device_s=DEVICE.failures_per_device_s * factor),
        **changes,
    )


def work(used, step_s=6.0, bought=None, batch=2048, shares=(0.7, 0.12, 0.1, 0.08)):
    used = np.atleast_1d(np.asarray(used))
    step = np.broadcast_to(np.asarray(step_s, dtype=float), used.shape)
    parts = [share * step for share in shares]
    return Work(
        step_s=step,
        matrix_s=parts[0],
        memory_s=parts[1],
        communication_s=parts[2],
        waiting_s=parts[3],
        used_devices=used,
        bought_devices=used if bought is None else np.atleast_1d(np.asarray(bought)),
        global_batch=np.full(used.shape, batch),
    )


SIZES = np.array([8, 1024, 8192, 16384, 65536, 131072])
MANY = work(SIZES, step_s=6.0 * 16384 / SIZES)


def leaves(part, prefix=""):
    """Every array of a result and every total, by path."""
    totals = [name for name, value in vars(type(part)).items() if isinstance(value, property)]
    for name in [*(entry.name for entry in fields(part)), *totals]:
        value = getattr(part, name)
        if is_dataclass(value):
            yield from leaves(value, f"{prefix}{name}.")
        elif value is not None:
            yield f"{prefix}{name}", np.asarray(value)


def total_usd(**changes):
    return run.evaluate(circumstances(**changes), MANY).cost.total_usd


# Parts add up ---------------------------------------------------------------------------------------------------------

EVERYTHING = [
    failing(factor, prices=prices, operations=replace(OPERATIONS, asynchronous_checkpoint=asynchronous))
    for factor, prices, asynchronous in product((0, 1, 30), (OWN, RENT, METERED), (True, False))
]


@pytest.mark.parametrize("given", EVERYTHING)
def test_parts_add_up(given):
    outcome = run.evaluate(given, MANY)
    fleet, progress, energy = outcome.fleet, outcome.progress, outcome.energy
    losses = [value for name, value in leaves(progress) if name.endswith("_loss_fraction")]
    assert len(losses) == 9
    assert_allclose(progress.goodput_fraction + sum(losses), 1, rtol=1e-12)
    assert_allclose(progress.ideal_s, progress.goodput_fraction * progress.wall_s)
    assert_array_equal(fleet.devices, fleet.units * 8)
    assert_array_equal(fleet.used_devices + fleet.spare_devices + fleet.idle_devices, fleet.devices)
    watts = [value for name, value in leaves(energy.it) if name != "total_w"]
    assert_allclose(sum(watts), energy.mean_it_w)
    hours = progress.wall_s / 3600
    assert_allclose(energy.it_kwh, energy.mean_it_w / 1e3 * hours)
    assert_allclose(energy.facility_kwh, energy.mean_facility_w / 1e3 * hours)
    assert_allclose(energy.facility_kwh, energy.it_kwh * energy.pue)
    assert_allclose(energy.mean_it_w + energy.building.total_w, energy.mean_facility_w, rtol=1e-12)
    assert_allclose(energy.water_m3, energy.it_kwh * energy.water_l_per_kwh / 1e3)
    paid = [value for name, value in leaves(outcome.cost) if name != "total_usd"]
    assert_allclose(sum(paid), outcome.cost.total_usd)
    assert_allclose(outcome.usd_per_million_tokens, outcome.cost.total_usd / 15.6e6)
    assert_allclose(outcome.carbon.total_kg_co2e, outcome.carbon.operational_kg_co2e + outcome.carbon.embodied_kg_co2e)


@pytest.mark.parametrize("given", EVERYTHING)
def test_everything_is_finite_and_not_negative(given):
    for name, value in leaves(run.evaluate(given, MANY)):
        if name != "progress.mtbf_s":  # infinite where nothing fails
            assert np.all(np.isfinite(value)), name
        assert np.all(value >= 0), name


@pytest.mark.parametrize("given", [EVERYTHING[0], EVERYTHING[-1]])
def test_array_equals_scalars(given):
    together = dict(leaves(run.evaluate(given, MANY)))
    for i, size in enumerate(SIZES):
        alone = dict(leaves(run.evaluate(given, work(size, step_s=6.0 * 16384 / size))))
        assert alone.keys() == together.keys()
        for name, value in alone.items():
            everywhere = np.broadcast_to(together[name], SIZES.shape)
            assert_allclose(value, everywhere[i], rtol=1e-12, atol=1e-12, err_msg=name)


def _parts(outcome):
    energy = outcome.energy
    return (outcome, outcome.fleet, outcome.progress, energy, energy.it, energy.building, outcome.carbon)


def test_every_field_is_what_a_formula_returned():
    given = work(16384)
    with recording() as recorder:
        outcome = run.evaluate(circumstances(), given)
    unmade = [
        f"{type(part).__name__}.{entry.name}"
        for part in _parts(outcome)
        for entry in fields(part)
        for value in [getattr(part, entry.name)]
        if value is not None and not is_dataclass(value) and recorder.maker_of(value) is None
    ]
    assert unmade == ["Fleet.used_devices"]  # it comes from the step
    paid = [value for value in (getattr(outcome.cost, f.name) for f in fields(outcome.cost)) if value is not None]
    assert len(paid) == len(fields(outcome.cost)) - 3  # neither devices nor building are rented, no heat is sold
    assert all(recorder.maker_of(value) is not None for value in paid)


# Time -----------------------------------------------------------------------------------------------------------------


# Llama 3 Herd of Models, arXiv:2407.21783, section 3.3.4: 419 unexpected interruptions in 54 days on 16,384 H100 and
# more than 90 % effective training time. Here failures do not strike while the job is down, about 4 % of the time.
def test_llama_3():
    progress = run.evaluate(circumstances(), work(16384)).progress
    assert_allclose(progress.expected_interruptions * 54 * DAY_S / progress.wall_s, 400, rtol=0.02)
    assert 0.90 < progress.goodput_fraction[0] < 0.96


def test_steps_hold_all_tokens():
    progress = run.evaluate(circumstances(tokens=1e9), work(8, batch=[2048])).progress
    assert progress.steps == 60  # of 2048 x 8192 tokens: 59.6
    assert progress.ideal_s == 360


def test_nothing_fails():
    operations = replace(OPERATIONS, repeated_fraction=0.0)
    outcome = run.evaluate(failing(0, operations=operations), MANY)
    progress = outcome.progress
    assert np.all(progress.mtbf_s == np.inf)
    assert not np.any(progress.expected_interruptions)
    assert not np.any(outcome.fleet.spare_nodes)
    assert not np.any(progress.restart_loss_fraction)
    assert not np.any(progress.rework_loss_fraction)
    longest = np.maximum(operations.longest_checkpoint_interval_s, MANY.step_s)  # at least one step
    assert np.all(progress.checkpoint_interval_s <= longest)
    stall = progress.checkpoint_stall_s
    assert_allclose(progress.wall_s / progress.ideal_s, 1 + stall / progress.checkpoint_interval_s)


@pytest.mark.parametrize("asynchronous", [True, False])
def test_more_failures_are_never_faster_nor_cheaper(asynchronous):
    operations = replace(OPERATIONS, asynchronous_checkpoint=asynchronous)
    outcomes = [run.evaluate(failing(factor, operations=operations), MANY) for factor in (0, 0.1, 0.5, 1, 2, 5, 20)]
    for fewer, more in pairwise(outcomes):
        assert np.all(more.progress.wall_s > fewer.progress.wall_s)
        assert np.all(more.cost.total_usd > fewer.cost.total_usd)
        assert np.all(more.energy.facility_kwh > fewer.energy.facility_kwh)
        assert np.all(more.fleet.spare_nodes >= fewer.fleet.spare_nodes)


def test_interval_is_whole_steps_and_leaves_time_for_the_write():
    progress = run.evaluate(circumstances(), MANY).progress
    steps = progress.checkpoint_interval_s / MANY.step_s
    assert_allclose(steps, np.rint(steps))
    assert np.all(steps >= 1)
    # At 20 GB/s a write takes 284 s, longer than the best interval: snapshots wait for it.
    slow = run.evaluate(circumstances(storage=SLOW), work(16384)).progress
    assert_allclose(slow.checkpoint_persist_s, 283.5 + run.FILES_S)
    assert slow.checkpoint_interval_s == 288


def test_parts_of_a_restart():
    progress = run.evaluate(circumstances(), work(16384)).progress
    assert progress.down_s == 120 + 120 + 60 + 60
    assert_allclose(progress.restore_s, (2 + 0.0024 * 16384) + (5.67 / 2 + run.FILES_S) + 60)  # 5.67 TB at 2 TB/s
    assert_allclose(progress.checkpoint_stall_s, 5.67e12 / (16384 * 50e9) + run.BARRIER_S)


def test_spread_of_failures_and_of_the_step():
    progress = run.evaluate(circumstances(storage=SLOW), work(16384)).progress
    training_s = progress.ideal_s / 0.98
    failures_s = wall_standard_deviation_s(
        training_s,
        progress.checkpoint_interval_s,
        progress.checkpoint_stall_s,
        progress.restore_s + progress.checkpoint_persist_s,
        progress.down_s,
        progress.mtbf_s,
    )
    step_s = progress.wall_s * 0.1 / 1.645
    exact = replace(STACK, step_error_fraction=0.0)
    certain = circumstances(storage=SLOW)
    certain = replace(certain, machine=replace(certain.machine, stack=exact))
    assert_allclose(run.evaluate(certain, work(16384)).progress.standard_deviation_s, failures_s)
    assert_allclose(progress.standard_deviation_s, np.hypot(failures_s, step_s), rtol=1e-3)


def test_training_behind_the_write_is_faster():
    wall = [
        run.evaluate(circumstances(operations=replace(OPERATIONS, asynchronous_checkpoint=a)), MANY).progress.wall_s
        for a in (True, False)
    ]
    assert np.all(wall[0] < wall[1])


def test_blocking_checkpoint_stalls_for_its_write():
    given = circumstances(operations=replace(OPERATIONS, asynchronous_checkpoint=False))
    progress = run.evaluate(given, work(16384)).progress
    assert_allclose(progress.checkpoint_bytes, 5.67e12)
    assert_allclose(progress.checkpoint_stall_s, 5.67 + run.FILES_S)  # at 1 TB/s
    assert progress.checkpoint_persist_s == 0


def test_evaluations_take_their_share_of_the_time_at_work():
    walls = [run.evaluate(circumstances(evaluation_fraction=share), MANY).progress for share in (0.0, 0.04)]
    assert_allclose(walls[1].wall_s * 0.96, walls[0].wall_s, rtol=1e-9)
    assert np.all(walls[0].evaluation_loss_fraction == 0)
    useful = walls[1].goodput_fraction + walls[1].repeat_loss_fraction + walls[1].evaluation_loss_fraction
    assert_allclose(walls[1].evaluation_loss_fraction, 0.04 * useful)


def test_a_batch_that_grows_takes_more_steps_and_no_less_time():
    batches = MANY.global_batch
    tokens = circumstances().tokens
    plain = run.evaluate(circumstances(), MANY).progress
    whole = run.evaluate(circumstances(ramp=(int(batches.max()), tokens / 10)), MANY).progress
    ramped = run.evaluate(circumstances(ramp=(1, tokens / 10)), MANY).progress
    longer = run.evaluate(circumstances(ramp=(1, 2 * tokens)), MANY).progress
    assert_allclose(whole.ideal_s, plain.ideal_s, rtol=1e-3)
    assert np.all(ramped.steps > plain.steps)
    assert np.all(ramped.wall_s >= plain.wall_s)
    assert np.all(longer.wall_s >= ramped.wall_s)
    assert plain.ramp_s is None


def long_phase(seq_len, tokens, slowdown=2.0):
    return LongContext(seq_len=seq_len, tokens=tokens, slowdown=slowdown)


def test_no_tokens_in_long_sequences_are_no_phase():
    plain = run.evaluate(circumstances(), MANY)
    none = run.evaluate(circumstances(long=long_phase(32768, 0.0)), MANY)
    assert np.all(none.progress.long_steps == 0)
    assert_allclose(none.progress.wall_s, plain.progress.wall_s, rtol=1e-12)
    assert_allclose(none.energy.facility_kwh, plain.energy.facility_kwh, rtol=1e-12)
    assert_allclose(none.cost.total_usd, plain.cost.total_usd, rtol=1e-12)
    assert plain.progress.long_s is None


def test_tokens_in_long_sequences_take_their_time():
    given = circumstances()
    tokens = given.tokens / 10
    plain = run.evaluate(given, MANY).progress
    same, slow, slower = (
        run.evaluate(replace(given, long=long_phase(given.seq_len, tokens, factor)), MANY) for factor in (1.0, 2.0, 3.0)
    )
    assert_allclose(same.progress.ideal_s, plain.ideal_s, rtol=1e-3)
    assert_allclose(slow.progress.ideal_s, 1.1 * plain.ideal_s, rtol=1e-3)
    assert np.all(slower.progress.wall_s > slow.progress.wall_s)
    assert np.all(slower.cost.total_usd > slow.cost.total_usd)
    assert np.all(slower.energy.facility_kwh > slow.energy.facility_kwh)


def test_the_mean_step_has_the_power_of_both_phases():
    """A phase that only waits draws less, and its share of the time counts."""
    given, tokens = circumstances(), circumstances().tokens / 2
    idle = replace(
        MANY, matrix_s=0 * MANY.step_s, memory_s=0 * MANY.step_s, communication_s=0 * MANY.step_s, waiting_s=MANY.step_s
    )
    busy, waits = (
        run.evaluate(replace(given, long=replace(long_phase(given.seq_len, tokens, 1.0), work=one)), MANY)
        for one in (MANY, idle)
    )
    alone = run.evaluate(given, idle)
    assert_allclose(waits.progress.wall_s, busy.progress.wall_s, rtol=1e-6)
    mean = (busy.energy.it.accelerators_w + alone.energy.it.accelerators_w) / 2
    assert_allclose(waits.energy.it.accelerators_w, mean, rtol=1e-3)


def test_repeated_steps_take_their_share():
    walls = [
        run.evaluate(circumstances(operations=replace(OPERATIONS, repeated_fraction=share)), MANY).progress
        for share in (0.0, 0.1)
    ]
    assert_allclose(walls[1].wall_s, walls[0].wall_s / 0.9)
    assert_allclose(walls[1].repeat_loss_fraction, 0.1 * walls[0].goodput_fraction)


def test_only_nodes_at_work_stop_the_job():
    alone, beside = run.evaluate(circumstances(), work([1024, 1024], bought=[1024, 4096])).progress.wall_s
    assert alone == beside


def test_deadline():
    without = run.evaluate(circumstances(deadline_s=None), MANY).progress
    assert without.deadline_probability is None
    progress = run.evaluate(circumstances(), MANY).progress
    assert np.all(progress.p50_s < progress.p90_s)
    assert np.all(progress.p90_s < progress.p99_s)
    assert_allclose(deadline_probability(progress.p90_s, progress.wall_s, progress.standard_deviation_s), 0.9)
    odds = [
        run.evaluate(circumstances(deadline_s=days * DAY_S), work(16384)).progress.deadline_probability[0]
        for days in (10, 60, 70, 80, 200)
    ]
    assert odds == sorted(odds)
    assert odds[0] < 1e-6
    assert odds[-1] > 1 - 1e-6


# Spread of a run without failures comes from the step alone: a 90 % interval of 10 % either way.
def test_interval_of_the_step_is_the_interval_of_the_run():
    progress = run.evaluate(failing(0), work(16384)).progress
    assert_allclose(progress.finish_s(0.95) / progress.wall_s - 1, 0.1, atol=0.003)
    assert_allclose(1 - progress.finish_s(0.05) / progress.wall_s, 0.1, atol=0.003)


# Ways of recovery and kinds of failure --------------------------------------------------------------------------------

KINDS = {
    "storage": {},
    "blocking": {"asynchronous_checkpoint": False},
    "memory": {"recovery": "memory"},
    "memory, blocking": {"recovery": "memory", "asynchronous_checkpoint": False},
    "memory, all survive": {"recovery": "memory", "memory_lost_fraction": 0.0},
    "replica": {"recovery": "replica"},
    "replica, all go on": {"recovery": "replica", "replica_global_fraction": 0.0},
    "foreseen": {"foreseen_fraction": 0.5},
    "domain": {"domain_failure_fraction": 0.1, "domain_nodes": 1e4},
    "silent": {"silent_fraction": 0.1},
    "planned": {"planned_stop_s": 600.0},
    "slow": {"slow_node_fraction": 0.05},
    "early": {"early_failure_factor": 5.0},
    "fed slowly": {"token_bytes": 3e6},
}
PETABYTES = replace(STORAGE, capacity_bytes=1e21)


def recovering(kind, factor=1.0, **changes):
    operations = replace(OPERATIONS, **KINDS[kind])
    given = failing(factor, storage=PETABYTES, operations=operations, **changes)
    return run.evaluate(given, replace(MANY, replicas=np.maximum(SIZES // 128, 1))).progress


@pytest.mark.parametrize("factor", [0, 1, 30])
@pytest.mark.parametrize("kind", KINDS)
def test_losses_add_up_whatever_happens(kind, factor):
    progress = recovering(kind, factor)
    losses = {name: value for name, value in leaves(progress) if name.endswith("_loss_fraction")}
    assert_allclose(progress.goodput_fraction + sum(losses.values()), 1, rtol=1e-12)
    for name, value in losses.items():
        assert np.all(value >= -1e-12), name
    for name, value in leaves(progress):
        assert name == "mtbf_s" or np.all(np.isfinite(value)), name


@pytest.mark.parametrize("kind", KINDS)
def test_more_failures_never_help_whatever_happens(kind):
    goodputs = [recovering(kind, factor).goodput_fraction for factor in (0, 0.1, 0.5, 1, 2, 5, 20)]
    for fewer, more in pairwise(goodputs):
        assert np.all(more <= fewer * (1 + 1e-9))


@pytest.mark.parametrize("kind", KINDS)
def test_faster_checkpoints_never_hurt(kind):
    system = replace(SYSTEM, host_link_bytes_per_s=SYSTEM.host_link_bytes_per_s * 4)
    quick = replace(PETABYTES, write_bytes_per_s=PETABYTES.write_bytes_per_s * 4)
    operations = replace(OPERATIONS, **KINDS[kind])
    step = replace(MANY, replicas=np.maximum(SIZES // 128, 1))
    slow = run.evaluate(circumstances(storage=PETABYTES, operations=operations), step).progress
    fast = run.evaluate(circumstances(system=system, storage=quick, operations=operations), step).progress
    # a whole number of steps may fall on the other side of the optimum
    assert np.all(fast.goodput_fraction >= slow.goodput_fraction * (1 - 1e-3))


def test_each_cause_takes_its_share():
    plain = recovering("storage")
    for kind, name in (
        ("silent", "silent_loss_fraction"),
        ("planned", "planned_loss_fraction"),
        ("slow", "slow_loss_fraction"),
        ("fed slowly", "data_loss_fraction"),
    ):
        assert not np.any(getattr(plain, name))
        assert np.any(getattr(recovering(kind), name) > 0)
        assert np.all(recovering(kind).wall_s >= plain.wall_s)
    assert np.all(recovering("domain").down_s > plain.down_s)
    assert np.all(recovering("early").mtbf_s < plain.mtbf_s)
    assert_allclose(recovering("slow").goodput_fraction, plain.goodput_fraction / 1.05)


def test_ways_of_recovery_help_large_jobs():
    large = SIZES >= 16384
    plain = recovering("storage").goodput_fraction
    assert np.all(recovering("replica").goodput_fraction[large] > plain[large])
    assert np.all(recovering("memory").goodput_fraction[large] > plain[large])
    assert np.all(recovering("blocking").goodput_fraction[large] < plain[large])
    none = recovering("replica", 0).goodput_fraction
    assert_allclose(none, recovering("storage", 0).goodput_fraction)  # 1 less the stall, whatever would happen


def test_nothing_foreseen_is_the_plain_form():
    operations = replace(OPERATIONS, foreseen_fraction=1e-12)
    foreseen = run.evaluate(failing(30, operations=operations), MANY).progress
    plain = run.evaluate(failing(30), MANY).progress
    assert_allclose(foreseen.goodput_fraction, plain.goodput_fraction, rtol=1e-6)


def test_most_checkpoints_stay_in_memory():
    given = failing(20, storage=SLOW, operations=replace(OPERATIONS, recovery="memory"))
    progress = run.evaluate(given, MANY).progress
    assert np.all(progress.storage_interval_s >= 283.5)  # the write to storage
    assert np.any(progress.storage_interval_s > progress.checkpoint_interval_s)
    assert np.all(recovering("storage").storage_interval_s == recovering("storage").checkpoint_interval_s)
    period = progress.storage_interval_s + progress.checkpoint_stall_s
    assert_allclose(progress.daily_checkpoint_bytes, progress.checkpoint_bytes * DAY_S / period)


def test_what_the_run_asks_of_storage():
    progress = run.evaluate(circumstances(), work(16384)).progress
    assert_allclose(progress.stored_bytes, 20 * 5.67e12 + 15.6e12 * 4)
    assert_allclose(progress.data_bytes_per_s, 2048 * 8192 * 4 / 6.0)


def test_planned_stops_are_counted():
    operations = replace(OPERATIONS, planned_stop_s=600.0, planned_stop_interval_s=DAY_S)
    progress = run.evaluate(circumstances(operations=operations), work(16384)).progress
    assert_allclose(progress.planned_stops, progress.wall_s / DAY_S, rtol=0.02)


# Fleet ----------------------------------------------------------------------------------------------------------------


def test_spares_come_in_whole_nodes_and_purchase_units():
    fleet = run.evaluate(circumstances(system=RACK), work(16 * 1024, bought=16 * 1024)).fleet
    assert fleet.spare_nodes > 0
    assert fleet.spare_devices == 4 * fleet.spare_nodes
    assert fleet.devices % 72 == 0
    assert 0 <= fleet.idle_devices[0] < 72
    assert fleet.racks == fleet.units
    assert fleet.nodes == fleet.devices // 4


def test_what_is_not_at_work_serves_as_spares_first():
    fleet = run.evaluate(circumstances(system=RACK), work(64 * 100, bought=72 * 100)).fleet
    assert fleet.units == 100
    assert fleet.spare_devices + fleet.idle_devices == 800


# Poisson law, P(short) <= 1 %, as for the formula: 419 failures in 2,048 nodes and 54 days, repair in two days
def test_spares_of_llama_3():
    fleet = run.evaluate(circumstances(), work(16384)).fleet
    assert fleet.spare_nodes == 25
    assert fleet.used_nodes == 2048
    assert fleet.racks == 2073 / 2


def test_machines_that_are_new_need_more_spares():
    new = replace(OPERATIONS, early_failure_factor=5.0)
    assert run.evaluate(circumstances(operations=new), work(16384)).fleet.spare_nodes > 25


def test_slow_repair_needs_more_spares():
    spares = [
        run.evaluate(circumstances(operations=replace(OPERATIONS, repair_s=days * DAY_S)), MANY).fleet.spare_nodes
        for days in (0, 1, 10)
    ]
    assert not np.any(spares[0])
    assert np.all(spares[1] <= spares[2])
    assert np.any(spares[1] < spares[2])


# Energy and water -----------------------------------------------------------------------------------------------------


def quiet(**changes):
    """Circumstances without failures, and checkpoints that hardly stall, so that devices step all the time."""
    return failing(0, parameters=1e6, operations=replace(OPERATIONS, longest_checkpoint_interval_s=1e7), **changes)


def test_node_power_is_that_of_the_formula():
    it = run.evaluate(quiet(), work(800, shares=(1, 0, 0, 0))).energy.it
    node = it.accelerators_w + it.host_w + it.scaleup_w + it.interfaces_w + it.fans_and_supplies_w
    assert_allclose(node / 100, node_w(700, 8, 850, 8, 25, 320, 0.1, 0.95), rtol=1e-6)
    assert it.idle_and_spare_w == 0


def test_idle_nodes_draw_idle_power():
    it = run.evaluate(quiet(), work(800, bought=1600)).energy.it
    assert_allclose(it.idle_and_spare_w / 100, node_w(100, 8, 850, 8, 25, 320, 0.1, 0.95))


@pytest.mark.parametrize(("phase", "watts"), list(enumerate([700, 580, 370, 220])))
def test_power_of_phases(phase, watts):
    # 100 W idle, 600 W of range, of which the phases draw 1, 0.8, 0.45 and 0.2
    it = run.evaluate(quiet(), work(800, shares=np.eye(4)[phase])).energy.it
    assert_allclose(it.accelerators_w / 800, watts, rtol=1e-6)


def test_devices_wait_while_they_do_not_step():
    outcome = run.evaluate(failing(10), work(16384, shares=(1, 0, 0, 0)))
    progress = outcome.progress
    stepping = progress.up_fraction * progress.training_fraction
    assert stepping < 0.75
    assert_allclose(outcome.energy.it.accelerators_w / 16384, 700 * stepping + 220 * (1 - stepping))


def test_restarting_job_draws_less_for_longer():
    rare, often = (run.evaluate(failing(f), work(16384)) for f in (0.1, 10))
    assert often.energy.it.accelerators_w < rare.energy.it.accelerators_w
    assert often.energy.it_kwh > rare.energy.it_kwh


def test_network_by_the_levels_that_are_there():
    # Ports 1, 3 and, with half of the bandwidth at the top, 4; module ends 2, 4 and 5; 10 W each.
    watts = run.evaluate(quiet(), work([256, 2048, 65536])).energy.it.network_w
    assert_allclose(watts / [256, 2048, 65536], [30, 70, 90])


def test_network_of_devices_that_share_a_port():
    watts = run.evaluate(quiet(system=replace(SYSTEM, scaleout_bytes_per_s=25e9)), work(2048)).energy.it.network_w
    assert_allclose(watts / 2048, 35)


def test_links_of_a_torus_end_in_mirrors():
    # 8 cubes of 256: 6 faces of 256^(2/3) links each, with a port and a module at one end, 10 W each
    given = quiet()
    torus = replace(FABRIC, tiers=(replace(FABRIC.tiers[0], topology="torus"), *FABRIC.tiers[1:]))
    given = replace(given, machine=replace(given.machine, fabric=torus))
    watts = run.evaluate(given, work(2048)).energy.it.network_w
    assert_allclose(watts, 8 * 6 * 256 ** (2 / 3) * 20)


def test_whole_switches_draw_power():
    tiers = tuple(replace(tier, switch_ports=64) for tier in FABRIC.tiers)
    given = quiet()
    given = replace(given, machine=replace(given.machine, fabric=replace(FABRIC, tiers=tiers)))
    # 40 devices on one leaf of 64 ports; 136 on five leaves and three spines; two modules for each link
    watts = run.evaluate(given, work([40, 136])).energy.it.network_w
    assert_allclose(watts, [10 * (64 + 80), 10 * (8 * 64 + 4 * 136)])


def test_peak_is_at_least_the_mean():
    energy = run.evaluate(circumstances(), MANY).energy
    assert np.all(energy.peak_it_w >= energy.mean_it_w)
    assert np.all(energy.peak_facility_w >= energy.mean_facility_w)
    assert np.all(energy.peak_pue > energy.pue)
    small = run.evaluate(circumstances(operations=replace(OPERATIONS, provision_fraction=0.1)), MANY).energy
    assert_array_equal(small.peak_it_w, small.mean_it_w)


def test_peak_is_provisioned_for_all_nodes_network_and_storage():
    outcome = run.evaluate(circumstances(), work(16384))
    energy = outcome.energy
    nodes_w = 2073 * 10e3 * 0.85
    assert_allclose(energy.peak_it_w, nodes_w + energy.it.network_w + energy.it.storage_w)
    assert_allclose(energy.peak_facility_w, energy.peak_it_w * energy.peak_pue)


TOWER = replace(LIQUID, rejection="tower", supply_c=20.0, return_c=30.0)
AIR_DRY = replace(
    AIR, rejection="dry", fan_pa=500.0, fan_efficiency=0.75, water_rise_k=6.0, supply_c=18.0, return_c=24.0
)
OUTSIDE = replace(
    AIR, rejection="outside_air", fan_pa=500.0, fan_efficiency=0.75, pump_pa=0.0, supply_c=25.0, return_c=39.0
)


# Medians of the simulations published by N. Lei and E. Masanet, "Climate- and technology-specific PUE and WUE
# estimations for U.S. data centers," Resour. Conserv. Recycl., 2022, zone 5A, by design; within 0.035.
@pytest.mark.parametrize(
    ("median", "liquid_fraction", "changes"),
    [
        (1.124, 1.0, {"liquid": TOWER}),
        (1.099, 1.0, {"liquid": LIQUID}),
        (1.115, 0.0, {"air": AIR}),
        (1.183, 0.0, {"air": AIR_DRY}),
        (1.133, 0.0, {"air": OUTSIDE, "tower_fraction": 0.024}),
        (1.127, 0.0, {"air": replace(AIR, supply_c=18.0, return_c=26.0), "rear_door": True}),
    ],
)
def test_pue_of_designs(median, liquid_fraction, changes):
    given = circumstances(system=replace(SYSTEM, liquid_fraction=liquid_fraction), cooling=replace(COOLING, **changes))
    assert_allclose(run.evaluate(given, work(1024)).energy.pue, median, atol=0.035)


def test_heat_is_shared_between_the_loops():
    energy = [
        run.evaluate(circumstances(system=replace(SYSTEM, liquid_fraction=share)), work(8)).energy
        for share in (0, 0.5, 1)
    ]
    pue, water = [e.pue for e in energy], [e.water_l_per_kwh for e in energy]
    assert_allclose(pue[1], (pue[0] + pue[2]) / 2)
    assert_allclose(water[1], (water[0] + water[2]) / 2)
    assert pue[2] < pue[0]
    assert water[2] < 0.1 * water[0]


def test_rear_doors_save_the_fans_of_the_room():
    fans, doors = (
        run.evaluate(circumstances(cooling=replace(COOLING, rear_door=door)), work(8)).energy.pue
        for door in (False, True)
    )
    # 250 Pa / (0.7 x 1190 J/m3 x 14 K), and its own heat must leave too
    assert_allclose(fans - doors, 0.0214, atol=0.001)


def test_supplies_are_worse_at_a_smaller_load():
    # Half of the rating has the stated efficiency; twice the supplies have half of the load.
    def energy(factor):
        site = replace(SITE, supply_factor=factor)
        return run.evaluate(circumstances(site=site), work(16384)).energy

    single, double = energy(1.0), energy(2.0)
    assert_allclose(double.supply_load_fraction, single.supply_load_fraction / 2)
    assert np.all(double.supply_efficiency < single.supply_efficiency)
    assert np.all(double.pue > single.pue)
    assert_allclose(single.supply_load_fraction, single.mean_it_w / single.peak_it_w)
    half = run.evaluate(circumstances(site=replace(SITE, supply_factor=1e-9 + 1)), work(16384)).energy
    exactly = energy(float(half.mean_it_w[0] / half.peak_it_w[0]) / 0.5)
    assert_allclose(exactly.supply_efficiency, 0.945 * 0.993)


def test_sold_heat_is_no_pue():
    sold = run.evaluate(circumstances(system=replace(SYSTEM, liquid_fraction=0.8)), work(1024)).energy
    kept = run.evaluate(
        circumstances(system=replace(SYSTEM, liquid_fraction=0.8), site=replace(SITE, heat_reuse_fraction=None)),
        work(1024),
    ).energy
    assert (kept.ere, kept.reused_fraction, kept.reused_kwh) == (None, None, None)
    assert_array_equal(sold.pue, kept.pue)
    assert_array_equal(sold.facility_kwh, kept.facility_kwh)
    assert_allclose(sold.reused_kwh, 0.2 * 0.8 * sold.it_kwh)
    assert_allclose(sold.ere, (sold.facility_kwh - sold.reused_kwh) / sold.it_kwh)


def test_heat_has_a_price_where_a_site_has_one():
    wet = replace(SYSTEM, liquid_fraction=0.8)
    free, paid = (
        run.evaluate(circumstances(system=wet, site=replace(SITE, heat_usd_per_kwh=price)), work(1024))
        for price in (None, 0.03)
    )
    assert free.cost.sold_heat_usd is None
    assert_allclose(paid.cost.sold_heat_usd, -0.03 * paid.energy.reused_kwh)
    assert_allclose(paid.cost.total_usd, free.cost.total_usd + paid.cost.sold_heat_usd)
    assert_array_equal(paid.energy.pue, free.energy.pue)
    assert_array_equal(paid.cost.energy_usd, free.cost.energy_usd)
    rented = run.evaluate(
        circumstances(system=wet, site=replace(SITE, heat_usd_per_kwh=0.03), prices=RENT), work(1024)
    ).cost
    assert rented.sold_heat_usd is None  # it is the landlord's


def test_incremental_checkpoints():
    blocking = {"asynchronous_checkpoint": False}
    whole, parts = (
        run.evaluate(circumstances(operations=replace(OPERATIONS, saved_fraction=share, **blocking)), MANY).progress
        for share in (1.0, 0.2)
    )
    assert_array_equal(parts.checkpoint_bytes, whole.checkpoint_bytes)
    assert np.all(parts.checkpoint_stall_s < whole.checkpoint_stall_s)
    assert np.all(parts.checkpoint_interval_s <= whole.checkpoint_interval_s)
    assert np.all(parts.restore_s >= whole.restore_s)  # one whole checkpoint and one increment are read
    assert np.all(parts.stall_loss_fraction + parts.rework_loss_fraction
                  < whole.stall_loss_fraction + whole.rework_loss_fraction)  # fmt: skip
    assert np.all(parts.daily_checkpoint_bytes / parts.checkpoint_bytes
                  < DAY_S / parts.checkpoint_interval_s)  # fmt: skip


def test_a_design_without_liquid_sells_no_heat():
    given = circumstances(cooling=replace(COOLING, liquid=None))
    energy = run.evaluate(given, work(1024)).energy
    assert not np.any(energy.reused_kwh)
    assert_array_equal(energy.ere, energy.pue)


def test_tanks_take_fans_and_heat_of_any_system():
    air = run.evaluate(circumstances(), work(1024)).energy
    tank = run.evaluate(circumstances(cooling=replace(COOLING, immersion_fraction=0.95)), work(1024)).energy
    assert_allclose(tank.it.accelerators_w, air.it.accelerators_w)
    node = (air.it.accelerators_w + air.it.host_w + air.it.scaleup_w + air.it.interfaces_w) / 0.95
    assert_allclose(tank.it.fans_and_supplies_w, node * 0.05)
    nodes_w = [one.peak_it_w - one.it.network_w - one.it.storage_w for one in (air, tank)]
    assert_allclose(nodes_w[1], nodes_w[0] * (1 - SYSTEM.fan_fraction))
    assert np.all(tank.mean_it_w < air.mean_it_w)
    assert np.all(tank.pue < air.pue)


def test_supplies_of_nodes_lose_something_at_no_load():
    lossy = run.evaluate(circumstances(system=replace(SYSTEM, psu_fixed_w=100.0)), work(1024)).energy
    plain = run.evaluate(circumstances(), work(1024)).energy
    units = run.evaluate(circumstances(), work(1024)).fleet.units
    assert_allclose(lossy.mean_it_w - plain.mean_it_w, units * 100 / 0.95)


def test_water_of_site_and_power_plants_for_each_kwh():
    energy = run.evaluate(circumstances(), work(1024)).energy
    assert_allclose(energy.source_water_l_per_kwh, (energy.water_m3 + energy.grid_water_m3) / energy.it_kwh * 1e3)


def test_water_by_rejection():
    def water(**changes):
        return run.evaluate(circumstances(cooling=replace(COOLING, **changes)), work(8)).energy.water_l_per_kwh

    tower, pads = water(air=AIR), water(air=AIR_DRY)
    # Shehabi et al., LBNL-2001637, Fig. 4.4: about 2 L/kWh for towers in all climates
    assert_allclose(tower, 2.0, atol=0.25)
    assert water(air=AIR_DRY, adiabatic_effectiveness=0.0) == 0
    assert 0 < pads < tower
    assert 0 < water(air=OUTSIDE) < tower
    # The heat of the chillers leaves through the pads' air as well.
    assert water(air=AIR_DRY, carnot_efficiency=0.1) > 1.05 * pads


def test_what_nobody_publishes_is_missing():
    site = replace(SITE, grid_water_l_per_kwh=None, contract_kg_co2e_per_kwh=None)
    outcome = run.evaluate(circumstances(site=site), MANY)
    assert outcome.energy.grid_water_m3 is None
    assert outcome.carbon.market_based_kg_co2e is None
    known = run.evaluate(circumstances(), MANY)
    assert_allclose(known.energy.grid_water_m3, known.energy.facility_kwh * 4 / 1e3)
    assert_allclose(known.carbon.market_based_kg_co2e, known.carbon.operational_kg_co2e / 4)
    assert_allclose(known.carbon.operational_kg_co2e, known.energy.facility_kwh * 0.4)


# Carbon and cost ------------------------------------------------------------------------------------------------------


def test_embodied_share_of_all_that_is_held():
    outcome = run.evaluate(circumstances(), work(800, bought=1600))
    share = outcome.progress.wall_s / (5 * YEAR_S) / 0.9
    assert_allclose(outcome.carbon.accelerators_kg_co2e, 1600 * 164 * share)
    assert_allclose(outcome.carbon.hosts_kg_co2e, 200 * 3000 * share)
    building = outcome.energy.peak_it_w * 2 * outcome.progress.wall_s / (20 * YEAR_S)
    assert_allclose(outcome.carbon.building_kg_co2e, building)


def test_rent_pays_for_all_devices():
    outcome = run.evaluate(circumstances(prices=RENT), work(800, bought=1600))
    assert outcome.fleet.devices == 1600
    assert_allclose(outcome.cost.rent_usd, 1600 * 2 * outcome.progress.wall_s / 3600)
    present = {f.name for f in fields(outcome.cost) if getattr(outcome.cost, f.name) is not None}
    assert present == {"rent_usd", "storage_usd", "support_usd", "carbon_usd"}


def test_metered_rent_pays_the_energy_too():
    included, metered = (run.evaluate(circumstances(prices=p), MANY).cost for p in (RENT, METERED))
    utilities = metered.energy_usd + metered.demand_usd + metered.water_usd
    assert np.all(utilities > 0)
    assert_allclose(metered.total_usd, included.total_usd + utilities)


def test_owner_pays_for_each_part():
    # Without interest, annuities are straight lines over the nine tenths of the life that carry work.
    prices = replace(OWN, interest_fraction_per_year=0.0, residual_fraction=0.2)
    outcome = run.evaluate(circumstances(prices=prices, cooling=replace(COOLING, capex_factor=1.5)), work(1600))
    paid, energy, fleet = outcome.cost, outcome.energy, outcome.fleet
    years = outcome.progress.wall_s / YEAR_S
    progress = outcome.progress
    store = 5.67 / (progress.checkpoint_interval_s + progress.checkpoint_stall_s) * 100e3 * 300
    systems, network = fleet.units * 300e3, fleet.devices * 5000
    building = energy.peak_it_w * 12 * 1.5
    for share, capex in ((paid.machines_usd, systems), (paid.network_usd, network), (paid.storage_usd, store)):
        assert_allclose(share, 0.8 * capex * years / 5 / 0.9, rtol=1e-6)
    assert_allclose(paid.facility_usd, building * years / 20 / 0.9, rtol=1e-6)
    assert_allclose(paid.support_usd, 0.04 * (systems + network + store) * years)
    assert_allclose(paid.upkeep_usd, 0.03 * building * years)
    assert_allclose(paid.staff_usd, 20 * 300e3 * years)
    assert_allclose(paid.energy_usd, energy.facility_kwh * 0.08)
    assert_allclose(paid.demand_usd, energy.peak_facility_w / 1e3 * 12 * years * 10)
    assert_allclose(paid.water_usd, energy.water_m3 * 1.5)
    assert_allclose(paid.carbon_usd, outcome.carbon.operational_kg_co2e * 0.1)


@pytest.mark.parametrize(
    "name",
    [
        "network_usd_per_device",
        "storage_usd_per_tb",
        "facility_usd_per_w",
        "interest_fraction_per_year",
        "support_fraction_per_year",
        "facility_support_fraction_per_year",
        "staff_persons",
        "usd_per_kg_co2e",
    ],
)
def test_higher_price_is_never_cheaper(name):
    assert np.all(total_usd(prices=replace(OWN, **{name: 2 * getattr(OWN, name)})) > total_usd())


@pytest.mark.parametrize("name", ["usd_per_kwh", "demand_usd_per_kw_month", "usd_per_m3_water", "mean_c"])
def test_dearer_or_hotter_site_is_never_cheaper(name):
    assert np.all(total_usd(site=replace(SITE, **{name: 1.2 * getattr(SITE, name)})) > total_usd())


def test_share_of_the_store():
    # The bandwidth counts: 5.67 TB at 1 TB/s between frequent checkpoints. The space is 0.2 %.
    outcome = run.evaluate(circumstances(), work(16384))
    progress = outcome.progress
    busy = 5.67 / (progress.checkpoint_interval_s + progress.checkpoint_stall_s)
    assert busy > 0.01
    assert_allclose(outcome.energy.it.storage_w, busy * (100e15 * 5e-13 + 2e12 * 5e-8))
    # Rare checkpoints leave the space: 20 of them and 4 bytes of each token.
    rare = run.evaluate(failing(0), work(16384)).energy.it.storage_w
    assert_allclose(rare, (20 * 5.67e12 + 4 * 15.6e12) / 100e15 * (100e15 * 5e-13 + 2e12 * 5e-8))


# What cannot be -------------------------------------------------------------------------------------------------------


def test_supported():
    assert run.unsupported(circumstances()) == []
    assert run.unsupported(circumstances(system=RACK)) == []


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (
            {"system": RACK, "cooling": replace(COOLING, liquid=None)},
            "rack needs liquid cooling, which cooling does not",
        ),
        (
            {"cooling": replace(COOLING, rack_limit_w=19e3)},
            "a rack of node gives 20 kW, more than the 19 kW of cooling",
        ),
        ({"storage": replace(STORAGE, capacity_bytes=1e14)}, "more than the 0.1 PB of store"),
        ({"operations": replace(OPERATIONS, spare_shortage_fraction=0.0)}, "no number of spares is enough"),
        ({"operations": replace(OPERATIONS, repeated_fraction=1.0)}, "no run ends that repeats every step"),
    ],
)
def test_unsupported(changes, reason):
    (found,) = run.unsupported(circumstances(**changes))
    assert reason in found


def test_a_refusal_names_cooling_that_would_do():
    coolings = tuple(
        replace(COOLING, name=name, rack_limit_w=limit, liquid=liquid)
        for name, limit, liquid in (
            ("tank", 900e3, LIQUID), ("air", 25e3, None), ("plates", 140e3, LIQUID), ("doors", 200e3, None),
            ("more plates", 150e3, LIQUID), ("most plates", 400e3, LIQUID),
        )
    )  # fmt: skip
    dry = replace(COOLING, rack_limit_w=25e3, liquid=None)
    first, second = run.unsupported(circumstances(system=RACK, cooling=dry), coolings)
    named = "--cooling can be plates (140 kW), more plates (150 kW), most plates (400 kW)"
    assert first.endswith(named)
    assert "--cooling" not in second
    (low,) = run.unsupported(circumstances(system=RACK, cooling=replace(COOLING, rack_limit_w=25e3)), coolings)
    assert low == f"a rack of rack gives 130 kW, more than the 25 kW of cooling; {named}"


@pytest.mark.parametrize(
    ("prices", "said"),
    [
        (replace(OWN, system_usd={}), "no price of node; --set prices.system_usd.node=USD gives one"),
        (
            replace(RENT, rent_usd_per_device_h={"rack": 4.0}),
            "no rent of node; --set prices.rent_usd_per_device_h.node=USD gives one",
        ),
    ],
    ids=["own", "rent"],
)
def test_a_system_without_a_price_has_a_run_without_cost(prices, said):
    given = circumstances(prices=prices)
    assert run.unsupported(given) == []
    outcome = run.evaluate(given, MANY)
    assert outcome.cost is None
    assert np.all(outcome.energy.facility_kwh > 0)
    assert run.no_price(prices, "node").startswith(f"price list list has {said}")


# The profiles as they are shipped -------------------------------------------------------------------------------------

CATALOG = Catalog()


def shipped(name, **changes):
    defaults = CATALOG.defaults()
    system = CATALOG.load(System, name)
    machine = Machine(
        system=system,
        accelerator=CATALOG.load(Accelerator, system.accelerator),
        fabric=CATALOG.load(Fabric, system.fabric),
        stack=CATALOG.load(Stack, system.stack),
    )
    return circumstances(
        machine=machine,
        site=CATALOG.load(Site, defaults.site),
        cooling=CATALOG.load(Cooling, defaults.cooling),
        prices=CATALOG.load(Prices, defaults.prices),
        storage=CATALOG.load(Storage, defaults.storage),
        operations=defaults.operations,
        **changes,
    )


@pytest.mark.parametrize("name", CATALOG.names(System))
def test_shipped_systems(name):
    given = shipped(name)
    if name not in given.prices.system_usd:
        given = replace(given, prices=replace(given.prices, system_usd={name: 1e6}))
        given = replace(given, cooling=replace(given.cooling, rack_limit_w=1e6))
    assert run.unsupported(given) == []
    unit = given.machine.system.devices
    outcome = run.evaluate(given, work(unit * np.array([1, 4, 32])))
    for path, value in leaves(outcome):
        assert np.all(np.isfinite(value)), path
        assert np.all(value >= 0), path
    assert np.all(outcome.fleet.devices >= outcome.fleet.used_devices)
    assert np.all((outcome.energy.pue > 1) & (outcome.energy.pue < 1.6))
    it = outcome.energy.it
    nodes_w = it.total_w - it.network_w - it.storage_w
    assert np.all(nodes_w < given.machine.system.rated_w * outcome.fleet.units)


@pytest.mark.parametrize("site", CATALOG.names(Site))
@pytest.mark.parametrize("cooling", CATALOG.names(Cooling))
def test_shipped_sites_and_cooling(site, cooling):
    given = shipped("dgx-h100")
    given = replace(given, site=CATALOG.load(Site, site), cooling=CATALOG.load(Cooling, cooling))
    energy = run.evaluate(given, work(1024)).energy
    # Supplies are at their best near half load: where no weather asks for more cooling, full power may have less PUE.
    assert 1 < energy.pue < energy.peak_pue + 0.005
    assert energy.peak_pue < 2
    assert 0 <= energy.water_l_per_kwh < 3


# Llama 3 Herd of Models, as above; the shipped rates are those of its table 5.
def test_shipped_llama_3():
    progress = run.evaluate(shipped("dgx-h100"), work(16384)).progress
    assert_allclose(progress.expected_interruptions * 54 * DAY_S / progress.wall_s, 400, rtol=0.05)
    assert progress.goodput_fraction > 0.9


@pytest.mark.parametrize("changes", [{}, {"saved_fraction": 0.2}, {"recovery": "memory"}])
def test_the_same_prices_give_the_same_cost(changes):
    given = circumstances(operations=replace(OPERATIONS, **changes))
    outcome = run.evaluate(given, MANY)
    assert_allclose(run.cost_of(given, outcome).total_usd, outcome.cost.total_usd)
