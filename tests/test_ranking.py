"""Order of layouts: pairs, ties, noise, regret."""

import pytest

from clusterplan.ranking import Run, pairs_right, ranking, regret, regret_with_ties, series_of
from clusterplan.validate import Judged


def run(layout, predicted_s, measured_s):
    return Run(layout=layout, predicted_s=predicted_s, measured_s=measured_s)


def judged(layout, predicted_s, measured_s, series="s"):
    return Judged(
        id=layout, source="x", accelerator="y", series=series, layout=layout,
        predicted_step_s=predicted_s, measured_step_s=measured_s,
    )  # fmt: skip


def test_three_layouts_are_three_pairs():
    runs = [run("a", 1.0, 1.0), run("b", 2.0, 2.0), run("c", 3.0, 3.0)]
    assert pairs_right(runs) == (3, 3)
    assert pairs_right([run("a", 3.0, 1.0), *runs[1:]]) == (3, 1)


def test_pairs_within_the_noise_of_repeats_do_not_count():
    runs = [run("a", 2.0, 1.0), run("b", 1.0, 1.02)]
    assert pairs_right(runs) == (0, 0)
    assert pairs_right(runs, noise_fraction=0.01) == (1, 0)


def test_equal_predictions_are_not_right():
    assert pairs_right([run("a", 1.0, 1.0), run("b", 1.0, 2.0)]) == (1, 0)


def test_the_order_of_the_rows_is_no_matter():
    runs = [run("a", 1.0, 4.0), run("b", 2.0, 3.0), run("c", 3.0, 5.0), run("d", 0.5, 1.0)]
    assert pairs_right(runs) == pairs_right(runs[::-1])


def test_regret_is_what_the_predicted_best_takes_longer():
    assert regret([run("a", 1.0, 3.0), run("b", 2.0, 2.0)]) == 0.5
    assert regret([run("a", 1.0, 2.0), run("b", 2.0, 3.0)]) == 0


def test_a_layout_that_was_measured_twice_has_its_medians_and_one_layout_is_no_series():
    rows = [judged("a", 1.0, 1.0), judged("a", 1.0, 3.0), judged("b", 2.0, 4.0), judged("c", 1.0, 1.0, series="t")]
    assert series_of(rows) == {"s": [run("a", 1.0, 2.0), run("b", 2.0, 4.0)]}


@pytest.mark.parametrize("gap", ["series", "layout", "predicted_step_s", "measured_step_s"])
def test_rows_without_a_time_or_a_series_have_no_order(gap):
    import dataclasses

    rows = [judged("a", 1.0, 1.0), dataclasses.replace(judged("b", 2.0, 2.0), **{gap: None})]
    assert ranking(rows) is None


def test_series_are_added_up():
    rows = [judged("a", 1.0, 1.0), judged("b", 2.0, 2.0), judged("c", 1.0, 3.0, "t"), judged("d", 2.0, 2.0, "t")]
    found = ranking(rows)
    assert found is not None
    assert (found.series, found.pairs, found.right, found.right_fraction) == (2, 2, 1, 0.5)
    assert (found.median_regret, found.worst_regret) == (0.25, 0.5)


def test_a_series_without_a_telling_pair_has_no_share():
    found = ranking([judged("a", 1.0, 1.0), judged("b", 2.0, 1.01)])
    assert found is not None
    assert (found.pairs, found.right_fraction) == (0, None)


def test_ties_are_settled_by_preference_and_nothing_else_is():
    fast = Run(layout="a", predicted_s=1.0, measured_s=1.2, preference=(1.0,))
    safe = Run(layout="b", predicted_s=1.03, measured_s=1.0, preference=(0.0,))
    assert regret_with_ties([fast, safe], 0.02) == 0
    assert regret_with_ties([fast, safe], 0.01) == pytest.approx(0.2)
    assert regret_with_ties([fast, safe], 0.0) == regret([fast, safe])
