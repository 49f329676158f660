"""The whole job of each layout: steps, lost time, spares, energy, water, carbon and money. Composition only.

A run is put together in the order in which its parts need each other: how long (:class:`Progress`), on how much
(:class:`Fleet`), what that draws (:class:`Energy`), and what follows from it (:class:`Carbon`, :class:`Cost`). Fields
have shape ``(layout,)``, or none where all layouts share the value. Each is what one formula returned, so that a
recorder finds its maker; totals are properties.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from clusterplan import electricity
from clusterplan.arrays import ArrayLike, FloatArray, IntArray
from clusterplan.formulas import batch, carbon, checkpoints, cost, finish, goodput, power, reliability
from clusterplan.hardware import Fabric, System
from clusterplan.outcome import Carbon, Circumstances, Cost, Energy, Fleet, Progress, Purchase, Run, Work
from clusterplan.site import Cooling, Operations, Prices
from clusterplan.wiring import wiring

BARRIER_S = 0.5
"""Assumed: all ranks agree on the step and prepare the copy. Stalls of 0.3 to 0.6 s were measured on 1,500 to 9,000
devices (ByteCheckpoint, arXiv:2407.20143), of which the copy takes a small part. [s]"""
FILES_S = 2.0
"""Assumed: opening, metadata and commit of the files of one checkpoint. [s]"""
READS = 1
"""Assumed: a checkpoint is read once and passed on inside the cluster."""
CHECKPOINTS_KEPT = 20
"""Assumed: checkpoints that are kept at the same time, to go back to and to compare."""
AGE_S = 0.0
"""Assumed: machines that lose value are new when the run starts. [s]"""
YEAR_S = cost.S_PER_YEAR
CONTRACTED = 1.0
"""Assumed: a site's contract covers all of its electricity."""
BUILDING_RESIDUAL = 0.0
"""Assumed: nothing is left of the price of a building at the end of its life."""


# What cannot be -------------------------------------------------------------------------------------------------------


def unsupported(circumstances: Circumstances, coolings: tuple[Cooling, ...] = ()) -> list[str]:
    """Reasons why no layout can run in these circumstances; empty if there are none.

    Cooling designs that are known besides are named where they would do.
    """
    machine, cooling = circumstances.machine, circumstances.cooling
    system, storage = machine.system, circumstances.storage
    operations = circumstances.operations
    reasons = []
    instead = _carrying(system, coolings)
    if system.needs_liquid and cooling.liquid is None:
        reasons.append(f"{system.name} needs liquid cooling, which {cooling.name} does not have{instead}")
        instead = ""  # said once
    if system.rack_w > cooling.rack_limit_w:
        reasons.append(
            f"a rack of {system.name} gives {system.rack_w / 1e3:.0f} kW, more than the "
            f"{cooling.rack_limit_w / 1e3:.0f} kW of {cooling.name}{instead}"
        )
    if _stored_bytes(circumstances) > storage.capacity_bytes:
        reasons.append(
            f"{CHECKPOINTS_KEPT} checkpoints and the data take {float(_stored_bytes(circumstances)) / 1e15:.3g} PB, "
            f"more than the {storage.capacity_bytes / 1e15:.3g} PB of {storage.name}"
        )
    if operations.spare_shortage_fraction <= 0:
        reasons.append("no number of spares is enough where spare_shortage_fraction is 0")
    if operations.repeated_fraction >= 1:
        reasons.append("no run ends that repeats every step: repeated_fraction is 1")
    if operations.foreseen_fraction >= 1 or operations.alarm_precision_fraction <= 0:
        reasons.append(
            "no alarm foresees every failure or is always false: foreseen_fraction, alarm_precision_fraction"
        )
    if operations.memory_lost_fraction >= 1:
        reasons.append("copies in memory that no failure leaves are none: memory_lost_fraction is 1")
    known = [*machine.accelerator.failure_fraction, *system.failure_fraction]
    if NETWORK in known and part_rates(machine.fabric) is not None:
        known += OF_NETWORK
    for cause in operations.cause_factor:
        if cause not in known:
            listed = ", ".join(known) or "none"
            reasons.append(
                f"{system.name} has no failures of the cause {cause} (has: {listed}): operations.cause_factor"
            )
    for name in ("planned_stop_interval_s", "early_failure_s", "early_failure_factor", "swing_ramp_s"):
        if getattr(operations, name) <= 0:
            reasons.append(f"operations.{name} must be more than 0")
    return reasons


COOLINGS_NAMED = 3
"""Cooling designs that a refusal names: those that carry the rack with the least to spare."""


def _carrying(system: System, coolings: tuple[Cooling, ...]) -> str:
    """Cooling designs that carry the racks of a system, in words; empty where none is known."""
    fitting = [one for one in coolings if one.carries(system.rack_w, needs_liquid=system.needs_liquid)]
    fitting.sort(key=lambda one: one.rack_limit_w)
    named = ", ".join(f"{one.name} ({one.rack_limit_w / 1e3:.0f} kW)" for one in fitting[:COOLINGS_NAMED])
    return f"; --cooling can be {named}" if named else ""


