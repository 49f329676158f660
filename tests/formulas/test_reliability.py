"""Failures, restarts and spares: published figures, limits."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from clusterplan.formulas.reliability import (
    changed_failures_s,
    expected_interruptions,
    idle_devices,
    interruptions_by_cause,
    job_mtbf_s,
    mean_down_s,
    mean_mtbf_s,
    nodes,
    part_failure_fraction,
    purchase_units,
    racks,
    spare_devices,
    spare_nodes,
)

DAY_S = 86400.0


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


# Alibaba HPN, SIGCOMM 2024: 0.057 % of links and 0.051 % of top-of-rack switches in a month; Llama 3 had 16,384 and
# 1,024 of them
def test_links_and_switches_of_llama_3_at_the_rates_of_another_fleet():
    month_s = 365.25 / 12 * DAY_S
    links, switches = 16384 * 0.00057 / month_s, 1024 * 0.00051 / month_s
    assert_allclose((links + switches) * 54 * DAY_S, 17.5, atol=0.05)  # 35 were counted
    assert_allclose(part_failure_fraction(35, 16384, 0.00057, 1024, 0.00051), 35 * links / (links + switches))


def test_parts_of_the_network_share_what_it_has():
    links, switches = np.array([64.0, 1024, 1e6]), np.array([1.0, 64, 31250])
    one, other = (part_failure_fraction(0.2, *parts) for parts in
                  ((links, 2e-10, switches, 3e-10), (switches, 3e-10, links, 2e-10)))  # fmt: skip
    assert_allclose(one + other, 0.2)
    assert_array_equal(part_failure_fraction(0.2, links, 2e-10, switches, 0), 0.2)
    alone = [part_failure_fraction(0.2, n, 2e-10, m, 3e-10) for n, m in zip(links, switches, strict=True)]
    assert_allclose(one, alone)


# Kokolis et al., HPCA 2025, arXiv:2410.21680: 6.50 per 1,000 node-days on RSC-1; projected MTTF 1.8 h at
# 16,384 GPUs and 0.23 h at 131,072
def test_rsc_1_projection():
    assert_allclose(fleet_mtbf_s([16384, 131072], 6.5) / 3600, [1.8, 0.23], atol=0.05)


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


def test_spares_array_equals_scalars():
    nodes = np.array([1, 100, 10_000, 1_000_000])
    assert_array_equal(spare_nodes(nodes, 1, 100, 0.01), [spare_nodes(n, 1, 100, 0.01) for n in nodes])
