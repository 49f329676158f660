"""Constants from runs: known ones are found again, silent ones stay, and what is written can be read."""

import dataclasses
import json

import numpy as np
import pytest
import tomli_w
from typer.testing import CliRunner

from clusterplan import calibrate, report
from clusterplan.catalog import Catalog, check, measured_files
from clusterplan.cli import app
from clusterplan.hardware import Accelerator, Stack
from clusterplan.measured import read_measured


@pytest.fixture(scope="module")
def catalog():
    return Catalog()


@pytest.fixture(scope="module")
def rows(catalog):
    """Runs of one software on one device: Korthikanti et al. and others of Megatron-LM."""
    files = [file for file in measured_files() if file.name in {"vtrain.csv", "megatron-papers.csv"}]
    found = calibrate.usable(catalog, [row for file in files for row in read_measured(file)])
    return [used for used in found if (Stack, "megatron-deepspeed") in used.profiles][::4]


def test_there_are_rows(rows):
    assert len(rows) >= 10


def made_up(catalog, rows, **changes):
    """The same runs with the times that the program itself predicts with other constants."""
    constants = calibrate.constants_of(catalog, rows)
    moved = np.array([changes.get(c.field, 0.0) for c in constants])
    groups = calibrate.batches(catalog, rows)
    logs = calibrate.log_errors(catalog, constants, moved, rows, groups)
    return [dataclasses.replace(u, measured_s=u.measured_s * float(np.exp(e))) for u, e in zip(rows, logs, strict=True)]


def test_a_constant_is_found_again(catalog, rows):
    changed = made_up(catalog, rows, vector_traffic=3.0)
    fitted = calibrate.fit(catalog, changed, rounds=6)
    before, after = calibrate.fit_errors(catalog, fitted)
    assert before.median > 0.05
    assert after.median < 0.02
    by_field = {c.field: m for c, m in zip(fitted.constants, fitted.moved, strict=True)}
    assert by_field["vector_traffic"] > 1.0  # a part may be laid to the products, which act alike
    certainty = {c.field: left for c, left in zip(fitted.constants, fitted.certainty, strict=True)}
    assert certainty["vector_traffic"] < calibrate.DETERMINED


def test_constants_that_rows_do_not_tell_stay(catalog, rows):
    fitted = calibrate.fit(catalog, made_up(catalog, rows, in_training_efficiency=-1.0), rounds=4)
    silent = [
        (moved, left)
        for constant, moved, left in zip(fitted.constants, fitted.moved, fitted.certainty, strict=True)
        if constant.field == "permutation_traffic"  # no experts in these models
    ]
    assert silent
    for moved, left in silent:
        assert abs(moved) < 0.01
        assert left > 0.99


def test_rows_predicted_together_are_predicted_alone(catalog, rows):
    constants = calibrate.constants_of(catalog, rows)
    none = np.zeros(len(constants))
    together = calibrate.log_errors(catalog, constants, none, rows, calibrate.batches(catalog, rows))
    judge = calibrate.Judge(catalog)
    alone = [np.log(judge.row(used.row).predicted_step_s / used.measured_s) for used in rows]
    np.testing.assert_allclose(together, alone, rtol=1e-9, atol=1e-12)


def test_shares_stay_shares():
    share = calibrate.Constant(
        record=Stack,
        profile="x",
        field="tp_hidden_fraction",
        start=0.9,
        free=calibrate.STACK_FREE["tp_hidden_fraction"],
    )
    assert 0 < share.value(-4) < 0.9 < share.value(4) < 1
    best = calibrate.Constant(
        record=Accelerator, profile="x", field="in_training_efficiency", start=0.97,
        free=calibrate.DEVICE_FREE["in_training_efficiency"],
    )  # fmt: skip
    assert best.value(4) == 1.0


def test_written_profiles_can_be_read(catalog, rows, tmp_path):
    fitted = calibrate.fit(catalog, rows, rounds=2)
    contents = calibrate.profiles(catalog, fitted, "-mine", "clusterplan calibrate of a test")
    files = calibrate.write(contents, tmp_path, force=False)
    assert len(files) == len(contents) >= 2
    for file in tmp_path.rglob("*.toml"):
        assert check(file) == []
    mine = Catalog([tmp_path])
    stack = mine.load(Stack, "megatron-deepspeed-mine")
    value = dict(zip([c.label for c in fitted.constants], fitted.values, strict=True))
    assert float(stack.vector_traffic) == pytest.approx(value["stacks/megatron-deepspeed: vector_traffic"], rel=1e-6)
    assert stack.vector_traffic.origin.kind == "fitted"
    assert tomli_w.dumps(next(iter(contents.values())))


