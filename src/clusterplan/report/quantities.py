"""Numbers as people read them: with units, by the unit in their name, and as parts of a total."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from clusterplan.errors import QuantityError
from clusterplan.report.blocks import Block
from clusterplan.units import (
    JOULES_PER_KWH,
    Measure,
    format_bandwidth,
    format_bytes,
    format_count,
    format_energy,
    format_fraction,
    format_mass_co2e,
    format_power,
    format_time,
    format_usd,
    format_water,
    parse,
    to_si,
    unit_of,
)

_currency: ContextVar[tuple[str, float]] = ContextVar("currency", default=("", 1.0))
"""Code of the currency of the document that is written, and what one USD costs in it; empty for USD."""


@contextmanager
def in_currency(inputs: Mapping[str, Any]) -> Iterator[None]:
    """Write amounts in the currency that a question asked for."""
    code = str(inputs.get("currency") or "USD")
    token = _currency.set(("", 1.0) if code == "USD" else (code, float(inputs["usd_rate"])))
    try:
        yield
    finally:
        _currency.reset(token)


def _in_currency(write: Callable[[float], str], value_usd: float) -> str:
    code, rate = _currency.get()
    return write(value_usd * rate).replace("$", f"{code} " if code else "$", 1)


def currency_sign() -> str:
    """What stands for the currency of the document in a head."""
    return _currency.get()[0] or "$"


def money(value_usd: float) -> str:
    """An amount in the currency of the document.

    Examples
    --------
    >>> money(152.8e6)
    '$153 M'
    >>> with in_currency({"currency": "EUR", "usd_rate": 0.92}):
    ...     money(100e6)
    'EUR 92.0 M'
    """
    return _in_currency(format_usd, value_usd)


_WRITERS: Sequence[tuple[str, Callable[[float], str]]] = (
    ("_bytes_per_s", format_bandwidth),
    ("_bytes", format_bytes),
    ("tokens_per_s_per_device", lambda value: f"{format_count(value)}/s"),
    ("tokens_per_s", lambda value: f"{format_count(value)}/s"),
    ("usd_per_million_tokens", lambda value: _in_currency(lambda usd: f"${usd:,.3f}", value)),
    ("usd_per_device_h", lambda value: money(value)),
    ("_flop_per_s", lambda value: f"{format_count(value)} FLOP/s"),
    ("_s", format_time),
    ("_w", format_power),
    ("_kwh", lambda value: format_energy(value * JOULES_PER_KWH)),
    ("_m3", format_water),
    ("_kg_co2e", format_mass_co2e),
    ("_usd", lambda value: money(value)),
    ("_fraction", format_fraction),
    ("_probability", format_fraction),
    ("mfu", format_fraction),
    ("hfu", format_fraction),
    ("mfu_causal", format_fraction),
    ("pue", lambda value: f"{value:.3f}"),
)


def said(name: str, value: Any) -> str:
    """A value as a report writes it, by the unit in its name.

    Examples
    --------
    >>> said("run.wall_s", 120 * 86400), said("energy.pue", 1.2), said("cost.total_usd", None)
    ('120 days', '1.200', '-')
    """
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, int | float):
        return str(value)
    last = name.rsplit(".", 1)[-1]
    for ending, write in _WRITERS:
        if last == ending or (ending[0] == "_" and last.endswith(ending)) or last.endswith(f"_{ending}"):
            return write(value)
    unit = unit_of(last)
    return f"{value:,.6g} {unit}".rstrip() if isinstance(value, float) and unit else format_count(value)


_BY_UNIT: Mapping[str, str] = {
    "s": "_s", "bytes": "_bytes", "W": "_w", "USD": "_usd", "kWh": "_kwh", "kg CO2e": "_kg_co2e", "m3": "_m3",
    "bytes/s": "_bytes_per_s", "FLOP/s": "_flop_per_s", "fraction": "_fraction",
}  # fmt: skip


def said_in(value: Any, unit: str) -> str:
    """A value with its unit, in a multiple that can be read."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        if unit in _BY_UNIT:
            return said(_BY_UNIT[unit], value)
        return f"{format_count(value) if isinstance(value, int) else f'{value:,.6g}'} {unit}".rstrip()
    return said("", value)


_DIMENSIONS: Mapping[str, Measure] = {
    "s": "time", "W": "power", "USD": "usd", "m3": "water", "kg CO2e": "carbon",
}  # fmt: skip


def said_at_least(value: Any, unit: str) -> str:
    """A value with its unit, rounded up: a limit of what is said lets it pass.

    Examples
    --------
    >>> said_in(140_370_000.0, "USD"), said_at_least(140_370_000.0, "USD")
    ('$140 M', '$141 M')
    """
    text = said_in(value, unit)
    if unit not in _DIMENSIONS or not isinstance(value, int | float):
        return text
    for thousandth in range(1, 12):
        try:
            if parse(text, _DIMENSIONS[unit]) >= value:
                return text
        except QuantityError:  # amounts in another currency
            return text
        text = said_in(value * (1 + thousandth / 1000), unit)
    return text


