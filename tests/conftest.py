"""Settings of all tests."""

from hypothesis import settings

# The same examples each time, however slow the machine: a failure is a change, not luck.
settings.register_profile("steady", derandomize=True, deadline=None)
settings.load_profile("steady")
