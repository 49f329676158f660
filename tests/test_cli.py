"""The command line: what it prints, where, and how it leaves.

Outputs of the commands in the README stand in ``tests/golden``. After a change that is meant,
``CLUSTERPLAN_REWRITE_GOLDEN=1 pytest tests/test_cli.py -k golden`` writes them anew; read the difference.
"""

import csv
import functools
import json
import math
import os
import re
import signal
import stat
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import typer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from clusterplan import cli
from clusterplan.workload import Model

GOLDEN = Path(__file__).parent / "golden"
SOURCE = Path(cli.__file__).parents[1]
CONFIGS = Path(__file__).parent / "data" / "configs"
RUNS = Path(__file__).parent / "data" / "runs.csv"

SMALL = ("llama-3.1-8b", "--hardware", "dgx-h100", "--devices", "8:64", "--tokens", "100B")
"""A question that is answered at once."""
ONE = (
    "llama-3.1-8b", "--hardware", "dgx-h100", "--devices", "64", "--tp", "2", "--micro-batch", "1",
    "--global-batch", "128", "--tokens", "100B",
)  # fmt: skip
"""A layout that fits."""

SHOWN = (
    "accelerators/h100-sxm-80gb", "accelerators/rubin-288gb", "systems/gb200-nvl72", "systems/tpu-v5p-pod",
    "fabrics/ndr-fat-tree", "stacks/megatron-core", "storage/object-store", "sites/no-narvik", "cooling/liquid-tower",
    "prices/list-2026-11",
)  # fmt: skip
"""Profiles of which everything that is shown is kept."""

SIZE_GPT = ("size", "gpt-1t", "--hardware", "dgx-h100", "--tokens", "20T", "--deadline", "120d")
COMMANDS = {
    "size-gpt-1t.txt": SIZE_GPT,
    "size-gpt-1t.json": (*SIZE_GPT, "--json"),
    "size-kimi-k2.json": (
        "size", "kimi-k2", "--hardware", "gb200-nvl72,dgx-h200", "--tokens", "15.5T", "--budget", "80M", "--json",
    ),
    "size-config.txt": (
        "size", str(CONFIGS / "deepseek-v3.json"), "--hardware", "dgx-h100", "--devices", "1024:16384",
        "--objective", "energy",
    ),
    "size-infeasible.txt": ("size", "gpt-1t", "--hardware", "dgx-a100", "--tokens", "20T", "--deadline", "1d"),
    "compare-llama-3.1-405b.txt": (
        "compare", "llama-3.1-405b", "--hardware",
        "dgx-a100,dgx-h100,dgx-b200,mi300x-platform,tpu-v5p-pod,cloudmatrix-384", "--tokens", "15.6T",
        "--deadline", "120d",
    ),
    "estimate-llama-3.1-405b.txt": (
        "estimate", "llama-3.1-405b", "--hardware", "dgx-h100", "--devices", "16384", "--tp", "8", "--pp", "16",
        "--vpp", "8", "--micro-batch", "1", "--global-batch", "2048", "--seq-len", "8192", "--all-stages",
    ),
    "profiles-list.txt": ("profiles", "list"),
    "profiles-show-dgx-h100.txt": ("profiles", "show", "dgx-h100"),
    **{f"profiles-show-{name.replace('/', '-')}.txt": ("profiles", "show", name) for name in SHOWN},
    "models-show-deepseek-v3.txt": ("models", "show", "deepseek-v3"),
    "models-show-kimi-k2.json": ("models", "show", "kimi-k2", "--json"),
    "validate-runs.txt": ("validate", str(RUNS), "--rows"),
    "validate-runs.json": ("validate", str(RUNS), "--json"),
}  # fmt: skip
"""The commands of the README, and how each can end."""


def run(*arguments, **more):
    """Run a command in this process."""
    return CliRunner().invoke(cli.app, [str(one) for one in arguments], prog_name="clusterplan", **more)


def program(*arguments, **more):
    """Run a command as a user does; no test may be seen from inside."""
    environment = {key: value for key, value in os.environ.items() if key not in {"PYTEST_CURRENT_TEST", "NO_COLOR"}}
    environment |= {"PYTHONPATH": str(SOURCE)} | more.pop("env", {})
    command = [sys.executable, "-m", "clusterplan", *map(str, arguments)]
    return subprocess.run(command, env=environment, timeout=60, **({"capture_output": True} | more))


def refused(result, *parts, code=1):
    """One line on standard error, nothing else."""
    output = result.stdout if isinstance(result.stdout, str) else result.stdout.decode()
    errors = result.stderr if isinstance(result.stderr, str) else result.stderr.decode()
    left = result.exit_code if hasattr(result, "exit_code") else result.returncode
    assert (output, left) == ("", code), errors
    assert errors.startswith("clusterplan: "), errors
    assert errors.count("\n") == 1
    assert errors.endswith("\n")
    assert "Traceback" not in errors
    for part in parts:
        assert part in errors
    return errors


def test_a_rack_that_no_cooling_carries_names_one_that_does():
    result = run("size", "llama-3.1-8b", "--hardware", "gb200-nvl72", "--cooling", "air-dry-cooler", "--tokens", "1e12")
    assert result.exit_code == 3
    assert "--cooling can be liquid-chilled-water (140 kW)" in " ".join(result.stdout.split())


# --- Golden outputs ---------------------------------------------------------------------------------------------


def same(found, expected, path=""):
    """Equal, numbers to nine digits: another processor may round the last ones differently."""
    if isinstance(expected, dict):
        assert list(found) == list(expected), path
        for key in expected:
            same(found[key], expected[key], f"{path}.{key}")
    elif isinstance(expected, list):
        assert len(found) == len(expected), path
        for n, one in enumerate(expected):
            same(found[n], one, f"{path}[{n}]")
    elif isinstance(expected, float):
        assert math.isclose(found, expected, rel_tol=1e-9), (path, found, expected)
    else:
        assert found == expected, path


