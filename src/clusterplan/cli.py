"""The command line: read what was asked, call the library once, print.

Only typer is imported before a command is known, so that help comes at once. Results go to standard output, all else
to standard error. Exit codes: 0 an answer; 1 something that the user can mend; 2 a wrong command line; 3 nothing is
feasible, or an estimate that does not fit; 70 a bug; 130 interrupted.
"""

from __future__ import annotations

import functools
import inspect
import json
import math
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clusterplan import __version__
from clusterplan.errors import ClusterplanError

if TYPE_CHECKING:
    from clusterplan.catalog import Catalog
    from clusterplan.plan import Answer
    from clusterplan.report import Page
    from clusterplan.scenario import Resolved, Scenario
    from clusterplan.validate import Judged

INFEASIBLE = 3
BUG = 70
INTERRUPTED = 130
BROKEN_PIPE = 141
"""What a shell reports of a program whose reader went away."""


HELP_COLUMNS = 78
"""Longest line of an example: what a terminal of 80 columns has beside the margin of help."""


def _folded(example: str) -> str:
    """A command that is wider than help, gone on with before an option or a redirection, as a shell reads it."""
    lines = [""]
    for part in re.split(r" (?=--|>)", example):
        if lines[-1] and len(f"{lines[-1]} {part} \\") > HELP_COLUMNS:
            lines.append(f"    {part}")
        else:
            lines[-1] = f"{lines[-1]} {part}" if lines[-1] else part
    return " \\\n".join(lines)


def _help(text: str, *examples: str) -> str:
    """Help with its examples first, which click does not wrap."""
    return "\n\n".join([text, "\b\n" + "\n".join(map(_folded, examples))]) if examples else text


