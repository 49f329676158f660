"""How heat leaves the building: what cooling takes by design and weather, and the heat that leaves as vapour.

Cooling is put together from two halves. A *loop* picks heat up from the equipment (fans or pumps). *Rejection* gets rid
of it outdoors (a tower, a dry cooler, outside air) and runs chillers when the weather is too warm. A design is a liquid
and an air loop, each with its rejection. All of it is per watt of equipment power, for each bin of weather.
"""

from __future__ import annotations

import numpy as np

from clusterplan.arrays import ArrayLike, FloatArray, as_float
from clusterplan.trace import formula

AIR_J_PER_M3_K = 1.19e3
"""Heat that a cubic metre of air takes up per kelvin, at 25 °C and sea level."""
WATER_J_PER_M3_K = 4.16e6
"""The same of water at 25-40 °C; a quarter of glycol takes 6 % off."""

KELVIN = 273.15
EVAPORATOR_APPROACH_K = 2.5
"""Assumed: refrigerant below the chilled water that it makes, 2 to 3."""
MAX_COP = 25.0
"""Assumed: no machine does better, however small its lift; keeps the Carnot form finite at zero lift."""


@formula
def mover_fraction(
    pressure_pa: ArrayLike, efficiency: ArrayLike, rise_k: ArrayLike, heat_capacity_j_per_m3_k: ArrayLike
) -> FloatArray:
    r"""Power of a fan or pump per watt of heat that its stream carries.

    Parameters
    ----------
    pressure_pa : array_like
        Pressure that the stream must be given: 400-700 Pa through a room air handler and its floor, 130-210 kPa round a
        water loop. [Pa]
    efficiency : array_like
        Motor, drive and impeller together: 0.65-0.85.
    rise_k : array_like
        Warming of the stream. [K]
    heat_capacity_j_per_m3_k : array_like
        :data:`AIR_J_PER_M3_K` or :data:`WATER_J_PER_M3_K`. [J/(m³ K)]

    Returns
    -------
    ndarray
        Watts per watt.

    Notes
    -----
    :math:`\Delta p / (\eta\, \rho c\, \Delta T)` [1]_.

    References
    ----------
    .. [1] N. Lei and E. Masanet, "Statistical analysis for predicting location-specific data center PUE and its
       improvement potential," Energy, vol. 201, 117556, 2020, and its open code for the ranges.

    Examples
    --------
    Water, 208 kPa, a perfect pump, 5 K:

    >>> float(mover_fraction(208e3, 1, 5, WATER_J_PER_M3_K))
    0.01
    """
    carried = as_float(rise_k) * as_float(heat_capacity_j_per_m3_k)
    return as_float(pressure_pa) / (as_float(efficiency) * carried)


@formula
def water_chiller_cop(condenser_water_c: ArrayLike, load_fraction: ArrayLike = 0.6) -> FloatArray:
    r"""Heat moved per unit of power by a large water-cooled chiller.

    Parameters
    ----------
    condenser_water_c : array_like
        Water from the tower: wet bulb plus approach, shape ``(..., bin)``. Held to 10-35, the range of the fit. [°C]
    load_fraction : array_like
        Load of the machines that run. Held to 0.2-0.8, the range of the fit.

    Returns
    -------
    ndarray
        Coefficient of performance, about 9 at 20 °C and 6 at 30 °C.

    Notes
    -----
    :math:`16.799 + 0.00884 t^2 - 8.529 L^2 + 9.885 L - 0.7606 t + 0.0846 L t`, a regression for centrifugal machines
    from the code of [1]_. It has the chilled water at its usual temperature; warmer water would do better.

    References
    ----------
    .. [1] N. Lei and E. Masanet, "Statistical analysis for predicting location-specific data center PUE and its
       improvement potential," Energy, vol. 201, 117556, 2020.

    Examples
    --------
    >>> water_chiller_cop([20, 30]).round(1).tolist()
    [9.0, 6.3]
    """
    t = np.clip(as_float(condenser_water_c), 10, 35)
    load = np.clip(as_float(load_fraction), 0.2, 0.8)
    return 16.799 + 0.00884 * t**2 - 8.529 * load**2 + 9.885 * load - 0.7606 * t + 0.0846 * load * t


