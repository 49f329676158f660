"""Operators: what the work of a layer is made of, and how one device's share of it is put together.

Parameters, FLOP, matrix products, memory traffic, saved activations and messages are properties of operators. All
arrays have shape ``(cut,)``; amounts are those of one device, one micro-batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from clusterplan.arrays import FloatArray, total
from clusterplan.hardware import Stack
from clusterplan.layout import Cuts
from clusterplan.workload import Model

ELEMENT_BYTES = 2.0
"""An activation in 16 bits."""

Pool = Literal["dense", "expert"]
Group = Literal["tp", "cp", "ep", "etp"]
Collective = Literal["all_reduce", "all_gather", "reduce_scatter", "all_to_all"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """``count`` matrix products of (m × k) by (k × n)."""

    name: str
    module: str
    """What has to be recomputed if the result is not kept."""
    m: FloatArray
    n: FloatArray
    k: FloatArray
    count: FloatArray
    pool: Pool = "dense"
    weight_elements: FloatArray
    """Parameters on this device, biases included."""
    saved_bytes: FloatArray
    """Kept of the result for the backward pass. [byte]"""

    @property
    def flop(self) -> FloatArray:
        """Forward; each of the two backward products has as many. [FLOP]"""
        return 2 * self.m * self.n * self.k * self.count

    @property
    def full_flop(self) -> FloatArray:
        """The same: products have no masked half. [FLOP]"""
        return self.flop


@dataclass(frozen=True, slots=True, kw_only=True)
class Core:
    """Scores, softmax and weighted sum of attention, causal."""

    name: str
    module: str
    heads: FloatArray
    """Query heads on this device times sequences."""
    queries: FloatArray
    """Query tokens on this device, of one sequence."""
    keys: FloatArray
    """Key tokens of the whole sequence."""
    qk_dim: int
    value_dim: int
    saved_bytes: FloatArray
    """Kept whatever the kernel: softmax statistics. [byte]"""
    window: int = 0
    """Keys that a query sees at most; 0 for all before it."""
    is_chunked: bool = False
    """The window does not move with the query: the sequence is cut into chunks of its size."""

    @property
    def reach(self) -> FloatArray:
        """Keys that a query may see without a causal mask."""
        return np.minimum(self.keys, self.window) if self.window else self.keys

    @property
    def seen(self) -> FloatArray:
        """Keys that a query sees on the mean under a causal mask.

        Half of the sequence :math:`s`; with a moving window :math:`w` fewer by the start of the sequence,
        :math:`w - w^2 / 2 s`; in chunks half of each chunk.
        """
        reach = self.reach
        if self.is_chunked and self.window:
            rest = self.keys % reach
            return ((self.keys - rest) * reach + rest**2) / (2 * self.keys)
        return reach - reach**2 / (2 * self.keys)

    @property
    def flop(self) -> FloatArray:
        """Forward, both products, without what mask and window hide. [FLOP]"""
        return 2 * self.heads * self.queries * self.seen * (self.qk_dim + self.value_dim)

    @property
    def full_flop(self) -> FloatArray:
        """The same with what the causal mask hides, as most published utilisations count it. [FLOP]"""
        return 2 * self.heads * self.queries * self.reach * (self.qk_dim + self.value_dim)

    @property
    def square_flop(self) -> FloatArray:
        """The same over all keys, whatever mask and window hide: eager kernels execute it all. [FLOP]"""
        return 2 * self.heads * self.queries * self.keys * (self.qk_dim + self.value_dim)

    @property
    def scores(self) -> FloatArray:
        """Entries of the score matrices, masked ones included: eager kernels write them all."""
        return self.heads * self.queries * self.keys


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """A convolution, or a state of fixed size that each token updates and reads, in place of attention."""

    name: str
    module: str
    flop: FloatArray
    """Forward, token after token; the backward pass has twice as many. [FLOP]"""
    forward_bytes: FloatArray
    """Nominal memory traffic, each operand moved once. [byte]"""
    backward_bytes: FloatArray
    weight_elements: FloatArray
    saved_bytes: FloatArray

    @property
    def full_flop(self) -> FloatArray:
        """The same: there is no mask. [FLOP]"""
        return self.flop


@dataclass(frozen=True, slots=True, kw_only=True)
class Vector:
    """Element-wise work, bound by memory: norms, activations, residuals, routing."""

    name: str
    module: str
    forward_bytes: FloatArray
    """Nominal memory traffic, each operand moved once. [byte]"""
    backward_bytes: FloatArray
    weight_elements: FloatArray
    saved_bytes: FloatArray
    is_permutation: bool = False
    """Routing of tokens to experts and back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A collective that the layer needs."""

    name: str
    group: Group
    collective: Collective
    bytes: FloatArray
    """Size on each device: of the whole gathered tensor, or of what a device sends in an all-to-all. [byte]"""
    forward: float
    """Times in the forward pass; repeated when the forward pass is recomputed."""
    backward: float
    """Times in the backward pass."""
    copies: float = 1.0
    """Of an exchange, how often it holds each token: once for each expert."""
    reach_fraction: float = 1.0
    """Most of the group that one token may be sent to."""


Work = Product | Core | Scan | Vector
"""What keeps a device busy."""

Operator = Work | Message


@dataclass(frozen=True, slots=True, kw_only=True)
class Software:
    """What the operator list depends on besides model and cut."""

    sequence_parallel: bool = False
    vocab_multiple: int = 1
    logit_traffic_bytes: float = 0.0
    """Memory traffic of one logit at the loss, both passes. [byte]"""
    input_bytes: float = ELEMENT_BYTES
    """Kept of an element that only a product needs again: 1 where its 8-bit copy is kept. [byte]"""

    @classmethod
    def of(cls, stack: Stack, precision: str) -> Software:
        """The part of a software stack that shapes see, with products in this format."""
        return cls(
            sequence_parallel=stack.sequence_parallel,
            vocab_multiple=stack.vocab_multiple,
            logit_traffic_bytes=stack.logit_traffic_bytes,
            input_bytes=stack.kept_input_bytes.get(precision, ELEMENT_BYTES),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The operators of one layer, or of one end of the model."""

    operators: tuple[Operator, ...]
    input_bytes: FloatArray
    """What a checkpoint of the layer keeps under full recompute: its input. [byte]"""

    @property
    def products(self) -> Iterator[Product]:
        """Matrix products with weights."""
        return (o for o in self.operators if isinstance(o, Product))

    @property
    def cores(self) -> Iterator[Core]:
        """Attention without its projections."""
        return (o for o in self.operators if isinstance(o, Core))

    @property
    def scans(self) -> Iterator[Scan]:
        """Convolutions and recurrences."""
        return (o for o in self.operators if isinstance(o, Scan))

    @property
    def vectors(self) -> Iterator[Vector]:
        """Element-wise work."""
        return (o for o in self.operators if isinstance(o, Vector))

    @property
    def messages(self) -> Iterator[Message]:
        """Collectives."""
        return (o for o in self.operators if isinstance(o, Message))

    def weight_elements(self, pool: Pool) -> FloatArray:
        """Parameters on one device, shape ``(cut,)``."""
        owners = [p.weight_elements for p in self.products if p.pool == pool]
        if pool == "dense":
            owners += [o.weight_elements for o in self.operators if isinstance(o, Vector | Scan)]
        return np.sum(owners, axis=0) if owners else np.zeros_like(self.input_bytes)

    @property
    def matrix_flop(self) -> FloatArray:
        """Products with weights, forward. [FLOP]"""
        return total([np.zeros_like(self.input_bytes), *(p.flop for p in self.products)])

    @property
    def attention_flop(self) -> FloatArray:
        """Mixing of tokens without its projections, forward, without what mask and window hide. [FLOP]"""
        return total([np.zeros_like(self.input_bytes), *(o.flop for o in self.mixing)])

    @property
    def full_attention_flop(self) -> FloatArray:
        """The same with what the causal mask hides. [FLOP]"""
        return total([np.zeros_like(self.input_bytes), *(o.full_flop for o in self.mixing)])

    @property
    def mixing(self) -> Iterator[Core | Scan]:
        """What mixes tokens."""
        return (o for o in self.operators if isinstance(o, Core | Scan))


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """Sizes of one device's share, derived from the cuts once."""

    tp: FloatArray
    sp: FloatArray
    """How many ways tokens are shared outside the products: tp with sequence parallelism, else 1."""
    tokens: FloatArray
    """Tokens of a micro-batch after context parallelism."""
    batch: FloatArray
    zero: FloatArray
    is_sequence_parallel: bool
    input_bytes: float
    """Kept of an element that only a product needs again. [byte]"""

    @property
    def shared_tokens(self) -> FloatArray:
        """Tokens outside the products."""
        return self.tokens / self.sp


