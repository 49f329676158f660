"""When the run ends: closed forms beside simulated runs, limits."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from clusterplan.formulas.checkpoints import checkpoint_interval_s
from clusterplan.formulas.finish import (
    deadline_probability,
    expected_wall_s,
    finish_quantile_s,
    finish_standard_deviation_s,
    goodput_fraction,
    ideal_s,
    lengthened_ideal_s,
    lengthened_steps,
    mean_part_s,
    rare_loss_standard_deviation_s,
    standard_error_fraction,
    steps,
    training_s,
    wall_standard_deviation_s,
)
from clusterplan.formulas.goodput import asynchronous_useful_fraction, useful_fraction
from clusterplan.formulas.reliability import expected_interruptions, job_mtbf_s

DAY_S = 86400.0
DEVICES = np.array([1024, 8192, 16384, 65536, 131072, 262144, 1048576])
MTBF = np.concatenate([[np.inf], np.geomspace(1e9, 1e-3, 60)])  # worse and worse


def fleet_mtbf_s(devices, failures_per_1000_node_days):
    return job_mtbf_s(devices, 0, np.asarray(devices) / 8, failures_per_1000_node_days / 1000 / DAY_S)


# Length of the run ----------------------------------------------------------------------------------------------------


def simulated_walls_s(segments, period, persist, restore, down, mtbf, runs=10_000, seed=20240611):
    """Lengths of whole runs: failures drawn one by one, checkpoints reliable ``persist`` after each period's end."""
    draw = np.random.default_rng(seed)
    wall, done = np.zeros(runs), np.zeros(runs)
    working = np.arange(runs)
    while working.size:
        failure = draw.exponential(mtbf, working.size)
        needed = (segments - done[working]) * period + persist
        finished = failure >= needed
        wall[working] += np.minimum(failure, needed)
        working, failure = working[~finished], failure[~finished]
        done[working] += np.maximum(0, np.floor((failure - persist) / period))
        restoring = working
        while restoring.size:
            failure = draw.exponential(mtbf, restoring.size)
            wall[restoring] += down + np.minimum(failure, restore)
            restoring = restoring[failure < restore]
    return wall


@pytest.mark.parametrize("persist", [0, 60], ids=["blocking", "asynchronous"])
@pytest.mark.parametrize("devices", DEVICES[[0, 2, 4, 6]])
def test_simulated_runs(devices, persist):
    stall, restore, down, segments = 10, 60, 90, 300
    mtbf = fleet_mtbf_s(devices, 3.79)
    interval = checkpoint_interval_s(stall, mtbf)
    walls = simulated_walls_s(segments, interval + stall, persist, restore, down, mtbf)

    ideal = segments * interval
    wall = expected_wall_s(ideal, asynchronous_useful_fraction(interval, stall, persist, restore, down, mtbf))
    spread = wall_standard_deviation_s(ideal, interval, stall, restore + persist, down, mtbf)
    assert_allclose(walls.mean(), wall, rtol=0.005)
    assert_allclose(walls.std(), spread, rtol=0.05)

    deadlines = wall + spread * np.array([-1.5, -0.5, 0.5, 1.5, 2.5])
    on_time = (walls[:, None] <= deadlines).mean(axis=0)
    # Loosest at 1,024 devices, where three failures are expected and their number shows through.
    assert_allclose(deadline_probability(deadlines, wall, spread), on_time, atol=0.05)


def test_simulated_hopeless_segments_take_a_gamma_time():
    # A segment that succeeds once in e^4 attempts: five of them, nothing like a normal law.
    walls = simulated_walls_s(5, 400, 0, 20, 30, 100, runs=20_000)
    wall = expected_wall_s(5 * 390, useful_fraction(390, 10, 20, 30, 100))
    spread = wall_standard_deviation_s(5 * 390, 390, 10, 20, 30, 100)
    assert_allclose([walls.mean(), walls.std()], [wall, spread], rtol=0.02)
    assert_allclose(
        finish_quantile_s([0.05, 0.5, 0.95], wall, spread), np.quantile(walls, [0.05, 0.5, 0.95]), rtol=0.03
    )


def test_simulated_interruptions_are_counted_without_the_time_down():
    wall = expected_wall_s(1e6, useful_fraction(600, 30, 0, 900, 3600))
    # 1e6 / 600 segments, e^{P/M} - 1 failures in each
    assert_allclose(expected_interruptions(wall, 3600, 900), 1e6 / 600 * np.expm1(630 / 3600))


def test_run_without_failures_has_no_spread():
    assert wall_standard_deviation_s(1e7, 600, 30, 120, 300, np.inf) == 0


def test_spread_of_certain_failure_after_certain_work():
    # Period far beyond the MTBF: the number of attempts is geometric, so mean and spread of the one segment agree.
    wall = expected_wall_s(1000, useful_fraction(1000, 0, 0, 0, 50))
    assert_allclose(wall_standard_deviation_s(1000, 1000, 0, 0, 0, 50), wall, rtol=1e-3)


def test_series_of_a_short_period_joins_the_closed_form():
    spread = wall_standard_deviation_s(1e7, 100, 0, 100, 0, np.array([9999.999, 10000.001]))
    assert_allclose(spread[0], spread[1], rtol=1e-6)


