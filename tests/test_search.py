"""Answers: equal to brute force where everything can be listed, stable, and honest where nothing is feasible."""

import itertools
import json
import re
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from clusterplan import run, scan, search, shapes, space, step
from clusterplan.catalog import Catalog
from clusterplan.choose import Choice
from clusterplan.estimate import estimate
from clusterplan.layer import price_layers
from clusterplan.layout import (
    BATCH_TOLERANCE,
    RECOMPUTED_SHARE,
    Cuts,
    broken_cut_rules,
    broken_layout_rules,
    used_devices,
)
from clusterplan.plan import amount, layout_document, make_plan, violated, work
from clusterplan.scan import Tally, joined, look
from clusterplan.scenario import Scenario, override, resolve
from examples import TINY, TINY_MOE, asked, bench, crowded, limits, with_span

DAY_S = 86400.0
OBJECTIVES = ("wall", "cost", "energy", "carbon", "water", "devices")


# Brute force ----------------------------------------------------------------------------------------------------------


def every_layout(looked, **axes):
    """All cuts and all layouts, enumerated by loops; only rules of legality and of placement leave some out."""
    ask = looked.question
    experts = [1, 2, 4, 8] if ask.model.is_moe else [1]
    choices = {
        "tp": (1, 2, 4, 8, 16),
        "cp": (1, 2, 4),
        "ep": experts,
        "etp": (1, 2, 4, 8) if ask.model.is_moe else (1,),
        "micro_batch": (1, 2, 4, 8),
        "recompute": (0, 1, 2),
    } | {name: (value,) for name, value in axes.items()}
    columns = dict(zip(choices, np.array(list(itertools.product(*choices.values()))).T, strict=True))
    one = np.ones(len(columns["tp"]), dtype=np.int64)
    table = Cuts(**columns, recomputed=RECOMPUTED_SHARE[columns["recompute"]], checkpoint_layers=one)
    legal = ~np.any(list(broken_cut_rules(table, limits(ask)).values()), axis=0)
    for size in (table.tp, table.ep):  # no group lies across the edge of a domain
        legal &= (ask.domain_devices % size == 0) | (size % ask.domain_devices == 0)
    legal &= ask.job.seq_len // table.cp >= space.FEWEST_TOKENS
    table = table.take(np.flatnonzero(legal))
    chunks = ask.model.layers + 2
    schedules = ask.machine.stack.default_schedules
    longest = chunks if "1f1b" in schedules else 1
    most_chunks = 16 if "interleaved" in schedules else 1
    pipes = [
        (p, v)
        for p in range(1, longest + 1)
        for v in range(1, most_chunks + 1)
        if p * v <= chunks and (v == 1 or p > 1)
    ]
    most = looked.demands.devices[1]
    rows = [
        (c, i, d)
        for c in range(table.size)
        for i, (p, _) in enumerate(pipes)
        for d in range(1, most // int(table.tp[c] * table.cp[c] * p) + 1)
    ]
    cut, pipe, dp = np.array(rows).T
    pp, vpp = np.array(pipes)[pipe].T
    methods = np.full(len(cut), looked.shardings[0]), 0 * cut, 0 * cut - 1
    orders = (*looked.placements, *looked.other_placements)
    fewest = looked.demands.devices[0]
    listed = joined([
        space.expand(ask, table, cut, pp, vpp, dp, *methods, np.full(len(cut), order), 0 * cut, fewest=fewest)
        for order in orders
    ])  # fmt: skip
    legal = ~np.any(list(broken_layout_rules(listed, table, limits(ask)).values()), axis=0)
    legal &= used_devices(listed, table) >= looked.fewest_used
    return table, listed.take(np.flatnonzero(legal))


def best_of_all(looked, objective):
    """Best value of all layouts, evaluated together."""
    ask = looked.question
    table, listed = every_layout(looked)
    if not listed.size:
        return np.inf
    pipes = sorted(set(zip(listed.pp.tolist(), listed.vpp.tolist(), strict=True)))
    index = {pair: i for i, pair in enumerate(pipes)}
    pipe = np.array([index[pair] for pair in zip(listed.pp.tolist(), listed.vpp.tolist(), strict=True)])
    unique, pair = np.unique(listed.cut * len(pipes) + pipe, return_inverse=True)
    prices = price_layers(ask, table)
    stages = step.stage_table(ask, prices, unique // len(pipes), step.pipelines(ask, pipes), unique % len(pipes)).at(
        pair
    )
    peak = step.stage_memory(ask, table, listed, stages).total_bytes.max(axis=1)
    result = step.evaluate(ask, table, prices, listed, stages)
    outcome = run.evaluate(looked.circumstances, work(table, listed, result))
    wrong = np.any([peak > looked.allowed_bytes, *violated(looked.demands, outcome).values()], axis=0)
    return np.min(np.where(wrong, np.inf, amount(objective, outcome)))


SPACES = [
    pytest.param({}, id="dense"),
    pytest.param({"of": replace(TINY, layers=5)}, id="five layers"),
    pytest.param({"of": TINY_MOE, "devices": (8, 24)}, id="experts"),
    pytest.param({"hardware": "gb200-nvl72", "devices": (8, 144)}, id="rack"),
    pytest.param({"hardware": "tpu-v5p-pod", "devices": (8, 128)}, id="torus"),
    pytest.param({"hardware": "mi300x-platform", "devices": (16, 16)}, id="two nodes"),
    pytest.param({"batch_fixed": False, "global_batch": 100, "devices": (8, 48)}, id="batch near a target"),
    pytest.param({"global_batch": 63, "hardware": "dgx-a100"}, id="odd batch"),
    pytest.param({"global_batch": 4, "devices": (8, 24)}, id="small batch"),
    pytest.param({"power_w": 25e3, "devices": (8, 64)}, id="power"),
    pytest.param({"deadline_s": 3600.0, "devices": (8, 64), "confidence": 0.9}, id="deadline"),
    pytest.param({"budget_usd": 400.0, "devices": (8, 64)}, id="budget"),
    pytest.param({"water_m3": 0.0035, "devices": (8, 64)}, id="water"),
    pytest.param({"carbon_kg": 4.0, "devices": (8, 64)}, id="carbon"),
    pytest.param({"cooling": "air-dry-cooler", "hardware": "dgx-a100", "devices": (8, 24)}, id="no water"),
]


@pytest.mark.parametrize("given", SPACES)
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_best_of_all_layouts_is_found(given, objective):
    for looked in search.benches(asked(**given), 0, objective):
        found = look(looked, Tally())
        best = found.value[found.feasible].min() if found.feasible.any() else np.inf
        everything = best_of_all(looked, objective)
        assert found.feasible.any() == np.isfinite(everything)
        # around the best ones the search also tries somewhat fewer devices than the loops above
        assert best <= everything * (1 + 1e-9)


def drawn(seed):
    """A question about some small model on some machine, with memory that may be scarce."""
    rng = np.random.default_rng(seed)

    def pick(values):
        return values[rng.integers(len(values))]

    heads, hidden = pick([4, 8, 16]), pick([512, 1024, 2048])
    attention = replace(TINY.attention, heads=heads, kv_heads=pick([heads, heads // 2]), head_dim=hidden // heads)
    of = replace(pick([TINY, TINY_MOE]), layers=int(rng.integers(2, 13)), hidden=hidden, attention=attention)
    hardware = pick(["dgx-a100", "dgx-h100", "mi300x-platform", "atlas-800t-a2", "gb200-nvl72", "tpu-v5p-pod"])
    unit = {"gb200-nvl72": 72, "tpu-v5p-pod": 64}.get(hardware, 8)
    high = unit * int(rng.integers(1, 3))
    low = high if unit == 8 and rng.integers(2) else 8
    resolved = asked(
        of=of,
        hardware=hardware,
        devices=(low, high),
        global_batch=int(rng.integers(8, 200)),
        batch_fixed=bool(rng.integers(2)),
        seq_len=pick([1024, 2048, 4096]),
        tokens=int(10 ** rng.uniform(8, 11)),
    )
    (on,) = resolved.hardware
    device = replace(on.accelerator, memory_bytes=on.accelerator.memory_bytes * pick([1.0, 0.1, 0.05]))
    return replace(resolved, hardware=(replace(on, accelerator=device),))


@pytest.mark.parametrize("seed", range(20))
def test_best_of_all_layouts_of_drawn_questions(seed):
    """Larger sizes are on a ladder, so that the best one may be missed by less than the model's own error."""
    objective = OBJECTIVES[seed % len(OBJECTIVES)]
    for looked in search.benches(drawn(seed), 0, objective):
        found = look(looked, Tally())
        best = found.value[found.feasible].min() if found.feasible.any() else np.inf
        everything = best_of_all(looked, objective)
        assert found.feasible.any() == np.isfinite(everything)
        error = looked.question.machine.stack.ranking_error_fraction
        assert best <= everything * (1 + error)


@pytest.mark.parametrize("objective", ["wall", "cost"])
@pytest.mark.parametrize("of", [TINY, TINY_MOE], ids=["dense", "experts"])
def test_plans_made_one_by_one(objective, of):
    """The scalar path: every layout alone, all stages, under the recorder."""
    axes = {"tp": 2, "cp": 1, "micro_batch": 2, "recompute": 0} | (
        {"ep": 4, "etp": 1} if of.is_moe else {"ep": 1, "etp": 1}
    )
    given = axes | {"recompute": "none"}
    resolved = asked(of=of, devices=(8, 24), objective=objective, **given)
    looked = bench(resolved, objective)
    table, listed = every_layout(looked, **axes)
    values = []
    for row in range(listed.size):
        one = listed.take(np.array([row]))
        plan = make_plan(looked.question, looked.circumstances, table.take(one.cut), replace(one, cut=np.zeros(1, int)))
        broken = any(mask[0] for mask in violated(looked.demands, plan.run).values())
        values.append(np.inf if broken or plan.verdict != "fits" else amount(objective, plan.run)[0])
    assert len(values) > 15
    best = min(values)
    found = look(looked, Tally())
    assert_allclose(found.value[found.feasible].min(), best, rtol=1e-9)
    answer = search.size(resolved)
    error = looked.question.machine.stack.ranking_error_fraction
    assert amount(objective, answer.plan.run)[0] <= best * (1 + error) / (1 - error) * (1 + 1e-9)


# What an answer holds -------------------------------------------------------------------------------------------------


def test_same_question_same_answer():
    one, two = (json.dumps(search.size(asked(of=TINY_MOE)).document()) for _ in range(2))
    assert one == two


@pytest.mark.parametrize("hardware", ["dgx-h100", "gb200-nvl72", "tpu-v5p-pod"])
def test_plan_keeps_to_what_was_asked(hardware):
    resolved = asked(hardware=hardware, devices=(64, 256), global_batch=250, batch_fixed=False, deadline_s=30 * DAY_S)
    plan = search.size(resolved).plan
    assert 64 <= plan.run.fleet.devices[0] <= 256
    assert plan.run.progress.wall_s[0] <= 30 * DAY_S
    assert plan.run.progress.deadline_probability[0] >= 0.5
    assert plan.verdict == "fits"
    batch = layout_document(plan)["global_batch"]
    assert abs(batch - 250) <= BATCH_TOLERANCE * 250
    assert batch % (plan.layouts.dp[0] * plan.cuts.micro_batch[0]) == 0
    fleet = plan.run.fleet
    assert fleet.used_devices + fleet.spare_devices + fleet.idle_devices == fleet.devices


def test_a_batch_of_a_range_is_as_good_as_any_in_it():
    question = {"devices": (8, 64), "deadline_s": 10 * DAY_S, "objective": "wall"}
    ranged = search.size(asked(global_batch=96, batch_low=64, batch_fixed=False, **question))
    batch, error = (
        int(ranged.plan.layouts.global_batch[0]),
        2 * ranged.plan.question.machine.stack.ranking_error_fraction,
    )
    assert 64 <= batch <= 96
    assert ranged.document()["inputs"]["batch_low"] == 64
    for exactly in (64, 72, 80, 88, 96):
        fixed = search.size(asked(global_batch=exactly, **question))
        wall = fixed.plan.run.progress.wall_s[0] if fixed.plan else np.inf
        assert ranged.plan.run.progress.wall_s[0] <= wall * (1 + error)


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"batch_ramp": "8:2B"},
        {"batch_ramp": "8:2B", "eval_fraction": 0.05},
        {"batch_ramp": "8:2B", "long_context": "8192:1B", "eval_fraction": 0.05},
    ],
)
def test_phases_add_up(more):
    answer = search.size(asked(**more))
    document = answer.document()
    told = document["plan"]["run"]
    assert len(told["phases"]) == 1 + len(more)
    assert_allclose(sum(one["tokens"] for one in told["phases"]), 10**10)
    assert_allclose(sum(one["time_s"] for one in told["phases"]), told["wall_s"])
    assert sum(one["steps"] for one in told["phases"]) == told["steps"]
    assert document["inputs"]["batch_ramp"] == more.get("batch_ramp")


def test_the_plan_itself_is_not_told_as_the_least_of_its_ties(monkeypatch):
    """Candidates of one name differ in their placement alone, of which a line of its own tells."""
    found = search.search_machine(asked(devices=(16, 16)), 0, "wall", None)[0][0]
    mine, other = (Choice(found=found, row=row) for row in (0, 1))
    name = layout_document(other.plan())["name"]
    assert name != layout_document(mine.plan())["name"]
    monkeypatch.setattr(search, "least", lambda _: (other, 0.02))
    assert search.least_document(mine) == {"layout": name, "devices": 16, "saved_fraction": 0.02}
    assert search.least_document(other) is None


def test_a_layout_without_replicas_is_laid_on_the_devices_of_the_plan():
    answer = search.size(asked(devices=(32, 32), beside="tp2-pp2-mb1,recompute=full"))
    fleet = answer.plan.run.fleet
    dp = int(fleet.devices[0] - fleet.spare_devices[0]) // 4
    assert answer.beside["layout"] == f"tp2-pp2-mb1-dp{dp},recompute=full"
    given = search.size(asked(devices=(32, 32), beside=f"tp2-pp2-mb1-dp{dp},recompute=full"))
    assert answer.beside == given.beside


def test_fixed_batch_is_exact():
    assert layout_document(search.size(asked(global_batch=56)).plan)["global_batch"] == 56


def test_fixed_axes_are_kept():
    document = layout_document(search.size(asked(tp=4, pp=2, micro_batch=2, dp=2)).plan)
    assert [document[name] for name in ("tp", "pp", "micro_batch", "dp")] == [4, 2, 2, 2]


def test_alternatives_differ_in_kind():
    answer = search.size(asked(hardware=("dgx-h100", "dgx-a100"), devices=(8, 64)))
    assert len(answer.alternatives) >= 3
    mine, size = answer.plan, int(answer.plan.run.fleet.devices[0])
    for why, other in answer.alternatives:
        there = {
            "other hardware": other.question.machine.system.name != mine.question.machine.system.name,
            "fewer devices": other.run.fleet.devices[0] <= 0.75 * size,
            "more devices": other.run.fleet.devices[0] >= 1.33 * size,
            "other tensor-parallel size": other.cuts.tp[0] != mine.cuts.tp[0],
            "other pipeline length": other.layouts.pp[0] != mine.layouts.pp[0],
        }
        assert there[why]
        assert other.verdict == "fits"
    assert len({why for why, _ in answer.alternatives}) == len(answer.alternatives)


def test_compare_is_size_on_each():
    resolved = asked(hardware=("dgx-h100", "dgx-a100"), deadline_s=30 * DAY_S)
    columns = search.compare(resolved)
    for index, column in enumerate(columns):
        alone = search.size(replace(resolved, hardware=(resolved.hardware[index],)))
        assert column.plan.run.cost.total_usd == alone.plan.run.cost.total_usd
    best = min(c.plan.run.cost.total_usd[0] for c in columns)
    assert search.size(resolved).plan.run.cost.total_usd[0] <= best * 1.05


def test_more_choice_is_never_worse():
    """Within the error in which plans tie, the answer to a wider question is as good."""
    narrow, wide = (
        search.size(asked(objective="cost", devices=devices)).plan.run.cost.total_usd[0]
        for devices in ((16, 24), (8, 64))
    )
    assert wide <= narrow * 1.05
    plain, allowed = (
        search.size(asked(objective="wall", allow=allow)).plan.run.progress.wall_s[0] for allow in ((), ("fp8",))
    )
    assert allowed <= plain * 1.05


def test_unsupported_format_is_a_reason_not_a_crash():
    (column,) = search.compare(asked(hardware="dgx-a100", precision="bf16"))
    assert column.feasible
    resolved = asked(hardware=("dgx-h100", "dgx-a100"), precision="fp8")
    first, second = search.compare(resolved)
    assert first.feasible
    assert not second.feasible
    assert any("dgx-a100" in line and "fp8" in line for line in second.warnings)


def test_where_nothing_takes_water_the_cost_decides():
    dry = {"cooling": "air-dry-cooler", "hardware": "dgx-a100", "precision": "bf16", "devices": (8, 64)}
    least, cheapest = (search.size(asked(objective=name, **dry)) for name in ("water", "cost"))
    assert least.plan.run.energy.water_m3 == 0
    assert least.plan.run.cost.total_usd == cheapest.plan.run.cost.total_usd
    assert least.objective == "water"
    assert any("no water at all" in line for line in least.warnings)
    assert not any("at all" in line for line in cheapest.warnings)
    given = search.size(asked(objective="water", beside="tp1-dp8-mb1", clock="auto", **dry))
    assert given.beside["objective"] == "cost"
    assert given.beside["loss_fraction"] >= -1e-9


@pytest.mark.parametrize("name", ["water", "carbon"])
def test_limits_on_totals_are_kept(name):
    free = search.size(asked(devices=(8, 64), objective="cost")).plan.run
    least = float(amount(name, search.size(asked(devices=(8, 64), objective=name)).plan.run)[0])
    field = {"water": "water_m3", "carbon": "carbon_kg"}[name]
    limit = (least + float(amount(name, free)[0])) / 2
    bound = search.size(asked(devices=(8, 64), objective="cost", **{field: limit}))
    assert least <= amount(name, bound.plan.run) <= limit
    assert bound.plan.run.cost.total_usd >= free.cost.total_usd
    assert bound.rejected[name] > 0


# Nothing feasible -----------------------------------------------------------------------------------------------------

BLOCKED = {
    "deadline": ({"deadline_s": 60.0, "devices": (8, 64)}, "deadline_s"),
    "budget": ({"budget_usd": 1.0, "devices": (8, 64)}, "budget_usd"),
    "site power": ({"power_w": 1000.0, "devices": (8, 64)}, "power_w"),
    "water": ({"water_m3": 0.001, "devices": (8, 64)}, "water_m3"),
    "carbon": ({"carbon_kg": 1.0, "devices": (8, 64)}, "carbon_kg"),
}


@pytest.mark.parametrize("name", BLOCKED)
@pytest.mark.parametrize("confidence", [0.5, 0.95])
def test_nearest_feasible_value_is_feasible(name, confidence):
    given, field = BLOCKED[name]
    answer = search.size(asked(**given, confidence=confidence))
    assert answer.plan is None
    assert not answer.feasible
    (stop,) = answer.blocking
    assert stop.constraint == name
    assert stop.required == given[field]
    assert stop.best <= stop.nearest_feasible
    assert stop.required < stop.nearest_feasible
    assert search.size(asked(**(given | {field: stop.nearest_feasible}), confidence=confidence)).feasible
    assert not search.size(asked(**(given | {field: 0.97 * stop.nearest_feasible}), confidence=confidence)).feasible


@pytest.mark.parametrize("most", [15_808, 16_000, 17_000])
def test_more_devices_to_choose_from_leave_no_plan_out(most):
    """The plan of 15,808 devices lies between two rungs of the ladder; it is found from near misses."""

    def sized(**given):
        scenario = override(Scenario(), {"model": "llama-3.1-405b", "hardware": "dgx-h100", "tokens": "15T"} | given)
        return search.size(resolve(scenario, Catalog(), lambda model: shapes.parameters(model).active))

    shortest_s = float(sized(devices="15808").plan.run.progress.wall_s[0])
    answer = sized(devices=f"8:{most}", deadline=f"{1.001 * shortest_s / DAY_S}d")
    assert answer.feasible
    assert int(answer.plan.run.fleet.devices[0]) <= 15_808


def test_two_constraints_in_the_way():
    answer = search.size(asked(deadline_s=60.0, budget_usd=1.0, devices=(8, 64)))
    assert answer.plan is None
    assert {stop.constraint for stop in answer.blocking} == {"deadline", "budget"}
    assert all(stop.nearest_feasible is None for stop in answer.blocking)  # neither alone would do


def test_deadline_that_a_larger_budget_would_not_need():
    """One constraint at its limit and one broken: the nearest value keeps to the other."""
    free = search.size(asked(objective="wall", devices=(8, 64))).plan
    dear = float(free.run.cost.total_usd[0])
    answer = search.size(asked(deadline_s=60.0, budget_usd=2 * dear, devices=(8, 64)))
    (stop,) = (s for s in answer.blocking if s.constraint == "deadline")
    again = search.size(asked(deadline_s=stop.nearest_feasible, budget_usd=2 * dear, devices=(8, 64)))
    assert again.feasible


def test_memory_in_the_way():
    answer = search.size(crowded(asked(), 2.0))
    assert answer.plan is None
    (stop,) = answer.blocking
    assert stop.constraint == "memory"
    assert stop.required < stop.best
    assert stop.nearest_feasible >= stop.best
    # what is allowed is 95 % of the device; a little more, since the devices must hold spares too
    assert search.size(crowded(asked(), 1.02 * stop.nearest_feasible / 0.95 / 1e9)).feasible


def test_batch_that_no_layout_makes_is_not_blamed_on_memory():
    answer = search.size(asked(global_batch=61, dp=2, devices=(8, 16)))
    assert answer.plan is None
    (stop,) = answer.blocking
    assert (stop.constraint, stop.required) == ("global batch", 61)
    assert any(count for name, count in answer.rejected.items() if "batch" in name)
    assert search.size(asked(global_batch=int(stop.nearest_feasible), dp=2, devices=(8, 16))).feasible


def test_replicas_that_do_not_divide_are_named():
    answer = search.size(asked(of=TINY_MOE, dp=3, ep=8, tp=1, cp=1))
    (stop,) = answer.blocking
    assert (stop.constraint, stop.required, stop.nearest_feasible) == ("dp × cp × tp divides by ep × etp", 3, 8)
    assert search.size(asked(of=TINY_MOE, dp=8, ep=8, tp=1, cp=1)).feasible


@pytest.mark.parametrize(
    ("axes", "rule"),
    [
        ({"tp": 3}, "heads divide by tp"),
        ({"pp": 20}, "a layer for each stage"),
        ({"pp": 1, "vpp": 4}, "vpp needs interleaving"),
        ({"ep": 2}, "ep needs experts"),
        ({"sharding": "fsdp"}, "megatron-core has no fsdp"),
    ],
)
def test_axes_that_no_layout_has_are_a_reason(axes, rule):
    answer = search.size(asked(**axes))
    assert answer.plan is None
    assert answer.blocking == ()
    assert any(rule in line for line in answer.warnings)


def test_too_few_devices_for_the_range():
    answer = search.size(asked(devices=(1, 4), hardware="dgx-h100"))
    assert answer.plan is None
    (stop,) = answer.blocking
    assert stop.constraint == "devices"
    assert stop.nearest_feasible == 8


def test_more_devices_than_the_network_joins():
    answer = search.size(asked(devices=(10**7, 10**7), hardware="dgx-h100"))
    (stop,) = answer.blocking
    assert (stop.constraint, stop.required) == ("devices", 1e7)
    assert search.size(asked(devices=(8, int(stop.nearest_feasible)), hardware="dgx-h100")).plan is not None


# Networks and software ------------------------------------------------------------------------------------------------


def test_spares_are_on_the_network_too():
    """It joins those at work and their spares; idle ones need no port."""
    question = with_span(asked(devices=(8, 96)), 64)
    answer = search.size(question)
    assert answer.feasible
    assert answer.plan.run.fleet.devices[0] <= 64
    assert answer.plan.run.fleet.spare_devices[0] > 0
    beyond = search.size(with_span(asked(devices=(72, 72)), 64))
    assert not beyond.feasible


# Layers that run again, and host memory -------------------------------------------------------------------------------


def test_the_search_keeps_to_a_number_of_layers():
    plan = search.size(asked(recompute="block:2")).plan
    told = layout_document(plan)
    assert (told["recompute"], told["recomputed_layers"]) == ("block", 2.0)


def test_the_search_finds_the_fewest_layers_that_must_run_again():
    resolved = crowded(asked(devices=(8, 8), tp=1, micro_batch=8, pp=1, cp=1, objective="wall"), 10.5)
    (on,) = resolved.hardware
    resolved = replace(resolved, hardware=(replace(on, stack=replace(on.stack, recompute=("none", "block", "full"))),))
    found = look(bench(resolved, "wall"), Tally())
    one_by_one = [
        estimate(replace(resolved, scenario=replace(resolved.scenario, recompute=text)))
        for text in ("none", *(f"block:{n}" for n in range(1, 8)), "full")
    ]
    fitting = [float(a.plan.run.progress.wall_s[0]) for a in one_by_one if a.plan.verdict == "fits"]
    assert 0 < len(fitting) < len(one_by_one) - 1
    assert found.value[found.feasible].min() == pytest.approx(min(fitting))


def test_the_search_offloads_only_if_it_may():
    scarce = crowded(asked(devices=(8, 8), of=replace(TINY, hidden=4096, ffn=16384)), 5.5)
    assert not search.size(scarce).feasible
    allowed = replace(scarce, scenario=replace(scarce.scenario, allow=("offload",)))
    found = search.size(allowed)
    assert found.feasible
    assert layout_document(found.plan)["offload"] != "none"


def test_schedules_beyond_the_defaults_join_if_they_may():
    given = {"hardware": "dgx-a100", "stack": "megatron-lm-zero-bubble", "devices": (32, 48), "objective": "wall"}
    axes = {
        "tp": 1,
        "pp": 8,
        "vpp": 1,
        "micro_batch": 1,
        "global_batch": 64,
        "of": replace(TINY, layers=16),
        "recompute": "none",
    }
    plain, allowed = (search.size(asked(**given, **axes, allow=names)).plan for names in ((), ("zb-2p",)))
    assert layout_document(plain)["schedule"] == "1f1b"
    assert layout_document(allowed)["schedule"] == "zb-2p"
    assert allowed.step.time.bubble_s < plain.step.time.bubble_s
    fixed = search.size(asked(**given, **axes, schedule="zb-1p")).plan
    assert layout_document(fixed)["schedule"] == "zb-1p"


# Interrupts -----------------------------------------------------------------------------------------------------------


def interrupting(after):
    """Progress at which somebody presses the key, once so many batches are done."""
    told = []

    def progress(share, text):
        told.append((share, text))
        if len(told) == after:
            raise KeyboardInterrupt

    return progress, told


def test_an_interrupted_search_gives_the_best_so_far_if_it_may(monkeypatch):
    monkeypatch.setattr(scan, "PAIRS_AT_ONCE", 16)
    progress, told = interrupting(3)
    answer = search.size(asked(), progress, may_stop=True)
    assert len(told) == 3
    assert answer.is_interrupted
    assert answer.feasible
    assert any("interrupted" in text for text in answer.warnings)
    whole = search.size(asked())
    assert not whole.is_interrupted
    assert answer.considered < whole.considered
    assert amount("wall", answer.plan.run)[0] >= 0.9 * amount("wall", whole.plan.run)[0]


def test_an_interrupt_is_an_exception_elsewhere(monkeypatch):
    monkeypatch.setattr(scan, "PAIRS_AT_ONCE", 16)
    with pytest.raises(KeyboardInterrupt):
        search.size(asked(), interrupting(3)[0])
    with pytest.raises(KeyboardInterrupt):  # nothing feasible was found until then
        search.size(asked(budget_usd=1.0), interrupting(3)[0], may_stop=True)


def test_an_interrupted_comparison_gives_the_columns_so_far():
    resolved = asked(hardware=("dgx-h100", "dgx-a100"), recompute="none", cp=1, devices=(8, 16))
    whole = search.compare(resolved)

    def at_the_second(share, text):
        if share > 0.5:
            raise KeyboardInterrupt

    first, *cut = search.compare(resolved, at_the_second, may_stop=True)
    assert first.document() == whole[0].document()
    assert all(one.is_interrupted for one in cut)
    with pytest.raises(KeyboardInterrupt):
        search.compare(resolved, at_the_second)
    poor = asked(hardware=("dgx-h100", "dgx-a100"), budget_usd=1.0, devices=(8, 16))
    with pytest.raises(KeyboardInterrupt):  # there is nothing to show
        search.compare(poor, interrupting(1)[0], may_stop=True)


def test_an_interrupt_while_the_long_phase_settles_gives_the_plan_so_far(monkeypatch):
    settled = []
    one = search.one_answer

    def pressed(*given, **more):
        settled.append(given)
        if len(settled) == 2:
            raise KeyboardInterrupt
        return one(*given, **more)

    monkeypatch.setattr(search, "one_answer", pressed)
    monkeypatch.setattr(search.context, "AGREED", -1.0)
    answer = search.size(asked(long_context="16384:1B"), may_stop=True)
    assert answer.is_interrupted
    assert answer.feasible
    assert any("interrupted" in text for text in answer.warnings)


def test_progress_of_all_parts_runs_from_nothing_to_the_whole(monkeypatch):
    monkeypatch.setattr(scan, "PAIRS_AT_ONCE", 64)
    told = []
    search.size(asked(hardware=("dgx-h100", "gb200-nvl72")), lambda share, text: told.append((share, text)))
    shares = [share for share, _ in told]
    assert shares == sorted(shares)
    assert shares[0] < 0.5
    assert shares[-1] == 1
    assert re.fullmatch(r"[\d,]+ layouts, [\d.,]+[MB]?/s; fastest so far [\d.,]+[MB]? tokens/s", told[-1][1])