@formula
def carnot_cop(cold_c: ArrayLike, hot_c: ArrayLike, carnot_efficiency: ArrayLike) -> FloatArray:
    r"""Heat taken from the cold side per unit of power by any chiller.

    Parameters
    ----------
    cold_c : array_like
        Evaporating temperature: chilled water less 2-3 K, shape ``(..., bin)``. [°C]
    hot_c : array_like
        Condensing temperature: outdoor air plus 12-15 K when air-cooled. [°C]
    carnot_efficiency : array_like
        Share of the ideal machine: 0.5-0.6.

    Returns
    -------
    ndarray
        Coefficient of performance, at most :data:`MAX_COP`.

    Notes
    -----
    :math:`\eta\, T_c / (T_h - T_c)` in kelvin. A heat pump that sells heat delivers one more than this.

    Examples
    --------
    30 K of lift from 300 K with half the ideal:

    >>> round(float(carnot_cop(26.85, 56.85, 0.5)), 2)
    5.0
    """
    cold_k, hot_k = as_float(cold_c) + KELVIN, as_float(hot_c) + KELVIN
    ideal = as_float(carnot_efficiency) * cold_k
    # A lift at or below ideal / MAX_COP, negative ones included, gives MAX_COP.
    return ideal / np.maximum(hot_k - cold_k, ideal / MAX_COP)


@formula
def free_cooling_fraction(source_c: ArrayLike, supply_c: ArrayLike, return_c: ArrayLike) -> FloatArray:
    r"""Share of the heat that the weather takes without a chiller.

    Parameters
    ----------
    source_c : array_like
        Coolest stream that the weather gives: wet bulb plus tower and exchanger approach, or air plus dry-cooler
        approach, shape ``(..., bin)``. [°C]
    supply_c, return_c : array_like
        Temperature wanted by the loop and temperature that comes back, ``return_c`` the higher. [°C]

    Returns
    -------
    ndarray
        0 to 1: all when the source is at or below ``supply_c``, a part of the range while it is below ``return_c``.

    References
    ----------
    .. [1] N. Lei and E. Masanet, "Statistical analysis for predicting location-specific data center PUE and its
       improvement potential," Energy, vol. 201, 117556, 2020: tower approach 2.8-6.7 K, heat exchanger 1.7-2.8 K.

    Examples
    --------
    >>> free_cooling_fraction([15, 21, 30], 18, 24).tolist()
    [1.0, 0.5, 0.0]
    """
    source, supplied = as_float(source_c), as_float(supply_c)
    returned = as_float(return_c)
    return np.clip((returned - source) / (returned - supplied), 0, 1)


@formula
def adiabatic_inlet_c(
    dry_bulb_c: ArrayLike, wet_bulb_c: ArrayLike, needed_c: ArrayLike, effectiveness: ArrayLike
) -> FloatArray:
    """Temperature of outside air after wetted pads that run only while they are needed.

    Parameters
    ----------
    dry_bulb_c, wet_bulb_c : array_like
        Weather, shape ``(..., bin)``. [°C]
    needed_c : array_like
        Air temperature at which no chiller is needed. [°C]
    effectiveness : array_like
        How near the pads bring the air to its wet bulb: 0 without pads, 0.6-0.9 with.

    Returns
    -------
    ndarray
        At most ``dry_bulb_c``, not below ``needed_c`` by water's doing. [°C]

    Examples
    --------
    Hot air to be cooled as far as needed, and as far as possible:

    >>> adiabatic_inlet_c(40, 20, [30, 20], 0.75).tolist()
    [30.0, 25.0]
    """
    dry, wet = as_float(dry_bulb_c), as_float(wet_bulb_c)
    coldest = dry - as_float(effectiveness) * (dry - wet)
    return np.clip(as_float(needed_c), coldest, dry)


