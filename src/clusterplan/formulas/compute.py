"""Time of a device's own work: matrix products, attention, memory-bound work, the host that launches it."""

from __future__ import annotations

import numpy as np

from clusterplan.arrays import ArrayLike, FloatArray
from clusterplan.trace import formula

EPILOGUE_SHARE = 0.72
"""Part of the time to write a product's result that is not hidden behind the next tile (assumed: 0.72 from fits to
published runs; the straight line time = a + b·k of measured 8192 × 8192 × k products has an intercept of that size)."""

MISALIGNED_FACTOR = 1.21
"""Time of a product whose n or k is no multiple of 64 over that of an aligned one (assumed: midpoint of published
padding experiments, which range from none to 46 %)."""

ATTENTION_HALF_LENGTH = 476.0
"""Sequence at which fused attention reaches half of its long-sequence rate (fitted to kernel tables). [tokens]"""

SCAN_EFFICIENCY = 0.25
"""assumed: rate of recurrences in chunks over that of large products; no published series to fit it."""


@formula
def product_efficiency(
    m: ArrayLike,
    n: ArrayLike,
    k: ArrayLike,
    k_ramp: ArrayLike,
    tile_m: ArrayLike,
    tile_n: ArrayLike,
    compute_units: ArrayLike,
    wave_hardness: ArrayLike,
) -> FloatArray:
    r"""Rate of a product of this shape over that of the best shape.

    Parameters
    ----------
    m, n, k : array_like
        Rows, columns and inner dimension, at least 1, shape ``(cut,)``.
    k_ramp : array_like
        Inner dimension at which half of the rate is reached.
    tile_m, tile_n : array_like
        Output tile of the kernel.
    compute_units : array_like
        Tiles that are computed at once.
    wave_hardness : array_like
        Share of an incomplete last wave that is lost, 0 to 1.

    Returns
    -------
    ndarray
        Between 0 and 1, shape ``(cut,)``.

    Notes
    -----
    Tiles that hang over the edge, waves of tiles that do not fill the device [1]_, and a ramp :math:`k/(k+k_0)` for
    filling the multiply pipeline. The waves count by ``wave_hardness``, since schedulers split the inner dimension of
    the tail. Calibrated for products of 10^8 FLOP and more.

    References
    ----------
    .. [1] NVIDIA, "Matrix Multiplication Background User's Guide", sections on tile and wave quantization.

    Examples
    --------
    One wave of full tiles loses only the ramp, 9900 / (9900 + 100):

    >>> float(product_efficiency(1280, 2560, 9900, 100, 128, 256, 100, 1.0))
    0.99
    """
    m, n, k = (np.asarray(x, dtype=float) for x in (m, n, k))
    rows, columns = np.ceil(m / tile_m), np.ceil(n / tile_n)
    edge = m * n / (rows * np.asarray(tile_m) * columns * np.asarray(tile_n))
    # Narrow products run on narrower tiles, so the edge is never worse than half a tile in each direction.
    edge = np.maximum(edge, np.minimum(m / tile_m, 1.0) * np.minimum(n / tile_n, 1.0) * 0.5)
    edge = np.maximum(edge, 1e-3)
    waves = rows * columns / np.asarray(compute_units)
    wave = 1.0 / (1.0 + np.asarray(wave_hardness) * (np.ceil(waves) / waves - 1.0))
    return edge * wave * k / (k + np.asarray(k_ramp))


