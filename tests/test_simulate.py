"""Simulated runs: against closed forms for independent failures, limits by head, and what the command says."""

import json
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from typer.testing import CliRunner

from clusterplan import simulate
from clusterplan.cli import app
from clusterplan.errors import ClusterplanError
from clusterplan.formulas.checkpoints import checkpoint_interval_s
from clusterplan.formulas.finish import wall_standard_deviation_s
from clusterplan.formulas.goodput import (
    asynchronous_useful_fraction,
    kept_fraction,
    predicted_useful_fraction,
    replica_tolerant_useful_fraction,
    two_level_useful_fraction,
    uncorrupted_fraction,
)
from clusterplan.simulate import Process, parse_shape, simulated

DAY_S = 86400.0
STEADY = Process(
    training_s=1e6,
    interval_s=600.0,
    stall_s=10.0,
    restore_s=120.0,
    found_s=200.0,
    started_s=100.0,
    mtbf_s=10_000.0,
)


def drawn(process, runs=1000, seed=1):
    return simulated(process, runs, np.random.default_rng(seed))


def closed_form(process):
    down = process.found_s + process.started_s
    return asynchronous_useful_fraction(
        process.interval_s, process.stall_s, process.persist_s, process.restore_s, down, process.mtbf_s
    )


# Node rate of Llama 3, arXiv:2407.21783, table 5: 3.79 per 1,000 node-days
@pytest.mark.parametrize("devices", [1024, 8192, 65536, 262144, 1048576])
@pytest.mark.parametrize("persist", [0.0, 60.0], ids=["blocking", "asynchronous"])
def test_independent_failures_give_the_closed_form(devices, persist):
    mtbf = 1000 / 3.79 * DAY_S / (devices / 8)
    process = replace(
        STEADY,
        stall_s=1.0,
        persist_s=persist,
        interval_s=max(float(checkpoint_interval_s(1.0, mtbf)), persist),
        restore_s=20.0,
        found_s=20.0,
        started_s=20.0,
        mtbf_s=mtbf,
    )
    walls = drawn(process, runs=400).wall_s
    goodput = process.training_s / walls.mean()
    error = goodput * walls.std() / walls.mean() / 400**0.5
    assert error <= 0.001
    assert_allclose(goodput, closed_form(process), atol=0.004, rtol=0)
    assert abs(goodput - closed_form(process)) < 4 * error + 5e-4


def test_spread_is_that_of_the_closed_form():
    walls = drawn(STEADY, runs=4000).wall_s
    spread = wall_standard_deviation_s(1e6, 600, 10, 120, 300, 10_000)
    assert_allclose(walls.std(), spread, rtol=0.05)


def test_nothing_fails():
    runs = drawn(replace(STEADY, mtbf_s=np.inf, training_s=6000.0), runs=3)
    assert_array_equal(runs.wall_s, np.full(3, 6000.0 + 9 * 10.0))  # no checkpoint at the end
    assert_array_equal(runs.interruptions, np.zeros(3))


def test_the_same_seed_gives_the_same_runs():
    first, again, other = (drawn(STEADY, runs=50, seed=seed).wall_s for seed in (3, 3, 4))
    assert_array_equal(first, again)
    assert np.all(first != other)


def test_bursts_keep_the_mean_time_between_failures():
    runs = drawn(replace(STEADY, shape=0.6), runs=500)
    up = runs.wall_s - runs.interruptions * 300
    assert_allclose(up.mean() / runs.interruptions.mean(), 10_000, rtol=0.03)


def test_no_spare_waits_for_every_repair():
    runs = drawn(replace(STEADY, spare_nodes=0, repair_s=5000.0), runs=100)
    assert_allclose(runs.waiting_s, runs.interruptions * 4800)  # the repair begins with the failure


