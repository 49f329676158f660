"""How a model is cut over devices: the tables of cuts and layouts, what is legal, and which stage holds which layers.

Two tables keep detail and number apart. A row of :class:`Cuts` is all that one layer's time and bytes depend on; there
are hundreds. A row of :class:`Layouts` adds the outer axes and points at its cut; there are millions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any, Self

import numpy as np

from clusterplan.arrays import BoolArray, FloatArray, IntArray
from clusterplan.errors import ClusterplanError

RECOMPUTE = ("none", "selective", "block", "full")
"""Recompute modes; a table holds the index. ``block`` runs some layers of each stage again, ``full`` all."""

RECOMPUTED_SHARE = np.array([0.0, 0.0, 0.5, 1.0])
"""Share of a stage's layers that run again as a whole, by mode; of ``block`` where no number is given."""

SHARDING = ("none", "zero1", "zero2", "zero3", "fsdp", "hsdp")
"""What data-parallel ranks share instead of repeating; a table holds the index. ``hsdp`` shares inside a scale-up
domain and repeats over domains."""

SCHEDULES = ("none", "1f1b", "interleaved", "zb-1p", "zb-2p", "zb-v", "dualpipe")
"""Pipeline schedules; a table holds the index. ``none`` is a pipeline of one stage; ``zb-1p`` and ``zb-2p`` are the
zero-bubble schedules with once and twice the activations of 1F1B, ``zb-v`` the one whose stages lie in a V;
``dualpipe`` feeds the pipeline from both ends."""

USUAL = -1
"""In place of a schedule: none for one stage, interleaved for several chunks, else plain 1F1B."""

OFFLOAD = ("none", "optimizer", "activations", "both")
"""What waits in host memory; a table holds the index. The optimizer's states are updated there, too."""

OFFLOADS_OPTIMIZER = np.array([False, True, False, True])
OFFLOADS_ACTIVATIONS = np.array([False, False, True, True])
"""Which of the two each of them sends there."""

