"""The building round the equipment: weather, cooling design and electrical side of one site. Composition only.

A design is a liquid and an air loop, each with its way out of the building; a site is a climate and an electrical
side. Any design can stand on any site. Cooling is per watt of equipment, by bin of weather, then over the year;
conversion depends on the load that a plan puts on the supplies.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from clusterplan.arrays import ArrayLike, FloatArray
from clusterplan.formulas import facility, heat, weather
from clusterplan.site import AirLoop, Cooling, LiquidLoop, Site

UPS_STANDING, UPS_SQUARE = 0.49, 0.22
"""Assumed: shares of the loss of a double-conversion supply at half load that stand, and that go with the square of the
load, as in the curves that vendors print."""
TRANSFORMER_STANDING, TRANSFORMER_SQUARE = 0.57, 0.43
"""Assumed: the same of a transformer: iron and copper."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CoolingYear:
    """A cooling design in the climate of a site, without the load; everything is per watt of equipment, no shape."""

    fans_fraction: FloatArray
    """Fans of the rooms; those in the servers count as equipment."""
    pumps_fraction: FloatArray
    """Pumps of the loops."""
    rejection_fraction: FloatArray
    """Chillers, towers and dry coolers, mean of the year."""
    cooling_fraction: FloatArray
    """All of it, mean of the year."""
    peak_cooling_fraction: FloatArray
    """All of it in the hottest bin of weather, or in the hottest hours of the site if they are known."""
    liquid_fraction: float
    """Share of the heat that goes into the liquid."""
    water_l_per_kwh: FloatArray
    """Water of the site over energy of the equipment, mean of the year. [L/kWh]"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Supply:
    """Supplies and transformers at the load of each plan; every field has shape ``(layout,)`` or none."""

    load_fraction: FloatArray
    """Mean load over rating."""
    efficiency: FloatArray
    """Output over input of supplies and transformers at that load."""
    peak_efficiency: FloatArray
    """The same at the highest power of the equipment."""


def cooling_year(site: Site, cooling: Cooling, liquid_fraction: float) -> CoolingYear:
    """Cooling and water of a design on a site, for equipment that gives a share of its heat to liquid."""
    climate = (site.mean_c, site.seasonal_amplitude_c, site.daily_amplitude_c)
    dry = weather.dry_bulb_bins_c(*climate)
    wet = weather.wet_bulb_c(
        dry, weather.relative_humidity_bins_fraction(*climate, site.mean_relative_humidity_fraction)
    )

    found = _loops(cooling, liquid_fraction, dry, wet)
    share, in_liquid, in_air = found.liquid_fraction, found.liquid, found.air
    by_bin = heat.cooling_fraction(share, in_liquid.used, in_air.used)
    evaporated = facility.evaporated_l_per_kwh(share * in_liquid.vapour + (1 - share) * in_air.vapour)
    water = facility.makeup_l_per_kwh(evaporated, cooling.concentration_cycles)

    peak = weather.bin_peak(by_bin)
    if site.hottest_c is not None and site.hottest_wet_bulb_c is not None:
        hottest = _loops(cooling, liquid_fraction, site.hottest_c, site.hottest_wet_bulb_c)
        peak = weather.hotter_fraction(peak, heat.cooling_fraction(share, hottest.liquid.used, hottest.air.used))
    return CoolingYear(
        fans_fraction=heat.cooling_fraction(share, 0, found.fans),
        pumps_fraction=heat.cooling_fraction(share, in_liquid.pumps, in_air.pumps),
        rejection_fraction=weather.bin_mean(heat.cooling_fraction(share, in_liquid.rejected, in_air.rejected)),
        cooling_fraction=weather.bin_mean(by_bin),
        peak_cooling_fraction=peak,
        liquid_fraction=share,
        water_l_per_kwh=weather.bin_mean(water),
    )


def supply(site: Site, mean_w: FloatArray, peak_w: FloatArray) -> Supply:
    """Supplies and transformers under a mean and a highest power of the equipment."""
    mean_load = facility.supply_load_fraction(mean_w, peak_w, site.supply_factor)
    return Supply(
        load_fraction=mean_load,
        efficiency=_chain(site, mean_load),
        peak_efficiency=_chain(site, facility.supply_load_fraction(peak_w, peak_w, site.supply_factor)),
    )


def _chain(site: Site, load: FloatArray) -> FloatArray:
    """Efficiency from the meter to the distribution at a load."""
    ups = facility.part_load_efficiency(load, site.ups_efficiency, UPS_STANDING, UPS_SQUARE)
    transformer = facility.part_load_efficiency(
        load, site.transformer_efficiency, TRANSFORMER_STANDING, TRANSFORMER_SQUARE
    )
    return facility.chain_efficiency(ups, transformer)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Loop:
    """A loop per watt of the equipment that it cools."""

    pumps: FloatArray
    rejected: FloatArray
    """Spent outside, shape ``(bin,)``."""
    used: FloatArray
    """All its power, shape ``(bin,)``."""
    vapour: FloatArray
    """Heat that leaves as vapour, shape ``(bin,)``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Loops:
    """Both loops of a design; without a liquid loop the air takes all."""

    fans: FloatArray
    """Fans of the rooms per watt of the equipment that air cools."""
    air: _Loop
    liquid: _Loop
    liquid_fraction: float


