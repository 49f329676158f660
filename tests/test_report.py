"""Documents as people and programs read them."""

import copy
import csv
import io
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterplan import report
from clusterplan.catalog import Catalog
from clusterplan.hardware import Accelerator
from clusterplan.report import Block, Page, apportioned, comparison, encodable, reason, render, said, said_in, tree
from clusterplan.report.markdown import to_markdown
from clusterplan.report.plan import STEP_PARTS
from clusterplan.report.quantities import in_currency, said_at_least
from clusterplan.workload import Model

STEP = {
    "compute_s": 6.0,
    "recompute_s": 0.0,
    "host_s": 0.0,
    "tp_exposed_s": 0.8,
    "cp_exposed_s": 0.0,
    "ep_exposed_s": 0.0,
    "pp_exposed_s": 0.0,
    "dp_exposed_s": 0.4,
    "contention_s": 0.0,
    "bubble_s": 0.8,
    "optimizer_s": 0.0,
    "jitter_s": 0.0,
}
COST = {"machines_usd": 30e6, "energy_usd": 10e6, "staff_usd": 2e6, "rent_usd": None, "carbon_usd": 0.0}


def plan(**changes):
    """A plan by hand: eight seconds a step, 42 million dollars."""
    made = {
        "hardware": "dgx-h100",
        "accelerator": "h100-sxm-80gb",
        "fabric": "ndr-fat-tree",
        "stack": "megatron-core",
        "precision": "bf16",
        "attention_kernel": "cudnn",
        "devices": 4608,
        "nodes": 576,
        "racks": 288.0,
        "used_devices": 4480,
        "idle_devices": 64,
        "spare_devices": 64,
        "layout": {
            "tp": 8, "pp": 16, "vpp": 4, "cp": 1, "ep": 1, "etp": 8, "dp": 35, "micro_batch": 1, "global_batch": 2030,
            "micro_batches": 58, "recompute": "none", "offload": "none", "sharding": "zero1", "schedule": "interleaved",
            "placement": "tp-cp-ep-dp-pp", "name": "tp8-pp16-vpp4-dp35-mb1",
        },
        "step": STEP
        | {
            "total_s": 8.0, "communication_fraction": 0.15, "bubble_fraction": 0.1, "mfu": 0.41, "hfu": 0.42,
            "mfu_causal": 0.39, "tokens_per_s": 2e6, "tokens_per_s_per_device": 446.0,
            "interval": {"low_s": 7.0, "high_s": 9.0, "confidence": 0.9},
        },
        "memory": {
            "peak_bytes": 60 * 2**30, "usable_bytes": 75 * 2**30, "device_bytes": 79 * 2**30,
            "margin_bytes": 15 * 2**30, "heaviest_stage": 0, "stages": 16, "verdict": "fits",
            "parts": {"weights_bytes": 20 * 2**30, "activations_bytes": 40 * 2**30, "logits_bytes": 0.0},
        },
        "run": {
            "steps": 938_000, "ideal_s": 7.5e6, "wall_s": 8e6, "goodput_fraction": 0.9375,
            "restart_loss_fraction": 0.05, "rework_loss_fraction": 0.0125, "stall_loss_fraction": 0.0,
            "repeat_loss_fraction": 0.0, "deadline_probability": 0.9, "p50_s": 8e6, "p90_s": 8.5e6, "p99_s": 9e6,
            "mtbf_s": 36_000.0, "checkpoint_interval_s": 1200.0, "checkpoint_bytes": 5e12,
            "checkpoint_stall_s": 0.5, "expected_interruptions": 222.0,
        },
        "energy": {
            "it_kwh": 8e6, "facility_kwh": 9.6e6, "pue": 1.2, "peak_pue": 1.3, "mean_it_w": 4e6,
            "mean_facility_w": 4.8e6, "peak_facility_w": 6e6, "water_m3": 12_000.0, "grid_water_m3": None,
            "it": {"accelerators_w": 3e6, "host_w": 1e6},
        },
        "carbon": {
            "operational_kg_co2e": 3e6, "market_based_kg_co2e": None, "embodied_kg_co2e": 5e5, "total_kg_co2e": 3.5e6,
        },
        "cost": COST
        | {
            "total_usd": 42e6, "usd_per_million_tokens": 2.8, "basis": "own", "currency": "USD",
            "price_date": "2026-11-30",
        },
    }  # fmt: skip
    return made | changes


