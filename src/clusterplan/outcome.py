"""Records of a run: what its layouts share, the step of each, and what follows from them.

Fields have shape ``(layout,)``, or none where all layouts share the value. Each field of a result is what one formula
returned, so that a recorder finds its maker; totals are properties.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from clusterplan.arrays import FloatArray, IntArray
from clusterplan.formulas import finish
from clusterplan.hardware import Machine, Storage
from clusterplan.layout import Cuts, Layouts
from clusterplan.site import Cooling, Operations, Prices, Site


@dataclass(frozen=True, slots=True, kw_only=True)
class LongContext:
    """The end of a run, in which sequences are longer."""

    seq_len: int
    """Tokens of one sequence."""
    tokens: float
    """Tokens of the run that are trained in it."""
    slowdown: float
    """Time of a token over that in the rest of the run, where the phase has no layout yet."""
    cuts: Cuts | None = None
    """Cut of its layout, a table with one row."""
    layouts: Layouts | None = None
    """Its layout, a table with one row."""
    work: Work | None = None
    """One step of it; follows from the layout."""


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
    long: LongContext | None = None
    """The end of the run in which sequences are longer; None if they are the same always."""
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
    """Bubbles, and waiting for others and for the host. [s]"""
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
    """How long the run takes. Goodput and the shares that are lost add up to 1."""

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
    storage_share_fraction: FloatArray
    """Share of the storage that others cannot use because of the run, by space or by bandwidth."""
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
    long_steps: IntArray | None
    """Steps of the phase in which sequences are longer; None without one."""
    long_s: FloatArray | None
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
class Purchase:
    """What an owner pays before the first step; the parts add up. 0 for what the price list has by the month."""

    bought_systems_usd: FloatArray
    """Price of the systems, idle and spare ones too. [USD]"""
    bought_network_usd: FloatArray
    """Price of switches, optics and cables. [USD]"""
    bought_storage_usd: FloatArray
    """Price of the share of the storage that the run uses. [USD]"""
    bought_building_usd: FloatArray
    """Price of the building with its power and cooling. [USD]"""

    @property
    def bought_usd(self) -> FloatArray:
        """All that is bought before the first step. [USD]"""
        return _sum(self)


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
    cost: Cost | None
    """None where the price list does not price the system; nothing else depends on it."""
    usd_per_million_tokens: FloatArray | None
    """Cost over the tokens that the run sees; None without a price. [USD]"""
    usd_per_device_h: FloatArray | None
    """Cost of a delivered device-hour: one of a device at work, in steps that were kept; None without a price.
    [USD/device/h]"""


def _sum(parts: Any) -> FloatArray:
    """Sum of the fields that are not None."""
    values = [getattr(parts, part.name) for part in fields(parts)]
    total: FloatArray = sum(value for value in values if value is not None)
    return total
