"""A question with everything that it holds, and the records that answer it once nothing is left open.

A :class:`Scenario` is what a user gave, by options, by a TOML file, or both. :func:`resolve` loads the profiles that
it names, takes defaults for what it leaves open, and notes each default that it took. Saved with those notes, the
scenario gives the same records again, whatever the defaults have become.
"""

from __future__ import annotations

import dataclasses
import datetime
import json
import math
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast, get_args

from clusterplan import plausible
from clusterplan.catalog import Catalog, check_devices
from clusterplan.errors import ClusterplanError, ProfileError
from clusterplan.files import LARGEST_FILE_BYTES, printable, read_text
from clusterplan.hardware import (
    UNMEASURED_ERROR,
    UNMEASURED_ERROR_FRACTION,
    Accelerator,
    Fabric,
    Machine,
    Placement,
    Schedule,
    Sharding,
    Stack,
    Storage,
    System,
)
from clusterplan.layout import OFFLOAD, Recomputation
from clusterplan.reading import Defaults, Record, change, parse_toml, read, shown, unknown
from clusterplan.site import Cooling, Operations, Prices, Site
from clusterplan.trace import GIVEN, NOT_READ, Figure, figures
from clusterplan.units import Dimension, parse, parse_range, to_si, unit_of
from clusterplan.workload import SAME_FORMATS, Format, Job, Model

Objective = Literal["wall", "cost", "energy", "carbon", "water", "devices"]
"""What a plan is chosen by: the least of it."""

AUTO = "auto"
"""A clock that is chosen."""

USD = "USD"
"""Currency of all price lists."""

Value = str | int | float


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumed:
    """A value that nobody gave."""

    key: str
    """Field of the scenario; ``fabric.SYSTEM`` and ``stack.SYSTEM`` for what a system brings along."""
    value: Value
    unit: str
    why: str
    """Where the default comes from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A question as it was asked; None or empty is what it leaves open."""

    model: str = ""
    """Name of a profile, path of a ``config.json``, or ``-`` for one on standard input."""
    model_text: str = ""
    """The ``config.json`` that came on standard input."""
    hardware: tuple[str, ...] = ()
    """Names of systems."""
    tokens: int | None = None
    """Tokens that the whole run sees."""
    deadline_s: float | None = None
    budget_usd: float | None = None
    power_w: float | None = None
    """Most that the site may draw at the meter. [W]"""
    water_m3: float | None = None
    """Most water that the run may take on site; that of power plants does not count. [m3]"""
    carbon_kg: float | None = None
    """Most greenhouse gas of the run, electricity (location-based) and making. [kg CO2e]"""
    devices: tuple[int, int] | None = None
    """Fewest and most devices."""
    objective: Objective | None = None
    confidence: float | None = None
    """Probability with which the deadline is to be met."""
    precision: str | None = None
    """A format, or another name of one (:data:`~clusterplan.workload.SAME_FORMATS`)."""
    seq_len: int | None = None
    global_batch: int | None = None
    """Sequences of one optimizer step."""
    batch_low: int | None = None
    """Fewest sequences where a range of batches is given, of which ``global_batch`` is the upper end."""
    batch_fixed: bool = True
    """Whether a given ``global_batch`` is exact, not a target."""
    batch_ramp: str | None = None
    """Batch of the first step, and tokens over which it grows, as :func:`parse_ramp` reads them."""
    long_context: str | None = None
    """Tokens of a sequence at the end of the run, and tokens of that end, as :func:`parse_long_context` reads them."""
    eval_fraction: float | None = None
    """Share of the time at work in which the model is evaluated."""
    allow: tuple[str, ...] = ()
    """Techniques beyond the stack's defaults that may be used."""
    site: str | None = None
    cooling: str | None = None
    prices: str | None = None
    storage: str | None = None
    fabric: str | None = None
    stack: str | None = None
    tp: int | None = None
    pp: int | None = None
    vpp: int | None = None
    cp: int | None = None
    ep: int | None = None
    etp: int | None = None
    dp: int | None = None
    micro_batch: int | None = None
    recompute: str | None = None
    """``none``, ``selective``, ``block``, ``full``, or with a number of layers as :class:`Recomputation` reads it."""
    sharding: Sharding | None = None
    schedule: Schedule | None = None
    offload: str | None = None
    """One of :data:`~clusterplan.layout.OFFLOAD`."""
    placement: Placement | None = None
    shard_group: int | None = None
    """With ``hsdp``, replicas that share their states."""
    beside: str | None = None
    """A layout of somebody's, as :func:`parse_layout` reads it, of which the rank among the candidates is asked."""
    clock: float | str | None = None
    """Clock of the devices over the one that they hold in training, or ``auto``."""
    cap_w: float | None = None
    """Most that a device may draw, which sets its clock. [W]"""
    currency: str | None = None
    """ISO 4217 code of the currency in which amounts are shown."""
    usd_rate: float | None = None
    """What one USD costs in it."""
    rate_date: str | None = None
    """Day of that rate, as 2026-11-30."""
    sets: Mapping[str, str] = field(default_factory=dict)
    """Changed figures of profiles, as ``site.usd_per_kwh``, with the text that was given."""
    assumed: tuple[Assumed, ...] = ()
    """Defaults that were taken when the scenario was saved."""


LAYOUT = ("tp", "pp", "vpp", "cp", "ep", "etp", "dp", "micro_batch", "recompute", "sharding", "schedule",
          "offload", "placement", "shard_group")  # fmt: skip
