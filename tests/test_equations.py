import importlib
import inspect
import pkgutil
import re

import pytest

import clusterplan.formulas
from clusterplan.arrays import FloatArray, floats
from clusterplan.equations import equation, without_markup
from clusterplan.formulas import compute, finish, power, topology

FORMULAS = [
    function
    for found in pkgutil.iter_modules(clusterplan.formulas.__path__, "clusterplan.formulas.")
    for module in [importlib.import_module(found.name)]
    for _, function in inspect.getmembers(module, inspect.isfunction)
    if function.__module__ == found.name and hasattr(function, "__wrapped__")
]


@pytest.mark.parametrize("function", FORMULAS, ids=lambda one: f"{one.__module__}.{one.__name__}")
def test_every_formula_can_be_read_in_a_terminal(function):
    text = equation(function)
    assert text
    assert not re.search(r"[\\{}]|\bnp\.|as_float|asarray|astype|:math:", text)


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (finish.expected_wall_s, "expected_wall_s = ideal_s / useful_fraction"),
        (finish.steps, "steps = ceil(tokens / (global_batch * seq_len))"),
        (
            power.storage_w,
            "storage_w = capacity_bytes * w_per_byte + bytes_per_s * w_per_byte_per_s",
        ),
        (topology.lost_fraction, "lost_fraction = min(blocks / max(switches, 1), 1.0)"),
    ],
)
def test_an_expression_names_what_goes_in(function, said):
    assert equation(function) == said


def test_a_long_expression_comes_in_lines():
    first, *parts = equation(compute.eager_attention_s).split("\n")
    assert first == "eager_attention_s = multiply + traffic / (memory_bytes_per_s * memory_efficiency)"
    assert "traffic = scores * score_traffic_bytes" in parts


def branched(x: float, y: float) -> FloatArray:
    """Changes what it has named."""
    twice, other = floats(2 * x, y)
    if y > 0:
        twice = twice + 1
    rows = twice
    rows[0] += 1
    return rows + other


def test_a_name_that_a_branch_changes_stays_a_name():
    assert equation(branched) == "branched = rows + y"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (r":math:`\frac{a_{lim} + \frac{1}{b}}{1 - \varphi}`", "(a_lim + (1) / (b)) / (1 - φ)"),
        (r":math:`\frac1n \sqrt{2 C M}`", "(1 / n) √(2 C M)"),
        (r":math:`e^{-t / \tau} \le x^2`", "e^(-t / τ) ≤ x²"),
        ("See :func:`power.node_w` [1]_.", "See power.node_w [1]."),
    ],
)
def test_markup_becomes_signs(text, said):
    assert without_markup(text) == said
