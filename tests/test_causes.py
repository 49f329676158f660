"""Interruptions by cause: they add up, and a cause that is changed changes nothing else."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from clusterplan import run
from clusterplan.causes import BESIDE, OTHER, interruptions_by_cause
from clusterplan.hardware import Accelerator, Fabric, System
from test_run import CATALOG, DEVICE, MANY, OPERATIONS, SYSTEM, circumstances, work

LLAMA_FABRIC = CATALOG.load(Fabric, "roce-400g-7to1")

# Llama 3 Herd of Models, arXiv:2407.21783, table 5
OF_DEVICE = {"device": 184 / 268, "memory": 72 / 268, "silent": 6 / 268, "thermal": 6 / 268}
OF_NODE = {"software": 63 / 151, "host": 40 / 151, "network": 35 / 151, "nic": 7 / 151, "drive": 3 / 151}


def given(cause_factor=None, **changes):
    return circumstances(
        device=replace(DEVICE, failure_fraction=OF_DEVICE),
        system=replace(SYSTEM, failure_fraction=OF_NODE),
        operations=replace(OPERATIONS, cause_factor=cause_factor or {}),
        **changes,
    )


def caused(asked=MANY, **changes):
    here = given(**changes)
    outcome = run.evaluate(here, asked)
    return interruptions_by_cause(here, outcome), outcome


@pytest.mark.parametrize("factors", [{}, {"memory": 0.5}, {"memory": 3.0, "software": 0.0}])
def test_causes_add_up(factors):
    found, outcome = caused(cause_factor=factors)
    assert_allclose(sum(found.values()), outcome.progress.expected_interruptions)


def test_published_counts():
    # 419 interruptions of 16,384 devices; 3 of them, of the supplies, are left out of the shares above.
    found, _ = caused(work(16384))
    total = sum(found.values())
    for cause, count in {"memory": 72, "software": 63, "network": 35, "nic": 7, OTHER: 3}.items():
        assert_allclose(found[cause] / total, count / 419, rtol=1e-9)


def test_shares_do_not_change_the_rate():
    without = run.evaluate(circumstances(), MANY)
    assert_array_equal(caused()[1].progress.mtbf_s, without.progress.mtbf_s)
    assert_array_equal(caused(cause_factor={"memory": 1.0})[1].progress.mtbf_s, without.progress.mtbf_s)


def test_no_shares_are_one_cause():
    here = circumstances()
    outcome = run.evaluate(here, MANY)
    assert_allclose(interruptions_by_cause(here, outcome)[OTHER], outcome.progress.expected_interruptions)


@pytest.mark.parametrize("cause", [*OF_DEVICE, *OF_NODE])
def test_more_failures_of_a_cause_never_help(cause):
    outcomes = [caused(cause_factor={cause: factor})[1] for factor in (0.0, 0.5, 1.0, 2.0, 10.0)]
    for name, order in (("mtbf_s", -1), ("goodput_fraction", -1), ("wall_s", 1)):
        values = np.array([getattr(one.progress, name) for one in outcomes])
        assert np.all(order * np.diff(values, axis=0) >= -1e-9 * values[1:]), name
    spares = np.array([one.fleet.spare_nodes for one in outcomes])
    assert np.all(np.diff(spares, axis=0) >= 0)


def test_twice_the_cause_is_twice_its_rate():
    found, outcome = caused(cause_factor={"memory": 2.0})
    before, plain = caused()
    rates = [one["memory"] / run.progress.expected_interruptions / run.progress.mtbf_s for one, run in
             ((found, outcome), (before, plain))]  # fmt: skip
    assert_allclose(rates[0], 2 * rates[1])


def test_failures_on_other_machines_are_told_apart():
    found, outcome = caused(failures_beside_s=1e-5)
    assert np.all(found[BESIDE] > 0)
    assert_allclose(sum(found.values()), outcome.progress.expected_interruptions)


def test_nothing_fails():
    here = circumstances(
        device=replace(DEVICE, failures_per_device_s=0.0), system=replace(SYSTEM, failures_per_node_s=0.0)
    )
    found = interruptions_by_cause(here, run.evaluate(here, MANY))
    assert all(np.all(count == 0) for count in found.values())


def test_a_cause_that_nobody_knows_is_refused():
    (reason,) = run.unsupported(given(cause_factor={"memroy": 0.5}))
    assert "no failures of the cause memroy (has: device, memory" in reason


@pytest.mark.parametrize("name", CATALOG.names(Accelerator))
def test_shares_of_accelerators(name):
    assert_allclose(sum(CATALOG.load(Accelerator, name).failure_fraction.values()), 1, atol=1e-9)


@pytest.mark.parametrize("name", CATALOG.names(System))
def test_shares_of_systems(name):
    assert_allclose(sum(CATALOG.load(System, name).failure_fraction.values()), 1, atol=1e-9)


# Links and switches ---------------------------------------------------------------------------------------------------


def on_llama_fabric(asked=MANY, **cause_factor):
    here = given(cause_factor=cause_factor)
    here = replace(here, machine=replace(here.machine, fabric=LLAMA_FABRIC))
    outcome = run.evaluate(here, asked)
    return interruptions_by_cause(here, outcome), outcome


def test_failures_of_the_network_are_those_of_links_and_switches():
    found, outcome = on_llama_fabric()
    before, plain = caused()
    assert "network" not in found
    assert_allclose(found["link"] + found["switch"], before["network"] / plain.progress.expected_interruptions
                    * outcome.progress.expected_interruptions)  # fmt: skip
    assert_allclose(sum(found.values()), outcome.progress.expected_interruptions)
    assert_array_equal(outcome.progress.mtbf_s, plain.progress.mtbf_s)


def test_links_and_switches_of_llama_3_by_head():
    # 35 of 419 in all; one link a device at 0.057 % a month, one switch for 16 of them at 0.051 % (HPN, SIGCOMM 2024).
    found, _ = on_llama_fabric(work(16384))
    total, links = sum(found.values()), 16 * 0.057 / (16 * 0.057 + 0.051)
    assert_allclose(found["link"] / total, 35 / 419 * links)
    assert_allclose(found["switch"] / total, 35 / 419 * (1 - links))


def test_links_and_switches_can_be_changed_alone_or_as_the_network():
    (before, plain) = on_llama_fabric()
    for factors in ({"link": 2.0}, {"switch": 3.0}, {"network": 0.5}, {"network": 0.5, "switch": 3.0}):
        found, outcome = on_llama_fabric(**factors)
        assert_allclose(sum(found.values()), outcome.progress.expected_interruptions)
        scale = plain.progress.expected_interruptions * plain.progress.mtbf_s
        scale = scale / (outcome.progress.expected_interruptions * outcome.progress.mtbf_s)
        for part in ("link", "switch"):
            assert_allclose(found[part] * scale, factors.get(part, factors.get("network", 1.0)) * before[part])


def test_networks_whose_parts_nobody_knows_stay_one_cause():
    assert "network" in caused()[0]
    assert run.unsupported(given(cause_factor={"link": 2.0}))
    torus = CATALOG.load(Fabric, "torus-ocs")
    here = given()
    here = replace(here, machine=replace(here.machine, fabric=torus))
    assert "network" in interruptions_by_cause(here, run.evaluate(here, MANY))


@pytest.mark.parametrize("name", CATALOG.names(Fabric))
def test_parts_of_all_fabrics(name):
    fabric = CATALOG.load(Fabric, name)
    here = given()
    here = replace(here, machine=replace(here.machine, fabric=fabric))
    outcome = run.evaluate(here, MANY)
    found = interruptions_by_cause(here, outcome)
    assert ("link" in found) == (run.part_rates(fabric) is not None)
    assert_allclose(sum(found.values()), outcome.progress.expected_interruptions)
    assert all(np.all(np.isfinite(count) & (count >= 0)) for count in found.values())
