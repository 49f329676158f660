"""What the building adds at the meter and beside it: power conversion, PUE, water, reused heat."""

from __future__ import annotations

from clusterplan.arrays import ArrayLike, FloatArray, as_float
from clusterplan.trace import formula

L_PER_KWH_PER_KJ_PER_KG = 3600.0  # litres that carry a kWh away, times the heat of evaporation in kJ/kg; 1 l = 1 kg

HALF_LOAD = 0.5
"""Load at which efficiencies of supplies and transformers are stated."""


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
    rating_w = as_float(peak_w) * as_float(supply_factor)
    return as_float(load_w) / rating_w


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
    lost = 1 / as_float(half_load_efficiency) - 1
    r = as_float(load_fraction) / HALF_LOAD
    standing, square = as_float(standing_fraction), as_float(square_fraction)
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
    return as_float(ups_efficiency) * as_float(transformer_efficiency)


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
        supplied
        + distribution_fraction(distribution_loss_fraction)
        + as_float(cooling_fraction)
        + as_float(misc_fraction)
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
    return 1 / as_float(ups_efficiency) - 1


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
    lost = as_float(distribution_loss_fraction)
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
    return as_float(it_w) * as_float(part_fraction)


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
    return as_float(it_w) * as_float(pue)


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
    t = as_float(water_c)
    kj_per_kg = 2500.5 - 2.3097 * t - 0.0013 * t**2
    return as_float(heat_fraction) * L_PER_KWH_PER_KJ_PER_KG / kj_per_kg


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
    cycles = as_float(concentration_cycles)
    return as_float(evaporated_l_per_kwh) * cycles / (cycles - 1)


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
    grid = as_float(pue) * as_float(grid_l_per_kwh)
    return as_float(site_l_per_kwh) + grid


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
    return as_float(pue) * (1 - as_float(reused_fraction))


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
    taken = as_float(liquid_fraction) * as_float(taken_fraction)
    return taken / as_float(pue)


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
    return as_float(facility_kwh) * as_float(reused_fraction)
