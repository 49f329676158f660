"""What the equipment of a run draws, and what the building adds: electricity, water and heat. Composition only."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from clusterplan import building
from clusterplan.arrays import ArrayLike, FloatArray
from clusterplan.formulas import carbon, facility, power
from clusterplan.hardware import Accelerator, System
from clusterplan.outcome import BuildingPower, Circumstances, Energy, Fleet, ItPower, Progress, Work
from clusterplan.site import Cooling
from clusterplan.wiring import wiring

FULL_CLOCK = 1.0
"""No cap."""
LOWEST_CLOCK = 0.6
"""Assumed: voltage stops falling near this share of the clock in training; below, the power law does not hold."""


def energy_of(circumstances: Circumstances, work: Work, fleet: Fleet, progress: Progress) -> Energy:
    """Electricity and water."""
    system, site, operations = circumstances.machine.system, circumstances.site, circumstances.operations
    system = housed(system, circumstances.cooling)
    it = _it_power(circumstances, work, fleet, progress)
    mean_it = it.total_w
    rated = rated_w(circumstances.machine.system, circumstances.cooling)
    nodes_peak = power.nameplate_w(rated, fleet.units, operations.provision_fraction, _capped_w(circumstances, system))
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


def rated_w(system: System, cooling: Cooling) -> ArrayLike:
    """Nameplate of a purchase unit as a cooling design holds it: in a tank without its fans. [W]"""
    if cooling.immersion_fraction is None:
        return system.rated_w
    return power.fanless_w(system.rated_w, system.fan_fraction)


def _it_power(circumstances: Circumstances, work: Work, fleet: Fleet, progress: Progress) -> ItPower:
    """Mean power of the equipment by part."""
    fabric, storage = circumstances.machine.fabric, circumstances.storage
    system = housed(circumstances.machine.system, circumstances.cooling)

    used_units = fleet.used_devices / system.devices
    accelerators = power.together_w(fleet.used_devices, device_w(circumstances, work, progress))
    host = power.together_w(used_units, system.host_w)
    scaleup = power.together_w(used_units, system.scaleup_w)
    interfaces = power.together_w(used_units * system.nics, system.nic_w)
    electronics = accelerators + host + scaleup + interfaces

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
            used_units * (system.psu_fixed_w or 0.0) + smoothing_loss_w(circumstances, work, fleet),
        ),
        network_w=network,
        storage_w=power.together_w(progress.storage_share_fraction, store),
        idle_and_spare_w=power.together_w(
            fleet.units - used_units, unit_w(system, circumstances.machine.accelerator.idle_w)
        ),
    )


def unit_w(system: System, device_w: ArrayLike, standing_w: FloatArray | None = None) -> FloatArray:
    """Power of a purchase unit whose devices draw so much each; ``standing_w`` is what its supplies lose at any load,
    unless that is what the profile says. [W]
    """
    return power.node_w(
        device_w,
        system.devices,
        system.host_w,
        system.nics,
        system.nic_w,
        system.scaleup_w,
        system.fan_fraction,
        system.psu_efficiency,
        (system.psu_fixed_w or 0.0) if standing_w is None else standing_w,
    )


def smoothing_loss_w(circumstances: Circumstances, work: Work, fleet: Fleet) -> FloatArray:
    """Lost in the energy storage of the supplies at work, at their output. [W]"""
    operations = circumstances.operations
    if not operations.buffered_swing_fraction:
        return np.zeros(())
    return power.buffer_loss_w(buffer_w(circumstances, work, fleet), operations.buffer_efficiency)


def buffer_w(circumstances: Circumstances, work: Work, fleet: Fleet) -> FloatArray:
    """Mean power that goes through that storage. [W]"""
    swing = step_swing_w(circumstances, work, fleet)
    return power.buffer_w(swing, circumstances.operations.buffered_swing_fraction, high_fraction(work))


def high_fraction(work: Work) -> FloatArray:
    """Share of a step in which devices do not pause."""
    return (work.matrix_s + work.memory_s) / work.step_s


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
