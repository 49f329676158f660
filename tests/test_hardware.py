"""Records of hardware: what follows from their figures."""

from math import hypot

import pytest
from numpy.testing import assert_allclose

from clusterplan.hardware import UNMEASURED_ERROR_FRACTION
from examples import machine


def test_devices_without_runs_have_a_wider_interval():
    known, new = machine("dgx-h100"), machine("mi300x-platform", stack="megatron-core")
    stack = known.stack
    assert stack.on(known.accelerator) is stack
    wider = stack.on(new.accelerator)
    assert_allclose(wider.step_error_fraction, hypot(stack.step_error_fraction, UNMEASURED_ERROR_FRACTION))
    assert wider.step_error_fraction < stack.step_error_fraction + UNMEASURED_ERROR_FRACTION
    assert wider.on(new.accelerator) is wider  # once


@pytest.mark.parametrize(("devices", "domain"), [(36, 36), (72, 72), (144, 72), (128, 64), (100, 72)])
def test_domains_are_used_alike(devices, domain):
    assert machine("gb200-nvl72").system.domain_of(devices) == domain
