"""Collectives as the formulas have them beside measured ones, by fabric, collective and source.

    python benchmarks/collectives.py            # prints the tables
    python benchmarks/collectives.py --rows     # prints every row as well
    python benchmarks/collectives.py --write    # writes docs/collectives.md

Each time is that of `layer.Group.time_s` with shipped profiles, as a step has it. Rows are in
`profiles/measured/collectives/`; those from which a profile's constant or one of the formulas was read are apart.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from clusterplan import layer
from clusterplan.catalog import Catalog, built_in_directory
from clusterplan.hardware import Accelerator as Device
from clusterplan.hardware import Fabric, Machine, Stack, System
from clusterplan.workload import Job, Model

CATALOG = Catalog()
DOCUMENT = Path(__file__).parents[1] / "docs" / "collectives.md"
GOAL = 0.20
"""Median error of all-reduce and all-to-all that is promised."""
SMALL_BYTES, LARGE_BYTES = 4 * 2**20, 256 * 2**20


@dataclass(frozen=True, kw_only=True)
class Row:
    """One measured collective with its prediction."""

    file: str
    system: str
    fabric: str
    collective: str
    adds_inside: bool
    """Whether the switches of the node added."""
    ranks: int
    message_bytes: float
    measured_s: float
    predicted_s: float
    is_fit: bool
    """Whether a constant was read from it."""
    source: str

    @property
    def error(self) -> float:
        """Predicted over measured time, less 1."""
        return self.predicted_s / self.measured_s - 1

    @property
    def use(self) -> str:
        return "fit" if self.is_fit else "check"

    @property
    def size(self) -> str:
        if self.message_bytes < SMALL_BYTES:
            return "below 4 MiB"
        return "4 to 256 MiB" if self.message_bytes <= LARGE_BYTES else "above 256 MiB"

    @property
    def nodes(self) -> str:
        """How far it reaches, in scale-up domains."""
        domains = -(-self.ranks // CATALOG.load(System, self.system).scaleup_devices)
        return "one domain" if domains == 1 else "2 to 8 domains" if domains <= 8 else "more than 8 domains"


def question(system: str, fabric: str, *, adds_inside: bool) -> layer.Question:
    """What a collective needs of a question: the machine."""
    of = CATALOG.load(System, system)
    stack = CATALOG.load(Stack, of.stack)
    machine = Machine(
        system=of,
        accelerator=CATALOG.load(Device, of.accelerator),
        fabric=CATALOG.load(Fabric, fabric),
        stack=replace(stack, in_network_reduction=("scale-up",) if adds_inside else ()),
    )
    job = Job(tokens=1, seq_len=1, global_batch=1, batch_fixed=False)
    model = CATALOG.load(Model, "llama-3.1-8b")
    return layer.Question(model=model, job=job, machine=machine, domain_devices=of.scaleup_devices)


def moved_share(collective: str, ranks: int) -> float:
    """Bus bandwidth over message and time, as nccl-tests has it."""
    return (2 if collective == "all_reduce" else 1) * (ranks - 1) / ranks


def rows() -> Iterator[Row]:
    """All rows, predicted."""
    for file in sorted((built_in_directory() / "measured" / "collectives").glob("*.csv")):
        with file.open(encoding="utf-8", newline="") as text:
            for line in csv.DictReader(text):
                ranks, message = int(line["ranks"]), float(line["message_kib"]) * 1024
                collective, adds_inside = line["collective"], line["in_network"] == "yes"
                if line["time_us"]:
                    measured = float(line["time_us"]) * 1e-6
                else:
                    measured = moved_share(collective, ranks) * message / (float(line["bus_gb_per_s"]) * 1e9)
                where = layer.group(
                    question(line["system"], line["fabric"], adds_inside=adds_inside),
                    np.array([ranks]),
                    np.array([1]),
                    ranks,
                )
                yield Row(
                    file=file.stem,
                    system=line["system"],
                    fabric=line["fabric"],
                    collective=collective,
                    adds_inside=adds_inside,
                    ranks=ranks,
                    message_bytes=message,
                    measured_s=measured,
                    predicted_s=float(where.time_s(collective, np.array([message]))[0]),
                    is_fit=line["use"] == "fit",
                    source=line["source"],
                )


# Tables ---------------------------------------------------------------------------------------------------------------


def table(heads: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(line)} |" for line in [heads, ["---"] * len(heads), *lines])


def errors(found: Sequence[Row]) -> tuple[str, ...]:
    """Number, median and 90th percentile of the size, and bias, in per cent."""
    off = np.array([row.error for row in found])
    size = np.abs(off)
    return (
        str(len(found)),
        f"{100 * np.median(size):.1f}",
        f"{100 * np.quantile(size, 0.9):.1f}",
        f"{100 * np.median(off):+.1f}",
    )


ERRORS = ("rows", "median", "90th", "bias")


def by(found: Sequence[Row], heads: Sequence[str], key: Callable[[Row], tuple[str, ...]]) -> str:
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in found:
        groups.setdefault(key(row), []).append(row)
    return table((*heads, *ERRORS), [(*name, *errors(group)) for name, group in sorted(groups.items())])


def said(name: str) -> str:
    return name.replace("_", "-")


def tables(found: Sequence[Row]) -> dict[str, str]:
    check = [row for row in found if not row.is_fit]
    return {
        "By collective": by(found, ("collective", "use"), lambda row: (said(row.collective), row.use)),
        "By fabric": by(check, ("fabric", "collective"), lambda row: (f"`{row.fabric}`", said(row.collective))),
        "By size and reach": by(check, ("message", "reach"), lambda row: (row.size, row.nodes)),
        "By source": by(
            found,
            ("file", "system", "collective", "ranks", "switches add", "use"),
            lambda row: (
                row.file,
                f"`{row.system}`",
                said(row.collective),
                f"{row.ranks:4d}",
                "yes" if row.adds_inside else "",
                row.use,
            ),
        ),
    }


def document(found: Sequence[Row]) -> str:
    parts = [HEAD]
    for title, text in tables(found).items():
        parts += [f"## {title}\n{NOTES.get(title, '')}", text]
    return "\n\n".join(part.strip() for part in [*parts, TAIL]) + "\n"


HEAD = """# Collectives beside measured ones

