"""An answer: the plan with its parts, its alternatives, or why there is none."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from clusterplan.report.blocks import Block, Document
from clusterplan.report.comparison import alternatives_block
from clusterplan.report.quantities import STEP_NOTES, apportioned, label_of, money, said, tree
from clusterplan.report.question import question_block
from clusterplan.report.remarks import blocking_blocks, counts_said, fixes_block, remark_blocks
from clusterplan.units import (
    BYTES_PER_GIB,
    format_bytes,
    format_count,
    format_fraction,
    format_mass_co2e,
    format_power,
    format_probability,
    format_time,
    format_water,
    say,
)


def answer_blocks(document: Document, *, stages: bool) -> Iterator[Block]:
    """Blocks of an answer."""
    inputs, plan = document["inputs"], document["plan"]
    yield question_block(inputs)
    if not document["feasible"]:
        yield from blocking_blocks(document)
    if plan is not None:
        yield from _plan_blocks(plan, inputs, document.get("critical_batch"), stages=stages)
    if document.get("fixes"):
        yield fixes_block(document["fixes"])
    if document["alternatives"]:
        yield alternatives_block(plan, document["alternatives"])
    if search := tuple(_search_rows(document)):
        yield Block(title="Candidates", rows=search)
    yield from remark_blocks(document)


def _plan_blocks(plan: Document, inputs: Document, critical: Document | None, *, stages: bool) -> Iterator[Block]:
    yield Block(title="Plan", rows=tuple(_shape_rows(plan, inputs, critical)))
    step, memory = plan["step"], plan["memory"]
    parts = {name: step[name] for name in step if name in STEP_PARTS}
    yield tree(("Step", step["total_s"]), parts, STEP_NOTES)
    yield Block(rows=tuple(_speed_rows(step)))
    if memory.get("by_stage") and plan.get("traffic"):  # of one layout in depth
        yield _traffic_block(plan["traffic"]["tiers"], step["total_s"])
    stage = f"Memory, stage {memory['heaviest_stage']} of {memory['stages']}"
    yield replace(tree((stage, memory["peak_bytes"]), memory["parts"]), caption=_fit(memory))
    if stages and memory.get("by_stage"):
        yield _stages_block(memory["by_stage"])
    yield Block(title="Run", rows=tuple(_run_rows(plan["run"], inputs)))
    if plan.get("simulation"):
        yield Block(title="Simulated", rows=tuple(_simulation_rows(plan["simulation"])))
    if plan.get("techniques"):
        yield _techniques_block(plan["techniques"])
    yield Block(
        title="Power, energy, water and carbon", rows=tuple(_energy_rows(plan["energy"], plan["carbon"], inputs))
    )
    cost = plan["cost"]
    if cost and cost["total_usd"] is not None:
        parts = {name: value for name, value in cost.items() if name.endswith("_usd") and name not in NO_PARTS}
        yield replace(tree((f"Cost ({_basis(cost)})", cost["total_usd"]), parts), caption=_unit_costs(cost))


NO_PARTS = {"total_usd", "low_usd", "high_usd", "rented_usd", "owned_usd"}
"""Amounts of a cost that are no parts of its total."""

STEP_PARTS = (
    "compute_s", "recompute_s", "host_s", "tp_exposed_s", "cp_exposed_s", "ep_exposed_s", "pp_exposed_s",
    "dp_exposed_s", "offload_exposed_s", "contention_s", "bubble_s", "optimizer_s", "jitter_s",
)  # fmt: skip


def _shape_rows(plan: Document, inputs: Document, critical: Document | None) -> Iterator[tuple[str, str]]:
    layout = plan["layout"]
    racks = f" in {counted(math.ceil(plan['racks']), 'rack')}" if plan.get("racks") else ""
    yield (
        "cluster",
        f"{plan['devices']:,} devices = {counted(plan['nodes'], 'node')} of {plan['hardware']}{racks}",
    )
    # To `estimate` the number of devices is of those at work; spares come on top.
    is_at_work = inputs["objective"] == "none" and list(inputs["devices"]) == 2 * [plan["used_devices"]]
    asked = " (--devices)" if is_at_work and plan["devices"] > plan["used_devices"] else ""
    yield (
        "",
        f"{plan['used_devices']:,} at work{asked}, {plan['spare_devices']:,} spare, {plan['idle_devices']:,} idle",
    )
    names = {"tp": "tensor", "cp": "context", "pp": "pipeline", "dp": "data"}
    axes = [f"{name} {layout[key]:,}" for key, name in names.items() if layout[key] > 1] or ["one device"]
    yield "split", f"{layout['name']}: {' × '.join(axes)}"
    if layout["ep"] > 1:
        cut = f", each cut {layout['etp']:,} ways" if layout["etp"] > 1 else ""
        yield "", f"experts over {layout['ep']:,} devices{cut}"
    batch_tokens = layout["global_batch"] * inputs["seq_len"]
    yield (
        "batch",
        f"{layout['global_batch']:,} sequences of {inputs['seq_len']:,} ({format_count(batch_tokens, 'tokens')}), "
        f"{counted(layout['micro_batches'], 'micro-batch', 'micro-batches')} of {layout['micro_batch']:,}",
    )
    if critical:
        low, high = sorted(critical["estimates"], key=lambda one: one["tokens"])
        sources = [one["source"].split(",")[0] for one in (low, high)]
        yield (
            "",
            f"critical batch {format_count(low['tokens'])} ({sources[0]}) to "
            f"{format_count(high['tokens'], 'tokens')} ({sources[1]})",
        )
    chunks = f", {layout['vpp']} chunks a stage" if layout["vpp"] > 1 else ""
    schedule = "no pipeline" if layout["schedule"] == "none" else f"{layout['schedule']}{chunks}"
    again = recompute_name(layout)
    yield "methods", f"{schedule}; recompute {again}; sharding {layout['sharding']}; {plan['precision']}"
    if layout["offload"] != "none":
        parts = {"both": "optimizer states and activations", "optimizer": "optimizer states"}
        held = format_bytes(plan["memory"]["host_bytes"])
        yield "host memory", f"{parts.get(layout['offload'], 'activations')}, {held} a device"
    yield "placement", f"{layout['placement']} (innermost first){_other_orders(plan)}"
    if plan.get("clock_fraction", 1) < 1:
        yield "clock", f"{format_fraction(plan['clock_fraction'])} of the clock without a cap"
    yield "software", f"{plan['stack']} with {plan['attention_kernel']} attention"
    yield "network", str(plan["fabric"])


def _other_orders(plan: Document) -> str:
    """What the step would take with the groups in other orders."""
    orders = plan.get("traffic", {}).get("placements", [])
    told = []
    for order in orders[1:]:
        change = order["step_s"] / orders[0]["step_s"] - 1
        if abs(change) >= SAME_STEP:
            word = "longer" if change > 0 else "shorter"
            told.append(f"; {order['placement']} is {format_fraction(abs(change))} {word}")
    return "".join(told)


SAME_STEP = 0.0005
"""Relative differences of step times below this are not worth a word."""


def recompute_name(layout: Document) -> str:
    """How much runs again, with the numbers of layers where they say something.

    Examples
    --------
    >>> recompute_name({"recompute": "block", "recomputed_layers": 3.0, "largest_stage_layers": 8})
    'block (3 of 8 layers)'
    """
    name = str(layout["recompute"])
    if name == "block":
        return f"{name} ({layout['recomputed_layers']:.3g} of {layout['largest_stage_layers']} layers)"
    if name == "full" and layout["checkpoint_layers"] > 1:
        return f"{name} ({layout['checkpoint_layers']} layers to a kept input)"
    return name


def counted(number: int, noun: str, plural: str = "") -> str:
    """A whole number of things.

    Examples
    --------
    >>> counted(1, "node"), counted(2073, "node"), counted(16, "micro-batch", "micro-batches")
    ('1 node', '2,073 nodes', '16 micro-batches')
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def _speed_rows(step: Document) -> Iterator[tuple[str, str]]:
    interval = step["interval"]
    low, high, share = interval["low_s"], interval["high_s"], interval["confidence"]
    yield "interval", f"{format_time(low)} to {format_time(high)} ({format_fraction(share)})"
    yield (
        "utilisation",
        f"MFU {format_fraction(step['mfu'])} ({format_fraction(step['mfu_causal'])} with causal attention), "
        f"HFU {format_fraction(step['hfu'])}",
    )
    yield (
        "speed",
        f"{format_count(step['tokens_per_s'])} tokens/s, {format_count(step['tokens_per_s_per_device'])} a device; "
        f"exposed communication {format_fraction(step['communication_fraction'])}",
    )


