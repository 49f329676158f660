"""Predictions beside measured runs: time and memory of each row, and how right they are by source.

Nothing is fitted here. What a row leaves blank is taken from the software's defaults and named in ``inferred``; a row
whose shape or batch is not known is skipped, with the reason.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np

from clusterplan import step
from clusterplan.arrays import IntArray
from clusterplan.catalog import Catalog
from clusterplan.choose import MARGIN_STEP, USEFUL_MARGIN
from clusterplan.errors import ClusterplanError
from clusterplan.formulas import memory
from clusterplan.hardware import Accelerator, Fabric, Machine, Stack, System
from clusterplan.layer import Question, price_layers
from clusterplan.layout import (
    RECOMPUTE,
    SCHEDULES,
    SHARDING,
    Cuts,
    Layouts,
    Recomputation,
    broken_cut_rules,
    broken_layout_rules,
    largest_stage,
)
from clusterplan.measured import Measured
from clusterplan.plan import verdict
from clusterplan.shapes import limits
from clusterplan.units import BYTES_PER_GIB
from clusterplan.workload import Attention, Experts, Format, Job, Model

FORMATS = {"mxfp8": "fp8", "nvfp4": "fp4", "fp32": "", **{name: name for name in get_args(Format)}}
"""Formats of tables as formats of ours; the empty one is not modelled."""

UNKNOWN_STACK = "megatron-core"
"""Software that an unknown framework is taken for."""

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


class SkipError(Exception):
    """A row that cannot be judged; the reason is its text."""


class Judge:
    """Turns measured runs into questions and answers them."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self.stacks = [catalog.load(Stack, name) for name in catalog.names(Stack)]
        self.models = [catalog.load(Model, name) for name in catalog.names(Model)]
        systems = [catalog.load(System, name) for name in catalog.names(System)]
        self.systems: dict[str, System] = {system.name.lower(): system for system in systems}
        self.unclear: dict[str, list[str]] = {}
        """Names of devices that several systems have, none of them the usual one."""
        having: dict[str, list[str]] = {}
        for system in systems:
            having.setdefault(system.accelerator, []).append(system.name)
        for device in (catalog.load(Accelerator, name) for name in catalog.names(Accelerator)):
            meant = [device.system] if device.system else having.get(device.name, [])
            for alias in (device.name.lower(), *map(str.lower, device.aliases)):
                if len(meant) == 1:
                    self.systems.setdefault(alias, catalog.load(System, meant[0]))
                elif meant:
                    self.unclear.setdefault(alias, meant)

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

    def stack(self, row: Measured) -> tuple[Stack, bool]:
        """Software of a row, and whether it is only assumed: the longest name that the row's framework contains."""
        words = (row.framework or "").lower()
        named = [(len(w), s.name, s) for s in self.stacks for w in s.frameworks if w in words]
        if named:
            return max(named)[2], False
        return self.catalog.load(Stack, UNKNOWN_STACK), True

    def machine(self, row: Measured, inferred: list[str]) -> tuple[Machine, bool]:
        """Hardware and software of a row, with the network that it states."""
        system = self.systems.get((row.accelerator or "").lower())
        if system is None:
            having = self.unclear.get((row.accelerator or "").lower())
            if having:
                raise SkipError(f"{row.accelerator} may be any of {', '.join(having)}")
            raise SkipError(f"no profile of accelerator {row.accelerator}")
        stack, assumed = self.stack(row)
        if assumed:
            inferred.append(f"framework: {stack.name}")
        changes: dict[str, Any] = {}
        if row.scaleup_domain and row.scaleup_domain != system.scaleup_devices:
            changes["scaleup_devices"] = row.scaleup_domain
        if row.scaleup_gb_s:
            changes["scaleup_bytes_per_s"] = row.scaleup_gb_s * 1e9
        fabric = self.catalog.load(Fabric, system.fabric)
        if row.scaleout_gbit_s:
            rate = row.scaleout_gbit_s * 1e9 / 8
            changes["scaleout_bytes_per_s"] = rate
            fabric = dataclasses.replace(fabric, port_bytes_per_s=max(rate, fabric.port_bytes_per_s))
        elif (row.accelerators or 0) > (row.scaleup_domain or system.scaleup_devices):
            inferred.append(f"scaleout_gbit_s: {system.scaleout_bytes_per_s * 8 / 1e9:.0f}")
        if row.attention == "naive":
            stack = dataclasses.replace(stack, attention_kernels=("eager",))
        elif row.attention == "flash" and stack.attention_kernels[0] == "eager":
            stack = dataclasses.replace(stack, attention_kernels=("flash2", "cudnn"))
        if row.sp is None and (row.tp or 1) > 1:
            inferred.append(f"sp: {str(stack.sequence_parallel).lower()}")
        if row.sp is not None and (row.tp or 1) > 1:
            stack = dataclasses.replace(stack, sequence_parallel=row.sp)
        accelerator = self.catalog.load(Accelerator, system.accelerator)
        return (
            Machine(
                system=dataclasses.replace(system, **changes),
                accelerator=accelerator,
                fabric=fabric,
                stack=stack.training(is_moe=row.family == "moe").on(accelerator),
            ),
            assumed,
        )

    def question(self, row: Measured, machine: Machine, inferred: list[str]) -> Question:
        """Model, job and machine of a row."""
        precision = FORMATS.get(row.precision or "bf16", "")
        if row.precision is None:
            inferred.append("precision: bf16")
        if precision == "fp16" and not machine.accelerator.fp16_flop_per_s:
            precision = "bf16"  # 16-bit formats run alike
        if precision not in machine.accelerator.gemm_efficiency and precision == "fp16":
            precision = "bf16"
        if not machine.accelerator.peak_flop_per_s(precision) or precision not in machine.accelerator.gemm_efficiency:
            raise SkipError(f"no product efficiency of {machine.accelerator.name} in {row.precision}")
        job = Job(
            tokens=1e12,
            seq_len=_given(row, "seq_len"),
            global_batch=_given(row, "global_batch"),
            batch_fixed=True,
            precision=precision,
        )
        model = model_of(row)
        known = next((m for m in self.models if is_shape_of(m, model)), None)
        if known is not None:
            # Columns tell no latent attention, window or token prediction; a model that has just these figures does.
            if (known.every_layer, known.mtp_layers) != (model.every_layer, 0):
                inferred.append(f"layers: those of {known.name}")
            model = dataclasses.replace(known, tied_embeddings=model.tied_embeddings)
        return Question(
            model=model,
            job=job,
            machine=machine,
            domain_devices=machine.system.domain_of(_given(row, "accelerators")),
        )


