"""What a question takes as given."""

from dataclasses import replace

import pytest

from clusterplan import search
from clusterplan.catalog import Catalog
from clusterplan.errors import LayoutError
from clusterplan.estimate import estimate
from clusterplan.hardware import Fabric
from clusterplan.premises import objective_of, reasons_against
from examples import asked

DAY_S = 86400.0


@pytest.mark.parametrize(
    ("given", "objective"),
    [
        ({"deadline_s": 30 * DAY_S}, "cost"),
        ({"budget_usd": 1e6}, "wall"),
        ({}, "wall"),
        ({"devices": None}, "knee"),
        ({"objective": "energy", "deadline_s": DAY_S}, "energy"),
    ],
)
def test_objective_follows_from_what_is_given(given, objective):
    assert objective_of(asked(**given)) == objective


def test_a_torus_of_other_devices_is_refused():
    torus = Catalog().load(Fabric, "torus-ocs")
    question = asked()
    other = replace(question, hardware=(replace(question.hardware[0], fabric=torus),))
    answer = search.size(other)
    assert not answer.feasible
    assert any("torus-ocs" in text and "default is ndr-fat-tree" in text for text in answer.warnings)
    with pytest.raises(LayoutError, match="dgx-h100 has none"):
        estimate(other)
    own = asked(hardware="tpu-v5p-pod")
    own = replace(own, hardware=(replace(own.hardware[0], fabric=torus),))
    assert not reasons_against(own, 0)