def apportioned(values: Sequence[float], units: int) -> list[int]:
    """Whole units for each value, in proportion, that add up to all of them (largest remainders).

    Examples
    --------
    >>> apportioned([1, 1, 1], 1000)
    [334, 333, 333]
    """
    whole = math.fsum(values)
    if whole <= 0:
        return [0] * len(values)
    exact = [value / whole * units for value in values]
    given = [math.floor(value) for value in exact]
    order = sorted(range(len(exact)), key=lambda n: given[n] - exact[n])
    for n in order[: units - sum(given)]:
        given[n] += 1
    return given


_LADDERS: Mapping[str, tuple[tuple[float, str], ...]] = {
    "_s": ((1, "s"), (1e-3, "ms"), (1e-6, "us")),
    "_bytes": ((2**30, "GiB"), (2**20, "MiB"), (1, "B")),
    "_usd": ((1e6, "M"), (1e3, "k"), (1, "")),
    "_w": ((1e6, "MW"), (1e3, "kW"), (1, "W")),
    "_kg_co2e": ((1e6, "kt CO2e"), (1e3, "t CO2e"), (1, "kg CO2e")),
}

DIGITS = 4
"""Digits of a total whose parts are shown."""


def tree(total: tuple[str, float], parts: Mapping[str, float | None], notes: Mapping[str, str] | None = None) -> Block:
    """A total with its parts; amounts and shares add up as they are printed.

    Parameters
    ----------
    total : (str, float)
        What the whole is called, and how much it is.
    parts : mapping
        Parts by field name, all in the same unit. What is 0 is left out.
    notes : mapping
        What is said beside a part.
    """
    label, whole = total
    shown = {name: value for name, value in parts.items() if value}
    ending = next((end for end in _LADDERS if all(name.endswith(end) for name in parts)), "_s")
    code, rate = _currency.get() if ending == "_usd" else ("", 1.0)
    sign = (f"{code} " if code else "$") if ending == "_usd" else ""
    whole *= rate
    size, unit = next((rung for rung in _LADDERS[ending] if whole >= rung[0]), _LADDERS[ending][-1])
    digits = max(0, DIGITS - 1 - math.floor(math.log10(whole / size))) if whole > 0 else 0

    def amount(value: float) -> str:
        return f"{sign}{value:,.{digits}f} {unit}".rstrip()

    # Parts are rounded together, so that they add up to the total on the page too.
    counts = apportioned(list(shown.values()), round(whole / size * 10**digits))
    shares = apportioned(list(shown.values()), 1000)
    rows = [(label, amount(whole / size), "", "")]
    for n, name in enumerate(shown):
        mark = "└─" if n == len(shown) - 1 else "├─"
        note = (notes or {}).get(name, "")
        rows.append((f"{mark} {label_of(name)}", amount(counts[n] / 10**digits), f"{shares[n] / 10:.1f} %", note))
    return Block(rows=tuple(rows), right=(1, 2))


_LABELS: Mapping[str, str] = {
    "tp_exposed_s": "tensor-parallel",
    "cp_exposed_s": "context-parallel",
    "ep_exposed_s": "expert-parallel",
    "pp_exposed_s": "pipeline messages",
    "dp_exposed_s": "data-parallel",
    "bubble_s": "pipeline bubble",
    "context_bytes": "runtime context",
    "idle_and_spare_w": "idle and spare",
    "fans_and_supplies_w": "fans and supplies",
    "scaleup_w": "scale-up switches",
    "host_w": "hosts",
    "rejection_w": "chillers, towers and dry coolers",
}

STEP_NOTES: Mapping[str, str] = {
    **dict.fromkeys(("tp_exposed_s", "cp_exposed_s", "ep_exposed_s", "pp_exposed_s", "dp_exposed_s"), "exposed"),
    "contention_s": "hidden traffic slows compute",
    "host_s": "waiting for the host to launch work",
    "jitter_s": "waiting for the slowest node",
}


def label_of(name: str) -> str:
    """What a part is called.

    Examples
    --------
    >>> label_of("tp_exposed_s"), label_of("optimizer_bytes")
    ('tensor-parallel', 'optimizer')
    """
    if name in _LABELS:
        return _LABELS[name]
    ending = next((end for end in sorted(_LADDERS, key=len, reverse=True) if name.endswith(end)), "")
    return name.removesuffix(ending).replace("_", " ")


def unit_at(path: str) -> str:
    """Unit of a figure whose path may end in the name of an entry: ``gemm_efficiency.bf16``."""
    for part in reversed(path.split(".")):
        if unit := unit_of(to_si(part, 1)[0]):
            return unit
    return ""


def as_written(key: str, value: float) -> str:
    """A figure in the unit that its file has it in.

    Examples
    --------
    >>> as_written("bf16_tflops", 989.4e12), as_written("gemm_efficiency.bf16", 0.817)
    ('989.4 TFLOP/s', '0.817')
    """
    part = next((part for part in reversed(key.split(".")) if to_si(part, 1.0)[1] != 1), key.split(".")[-1])
    unit = unit_of(part) or unit_at(key)
    return f"{value / to_si(part, 1.0)[1]:,.6g} {unit}".rstrip()