INPUTS = {
    "model": "gpt-1t", "hardware": ["dgx-h100"], "tokens": 15_000_000_000_000, "seq_len": 8192, "global_batch": 2048,
    "precision": "bf16", "deadline_s": 1.0368e7, "budget_usd": 80e6, "power_w": None, "devices": [8, 131_072],
    "confidence": 0.5, "objective": "cost", "site": "us-virginia", "cooling": "liquid-dry-cooler",
    "prices": "list-2026-11", "storage": "flash", "fabric": None, "stack": None, "allow": [], "set": {},
}  # fmt: skip
EVIDENCE = [
    {"what": "accelerators/h100: bf16_tflops", "value": 9.894e14, "unit": "FLOP/s", "kind": "datasheet",
     "source": "the datasheet", "used_in": ["compute.product_s"]},
    {"what": "stacks/megatron-core: dp_hidden_fraction", "value": 0.74, "unit": "", "kind": "fitted",
     "source": "a fit", "used_in": ["network.exposed_s"]},
    {"what": "input: seq_len", "value": 8192, "unit": "tokens", "kind": "assumed", "source": "one length for all",
     "used_in": ["inputs"]},
    {"what": "input: precision", "value": "bf16", "unit": "", "kind": "assumed", "source": "one length for all",
     "used_in": ["inputs"]},
]  # fmt: skip
BLOCKING = [
    {"constraint": "deadline", "required": 1.0368e7, "best": 2.0736e7, "unit": "s", "nearest_feasible": 2.16e7},
    {"constraint": "site power", "required": 1e7, "best": 1.2e7, "unit": "W", "nearest_feasible": None},
]


def answer(**changes):
    made = {
        "schema": "clusterplan/plan-1",
        "version": "0.1.0",
        "inputs": INPUTS,
        "feasible": True,
        "plan": plan(),
        "alternatives": [{"why": "half the devices", **plan(devices=2304)}],
        "rejected": {"memory": 123_456, "deadline": 99},
        "search": {"considered": 7_000_000, "evaluated": 210_000, "ties": 14},
        "warnings": ["MFU is above the best published"],
        "evidence": EVIDENCE,
        "blocking": [],
    }
    return made | changes


def infeasible(**changes):
    return answer(feasible=False, plan=None, alternatives=[], blocking=BLOCKING, warnings=[]) | changes


def on(hardware, made):
    """The same answer about other hardware of a comparison."""
    changed = copy.deepcopy(made)
    if changed["plan"]:
        changed["plan"]["hardware"] = hardware
    return changed


def compared(*documents):
    names = [f"system-{number}" for number in range(len(documents))]
    return comparison([{**one, "inputs": {**INPUTS, "hardware": names}} for one in documents])


def test_layouts_that_are_none_are_told_apart_from_those_refused():
    """What is refused is of what was considered; what breaks a rule of legality is beside it."""
    text = render(answer(rejected={"memory": 5, "deadline": 2, "batch near its target": 90}), "table")
    assert "refused    memory 5, deadline 2" in text
    assert "not tried  batch near its target 90" in text


def test_devices_of_an_estimate_are_those_at_work():
    """Of `size` they are all there are."""
    asked = {**INPUTS, "devices": [4480, 4480]}
    assert "4,480 at work (--devices), 64 spare" in render(answer(inputs={**asked, "objective": "none"}), "table")
    assert "4,480 at work, 64 spare" in render(answer(inputs=asked), "table")


def test_a_model_on_standard_input_has_a_heading():
    assert render(answer(inputs={**INPUTS, "model": "-"}), "table").startswith("config.json on standard input, ")


# --- Numbers ----------------------------------------------------------------------------------------------------


@given(st.lists(st.floats(0, 1e12), min_size=1, max_size=12), st.integers(0, 10**6))
def test_apportioned_units_are_all_given(values, units):
    found = apportioned(values, units)
    assert sum(found) == (units if sum(values) > 0 else 0)
    assert all(number >= 0 for number in found)


def test_apportioned_is_within_one_unit_of_the_share():
    values = [0.123, 4.56, 7.8, 0.0001]
    for value, units in zip(values, apportioned(values, 1000), strict=True):
        assert abs(value / sum(values) * 1000 - units) < 1