MOST: Mapping[str, int] = {
    **dict.fromkeys(("layers", "pp", "vpp", "dense_layers", "top_k", "shared_experts"), 10_000),
    **dict.fromkeys(("hidden", "heads", "kv_heads", "head_dim", "ffn", "moe_ffn", "experts", "micro_batch"), 10**6),
    **dict.fromkeys(("scaleup_domain", "tp", "cp", "ep", "etp", "vocab", "seq_len"), 2**24),
    **dict.fromkeys(("accelerators", "global_batch"), 10**9),
}
"""Assumed: no run has more of these; a slip of the pen is named before it fills the memory."""


RANGES: Mapping[str, tuple[float, float]] = {
    "scaleup_gb_s": (1e-3, 1e6),
    "scaleout_gbit_s": (1e-3, 1e6),
    "measured_step_s": (1e-6, 1e9),
    "peak_mem_gib": (1e-6, 1e6),
}
"""Assumed: the same for what is measured. 0 is not stated."""


def refuse_implausible(row: Measured) -> None:
    """A SkipError that names what cannot be."""
    for name, most in MOST.items():
        value = getattr(row, name)
        if value is not None and value > most:
            raise SkipError(f"{name} is more than {most:,}")
    for name, (least, largest) in RANGES.items():
        value = getattr(row, name)
        if value and not least <= value <= largest:
            raise SkipError(f"{name} is not between {least:g} and {largest:g}")
    if row.layers and (row.pp or 1) * (row.vpp or 1) > 2 * row.layers:
        raise SkipError("pp × vpp is far more than layers")
    if row.heads and row.hidden and not row.head_dim and row.hidden < row.heads:
        raise SkipError("hidden is less than heads")
    if row.top_k and row.experts and row.top_k > row.experts:
        raise SkipError("top_k is more than experts")


def _given(row: Measured, name: str) -> int:
    value = getattr(row, name)
    if not value:
        raise SkipError(f"{name} is not stated")
    return int(value)