app = typer.Typer(
    name="clusterplan",
    help=_help(
        "Plan the cluster, power and cost of training a very large model.",
        "clusterplan size gpt-1t --hardware dgx-h100 --tokens 20T --deadline 120d",
        "clusterplan size kimi-k2 --hardware gb200-nvl72,dgx-h200 --tokens 15.5T --budget 80M --json",
        "clusterplan compare llama-3.1-405b --hardware dgx-h100,dgx-b200 --tokens 15.6T --deadline 120d",
        "clusterplan models show config.json",
    ),
    no_args_is_help=True,
    rich_markup_mode=None,  # plain help: rich costs as much time as everything else in it
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
profiles = typer.Typer(
    help="Profiles: what is known about hardware, software, places and prices.", no_args_is_help=True
)
models = typer.Typer(help="Models: their shapes, parameters and work.", no_args_is_help=True)
app.add_typer(profiles, name="profiles")
app.add_typer(models, name="models")


# --- Options ----------------------------------------------------------------------------------------------------


def _option(kind: Any, *names: str, help: str, **more: Any) -> Any:  # noqa: A002
    return Annotated[kind, typer.Option(*names, help=help, show_default=False, **more)]


def _text(name: str, metavar: str, help: str) -> Any:  # noqa: A002
    return _option(str | None, name, metavar=metavar, help=help)


def _texts(name: str, metavar: str, help: str) -> Any:  # noqa: A002
    return _option(list[str] | None, name, metavar=metavar, help=help)


OPTIONS: dict[str, Any] = {
    "model": Annotated[
        str | None,
        typer.Argument(metavar="MODEL", help="A profile's name, the path of a config.json, or - for one on stdin."),
    ],
    "hardware": _texts("--hardware", "S[,S]", "Systems, as dgx-h100,gb200-nvl72."),
    "tokens": _text("--tokens", "N", "Tokens to train on: 15T, 15_000B. [default: 20 per active parameter]"),
    "deadline": _text("--deadline", "TIME", "When it must be done: 90d, 12 weeks."),
    "devices": _text(
        "--devices",
        "N|A:B",
        "All devices of the cluster, spares included, or fewest and most; of estimate those at work.",
    ),
    "budget": _text("--budget", "USD", "Most that it may cost: 80M."),
    "power": _text("--power", "POWER", "Most that the site may draw: 50MW."),
    "water": _text("--water", "VOLUME", "Most water that the run may take on site: 50000m3, 50ML."),
    "carbon": _text("--carbon", "MASS", "Most greenhouse gas of the run, electricity and making: 20kt."),
    "objective": _text("--objective", "NAME", "What is to be least: wall, cost, energy, carbon, water, devices."),
    "confidence": _text("--confidence", "P", "Probability with which the deadline is to be met: 0.9, 90%."),
    "site": _text("--site", "NAME", "Profile of the place."),
    "cooling": _text("--cooling", "NAME", "Profile of the cooling design."),
    "prices": _text("--prices", "NAME", "Profile of the price list."),
    "stack": _text("--stack", "NAME", "Profile of the training software."),
    "fabric": _text("--fabric", "NAME", "Profile of the network between systems."),
    "storage": _text("--storage", "NAME", "Profile of the storage."),
    "precision": _text(
        "--precision", "FORMAT", "Format of matrix products: bf16, fp16, fp8 (mxfp8), fp4 (nvfp4), int8."
    ),
    "seq_len": _text("--seq-len", "N", "Tokens of a sequence."),
    "global_batch": _text("--global-batch", "N|A:B", "Sequences of a step, exactly, or fewest and most."),
    "batch_ramp": _text("--batch-ramp", "N:TOKENS", "Sequences of the first step, and tokens until all: 256:100B."),
    "long_context": _text(
        "--long-context", "SEQ:TOKENS", "Tokens of a sequence at the end of the run, and of that end: 131072:800B."
    ),
    "eval_fraction": _text("--eval-fraction", "P", "Share of the time at work that evaluations take: 2%."),
    "layout": _text(
        "--layout",
        "NAME",
        "A layout of yours, as tp8-pp16-dp64-mb1,recompute=full: size says how it ranks, estimate and levers take it.",
    ),
    "allow": _texts("--allow", "NAME", "Techniques beyond the software's defaults, as fp8 or borderline (memory)."),
    "clock": _text("--clock", "SHARE", "Clock of the devices over that without a cap, as 0.9; auto finds the best."),
    "cap": _text("--cap", "POWER", "Most that a device may draw, as 560W; its clock follows."),
    "currency": _text("--currency", "CODE", "Currency of amounts, as EUR; with --usd-rate. [default: USD]"),
    "usd_rate": _text("--usd-rate", "RATE", "What one USD costs in that currency, as 0.92."),
    "rate_date": _text("--rate-date", "DAY", "Day of that rate, as 2026-11-30. [default: today]"),
    "sets": _texts("--set", "KEY=VALUE", "Change a figure of a profile: site.usd_per_kwh=0.05."),
    "scenario": _option(
        Path | None, "--scenario", metavar="FILE", help="TOML file with any of this; options override."
    ),
    "save": _option(
        Path | None, "--save", metavar="FILE", help="Write the question, defaults filled in, as such a file."
    ),
    "profiles": _option(list[Path] | None, "--profiles", metavar="DIR", help="Directory with profiles of your own."),
    "tp": _text("--tp", "N", "Tensor-parallel group."),
    "pp": _text("--pp", "N", "Pipeline stages."),
    "vpp": _text("--vpp", "N", "Chunks of layers on each stage (virtual stages)."),
    "cp": _text("--cp", "N", "Context-parallel group."),
    "ep": _text("--ep", "N", "Expert-parallel group."),
    "etp": _text("--etp", "N", "Tensor-parallel group of the experts."),
    "dp": _text("--dp", "N", "Data-parallel replicas. [default: what the devices allow]"),
    "micro_batch": _text("--micro-batch", "N", "Sequences of a micro-batch."),
    "recompute": _text(
        "--recompute",
        "MODE",
        "none, selective, block:LAYERS of a stage, full, or full:LAYERS to a kept input. "
        "[default: the least that fits]",
    ),
    "sharding": _text("--sharding", "NAME", "none, zero1, zero2, zero3, fsdp or hsdp."),
    "schedule": _text(
        "--schedule", "NAME", "none, 1f1b, interleaved, zb-1p, zb-2p, zb-v or dualpipe. [default: by pp and vpp]"
    ),
    "offload": _text("--offload", "WHAT", "Kept in host memory: none, optimizer, activations or both. [default: none]"),
    "placement": _text(
        "--placement", "ORDER", "Groups from inside out: tp-cp-ep-dp-pp or tp-cp-ep-pp-dp. [default: the software's]"
    ),
    "shard_group": _text("--shard-group", "N", "Replicas that share states, with hsdp. [default: those of a domain]"),
    "simulate": _option(bool, "--simulate", help="Simulate runs of the plan, failure by failure."),
    "runs": _text("--runs", "N", "Runs to simulate. [default: 2000, fewer where very many failures are drawn]"),
    "seed": _text("--seed", "N", "Start of the random numbers. [default: 1]"),
    "failure_shape": _text(
        "--failure-shape", "K", "Weibull shape of the times between failures; below 1 come bursts. [default: 1]"
    ),
    "sites": _texts("--sites", "NAME[,NAME]", "Profiles of the places that there are. [default: that of --site]"),
    "counts": _texts("--counts", "S=N[,S=N]", "Devices that there are of a system; of others as many as are wanted."),
    "site_power": _texts("--site-power", "NAME=POWER[,…]", "Most that a place may draw: us-texas=30MW."),
    "wan": _text("--wan", "RATE[,TIME]", "Line of each place to the others, and its latency: 1.6Tbit/s,20ms."),
    "sync_every": _text("--sync-every", "N", "Steps that a place takes between exchanges with others. [default: 1]"),
    "replan": _option(bool, "--replan", help="Search layout and size again for each change."),
    "only": _texts("--only", "KIND", "Only these changes, as clock,electricity,cooling."),
    "over": _texts(
        "--over", "KEY=A:B", "What to vary: devices=1024:16384, deadline=60d,90d, site.usd_per_kwh=0.03:0.2."
    ),
    "points": _text("--points", "N", "Values of a range. [default: 8]"),
    "all_stages": _option(bool, "--all-stages", help="List the memory of every pipeline stage."),
    "rows": _option(bool, "--rows", help="List every row."),
    "plot": _option(Path | None, "--plot", metavar="FILE.svg", help="Draw predicted against measured times."),
    "into": _option(Path | None, "--into", metavar="DIR", help="Write profiles with the fitted constants there."),
    "suffix": _text("--suffix", "TEXT", "What is added to the names of written profiles. [default: -calibrated]"),
    "format": _text(
        "--format", "FORM", "table, json, jsonl, csv or md. [default: by the output file's name, or table]"
    ),
    "as_json": _option(bool, "--json", help="The same as --format json."),
    "output": _option(Path | None, "-o", "--output", metavar="FILE", help="File to write to; - is standard output."),
    "force": _option(bool, "--force", help="Replace files that exist."),
    "sources": _option(bool, "--sources", help="List every figure with its source."),
    "no_color": _option(bool, "--no-color", help="No colours, as with NO_COLOR set."),
}
"""Options by the name that a command gets their value under."""

OUTPUT = ("format", "as_json", "output", "force", "no_color")
QUESTION = (
    "model", "hardware", "tokens", "deadline", "devices", "budget", "power", "water", "carbon", "objective",
    "confidence", "site", "cooling", "prices", "stack", "fabric", "storage", "precision", "seq_len", "global_batch",
    "batch_ramp", "long_context", "eval_fraction", "layout", "allow", "clock", "cap", "currency", "usd_rate",
    "rate_date", "sets", "scenario", "save", "profiles", *OUTPUT, "sources",
)  # fmt: skip
LAYOUT = (
    "tp", "pp", "vpp", "cp", "ep", "etp", "dp", "micro_batch", "recompute", "sharding", "schedule", "offload",
    "placement", "shard_group",
)  # fmt: skip
SIMULATION = ("simulate", "runs", "seed", "failure_shape")
MIX = ("sites", "counts", "site_power", "wan", "sync_every")
CHANGES = ("replan", "only", "over", "points")
NOT_ASKED = {"scenario", "save", "profiles", "all_stages", "sources", *OUTPUT, *SIMULATION, *MIX, *CHANGES}
"""Options that are no part of the question."""

Command = Callable[..., int]


def takes(*names: str) -> Callable[[Command], Callable[..., None]]:
    """Give a command these options, and tell the user what it cannot do.

    The command gets the options as keyword arguments, after arguments of its own, and returns an exit code.
    """

    def decorate(command: Command) -> Callable[..., None]:
        @functools.wraps(command)
        def told(*args: Any, **given: Any) -> None:
            try:
                code = command(*args, **given)
            except ClusterplanError as problem:
                as_json = given.get("as_json") or given.get("format") in {"json", "jsonl"}
                _complain(problem, as_json=bool(as_json))
                code = problem.exit_code
            except BrokenPipeError:
                _drop_output()
                code = BROKEN_PIPE
            except KeyboardInterrupt:
                code = INTERRUPTED
            raise typer.Exit(code)

        hints = inspect.get_annotations(command, eval_str=True)
        parameters = [p for p in inspect.signature(command).parameters.values() if p.kind is not p.VAR_KEYWORD]
        own = [p.replace(annotation=hints[p.name]) for p in parameters]
        shared = [
            inspect.Parameter(
                name,
                inspect.Parameter.POSITIONAL_OR_KEYWORD,
                annotation=OPTIONS[name],
                default=False if OPTIONS[name].__origin__ is bool else None,
            )
            for name in names
        ]
        told.__signature__ = inspect.Signature([*own, *shared])  # type: ignore[attr-defined]
        told.__annotations__ = {p.name: p.annotation for p in (*own, *shared)}
        return told

    return decorate


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"clusterplan {__version__}")
        raise typer.Exit


