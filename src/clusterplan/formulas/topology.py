"""What a scale-out network is made of at a number of devices: switches, links, modules; what one fault or a cut does.

Three shapes: *trees* of switches (fat trees, rail-optimised or in planes, over-subscribed or not), *meshes* (switches
all to all in a group, groups all to all: a dragonfly) and *tori* of blocks that optical circuit switches join. A
network is a list of levels from inside out. Arrays have shape ``(layout, tier)``, or ``(layout,)`` where a level does
not matter.
"""

from __future__ import annotations

import numpy as np

from clusterplan.arrays import ArrayLike, BoolArray, FloatArray, as_float
from clusterplan.trace import formula


@formula
def needed(devices: ArrayLike, span_devices: ArrayLike, links_per_plane: ArrayLike, leaf_ports: ArrayLike) -> BoolArray:
    """Levels that a cluster is large enough to need.

    Parameters
    ----------
    devices : array_like
        Devices of the cluster, shape ``(layout,)``.
    span_devices : array_like
        Most devices that each level joins, from inside out, shape ``(tier,)``.
    links_per_plane : array_like
        Links from devices to one plane of the network, shape ``(layout,)``.
    leaf_ports : array_like
        Ports of one switch of the first level of a tree; infinite where they do not matter.

    Returns
    -------
    ndarray of bool
        Shape ``(layout, tier)``. The first always is; another, if the devices do not fit into one block of the level
        inside it.

    Notes
    -----
    A level is needed by more devices than the level inside it spans. Leaves of different rails in one block reach each
    other by the second level, if there is one: it is needed as well by more links in a plane than a leaf has ports.

    Examples
    --------
    One switch of 64 ports, rails of one block of 256 devices, and four such blocks:

    >>> needed([64, 256, 1024], [256, 2048, 65536], [64, 256, 1024], 64).tolist()
    [[True, False, False], [True, True, False], [True, True, False]]
    """
    many = as_float(devices)[..., None]
    inside = np.concatenate([[0.0], as_float(span_devices)[:-1]])
    is_needed = many > inside
    if is_needed.shape[-1] > 1:
        is_needed[..., 1] |= as_float(links_per_plane) > leaf_ports
    return is_needed


@formula
def tree_links(endpoint_links: ArrayLike, reaching_fraction: ArrayLike, needed: BoolArray) -> FloatArray:
    r"""Links that enter each level of a tree from below.

    Parameters
    ----------
    endpoint_links : array_like
        Links of all devices, shape ``(layout,)``.
    reaching_fraction : array_like
        Share of the devices' bandwidth that reaches each level, shape ``(tier,)``: 1 in the first, and in all of a
        tree that does not block; 0.5 in a level behind 2:1 over-subscription.
    needed : array_like of bool
        :func:`needed`, shape ``(layout, tier)``.

    Returns
    -------
    ndarray
        Shape ``(layout, tier)``. In all :math:`L` for each endpoint of a tree of :math:`L` levels without blocking,
        its own link included [1]_.

    References
    ----------
    .. [1] M. Al-Fares, A. Loukissas, and A. Vahdat, "A scalable, commodity data center network architecture," Proc.
       ACM SIGCOMM, 2008.

    Examples
    --------
    A thousand links in three levels with half the bandwidth at the top:

    >>> tree_links([1000], [1, 1, 0.5], np.array([[True, True, True]])).tolist()
    [[1000.0, 1000.0, 500.0]]
    """
    return as_float(endpoint_links)[..., None] * as_float(reaching_fraction) * needed.astype(float)


@formula
def tree_ports(links: ArrayLike) -> FloatArray:
    """Switch ports in use on each level of a tree.

    Parameters
    ----------
    links : array_like
        :func:`tree_links`, shape ``(layout, tier)``.

    Returns
    -------
    ndarray
        Those that face down and those that face up, shape ``(layout, tier)``.

    Examples
    --------
    Leaf and spine: one port down, one up, one in the spine for each endpoint:

    >>> tree_ports([[1000, 1000]]).tolist()
    [[2000.0, 1000.0]]
    """
    below = as_float(links)
    above = np.concatenate([below[..., 1:], np.zeros_like(below[..., :1])], axis=-1)
    return below + above


