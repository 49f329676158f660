"""Figures at the ends of what they may be: a plan of finite numbers, or a line that says why there is none."""

import math
import warnings

import pytest

from clusterplan import shapes
from clusterplan.catalog import Catalog
from clusterplan.errors import ClusterplanError
from clusterplan.estimate import estimate
from clusterplan.fields import fields_of, range_of
from clusterplan.hardware import Accelerator, Fabric, Stack, Storage, System
from clusterplan.scenario import Scenario, override, resolve
from clusterplan.site import Cooling, Operations, Prices, Site

PARTS = {
    "accelerator": Accelerator, "system": System, "fabric": Fabric, "stack": Stack, "storage": Storage, "site": Site,
    "cooling": Cooling, "operations": Operations, "prices": Prices,
}  # fmt: skip


def ends():
    """Keys of all figures, each with its least value, and with 1 where that is the most."""
    for part, record in PARTS.items():
        for name, entry in fields_of(record).items():
            if entry.base in (int, float) and entry.form == "one":
                least, most, is_excluded = range_of(record, name)
                yield f"{part}.{name}", f"{max(least, 1e-9) if is_excluded else least:g}"
                if most <= 1:
                    yield f"{part}.{name}", f"{most:g}"


def infinite(value, path=""):
    """Ways to numbers that are none."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from infinite(inner, f"{path}.{key}")
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from infinite(inner, f"{path}.{number}")
    elif isinstance(value, float) and not math.isfinite(value):
        yield path


@pytest.mark.parametrize(("key", "value"), list(ends()))
def test_a_figure_at_the_end_of_its_range(key, value):
    asked = {
        "model": "llama-3.1-8b", "hardware": "dgx-h100", "devices": "64", "tp": 2, "pp": 2, "tokens": "100B",
        "sets": [f"{key}={value}"],
    }  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            resolved = resolve(override(Scenario(), asked), Catalog(), lambda one: shapes.parameters(one).active)
            said = estimate(resolved).document()["plan"]
        except ClusterplanError as problem:
            said = str(problem)
    assert said
    assert "\n" not in said
    assert not list(infinite(said))