@app.callback()
def start(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.", show_default=False)
    ] = False,
) -> None:
    """What holds for all commands."""


# --- Commands ---------------------------------------------------------------------------------------------------


@app.command(
    help=_help(
        "Find cluster and parallel split together.",
        "clusterplan size gpt-1t --hardware dgx-h100 --tokens 20T --deadline 120d",
        "clusterplan size kimi-k2 --hardware gb200-nvl72,dgx-h200 --budget 80M --json",
        "clusterplan size config.json --hardware dgx-h100 --devices 1024:16384 --objective energy",
        "clusterplan size gpt-1t --hardware dgx-h100 --tokens 20T --deadline 120d --simulate",
    ),
    epilog="Exit codes: 0 a plan, 1 a mistake in the question, 2 in the command line, 3 nothing is feasible.",
)
@takes(*QUESTION, *SIMULATION)
def size(**given: Any) -> int:
    """Find cluster and parallel split together."""
    with _output(given) as write:
        resolved = _resolved(given)
        drawn = _drawn(given)
        from clusterplan import search

        with _progress() as progress:
            answer = search.size(resolved, progress, may_stop=True)
            document = answer.document() if answer.is_interrupted else _simulated(answer, drawn, progress)
        if answer.is_interrupted:
            return _cut_short(write, document, "this is the best so far")
        write(document, resolved.scenario)
    return 0 if answer.feasible else INFEASIBLE


@app.command(
    help=_help(
        "Show hardware side by side under the same constraints.",
        "clusterplan compare llama-3.1-405b --hardware dgx-a100,dgx-h100,dgx-b200 --tokens 15.6T --deadline 120d",
    ),
    epilog="Exit codes: 0 if any column has a plan, 3 if none; 1 and 2 as always.",
)
@takes(*[name for name in QUESTION if name != "layout"])
def compare(**given: Any) -> int:
    """Show hardware side by side under the same constraints."""
    with _output(given) as write:
        resolved = _resolved(given)
        from clusterplan import report, search

        with _progress() as progress:
            answers = search.compare(resolved, progress, may_stop=True)
        done = report.comparison([answer.document() for answer in answers])
        if missing := [machine.system.name for machine in resolved.hardware[len(answers) :]]:
            return _cut_short(write, done, f"not looked at: {', '.join(missing)}")
        if any(answer.is_interrupted for answer in answers):
            return _cut_short(write, done, f"{resolved.hardware[-1].system.name} was not looked at in full")
        write(done, resolved.scenario)
    return 0 if any(answer.feasible for answer in answers) else INFEASIBLE


@app.command(
    "mix",
    help=_help(
        "Divide a job among several kinds of machines and several places.",
        "clusterplan mix llama-3.1-70b --hardware dgx-h100,dgx-a100 --counts dgx-h100=1536 --tokens 15T --deadline 60d",
        "clusterplan mix llama-3.1-70b --hardware dgx-h100 --sites us-virginia,no-narvik --wan 1.6Tbit/s,20ms "
        "--site-power us-virginia=3MW,no-narvik=2MW --tokens 15T --deadline 60d",
    ),
    epilog="Exit codes: 0 a mix, 1 a mistake in the question, 2 in the command line, 3 nothing is feasible.",
)
@takes(*[name for name in QUESTION if name not in {"layout", "save"}], *MIX)
def mix_machines(**given: Any) -> int:
    """Divide a job among several kinds of machines and several places."""
    with _output(given) as write:
        resolved = _resolved(given)
        from clusterplan import mix

        def listed(name: str) -> list[str]:
            return [part for text in given[name] or () for part in text.split(",") if part.strip()]

        asked = mix.asked(
            resolved,
            _catalog(given),
            sites=listed("sites"),
            counts=listed("counts"),
            site_power=listed("site_power"),
            line=given["wan"],
            sync_every=given["sync_every"],
        )
        with _progress() as progress:
            answer = mix.mix(resolved, asked, progress)
        write(answer.document())
    return 0 if answer.feasible else INFEASIBLE


@app.command(
    help=_help(
        "Compute one layout in depth.",
        "clusterplan estimate llama-3.1-405b --hardware dgx-h100 --devices 16384 --tp 8 --pp 16 --vpp 8 "
        "--micro-batch 1 --global-batch 2048 --seq-len 8192",
    ),
    epilog="Exit codes: 0 it fits, 1 it is no legal layout, 2 a wrong command line, 3 it does not fit.",
)
@takes(*QUESTION, *LAYOUT, *SIMULATION, "all_stages")
def estimate(**given: Any) -> int:
    """Compute one layout in depth."""
    with _output(given) as write:
        resolved = _resolved(given, takes_layout=True)
        drawn = _drawn(given)
        from clusterplan.estimate import estimate as estimated

        answer = estimated(resolved)
        with _progress() as progress:
            document = _simulated(answer, drawn, progress)
        write(document, resolved.scenario)
    return 0 if answer.feasible else INFEASIBLE