@formula
def switches(ports: ArrayLike, switch_ports: ArrayLike, planes: ArrayLike = 1) -> FloatArray:
    """Whole switches that have so many ports, the same number in each plane.

    Parameters
    ----------
    ports : array_like
        Ports in use, shape ``(layout, tier)``.
    switch_ports : array_like
        Ports of one switch, shape ``(tier,)``.
    planes : array_like
        Networks side by side, with no link between them.

    Returns
    -------
    ndarray
        Shape ``(layout, tier)``.

    Examples
    --------
    2,048 endpoints on leaves and spines of 64 ports [1]_, and the same over eight planes:

    >>> switches([4096, 2048], 64).tolist(), switches([4096, 2048], 64, 8).tolist()
    ([64.0, 32.0], [64.0, 32.0])

    References
    ----------
    .. [1] C. Zhao et al., "Insights into DeepSeek-V3," arXiv:2505.09343, Table 3: 96 switches.
    """
    return as_float(planes) * np.ceil(np.maximum(as_float(ports) / planes / switch_ports - 1e-9, 0.0))


@formula
def mesh_links(switches: ArrayLike, block_switches: ArrayLike) -> FloatArray:
    """Links between switches that are joined all to all in blocks.

    Parameters
    ----------
    switches : array_like
        Switches of all blocks, shape ``(layout,)``.
    block_switches : array_like
        Switches of one block.

    Returns
    -------
    ndarray
        Shape ``(layout,)``.

    Examples
    --------
    Two groups of four: six links in each:

    >>> float(mesh_links(8, 4))
    12.0
    """
    return as_float(switches) * (np.minimum(as_float(switches), block_switches) - 1) / 2


@formula
def global_links(endpoint_links: ArrayLike, reaching_fraction: ArrayLike, needed: BoolArray) -> FloatArray:
    r"""Links between the groups of a dragonfly.

    Parameters
    ----------
    endpoint_links : array_like
        Links of all devices, shape ``(layout,)``.
    reaching_fraction : array_like
        Global ports of a switch over its ports to devices; 1 in a balanced dragonfly [1]_.
    needed : array_like of bool
        Whether there is more than one group, shape ``(layout,)``.

    Returns
    -------
    ndarray
        Each joins two switches, shape ``(layout,)``.

    References
    ----------
    .. [1] J. Kim et al., "Technology-Driven, Highly-Scalable Dragonfly Topology," ISCA 2008.

    Examples
    --------
    The dragonfly of arXiv:2505.09343, Table 3: 511 groups of 32 switches with 16 devices each:

    >>> float(global_links(261_632, 1, np.array(True)))
    130816.0
    """
    return as_float(endpoint_links) * reaching_fraction * needed.astype(float) / 2


@formula
def torus_face_links(devices: ArrayLike, block_devices: ArrayLike, needed: BoolArray) -> FloatArray:
    r"""Links that leave the blocks of a torus, all faces of all blocks; each ends in an optical circuit switch.

    Parameters
    ----------
    devices : array_like
        Shape ``(layout,)``.
    block_devices : array_like
        Devices of one cube.
    needed : array_like of bool
        Whether there is more than one cube, shape ``(layout,)``.

    Returns
    -------
    ndarray
        :math:`6\, n^{2/3}` for each cube of :math:`n`, shape ``(layout,)``. [1]_

    References
    ----------
    .. [1] N. Jouppi et al., "TPU v4: An Optically Reconfigurable Supercomputer," ISCA 2023: 96 for a cube of 64.

    Examples
    --------
    64 cubes of 64, which 48 switches of 128 ports in use join:

    >>> float(torus_face_links(4096, 64, np.array(True))), 48 * 128
    (6144.0, 6144)
    """
    blocks = np.ceil(as_float(devices) / block_devices)
    return blocks * 6 * np.cbrt(block_devices) ** 2 * needed.astype(float)


@formula
def torus_links(devices: ArrayLike, face_links: ArrayLike) -> FloatArray:
    """Links inside the blocks of a torus: three for each device, without those that leave the blocks.

    Parameters
    ----------
    devices : array_like
        Shape ``(layout,)``.
    face_links : array_like
        :func:`torus_face_links`; two of them make one way from cube to cube. Shape ``(layout,)``.

    Returns
    -------
    ndarray
        Shape ``(layout,)``.

    Examples
    --------
    A cube of 4 × 4 × 4 with all its wrap-around links inside, and as one of many:

    >>> torus_links(64, [0, 96]).tolist()
    [192.0, 144.0]
    """
    return 3 * as_float(devices) - as_float(face_links) / 2


@formula
def modules(links: ArrayLike, ends: ArrayLike) -> FloatArray:
    """Optical modules on links.

    Parameters
    ----------
    links : array_like
        Shape ``(layout, tier)``.
    ends : array_like
        Modules of one link, shape ``(tier,)``: two, none on copper, one where the other end is a mirror.

    Returns
    -------
    ndarray
        Shape ``(layout, tier)``.

    Examples
    --------
    >>> modules([1000, 1000], [0, 2]).tolist()
    [0.0, 2000.0]
    """
    return as_float(links) * ends


