"""How large a batch is worth its tokens: estimates of the critical batch, and batches that grow towards it.

Beyond the critical batch more sequences a step save fewer and fewer steps, so that the run needs more tokens for the
same loss. Estimates come from small models and differ by a factor of two or more; they warn, they do not decide.
"""

from __future__ import annotations

import numpy as np

from clusterplan.arrays import ArrayLike, FloatArray, IntArray
from clusterplan.trace import formula

KAPLAN_PARAMETERS = 6.4e13
KAPLAN_TOKENS = 1.8e13
KAPLAN_PARAMETERS_EXPONENT = 0.076
KAPLAN_TOKENS_EXPONENT = 0.103
"""Fit of the loss in parameters and tokens, table 2 of Kaplan et al. 2020."""
KAPLAN_BATCH_TOKENS = 2.0e8
KAPLAN_BATCH_EXPONENT = 0.21
"""Fit of the critical batch in the loss, equation 1.4 there."""
ZHANG_BATCH_TOKENS = 22.91
ZHANG_EXPONENT = 0.47
"""Fit of the critical batch in the tokens of the run, Zhang et al. 2024."""


@formula
def final_loss_nats(parameters: ArrayLike, tokens: ArrayLike) -> FloatArray:
    r"""Loss that a model reaches on so many tokens.

    Parameters
    ----------
    parameters : array_like
        Parameters without embeddings; of a mixture of experts those of a token (assumed).
    tokens : array_like
        Tokens of the run.

    Returns
    -------
    ndarray
        Cross-entropy of a token. [nat]

    Notes
    -----
    :math:`L = [(N_c/N)^{\alpha_N/\alpha_D} + D_c/D]^{\alpha_D}`, equation 1.5 of [1]_: web text, a vocabulary of 50,257
    and up to 1.5 billion parameters. Other data have other losses; only the batch below uses it.

    References
    ----------
    .. [1] J. Kaplan et al., "Scaling Laws for Neural Language Models," arXiv:2001.08361, 2020.

    Examples
    --------
    GPT-3, 175 billion parameters and 300 billion tokens:

    >>> float(final_loss_nats(175e9, 300e9).round(2))
    1.66
    """
    scarce = (KAPLAN_PARAMETERS / np.asarray(parameters, dtype=float)) ** (
        KAPLAN_PARAMETERS_EXPONENT / KAPLAN_TOKENS_EXPONENT
    )
    return (scarce + KAPLAN_TOKENS / np.asarray(tokens, dtype=float)) ** KAPLAN_TOKENS_EXPONENT


@formula
def critical_batch_by_loss_tokens(loss_nats: ArrayLike) -> FloatArray:
    r"""Critical batch at a loss: training there takes twice the fewest steps and twice the fewest tokens.

    Parameters
    ----------
    loss_nats : array_like
        Loss that is reached. [nat]

    Returns
    -------
    ndarray
        Tokens of a step.

    Notes
    -----
    :math:`B = B_* / L^{1/\alpha_B}` [1]_, after the noise scale of gradients [2]_. It grows as the loss falls: at the
    start of a run a smaller batch will do, which is why batches are ramped up.

    References
    ----------
    .. [1] J. Kaplan et al., "Scaling Laws for Neural Language Models," arXiv:2001.08361, 2020, equation 1.4.
    .. [2] S. McCandlish et al., "An Empirical Model of Large-Batch Training," arXiv:1812.06162, 2018.

    Examples
    --------
    >>> (critical_batch_by_loss_tokens(np.array([1.0, 2.0])) / 1e6).round(2).tolist()
    [200.0, 7.37]
    """
    return KAPLAN_BATCH_TOKENS / np.asarray(loss_nats, dtype=float) ** (1 / KAPLAN_BATCH_EXPONENT)


@formula
def critical_batch_by_data_tokens(tokens: ArrayLike) -> FloatArray:
    """Critical batch of a run on so many tokens: beyond it more than 20 % more than the ideal steps are needed.

    Parameters
    ----------
    tokens : array_like
        Tokens of the run.

    Returns
    -------
    ndarray
        Tokens of a step.

    Notes
    -----
    It grows with the data and hardly with the model [1]_: 85 million to 1.2 billion parameters on C4, sequences of 512
    tokens. The exponent is the paper's; the factor is recalled, and agrees with that of its fit in parameters
    (93.20 N^0.47) at 20 tokens a parameter.

    References
    ----------
    .. [1] H. Zhang et al., "How Does Critical Batch Size Scale in Pre-training?," ICLR 2025, arXiv:2410.21676.

    Examples
    --------
    15 trillion tokens:

    >>> round(float(critical_batch_by_data_tokens(15e12)) / 1e6, 1)
    35.7
    """
    return ZHANG_BATCH_TOKENS * np.asarray(tokens, dtype=float) ** ZHANG_EXPONENT