@app.command(
    help=_help(
        "Show what single changes would do to a plan: clock, prices, cooling, place, failures and more.",
        "clusterplan levers gpt-1t --hardware dgx-h100 --tokens 20T --deadline 120d",
        "clusterplan levers --scenario job.toml --only clock,electricity",
        "clusterplan levers gpt-1t --hardware dgx-h100 --devices 8192 --site us-virginia,no-narvik --only site",
    ),
    epilog="Each row is a run of its own with that one change, on the same layout, or with --replan on the best one. "
    "The first --site is the plan's, others are changes. Kinds: clock, electricity, price, cooling, site, failures, "
    "bandwidth, utilisation, tokens, pue, staff, basis (rent or own).",
)
@takes(*QUESTION, "only", "replan")
def levers(**given: Any) -> int:
    """Show what single changes would do to a plan."""
    with _output(given) as write:
        site, *others = [name.strip() for name in (given["site"] or "").split(",")]
        resolved = _resolved({**given, "site": site or None}, takes_layout=given["layout"] is not None)
        from clusterplan import report, search
        from clusterplan.estimate import estimate as estimated
        from clusterplan.levers import check_sites, effects

        catalog = _catalog(given)
        check_sites(others, catalog)
        only = [name.strip() for text in given["only"] or () for name in text.split(",")]
        with _progress() as progress:
            is_given = resolved.scenario.tp is not None or given["layout"] is not None
            answer = estimated(resolved) if is_given else search.size(resolved, progress)
            if answer.plan is None or not answer.feasible:
                write(answer.document(), resolved.scenario)
                return INFEASIBLE
            found = effects(
                resolved,
                answer.plan,
                catalog,
                sites=others,
                only=only,
                replan=given["replan"],
                progress=progress,
                may_stop=True,
            )
        done = report.levers_document(answer, found, replan=given["replan"])
        if found.is_interrupted:
            return _cut_short(write, done, "other changes were not tried")
        write(done, resolved.scenario)
    return 0


@app.command(
    help=_help(
        "Answer a question at many values of one or two of its parts.",
        "clusterplan sweep gpt-1t --hardware dgx-h100 --tokens 20T --over devices=4096:65536 --points 9",
        "clusterplan sweep gpt-1t --hardware dgx-h100 --deadline 120d --over site.usd_per_kwh=0.03:0.2 --format csv",
        "clusterplan sweep gpt-1t --hardware dgx-h100 --over deadline=90d,120d --over prices.it_life_years=4,6",
    ),
    epilog="Over devices alone it says how the speed scales, which sizes are fastest for their cost, and where "
    "more devices stop paying. Exit codes: 0 if any point has a plan, 3 if none; 1 and 2 as always.",
)
@takes(*[name for name in QUESTION if name != "layout"], "over", "points")
def sweep(**given: Any) -> int:
    """Answer a question at many values of one or two of its parts."""
    with _output(given) as write:
        if not given["over"]:
            raise typer.BadParameter("say what to vary, as devices=1024:16384", param_hint="--over")
        resolved = _resolved(given)
        from clusterplan import report, units
        from clusterplan import sweep as sweeps
        from clusterplan.plan import inputs_document
        from clusterplan.premises import objective_of

        points = sweeps.POINTS
        if given["points"] is not None:
            points = units.parse(given["points"], "count", where="--points")
        unit = max(machine.system.devices for machine in resolved.hardware)
        axes = [sweeps.read_axis(text, int(points), unit) for text in given["over"]]
        with _progress() as progress:
            found = sweeps.sweep(resolved, _catalog(given), axes, progress, may_stop=True)
        inputs = inputs_document(resolved, objective_of(found[0].answer.resolved))
        done = report.sweep_document(inputs, axes, found, sweeps.scaling(axes, found))
        every = math.prod(len(axis.values) for axis in axes)
        if len(found) < every:
            return _cut_short(write, done, f"{len(found)} of {every} points are done")
        write(done, resolved.scenario)
    return 0 if any(point.answer.feasible for point in found) else INFEASIBLE


@app.command(
    help=_help(
        "Show where a number of a plan comes from: formula, inputs, sources.",
        "clusterplan size gpt-1t --hardware dgx-h100 --tokens 20T --deadline 120d --save job.toml",
        "clusterplan explain job.toml cost.total_usd",
    )
)
@takes("profiles", *OUTPUT)
def explain(
    scenario: Annotated[Path, typer.Argument(metavar="SCENARIO", help="A scenario file, as --save writes it.")],
    field: Annotated[str, typer.Argument(metavar="FIELD", help="A number of the plan, as step.bubble_s.")],
    **given: Any,
) -> int:
    """Show where a number of a plan comes from: formula, inputs, sources."""
    with _output(given) as write:
        resolved = _resolved({"scenario": scenario, "profiles": given["profiles"]})
        from clusterplan import search
        from clusterplan.estimate import estimate as estimated
        from clusterplan.explain import explain as explained

        if resolved.scenario.tp is not None:
            answer = estimated(resolved)
        else:
            with _progress() as progress:
                answer = search.size(resolved, progress)
        write(explained(answer, field))
    return 0


