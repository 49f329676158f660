"""Parts of networks: small ones by head, array equals scalars."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from clusterplan.formulas import topology

ALL = np.array([True, True, True])


def test_a_fat_tree_of_four_port_switches():
    # Al-Fares et al. 2008, figure 3: k = 4: 16 hosts, 8 edge, 8 aggregation and 4 core switches, 48 links
    links = topology.tree_links(16, [1, 1, 1], ALL)
    assert_array_equal(topology.switches(topology.tree_ports(links), 4), [8, 8, 4])
    assert links.sum() == 48


@pytest.mark.parametrize(
    ("radix", "endpoints", "tiers", "switches", "inner"),
    [
        (4, 8, 2, 6, 8),
        (8, 32, 2, 12, 32),
        (64, 2048, 2, 96, 2048),
        (64, 65536, 3, 5120, 131072),
        (8, 512, 4, 448, 1536),
    ],
)
def test_full_trees(radix, endpoints, tiers, switches, inner):
    # 2 (k/2)^L endpoints, (2 L - 1) N / k switches, (L - 1) N links between them
    assert endpoints == 2 * (radix / 2) ** tiers
    links = topology.tree_links(endpoints, np.ones(tiers), np.ones(tiers, bool))
    assert topology.switches(topology.tree_ports(links), radix).sum() == switches
    assert links[1:].sum() == inner


def test_oversubscription_saves_what_is_above():
    links = topology.tree_links(960, [1, 0.5], np.array([True, True]))
    assert_array_equal(links, [960, 480])
    assert_array_equal(topology.tree_ports(links), [1440, 480])


def test_planes_have_whole_switches_each():
    assert topology.switches(65, 64) == 2
    assert topology.switches(65, 64, 8) == 8
    assert topology.switches(0, 64) == 0
    assert np.isnan(topology.switches(10, np.nan))


def test_a_second_level_joins_the_rails_of_one_block():
    assert_array_equal(topology.needed(8, [256, 2048], 8, 64), [True, False])
    assert_array_equal(topology.needed(128, [256, 2048], 128, 64), [True, True])
    assert_array_equal(topology.needed(128, [256, 2048], 128, np.inf), [True, False])
    assert_array_equal(topology.needed(500, [256], 500, 64), [True])


def test_a_small_dragonfly():
    # Kim et al. 2008, figure 5: p = h = 2, a = 4: 9 groups, 72 endpoints, 36 switches of 7 ports
    assert topology.switches(72, 2) == 36
    assert topology.mesh_links(36, 4) == 9 * 6
    assert topology.global_links(72, 1, np.array(True)) == 9 * 8 / 2


def test_a_small_torus():
    # two cubes of 2 x 2 x 2: 24 faces' links each, of which pairs make a way: 48 ways in all, 24 inside
    faces = topology.torus_face_links(16, 8, np.array(True))
    assert faces == 48
    assert topology.torus_links(16, faces) + faces / 2 == 3 * 16
    assert topology.torus_bisection_bytes_per_s(16, 4, 1.0) == 8


def test_what_a_fault_hits():
    assert topology.leaf_devices(64, 1, 10) == 10
    assert topology.lost_fraction(1, 1) == 1
    assert topology.lost_fraction(64, 2) == 1 / 32


def test_half_of_the_ports_draw_no_less():
    assert topology.powered_ports(65, 2, 64) == 128
    assert topology.powered_ports(65, np.nan, np.nan) == 65


@given(st.integers(1, 10**6), st.sampled_from([32, 64, 128]))
def test_bigger_clusters_have_no_fewer_parts(devices, radix):
    spans = [radix * 4, radix**2 // 2, radix**3 // 4, 10**9]
    both = np.array([devices, devices + 1])
    needed = topology.needed(both, spans, both, radix)
    links = topology.tree_links(both, np.ones(4), needed)
    found = topology.switches(topology.tree_ports(links), radix)
    assert np.all(np.diff(links, axis=0) >= 0)
    assert np.all(np.diff(found.sum(axis=1)) >= 0)
    assert_allclose(topology.tree_bisection_bytes_per_s(both, 1.0, np.ones(4), needed), both / 2)


def test_array_equals_scalars():
    devices = np.array([7, 256, 5000])
    needed = topology.needed(devices, [256, 2048, 65536], devices, 64)
    links = topology.tree_links(devices, [1, 1, 0.5], needed)
    ports = topology.tree_ports(links)
    for n, count in enumerate(devices):
        one = topology.needed(count, [256, 2048, 65536], count, 64)
        assert_array_equal(needed[n], one)
        assert_array_equal(links[n], topology.tree_links(count, [1, 1, 0.5], one))
        assert_array_equal(ports[n], topology.tree_ports(links[n]))
        assert_array_equal(topology.switches(ports, 64)[n], topology.switches(ports[n], 64))
        assert_array_equal(topology.modules(links, [2, 2, 0])[n], topology.modules(links[n], [2, 2, 0]))
