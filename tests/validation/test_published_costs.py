"""Published costs of training runs, by the method of those who published them: value lost by the hardware, and energy.

B. Cottier, R. Rahman, L. Fattorini, N. Maslej, and D. Owen, "The rising costs of training frontier AI models,"
arXiv:2405.21015, 2024, with its code and data, epoch-research/training-cost-trends: ``model_costs.csv`` (amortised
hardware and energy, hardware acquisition; 2023 USD), ``training_cost_trends/constants.py``, ``hardware.py`` and
``pricing.py``; chips, hours and days of publication in its older ``identify foundation models/price dataset with FM
indicator.csv``. Release days of chips (A100 40 GB 2020-05-14, 80 GB 2020-11-16, V100 2018-03-27, TPU v4 2021-05-20)
and the power of a TPU v4 (192 W) are recalled. Pay of researchers is another part of their study (0.29 to 0.49 of the
whole) and in none of these figures.

Their hardware loses 0.14 orders of magnitude of value in a year, from the day on which it could be had to the start of
the training; then they take the initial rate for the whole run, where :func:`depreciation_usd` lets it fall.
"""

from dataclasses import dataclass
from datetime import date

import pytest

from clusterplan.formulas.cost import depreciation_usd, energy_usd

DECLINE = 1 - 10**-0.14
"""Of their 0.14 orders of magnitude a year."""
NETWORK_SHARE = 0.19
"""Network between servers, of the price of the whole cluster."""
DAY_S = 86400.0
H_S = 3600.0
KWH_J = 3.6e6


@dataclass(frozen=True)
class Published:
    """One run as they have it."""

    model: str
    chips: int
    hours: float
    acquisition_usd: float
    """Cluster with its network, new."""
    available: date
    """Release of the chip and 90 days."""
    start: date
    tdp_w: float
    server_factor: float
    """Power of a server over that of its chips."""
    load_factor: float
    """Mean over rated power of a server: 0.75 of GPUs, 0.43 of TPUs."""
    pue: float
    usd_per_kwh: float
    cost_usd: float
    """Amortised hardware and energy: what is to be reproduced."""


A100_SERVER = (6.5 / 8) / 0.4
V100_SERVER = ((10 / 16) / 0.3 + (1.5 / 4) / 0.3) / 2
RUNS = [
    Published("GPT-4", 25_000, 2280, 778_066_899, date(2020, 8, 12), date(2022, 5, 12), 400, A100_SERVER, 0.75, 1.25,
              0.0806, 40_695_706),
    Published("GPT-3 175B", 10_000, 355.2, 242_000_906, date(2018, 6, 25), date(2019, 10, 1), 250, V100_SERVER, 0.75,
              1.25, 0.0667, 2_198_105),
    Published("OPT-175B", 1024, 793.5, 32_030_089, date(2021, 2, 14), date(2022, 1, 29), 400, A100_SERVER, 0.75, 1.1,
              0.0832, 733_635),
    Published("Megatron-Turing NLG 530B", 4480, 770, 142_311_688, date(2021, 2, 14), date(2021, 7, 11), 400,
              A100_SERVER, 0.75, 1.1, 0.0718, 3_714_250),
    Published("PaLM 540B", 6144, 1368, 65_515_456, date(2021, 5, 20), date(2021, 12, 8), 192, 1.56, 0.43, 1.1, 0.0832,
              2_864_192),
]  # fmt: skip


def hardware_usd(one: Published) -> float:
    """Value that the cluster loses in the run."""
    age_s = (one.start - one.available).days * DAY_S
    return float(depreciation_usd(one.acquisition_usd, DECLINE, age_s, one.hours * H_S))


def bill_usd(one: Published) -> float:
    """Price of the electricity."""
    mean_w = one.chips * one.tdp_w * one.server_factor * one.load_factor * one.pue
    return float(energy_usd(mean_w * one.hours * H_S, one.usd_per_kwh))


@pytest.mark.parametrize("one", RUNS, ids=lambda one: one.model)
def test_cost_of_a_published_run(one):
    assert hardware_usd(one) + bill_usd(one) == pytest.approx(one.cost_usd, rel=0.10)


@pytest.mark.parametrize("one", RUNS, ids=lambda one: one.model)
def test_energy_is_the_small_part_that_they_say(one):
    """The paper: energy 2 to 6 % with staff in the whole; without it up to a tenth."""
    assert 0.01 < bill_usd(one) / one.cost_usd < 0.10


def test_the_network_is_in_the_price():
    """25,000 shares of a server with A100 at 25,200 USD of 2023."""
    gpt4 = RUNS[0]
    assert gpt4.acquisition_usd * (1 - NETWORK_SHARE) / gpt4.chips == pytest.approx(25_200, rel=0.01)
