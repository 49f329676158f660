r"""Failures, checkpoints, restarts and spares: what of the wall time is training, and when the run ends.

Failures arrive at random at a constant rate, one in ``mtbf_s`` for the whole job; ``numpy.inf`` means never. All forms
of the useful fraction are exact for that law at any scale, so they fall towards 0 where failures come faster than
restarts and never below it. They share three factors:

* of each period, the interval is training and the stall of the checkpoint is not;
* of the time at work, :math:`x / (e^x - 1)` is kept, where :math:`x` is the period over the MTBF: the rest is repeated;
* of the wall time, :math:`e^{-R/M} / (1 + D/M)` is at work: the rest is down (:math:`D`) or restoring (:math:`R`).

Failures do not strike while the job is down. They do strike while it restores, which then starts again with a new
outage. Every argument broadcasts against every other; a ``layout`` axis stands for whatever the caller varies.
"""

from __future__ import annotations

import numpy as np
from scipy.special import exprel, gammainc, gammaincinv, lambertw, pdtrc

from clusterplan.arrays import ArrayLike, FloatArray, IntArray
from clusterplan.trace import formula

NEVER = 150.0
"""Exponents are held at this value. Of a run that needs e^150 attempts nothing is left to compare, and its useful
fraction and wall time stay finite numbers."""

SHORT_STALL = 1e-3
"""Stall over MTBF below which the interval comes from its series, which is exact there to the last digits."""

SHORT_PERIOD = 1e-2
"""Period over MTBF below which moments of a failed attempt come from their series, for the same reason."""

NORMAL_95 = 1.6448536269514722
"""Standard deviations from the mean to the 95th percentile of a normal law: half of the width of a 90 % interval."""

DAY_S = 86400.0
"""[s]"""

CERTAIN = 1e-9
"""Relative spread below which the end of the run is a point in time: 10 ms in four months."""


def _floats(*values: ArrayLike) -> list[FloatArray]:
    """Each argument as an array of floats."""
    return [np.asarray(value, dtype=float) for value in values]


# How often the job fails ----------------------------------------------------------------------------------------------


@formula
def job_mtbf_s(
    devices: ArrayLike, failures_per_device_s: ArrayLike, nodes: ArrayLike, failures_per_node_s: ArrayLike
) -> FloatArray:
    r"""Mean time between failures that stop the job.

    Parameters
    ----------
    devices : array_like
        Accelerators at work, shape ``(layout,)``.
    failures_per_device_s : array_like
        Failures that stop the job, per accelerator and second at work. [1/s]
    nodes : array_like
        Nodes at work, shape ``(layout,)``.
    failures_per_node_s : array_like
        The same per node, for what is counted by node or belongs to none of its accelerators (host, links,
        software). A published rate per node usually includes the accelerators: then the rate per device is 0. [1/s]

    Returns
    -------
    ndarray
        Infinite where nothing fails. [s]

    Notes
    -----
    A series system: the first part that fails stops all, so rates add. Proportional to size, which published fleets
    bear out for jobs of about 4,000 accelerators and more; small jobs fail more often than the rule says,
    by 3 to 4 times at 1,024 accelerators [1]_.

    References
    ----------
    .. [1] A. Kokolis et al., "Revisiting reliability in large-scale machine learning research clusters," HPCA 2025,
       arXiv:2410.21680.

    Examples
    --------
    A node that fails once in 1,000 days, 500 times:

    >>> float(job_mtbf_s(4000, 0, 500, 1 / (1000 * 86400))) / 86400
    2.0
    """
    devices, device_rate, nodes, node_rate = _floats(devices, failures_per_device_s, nodes, failures_per_node_s)
    with np.errstate(divide="ignore"):  # 1/0: never
        return 1 / (devices * device_rate + nodes * node_rate)


@formula
def changed_failures_s(
    failures_s: ArrayLike, profile_failures_s: ArrayLike, cause_fraction: ArrayLike, factor: ArrayLike
) -> FloatArray:
    r"""Rate of failures of one thing where one of their causes strikes more or less often.

    Parameters
    ----------
    failures_s : array_like
        With the changes of other causes, if there are any. [1/s]
    profile_failures_s : array_like
        As the thing's profile has them. [1/s]
    cause_fraction : array_like
        Share of these that has the cause.
    factor : array_like
        How many times as often it strikes.

    Returns
    -------
    ndarray
        [1/s]

    Notes
    -----
    :math:`\lambda + \lambda_0 s (k - 1)`: causes are independent, and what has no known cause stays.

    Examples
    --------
    Half of a quarter of the failures gone:

    >>> float(changed_failures_s(8, 8, 0.25, 0.5))
    7.0
    """
    rate, before, share, times = _floats(failures_s, profile_failures_s, cause_fraction, factor)
    return rate + before * share * (times - 1)


@formula
def interruptions_by_cause(
    interruptions: ArrayLike,
    mtbf_s: ArrayLike,
    things: ArrayLike,
    failures_s: ArrayLike,
    cause_fraction: ArrayLike,
    factor: ArrayLike = 1.0,
) -> FloatArray:
    r"""Interruptions of a job that one cause of failures in one kind of thing brings.

    Parameters
    ----------
    interruptions : array_like
        Of all causes, :func:`expected_interruptions`, shape ``(layout,)``.
    mtbf_s : array_like
        Mean time between failures of the job by the rates of all things at work, shape ``(layout,)``. [s]
    things : array_like
        Devices or nodes at work, shape ``(layout,)``.
    failures_s : array_like
        Failures of one of them as its profile has them. [1/s]
    cause_fraction : array_like
        Share of these that has the cause.
    factor : array_like
        How many times as often it strikes.

    Returns
    -------
    ndarray
        Shape ``(layout,)``; over all causes and things they add up to ``interruptions``.

    Notes
    -----
    :math:`I\, n \lambda s k\, M`: each cause has the share of the interruptions that it has of the rate of the job.

    Examples
    --------
    Of 100 interruptions, a quarter of the devices' half:

    >>> float(interruptions_by_cause(100, 1000, 50, 1e-5, 0.25))
    12.5
    """
    count, mtbf, number, rate, share, times = _floats(interruptions, mtbf_s, things, failures_s, cause_fraction, factor)
    with np.errstate(invalid="ignore"):  # 0 failures in an infinite time
        return np.where(count > 0, count * number * rate * share * times * mtbf, 0.0)


@formula
def mean_mtbf_s(mtbf_s: ArrayLike, early_factor: ArrayLike, early_s: ArrayLike, length_s: ArrayLike) -> FloatArray:
    r"""Mean time between failures over a run on machines that are still being burned in.

    Parameters
    ----------
    mtbf_s : array_like
        That of burned-in machines, for the whole job, shape ``(layout,)``. [s]
    early_factor : array_like
        How many times as often machines fail on the first day of the run; 1 for burned-in ones.
    early_s : array_like
        Time in which what is above 1 of it falls by e. More than 0. [s]
    length_s : array_like
        Length of the run, shape ``(layout,)``. More than 0. [s]

    Returns
    -------
    ndarray
        Time over expected failures, shape ``(layout,)``. [s]

    Notes
    -----
    The rate falls as :math:`1 + (b - 1) e^{-t/\tau}`, so its mean over a run of length :math:`T` is
    :math:`1 + (b - 1) (1 - e^{-T/\tau}) \tau/T` of that of burned-in machines. Losses follow the mean rate well where
    they are small. The factor is 3 to 10 and the time 30 to 90 days for a new cluster; 3 to 10 % of a fresh batch
    fail early [1]_.

    References
    ----------
    .. [1] S. Bekman, "Machine Learning Engineering Open Book," accelerators: infant mortality.

    Examples
    --------
    Three times as often at first, over a run twice as long as the burn-in:

    >>> float(mean_mtbf_s(1000, 3, 1, 2).round(1))
    536.3
    """
    mtbf, factor, early, length = _floats(mtbf_s, early_factor, early_s, length_s)
    share = -np.expm1(-length / early) * early / length
    return mtbf / (1 + (factor - 1) * share)


