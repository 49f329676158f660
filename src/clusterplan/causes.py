"""What interrupts the run of a plan: its expected interruptions by cause. Composition only."""

from __future__ import annotations

from clusterplan.arrays import FloatArray
from clusterplan.formulas import reliability
from clusterplan.outcome import Circumstances, Run
from clusterplan.run import steady_mtbf_s

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
    for number, rate, shares in (
        (fleet.used_devices, machine.accelerator.failures_per_device_s, machine.accelerator.failure_fraction),
        (fleet.used_nodes, machine.system.failures_per_node_s, machine.system.failure_fraction),
    ):
        rest = 1 - sum(shares.values())
        for cause, share in ({**shares, OTHER: rest} if rest > ROUNDING else shares).items():
            counted = reliability.interruptions_by_cause(
                interruptions, mtbf, number, rate, share, factors.get(cause, 1.0)
            )
            found[cause] = found[cause] + counted if cause in found else counted
    if circumstances.failures_beside_s:
        found[BESIDE] = reliability.interruptions_by_cause(interruptions, mtbf, 1, circumstances.failures_beside_s, 1.0)
    return found