def percentages(text):
    return [float(one) for one in re.findall(r"([\d.]+) %", text)]


@pytest.mark.parametrize("parts", [STEP, {"a_s": 1, "b_s": 1, "c_s": 1}, {"a_s": 1e-5, "b_s": 2e-5, "c_s": 4e-5}])
def test_shares_of_a_tree_sum_to_one_hundred(parts):
    block = tree(("Step", sum(parts.values())), parts)
    shares = [percentages(row[2])[0] for row in block.rows[1:]]
    assert sum(shares) == pytest.approx(100, abs=1e-9)


def test_amounts_of_a_tree_add_up_as_they_are_printed():
    parts = {"a_usd": 1_234_567.0, "b_usd": 2_222_222.0, "c_usd": 3_333_333.0}
    block = tree(("Cost", sum(parts.values())), parts)
    amounts = [float(row[1].strip("$ M")) for row in block.rows]
    assert amounts[0] == pytest.approx(sum(amounts[1:]), abs=1e-9)
    assert block.rows[0][1] == "$6.790 M"


def test_a_part_that_is_zero_is_left_out():
    assert [row[0] for row in tree(("Step", 8.0), STEP).rows] == [
        "Step",
        "├─ compute",
        "├─ tensor-parallel",
        "├─ data-parallel",
        "└─ pipeline bubble",
    ]


def test_a_tree_of_nothing_has_no_parts():
    assert tree(("Step", 0.0), {"compute_s": 0.0}).rows == (("Step", "0 us", "", ""),)


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("run.wall_s", 86_400 * 120, "120 days"),
        ("memory.margin_bytes", 2**30, "1.00 GiB"),
        ("energy.mean_facility_w", 4.8e6, "4.80 MW"),
        ("energy.facility_kwh", 9.6e6, "9.60 GWh"),
        ("energy.water_m3", 12_000.0, "12,000 m³"),
        ("carbon.total_kg_co2e", 3.5e6, "3.50 kt CO2e"),
        ("cost.total_usd", 42e6, "$42.0 M"),
        ("cost.usd_per_million_tokens", 2.8, "$2.800"),
        ("step.mfu", 0.41, "41.0 %"),
        ("run.deadline_probability", 0.9, "90.0 %"),
        ("step.tokens_per_s", 2e6, "2M/s"),
        ("layout.tp", 8, "8"),
        ("layout.recompute", "none", "none"),
        ("energy.grid_water_m3", None, "-"),
        ("feasible", True, "yes"),
    ],
)
def test_said_by_the_unit_in_the_name(name, value, text):
    assert said(name, value) == text


def test_said_in_a_unit():
    assert said_in(86_400 * 3, "s") == "3.00 days"
    assert said_in(16_384, "devices") == "16,384 devices"
    assert said_in(0.0892, "USD/kWh") == "0.0892 USD/kWh"


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (140_370_000.0, "USD", "$141 M"),
        (140_000_000.0, "USD", "$140 M"),
        (70.31 * 86_400, "s", "70.4 days"),
        (47_612_000.0, "W", "47.7 MW"),
        (1_234.0, "m3", "1,240 m³"),
        (149_100.0, "kg CO2e", "150 t CO2e"),
        (1_008, "devices", "1,008 devices"),
    ],
)
def test_what_a_limit_must_be_is_rounded_up(value, unit, text):
    """A user who asks for what is said gets a plan."""
    assert said_at_least(value, unit) == text


def test_what_a_limit_must_be_in_another_currency():
    with in_currency({"currency": "EUR", "usd_rate": 0.5}):
        assert said_at_least(140_370_000.0, "USD") == said_in(140_370_000.0, "USD")


# --- The terminal -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "document", [answer(), infeasible(), compared(*[answer()] * 6), compared(answer(), infeasible())]
)
@pytest.mark.parametrize("width", [80, 100])
def test_no_line_is_wider_than_the_page(document, width):
    text = render(document, page=Page(width=width, sources=True))
    assert max(map(len, text.splitlines())) <= width


@pytest.mark.parametrize("width", [40, 80, 200])
def test_nothing_ends_in_a_space_and_nothing_is_cut(width):
    for document in (answer(), compared(answer(), infeasible())):
        text = render(document, page=Page(width=width))
        assert not [line for line in text.splitlines() if line != line.rstrip()]
        assert "…" not in text


