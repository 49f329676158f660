"""Electrical power of the computing equipment: accelerators by phase and clock, nodes, network, storage.

Nodes, network and storage are at the input of their power supplies, where a rack meter reads; what the building adds is
in ``facility``. Power is per device, per node or for a whole cluster, as each function says.
"""

from __future__ import annotations

import numpy as np

from clusterplan.arrays import ArrayLike, FloatArray, as_float
from clusterplan.trace import formula
from clusterplan.units import JOULES_PER_KWH


@formula
def accelerator_w(
    idle_w: ArrayLike,
    limit_w: ArrayLike,
    activity_fraction: ArrayLike,
    clock_fraction: ArrayLike,
    exponent: ArrayLike,
) -> FloatArray:
    r"""Power of one accelerator in one phase of its work.

    Parameters
    ----------
    idle_w : array_like
        Power with a program loaded and no kernel running, shape ``(layout,)`` or ``(layout, phase)``. [W]
    limit_w : array_like
        Power limit of the device, at least ``idle_w``. [W]
    activity_fraction : array_like
        Share of the range from idle to limit that the phase draws at full clock: matrix products 1, memory-bound
        kernels 0.7-0.85, exposed communication 0.35-0.5, waiting 0.15-0.3 (assumed; ranges that fit metered nodes). It
        may exceed 1, and the limit then clips.
    clock_fraction : array_like
        Core clock over the clock that the device holds in training without a cap.
    exponent : array_like
        Power above idle goes as clock to this power: 2.5-3 while voltage follows the clock, 1.2-1.5 below the knee
        where voltage is at its minimum.

    Returns
    -------
    ndarray
        Mean power in the phase, never above ``limit_w``; the shape that the inputs broadcast to. [W]

    Notes
    -----
    :math:`P = \min(P_{lim},\; P_0 + (P_{lim} - P_0)\, a\, \phi^{\alpha})`: switching power goes as :math:`f V^2` and
    voltage rises almost with the clock [1]_. A power that stays above idle as the clock falls is not modelled: below
    half of the full clock the result is too low.

    References
    ----------
    .. [1] A. P. Chandrakasan, S. Sheng, and R. W. Brodersen, "Low-power CMOS digital design," IEEE J. Solid-State
       Circuits, vol. 27, no. 4, pp. 473-484, 1992.

    Examples
    --------
    A 700 W device that idles at 100 W, half busy:

    >>> float(accelerator_w(100, 700, 0.5, 1, 2.5))
    400.0
    """
    idle_w, limit_w = as_float(idle_w), as_float(limit_w)
    activity, clock = as_float(activity_fraction), as_float(clock_fraction)
    drawn_w = idle_w + (limit_w - idle_w) * activity * clock ** as_float(exponent)
    return np.minimum(drawn_w, limit_w)


@formula
def clock_slowdown(clock_fraction: ArrayLike, clock_bound_fraction: ArrayLike) -> FloatArray:
    r"""Time of a piece of work at a lower clock over its time at full clock.

    Parameters
    ----------
    clock_fraction : array_like
        Core clock over full clock, shape ``(layout,)``. More than 0.
    clock_bound_fraction : array_like
        Share of the time at full clock that goes with the core clock (matrix and vector units, caches); the rest waits
        for memory or network, which have clocks of their own. 0.4-0.8 for training steps.

    Returns
    -------
    ndarray
        At least 1 for a clock below full, shape ``(layout,)``.

    Notes
    -----
    :math:`t / t_0 = c / \phi + 1 - c`, which is Amdahl's law with the clock as the speed-up [1]_.

    References
    ----------
    .. [1] G. M. Amdahl, "Validity of the single processor approach to achieving large scale computing capabilities,"
       Proc. AFIPS Spring Joint Computer Conf., pp. 483-485, 1967.

    Examples
    --------
    Half the clock doubles the half that depends on it:

    >>> float(clock_slowdown(0.5, 0.5))
    1.5
    """
    clock, bound = as_float(clock_fraction), as_float(clock_bound_fraction)
    return bound / clock + 1 - bound


