"""What a run costs, part by part: rent or ownership, building, energy, people, adders. The caller sums.

Prices keep the unit in which they are traded. Nothing here is a cash flow: an owned machine costs its annuity for as
long as the run holds it.
"""

from __future__ import annotations

import numpy as np

from clusterplan.arrays import ArrayLike, FloatArray, as_float
from clusterplan.trace import formula
from clusterplan.units import JOULES_PER_KWH, SECONDS_PER_HOUR, SECONDS_PER_MONTH, SECONDS_PER_YEAR

S_PER_YEAR = float(SECONDS_PER_YEAR)
W_PER_KW = 1e3
BYTES_PER_TB = 1e12


@formula
def rent_usd(devices: ArrayLike, duration_s: ArrayLike, usd_per_device_h: ArrayLike) -> FloatArray:
    """Rent of accelerators by the hour, their hosts, network, energy and building included.

    Parameters
    ----------
    devices : array_like
        Accelerators paid for, idle and spare ones included, shape ``(layout,)``.
    duration_s : array_like
        Time held, shape ``(layout,)``. [s]
    usd_per_device_h : array_like
        Rate of the contract. [USD/h]

    Returns
    -------
    ndarray
        Shape ``(layout,)``. [USD]

    Examples
    --------
    A thousand devices for a day at 2.50:

    >>> float(rent_usd(1000, 86400, 2.5))
    60000.0
    """
    hours = as_float(duration_s) / SECONDS_PER_HOUR
    return as_float(devices) * hours * as_float(usd_per_device_h)


@formula
def billed_s(duration_s: ArrayLike, minimum_s: ArrayLike) -> FloatArray:
    """Time that a rent is paid for.

    Parameters
    ----------
    duration_s : array_like
        Time of the run, shape ``(layout,)``. [s]
    minimum_s : array_like
        Least time of the contract: 0 on demand, the whole term of a reservation. [s]

    Returns
    -------
    ndarray
        Shape ``(layout,)``. [s]

    Notes
    -----
    What is left of a term after the run is paid by the run; if others use it, their share is not taken off.

    Examples
    --------
    A year is reserved for a hundred days:

    >>> float(billed_s(100 * 86400, 365.25 * 86400) / 86400)
    365.25
    """
    return np.maximum(as_float(duration_s), as_float(minimum_s))


@formula
def capital_recovery_per_year(interest_fraction_per_year: ArrayLike, life_s: ArrayLike) -> FloatArray:
    r"""Yearly payment that returns a loan of one dollar with interest over the life of what it bought.

    Parameters
    ----------
    interest_fraction_per_year : array_like
        Cost of capital, 0.07-0.12; 0 gives a straight line.
    life_s : array_like
        Years of service in seconds: equipment 4-6 years, buildings 15-20. [s]

    Returns
    -------
    ndarray
        Capital recovery factor. [1/year]

    Notes
    -----
    :math:`r (1 + r)^n / ((1 + r)^n - 1)`.

    References
    ----------
    .. [1] L. A. Barroso, U. Hölzle, and P. Ranganathan, *The Datacenter as a Computer*, 3rd ed., chapter 6, 2018.

    Examples
    --------
    Five years at 8 %:

    >>> round(float(capital_recovery_per_year(0.08, 5 * 365.25 * 86400)), 3)
    0.25
    """
    rate, years = as_float(interest_fraction_per_year), as_float(life_s) / SECONDS_PER_YEAR
    # r / (1 - (1 + r)^-n) is 0 / 0 without interest; a rate of 1e-9 a year differs from its limit 1/n by as little.
    rate = np.maximum(rate, 1e-9)
    return -rate / np.expm1(-years * np.log1p(rate))