def test_everything_that_was_asked_for_is_there():
    text = render(answer())
    for part in (
        "15T tokens (15,000,000,000,000)", "120 days", "80 M", "4,608 devices", "576 nodes", "288 racks",
        "4,480 at work, 64 spare, 64 idle", "tp8-pp16-vpp4-dp35-mb1", "2,030 sequences of 8,192", "8.000 s",
        "75.0 %", "MFU 41.0 %", "39.0 % with causal", "HFU 42.0 %", "60.00 GiB", "fits: 15.0 GiB left of 75.0 GiB",
        "92.6 days expected", "goodput", "restarts 5.00 %", "98.4 days (90 %)", "every 10.0 h",
        "mean 4.80 MW", "peak 6.00 MW", "1.200 over the year", "9.60 GWh", "12,000 m³", "3.50 kt CO2e", "$42.00 M",
        "$2.800 per million tokens", "half the", "7,000,000 considered, 210,000 evaluated", "14 as good",
        "memory 123,456, deadline 99", "above the best published", "one length for all",
        "seq len 8,192 tokens: one length for all",
        "precision bf16: one length for all",
        "Rests on: 1 datasheet figure, 1 fitted, 2 assumed (--sources lists them)",
    ):  # fmt: skip
        assert part in text, part


def test_parts_of_the_step_are_those_of_the_document():
    """A part that the document has and the report does not know would go missing from its sum."""
    from dataclasses import fields

    from clusterplan.step import StepTime

    assert tuple(part.name for part in fields(StepTime)) == STEP_PARTS


def energy_with(**changes):
    made = plan()
    return answer(plan=made | {"energy": made["energy"] | changes})


def test_addends_of_the_pue_are_it_as_it_is_printed():
    parts = {"supplies_w": 0.2504e6, "rejection_w": 0.2504e6, "pumps_w": 0.2992e6, "room_fans_w": 0.0}
    text = render(energy_with(building=parts))
    (line,) = [line for line in text.splitlines() if "1 + " in line]
    assert "room fans" not in line
    addends = [float(n) for n in re.findall(r"0\.\d{3}", " ".join(text.split("1 + ")[1].split("energy ")[0].split()))]
    assert round(1 + sum(addends), 3) == 1.200


def test_levels_and_swings_are_said():
    level = {"mean_w": 7e3, "p95_w": 8e3, "nameplate_w": 10e3}
    jumps = {f"{one}_{unit}": 2e6 for one in ("step", "stop") for unit in ("w", "w_per_s")}
    swings = jumps | {"step_fraction": 0.25, "stop_fraction": 0.25, "buffer_j": 0.0, "smoothing_w": 0.0}
    text = " ".join(render(energy_with(node=level, rack=level, swings=swings)).split())
    assert "node mean 7.00 kW, 95 % of the time within 8.00 kW, nameplate 10.0 kW" in text
    assert "2.00 MW at each step (25.0 % of the mean, 2.00 MW/s), 2.00 MW at stops" in text
    assert "smoothing" not in text
    text = " ".join(render(energy_with(swings=swings | {"smoothing_w": 5e4})).split())
    assert "smoothing takes 50.0 kW" in text


def test_what_evening_out_would_take_is_said_where_nothing_does():
    way = {"left_w": 1e6, "added_w": 2e6, "added_fraction": 0.05, "added_kwh": 3e6, "added_usd": 2.5e5}
    held = {**way, "added_w": 4e4, "left_w": 0.0}
    ways = {"floor": way, "storage": {**way, "added_w": 1e5}, "storage_device_j": 213.4, "checkpoints": held}
    jumps = {f"{one}_{unit}": 2e6 for one in ("step", "stop") for unit in ("w", "w_per_s", "fraction")}
    swings = jumps | {"buffer_j": 0.0, "smoothing_w": 0.0}
    text = " ".join(render(energy_with(swings=swings, mitigation=ways)).split())
    takes = "takes 2.00 MW, 5.00 % more, 3.00 GWh at the meter, $250 k"
    assert f"to even them out, a floor of 0.9 of the TDP leaves 1.00 MW at each step and {takes}" in text
    assert "storage that leaves as much, 100 kW and 213 J a device; through checkpoints 40.0 kW" in text
    for none in ({"smoothing_w": 1.0}, {"step_w": 0.0}):
        assert "a floor of" not in render(energy_with(swings=swings | none, mitigation=ways))


