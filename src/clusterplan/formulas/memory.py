"""Device memory by part. Every formula gives bytes of one device; stages and layouts broadcast."""

from __future__ import annotations

import numpy as np

from clusterplan.arrays import ArrayLike, FloatArray
from clusterplan.trace import formula


@formula
def state_bytes(
    dense_parameters: ArrayLike,
    expert_parameters: ArrayLike,
    bytes_per_parameter: ArrayLike,
    dense_shards: ArrayLike,
    expert_shards: ArrayLike,
) -> FloatArray:
    """Weights, gradients or optimizer states of a device's parameters.

    Parameters
    ----------
    dense_parameters, expert_parameters : array_like
        Parameters that the device would hold unsharded, after tensor, expert and pipeline cuts, shape
        ``(layout, stage)``.
    bytes_per_parameter : array_like
        Bytes of this kind of state: for example 2 for 16-bit weights, 12 for a master copy and two moments. [byte]
    dense_shards, expert_shards : array_like
        Ranks over which the state is shared: 1, or dp × cp for dense parameters and the expert replicas for experts.

    Returns
    -------
    ndarray
        Shape ``(layout, stage)``. [byte]

    References
    ----------
    .. [1] S. Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models," 2020,
       section 3 (what each stage of sharding divides).

    Examples
    --------
    10^9 parameters, 12 bytes each, shared by eight:

    >>> float(state_bytes(1e9, 0, 12, 8, 1))
    1500000000.0
    """
    dense = np.asarray(dense_parameters, dtype=float) / np.asarray(dense_shards)
    expert = np.asarray(expert_parameters, dtype=float) / np.asarray(expert_shards)
    return np.asarray(bytes_per_parameter) * (dense + expert)


@formula
def activation_bytes(saved_bytes: ArrayLike, in_flight: ArrayLike, working_bytes: ArrayLike) -> FloatArray:
    """Activations kept for the backward pass, and those of the layer that is at work.

    Parameters
    ----------
    saved_bytes : array_like
        Kept by all layers of the stage for one micro-batch, shape ``(layout, stage)``. [byte]
    in_flight : array_like
        Micro-batches held at once, shape ``(layout, stage)``.
    working_bytes : array_like
        Held besides by the layer whose backward pass runs; what recompute had dropped is back for one layer,
        shape ``(layout, stage)``. [byte]

    Returns
    -------
    ndarray
        Shape ``(layout, stage)``. [byte]

    References
    ----------
    .. [1] V. Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models," 2022.

    Examples
    --------
    Four micro-batches of 1 GB and a working set of 2 GB:

    >>> float(activation_bytes(1e9, 4, 2e9))
    6000000000.0
    """
    return np.asarray(saved_bytes, dtype=float) * np.asarray(in_flight) + working_bytes


OFFLOAD_LAYERS = 2.0
"""Layers of activations that stay on the device when the others wait in host memory: one on its way out, one on its way
back (assumed: double buffering)."""


@formula
def resident_micro_batches(in_flight: ArrayLike, layers: ArrayLike, is_offloaded: ArrayLike) -> FloatArray:
    """Micro-batches' worth of activations that stay on the device.

    Parameters
    ----------
    in_flight : array_like
        Micro-batches held at once, shape ``(layout, stage)``.
    layers : array_like
        Layers of the stage, shape ``(layout, stage)``.
    is_offloaded : array_like
        Whether activations wait in host memory, shape ``(layout, stage)``.

    Returns
    -------
    ndarray
        All of them, or those of :data:`OFFLOAD_LAYERS` layers, shape ``(layout, stage)``.

    Examples
    --------
    Eight micro-batches of a stage of ten layers:

    >>> resident_micro_batches(8, 10, np.array([False, True])).tolist()
    [8.0, 0.2]
    """
    in_flight = np.asarray(in_flight, dtype=float)
    buffers = OFFLOAD_LAYERS / np.maximum(np.asarray(layers, dtype=float), OFFLOAD_LAYERS)
    return np.where(is_offloaded, np.minimum(buffers, in_flight), in_flight)


@formula
def host_bytes(
    optimizer_bytes: ArrayLike, saved_bytes: ArrayLike, in_flight: ArrayLike, resident: ArrayLike
) -> FloatArray:
    """Host memory that a device fills with what is taken off it.

    Parameters
    ----------
    optimizer_bytes : array_like
        Optimizer's states that the host keeps, 0 where the device does, shape ``(layout, stage)``. [byte]
    saved_bytes : array_like
        Activations of one micro-batch of the stage, shape ``(layout, stage)``. [byte]
    in_flight, resident : array_like
        Micro-batches held in all, and of those on the device, shape ``(layout, stage)``.

    Returns
    -------
    ndarray
        Shape ``(layout, stage)``. [byte]

    Examples
    --------
    >>> float(host_bytes(12e9, 1e9, 8, 0.5))
    19500000000.0
    """
    waiting = np.asarray(in_flight, dtype=float) - resident
    return np.asarray(optimizer_bytes, dtype=float) + np.asarray(saved_bytes) * waiting


