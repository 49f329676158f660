"""What each kind of group sends over each level of the network in one step of a layout."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from clusterplan import shapes, step
from clusterplan.arrays import FloatArray, total
from clusterplan.formulas import network
from clusterplan.layer import Group, LayerTable, Question, group, remote_share
from clusterplan.layout import Cuts, Layouts, micro_batches, stage_distance, used_devices
from clusterplan.operators import Message, Shape

KINDS = ("tp", "cp", "ep", "pp", "dp")
"""Groups that send, innermost first; what experts' tensor parallelism sends counts as tp."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """Traffic of one step of one layout by level of the network."""

    tiers: tuple[str, ...]
    """Names of the levels, from inside out."""
    span_devices: tuple[int, ...]
    """Devices of a block of each."""
    sent_bytes: dict[str, FloatArray]
    """What one device sends to others in its block of a level and in none below, by kind of group, on the mean over
    devices, shape ``(tier,)`` each. [byte]"""
    bytes_per_s: FloatArray
    """What the links of a device carry on each level, as the largest group reaches it, shape ``(tier,)``. [byte/s]"""

    @property
    def total_bytes(self) -> FloatArray:
        """Of all kinds, shape ``(tier,)``. [byte]"""
        return total(self.sent_bytes.values())

    @property
    def busy_s(self) -> FloatArray:
        """Time for which the links of each level are at work, hidden or not, shape ``(tier,)``. [s]"""
        return self.total_bytes / self.bytes_per_s


def traffic(question: Question, table: LayerTable, cuts: Cuts, layouts: Layouts) -> Traffic:
    """Traffic of a step of a table of layouts with one row; reductions count as rings."""
    machine = question.machine
    batches, pp = float(micro_batches(layouts, cuts)[0]), float(layouts.pp[0])
    cut = cuts.take(layouts.cut)
    layers = {kind: batches / pp * sent for kind, sent in _layers(question, cut).items()}
    everything = group(question, used_devices(layouts, cuts), np.ones(1, dtype=np.int64))
    return Traffic(
        tiers=("scale-up domain", *(tier.name for tier in machine.fabric.tiers)),
        span_devices=(question.domain_devices, *(tier.span_devices for tier in machine.fabric.tiers)),
        sent_bytes=layers
        | {
            "pp": 2 * batches * _sent_on(question, cuts, layouts),  # forward and backward
            "dp": _replicas(question, table, cuts, layouts),
        },
        bytes_per_s=everything.bytes_per_s[:, 0],
    )


def _layers(question: Question, cut: Cuts) -> dict[str, FloatArray]:
    """Messages of all layers and ends for one micro-batch, by kind, shape ``(tier,)`` each. [byte]"""
    model, software, seq_len = question.model, question.software, question.job.seq_len
    found = {kind: np.zeros(len(question.machine.fabric.tiers) + 1) for kind in ("tp", "cp", "ep")}
    one = np.ones(1, dtype=np.int64)
    groups = {
        "tp": group(question, cut.tp, one),
        "cp": group(question, cut.cp, cut.tp),
        "ep": group(question, cut.ep, cut.etp),
        "etp": group(question, cut.etp, one),
    }

    def add(shape: Shape, count: float, again: float) -> None:
        for message in shape.messages:
            times = count * (message.forward * (1 + again) + message.backward)
            sent = _message_bytes(question, groups[message.group], message)[:, 0]
            kind = "tp" if message.group == "etp" else message.group
            found[kind] = found[kind] + times * sent

    for kind, count in zip(shapes.kinds(model), shapes.kind_counts(model), strict=True):
        if count:
            add(shapes.layer_shape(model, kind, cut, seq_len, software), float(count), float(cut.recomputed[0]))
    for end in (shapes.embedding_shape, shapes.head_shape):
        add(end(model, cut, seq_len, software), 1.0, 0.0)
    return found


def _message_bytes(question: Question, where: Group, message: Message) -> FloatArray:
    """One message by level, shape ``(tier, row)``. [byte]"""
    if message.collective == "all_to_all":
        return network.all_to_all_bytes(message.bytes, where.members, remote_share(question, where, message))
    times = 2 if message.collective == "all_reduce" else 1
    return times * network.ring_bytes(message.bytes, where.members)


def _sent_on(question: Question, cuts: Cuts, layouts: Layouts) -> FloatArray:
    """One message to the next stage by level, shape ``(tier,)``. [byte]"""
    found = np.zeros(len(question.machine.fabric.tiers) + 1)
    pp = int(layouts.pp[0])
    if pp > 1:
        cut = cuts.take(layouts.cut)
        size = shapes.boundary_bytes(question.model, cut, question.job.seq_len, question.software)[0]
        tier = step.send_tier(question, layouts, stage_distance(layouts, cuts))[0]
        chunks = pp * int(layouts.vpp[0])
        found[tier] = size * (chunks - 1) / pp
    return found


def _replicas(question: Question, table: LayerTable, cuts: Cuts, layouts: Layouts) -> FloatArray:
    """Gradients and weights of a step by level, on the mean over stages, shape ``(tier,)``. [byte]"""
    counts, pp = step.model_counts(question), layouts.pp
    dense, expert = (getattr(table, f"{pool}_parameters")[layouts.cut] @ counts / pp for pool in ("dense", "expert"))
    layers = np.array([question.model.layers]) / pp
    sent = step.replica_messages(question, cuts, layouts, dense, expert, layers)
    found: FloatArray = total((times * network.ring_bytes(size, where.members))[:, 0] for where, size, times in sent)
    return found
