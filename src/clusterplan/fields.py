"""What a record looks like to whoever reads or edits a profile: its fields, and what their numbers may be."""

from __future__ import annotations

import dataclasses
import functools
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from types import UnionType

from clusterplan.errors import shown


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a record, as far as reading a file must know it."""

    name: str
    base: type
    """What one value is: float, int, bool, str, or a nested record."""
    form: str
    """``one`` value, a ``list`` of them, or a ``mapping`` from names to them."""
    required: bool
    zero: bool
    """Whether a count may be 0: it may if that is its default."""
    choices: tuple[str, ...]
    """The texts that it may be, if only some are right."""
    nested: bool
    """Whether a value is a record of its own."""


def fields_of(record: type) -> Mapping[str, Field]:
    """Fields of a record by name."""
    return _looked_at(record)


@functools.cache
def _looked_at(record: type) -> Mapping[str, Field]:
    hints = typing.get_type_hints(record)
    found = {}
    for entry in dataclasses.fields(record):
        form, hint = "one", hints[entry.name]
        if isinstance(hint, UnionType):
            hint = next(part for part in hint.__args__ if part is not type(None))
        if typing.get_origin(hint) is tuple:
            form, hint = "list", typing.get_args(hint)[0]
        elif typing.get_origin(hint) is Mapping:
            form, hint = "mapping", typing.get_args(hint)[1]
        choices = typing.get_args(hint) if typing.get_origin(hint) is typing.Literal else ()
        found[entry.name] = Field(
            entry.name,
            str if choices else hint,
            form,
            entry.default is dataclasses.MISSING and entry.default_factory is dataclasses.MISSING,
            entry.default == 0 and hint is int,
            choices,
            dataclasses.is_dataclass(hint),
        )
    return found


# --- Ranges -----------------------------------------------------------------------------------------------------

MOST = 1e30
"""Assumed: no figure of a profile is larger in SI units; keeps products of figures finite."""
MOST_COUNT = 10**9
"""Assumed: nothing is counted beyond this; keeps products of counts in 64 bits."""
MOST_LAYERS = 10_000
"""Assumed: no network is deeper; layers are laid out one by one."""
COLDEST_C, HOTTEST_C = -90.0, 100.0
"""Assumed: air and water of a plant are within. [deg C]"""

MAY_BE_ZERO = {"nics", "rotary_dim"}
"""Counts whose default is not 0 that may be it: a torus has no network interface, some heads do not turn."""
MAY_EXCEED_ONE = {"expert_imbalance_fraction"}
"""Fractions over a reference, not of a whole."""
SHARES = {"efficiency", "best_published_mfu", "wave_hardness", "adiabatic_effectiveness", "decay_per_doubling"}
"""Shares of a whole that are not called fraction."""
SHARES_MAY_BE_ZERO = {"wave_hardness", "adiabatic_effectiveness", "decay_per_doubling"}
LARGEST_LOSS = 0.99
"""assumed: no fans and no wiring take more of the power that they are a part of; at 1 nothing would be left."""
LOSSES = {"distribution_loss_fraction", "fan_fraction"}
POSITIVE_ENDINGS = ("_bytes_per_s", "_flop_per_s", "_life_s", "_rise_k")
POSITIVE = {
    "attention_backward_ratio",
    "capacity_bytes",
    "capex_factor",
    "clock_exponent",
    "confidence",
    "k_ramp",
    "kernel_share",
    "batch_tokens",
    "longest_checkpoint_interval_s",
    "memory_bytes",
    "optimizer_bytes",
    "racks",
    "rack_limit_w",
    "rated_w",
    "rise_k",
    "tdp_w",
    "tokens_per_parameter",
    "utilisation_fraction",
    "weight_bytes",
}
"""Figures that something is divided by."""


@functools.cache
def range_of(record: type, name: str) -> tuple[float, float, bool]:
    """Least and most that a number of a record may be, and whether the least itself is excluded."""
    entry = fields_of(record)[name]
    if entry.base is int:
        return 0 if entry.zero or name in MAY_BE_ZERO else 1, MOST_LAYERS if name == "layers" else MOST_COUNT, False
    if name in SHARES or name.endswith("_efficiency"):
        return 0, 1, name not in SHARES_MAY_BE_ZERO
    if name in LOSSES:
        return 0, LARGEST_LOSS, False
    if "_fraction" in name:
        return 0, MOST if name in MAY_EXCEED_ONE else 1, name in POSITIVE
    if name == "confidence":
        return 0, 1, True
    if name.endswith("_c"):
        return COLDEST_C, HOTTEST_C, False
    if name in {"oversubscription", "concentration_cycles", "supply_factor"}:
        return 1, MOST, name == "concentration_cycles"
    return 0, MOST, name in POSITIVE or name.endswith(POSITIVE_ENDINGS)


def out_of_range(record: type, name: str, si: float, key: str, written: float) -> str:
    """What is wrong with a number, in the unit of the file; empty if nothing is."""
    least, most, excluded = range_of(record, name)
    if least <= si <= most and not (excluded and si == least):
        return ""
    per_cent = 100 if key.endswith("_pct") else 1
    above = f"more than {least:g}" if excluded else f"at least {least:g}"
    right = above if si <= least else f"at most {per_cent * most:g}"
    if most == 1:
        right = f"{above} and at most {per_cent}"
    return f"must be {right}, not {shown(written)}"
