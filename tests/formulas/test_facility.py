"""Facility: conversion, PUE, water, reused heat."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from clusterplan.formulas.facility import (
    chain_efficiency,
    distribution_fraction,
    energy_reuse_effectiveness,
    facility_w,
    makeup_l_per_kwh,
    part_load_efficiency,
    part_w,
    pue,
    reused_fraction,
    reused_kwh,
    source_l_per_kwh,
    supply_fraction,
    supply_load_fraction,
)
from clusterplan.formulas.heat import (
    loop_fraction,
    loop_rejection_fraction,
    pad_heat_fraction,
)
from clusterplan.formulas.weather import (
    bin_peak,
)

# Electrical side ------------------------------------------------------------------------------------------------------


def test_double_conversion_at_part_load():
    # A typical vendor curve of double conversion: 93.9 %, 96.1 % and 96.2 % at 20, 50 and 100 % of load.
    assert_allclose(part_load_efficiency([0.2, 0.5, 1], 0.961, 0.49, 0.22), [0.939, 0.961, 0.962], atol=1e-3)


def test_transformer_at_part_load():
    # Losses of 0.2 % standing and 0.6 % resistive of the rating, as vendors print for 1-3 MVA.
    load = np.array([0.1, 0.5, 1.0])
    by_rating = load / (load + 0.002 + 0.006 * load**2)
    assert_allclose(part_load_efficiency(load, by_rating[1], 4 / 7, 3 / 7), by_rating)


def test_supplies_at_half_load_have_their_stated_efficiency():
    assert part_load_efficiency(0.5, 0.96, 0.49, 0.22) == pytest.approx(0.96)
    assert part_load_efficiency([0.1, 0.5, 1], 1, 0.49, 0.22) == pytest.approx(1)


def test_nearly_idle_supplies_waste_most():
    efficiency = part_load_efficiency([0.01, 0.05, 0.1, 0.2, 0.5], 0.96, 0.49, 0.22)
    assert np.all(np.diff(efficiency) > 0)


def test_redundant_supplies_carry_less():
    assert_allclose(supply_load_fraction(8e6, 10e6, [1, 4 / 3, 2]), [0.8, 0.6, 0.4])


def test_parts_add_up_to_pue():
    efficiency = chain_efficiency(0.96, 0.99)
    parts = supply_fraction(efficiency) + distribution_fraction(0.02) + 0.1 + 0.01
    assert_allclose(pue(efficiency, 0.02, 0.1, 0.01), 1 + parts, rtol=1e-14)
    assert_allclose(facility_w(1e6, pue(0.96, 0.02, 0.1, 0.01)) - part_w(1e6, 0.1), 1e6 * pue(0.96, 0.02, 0, 0.01))


def test_parts_of_a_loop_add_up():
    outside = loop_rejection_fraction(0.05, 0.01, [0.02, 0.2])
    assert_allclose(loop_fraction(0.05, 0.01, [0.02, 0.2]), 0.06 + outside)


def test_nothing_lost_is_one():
    assert pue(1, 0, 0, 0) == 1


def test_losses_only_raise_pue():
    assert pue(0.95, 0.02, 0.1, 0.01) > pue(0.96, 0.02, 0.1, 0.01) > pue(0.96, 0.01, 0.1, 0.01)


def test_building_power_is_equipment_times_pue():
    assert_allclose(facility_w([0, 1e6, 150e6], 1.1), [0, 1.1e6, 165e6])


# Water ----------------------------------------------------------------------------------------------------------------


def test_dry_coolers_use_water_on_hot_days_alone():
    assert_array_equal(pad_heat_fraction([10, 28], [5, 20], 28, 0.7, 10), [0, 0])
    assert pad_heat_fraction(40, 22, 28, 0.7, 10) > 0


def test_pads_before_a_dry_cooler_take_the_heat_of_the_chillers_too():
    alone = pad_heat_fraction([20, 35, 40], [15, 20, 22], 28, 0.7, 10)
    assert alone[0] == 0
    assert_allclose(
        pad_heat_fraction([20, 35, 40], [15, 20, 22], 28, 0.7, 10, [0.02, 0.1, 0.2]), alone * [1.02, 1.1, 1.2]
    )


def test_peak_over_the_bins_of_several_sites():
    assert_array_equal(bin_peak([[1.1, 1.3, 1.2], [1.0, 1.0, 1.0]]), [1.3, 1.0])


def test_water_of_site_and_power_plants():
    assert source_l_per_kwh(0, 1.2, 4.52) == pytest.approx(1.2 * 4.52)


def test_heat_reuse_of_esif():
    # NREL TP-7A40-72196: PUE 1.034, 10.5 % of the heat reused: ERE 0.929.
    reused = reused_fraction(1, 0.105, 1.034)
    assert_allclose(energy_reuse_effectiveness(1.034, reused), 0.929, atol=1e-3)
    assert_allclose(reused_kwh(1.034e6, reused), 0.105e6)


def test_no_heat_sold_leaves_pue():
    assert energy_reuse_effectiveness(1.2, reused_fraction(0, 0.4, 1.2)) == 1.2


def test_salts_are_drained_with_a_part_of_the_water():
    assert_allclose(makeup_l_per_kwh(1.5, [2, 4, 1e9]), [3, 2, 1.5])