@app.command(
    help=_help(
        "Compare predictions with measured runs: step time, memory, and the order of layouts.",
        "clusterplan validate",
        "clusterplan validate RUNS.csv --rows --plot runs.svg",
        "clusterplan validate RUNS.csv --format csv -o judged.csv",
    ),
    epilog="Without RUNS.csv the published runs that come with clusterplan are taken. A row is one run; what it leaves "
    "blank is taken from the software's defaults and listed as inferred; a row whose shape or batch is blank is "
    "skipped, and why is said.",
)
@takes("rows", "plot", "profiles", *OUTPUT)
def validate(
    runs: Annotated[list[Path] | None, typer.Argument(metavar="[RUNS.csv]...", help="Tables of measured runs.")] = None,
    **given: Any,
) -> int:
    """Compare predictions with measured runs: step time, memory, and the order of layouts."""
    plot = given["plot"]
    if plot is not None:
        _refuse_unwritable(plot, force=given["force"])
        if given["output"] is not None and os.path.realpath(plot) == os.path.realpath(given["output"]):
            raise ClusterplanError("--output and --plot name the same file", where=str(plot))
    with _output(given) as write:
        from clusterplan import measured, report
        from clusterplan.catalog import measured_files
        from clusterplan.files import printable, write_atomically

        catalog = _catalog(given)
        files = runs or measured_files()
        rows = [row for file in files for row in measured.read_measured(file)]
        from clusterplan.validate import Judge

        with _progress() as progress:
            judged = Judge(catalog).rows(rows, _counting(progress, len(rows)))
        _complain_of_rows(judged, printable(files[0]))
        document = report.validation_document(judged, [printable(file) if runs else file.name for file in files])
        if plot is not None:
            from clusterplan.report.plot import scatter_svg

            write_atomically(plot, scatter_svg(document["rows"]), force=given["force"])
        write(document)
    return 0


def _complain_of_rows(judged: Sequence[Judged], where: str) -> None:
    """Say why no row can be used, if none can."""
    from collections import Counter

    reasons = Counter(one.skipped for one in judged if one.skipped is not None)
    if len(judged) == sum(reasons.values()):
        told = "; ".join(f"{reason} ({count:,})" for reason, count in reasons.most_common())
        raise ClusterplanError(f"no row can be used: {told}", where=where)


@app.command(
    "calibrate",
    help=_help(
        "Fit constants of devices and software to measured runs.",
        "clusterplan calibrate RUNS.csv",
        "clusterplan calibrate RUNS.csv --into my-profiles --suffix -ours",
    ),
    epilog="A constant moves as far as the runs say, and stays where it is where they say nothing. Sources are held "
    "out in turn to show what the fit is worth on runs that it has not seen.",
)
@takes("into", "suffix", "profiles", *OUTPUT)
def calibrate(
    runs: Annotated[list[Path], typer.Argument(metavar="RUNS.csv...", help="Tables of measured runs.")], **given: Any
) -> int:
    """Fit constants of devices and software to measured runs."""
    with _output(given) as write:
        from clusterplan import calibrate as fits
        from clusterplan import measured, report

        catalog = _catalog(given)
        rows = fits.usable(catalog, [row for file in runs for row in measured.read_measured(file)])
        if not rows:
            raise ClusterplanError("no row has a measured time and all that a prediction needs", where=str(runs[0]))
        suffix = given["suffix"] or "-calibrated"
        with _progress() as progress:
            fitted = fits.fit(catalog, rows, progress)
            held_out = fits.cross_validated(catalog, rows, progress=progress)
        before, after = fits.fit_errors(catalog, fitted)
        written = []
        if given["into"] is not None:
            source = f"clusterplan calibrate {' '.join(file.name for file in runs)}, {len(rows)} rows"
            written = fits.write(fits.profiles(catalog, fitted, suffix, source), given["into"], force=given["force"])
        write(report.calibration_document(fitted, before, after, held_out, written))
    return 0


def _counting(progress: Callable[[float, str], None] | None, total: int) -> Callable[[int], None] | None:
    """Progress over things that are counted."""
    if progress is None:
        return None
    return lambda done: progress(done / total, f"{done:,} of {total:,} rows")


@profiles.command(
    "list",
    help=_help(
        "List profiles with their main figures.",
        "clusterplan profiles list accelerators --sort -memory_bytes",
        "clusterplan profiles list systems --match h100",
        "clusterplan profiles list sites --sort grid_kg_co2e_per_kwh --json",
    ),
)
@takes("profiles", *OUTPUT)
def list_profiles(
    folder: Annotated[str | None, typer.Argument(metavar="[FOLDER]", help="Only this folder, as systems.")] = None,
    match: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Only those with it in name, vendor or other texts.")
    ] = None,
    sort: Annotated[
        str | None, typer.Option(metavar="[-]FIGURE", help="Sort by a figure of --json, as tdp_w; -tdp_w turns it.")
    ] = None,
    **given: Any,
) -> int:
    """List profiles with their main figures."""
    with _output(given) as write:
        write(_listed(_catalog(given), folder, match or "", sort or ""))
    return 0


def _listed(catalog: Catalog, folder: str | None, match: str = "", sort: str = "") -> dict[str, Any]:
    """Profiles of a folder, or of all, with what is known of each."""
    from clusterplan import report
    from clusterplan.catalog import FOLDERS
    from clusterplan.site import Prices

    def record(of: type[Any], name: str) -> Any:
        try:
            return catalog.load(of, name)
        except ClusterplanError as problem:
            return problem

    folders = catalog.folders if folder is None else (folder,)
    found = ((one, name, record(FOLDERS[one], name)) for one in folders for name in catalog.names(one))
    lists = [record(Prices, name) for name in catalog.names(Prices)]
    prices = [one for one in lists if isinstance(one, Prices)]
    return report.profiles_document(found, prices, text=match, sort=sort)


@profiles.command(
    "show",
    help=_help(
        "Show every figure of a profile with its unit, kind and source; of a fabric also its parts at a size.",
        "clusterplan profiles show dgx-h100",
        "clusterplan profiles show roce-400g --devices 24576 --hardware dgx-h100",
        "clusterplan profiles show dgx-h100 --toml > profiles/systems/my-server.toml",
        "clusterplan profiles show h100-sxm-80gb --like > profiles/accelerators/my-device.toml",
    ),
)
@takes("prices", "profiles", *OUTPUT)
def show_profile(
    name: Annotated[str, typer.Argument(metavar="NAME", help="As dgx-h100, or systems/dgx-h100.")],
    devices: Annotated[
        str | None,
        typer.Option(metavar="N", help="Of a fabric: levels, switches, cables, power and price at so many devices."),
    ] = None,
    hardware: Annotated[
        str | None,
        typer.Option(metavar="SYSTEM", help="With --devices: what they sit in. [default: a port for each]"),
    ] = None,
    toml: Annotated[
        bool, typer.Option("--toml", help="Print its file, to be saved under another name.", show_default=False)
    ] = False,
    like: Annotated[
        bool,
        typer.Option("--like", help="Print ten lines of a device like it, to be filled in.", show_default=False),
    ] = False,
    **given: Any,
) -> int:
    """Show every figure of a profile with its unit, kind and source."""
    with _output(given) as write:
        from clusterplan import report
        from clusterplan.catalog import FOLDERS

        catalog = _catalog(given)
        folder, name = _named(catalog, name)
        record: Any = catalog.load(FOLDERS[folder], name)
        if toml or like:
            _print(_as_toml(catalog, folder, record, is_relative=like))
        elif devices is not None:
            write(_fabric_document(catalog, folder, record, devices, hardware, given["prices"]))
        elif hardware is not None or given["prices"] is not None:
            raise ClusterplanError("goes with --devices", where="--prices" if hardware is None else "--hardware")
        else:
            write(report.profile_document(folder, name, str(catalog.path(folder, name)), record))
    return 0


