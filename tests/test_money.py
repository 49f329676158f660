"""Ranges of prices, renting against owning, currency, and prices that have grown old."""

import datetime
import re
from collections.abc import Mapping
from dataclasses import asdict, replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from clusterplan import report, run, scenario, search
from clusterplan.catalog import Catalog
from clusterplan.errors import ClusterplanError, ProfileError
from clusterplan.estimate import estimate
from clusterplan.plan import amount, run_of
from clusterplan.site import RANGED, Prices
from clusterplan.techniques import techniques
from examples import asked

YEAR_S = 8766 * 3600
PLAN = search.size(asked()).plan
PRICES = PLAN.circumstances.prices


def priced(**changes):
    """The run of the plan's layout with other prices."""
    other = replace(PLAN.circumstances, prices=replace(PRICES, **changes))
    return run_of(PLAN.question, other, PLAN.cuts, PLAN.layouts)


def total(**changes):
    return float(priced(**changes).cost.total_usd[0])


# What is bought ------------------------------------------------------------------------------------------------------


def test_a_purchase_is_units_devices_storage_and_watts_at_their_prices():
    outcome = priced()
    bought = run.purchase_of(PLAN.circumstances, outcome)
    units, devices = float(outcome.fleet.units[0]), float(outcome.fleet.devices[0])
    assert_allclose(bought.bought_systems_usd, units * PRICES.system_usd["dgx-h100"])
    assert_allclose(bought.bought_network_usd, devices * PRICES.network_usd_per_device)
    cooling = PLAN.circumstances.cooling.capex_factor
    assert_allclose(bought.bought_building_usd, outcome.energy.peak_it_w * PRICES.facility_usd_per_w * cooling)
    parts = (
        bought.bought_systems_usd,
        bought.bought_network_usd,
        bought.bought_storage_usd,
        bought.bought_building_usd,
    )
    assert_allclose(bought.bought_usd, sum(parts))


def test_a_run_bears_its_share_of_what_is_bought():
    """For all its life, all of the time, without interest or what is left at the end, it bears all of the systems."""
    life = priced(interest_fraction_per_year=0.0, residual_fraction=0.0, utilisation_fraction=1.0)
    bought = run.purchase_of(PLAN.circumstances, life)
    share = float((life.cost.machines_usd / bought.bought_systems_usd)[0])
    assert share == pytest.approx(float(life.progress.wall_s[0]) / PRICES.it_life_s)


def test_a_purchase_is_in_the_report_of_an_owner_only():
    document = search.size(asked()).document()
    assert document["plan"]["cost"]["purchase"]["bought_usd"] > document["plan"]["cost"]["total_usd"]
    assert "purchase $" in report.render(document)
    rent = search.size(replace(asked(), prices=replace(PRICES, basis="rent"))).document()
    assert "    purchase $" not in report.render(rent)
    unsold = replace(PRICES, basis="rent", system_usd={})
    assert search.size(replace(asked(), prices=unsold)).document()["plan"]["cost"]["purchase"] is None


def test_colocation_buys_no_building():
    rented = replace(PLAN.circumstances, prices=replace(PRICES, colocation_usd_per_kw_month=150.0))
    assert run.purchase_of(rented, priced()).bought_building_usd == 0


# Without a price ------------------------------------------------------------------------------------------------------


UNSOLD = {"system_usd": {}}


def without_price(**given):
    """A question whose machine has no price."""
    question = asked(**given)
    return replace(question, prices=replace(question.prices, **UNSOLD))


def test_a_machine_with_a_rent_and_no_price_says_so():
    said = run.no_price(replace(PRICES, **UNSOLD), "dgx-h100")
    assert said.endswith("--set prices.system_usd.dgx-h100=USD gives one; it has a rent: --set prices.basis=rent")
    never = replace(PRICES, **UNSOLD, rent_usd_per_device_h={})
    assert run.no_price(never, "dgx-h100").endswith("--set prices.system_usd.dgx-h100=USD gives one")


def test_without_a_price_only_money_is_missing():
    outcome = priced(**UNSOLD)
    assert (outcome.cost, outcome.usd_per_million_tokens, outcome.usd_per_device_h) == (None, None, None)
    for part in ("fleet", "progress", "energy", "carbon"):
        assert repr(getattr(outcome, part)) == repr(getattr(priced(), part))


