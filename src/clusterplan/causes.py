"""What interrupts the run of a plan: its expected interruptions by cause. Composition only."""

from __future__ import annotations

from clusterplan.arrays import FloatArray
from clusterplan.formulas import reliability
from clusterplan.outcome import Circumstances, Run
from clusterplan.run import cause_factor, node_failure_fraction, steady_mtbf_s

OTHER = "other"
"""Failures of which no profile knows the cause."""
BESIDE = "other_machines"
"""Failures of parts of the job on other machines."""
ROUNDING = 1e-9
"""A rest of the shares below this is none: they are written in decimals."""


def interruptions_by_cause(circumstances: Circumstances, outcome: Run) -> dict[str, FloatArray]:
    """Expected interruptions by cause, shape ``(layout,)`` each; they add up to all that the run expects."""
    machine, factors = circumstances.machine, circumstances.operations.cause_factor
    fleet, interruptions = outcome.fleet, outcome.progress.expected_interruptions
    mtbf = steady_mtbf_s(circumstances, fleet)
    found: dict[str, FloatArray] = {}
    device, system = machine.accelerator, machine.system
    of_node = node_failure_fraction(circumstances, fleet.used_devices)
    for number, rate, known, shares in (
        (fleet.used_devices, device.failures_per_device_s, device.failure_fraction, device.failure_fraction),
        (fleet.used_nodes, system.failures_per_node_s, system.failure_fraction, of_node),
    ):
        rest = 1 - sum(known.values())
        for cause, share in ({**shares, OTHER: rest} if rest > ROUNDING else shares).items():
            factor = cause_factor(factors, cause)
            counted = reliability.interruptions_by_cause(interruptions, mtbf, number, rate, share, factor)
            found[cause] = found[cause] + counted if cause in found else counted
    if circumstances.failures_beside_s:
        found[BESIDE] = reliability.interruptions_by_cause(interruptions, mtbf, 1, circumstances.failures_beside_s, 1.0)
    return found