@formula
def logits_bytes(logits: ArrayLike, bytes_per_logit: ArrayLike) -> FloatArray:
    """Logits and their gradients at the loss, on the last stage.

    Parameters
    ----------
    logits : array_like
        Logits of one micro-batch on a device, shape ``(layout, stage)``; 0 on other stages.
    bytes_per_logit : array_like
        Held for each at once: a 16-bit and a 32-bit copy, and the gradient, where the loss is not fused. [byte]

    Returns
    -------
    ndarray
        Shape ``(layout, stage)``. [byte]

    Examples
    --------
    8,000 tokens and 128,000 entries over eight ranks, 6 bytes each:

    >>> float(logits_bytes(8000 * 128000 / 8, 6))
    768000000.0
    """
    return np.asarray(logits, dtype=float) * np.asarray(bytes_per_logit)


@formula
def gather_buffer_bytes(
    layer_parameters: ArrayLike,
    weight_bytes: ArrayLike,
    gradient_bytes: ArrayLike,
    is_gathered: ArrayLike,
    most_parameters: ArrayLike = np.inf,
) -> FloatArray:
    """Whole layers that a device holds while its weights are otherwise sharded.

    Parameters
    ----------
    layer_parameters : array_like
        Parameters of the largest layer before sharding, shape ``(layout, stage)``.
    weight_bytes, gradient_bytes : array_like
        Bytes of a gathered weight, and of a gradient before it is reduced. [byte]
    is_gathered : array_like
        Whether weights are sharded and gathered for use, shape ``(layout, stage)``.
    most_parameters : array_like
        Gathered parameters that the software holds at most, where it counts them rather than layers.

    Returns
    -------
    ndarray
        Two layers of weights (one at work, one on its way) and one of gradients, or as many weights and gradients as
        the software holds at most, shape ``(layout, stage)``. [byte]

    References
    ----------
    .. [1] Y. Zhao et al., "PyTorch FSDP: Experiences on Scaling Fully Sharded Data Parallel," 2023, section 3.4.
    .. [2] DeepSpeed documentation, ``stage3_max_live_parameters``.

    Examples
    --------
    >>> float(gather_buffer_bytes(1e9, 2, 4, 1))
    8000000000.0
    """
    layer = np.asarray(layer_parameters, dtype=float)
    weights, gradients = np.minimum(2 * layer, most_parameters), np.minimum(layer, most_parameters)
    return (weights * weight_bytes + gradients * gradient_bytes) * is_gathered


@formula
def fragmentation_bytes(allocated_bytes: ArrayLike, fragmentation_fraction: ArrayLike) -> FloatArray:
    """What the allocator reserves beyond what is allocated at the peak.

    Parameters
    ----------
    allocated_bytes : array_like
        Peak of what is allocated, shape ``(layout, stage)``. [byte]
    fragmentation_fraction : array_like
        Reserved beyond it, relative.

    Returns
    -------
    ndarray
        Shape ``(layout, stage)``. [byte]

    Examples
    --------
    >>> float(fragmentation_bytes(50e9, 0.04))
    2000000000.0
    """
    return np.asarray(allocated_bytes, dtype=float) * fragmentation_fraction


@formula
def context_bytes(stage: ArrayLike, runtime_bytes: ArrayLike) -> FloatArray:
    """Runtime context and communicators, the same on every device.

    Parameters
    ----------
    stage : array_like
        Any array of the shape that is wanted, ``(layout, stage)``.
    runtime_bytes : array_like
        What the runtime and its communicators hold. [byte]

    Returns
    -------
    ndarray
        Shape ``(layout, stage)``. [byte]

    Examples
    --------
    >>> context_bytes(np.zeros((1, 2)), 3e9).tolist()
    [[3000000000.0, 3000000000.0]]
    """
    return np.zeros_like(np.asarray(stage, dtype=float)) + runtime_bytes


@formula
def usable_bytes(memory_bytes: ArrayLike, margin_fraction: ArrayLike) -> FloatArray:
    """Memory that a safe plan may fill.

    Parameters
    ----------
    memory_bytes : array_like
        Memory that the device shows to a program. [byte]
    margin_fraction : array_like
        Share that stays free: peaks move from step to step, and the model of memory has errors.

    Returns
    -------
    ndarray
        [byte]

    Examples
    --------
    >>> float(usable_bytes(80e9, 0.05))
    76000000000.0
    """
    return np.asarray(memory_bytes, dtype=float) * (1 - np.asarray(margin_fraction))