@formula
def rejection_fraction(free_fraction: ArrayLike, chiller_cop: ArrayLike, mover_fraction: ArrayLike) -> FloatArray:
    r"""Power to get a watt of heat out of the building.

    Parameters
    ----------
    free_fraction : array_like
        Share of the heat that needs no chiller, shape ``(..., bin)``.
    chiller_cop : array_like
        Of the chillers that take the rest.
    mover_fraction : array_like
        Outdoor fans and pumps per watt that leaves, the work of the chillers included: tower about 0.015, dry cooler
        0.01-0.02.

    Returns
    -------
    ndarray
        Watts per watt of heat.

    Notes
    -----
    :math:`w = (1 - f) / COP`, then :math:`w + (1 + w)\, m`: the chillers' work leaves by the same way.

    Examples
    --------
    No free cooling, a chiller of COP 5, no fans:

    >>> float(rejection_fraction(0, 5, 0))
    0.2
    """
    work = (1 - as_float(free_fraction)) / as_float(chiller_cop)
    return work + (1 + work) * as_float(mover_fraction)


@formula
def tower_rejection_fraction(
    wet_bulb_c: ArrayLike,
    supply_c: ArrayLike,
    return_c: ArrayLike,
    tower_approach_k: ArrayLike,
    exchanger_approach_k: ArrayLike,
    mover_fraction: ArrayLike,
    chiller_load_fraction: ArrayLike = 0.6,
) -> FloatArray:
    """Power per watt of heat given to a cooling tower, with a water-side economiser and water-cooled chillers.

    Parameters
    ----------
    wet_bulb_c : array_like
        Weather, shape ``(..., bin)``. [°C]
    supply_c, return_c : array_like
        Water to and from the loop. [°C]
    tower_approach_k, exchanger_approach_k : array_like
        Tower water above wet bulb (2.8-6.7) and loop water above tower water (1.7-2.8). [K]
    mover_fraction : array_like
        Tower fans and tower-water pumps per watt rejected.
    chiller_load_fraction : array_like
        Load of the chillers that run.

    Returns
    -------
    ndarray
        Watts per watt of heat, shape ``(..., bin)``.

    References
    ----------
    .. [1] As for :func:`water_chiller_cop` and :func:`free_cooling_fraction`.

    Examples
    --------
    Cold weather leaves only fans and pumps:

    >>> float(tower_rejection_fraction(0, 18, 24, 4.5, 2.2, 0.015))
    0.015
    """
    tower_c = as_float(wet_bulb_c) + as_float(tower_approach_k)
    free = free_cooling_fraction(tower_c + as_float(exchanger_approach_k), supply_c, return_c)
    return rejection_fraction(free, water_chiller_cop(tower_c, chiller_load_fraction), mover_fraction)


@formula
def dry_rejection_fraction(
    dry_bulb_c: ArrayLike,
    wet_bulb_c: ArrayLike,
    supply_c: ArrayLike,
    return_c: ArrayLike,
    dry_approach_k: ArrayLike,
    mover_fraction: ArrayLike,
    adiabatic_effectiveness: ArrayLike,
    condenser_lift_k: ArrayLike,
    carnot_efficiency: ArrayLike,
) -> FloatArray:
    """Power per watt of heat given to dry coolers, with or without wetted pads, and air-cooled chillers.

    Parameters
    ----------
    dry_bulb_c, wet_bulb_c : array_like
        Weather, shape ``(..., bin)``. [°C]
    supply_c, return_c : array_like
        Water to and from the loop. [°C]
    dry_approach_k : array_like
        Water above entering air: 6-10. [K]
    mover_fraction : array_like
        Outdoor fans per watt rejected.
    adiabatic_effectiveness : array_like
        Of the pads; 0 without.
    condenser_lift_k : array_like
        Condensing temperature above entering air: 12-15. [K]
    carnot_efficiency : array_like
        Of the chillers: 0.5-0.6.

    Returns
    -------
    ndarray
        Watts per watt of heat, shape ``(..., bin)``.

    References
    ----------
    .. [1] As for :func:`carnot_cop` and :func:`free_cooling_fraction`.

    Examples
    --------
    Warm water needs no chiller at 30 °C, pads or not:

    >>> float(dry_rejection_fraction(30, 25, 40, 50, 8, 0.015, 0, 14, 0.5))
    0.015
    """
    supply, approach = as_float(supply_c), as_float(dry_approach_k)
    inlet_c = adiabatic_inlet_c(dry_bulb_c, wet_bulb_c, supply - approach, adiabatic_effectiveness)
    free = free_cooling_fraction(inlet_c + approach, supply, return_c)
    cop = carnot_cop(supply - EVAPORATOR_APPROACH_K, inlet_c + as_float(condenser_lift_k), carnot_efficiency)
    return rejection_fraction(free, cop, mover_fraction)


