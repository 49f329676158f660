"""What was asked."""

from __future__ import annotations

from collections.abc import Mapping

from clusterplan.report.blocks import Block, Document
from clusterplan.units import say

_OBJECTIVES: Mapping[str, str] = {
    "knee": "shortest run of a day or more for at most 10 % over the least cost",
    "wall": "shortest run",
    "devices": "fewest devices",
}


def question_block(inputs: Document) -> Block:
    """What was asked: model, tokens, demands, place."""
    objective = inputs["objective"]
    wanted = [_OBJECTIVES.get(objective, f"least {objective}")] if objective != "none" else []
    if inputs["deadline_s"]:
        sure = say(inputs["confidence"], "fraction")
        wanted.append(f"within {say(inputs['deadline_s'], 'time')} (probability at least {sure})")
    if inputs["budget_usd"]:
        wanted.append(f"for at most {say(inputs['budget_usd'], 'usd')}")
    if inputs["power_w"]:
        wanted.append(f"drawing at most {say(inputs['power_w'], 'power')}")
    if inputs.get("water_m3"):
        wanted.append(f"taking at most {say(inputs['water_m3'], 'water')} of water on site")
    if inputs.get("carbon_kg"):
        wanted.append(f"emitting at most {say(inputs['carbon_kg'], 'carbon')}")
    place = ", ".join(f"{key} {inputs[key]}" for key in ("site", "cooling", "prices", "storage"))
    texts = [", ".join(wanted), place]
    if inputs.get("cap_w"):
        texts.append(f"devices capped at {say(inputs['cap_w'], 'power')}")
    if inputs.get("currency", "USD") != "USD":
        texts.append(f"amounts in {inputs['currency']}, {inputs['usd_rate']:g} for a USD on {inputs['rate_date']}")
    rows = tuple(("", text) for text in texts if text)
    model = "config.json on standard input" if inputs["model"] == "-" else inputs["model"]
    return Block(title=f"{model}, {say(inputs['tokens'], 'tokens')}", rows=rows, are_notes=True)
