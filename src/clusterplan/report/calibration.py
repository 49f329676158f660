"""Constants before and after a fit to measured runs, what the runs say about each, and how right both are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from clusterplan import __version__
from clusterplan.report.blocks import Block, Document
from clusterplan.report.plain import plain
from clusterplan.units import format_fraction

if TYPE_CHECKING:
    from clusterplan.calibrate import Fitted, HeldOut
    from clusterplan.validate import Errors

FAR = 3.0
"""Standard deviations of the prior beyond which a constant has moved far."""

CALIBRATION = "clusterplan/calibration-1"


def calibration_document(
    fitted: Fitted, before: Errors | None, after: Errors | None, held_out: HeldOut | None, written: Sequence[str]
) -> dict[str, Any]:
    """A fit as plain JSON values.

    Parameters
    ----------
    fitted : Fitted
        Constants after the fit.
    before, after : Errors
        Errors of the fitted rows with the constants as they were, and as they are.
    held_out : HeldOut
        Errors of rows of which each fit did not see the source; None if that was not tried.
    written : sequence of str
        Files that were written.
    """
    from clusterplan.calibrate import DETERMINED

    return {
        "schema": CALIBRATION,
        "version": __version__,
        "rows": len(fitted.rows),
        "constants": [
            {
                "constant": constant.label,
                "before": constant.start,
                "after": value,
                "moved_standard_deviations": float(moved),
                "uncertainty_left_fraction": float(left),
                "determined": bool(left < DETERMINED),
            }
            for constant, value, moved, left in zip(
                fitted.constants, fitted.values, fitted.moved, fitted.certainty, strict=True
            )
        ],
        "before": plain(before),
        "after": plain(after),
        "held_out_before": plain(held_out.before) if held_out else None,
        "held_out_after": plain(held_out.after) if held_out else None,
        "written": list(written),
    }


def calibration_blocks(document: Document) -> Iterator[Block]:
    """Blocks of a calibration."""
    by_profile: dict[str, list[Document]] = {}
    for one in document["constants"]:
        by_profile.setdefault(one["constant"].partition(": ")[0], []).append(one)
    for profile, constants in by_profile.items():
        rows = tuple(
            (
                one["constant"].partition(": ")[2],
                f"{one['before']:.4g}",
                f"{one['after']:.4g}",
                f"{one['moved_standard_deviations']:+.1f}",
                format_fraction(one["uncertainty_left_fraction"]),
                "yes" if one["determined"] else "no",
            )
            for one in constants
        )
        heads = ("constant", "before", "after", "moved", "left", "told")
        yield Block(title=profile, heads=heads, rows=rows, right=(1, 2, 3, 4))
    yield Block(
        rows=(
            ("moved", "in standard deviations of the prior"),
            ("left", "uncertainty that is left, as a share of the prior's"),
            ("told", "whether the rows say something about it"),
        )
    )
    far = [one["constant"] for one in document["constants"] if abs(one["moved_standard_deviations"]) > FAR]
    if far:
        text = f"further than {FAR:g} standard deviations: {', '.join(far)}; look whether the rows are what they say"
        yield Block(title="Moved far", rows=(("", text),), are_notes=True)
    names = (
        ("rows of the fit, before", "before"),
        ("rows of the fit, after", "after"),
        ("sources held out, before", "held_out_before"),
        ("sources held out, after", "held_out_after"),
    )
    errors = tuple(
        (
            label,
            f"{one['rows']:,}",
            *(f"{100 * one[key]:.1f} %" for key in ("median", "p90", "worst")),
            f"{100 * one['bias']:+.1f} %",
        )
        for label, one in ((label, document[name]) for label, name in names)
        if one
    )
    yield Block(
        title="Errors of step times",
        heads=("", "rows", "median", "90th", "worst", "bias"),
        rows=errors,
        right=(1, 2, 3, 4, 5),
    )
    if document["written"]:
        notes = (*document["written"], f"to plan with them: {_use(document['written'])}")
        yield Block(title="Written", rows=tuple(("", text) for text in notes), are_notes=True)


def _use(written: Sequence[str]) -> str:
    """Options that take written profiles.

    Examples
    --------
    >>> _use(["mine/accelerators/a-ours.toml", "mine/stacks/b-ours.toml"])
    '--profiles mine --set system.accelerator=a-ours --stack b-ours'
    """
    files = [PurePath(one) for one in written]
    options = {"accelerators": "--set system.accelerator=", "stacks": "--stack "}
    taken: dict[str, str] = {}
    for file in files:
        taken.setdefault(options[file.parent.name], file.stem)
    return " ".join([f"--profiles {files[0].parent.parent}", *(f"{option}{name}" for option, name in taken.items())])
