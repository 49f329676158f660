"""Weather in bins: published wet bulbs, limits."""

import numpy as np
from numpy.testing import assert_allclose

from clusterplan.formulas.weather import (
    dry_bulb_bins_c,
    relative_humidity_bins_fraction,
    saturation_pa,
    wet_bulb_c,
)

# Annual mean, half of the seasonal and of the daily range, relative humidity: rounded climate normals of a city in each
# ASHRAE zone (Miami, Phoenix, Seattle, Chicago, Duluth; Singapore, Abu Dhabi, San Francisco, Minneapolis, Fairbanks).
CLIMATE = {
    "1A": (24.9, 4.4, 3.8, 0.73),
    "2B": (23.9, 11.5, 6.5, 0.36),
    "4C": (11.5, 7.0, 4.2, 0.73),
    "5A": (10.5, 14.0, 4.9, 0.70),
    "7": (4.2, 15.0, 5.0, 0.71),
    "0A": (27.8, 0.9, 3.2, 0.80),
    "0B": (28.0, 8.3, 5.5, 0.55),
    "3C": (14.2, 3.3, 3.3, 0.76),
    "6A": (8.0, 17.0, 5.0, 0.69),
    "8": (-2.0, 20.0, 5.5, 0.67),
}


# Weather --------------------------------------------------------------------------------------------------------------


def test_stull_wet_bulb():
    # Psychrometric chart at sea level: 30 °C at 50 % 22.0 °C; 35 °C at 30 % 21.9 °C; 10 °C at 80 % 8.2 °C.
    assert_allclose(wet_bulb_c([30, 35, 10], [0.5, 0.3, 0.8]), [22.0, 21.9, 8.2], atol=0.7)


def test_wet_bulb_never_above_the_air():
    dry_c, humidity = np.meshgrid(np.linspace(-25, 50, 76), np.linspace(0.05, 1, 20))
    assert np.all(wet_bulb_c(dry_c, humidity) <= dry_c)


def test_vapour_stays_through_the_day():
    humidity = relative_humidity_bins_fraction(15, 8, 6, 0.5)
    vapour = (humidity * saturation_pa(dry_bulb_bins_c(15, 8, 6))).reshape(12, 8)
    assert humidity.max() < 1
    assert_allclose(vapour, vapour[:, :1] * np.ones(8))


def test_night_air_holds_no_more_than_saturation():
    assert relative_humidity_bins_fraction(15, 8, 10, 0.9).max() == 1


def test_bins_of_several_sites():
    climates = np.array(list(CLIMATE.values())).T
    assert_allclose(dry_bulb_bins_c(*climates[:3]), [dry_bulb_bins_c(*site[:3]) for site in CLIMATE.values()])
    assert_allclose(
        relative_humidity_bins_fraction(*climates), [relative_humidity_bins_fraction(*s) for s in CLIMATE.values()]
    )


def test_saturation_pressure():
    # Steam tables: 2339 Pa at 20 °C, 7384 Pa at 40 °C.
    assert_allclose(saturation_pa([20, 40]), [2339, 7384], rtol=4e-3)
