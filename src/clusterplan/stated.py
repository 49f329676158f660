"""A row of a table of runs as a question: what it states of machine, model, job and layout.

What a row leaves blank is taken from the software's defaults and named in ``inferred``; a row whose shape or batch is
not known, or that no run could have had, is refused with the reason.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, get_args

import numpy as np

from clusterplan.arrays import IntArray
from clusterplan.catalog import Catalog
from clusterplan.errors import ClusterplanError
from clusterplan.fixes import least_recompute
from clusterplan.hardware import Accelerator, Fabric, Machine, Stack, System
from clusterplan.layer import Question
from clusterplan.layout import (
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
from clusterplan.reading import unknown
from clusterplan.shapes import end_layers, limits
from clusterplan.workload import SAME_FORMATS, Attention, Experts, Format, Job, Model

FORMATS = {**SAME_FORMATS, "fp32": "", **{name: name for name in get_args(Format)}}
"""Formats of tables as formats of ours; the empty one is not modelled."""

UNKNOWN_STACK = "megatron-core"
"""Software that an unknown framework is taken for."""


class SkipError(Exception):
    """A row that cannot be judged; the reason is its text."""


def can_do(stack: Stack, row: Measured) -> bool:
    """Whether the software has what a row says that its run used."""
    precision = FORMATS.get(row.precision or "bf16", "bf16")
    return (
        (precision in stack.formats or precision in {"bf16", "fp16"})  # 16-bit formats run alike
        and (row.sharding in stack.sharding or row.sharding not in SHARDING)
        and (row.attention != "flash" or set(stack.attention_kernels) != {"eager"})
    )


class Questions:
    """Machine, software, model and job of rows, from the profiles of a catalog."""

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

    def stack(self, row: Measured) -> tuple[Stack, bool]:
        """Software of a row, and whether it is only assumed: the longest name that the row's framework contains."""
        words = (row.framework or "").lower()
        # Of releases under one name, the one that can do what the run did.
        named = [(len(w), can_do(s, row), s.name, s) for s in self.stacks for w in s.frameworks if w in words]
        if named:
            return max(named)[-1], False
        return self.catalog.load(Stack, UNKNOWN_STACK), True

    def machine(self, row: Measured, inferred: list[str]) -> tuple[Machine, bool]:
        """Hardware and software of a row, with the network that it states."""
        system = self.systems.get((row.accelerator or "").lower())
        if system is None:
            having = self.unclear.get((row.accelerator or "").lower())
            if having:
                raise SkipError(f"{row.accelerator} may be any of {', '.join(having)}")
            raise SkipError(
                str(unknown(f"no profile of accelerator {row.accelerator}", row.accelerator or "", self.systems))
            )
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
            formats = ", ".join(name for name in FORMATS if FORMATS[name])
            unheard = "" if row.precision in FORMATS else f"; formats are {formats}"
            raise SkipError(f"no product efficiency of {machine.accelerator.name} in {row.precision}{unheard}")
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
            predicted = 0 if leaves_prediction_out(row) else known.mtp_layers
            model = dataclasses.replace(known, tied_embeddings=model.tied_embeddings, mtp_layers=predicted)
        return Question(
            model=model,
            job=job,
            machine=machine,
            domain_devices=machine.system.domain_of(_given(row, "accelerators")),
            end_layers=_end_layers(row, model, job, machine.stack),
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


def _end_layers(row: Measured, model: Model, job: Job, stack: Stack) -> int:
    """Layers that the end of the model is worth where stages were filled by hand.

    Software leaves a layer out of the last stage, or of the first and the last; where more are missing the layers
    were shared out with an eye on the head.
    """
    chunks = (row.pp or 1) * (row.vpp or 1)
    missing = -model.layers % chunks
    return end_layers(model, job, stack) if (row.pp or 1) > 1 and missing > 2 else 0


def leaves_prediction_out(row: Measured) -> bool:
    """Whether a row says that its run had no token prediction (MTP) though its model has."""
    words = f"{row.id} {row.model or ''}".lower()
    return any(without in words for without in ("womtp", "w/o mtp", "without mtp", "no mtp"))


def _recompute(row: Measured) -> Recomputation | None:
    """What a row says of recomputation; None if nothing."""
    try:
        return Recomputation.parse(row.recompute or "")
    except ClusterplanError:
        return None


def _sharding(row: Measured, stack: Stack, inferred: list[str]) -> str:
    if row.sharding in SHARDING:
        return row.sharding
    inferred.append(f"sharding: {stack.default_sharding[0]}")
    return stack.default_sharding[0]


def layout_of(row: Measured, question: Question, inferred: list[str]) -> tuple[Cuts, Layouts]:
    """The row's layout as tables with one row."""
    tp, pp, vpp, cp, ep = (getattr(row, name) or 1 for name in ("tp", "pp", "vpp", "cp", "ep"))
    devices, micro_batch = _given(row, "accelerators"), _given(row, "micro_batch")
    dp, rest = divmod(devices, tp * pp * cp)
    if rest or not dp:
        raise SkipError(f"{devices} devices are no multiple of tp × pp × cp = {tp * pp * cp}")
    if row.vpp is None and pp > 1:
        inferred.append("vpp: 1")
    schedule = _schedule(row, pp, vpp, inferred)
    stated = _recompute(row)
    most = int(largest_stage(question.model.layers, _column(pp), _column(vpp), question.end_layers)[0])
    cuts = Cuts(
        tp=_column(tp),
        cp=_column(cp),
        ep=_column(ep if question.model.is_moe else 1),
        etp=_column(_expert_tp(row, question, tp, ep)),
        micro_batch=_column(micro_batch),
        **(stated or Recomputation(mode="none")).columns(most),
    )
    layouts = Layouts(
        cut=_column(0),
        pp=_column(pp),
        vpp=_column(vpp if pp > 1 else 1),
        dp=_column(dp),
        sharding=_column(SHARDING.index(_sharding(row, question.machine.stack, inferred))),
        schedule=_column(SCHEDULES.index(schedule)),
        offload=_column(0),
        placement=_column(0),
        shard_group=_column(row.shard_group or 0 if row.sharding == "hsdp" else 0),
        global_batch=_column(question.job.global_batch),
        bought_devices=_column(devices),
    )
    _check_possible(question, cuts, layouts)
    if stated:
        return cuts, layouts
    # What ran did fit, so nothing said is the least that does.
    mode, least, fits = least_recompute(question, cuts, layouts, margin_fraction=0.0)
    fits = fits and row.oom is not True
    inferred.append(f"recompute: {mode if fits else 'none'}")
    return least if fits else cuts, layouts


def _column(value: int) -> IntArray:
    """A column of a table with one row."""
    return np.array([value], dtype=np.int64)


def _schedule(row: Measured, pp: int, vpp: int, inferred: list[str]) -> str:
    """The schedule that a row states, or the nearest that is known; then it is named in what is inferred."""
    stated = stated_schedule(row)
    schedule = "none" if pp == 1 else "interleaved" if vpp > 1 else "1f1b"
    if schedule == "1f1b" and stated in SCHEDULES:
        schedule = str(stated)
    if stated not in (None, "1f1b", "1f1b-i", schedule):
        inferred.append(f"schedule: {schedule}")
    return schedule


def _expert_tp(row: Measured, question: Question, tp: int, ep: int) -> int:
    """Devices that cut an expert: what a row states, or what its software does."""
    if not question.model.is_moe:
        return 1
    stack = question.machine.stack
    by_tp = stack.cuts_experts_by_tp or not (ep > 1 or stack.expert_tensor_parallel)
    return row.etp or (tp if by_tp else 1)


def _check_possible(question: Question, cuts: Cuts, layouts: Layouts) -> None:
    """Raise if no run could have had a layout.

    What a published run did was possible, whatever reach a profile states; only arithmetic is checked.
    """
    allowed = dataclasses.replace(
        limits(question.model, question.job, question.machine.stack),
        max_tp=int(cuts.tp[0]),
        max_pp=int(layouts.pp[0]),
        max_cp=int(cuts.cp[0]),
        max_ep=int(cuts.ep[0]),
        uneven_pipeline=True,
        expert_tensor_parallel=True,
    )
    rules = {**broken_cut_rules(cuts, allowed), **broken_layout_rules(layouts, cuts, allowed)}
    broken = [name for name, mask in rules.items() if mask[0] and name not in LENIENT]
    if broken:
        raise SkipError(f"not possible as stated: {', '.join(broken)}")


LENIENT = ("interleaving divides micro-batches by pp", "sequence divides by 2 × cp × tp", "a layer for each stage")
"""Rules of some software that published runs of other software need not keep."""


def stated_schedule(row: Measured) -> str | None:
    """Pipeline schedule in the name of the software, as zb-1p in "Megatron-LM, ZB-1p schedule"."""
    words = (row.framework or "").lower().replace(",", " ").split()
    return next((word for word in words if word in STATED_SCHEDULES), None)


STATED_SCHEDULES = ("1f1b", "1f1b-i", "zb-1p", "zb-2p", "zb-v", "dualpipe", "gpipe")
