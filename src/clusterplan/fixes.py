"""What would make a layout need less memory, one change at a time, and what each change costs in time."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from clusterplan import shapes, step
from clusterplan.arrays import IntArray
from clusterplan.formulas import memory
from clusterplan.layer import Question, price_layers
from clusterplan.layout import (
    OFFLOAD,
    RECOMPUTE,
    SCHEDULES,
    SHARDING,
    Cuts,
    Layouts,
    Recomputation,
    broken_cut_rules,
    broken_layout_rules,
    largest_stage,
    stage_devices,
)

MOST = 6
"""Changes that are told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fix:
    """One change on the same devices, with the same batch."""

    change: str
    """As an option of the command line, ``--pp 32``, or a variable of the job's environment."""
    peak_bytes: float
    """Memory of the heaviest device after it. [byte]"""
    saved_bytes: float
    """How much less that is. [byte]"""
    step_s: float
    """Length of a step after it. [s]"""
    slower_fraction: float
    """How much longer that is, relative; negative if it is shorter."""
    fits: bool
    """Whether it is enough by itself."""


def fixes(question: Question, cuts: Cuts, layouts: Layouts) -> tuple[Fix, ...]:
    """Changes of one layout that save memory, those that are enough by themselves first, then by time.

    Parameters
    ----------
    question : Question
        Model, job and machine.
    cuts, layouts : Cuts, Layouts
        The layout, as tables with one row.
    """
    usable = usable_bytes(question)
    before_bytes, before_s = _measure(question, cuts, layouts)
    tried = [(change, question, *tables) for change, tables in _legal(question, cuts, layouts)]
    tried += [(change, other, cuts, layouts) for change, other in _allocator(question)]
    found = []
    for change, asked, changed_cuts, changed_layouts in tried:
        peak, step_s = _measure(asked, changed_cuts, changed_layouts)
        if peak < before_bytes:
            found.append(
                Fix(
                    change=change,
                    peak_bytes=peak,
                    saved_bytes=before_bytes - peak,
                    step_s=step_s,
                    slower_fraction=step_s / before_s - 1,
                    fits=peak <= usable,
                )
            )
    return tuple(sorted(found, key=lambda f: (not f.fits, f.step_s if f.fits else f.peak_bytes)))[:MOST]


def usable_bytes(question: Question) -> float:
    """Memory that a safe plan may fill. [byte]"""
    machine = question.machine
    return float(memory.usable_bytes(machine.accelerator.memory_bytes, machine.stack.margin_fraction))


def _allocator(question: Question) -> Iterator[tuple[str, Question]]:
    """The allocator's option against fragmentation, where the software has one."""
    stack = question.machine.stack
    if stack.defragmented_fraction is not None and stack.defragmented_fraction < stack.fragmentation_fraction:
        settled = dataclasses.replace(stack, fragmentation_fraction=stack.defragmented_fraction)
        machine = dataclasses.replace(question.machine, stack=settled)
        yield "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True", dataclasses.replace(question, machine=machine)


def _measure(question: Question, cuts: Cuts, layouts: Layouts) -> tuple[float, float]:
    """Memory of the heaviest device and length of a step."""
    table = price_layers(question, cuts)
    stages = step.one_stage_table(question, table, layouts)
    held = step.stage_memory(question, cuts, layouts, stages)
    result = step.evaluate(question, cuts, table, layouts, stages)
    return float(held.total_bytes.max()), float(result.time.total_s[0])


def _legal(question: Question, cuts: Cuts, layouts: Layouts) -> Iterator[tuple[str, tuple[Cuts, Layouts]]]:
    """Changes after which the layout is still a legal one."""
    limits = dataclasses.replace(
        shapes.limits(question.model, question.job, question.machine.stack),
        batch_low=None,
        batch_fixed=True,
        batch_target=int(layouts.global_batch[0]),
    )
    for change, new_cuts, new_layouts in _changes(question, cuts, layouts):
        rules = {**broken_cut_rules(new_cuts, limits), **broken_layout_rules(new_layouts, new_cuts, limits)}
        if not any(mask[0] for mask in rules.values()):
            yield change, (new_cuts, new_layouts)