@formula
def outside_air_free_fraction(
    dry_bulb_c: ArrayLike,
    wet_bulb_c: ArrayLike,
    supply_c: ArrayLike,
    return_c: ArrayLike,
    adiabatic_effectiveness: ArrayLike,
    max_wet_bulb_c: ArrayLike,
) -> FloatArray:
    """Share of the heat that outside air, blown through the racks, takes without a chiller.

    Parameters
    ----------
    dry_bulb_c, wet_bulb_c : array_like
        Weather, shape ``(..., bin)``. [°C]
    supply_c, return_c : array_like
        Air to and from the racks. [°C]
    adiabatic_effectiveness : array_like
        Of the wetted pads; 0 without.
    max_wet_bulb_c : array_like
        The dampers close above it, since the air would be too damp: about 21. [°C]

    Returns
    -------
    ndarray
        0 to 1, shape ``(..., bin)``.

    References
    ----------
    .. [1] As for :func:`free_cooling_fraction`.

    Examples
    --------
    Cool, hot and dry, hot and damp:

    >>> outside_air_free_fraction([10, 37, 30], [6, 20, 26], 27, 39, 0.7, 21).round(2).tolist()
    [1.0, 1.0, 0.0]
    """
    inlet_c = adiabatic_inlet_c(dry_bulb_c, wet_bulb_c, supply_c, adiabatic_effectiveness)
    open_dampers = as_float(wet_bulb_c) <= as_float(max_wet_bulb_c)
    return free_cooling_fraction(inlet_c, supply_c, return_c) * open_dampers


@formula
def outside_air_rejection_fraction(
    dry_bulb_c: ArrayLike,
    wet_bulb_c: ArrayLike,
    supply_c: ArrayLike,
    return_c: ArrayLike,
    adiabatic_effectiveness: ArrayLike,
    max_wet_bulb_c: ArrayLike,
    tower_approach_k: ArrayLike,
    mover_fraction: ArrayLike,
    chiller_load_fraction: ArrayLike = 0.6,
) -> FloatArray:
    """Power per watt of heat when outside air itself goes through the racks, backed by water-cooled chillers.

    Parameters
    ----------
    dry_bulb_c, wet_bulb_c : array_like
        Weather, shape ``(..., bin)``. [°C]
    supply_c, return_c : array_like
        Air to and from the racks. [°C]
    adiabatic_effectiveness : array_like
        Of the pads; 0 without.
    max_wet_bulb_c : array_like
        The dampers close above it, since the air would be too damp: about 21. [°C]
    tower_approach_k, mover_fraction, chiller_load_fraction : array_like
        Of the chillers' tower, as for :func:`tower_rejection_fraction`.

    Returns
    -------
    ndarray
        Watts per watt of heat, shape ``(..., bin)``. The fans that push the air are the loop's.

    References
    ----------
    .. [1] As for :func:`water_chiller_cop`.

    Examples
    --------
    Cool dry air costs nothing but the loop's fans:

    >>> float(outside_air_rejection_fraction(10, 6, 27, 39, 0.7, 21, 4.5, 0.015))
    0.0
    """
    wet = as_float(wet_bulb_c)
    free = outside_air_free_fraction(dry_bulb_c, wet, supply_c, return_c, adiabatic_effectiveness, max_wet_bulb_c)
    cop = water_chiller_cop(wet + as_float(tower_approach_k), chiller_load_fraction)
    # The tower moves only what the chillers take over, so its fans and pumps count for that part alone.
    return rejection_fraction(free, cop, as_float(mover_fraction) * (1 - free))


