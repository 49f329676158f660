"""Where the numbers of a plan come from."""

import functools
import math

import pytest

from clusterplan import report, shapes
from clusterplan.catalog import Catalog
from clusterplan.errors import ClusterplanError
from clusterplan.estimate import estimate as estimated
from clusterplan.explain import RULES, SUMS, explain, field_text
from clusterplan.formulas import cost, pipeline
from clusterplan.scenario import Scenario, override, resolve
from clusterplan.step import StepTime


@functools.cache
def estimate(model="llama-3.1-8b", **given):
    asked = {
        "model": model, "hardware": "dgx-h100", "devices": "64", "tp": 2, "pp": 4, "micro_batch": 1,
        "global_batch": 128, "seq_len": 8192, "tokens": "1T", "deadline": "120d",
    } | given  # fmt: skip
    resolved = resolve(override(Scenario(), asked), Catalog(), lambda one: shapes.parameters(one).active)
    return estimated(resolved)


@functools.cache
def numbers():
    """Way to every number of the plan's document, with its value."""
    found = {}

    def walk(value, path):
        for key, inner in value.items():
            if isinstance(inner, dict):
                walk(inner, f"{path}{key}.")
            elif isinstance(inner, int | float) and not isinstance(inner, bool):
                found[path + key] = inner

    walk(estimate().document()["plan"], "")
    return {path: value for path, value in found.items() if "by_stage" not in path}


def at(path):
    return numbers()[path]


def test_every_number_of_a_plan_can_be_explained():
    answer = estimate()
    nowhere = []
    for path, value in numbers().items():
        told = explain(answer, path)
        assert told["value"] == value, path
        assert report.render(told), path
        traced = told.get("formula") or told.get("equation") or told.get("figure")
        counted = path.startswith("layout.") or path in {"used_devices", "memory.stages"}
        if not traced and not counted:
            nowhere.append(path)
    assert nowhere == []


@pytest.mark.parametrize("path", SUMS)
def test_sums_are_the_sum_of_their_parts(path):
    told = explain(estimate(), path)
    assert told["is_sum"]
    assert math.isclose(sum(one["value"] for one in told["inputs"]), at(path), rel_tol=1e-12)


@pytest.mark.parametrize("path", RULES)
def test_rules_name_numbers_that_exist(path):
    told = explain(estimate(), path)
    assert told["equation"]
    assert [one["name"] for one in told["inputs"]] == list(RULES[path].fields)


def test_a_formula_with_equation_inputs_and_reference():
    told = explain(estimate(), "step.bubble_s")
    assert told["formula"] == "pipeline.bubble_s"
    assert told["unit"] == "s"
    assert told["meaning"] == "Filling and draining of the pipeline. [s]"
    assert "SC21" in told["references"]
    inputs = {one["name"]: one for one in told["inputs"]}
    assert inputs["stages"] | {"unit": ""} == {"name": "stages", "value": 4, "unit": "", "origin": "layout: pp"}
    assert inputs["send_s"]["formula"] == "network.send_s"


def test_the_formula_gives_the_value_from_the_inputs():
    """What is shown is all that went in."""
    inputs = {one["name"]: one["value"] for one in explain(estimate(), "step.bubble_s")["inputs"]}
    assert math.isclose(float(pipeline.bubble_s(**inputs)), at("step.bubble_s"), rel_tol=1e-12)
    inputs = {one["name"]: one["value"] for one in explain(estimate(), "cost.energy_usd")["inputs"]}
    assert math.isclose(float(cost.energy_usd(**inputs)), at("cost.energy_usd"), rel_tol=1e-12)


def test_a_figure_of_a_profile_with_its_source():
    told = explain(estimate(), "cost.energy_usd")
    price = next(one for one in told["inputs"] if one["name"] == "usd_per_kwh")
    assert price["figure"].startswith("sites/us-virginia: ")
    assert price["kind"] in {"datasheet", "measured", "fitted", "assumed"}
    assert price["unit"] == "USD/kWh"
    assert len(price["source"]) > 10


def test_a_changed_figure_is_given_by_the_user():
    told = explain(estimate(sets=("site.usd_per_kwh=0.05",)), "cost.energy_usd")
    price = next(one for one in told["inputs"] if one["name"] == "usd_per_kwh")
    assert (price["value"], price["source"]) == (0.05, "given by the user")


def test_a_constant_of_the_program_is_named():
    told = explain(estimate(), "run.checkpoint_stall_s")
    barrier = next(one for one in told["inputs"] if one["name"] == "barrier_s")
    assert barrier["origin"].startswith("run.BARRIER_S: Assumed: ")


