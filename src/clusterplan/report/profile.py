"""Profiles: their figures with units and sources, and their names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Any

from clusterplan import __version__
from clusterplan.errors import ClusterplanError
from clusterplan.report.blocks import Block, Document
from clusterplan.report.plain import joined, plain
from clusterplan.report.quantities import as_written, said, unit_at
from clusterplan.trace import Figure, figures
from clusterplan.units import BITS_PER_BYTE, BYTES_PER_GIB, format_count

if TYPE_CHECKING:
    from clusterplan.hardware import Accelerator, Fabric, Stack, Storage, System
    from clusterplan.site import Cooling, Prices, Site
    from clusterplan.workload import Model

PROFILE = "clusterplan/profile-1"

PROFILES = "clusterplan/profiles-1"


def profile_document(folder: str, name: str, path: str, record: object) -> dict[str, Any]:
    """Every figure of a profile with its unit, kind and source, in SI units.

    Parameters
    ----------
    folder, name : str
        Where the profile is found.
    path : str
        File that it was read from.
    record : dataclass
        What it became.
    """
    return {
        "schema": PROFILE,
        "version": __version__,
        "folder": folder,
        "name": name,
        "path": path,
        "figures": list(_figures(record, "")),
    }


def _figures(value: Any, path: str) -> Iterator[dict[str, Any]]:
    """Values of a record; a figure with where it is from."""
    if is_dataclass(value):
        for entry in fields(value):
            yield from _figures(getattr(value, entry.name), f"{path}.{entry.name}" if path else entry.name)
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _figures(inner, f"{path}.{key}")
    elif isinstance(value, list | tuple) and any(is_dataclass(one) for one in value):
        for one in value:
            yield from _figures(one, f"{path}.{one.name}")
    elif value is not None:
        origin = value.origin if isinstance(value, Figure) else None
        yield {
            "key": path,
            "value": joined(value) if isinstance(value, list | tuple) else plain(value),
            "unit": unit_at(path) if isinstance(value, float) else "",
            "kind": origin.kind if origin else "",
            "source": origin.source if origin else "",
            "file_key": origin.key if origin else path,
        }


def profile_blocks(document: Document) -> Iterator[Block]:
    """Blocks of a profile."""
    yield Block(title=f"{document['folder']}/{document['name']}", rows=(("", document["path"]),), are_notes=True)
    plain = [one for one in document["figures"] if not one["kind"]]
    if plain:
        yield Block(rows=tuple((one["key"], said("", one["value"])) for one in plain))
    sources: dict[tuple[str, str], list[Document]] = {}
    for one in document["figures"]:
        if one["kind"]:
            sources.setdefault((one["kind"], one["source"]), []).append(one)
    for (kind, source), told in sources.items():
        rows = tuple((one["file_key"], as_written(one["file_key"], one["value"]), kind) for one in told)
        yield Block(rows=rows, right=(1,), caption=source)


def profiles_document(
    found: Iterable[tuple[str, str, object]], prices: Iterable[Prices] = (), *, text: str = "", sort: str = ""
) -> dict[str, Any]:
    """Profiles with their main figures.

    Parameters
    ----------
    found : iterable of tuple
        Folder and name of each profile, with its record, or with the error for which it cannot be read.
    prices : iterable of Prices
        Price lists, for whether there is a price of a system.
    text : str
        Only profiles that have it in their name or in a text of their row.
    sort : str
        Figure to sort each folder by, as ``tdp_w``; ``-tdp_w`` for the largest first.
    """
    priced = {name for one in prices for name in (*one.rent_usd_per_device_h, *one.system_usd)}
    rows = []
    for folder, name, record in found:
        row: dict[str, Any] = {"folder": folder, "name": name}
        if isinstance(record, ClusterplanError):
            row |= {"problem": str(record)}
        else:
            row |= {**plain(ROWS[folder](record)), **({"has_price": name in priced} if folder == "systems" else {})}
            row |= {"status": _status(record)}
        rows.append(row)
    if text:
        wanted = text.lower()
        rows = [row for row in rows if any(wanted in str(value).lower() for value in row.values() if _is_text(value))]
    return {"schema": PROFILES, "version": __version__, "profiles": _sorted(rows, sort)}


def _is_text(value: object) -> bool:
    return isinstance(value, str | list)


def _sorted(rows: list[dict[str, Any]], sort: str) -> list[dict[str, Any]]:
    """Rows by folder as they came, in each by one figure; those without it last."""
    key = sort.removeprefix("-")
    known = dict.fromkeys(name for row in rows for name in row if name not in {"folder", "problem"})
    if key and rows and key not in known:
        from clusterplan.reading import shown, unknown

        raise unknown(f"no figure in this list is called {shown(key)}", key, known, where="--sort")
    if not key:
        return rows
    folders = list(dict.fromkeys(row["folder"] for row in rows))
    having = [row for row in rows if row.get(key) is not None]
    having.sort(key=lambda row: row[key], reverse=sort.startswith("-"))
    ordered = having + [row for row in rows if row.get(key) is None]
    return sorted(ordered, key=lambda row: folders.index(row["folder"]))


def _status(record: object) -> str:
    """``announced`` or ``recalled`` if a figure is, announced first."""
    found = {figure.origin.status for figure in figures(record)}
    return next((word for word in ("announced", "recalled") if word in found), "")


def _accelerator_row(device: Accelerator) -> dict[str, Any]:
    return {
        "vendor": device.vendor,
        "peak_flop_per_s": device.bf16_flop_per_s or device.fp16_flop_per_s,
        "memory_bytes": device.memory_bytes,
        "memory_bytes_per_s": device.memory_bytes_per_s,
        "tdp_w": device.tdp_w,
        "is_measured": device.is_measured,
    }


def _system_row(system: System) -> dict[str, Any]:
    return {
        "vendor": system.vendor,
        "accelerator": system.accelerator,
        "devices": system.devices,
        "scaleup_devices": system.scaleup_devices,
        "rated_w": system.rated_w,
        "cooling": system.cooling,
    }


def _fabric_row(fabric: Fabric) -> dict[str, Any]:
    return {
        "technology": fabric.technology,
        "port_bytes_per_s": fabric.port_bytes_per_s,
        "planes": fabric.planes,
        "most_devices": fabric.tiers[-1].span_devices,
    }


def _stack_row(stack: Stack) -> dict[str, Any]:
    return {
        "software": stack.version,
        "formats": list(stack.formats),
        "step_error_fraction": stack.step_error_fraction,
        "moe_step_error_fraction": stack.moe_step_error_fraction,
    }


def _storage_row(storage: Storage) -> dict[str, Any]:
    return {
        "technology": storage.technology,
        "write_bytes_per_s": storage.write_bytes_per_s,
        "read_bytes_per_s": storage.read_bytes_per_s,
        "capacity_bytes": storage.capacity_bytes,
    }


def _model_row(model: Model) -> dict[str, Any]:
    from clusterplan import shapes

    counts = shapes.parameters(model)
    return {
        "parameters": counts.total,
        "active_parameters": counts.active,
        "layers": model.layers,
        "hidden": model.hidden,
    }


def _site_row(site: Site) -> dict[str, Any]:
    return {
        "region": site.region,
        "grid_kg_co2e_per_kwh": site.grid_kg_co2e_per_kwh,
        "usd_per_kwh": site.usd_per_kwh,
        "mean_c": site.mean_c,
    }


def _cooling_row(cooling: Cooling) -> dict[str, Any]:
    return {
        "air": cooling.air.rejection,
        "liquid": cooling.liquid.rejection if cooling.liquid else "",
        "rack_limit_w": cooling.rack_limit_w,
        "capex_factor": cooling.capex_factor,
    }


def _price_row(prices: Prices) -> dict[str, Any]:
    return {
        "date": prices.date,
        "currency": prices.currency,
        "basis": prices.basis,
        "systems": len({*prices.rent_usd_per_device_h, *prices.system_usd}),
    }


ROWS: Mapping[str, Callable[[Any], dict[str, Any]]] = {
    "accelerators": _accelerator_row,
    "systems": _system_row,
    "fabrics": _fabric_row,
    "stacks": _stack_row,
    "storage": _storage_row,
    "models": _model_row,
    "sites": _site_row,
    "cooling": _cooling_row,
    "prices": _price_row,
}
"""Main figures of a profile by folder."""


@dataclass(frozen=True, slots=True)
class _Column:
    """One column of a list in a terminal."""

    head: str
    key: str
    write: Callable[[Any], str] = str
    is_number: bool = True


def _in(unit: float, form: str = ",.0f") -> Callable[[float], str]:
    return lambda value: f"{value / unit:{form}}"


def _short(text: str) -> str:
    """A text that does not wrap beside its figures."""
    return text if len(text) <= SHORT else f"{text[: SHORT - 1].rstrip(' ,')}…"


SHORT = 32
"""Characters of a text in a list."""


def _yes(value: bool) -> str:
    return "yes" if value else "-"


COLUMNS: Mapping[str, Sequence[_Column]] = {
    "accelerators": (
        _Column("vendor", "vendor", is_number=False),
        _Column("TFLOPS", "peak_flop_per_s", _in(1e12)),
        _Column("GiB", "memory_bytes", _in(BYTES_PER_GIB)),
        _Column("W", "tdp_w", _in(1)),
        _Column("runs", "is_measured", _yes, is_number=False),
        _Column("", "status", is_number=False),
    ),
    "systems": (
        _Column("accelerator", "accelerator", is_number=False),
        _Column("devices", "devices", "{:,}".format),
        _Column("kW", "rated_w", _in(1e3, ",.1f")),
        _Column("price", "has_price", _yes, is_number=False),
        _Column("", "status", is_number=False),
    ),
    "fabrics": (
        _Column("Gbit/s", "port_bytes_per_s", _in(1e9 / BITS_PER_BYTE)),
        _Column("planes", "planes"),
        _Column("devices", "most_devices", "{:,}".format),
        _Column("", "status", is_number=False),
    ),
    "stacks": (
        _Column("dense", "step_error_fraction", lambda value: f"±{value:.0%}".replace("%", " %")),
        _Column("MoE", "moe_step_error_fraction", lambda value: f"±{value:.0%}".replace("%", " %")),
        _Column("software", "software", _short, is_number=False),
    ),
    "storage": (
        _Column("write GB/s", "write_bytes_per_s", _in(1e9)),
        _Column("read GB/s", "read_bytes_per_s", _in(1e9)),
        _Column("PB", "capacity_bytes", _in(1e15, ",.1f")),
        _Column("", "status", is_number=False),
    ),
    "models": (
        _Column("parameters", "parameters", format_count),
        _Column("active", "active_parameters", format_count),
        _Column("layers", "layers"),
        _Column("hidden", "hidden", "{:,}".format),
    ),
    "sites": (
        _Column("g/kWh", "grid_kg_co2e_per_kwh", _in(1e-3)),
        _Column("USD/MWh", "usd_per_kwh", _in(1e-3)),
        _Column("mean C", "mean_c", _in(1, ".1f")),
        _Column("region", "region", _short, is_number=False),
    ),
    "cooling": (
        _Column("air", "air", is_number=False),
        _Column("liquid", "liquid", lambda value: value or "-", is_number=False),
        _Column("kW/rack", "rack_limit_w", _in(1e3)),
    ),
    "prices": (
        _Column("date", "date", is_number=False),
        _Column("basis", "basis", is_number=False),
        _Column("systems", "systems"),
    ),
}
"""What a terminal shows of each folder beside the names."""


def profiles_blocks(document: Document) -> Iterator[Block]:
    """Blocks of a list of profiles."""
    folders: dict[str, list[Document]] = {}
    for row in document["profiles"]:
        folders.setdefault(row["folder"], []).append(row)
    for folder, rows in folders.items():
        read = [row for row in rows if "problem" not in row]
        columns = COLUMNS[folder]
        if read:
            yield Block(
                title=f"{folder} ({len(read)})",
                heads=("name", *(column.head for column in columns)),
                rows=tuple((row["name"], *(_cell(column, row[column.key]) for column in columns)) for row in read),
                right=tuple(number for number, column in enumerate(columns, 1) if column.is_number),
            )
        broken = tuple((row["name"], row["problem"]) for row in rows if "problem" in row)
        if broken:
            yield Block(title=f"{folder} that cannot be read", rows=broken, are_notes=True)
    if not folders:
        yield Block(rows=(("", "no profile"),), are_notes=True)


def _cell(column: _Column, value: Any) -> str:
    return "-" if value is None else column.write(value)