@formula
def own_usd(
    capex_usd: ArrayLike,
    interest_fraction_per_year: ArrayLike,
    life_s: ArrayLike,
    residual_fraction: ArrayLike,
    duration_s: ArrayLike,
    utilisation_fraction: ArrayLike = 1.0,
) -> FloatArray:
    r"""The run's share of something bought: its annuity for the time held.

    Parameters
    ----------
    capex_usd : array_like
        Price paid, shape ``(layout,)``. [USD]
    interest_fraction_per_year, life_s : array_like
        As for :func:`capital_recovery_per_year`.
    residual_fraction : array_like
        Resale value at the end of the life over the price, 0 to 1.
    duration_s : array_like
        Time held, shape ``(layout,)``. [s]
    utilisation_fraction : array_like
        Share of the life in which some run pays; the rest is spread over the runs.

    Returns
    -------
    ndarray
        Shape ``(layout,)``. [USD]

    Notes
    -----
    :math:`C (CRF\,(1 - \rho) + r \rho)\, t / u`: what is not sold again is paid back with interest,
    what is sold again bears interest alone.

    References
    ----------
    .. [1] L. A. Barroso, U. Hölzle, and P. Ranganathan, *The Datacenter as a Computer*, 3rd ed., chapter 6, 2018.

    Examples
    --------
    A tenth of a life without interest:

    >>> round(float(own_usd(1e6, 0, 1e8, 0, 1e7)))
    100000
    """
    rate, residual = as_float(interest_fraction_per_year), as_float(residual_fraction)
    per_year = capital_recovery_per_year(rate, life_s) * (1 - residual) + rate * residual
    years = as_float(duration_s) / SECONDS_PER_YEAR
    return as_float(capex_usd) * per_year * years / as_float(utilisation_fraction)


@formula
def depreciation_usd(
    price_usd: ArrayLike,
    decline_fraction_per_year: ArrayLike,
    age_s: ArrayLike,
    duration_s: ArrayLike,
    utilisation_fraction: ArrayLike = 1.0,
) -> FloatArray:
    r"""Value that hardware loses while the run holds it, as newer hardware does the same for less.

    Parameters
    ----------
    price_usd : array_like
        Price when it was new, shape ``(layout,)``. [USD]
    decline_fraction_per_year : array_like
        Loss of value in a year: 0.276 for accelerators (0.14 orders of magnitude).
    age_s : array_like
        Age at the start of the run. [s]
    duration_s : array_like
        Time held. [s]
    utilisation_fraction : array_like
        As for :func:`own_usd`.

    Returns
    -------
    ndarray
        Shape ``(layout,)``. [USD]

    Notes
    -----
    :math:`V_0 (1-d)^{a} (1 - (1-d)^{t}) / u`. Another view than :func:`own_usd`; use one of them. The source takes the
    initial rate of loss for the whole run, which is 4 % more over a quarter of a year.

    References
    ----------
    .. [1] B. Cottier, R. Rahman, L. Fattorini, N. Maslej, and D. Owen, "The rising costs of training frontier AI
       models," arXiv:2405.21015, 2024.

    Examples
    --------
    Half the value goes each year; the second year takes a quarter:

    >>> year_s = 365.25 * 86400
    >>> float(depreciation_usd(1000, 0.5, year_s, year_s))
    250.0
    """
    kept = 1 - as_float(decline_fraction_per_year)
    age, years = as_float(age_s) / SECONDS_PER_YEAR, as_float(duration_s) / SECONDS_PER_YEAR
    return as_float(price_usd) * kept**age * (1 - kept**years) / as_float(utilisation_fraction)


@formula
def systems_capex_usd(systems: ArrayLike, usd_per_system: ArrayLike) -> FloatArray:
    """Price of the nodes, racks or supernodes, accelerators in them.

    Parameters
    ----------
    systems : array_like
        Purchase units, spares included, shape ``(layout,)``.
    usd_per_system : array_like
        Price of one. [USD]

    Returns
    -------
    ndarray
        Shape ``(layout,)``. [USD]

    Examples
    --------
    >>> float(systems_capex_usd(10, 310e3))
    3100000.0
    """
    return as_float(systems) * as_float(usd_per_system)