@formula
def loop_fraction(air_mover_fraction: ArrayLike, pump_fraction: ArrayLike, rejection_fraction: ArrayLike) -> FloatArray:
    """Cooling power per watt of equipment whose heat goes into one loop.

    Parameters
    ----------
    air_mover_fraction : array_like
        Room fans per watt; 0 for cold plates, immersion and passive rear doors. The fans in the servers count as
        equipment, not here.
    pump_fraction : array_like
        Pumps of the loop per watt of heat.
    rejection_fraction : array_like
        One of the rejection formulas, shape ``(..., bin)``.

    Returns
    -------
    ndarray
        Watts per watt of equipment, shape ``(..., bin)``. The heat of the movers leaves too.

    Examples
    --------
    >>> round(float(loop_fraction(0.1, 0.0, 0.1)), 2)
    0.21
    """
    fans = as_float(air_mover_fraction)
    pumps = as_float(pump_fraction)
    return fans + pumps + loop_rejection_fraction(fans, pumps, rejection_fraction)


@formula
def loop_rejection_fraction(
    air_mover_fraction: ArrayLike, pump_fraction: ArrayLike, rejection_fraction: ArrayLike
) -> FloatArray:
    """The part of :func:`loop_fraction` that is spent outside: towers, dry coolers and chillers.

    Parameters
    ----------
    air_mover_fraction, pump_fraction, rejection_fraction : array_like
        As for :func:`loop_fraction`.

    Returns
    -------
    ndarray
        Watts per watt of equipment, shape ``(..., bin)``.

    Examples
    --------
    >>> round(float(loop_rejection_fraction(0.1, 0.0, 0.1)), 2)
    0.11
    """
    inside = as_float(air_mover_fraction) + as_float(pump_fraction)
    return (1 + inside) * as_float(rejection_fraction)


@formula
def cooling_fraction(
    liquid_fraction: ArrayLike, liquid_loop_fraction: ArrayLike, air_loop_fraction: ArrayLike
) -> FloatArray:
    """Cooling power per watt of equipment of a design with a liquid and an air loop.

    Parameters
    ----------
    liquid_fraction : array_like
        Share of the heat that goes into the liquid: 0 air, 0.7-0.9 cold plates, 0.95 full cold plates, 1 immersion or a
        rear door that takes all.
    liquid_loop_fraction, air_loop_fraction : array_like
        :func:`loop_fraction` of each, shape ``(..., bin)``.

    Returns
    -------
    ndarray
        Watts per watt of equipment, shape ``(..., bin)``.

    Notes
    -----
    Liquid cooling also takes the fans out of the nodes. That lowers equipment power, so PUE falls less than energy.

    Examples
    --------
    >>> round(float(cooling_fraction(0.8, 0.05, 0.1)), 3)
    0.06
    """
    liquid = as_float(liquid_fraction)
    in_liquid = liquid * as_float(liquid_loop_fraction)
    return in_liquid + (1 - liquid) * as_float(air_loop_fraction)


@formula
def tower_heat_fraction(
    loop_fraction: ArrayLike, mover_fraction: ArrayLike, latent_fraction: ArrayLike = 1.0
) -> FloatArray:
    """Heat that a tower gives off as vapour, over equipment energy.

    Parameters
    ----------
    loop_fraction : array_like
        Cooling power per watt of equipment, :func:`loop_fraction`, shape ``(..., bin)``.
    mover_fraction : array_like
        The part of it that heats the outdoor air and not the water (tower fans).
    latent_fraction : array_like
        Share of the heat that evaporates water: near 1 in warm weather, down to 0.6 in cold; simulated towers use
        nearly the same water in all climates, so 1 is the usual choice.

    Returns
    -------
    ndarray
        Shape ``(..., bin)``.

    Examples
    --------
    >>> round(float(tower_heat_fraction(0.1, 0.02)), 2)
    1.08
    """
    heat = 1 + as_float(loop_fraction) - as_float(mover_fraction)
    return heat * as_float(latent_fraction)