def _as_toml(catalog: Catalog, folder: str, record: Any, *, is_relative: bool) -> str:
    """Text to start a profile from."""
    from clusterplan.catalog import copied, relative_of

    if not is_relative:
        return copied(catalog.path(folder, record.name))
    if folder != "accelerators":
        raise ClusterplanError(f"is for accelerators; {record.name} is one of the {folder}", where="--like")
    return relative_of(record)


def _fabric_document(
    catalog: Catalog, folder: str, fabric: Any, devices: str, hardware: str | None, prices: str | None
) -> dict[str, Any]:
    """A fabric at a number of devices."""
    from clusterplan import report, units
    from clusterplan.hardware import System
    from clusterplan.site import Prices
    from clusterplan.wiring import device_bytes_per_s, wiring

    if folder != "fabrics":
        raise ClusterplanError(f"is for fabrics; {fabric.name} is one of the {folder}", where="--devices")
    count = units.parse(devices, "devices", where="--devices")
    most = fabric.tiers[-1].span_devices
    if count > most:
        raise ClusterplanError(f"{count:,} are more than the {most:,} that {fabric.name} joins", where="--devices")
    system = None if hardware is None else catalog.load(System, hardware)
    rate = device_bytes_per_s(fabric, system)
    listed = catalog.load(Prices, prices or catalog.defaults().prices)
    return report.fabric_document(fabric, wiring(fabric, rate, count), count, rate, system, listed)


@profiles.command(
    "check",
    help=_help(
        "Say everything that is wrong or unlikely in profiles, with file, line and what would be right.",
        "clusterplan profiles check my-profiles",
        "clusterplan profiles check --profiles my-profiles systems/my-server.toml",
    ),
    epilog="Beyond what makes a profile unreadable: peaks with sparsity, bandwidth of both ways, bits for bytes, GB "
    "for GiB, a nameplate that its devices exceed, names of no profile. Exit codes: 0 no problem, 1 any.",
)
@takes("profiles", "as_json")
def check_profiles(
    files: Annotated[
        list[Path] | None, typer.Argument(metavar="[FILE|FOLDER]...", help="Profiles. [default: those of --profiles]")
    ] = None,
    **given: Any,
) -> int:
    """Say everything that is wrong or unlikely in profiles."""
    from clusterplan.catalog import check_all
    from clusterplan.files import printable

    if not files and not given["profiles"]:
        raise typer.BadParameter("give a file, a folder, or --profiles", param_hint="FILE")
    found = {printable(file): problems for file, problems in check_all(files or (), given["profiles"] or ()).items()}
    good = [file for file, problems in found.items() if not problems]
    if given["as_json"]:
        rows = [{"file": file, "problems": problems} for file, problems in found.items()]
        _print(json.dumps({"files": rows}, indent=2, sort_keys=True) + "\n")
    else:
        short = f"{len(good)} profiles: no problem\n"
        _print("".join(f"{file}: no problem\n" for file in good) if len(good) <= FEW else short)
        for problems in found.values():
            for problem in problems:
                _say(problem)
    return int(any(found.values()))


FEW = 10
"""Profiles without a problem that are listed, not counted."""


@profiles.command(
    "schema",
    help=_help(
        "Print a JSON Schema of the profiles of a folder, for editors.",
        "clusterplan profiles schema accelerators > accelerators.schema.json",
    ),
)
@takes()
def schema_of_profiles(
    folder: Annotated[str, typer.Argument(metavar="FOLDER", help="As accelerators, systems, sites.")],
) -> int:
    """Print a JSON Schema of the profiles of a folder."""
    from clusterplan.catalog import NOUNS
    from clusterplan.schema import profile_schema

    plural = next((one for one, noun in NOUNS.items() if noun == folder), folder)
    _print(json.dumps(profile_schema(plural), indent=2) + "\n")
    return 0


@profiles.command("path")
@takes("profiles")
def path_of_profiles(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="A profile; else the directories.")] = None,
    **given: Any,
) -> int:
    """Show where profiles are looked for, or the file of one."""
    catalog = _catalog(given)
    paths = catalog.directories if name is None else (catalog.path(*_named(catalog, name)),)
    _print("".join(f"{path}\n" for path in paths))
    return 0


@models.command("list")
@takes("profiles", *OUTPUT)
def list_models(**given: Any) -> int:
    """List the models that have a profile."""
    with _output(given) as write:
        write(_listed(_catalog(given), "models"))
    return 0


@models.command(
    "show",
    help=_help(
        "Show the parameters of a model and the work of a token.",
        "clusterplan models show deepseek-v3",
        "clusterplan models show config.json --json",
    ),
)
@takes("seq_len", "profiles", *OUTPUT)
def show_model(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A profile's name, a config.json, or - for stdin.")],
    **given: Any,
) -> int:
    """Show the parameters of a model and the work of a token."""
    with _output(given) as write:
        from clusterplan import report, scenario, units

        catalog = _catalog(given)
        _, record, warnings = scenario.load_model(scenario.Scenario(model=model), catalog)
        usual = catalog.defaults().seq_len
        seq_len = min(record.learned_positions or usual, usual)
        if given["seq_len"] is not None:
            seq_len = units.parse(given["seq_len"], "count", where="--seq-len")
        write(report.model_document(record, seq_len, warnings))
    return 0


