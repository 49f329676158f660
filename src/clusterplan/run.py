"""The whole job of each layout: steps, lost time, spares, energy, water, carbon and money. Composition only.

A run is put together in the order in which its parts need each other: how long (:class:`Progress`), on how much
(:class:`Fleet`), what that draws (:class:`Energy`), and what follows from it (:class:`Carbon`, :class:`Cost`). Fields
have shape ``(layout,)``, or none where all layouts share the value. Each is what one formula returned, so that a
recorder finds its maker; totals are properties.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from clusterplan import building
from clusterplan.arrays import ArrayLike, FloatArray, IntArray
from clusterplan.errors import ProfileError
from clusterplan.formulas import batch, carbon, checkpoints, cost, facility, finish, goodput, power, reliability
from clusterplan.hardware import Accelerator, Machine, Storage, System
from clusterplan.site import Cooling, Operations, Prices, Site
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
FULL_CLOCK = 1.0
"""No cap."""
LOWEST_CLOCK = 0.6
"""Assumed: voltage stops falling near this share of the clock in training; below, the power law does not hold."""
AGE_S = 0.0
"""Assumed: machines that lose value are new when the run starts. [s]"""
YEAR_S = cost.S_PER_YEAR
CONTRACTED = 1.0
"""Assumed: a site's contract covers all of its electricity."""
BUILDING_RESIDUAL = 0.0
"""Assumed: nothing is left of the price of a building at the end of its life."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """What all layouts of a machine share."""

    machine: Machine
    site: Site
    cooling: Cooling
    prices: Prices
    storage: Storage
    operations: Operations
    tokens: float
    """Tokens that the run sees."""
    seq_len: int
    """Tokens of one sequence."""
    parameters: float
    """All parameters of the model, multi-token prediction included."""
    checkpoint_bytes_per_parameter: float
    """What is saved of each: the weight and the optimizer's states. [byte]"""
    deadline_s: float | None = None
    """Time allowed from the start of training; None if there is no limit. [s]"""
    evaluation_fraction: float = 0.0
    """Share of the time at work in which the model is evaluated."""
    ramp: tuple[int, float] | None = None
    """Sequences of the first step and tokens of the phase in which the batch grows; None for the same batch always."""
    failures_beside_s: float = 0.0
    """Failures of parts of the job on other machines, which stop this one too. [1/s]"""
    clock_fraction: float = 1.0
    """Clock of the devices over the one that they hold in training without a cap."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One step of each layout and the devices that it has; every field has shape ``(layout,)``.

    The four parts add up to the step.
    """

    step_s: FloatArray
    """Length of one step. [s]"""
    matrix_s: FloatArray
    """Matrix products. [s]"""
    memory_s: FloatArray
    """Work that memory bounds. [s]"""
    communication_s: FloatArray
    """Exposed communication. [s]"""
    waiting_s: FloatArray
    """Bubbles and waiting for others. [s]"""
    used_devices: IntArray
    """Devices at work."""
    bought_devices: IntArray
    """Devices that are there in any case, at least ``used_devices``; what is not at work serves as spares first."""
    global_batch: IntArray
    """Sequences of one step."""
    replicas: IntArray | None = None
    """Data-parallel replicas; None for one, where they do not matter."""


