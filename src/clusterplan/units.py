"""Units: keys of profiles to SI, quantities as people write them, and quantities said back.

Arithmetic is done in SI units. Other units exist in three places only, and all three are here: the suffix of a
profile key (:func:`to_si`), the text of an option (:func:`parse`), and the text of a report (:func:`say` and the
``format_*`` functions). A year is 8,766 h (365.25 days) and a month is a twelfth of it, 730.5 h.

Prices and intensities keep the unit that they are traded in: ``usd_per_kwh``, ``usd_per_device_h``,
``kg_co2e_per_kwh``, ``l_per_kwh``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from math import gcd
from typing import Any, Literal, NamedTuple, overload

from clusterplan.errors import QuantityError

SECONDS_PER_MINUTE = 60
SECONDS_PER_HOUR = 3_600
SECONDS_PER_DAY = 86_400
HOURS_PER_YEAR = 8_766
"""A Julian year, 365.25 days. [h]"""
SECONDS_PER_WEEK = 7 * SECONDS_PER_DAY
SECONDS_PER_YEAR = HOURS_PER_YEAR * SECONDS_PER_HOUR
SECONDS_PER_MONTH = SECONDS_PER_YEAR // 12
JOULES_PER_KWH = 3_600_000
BITS_PER_BYTE = 8
BYTES_PER_GIB = 2**30


# --- Keys of profiles -------------------------------------------------------------------------------------------


class Unit(NamedTuple):
    """A unit that the last words of a key may name."""

    dimension: str
    """What kind of quantity it measures."""
    si: str
    """Suffix that takes its place in the name of a record's field."""
    text: str
    """The unit as reports and JSON write it, empty if there is none."""
    times: int = 1
    """Multiply by this to get SI units,"""
    over: int = 1
    """and divide by this. Two whole numbers, so that 95 % is exactly 0.95."""


K, M, G, T, P, E = (1000**power for power in range(1, 7))
KI, MI, GI, TI, PI = (1024**power for power in range(1, 6))

