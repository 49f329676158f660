"""Reliability: published forms and figures, simulation, limits.

The tables "by simulation" are means over independent simulated runs (standard error about 0.001), each failure drawn
on its own; no useful-fraction formula took part in them.
"""

from decimal import Decimal, localcontext

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize_scalar

from clusterplan.formulas.reliability import (
    asynchronous_useful_fraction,
    batch_bytes,
    both_fraction,
    changed_failures_s,
    checkpoint_bytes,
    checkpoint_interval_s,
    communicator_init_s,
    daily_bytes,
    deadline_probability,
    down_s,
    expected_interruptions,
    expected_wall_s,
    fed_fraction,
    finish_quantile_s,
    finish_standard_deviation_s,
    full_speed_fraction,
    goodput_fraction,
    ideal_s,
    idle_devices,
    in_service_fraction,
    interruptions_by_cause,
    job_mtbf_s,
    kept_fraction,
    load_s,
    lost_fraction,
    mean_down_s,
    mean_mtbf_s,
    nodes,
    pattern_interval_s,
    pattern_training_fraction,
    predicted_useful_fraction,
    purchase_units,
    racks,
    rare_loss_standard_deviation_s,
    read_bytes_per_s,
    replica_loss_s,
    replica_tolerant_useful_fraction,
    restore_s,
    restored_bytes,
    saved_bytes,
    segments,
    snapshot_s,
    spare_devices,
    spare_nodes,
    standard_error_fraction,
    steps,
    store_share_fraction,
    stored_bytes,
    training_fraction,
    training_s,
    two_level_useful_fraction,
    uncorrupted_fraction,
    up_fraction,
    useful_fraction,
    wall_standard_deviation_s,
    whole_steps_interval_s,
    write_s,
)

DAY_S = 86400.0
DEVICES = np.array([1024, 8192, 16384, 65536, 131072, 262144, 1048576])


def fleet_mtbf_s(devices, failures_per_1000_node_days):
    return job_mtbf_s(devices, 0, np.asarray(devices) / 8, failures_per_1000_node_days / 1000 / DAY_S)


# Rates ----------------------------------------------------------------------------------------------------------------


def test_job_that_never_fails():
    assert job_mtbf_s(1000, 0, 125, 0) == np.inf
    assert expected_interruptions(1e7, np.inf) == 0


def test_rates_of_devices_and_nodes_add():
    assert_allclose(job_mtbf_s(8, 1e-6, 1, 2e-6), 1e5)
    assert_allclose(job_mtbf_s([8, 16], 1e-6, [1, 2], 2e-6), [1e5, 5e4])


# Llama 3 Herd of Models, arXiv:2407.21783, table 5: 419 unexpected interruptions in 54 days on 16,384 H100; that is
# 3.79 per 1,000 node-days
def test_llama_3_was_interrupted_every_three_hours():
    mtbf = fleet_mtbf_s(16384, 3.79)
    assert_allclose(mtbf / 3600, 3.09, atol=0.005)
    assert_allclose(expected_interruptions(54 * DAY_S, mtbf), 419, rtol=0.002)


# Kokolis et al., HPCA 2025, arXiv:2410.21680: 6.50 per 1,000 node-days on RSC-1; projected MTTF 1.8 h at
# 16,384 GPUs and 0.23 h at 131,072
def test_rsc_1_projection():
    assert_allclose(fleet_mtbf_s([16384, 131072], 6.5) / 3600, [1.8, 0.23], atol=0.05)


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


# Useful fraction: tables by simulation --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stall", "restore", "down", "mtbf", "interval", "exact", "simulated"),
    [
        (60, 120, 300, 11132, 1116, 0.8667, 0.8664),
        (60, 300, 600, 11132, 1116, 0.8310, 0.8306),
        (300, 300, 600, 11132, 2388, 0.7255, 0.7249),
        (600, 600, 1800, 11132, 3266, 0.5763, 0.5745),
        (10, 60, 120, 3600, 262, 0.8826, 0.8815),
        (60, 120, 300, 1800, 426, 0.6122, 0.6140),
        (30, 60, 180, 600, 170, 0.4985, 0.4962),
        (300, 300, 600, 3600, 1277, 0.5089, 0.5070),
        (5, 60, 180, 180, 39, 0.2803, 0.2798),
        (60, 120, 300, 600, 230, 0.3367, 0.3374),
    ],
)
def test_blocking_checkpoints(stall, restore, down, mtbf, interval, exact, simulated):
    useful = useful_fraction(interval, stall, restore, down, mtbf)
    assert_allclose(useful, simulated, atol=0.004, rtol=0)
    assert_allclose(useful, exact, atol=1e-4, rtol=0)
    assert_allclose(checkpoint_interval_s(stall, mtbf), interval, atol=0.6)