_VERDICTS = {"fits": "fits", "borderline": "borderline: inside the safety margin", "does_not_fit": "does not fit"}


def _fit(memory: Document) -> str:
    margin = memory["margin_bytes"]
    left = f"{format_bytes(margin)} left" if margin >= 0 else f"{format_bytes(-margin)} too much"
    usable, device = format_bytes(memory["usable_bytes"]), format_bytes(memory["device_bytes"])
    verdict = _VERDICTS.get(memory["verdict"], memory["verdict"])
    text = f"{verdict}: {left} of {usable} usable ({device} on the device)"
    if "reserved_bytes" in memory:
        text += (
            f"; {format_bytes(memory['allocated_bytes'])} allocated, {format_bytes(memory['reserved_bytes'])} reserved"
        )
    return text


_STAGE_HEADS: Mapping[str, str] = {
    "gradients_bytes": "grads",
    "optimizer_bytes": "optim",
    "activations_bytes": "activ",
    "fragmentation_bytes": "fragm",
    "context_bytes": "context",
}


def _traffic_block(tiers: Sequence[Document], step_s: float) -> Block:
    """What a device sends in a step over each level of the network."""
    used = [tier for tier in tiers if tier["total_bytes"]] or list(tiers[:1])
    kinds = [kind for kind in ("tp", "cp", "ep", "pp", "dp") if any(tier[f"{kind}_bytes"] for tier in used)]
    rows = tuple(
        (
            f"{tier['tier']} (to {tier['span_devices']:,})",
            *(format_bytes(tier[f"{kind}_bytes"]) for kind in kinds),
            format_fraction(tier["busy_s"] / step_s),
        )
        for tier in used
    )
    heads = ("sent by a device in a step", *kinds, "links busy")
    return Block(title="Traffic", heads=heads, rows=rows, right=tuple(range(1, len(heads))))