@pytest.mark.parametrize("name", COMMANDS)
def test_golden(name, monkeypatch):
    monkeypatch.chdir(CONFIGS.parents[1])
    arguments = [one.replace(f"{CONFIGS.parents[1]}{os.sep}", "") for one in COMMANDS[name]]
    result = run(*arguments)
    assert result.exit_code == (3 if "infeasible" in name else 0), result.stderr
    text = result.stdout.replace(str(Path.cwd().parent), "…")
    if os.environ.get("CLUSTERPLAN_REWRITE_GOLDEN"):
        (GOLDEN / name).write_text(text, encoding="utf-8")
    expected = (GOLDEN / name).read_text(encoding="utf-8")
    if name.endswith(".json"):
        same(json.loads(text), json.loads(expected))
    else:
        assert text == expected
        assert max(map(len, text.splitlines())) <= 80


def test_every_golden_file_has_its_command():
    assert {path.name for path in GOLDEN.iterdir()} == set(COMMANDS)


# --- Exit codes -------------------------------------------------------------------------------------------------


def test_an_answer_leaves_with_0():
    result = run("size", *SMALL)
    assert result.exit_code == 0
    assert result.stderr == ""


def test_nothing_feasible_leaves_with_3_and_says_why():
    result = run("size", *SMALL, "--deadline", "1h")
    assert result.exit_code == 3
    assert "No feasible plan" in result.stdout
    assert "deadline" in result.stdout
    document = json.loads(run("size", *SMALL, "--deadline", "1h", "--json").stdout)
    assert (document["feasible"], document["plan"]) == (False, None)
    assert document["blocking"][0]["constraint"] == "deadline"


def test_compare_leaves_with_0_if_any_column_is_feasible():
    ask = ("compare", "llama-3.1-8b", "--devices", "8:64", "--tokens", "100B", "--hardware")
    both = run(*ask, "dgx-a100,dgx-b200", "--deadline", "2d")
    assert both.exit_code == 0, both.stderr
    assert "dgx-a100: no feasible plan" in both.stdout
    assert run(*ask, "dgx-a100,dgx-b200", "--deadline", "1h").exit_code == 3


def test_an_estimate_that_fits_leaves_with_0():
    result = run("estimate", *ONE)
    assert result.exit_code == 0, result.stderr
    assert "fits" in result.stdout


def test_an_estimate_that_does_not_fit_leaves_with_3_and_prints_everything():
    result = run("estimate", "llama-3.1-405b", "--hardware", "dgx-h100", "--devices", 64, "--tp", 8, "--json")
    assert result.exit_code == 3
    document = json.loads(result.stdout)
    assert document["plan"]["memory"]["verdict"] == "does_not_fit"
    assert document["blocking"][0]["constraint"] == "memory"


def test_an_illegal_layout_leaves_with_1_and_all_broken_rules():
    refused(run("estimate", "llama-3.1-8b", "--hardware", "dgx-h100", "--devices", 64, "--tp", 3), "tp")


@pytest.mark.parametrize(
    "arguments",
    [
        ("size", "gpt-1t", "--no-such-option"),
        ("no-such-command",),
        ("size",),
        ("size", *SMALL, "--format", "yaml"),
        ("size", *SMALL, "--json", "--format", "csv"),
        ("size", *SMALL, "two-models"),
        ("explain", "job.toml"),
        ("profiles", "show"),
        ("profiles", "check"),
        ("size", *SMALL, "--tp", "8"),
    ],
)
def test_a_wrong_command_line_leaves_with_2(arguments):
    result = run(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "Usage: clusterplan" in result.stderr


def test_an_option_with_a_slip_is_corrected():
    assert "--tokens" in run("size", "gpt-1t", "--token", "20T").stderr


def test_without_a_command_help_is_printed():
    result = run()
    assert result.exit_code in {0, 2}
    assert "clusterplan size gpt-1t" in result.stdout + result.stderr


def test_a_bug_asks_to_be_reported():
    broken = "import clusterplan.search as s; s.size = lambda *_, **__: 1 / 0; from clusterplan.cli import main; main()"
    environment = {key: value for key, value in os.environ.items() if key != "PYTEST_CURRENT_TEST"}
    environment["PYTHONPATH"] = str(SOURCE)
    command = [sys.executable, "-c", broken, "size", *SMALL]
    result = subprocess.run(command, env=environment, capture_output=True, timeout=60, check=False)
    refused(result, "a bug: ZeroDivisionError: division by zero", "CLUSTERPLAN_DEBUG=1", code=70)
    environment["CLUSTERPLAN_DEBUG"] = "1"
    result = subprocess.run(command, env=environment, capture_output=True, timeout=60, check=False)
    assert b"Traceback" in result.stderr


# --- Help -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command",
    [
        "size",
        "compare",
        "estimate",
        "levers",
        "sweep",
        "explain",
        "calibrate",
        "profiles show",
        "profiles check",
        "models show",
    ],
)
def test_help_of_each_command(command):
    result = run(*command.split(), "--help")
    assert result.exit_code == 0
    assert f"Usage: clusterplan {command}" in result.stdout


@pytest.mark.parametrize(
    "command", ["size", "compare", "estimate", "levers", "sweep", "explain", "validate", "calibrate", "models show"]
)
def test_examples_stand_before_the_options(command):
    text = run(*command.split(), "--help").stdout
    assert 0 < text.index(f"  clusterplan {command.split()[0]} ") < text.index("Options:")


def commands(group, way=()):
    """All commands of the program, each as its way from the first."""
    found = [way]
    for name, command in getattr(group, "commands", {}).items():
        found += commands(command, (*way, name))
    return found


