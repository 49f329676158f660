"""Settings of all tests."""

import datetime

import pytest
from hypothesis import settings

from clusterplan import scenario

# The same examples each time, however slow the machine: a failure is a change, not luck.
settings.register_profile("steady", derandomize=True, deadline=None)
settings.load_profile("steady")

TODAY = datetime.date(2026, 12, 1)


@pytest.fixture(autouse=True, scope="session")
def _today():
    """One day for all tests: warnings of old prices come with time."""
    patch = pytest.MonkeyPatch()
    patch.setattr(scenario, "today", lambda: TODAY)
    yield
    patch.undo()
