"""What holds for every machine and every model: signs, and which way a figure moves an answer."""

import re
from dataclasses import fields, replace
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from clusterplan import report, run, search, shapes, step
from clusterplan.hardware import System
from clusterplan.layer import LayerTable, price_layers
from clusterplan.layout import RECOMPUTE, RECOMPUTED_SHARE, broken_cut_rules, broken_layout_rules
from clusterplan.plan import work
from clusterplan.premises import circumstances_of
from clusterplan.site import Cooling
from examples import CATALOG, TINY, TINY_MOE, asked, cuts, layouts, machine, model, question

SYSTEMS = CATALOG.names(System)
MODELS = {
    "tiny": TINY,
    "tiny-moe": TINY_MOE,
    "llama": model("llama-3.1-70b"),
    "deepseek": model("deepseek-v3"),
}
SEQ_LEN = 4096


def legal_rows(ask, seed=1, count=400):
    """Legal cuts and layouts of all kinds, drawn at random."""
    rng = np.random.default_rng(seed)
    shape, stack = ask.model, ask.machine.stack
    experts = [e for e in (1, 2, 4, 8, 16) if shape.is_moe and shape.moe.experts % e == 0 and e <= stack.max_ep] or [1]
    tp = rng.choice([1, 2, 4, 8], count)
    some = cuts(
        tp=tp,
        cp=rng.choice([1, 1, 2], count),
        ep=rng.choice(experts, count),
        etp=1 if stack.expert_tensor_parallel or not shape.is_moe else tp,
        micro_batch=rng.choice([1, 2, 4], count),
        recompute=rng.choice(stack.recompute, count),
    )
    pp = rng.choice([p for p in (1, 2, 4, 5, 8, 16) if p <= shape.layers], count)
    vpp = np.where((pp > 1) & ("interleaved" in stack.schedules), rng.choice([1, 1, 2, 3], count), 1)
    dp = 16 * rng.integers(1, 9, count)
    rows = layouts(
        cut=np.arange(count),
        pp=pp,
        vpp=vpp,
        dp=dp,
        sharding=rng.choice(stack.sharding, count),
        batch=dp * some.micro_batch * pp * rng.integers(1, 4, count),
    )
    limits = replace(shapes.limits(shape, ask.job, stack), batch_fixed=False)
    wrong = [mask for name, mask in broken_layout_rules(rows, some, limits).items() if name != "batch near its target"]
    wrong += [mask[rows.cut] for mask in broken_cut_rules(some, limits).values()]
    kept = np.flatnonzero(~np.any(wrong, axis=0))
    assert len(kept) > 20
    rows = rows.take(kept)
    return some, replace(rows, bought_devices=some.tp[rows.cut] * some.cp[rows.cut] * rows.pp * rows.dp)


def computed(ask, some, rows):
    """Step and memory of a table of layouts."""
    table = price_layers(ask, some)
    pairs = sorted(set(zip(rows.pp.tolist(), rows.vpp.tolist(), strict=True)))
    pipe = np.array([pairs.index(pair) for pair in zip(rows.pp.tolist(), rows.vpp.tolist(), strict=True)])
    stages = step.stage_table(ask, table, rows.cut, step.pipelines(ask, pairs), pipe)
    return step.evaluate(ask, some, table, rows, stages), step.stage_memory(ask, some, rows, stages)


def times(ask, some, rows):
    return computed(ask, some, rows)[0].time.total_s


def peaks(ask, some, rows):
    return computed(ask, some, rows)[1].total_bytes.max(axis=1)


def ask_of(name, on, **rest):
    return question(MODELS[name], on, **({"seq_len": SEQ_LEN} | rest))


def changed(on, record, **figures):
    return replace(on, **{record: replace(getattr(on, record), **figures)})


def faster(on, figure, factor):
    """The same machine with one figure times a factor."""
    record, name = figure.split(".")
    value = getattr(getattr(on, record), name)
    if isinstance(value, dict):
        return changed(on, record, **{name: {key: min(v * factor, 1.0) for key, v in value.items()}})
    if name == "tiers":
        return changed(on, record, tiers=tuple(replace(tier, latency_s=tier.latency_s * factor) for tier in value))
    return changed(on, record, **{name: value * factor})


@cache
def rows_of(name, system):
    ask = ask_of(name, machine(system))
    return (ask, *legal_rows(ask))


# Signs ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("name", MODELS)
def test_everything_is_finite_and_not_negative(name, system):
    ask, some, rows = rows_of(name, system)
    table = price_layers(ask, some)
    for field in LayerTable.__dataclass_fields__:
        values = getattr(table, field)
        assert np.all(np.isfinite(values) & (values >= 0)), field
    result, memory = computed(ask, some, rows)
    for record in (result.time, memory):
        for part in fields(record):
            values = getattr(record, part.name)
            assert np.all(np.isfinite(values) & (values >= 0)), part.name
    assert np.all((result.mfu > 0) & (result.mfu <= result.hfu) & (result.hfu < 1))
    given_work = work(some, rows, result)
    assert np.all(given_work.matrix_s >= 0)