"""Fields that a file has in its ``[layout]`` table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """A question of which nothing is left open."""

    scenario: Scenario
    """The question, with the defaults that were taken."""
    model: Model
    job: Job
    hardware: tuple[Machine, ...]
    site: Site
    """With ``power_w`` as the question limits it."""
    cooling: Cooling
    prices: Prices
    storage: Storage
    operations: Operations
    devices: tuple[int, int]
    confidence: float
    warnings: tuple[str, ...]
    """What the description of the model left open."""
    long_slowdown: float = 1.0
    """Time of a token of the long-context phase over that of the rest, beyond the ratio of their FLOP; a search that
    knows it better says so."""
    coolings: tuple[Cooling, ...] = ()
    """Cooling designs that are known, where the one that is taken does not carry all machines."""

    @property
    def assumed(self) -> tuple[Assumed, ...]:
        """Each default that was taken."""
        return self.scenario.assumed


# --- Reading ----------------------------------------------------------------------------------------------------

_QUANTITIES: Mapping[str, Dimension] = {
    "tokens": "tokens",
    "deadline_s": "time",
    "budget_usd": "usd",
    "power_w": "power",
    "water_m3": "water",
    "carbon_kg": "carbon",
    "confidence": "fraction",
    "eval_fraction": "fraction",
    "seq_len": "count",
    "global_batch": "count",
    "batch_low": "count",
    "cap_w": "power",
    **dict.fromkeys((*LAYOUT[:8], "shard_group"), "count"),
}
_CHOICES: Mapping[str, tuple[str, ...]] = {
    "objective": get_args(Objective),
    "precision": get_args(Format),
    "sharding": get_args(Sharding),
    "schedule": get_args(Schedule),
    "offload": OFFLOAD,
    "placement": get_args(Placement),
}
_LISTS = ("hardware", "allow")
_ALLOWED = tuple(
    dict.fromkeys(
        ["borderline", "offload", *(w for words in (Format, Sharding, Schedule, Placement) for w in get_args(words))]
    )
)
"""What a search may be allowed beyond defaults."""
_SHORT = {
    "deadline": "deadline_s", "budget": "budget_usd", "power": "power_w", "water": "water_m3", "carbon": "carbon_kg",
    "cap": "cap_w", "layout": "beside",
}  # fmt: skip
"""Keys without a unit, whose value names it: ``deadline = "90d"``."""
_UNITS = {"tokens": "tokens", "seq_len": "tokens", "global_batch": "sequences", "devices": "devices"}
"""Units of values that have none in their name."""
_TOP = tuple(entry.name for entry in dataclasses.fields(Scenario) if entry.name not in {*LAYOUT, "sets", "assumed"})

Where = Callable[[str], str]
"""How a message calls the place of a key."""


def option(key: str) -> str:
    """Command-line option of a key.

    Examples
    --------
    >>> option("seq_len"), option("deadline_s")
    ('--seq-len', '--deadline')
    """
    short = {name: stem for stem, name in _SHORT.items()} | {"sets": "--set", "model": "MODEL"}
    name = short.get(key, key)
    return printable(name) if not name.islower() or name.startswith("--") else printable(f"--{name.replace('_', '-')}")


def read_scenario(path: Path) -> Scenario:
    """Scenario of a TOML file."""
    return parse_scenario(read_text(path), printable(path))


def parse_scenario(text: str, where: str = "scenario") -> Scenario:
    """Scenario of a TOML text.

    Keys are the fields of :class:`Scenario`. Quantities are texts as people write them (``deadline = "90d"``) or
    numbers whose key has the unit (``deadline_days = 90``). The cut of the model stands in ``[layout]``, changed
    figures in ``[set]``.

    Parameters
    ----------
    text : str
        The document.
    where : str
        Name of the file, for messages.
    """
    content = parse_toml(text, where, ClusterplanError)
    layout = _table(content.pop("layout", {}), f"{where}: [layout]")
    sets = _table(content.pop("set", {}), f"{where}: [set]")
    assumed = content.pop("assumed", [])
    values = _entries(content, (*_TOP, "layout", "set", "assumed"), lambda key: f"{where}: {printable(key)}")
    values |= _entries(layout, LAYOUT, lambda key: f"{where}: [layout] {printable(key)}")
    if sets:
        values["sets"] = _changes(sets, f"{where}: [set]")
    if not isinstance(assumed, list):
        raise ClusterplanError("must be an array of tables, each headed [[assumed]]", where=f"{where}: assumed")
    values["assumed"] = tuple(
        _assumption(_table(entry, f"{where}: [assumed {number}]"), f"{where}: [assumed {number}]")
        for number, entry in enumerate(assumed, 1)
    )
    return Scenario(**values)


def override(base: Scenario, given: Mapping[str, Any], where: Where = option) -> Scenario:
    """Scenario with some of its fields given anew.

    Parameters
    ----------
    base : Scenario
        What holds otherwise; ``Scenario()`` leaves everything open.
    given : mapping
        Values by field, texts as people write them or numbers; ``sets`` is a mapping, or texts ``key=value``. None
        and empty are not given.
    where : callable
        How a message calls the place of a key; its option unless told otherwise.
    """
    given = {key: value for key, value in given.items() if value is not None and value != () and value != []}
    sets = _changes(given.pop("sets", {}), where("sets"))
    values = _entries(given, (*_TOP, *LAYOUT), where)
    stale = {key for key in values if values[key] != getattr(base, key)}
    if stale & {"model", "model_text"}:
        stale |= {"tokens", "seq_len"}
        values.setdefault("model_text", "")
    changed = {text.split(".")[0] for text in sets}
    stale |= {"tokens", "seq_len"} if "model" in changed else set()
    stale |= {"fabric", "stack"} if "system" in changed else set()
    if "seq_len" in stale:
        stale.add("global_batch")
    if "global_batch" in values:
        values.setdefault("batch_fixed", True)
        values.setdefault("batch_low", None)
    if "currency" in stale:
        values = {"usd_rate": None, "rate_date": None} | values
    if "clock" in values or "cap_w" in values:
        values = {"clock": None, "cap_w": None} | values
    kept = tuple(one for one in base.assumed if one.key.split(".")[0] not in stale)
    return dataclasses.replace(base, **values, sets={**base.sets, **sets}, assumed=kept)


def _entries(content: Mapping[str, Any], known: Iterable[str], where: Where) -> dict[str, Any]:
    """Fields of a scenario from the keys of a table."""
    values: dict[str, Any] = {}
    for key, value in content.items():
        name = _SHORT.get(key, key)
        if name not in known:
            try:
                name = to_si(key, 1)[0]
            except ClusterplanError:
                name = ""
        if name not in known:
            place = where(key)
            raise _unknown_key(key, {*known, *_SHORT} if "model" in known else known, place)
        if name in values:
            raise ClusterplanError(f"{name} is given twice", where=where(key))
        if name == "global_batch" and isinstance(value, str) and ":" in value:
            low, high = parse_range(value, where=where(key), what="sequences")
            values |= {"batch_low": low, "global_batch": high, "batch_fixed": False}
        else:
            values[name] = _entry(name, key, value, where(key))
    return values


def _unknown_key(key: str, known: Iterable[str], where: str) -> ClusterplanError:
    found = unknown("unknown key", key, known)
    return ClusterplanError(found.message, where=where, nearest=found.nearest)


def _entry(name: str, key: str, value: Any, where: str) -> Any:
    """Value of one field."""
    if name in _QUANTITIES:
        return _quantity(value, name, key, where)
    if name == "devices":
        return _range(value, where)
    if name == "batch_fixed":
        if not isinstance(value, bool):
            raise _wrong("true or false", value, where)
        return value
    if name in _LISTS:
        parts = value.split(",") if isinstance(value, str) else value
        if not isinstance(parts, list | tuple):
            raise _wrong("a text or a list of texts", value, where)
        texts = [_text(part, where).strip() for part in parts]
        for text in texts:
            if name == "allow" and text and text not in _ALLOWED:
                raise unknown(f"no technique is called {shown(text)}", text, _ALLOWED, where=where)
        return tuple(dict.fromkeys(text for text in texts if text))
    if name == "clock":
        return AUTO if value == AUTO else _share(value, where)
    if name == "usd_rate":
        return _rate(value, where)
    if name == "model_text":
        if not isinstance(value, str):
            raise _wrong("a text", value, where)
        return value
    text = _text(value, where)
    if name == "batch_ramp":
        parse_ramp(text, where)
    if name == "long_context":
        parse_long_context(text, where)
    if name == "beside":
        parse_layout(text, where)
    if name == "currency" and not re.fullmatch("[A-Z]{3}", text):
        raise _wrong("an ISO 4217 code of three capital letters, as EUR", value, where)
    if name == "rate_date":
        _day(text, where)
    if name == "recompute":
        try:
            Recomputation.parse(text)
        except ClusterplanError as problem:
            raise ClusterplanError(problem.message, where=where, nearest=problem.nearest) from None
    if name == "precision":
        text = text.lower()
        if text in SAME_FORMATS:
            return text
    if name in _CHOICES and text not in _CHOICES[name]:
        found = unknown(f"must be {', '.join(_CHOICES[name])}, not {shown(text)}", text, _CHOICES[name])
        raise ClusterplanError(found.message.split(";")[0], where=where, nearest=found.nearest)
    return text


_LAYOUT_AXES = {"mb": "micro_batch", **{name: name for name in ("tp", "pp", "vpp", "cp", "ep", "etp", "dp")}}
"""Axes of a layout in short, as reports name it."""


def parse_layout(text: str, where: str = "") -> dict[str, Any]:
    """Fields of a scenario from a layout in short, with methods after commas.

    Examples
    --------
    >>> parse_layout("tp8-pp16-dp64-mb1,recompute=full")
    {'tp': 8, 'pp': 16, 'dp': 64, 'micro_batch': 1, 'recompute': 'full'}
    """
    axes, *methods = (part.strip() for part in text.split(","))
    values: dict[str, Any] = {}
    for part in axes.split("-"):
        found = re.fullmatch("([a-z]+)([0-9]{1,9})", part)
        if found is None or found[1] not in _LAYOUT_AXES or int(found[2]) < 1:
            known = ", ".join(_LAYOUT_AXES)
            raise ClusterplanError(f"must be axes ({known}) as tp8-pp16-dp64-mb1, not {shown(part)}", where=where)
        values[_LAYOUT_AXES[found[1]]] = int(found[2])
    for part in methods:
        name, equals, value = part.partition("=")
        if name not in LAYOUT[8:] or not equals:
            raise ClusterplanError(f"must be a method as recompute=full, not {shown(part)}", where=where)
        values[name] = _entry(name, name, value, where)
    return values


def spelled_out(scenario: Scenario, given: Iterable[str] = ()) -> Scenario:
    """Scenario whose layout in short, if it has one, is that to compute: it takes the place of any other.

    Parameters
    ----------
    scenario : Scenario
        A question.
    given : iterable of str
        Fields of the layout that are given beside the one in short; those that it has not hold too.
    """
    if scenario.beside is None:
        return scenario
    axes = parse_layout(scenario.beside, option("beside"))
    twice = [name for name in given if name in axes]
    if twice:
        text = f"{shown(scenario.beside)} has {twice[0]}, which {option(twice[0])} gives, too; leave one out"
        raise ClusterplanError(text, where=option("beside"))
    values: dict[str, Any] = dict.fromkeys(LAYOUT) | {name: getattr(scenario, name) for name in given} | axes
    return dataclasses.replace(scenario, beside=None, **values)


def parse_ramp(text: str, where: str = "") -> tuple[int, float]:
    """Sequences of the first step, and tokens over which the batch grows to its size.

    Examples
    --------
    >>> parse_ramp("256:100B")
    (256, 100000000000.0)
    """
    first, colon, tokens = text.partition(":")
    if not colon:
        raise ClusterplanError(f"must be SEQUENCES:TOKENS, as 256:100B, not {shown(text)}", where=where)
    ramp = parse(first, "count", where=where), float(parse(tokens, "tokens", where=where))
    if ramp[0] < 1:
        raise ClusterplanError("a step has at least one sequence", where=where)
    return ramp


def parse_long_context(text: str, where: str = "") -> tuple[int, float]:
    """Tokens of a sequence in the long-context phase, and tokens of the run that are trained in it.

    Examples
    --------
    >>> parse_long_context("131072:800B")
    (131072, 800000000000.0)
    """
    length, colon, tokens = text.partition(":")
    if not colon:
        raise ClusterplanError(f"must be SEQUENCE:TOKENS, as 131072:800B, not {shown(text)}", where=where)
    return parse(length, "count", where=where), float(parse(tokens, "tokens", where=where))


def _share(value: Any, where: str) -> float:
    """A clock as a share of the full one."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise _wrong(f"a share of the full clock, or {AUTO}", value, where)
    try:
        share = parse(str(value), "fraction", where=where)
    except ClusterplanError as problem:
        raise ClusterplanError(f"{problem.message}; or {AUTO}", where=where, nearest=problem.nearest) from None
    if not 0 < share <= 1:
        raise _wrong("more than 0 and at most 1", value, where)
    return share