@pytest.mark.parametrize("way", commands(typer.main.get_command(cli.app)), ids=" ".join)
def test_help_fits_a_terminal_of_80_columns(way, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    text = run(*way, "--help").stdout
    assert [line for line in text.splitlines() if len(line) > 80] == []


def test_a_long_example_goes_on_as_a_shell_reads_it():
    example = "clusterplan size gpt-1t --hardware dgx-h100 --tokens 20T --deadline 120d --objective energy > plan.txt"
    folded = cli._folded(example)
    assert folded == (
        "clusterplan size gpt-1t --hardware dgx-h100 --tokens 20T --deadline 120d \\\n    --objective energy > plan.txt"
    )
    assert folded.replace(" \\\n   ", "") == example


@pytest.mark.parametrize("name", cli.OPTIONS)
def test_every_option_is_on_a_command(name):
    used = {*cli.QUESTION, *cli.LAYOUT, *cli.SIMULATION, *cli.MIX, *cli.CHANGES, "all_stages", *cli.OUTPUT}
    used |= {"rows", "plot", "into", "suffix"}
    assert name in used


def test_version():
    from clusterplan import __version__

    assert run("--version").stdout == f"clusterplan {__version__}\n"


def test_help_imports_nothing_heavy():
    code = (
        "import sys; from clusterplan.cli import app\n"
        "try: app(['--help'])\n"
        "except SystemExit: pass\n"
        "print(*[m for m in ('numpy', 'scipy', 'pydantic', 'rich', 'clusterplan.catalog') if m in sys.modules],"
        " file=sys.stderr)"
    )
    environment = os.environ | {"PYTHONPATH": str(SOURCE)}
    result = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, timeout=60, check=True)
    assert result.stderr.strip() == b""


# --- Inputs that break ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("option", "value"),
    [
        (option, value)
        for option in ("--tokens", "--deadline", "--budget", "--power", "--devices", "--confidence", "--seq-len")
        for value in ("", "0", "-1", "nan", "inf", "1e999", "abc", "1" * 200, "\n", "12 parsecs", "9e300")
    ],
)
def test_quantities_that_cannot_be(option, value):
    refused(run("size", *SMALL[:3], f"{option}={value}"), option)


@pytest.mark.parametrize(
    ("option", "value", "nearest"),
    [
        ("--hardware", "dgx-h10", "dgx-h100"),
        ("--site", "us-texs", "us-texas"),
        ("--cooling", "liquid-towr", "liquid-tower"),
        ("--prices", "list-2026", "list-2026-11"),
        ("--stack", "megatron", "megatron-core"),
        ("--fabric", "ndr-fattree", "ndr-fat-tree"),
        ("--storage", "object", "object-store"),
        ("--precision", "bf61", "bf16"),
        ("--objective", "enrgy", "energy"),
        ("--set", "sit.usd_per_kwh=1", "site"),
        ("--set", "site.usd_per_kw=1", "usd_per_kwh"),
        ("--tokens", "15Q", "known forms"),
        ("--deadline", "90", "90d"),
    ],
)
def test_a_slip_is_answered_with_the_nearest_right_value(option, value, nearest):
    refused(run("size", "llama-3.1-8b", "--hardware", "dgx-h100", option, value), nearest)


def test_a_model_with_a_slip():
    refused(run("size", "gpt1t", "--hardware", "dgx-h100"), "did you mean: gpt-1t")
    refused(run("models", "show", "kimi-k3"), "kimi-k2")
    refused(run("profiles", "show", "dgx-h10"), "dgx-h100")
    refused(run("profiles", "show", "systems/dgx-h10"), "dgx-h100")
    refused(run("profiles", "list", "sytems"), "systems")


def test_a_fabric_at_a_size():
    told = json.loads(run("profiles", "show", "ndr-fat-tree", "--devices", "2048", "--json").stdout)
    assert (told["switches"], told["optics"], told["bisection_bytes_per_s"]) == (96, 8192, 2048 / 2 * 50e9)
    assert [tier["switches"] for tier in told["tiers"]] == [64, 32, 0]
    assert told["network_usd"] == told["switch_usd"] + told["optic_usd"]
    assert told["missing"] == []
    text = run("profiles", "show", "roce-400g-7to1", "--devices", "24576", "--hardware", "dgx-h100").stdout
    for part in ("scale-up", "7:1", "87.8 TB/s", "1,536", "switch_ports of that level", "optic_usd"):
        assert part in text
    assert run("profiles", "show", "ndr-fat-tree", "--devices", "64", "--format", "csv").exit_code == 0


def test_a_fabric_at_a_size_that_it_does_not_have():
    show = ("profiles", "show")
    refused(run(*show, "ndr-fat-tree", "--devices", "1M"), "65,536")
    refused(run(*show, "dgx-h100", "--devices", "8"), "is for fabrics")
    refused(run(*show, "ndr-fat-tree", "--hardware", "dgx-h100"), "--devices")
    refused(run(*show, "ndr-fat-tree", "--devices", "8", "--hardware", "dgx-h10"), "dgx-h100")


def test_no_hardware():
    refused(run("size", "gpt-1t"), "--hardware", "dgx-h100")


def test_errors_are_json_where_the_answer_would_be():
    result = run("size", "gpt-1t", "--hardware", "dgx-h10", "--json")
    assert (result.exit_code, result.stdout) == (1, "")
    told = json.loads(result.stderr)
    assert set(told) == {"error", "where", "nearest"}
    assert "dgx-h100" in told["nearest"]


def test_the_first_problem_of_a_line_is_said_before_the_search():
    begin = time.monotonic()
    refused(run("size", "gpt-1t", "--hardware", "dgx-h100", "--format", "json", "--tokens", "x", "--format", "table"))
    assert time.monotonic() - begin < 1