# Another simulation, made before this program: Weibull times between failures whose law begins anew at each failure,
# mean 11,132 s; checkpoint of 60 s every 1,116 s, restore 120 s, down 300 s; standard errors as given
@pytest.mark.parametrize(
    ("shape", "useful", "error"), [(0.5, 0.8758, 9e-4), (0.7, 0.8697, 7e-4), (1.0, 0.8674, 5e-4), (1.5, 0.8655, 3e-4)]
)
def test_weibull_table(shape, useful, error):
    process = Process(
        training_s=2e6,
        interval_s=1116.0,
        stall_s=60.0,
        restore_s=120.0,
        found_s=200.0,
        started_s=100.0,
        mtbf_s=11_132.0,
        shape=shape,
    )
    walls = drawn(process).wall_s
    assert_allclose(2e6 / walls.mean(), useful, atol=4 * error, rtol=0)
    if shape == 1:
        assert_allclose(2e6 / walls.mean(), closed_form(process), atol=5e-4)


def goodput(process, runs=400):
    return process.training_s / drawn(process, runs=runs).wall_s.mean()


def test_copies_in_memory_follow_the_two_level_form():
    process = replace(
        STEADY,
        interval_s=120.0,
        stall_s=2.0,
        restore_s=20.0,
        found_s=60.0,
        started_s=60.0,
        mtbf_s=1 / (1 / 4000 + 1 / 40000),
        segments=10,
        storage_stall_s=60.0,
        storage_restore_s=180.0,
        lost_fraction=(1 / 40000) / (1 / 4000 + 1 / 40000),
    )
    useful = two_level_useful_fraction(120, 10, 2, 60, 20, 180, 120, 4000, 40000)
    assert_allclose(goodput(process), useful, atol=0.002)
    assert_allclose(useful, 0.8699, atol=1e-4)  # the row of the published-form table in tests/formulas


def test_foreseen_failures_follow_their_form():
    process = replace(
        STEADY,
        interval_s=1635.0,
        stall_s=60.0,
        mtbf_s=11_132.0,
        foreseen_fraction=0.5,
        false_alarms=0.5 * (1 - 0.8) / 0.8,
        proactive_s=60.0,
    )
    # by simulation; proactive checkpoints of foreseen failures are inside the 0.4 points
    assert_allclose(goodput(process), 0.8933, atol=0.004)
    useful = predicted_useful_fraction(1635, 60, 60, 120, 300, 11_132, 0.5, 0.8)
    assert_allclose(goodput(process), useful, atol=0.004)


def test_replicas_that_go_on_follow_their_form():
    process = replace(STEADY, beside_fraction=1.0, beside_s=500.0, interval_s=6000.0)
    assert_allclose(goodput(process), replica_tolerant_useful_fraction(6000, 10, 500, 10_000), atol=0.002)


def test_silent_corruption_follows_its_form():
    process = replace(STEADY, silent_fraction=0.1, silent_undone_s=10_000.0 * kept_fraction(610, 10_000))
    spoiled = uncorrupted_fraction(0.1, 10_000, 10_000)
    assert_allclose(goodput(process), closed_form(process) * spoiled, atol=0.01)


def test_domains_and_planned_stops_follow_their_forms():
    domains = replace(STEADY, domain_fraction=0.1, domain_outage_s=5000.0)
    longer = replace(STEADY, found_s=STEADY.found_s + 500.0)
    assert_allclose(goodput(domains, 2000), closed_form(longer), atol=0.002)
    stops = replace(STEADY, stop_s=1000.0, between_stops_s=9000.0)
    assert_allclose(goodput(stops), 0.9 * closed_form(STEADY), atol=0.002)


def test_machines_fresh_from_the_factory_fail_more_often():
    fresh = drawn(replace(STEADY, early_factor=3.0, early_s=1e5))
    # (b - 1) tau further failures, of time at work, once the burn-in is over
    expected = drawn(STEADY).interruptions.mean() + 2 * 1e5 / 10_000
    assert_allclose(fresh.interruptions.mean(), expected, rtol=0.05)


