"""Which layouts are looked at: the axes of the search, made into tables.

Only legal rows are made. Ranges that are ours, not the software's, are named here and stated in the manual.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace

import numpy as np

from clusterplan import shapes
from clusterplan.arrays import BoolArray, IntArray
from clusterplan.layer import Question
from clusterplan.layout import (
    OFFLOAD,
    PLACEMENTS,
    RECOMPUTE,
    RECOMPUTED_SHARE,
    SCHEDULES,
    SHARDING,
    USUAL,
    Cuts,
    Layouts,
    Limits,
    Recomputation,
    broken_cut_rules,
    broken_layout_rules,
    largest_stage,
    repairs,
)

MICRO_BATCHES = (1, 2, 4, 8)
"""Sequences of a micro-batch that are tried."""

FEWEST_TOKENS = 1024
"""Context parallelism leaves each device at least so many tokens of a sequence."""

MOST_CHUNKS = 16
"""Most chunks of layers on one stage that are tried."""

SIZE_RATIO = 1.08
"""Neighbouring numbers of replicas differ by this at first; around the best ones every number is tried."""

EVERY_SIZE = 48
"""All numbers of replicas up to this one are tried, since few of them make a batch near its target, and all of a range
that has no more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixed:
    """Axes that the user has set; None leaves them to the search."""

    tp: int | None = None
    pp: int | None = None
    vpp: int | None = None
    cp: int | None = None
    ep: int | None = None
    etp: int | None = None
    dp: int | None = None
    micro_batch: int | None = None
    recompute: str | None = None
    sharding: str | None = None
    schedule: str | None = None
    offload: str | None = None
    placement: str | None = None
    shard_group: int | None = None


