"""Checkpoints: their size, the time that they take, the load that they put on storage, and when to take one.

Failures arrive at random at a constant rate, one in ``mtbf_s`` for the whole job; ``numpy.inf`` means never. Every
argument broadcasts against every other; a ``layout`` axis stands for whatever the caller varies.
"""

from __future__ import annotations

import numpy as np
from scipy.special import lambertw

from clusterplan.arrays import ArrayLike, FloatArray, floats
from clusterplan.trace import formula
from clusterplan.units import SECONDS_PER_DAY

SHORT_STALL = 1e-3
"""Stall over MTBF below which the interval comes from its series, which is exact there to the last digits."""


# What a checkpoint takes ----------------------------------------------------------------------------------------------


@formula
def checkpoint_bytes(parameters: ArrayLike, bytes_per_parameter: ArrayLike) -> FloatArray:
    r"""Size of one full checkpoint.

    Parameters
    ----------
    parameters : array_like
        All parameters of the model; of a mixture of experts, every expert.
    bytes_per_parameter : array_like
        What is saved of each: weight, fp32 master copy and optimizer moments, as the stack stores them. Adam in mixed
        precision has 2 + 4 + 4 + 4 = 14, or 12 without the bf16 weight. [bytes]

    Returns
    -------
    ndarray
        Replicas are saved once. [bytes]

    References
    ----------
    BLOOM's checkpoints of 176 billion parameters hold 2.3 TB, 13.1 bytes a parameter (BigScience, training log of
    the 176B model). Those of MLPerf Storage v2.0 for Llama 3 8B, 70B and 405B hold 13.0 to 13.1.

    Examples
    --------
    >>> float(checkpoint_bytes(1e12, 14)) / 1e12
    14.0
    """
    parameters, each = floats(parameters, bytes_per_parameter)
    return parameters * each


@formula
def saved_bytes(checkpoint_bytes: ArrayLike, saved_fraction: ArrayLike) -> FloatArray:
    """What one checkpoint adds to storage.

    Parameters
    ----------
    checkpoint_bytes : array_like
        :func:`checkpoint_bytes`, shape ``(layout,)``. [byte]
    saved_fraction : array_like
        1 for whole checkpoints; less where only what has changed is written, or differences in fewer bits. An optimizer
        changes every weight of a dense network in every step; tables of which a step touches few rows have been saved
        in a sixth to a seventeenth of the bytes [1]_.

    Returns
    -------
    ndarray
        Shape ``(layout,)``. [byte]

    References
    ----------
    .. [1] A. Eisenman et al., "Check-N-Run: a checkpointing system for training deep learning recommendation models,"
       Proc. NSDI, 2022.

    Examples
    --------
    >>> float(saved_bytes(8e12, 0.25))
    2000000000000.0
    """
    size, share = floats(checkpoint_bytes, saved_fraction)
    return size * share


@formula
def restored_bytes(checkpoint_bytes: ArrayLike, saved_fraction: ArrayLike) -> FloatArray:
    """What a restart reads: the last whole checkpoint and, where there are incremental ones, what was saved since.

    Parameters
    ----------
    checkpoint_bytes, saved_fraction : array_like
        As for :func:`saved_bytes`.

    Returns
    -------
    ndarray
        Shape ``(layout,)``. [byte]

    Notes
    -----
    Increments are taken against the last whole checkpoint, so that one of them suffices.

    Examples
    --------
    >>> float(restored_bytes(8e12, 1)), float(restored_bytes(8e12, 0.25))
    (8000000000000.0, 10000000000000.0)
    """
    size, share = floats(checkpoint_bytes, saved_fraction)
    return size * np.where(share < 1, 1 + share, 1)


