"""Sweeps: each point is the answer to its own question; what more devices bring is read off the points."""

import csv
import io
import json

import numpy as np
import pytest
from numpy.testing import assert_allclose
from typer.testing import CliRunner

from clusterplan import choose, report, search, shapes
from clusterplan.cli import app
from clusterplan.errors import ClusterplanError
from clusterplan.scenario import Scenario, override, resolve
from clusterplan.sweep import Axis, read_axis, scaling, sweep
from examples import CATALOG

RUNNER = CliRunner()
SMALL = {"model": "llama-3.1-8b", "hardware": "dgx-h100", "tokens": "1T"}


def resolved(**given):
    asked = override(Scenario(), {**SMALL, **given})
    return resolve(asked, CATALOG, lambda model: shapes.parameters(model).active)


def run(*arguments):
    return RUNNER.invoke(app, list(arguments), prog_name="clusterplan")


DEVICES = read_axis("devices=64:1024", 5, 8)
OVER_DEVICES = sweep(resolved(), CATALOG, [DEVICES])
SCALED = scaling([DEVICES], OVER_DEVICES)


def test_values_of_an_axis():
    assert DEVICES.values == ("64", "128", "256", "512", "1024")
    assert read_axis("devices=100:200", 3, 8).values == ("96", "144", "200")
    assert read_axis("site.usd_per_kwh=0.05:0.2", 4, 8).values == ("0.05", "0.1", "0.15", "0.2")
    assert read_axis("deadline=60d:120d", 3, 8).values == ("60d", "90d", "120d")
    assert read_axis("deadline=60:120d", 3, 8).values == ("60d", "90d", "120d")
    assert read_axis("--seq-len=4096,8192", 9, 8) == Axis(key="seq_len", values=("4096", "8192"))
    assert read_axis("site=no-narvik,us-virginia", 9, 8).values == ("no-narvik", "us-virginia")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("devices", "KEY=A:B"),
        ("devices=", "KEY=A:B"),
        ("tokens=1T,1T", "twice"),
        ("deadline=60d:90h", "two units"),
        ("site=a:b", "range A:B of numbers"),
    ],
)
def test_what_is_no_axis(text, told):
    with pytest.raises(ClusterplanError, match=told):
        read_axis(text, 4, 8)


def test_too_many_points_are_refused_before_they_are_made():
    with pytest.raises(ClusterplanError, match="is 1,000,000,000; at most 1,000") as problem:
        read_axis("devices=8:16", 10**9, 8)
    assert problem.value.where == "--points"


def test_the_heading_has_nothing_that_varies():
    asked = ("llama-3.1-8b", "--hardware", "dgx-h100", "--tokens", "1T", "--devices", "256")
    told = run("sweep", *asked, "--deadline", "30d", "--over", "deadline=60d,90d", "--over", "site=no-narvik").stdout
    heading = told.split("Over ")[0]
    assert "30 days" not in heading
    assert "site varies" in heading
    assert "site us-virginia" not in heading


def test_a_point_is_the_answer_to_its_question():
    for point in OVER_DEVICES:
        alone = search.size(resolved(devices=point.values[0]))
        assert point.answer.document()["plan"] == alone.document()["plan"]
        assert point.answer.plan.run.fleet.devices[0] == int(point.values[0])


def test_figures_of_profiles_and_demands_together():
    axes = [read_axis("site.usd_per_kwh=0.05,0.5", 2, 8), read_axis("deadline=30d,90d", 2, 8)]
    points = sweep(resolved(), CATALOG, axes)
    assert [point.values for point in points] == [("0.05", "30d"), ("0.05", "90d"), ("0.5", "30d"), ("0.5", "90d")]
    cost = [float(point.answer.plan.run.cost.total_usd[0]) for point in points]
    assert cost[2] > cost[0]
    assert cost[3] > cost[1]


def test_scaling_is_speed_for_each_device():
    assert SCALED.efficiency[0] == 1
    assert np.all(SCALED.efficiency < 1.1)  # a tie may go to a plan with more free memory, which is a little slower
    plans = [point.answer.plan for point in SCALED.points]
    speed = [float((1 / p.run.progress.wall_s / p.run.fleet.devices)[0]) for p in plans]
    assert_allclose(SCALED.efficiency, np.array(speed) / speed[0])


def test_front_and_knee():
    plans = [point.answer.plan for point in SCALED.points]
    wall = [float(p.run.progress.wall_s[0]) for p in plans]
    cost = [float(p.run.cost.total_usd[0]) for p in plans]
    for n in range(len(plans)):
        beaten = any(wall[m] < wall[n] and cost[m] < cost[n] for m in range(len(plans)))
        assert SCALED.on_front[n] != beaten
    assert SCALED.on_front[SCALED.knee]
    assert SCALED.knee == choose.knee(np.array(wall), np.array(cost), np.arange(len(wall)))


