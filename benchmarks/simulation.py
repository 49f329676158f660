"""Closed forms beside simulated runs, from a thousand to a million devices, and how fast runs are simulated.

    python benchmarks/simulation.py [RUNS]

Node failures as Llama 3 had them (arXiv:2407.21783, table 5: 419 in 54 days on 16,384 devices, 3.79 for 1,000
node-days); three ways to restart: a blocking checkpoint of 30 s and ten minutes, a snapshot of 1 s written in 60 s and
two minutes, one written in 10 s and one minute. The last rows are laws that the closed form does not have: what it
misses is shown.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from clusterplan.formulas import checkpoints, goodput, reliability
from clusterplan.simulate import Process, simulated

DEVICES = (1_024, 4_096, 16_384, 65_536, 131_072, 262_144, 1_048_576)
RATE_PER_NODE_S = 3.79 / 1000 / 86400
NODE_DEVICES = 8
RUNS = 1000
FAILURES = 2e7
"""Failures that are drawn for a row, about; large jobs get fewer runs, each of which spreads less."""
TRAINING_S = 100 * 86400.0

RESTARTS = {
    "blocking 30 s, restart 10 min": Process(
        training_s=TRAINING_S, interval_s=1.0, stall_s=30.0, restore_s=120.0, found_s=400.0, started_s=80.0, mtbf_s=1.0
    ),
    "snapshot 1 s, restart 2 min": Process(
        training_s=TRAINING_S, interval_s=1.0, stall_s=1.0, persist_s=60.0, restore_s=60.0, found_s=40.0,
        started_s=20.0, mtbf_s=1.0,
    ),
    "snapshot 1 s, restart 1 min": Process(
        training_s=TRAINING_S, interval_s=1.0, stall_s=1.0, persist_s=10.0, restore_s=20.0, found_s=20.0,
        started_s=20.0, mtbf_s=1.0,
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One comparison."""

    name: str
    devices: int
    mtbf_s: float
    closed: float
    simulated: float
    standard_error: float
    failures_per_s: float


def at_size(process: Process, devices: int) -> Process:
    """The process of a job of so many devices, with its best interval."""
    mtbf = float(reliability.job_mtbf_s(devices, 0, devices / NODE_DEVICES, RATE_PER_NODE_S))
    best = float(checkpoints.checkpoint_interval_s(process.stall_s, mtbf))
    return replace(process, mtbf_s=mtbf, interval_s=max(best, process.persist_s))


def closed_form(process: Process) -> float:
    return float(
        goodput.asynchronous_useful_fraction(
            process.interval_s,
            process.stall_s,
            process.persist_s,
            process.restore_s,
            process.found_s + process.started_s,
            process.mtbf_s,
        )
    )


def compared(name: str, devices: int, process: Process, runs: int, failures: float = FAILURES) -> Row:
    closed = closed_form(process)
    expected = process.training_s / closed / (process.mtbf_s + process.found_s + process.started_s)
    count = int(np.clip(failures / max(expected, 1.0), 20, runs))
    begin = time.process_time()
    drawn = simulated(process, count, np.random.default_rng(1))
    seconds = time.process_time() - begin
    goodput = process.training_s / drawn.wall_s.mean()
    return Row(
        name=name,
        devices=devices,
        mtbf_s=process.mtbf_s,
        closed=closed,
        simulated=float(goodput),
        standard_error=float(goodput * drawn.wall_s.std(ddof=1) / drawn.wall_s.mean() / count**0.5),
        failures_per_s=float(drawn.interruptions.sum() / seconds),
    )


def rows(runs: int = RUNS, failures: float = FAILURES) -> Iterator[Row]:
    """Independent failures at random: what the closed form is exact for."""
    for name, process in RESTARTS.items():
        for devices in DEVICES:
            given = at_size(process, devices)
            if closed_form(given) < 0.01:
                continue  # a hundred times longer than its steps: no run, and no end of failures to draw
            yield compared(name, devices, given, runs, failures)


def other_laws(runs: int = RUNS, devices: int = 16_384) -> Iterator[Row]:
    """What the closed form does not have."""
    process = at_size(RESTARTS["snapshot 1 s, restart 2 min"], devices)
    for shape in (0.5, 0.7, 1.5):
        yield compared(f"Weibull, shape {shape}", devices, replace(process, shape=shape), runs)
    spares = replace(process, repair_s=2 * 86400.0)
    for nodes in (25, 20, 16):
        yield compared(f"{nodes} spares, repair 48 h", devices, replace(spares, spare_nodes=nodes), runs)
    domain = replace(process, domain_fraction=0.02, domain_outage_s=4 * 3600.0)
    yield compared("2 % take a domain for 4 h", devices, domain, runs)


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else RUNS
    print(
        f"{'':32}{'devices':>10}{'MTBF s':>9}{'formula':>9}{'simulated':>11}{'s.e.':>8}{'points':>8}{'failures/s':>13}"
    )
    for row in (*rows(runs), *other_laws(runs)):
        print(
            f"{row.name:32}{row.devices:>10,}{row.mtbf_s:>9,.0f}{row.closed:>9.4f}{row.simulated:>11.4f}"
            f"{row.standard_error:>8.4f}{100 * (row.simulated - row.closed):>+8.2f}{row.failures_per_s:>13,.0f}"
        )


if __name__ == "__main__":
    main()
