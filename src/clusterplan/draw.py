"""How the equipment of a plan draws its power: node, rack and hall, and how far power swings. Composition only."""

from __future__ import annotations

from dataclasses import dataclass, replace

from clusterplan import electricity
from clusterplan.arrays import FloatArray
from clusterplan.formulas import power
from clusterplan.outcome import Circumstances, Fleet, Progress, Run, Work

EXCEEDED = 0.05
"""Share of the time in which power is above its 95th percentile."""
WHOLE = 1.0
"""All of a nameplate."""
TOGETHER = 1.0
"""A checkpoint that stalls the steps, or a failure, stops all devices at the same time."""


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
    )


def _swings(circumstances: Circumstances, work: Work, fleet: Fleet, progress: Progress, mean_w: FloatArray) -> Swings:
    """Jumps at steps and stops, and what evening them out takes."""
    operations, system = circumstances.operations, circumstances.machine.system
    bare = replace(circumstances, operations=replace(operations, floor_activity_fraction=0.0))
    at_input = 1 / system.psu_efficiency
    step = power.buffered_swing_w(
        power.conversion_input_w(electricity.step_swing_w(circumstances, work, fleet), system.psu_efficiency),
        operations.buffered_swing_fraction,
    )
    shares, watts = electricity.states(circumstances, work, progress)
    stepping = shares[:, :-1].sum(axis=-1, keepdims=True)
    working = power.phase_mean_w(shares[:, :-1] / stepping, watts[:-1])
    drop = power.swing_w(fleet.used_devices, working, watts[-1], TOGETHER)
    stop = power.conversion_input_w(drop, system.psu_efficiency)
    smooth, rough = (electricity.device_w(one, work, progress) for one in (circumstances, bare))
    loss = electricity.smoothing_loss_w(circumstances, work, fleet)
    steadily = at_input / (1 - electricity.housed(system, circumstances.cooling).fan_fraction) * fleet.used_devices
    return Swings(
        step_w=step,
        step_w_per_s=power.ramp_w_per_s(step, operations.swing_ramp_s),
        step_fraction=power.swing_fraction(step, mean_w),
        stop_w=stop,
        stop_w_per_s=power.ramp_w_per_s(stop, operations.swing_ramp_s),
        stop_fraction=power.swing_fraction(stop, mean_w),
        buffer_j=power.energy_j(electricity.buffer_w(circumstances, work, fleet), work.step_s),
        smoothing_w=power.added_w(steadily * smooth + at_input * loss, steadily * rough),
    )