def _stages_block(stages: Sequence[Document]) -> Block:
    names = [name for name in stages[0] if name not in {"stage", "total_bytes"} and any(one[name] for one in stages)]
    heads = ("stage", "total", *(_STAGE_HEADS.get(name, label_of(name)) for name in names))
    rows = [(str(one["stage"]), *(f"{one[n] / BYTES_PER_GIB:,.1f}" for n in ("total_bytes", *names))) for one in stages]
    return Block(title="Memory by stage, GiB", heads=heads, rows=tuple(rows), is_wide=True)


_LOSSES: Mapping[str, str] = {
    "restart": "restarts",
    "rework": "work done twice",
    "stall": "checkpoints",
    "planned": "planned stops",
    "silent": "silent corruption",
    "slow": "slow nodes",
    "data": "waiting for data",
    "repeat": "repeated training",
    "evaluation": "evaluations",
}


def _run_rows(run: Document, inputs: Document) -> Iterator[tuple[str, str]]:
    steps = f"{run['steps']:,} steps"
    yield "wall time", f"{format_time(run['wall_s'])} expected; {steps} without loss {format_time(run['ideal_s'])}"
    if len(run.get("phases", ())) > 1:
        told = (
            f"{one['name']} {format_time(one['time_s'])}"
            + (f" ({format_count(one['tokens'], 'tokens')}, {one['steps']:,} steps)" if one["steps"] else "")
            for one in run["phases"]
        )
        yield "phases", ", ".join(told)
    for one in run.get("phases", ()):
        if "seq_len" in one and one.get("layout"):
            layout = one["layout"]
            yield (
                "",
                f"{one['name']}: {layout['global_batch']:,} sequences of {one['seq_len']:,} on {layout['name']}, "
                f"step {format_time(one['step_s'])}, MFU {format_fraction(one['mfu'])} "
                f"({format_fraction(one['mfu_causal'])} with causal attention)",
            )
    losses = [(text, run.get(f"{name}_loss_fraction")) for name, text in _LOSSES.items()]
    lost = ", ".join(f"{text} {format_fraction(share)}" for text, share in losses if share)
    yield "goodput", format_fraction(run["goodput_fraction"]) + (f"; lost to {lost}" if lost else "")
    yield "done by", ", ".join(f"{format_time(run[f'p{odds}_s'])} ({odds} %)" for odds in (50, 90, 99))
    if run.get("deadline_probability") is not None:
        odds = format_probability(run["deadline_probability"])
        yield "deadline", f"{say(inputs['deadline_s'], 'time')}, met with a probability of {odds}"
    failures = format_count(run["expected_interruptions"], "interruptions")
    mtbf = "never" if run["mtbf_s"] is None else f"every {format_time(run['mtbf_s'])}"
    yield "failures", f"{failures}, {mtbf}"
    if causes := run.get("interruptions_by_cause"):
        known = sorted(causes.items(), key=lambda one: -one[1])
        shares = apportioned([count for _, count in known], 100)
        named = (f"{label_of(cause)} {share} %" for (cause, _), share in zip(known, shares, strict=True) if share)
        if sum(causes.values()) > 0:
            yield "caused by", ", ".join(named)
    yield (
        "checkpoints",
        f"{format_bytes(run['checkpoint_bytes'])} every {format_time(run['checkpoint_interval_s'])}, "
        f"stall {format_time(run['checkpoint_stall_s'])}" + _to_storage(run),
    )