def test_causes_are_said_and_add_up_to_one_hundred():
    made = plan()
    causes = {"memory": 1.0, "device": 1.0, "nic": 1.0, "silent": 0.0}
    text = " ".join(render(answer(plan=made | {"run": made["run"] | {"interruptions_by_cause": causes}})).split())
    assert "caused by memory 34 %, device 33 %, nic 33 % checkpoints" in text
    assert "caused by" not in render(answer())


def test_sold_heat_is_said():
    text = render(energy_with(ere=1.08, reused_fraction=0.1, reused_kwh=0.96e6))
    assert "960 MWh sold, 10.0 % of the energy" in text
    assert "ERE 1.080" in text
    assert "sold" not in render(answer())


def test_sources_are_listed_on_demand():
    assert "the datasheet" not in render(answer())
    text = render(answer(), page=Page(sources=True))
    assert "accelerators/h100: bf16_tflops = 989.4 TFLOP/s (datasheet)\n    the datasheet" in text


def test_stages_are_listed_on_demand():
    made = answer()
    made["plan"]["memory"]["by_stage"] = [
        {"stage": n, "total_bytes": (60 - n) * 2**30, **made["plan"]["memory"]["parts"]} for n in range(3)
    ]
    assert "Memory by stage" not in render(made)
    assert re.search(r"2 +58\.0 +20\.0 +40\.0", render(made, page=Page(stages=True)))


def test_colour_only_if_asked_for():
    assert "\x1b" not in render(answer())
    assert "\x1b[1m" in render(answer(), page=Page(colour=True))


def test_colour_changes_no_letter():
    plain = re.sub(r"\x1b\[[0-9;]*m", "", render(answer(), page=Page(colour=True)))
    assert [line.rstrip() for line in plain.splitlines()] == render(answer()).splitlines()


@pytest.mark.parametrize("form", ["table", "md", "csv"])
def test_an_encoding_without_boxes_gets_ascii(form):
    render(answer(), form, Page(encoding="ascii")).encode("ascii")
    render(answer(), form, Page(encoding="no-such-encoding")).encode("ascii")


def test_signs_that_have_no_likeness_are_replaced():
    assert encodable("Å × ≤", "ascii") == "? x <="
    assert encodable("Å × ≤", "latin-1") == "Å x <="


def test_text_in_a_document_is_no_markup():
    text = render(answer(warnings=["[bold]no[/bold] [/] :smile: \x1b[31m"]))
    assert "[bold]no[/bold] [/] :smile:" in text


def test_no_feasible_plan_says_what_stopped_it():
    text = render(infeasible())
    assert re.search(r"deadline +120 days +240 days +100 % +250 days", text)
    assert re.search(r"site power +10\.0 MW +12\.0 MW +20 % +-", text)
    assert "memory 123,456, deadline 99" in text


def test_hardware_that_cannot_be_used_says_why():
    text = render(infeasible(blocking=[], warnings=["it needs liquid cooling"]))
    assert "No feasible plan\n  it needs liquid cooling" in text
    assert text.count("it needs liquid cooling") == 1


def test_no_block_is_empty():
    made = infeasible(blocking=[], warnings=["it needs liquid cooling"], rejected={})
    assert "Candidates" not in render(made | {"search": made["search"] | {"considered": 0}})
    assert "Candidates" in render(answer())


def test_one_of_a_thing_is_singular():
    assert "= 1 node of" in render(answer(plan=plan(nodes=1)))
    assert re.search(r", 1 micro-batch of", render(answer(plan=plan(layout=plan()["layout"] | {"micro_batches": 1}))))


@pytest.mark.parametrize(("racks", "text"), [(1036.5, "1,037 racks"), (0.5, "1 rack"), (259.5, "260 racks")])
def test_a_rack_that_is_half_full_counts(racks, text):
    assert f"in {text}\n" in render(answer(plan=plan(racks=racks)))