@formula
def snapshot_s(
    checkpoint_bytes: ArrayLike, devices: ArrayLike, device_bytes_per_s: ArrayLike, barrier_s: ArrayLike
) -> FloatArray:
    r"""Stall of an asynchronous checkpoint: copy to host memory while training stands still.

    Parameters
    ----------
    checkpoint_bytes : array_like
        Size of the whole checkpoint. [bytes]
    devices : array_like
        Accelerators that hold equal shares of it and copy at the same time.
    device_bytes_per_s : array_like
        One accelerator to host memory. [bytes/s]
    barrier_s : array_like
        Agreement of all ranks on the step, and preparation of the copy. [s]

    Returns
    -------
    ndarray
        Training goes on after it; the write to storage runs behind (:func:`write_s`). [s]

    Notes
    -----
    :math:`c = S / (N b) + t_{barrier}`.

    Examples
    --------
    16 TB in 1,000 devices is 16 GB each, at 32 GB/s:

    >>> float(snapshot_s(16e12, 1000, 32e9, 0.5))
    1.0
    """
    size, devices, rate, barrier = floats(checkpoint_bytes, devices, device_bytes_per_s, barrier_s)
    return size / (devices * rate) + barrier


@formula
def write_s(
    checkpoint_bytes: ArrayLike,
    store_bytes_per_s: ArrayLike,
    writers: ArrayLike,
    writer_bytes_per_s: ArrayLike,
    latency_s: ArrayLike,
) -> FloatArray:
    r"""Time to bring one checkpoint to storage.

    Parameters
    ----------
    checkpoint_bytes : array_like
        Size of the whole checkpoint. [bytes]
    store_bytes_per_s : array_like
        Write bandwidth that the job gets of the storage system. [bytes/s]
    writers : array_like
        Devices or nodes that write equal shares at the same time.
    writer_bytes_per_s : array_like
        Bandwidth of one writer. [bytes/s]
    latency_s : array_like
        Opening, metadata and commit of the files. [s]

    Returns
    -------
    ndarray
        The stall of a blocking checkpoint; what an asynchronous one needs after the snapshot until it can be
        relied on. [s]

    Notes
    -----
    The narrower of store and writers: :math:`S / \min(B, n b)` plus the latency.

    Examples
    --------
    14 TB into a store of 100 GB/s by writers that could do 200 GB/s together:

    >>> float(write_s(14e12, 100e9, 100, 2e9, 0))
    140.0
    """
    size, store, writers, writer, latency = floats(
        checkpoint_bytes, store_bytes_per_s, writers, writer_bytes_per_s, latency_s
    )
    return size / np.minimum(store, writers * writer) + latency


@formula
def load_s(
    checkpoint_bytes: ArrayLike,
    reads: ArrayLike,
    store_bytes_per_s: ArrayLike,
    readers: ArrayLike,
    reader_bytes_per_s: ArrayLike,
    latency_s: ArrayLike,
) -> FloatArray:
    r"""Time to read a checkpoint back from storage.

    Parameters
    ----------
    checkpoint_bytes : array_like
        Size of the whole checkpoint. [bytes]
    reads : array_like
        How many times each byte leaves the store: 1 if it is read once and passed on inside the cluster, the
        number of data-parallel replicas if each reads for itself.
    store_bytes_per_s : array_like
        Read bandwidth that the job gets of the storage system. [bytes/s]
    readers : array_like
        Devices or nodes that read equal shares at the same time.
    reader_bytes_per_s : array_like
        Bandwidth of one reader. [bytes/s]
    latency_s : array_like
        Opening and metadata of the files. [s]

    Returns
    -------
    ndarray
        Without passing on inside the cluster, which the network prices. [s]

    Notes
    -----
    :math:`r S / \min(B, n b)` plus the latency.

    Examples
    --------
    14 TB, read by each of 8 replicas from a store of 200 GB/s:

    >>> float(load_s(14e12, 8, 200e9, 1000, 2e9, 0))
    560.0
    """
    size, reads, store, readers, reader, latency = floats(
        checkpoint_bytes, reads, store_bytes_per_s, readers, reader_bytes_per_s, latency_s
    )
    return reads * size / np.minimum(store, readers * reader) + latency


@formula
def stored_bytes(
    checkpoint_bytes: ArrayLike, checkpoints: ArrayLike, tokens: ArrayLike, bytes_per_token: ArrayLike
) -> FloatArray:
    r"""Space that the run takes in storage: checkpoints and training data.

    Parameters
    ----------
    checkpoint_bytes : array_like
        Size of one full checkpoint. [bytes]
    checkpoints : array_like
        Checkpoints that are kept at the same time.
    tokens : array_like
        Tokens of the data set.
    bytes_per_token : array_like
        4 for token numbers in 32 bits. [bytes]

    Returns
    -------
    ndarray
        [bytes]

    Examples
    --------
    Twenty checkpoints of 5 TB, and 10 trillion tokens:

    >>> float(stored_bytes(5e12, 20, 10e12, 4)) / 1e12
    140.0
    """
    size, checkpoints, tokens, each = floats(checkpoint_bytes, checkpoints, tokens, bytes_per_token)
    return checkpoints * size + tokens * each


