"""How the equipment of a plan draws its power: node, rack and hall, and how far power swings. Composition only."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from clusterplan import electricity
from clusterplan.arrays import FloatArray
from clusterplan.formulas import cost, facility, power
from clusterplan.outcome import Circumstances, Fleet, Progress, Run, Work

EXCEEDED = 0.05
"""Share of the time in which power is above its 95th percentile."""
WHOLE = 1.0
"""All of a nameplate."""
TOGETHER = 1.0
"""A checkpoint that stalls the steps, or a failure, stops all devices at the same time."""


FLOOR = 0.9
"""Highest floor that devices which smooth their power hold, over their limit: GB200 (E. Choukse et al.,
arXiv:2508.14318)."""
NO_SMOOTHING: dict[str, Any] = {"floor_activity_fraction": 0.0, "buffered_swing_fraction": 0.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """Power of one thing at work; every field has shape ``(layout,)`` or none."""

    mean_w: FloatArray
    """Mean over the run, stalls and restarts included. [W]"""
    p95_w: FloatArray
    """Exceeded in a twentieth of the time. [W]"""
    nameplate_w: FloatArray
    """Highest power by the data sheet. [W]"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Swings:
    """How far the power of the devices jumps, at the supplies' input; every field has shape ``(layout,)``."""

    step_w: FloatArray
    """Peak to trough at each step, with the smoothing that there is. [W]"""
    step_w_per_s: FloatArray
    """How fast it jumps there. [W/s]"""
    step_fraction: FloatArray
    """The same over the mean power of all equipment."""
    stop_w: FloatArray
    """Drop where a checkpoint stalls the steps or the job stops, and the rise after it. [W]"""
    stop_w_per_s: FloatArray
    """How fast it jumps there. [W/s]"""
    stop_fraction: FloatArray
    """The same over the mean power of all equipment."""
    buffer_j: FloatArray
    """Energy that the storage in the supplies takes up in each step; 0 without storage. [J]"""
    smoothing_w: FloatArray
    """Mean power that dummy work and losses of the storage add to the devices' own, counted in all totals. [W]"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mitigation:
    """What one way to even out swings leaves and takes, over the run without any; fields have shape ``(layout,)``."""

    left_w: FloatArray
    """Peak to trough that is left. [W]"""
    added_w: FloatArray
    """Mean power that it adds to that of the equipment. [W]"""
    added_fraction: FloatArray
    """The same over the mean power of all equipment."""
    added_kwh: FloatArray
    """Energy at the meter for it, over the run. [kWh]"""
    added_usd: FloatArray
    """That energy at the site's tariff; what storage costs to buy is not in it. [USD]"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mitigations:
    """Ways to even out swings, each as if there were no other, whether the plan has any or not."""

    floor: Mitigation
    """Dummy work or the devices' own smoothing, which hold 0.9 of the limit through the pauses of a step."""
    storage: Mitigation
    """Storage in the supplies that leaves as much at each step."""
    storage_device_j: FloatArray
    """Energy that this storage takes up in each step, for a device; supplies of GB300 hold 65 J. [J]"""
    checkpoints: Mitigation
    """Dummy work while a checkpoint stalls the steps, at the mean power of a step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """Power of node, rack and hall, and its swings."""

    node: Level
    """One node at work."""
    rack: Level
    """One rack of nodes at work."""
    hall: Level
    """All equipment."""
    swings: Swings
    """How far power jumps."""
    mitigation: Mitigations
    """What evening that out would take."""


def draw(circumstances: Circumstances, work: Work, outcome: Run) -> Draw:
    """Power of node, rack and hall of each layout, and its swings."""
    system = electricity.housed(circumstances.machine.system, circumstances.cooling)
    fleet, progress, it = outcome.fleet, outcome.progress, outcome.energy.it
    operations = circumstances.operations
    used_units = fleet.used_devices / system.devices
    smoothing = electricity.smoothing_loss_w(circumstances, work, fleet) / used_units
    standing = (system.psu_fixed_w or 0.0) + smoothing

    shares, watts = electricity.states(circumstances, work, progress)
    mean, p95 = (
        electricity.unit_w(system, device_w, standing)
        for device_w in (
            electricity.device_w(circumstances, work, progress),
            power.exceeded_w(shares, watts, EXCEEDED),
        )
    )
    nodes, racks = system.node_devices / system.devices, 1 / system.racks
    rated = electricity.rated_w(circumstances.machine.system, circumstances.cooling)
    everything = power.nameplate_w(rated, fleet.units, WHOLE)

    def level(part: float) -> Level:
        return Level(
            mean_w=power.together_w(part, mean),
            p95_w=power.together_w(part, p95),
            nameplate_w=power.together_w(part, rated),
        )

    return Draw(
        node=level(nodes),
        rack=level(racks),
        hall=Level(
            mean_w=it.total_w,
            p95_w=power.hall_p95_w(it.total_w, used_units, p95, mean, operations.swing_coherence_fraction),
            nameplate_w=power.hall_nameplate_w(everything, it.network_w, it.storage_w),
        ),
        swings=_swings(circumstances, work, fleet, progress, it.total_w),
        mitigation=_mitigations(circumstances, work, outcome),
    )


def _swings(circumstances: Circumstances, work: Work, fleet: Fleet, progress: Progress, mean_w: FloatArray) -> Swings:
    """Jumps at steps and stops, and what evening them out takes."""
    operations, system = circumstances.operations, circumstances.machine.system
    step = _step_w(circumstances, work, fleet)
    working, waiting = _working_w(circumstances, work, progress)
    drop = power.swing_w(fleet.used_devices, working, waiting, TOGETHER)
    stop = power.conversion_input_w(drop, system.psu_efficiency)
    return Swings(
        step_w=step,
        step_w_per_s=power.ramp_w_per_s(step, operations.swing_ramp_s),
        step_fraction=power.swing_fraction(step, mean_w),
        stop_w=stop,
        stop_w_per_s=power.ramp_w_per_s(stop, operations.swing_ramp_s),
        stop_fraction=power.swing_fraction(stop, mean_w),
        buffer_j=power.energy_j(electricity.buffer_w(circumstances, work, fleet), work.step_s),
        smoothing_w=_added_w(circumstances, work, fleet, progress),
    )


def _step_w(circumstances: Circumstances, work: Work, fleet: Fleet) -> FloatArray:
    """Swing at each step, at the supplies' input, with the smoothing that there is. [W]"""
    swing = electricity.step_swing_w(circumstances, work, fleet)
    at_input = power.conversion_input_w(swing, circumstances.machine.system.psu_efficiency)
    return power.buffered_swing_w(at_input, circumstances.operations.buffered_swing_fraction)