@formula
def capped_clock_fraction(
    idle_w: ArrayLike,
    limit_w: ArrayLike,
    cap_w: ArrayLike,
    activity_fraction: ArrayLike,
    exponent: ArrayLike,
) -> FloatArray:
    r"""Highest clock that keeps a phase under a power cap: :func:`accelerator_w` solved for the clock.

    Parameters
    ----------
    idle_w, limit_w : array_like
        Idle power and power limit of the device, shape ``(layout,)``. [W]
    cap_w : array_like
        Power that the device is held to. Below ``idle_w`` no clock is low enough and the result is 0. [W]
    activity_fraction, exponent : array_like
        As for :func:`accelerator_w`.

    Returns
    -------
    ndarray
        Clock over full clock, 0 to 1, shape ``(layout,)``.

    References
    ----------
    .. [1] As for :func:`accelerator_w`.

    Examples
    --------
    A cap at the limit leaves the clock alone:

    >>> float(capped_clock_fraction(100, 700, 700, 1, 2.5))
    1.0
    """
    idle_w, limit_w = as_float(idle_w), as_float(limit_w)
    headroom_w = np.maximum(as_float(cap_w) - idle_w, 0)
    drawn_w = (limit_w - idle_w) * as_float(activity_fraction)
    return np.minimum(headroom_w / drawn_w, 1) ** (1 / as_float(exponent))


@formula
def phase_mean_w(shares: ArrayLike, watts: ArrayLike) -> FloatArray:
    """Mean power over the phases of the work.

    Parameters
    ----------
    shares : array_like
        Share of the time spent in each phase, shape ``(layout, phase)``. Each row adds up to 1.
    watts : array_like
        Power in each phase, shape ``(layout, phase)`` or ``(phase,)``. [W]

    Returns
    -------
    ndarray
        Time-weighted mean, shape ``(layout,)``. [W]

    Notes
    -----
    The same function takes the phases of a step (matrix, memory, communication, waiting) and the states of a run
    (steps, checkpoint stalls, restarts). Energy is this mean times the wall time.

    Examples
    --------
    Three quarters at 700 W, a quarter at 300 W:

    >>> float(phase_mean_w([0.75, 0.25], [700, 300]))
    600.0
    """
    return np.sum(as_float(shares) * as_float(watts), axis=-1)


@formula
def exceeded_w(shares: ArrayLike, watts: ArrayLike, exceeded_fraction: ArrayLike) -> FloatArray:
    """Power that is exceeded for a given share of the time, from the phases of the work.

    Parameters
    ----------
    shares, watts : array_like
        As for :func:`phase_mean_w`: time and power of each phase, shapes ``(layout, phase)`` and ``(phase,)``.
    exceeded_fraction : array_like
        Share of the time with more power: 0.05 for the 95th percentile.

    Returns
    -------
    ndarray
        Power of the phase that the percentile falls into, shape ``(layout,)``. [W]

    Notes
    -----
    Power inside a phase is taken as even: swings of milliseconds, which supplies pass on in part, are not in it.

    Examples
    --------
    One tenth of the time at 700 W, then 2 % of it:

    >>> exceeded_w([[0.1, 0.9], [0.02, 0.98]], [700, 300], 0.05).tolist()
    [700.0, 300.0]
    """
    times = as_float(shares)
    levels: FloatArray = as_float(watts) + np.zeros_like(times)
    order = np.argsort(-levels, axis=-1, kind="stable")
    above = np.cumsum(np.take_along_axis(times, order, axis=-1), axis=-1)
    # The last phase is reached at the latest; rounding may leave the sum a hair below the share that is asked for.
    phase = np.minimum(np.sum(above <= as_float(exceeded_fraction), axis=-1), levels.shape[-1] - 1)
    ranked = np.take_along_axis(levels, order, axis=-1)
    return np.take_along_axis(ranked, phase[..., None], axis=-1)[..., 0]