BAD_FILES = {
    "empty": b"",
    "blank": b" \n\t\n",
    "truncated": b'model = "gpt',
    "not UTF-8": b"model = '\xff\xfe'",
    "null": b"\x00\x00\x00",
    "json": b'{"model": "gpt-1t"}',
    "wrong type": b"tokens = true",
    "list": b"tokens = [1, 2]",
    "nan": b"tokens = nan",
    "infinity": b"budget_usd = inf",
    "negative": b"tokens = -1",
    "zero": b"seq_len = 0",
    "huge": b"tokens = 1" + b"0" * 400,
    "unknown key": b"tokns = 1",
    "table for a text": b"[model]\nname = 'gpt-1t'",
    "nested": b"x = " + b"[" * 3000,
}


@pytest.mark.parametrize("name", BAD_FILES)
@pytest.mark.parametrize(
    "command", [("size", "--scenario"), ("explain",), ("models", "show"), ("estimate", "--scenario")]
)
def test_files_that_cannot_be_used(tmp_path, name, command):
    file = tmp_path / ("config.json" if command[0] == "models" else "job.toml")
    file.write_bytes(BAD_FILES[name])
    if command[0] == "models" and name == "json":
        file.write_bytes(b'{"model_type": "no-such-kind"}')
    more = ("step.total_s",) if command == ("explain",) else ()
    refused(run(*command, file, *more), file.name)
    assert [one.name for one in tmp_path.iterdir()] == [file.name]


@pytest.mark.parametrize("command", [("size", "--scenario"), ("models", "show")])
def test_a_directory_and_a_missing_file(tmp_path, command):
    folder = tmp_path / "folder.json"
    folder.mkdir()
    refused(run(*command, folder), "directory")
    refused(run(*command, tmp_path / "nothing.json"), "no such file")


@pytest.mark.skipif(hasattr(os, "geteuid") and os.geteuid() == 0, reason="root may read everything")
def test_an_unreadable_file(tmp_path):
    file = tmp_path / "job.toml"
    file.write_text("tokens = 1")
    file.chmod(0)
    refused(run("size", "--scenario", file), "cannot be read")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names")
def test_a_pipe_does_not_hang(tmp_path):
    os.mkfifo(tmp_path / "job.toml")
    refused(run("size", "--scenario", tmp_path / "job.toml"), "not a regular file")
    os.mkfifo(tmp_path / "out.txt")
    refused(run("size", *SMALL, "-o", tmp_path / "out.txt", "--force"), "not a regular file")


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"\xff", b"null", b'{"hidden_size": 1e999}', b"x" * 2_000_000])
def test_a_model_on_standard_input_that_cannot_be_used(text):
    refused(run("models", "show", "-", input=text))
    refused(run("size", "-", "--hardware", "dgx-h100", input=text))


def test_a_model_on_standard_input():
    text = (CONFIGS / "deepseek-v3.json").read_bytes()
    piped = json.loads(run("models", "show", "-", "--json", input=text).stdout)
    named = json.loads(run("models", "show", CONFIGS / "deepseek-v3.json", "--json").stdout)
    assert piped["parameters"] == named["parameters"]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(max_size=200))
def test_any_bytes_as_a_scenario(tmp_path, content):
    file = tmp_path / "job.toml"
    file.write_bytes(content)
    result = run("size", "--scenario", file)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.count("\n") == 1


@settings(max_examples=40, deadline=None)
@given(text=st.text(max_size=60).filter(lambda text: not text.startswith("-")))
def test_any_text_as_a_number_of_tokens(text):
    result = run("size", "gpt-1t", "--hardware", "no-such-system", f"--tokens={text}")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.count("\n") == 1


def test_profiles_check_says_everything(tmp_path):
    file = tmp_path / "systems" / "mine.toml"
    file.parent.mkdir()
    file.write_text('name = "mine"\nvendr = "x"\n[datasheet]\nsource = "s"\ndevices = -1\nrated_w = "much"\n')
    result = run("profiles", "check", file)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.count("\n") >= 4
    assert all(line.startswith("clusterplan: ") for line in result.stderr.splitlines())
    for part in ("vendr", "devices", "rated_w", "missing"):
        assert part in result.stderr
    told = json.loads(run("profiles", "check", file, "--json").stdout)
    assert len(told["files"][0]["problems"]) == result.stderr.count("\n")


def test_profiles_check_of_a_good_file():
    good = run("profiles", "path", "dgx-h100").stdout.strip()
    result = run("profiles", "check", good)
    assert (result.exit_code, result.stdout) == (0, f"{good}: no problem\n")


# --- Scenario files ---------------------------------------------------------------------------------------------


def test_a_saved_scenario_gives_the_same_answer_byte_for_byte(tmp_path):
    job = tmp_path / "job.toml"
    first = run("size", *SMALL, "--set", "site.usd_per_kwh=0.05", "--save", job, "--json")
    assert first.exit_code == 0, first.stderr
    assert run("size", "--scenario", job, "--json").stdout == first.stdout


def test_options_override_a_scenario(tmp_path):
    job = tmp_path / "job.toml"
    run("size", *SMALL, "--save", job)
    document = json.loads(run("size", "--scenario", job, "--tokens", "200B", "--json").stdout)
    assert document["inputs"]["tokens"] == 200_000_000_000
    assert document["inputs"]["devices"] == [8, 64]


def test_lists_may_be_repeated_or_have_commas():
    ask = ("compare", "llama-3.1-8b", "--devices", "8", "--tokens", "1B", "--json")
    commas = run(*ask, "--hardware", "dgx-h100,dgx-a100", "--allow", "fp8,borderline").stdout
    repeated = run(*ask, "--hardware", "dgx-h100", "--hardware", "dgx-a100", "--allow", "fp8", "--allow", "borderline")
    assert commas == repeated.stdout
    assert json.loads(commas)["inputs"]["hardware"] == ["dgx-h100", "dgx-a100"]


