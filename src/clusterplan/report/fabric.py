"""A network at a number of devices: its levels, what it is made of, what it draws and costs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from clusterplan import __version__
from clusterplan.hardware import Fabric, System
from clusterplan.report.blocks import Block, Document
from clusterplan.report.quantities import said
from clusterplan.site import Prices
from clusterplan.units import format_fraction

if TYPE_CHECKING:  # lists of profiles need no arrays
    from clusterplan.wiring import Wiring

FABRIC = "clusterplan/fabric-1"


def fabric_document(
    fabric: Fabric, wiring: Wiring, devices: int, device_bytes_per_s: float, system: System | None, prices: Prices
) -> dict[str, Any]:
    """Levels, parts, power and price of a network.

    Parameters
    ----------
    fabric : Fabric
        The network.
    wiring : Wiring
        What it is made of at this size.
    devices : int
        Devices that it joins.
    device_bytes_per_s : float
        Of one device into it, one way. [byte/s]
    system : System or None
        What the devices sit in, if that was given.
    prices : Prices
        Price list for what the fabric's profile does not price.
    """
    inside = [] if system is None else [_scaleup(system)]
    ports, optics = float(wiring.powered_ports[0].sum()), float(wiring.optics[0].sum())
    watts = float(wiring.network_w[0])
    switch_usd = (
        None if fabric.switch_usd_per_port is None else ports / fabric.links_per_port * fabric.switch_usd_per_port
    )
    optic_usd = None if fabric.optic_usd is None else optics / fabric.links_per_port * fabric.optic_usd
    parts = [part for part in (switch_usd, optic_usd) if part is not None]
    return {
        "schema": FABRIC,
        "version": __version__,
        "name": fabric.name,
        "technology": fabric.technology,
        "hardware": None if system is None else system.name,
        "devices": devices,
        "device_bytes_per_s": device_bytes_per_s,
        "planes": fabric.planes,
        "tiers": [*inside, *_tiers(fabric, wiring, device_bytes_per_s)],
        "switches": _count(float(wiring.switches[0].sum())),
        "ports_in_use": _count(float(wiring.ports[0].sum())),
        "links": _count(float(wiring.links[0].sum())),
        "optics": _count(optics),
        "bisection_bytes_per_s": float(wiring.bisection_bytes_per_s[0]),
        "network_w": watts,
        "network_w_per_device": watts / devices,
        "switch_usd": switch_usd,
        "optic_usd": optic_usd,
        "network_usd": sum(parts) if len(parts) == 2 else None,
        "prices": prices.name,
        "list_usd": devices * float(prices.network_usd_per_device),
        "missing": list(_missing(fabric, wiring)),
    }


def _tiers(fabric: Fabric, wiring: Wiring, device_bytes_per_s: float) -> list[dict[str, Any]]:
    """The levels of a fabric, and what each is made of at this size."""
    return [
        {
            "name": tier.name,
            "topology": tier.topology,
            "is_needed": bool(wiring.needed[0, n]),
            "span_devices": tier.span_devices,
            "device_bytes_per_s": device_bytes_per_s / tier.oversubscription,
            "oversubscription": float(tier.oversubscription),
            "latency_s": float(tier.latency_s),
            "switch_ports": tier.switch_ports,
            "switches": _count(wiring.switches[0, n]),
            "links": _count(wiring.links[0, n]),
            "optics": _count(wiring.optics[0, n]),
            "failure_devices": _count(wiring.failure_devices[0, n]),
            "lost_fraction": _number(wiring.lost_fraction[0, n]),
        }
        for n, tier in enumerate(fabric.tiers)
    ]


def _scaleup(system: System) -> dict[str, Any]:
    """The level inside the system, whose switches come with it."""
    return {
        "name": "scale-up",
        "topology": system.scaleup_topology,
        "is_needed": True,
        "span_devices": system.scaleup_devices,
        "device_bytes_per_s": float(system.scaleup_bytes_per_s),
        "oversubscription": 1.0,
        "latency_s": float(system.scaleup_latency_s),
        "switch_ports": None,
        "switches": None,
        "links": None,
        "optics": None,
        "failure_devices": None,
        "lost_fraction": None,
    }


def _missing(fabric: Fabric, wiring: Wiring) -> Iterator[str]:
    """What the profile would have to say for everything to be counted."""
    for n, tier in enumerate(fabric.tiers):
        if wiring.needed[0, n] and math.isnan(wiring.switches[0, n]):
            lacks = "switch_endpoints" if tier.topology == "mesh" else "switch_ports"
            yield f"switches of {tier.name}: {lacks} of that level; power is that of the ports in use"
    for field, what in (("switch_usd_per_port", "switches"), ("optic_usd", "modules and cables")):
        if getattr(fabric, field) is None:
            yield f"price of {what}: {field}"


def _count(value: float) -> int | None:
    return None if math.isnan(value) else math.ceil(value - 1e-6)


def _number(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


def fabric_blocks(document: Document) -> Iterator[Block]:
    """Blocks of a network at a size."""
    at = f"{document['devices']:,} devices of {said('_bytes_per_s', document['device_bytes_per_s'])} one way"
    if document["hardware"]:
        at += f", {document['hardware']}"
    yield Block(title=f"fabrics/{document['name']}", rows=(("", f"{document['technology']}"), ("", at)), are_notes=True)
    yield _levels(document["tiers"])
    yield _made_of(document)
    yield Block(title="Together", rows=tuple(_together(document)))
    if document["missing"]:
        yield Block(
            title="Not in the profile",
            rows=tuple(("", text) for text in document["missing"]),
            are_notes=True,
            caption=f"A copy of {document['name']}.toml with these keys counts them.",
        )


def _levels(tiers: list[Document]) -> Block:
    """What each level joins, and how fast."""
    return Block(
        title="Levels, from inside out",
        heads=("level", "shape", "joins", "a device", "blocking", "latency"),
        rows=tuple(
            (
                tier["name"] + ("" if tier["is_needed"] else " (not needed)"),
                tier["topology"],
                f"{tier['span_devices']:,}",
                said("_bytes_per_s", tier["device_bytes_per_s"]),
                f"{tier['oversubscription']:g}:1",
                said("_s", tier["latency_s"]),
            )
            for tier in tiers
        ),
        right=(2, 3, 4, 5),
    )


def _made_of(document: Document) -> Block:
    """Switches, cables and modules of each level, and what a fault of it takes."""
    counted = [tier for tier in document["tiers"] if tier["is_needed"] and tier["links"] is not None]
    return Block(
        title="Made of",
        heads=("level", "switches", "cables", "modules", "a fault hits", "which lose"),
        rows=(
            *(
                (
                    tier["name"],
                    *(_said_count(tier[name]) for name in ("switches", "links", "optics", "failure_devices")),
                    "-" if tier["lost_fraction"] is None else format_fraction(tier["lost_fraction"]),
                )
                for tier in counted
            ),
            ("together", *(_said_count(document[name]) for name in ("switches", "links", "optics")), "", ""),
        ),
        right=(1, 2, 3, 4, 5),
        caption="A fault is that of one switch; what is lost is bandwidth through its level.",
    )


def _together(document: Document) -> Iterator[tuple[str, str]]:
    """Bandwidth, power and price of the whole network."""
    yield "bisection, one way", said("_bytes_per_s", document["bisection_bytes_per_s"])
    yield "power", f"{said('_w', document['network_w'])}, {document['network_w_per_device']:.0f} W a device"
    for name, label in (("switch_usd", "switches"), ("optic_usd", "modules and cables"), ("network_usd", "together")):
        if document[name] is not None:
            yield label, said("_usd", document[name])
    each = document["list_usd"] / document["devices"]
    yield f"by {document['prices']}", f"{said('_usd', document['list_usd'])}, {said('_usd', each)} a device"


def _said_count(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"
