"""What of the wall time is training: simulation, published figures, limits.

The tables "by simulation" are means over independent simulated runs (standard error about 0.001), each failure drawn
on its own; no useful-fraction formula took part in them.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from clusterplan.formulas.checkpoints import checkpoint_interval_s
from clusterplan.formulas.goodput import (
    asynchronous_useful_fraction,
    both_fraction,
    fed_fraction,
    full_speed_fraction,
    in_service_fraction,
    kept_fraction,
    lost_fraction,
    pattern_interval_s,
    pattern_training_fraction,
    predicted_useful_fraction,
    replica_loss_s,
    replica_tolerant_useful_fraction,
    segments,
    training_fraction,
    two_level_useful_fraction,
    uncorrupted_fraction,
    up_fraction,
    useful_fraction,
)
from clusterplan.formulas.reliability import job_mtbf_s

DAY_S = 86400.0
DEVICES = np.array([1024, 8192, 16384, 65536, 131072, 262144, 1048576])


def fleet_mtbf_s(devices, failures_per_1000_node_days):
    return job_mtbf_s(devices, 0, np.asarray(devices) / 8, failures_per_1000_node_days / 1000 / DAY_S)


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


def test_other_causes_take_nothing_where_they_are_not():
    assert in_service_fraction(0, 86400) == 1
    assert uncorrupted_fraction(0, 3600, 100) == uncorrupted_fraction(0.5, 0, 100) == 1
    assert uncorrupted_fraction(0.5, 3600, np.inf) == 1
    assert full_speed_fraction(0) == 1
    assert fed_fraction(8, 1e6, 1e12) == fed_fraction(8, 0, 1e12) == 1
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