@formula
def hall_p95_w(
    mean_w: ArrayLike, units: ArrayLike, unit_p95_w: ArrayLike, unit_mean_w: ArrayLike, coherence_fraction: ArrayLike
) -> FloatArray:
    r"""Power of all equipment that is exceeded in a twentieth of the time.

    Parameters
    ----------
    mean_w : array_like
        Mean power of all equipment, shape ``(layout,)``. [W]
    units : array_like
        Units at work, shape ``(layout,)``.
    unit_p95_w, unit_mean_w : array_like
        95th percentile and mean of one of them, shape ``(layout,)``. [W]
    coherence_fraction : array_like
        How far the units change phase at the same time, as for :func:`swing_w`.

    Returns
    -------
    ndarray
        Shape ``(layout,)``. [W]

    Notes
    -----
    :math:`\bar P + n\,c\,(P_{95} - \bar p)`: network, storage and idle units draw the same all the time.

    Examples
    --------
    >>> float(hall_p95_w(1e6, 100, 9000, 8000, 0.5))
    1050000.0
    """
    above_w = np.maximum(as_float(unit_p95_w) - as_float(unit_mean_w), 0)
    return as_float(mean_w) + as_float(units) * above_w * as_float(coherence_fraction)


@formula
def hall_nameplate_w(nodes_w: ArrayLike, network_w: ArrayLike, storage_w: ArrayLike) -> FloatArray:
    """All equipment at the highest power of its data sheets.

    Parameters
    ----------
    nodes_w : array_like
        :func:`nameplate_w` of all units, all of it provided, shape ``(layout,)``. [W]
    network_w, storage_w : array_like
        Network and the run's share of the storage, which draw nearly the same all the time, shape ``(layout,)``. [W]

    Returns
    -------
    ndarray
        Shape ``(layout,)``. [W]

    Examples
    --------
    >>> float(hall_nameplate_w(1e6, 1e5, 2e4))
    1120000.0
    """
    return as_float(nodes_w) + as_float(network_w) + as_float(storage_w)


@formula
def conversion_input_w(output_w: ArrayLike, efficiency: ArrayLike, fixed_w: ArrayLike = 0.0) -> FloatArray:
    r"""Power that a converter takes from its input to give a certain output.

    Parameters
    ----------
    output_w : array_like
        Power delivered by one converter, shape ``(layout,)``. [W]
    efficiency : array_like
        Marginal efficiency, more than 0, at most 1.
    fixed_w : array_like
        Loss that is there whatever the load, seen at the output. [W]

    Returns
    -------
    ndarray
        Input power, shape ``(layout,)``. [W]

    Notes
    -----
    :math:`P_{in} = (P_{out} + k) / \eta`, the loss model fitted to the converters of Frontier: 13 W and 0.98 from
    380 V to the board of a node, 17 W and 0.96 for a rectifier that feeds four nodes [1]_.

    References
    ----------
    .. [1] W. Brewer et al., "A digital twin framework for liquid-cooled supercomputers as demonstrated at exascale,"
       Proc. SC24, 2024; constants from its open code, ExaDigiT RAPS, frontier configuration.

    Examples
    --------
    Two per cent of a kilowatt and a fixed 20 W:

    >>> float(conversion_input_w(960, 0.98, 20))
    1000.0
    """
    output_w, efficiency = as_float(output_w), as_float(efficiency)
    return (output_w + as_float(fixed_w)) / efficiency


