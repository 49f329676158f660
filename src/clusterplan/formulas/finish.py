"""When a run ends: its steps, its expected length, how far that spreads, and whether it keeps a deadline.

Failures arrive at random at a constant rate, one in ``mtbf_s`` for the whole job; ``numpy.inf`` means never. Every
argument broadcasts against every other; a ``layout`` axis stands for whatever the caller varies.
"""

from __future__ import annotations

import numpy as np
from scipy.special import gammainc, gammaincinv

from clusterplan.arrays import ArrayLike, FloatArray, IntArray, floats
from clusterplan.trace import formula

NEVER = 150.0
"""Exponents are held at this value. Of a run that needs e^150 attempts nothing is left to compare, and its useful
fraction and wall time stay finite numbers."""

SHORT_PERIOD = 1e-2
"""Period over MTBF below which moments of a failed attempt come from their series, which are exact there to the last
digits."""

NORMAL_95 = 1.6448536269514722
"""Standard deviations from the mean to the 95th percentile of a normal law: half of the width of a 90 % interval."""

CERTAIN = 1e-9
"""Relative spread below which the end of the run is a point in time: 10 ms in four months."""


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
    tokens, batch, length = floats(tokens, global_batch, seq_len)
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
    steps, step = floats(steps, step_s)
    return steps * step


@formula
def lengthened_steps(steps: ArrayLike, long_steps: ArrayLike) -> IntArray:
    """All steps of a run whose last tokens come in longer sequences.

    Parameters
    ----------
    steps, long_steps : array_like
        Steps before, and of that phase, shape ``(layout,)``.

    Returns
    -------
    ndarray of int
        Shape ``(layout,)``.

    Examples
    --------
    >>> int(lengthened_steps(1000, 50))
    1050
    """
    return np.asarray(steps, dtype=np.int64) + np.asarray(long_steps, dtype=np.int64)


@formula
def lengthened_ideal_s(ideal_s: ArrayLike, long_s: ArrayLike) -> FloatArray:
    """Length of a run whose last tokens come in longer sequences, if nothing ever stopped it.

    Parameters
    ----------
    ideal_s, long_s : array_like
        What is before, and that phase, shape ``(layout,)``. [s]

    Returns
    -------
    ndarray
        Shape ``(layout,)``. [s]

    Examples
    --------
    >>> float(lengthened_ideal_s(2500.0, 200.0))
    2700.0
    """
    before, after = floats(ideal_s, long_s)
    return before + after


@formula
def mean_part_s(
    part_s: ArrayLike,
    step_s: ArrayLike,
    long_part_s: ArrayLike,
    long_step_s: ArrayLike,
    long_s: ArrayLike,
    ideal_s: ArrayLike,
    steps: ArrayLike,
) -> FloatArray:
    r"""Part of a step, in the mean of all steps of a run whose last ones have longer sequences.

    Parameters
    ----------
    part_s, step_s : array_like
        The part and the whole of a step before that phase, shape ``(layout,)``. [s]
    long_part_s, long_step_s : array_like
        The same of a step in it. [s]
    long_s, ideal_s : array_like
        Length of the phase, and of the run with it, if nothing ever stopped them, shape ``(layout,)``. [s]
    steps : array_like
        All steps, shape ``(layout,)``.

    Returns
    -------
    ndarray
        The parts of a step add up to the mean step again, shape ``(layout,)``. [s]

    Notes
    -----
    :math:`\frac1n \left[(T - T_l) \frac{p}{s} + T_l \frac{p_l}{s_l}\right]`: before the phase a part has the share of
    the time that it has of a step, also while the batch grows.

    Examples
    --------
    90 steps of 1 s, half of it the part, and 10 of 11 s, 1 s of it the part:

    >>> float(mean_part_s(0.5, 1.0, 1.0, 11.0, 110.0, 200.0, 100))
    0.55
    """
    part, step, long_part, long_step, long_all, ideal, count = floats(
        part_s, step_s, long_part_s, long_step_s, long_s, ideal_s, steps
    )
    return ((ideal - long_all) * part / step + long_all * long_part / long_step) / count


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
    ideal, repeated = floats(ideal_s, repeated_fraction)
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
    ideal, useful = floats(ideal_s, useful_fraction)
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
    ideal, wall = floats(ideal_s, wall_s)
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
        Shape ``(layout,)``. The mean that belongs to it is ``ideal_s`` over :func:`goodput.useful_fraction`. [s]

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
    ideal, interval, stall, restore, down = floats(ideal_s, interval_s, stall_s, restore_s, down_s)
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
    interruptions, mean, spread = floats(interruptions, loss_s, loss_standard_deviation_s)
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
    (half_width,) = floats(half_width_fraction)
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
    wall, failure, error = floats(wall_s, failure_standard_deviation_s, step_error_fraction)
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
    deadline, mean, spread = floats(deadline_s, wall_s, finish_standard_deviation_s)
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
    probability, mean, spread = floats(probability, wall_s, finish_standard_deviation_s)
    certain = spread <= CERTAIN * mean
    shape = (mean / np.where(certain, mean, spread)) ** 2
    return np.where(certain, mean, mean * gammaincinv(shape, probability) / shape)