@formula
def daily_bytes(checkpoint_bytes: ArrayLike, period_s: ArrayLike) -> FloatArray:
    r"""Checkpoints that storage takes in a day.

    Parameters
    ----------
    checkpoint_bytes : array_like
        Size of one full checkpoint. [bytes]
    period_s : array_like
        From one checkpoint in storage to the next, shape ``(layout,)``. More than 0. [s]

    Returns
    -------
    ndarray
        Shape ``(layout,)``. [bytes]

    Notes
    -----
    For a day at work without failures: what storage must be able to take.

    Examples
    --------
    5 TB in each hour:

    >>> float(daily_bytes(5e12, 3600)) / 1e12
    120.0
    """
    size, period = floats(checkpoint_bytes, period_s)
    return size * (SECONDS_PER_DAY / period)


@formula
def read_bytes_per_s(batch_bytes: ArrayLike, step_s: ArrayLike) -> FloatArray:
    r"""Bandwidth at which a run reads its data.

    Parameters
    ----------
    batch_bytes : array_like
        Data of a step, shape ``(layout,)``. [bytes]
    step_s : array_like
        Length of a step, shape ``(layout,)``. [s]

    Returns
    -------
    ndarray
        Shape ``(layout,)``. [bytes/s]

    Examples
    --------
    >>> float(read_bytes_per_s(64e6, 8))
    8000000.0
    """
    size, step = floats(batch_bytes, step_s)
    return size / step


@formula
def batch_bytes(global_batch: ArrayLike, seq_len: ArrayLike, bytes_per_token: ArrayLike) -> FloatArray:
    r"""Data of one step.

    Parameters
    ----------
    global_batch : array_like
        Sequences of one step, shape ``(layout,)``.
    seq_len : array_like
        Tokens of one sequence.
    bytes_per_token : array_like
        4 for token numbers in 32 bits; of pictures and sound many times that. [bytes]

    Returns
    -------
    ndarray
        Shape ``(layout,)``. [bytes]

    Examples
    --------
    >>> float(batch_bytes(2000, 8000, 4)) / 1e6
    64.0
    """
    batch, length, each = floats(global_batch, seq_len, bytes_per_token)
    return batch * (length * each)


@formula
def store_share_fraction(
    stored_bytes: ArrayLike,
    capacity_bytes: ArrayLike,
    checkpoint_bytes: ArrayLike,
    store_bytes_per_s: ArrayLike,
    period_s: ArrayLike,
) -> FloatArray:
    r"""Share of a storage system that others cannot use because of this run.

    Parameters
    ----------
    stored_bytes : array_like
        Space that the run takes (:func:`stored_bytes`). [bytes]
    capacity_bytes : array_like
        Usable capacity of the system. [bytes]
    checkpoint_bytes : array_like
        Size of one full checkpoint. [bytes]
    store_bytes_per_s : array_like
        Write bandwidth of the system. [bytes/s]
    period_s : array_like
        From one checkpoint to the next, shape ``(layout,)``. [s]

    Returns
    -------
    ndarray
        The larger of its share of the space and its mean share of the bandwidth, at most 1, shape ``(layout,)``.

    Notes
    -----
    For a system that several runs share and pay for. One that a run has for itself rests for most of the time, and that
    run pays for all of it.

    Examples
    --------
    One per cent of the space; 6 TB at 2 TB/s in each hundred seconds:

    >>> float(store_share_fraction(1e15, 100e15, 6e12, 2e12, 100))
    0.03
    """
    stored, capacity, size, store, period = floats(
        stored_bytes, capacity_bytes, checkpoint_bytes, store_bytes_per_s, period_s
    )
    return np.minimum(np.maximum(stored / capacity, size / (store * period)), 1)