@formula
def product_s(
    m: ArrayLike,
    n: ArrayLike,
    k: ArrayLike,
    count: ArrayLike,
    peak_flop_per_s: ArrayLike,
    gemm_efficiency: ArrayLike,
    in_training_efficiency: ArrayLike,
    shape_efficiency: ArrayLike,
    memory_bytes_per_s: ArrayLike,
    memory_efficiency: ArrayLike,
    result_bytes: ArrayLike,
    kernel_share: ArrayLike = 1.0,
    clock_slowdown: ArrayLike = 1.0,
) -> FloatArray:
    r"""Time of ``count`` matrix products of (m × k) by (k × n), one after the other.

    Parameters
    ----------
    m, n, k, count : array_like
        Shape of a product and how many, shape ``(cut,)``.
    peak_flop_per_s : array_like
        Dense peak of the format. [FLOP/s]
    gemm_efficiency, in_training_efficiency : array_like
        Share of the peak that the best shape reaches alone, and what a long run leaves of it.
    shape_efficiency : array_like
        :func:`product_efficiency` of the shape.
    memory_bytes_per_s, memory_efficiency : array_like
        Peak memory bandwidth [byte/s] and the share that is reached.
    result_bytes : array_like
        Memory traffic of one element of the result: 2 for one written in 16 bits, 8 for one added to 32 bits. [byte]
    kernel_share : array_like
        What software keeps of the rate in whole runs.
    clock_slowdown : array_like
        Time of the multiplications at the clock of the device over that at full clock; writing keeps its time.

    Returns
    -------
    ndarray
        Shape ``(cut,)``. [s]

    Notes
    -----
    :math:`2mnk / (P e) + 0.72 \cdot b\,mn / B`: the time to write the result adds to the multiplications rather than
    hiding behind them, as measured times of 8192 × 8192 × k products show [1]_; a maximum of the two is optimistic.

    References
    ----------
    .. [1] tilelang benchmark tables of H800 products (time is a straight line in k with a constant of 29 µs).

    Examples
    --------
    2 · 1024^3 FLOP at half of 2 · 1024^3 FLOP/s, result traffic left out by a boundless bandwidth:

    >>> float(product_s(1024, 1024, 1024, 1, 2 * 1024**3, 0.5, 1.0, 1.0, 1e30, 1.0, 2).round(6))
    2.0
    """
    m, n, k, count = (np.asarray(x, dtype=float) for x in (m, n, k, count))
    rate = np.asarray(peak_flop_per_s) * gemm_efficiency * in_training_efficiency * np.asarray(shape_efficiency)
    rate = rate * kernel_share
    misaligned = (n % 64 != 0) | (k % 64 != 0)
    multiply = 2 * m * n * k / rate * np.where(misaligned, MISALIGNED_FACTOR, 1.0) * clock_slowdown
    write = EPILOGUE_SHARE * result_bytes * m * n / (np.asarray(memory_bytes_per_s) * memory_efficiency)
    return count * (multiply + write)


@formula
def attention_s(
    flop: ArrayLike,
    sequence: ArrayLike,
    peak_flop_per_s: ArrayLike,
    attention_efficiency: ArrayLike,
    in_training_efficiency: ArrayLike,
    direction_ratio: ArrayLike = 1.0,
    kernel_share: ArrayLike = 1.0,
    clock_slowdown: ArrayLike = 1.0,
) -> FloatArray:
    """Time of fused attention without its projections.

    Parameters
    ----------
    flop : array_like
        Executed work, the causal half, shape ``(cut,)``. [FLOP]
    sequence : array_like
        Tokens that one query may see, shape ``(cut,)``.
    peak_flop_per_s : array_like
        Dense 16-bit peak: attention runs in 16 bits whatever the products do. [FLOP/s]
    attention_efficiency : array_like
        Share of the peak that the kernel reaches on long sequences.
    in_training_efficiency : array_like
        What a long run leaves of it.
    direction_ratio : array_like
        Share of this pass over that of the forward pass.
    kernel_share : array_like
        What software keeps of the rate in whole runs.
    clock_slowdown : array_like
        Time at the clock of the device over that at full clock.

    Returns
    -------
    ndarray
        Shape ``(cut,)``. [s]

    Notes
    -----
    Kernels reach half of their rate at 476 tokens and nearly all of it beyond 8 k [1]_.

    References
    ----------
    .. [1] T. Dao, "FlashAttention-2: Faster Attention with Better Parallelism and Work Partitioning," 2023, figures
       4 to 6; J. Shah et al., "FlashAttention-3," 2024, figures 5 and 6.

    Examples
    --------
    10^12 FLOP at half of 100 TFLOP/s, sequence long enough:

    >>> round(float(attention_s(1e12, 1e9, 1e14, 0.5, 1.0)), 6)
    0.02
    """
    flop, sequence = np.asarray(flop, dtype=float), np.asarray(sequence, dtype=float)
    ramp = sequence / (sequence + ATTENTION_HALF_LENGTH)
    share = np.asarray(attention_efficiency) * direction_ratio * in_training_efficiency * np.asarray(kernel_share)
    return flop / (np.asarray(peak_flop_per_s) * share * ramp) * clock_slowdown


