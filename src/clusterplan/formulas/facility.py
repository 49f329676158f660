"""What the building adds: power conversion, cooling by design and weather, water, reused heat.

Cooling is put together from two halves. A *loop* picks heat up from the equipment (fans or pumps). *Rejection* gets rid
of it outdoors (a tower, a dry cooler, outside air) and runs chillers when the weather is too warm. A design is a liquid
and an air loop, each with its rejection. All of it is per watt of equipment power, for each bin of weather; the year is
the mean over the bins, the peak the worst bin.
"""

from __future__ import annotations

import numpy as np

from clusterplan.arrays import ArrayLike, FloatArray
from clusterplan.trace import formula

AIR_J_PER_M3_K = 1.19e3
"""Heat that a cubic metre of air takes up per kelvin, at 25 °C and sea level."""
WATER_J_PER_M3_K = 4.16e6
"""The same of water at 25-40 °C; a quarter of glycol takes 6 % off."""

MONTHS = 12
HOURS_OF_DAY = 8
"""Weather bins: twelve months times eight three-hour parts of the day, all equally long."""

KELVIN = 273.15
L_PER_KWH_PER_KJ_PER_KG = 3600.0  # litres that carry a kWh away, times the heat of evaporation in kJ/kg; 1 l = 1 kg

HALF_LOAD = 0.5
"""Load at which efficiencies of supplies and transformers are stated."""
EVAPORATOR_APPROACH_K = 2.5
"""Assumed: refrigerant below the chilled water that it makes."""
MAX_COP = 25.0
"""Assumed: no machine does better, however small its lift; keeps the Carnot form finite at zero lift."""


def _float(value: ArrayLike) -> FloatArray:
    """The value as an array of floats."""
    return np.asarray(value, dtype=np.float64)


@formula
def dry_bulb_bins_c(mean_c: ArrayLike, seasonal_amplitude_c: ArrayLike, daily_amplitude_c: ArrayLike) -> FloatArray:
    r"""Air temperature through a typical year: a sinusoid of the day on a sinusoid of the year.

    Parameters
    ----------
    mean_c : array_like
        Annual mean, shape ``(site,)`` or none. [°C]
    seasonal_amplitude_c : array_like
        Half the difference between the warmest and the coldest month. [K]
    daily_amplitude_c : array_like
        Half the usual difference between the warmest and the coldest hour of a day. [K]

    Returns
    -------
    ndarray
        Shape ``(site, bin)``: 12 months × 8 parts of the day, equally long. [°C]

    Notes
    -----
    Climate normals have no heat waves: the hottest bin is several kelvin below the hottest hour of a real summer. For
    the size of a grid connection take the site's design temperatures as well: :func:`hotter_fraction`.

    Examples
    --------
    The middle of the bins is the annual mean, their spread nearly both amplitudes:

    >>> bins = dry_bulb_bins_c(10, 14, 5)
    >>> bins.shape, round(float(bins.mean()), 6), round(float(bins.max()), 1)
    ((96,), 10.0, 28.1)
    """
    month = np.cos(2 * np.pi * (np.arange(MONTHS) + 0.5) / MONTHS)
    hour = np.cos(2 * np.pi * (np.arange(HOURS_OF_DAY) + 0.5) / HOURS_OF_DAY)
    mean, seasonal, daily = (
        _float(part)[..., None, None] for part in (mean_c, seasonal_amplitude_c, daily_amplitude_c)
    )
    temperature = mean + seasonal * month[:, None] + daily * hour[None, :]
    return temperature.reshape(*temperature.shape[:-2], MONTHS * HOURS_OF_DAY)


@formula
def saturation_pa(temperature_c: ArrayLike) -> FloatArray:
    r"""Pressure of water vapour in saturated air, over water.

    Parameters
    ----------
    temperature_c : array_like
        Air temperature, any shape, -40 to 50. [°C]

    Returns
    -------
    ndarray
        Same shape. [Pa]

    Notes
    -----
    The Magnus form :math:`610.94\, e^{17.625 t / (t + 243.04)}`, within 0.4 % [1]_.

    References
    ----------
    .. [1] O. A. Alduchov and R. E. Eskridge, "Improved Magnus form approximation of saturation vapor pressure," J.
       Appl. Meteorol., vol. 35, no. 4, pp. 601-609, 1996.

    Examples
    --------
    >>> round(float(saturation_pa(0)), 2)
    610.94
    """
    t = _float(temperature_c)
    return 610.94 * np.exp(17.625 * t / (t + 243.04))