def _to_storage(run: Document) -> str:
    """How often a checkpoint goes to storage, where that is not each time."""
    seldom = run.get("storage_interval_s", 0) > run["checkpoint_interval_s"]
    return f"; to storage every {format_time(run['storage_interval_s'])}" if seldom else ""


def _simulation_rows(simulation: Document) -> Iterator[tuple[str, str]]:
    shape = simulation["failure_shape"]
    law = "failures at random" if shape == 1 else f"times between failures with a Weibull law of shape {shape:g}"
    yield "runs", f"{simulation['runs']:,} with seed {simulation['seed']}; {law}"
    points = 100 * simulation["difference_fraction"]
    yield (
        "goodput",
        f"{100 * simulation['goodput_fraction']:.2f} ± {100 * simulation['goodput_standard_error_fraction']:.2f} %, "
        f"{abs(points):.2f} points {'above' if points > 0 else 'below'} the formula",
    )
    yield "done by", ", ".join(f"{format_time(simulation[f'p{odds}_s'])} ({odds} %)" for odds in (50, 90, 99))
    if simulation["deadline_probability"] is not None:
        yield "deadline", f"met in {format_fraction(simulation['deadline_probability'])} of the runs"
    waiting = simulation["spare_wait_fraction"]
    waits = f"; waiting for a spare {format_fraction(waiting)} of the time" if waiting else ""
    yield "failures", f"{format_count(simulation['interruptions'], 'interruptions')} a run{waits}"


def _techniques_block(techniques: Sequence[Document]) -> Block:
    """What each technique is worth, best first."""
    rows = []
    for one in sorted(techniques, key=lambda one: -one["saved_s"]):
        less, saved = one["saved_s"], one["saved_usd"]
        row = (one["technique"], format_fraction(one["goodput_fraction"]), _signed(format_time, less))
        rows.append(row if saved is None else (*row, _signed(money, saved)))
    heads = ("with", "goodput", "time saved", "cost saved")[: len(rows[0])]
    return Block(title="What techniques are worth, one at a time", heads=heads, rows=tuple(rows), right=(1, 2, 3))


def _signed(write: Callable[[float], str], value: float) -> str:
    return f"{'-' if value < 0 else ''}{write(abs(value))}"


def _energy_rows(energy: Document, carbon: Document, inputs: Document) -> Iterator[tuple[str, str]]:
    yield from _power_rows(energy, inputs.get("power_w"))
    yield from _swing_rows(energy)
    yield from _building_rows(energy)
    yield (
        "energy",
        f"{said('x_kwh', energy['facility_kwh'])} at the meter, {said('x_kwh', energy['it_kwh'])} at the equipment",
    )
    grid = energy.get("grid_water_m3")
    yield (
        "water",
        f"{format_water(energy['water_m3'])} on site"
        + ("" if grid is None else f", {format_water(grid)} at power plants")
        + _share_of(energy["water_m3"], inputs.get("water_m3")),
    )
    market = carbon.get("market_based_kg_co2e")
    contract = "" if market is None else f" ({format_mass_co2e(market)} by contract)"
    yield (
        "carbon",
        f"{format_mass_co2e(carbon['total_kg_co2e'])}: electricity "
        f"{format_mass_co2e(carbon['operational_kg_co2e'])}{contract}, "
        f"making {format_mass_co2e(carbon['embodied_kg_co2e'])}"
        + _share_of(carbon["total_kg_co2e"], inputs.get("carbon_kg")),
    )


