"""Keys that a query sees: windows and chunks against counting them one by one."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from clusterplan.operators import Core


def core(keys, **window):
    one = np.array([float(keys)])
    return Core(
        name="",
        module="",
        heads=one * 0 + 8,
        queries=one,
        keys=one,
        qk_dim=192,
        value_dim=128,
        saved_bytes=one,
        **window,
    )


def counted(keys, window, *, is_chunked):
    """Keys that a query sees on the mean, between those with and without its own."""
    position = np.arange(keys)
    start = position // window * window if is_chunked else np.maximum(position - window, 0)
    return float(np.mean(position - start)) + (0.5 if is_chunked else 0.0)


@pytest.mark.parametrize("keys", [1024, 1000, 128, 100])
@pytest.mark.parametrize("window", [128, 1024])
@pytest.mark.parametrize("is_chunked", [False, True])
def test_keys_seen(keys, window, is_chunked):
    seen = core(keys, window=window, is_chunked=is_chunked).seen[0]
    assert_allclose(seen, counted(keys, window, is_chunked=is_chunked), atol=0.51)


def test_no_window_is_half_of_the_square():
    whole = core(4096)
    assert whole.seen == 2048
    assert whole.reach == 4096
    assert whole.flop == 2 * 8 * 4096 * 2048 * 320
    assert whole.full_flop == 2 * whole.flop


@pytest.mark.parametrize("is_chunked", [False, True])
def test_what_eager_kernels_execute_knows_no_window(is_chunked):
    whole, some = core(4096), core(4096, window=512, is_chunked=is_chunked)
    assert some.square_flop == whole.square_flop == 2 * whole.flop
    assert some.flop < whole.flop / 3


def test_window_as_long_as_the_sequence_is_none():
    for is_chunked in (False, True):
        assert core(4096, window=4096, is_chunked=is_chunked).flop == core(4096).flop
        assert core(4096, window=9999, is_chunked=is_chunked).full_flop == core(4096).full_flop


def test_long_sequences_see_the_window_or_half_of_a_chunk():
    assert_allclose(core(10**6, window=128).seen, 128, rtol=1e-4)
    assert_allclose(core(10**6, window=128).reach, 128)
    assert_allclose(core(2**20, window=128, is_chunked=True).seen, 64)


def test_eager_kernels_write_all_scores():
    assert core(4096, window=128).scores == core(4096).scores