@pytest.mark.parametrize("system", SYSTEMS)
def test_same_input_same_output(system):
    ask, some, rows = rows_of("tiny-moe", system)
    assert_array_equal(times(ask, some, rows), times(ask, some, rows))
    assert_array_equal(peaks(ask, some, rows), peaks(ask, some, rows))


# Better machines ------------------------------------------------------------------------------------------------------

FASTER = [
    ("accelerator.bf16_flop_per_s", 1.5),
    ("accelerator.gemm_efficiency", 1.1),
    ("accelerator.attention_efficiency", 1.1),
    ("accelerator.memory_bytes_per_s", 1.5),
    ("system.scaleup_bytes_per_s", 1.5),
    ("system.scaleout_bytes_per_s", 1.5),
    ("system.scaleup_latency_s", 0.5),
    ("fabric.port_bytes_per_s", 1.5),
    ("fabric.tiers", 0.5),
    ("fabric.decay_per_doubling", 0.5),
    ("stack.vector_traffic", 0.8),
    ("stack.host_s_per_layer", 0.5),
    ("stack.moe_stall_s_per_layer", 0.5),
    ("stack.expert_imbalance_fraction", 0.5),
    ("stack.step_noise_fraction", 0.5),
    ("stack.contention_fraction", 0.5),
]


@pytest.mark.parametrize("system", ["dgx-h100", "gb200-nvl72", "mi300x-platform", "tpu-v5p-pod", "cloudmatrix-384"])
@pytest.mark.parametrize("name", ["llama", "deepseek"])
@pytest.mark.parametrize(("figure", "factor"), FASTER)
def test_a_better_figure_is_never_slower(name, system, figure, factor):
    ask, some, rows = rows_of(name, system)
    if figure == "accelerator.attention_efficiency":
        # Where the host sets the pace, faster attention hides less of the context-parallel traffic and gains nothing.
        ask = replace(ask, machine=changed(ask.machine, "stack", host_s_per_layer=0.0))
    better = replace(ask, machine=faster(ask.machine, figure, factor))
    assert np.all(times(better, some, rows) <= times(ask, some, rows) * (1 + 1e-9))


@pytest.mark.parametrize("figure", ["tp", "cp", "ep", "pp", "dp"])
@pytest.mark.parametrize("name", ["llama", "deepseek"])
def test_hiding_traffic_is_never_slower(name, figure):
    """Contention costs less than what is hidden."""
    ask, some, rows = rows_of(name, "dgx-h100")
    shown, hidden = (
        replace(ask, machine=changed(ask.machine, "stack", **{f"{figure}_hidden_fraction": share}))
        for share in (0.2, 0.8)
    )
    assert np.all(times(hidden, some, rows) <= times(shown, some, rows) * (1 + 1e-9))


@given(st.floats(1.0, 4.0), st.floats(1.0, 4.0), st.sampled_from(["dgx-h100", "atlas-800t-a2"]))
def test_bandwidth_by_any_factor(inside, outside, system):
    ask, some, rows = rows_of("tiny-moe", system)
    system_record = ask.machine.system
    better = replace(
        ask,
        machine=changed(
            ask.machine,
            "system",
            scaleup_bytes_per_s=system_record.scaleup_bytes_per_s * inside,
            scaleout_bytes_per_s=system_record.scaleout_bytes_per_s * outside,
        ),
    )
    assert np.all(times(better, some, rows) <= times(ask, some, rows) * (1 + 1e-9))


# Memory ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("system", ["dgx-h100", "tpu-v5p-pod", "cloudmatrix-384"])
def test_longer_sequences_need_more_memory_and_time(name, system):
    ask, some, rows = rows_of(name, system)
    longer = ask_of(name, ask.machine, seq_len=2 * SEQ_LEN)
    assert np.all(peaks(longer, some, rows) > peaks(ask, some, rows))
    assert np.all(times(longer, some, rows) >= times(ask, some, rows))


@pytest.mark.parametrize("name", MODELS)
def test_more_sharding_never_needs_more_but_for_gathered_layers(name):
    ask, some, rows = rows_of(name, "dgx-h100")
    levels = [
        computed(ask, some, replace(rows, sharding=np.full(rows.size, level)))[1] for level in range(4)
    ]  # none, zero1, zero2, zero3
    for less, more in pairwise(levels[:3]):
        assert np.all(more.total_bytes <= less.total_bytes)
    states = [m.weights_bytes + m.gradients_bytes + m.optimizer_bytes for m in levels]
    assert np.all(states[3] <= states[2])