def _power_rows(energy: Document, limit_w: float | None) -> Iterator[tuple[str, str]]:
    """What is drawn, whether the site's power holds, what draws it, and what a node and a rack draw."""
    yield (
        "power",
        f"mean {format_power(energy['mean_facility_w'])}, peak {format_power(energy['peak_facility_w'])} at the meter; "
        f"mean {format_power(energy['mean_it_w'])} at the equipment",
    )
    if limit_w:
        share = energy["peak_facility_w"] / limit_w
        verdict = "holds" if share <= 1 else "too little"
        mean = format_fraction(energy["mean_facility_w"] / limit_w)
        yield "limit", f"{say(limit_w, 'power')} {verdict}: peak {format_fraction(share)} of it, mean {mean}"
    parts = sorted(energy["it"].items(), key=lambda one: -one[1])
    shares = apportioned([value for _, value in parts], 1000)
    named = zip(parts, shares, strict=True)
    yield "of which", ", ".join(f"{label_of(name)} {share / 10:.1f} %" for (name, value), share in named if value)
    for name in ("node", "rack"):
        if level := energy.get(name):
            yield name, _level(level)


def _swing_rows(energy: Document) -> Iterator[tuple[str, str]]:
    """How far and how fast power jumps, and what would smooth it where nothing does."""
    swings = energy.get("swings")
    if not swings:
        return
    jumps = ", ".join(
        f"{format_power(swings[f'{when}_w'])} {said} ({format_fraction(swings[f'{when}_fraction'])} of the mean, "
        f"{format_power(swings[f'{when}_w_per_s'])}/s)"
        for when, said in (("step", "at each step"), ("stop", "at stops"))
    )
    smoothing = f"; smoothing takes {format_power(swings['smoothing_w'])}" if swings["smoothing_w"] else ""
    yield "swings", jumps + smoothing
    if not swings["smoothing_w"] and swings["step_w"] and (ways := energy.get("mitigation")):
        yield "", _mitigated(ways)


def _building_rows(energy: Document) -> Iterator[tuple[str, str]]:
    """What the building adds to the equipment, part by part, and what it sells as heat."""
    yield "PUE", f"{energy['pue']:.3f} over the year, {energy['peak_pue']:.3f} at full power in its hottest hours"
    if building := energy.get("building"):
        added = sorted(building.items(), key=lambda one: -one[1])
        # Rounded together, so that 1 and the addends are the PUE as it is printed.
        thousandths = apportioned([value for _, value in added], round(1000 * energy["pue"]) - 1000)
        told = (
            f"{label_of(name)} {part / 1000:.3f}" for (name, _), part in zip(added, thousandths, strict=True) if part
        )
        yield "", f"1 + {' + '.join(told)}"
    if energy.get("ere") is not None:
        yield (
            "heat",
            f"{said('x_kwh', energy['reused_kwh'])} sold, {format_fraction(energy['reused_fraction'])} of the energy "
            f"at the meter; ERE {energy['ere']:.3f}",
        )


def _mitigated(ways: Document) -> str:
    """What evening out the swings would leave and take."""
    floor, storage, held = ways["floor"], ways["storage"], ways["checkpoints"]
    takes = (
        f"{format_power(floor['added_w'])}, {format_fraction(floor['added_fraction'])} more, "
        f"{said('x_kwh', floor['added_kwh'])} at the meter, {said('_usd', floor['added_usd'])}"
    )
    return (
        f"to even them out, a floor of 0.9 of the TDP leaves {format_power(floor['left_w'])} at each step and takes "
        f"{takes}; storage that leaves as much, {format_power(storage['added_w'])} and "
        f"{ways['storage_device_j']:,.0f} J a device; "
        f"through checkpoints {format_power(held['added_w'])}"
    )


def _share_of(value: float, limit: float | None) -> str:
    """How much of a limit is taken; empty without one.

    Examples
    --------
    >>> _share_of(30.0, 40.0), _share_of(30.0, None)
    ('; 75.0 % of the limit', '')
    """
    return f"; {format_fraction(value / limit)} of the limit" if limit else ""