def test_command(tmp_path):
    source = next(file for file in measured_files() if file.name == "megatron-papers.csv")
    lines = source.read_text(encoding="utf-8").splitlines()
    few = tmp_path / "runs.csv"
    few.write_text("\n".join(lines[:9]) + "\n", encoding="utf-8")
    result = CliRunner().invoke(app, ["calibrate", str(few), "--into", str(tmp_path / "own"), "--json"])
    assert result.exit_code == 0, result.stderr
    document = json.loads(result.stdout)
    assert document["schema"] == "clusterplan/calibration-1"
    assert document["rows"] >= 5
    assert document["after"]["rows"] == document["before"]["rows"] == document["rows"]
    assert document["constants"]
    # eight runs settle the level of their software and nothing else
    assert all(one["constant"].endswith(": kernel_share") for one in document["constants"] if one["determined"])
    assert document["held_out_after"]["rows"] >= 1
    assert document["written"]
    again = CliRunner().invoke(app, ["calibrate", str(few), "--into", str(tmp_path / "own")])
    assert again.exit_code == 1  # nothing is overwritten without --force
    text = report.render(document)
    assert "to plan with them: --profiles" in text
    far = document | {"constants": [one | {"moved_standard_deviations": -4.0} for one in document["constants"][:1]]}
    assert "Moved far" not in report.render(
        far | {"constants": [far["constants"][0] | {"moved_standard_deviations": 2}]}
    )
    assert "Moved far" in report.render(far)


def test_nothing_to_fit(tmp_path):
    empty = tmp_path / "runs.csv"
    empty.write_text("id,source,accelerator\na,b,H100-SXM-80GB\n", encoding="utf-8")
    result = CliRunner().invoke(app, ["calibrate", str(empty)])
    assert result.exit_code == 1
    assert "no row has a measured time" in result.stderr
    assert result.stdout == ""


# Level ----------------------------------------------------------------------------------------------------------------


def test_a_level_is_found_again(catalog, rows):
    """Runs that are as long as predicted with another level give that level."""
    constants = calibrate.levelled(catalog)
    true = calibrate.Level(products=1.2, vectors=1.3, products_of={})
    groups = calibrate.batches(catalog, rows)
    logs = calibrate.log_errors(catalog, constants, calibrate.level_moves(constants, true), rows, groups)
    made = [
        dataclasses.replace(used, measured_s=used.measured_s * float(np.exp(log)))
        for used, log in zip(rows, logs, strict=True)
    ]
    found = calibrate.fit_level(catalog, made)
    assert found.products == pytest.approx(1.2, rel=0.03)
    for factor in found.products_of.values():
        assert factor == pytest.approx(1.2, rel=0.03)


def test_software_with_few_runs_has_the_common_level(catalog, rows):
    few = [used for used in rows if used.profiles == rows[0].profiles][: calibrate.OWN_ROWS - 1]
    assert calibrate.fit_level(catalog, few).products_of == {}


def test_one_code_has_one_level(catalog):
    level = calibrate.Level(products=1.1, vectors=1.0, products_of=dict.fromkeys(("nemo", "megatron-core"), 1.05))
    values = {c.profile: level.value(c) for c in calibrate.levelled(catalog) if c.field == "kernel_share"}
    assert values["nemo"] == values["megatron-core"] == pytest.approx(1 / 1.05)
    assert values["nanotron"] == pytest.approx(1 / 1.1)


def test_waits_of_layers_with_experts_are_found_again(catalog):
    """Runs of mixtures of experts that are as long as predicted with longer waits give those waits."""
    (file,) = [file for file in measured_files() if file.name == "dgxc-benchmarking.csv"]
    mixtures = calibrate.usable(catalog, [row for row in read_measured(file) if row.family == "moe"])
    dense = calibrate.usable(catalog, [row for row in read_measured(file) if row.family == "dense"][:4])
    constants = calibrate.levelled(catalog)
    level = calibrate.Level(products=1.05, vectors=1.0, products_of={}, stall_s=5e-3)
    made = []
    for used in (*dense, *mixtures):
        groups = calibrate.batches(catalog, [used])
        (log,) = calibrate.log_errors(catalog, constants, calibrate.level_moves(constants, level), [used], groups)
        made.append(dataclasses.replace(used, measured_s=used.measured_s * float(np.exp(log))))
    assert calibrate.fit_level(catalog, made).stall_s == pytest.approx(5e-3, rel=0.25)
    assert calibrate.fit_level(catalog, made[: len(dense)]).stall_s == calibrate.STALL_S
