"""How often a job fails, what a restart takes, and the nodes that stand by.

Failures arrive at random at a constant rate, one in ``mtbf_s`` for the whole job; ``numpy.inf`` means never. Every
argument broadcasts against every other; a ``layout`` axis stands for whatever the caller varies.
"""

from __future__ import annotations

import numpy as np
from scipy.special import pdtrc

from clusterplan.arrays import ArrayLike, FloatArray, IntArray, floats
from clusterplan.trace import formula

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
    devices, device_rate, nodes, node_rate = floats(devices, failures_per_device_s, nodes, failures_per_node_s)
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
    rate, before, share, times = floats(failures_s, profile_failures_s, cause_fraction, factor)
    return rate + before * share * (times - 1)


@formula
def part_failure_fraction(
    network_fraction: ArrayLike,
    parts: ArrayLike,
    failures_per_part_s: ArrayLike,
    other_parts: ArrayLike,
    failures_per_other_part_s: ArrayLike,
) -> FloatArray:
    r"""Share of the failures of a node that one of the two kinds of parts of its network has.

    Parameters
    ----------
    network_fraction : array_like
        Share of these failures that is the network's.
    parts, other_parts : array_like
        Links and switches, or switches and links, at which a failure stops a job, shape ``(layout,)``.
    failures_per_part_s, failures_per_other_part_s : array_like
        Failures of one of each. Only their ratio counts: how many there are is what the share says. [1/s]

    Returns
    -------
    ndarray
        Shape ``(layout,)``; of both kinds they add up to ``network_fraction``.

    Notes
    -----
    :math:`s\, n \lambda / (n \lambda + n' \lambda')`. At 0.057 % a month of a link between an interface and its switch
    and 0.051 % of such a switch [1]_, the 16,384 links and 1,024 switches of Llama 3 fail 17.5 times in its 54 days,
    half as often as the 35 that were counted; the counts are kept, and the ratio is taken.

    References
    ----------
    .. [1] K. Qian et al., "Alibaba HPN: a data center network for large language model training," SIGCOMM 2024.

    Examples
    --------
    Sixteen links for each switch, both as likely to fail:

    >>> round(float(part_failure_fraction(0.17, 16, 1e-9, 1, 1e-9)), 6)
    0.16
    """
    share, own, rate, others, other_rate = floats(
        network_fraction, parts, failures_per_part_s, other_parts, failures_per_other_part_s
    )
    return share * (own * rate) / (own * rate + others * other_rate)


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
    count, mtbf, number, rate, share, times = floats(interruptions, mtbf_s, things, failures_s, cause_fraction, factor)
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
    mtbf, factor, early, length = floats(mtbf_s, early_factor, early_s, length_s)
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
    alone, beside = floats(mtbf_s, failures_beside_s)
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
    wall, mtbf, down = floats(wall_s, mtbf_s, down_s)
    return wall / (mtbf + down)


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
    devices, base, each = floats(devices, base_s, per_device_s)
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
    detect, diagnose, replace, launch = floats(detect_s, diagnose_s, replace_s, launch_s)
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
    down, share, outage, domain, spares = floats(
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
    init, load, warm_up = floats(communicator_init_s, load_s, warm_up_s)
    return init + load + warm_up


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
    devices, each = floats(devices, node_devices)
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
    used, bought, spare, node, unit = floats(used_devices, bought_devices, spare_nodes, node_devices, unit_devices)
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
    nodes, repair, mtbf, shortage = floats(nodes, repair_s, node_mtbf_s, shortage_probability)
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
    units, each = floats(units, unit_racks)
    return units * each
