"""Benchmarks are not timed here; they are only kept alive."""

import dataclasses
import importlib.util
import os
import sys
from pathlib import Path

import pytest

from clusterplan.site import Operations

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


def benchmark(name):
    spec = importlib.util.spec_from_file_location(name, BENCHMARKS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def speed():
    return benchmark("search_speed")


def test_the_parts_of_a_search_look_at_layouts_and_evaluate_some(speed):
    question = speed.resolved({"model": "llama-3.1-8b", "hardware": "dgx-h100", "tokens": "1T", "deadline": "60d"})
    scan_s, considered, evaluate_s, evaluated = speed.parts(question)
    assert considered > evaluated > 0
    assert scan_s > 0
    assert evaluate_s > 0
    seconds, count = speed.whole(question)
    assert seconds > 0
    assert count >= considered


def test_all_questions_of_the_benchmark_can_be_asked(speed):
    models = [speed.resolved(asked).model.name for asked in speed.QUESTIONS.values()]
    assert models == ["gpt-1t", "kimi-k2"]


def test_a_process_has_time_and_memory():
    cost = benchmark("process_time").run((sys.executable, "-c", "b'x' * 2**26"))
    assert 0 < cost.cpu_s < 60
    assert cost.wall_s > 0
    assert cost.peak_mib > 64


def test_a_process_that_fails_is_no_measurement():
    with pytest.raises(SystemExit, match="failed"):
        benchmark("process_time").run((sys.executable, "-c", "raise SystemExit(3)"))


def test_closed_forms_agree_with_simulated_runs_at_every_size():
    simulation = benchmark("simulation")
    rows = list(simulation.rows(runs=60, failures=2e5))
    assert {row.devices for row in rows} == set(simulation.DEVICES)
    for row in rows:
        assert row.standard_error <= 0.001
        assert abs(row.simulated - row.closed) <= 0.004
        assert row.failures_per_s > 0


def test_what_closed_forms_do_not_have_is_shown():
    rows = {row.name: row for row in benchmark("simulation").other_laws(runs=50)}
    assert rows["16 spares, repair 48 h"].simulated < rows["25 spares, repair 48 h"].simulated
    assert rows["2 % take a domain for 4 h"].simulated < rows["2 % take a domain for 4 h"].closed


@pytest.fixture
def reliability():
    return benchmark("reliability")


def test_golden_document_of_reliability(reliability):
    if os.environ.get("CLUSTERPLAN_REWRITE_GOLDEN"):
        reliability.DOCUMENT.write_text(reliability.document(), encoding="utf-8")
    assert reliability.DOCUMENT.read_text(encoding="utf-8") == reliability.document()


# Published figures with their sources are in the benchmark; here is how near they must be.
def test_predictions_are_near_published_figures(reliability):
    found = {(row.case.name, row.what): row.predicted for row in reliability.rows()}
    assert abs(found["Llama 3 405B", "unplanned interruptions in 54 days"] / 419 - 1) < 0.05
    assert 0.90 < found["Llama 3 405B", "effective training time"] < 0.97
    assert 0.90 < found["MegaScale", "effective training time"] < 0.97
    assert found["MegaScale", "restarts in several weeks"] > 100
    assert abs(found["ByteRobust, dense", "effective training time"] - 0.97) < 0.015
    assert abs(found["BLOOM", "size of a checkpoint"] / 2.3 - 1) < 0.1
    assert abs(found["RSC-1, 16,384 GPUs", "mean time between failures"] / 1.8 - 1) < 0.35
    # the known bias of small jobs, with its size
    assert 3 < found["RSC-1, 8 GPUs", "mean time between failures"] / 24 / 47.7 < 5
    assert 3 < found["RSC-1, 1,024 GPUs", "mean time between failures"] / 7.9 < 5


def test_parts_of_a_restart_are_near_published_ones(reliability):
    found = {(part.what, part.devices): part.predicted_s for part in reliability.parts()}
    assert found["communicators", "2,048"] < 5 + 2  # published below 5 s; the part that does not grow is assumed
    assert found["communicators", "> 10,000"] < 30
    assert found["detection and diagnosis", "12,288"] < 600
    assert found["catching up with the last step", "12,288"] < 900
    assert 3.7 * 60 < found["whole recovery", "not published"] < 38.9 * 60


def test_counts_by_cause_add_up(reliability):
    assert sum(count for _, count, _ in reliability.CAUSES) == 419


def test_the_document_of_reliability_names_figures_that_there_are(reliability):
    known = {entry.name for entry in dataclasses.fields(Operations)}
    assert {name for names, _ in reliability.FIGURES for name in names} <= known
