"""Cost: textbook annuities, published estimates, limits."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from clusterplan.formulas.cost import (
    billed_s,
    break_even_utilisation,
    capital_recovery_per_year,
    carbon_usd,
    colocation_usd,
    demand_usd,
    depreciation_usd,
    energy_usd,
    facility_capex_usd,
    network_capex_usd,
    own_usd,
    rent_usd,
    sold_heat_usd,
    staff_usd,
    storage_capex_usd,
    storage_rent_usd,
    support_usd,
    systems_capex_usd,
    usd_per_device_h,
    usd_per_million_tokens,
    water_usd,
)

H_S = 3600.0
YEAR_S = 8766 * H_S
MONTH_S = YEAR_S / 12
KWH_J = 3.6e6


def test_sold_heat_costs_less_than_nothing():
    assert_allclose(sold_heat_usd([0.0, 1e6], 0.02), [0, -20e3])


PRICED = [  # the formula with everything but its price
    pytest.param(lambda price: rent_usd(1024, 1e6, price), id="rent"),
    pytest.param(lambda price: own_usd(price, 0.08, 5 * YEAR_S, 0.1, 1e6, 0.9), id="own"),
    pytest.param(lambda price: own_usd(1e6, price / 100, 5 * YEAR_S, 0.1, 1e6, 0.9), id="interest"),
    pytest.param(lambda price: depreciation_usd(price, 0.276, 1e6, 1e6), id="depreciation"),
    pytest.param(lambda price: systems_capex_usd(128, price), id="systems"),
    pytest.param(lambda price: network_capex_usd(1024, 3, price, 4, 1), id="switch ports"),
    pytest.param(lambda price: network_capex_usd(1024, 3, 1, 4, price), id="optics"),
    pytest.param(lambda price: network_capex_usd(1024, 0, 0, 0, 0, price), id="network"),
    pytest.param(lambda price: storage_capex_usd(1e15, price), id="storage"),
    pytest.param(lambda price: facility_capex_usd(1e6, price, 1.08), id="facility"),
    pytest.param(lambda price: colocation_usd(1e6, 1e6, price), id="colocation"),
    pytest.param(lambda price: energy_usd(1e12, price), id="energy"),
    pytest.param(lambda price: demand_usd(1e6, 1e6, price), id="demand"),
    pytest.param(lambda price: staff_usd(10, price, 1e6), id="staff"),
    pytest.param(lambda price: support_usd(1e6, price / 100, 1e6), id="support"),
    pytest.param(lambda price: storage_rent_usd(1e15, 1e6, price), id="storage rent"),
    pytest.param(lambda price: water_usd(1e3, price), id="water"),
    pytest.param(lambda price: carbon_usd(1e3, price), id="carbon"),
]


@pytest.mark.parametrize("cost", PRICED)
def test_higher_price_is_dearer(cost):
    prices = np.array([0.5, 1.0, 2.0, 4.0])
    assert np.all(np.diff(cost(prices)) > 0)


@pytest.mark.parametrize("cost", PRICED)
def test_array_equals_scalars(cost):
    prices = np.array([0.5, 1.0, 2.0, 4.0])
    assert_allclose(cost(prices), [cost(price) for price in prices])


# Ownership ------------------------------------------------------------------------------------------------------------


def test_capital_recovery():
    # Tables of engineering economics: 8 % over four, five and six years.
    assert_allclose(capital_recovery_per_year(0.08, np.array([4, 5, 6]) * YEAR_S), [0.3019, 0.2505, 0.2163], atol=1e-4)


def test_capital_recovery_without_interest_is_a_straight_line():
    assert_allclose(capital_recovery_per_year(0, 5 * YEAR_S), 0.2)


def test_payments_discounted_are_worth_the_price():
    rate, years = 0.1, 5
    payment = own_usd(1e6, rate, years * YEAR_S, 0.2, YEAR_S)
    worth = sum(payment / (1 + rate) ** year for year in range(1, years + 1)) + 0.2e6 / (1 + rate) ** years
    assert_allclose(worth, 1e6)


def test_what_keeps_its_value_costs_interest_alone():
    assert_allclose(own_usd(1e6, 0.08, 5 * YEAR_S, 1, YEAR_S), 80e3)


def test_idle_hours_are_paid_by_the_busy_ones():
    assert_allclose(own_usd(1e6, 0.08, 5 * YEAR_S, 0, 1e7, 0.5), 2 * own_usd(1e6, 0.08, 5 * YEAR_S, 0, 1e7, 1))


def test_value_is_lost_once():
    # Three runs in a row lose what one run of the same length loses.
    starts = np.array([0, 0.5, 1.5]) * YEAR_S
    lengths = np.array([0.5, 1.0, 0.25]) * YEAR_S
    parts = depreciation_usd(40e3, 0.276, starts, lengths)
    assert_allclose(np.sum(parts), depreciation_usd(40e3, 0.276, 0, 1.75 * YEAR_S))


# Published estimates --------------------------------------------------------------------------------------------------


def test_llama_405b_by_depreciation():
    # Epoch (Cottier et al., arXiv:2405.21015, and its open code): 30.84 M hours of H100 at 41,197.5 USD in a server
    # since 2023-12-11, start 2024-03-07; 0.14 orders of magnitude a year; interconnect 19 % of the cluster;
    # 0.7 kW x 1.82 x 0.75 at PUE 1.1 and 0.083 USD/kWh: 51.0 M USD of 2023. The dollars of 2024 are some 3 % smaller.
    device_h = 30.84e6
    run_s = device_h / 16384 * H_S
    decline = 1 - 10**-0.14
    hardware = 16384 * depreciation_usd(41197.5, decline, 87 / 365.25 * YEAR_S, run_s) / (1 - 0.19)
    energy = energy_usd(device_h * 0.7 * 1.82 * 0.75 * 1.1 * KWH_J, 0.083)
    assert_allclose(hardware + energy, 51.0e6, rtol=0.08)
    assert 0.02 < energy / (hardware + energy) < 0.06


def test_deepseek_v3_by_rent():
    # DeepSeek-AI, arXiv:2412.19437, Table 1: 2.788 M hours of H800 at 2 USD make 5.576 M USD, for 14.8 T tokens.
    total = rent_usd(2048, 2.788e6 / 2048 * H_S, 2)
    assert_allclose(total, 5.576e6)
    assert_allclose(usd_per_million_tokens(total, 14.8e12), 0.3768, atol=1e-4)


def test_network_of_two_tiers():
    # H100 cluster cost sheet, August 2024: 4248 USD a device in two tiers; a 64-port switch costs 36-50 k USD.
    assert_allclose(network_capex_usd(1024, 3, 43000 / 64, 4, 600) / 1024, 4248, rtol=0.1)


# Limits ---------------------------------------------------------------------------------------------------------------


def test_no_time_costs_nothing():
    spent = [
        rent_usd(1024, 0, 2),
        own_usd(1e6, 0.08, 5 * YEAR_S, 0, 0),
        depreciation_usd(1e6, 0.276, YEAR_S, 0),
        colocation_usd(1e6, 0, 150),
        demand_usd(1e6, 0, 10),
        staff_usd(10, 300e3, 0),
        support_usd(1e6, 0.04, 0),
        storage_rent_usd(1e15, 0, 20),
    ]
    assert_allclose(spent, 0)


def test_units_of_the_trade():
    assert_allclose(energy_usd(1e3 * KWH_J, 0.08), 80)  # a megawatt-hour
    assert_allclose(demand_usd(1e6, MONTH_S, 10), 10e3)  # a megawatt for a month
    assert_allclose(storage_rent_usd(1e15, MONTH_S, 20), 20e3)  # a petabyte for a month
    assert_allclose(facility_capex_usd(1e6, 11.7), 11.7e6)  # a megawatt


def test_a_term_is_paid_to_its_end():
    assert_allclose(billed_s([10, 100], 50), [50, 100])


def test_break_even():
    """All that was bought, fully used, against the rent; bills above the rent: never."""
    assert break_even_utilisation(50, 0, 100) == 0.5
    assert break_even_utilisation(100, 0, 100) == 1
    assert break_even_utilisation(1, 100, 100) == np.inf
    assert_allclose(break_even_utilisation([50, 50], [0, 50], 100), [0.5, 1.0])


def test_delivered_hours():
    assert_allclose(usd_per_device_h([100, 200], 10, 3600), [10, 20])