def _changes(question: Question, cuts: Cuts, layouts: Layouts) -> Iterator[tuple[str, Cuts, Layouts]]:
    """One change each: deeper cuts on the same devices, smaller micro-batches, recompute, sharding, host memory."""
    stack = question.machine.stack
    for name in ("tp", "cp", "ep"):
        doubled = 2 * int(getattr(cuts, name)[0])
        deeper: dict[str, Any] = {name: _one(doubled)}
        new_cuts = dataclasses.replace(cuts, **deeper)
        if name == "tp" and int(cuts.etp[0]) > 1:
            new_cuts = dataclasses.replace(new_cuts, etp=_one(doubled))
        fewer = layouts if name == "ep" else _halved(layouts)
        if fewer is not None:
            yield f"--{name} {doubled}", new_cuts, fewer
    fewer = _halved(layouts)
    if fewer is not None:
        pp = 2 * int(layouts.pp[0])
        vpp = max(int(layouts.vpp[0]) // 2, 1)
        longer = dataclasses.replace(fewer, pp=_one(pp), vpp=_one(vpp), schedule=_one(_schedule(pp, vpp)))
        yield f"--pp {pp}" + (f" --vpp {vpp}" if vpp != int(layouts.vpp[0]) else ""), cuts, longer
    if int(cuts.micro_batch[0]) > 1:
        half = int(cuts.micro_batch[0]) // 2
        yield f"--micro-batch {half}", dataclasses.replace(cuts, micro_batch=_one(half)), layouts
    if int(layouts.vpp[0]) > 1:
        pp = int(layouts.pp[0])
        plain = dataclasses.replace(layouts, vpp=_one(1), schedule=_one(_schedule(pp, 1)))
        yield "--vpp 1", cuts, plain
    most = int(largest_stage(question.model.layers, layouts.pp, layouts.vpp, question.end_layers)[0])
    for mode in stack.recompute:
        if RECOMPUTE.index(mode) > int(cuts.recompute[0]):
            text = f"block:{_least_block(question, cuts, layouts, most)}" if mode == "block" else mode
            yield f"--recompute {text}", dataclasses.replace(cuts, **Recomputation.parse(text).columns(most)), layouts
    if int(stage_devices(layouts, cuts)[0]) > 1:
        for name in stack.sharding:
            if name in SHARDING and SHARDING.index(name) > int(layouts.sharding[0]):
                wider = dataclasses.replace(layouts, sharding=_one(SHARDING.index(name)))
                yield f"--sharding {name}", cuts, wider
    for index, what in enumerate(OFFLOAD):
        if index > int(layouts.offload[0]) and question.machine.why_not_offloaded(what) is None:
            yield f"--offload {what}", cuts, dataclasses.replace(layouts, offload=_one(index))


def _least_block(question: Question, cuts: Cuts, layouts: Layouts, most: int) -> int:
    """Fewest layers of a stage that must run again for all to fit, or all but one if that is not enough."""
    usable = usable_bytes(question)
    low, high = 1, max(most - 1, 1)
    while low < high:
        middle = (low + high) // 2
        columns = Recomputation(mode="block", layers=middle).columns(most)
        peak, _ = _measure(question, dataclasses.replace(cuts, **columns), layouts)
        low, high = (low, middle) if peak <= usable else (middle + 1, high)
    return low


def _halved(layouts: Layouts) -> Layouts | None:
    """Half the replicas, to make room for a group twice as large; None if there is but one."""
    dp = int(layouts.dp[0])
    return None if dp % 2 else dataclasses.replace(layouts, dp=_one(dp // 2))


def _schedule(pp: int, vpp: int) -> int:
    return SCHEDULES.index("none" if pp == 1 else "interleaved" if vpp > 1 else "1f1b")


def _one(value: int) -> IntArray:
    return np.array([value], dtype=np.int64)


def least_recompute(question: Question, cuts: Cuts, layouts: Layouts, margin_fraction: float) -> tuple[str, Cuts, bool]:
    """The mode that runs least again of those with which a layout fits, the cut with it, and whether there is one.

    Parameters
    ----------
    cuts, layouts : Cuts, Layouts
        One layout, as tables with one row.
    margin_fraction : float
        Share of the device memory that has to stay free.
    """
    stack, accelerator = question.machine.stack, question.machine.accelerator
    most = int(largest_stage(question.model.layers, layouts.pp, layouts.vpp, question.end_layers)[0])
    texts: list[str] = []
    for mode in stack.recompute:
        texts += [f"block:{n}" for n in range(1, most)] if mode == "block" else [mode]
    columns = [Recomputation.parse(text).columns(most) for text in texts]
    rows = np.arange(len(texts))
    tried = dataclasses.replace(
        cuts.take(0 * rows), **{name: np.concatenate([one[name] for one in columns]) for name in columns[0]}
    )
    tables = dataclasses.replace(layouts.take(0 * rows), cut=rows)
    pipes = step.pipelines(question, [(int(layouts.pp[0]), int(layouts.vpp[0]))], every=True)
    stages = step.stage_table(question, price_layers(question, tried), rows, pipes, 0 * rows)
    peak = step.stage_memory(question, tried, tables, stages).total_bytes.max(axis=1)
    fits = peak <= memory.usable_bytes(accelerator.memory_bytes, margin_fraction)
    row = int(np.argmax(fits)) if fits.any() else tried.size - 1
    return texts[row], tried.take(rows[row : row + 1]), bool(fits.any())
