"""One optimizer step of each layout: composition only, parts that add up.

Stage sums depend on the cut and on pp and vpp alone, so they are made once for each pair of the two that occurs and
gathered for the layouts; sizes, sharding and batch come in after that.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Self

import numpy as np

from clusterplan import shapes
from clusterplan.arrays import FloatArray, IntArray, largest, total
from clusterplan.formulas import compute, memory, network, pipeline
from clusterplan.layer import ENDS, Group, LayerTable, Question, group
from clusterplan.layout import (
    OFFLOADS_ACTIVATIONS,
    OFFLOADS_OPTIMIZER,
    SHARDING,
    Cuts,
    Layouts,
    expert_replicas,
    micro_batches,
    replicas_apart,
    stage_distance,
    stage_layers,
    used_devices,
)

HELD = (pipeline.HELD_BY_SCHEDULE, pipeline.LEVEL_BY_SCHEDULE, pipeline.MORE_BY_SCHEDULE)
"""What a schedule holds in flight."""

OFFLOAD_HIDDEN_FRACTION = 0.9
"""Most of the copies of activations to the host and back that hide behind other work (assumed)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTime:
    """Parts of one step that add up to its length; every field has shape ``(layout,)``.

    Parts follow the slowest stage; the bubble is the time in which it waits for others.
    """

    compute_s: FloatArray
    """Matrix and vector work forward and backward. [s]"""
    recompute_s: FloatArray
    """Forward work that is run again to save memory. [s]"""
    host_s: FloatArray
    """Waiting for the host to launch work. [s]"""
    tp_exposed_s: FloatArray
    """Tensor-parallel traffic that compute does not hide. [s]"""
    cp_exposed_s: FloatArray
    """Context-parallel traffic that compute does not hide. [s]"""
    ep_exposed_s: FloatArray
    """Expert traffic that compute does not hide. [s]"""
    pp_exposed_s: FloatArray
    """Stage-to-stage traffic that compute does not hide. [s]"""
    dp_exposed_s: FloatArray
    """Gradient reduction and weight gathering that compute does not hide. [s]"""
    offload_exposed_s: FloatArray
    """Copies of activations to the host and back that compute does not hide. [s]"""
    contention_s: FloatArray
    """What hidden traffic costs the compute that hides it. [s]"""
    bubble_s: FloatArray
    """Filling and draining of the pipeline. [s]"""
    optimizer_s: FloatArray
    """Update of the parameters. [s]"""
    jitter_s: FloatArray
    """Waiting for the slowest node. [s]"""

    @property
    def total_s(self) -> FloatArray:
        """Length of the step. [s]"""
        return total(getattr(self, part.name) for part in fields(self))

    @property
    def communication_s(self) -> FloatArray:
        """Exposed communication of all kinds. [s]"""
        kinds = ("tp", "cp", "ep", "pp", "dp", "offload")
        return total(getattr(self, f"{kind}_exposed_s") for kind in kinds)

    @property
    def waiting_s(self) -> FloatArray:
        """Time in which devices wait for one another, or for their hosts. [s]"""
        return self.host_s + self.bubble_s + self.jitter_s

    @property
    def busy_s(self) -> FloatArray:
        """Work on the device. [s]"""
        return self.compute_s + self.recompute_s + self.contention_s + self.optimizer_s


@dataclass(frozen=True, slots=True, kw_only=True)
class StageMemory:
    """Parts of the memory of one device that add up; every field has shape ``(layout, stage)``."""

    weights_bytes: FloatArray
    """Weights that the device computes with. [byte]"""
    gradients_bytes: FloatArray
    """Gradients that are kept through the step. [byte]"""
    optimizer_bytes: FloatArray
    """Master copy and moments. [byte]"""
    activations_bytes: FloatArray
    """Results kept for the backward pass. [byte]"""
    logits_bytes: FloatArray
    """Logits and their gradients at the loss. [byte]"""
    buffers_bytes: FloatArray
    """Gathered layers. [byte]"""
    fragmentation_bytes: FloatArray
    """What the allocator reserves beyond what is allocated. [byte]"""
    context_bytes: FloatArray
    """Runtime context and communicators. [byte]"""

    @property
    def total_bytes(self) -> FloatArray:
        """What the device's own tools would show. [byte]"""
        return total(getattr(self, part.name) for part in fields(self))


