"""What a fabric is made of at a number of devices: the formulas of topology put together for one fabric."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np

from clusterplan.arrays import ArrayLike, BoolArray, FloatArray
from clusterplan.formulas import power, topology
from clusterplan.hardware import Fabric, System

TORUS_LINKS = 6
"""Links of a device in a torus of three axes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wiring:
    """Parts of a network by level; every field has shape ``(layout, tier)``, levels from inside out, unless it says."""

    needed: BoolArray
    """Levels that the cluster is large enough to need."""
    links: FloatArray
    """Cables that enter the level from below, or lie inside it in a mesh or torus."""
    ports: FloatArray
    """Switch ports in use."""
    switches: FloatArray
    """Switches; not a number where the profile does not say how many ports one has."""
    powered_ports: FloatArray
    """Ports of all switches, in use or not."""
    optics: FloatArray
    """Optical modules, those at the devices included."""
    failure_devices: FloatArray
    """Devices that notice the failure of one switch; not a number where switches are not known."""
    lost_fraction: FloatArray
    """Share of their bandwidth through the level that these lose."""
    bisection_bytes_per_s: FloatArray
    """Bandwidth between halves of the cluster, one way, shape ``(layout,)``. [byte/s]"""
    network_w: FloatArray
    """Power of switches and modules, shape ``(layout,)``. [W]"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parts:
    """What each shape of network counts in its own way, levels from inside out."""

    links: FloatArray
    ports: FloatArray
    switches: FloatArray
    ends: tuple[int, ...]
    """Modules of one link, shape ``(tier,)``."""
    failure_devices: FloatArray
    lost_fraction: FloatArray
    bisection_bytes_per_s: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """A fabric at a number of devices."""

    fabric: Fabric
    devices: FloatArray
    """Shape ``(layout,)``."""
    links_per_device: float
    device_bytes_per_s: float
    needed: BoolArray
    spans: FloatArray
    reaching: FloatArray
    """Share of the devices' bandwidth that reaches each level, shape ``(tier,)``."""
    radix: FloatArray
    """Ports of a switch of each level, not a number where it is not known, shape ``(tier,)``."""

    @property
    def endpoint_links(self) -> FloatArray:
        return self.devices * self.links_per_device


def device_bytes_per_s(fabric: Fabric, system: System | None) -> float:
    """Rate of a device into the fabric, one way: that of the system, else a port, or six links of a torus. [byte/s]"""
    if fabric.tiers[0].topology == "torus":
        return TORUS_LINKS * fabric.port_bytes_per_s
    return fabric.port_bytes_per_s if system is None else system.scaleout_bytes_per_s


def wiring(fabric: Fabric, interface_bytes_per_s: float, devices: ArrayLike) -> Wiring:
    """Parts of a fabric that joins so many devices.

    Parameters
    ----------
    fabric : Fabric
        Levels, switches, links.
    interface_bytes_per_s : float
        Of one device into the fabric, all its links, one way. [byte/s]
    devices : array_like
        Shape ``(layout,)``.
    """
    asked = _asked(fabric, interface_bytes_per_s, np.atleast_1d(np.asarray(devices, dtype=float)))
    shape = {"torus": _torus, "mesh": _mesh, "switch": _tree}[fabric.tiers[0].topology]
    parts = shape(asked)
    given = (tier.optics_per_link for tier in fabric.tiers)
    ends = [usual if own is None else own for own, usual in zip(given, parts.ends, strict=True)]
    powered = topology.powered_ports(parts.ports, parts.switches, asked.radix)
    optics = topology.modules(parts.links, np.array(ends))
    return Wiring(
        needed=asked.needed,
        links=parts.links,
        ports=parts.ports,
        switches=parts.switches,
        powered_ports=powered,
        optics=optics,
        failure_devices=parts.failure_devices,
        lost_fraction=parts.lost_fraction,
        bisection_bytes_per_s=parts.bisection_bytes_per_s,
        network_w=power.fabric_w(
            np.sum(powered, axis=1) / fabric.links_per_port,
            fabric.switch_w_per_port,
            np.sum(optics, axis=1) / fabric.links_per_port,
            fabric.optic_w,
        ),
    )


def _asked(fabric: Fabric, interface_bytes_per_s: float, devices: FloatArray) -> _Asked:
    tiers = fabric.tiers
    links_per_device = (
        power.endpoints_per_device(interface_bytes_per_s, fabric.port_bytes_per_s) * fabric.links_per_port
    )
    radix = np.array([np.nan if tier.switch_ports is None else float(tier.switch_ports) for tier in tiers])
    is_tree = tiers[0].topology == "switch" and tiers[0].switch_ports is not None
    spans = np.array([tier.span_devices for tier in tiers], dtype=float)
    leaf_ports = radix[0] if is_tree else np.inf
    return _Asked(
        fabric=fabric,
        devices=devices,
        links_per_device=float(links_per_device),
        device_bytes_per_s=min(interface_bytes_per_s, fabric.port_bytes_per_s * float(np.ceil(links_per_device))),
        needed=topology.needed(devices, spans, devices * links_per_device / fabric.planes, leaf_ports),
        spans=spans,
        reaching=np.array([1 / (tier.oversubscription if n else 1.0) for n, tier in enumerate(tiers)]),
        radix=radix,
    )