@formula
def node_w(
    accelerator_w: ArrayLike,
    devices: ArrayLike,
    host_w: ArrayLike,
    nics: ArrayLike,
    nic_w: ArrayLike,
    switch_w: ArrayLike,
    fan_fraction: ArrayLike,
    psu_efficiency: ArrayLike,
    psu_fixed_w: ArrayLike = 0.0,
) -> FloatArray:
    r"""Power that one node, rack or supernode takes from the mains.

    Parameters
    ----------
    accelerator_w : array_like
        Mean power of one accelerator, shape ``(layout,)``; its idle power for a node that only waits. [W]
    devices : array_like
        Accelerators in the unit.
    host_w : array_like
        CPUs, memory, local drives and management of the whole unit, without fans. [W]
    nics : array_like
        Network adapters in the unit.
    nic_w : array_like
        One adapter without its optical module. [W]
    switch_w : array_like
        Scale-up switches of the unit together. [W]
    fan_fraction : array_like
        Fans over everything behind the power supplies: 0.08-0.15 air-cooled, about 0.01 with cold plates, 0 immersed.
    psu_efficiency : array_like
        Power supplies, mains to board: 0.94-0.96.
    psu_fixed_w : array_like
        Constant part of the loss of all supplies of the unit. [W]

    Returns
    -------
    ndarray
        Power of the unit, shape ``(layout,)``. [W]

    Notes
    -----
    :math:`P = \left(\frac{g P_{acc} + P_{host} + n P_{nic} + P_{sw}}{1 - \varphi} + k\right) / \eta`. Fans follow the
    power here; real ones have a floor, so an idle air-cooled node draws somewhat more. An eight-H100 node has been
    metered at 6.85 kW in GPT-3 training when immersed (2.2 kW idle) [1]_ and at 7.0-8.4 kW with fans [2]_, of 10.2 kW
    on its nameplate.

    References
    ----------
    .. [1] MLCommons, MLPerf Training v4.0 results, power logs of the 64-node GPT-3 submission, 2024.
    .. [2] I. Latif et al., "Empirical measurements of AI training power demand on a GPU-accelerated node," IEEE
       Access, 2025.

    Examples
    --------
    Eight devices of 700 W, 1.2 kW of host, eight adapters of 25 W, no fans, ideal supplies:

    >>> float(node_w(700, 8, 1200, 8, 25, 0, 0, 1))
    7000.0
    """
    accelerators_w = as_float(devices) * as_float(accelerator_w)
    adapters_w = as_float(nics) * as_float(nic_w)
    electronics_w = accelerators_w + adapters_w + as_float(host_w) + as_float(switch_w)
    behind_supply_w = electronics_w / (1 - as_float(fan_fraction))
    return conversion_input_w(behind_supply_w, psu_efficiency, psu_fixed_w)


@formula
def overhead_w(
    electronics_w: ArrayLike, fan_fraction: ArrayLike, psu_efficiency: ArrayLike, psu_fixed_w: ArrayLike = 0.0
) -> FloatArray:
    r"""What fans and power supplies add to the power of the parts of a node.

    Parameters
    ----------
    electronics_w : array_like
        Accelerators, host, adapters and switches together, shape ``(layout,)``. [W]
    fan_fraction, psu_efficiency, psu_fixed_w : array_like
        As for :func:`node_w`; the constant loss is that of all the nodes that ``electronics_w`` counts.

    Returns
    -------
    ndarray
        Shape ``(layout,)``. :func:`node_w` is this and the parts. [W]

    Notes
    -----
    :math:`P (1 / ((1 - \varphi) \eta) - 1) + k / \eta`.

    Examples
    --------
    A tenth of the power behind ideal supplies goes to fans:

    >>> round(float(overhead_w(900, 0.1, 1)), 6)
    100.0
    """
    efficiency = as_float(psu_efficiency)
    passed_on = (1 - as_float(fan_fraction)) * efficiency
    return as_float(electronics_w) * (1 / passed_on - 1) + as_float(psu_fixed_w) / efficiency


@formula
def together_w(count: ArrayLike, each_w: ArrayLike) -> FloatArray:
    """Power of a number of equal things.

    Parameters
    ----------
    count : array_like
        How many, or which part of one, shape ``(layout,)``.
    each_w : array_like
        Mean power of one, shape ``(layout,)``. [W]

    Returns
    -------
    ndarray
        Shape ``(layout,)``. [W]

    Examples
    --------
    >>> float(together_w(1000, 600))
    600000.0
    """
    return as_float(count) * as_float(each_w)


@formula
def capped_w(
    full_w: ArrayLike, device_w: ArrayLike, devices: ArrayLike, fan_fraction: ArrayLike, psu_efficiency: ArrayLike
) -> FloatArray:
    r"""What a clock below the full one takes off the highest power of a node, fans and supplies included.

    Parameters
    ----------
    full_w, device_w : array_like
        :func:`accelerator_w` in the phase that draws most, at full clock and at this one. [W]
    devices : array_like
        Accelerators in the node.
    fan_fraction, psu_efficiency : array_like
        As for :func:`node_w`.

    Returns
    -------
    ndarray
        0 at full clock; the shape that the inputs broadcast to. [W]

    Notes
    -----
    :math:`g\,(P(1) - P(\phi)) / ((1 - \varphi)\,\eta)`.

    Examples
    --------
    Eight devices that draw 300 W less:

    >>> float(capped_w(700, 400, 8, 0, 1))
    2400.0
    """
    saved_w = as_float(devices) * (as_float(full_w) - as_float(device_w))
    return saved_w / ((1 - as_float(fan_fraction)) * as_float(psu_efficiency))


