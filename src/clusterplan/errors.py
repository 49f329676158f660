"""Errors that a user can act on: one line each, no traceback; and words that their messages are made of."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


class ClusterplanError(Exception):
    """Something the user can correct; exit code 1.

    Parameters
    ----------
    message : str
        What is wrong, in one line.
    where : str
        File, table and key, or option, that holds it; empty if the message says it.
    nearest : tuple of str
        Right values nearest to what was given, best first.
    """

    exit_code = 1

    def __init__(self, message: str, *, where: str = "", nearest: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.nearest = nearest

    def __str__(self) -> str:
        text = f"{self.where}: {self.message}" if self.where else self.message
        if self.nearest:
            text += f"; did you mean: {', '.join(self.nearest)}?"
        return text


class ProfileError(ClusterplanError):
    """A profile, model or price file that cannot be used."""


class QuantityError(ClusterplanError):
    """A quantity that cannot be read."""


class LayoutError(ClusterplanError):
    """A layout that no run could have: all broken rules at once."""


def shown(value: Any) -> str:
    """A value that was given, in a few printable characters."""
    if isinstance(value, str):
        return f"{value!r}" if len(value) <= 40 else f"{value[:37] + '...'!r}"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) and abs(value) >= 10**20:
        return "a number of more than 20 digits"
    if isinstance(value, dict | list):
        return "a table" if isinstance(value, dict) else "a list"
    return str(value)


def either(names: Iterable[str]) -> str:
    """Names of which one is right.

    >>> either(("air", "liquid", "tanks"))
    'air, liquid or tanks'
    """
    *most, last = names
    return f"{', '.join(most)} or {last}"