def _working_w(circumstances: Circumstances, work: Work, progress: Progress) -> tuple[FloatArray, FloatArray]:
    """Mean power of a device in a step, and its power while it stands. [W]"""
    shares, watts = electricity.states(circumstances, work, progress)
    stepping = shares[:, :-1].sum(axis=-1, keepdims=True)
    return power.phase_mean_w(shares[:, :-1] / stepping, watts[:-1]), watts[-1]


def _with(circumstances: Circumstances, **operations: Any) -> Circumstances:
    """The same with no smoothing but this."""
    return replace(circumstances, operations=replace(circumstances.operations, **(NO_SMOOTHING | operations)))


def _per_device(circumstances: Circumstances) -> float:
    """Power of a node, fans included, for each watt of a device in it."""
    system = circumstances.machine.system
    return 1 / system.psu_efficiency / (1 - electricity.housed(system, circumstances.cooling).fan_fraction)


def _added_w(circumstances: Circumstances, work: Work, fleet: Fleet, progress: Progress) -> FloatArray:
    """Mean power that smoothing adds to that of the same equipment without any. [W]"""
    smooth, rough = (electricity.device_w(one, work, progress) for one in (circumstances, _with(circumstances)))
    loss = electricity.smoothing_loss_w(circumstances, work, fleet) / circumstances.machine.system.psu_efficiency
    steadily = _per_device(circumstances) * fleet.used_devices
    return power.added_w(steadily * smooth + loss, steadily * rough)


def _mitigations(circumstances: Circumstances, work: Work, outcome: Run) -> Mitigations:
    """What each way to even out swings would leave and take."""
    fleet, progress, energy = outcome.fleet, outcome.progress, outcome.energy
    bare = _with(circumstances)
    mean_w = energy.mean_it_w - _added_w(circumstances, work, fleet, progress)
    device, busy = circumstances.machine.accelerator, circumstances.operations.matrix_activity_fraction
    held = float(power.held_activity_fraction(FLOOR, device.idle_w, device.tdp_w))
    floor = max(min(held, busy), 0.0)  # no higher than that of products
    floored = _with(circumstances, floor_activity_fraction=floor)
    left_w = _step_w(floored, work, fleet)
    swing_w = _step_w(bare, work, fleet)
    share = power.storage_share_fraction(swing_w, left_w)
    buffer_w = power.buffer_w(electricity.step_swing_w(bare, work, fleet), share, electricity.high_fraction(work))
    loss_w = power.buffer_loss_w(buffer_w, circumstances.operations.buffer_efficiency)

    def found(left_w: FloatArray, added_w: FloatArray) -> Mitigation:
        joules = power.energy_j(facility.facility_w(added_w, energy.pue), progress.wall_s)
        return Mitigation(
            left_w=left_w,
            added_w=added_w,
            added_fraction=power.added_fraction(added_w, mean_w),
            added_kwh=power.energy_kwh(joules),
            added_usd=cost.energy_usd(joules, circumstances.site.usd_per_kwh),
        )

    working, waiting = _working_w(bare, work, progress)
    through_w = power.held_w(fleet.used_devices, progress.stall_loss_fraction, working, waiting, 1 / _per_device(bare))
    return Mitigations(
        floor=found(left_w, _added_w(floored, work, fleet, progress)),
        storage=found(
            power.buffered_swing_w(swing_w, share),
            power.conversion_input_w(loss_w, circumstances.machine.system.psu_efficiency),
        ),
        storage_device_j=power.energy_j(buffer_w / fleet.used_devices, work.step_s),
        checkpoints=found(power.swing_w(fleet.used_devices, working, working, TOGETHER), through_w),
    )