def _rate(value: Any, where: str) -> float:
    """What one USD costs in another currency."""
    try:
        rate = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        rate = math.nan
    if not 0 < rate < math.inf:
        raise _wrong("what one USD costs in the currency, as 0.92", value, where)
    return rate


def _day(text: str, where: str) -> datetime.date:
    try:
        return datetime.date.fromisoformat(text)
    except ValueError:
        raise _wrong("a day, as 2026-11-30", text, where) from None


def _quantity(value: Any, name: str, key: str, where: str) -> float:
    dimension = _QUANTITIES[name]
    if isinstance(value, str):
        return parse(value, dimension, where=where)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _wrong("a quantity", value, where)
    if not math.isfinite(value):
        raise _wrong("finite", value, where)
    number = value if key in _SHORT else to_si(key, value)[1]
    unit = "" if key in _SHORT else unit_of(name)
    return parse(f"{number} {unit}".strip(), dimension, where=where)


def _range(value: Any, where: str) -> tuple[int, int]:
    if isinstance(value, list | tuple) and len(value) == 2:
        return parse_range(":".join(_count_text(part, where) for part in value), where=where)
    return parse_range(_count_text(value, where), where=where)


def _count_text(value: Any, where: str) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise _wrong("a number of devices, or two", value, where)
    return str(value)


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise _wrong("a text", value, where)
    if not value.strip():
        raise ClusterplanError("is empty", where=where)
    if not value.isprintable():
        raise ClusterplanError(f"is not one line of printable text: {value[:40]!a}", where=where)
    return value


