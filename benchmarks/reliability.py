"""Published interruptions, times between failures and goodput beside what a plan would have said.

    python benchmarks/reliability.py [--write]

``--write`` writes docs/reliability.md. Every row has the defaults of ``profiles/defaults.toml`` and the failure rates
of its profile; what a row changes is what its source publishes (devices, kind of machine, way of recovery, storage), or
what must be assumed because nobody says (size of the model, length of a step). Nothing is tuned to a row.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from clusterplan import run
from clusterplan.catalog import Catalog
from clusterplan.cautions import SMALL_JOB_DEVICES, SMALL_JOB_FACTOR
from clusterplan.formulas import reliability
from clusterplan.hardware import Accelerator, Fabric, Machine, Stack, Storage, System
from clusterplan.outcome import Circumstances, Progress, Work
from clusterplan.site import Cooling, Prices, Site

DOCUMENT = Path(__file__).parents[1] / "docs" / "reliability.md"
DAY_S = 86400.0
STEP_S = 10.0
"""Assumed for every row: it only rounds the checkpoint interval."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A published run."""

    name: str
    source: str
    system: str
    devices: int
    parameters: float
    published: tuple[str, ...]
    """Inputs that the source publishes."""
    assumed: tuple[str, ...]
    """Inputs that it does not."""
    storage: str = "parallel-flash-2tbps"
    days: float = 60.0
    operations: dict[str, Any] = field(default_factory=dict)
    stack: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One figure."""

    case: Case
    what: str
    measured: str
    predicted: float
    text: Callable[[float], str]
    remark: str = ""


H100_RATES = "rates: the profile of the H100 has them from this very run"
A100_RATES = "failure rates of the A100's profile, which are RSC-1's and RSC-2's together"

LLAMA = Case(
    name="Llama 3 405B",
    source="Llama 3 paper, arXiv:2407.21783, section 3.3.4, tables 4 and 5",
    system="dgx-h100",
    devices=16_384,
    parameters=405.9e9,
    days=54,
    published=("16,384 H100", "54 days", H100_RATES, "planned stops: 47 in 54 days", "storage"),
    assumed=("times of detection, diagnosis and restart", "checkpoint interval: the best one", "length of a stop"),
)
RSC = "A. Kokolis et al., HPCA 2025, arXiv:2410.21680"


def rsc(devices: int) -> Case:
    return Case(
        name=f"RSC-1, {devices:,} GPU" + ("s" if devices > 1 else ""),
        source=RSC,
        system="dgx-a100",
        devices=devices,
        parameters=70e9,
        published=("devices", A100_RATES),
        assumed=("nothing else matters to it",),
    )


MEGASCALE = Case(
    name="MegaScale",
    source="Z. Jiang et al., NSDI 2024, arXiv:2402.15627, section 6.3",
    system="dgx-a100",
    devices=12_288,
    parameters=175e9,
    days=21,
    published=("12,288 Ampere GPUs", "start of communicators, which is the default"),
    assumed=("“several weeks”: 21 days", "175 billion parameters", A100_RATES, "storage"),
)
BYTEROBUST = Case(
    name="ByteRobust, dense",
    source="ByteRobust, SOSP 2025, arXiv:2509.16293",
    system="dgx-h100",
    devices=9_600,
    parameters=70e9,
    days=90,
    operations={"recovery": "memory"},
    published=("9,600 Hopper GPUs", "90 days", "copies in the memory of peers", "standby nodes"),
    assumed=("70 billion parameters", "failure rates of Llama 3", "times of detection and restart"),
)
PALM = Case(
    name="PaLM (TPU v4)",
    source="Gemini 1.0 report, arXiv:2312.11805, section 3, for PaLM and PaLM 2; devices: arXiv:2204.02311",
    system="tpu-v4-pod",
    devices=6_144,
    parameters=540e9,
    published=("6,144 TPU v4", "540 billion parameters"),
    assumed=("failure rates of the H100", "storage", "all times of a restart"),
)
GEMINI_1 = Case(
    name="Gemini 1.0 Ultra",
    source="Gemini 1.0 report, arXiv:2312.11805, section 3",
    system="tpu-v4-pod",
    devices=32_768,
    parameters=1e12,
    operations={"recovery": "memory"},
    published=("TPU v4 in several pods of 4,096", "copies of the state in memory"),
    assumed=("8 pods", "a trillion parameters", "failure rates of the H100", "all times of a restart"),
)
GEMINI_2 = Case(
    name="Gemini 2.5",
    source="Gemini 2.5 report, arXiv:2507.06261, section on training infrastructure",
    system="tpu-v5p-pod",
    devices=17_920,
    parameters=1e12,
    operations={"recovery": "replica"},
    published=("TPU v5p in several pods of 8,960", "the other slices go on when one fails"),
    assumed=("2 pods", "a trillion parameters", "failure rates of the H100", "replicas: one a slice, 64"),
)
OPT = Case(
    name="OPT-175B",
    source="S. Zhang et al., arXiv:2205.01068, section 2.5: 35 manual restarts and about 70 automatic ones",
    system="dgx-a100",
    devices=992,
    parameters=175e9,
    days=60,
    published=("992 A100", "two months"),
    assumed=(A100_RATES,),
)
BLOOM = Case(
    name="BLOOM",
    source="BigScience, chronicles of tr11-176B-ml",
    system="dgx-a100",
    devices=384,
    parameters=176e9,
    storage="gpfs-58gbps",
    stack="megatron-deepspeed-bigscience",
    days=7,
    published=("384 A100", "storage: its profile is this one"),
    assumed=(A100_RATES,),
)
BYTECHECKPOINT = Case(
    name="ByteCheckpoint, 405B",
    source="ByteCheckpoint, arXiv:2407.20143: 405 billion parameters on 8,960 GPUs",
    system="dgx-h100",
    devices=8_960,
    parameters=405e9,
    published=("8,960 H800 or H100", "405 billion parameters"),
    assumed=("storage", "the barrier of 0.5 s is taken from this paper"),
)


FIGURES = (
    (("asynchronous_checkpoint",), "training goes on while a checkpoint is written"),
    (
        ("recovery", "memory_lost_fraction"),
        "`storage`, `memory` (copies on two nodes; the rest goes back to storage) or `replica` (the others go on)",
    ),
    (
        ("replica_reconfigure_s", "replica_recover_s", "replica_global_fraction"),
        "what a failure costs where the other replicas go on",
    ),
    (("foreseen_fraction", "alarm_precision_fraction", "proactive_s"), "failures announced by an alarm; 0 for none"),
    (
        ("domain_failure_fraction", "domain_nodes", "domain_outage_s"),
        "power, cooling, switch: the job waits for the domain if the spares are fewer than its nodes",
    ),
    (("silent_fraction", "silent_found_s"), "corruption that is found late; what was done since is done again"),
    (("planned_stop_s", "planned_stop_interval_s"), "maintenance; 0 s for none"),
    (("slow_node_fraction",), "how much longer steps are because of nodes that have become slow"),
    (("early_failure_factor", "early_failure_s"), "burn-in of new machines; 1 for none"),
    (("repeated_fraction",), "steps repeated after loss spikes"),
    (
        ("repair_s", "spare_shortage_fraction", "elastic"),
        "spares, and whether a simulated job goes on with fewer replicas while it waits for one",
    ),
    (("token_bytes",), "data of a token in storage"),
    (("saved_fraction",), "incremental checkpoints: bytes that one adds to storage over its size; 1 for whole ones"),
    (("cause_factor",), "how many times as often a cause of failures strikes, by its name (`cause_factor.memory`)"),
)
"""Figures of operations, and what they are."""


CAUSES = (
    ("device: GPU, SRAM, system processor", 184, "Alibaba's A100: 45.6 % with memory and all else of the GPU (Aegis)"),
    (
        "memory",
        72,
        "uncorrectable errors every 11.3 million GB-hours of HBM2e, 8.5 of HBM3 (SC25, arXiv:2503.11901), most of "
        "which remapping absorbs",
    ),
    ("silent corruption", 6, "Gemini 1.0: one every week or two"),
    ("thermal", 6, ""),
    (
        "software, watchdog, dependencies",
        63,
        "48.2 % of the incidents of 100,000 GPUs (EROICA); CUDA errors 36.1 %, code and data 17.3 %, hangs 9.9 % "
        "(ByteRobust)",
    ),
    ("hosts", 40, ""),
    (
        "switches and cables",
        35,
        "links 0.057 % and switches 0.051 % a month (Alibaba HPN, SIGCOMM 2024): 17.5 on as many devices in as long; "
        "the ratio is taken",
    ),
    ("interfaces", 7, ""),
    ("drives", 3, ""),
    ("supplies", 3, ""),
)
"""Interruptions of Llama 3 405B by cause (arXiv:2407.21783, table 5), and what others counted."""


@lru_cache
def catalog() -> Catalog:
    return Catalog()


@lru_cache
def progress(name: str) -> Progress:
    """What a plan would say of a case, by its name."""
    return predicted(CASES[name])


def predicted(case: Case, failures: float = 1.0) -> Progress:
    """What a plan would say, everything failing so many times as often."""
    known = catalog()
    defaults = known.defaults()
    system = known.load(System, case.system)
    accelerator = known.load(Accelerator, system.accelerator)
    machine = Machine(
        system=dataclasses.replace(system, failures_per_node_s=system.failures_per_node_s * failures),
        accelerator=dataclasses.replace(
            accelerator, failures_per_device_s=accelerator.failures_per_device_s * failures
        ),
        fabric=known.load(Fabric, system.fabric),
        stack=known.load(Stack, case.stack or system.stack),
    )
    circumstances = Circumstances(
        machine=machine,
        site=known.load(Site, defaults.site),
        cooling=known.load(Cooling, defaults.cooling),
        prices=dataclasses.replace(known.load(Prices, defaults.prices), system_usd={system.name: 1.0}),  # none is asked
        storage=known.load(Storage, case.storage),
        operations=dataclasses.replace(defaults.operations, **case.operations),
        tokens=case.days * DAY_S / STEP_S * 16e6,
        seq_len=8000,
        parameters=case.parameters,
        checkpoint_bytes_per_parameter=machine.stack.weight_bytes + machine.stack.optimizer_bytes,
    )
    one = np.array([STEP_S])
    used = np.array([case.devices])
    work = Work(
        step_s=one,
        matrix_s=one,
        memory_s=0 * one,
        communication_s=0 * one,
        waiting_s=0 * one,
        used_devices=used,
        bought_devices=used,
        global_batch=np.array([2000]),
        replicas=np.array([64]),
    )
    return run.evaluate(circumstances, work).progress


CASES = {
    case.name: case
    for case in (
        LLAMA, rsc(8), rsc(1024), rsc(16_384), rsc(131_072), MEGASCALE, BYTEROBUST, PALM, GEMINI_1, GEMINI_2, OPT,
        BLOOM, BYTECHECKPOINT,
    )
}  # fmt: skip


def number(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}"


def hours(value: float) -> str:
    return f"{value / 24:.1f} days" if value > 48 else f"{value:.2f} h"


def share(value: float) -> str:
    return f"{100 * value:.1f} %"


def seconds(value: float) -> str:
    return f"{value:.2f} s" if value < 10 else f"{value:.0f} s"


def lasting(value: float) -> str:
    return seconds(value) if value < 120 else f"{value / 60:.1f} min"


def terabytes(value: float) -> str:
    return f"{value:.2f} TB"


def first(values: Any) -> float:
    return float(np.asarray(values).reshape(-1)[0])


def rows() -> Iterator[Row]:
    """Published figures, each with the prediction."""

    def interruptions(case: Case) -> float:
        made = progress(case.name)
        return first(made.expected_interruptions / made.wall_s) * case.days * DAY_S

    def mtbf_h(case: Case) -> float:
        return first(progress(case.name).mtbf_s) / 3600

    def goodput(case: Case) -> float:
        return first(progress(case.name).goodput_fraction)

    circular = "the rate is from this run: only the arithmetic is checked"
    yield Row(
        case=LLAMA,
        what="unplanned interruptions in 54 days",
        measured="419",
        predicted=interruptions(LLAMA),
        text=number,
        remark=f"{circular}; nothing fails while the job is down",
    )
    yield Row(case=LLAMA, what="effective training time", measured="> 90 %", predicted=goodput(LLAMA), text=share)
    for devices, measured, remark in (
        (8, "47.7 days", "small jobs: known bias"),
        (1024, "7.9 h", "small jobs: known bias"),
        (16_384, "1.8 h", "their projection"),
        (131_072, "0.23 h", "their projection"),
    ):
        case = CASES[rsc(devices).name]
        yield Row(
            case=case,
            what="mean time between failures",
            measured=measured,
            predicted=mtbf_h(case),
            text=hours,
            remark=f"{remark}; RSC-1 alone fails 6.5 times in 1,000 node-days, the profile has 5.11",
        )
    yield Row(
        case=MEGASCALE,
        what="restarts in several weeks",
        measured="> 100",
        predicted=interruptions(MEGASCALE),
        text=number,
    )
    yield Row(
        case=MEGASCALE, what="effective training time", measured="> 90 %", predicted=goodput(MEGASCALE), text=share
    )
    yield Row(
        case=BYTEROBUST, what="effective training time", measured="97 %", predicted=goodput(BYTEROBUST), text=share
    )
    yield Row(
        case=PALM,
        what="goodput",
        measured="85 %",
        predicted=goodput(PALM),
        text=share,
        remark="one restart from storage cost far more then than the defaults of today say",
    )
    yield Row(
        case=GEMINI_1,
        what="goodput",
        measured="97 %",
        predicted=goodput(GEMINI_1),
        text=share,
        remark="most inputs assumed; of the restart, detection and launch take most, not the state",
    )
    yield Row(
        case=GEMINI_2,
        what="goodput",
        measured="93 %",
        predicted=goodput(GEMINI_2),
        text=share,
        remark="over several data centres, which the plan does not have",
    )
    yield Row(
        case=OPT,
        what="restarts in two months",
        measured="105",
        predicted=interruptions(OPT),
        text=number,
        remark="small jobs: known bias",
    )
    yield Row(case=BLOOM, what="failures a week", measured="1 to 2 GPUs", predicted=interruptions(BLOOM), text=number)
    yield Row(
        case=BLOOM,
        what="size of a checkpoint",
        measured="2.3 TB",
        predicted=first(progress("BLOOM").checkpoint_bytes) / 1e12,
        text=terabytes,
    )
    made = progress(BYTECHECKPOINT.name)
    yield Row(
        case=BYTECHECKPOINT,
        what="stall of a checkpoint",
        measured="0.59 s",
        predicted=first(made.checkpoint_stall_s),
        text=seconds,
        remark="the barrier is from this paper",
    )
    yield Row(
        case=BYTECHECKPOINT,
        what="write of a checkpoint",
        measured="51 s",
        predicted=first(made.checkpoint_persist_s),
        text=seconds,
        remark="into HDFS; the plan has a flash file system of 2 TB/s",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One part of a restart, published and predicted."""

    what: str
    devices: str
    measured: str
    predicted_s: float
    source: str
    remark: str = ""