@pytest.mark.parametrize(
    ("interval", "stall", "persist", "restore", "down", "mtbf", "exact", "simulated"),
    [
        (600, 2, 120, 120, 300, 11132, 0.9244, 0.9240),
        (300, 1, 200, 120, 300, 3600, 0.8071, 0.8082),
        (120, 1, 60, 60, 180, 1800, 0.8154, 0.8153),
        (1800, 5, 600, 300, 600, 11132, 0.8039, 0.8024),
        (300, 2, 250, 120, 300, 1000, 0.4521, 0.4513),
    ],
)
def test_asynchronous_checkpoints(interval, stall, persist, restore, down, mtbf, exact, simulated):
    useful = asynchronous_useful_fraction(interval, stall, persist, restore, down, mtbf)
    assert_allclose(useful, simulated, atol=0.004, rtol=0)
    assert_allclose(useful, exact, atol=1e-4, rtol=0)


@pytest.mark.parametrize(
    (
        *("interval", "segments", "stall_1", "stall_2", "restore_1", "restore_2"),
        "down",
        "mtbf_1",
        "mtbf_2",
        "exact",
        "simulated",
    ),
    [
        (120, 10, 2, 60, 20, 180, 120, 4000, 40000, 0.8699, 0.8700),
        (300, 6, 5, 120, 30, 300, 300, 11132, 111320, 0.8707, 0.8704),
        (60, 20, 1, 60, 10, 120, 120, 1000, 20000, 0.7659, 0.7663),
        (30, 40, 1, 60, 10, 120, 90, 300, 6000, 0.5530, 0.5532),
    ],
)
def test_two_levels(interval, segments, stall_1, stall_2, restore_1, restore_2, down, mtbf_1, mtbf_2, exact, simulated):
    useful = two_level_useful_fraction(interval, segments, stall_1, stall_2, restore_1, restore_2, down, mtbf_1, mtbf_2)
    assert_allclose(useful, simulated, atol=0.004, rtol=0)
    assert_allclose(useful, exact, atol=1e-4, rtol=0)  # the recursion of the SCR pattern, worked out apart


@pytest.mark.parametrize(
    ("stall", "proactive", "restore", "down", "mtbf", "recall", "precision", "interval", "exact", "simulated"),
    [
        (60, 60, 120, 300, 11132, 0.0, 1.0, 1156, 0.8670, 0.8667),
        (60, 60, 120, 300, 11132, 0.5, 0.8, 1635, 0.8938, 0.8933),
        (60, 60, 120, 300, 11132, 0.85, 0.82, 2984, 0.9238, 0.9237),
        (60, 30, 120, 300, 3600, 0.7, 0.4, 1200, 0.8139, 0.8149),
    ],
)
def test_foreseen_failures(stall, proactive, restore, down, mtbf, recall, precision, interval, exact, simulated):
    useful = predicted_useful_fraction(interval, stall, proactive, restore, down, mtbf, recall, precision)
    assert_allclose(useful, simulated, atol=0.004, rtol=0)
    assert_allclose(useful, exact, atol=1e-4, rtol=0)


