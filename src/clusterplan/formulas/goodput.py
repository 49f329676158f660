r"""What of the wall time is training, and what is lost to checkpoints, restarts and the rest.

All forms of the useful fraction are exact for failures that arrive at random at a constant rate, one in ``mtbf_s`` for
the whole job, at any scale: they fall towards 0 where failures come faster than restarts and never below it. They share
three factors:

* of each period, the interval is training and the stall of the checkpoint is not;
* of the time at work, :math:`x / (e^x - 1)` is kept, where :math:`x` is the period over the MTBF: the rest is repeated;
* of the wall time, :math:`e^{-R/M} / (1 + D/M)` is at work: the rest is down (:math:`D`) or restoring (:math:`R`).

Failures do not strike while the job is down. They do strike while it restores, which then starts again with a new
outage. Every argument broadcasts against every other; a ``layout`` axis stands for whatever the caller varies.
"""

from __future__ import annotations

import numpy as np
from scipy.special import exprel

from clusterplan.arrays import ArrayLike, FloatArray, floats
from clusterplan.trace import formula

NEVER = 150.0
"""Exponents are held at this value. Of a run that needs e^150 attempts nothing is left to compare, and its useful
fraction and wall time stay finite numbers."""


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
    restore, down, rate = floats(restore_s, down_s, 1 / np.asarray(mtbf_s, dtype=float))
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
    interval, stall = floats(interval_s, stall_s)
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
    period, mtbf, persist = floats(period_s, mtbf_s, persist_s)
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
    stop, between = floats(stop_s, between_stops_s)
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
    share, found, rate = floats(silent_fraction, found_s, 1 / np.asarray(mtbf_s, dtype=float))
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
    (slow,) = floats(slow_node_fraction)
    return 1 / (1 + slow)


@formula
def fed_fraction(step_s: ArrayLike, batch_bytes: ArrayLike, read_bytes_per_s: ArrayLike) -> FloatArray:
    r"""Share of the stepping time that would be needed if storage brought the data in time.

    Parameters
    ----------
    step_s : array_like
        Length of a step, shape ``(layout,)``. [s]
    batch_bytes : array_like
        Data of a step, shape ``(layout,)``; nothing is waited for where there are none. [bytes]
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
    step, size, rate = floats(step_s, batch_bytes, read_bytes_per_s)
    return np.minimum(step * rate / np.where(size > 0, size, step * rate), 1)


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
    first, second = floats(first_fraction, second_fraction)
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
    interval, segments, stall_1, stall_2 = floats(interval_s, segments, local_stall_s, global_stall_s)
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
    interval, segments = floats(interval_s, segments)
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
    interval, stall, persist, mtbf = floats(interval_s, global_stall_s, global_persist_s, global_mtbf_s)
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
    reached, kept = floats(reached_fraction, kept_fraction)
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
    interval, stall = floats(interval_s, stall_s)
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
    same moments, so both runs have one law: :math:`U`, :func:`finish.wall_standard_deviation_s` and the best interval
    are those of the blocking form with ``restore_s + persist_s``. Only the last write, after the end
    of training, is left out.

    Examples
    --------
    Nothing fails: only the stall counts, however long the write takes.

    >>> float(asynchronous_useful_fraction(594, 6, 300, 120, 300, np.inf))
    0.99
    """
    persist, restore = floats(persist_s, restore_s)
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
    interval, segments, stall_1, stall_2 = floats(interval_s, segments, local_stall_s, global_stall_s)
    restore_1, restore_2, down = floats(local_restore_s, global_restore_s, down_s)
    rate_1, rate_2 = floats(1 / np.asarray(local_mtbf_s, dtype=float), 1 / np.asarray(global_mtbf_s, dtype=float))
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
    interval, stall, proactive, restore, down = floats(interval_s, stall_s, proactive_s, restore_s, down_s)
    mtbf, recall, precision = floats(mtbf_s, recall, precision)
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
    interval, stall, loss, mtbf = floats(interval_s, stall_s, loss_s, mtbf_s)
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
    step, reconfigure, recover, replicas = floats(step_s, reconfigure_s, recover_s, replicas)
    share, global_loss = floats(global_restart_fraction, global_loss_s)
    return step + reconfigure + recover / replicas + share * global_loss
