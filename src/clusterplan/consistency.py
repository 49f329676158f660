"""What contradicts itself in a record: parts that do not divide, shares of more than a whole, ends out of order.

Each number alone is checked where it is read; here are the rules that several figures of one record must keep
together.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any

from clusterplan.errors import either, shown
from clusterplan.hardware import Accelerator, Fabric, Stack, System
from clusterplan.site import Cooling, Prices, Site
from clusterplan.workload import Attention, Experts, Layer, LinearAttention, Model, StateSpace, expand

Found = Iterator[tuple[str, str]]
"""Fields that are wrong, with what would be right."""

ROUNDING = 1e-9
"""Shares that are written in decimals may add up to so much more than a whole."""
MIXERS = ("attention", "state_space", "linear_attention")
"""Parts of a layer of which it has at most one."""
RESERVED = ("mtp", "embedding", "head")
"""Names that no kind of layer may have: parts of a model that are not in its pattern."""


def inconsistent(record: object) -> Found:
    """Fields that contradict other fields of the same record, with what would be right."""
    rules = _RULES.get(type(record))
    return iter(()) if rules is None else rules(record)


# --- Hardware ---------------------------------------------------------------------------------------------------


def _failures(record: Accelerator | System) -> Found:
    whole = sum(record.failure_fraction.values())
    if whole > 1 + ROUNDING:
        yield "failure_fraction", f"must add up to at most 1, not {whole:g}"


def _accelerator(device: Accelerator) -> Found:
    yield from _failures(device)
    if device.idle_w > device.tdp_w:
        yield "idle_w", f"must be at most tdp_w = {device.tdp_w:g} W, not {device.idle_w:g} W"


def _system(system: System) -> Found:
    yield from _failures(system)
    if system.node_devices > system.devices or system.devices % system.node_devices:
        yield "node_devices", f"must divide devices = {system.devices}, not be {system.node_devices}"
    most = system.scaleup_devices
    for devices in system.used_devices_per_domain:
        if not 1 <= devices <= most:
            yield "used_devices_per_domain", f"must be from 1 to scaleup_devices = {most}, not {devices}"


def _fabric(fabric: Fabric) -> Found:
    spans = [tier.span_devices for tier in fabric.tiers]
    if not spans:
        yield "tiers", "must have at least one level"
    if any(outer <= inner for inner, outer in pairwise(spans)):
        yield "tiers", f"must go from inside out, with growing span_devices, not {spans}"
    if (fabric.failures_per_link_s is None) != (fabric.failures_per_switch_s is None):
        yield "failures_per_link_s", "and failures_per_switch_s are of use together only"


def _stack(stack: Stack) -> Found:
    for part, whole in (("default_schedules", "schedules"), ("default_sharding", "sharding")):
        for name in getattr(stack, part):
            if name not in getattr(stack, whole):
                yield part, f"has {name!r}, which {whole} lacks"
    for part in ("formats", "attention_kernels", "schedules", "default_schedules", "default_sharding", "recompute"):
        if not getattr(stack, part):
            yield part, "must have at least one entry"


# --- Sites, cooling, prices -------------------------------------------------------------------------------------


def _site(site: Site) -> Found:
    air_c, wet_bulb_c = site.hottest_c, site.hottest_wet_bulb_c
    if (air_c is None) != (wet_bulb_c is None):
        yield "hottest_c", "must be given with hottest_wet_bulb_c"
    if air_c is not None and wet_bulb_c is not None and wet_bulb_c > air_c:
        yield "hottest_wet_bulb_c", f"must be at most hottest_c = {air_c:g}"


def _cooling(cooling: Cooling) -> Found:
    if cooling.immersion_fraction is not None and cooling.liquid is None:
        yield "immersion_fraction", "must be given with [liquid], the water that takes the heat from the tanks"


def _prices(prices: Prices) -> Found:
    try:
        datetime.date.fromisoformat(prices.date)
    except ValueError:
        yield "date", f"must be a day as 2026-11-30, not {shown(prices.date)}"
    for end, other in (("low", "high"), ("high", "low")):
        for key, value in getattr(prices, end).items():
            likely = prices.figure(key)
            if likely is None:
                yield f"{end}.{key}", "is no figure of this list that can have a range"
            elif key not in getattr(prices, other):
                yield f"{end}.{key}", f"must be given with its {other} end"
            elif value > likely if end == "low" else value < likely:
                yield (
                    f"{end}.{key}",
                    f"must be {'at most' if end == 'low' else 'at least'} {likely:g}, the likely figure",
                )


# --- Models -----------------------------------------------------------------------------------------------------


def _attention(attention: Attention) -> Found:
    if attention.kv_heads > attention.heads or attention.heads % attention.kv_heads:
        yield "kv_heads", f"must divide heads = {attention.heads}, not be {attention.kv_heads}"
    if attention.is_chunked and not attention.window:
        yield "window", "must be given: it is the size of the chunks"
    if bool(attention.index_heads) != bool(attention.index_dim) or (attention.index_heads and not attention.window):
        yield "index_heads", "must be given with index_dim and the window that it fills"
    if (attention.rotary_dim or 0) > attention.head_dim:
        yield "rotary_dim", f"must be at most head_dim = {attention.head_dim}, not {attention.rotary_dim}"


def _experts(moe: Experts) -> Found:
    if moe.top_k > moe.experts + moe.zero_experts:
        yield "top_k", f"must be at most experts = {moe.experts + moe.zero_experts}, not {moe.top_k}"


def _state_space(space: StateSpace) -> Found:
    if not space.heads and not space.dt_rank:
        yield "dt_rank", "must be given (Mamba), or heads (Mamba-2)"
    for whole, part in (("inner", "heads"), ("heads", "groups")):
        if space.heads and getattr(space, whole) % getattr(space, part):
            yield part, f"must divide {whole} = {getattr(space, whole)}, not be {getattr(space, part)}"


def _linear_attention(linear: LinearAttention) -> Found:
    if linear.value_heads % linear.key_heads:
        yield "key_heads", f"must divide value_heads = {linear.value_heads}, not be {linear.key_heads}"


def _layer(layer: Layer) -> Found:
    yield from _parts(layer, (*MIXERS, "moe"))
    if sum(getattr(layer, name) is not None for name in MIXERS) > 1:
        yield "", f"must have at most one of {either(MIXERS)}"
    if not layer.ffn and all(getattr(layer, name) is None for name in (*MIXERS, "moe")):
        yield "", f"must have {either((*MIXERS, 'ffn', 'moe'))}"
    if layer.moe and layer.moe.dense_layers:
        yield "moe.dense_layers", "must not be given: the pattern says which layers are dense"


def _model(model: Model) -> Found:
    yield from _parts(model, ("attention", "moe"))
    yield from _kinds(model) if model.kinds else _layers(model)
    if model.shared_norm and not model.is_parallel:
        yield "shared_norm", "must be false: only parts side by side (is_parallel) share a norm"


def _parts(record: object, names: Iterable[str]) -> Found:
    for part in names:
        for name, text in inconsistent(getattr(record, part)):
            yield f"{part}.{name}", text


def _layers(model: Model) -> Found:
    """What is wrong with a model whose layers are described once."""
    if model.attention is None:
        yield "attention", "is missing; give it, or kinds of layers and their pattern"
    if model.pattern:
        yield "pattern", "must not be given without kinds"
    dense = model.moe.dense_layers if model.moe else model.layers
    if dense > model.layers:
        yield "moe.dense_layers", f"must be at most layers = {model.layers}, not {dense}"
    if dense and not model.ffn:
        yield "ffn", f"must be more than 0: {dense} layers have a dense feed-forward part"


def _kinds(model: Model) -> Found:
    """What is wrong with a model that names its kinds of layers."""
    for kind, layer in model.kinds.items():
        if expand(kind) != (kind,) or kind in RESERVED:
            yield (
                f"kinds.{kind}",
                "is no name for a kind: small letters, digits, - and _, and none of " + ", ".join(RESERVED),
            )
        for name, text in inconsistent(layer):
            yield f"kinds.{kind}.{name}".rstrip("."), text
    for name in ("attention", "ffn", "moe"):
        if getattr(model, name):
            yield name, "must not be given beside kinds, which describe all layers"
    names = expand(model.pattern)
    if not names:
        yield "pattern", f"cannot be read: {shown(model.pattern)}; right is '3 dense, 2 (3 local, global)'"
        return
    if len(names) != model.layers:
        yield "pattern", f"must have layers = {model.layers} layers, not {len(names)}"
    if more := sorted(set(names) - set(model.kinds)):
        yield "pattern", f"has {', '.join(more)}, which kinds lacks"
    if unused := [kind for kind in model.kinds if kind not in names]:
        yield "kinds", f"has {', '.join(unused)}, which pattern lacks"


_RULES: Mapping[type, Callable[[Any], Found]] = {
    Accelerator: _accelerator,
    System: _system,
    Fabric: _fabric,
    Stack: _stack,
    Site: _site,
    Cooling: _cooling,
    Prices: _prices,
    Attention: _attention,
    Experts: _experts,
    StateSpace: _state_space,
    LinearAttention: _linear_attention,
    Layer: _layer,
    Model: _model,
}
"""Rules of each record that has some."""
