"""Time of collectives over levels of a network, and what of it compute hides.

A group of devices sits on *tiers*, from inside out: the scale-up domain, then the levels of the fabric. ``members`` has
shape ``(tier, layout)``: how many of the group share one block of that tier. The last tier holds the whole group.
"""

from __future__ import annotations

import numpy as np

from clusterplan.arrays import ArrayLike, FloatArray
from clusterplan.trace import formula

TORUS_BLOCK_SIDE = 4
"""Side of the cube from which torus slices are put together; a group fills one axis of it after another."""

LOW_LATENCY_SHARE = 0.5
"""Share of the bandwidth that is left for data where a flag goes with every four bytes: NCCL's protocol LL."""
FULL_RATE_START_S = 80e-6
"""Longer start of the protocol with the full rate, beyond that of LL: read from all-reduce of 2-256 MiB on eight A100
and H100 (35-150 us) and all-gather of 16-256 MiB on 2-8 nodes (40-110 us); docs/collectives.md. [s]"""
FULL_RATE_STEP_S = 1e-6
"""The same for each step of a ring, from all-gather of 64 MiB-1 GiB on 64 and 128 nodes. [s]"""


def _torus_axes(members: ArrayLike) -> FloatArray:
    """Axes of the torus that a group fills, 1 to 3."""
    axes = np.ceil(np.log(np.maximum(members, 2)) / np.log(TORUS_BLOCK_SIDE) - 1e-9)
    return np.clip(axes, 1, 3)


def _steps(group: FloatArray, here: FloatArray, inner: FloatArray, tier: int, is_torus: bool) -> FloatArray:
    """Steps of a collective that cross one tier.

    A ring visits every device, so it takes the links inside a block once for each block. A torus has a ring along each
    axis, one after another, and what lies outside it joins whole slices.
    """
    if not is_torus:
        return group / inner - group / here
    if tier:
        return here / inner - 1
    axes = _torus_axes(here)
    return axes * (here ** (1 / axes) - 1)


def _cheapest(wire_s: FloatArray, start_s: FloatArray, steps: FloatArray, is_torus: bool) -> FloatArray:
    """Time by the better protocol: quick to start at a share of the bandwidth, or all of it after a longer start."""
    if is_torus:
        return wire_s + start_s
    long_start = np.where(steps > 0, FULL_RATE_START_S + FULL_RATE_STEP_S * steps, 0.0)
    return start_s + np.minimum(wire_s / LOW_LATENCY_SHARE, wire_s + long_start)


