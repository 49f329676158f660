"""docs/validation.md says what the program says today.

After a change that is meant, ``python benchmarks/validation.py`` writes it anew, as does
``CLUSTERPLAN_REWRITE_GOLDEN=1 pytest -k golden``; read the difference.
"""

import csv
import dataclasses
import importlib.util
import os
import re
import sys
from pathlib import Path

import pytest

from clusterplan.accuracy import Accuracy, Verdicts
from clusterplan.catalog import Catalog, measured_files
from clusterplan.measured import Measured, read_measured
from clusterplan.ranking import Ranking
from clusterplan.report import validation_document
from clusterplan.report.plot import scatter_svg
from clusterplan.validate import Errors, Judged

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "validation.py"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("validation_script", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules["validation_script"] = module
    spec.loader.exec_module(module)
    return module


def test_golden_document_of_the_validation(script):
    catalog = Catalog()
    rows = script.judged(catalog)
    if os.environ.get("CLUSTERPLAN_REWRITE_GOLDEN"):
        script.main()
    assert script.TEXT.read_text(encoding="utf-8") == script.text(rows, catalog)
    assert script.PLOT.read_text(encoding="utf-8") == scatter_svg(validation_document(rows)["rows"])


def test_held_out_errors_are_those_of_rows_that_ship(script):
    ids = {row.id for file in measured_files() for row in read_measured(file)}
    with script.HELD_OUT.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) > 0.9 * len(ids)
    assert {row["id"] for row in rows} <= ids
    lines = script.held_out()
    assert [line[0] for line in lines[:3]] == ["all", "dense", "moe"]
    assert int(lines[0][1]) == len(rows) == int(lines[1][1]) + int(lines[2][1])


def test_fitted_constants_are_listed_with_what_they_were_fitted_on(script):
    found = script.fitted(Catalog())
    keys_of_one = [key for by in found.values() for key in by.get("fsdp1", [])]
    assert {"dp_hidden_fraction", "kernel_share"} <= set(keys_of_one)
    assert all(keys for by in found.values() for keys in by.values())


def test_every_column_and_every_field_of_measured_runs_is_explained():
    text = (SCRIPT.parents[1] / "docs" / "measured-runs.md").read_text(encoding="utf-8")
    columns, _, results = text.partition("## What comes out")

    def unexplained(part, *records):
        names = {field.name for record in records for field in dataclasses.fields(record)}
        return names - set(re.findall(r"`(\w+)`", part))

    assert unexplained(columns, Measured) == {"line"}
    assert unexplained(results, Judged, Errors, Verdicts, Ranking, Accuracy) == {"preference"}  # not in the document
