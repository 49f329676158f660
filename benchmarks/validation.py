"""Write docs/validation.md and docs/validation.svg: how right predictions are on the runs that come with the package.

``python benchmarks/validation.py`` does it; a test holds both files against what this would write.
"""

from __future__ import annotations

import csv
import dataclasses
import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from clusterplan import search, shapes
from clusterplan.accuracy import Accuracy, groups, summary, time_errors
from clusterplan.catalog import Catalog, measured_files
from clusterplan.hardware import Accelerator, Stack
from clusterplan.measured import read_measured
from clusterplan.ranking import ranking, regret, regret_with_ties, series_of
from clusterplan.report import render, validation_document
from clusterplan.report.plan import recompute_name
from clusterplan.report.plot import scatter_svg
from clusterplan.scenario import Scenario, resolve
from clusterplan.trace import Figure
from clusterplan.validate import Judge, Judged, errors, source_name

DOCS = Path(__file__).parents[1] / "docs"
TEXT, PLOT = DOCS / "validation.md", DOCS / "validation.svg"

HELD_OUT = Path(__file__).parent / "held_out.csv"
"""Errors of rows under constants that were fitted without their source; benchmarks/calibration.py makes it."""

WEAK = 0.15
"""Groups with a larger median error are listed as weak."""
FEWEST = 3
"""Rows that a group needs to be listed."""


def judged(catalog: Catalog) -> list[Judged]:
    """All rows that come with the package, beside their predictions."""
    return Judge(catalog).rows([row for file in measured_files() for row in read_measured(file)])


def fitted(catalog: Catalog) -> dict[str, dict[str, list[str]]]:
    """Fitted constants by what their files say they were fitted on, then by profile."""
    found: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for kind in (Stack, Accelerator):
        for name in catalog.names(kind):
            for figure in _figures(catalog.load(kind, name)):
                if figure.origin.kind == "fitted":
                    key = figure.origin.key
                    if key not in (keys := found[figure.origin.source.split("; ")[0]][name]):
                        keys.append(key)
    return found


def _figures(value: Any) -> Iterator[Figure]:
    if isinstance(value, Figure):
        yield value
    elif dataclasses.is_dataclass(value):
        for entry in dataclasses.fields(value):
            yield from _figures(getattr(value, entry.name))
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _figures(inner)


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def weak_groups(by: Mapping[str, Mapping[str, Accuracy]]) -> list[tuple[str, str, str, str]]:
    """Groups whose times are off by more than :data:`WEAK` on the median, worst first."""
    found = [
        (one.time.median, kind, group, one.time)
        for kind in ("source", "accelerator", "stack", "family")
        for group, one in by[kind].items()
        if one.time and one.time.rows >= FEWEST and one.time.median > WEAK
    ]
    ordered = sorted(found, key=lambda one: -one[0])
    return [(g, k, f"{t.rows}", f"{t.median * 100:.0f} % ({t.bias * 100:+.0f} %)") for _, k, g, t in ordered]


def of_sources(rows: Sequence[Judged], family: str) -> str:
    """Median over sources of their median errors of time."""
    by = groups([row for row in rows if row.family == family], lambda row: source_name(row.source))
    medians = [found.median for members in by.values() if (found := time_errors(members))]
    return f"{statistics.median(medians) * 100:.1f} % over {len(medians)} sources"


def held_out() -> list[tuple[str, ...]]:
    """Errors of held-out rows: of all, by family, and by software with ten rows or more."""
    with HELD_OUT.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    parts: dict[str, list[dict[str, str]]] = {"all": rows}
    for key in ("family", "stack"):
        for row in rows:
            parts.setdefault(row[key], []).append(row)
    named = [(name, part) for name, part in parts.items() if len(part) >= FEWEST]
    order = {"all": 0, "dense": 1, "moe": 2}
    lines = []
    for name, part in sorted(named, key=lambda p: (order.get(p[0], 3), p[0])):
        figures = []
        for column in ("error_after", "error_before"):
            found = errors(float(row[column]) for row in part)
            assert found is not None, "every part has rows"
            figures += [f"{100 * found.median:.1f}", f"{100 * found.p90:.1f}", f"{100 * found.bias:+.1f}"]
        lines.append((name, str(len(part)), *figures))
    return lines


@dataclasses.dataclass(frozen=True, kw_only=True)
class Run:
    """A published layout to put beside the winner of the search."""

    name: str
    measured: str
    """What its source says of its speed."""
    scenario: dict[str, Any]