@pytest.mark.parametrize("name", MODELS)
def test_more_recompute_never_needs_more_nor_less_time(name):
    ask, some, rows = rows_of(name, "dgx-h100")
    names = ("none", "selective", "full", "block")
    modes = [
        replace(some, recompute=np.full(some.size, i), recomputed=np.full(some.size, RECOMPUTED_SHARE[i]))
        for i in map(RECOMPUTE.index, names)
    ]
    memory = [computed(ask, cut, rows)[1].total_bytes for cut in modes]
    time = [times(ask, cut, rows) for cut in modes]
    # a little more may be held where one micro-batch of one layer is all there is: its input is kept besides
    assert np.all(memory[1] <= memory[0] * (1 + 1e-9))
    assert np.mean(memory[2].max(axis=1) <= memory[1].max(axis=1)) > 0.9
    assert np.all(time[0] <= time[1] * (1 + 1e-9))
    assert np.all(time[1] <= time[2] * (1 + 1e-9))
    assert np.all((time[0] <= time[3] * (1 + 1e-9)) & (time[3] <= time[2] * (1 + 1e-9)))
    assert np.all(memory[2].max(axis=1) <= memory[3].max(axis=1) * (1 + 1e-9))


@pytest.mark.parametrize("name", MODELS)
def test_more_replicas_never_need_more_memory(name):
    ask, some, rows = rows_of(name, "dgx-h100")
    twice = replace(rows, dp=2 * rows.dp, global_batch=2 * rows.global_batch)
    assert np.all(peaks(ask, some, twice) <= peaks(ask, some, rows))


@pytest.mark.parametrize("name", MODELS)
def test_larger_micro_batches_need_more_memory(name):
    ask, some, rows = rows_of(name, "dgx-h100")
    larger = replace(some, micro_batch=2 * some.micro_batch)
    same = replace(rows, global_batch=2 * rows.global_batch)
    assert np.all(peaks(ask, larger, same) > peaks(ask, some, rows))


# Answers --------------------------------------------------------------------------------------------------------------


def with_memory(resolved, factor):
    (on,) = resolved.hardware
    return replace(resolved, hardware=(changed(on, "accelerator", memory_bytes=on.accelerator.memory_bytes * factor),))


def test_more_memory_is_never_less_feasible():
    resolved = asked(of=TINY_MOE)
    feasible = [search.size(with_memory(resolved, factor)).feasible for factor in (0.01, 0.02, 0.03, 0.05, 0.1, 1.0)]
    assert feasible == sorted(feasible)
    assert feasible[0] is False
    assert feasible[-1] is True


def test_a_later_deadline_is_never_dearer():
    """Within the error in which plans tie."""
    cost = [
        search.size(asked(deadline_s=hours * 3600.0, devices=(8, 128))).plan.run.cost.total_usd[0]
        for hours in (0.6, 1, 2, 10)
    ]
    assert all(later <= 1.05 * sooner for sooner, later in pairwise(cost))


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_higher_price_is_never_cheaper(system):
    resolved = asked(hardware=system, devices=(8, 10**5))
    circumstances = circumstances_of(resolved, 0)
    ask, some, rows = rows_of("tiny", system)
    if not run.is_priced(circumstances.prices, system):
        priced = replace(circumstances.prices, system_usd={system: 1e5})
        circumstances = replace(circumstances, prices=priced)
    given_work = work(some, rows, computed(ask, some, rows)[0])

    def usd(**prices):
        dearer = replace(circumstances, prices=replace(circumstances.prices, **prices))
        return run.evaluate(dearer, given_work).cost.total_usd

    prices = circumstances.prices
    base = usd()
    assert np.all(np.isfinite(base) & (base > 0))
    for name in ("network_usd_per_device", "facility_usd_per_w", "staff_persons", "usd_per_kg_co2e"):
        assert np.all(usd(**{name: 2 * getattr(prices, name)}) >= base)
    for table in ("system_usd", "rent_usd_per_device_h"):
        assert np.all(usd(**{table: {key: 2 * value for key, value in getattr(prices, table).items()}}) >= base)


# --- Without a price --------------------------------------------------------------------------------------------


PRICES = asked().prices
UNPRICED = [name for name in SYSTEMS if not run.is_priced(PRICES, name)]


def numbers(value):
    """All numbers of a document."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return [number for one in value for number in numbers(one)]
    return [value] if isinstance(value, float) else []


def cooling_of(system):
    """A cooling design that carries the racks of a system."""
    designs = [CATALOG.load(Cooling, name) for name in CATALOG.names(Cooling)]
    return next(one.name for one in designs if one.carries(system.rack_w, needs_liquid=system.needs_liquid))


@pytest.mark.parametrize("name", UNPRICED)
def test_a_machine_without_a_price_has_a_plan_without_money(name):
    on = machine(name)
    (answer,) = search.compare(asked(hardware=name, devices=(8, 2 * on.system.devices), cooling=cooling_of(on.system)))
    document = answer.document()
    cost = document["plan"]["cost"]
    allowed = {"rented_usd", "currency", "basis", "price_date", "missing"}
    assert {key for key, value in cost.items() if value is not None} <= allowed
    assert any(f"no price of {name}; --set prices.system_usd.{name}=USD gives one" in t for t in answer.warnings)
    assert np.all(np.isfinite(numbers(document)))
    for form in report.FORMATS:
        assert not re.search(r"\bnan\b", report.render(document, form), re.IGNORECASE)
    text = report.render(document)
    for word in ("Cost (", "per million tokens", "$/M", "purchase", "owned"):
        assert word not in text
