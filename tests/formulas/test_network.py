"""Collectives: limits by head, published measurements, array equals scalars."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from clusterplan.formulas import network

GIB = 2.0**30
NODE = (np.array([[8.0]]), np.array([[100e9]]), np.array([1e-6]))
PAIR = (np.array([[8.0], [16.0]]), np.array([[100e9], [10e9]]), np.array([1e-6, 1e-5]))
ALONE = (np.array([[1.0], [1.0]]), np.array([[100e9], [10e9]]), np.array([1e-6, 1e-5]))


def scaleout(nodes):
    """Shipped figures of NDR interfaces."""
    return network.scaleout_bytes_per_s(50e9, 50e9, 0.97, 0.05, 1.0, nodes)


# Where members sit ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "stride", "span", "inside"),
    [
        (1, 1, 8, 1),
        (8, 1, 8, 8),
        (16, 1, 8, 8),
        (4, 2, 8, 4),
        (8, 2, 8, 4),
        (64, 8, 8, 1),
        (64, 8, 256, 32),
        (2, 8, 8, 1),
        (16, 1, 72, 8),  # the fifth group has 8 members on one side of the edge and 8 on the other
        (8, 1, 72, 8),
        (12, 1, 8, 4),  # 8 + 4, then 4 + 8
        (3, 3, 8, 1),
    ],
)
def test_members_by_head(size, stride, span, inside):
    assert network.members_in_block(size, stride, span) == inside


def test_groups_in_one_block_have_no_edge_between_them():
    assert network.members_in_block(47, 1, 6144, 47) == 47
    assert network.members_in_block(5, 8, 72, 40) == 5
    assert network.members_in_block(16, 1, 72, 64) == 16
    assert network.members_in_block(16, 1, 72, 80) == 8


@given(st.integers(1, 40), st.sampled_from([1, 2, 4, 8, 16]), st.sampled_from([8, 16, 72, 256]))
def test_members_that_divide_are_counted_exactly(size, stride, span):
    extent = size * stride
    if span % stride or (extent % span and span % extent):
        return
    count = np.bincount(np.arange(size) * stride // span)
    assert network.members_in_block(size, stride, span) == count.max() == count.min()


@given(st.integers(1, 64), st.sampled_from([1, 2, 3, 4, 8]), st.sampled_from([4, 8, 72, 64]))
def test_members_are_between_one_and_all(size, stride, span):
    inside = network.members_in_block(size, stride, span)
    assert 1 <= inside <= size
    assert inside <= max(span // stride, 1)


@given(st.integers(1, 15), st.sampled_from([1, 2, 4]), st.sampled_from([8, 72]))
def test_no_group_within_two_blocks_has_fewer_members_together(size, stride, span):
    if size * stride >= 2 * span or span % stride:
        return
    extent = size * stride
    worst = min(
        np.unique((first + shift + stride * np.arange(size)) // span, return_counts=True)[1].min()
        for first in range(0, span * extent, extent)
        for shift in range(stride)
    )
    assert network.members_in_block(size, stride, span) <= worst


# Bandwidth ------------------------------------------------------------------------------------------------------------


def test_mesh_uses_the_links_between_members():
    rate = network.scaleup_bytes_per_s(70e9, 1.0, "mesh", np.array([1, 2, 4, 8]), 8)
    assert_allclose(rate, [70e9, 10e9, 30e9, 70e9])


def test_torus_uses_one_axis_after_another():
    rate = network.scaleup_bytes_per_s(60e9, 0.5, "torus", np.array([2, 4, 5, 16, 17, 64, 4096]), 4096)
    assert_allclose(rate, 30e9 * np.array([1, 1, 2, 2, 3, 3, 3]) / 3)


def test_switch_gives_everybody_all():
    assert_array_equal(network.scaleup_bytes_per_s(450e9, 1.0, "switch", np.array([1, 2, 8, 72]), 72), 450e9)


def test_slower_of_interface_and_port():
    assert network.scaleout_bytes_per_s(50e9, 25e9, 1.0, 0.0, 1.0, 2) == 25e9
    assert network.scaleout_bytes_per_s(25e9, 50e9, 0.8, 0.0, 2.0, 2) == 10e9


def test_more_nodes_are_never_faster():
    rate = network.scaleout_bytes_per_s(50e9, 50e9, 1.0, 0.05, 1.0, 2.0 ** np.arange(14))
    assert rate[0] == rate[1] == 50e9  # one and two nodes
    assert np.all(np.diff(rate[1:]) < 0)
    assert_allclose(rate[11], 50e9 / 1.5)


# Collectives ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("collective", [network.ring_s, network.all_reduce_s])
def test_group_of_one_takes_no_time(collective):
    assert collective(1e9, *ALONE) == 0


def test_all_to_all_of_one_takes_no_time():
    assert network.all_to_all_s(1e9, *ALONE, False) == 0


def test_empty_message_takes_its_hops():
    # a ring over two nodes of eight: seven steps inside each, one between them; a tree: one chain and up and down
    assert_allclose(network.ring_s(0, *PAIR), 2 * 7e-6 + 1e-5)
    assert_allclose(network.all_reduce_s(0, *PAIR), 2 * (7e-6 + 1e-5))
    assert_allclose(network.all_to_all_s(0, *PAIR, False), 1e-6 + 1e-5)


def test_all_reduce_over_many_nodes_is_a_tree():
    members = np.array([[8.0], [8.0 * 1024]])
    assert_allclose(network.all_reduce_s(0, members, PAIR[1], PAIR[2]), 2 * (7e-6 + 10 * 1e-5))


def test_long_message_takes_its_wire_time():
    assert_allclose(network.ring_s(1e12, *NODE), 7 / 8 * 10, rtol=2e-5)
    # 15/16 of it over eight interfaces of 10 GB/s, slower than 15/16 of it inside at 100 GB/s
    assert_allclose(network.ring_s(1e12, *PAIR), 15 / 16 * 1e12 / 80e9, rtol=2e-5)
    assert_allclose(network.all_to_all_s(1e12, *NODE, False), 7 / 8 * 10, rtol=2e-5)
    assert_allclose(network.all_to_all_s(1e12, *PAIR, False), 7 / 16 * 10 + 8 / 16 * 100, rtol=2e-5)


def test_a_message_takes_the_protocol_that_is_quicker():
    # 1 MB at 100 GB/s is 8.75 us on the wire: half of the rate at once costs as much again, the whole rate 87 us more
    assert_allclose(network.ring_s(1e6, *NODE), 7e-6 + 2 * 7 / 8 * 1e6 / 100e9)
    assert_allclose(network.ring_s(1e9, *NODE), 7e-6 + 7 / 8 * 1e9 / 100e9 + 87e-6)


@given(st.floats(0, 1e11), st.floats(1, 10))
def test_a_longer_message_takes_longer(message, times):
    for function in (network.ring_s, network.all_reduce_s, lambda *a: network.all_to_all_s(*a, False)):
        assert function(message * times, *PAIR) >= function(message, *PAIR)


def test_two_nodes_exchange_the_message_once_by_a_tree():
    # interfaces ten times slower than the chain inside: a tree sends 1 over them where a ring sends 15/8
    slow = (PAIR[0], np.array([[100e9], [1e9]]), PAIR[2])
    assert_allclose(network.all_reduce_s(1e12, *slow), 1e12 / 8e9, rtol=1e-4)
    three = (np.array([[8.0], [24.0]]), *slow[1:])
    assert_allclose(network.all_reduce_s(1e12, *three), 2 * 23 / 24 * 1e12 / 8e9, rtol=1e-4)


def test_switches_that_add_take_the_message_once():
    plain = network.all_reduce_s(1e12, *NODE)
    assert_allclose(network.all_reduce_s(1e12, *NODE, False, 100e9), 10, rtol=2e-5)
    assert network.all_reduce_s(1e12, *NODE, False, 1e9) == plain  # not where a ring is quicker
    slow = (np.array([[8.0], [64.0]]), np.array([[100e9], [1e9]]), PAIR[2])
    assert_allclose(network.all_reduce_s(1e12, *slow, False, 100e9, True), 1e12 / 8e9, rtol=1e-4)
    assert network.all_reduce_s(1e12, *ALONE, False, 100e9, True) == 0


@given(st.floats(1e3, 1e11))
def test_all_reduce_is_a_reduce_scatter_and_an_all_gather(message):
    both = 2 * network.ring_s(message, *PAIR)
    assert network.all_reduce_s(message, *PAIR) <= both * (1 + 1e-12)


def test_a_long_all_reduce_is_as_long_as_both():
    assert_allclose(network.all_reduce_s(1e12, *NODE), 2 * network.ring_s(1e12, *NODE), rtol=1e-4)


@pytest.mark.parametrize(
    ("members", "links"),
    [
        (1, 0),
        (2, 1 / 2),  # half stays at home, the other half goes one link far
        (4, (1 + 2 + 1) / 4),  # a ring: two neighbours, and one across
        (16, 1 + 1),  # two rings of four
        (64, 1 + 1 + 1),
        (4096, 4 + 4 + 4),  # on a ring of sixteen a quarter of it on the mean
    ],
)
def test_torus_exchange_is_bounded_by_its_links(members, links):
    block = (np.array([[float(members)]]), np.array([[100e9]]), np.zeros(1))
    assert_allclose(network.all_to_all_s(1e9, *block, True), links * 1e9 / 100e9)


def test_rings_of_a_torus_are_short():
    def hops(members):
        block = (np.array([[float(members)]]), np.array([[100e9]]), np.array([1e-6]), True)
        assert_allclose(network.all_reduce_s(0, *block), 2 * network.ring_s(0, *block))
        return network.ring_s(0, *block) / 1e-6

    assert_allclose([hops(n) for n in (1, 4, 16, 64, 4096)], np.array([[0], [3], [6], [9], [45]]))


def test_copies_for_one_domain_are_sent_once():
    # two domains: two copies both stay with 1/4, so the other domain gets the token with 3/4, where one copy each is 1
    assert_allclose(network.remote_fraction([1, 2], 2, 2), [1, 0.75])
    assert_allclose(network.remote_fraction(2, 3, 3), 2 * (1 - 4 / 9) / (2 * 2 / 3))


def test_what_is_sent_once_to_a_domain_is_passed_on_inside():
    # two nodes of two, a long message: three quarters inside, of the half for the other node a half across
    there = np.array([[2.0], [4.0]]), np.array([[100e9], [10e9]]), np.zeros(2), False
    assert_allclose(network.all_to_all_s(1e12, *there, 0.5), 0.75e12 / 100e9 + 0.25e12 / 10e9, rtol=1e-5)


def test_slices_of_a_torus_add_in_a_tree():
    # 64 devices each in 16 slices: nine steps on the rings inside, four up a tree in place of fifteen round a ring
    members, latency = np.array([[64.0], [1024.0]]), np.array([1e-6, 1e-5])
    start = network.all_reduce_s(0, members, np.full((2, 1), 100e9), latency, True)
    assert_allclose(start, 2 * (9 * 1e-6 + 4 * 1e-5))


# stas00/ml-engineering, network: nccl-tests all-reduce on one node of 8 A100, bus bandwidth in GB/s. From 0.5 to 1 MiB
# the library is slower than at 2 MiB.
@pytest.mark.parametrize(
    ("size", "busbw", "tolerance"),
    [
        (2**15, 1.31, 0.05),
        (2**18, 7.47, 0.35),
        (2**20, 18.0, 0.75),
        (2**24, 106.16, 0.10),
        (2**26, 171.54, 0.10),
        (2**28, 194.07, 0.15),
        (2**30, 229.04, 0.03),
        (2**34, 234.89, 0.03),
    ],
)
def test_all_reduce_in_a_node_of_a100(size, busbw, tolerance):
    rate = network.scaleup_bytes_per_s(300e9, 0.775, "switch", np.array([8]), 8)
    time = network.all_reduce_s(size, np.array([[8.0]]), rate[None], np.array([3.1e-6]))
    assert_allclose(2 * 7 / 8 * size / time, busbw * 1e9, rtol=tolerance)


# stas00/ml-engineering, network: rings of 16 GiB on a node of 8 H200, bus bandwidth: all-gather 361.4, reduce-scatter
# 362.9, all-reduce 367.2 GB/s
def test_rings_in_a_node_of_h200():
    node = (np.array([[8.0]]), np.array([[450e9 * 0.81]]), np.array([2e-6]))
    assert_allclose(7 / 8 * 16 * GIB / network.ring_s(16 * GIB, *node), 361.4e9, rtol=0.02)
    assert_allclose(7 / 4 * 16 * GIB / network.all_reduce_s(16 * GIB, *node), 367.2e9, rtol=0.02)


# coreweave/nccl-tests README: all-reduce on 12 nodes of 8 H100 with NDR, bus bandwidth. The shipped loss per doubling
# is that of training runs; this idle network shows none, and its all-reduce may use in-switch sums inside the nodes.
@pytest.mark.parametrize(("size", "busbw"), [(0.5 * GIB, 356.01), (1 * GIB, 365.9), (8 * GIB, 386.56)])
def test_all_reduce_over_twelve_nodes(size, busbw):
    members = np.array([[8.0], [96.0]])
    rates = np.array([[450e9 * 0.81], [scaleout(12)]])
    time = network.all_reduce_s(size, members, rates, np.array([2e-6, 1.3e-5]))
    assert_allclose(2 * 95 / 96 * size / time, busbw * 1e9, rtol=0.13)


# DeepEP README (V1 at 64 ranks, V2 at 8 x 2 and 8 x 4), H-class nodes with 400 Gbit/s: combine of bf16, GB/s sent by a
# device, its own node included. Libraries send a token to a node once, so that they can do a little better than we say.
@pytest.mark.parametrize(("nodes", "rate"), [(2, 81), (4, 61), (8, 50)])
def test_expert_exchange(nodes, rate):
    members = np.array([[8.0], [8.0 * nodes]])
    rates = np.array([[450e9 * 0.81], [scaleout(nodes)]])
    time = network.all_to_all_s(4096 * 8 * 7168 * 2, members, rates, np.array([2e-6, 1.3e-5]), False)
    assert_allclose(4096 * 8 * 7168 * 2 / time, rate * 1e9, rtol=0.16)


# aws-samples, expert parallelism benchmark of DeepEP in one node of 8 H100 or H200: 332 GB/s dispatch, 322 combine. An
# exchange in one node is somewhat slower than the ring from which the share of the link is taken.
def test_expert_exchange_in_a_node():
    node = (np.array([[8.0]]), np.array([[450e9 * 0.81]]), np.array([2e-6]))
    assert_allclose(1e9 / network.all_to_all_s(1e9, *node, False), 327e9, rtol=0.3)


# aliyun/SimAI, nic_ratio.csv: all-gather of 16 MiB and 16 GiB, shares of 400 GB/s on 2, 32 and 128 nodes. The first
# falls with the ranks, the second does not; the shipped loss per doubling is that of training runs.
@pytest.mark.parametrize(("nodes", "small", "large"), [(2, 0.32, 0.96), (32, 0.044, 0.957), (128, 0.0087, 0.92)])
def test_all_gather_falls_with_ranks(nodes, small, large):
    members = np.array([[8.0], [8.0 * nodes]])
    rates = np.array([[450e9 * 0.81], [network.scaleout_bytes_per_s(50e9, 50e9, 0.976, 0.0, 1.0, nodes)]])
    for size, share, tolerance in ((GIB / 64, small, 0.3), (16 * GIB, large, 0.12)):
        time = network.ring_s(size, members, rates, np.array([2e-6, 14.5e-6]))
        assert_allclose((8 * nodes - 1) / (8 * nodes) * size / time, share * 400e9, rtol=tolerance, err_msg=str(size))


# Azure/AI-benchmarking-guide, ND_H100_v5: all-reduce with NVLS on eight H100, bus bandwidth in GB/s
@pytest.mark.parametrize(
    ("size", "busbw"), [(2**14, 0.95), (2**23, 172.13), (2**25, 295.53), (2**27, 400.61), (2**33, 478.87)]
)
def test_all_reduce_by_the_switches(size, busbw):
    rates = np.array([[450e9 * 0.81]])
    time = network.all_reduce_s(size, np.array([[8.0]]), rates, np.array([2e-6]), False, 0.61 * 450e9)
    assert_allclose(2 * 7 / 8 * size / time, busbw * 1e9, rtol=0.2)


def test_send():
    assert network.send_s(0, 50e9, 1e-5) == 1e-5
    assert_allclose(network.send_s(50e9, 50e9, 0), 1)


# What is exposed ------------------------------------------------------------------------------------------------------


def test_exposed():
    assert network.exposed_s(10, 0.0, 100) == 10
    assert network.exposed_s(10, 1.0, 100) == 0
    assert network.exposed_s(10, 1.0, 0) == 10
    assert network.exposed_s(0, 0.5, 100) == 0


@given(st.floats(0, 1e3), st.floats(0, 1), st.floats(0, 1e3), st.floats(0, 1))
def test_hidden_traffic_is_never_free_nor_dearer_than_exposed(communication, hidden, window, contention):
    exposed = network.exposed_s(communication, hidden, window)
    assert 0 <= exposed <= communication
    assert communication - exposed <= window * (1 + 1e-12) + 1e-9
    assert exposed + network.contention_s(communication, exposed, contention) <= communication * (1 + 1e-12)


def test_jitter_grows_with_the_nodes():
    jitter = network.jitter_s(10.0, np.array([0.5, 1, 2, 100, 10000]), 0.01)
    assert_array_equal(jitter[:2], 0)
    assert np.all(np.diff(jitter[1:]) > 0)
    # largest of 10,000 standard normals: 3.85 on the mean (David, Nagaraja 2003); the bound is 4.29
    assert_allclose(jitter[-1] / 0.1, 3.85, rtol=0.12)


def test_array_equals_scalars():
    size, stride = np.array([1, 2, 16, 64]), np.array([1, 8, 1, 8])
    members = np.stack([network.members_in_block(size, stride, span) for span in (8, 1024)])
    alone = [[network.members_in_block(s, t, span) for s, t in zip(size, stride, strict=True)] for span in (8, 1024)]
    assert_array_equal(members, alone)
    rates = np.stack([np.full(4, 100e9), scaleout(members[1] / members[0])])
    assert_allclose(rates[1], [scaleout(n) for n in members[1] / members[0]])
    latency = np.array([1e-6, 1e-5])
    message = np.array([1e3, 1e6, 1e9, 1e10])
    for collective in (network.ring_s, network.all_reduce_s, lambda *a: network.all_to_all_s(*a, True)):
        together = collective(message, members, rates, latency)
        one_by_one = [collective(message[i], members[:, i : i + 1], rates[:, i : i + 1], latency)[0] for i in range(4)]
        assert_allclose(together, one_by_one)
    for topology in ("switch", "mesh", "torus"):
        together = network.scaleup_bytes_per_s(100e9, 0.8, topology, members[0], 8)
        assert_allclose(together, [network.scaleup_bytes_per_s(100e9, 0.8, topology, m, 8) for m in members[0]])
    assert_allclose(network.send_s(message, 1e9, 1e-5), [network.send_s(m, 1e9, 1e-5) for m in message])
    assert_allclose(network.exposed_s(message, 0.5, 1e6), [network.exposed_s(m, 0.5, 1e6) for m in message])
    assert_allclose(network.contention_s(message, 10.0, 0.2), [network.contention_s(m, 10.0, 0.2) for m in message])
    assert_allclose(network.jitter_s(1.0, size, 0.01), [network.jitter_s(1.0, n, 0.01) for n in size])