def test_a_long_text_in_a_table_is_wrapped_and_no_column_is_lost():
    change = {"change": "A" * 60, "saved_bytes": 2**40, "peak_bytes": 2**41, "fits": False, "slower_fraction": 0.25}
    text = render(answer(fixes=[change]), page=Page(width=80))
    assert "…" not in text
    assert re.search(r"A{20,}\n", text)
    assert re.search(r"1.00 TiB +2.00 TiB +not enough +\+25.0%", text)


def test_an_estimate_that_does_not_fit_prints_everything():
    memory = plan()["memory"] | {"verdict": "does_not_fit", "margin_bytes": -5 * 2**30}
    stop = [{"constraint": "memory", "required": 75e9, "best": 80e9, "unit": "bytes", "nearest_feasible": None}]
    text = render(answer(feasible=False, plan=plan(memory=memory), blocking=stop))
    assert "Does not fit" in text
    assert "does not fit: 5.00 GiB too much of 75.0 GiB usable" in text
    assert "Step" in text


def test_far_from_feasible_is_a_factor():
    stop = {"constraint": "budget", "required": 1e6, "best": 42e6, "unit": "USD", "nearest_feasible": 42e6}
    assert reason(stop) == "budget: asked $1.00 M, best $42.0 M (off by 42 times), feasible from $42.0 M"


def test_a_best_that_keeps_to_what_was_asked_is_not_off():
    stop = {"constraint": "site power", "required": 1e7, "best": 1e5, "unit": "W", "nearest_feasible": 2.4e7}
    assert reason(stop) == "site power: asked 10.0 MW, best 100 kW, feasible from 24.0 MW"
    assert re.search(r"site power +10\.0 MW +100 kW +- +24\.0 MW", render(infeasible(blocking=[stop])))


def test_a_reason_without_numbers_is_its_name():
    stop = {"constraint": "no legal layout", "required": None, "best": None, "unit": "", "nearest_feasible": None}
    assert reason(stop) == "no legal layout"


# --- Side by side -----------------------------------------------------------------------------------------------


def test_winner_of_each_row():
    cheaper = plan(cost=COST | {"total_usd": 30e6, "usd_per_million_tokens": 2.0})
    faster = plan(run=plan()["run"] | {"wall_s": 7e6})
    document = compared(answer(plan=cheaper), answer(plan=faster))
    assert document["winners"] == {"total_usd": "system-0", "usd_per_million_tokens": "system-0", "wall_s": "system-1"}
    text = render(document)
    assert re.search(r"cost +\$30\.0 M \* +\$42\.0 M\n", text)
    assert re.search(r"wall time +92\.6 days +81\.0 days \*\n", text)
    assert re.search(r"devices +4,608 +4,608\n", text)


def test_a_column_without_a_plan_has_its_reason_and_wins_nothing():
    document = compared(answer(), infeasible())
    assert document["winners"] == {}
    text = render(document)
    assert "system-1: no feasible plan\n  deadline: asked 120 days, best 240 days" in text


def test_no_column_has_a_plan():
    text = render(compared(infeasible(), infeasible()))
    assert text.count("no feasible plan") == 2


def test_each_column_is_an_answer_about_its_hardware():
    document = compared(answer(), answer())
    assert [column["inputs"]["hardware"] for column in document["columns"]] == [["system-0"], ["system-1"]]
    assert document["inputs"]["hardware"] == ["system-0", "system-1"]


def test_warnings_say_whose_they_are():
    text = render(compared(answer(warnings=["for all", "for one"]), answer(warnings=["for all"])))
    assert "  for all\n" in text
    assert "  system-0: for one\n" in text


def test_comparison_changes_no_answer():
    made = answer()
    kept = copy.deepcopy(made)
    comparison([made])
    assert made == kept


# --- Forms for programs -----------------------------------------------------------------------------------------


def test_json_is_sorted_and_comes_back():
    text = render(answer(), "json")
    assert json.loads(text) == answer()
    assert text == json.dumps(answer(), indent=2, sort_keys=True) + "\n"
    assert text.isascii()


def test_json_has_no_number_that_is_none():
    with pytest.raises(ValueError, match="JSON"):
        render(answer(search={"considered": float("nan")}), "json")


def test_json_lines_have_a_plan_each():
    rows = [json.loads(line) for line in render(answer(), "jsonl").splitlines()]
    assert [(row["choice"], row["devices"]) for row in rows] == [("chosen", 4608), ("alternative 1", 2304)]