def parts() -> Iterator[Part]:
    """Parts of a restart that somebody published, each with the prediction."""
    operations = catalog().defaults().operations
    megascale = "MegaScale, arXiv:2402.15627, section 3.5"

    def init_s(devices: int) -> float:
        return first(
            reliability.communicator_init_s(devices, operations.communicator_s, operations.communicator_s_per_device)
        )

    yield Part(
        what="communicators",
        devices="2,048",
        measured="< 5 s",
        predicted_s=init_s(2048),
        source=megascale,
        remark="the slope is from this line and the next; the 2 s that do not grow are ours",
    )
    yield Part(
        what="communicators", devices="> 10,000", measured="< 30 s", predicted_s=init_s(10_000), source=megascale
    )
    yield Part(
        what="communicators before tuning",
        devices="2,048",
        measured="1,047 s",
        predicted_s=init_s(2048),
        source=megascale,
        remark="a stack that was not tuned needs `operations.communicator_s_per_device=0.5`",
    )
    yield Part(
        what="detection and diagnosis",
        devices="12,288",
        measured="< 10 min",
        predicted_s=operations.detect_s + operations.diagnose_s,
        source="MegaScale, arXiv:2402.15627, section 6.3",
        remark="of more than 90 % of its failures",
    )
    made = progress("MegaScale")
    yield Part(
        what="catching up with the last step",
        devices="12,288",
        measured="< 15 min",
        predicted_s=first(made.restore_s + made.checkpoint_interval_s / 2),
        source="MegaScale, arXiv:2402.15627, section 6.3",
        remark="restore, and half an interval done again",
    )
    made = progress(BYTECHECKPOINT.name)
    yield Part(
        what="load of a checkpoint",
        devices="8,960",
        measured="129 s",
        predicted_s=first(made.restore_s) - init_s(8960) - operations.warmup_s,
        source="ByteCheckpoint, arXiv:2407.20143, 405 billion parameters",
        remark="from HDFS; the plan reads once from a flash file system and passes on inside the cluster",
    )
    yield Part(
        what="whole recovery",
        devices="not published",
        measured="median 3.7 min, mean 38.9 min",
        predicted_s=first(made.down_s + made.restore_s),
        source="Lambda on its OLMo Hybrid run",
        remark="predicted for 8,960 devices; a few long recoveries make the mean, which the plan does not have",
    )


