"""Fitting constants of devices and software to measured runs.

Only what a profile marks as fitted may move, each constant within a prior around its present value: what step times
cannot tell apart stays where kernel and collective measurements have put it. The loss is robust and on the logarithm
of the step time, so that a row ten times as long, or one that is wrong, does not decide.
"""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from clusterplan import step
from clusterplan.arrays import FloatArray, IntArray
from clusterplan.catalog import Catalog
from clusterplan.hardware import Accelerator, Stack
from clusterplan.layer import price_layers
from clusterplan.layout import Cuts, Layouts
from clusterplan.measured import Measured
from clusterplan.stated import layout_of
from clusterplan.trace import KINDS
from clusterplan.units import to_si
from clusterplan.validate import Errors, Judge, errors

NOISE = 0.03
"""Spread of repeated measurements of one configuration, relative (published repeats spread 1.2 to 5.5 %)."""

ROBUST = 3.0
"""Residuals beyond so many standard deviations count less than their square (assumed: the usual choice)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Free:
    """A constant that may move: how far, and how it is scaled."""

    spread: float
    """Standard deviation of the prior, on the scale of the transform."""
    is_share: bool = False
    """Whether it lies between 0 and 1 (log odds) rather than above 0 (logarithm)."""


STACK_FREE: Mapping[str, Free] = {
    "kernel_share": Free(spread=0.05),
    "vector_traffic": Free(spread=0.4),
    "permutation_traffic": Free(spread=0.7),
    "host_s_per_layer": Free(spread=0.5),
    "moe_stall_s_per_layer": Free(spread=0.7),
    "logit_traffic_bytes": Free(spread=0.3),
    "tp_hidden_fraction": Free(spread=1.0, is_share=True),
    "cp_hidden_fraction": Free(spread=1.0, is_share=True),
    "ep_hidden_fraction": Free(spread=1.0, is_share=True),
    "dp_hidden_fraction": Free(spread=1.0, is_share=True),
    "pp_hidden_fraction": Free(spread=1.0, is_share=True),
}
"""Constants of software that step times say something about."""

DEVICE_FREE: Mapping[str, Free] = {
    "gemm_efficiency": Free(spread=0.015),
    "in_training_efficiency": Free(spread=0.015),
    "attention_efficiency": Free(spread=0.04),
}
"""Constants of devices. They hold for all software on a device and kernel measurements say what they are, so they may
move but little: with priors twice as wide, sources that a fit had not seen were predicted worse."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant:
    """One constant of one profile in a fit."""

    record: type[Stack] | type[Accelerator]
    profile: str
    field: str
    part: str = ""
    """Format or kernel, for constants by name."""
    start: float
    free: Free

    @property
    def label(self) -> str:
        """Profile and key, as ``stacks/megatron-core: vector_traffic``."""
        folder = "stacks" if self.record is Stack else "accelerators"
        return f"{folder}/{self.profile}: {self.field}{'.' if self.part else ''}{self.part}"

    def value(self, moved: float) -> float:
        """The constant, ``moved`` standard deviations of its prior away from its start."""
        if self.free.is_share:
            start = min(max(self.start, 0.01), 0.99)
            odds = np.log(start / (1 - start)) + moved * self.free.spread
            return float(1 / (1 + np.exp(-odds)))
        value = self.start * np.exp(moved * self.free.spread)
        return float(min(value, 1.0) if self.field.endswith("_efficiency") else value)


class Changed:
    """A catalog of which some records have other constants."""

    def __init__(self, catalog: Catalog, constants: Sequence[Constant], moved: FloatArray) -> None:
        self._catalog = catalog
        changes: dict[tuple[type, str], dict[str, Any]] = {}
        for constant, by in zip(constants, moved, strict=True):
            fields = changes.setdefault((constant.record, constant.profile), {})
            value = constant.value(float(by))
            if constant.part:
                present = getattr(catalog.load(constant.record, constant.profile), constant.field)
                fields[constant.field] = {**fields.get(constant.field, present), constant.part: value}
            else:
                fields[constant.field] = value
        self._records: dict[tuple[type, str], Any] = {
            (record, name): dataclasses.replace(catalog.load(record, name), **fields)
            for (record, name), fields in changes.items()
        }

    def load(self, record: type[Any], name: str) -> Any:
        """A record, with its changes."""
        return self._records.get((record, name)) or self._catalog.load(record, name)

    def names(self, record: type[Any]) -> Any:
        """Names of the profiles of a kind."""
        return self._catalog.names(record)


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """A row that can be fitted, and the profiles that its time depends on."""

    row: Measured
    measured_s: float
    profiles: frozenset[tuple[type, str]]