def test_csv_has_one_header_and_a_plan_each_line():
    text = render(answer(), "csv")
    assert text.endswith("\r\n")
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    assert [row["choice"] for row in rows] == ["chosen", "alternative 1"]
    assert float(rows[0]["step.total_s"]) == 8.0
    assert float(rows[0]["cost.total_usd"]) == 42e6
    assert rows[0]["cost.rent_usd"] == ""
    assert None not in rows[0]


def test_csv_of_a_comparison_has_a_column_each_line():
    rows = list(csv.DictReader(io.StringIO(render(compared(answer(), infeasible()), "csv"), newline="")))
    assert [row["feasible"] for row in rows] == ["true", "false"]
    assert rows[1]["blocking"].startswith("deadline: asked 120 days")
    assert rows[1]["why"].startswith("deadline: asked 120 days")


def test_csv_of_a_comparison_says_why_a_system_was_not_looked_at():
    unpriced = infeasible(blocking=[], warnings=["old prices", "has no price"])
    document = compared(answer(warnings=["old prices"]), unpriced)
    rows = list(csv.DictReader(io.StringIO(render(document, "csv"), newline="")))
    assert [row["why"] for row in rows] == ["", "has no price"]


def test_csv_quotes_what_would_break_a_line():
    rows = list(csv.DictReader(io.StringIO(render(answer(plan=plan(stack='a,"b"\nc')), "csv"), newline="")))
    assert rows[0]["stack"] == 'a,"b"\nc'


def test_numbers_come_back_from_csv_to_the_last_digit():
    total = 0.1 + 0.2
    made = answer(plan=plan(cost=COST | {"total_usd": total, "usd_per_million_tokens": 1e-9}))
    (row, *_) = csv.DictReader(io.StringIO(render(made, "csv"), newline=""))
    assert float(row["cost.total_usd"]) == total


def test_markdown_tables_have_the_same_number_of_cells_in_every_line():
    for table in re.findall(r"(?:^\|.*\n)+", render(answer(), "md"), re.MULTILINE):
        assert len({line.count("|") - line.count("\\|") for line in table.splitlines()}) == 1


def test_markdown_escapes_bars():
    assert "a \\| b" in to_markdown([Block(rows=(("a | b", "c"),))])


@pytest.mark.parametrize("form", report.FORMATS)
@pytest.mark.parametrize("document", [answer(), infeasible(), compared(answer(), infeasible())])
def test_same_document_same_bytes(form, document):
    assert render(document, form) == render(json.loads(json.dumps(document)), form)


# --- Models and profiles ----------------------------------------------------------------------------------------


def test_model_document():
    # Llama Team, arXiv:2407.21783, Table 3, and the count of the published checkpoint: 405,853,388,800
    document = report.model_document(Catalog().load(Model, "llama-3.1-405b"), 8192)
    assert document["parameters"]["total"] == 405_853_388_800
    flop = document["flop_per_token"]
    assert flop["model"] == flop["matrix"] + flop["attention"]
    assert flop["model_causal"] == flop["matrix"] + flop["attention_causal"]
    assert flop["attention"] == 2 * flop["attention_causal"]
    text = render(document)
    assert "405,853,388,800" in text
    assert re.search(r"hidden +16,384", text)


def test_profile_document_has_every_figure_with_its_source():
    record = Catalog().load(Accelerator, "h100-sxm-80gb")
    document = report.profile_document("accelerators", "h100-sxm-80gb", "some/path.toml", record)
    figures = {one["key"]: one for one in document["figures"]}
    assert figures["bf16_flop_per_s"]["value"] == 989.4e12
    assert figures["bf16_flop_per_s"]["kind"] == "datasheet"
    text = render(document)
    assert re.search(r"bf16_tflops +989\.4 TFLOP/s +datasheet", text)
    assert re.search(r"failures_per_device_year +0\.1106 1/device-year +measured", text)
    for one in figures.values():
        if one["kind"]:
            assert one["source"][:30] in text


@pytest.mark.parametrize("folder", Catalog().folders)
def test_every_profile_can_be_shown(folder):
    from clusterplan.catalog import FOLDERS

    catalog = Catalog()
    for name in catalog.names(folder):
        document = report.profile_document(folder, name, "path", catalog.load(FOLDERS[folder], name))
        for form in report.FORMATS:
            assert render(document, form)
