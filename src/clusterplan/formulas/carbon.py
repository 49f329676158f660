"""Greenhouse gas and water of a run: operation by two accounting methods, equipment, building.

Intensities keep the units in which they are published: kilogram CO2 equivalent per kWh, litres per kWh.
"""

from __future__ import annotations

from clusterplan.arrays import ArrayLike, FloatArray, as_float
from clusterplan.trace import formula
from clusterplan.units import JOULES_PER_KWH

L_PER_M3 = 1e3


@formula
def location_based_kg_co2e(facility_j: ArrayLike, grid_kg_co2e_per_kwh: ArrayLike) -> FloatArray:
    """Emissions of the electricity by the mean of the grid that it comes from.

    Parameters
    ----------
    facility_j : array_like
        Energy of the whole building: equipment times PUE, shape ``(layout,)``. [J]
    grid_kg_co2e_per_kwh : array_like
        Annual mean of the grid. [kg/kWh]

    Returns
    -------
    ndarray
        Shape ``(layout,)``. [kg]

    References
    ----------
    .. [1] World Resources Institute, "GHG Protocol scope 2 guidance," 2015.

    Examples
    --------
    A gigawatt-hour at 400 g/kWh:

    >>> round(float(location_based_kg_co2e(1e6 * 3.6e6, 0.4)))
    400000
    """
    return as_float(facility_j) / JOULES_PER_KWH * as_float(grid_kg_co2e_per_kwh)


@formula
def market_based_kg_co2e(
    facility_j: ArrayLike,
    contract_fraction: ArrayLike,
    contract_kg_co2e_per_kwh: ArrayLike,
    residual_kg_co2e_per_kwh: ArrayLike,
) -> FloatArray:
    """Emissions of the electricity by the contracts that it is bought under.

    Parameters
    ----------
    facility_j : array_like
        Energy of the whole building, shape ``(layout,)``. [J]
    contract_fraction : array_like
        Share covered by certificates or supply contracts, over the year.
    contract_kg_co2e_per_kwh : array_like
        Their intensity; 0 for wind, sun, water and nuclear in this method. [kg/kWh]
    residual_kg_co2e_per_kwh : array_like
        What is left in the grid after all contracts; the mean of the grid is too low a stand-in for it. [kg/kWh]

    Returns
    -------
    ndarray
        Shape ``(layout,)``. [kg]

    References
    ----------
    .. [1] World Resources Institute, "GHG Protocol scope 2 guidance," 2015.

    Examples
    --------
    Three quarters of a gigawatt-hour contracted at zero, the rest at 400 g/kWh:

    >>> round(float(market_based_kg_co2e(1e6 * 3.6e6, 0.75, 0, 0.4)))
    100000
    """
    covered = as_float(contract_fraction)
    contract = covered * as_float(contract_kg_co2e_per_kwh)
    residual = (1 - covered) * as_float(residual_kg_co2e_per_kwh)
    return as_float(facility_j) / JOULES_PER_KWH * (contract + residual)


@formula
def embodied_kg_co2e(
    units: ArrayLike,
    kg_co2e_per_unit: ArrayLike,
    duration_s: ArrayLike,
    life_s: ArrayLike,
    utilisation_fraction: ArrayLike,
) -> FloatArray:
    r"""The run's share of the emissions of making its equipment.

    Parameters
    ----------
    units : array_like
        Accelerators, servers or other units held, spares included, shape ``(layout,)``.
    kg_co2e_per_unit : array_like
        Making one: 164 per H100 and 284 per B200 on its baseboard; a server without them 1300-5700. [kg]
    duration_s : array_like
        Time for which they are held. [s]
    life_s : array_like
        Time in service, 4-6 years. [s]
    utilisation_fraction : array_like
        Share of that time with work on it, which bears the whole.

    Returns
    -------
    ndarray
        Shape ``(layout,)``. [kg]

    References
    ----------
    .. [1] A. S. Luccioni, S. Viguier, and A.-L. Ligozat, "Estimating the carbon footprint of BLOOM, a 176B parameter
       language model," J. Mach. Learn. Res., vol. 24, no. 253, 2023: the method.
    .. [2] NVIDIA, "Product carbon footprint summary" of HGX H100 (1312 kg) and HGX B200 (2274 kg), 2025: the values.

    Examples
    --------
    A tenth of the life of a hundred units of 150 kg:

    >>> float(embodied_kg_co2e(100, 150, 1e7, 1e8, 1))
    1500.0
    """
    share = as_float(duration_s) / (as_float(life_s) * as_float(utilisation_fraction))
    return as_float(units) * as_float(kg_co2e_per_unit) * share


@formula
def building_kg_co2e(
    facility_w: ArrayLike, kg_co2e_per_w: ArrayLike, duration_s: ArrayLike, life_s: ArrayLike
) -> FloatArray:
    """The run's share of the emissions of making its building, with its electrical and cooling plant.

    Parameters
    ----------
    facility_w : array_like
        Power for which the building was made, the peak that the run needs, shape ``(layout,)``. [W]
    kg_co2e_per_w : array_like
        Assumed: 1-3 per watt (tonnes per kilowatt); no agreed figure exists. [kg/W]
    duration_s, life_s : array_like
        Time held, and life of the building, 15-20 years. [s]

    Returns
    -------
    ndarray
        Shape ``(layout,)``. [kg]

    Examples
    --------
    A tenth of the life of a megawatt at 2 t/kW:

    >>> float(building_kg_co2e(1e6, 2, 5e7, 5e8))
    200000.0
    """
    share = as_float(duration_s) / as_float(life_s)
    return as_float(facility_w) * as_float(kg_co2e_per_w) * share


@formula
def site_water_m3(it_j: ArrayLike, site_l_per_kwh: ArrayLike) -> FloatArray:
    """Water that the site uses for cooling.

    Parameters
    ----------
    it_j : array_like
        Energy of the equipment, without the building, shape ``(layout,)``. [J]
    site_l_per_kwh : array_like
        Water usage effectiveness (WUE), per kWh of equipment energy. [l/kWh]

    Returns
    -------
    ndarray
        Shape ``(layout,)``. [m³]

    References
    ----------
    .. [1] The Green Grid, "Water usage effectiveness (WUE): a Green Grid data center sustainability metric," white
       paper 35, 2011.

    Examples
    --------
    >>> float(site_water_m3(1e6 * 3.6e6, 2))
    2000.0
    """
    return as_float(it_j) / JOULES_PER_KWH * as_float(site_l_per_kwh) / L_PER_M3


@formula
def grid_water_m3(facility_j: ArrayLike, grid_l_per_kwh: ArrayLike) -> FloatArray:
    """Water that power plants use for the electricity, evaporation from reservoirs included where the source has it.

    Parameters
    ----------
    facility_j : array_like
        Energy of the whole building, shape ``(layout,)``. [J]
    grid_l_per_kwh : array_like
        Water consumed per kWh; 4.35 in the United States. [l/kWh]

    Returns
    -------
    ndarray
        Shape ``(layout,)``; another place than the site's water, so the two are shown apart. [m³]

    References
    ----------
    .. [1] A. Shehabi et al., "2024 United States data center energy usage report," Lawrence Berkeley National
       Laboratory, LBNL-2001637, 2024.

    Examples
    --------
    >>> float(grid_water_m3(1e6 * 3.6e6, 4))
    4000.0
    """
    return as_float(facility_j) / JOULES_PER_KWH * as_float(grid_l_per_kwh) / L_PER_M3