@formula
def relative_humidity_bins_fraction(
    mean_c: ArrayLike,
    seasonal_amplitude_c: ArrayLike,
    daily_amplitude_c: ArrayLike,
    mean_relative_humidity_fraction: ArrayLike,
) -> FloatArray:
    """Relative humidity in the bins of :func:`dry_bulb_bins_c`.

    Parameters
    ----------
    mean_c, seasonal_amplitude_c, daily_amplitude_c : array_like
        As for :func:`dry_bulb_bins_c`.
    mean_relative_humidity_fraction : array_like
        Relative humidity at the mean temperature of each month, taken as the same all year, shape ``(site,)`` or none.

    Returns
    -------
    ndarray
        Shape ``(site, bin)``, 0 to 1.

    Notes
    -----
    The air keeps its vapour through the day, so the afternoon is drier in relative terms; what would exceed saturation
    at night falls as dew. Assumed: no season is drier than another.

    Examples
    --------
    Without a daily swing it is the mean:

    >>> relative_humidity_bins_fraction(10, 10, 0, 0.7).round(6).tolist() == [0.7] * 96
    True
    """
    day_mean_c = dry_bulb_bins_c(mean_c, seasonal_amplitude_c, np.zeros_like(_float(daily_amplitude_c)))
    bin_c = dry_bulb_bins_c(mean_c, seasonal_amplitude_c, daily_amplitude_c)
    humidity = _float(mean_relative_humidity_fraction)[..., None]
    return np.minimum(humidity * saturation_pa(day_mean_c) / saturation_pa(bin_c), 1)


@formula
def wet_bulb_c(dry_bulb_c: ArrayLike, relative_humidity_fraction: ArrayLike) -> FloatArray:
    r"""Temperature that evaporation can cool air to.

    Parameters
    ----------
    dry_bulb_c : array_like
        Air temperature, any shape, -20 to 50. [°C]
    relative_humidity_fraction : array_like
        0.05 to 0.99; beyond that the result is held at or below ``dry_bulb_c``.

    Returns
    -------
    ndarray
        Same shape. [°C]

    Notes
    -----
    Stull's fit at sea level, -1 to +0.65 K wrong, mean 0.3 K [1]_. At 1500 m the true value is up to 1 K lower.

    References
    ----------
    .. [1] R. Stull, "Wet-bulb temperature from relative humidity and air temperature," J. Appl. Meteorol. Climatol.,
       vol. 50, no. 11, pp. 2267-2269, 2011.

    Examples
    --------
    The author's own example, 20 °C at 50 %:

    >>> round(float(wet_bulb_c(20, 0.5)), 1)
    13.7
    """
    t = _float(dry_bulb_c)
    rh = 100 * _float(relative_humidity_fraction)
    stull = (
        t * np.arctan(0.151977 * np.sqrt(rh + 8.313659))
        + np.arctan(t + rh)
        - np.arctan(rh - 1.676331)
        + 0.00391838 * rh**1.5 * np.arctan(0.023101 * rh)
        - 4.686035
    )
    return np.minimum(stull, t)


@formula
def bin_mean(values: ArrayLike, hours: ArrayLike = 1.0) -> FloatArray:
    """Mean over the weather bins, for equipment that draws the same power all year.

    Parameters
    ----------
    values : array_like
        A PUE, a water use per kWh or another ratio to equipment energy, shape ``(..., bin)``.
    hours : array_like
        Length of each bin, shape ``(bin,)``; one number if all are equally long.

    Returns
    -------
    ndarray
        Shape ``(...,)``.

    Notes
    -----
    Weighting ratios by time is weighting by energy while the equipment power is constant, as training keeps it.

    Examples
    --------
    >>> float(bin_mean([1.0, 1.5], [3, 1]))
    1.125
    """
    values = _float(values)
    return np.average(values, axis=-1, weights=np.broadcast_to(_float(hours), values.shape[-1:]))


@formula
def bin_peak(values: ArrayLike) -> FloatArray:
    """Highest value over the weather bins.

    Parameters
    ----------
    values : array_like
        A PUE or another ratio to equipment power, shape ``(..., bin)``.

    Returns
    -------
    ndarray
        Shape ``(...,)``.

    Examples
    --------
    >>> float(bin_peak([1.0, 1.5]))
    1.5
    """
    return np.max(_float(values), axis=-1)


