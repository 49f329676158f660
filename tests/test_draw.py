"""How the equipment draws its power: levels in order, parts that add up, swings that smoothing takes off."""

import itertools
from dataclasses import fields, replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from clusterplan import run
from clusterplan.draw import FLOOR, Level, Mitigation, Swings, draw
from test_run import FABRIC, MANY, OPERATIONS, RACK, SYSTEM, circumstances, work


def drawn(asked=MANY, **operations):
    given = circumstances(operations=replace(OPERATIONS, **operations))
    outcome = run.evaluate(given, asked)
    return draw(given, asked, outcome), outcome


def test_nodes_at_work_are_their_parts():
    found, outcome = drawn()
    it, used = outcome.energy.it, outcome.fleet.used_devices / SYSTEM.node_devices
    nodes = it.accelerators_w + it.host_w + it.scaleup_w + it.interfaces_w + it.fans_and_supplies_w
    assert_allclose(found.node.mean_w * used, nodes)
    assert_allclose(found.hall.mean_w, outcome.energy.mean_it_w)


def test_nodes_that_smooth_are_their_parts_too():
    found, outcome = drawn(floor_activity_fraction=0.6, buffered_swing_fraction=0.5)
    it, used = outcome.energy.it, outcome.fleet.used_devices / SYSTEM.node_devices
    nodes = it.accelerators_w + it.host_w + it.scaleup_w + it.interfaces_w + it.fans_and_supplies_w
    assert_allclose(found.node.mean_w * used, nodes)


def test_levels_are_in_order():
    found, _ = drawn()
    for level in (found.node, found.rack, found.hall):
        assert np.all(level.mean_w <= level.p95_w)
        assert np.all(level.p95_w <= level.nameplate_w)


def test_a_rack_is_its_nodes():
    found, _ = drawn()  # two nodes to a rack
    for name in (one.name for one in fields(Level)):
        assert_allclose(getattr(found.rack, name), 2 * getattr(found.node, name))
    given = circumstances(system=RACK)
    found = draw(given, MANY, run.evaluate(given, MANY))
    assert_allclose(found.rack.mean_w, 18 * found.node.mean_w)  # 72 devices in nodes of four
    assert found.rack.nameplate_w == RACK.rack_w == 130e3


def test_swing_at_steps_by_head():
    found, _ = drawn(work(1000), swing_coherence_fraction=1.0, swing_ramp_s=0.5)
    # From 700 W to 100 + 0.45 x 600 = 370 W, behind supplies of 0.95.
    assert_allclose(found.swings.step_w, 1000 * 330 / 0.95)
    assert_allclose(found.swings.step_w_per_s, 2 * found.swings.step_w)


def test_swing_at_stops_by_head():
    found, _ = drawn(work(1000, shares=(1, 0, 0, 0)))
    assert_allclose(found.swings.stop_w, 1000 * (700 - 220) / 0.95)
    assert_array_equal(found.swings.step_w, 0)  # nothing pauses in such a step


@pytest.mark.parametrize("operations", [{}, {"matrix_activity_fraction": 0.1}, {"floor_activity_fraction": 1.0}])
def test_swings_are_never_negative(operations):
    found, _ = drawn(**operations)
    for one in fields(Swings):
        assert np.all(getattr(found.swings, one.name) >= 0), one.name


def test_no_smoothing_costs_nothing():
    found, _ = drawn()
    assert_array_equal(found.swings.smoothing_w, 0)
    assert_array_equal(found.swings.buffer_j, 0)


def test_the_highest_floor_leaves_no_swing_at_steps():
    found, _ = drawn(floor_activity_fraction=1.0)
    assert_array_equal(found.swings.step_w, 0)


@pytest.mark.parametrize("way", ["floor_activity_fraction", "buffered_swing_fraction"])
def test_smoothing_lessens_swings_and_takes_what_the_plan_counts(way):
    shares = [0.5, 0.7, 0.9]
    found = [drawn(**{way: share}) for share in shares]
    bare, before = drawn()
    swings = [bare.swings.step_w, *(one.swings.step_w for one, _ in found)]
    assert all(np.all(later < sooner) for sooner, later in itertools.pairwise(swings))
    for one, outcome in found:
        assert np.all(one.swings.smoothing_w > 0)
        assert_allclose(one.swings.smoothing_w, outcome.energy.mean_it_w - before.energy.mean_it_w, rtol=1e-9)
        assert np.all(outcome.cost.total_usd > before.cost.total_usd)
        assert_array_equal(outcome.progress.wall_s, before.progress.wall_s)


def test_storage_without_loss_costs_nothing():
    found, outcome = drawn(buffered_swing_fraction=0.5, buffer_efficiency=1.0)
    assert_allclose(found.swings.smoothing_w, 0, atol=1e-6)
    assert np.all(found.swings.buffer_j > 0)
    assert_allclose(outcome.energy.mean_it_w, drawn()[1].energy.mean_it_w)


