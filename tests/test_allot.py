"""Units of each kind at each site: as brute force finds them."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from clusterplan.allot import Bounds, Offers, allot, keeps, measured, value, wall_s

INF = np.inf


def drawn(seed, *, kinds=2, sites=2, most=5):
    """A small random question."""
    rng = np.random.default_rng(seed)
    pairs = [(k, s) for k in range(kinds) for s in range(sites)]
    n = len(pairs)
    kind, site = np.array(pairs).T
    speed = rng.uniform(1, 4, kinds)[kind]
    offers = Offers(
        kind=kind,
        site=site,
        devices=rng.choice([4, 8], kinds)[kind],
        least=rng.integers(1, 3, n),
        most=rng.integers(3, most + 1, n),
        tokens_per_s=speed,
        power_w=speed * rng.uniform(0.5, 1.5, n) * 1e6,
        cost=speed * rng.uniform(0.5, 1.5, n),
        energy=speed * rng.uniform(0.5, 1.5, n),
        carbon=speed * rng.uniform(0.5, 1.5, n),
        water=speed * rng.uniform(0.5, 1.5, n),
    )
    tokens = 1e6
    rate = float(speed @ offers.most)
    bounds = Bounds(
        tokens=tokens,
        goodput_fraction=0.9,
        lines_s=np.array([0.0, *rng.uniform(0, 0.2, sites - 1).cumsum() * tokens / rate]),
        fixed={"cost": rng.uniform(0, 3)},
        deadline_s=tokens / rate * rng.uniform(1.5, 5),
        budget_usd=rng.choice([INF, tokens * rng.uniform(0.7, 1.5)]),
        site_power_w=np.where(rng.random(sites) < 0.5, INF, rng.uniform(5e6, 30e6, sites)),
        counts=rng.integers(8, 8 * most * sites, kinds),
        devices=(1, int(rng.integers(20, 200))),
    )
    return offers, bounds


def by_hand(offers, bounds, objective):
    """Least value of all that keeps to the bounds."""
    spans = [range(m + 1) for m in offers.most]
    tried = (np.array(units) for units in itertools.product(*spans))
    return min(
        (value(offers, bounds, u, objective) for u in tried if u.any() and keeps(offers, bounds, u)), default=None
    )


@pytest.mark.parametrize("objective", ["cost", "wall", "energy", "carbon", "water", "devices"])
@pytest.mark.parametrize("seed", range(12))
def test_equals_brute_force(seed, objective):
    shape = [{"kinds": 2, "sites": 2}, {"kinds": 3, "sites": 1}, {"kinds": 1, "sites": 3}][seed % 3]
    offers, bounds = drawn(seed, **shape)
    units, least = allot(offers, bounds, objective), by_hand(offers, bounds, objective)
    assert (units is None) == (least is None)
    if units is not None:
        assert keeps(offers, bounds, units)
        assert_allclose(value(offers, bounds, units, objective), least, rtol=1e-5)


def test_the_draws_have_both_answers():
    answers = [by_hand(*drawn(seed, kinds=3, sites=1), "cost") is None for seed in range(1, 12, 3)]
    assert not all(answers)


def simple(**changes):
    one = np.ones(2)
    figures = {
        "kind": np.array([0, 0]),
        "site": np.array([0, 1]),
        "devices": np.array([8, 8]),
        "least": np.array([1, 1]),
        "most": np.array([1000, 1000]),
        "tokens_per_s": one,
        "power_w": 1e4 * one,
        "cost": np.array([1.0, 2.0]),
        "energy": one,
        "carbon": one,
        "water": one,
    }
    return Offers(**(figures | changes))


def bounded(**changes):
    figures = {"tokens": 1e6, "lines_s": np.zeros(2), "site_power_w": np.full(2, INF), "counts": np.array([10**6])}
    return Bounds(**(figures | changes))


def test_caps_of_sites_bind_exactly():
    bounds = bounded(deadline_s=1e6 / 700, site_power_w=np.array([4.505e6, INF]))
    units = allot(simple(), bounds, "cost")
    assert units.tolist() == [450, 250]
    assert not keeps(simple(), bounds, units + np.array([1, -1]))


def test_counts_bind_exactly():
    units = allot(simple(kind=np.array([0, 1])), bounded(deadline_s=1e6 / 700, counts=np.array([4007, 10**6])), "cost")
    assert units.tolist() == [500, 200]


def test_another_kind_makes_nothing_dearer():
    for seed in range(6):
        offers, bounds = drawn(seed, kinds=3, sites=1)
        both = allot(offers, bounds, "cost")
        for kind in range(3):
            alone = allot(offers.take(np.array([kind])), bounds, "cost")
            if alone is not None:
                whole = value(offers, bounds, both, "cost")
                assert whole <= value(offers.take(np.array([kind])), bounds, alone, "cost") * (1 + 1e-5)


def test_slower_lines_are_never_faster():
    walls = []
    for line in (0.0, 10.0, 100.0, 1000.0, 1e4):
        units = allot(simple(most=np.array([5, 5])), bounded(lines_s=np.array([0.0, line * 1000])), "wall")
        walls.append(wall_s(simple(), bounded(lines_s=np.array([0.0, line * 1000])), units))
    assert walls == sorted(walls)
    assert walls[0] == 1e5
    assert walls[-1] == 2e5  # one site alone


def test_without_lines_all_stands_at_one_site():
    units = allot(simple(most=np.array([5, 5])), bounded(lines_s=np.zeros(1)), "wall")
    assert sorted(units.tolist()) == [0, 5]


def test_the_power_of_a_site_alone_can_be_the_least():
    bounds = bounded(deadline_s=1e6 / 1500)
    units = allot(simple(), bounds, "power 0")
    assert units[0] == 500
    assert measured(simple(), bounds, units, "power 0") == 5e6
    assert measured(simple(), bounds, units, "kind 0") == 8 * units.sum()


def test_the_solver_prints_nothing(capfd):
    for seed in range(30):
        offers, bounds = drawn(seed, kinds=3, sites=3, most=900)
        allot(offers, bounds, "cost")
        allot(offers, bounds, "wall")
    assert capfd.readouterr() == ("", "")


def test_of_units_without_any_water_the_cheapest_are_taken():
    offers = simple(water=np.zeros(2), cost=np.array([2.0, 1.0]))
    assert allot(offers, bounded(), "water").tolist() == allot(offers, bounded(), "cost").tolist()
    units = allot(replace(offers, water=np.array([0.0, 1.0])), bounded(), "water")
    assert units[0] > 0
    assert units[1] == 0


@pytest.mark.parametrize("field", ["water_m3", "carbon_kg"])
def test_what_the_whole_job_may_take_is_kept(field):
    offers, bounds = drawn(3)
    name = field.split("_")[0]
    least = value(offers, bounds, allot(offers, bounds, name), name)
    just = replace(bounds, **{field: 1.0001 * least})
    assert keeps(offers, just, allot(offers, just, "cost"))
    assert allot(offers, replace(bounds, **{field: 0.99 * least}), "cost") is None
