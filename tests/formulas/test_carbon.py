"""Carbon and water: published accounts, limits."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from clusterplan.formulas.carbon import (
    building_kg_co2e,
    embodied_kg_co2e,
    grid_water_m3,
    location_based_kg_co2e,
    market_based_kg_co2e,
    site_water_m3,
)

YEAR_S = 365.25 * 86400
KWH_J = 3.6e6
H_S = 3600.0


# Touvron et al., arXiv:2302.13971, Table 15: GPU-hours of 400 W at PUE 1.1, 0.385 kg/kWh, MWh and tonnes as printed.
@pytest.mark.parametrize(
    ("device_h", "mwh", "tonnes"), [(82432, 36, 14), (135168, 59, 23), (530432, 233, 90)], ids=["7B", "13B", "33B"]
)
def test_llama_family(device_h, mwh, tonnes):
    energy_j = device_h * H_S * 400 * 1.1
    assert_allclose(energy_j / KWH_J / 1e3, mwh, rtol=0.02)
    assert_allclose(location_based_kg_co2e(energy_j, 0.385) / 1e3, tonnes, rtol=0.02)


def test_bloom_operation():
    # Luccioni et al., JMLR 24 (2023): 433,196 kWh at 57 g/kWh make 24.69 t.
    assert_allclose(location_based_kg_co2e(433196 * KWH_J, 0.057), 24690, rtol=1e-3)


def test_bloom_equipment():
    # Luccioni et al., JMLR 24 (2023): 1,082,990 GPU-hours on servers of eight; 2500 kg a server and 150 kg a GPU, six
    # years, 85 % in use: 7.57 t and 3.64 t.
    servers = embodied_kg_co2e(1, 2500, 1082990 / 8 * H_S, 6 * YEAR_S, 0.85)
    devices = embodied_kg_co2e(1, 150, 1082990 * H_S, 6 * YEAR_S, 0.85)
    assert_allclose([servers, devices], [7570, 3640], rtol=5e-3)


def test_making_is_a_small_part_on_a_dirty_grid_and_a_large_one_on_a_clean_one():
    # 1 kW a device for 80 % of five years against 880 kg of device and server share: 6 % at 370 g/kWh, 45 % at 30.
    used_j = 1e3 * 0.8 * 5 * YEAR_S
    made = embodied_kg_co2e(1, 880, 0.8 * 5 * YEAR_S, 5 * YEAR_S, 0.8)
    operation = location_based_kg_co2e(used_j, [0.370, 0.030])
    assert_allclose(made / (made + operation), [0.06, 0.45], atol=0.01)


def test_whole_life_bears_the_whole():
    assert embodied_kg_co2e(3, 164, 5 * YEAR_S, 5 * YEAR_S, 1) == 3 * 164
    assert building_kg_co2e(1e6, 2, 20 * YEAR_S, 20 * YEAR_S) == 2e6


def test_no_contract_at_the_grid_mean_is_location_based():
    assert market_based_kg_co2e(1e12, 0, 0, 0.4) == location_based_kg_co2e(1e12, 0.4)


def test_more_contract_never_more_carbon():
    assert np.all(np.diff(market_based_kg_co2e(1e12, np.linspace(0, 1, 11), 0.01, 0.4)) < 0)
    assert market_based_kg_co2e(1e12, 1, 0, 0.4) == 0


def test_site_and_grid_water():
    # One MWh of equipment at PUE 1.2: 1.8 l/kWh at the site, 4.35 l/kWh of the building at the power plants.
    it_j = 1e3 * KWH_J
    assert_allclose(site_water_m3(it_j, 1.8) + grid_water_m3(1.2 * it_j, 4.35), 1.8 + 5.22)


def test_array_equals_scalars():
    energy_j = np.array([0, 1e9, 1e15])
    assert_allclose(location_based_kg_co2e(energy_j, 0.4), [location_based_kg_co2e(e, 0.4) for e in energy_j])
    assert_allclose(
        market_based_kg_co2e(energy_j, 0.5, 0, 0.4), [market_based_kg_co2e(e, 0.5, 0, 0.4) for e in energy_j]
    )
    assert_allclose(site_water_m3(energy_j, 1.8), [site_water_m3(e, 1.8) for e in energy_j])
    units = np.array([8, 1024, 131072])
    assert_allclose(
        embodied_kg_co2e(units, 164, 1e7, 1e8, 0.9), [embodied_kg_co2e(n, 164, 1e7, 1e8, 0.9) for n in units]
    )