# Rows: failures per 1,000 node-days of RSC-2, Llama 3 and RSC-1; columns: DEVICES.
# Lists: MTBF; interval for a stall of 30 s; useful fraction for each of SCALE_TIMES_S.
SCALE_TIMES_S = [(30, 120, 480), (30, 60, 60), (1, 20, 40)]  # stall, restore, down
SCALE = {
    2.34: (
        [288462, 36058, 18029, 4507, 2254, 1127, 282],
        [4140, 1451, 1020, 500, 348, 240, 111],
        [0.9836, 0.9440, 0.9129, 0.7823, 0.6610, 0.4959, 0.1465],
        [0.9852, 0.9566, 0.9372, 0.8657, 0.8020, 0.7081, 0.4041],
        [0.9972, 0.9909, 0.9862, 0.9662, 0.9452, 0.9093, 0.7488],
    ),
    3.79: (
        [178100, 22263, 11131, 2783, 1391, 696, 174],
        [3249, 1136, 797, 389, 269, 185, 83],
        [0.9785, 0.9240, 0.8804, 0.7027, 0.5501, 0.3657, 0.0696],
        [0.9811, 0.9439, 0.9184, 0.8241, 0.7405, 0.6202, 0.2746],
        [0.9963, 0.9879, 0.9814, 0.9528, 0.9223, 0.8704, 0.6497],
    ),
    6.5: (
        [103846, 12981, 6490, 1623, 811, 406, 101],
        [2476, 863, 604, 292, 201, 137, 59],
        [0.9705, 0.8920, 0.8290, 0.5876, 0.4076, 0.2259, 0.0221],
        [0.9750, 0.9250, 0.8903, 0.7619, 0.6504, 0.4982, 0.1440],
        [0.9950, 0.9831, 0.9735, 0.9305, 0.8844, 0.8070, 0.5099],
    ),
}


@pytest.mark.parametrize("rate", SCALE)
def test_a_thousand_to_a_million_devices(rate):
    mtbf = fleet_mtbf_s(DEVICES, rate)
    expected_mtbf, expected_interval, *fractions = SCALE[rate]
    assert_allclose(mtbf, expected_mtbf, atol=0.6)
    assert_allclose(checkpoint_interval_s(30, mtbf), expected_interval, atol=0.6)
    for (stall, restore, down), expected in zip(SCALE_TIMES_S, fractions, strict=True):
        interval = checkpoint_interval_s(stall, mtbf)
        assert_allclose(useful_fraction(interval, stall, restore, down, mtbf), expected, atol=0.004, rtol=0)


@pytest.mark.parametrize(
    ("devices", "replicas", "all_replicas_go_on", "one_in_twenty_stops_all"),
    [(16384, 128, 0.9984, 0.9967), (131072, 512, 0.9889, 0.9751), (1048576, 1024, 0.9192, 0.8313)],
)
def test_replica_level_tolerance(devices, replicas, all_replicas_go_on, one_in_twenty_stops_all):
    losses = replica_loss_s(10, 5, 300, replicas, [0, 0.05], 400)
    useful = replica_tolerant_useful_fraction(1000, 0, losses, fleet_mtbf_s(devices, 3.79))
    assert_allclose(useful, [all_replicas_go_on, one_in_twenty_stops_all], atol=0.004, rtol=0)


# Llama 3 Herd of Models, section 3.3.4: more than 90 % effective training time. With a checkpoint stall of
# 20 s and 7 min from failure to training.
def test_llama_3_goodput_is_within_reach():
    mtbf = fleet_mtbf_s(16384, 3.79)
    assert 0.90 < useful_fraction(checkpoint_interval_s(20, mtbf), 20, 120, 300, mtbf) < 0.92


# Useful fraction: properties ------------------------------------------------------------------------------------------

MTBF = np.concatenate([[np.inf], np.geomspace(1e9, 1e-3, 60)])  # worse and worse
RATIO = np.geomspace(1, 1e4, 40)