RUNS = (
    Run(
        name="Llama 3 405B on 16,384 H100",
        measured="MFU 41 % (arXiv:2407.21783, table 4)",
        scenario={
            "model": "llama-3.1-405b", "hardware": ("dgx-h100",), "devices": (16384, 16640), "seq_len": 8192,
            "global_batch": 2048, "beside": "tp8-pp16-vpp8-dp128-mb1", "stack": "meta-llama3",
        },
    ),
    Run(
        name="GPT-3 175B on 1,024 A100",
        measured="140 TFLOP/s a device, recompute counted, 31.5 s (arXiv:2104.04473, section 5.1)",
        scenario={
            "model": "gpt3-175b", "hardware": ("dgx-a100",), "devices": (1024, 1088), "seq_len": 2048,
            "global_batch": 1536, "beside": "tp8-pp16-dp8-mb1,recompute=full,sharding=none",
            "stack": "megatron-lm-2021",
        },
    ),
    Run(
        name="DeepSeek-V3 on 2,048 H800",
        measured="19.9 s (arXiv:2412.19437, table 1)",
        scenario={
            "model": "deepseek-v3", "hardware": ("hgx-h800",), "devices": (2048, 2176), "seq_len": 4096,
            "global_batch": 15360, "precision": "fp8", "allow": ("dualpipe", "borderline"), "stack": "hai-llm",
            "beside": "pp16-ep64-dp128-mb1,schedule=dualpipe,recompute=selective",
        },
    ),
    Run(
        name="Megatron 1T on 512 A100",
        measured="71.5 s (arXiv:2205.05198, table 5)",
        scenario={
            "model": "gpt-1t", "hardware": ("dgx-a100",), "devices": (512, 576), "seq_len": 2048, "global_batch": 512,
            "beside": "tp8-pp64-dp1-mb1,recompute=selective,sharding=none", "stack": "megatron-lm-2022",
        },
    ),
)  # fmt: skip
"""Published runs with their batch, devices and software; the table of measured runs has more of each."""


PEERS = (
    ("vTrain, several nodes", "vTrain, published as 14.73 % (arXiv:2312.12391)", "VIA-Research/vTrain"),
    (
        "Megatron 22B to 1T",
        "Calculon, published as 3.7 % (SC 2023, doi:10.1145/3581784.3607102)",
        "Korthikanti et al. 2022",
    ),
)
"""Rows, the tool and what its authors say, and the source in the tables of measured runs."""


def peers(rows: Sequence[Judged]) -> Iterator[tuple[str, ...]]:
    """Mean errors on rows that other tools were tried on."""
    with HELD_OUT.open(encoding="utf-8", newline="") as file:
        held = {row["id"]: abs(float(row["error_after"])) for row in csv.DictReader(file)}
    for name, tool, source in PEERS:
        part = [row for row in rows if source_name(row.source) == source and row.error_fraction is not None]
        ours = statistics.mean(abs(row.error_fraction or 0.0) for row in part)
        unseen = statistics.mean(held[row.id] for row in part)
        peer, _, published = tool.partition(", published as ")
        yield f"{name} ({len(part)})", peer, published, f"{100 * ours:.1f} %", f"{100 * unseen:.1f} %"


def regrets(rows: Sequence[Judged]) -> list[tuple[str, ...]]:
    """Regret by source in per cent, worst mean first; sources without a series are left out."""
    found = [(name, ranking(part)) for name, part in groups(rows, lambda r: source_name(r.source)).items()]
    ranked = sorted(((name, one) for name, one in found if one), key=lambda pair: -pair[1].mean_regret)
    return [
        (
            name,
            str(one.series),
            *(
                f"{100 * value:.1f}"
                for value in (one.median_regret, one.mean_regret, one.mean_regret_with_ties, one.worst_regret)
            ),
        )
        for name, one in ranked
    ]


def tie_widths(rows: Sequence[Judged]) -> list[tuple[str, ...]]:
    """Mean regret by the error within which layouts tie."""
    series = list(series_of(row for row in rows if row.stack != "nanotron").values())
    means = {"no ties": statistics.mean(map(regret, series))}
    for error in (0.01, 0.02, 0.03, 0.05):
        means[f"{100 * error:.0f} %"] = statistics.mean(regret_with_ties(runs, error) for runs in series)
    return [(name, f"{100 * mean:.2f}") for name, mean in means.items()]