def test_explain_of_a_saved_search_and_of_a_saved_estimate(tmp_path):
    for command in (("size", *SMALL), ("estimate", *ONE)):
        job = tmp_path / f"{command[0]}.toml"
        total = json.loads(run(*command, "--save", job, "--json").stdout)["plan"]["cost"]["total_usd"]
        told = json.loads(run("explain", job, "cost.total_usd", "--json").stdout)
        assert told["value"] == total


def test_explain_of_a_number_that_is_not_there(tmp_path):
    run("estimate", *ONE, "--save", tmp_path / "job.toml")
    refused(run("explain", tmp_path / "job.toml", "step.buble_s"), "did you mean: step.bubble_s")


# --- Output -----------------------------------------------------------------------------------------------------


@functools.cache
def small_json():
    return run("estimate", *ONE, "--json").stdout


def test_same_question_same_bytes():
    assert run("estimate", *ONE, "--json").stdout == small_json()
    assert program("estimate", *ONE, "--json").stdout.decode() == small_json()


@pytest.mark.parametrize(
    ("name", "more", "start"),
    [
        ("plan.json", (), "{"),
        ("plan.jsonl", (), '{"accelerator"'),
        ("plan.csv", (), "choice,"),
        ("plan.md", (), "### llama"),
        ("plan.txt", (), "llama-3.1-8b,"),
        ("plan.txt", ("--json",), "{"),
        ("plan.json", ("--format", "csv"), "choice,"),
    ],
)
def test_output_files(tmp_path, name, more, start):
    result = run("estimate", *ONE, "-o", tmp_path / name, *more)
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "")
    assert (tmp_path / name).read_text(encoding="utf-8").startswith(start)
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("name", ["plan.xlsx", "plan.html", "plan.toml"])
def test_a_table_is_not_written_into_a_file_of_another_kind(tmp_path, name):
    result = run("estimate", *ONE, "-o", tmp_path / name)
    assert result.exit_code == 2
    assert ".json, .jsonl, .csv, .md" in result.stderr
    assert not list(tmp_path.iterdir())
    assert run("estimate", *ONE, "-o", tmp_path / name, "--format", "table").exit_code == 0


def test_a_confidence_without_a_deadline_is_said_to_do_nothing():
    with_one = (*SMALL, "--confidence", "0.9")
    assert any("without one it does nothing" in one for one in document_of(*with_one)["warnings"])
    assert not any("it does nothing" in one for one in document_of(*with_one, "--deadline", "90d")["warnings"])
    assert not any("it does nothing" in one for one in document_of(*SMALL)["warnings"])


def document_of(*arguments):
    return json.loads(run("size", *arguments, "--json").stdout)


def test_a_dash_is_standard_output():
    assert run("estimate", *ONE, "--json", "-o", "-").stdout == small_json()


@pytest.mark.parametrize("option", ["-o", "--save"])
def test_a_file_that_exists_is_replaced_only_by_force(tmp_path, option):
    file = tmp_path / "file.json"
    file.write_text("mine")
    refused(run("estimate", *ONE, option, file), "exists; --force replaces it")
    assert file.read_text() == "mine"
    assert run("estimate", *ONE, option, file, "--force").exit_code == 0
    assert file.read_text() != "mine"


@pytest.mark.parametrize("option", ["-o", "--save"])
def test_files_that_cannot_be_written_are_refused_before_the_search(tmp_path, option, monkeypatch):
    from clusterplan import search

    def fail(*_):
        raise AssertionError("the search ran")

    monkeypatch.setattr(search, "size", fail)
    refused(run("size", *SMALL, option, tmp_path), "is a directory")
    refused(run("size", *SMALL, option, tmp_path / "no" / "such" / "folder.json"), "no directory")
    refused(run("size", *SMALL, option, tmp_path / ("x" * 5000)))
    file = tmp_path / "file.json"
    file.write_text("mine")
    refused(run("size", *SMALL, option, file), "exists")