@formula
def busiest_s(mean_s: ArrayLike, imbalance_fraction: ArrayLike) -> FloatArray:
    """Time of the busiest of the ranks that share a layer's experts; the others wait for it.

    Parameters
    ----------
    mean_s : array_like
        Time of a rank with the mean number of tokens, shape ``(cut,)``. [s]
    imbalance_fraction : array_like
        Tokens of the busiest rank over the mean, less 1.

    Returns
    -------
    ndarray
        Shape ``(cut,)``. [s]

    Examples
    --------
    >>> float(busiest_s(2.0, 0.1))
    2.2
    """
    return np.asarray(mean_s, dtype=float) * (1 + np.asarray(imbalance_fraction))


@formula
def eager_attention_s(
    flop: ArrayLike,
    scores: ArrayLike,
    score_traffic_bytes: ArrayLike,
    peak_flop_per_s: ArrayLike,
    gemm_efficiency: ArrayLike,
    in_training_efficiency: ArrayLike,
    memory_bytes_per_s: ArrayLike,
    memory_efficiency: ArrayLike,
    kernel_share: ArrayLike = 1.0,
    clock_slowdown: ArrayLike = 1.0,
) -> FloatArray:
    """Time of attention that writes its scores to memory, without its projections.

    Parameters
    ----------
    flop : array_like
        Work on all scores, those that mask or window hide included: such kernels leave none out, shape ``(cut,)``.
        [FLOP]
    scores : array_like
        Entries of the score matrices, shape ``(cut,)``.
    score_traffic_bytes : array_like
        Memory traffic of one score in this pass. [byte]
    peak_flop_per_s, gemm_efficiency, in_training_efficiency : array_like
        Dense 16-bit peak [FLOP/s] and the shares of it that products reach.
    memory_bytes_per_s, memory_efficiency : array_like
        Peak memory bandwidth [byte/s] and the share that is reached.
    kernel_share : array_like
        What software keeps of the rate of products in whole runs.
    clock_slowdown : array_like
        Time of the multiplications at the clock of the device over that at full clock.

    Returns
    -------
    ndarray
        Shape ``(cut,)``. [s]

    References
    ----------
    .. [1] V. Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models," 2022, section 4.

    Examples
    --------
    10^9 scores moved seven times 2 byte at 1 TB/s, multiplications free:

    >>> round(float(eager_attention_s(0, 1e9, 14, 1e14, 1, 1, 1e12, 1)), 6)
    0.014
    """
    rate = np.asarray(peak_flop_per_s) * gemm_efficiency * in_training_efficiency * kernel_share
    multiply = np.asarray(flop, dtype=float) / rate * clock_slowdown
    traffic = np.asarray(scores, dtype=float) * score_traffic_bytes
    return multiply + traffic / (np.asarray(memory_bytes_per_s) * memory_efficiency)


@formula
def scan_s(
    flop: ArrayLike,
    peak_flop_per_s: ArrayLike,
    product_efficiency: ArrayLike,
    in_training_efficiency: ArrayLike,
    kernel_share: ArrayLike = 1.0,
    clock_slowdown: ArrayLike = 1.0,
) -> FloatArray:
    """Time of the arithmetic of state spaces, linear attention and their convolutions; a rough figure.

    Parameters
    ----------
    flop : array_like
        Work token after token, shape ``(cut,)``. [FLOP]
    peak_flop_per_s : array_like
        Dense 16-bit peak. [FLOP/s]
    product_efficiency, in_training_efficiency, kernel_share : array_like
        Share of the peak that large products reach, what a long run leaves of it, and what software keeps of that.
    clock_slowdown : array_like
        Time at the clock of the device over that at full clock.

    Returns
    -------
    ndarray
        Shape ``(cut,)``. [s] Traffic comes on top: kernels load a chunk, then work on it.

    Notes
    -----
    Kernels turn a chunk of tokens into small products [1]_, which do more work than is counted here, on shapes that
    fill the units badly: :data:`SCAN_EFFICIENCY` of what large products reach.

    References
    ----------
    .. [1] T. Dao, A. Gu, "Transformers are SSMs," 2024, sections 6 and 9.

    Examples
    --------
    10^12 FLOP at a quarter of a half of 100 TFLOP/s:

    >>> float(scan_s(1e12, 1e14, 0.5, 1.0))
    0.08
    """
    rate = np.asarray(peak_flop_per_s) * product_efficiency * in_training_efficiency * SCAN_EFFICIENCY
    rate = rate * kernel_share
    return np.asarray(flop, dtype=float) / rate * clock_slowdown