def usable(catalog: Catalog, rows: Iterable[Measured]) -> list[Used]:
    """Rows with a measured time and a prediction."""
    judge = Judge(catalog)
    found = []
    for row in rows:
        judged = judge.row(row)
        if judged.skipped or judged.measured_step_s is None or judged.stack is None or judged.stack_assumed:
            continue
        machine, _ = judge.machine(row, [])
        touched = frozenset({(Stack, machine.stack.name), (Accelerator, machine.accelerator.name)})
        found.append(Used(row=row, measured_s=judged.measured_step_s, profiles=touched))
    return found


def constants_of(catalog: Catalog, rows: Sequence[Used]) -> list[Constant]:
    """Constants that may move: those of the profiles that the rows use."""
    found: list[Constant] = []
    profiles = sorted({p for used in rows for p in used.profiles}, key=lambda p: (p[0].__name__, p[1]))
    for record, name in profiles:
        loaded: Any = catalog.load(record, name)
        for figure, free in (STACK_FREE if record is Stack else DEVICE_FREE).items():
            value = getattr(loaded, figure)
            parts = value.items() if isinstance(value, Mapping) else [("", value)]
            found += [
                Constant(record=record, profile=name, field=figure, part=part, start=float(start), free=free)
                for part, start in parts
                if float(start) > 0
            ]
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """Constants after a fit."""

    constants: tuple[Constant, ...]
    moved: FloatArray
    """How far each moved, in standard deviations of its prior."""
    certainty: FloatArray
    """Standard deviation left of each over that of its prior: near 1 where the rows say nothing."""
    rows: tuple[Used, ...]

    @property
    def values(self) -> list[float]:
        """The constants."""
        return [c.value(float(m)) for c, m in zip(self.constants, self.moved, strict=True)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Rows that differ only in their layout: priced together."""

    first: Measured
    """One of them, for what they share."""
    rows: IntArray
    """Their numbers."""
    cuts: Cuts
    layouts: Layouts
    pairs: tuple[tuple[int, int], ...]
    """Pipelines that occur."""
    pipe: IntArray
    """Which of them each row has."""


def batches(catalog: Catalog, rows: Sequence[Used]) -> list[Batch]:
    """Rows grouped by model, sequence, format and machine."""
    judge = Judge(catalog)
    found: dict[str, list[tuple[int, Cuts, Layouts]]] = {}
    for number, used in enumerate(rows):
        machine, _ = judge.machine(used.row, [])
        question = judge.question(used.row, machine, [])
        cuts, layouts = layout_of(used.row, question, [])
        job = dataclasses.replace(question.job, global_batch=1)
        shape = dataclasses.replace(question.model, name="", source="")
        key = repr((shape, job, machine, question.domain_devices))
        found.setdefault(key, []).append((number, cuts, layouts))
    return [_batch(rows, members) for members in found.values()]


def _batch(rows: Sequence[Used], members: list[tuple[int, Cuts, Layouts]]) -> Batch:
    numbers = np.array([number for number, _, _ in members])

    def joined(record: type[Any], tables: list[Any]) -> Any:
        return record(
            **{f.name: np.concatenate([getattr(t, f.name) for t in tables]) for f in dataclasses.fields(record)}
        )

    layouts = joined(Layouts, [table for _, _, table in members])
    pairs = sorted(set(zip(layouts.pp.tolist(), layouts.vpp.tolist(), strict=True)))
    return Batch(
        first=rows[members[0][0]].row,
        rows=numbers,
        cuts=joined(Cuts, [table for _, table, _ in members]),
        layouts=dataclasses.replace(layouts, cut=np.arange(len(members))),
        pairs=tuple(pairs),
        pipe=np.array([pairs.index(p) for p in zip(layouts.pp.tolist(), layouts.vpp.tolist(), strict=True)]),
    )


def log_errors(
    catalog: Catalog, constants: Sequence[Constant], moved: FloatArray, rows: Sequence[Used], groups: Sequence[Batch]
) -> FloatArray:
    """Logarithm of predicted over measured step time, shape ``(row,)``; 0 for rows of no group."""
    judge = Judge(Changed(catalog, constants, moved))  # type: ignore[arg-type]
    logs = np.zeros(len(rows))
    for group in groups:
        machine, _ = judge.machine(group.first, [])
        question = judge.question(group.first, machine, [])
        table = price_layers(question, group.cuts)
        pipes = step.pipelines(question, list(group.pairs))
        stages = step.stage_table(question, table, group.layouts.cut, pipes, group.pipe)
        predicted = step.evaluate(question, group.cuts, table, group.layouts, stages).time.total_s
        logs[group.rows] = np.log(predicted / np.array([rows[int(r)].measured_s for r in group.rows]))
    return logs


def fit(
    catalog: Catalog, rows: Sequence[Used], progress: Callable[[float, str], None] | None = None, rounds: int = 6
) -> Fitted:
    """Move the constants to where rows and priors agree best.

    Parameters
    ----------
    catalog : Catalog
        Profiles with the constants' present values, the means of the priors.
    rows : sequence of Used
        Rows to fit.
    progress : callable
        Told the share that is done.
    rounds : int
        Most evaluations of all the rows with a change of every constant.
    """
    from scipy.optimize import least_squares

    constants = constants_of(catalog, rows)
    groups = batches(catalog, rows)
    touched = [[g for g in groups if (c.record, c.profile) in rows[int(g.rows[0])].profiles] for c in constants]
    weight = _source_weights(rows)
    done = 0

    def residuals(moved: FloatArray) -> FloatArray:
        nonlocal done
        done += 1
        if progress:
            progress(min(done / rounds, 1.0), f"{len(rows)} rows, {len(constants)} constants")
        return _residuals(log_errors(catalog, constants, moved, rows, groups), weight, moved)

    def jacobian(moved: FloatArray) -> FloatArray:
        """One constant at a time, only for the rows that depend on it."""
        base = log_errors(catalog, constants, moved, rows, groups)
        slopes = np.zeros((len(rows) + len(constants), len(constants)))
        for i, own in enumerate(touched):
            nudged = moved.copy()
            nudged[i] += STEP
            there = log_errors(catalog, constants, nudged, rows, own)
            numbers = np.concatenate([g.rows for g in own])
            weighted = _robust(there[numbers] / NOISE) - _robust(base[numbers] / NOISE)
            slopes[numbers, i] = weight[numbers] * weighted / STEP
            slopes[len(rows) + i, i] = 1.0
        return slopes

    start = np.zeros(len(constants))
    result = least_squares(residuals, start, jac=jacobian, bounds=(-4, 4), max_nfev=rounds, x_scale=1.0)
    slopes = np.asarray(result.jac)
    information = slopes.T @ slopes
    spread = np.sqrt(np.clip(np.diag(np.linalg.inv(information)), 0, 1))
    return Fitted(constants=tuple(constants), moved=result.x, certainty=spread, rows=tuple(rows))


STEP = 0.05
"""Step of the numerical slopes, in standard deviations of the prior."""


def _robust(scaled: FloatArray) -> FloatArray:
    """Residuals whose squares are those of a smooth absolute value beyond :data:`ROBUST`."""
    return np.sign(scaled) * np.sqrt(2 * ROBUST**2 * (np.sqrt(1 + (scaled / ROBUST) ** 2) - 1))


def _residuals(logs: FloatArray, weight: FloatArray, moved: FloatArray) -> FloatArray:
    return np.concatenate([weight * _robust(logs / NOISE), moved])


def _source_weights(rows: Sequence[Used]) -> FloatArray:
    """A source weighs as much as the root of its rows, so that a long table does not outvote several short ones."""
    names = [source_of(used.row) for used in rows]
    counts = {name: names.count(name) for name in set(names)}
    return np.array([1 / np.sqrt(np.sqrt(counts[name])) for name in names])


def source_of(row: Measured) -> str:
    """Source without the table: rows of one source are held out together."""
    return row.source.split(":")[0].split(",")[0].split(" (")[0].split(" README")[0].strip()


# One level for all ----------------------------------------------------------------------------------------------------

LEVEL_SPREAD = 0.2
"""Standard deviation of the prior of a level's two common factors, logarithmic: weak, as hundreds of rows decide."""

OWN_SPREAD = 0.05
"""How far software's own level of products is from the common one, logarithmic (assumed)."""

STALL_S = 2e-3
"""assumed: prior of the wait of a layer with experts, wide: some hundred launches of 5 to 10 µs, a copy to the host."""

STALL_SPREAD = 0.7
"""Standard deviation of that prior, logarithmic, and of that of software's own wait around the common one."""

OWN_ROWS = 6
"""Software with fewer runs has the common level."""


SAME_CODE: Mapping[str, str] = dict.fromkeys(
    ("megatron-core", "megatron-bridge", "megatron-bridge-2026", "hai-llm"), "nemo"
)
"""Software that shares its fitted constants with other software, or is assumed to, and so its level."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """A few factors for all: what whole runs take beyond what their parts were measured to take."""

    products: float
    """Time of products and attention, over what the constants of devices give."""
    vectors: float
    """Time of memory-bound work in all software, over that with the constants as they were."""
    products_of: Mapping[str, float]
    """The first for software of which enough runs are there, by its name."""
    stall_s: float = STALL_S
    """Wait of a layer with experts for the host, in all software that waits. [s]"""
    stalls_of: Mapping[str, float] = field(default_factory=dict)
    """The same for software of which enough runs with experts are there, by its name. [s]"""

    def value(self, constant: Constant) -> float:
        """What a constant becomes."""
        if constant.field == "vector_traffic":
            return constant.start * self.vectors
        if constant.field == "moe_stall_s_per_layer":
            return self.stalls_of.get(constant.profile, self.stall_s)
        return 1 / self.products_of.get(constant.profile, self.products)


def levelled(catalog: Catalog) -> list[Constant]:
    """The constants that a level sets, of all software."""
    return [
        Constant(record=Stack, profile=name, field=figure, start=float(getattr(stack, figure)), free=STACK_FREE[figure])
        for name in catalog.names(Stack)
        for stack in [catalog.load(Stack, name)]
        for figure in ("kernel_share", "vector_traffic", "moe_stall_s_per_layer")
        if getattr(stack, figure) > 0
    ]


def level_moves(constants: Sequence[Constant], level: Level) -> FloatArray:
    """How far a level moves each constant, in standard deviations of its prior."""
    return np.array([np.log(level.value(c) / c.start) / c.free.spread for c in constants])


Fitting = Callable[[Level, Sequence[Batch], FloatArray], FloatArray]
"""Residuals of groups of rows under a level, with those of the priors, which are given in standard deviations."""


def fit_level(catalog: Catalog, rows: Sequence[Used], progress: Callable[[float, str], None] | None = None) -> Level:
    """The level of whole runs, first one for all software, then that of each with enough runs.

    Products and vectors come from dense models, which have nothing else; then mixtures of experts say how long their
    layers wait. Every row counts alike. What no run speaks of gets the common level.
    """
    constants, groups = levelled(catalog), batches(catalog, rows)

    def residuals(level: Level, chosen: Sequence[Batch], away: FloatArray) -> FloatArray:
        if progress:
            progress(0.0, f"{level}")
        numbers = np.concatenate([g.rows for g in chosen])
        logs = log_errors(catalog, constants, level_moves(constants, level), rows, chosen)[numbers]
        return _residuals(logs, np.ones(len(numbers)), away)

    level = _products([g for g in groups if g.first.family != "moe"], rows, residuals)
    waiting = {c.profile for c in constants if c.field == "moe_stall_s_per_layer"}
    with_experts = [g for g in groups if g.first.family == "moe" and _software(g, rows) in waiting]
    return _stalls(level, with_experts, rows, residuals) if with_experts else level


def _software(group: Batch, rows: Sequence[Used]) -> str:
    (name,) = [name for record, name in rows[int(group.rows[0])].profiles if record is Stack]
    return name


def _by_code(groups: Sequence[Batch], rows: Sequence[Used]) -> Iterable[tuple[list[str], list[Batch]]]:
    """Names of software that has one level, and its groups, where enough runs are there."""
    found: dict[str, list[Batch]] = {}
    for group in groups:
        name = _software(group, rows)
        found.setdefault(SAME_CODE.get(name, name), []).append(group)
    for code, chosen in sorted(found.items()):
        if sum(len(g.rows) for g in chosen) >= OWN_ROWS:
            yield [code, *(name for name, other in SAME_CODE.items() if other == code)], chosen


def _least(residuals: Callable[[FloatArray], FloatArray], size: int, most: float) -> FloatArray:
    """Factors, up to the exponential of ``most`` and down to its inverse, that make residuals of logarithms least."""
    from scipy.optimize import least_squares

    found = least_squares(residuals, np.zeros(size), bounds=(-most, most), diff_step=[0.01] * size, xtol=1e-3)
    return np.exp(found.x)


MOST_LEVEL, MOST_STALL = 0.7, 2.0
"""Bounds of factors, logarithmic: far beyond what software was ever found to differ."""


def _products(groups: Sequence[Batch], rows: Sequence[Used], residuals: Fitting) -> Level:
    """Level of products and vectors."""

    def of_all(logs: FloatArray) -> FloatArray:
        products, vectors = np.exp(logs)
        return residuals(Level(products=products, vectors=vectors, products_of={}), groups, logs / LEVEL_SPREAD)

    products, vectors = (float(factor) for factor in _least(of_all, 2, MOST_LEVEL))
    level = Level(products=products, vectors=vectors, products_of={})
    own = _own(level, "products_of", products, _by_code(groups, rows), residuals, OWN_SPREAD, MOST_LEVEL)
    return dataclasses.replace(level, products_of=own)


def _stalls(level: Level, groups: Sequence[Batch], rows: Sequence[Used], residuals: Fitting) -> Level:
    """Waits of layers with experts, products and vectors being known."""

    def of_all(log: FloatArray) -> FloatArray:
        tried = dataclasses.replace(level, stall_s=STALL_S * float(np.exp(log[0])))
        return residuals(tried, groups, log / STALL_SPREAD)

    common = dataclasses.replace(level, stall_s=STALL_S * float(_least(of_all, 1, MOST_STALL)[0]))
    codes = _by_code(groups, rows)
    own = _own(common, "stalls_of", common.stall_s, codes, residuals, STALL_SPREAD, MOST_STALL)
    return dataclasses.replace(common, stalls_of=own)


def _own(
    level: Level,
    figure: str,
    common: float,
    codes: Iterable[tuple[list[str], list[Batch]]],
    residuals: Fitting,
    spread: float,
    most: float,
) -> dict[str, float]:
    """One figure of a level by software: each code's own, within a prior around the common value."""
    own: dict[str, float] = {}
    for names, chosen in codes:

        def of_one(log: FloatArray, names: list[str] = names, chosen: list[Batch] = chosen) -> FloatArray:
            tried: Any = {figure: dict.fromkeys(names, common * float(np.exp(log[0])))}
            return residuals(dataclasses.replace(level, **tried), chosen, log / spread)

        own |= dict.fromkeys(names, common * float(_least(of_one, 1, most)[0]))
    return own


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOut:
    """Errors of rows that a fit did not see."""

    rows: tuple[Used, ...]
    errors_before: tuple[float, ...]
    """Predicted over measured step time of each row, less 1, with the constants as they were."""
    errors_after: tuple[float, ...]
    """The same with constants fitted to other sources."""

    @property
    def before(self) -> Errors | None:
        """Errors with the constants as they were."""
        return errors(self.errors_before)

    @property
    def after(self) -> Errors | None:
        """Errors with constants fitted to other sources."""
        return errors(self.errors_after)


Fit = Callable[[Catalog, Sequence[Used]], tuple[Sequence[Constant], FloatArray]]
"""Gives constants and how far each moves, from rows."""


def all_constants(catalog: Catalog, rows: Sequence[Used]) -> tuple[Sequence[Constant], FloatArray]:
    """Every constant within its prior, as :func:`fit` moves them."""
    fitted = fit(catalog, rows)
    return fitted.constants, fitted.moved


def one_level(catalog: Catalog, rows: Sequence[Used]) -> tuple[Sequence[Constant], FloatArray]:
    """A level, of all software, that which the rows do not use as well."""
    constants = levelled(catalog)
    return constants, level_moves(constants, fit_level(catalog, rows))


def cross_validated(
    catalog: Catalog,
    rows: Sequence[Used],
    folds: int = 5,
    progress: Callable[[float, str], None] | None = None,
    fitting: Fit = all_constants,
) -> HeldOut:
    """Errors of every row under constants that were fitted without its source."""
    names = sorted({source_of(used.row) for used in rows}, key=lambda n: (-sum(source_of(u.row) == n for u in rows), n))
    fold_of = {name: i % folds for i, name in enumerate(names)}
    seen: list[Used] = []
    before: list[float] = []
    after: list[float] = []
    for fold in range(min(folds, len(names))):
        inside = [u for u in rows if fold_of[source_of(u.row)] != fold]
        outside = [u for u in rows if fold_of[source_of(u.row)] == fold]
        if not inside or not outside:
            continue
        constants, moved = fitting(catalog, inside)
        groups = batches(catalog, outside)
        seen += outside
        before += list(np.expm1(log_errors(catalog, constants, 0 * moved, outside, groups)))
        after += list(np.expm1(log_errors(catalog, constants, moved, outside, groups)))
        if progress:
            progress((fold + 1) / folds, f"held out {fold + 1} of {folds}")
    return HeldOut(rows=tuple(seen), errors_before=tuple(before), errors_after=tuple(after))


def fit_errors(catalog: Catalog, fitted: Fitted) -> tuple[Errors | None, Errors | None]:
    """Errors of the fitted rows with the constants as they were, and as they are."""
    groups = batches(catalog, fitted.rows)
    none = np.zeros(len(fitted.constants))
    logs = [log_errors(catalog, fitted.constants, moved, fitted.rows, groups) for moved in (none, fitted.moved)]
    return errors(np.expm1(logs[0])), errors(np.expm1(logs[1]))


# Writing --------------------------------------------------------------------------------------------------------------

DETERMINED = 0.7
"""A constant whose uncertainty fell below this share of its prior's is called determined by the rows."""


def profiles(catalog: Catalog, fitted: Fitted, suffix: str, source: str) -> dict[str, dict[str, Any]]:
    """Profiles with the fitted constants, under names of their own, as TOML content by folder and name.

    Parameters
    ----------
    catalog : Catalog
        Where the profiles were found.
    fitted : Fitted
        The constants.
    suffix : str
        What is added to the names: a second profile of a name is an error.
    source : str
        Who says so, for the fitted figures.
    """
    changes: dict[tuple[type[Stack] | type[Accelerator], str], list[tuple[Constant, float]]] = {}
    for constant, value in zip(fitted.constants, fitted.values, strict=True):
        changes.setdefault((constant.record, constant.profile), []).append((constant, value))
    written: dict[str, dict[str, Any]] = {}
    for (record, name), moved in changes.items():
        content = tomllib.loads(catalog.path(record, name).read_text(encoding="utf-8"))
        kept = _without(content, {c.field for c, _ in moved})
        figures: dict[str, Any] = {}
        for constant, value in moved:
            if constant.part:
                figures.setdefault(constant.field, {})[constant.part] = round(value, 5)
            else:
                figures[constant.field] = round(value, 8)
        tables = kept.get("fitted", [])
        kept["fitted"] = [*(tables if isinstance(tables, list) else [tables]), {"source": source, **figures}]
        kept["name"] = f"{name}{suffix}"
        for key in ("aliases", "plain", "system"):  # what a table or a user calls it stays with the other
            kept.pop(key, None)
        if record is Accelerator:
            kept["is_measured"] = any((record, name) in used.profiles for used in fitted.rows)
        folder = "stacks" if record is Stack else "accelerators"
        written[f"{folder}/{name}{suffix}.toml"] = kept
    return written


def _without(content: Mapping[str, Any], names: set[str]) -> dict[str, Any]:
    """The content of a profile without some of its figures; tables that are left empty go too."""
    kept: dict[str, Any] = {}
    for key, value in content.items():
        if key not in KINDS:
            kept[key] = value
            continue
        tables = value if isinstance(value, list) else [value]
        rest = [{k: v for k, v in t.items() if k == "source" or to_si(k, 1.0)[0] not in names} for t in tables]
        rest = [t for t in rest if len(t) > 1]
        if rest:
            kept[key] = rest
    return kept


def write(contents: Mapping[str, Mapping[str, Any]], directory: Path, *, force: bool) -> list[str]:
    """Write profiles into a directory; returns their files."""
    import tomli_w

    from clusterplan.files import write_atomically

    files = []
    for name, content in sorted(contents.items()):
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, tomli_w.dumps(content), force=force)
        files.append(str(path))
    return files