@formula
def network_capex_usd(
    devices: ArrayLike,
    switch_ports_per_device: ArrayLike,
    usd_per_switch_port: ArrayLike,
    optics_per_device: ArrayLike,
    usd_per_optic: ArrayLike,
    usd_per_device: ArrayLike = 0.0,
) -> FloatArray:
    """Price of the scale-out network from its parts; adapters come with the systems.

    Parameters
    ----------
    devices : array_like
        Accelerators that it connects, shape ``(layout,)``.
    switch_ports_per_device, optics_per_device : array_like
        Switch ports in all tiers and optical module ends, per accelerator.
    usd_per_switch_port, usd_per_optic : array_like
        Switch price over its ports, 560-780 at 400 Gbit/s; a module end, 300-900 at 400 Gbit/s. [USD]
    usd_per_device : array_like
        Cables and what else goes by the accelerator; an all-in price with the others at 0. [USD]

    Returns
    -------
    ndarray
        Shape ``(layout,)``. [USD]

    Examples
    --------
    Three ports at 700, four modules at 500:

    >>> float(network_capex_usd(1, 3, 700, 4, 500))
    4100.0
    """
    switches = as_float(switch_ports_per_device) * as_float(usd_per_switch_port)
    optics = as_float(optics_per_device) * as_float(usd_per_optic)
    return as_float(devices) * (switches + optics + as_float(usd_per_device))


@formula
def storage_capex_usd(capacity_bytes: ArrayLike, usd_per_tb: ArrayLike) -> FloatArray:
    """Price of the storage system.

    Parameters
    ----------
    capacity_bytes : array_like
        Capacity, shape ``(layout,)``. [B]
    usd_per_tb : array_like
        Price per 10¹² bytes, servers included. [USD/TB]

    Returns
    -------
    ndarray
        Shape ``(layout,)``. [USD]

    Examples
    --------
    >>> float(storage_capex_usd(10e15, 300))
    3000000.0
    """
    return as_float(capacity_bytes) / BYTES_PER_TB * as_float(usd_per_tb)


@formula
def facility_capex_usd(critical_w: ArrayLike, usd_per_w: ArrayLike, design_factor: ArrayLike = 1.0) -> FloatArray:
    """Price of the building with its power and cooling plant.

    Parameters
    ----------
    critical_w : array_like
        Equipment power that it is made for: the peak, not the mean, shape ``(layout,)``. [W]
    usd_per_w : array_like
        9.3-15.0 in the United States. [USD/W]
    design_factor : array_like
        Price of the cooling design over an air-cooled one: 1.07-1.10 for liquid.

    Returns
    -------
    ndarray
        Shape ``(layout,)``. [USD]

    References
    ----------
    .. [1] Cushman & Wakefield, "Data center development cost guide," 2025, page 8: the price.
    .. [2] Turner & Townsend, "Data centre construction cost index 2025-2026": the factor.

    Examples
    --------
    >>> float(facility_capex_usd(1e6, 12))
    12000000.0
    """
    usd_per_w = as_float(usd_per_w) * as_float(design_factor)
    return as_float(critical_w) * usd_per_w


@formula
def colocation_usd(critical_w: ArrayLike, duration_s: ArrayLike, usd_per_kw_month: ArrayLike) -> FloatArray:
    """Rent of space, power delivery and cooling for one's own equipment; energy is extra.

    Parameters
    ----------
    critical_w : array_like
        Equipment power reserved, shape ``(layout,)``. [W]
    duration_s : array_like
        Time held. [s]
    usd_per_kw_month : array_like
        184 for a quarter to half a megawatt, 110-160 for ten and more. [USD/(kW month)]

    Returns
    -------
    ndarray
        Shape ``(layout,)``. [USD]

    References
    ----------
    .. [1] CBRE, "North America data center trends H2 2024," 2025.

    Examples
    --------
    >>> round(float(colocation_usd(1e6, 365.25 * 86400, 150)))
    1800000
    """
    months = as_float(duration_s) / SECONDS_PER_MONTH
    return as_float(critical_w) / W_PER_KW * months * as_float(usd_per_kw_month)


@formula
def energy_usd(facility_j: ArrayLike, usd_per_kwh: ArrayLike) -> FloatArray:
    """Price of the electricity.

    Parameters
    ----------
    facility_j : array_like
        Energy of the whole building: equipment times PUE, shape ``(layout,)``. [J]
    usd_per_kwh : array_like
        Tariff, shape ``(layout,)`` or one number; 0.083 for industry in the United States in 2025. [USD/kWh]

    Returns
    -------
    ndarray
        Shape ``(layout,)``. [USD]

    Examples
    --------
    A gigawatt-hour at eight cents:

    >>> round(float(energy_usd(1e6 * 3.6e6, 0.08)))
    80000
    """
    return as_float(facility_j) / JOULES_PER_KWH * as_float(usd_per_kwh)


