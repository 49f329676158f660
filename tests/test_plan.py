"""The answer as a document: names that are promised, numbers that are finite, parts that add up, evidence."""

import json
import math
from dataclasses import fields, replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from clusterplan import search, shapes, step
from clusterplan.layer import price_layers
from clusterplan.layout import RECOMPUTE, SCHEDULES, SHARDING
from clusterplan.outcome import Cost
from clusterplan.plan import SCHEMA, Demands, amount, evidence, figure_unit, violated, work
from clusterplan.trace import KINDS, recording
from examples import TINY, TINY_MOE, asked, cuts, layouts, machine, question

DAY_S = 86400.0

# The contract: tables and keys that may be added to but not taken away or renamed
TOP = {
    "schema",
    "version",
    "inputs",
    "feasible",
    "plan",
    "alternatives",
    "rejected",
    "warnings",
    "evidence",
    "blocking",
}
PLAN = {
    "devices",
    "nodes",
    "idle_devices",
    "spare_devices",
    "layout",
    "step",
    "memory",
    "run",
    "energy",
    "carbon",
    "cost",
}
TABLES = {
    "layout": {
        "tp",
        "pp",
        "vpp",
        "cp",
        "ep",
        "etp",
        "dp",
        "micro_batch",
        "global_batch",
        "recompute",
        "sharding",
        "schedule",
        "placement",
    },
    "step": {
        "total_s",
        "communication_fraction",
        "bubble_fraction",
        "mfu",
        "hfu",
        "tokens_per_s",
        "interval",
        "compute_s",
        "tp_exposed_s",
        "pp_exposed_s",
        "dp_exposed_s",
        "cp_exposed_s",
        "ep_exposed_s",
        "bubble_s",
        "optimizer_s",
        "jitter_s",
        "recompute_s",
        "host_s",
        "contention_s",
    },
    "memory": {"peak_bytes", "usable_bytes", "parts", "heaviest_stage", "verdict"},
    "run": {
        "ideal_s",
        "wall_s",
        "goodput_fraction",
        "deadline_probability",
        "mtbf_s",
        "checkpoint_interval_s",
        "expected_interruptions",
    },
    "energy": {
        "it_kwh",
        "facility_kwh",
        "pue",
        "mean_facility_w",
        "peak_facility_w",
        "water_m3",
    },
    "carbon": {"operational_kg_co2e", "embodied_kg_co2e"},
    "cost": {"total_usd", "usd_per_million_tokens"},
}
EVIDENCE = {"value", "unit", "kind", "source", "used_in", "what"}

QUESTIONS = {
    "dense": {"deadline_s": 30 * DAY_S},
    "experts": {"of": TINY_MOE, "deadline_s": 30 * DAY_S, "devices": (8, 64)},
    "rack": {"hardware": "gb200-nvl72", "devices": (72, 144), "deadline_s": 30 * DAY_S},
    "no deadline": {"budget_usd": 1e6},
}


@pytest.fixture(scope="module", params=QUESTIONS)
def answered(request):
    answer = search.size(asked(**QUESTIONS[request.param]))
    assert answer.plan is not None
    return answer


