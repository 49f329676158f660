"""Simulated runs: against closed forms for independent failures, limits by head, and what the command says."""

import json
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from typer.testing import CliRunner

from clusterplan.cli import app
from clusterplan.errors import ClusterplanError
from clusterplan.formulas.reliability import (
    asynchronous_useful_fraction,
    checkpoint_interval_s,
    wall_standard_deviation_s,
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


def test_many_spares_never_wait():
    lonely = drawn(replace(STEADY, spare_nodes=1000, repair_s=DAY_S), runs=100)
    assert_array_equal(lonely.waiting_s, np.zeros(100))
    assert_array_equal(lonely.wall_s, drawn(STEADY, runs=100).wall_s)


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