Made by `python benchmarks/collectives.py --write`; the tests hold the medians and this page to the program.

Times are those that a step has (`layer.Group.time_s`), with shipped profiles; errors are of time, predicted over
measured less 1, in per cent. Rows *fit* gave a constant of a profile or of a formula: the rates of nodes and fabrics,
their latencies, the start of the protocol with the full rate. Rows *check* gave none. Where the source says that the
switches of the node added (NVLS), the prediction has that switched on; plans do not, unless a software profile names it
in `in_network_reduction`.

A group's time is the cheapest way of those that libraries have:

- **ring**: every device passes on its share. Over *N* nodes of *m* devices *N* - 1 steps cross the network and
  *N* (*m* - 1) go inside, so that short messages slow down with the ranks;
- **tree** (all-reduce): a chain inside a node, a double binary tree between nodes; two nodes exchange the message once;
- **switches that add** (all-reduce): the message goes up once and its sum comes down once;
- **torus**: a ring along each axis; an exchange is bounded by the links that cut the torus in half;
- **exchange** (all-to-all): what is meant for the node and what leaves it, each at its own rate.

Short messages go by a protocol that starts at once and carries half of the rate, long ones by one with the full rate
that starts 80 us later and takes 1 us more for each step."""

NOTES = {
    "By collective": "The promise is a median of 20 % on all-reduce and all-to-all of rows *check*.",
    "By fabric": "Rows *check* alone.",
    "By size and reach": "Rows *check* alone.",
}

TAIL = """## What is counted how
- Bus bandwidth is turned into time as nccl-tests has it. SimAI's tables are shares of a ceiling: 400 GB/s of a node's
  eight interfaces for all-gather, 50 GB/s of a device's interface for what leaves its node in all-to-all, 450 GB/s
  inside a node.
- Dispatch and combine of DeepEP and UCCL-EP: bytes that a device sends, one copy of a token for each node that it goes
  to (inside one node: for each device), 4,096 tokens of 7,168 elements to 8 experts; the low-latency kernels send one
  copy for each of the 8 experts of 128 tokens.
- What the ceiling of SimAI's all-to-all table is, and how many bytes the long messages of DeepEP and the GB/s rows of
  UCCL-EP were, is our reading of the sources: the first is not stated beside the table, the others follow from the
  number of tokens.
- Rows *check* gave no constant, but they were seen while the formulas were chosen: which ways a collective has, that
  all-to-all starts as late as a ring, and what EFA is taken to reach. They show that one set of formulas holds for all,
  not what it does on networks that nobody here has seen.
- Not taken: tables without ranks or network (four nodes of A100), pass thresholds, messages below 64 KiB.

## What is missed
- All-reduce over several domains: a median of about 20 % on rows *check*, against 9 % on all; half of the rows are EFA.
- GB200 over 20 racks: half of the measured time. The library that was measured brings 72 interfaces of a rack to the
  rate of about eight; two racks are right, as the message goes over the network once.
- Two nodes with DeepEP's kernels for long messages, and UCCL-EP's on two nodes: what is forwarded inside the node costs
  more than we say. Eight devices of a B200 node exchange at half of the rate of a ring with that software.
- EFA of the first version (A100) and short messages over four nodes of EFA: starts of 80 to 380 us that vary by
  version.
- Idle networks show no loss of bandwidth with the number of nodes once every step has its latency; profiles keep 5 %
  for each doubling, which published runs allow (0 to 5 % do equally well), for networks that are shared."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", action="store_true", help="print every row")
    parser.add_argument("--write", action="store_true", help=f"write docs/{DOCUMENT.name}")
    asked = parser.parse_args()
    found = list(rows())
    if asked.rows:
        for row in found:
            times = f"{row.measured_s * 1e6:12,.0f} us {row.predicted_s * 1e6:12,.0f} us {100 * row.error:+6.0f} %"
            print(f"{row.file:16} {row.system:18} {row.collective:14} {row.ranks:5} {row.message_bytes:14,.0f} {times}")
    if asked.write:
        DOCUMENT.write_text(document(found), encoding="utf-8")
    for title, text in tables(found).items():
        print(f"\n{title}\n{text}")


if __name__ == "__main__":
    main()