@formula
def joint_mtbf_s(mtbf_s: ArrayLike, failures_beside_s: ArrayLike) -> FloatArray:
    """Mean time between failures of a job of which a part stands elsewhere.

    Parameters
    ----------
    mtbf_s : array_like
        Of this part alone, shape ``(layout,)``. [s]
    failures_beside_s : array_like
        Failures of the other parts, each of which stops all. [1/s]

    Returns
    -------
    ndarray
        Shape ``(layout,)``; a series system, whose rates add. [s]

    Examples
    --------
    A part that fails every hour beside one that fails as often:

    >>> float(joint_mtbf_s(3600.0, 1 / 3600))
    1800.0
    """
    alone, beside = _floats(mtbf_s, failures_beside_s)
    return 1 / (1 / alone + beside)


@formula
def expected_interruptions(wall_s: ArrayLike, mtbf_s: ArrayLike, down_s: ArrayLike = 0.0) -> FloatArray:
    r"""Failures that stop the job during the run.

    Parameters
    ----------
    wall_s : array_like
        Expected length of the run with all its failures, shape ``(layout,)``. [s]
    mtbf_s : array_like
        Mean time between failures of the whole job while it is up, shape ``(layout,)``. [s]
    down_s : array_like
        Time after each failure in which nothing more can fail. [s]

    Returns
    -------
    ndarray
        Expected number, shape ``(layout,)``.

    Notes
    -----
    Each failure ends a time up of :math:`M` and begins a time down of :math:`D` on average: :math:`t / (M + D)`.

    Examples
    --------
    Up for an hour, down for a quarter, over 100 h:

    >>> float(expected_interruptions(100 * 3600, 3600, 900))
    80.0
    """
    wall, mtbf, down = _floats(wall_s, mtbf_s, down_s)
    return wall / (mtbf + down)


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
    parameters, each = _floats(parameters, bytes_per_parameter)
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
    size, share = _floats(checkpoint_bytes, saved_fraction)
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
    size, share = _floats(checkpoint_bytes, saved_fraction)
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
    size, devices, rate, barrier = _floats(checkpoint_bytes, devices, device_bytes_per_s, barrier_s)
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
    size, store, writers, writer, latency = _floats(
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
    size, reads, store, readers, reader, latency = _floats(
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
    size, checkpoints, tokens, each = _floats(checkpoint_bytes, checkpoints, tokens, bytes_per_token)
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
    size, period = _floats(checkpoint_bytes, period_s)
    return size * (DAY_S / period)


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
    size, step = _floats(batch_bytes, step_s)
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
    batch, length, each = _floats(global_batch, seq_len, bytes_per_token)
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
    stored, capacity, size, store, period = _floats(
        stored_bytes, capacity_bytes, checkpoint_bytes, store_bytes_per_s, period_s
    )
    return np.minimum(np.maximum(stored / capacity, size / (store * period)), 1)


# What a restart takes -------------------------------------------------------------------------------------------------


@formula
def communicator_init_s(devices: ArrayLike, base_s: ArrayLike, per_device_s: ArrayLike) -> FloatArray:
    r"""Time until all ranks of a job that starts can talk to each other.

    Parameters
    ----------
    devices : array_like
        Ranks of the job.
    base_s : array_like
        What does not grow with the job. [s]
    per_device_s : array_like
        What each rank adds at the place where all ranks meet. [s]

    Returns
    -------
    ndarray
        Shape ``(layout,)``. [s]

    Notes
    -----
    :math:`a + b N`, for a rendezvous in which each rank speaks to one store. A barrier in which every rank
    waits for every other grows with :math:`N^2` and is no longer in use at scale [1]_.

    References
    ----------
    .. [1] Z. Jiang et al., "MegaScale: Scaling large language model training to more than 10,000 GPUs," NSDI 2024,
       arXiv:2402.15627: section on initialization of communication groups.

    Examples
    --------
    >>> float(communicator_init_s(10_000, 5, 0.002))
    25.0
    """
    devices, base, each = _floats(devices, base_s, per_device_s)
    return base + each * devices


@formula
def down_s(detect_s: ArrayLike, diagnose_s: ArrayLike, replace_s: ArrayLike, launch_s: ArrayLike) -> FloatArray:
    r"""Time after a failure in which the job does not run, so that nothing of it can fail again.

    Parameters
    ----------
    detect_s : array_like
        From the failure to the alarm: seconds for a crash, the watchdog's limit for a hang. [s]
    diagnose_s : array_like
        Finding the node at fault. [s]
    replace_s : array_like
        Putting a spare in its place. [s]
    launch_s : array_like
        Scheduler and start of the processes. [s]

    Returns
    -------
    ndarray
        Their sum. [s]

    Examples
    --------
    >>> float(down_s(60, 120, 30, 90))
    300.0
    """
    detect, diagnose, replace, launch = _floats(detect_s, diagnose_s, replace_s, launch_s)
    return detect + diagnose + replace + launch


@formula
def mean_down_s(
    down_s: ArrayLike,
    domain_failure_fraction: ArrayLike,
    domain_outage_s: ArrayLike,
    domain_nodes: ArrayLike,
    spare_nodes: ArrayLike,
) -> FloatArray:
    r"""Mean time down after a failure, where some failures take all nodes of a power, cooling or switch domain.

    Parameters
    ----------
    down_s : array_like
        After the failure of one node (:func:`down_s`). [s]
    domain_failure_fraction : array_like
        Share of failures that take a whole domain, 0 to 1.
    domain_outage_s : array_like
        Until the domain is back. [s]
    domain_nodes : array_like
        Nodes of a domain.
    spare_nodes : array_like
        Nodes that stand by, shape ``(layout,)``.

    Returns
    -------
    ndarray
        Shape ``(layout,)``. [s]

    Notes
    -----
    Spares that can take the place of the whole domain do; otherwise the job waits for it. Only the mean enters the
    expected length of a run, whose down times nothing else happens in. Spares in repair are not looked at.

    Examples
    --------
    One failure in 50 takes 16 nodes for an hour; 20 spares can step in, 10 cannot:

    >>> mean_down_s(300, 0.02, 3600, 16, [20, 10]).tolist()
    [300.0, 372.0]
    """
    down, share, outage, domain, spares = _floats(
        down_s, domain_failure_fraction, domain_outage_s, domain_nodes, spare_nodes
    )
    return down + share * outage * (domain > spares)


@formula
def restore_s(communicator_init_s: ArrayLike, load_s: ArrayLike, warm_up_s: ArrayLike) -> FloatArray:
    r"""Time from the start of the processes to the first useful step, exposed to new failures.

    Parameters
    ----------
    communicator_init_s : array_like
        Until all ranks can talk to each other. [s]
    load_s : array_like
        Reading the checkpoint. [s]
    warm_up_s : array_like
        Compilation, graph capture, filling of the input pipeline. [s]

    Returns
    -------
    ndarray
        Their sum. [s]

    Examples
    --------
    >>> float(restore_s(30, 70, 20))
    120.0
    """
    init, load, warm_up = _floats(communicator_init_s, load_s, warm_up_s)
    return init + load + warm_up


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
    stall, mtbf = _floats(stall_s, mtbf_s)
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
    interval, step, shortest, longest = _floats(interval_s, step_s, shortest_s, longest_s)
    steps = np.rint(np.minimum(interval, longest) / step)
    steps = np.minimum(steps, np.floor(longest / step))
    return step * np.maximum(np.maximum(steps, np.ceil(shortest / step)), 1)


# What of the wall time is training ------------------------------------------------------------------------------------


@formula
def up_fraction(restore_s: ArrayLike, down_s: ArrayLike, mtbf_s: ArrayLike) -> FloatArray:
    r"""Share of the wall time in which the job is at work: neither down nor restoring.

    Parameters
    ----------
    restore_s : array_like
        From the start of the processes to the first useful step, exposed to failures, shape ``(layout,)``. [s]
    down_s : array_like
        From the failure to that start; nothing fails meanwhile, shape ``(layout,)``. [s]
    mtbf_s : array_like
        Mean time between failures of the whole job, shape ``(layout,)``. More than 0. [s]

    Returns
    -------
    ndarray
        0 to 1. What is missing to 1 is lost to restarts.

    Notes
    -----
    A failure at work costs :math:`(M + D) e^{R/M} - M`, restarts of the restart included, and one comes per
    :math:`M` at work: :math:`e^{-R/M} / (1 + D/M)` [1]_.

    References
    ----------
    .. [1] M. Bougeret, H. Casanova, M. Rabie, Y. Robert, F. Vivien, "Checkpointing strategies for parallel jobs,"
       SC 2011.

    Examples
    --------
    Down for as long as it is up:

    >>> float(up_fraction(0, 3600, 3600))
    0.5
    """
    restore, down, rate = _floats(restore_s, down_s, 1 / np.asarray(mtbf_s, dtype=float))
    return np.exp(-np.minimum(restore * rate, NEVER)) / (1 + down * rate)


@formula
def training_fraction(interval_s: ArrayLike, stall_s: ArrayLike) -> FloatArray:
    r"""Share of a checkpoint period in which steps run.

    Parameters
    ----------
    interval_s : array_like
        Training between checkpoints, shape ``(layout,)``. More than 0. [s]
    stall_s : array_like
        Time training stands still for one checkpoint, shape ``(layout,)``. [s]

    Returns
    -------
    ndarray
        0 to 1, shape ``(layout,)``.

    Examples
    --------
    >>> float(training_fraction(540, 60))
    0.9
    """
    interval, stall = _floats(interval_s, stall_s)
    return interval / (interval + stall)


@formula
def kept_fraction(period_s: ArrayLike, mtbf_s: ArrayLike, persist_s: ArrayLike = 0.0) -> FloatArray:
    r"""Share of the time at work that no failure undoes.

    Parameters
    ----------
    period_s : array_like
        Interval and stall together: what must pass without a failure to be kept, shape ``(layout,)``. [s]
    mtbf_s : array_like
        Mean time between failures of the whole job, shape ``(layout,)``. More than 0. [s]
    persist_s : array_like
        From the end of an asynchronous snapshot until it can be relied on, shape ``(layout,)``. [s]

    Returns
    -------
    ndarray
        0 to 1. What is missing to 1 is work done again.

    Notes
    -----
    A period :math:`P` takes :math:`M (e^{P/M} - 1)` at work on average [1]_, so :math:`x / (e^x - 1)` is kept,
    :math:`x = P/M`. A checkpoint that becomes reliable :math:`L` late adds the factor :math:`e^{-L/M}`
    (:func:`asynchronous_useful_fraction`).

    References
    ----------
    .. [1] J. T. Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps," Future Gener.
       Comput. Syst., vol. 22, no. 3, pp. 303-312, 2006.

    Examples
    --------
    For rare failures about half a period is lost at each:

    >>> float(kept_fraction(60, 6000).round(3))
    0.995
    """
    period, mtbf, persist = _floats(period_s, mtbf_s, persist_s)
    growth: FloatArray = exprel(np.minimum(period / mtbf, NEVER))
    return np.exp(-np.minimum(persist / mtbf, NEVER)) / growth


@formula
def in_service_fraction(stop_s: ArrayLike, between_stops_s: ArrayLike) -> FloatArray:
    r"""Share of the wall time that planned stops leave.

    Parameters
    ----------
    stop_s : array_like
        Length of a stop for maintenance or a change of the configuration, restart included, shape ``(layout,)``. [s]
    between_stops_s : array_like
        Time between the end of one and the start of the next. More than 0. [s]

    Returns
    -------
    ndarray
        0 to 1, shape ``(layout,)``.

    Notes
    -----
    A stop that is planned comes right after a checkpoint and undoes nothing.

    Examples
    --------
    >>> float(in_service_fraction(3600, 9 * 3600))
    0.9
    """
    stop, between = _floats(stop_s, between_stops_s)
    return between / (between + stop)


@formula
def uncorrupted_fraction(silent_fraction: ArrayLike, found_s: ArrayLike, mtbf_s: ArrayLike) -> FloatArray:
    r"""Share of the kept work that no silent corruption spoils.

    Parameters
    ----------
    silent_fraction : array_like
        Share of failures that are corruptions found late, 0 to 1.
    found_s : array_like
        Time at work from the corruption until it is found; all of it is done again. [s]
    mtbf_s : array_like
        Mean time between failures of all kinds, for the whole job, shape ``(layout,)``. [s]

    Returns
    -------
    ndarray
        0 to 1, shape ``(layout,)``.

    Notes
    -----
    A corruption comes after :math:`M/f` of good work and spoils :math:`\tau` of work, in which further ones change
    nothing: :math:`1 / (1 + f \tau / M)`. Its restart is counted with the other failures.

    Examples
    --------
    One failure in ten, found as late as the time between two failures:

    >>> float(uncorrupted_fraction(0.1, 3600, 3600).round(4))
    0.9091
    """
    share, found, rate = _floats(silent_fraction, found_s, 1 / np.asarray(mtbf_s, dtype=float))
    return 1 / (1 + share * found * rate)


@formula
def full_speed_fraction(slow_node_fraction: ArrayLike) -> FloatArray:
    r"""Share of the stepping time that would be needed if no node were slow.

    Parameters
    ----------
    slow_node_fraction : array_like
        How much longer the steps of the whole run are because of slow nodes, relative to the mean step.

    Returns
    -------
    ndarray
        0 to 1.

    References
    ----------
    BLOOM lost 5 % while one node was slow (BigScience chronicles of tr11-176B). 42.5 % of ByteDance's jobs were at
    least 10 % slower than without stragglers (arXiv:2505.05713), on a fleet that nobody had tuned for one job.

    Examples
    --------
    >>> float(full_speed_fraction(0.25))
    0.8
    """
    (slow,) = _floats(slow_node_fraction)
    return 1 / (1 + slow)


@formula
def fed_fraction(step_s: ArrayLike, batch_bytes: ArrayLike, read_bytes_per_s: ArrayLike) -> FloatArray:
    r"""Share of the stepping time that would be needed if storage brought the data in time.

    Parameters
    ----------
    step_s : array_like
        Length of a step, shape ``(layout,)``. [s]
    batch_bytes : array_like
        Data of a step, shape ``(layout,)``. [bytes]
    read_bytes_per_s : array_like
        Bandwidth at which storage is read. [bytes/s]

    Returns
    -------
    ndarray
        0 to 1, shape ``(layout,)``.

    Notes
    -----
    Data are read ahead, so a step waits only where the reading of a batch takes longer than a step.

    Examples
    --------
    >>> fed_fraction([2, 8], 40e9, 10e9).tolist()
    [0.5, 1.0]
    """
    step, size, rate = _floats(step_s, batch_bytes, read_bytes_per_s)
    return np.minimum(step * rate / size, 1)


@formula
def both_fraction(first_fraction: ArrayLike, second_fraction: ArrayLike) -> FloatArray:
    r"""Share that is left by two causes, the second of which takes from what the first one left.

    Parameters
    ----------
    first_fraction, second_fraction : array_like
        Share that each leaves, shape ``(layout,)``.

    Returns
    -------
    ndarray
        0 to 1, shape ``(layout,)``.

    Examples
    --------
    >>> float(both_fraction(0.5, 0.5))
    0.25
    """
    first, second = _floats(first_fraction, second_fraction)
    return first * second


@formula
def pattern_training_fraction(
    interval_s: ArrayLike, segments: ArrayLike, local_stall_s: ArrayLike, global_stall_s: ArrayLike
) -> FloatArray:
    r"""Share of a pattern of local and global checkpoints in which steps run.

    Parameters
    ----------
    interval_s : array_like
        Training between local checkpoints, shape ``(layout,)``. More than 0. [s]
    segments : array_like
        Such intervals between global checkpoints, at least 1, shape ``(layout,)``.
    local_stall_s, global_stall_s : array_like
        Time training stands still for each kind. [s]

    Returns
    -------
    ndarray
        0 to 1, shape ``(layout,)``.

    Examples
    --------
    Nine stalls of a second and one of 1 + 10 in 180 s of training:

    >>> float(pattern_training_fraction(18, 10, 1, 10))
    0.9
    """
    interval, segments, stall_1, stall_2 = _floats(interval_s, segments, local_stall_s, global_stall_s)
    return interval / (interval + stall_1 + stall_2 / segments)


@formula
def pattern_interval_s(interval_s: ArrayLike, segments: ArrayLike) -> FloatArray:
    r"""Training between checkpoints in storage where only every so-many-th checkpoint goes there.

    Parameters
    ----------
    interval_s : array_like
        Training between local checkpoints, shape ``(layout,)``. [s]
    segments : array_like
        Such intervals between global checkpoints, shape ``(layout,)``.

    Returns
    -------
    ndarray
        Shape ``(layout,)``. [s]

    Examples
    --------
    >>> float(pattern_interval_s(20, 30))
    600.0
    """
    interval, segments = _floats(interval_s, segments)
    return interval * segments


@formula
def segments(
    interval_s: ArrayLike, global_stall_s: ArrayLike, global_persist_s: ArrayLike, global_mtbf_s: ArrayLike
) -> FloatArray:
    r"""Local checkpoint intervals between checkpoints in storage.

    Parameters
    ----------
    interval_s : array_like
        Training between local checkpoints, shape ``(layout,)``. More than 0. [s]
    global_stall_s : array_like
        Time training stands still for a checkpoint in storage beyond that of a local one; 0 if it is written from the
        copy in memory. [s]
    global_persist_s : array_like
        Time that the write takes behind the training. [s]
    global_mtbf_s : array_like
        Mean time between failures that only a checkpoint in storage survives. [s]

    Returns
    -------
    ndarray
        Whole, at least 1, shape ``(layout,)``.

    Notes
    -----
    As many as :math:`\sqrt{2 C M}`, the best interval of the rare kind by itself, has, but no fewer than the write
    needs. The optimum is flat.

    Examples
    --------
    The write takes 45 s behind the training, and nothing else:

    >>> float(segments(10, 0, 45, 1e6))
    5.0
    """
    interval, stall, persist, mtbf = _floats(interval_s, global_stall_s, global_persist_s, global_mtbf_s)
    best: FloatArray = np.sqrt(2 * stall * np.where(stall > 0, mtbf, 1.0))
    best = np.minimum(best, 1e9 * interval)  # where nothing fails
    return np.maximum(np.maximum(np.rint(best / interval), np.ceil(persist / interval)), 1)


@formula
def lost_fraction(reached_fraction: ArrayLike, kept_fraction: ArrayLike) -> FloatArray:
    r"""Share of the wall time that one cause takes from what the causes before it left.

    Parameters
    ----------
    reached_fraction : array_like
        Share of the wall time that is left before this cause; 1 before the first, shape ``(layout,)``.
    kept_fraction : array_like
        Share of that which this cause leaves, shape ``(layout,)``.

    Returns
    -------
    ndarray
        0 to 1. Losses in a row, each reached by the product of the shares kept before it, and what is left after the
        last add up to 1.

    Examples
    --------
    Three quarters are at work, of which a fifth is lost:

    >>> float(lost_fraction(0.75, 0.8).round(12))
    0.15
    """
    reached, kept = _floats(reached_fraction, kept_fraction)
    return reached * (1 - kept)


@formula
def useful_fraction(
    interval_s: ArrayLike, stall_s: ArrayLike, restore_s: ArrayLike, down_s: ArrayLike, mtbf_s: ArrayLike
) -> FloatArray:
    r"""Share of the wall time that is training kept in the end, with blocking checkpoints.

    Parameters
    ----------
    interval_s : array_like
        Training between checkpoints, shape ``(layout,)``. More than 0. [s]
    stall_s : array_like
        Time training stands still for one checkpoint, until it can be relied on, shape ``(layout,)``. [s]
    restore_s : array_like
        From the start of the processes to the first useful step, exposed to failures, shape ``(layout,)``. [s]
    down_s : array_like
        From the failure to that start; nothing fails meanwhile, shape ``(layout,)``. [s]
    mtbf_s : array_like
        Mean time between failures of the whole job, shape ``(layout,)``. More than 0. [s]

    Returns
    -------
    ndarray
        0 to 1, shape ``(layout,)``.

    Notes
    -----
    :math:`U = T / [(M + D) e^{R/M} (e^{(T + C)/M} - 1)]` [1]_ [2]_, written as the share of training in a period
    times :func:`kept_fraction` times :func:`up_fraction`, which has a value at :math:`M = \infty`.
    Times between failures with a Weibull law of the same mean, shape 0.5 to 1.5, move it by about 1 point.

    References
    ----------
    .. [1] J. T. Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps," Future Gener.
       Comput. Syst., vol. 22, no. 3, pp. 303-312, 2006.
    .. [2] M. Bougeret, H. Casanova, M. Rabie, Y. Robert, F. Vivien, "Checkpointing strategies for parallel jobs,"
       SC 2011.

    Examples
    --------
    Nothing fails, and one minute in ten goes to the checkpoint:

    >>> float(useful_fraction(540, 60, 120, 300, np.inf))
    0.9
    """
    interval, stall = _floats(interval_s, stall_s)
    kept = kept_fraction(interval + stall, mtbf_s)
    useful: FloatArray = training_fraction(interval, stall) * kept * up_fraction(restore_s, down_s, mtbf_s)
    return useful


@formula
def asynchronous_useful_fraction(
    interval_s: ArrayLike,
    stall_s: ArrayLike,
    persist_s: ArrayLike,
    restore_s: ArrayLike,
    down_s: ArrayLike,
    mtbf_s: ArrayLike,
) -> FloatArray:
    r"""Share of the wall time that is training kept in the end, when checkpoints are written behind the training.

    Parameters
    ----------
    interval_s : array_like
        Training between snapshots, shape ``(layout,)``. At least ``persist_s`` over the number of snapshots that
        host memory holds. [s]
    stall_s : array_like
        Time training stands still for the snapshot, shape ``(layout,)``. [s]
    persist_s : array_like
        From the end of the snapshot until it can be relied on, shape ``(layout,)``. [s]
    restore_s : array_like
        From the start of the processes to the first useful step, exposed to failures, shape ``(layout,)``. [s]
    down_s : array_like
        From the failure to that start; nothing fails meanwhile, shape ``(layout,)``. [s]
    mtbf_s : array_like
        Mean time between failures of the whole job, shape ``(layout,)``. More than 0. [s]

    Returns
    -------
    ndarray
        0 to 1, shape ``(layout,)``.

    Notes
    -----
    After a restore, checkpoints become reliable after :math:`L + P`, :math:`L + 2P`, … without failure
    (:math:`P = T + c`). With a blocking checkpoint of the same stall and a restore of :math:`R + L` these are the
    same moments, so both runs have one law: :math:`U`, :func:`wall_standard_deviation_s` and the best interval
    are those of the blocking form with ``restore_s + persist_s``. Only the last write, after the end
    of training, is left out.

    Examples
    --------
    Nothing fails: only the stall counts, however long the write takes.

    >>> float(asynchronous_useful_fraction(594, 6, 300, 120, 300, np.inf))
    0.99
    """
    persist, restore = _floats(persist_s, restore_s)
    return useful_fraction(interval_s, stall_s, restore + persist, down_s, mtbf_s)


@formula
def two_level_useful_fraction(
    interval_s: ArrayLike,
    segments: ArrayLike,
    local_stall_s: ArrayLike,
    global_stall_s: ArrayLike,
    local_restore_s: ArrayLike,
    global_restore_s: ArrayLike,
    down_s: ArrayLike,
    local_mtbf_s: ArrayLike,
    global_mtbf_s: ArrayLike,
) -> FloatArray:
    r"""Share of the wall time that is training kept in the end, with frequent local and rare global checkpoints.

    Parameters
    ----------
    interval_s : array_like
        Training between local checkpoints (host memory, a peer node, a local drive), shape ``(layout,)``. [s]
    segments : array_like
        Such intervals between global checkpoints (shared storage), at least 1, shape ``(layout,)``.
    local_stall_s, global_stall_s : array_like
        Time training stands still for each kind. At the end of the pattern both are taken. [s]
    local_restore_s, global_restore_s : array_like
        From the start of the processes to the first useful step, exposed to failures of both kinds. [s]
    down_s : array_like
        From the failure to that start; nothing fails meanwhile. [s]
    local_mtbf_s : array_like
        Mean time between failures after which the local checkpoint still serves, for the whole job. [s]
    global_mtbf_s : array_like
        Mean time between failures that only a global checkpoint survives: copies lost together, power,
        corrupted state. [s]

    Returns
    -------
    ndarray
        0 to 1, shape ``(layout,)``.

    Notes
    -----
    The expected time :math:`S_j` of the first :math:`j` segments of a pattern, :math:`w_j` long, is

    .. math:: S_j = S_{j-1} + (e^{\lambda w_j} - 1) (1/\lambda + X + h S_{j-1})

    with the rate :math:`\lambda` of both kinds, the expected recovery :math:`X` and the probability :math:`h` that a
    failure ends, perhaps after further failures, at the global checkpoint. Equal segments make it a geometric
    sum, so any number of them costs the same. Exact for independent failures at constant rates; the idea of patterns is
    that of the SCR library [1]_. Good starting values: the one-level intervals of each kind, their ratio as
    ``segments``.

    References
    ----------
    .. [1] A. Moody, G. Bronevetsky, K. Mohror, B. R. de Supinski, "Design, modeling, and evaluation of a scalable
       multi-level checkpointing system," SC 2010.

    Examples
    --------
    Nothing fails; 9 stalls of 1 s and one of 1 + 10 s in 180 s of training:

    >>> float(two_level_useful_fraction(18, 10, 1, 10, 20, 180, 120, np.inf, np.inf))
    0.9
    """
    interval, segments, stall_1, stall_2 = _floats(interval_s, segments, local_stall_s, global_stall_s)
    restore_1, restore_2, down = _floats(local_restore_s, global_restore_s, down_s)
    rate_1, rate_2 = _floats(1 / np.asarray(local_mtbf_s, dtype=float), 1 / np.asarray(global_mtbf_s, dtype=float))
    rate = rate_1 + rate_2
    share_2 = rate_2 / np.maximum(rate, np.finfo(float).tiny)  # immaterial where nothing fails
    share_1 = 1 - share_2

    # Recoveries, in units of the MTBF. One that begins locally is struck again with probability f_1.
    completes = np.exp(-np.minimum(restore_1 * rate, NEVER))
    f_1 = -np.expm1(-restore_1 * rate)
    leaves = share_2 + share_1 * completes  # 1 - f_1 share_1, without its cancellation
    x_2 = np.expm1(np.minimum(restore_2 * rate, NEVER))
    x_2 = x_2 + down * rate * (1 + x_2)
    falls_through = f_1 * share_2 / leaves
    x_1 = (down * rate + f_1) / leaves + falls_through * x_2
    recovery = share_1 * x_1 + share_2 * x_2
    ends_global = share_2 + share_1 * falls_through

    # e^{λw} - 1 over λ: time at work that one segment takes on average.
    work = interval + stall_1
    last = work + stall_2
    work = work * exprel(np.minimum(work * rate, NEVER))
    last = last * exprel(np.minimum(last * rate, NEVER))
    growth = np.log1p(work * rate * ends_global)
    earlier = segments - 1
    before_last = work * (1 + recovery) * earlier * exprel(np.minimum(earlier * growth, NEVER)) / exprel(growth)
    pattern: FloatArray = before_last + last * (1 + recovery + rate * ends_global * before_last)
    return segments * interval / pattern


@formula
def predicted_useful_fraction(
    interval_s: ArrayLike,
    stall_s: ArrayLike,
    proactive_s: ArrayLike,
    restore_s: ArrayLike,
    down_s: ArrayLike,
    mtbf_s: ArrayLike,
    recall: ArrayLike,
    precision: ArrayLike,
) -> FloatArray:
    r"""Share of the wall time that is training kept in the end, when some failures are foreseen.

    Parameters
    ----------
    interval_s : array_like
        Training between regular checkpoints, shape ``(layout,)``. [s]
    stall_s : array_like
        Time training stands still for a regular checkpoint. [s]
    proactive_s : array_like
        Time for the checkpoint (or the move to another node) that an alarm sets off. [s]
    restore_s : array_like
        From the start of the processes to the first useful step. [s]
    down_s : array_like
        From the failure to that start. [s]
    mtbf_s : array_like
        Mean time between failures of the whole job, foreseen or not, shape ``(layout,)``. More than 0. [s]
    recall : array_like
        Share of failures that an alarm announces at least ``proactive_s`` ahead, 0 to 1.
    precision : array_like
        Share of alarms that a failure follows, more than 0 to 1.

    Returns
    -------
    ndarray
        0 to 1, shape ``(layout,)``.

    Notes
    -----
    With rates :math:`\lambda_u = (1 - r)/M` of unforeseen failures and :math:`\lambda_a = r/(p M)` of alarms, their sum
    :math:`l`, :math:`q = e^{-l (T + C)}` and :math:`\varphi = \lambda_a / l`:

    .. math:: U = \frac{T q + \varphi [(1 - e^{-l T})/l - T q]}{(1 - q) [1 + (D + R)/M + C_p \lambda_a] / l}

    An alarm keeps the work done so far and starts a new interval. Exact but for failures during restarts and proactive
    checkpoints, which are left out here: use it where these are short against the MTBF. What restarts that fail cost
    beyond it is :func:`up_fraction` times :math:`1 + (D + R)/M`.

    References
    ----------
    G. Aupy, Y. Robert, F. Vivien, D. Zaidouni, "Checkpointing algorithms and fault prediction," J. Parallel
    Distrib. Comput., vol. 74, no. 2, 2014, has the problem and its first-order solution.

    Examples
    --------
    >>> float(predicted_useful_fraction(540, 60, 60, 120, 300, np.inf, 0.8, 0.9))
    0.9
    """
    interval, stall, proactive, restore, down = _floats(interval_s, stall_s, proactive_s, restore_s, down_s)
    mtbf, recall, precision = _floats(mtbf_s, recall, precision)
    alarms = recall / precision  # per failure
    events = 1 - recall + alarms  # unforeseen failures and alarms, per failure
    period = interval + stall
    none = np.exp(-np.minimum(events * period / mtbf, NEVER))  # probability of a period without event
    mean_work = exprel(-np.minimum(events * interval / mtbf, NEVER))  # of the interval, done before the first event
    kept = none + alarms / events * (mean_work - none)
    lost = (down + restore + alarms * proactive) / mtbf
    return interval * kept / (period * exprel(-np.minimum(events * period / mtbf, NEVER)) * (1 + lost))


@formula
def replica_tolerant_useful_fraction(
    interval_s: ArrayLike,
    stall_s: ArrayLike,
    loss_s: ArrayLike,
    mtbf_s: ArrayLike,
) -> FloatArray:
    r"""Share of the wall time that is training kept in the end, when the other replicas go on after a failure.

    Parameters
    ----------
    interval_s : array_like
        Training between checkpoints, shape ``(layout,)``. More than 0. [s]
    stall_s : array_like
        Time training stands still for one checkpoint, shape ``(layout,)``. [s]
    loss_s : array_like
        Whole-job time that one failure costs on average (:func:`replica_loss_s`), shape ``(layout,)``. [s]
    mtbf_s : array_like
        Mean time between failures of the whole job, shape ``(layout,)``. More than 0. [s]

    Returns
    -------
    ndarray
        0 to 1, shape ``(layout,)``.

    Notes
    -----
    One loss :math:`\Lambda` comes per :math:`M` at work: :math:`T/(T + C) \cdot M / (M + \Lambda)`. Losses that begin
    within an earlier one are not made longer by it; take it where :math:`\Lambda < M`.

    Examples
    --------
    >>> float(replica_tolerant_useful_fraction(540, 60, 300, 900).round(3))
    0.675
    """
    interval, stall, loss, mtbf = _floats(interval_s, stall_s, loss_s, mtbf_s)
    return interval / (interval + stall) / (1 + loss / mtbf)


@formula
def replica_loss_s(
    step_s: ArrayLike,
    reconfigure_s: ArrayLike,
    recover_s: ArrayLike,
    replicas: ArrayLike,
    global_restart_fraction: ArrayLike,
    global_loss_s: ArrayLike,
) -> FloatArray:
    r"""Whole-job time that one failure costs on average when the other replicas go on.

    Parameters
    ----------
    step_s : array_like
        The step that is given up, shape ``(layout,)``. [s]
    reconfigure_s : array_like
        Stop of all replicas until the group is formed anew. [s]
    recover_s : array_like
        Time until the replica that failed is back; only its share of the throughput is missing meanwhile. [s]
    replicas : array_like
        Data-parallel replicas, many more than 1, shape ``(layout,)``.
    global_restart_fraction : array_like
        Share of failures that stop all replicas nevertheless, 0 to 1.
    global_loss_s : array_like
        What such a failure costs beyond the rest: half a checkpoint period, down time and restore. [s]

    Returns
    -------
    ndarray
        Shape ``(layout,)``. [s]

    References
    ----------
    Systems of this kind: I. Jang et al., "Oobleck: Resilient distributed training of large models using pipeline
    templates," SOSP 2023; S. Gandhi et al., "ReCycle: Resilient training of large DNNs using pipeline adaptation,"
    SOSP 2024; PyTorch's torchft.

    Examples
    --------
    >>> float(replica_loss_s(10, 5, 300, 100, 0.05, 400))
    38.0
    """
    step, reconfigure, recover, replicas = _floats(step_s, reconfigure_s, recover_s, replicas)
    share, global_loss = _floats(global_restart_fraction, global_loss_s)
    return step + reconfigure + recover / replicas + share * global_loss


# When the run ends ----------------------------------------------------------------------------------------------------


@formula
def steps(tokens: ArrayLike, global_batch: ArrayLike, seq_len: ArrayLike) -> IntArray:
    r"""Optimizer steps of the run.

    Parameters
    ----------
    tokens : array_like
        Tokens that the run sees.
    global_batch : array_like
        Sequences of one step, shape ``(layout,)``.
    seq_len : array_like
        Tokens of one sequence.

    Returns
    -------
    ndarray of int
        The last one may be partly empty, shape ``(layout,)``.

    Examples
    --------
    Ten batches of 4,096 tokens, and a token more:

    >>> int(steps(40961, 4, 1024))
    11
    """
    tokens, batch, length = _floats(tokens, global_batch, seq_len)
    return np.ceil(tokens / (batch * length)).astype(np.int64)


@formula
def ideal_s(steps: ArrayLike, step_s: ArrayLike) -> FloatArray:
    r"""Length of the run if nothing ever stopped it.

    Parameters
    ----------
    steps : array_like
        Optimizer steps of the run, shape ``(layout,)``.
    step_s : array_like
        Length of one, shape ``(layout,)``. [s]

    Returns
    -------
    ndarray
        All steps one after another, shape ``(layout,)``. [s]

    Examples
    --------
    >>> float(ideal_s(1000, 2.5))
    2500.0
    """
    steps, step = _floats(steps, step_s)
    return steps * step


@formula
def training_s(ideal_s: ArrayLike, repeated_fraction: ArrayLike) -> FloatArray:
    r"""Training that the run needs, with steps that are thrown away for the sake of the model.

    Parameters
    ----------
    ideal_s : array_like
        All steps one after another, shape ``(layout,)``. [s]
    repeated_fraction : array_like
        Steps repeated after loss spikes and the like, over all steps that are run, less than 1. What failures of
        machines undo is not in it.

    Returns
    -------
    ndarray
        Shape ``(layout,)``. [s]

    Examples
    --------
    One step in ten is run for nothing:

    >>> float(training_s(900, 0.1))
    1000.0
    """
    ideal, repeated = _floats(ideal_s, repeated_fraction)
    return ideal / (1 - repeated)


@formula
def expected_wall_s(ideal_s: ArrayLike, useful_fraction: ArrayLike) -> FloatArray:
    r"""Expected length of the run with failures and checkpoints.

    Parameters
    ----------
    ideal_s : array_like
        All steps one after another, shape ``(layout,)``. [s]
    useful_fraction : array_like
        Share of the wall time that is training kept in the end, more than 0, shape ``(layout,)``.

    Returns
    -------
    ndarray
        Shape ``(layout,)``. [s]

    Examples
    --------
    >>> float(expected_wall_s(90, 0.9))
    100.0
    """
    ideal, useful = _floats(ideal_s, useful_fraction)
    return ideal / useful


@formula
def goodput_fraction(ideal_s: ArrayLike, wall_s: ArrayLike) -> FloatArray:
    r"""Share of the wall time that brings the model forward.

    Parameters
    ----------
    ideal_s : array_like
        All steps one after another, none of them twice, shape ``(layout,)``. [s]
    wall_s : array_like
        Expected length of the run, shape ``(layout,)``. [s]

    Returns
    -------
    ndarray
        0 to 1, shape ``(layout,)``.

    Examples
    --------
    >>> float(goodput_fraction(90, 100))
    0.9
    """
    ideal, wall = _floats(ideal_s, wall_s)
    return ideal / wall


def _failed_attempt(duration: FloatArray, rate: FloatArray) -> tuple[FloatArray, FloatArray]:
    r"""Mean and variance of the time to a failure that strikes within ``duration``.

    Of :math:`x = \lambda d`: :math:`d (1/x - 1/(e^x - 1))` and :math:`d^2 (1/x^2 - 1/(4 \sinh^2(x/2)))`, which tend to
    :math:`d/2` and :math:`d^2/12`, those of a moment chosen evenly.
    """
    x = np.minimum(duration * rate, NEVER)
    short = x < SHORT_PERIOD
    y = np.where(short, 1.0, x)
    mean = np.where(short, 1 / 2 - x / 12 + x**3 / 720, 1 / y - 1 / np.expm1(y))
    variance = np.where(short, 1 / 12 - x**2 / 240 + x**4 / 6048, 1 / y**2 - 1 / (4 * np.sinh(y / 2) ** 2))
    return duration * mean, duration**2 * variance


@formula
def wall_standard_deviation_s(
    ideal_s: ArrayLike,
    interval_s: ArrayLike,
    stall_s: ArrayLike,
    restore_s: ArrayLike,
    down_s: ArrayLike,
    mtbf_s: ArrayLike,
) -> FloatArray:
    r"""Standard deviation of the length of the run that failures cause, with one level of checkpoints.

    Parameters
    ----------
    ideal_s : array_like
        All steps one after another, shape ``(layout,)``. [s]
    interval_s : array_like
        Training between checkpoints, shape ``(layout,)``. More than 0. [s]
    stall_s : array_like
        Time training stands still for one checkpoint, shape ``(layout,)``. [s]
    restore_s : array_like
        From the start of the processes to the first useful step, exposed to failures; with asynchronous checkpoints
        plus the time until a snapshot can be relied on, shape ``(layout,)``. [s]
    down_s : array_like
        From the failure to that start; nothing fails meanwhile, shape ``(layout,)``. [s]
    mtbf_s : array_like
        Mean time between failures of the whole job, shape ``(layout,)``. More than 0. [s]

    Returns
    -------
    ndarray
        Shape ``(layout,)``. The mean that belongs to it is ``ideal_s`` over :func:`useful_fraction`. [s]

    Notes
    -----
    Exact. The run is a row of independent segments. A segment of period :math:`P` fails :math:`N` times before it
    succeeds, with :math:`P(N = n) = (1 - e^{-P/M})^n e^{-P/M}`, mean :math:`\bar n = e^{P/M} - 1`. Each failure costs
    :math:`Z`, the time to it and the outage :math:`Y` after it, so the variance of a segment is
    :math:`\bar n \operatorname{var} Z + \bar n (\bar n + 1) (\operatorname{E} Z)^2`. The outage is made the same way,
    of down time and restores that may fail. The known mean of a segment,
    :math:`(e^{P/M} - 1)(M + D) e^{R/M}`, comes out of the same steps. Failures that come in bursts spread more.

    Examples
    --------
    400 segments, each fails with probability of about 1/100 and then costs about 100 s, so 4 failures ± 2:

    >>> float(wall_standard_deviation_s(4000, 10, 0, 0, 95, 1000).round(-1))
    200.0
    """
    ideal, interval, stall, restore, down = _floats(ideal_s, interval_s, stall_s, restore_s, down_s)
    rate = 1 / np.asarray(mtbf_s, dtype=float)
    period = interval + stall
    failures = np.expm1(np.minimum(period * rate, NEVER))  # of a segment, on average
    again = np.expm1(np.minimum(restore * rate, NEVER))  # failed restores of an outage, on average

    mean, variance = _failed_attempt(restore, rate)
    outage = down + restore + again * (down + mean)
    outage_variance = again * variance + again * (again + 1) * (down + mean) ** 2

    mean, variance = _failed_attempt(period, rate)
    segment_variance = failures * (variance + outage_variance) + failures * (failures + 1) * (mean + outage) ** 2
    wall_variance: FloatArray = ideal / interval * segment_variance
    return np.sqrt(wall_variance)


@formula
def rare_loss_standard_deviation_s(
    interruptions: ArrayLike, loss_s: ArrayLike, loss_standard_deviation_s: ArrayLike
) -> FloatArray:
    r"""Standard deviation of the length of the run where losses do not overlap.

    Parameters
    ----------
    interruptions : array_like
        Expected number over the run, shape ``(layout,)``.
    loss_s : array_like
        Mean loss of each, shape ``(layout,)``. [s]
    loss_standard_deviation_s : array_like
        Spread of that loss from failure to failure, shape ``(layout,)``. [s]

    Returns
    -------
    ndarray
        Shape ``(layout,)``. [s]

    Notes
    -----
    A compound Poisson sum: :math:`\sqrt{n (\mu^2 + \sigma^2)}`. For replica-level fault tolerance, two levels and
    prediction, for which it is close while losses are short against the MTBF.

    Examples
    --------
    100 losses of exactly 20 s, so 100 ± 10 of them:

    >>> float(rare_loss_standard_deviation_s(100, 20, 0))
    200.0
    """
    interruptions, mean, spread = _floats(interruptions, loss_s, loss_standard_deviation_s)
    return np.sqrt(interruptions * (mean**2 + spread**2))


@formula
def standard_error_fraction(half_width_fraction: ArrayLike) -> FloatArray:
    r"""Standard error that an interval of 90 % stands for.

    Parameters
    ----------
    half_width_fraction : array_like
        Half of the width of the interval, relative to the estimate.

    Returns
    -------
    ndarray
        Relative standard error, of a normal law.

    Examples
    --------
    >>> float(standard_error_fraction(0.1).round(4))
    0.0608
    """
    (half_width,) = _floats(half_width_fraction)
    return half_width / NORMAL_95


@formula
def finish_standard_deviation_s(
    wall_s: ArrayLike, failure_standard_deviation_s: ArrayLike, step_error_fraction: ArrayLike
) -> FloatArray:
    r"""Standard deviation of the length of the run from failures and from what is not known of the step.

    Parameters
    ----------
    wall_s : array_like
        Expected length of the run, shape ``(layout,)``. [s]
    failure_standard_deviation_s : array_like
        What failures cause, shape ``(layout,)``. [s]
    step_error_fraction : array_like
        Relative standard error of the predicted step time. It is one error for all steps and does not average
        out over them.

    Returns
    -------
    ndarray
        Shape ``(layout,)``. [s]

    Notes
    -----
    The two are independent: variances add.

    Examples
    --------
    >>> float(finish_standard_deviation_s(1000, 30, 0.04))
    50.0
    """
    wall, failure, error = _floats(wall_s, failure_standard_deviation_s, step_error_fraction)
    return np.hypot(failure, wall * error)


@formula
def deadline_probability(
    deadline_s: ArrayLike, wall_s: ArrayLike, finish_standard_deviation_s: ArrayLike
) -> FloatArray:
    r"""Probability that the run ends by a deadline.

    Parameters
    ----------
    deadline_s : array_like
        Time allowed from the start of training, shape ``(layout,)``. [s]
    wall_s : array_like
        Expected length of the run, shape ``(layout,)``. More than 0. [s]
    finish_standard_deviation_s : array_like
        Its standard deviation, shape ``(layout,)``. Where it is 0 the answer is 0 or 1. [s]

    Returns
    -------
    ndarray
        0 to 1, shape ``(layout,)``.

    Notes
    -----
    A gamma law with these two moments: it is the exact limit at both ends. Many segments make it the normal law
    of the central limit theorem. One segment that hardly ever succeeds takes an exponential time, a gamma
    law of shape 1, and a row of such segments a gamma law of their number. It never gives a negative time.

    Examples
    --------
    A mean as long as its spread makes an exponential law: by its mean, 1 - 1/e.

    >>> float(deadline_probability(10, 10, 10).round(4))
    0.6321
    """
    deadline, mean, spread = _floats(deadline_s, wall_s, finish_standard_deviation_s)
    certain = spread <= CERTAIN * mean
    shape = (mean / np.where(certain, mean, spread)) ** 2
    return np.where(certain, deadline >= mean, gammainc(shape, shape * deadline / mean))


@formula
def finish_quantile_s(probability: ArrayLike, wall_s: ArrayLike, finish_standard_deviation_s: ArrayLike) -> FloatArray:
    r"""Time by which the run ends with a given probability: inverse of :func:`deadline_probability`.

    Parameters
    ----------
    probability : array_like
        0 to 1, shape ``(layout,)``.
    wall_s : array_like
        Expected length of the run, shape ``(layout,)``. More than 0. [s]
    finish_standard_deviation_s : array_like
        Its standard deviation, shape ``(layout,)``. Where it is 0 every quantile is the mean. [s]

    Returns
    -------
    ndarray
        Shape ``(layout,)``. [s]

    Notes
    -----
    A gamma law with these two moments, for the reasons given there.

    Examples
    --------
    Median of an exponential law: ln 2 of its mean.

    >>> float(finish_quantile_s(0.5, 10, 10).round(3))
    6.931
    """
    probability, mean, spread = _floats(probability, wall_s, finish_standard_deviation_s)
    certain = spread <= CERTAIN * mean
    shape = (mean / np.where(certain, mean, spread)) ** 2
    return np.where(certain, mean, mean * gammaincinv(shape, probability) / shape)


# Nodes and spares -----------------------------------------------------------------------------------------------------


@formula
def nodes(devices: ArrayLike, node_devices: ArrayLike) -> IntArray:
    r"""Nodes that hold a number of accelerators.

    Parameters
    ----------
    devices : array_like
        Accelerators, shape ``(layout,)``.
    node_devices : array_like
        Accelerators of one node.

    Returns
    -------
    ndarray of int
        The last one may be partly used, shape ``(layout,)``.

    Examples
    --------
    >>> nodes([8, 12, 16], 8).tolist()
    [1, 2, 2]
    """
    devices, each = _floats(devices, node_devices)
    return np.ceil(devices / each).astype(np.int64)


@formula
def purchase_units(
    used_devices: ArrayLike,
    bought_devices: ArrayLike,
    spare_nodes: ArrayLike,
    node_devices: ArrayLike,
    unit_devices: ArrayLike,
) -> IntArray:
    r"""Purchase units of a cluster with its spares.

    Parameters
    ----------
    used_devices : array_like
        Accelerators at work, shape ``(layout,)``.
    bought_devices : array_like
        Accelerators that are bought in any case, at least ``used_devices``, shape ``(layout,)``.
    spare_nodes : array_like
        Nodes that stand by (:func:`spare_nodes`), shape ``(layout,)``.
    node_devices : array_like
        Accelerators of one node.
    unit_devices : array_like
        Accelerators of one purchase unit: node, rack or supernode.

    Returns
    -------
    ndarray of int
        Shape ``(layout,)``.

    Notes
    -----
    Spares are nodes. What is bought and not at work serves as spares first; units are added only for those that it
    does not hold.

    Examples
    --------
    Racks of 72 that work with 64: two spare nodes of 4 fit into what is left of the first, three do not.

    >>> purchase_units(64, 72, [2, 3], 4, 72).tolist()
    [1, 2]
    """
    used, bought, spare, node, unit = _floats(used_devices, bought_devices, spare_nodes, node_devices, unit_devices)
    needed = np.maximum(bought, used + spare * node)
    return np.ceil(needed / unit).astype(np.int64)


@formula
def spare_nodes(
    nodes: ArrayLike, repair_s: ArrayLike, node_mtbf_s: ArrayLike, shortage_probability: ArrayLike
) -> IntArray:
    r"""Fewest spare nodes that replace those in repair, but for a given probability.

    Parameters
    ----------
    nodes : array_like
        Nodes that the job needs, shape ``(layout,)``.
    repair_s : array_like
        From the failure of a node until it can be used again. [s]
    node_mtbf_s : array_like
        Mean time between failures of one node that take it out of service. [s]
    shortage_probability : array_like
        Accepted probability that at a given moment more nodes are in repair than there are spares, between 0
        and 1, neither included.

    Returns
    -------
    ndarray of int
        Shape ``(layout,)``.

    Notes
    -----
    Nodes in repair follow a Poisson law of mean :math:`a = n \cdot` MTTR / MTBF, whatever the law of
    the repair time (Palm). The answer is the smallest :math:`s` with :math:`P(X > s) \le \varepsilon`, found by
    bisection below Bernstein's bound :math:`a + L/3 + \sqrt{L^2/9 + 2 a L}`, :math:`L = \ln(1/\varepsilon)`.
    Failures that take many nodes at once (power, cooling) are not in it.

    Examples
    --------
    On average one node in repair; P(X > 3) is 1.9 %, P(X > 4) is 0.4 %:

    >>> int(spare_nodes(1000, 1, 1000, 0.01))
    4
    """
    nodes, repair, mtbf, shortage = _floats(nodes, repair_s, node_mtbf_s, shortage_probability)
    # Layouts share a few cluster sizes, so each pair of load and probability is looked up once; both fit in one complex
    # number.
    pairs = np.asarray(nodes * repair / mtbf + 1j * shortage)
    distinct, row = np.unique(pairs.ravel(), return_inverse=True)
    in_repair, shortage = distinct.real, distinct.imag
    tail = -np.log(shortage)
    enough: FloatArray = np.ceil(in_repair + tail / 3 + np.sqrt(tail**2 / 9 + 2 * in_repair * tail))
    short = np.full_like(enough, -1.0)  # P(X > -1) is 1
    halvings = int(np.ceil(np.log2(np.max(enough, initial=0) + 2)))
    for _ in range(halvings):
        middle = np.floor((short + enough) / 2)
        holds = pdtrc(middle, in_repair) <= shortage
        # At the end short + 1 = enough; middle is then short itself, and stays.
        short, enough = np.where(holds, short, middle), np.where(holds, middle, enough)
    return enough[row].reshape(pairs.shape).astype(np.int64)


@formula
def spare_devices(spare_nodes: ArrayLike, node_devices: ArrayLike) -> IntArray:
    r"""Accelerators of the spare nodes.

    Parameters
    ----------
    spare_nodes : array_like
        :func:`spare_nodes`, shape ``(layout,)``.
    node_devices : array_like
        Accelerators of one node.

    Returns
    -------
    ndarray of int
        Shape ``(layout,)``.

    Examples
    --------
    >>> int(spare_devices(3, 8))
    24
    """
    return np.asarray(spare_nodes, dtype=np.int64) * np.asarray(node_devices, dtype=np.int64)


@formula
def idle_devices(
    units: ArrayLike, unit_devices: ArrayLike, used_devices: ArrayLike, spare_devices: ArrayLike
) -> IntArray:
    r"""Accelerators of a cluster that neither work nor stand by.

    Parameters
    ----------
    units : array_like
        :func:`purchase_units`, shape ``(layout,)``.
    unit_devices : array_like
        Accelerators of one purchase unit.
    used_devices, spare_devices : array_like
        Accelerators at work and of the spare nodes, shape ``(layout,)``.

    Returns
    -------
    ndarray of int
        Shape ``(layout,)``.

    Examples
    --------
    Two racks of 72, 128 at work, two spare nodes of 4:

    >>> int(idle_devices(2, 72, 128, 8))
    8
    """
    units, each, used, spare = (
        np.asarray(value, dtype=np.int64) for value in (units, unit_devices, used_devices, spare_devices)
    )
    return units * each - used - spare


@formula
def racks(units: ArrayLike, unit_racks: ArrayLike) -> FloatArray:
    r"""Racks that a cluster fills.

    Parameters
    ----------
    units : array_like
        :func:`purchase_units`, shape ``(layout,)``.
    unit_racks : array_like
        Racks of one purchase unit, which may be a part of one.

    Returns
    -------
    ndarray
        Shape ``(layout,)``.

    Examples
    --------
    >>> float(racks(6, 0.5))
    3.0
    """
    units, each = _floats(units, unit_racks)
    return units * each