@pytest.mark.skipif(hasattr(os, "geteuid") and os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_without_permission(tmp_path):
    tmp_path.chmod(stat.S_IRUSR | stat.S_IXUSR)
    refused(run("size", *SMALL, "-o", tmp_path / "file"), "no permission")
    tmp_path.chmod(stat.S_IRWXU)


def test_output_and_save_to_the_same_file(tmp_path):
    refused(run("size", *SMALL, "-o", tmp_path / "a", "--save", tmp_path / "." / "a"), "the same file")
    refused(run("size", *SMALL, "-o", tmp_path / "a", "--save", tmp_path / "b" / ".." / "a"), "the same file")
    assert not list(tmp_path.iterdir())


def test_an_answer_that_is_refused_leaves_no_file(tmp_path):
    refused(run("estimate", *ONE, "--tp", "3", "-o", tmp_path / "a", "--save", tmp_path / "b"))
    assert not list(tmp_path.iterdir())


def test_a_reader_that_goes_away():
    """As ``clusterplan … | head -1`` does."""
    reading, writing = os.pipe()
    os.close(reading)
    for arguments in (("estimate", *ONE), ("--help",), ("profiles", "list"), ("profiles", "path")):
        result = program(*arguments, stdout=writing, stderr=subprocess.PIPE, capture_output=False)
        assert result.stderr == b""
        assert result.returncode in {1, cli.BROKEN_PIPE}
    os.close(writing)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize("arguments", [("estimate", *ONE), ("--help",), ("profiles", "path"), ("--version",)])
def test_a_full_disk(arguments):
    with Path("/dev/full").open("w") as full:
        result = program(*arguments, stdout=full, stderr=subprocess.PIPE, capture_output=False)
    assert result.returncode == 1
    assert result.stderr.decode().startswith("clusterplan: standard output")
    assert result.stderr.count(b"\n") == 1


@pytest.mark.skipif(sys.platform == "win32", reason="needs a shell")
def test_closed_streams():
    command = f"{sys.executable} -m clusterplan models show kimi-k2"
    environment = {key: value for key, value in os.environ.items() if key != "PYTEST_CURRENT_TEST"}
    environment["PYTHONPATH"] = str(SOURCE)
    shell = functools.partial(subprocess.run, shell=True, env=environment, capture_output=True, timeout=60, check=False)
    result = shell(f"{command} >&-")
    refused(result, "standard output: is closed")
    assert shell(f"{command} 2>&-").returncode == 0
    assert shell(f"{command}x >&- 2>&-").returncode == 1
    assert shell(f"{command} --json <&-").returncode == 0


@pytest.mark.skipif(sys.platform == "win32", reason="other signals")
def test_an_interrupt_leaves_with_130_and_no_file(tmp_path):
    environment = {key: value for key, value in os.environ.items() if key != "PYTEST_CURRENT_TEST"}
    environment["PYTHONPATH"] = str(SOURCE)
    slow = (
        "import clusterplan.search as s, time\n"
        "def size(*_, **__):\n"
        "    print('begun', flush=True)\n"
        "    time.sleep(30)\n"
        "s.size = size\n"
        "from clusterplan.cli import main; main()\n"
    )
    command = [sys.executable, "-c", slow, "size", *SMALL, "-o", str(tmp_path / "plan.json")]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"begun\n"
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert b"Traceback" not in errors
    assert not list(tmp_path.iterdir())


def test_an_interrupted_search_prints_the_best_so_far_and_writes_no_file(tmp_path, monkeypatch):
    from clusterplan import scan

    look = scan.timed
    batches = []

    def pressed(*given):
        batches.append(given)
        if len(batches) == 3:
            raise KeyboardInterrupt
        return look(*given)

    monkeypatch.setattr(scan, "PAIRS_AT_ONCE", 16)
    monkeypatch.setattr(scan, "timed", pressed)
    result = run("size", *SMALL, "-o", tmp_path / "plan.txt", "--save", tmp_path / "job.toml")
    assert result.exit_code == 130
    assert "interrupted" in result.stderr
    assert "interrupted: this is the best" in result.stdout
    assert "Step" in result.stdout
    assert not list(tmp_path.iterdir())


PARTLY = {
    "compare": (("--hardware", "dgx-h100,dgx-a100"), "not looked at: dgx-a100"),
    "sweep": (("--over", "devices=8,16,24"), "1 of 3 points are done"),
    "levers": (("--replan", "--only", "price,tokens"), "other changes were not tried"),
}


@pytest.mark.parametrize("command", PARTLY)
def test_interrupted_commands_print_what_is_done(command, tmp_path, monkeypatch):
    from clusterplan import search

    answer, calls = search.answer, []
    most = {"compare": 1, "sweep": 1, "levers": 2}[command]

    def pressed(*given, **more):
        calls.append(given)
        if len(calls) > most:
            raise KeyboardInterrupt
        return answer(*given, **more)

    monkeypatch.setattr(search, "answer", pressed)
    more, said = PARTLY[command]
    question = ("llama-3.1-8b", "--tokens", "100B", "--devices", "8:24", "--precision", "bf16")
    hardware = () if command == "compare" else ("--hardware", "dgx-h100")
    result = run(command, *question, *hardware, *more, "-o", tmp_path / "a.txt", "--save", tmp_path / "job.toml")
    assert result.exit_code == 130
    assert f"interrupted; {said}" in result.stderr
    assert "llama-3.1-8b, 100B tokens" in result.stdout
    assert not list(tmp_path.iterdir())


def test_a_narrow_encoding_gets_ascii():
    result = program("estimate", *ONE, env={"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"})
    assert result.returncode == 0
    assert b"|- compute" in result.stdout


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
@pytest.mark.parametrize(
    ("environment", "more", "colour"),
    [
        ({"TERM": "xterm"}, (), True),
        ({"TERM": "xterm", "NO_COLOR": "1"}, (), False),
        ({"TERM": "dumb"}, (), False),
        ({"TERM": "xterm"}, ("--no-color",), False),
    ],
)
def test_colour_on_a_terminal_only(environment, more, colour):
    import pty

    ours, theirs = pty.openpty()
    try:
        result = program(
            "models", "show", "gpt-1t", *more, env=environment, stdout=theirs, stderr=theirs, capture_output=False
        )
        os.close(theirs)
        text = b""
        while True:
            try:
                part = os.read(ours, 65_536)
            except OSError:  # the other end is closed
                break
            if not part:
                break
            text += part
    finally:
        os.close(ours)
    assert result.returncode == 0
    assert (b"\x1b[" in text) is colour


class Terminal:
    """A terminal that remembers what was written to it."""

    def __init__(self):
        self.text = ""

    def isatty(self):
        return True

    def write(self, text):
        self.text += text

    def flush(self):
        pass


def test_progress_is_shown_on_a_terminal_after_a_second(monkeypatch):
    terminal, now = Terminal(), [0.0]
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(cli.time, "monotonic", lambda: now[0])
    with cli._progress() as progress:
        progress(0.1, "early")
        assert terminal.text == ""
        now[0] = 1.5
        progress(0.5, "best so far: 100 days")
        assert terminal.text == "\r[######------] 50% best so far: 100 days"
        progress(0.6, "too soon after")
        assert "too soon" not in terminal.text
    assert terminal.text.endswith("\r")
    assert terminal.text.split("\r")[-2].strip() == ""


def test_no_progress_where_nobody_looks(monkeypatch):
    with Path(os.devnull).open("w") as nowhere:
        monkeypatch.setattr(sys, "stderr", nowhere)
        with cli._progress() as progress:
            assert progress is None


# --- Profiles ---------------------------------------------------------------------------------------------------


def test_profiles_of_ones_own(tmp_path):
    (tmp_path / "sites").mkdir()
    text = Path(run("profiles", "path", "us-texas").stdout.strip()).read_text(encoding="utf-8")
    (tmp_path / "sites" / "mine.toml").write_text(text.replace("us-texas", "mine"), encoding="utf-8")
    assert "mine" in run("profiles", "list", "sites", "--profiles", tmp_path).stdout
    assert "sites/mine" in run("profiles", "show", "mine", "--profiles", tmp_path).stdout
    assert run("profiles", "path", "--profiles", tmp_path).stdout.splitlines()[0] == str(tmp_path)
    document = json.loads(run("estimate", *ONE, "--profiles", tmp_path, "--site", "mine", "--json").stdout)
    assert document["inputs"]["site"] == "mine"
    refused(run("profiles", "list", "--profiles", tmp_path / "nothing"), "--profiles")


def test_a_name_that_two_folders_have(tmp_path):
    (tmp_path / "sites").mkdir()
    text = Path(run("profiles", "path", "us-texas").stdout.strip()).read_text(encoding="utf-8")
    (tmp_path / "sites" / "dgx-h100.toml").write_text(text.replace("us-texas", "dgx-h100"), encoding="utf-8")
    refused(run("profiles", "show", "dgx-h100", "--profiles", tmp_path), "systems/dgx-h100", "sites/dgx-h100")
    assert run("profiles", "show", "systems/dgx-h100", "--profiles", tmp_path).exit_code == 0


def test_lists_in_json():
    rows = json.loads(run("profiles", "list", "--json").stdout)["profiles"]
    assert ("systems", "dgx-h100") in {(row["folder"], row["name"]) for row in rows}
    models = json.loads(run("models", "list", "--json").stdout)["profiles"]
    assert ("models", "kimi-k2") in {(row["folder"], row["name"]) for row in models}


def test_models_show_takes_a_length():
    short, long = (
        json.loads(run("models", "show", "kimi-k2", "--seq-len", n, "--json").stdout)["flop_per_token"]
        for n in ("4096", "8192")
    )
    assert long["attention"] == pytest.approx(2 * short["attention"])
    refused(run("models", "show", "kimi-k2", "--seq-len", "0"), "--seq-len")


# --- Importing a model ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(path.stem for path in CONFIGS.glob("*.json")))
def test_an_imported_model_reads_back_equal(name, tmp_path):
    from clusterplan.huggingface import read_model
    from clusterplan.reading import read

    source, file = CONFIGS / f"{name}.json", tmp_path / "mine.toml"
    result = run("models", "import", source, "-o", file)
    assert (result.exit_code, result.stdout) == (0, "")
    model, warnings = read_model(source.read_text(), str(source))
    assert read(Model, file) == replace(model, name="mine")
    expected = [f"clusterplan: warning: {one}" for one in warnings]
    told = result.stderr.splitlines()
    assert told[: len(expected)] == expected
    assert [("rough figure" in one) for one in told[len(expected) :]] == [True] * model.has_fixed_state


def test_an_imported_model_can_be_asked_about(tmp_path):
    file = tmp_path / "mine.toml"
    assert run("models", "import", CONFIGS / "gemma-3-1b.json", "-o", file).exit_code == 0
    ours, theirs = (
        json.loads(run("models", "show", one, "--json").stdout) for one in (file, CONFIGS / "gemma-3-1b.json")
    )
    assert ours["parameters"] == theirs["parameters"]
    assert ours["kinds"] == theirs["kinds"]
    shown = run("models", "show", file).stdout
    assert "4 (5 local, global), 2 local" in shown
    assert "attention 4/1 × 256, window 512; feed-forward 6,912" in shown


def test_import_goes_to_standard_output_and_never_over_a_file(tmp_path):
    source, file = CONFIGS / "llama-3.1-8b.json", tmp_path / "mine.toml"
    result = run("models", "import", "-", input=source.read_text())
    assert result.stdout.startswith('name = "llama"\n')
    file.write_text("mine")
    refused(run("models", "import", source, "-o", file), "exists; --force replaces it")
    assert file.read_text() == "mine"
    assert run("models", "import", source, "-o", file, "--force").exit_code == 0
    assert file.read_text().startswith('name = "mine"\n')
    assert run("models", "import", source, "-o", tmp_path / "mine.json").exit_code == 2
    refused(run("models", "import", tmp_path / "none.json", "-o", file, "--force"), "no such file")
    assert [one.name for one in tmp_path.iterdir()] == ["mine.toml"]


def test_rough_time_is_said_in_answers():
    result = run("size", CONFIGS / "jamba-v0.1.json", "--devices", "64", "--hardware", "dgx-h100", "--json")
    document = json.loads(result.stdout)
    assert any("rough figure" in one for one in document["warnings"])
    assert document["plan"]["step"]["mfu"] > 0.2


# --- Measured runs ----------------------------------------------------------------------------------------------


def test_validate_reads_several_tables_and_keeps_their_order(tmp_path):
    other = tmp_path / "other.csv"
    other.write_text(RUNS.read_text().replace("own-", "other-"))
    document = json.loads(run("validate", RUNS, other, "--json").stdout)
    assert len(document["rows"]) == 16
    assert [row["id"] for row in document["rows"]][2::8] == ["own-tp2", "other-tp2"]
    assert document["files"] == [str(RUNS), str(other)]


def test_validate_without_tables_takes_the_runs_that_come_with_it():
    result = run("validate", "--format", "csv")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[0].startswith("id,source,accelerator,")
    assert len(result.stdout.splitlines()) > 300


def test_validate_draws_and_replaces_only_if_told(tmp_path):
    plot = tmp_path / "runs.svg"
    assert run("validate", RUNS, "--plot", plot).exit_code == 0
    assert plot.read_text().startswith("<svg ")
    refused(run("validate", RUNS, "--plot", plot), str(plot), "exists; --force replaces it")
    plot.write_text("old")
    assert run("validate", RUNS, "--plot", plot, "--force").exit_code == 0
    assert plot.read_text().startswith("<svg ")


def test_validate_does_not_write_two_things_into_one_file(tmp_path):
    both = tmp_path / "both.svg"
    refused(run("validate", RUNS, "--plot", both, "-o", both), "--output and --plot name the same file")
    assert not both.exists()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "is empty"),
        ("colour\nred\n", "has no column id and no column source and no column accelerator"),
        ("id,source,accelerator,layers\na,b,c,many\n", "line 2: layers: must be a number, not 'many'"),
        ("id,source,accelerator,tp\na,b,c,1\na,b,c,1.5\n", "line 3: tp: must be a whole number, not 1.5"),
        ("id,source,accelerator\na,b\n", "line 2: has fewer cells than the header"),
        ("id,source,accelerator\n", "has a header but no row"),
        ("\0" * 100, "has no column"),
    ],
)
def test_validate_names_what_is_wrong_with_a_table(text, told, tmp_path):
    table = tmp_path / "runs.csv"
    table.write_text(text)
    refused(run("validate", table), str(table), told)


