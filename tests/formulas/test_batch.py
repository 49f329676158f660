"""Critical batches beside those that published runs used."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from clusterplan.formulas import batch


def test_more_tokens_or_parameters_never_raise_the_loss_nor_lower_the_batch():
    tokens, parameters = np.geomspace(1e9, 1e14, 20), np.geomspace(1e8, 1e13, 20)
    assert np.all(np.diff(batch.final_loss_nats(1e11, tokens)) < 0)
    assert np.all(np.diff(batch.final_loss_nats(parameters, 1e12)) < 0)
    assert np.all(np.diff(batch.critical_batch_by_data_tokens(tokens)) > 0)
    assert np.all(np.diff(batch.critical_batch_by_loss_tokens(batch.final_loss_nats(1e11, tokens))) > 0)


def test_the_fit_in_parameters_of_the_same_paper_agrees_at_20_tokens_each():
    # Zhang et al., arXiv:2410.21676: 93.20 N^0.47 where data and model grow together
    sizes = np.array([85e6, 302e6, 1.2e9])
    assert_allclose(batch.critical_batch_by_data_tokens(20 * sizes), 93.20 * sizes**0.47, rtol=0.01)


@pytest.mark.parametrize(
    ("parameters", "tokens", "used"),
    [(175e9, 300e9, 3.2e6), (405e9, 15.6e12, 16e6)],  # GPT-3 (arXiv:2005.14165), Llama 3 (arXiv:2407.21783)
)
def test_batches_of_published_runs_are_below_the_critical_ones(parameters, tokens, used):
    assert used < batch.critical_batch_by_data_tokens(tokens) < 10 * used
    assert used < batch.critical_batch_by_loss_tokens(batch.final_loss_nats(parameters, tokens)) < 10 * used


def test_array_equals_scalars():
    tokens = np.array([1e10, 1e12, 3e13])
    assert_allclose(
        batch.critical_batch_by_data_tokens(tokens), [float(batch.critical_batch_by_data_tokens(t)) for t in tokens]
    )


def test_steps_of_a_growing_batch_are_those_of_its_small_steps():
    first, last, sequences = 96, 1536, 1_000_000
    seen = steps = 0.0
    while seen < sequences:  # as a program would take them
        seen += first + (last - first) * seen / sequences
        steps += 1
    assert_allclose(batch.ramp_steps(first, last, sequences), steps, rtol=2e-3)
    assert batch.ramp_steps(100, 100, 1000) == 10
    assert batch.ramp_steps(200, 100, 1000) == 10  # never more than the batch


def test_a_growing_batch_costs_what_does_not_shrink_with_it():
    assert_allclose(batch.ramp_s(50.0, 3.0, 0.0, 100, 1000), 30.0)
    assert_allclose(batch.ramp_s(50.0, 3.0, 3.0, 100, 1000), 150.0)
    assert_allclose(batch.with_evaluation_s(97.0, 0.03), 100.0)
