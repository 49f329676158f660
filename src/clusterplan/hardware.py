"""What it runs on: accelerators, systems, fabrics, software stacks and storage, all in SI units.

Rates of products are dense, bandwidths are one way and per device, memory is what the device shows to a program.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from clusterplan.trace import GIVEN, Figure, Origin

Topology = Literal["switch", "mesh", "torus"]
"""Shape of a network tier: any pair at full speed, a link per pair, or rings along three axes."""

Recompute = Literal["none", "selective", "block", "full"]
Offload = Literal["optimizer", "activations"]
Sharding = Literal["none", "zero1", "zero2", "zero3", "fsdp", "hsdp"]
Placement = Literal["tp-cp-ep-dp-pp", "tp-cp-ep-pp-dp"]
Schedule = Literal["none", "1f1b", "interleaved", "zb-1p", "zb-2p", "zb-v", "dualpipe"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Accelerator:
    """One device."""

    name: str
    vendor: str
    device: str
    """What is counted as one device, in words."""
    memory_bytes: float
    """Memory that the device shows to a program. [byte]"""
    memory_bytes_per_s: float
    """Peak memory bandwidth. [byte/s]"""
    tdp_w: float
    """Power limit. [W]"""
    idle_w: float
    """Power when idle with a program loaded. [W]"""
    compute_units: int
    """Units that take one output tile each (SMs, CUs, cores)."""
    gemm_efficiency: Mapping[str, float]
    """Share of the dense peak that the best-shaped product reaches, by format."""
    in_training_efficiency: float
    """What is left of that share in a long run (power, clocks)."""
    attention_efficiency: Mapping[str, float]
    """Share of the 16-bit peak that long causal attention reaches forward, by kernel (causal half counted)."""
    attention_backward_ratio: float
    """Backward share of attention over its forward share."""
    memory_efficiency: float
    """Share of the peak memory bandwidth that vector work reaches."""
    k_ramp: float
    """Inner dimension at which a product reaches half of its rate. [elements]"""
    wave_hardness: float
    """How much of an incomplete last wave of tiles is lost, 0 to 1."""
    tile_m: int
    """Rows of an output tile."""
    tile_n: int
    """Columns of an output tile."""
    failures_per_device_s: float
    """Failures of the device and its memory. [1/s]"""
    clock_exponent: float
    """Power above idle grows with the clock to this power."""
    embodied_kg_co2e: float
    """Making of one device. [kg CO2e]"""
    bf16_flop_per_s: float | None = None
    fp16_flop_per_s: float | None = None
    fp8_flop_per_s: float | None = None
    fp4_flop_per_s: float | None = None
    int8_flop_per_s: float | None = None
    lowest_clock_fraction: float | None = None
    """Lowest clock that makes sense, over the clock in training: below it the voltage stays; None if not known."""
    best_published_mfu: Mapping[str, float] = field(default_factory=dict)
    """Best model-FLOP utilisation that somebody published for a large run, by format."""
    aliases: tuple[str, ...] = ()
    """Names by which tables of measured runs call it."""
    plain: tuple[str, ...] = ()
    """Names that leave its variant open and usually mean it, in lower case: ``h100``."""
    system: str = ""
    """System that is meant where only the device is named; empty where only one has it, or none is usual."""
    is_measured: bool = False
    """Whether step times of training runs on it are known, as those of the tables that come with the package."""
    like: str = ""
    """Its nearest measured relative, which gives the constants that its file leaves out."""
    failure_fraction: Mapping[str, float] = field(default_factory=dict)
    """Shares of its failures by cause; the rest has none that is known."""

    def peak_flop_per_s(self, precision: str) -> float | None:
        """Dense peak of a format, None where the vendor gives none. [FLOP/s]"""
        value: float | None = getattr(self, f"{precision}_flop_per_s", None)
        return value

    @property
    def formats(self) -> tuple[str, ...]:
        """Formats with a peak and a measured or fitted product efficiency."""
        return tuple(f for f in self.gemm_efficiency if self.peak_flop_per_s(f))


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """A purchase unit: a node, a rack or a supernode as it is sold."""

    name: str
    vendor: str
    accelerator: str
    """Name of the accelerator profile."""
    devices: int
    """Devices in one purchase unit."""
    node_devices: int
    """Devices that one host serves and that fail together."""
    racks: float
    """Racks that one purchase unit fills."""
    scaleup_devices: int
    """Devices of one scale-up domain."""
    scaleup_bytes_per_s: float
    """Scale-up bandwidth of a device, one way. [byte/s]"""
    scaleup_latency_s: float
    """Latency of one scale-up step of a collective. [s]"""
    scaleup_efficiency: float
    """Share of the scale-up bandwidth that a ring collective reaches."""
    scaleup_topology: Topology
    scaleout_bytes_per_s: float
    """Network interface bandwidth of a device, one way. [byte/s]"""
    host_link_bytes_per_s: float
    """Device to host memory, one way. [byte/s]"""
    rated_w: float
    """Nameplate of one purchase unit. [W]"""
    host_w: float
    """Processors, memory and drives of one purchase unit at work. [W]"""
    nics: int
    """Network interfaces of one purchase unit."""
    nic_w: float
    """Power of one network interface without its module. [W]"""
    scaleup_w: float
    """Scale-up switches of one purchase unit. [W]"""
    fan_fraction: float
    """Fans as a share of all direct-current power of the unit, their own included."""
    psu_efficiency: float
    """Output over input of the power supplies, without what they lose whatever the load."""
    psu_fixed_w: float | None = None
    """What all supplies of a purchase unit lose whatever the load, seen at their output; None if it is in
    ``psu_efficiency``. [W]"""
    liquid_fraction: float
    """Share of the heat that goes to liquid."""
    cooling: Literal["air", "liquid"]
    """Cooling that the system needs."""
    failures_per_node_s: float
    """Failures of a node other than its devices: host, interfaces, links, software. [1/s]"""
    host_embodied_kg_co2e: float
    """Making of one purchase unit without its devices. [kg CO2e]"""
    fabric: str
    """Default scale-out fabric."""
    stack: str
    """Default training software."""
    host_memory_bytes: float | None = None
    """Memory of the hosts of one purchase unit; None where nobody says. [byte]"""
    host_memory_bytes_per_s: float | None = None
    """Its peak bandwidth. [byte/s]"""
    scaleup_reduction_efficiency: float | None = None
    """All-reduce by the scale-up switches: message over time and scale-up bandwidth; None where they do not add."""
    used_devices_per_domain: tuple[int, ...] = ()
    """Numbers of devices of a scale-up domain that layouts may use besides all of them (64 of 72)."""
    failure_fraction: Mapping[str, float] = field(default_factory=dict)
    """Shares of the failures of a node other than its devices by cause; the rest has none that is known."""

    @property
    def rack_w(self) -> float:
        """Nameplate of one rack. [W]"""
        return self.rated_w / self.racks

    @property
    def needs_liquid(self) -> bool:
        """Whether some of its heat goes to liquid in any case."""
        return self.cooling == "liquid" or self.liquid_fraction > 0

    def domain_of(self, devices: int) -> int:
        """Devices that a layout of so many uses of each scale-up domain, so that all domains are used alike."""
        if devices <= self.scaleup_devices:
            return devices
        fitting = [n for n in (self.scaleup_devices, *self.used_devices_per_domain) if devices % n == 0]
        return fitting[0] if fitting else self.scaleup_devices


@dataclass(frozen=True, slots=True, kw_only=True)
class Tier:
    """One level of the scale-out network, from inside out."""

    name: str
    span_devices: int
    """Most devices that this level joins."""
    oversubscription: float
    """Downward over upward bandwidth; 1 for none."""
    latency_s: float
    """Latency of one step of a collective that crosses this level. [s]"""
    topology: Topology = "switch"
    """Of a fabric's first level: ``switch`` for a tree, ``mesh`` for a dragonfly, ``torus`` for cubes of one."""
    switch_ports: int | None = None
    """Ports of one switch of this level, each of one link; None where nobody says."""
    switch_endpoints: int | None = None
    """Ports of one switch that face devices, in a mesh of switches."""
    optics_per_link: int | None = None
    """Modules of one link into this level; None for the usual: two, in meshes and cubes none, one at a mirror."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fabric:
    """The scale-out network."""

    name: str
    technology: str
    port_bytes_per_s: float
    """Line rate of a port, one way. [byte/s]"""
    efficiency: float
    """Share of the line rate that a long message between two nodes reaches."""
    decay_per_doubling: float
    """Loss of collective bandwidth for each doubling of the nodes."""
    tiers: tuple[Tier, ...]
    """Levels from inside out; the last one bounds the cluster."""
    switch_w_per_port: float
    """Power of a switch without its optics, per port. [W]"""
    optic_w: float
    """Power of one optical module. [W]"""
    planes: int = 1
    """Networks side by side with no link between their switches."""
    links_per_port: int = 1
    """Links that are counted as one port: two of 200 Gbit/s as one of 400."""
    switch_usd_per_port: float | None = None
    """Price of a switch, per port; None where nobody says. [USD]"""
    optic_usd: float | None = None
    """Price of one optical module with its part of the cable. [USD]"""
    failures_per_link_s: float | None = None
    """Failures of a link between a device and its first switch, beside which all others have another way; None where
    nobody says. How they compare with those of switches tells what failures of the network are. [1/s]"""
    failures_per_switch_s: float | None = None
    """Failures of a switch of the first level; None where nobody says. [1/s]"""
    switches_reduce: bool = False
    """Whether its switches can add what they pass on, for software that uses it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """Training software at a version: what it can do, what it does by default, how well."""

    name: str
    version: str
    formats: tuple[str, ...]
    """Formats of matrix products; those after the first only with ``--allow`` or ``--precision``."""
    attention_kernels: tuple[str, ...]
    """Attention kernels, the preferred one first; the first that the device has is taken."""
    schedules: tuple[Schedule, ...]
    """Pipeline schedules that it can run."""
    default_schedules: tuple[Schedule, ...]
    """Those that a search takes without ``--allow``."""
    sharding: tuple[Sharding, ...]
    default_sharding: tuple[Sharding, ...]
    recompute: tuple[Recompute, ...]
    selective_modules: tuple[str, ...]
    """Operators whose results are recomputed under selective recompute."""
    sequence_parallel: bool
    """Whether tensor-parallel ranks also share the tokens outside the products."""
    uneven_pipeline: bool
    """Whether stages may have different numbers of layers."""
    max_tp: int
    max_pp: int
    max_cp: int
    max_ep: int
    expert_tensor_parallel: bool
    """Whether experts may be cut by less than tp."""
    vocab_multiple: int
    """The vocabulary is padded to a multiple of this times tp."""
    weight_bytes: float
    """Bytes of a weight that the device computes with. [byte]"""
    gradient_bytes: float
    """Bytes of a gradient that is kept through the step. [byte]"""
    gradient_message_bytes: float
    """Bytes of a gradient on the network. [byte]"""
    accumulation_bytes: float
    """Memory traffic of one weight's gradient for each micro-batch: 8 where products add to 32-bit gradients. [byte]"""
    optimizer_bytes: float
    """Master copy and moments of one parameter. [byte]"""
    optimizer_traffic_bytes: float
    """Memory traffic of one parameter's update. [byte]"""
    activation_factor: float
    """What layers keep for the backward pass over the nominal: 1 where kernels are fused and nothing is kept twice."""
    logit_bytes: float
    """Memory held for one logit at the loss. [byte]"""
    logit_traffic_bytes: float
    """Memory traffic of one logit at the loss. [byte]"""
    score_bytes: float
    """Memory held for one attention score where the kernel writes them (eager). [byte]"""
    score_traffic_forward_bytes: float
    """Memory traffic of one attention score forward (eager). [byte]"""
    score_traffic_backward_bytes: float
    """Memory traffic of one attention score backward (eager). [byte]"""
    kernel_share: float
    """What whole runs keep of the rate of products and attention that a device's constants give."""
    vector_traffic: float
    """Memory traffic of norms, activations and residuals over the nominal traffic."""
    permutation_traffic: float
    """The same for the routing of tokens to experts."""
    host_s_per_layer: float
    """Time that the host needs to launch one layer forward. [s]"""
    moe_stall_s_per_layer: float
    """Time in which a device waits in a layer with experts, forward and backward together, while the host learns how
    many tokens each expert gets and launches what depends on it. [s]"""
    tp_hidden_fraction: float
    """Share of tensor-parallel traffic hidden behind its products."""
    cp_hidden_fraction: float
    """Share of context-parallel traffic hidden behind attention."""
    ep_hidden_fraction: float
    """Share of expert traffic hidden behind other work."""
    pp_hidden_fraction: float
    """Share of stage-to-stage traffic hidden behind compute."""
    dp_hidden_fraction: float
    """Most of the data-parallel traffic that can hide behind the backward and forward passes."""
    contention_fraction: float
    """Time that compute loses for each second of traffic hidden behind it."""
    expert_imbalance_fraction: float
    """How much more than the mean the busiest expert rank does."""
    step_noise_fraction: float
    """Standard deviation of a node's time over its mean."""
    context_bytes: float
    """Device memory of the runtime context and communicators. [byte]"""
    fragmentation_fraction: float
    """Allocator's reserve over what is allocated."""
    margin_fraction: float
    """Share of the device memory that a safe plan leaves free."""
    step_error_fraction: float
    """Half width of the 90 % interval of a predicted step time, relative."""
    moe_step_error_fraction: float
    """The same for mixtures of experts."""
    ranking_error_fraction: float
    """Differences of predicted step times below this say nothing about the order."""
    kept_input_bytes: Mapping[str, float] = field(default_factory=dict)
    """Kept of an element that only products need again, by format; 2 in a format that is not here. [byte]"""
    format_gradient_bytes: Mapping[str, float] = field(default_factory=dict)
    """Bytes of a gradient that is kept, with products in these formats, where that differs. [byte]"""
    format_copy_bytes: Mapping[str, float] = field(default_factory=dict)
    """Kept of a weight besides, by format of the products: its cast copies. [byte]"""
    placements: tuple[Placement, ...] = ("tp-cp-ep-dp-pp",)
    """Orders in which it can lay groups over neighbouring devices, innermost first; the first one is the default."""
    offload: tuple[Offload, ...] = ()
    """What it can keep in host memory."""
    cuts_experts_by_tp: bool = False
    """Whether experts are cut as far as tp where nothing else is said."""
    free_of_stalls: tuple[str, ...] = ()
    """Devices on which layers with experts do not wait for the host: whole steps are launched as one graph."""
    dispatches_once: bool = False
    """Whether a token goes once to each scale-up domain where experts want it, and is passed on inside."""
    keeps_gathered_in_pipeline: bool = False
    """Whether fully sharded weights, with pipeline stages, are gathered once a step and reduced once."""
    most_gathered_parameters: float | None = None
    """Gathered weights that a device holds at most, besides those of the module at work; None for two layers."""
    defragmented_fraction: float | None = None
    """Allocator's reserve with its option against fragmentation; None where there is none."""
    reported_memory: Literal["allocated", "reserved", "device"] = "reserved"
    """What its logs call peak memory: of tensors, of the allocator, or of the whole device."""
    in_network_reduction: tuple[Literal["scale-up", "scale-out"], ...] = ()
    """Switches that it lets add in an all-reduce, where the hardware can; none unless it is switched on."""
    frameworks: tuple[str, ...] = ()
    """Parts of the names by which tables of measured runs call it, in lower case."""

    def kept_gradient_bytes(self, precision: str) -> float:
        """Bytes of a gradient that is kept through the step, with products in this format. [byte]"""
        return self.format_gradient_bytes.get(precision, self.gradient_bytes)

    def sent_gradient_bytes(self, precision: str) -> float:
        """Bytes of a gradient on the network, with products in this format: no wider than it is kept. [byte]"""
        return min(self.gradient_message_bytes, self.kept_gradient_bytes(precision))

    def kept_weight_bytes(self, precision: str) -> float:
        """Bytes of a weight with its copies in the format of the products. [byte]"""
        return self.weight_bytes + self.format_copy_bytes.get(precision, 0.0)

    def training(self, *, is_moe: bool) -> Stack:
        """The same software with the interval of step times of the kind of model; one that was given stays."""
        figure = self.step_error_fraction
        if not is_moe or (isinstance(figure, Figure) and figure.origin.source == GIVEN):
            return self
        return dataclasses.replace(self, step_error_fraction=self.moe_step_error_fraction)

    def on(self, device: Accelerator) -> Stack:
        """The same software on a device: with no stalls where it has none, and a wider interval of step times where no
        run on the device is known.
        """
        is_free = self.moe_stall_s_per_layer > 0 and device.name in self.free_of_stalls
        own = dataclasses.replace(self, moe_stall_s_per_layer=0.0) if is_free else self
        figure = self.step_error_fraction
        if device.is_measured or (isinstance(figure, Figure) and figure.origin.source in {GIVEN, UNMEASURED_ERROR}):
            return own
        wider = math.hypot(figure, UNMEASURED_ERROR_FRACTION)
        origin = Origin(f"accelerators/{device.name}", "step_error_fraction", "assumed", UNMEASURED_ERROR)
        return dataclasses.replace(own, step_error_fraction=Figure(wider, origin))