def test_array_equals_rows():
    found, _ = drawn()
    for row, (devices, step_s) in enumerate(zip(MANY.used_devices, MANY.step_s, strict=True)):
        alone, _ = drawn(work(devices, step_s=step_s))
        assert_allclose(alone.hall.p95_w, found.hall.p95_w[row])
        for one in fields(Swings):
            assert_allclose(getattr(alone.swings, one.name), getattr(found.swings, one.name)[row])


def test_the_network_is_in_the_hall_alone():
    given = circumstances()
    cheap = replace(given, machine=replace(given.machine, fabric=replace(FABRIC, optic_w=0.0, switch_w_per_port=0.0)))
    found, less = (draw(one, MANY, run.evaluate(one, MANY)) for one in (given, cheap))
    assert_array_equal(found.rack.mean_w, less.rack.mean_w)
    assert np.all(found.hall.nameplate_w > less.hall.nameplate_w)


def test_storage_by_head():
    found, _ = drawn(work(1000), swing_coherence_fraction=1.0, buffered_swing_fraction=0.5)
    # 0.82 of a step of 6 s at 700 W, the rest at 370 W; what is stored in the rest lifts it to half of the way.
    assert_allclose(found.swings.buffer_j, 6 * 1000 * 330 * 0.5 * 0.82 * 0.18)


# Ways to even swings out ----------------------------------------------------------------------------------------------


def test_a_floor_by_head():
    found, outcome = drawn(work(1000), swing_coherence_fraction=1.0)
    floor = found.mitigation.floor
    # From 700 W to 0.9 of it, where it was 370 W in exposed communication, behind supplies of 0.95.
    assert_allclose(floor.left_w, 1000 * 70 / 0.95)
    assert_allclose(floor.added_kwh * 3.6e6, floor.added_w * outcome.energy.pue * outcome.progress.wall_s)
    assert_allclose(floor.added_usd, floor.added_kwh * circumstances().site.usd_per_kwh)
    assert_allclose(floor.added_fraction, floor.added_w / outcome.energy.mean_it_w)


def test_a_floor_takes_what_a_plan_with_it_counts():
    bare, before = drawn()
    activity = (FLOOR * 700 - 100) / 600
    found, outcome = drawn(floor_activity_fraction=activity)
    assert_allclose(bare.mitigation.floor.left_w, found.swings.step_w)
    assert_allclose(bare.mitigation.floor.added_w, outcome.energy.mean_it_w - before.energy.mean_it_w)


def test_storage_takes_what_a_plan_with_it_counts():
    bare, before = drawn()
    share = float(1 - (bare.mitigation.floor.left_w / bare.swings.step_w)[0])
    found, outcome = drawn(buffered_swing_fraction=share)
    storage = bare.mitigation.storage
    assert_allclose(storage.left_w, bare.mitigation.floor.left_w)
    assert_allclose(storage.left_w, found.swings.step_w)
    assert_allclose(storage.added_w, outcome.energy.mean_it_w - before.energy.mean_it_w)
    assert_allclose(bare.mitigation.storage_device_j * outcome.fleet.used_devices, found.swings.buffer_j)


def test_holding_power_through_checkpoints_by_head():
    found, outcome = drawn(work(1000, shares=(1, 0, 0, 0)))
    stalled, fans = outcome.progress.stall_loss_fraction, SYSTEM.fan_fraction
    assert_allclose(found.mitigation.checkpoints.added_w, 1000 * stalled * (700 - 220) / 0.95 / (1 - fans))
    assert_array_equal(found.mitigation.checkpoints.left_w, 0)


def test_ways_are_of_the_run_without_any():
    """But for the PUE, which is that of the plan."""
    bare, smooth = drawn()[0].mitigation, drawn(floor_activity_fraction=0.6, buffered_swing_fraction=0.5)[0].mitigation
    for way in ("floor", "storage", "checkpoints"):
        for one in fields(Mitigation):
            values = [getattr(getattr(ways, way), one.name) for ways in (bare, smooth)]
            assert_allclose(*values, rtol=1e-3 if one.name in {"added_kwh", "added_usd"} else 1e-9)


def test_a_step_without_pauses_needs_no_smoothing():
    ways = drawn(work(1000, shares=(1, 0, 0, 0)))[0].mitigation
    for one in (*(getattr(ways.floor, name) for name in ("left_w", "added_w", "added_usd")), ways.storage_device_j):
        assert_array_equal(one, 0)


def test_a_floor_is_no_higher_than_products_draw():
    ways = drawn(matrix_activity_fraction=0.7)[0].mitigation
    assert_array_equal(ways.floor.left_w, 0)
    assert np.all(ways.floor.added_w > 0)