def test_more_failures_never_help():
    walls = [drawn(replace(STEADY, mtbf_s=m), runs=300).wall_s.mean() for m in (1e6, 1e5, 1e4, 3e3)]
    assert walls == sorted(walls)


def test_runs_without_end_are_an_error(monkeypatch):
    monkeypatch.setattr(simulate, "MOST_ROUNDS", 100)
    with pytest.raises(ClusterplanError, match="have not ended after 100 failures"):
        drawn(replace(STEADY, mtbf_s=10.0), runs=3)


def test_batches_change_no_law(monkeypatch):
    process = replace(STEADY, spare_nodes=10, repair_s=DAY_S)
    whole = drawn(process).wall_s
    monkeypatch.setattr(simulate, "AT_ONCE", 1000)
    told = []
    parts = simulated(process, 1000, np.random.default_rng(1), lambda share, _: told.append(share)).wall_s
    assert_allclose(parts.mean(), whole.mean(), rtol=0.01)
    assert told == sorted(told)
    assert told[-1] == 1


def test_many_spares_never_wait():
    lonely = drawn(replace(STEADY, spare_nodes=1000, repair_s=DAY_S), runs=100)
    assert_array_equal(lonely.waiting_s, np.zeros(100))
    assert_array_equal(lonely.wall_s, drawn(STEADY, runs=100).wall_s)


def test_a_job_that_shrinks_waits_less():
    waiting = replace(STEADY, spare_nodes=1, repair_s=DAY_S)
    shrinking = replace(waiting, waiting_loss_fraction=1 / 64)
    assert drawn(shrinking).wall_s.mean() < drawn(waiting).wall_s.mean()
    # with hardly any spare in service the rest of the replicas still works nearly all of the time
    assert goodput(shrinking) > 0.5 * goodput(STEADY) > 2 * goodput(waiting)


# Erlang's loss formula, whatever the law of the repair time: with s spares the job waits while s + 1 nodes are in
# repair. Offered load: failures a second of time not waited, times the repair.
def test_waiting_follows_erlang():
    process = replace(STEADY, training_s=2e7, spare_nodes=3, repair_s=20_000.0, found_s=0.0, started_s=0.0)
    runs = drawn(process, runs=200)
    load = 20_000 / 10_000
    terms = np.cumprod(np.concatenate([[1.0], load / np.arange(1, 5)]))
    assert_allclose(runs.waiting_s.sum() / runs.wall_s.sum(), terms[-1] / terms.sum(), rtol=0.05)


def test_more_spares_never_wait_longer():
    waits = [drawn(replace(STEADY, spare_nodes=n, repair_s=DAY_S), runs=200).waiting_s.mean() for n in (0, 1, 4, 12)]
    assert waits == sorted(waits, reverse=True)


@pytest.mark.parametrize("text", ["0", "9", "nan", "inf", "one", ""])
def test_shapes_that_are_not_taken(text):
    with pytest.raises(ClusterplanError, match=r"from 0\.2 to 5"):
        parse_shape(text)


# --- Command ----------------------------------------------------------------------------------------------------

LAYOUT = "--tp 8 --pp 16 --vpp 8 --micro-batch 1 --global-batch 2048"
QUESTION = "--hardware dgx-h100 --devices 16384 --tokens 15.6T --deadline 75d"
ESTIMATE = ["estimate", "llama-3.1-405b", *QUESTION.split(), *LAYOUT.split()]


def invoked(*more):
    return CliRunner().invoke(app, [*ESTIMATE, *more], prog_name="clusterplan")