@pytest.mark.parametrize("objective", ["wall", "energy", "carbon", "water", "devices"])
def test_a_plan_without_a_price_is_as_good_as_with_one(objective):
    given = {"objective": objective, "devices": (8, 64), "deadline_s": 40 * 86400.0}
    one, other = search.size(asked(**given)).plan, search.size(without_price(**given)).plan
    error = one.question.machine.stack.ranking_error_fraction
    limit = (1 + error) / (1 - error) * (1 + 1e-9)
    amounts = [float(amount(objective, plan.run)[0]) for plan in (one, other)]
    assert max(amounts) <= min(amounts) * limit
    assert other.money.rented_usd is not None
    assert (other.money.low_usd, other.money.owned_usd, other.money.purchase) == (None, None, None)
    assert other.money.break_even_utilisation_fraction is None


def test_of_plans_without_water_that_of_least_energy_is_taken():
    answer = search.size(without_price(objective="water", cooling="air-dry-cooler", hardware="dgx-a100"))
    assert float(answer.plan.run.energy.water_m3[0]) == 0
    assert any("of these that of least energy is taken" in text for text in answer.warnings)


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ({"objective": "cost"}, "all objectives but cost need none"),
        ({"deadline_s": 40 * 86400.0}, "--objective devices, the fewest, needs none"),
        ({"devices": None}, "--devices N, the shortest run on them, needs none"),
        ({"budget_usd": 1e6}, "a budget needs one"),
        ({"budget_usd": 1e6, "objective": "energy"}, "a budget needs one"),
    ],
)
@pytest.mark.parametrize("ask", [search.size, search.compare])
def test_what_needs_a_price_asks_for_it(ask, given, hint):
    with pytest.raises(ClusterplanError, match=re.escape(hint)) as caught:
        ask(without_price(**given))
    assert "--set prices.system_usd.dgx-h100=USD gives one" in str(caught.value)
    assert caught.value.exit_code == 1


def test_one_layout_needs_a_price_only_for_what_is_asked_of_money():
    layout = {"devices": (8, 8), "tp": 2}
    for given in ({}, {"deadline_s": 86400.0}, {"clock": "auto"}, {"clock": "auto", "objective": "energy"}):
        plan = estimate(without_price(**layout, **given)).plan
        assert plan.run.cost is None
    for given in ({"objective": "cost"}, {"budget_usd": 1.0}, {"clock": "auto", "deadline_s": 86400.0}):
        with pytest.raises(ClusterplanError, match="gives one"):
            estimate(without_price(**layout, **given))


def test_systems_with_and_without_a_price_stand_side_by_side():
    question = asked(hardware=("dgx-h100", "dgx-h200", "hgx-a800"), devices=(8, 32))
    document = report.comparison([answer.document() for answer in search.compare(question)])
    assert [one["plan"]["cost"]["total_usd"] is None for one in document["columns"]] == [False, False, True]
    assert document["winners"]["total_usd"] != "hgx-a800"
    row = next(line.split() for line in report.render(document).splitlines() if line.startswith("  cost "))
    assert row[-1] == "-"
    assert "hgx-a800: there is no cost: price list" in " ".join(report.render(document).split())


def test_of_several_systems_that_without_a_price_is_left_out_of_what_is_chosen_by_cost():
    question = asked(hardware=("dgx-h100", "hgx-a800"), devices=(8, 32), objective="cost")
    answer = search.size(question)
    assert answer.plan.question.machine.system.name == "dgx-h100"
    assert any("no price of hgx-a800" in text for text in answer.warnings)
    one, other = search.compare(question)
    assert (one.feasible, other.feasible) == (True, False)
    with pytest.raises(ClusterplanError, match=r"no price of hgx-a800.*; price list .* has no price of gh200-quad"):
        search.size(asked(hardware=("hgx-a800", "gh200-quad"), objective="cost"))


def test_techniques_save_no_money_without_a_price():
    plan = search.size(without_price()).plan
    found = [asdict(one) for one in techniques(plan)]
    assert {one["saved_usd"] for one in found} == {None}
    document = search.size(without_price()).document()
    text = report.render({**document, "plan": {**document["plan"], "techniques": found}})
    assert "time saved" in text
    assert "cost saved" not in text


def test_the_clock_of_the_fewest_devices_without_a_price_is_that_of_least_energy():
    given = {"devices": (8, 8), "tp": 2, "clock": "auto"}
    fewest, least = (estimate(without_price(objective=name, **given)).plan for name in ("devices", "energy"))
    assert fewest.question.clock_fraction == least.question.clock_fraction


# Ranges ---------------------------------------------------------------------------------------------------------------


def test_likely_cost_lies_between_the_ends():
    cost = search.size(asked()).document()["plan"]["cost"]
    assert cost["low_usd"] < cost["total_usd"] < cost["high_usd"]


@pytest.mark.parametrize("key", [key for key in PRICES.low if "." not in key] + ["system_usd.dgx-h100"])
def test_each_range_widens_the_whole(key):
    ends = [total_of(PRICES.changed({key: value})) for value in (PRICES.low[key], PRICES.high[key])]
    assert ends[0] <= total() <= ends[1]