def divisors(number: int) -> list[int]:
    """All divisors, rising.

    >>> divisors(12)
    [1, 2, 3, 4, 6, 12]
    """
    low = [d for d in range(1, math.isqrt(number) + 1) if number % d == 0]
    return low + [number // d for d in reversed(low) if d * d != number]


def _axis(fixed: int | None, values: list[int]) -> list[int]:
    return values if fixed is None else [fixed]


def tensor_sizes(question: Question, limits: Limits) -> list[int]:
    """Tensor-parallel sizes that fill or divide a scale-up domain, so that no group lies across its edge."""
    domain = question.domain_devices
    return [tp for tp in divisors(limits.heads) if tp <= limits.max_tp and (domain % tp == 0 or tp % domain == 0)]


def expert_sizes(question: Question, limits: Limits) -> list[int]:
    """Expert-parallel sizes that fill or divide a scale-up domain, so that no group lies across its edge."""
    domain = question.domain_devices
    sizes = divisors(max(limits.experts, 1))
    return [ep for ep in sizes if ep <= limits.max_ep and (domain % ep == 0 or ep % domain == 0)]


def all_cuts(question: Question, fixed: Fixed) -> Cuts:
    """Legal cuts."""
    model, stack = question.model, question.machine.stack
    limits = shapes.limits(model, question.job, stack)
    most_cp = max(1, limits.seq_len // FEWEST_TOKENS)
    modes = stack.recompute if fixed.recompute is None else (Recomputation.parse(fixed.recompute).mode,)
    # Experts are cut like the rest or not at all, where the software can; a dense model has none to cut.
    cut_experts = [False] if not model.is_moe else [False, True] if stack.expert_tensor_parallel else [True]
    rows = itertools.product(
        _axis(fixed.tp, tensor_sizes(question, limits)),
        _axis(fixed.cp, [c for c in (1, 2, 4, 8, 16, 32, 64) if c <= min(limits.max_cp, most_cp)]),
        _axis(fixed.ep, expert_sizes(question, limits)),
        cut_experts,
        _axis(fixed.micro_batch, list(MICRO_BATCHES)),
        [RECOMPUTE.index(mode) for mode in modes],
    )
    table = np.array(
        [
            (tp, cp, ep, fixed.etp or (tp if is_cut else 1), micro_batch, mode)
            for tp, cp, ep, is_cut, micro_batch, mode in rows
            if not (is_cut and len(cut_experts) == 2 and (tp == 1 or fixed.etp is not None))
        ],
        dtype=np.int64,
    )
    axes = dict(zip(("tp", "cp", "ep", "etp", "micro_batch", "recompute"), table.T, strict=True))
    one = np.ones(len(table), dtype=np.int64)
    cuts = Cuts(**axes, recomputed=RECOMPUTED_SHARE[axes["recompute"]], checkpoint_layers=one)
    legal = ~np.any(list(broken_cut_rules(cuts, limits).values()), axis=0)
    return cuts.take(np.flatnonzero(legal))


def counted(question: Question, fixed: Fixed, cuts: Cuts, pipelines: list[tuple[int, int]]) -> tuple[Cuts, BoolArray]:
    """Cuts of a recompute mode with a number of layers, and which pipelines each is for, shape ``(cut, pipeline)``.

    The share of a stage's layers that a number is depends on the stages, so each cut is there once for each share.
    """
    given = Recomputation.parse(fixed.recompute or "none")
    if given.layers is None:
        return cuts, np.ones((cuts.size, len(pipelines)), dtype=bool)
    layers = question.model.layers
    pp, vpp = np.array(pipelines).T
    most = largest_stage(layers, pp, vpp, question.end_layers).tolist()
    columns = [given.columns(one) for one in most]
    share = np.concatenate([c["recomputed"] for c in columns])
    shares = np.unique(share)
    rows = np.repeat(np.arange(cuts.size), len(shares))
    more = replace(
        cuts.take(rows),
        recomputed=np.tile(shares, cuts.size),
        checkpoint_layers=np.full(len(rows), int(columns[0]["checkpoint_layers"][0])),
    )
    return more, more.recomputed[:, None] == share


def pipelines(question: Question, fixed: Fixed, *, schedules: tuple[str, ...]) -> list[tuple[int, int]]:
    """Pairs of pp and vpp.

    A pipeline that is longer without giving any stage fewer layers only adds waiting, so of those with equal largest
    stages the shortest are taken: for all layers, and for layers short of one or two that the ends do without.
    """
    limits = shapes.limits(question.model, question.job, question.machine.stack)
    layers, can_pipe = limits.layers, any(s != "none" for s in schedules)
    lengths = {1}
    if can_pipe:
        for spared in {0, 1, 2, question.end_layers} if limits.uneven_pipeline else {0}:
            lengths |= {-(-(layers + spared) // size) for size in range(1, layers + 1)}
        lengths |= {2**i for i in range(10)}
    lengths = {pp for pp in lengths if pp <= min(limits.max_pp, layers + 2)}
    pairs = []
    for pp in _axis(fixed.pp, sorted(lengths)):
        chunks = {1}
        if pp > 1 and "interleaved" in schedules:
            most = -(-(layers + 2) // pp)
            chunks |= {max(1, -(-layers // (pp * size))) for size in range(1, most + 1)}
            if limits.uneven_pipeline and (layers + 2) % pp == 0:
                chunks |= {most // size for size in divisors(most)}
        for vpp in _axis(fixed.vpp, sorted(v for v in chunks if v <= MOST_CHUNKS)):
            even = layers % (pp * vpp) == 0
            if (even or limits.uneven_pipeline) and (pp == 1 or pp * vpp <= layers + 2) and not (pp == 1 and vpp > 1):
                pairs.append((pp, vpp))
    return pairs


def why_none(question: Question, fixed: Fixed) -> str:
    """What is wrong with axes that the user has set so that no layout has them, and what would mend it."""

    def one(value: int | None) -> IntArray:
        return np.array([value or 1], dtype=np.int64)

    limits = shapes.limits(question.model, question.job, question.machine.stack)
    tp = fixed.tp or 1
    etp = fixed.etp or (1 if limits.expert_tensor_parallel or not limits.experts else tp)
    cuts = Cuts(
        tp=one(tp),
        cp=one(fixed.cp),
        ep=one(fixed.ep),
        etp=one(etp),
        micro_batch=one(fixed.micro_batch),
        **Recomputation(mode="none").columns(1),
    )
    no = 0 * one(1)
    usual = USUAL * one(1)
    order = no + (PLACEMENTS.index(fixed.placement) if fixed.placement else 0)
    outer = one(fixed.pp), one(fixed.vpp), one(fixed.dp)
    layouts = expand(question, cuts, no, *outer, no, no, usual, order, no, fewest=0)
    rules = {**broken_cut_rules(cuts, limits), **broken_layout_rules(layouts, cuts, limits)}
    broken = [repairs(rule, layouts, cuts, limits) for rule, mask in rules.items() if mask[0] and rule not in BY_SIZE]
    return "; ".join(broken) or "no layout has all of the given axes"


BY_SIZE = ("batch divides by dp × micro-batch", "batch near its target", "dp × cp × tp divides by ep × etp")
"""Rules that depend on the number of replicas, which the search chooses."""


def replica_counts(lowest: int, highest: int) -> IntArray:
    """Numbers of replicas: small ones and short ranges in full, others on a ladder with its ends."""
    if highest - lowest < EVERY_SIZE:
        return np.arange(lowest, highest + 1)
    first = max(lowest, EVERY_SIZE)
    steps = int(np.ceil(np.log(highest / first) / np.log(SIZE_RATIO)))
    rungs = np.round(first * (highest / first) ** (np.arange(steps + 1) / max(steps, 1))).astype(np.int64)
    return np.concatenate([np.arange(lowest, first), np.unique(rungs)])


def nearest_batch(question: Question, dp: IntArray, micro_batch: IntArray, group: IntArray) -> IntArray:
    """Global batch nearest to the target that the layout can make; legality says whether it is near enough.

    Parameters
    ----------
    dp, micro_batch : ndarray
        Replicas and micro-batch, shape ``(layout,)``.
    group : ndarray
        Micro-batches come in multiples of this: pp where stages interleave, else 1.
    """
    target = question.job.global_batch
    unit = dp * micro_batch * group
    if question.job.batch_low is not None:  # the largest of the range: nothing that is counted gets worse with it
        return np.maximum(target // unit, 1) * unit
    return np.maximum(np.round(target / unit), 1).astype(np.int64) * unit


def bought_devices(question: Question, used: IntArray, fewest: int) -> IntArray:
    """Devices of the purchase units that hold ``used`` devices, and at least ``fewest`` in all.

    Those outside the used part of a domain stand idle, and so do those that are there and not needed.
    """
    system = question.machine.system
    usable = system.devices // system.scaleup_devices * question.domain_devices or system.devices
    return np.maximum(-(-used // usable), -(-fewest // system.devices)) * system.devices


def expand(
    question: Question,
    cuts: Cuts,
    cut: IntArray,
    pp: IntArray,
    vpp: IntArray,
    dp: IntArray,
    sharding: IntArray,
    offload: IntArray,
    schedule: IntArray,
    placement: IntArray,
    shard_group: IntArray,
    *,
    fewest: int,
) -> Layouts:
    """Layouts with the batch nearest to the target, in whole purchase units of ``fewest`` devices or more."""
    batch = nearest_batch(question, dp, cuts.micro_batch[cut], np.where(vpp > 1, pp, 1))
    used = cuts.tp[cut] * cuts.cp[cut] * pp * dp
    plain = np.where(vpp > 1, SCHEDULES.index("interleaved"), SCHEDULES.index("1f1b"))
    usual = np.where(pp == 1, SCHEDULES.index("none"), plain)
    return Layouts(
        cut=cut,
        pp=pp,
        vpp=vpp,
        dp=dp,
        sharding=sharding,
        schedule=np.where(schedule == USUAL, usual, schedule),
        offload=offload,
        placement=placement,
        shard_group=shard_group,
        global_batch=batch,
        bought_devices=bought_devices(question, used, fewest),
    )


def shardings(question: Question, fixed: Fixed, allow: tuple[str, ...]) -> list[int]:
    """Indices of the shardings that are tried."""
    stack = question.machine.stack
    if fixed.sharding is not None:
        return [SHARDING.index(fixed.sharding)]
    names = [s for s in stack.sharding if s in stack.default_sharding or s in allow]
    return [SHARDING.index(s) for s in names if s in SHARDING]


def offloads(question: Question, fixed: Fixed, allow: tuple[str, ...]) -> list[int]:
    """Indices of what is tried in host memory: nothing, unless it is asked for or allowed."""
    if fixed.offload is not None:
        return [OFFLOAD.index(fixed.offload)]
    if "offload" not in allow:
        return [0]
    return [index for index, what in enumerate(OFFLOAD) if question.machine.why_not_offloaded(what) is None]


def schedules(question: Question, fixed: Fixed, allow: tuple[str, ...]) -> list[int]:
    """Indices of the schedules that are tried for each pipeline: the usual one, and those that are allowed besides."""
    if fixed.schedule is not None:
        return [SCHEDULES.index(fixed.schedule)]
    usual = ("none", "1f1b", "interleaved")
    own = question.machine.stack.default_schedules
    more = [s for s in question.machine.stack.schedules if s not in usual and (s in own or s in allow)]
    return [USUAL, *(SCHEDULES.index(s) for s in more)]


def placements(question: Question, fixed: Fixed, allow: tuple[str, ...]) -> list[int]:
    """Indices of the orders of groups that are tried everywhere: the software's first, and those that are allowed."""
    if fixed.placement is not None:
        return [PLACEMENTS.index(fixed.placement)]
    able = question.machine.stack.placements
    return [PLACEMENTS.index(name) for name in able if name == able[0] or name in allow]


DOMAINS_SHARING = (2, 4, 8, 16)
"""Scale-up domains whose replicas share their states in the hybrid shardings that are tried, besides one."""


def shard_groups(question: Question, fixed: Fixed, sharding: int) -> list[int]:
    """Sizes of the groups that share states: of one domain, and with ``hsdp`` of several."""
    if fixed.shard_group is not None:
        return [fixed.shard_group]
    if sharding != SHARDING.index("hsdp"):
        return [0]
    return [0, *(count * question.domain_devices for count in DOMAINS_SHARING)]
