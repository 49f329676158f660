"""Power: limits, metered nodes, converters, network."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from clusterplan.formulas.power import (
    accelerator_w,
    added_fraction,
    added_w,
    buffer_loss_w,
    buffer_w,
    buffered_swing_w,
    capped_clock_fraction,
    capped_w,
    clock_slowdown,
    conversion_input_w,
    endpoints_per_device,
    energy_j,
    energy_kwh,
    exceeded_w,
    fabric_w,
    fanless_w,
    floored_fraction,
    hall_nameplate_w,
    hall_p95_w,
    held_activity_fraction,
    held_w,
    nameplate_w,
    node_w,
    overhead_w,
    peak_w,
    phase_mean_w,
    ramp_w_per_s,
    storage_share_fraction,
    storage_w,
    swing_fraction,
    swing_w,
    together_w,
)

# Matrix products, memory-bound kernels, exposed communication, waiting: middle of the documented ranges.
ACTIVITY = np.array([1.0, 0.8, 0.45, 0.2])


def h100_w(shares):
    return phase_mean_w(shares, accelerator_w(100, 700, ACTIVITY, 1, 2.5))


def hgx_h100_w(device_w, fan_fraction):
    """An eight-H100 node; host and switch power are assumed, chosen on the idle and the busy immersed node below."""
    return node_w(device_w, 8, 850, 8, 25, 320, fan_fraction, 0.95)


def hgx_b200_w(device_w):
    return node_w(device_w, 8, 1000, 8, 25, 550, 0.01, 0.94)


def frontier_node_w(device_w, cpu_w):
    """A Frontier node at the mains, by the constants of ExaDigiT RAPS: four nodes share a rectifier."""
    board_w = node_w(device_w, 4, cpu_w + 74 + 30, 4, 20, 0, 0, 0.98, 13)
    return conversion_input_w(4 * board_w, 0.96, 17) / 4


# Accelerator ----------------------------------------------------------------------------------------------------------


def test_no_activity_is_idle_at_any_clock():
    assert_array_equal(accelerator_w(100, 700, 0, [0.5, 1.0], 2.5), [100, 100])


def test_never_above_the_limit():
    assert accelerator_w(100, 700, 1.3, 1, 2.5) == 700


def test_less_clock_is_never_more_power():
    clock = np.linspace(0.3, 1, 50)
    for activity in (0.1, 0.5, 1.0, 1.2):
        assert np.all(np.diff(accelerator_w(100, 700, activity, clock, 2.5)) >= 0)


def test_lower_limit_is_never_more_power():
    limit = np.linspace(200, 700, 50)
    assert np.all(np.diff(accelerator_w(100, limit, ACTIVITY[:, None], 0.9, 2.5)) > 0)


def test_slowdown_of_work_that_ignores_the_clock():
    assert_array_equal(clock_slowdown([0.5, 0.8, 1.0], 0), [1, 1, 1])


def test_slowdown_of_work_that_follows_the_clock():
    assert_allclose(clock_slowdown([0.5, 0.8, 1.0], 1), [2, 1.25, 1])


def test_energy_saved_at_five_per_cent_slower():
    # By hand: 20 % idle, cubic power, 0.7 clock-bound. The clock is 0.7 / 0.75, power 0.2 + 0.8 * 0.8130 = 0.8504.
    clock = 0.7 / 0.75
    assert_allclose(clock_slowdown(clock, 0.7), 1.05)
    assert_allclose(accelerator_w(0.2, 1, 1, clock, 3) * clock_slowdown(clock, 0.7), 0.8929, atol=1e-4)


def test_capped_clock_meets_the_cap():
    caps = np.array([300, 450, 600.0])
    clock = capped_clock_fraction(100, 700, caps, 1, 2.5)
    assert_allclose(accelerator_w(100, 700, 1, clock, 2.5), caps)


def test_cap_out_of_reach():
    assert_array_equal(capped_clock_fraction(100, 700, [50, 900], [1, 1], 2.5), [0, 1])


def test_mean_over_phases_of_many_layouts():
    shares = np.array([[1, 0, 0, 0], [0, 0, 0, 1], [0.25, 0.25, 0.25, 0.25]])
    assert_allclose(h100_w(shares), [700, 220, 100 + 600 * 2.45 / 4])


# Nodes ----------------------------------------------------------------------------------------------------------------


def test_idle_node():
    # MLPerf Training v4.0 power logs: first percentile of immersed HGX H100 nodes 2.2 kW (1.96-2.70).
    assert_allclose(hgx_h100_w(100, 0), 2200, rtol=0.1)


def test_immersed_node_in_large_training():
    # MLPerf Training v4.0 power logs: GPT-3 175B on 64 immersed HGX H100 nodes, 6.85 kW mean, nodes 6.76-6.94 kW.
    assert_allclose(hgx_h100_w(h100_w([0.78, 0.12, 0.07, 0.03]), 0), 6850, rtol=0.05)


def test_air_cooled_node_in_training():
    # Latif et al. 2025: 8.4 kW at most, 8.48 kW burning; Newkirk et al. arXiv:2506.14551: 7.75 kW in training.
    assert_allclose(hgx_h100_w(700, 0.12), 8480, rtol=0.03)
    assert_allclose(hgx_h100_w(h100_w([0.78, 0.12, 0.07, 0.03]), 0.12), 7750, rtol=0.05)


def test_liquid_cooled_b200_node():
    # MLPerf Training v5.0 power logs: 8 x B200 with cold plates, 9.58 kW in fine-tuning, 10.04 kW in image generation.
    b200 = accelerator_w(140, 1000, ACTIVITY, 1, 2.5)
    assert_allclose(hgx_b200_w(phase_mean_w([0.78, 0.12, 0.07, 0.03], b200)), 9575, rtol=0.06)


def test_training_power_is_well_below_the_nameplate():
    # MLPerf power logs: 0.67-0.70 of the nameplate (10.2 kW and 14.3 kW), not all of it.
    assert 0.6 < hgx_h100_w(h100_w([0.78, 0.12, 0.07, 0.03]), 0) / 10200 < 0.76


def test_node_power_falls_as_communication_grows():
    # MLPerf Training v4.0: fine-tuning at 1, 8 and 64 nodes draws 6953, 5822, 5083 W a node, 27 % less at the end.
    # The shares are not published; these, assumed, keep matrix work at the front and show that the metered values lie
    # within reach of the model.
    shares = np.array([[0.85, 0.12, 0.02, 0.01], [0.45, 0.10, 0.30, 0.15], [0.20, 0.10, 0.45, 0.25]])
    node = hgx_h100_w(h100_w(shares), 0)
    assert np.all(np.diff(node) < 0)
    assert_allclose(node, [6953, 5822, 5083], rtol=0.08)


def test_idle_devices_draw_less_than_busy_ones_and_more_than_none():
    idle, busy = hgx_h100_w([100, 700], 0)
    assert 1000 < idle < busy


def test_conversion_losses_of_frontier():
    # Brewer et al., SC24 (recalled): conversion losses of 6.3 % (full load) to 8.4 % (idle) of the power taken in.
    board_w = np.array([4 * 88 + 90, 4 * 560 + 280]) + 74 + 30 + 4 * 20
    taken_w = frontier_node_w(np.array([88, 560]), np.array([90, 280]))
    assert_allclose(1 - board_w / taken_w, [0.084, 0.063], atol=0.003)


def test_peak_power_of_frontier():
    # Brewer et al., SC24 (recalled): 28.2 MW for 9472 nodes, 32 switches of 250 W in each of 74 racks and 25 coolant
    # units of 8.47 kW, with all devices and processors at their maximum.
    total_w = 9472 * frontier_node_w(560, 280) + 74 * 32 * 250 / 0.96 + 25 * 8470
    assert_allclose(total_w, 28.2e6, rtol=0.01)


def test_supplies_without_loss():
    assert node_w(0, 8, 0, 0, 25, 0, 0.1, 1) == 0


def test_nameplate_of_no_nodes():
    assert nameplate_w(10200, 0, 0.85) == 0


def test_peak_is_what_is_set_aside_but_no_less_than_the_mean():
    assert_array_equal(peak_w([5, 10, 20], 10), [10, 10, 20])


# Network, storage, whole clusters -------------------------------------------------------------------------------------


def test_two_tiers_at_400_gbit():
    # MLPerf Training v4.0: 59.57 kW estimated for 512 devices; 747 W typical for a 64-port switch, 8-12 W a module.
    switches_and_optics_w = fabric_w(24 * 64, 747 / 64, 4 * 512, 10)
    adapters_w = 512 * 25
    assert 60 < switches_and_optics_w / 512 < 130
    assert_allclose(switches_and_optics_w + adapters_w, 59570, rtol=0.2)


def test_512_devices_energy():
    # MLPerf Training v4.0, GPT-3 175B on 512 H100: 415.22 kWh at the nodes and 59.57 kW of network for 3410 s, 472 kWh.
    nodes_j = energy_j(64 * hgx_h100_w(h100_w([0.78, 0.12, 0.07, 0.03]), 0), 3410)
    assert_allclose(nodes_j / 3.6e6, 415.22, rtol=0.05)
    assert_allclose((nodes_j + energy_j(59570, 3410)) / 3.6e6, 472, rtol=0.05)


def test_endpoints_of_devices_that_share_a_port_or_take_several():
    assert_array_equal(endpoints_per_device([12.5e9, 50e9, 200e9], 50e9), [0.25, 1, 4])


def test_a_cap_takes_off_fans_and_losses_of_supplies_too():
    assert_allclose(capped_w(700, 400, 8, 0.1, 0.9), 2400 / 0.81)


def test_storage_adds_capacity_and_speed():
    assert_allclose(storage_w([0, 1e15, 1e15], 5e-13, [1e12, 0, 1e12], 5e-8), [50e3, 500, 50.5e3])


def test_swing_of_a_training_cluster():
    # Grattafiori et al. 2024, section 3.3.4: swings of tens of megawatts; 24,576 H100.
    assert 5e6 < swing_w(24576, 700, 300, 0.9) < 30e6


def test_swings_have_no_sign():
    assert swing_w(100, 300, 700, 1) == swing_w(100, 700, 300, 1) == 40_000
    assert swing_w(100, 700, 700, 1) == 0


def test_ramp_and_share_of_a_swing():
    assert ramp_w_per_s(1e6, 0.1) == pytest.approx(1e7)
    assert swing_fraction(1e6, 4e6) == 0.25


def test_no_smoothing():
    assert floored_fraction(0.2, 0) == 0.2
    assert buffered_swing_w(1e6, 0) == 1e6
    assert buffer_w(1e6, 0, 0.5) == 0
    assert buffer_loss_w(1e6, 1) == 0
    assert added_w(7.0, 7.0) == 0


def test_a_device_held_at_a_share_of_its_limit_draws_that():
    shares = np.array([0.2, 0.5, 0.9, 1.0])
    activity = held_activity_fraction(shares, 100, 700)
    assert_allclose(accelerator_w(100, 700, activity, 1, 2.5), 700 * shares)
    assert_allclose(activity, [held_activity_fraction(one, 100, 700) for one in shares])


def test_holding_through_pauses_is_for_their_time_alone():
    pauses = np.array([0.0, 0.1, 1.0])
    assert_allclose(held_w(1000, pauses, 600, 200, 0.8), [0, 5e4, 5e5])
    assert_allclose(held_w(1000, pauses, 600, 200, 0.8), [held_w(1000, one, 600, 200, 0.8) for one in pauses])
    assert added_fraction(held_w(1000, 1, 600, 200, 1), 2e6) == 0.2


def test_storage_takes_the_share_that_leaves_what_may_be_left():
    swings, left = np.array([0.0, 4e6, 4e6, 4e6]), np.array([0.0, 4e6, 1e6, 0.0])
    share = storage_share_fraction(swings, left)
    assert_array_equal(share, [0, 0, 0.75, 1])
    assert_allclose(buffered_swing_w(swings, share), left)


def test_storage_has_nothing_to_do_at_one_level():
    assert_array_equal(buffer_w(1e6, 1, [0.0, 1.0]), 0)


def test_storage_passes_what_an_integration_says():
    high, swing, taken = 0.7, 1e6, 0.3  # 70 % of the time at the upper level
    level = np.where(np.arange(1000) < 1000 * high, swing, 0.0)
    stored = np.clip(level.mean() - level, 0, None).mean() * taken
    assert_allclose(buffer_w(swing, taken, high), stored)


def test_percentile_of_phases():
    watts = [700, 580, 370, 220]
    assert_array_equal(exceeded_w([[0.7, 0.1, 0.1, 0.1], [0.04, 0.5, 0.3, 0.16], [0, 0, 0, 1]], watts, 0.05),
                       [700, 580, 220])  # fmt: skip
    assert exceeded_w([[0.7, 0.1, 0.1, 0.1]], watts, 0)[0] == 700
    assert exceeded_w([[0.7, 0.1, 0.1, 0.1]], watts, 1)[0] == 220
    assert exceeded_w([[0.1, 0.1, 0.1, 0.7]], watts[::-1], 0.05)[0] == 700  # the order of the phases does not matter


def test_hall():
    assert hall_p95_w(1e6, 100, 9000, 9000, 1) == 1e6
    assert hall_p95_w(1e6, 100, 9000, 8000, 1) == 1.1e6
    assert hall_nameplate_w(1e6, 0, 0) == 1e6


def test_array_equals_scalars():
    shares = np.array([[0.7, 0.2, 0.1], [0.03, 0.5, 0.47]])
    assert_allclose(exceeded_w(shares, [7, 5, 3], 0.05), [exceeded_w(one, [7, 5, 3], 0.05) for one in shares])
    clock = np.array([0.6, 0.8, 1.0])
    assert_allclose(accelerator_w(100, 700, 0.8, clock, 2.5), [accelerator_w(100, 700, 0.8, c, 2.5) for c in clock])
    devices = np.array([100.0, 400.0, 700.0])
    assert_allclose(hgx_h100_w(devices, 0.1), [hgx_h100_w(w, 0.1) for w in devices])
    assert_allclose(fabric_w(devices, 12, devices, 10), [fabric_w(n, 12, n, 10) for n in devices])
    assert_allclose(
        capped_clock_fraction(50, 700, devices, 1, 3), [capped_clock_fraction(50, 700, w, 1, 3) for w in devices]
    )


@pytest.mark.parametrize("fan_fraction", [0, 0.05, 0.12])
def test_node_holds_its_parts(fan_fraction):
    assert hgx_h100_w(500, fan_fraction) * 0.95 * (1 - fan_fraction) == pytest.approx(8 * 500 + 850 + 8 * 25 + 320)


@pytest.mark.parametrize("fan_fraction", [0, 0.05, 0.12])
def test_parts_and_overhead_make_a_node(fan_fraction):
    device_w = np.array([100.0, 500.0, 700.0])
    electronics_w = together_w(8, device_w) + 850 + together_w(8, 25) + 320
    whole_w = electronics_w + overhead_w(electronics_w, fan_fraction, 0.95)
    assert_allclose(whole_w, hgx_h100_w(device_w, fan_fraction))
    assert overhead_w(5000, 0, 1) == 0


def test_overhead_has_what_supplies_lose_at_no_load():
    whole_w = 4000 + overhead_w(4000, 0.1, 0.94, 17)
    assert_allclose(whole_w, node_w(500, 8, 0, 0, 25, 0, 0.1, 0.94, 17))
    assert overhead_w(0, 0.1, 0.5, 17) == 34


def test_meters_count_kilowatt_hours():
    assert_allclose(energy_kwh(energy_j([1e3, 2e6], 3600)), [1, 2000])


def test_hall_follows_its_units_as_far_as_they_go_together():
    assert_allclose(hall_p95_w(1e6, 100, 9000, 8000, [0, 0.5, 1]), [1e6, 1.05e6, 1.1e6])
    assert hall_p95_w(1e6, 100, 7000, 8000, 1) == 1e6


def test_a_tank_has_no_fans():
    whole = node_w(700, 8, 1200, 8, 25, 300, 0.15, 0.95)
    assert_allclose(fanless_w(whole, 0.15), node_w(700, 8, 1200, 8, 25, 300, 0, 0.95))
