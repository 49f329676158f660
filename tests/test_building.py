"""The building on its site: what holds for every shipped site and design."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from clusterplan import building
from clusterplan.building import cooling_year, supply
from clusterplan.formulas import facility, weather
from clusterplan.reading import check
from clusterplan.site import Cooling, Site
from examples import CATALOG

SITES = [CATALOG.load(Site, name) for name in CATALOG.names(Site)]
DESIGNS = [CATALOG.load(Cooling, name) for name in CATALOG.names(Cooling)]
every_design = pytest.mark.parametrize("design", DESIGNS, ids=lambda design: design.name)
SOME = [site for site in SITES if site.name in {"sg-singapore", "us-arizona", "us-virginia", "se-lulea", "cn-guizhou"}]


def share_of(design):
    return 0.0 if design.liquid is None else design.immersion_fraction or 0.85


def test_there_are_sites_on_all_continents():
    names = CATALOG.names(Site)
    assert len(names) >= 40
    assert {name.split("-")[0] for name in names} >= {
        "us",
        "ca",
        "br",
        "cl",
        "gb",
        "de",
        "fi",
        "ae",
        "in",
        "jp",
        "za",
        "au",
    }


@every_design
def test_parts_of_cooling_add_up(design):
    for site in SITES:
        year = cooling_year(site, design, share_of(design))
        parts = year.fans_fraction + year.pumps_fraction + year.rejection_fraction
        assert_allclose(parts, year.cooling_fraction, rtol=1e-12, err_msg=site.name)
        assert year.peak_cooling_fraction >= year.cooling_fraction - 1e-15, site.name
        assert year.cooling_fraction > 0, site.name
        assert year.water_l_per_kwh >= 0, site.name


@every_design
def test_pue_is_at_least_one_on_every_site(design):
    mean_w, peak_w = np.array([1e3, 1e6, 5e7]), np.array([1e6, 1.2e6, 5e7])
    for site in SITES:
        supplies, year = supply(site, mean_w, peak_w), cooling_year(site, design, share_of(design))
        pue = facility.pue(
            supplies.efficiency, site.distribution_loss_fraction, year.cooling_fraction, site.misc_fraction
        )
        assert np.all(pue >= 1), site.name


@every_design
def test_a_hotter_site_is_never_better(design):
    for site in SOME:
        years = [cooling_year(replace(site, mean_c=site.mean_c + k), design, share_of(design)) for k in range(0, 8, 2)]
        for cooler, hotter in pairwise(years):
            assert hotter.cooling_fraction >= cooler.cooling_fraction - 1e-12, site.name
            assert hotter.peak_cooling_fraction >= cooler.peak_cooling_fraction - 1e-12, site.name


@every_design
def test_a_damper_site_is_never_better(design):
    for site in SOME:
        humid = [replace(site, mean_relative_humidity_fraction=h) for h in (0.2, 0.4, 0.6, 0.8)]
        used = [float(cooling_year(one, design, share_of(design)).cooling_fraction) for one in humid]
        assert np.all(np.diff(used) >= -1e-12), site.name


@every_design
def test_warmer_water_is_never_worse(design):
    def warmer(by_k):
        air = replace(design.air, supply_c=design.air.supply_c + by_k, return_c=design.air.return_c + by_k)
        liquid = design.liquid
        if liquid is not None:
            liquid = replace(liquid, supply_c=liquid.supply_c + by_k, return_c=liquid.return_c + by_k)
        return replace(design, air=air, liquid=liquid)

    for site in SOME:
        used = [float(cooling_year(site, warmer(k), share_of(design)).cooling_fraction) for k in (0, 3, 6)]
        assert np.all(np.diff(used) <= 1e-12), site.name


def test_liquid_beats_air_where_it_is_hot_and_damp():
    singapore = CATALOG.load(Site, "sg-singapore")
    air, warm = CATALOG.load(Cooling, "air-chilled-water"), CATALOG.load(Cooling, "liquid-dry-cooler")
    assert cooling_year(singapore, warm, 0.85).cooling_fraction < cooling_year(singapore, air, 0.0).cooling_fraction / 2


def test_designs_without_pads_and_towers_take_no_water():
    for name in ("air-dry-cooler", "liquid-warm-water", "immersion-two-phase"):
        design = CATALOG.load(Cooling, name)
        assert all(cooling_year(site, design, share_of(design)).water_l_per_kwh == 0 for site in SITES)


def test_a_share_of_liquid_without_a_liquid_loop_is_none():
    site, air = SOME[0], CATALOG.load(Cooling, "air-chilled-water")
    year = cooling_year(site, air, 0.85)
    assert year.liquid_fraction == 0
    assert_array_equal(year.cooling_fraction, cooling_year(site, air, 0.0).cooling_fraction)


def test_the_hottest_hours_are_beyond_the_bins():
    for site in SITES:
        bins = weather.dry_bulb_bins_c(site.mean_c, site.seasonal_amplitude_c, site.daily_amplitude_c)
        assert bins.max() < site.hottest_c < bins.max() + 12, site.name
        assert bins.min() < site.hottest_wet_bulb_c < site.hottest_c, site.name


@every_design
def test_the_hottest_hours_count_for_the_peak_alone(design):
    for site in SOME:
        known = cooling_year(site, design, share_of(design))
        bins = replace(site, hottest_c=None, hottest_wet_bulb_c=None)
        typical = cooling_year(bins, design, share_of(design))
        assert known.cooling_fraction == typical.cooling_fraction
        assert known.water_l_per_kwh == typical.water_l_per_kwh
        assert known.peak_cooling_fraction >= typical.peak_cooling_fraction
        hotter = replace(site, hottest_c=site.hottest_c + 3, hottest_wet_bulb_c=site.hottest_wet_bulb_c + 1)
        assert cooling_year(hotter, design, share_of(design)).peak_cooling_fraction >= known.peak_cooling_fraction


# Supplies -------------------------------------------------------------------------------------------------------------


def test_supplies_at_half_load_have_their_stated_efficiency():
    site = replace(SITES[0], ups_efficiency=0.96, transformer_efficiency=0.99, supply_factor=2.0)
    found = supply(site, np.array([1e6, 0.5e6]), np.array([1e6, 1e6]))
    assert_array_equal(found.load_fraction, [0.5, 0.25])
    assert_allclose(found.efficiency[0], 0.96 * 0.99)
    assert_allclose(found.peak_efficiency, 0.96 * 0.99)
    assert found.efficiency[1] < found.efficiency[0]


def test_shares_of_losses_are_those_of_printed_curves():
    # Losses over the rating, fixed, linear, square: supplies 0.010, 0.012, 0.018, transformers 0.002, 0, 0.006.
    at_half = np.array([0.010, 0.012 / 2, 0.018 / 4])
    assert_allclose((at_half / at_half.sum())[[0, 2]], [building.UPS_STANDING, building.UPS_SQUARE], atol=0.003)
    at_half = np.array([0.002, 0.006 / 4])
    assert_allclose(at_half / at_half.sum(), [building.TRANSFORMER_STANDING, building.TRANSFORMER_SQUARE], atol=0.003)


# Profiles -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("folder", "name", "line", "wrong", "message"),
    [
        ("sites", "us-virginia", "hottest_wet_bulb_c = 25.5", "", "hottest_c: must be given with hottest_wet_bulb_c"),
        ("sites", "us-virginia", "hottest_c = 34", "hottest_c = 24", "hottest_wet_bulb_c: must be at most hottest_c"),
        ("sites", "us-virginia", "supply_factor = 1.33", "supply_factor = 0.9", "supply_factor: must be at least 1"),
        ("sites", "us-virginia", "supply_factor = 1.33", "", "missing: supply_factor"),
        ("cooling", "rear-door", "capex_factor =", "immersion_fraction = 0.9\ncapex_factor =", "given with [liquid]"),
    ],
)
def test_what_contradicts_itself_is_refused(tmp_path, folder, name, line, wrong, message):
    text = CATALOG.path(folder, name).read_text(encoding="utf-8")
    assert line in text
    (tmp_path / folder).mkdir()
    path = tmp_path / folder / f"{name}.toml"
    path.write_text(text.replace(line, wrong), encoding="utf-8")
    assert any(message in problem for problem in check(path)), check(path)


def test_pads_run_as_far_as_the_cooler_is_from_the_air():
    """The water is a few kelvin above the air that cools it: pads are needed from so much below its temperature on."""
    design = next(one for one in DESIGNS if one.liquid and one.liquid.rejection == "dry")
    site = next(one for one in SITES if one.name == "us-arizona")
    hottest = float(weather.dry_bulb_bins_c(site.mean_c, site.seasonal_amplitude_c, site.daily_amplitude_c).max())

    def water(above_k):
        loop = replace(design.liquid, supply_c=hottest + above_k, return_c=hottest + above_k + 10)
        pads = replace(design, liquid=loop, adiabatic_effectiveness=0.7)
        return cooling_year(site, pads, 1.0).water_l_per_kwh

    assert water(design.dry_approach_k + 0.1) == 0 < water(0.5 * design.dry_approach_k)


def test_water_is_that_of_the_heat_of_each_loop():
    design = next(one for one in DESIGNS if one.liquid and one.immersion_fraction is None)
    site = SITES[0]
    wet = replace(design, air=replace(design.air, rejection="tower"), liquid=replace(design.liquid, rejection="dry"))
    wet = replace(wet, adiabatic_effectiveness=0.0)  # so that the liquid loop takes none
    whole, part, none = (cooling_year(site, wet, share).water_l_per_kwh for share in (0.0, 0.75, 1.0))
    assert_allclose(part, 0.25 * whole)
    assert none == 0 < whole