@formula
def ramp_steps(first_batch: ArrayLike, global_batch: ArrayLike, ramp_sequences: ArrayLike) -> IntArray:
    r"""Steps of a phase in which the batch grows.

    Parameters
    ----------
    first_batch : array_like
        Sequences of the first step.
    global_batch : array_like
        Sequences of the last, which all later steps have, shape ``(layout,)``; the phase is one of equal steps where
        it is no more than ``first_batch``.
    ramp_sequences : array_like
        Sequences that the phase sees.

    Returns
    -------
    ndarray of int
        The last one may be partly empty, shape ``(layout,)``.

    Notes
    -----
    The batch grows in proportion to the sequences seen, as Megatron's ``--rampup-batch-size`` does it in small steps:
    :math:`\int dN/B(N) = N \ln(B/B_0)/(B - B_0)`.

    Examples
    --------
    From 100 to 300 sequences over 10,000; at once it would be 33 steps:

    >>> int(ramp_steps(100, 300, 10_000))
    55
    """
    last = np.asarray(global_batch, dtype=float)
    first = np.minimum(np.asarray(first_batch, dtype=float), last)
    growth = last / first - 1
    safe = np.where(growth > 0, growth, 1.0)
    steps = np.asarray(ramp_sequences) / first * np.where(growth > 0, np.log1p(safe) / safe, 1.0)
    return np.ceil(steps).astype(np.int64)


@formula
def ramp_s(
    steps: ArrayLike, step_s: ArrayLike, fixed_s: ArrayLike, global_batch: ArrayLike, ramp_sequences: ArrayLike
) -> FloatArray:
    """Length of a phase in which the batch grows.

    Parameters
    ----------
    steps : array_like
        Its steps, shape ``(layout,)``.
    step_s : array_like
        Length of a step with the whole batch, shape ``(layout,)``. [s]
    fixed_s : array_like
        Of that, what a smaller batch takes as well, shape ``(layout,)``. [s]
    global_batch, ramp_sequences : array_like
        Sequences of a whole batch, and of the phase.

    Returns
    -------
    ndarray
        Shape ``(layout,)``. [s]

    Examples
    --------
    A step of 3 s, 1 s of which is bubble and communication; 1,000 sequences, of 100 a step when all are there:

    >>> float(ramp_s(20, 3.0, 1.0, 100, 1000))
    40.0
    """
    step, fixed = np.asarray(step_s, dtype=float), np.asarray(fixed_s, dtype=float)
    return np.asarray(steps) * fixed + (step - fixed) * np.asarray(ramp_sequences) / np.asarray(global_batch)


@formula
def ramped_steps(ramp_steps: ArrayLike, later_steps: ArrayLike) -> IntArray:
    """All steps of a run whose batch grows at first.

    Parameters
    ----------
    ramp_steps, later_steps : array_like
        Steps while it grows, and after, shape ``(layout,)``.

    Returns
    -------
    ndarray of int
        Shape ``(layout,)``.

    Examples
    --------
    >>> int(ramped_steps(55, 1000))
    1055
    """
    return np.asarray(ramp_steps, dtype=np.int64) + np.asarray(later_steps, dtype=np.int64)


@formula
def ramped_ideal_s(ramp_s: ArrayLike, later_steps: ArrayLike, step_s: ArrayLike) -> FloatArray:
    """Length of a run whose batch grows at first, if nothing ever stopped it.

    Parameters
    ----------
    ramp_s : array_like
        While it grows, shape ``(layout,)``. [s]
    later_steps : array_like
        Steps after that, shape ``(layout,)``.
    step_s : array_like
        Length of one of them, shape ``(layout,)``. [s]

    Returns
    -------
    ndarray
        Shape ``(layout,)``. [s]

    Examples
    --------
    >>> float(ramped_ideal_s(40.0, 100, 3.0))
    340.0
    """
    return np.asarray(ramp_s, dtype=float) + np.asarray(later_steps) * np.asarray(step_s, dtype=float)


@formula
def with_evaluation_s(training_s: ArrayLike, evaluation_fraction: ArrayLike) -> FloatArray:
    """Training and the evaluations between its steps.

    Parameters
    ----------
    training_s : array_like
        All steps, shape ``(layout,)``. [s]
    evaluation_fraction : array_like
        Share of the time of both in which the model is evaluated, less than 1.

    Returns
    -------
    ndarray
        Shape ``(layout,)``. [s]

    Examples
    --------
    >>> float(with_evaluation_s(980.0, 0.02))
    1000.0
    """
    return np.asarray(training_s, dtype=float) / (1 - np.asarray(evaluation_fraction))
