"""Weather of a year in bins, from a few figures of a climate, and means and peaks over the bins."""

from __future__ import annotations

import numpy as np

from clusterplan.arrays import ArrayLike, FloatArray, as_float
from clusterplan.trace import formula

MONTHS = 12
HOURS_OF_DAY = 8
"""Weather bins: twelve months times eight three-hour parts of the day, all equally long."""


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
        as_float(part)[..., None, None] for part in (mean_c, seasonal_amplitude_c, daily_amplitude_c)
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
    t = as_float(temperature_c)
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
    day_mean_c = dry_bulb_bins_c(mean_c, seasonal_amplitude_c, np.zeros_like(as_float(daily_amplitude_c)))
    bin_c = dry_bulb_bins_c(mean_c, seasonal_amplitude_c, daily_amplitude_c)
    humidity = as_float(mean_relative_humidity_fraction)[..., None]
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
    t = as_float(dry_bulb_c)
    rh = 100 * as_float(relative_humidity_fraction)
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
    values = as_float(values)
    return np.average(values, axis=-1, weights=np.broadcast_to(as_float(hours), values.shape[-1:]))


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
    return np.max(as_float(values), axis=-1)


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
    return np.maximum(as_float(hottest_bin_fraction), as_float(hottest_hours_fraction))
