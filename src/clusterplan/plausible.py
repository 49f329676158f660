"""Figures that are possible but unlikely: mistakes that are made in copying a datasheet, with what was likely meant.

A profile is read whatever is said here: ``profiles check`` asks, and a plan warns. Limits are ours: they lie beyond
every device and system that has a profile, so a machine of another kind may be right where this says that it is not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from clusterplan.hardware import Accelerator, Fabric, System
from clusterplan.site import Site
from clusterplan.trace import Figure
from clusterplan.units import BITS_PER_BYTE, BYTES_PER_GIB, to_si

Found = Iterator[tuple[str, str]]
"""Fields with what is unlikely about them."""

MOST_FLOP_PER_J = 2.6e12
"""Assumed: dense products in 16 bits over the power limit; the TPU v6e has 2.4e12, twice that of the H100 is 2.8e12."""
SPARSE_RATIOS = {"fp8": 4.0, "int8": 4.0, "fp4": 8.0}
"""A peak with structured sparsity over a dense one in 16 bits, where half the bits are twice as fast."""
LIKE_SPARSE_FRACTION = 0.025
"""Assumed: ratios this near to those are of peaks with sparsity (Trainium3 has 3.75 dense, Rubin 4.375 and 8.75)."""
TDP_W = (30.0, 10_000.0)
"""Assumed: power limit of one device; 150 to 2,300 in the profiles."""
MEMORY_SWEEPS_PER_S = (8.0, 100.0)
"""Assumed: how often a device reads all of its memory in a second; 12 (MLU370) to 74 (Rubin) in the profiles."""
RIDGE_FLOP_PER_BYTE = (30.0, 600.0)
"""Assumed: dense products in 16 bits over memory bandwidth; 37 (H20) to 560 (TPU v6e) in the profiles."""
LEAST_SEEN_FRACTION = 0.92
"""Assumed: a program sees at least so much of the memory that is sold (0.927 on the L40S), counted in GiB."""
LINK_OVER_MEMORY = {"switch": 0.26, "mesh": 0.26, "torus": 0.35}
"""Assumed: most of the memory bandwidth that scale-up links reach one way; 0.245 and 0.311 in the profiles."""
LINE_RATES = (100, 200, 400, 800, 1600)
"""Rates of network interfaces, which are always told in Gbit/s."""
NAMEPLATE_OVER_DEVICES = (0.9, 3.0)
"""Assumed: nameplate of a system over the power limits of its devices; 1.15 to 2.26 in the profiles."""
W_PER_RACK = (2e3, 9e5)
"""Assumed: nameplate of one rack; immersed racks of 640 cards are the densest."""
PORT_BYTES_PER_S = (1e9, 3.1e11)
"""Assumed: line rate of one port."""
MOST_KG_CO2E_PER_KWH = 1.3
"""Assumed: no grid emits more; one of old coal plants alone does not."""
USD_PER_KWH = (0.005, 1.0)
"""Assumed: tariffs of large customers."""

MEAN_C = (-25.0, 35.0)
"""Assumed: yearly mean of the air; -20 to 31 where people live, and less or more nowhere that is built on."""
LEAST_SUPPLY_EFFICIENCY = 0.7
"""Assumed: of supplies and transformers; old ones at little load have 0.8."""


def written(figure: float, si: float, key: str = "") -> str:
    """A value of a figure as its file would have it.

    Examples
    --------
    >>> from clusterplan.trace import Origin
    >>> written(Figure(7e11, Origin("systems/x", "scaleup_gb_per_s", "datasheet", "a sheet")), 3.5e11)
    'scaleup_gb_per_s = 350'
    """
    key = figure.origin.key if isinstance(figure, Figure) else key
    return f"{key} = {si / to_si(key, 1)[1]:.6g}"


UNNAMED_SOURCE = "title of the datasheet, date, column"
"""What stands for a source until somebody names it."""


def implausible_device(device: Accelerator) -> Found:
    """Peaks with sparsity, GB for GiB, bits for bytes; figures of a datasheet that nobody has named."""
    if isinstance(device.tdp_w, Figure) and device.tdp_w.origin.source == UNNAMED_SOURCE:
        yield "tdp_w", "its source, with that of the figures beside it, is still to be named"
    wide = next((name for name in ("bf16", "fp16") if device.peak_flop_per_s(name)), None)
    if wide is None:
        yield "bf16_flop_per_s", "no peak in 16 bits is given: bf16_tflops or fp16_tflops"
    else:
        yield from _sparse(device, f"{wide}_flop_per_s", device.peak_flop_per_s(wide) or 0.0)
    yield from _memory(device)
    if not TDP_W[0] <= device.tdp_w <= TDP_W[1]:
        yield "tdp_w", f"is {device.tdp_w:,g} W for one device; usual are 150 to 2,300"


def _sparse(device: Accelerator, field: str, peak: float) -> Found:
    half = written(getattr(device, field), peak / 2, field)
    if peak > MOST_FLOP_PER_J * device.tdp_w:
        yield field, f"is more than {device.tdp_w:g} W give; the figure with sparsity? Dense would be {half}"
    ridge = peak / device.memory_bytes_per_s
    if not RIDGE_FLOP_PER_BYTE[0] <= ridge <= RIDGE_FLOP_PER_BYTE[1]:
        yield (
            field,
            f"is {ridge:,.0f} FLOP for each byte of memory bandwidth; usual are 80 to 560: one of them is wrong",
        )
    for name, sparse in SPARSE_RATIOS.items():
        narrow = device.peak_flop_per_s(name)
        if not narrow:
            continue
        ratio, other = narrow / peak, f"{name}_flop_per_s"
        is_near = abs(ratio / sparse - 1) <= LIKE_SPARSE_FRACTION
        if is_near or ratio > sparse * 1.15:
            dense = written(narrow, peak * sparse / 2, other)
            yield other, f"is {ratio:.3g} times the 16-bit peak; the figure with sparsity? Dense would be {dense}"
        elif ratio < 0.95:
            yield field, f"is more than the {name} peak; the figure with sparsity? Dense would be {half}"


def _memory(device: Accelerator) -> Found:
    memory, sweeps = device.memory_bytes, device.memory_bytes_per_s / device.memory_bytes
    key = memory.origin.key if isinstance(memory, Figure) else "memory_bytes"
    in_gib = memory / BYTES_PER_GIB
    sold = re.search(r"(?:^|-)(\d+)gb(?:-|$)", device.name)
    if key.endswith(("_gb", "_tb")):
        right = f"memory_gib = {memory / 1e9:.6g}, less what the driver keeps"
        yield "memory_bytes", f"is in GB; what vendors print as GB are GiB: {right}"
    elif sold and in_gib > float(sold[1]) + 0.5:
        yield "memory_bytes", f"is {in_gib:.4g} GiB, more than the {sold[1]} GB of its name"
    elif sold and in_gib < LEAST_SEEN_FRACTION * float(sold[1]):
        yield (
            "memory_bytes",
            f"is {in_gib:.4g} GiB; of {sold[1]} GB a program sees about {0.985 * float(sold[1]):.4g} GiB",
        )
    if not MEMORY_SWEEPS_PER_S[0] <= sweeps <= MEMORY_SWEEPS_PER_S[1]:
        eighth = sweeps / BITS_PER_BYTE
        is_bits = MEMORY_SWEEPS_PER_S[0] <= eighth <= MEMORY_SWEEPS_PER_S[1]
        right = written(device.memory_bytes_per_s, device.memory_bytes_per_s / BITS_PER_BYTE, "memory_bytes_per_s")
        meant = f"bits for bytes? {right}" if is_bits else "usual are 12 to 75"
        yield "memory_bytes_per_s", f"reads all of the memory {sweeps:.3g} times a second; {meant}"


def implausible_system(
    system: System, device: Accelerator | None, fabric: Fabric | None, others: Iterable[System] = ()
) -> Found:
    """Both ways for one, bits for bytes, a nameplate that its devices exceed.

    Parameters
    ----------
    system : System
        What is looked at.
    device, fabric : Accelerator, Fabric
        What it names; None where there is none.
    others : iterable of System
        Systems with the same device, or with its measured relative.
    """
    up, out = system.scaleup_bytes_per_s, system.scaleout_bytes_per_s
    half = written(up, up / 2, "scaleup_bytes_per_s")
    if device is not None:
        most = LINK_OVER_MEMORY[system.scaleup_topology]
        twice = [one.name for one in others if one.name != system.name and 1.9 <= up / one.scaleup_bytes_per_s <= 2.1]
        if up > most * device.memory_bytes_per_s:
            share = up / device.memory_bytes_per_s
            yield "scaleup_bytes_per_s", f"is {share:.2f} of the memory bandwidth; both ways together? One way: {half}"
        elif twice:
            yield "scaleup_bytes_per_s", f"is twice that of {twice[0]}; both ways together? One way: {half}"
    yield from _bits(out, "scaleout_bytes_per_s")
    if out > up:
        yield "scaleout_bytes_per_s", f"is more than the scale-up bandwidth of {up / 1e9:g} GB/s: one of them is wrong"
    elif fabric is not None and system.nics and system.scaleup_topology != "torus":
        lines = system.nics * fabric.port_bytes_per_s / system.devices
        if out > 1.05 * lines:
            right = written(out, lines, "scaleout_bytes_per_s")
            yield "scaleout_bytes_per_s", f"is more than {system.nics} ports of {fabric.name} carry: {right}"
    if device is not None:
        yield from _nameplate(system, device)


def _nameplate(system: System, device: Accelerator) -> Found:
    devices_w = system.devices * device.tdp_w
    parts_w = system.host_w + system.nics * system.nic_w + system.scaleup_w
    whole_w = (devices_w + parts_w) / (1 - min(system.fan_fraction, 0.5)) / system.psu_efficiency
    least, most = NAMEPLATE_OVER_DEVICES
    if not least * devices_w <= system.rated_w <= most * devices_w:
        told = f"{system.devices} devices of {device.tdp_w:g} W are {devices_w:,.0f} W"
        right = written(system.rated_w, float(f"{whole_w:.3g}"), "rated_w")
        yield "rated_w", f"does not fit: {told}; with hosts, fans and supplies about {right}"
    elif parts_w > system.rated_w:
        yield "host_w", f"with interfaces and switches is {parts_w:,.0f} W, more than rated_w = {system.rated_w:,.0f}"
    rack_w = system.rated_w / system.racks
    if not W_PER_RACK[0] <= rack_w <= W_PER_RACK[1]:
        yield "racks", f"makes {rack_w / 1e3:,.3g} kW of a rack; racks draw from 2 to 900 kW"


def _bits(rate: float, field: str) -> Found:
    key = rate.origin.key if isinstance(rate, Figure) else field
    if key.endswith("_gb_per_s") and round(rate / 1e9) in LINE_RATES and (rate / 1e9).is_integer():
        right = f"{key.removesuffix('_gb_per_s')}_gbit_per_s = {rate / 1e9:g}"
        yield field, f"is the rate of an interface in Gbit/s: {right}, or {written(rate, rate / BITS_PER_BYTE)}"


def implausible_fabric(fabric: Fabric) -> Found:
    """Bits for bytes."""
    rate = fabric.port_bytes_per_s
    yield from _bits(rate, "port_bytes_per_s")
    if not PORT_BYTES_PER_S[0] <= rate <= PORT_BYTES_PER_S[1]:
        right = written(rate, rate / BITS_PER_BYTE, "port_bytes_per_s")
        meant = f"bits for bytes? {right}" if rate > PORT_BYTES_PER_S[1] else "ports have 8 to 2,400 Gbit/s"
        yield "port_bytes_per_s", f"is {rate * BITS_PER_BYTE / 1e9:,.4g} Gbit/s; {meant}"


def implausible_site(site: Site) -> Found:
    """Grams for kilograms, prices of a MWh or in cents, degrees of Fahrenheit, losses for efficiencies."""
    carbon, price = site.grid_kg_co2e_per_kwh, site.usd_per_kwh
    if carbon > MOST_KG_CO2E_PER_KWH:
        right = f"grid_g_co2e_per_kwh = {carbon:g}"
        yield "grid_kg_co2e_per_kwh", f"is more than burning coal gives; in grams? {right}"
    if not USD_PER_KWH[0] <= price <= USD_PER_KWH[1]:
        right = f"usd_per_mwh = {price:g}" if price > 10 else f"usd_per_kwh = {price / 100:.3g}, if it was in cents"
        meant = right if price > USD_PER_KWH[1] else f"usd_per_kwh = {price * 1000:.3g}, if it was divided twice"
        yield "usd_per_kwh", f"is unlikely for a large customer; {meant}"
    if not MEAN_C[0] <= site.mean_c <= MEAN_C[1]:
        meant = f"; in Fahrenheit? mean_c = {(site.mean_c - 32) / 1.8:.3g}" if site.mean_c > MEAN_C[1] else ""
        yield "mean_c", f"is {site.mean_c:g} °C over the year, as nowhere{meant}"
    if site.hottest_c is not None and site.hottest_c < site.mean_c:
        yield "hottest_c", f"is {site.hottest_c:g} °C, less than the yearly mean, {site.mean_c:g} °C"
    for field in ("ups_efficiency", "transformer_efficiency"):
        share = getattr(site, field)
        if share < LEAST_SUPPLY_EFFICIENCY:
            yield field, f"is {share:g}; the losses? {field} = {1 - share:g}"
