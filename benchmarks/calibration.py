"""Fits the constants of the profiles to the shipped runs, and makes the intervals of predictions from their errors.

    python benchmarks/calibration.py                # fit every constant, hold sources out, show
    python benchmarks/calibration.py --write        # and write the constants into profiles/
    python benchmarks/calibration.py --level        # the level of all software, and of each; keeps held_out.csv
    python benchmarks/calibration.py --intervals    # no fit: set the intervals in profiles/ from held_out.csv

Look at the errors of held-out sources before you write. The shipped level is that of ``--level``; constants that only
the first command fits are as they were found elsewhere: it came closer to the runs that it saw, and not to those that
it did not see. Writing keeps what the sources of constants say. The fit of all takes about a quarter of an hour, that
of the level three minutes; writing needs tomlkit.
"""

from __future__ import annotations

import argparse
import csv
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from clusterplan import calibrate
from clusterplan.catalog import Catalog, measured_files
from clusterplan.hardware import Accelerator, Stack
from clusterplan.measured import read_measured
from clusterplan.trace import KINDS
from clusterplan.units import to_si

PROFILES = Path(__file__).parent.parent / "profiles"
HELD_OUT = Path(__file__).parent / "held_out.csv"
FOLDERS = {Stack: "stacks", Accelerator: "accelerators"}
MOVED = 0.1
"""A constant that moved less than this, in standard deviations of its prior, stays as it is."""
FEWEST = 10
"""Rows of a stack from which its interval is made; others take that of all rows."""
LEFT_OUT = ("nanotron",)
"""Software whose runs the level is not made from: in the source, times of one layout across nodes differ tenfold."""
KEPT = ("megatron-lm-2021", "megatron-lm-2022")
"""Stacks with fewer rows that keep their assumed interval, which holds all of them."""
WIDEST = 0.9
"""Widest half width: an interval of a time does not reach zero."""
ROUNDS = 6