@formula
def fanless_w(rated_w: ArrayLike, fan_fraction: ArrayLike) -> FloatArray:
    r"""Maximum power of a unit whose fans are taken out, as in a tank.

    Parameters
    ----------
    rated_w : array_like
        Maximum power with its fans, by its data sheet. [W]
    fan_fraction : array_like
        As for :func:`node_w`.

    Returns
    -------
    ndarray
        :math:`P (1 - \varphi)`: supplies that are there for the fans lose nothing either. [W]

    Examples
    --------
    >>> float(fanless_w(10e3, 0.25))
    7500.0
    """
    return as_float(rated_w) * (1 - as_float(fan_fraction))


@formula
def nameplate_w(
    rated_w: ArrayLike, units: ArrayLike, provision_fraction: ArrayLike, capped_w: ArrayLike = 0.0
) -> FloatArray:
    """Power that is set aside for a number of nodes, from their nameplates.

    Parameters
    ----------
    rated_w : array_like
        Maximum power of one unit by its data sheet. [W]
    units : array_like
        Units fed, spares included, shape ``(layout,)``.
    provision_fraction : array_like
        Share of the nameplate that is provisioned: 0.8-0.9 for training, where few per cent of headroom are left [1]_.
    capped_w : array_like
        What a cap takes off the maximum power of one unit: :func:`capped_w`. [W]

    Returns
    -------
    ndarray
        Provisioned power, shape ``(layout,)``. [W]

    References
    ----------
    .. [1] P. Patel et al., "Characterizing power management opportunities for LLMs in the cloud," Proc. ASPLOS, 2024.

    Examples
    --------
    A hundred 10 kW nodes at 80 %:

    >>> float(nameplate_w(10e3, 100, 0.8))
    800000.0
    """
    rated_w, units = as_float(rated_w) - as_float(capped_w), as_float(units)
    return rated_w * units * as_float(provision_fraction)


@formula
def peak_w(provisioned_w: ArrayLike, mean_w: ArrayLike) -> FloatArray:
    """Highest power that the equipment is expected to take.

    Parameters
    ----------
    provisioned_w : array_like
        Power that is set aside: :func:`nameplate_w` with network and storage, shape ``(layout,)``. [W]
    mean_w : array_like
        Mean power of the same equipment, shape ``(layout,)``. [W]

    Returns
    -------
    ndarray
        What is set aside, and never less than the mean, shape ``(layout,)``. [W]

    Examples
    --------
    >>> float(peak_w(9e6, 8e6))
    9000000.0
    """
    return np.maximum(as_float(provisioned_w), as_float(mean_w))


@formula
def endpoints_per_device(interface_bytes_per_s: ArrayLike, port_bytes_per_s: ArrayLike) -> FloatArray:
    """Ports of the scale-out network that one accelerator takes.

    Parameters
    ----------
    interface_bytes_per_s, port_bytes_per_s : array_like
        Line rate of the accelerator's interface and of a port, one way. [byte/s]

    Returns
    -------
    ndarray
        Below 1 where accelerators share a port.

    Examples
    --------
    100 GB/s in ports of 50 GB/s:

    >>> float(endpoints_per_device(100e9, 50e9))
    2.0
    """
    return as_float(interface_bytes_per_s) / as_float(port_bytes_per_s)