def often(row: Row) -> str:
    """The figure with as many failures as small jobs have, where that is known to matter."""
    if row.case.devices >= SMALL_JOB_DEVICES or row.text not in {number, hours}:
        return ""
    factor = SMALL_JOB_FACTOR if row.text is number else 1 / SMALL_JOB_FACTOR
    return row.text(row.predicted * factor)


def document() -> str:
    """The text of docs/reliability.md."""
    found = list(rows())
    lines = [
        "# Reliability: predicted and published",
        "",
        "What a plan would have said of published runs, beside what was published; written by",
        "`python benchmarks/reliability.py --write`. All rows have the same defaults (`profiles/defaults.toml`) and",
        "the failure rates of their profiles; nothing is tuned to a row. What each source publishes and what had to",
        "be assumed stands below the table.",
        "",
        "| run | what | published | predicted | remark |",
        "|---|---|---:|---:|---|",
    ]
    for row in found:
        more = often(row)
        remark = row.remark + (f"; {SMALL_JOB_FACTOR:.1f} times as often it is {more}" if more else "")
        cells = (row.case.name, row.what, row.measured, row.text(row.predicted), remark.removeprefix("; "))
        lines.append(f"| {' | '.join(cells)} |")
    lines += [
        "",
        "## What it shows",
        "Rates of large jobs are right for large jobs. Small ones fail more often than they say:",
        f"{SMALL_JOB_FACTOR:.1f} times at 1,024 devices (28.8 h by the rate of the fleet, 7.9 h measured). Plans of",
        f"fewer than {SMALL_JOB_DEVICES:,} devices say so where it matters to their goodput. Goodput above 90 %",
        "follows from minutes of restart and a stall of a second; the plan is more hopeful than runs whose restarts",
        "took longer, as PaLM's did, and less so than Gemini 1.0, whose restarts must have been shorter than the",
        "defaults on as many devices as are assumed for it. A figure whose profile was made from the same run checks",
        "arithmetic only, and its remark says so.",
        "",
        "## Parts of a restart",
        "| part | devices | published | predicted | source | remark |",
        "|---|---:|---:|---:|---|---|",
        *(
            f"| {' | '.join((p.what, p.devices, p.measured, lasting(p.predicted_s), p.source, p.remark))} |"
            for p in parts()
        ),
        "",
        "Communicators start in a time that grows with the devices, on one line from 2,048 to 10,000. Nobody published",
        "more: at 131,072 devices the line gives 5.3 min and at 1,048,576 devices 42 min, which nobody has",
        "measured. For plans of that size, give `operations.communicator_s_per_device` what the software reaches.",
        "",
        "## What interrupts a run",
        "Profiles of accelerators and systems split their failures by cause (`failure_fraction`), all after table 5",
        "of the Llama 3 paper, the one table of counts of a large job: memory grows with its size.",
        "`run.interruptions_by_cause` tells the interruptions of a plan by cause; they add up to all.",
        "`--set operations.cause_factor.memory=0.5` halves one cause. Failures of the network (switches and cables)",
        "are told apart as `link` and `switch` where the fabric says how often each fails (`failures_per_link_month`,",
        "`failures_per_switch_month`): a switch of the first level, or a cable below it; above, traffic goes round.",
        "Their sum stays that of the system; on Llama 3's network 33 of the 35 are links'. On networks of several",
        "planes, where a job outlives either, dragonflies and tori they stay one cause. Other counts, not used, as",
        "their classes differ:",
        "",
        "| cause | Llama 3, H100 | others |",
        "|---|---:|---|",
        *(f"| {what} | {count} of 419 | {others} |" for what, count, others in CAUSES),
        "",
        "## Closed forms and simulated runs",
        "`--simulate` draws runs of a plan failure by failure. `python benchmarks/simulation.py` compares them with",
        "the closed forms from 1,024 to 1,048,576 devices: for independent failures at random they differ by at most",
        "0.02 points, at a standard error of at most 0.01. Bursts (Weibull, shape 0.5 to 1.5) move goodput by -0.02 to",
        "+0.16 points on 16,384 devices with a restart of two minutes; spares for all but 1 % of the time cost 0.4",
        "points of waiting, which the closed form leaves out and the simulation shows.",
        "",
        "## Kinds of failure and ways of recovery",
        "Each is a figure of `operations` and can be changed with `--set`; `profiles/defaults.toml` has its source.",
        "",
        "| figures | what they are |",
        "|---|---|",
        *(f"| {', '.join(f'`{name}`' for name in names)} | {what} |" for names, what in FIGURES),
        "",
        "## Inputs",
        "| run | published | assumed | source |",
        "|---|---|---|---|",
    ]
    for case in {row.case.name: row.case for row in found}.values():
        lines.append(f"| {case.name} | {'; '.join(case.published)} | {'; '.join(case.assumed)} | {case.source} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    if "--write" in sys.argv[1:]:
        DOCUMENT.write_text(document(), encoding="utf-8")
        return
    for row in rows():
        predicted_text = row.text(row.predicted)
        print(f"{row.case.name:22}{row.what:36}{row.measured:>12}{predicted_text:>12}  {often(row):>10}  {row.remark}")


if __name__ == "__main__":
    main()
