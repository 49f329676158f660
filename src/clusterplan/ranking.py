"""Whether predictions put layouts in the right order: pairs of measured runs that differ in nothing but layout."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from clusterplan.validate import Judged

REPEAT_NOISE_FRACTION = 0.03
"""Assumed: runs whose times are closer say nothing about their order. Published repeats of one configuration spread by
1.2 to 5.5 %."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A layout of a series, with its times."""

    layout: str
    predicted_s: float
    measured_s: float
    preference: tuple[float, ...] = ()
    """What settles ties, least first: see :func:`clusterplan.choose.preferred`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """How well predictions order the layouts of series."""

    series: int
    """Series with at least two layouts."""
    pairs: int
    """Pairs of layouts whose measured times differ by more than repeats do."""
    right: int
    """Those that the predictions order as the measurements do."""
    right_fraction: float | None
    median_regret: float
    """Measured time of the layout that is predicted to be the fastest, over the fastest, less 1."""
    worst_regret: float
    mean_regret: float
    mean_regret_with_ties: float
    """The same where layouts that the error of the model cannot tell apart are settled as the search settles them."""


def series_of(rows: Iterable[Judged]) -> dict[str, list[Run]]:
    """Series with at least two layouts; a layout that was measured more than once has the medians of its times."""
    found: dict[str, dict[str, list[Judged]]] = {}
    for row in rows:
        if row.series and row.layout and row.predicted_step_s and row.measured_step_s:
            found.setdefault(row.series, {}).setdefault(row.layout, []).append(row)
    return {
        name: [
            Run(
                layout=layout,
                predicted_s=float(np.median([r.predicted_step_s for r in repeats if r.predicted_step_s])),
                measured_s=float(np.median([r.measured_step_s for r in repeats if r.measured_step_s])),
                preference=repeats[0].preference,
            )
            for layout, repeats in layouts.items()
        ]
        for name, layouts in found.items()
        if len(layouts) > 1
    }


def pairs_right(runs: Sequence[Run], noise_fraction: float = REPEAT_NOISE_FRACTION) -> tuple[int, int]:
    """Pairs that tell an order, and how many of them are predicted in it; a tie of predictions is not right.

    Examples
    --------
    >>> fast, slow = Run(layout="a", predicted_s=1.0, measured_s=1.0), Run(layout="b", predicted_s=1.1, measured_s=1.2)
    >>> pairs_right([fast, slow])
    (1, 1)
    """
    pairs = right = 0
    for one, other in combinations(runs, 2):
        low, high = sorted((one, other), key=lambda run: run.measured_s)
        if high.measured_s > low.measured_s * (1 + noise_fraction):
            pairs += 1
            right += low.predicted_s < high.predicted_s
    return pairs, right


def regret(runs: Sequence[Run]) -> float:
    """What following the prediction costs: measured time of its choice over the shortest, less 1.

    Examples
    --------
    >>> regret([Run(layout="a", predicted_s=1.0, measured_s=1.5), Run(layout="b", predicted_s=2.0, measured_s=1.0)])
    0.5
    """
    chosen = min(runs, key=lambda run: run.predicted_s)
    return chosen.measured_s / min(run.measured_s for run in runs) - 1


def regret_with_ties(runs: Sequence[Run], error_fraction: float) -> float:
    """What it costs to follow the prediction and, among layouts that it cannot tell from the best, what settles ties.

    Examples
    --------
    >>> fast = Run(layout="a", predicted_s=1.0, measured_s=1.5, preference=(1.0,))
    >>> safe = Run(layout="b", predicted_s=1.01, measured_s=1.0, preference=(0.0,))
    >>> regret_with_ties([fast, safe], 0.02)
    0.0
    """
    limit = min(run.predicted_s for run in runs) * (1 + error_fraction) / (1 - error_fraction)
    tied = [run for run in runs if run.predicted_s <= limit]
    chosen = min(tied, key=lambda run: (run.preference, run.predicted_s))
    return chosen.measured_s / min(run.measured_s for run in runs) - 1


TIES_FRACTION = 0.02
"""Errors of comparing two layouts, of which differences make ties here: the figure of most software profiles."""


def ranking(rows: Iterable[Judged]) -> Ranking | None:
    """Order of the layouts in all series of these rows; None if there is no series."""
    series = list(series_of(rows).values())
    if not series:
        return None
    counts = [pairs_right(runs) for runs in series]
    regrets = [regret(runs) for runs in series]
    pairs, right = sum(n for n, _ in counts), sum(n for _, n in counts)
    return Ranking(
        series=len(series),
        pairs=pairs,
        right=right,
        right_fraction=right / pairs if pairs else None,
        median_regret=float(np.median(regrets)),
        worst_regret=max(regrets),
        mean_regret=float(np.mean(regrets)),
        mean_regret_with_ties=float(np.mean([regret_with_ties(runs, TIES_FRACTION) for runs in series])),
    )