@models.command(
    "import",
    help=_help(
        "Write the profile of a model from its config.json.",
        "clusterplan models import config.json -o my-model.toml",
        "curl -sL URL/config.json | clusterplan models import - > my-model.toml",
    ),
)
@takes("output", "force")
def import_model(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A config.json, or - for stdin.")], **given: Any
) -> int:
    """Write the profile of a model from its config.json."""
    from dataclasses import replace

    from clusterplan.catalog import Catalog
    from clusterplan.files import write_atomically
    from clusterplan.reading import dump_model
    from clusterplan.scenario import Scenario, load_model

    file, force = given["output"], bool(given["force"])
    file = None if file is not None and str(file) == "-" else file
    if file is not None:
        if file.suffix != ".toml":
            raise typer.BadParameter(f"{file.name!r} does not end in .toml", param_hint="--output")
        _refuse_unwritable(file, force=force)
    _, record, warnings = load_model(Scenario(model=model), Catalog())
    for warning in warnings:
        _say(f"warning: {warning}")
    if file is None:
        _print(dump_model(record))
    else:  # a profile has the name of its file
        write_atomically(file, dump_model(replace(record, name=file.stem)), force=force)
    return 0


# --- Reading ----------------------------------------------------------------------------------------------------


def _catalog(given: dict[str, Any]) -> Catalog:
    from clusterplan.catalog import Catalog

    return Catalog(given.get("profiles") or ())


def _named(catalog: Catalog, name: str) -> tuple[str, str]:
    """Folder and name of a profile that may be given with or without its folder."""
    from clusterplan.reading import shown, unknown

    folder, slash, rest = name.rpartition("/")
    if slash and folder in catalog.folders:
        return folder, rest
    found = [one for one in catalog.folders if name in catalog.names(one)]
    if len(found) == 1:
        return found[0], name
    if found:
        raise ClusterplanError(
            f"{len(found)} profiles are named {name!r}", nearest=tuple(f"{one}/{name}" for one in found)
        )
    raise unknown(f"no profile named {shown(name)}", name, {n for one in catalog.folders for n in catalog.names(one)})


def _cut_short(write: Callable[..., None], document: dict[str, Any], said: str) -> int:
    """Print what is done of a command that was interrupted; files are for whole answers."""
    _say(f"interrupted; {said}, and no file is written")
    write(document, to_files=False)
    return INTERRUPTED


def _resolved(given: dict[str, Any], *, takes_layout: bool = False) -> Resolved:
    """The question with nothing left open; of some commands a layout in short is the one that they compute."""
    from clusterplan import shapes
    from clusterplan.scenario import Scenario, override, read_scenario, resolve, spelled_out

    base = Scenario() if given.get("scenario") is None else read_scenario(given["scenario"])
    asked = {key: value for key, value in given.items() if key not in NOT_ASKED}
    for key in ("hardware", "allow"):  # repeated, with commas, or both
        asked[key] = ",".join(asked.get(key) or ()) or None
    question = override(base, asked)
    if takes_layout:
        question = spelled_out(question, given={name for name in LAYOUT if given.get(name) is not None})
    if not question.model and given.get("scenario") is None:
        raise typer.BadParameter("give a model, or a scenario file with --scenario", param_hint="MODEL")
    return resolve(question, _catalog(given), lambda model: shapes.parameters(model).active)


def _drawn(given: dict[str, Any]) -> dict[str, Any] | None:
    """How runs are to be simulated; None if they are not."""
    options = {name: given[name] for name in SIMULATION if name != "simulate" and given[name] is not None}
    if not given["simulate"]:
        if options:
            name = next(iter(options)).replace("_", "-")
            raise typer.BadParameter("is for --simulate, which is not given", param_hint=f"--{name}")
        return None
    from clusterplan import simulate, units

    drawn: dict[str, Any] = {}
    if "runs" in options:
        drawn["runs"] = units.parse(options["runs"], "count", where="--runs")
        if drawn["runs"] > simulate.MOST_RUNS:
            raise ClusterplanError(f"is more than {simulate.MOST_RUNS:,}", where="--runs")
    if "seed" in options:
        if not (options["seed"].isascii() and options["seed"].isdigit() and len(options["seed"]) < 20):
            raise ClusterplanError(f"must be a whole number, not {options['seed'][:40]!a}", where="--seed")
        drawn["seed"] = int(options["seed"])
    if "failure_shape" in options:
        drawn["shape"] = simulate.parse_shape(options["failure_shape"])
    return drawn


def _simulated(answer: Answer, drawn: dict[str, Any] | None, progress: Callable[[float, str], None] | None) -> Any:
    """Document of an answer, with simulated runs of its plan if they were asked for."""
    document = answer.document()
    if drawn is not None and answer.plan is not None:
        from dataclasses import asdict

        from clusterplan.simulate import simulate, too_long
        from clusterplan.techniques import techniques

        if reason := too_long(answer.plan):
            document["warnings"].append(reason)
        else:
            document["plan"]["simulation"] = asdict(simulate(answer.plan, progress=progress, **drawn))
        document["plan"]["techniques"] = [asdict(one) for one in techniques(answer.plan)]
    return document


# --- Writing ----------------------------------------------------------------------------------------------------


NO_TABLE = ("xlsx", "xls", "ods", "html", "htm", "pdf", "toml", "yaml", "yml", "tsv", "parquet")
"""Endings of files that a plain table does not belong into."""


def _form(given: dict[str, Any]) -> str:
    """Form of the output: what was asked for, else what the name of the file says, else a table."""
    asked, as_json, file = given.get("format"), given.get("as_json"), given.get("output")
    known = ("table", "json", "jsonl", "csv", "md")
    if asked is not None and asked not in known:
        raise typer.BadParameter(f"{asked!r} is not one of {', '.join(known)}", param_hint="--format")
    if as_json and asked not in {None, "json"}:
        raise typer.BadParameter(f"--json and --format {asked} exclude each other", param_hint="--json")
    if as_json:
        return "json"
    suffix = file.suffix[1:].lower() if file is not None else ""
    if asked is None and suffix in NO_TABLE:
        forms = ", ".join(f".{form}" for form in known[1:])
        raise typer.BadParameter(f"no .{suffix} is written; forms: {forms}, or --format", param_hint="--output")
    return asked or (suffix if suffix in known else "table")


