"""Validation as people and programs read it, and its plot."""

import csv
import io
import json
import xml.etree.ElementTree as ET

import pytest

from clusterplan.report import FORMATS, Page, render, rows_of, validation_document
from clusterplan.report.plot import scatter_svg
from clusterplan.validate import Judged

SVG = "{http://www.w3.org/2000/svg}"


def judged(name, predicted_s=2.0, measured_s=1.6, **more):
    """A row by hand: 25 per cent too slow, 10 per cent too much memory."""
    given = {
        "source": "paper, table 1", "accelerator": "H100", "model": "m", "family": "dense", "accelerators": 8,
        "series": "s", "layout": name, "stack": "megatron-core", "predicted_step_s": predicted_s, "low_s": 1.5,
        "high_s": 2.5, "measured_step_s": measured_s, "error_fraction": predicted_s / measured_s - 1,
        "predicted_allocated_gib": 40.0, "predicted_reserved_gib": 44.0, "predicted_device_gib": 46.0,
        "predicted_peak_gib": 44.0, "memory_definition": "reserved", "measured_peak_gib": 40.0,
        "memory_error_fraction": 0.1, "verdict": "fits", "ran": True,
    }  # fmt: skip
    return Judged(id=name, **given | more)


def skipped(name="c"):
    return Judged(id=name, source="other", accelerator="H100", skipped="vocab is not stated", measured_step_s=1.0)


ROWS = [judged("a"), judged("b", 3.0, 3.0, inferred=("vpp: 1", "precision: bf16"), stack_assumed=True), skipped()]


@pytest.fixture
def document():
    return validation_document(ROWS, ["runs.csv"])


def test_the_document_has_rows_and_a_summary_in_all_ways(document):
    assert document["schema"] == "clusterplan/validation-1"
    assert document["files"] == ["runs.csv"]
    assert [row["id"] for row in document["rows"]] == ["a", "b", "c"]
    assert set(document["summary"]) == {
        "overall", "by_source", "by_accelerator", "by_family", "by_scale", "by_stack", "by_stated",
    }  # fmt: skip
    assert document["summary"]["overall"]["time"]["worst"] == 0.25
    assert document["summary"]["by_source"]["other"]["skipped"] == {"vocab is not stated": 1}


def test_rows_have_the_fields_that_programs_read(document):
    names = {
        "id", "source", "accelerator", "predicted_step_s", "low_s", "high_s", "measured_step_s", "error_fraction",
        "inferred", "stack", "stack_assumed", "skipped", "predicted_allocated_gib", "predicted_reserved_gib",
        "predicted_device_gib", "predicted_peak_gib", "measured_peak_gib", "verdict",
    }  # fmt: skip
    assert names <= set(document["rows"][0])


def test_the_page_says_how_many_were_used_and_why_others_were_not(document):
    text = render(document)
    assert "2 of 3 used" in text
    assert "1  vocab is not stated" in text
    assert "2 compared: median 12.5 %, 90th percentile 22.5 %, worst 25.0 %" in text
    assert "1 of 1 pairs right in 1 series" in text
    assert "What the rows rest on" not in text


def test_every_row_is_listed_if_asked_for(document):
    text = render(document, page=Page(rows=True))
    listed = text[text.index("Rows: step time") :]
    assert "a     " in listed
    assert "+25.0" in listed
    assert "megatron-core; inferred vpp: 1, precision: bf16" in listed
    assert "skipped: vocab is not stated" in listed


@pytest.mark.parametrize("width", [40, 80, 100])
def test_pages_keep_to_their_width(document, width):
    if width >= 80:
        assert max(map(len, render(document, page=Page(width=width, rows=True)).splitlines())) <= width
    assert render(document, page=Page(width=width, rows=True))


def test_csv_has_a_line_a_row(document):
    rows = list(csv.DictReader(io.StringIO(render(document, "csv"))))
    assert [row["id"] for row in rows] == ["a", "b", "c"]
    assert rows[1]["inferred"] == "vpp: 1; precision: bf16"
    assert rows[2]["predicted_step_s"] == ""
    lines = [json.loads(line) for line in render(document, "jsonl").splitlines()]
    assert [line["id"] for line in lines] == ["a", "b", "c"]
    assert len(rows_of(document)) == 3


@pytest.mark.parametrize("form", FORMATS)
def test_nothing_but_skipped_rows_can_be_written(form):
    text = render(validation_document([skipped()]), form, Page(rows=True))
    assert "vocab is not stated" in text


def test_markdown_keeps_names_whole():
    rows = [judged("a", source="an-organisation/a-repository-with-a-long-name")]
    assert "an-organisation/a-repository-with-a-long-name" in render(validation_document(rows), "md")


def circles(svg):
    """Points of a plot: those with a title."""
    return [one for one in ET.fromstring(svg).iter(f"{SVG}circle") if one.find(f"{SVG}title") is not None]


def test_the_plot_has_a_point_for_each_row_with_both_times(document):
    points = circles(scatter_svg(document["rows"]))
    assert [point.find(f"{SVG}title").text for point in points] == ["a: +25.0 %", "b: +0.0 %"]
    assert points[1].get("fill") == "none"  # its software is only assumed
    assert points[0].get("fill") != "none"


def test_a_right_prediction_lies_on_the_diagonal():
    (point,) = circles(scatter_svg(validation_document([judged("a", 10.0, 10.0)])["rows"]))
    # axes from 10 to 100 s, the frame's lower left corner
    assert (float(point.get("cx")), float(point.get("cy"))) == (70.0, 520.0)


def test_a_slow_prediction_lies_above_the_diagonal():
    (point,) = circles(scatter_svg(validation_document([judged("a", 20.0, 10.0)])["rows"]))
    assert float(point.get("cy")) < 520.0


def test_names_are_quoted_in_the_plot():
    rows = validation_document([judged("<a> & 'b'", accelerator='H"100"<')])["rows"]
    assert circles(scatter_svg(rows))[0].find(f"{SVG}title").text.startswith("<a> & 'b'")


def test_a_plot_of_nothing_has_axes():
    svg = scatter_svg([])
    assert circles(svg) == []
    assert "measured" in svg