@formula
def memory_bound_s(
    traffic_bytes: ArrayLike, traffic_factor: ArrayLike, memory_bytes_per_s: ArrayLike, memory_efficiency: ArrayLike
) -> FloatArray:
    """Time of work that memory traffic bounds: norms, activations, residuals, routing, loss, optimizer.

    Parameters
    ----------
    traffic_bytes : array_like
        Nominal traffic, each operand moved once, shape ``(cut,)``. [byte]
    traffic_factor : array_like
        Real over nominal traffic of the software: below 1 where kernels are fused, above where they are not.
    memory_bytes_per_s, memory_efficiency : array_like
        Peak memory bandwidth [byte/s] and the share that is reached.

    Returns
    -------
    ndarray
        Shape ``(cut,)``. [s]

    References
    ----------
    .. [1] S. Williams, A. Waterman, D. Patterson, "Roofline: An Insightful Visual Performance Model," 2009.

    Examples
    --------
    1 GB at half of 2 TB/s:

    >>> float(memory_bound_s(1e9, 1.0, 2e12, 0.5))
    0.001
    """
    bandwidth = np.asarray(memory_bytes_per_s) * np.asarray(memory_efficiency)
    return np.asarray(traffic_bytes, dtype=float) * traffic_factor / bandwidth


@formula
def host_wait_s(device_s: ArrayLike, host_s: ArrayLike) -> FloatArray:
    """Time in which a device waits for its host to launch work.

    Launches run ahead of the device, so it waits only where they take longer than the work.

    Parameters
    ----------
    device_s : array_like
        Time of the work on the device, shape ``(cut,)``. [s]
    host_s : array_like
        Time that the host needs to launch it. [s]

    Returns
    -------
    ndarray
        Shape ``(cut,)``. [s]

    Examples
    --------
    >>> host_wait_s(np.array([0.1, 2.0]), 0.5).tolist()
    [0.4, 0.0]
    """
    return np.maximum(host_s - np.asarray(device_s, dtype=float), 0.0)


@formula
def routing_stall_s(stall_s: ArrayLike, recomputed: ArrayLike) -> FloatArray:
    """Time in which a layer with experts waits for its host, forward and backward.

    The host launches the exchange and the experts' products only after it has read how many tokens each expert gets:
    it cannot run ahead, and the device waits whatever work it has [1]_. A forward pass that is run again waits again.

    Parameters
    ----------
    stall_s : array_like
        Wait of a forward and a backward pass, half of it in each. [s]
    recomputed : array_like
        Share of the layers whose forward pass is run again, shape ``(cut,)``.

    Returns
    -------
    ndarray
        Shape ``(cut,)``. [s]

    References
    ----------
    .. [1] Megatron-LM, pull request 4247, "Paged Stashing," 2026: without dropped tokens shapes change from step to
       step, which takes the host; buffers of fixed size remove the wait and let a whole iteration be one graph.

    Examples
    --------
    >>> routing_stall_s(2e-3, np.array([0.0, 1.0])).tolist()
    [0.002, 0.003]
    """
    return np.asarray(stall_s, dtype=float) * (1 + np.asarray(recomputed, dtype=float) / 2)


@formula
def optimizer_s(
    local_parameters: ArrayLike,
    optimizer_traffic_bytes: ArrayLike,
    memory_bytes_per_s: ArrayLike,
    memory_efficiency: ArrayLike,
) -> FloatArray:
    """Time of the update of the parameters that a device owns.

    Parameters
    ----------
    local_parameters : array_like
        Parameters that this device updates, shape ``(layout,)``.
    optimizer_traffic_bytes : array_like
        Memory traffic of one update: master copy and moments read and written, gradient read, weight written. [byte]
    memory_bytes_per_s, memory_efficiency : array_like
        Peak memory bandwidth [byte/s] and the share that is reached.

    Returns
    -------
    ndarray
        Shape ``(layout,)``. [s]

    References
    ----------
    .. [1] S. Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models," 2020.

    Examples
    --------
    10^9 parameters of 30 bytes at 1 TB/s:

    >>> float(optimizer_s(1e9, 30, 1e12, 1.0))
    0.03
    """
    return (
        np.asarray(local_parameters, dtype=float)
        * optimizer_traffic_bytes
        / (np.asarray(memory_bytes_per_s) * np.asarray(memory_efficiency))
    )