def _table(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _wrong("a table", value, where)
    return value


def _changes(given: Any, where: str) -> dict[str, str]:
    """Changed figures from a mapping, or from texts ``key=value``."""
    if isinstance(given, Mapping):
        return dict(_settings(given, "", where))
    if not isinstance(given, list | tuple):
        raise _wrong("a list of texts", given, where)
    return dict(_setting(text, where) for text in given)


def _settings(table: Mapping[str, Any], prefix: str, where: str) -> Iterable[tuple[str, str]]:
    """Changed figures of a table, parts of keys joined by points."""
    for name, value in table.items():
        key = f"{prefix}{name}"
        if isinstance(value, dict):
            yield from _settings(value, f"{key}.", where)
        else:
            yield _text(key, where), _text(value if isinstance(value, str) else _toml(value), f"{where} {key}")


def _toml(value: Any) -> str:
    """A TOML value as it may stand after ``--set key=``."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{', '.join(json.dumps(part) if isinstance(part, str) else _toml(part) for part in value)}]"
    return str(value)


def _setting(text: Any, where: str) -> tuple[str, str]:
    key, equals, value = _text(text, where).partition("=")
    if not (equals and key.strip() and value.strip()):
        raise ClusterplanError(f"must be key=value, as site.usd_per_kwh=0.05, not {shown(text)}", where=where)
    return _text(key.strip(), where), _text(value.strip(), f"{where} {key.strip()}")


def _assumption(entry: dict[str, Any], where: str) -> Assumed:
    parts = ("key", "value", "why")
    for name in entry:
        if name not in parts:
            raise _unknown_key(name, parts, f"{where} {printable(name)}")
    if missing := [name for name in parts if name not in entry]:
        raise ClusterplanError(f"has no {' and no '.join(missing)}", where=where)
    key = _text(entry["key"], f"{where} key")
    name = key.split(".")[0]
    if name not in _ASSUMED or ("." in key) != (name in {"fabric", "stack"}):
        raise _unknown_key(key, _ASSUMED, f"{where} key")
    value = _entry(name, name, entry["value"], f"{where} value")
    if name == "devices":
        value = f"{value[0]}:{value[1]}"
    why = _text(entry["why"], f"{where} why")
    return Assumed(key=key, value=value, unit=_UNITS.get(name, ""), why=why)


_ASSUMED = (
    "hardware", "tokens", "seq_len", "global_batch", "precision", "devices", "confidence",
    "site", "cooling", "prices", "storage", "fabric", "stack",
)  # fmt: skip
"""What has a default."""


def _wrong(right: str, value: Any, where: str) -> ClusterplanError:
    return ClusterplanError(f"must be {right}, not {shown(value)}", where=where)


# --- Writing ----------------------------------------------------------------------------------------------------


def inputs(scenario: Scenario) -> dict[str, Any]:
    """What a scenario holds, as TOML and JSON have it: only what was given, and what was assumed."""
    content: dict[str, Any] = {}
    layout: dict[str, Any] = {}
    for entry in dataclasses.fields(scenario):
        value = getattr(scenario, entry.name)
        is_open = value is None or value in ((), "", {}) or (entry.name == "batch_fixed" and value)
        if not is_open and entry.name not in {"sets", "assumed"}:
            (layout if entry.name in LAYOUT else content)[entry.name] = (
                list(value) if isinstance(value, tuple) else value
            )
    if layout:
        content["layout"] = layout
    if scenario.sets:
        content["set"] = dict(scenario.sets)
    if scenario.assumed:
        content["assumed"] = [{"key": one.key, "value": one.value, "why": one.why} for one in scenario.assumed]
    return content


def dump(scenario: Scenario) -> str:
    """TOML text that :func:`parse_scenario` turns into an equal scenario."""
    import tomli_w

    return tomli_w.dumps(inputs(scenario))


# --- Resolving --------------------------------------------------------------------------------------------------

SETS: Mapping[str, type] = {
    "model": Model,
    "system": System,
    "accelerator": Accelerator,
    "fabric": Fabric,
    "stack": Stack,
    "storage": Storage,
    "site": Site,
    "cooling": Cooling,
    "prices": Prices,
    "operations": Operations,
}
"""Records whose figures can be changed, by the first word of the key."""


@dataclass
class _Taken:
    """Defaults as they are taken; those of a saved scenario go first."""

    defaults: Defaults
    before: Mapping[str, Assumed]
    taken: dict[str, Assumed] = field(default_factory=dict)

    def default(self, key: str, value: Value, why: str = "") -> Any:
        """Note that a default is taken, and return it."""
        name = key.split(".")[0]
        source = self.defaults.sources.get(name, "")
        new = Assumed(key=key, value=value, unit=_UNITS.get(name, ""), why=" ".join((why or source).split()))
        self.taken[key] = self.before.get(key, new)
        return self.taken[key].value


def resolve(scenario: Scenario, catalog: Catalog, active_parameters: Callable[[Model], float]) -> Resolved:
    """Records of everything that a question needs.

    Parameters
    ----------
    scenario : Scenario
        The question.
    catalog : Catalog
        Where profiles are found.
    active_parameters : callable
        Parameters of a model that each token uses, for the default of the tokens.
    """
    defaults = catalog.defaults()
    notes = _Taken(defaults, {one.key: one for one in scenario.assumed})
    _check_sets(scenario)
    text, model, warnings = load_model(scenario, catalog)
    model = _set(model, "model", scenario)
    names, taken = _asked_systems(scenario, catalog, notes)
    hardware = tuple(_hardware(name, scenario, catalog, notes, is_moe=model.is_moe) for name in names)
    scenario = dataclasses.replace(scenario, hardware=names if scenario.hardware else ())
    job = _job(scenario, model, notes, active_parameters)
    _check_batch(scenario, job)
    _check_long_context(scenario, job)
    _check_machines(scenario, job, hardware)
    scenario = _in_currency(scenario)

    def named(record: type[Record], key: str) -> Record:
        name = getattr(scenario, key) or notes.default(key, getattr(defaults, key))
        return _set(catalog.load(record, name), key, scenario)

    site = _with_power(named(Site, "site"), scenario.power_w)
    devices = scenario.devices or parse_range(
        notes.default("devices", f"{defaults.devices_low}:{defaults.devices_high}", defaults.sources["devices_low"])
    )
    if scenario.eval_fraction is not None and scenario.eval_fraction >= 1:
        raise ClusterplanError("no time is left for training", where=option("eval_fraction"))
    confidence = _confidence(scenario, notes)
    cooling, prices, storage = named(Cooling, "cooling"), named(Prices, "prices"), named(Storage, "storage")
    resolved = Resolved(
        model=model,
        job=job,
        hardware=hardware,
        site=site,
        cooling=cooling,
        prices=prices,
        storage=storage,
        operations=_set(defaults.operations, "operations", scenario),
        devices=devices,
        confidence=confidence,
        warnings=(*taken, *warnings),
        scenario=dataclasses.replace(scenario, model_text=text, assumed=tuple(notes.taken.values())),
        coolings=_other_coolings(cooling, hardware, catalog),
    )
    return dataclasses.replace(resolved, warnings=(*resolved.warnings, *_remarks(resolved)))


def _remarks(resolved: Resolved) -> Iterator[str]:
    """What to know of a question and of the profiles that it names, beside what the model left open."""
    scenario, hardware, site = resolved.scenario, resolved.hardware, resolved.site
    parts = [part for one in hardware for part in (one.accelerator, one.system, one.fabric, one.stack)]
    yield from _idle_confidence(scenario)
    yield from _unmeasured(hardware)
    yield from _same_format(scenario.precision)
    yield from _unlikely(hardware, site)
    yield from _not_read([*parts, site, resolved.cooling, resolved.prices, resolved.storage])
    yield from _budget_in_dollars(scenario)
    yield from _old_prices(resolved.prices)
    yield from _guessed_prices(resolved.prices, hardware)


def _with_power(site: Site, power_w: float | None) -> Site:
    """A site with the power that a question limits it to."""
    if power_w is None:
        return site
    return change(site, "power_w", repr(power_w), where=option("power_w"))


def _asked_systems(scenario: Scenario, catalog: Catalog, notes: _Taken) -> tuple[tuple[str, ...], list[str]]:
    """Names of the systems of a question, or the default one; and which were taken for a name that leaves it open."""
    names, taken = _systems(scenario.hardware, catalog)
    if not names and notes.defaults.hardware:
        names = (notes.default("hardware", notes.defaults.hardware),)
    if not names:
        known = ", ".join(catalog.names(System))
        raise ClusterplanError(f"no hardware is given; known systems: {known}", where=option("hardware"))
    return names, taken


def _check_batch(scenario: Scenario, job: Job) -> None:
    """Raise if the batch is more than the run, or grows from above what it becomes or for longer than the run."""
    if scenario.global_batch is not None and (scenario.batch_low or job.global_batch) * job.seq_len > job.tokens:
        text = f"one step of so many sequences of {job.seq_len:,} tokens has more than the run's {job.tokens:,.0f}"
        raise ClusterplanError(text, where=option("global_batch"))
    if scenario.batch_ramp is None:
        return
    first, ramp = parse_ramp(scenario.batch_ramp)
    if first > job.global_batch:
        text = f"a batch grows from the first step on, and that of this run has {job.global_batch:,} sequences"
        raise ClusterplanError(text, where=option("batch_ramp"))
    if ramp > job.tokens:
        text = f"the batch would grow over {ramp:,.0f} tokens, more than the {job.tokens:,.0f} of the run"
        raise ClusterplanError(text, where=option("batch_ramp"))


def _check_machines(scenario: Scenario, job: Job, hardware: Iterable[Machine]) -> None:
    """Raise if no machine has the format of the run, or their clock is given twice."""
    if not any(job.precision in one.formats for one in hardware):
        have = "; ".join(f"{one.system.name} with {one.stack.name}: {', '.join(one.formats)}" for one in hardware)
        raise ClusterplanError(f"{job.precision} is not available ({have})", where=option("precision"))
    if scenario.clock is not None and scenario.cap_w is not None:
        raise ClusterplanError("a clock and a cap exclude each other; a cap sets the clock", where=option("cap_w"))


def _confidence(scenario: Scenario, notes: _Taken) -> float:
    """Probability with which a plan meets its deadline."""
    if scenario.confidence is None:
        return float(notes.default("confidence", float(notes.defaults.confidence)))
    if scenario.confidence >= 1:
        raise ClusterplanError("no run is certain; nearest: 0.99", where=option("confidence"))
    return scenario.confidence


def _idle_confidence(scenario: Scenario) -> list[str]:
    """That a confidence is given and nothing is to be done with it."""
    if scenario.confidence is None or scenario.deadline_s is not None:
        return []
    return ["a confidence says with what probability a deadline is met; without one it does nothing"]


def _other_coolings(cooling: Cooling, hardware: Iterable[Machine], catalog: Catalog) -> tuple[Cooling, ...]:
    """Cooling designs that are known, where the one that is taken does not carry all machines."""
    if all(cooling.carries(one.system.rack_w, needs_liquid=one.system.needs_liquid) for one in hardware):
        return ()
    return tuple(catalog.load(Cooling, name) for name in catalog.names(Cooling))


def _unlikely(hardware: Iterable[Machine], site: Site) -> list[str]:
    """Figures of hardware and site that are likely slips; shipped profiles have none."""
    found: list[str] = []
    pairs: list[tuple[Accelerator | System | Fabric | Site, Iterable[tuple[str, str]]]] = [
        *((one.accelerator, plausible.implausible_device(one.accelerator)) for one in hardware),
        *((one.system, _unlikely_system(one)) for one in hardware),
        *((one.fabric, plausible.implausible_fabric(one.fabric)) for one in hardware),
        (site, plausible.implausible_site(site)),
    ]
    for record, doubts in pairs:
        for name, text in doubts:
            figure = getattr(record, name)
            key = figure.origin.key if isinstance(figure, Figure) else name
            found.append(f"{record.name}: {key} {text}")
    return list(dict.fromkeys(found))


def _unlikely_system(machine: Machine) -> Iterable[tuple[str, str]]:
    """Slips of a system beside its device, and beside its own network where it has that."""
    own = machine.fabric if machine.fabric.name == machine.system.fabric else None
    return plausible.implausible_system(machine.system, machine.accelerator, own)


def _check_long_context(scenario: Scenario, job: Job) -> None:
    """Raise if the phases of a run are more than the run, or the long sequences are not longer."""
    if scenario.long_context is None:
        return
    seq_len, tokens = parse_long_context(scenario.long_context)
    if seq_len <= job.seq_len:
        text = f"{seq_len:,} tokens are no longer sequence than the {job.seq_len:,} of the rest of the run"
        raise ClusterplanError(text, where=option("long_context"))
    others = 0.0 if scenario.batch_ramp is None else parse_ramp(scenario.batch_ramp)[1]
    if tokens + others >= job.tokens:
        also = f" and the {others:,.0f} of {option('batch_ramp')}" if others else ""
        text = f"{tokens:,.0f} tokens{also} leave nothing of the {job.tokens:,.0f} of the run"
        raise ClusterplanError(text, where=option("long_context"))


def today() -> datetime.date:
    """The day on which prices are looked at."""
    return datetime.date.today()


OLD_DAYS = 365
"""Prices older than this are warned of."""


def _old_prices(prices: Prices) -> list[str]:
    age = (today() - datetime.date.fromisoformat(prices.date)).days
    if age <= OLD_DAYS:
        return []
    return [f"price list {prices.name} is of {prices.date}, {age:,} days ago; prices of machines fall every year"]


def _guessed_prices(prices: Prices, hardware: Iterable[Machine]) -> list[str]:
    """A line for each machine whose price nobody has quoted."""
    if prices.basis != "own":
        return []
    told = []
    for name in dict.fromkeys(one.system.name for one in hardware):
        figure = prices.system_usd.get(name)
        if isinstance(figure, Figure) and figure.origin.kind == "assumed" and figure.origin.source != GIVEN:
            told.append(f"the price of {name} is assumed, not quoted: {figure.origin.source}")
    return told


def _unmeasured(hardware: Iterable[Machine]) -> list[str]:
    """One line about devices of which the tables of measured runs have none, if there are any."""
    names: dict[str, None] = {}
    for one in hardware:
        figure = one.stack.step_error_fraction
        if isinstance(figure, Figure) and figure.origin.source == UNMEASURED_ERROR:
            names[one.accelerator.name] = None
    if not names:
        return []
    more = f"{UNMEASURED_ERROR_FRACTION:.0%}".replace("%", " %")
    return [
        f"no training run on {', '.join(names)} is among the measured ones: constants are not fitted to one, and "
        f"the interval of step times is wider (by {more}, in quadrature)"
    ]


def _same_format(given: str | None) -> list[str]:
    """One line about a format that is priced as another."""
    if given is None or given not in SAME_FORMATS:
        return []
    return [f"{given} is priced as {SAME_FORMATS[given]}: no measurement of a run tells them apart"]


def _not_read(records: Sequence[Any]) -> list[str]:
    """One line about figures that are recalled or announced, if there are any."""
    told = []
    for word in NOT_READ:
        origins = [one.origin for record in records for one in figures(record) if one.origin.status == word]
        keys = {(origin.profile, origin.key) for origin in origins}
        if keys:
            profiles = dict.fromkeys(origin.profile for origin in origins)
            listed = ", ".join(f"{name} {sum(name == one for one, _ in keys)}" for name in profiles)
            told.append(f"{len(keys)} {'figure is' if len(keys) == 1 else 'figures are'} {word} ({listed})")
    return [f"{'; '.join(told)}; profiles show NAME lists them"] if told else []


def _in_currency(scenario: Scenario) -> Scenario:
    """The question with the rate of its currency and the day of the rate."""
    currency = scenario.currency or USD
    if currency == USD:
        if scenario.usd_rate not in (None, 1.0):
            raise ClusterplanError("is the rate of which currency? Give --currency", where=option("usd_rate"))
        return dataclasses.replace(scenario, usd_rate=None, rate_date=None)
    if scenario.usd_rate is None:
        text = f"no rate is built in; --usd-rate says how many {currency} one USD costs, --rate-date of which day"
        raise ClusterplanError(text, where=f"{option('currency')} {currency}")
    return dataclasses.replace(scenario, rate_date=scenario.rate_date or today().isoformat())


def _budget_in_dollars(scenario: Scenario) -> list[str]:
    """Which money a budget is in, where amounts are shown in another."""
    if scenario.budget_usd is None or scenario.usd_rate is None:
        return []
    shown_as = f"{scenario.currency} {scenario.budget_usd * scenario.usd_rate:,.0f}"
    return [f"the budget is in US dollars, as all that is asked: ${scenario.budget_usd:,.0f}, which are {shown_as}"]


def _check_sets(scenario: Scenario) -> None:
    for key in scenario.sets:
        record, point, rest = key.partition(".")
        if record not in SETS:
            found = unknown(f"no record is called {shown(record)}", record, SETS)
            raise ClusterplanError(found.message, where=f"--set {key}", nearest=found.nearest)
        if not point or not rest:
            raise ClusterplanError(f"names no figure; write {record}.KEY", where=f"--set {key}")


def _set(record: Record, name: str, scenario: Scenario) -> Record:
    """The record with the figures that the user changed."""
    for key, text in scenario.sets.items():
        first, _, rest = key.partition(".")
        if first == name:
            record = change(record, rest, text, where=f"--set {key}")
    return record


ROUGH_TIME = (
    "state spaces and linear attention: parameters and FLOP are exact, the time of such layers is a rough figure"
)


def load_model(scenario: Scenario, catalog: Catalog) -> tuple[str, Model, list[str]]:
    """Text that came on standard input, the model, and what its description or our knowledge of it left open."""
    text, model, warnings = _found(scenario, catalog)
    return text, model, [*warnings, *([ROUGH_TIME] if model.has_fixed_state else [])]


def _found(scenario: Scenario, catalog: Catalog) -> tuple[str, Model, list[str]]:
    """Text that came on standard input, the model, and what its description left open."""
    name = scenario.model
    if not name:
        known = ", ".join(catalog.names(Model))
        raise ClusterplanError(f"no model is given; known: {known}", where="MODEL")
    if name == "-":
        text = scenario.model_text or _standard_input()
        return text, *_imported(text, "-")
    path = Path(name)
    looks_like_path = path.suffix == ".json" or path.suffix == ".toml" or len(path.parts) > 1
    if not looks_like_path and (name in catalog.names(Model) or not path.is_file()):
        return "", catalog.load(Model, name), []
    if path.suffix == ".toml":
        return "", read(Model, path), []
    if (path / "config.json").is_file():
        raise ProfileError("is a directory", where=printable(path), nearest=(str(path / "config.json"),))
    return "", *_imported(read_text(path, ProfileError), name)


def _imported(text: str, where: str) -> tuple[Model, list[str]]:
    from clusterplan.huggingface import read_model  # only those who bring a model pay for the import

    return read_model(text, where)


def _standard_input() -> str:
    data = sys.stdin.buffer.read(LARGEST_FILE_BYTES + 1)
    if len(data) > LARGEST_FILE_BYTES:
        raise ProfileError(f"has more than {LARGEST_FILE_BYTES:,} bytes", where="standard input")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise ProfileError(f"is not UTF-8 text (byte {problem.start + 1:,})", where="standard input") from None
    if not text.strip():
        raise ProfileError("is empty", where="standard input")
    return text


def _systems(names: Iterable[str], catalog: Catalog) -> tuple[tuple[str, ...], list[str]]:
    """Names of systems, and which of them were taken for a name that leaves something open."""
    found, told = [], []
    for name in names:
        if name in catalog.names(System):
            found.append(name)
            continue
        meant = catalog.systems_called(name)
        if not meant:
            catalog.path(System, name)  # an error that says what is near
        if len(meant) > 1:
            raise ProfileError(
                f"{shown(name)} may be any of {len(meant)} systems: {', '.join(meant)}", where=option("hardware")
            )
        device = catalog.load(Accelerator, catalog.load(System, meant[0]).accelerator).name
        others = [one for one in catalog.names(System) if catalog.load(System, one).accelerator == device]
        others = [one for one in others if one != meant[0]]
        also = f"; also with it: {', '.join(others)}" if others else ""
        told.append(f"{name} is taken as {meant[0]}, with {device}{also}")
        found.append(meant[0])
    return tuple(dict.fromkeys(found)), told


def _hardware(name: str, scenario: Scenario, catalog: Catalog, notes: _Taken, *, is_moe: bool) -> Machine:
    system = _set(catalog.load(System, name), "system", scenario)
    why = f"default of {name}"
    fabric = scenario.fabric or notes.default(f"fabric.{name}", system.fabric, why)
    stack = scenario.stack or notes.default(f"stack.{name}", system.stack, why)
    accelerator = _set(catalog.load(Accelerator, system.accelerator), "accelerator", scenario)
    software = _set(catalog.load(Stack, stack), "stack", scenario)
    check_devices(software, catalog, where=f"{stack}: free_of_stalls")
    return Machine(
        system=system,
        accelerator=accelerator,
        fabric=_set(catalog.load(Fabric, fabric), "fabric", scenario),
        stack=software.training(is_moe=is_moe).on(accelerator),
    )


def _job(scenario: Scenario, model: Model, notes: _Taken, active_parameters: Callable[[Model], float]) -> Job:
    defaults = notes.defaults
    tokens, seq_len, batch = scenario.tokens, scenario.seq_len, scenario.global_batch
    if tokens is None:
        ratio = defaults.tokens_per_parameter
        why = f"{ratio:g} for each active parameter: {defaults.sources.get('tokens_per_parameter', '')}"
        tokens = notes.default("tokens", round(ratio * active_parameters(model)), why)
    if seq_len is None:
        if 0 < model.learned_positions < defaults.seq_len:
            why = f"{model.name} has {model.learned_positions:,} learned positions"
            seq_len = notes.default("seq_len", model.learned_positions, why)
        else:
            seq_len = notes.default("seq_len", defaults.seq_len)
    if batch is None:
        source = defaults.sources.get("batch_tokens", "")
        why = f"a target of {defaults.batch_tokens:,.0f} tokens a step: {source}"
        batch = notes.default("global_batch", max(1, round(defaults.batch_tokens / seq_len)), why)
    given = scenario.precision or notes.default("precision", defaults.precision)
    return Job(
        tokens=tokens,
        seq_len=seq_len,
        global_batch=batch,
        batch_low=scenario.batch_low,
        batch_fixed=scenario.batch_fixed and scenario.global_batch is not None and scenario.batch_low is None,
        precision=cast("Format", SAME_FORMATS.get(given, given)),
    )
