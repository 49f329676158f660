"""How right predictions are: errors, verdicts, groups."""

import dataclasses

import pytest

from clusterplan.accuracy import SPLITS, accuracy, groups, memory_errors, scale, summary, time_errors, verdicts
from clusterplan.validate import Judged, errors


def row(name, predicted_s=None, measured_s=None, **more):
    error = predicted_s / measured_s - 1 if predicted_s and measured_s else None
    given = {"source": "paper, table 1", "accelerator": "H100", "family": "dense", "accelerators": 8, "stack": "s"}
    times = {"predicted_step_s": predicted_s, "measured_step_s": measured_s, "error_fraction": error}
    return Judged(id=name, **given | times | more)


def test_errors_by_head():
    found = errors([-0.1, 0.2, -0.3])
    assert found is not None
    assert (found.rows, found.median, found.worst, found.bias) == (3, 0.2, 0.3, -0.1)
    assert found.p90 == pytest.approx(0.28)  # between 0.2 and 0.3, at 0.8 of the way
    assert found.inside_interval is None
    assert errors([]) is None


def test_a_time_is_inside_its_interval_or_not():
    rows = [row("a", 1.0, 1.1, low_s=0.8, high_s=1.2), row("b", 1.0, 2.0, low_s=0.8, high_s=1.2), row("c", 1.0)]
    found = time_errors(rows)
    assert found is not None
    assert (found.rows, found.inside_interval) == (2, 0.5)
    assert found.worst == 0.5


def test_memory_has_errors_of_its_own():
    assert memory_errors([row("a", 1.0, 1.0)]) is None
    found = memory_errors([row("a", memory_error_fraction=0.25), row("b")])
    assert found is not None
    assert (found.rows, found.median) == (1, 0.25)


def test_verdicts_are_called_when_borderline_but_alarms_are_only_those_that_say_no():
    rows = [
        row("a", ran=False, verdict="does_not_fit"), row("b", ran=False, verdict="borderline"),
        row("c", ran=False, verdict="fits"), row("d", ran=True, verdict="borderline"),
        row("e", ran=True, verdict="does_not_fit"), row("f", ran=None, verdict="fits"), row("g", ran=True),
    ]  # fmt: skip
    found = verdicts(rows)
    assert (found.out_of_memory, found.called, found.ran, found.false_alarms) == (3, 2, 2, 1)


def test_what_is_skipped_is_counted_by_its_reason():
    rows = [row("a", 1.0, 1.0), row("b", skipped="x"), row("c", skipped="y"), row("d", skipped="y")]
    found = accuracy(rows)
    assert (found.rows, found.used) == (4, 1)
    assert list(found.skipped.items()) == [("y", 2), ("x", 1)]


@pytest.mark.parametrize(
    ("devices", "name"),
    [
        (None, "not stated"),
        (1, "1 to 64 devices"),
        (64, "1 to 64 devices"),
        (65, "65 to 512 devices"),
        (4096, "513 to 4,096 devices"),
        (4097, "4,097 devices and more"),
    ],
)
def test_classes_of_size_hold_their_ends(devices, name):
    assert scale(row("a", accelerators=devices)) == name


def test_groups_are_sorted_and_sizes_by_their_least():
    rows = [row("a", accelerators=n) for n in (5000, 100, 8, 1000)]
    assert list(groups(rows, scale)) == [
        "1 to 64 devices", "65 to 512 devices", "513 to 4,096 devices", "4,097 devices and more",
    ]  # fmt: skip
    rows = [row("a", accelerator="b"), row("b", accelerator="a")]
    assert list(groups(rows, SPLITS["accelerator"])) == ["a", "b"]


def test_rows_are_apart_by_what_they_state_and_by_software_that_is_only_assumed():
    stated, stack = SPLITS["stated"], SPLITS["stack"]
    assert stated(row("a")) == "all stated"
    assert stated(row("a", inferred=("vpp: 1",))) == "some settings inferred"
    assert stated(row("a", skipped="x")) == "skipped"
    assert stack(row("a")) == "s"
    assert stack(row("a", stack_assumed=True)) == "s (assumed)"


def test_each_way_to_group_holds_every_row():
    rows = [row("a", 1.0, 1.0), row("b", skipped="x", stack=None), row("c", 2.0, 1.0, family="moe", accelerators=None)]
    found = summary(rows)
    assert set(found.by) == set(SPLITS)
    for by in found.by.values():
        assert sum(one.rows for one in by.values()) == found.overall.rows == 3
        assert sum(one.used for one in by.values()) == found.overall.used == 2


def test_accuracy_of_a_group_is_that_of_its_rows():
    rows = [row("a", 1.0, 1.0), row("b", 2.0, 1.0, source="other")]
    found = summary(rows)
    assert dataclasses.asdict(found.by["source"]["paper"]) == dataclasses.asdict(accuracy(rows[:1]))