@formula
def demand_usd(peak_w: ArrayLike, duration_s: ArrayLike, usd_per_kw_month: ArrayLike) -> FloatArray:
    """Charge for the highest power, which many tariffs have beside that for energy.

    Parameters
    ----------
    peak_w : array_like
        Peak of the whole building, shape ``(layout,)``. [W]
    duration_s : array_like
        Time held; part months are charged in part. [s]
    usd_per_kw_month : array_like
        0-20. [USD/(kW month)]

    Returns
    -------
    ndarray
        Shape ``(layout,)``. [USD]

    Examples
    --------
    >>> round(float(demand_usd(1e6, 365.25 * 86400 / 12, 10)))
    10000
    """
    months = as_float(duration_s) / SECONDS_PER_MONTH
    return as_float(peak_w) / W_PER_KW * months * as_float(usd_per_kw_month)


@formula
def staff_usd(people: ArrayLike, usd_per_person_year: ArrayLike, duration_s: ArrayLike) -> FloatArray:
    """Pay of the people who run the training, with overheads.

    Parameters
    ----------
    people : array_like
        Full-time equivalents, shape ``(layout,)`` or one number.
    usd_per_person_year : array_like
        Pay, equity and overheads. [USD/year]
    duration_s : array_like
        Time of the run. [s]

    Returns
    -------
    ndarray
        Shape ``(layout,)``. [USD]

    Examples
    --------
    Ten people for a tenth of a year:

    >>> round(float(staff_usd(10, 300e3, 36.525 * 86400)))
    300000
    """
    years = as_float(duration_s) / SECONDS_PER_YEAR
    return as_float(people) * as_float(usd_per_person_year) * years


@formula
def support_usd(capex_usd: ArrayLike, support_fraction_per_year: ArrayLike, duration_s: ArrayLike) -> FloatArray:
    """Maintenance and support contracts of what was bought.

    Parameters
    ----------
    capex_usd : array_like
        Price paid, shape ``(layout,)``. [USD]
    support_fraction_per_year : array_like
        0.02-0.06 of equipment, 0.02-0.05 of buildings.
    duration_s : array_like
        Time held. [s]

    Returns
    -------
    ndarray
        Shape ``(layout,)``. [USD]

    Examples
    --------
    >>> float(support_usd(1e6, 0.04, 365.25 * 86400))
    40000.0
    """
    years = as_float(duration_s) / SECONDS_PER_YEAR
    return as_float(capex_usd) * as_float(support_fraction_per_year) * years


@formula
def storage_rent_usd(capacity_bytes: ArrayLike, duration_s: ArrayLike, usd_per_tb_month: ArrayLike) -> FloatArray:
    """Rent of storage for data and checkpoints.

    Parameters
    ----------
    capacity_bytes : array_like
        Capacity, shape ``(layout,)``. [B]
    duration_s : array_like
        Time held. [s]
    usd_per_tb_month : array_like
        Per 10¹² bytes. [USD/(TB month)]

    Returns
    -------
    ndarray
        Shape ``(layout,)``. [USD]

    Examples
    --------
    >>> round(float(storage_rent_usd(1e15, 365.25 * 86400 / 12, 20)))
    20000
    """
    months = as_float(duration_s) / SECONDS_PER_MONTH
    return as_float(capacity_bytes) / BYTES_PER_TB * months * as_float(usd_per_tb_month)


@formula
def sold_heat_usd(reused_kwh: ArrayLike, usd_per_kwh: ArrayLike) -> FloatArray:
    """What heat costs that is sold: less than nothing.

    Parameters
    ----------
    reused_kwh : array_like
        Heat that somebody takes, shape ``(layout,)``. [kWh]
    usd_per_kwh : array_like
        Price of the heat: 0-0.05, as a district-heating network pays at the temperature that it gets. [USD/kWh]

    Returns
    -------
    ndarray
        At most 0, shape ``(layout,)``. The energy bill and PUE are those without the sale. [USD]

    Examples
    --------
    >>> float(sold_heat_usd(1e6, 0.02))
    -20000.0
    """
    return -as_float(reused_kwh) * as_float(usd_per_kwh)