# Results --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """What is bought or rented. Used, spare and idle devices add up to all.

    Spares are nodes. Devices that are bought and not at work serve as spares first; purchase units are added for the
    others, and what is left of the last one is idle.
    """

    used_devices: IntArray
    """Devices at work."""
    spare_devices: IntArray
    """Devices of the spare nodes."""
    idle_devices: IntArray
    """Devices that are there and neither used nor spare."""
    used_nodes: IntArray
    """Nodes at work."""
    spare_nodes: IntArray
    """Nodes that stand by for those in repair."""
    nodes: IntArray
    """All nodes."""
    units: IntArray
    """Purchase units."""
    racks: FloatArray
    """Racks that all units fill."""

    @property
    def devices(self) -> IntArray:
        """All devices: used, spare and idle."""
        return self.used_devices + self.spare_devices + self.idle_devices


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How long the run takes. Goodput and the four losses add up to 1."""

    steps: IntArray
    """Optimizer steps."""
    ideal_s: FloatArray
    """All steps one after another. [s]"""
    mtbf_s: FloatArray
    """Mean time between failures of the nodes at work; infinite if nothing fails. [s]"""
    checkpoint_bytes: FloatArray
    """Size of one checkpoint. [byte]"""
    checkpoint_stall_s: FloatArray
    """Time training stands still for one checkpoint. [s]"""
    checkpoint_persist_s: FloatArray
    """From the end of the stall until the checkpoint can be relied on; 0 for blocking ones. [s]"""
    checkpoint_interval_s: FloatArray
    """Training between checkpoints, a whole number of steps. [s]"""
    storage_interval_s: FloatArray
    """Training between checkpoints in storage; longer if most stay in the memory of peers. [s]"""
    daily_checkpoint_bytes: FloatArray
    """Checkpoints that storage takes in a day. [byte]"""
    stored_bytes: FloatArray
    """Space that the run takes in storage: the checkpoints that are kept, and the data. [byte]"""
    data_bytes_per_s: FloatArray
    """Bandwidth at which the run reads its data. [byte/s]"""
    down_s: FloatArray
    """From a failure to the start of the processes, mean of all failures. [s]"""
    restore_s: FloatArray
    """From there to the first useful step. [s]"""
    up_fraction: FloatArray
    """Share of the wall time at work: neither stopped, down nor restoring."""
    training_fraction: FloatArray
    """Share of the time at work in which steps run."""
    planned_loss_fraction: FloatArray
    """Share of the wall time that is lost to planned stops."""
    restart_loss_fraction: FloatArray
    """Share lost to restarts."""
    rework_loss_fraction: FloatArray
    """Share lost to work that failures undo."""
    stall_loss_fraction: FloatArray
    """Share lost to checkpoints."""
    silent_loss_fraction: FloatArray
    """Share lost to work that silent corruption spoils."""
    slow_loss_fraction: FloatArray
    """Share lost to nodes that have become slow."""
    data_loss_fraction: FloatArray
    """Share lost to waiting for data."""
    repeat_loss_fraction: FloatArray
    """Share lost to steps repeated for reasons of training."""
    evaluation_loss_fraction: FloatArray
    """Share in which the model is evaluated."""
    ramp_steps: IntArray | None
    """Steps of the phase in which the batch grows; None without one."""
    ramp_s: FloatArray | None
    """Length of that phase if nothing ever stopped it; None without one. [s]"""
    goodput_fraction: FloatArray
    """Ideal over expected length."""
    wall_s: FloatArray
    """Expected length of the run. [s]"""
    expected_interruptions: FloatArray
    """Failures that stop the job; with tolerance of replicas, that stop a replica."""
    planned_stops: FloatArray
    """Planned stops."""
    standard_deviation_s: FloatArray
    """Spread of the length, from failures and from what is not known of the step. [s]"""
    deadline_probability: FloatArray | None
    """Probability that the run ends by the deadline; None without one."""

    def finish_s(self, probability: float) -> FloatArray:
        """Time by which the run ends with a given probability. [s]"""
        return finish.finish_quantile_s(probability, self.wall_s, self.standard_deviation_s)

    @property
    def p50_s(self) -> FloatArray:
        """Even odds that the run has ended. [s]"""
        return self.finish_s(0.50)

    @property
    def p90_s(self) -> FloatArray:
        """Nine in ten that the run has ended. [s]"""
        return self.finish_s(0.90)

    @property
    def p99_s(self) -> FloatArray:
        """99 in a hundred that the run has ended. [s]"""
        return self.finish_s(0.99)


