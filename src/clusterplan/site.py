"""Where it runs, how it is cooled, and what things cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A place: climate, grid, tariff, and the building's electrical side."""

    name: str
    region: str
    """Region of the grid figures, in words."""
    mean_c: float
    """Annual mean of the air temperature. [deg C]"""
    seasonal_amplitude_c: float
    """Half of the difference between the warmest and the coldest month. [K]"""
    daily_amplitude_c: float
    """Half of the mean daily range. [K]"""
    mean_relative_humidity_fraction: float
    hottest_c: float | None = None
    """Air temperature that few hours of a year exceed (0.4 %), for peaks; None if not known. [deg C]"""
    hottest_wet_bulb_c: float | None = None
    """Wet bulb that few hours of a year exceed, given with the other. [deg C]"""
    ups_efficiency: float
    """Output over input of the uninterruptible supply at half of its rating."""
    transformer_efficiency: float
    """Output over input of the transformers at half of their rating; 1 where the meter is behind them."""
    supply_factor: float
    """Rating of supplies and transformers over the highest power of the equipment; 2 for 2N."""
    distribution_loss_fraction: float
    """Loss between the supply and the racks, as a share of what enters."""
    misc_fraction: float
    """Lights and offices, as a share of the IT power."""
    heat_reuse_fraction: float | None = None
    """Share of the year's heat in the liquid that somebody takes; None where no heat is sold."""
    heat_usd_per_kwh: float | None = None
    """What is paid for that heat; None where it is given away. [USD/kWh]"""
    power_w: float | None = None
    """Most that the site may draw at the meter; None if no limit is known. [W]"""
    grid_kg_co2e_per_kwh: float
    """Location-based mean carbon intensity. [kg CO2e/kWh]"""
    contract_kg_co2e_per_kwh: float | None = None
    """Market-based carbon intensity of the contracted supply; None if there is no contract. [kg CO2e/kWh]"""
    grid_water_l_per_kwh: float | None = None
    """Water that the generators use; None where nobody publishes it. [L/kWh]"""
    usd_per_kwh: float
    """Energy tariff. [USD/kWh]"""
    demand_usd_per_kw_month: float
    """Price of the highest draw of a month. [USD/kW/month]"""
    usd_per_m3_water: float
    """Water and sewage. [USD/m3]"""


