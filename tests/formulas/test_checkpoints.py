"""Checkpoints: published forms and figures, limits."""

from decimal import Decimal, localcontext

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize_scalar

from clusterplan.formulas.checkpoints import (
    batch_bytes,
    checkpoint_bytes,
    checkpoint_interval_s,
    daily_bytes,
    load_s,
    read_bytes_per_s,
    restored_bytes,
    saved_bytes,
    snapshot_s,
    store_share_fraction,
    stored_bytes,
    whole_steps_interval_s,
    write_s,
)
from clusterplan.formulas.goodput import (
    asynchronous_useful_fraction,
    useful_fraction,
)
from clusterplan.formulas.reliability import (
    communicator_init_s,
    down_s,
    restore_s,
)

# Sizes and times ------------------------------------------------------------------------------------------------------


# BigScience, training log of the 176B model: a checkpoint holds 2.3 TB; 384 writers saved it in 40 s.
def test_bloom_checkpoint():
    size = checkpoint_bytes(176e9, 13.1)
    assert_allclose(size, 2.3e12, rtol=0.01)
    assert_allclose(write_s(size, 58e9, 384, 1e9, 0), 40, rtol=0.01)


# MLPerf Storage v2.0, checkpointing workloads: Llama 3 8B 105 GB, 70B 912 GB, 405B 5.29 TB
@pytest.mark.parametrize(("parameters", "saved"), [(8.03e9, 105e9), (70.6e9, 912e9), (405.9e9, 5.29e12)])
def test_mlperf_storage_checkpoints(parameters, saved):
    assert_allclose(checkpoint_bytes(parameters, 13), saved, rtol=0.01)


def test_write_is_limited_by_store_or_by_writers():
    assert write_s(1e12, 1e10, 1000, 1e9, 2) == 102
    assert write_s(1e12, 1e12, 10, 1e9, 2) == 102


def test_one_read_takes_a_write_and_replicas_that_read_take_their_number_of_it():
    assert load_s(1e12, 1, 1e10, 1000, 1e9, 2) == write_s(1e12, 1e10, 1000, 1e9, 2)
    assert_allclose(load_s(1e12, [1, 2, 64], 1e10, 1000, 1e9, 0), [100, 200, 6400])


def test_share_of_a_store_is_the_larger_of_space_and_bandwidth():
    assert stored_bytes(5e12, 0, 0, 4) == 0
    assert store_share_fraction(5e13, 1e15, 1e12, 1e12, 100) == 0.05
    assert store_share_fraction(5e12, 1e15, 1e12, 1e12, 100) == 0.01
    assert_array_equal(store_share_fraction(1e16, 1e15, 1e12, 1e12, [0.5, 100]), [1, 1])


def test_snapshot_time_falls_with_devices_to_its_barrier():
    assert_allclose(snapshot_s(14e12, [64, 1024, 1e12], 50e9, 0.3), [4.675, 0.5734375, 0.3])


def test_days_of_checkpoints_and_data():
    assert_allclose(daily_bytes(5e12, [3600, 86400]), [120e12, 5e12])
    assert batch_bytes(1000, 8192, 4) == 32_768_000
    assert_allclose(read_bytes_per_s(32_768_000, [1, 8]), [32_768_000, 4_096_000])


def test_restart_is_the_sum_of_its_parts():
    assert down_s(1, 20, 300, 4000) == 4321
    assert restore_s(communicator_init_s(1000, 5, 0.01), 100, 20) == 135
    assert communicator_init_s(0, 5, 0.01) == 5