@formula
def fabric_w(
    switch_ports: ArrayLike, switch_w_per_port: ArrayLike, optics: ArrayLike, optic_w: ArrayLike
) -> FloatArray:
    """Power of the scale-out network: switches and optical modules.

    Parameters
    ----------
    switch_ports : array_like
        Ports of all switches, in use or not, shape ``(layout,)``.
    switch_w_per_port : array_like
        A switch without modules over its ports: 12 W at 400 Gbit/s, 15 W at 800 Gbit/s. [W]
    optics : array_like
        Modules, those at the devices included, shape ``(layout,)``.
    optic_w : array_like
        One module: 8-12 W at 400 Gbit/s, 14-17 W at 800, 25-30 W at 1600, about 9 W co-packaged. [W]

    Returns
    -------
    ndarray
        Power of the network, shape ``(layout,)``. Adapters are in :func:`node_w`. [W]

    Notes
    -----
    Network equipment draws nearly the same idle or busy, so this holds for the whole run. 60-130 W per accelerator is
    usual; a submitter estimated 931 W per eight-device node for 64 nodes in two tiers, adapters probably included [1]_.

    References
    ----------
    .. [1] MLCommons, MLPerf Training v4.0 results, interconnect power estimate of the 64-node GPT-3 submission, 2024.

    Examples
    --------
    3,000 ports of 10 W and 4,000 modules of 10 W:

    >>> float(fabric_w(3000, 10, 4000, 10))
    70000.0
    """
    return as_float(switch_ports) * as_float(switch_w_per_port) + as_float(optics) * as_float(optic_w)


@formula
def storage_w(
    capacity_bytes: ArrayLike, w_per_byte: ArrayLike, bytes_per_s: ArrayLike, w_per_byte_per_s: ArrayLike
) -> FloatArray:
    """Power of the storage system, by what it holds and how fast it is.

    Parameters
    ----------
    capacity_bytes : array_like
        Capacity, shape ``(layout,)``. [B]
    w_per_byte : array_like
        Drives that keep the data. [W/B]
    bytes_per_s : array_like
        Bandwidth that the servers are built for. [B/s]
    w_per_byte_per_s : array_like
        Servers that move the data: 0.6-1 kW per 10-20 GB/s with flash. [W per B/s]

    Returns
    -------
    ndarray
        Power of the storage, shape ``(layout,)``; 2-4 % of the equipment in large clusters. [W]

    Examples
    --------
    10 PB at half a watt per TB, 1 TB/s at 50 W per GB/s:

    >>> round(float(storage_w(10e15, 0.5e-12, 1e12, 50e-9)))
    55000
    """
    held_w = as_float(capacity_bytes) * as_float(w_per_byte)
    return held_w + as_float(bytes_per_s) * as_float(w_per_byte_per_s)


@formula
def swing_w(
    devices: ArrayLike, compute_w: ArrayLike, communication_w: ArrayLike, coherence_fraction: ArrayLike
) -> FloatArray:
    """Size of the power swing at the rhythm of the steps, which the grid connection must bear.

    Parameters
    ----------
    devices : array_like
        Accelerators that step together, shape ``(layout,)``.
    compute_w, communication_w : array_like
        Power of one accelerator while it computes and while it communicates or waits. [W]
    coherence_fraction : array_like
        How far the devices change phase at the same time: 0.7-1 for synchronous training.

    Returns
    -------
    ndarray
        Peak to trough, shape ``(layout,)``. [W]

    References
    ----------
    .. [1] A. Grattafiori et al., "The Llama 3 herd of models," arXiv:2407.21783, section 3.3.4, 2024: tens of MW.

    Examples
    --------
    Ten thousand devices between 700 W and 300 W in lockstep:

    >>> float(swing_w(10_000, 700, 300, 1))
    4000000.0
    """
    drop_w = np.abs(as_float(compute_w) - as_float(communication_w))
    return as_float(devices) * drop_w * as_float(coherence_fraction)


@formula
def ramp_w_per_s(swing_w: ArrayLike, ramp_s: ArrayLike) -> FloatArray:
    """How fast power changes in a swing.

    Parameters
    ----------
    swing_w : array_like
        Peak to trough, :func:`swing_w`, shape ``(layout,)``. [W]
    ramp_s : array_like
        Time from one level to the other, more than 0. [s]

    Returns
    -------
    ndarray
        Shape ``(layout,)``. [W/s]

    Examples
    --------
    >>> float(ramp_w_per_s(4e6, 0.5))
    8000000.0
    """
    return as_float(swing_w) / as_float(ramp_s)


@formula
def swing_fraction(swing_w: ArrayLike, mean_w: ArrayLike) -> FloatArray:
    """A swing over the mean power of the equipment.

    Parameters
    ----------
    swing_w : array_like
        Peak to trough, shape ``(layout,)``. [W]
    mean_w : array_like
        Mean power of all equipment, more than 0, shape ``(layout,)``. [W]

    Returns
    -------
    ndarray
        Shape ``(layout,)``.

    Examples
    --------
    >>> float(swing_fraction(4e6, 10e6))
    0.4
    """
    return as_float(swing_w) / as_float(mean_w)