def _tree(asked: _Asked) -> _Parts:
    """Levels of switches."""
    links = topology.tree_links(asked.endpoint_links, asked.reaching, asked.needed)
    ports = topology.tree_ports(links)
    switches = topology.switches(ports, asked.radix, asked.fabric.planes)
    uplinks = links[:, 1] / links[:, 0] if links.shape[1] > 1 else np.zeros_like(asked.devices)
    on_leaf = topology.leaf_devices(asked.radix[0], uplinks, asked.devices)
    beyond = np.minimum(asked.devices[:, None], asked.spans[1:]) + 0 * switches[:, 1:]
    blocks = np.ceil(asked.devices[:, None] / asked.spans)
    lost = topology.lost_fraction(switches, blocks)
    lost[:, 0] = min(1.0, 1 / asked.links_per_device)
    return _Parts(
        links=links,
        ports=ports,
        switches=switches,
        ends=(2,) * len(asked.spans),
        failure_devices=np.concatenate([on_leaf[:, None], beyond], axis=1),
        lost_fraction=lost,
        bisection_bytes_per_s=_bisection(asked),
    )


def _mesh(asked: _Asked) -> _Parts:
    """A dragonfly: all links of all levels end in the switches of the first."""
    facing = asked.fabric.tiers[0].switch_endpoints
    own = np.nan if facing is None else float(facing)
    switches = np.zeros_like(asked.needed, dtype=float)
    switches[:, 0] = topology.switches(asked.endpoint_links, own)
    # What a switch has left besides ports to devices and as many to other groups joins it to its own group.
    block = np.minimum(asked.spans[0] * asked.links_per_device / own, asked.radix[0] - 2 * own + 1)
    inside = topology.mesh_links(switches[:, 0], block)
    links = topology.tree_links(asked.endpoint_links, asked.reaching, asked.needed)
    links[:, 1:] = topology.global_links(asked.endpoint_links[:, None], asked.reaching[1:], asked.needed[:, 1:])
    links[:, 0] += inside
    ports = np.zeros_like(links)
    ports[:, 0] = asked.endpoint_links + 2 * inside + 2 * np.sum(links[:, 1:], axis=1)
    failure, lost = np.full_like(links, np.nan), np.full_like(links, np.nan)
    failure[:, 0] = topology.leaf_devices(own / min(asked.links_per_device, 1.0), 0.0, asked.devices)
    lost[:, 0] = min(1.0, 1 / asked.links_per_device)
    return _Parts(
        links=links,
        ports=ports,
        switches=switches,
        ends=(0, *(2 for _ in asked.spans[1:])),
        failure_devices=failure,
        lost_fraction=lost,
        bisection_bytes_per_s=_bisection(asked),
    )


def _torus(asked: _Asked) -> _Parts:
    """Cubes of copper, and optical circuit switches that join their faces."""
    faces = np.zeros_like(asked.needed, dtype=float)
    block = asked.spans[0]
    faces[:, 1:] = topology.torus_face_links(asked.devices[:, None], block, asked.needed[:, 1:])
    links = faces.copy()
    links[:, 0] = topology.torus_links(asked.devices, np.sum(faces, axis=1))
    switches = np.where(faces > 0, topology.switches(faces, asked.radix), 0.0)
    return _Parts(
        links=links,
        ports=faces,
        switches=switches,
        ends=(0, *(1 for _ in asked.spans[1:])),  # a mirror has no module
        failure_devices=np.where(
            faces > 0, np.minimum(faces / np.maximum(switches, 1), asked.devices[:, None]), np.nan
        ),
        lost_fraction=np.where(faces > 0, 1 / TORUS_LINKS, np.nan),
        bisection_bytes_per_s=topology.torus_bisection_bytes_per_s(
            asked.devices, longest_side(asked.devices, block), asked.fabric.port_bytes_per_s
        ),
    )


def _bisection(asked: _Asked) -> FloatArray:
    return topology.tree_bisection_bytes_per_s(asked.devices, asked.device_bytes_per_s, asked.reaching, asked.needed)


def longest_side(devices: FloatArray, block_devices: float) -> FloatArray:
    """Devices along the longest axis of the torus nearest to a cube that whole blocks make.

    Examples
    --------
    140 cubes of 4 × 4 × 4 are 4 × 5 × 7 of them, as in the pod of TPU v5p:

    >>> longest_side(np.array([8960.0]), 64).tolist()
    [28.0]
    """
    side = round(block_devices ** (1 / 3))
    blocks = np.ceil(devices / block_devices).astype(int)
    return np.array([side * _longest(int(count)) for count in blocks.flat], dtype=float).reshape(blocks.shape)


@functools.cache
def _longest(count: int) -> int:
    """Largest of three whole factors that are as equal as they can be."""
    best = count
    for one in range(1, round(count ** (1 / 3)) + 1):
        if count % one == 0:
            rest = count // one
            two = next(n for n in range(math.isqrt(rest), 0, -1) if rest % n == 0)
            best = min(best, max(one, rest // two))
    return best
