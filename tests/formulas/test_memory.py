"""Memory by part: limits by head, published tables, array equals scalars."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from clusterplan.formulas import memory


# Rajbhandari et al., ZeRO, 2020, table 1: GB per device of a model of 7.5e9 parameters on 64 devices, K = 12
@pytest.mark.parametrize(
    ("optimizer", "gradients", "weights", "gigabytes"),
    [(1, 1, 1, 120), (64, 1, 1, 31.4), (64, 64, 1, 16.6), (64, 64, 64, 1.88)],
)
def test_zero(optimizer, gradients, weights, gigabytes):
    parts = [(12, optimizer), (2, gradients), (2, weights)]
    total = sum(memory.state_bytes(7.5e9, 0, size, shards, 1) for size, shards in parts)
    assert_allclose(total / 1e9, gigabytes, rtol=5e-3)


# ZeRO, table 1, 1e12 parameters on 1,024 devices: 16,000 GB replicated, 15.6 with everything shared
def test_zero_of_a_trillion():
    assert_allclose(memory.state_bytes(1e12, 0, 16, 1024, 1) / 1e9, 15.6, rtol=5e-3)


def test_experts_are_shared_by_their_own_replicas():
    assert memory.state_bytes(8e9, 16e9, 2, 8, 4) == 2 * (1e9 + 4e9)
    assert memory.state_bytes(8e9, 16e9, 2, 1, 1) == 2 * 24e9


def test_nothing_kept():
    assert memory.activation_bytes(0, 8, 0) == 0
    assert memory.activation_bytes(0, 8, 3e9) == 3e9
    assert memory.activation_bytes(1e9, 1, 0) == 1e9


# Korthikanti et al., 2022, section 4.1: s b h (34 + 5 a s / h) bytes a layer; GPT-3: 96 layers, h 12,288, 96 heads,
# s 2,048, b 1: 2.67 GiB a layer, of which the first of eight stages of twelve layers keeps eight micro-batches
def test_gpt3_first_stage():
    layer = 2048 * 12288 * (34 + 5 * 96 * 2048 / 12288)
    assert_allclose(layer / 2**30, 2.67, rtol=0.01)
    assert_allclose(memory.activation_bytes(12 * layer, 8, 0), 96 * layer)


def test_logits():
    assert memory.logits_bytes(0, 6) == 0
    assert memory.logits_bytes(1e9, 6) == 6e9


def test_gathered_layers():
    assert memory.gather_buffer_bytes(1e9, 2, 4, 0) == 0
    assert memory.gather_buffer_bytes(1e9, 2, 4, 1) == 8e9


def test_reserve():
    assert memory.fragmentation_bytes(0, 0.04) == 0
    assert memory.usable_bytes(80e9, 0) == 80e9


def test_array_equals_scalars():
    shape = np.array([[1e9, 2e9, 0.0], [3e9, 1e8, 7e8]])
    shards = np.array([[1], [64]])

    def alone(function):
        return np.array([[function(shape[i, j], shards[i, 0]) for j in range(3)] for i in range(2)])

    for function in (
        lambda x, n: memory.state_bytes(x, x / 2, 12, n, n),
        lambda x, n: memory.activation_bytes(x, n, x / 3),
        lambda x, n: memory.logits_bytes(x, n),
        lambda x, n: memory.gather_buffer_bytes(x, 2, 4, n > 1),
        lambda x, n: memory.fragmentation_bytes(x, n / 100),
        lambda x, n: memory.usable_bytes(x, n / 100),
    ):
        assert_allclose(function(shape, shards), alone(function))


def test_host_gets_what_is_not_resident():
    assert_allclose(memory.resident_micro_batches([8, 8, 1], [10, 10, 1], [False, True, True]), [8, 0.2, 1])
    assert_allclose(memory.host_bytes(12e9, 1e9, 8, [8, 0.2]), [12e9, 12e9 + 7.8e9])
