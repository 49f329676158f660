"""What else the money of a run depends on: the ranges of prices, and renting instead of owning.

Only the chosen plans are asked this, and their runs are priced again; nothing but money changes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from clusterplan.formulas import cost
from clusterplan.outcome import Circumstances, Cost, Purchase, Run
from clusterplan.run import cost_of, is_priced, purchase_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Money:
    """Other totals of the same run. [USD]"""

    low_usd: float | None
    """Cost with all prices that have a range at its low end; None if the list has no ranges, or no price. [USD]"""
    high_usd: float | None
    """The same with all at the high end. [USD]"""
    rented_usd: float | None
    """Cost with rented machines; None if the price list has no rent. [USD]"""
    owned_usd: float | None
    """Cost with machines of one's own; None if the price list has no price. [USD]"""
    purchase: Purchase | None
    """What machines of one's own cost before the first step; None if the price list has no price."""
    break_even_utilisation_fraction: float | None
    """Share of the owned hours that must carry paid work for owning to cost no more than renting; above 1 never."""


def money(circumstances: Circumstances, outcome: Run) -> Money:
    """Other totals of a run with one row.

    Parameters
    ----------
    circumstances : Circumstances
        What the run was made from.
    outcome : Run
        The run, with the basis of the price list.
    """
    prices, system = circumstances.prices, circumstances.machine.system.name

    def again(basis: Literal["rent", "own"]) -> Cost | None:
        other = replace(prices, basis=basis)
        if basis == prices.basis:
            return outcome.cost
        return cost_of(replace(circumstances, prices=other), outcome) if is_priced(other, system) else None

    def at(end: Literal["low", "high"]) -> float | None:
        if outcome.cost is None or not getattr(prices, end):
            return None
        return _total(cost_of(replace(circumstances, prices=prices.at_end(end)), outcome))

    rented, owned = again("rent"), again("own")
    even = None
    if rented is not None and owned is not None:
        bought = [owned.machines_usd, owned.network_usd, owned.facility_usd]
        if prices.storage_usd_per_tb_month is None:
            bought.append(owned.storage_usd)
        paid = sum(float(part[0]) for part in bought if part is not None)
        share = cost.break_even_utilisation(
            paid * prices.utilisation_fraction, owned.total_usd - paid, rented.total_usd
        )
        even = float(share[0]) if np.isfinite(share[0]) else None
    return Money(
        low_usd=at("low"),
        high_usd=at("high"),
        rented_usd=None if rented is None else _total(rented),
        owned_usd=None if owned is None else _total(owned),
        purchase=None if owned is None else purchase_of(circumstances, outcome),
        break_even_utilisation_fraction=even,
    )


def _total(paid: Cost) -> float:
    return float(paid.total_usd[0])