def test_inputs_are_explained_to_the_second_level():
    told = explain(estimate(), "run.wall_s")
    ideal = next(one for one in told["inputs"] if one["name"] == "ideal_s")
    assert ideal["formula"] == "finish.training_s"
    inner = next(one for one in ideal["inputs"] if one["name"] == "ideal_s")
    assert inner["formula"] == "finish.ideal_s"
    assert "inputs" not in inner


def test_two_formulas_that_add_up_are_found():
    told = explain(estimate(), "step.contention_s")
    assert [one["formula"] for one in told["inputs"]] == ["network.contention_s", "pipeline.steady_s"]
    assert sum(one["value"] for one in told["inputs"]) == at("step.contention_s")


def test_a_property_that_calls_a_formula():
    assert explain(estimate(), "run.p90_s")["formula"] == "finish.finish_quantile_s"


def test_the_way_may_begin_at_the_document():
    assert explain(estimate(), "plan.step.mfu") == explain(estimate(), "step.mfu")


def test_a_time_of_layers_says_what_prices_them():
    rows = {one["formula"]: one for one in explain(estimate(), "step.compute_s")["priced_by"]}
    assert {"compute.product_s", "compute.attention_s", "compute.memory_bound_s"} <= set(rows)
    peak = next(one for one in rows["compute.product_s"]["figures"] if one["figure"].endswith("bf16_tflops"))
    assert (peak["value"], peak["kind"]) == (989.4e12, "datasheet")
    text = report.render(explain(estimate(), "step.compute_s"))
    assert "accelerators/h100-sxm-80gb: bf16_tflops = 989.4 TFLOP/s (datasheet)" in text
    assert "NVIDIA H100 Tensor Core GPU datasheet" in text
    assert explain(estimate(), "cost.energy_usd")["priced_by"] == []


def test_the_group_that_shares_states_is_told_as_it_came_out_not_as_it_was_asked_for():
    told = explain(estimate(), "layout.shard_group")
    assert told["meaning"] == "replicas among which optimizer states are shared; 1 for none"
    assert told["value"] == estimate().document()["plan"]["layout"]["shard_group"] > 0


def test_what_was_chosen_is_said_to_be_chosen():
    assert "chosen by the search, or given" in report.render(explain(estimate(), "layout.tp"))


def test_a_default_of_a_formula_is_called_so():
    hours = next(one for one in explain(estimate(), "energy.water_l_per_kwh")["inputs"] if one["name"] == "hours")
    assert hours["origin"] == "default of the formula"


def test_text_of_an_explanation():
    text = report.render(explain(estimate(), "cost.energy_usd"))
    assert text.startswith("cost.energy_usd = $")
    for part in ("Electricity", "usd_per_kwh", "sites/us-virginia", "USD/kWh", "Formula"):
        assert part in text
    assert ":math:" not in text
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize(
    ("field", "nearest"),
    [
        ("step.buble_s", "step.bubble_s"),
        ("bubble_s", "step.bubble_s"),
        ("total_usd", "cost.total_usd"),
        ("step", "step.compute_s"),
        ("energy.it", "energy.it.accelerators_w"),
    ],
)
def test_a_number_that_is_not_there(field, nearest):
    with pytest.raises(ClusterplanError) as problem:
        explain(estimate(), field)
    assert nearest in problem.value.nearest


@pytest.mark.parametrize("field", ["", ".", "x" * 10_000, "a\nb", "\x00", "step.total_s.x"])
def test_a_strange_name_is_one_line(field):
    with pytest.raises(ClusterplanError) as problem:
        explain(estimate(), field)
    assert "\n" not in str(problem.value)
    assert len(str(problem.value)) < 500


def test_nothing_feasible_has_nothing_to_explain():
    import dataclasses

    with pytest.raises(ClusterplanError, match="nothing is feasible"):
        explain(dataclasses.replace(estimate(), plan=None), "step.total_s")


def test_text_below_a_field():
    assert field_text(StepTime, "optimizer_s") == "Update of the parameters. [s]"
    assert field_text(StepTime, "total_s") == "Length of the step. [s]"
    assert field_text(StepTime, "nothing") == ""


@pytest.mark.parametrize("field", ["cost.total_usd", "cost.machines_usd", "cost.purchase", "cost.usd_per_device_h"])
def test_a_cost_that_has_no_price_says_what_gives_one(field):
    answer = estimate(hardware="grand-teton-h100-500w")
    with pytest.raises(ClusterplanError, match="grand-teton-h100-500w=USD gives one"):
        explain(answer, field)
    assert explain(answer, "energy.pue")["formula"]