PLACEMENTS = ("tp-cp-ep-dp-pp", "tp-cp-ep-pp-dp")
"""Orders in which the groups are laid over neighbouring devices, innermost first; a table holds the index. In the
second one the stages of a replica are neighbours, and the replicas of a stage lie far apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cuts:
    """What a layer sees of a layout; every field has shape ``(cut,)``."""

    tp: IntArray
    """Tensor-parallel group size."""
    cp: IntArray
    """Context-parallel group size."""
    ep: IntArray
    """Expert-parallel group size; it lies inside tp × cp × dp."""
    etp: IntArray
    """Tensor-parallel group size of the experts."""
    micro_batch: IntArray
    """Sequences of one micro-batch."""
    recompute: IntArray
    """Index into :data:`RECOMPUTE`."""
    recomputed: FloatArray
    """Share of a stage's layers that run again as a whole: 0 or 1, or what ``block`` takes."""
    checkpoint_layers: IntArray
    """Layers from one kept input to the next among those that run again; 1 keeps the input of each."""

    @property
    def size(self) -> int:
        """Number of rows."""
        return len(self.tp)

    def take(self, rows: IntArray) -> Self:
        """The same table with these rows."""
        return type(self)(**{f.name: getattr(self, f.name)[rows] for f in fields(self)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Layouts:
    """Layouts under evaluation; every field has shape ``(layout,)``."""

    cut: IntArray
    """Row of the table of cuts."""
    pp: IntArray
    """Pipeline stages."""
    vpp: IntArray
    """Parts of the model that each stage holds in turn (virtual stages); 1 for plain 1F1B."""
    dp: IntArray
    """Data-parallel replicas."""
    sharding: IntArray
    """Index into :data:`SHARDING`."""
    schedule: IntArray
    """Index into :data:`SCHEDULES`."""
    offload: IntArray
    """Index into :data:`OFFLOAD`."""
    placement: IntArray
    """Index into :data:`PLACEMENTS`."""
    shard_group: IntArray
    """With ``hsdp``, replicas that share their states; 0 for those of a scale-up domain."""
    global_batch: IntArray
    """Sequences of one optimizer step."""
    bought_devices: IntArray
    """Devices of the cluster in whole purchase units, without spares; at least those used."""

    @property
    def size(self) -> int:
        """Number of rows."""
        return len(self.cut)

    def take(self, rows: IntArray | BoolArray) -> Self:
        """The same table with these rows."""
        return type(self)(**{f.name: getattr(self, f.name)[rows] for f in fields(self)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What model, job and software allow; the one statement of legality reads only this."""

    heads: int
    kv_heads: int
    layers: int
    seq_len: int
    experts: int
    """Routed experts; 0 for a dense model."""
    sequence_parallel: bool
    uneven_pipeline: bool
    expert_tensor_parallel: bool
    max_tp: int
    max_pp: int
    max_cp: int
    max_ep: int
    batch_fixed: bool
    batch_target: int
    batch_low: int | None = None
    """Lower end of a range of batches, of which the target is the upper one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recomputation:
    """How much runs again: a mode and, for ``block`` and ``full``, a number of layers."""

    mode: str
    """One of :data:`RECOMPUTE`."""
    layers: int | None = None
    """Of ``block`` the layers of each stage that run again, of ``full`` those from one kept input to the next."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """A mode, or ``block:4`` and ``full:2``.

        Raises
        ------
        ClusterplanError
            If the mode is not known or has no such number.

        Examples
        --------
        >>> Recomputation.parse("block:4")
        Recomputation(mode='block', layers=4)
        """
        mode, colon, number = text.partition(":")
        if mode not in RECOMPUTE:
            from difflib import get_close_matches  # only a mistake pays for the import

            nearest = tuple(get_close_matches(mode, RECOMPUTE))
            raise ClusterplanError(f"must be {', '.join(RECOMPUTE)}, not {text[:40]!a}", nearest=nearest)
        if not colon:
            return cls(mode=mode)
        if mode not in ("block", "full"):
            raise ClusterplanError(f"{mode} has no number of layers; block and full have", nearest=(mode,))
        if not (number.isascii() and number.isdigit() and 0 < int(number[:9]) < 10**6):
            raise ClusterplanError(f"must name layers, as {mode}:4, not {text[:40]!a}")
        return cls(mode=mode, layers=int(number))

    def columns(self, most: int) -> dict[str, Any]:
        """Columns of :class:`Cuts` with one row, where the largest stage has ``most`` layers."""
        share = RECOMPUTED_SHARE[RECOMPUTE.index(self.mode)]
        if self.mode == "block" and self.layers:
            share = min(self.layers / most, 1.0)
        group = self.layers or 1 if self.mode == "full" else 1
        return {
            "recompute": np.array([RECOMPUTE.index(self.mode)]),
            "recomputed": np.array([share], dtype=float),
            "checkpoint_layers": np.array([group]),
        }


def largest_stage(layers: int, pp: IntArray, vpp: IntArray, end_layers: int = 0) -> IntArray:
    """Layers of the stage that has most, shape ``(layout,)``; see :func:`chunk_starts`.

    >>> largest_stage(126, np.array([16]), np.array([1])).tolist()
    [8]
    """
    sizes = [np.diff(chunk_starts(layers, p * v, end_layers)) for p, v in zip(pp.tolist(), vpp.tolist(), strict=True)]
    most = [int(s.reshape(v, p).sum(axis=0).max()) for s, p, v in zip(sizes, pp.tolist(), vpp.tolist(), strict=True)]
    return np.array(most, dtype=np.int64)


def stage_devices(layouts: Layouts, cuts: Cuts) -> IntArray:
    """Devices of one pipeline stage, shape ``(layout,)``."""
    return cuts.tp[layouts.cut] * cuts.cp[layouts.cut] * layouts.dp


def stage_distance(layouts: Layouts, cuts: Cuts) -> IntArray:
    """Devices from a device of one stage to the same one of the next, shape ``(layout,)``."""
    inner = cuts.tp[layouts.cut] * cuts.cp[layouts.cut]
    return inner * np.where(layouts.placement == 0, layouts.dp, 1)


def replicas_apart(layouts: Layouts) -> IntArray:
    """How many times further apart the replicas of a stage lie than end to end, shape ``(layout,)``."""
    return np.where(layouts.placement == 0, 1, layouts.pp)


def used_devices(layouts: Layouts, cuts: Cuts) -> IntArray:
    """Devices that each layout uses, shape ``(layout,)``; expert parallelism adds none."""
    return stage_devices(layouts, cuts) * layouts.pp


def micro_batches(layouts: Layouts, cuts: Cuts) -> IntArray:
    """Micro-batches of one step in each pipeline, shape ``(layout,)``."""
    return layouts.global_batch // (layouts.dp * cuts.micro_batch[layouts.cut])


def expert_replicas(layouts: Layouts, cuts: Cuts) -> IntArray:
    """Replicas of each expert, shape ``(layout,)``."""
    return stage_devices(layouts, cuts) // (cuts.ep[layouts.cut] * cuts.etp[layouts.cut])


INSIDE = "stages inside replicas need experts inside tp × cp"
"""Name of the rule about the order of groups."""

BATCH_TOLERANCE = 0.05
"""How far the batch of a plan may be from its target, relative."""


def broken_cut_rules(cuts: Cuts, limits: Limits) -> Mapping[str, BoolArray]:
    """Rules that a cut breaks, by name; each mask has shape ``(cut,)``."""
    experts = limits.experts
    return {
        "heads divide by tp": limits.heads % cuts.tp != 0,
        "kv heads divide by tp": (limits.kv_heads % cuts.tp != 0) & (cuts.tp % limits.kv_heads != 0),
        "tp within the software's reach": cuts.tp > limits.max_tp,
        "cp within the software's reach": cuts.cp > limits.max_cp,
        "ep within the software's reach": cuts.ep > limits.max_ep,
        "sequence divides by 2 × cp × tp": (cuts.cp > 1) & (limits.seq_len % (2 * cuts.cp * cuts.tp) != 0)
        | (limits.sequence_parallel & (limits.seq_len % cuts.tp != 0)),
        "experts divide by ep": (experts > 0) & (experts % cuts.ep != 0),
        "ep needs experts": (experts == 0) & (cuts.ep > 1),
        "etp is 1 or tp": np.where(
            experts == 0,
            cuts.etp != 1,
            (cuts.etp != cuts.tp) & ~((cuts.etp == 1) & limits.expert_tensor_parallel),
        ).astype(bool),
    }


def broken_layout_rules(layouts: Layouts, cuts: Cuts, limits: Limits) -> Mapping[str, BoolArray]:
    """Rules that the outer axes break, by name; each mask has shape ``(layout,)``."""
    cut = layouts.cut
    samples = layouts.dp * cuts.micro_batch[cut]
    batches = np.maximum(layouts.global_batch // samples, 1)
    chunks = layouts.pp * layouts.vpp
    target = limits.batch_target
    tolerance = 0.0 if limits.batch_fixed else BATCH_TOLERANCE
    low, high = (1 - tolerance) * target - 1e-9, (1 + tolerance) * target + 1e-9
    if limits.batch_low is not None:
        low, high = limits.batch_low, target
    everything = np.ones(layouts.size, dtype=bool)
    grouped = layouts.shard_group > 0
    interleaved = layouts.schedule == SCHEDULES.index("interleaved")
    unscheduled = (layouts.schedule == SCHEDULES.index("none")) & (layouts.pp > 1)
    return {
        "batch divides by dp × micro-batch": (layouts.global_batch % samples != 0) | (layouts.global_batch < samples),
        "batch near its target": (layouts.global_batch < low) | (layouts.global_batch > high),
        "pp within the software's reach": layouts.pp > limits.max_pp,
        "a layer for each stage": (layouts.pp > 1) & (chunks > limits.layers + 2),
        "layers divide by pp × vpp": _also(
            everything & (not limits.uneven_pipeline), lambda: limits.layers % chunks != 0
        ),
        "dp × cp × tp divides by ep × etp": stage_devices(layouts, cuts) % (cuts.ep[cut] * cuts.etp[cut]) != 0,
        INSIDE: _also(
            layouts.placement != 0,
            lambda: cuts.tp[cut] * cuts.cp[cut] % (cuts.ep[cut] * cuts.etp[cut]) != 0,
        ),
        "replicas divide by the shard group": _also(
            grouped, lambda: layouts.dp * cuts.cp[cut] % np.maximum(layouts.shard_group, 1) != 0
        ),
        "a shard group needs hsdp": _also(grouped, lambda: layouts.sharding != SHARDING.index("hsdp")),
        "interleaving needs pp > 1": interleaved & (layouts.pp == 1),
        "a schedule needs pp > 1": (layouts.schedule != SCHEDULES.index("none")) & (layouts.pp == 1) & ~interleaved,
        "pp > 1 needs a schedule": unscheduled,
        "vpp needs interleaving": (layouts.vpp > 1) & ~interleaved & ~unscheduled,
        "interleaving needs vpp > 1": interleaved & (layouts.vpp == 1),
        "interleaving divides micro-batches by pp": interleaved & (batches % layouts.pp != 0),
        "two directions need even stages and enough micro-batches": _also(
            layouts.schedule == SCHEDULES.index("dualpipe"),
            lambda: (layouts.pp % 2 != 0) | (batches % 2 != 0) | (batches < 2 * layouts.pp),
        ),
    }


def _also(mask: BoolArray, rule: Callable[[], BoolArray]) -> BoolArray:
    """Rows of a mask that break a rule, too; most tables have none, and need not divide."""
    return mask & rule() if mask.any() else mask


def nearest_divisors(value: int, number: int, count: int = 3) -> tuple[int, ...]:
    """Divisors of ``number`` that are nearest to ``value``, nearest first.

    >>> nearest_divisors(6, 64)
    (4, 8, 2)
    """
    divisors = [d for d in range(1, min(number, 4 * value + 64) + 1) if number % d == 0]
    return tuple(sorted(divisors, key=lambda d: (abs(d - value), d))[:count])


def repairs(rule: str, layouts: Layouts, cuts: Cuts, limits: Limits) -> str:
    """What would mend a broken rule of a table with one row: the nearest legal values."""
    texts = {
        **_cut_repairs(cuts, limits),
        **_size_repairs(layouts, cuts, limits),
        **_group_repairs(layouts, cuts),
        **_schedule_repairs(layouts, cuts),
    }
    return f"{rule}: {texts[rule]}"


def _or(values: Iterable[int]) -> str:
    return " or ".join(map(str, values))


def _multiples(value: int, step: int) -> str:
    """The nearest multiples of a step, below and above a value."""
    lower = value // step * step
    return _or(multiple for multiple in (lower, lower + step) if multiple > 0)


def _cut_repairs(cuts: Cuts, limits: Limits) -> dict[str, str]:
    """What would mend the rules of :func:`broken_cut_rules`."""
    tp, cp, ep, etp = (int(column[0]) for column in (cuts.tp, cuts.cp, cuts.ep, cuts.etp))
    of_experts = dict.fromkeys((1, tp) if limits.expert_tensor_parallel else (tp,)) if limits.experts else (1,)
    return {
        "heads divide by tp": f"tp = {tp} does not divide {limits.heads} heads; nearest: "
        + _or(nearest_divisors(tp, limits.heads)),
        "kv heads divide by tp": f"tp = {tp} does not fit {limits.kv_heads} key-value heads; nearest: "
        + _or(nearest_divisors(tp, limits.kv_heads)),
        "tp within the software's reach": f"tp = {tp}; at most {limits.max_tp}",
        "cp within the software's reach": f"cp = {cp}; at most {limits.max_cp}",
        "ep within the software's reach": f"ep = {ep}; at most {limits.max_ep}",
        "sequence divides by 2 × cp × tp": f"sequences of {limits.seq_len} tokens; nearest: "
        + _multiples(limits.seq_len, 2 * cp * tp),
        "experts divide by ep": f"ep = {ep} does not divide {limits.experts} experts; nearest: "
        + _or(nearest_divisors(ep, max(limits.experts, 1))),
        "ep needs experts": f"ep = {ep} for a model without experts; only 1",
        "etp is 1 or tp": f"etp = {etp}; {_or(of_experts)}",
    }


def _size_repairs(layouts: Layouts, cuts: Cuts, limits: Limits) -> dict[str, str]:
    """What would mend rules about the batch and the number of stages."""
    pp, vpp, batch = int(layouts.pp[0]), int(layouts.vpp[0]), int(layouts.global_batch[0])
    unit = int(layouts.dp[0]) * int(cuts.micro_batch[0])
    return {
        "batch divides by dp × micro-batch": f"global batch {batch} is no multiple of {unit}; nearest: "
        + _multiples(batch, unit),
        "batch near its target": f"global batch {batch} is more than {BATCH_TOLERANCE:.0%} from {limits.batch_target}",
        "pp within the software's reach": f"pp = {pp}; at most {limits.max_pp}",
        "a layer for each stage": f"pp × vpp = {pp * vpp} for {limits.layers} layers; at most {limits.layers + 2}",
        "layers divide by pp × vpp": f"pp × vpp = {pp * vpp} does not divide {limits.layers} layers; nearest: "
        + _or(nearest_divisors(pp * vpp, limits.layers)),
    }


def _group_repairs(layouts: Layouts, cuts: Cuts) -> dict[str, str]:
    """What would mend rules about how groups of devices lie in each other."""
    inner, expert = int(cuts.tp[0] * cuts.cp[0]), int(cuts.ep[0] * cuts.etp[0])
    dp, shard_group = int(layouts.dp[0]), int(layouts.shard_group[0])
    replicas = dp * int(cuts.cp[0])
    return {
        "dp × cp × tp divides by ep × etp": f"dp × cp × tp = {inner * dp} is no multiple of ep × etp = {expert}; "
        f"nearest: {_multiples(inner * dp, expert)}",
        INSIDE: f"placement {PLACEMENTS[int(layouts.placement[0])]} with ep × etp = {expert}, which does not divide "
        f"tp × cp = {inner}; placement {PLACEMENTS[0]}",
        "replicas divide by the shard group": f"shard group {shard_group} for {replicas} replicas; nearest: "
        + _or(nearest_divisors(max(shard_group, 1), replicas)),
        "a shard group needs hsdp": f"shard group {shard_group} with sharding {SHARDING[int(layouts.sharding[0])]}; "
        "sharding hsdp",
    }


def _schedule_repairs(layouts: Layouts, cuts: Cuts) -> dict[str, str]:
    """What would mend rules about the order of micro-batches."""
    pp, vpp, batch = int(layouts.pp[0]), int(layouts.vpp[0]), int(layouts.global_batch[0])
    unit, schedule = int(layouts.dp[0]) * int(cuts.micro_batch[0]), SCHEDULES[int(layouts.schedule[0])]
    return {
        "interleaving needs pp > 1": f"vpp = {vpp} with pp = 1; vpp = 1",
        "a schedule needs pp > 1": f"schedule {schedule} with pp = 1; schedule none",
        "pp > 1 needs a schedule": f"schedule none with pp = {pp}; {'interleaved' if vpp > 1 else '1f1b'}",
        "vpp needs interleaving": f"vpp = {vpp} with schedule {schedule}; vpp = 1",
        "interleaving needs vpp > 1": "schedule interleaved with vpp = 1; 1f1b, or vpp = 2 or more",
        "two directions need even stages and enough micro-batches": f"schedule dualpipe with pp = {pp} and "
        f"{batch // unit} micro-batches; even ones, {2 * pp} micro-batches or more",
        "interleaving divides micro-batches by pp": f"{batch // unit} micro-batches are no multiple of pp = {pp}; "
        f"nearest global batch: {_multiples(batch, unit * pp)}",
    }


@lru_cache(maxsize=4096)
def chunk_starts(layers: int, chunks: int, end_layers: int = 0) -> tuple[int, ...]:
    """First layer of each of ``chunks`` runs of layers, and the end of the last one.

    Where layers do not divide, the last chunk carries one layer fewer (it has the output head), then the first (it has
    the embedding), then those before the last. Where the work at the end is that of several layers, the last chunk
    carries so many fewer as make the busiest chunk least busy; never if an even split is as good.

    Parameters
    ----------
    layers, chunks : int
        Layers of the model, and runs of them.
    end_layers : int
        Layers that the output head and what stands with it are worth.

    Examples
    --------
    >>> chunk_starts(126, 16)[:3], chunk_starts(126, 16)[-2:]
    ((0, 7, 15), (119, 126))

    61 layers and a head with token prediction that is worth three:

    >>> chunk_starts(61, 16, 3)[-4:]
    (52, 56, 60, 61)
    """
    size = -(-layers // chunks)
    short = size * chunks - layers
    order = [chunks - 1, 0, *range(chunks - 2, 0, -1)][:chunks]
    last = size
    if end_layers and chunks > 1:
        full = size
        while full * (chunks - 1) + max(full - end_layers, 0) < layers:
            full += 1
        if max(full, end_layers) < max(size - (short > 0) + end_layers, size):
            size, last = full, max(full - end_layers, 0)
            short = size * (chunks - 1) + last - layers
            order = [0, *range(chunks - 2, 0, -1), chunks - 1][:chunks]
    fewer = set(order[:short])
    starts = [0]
    for chunk in range(chunks):
        starts.append(starts[-1] + (last if chunk == chunks - 1 else size) - (chunk in fewer))
    return tuple(starts)


@dataclass(frozen=True, slots=True, kw_only=True)
class StageLayers:
    """Layers of each kind that the stages hold.

    ``stage`` and ``count`` have the axis ``(pipeline, stage)``: a row for each pair of pp and vpp, a column for each
    stage that is kept.
    """

    stage: IntArray
    """Index of the stage, shape ``(pipeline, stage)``; repeated where a pipeline has fewer stages than columns."""
    count: IntArray
    """Layers by kind, shape ``(pipeline, stage, kind)``."""
    is_first: BoolArray
    """Whether the stage holds the embedding, shape ``(pipeline, stage)``."""
    is_last: BoolArray
    """Whether the stage holds the output head, shape ``(pipeline, stage)``."""


def layers_by_stage(kinds: FloatArray, pp: int, vpp: int, end_layers: int = 0) -> IntArray:
    """Layers of each kind on each stage of one pipeline, shape ``(stage, kind)``.

    Parameters
    ----------
    kinds : ndarray
        1 where a layer is of a kind, shape ``(layer, kind)``.
    pp, vpp : int
        Stages, and chunks on each stage; chunk ``c`` lies on stage ``c % pp``.
    end_layers : int
        Layers that the end is worth, see :func:`chunk_starts`.
    """
    starts = np.asarray(chunk_starts(len(kinds), pp * vpp, end_layers))
    before = np.concatenate([np.zeros((1, kinds.shape[1])), np.cumsum(kinds, axis=0)])
    by_chunk = before[starts[1:]] - before[starts[:-1]]
    by_stage: IntArray = by_chunk.reshape(vpp, pp, -1).sum(axis=0).astype(np.int64)
    return by_stage


def extreme_stages(by_stage: IntArray) -> tuple[int, ...]:
    """Stages among which the slowest and the fullest one must be.

    Activations in flight fall and nothing else changes from one stage to the next of equal layers, so of all stages
    that hold the same layers only the first can be extreme; the ends hold more than layers.
    """
    pp = len(by_stage)
    seen: dict[tuple[int, ...], int] = {}
    for stage in range(1, pp - 1):
        seen.setdefault(tuple(by_stage[stage].tolist()), stage)
    return tuple(dict.fromkeys([0, *seen.values(), pp - 1]))


def stage_layers(
    kinds: FloatArray, pipelines: list[tuple[int, int]], *, every: bool = False, end_layers: int = 0
) -> StageLayers:
    """Layers by stage of several pipelines, each a pair of pp and vpp.

    Parameters
    ----------
    kinds : ndarray
        1 where a layer is of a kind, shape ``(layer, kind)``.
    pipelines : list of (int, int)
        Pairs of pp and vpp.
    every : bool
        Keep all stages rather than only those that can be extreme.
    end_layers : int
        Layers that the end is worth, see :func:`chunk_starts`.
    """
    tables = [layers_by_stage(kinds, pp, vpp, end_layers) for pp, vpp in pipelines]
    kept = [tuple(range(len(t))) if every else extreme_stages(t) for t in tables]
    width = max(len(k) for k in kept)
    stage = np.array([[*k, *[k[-1]] * (width - len(k))] for k in kept])
    count = np.stack([t[s] for t, s in zip(tables, stage, strict=True)])
    pp = np.array([p for p, _ in pipelines])
    return StageLayers(stage=stage, count=count, is_first=stage == 0, is_last=stage == pp[:, None] - 1)