@formula
def water_usd(water_m3: ArrayLike, usd_per_m3: ArrayLike) -> FloatArray:
    """Price of the water that the site uses, sewage included.

    Parameters
    ----------
    water_m3 : array_like
        At the site, not at power plants, shape ``(layout,)``. [m³]
    usd_per_m3 : array_like
        Tariff. [USD/m³]

    Returns
    -------
    ndarray
        Shape ``(layout,)``. [USD]

    Examples
    --------
    >>> float(water_usd(1000, 1.5))
    1500.0
    """
    return as_float(water_m3) * as_float(usd_per_m3)


@formula
def carbon_usd(kg_co2e: ArrayLike, usd_per_kg_co2e: ArrayLike) -> FloatArray:
    """Price of emissions, where one is set or wanted for comparison.

    Parameters
    ----------
    kg_co2e : array_like
        Emissions that are priced, shape ``(layout,)``. [kg]
    usd_per_kg_co2e : array_like
        Price. A tariff in a priced market already holds it. [USD/kg]

    Returns
    -------
    ndarray
        Shape ``(layout,)``. [USD]

    Examples
    --------
    Two tonnes at 80 USD:

    >>> float(carbon_usd(2000, 0.08))
    160.0
    """
    return as_float(kg_co2e) * as_float(usd_per_kg_co2e)


@formula
def break_even_utilisation(annuity_usd: ArrayLike, other_usd: ArrayLike, rent_usd: ArrayLike) -> FloatArray:
    r"""Share of the owned hours that must carry paid work for owning to cost no more than renting.

    Parameters
    ----------
    annuity_usd : array_like
        What a run pays for everything that was bought, if all owned hours carried paid work, shape ``(layout,)``. [USD]
    other_usd : array_like
        What owning costs the run whatever the utilisation: energy, staff, support. [USD]
    rent_usd : array_like
        What the run costs rented, all parts. [USD]

    Returns
    -------
    ndarray
        Above 1 where no utilisation is enough, infinite where the run's own bills exceed the rent, shape ``(layout,)``.

    Notes
    -----
    :math:`A / u + B = R`, so :math:`u = A / (R - B)`. Support of idle hours is not in it.

    Examples
    --------
    30 of annuity and 10 of bills against a rent of 70:

    >>> float(break_even_utilisation(30, 10, 70))
    0.5
    """
    left_usd = as_float(rent_usd) - as_float(other_usd)
    return np.where(left_usd > 0, as_float(annuity_usd) / np.where(left_usd > 0, left_usd, 1), np.inf)


@formula
def usd_per_device_h(total_usd: ArrayLike, devices: ArrayLike, useful_s: ArrayLike) -> FloatArray:
    """Cost of a delivered device-hour: one that did work which was kept.

    Parameters
    ----------
    total_usd : array_like
        Sum of the parts, shape ``(layout,)``. [USD]
    devices : array_like
        Devices at work, without spare and idle ones, shape ``(layout,)``.
    useful_s : array_like
        Time of all steps without losses, shape ``(layout,)``. [s]

    Returns
    -------
    ndarray
        Shape ``(layout,)``. [USD/h]

    Examples
    --------
    A thousand devices that worked a hundred hours:

    >>> float(usd_per_device_h(250e3, 1000, 360e3))
    2.5
    """
    return as_float(total_usd) / (as_float(devices) * as_float(useful_s) / SECONDS_PER_HOUR)


@formula
def usd_per_million_tokens(total_usd: ArrayLike, tokens: ArrayLike) -> FloatArray:
    """Cost of the run over the tokens that it trains on.

    Parameters
    ----------
    total_usd : array_like
        Sum of the parts, shape ``(layout,)``. [USD]
    tokens : array_like
        Tokens trained on; repeated work after failures is in the cost, not here.

    Returns
    -------
    ndarray
        Shape ``(layout,)``. [USD]

    Examples
    --------
    Sixty million for fifteen trillion:

    >>> float(usd_per_million_tokens(60e6, 15e12))
    4.0
    """
    return as_float(total_usd) / (as_float(tokens) / 1e6)