@formula
def hotter_fraction(hottest_bin_fraction: ArrayLike, hottest_hours_fraction: ArrayLike) -> FloatArray:
    """Cooling power for which a building must be connected.

    Parameters
    ----------
    hottest_bin_fraction : array_like
        Highest cooling power over the bins of a typical year, over equipment power.
    hottest_hours_fraction : array_like
        The same at the design temperatures of the site, dry and wet bulb at once: each is exceeded in 0.4 % of the
        hours of a year, together they are more than any hour has.

    Returns
    -------
    ndarray
        The higher of the two.

    References
    ----------
    .. [1] ASHRAE Handbook: Fundamentals, chapter 14, climatic design information, 2021.

    Examples
    --------
    >>> float(hotter_fraction(0.10, 0.15))
    0.15
    """
    return np.maximum(_float(hottest_bin_fraction), _float(hottest_hours_fraction))


@formula
def supply_load_fraction(load_w: ArrayLike, peak_w: ArrayLike, supply_factor: ArrayLike) -> FloatArray:
    """Load of the supplies over their rating.

    Parameters
    ----------
    load_w : array_like
        Power of the equipment, shape ``(layout,)``. [W]
    peak_w : array_like
        Power for which the supplies are chosen: the highest of the equipment. [W]
    supply_factor : array_like
        Rating of all supplies over that power: 1 without redundancy, 1.33 where four do the work of three, 2 for 2N.

    Returns
    -------
    ndarray
        Shape ``(layout,)``.

    Notes
    -----
    All supplies share the load evenly. What the cooling draws is left out of load and rating alike.

    Examples
    --------
    >>> float(supply_load_fraction(8e6, 10e6, 2))
    0.4
    """
    rating_w = _float(peak_w) * _float(supply_factor)
    return _float(load_w) / rating_w


@formula
def part_load_efficiency(
    load_fraction: ArrayLike,
    half_load_efficiency: ArrayLike,
    standing_fraction: ArrayLike,
    square_fraction: ArrayLike,
) -> FloatArray:
    r"""Efficiency of an uninterruptible supply or a transformer at part load.

    Parameters
    ----------
    load_fraction : array_like
        Load over rating, more than 0: at most 0.5 in a 2N design, shape ``(layout,)``.
    half_load_efficiency : array_like
        Output over input at half of the rating: 0.94-0.97 with double conversion, 0.98-0.99 in economy mode,
        transformers 0.99-0.995.
    standing_fraction, square_fraction : array_like
        Shares of the losses at half load that stand whatever the load, and that go with its square; the rest is
        proportional.

    Returns
    -------
    ndarray
        Output over input, shape ``(layout,)``.

    Notes
    -----
    Losses are :math:`k_0 + k_1 L + k_2 L^2` of the rating [1]_. With :math:`r = L / 0.5` and the loss
    :math:`\lambda = 1/\eta_{1/2} - 1` at half load, :math:`1/\eta = 1 + \lambda (s_0 / r + s_1 + s_2 r)`. Curves that
    vendors print for double conversion have :math:`k` near 0.010, 0.012, 0.018: shares 0.49, 0.29, 0.22; transformers
    0.002, 0, 0.006: shares 0.57, 0, 0.43 (assumed).

    References
    ----------
    .. [1] N. Rasmussen, "Electrical efficiency modeling for data centers," Schneider Electric white paper 113, 2011.

    Examples
    --------
    Half of the loss stands, so a quarter of the load has it twice over:

    >>> round(float(1 / part_load_efficiency(0.25, 1 / 1.04, 0.5, 0)), 4)
    1.06
    """
    lost = 1 / _float(half_load_efficiency) - 1
    r = _float(load_fraction) / HALF_LOAD
    standing, square = _float(standing_fraction), _float(square_fraction)
    proportional = 1 - standing - square
    return 1 / (1 + lost * (standing / r + proportional + square * r))


@formula
def chain_efficiency(ups_efficiency: ArrayLike, transformer_efficiency: ArrayLike) -> FloatArray:
    """Output over input of supplies and transformers behind each other.

    Parameters
    ----------
    ups_efficiency, transformer_efficiency : array_like
        :func:`part_load_efficiency` of each, shape ``(layout,)``.

    Returns
    -------
    ndarray
        Shape ``(layout,)``.

    Notes
    -----
    The cooling plant is behind the transformers too; their loss for it, under 0.001 of the equipment, is left out.

    Examples
    --------
    >>> round(float(chain_efficiency(0.96, 0.99)), 4)
    0.9504
    """
    return _float(ups_efficiency) * _float(transformer_efficiency)


