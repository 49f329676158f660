"""Where a number comes from: figures that know their source, formulas that can be watched.

A :class:`Figure` is a plain float that remembers the profile line it was read from. A function marked with
:func:`formula` notes each of its calls while a :class:`Recorder` watches; nobody watches during a search, so it
costs one look at a context variable there. The one chosen plan is computed again under a recorder, and
``explain`` and ``evidence`` read what it noted.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

NOT_READ = ("recalled", "announced")
"""What a source may say of a figure: nobody has read it again, or it may still change."""

KINDS = ("datasheet", "measured", "fitted", "assumed")
"""How a figure is known, surest first."""


GIVEN = "given by the user"
"""Source of a figure that was changed on the command line."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a figure was read."""

    profile: str
    """Folder and name of the profile, as ``accelerators/h100-sxm-80gb``."""
    key: str
    """Key in that file."""
    kind: str
    """One of :data:`KINDS`."""
    source: str
    """Who says so."""

    @property
    def status(self) -> str:
        """One of :data:`NOT_READ`, empty for a figure that was read.

        Examples
        --------
        >>> [Origin("x", "y", "datasheet", text).status for text in ("announced: a page", "recalled: a page", "a page")]
        ['announced', 'recalled', '']
        """
        if self.source.startswith("announced"):
            return "announced"
        return "recalled" if "recalled" in self.source.replace(",", " ").replace(":", " ").split() else ""


class Figure(float):
    """A number from a profile, in SI units, that remembers its origin."""

    origin: Origin

    def __new__(cls, value: float, origin: Origin) -> Figure:
        """Make a float that carries ``origin``."""
        figure = super().__new__(cls, value)
        figure.origin = origin
        return figure

    def __reduce__(self) -> tuple[type[Figure], tuple[float, Origin]]:
        return (Figure, (float(self), self.origin))


def figures(record: Any) -> Iterator[Figure]:
    """Figures of a record, of its parts and of its mappings and lists."""
    if isinstance(record, Figure):
        yield record
    elif is_dataclass(record):
        for entry in fields(record):
            yield from figures(getattr(record, entry.name))
    elif isinstance(record, Mapping):
        for inner in record.values():
            yield from figures(inner)
    elif isinstance(record, tuple):
        for inner in record:
            yield from figures(inner)


@dataclass(eq=False)
class Call:
    """One use of a formula: what went in, what came out."""

    name: str
    """Module and function, as ``network.ring_s``."""
    function: Callable[..., Any]
    inputs: dict[str, Any]
    output: Any = None
    parent: Call | None = None

    @property
    def summary(self) -> str:
        """First sentence of the formula's docstring."""
        return (inspect.getdoc(self.function) or "").split("\n\n")[0].replace("\n", " ")

    @property
    def references(self) -> str:
        """The References section of the docstring, empty if there is none."""
        return section(self.function, "References")


def section(function: Callable[..., Any], title: str) -> str:
    """Text of one section of a numpy-style docstring; empty if there is none."""
    lines = (inspect.getdoc(function) or "").splitlines()
    starts = [i for i, line in enumerate(lines[:-1]) if line == title and set(lines[i + 1]) == {"-"}]
    if not starts:
        return ""
    body = []
    for i in range(starts[0] + 2, len(lines)):
        if i + 1 < len(lines) and lines[i + 1] and set(lines[i + 1]) == {"-"}:
            break
        body.append(lines[i])
    return "\n".join(body).strip()


@dataclass
class Recorder:
    """Formula calls in the order in which they ended, outermost last."""

    calls: list[Call] = field(default_factory=list)
    open: list[Call] = field(default_factory=list)

    def maker_of(self, value: Any) -> Call | None:
        """The outermost call that returned this very object, or None."""
        makers = [call for call in self.calls if call.output is value]
        return makers[-1] if makers else None

    def figures(self) -> dict[tuple[str, str], tuple[Figure, list[str]]]:
        """Figures that went into any formula, by profile and key, with the formulas that used them."""
        found: dict[tuple[str, str], tuple[Figure, list[str]]] = {}
        for call in self.calls:
            for given in call.inputs.values():
                for value in given if isinstance(given, tuple) else (given,):
                    if isinstance(value, Figure):
                        _, users = found.setdefault((value.origin.profile, value.origin.key), (value, []))
                        if call.name not in users:
                            users.append(call.name)
        return found


_recorder: ContextVar[Recorder | None] = ContextVar("recorder", default=None)


@contextmanager
def recording() -> Iterator[Recorder]:
    """Watch the formulas that are called inside the ``with`` block."""
    recorder = Recorder()
    token = _recorder.set(recorder)
    try:
        yield recorder
    finally:
        _recorder.reset(token)


def formula(function: Callable[P, R]) -> Callable[P, R]:
    """Mark a pure function as a formula, so that a recorder can see its calls."""
    signature = inspect.signature(function)
    name = f"{function.__module__.rsplit('.', 1)[-1]}.{function.__name__}"

    @functools.wraps(function)
    def watched(*args: P.args, **kwargs: P.kwargs) -> R:
        recorder = _recorder.get()
        if recorder is None:
            return function(*args, **kwargs)
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        parent = recorder.open[-1] if recorder.open else None
        call = Call(name, function, dict(bound.arguments), parent=parent)
        recorder.open.append(call)
        try:
            call.output = function(*args, **kwargs)
        finally:
            recorder.open.pop()
        recorder.calls.append(call)
        return call.output

    return watched