@formula
def powered_ports(ports: ArrayLike, switches: ArrayLike, switch_ports: ArrayLike) -> FloatArray:
    """Ports that draw power: all of every switch, used or not; those in use where the switch is not known.

    Parameters
    ----------
    ports : array_like
        Ports in use, shape ``(layout, tier)``.
    switches, switch_ports : array_like
        Switches and their ports; not a number where they are not known.

    Returns
    -------
    ndarray
        Shape ``(layout, tier)``.

    Examples
    --------
    >>> powered_ports([100, 100], [2, np.nan], [64, np.nan]).tolist()
    [128.0, 100.0]
    """
    whole = as_float(switches) * switch_ports
    return np.where(np.isnan(whole), as_float(ports), whole)


@formula
def tree_bisection_bytes_per_s(
    devices: ArrayLike, device_bytes_per_s: ArrayLike, reaching_fraction: ArrayLike, needed: BoolArray
) -> FloatArray:
    """Bandwidth, one way, between two halves of a tree or a balanced dragonfly that are as far apart as they can be.

    Parameters
    ----------
    devices : array_like
        Shape ``(layout,)``.
    device_bytes_per_s : array_like
        Of one device into the network. [byte/s]
    reaching_fraction, needed : array_like
        As for :func:`tree_links`.

    Returns
    -------
    ndarray
        Shape ``(layout,)``. [byte/s]

    Examples
    --------
    1,024 devices of 50 GB/s, half of which reaches the spine:

    >>> float(tree_bisection_bytes_per_s(1024, 50e9, [1, 0.5], np.array([True, True])))
    12800000000000.0
    """
    share = np.min(np.where(needed, as_float(reaching_fraction), 1.0), axis=-1)
    return as_float(devices) / 2 * device_bytes_per_s * share


@formula
def torus_bisection_bytes_per_s(devices: ArrayLike, longest_side: ArrayLike, link_bytes_per_s: ArrayLike) -> FloatArray:
    r"""Bandwidth, one way, between the halves of a torus cut across its longest side.

    Parameters
    ----------
    devices : array_like
        Shape ``(layout,)``.
    longest_side : array_like
        Devices along the longest axis, shape ``(layout,)``.
    link_bytes_per_s : array_like
        One link, one way. [byte/s]

    Returns
    -------
    ndarray
        The cut passes two rings' worth of links: :math:`2 N / s`, shape ``(layout,)``. [byte/s]

    Examples
    --------
    16 × 16 × 16 with links of 50 GB/s: 512 links:

    >>> float(torus_bisection_bytes_per_s(4096, 16, 50e9) / 50e9)
    512.0
    """
    return 2 * as_float(devices) / longest_side * link_bytes_per_s


@formula
def leaf_devices(switch_ports: ArrayLike, uplink_fraction: ArrayLike, devices: ArrayLike) -> FloatArray:
    """Devices that hang on one switch of the first level, each by one link.

    Parameters
    ----------
    switch_ports : array_like
        Ports of the switch.
    uplink_fraction : array_like
        Links up for each link down, shape ``(layout,)``; 0 if there is no second level.
    devices : array_like
        Devices of the cluster, shape ``(layout,)``.

    Returns
    -------
    ndarray
        Shape ``(layout,)``.

    Examples
    --------
    64 ports without blocking, with 2:1 (42 down, 21 up) and alone:

    >>> leaf_devices(64, [1, 0.5, 0], 1000).tolist()
    [32.0, 42.0, 64.0]
    """
    down = np.floor(as_float(switch_ports) / (1 + as_float(uplink_fraction)) + 1e-9)
    return np.minimum(down, devices)


@formula
def lost_fraction(switches: ArrayLike, blocks: ArrayLike) -> FloatArray:
    """Share of the bandwidth through a level that a block loses with one of its switches.

    Parameters
    ----------
    switches : array_like
        Switches of the level, shape ``(layout, tier)``.
    blocks : array_like
        Blocks that the level consists of, at least 1; a switch serves one of them.

    Returns
    -------
    ndarray
        At most 1, shape ``(layout, tier)``.

    Examples
    --------
    32 spines of one block:

    >>> float(lost_fraction(32, 1))
    0.03125
    """
    return np.minimum(as_float(blocks) / np.maximum(as_float(switches), 1), 1.0)