@formula
def pue(
    ups_efficiency: ArrayLike,
    distribution_loss_fraction: ArrayLike,
    cooling_fraction: ArrayLike,
    misc_fraction: ArrayLike,
) -> FloatArray:
    r"""Power usage effectiveness: power of the whole building over power of its equipment.

    Parameters
    ----------
    ups_efficiency : array_like
        Of everything from the meter to the distribution, 0.90-0.99, shape ``(layout,)`` or ``(..., bin)``.
    distribution_loss_fraction : array_like
        Lost between there and the racks: 0-0.02 hyperscale, 0.02-0.05 colocation.
    cooling_fraction : array_like
        All cooling power over equipment power.
    misc_fraction : array_like
        Lights, offices, controls over equipment power: up to 0.002 hyperscale, 0.02-0.05 colocation.

    Returns
    -------
    ndarray
        At least 1.

    Notes
    -----
    :math:`1 + (1/\eta - 1) + l / (1 - l) + c + m`, the sum of parts of [1]_. Multiply equipment power by it once.

    References
    ----------
    .. [1] N. Lei and E. Masanet, "Statistical analysis for predicting location-specific data center PUE and its
       improvement potential," Energy, vol. 201, 117556, 2020.

    Examples
    --------
    Half the power lost before it arrives, nothing else:

    >>> float(pue(0.5, 0, 0, 0))
    2.0
    """
    supplied = 1 + supply_fraction(ups_efficiency)
    return (
        supplied + distribution_fraction(distribution_loss_fraction) + _float(cooling_fraction) + _float(misc_fraction)
    )


@formula
def supply_fraction(ups_efficiency: ArrayLike) -> FloatArray:
    r"""Power lost in supplies and transformers over equipment power.

    Parameters
    ----------
    ups_efficiency : array_like
        Of everything from the meter to the distribution, shape ``(layout,)``.

    Returns
    -------
    ndarray
        Watts per watt, shape ``(layout,)``: :math:`1/\eta - 1`.

    Examples
    --------
    >>> float(supply_fraction(0.8))
    0.25
    """
    return 1 / _float(ups_efficiency) - 1


@formula
def distribution_fraction(distribution_loss_fraction: ArrayLike) -> FloatArray:
    r"""Power lost between the supplies and the racks over equipment power.

    Parameters
    ----------
    distribution_loss_fraction : array_like
        Lost share of what enters: 0-0.02 hyperscale, 0.02-0.05 colocation.

    Returns
    -------
    ndarray
        Watts per watt: :math:`l / (1 - l)`.

    Examples
    --------
    >>> float(distribution_fraction(0.2))
    0.25
    """
    lost = _float(distribution_loss_fraction)
    return lost / (1 - lost)


@formula
def part_w(it_w: ArrayLike, part_fraction: ArrayLike) -> FloatArray:
    """Power of one part of the building.

    Parameters
    ----------
    it_w : array_like
        Power of all equipment, shape ``(layout,)``. [W]
    part_fraction : array_like
        Power of the part over that of the equipment: an addend of :func:`pue`.

    Returns
    -------
    ndarray
        Shape ``(layout,)``. [W]

    Examples
    --------
    >>> float(part_w(10e6, 0.05))
    500000.0
    """
    return _float(it_w) * _float(part_fraction)


@formula
def facility_w(it_w: ArrayLike, pue: ArrayLike) -> FloatArray:
    """Power of the whole building.

    Parameters
    ----------
    it_w : array_like
        Power of all equipment: nodes, network, storage, idle spares, shape ``(layout,)``. [W]
    pue : array_like
        Mean over the year for energy, worst bin for the grid connection.

    Returns
    -------
    ndarray
        Shape ``(layout,)``. [W]

    Examples
    --------
    >>> round(float(facility_w(10e6, 1.2)))
    12000000
    """
    return _float(it_w) * _float(pue)


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
    carried = _float(rise_k) * _float(heat_capacity_j_per_m3_k)
    return _float(pressure_pa) / (_float(efficiency) * carried)