def test_relative_spread_falls_with_the_root_of_the_length():
    short, long = wall_standard_deviation_s([1e6, 1e8], 600, 30, 120, 300, 3600)
    assert_allclose(long / short, 10)


def test_spread_is_finite_and_grows_with_failures():
    spread = wall_standard_deviation_s(1e7, 600, 30, 120, 300, MTBF[:50])
    assert np.all(np.isfinite(spread))
    assert np.all(np.diff(spread) >= 0)
    assert np.all(np.diff(spread[:30]) > 0)


def test_rare_losses_agree_with_the_exact_spread():
    # Half a period and the outage per failure, the former spread evenly.
    exact = wall_standard_deviation_s(1e8, 600, 10, 60, 300, 1e6)
    count = expected_interruptions(1e8 / useful_fraction(600, 10, 60, 300, 1e6), 1e6, 300)
    assert_allclose(rare_loss_standard_deviation_s(count, 305 + 360, 610 / np.sqrt(12)), exact, rtol=0.01)


def test_step_error_adds_as_variance():
    assert finish_standard_deviation_s(1000, 0, 0.05) == 50
    assert finish_standard_deviation_s(1000, 30, 0) == 30
    assert_allclose(finish_standard_deviation_s(1000, 50, 0.12), 130)


def test_certain_end():
    assert_array_equal(deadline_probability([99, 100, 101], 100, 0), [0, 1, 1])
    assert_array_equal(finish_quantile_s([0.1, 0.9], 100, 0), [100, 100])


def test_small_spread_is_normal():
    # Normal law: 15.87 % below one standard deviation under the mean, 97.72 % below two above.
    assert_allclose(deadline_probability([9990, 10020], 10000, 10), [0.1587, 0.9772], atol=5e-4)
    assert_allclose(deadline_probability(1e7 * (1 + 1e-8), 1e7, 0.1), 0.8413, atol=5e-4)


def test_quantile_and_probability_are_inverse():
    probability = np.array([0.01, 0.1, 0.5, 0.9, 0.99])[:, None]
    spread = np.array([1e-6, 1e-3, 0.05, 0.3, 1.0]) * 100
    quantile = finish_quantile_s(probability, 100, spread)
    assert_allclose(deadline_probability(quantile, 100, spread) - probability, 0, atol=1e-8)
    assert np.all(np.diff(quantile, axis=0) > 0)


def test_deadlines_beyond_all_measure():
    assert_array_equal(deadline_probability([0, np.inf], 100, 10), [0, 1])
    hopeless = expected_wall_s(1e7, useful_fraction(600, 30, 120, 300, 1e-3))
    spread = wall_standard_deviation_s(1e7, 600, 30, 120, 300, 1e-3)
    assert deadline_probability(1e9, hopeless, spread) == 0


def test_run_that_loses_nothing_takes_its_steps():
    assert expected_wall_s(1e7, 1) == 1e7


# Llama 3 Herd of Models, arXiv:2407.21783, section 3.4.1: batches of up to 16M tokens, 15.6T tokens
def test_steps_of_a_long_run():
    assert steps(15.6e12, 2048, 8192) == 929833
    assert_array_equal(steps([1, 8192, 8193], 1, 8192), [1, 1, 2])


def test_batch_that_divides_the_tokens_leaves_no_step_over():
    batch = np.arange(1, 2000)
    assert_array_equal(steps(batch * 4096 * 12345.0, batch, 4096), np.full(batch.shape, 12345))


def test_repeated_steps_are_run_but_do_not_count():
    assert training_s(900, 0) == 900
    assert_allclose(goodput_fraction(900, training_s(900, [0, 0.1, 0.5])), [1, 0.9, 0.5])
    assert_array_equal(ideal_s([10, 20], [2, 3]), [20, 60])


def test_longer_sequences_at_the_end_add_their_steps():
    assert_array_equal(lengthened_steps([10, 20], [0, 5]), [10, 25])
    assert_array_equal(lengthened_ideal_s([10.0, 20.0], [0.0, 5.0]), [10, 25])


def test_mean_parts_of_a_step_add_up_to_the_mean_step():
    parts, long_parts = np.array([1.0, 2.0, 3.0]), np.array([4.0, 1.0, 5.0])
    ideal, long_s, steps = 6.0 * 90 + 10.0 * 10, 10.0 * 10, 100
    mean = mean_part_s(parts, 6.0, long_parts, 10.0, long_s, ideal, steps)
    assert_allclose(mean, 0.9 * parts + 0.1 * long_parts)
    assert_allclose(mean.sum(), mean_part_s(6.0, 6.0, 10.0, 10.0, long_s, ideal, steps))
    assert_allclose(mean_part_s(parts, 6.0, long_parts, 10.0, 0.0, 6.0 * 90, 90), parts)
    one_by_one = [mean_part_s(p, 6.0, q, 10.0, long_s, ideal, steps) for p, q in zip(parts, long_parts, strict=True)]
    assert_allclose(mean, one_by_one)


def test_half_of_an_interval_is_exceeded_by_one_in_twenty():
    spread = standard_error_fraction(0.01) * 100
    assert_allclose(deadline_probability([99, 101], 100, spread), [0.05, 0.95], atol=1e-3)