def total_of(prices):
    return float(
        run_of(PLAN.question, replace(PLAN.circumstances, prices=prices), PLAN.cuts, PLAN.layouts).cost.total_usd[0]
    )


def test_price_list_without_ranges_gives_none():
    assert total(low={}, high={}) == total()
    document = search.size(replace(asked(), prices=replace(PRICES, low={}, high={}))).document()
    assert document["plan"]["cost"]["low_usd"] is None
    assert " to " not in report.render(document).partition("Cost (")[2].partition("Alternatives")[0]


@pytest.mark.parametrize("figure", [name for name in RANGED if "rent" not in name and "reserved" not in name])
def test_higher_price_is_never_cheaper(figure):
    key = f"{figure}.dgx-h100" if isinstance(getattr(PRICES, figure), Mapping) else figure
    value = PRICES.figure(key) or 10.0
    costs = [total_of(PRICES.changed({key: factor * value})) for factor in (1.0, 1.5, 3.0)]
    assert costs == sorted(costs)


@pytest.mark.parametrize(
    ("end", "wrong"),
    [
        ({"network_usd_per_device": 1e6}, "at most"),
        ({"system_usd.nothing": 1.0}, "no figure"),
        ({"it_life_s": 1.0}, "no figure"),
    ],
)
def test_ranges_that_cannot_be(tmp_path, end, wrong):
    entries = ", ".join(f'"{key}" = {value}' for key, value in end.items())
    text = Catalog().path("prices", PRICES.name).read_text(encoding="utf-8")
    (tmp_path / "prices").mkdir()
    file = tmp_path / "prices" / "own.toml"
    tables, _, _ = text.replace(PRICES.name, "own").partition("# --- Ranges")
    file.write_text(f'{tables}\n[[assumed]]\nsource = "test"\nlow = {{ {entries} }}\nhigh = {{ {entries} }}\n')
    with pytest.raises(ProfileError, match=wrong):
        Catalog([tmp_path]).load(Prices, "own")


def test_a_figure_of_the_user_has_no_range():
    changed = asked(sets={"prices.system_usd.dgx-h100": "1e6"}).prices
    assert "system_usd.dgx-h100" not in changed.low
    assert "system_usd.dgx-h200" in changed.low
    with pytest.raises(ProfileError, match="price list"):
        asked(sets={"prices.low.network_usd_per_device": "1"})


# Rent and own ---------------------------------------------------------------------------------------------------------


def test_rent_and_own_are_those_of_the_two_bases():
    money = PLAN.money
    assert money.owned_usd == total()
    assert_allclose(money.rented_usd, total(basis="rent"))


def test_at_break_even_owning_costs_as_much_as_renting():
    """Found by the formula, checked by the whole run at that utilisation."""
    machines = replace(PRICES, staff_persons=0.0, storage_usd_per_tb=0.0)  # the storage is owned either way
    plan = search.size(replace(asked(), prices=machines)).plan
    even = plan.money.break_even_utilisation_fraction
    assert 0 < even < 1
    assert_allclose(total_of(replace(machines, utilisation_fraction=even)), plan.money.rented_usd)


def test_owning_never_pays_where_the_staff_alone_costs_more_than_the_rent():
    assert PLAN.money.break_even_utilisation_fraction is None
    assert "owning never pays" in report.render(search.size(asked()).document())


def test_reserved_term_is_paid_to_its_end():
    outcome = priced(basis="rent", rent_term="1-year")
    rate = PRICES.reserved_1_year_usd_per_device_h["dgx-h100"]
    assert outcome.progress.wall_s[0] < YEAR_S
    assert_allclose(outcome.cost.rent_usd, outcome.fleet.devices * 8766 * rate)


def test_minimum_rent():
    wall = float(PLAN.run.progress.wall_s[0])
    assert total(basis="rent", minimum_rent_s=wall / 2) == total(basis="rent")
    twice = priced(basis="rent", minimum_rent_s=2 * wall).cost.rent_usd
    assert_allclose(twice, 2 * priced(basis="rent").cost.rent_usd)


def test_term_without_a_price_asks_for_it():
    prices = replace(PRICES, basis="rent", rent_term="3-year", reserved_3_year_usd_per_device_h={})
    said = run.no_price(prices, "dgx-h100")
    assert "no rent for three years of dgx-h100; --set prices.reserved_3_year_usd_per_device_h.dgx-h100=USD" in said
    assert not run.is_priced(prices, "dgx-h100")


def test_colocation_in_place_of_a_building():
    outcome = priced(colocation_usd_per_kw_month=150.0)
    assert outcome.cost.facility_usd is None
    assert outcome.cost.upkeep_usd is None
    months = outcome.progress.wall_s / (YEAR_S / 12)
    assert_allclose(outcome.cost.colocation_usd, outcome.energy.peak_it_w / 1e3 * 150 * months)