FORMS = {
    "blocking": lambda mtbf, stall=5.0, slow=1.0: useful_fraction(300, stall, 120 * slow, 60 * slow, mtbf),
    "asynchronous": lambda mtbf, stall=5.0, slow=1.0: asynchronous_useful_fraction(
        300, stall, 50 * slow, 120 * slow, 60 * slow, mtbf
    ),
    "two levels": lambda mtbf, stall=5.0, slow=1.0: two_level_useful_fraction(
        30, 10, stall / 20, stall / 2, 10 * slow, 120 * slow, 60 * slow, mtbf, 10 * mtbf
    ),
    "foreseen": lambda mtbf, stall=5.0, slow=1.0: predicted_useful_fraction(
        300, stall, 5 * slow, 120 * slow, 60 * slow, mtbf, 0.7, 0.5
    ),
    "replicas": lambda mtbf, stall=5.0, slow=1.0: replica_tolerant_useful_fraction(300, stall, 20 * slow, mtbf),
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
class TestEveryForm:
    def test_no_failures_leave_all_but_the_stall(self, form):
        assert_allclose(form(np.inf), 300 / 305, rtol=1e-14)
        assert_allclose(form(1e15), 300 / 305, rtol=1e-9)

    def test_more_failures_never_help(self, form):
        assert np.all(np.diff(form(MTBF)) <= 1e-15)

    def test_stays_between_nothing_and_all(self, form):
        useful = form(MTBF)
        assert np.all(np.isfinite(useful))
        assert np.all(useful > 0)
        assert np.all(useful < 1)
        assert useful[-1] < 1e-3

    def test_faster_checkpoints_never_hurt(self, form):
        assert np.all(np.diff(form(MTBF[:, None], stall=0.01 * RATIO), axis=1) <= 1e-15)

    def test_faster_restarts_never_hurt(self, form):
        assert np.all(np.diff(form(MTBF[:, None], slow=0.01 * RATIO), axis=1) <= 1e-15)

    def test_array_equals_scalars(self, form):
        # not to the last bit: vector instructions round exponentials another way
        assert_allclose(form(MTBF), [form(m) for m in MTBF], rtol=1e-13)


def test_forms_reduce_to_the_blocking_one():
    blocking = useful_fraction(600, 30, 120, 300, MTBF)
    assert_allclose(asynchronous_useful_fraction(600, 30, 0, 120, 300, MTBF), blocking)
    assert_allclose(two_level_useful_fraction(600, 1, 10, 20, 1, 120, 300, np.inf, MTBF), blocking, rtol=1e-9)
    # Failures that all fall through to the global checkpoint make ten segments one.
    pattern = two_level_useful_fraction(60, 10, 2, 10, 1, 120, 300, np.inf, MTBF[:40])
    assert_allclose(pattern, useful_fraction(600, 30, 120, 300, MTBF[:40]), rtol=1e-9)
    # Failures that all leave the local checkpoint make segments alike.
    pattern = two_level_useful_fraction(60, 10, 2, 0, 120, 999, 300, MTBF, np.inf)
    assert_allclose(pattern, useful_fraction(60, 2, 120, 300, MTBF), rtol=1e-9)
    foreseen = predicted_useful_fraction(600, 30, 10, 0, 300, MTBF, 0, 1)
    assert_allclose(foreseen, useful_fraction(600, 30, 0, 300, MTBF), rtol=1e-9)


def test_two_levels_follow_the_recursion_segment_by_segment():
    interval, stall_1, stall_2, restore_1, restore_2, down = 60, 1, 60, 10, 120, 90
    mtbf_1, mtbf_2 = 300, 6000
    rate = 1 / mtbf_1 + 1 / mtbf_2
    p_1, p_2 = 1 / mtbf_1 / rate, 1 / mtbf_2 / rate
    f = 1 - np.exp(-rate * restore_1)
    x_2 = (1 / rate + down) * np.exp(rate * restore_2) - 1 / rate
    x_1 = (down + f / rate + f * p_2 * x_2) / (1 - f * p_1)
    h = p_2 + p_1 * f * p_2 / (1 - f * p_1)
    segments = np.arange(1, 31)
    expected = []
    for k in segments:
        total = 0.0
        for j in range(k):
            length = interval + stall_1 + stall_2 * (j == k - 1)
            total += np.expm1(rate * length) * (1 / rate + p_1 * x_1 + p_2 * x_2 + h * total)
        expected.append(k * interval / total)
    useful = two_level_useful_fraction(interval, segments, stall_1, stall_2, restore_1, restore_2, down, mtbf_1, mtbf_2)
    assert_allclose(useful, expected, rtol=1e-12)


def test_two_levels_beat_one_where_most_failures_are_local():
    one = useful_fraction(checkpoint_interval_s(60, 1000), 60, 120, 120, 1000)
    two = two_level_useful_fraction(60, np.arange(1, 60), 1, 60, 10, 120, 120, 1000 / 0.95, 1000 / 0.05)
    assert two.max() > one + 0.1


def test_the_three_factors():
    assert up_fraction(0, 0, 100) == 1
    assert_allclose(up_fraction(100, 0, 100), np.exp(-1))
    assert_allclose(kept_fraction(100, 100), 1 / (np.e - 1))
    assert kept_fraction(100, np.inf) == 1
    assert_allclose(kept_fraction(100, 100, 100), 1 / (np.e - 1) / np.e)
    assert kept_fraction(100, np.inf, 1000) == 1
    assert_allclose(training_fraction([90, 1, 5], [10, 0, 5]), [0.9, 1, 0.5])


@pytest.mark.parametrize("persist", [0.0, 120.0])
def test_losses_in_a_row_leave_the_useful_fraction(persist):
    mtbf = np.array([180.0, 3600.0, 11132.0, np.inf])
    up, kept, training = up_fraction(120, 300, mtbf), kept_fraction(605, mtbf, persist), training_fraction(600, 5)
    losses = lost_fraction(1, up) + lost_fraction(up, kept) + lost_fraction(up * kept, training)
    assert_allclose(1 - losses, asynchronous_useful_fraction(600, 5, persist, 120, 300, mtbf))


def test_burned_in_machines_keep_their_rate():
    assert mean_mtbf_s(1000, 1, 1e6, 1e7) == 1000
    assert_allclose(mean_mtbf_s(1000, 5, 1e6, [1e-3, 1e14]), [200, 1000], rtol=1e-6)  # at once, and after all
    lengths = np.geomspace(1e5, 1e8, 5)
    assert_allclose(mean_mtbf_s(1000, 5, 1e6, lengths), [mean_mtbf_s(1000, 5, 1e6, n) for n in lengths])


def test_mean_rate_of_a_burn_in_by_integration():
    times = np.linspace(0, 3e6, 300_001)
    rate = (1 + 4 * np.exp(-times / 1e6)) / 1000
    assert_allclose(mean_mtbf_s(1000, 5, 1e6, 3e6), 1 / rate.mean(), rtol=1e-4)


def test_a_domain_is_waited_for_if_spares_cannot_replace_it():
    assert_allclose(mean_down_s(300, 0.1, 1000, 16, [0, 15, 16, 100]), [400, 400, 300, 300])
    assert mean_down_s(300, 0, 1000, 16, 0) == 300


def test_other_causes_take_nothing_where_they_are_not():
    assert in_service_fraction(0, 86400) == 1
    assert uncorrupted_fraction(0, 3600, 100) == uncorrupted_fraction(0.5, 0, 100) == 1
    assert uncorrupted_fraction(0.5, 3600, np.inf) == 1
    assert full_speed_fraction(0) == 1
    assert fed_fraction(8, 1e6, 1e12) == 1
    assert both_fraction(1, 0.3) == 0.3


def test_other_causes_by_head():
    assert_allclose(uncorrupted_fraction([0.01, 0.1], 1000, 100), [1 / 1.1, 0.5])
    assert_allclose(in_service_fraction(100, [100, 300]), [0.5, 0.75])
    assert_allclose(fed_fraction([1, 2, 4], 4e9, 1e9), [0.25, 0.5, 1])


def test_patterns_of_checkpoints():
    assert pattern_training_fraction(540, 1, 60, 0) == training_fraction(540, 60)
    assert_array_equal(pattern_interval_s(10, [1, 6]), [10, 60])
    # as many as the write needs, at least one; sqrt(2 C M) where training waits; bounded where nothing fails
    assert_array_equal(segments(10, 0, [0, 5, 45], 1e6), [1, 1, 5])
    assert segments(10, 50, 0, 1e4) == 100
    assert segments(10, 50, 0, np.inf) == 1e9


@pytest.mark.parametrize("mtbf", [1000, 3600, 11_000, 1e5])
@pytest.mark.parametrize("lost", [0.01, 0.05, 0.2])
def test_pattern_is_nearly_the_best_of_all_intervals_and_numbers(mtbf, lost):
    stall_1, stall_2 = (grid.ravel() for grid in np.meshgrid([0.5, 2, 10], [5, 60, 300]))
    interval = checkpoint_interval_s(stall_1, mtbf)
    count = segments(interval, stall_2, 0, mtbf / lost)

    def useful(interval, count):
        rates = mtbf / (1 - lost), mtbf / lost
        return two_level_useful_fraction(interval, count, stall_1, stall_2, 60, 120, 300, *rates)

    here = useful(interval, count)
    for longer in np.geomspace(0.3, 4, 30):
        for more in np.geomspace(0.2, 5, 30):
            assert np.all(useful(longer * interval, np.maximum(np.rint(more * count), 1)) < here + 0.0035)


def test_nothing_is_lost_where_all_is_kept():
    assert_array_equal(lost_fraction([0, 0.5, 1], 1), [0, 0, 0])
    assert_array_equal(lost_fraction([0, 0.5, 1], 0), [0, 0.5, 1])


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


def test_half_of_an_interval_is_exceeded_by_one_in_twenty():
    spread = standard_error_fraction(0.01) * 100
    assert_allclose(deadline_probability([99, 101], 100, spread), [0.05, 0.95], atol=1e-3)


# Nodes and spares -----------------------------------------------------------------------------------------------------


def test_nodes_that_are_partly_used_count():
    assert_array_equal(nodes([1, 4, 5, 72], 4), [1, 1, 2, 18])
    assert nodes(8, 8).dtype == np.int64


def test_units_hold_what_works_and_what_stands_by():
    # Racks of 72 in nodes of 4: all at work, none to spare; 8 left over in each.
    assert_array_equal(purchase_units([72, 72, 64, 128], [72, 72, 72, 144], [0, 1, 2, 5], 4, 72), [1, 2, 1, 3])
    assert_array_equal(
        idle_devices([1, 2, 1, 3], 72, [72, 72, 64, 128], spare_devices([0, 1, 2, 5], 4)), [0, 68, 0, 68]
    )


def test_bought_units_stay_bought():
    assert purchase_units(8, 800, 1, 8, 8) == 100
    assert_array_equal(racks([0, 1, 100], 0.5), [0, 0.5, 50])


# Poisson law, P(short) <= 1 %, 8 devices a node, 3.79 failures per 1,000 node-days; repair in 4, 48, 336 h
@pytest.mark.parametrize(
    ("devices", "spares"),
    [(1024, [1, 4, 14]), (16384, [5, 25, 134]), (131072, [19, 151, 939]), (1048576, [105, 1068, 7149])],
)
def test_spare_nodes(devices, spares):
    repair = np.array([4, 48, 336]) * 3600
    assert_array_equal(spare_nodes(devices / 8, repair, DAY_S * 1000 / 3.79, 0.01), spares)


def test_spares_are_the_fewest_that_do():
    mean = np.geomspace(1e-3, 50, 30)
    shortage = np.array([0.5, 0.1, 1e-2, 1e-6])[:, None]
    spares = spare_nodes(mean, 1, 1, shortage)
    terms = np.exp(-mean) * np.cumprod(np.concatenate([np.ones((1, 30)), mean / np.arange(1, 200)[:, None]]), axis=0)
    below = np.cumsum(terms, axis=0)  # P(X <= s)
    column = np.arange(30)
    assert np.all(1 - below[spares, column] <= shortage + 1e-12)
    assert np.all((1 - below[spares - 1, column] > shortage - 1e-12) | (spares == 0))


def test_no_repairs_no_spares():
    assert_array_equal(spare_nodes([0, 1000, 1000], [1, 0, 1], [1, 1, np.inf], 0.01), [0, 0, 0])
    assert spare_nodes(1000, 3600, 1e7, 0.01).dtype == np.int64


def test_a_cause_as_often_as_before_changes_nothing():
    assert changed_failures_s(3e-9, 3e-9, 0.4, 1) == 3e-9


def test_causes_that_never_strike_leave_the_rest():
    assert_allclose(changed_failures_s(changed_failures_s(10, 10, 0.4, 0), 10, 0.5, 0), 1)


def test_all_causes_of_all_things_are_all_interruptions():
    devices, nodes_at_work, of_device, of_node = 1024, 128, 3e-9, 2e-8
    mtbf = job_mtbf_s(devices, of_device, nodes_at_work, of_node)
    found = sum(interruptions_by_cause(50, mtbf, devices, of_device, share) for share in (0.3, 0.7))
    assert_allclose(found + interruptions_by_cause(50, mtbf, nodes_at_work, of_node, 1), 50)
    counts = np.array([0.0, 10.0, 50.0])
    assert_allclose(
        interruptions_by_cause(counts, mtbf, devices, of_device, 0.3),
        [interruptions_by_cause(n, mtbf, devices, of_device, 0.3) for n in counts],
    )
    assert interruptions_by_cause(0, np.inf, devices, 0, 1) == 0


def test_whole_and_incremental_checkpoints():
    assert saved_bytes(8e12, 1) == restored_bytes(8e12, 1) == 8e12
    assert_allclose(saved_bytes(8e12, [0.1, 0.5]), [0.8e12, 4e12])
    assert_allclose(restored_bytes(8e12, [0.1, 0.5]), [8.8e12, 12e12])


def test_spares_array_equals_scalars():
    nodes = np.array([1, 100, 10_000, 1_000_000])
    assert_array_equal(spare_nodes(nodes, 1, 100, 0.01), [spare_nodes(n, 1, 100, 0.01) for n in nodes])
