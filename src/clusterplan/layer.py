"""Time and bytes of one layer, and of the model's ends, under each cut: the operator list, priced.

The table has one row a cut and one column a *part*: the kinds of layer, then the ends. A stage's time is the sum of
its parts, so everything here is priced once for a cut and used for millions of layouts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from clusterplan import shapes
from clusterplan.arrays import FloatArray, IntArray
from clusterplan.formulas import compute, network, power
from clusterplan.hardware import Machine
from clusterplan.layout import Cuts
from clusterplan.operators import ELEMENT_BYTES, Core, Message, Product, Scan, Shape, Software, Vector, Work
from clusterplan.workload import Job, Model

ENDS = ("embedding", "head", "tied copy")
"""What stages hold besides layers. A tied head on a stage of its own needs a copy of the embedding."""


def parts(model: Model) -> tuple[str, ...]:
    """Columns of the table: what a stage may hold."""
    return (*shapes.kinds(model), *ENDS)


ARITHMETIC_CLOCK_BOUND = 1.0
"""Assumed: products, attention and scans go with the clock of the device; traffic to memory and network does not."""

CAST_BYTES = 4.0
"""Traffic to turn one 16-bit element into 8 bits, stored twice for the two orders of access. [byte]"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is evaluated together: one model on one machine in one format."""

    model: Model
    job: Job
    machine: Machine
    domain_devices: int
    """Devices of a scale-up domain that layouts use; all of them, or fewer to keep groups inside."""
    end_layers: int = 0
    """Layers that the output head and token prediction are worth where stages are balanced; 0 for an even split."""
    clock_fraction: float = 1.0
    """Clock of the devices over the one that they hold in training without a cap."""

    @property
    def clock_slowdown(self) -> FloatArray:
        """Time of arithmetic at this clock over that at full clock."""
        return power.clock_slowdown(self.clock_fraction, ARITHMETIC_CLOCK_BOUND)

    @property
    def software(self) -> Software:
        """What shapes see of the stack."""
        return Software.of(self.machine.stack, self.job.precision)

    @property
    def is_eager(self) -> bool:
        """Whether attention writes its scores."""
        return self.machine.attention_kernel == "eager"


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Where a group of devices sits; see :mod:`clusterplan.formulas.network`."""

    members: FloatArray
    """Members in a block of each tier, shape ``(tier, row)``."""
    bytes_per_s: FloatArray
    """Bandwidth of one device on each tier, shape ``(tier, row)``. [byte/s]"""
    latency_s: FloatArray
    """Latency of a step on each tier, shape ``(tier,)``. [s]"""
    is_torus: bool
    """Whether the first tier is a torus."""
    scaleup_reduction_bytes_per_s: FloatArray | None = None
    """Message over time of an all-reduce by the switches of a scale-up domain, where they are used for it. [byte/s]"""
    scaleout_reduces: bool = False
    """Whether the switches of the fabric are used to add."""

    def time_s(
        self, collective: str, message_bytes: FloatArray, remote_fraction: FloatArray | float = 1.0
    ) -> FloatArray:
        """Time of one collective of the whole group, shape ``(row,)``; an exchange may send less over domains. [s]"""
        if collective == "all_to_all":
            return network.all_to_all_s(
                message_bytes, self.members, self.bytes_per_s, self.latency_s, self.is_torus, remote_fraction
            )
        if collective == "all_reduce":
            return network.all_reduce_s(
                message_bytes,
                self.members,
                self.bytes_per_s,
                self.latency_s,
                self.is_torus,
                self.scaleup_reduction_bytes_per_s,
                self.scaleout_reduces,
            )
        return network.ring_s(message_bytes, self.members, self.bytes_per_s, self.latency_s, self.is_torus)


def group(
    question: Question,
    size: IntArray,
    stride: IntArray,
    devices: IntArray | float = np.inf,
    run: IntArray | None = None,
    apart: IntArray | int = 1,
) -> Group:
    """Tiers of groups of devices.

    Parameters
    ----------
    size : ndarray
        Devices of a group, shape ``(row,)``.
    stride : ndarray
        Distance of neighbours, shape ``(row,)``.
    devices : ndarray
        Devices that all groups fill, where that is known, shape ``(row,)``.
    run, apart : ndarray, optional
        Where ``apart`` is more than 1, a group is made of runs of ``run`` neighbours, which lie so many times further
        apart than end to end, shape ``(row,)``.
    """
    system, fabric = question.machine.system, question.machine.fabric

    def inside(span: int) -> FloatArray:
        whole = network.members_in_block(size, stride, span, devices)
        if run is None or np.all(np.asarray(apart) == 1):
            return whole
        of_run = network.members_in_block(run, stride, span, devices)
        runs = network.members_in_block(size // run, stride * run * apart, span, devices)
        return np.where(np.asarray(apart) == 1, whole, of_run * runs)

    members = [inside(question.domain_devices)]
    for tier in fabric.tiers:
        span = tier.span_devices // question.domain_devices * question.domain_devices or tier.span_devices
        members.append(np.maximum(inside(span), members[-1]))
    members[-1] = np.asarray(size, dtype=float)  # larger clusters than the last tier are refused elsewhere
    latency = network.tier_latency_s(system.scaleup_latency_s, tuple(tier.latency_s for tier in fabric.tiers))
    adding, share = question.machine.stack.in_network_reduction, system.scaleup_reduction_efficiency
    added = None
    if "scale-up" in adding and share is not None:
        added = network.reduction_bytes_per_s(system.scaleup_bytes_per_s, share)
    return Group(
        members=np.stack(members),
        bytes_per_s=_rates(question.machine, members),
        latency_s=latency,
        is_torus=system.scaleup_topology == "torus",
        scaleup_reduction_bytes_per_s=added,
        scaleout_reduces="scale-out" in adding and fabric.switches_reduce,
    )


def _rates(machine: Machine, members: list[FloatArray]) -> FloatArray:
    """Bandwidth of one device on each tier in a group with so many members there, shape ``(tier, row)``. [byte/s]"""
    system, fabric = machine.system, machine.fabric
    inside = network.scaleup_bytes_per_s(
        system.scaleup_bytes_per_s,
        system.scaleup_efficiency,
        system.scaleup_topology,
        members[0],
        system.scaleup_devices,
    )
    nodes = members[-1] / members[0]
    outside = (
        network.scaleout_bytes_per_s(
            system.scaleout_bytes_per_s,
            fabric.port_bytes_per_s,
            fabric.efficiency,
            fabric.decay_per_doubling,
            tier.oversubscription,
            nodes,
        )
        for tier in fabric.tiers
    )
    return np.stack([inside, *outside])


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerTable:
    """Prices of parts; every field has shape ``(cut, part)``. Times are of one micro-batch on one device."""

    compute_s: FloatArray
    """Own work forward and backward, without what is recomputed. [s]"""
    host_s: FloatArray
    """Waiting for the host to launch it. [s]"""
    recompute_s: FloatArray
    """Forward work that is run again. [s]"""
    memory_bound_s: FloatArray
    """What of both is bound by memory rather than by products. [s]"""
    tp_exposed_s: FloatArray
    """Tensor-parallel traffic that its products do not hide. [s]"""
    cp_exposed_s: FloatArray
    """Context-parallel traffic that attention does not hide. [s]"""
    ep_exposed_s: FloatArray
    """Expert traffic that other work does not hide. [s]"""
    contention_s: FloatArray
    """What hidden traffic costs the compute that hides it. [s]"""
    saved_bytes: FloatArray
    """Kept for the backward pass. [byte]"""
    working_bytes: FloatArray
    """Held by a part while its own backward pass runs, beyond what it keeps. [byte]"""
    dense_parameters: FloatArray
    """Parameters replicated over dp × cp."""
    expert_parameters: FloatArray
    """Parameters replicated over the expert replicas."""
    recompute_flop: FloatArray
    """Matrix and attention work of the recomputation, attention counted in full. [FLOP]"""

    def rows(self, name: str, cut: IntArray) -> FloatArray:
        """One field at these cuts, shape ``(row, part)``."""
        values: FloatArray = getattr(self, name)
        return values.take(cut, axis=0)


def _one_product_s(
    question: Question,
    m: FloatArray,
    n: FloatArray,
    k: FloatArray,
    count: FloatArray,
    result_bytes: float = ELEMENT_BYTES,
) -> FloatArray:
    device, precision = question.machine.accelerator, question.job.precision
    peak = device.peak_flop_per_s(precision)
    assert peak is not None, "formats without a peak are refused before"
    shape = compute.product_efficiency(
        m, n, k, device.k_ramp, device.tile_m, device.tile_n, device.compute_units, device.wave_hardness
    )
    return compute.product_s(
        m,
        n,
        k,
        count,
        peak,
        device.gemm_efficiency[precision],
        device.in_training_efficiency,
        shape,
        device.memory_bytes_per_s,
        device.memory_efficiency,
        result_bytes,
        question.machine.stack.kernel_share,
        question.clock_slowdown,
    )


def _vector_s(question: Question, traffic_bytes: FloatArray, factor: float) -> FloatArray:
    device = question.machine.accelerator
    return compute.memory_bound_s(traffic_bytes, factor, device.memory_bytes_per_s, device.memory_efficiency)


def _product_s(question: Question, product: Product) -> tuple[FloatArray, FloatArray]:
    """Forward and backward time: the backward pass has a product for the input and one for the weight."""
    m, n, k, count = product.m, product.n, product.k, product.count
    stack = question.machine.stack
    forward = _one_product_s(question, m, n, k, count)
    of_input = _one_product_s(question, m, k, n, count)
    of_weight = _one_product_s(question, k, n, m, count, stack.accumulation_bytes)
    backward = of_input + of_weight
    if product.pool == "expert":
        forward = compute.busiest_s(forward, stack.expert_imbalance_fraction)
        backward = compute.busiest_s(backward, stack.expert_imbalance_fraction)
    if question.job.precision in ("fp8", "fp4", "int8"):
        forward = forward + _vector_s(question, CAST_BYTES * m * k * count, 1.0)
        backward = backward + _vector_s(question, CAST_BYTES * m * n * count, 1.0)
    return forward, backward


def _half_peak(question: Question) -> tuple[float, float]:
    """16-bit peak and product share: attention runs in 16 bits whatever the format of the products."""
    device = question.machine.accelerator
    kind = "bf16" if device.bf16_flop_per_s else "fp16"
    peak = device.peak_flop_per_s(kind)
    assert peak is not None, "a device without a 16-bit format cannot train"
    return peak, device.gemm_efficiency[kind]


def _core_s(question: Question, core: Core) -> tuple[FloatArray, FloatArray]:
    """Forward and backward time; the backward pass has twice the work."""
    device, stack = question.machine.accelerator, question.machine.stack
    peak, product_share = _half_peak(question)
    if question.is_eager:
        forward, backward = (
            compute.eager_attention_s(
                factor * core.square_flop,
                core.scores,
                traffic,
                peak,
                product_share,
                device.in_training_efficiency,
                device.memory_bytes_per_s,
                device.memory_efficiency,
                stack.kernel_share,
                question.clock_slowdown,
            )
            for factor, traffic in ((1, stack.score_traffic_forward_bytes), (2, stack.score_traffic_backward_bytes))
        )
        return forward, backward
    share = device.attention_efficiency[question.machine.attention_kernel]
    rate, slower = device.in_training_efficiency, question.clock_slowdown
    forward, backward = (
        compute.attention_s(times * core.flop, core.reach, peak, share, rate, ratio, stack.kernel_share, slower)
        for times, ratio in ((1, 1.0), (2, device.attention_backward_ratio))
    )
    return forward, backward


def _scan_s(question: Question, scan: Scan) -> tuple[FloatArray, FloatArray]:
    """Forward and backward time; the backward pass has twice the work."""
    device, stack = question.machine.accelerator, question.machine.stack
    factor = stack.vector_traffic
    peak, product_share = _half_peak(question)
    rate, slower = device.in_training_efficiency, question.clock_slowdown
    forward, backward = (
        compute.scan_s(times * scan.flop, peak, product_share, rate, stack.kernel_share, slower)
        + _vector_s(question, traffic, factor)
        for times, traffic in ((1, scan.forward_bytes), (2, scan.backward_bytes))
    )
    return forward, backward


def _work_s(question: Question, operator: Work) -> tuple[FloatArray, FloatArray]:
    """Forward and backward time of one operator, shape ``(cut,)`` each. [s]"""
    if isinstance(operator, Product):
        return _product_s(question, operator)
    if isinstance(operator, Core):
        return _core_s(question, operator)
    if isinstance(operator, Scan):
        return _scan_s(question, operator)
    stack = question.machine.stack
    factor = stack.permutation_traffic if operator.is_permutation else stack.vector_traffic
    return (
        _vector_s(question, operator.forward_bytes, factor),
        _vector_s(question, operator.backward_bytes, factor),
    )


def _traffic_s(question: Question, cuts: Cuts, shape: Shape) -> dict[str, FloatArray]:
    """Traffic of one part by group, recomputation included, shape ``(cut,)`` each. [s]"""
    one = np.ones_like(cuts.tp)
    groups = {
        "tp": group(question, cuts.tp, one),
        "cp": group(question, cuts.cp, cuts.tp),
        "ep": group(question, cuts.ep, cuts.etp),
        "etp": group(question, cuts.etp, one),
    }
    again = cuts.recomputed
    spent = {name: np.zeros(cuts.size) for name in groups}
    for message in shape.messages:
        times = message.forward * (1 + again) + message.backward
        spent[message.group] = spent[message.group] + times * _message_s(question, groups[message.group], message)
    return {"tp": spent["tp"] + spent["etp"], "cp": spent["cp"], "ep": spent["ep"]}


def remote_share(question: Question, where: Group, message: Message) -> FloatArray | float:
    """Part of what an exchange sends to other domains that crosses, shape ``(cut,)``; 1 unless tokens go once."""
    if message.collective != "all_to_all" or not question.machine.stack.dispatches_once:
        return 1.0
    domains = where.members[-1] / where.members[0]
    return network.remote_fraction(message.copies, domains, np.maximum(domains * message.reach_fraction, 1.0))


def _message_s(question: Question, where: Group, message: Message) -> FloatArray:
    return where.time_s(message.collective, message.bytes, remote_share(question, where, message))


def _stall_s(question: Question, cuts: Cuts, shape: Shape) -> FloatArray:
    """Waiting of one layer until its host knows where tokens go."""
    if not any(product.pool == "expert" for product in shape.products):
        return np.zeros(cuts.size)
    return compute.routing_stall_s(question.machine.stack.moe_stall_s_per_layer, cuts.recomputed)


def _price(question: Question, cuts: Cuts, shape: Shape, *, is_layer: bool) -> LayerTable:
    """One column of the table, its fields of shape ``(cut,)``."""
    stack = question.machine.stack
    zero = np.zeros(cuts.size)
    forward, backward, recompute, recompute_flop, core, vector = zero, zero, zero, zero, zero, zero
    for operator in shape.operators:
        if isinstance(operator, Message):
            continue
        ahead, back = _work_s(question, operator)
        forward, backward = forward + ahead, backward + back
        if isinstance(operator, Core | Scan):
            core = core + ahead + back
        again = shapes.recomputed_share(operator, cuts, stack) if is_layer else zero
        if isinstance(operator, Vector | Scan):
            vector = vector + (1 + again) * ahead + back
        recompute = recompute + again * ahead
        flop = operator.full_flop if isinstance(operator, Product | Core | Scan) else zero
        recompute_flop = recompute_flop + again * flop
    work = forward + backward
    launch_s = stack.host_s_per_layer if is_layer else 0.0
    waits = compute.host_wait_s(forward, launch_s) + compute.host_wait_s(backward, launch_s)
    paced = work + waits  # traffic goes on while a device waits for launches
    traffic = _traffic_s(question, cuts, shape)
    # Products are overlapped with their traffic by copies inside a scale-up domain; across nodes nothing of it hides.
    inside = question.domain_devices % cuts.tp == 0
    exposed = {
        "tp": network.exposed_s(traffic["tp"], stack.tp_hidden_fraction, np.where(inside, paced - core, 0.0)),
        "cp": network.exposed_s(traffic["cp"], stack.cp_hidden_fraction, core),
        "ep": network.exposed_s(traffic["ep"], stack.ep_hidden_fraction, paced),
    }
    contention = [network.contention_s(traffic[g], exposed[g], stack.contention_fraction) for g in exposed]
    kept = shapes.saved_bytes(shape, cuts, stack, question.is_eager) if is_layer else zero
    held = shapes.working_bytes(shape, stack, question.is_eager)
    # Where only some layers run again, the working set is that of those that do between two kept inputs.
    runs_again = cuts.recomputed > 0
    restored = np.where(runs_again, cuts.checkpoint_layers * held, held)
    least = np.where(runs_again, shape.input_bytes, kept)
    return LayerTable(
        compute_s=work,
        host_s=waits + _stall_s(question, cuts, shape),
        recompute_s=recompute,
        memory_bound_s=vector,
        tp_exposed_s=exposed["tp"],
        cp_exposed_s=exposed["cp"],
        ep_exposed_s=exposed["ep"],
        contention_s=np.sum(contention, axis=0),
        saved_bytes=kept if is_layer else held,
        working_bytes=np.maximum(restored - least, 0.0) if is_layer else zero,
        dense_parameters=shape.weight_elements("dense"),
        expert_parameters=shape.weight_elements("expert"),
        recompute_flop=recompute_flop,
    )


def price_layers(question: Question, cuts: Cuts) -> LayerTable:
    """Prices of all parts of the model under all cuts."""
    model, software, seq_len = question.model, question.software, question.job.seq_len
    prices: list[LayerTable | None] = []
    for kind, count in zip(shapes.kinds(model), shapes.kind_counts(model), strict=True):
        if count == 0:
            prices.append(None)
            continue
        shape = shapes.layer_shape(model, kind, cuts, seq_len, software)
        prices.append(_price(question, cuts, shape, is_layer=True))
    for end in (shapes.embedding_shape, shapes.head_shape):
        prices.append(_price(question, cuts, end(model, cuts, seq_len, software), is_layer=False))
    zero = np.zeros(cuts.size)
    columns = {
        name: np.stack([*(zero if p is None else getattr(p, name) for p in prices), zero], axis=1)
        for name in LayerTable.__dataclass_fields__
    }
    columns["dense_parameters"][:, parts(model).index("tied copy")] = shapes.tied_copy_parameters(model, cuts, software)
    return LayerTable(**columns)