@formula
def members_in_block(
    group_size: ArrayLike, stride: ArrayLike, span: ArrayLike, devices: ArrayLike = np.inf
) -> FloatArray:
    """How many members of a group share one block of ``span`` neighbouring devices, in the worst-placed group.

    Parameters
    ----------
    group_size : array_like
        Devices of the group, shape ``(layout,)``.
    stride : array_like
        Distance from one member to the next in the order of placement, shape ``(layout,)``.
    span : array_like
        Devices of one block.
    devices : array_like
        Devices that all groups fill together, if that is known, shape ``(layout,)``.

    Returns
    -------
    ndarray
        At least 1, at most ``group_size``, shape ``(layout,)``.

    Notes
    -----
    Groups are laid end to end. One that fits but does not divide the block lies across its edge for some of the
    groups, and the slowest group is waited for; so what counts is the largest part that always lies inside. Where one
    block holds all groups there is no edge between them.

    Examples
    --------
    Eight neighbours in a node of 8, every eighth device, and 16 neighbours in a domain of 72:

    >>> members_in_block(np.array([8, 64, 16]), np.array([1, 8, 1]), np.array([8, 8, 72])).tolist()
    [8.0, 1.0, 8.0]
    """
    group, stride, span = (np.asarray(x, dtype=np.int64) for x in (group_size, stride, span))
    extent = group * stride
    straddling = np.gcd(extent, span) // stride
    inside = np.where(extent >= 2 * span, span // stride, straddling)
    inside = np.where(np.asarray(devices) <= span, group, inside)
    # A group of which nothing is sure to lie together still has whole inner groups together: the stride sees to that.
    return np.clip(inside, 1, group).astype(float)


@formula
def tier_latency_s(scaleup_latency_s: float, fabric_latency_s: tuple[float, ...]) -> FloatArray:
    """Latency of one step of a collective on each tier, from inside out.

    Parameters
    ----------
    scaleup_latency_s : float
        Inside a scale-up domain. [s]
    fabric_latency_s : tuple of float
        On the levels of the fabric. [s]

    Returns
    -------
    ndarray
        Shape ``(tier,)``. [s]

    Examples
    --------
    >>> tier_latency_s(2e-6, (1e-5, 2e-5)).tolist()
    [2e-06, 1e-05, 2e-05]
    """
    return np.array([scaleup_latency_s, *fabric_latency_s], dtype=float)


@formula
def message_bytes(parameters: ArrayLike, bytes_per_parameter: ArrayLike) -> FloatArray:
    """Size of the gradients or weights of a device on the network.

    Parameters
    ----------
    parameters : array_like
        Parameters that the device holds, shape ``(layout,)``.
    bytes_per_parameter : array_like
        Bytes of each on the network. [byte]

    Returns
    -------
    ndarray
        Shape ``(layout,)``. [byte]

    Examples
    --------
    >>> float(message_bytes(1e9, 4))
    4000000000.0
    """
    return np.asarray(parameters, dtype=float) * bytes_per_parameter


@formula
def scaleup_bytes_per_s(
    line_bytes_per_s: ArrayLike, efficiency: ArrayLike, topology: str, members: ArrayLike, domain_devices: ArrayLike
) -> FloatArray:
    """Bandwidth of a device towards the members of its group in the scale-up domain.

    Parameters
    ----------
    line_bytes_per_s : array_like
        All links of a device together, one way. [byte/s]
    efficiency : array_like
        Share that a collective of long messages reaches.
    topology : str
        ``switch``: every pair at full speed; ``mesh``: a link to each other device, so a group uses only the links
        between its members; ``torus``: two links along each axis, so a small group uses one axis.
    members : array_like
        Members of the group in the domain, shape ``(layout,)``.
    domain_devices : array_like
        Devices of the domain.

    Returns
    -------
    ndarray
        Shape ``(layout,)``. [byte/s]

    References
    ----------
    .. [1] N. Jouppi et al., "TPU v4: An Optically Reconfigurable Supercomputer," ISCA 2023 (torus of 4 × 4 × 4 blocks).

    Examples
    --------
    Two of eight devices of a full mesh use one of seven links:

    >>> float(scaleup_bytes_per_s(70e9, 1.0, "mesh", 2, 8))
    10000000000.0
    """
    members = np.asarray(members, dtype=float)
    if topology == "mesh":
        share = (members - 1) / np.maximum(np.asarray(domain_devices, dtype=float) - 1, 1)
    elif topology == "torus":
        share = _torus_axes(members) / 3
    else:
        share = np.ones_like(members)
    share = np.where(members > 1, share, 1.0)  # a group of one sends nothing
    return np.asarray(line_bytes_per_s) * np.asarray(efficiency) * share


@formula
def scaleout_bytes_per_s(
    interface_bytes_per_s: ArrayLike,
    port_bytes_per_s: ArrayLike,
    efficiency: ArrayLike,
    decay_per_doubling: ArrayLike,
    oversubscription: ArrayLike,
    nodes: ArrayLike,
) -> FloatArray:
    r"""Bandwidth of one device's network interface in a collective over nodes.

    Parameters
    ----------
    interface_bytes_per_s, port_bytes_per_s : array_like
        Line rate of the device's interface and of a switch port, one way; the slower one counts. [byte/s]
    efficiency : array_like
        Share of the line rate that two nodes reach with long messages.
    decay_per_doubling : array_like
        Loss for each doubling of the nodes.
    oversubscription : array_like
        Downward over upward bandwidth of this tier.
    nodes : array_like
        Nodes of the group, shape ``(layout,)``.

    Returns
    -------
    ndarray
        Shape ``(layout,)``. [byte/s]

    Notes
    -----
    :math:`B e / (1 + d \log_2(n/2))` beyond two nodes: measured bus bandwidth falls steadily with the number of nodes
    (congestion, stragglers, chunking), so one figure for all sizes is optimistic.

    Examples
    --------
    50 GB/s, 8 nodes, 10 % per doubling beyond two nodes, no over-subscription:

    >>> float(scaleout_bytes_per_s(50e9, 50e9, 1.0, 0.1, 1.0, 8).round())
    41666666667.0
    """
    line = np.minimum(np.asarray(interface_bytes_per_s), np.asarray(port_bytes_per_s)) * np.asarray(efficiency)
    doublings = np.log2(np.maximum(np.asarray(nodes, dtype=float), 2.0)) - 1.0
    return line / (1.0 + np.asarray(decay_per_doubling) * doublings) / np.asarray(oversubscription)


@formula
def reduction_bytes_per_s(line_bytes_per_s: ArrayLike, efficiency: ArrayLike) -> FloatArray:
    """Message over time of an all-reduce by the switches of a scale-up domain, whatever the number of devices.

    Parameters
    ----------
    line_bytes_per_s : array_like
        All links of a device together, one way. [byte/s]
    efficiency : array_like
        Share of it. A device sends the message once and receives the sum once; on Hopper 0.6 is measured.

    Returns
    -------
    ndarray
        Bus bandwidth as benchmarks print it is this times 2 (n - 1) / n. [byte/s]

    Examples
    --------
    >>> float(reduction_bytes_per_s(450e9, 0.6).round())
    270000000000.0
    """
    return np.asarray(line_bytes_per_s, dtype=float) * efficiency


@formula
def ring_s(
    message_bytes: ArrayLike,
    members: FloatArray,
    bytes_per_s: FloatArray,
    latency_s: FloatArray,
    is_torus: bool = False,
) -> FloatArray:
    r"""Time of an all-gather or a reduce-scatter in rings; a group of one takes none.

    Parameters
    ----------
    message_bytes : array_like
        Size of the gathered tensor on each device, shape ``(layout,)``. [byte]
    members : ndarray
        Members of the group in a block of each tier, shape ``(tier, layout)``.
    bytes_per_s : ndarray
        Bandwidth of one device on each tier, shape ``(tier, layout)``. [byte/s]
    latency_s : ndarray
        Latency of one step on each tier, shape ``(tier,)``. [s]
    is_torus : bool
        Whether the first tier is a torus, whose rings along each axis are short.

    Returns
    -------
    ndarray
        Shape ``(layout,)``. [s]

    Notes
    -----
    Each device passes on :math:`(n-1)/n` of the message [1]_. As many rings run as the group has members on a node, so
    that all their interfaces carry an equal part; the slowest tier sets the pace. A ring of :math:`n` takes
    :math:`n - 1` steps: over :math:`N` nodes :math:`N - 1` of them between nodes and the other :math:`n - N` inside
    [2]_. Short messages go by a protocol that starts sooner and carries half as much.

    References
    ----------
    .. [1] R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of Collective Communication Operations in MPICH," 2005.
    .. [2] NVIDIA, NCCL, src/graph/tuning.cc (commit 5067397c, 2026-06-11): steps, protocols and what each carries.

    Examples
    --------
    Two nodes of two devices, 1 GB: inside 3/4 GB at 100 GB/s, between nodes 3/4 GB over two interfaces of 10 GB/s, and
    83 us to start:

    >>> float(ring_s(1e9, np.array([[2.0], [4.0]]), np.array([[100e9], [10e9]]), np.zeros(2))[0].round(6))
    0.037583
    """
    message = np.asarray(message_bytes, dtype=float)
    group = members[-1]
    wire = _slowest_s(message * (group - 1) / group, np.ones_like(group), members, bytes_per_s)
    start = np.zeros_like(group)
    inner = np.ones_like(group)
    for tier, (here, latency) in enumerate(zip(members, latency_s, strict=True)):
        start = start + latency * _steps(group, here, inner, tier, is_torus)
        inner = here
    return _cheapest(wire, start, group - 1, is_torus)


def _slowest_s(moved: FloatArray, inner: FloatArray, members: FloatArray, bytes_per_s: FloatArray) -> FloatArray:
    """Time of the slowest tier to pass ``moved`` bytes out of each block, over the interfaces of all members in it."""
    slowest = np.zeros_like(moved + inner)
    for here, bandwidth in zip(members, bytes_per_s, strict=True):
        slowest = np.maximum(slowest, np.where(here > inner, moved / (inner * bandwidth), 0.0))
        inner = here
    return slowest


@formula
def all_reduce_s(
    message_bytes: ArrayLike,
    members: FloatArray,
    bytes_per_s: FloatArray,
    latency_s: FloatArray,
    is_torus: bool = False,
    scaleup_reduction_bytes_per_s: ArrayLike | None = None,
    scaleout_reduces: bool = False,
) -> FloatArray:
    r"""Time of an all-reduce by the quickest of a ring, a tree and switches that add.

    Parameters
    ----------
    message_bytes : array_like
        Size of the reduced tensor, shape ``(layout,)``. [byte]
    members, bytes_per_s, latency_s, is_torus
        As for :func:`ring_s`.
    scaleup_reduction_bytes_per_s : array_like, optional
        Message over time of an all-reduce by the switches of a scale-up domain; None if they do not add, or the
        software does not use it. [byte/s]
    scaleout_reduces : bool
        Whether the switches of the fabric add, and the software uses it.

    Returns
    -------
    ndarray
        Shape ``(layout,)``. [s]

    Notes
    -----
    A ring is a reduce-scatter and an all-gather. A double binary tree over :math:`N` nodes needs :math:`2 \log_2 N`
    steps [1]_; a node sends the message twice, or once if there are two nodes, and inside a node it goes along a chain
    to one device and back, as in NCCL [2]_. Switches that add take the message once from each device and return the
    sum; above a scale-up domain that has them stands a tree, or the switches of the fabric.

    References
    ----------
    .. [1] P. Sanders, J. Speck, J. L. Träff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan,"
       Parallel Computing 35, 2009.
    .. [2] S. Jeaugey, "Massively Scale Your Deep Learning Training with NCCL 2.4," NVIDIA developer blog, 2019.

    Examples
    --------
    1 GB among two devices at 100 GB/s, 82 us to start:

    >>> float(all_reduce_s(1e9, np.array([[2.0]]), np.array([[100e9]]), np.zeros(1))[0].round(6))
    0.010082
    """
    message = np.asarray(message_bytes, dtype=float)
    group, domain = members[-1], members[0]
    ring_start = np.zeros_like(group)
    tree_start = np.zeros_like(group)
    inner = np.ones_like(group)
    for tier, (here, latency) in enumerate(zip(members, latency_s, strict=True)):
        ring_start = ring_start + 2 * latency * _steps(group, here, inner, tier, is_torus)
        inside = _steps(domain, here, inner, tier, is_torus)
        tree_start = tree_start + 2 * latency * (np.log2(here / inner) if tier else inside)
        inner = here
    steps = 2 * (group - 1)
    wire = 2 * _slowest_s(message * (group - 1) / group, np.ones_like(group), members, bytes_per_s)
    if is_torus:
        return wire + np.minimum(ring_start, tree_start)
    # A tree has as many steps as a chain through one domain and up and down between domains.
    blocks = group / domain
    tree_steps = 2 * (domain - 1 + np.log2(blocks))
    sent = message if scaleout_reduces else message * np.where(blocks > 2, 2.0, 1.0)
    between = _slowest_s(sent, domain, members[1:], bytes_per_s[1:])
    chain = 2 * message * (domain > 1) / bytes_per_s[0]
    best = np.minimum(
        _cheapest(wire, ring_start, steps, is_torus),
        _cheapest(np.maximum(chain, between), tree_start, tree_steps, is_torus),
    )
    if scaleup_reduction_bytes_per_s is None:
        return best
    added = np.maximum(message * (domain > 1) / scaleup_reduction_bytes_per_s, between)
    return np.minimum(best, _cheapest(added, tree_start, tree_steps, is_torus))


@formula
def all_to_all_s(
    sent_bytes: ArrayLike,
    members: FloatArray,
    bytes_per_s: FloatArray,
    latency_s: FloatArray,
    is_torus: bool,
    remote_fraction: ArrayLike = 1.0,
) -> FloatArray:
    r"""Time of an exchange in which each device sends an equal part to every member of its group.

    Parameters
    ----------
    sent_bytes : array_like
        What one device sends in all, its own part included, shape ``(layout,)``. [byte]
    members, bytes_per_s, latency_s
        As for :func:`ring_s`.
    is_torus : bool
        Whether the first tier is a torus, where messages travel a quarter of the ring on each axis that the group
        fills, and take that many links from other messages.
    remote_fraction : array_like
        Part of what is for other domains that crosses between them; below 1 where what several members of a domain get
        is sent there once and passed on inside, shape ``(layout,)``.

    Returns
    -------
    ndarray
        Shape ``(layout,)``. [s]

    Notes
    -----
    The part for members on a tier, :math:`(m_i - m_{i-1})/n`, crosses the device's own link of that tier; nothing is
    shared as in a ring. What is sent once to a domain crosses its links for each of its members. Messages to all peers
    of a tier are under way at once: each tier costs its latency once.

    Examples
    --------
    Two nodes of two devices, 1 GB: a quarter inside at 100 GB/s, half outside at 10 GB/s, and 81 us to start:

    >>> float(all_to_all_s(1e9, np.array([[2.0], [4.0]]), np.array([[100e9], [10e9]]), np.zeros(2), False)[0].round(6))
    0.052581
    """
    sent = np.asarray(sent_bytes, dtype=float)
    group = members[-1]
    inner = np.ones_like(group)
    wire = np.zeros_like(sent + group)
    start = np.zeros_like(group)
    for tier, (here, bandwidth, latency) in enumerate(zip(members, bytes_per_s, latency_s, strict=True)):
        share = (here - inner) / group
        if tier == 0:
            share = np.where(np.asarray(remote_fraction) < 1, (group - 1) / group, share)
        else:
            share = share * remote_fraction
        if tier == 0 and is_torus:
            axes = _torus_axes(here)
            hops = np.where(here > 1, axes * here ** (1 / axes) / 4, 0.0)  # on the mean, none for a device's own part
            share = np.maximum(share, here / group * hops)
        wire = wire + sent * share / bandwidth
        start = start + np.where(here > inner, latency, 0.0)
        inner = here
    return _cheapest(wire, start, np.minimum(group - 1, 1), is_torus)


@formula
def remote_fraction(copies: ArrayLike, domains: ArrayLike, most_domains: ArrayLike) -> FloatArray:
    r"""Part of a token's copies for other domains that must be sent where each domain gets the token once.

    Parameters
    ----------
    copies : array_like
        Experts that a token visits, at least 1.
    domains : array_like
        Scale-up domains over which the experts lie, shape ``(cut,)``.
    most_domains : array_like
        Most domains that the router lets a token visit, shape ``(cut,)``.

    Returns
    -------
    ndarray
        1 for one domain, shape ``(cut,)``.

    Notes
    -----
    Of :math:`k` copies spread evenly over :math:`N` domains, :math:`(N-1)(1-(1-1/N)^k)` other domains get one or more,
    at most those that the router allows, in place of :math:`k(N-1)/N` copies.

    References
    ----------
    .. [1] DeepSeek-AI, "DeepSeek-V3 Technical Report," arXiv:2412.19437, section 3.2.2 (each token to at most four
       nodes, once to each).

    Examples
    --------
    Eight experts over eight nodes, at most four of them:

    >>> float(remote_fraction(8, 8, 4))
    0.5
    """
    copies, domains = np.asarray(copies, dtype=float), np.maximum(np.asarray(domains, dtype=float), 1.0)
    others = (domains - 1) / domains
    reached = np.minimum((domains - 1) * (1 - (1 - 1 / domains) ** copies), np.asarray(most_domains) * others)
    return np.where(others > 0, np.minimum(reached / np.where(others > 0, copies * others, 1.0), 1.0), 1.0)


@formula
def ring_bytes(message_bytes: ArrayLike, members: FloatArray) -> FloatArray:
    r"""What a device sends in an all-gather or a reduce-scatter in rings, by level.

    Parameters
    ----------
    message_bytes : array_like
        Size of the gathered tensor on each device, shape ``(layout,)``. [byte]
    members : ndarray
        Members of the group in a block of each tier, shape ``(tier, layout)``.

    Returns
    -------
    ndarray
        To others in the block of a tier and of none below, on the mean over the group, shape ``(tier, layout)``; the
        sum over tiers is :math:`(n-1)/n` of the message. [byte]

    Notes
    -----
    Of all rings together a block of :math:`m` devices passes on as much as a ring of one does, so each of them a part
    of :math:`1/m` (see :func:`ring_s`).

    Examples
    --------
    Two nodes of two devices, 1 GB:

    >>> ring_bytes(1e9, np.array([[2.0], [4.0]]))[:, 0].tolist()
    [375000000.0, 375000000.0]
    """
    members = np.asarray(members, dtype=float)
    moved = np.asarray(message_bytes, dtype=float) * (members[-1] - 1) / members[-1]
    inner = np.concatenate([np.ones_like(members[:1]), members[:-1]])
    outwards = np.where(members[-1] > inner, moved / inner, 0.0)
    return outwards - np.concatenate([outwards[1:], np.zeros_like(outwards[:1])])


@formula
def all_to_all_bytes(sent_bytes: ArrayLike, members: FloatArray, remote_fraction: ArrayLike = 1.0) -> FloatArray:
    """What a device sends in an exchange, by level.

    Parameters
    ----------
    sent_bytes, remote_fraction : array_like
        As for :func:`all_to_all_s`.
    members : ndarray
        Members of the group in a block of each tier, shape ``(tier, layout)``.

    Returns
    -------
    ndarray
        To others in the block of a tier and of none below, shape ``(tier, layout)``. [byte]

    Examples
    --------
    Two nodes of two devices, 1 GB:

    >>> all_to_all_bytes(1e9, np.array([[2.0], [4.0]]))[:, 0].tolist()
    [250000000.0, 500000000.0]
    """
    members = np.asarray(members, dtype=float)
    sent, remote = np.asarray(sent_bytes, dtype=float), np.asarray(remote_fraction, dtype=float)
    inner = np.concatenate([np.ones_like(members[:1]), members[:-1]])
    share = (members - inner) / members[-1]
    # What crosses once for several members of a domain is passed on inside.
    first = np.where(remote < 1, (members[-1] - 1) / members[-1], share[0])
    return sent * np.concatenate([first[None] + 0 * share[:1], share[1:] * remote])


@formula
def send_s(message_bytes: ArrayLike, bytes_per_s: ArrayLike, latency_s: ArrayLike) -> FloatArray:
    """Time to send a message from one device to another.

    Parameters
    ----------
    message_bytes : array_like
        Size, shape ``(layout,)``. [byte]
    bytes_per_s, latency_s : array_like
        Bandwidth [byte/s] and latency [s] of the slowest tier between them.

    Returns
    -------
    ndarray
        Shape ``(layout,)``. [s]

    Examples
    --------
    >>> float(send_s(1e9, 50e9, 0.001))
    0.021
    """
    return np.asarray(message_bytes, dtype=float) / np.asarray(bytes_per_s) + latency_s


@formula
def exposed_s(communication_s: ArrayLike, hidden_fraction: ArrayLike, window_s: ArrayLike) -> FloatArray:
    """Communication that compute does not hide.

    Parameters
    ----------
    communication_s : array_like
        Time of the traffic alone, shape ``(layout,)``. [s]
    hidden_fraction : array_like
        Most of it that the software can run beside compute; the rest is start-up, tails and dependencies.
    window_s : array_like
        Compute that it can hide behind. [s]

    Returns
    -------
    ndarray
        Shape ``(layout,)``. [s]

    Examples
    --------
    Of 10 s, 90 % could hide, but there is work for 4 s only:

    >>> float(exposed_s(10.0, 0.9, 4.0))
    6.0
    """
    communication = np.asarray(communication_s, dtype=float)
    return communication - np.minimum(communication * hidden_fraction, window_s)


@formula
def contention_s(communication_s: ArrayLike, exposed_s: ArrayLike, contention_fraction: ArrayLike) -> FloatArray:
    """Time that compute loses to the traffic it hides: both use the device's memory and compute units.

    Parameters
    ----------
    communication_s, exposed_s : array_like
        Traffic alone, and what of it is exposed, shape ``(layout,)``. [s]
    contention_fraction : array_like
        Slow-down of compute for each second of hidden traffic.

    Returns
    -------
    ndarray
        Shape ``(layout,)``. [s]

    Examples
    --------
    >>> float(contention_s(10.0, 6.0, 0.25))
    1.0
    """
    return (np.asarray(communication_s, dtype=float) - exposed_s) * contention_fraction


@formula
def jitter_s(step_s: ArrayLike, nodes: ArrayLike, noise_fraction: ArrayLike) -> FloatArray:
    r"""Waiting for the slowest node of a step in which all nodes take part.

    Parameters
    ----------
    step_s : array_like
        Step without jitter, shape ``(layout,)``. [s]
    nodes : array_like
        Nodes that wait for one another, shape ``(layout,)``.
    noise_fraction : array_like
        Standard deviation of one node's time over its mean.

    Returns
    -------
    ndarray
        Shape ``(layout,)``. [s]

    Notes
    -----
    The largest of :math:`n` independent normal times lies about :math:`\sigma \sqrt{2 \ln n}` above the mean [1]_.
    Failed and permanently slow nodes are not in it; they belong to the run.

    References
    ----------
    .. [1] H. A. David, H. N. Nagaraja, "Order Statistics," 3rd ed., 2003, section 10.5.

    Examples
    --------
    One node waits for nobody; 2048 nodes of 1 % noise wait 3.9 % of a 10 s step:

    >>> jitter_s(10.0, np.array([1, 2048]), 0.01).round(2).tolist()
    [0.0, 0.39]
    """
    nodes = np.asarray(nodes, dtype=float)
    return np.asarray(step_s, dtype=float) * noise_fraction * np.sqrt(2 * np.log(np.maximum(nodes, 1.0)))


@formula
def paired_s(exposed_s: ArrayLike, remaining_fraction: ArrayLike) -> FloatArray:
    """Exposed traffic that remains where micro-batches of two directions run in pairs.

    Parameters
    ----------
    exposed_s : array_like
        Traffic that one direction's own compute does not hide, shape ``(layout,)``. [s]
    remaining_fraction : array_like
        Part of it that the other direction's compute does not hide either; 1 where there is no other direction.

    Returns
    -------
    ndarray
        Shape ``(layout,)``. [s]

    References
    ----------
    .. [1] DeepSeek-AI, "DeepSeek-V3 Technical Report," arXiv:2412.19437, section 3.2.1.

    Examples
    --------
    >>> float(paired_s(2.0, 0.2))
    0.4
    """
    return np.asarray(exposed_s, dtype=float) * remaining_fraction