UNMEASURED_ERROR_FRACTION = 0.21
"""Half width of the 90 % interval that constants of a relative add to a step time."""

UNMEASURED_ERROR = (
    "assumed: no run on the device is known, so 21 % are added, in quadrature, to the interval of the software; "
    "what products reach of the peak in a long run differs by 13 % (standard deviation) among the measured devices"
)
"""Source of an interval that is wider because no run on the device is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """Where checkpoints and data lie."""

    name: str
    technology: str
    write_bytes_per_s: float
    """Most that all writers together reach. [byte/s]"""
    read_bytes_per_s: float
    """Most that all readers together reach. [byte/s]"""
    node_bytes_per_s: float
    """Most that one node reaches, either way. [byte/s]"""
    capacity_bytes: float
    """Usable capacity. [byte]"""
    w_per_byte: float
    """Power of the capacity. [W/byte]"""
    w_per_bytes_per_s: float
    """Power of the bandwidth. [W/(byte/s)]"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A system with everything it is used with: what one column of a comparison is."""

    system: System
    accelerator: Accelerator
    fabric: Fabric
    stack: Stack

    @property
    def formats(self) -> tuple[str, ...]:
        """Formats of matrix products that both the device and the software have."""
        return tuple(name for name in self.stack.formats if name in self.accelerator.formats)

    @property
    def attention_kernel(self) -> str:
        """First attention kernel of the software that the device has; ``eager`` needs none."""
        for kernel in self.stack.attention_kernels:
            if kernel == "eager" or kernel in self.accelerator.attention_efficiency:
                return kernel
        return "eager"

    @property
    def largest_cluster(self) -> int:
        """Devices that the network joins at most."""
        return max(self.system.scaleup_devices, *(tier.span_devices for tier in self.fabric.tiers))

    def why_not_offloaded(self, what: str) -> str | None:
        """What is missing to keep optimizer, activations or both in host memory; None if nothing is."""
        system, stack = self.system, self.stack
        wanted = {"none": (), "both": ("optimizer", "activations")}.get(what, (what,))
        lacking = [name for name in wanted if name not in stack.offload]
        if lacking:
            return f"{stack.name} cannot keep {' and '.join(lacking)} in host memory"
        if wanted and not (system.host_memory_bytes and system.host_memory_bytes_per_s):
            text = "--set system.host_memory_gib=GIB --set system.host_memory_gb_per_s=RATE give it"
            return f"the host memory of {system.name} is not known; {text}"
        return None