def _level(level: Document) -> str:
    mean, p95, nameplate = (format_power(level[f"{name}_w"]) for name in ("mean", "p95", "nameplate"))
    return f"mean {mean}, 95 % of the time within {p95}, nameplate {nameplate}"


def _basis(cost: Document) -> str:
    basis = {"own": "owned", "rent": "rented"}.get(cost.get("basis", ""), cost.get("basis", ""))
    return ", ".join(
        part for part in (basis, f"prices of {cost['price_date']}" if cost.get("price_date") else "") if part
    )


def _unit_costs(cost: Document) -> str:
    per_hour = cost.get("usd_per_device_h")
    hour = "" if per_hour is None else f", {said('usd_per_device_h', per_hour)} per delivered device-hour"
    lines = [f"{said('usd_per_million_tokens', cost['usd_per_million_tokens'])} per million tokens{hour}"]
    bought = cost.get("purchase")
    if bought and cost.get("basis") == "own":
        parts = ((part, bought[f"bought_{part}_usd"]) for part in ("systems", "network", "storage", "building"))
        of_these = ", ".join(f"{part} {said('_usd', value)}" for part, value in parts if value)
        lines.append(f"purchase {said('_usd', bought['bought_usd'])}, before the first step: {of_these}")
    if cost.get("low_usd") is not None:
        low, high = (said("_usd", cost[f"{end}_usd"]) for end in ("low", "high"))
        lines.append(f"{low} to {high} with all prices at the low or high end of their ranges")
    if cost.get("rented_usd") is not None and cost.get("owned_usd") is not None:
        even = cost.get("break_even_utilisation_fraction")
        pays = "owning never pays"
        if even is not None and even <= 1:
            pays = f"owning pays from a utilisation of {format_fraction(even)}"
        lines.append(f"owned {said('_usd', cost['owned_usd'])}, rented {said('_usd', cost['rented_usd'])}: {pays}")
    return "\n".join(lines)


AFTER = {
    "far behind the fastest", "memory", "host memory", "devices", "deadline", "budget", "site power", "water", "carbon",
    "network span",
}  # fmt: skip
"""What layouts that were considered fell to; the rest is no legal layout and is not among them."""


def _search_rows(document: Document) -> Iterator[tuple[str, str]]:
    search = document["search"]
    if search["considered"] > 1:
        ties = search["ties"]
        near = f"; {ties:,} as good as the best within the error" if ties else ""
        yield "looked at", f"{search['considered']:,} considered, {search['evaluated']:,} evaluated{near}"
    if least := search.get("least"):
        counted = OBJECTIVES.get(document["inputs"]["objective"], "cost")
        yield (
            "least of them",
            f"{least['layout']} on {least['devices']:,} devices: {format_fraction(least['saved_fraction'])} less "
            f"{counted} by the figures; the plan has more memory free, fewer techniques or cuts",
        )
    before = {name: count for name, count in document["rejected"].items() if name not in AFTER}
    if counts := counts_said({name: count for name, count in document["rejected"].items() if name in AFTER}):
        yield "refused", counts
    if counts := counts_said(before):
        yield "not tried", counts
    if given := document.get("beside"):
        yield "your layout", f"{given['layout']}: {_beside(given)}"


def _beside(given: Document) -> str:
    """How a layout that was given ranks among the candidates."""
    if "problem" in given:
        return str(given["problem"])
    worse = given["loss_fraction"]
    loss = f"{format_fraction(abs(worse))} {'more' if worse >= 0 else 'less'} {OBJECTIVES[given['objective']]}"
    breaks = f"; it breaks {', '.join(given['breaks'])}" if given["breaks"] else ""
    place = (
        f"number {given['rank']:,} of {given['of']:,}" if given["rank"] <= given["of"] else f"after all {given['of']:,}"
    )
    speed = f"step {format_time(given['step_s'])}, MFU {format_fraction(given['mfu'])}"
    return f"{place}, {loss} than the plan; {speed}{breaks}"


OBJECTIVES: Mapping[str, str] = {
    "wall": "time", "cost": "cost", "energy": "energy", "carbon": "carbon", "devices": "devices", "water": "water",
}  # fmt: skip
"""What an objective counts, in words."""
