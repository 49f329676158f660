"""Predictions beside measured runs: time and memory of each row, and how right they are by source.

Nothing is fitted here. A row that makes no question (:mod:`clusterplan.stated`) is skipped, with the reason.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from clusterplan import step
from clusterplan.choose import MARGIN_STEP, USEFUL_MARGIN
from clusterplan.formulas import memory
from clusterplan.hardware import Stack
from clusterplan.layer import price_layers
from clusterplan.layout import RECOMPUTE, SCHEDULES, SHARDING, Cuts, Layouts
from clusterplan.measured import Measured
from clusterplan.plan import verdict
from clusterplan.stated import Questions, SkipError, layout_of, refuse_implausible, stated_schedule
from clusterplan.units import BYTES_PER_GIB

MOST_MFU = 1.2
"""Assumed: a measured rate beyond so many times the dense peak is a slip; attention counted in full can make a little
more than 1 of a causal run."""

UNKNOWN_ERROR_FRACTION = 0.35
"""Half width of the 90 % interval where the software is not known (assumed: published rows of software without any
fitted row lay 12 % off on the median and 56 % at the 90th percentile, most of them slower than predicted)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One measured run beside its prediction; None where there is none."""

    id: str
    source: str
    accelerator: str | None
    model: str | None = None
    family: str | None = None
    accelerators: int | None = None
    series: str | None = None
    """What rows have in common that differ only in layout: source, model, devices, batch, format, software."""
    layout: str | None = None
    skipped: str | None = None
    """Why there is no prediction."""
    stack: str | None = None
    stack_assumed: bool = False
    inferred: tuple[str, ...] = ()
    """What the row left blank, with what was taken."""
    predicted_step_s: float | None = None
    low_s: float | None = None
    high_s: float | None = None
    measured_step_s: float | None = None
    error_fraction: float | None = None
    """Predicted over measured step time, less 1."""
    predicted_allocated_gib: float | None = None
    predicted_reserved_gib: float | None = None
    predicted_device_gib: float | None = None
    predicted_peak_gib: float | None = None
    """The one of the three that its source measured."""
    memory_definition: str | None = None
    """Which one that is: ``allocated``, ``reserved`` or ``device``."""
    measured_peak_gib: float | None = None
    memory_error_fraction: float | None = None
    verdict: str | None = None
    """``fits``, ``borderline`` or ``does_not_fit``."""
    preference: tuple[float, ...] = ()
    """What settles ties between layouts, least first: steps of free memory, layers that run again, groups."""
    ran: bool | None = None
    """Whether the run is known to have fitted, or known not to have."""


class Judge(Questions):
    """Turns measured runs into questions and answers them."""

    def rows(self, runs: Iterable[Measured], progress: Callable[[int], None] | None = None) -> list[Judged]:
        """All rows, in their order."""
        judged = []
        for number, row in enumerate(runs, 1):
            judged.append(self.row(row))
            if progress:
                progress(number)
        return judged

    def row(self, row: Measured) -> Judged:
        """One row."""
        base = Judged(
            id=row.id,
            source=row.source,
            accelerator=row.accelerator,
            model=row.model,
            family=row.family,
            accelerators=row.accelerators,
            measured_step_s=row.measured_step_s,
            measured_peak_gib=row.peak_mem_gib or None,
            ran=False if row.oom else True if row.measured_step_s or row.peak_mem_gib or row.oom is False else None,
        )
        try:
            return self._judged(row, base)
        except SkipError as reason:
            return dataclasses.replace(base, skipped=str(reason))

    def _judged(self, row: Measured, base: Judged) -> Judged:
        if row.quality == "C":
            raise SkipError("quality C: a figure of a whole campaign")
        if "superseded" in (row.notes or ""):
            raise SkipError("superseded by a later measurement, as its notes say")
        if base.ran is None:
            raise SkipError("no time, rate or memory is stated")
        refuse_implausible(row)
        inferred: list[str] = []
        machine, assumed = self.machine(row, inferred)
        question = self.question(row, machine, inferred)
        cuts, layouts = layout_of(row, question, inferred)
        table = price_layers(question, cuts)
        stages = step.one_stage_table(question, table, layouts)
        held = step.stage_memory(question, cuts, layouts, stages)
        result = step.evaluate(question, cuts, table, layouts, stages)
        predicted = float(result.time.total_s[0])
        if base.measured_step_s and (peaks := float(result.mfu[0]) * predicted / base.measured_step_s) > MOST_MFU:
            raise SkipError(
                f"{base.measured_step_s:.3g} s a step is {peaks:,.3g} times the peak of {row.accelerators:,} devices; "
                "is it in seconds, and of the whole batch?"
            )
        error = UNKNOWN_ERROR_FRACTION if assumed else float(machine.stack.step_error_fraction)
        heaviest = int(np.argmax(held.total_bytes[0]))
        device = float(held.total_bytes[0, heaviest]) / BYTES_PER_GIB
        reserved = device - float(held.context_bytes[0, heaviest]) / BYTES_PER_GIB
        allocated = reserved - float(held.fragmentation_bytes[0, heaviest]) / BYTES_PER_GIB
        definition = row.memory_definition or machine.stack.reported_memory
        peak = {"allocated": allocated, "reserved": reserved, "device": device}[definition]
        usable = float(memory.usable_bytes(machine.accelerator.memory_bytes, machine.stack.margin_fraction))
        return dataclasses.replace(
            base,
            preference=preference(cuts, layouts, 1 - device * BYTES_PER_GIB / float(machine.accelerator.memory_bytes)),
            series=series(row, machine.stack),
            layout=layout_name(row, cuts, layouts),
            stack=machine.stack.name,
            stack_assumed=assumed,
            inferred=tuple(inferred),
            predicted_step_s=predicted,
            low_s=predicted * (1 - error),
            high_s=predicted * (1 + error),
            error_fraction=predicted / base.measured_step_s - 1 if base.measured_step_s else None,
            predicted_allocated_gib=allocated,
            predicted_reserved_gib=reserved,
            predicted_device_gib=device,
            predicted_peak_gib=peak,
            memory_definition=definition,
            memory_error_fraction=peak / base.measured_peak_gib - 1 if base.measured_peak_gib else None,
            verdict=verdict(device * BYTES_PER_GIB, usable, float(machine.accelerator.memory_bytes)),
        )


def preference(cuts: Cuts, layouts: Layouts, free_fraction: float) -> tuple[float, ...]:
    """What settles ties between layouts, least first, for a table with one row; as the search does it."""
    margin = np.floor(min(free_fraction, USEFUL_MARGIN) / MARGIN_STEP)
    groups = cuts.tp[0] * cuts.cp[0] * layouts.pp[0] * cuts.ep[0]
    return (-float(margin), float(cuts.recompute[0]), float(cuts.recomputed[0]), float(groups))


def layout_name(row: Measured, cuts: Cuts, layouts: Layouts) -> str:
    """How a row is split and run: groups, micro-batch, then methods."""
    sizes = {"tp": cuts.tp, "pp": layouts.pp, "vpp": layouts.vpp, "cp": cuts.cp, "ep": cuts.ep, "dp": layouts.dp}
    split = [f"{name}{int(size[0])}" for name, size in sizes.items() if size[0] > 1]
    methods = (
        f"{RECOMPUTE[int(cuts.recompute[0])]} recompute".replace("none", "no"),
        SHARDING[int(layouts.sharding[0])],
        stated_schedule(row) or SCHEDULES[int(layouts.schedule[0])],
    )
    return ", ".join(["-".join([*split, f"mb{int(cuts.micro_batch[0])}"]), *(m for m in methods if m != "none")])


def series(row: Measured, stack: Stack) -> str:
    """What rows have in common that may be compared with each other: all but the layout."""
    model = f"{row.model or 'model'} {row.layers} × {row.hidden}, {row.heads} heads"
    batch = f"{row.global_batch} × {row.seq_len} tokens"
    network = f", {row.scaleout_gbit_s:g} Gbit/s" if row.scaleout_gbit_s else ""
    hardware = f"{row.accelerators} {row.accelerator}{network}"
    return f"{source_name(row.source)}: {model}; {hardware}; {batch}; {row.precision or 'bf16'}; {stack.name}"


def source_name(source: str) -> str:
    """A source without the place inside it: up to the first comma or bracket, 60 letters at most.

    Examples
    --------
    >>> source_name("Korthikanti et al. 2022 (arXiv:2205.05198), Table 5")
    'Korthikanti et al. 2022'
    """
    return source.split(",")[0].split(" (")[0][:60]


# Errors ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Errors:
    """How far predictions are from measurements in a group of rows; fractions."""

    rows: int
    median: float
    p90: float
    worst: float
    bias: float
    """Median of the signed error: negative where runs were slower, or took more memory, than predicted."""
    inside_interval: float | None = None
    """Share of the rows inside the stated interval."""


def errors(values: Iterable[float], inside: Iterable[bool] | None = None) -> Errors | None:
    """Errors of a group; None for an empty one."""
    signed = np.array(list(values), dtype=float)
    if not len(signed):
        return None
    size = np.abs(signed)
    return Errors(
        rows=len(signed),
        median=float(np.median(size)),
        p90=float(np.quantile(size, 0.9)),
        worst=float(size.max()),
        bias=float(np.median(signed)),
        inside_interval=None if inside is None else float(np.mean(list(inside))),
    )
