"""Where numbers come from: figures that remember, formulas that can be watched."""

import copy
import pickle
import threading

import numpy as np
import pytest

from clusterplan.trace import KINDS, Figure, Origin, formula, recording, section

PEAK = Figure(2.0, Origin("accelerators/a", "bf16_tflops", "datasheet", "a sheet"))
SHARE = Figure(0.5, Origin("stacks/s", "vector_traffic", "fitted", "a fit"))


@formula
def rate(peak, share=1.0):
    """What is reached of a peak.

    More words.

    References
    ----------
    .. [1] Somebody, "Something," 2020.

    Examples
    --------
    >>> 1
    1
    """
    return np.asarray(peak * share)


@formula
def twice(peak):
    """Two of them."""
    return 2 * rate(peak)


@formula
def same(value):
    """What came in."""
    return value


@formula
def fails(value):
    """Nothing good."""
    raise ValueError(value)


# Figures --------------------------------------------------------------------------------------------------------------


def test_figure_is_a_plain_float():
    assert PEAK == 2.0
    assert isinstance(PEAK, float)
    assert type(PEAK * 2) is float
    assert np.asarray(PEAK).dtype == np.float64
    assert hash(PEAK) == hash(2.0)
    assert f"{PEAK:.1f}" == "2.0"


@pytest.mark.parametrize("through", [copy.copy, copy.deepcopy, lambda f: pickle.loads(pickle.dumps(f))])
def test_figure_keeps_its_origin(through):
    again = through(PEAK)
    assert again == PEAK
    assert type(again) is Figure
    assert again.origin == PEAK.origin
    assert again.origin.kind in KINDS


# Recorder -------------------------------------------------------------------------------------------------------------


def test_nobody_watches_by_default():
    with recording() as recorder:
        pass
    assert rate(PEAK, SHARE) == 1.0
    assert recorder.calls == []


def test_calls_are_noted_with_inputs_defaults_and_output():
    with recording() as recorder:
        result = rate(PEAK)
    (call,) = recorder.calls
    assert call.name == "test_trace.rate"
    assert call.inputs == {"peak": PEAK, "share": 1.0}
    assert call.inputs["peak"] is PEAK
    assert call.output is result
    assert call.parent is None
    assert call.summary == "What is reached of a peak."
    assert call.references == '.. [1] Somebody, "Something," 2020.'


def test_calls_inside_calls_know_their_parent():
    with recording() as recorder:
        twice(PEAK)
    inner, outer = recorder.calls
    assert (inner.name, outer.name) == ("test_trace.rate", "test_trace.twice")
    assert inner.parent is outer
    assert recorder.open == []


def test_maker_is_the_outermost_that_returned_the_very_object():
    with recording() as recorder:
        result = same(rate(PEAK))
        equal = result.copy()
    assert recorder.maker_of(result).name == "test_trace.same"
    assert recorder.maker_of(equal) is None
    assert recorder.maker_of(None) is None


def test_figures_are_listed_with_their_users():
    with recording() as recorder:
        twice(PEAK)
        rate(PEAK, SHARE)
        rate(3.0)
    figures = recorder.figures()
    assert set(figures) == {("accelerators/a", "bf16_tflops"), ("stacks/s", "vector_traffic")}
    figure, users = figures["accelerators/a", "bf16_tflops"]
    assert figure is PEAK
    assert users == ["test_trace.rate", "test_trace.twice"]
    assert figures["stacks/s", "vector_traffic"][1] == ["test_trace.rate"]


def test_recordings_nest_and_end():
    with recording() as outer:
        rate(1.0)
        with recording() as inner:
            rate(2.0)
        rate(3.0)
    rate(4.0)
    assert [call.inputs["peak"] for call in outer.calls] == [1.0, 3.0]
    assert [call.inputs["peak"] for call in inner.calls] == [2.0]


def test_failed_calls_leave_nothing_open():
    with recording() as recorder:
        with pytest.raises(ValueError, match="no"):
            fails("no")
        rate(1.0)
    assert recorder.open == []
    assert [call.name for call in recorder.calls] == ["test_trace.rate"]
    assert recorder.calls[0].parent is None


def test_a_recording_that_fails_ends():
    with pytest.raises(RuntimeError), recording() as recorder:
        raise RuntimeError
    rate(1.0)
    assert recorder.calls == []


def test_threads_are_watched_apart():
    with recording() as recorder:
        thread = threading.Thread(target=rate, args=(1.0,))
        thread.start()
        thread.join()
    assert recorder.calls == []


def test_formula_keeps_name_and_docstring():
    assert rate.__name__ == "rate"
    assert section(rate, "References").startswith(".. [1]")
    assert section(rate, "Examples") == ">>> 1\n1"
    assert section(rate, "Notes") == ""
    assert section(twice, "References") == ""