def _loops(cooling: Cooling, liquid_fraction: float, dry_c: ArrayLike, wet_c: ArrayLike) -> _Loops:
    """The loops of a design in some weather."""
    air = cooling.air
    fans = heat.mover_fraction(
        0 if cooling.rear_door else air.fan_pa, air.fan_efficiency, air.rise_k, heat.AIR_J_PER_M3_K
    )
    in_air = _loop(cooling, air, fans, dry_c, wet_c)
    if cooling.liquid is None:
        return _Loops(fans=fans, air=in_air, liquid=in_air, liquid_fraction=0.0)
    in_liquid = _loop(cooling, cooling.liquid, np.zeros(()), dry_c, wet_c)
    return _Loops(fans=fans, air=in_air, liquid=in_liquid, liquid_fraction=liquid_fraction)


def _loop(cooling: Cooling, loop: AirLoop | LiquidLoop, fans: FloatArray, dry_c: ArrayLike, wet_c: ArrayLike) -> _Loop:
    """A loop in each bin of weather."""
    pumps = heat.mover_fraction(loop.pump_pa, loop.pump_efficiency, loop.water_rise_k, heat.WATER_J_PER_M3_K)
    pads = cooling.adiabatic_effectiveness
    if loop.rejection == "tower":
        rejection = heat.tower_rejection_fraction(
            wet_c,
            loop.supply_c,
            loop.return_c,
            cooling.tower_approach_k,
            cooling.exchanger_approach_k,
            cooling.tower_fraction,
            cooling.chiller_load_fraction,
        )
    elif loop.rejection == "dry":
        rejection = heat.dry_rejection_fraction(
            dry_c,
            wet_c,
            loop.supply_c,
            loop.return_c,
            cooling.dry_approach_k,
            cooling.dry_fan_fraction,
            pads,
            cooling.condenser_lift_k,
            cooling.carnot_efficiency,
        )
    else:
        rejection = heat.outside_air_rejection_fraction(
            dry_c,
            wet_c,
            loop.supply_c,
            loop.return_c,
            pads,
            cooling.max_wet_bulb_c,
            cooling.tower_approach_k,
            cooling.tower_fraction,
            cooling.chiller_load_fraction,
        )
    used = heat.loop_fraction(fans, pumps, rejection)
    if loop.rejection == "tower":
        vapour = heat.tower_heat_fraction(used, cooling.tower_fraction, cooling.latent_fraction)
    elif loop.rejection == "dry":
        needed = loop.supply_c - cooling.dry_approach_k
        vapour = heat.pad_heat_fraction(dry_c, wet_c, needed, pads, cooling.dry_rise_k, used)
    else:
        vapour = heat.outside_air_heat_fraction(
            dry_c, wet_c, loop.supply_c, loop.return_c, pads, cooling.max_wet_bulb_c, used
        )
    rejected = heat.loop_rejection_fraction(fans, pumps, rejection)
    return _Loop(pumps=pumps, rejected=rejected, used=used, vapour=vapour)