SUFFIXES: Mapping[str, Unit] = {
    "bytes": Unit("memory", "bytes", "bytes"),
    "kb": Unit("memory", "bytes", "kB", K),
    "mb": Unit("memory", "bytes", "MB", M),
    "gb": Unit("memory", "bytes", "GB", G),
    "tb": Unit("memory", "bytes", "TB", T),
    "pb": Unit("memory", "bytes", "PB", P),
    "kib": Unit("memory", "bytes", "KiB", KI),
    "mib": Unit("memory", "bytes", "MiB", MI),
    "gib": Unit("memory", "bytes", "GiB", GI),
    "tib": Unit("memory", "bytes", "TiB", TI),
    "pib": Unit("memory", "bytes", "PiB", PI),
    "bytes_per_s": Unit("bandwidth", "bytes_per_s", "bytes/s"),
    "mb_per_s": Unit("bandwidth", "bytes_per_s", "MB/s", M),
    "gb_per_s": Unit("bandwidth", "bytes_per_s", "GB/s", G),
    "tb_per_s": Unit("bandwidth", "bytes_per_s", "TB/s", T),
    "mib_per_s": Unit("bandwidth", "bytes_per_s", "MiB/s", MI),
    "gib_per_s": Unit("bandwidth", "bytes_per_s", "GiB/s", GI),
    "tib_per_s": Unit("bandwidth", "bytes_per_s", "TiB/s", TI),
    "mbit_per_s": Unit("bandwidth", "bytes_per_s", "Mbit/s", M, BITS_PER_BYTE),
    "gbit_per_s": Unit("bandwidth", "bytes_per_s", "Gbit/s", G, BITS_PER_BYTE),
    "tbit_per_s": Unit("bandwidth", "bytes_per_s", "Tbit/s", T, BITS_PER_BYTE),
    "flop": Unit("work", "flop", "FLOP"),
    "gflop": Unit("work", "flop", "GFLOP", G),
    "tflop": Unit("work", "flop", "TFLOP", T),
    "pflop": Unit("work", "flop", "PFLOP", P),
    "flop_per_s": Unit("compute rate", "flop_per_s", "FLOP/s"),
    "gflops": Unit("compute rate", "flop_per_s", "GFLOP/s", G),
    "tflops": Unit("compute rate", "flop_per_s", "TFLOP/s", T),
    "pflops": Unit("compute rate", "flop_per_s", "PFLOP/s", P),
    "eflops": Unit("compute rate", "flop_per_s", "EFLOP/s", E),
    "tops": Unit("compute rate", "flop_per_s", "TOP/s", T),  # integer operations are counted like FLOP
    "pops": Unit("compute rate", "flop_per_s", "POP/s", P),
    "w": Unit("power", "w", "W"),
    "kw": Unit("power", "w", "kW", K),
    "mw": Unit("power", "w", "MW", M),  # keys are lower case: mega, never milli
    "gw": Unit("power", "w", "GW", G),
    "j": Unit("energy", "j", "J"),
    "kwh": Unit("energy", "j", "kWh", JOULES_PER_KWH),
    "mwh": Unit("energy", "j", "MWh", JOULES_PER_KWH * K),
    "gwh": Unit("energy", "j", "GWh", JOULES_PER_KWH * M),
    "s": Unit("time", "s", "s"),
    "ns": Unit("time", "s", "ns", 1, G),
    "us": Unit("time", "s", "us", 1, M),
    "ms": Unit("time", "s", "ms", 1, K),
    "min": Unit("time", "s", "min", SECONDS_PER_MINUTE),  # minutes; a minimum is called "least" or "lowest"
    "minutes": Unit("time", "s", "min", SECONDS_PER_MINUTE),
    "h": Unit("time", "s", "h", SECONDS_PER_HOUR),
    "hours": Unit("time", "s", "h", SECONDS_PER_HOUR),
    "days": Unit("time", "s", "days", SECONDS_PER_DAY),
    "weeks": Unit("time", "s", "weeks", SECONDS_PER_WEEK),
    "months": Unit("time", "s", "months", SECONDS_PER_MONTH),
    "years": Unit("time", "s", "years", SECONDS_PER_YEAR),
    "hz": Unit("frequency", "hz", "Hz"),
    "mhz": Unit("frequency", "hz", "MHz", M),
    "ghz": Unit("frequency", "hz", "GHz", G),
    "fraction": Unit("fraction", "fraction", ""),
    "pct": Unit("fraction", "fraction", "%", 1, 100),
    "efficiency": Unit("efficiency", "efficiency", ""),
    "efficiency_pct": Unit("efficiency", "efficiency", "%", 1, 100),
    "c": Unit("temperature", "c", "°C"),
    "k": Unit("temperature difference", "k", "K"),
    "top_k": Unit("count", "top_k", ""),  # experts per token, not kelvin
    "pa": Unit("pressure", "pa", "Pa"),
    "kpa": Unit("pressure", "pa", "kPa", K),
    "m3": Unit("volume", "m3", "m3"),
    "l_per_kwh": Unit("water per energy", "l_per_kwh", "L/kWh"),
    "kg": Unit("mass", "kg", "kg"),
    "kg_co2e": Unit("mass of CO2e", "kg_co2e", "kg CO2e"),
    "t_co2e": Unit("mass of CO2e", "kg_co2e", "t CO2e", K),
    "kg_co2e_per_kwh": Unit("carbon per energy", "kg_co2e_per_kwh", "kg CO2e/kWh"),
    "g_co2e_per_kwh": Unit("carbon per energy", "kg_co2e_per_kwh", "g CO2e/kWh", 1, K),
    "usd": Unit("money", "usd", "USD"),
    "usd_per_kwh": Unit("price of energy", "usd_per_kwh", "USD/kWh"),
    "usd_per_mwh": Unit("price of energy", "usd_per_kwh", "USD/MWh", 1, K),
    "usd_per_device_h": Unit("rent", "usd_per_device_h", "USD/device-h"),
    "usd_per_w": Unit("price of power", "usd_per_w", "USD/W"),
    "usd_per_kw": Unit("price of power", "usd_per_w", "USD/kW", 1, K),
    "usd_per_mw": Unit("price of power", "usd_per_w", "USD/MW", 1, M),
    "usd_per_kw_month": Unit("rent of power", "usd_per_kw_month", "USD/kW-month"),
    "usd_per_kw_year": Unit("rent of power", "usd_per_kw_month", "USD/kW-year", 1, 12),
    "usd_per_m3": Unit("price of water", "usd_per_m3", "USD/m3"),
    "usd_per_tb": Unit("price of storage", "usd_per_tb", "USD/TB"),
    "usd_per_gb": Unit("price of storage", "usd_per_tb", "USD/GB", K),
    "usd_per_tb_month": Unit("rent of storage", "usd_per_tb_month", "USD/TB-month"),
    "usd_per_gb_month": Unit("rent of storage", "usd_per_tb_month", "USD/GB-month", K),
    "usd_per_kg_co2e": Unit("price of carbon", "usd_per_kg_co2e", "USD/kg CO2e"),
    "usd_per_t_co2e": Unit("price of carbon", "usd_per_kg_co2e", "USD/t CO2e", 1, K),
    "per_s": Unit("rate", "per_s", "1/s"),
    "w_per_s": Unit("change of power", "w_per_s", "W/s"),
    "tokens_per_s": Unit("rate of tokens", "tokens_per_s", "tokens/s"),
    "per_device_s": Unit("rate per device", "per_device_s", "1/device-s"),
    "per_device_h": Unit("rate per device", "per_device_s", "1/device-h", 1, SECONDS_PER_HOUR),
    "per_device_year": Unit("rate per device", "per_device_s", "1/device-year", 1, SECONDS_PER_YEAR),
    "per_node_s": Unit("rate per node", "per_node_s", "1/node-s"),
    "per_node_day": Unit("rate per node", "per_node_s", "1/node-day", 1, SECONDS_PER_DAY),
    "per_node_year": Unit("rate per node", "per_node_s", "1/node-year", 1, SECONDS_PER_YEAR),
    "per_link_s": Unit("rate per link", "per_link_s", "1/link-s"),
    "per_link_month": Unit("rate per link", "per_link_s", "1/link-month", 1, SECONDS_PER_MONTH),
    "per_link_year": Unit("rate per link", "per_link_s", "1/link-year", 1, SECONDS_PER_YEAR),
    "per_switch_s": Unit("rate per switch", "per_switch_s", "1/switch-s"),
    "per_switch_month": Unit("rate per switch", "per_switch_s", "1/switch-month", 1, SECONDS_PER_MONTH),
    "per_switch_year": Unit("rate per switch", "per_switch_s", "1/switch-year", 1, SECONDS_PER_YEAR),
    "per_1000_node_days": Unit("rate per node", "per_node_s", "1/(1000 node-days)", 1, 1000 * SECONDS_PER_DAY),
}
"""Every unit that a key may end in."""


class _Reading(NamedTuple):
    """What a key says about its number."""

    field: str
    """Name of the field in SI units."""
    text: str
    times: int
    over: int
    unclear: bool = False
    """Whether the unit may belong below a line that is not known here, as in ``failures_per_rack_h``."""