@formula
def floored_fraction(activity_fraction: ArrayLike, floor_fraction: ArrayLike) -> FloatArray:
    """Activity of a phase that dummy work holds up, so that power falls less when real work pauses.

    Parameters
    ----------
    activity_fraction : array_like
        Of the phase, as for :func:`accelerator_w`.
    floor_fraction : array_like
        Least activity that dummy kernels or the device's own power smoothing keep; 0 for none. Devices that smooth
        their power keep up to 0.9 [1]_.

    Returns
    -------
    ndarray
        The shape that the inputs broadcast to.

    References
    ----------
    .. [1] E. Choukse et al., "Power stabilization for AI training datacenters," arXiv:2508.14318, 2025.

    Examples
    --------
    >>> float(floored_fraction(0.45, 0.6))
    0.6
    """
    return np.maximum(as_float(activity_fraction), as_float(floor_fraction))


@formula
def held_activity_fraction(power_fraction: ArrayLike, idle_w: ArrayLike, limit_w: ArrayLike) -> FloatArray:
    """Activity at which a device draws a share of its limit.

    Parameters
    ----------
    power_fraction : array_like
        Power over the limit.
    idle_w, limit_w : array_like
        Idle power, and the limit, which is more. [W]

    Returns
    -------
    ndarray
        Share of the range from idle power to the limit, as for :func:`accelerator_w`.

    Examples
    --------
    Nine tenths of 700 W, of a device that idles at 100 W:

    >>> round(float(held_activity_fraction(0.9, 100, 700)), 3)
    0.883
    """
    idle, limit = as_float(idle_w), as_float(limit_w)
    return (as_float(power_fraction) * limit - idle) / (limit - idle)


@formula
def buffered_swing_w(swing_w: ArrayLike, buffered_fraction: ArrayLike) -> FloatArray:
    """Swing that energy storage in the supplies leaves to the mains.

    Parameters
    ----------
    swing_w : array_like
        Peak to trough without it, shape ``(layout,)``. [W]
    buffered_fraction : array_like
        Share of the swing that the storage takes; 0 for none.

    Returns
    -------
    ndarray
        Shape ``(layout,)``. [W]

    Examples
    --------
    >>> float(buffered_swing_w(4e6, 0.25))
    3000000.0
    """
    return as_float(swing_w) * (1 - as_float(buffered_fraction))


@formula
def buffer_w(swing_w: ArrayLike, buffered_fraction: ArrayLike, high_fraction: ArrayLike) -> FloatArray:
    r"""Mean power that goes through energy storage which evens out a swing between two levels.

    Parameters
    ----------
    swing_w : array_like
        Peak to trough without the storage, shape ``(layout,)``. [W]
    buffered_fraction : array_like
        Share of it that the storage takes.
    high_fraction : array_like
        Share of the time at the upper level, shape ``(layout,)``.

    Returns
    -------
    ndarray
        Energy stored over time, shape ``(layout,)``. [W]

    Notes
    -----
    The mean lies :math:`h` of the swing :math:`\Delta` above the lower level. In the :math:`1 - h` of the time that is
    spent there, :math:`b h \Delta` is stored: :math:`b \Delta h (1 - h)`.

    Examples
    --------
    Half of the time at each level, all of the swing taken:

    >>> float(buffer_w(4e6, 1, 0.5))
    1000000.0
    """
    high = as_float(high_fraction)
    return as_float(swing_w) * as_float(buffered_fraction) * high * (1 - high)


@formula
def buffer_loss_w(buffer_w: ArrayLike, efficiency: ArrayLike) -> FloatArray:
    """Mean power that is lost in energy storage which evens out a swing.

    Parameters
    ----------
    buffer_w : array_like
        Power that goes through it, :func:`buffer_w`, shape ``(layout,)``. [W]
    efficiency : array_like
        What comes out over what went in: 0.85-0.95 for capacitors and batteries with their converters.

    Returns
    -------
    ndarray
        Shape ``(layout,)``. [W]

    Examples
    --------
    >>> round(float(buffer_loss_w(1e6, 0.9)))
    100000
    """
    return as_float(buffer_w) * (1 - as_float(efficiency))