def test_command_simulates():
    result = invoked("--simulate", "--runs", "200", "--seed", "7", "--json")
    assert result.exit_code == 0
    plan = json.loads(result.stdout)["plan"]
    told = plan["simulation"]
    assert (told["runs"], told["seed"], told["failure_shape"]) == (200, 7, 1.0)
    assert_allclose(told["goodput_fraction"], plan["run"]["goodput_fraction"], atol=0.01)
    assert_allclose(told["difference_fraction"], told["goodput_fraction"] - plan["run"]["goodput_fraction"])
    assert told["p50_s"] < told["p90_s"] < told["p99_s"]
    assert invoked("--simulate", "--runs", "200", "--seed", "7", "--json").stdout == result.stdout


@pytest.mark.parametrize(
    "change",
    [
        "recovery=storage", "recovery=memory", "recovery=replica", "foreseen_fraction=0.5", "slow_node_fraction=0.1",
        "asynchronous_checkpoint=false", "planned_stop_min=60", "repeated_fraction=0.1",
    ],
)  # fmt: skip
def test_each_technique_follows_its_closed_form(change):
    agrees_with_its_closed_form("--set", f"operations.{change}")


@pytest.mark.parametrize("slow", [0, 0.1])
def test_evaluations_follow_their_closed_form(slow):
    agrees_with_its_closed_form("--eval-fraction", "5%", "--set", f"operations.slow_node_fraction={slow}")


def agrees_with_its_closed_form(*asked):
    told = json.loads(invoked("--simulate", "--runs", "200", *asked, "--json").stdout)["plan"]["simulation"]
    assert told["goodput_standard_error_fraction"] < 0.001
    assert abs(told["difference_fraction"]) < 0.004, told


def test_techniques_are_worth_something():
    plan = json.loads(invoked("--simulate", "--runs", "20", "--json").stdout)["plan"]
    worth = {one["technique"]: one for one in plan["techniques"]}
    assert worth["other replicas go on"]["saved_s"] > worth["restarts in half the time"]["saved_s"] > 0
    assert worth["blocking checkpoints"]["saved_s"] < 0
    for one in worth.values():
        assert_allclose(one["wall_s"], plan["run"]["wall_s"] - one["saved_s"])
        changed = json.loads(invoked(*(f"--set={pair}" for pair in one["change"].split()), "--json").stdout)["plan"]
        assert_allclose(changed["run"]["wall_s"], one["wall_s"], rtol=1e-4)


def test_a_job_that_makes_no_progress_is_infeasible_and_says_what_would_let_it():
    result = invoked("--set", "accelerator.failures_per_device_year=20", "--simulate", "--json")
    assert result.exit_code == 3
    document = json.loads(result.stdout)
    assert not document["feasible"]
    whole, *levers = document["blocking"]
    assert (whole["constraint"], whole["required"]) == ("goodput", 0.05)
    assert whole["best"] < 0.05
    assert {one["constraint"] for one in levers} >= {"time between failures", "time of a restart"}
    assert any("not simulated" in text for text in document["warnings"])
    assert "simulation" not in document["plan"]
    between = next(one for one in levers if one["constraint"] == "time between failures")
    enough = 20 * between["best"] / between["required"]  # the host's share is small
    eased = invoked("--set", f"accelerator.failures_per_device_year={0.98 * enough}", "--json")
    assert eased.exit_code == 0
    text = invoked("--set", "accelerator.failures_per_device_year=20").stdout
    assert "Makes no progress" in text


def test_report_shows_simulated_runs():
    text = invoked("--simulate", "--runs", "50").stdout
    assert "Simulated\n  runs      50 with seed 1; failures at random\n" in text
    assert "Simulated" not in invoked().stdout


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--runs", "100"], 2, "--simulate"),
        (["--simulate", "--runs", "1e9"], 1, "--runs: is more than 1,000,000"),
        (["--simulate", "--seed", "-1"], 1, "--seed: must be a whole number"),
        (["--simulate", "--failure-shape", "0.01"], 1, "--failure-shape: must be a number from 0.2 to 5"),
    ],
)
def test_options_that_cannot_be(options, code, message):
    result = invoked(*options)
    assert result.exit_code == code
    assert message in result.stderr
