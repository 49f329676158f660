"""What a reader of a plan should know before signing: remarks on its speed, losses, batch, data and money."""

from __future__ import annotations

from typing import Any

from clusterplan import run
from clusterplan.formulas import checkpoints
from clusterplan.plan import ROUNDING, Demands, Plan, critical_batch, upper_limits
from clusterplan.stuck import with_failures
from clusterplan.units import (
    format_bandwidth,
    format_bytes,
    format_count,
    format_fraction,
    format_mass_co2e,
    format_power,
    format_probability,
    format_time,
    format_usd,
    format_water,
)

SURE = 0.9
"""A plan that meets its deadline with less probability than this is warned of."""

LOW_GOODPUT = 0.8
"""A plan that loses more than the rest to failures and checkpoints is warned of."""

LOW_MFU = 0.5
"""A plan below this share of the best published MFU of its accelerator is warned of."""

SMALL_JOB_DEVICES = 4096

SMALL_JOB_FACTOR = 28.8 / 7.9
"""Jobs of fewer devices fail more often than rates of large ones say: 1,024 devices every 7.9 h, where the rate of the
fleet gives 28.8 h (A. Kokolis et al., HPCA 2025, arXiv:2410.21680)."""

STAFF = 0.5
"""A plan whose staff is a larger share of its cost is remarked on."""

HOST_WAIT = 0.05
"""Share of a step that devices wait for their hosts, from which on it is told."""

MANY_RESTING = 0.2
"""A plan of whose devices a larger share is spare or idle is remarked on."""

FULL = 0.5
"""A plan that takes more of its storage is warned of."""

TELLING = 0.005
"""Goodput that such failures must take for a warning."""

_LIMITS = {"s": format_time, "USD": format_usd, "W": format_power, "m3": format_water, "kg CO2e": format_mass_co2e}
"""How limits that a given layout may break are said, by their unit."""


def unkept(plan: Plan, demands: Demands) -> list[str]:
    """Limits that a layout which is given does not keep to, each with what it takes."""
    found = []
    for name, limit, unit, measure in upper_limits(demands):
        takes = float(measure(plan.run)[0])
        if unit in _LIMITS and takes > limit * (1 + ROUNDING):
            sure = f" with a probability of {format_fraction(demands.confidence)}" if name == "deadline" else ""
            found.append(f"{name} {_LIMITS[unit](limit)} is not kept: the layout takes {_LIMITS[unit](takes)}{sure}")
    return found


def warnings(plan: Plan, *, is_given: bool = False) -> list[str]:
    """What a reader of the plan should know before signing; of a layout that is given no other is to be looked for."""
    return [
        *speed_warnings(plan),
        *host_warnings(plan),
        *storage_warnings(plan),
        *fleet_warnings(plan),
        *small_job_warnings(plan),
        *token_warnings(plan),
        *deadline_warnings(plan, is_given=is_given),
        *cost_warnings(plan),
        *trust_warnings(plan),
    ]


def speed_warnings(plan: Plan) -> list[str]:
    """MFU that is more than anybody published or much less, and much time that is lost."""
    found = []
    device, mfu = plan.question.machine.accelerator, float(plan.step.mfu[0])
    best = device.best_published_mfu.get(plan.question.job.precision)
    if best is not None and mfu > best:
        text = f"is above {format_fraction(best)}, the best published for {device.name}"
        found.append(f"MFU {format_fraction(mfu)} {text}")
    if best is not None and mfu < LOW_MFU * best:
        text = f"is less than half of {format_fraction(best)}, the best published for {device.name}"
        found.append(f"MFU {format_fraction(mfu)} {text}")
    goodput = float(plan.run.progress.goodput_fraction[0])
    if goodput < LOW_GOODPUT:
        found.append(
            f"goodput {format_fraction(goodput)}: the rest goes to failures and checkpoints; fewer devices lose less"
        )
    return found


def host_warnings(plan: Plan) -> list[str]:
    """How much of a step devices wait for their hosts, and what would not make them wait."""
    waits = float((plan.step.time.host_s / plan.step.time.total_s)[0])
    if waits < HOST_WAIT:
        return []
    if plan.question.model.is_moe and plan.question.machine.stack.moe_stall_s_per_layer > 0:
        why = "layers with experts are not launched ahead; software that makes one graph of a whole step does not wait"
    else:
        why = "layers take less time than their launches; a larger micro-batch waits less"
    return [f"devices wait for their hosts in {format_fraction(waits)} of a step: {why}"]


def storage_warnings(plan: Plan) -> list[str]:
    """Checkpoints and data that storage takes or brings too slowly, or that fill it."""
    found = []
    progress, storage = plan.run.progress, plan.circumstances.storage
    persist, interval = float(progress.checkpoint_persist_s[0]), float(progress.checkpoint_interval_s[0])
    best = float(checkpoints.checkpoint_interval_s(progress.checkpoint_stall_s, progress.mtbf_s)[0])
    if best < persist and interval < 2 * persist and plan.circumstances.operations.recovery != "memory":
        found.append(
            f"checkpoints follow each other as fast as {storage.name} takes them, every {format_time(interval)}; "
            f"{format_time(best)} would lose least"
        )
    if float(progress.data_loss_fraction[0]) > 0:
        found.append(
            f"{storage.name} brings the data more slowly than the steps need them: "
            f"{format_bandwidth(float(progress.data_bytes_per_s[0]))} of {format_bandwidth(storage.read_bytes_per_s)}"
        )
    stored = float(progress.stored_bytes)
    if stored > FULL * storage.capacity_bytes:
        found.append(
            f"checkpoints and data take {format_bytes(stored)} of the {format_bytes(storage.capacity_bytes)} of "
            f"{storage.name}"
        )
    return found