@dataclass(frozen=True, slots=True, kw_only=True)
class AirLoop:
    """How the heat that goes to air leaves the building."""

    rejection: Literal["tower", "dry", "outside_air"]
    fan_pa: float
    """Pressure that the room's fans work against. [Pa]"""
    fan_efficiency: float
    rise_k: float
    """Warming of the air through the servers. [K]"""
    pump_pa: float
    """Pressure that the chilled-water pumps work against. [Pa]"""
    pump_efficiency: float
    water_rise_k: float
    """Warming of the water through the coils. [K]"""
    supply_c: float
    """Water to the coils, or air to the servers with outside air. [deg C]"""
    return_c: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LiquidLoop:
    """How the heat that goes to liquid leaves the building."""

    rejection: Literal["tower", "dry"]
    pump_pa: float
    """Pressure that distribution unit and facility pumps work against. [Pa]"""
    pump_efficiency: float
    water_rise_k: float
    """Warming of the water through the racks. [K]"""
    supply_c: float
    """Facility water to the racks. [deg C]"""
    return_c: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Cooling:
    """A cooling design; it can be combined with any site."""

    name: str
    air: AirLoop
    liquid: LiquidLoop | None = None
    rear_door: bool = False
    """Whether coils at the racks take the heat that servers give to air."""
    immersion_fraction: float | None = None
    """Share of the heat that tanks take from any system, whose fans are taken out; None where there are no tanks."""
    tower_approach_k: float
    exchanger_approach_k: float
    tower_fraction: float
    """Tower fans and pumps per watt of heat."""
    chiller_load_fraction: float
    """Load of the chillers that run."""
    dry_approach_k: float
    dry_fan_fraction: float
    """Dry-cooler fans per watt of heat."""
    dry_rise_k: float
    adiabatic_effectiveness: float
    """Share of the wet-bulb depression that pads reach; 0 without pads."""
    carnot_efficiency: float
    """Air-cooled chiller over the Carnot cycle."""
    condenser_lift_k: float
    """Condenser over air temperature of the air-cooled chiller. [K]"""
    max_wet_bulb_c: float
    """Outside-air designs close the dampers above this wet bulb. [deg C]"""
    concentration_cycles: float
    """Cycles of concentration of the tower water."""
    latent_fraction: float
    """Share of a tower's heat that leaves as vapour."""
    rack_limit_w: float
    """Heat that one rack may give. [W]"""
    capex_factor: float
    """Price of the facility over that of an air-cooled one."""

    def carries(self, rack_w: float, *, needs_liquid: bool) -> bool:
        """Whether it takes the heat of such racks."""
        return rack_w <= self.rack_limit_w and (self.liquid is not None or not needs_liquid)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """A dated price list."""

    name: str
    date: str
    """Day on which the prices held, as 2026-11-30."""
    currency: str
    """ISO 4217 code."""
    basis: Literal["rent", "own"]
    """Whether a plan pays by the device-hour or for the machines."""
    rent_usd_per_device_h: Mapping[str, float] = field(default_factory=dict)
    """Rent by system, network and facility included. [USD/device/h]"""
    rent_term: Literal["on-demand", "1-year", "3-year"] = "on-demand"
    """How the devices are rented; a reserved term is paid to its end."""
    minimum_rent_s: float | None = None
    """Least time that an offer on demand is paid for; None if there is none. [s]"""
    reserved_1_year_usd_per_device_h: Mapping[str, float] = field(default_factory=dict)
    """Rent by system for who takes a year. [USD/device/h]"""
    reserved_3_year_usd_per_device_h: Mapping[str, float] = field(default_factory=dict)
    """Rent by system for who takes three years. [USD/device/h]"""
    rent_includes_energy: bool
    """Whether the rent pays the electricity as well."""
    system_usd: Mapping[str, float] = field(default_factory=dict)
    """Price of one purchase unit by system. [USD]"""
    network_usd_per_device: float
    """Switches, optics and cables. [USD/device]"""
    storage_usd_per_tb: float
    """[USD/TB]"""
    storage_usd_per_tb_month: float | None = None
    """Rent of storage; None where it is bought. [USD/TB/month]"""
    facility_usd_per_w: float
    """Building and its equipment, per watt of IT. [USD/W]"""
    colocation_usd_per_kw_month: float | None = None
    """Rent of space, power and cooling for the owner's machines; None where the building is owned. [USD/kW/month]"""
    it_life_s: float
    facility_life_s: float
    interest_fraction_per_year: float
    residual_fraction: float
    """Value of the machines at the end of their life over their price."""
    decline_fraction_per_year: float | None = None
    """Loss of value of machines in a year. Where it is given they cost the value that they lose, no annuity."""
    utilisation_fraction: float
    """Share of the owned hours that carry paid work."""
    support_fraction_per_year: float
    """Support and repair, of the price of the machines."""
    facility_support_fraction_per_year: float
    staff_persons: float
    """People who run the cluster."""
    usd_per_person_year: float
    usd_per_kg_co2e: float
    """Price of carbon; 0 for none. [USD/kg]"""
    building_kg_co2e_per_w: float
    """Making of the building. [kg CO2e/W]"""
    low: Mapping[str, float] = field(default_factory=dict)
    """Low end of the range of a figure, by its key (``system_usd.dgx-h100``), in its unit."""
    high: Mapping[str, float] = field(default_factory=dict)
    """High end of the same."""

    @property
    def rents_usd_per_device_h(self) -> Mapping[str, float]:
        """Rent by system for the term that is taken. [USD/device/h]"""
        return {
            "on-demand": self.rent_usd_per_device_h,
            "1-year": self.reserved_1_year_usd_per_device_h,
            "3-year": self.reserved_3_year_usd_per_device_h,
        }[self.rent_term]

    def figure(self, key: str) -> float | None:
        """A figure by its key; None if the list does not have it."""
        name, _, part = key.partition(".")
        value = getattr(self, name, None) if name in RANGED else None
        return value.get(part) if isinstance(value, Mapping) else None if part else value

    def at_end(self, end: Literal["low", "high"]) -> Prices:
        """The same with all figures that have a range at one of its ends."""
        return self.changed(getattr(self, end))

    def changed(self, figures: Mapping[str, float]) -> Prices:
        """The same with other figures, by their keys."""
        new: dict[str, Any] = {}
        for key, value in figures.items():
            name, _, part = key.partition(".")
            new[name] = {**new.get(name, getattr(self, name)), part: value} if part else value
        return replace(self, **new)