def winners(catalog: Catalog) -> Iterator[tuple[str, ...]]:
    """What the search finds on the devices of published runs, and how it ranks their layouts."""
    for run in RUNS:
        scenario = Scenario(tokens=10**12, objective="wall", batch_fixed=True, **run.scenario)
        document = search.size(resolve(scenario, catalog, lambda m: shapes.parameters(m).active)).document()
        plan, beside = document["plan"], document["beside"]
        layout = plan["layout"]
        methods = f"{layout['schedule']}, recompute {recompute_name(layout)}"
        rank = f"{beside['rank']} of {beside['of']}" if beside["rank"] <= beside["of"] else "after all"
        broken = f"; breaks {', '.join(beside['breaks'])}" if beside["breaks"] else ""
        yield (
            run.name,
            f"`{run.scenario['beside']}`",
            run.measured,
            f"{beside['step_s']:.1f} s, MFU {100 * beside['mfu']:.1f} %",
            f"{rank}, {100 * beside['loss_fraction']:+.1f} %{broken}",
            f"`{layout['name']}`, {methods}: {plan['step']['total_s']:.1f} s, MFU {100 * plan['step']['mfu']:.1f} %",
        )


def promises(whole: Accuracy) -> str:
    """What is promised, beside what is reached."""
    inside = (whole.time.inside_interval or 0) * 100 if whole.time else 0
    ends = whole.verdicts
    kept = "as promised" if inside >= 90 else "the intervals are too narrow"
    return (
        f"Nine of ten rows should lie inside the stated interval; {inside:.0f} % do: {kept}.\n"
        f"Of runs that ran, at most 5 % should be said not to fit; {ends.false_alarms} of {ends.ran} are.\n"
        f"Of runs that ended for want of memory, 95 % should be called; {ends.called} of {ends.out_of_memory} are."
    )