def _listed_usd(prices: Prices) -> Mapping[str, float]:
    """Rents of a device for an hour or prices of a unit by system, as the basis has it. [USD]"""
    return prices.rents_usd_per_device_h if prices.basis == "rent" else prices.system_usd


def is_priced(prices: Prices, system: str) -> bool:
    """Whether a price list has what its basis needs of a system."""
    return system in _listed_usd(prices)


TERMS = {
    "on-demand": ("rent_usd_per_device_h", "rent"),
    "1-year": ("reserved_1_year_usd_per_device_h", "rent for a year"),
    "3-year": ("reserved_3_year_usd_per_device_h", "rent for three years"),
}
"""Where a price list has the rent of a term, and what it is called."""


def no_price(prices: Prices, system: str) -> str:
    """That a price list does not price a system, and what gives a price."""
    figure, called = TERMS[prices.rent_term] if prices.basis == "rent" else ("system_usd", "price")
    other = "; it has a rent: --set prices.basis=rent" if is_priced(replace(prices, basis="rent"), system) else ""
    return f"price list {prices.name} has no {called} of {system}; --set prices.{figure}.{system}=USD gives one{other}"


# Composition ----------------------------------------------------------------------------------------------------------


def evaluate(circumstances: Circumstances, work: Work) -> Run:
    """The whole job of each layout, from its step.

    Parameters
    ----------
    circumstances : Circumstances
        What the layouts share; :func:`unsupported` says whether they can run in it.
    work : Work
        One row a layout.

    Returns
    -------
    Run
        Expected values. The first start of the job is not in them, the last checkpoint's way to storage neither.
        Without cost where the price list does not price the system.
    """
    fleet = fleet_of(circumstances, work.used_devices, work.bought_devices)
    progress = progress_of(circumstances, work, fleet)
    return priced(circumstances, mean_work(circumstances, work, progress), fleet, progress)


def priced(circumstances: Circumstances, work: Work, fleet: Fleet, progress: Progress) -> Run:
    """The whole job of each layout, from its mean step and how long it takes."""
    energy = electricity.energy_of(circumstances, work, fleet, progress)
    emissions = _carbon(circumstances, fleet, progress, energy)
    paid = None
    if is_priced(circumstances.prices, circumstances.machine.system.name):
        paid = _cost(circumstances, fleet, progress, energy, emissions)
    return Run(
        fleet=fleet,
        progress=progress,
        energy=energy,
        carbon=emissions,
        cost=paid,
        usd_per_million_tokens=None
        if paid is None
        else cost.usd_per_million_tokens(paid.total_usd, circumstances.tokens),
        usd_per_device_h=None
        if paid is None
        else cost.usd_per_device_h(paid.total_usd, fleet.used_devices, progress.ideal_s),
    )


def cost_of(circumstances: Circumstances, outcome: Run) -> Cost:
    """What a run costs with other prices, which must have one of its system; all else is as it was."""
    return _cost(circumstances, outcome.fleet, outcome.progress, outcome.energy, outcome.carbon)


def purchase_of(circumstances: Circumstances, outcome: Run) -> Purchase:
    """What an owner of the price list pays for a run's cluster and building, whoever else uses them later."""
    return _purchase(circumstances, outcome.fleet, outcome.energy, outcome.progress.storage_share_fraction)


def fleet_of(circumstances: Circumstances, used_devices: IntArray, bought_devices: IntArray) -> Fleet:
    """Nodes, spares and purchase units for devices at work and devices that are there in any case."""
    machine, operations = circumstances.machine, circumstances.operations
    system = machine.system
    nodes = reliability.nodes(used_devices, system.node_devices)
    device_rate, node_rate = failure_rates(circumstances, used_devices)
    node_mtbf = reliability.job_mtbf_s(system.node_devices, device_rate, 1, node_rate)
    if operations.early_failure_factor != 1:  # spares are for the worst time, which is the first
        node_mtbf = node_mtbf / operations.early_failure_factor
    spares = reliability.spare_nodes(nodes, operations.repair_s, node_mtbf, operations.spare_shortage_fraction)
    units = reliability.purchase_units(used_devices, bought_devices, spares, system.node_devices, system.devices)
    spare_devices = reliability.spare_devices(spares, system.node_devices)
    idle_devices = reliability.idle_devices(units, system.devices, used_devices, spare_devices)
    return Fleet(
        used_devices=used_devices,
        spare_devices=spare_devices,
        idle_devices=idle_devices,
        used_nodes=nodes,
        spare_nodes=spares,
        nodes=reliability.nodes(used_devices + spare_devices + idle_devices, system.node_devices),
        units=units,
        racks=reliability.racks(units, system.racks),
    )


