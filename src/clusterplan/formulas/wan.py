"""Traffic between sites: gradients, or what many local steps have changed, over long lines."""

from __future__ import annotations

import numpy as np

from clusterplan.arrays import ArrayLike, FloatArray
from clusterplan.trace import formula


@formula
def sites_all_reduce_s(
    message_bytes: ArrayLike, sites: ArrayLike, bytes_per_s: ArrayLike, latency_s: ArrayLike
) -> FloatArray:
    """Time in which sites add up what each has added up inside itself; one site takes none.

    Parameters
    ----------
    message_bytes : array_like
        Gradients of the whole model, once a site, shape ``(layout,)``. [byte]
    sites : array_like
        Sites that take part.
    bytes_per_s : array_like
        Bandwidth of the line of each site, one way. [byte/s]
    latency_s : array_like
        One way between neighbouring sites. [s]

    Returns
    -------
    ndarray
        Shape ``(layout,)``. [s]

    Notes
    -----
    A ring over the sites [1]_: a reduce-scatter and an all-gather, in each of which a site sends :math:`(n-1)/n` of the
    message in :math:`n-1` steps. The devices of a site share its line, so that each gradient crosses it once.

    References
    ----------
    .. [1] R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of Collective Communication Operations in MPICH," 2005.

    Examples
    --------
    100 GB between two sites over 10 GB/s, 20 ms apart:

    >>> float(sites_all_reduce_s(100e9, 2, 10e9, 0.02))
    10.04
    """
    message, members = np.asarray(message_bytes, dtype=float), np.asarray(sites, dtype=float)
    rounds = 2 * (members - 1)
    return rounds * np.asarray(latency_s) + rounds / members * message / np.asarray(bytes_per_s)


@formula
def per_step_s(synchronisation_s: ArrayLike, steps_between: ArrayLike) -> FloatArray:
    """Time that synchronising every so many steps adds to each step, on the mean.

    Parameters
    ----------
    synchronisation_s : array_like
        What one synchronisation adds, shape ``(layout,)``. [s]
    steps_between : array_like
        Optimizer steps from one to the next; 1 synchronises each.

    Returns
    -------
    ndarray
        Shape ``(layout,)``. [s]

    Notes
    -----
    Sites that take several steps on their own train another way than one cluster does: local SGD with an outer
    optimizer. That it needs no more tokens is an assumption, see [1]_ and [2]_ for where it held.

    References
    ----------
    .. [1] A. Douillard et al., "DiLoCo: Distributed Low-Communication Training of Language Models,"
       arXiv:2311.08105, 2023.
    .. [2] S. U. Stich, "Local SGD Converges Fast and Communicates Little," ICLR 2019, arXiv:1805.09767.

    Examples
    --------
    >>> float(per_step_s(10.0, 500))
    0.02
    """
    return np.asarray(synchronisation_s, dtype=float) / np.asarray(steps_between)
