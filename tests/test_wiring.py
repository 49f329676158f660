"""Networks of shipped fabrics beside published clusters."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from clusterplan.catalog import Catalog
from clusterplan.formulas import power
from clusterplan.hardware import Fabric, System
from clusterplan.wiring import device_bytes_per_s, wiring

CATALOG = Catalog()
FABRICS = CATALOG.names(Fabric)


def fabric(name):
    return CATALOG.load(Fabric, name)


def at(name, devices, system=None):
    of = fabric(name) if isinstance(name, str) else name
    return wiring(of, device_bytes_per_s(of, system and CATALOG.load(System, system)), devices)


# C. Zhao et al., "Insights into DeepSeek-V3," arXiv:2505.09343, Table 3: endpoints, switches and links between switches
# of two tiers, eight planes, three tiers (64 ports each) and a dragonfly.
@pytest.mark.parametrize(
    ("name", "endpoints", "switches", "links"),
    [("ndr-fat-tree", 2048, 96, 2048), ("ndr-8plane", 16384, 768, 16384), ("ndr-fat-tree", 65536, 5120, 131072)],
)
def test_trees_of_the_deepseek_paper(name, endpoints, switches, links):
    found = at(name, endpoints)
    assert found.switches.sum() == switches
    assert found.links[:, 1:].sum() == links


def test_dragonfly_of_the_deepseek_paper():
    shipped = fabric("slingshot-11")
    group, rest = shipped.tiers
    of = replace(shipped, tiers=(replace(group, span_devices=512), replace(rest, span_devices=10**6)))
    found = at(of, 261_632)
    assert found.switches.sum() == 16352
    assert found.links.sum() - 261_632 == 384_272


# The same table: 4.39 thousand USD per endpoint in two tiers and in eight planes, 7.5 in three; the cost model of the
# profile (an H100 cluster of 2024-08) has 4,248 and 6,613.
@pytest.mark.parametrize(
    ("name", "endpoints", "usd", "tolerance"),
    [("ndr-fat-tree", 2048, 4390, 0.05), ("ndr-8plane", 16384, 4390, 0.05), ("ndr-fat-tree", 65536, 7500, 0.12)],
)
def test_price_of_an_endpoint(name, endpoints, usd, tolerance):
    of, found = fabric(name), at(name, endpoints)
    price = found.powered_ports.sum() * of.switch_usd_per_port + found.optics.sum() * of.optic_usd
    assert_allclose(price / endpoints, usd, rtol=tolerance)


def test_llama_3():
    """24,576 devices: 1,536 top-of-rack switches, 1:7 between eight pods (arXiv:2407.21783, section 3.3.1)."""
    found = at("roce-400g-7to1", 24576, "dgx-h100")
    assert found.switches[0, 0] == 24576 / 16
    assert_allclose(found.bisection_bytes_per_s, 24576 / 2 * 50e9 / 7)
    assert_allclose(at("roce-400g-7to1", 3072, "dgx-h100").bisection_bytes_per_s, 3072 / 2 * 50e9)
    assert found.failure_devices[0, 0] == 16


def test_hpn_7():
    """A pod of 15,360: segments of 16 leaves, two planes of 60 spines, half of a device's bandwidth lost with a leaf.

    Recalled from Alibaba HPN, SIGCOMM 2024: 15 segments of 1,024, 51.2 Tbit/s switches, two ports of 200G a device.
    """
    found = at("hpn7-2x200g", 15360)
    assert_array_equal(found.switches, [[15 * 16, 2 * 60]])
    assert found.failure_devices[0, 0] == 128
    assert found.lost_fraction[0, 0] == 0.5


def test_megascale():
    """Recalled from MegaScale, NSDI 2024: switches of 64 x 400G, split in two of 200G down; 64 nodes at a leaf."""
    shipped = fabric("roce-200g")
    spans = (512, 8192, 524288)
    tiers = tuple(replace(t, span_devices=s, switch_ports=128) for t, s in zip(shipped.tiers, spans, strict=True))
    found = at(replace(shipped, tiers=tiers), 12288)
    assert found.failure_devices[0, 0] == 64
    assert_array_equal(found.switches, [[192, 192, 96]])
    assert_allclose(found.bisection_bytes_per_s, 12288 / 2 * 25e9)


def test_tpu_v4_pod():
    """N. Jouppi et al., ISCA 2023: 64 cubes, 96 optical links each, 48 circuit switches of 136 ports."""
    found = at("torus-ocs", 4096)
    assert_array_equal(found.switches, [[0, 48]])
    assert found.optics.sum() == 64 * 96
    assert_allclose(found.bisection_bytes_per_s, 512 * 50e9)
    # the paper: the optical switches take less than 3 % of the power of the system (about 200-380 W a chip)
    of = fabric("torus-ocs")
    assert found.powered_ports.sum() * of.switch_w_per_port / (4096 * 200) < 0.03


def test_a_cube_needs_no_circuit_switch():
    found = at("torus-ocs", 64)
    assert found.switches.sum() == found.optics.sum() == 0
    assert found.links.sum() == 192


def test_superpod_of_nvl72_racks():
    """Eight racks of 72 at 400G: by head, 18 leaves and 9 spines of 64 ports."""
    found = at("ndr-fat-tree", 576, "gb200-nvl72")
    assert_array_equal(found.switches, [[18, 9, 0]])


# MLPerf Training v4.0: 59.57 kW estimated by the submitter for the network of 512 devices, adapters probably included
def test_power_of_a_small_network():
    found = at("ndr-fat-tree", 512)
    assert_allclose(found.network_w + 512 * 25, 59570, rtol=0.2)


@pytest.mark.parametrize("name", FABRICS)
def test_parts_of_every_fabric(name):
    of = fabric(name)
    sizes = np.unique(np.clip([1, 8, 100, 1000, 20000, of.tiers[-1].span_devices], 1, of.tiers[-1].span_devices))
    together = at(name, sizes)
    assert np.all(np.diff(together.network_w) >= 0)
    assert np.all(np.diff(together.bisection_bytes_per_s / sizes) <= 1e-6 * together.bisection_bytes_per_s[1:])
    for n, size in enumerate(sizes):
        alone = at(name, int(size))
        assert_allclose(together.network_w[n], alone.network_w[0])
        assert_allclose(together.links[n], alone.links[0])
    assert np.all(together.optics <= 2 * together.links)
    assert np.all((together.powered_ports >= together.ports - 1e-6) | np.isnan(together.switches))
    assert np.all(np.nan_to_num(together.lost_fraction) <= 1)
    per_device = together.network_w[-1] / sizes[-1]
    assert 1 < per_device < 500


def test_a_wide_interface_takes_more_ports():
    of = fabric("ndr-fat-tree")
    assert_allclose(wiring(of, 100e9, 1000).links, 2 * wiring(of, 50e9, 1000).links)
    assert float(power.endpoints_per_device(100e9, of.port_bytes_per_s)) == 2