def device_share(cuts: Cuts, seq_len: int, software: Software) -> Share:
    """One device's share of a micro-batch under each cut."""
    tp = cuts.tp.astype(float)
    batch = cuts.micro_batch.astype(float)
    return Share(
        tp=tp,
        sp=tp if software.sequence_parallel else np.ones_like(tp),
        tokens=batch * seq_len / cuts.cp,
        batch=batch,
        zero=np.zeros_like(tp),
        is_sequence_parallel=software.sequence_parallel,
        input_bytes=software.input_bytes,
    )


def vector(
    name: str,
    module: str,
    like: FloatArray,
    *,
    forward: FloatArray | float = 0.0,
    backward: FloatArray | float = 0.0,
    weights: FloatArray | float = 0.0,
    saved: FloatArray | float = 0.0,
    saved_element_bytes: float = ELEMENT_BYTES,
    is_permutation: bool = False,
) -> Vector:
    """Element-wise work by the elements that it reads, writes, owns and keeps, each an activation of 16 bits.

    What only a product needs again may be kept in the format of the product (``saved_element_bytes``).
    """
    zero = np.zeros_like(like)
    return Vector(
        name=name,
        module=module,
        forward_bytes=zero + ELEMENT_BYTES * forward,
        backward_bytes=zero + ELEMENT_BYTES * backward,
        weight_elements=zero + weights,
        saved_bytes=zero + saved_element_bytes * saved,
        is_permutation=is_permutation,
    )