@dataclass(frozen=True, slots=True, kw_only=True)
class StageTable:
    """Sums over the parts that a stage holds, for each pair of a cut and a pipeline.

    Fields have shape ``(pair, stage)`` unless they say otherwise.
    """

    pair: IntArray
    """Row of this table for each layout, shape ``(layout,)``."""
    stage: IntArray
    """Index of the stage."""
    all_stages_s: FloatArray
    """One micro-batch through all the stages, everything but dp and pp traffic, shape ``(pair,)``. [s]"""
    slowest: dict[str, FloatArray]
    """Time parts of one micro-batch on the slowest stage by name, shape ``(pair,)`` each. [s]"""
    saved_bytes: FloatArray
    """Kept for the backward pass of one micro-batch. [byte]"""
    working_bytes: FloatArray
    """Held besides by the part at work. [byte]"""
    dense_parameters: FloatArray
    expert_parameters: FloatArray
    largest_layer: FloatArray
    """Parameters of the largest layer."""
    layers: FloatArray
    """Layers of all kinds."""
    is_last: FloatArray
    """1 on the stage with the output head."""

    def at(self, pair: IntArray) -> Self:
        """The same sums, for layouts with these pairs."""
        return replace(self, pair=pair)

    def rows(self, name: str) -> FloatArray:
        """One field for each layout, shape ``(layout, stage)``.

        Stage after stage in memory: arithmetic with arrays of one number for each layout is many times quicker so.
        """
        values: FloatArray = getattr(self, name)
        return values.T.take(self.pair, axis=1).T

    def most(self, name: str) -> FloatArray:
        """Largest of the stages, for each layout, shape ``(layout,)``."""
        values: FloatArray = getattr(self, name)
        return largest(values.T)[self.pair]


TIME_PARTS = (
    "compute_s",
    "recompute_s",
    "host_s",
    "tp_exposed_s",
    "cp_exposed_s",
    "ep_exposed_s",
    "contention_s",
    "memory_bound_s",
)
"""Columns of the layer table that a stage's time is made of; the last one is contained in the first two."""