@formula
def water_chiller_cop(condenser_water_c: ArrayLike, load_fraction: ArrayLike = 0.6) -> FloatArray:
    r"""Heat moved per unit of power by a large water-cooled chiller.

    Parameters
    ----------
    condenser_water_c : array_like
        Water from the tower: wet bulb plus approach, shape ``(..., bin)``. Held to 10-35, the range of the fit. [°C]
    load_fraction : array_like
        Load of the machines that run: 0.2-0.8.

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
    t = np.clip(_float(condenser_water_c), 10, 35)
    load = _float(load_fraction)
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
    cold_k, hot_k = _float(cold_c) + KELVIN, _float(hot_c) + KELVIN
    ideal = _float(carnot_efficiency) * cold_k
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
    source, supplied = _float(source_c), _float(supply_c)
    returned = _float(return_c)
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
    dry, wet = _float(dry_bulb_c), _float(wet_bulb_c)
    coldest = dry - _float(effectiveness) * (dry - wet)
    return np.clip(_float(needed_c), coldest, dry)


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
    work = (1 - _float(free_fraction)) / _float(chiller_cop)
    return work + (1 + work) * _float(mover_fraction)


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
    tower_c = _float(wet_bulb_c) + _float(tower_approach_k)
    free = free_cooling_fraction(tower_c + _float(exchanger_approach_k), supply_c, return_c)
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
    supply, approach = _float(supply_c), _float(dry_approach_k)
    inlet_c = adiabatic_inlet_c(dry_bulb_c, wet_bulb_c, supply - approach, adiabatic_effectiveness)
    free = free_cooling_fraction(inlet_c + approach, supply, return_c)
    cop = carnot_cop(supply - EVAPORATOR_APPROACH_K, inlet_c + _float(condenser_lift_k), carnot_efficiency)
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
    open_dampers = _float(wet_bulb_c) <= _float(max_wet_bulb_c)
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
    wet = _float(wet_bulb_c)
    free = outside_air_free_fraction(dry_bulb_c, wet, supply_c, return_c, adiabatic_effectiveness, max_wet_bulb_c)
    cop = water_chiller_cop(wet + _float(tower_approach_k), chiller_load_fraction)
    # The tower moves only what the chillers take over, so its fans and pumps count for that part alone.
    return rejection_fraction(free, cop, _float(mover_fraction) * (1 - free))


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
    fans = _float(air_mover_fraction)
    pumps = _float(pump_fraction)
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
    inside = _float(air_mover_fraction) + _float(pump_fraction)
    return (1 + inside) * _float(rejection_fraction)


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
    liquid = _float(liquid_fraction)
    in_liquid = liquid * _float(liquid_loop_fraction)
    return in_liquid + (1 - liquid) * _float(air_loop_fraction)


@formula
def evaporated_l_per_kwh(heat_fraction: ArrayLike, water_c: ArrayLike = 25.0) -> FloatArray:
    r"""Water that evaporates per kWh of equipment energy.

    Parameters
    ----------
    heat_fraction : array_like
        Heat that leaves as vapour over equipment energy, shape ``(..., bin)``.
    water_c : array_like
        Temperature of the water. [°C]

    Returns
    -------
    ndarray
        [l/kWh]

    Notes
    -----
    :math:`3600 / h`, :math:`h = 2500.5 - 2.3097 t - 0.0013 t^2` kJ/kg, a fit to steam tables, 0-60 °C.

    Examples
    --------
    About one and a half litres carry a kilowatt-hour:

    >>> round(float(evaporated_l_per_kwh(1)), 2)
    1.47
    """
    t = _float(water_c)
    kj_per_kg = 2500.5 - 2.3097 * t - 0.0013 * t**2
    return _float(heat_fraction) * L_PER_KWH_PER_KJ_PER_KG / kj_per_kg


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
    heat = 1 + _float(loop_fraction) - _float(mover_fraction)
    return heat * _float(latent_fraction)


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
    return (_float(dry_bulb_c) - inlet_c) / _float(air_rise_k) * (1 + _float(loop_fraction))


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
    wet, supply = _float(wet_bulb_c), _float(supply_c)
    rise_k = _float(return_c) - supply
    free = outside_air_free_fraction(dry_bulb_c, wet, supply, return_c, adiabatic_effectiveness, max_wet_bulb_c)
    open_dampers = wet <= _float(max_wet_bulb_c)
    pads = pad_heat_fraction(dry_bulb_c, wet, supply, adiabatic_effectiveness, rise_k) * open_dampers
    return pads + (1 - free) * (1 + _float(loop_fraction))


@formula
def makeup_l_per_kwh(evaporated_l_per_kwh: ArrayLike, concentration_cycles: ArrayLike) -> FloatArray:
    r"""Water that must be supplied, evaporation and drained salts together: the site's water usage effectiveness.

    Parameters
    ----------
    evaporated_l_per_kwh : array_like
        :func:`evaporated_l_per_kwh`. [l/kWh]
    concentration_cycles : array_like
        Salt in the basin over salt in the supply: 3-15, more than 1.

    Returns
    -------
    ndarray
        WUE, litres per kWh of equipment energy. [l/kWh]

    Notes
    -----
    :math:`E\, C / (C - 1)`: blow-down :math:`E / (C - 1)` less drift, plus drift [1]_.

    References
    ----------
    .. [1] N. Lei, J. Lu, A. Shehabi, and E. Masanet, "The water use of data center workloads: a review and assessment
       of key determinants," Resour. Conserv. Recycl., vol. 219, 108310, 2025.

    Examples
    --------
    Four cycles add a third:

    >>> float(makeup_l_per_kwh(1.5, 4))
    2.0
    """
    cycles = _float(concentration_cycles)
    return _float(evaporated_l_per_kwh) * cycles / (cycles - 1)


@formula
def source_l_per_kwh(site_l_per_kwh: ArrayLike, pue: ArrayLike, grid_l_per_kwh: ArrayLike) -> FloatArray:
    """Water used at the site and by the power plants behind it, per kWh of equipment energy.

    Parameters
    ----------
    site_l_per_kwh : array_like
        Water usage effectiveness of the site. [l/kWh]
    pue : array_like
        Mean power usage effectiveness.
    grid_l_per_kwh : array_like
        Water consumed per kWh generated; 4.35 in the grid of the United States. [l/kWh]

    Returns
    -------
    ndarray
        [l/kWh]

    References
    ----------
    .. [1] The Green Grid, "Water usage effectiveness (WUE): a Green Grid data center sustainability metric," white
       paper 35, 2011.

    Examples
    --------
    >>> float(source_l_per_kwh(1, 1.25, 4))
    6.0
    """
    grid = _float(pue) * _float(grid_l_per_kwh)
    return _float(site_l_per_kwh) + grid


@formula
def energy_reuse_effectiveness(pue: ArrayLike, reused_fraction: ArrayLike) -> FloatArray:
    r"""Energy of the building less what it passes on as useful heat, over equipment energy.

    Parameters
    ----------
    pue : array_like
        Mean power usage effectiveness.
    reused_fraction : array_like
        Energy reuse factor: heat that is used outside the building over all energy of the building.

    Returns
    -------
    ndarray
        ERE. May be below 1; it is no PUE and does not lower the energy bill.

    Notes
    -----
    :math:`ERE = (1 - ERF)\, PUE` [1]_.

    References
    ----------
    .. [1] M. Patterson et al., "ERE: a metric for measuring the benefit of reuse energy from a data center," The Green
       Grid white paper 29, 2010; ISO/IEC 30134-6.

    Examples
    --------
    >>> round(float(energy_reuse_effectiveness(1.25, 0.2)), 6)
    1.0
    """
    return _float(pue) * (1 - _float(reused_fraction))


@formula
def reused_fraction(liquid_fraction: ArrayLike, taken_fraction: ArrayLike, pue: ArrayLike) -> FloatArray:
    r"""Energy reuse factor (ERF): heat that is used outside the building over all energy of the building.

    Parameters
    ----------
    liquid_fraction : array_like
        Share of the heat of the equipment that goes into the liquid, which alone is warm enough to sell.
    taken_fraction : array_like
        Share of that heat that is taken, over the year: 0.1-0.4 where homes are heated.
    pue : array_like
        Mean power usage effectiveness, shape ``(layout,)``.

    Returns
    -------
    ndarray
        0 to 1, shape ``(layout,)``.

    References
    ----------
    .. [1] As for :func:`energy_reuse_effectiveness`.

    Examples
    --------
    >>> round(float(reused_fraction(0.5, 0.5, 1.25)), 3)
    0.2
    """
    taken = _float(liquid_fraction) * _float(taken_fraction)
    return taken / _float(pue)


@formula
def reused_kwh(facility_kwh: ArrayLike, reused_fraction: ArrayLike) -> FloatArray:
    """Heat that is used outside the building.

    Parameters
    ----------
    facility_kwh : array_like
        Energy of the building, shape ``(layout,)``. [kWh]
    reused_fraction : array_like
        :func:`reused_fraction`.

    Returns
    -------
    ndarray
        Shape ``(layout,)``. [kWh]

    Examples
    --------
    >>> float(reused_kwh(1e6, 0.25))
    250000.0
    """
    return _float(facility_kwh) * _float(reused_fraction)