def test_rented_storage():
    outcome = priced(storage_usd_per_tb_month=20.0)
    assert outcome.cost.storage_usd > 0
    assert outcome.cost.support_usd < PLAN.run.cost.support_usd


def test_lost_value_in_place_of_an_annuity():
    outcome = priced(decline_fraction_per_year=0.276, utilisation_fraction=1.0)
    price = outcome.fleet.units * PRICES.system_usd["dgx-h100"]
    years = outcome.progress.wall_s / YEAR_S
    assert_allclose(outcome.cost.machines_usd, price * (1 - 0.724**years))


@pytest.mark.parametrize("changes", [{}, {"basis": "rent"}, {"colocation_usd_per_kw_month": 150.0}])
def test_parts_add_up_and_device_hours_are_delivered_ones(changes):
    outcome = priced(**changes)
    parts = [getattr(outcome.cost, name) for name in outcome.cost.__dataclass_fields__]
    assert_allclose(sum(part for part in parts if part is not None), outcome.cost.total_usd)
    hours = outcome.fleet.used_devices * outcome.progress.ideal_s / 3600
    assert_allclose(outcome.usd_per_device_h * hours, outcome.cost.total_usd)


@pytest.mark.parametrize("changes", [{}, {"basis": "rent"}])
def test_energy_at_the_meter_is_that_of_the_equipment_times_pue(changes):
    energy = priced(**changes).energy
    assert_allclose(energy.facility_kwh, energy.it_kwh * energy.pue)
    assert_allclose(energy.mean_facility_w, energy.it.total_w + energy.building.total_w)


# Currency -------------------------------------------------------------------------------------------------------------


def test_amounts_in_another_currency():
    answer = search.size(asked(currency="EUR", usd_rate=0.92, rate_date="2026-11-30"))
    document, usd = answer.document(), search.size(asked()).document()
    cost = document["plan"]["cost"]
    assert cost["total_usd"] == usd["plan"]["cost"]["total_usd"]
    assert_allclose(cost["in_currency"]["total"], 0.92 * cost["total_usd"])
    text = report.render(document)
    assert "EUR" in text
    assert "$" not in text
    assert "amounts in EUR, 0.92 for a USD on 2026-11-30" in text
    assert "EUR" not in report.render(usd)


def test_a_currency_without_a_rate_asks_for_it():
    with pytest.raises(ClusterplanError, match="no rate is built in; --usd-rate"):
        asked(currency="EUR")
    with pytest.raises(ClusterplanError, match="Give --currency"):
        asked(usd_rate=0.92)


def test_the_day_of_a_rate_is_saved_with_it():
    resolved = asked(currency="JPY", usd_rate=150.0)
    assert resolved.scenario.rate_date == scenario.today().isoformat()
    saved = scenario.parse_scenario(scenario.dump(resolved.scenario))
    assert (saved.currency, saved.usd_rate, saved.rate_date) == ("JPY", 150.0, resolved.scenario.rate_date)


def test_another_currency_needs_another_rate():
    base = scenario.override(scenario.Scenario(), {"currency": "EUR", "usd_rate": "0.92"})
    assert scenario.override(base, {"currency": "GBP"}).usd_rate is None
    assert scenario.override(base, {"currency": "GBP", "usd_rate": "0.8"}).usd_rate == 0.8


@pytest.mark.parametrize(
    "given", [{"currency": "euro"}, {"usd_rate": "-1"}, {"usd_rate": "nan"}, {"rate_date": "yesterday"}, {"clock": "2"}]
)
def test_what_is_no_currency_rate_day_or_clock(given):
    with pytest.raises(ClusterplanError, match=r"must be|more than 1"):
        scenario.override(scenario.Scenario(), given)


# Age ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("days", "warned"), [(0, False), (365, False), (366, True)])
def test_prices_older_than_a_year_are_warned_of(monkeypatch, days, warned):
    monkeypatch.setattr(scenario, "today", lambda: datetime.date(2026, 11, 30) + datetime.timedelta(days=days))
    texts = search.size(asked()).warnings
    assert any("price list list-2026-11 is of 2026-11-30" in text for text in texts) == warned


def test_no_money_moves_time_or_energy():
    for changes in ({"basis": "rent"}, {"low": {}, "high": {}}, {"colocation_usd_per_kw_month": 150.0}):
        outcome = priced(**changes)
        assert np.array_equal(outcome.progress.wall_s, PLAN.run.progress.wall_s)
        assert np.array_equal(outcome.energy.facility_kwh, PLAN.run.energy.facility_kwh)