@formula
def added_w(with_w: ArrayLike, without_w: ArrayLike) -> FloatArray:
    """What a measure adds to a mean power.

    Parameters
    ----------
    with_w, without_w : array_like
        Mean power with the measure and without it, shape ``(layout,)``. [W]

    Returns
    -------
    ndarray
        Shape ``(layout,)``. [W]

    Examples
    --------
    >>> float(added_w(7.5e6, 7e6))
    500000.0
    """
    return as_float(with_w) - as_float(without_w)


@formula
def added_fraction(added_w: ArrayLike, mean_w: ArrayLike) -> FloatArray:
    """What a measure adds over the mean power of the equipment without it.

    Parameters
    ----------
    added_w : array_like
        :func:`added_w`, shape ``(layout,)``. [W]
    mean_w : array_like
        Mean power of all equipment, more than 0, shape ``(layout,)``. [W]

    Returns
    -------
    ndarray
        Shape ``(layout,)``.

    Examples
    --------
    >>> float(added_fraction(0.5e6, 10e6))
    0.05
    """
    return as_float(added_w) / as_float(mean_w)


@formula
def held_w(
    devices: ArrayLike, pause_fraction: ArrayLike, working_w: ArrayLike, waiting_w: ArrayLike, efficiency: ArrayLike
) -> FloatArray:
    """Mean power that it takes to hold devices through pauses at the power that they have at work.

    Parameters
    ----------
    devices : array_like
        Accelerators that are held, shape ``(layout,)``.
    pause_fraction : array_like
        Share of the time in such pauses, shape ``(layout,)``.
    working_w, waiting_w : array_like
        Power of one accelerator at work, and in the pauses if nobody holds it. [W]
    efficiency : array_like
        Output over input of what feeds and cools them.

    Returns
    -------
    ndarray
        At the input of the supplies, shape ``(layout,)``. [W]

    Examples
    --------
    A thousand devices, 1 % of the time at 600 in place of 200 W:

    >>> float(held_w(1000, 0.01, 600, 200, 1))
    4000.0
    """
    more_w = as_float(working_w) - as_float(waiting_w)
    return as_float(devices) * as_float(pause_fraction) * more_w / as_float(efficiency)


@formula
def storage_share_fraction(swing_w: ArrayLike, left_w: ArrayLike) -> FloatArray:
    """Share of a swing that energy storage must take so that no more than a given one is left.

    Parameters
    ----------
    swing_w : array_like
        Peak to trough without storage, shape ``(layout,)``. [W]
    left_w : array_like
        What may be left of it, shape ``(layout,)``. [W]

    Returns
    -------
    ndarray
        0 where there is no swing, shape ``(layout,)``.

    Examples
    --------
    >>> float(storage_share_fraction(4e6, 1e6)), float(storage_share_fraction(0, 0))
    (0.75, 0.0)
    """
    swing = as_float(swing_w)
    return np.where(swing > 0, 1 - as_float(left_w) / np.where(swing > 0, swing, 1), 0.0)


@formula
def energy_j(mean_w: ArrayLike, duration_s: ArrayLike) -> FloatArray:
    """Energy of a mean power over a time.

    Parameters
    ----------
    mean_w : array_like
        Time-weighted mean power, shape ``(layout,)``. [W]
    duration_s : array_like
        Wall time, lost time included. [s]

    Returns
    -------
    ndarray
        Energy, shape ``(layout,)``. [J]

    Examples
    --------
    A kilowatt for an hour:

    >>> float(energy_j(1000, 3600))
    3600000.0
    """
    return as_float(mean_w) * as_float(duration_s)


@formula
def energy_kwh(energy_j: ArrayLike) -> FloatArray:
    """Energy in the unit that meters and tariffs have.

    Parameters
    ----------
    energy_j : array_like
        Shape ``(layout,)``. [J]

    Returns
    -------
    ndarray
        Shape ``(layout,)``. [kWh]

    Examples
    --------
    >>> float(energy_kwh(7.2e6))
    2.0
    """
    return as_float(energy_j) / JOULES_PER_KWH