@formula
def pad_heat_fraction(
    dry_bulb_c: ArrayLike,
    wet_bulb_c: ArrayLike,
    needed_c: ArrayLike,
    adiabatic_effectiveness: ArrayLike,
    air_rise_k: ArrayLike,
    loop_fraction: ArrayLike = 0.0,
) -> FloatArray:
    r"""Heat that wetted pads before a dry cooler turn into vapour, over equipment energy.

    Parameters
    ----------
    dry_bulb_c, wet_bulb_c : array_like
        Weather, shape ``(..., bin)``. [°C]
    needed_c : array_like
        Air temperature at which no chiller is needed: loop supply less the approach of the dry cooler. [°C]
    adiabatic_effectiveness : array_like
        Of the pads; 0 without.
    air_rise_k : array_like
        Warming of the air in the cooler: 8-15. [K]
    loop_fraction : array_like
        Cooling power per watt of equipment, :func:`loop_fraction`, which leaves by the same air, shape ``(..., bin)``.
        At 0 the result is over the heat that the air takes.

    Returns
    -------
    ndarray
        Shape ``(..., bin)``.

    Notes
    -----
    The air stream carries :math:`\rho c V \Delta T` of heat and was cooled by evaporation by
    :math:`\rho c V (t_{db} - t_{in})`, so the ratio needs no flow. Real pads wet in steps and use somewhat more.

    Examples
    --------
    Six of the twelve kelvin come from the pads:

    >>> float(pad_heat_fraction(36, 20, 30, 0.7, 12))
    0.5
    """
    inlet_c = adiabatic_inlet_c(dry_bulb_c, wet_bulb_c, needed_c, adiabatic_effectiveness)
    return (as_float(dry_bulb_c) - inlet_c) / as_float(air_rise_k) * (1 + as_float(loop_fraction))


@formula
def outside_air_heat_fraction(
    dry_bulb_c: ArrayLike,
    wet_bulb_c: ArrayLike,
    supply_c: ArrayLike,
    return_c: ArrayLike,
    adiabatic_effectiveness: ArrayLike,
    max_wet_bulb_c: ArrayLike,
    loop_fraction: ArrayLike,
) -> FloatArray:
    """Heat that an outside-air design turns into vapour, in its pads and in the tower of its chillers.

    Parameters
    ----------
    dry_bulb_c, wet_bulb_c, supply_c, return_c, adiabatic_effectiveness, max_wet_bulb_c : array_like
        As for :func:`outside_air_free_fraction`.
    loop_fraction : array_like
        Cooling power per watt of equipment, :func:`loop_fraction`, shape ``(..., bin)``.

    Returns
    -------
    ndarray
        Over equipment energy, shape ``(..., bin)``.

    References
    ----------
    .. [1] As for :func:`free_cooling_fraction`.

    Examples
    --------
    Damp and hot: everything goes to the tower, the work of the chillers too:

    >>> float(outside_air_heat_fraction(30, 26, 27, 39, 0.7, 21, 0.25))
    1.25
    """
    wet, supply = as_float(wet_bulb_c), as_float(supply_c)
    rise_k = as_float(return_c) - supply
    free = outside_air_free_fraction(dry_bulb_c, wet, supply, return_c, adiabatic_effectiveness, max_wet_bulb_c)
    open_dampers = wet <= as_float(max_wet_bulb_c)
    pads = pad_heat_fraction(dry_bulb_c, wet, supply, adiabatic_effectiveness, rise_k) * open_dampers
    return pads + (1 - free) * (1 + as_float(loop_fraction))
