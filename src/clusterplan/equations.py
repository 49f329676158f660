"""A formula as it is read in a terminal: its notes without markup, or else the expression that it returns."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any

from clusterplan.trace import section

MOST_LETTERS = 160
"""A longer expression is given with its intermediate results, a line each."""


def equation(function: Callable[..., Any]) -> str:
    """How a formula computes: its notes, or else the expression that it returns.

    Examples
    --------
    >>> from clusterplan.formulas.cost import staff_usd
    >>> equation(staff_usd)
    'staff_usd = people * usd_per_person_year * (duration_s / SECONDS_PER_YEAR)'
    """
    notes = without_markup(section(function, "Notes"))
    if notes:
        return notes
    body = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(function)))).body[0]
    assert isinstance(body, ast.FunctionDef)
    result = next((one.value for one in reversed(body.body) if isinstance(one, ast.Return)), None)
    if result is None:
        return ""
    named = _named(body)
    whole = ast.unparse(_Plain(named).visit(deepcopy(result)))
    if len(whole) <= MOST_LETTERS:
        return f"{function.__name__} = {whole}"
    renamed = {name: value for name, value in named.items() if isinstance(value, ast.Name)}
    short = _Plain(renamed).visit(result)
    used = dict.fromkeys(one.id for one in ast.walk(short) if isinstance(one, ast.Name))
    parts = {function.__name__: short} | {name: named[name] for name in used if name in {*named} - {*renamed}}
    return "\n".join(f"{name} = {ast.unparse(part)}" for name, part in parts.items())


_CONVERSIONS = {"as_float", "asarray", "astype"}
_SHORT_NAMES = {"maximum": "max", "minimum": "min"}


class _Plain(ast.NodeTransformer):
    """Takes conversions and numpy's name out of an expression, and puts in what intermediate names stand for."""

    def __init__(self, named: Mapping[str, ast.expr]) -> None:
        self.named = named

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """What the name stands for, if that is known."""
        return deepcopy(self.named.get(node.id, node))

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        """A function of numpy by its own name."""
        if isinstance(node.value, ast.Name) and node.value.id == "np":
            return ast.Name(_SHORT_NAMES.get(node.attr, node.attr))
        self.generic_visit(node)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """The array alone, where only its type is changed."""
        called = node.func
        name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
        if name in _CONVERSIONS:
            array = called.value if isinstance(called, ast.Attribute) and name == "astype" else node.args[0]
            return self.visit(array)
        if isinstance(called, ast.Attribute):
            node.func = self.visit_Attribute(called)
        node.args = [self.visit(one) for one in node.args]
        return node


def _named(body: ast.FunctionDef) -> dict[str, ast.expr]:
    """What the names of a function's intermediate results stand for, those of its branches left out."""
    named: dict[str, ast.expr] = {}
    for statement in body.body:
        if isinstance(statement, ast.Assign):
            target, value = statement.targets[0], statement.value
        elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
            target, value = statement.target, statement.value
        else:
            for inner in ast.walk(statement):  # a name that a branch or a loop changes stays a name
                if isinstance(inner, ast.Name | ast.Subscript) and isinstance(inner.ctx, ast.Store):
                    named.pop(ast.unparse(inner).split("[")[0], None)
            continue
        plain = _Plain(dict(named))
        for name, part in _assigned(target, value):
            named[name] = plain.visit(deepcopy(part))
    return named


def _assigned(target: ast.expr, value: ast.expr) -> list[tuple[str, ast.expr]]:
    """Names and values of an assignment; of ``a, b = floats(x, y)`` and its like each name with its value."""
    if isinstance(target, ast.Name):
        return [(target.id, value)]
    parts: list[ast.expr] = []
    if isinstance(value, ast.Tuple):
        parts = value.elts
    elif isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "floats":
        parts = value.args
    elif isinstance(value, ast.GeneratorExp) and isinstance(value.generators[0].iter, ast.Tuple):
        parts = value.generators[0].iter.elts
    names = target.elts if isinstance(target, ast.Tuple) else []
    return [(name.id, part) for name, part in zip(names, parts, strict=False) if isinstance(name, ast.Name)]


_SIGNS: Mapping[str, str] = {
    r"\cdot": "·", r"\times": "×", r"\tau": "τ", r"\lambda": "λ", r"\mu": "μ", r"\sigma": "σ", r"\eta": "η",
    r"\sqrt": "√", r"\ll": "≪", r"\le": "≤", r"\ge": "≥", r"\approx": "≈", r"\left": "", r"\right": "", r"\,": " ",
    r"\;": " ", r"\ln": "ln", r"\exp": "exp", r"\min": "min", r"\max": "max", r"\sum": "Σ", r"\int": "∫",
    r"\infty": "∞", r"\quad": "  ", r"\alpha": "α", r"\beta": "β", r"\gamma": "γ", r"\rho": "ρ", r"\Delta": "Δ",
    r"\delta": "δ", r"\phi": "φ", r"\varphi": "φ", r"\varepsilon": "ε", r"\Phi": "Φ", r"\Lambda": "Λ", r"\pi": "π",
    r"\log": "log", r"\cosh": "cosh", r"\sinh": "sinh", r"\lceil": "⌈", r"\rceil": "⌉", r"\lfloor": "⌊",
    r"\rfloor": "⌋",
}  # fmt: skip


def without_markup(text: str) -> str:
    r"""Text of a docstring's section as it is read in a terminal.

    Examples
    --------
    >>> without_markup(r"It is :math:`\frac{P_{acc}}{1 - \varphi}` [1]_, see :func:`power.node_w`.")
    'It is (P_acc) / (1 - φ) [1], see power.node_w.'
    """
    text = re.sub(r":math:`([^`]*)`", lambda match: _mathematics(match[1]), text)
    text = re.sub(r"\.\. math::\s*((?:.+\n?)+)", lambda match: _mathematics(match[1]), text)
    text = re.sub(r":(?:func|mod|data|class|attr):`~?([^`]*)`", r"\1", text).replace("``", "")
    text = re.sub(r"(?m)^\.\. \[(\d+)\] ", r"[\1] ", text)
    text = re.sub(r"\s*\[(\d+)\]_", r" [\1]", text)
    return "\n".join(" ".join(part.split()) for part in re.split(r"\n\s*\n|\n(?=\[\d+\] )", text) if part.strip())


def _mathematics(text: str) -> str:
    """A formula of TeX in one line of signs."""
    text = re.sub(r"\\(?:text|mathrm|operatorname)\{([^{}]*)\}", r"\1", text)
    text = re.sub(r"\\bar\s*(\w)", "\\1\u0304", text)
    text = re.sub(r"\\frac(\w)(\w)", r"(\1 / \2)", text)
    text = re.sub(r"([_^])\{(\w+)\}", r"\1\2", text)
    for _ in range(3):  # one inside the other
        text = re.sub(r"([_^])\{([^{}]*)\}", r"\1(\2)", text)
        text = re.sub(r"\\[dt]?frac\{([^{}]*)\}\s*\{([^{}]*)\}", r"(\1) / (\2)", text)
    for sign in sorted(_SIGNS, key=len, reverse=True):
        text = text.replace(sign, _SIGNS[sign])
    return re.sub(r"\{([^{}]*)\}", r"(\1)", text).replace("^2", "²")