def test_validate_names_files_that_are_no_tables(tmp_path):
    refused(run("validate", tmp_path), str(tmp_path), "is a directory, not a file")
    refused(run("validate", tmp_path / "none.csv"), "none.csv", "no such file")
    huge = tmp_path / "huge.csv"
    with huge.open("wb") as stream:
        stream.truncate(2**30)
    refused(run("validate", huge), "huge.csv", "has 1,073,741,824 bytes; at most 67,108,864 are read")


def test_validate_with_no_row_that_can_be_used_says_why(tmp_path):
    table = tmp_path / "runs.csv"
    rows = list(csv.DictReader(RUNS.read_text().splitlines()))[:2]
    with table.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, rows[0])
        writer.writeheader()
        writer.writerows({**row, "layers": ""} for row in rows)
    refused(run("validate", table), str(table), "no row can be used", "(2)")


def test_validate_says_what_is_wrong_as_json_if_the_answer_would_be_json(tmp_path):
    result = run("validate", tmp_path, "--json")
    assert result.exit_code == 1
    assert json.loads(result.stderr)["error"] == "is a directory, not a file"


# A phase of longer sequences ------------------------------------------------------------------------------------------

LONG = ("llama-3.1-8b", "--hardware", "dgx-h100", "--tokens", "1T", "--devices", "64")


