"""Models, machines, questions and tables of layouts that several tests start from."""

from dataclasses import replace

import numpy as np

from clusterplan import search, shapes
from clusterplan.catalog import Catalog
from clusterplan.hardware import Accelerator, Fabric, Machine, Stack, System
from clusterplan.layer import Question
from clusterplan.layout import OFFLOAD, PLACEMENTS, RECOMPUTE, RECOMPUTED_SHARE, SCHEDULES, SHARDING, Cuts, Layouts
from clusterplan.scenario import Scenario, resolve
from clusterplan.workload import Attention, Experts, Job, Layer, LinearAttention, Model, StateSpace

CATALOG = Catalog()

# GPT-2's kind of layer, small enough to enumerate everything
TINY = Model(
    name="tiny",
    source="made up",
    layers=8,
    hidden=1024,
    vocab=32000,
    ffn=4096,
    gated_mlp=False,
    tied_embeddings=True,
    attention=Attention(heads=8, kv_heads=8, head_dim=128),
)
TINY_MOE = replace(
    TINY,
    name="tiny-moe",
    gated_mlp=True,
    tied_embeddings=False,
    moe=Experts(experts=8, top_k=2, ffn=1024, shared_ffn=1024, dense_layers=1),
    mtp_layers=1,
)

# Layers that differ: state spaces, windows, linear attention with experts
TINY_HYBRID = replace(
    TINY,
    name="tiny-hybrid",
    layers=7,
    ffn=0,
    attention=None,
    tied_embeddings=False,
    kinds={
        "mamba": Layer(state_space=StateSpace(inner=2048, state=16, conv=4, dt_rank=64), ffn=4096),
        "local": Layer(attention=replace(TINY.attention, window=256), ffn=4096),
        "linear": Layer(
            linear_attention=LinearAttention(rule="lightning", key_heads=4, value_heads=4, key_dim=128, value_dim=128),
            moe=Experts(experts=8, top_k=2, ffn=1024),
        ),
    },
    pattern="2 (mamba, 2 local), linear",
    mtp_layers=1,
)


def model(name):
    return CATALOG.load(Model, name)


def machine(system="dgx-h100", *, stack=None, fabric=None, changes=()):
    """A shipped system with what it is used with; ``changes`` are pairs of a record and new figures of it."""
    unit = CATALOG.load(System, system)
    whole = Machine(
        system=unit,
        accelerator=CATALOG.load(Accelerator, unit.accelerator),
        fabric=CATALOG.load(Fabric, fabric or unit.fabric),
        stack=CATALOG.load(Stack, stack or unit.stack),
    )
    for record, figures in dict(changes).items():
        whole = replace(whole, **{record: replace(getattr(whole, record), **figures)})
    return whole


def question(of, on, *, seq_len=2048, batch=64, fixed=False, precision=None, domain=None):
    """A question about a model on a machine, in its first format unless one is given."""
    precision = precision or on.formats[0]
    return Question(
        model=of,
        job=Job(tokens=1e12, seq_len=seq_len, global_batch=batch, batch_fixed=fixed, precision=precision),
        machine=on,
        domain_devices=domain or on.system.scaleup_devices,
    )


def cuts(*, tp=1, cp=1, ep=1, etp=1, micro_batch=1, recompute="none"):
    """A table of cuts; each axis is a number or a list."""
    modes = [RECOMPUTE.index(r) for r in np.atleast_1d(recompute)]
    columns = np.broadcast_arrays(*map(np.atleast_1d, (tp, cp, ep, etp, micro_batch, modes, 1)))
    names = ("tp", "cp", "ep", "etp", "micro_batch", "recompute", "checkpoint_layers")
    axes = {name: np.array(column, dtype=np.int64) for name, column in zip(names, columns, strict=True)}
    return Cuts(**axes, recomputed=RECOMPUTED_SHARE[axes["recompute"]])


def layouts(
    *, cut=0, pp=1, vpp=1, dp=1, sharding="zero1", batch=64, schedule=None, offload="none", bought=None,
    placement="tp-cp-ep-dp-pp", shard_group=0,
):  # fmt: skip
    """A table of layouts; each axis is a number or a list."""
    pp, vpp = np.atleast_1d(pp), np.atleast_1d(vpp)
    if schedule is None:
        schedule = np.where(pp == 1, "none", np.where(vpp > 1, "interleaved", "1f1b"))
    kinds = [SHARDING.index(s) for s in np.atleast_1d(sharding)]
    schedules = [SCHEDULES.index(s) for s in np.atleast_1d(schedule)]
    hosted = [OFFLOAD.index(o) for o in np.atleast_1d(offload)]
    orders = [PLACEMENTS.index(o) for o in np.atleast_1d(placement)]
    given = (cut, pp, vpp, dp, kinds, schedules, hosted, orders, shard_group, batch, dp if bought is None else bought)
    columns = np.broadcast_arrays(*map(np.atleast_1d, given))
    names = (
        "cut", "pp", "vpp", "dp", "sharding", "schedule", "offload", "placement", "shard_group", "global_batch",
        "bought_devices",
    )  # fmt: skip
    return Layouts(**{name: np.array(column, dtype=np.int64) for name, column in zip(names, columns, strict=True)})


def limits(ask):
    return shapes.limits(ask.model, ask.job, ask.machine.stack)


def asked(*, of=TINY, hardware="dgx-h100", **question):
    """A resolved question about a model of this file, as a scenario gives it."""
    names = (hardware,) if isinstance(hardware, str) else hardware
    given = {"tokens": 10**10, "devices": (8, 32), "seq_len": 2048, "global_batch": 64} | question
    if "bf16" not in machine(names[0]).formats:
        given.setdefault("precision", machine(names[0]).formats[0])
    scenario = Scenario(model="llama-3.1-8b", hardware=names, **given)
    resolved = resolve(scenario, CATALOG, lambda m: shapes.parameters(m).active)
    return replace(resolved, model=of)


def bench(resolved, objective="cost", index=0):
    """The first of the questions about one machine."""
    return next(search.benches(resolved, index, objective))


def crowded(resolved, gigabytes):
    """The same question on devices with less memory, so that not everything fits."""
    (on,) = resolved.hardware
    device = replace(on.accelerator, memory_bytes=gigabytes * 1e9)
    return replace(resolved, hardware=(replace(on, accelerator=device),))


def with_span(question, devices):
    """The same on a network of one level that joins so many devices."""
    machine = question.hardware[0]
    tier = replace(machine.fabric.tiers[0], span_devices=devices)
    return replace(question, hardware=(replace(machine, fabric=replace(machine.fabric, tiers=(tier,))),))
