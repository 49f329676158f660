"""Collectives beside measured ones: medians by collective, and the shape of the curves."""

import importlib.util
import os
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]


def load():
    spec = importlib.util.spec_from_file_location("collectives", ROOT / "benchmarks" / "collectives.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["collectives"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


collectives = load()
ROWS = list(collectives.rows())


@pytest.mark.parametrize("collective", ["all_reduce", "all_to_all"])
@pytest.mark.parametrize("is_fit", [False, True])
def test_the_median_is_as_promised(collective, is_fit):
    off = [abs(row.error) for row in ROWS if row.collective == collective and row.is_fit == is_fit]
    assert not off or np.median(off) < collectives.GOAL


@pytest.mark.parametrize("fabric", sorted({row.fabric for row in ROWS}))
def test_the_median_holds_on_every_fabric(fabric):
    assert np.median([abs(row.error) for row in ROWS if row.fabric == fabric]) < collectives.GOAL


def test_short_messages_fall_with_the_ranks_as_measured():
    some = sorted(
        (row for row in ROWS if row.file == "simai" and row.collective == "all_gather"), key=lambda r: r.ranks
    )
    for size in {row.message_bytes for row in some}:
        rows = [row for row in some if row.message_bytes == size]
        measured, predicted = (np.array([getattr(r, f"{kind}_s") for r in rows]) for kind in ("measured", "predicted"))
        assert np.corrcoef(np.log(measured), np.log(predicted))[0, 1] > 0.9
        assert np.all(np.diff(predicted) > 0)


def test_every_row_has_a_source_and_is_plausible():
    for row in ROWS:
        assert row.source
        assert -0.95 < row.error < 1


def test_golden_page_is_that_of_the_program():
    if os.environ.get("CLUSTERPLAN_REWRITE_GOLDEN"):
        collectives.DOCUMENT.write_text(collectives.document(ROWS), encoding="utf-8")
    assert collectives.DOCUMENT.read_text(encoding="utf-8") == collectives.document(ROWS)