def norm(
    name: str, elements: FloatArray, weights: FloatArray | float, saved_element_bytes: float = ELEMENT_BYTES
) -> Vector:
    """A norm over ``elements`` that owns ``weights`` parameters."""
    return vector(
        name,
        "layernorm",
        elements,
        forward=2 * elements,
        backward=3 * elements,
        weights=weights,
        saved=elements,
        saved_element_bytes=saved_element_bytes,
    )


def stream_norm(model: Model, name: str, cut: Share, saved_element_bytes: float = ELEMENT_BYTES) -> Vector:
    """A norm of the residual stream, weights and biases as the model has them."""
    weights = model.hidden * (model.norm_weight + model.norm_bias)
    return norm(name, cut.shared_tokens * model.hidden, float(weights), saved_element_bytes)


def residual(name: str, elements: FloatArray, *, saved: bool = True) -> Vector:
    """Addition to the residual stream; the sum is kept if a norm reads it."""
    return vector(
        name, "residual", elements, forward=3 * elements, backward=2 * elements, saved=elements if saved else 0.0
    )


def product(
    name: str,
    module: str,
    m: FloatArray,
    n: FloatArray | float,
    k: FloatArray | float,
    *,
    bias: FloatArray | float = 0.0,
    saved: bool = True,
    count: FloatArray | float = 1.0,
    pool: Pool = "dense",
) -> Product:
    """A product with a weight of its own; ``bias`` counts the elements of its bias on this device."""
    one = np.ones_like(m)
    return Product(
        name=name,
        module=module,
        m=m,
        n=n * one,
        k=k * one,
        count=count * one,
        pool=pool,
        weight_elements=(n * k * count + bias) * one,
        saved_bytes=(ELEMENT_BYTES if saved else 0.0) * m * n * count,
    )


def tensor_parallel_messages(name: str, cut: Share, hidden: int, gathered: int | None = None) -> list[Message]:
    """Messages around a pair of products: gathered before and scattered after, or reduced after.

    With sequence parallelism the gathered input is not kept but gathered once more for the weight gradient
    (Korthikanti et al., 2022, section 4.2.2). Backward the gradient of the input is scattered and that of the result
    gathered, each as large as forward. What is gathered may be narrower than the residual stream.
    """
    size = ELEMENT_BYTES * cut.tokens * hidden
    if cut.is_sequence_parallel:
        narrow = ELEMENT_BYTES * cut.tokens * (gathered or hidden)
        return [
            Message(name=f"{name} gather", group="tp", collective="all_gather", bytes=narrow, forward=1, backward=2),
            Message(name=f"{name} scatter", group="tp", collective="reduce_scatter", bytes=size, forward=1, backward=1),
        ]
    return [Message(name=f"{name} reduce", group="tp", collective="all_reduce", bytes=size, forward=1, backward=1)]