def _suffix(words: list[str]) -> str:
    """Longest unit that ends the words; empty if none does."""
    ends = ("_".join(words[first:]) for first in range(len(words)))
    return next((end for end in ends if end in SUFFIXES), "")


@lru_cache(maxsize=4096)  # profiles repeat a few hundred keys
def _read(key: str) -> _Reading | None:
    words = key.split("_")
    suffix = _suffix(words)
    if suffix == key and "_" not in suffix:
        return None  # "min" or "k" alone names no quantity in that unit
    if suffix:
        unit, stem = SUFFIXES[suffix], words[: -len(suffix.split("_"))]
        if stem[-1:] != ["per"]:
            unclear = "per" in stem and "per" not in suffix.split("_")
            return _Reading("_".join([*stem, unit.si]), unit.text, unit.times, unit.over, unclear)
        below, below_words, words = unit, ["byte" if unit.si == "bytes" else unit.si], stem[:-1]
    elif "per" in words:
        line = len(words) - 1 - words[::-1].index("per")
        below_words, words = words[line + 1 :], words[:line]
        below = Unit("", "", " ".join(below_words))
        if not _suffix(words):
            return None
    else:
        return None
    above_suffix = _suffix(words)
    above = SUFFIXES.get(above_suffix, Unit("", "", "1"))
    above_words = [*words[: -len(above_suffix.split("_"))], above.si] if above_suffix else words
    below_text = f"({below.text})" if "/" in below.text else below.text
    times, over = above.times * below.over, above.over * below.times
    shared = gcd(times, over)
    field = "_".join([*above_words, "per", *below_words])
    return _Reading(field, f"{above.text or 1}/{below_text}", times // shared, over // shared)


def to_si(key: str, value: Any, *, where: str = "") -> tuple[str, Any]:
    """Name and value of a profile entry in SI units.

    The longest unit that ends the key counts: ``hbm_gb_per_s`` is in GB/s, not in seconds. A unit may be followed
    by ``per`` and a noun (``rated_kw_per_rack``) or by ``per`` and another unit (``w_per_gb_per_s``). A key that is
    nothing but a one-word unit (``min``, ``k``) and a key without a unit are returned as they are.

    Parameters
    ----------
    key : str
        Key as the profile has it, lower case. ``mw`` is megawatt.
    value : float or list of float
        Number in the unit of the key. What is no number keeps its value, for the record to refuse by its type.
    where : str
        File and table that hold it, for the message of an error.

    Returns
    -------
    tuple of str and float
        Name of the record's field, and the number in SI units.

    Raises
    ------
    QuantityError
        If it is unclear whether to multiply or to divide: ``latency_per_hop_us``, ``failures_per_rack_h``.

    Examples
    --------
    >>> to_si("hbm_gb_per_s", 3350)
    ('hbm_bytes_per_s', 3350000000000)
    >>> to_si("scaleout_gbit_per_s", 400)
    ('scaleout_bytes_per_s', 50000000000.0)
    >>> to_si("failures_per_node_day", 0.5), to_si("overlap_pct", 95)
    (('failures_per_node_s', 5.787037037037037e-06), ('overlap_fraction', 0.95))
    >>> to_si("layers", 128)
    ('layers', 128)
    """
    reading = _read(key)
    if reading is None or reading.times == reading.over:
        return key, value
    if reading.unclear:
        raise QuantityError(
            f"the unit of {key} is not known: it may be a rate; put the quantity first and one known unit last, "
            f"as in hop_latency_us or price_usd_per_kwh",
            where=where,
        )
    try:
        return reading.field, _scale(value, reading.times, reading.over)
    except OverflowError:
        raise QuantityError(f"{key} is too large to compute with", where=where) from None


def _scale(value: Any, times: int, over: int) -> Any:
    if isinstance(value, list):
        return [_scale(each, times, over) for each in value]
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value  # not multiplied: "80" times a thousand million is a very long text
    scaled = value * times if over == 1 else value * times / over
    float(scaled)  # a whole number may be too large for one
    return scaled


def unit_of(field_name: str) -> str:
    """Unit of a field as JSON and reports write it; empty for counts, fractions and other plain numbers.

    Examples
    --------
    >>> unit_of("peak_bytes"), unit_of("mean_facility_w"), unit_of("fp8_flop_per_s"), unit_of("layers")
    ('bytes', 'W', 'FLOP/s', '')
    >>> unit_of("usd_per_million_tokens"), unit_of("failures_per_device_s")
    ('USD/million tokens', '1/device-s')
    >>> unit_of("w_per_bytes_per_s"), unit_of("interest_fraction_per_year")
    ('W/(bytes/s)', '1/year')
    """
    reading = _read(field_name)
    return reading.text if reading else ""


# --- Quantities as people write them ----------------------------------------------------------------------------

Count = Literal["tokens", "parameters", "devices", "count"]
Measure = Literal[
    "usd",
    "usd_per_device_hour",
    "usd_per_kwh",
    "time",
    "power",
    "energy",
    "memory",
    "bandwidth",
    "fraction",
    "water",
    "carbon",
]
Dimension = Count | Measure

LONGEST_TEXT = 100
"""Assumed: no quantity takes more characters than this."""
LARGEST_EXPONENT = 400
"""Beyond it nothing is a double, and the power of ten would take long to write out."""
LARGEST_COUNT = 2**53
"""The largest count up to which doubles hold every whole number."""

Ratio = tuple[int, int]


class _Spelling(NamedTuple):
    """How quantities of one dimension are written."""

    noun: str
    """What it is, for messages: "cannot read '90' as a length of time"."""
    forms: str
    """Examples of the known forms."""
    most: int
    """Assumed: nothing planned is larger; keeps products of quantities finite. [SI]"""
    least: Ratio
    """Assumed: nothing planned is smaller; keeps quotients finite. [SI]"""
    units: Mapping[str, Ratio]
    """Units with their size in SI units; upper or lower case does not matter."""
    exact_units: Mapping[str, Ratio] = {}
    """Units that upper and lower case tell apart; looked up first."""
    refused_units: Mapping[str, tuple[str, ...]] = {}
    """Spellings that can be misread, with better ones."""
    suggested_units: tuple[str, ...] = ()
    """Units to suggest where a number alone will not do; empty if it will do."""
    whole: bool = False
    """Whether only whole numbers make sense."""
    dollars: bool = False
    """Whether a currency sign may stand before or after the number."""


def _times(*sizes: tuple[str, int]) -> dict[str, Ratio]:
    return {spelling: (size, 1) for names, size in sizes for spelling in names.split()}


_THOUSANDS = _times(
    ("k thousand", K), ("M mn million", M), ("B bn billion", G), ("T tn trillion", T)
)  # both cases: a count or a sum of money has no milli
_GIGA = {"G": (G, 1)}
_DECIMAL = {"": 1, "k": K, "M": M, "G": G, "T": T, "P": P}


def _counts(noun: str, forms: str, most: int = LARGEST_COUNT) -> _Spelling:
    return _Spelling(noun, forms, most, (1, 1), _THOUSANDS, _GIGA, whole=True)


def _bits_or_bytes() -> dict[str, tuple[str, ...]]:
    """Spellings of a bandwidth that some read as bits and others as bytes."""
    refused: dict[str, tuple[str, ...]] = {}
    for prefix in "KMGTP":
        right = (f"{prefix}bit/s", f"{prefix}B/s")
        for small in (prefix, prefix.lower()):
            for wrong in ("b/s", "bps", "ib/s"):
                refused[small + wrong] = right
        refused[f"{prefix.lower()}B/s"] = refused[f"{prefix}Bps"] = right
        refused[prefix] = refused[prefix.lower()] = right
    return refused


_PER_DEVICE = ("device", "gpu", "accelerator", "chip", "tpu", "npu")
_RENT_PERIODS = {
    **dict.fromkeys(("h", "hr", "hour"), (1, 1)),
    **dict.fromkeys(("day", "d"), (1, 24)),
    "month": (2, 1461),
    "year": (1, HOURS_PER_YEAR),
}
_RENTS = {
    f"/{device}{period}": ratio
    for period, ratio in _RENT_PERIODS.items()
    for device in ("", *(name + joint for name in _PER_DEVICE for joint in ("-", "/", " ", "")))
}

_SPELLINGS: Mapping[Dimension, _Spelling] = {
    "tokens": _counts("a number of tokens", "15T, 15_000B, 15e12, 15 trillion, 15,000,000, 20k (k = 1,000)"),
    "parameters": _counts("a number of parameters", "405B, 1T, 70e9, 7 billion"),
    "devices": _counts("a number of devices", "16384, 16,384, 16k (k = 1,000), 1e5", 100 * M),
    "count": _counts("a whole number", "8, 2048, 2,048, 16M"),
    "usd": _Spelling(
        noun="a sum in US dollars",
        forms="80M, $80M, USD 80M, 80 million, 1.5B, $950,000",
        most=P,
        least=(1, 100),
        units=_THOUSANDS,
        exact_units=_GIGA,
        dollars=True,
    ),
    "usd_per_device_hour": _Spelling(
        noun="a price in US dollars per device and hour",
        forms="$2.10/h, 2.10, USD 2.10/h, $2.10/GPU-hour, $1500/month (730.5 h)",
        most=M,
        least=(1, M),
        units=_RENTS,
        dollars=True,
    ),
    "usd_per_kwh": _Spelling(
        noun="a price in US dollars per kWh",
        forms="$0.08/kWh, 0.08, USD 80/MWh",
        most=K,
        least=(1, M),
        units={"/kWh": (1, 1), "/MWh": (1, K)},
        dollars=True,
    ),
    "time": _Spelling(
        noun="a length of time",
        forms="90d, 12 weeks, 36h, 45min, 30s, 3 months (730.5 h each), 1 year (8,766 h)",
        most=1000 * SECONDS_PER_YEAR,
        least=(1, G),
        units=_times(
            ("s sec secs second seconds", 1),
            ("min mins minute minutes", SECONDS_PER_MINUTE),
            ("h hr hrs hour hours", SECONDS_PER_HOUR),
            ("d day days", SECONDS_PER_DAY),
            ("w wk wks week weeks", SECONDS_PER_WEEK),
            ("mo month months", SECONDS_PER_MONTH),
            ("y yr yrs year years", SECONDS_PER_YEAR),
        ),
        exact_units={"ns": (1, G), "us": (1, M), "µs": (1, M), "μs": (1, M), "ms": (1, K)},
        refused_units={"m": ("min", " months"), "M": (" months", "min"), "Ms": ("ms",), "MS": ("ms",)},
        suggested_units=("d", "h"),
    ),
    "power": _Spelling(
        noun="a power",
        forms="50MW, 50000 kW, 1.2 GW, 700 W",
        most=T,
        least=(1, K),
        units=_times(("W watt watts", 1), ("kW", K), ("MW megawatt megawatts", M), ("GW gigawatt gigawatts", G)),
        refused_units={"mW": ("MW",)},
        suggested_units=("MW", "kW"),
    ),
    "energy": _Spelling(
        noun="an energy",
        forms="500 MWh, 20 GWh, 1200 kWh, 3.6e6 J",
        most=K * E,
        least=(1, K),
        units={
            **_times(("Wh", SECONDS_PER_HOUR), ("kWh", JOULES_PER_KWH), ("MWh", JOULES_PER_KWH * K)),
            **_times(("GWh", JOULES_PER_KWH * M), ("TWh", JOULES_PER_KWH * G)),
        },
        exact_units=_times(("J", 1), ("kJ", K), ("MJ", M), ("GJ", G), ("TJ", T)),
        refused_units={"mWh": ("MWh",), "mJ": ("MJ",)},
        suggested_units=("MWh", "GWh"),
    ),
    "memory": _Spelling(
        noun="an amount of memory",
        forms="80GiB, 80 GB, 640000 MiB, 1.5TB, 65536 bytes",
        most=K * E,
        least=(1, 1),
        units={
            **_times(("byte bytes", 1), ("kB", K), ("MB", M), ("GB", G), ("TB", T), ("PB", P)),
            **_times(("KiB", KI), ("MiB", MI), ("GiB", GI), ("TiB", TI), ("PiB", PI)),
        },
        exact_units={"B": (1, 1)},
        refused_units={
            "b": (" bytes",),
            **{f"{prefix}b": (f"{prefix}B", f"{prefix}iB") for prefix in "KMGTP"},
            **{f"{prefix}ib": (f"{prefix}iB",) for prefix in "KMGTP"},
            **{letter: (f"{prefix}iB", f"{prefix}B") for prefix in "KMGTP" for letter in (prefix, prefix.lower())},
        },
        suggested_units=("GiB", "GB"),
    ),
    "bandwidth": _Spelling(
        noun="a bandwidth",
        forms="50GB/s, 400Gbit/s, 3.35TB/s, 46 GiB/s",
        most=E,
        least=(1, 1),
        units={
            **{f"{prefix}bit/s": (size, BITS_PER_BYTE) for prefix, size in _DECIMAL.items()},
            **{f"{prefix}byte/s": (size, 1) for prefix, size in _DECIMAL.items()},
            "bytes/s": (1, 1),
        },
        exact_units={
            **_times(("B/s", 1), ("kB/s KB/s", K), ("MB/s", M), ("GB/s", G), ("TB/s", T), ("PB/s", P)),
            **_times(("KiB/s", KI), ("MiB/s", MI), ("GiB/s", GI), ("TiB/s", TI), ("PiB/s", PI)),
        },
        refused_units={"b/s": ("bit/s", "B/s"), **_bits_or_bytes()},
        suggested_units=("GB/s", "Gbit/s"),
    ),
    "fraction": _Spelling(
        noun="a fraction",
        forms="95%, 0.95",
        most=1,
        least=(1, G),
        units={"%": (1, 100), "pct": (1, 100), "percent": (1, 100), "per cent": (1, 100)},
    ),
    "water": _Spelling(
        noun="a volume of water",
        forms="50000m3, 50,000 m³, 50 ML, 20000 L",
        most=T,
        least=(1, K),
        units={**_times(("m3 m³ kL", 1), ("GL", M)), "L": (1, K)},
        exact_units=_times(("ML", K)),
        refused_units={"ml": ("ML", " L"), "Ml": ("ML", " L"), "mL": ("ML", " L"), "gal": (" m3", " L")},
        suggested_units=("m3", "ML"),
    ),
    "carbon": _Spelling(
        noun="a mass of CO2e",
        forms="20kt, 20,000 t, 20 kt CO2e, 900 kg",
        most=P,
        least=(1, K),
        units={
            f"{unit}{gas}": (size, 1)
            for unit, size in (("kg", 1), ("t", K), ("tonnes", K), ("kt", M))
            for gas in ("", "CO2e", " CO2e", "CO2eq", " CO2eq")
        },
        exact_units={f"Mt{gas}": (G, 1) for gas in ("", "CO2e", " CO2e", "CO2eq", " CO2eq")},
        refused_units={"mt": ("Mt", " t"), "MT": ("Mt", " t"), "tons": (" t",), "ton": (" t",)},
        suggested_units=("kt", "t"),
    ),
}

_DOLLARS = "sums of money are in US dollars"
_OTHER_MONEY = re.compile("[€£¥₹]|EUR|GBP|CNY|RMB|JPY", re.IGNORECASE)
_NUMBER = re.compile(
    r"""(?P<sign>[+-]?)
    (?P<whole>[1-9][0-9]{0,2}(?:,[0-9]{3})+ | [1-9][0-9]{0,2}(?:_[0-9]{3})+ | [0-9]*)
    (?:\.(?P<part>[0-9]+))?
    (?:[eE](?P<exponent>[+-]?[0-9]+))?""",
    re.VERBOSE,
)
_CURRENCY_BEFORE = re.compile(r"^(US\$|USD|\$)\s*", re.IGNORECASE)
_CURRENCY_AFTER = re.compile(r"(?<![a-z])(USD|US dollars?|dollars?)(?![a-z])|\$", re.IGNORECASE)
_NOUNS: Mapping[Dimension, str] = {
    "tokens": "tokens?",
    "parameters": "parameters?|params?",
    "devices": "devices?|accelerators?|chips?|[gtn]pus?",
}


def _quoted(text: str) -> str:
    """The text in one printable line, cut if long."""
    shown = text if len(text) <= 40 else text[:37] + "..."
    return repr(shown)


@overload
def parse(text: str, dimension: Count, *, where: str = "") -> int: ...
@overload
def parse(text: str, dimension: Measure, *, where: str = "") -> float: ...
def parse(text: str, dimension: Dimension, *, where: str = "") -> float:
    """Quantity that a person wrote, in SI units.

    Commas and underscores may separate groups of three digits. Counts and sums of money may end in k, M, B or T
    (1,000 to 10¹²) in either case. Counts, fractions and money may be a number alone; other quantities need a
    unit. A spelling with two readings is refused: ``m`` (minutes, months), ``Gb/s`` (bits, bytes), ``80G``.

    Parameters
    ----------
    text : str
        What was written.
    dimension : str
        What it should be; one of :data:`Dimension`.
    where : str
        Option, or file and key, that holds it, for the message of an error.

    Returns
    -------
    int or float
        A whole number for counts, else SI units; prices in USD per device and hour, or per kWh. More than 0.

    Raises
    ------
    QuantityError
        If the text is not such a quantity, in one line that says what was read and which forms are known.

    Examples
    --------
    >>> parse("15.6T", "tokens"), parse("15_000B", "tokens")
    (15600000000000, 15000000000000)
    >>> parse("12 weeks", "time") / SECONDS_PER_DAY
    84.0
    >>> parse("400Gbit/s", "bandwidth"), parse("$2.10/h", "usd_per_device_hour")
    (50000000000.0, 2.1)
    """
    spelling = _SPELLINGS[dimension]

    def refuse(reason: str, *nearest: str) -> QuantityError:
        message = f"cannot read {_quoted(text)} as {spelling.noun}: {reason}; known forms: {spelling.forms}"
        return QuantityError(message, where=where, nearest=nearest)

    if len(text) > LONGEST_TEXT:
        raise refuse(f"it has {len(text):,} characters")
    rest = text.strip()
    if not rest:
        raise refuse("it is empty")
    if spelling.dollars:
        rest = _CURRENCY_BEFORE.sub("", rest)
    match = _NUMBER.match(rest)
    assert match is not None  # every group may be empty
    if not (match["whole"] or match["part"]):
        raise refuse(
            _DOLLARS if spelling.dollars and _OTHER_MONEY.search(rest) else "it does not begin with a finite number"
        )
    written, rest = match[0], rest[match.end() :].strip()
    if rest[:1].isdigit() or rest[:1] in {",", ".", "_"}:
        raise refuse("commas or underscores separate groups of three digits, a point begins the decimals")

    exponent = int(match["exponent"] or 0)
    digits = int(re.sub("[,_]", "", match["whole"]) + (match["part"] or ""))
    if abs(exponent) > LARGEST_EXPONENT:
        raise refuse("its exponent is out of range")
    if match["sign"] == "-" or digits == 0:
        raise refuse("it must be more than 0")

    if spelling.dollars:
        rest = _CURRENCY_AFTER.sub("", rest, count=1).strip()
    rest = re.sub(r"\s*/\s*|\s+per\s+(?!cent)|^per\s+(?!cent)", "/", " ".join(rest.split()))
    if nouns := _NOUNS.get(dimension):
        rest = re.sub(rf"(?i)(?<![a-z])({nouns})$", "", rest).rstrip()
    size = _size(rest, spelling)
    if size is None:
        raise refuse(*_what_is_wrong(written, rest, spelling))

    decimals = exponent - len(match["part"] or "")
    above: int = digits * size[0] * 10 ** max(decimals, 0)
    below: int = size[1] * 10 ** max(-decimals, 0)
    if beyond := _beyond(above, below, spelling, dimension, f"{written}%" if not rest else ""):
        raise refuse(*beyond)
    if not spelling.whole:
        return above / below
    if above % below:
        raise refuse("it is not a whole number")
    return above // below


def _beyond(above: int, below: int, spelling: _Spelling, dimension: Dimension, as_percent: str) -> tuple[str, ...]:
    """Why a quantity is too large or too small, then what may have been meant; empty if it is neither."""
    if above > spelling.most * below:
        if dimension != "fraction":
            return (f"it is more than {say(spelling.most, dimension)}, the most that is planned for",)
        return ("it is more than 1", *([as_percent] if as_percent and above <= 100 * below else []))
    least, over = spelling.least
    if above * over < least * below:
        return (f"it is less than {say(least if over == 1 else least / over, dimension)}",)
    return ()


def _size(unit: str, spelling: _Spelling) -> Ratio | None:
    """Size of a unit as it was written; None if it is unknown or has two readings."""
    if unit in spelling.exact_units:
        return spelling.exact_units[unit]
    if unit in spelling.refused_units:
        return None
    if not unit and not spelling.suggested_units:
        return (1, 1)
    return next((size for known, size in spelling.units.items() if known.lower() == unit.lower()), None)


def _what_is_wrong(number: str, unit: str, spelling: _Spelling) -> tuple[str, ...]:
    """Why a unit was refused, then what may have been meant."""
    if not unit:
        return ("a number alone needs its unit", *(number + right for right in spelling.suggested_units))
    if unit in spelling.refused_units:
        return (f"{_quoted(unit)} can be misread", *(number + right for right in spelling.refused_units[unit]))
    if spelling.dollars and _OTHER_MONEY.search(unit):
        return (_DOLLARS,)
    from difflib import get_close_matches  # only a mistake pays for the import

    known = [*spelling.exact_units, *spelling.units]
    near = get_close_matches(unit, known, n=1, cutoff=0.7)
    return (f"the unit {_quoted(unit)} is not known", *(f"{number} {right}".replace(" /", "/") for right in near))


def parse_range(text: str, *, where: str = "", what: str = "devices") -> tuple[int, int]:
    """Least and largest number of devices, or of what else is counted.

    Written as ``1024:16384``, ``1k:16k``, or one number for both.

    Examples
    --------
    >>> parse_range("1k:16k"), parse_range("16,384")
    ((1000, 16000), (16384, 16384))
    """
    ends = text.split(":") if len(text) <= LONGEST_TEXT else [text]
    if len(ends) > 2:
        raise QuantityError(
            f"cannot read {_quoted(text)} as a range of {what}: it has {len(ends)} parts; "
            f"known forms: 16384, 1024:16384, 1k:16k",
            where=where,
        )
    if len(ends) == 2 and bool(ends[0].strip()) != bool(ends[1].strip()):
        known, lacks = (ends[0], "largest") if ends[0].strip() else (ends[1], "smallest")
        parse(known, "devices" if what == "devices" else "count", where=where)  # what is there must be right first
        closed = f"{known.strip()}:1M" if lacks == "largest" else f"1:{known.strip()}"
        raise QuantityError(
            f"cannot read {_quoted(text)} as a range of {what}: its {lacks} number is missing",
            where=where,
            nearest=(closed,),
        )
    low, high = (parse(end, "devices" if what == "devices" else "count", where=where) for end in (ends[0], ends[-1]))
    if low > high:
        raise QuantityError(
            f"cannot read {_quoted(text)} as a range of {what}: it ends before it begins",
            where=where,
            nearest=(f"{high}:{low}",),
        )
    return low, high


# --- Quantities said back ---------------------------------------------------------------------------------------

Steps = tuple[tuple[float, str], ...]

_COUNT_STEPS: Steps = ((1, ""), (M, "M"), (G, "B"), (T, "T"))
_BYTE_STEPS: Steps = ((1, "B"), (KI, "KiB"), (MI, "MiB"), (GI, "GiB"), (TI, "TiB"), (PI, "PiB"))
_BANDWIDTH_STEPS: Steps = ((1, "B/s"), (K, "kB/s"), (M, "MB/s"), (G, "GB/s"), (T, "TB/s"), (P, "PB/s"))
_TIME_STEPS: Steps = (
    (1 / G, "ns"),
    (1 / M, "us"),
    (1 / K, "ms"),
    (1, "s"),
    (SECONDS_PER_MINUTE, "min"),
    (SECONDS_PER_HOUR, "h"),
    (SECONDS_PER_DAY, "days"),
    (SECONDS_PER_YEAR, "years"),
)
_TIME_STARTS = (0, 1 / M, 1 / K, 1, 60, 3_600, 2 * SECONDS_PER_DAY, 1000 * SECONDS_PER_DAY)
"""A unit of time is used from here on: 36 h rather than 1.5 days, 900 days rather than 2.46 years."""
_POWER_STEPS: Steps = ((1, "W"), (K, "kW"), (M, "MW"), (G, "GW"))
_ENERGY_STEPS: Steps = (
    (1, "J"),
    (SECONDS_PER_HOUR, "Wh"),
    (JOULES_PER_KWH, "kWh"),
    (JOULES_PER_KWH * K, "MWh"),
    (JOULES_PER_KWH * M, "GWh"),
    (JOULES_PER_KWH * G, "TWh"),
)
_MASS_STEPS: Steps = ((1, "kg CO2e"), (K, "t CO2e"), (M, "kt CO2e"), (G, "Mt CO2e"))
_USD_STEPS: Steps = ((1, ""), (K, "k"), (M, "M"), (G, "B"))


def _three_digits(number: float) -> str:
    """A number that is not negative, to three significant digits, without an exponent where that can be read."""
    rounded = f"{number:.2e}"
    exponent = int(rounded.split("e")[1]) if "e" in rounded else 0
    if number == 0 or "e" not in rounded:
        return f"{number:g}"
    if not -4 <= exponent < 15:
        return rounded
    return f"{float(rounded):,.{max(2 - exponent, 0)}f}"


def _without_zeros(text: str, keep: int = 0) -> str:
    """The same text without zeros that say nothing: 50.0 MW is 50 MW. ``keep`` decimals stay."""
    text = re.sub(rf"(\.[0-9]{{{keep}}}[0-9]*?)0+(?![0-9e])", r"\1", text)
    return re.sub(r"\.(?![0-9])", "", text)


def _scaled(value: float, steps: Steps, starts: tuple[float, ...] = ()) -> str:
    """Number and unit, the unit chosen by the number as it is printed: 999.9 kW are 1.00 MW."""
    starts = starts or tuple(size for size, _ in steps)
    chosen = 0
    for (size, _), start in zip(steps, starts[1:], strict=False):
        if not (value >= start or float(f"{value / size:.2e}") >= start / size):
            break
        chosen += 1
    size, unit = steps[chosen]
    return f"{_three_digits((max(value, starts[chosen]) if chosen else value) / size)} {unit}".rstrip()


def _said(value: float, write: Callable[[float], str]) -> str:
    return f"-{write(-value)}" if value < 0 else write(value)


def format_count(value: float, noun: str = "") -> str:
    """A count: whole up to a million, then in M, B, T to three digits.

    Examples
    --------
    >>> format_count(16384, "devices"), format_count(405_853_388_800), format_count(419.27, "interruptions")
    ('16,384 devices', '406B', '419 interruptions')
    >>> format_count(1, "tokens")
    '1 token'
    """

    def write(count: float) -> str:
        if count < M and count == int(count):
            return f"{int(count):,}"
        number, _, letter = _scaled(count, _COUNT_STEPS).partition(" ")
        return _without_zeros(number) + letter

    text = _said(value, write)
    return f"{text} {noun.removesuffix('s') if text == '1' else noun}".rstrip()


def format_bytes(value_bytes: float) -> str:
    """An amount of memory.

    Examples
    --------
    >>> format_bytes(71.2 * 2**30)
    '71.2 GiB'
    """
    return _said(value_bytes, lambda value: _scaled(value, _BYTE_STEPS))


def format_bandwidth(value_bytes_per_s: float) -> str:
    """A bandwidth, in bytes.

    Examples
    --------
    >>> format_bandwidth(3.35e12)
    '3.35 TB/s'
    """
    return _said(value_bytes_per_s, lambda value: _scaled(value, _BANDWIDTH_STEPS))


def format_time(value_s: float) -> str:
    """A length of time: hours up to 48, then days up to 1,000.

    Examples
    --------
    >>> format_time(8), format_time(36 * 3600), format_time(120 * 86400)
    ('8.00 s', '36.0 h', '120 days')
    """
    return _said(value_s, lambda value: _scaled(value, _TIME_STEPS, _TIME_STARTS) if value else "0 s")


def format_power(value_w: float) -> str:
    """A power.

    Examples
    --------
    >>> format_power(12.4e6)
    '12.4 MW'
    """
    return _said(value_w, lambda value: _scaled(value, _POWER_STEPS))


def format_energy(value_j: float) -> str:
    """An energy; joules below a watt-hour.

    Examples
    --------
    >>> format_energy(21.6e12)
    '6.00 GWh'
    """
    return _said(value_j, lambda value: _scaled(value, _ENERGY_STEPS))


def format_mass_co2e(value_kg: float) -> str:
    """A mass of greenhouse gases as carbon dioxide.

    Examples
    --------
    >>> format_mass_co2e(8_930_000)
    '8.93 kt CO2e'
    """
    return _said(value_kg, lambda value: _scaled(value, _MASS_STEPS))


def format_water(value_m3: float) -> str:
    """A volume of water.

    Examples
    --------
    >>> format_water(12_345)
    '12,300 m³'
    """
    return _said(value_m3, lambda value: f"{_three_digits(value)} m³")


def format_usd(value_usd: float) -> str:
    """A sum of money.

    Examples
    --------
    >>> format_usd(51.3e6), format_usd(2.1), format_usd(-1500)
    ('$51.3 M', '$2.10', '-$1.50 k')
    """
    return _said(value_usd, lambda value: f"${_scaled(value, _USD_STEPS)}")


def format_fraction(value_fraction: float) -> str:
    """A fraction in per cent.

    Examples
    --------
    >>> format_fraction(0.4123)
    '41.2 %'
    """
    return _said(value_fraction, lambda value: f"{_three_digits(100 * value)} %")


LEAST_ODDS = 0.001
"""Odds below this are not told to three digits."""


def format_probability(probability: float) -> str:
    """A probability in per cent; one that is next to none is only said to be that.

    Examples
    --------
    >>> format_probability(0.58), format_probability(2e-12)
    ('58.0 %', 'less than 0.1 %')
    """
    return format_fraction(probability) if probability >= LEAST_ODDS else "less than 0.1 %"


_FORMATS: Mapping[str, tuple[Callable[[float], str], str]] = {
    "usd": (format_usd, "USD"),
    "usd_per_device_hour": (lambda value: f"{format_usd(value)}/device-h", "USD/device-h"),
    "usd_per_kwh": (lambda value: f"{format_usd(value)}/kWh", "USD/kWh"),
    "time": (format_time, "s"),
    "power": (format_power, "W"),
    "energy": (format_energy, "J"),
    "memory": (format_bytes, "bytes"),
    "bandwidth": (format_bandwidth, "bytes/s"),
    "fraction": (format_fraction, ""),
    "water": (format_water, "m3"),
    "carbon": (format_mass_co2e, "kg"),
}


def say(value: float, dimension: Dimension) -> str:
    """Echo of a quantity that was asked for: to be read at a glance, and in full where that is not the same.

    Examples
    --------
    >>> say(15_000_000_000_000, "tokens"), say(16_384, "devices")
    ('15T tokens (15,000,000,000,000)', '16,384 devices')
    >>> say(90 * SECONDS_PER_DAY, "time"), say(50e6, "power"), say(12_345_000, "power")
    ('90 days', '50 MW', '12.3 MW (12,345,000 W)')
    """
    if dimension in {"tokens", "parameters", "devices", "count"}:
        noun = "" if dimension == "count" else dimension
        if dimension == "devices" or value < M:
            text = f"{value:,.0f}"
            return f"{text} {noun.removesuffix('s') if text == '1' else noun}".rstrip()
        return f"{format_count(value, noun)} ({value:,.0f})"
    write, unit = _FORMATS[dimension]
    short = write(value)
    if dimension.startswith("usd"):
        short = re.sub(r"\.0+ ", " ", _without_zeros(short, keep=2))  # $80 M, but $2.10
    else:
        short = _without_zeros(short)
    return short if _reads_as(short, dimension, value) else f"{short} ({f'{value:,.15g} {unit}'.rstrip()})"


def _reads_as(text: str, dimension: Dimension, value: float) -> bool:
    try:
        return abs(parse(text, dimension) - value) <= 1e-12 * value
    except QuantityError:  # beyond what is planned for, so that it has to be said in full
        return False