def fleet_warnings(plan: Plan) -> list[str]:
    """Devices that are paid and not at work."""
    found = []
    fleet = plan.run.fleet
    spare, idle, every = int(fleet.spare_devices[0]), int(fleet.idle_devices[0]), int(fleet.devices[0])
    if spare + idle > MANY_RESTING * every:
        found.append(
            f"{spare + idle:,} of {every:,} devices are not at work ({spare:,} spare, {idle:,} idle); "
            "--set operations.spare_shortage_fraction=1 plans without spares"
        )
    part, whole = plan.question.domain_devices, plan.question.machine.system.scaleup_devices
    if part < whole < int(fleet.used_devices[0]):
        found.append(f"groups fill {part} of the {whole} devices of each scale-up domain; the rest is idle, and paid")
    return found


def small_job_warnings(plan: Plan) -> list[str]:
    """What a small job would lose if it failed as often as such jobs do elsewhere."""
    if int(plan.run.fleet.used_devices[0]) >= SMALL_JOB_DEVICES:
        return []
    goodput = float(plan.run.progress.goodput_fraction[0])
    often = float(with_failures(plan, SMALL_JOB_FACTOR).progress.goodput_fraction[0])
    if goodput - often <= TELLING:
        return []
    return [
        f"small jobs fail more often than rates of large ones say, {SMALL_JOB_FACTOR:.1f} times on 1,024 "
        f"devices (arXiv:2410.21680); then goodput is {format_fraction(often)}, not {format_fraction(goodput)}"
    ]


def token_warnings(plan: Plan) -> list[str]:
    """Sequences longer than the model knows, batches that waste tokens, and fewer tokens than one batch."""
    found = []
    model, job, long = plan.question.model, plan.question.job, plan.circumstances.long
    if 0 < model.learned_positions < (job.seq_len if long is None else long.seq_len):
        text = "learned positions; longer sequences need more of them, and their parameters are not counted"
        found.append(f"the model has {model.learned_positions:,} {text}")
    batch = int(plan.layouts.global_batch[0])
    found += batch_warnings(critical_batch(plan.question, batch), job.seq_len)
    if job.tokens < batch * job.seq_len:
        step = format_count(batch * job.seq_len)
        text = f"a run of {format_count(job.tokens, 'tokens')} is less than one step of {step}"
        found.append(f"{text}; --tokens takes 20T and 15B")
    return found


def deadline_warnings(plan: Plan, *, is_given: bool) -> list[str]:
    """A deadline that is far from sure to be met."""
    sure = plan.run.progress.deadline_probability
    if sure is None or float(sure[0]) >= SURE:
        return []
    more = "" if is_given else f"; --confidence {SURE} plans for more"
    return [f"the deadline is met with probability {format_probability(float(sure[0]))}{more}"]


def cost_warnings(plan: Plan) -> list[str]:
    """That there is no cost, or that most of it is people."""
    cost, prices = plan.run.cost, plan.circumstances.prices
    if cost is None:
        return [f"there is no cost: {run.no_price(prices, plan.question.machine.system.name)}"]
    staff = 0.0 if cost.staff_usd is None else float((cost.staff_usd / cost.total_usd)[0])
    if not staff > STAFF:  # nor where nothing costs anything
        return []
    people = f"{prices.staff_persons:g} people of {prices.name}"
    return [
        f"staff is {format_fraction(staff)} of the cost: {people}, however small the cluster; "
        "--set prices.staff_persons=N counts those that this run needs"
    ]


def trust_warnings(plan: Plan) -> list[str]:
    """Memory that may just not do, and speed that nobody has published."""
    found = []
    device, precision = plan.question.machine.accelerator, plan.question.job.precision
    if plan.verdict == "borderline":
        found.append("memory is inside the safety margin; expect to tune the allocator")
    if device.best_published_mfu.get(precision) is None:
        found.append(f"no published MFU of {device.name} in {precision} to compare with")
    return found


def batch_warnings(critical: dict[str, Any], seq_len: int) -> list[str]:
    """What to say of a batch that is beyond an estimate of the critical one."""
    if critical["batch_tokens"] <= critical["low_tokens"]:
        return []
    low, high = format_count(critical["low_tokens"]), format_count(critical["high_tokens"], "tokens")
    sources = "; ".join(f"{one['name']}: {one['source']}" for one in critical["estimates"])
    beyond_all = critical["batch_tokens"] > critical["high_tokens"]
    beyond, more = ("", "are") if beyond_all else ("the lower estimate of ", "may be")
    text = (
        f"is beyond {beyond}the critical batch, {low} to {high} ({sources}): "
        f"more tokens {more} needed for the same loss"
    )
    most = int(critical["low_tokens"] // seq_len)
    stays = f"; --global-batch {most // 2}:{most} keeps below it" if most > 1 else ""
    return [f"a batch of {format_count(critical['batch_tokens'], 'tokens')} {text}{stays}"]
