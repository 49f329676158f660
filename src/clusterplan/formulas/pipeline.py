"""Pipelines: how long a step's micro-batches take, what stands still, how many micro-batches a stage holds."""

from __future__ import annotations

import numpy as np

from clusterplan.arrays import ArrayLike, FloatArray
from clusterplan.trace import formula

FILL_BY_SCHEDULE = np.array([0.0, 1.0, 1.0, 0.415, 0.10, 0.10, 0.415])
"""Part of the 1F1B fill that remains, by schedule (none, 1f1b, interleaved, zb-1p, zb-2p, zb-v, dualpipe). Zero-bubble
schedules put the weights' part of the backward pass into the gaps; 0.415 and 0.10 are fitted to the step times of P. Qi
et al., "Zero Bubble Pipeline Parallelism," 2023, table 4; their own ideal figures are 1/3 and 0. Assumed: ZB-V, ideally
0 too, keeps as much as ZB-2p, and DualPipe, ideally (p - 2) / 3 (p - 1), as much as ZB-1p, whose ideal is the same."""

HELD_BY_SCHEDULE = np.array([1.0, 1.0, 1.0, 1.0, 2.0, 1.0, 1.0])
"""Activations in flight over those of 1F1B, by schedule (same source, section 3)."""

LEVEL_BY_SCHEDULE = np.array([False, False, False, False, False, True, True])
"""Whether all stages hold as much as the first one of 1F1B, by schedule: their micro-batches run both ways (ZB-V: same
source, section 6; DualPipe: DeepSeek-V3 report, arXiv:2412.19437, table 2)."""

MORE_BY_SCHEDULE = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0])
"""Micro-batches in flight besides, by schedule: DualPipe holds p + 1 (same report)."""

COPIES_BY_SCHEDULE = np.array([1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 2.0])
"""Copies of weights and gradients, by schedule: with DualPipe each device has a stage of either direction (same
report)."""

EP_EXPOSED_BY_SCHEDULE = np.array([1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.2])
"""Part of the exposed expert traffic that remains, by schedule. DualPipe runs it under the other direction's compute;
the report has it hidden in full, 0.2 is assumed for what pairs badly."""


@formula
def steady_s(micro_batches: ArrayLike, slowest_stage_s: ArrayLike) -> FloatArray:
    """Time in which the slowest stage works: every micro-batch passes it once forward and once backward.

    Parameters
    ----------
    micro_batches : array_like
        Micro-batches of a step in one pipeline, shape ``(layout,)``.
    slowest_stage_s : array_like
        Forward and backward time of one micro-batch on the slowest stage, shape ``(layout,)``. [s]

    Returns
    -------
    ndarray
        Shape ``(layout,)``. [s]

    Examples
    --------
    >>> float(steady_s(64, 0.1).round(6))
    6.4
    """
    return np.asarray(micro_batches, dtype=float) * slowest_stage_s


@formula
def bubble_s(
    all_stages_s: ArrayLike,
    slowest_stage_s: ArrayLike,
    send_s: ArrayLike,
    stages: ArrayLike,
    virtual_stages: ArrayLike,
    fill_fraction: ArrayLike = 1.0,
) -> FloatArray:
    r"""Time in which the slowest stage waits while the pipeline fills and drains.

    Parameters
    ----------
    all_stages_s : array_like
        Forward and backward time of one micro-batch through all the stages, shape ``(layout,)``. [s]
    slowest_stage_s : array_like
        The slowest stage's part of it. [s]
    send_s : array_like
        Time to send a micro-batch to the next stage, once. [s]
    stages, virtual_stages : array_like
        Stages, and chunks of layers that each holds in turn.
    fill_fraction : array_like
        Part of the wait that the schedule leaves, see :data:`FILL_BY_SCHEDULE`.

    Returns
    -------
    ndarray
        0 for one stage, shape ``(layout,)``. [s]

    Notes
    -----
    With :math:`p` equal stages of time :math:`t` it is :math:`(p-1) t / v` [1]_; with unequal stages the first
    micro-batch passes all the others once. Interleaving divides the wait by the chunks of a stage, since a stage starts
    after one chunk of each earlier one. The messages of the fill are never hidden.

    References
    ----------
    .. [1] D. Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM,"
       SC21, section 2.2.

    Examples
    --------
    Eight equal stages of 1 s, two chunks each:

    >>> float(bubble_s(8.0, 1.0, 0.0, 8, 2))
    3.5
    """
    stages = np.asarray(stages, dtype=float)
    others = np.maximum(np.asarray(all_stages_s, dtype=float) - slowest_stage_s, 0.0)  # one stage: no rounding below 0
    return others / np.asarray(virtual_stages) * fill_fraction + 2 * (stages - 1) * np.asarray(send_s)


@formula
def micro_batches_in_flight(
    stage: ArrayLike,
    stages: ArrayLike,
    virtual_stages: ArrayLike,
    micro_batches: ArrayLike,
    held_factor: ArrayLike = 1.0,
    is_level: ArrayLike = False,
    more: ArrayLike = 0.0,
) -> FloatArray:
    r"""Micro-batches whose activations a stage holds at once, at most.

    Parameters
    ----------
    stage : array_like
        Index of the stage, 0 for the first, shape ``(layout, stage)``.
    stages, virtual_stages, micro_batches : array_like
        Stages, chunks that each holds in turn, and micro-batches of a step; they broadcast against ``stage``.
    held_factor : array_like
        Activations that the schedule holds over those of 1F1B, see :data:`HELD_BY_SCHEDULE`.
    is_level, more : array_like
        Whether all stages hold as much as the first, and how many micro-batches are held besides, see
        :data:`LEVEL_BY_SCHEDULE` and :data:`MORE_BY_SCHEDULE`.

    Returns
    -------
    ndarray
        Shape ``(layout, stage)``.

    Notes
    -----
    1F1B: stage :math:`s` of :math:`p` holds :math:`p - s`. Interleaved with :math:`v` chunks: a stage warms up with
    :math:`2(p - s - 1) + (v - 1)p` chunks and works on one more, each a part :math:`1/v` of the stage; on the first
    stage that is :math:`p (1 + (p-1)/(pv))`, so interleaving holds more, not less [1]_.

    References
    ----------
    .. [1] V. Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models," 2022, section 4.2.3.

    Examples
    --------
    First and last of four stages, plain and with two chunks:

    >>> micro_batches_in_flight(np.array([0, 3]), 4, 1, 64).tolist()
    [4.0, 1.0]
    >>> micro_batches_in_flight(np.array([0, 3]), 4, 2, 64).tolist()
    [5.5, 2.5]
    """
    left = np.asarray(stages, dtype=float) - np.asarray(stage) - 1
    chunks = np.asarray(virtual_stages, dtype=float)
    plain = np.where(is_level, np.asarray(stages, dtype=float), left + 1) + more
    interleaved = (2 * left + (chunks - 1) * np.asarray(stages) + 1) / chunks
    return np.minimum(np.where(chunks > 1, interleaved, plain) * held_factor, micro_batches)