def show(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def fitted_source(rows: int, sources: int) -> str:
    return (
        f"benchmarks/calibration.py: robust least squares on log step time over {rows} runs of {sources} sources, "
        "those in profiles/measured, each constant within a prior around its former value; errors on sources that "
        "the fit had not seen are in docs/validation.md"
    )


def take_out(document: Any, field: str, part: str) -> None:
    """Remove a figure from whichever kind table holds it."""
    for kind in KINDS:
        if kind not in document:
            continue
        tables = document[kind]
        for table in tables if isinstance(tables, list) else [tables]:
            for key in [k for k in table if k != "source" and to_si(k, 1.0)[0] == field]:
                if part:
                    if part in table[key]:
                        del table[key][part]
                    if not table[key]:
                        del table[key]
                else:
                    del table[key]


def put_in(document: Any, kind: str, source: str, figures: dict[str, Any]) -> None:
    """Append a table of a kind."""
    import tomlkit

    table = tomlkit.table()
    table["source"] = source
    for key, value in figures.items():
        if isinstance(value, dict):
            inner = tomlkit.inline_table()
            inner.update(value)
            table[key] = inner
        else:
            table[key] = value
    tables = document.get(kind)
    if tables is None:
        document[kind] = tomlkit.aot()
    elif not isinstance(tables, list):
        former = document.pop(kind)
        document[kind] = tomlkit.aot()
        document[kind].append(former)
    document[kind].append(table)


def drop_empty(document: Any) -> None:
    """Remove kind tables that hold nothing but a source."""
    import tomlkit

    for kind in KINDS:
        tables = document.get(kind)
        if isinstance(tables, list):
            kept = [t for t in tables if len(t) > 1]
            del document[kind]
            if kept:
                document[kind] = tomlkit.aot()
                for table in kept:
                    document[kind].append(table)
        elif tables is not None and len(tables) <= 1:
            del document[kind]


def change(path: Path, entries: Iterable[tuple[str, str, dict[str, Any]]]) -> None:
    """Put figures into a profile, each entry a kind, a source and its figures by SI name."""
    import tomlkit

    document: Any = tomlkit.parse(path.read_text(encoding="utf-8"))
    entries = list(entries)
    for _, _, figures in entries:
        for field, value in figures.items():
            for part in value if isinstance(value, dict) else [""]:
                take_out(document, to_si(field, 1.0)[0], part)
    drop_empty(document)
    for kind, source, figures in entries:
        put_in(document, kind, source, figures)
    path.write_text(tidied(tomlkit.dumps(document)), encoding="utf-8")


def tidied(text: str) -> str:
    """One empty line before each table and the comment above it, and inline tables with single spaces."""
    text = re.sub(r"\n+((?:#[^\n]*\n+)*)(?=\[)", lambda m: "\n\n" + re.sub(r"\n+", "\n", m[1]), text)
    text = re.sub(r"\n{3,}", "\n\n", text)
    return re.sub(r"= \{ *(.*?) *\}", r"= { \1 }", text).strip() + "\n"


def keep(held_out: calibrate.HeldOut) -> None:
    """Write the errors of rows whose source the fit had not seen, for docs/validation.md."""
    with HELD_OUT.open("w", encoding="utf-8", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(["id", "family", "stack", "error_before", "error_after"])
        for used, before, after in sorted(
            zip(held_out.rows, held_out.errors_before, held_out.errors_after, strict=True), key=lambda r: r[0].row.id
        ):
            stack = next(name for record, name in used.profiles if record is Stack)
            out.writerow([used.row.id, used.row.family, stack, f"{before:.4f}", f"{after:.4f}"])


FAMILIES = {"dense": "step_error_fraction", "moe": "moe_step_error_fraction"}
"""Kinds of model, and the figure that is the half width of their interval."""


def set_intervals() -> None:
    """Half widths of a stack's intervals: 90th percentile of how far measured times lie from predicted ones."""
    far: dict[str, dict[str, list[float]]] = {family: {} for family in FAMILIES}
    with HELD_OUT.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            distance = abs(1 / (1 + float(row["error_after"])) - 1)
            far[row["family"]].setdefault(row["stack"], []).append(distance)
    for path in sorted((PROFILES / "stacks").glob("*.toml")):
        least = 0.0  # mixtures of experts are never more certain than dense models
        for family, figure in FAMILIES.items():
            everything = [one for rows in far[family].values() for one in rows]
            found = far[family].get(path.stem, [])
            if 0 < len(found) < FEWEST:
                code = calibrate.SAME_CODE.get(path.stem, path.stem)
                found = [
                    one
                    for name, rows in far[family].items()
                    for one in rows
                    if calibrate.SAME_CODE.get(name, name) == code
                ]
            kind, (half_width, source) = "measured", own_interval(found, family)
            if len(found) < FEWEST:
                kind, (half_width, source) = "assumed", common_interval(everything, family, least)
            if len(found) < FEWEST and family == "dense" and path.stem in KEPT:
                continue
            least = half_width
            print(f"stacks/{path.stem}: {figure} {half_width} ({kind}, {len(found)} rows)")
            change(path, [(kind, source, {figure: half_width})])


def percentile(found: list[float]) -> float:
    """90th percentile as it stands in a profile."""
    return round(float(np.quantile(found, 0.9)), 3)


def own_interval(found: list[float], family: str) -> tuple[float, str]:
    """Half width from the rows of one stack, and its source."""
    if not found:
        return 0.0, ""
    far = percentile(found)
    source = (
        "benchmarks/calibration.py --intervals: 90th percentile of how far measured step times lie from those "
        f"predicted with a level of other sources, over the {len(found)} {NAMES[family]} runs of this software, or of "
        "releases with the same code, in profiles/measured"
    )
    if far > WIDEST:
        source += f"; it is {far:.2g}, and {WIDEST} is the widest that an interval can be"
    return min(far, WIDEST), source


def common_interval(everything: list[float], family: str, least: float) -> tuple[float, str]:
    """Half width from the rows of all stacks, and its source."""
    half_width = min(percentile(everything), WIDEST)
    if half_width < least:
        return least, "assumed: that of dense models, which is wider than that of all mixtures of experts"
    return half_width, (
        f"assumed: the 90th percentile of how far the measured step times of all {len(everything)} {NAMES[family]} "
        "runs in profiles/measured lie from those predicted with a level of other sources, as fewer than ten are of "
        "this software"
    )


NAMES = {"dense": "dense", "moe": "mixture-of-experts"}
"""Kinds of model in the words of a source."""


def write_constants(fitted: calibrate.Fitted, rows: int, sources: int) -> None:
    """Put the constants that moved into their profiles."""
    changes: dict[tuple[type, str], dict[str, Any]] = {}
    for constant, value, moved in zip(fitted.constants, fitted.values, fitted.moved, strict=True):
        if abs(moved) < MOVED:
            continue
        figures = changes.setdefault((constant.record, constant.profile), {})
        number = float(f"{value:.4g}")
        if constant.part:
            figures.setdefault(constant.field, {})[constant.part] = number
        else:
            figures[constant.field] = number
    for (record, name), figures in changes.items():
        change(PROFILES / FOLDERS[record] / f"{name}.toml", [("fitted", fitted_source(rows, sources), figures)])


def reproducible(rows: Sequence[calibrate.Used]) -> list[calibrate.Used]:
    """Rows from which a level is made: without those of :data:`LEFT_OUT`."""
    return [used for used in rows if not used.profiles & {(Stack, name) for name in LEFT_OUT}]


def write_level(level: calibrate.Level, catalog: Catalog, rows: int) -> None:
    """Put the level into all software, keeping what the sources of other constants say of their former values."""
    note = f"benchmarks/calibration.py --level over {rows} runs"
    for constant in calibrate.levelled(catalog):
        value: Any = getattr(catalog.load(Stack, constant.profile), constant.field)
        kind, text, key, number = value.origin.kind, value.origin.source, constant.field, level.value(constant)
        if constant.field == "vector_traffic":
            # Levels are made one after another; the note has what all of them made of the value found elsewhere.
            former = re.search(r"; times ([0-9.]+): benchmarks/.*$", text)
            factor = level.vectors * (float(former[1]) if former else 1.0)
            text = text[: former.start() if former else None] + f"; times {factor:.3f}: {note}"
        elif constant.field == "moe_stall_s_per_layer":
            key, number = "moe_stall_ms_per_layer", number * 1e3
            kind, text = "fitted", f"{note}, from those of this software with experts"
            if constant.profile not in level.stalls_of:
                kind, text = "assumed", f"assumed: that of all software that waits with measured runs, {note}; 0 to 4"
        elif constant.profile in level.products_of:
            kind, text = "fitted", f"{note}, from those of this software, within a prior around that of all"
        else:
            kind, text = "assumed", f"assumed: that of all software with measured runs, {note}; 0.7 to 1"
        figure = {key: float(f"{number:.4g}")}
        change(PROFILES / "stacks" / f"{constant.profile}.toml", [(kind, text, figure)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the constants into profiles/")
    parser.add_argument("--intervals", action="store_true", help="only set the intervals, from held_out.csv")
    parser.add_argument("--level", action="store_true", help="fit the level of all software instead of every constant")
    asked = parser.parse_args()
    if asked.intervals:
        set_intervals()
        return
    catalog = Catalog()
    rows = calibrate.usable(catalog, [row for file in measured_files() for row in read_measured(file)])
    sources = len({calibrate.source_of(used.row) for used in rows})
    show(f"{len(rows)} rows of {sources} sources")
    if asked.level:
        level = calibrate.fit_level(catalog, reproducible(rows), progress=lambda _, text: show(text))
        held_out = calibrate.cross_validated(
            catalog,
            rows,
            progress=lambda _, text: show(text),
            fitting=lambda profiles, seen: calibrate.one_level(profiles, reproducible(seen)),
        )
        print(level)
        print(f"sources held out: before {held_out.before}\n                  after  {held_out.after}")
        keep(held_out)
        if asked.write:
            write_level(level, catalog, len(reproducible(rows)))
        return
    fitted = calibrate.fit(catalog, rows, rounds=ROUNDS, progress=lambda share, text: show(f"{share:4.0%} {text}"))
    before, after = calibrate.fit_errors(catalog, fitted)
    print(f"rows of the fit: before {before}\n                 after  {after}")
    held_out = calibrate.cross_validated(catalog, rows, progress=lambda _, text: show(text))
    print(f"sources held out: before {held_out.before}\n                  after  {held_out.after}")
    for constant, value, moved in zip(fitted.constants, fitted.values, fitted.moved, strict=True):
        if abs(moved) >= MOVED:
            print(f"{constant.label:60s} {constant.start:9.4g} -> {value:9.4g}  ({moved:+.1f})")
    if asked.write:
        write_constants(fitted, len(rows), sources)


if __name__ == "__main__":
    main()