def text(rows: Sequence[Judged], catalog: Catalog) -> str:
    """The document."""
    whole = summary(rows)
    ranked = whole.overall.ranking
    assert ranked is not None, "the rows have series"
    constants = [
        (source, ", ".join(f"{name} ({len(keys)})" for name, keys in by.items()))
        for source, by in sorted(fitted(catalog).items())
    ]
    tables = render(validation_document(rows), "md")
    return f"""# How right the predictions are

Made by `python benchmarks/validation.py` from what `clusterplan validate` finds on the {len(rows)} published runs in
`profiles/measured/`. `clusterplan validate RUNS.csv` does the same for runs of yours;
[measured-runs.md](measured-runs.md) has the columns.

## How to read it
**The tables by group are not errors on unseen runs.** Most constants of the step time come from a fit to about 970
published runs made elsewhere, and most of these rows are among them; the level of whole runs (two numbers for all
software, and one for each software with six rows or more) was fitted to these rows by `benchmarks/calibration.py
--level`. What that level is worth on sources that it has not seen is in the next section.

- An error is the predicted over the measured value, less 1; *bias* is its median with the sign: negative where runs
  were slower, or took more memory, than predicted. *median*, *90th* and *worst* are of its size.
- *inside* is the share of rows whose measured time lies in the interval that a prediction states.
- Peak memory is compared with what the source measured: allocated, reserved or device memory (`memory_definition`);
  where a source does not say, with what the software usually reports. *OOM called* are runs that ended for want of
  memory and of which the verdict was "does not fit" or "borderline"; *false alarms* are runs that ran, of which it was
  "does not fit". Constants of memory come from documentation and from assumptions, not from the fit; those of PaddleNLP
  from differences between the rows of FlagPerf that are here too.
- Layouts of one source with the same model, devices, batch, format and software form a series. A pair is *right* if
  the prediction has it in the order in which it was measured; pairs that are closer than 3 % do not count, and equal
  predictions are not right. *Regret* is what following the prediction would have cost.
- What a row leaves blank is taken from the defaults of its software; such rows are apart in the last tables.

The runs were chosen by rule, not by their errors: quality A or B, shape, split and batch complete, not superseded by a
later measurement of the same configuration, not faulty. Of sources with many rows every n-th was taken, in an order by
hardware, format and model; of vTrain all.

## On sources that the level has not seen
Sources were held out in five groups, and every row predicted with the level that the rows of the other sources give:
`kernel_share`, what software keeps in whole runs of the rate of products, and a common factor of `vector_traffic`.
Errors of step time in per cent, beside those with the constants as shipped:

{table(("of", "rows", "median", "90th", "bias", "median shipped", "90th shipped", "bias shipped"), held_out())}

Before there was a level the same rows were predicted 9.0 % off on the median, 33.3 % at the 90th percentile, and 8.0 %
too fast. Software with one source alone is predicted with the common level where that source is held out. A fit of all
constants at once came closer to the rows that it saw and was no better on the others; it is not used.

The half width of the interval of a prediction is the 90th percentile of how far measured times lie from predicted
ones when their source is held out, by software and by kind of model (dense, or mixture of experts), where there are
ten rows. It is at most 90 %, which is too little for nanotron and DeepSpeed ZeRO. With fewer rows it is that of all
software.

## On all rows
![Predicted against measured step times](validation.svg)

{tables}
## What the constants rest on
Fitted constants, by what their profiles say they were fitted on; in brackets how many there are in a profile:

{table(("fitted on", "profiles"), constants)}

`clusterplan profiles show NAME` lists each with its value and its source in full.

## Winners of the search beside published layouts
What the search would do on the devices, batch and software of four published runs, with the least time as its objective
(`size … --layout …`), and where it puts their layout. *Loss* is how much more time the published layout is predicted to
take than the winner; nobody has run these winners, so the loss is a prediction and no measurement.

{table(("run", "published layout", "measured", "predicted", "rank and loss", "winner"), list(winners(catalog)))}

Where layouts of one series were all measured, the choice can be judged, in per cent of regret. *Ties settled* is where
those within the error of two compared layouts (2 % for most software) are settled by free memory, recompute and cuts,
as the search does. All {ranked.series} series: mean {100 * ranked.mean_regret:.1f}, with ties settled
{100 * ranked.mean_regret_with_ties:.1f}. nanotron aside:

{table(("error within which layouts tie", "mean regret"), tie_widths(rows))}

By source:

{table(("source", "series", "median", "mean", "ties settled", "worst"), regrets(rows))}

## Beside other planners
On the rows where somebody published the error of another tool. Mean of the sizes of errors in per cent; *held out* is
with the level of other sources, as above.

{table(("rows", "tool", "mean error", "clusterplan", "clusterplan, held out"), peers(rows))}

vTrain profiles each kernel on the device that it predicts, and its figure is over all its runs on several nodes (up to
512 A100), of which those with 512 are published; Calculon's is over eight runs by which it was tuned.

## Weak spots
{promises(whole.overall)}
The median of the sources' median errors of time is {of_sources(rows, "dense")} for dense models, and
{of_sources(rows, "moe")} for mixtures of experts.

Groups of {FEWEST} rows or more whose times are off by more than {WEAK * 100:.0f} % on the median:

{table(("group", "by", "rows", "median (bias)"), weak_groups(whole.by))}

Known reasons:

- GPipe and schedules that nobody names are priced as 1F1B; ZB-V and DualPipe have no published rows to check them.
- Multi-head latent attention, windows and token prediction cannot be stated in a table of runs. Rows with the figures
  of a model in the catalog (DeepSeek-V3, Kimi K2, gpt-oss) take them from there; others (Gemma 4) are priced without.
- Layers with experts wait for their host, 3 ms a layer and micro-batch, or not at all where software compiles a whole
  step or launches it as one CUDA graph. Rows do not say which of their launches are in graphs; releases and devices
  stand in for it, so that some rows of one release are 15 % too slow and others 15 % too fast.
- gpt-oss in 16 bits takes a quarter longer than predicted on all devices, in 8 bits with later software not: its
  attention, with sinks, had no fused kernel yet (not verified).
- MXFP8 is priced as FP8 and NVFP4 as FP4: no measurement of products tells them apart.
- Recomputation, CUDA graphs and dispatchers of mixture-of-experts models come from recipes that most tables do not
  print. Blank recomputation is taken as the least with which the run fits, none if none does.
- nanotron across nodes: published times of neighbouring layouts differ by up to a hundred times. No model of ours
  explains that, and the rows stay in the tables.
- Software of one year is one profile; a release can be faster than the one before by a few per cent, and twice as fast
  for mixtures of experts.
"""


def main() -> None:
    """Write both files."""
    catalog = Catalog()
    rows = judged(catalog)
    TEXT.write_text(text(rows, catalog), encoding="utf-8")
    PLOT.write_text(scatter_svg(validation_document(rows)["rows"]), encoding="utf-8")


if __name__ == "__main__":
    main()