@contextmanager
def _output(given: dict[str, Any]) -> Iterator[Callable[..., None]]:
    """A function that writes a document, and the question behind it, to where the user wants them.

    Files that may not be written are refused before anything is computed.
    """
    form = _form(given)
    file, save, force = given.get("output"), given.get("save"), bool(given.get("force"))
    file = None if file is not None and str(file) == "-" else file
    if file is not None and save is not None and os.path.realpath(file) == os.path.realpath(save):
        raise ClusterplanError("--output and --save name the same file", where=str(file))
    for path in (file, save):
        if path is not None:
            _refuse_unwritable(path, force=force)

    def write(document: dict[str, Any], scenario: Scenario | None = None, *, to_files: bool = True) -> None:
        from dataclasses import replace

        from clusterplan.files import write_atomically
        from clusterplan.report import Page, render

        is_file = file is not None and to_files
        page = Page() if is_file else _page(given)
        page = replace(
            page, sources=bool(given.get("sources")), stages=bool(given.get("all_stages")), rows=bool(given.get("rows"))
        )
        text = render(document, form, page)
        if save is not None and scenario is not None:
            from clusterplan.scenario import dump

            write_atomically(save, dump(scenario), force=force)
        if file is not None and to_files:
            write_atomically(file, text, force=force)
        else:
            _print(text)

    yield write


def _refuse_unwritable(path: Path, *, force: bool) -> None:
    """Say now what writing would say after minutes of work."""
    from clusterplan.files import printable

    where = printable(path)
    try:
        if path.is_dir():
            raise ClusterplanError("is a directory, not a file", where=where)
        if path.exists() and not path.is_file():
            raise ClusterplanError("is not a regular file", where=where)
        if path.exists() and not force:
            raise ClusterplanError("exists; --force replaces it", where=where)
        folder = Path(os.path.realpath(path)).parent
        if not folder.is_dir():
            raise ClusterplanError(f"no directory {printable(folder)}", where=where)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise ClusterplanError(f"cannot be written: no permission in {printable(folder)}", where=where)
    except OSError as problem:
        raise ClusterplanError(f"cannot be written: {problem.strerror or problem}", where=where) from None
    except ValueError as problem:  # a null character in the name
        raise ClusterplanError(f"is no file name: {problem}", where=where) from None


def _page(given: dict[str, Any]) -> Page:
    """The terminal, or a page of 80 columns where there is none."""
    from shutil import get_terminal_size

    from clusterplan.report import WIDTH, Page

    is_terminal = _is_terminal(sys.stdout)
    plain = given.get("no_color") or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return Page(
        width=get_terminal_size((WIDTH, 24)).columns if is_terminal else WIDTH,
        colour=is_terminal and not plain,
        encoding=getattr(sys.stdout, "encoding", None) or "utf-8",
    )


def _is_terminal(stream: Any) -> bool:
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # closed
        return False


def _print(text: str) -> None:
    """Write to standard output, all of it or an error."""
    if sys.stdout is None or sys.stdout.closed:
        raise ClusterplanError("is closed", where="standard output")
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as problem:
        _drop_output()
        raise ClusterplanError(f"cannot be written: {problem.strerror}", where="standard output") from None


def _drop_output() -> None:
    """Leave nothing that Python would try to write at its end."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
    except (OSError, ValueError, AttributeError):
        pass


def _say(text: str) -> None:
    """One line on standard error, if there is one."""
    with suppress(OSError, ValueError, AttributeError):
        print(f"clusterplan: {text}", file=sys.stderr, flush=True)


def _complain(problem: ClusterplanError, *, as_json: bool) -> None:
    """Say what is wrong: one line, or one JSON object."""
    told = {"error": problem.message, "where": problem.where, "nearest": list(problem.nearest)}
    with suppress(OSError, ValueError, AttributeError):
        print(json.dumps(told, sort_keys=True) if as_json else f"clusterplan: {problem}", file=sys.stderr, flush=True)


QUIET_S = 1.0
"""Nothing is said about work that is done sooner."""
BETWEEN_S = 0.2
BAR = 12
"""Characters of the bar."""


@contextmanager
def _progress() -> Iterator[Callable[[float, str], None] | None]:
    """A function that shows how far the search is, on a terminal, after a second; None where nobody looks."""
    stream = sys.stderr
    if not _is_terminal(stream):
        yield None
        return
    begin = last = time.monotonic()
    shown = 0

    def show(share: float, text: str) -> None:
        nonlocal last, shown
        now = time.monotonic()
        if now - begin < QUIET_S or now - last < BETWEEN_S:
            return
        last = now
        done = int(BAR * min(share, 1.0))
        line = f"[{'#' * done}{'-' * (BAR - done)}]{share:4.0%} {text}"[:78]
        stream.write(f"\r{line:<{shown}}")
        stream.flush()
        shown = len(line)

    try:
        yield show
    finally:
        if shown:
            stream.write(f"\r{'':<{shown}}\r")
            stream.flush()


# --- Entry ------------------------------------------------------------------------------------------------------


def main() -> None:
    """Run the command line and leave with its exit code."""
    # Matrices are small here: threads that numpy's linear algebra starts, and that spin for work, only cost time.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    sys.exit(_run())


def _run() -> int:
    try:
        code = _exit_code()
        if sys.stdout is not None and not sys.stdout.closed:
            sys.stdout.flush()
    except BrokenPipeError:
        _drop_output()
        return BROKEN_PIPE
    except KeyboardInterrupt:
        return INTERRUPTED
    except OSError as problem:
        _drop_output()
        _say(f"standard output cannot be written: {problem.strerror or problem}")
        return 1
    return code


def _exit_code() -> int:
    try:
        app(prog_name="clusterplan")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    except (KeyboardInterrupt, OSError):
        raise
    except Exception as bug:
        if os.environ.get("CLUSTERPLAN_DEBUG") or os.environ.get("PYTEST_CURRENT_TEST"):
            raise
        text = " ".join(f"{type(bug).__name__}: {bug}".split())[:200]
        _say(f"a bug: {text}; please report it with the output of the same command after CLUSTERPLAN_DEBUG=1")
        return BUG
    return 0