def leaves(value, path=""):
    """Every plain value of a document with its path."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from leaves(inner, f"{path}.{key}")
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from leaves(inner, f"{path}[{index}]")
    else:
        yield path, value


# Document -------------------------------------------------------------------------------------------------------------


def test_names_that_are_promised(answered):
    document = answered.document()
    assert set(document) >= TOP
    assert document["schema"] == SCHEMA == "clusterplan/plan-1"
    for plan in (document["plan"], *document["alternatives"]):
        assert set(plan) >= PLAN
        for table, keys in TABLES.items():
            assert set(plan[table]) >= keys, table
    assert all(set(row) >= EVIDENCE for row in document["evidence"])


def test_document_is_plain_finite_json(answered):
    document = answered.document()
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    for path, value in leaves(document):
        assert value is None or type(value) in (bool, int, float, str), path
        if isinstance(value, float):
            assert math.isfinite(value), path


def test_times_bytes_and_money_are_not_negative(answered):
    for path, value in leaves(answered.document()["plan"]):
        if path.endswith(("_s", "_bytes", "_usd", "_kwh", "_w", "_kg_co2e", "_m3", "_fraction")):
            assert value is None or value >= 0, path


def test_nothing_is_missing_but_what_was_not_asked(answered):
    plan = answered.document()["plan"]
    empty = {path for path, value in leaves(plan) if value is None}
    optional = {".run.deadline_probability"} if answered.resolved.scenario.deadline_s is None else set()
    if answered.resolved.site.contract_kg_co2e_per_kwh is None:
        optional |= {".carbon.market_based_kg_co2e"}
    if answered.plan.question.machine.system.host_memory_bytes is None:
        optional |= {".memory.host_usable_bytes"}
    if answered.resolved.site.heat_reuse_fraction is None:
        optional |= {".energy.ere", ".energy.reused_fraction", ".energy.reused_kwh"}
    if answered.resolved.scenario.batch_ramp is None:
        optional |= {".run.ramp_steps", ".run.ramp_s"}
    if answered.resolved.scenario.long_context is None:
        optional |= {".run.long_steps", ".run.long_s"}
    assert {path for path in empty if not path.startswith(".cost.")} == optional


def test_parts_of_the_step_add_up(answered):
    table = answered.document()["plan"]["step"]
    parts = [table[name] for name in TABLES["step"] if name.endswith("_s") and name not in ("total_s", "tokens_per_s")]
    assert_allclose(sum(parts), table["total_s"])
    exposed = [value for name, value in table.items() if name.endswith("_exposed_s")]
    assert_allclose(table["communication_fraction"], sum(exposed) / table["total_s"])
    assert_allclose(table["bubble_fraction"], table["bubble_s"] / table["total_s"])
    assert table["interval"]["low_s"] < table["total_s"] < table["interval"]["high_s"]
    assert table["mfu"] <= table["hfu"]
    assert table["mfu_causal"] < table["mfu"]


def test_parts_of_memory_cost_and_fleet_add_up(answered):
    plan = answered.document()["plan"]
    memory, cost, run = plan["memory"], plan["cost"], plan["run"]
    assert_allclose(sum(memory["parts"].values()), memory["peak_bytes"])
    assert memory["peak_bytes"] <= memory["usable_bytes"]
    assert memory["verdict"] == "fits"
    parts = [cost[part.name] for part in fields(Cost) if part.name in cost]
    assert_allclose(sum(part for part in parts if part is not None), cost["total_usd"])
    assert_allclose(cost["usd_per_million_tokens"], cost["total_usd"] / (answered.resolved.job.tokens / 1e6))
    assert plan["used_devices"] + plan["idle_devices"] + plan["spare_devices"] == plan["devices"]
    assert_allclose(run["goodput_fraction"], run["ideal_s"] / run["wall_s"])
    energy = plan["energy"]
    assert_allclose(energy["facility_kwh"], energy["it_kwh"] * energy["pue"])
    assert_allclose(energy["facility_kwh"], energy["mean_facility_w"] / 1e3 * run["wall_s"] / 3600)
    assert energy["mean_facility_w"] <= energy["peak_facility_w"]


def test_layout_is_the_plan(answered):
    plan, table = answered.plan, answered.document()["plan"]["layout"]
    used = table["tp"] * table["cp"] * table["pp"] * table["dp"]
    assert used == answered.document()["plan"]["used_devices"]
    assert table["micro_batches"] * table["dp"] * table["micro_batch"] == table["global_batch"]
    assert table["recompute"] in RECOMPUTE
    assert table["sharding"] in SHARDING
    assert table["schedule"] in SCHEDULES
    step_s = answered.document()["plan"]["step"]["total_s"]
    steps = plan.run.progress.steps[0]
    assert_allclose(plan.run.progress.ideal_s, steps * step_s)
    assert steps * table["global_batch"] * 2048 >= answered.resolved.job.tokens


def test_same_plan_twice(answered):
    again = search.size(answered.resolved)
    assert again.document() == answered.document()


def test_tables_by_stage_only_when_asked(answered):
    assert "by_stage" not in answered.document()["plan"]["memory"]
    stages = replace(answered, by_stage=True).document()["plan"]["memory"]["by_stage"]
    assert len(stages) == answered.plan.layouts.pp[0]
    for stage in stages:
        parts = [value for name, value in stage.items() if name not in ("stage", "total_bytes")]
        assert_allclose(sum(parts), stage["total_bytes"])


# Evidence -------------------------------------------------------------------------------------------------------------


def test_evidence_has_every_kind(answered):
    rows = evidence(answered.resolved, answered.plan)
    assert {row["kind"] for row in rows} == set(KINDS)
    assert all(row["source"] and row["used_in"] for row in rows)
    assert len({row["what"] for row in rows}) == len(rows)


def test_evidence_names_what_a_plan_rests_on(answered):
    rows = {row["what"]: row for row in evidence(answered.resolved, answered.plan)}
    on = answered.plan.question.machine
    for folder, name, key, kind in [
        ("accelerators", on.accelerator.name, "bf16_tflops", "datasheet"),
        ("accelerators", on.accelerator.name, "gemm_efficiency.bf16", "fitted"),
        ("systems", on.system.name, "scaleup_efficiency", None),
        ("stacks", on.stack.name, "vector_traffic", "fitted"),
        ("sites", answered.resolved.site.name, "grid_g_co2e_per_kwh", None),
    ]:
        row = rows.get(f"{folder}/{name}: {key}")
        if row is None and folder == "sites":
            assert any(what.startswith(f"{folder}/{name}: ") for what in rows)
            continue
        assert row is not None, key
        assert kind is None or row["kind"] == kind
    peak = rows[f"accelerators/{on.accelerator.name}: bf16_tflops"]
    assert peak["value"] == on.accelerator.bf16_flop_per_s
    assert peak["unit"] == "FLOP/s"


def test_defaults_that_were_taken_are_evidence(answered):
    rows = {row["what"] for row in evidence(answered.resolved, answered.plan)}
    assert {"input: site", "input: cooling", "input: prices", "input: storage", "input: precision"} <= rows
    assert "input: seq_len" not in rows  # it was given


def test_no_plan_has_no_evidence_but_its_inputs():
    answer = search.size(asked(deadline_s=60.0))
    document = answer.document()
    assert document["plan"] is None
    assert document["feasible"] is False
    assert document["blocking"]
    assert set(document["blocking"][0]) >= {"constraint", "required", "best", "unit", "nearest_feasible"}
    assert {row["kind"] for row in document["evidence"]} == {"assumed"}
    json.dumps(document, allow_nan=False)


@pytest.mark.parametrize(
    ("key", "unit"), [("bf16_tflops", "FLOP/s"), ("memory_gib", "bytes"), ("tdp_w", "W"), ("gemm_efficiency.bf16", "")]
)
def test_units_of_figures(key, unit):
    assert figure_unit(key) == unit


# Constraints and objectives -------------------------------------------------------------------------------------------


def test_constraints_are_masks_by_name(answered):
    outcome = answered.plan.run
    loose = Demands(
        deadline_s=None, confidence=0.5, budget_usd=None, power_w=None, devices=(1, 10**6), borderline=False
    )
    assert set(violated(loose, outcome)) == {"devices"}
    assert not violated(loose, outcome)["devices"]
    devices = int(outcome.fleet.devices[0])
    for low, high, broken in [(devices, devices, False), (devices + 1, 10**6, True), (1, devices - 1, True)]:
        assert violated(replace(loose, devices=(low, high)), outcome)["devices"] == broken
    usd, power = float(outcome.cost.total_usd[0]), float(outcome.energy.peak_facility_w[0])
    water, carbon = float(outcome.energy.water_m3[0]), float(outcome.carbon.total_kg_co2e[0])
    named = [("budget_usd", usd, "budget"), ("power_w", power, "site power"), ("water_m3", water, "water")]
    for name, value, mask in [*named, ("carbon_kg", carbon, "carbon")]:
        assert not violated(replace(loose, **{name: value}), outcome)[mask]
        assert violated(replace(loose, **{name: 0.999 * value}), outcome)[mask]
    if outcome.progress.deadline_probability is not None:
        sure = float(outcome.progress.deadline_probability[0])
        easy = replace(loose, deadline_s=30 * DAY_S, confidence=0.999 * sure)
        assert not violated(easy, outcome)["deadline"]
        assert violated(replace(easy, deadline_s=0.5 * float(outcome.progress.wall_s[0])), outcome)["deadline"]


def test_objectives(answered):
    outcome = answered.plan.run
    assert amount("wall", outcome) == outcome.progress.wall_s
    assert amount("cost", outcome) == outcome.cost.total_usd
    assert amount("energy", outcome) == outcome.energy.facility_kwh
    assert amount("carbon", outcome) == outcome.carbon.total_kg_co2e
    assert amount("water", outcome) == outcome.energy.water_m3
    assert amount("devices", outcome) == outcome.fleet.devices


def test_work_adds_up_to_the_step():
    ask = question(TINY, machine())
    some, rows = cuts(tp=[1, 8], recompute=["none", "full"]), layouts(cut=[0, 1], pp=[1, 4], vpp=[1, 2], dp=[8, 2])
    table = price_layers(ask, some)
    pipes = step.pipelines(ask, [(1, 1), (4, 2)])
    stages = step.stage_table(ask, table, rows.cut, pipes, np.arange(2))
    given = work(some, rows, step.evaluate(ask, some, table, rows, stages))
    parts = [given.matrix_s, given.memory_s, given.communication_s, given.waiting_s]
    assert all(np.all(part >= 0) for part in parts)
    assert_allclose(sum(parts), given.step_s)


def test_every_part_of_a_step_was_returned_by_a_formula(answered):
    recorder, time = answered.plan.recorder, answered.plan.step.time
    for name in TABLES["step"]:
        if name.endswith("_s") and name not in ("total_s", "tokens_per_s", "contention_s"):
            assert recorder.maker_of(getattr(time, name)) is not None, name
    assert recorder.maker_of(answered.plan.step.mfu).name == "compute.model_flop_utilisation"


def test_recording_changes_no_number():
    ask = question(TINY_MOE, machine())
    flop = shapes.flop_per_token(ask.model, 2048)
    with recording():
        assert shapes.flop_per_token(ask.model, 2048) == flop