def test_other_sweeps_do_not_scale():
    axis = read_axis("deadline=30d,90d", 2, 8)
    assert scaling([axis], sweep(resolved(), CATALOG, [axis])) is None
    assert scaling([DEVICES], OVER_DEVICES[:1]) is None


def test_points_without_a_plan_say_why():
    axis = read_axis("budget=1,100M", 2, 8)
    points = sweep(resolved(), CATALOG, [axis])
    document = report.sweep_document({}, [axis], points, None)
    assert [row["feasible"] for row in document["points"]] == [False, True]
    assert "budget" in document["points"][0]["why"]


def test_mistakes_in_any_point_are_told_before_a_search():
    seen = []
    with pytest.raises(ClusterplanError, match=r"no figure|unknown key|names no"):
        sweep(resolved(), CATALOG, [Axis(key="site.usd", values=("1",))], lambda *told: seen.append(told))
    assert not seen
    for axes in ([], [DEVICES] * 2, [DEVICES] * 3):
        with pytest.raises(ClusterplanError, match="--over"):
            sweep(resolved(), CATALOG, axes)


def test_progress_is_told():
    seen = []
    sweep(resolved(), CATALOG, [read_axis("devices=64,128", 2, 8)], lambda share, text: seen.append((share, text)))
    assert seen == [(0.0, "devices 64"), (0.5, "devices 128")]


COMMAND = [
    "sweep",
    "llama-3.1-8b",
    "--hardware",
    "dgx-h100",
    "--tokens",
    "1T",
    "--over",
    "devices=64:512",
    "--points",
    "4",
]


def test_command_in_all_forms():
    table = run(*COMMAND)
    assert table.exit_code == 0, table.stderr
    assert all(len(line) <= 80 for line in table.stdout.splitlines())
    assert "**" in table.stdout
    document = json.loads(run(*COMMAND, "--json").stdout)
    assert [row["over"]["devices"] for row in document["points"]] == ["64", "128", "256", "512"]
    assert document["scaling"]["knee_devices"] in [row["devices"] for row in document["points"]]
    lines = run(*COMMAND, "--format", "jsonl").stdout.splitlines()
    assert [json.loads(line) for line in lines] == document["points"]
    rows = list(csv.DictReader(io.StringIO(run(*COMMAND, "--format", "csv").stdout)))
    assert [float(row["total_usd"]) for row in rows] == [row["total_usd"] for row in document["points"]]
    assert [row["over.devices"] for row in rows] == ["64", "128", "256", "512"]


def test_exit_codes():
    base = ["sweep", "llama-3.1-8b", "--hardware", "dgx-h100", "--tokens", "1T"]
    assert run(*base).exit_code == 2
    assert run(*base, "--over", "budget=1,2").exit_code == 3
    assert run(*base, "--over", "devices=64:32").exit_code == 1
    unknown = run(*base, "--over", "nothing=1,2")
    assert unknown.exit_code == 1
    assert unknown.stderr == "clusterplan: --over, --nothing: unknown key\n"


# Without a price ------------------------------------------------------------------------------------------------------


def test_without_a_price_more_devices_have_no_front():
    axis = read_axis("devices=64,128", 2, 8)
    question = resolved(hardware="grand-teton-h100-500w")
    points = sweep(question, CATALOG, [axis])
    assert all(point.answer.feasible for point in points)
    scaled = scaling([axis], points)
    assert (scaled.on_front, scaled.knee) == (None, None)
    assert scaled.efficiency[0] == 1
    document = report.sweep_document({**points[0].answer.document()["inputs"]}, [axis], points, scaled)
    assert document["scaling"]["knee_devices"] is None
    assert {(one["total_usd"], one["energy_usd"]) for one in document["points"]} == {(None, None)}
    text = report.render(document)
    assert "Scaling: speed" in text
    assert "no other is faster" not in text
    assert text.count("gives one") == 1
    assert "cost" not in text.partition("Over devices")[2].partition("No cost")[0]


def test_a_sweep_over_prices_keeps_the_points_that_have_none():
    axis = read_axis("prices.basis=own,rent", 2, 8)
    question = resolved(deadline="30d", hardware="cloudmatrix-384")
    own, rent = sweep(question, CATALOG, [axis])
    assert own.answer.feasible
    assert not rent.answer.feasible
    document = report.sweep_document({**own.answer.document()["inputs"]}, [axis], (own, rent), None)
    assert "no rent of cloudmatrix-384" in document["points"][1]["why"]
    with pytest.raises(ClusterplanError, match="no rent of cloudmatrix-384"):
        sweep(question, CATALOG, [read_axis("prices.basis=rent", 1, 8)])
