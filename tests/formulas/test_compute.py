"""Time of a device's own work: limits by head, published kernels, array equals scalars."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from clusterplan.formulas import compute

# Shipped figures of the A100 and the H100; H800 and H100 multiply alike.
A100 = {"k_ramp": 97, "tile_m": 128, "tile_n": 256, "compute_units": 108, "wave_hardness": 0.83}
H100 = {"k_ramp": 173, "tile_m": 128, "tile_n": 256, "compute_units": 132, "wave_hardness": 0.55}


def a100_tflops(m, n, k):
    shape = compute.product_efficiency(m, n, k, **A100)
    return 2e-12 * m * n * k / compute.product_s(m, n, k, 1, 312e12, 0.872, 1.0, shape, 2039e9, 0.814, 2)


def h100_tflops(m, n, k):
    shape = compute.product_efficiency(m, n, k, **H100)
    return 2e-12 * m * n * k / compute.product_s(m, n, k, 1, 989.4e12, 0.817, 1.0, shape, 3350e9, 0.85, 2)


# Products -------------------------------------------------------------------------------------------------------------


def test_full_waves_of_full_tiles_lose_only_the_ramp():
    shape = compute.product_efficiency(128 * 12, 256 * 18, 97e9, **A100)  # 216 tiles on 108 units
    assert_allclose(shape, 1, rtol=1e-6)
    assert_allclose(compute.product_efficiency(128 * 12, 256 * 18, 97, **A100), 0.5)


def test_one_tile_too_many_is_another_wave():
    hard = A100 | {"wave_hardness": 1.0}
    assert_allclose(compute.product_efficiency(128 * 109, 256, 97e9, **hard), 109 / 216, rtol=1e-6)
    soft = A100 | {"wave_hardness": 0.0}
    assert_allclose(compute.product_efficiency(128 * 109, 256, 97e9, **soft), 1, rtol=1e-6)


def test_few_rows_fill_as_little_of_a_tile():
    soft = A100 | {"wave_hardness": 0.0}
    assert_allclose(compute.product_efficiency(16, 256 * 18, 97e9, **soft), 16 / 128, rtol=1e-6)
    assert_allclose(compute.product_efficiency(128 * 12, 32, 97e9, **soft), 32 / 256, rtol=1e-6)
    # One row and one column too many: a kernel with smaller tiles loses half at most.
    assert_allclose(compute.product_efficiency(129, 257, 97e9, **soft), 0.5, rtol=1e-6)


def test_efficiency_is_a_share():
    rng = np.random.default_rng(1)
    m, n, k = rng.integers(1, 30000, (3, 2000))
    shape = compute.product_efficiency(m, n, k, **A100)
    assert np.all((shape > 0) & (shape <= 1))


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_larger_products_never_take_less_time(axis):
    """In whole tiles: a shape that fills its tiles better may be the faster one."""
    size = np.full((3, 60), 2048.0)
    size[axis] = 256 * np.arange(1, 61)
    shape = compute.product_efficiency(*size, **A100)
    time = compute.product_s(*size, 1, 312e12, 0.872, 1.0, shape, 2039e9, 0.814, 2)
    assert np.all(np.diff(time) > 0)


def test_result_traffic_adds():
    free = compute.product_s(512, 512, 512, 3, 1e14, 0.5, 0.5, 1.0, 1e30, 1.0, 2)
    paid = compute.product_s(512, 512, 512, 3, 1e14, 0.5, 0.5, 1.0, 1e12, 0.5, 8)
    assert_allclose(free, 3 * 2 * 512**3 / 2.5e13)
    assert_allclose(paid - free, 3 * compute.EPILOGUE_SHARE * 8 * 512**2 / 0.5e12)


@pytest.mark.parametrize(("n", "k", "slower"), [(128, 128, 1), (192, 64, 1), (100, 128, 1.21), (128, 100, 1.21)])
def test_misaligned(n, k, slower):
    assert_allclose(compute.product_s(64, n, k, 1, 1e14, 1, 1, 1, 1e30, 1, 2), 2 * 64 * n * k / 1e14 * slower)


# Azure AI benchmarking guide, ND_A100_v4: fp16 products of random numbers, TFLOP/s
@pytest.mark.parametrize(
    ("m", "n", "k", "tflops", "tolerance"),
    [
        (2048, 2048, 2048, 221.8, 0.35),  # 128 tiles on 108 units; the library has smaller tiles for this
        (4096, 4096, 4096, 228.0, 0.12),
        (8192, 8192, 8192, 253.7, 0.12),
        (16384, 16384, 16384, 256.5, 0.12),
        (6144, 12288, 12288, 250.8, 0.12),
    ],
)
def test_a100_products(m, n, k, tflops, tolerance):
    assert_allclose(a100_tflops(m, n, k), tflops, rtol=tolerance)


# tilelang benchmark/matmul/README.md: H800 fp16 products of 8192 x 8192 x k, TFLOP/s. The library there reaches 766 of
# 989.4 for the longest k, our best-shape share 0.817 is 808: all rows are compared relative to it. Ramp and
# result traffic both count here, which makes short inner dimensions too slow.
@pytest.mark.parametrize(
    ("k", "tflops", "tolerance"),
    [(256, 386, 0.19), (512, 520, 0.14), (1024, 628, 0.09), (2048, 705, 0.07), (4096, 736, 0.03), (8192, 758, 0.02)],
)
def test_rate_grows_with_the_inner_dimension_as_measured(k, tflops, tolerance):
    assert_allclose(h100_tflops(8192, 8192, k) / h100_tflops(8192, 8192, 16384), tflops / 766, rtol=tolerance)


# Attention ------------------------------------------------------------------------------------------------------------


def test_attention_reaches_its_rate_on_long_sequences():
    assert_allclose(compute.attention_s(1e12, 1e9, 1e14, 0.5, 0.5), 0.04, rtol=1e-5)
    assert_allclose(compute.attention_s(1e12, compute.ATTENTION_HALF_LENGTH, 1e14, 0.5, 0.5), 0.08)


# J. Shah et al., FlashAttention-3, 2024, figure 5: H100, fp16, heads of 128, causal, forward, cuDNN: TFLOP/s. The
# shipped share, 0.539, is that of long training runs; short sequences come out too slow.
@pytest.mark.parametrize(
    ("sequence", "tflops", "tolerance"), [(1024, 410, 0.13), (2048, 484, 0.12), (4096, 518, 0.09), (16384, 539, 0.05)]
)
def test_attention_of_the_h100(sequence, tflops, tolerance):
    assert_allclose(1 / compute.attention_s(1e12, sequence, 989.4e12, 0.539, 1.0), tflops, rtol=tolerance)


# T. Dao, FlashAttention-2, 2023, figure 5: A100, heads of 128, causal, forward and backward together: TFLOP/s. The
# shipped shares, 0.625 forward and 0.715 of it backward, come from training runs and are a fifth below this benchmark.
@pytest.mark.parametrize(("sequence", "tflops"), [(1024, 133), (4096, 173), (16384, 189)])
def test_attention_of_the_a100(sequence, tflops):
    forward = compute.attention_s(1e12, sequence, 312e12, 0.625, 1.0)
    backward = compute.attention_s(2e12, sequence, 312e12, 0.625 * 0.715, 1.0)
    assert_allclose(3 / (forward + backward), tflops, rtol=0.22)


def test_a_lower_clock_and_software_slow_the_arithmetic_and_not_the_traffic():
    assert_allclose(compute.attention_s(1e12, 1e9, 1e14, 0.5, 1.0, 0.8, 0.5, 2.0), 0.1, rtol=1e-5)
    # 1e12 FLOP at a quarter of 100 TFLOP/s and twice as long, and 14 GB at 1 TB/s
    assert_allclose(compute.eager_attention_s(1e12, 1e9, 14, 1e14, 0.5, 1, 1e12, 1, 0.5, 2.0), 0.08 + 0.014)
    assert_allclose(compute.scan_s(1e12, 1e14, 0.5, 1.0, 0.5, 2.0), 4 * 0.08)
    products = compute.product_s(1024, 1024, 1024, 1, 2 * 1024**3, 1, 1, 1, 1e30, 1, 2, 0.5, 2.0)
    assert_allclose(products, 4.0)


def test_eager_attention_adds_the_passes_over_its_scores():
    assert_allclose(compute.eager_attention_s(1e12, 0, 14, 1e14, 0.5, 0.5, 1e12, 1), 1e12 / 2.5e13)
    assert_allclose(compute.eager_attention_s(0, 1e9, 14, 1e14, 0.5, 0.5, 1e12, 0.5), 0.028)


# The rest -------------------------------------------------------------------------------------------------------------


# Azure AI benchmarking guide, ND_A100_v4: STREAM triad 1,700 GB/s of 2,039
def test_memory_bound_work_runs_at_the_triad():
    assert_allclose(1700e9 * compute.memory_bound_s(1.0, 1.0, 2039e9, 0.834), 1, rtol=1e-3)
    assert compute.memory_bound_s(0.0, 1.4, 2039e9, 0.8) == 0


def test_host_and_device_run_side_by_side():
    assert compute.host_wait_s(1.0, 0.0) == 0.0
    assert compute.host_wait_s(1.0, 3.0) == 2.0


def test_a_layer_that_runs_again_forward_waits_half_as_long_again():
    assert_allclose(compute.routing_stall_s(4e-3, np.array([0.0, 0.5, 1.0])), [4e-3, 5e-3, 6e-3])
    assert compute.routing_stall_s(0.0, 1.0) == 0.0


def test_nothing_owned_takes_no_update():
    assert compute.optimizer_s(0, 30, 1e12, 1.0) == 0


# Chowdhery et al., PaLM, 2022, section 4.1: 238.3k tokens/s on 6,144 TPU v4 of 275 TFLOP/s are 46.2 % MFU, with
# 540.35e9 parameters, 118 layers, 48 heads of 256, 2,048 tokens: 6 N + 12 L H Q T per token (appendix B).
def test_palm():
    per_token = 6 * 540.35e9 + 12 * 118 * 48 * 256 * 2048
    assert_allclose(compute.model_flop_utilisation(238.3e3 * per_token, 1.0, 6144, 275e12), 0.462, rtol=2e-3)


def test_array_equals_scalars():
    m, n, k = np.array([[1, 100, 4096, 9000], [64, 256, 5120, 777], [32, 4096, 100, 8192]])
    together = compute.product_efficiency(m, n, k, **A100)
    alone = [compute.product_efficiency(*shape, **A100) for shape in zip(m, n, k, strict=True)]
    assert_allclose(together, alone)
    given = (3e14, 0.8, 0.9, together, 2e12, 0.8, 2)
    one_by_one = [
        compute.product_s(*shape, 2, 3e14, 0.8, 0.9, share, 2e12, 0.8, 2)
        for *shape, share in zip(m, n, k, together, strict=True)
    ]
    assert_allclose(compute.product_s(m, n, k, 2, *given), one_by_one)
    flop, sequence = np.array([1e9, 1e12]), np.array([128, 8192])
    pairs = list(zip(flop, sequence, strict=True))
    assert_allclose(
        compute.attention_s(flop, sequence, 1e14, 0.5, 0.9),
        [compute.attention_s(f, s, 1e14, 0.5, 0.9) for f, s in pairs],
    )
    assert_allclose(
        compute.eager_attention_s(flop, sequence, 14, 1e14, 0.8, 0.9, 2e12, 0.8),
        [compute.eager_attention_s(f, s, 14, 1e14, 0.8, 0.9, 2e12, 0.8) for f, s in pairs],
    )
    assert_allclose(
        compute.memory_bound_s(flop, 1.5, 2e12, 0.8), [compute.memory_bound_s(f, 1.5, 2e12, 0.8) for f in flop]
    )
    assert_allclose(compute.optimizer_s(flop, 30, 2e12, 0.8), [compute.optimizer_s(f, 30, 2e12, 0.8) for f in flop])
    assert_allclose(compute.host_wait_s(flop, 1e10), [compute.host_wait_s(f, 1e10) for f in flop])
    assert_allclose(compute.routing_stall_s(2e-3, flop / 1e12), [compute.routing_stall_s(2e-3, f / 1e12) for f in flop])
    assert_allclose(
        compute.model_flop_utilisation(flop, 2.0, sequence, 1e12),
        [compute.model_flop_utilisation(f, 2.0, s, 1e12) for f, s in pairs],
    )


def test_scans_run_at_a_share_of_products():
    assert compute.scan_s(0.0, 1e15, 0.7, 0.9) == 0
    assert_allclose(compute.scan_s(1e12, 1e15, 0.7, 0.9), 1e-3 / (0.63 * compute.SCAN_EFFICIENCY))
    work = np.array([1e9, 1e12])
    assert_allclose(compute.scan_s(work, 1e15, 0.7, 0.9), [compute.scan_s(one, 1e15, 0.7, 0.9) for one in work])


def test_copies_to_the_host_go_both_ways():
    there = 50e9 / (62.5e9 * compute.COPY_EFFICIENCY)
    assert_allclose(compute.offload_s([0, 50e9], 62.5e9), [0, 2 * there])


def test_tiles_over_the_edge_are_narrower():
    # A row and a column more than one tile: four whole tiles for a quarter of the work, narrower ones for half.
    assert_allclose(compute.product_efficiency(129, 257, 1e9, 0, 128, 256, 1, 0), 0.5)
    assert_allclose(compute.product_efficiency(128, 256, 1e9, 0, 128, 256, 1, 0), 1)