@dataclass(frozen=True, slots=True, kw_only=True)
class ItPower:
    """Mean power of the equipment over the run, by part."""

    accelerators_w: FloatArray
    """Devices at work, restarts and stalls included. [W]"""
    host_w: FloatArray
    """Their processors, memory and drives. [W]"""
    scaleup_w: FloatArray
    """Their scale-up switches. [W]"""
    interfaces_w: FloatArray
    """Their network interfaces. [W]"""
    fans_and_supplies_w: FloatArray
    """Fans and power supplies of their nodes. [W]"""
    network_w: FloatArray
    """Switches and optics of the whole network. [W]"""
    storage_w: FloatArray
    """The run's share of the storage. [W]"""
    idle_and_spare_w: FloatArray
    """Nodes and devices that are not at work, everything in them. [W]"""

    @property
    def total_w(self) -> FloatArray:
        """All equipment. [W]"""
        return _sum(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildingPower:
    """Mean power of the building round the equipment, by part."""

    supplies_w: FloatArray
    """Lost in uninterruptible supplies and transformers, at the load that the run puts on them. [W]"""
    distribution_w: FloatArray
    """Lost between there and the racks. [W]"""
    room_fans_w: FloatArray
    """Fans of the rooms. [W]"""
    pumps_w: FloatArray
    """Pumps of the cooling loops. [W]"""
    rejection_w: FloatArray
    """Chillers, towers and dry coolers. [W]"""
    lights_w: FloatArray
    """Lights, offices, controls. [W]"""

    @property
    def total_w(self) -> FloatArray:
        """All that the building adds. [W]"""
        return _sum(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Energy:
    """Electricity, water and heat of the run."""

    it: ItPower
    """Mean power of the equipment by part."""
    building: BuildingPower
    """Mean power of the building by part; with the equipment it is the power at the meter."""
    supply_load_fraction: FloatArray
    """Mean load of the supplies over their rating."""
    supply_efficiency: FloatArray
    """Output over input of supplies and transformers at that load."""
    pue: FloatArray
    """Power usage effectiveness, mean of the year."""
    peak_pue: FloatArray
    """The same at the highest power of the equipment in the hottest hours."""
    mean_facility_w: FloatArray
    """Mean power at the meter. [W]"""
    peak_it_w: FloatArray
    """Power for which the building is made. [W]"""
    peak_facility_w: FloatArray
    """Highest power at the meter. [W]"""
    it_kwh: FloatArray
    """Energy of the equipment. [kWh]"""
    facility_kwh: FloatArray
    """Energy at the meter. [kWh]"""
    water_l_per_kwh: FloatArray
    """Water usage effectiveness: water of the site over energy of the equipment. [L/kWh]"""
    water_m3: FloatArray
    """Water of the site. [m3]"""
    grid_water_m3: FloatArray | None
    """Water of the power plants; None where nobody publishes it. [m3]"""
    source_water_l_per_kwh: FloatArray | None
    """Water of site and power plants over energy of the equipment; None where that of the plants is. [L/kWh]"""
    reused_fraction: FloatArray | None
    """Energy reuse factor: heat that is sold over energy at the meter; None where no heat is sold."""
    reused_kwh: FloatArray | None
    """Heat that is sold; it lowers neither PUE nor the energy bill. [kWh]"""
    ere: FloatArray | None
    """Energy reuse effectiveness: energy at the meter less sold heat, over energy of the equipment; no PUE."""

    @property
    def mean_it_w(self) -> FloatArray:
        """Mean power of the equipment. [W]"""
        return self.it.total_w


@dataclass(frozen=True, slots=True, kw_only=True)
class Carbon:
    """Greenhouse gas of the run. Making of network and storage is not in it: no figures are published."""

    operational_kg_co2e: FloatArray
    """Electricity by the mean of its grid (location-based). [kg CO2e]"""
    market_based_kg_co2e: FloatArray | None
    """Electricity by its contract, another view of the same; None without a contract. [kg CO2e]"""
    accelerators_kg_co2e: FloatArray
    """The run's share of making the devices. [kg CO2e]"""
    hosts_kg_co2e: FloatArray
    """The run's share of making the systems around them. [kg CO2e]"""
    building_kg_co2e: FloatArray
    """The run's share of making the building. [kg CO2e]"""

    @property
    def embodied_kg_co2e(self) -> FloatArray:
        """The run's share of making everything. [kg CO2e]"""
        return self.accelerators_kg_co2e + self.hosts_kg_co2e + self.building_kg_co2e

    @property
    def total_kg_co2e(self) -> FloatArray:
        """Operation, location-based, and making. [kg CO2e]"""
        return self.operational_kg_co2e + self.embodied_kg_co2e


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What the run costs; parts are None that the basis does not have, the others add up."""

    rent_usd: FloatArray | None = None
    """Devices by the hour, idle and spare ones too. [USD]"""
    machines_usd: FloatArray | None = None
    """The run's share of the systems. [USD]"""
    network_usd: FloatArray | None = None
    """The run's share of switches, optics and cables. [USD]"""
    storage_usd: FloatArray | None = None
    """The run's share of the storage, which no rent of devices includes. [USD]"""
    facility_usd: FloatArray | None = None
    """The run's share of the building. [USD]"""
    colocation_usd: FloatArray | None = None
    """Rent of space, power and cooling for the owner's machines. [USD]"""
    support_usd: FloatArray | None = None
    """Support and repair of systems, network and storage. [USD]"""
    upkeep_usd: FloatArray | None = None
    """Support and repair of the building. [USD]"""
    energy_usd: FloatArray | None = None
    """Electricity. [USD]"""
    demand_usd: FloatArray | None = None
    """Charge for the highest draw. [USD]"""
    water_usd: FloatArray | None = None
    """Water of the site. [USD]"""
    sold_heat_usd: FloatArray | None = None
    """What sold heat brings, below 0; for who owns the building. [USD]"""
    staff_usd: FloatArray | None = None
    """People who run the cluster. [USD]"""
    carbon_usd: FloatArray | None = None
    """Price of the operational emissions, location-based. [USD]"""

    @property
    def total_usd(self) -> FloatArray:
        """All parts. [USD]"""
        return _sum(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The whole job of each layout."""

    fleet: Fleet
    progress: Progress
    energy: Energy
    carbon: Carbon
    cost: Cost
    usd_per_million_tokens: FloatArray
    """Cost over the tokens that the run sees. [USD]"""
    usd_per_device_h: FloatArray
    """Cost of a delivered device-hour: one of a device at work, in steps that were kept. [USD/device/h]"""


def _sum(parts: Any) -> FloatArray:
    """Sum of the fields that are not None."""
    values = [getattr(parts, part.name) for part in fields(parts)]
    total: FloatArray = sum(value for value in values if value is not None)
    return total


# What cannot be -------------------------------------------------------------------------------------------------------


def unsupported(circumstances: Circumstances, coolings: tuple[Cooling, ...] = ()) -> list[str]:
    """Reasons why no layout can run in these circumstances; empty if there are none.

    Cooling designs that are known besides are named where they would do.
    """
    machine, cooling, prices = circumstances.machine, circumstances.cooling, circumstances.prices
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
    if system.name not in _listed_usd(prices):
        reasons.append(_no_price(prices, system.name))
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
    known = {**machine.accelerator.failure_fraction, **system.failure_fraction}
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


def _no_price(prices: Prices, system: str) -> str:
    figure, called = TERMS[prices.rent_term] if prices.basis == "rent" else ("system_usd", "price")
    return f"price list {prices.name} has no {called} of {system}; --set prices.{figure}.{system}=USD gives one"


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

    Raises
    ------
    ProfileError
        If the price list lacks the system.
    """
    prices, system = circumstances.prices, circumstances.machine.system
    if system.name not in _listed_usd(prices):
        raise ProfileError(_no_price(prices, system.name), nearest=tuple(sorted(_listed_usd(prices))))
    fleet = fleet_of(circumstances, work.used_devices, work.bought_devices)
    progress, share = progress_of(circumstances, work, fleet)
    return priced(circumstances, work, fleet, progress, share)


def priced(circumstances: Circumstances, work: Work, fleet: Fleet, progress: Progress, share: FloatArray) -> Run:
    """The whole job of each layout, from how long it takes and its share of the storage."""
    energy = _energy(circumstances, work, fleet, progress, share)
    emissions = _carbon(circumstances, fleet, progress, energy)
    paid = _cost(circumstances, fleet, progress, energy, emissions, share)
    return Run(
        fleet=fleet,
        progress=progress,
        energy=energy,
        carbon=emissions,
        cost=paid,
        usd_per_million_tokens=cost.usd_per_million_tokens(paid.total_usd, circumstances.tokens),
        usd_per_device_h=cost.usd_per_device_h(paid.total_usd, fleet.used_devices, progress.ideal_s),
    )


def cost_of(circumstances: Circumstances, outcome: Run) -> Cost:
    """What a run costs with other prices; all else is as it was."""
    progress, storage = outcome.progress, circumstances.storage
    share = checkpoints.store_share_fraction(
        _stored_bytes(circumstances),
        storage.capacity_bytes,
        progress.checkpoint_bytes,
        storage.write_bytes_per_s,
        progress.checkpoint_interval_s + progress.checkpoint_stall_s,
    )
    return _cost(circumstances, outcome.fleet, progress, outcome.energy, outcome.carbon, share)


def fleet_of(circumstances: Circumstances, used_devices: IntArray, bought_devices: IntArray) -> Fleet:
    """Nodes, spares and purchase units for devices at work and devices that are there in any case."""
    machine, operations = circumstances.machine, circumstances.operations
    system = machine.system
    nodes = reliability.nodes(used_devices, system.node_devices)
    device_rate, node_rate = failure_rates(circumstances)
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
    mtbf_s: FloatArray
    down_s: FloatArray
    init_s: FloatArray
    """Until all ranks can talk to each other. [s]"""
    snapshot_s: FloatArray
    """Stall of a copy to the memory of the hosts. [s]"""
    write_s: FloatArray
    load_s: FloatArray


def _ramp_tokens(circumstances: Circumstances) -> float:
    """Tokens of the phase in which the batch grows, at most all."""
    return 0.0 if circumstances.ramp is None else min(circumstances.ramp[1], circumstances.tokens)


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


def progress_of(circumstances: Circumstances, work: Work, fleet: Fleet) -> tuple[Progress, FloatArray]:
    """How long the run takes, and its share of the storage."""
    operations, storage = circumstances.operations, circumstances.storage
    system, stack = circumstances.machine.system, circumstances.machine.stack
    devices, nodes = fleet.used_devices, fleet.used_nodes

    steps = finish.steps(circumstances.tokens, work.global_batch, circumstances.seq_len)
    ramp_steps, ramp_s = _ramp(circumstances, work)
    if ramp_steps is None or ramp_s is None:
        ideal = finish.ideal_s(steps, work.step_s)
    else:
        later = finish.steps(
            circumstances.tokens - _ramp_tokens(circumstances), work.global_batch, circumstances.seq_len
        )
        steps = batch.ramped_steps(ramp_steps, later)
        ideal = batch.ramped_ideal_s(ramp_s, later, work.step_s)
    training = finish.training_s(ideal, operations.repeated_fraction)
    if circumstances.evaluation_fraction:
        training = batch.with_evaluation_s(training, circumstances.evaluation_fraction)
    size = checkpoints.checkpoint_bytes(circumstances.parameters, circumstances.checkpoint_bytes_per_parameter)
    saved, read = size, size
    if operations.saved_fraction < 1:
        saved = checkpoints.saved_bytes(size, operations.saved_fraction)
        read = checkpoints.restored_bytes(size, operations.saved_fraction)
    trouble = _Trouble(
        size=size,
        mtbf_s=_mtbf_s(circumstances, fleet, ideal),
        down_s=_down_s(operations, fleet),
        init_s=reliability.communicator_init_s(
            devices, operations.communicator_s, operations.communicator_s_per_device
        ),
        snapshot_s=checkpoints.snapshot_s(size, devices, system.host_link_bytes_per_s, BARRIER_S),
        write_s=checkpoints.write_s(saved, storage.write_bytes_per_s, nodes, storage.node_bytes_per_s, FILES_S),
        load_s=checkpoints.load_s(read, READS, storage.read_bytes_per_s, nodes, storage.node_bytes_per_s, FILES_S),
    )
    ways = {"storage": _from_storage, "memory": _from_memory, "replica": _beside_replicas}
    course = ways[operations.recovery](circumstances, work, trouble)
    mtbf, down, restore = trouble.mtbf_s, trouble.down_s, course.restore_s

    # Causes in a row, each with the share that it leaves of what the causes before it left: planned stops, restarts,
    # work that failures undo, checkpoints, corruption, slow nodes, data, repeated steps.
    stop = operations.planned_stop_s
    service = goodput.in_service_fraction(
        stop
        and reliability.restore_s(trouble.init_s, trouble.load_s, stop + operations.launch_s + operations.warmup_s),
        operations.planned_stop_interval_s,
    )
    up = goodput.both_fraction(service, course.up_fraction)
    useful = goodput.both_fraction(service, course.useful_fraction)
    stepping = course.training_fraction
    kept = useful / (up * stepping)
    sound = goodput.uncorrupted_fraction(operations.silent_fraction, operations.silent_found_s, mtbf)
    read_bytes = checkpoints.batch_bytes(work.global_batch, circumstances.seq_len, operations.token_bytes)
    speed = goodput.full_speed_fraction(operations.slow_node_fraction)
    fed = goodput.fed_fraction(work.step_s, read_bytes, storage.read_bytes_per_s)
    good = sound * speed * fed
    wall = finish.expected_wall_s(training, useful * good)
    interruptions = reliability.expected_interruptions(wall * service, mtbf, down)

    spread = _standard_deviation_s(operations, training / good, course, trouble, interruptions, fleet)
    spread = finish.finish_standard_deviation_s(wall, spread, finish.standard_error_fraction(stack.step_error_fraction))
    deadline = circumstances.deadline_s
    period = course.storage_interval_s + course.stall_s
    stored = checkpoints.stored_bytes(size, CHECKPOINTS_KEPT, circumstances.tokens, operations.token_bytes)
    progress = Progress(
        steps=steps,
        ideal_s=ideal,
        mtbf_s=mtbf,
        checkpoint_bytes=size,
        checkpoint_stall_s=course.stall_s,
        checkpoint_persist_s=course.persist_s,
        checkpoint_interval_s=course.interval_s,
        storage_interval_s=course.storage_interval_s,
        daily_checkpoint_bytes=checkpoints.daily_bytes(saved, period),
        stored_bytes=stored,
        data_bytes_per_s=checkpoints.read_bytes_per_s(read_bytes, work.step_s),
        down_s=down,
        restore_s=restore,
        up_fraction=up,
        training_fraction=stepping,
        planned_loss_fraction=goodput.lost_fraction(1, service),
        restart_loss_fraction=goodput.lost_fraction(service, course.up_fraction),
        rework_loss_fraction=goodput.lost_fraction(up, kept),
        stall_loss_fraction=goodput.lost_fraction(up * kept, stepping),
        silent_loss_fraction=goodput.lost_fraction(useful, sound),
        slow_loss_fraction=goodput.lost_fraction(useful * sound, speed),
        data_loss_fraction=goodput.lost_fraction(useful * sound * speed, fed),
        evaluation_loss_fraction=goodput.lost_fraction(useful * good, 1 - circumstances.evaluation_fraction),
        repeat_loss_fraction=goodput.lost_fraction(
            useful * good * (1 - circumstances.evaluation_fraction), 1 - operations.repeated_fraction
        ),
        ramp_steps=ramp_steps,
        ramp_s=ramp_s,
        goodput_fraction=finish.goodput_fraction(ideal, wall),
        wall_s=wall,
        expected_interruptions=interruptions,
        planned_stops=reliability.expected_interruptions(wall if stop else 0, operations.planned_stop_interval_s, stop),
        standard_deviation_s=spread,
        deadline_probability=None if deadline is None else finish.deadline_probability(deadline, wall, spread),
    )
    return progress, checkpoints.store_share_fraction(
        stored, storage.capacity_bytes, saved, storage.write_bytes_per_s, period
    )


def failure_rates(circumstances: Circumstances) -> tuple[ArrayLike, ArrayLike]:
    """Failures of a device and of a node without its devices, with the causes that strike more or less often. [1/s]"""
    device, system = circumstances.machine.accelerator, circumstances.machine.system
    factors = circumstances.operations.cause_factor

    def changed(failures_s: float, shares: Mapping[str, float]) -> ArrayLike:
        rate: ArrayLike = failures_s
        for cause, factor in factors.items():
            if cause in shares:
                rate = reliability.changed_failures_s(rate, failures_s, shares[cause], factor)
        return rate

    return (
        changed(device.failures_per_device_s, device.failure_fraction),
        changed(system.failures_per_node_s, system.failure_fraction),
    )


def steady_mtbf_s(circumstances: Circumstances, fleet: Fleet) -> FloatArray:
    """Mean time between failures of the job once its machines are burned in. [s]"""
    device_rate, node_rate = failure_rates(circumstances)
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


def _energy(circumstances: Circumstances, work: Work, fleet: Fleet, progress: Progress, share: FloatArray) -> Energy:
    """Electricity and water."""
    system, site, operations = circumstances.machine.system, circumstances.site, circumstances.operations
    system = housed(system, circumstances.cooling)
    it = _it_power(circumstances, work, fleet, progress, share)
    mean_it = it.total_w
    nodes_peak = power.nameplate_w(
        system.rated_w, fleet.units, operations.provision_fraction, _capped_w(circumstances, system)
    )
    peak_it = power.peak_w(nodes_peak + it.network_w + it.storage_w, mean_it)
    supply = building.supply(site, mean_it, peak_it)
    year = building.cooling_year(site, circumstances.cooling, system.liquid_fraction)
    electrical = (site.distribution_loss_fraction, site.misc_fraction)
    pue = facility.pue(supply.efficiency, electrical[0], year.cooling_fraction, electrical[1])
    peak_pue = facility.pue(supply.peak_efficiency, electrical[0], year.peak_cooling_fraction, electrical[1])
    mean_facility = facility.facility_w(mean_it, pue)
    it_j, facility_j = power.energy_j(mean_it, progress.wall_s), power.energy_j(mean_facility, progress.wall_s)
    facility_kwh = power.energy_kwh(facility_j)
    water, grid_water, taken = year.water_l_per_kwh, site.grid_water_l_per_kwh, site.heat_reuse_fraction
    reused = None if taken is None else facility.reused_fraction(year.liquid_fraction, taken, pue)
    return Energy(
        it=it,
        building=BuildingPower(
            supplies_w=facility.part_w(mean_it, facility.supply_fraction(supply.efficiency)),
            distribution_w=facility.part_w(mean_it, facility.distribution_fraction(electrical[0])),
            room_fans_w=facility.part_w(mean_it, year.fans_fraction),
            pumps_w=facility.part_w(mean_it, year.pumps_fraction),
            rejection_w=facility.part_w(mean_it, year.rejection_fraction),
            lights_w=facility.part_w(mean_it, electrical[1]),
        ),
        supply_load_fraction=supply.load_fraction,
        supply_efficiency=supply.efficiency,
        pue=pue,
        peak_pue=peak_pue,
        mean_facility_w=mean_facility,
        peak_it_w=peak_it,
        peak_facility_w=facility.facility_w(peak_it, peak_pue),
        it_kwh=power.energy_kwh(it_j),
        facility_kwh=facility_kwh,
        water_l_per_kwh=water,
        water_m3=carbon.site_water_m3(it_j, water),
        grid_water_m3=None if grid_water is None else carbon.grid_water_m3(facility_j, grid_water),
        source_water_l_per_kwh=None if grid_water is None else facility.source_l_per_kwh(water, pue, grid_water),
        reused_fraction=reused,
        reused_kwh=None if reused is None else facility.reused_kwh(facility_kwh, reused),
        ere=None if reused is None else facility.energy_reuse_effectiveness(pue, reused),
    )


def _capped_w(circumstances: Circumstances, system: System) -> FloatArray:
    """What a clock below the full one takes off the nameplate of a purchase unit. [W]"""
    device = circumstances.machine.accelerator
    busy = circumstances.operations.matrix_activity_fraction
    full, here = (
        power.accelerator_w(device.idle_w, device.tdp_w, busy, clock, device.clock_exponent)
        for clock in (FULL_CLOCK, circumstances.clock_fraction)
    )
    return power.capped_w(full, here, system.devices, system.fan_fraction, system.psu_efficiency)


def lowest_clock(accelerator: Accelerator) -> float:
    """Lowest clock that makes sense, over the clock in training."""
    lowest = accelerator.lowest_clock_fraction
    return LOWEST_CLOCK if lowest is None else lowest


def housed(system: System, cooling: Cooling) -> System:
    """The system as a cooling design holds it: in a tank it has no fans and gives its heat to the liquid."""
    if cooling.immersion_fraction is None:
        return system
    return replace(system, fan_fraction=0.0, liquid_fraction=cooling.immersion_fraction)


def _it_power(circumstances: Circumstances, work: Work, fleet: Fleet, progress: Progress, share: FloatArray) -> ItPower:
    """Mean power of the equipment by part."""
    fabric, storage = circumstances.machine.fabric, circumstances.storage
    system = housed(circumstances.machine.system, circumstances.cooling)

    used_units = fleet.used_devices / system.devices
    accelerators = power.together_w(fleet.used_devices, device_w(circumstances, work, progress))
    host = power.together_w(used_units, system.host_w)
    scaleup = power.together_w(used_units, system.scaleup_w)
    interfaces = power.together_w(used_units * system.nics, system.nic_w)
    electronics = accelerators + host + scaleup + interfaces

    standing_w = system.psu_fixed_w or 0.0
    idle_unit = power.node_w(
        circumstances.machine.accelerator.idle_w,
        system.devices,
        system.host_w,
        system.nics,
        system.nic_w,
        system.scaleup_w,
        system.fan_fraction,
        system.psu_efficiency,
        standing_w,
    )

    network = wiring(fabric, system.scaleout_bytes_per_s, fleet.devices).network_w
    store = power.storage_w(
        storage.capacity_bytes,
        storage.w_per_byte,
        max(storage.read_bytes_per_s, storage.write_bytes_per_s),
        storage.w_per_bytes_per_s,
    )
    return ItPower(
        accelerators_w=accelerators,
        host_w=host,
        scaleup_w=scaleup,
        interfaces_w=interfaces,
        fans_and_supplies_w=power.overhead_w(
            electronics,
            system.fan_fraction,
            system.psu_efficiency,
            used_units * standing_w + smoothing_loss_w(circumstances, work, fleet),
        ),
        network_w=network,
        storage_w=power.together_w(share, store),
        idle_and_spare_w=power.together_w(fleet.units - used_units, idle_unit),
    )


def smoothing_loss_w(circumstances: Circumstances, work: Work, fleet: Fleet) -> FloatArray:
    """Lost in the energy storage of the supplies at work, at their output. [W]"""
    operations = circumstances.operations
    if not operations.buffered_swing_fraction:
        return np.zeros(())
    return power.buffer_loss_w(buffer_w(circumstances, work, fleet), operations.buffer_efficiency)


def buffer_w(circumstances: Circumstances, work: Work, fleet: Fleet) -> FloatArray:
    """Mean power that goes through that storage. [W]"""
    high = (work.matrix_s + work.memory_s) / work.step_s
    swing = step_swing_w(circumstances, work, fleet)
    return power.buffer_w(swing, circumstances.operations.buffered_swing_fraction, high)


def step_swing_w(circumstances: Circumstances, work: Work, fleet: Fleet) -> FloatArray:
    """Swing of the devices at each step, between matrix products and exposed communication; nothing smoothed. [W]"""
    watts = phases_w(circumstances)
    pauses = work.communication_s + work.waiting_s > 0
    return power.swing_w(
        fleet.used_devices * pauses, watts[0], watts[2], circumstances.operations.swing_coherence_fraction
    )


PHASES = ("matrix", "memory", "communication", "waiting")
"""Phases of a step; in the last a device also waits while checkpoints stall the steps and while the job restarts."""


def phases_w(circumstances: Circumstances) -> FloatArray:
    """Power of one device in each phase of a step, shape ``(phase,)``. [W]"""
    floor = circumstances.operations.floor_activity_fraction
    return np.array([_phase_w(circumstances, phase, floor) for phase in PHASES])


def _phase_w(circumstances: Circumstances, phase: str, floor_fraction: float = 0.0) -> FloatArray:
    """Power of one device in a phase: one call for each, so that a recorder sees where the activity comes from. [W]"""
    device = circumstances.machine.accelerator
    activity = getattr(circumstances.operations, f"{phase}_activity_fraction")
    if floor_fraction:
        activity = power.floored_fraction(activity, floor_fraction)
    return power.accelerator_w(
        device.idle_w, device.tdp_w, activity, circumstances.clock_fraction, device.clock_exponent
    )


def states(circumstances: Circumstances, work: Work, progress: Progress) -> tuple[FloatArray, FloatArray]:
    """Shares of the run in each phase of a step and standing, shape ``(layout, state)``, and a device's power. [W]"""
    times = np.stack([work.matrix_s, work.memory_s, work.communication_s, work.waiting_s], axis=-1)
    stepping = progress.up_fraction * progress.training_fraction
    shares = np.concatenate([stepping[:, None] * times / work.step_s[:, None], 1 - stepping[:, None]], axis=-1)
    return shares, np.append(phases_w(circumstances), _phase_w(circumstances, PHASES[-1]))


def device_w(circumstances: Circumstances, work: Work, progress: Progress) -> FloatArray:
    """Mean power of one device at work over the whole run, shape ``(layout,)``. [W]"""
    watts = phases_w(circumstances)
    times = np.stack([work.matrix_s, work.memory_s, work.communication_s, work.waiting_s], axis=-1)
    step = power.phase_mean_w(times / work.step_s[:, None], watts)
    # Devices wait while a checkpoint stalls the steps and while the job restarts; no dummy work runs then.
    stepping = progress.up_fraction * progress.training_fraction
    floored = circumstances.operations.floor_activity_fraction
    standing = _phase_w(circumstances, PHASES[-1]) if floored else watts[-1]
    levels = np.stack([step, np.broadcast_to(standing, step.shape)], axis=-1)
    return power.phase_mean_w(np.stack([stepping, 1 - stepping], axis=-1), levels)


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


def _cost(
    circumstances: Circumstances,
    fleet: Fleet,
    progress: Progress,
    energy: Energy,
    emissions: Carbon,
    share: FloatArray,
) -> Cost:
    """Money, by the basis of the price list.

    Rent pays for systems, network, building and people. Owners pay for all of that themselves, with interest, for the
    time of the run and its share of the time that nobody uses.
    """
    prices, site, storage = circumstances.prices, circumstances.site, circumstances.storage
    wall = progress.wall_s
    price = _listed_usd(prices)[circumstances.machine.system.name]

    def owned(capex_usd: FloatArray, life_s: float, residual: float) -> FloatArray:
        return cost.own_usd(
            capex_usd, prices.interest_fraction_per_year, life_s, residual, wall, prices.utilisation_fraction
        )

    def machines(capex_usd: FloatArray) -> FloatArray:
        decline = prices.decline_fraction_per_year
        if decline is None:
            return owned(capex_usd, prices.it_life_s, prices.residual_fraction)
        return cost.depreciation_usd(capex_usd, decline, AGE_S, wall, prices.utilisation_fraction)

    parts: dict[str, FloatArray] = {
        "carbon_usd": cost.carbon_usd(emissions.operational_kg_co2e, prices.usd_per_kg_co2e)
    }
    if prices.storage_usd_per_tb_month is None:
        store_capex = share * cost.storage_capex_usd(storage.capacity_bytes, prices.storage_usd_per_tb)
        parts["storage_usd"] = machines(store_capex)
    else:
        store_capex = np.zeros_like(wall)
        held_bytes = share * storage.capacity_bytes
        parts["storage_usd"] = cost.storage_rent_usd(held_bytes, wall, prices.storage_usd_per_tb_month)
    if prices.basis == "rent":
        it_capex = store_capex
        least = {"on-demand": prices.minimum_rent_s or 0.0, "1-year": YEAR_S, "3-year": 3 * YEAR_S}[prices.rent_term]
        parts["rent_usd"] = cost.rent_usd(fleet.devices, cost.billed_s(wall, least), price)
    else:
        systems = cost.systems_capex_usd(fleet.units, price)
        network = cost.network_capex_usd(fleet.devices, 0, 0, 0, 0, prices.network_usd_per_device)
        it_capex = systems + network + store_capex
        parts["machines_usd"] = machines(systems)
        parts["network_usd"] = machines(network)
        if prices.colocation_usd_per_kw_month is None:
            building = cost.facility_capex_usd(
                energy.peak_it_w, prices.facility_usd_per_w, circumstances.cooling.capex_factor
            )
            parts["facility_usd"] = owned(building, prices.facility_life_s, BUILDING_RESIDUAL)
            if energy.reused_kwh is not None and site.heat_usd_per_kwh:
                parts["sold_heat_usd"] = cost.sold_heat_usd(energy.reused_kwh, site.heat_usd_per_kwh)
            parts["upkeep_usd"] = cost.support_usd(building, prices.facility_support_fraction_per_year, wall)
        else:
            parts["colocation_usd"] = cost.colocation_usd(energy.peak_it_w, wall, prices.colocation_usd_per_kw_month)
        parts["staff_usd"] = cost.staff_usd(prices.staff_persons, prices.usd_per_person_year, wall)
    parts["support_usd"] = cost.support_usd(it_capex, prices.support_fraction_per_year, wall)
    if prices.basis == "own" or not prices.rent_includes_energy:
        facility_j = power.energy_j(energy.mean_facility_w, wall)
        parts["energy_usd"] = cost.energy_usd(facility_j, site.usd_per_kwh)
        parts["demand_usd"] = cost.demand_usd(energy.peak_facility_w, wall, site.demand_usd_per_kw_month)
        parts["water_usd"] = cost.water_usd(energy.water_m3, site.usd_per_m3_water)
    return Cost(**parts)