RANGED = (
    "rent_usd_per_device_h", "reserved_1_year_usd_per_device_h", "reserved_3_year_usd_per_device_h", "system_usd",
    "network_usd_per_device", "storage_usd_per_tb", "storage_usd_per_tb_month", "facility_usd_per_w",
    "colocation_usd_per_kw_month", "interest_fraction_per_year", "support_fraction_per_year",
    "facility_support_fraction_per_year", "staff_persons", "usd_per_person_year", "usd_per_kg_co2e",
)  # fmt: skip
"""Figures that may have a range: those with which all costs grow, so that all low ends give the least cost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operations:
    """How the cluster is run: what a failure costs, spares, and what devices draw in each phase."""

    detect_s: float
    """From a failure to its detection. [s]"""
    diagnose_s: float
    """From detection to knowing the node. [s]"""
    replace_s: float
    """Taking a spare node instead. [s]"""
    launch_s: float
    """Scheduling and starting the processes. [s]"""
    communicator_s: float
    """Setting up communicators, the part that does not grow. [s]"""
    communicator_s_per_device: float
    """Setting up communicators, for each device. [s]"""
    warmup_s: float
    """Until the first step runs at speed. [s]"""
    repair_s: float
    """Until a failed node is back in service. [s]"""
    spare_shortage_fraction: float
    """Share of the time in which the spares may be too few."""
    asynchronous_checkpoint: bool
    """Whether training goes on while a checkpoint is written."""
    longest_checkpoint_interval_s: float
    """No interval is longer than this, however rare failures are. [s]"""
    repeated_fraction: float
    """Steps repeated for reasons of training, not of machines, over all steps."""
    matrix_activity_fraction: float
    """Share of the range from idle power to the limit that matrix products draw."""
    memory_activity_fraction: float
    """The same for memory-bound work."""
    communication_activity_fraction: float
    """The same while a device waits for the network."""
    waiting_activity_fraction: float
    """The same in pipeline bubbles, checkpoints and restarts."""
    provision_fraction: float
    """Highest draw of a node over its nameplate, for the peak of the site."""
    recovery: Literal["storage", "memory", "replica"] = "storage"
    """What a failed node falls back on: a checkpoint in storage, copies in the memory of peers, or other replicas."""
    memory_lost_fraction: float = 0.05
    """Share of failures that no copy in the memory of peers survives."""
    elastic: bool = False
    """Whether a job goes on with fewer replicas while it waits for a spare; only simulated runs wait."""
    replica_reconfigure_s: float = 10.0
    """Stop of all replicas when one of them fails, until they go on without it. [s]"""
    replica_recover_s: float = 300.0
    """Until the replica is back. [s]"""
    replica_global_fraction: float = 0.05
    """Share of failures that stop all replicas nevertheless."""
    foreseen_fraction: float = 0.0
    """Share of failures that an alarm announces in time to save the state (recall)."""
    alarm_precision_fraction: float = 0.8
    """Share of alarms that a failure follows."""
    proactive_s: float = 60.0
    """Stop for the checkpoint, or the move to another node, that an alarm sets off. [s]"""
    domain_failure_fraction: float = 0.0
    """Share of failures that take all nodes of a power, cooling or switch domain."""
    domain_nodes: float = 16.0
    """Nodes of such a domain."""
    domain_outage_s: float = 14400.0
    """Until a domain is back. [s]"""
    silent_fraction: float = 0.0
    """Share of failures that are silent corruptions, found late."""
    silent_found_s: float = 3600.0
    """Time at work from a silent corruption until it is found; all of it is done again. [s]"""
    planned_stop_s: float = 0.0
    """Length of a planned stop, besides the restart after it; 0 for none. [s]"""
    planned_stop_interval_s: float = 86400.0
    """Time between planned stops. [s]"""
    slow_node_fraction: float = 0.0
    """How much longer the steps of the whole run are because of nodes that have become slow."""
    early_failure_factor: float = 1.0
    """How many times as often machines fail at the start of the run as when they are burned in."""
    early_failure_s: float = 5184000.0
    """Time in which what is above 1 of it falls by e. [s]"""
    cause_factor: Mapping[str, float] = field(default_factory=dict)
    """How many times as often a cause of failures strikes as the profiles say, by its name there."""
    saved_fraction: float = 1.0
    """Bytes that a checkpoint adds to storage over its size; below 1 for incremental ones."""
    swing_coherence_fraction: float = 0.85
    """How far the devices of a job change between work and waiting at the same time."""
    swing_ramp_s: float = 0.1
    """Time in which they change. [s]"""
    floor_activity_fraction: float = 0.0
    """Activity below which dummy work or the devices' own smoothing keep no phase of a step; 0 for none."""
    buffered_swing_fraction: float = 0.0
    """Share of the swing between work and waiting that energy storage in the supplies takes; 0 for none."""
    buffer_efficiency: float = 0.9
    """What comes out of that storage over what goes in."""
    token_bytes: float = 4.0
    """Data of one token in storage: 4 for token numbers in 32 bits, many times that for pictures and sound. [byte]"""