def _stored_bytes(circumstances: Circumstances) -> FloatArray:
    """Space that the run takes in storage. [byte]"""
    size = checkpoints.checkpoint_bytes(circumstances.parameters, circumstances.checkpoint_bytes_per_parameter)
    return checkpoints.stored_bytes(size, CHECKPOINTS_KEPT, circumstances.tokens, circumstances.operations.token_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Course:
    """How a run goes from failure to failure; every field has shape ``(layout,)``."""

    interval_s: FloatArray
    storage_interval_s: FloatArray
    stall_s: FloatArray
    persist_s: FloatArray
    restore_s: FloatArray
    up_fraction: FloatArray
    """Share of the time in service at work: neither down nor restoring."""
    training_fraction: FloatArray
    useful_fraction: FloatArray
    """Share of the time in service that is training kept in the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Trouble:
    """What a failure meets, whatever it falls back on; every field has shape ``(layout,)``."""

    size: FloatArray
    """Size of a checkpoint. [byte]"""
    saved: FloatArray
    """What is written of one, mean of all. [byte]"""
    mtbf_s: FloatArray
    down_s: FloatArray
    init_s: FloatArray
    """Until all ranks can talk to each other. [s]"""
    snapshot_s: FloatArray
    """Stall of a copy to the memory of the hosts. [s]"""
    write_s: FloatArray
    load_s: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True)
class _Length:
    """How long a run is if nothing ever stops it; fields are those of :class:`Progress`."""

    steps: IntArray
    ideal_s: FloatArray
    ramp_steps: IntArray | None
    ramp_s: FloatArray | None
    long_steps: IntArray | None = None
    long_s: FloatArray | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shares:
    """What is left of the time after one cause of losses and another; every field has shape ``(layout,)``."""

    service: FloatArray
    """Not in a planned stop."""
    up: FloatArray
    """Neither stopped, down nor restoring."""
    useful: FloatArray
    """Training that no failure undoes."""
    sound: FloatArray
    """Of that: what corruption does not spoil."""
    speed: FloatArray
    """Of that: what slow nodes leave."""
    fed: FloatArray
    """Of that: not waiting for data."""
    good: FloatArray
    """Of what is useful: the last three together."""


def _short_tokens(circumstances: Circumstances) -> float:
    """Tokens before the phase of longer sequences."""
    return circumstances.tokens - (0.0 if circumstances.long is None else circumstances.long.tokens)


def _ramp_tokens(circumstances: Circumstances) -> float:
    """Tokens of the phase in which the batch grows, at most all."""
    return 0.0 if circumstances.ramp is None else min(circumstances.ramp[1], _short_tokens(circumstances))


def _ramp(circumstances: Circumstances, work: Work) -> tuple[IntArray, FloatArray] | tuple[None, None]:
    """Steps and length of the phase in which the batch grows.

    Assumed: exposed communication and waiting of a step do not shrink with its batch, which is right of bubbles and of
    the reduction of gradients, and too much of what is sent for each micro-batch.
    """
    if circumstances.ramp is None:
        return None, None
    sequences = _ramp_tokens(circumstances) / circumstances.seq_len
    steps = batch.ramp_steps(circumstances.ramp[0], work.global_batch, sequences)
    fixed = work.communication_s + work.waiting_s
    return steps, batch.ramp_s(steps, work.step_s, fixed, work.global_batch, sequences)


PARTS = ("matrix_s", "memory_s", "communication_s", "waiting_s")
"""Parts of the work of a step."""


def _long_work(circumstances: Circumstances, work: Work) -> Work | None:
    """A step of the phase of longer sequences; None without one.

    Where it has no layout yet it is taken to have about as many tokens as any other, and the same shares of its parts.
    """
    long = circumstances.long
    if long is None or long.work is not None:
        return None if long is None else long.work
    batch = np.maximum(np.round(work.global_batch * circumstances.seq_len / long.seq_len), 1).astype(np.int64)
    longer = long.slowdown * batch * long.seq_len / (work.global_batch * circumstances.seq_len)
    parts: dict[str, Any] = {name: getattr(work, name) * longer for name in ("step_s", *PARTS)}
    return replace(work, global_batch=batch, **parts)


def mean_work(circumstances: Circumstances, work: Work, length: _Length | Progress) -> Work:
    """The mean step of a run of which the last ones may have longer sequences; the step itself where all are alike."""
    long = _long_work(circumstances, work)
    if long is None or length.long_s is None:
        return work
    parts: dict[str, Any] = {
        name: finish.mean_part_s(
            getattr(work, name),
            work.step_s,
            getattr(long, name),
            long.step_s,
            length.long_s,
            length.ideal_s,
            length.steps,
        )
        for name in ("step_s", *PARTS)
    }
    return replace(work, **parts)


def progress_of(circumstances: Circumstances, work: Work, fleet: Fleet) -> Progress:
    """How long the run takes, and what it takes of the storage."""
    operations, storage, deadline = circumstances.operations, circumstances.storage, circumstances.deadline_s
    length = _length_of(circumstances, work)
    work = mean_work(circumstances, work, length)
    trouble = _trouble_of(circumstances, fleet, length.ideal_s)
    course = RECOVERIES[operations.recovery](circumstances, work, trouble)
    shares = _shares_of(circumstances, work, trouble, course)
    training = _training_s(circumstances, length)
    wall = finish.expected_wall_s(training, shares.useful * shares.good)
    interruptions = reliability.expected_interruptions(wall * shares.service, trouble.mtbf_s, trouble.down_s)
    spread = _standard_deviation_s(operations, training / shares.good, course, trouble, interruptions, fleet)
    error = finish.standard_error_fraction(circumstances.machine.stack.step_error_fraction)
    spread = finish.finish_standard_deviation_s(wall, spread, error)
    stop, period = operations.planned_stop_s, course.storage_interval_s + course.stall_s
    stored = checkpoints.stored_bytes(trouble.size, CHECKPOINTS_KEPT, circumstances.tokens, operations.token_bytes)
    return Progress(
        steps=length.steps,
        ideal_s=length.ideal_s,
        mtbf_s=trouble.mtbf_s,
        checkpoint_bytes=trouble.size,
        checkpoint_stall_s=course.stall_s,
        checkpoint_persist_s=course.persist_s,
        checkpoint_interval_s=course.interval_s,
        storage_interval_s=course.storage_interval_s,
        daily_checkpoint_bytes=checkpoints.daily_bytes(trouble.saved, period),
        stored_bytes=stored,
        storage_share_fraction=checkpoints.store_share_fraction(
            stored, storage.capacity_bytes, trouble.saved, storage.write_bytes_per_s, period
        ),
        data_bytes_per_s=checkpoints.read_bytes_per_s(_batch_bytes(circumstances, work), work.step_s),
        down_s=trouble.down_s,
        restore_s=course.restore_s,
        up_fraction=shares.up,
        training_fraction=course.training_fraction,
        **_losses(circumstances, course, shares),
        ramp_steps=length.ramp_steps,
        ramp_s=length.ramp_s,
        long_steps=length.long_steps,
        long_s=length.long_s,
        goodput_fraction=finish.goodput_fraction(length.ideal_s, wall),
        wall_s=wall,
        expected_interruptions=interruptions,
        planned_stops=reliability.expected_interruptions(wall if stop else 0, operations.planned_stop_interval_s, stop),
        standard_deviation_s=spread,
        deadline_probability=None if deadline is None else finish.deadline_probability(deadline, wall, spread),
    )


def _length_of(circumstances: Circumstances, work: Work) -> _Length:
    """Steps of a run and how long they take: those of a growing batch, all others, those of longer sequences."""
    steps = finish.steps(_short_tokens(circumstances), work.global_batch, circumstances.seq_len)
    ramp_steps, ramp_s = _ramp(circumstances, work)
    if ramp_steps is None or ramp_s is None:
        ideal = finish.ideal_s(steps, work.step_s)
    else:
        later = finish.steps(
            _short_tokens(circumstances) - _ramp_tokens(circumstances), work.global_batch, circumstances.seq_len
        )
        steps = batch.ramped_steps(ramp_steps, later)
        ideal = batch.ramped_ideal_s(ramp_s, later, work.step_s)
    short = _Length(steps=steps, ideal_s=ideal, ramp_steps=ramp_steps, ramp_s=ramp_s)
    long = _long_work(circumstances, work)
    if long is None or circumstances.long is None:
        return short
    long_steps = finish.steps(circumstances.long.tokens, long.global_batch, circumstances.long.seq_len)
    long_s = finish.ideal_s(long_steps, long.step_s)
    return replace(
        short,
        steps=finish.lengthened_steps(steps, long_steps),
        ideal_s=finish.lengthened_ideal_s(ideal, long_s),
        long_steps=long_steps,
        long_s=long_s,
    )


def _training_s(circumstances: Circumstances, length: _Length) -> FloatArray:
    """All steps with those that are repeated for reasons of training, and evaluation. [s]"""
    training = finish.training_s(length.ideal_s, circumstances.operations.repeated_fraction)
    if not circumstances.evaluation_fraction:
        return training
    return batch.with_evaluation_s(training, circumstances.evaluation_fraction)


def _trouble_of(circumstances: Circumstances, fleet: Fleet, ideal_s: FloatArray) -> _Trouble:
    """How often a job fails, and how long it takes to save it and to start it again."""
    operations, storage = circumstances.operations, circumstances.storage
    devices, nodes = fleet.used_devices, fleet.used_nodes
    size = checkpoints.checkpoint_bytes(circumstances.parameters, circumstances.checkpoint_bytes_per_parameter)
    saved, read = size, size
    if operations.saved_fraction < 1:
        saved = checkpoints.saved_bytes(size, operations.saved_fraction)
        read = checkpoints.restored_bytes(size, operations.saved_fraction)
    host_link = circumstances.machine.system.host_link_bytes_per_s
    return _Trouble(
        size=size,
        saved=saved,
        mtbf_s=_mtbf_s(circumstances, fleet, ideal_s),
        down_s=_down_s(operations, fleet),
        init_s=reliability.communicator_init_s(
            devices, operations.communicator_s, operations.communicator_s_per_device
        ),
        snapshot_s=checkpoints.snapshot_s(size, devices, host_link, BARRIER_S),
        write_s=checkpoints.write_s(saved, storage.write_bytes_per_s, nodes, storage.node_bytes_per_s, FILES_S),
        load_s=checkpoints.load_s(read, READS, storage.read_bytes_per_s, nodes, storage.node_bytes_per_s, FILES_S),
    )


def _batch_bytes(circumstances: Circumstances, work: Work) -> FloatArray:
    """Data of one step. [byte]"""
    return checkpoints.batch_bytes(work.global_batch, circumstances.seq_len, circumstances.operations.token_bytes)


def _shares_of(circumstances: Circumstances, work: Work, trouble: _Trouble, course: _Course) -> _Shares:
    """What planned stops, failures, corruption, slow nodes and data leave of the time."""
    operations, stop = circumstances.operations, circumstances.operations.planned_stop_s
    service = goodput.in_service_fraction(
        stop
        and reliability.restore_s(trouble.init_s, trouble.load_s, stop + operations.launch_s + operations.warmup_s),
        operations.planned_stop_interval_s,
    )
    sound = goodput.uncorrupted_fraction(operations.silent_fraction, operations.silent_found_s, trouble.mtbf_s)
    speed = goodput.full_speed_fraction(operations.slow_node_fraction)
    fed = goodput.fed_fraction(work.step_s, _batch_bytes(circumstances, work), circumstances.storage.read_bytes_per_s)
    return _Shares(
        service=service,
        up=goodput.both_fraction(service, course.up_fraction),
        useful=goodput.both_fraction(service, course.useful_fraction),
        sound=sound,
        speed=speed,
        fed=fed,
        good=sound * speed * fed,
    )


def _losses(circumstances: Circumstances, course: _Course, shares: _Shares) -> dict[str, FloatArray]:
    """What each cause takes of what those before it leave; with goodput all add up to 1.

    In a row: planned stops, restarts, work that failures undo, checkpoints, corruption, slow nodes, data, evaluation,
    repeated steps.
    """
    up, useful, stepping = shares.up, shares.useful, course.training_fraction
    kept, training = useful / (up * stepping), 1 - circumstances.evaluation_fraction
    unrepeated = 1 - circumstances.operations.repeated_fraction
    return {
        "planned_loss_fraction": goodput.lost_fraction(1, shares.service),
        "restart_loss_fraction": goodput.lost_fraction(shares.service, course.up_fraction),
        "rework_loss_fraction": goodput.lost_fraction(up, kept),
        "stall_loss_fraction": goodput.lost_fraction(up * kept, stepping),
        "silent_loss_fraction": goodput.lost_fraction(useful, shares.sound),
        "slow_loss_fraction": goodput.lost_fraction(useful * shares.sound, shares.speed),
        "data_loss_fraction": goodput.lost_fraction(useful * shares.sound * shares.speed, shares.fed),
        "evaluation_loss_fraction": goodput.lost_fraction(useful * shares.good, training),
        "repeat_loss_fraction": goodput.lost_fraction(useful * shares.good * training, unrepeated),
    }


NETWORK = "network"
"""Cause of failures that are those of links and switches, where the fabric knows how often each fails."""
OF_NETWORK = ("link", "switch")


def part_rates(fabric: Fabric) -> tuple[float, float] | None:
    """Failures of a link and of a switch; None where nobody says, or where the switches are not known. [1/s]"""
    link, switch = fabric.failures_per_link_s, fabric.failures_per_switch_s
    return None if link is None or switch is None or fabric.tiers[0].switch_ports is None else (link, switch)


def node_failure_fraction(circumstances: Circumstances, devices: IntArray) -> Mapping[str, ArrayLike]:
    """Shares of the failures of a node without its devices by cause; those of the network by its links and switches."""
    machine = circumstances.machine
    shares, rates = machine.system.failure_fraction, part_rates(machine.fabric)
    if NETWORK not in shares or rates is None:
        return shares
    parts = wiring(machine.fabric, machine.system.scaleout_bytes_per_s, devices)
    link, switch = (parts.links[:, 0], rates[0]), (parts.switches[:, 0], rates[1])
    of_network = {
        "link": reliability.part_failure_fraction(shares[NETWORK], *link, *switch),
        "switch": reliability.part_failure_fraction(shares[NETWORK], *switch, *link),
    }
    return {cause: share for cause, share in shares.items() if cause != NETWORK} | of_network


def cause_factor(factors: Mapping[str, float], cause: str) -> float:
    """How many times as often a cause strikes; links and switches as often as the network, unless they are named."""
    return factors.get(cause, factors.get(NETWORK, 1.0) if cause in OF_NETWORK else 1.0)


def failure_rates(circumstances: Circumstances, devices: IntArray) -> tuple[ArrayLike, ArrayLike]:
    """Failures of a device and of a node without its devices, with the causes that strike more or less often. [1/s]"""
    device, system = circumstances.machine.accelerator, circumstances.machine.system
    factors = circumstances.operations.cause_factor

    def changed(failures_s: float, shares: Mapping[str, ArrayLike]) -> ArrayLike:
        rate: ArrayLike = failures_s
        for cause, share in shares.items():
            factor = cause_factor(factors, cause)
            if factor != 1:
                rate = reliability.changed_failures_s(rate, failures_s, share, factor)
        return rate

    if any(cause in factors for cause in OF_NETWORK):  # else what the network's are does not matter
        shares = node_failure_fraction(circumstances, devices)
    else:
        shares = system.failure_fraction
    return (
        changed(device.failures_per_device_s, device.failure_fraction),
        changed(system.failures_per_node_s, shares),
    )


def steady_mtbf_s(circumstances: Circumstances, fleet: Fleet) -> FloatArray:
    """Mean time between failures of the job once its machines are burned in. [s]"""
    device_rate, node_rate = failure_rates(circumstances, fleet.used_devices)
    mtbf = reliability.job_mtbf_s(fleet.used_devices, device_rate, fleet.used_nodes, node_rate)
    if circumstances.failures_beside_s:
        mtbf = reliability.joint_mtbf_s(mtbf, circumstances.failures_beside_s)
    return mtbf


def _mtbf_s(circumstances: Circumstances, fleet: Fleet, ideal_s: FloatArray) -> FloatArray:
    """Mean time between failures of the job, over the run."""
    operations = circumstances.operations
    mtbf = steady_mtbf_s(circumstances, fleet)
    if operations.early_failure_factor == 1:
        return mtbf
    return reliability.mean_mtbf_s(mtbf, operations.early_failure_factor, operations.early_failure_s, ideal_s)


def _down_s(operations: Operations, fleet: Fleet) -> FloatArray:
    """Mean time from a failure to the start of the processes."""
    down = reliability.down_s(operations.detect_s, operations.diagnose_s, operations.replace_s, operations.launch_s)
    if not operations.domain_failure_fraction:
        return down
    return reliability.mean_down_s(
        down,
        operations.domain_failure_fraction,
        operations.domain_outage_s,
        operations.domain_nodes,
        fleet.spare_nodes,
    )


def _from_storage(circumstances: Circumstances, work: Work, trouble: _Trouble) -> _Course:
    """Every failure goes back to the last checkpoint in storage."""
    operations, mtbf, down = circumstances.operations, trouble.mtbf_s, trouble.down_s
    stall, persist = trouble.write_s, np.zeros_like(trouble.write_s)
    if operations.asynchronous_checkpoint:
        stall, persist = trouble.snapshot_s, trouble.write_s
    foreseen = operations.foreseen_fraction
    interval = checkpoints.whole_steps_interval_s(
        checkpoints.checkpoint_interval_s(stall, mtbf / (1 - foreseen) if foreseen else mtbf),
        work.step_s,
        persist,
        operations.longest_checkpoint_interval_s,
    )
    restore = reliability.restore_s(trouble.init_s, trouble.load_s, operations.warmup_s)
    up = goodput.up_fraction(restore, down, mtbf)
    useful = goodput.asynchronous_useful_fraction(interval, stall, persist, restore, down, mtbf)
    if foreseen:
        lasting = restore + persist
        first_order = goodput.predicted_useful_fraction(
            interval,
            stall,
            operations.proactive_s,
            lasting,
            down,
            mtbf,
            foreseen,
            operations.alarm_precision_fraction,
        )
        # That form leaves out failures while the job restores.
        again = goodput.up_fraction(lasting, down, mtbf) * (1 + (down + lasting) / mtbf)
        useful = goodput.both_fraction(first_order, again)
    return _Course(
        interval_s=interval,
        storage_interval_s=interval,
        stall_s=stall,
        persist_s=persist,
        restore_s=restore,
        up_fraction=up,
        training_fraction=goodput.training_fraction(interval, stall),
        useful_fraction=useful,
    )


def _from_memory(circumstances: Circumstances, work: Work, trouble: _Trouble) -> _Course:
    """Most failures go back to a copy in the memory of peers, the others to storage.

    A copy can be relied on once the peers have it, one in storage once it is written; until then a failure goes back to
    the one before, which costs as much as a restore that takes so much longer.
    """
    operations, system = circumstances.operations, circumstances.machine.system
    mtbf, down, stall = trouble.mtbf_s, trouble.down_s, trouble.snapshot_s
    lost = operations.memory_lost_fraction
    copy = checkpoints.snapshot_s(trouble.size, work.used_devices, system.scaleout_bytes_per_s, 0)
    interval = checkpoints.whole_steps_interval_s(
        checkpoints.checkpoint_interval_s(stall, mtbf), work.step_s, copy, operations.longest_checkpoint_interval_s
    )
    rare = mtbf / lost if lost else np.full_like(mtbf, np.inf)
    often = mtbf / (1 - lost)
    extra, behind = trouble.write_s, np.zeros_like(trouble.write_s)
    if operations.asynchronous_checkpoint:
        extra, behind = behind, extra
    segments = goodput.segments(interval, extra, behind, rare)
    near = reliability.restore_s(trouble.init_s, copy, operations.warmup_s)
    far = reliability.restore_s(trouble.init_s, trouble.load_s, operations.warmup_s)
    useful = goodput.two_level_useful_fraction(
        interval, segments, stall, extra, near + copy, far + behind, down, often, rare
    )
    return _Course(
        interval_s=interval,
        storage_interval_s=goodput.pattern_interval_s(interval, segments),
        stall_s=stall,
        persist_s=copy,
        restore_s=near,
        up_fraction=goodput.up_fraction((1 - lost) * near + lost * far, down, mtbf),
        training_fraction=goodput.pattern_training_fraction(interval, segments, stall, extra),
        useful_fraction=useful,
    )


def _beside_replicas(circumstances: Circumstances, work: Work, trouble: _Trouble) -> _Course:
    """The other replicas go on after most failures; the rest go back to a checkpoint in storage."""
    operations = circumstances.operations
    share = operations.replica_global_fraction
    stopping = trouble.mtbf_s / share if share else np.full_like(trouble.mtbf_s, np.inf)
    whole = _from_storage(circumstances, work, replace(trouble, mtbf_s=stopping))
    loss = goodput.replica_loss_s(
        work.step_s,
        operations.replica_reconfigure_s,
        operations.replica_recover_s,
        1 if work.replicas is None else work.replicas,
        0,
        0,
    )
    beside = goodput.replica_tolerant_useful_fraction(1, 0, loss, trouble.mtbf_s)
    return replace(
        whole,
        up_fraction=goodput.both_fraction(beside, whole.up_fraction),
        useful_fraction=goodput.both_fraction(beside, whole.useful_fraction),
    )


RECOVERIES = {"storage": _from_storage, "memory": _from_memory, "replica": _beside_replicas}
"""Ways to go on after a failure."""


def _standard_deviation_s(
    operations: Operations,
    training_s: FloatArray,
    course: _Course,
    trouble: _Trouble,
    interruptions: FloatArray,
    fleet: Fleet,
) -> FloatArray:
    """Spread of the length of the run that failures cause.

    An asynchronous run has the law of a blocking one that restores for longer: see the formula of its useful share.
    Losses of other ways of recovery do not overlap; the time to the failure is as uncertain as they are long.
    """
    if operations.recovery == "storage" and not operations.foreseen_fraction:
        spread = finish.wall_standard_deviation_s(
            training_s,
            course.interval_s,
            course.stall_s,
            course.restore_s + course.persist_s,
            trouble.down_s,
            trouble.mtbf_s,
        )
    else:
        lost = 1 / (course.useful_fraction / course.training_fraction) - 1
        mean = lost * training_s / np.maximum(interruptions, 1)
        spread = finish.rare_loss_standard_deviation_s(interruptions, mean, mean)
    if operations.silent_fraction:
        found = operations.silent_found_s
        count = interruptions * operations.silent_fraction
        spread = np.hypot(spread, finish.rare_loss_standard_deviation_s(count, found, found))
    if operations.domain_failure_fraction:
        count = interruptions * operations.domain_failure_fraction * (operations.domain_nodes > fleet.spare_nodes)
        spread = np.hypot(spread, finish.rare_loss_standard_deviation_s(count, operations.domain_outage_s, 0))
    return spread


def _carbon(circumstances: Circumstances, fleet: Fleet, progress: Progress, energy: Energy) -> Carbon:
    """Greenhouse gas."""
    machine, site, prices = circumstances.machine, circumstances.site, circumstances.prices
    wall = progress.wall_s
    facility_j = power.energy_j(energy.mean_facility_w, wall)
    contract = site.contract_kg_co2e_per_kwh

    def share(units: IntArray, kg_co2e: float) -> FloatArray:
        return carbon.embodied_kg_co2e(units, kg_co2e, wall, prices.it_life_s, prices.utilisation_fraction)

    return Carbon(
        operational_kg_co2e=carbon.location_based_kg_co2e(facility_j, site.grid_kg_co2e_per_kwh),
        market_based_kg_co2e=None
        if contract is None
        else carbon.market_based_kg_co2e(facility_j, CONTRACTED, contract, site.grid_kg_co2e_per_kwh),
        accelerators_kg_co2e=share(fleet.devices, machine.accelerator.embodied_kg_co2e),
        hosts_kg_co2e=share(fleet.units, machine.system.host_embodied_kg_co2e),
        building_kg_co2e=carbon.building_kg_co2e(
            energy.peak_it_w, prices.building_kg_co2e_per_w, wall, prices.facility_life_s
        ),
    )


def _purchase(circumstances: Circumstances, fleet: Fleet, energy: Energy, share: FloatArray) -> Purchase:
    """Prices of what is bought; the price list must have a price of the system."""
    prices, none = circumstances.prices, np.zeros(np.shape(fleet.units))
    price = prices.system_usd[circumstances.machine.system.name]
    return Purchase(
        bought_systems_usd=cost.systems_capex_usd(fleet.units, price),
        bought_network_usd=cost.network_capex_usd(fleet.devices, 0, 0, 0, 0, prices.network_usd_per_device),
        bought_storage_usd=none
        if prices.storage_usd_per_tb_month is not None
        else share * cost.storage_capex_usd(circumstances.storage.capacity_bytes, prices.storage_usd_per_tb),
        bought_building_usd=none
        if prices.colocation_usd_per_kw_month is not None
        else cost.facility_capex_usd(energy.peak_it_w, prices.facility_usd_per_w, circumstances.cooling.capex_factor),
    )


def _cost(circumstances: Circumstances, fleet: Fleet, progress: Progress, energy: Energy, emissions: Carbon) -> Cost:
    """Money, by the basis of the price list.

    Rent pays for systems, network, building and people. Owners pay for all of that themselves, with interest, for the
    time of the run and its share of the time that nobody uses.
    """
    prices, wall, share = circumstances.prices, progress.wall_s, progress.storage_share_fraction
    it_capex = store_capex = _store_capex_usd(circumstances, wall, share)
    if prices.basis == "rent":
        held = _rented(circumstances, fleet, wall)
    else:
        bought = _purchase(circumstances, fleet, energy, share)
        it_capex = bought.bought_systems_usd + bought.bought_network_usd + store_capex
        held = _held(circumstances, bought, energy, wall)
    return Cost(
        carbon_usd=cost.carbon_usd(emissions.operational_kg_co2e, prices.usd_per_kg_co2e),
        storage_usd=_storage_usd(circumstances, store_capex, wall, share),
        support_usd=cost.support_usd(it_capex, prices.support_fraction_per_year, wall),
        **held,
        **_metered(circumstances, energy, wall),
    )


def _owned_usd(
    prices: Prices, capex_usd: FloatArray, life_s: float, residual_fraction: float, wall_s: FloatArray
) -> FloatArray:
    """A run's share of what lasts for longer, with interest. [USD]"""
    interest = prices.interest_fraction_per_year
    return cost.own_usd(capex_usd, interest, life_s, residual_fraction, wall_s, prices.utilisation_fraction)


def _machines_usd(prices: Prices, capex_usd: FloatArray, wall_s: FloatArray) -> FloatArray:
    """A run's share of machines, by their life or by the value that they lose. [USD]"""
    decline = prices.decline_fraction_per_year
    if decline is None:
        return _owned_usd(prices, capex_usd, prices.it_life_s, prices.residual_fraction, wall_s)
    return cost.depreciation_usd(capex_usd, decline, AGE_S, wall_s, prices.utilisation_fraction)


def _store_capex_usd(circumstances: Circumstances, wall_s: FloatArray, share: FloatArray) -> FloatArray:
    """Price of a run's share of the storage; none where that is rented. [USD]"""
    prices = circumstances.prices
    if prices.storage_usd_per_tb_month is not None:
        return np.zeros_like(wall_s)
    return share * cost.storage_capex_usd(circumstances.storage.capacity_bytes, prices.storage_usd_per_tb)


def _storage_usd(
    circumstances: Circumstances, capex_usd: FloatArray, wall_s: FloatArray, share: FloatArray
) -> FloatArray:
    """Storage for the time of the run, rented by the month or owned. [USD]"""
    prices = circumstances.prices
    if prices.storage_usd_per_tb_month is None:
        return _machines_usd(prices, capex_usd, wall_s)
    held_bytes = share * circumstances.storage.capacity_bytes
    return cost.storage_rent_usd(held_bytes, wall_s, prices.storage_usd_per_tb_month)


def _rented(circumstances: Circumstances, fleet: Fleet, wall_s: FloatArray) -> dict[str, FloatArray]:
    """What is paid for devices by the hour, at least for the term of the contract."""
    prices = circumstances.prices
    price = _listed_usd(prices)[circumstances.machine.system.name]
    least = {"on-demand": prices.minimum_rent_s or 0.0, "1-year": YEAR_S, "3-year": 3 * YEAR_S}[prices.rent_term]
    return {"rent_usd": cost.rent_usd(fleet.devices, cost.billed_s(wall_s, least), price)}


def _held(circumstances: Circumstances, bought: Purchase, energy: Energy, wall_s: FloatArray) -> dict[str, FloatArray]:
    """What owners pay for machines, for the building or a place in one, and for people."""
    prices = circumstances.prices
    parts = {
        "machines_usd": _machines_usd(prices, bought.bought_systems_usd, wall_s),
        "network_usd": _machines_usd(prices, bought.bought_network_usd, wall_s),
        "staff_usd": cost.staff_usd(prices.staff_persons, prices.usd_per_person_year, wall_s),
    }
    if prices.colocation_usd_per_kw_month is not None:
        place = cost.colocation_usd(energy.peak_it_w, wall_s, prices.colocation_usd_per_kw_month)
        return parts | {"colocation_usd": place}
    return parts | _building(circumstances, bought.bought_building_usd, energy, wall_s)


def _building(
    circumstances: Circumstances, capex_usd: FloatArray, energy: Energy, wall_s: FloatArray
) -> dict[str, FloatArray]:
    """What owners pay for a building, and what they get for its heat."""
    prices, heat_usd_per_kwh = circumstances.prices, circumstances.site.heat_usd_per_kwh
    parts = {
        "facility_usd": _owned_usd(prices, capex_usd, prices.facility_life_s, BUILDING_RESIDUAL, wall_s),
        "upkeep_usd": cost.support_usd(capex_usd, prices.facility_support_fraction_per_year, wall_s),
    }
    if energy.reused_kwh is not None and heat_usd_per_kwh:
        parts["sold_heat_usd"] = cost.sold_heat_usd(energy.reused_kwh, heat_usd_per_kwh)
    return parts


def _metered(circumstances: Circumstances, energy: Energy, wall_s: FloatArray) -> dict[str, FloatArray]:
    """What is paid for electricity and water; nothing where the rent includes them."""
    prices, site = circumstances.prices, circumstances.site
    if prices.basis == "rent" and prices.rent_includes_energy:
        return {}
    return {
        "energy_usd": cost.energy_usd(power.energy_j(energy.mean_facility_w, wall_s), site.usd_per_kwh),
        "demand_usd": cost.demand_usd(energy.peak_facility_w, wall_s, site.demand_usd_per_kw_month),
        "water_usd": cost.water_usd(energy.water_m3, site.usd_per_m3_water),
    }