HOST_EFFICIENCY = 0.7
"""Share of the peak bandwidth of a host's memory that its update of the parameters reaches (assumed: 0.6 to 0.8)."""

COPY_EFFICIENCY = 0.8
"""Share of the line rate that copies between device and host reach. 0.80 to 0.83 on PCIe 4 x16 (measured: 26 of 31.5
GB/s; NVIDIA bandwidthTest listings)."""


@formula
def host_optimizer_s(
    local_parameters: ArrayLike,
    gradient_bytes: ArrayLike,
    weight_bytes: ArrayLike,
    optimizer_traffic_bytes: ArrayLike,
    link_bytes_per_s: ArrayLike,
    host_bytes_per_s: ArrayLike,
) -> FloatArray:
    """Time of an update in host memory: gradients go down, the host updates, weights come up.

    Parameters
    ----------
    local_parameters : array_like
        Parameters that one device's share of the host updates, shape ``(layout,)``.
    gradient_bytes, weight_bytes : array_like
        Bytes of a gradient and of a weight on the link. [byte]
    optimizer_traffic_bytes : array_like
        Traffic of one update in host memory. [byte]
    link_bytes_per_s : array_like
        Line rate between a device and its host, one way. [byte/s]
    host_bytes_per_s : array_like
        One device's share of the peak bandwidth of the host's memory. [byte/s]

    Returns
    -------
    ndarray
        One after another, shape ``(layout,)``; software that does them in pieces takes less. [s]

    References
    ----------
    .. [1] J. Ren et al., "ZeRO-Offload: Democratizing Billion-Scale Model Training," USENIX ATC 2021, section 4.

    Examples
    --------
    10^9 parameters, 6 bytes over 62.5 GB/s at 0.8 and 28 bytes at 100 GB/s and 0.7:

    >>> float(host_optimizer_s(1e9, 4, 2, 28, 62.5e9, 100e9).round(6))
    0.52
    """
    moved = (np.asarray(gradient_bytes) + weight_bytes) / (COPY_EFFICIENCY * np.asarray(link_bytes_per_s))
    updated = np.asarray(optimizer_traffic_bytes) / (HOST_EFFICIENCY * np.asarray(host_bytes_per_s))
    return np.asarray(local_parameters, dtype=float) * (moved + updated)


@formula
def offload_s(offloaded_bytes: ArrayLike, link_bytes_per_s: ArrayLike) -> FloatArray:
    """Time to copy activations to the host and back.

    Parameters
    ----------
    offloaded_bytes : array_like
        What one device sends in a step, shape ``(layout,)``. [byte]
    link_bytes_per_s : array_like
        Line rate between a device and its host, one way. [byte/s]

    Returns
    -------
    ndarray
        Shape ``(layout,)``. [s]

    Examples
    --------
    >>> float(offload_s(50e9, 62.5e9))
    2.0
    """
    return 2 * np.asarray(offloaded_bytes, dtype=float) / (COPY_EFFICIENCY * np.asarray(link_bytes_per_s))


@formula
def model_flop_utilisation(
    flop: ArrayLike, step_s: ArrayLike, devices: ArrayLike, peak_flop_per_s: ArrayLike
) -> FloatArray:
    """Share of the dense peak that a step's FLOP use.

    With the model's FLOP it is the MFU, with recomputed FLOP added the HFU [1]_.

    Parameters
    ----------
    flop : array_like
        Work of one step on all devices, shape ``(layout,)``. [FLOP]
    step_s : array_like
        Length of the step, shape ``(layout,)``. [s]
    devices : array_like
        Devices at work, shape ``(layout,)``.
    peak_flop_per_s : array_like
        Dense peak of the format of the products. [FLOP/s]

    Returns
    -------
    ndarray
        Shape ``(layout,)``.

    References
    ----------
    .. [1] A. Chowdhery et al., "PaLM: Scaling Language Modeling with Pathways," 2022, appendix B.

    Examples
    --------
    >>> float(model_flop_utilisation(1e15, 1.0, 4, 1e15))
    0.25
    """
    return np.asarray(flop, dtype=float) / (np.asarray(step_s) * np.asarray(devices) * np.asarray(peak_flop_per_s))