# When to take a checkpoint --------------------------------------------------------------------------------------------


@formula
def checkpoint_interval_s(stall_s: ArrayLike, mtbf_s: ArrayLike) -> FloatArray:
    r"""Training time between checkpoints that makes the expected run shortest.

    Parameters
    ----------
    stall_s : array_like
        Time training stands still for one checkpoint, shape ``(layout,)``. [s]
    mtbf_s : array_like
        Mean time between failures of the whole job, not of one device, shape ``(layout,)``. Where failures are
        predicted with recall :math:`r`, that of the unpredicted ones, :math:`M / (1 - r)`. [s]

    Returns
    -------
    ndarray
        From the end of one checkpoint to the start of the next, shape ``(layout,)``: infinite where nothing fails,
        0 where a checkpoint costs nothing. :func:`whole_steps_interval_s` makes steps of it. [s]

    Notes
    -----
    Exact for failures that arrive at random, blocking or asynchronous checkpoints, and any restart time:
    :math:`T = M (1 + W_0(-e^{-1 - C/M}))`, with Lambert's :math:`W_0`. For :math:`C \ll M` it tends to Daly's
    :math:`\sqrt{2 C M} - C` [1]_; there :math:`1 + W_0` is a small difference of large numbers, so it is summed
    from its series in :math:`p = \sqrt{2 C / M}` about the branch point [2]_.

    References
    ----------
    .. [1] J. T. Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps," Future Gener.
       Comput. Syst., vol. 22, no. 3, pp. 303-312, 2006.
    .. [2] R. M. Corless, D. J. Jeffrey, D. E. Knuth, "A sequence of series for the Lambert W function," ISSAC 1997.

    Examples
    --------
    A 60 s stall and one failure every 3 h:

    >>> float(checkpoint_interval_s(60, 3 * 3600).round(1))
    1098.8
    """
    stall, mtbf = floats(stall_s, mtbf_s)
    ratio = stall / mtbf
    short = ratio < SHORT_STALL
    p = np.sqrt(2 * ratio)
    series = 1 + p * (-1 / 3 + p * (1 / 36 + p * (1 / 270 + p * (1 / 4320 - p * (1 / 17010 + p * 139 / 5443200)))))
    long = np.where(short, 1.0, ratio)  # the closed form is not a number at 0
    closed = (1 + lambertw(-np.exp(-1 - long)).real) / np.sqrt(2 * long)
    young = np.sqrt(2 * stall * np.where(stall > 0, mtbf, 1.0))  # 0, not 0 × ∞, where both cost and failures are nil
    return young * np.where(short, series, closed)


@formula
def whole_steps_interval_s(
    interval_s: ArrayLike, step_s: ArrayLike, shortest_s: ArrayLike, longest_s: ArrayLike
) -> FloatArray:
    r"""Nearest interval that can be had: a whole number of optimizer steps, at least one.

    Parameters
    ----------
    interval_s : array_like
        The best interval, 0 to infinity, shape ``(layout,)``. [s]
    step_s : array_like
        Length of one optimizer step, shape ``(layout,)``. [s]
    shortest_s : array_like
        What the checkpoint's way to storage allows: its write time over the number of snapshots that fit in host
        memory if it is asynchronous, otherwise 0. Rounded up. [s]
    longest_s : array_like
        What the operator wants to lose at most, or the whole run. Finite; rounded down. Where nothing fails it is
        the answer. [s]

    Returns
    -------
    ndarray
        Shape ``(layout,)``. Where the limits contradict each other the shortest wins, since it is physical. [s]

    Notes
    -----
    Nearest, not the better of the two neighbours: the optimum is flat, and where a half step matters the interval
    is one or two steps long and its neighbours lose nearly the same.

    Examples
    --------
    >>> whole_steps_interval_s([0, 47, np.inf], 10, 0, 3600).tolist()
    [10.0, 50.0, 3600.0]
    """
    interval, step, shortest, longest = floats(interval_s, step_s, shortest_s, longest_s)
    steps = np.rint(np.minimum(interval, longest) / step)
    steps = np.minimum(steps, np.floor(longest / step))
    return step * np.maximum(np.maximum(steps, np.ceil(shortest / step)), 1)
