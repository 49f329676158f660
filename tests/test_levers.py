"""Levers: each row is the run with that one change, whether the layout is kept or searched again."""

import csv
import io
import json
from dataclasses import replace

import pytest
from numpy.testing import assert_allclose
from typer.testing import CliRunner

from clusterplan import levers, report, search
from clusterplan.cli import app
from clusterplan.errors import ClusterplanError
from clusterplan.estimate import estimate
from clusterplan.levers import GROUPS, MEASURES, effects
from examples import CATALOG, asked

QUESTION = ["llama-3.1-8b", "--hardware", "dgx-h100", "--tokens", "1T", "--devices", "64", "--pp", "1"]
RUNNER = CliRunner()


TARIFF = ("site.usd_per_kwh", "site.demand_usd_per_kw_month")
BASE = asked()
ANSWER = search.size(BASE)
FOUND = effects(BASE, ANSWER.plan, CATALOG, sites=("no-narvik",))
BY_CHANGE = {one.lever.change: one for one in FOUND.found}


def run(*arguments):
    return RUNNER.invoke(app, list(arguments), prog_name="clusterplan")


def growth(change, name):
    return levers.change_fraction(name, ANSWER.plan.run, BY_CHANGE[change].outcome)


def test_every_kind_of_change_is_there():
    assert {one.lever.group for one in FOUND.found} | {one.group for one, _ in FOUND.refused} == set(GROUPS)


def test_those_with_most_effect_come_first():
    sizes = [levers.effect_size(ANSWER.plan.run, one.outcome) for one in FOUND.found]
    assert sizes == sorted(sizes, reverse=True)


@pytest.mark.parametrize(
    ("change", "given"),
    [
        ("clock -10 %", {"clock": 0.9}),
        ("electricity × 2", {"sets": {key: repr(2 * float(getattr(BASE.site, key[5:]))) for key in TARIFF}}),
        ("site no-narvik", {"site": "no-narvik"}),
        ("tokens × 1.1", {"tokens": 11 * 10**9}),
        ("rent on demand", {"sets": {"prices.basis": "rent"}}),
    ],
)
def test_a_row_is_what_estimate_says_of_the_changed_question(change, given):
    """The same layout, asked from the start."""
    axes = ANSWER.document()["plan"]["layout"]
    names = ("tp", "pp", "vpp", "cp", "ep", "etp", "dp", "micro_batch", "sharding", "schedule", "recompute")
    layout = {name: axes[name] for name in names} | {"global_batch": axes["global_batch"]}
    again = estimate(asked(**layout, **given))
    for name, measure in MEASURES.items():
        assert_allclose(measure(BY_CHANGE[change].outcome), measure(again.plan.run), rtol=1e-9, err_msg=name)


def test_which_way_each_change_moves():
    assert growth("clock -10 %", "wall_s") > 0 > growth("clock -10 %", "facility_kwh")
    assert growth("electricity × 2", "wall_s") == 0 < growth("electricity × 2", "total_usd")
    assert growth("device price +20 %", "total_usd") == pytest.approx(-growth("device price -20 %", "total_usd"))
    assert growth("failures × 2", "wall_s") > 0
    assert growth("bandwidth × 2", "wall_s") <= 0 <= growth("bandwidth × 0.5", "wall_s")
    assert growth("PUE +0.05", "facility_kwh") > 0
    assert growth("site no-narvik", "total_kg_co2e") < -0.5
    assert growth("tokens × 1.1", "wall_s") == pytest.approx(0.1, rel=0.1)


def test_one_design_of_each_kind_of_cooling():
    kinds = [one.lever.change.partition(":")[0] for one in FOUND.found if one.lever.group == "cooling"]
    assert len(kinds) == len(set(kinds)) >= 3


def test_saving_of_a_year_is_for_the_runs_of_a_year():
    one = BY_CHANGE["electricity × 2"]
    runs = 8766 * 3600 / MEASURES["wall_s"](ANSWER.plan.run)
    more = MEASURES["total_usd"](one.outcome) - MEASURES["total_usd"](ANSWER.plan.run)
    assert_allclose(levers.saved_usd_per_year(ANSWER.plan.run, one.outcome), -more * runs)


def test_only_some_changes():
    found = effects(BASE, ANSWER.plan, CATALOG, only=("clock", "pue"))
    assert {one.lever.group for one in found.found} == {"clock", "pue"}
    with pytest.raises(ClusterplanError, match="no kind of change"):
        effects(BASE, ANSWER.plan, CATALOG, only=("clocks",))


def test_searched_again_it_is_never_worse_than_kept():
    """The layout that was kept is among those that a search looks at, within the error of a tie."""
    again = effects(BASE, ANSWER.plan, CATALOG, only=("bandwidth", "electricity"), replan=True)
    error = BASE.hardware[0].stack.ranking_error_fraction
    limit = (1 + error) / (1 - error)
    for one in again.found:
        kept = MEASURES["wall_s"](BY_CHANGE[one.lever.change].outcome)
        assert MEASURES["wall_s"](one.outcome) <= kept * limit
        assert one.layout