def test_long_context_is_a_phase_of_the_report():
    result = run("size", *LONG, "--long-context", "131072:50B")
    assert result.exit_code == 0
    text = " ".join(result.stdout.split())
    assert re.search(r"main [0-9.]+ days \(950B tokens, .* long-context [0-9.]+ days \(50B tokens", text)
    assert re.search(r"long-context: \d+ sequences of 131,072 on tp\d+\S*, step .* with causal attention\)", text)
    told = json.loads(run("size", *LONG, "--long-context", "131072:50B", "--json").stdout)
    assert told["inputs"]["long_context"] == "131072:50B"
    assert sum(one["tokens"] for one in told["plan"]["run"]["phases"]) == 1e12


def test_long_context_that_fits_nowhere_is_infeasible():
    result = run("estimate", *LONG[:-1], "8", "--tp", "8", "--long-context", "1048576:50B")
    assert result.exit_code == cli.INFEASIBLE
    assert "at 1,048,576 tokens: memory" in result.stdout
    assert "Does not fit" in result.stdout


def test_limits_of_water_and_carbon():
    limits = ("--water", "50 ML", "--carbon", "20kt", "--objective", "water")
    told = json.loads(run("size", *LONG, *limits, "--json").stdout)
    assert (told["inputs"]["water_m3"], told["inputs"]["carbon_kg"]) == (50_000, 20e6)
    assert run("size", *LONG, *limits).stdout.count("of the limit") == 2
    result = run("size", *LONG, "--water", "1 m3", "--carbon", "900 kg")
    assert result.exit_code == cli.INFEASIBLE
    assert re.search(r"water +1\.00 m³ .*\n +carbon +900 kg CO2e", result.stdout)


def test_a_layout_in_short_is_that_of_an_estimate():
    asked = ("llama-3.1-8b", "--hardware", "dgx-h100", "--global-batch", "128", "--tokens", "100B", "--json")
    short = run("estimate", *asked, "--layout", "tp2-pp2-dp16-mb1,recompute=full")
    spelled = run(
        "estimate", *asked, "--tp", "2", "--pp", "2", "--dp", "16", "--micro-batch", "1", "--recompute", "full"
    )
    assert short.exit_code == spelled.exit_code == 0
    assert json.loads(short.stdout)["plan"] == json.loads(spelled.stdout)["plan"]


def test_levers_are_of_the_layout_that_is_given():
    told = run("levers", *SMALL[:3], "--tokens", "100B", "--layout", "dp64-mb1", "--only", "clock", "--json")
    assert told.exit_code == 0
    assert {one["layout"] for one in json.loads(told.stdout)["levers"]} == {"dp64-mb1"}


@pytest.mark.parametrize("command", ["compare", "sweep", "mix"])
def test_a_layout_in_short_is_for_commands_that_say_something_of_it(command):
    assert run(command, *SMALL, "--layout", "tp2-dp8-mb1").exit_code == 2
