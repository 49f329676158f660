"""How long the command takes from start to end, and how much memory, against the bare imports of what it uses.

    python benchmarks/process_time.py [ROUNDS]

Each round starts fresh processes, one kind after the other, so that a busy machine slows all of them alike. It prints
times, ratios and memory and never fails by the clock.
"""

from __future__ import annotations

import os
import resource
import statistics
import sys
import time
from dataclasses import dataclass

PYTHON = sys.executable
COMMAND = (PYTHON, "-m", "clusterplan")
RUNS = {
    "python, nothing": (PYTHON, "-c", "pass"),
    "import typer": (PYTHON, "-c", "import typer"),
    "bare imports": (PYTHON, "-c", "import numpy, scipy.special, pydantic, rich.console, typer"),
    "--help": (*COMMAND, "--help"),
    "size --help": (*COMMAND, "size", "--help"),
    "size gpt-1t": (
        *(*COMMAND, "size", "gpt-1t", "--hardware", "dgx-h100", "--tokens", "20T", "--deadline", "120d"),
        *("--devices", "1024:131072"),
    ),
}
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
"""Modules come compiled, as they do from an installed package; else each process would compile this one's again."""
MIB_PER_UNIT = 2**10 if sys.platform != "darwin" else 2**20
"""The kernel counts resident memory in KiB, on macOS in bytes."""


@dataclass(frozen=True)
class Cost:
    wall_s: float
    cpu_s: float
    peak_mib: float


def run(command: tuple[str, ...]) -> Cost:
    """One fresh process; what it prints is dropped."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    begin = time.perf_counter()
    child = os.posix_spawn(command[0], command, ENVIRONMENT, file_actions=[(os.POSIX_SPAWN_DUP2, nowhere, 1)])
    _, status, used = os.wait4(child, 0)
    wall_s = time.perf_counter() - begin
    os.close(nowhere)
    if os.waitstatus_to_exitcode(status):
        sys.exit(f"{' '.join(command)} failed")
    return Cost(wall_s, used.ru_utime + used.ru_stime, peak_mib(used))


def peak_mib(used: resource.struct_rusage) -> float:
    return used.ru_maxrss / MIB_PER_UNIT


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    for command in RUNS.values():
        run(command)  # compiles, and fills the file cache
    seen: dict[str, list[Cost]] = {name: [] for name in RUNS}
    for _ in range(rounds):
        for name, command in RUNS.items():
            seen[name].append(run(command))
    print(f"{rounds} fresh processes each; seconds, least and median")
    print(f"{'':<18}{'wall':>8}{'median':>8}{'CPU':>8}{'median':>8}{'peak MiB':>10}{'CPU over bare imports':>23}")
    bare = min(c.cpu_s for c in seen["bare imports"])
    for name, costs in seen.items():
        wall, cpu = sorted(c.wall_s for c in costs), sorted(c.cpu_s for c in costs)
        print(
            f"{name:<18}{wall[0]:>8.3f}{statistics.median(wall):>8.3f}{cpu[0]:>8.3f}{statistics.median(cpu):>8.3f}"
            f"{max(c.peak_mib for c in costs):>10.0f}{cpu[0] / bare:>23.2f}"
        )


if __name__ == "__main__":
    main()