# Interval -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stall", "mtbf", "exact"),
    [
        (10, 3600, 261.7),
        (60, 3600, 617.9),
        (60, 10800, 1098.8),
        (300, 10800, 2349.6),
        (600, 10800, 3211.6),
        (30, 600, 170.3),
        (300, 600, 419.0),
        (600, 3600, 1699.2),
        (5, 180, 39.2),
    ],
)
def test_interval_by_direct_minimisation(stall, mtbf, exact):
    interval = checkpoint_interval_s(stall, mtbf)
    assert_allclose(interval, exact, atol=0.051, rtol=0)  # printed to a tenth: within 0.1 %, or half of the last digit
    # Expected time per unit of work of a segment that starts anew at each failure, as Daly writes it
    shortest = minimize_scalar(lambda t: np.expm1((t + stall) / mtbf) / t, bounds=(1, 10 * mtbf), method="bounded")
    assert_allclose(interval, shortest.x, rtol=1e-3)


# Daly 2006, equation 37: for C < 2M, T = sqrt(2CM) [1 + sqrt(C/2M)/3 + (C/2M)/9] - C
def test_interval_agrees_with_dalys_higher_order_estimate():
    stall, mtbf = np.geomspace(1e-3, 3000, 40), 1e4
    half = stall / 2 / mtbf
    daly = np.sqrt(2 * stall * mtbf) * (1 + np.sqrt(half) / 3 + half / 9) - stall
    assert_allclose(checkpoint_interval_s(stall, mtbf), daly, rtol=6e-3)
    assert_allclose(checkpoint_interval_s(stall, mtbf)[:20], daly[:20], rtol=2e-6)


def test_interval_holds_its_digits_over_sixteen_orders_of_magnitude():
    # T = w M is the optimum where C/M = -w - ln(1 - w); that, in 60 digits, is turned back into an error of w.
    ratios = np.append(np.geomspace(1e-16, 20, 200), [0.99e-3, 1.01e-3])
    with localcontext(prec=60):
        for ratio, interval in zip(ratios, checkpoint_interval_s(ratios, 1.0), strict=True):
            w = Decimal(float(interval))
            error = (-w - (1 - w).ln() - Decimal(float(ratio))) * (1 - w) / w / w
            assert abs(error) < 1e-12


def test_interval_without_failures_or_without_cost():
    assert_array_equal(checkpoint_interval_s([60, 0, 0], [np.inf, np.inf, 3600]), [np.inf, 0, 0])


def test_interval_never_exceeds_the_mtbf():
    assert_allclose(checkpoint_interval_s(1e6, 3600), 3600)


def test_interval_is_the_best():
    stall, mtbf = np.meshgrid(np.geomspace(0.1, 3000, 12), np.geomspace(100, 1e7, 12))
    best = checkpoint_interval_s(stall, mtbf)
    here = useful_fraction(best, stall, 120, 300, mtbf)
    for other in (0.8, 1.2):
        assert np.all(useful_fraction(other * best, stall, 120, 300, mtbf) < here)
        assert np.all(
            asynchronous_useful_fraction(other * best, stall, 60, 120, 300, mtbf)
            < asynchronous_useful_fraction(best, stall, 60, 120, 300, mtbf)
        )


def test_steps_are_whole_and_at_least_one():
    intervals = whole_steps_interval_s([0, 3, 14, 16, 1e9, np.inf], 10, 0, 3605)
    assert_array_equal(intervals, [10, 10, 10, 20, 3600, 3600])


def test_interval_leaves_time_for_the_write_behind():
    assert whole_steps_interval_s(10, 10, 41, 3600) == 50
    assert whole_steps_interval_s(10, 10, 7200, 3600) == 7200  # the write cannot be hurried


def test_step_longer_than_every_limit():
    assert whole_steps_interval_s(5, 1000, 0, 100) == 1000


def test_whole_and_incremental_checkpoints():
    assert saved_bytes(8e12, 1) == restored_bytes(8e12, 1) == 8e12
    assert_allclose(saved_bytes(8e12, [0.1, 0.5]), [0.8e12, 4e12])
    assert_allclose(restored_bytes(8e12, [0.1, 0.5]), [8.8e12, 12e12])


def test_longest_interval_is_rounded_down():
    assert_array_equal(whole_steps_interval_s([47, 47, np.inf], 10, 0, [46, 3600, 59]), [40, 50, 50])