def test_demands_that_are_no_longer_kept_are_told():
    wall = float(ANSWER.plan.run.progress.wall_s[0])
    tight = replace(BASE, scenario=replace(BASE.scenario, deadline_s=1.01 * wall))
    answer = search.size(tight)
    found = effects(tight, answer.plan, CATALOG, only=("tokens",))
    assert found.found[0].breaks == ("deadline",)
    text = report.render(report.levers_document(answer, found, replan=False))
    assert "! tokens × 1.1: no longer keeps to deadline" in text


def test_rented_machines_have_no_staff_and_no_utilisation():
    rented = asked(sets={"prices.basis": "rent"})
    answer = search.size(rented)
    found = effects(rented, answer.plan, CATALOG)
    changes = {one.lever.change for one in found.found}
    assert "own" in changes
    assert not any("utilisation" in change or "staff" in change for change in changes)


def test_chosen_clock_is_kept_by_the_other_changes():
    auto = asked(clock="auto", objective="energy")
    answer = search.size(auto)
    found = effects(auto, answer.plan, CATALOG, only=("pue",))
    assert_allclose(MEASURES["wall_s"](found.found[0].outcome), MEASURES["wall_s"](answer.plan.run))


def test_table_fits_a_terminal():
    text = report.render(report.levers_document(ANSWER, FOUND, replan=False))
    assert all(len(line) <= 80 for line in text.splitlines())
    assert "saves" in text
    assert "clock -10 %" in text


def test_command_in_all_forms(tmp_path):
    command = ["levers", *QUESTION[:-2], "--only", "clock,electricity", "--only", "site"]
    table = run(*command, "--site", "us-virginia,no-narvik")
    assert table.exit_code == 0, table.stderr
    assert "site no-narvik" in table.stdout
    document = json.loads(run(*command, "--json").stdout)
    assert document["schema"] == "clusterplan/levers-1"
    assert {row["group"] for row in document["levers"]} == {"clock", "electricity"}
    rows = list(csv.DictReader(io.StringIO(run(*command, "--format", "csv").stdout)))
    assert [row["change"] for row in rows] == [row["change"] for row in document["levers"]]
    assert "| clock -10 % |" in run(*command, "--format", "md").stdout


def test_mistakes_are_told_in_one_line():
    for more, told in (
        (["--only", "clok"], "did you mean: clock"),
        (["--site", "us-virginia,nowhere"], "nowhere"),
        (["--site", "us-virginia,no-narvik,no-narvik"], "twice"),
    ):
        result = run("levers", *QUESTION[:-2], *more)
        assert result.exit_code == 1
        assert told in result.stderr


def test_nothing_feasible_is_said_as_size_says_it():
    result = run("levers", *QUESTION[:-2], "--budget", "1")
    assert result.exit_code == 3
    assert "No feasible plan" in result.stdout


def test_a_saved_layout_is_taken_as_it_is(tmp_path):
    job = tmp_path / "job.toml"
    saved = run("estimate", *QUESTION[:-4], "--devices", "8", "--tp", "8", "--save", str(job))
    assert saved.exit_code == 0, saved.stderr
    result = run("levers", "--scenario", str(job), "--only", "pue", "--json")
    assert json.loads(result.stdout)["plan"]["layout"]["tp"] == 8


# Without a price ------------------------------------------------------------------------------------------------------

UNSOLD = replace(BASE, prices=replace(BASE.prices, system_usd={}))
WITHOUT_PRICE = search.size(UNSOLD)


@pytest.mark.parametrize("replan", [False, True])
def test_without_a_price_changes_are_not_of_money(replan):
    found = effects(UNSOLD, WITHOUT_PRICE.plan, CATALOG, replan=replan, only=("clock", "price", "failures", "cooling"))
    assert {one.lever.group for one in found.found} == {"clock", "failures", "cooling"}
    document = report.levers_document(WITHOUT_PRICE, found, replan=replan)
    for row in document["levers"]:
        assert (row["total_usd"], row["total_usd_change_fraction"], row["saved_usd_per_year"]) == (None, None, None)
        assert row["effect_fraction"] >= 0
    text = report.render(document)
    assert "there is no cost: price list" in text
    assert "saves" not in text
    assert "cost" not in text.partition("Levers")[2]


def test_without_a_price_a_change_of_money_alone_asks_for_one():
    with pytest.raises(ClusterplanError, match=r"--only: .*--set prices.system_usd.dgx-h100=USD gives one"):
        effects(UNSOLD, WITHOUT_PRICE.plan, CATALOG, only=("price", "basis"))


def test_a_change_to_a_machine_without_a_price_is_refused_where_the_plan_has_one():
    prices = {name: usd for name, usd in BASE.prices.system_usd.items() if name != "hgx-h100-liquid"}
    base = replace(BASE, prices=replace(BASE.prices, system_usd=prices))
    found = effects(base, ANSWER.plan, CATALOG, only=("cooling",))
    assert any("no price of hgx-h100-liquid" in why for _, why in found.refused)