def model_of(row: Measured) -> Model:
    """Shape of a row's model."""
    heads = _given(row, "heads")
    hidden = _given(row, "hidden")
    moe = None
    if row.family == "moe":
        width = row.moe_ffn or _given(row, "ffn")
        moe = Experts(
            experts=_given(row, "experts"),
            top_k=_given(row, "top_k"),
            ffn=width,
            shared_ffn=width * (row.shared_experts or 0),
            dense_layers=row.dense_layers or 0,
        )
    if row.ffn is None and (moe is None or moe.dense_layers):
        raise SkipError("ffn is not stated")
    return Model(
        name=row.model or row.id,
        source=row.source,
        layers=_given(row, "layers"),
        hidden=hidden,
        vocab=_given(row, "vocab"),
        ffn=row.ffn or 0,
        gated_mlp=bool(row.gated_mlp),
        tied_embeddings=bool(row.tied_embeddings),
        attention=Attention(heads=heads, kv_heads=row.kv_heads or heads, head_dim=row.head_dim or hidden // heads),
        moe=moe,
    )


def is_shape_of(model: Model, stated: Model) -> bool:
    """Whether a model is what a table of runs can say only in part: latent attention, windows, groups of experts."""
    mixture = stated.moe
    return (model.layers, model.hidden, model.vocab, model.dense_layers, model.is_moe) == (
        stated.layers,
        stated.hidden,
        stated.vocab,
        stated.dense_layers,
        stated.is_moe,
    ) and all(
        layer.attention is not None
        and stated.attention is not None
        and (layer.attention.heads, layer.attention.kv_heads) == (stated.attention.heads, stated.attention.kv_heads)
        and (not layer.ffn or layer.ffn == stated.ffn)
        and (
            layer.moe is None
            or mixture is None
            or (layer.moe.experts, layer.moe.top_k, layer.moe.ffn, layer.moe.shared_ffn)
            == (mixture.experts, mixture.top_k, mixture.ffn, mixture.shared_ffn)
        )
        for layer in model.every_layer
    )


def _recompute(row: Measured, inferred: list[str]) -> Recomputation:
    try:
        return Recomputation.parse(row.recompute or "")
    except ClusterplanError:
        inferred.append("recompute: none")
        return Recomputation(mode="none")


def _sharding(row: Measured, stack: Stack, inferred: list[str]) -> str:
    if row.sharding in SHARDING:
        return row.sharding
    inferred.append(f"sharding: {stack.default_sharding[0]}")
    return stack.default_sharding[0]


def layout_of(row: Measured, question: Question, inferred: list[str]) -> tuple[Cuts, Layouts]:
    """The row's layout as tables with one row."""
    stack = question.machine.stack
    tp, pp, vpp, cp, ep = (getattr(row, name) or 1 for name in ("tp", "pp", "vpp", "cp", "ep"))
    devices, micro_batch = _given(row, "accelerators"), _given(row, "micro_batch")
    dp, rest = divmod(devices, tp * pp * cp)
    if rest or not dp:
        raise SkipError(f"{devices} devices are no multiple of tp × pp × cp = {tp * pp * cp}")
    is_moe = question.model.is_moe
    etp = (row.etp or (1 if ep > 1 or stack.expert_tensor_parallel else tp)) if is_moe else 1
    if row.vpp is None and pp > 1:
        inferred.append("vpp: 1")

    def one(value: int) -> IntArray:
        return np.array([value], dtype=np.int64)

    schedule = "none" if pp == 1 else "interleaved" if vpp > 1 else "1f1b"
    if schedule == "1f1b" and stated_schedule(row) in SCHEDULES:
        schedule = str(stated_schedule(row))
    if stated_schedule(row) not in (None, "1f1b", "1f1b-i", schedule):
        inferred.append(f"schedule: {schedule}")
    cuts = Cuts(
        tp=one(tp),
        cp=one(cp),
        ep=one(ep if is_moe else 1),
        etp=one(etp),
        micro_batch=one(micro_batch),
        **_recompute(row, inferred).columns(int(largest_stage(question.model.layers, one(pp), one(vpp))[0])),
    )
    layouts = Layouts(
        cut=one(0),
        pp=one(pp),
        vpp=one(vpp if pp > 1 else 1),
        dp=one(dp),
        sharding=one(SHARDING.index(_sharding(row, stack, inferred))),
        schedule=one(SCHEDULES.index(schedule)),
        offload=one(0),
        placement=one(0),
        shard_group=one(row.shard_group or 0 if row.sharding == "hsdp" else 0),
        global_batch=one(question.job.global_batch),
        bought_devices=one(devices),
    )
    # What a published run did was possible, whatever reach a profile states; only arithmetic is checked.
    allowed = dataclasses.replace(
        limits(question.model, question.job, stack),
        max_tp=tp, max_pp=pp, max_cp=cp, max_ep=ep, uneven_pipeline=True, expert_tensor_parallel=True,
    )  # fmt: skip
    rules = {**broken_cut_rules(cuts, allowed), **broken_layout_rules(layouts, cuts, allowed)}
    broken = [name for name, mask in rules.items() if mask[0] and name not in LENIENT]
    if broken:
        raise SkipError(f"not possible as stated: {', '.join(broken)}")
    return cuts, layouts


def preference(cuts: Cuts, layouts: Layouts, free_fraction: float) -> tuple[float, ...]:
    """What settles ties between layouts, least first, for a table with one row; as the search does it."""
    margin = np.floor(min(free_fraction, USEFUL_MARGIN) / MARGIN_STEP)
    groups = cuts.tp[0] * cuts.cp[0] * layouts.pp[0] * cuts.ep[0]
    return (-float(margin), float(cuts.recompute[0]), float(cuts.recomputed[0]), float(groups))


LENIENT = ("interleaving divides micro-batches by pp", "sequence divides by 2 × cp × tp", "a layer for each stage")
"""Rules of some software that published runs of other software need not keep."""


def stated_schedule(row: Measured) -> str | None:
    """Pipeline schedule in the name of the software, as zb-1p in "Megatron-LM, ZB-1p schedule"."""
    words = (row.framework or "").lower().replace(",", " ").split()
    return next((word for word in words if word in STATED_SCHEDULES), None)


STATED_SCHEDULES = ("1f1b", "1f1b-i", "zb-1p", "zb-2p", "zb-v", "dualpipe", "gpipe")


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
