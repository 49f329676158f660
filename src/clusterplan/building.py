"""The building round the equipment: weather, cooling design and conversion of one site. Composition only.

A design is a liquid and an air loop, each with its way out of the building; a site is a climate and an electrical
side. Any design can stand on any site. Everything is per watt of equipment, by bin of weather, then over the year.
"""

from __future__ import annotations

import numpy as np

from clusterplan.arrays import FloatArray
from clusterplan.formulas import facility
from clusterplan.site import AirLoop, Cooling, LiquidLoop, Site


def overhead(site: Site, cooling: Cooling, liquid_fraction: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """PUE of the year and of its hottest bin, and water of the site per kWh of equipment energy, no shape."""
    climate = (site.mean_c, site.seasonal_amplitude_c, site.daily_amplitude_c)
    dry = facility.dry_bulb_bins_c(*climate)
    wet = facility.wet_bulb_c(
        dry, facility.relative_humidity_bins_fraction(*climate, site.mean_relative_humidity_fraction)
    )

    air = cooling.air
    fans = facility.mover_fraction(
        0 if cooling.rear_door else air.fan_pa, air.fan_efficiency, air.rise_k, facility.AIR_J_PER_M3_K
    )
    air_loop, air_vapour = _loop(cooling, air, fans, dry, wet)
    liquid_loop, liquid_vapour, in_liquid = air_loop, air_vapour, 0.0
    if cooling.liquid is not None:
        liquid_loop, liquid_vapour = _loop(cooling, cooling.liquid, np.zeros(()), dry, wet)
        in_liquid = liquid_fraction

    share = facility.cooling_fraction(in_liquid, liquid_loop, air_loop)
    by_bin = facility.pue(site.ups_efficiency, site.distribution_loss_fraction, share, site.misc_fraction)
    evaporated = facility.evaporated_l_per_kwh(in_liquid * liquid_vapour + (1 - in_liquid) * air_vapour)
    water = facility.makeup_l_per_kwh(evaporated, cooling.concentration_cycles)
    return facility.bin_mean(by_bin), facility.bin_peak(by_bin), facility.bin_mean(water)


def _loop(
    cooling: Cooling, loop: AirLoop | LiquidLoop, fans: FloatArray, dry_c: FloatArray, wet_c: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Cooling power of a loop, and heat that leaves it as vapour, per watt of equipment, shape ``(bin,)`` each."""
    pumps = facility.mover_fraction(loop.pump_pa, loop.pump_efficiency, loop.water_rise_k, facility.WATER_J_PER_M3_K)
    pads = cooling.adiabatic_effectiveness
    if loop.rejection == "tower":
        rejection = facility.tower_rejection_fraction(
            wet_c,
            loop.supply_c,
            loop.return_c,
            cooling.tower_approach_k,
            cooling.exchanger_approach_k,
            cooling.tower_fraction,
            cooling.chiller_load_fraction,
        )
        used = facility.loop_fraction(fans, pumps, rejection)
        return used, facility.tower_heat_fraction(used, cooling.tower_fraction, cooling.latent_fraction)
    if loop.rejection == "dry":
        rejection = facility.dry_rejection_fraction(
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
        used = facility.loop_fraction(fans, pumps, rejection)
        needed = loop.supply_c - cooling.dry_approach_k
        return used, facility.pad_heat_fraction(dry_c, wet_c, needed, pads, cooling.dry_rise_k, used)
    rejection = facility.outside_air_rejection_fraction(
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
    used = facility.loop_fraction(fans, pumps, rejection)
    vapour = facility.outside_air_heat_fraction(
        dry_c, wet_c, loop.supply_c, loop.return_c, pads, cooling.max_wet_bulb_c, used
    )
    return used, vapour