STAGE_PARTS = TIME_PARTS[:-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipelines:
    """Pipelines under evaluation and what their stages hold."""

    pp: IntArray
    """Stages, shape ``(pipeline,)``."""
    vpp: IntArray
    """Chunks of layers on each stage, shape ``(pipeline,)``."""
    stage: IntArray
    """Stages that are kept, shape ``(pipeline, stage)``."""
    count: FloatArray
    """How often a stage holds each part, shape ``(pipeline, stage, part)``."""
    layers: FloatArray
    """Layers of all kinds on a stage, shape ``(pipeline, stage)``."""
    is_last: FloatArray
    """1 on the stage with the output head, shape ``(pipeline, stage)``."""


def pipelines(question: Question, pairs: list[tuple[int, int]], *, every: bool = False) -> Pipelines:
    """What the stages of some pipelines hold; only those that can be extreme, unless every stage is asked for."""
    model = question.model
    where = stage_layers(shapes.layer_kinds(model), pairs, every=every, end_layers=question.end_layers)
    # Modules of token prediction stand on the last stage; `parts` has the order of the columns.
    modules = where.is_last * model.mtp_layers
    ends = {"embedding": where.is_first, "head": where.is_last, "tied copy": where.is_last & ~where.is_first}
    layers = np.concatenate([where.count[..., :-1], modules[..., None]], axis=-1)
    count = np.concatenate([layers, *(ends[end][..., None] for end in ENDS)], axis=-1).astype(float)
    held = np.sum(layers, axis=-1).astype(float)
    pp, vpp = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    return Pipelines(pp=pp, vpp=vpp, stage=where.stage, count=count, layers=held, is_last=where.is_last.astype(float))


def model_counts(question: Question) -> FloatArray:
    """How often the whole model holds each part, shape ``(part,)``."""
    ends = [float(end != "tied copy") for end in ENDS]
    return np.concatenate([shapes.kind_counts(question.model), ends])


def stage_table(question: Question, table: LayerTable, cut: IntArray, pipes: Pipelines, pipe: IntArray) -> StageTable:
    """Sum the parts of each stage, for pairs of a cut and a pipeline (rows of the two tables, shape ``(pair,)``)."""
    held = pipes.count.take(pipe, axis=0)  # (pair, stage, part)

    def by_stage(each: FloatArray) -> FloatArray:
        return np.einsum("rsp,rp->rs", held, each)

    def largest_held(each: FloatArray) -> FloatArray:
        return largest(np.where(held[..., part] > 0, each[:, part, None], 0.0) for part in range(held.shape[2]))

    prices = {name: table.rows(name, cut) for name in TIME_PARTS}
    times = {name: by_stage(price) for name, price in prices.items()}
    work = total(times[name] for name in STAGE_PARTS)
    slowest = np.argmax(work, axis=1)
    rows = np.arange(len(cut))
    whole = total(prices[name] for name in STAGE_PARTS) @ model_counts(question)
    dense, expert = table.rows("dense_parameters", cut), table.rows("expert_parameters", cut)
    return StageTable(
        pair=rows,
        stage=pipes.stage.take(pipe, axis=0),
        all_stages_s=whole,
        slowest={"work_s": work[rows, slowest], **{name: t[rows, slowest] for name, t in times.items()}},
        saved_bytes=by_stage(table.rows("saved_bytes", cut)),
        working_bytes=largest_held(table.rows("working_bytes", cut)),
        dense_parameters=by_stage(dense),
        expert_parameters=by_stage(expert),
        largest_layer=largest_held(dense + expert),
        layers=pipes.layers.take(pipe, axis=0),
        is_last=pipes.is_last.take(pipe, axis=0),
    )


def one_stage_table(question: Question, table: LayerTable, layouts: Layouts) -> StageTable:
    """All stages of a table of layouts with one row."""
    pipes = pipelines(question, [(int(layouts.pp[0]), int(layouts.vpp[0]))], every=True)
    return stage_table(question, table, layouts.cut, pipes, np.zeros(1, dtype=np.int64))


@dataclass(frozen=True, slots=True, kw_only=True)
class Shards:
    """Over how many ranks the states of a layout are shared; every field has shape ``(layout,)``."""

    replicas: IntArray
    """Devices that hold the same dense parameters: dp × cp."""
    expert_replicas: IntArray
    """Devices that hold the same experts."""
    group: IntArray
    """Of the replicas, those that share: all, or with hsdp those of a scale-up domain."""
    expert_group: IntArray
    """The same for experts."""
    optimizer: IntArray
    gradients: IntArray
    weights: IntArray
    expert_optimizer: IntArray
    expert_gradients: IntArray
    expert_weights: IntArray
    is_gathered: FloatArray
    """1 where weights are gathered for each use."""


def shards(question: Question, layouts: Layouts, cuts: Cuts) -> Shards:
    """Over how many ranks optimizer states, gradients and weights are shared."""
    level = {"zero1": 1, "zero2": 2, "zero3": 3, "fsdp": 3, "hsdp": 3}
    degree = np.array([level.get(name, 0) for name in SHARDING])[layouts.sharding]
    if question.machine.stack.keeps_gathered_in_pipeline:
        # Gathering for each micro-batch of a pipeline would cost too much: between updates all is held as with zero1.
        degree = np.where((degree == 3) & (layouts.pp > 1), 1, degree)
    replicas = layouts.dp * cuts.cp[layouts.cut]
    experts = expert_replicas(layouts, cuts)
    inside = layouts.sharding == SHARDING.index("hsdp")
    shared, expert_shared = replicas, experts
    if inside.any():
        shared, expert_shared = (
            np.where(inside, sharing(question, layouts, line, count), count)
            for line, count in zip(replica_lines(layouts, cuts), (replicas, experts), strict=True)
        )
    return Shards(
        replicas=replicas,
        expert_replicas=experts,
        group=shared,
        expert_group=expert_shared,
        optimizer=np.where(degree >= 1, shared, 1),
        gradients=np.where(degree >= 2, shared, 1),
        weights=np.where(degree >= 3, shared, 1),
        expert_optimizer=np.where(degree >= 1, expert_shared, 1),
        expert_gradients=np.where(degree >= 2, expert_shared, 1),
        expert_weights=np.where(degree >= 3, expert_shared, 1),
        is_gathered=(degree == 3).astype(float),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """Where the devices lie that hold the same parameters; every field has shape ``(layout,)``."""

    stride: IntArray
    """Distance of neighbours."""
    run: IntArray
    """Neighbours at this distance, before the next replica begins."""
    apart: IntArray
    """How many times further than end to end the next replica begins."""

    def part(self, size: IntArray) -> Line:
        """Groups of so many neighbours."""
        return Line(stride=self.stride, run=np.gcd(self.run, size), apart=self.apart)

    def between(self, size: IntArray) -> Line:
        """Devices that hold the same place in groups of so many neighbours."""
        left = self.run // np.gcd(self.run, size)
        beyond = self.stride * size * self.apart
        has_rest = left > 1
        return Line(
            stride=np.where(has_rest, self.stride * size, beyond), run=left, apart=np.where(has_rest, self.apart, 1)
        )


def replica_lines(layouts: Layouts, cuts: Cuts) -> tuple[Line, Line]:
    """Where the replicas of dense parameters lie, and those of experts."""
    cut = layouts.cut
    inner, expert = cuts.tp[cut] * cuts.cp[cut], cuts.ep[cut] * cuts.etp[cut]
    apart = replicas_apart(layouts)
    return (
        Line(stride=cuts.tp[cut], run=cuts.cp[cut], apart=apart),
        Line(stride=expert, run=np.maximum(inner // expert, 1), apart=apart),
    )


def sharing(question: Question, layouts: Layouts, line: Line, count: IntArray) -> IntArray:
    """Of ``count`` replicas those that share with ``hsdp``: so many as are asked for, or those of a domain."""
    whole = question.domain_devices
    near = np.gcd(line.run, np.maximum(whole // line.stride, 1))
    far = np.gcd(count // line.run, np.maximum(whole // (line.stride * line.run * line.apart), 1))
    of_domain = np.where(line.apart == 1, np.gcd(count, np.maximum(whole // line.stride, 1)), near * far)
    return np.where(layouts.shard_group > 0, np.gcd(count, layouts.shard_group), of_domain)


def replicas_group(question: Question, line: Line, size: IntArray, devices: IntArray) -> Group:
    """Groups of so many replicas on a line."""
    return group(question, size, line.stride, devices, line.run, line.apart)


def stage_memory(question: Question, cuts: Cuts, layouts: Layouts, stages: StageTable) -> StageMemory:
    """Memory of a device of each stage by part."""
    stack, precision = question.machine.stack, question.job.precision
    split = shards(question, layouts, cuts)
    dense, expert = stages.rows("dense_parameters"), stages.rows("expert_parameters")

    def state(size: float | FloatArray, ranks: IntArray, expert_ranks: IntArray) -> FloatArray:
        return memory.state_bytes(dense, expert, size, ranks[:, None], expert_ranks[:, None])

    resident = memory.resident_micro_batches(
        in_flight(cuts, layouts, stages), stages.rows("layers"), OFFLOADS_ACTIVATIONS[layouts.offload][:, None]
    )
    is_resident = ~OFFLOADS_OPTIMIZER[layouts.offload]
    copies = pipeline.COPIES_BY_SCHEDULE[layouts.schedule][:, None]
    logits = shapes.logits(question.model, cuts, question.job.seq_len, question.software)[layouts.cut]
    parts = {
        "weights_bytes": state(copies * stack.kept_weight_bytes(precision), split.weights, split.expert_weights),
        "gradients_bytes": state(
            copies * stack.kept_gradient_bytes(precision), split.gradients, split.expert_gradients
        ),
        "optimizer_bytes": state(stack.optimizer_bytes * is_resident[:, None], split.optimizer, split.expert_optimizer),
        "activations_bytes": memory.activation_bytes(
            stages.rows("saved_bytes"), resident, stages.rows("working_bytes")
        ),
        "logits_bytes": memory.logits_bytes(stages.rows("is_last") * logits[:, None], stack.logit_bytes),
        "buffers_bytes": memory.gather_buffer_bytes(
            stages.rows("largest_layer"),
            stack.weight_bytes,
            stack.kept_gradient_bytes(precision),
            split.is_gathered[:, None],
            np.inf if stack.most_gathered_parameters is None else stack.most_gathered_parameters,
        ),
    }
    allocated = total(parts.values())
    return StageMemory(
        **parts,
        fragmentation_bytes=memory.fragmentation_bytes(allocated, stack.fragmentation_fraction),
        context_bytes=memory.context_bytes(allocated, stack.context_bytes),
    )


def in_flight(cuts: Cuts, layouts: Layouts, stages: StageTable) -> FloatArray:
    """Micro-batches whose activations a stage holds at once, shape ``(layout, stage)``."""
    return pipeline.micro_batches_in_flight(
        stages.rows("stage"),
        layouts.pp[:, None],
        layouts.vpp[:, None],
        micro_batches(layouts, cuts)[:, None],
        *(table[layouts.schedule][:, None] for table in HELD),
    )


def host_bytes(question: Question, cuts: Cuts, layouts: Layouts, stages: StageTable) -> FloatArray:
    """Host memory that a device of each stage fills with what is taken off it, shape ``(layout, stage)``. [byte]"""
    split, held = shards(question, layouts, cuts), in_flight(cuts, layouts, stages)
    states = memory.state_bytes(
        stages.rows("dense_parameters"),
        stages.rows("expert_parameters"),
        question.machine.stack.optimizer_bytes * OFFLOADS_OPTIMIZER[layouts.offload][:, None],
        split.optimizer[:, None],
        split.expert_optimizer[:, None],
    )
    kept = memory.resident_micro_batches(held, stages.rows("layers"), OFFLOADS_ACTIVATIONS[layouts.offload][:, None])
    return memory.host_bytes(states, stages.rows("saved_bytes"), held, kept)


def replica_messages(
    question: Question, cuts: Cuts, layouts: Layouts, dense: FloatArray, expert: FloatArray, layers: FloatArray
) -> list[tuple[Group, FloatArray, FloatArray]]:
    """Rings of data-parallel groups in a step: the group, a message's size and how often, shape ``(layout,)`` each.

    States that are only sharded are reduced and gathered once a step; gathered weights move for every micro-batch,
    layer by layer. Replicated states are all-reduced, which is as much as a reduction and a gathering of gradients.
    What groups of replicas hold apart from one another is all-reduced between them, once a step.

    Parameters
    ----------
    dense, expert, layers : ndarray
        Parameters and layers of a device's stage, shape ``(layout,)``.
    """
    stack = question.machine.stack
    sent = stack.sent_gradient_bytes(question.job.precision)
    split = shards(question, layouts, cuts)
    devices = used_devices(layouts, cuts)
    gathers = split.is_gathered > 0
    pieces = np.where(gathers, np.maximum(layers, 1), 1)
    repeats = pieces * np.where(gathers, micro_batches(layouts, cuts), 1)
    replicated = layouts.sharding == SHARDING.index("none")
    reductions = np.where(replicated, 2, 1)
    gatherings = np.where(replicated, 0, np.where(gathers, 2, 1))  # once forward and once more backward
    line, expert_line = replica_lines(layouts, cuts)
    pools = [(dense, line, split.replicas, split.group)]
    if question.model.is_moe:
        pools.append((expert, expert_line, split.expert_replicas, split.expert_group))
    found = []
    for parameters, where, replicas, size in pools:
        inside = replicas_group(question, where.part(size), size, devices)
        piece = parameters / pieces
        found += [
            (inside, network.message_bytes(piece, sent), repeats * reductions),
            (inside, network.message_bytes(piece, stack.weight_bytes), repeats * gatherings),
        ]
        if np.any(size < replicas):
            copies = replicas_group(question, where.between(size), replicas // size, devices)
            share = network.message_bytes(parameters / size, sent)
            found.append((copies, share, np.full(layouts.size, 2)))
    return found


def _data_parallel(
    question: Question, cuts: Cuts, layouts: Layouts, stages: StageTable
) -> tuple[FloatArray, FloatArray]:
    """Exposed data-parallel traffic of a step, and its price in contention, shape ``(layout,)`` each. [s]"""
    stack, pair = question.machine.stack, stages.pair
    held = (stages.most(name) for name in ("dense_parameters", "expert_parameters", "layers"))
    sent = replica_messages(question, cuts, layouts, *held)
    traffic = total(times * where.time_s("all_gather", size) for where, size, times in sent)
    gathers = shards(question, layouts, cuts).is_gathered > 0
    times = np.where(gathers, micro_batches(layouts, cuts), 1)
    # Traffic of a step hides behind the last micro-batch that adds to a gradient; where stages interleave that is a
    # whole group of pp, chunk after chunk, so most chunks are done long before the step ends.
    last = np.where(layouts.vpp > 1, np.minimum(layouts.pp, micro_batches(layouts, cuts)), 1)
    window = np.where(gathers, times, last) * stages.slowest["work_s"][pair]
    exposed = network.exposed_s(traffic, stack.dp_hidden_fraction, window)
    return exposed, network.contention_s(traffic, exposed, stack.contention_fraction)


def _send_s(question: Question, cuts: Cuts, layouts: Layouts) -> FloatArray:
    """One message to the next stage, shape ``(layout,)``; 0 for one stage. [s]"""
    cut = layouts.cut
    stride = stage_distance(layouts, cuts)
    pair = group(question, np.full(layouts.size, 2), stride)
    size = shapes.boundary_bytes(question.model, cuts, question.job.seq_len, question.software)[cut]
    tier = send_tier(question, layouts, stride)
    sent = network.send_s(size, pair.bytes_per_s[tier, np.arange(layouts.size)], pair.latency_s[tier])
    return np.where(layouts.pp > 1, sent, 0.0)


def send_tier(question: Question, layouts: Layouts, stride: IntArray) -> IntArray:
    """Level of the network on which a stage meets the next one, shape ``(layout,)``.

    Stages lie in a row: two neighbours somewhere meet on no lower tier than the one whose block holds the whole row.
    """
    spans = np.array([question.domain_devices, *(tier.span_devices for tier in question.machine.fabric.tiers)])
    tier: IntArray = np.searchsorted(np.maximum.accumulate(spans)[:-1], layouts.pp * stride)
    return tier


def _offload(
    question: Question, layouts: Layouts, stages: StageTable, batches: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Exposed copies of activations to the host and back, and their price in contention, shape ``(layout,)`` each."""
    saved = stages.most("saved_bytes") * OFFLOADS_ACTIVATIONS[layouts.offload]
    traffic = compute.offload_s(batches * saved, question.machine.system.host_link_bytes_per_s)
    window = pipeline.steady_s(batches, stages.slowest["work_s"][stages.pair])
    exposed = network.exposed_s(traffic, OFFLOAD_HIDDEN_FRACTION, window)
    return exposed, network.contention_s(traffic, exposed, question.machine.stack.contention_fraction)


def _optimizer_s(question: Question, layouts: Layouts, owned: FloatArray) -> FloatArray:
    """Update of the parameters that a device owns, on the device or by its host, shape ``(layout,)``. [s]"""
    device, system, stack = question.machine.accelerator, question.machine.system, question.machine.stack
    here = compute.optimizer_s(
        owned, stack.optimizer_traffic_bytes, device.memory_bytes_per_s, device.memory_efficiency
    )
    offloaded = OFFLOADS_OPTIMIZER[layouts.offload]
    if not offloaded.any():
        return here
    assert system.host_memory_bytes_per_s is not None, "systems that do not state it are refused before"
    by_host = compute.host_optimizer_s(
        owned,
        stack.gradient_bytes,
        stack.weight_bytes,
        stack.optimizer_traffic_bytes,
        system.host_link_bytes_per_s,
        system.host_memory_bytes_per_s / system.devices,
    )
    return np.where(offloaded, by_host, here)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What one step takes; arrays have shape ``(layout,)``."""

    time: StepTime
    memory_bound_s: FloatArray
    """Part of the busy time that memory bounds. [s]"""
    model_flop: FloatArray
    """Model FLOP of the step on all devices, attention counted in full. [FLOP]"""
    hardware_flop: FloatArray
    """The same and what is recomputed. [FLOP]"""
    mfu: FloatArray
    """Model-FLOP utilisation of the devices at work, against the dense peak of the products' format."""
    hfu: FloatArray
    """Hardware-FLOP utilisation: with what is recomputed."""
    tokens_per_s: FloatArray


def least_s(cuts: Cuts, layouts: Layouts, stages: StageTable) -> FloatArray:
    """Time that a step takes at least: its micro-batches and the fill, no traffic of dp and pp, shape ``(layout,)``."""
    work = stages.slowest["work_s"][stages.pair]
    left = pipeline.FILL_BY_SCHEDULE[layouts.schedule]
    fill = pipeline.bubble_s(stages.all_stages_s[stages.pair], work, 0.0, layouts.pp, layouts.vpp, left)
    return pipeline.steady_s(micro_batches(layouts, cuts), work) + fill


def step_tokens(question: Question, layouts: Layouts) -> FloatArray:
    """Tokens of one step, shape ``(layout,)``."""
    return layouts.global_batch.astype(np.float64) * question.job.seq_len


def step_time(question: Question, cuts: Cuts, layouts: Layouts, stages: StageTable) -> StepTime:
    """Time of one step of each layout by part."""
    machine, stack = question.machine, question.machine.stack
    pair = stages.pair
    batches = micro_batches(layouts, cuts)
    slowest = {name: value[pair] for name, value in stages.slowest.items()}
    send = _send_s(question, cuts, layouts)
    sends = 2 * layouts.vpp * send * (layouts.pp > 1)
    dp_exposed, dp_contention = _data_parallel(question, cuts, layouts, stages)
    split = shards(question, layouts, cuts)
    owned = memory.state_bytes(
        stages.rows("dense_parameters"),
        stages.rows("expert_parameters"),
        1.0,
        split.optimizer[:, None],
        split.expert_optimizer[:, None],
    )
    ep_exposed = pipeline.steady_s(batches, slowest["ep_exposed_s"])
    ep_left = network.paired_s(ep_exposed, pipeline.EP_EXPOSED_BY_SCHEDULE[layouts.schedule])
    copies_exposed, copies_contention = _offload(question, layouts, stages, batches)
    parts = {
        "compute_s": pipeline.steady_s(batches, slowest["compute_s"]),
        "recompute_s": pipeline.steady_s(batches, slowest["recompute_s"]),
        "host_s": pipeline.steady_s(batches, slowest["host_s"]),
        "tp_exposed_s": pipeline.steady_s(batches, slowest["tp_exposed_s"]),
        "cp_exposed_s": pipeline.steady_s(batches, slowest["cp_exposed_s"]),
        "ep_exposed_s": ep_left,
        "pp_exposed_s": network.exposed_s(
            pipeline.steady_s(batches, sends), stack.pp_hidden_fraction, pipeline.steady_s(batches, slowest["work_s"])
        ),
        "dp_exposed_s": dp_exposed,
        "offload_exposed_s": copies_exposed,
        "contention_s": pipeline.steady_s(batches, slowest["contention_s"])
        + dp_contention
        + copies_contention
        + network.contention_s(ep_exposed, ep_left, stack.contention_fraction),
        "bubble_s": pipeline.bubble_s(
            stages.all_stages_s[pair],
            slowest["work_s"],
            send,
            layouts.pp,
            layouts.vpp,
            pipeline.FILL_BY_SCHEDULE[layouts.schedule],
        ),
        "optimizer_s": _optimizer_s(question, layouts, largest(owned.T)),
    }
    devices = used_devices(layouts, cuts)
    jitter = network.jitter_s(total(parts.values()), devices / machine.system.node_devices, stack.step_noise_fraction)
    return StepTime(**parts, jitter_s=jitter)


def evaluate(question: Question, cuts: Cuts, table: LayerTable, layouts: Layouts, stages: StageTable) -> Step:
    """Time and work of one step of each layout."""
    job, cut = question.job, layouts.cut
    time = step_time(question, cuts, layouts, stages)
    step_s, devices = time.total_s, used_devices(layouts, cuts)
    memory_bound = pipeline.steady_s(micro_batches(layouts, cuts), stages.slowest["memory_bound_s"][stages.pair])
    tokens = step_tokens(question, layouts)
    model_flop = tokens * shapes.flop_per_token(question.model, job.seq_len).model
    again = table.rows("recompute_flop", cut) @ model_counts(question)
    hardware_flop = model_flop + again * layouts.global_batch / cuts.micro_batch[cut] * cuts.tp[cut] * cuts.cp[cut]
    peak = question.machine.accelerator.peak_flop_per_s(job.precision) or np.nan
    return Step(
        time=time,
        memory_bound_s=memory_bound + time.optimizer_s,
        model_flop=model_flop,
        hardware_flop=hardware_flop,
        mfu=compute.model_flop_utilisation(model_flop, step_s, devices, peak),
        hfu=compute.model_flop_utilisation(hardware_flop, step_s, devices, peak),
        tokens_per_s=tokens / step_s,
    )
