"""How large a batch is worth its tokens: estimates of the critical batch.

Beyond the critical batch more sequences a step save fewer and fewer steps, so that the run needs more tokens for the
same loss. Estimates come from small models and differ by a factor of two or more; they warn, they do not decide.
"""

from __future__ import annotations

import numpy as np

from clusterplan.arrays import ArrayLike, FloatArray
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
