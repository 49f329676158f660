"""Several kinds of machines at several sites: parts that add up, answers no worse than those of one kind."""

import itertools
import json
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from typer.testing import CliRunner

from clusterplan import mix, search
from clusterplan.cli import app
from clusterplan.errors import ClusterplanError
from clusterplan.report import Page, render
from clusterplan.run import steady_mtbf_s
from examples import CATALOG, asked, machine

DAY_S = 86400.0
JOB = {"tokens": 10**12, "devices": (8, 512), "global_batch": 1024, "batch_fixed": False}
TWO = ("dgx-h100", "dgx-a100")
SITES = ("us-virginia", "no-narvik")


def mixed(options=None, **question):
    resolved = asked(**(JOB | question))
    return mix.mix(resolved, mix.asked(resolved, CATALOG, **(options or {})))


def two_sites(line="100Gbit/s,20ms", **options):
    caps = ["us-virginia=50kW", "no-narvik=100kW"]
    return {"sites": SITES, "site_power": caps, "line": line, **options}


@pytest.fixture(scope="module")
def both():
    """Two kinds, of each too few for the deadline."""
    return mixed({"counts": ["dgx-h100=128", "dgx-a100=256"]}, hardware=TWO, deadline_s=0.15 * DAY_S, global_batch=8192)


# --- Answers ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("question", [{"deadline_s": 5 * DAY_S}, {"deadline_s": DAY_S, "objective": "energy"}])
def test_one_kind_at_one_site_is_the_plan_of_size(question):
    answer, alone = mixed(hardware="dgx-h100", **question), search.size(asked(**(JOB | question)))
    (part,) = answer.mix.parts
    assert part.plan.layouts.dp == alone.plan.layouts.dp
    assert answer.mix.totals["cost"] == float(alone.plan.run.cost.total_usd[0])
    assert answer.mix.wall_s == float(alone.plan.run.progress.wall_s[0])


@pytest.mark.parametrize("objective", ["cost", "wall", "energy", "carbon"])
def test_another_kind_to_choose_from_makes_nothing_worse(objective):
    counts = {"counts": ["dgx-h100=64", "dgx-a100=512"]}
    question = {"deadline_s": 0.5 * DAY_S, "objective": objective}
    whole = mixed(counts, hardware=TWO, **question).mix.totals[objective]
    for kind, count in zip(TWO, counts["counts"], strict=True):
        alone = mixed({"counts": [count]}, hardware=kind, **question)
        assert alone.mix is None or whole <= alone.mix.totals[objective] * (1 + 1e-9)


def test_parts_that_wait_for_their_hosts_are_told():
    resolved = asked(**(JOB | {"hardware": "dgx-h100", "deadline_s": 60 * DAY_S}))
    slow = replace(resolved, hardware=(machine(changes=[("stack", {"host_s_per_layer": 0.005})]),))
    answer = mix.mix(slow, mix.asked(slow, CATALOG))
    (told,) = [text for text in answer.warnings if "wait for their hosts" in text]
    assert told.startswith("dgx-h100 at us-virginia: devices wait")
    assert told.removeprefix("dgx-h100 at us-virginia: ") in search.size(slow).warnings


def test_kinds_without_a_price_are_left_out_and_alone_refused():
    answer = mixed(hardware=("dgx-h100", "hgx-a800"), deadline_s=5 * DAY_S)
    assert {part.plan.question.machine.system.name for part in answer.mix.parts} == {"dgx-h100"}
    assert any(text.startswith("hgx-a800 is left out: ") for text in answer.warnings)
    assert any("no price of hgx-a800" in text for text in answer.warnings)
    with pytest.raises(ClusterplanError, match=r"mix: price list .* has no price of hgx-a800"):
        mixed(hardware="hgx-a800", deadline_s=5 * DAY_S)


def test_counts_that_are_too_few_alone_are_enough_together(both):
    assert {part.plan.question.machine.system.name for part in both.mix.parts} == set(TWO)
    assert both.single is None
    assert both.mix.wall_s <= 0.15 * DAY_S
    for part, most in zip(both.mix.parts, (128, 256), strict=True):
        assert int(part.run.fleet.devices[0]) <= most


def test_caps_of_sites_bind():
    answer = mixed(two_sites(sync_every="500"), hardware="dgx-h100", deadline_s=DAY_S, objective="wall")
    assert len(answer.mix.parts) == 2
    full = []
    for part, cap in zip(answer.mix.parts, (50e3, 100e3), strict=True):
        drawn = answer.mix.power_w(part.pair.site)
        assert drawn <= cap
        full.append(cap < drawn * (1 + 1 / int(part.run.fleet.units[0])))
    assert any(full)  # layouts come in steps of replicas, so that another site may stay below its cap


def test_lines_that_are_slower_are_never_faster():
    walls = []
    for line in ("10Tbit/s,1ms", "1Tbit/s,1ms", "100Gbit/s,20ms", "1Gbit/s,20ms"):
        answer = mixed(two_sites(line), hardware="dgx-h100", deadline_s=5 * DAY_S, objective="wall")
        walls.append(answer.mix.wall_s)
    assert walls == sorted(walls)
    assert len(answer.mix.parts) == 1  # not worth it


def test_the_same_parts_on_slower_lines_take_longer():
    resolved = asked(**(JOB | {"hardware": "dgx-h100", "deadline_s": DAY_S}))
    walls, steps = [], []
    for line, every in [("1Tbit/s", 100), ("1Tbit/s", 1), ("100Gbit/s", 1), ("100Gbit/s,1s", 1)]:
        shop = mix.Shop(
            resolved=resolved,
            asked=mix.asked(resolved, CATALOG, sites=SITES, line=line, sync_every=str(every)),
            objective="cost",
        )
        pairs = [mix.Pair(kind=0, site=site) for site in (0, 1)]
        plans = {pair: shop.plan(pair, mix._usable(shop.layouts_of(0, 64, 512)), trimmed=True) for pair in pairs}
        joined = shop.joined(plans)
        walls.append(joined.wall_s)
        steps.append(joined.step_s)
    assert len(set(steps)) == 1
    assert all(a < b for a, b in itertools.pairwise(walls))


def test_gradients_cross_the_line_by_head():
    """Two sites send each gradient once either way; what their last micro-batches hide is taken off."""
    resolved = asked(**(JOB | {"hardware": "dgx-h100", "deadline_s": DAY_S}))
    options = mix.asked(resolved, CATALOG, sites=SITES, line="1Gbit/s,20ms")
    shop = mix.Shop(resolved=resolved, asked=options, objective="cost")
    pairs = [mix.Pair(kind=0, site=site) for site in (0, 1)]
    plans = {pair: shop.plan(pair, mix._usable(shop.layouts_of(0, 64, 512)), trimmed=True) for pair in pairs}
    (plan, _) = plans.values()
    stack = plan.question.machine.stack
    sent_s = 2 * plan.circumstances.parameters * stack.gradient_message_bytes / 2 / 125e6 + 2 * 0.02
    hidden_s = min(stack.dp_hidden_fraction * sent_s, mix.window_s(plan))
    assert shop.joined(plans).line_s == pytest.approx(sent_s - hidden_s)


def test_sites_without_a_line_do_not_work_together():
    answer = mixed({"sites": SITES}, hardware="dgx-h100", deadline_s=DAY_S)
    assert len(answer.mix.parts) == 1


# --- Parts ------------------------------------------------------------------------------------------------------


def test_parts_add_up(both):
    document = both.document()
    parts, total = document["parts"], document["total"]
    assert sum(part["batch_share_fraction"] for part in parts) == pytest.approx(1)
    assert sum(part["layout"]["global_batch"] for part in parts) == total["global_batch"]
    for here, there in [
        ("cost.total_usd", "total_usd"),
        ("energy.facility_kwh", "facility_kwh"),
        ("carbon.total_kg_co2e", "total_kg_co2e"),
        ("energy.peak_facility_w", "peak_facility_w"),
        ("devices", "devices"),
    ]:
        keys = here.split(".")
        values = [part[keys[0]] if len(keys) == 1 else part[keys[0]][keys[1]] for part in parts]
        assert_allclose(sum(values), total[there])
    assert sum(total["site_peak_w"].values()) == pytest.approx(total["peak_facility_w"])


def test_all_parts_end_a_step_together(both):
    for part in both.mix.parts:
        assert part.wait_s >= 0
        assert float(part.plan.step.time.total_s[0]) + part.wait_s == pytest.approx(both.mix.step_s)
        assert float(part.run.progress.wall_s[0]) == both.mix.wall_s


def test_a_failure_of_one_part_stops_all(both):
    rates = [1 / float(part.plan.run.progress.mtbf_s[0]) for part in both.mix.parts]
    assert_allclose(1 / float(both.mix.progress.mtbf_s[0]), sum(rates))


def test_burn_in_of_the_other_parts_is_counted_once():
    factor = 5.0
    sets = {"operations.early_failure_factor": str(factor)}
    resolved = asked(**(JOB | {"hardware": TWO, "deadline_s": DAY_S, "sets": sets}))
    shop = mix.Shop(resolved=resolved, asked=mix.asked(resolved, CATALOG), objective="cost")
    pairs = [mix.Pair(kind=kind, site=0) for kind in (0, 1)]
    plans = {pair: shop.plan(pair, mix._usable(shop.layouts_of(pair.kind, 64, 512)), trimmed=True) for pair in pairs}
    joined = shop.joined(plans)
    burned_in = sum(1 / float(steady_mtbf_s(plan.circumstances, plan.run.fleet)[0]) for plan in plans.values())
    rate = 1 / float(joined.progress.mtbf_s[0])
    assert burned_in < rate <= factor * burned_in * (1 + 1e-9)


def test_what_a_part_says_of_itself_fits_its_share(both):
    document = both.document()
    for part in document["parts"]:
        cost, caused = part["cost"], part["run"]["interruptions_by_cause"]
        assert cost["low_usd"] < cost["total_usd"] < cost["high_usd"]
        assert cost["owned_usd"] == cost["total_usd"]
        assert sum(caused.values()) == pytest.approx(part["run"]["expected_interruptions"])
        assert caused["other_machines"] > 0
        assert part["energy"]["hall"]["mean_w"] == pytest.approx(part["energy"]["mean_it_w"])


def test_what_was_assumed_of_units_is_near_what_they_do(both):
    assert both.mix.agreement.rounds >= 1
    assert abs(both.mix.agreement.speed_residual_fraction) < 0.05


def test_people_and_storage_are_paid_once():
    resolved = asked(**(JOB | {"hardware": "dgx-h100", "deadline_s": DAY_S}))
    shop = mix.Shop(resolved=resolved, asked=mix.asked(resolved, CATALOG), objective="cost")
    plan = shop.plan(mix.Pair(kind=0, site=0), mix._usable(shop.layouts_of(0, 64, 512)), trimmed=True)
    two = shop.joined({mix.Pair(kind=0, site=0): plan, mix.Pair(kind=1, site=0): plan})
    people = resolved.prices.staff_persons * resolved.prices.usd_per_person_year / (365.25 * DAY_S)
    assert_allclose(two.staff_usd, people * two.wall_s, rtol=1e-3)
    alone = shop.joined({mix.Pair(kind=0, site=0): plan})
    stored = [sum(float(p.run.cost.storage_usd[0]) for p in one.parts) / one.wall_s for one in (alone, two)]
    assert_allclose(*stored, rtol=0.05)


def test_layouts_go_together_as_brute_force_finds():
    rng = np.random.default_rng(5)
    for _ in range(50):
        parts = [(rng.integers(5, 30, n), rng.uniform(1, 2, n)) for n in rng.integers(1, 6, 2)]
        rows = list(itertools.product(*(range(len(batches)) for batches, _ in parts)))
        sums = np.array([sum(p[0][r] for p, r in zip(parts, row, strict=True)) for row in rows])
        ends = np.array([max(p[1][r] for p, r in zip(parts, row, strict=True)) for row in rows])
        (chosen,) = mix.together(parts, int(sums.max()))
        index = rows.index(tuple(chosen))
        near = sums >= 0.95 * sums.max() - 1e-9
        assert near[index]
        assert_allclose(sums[index] / ends[index], np.max((sums / ends)[near]))


# --- What cannot be ---------------------------------------------------------------------------------------------


def test_nothing_feasible_says_what_would_do():
    few = {"counts": ["dgx-h100=16", "dgx-a100=24"]}
    answer = mixed(few, hardware=TWO, deadline_s=DAY_S)
    assert answer.mix is None
    (stop,) = answer.blocking
    assert stop.constraint == "deadline"
    assert stop.nearest_feasible > DAY_S
    assert mixed(few, hardware=TWO, deadline_s=stop.nearest_feasible * 1.001).mix is not None


def test_a_budget_that_is_too_small_says_what_would_do():
    answer = mixed(hardware=TWO, deadline_s=DAY_S, budget_usd=100.0)
    assert [stop.constraint for stop in answer.blocking] == ["budget"]
    needed = answer.blocking[0].nearest_feasible
    assert mixed(hardware=TWO, deadline_s=DAY_S, budget_usd=needed * 1.001).mix is not None


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"counts": ["dgx-h200=8"]}, "not among dgx-h100"),
        ({"counts": ["dgx-h100"]}, "NAME=VALUE"),
        ({"site_power": ["fr-paris=3MW"]}, "not among us-virginia"),
        ({"line": "fast"}, "--wan"),
        ({"line": "1Tbit/s,soon"}, "--wan"),
        ({"sync_every": "0"}, "--sync-every"),
        ({"sites": ["atlantis"]}, "atlantis"),
    ],
)
def test_mistakes_are_said(options, said):
    with pytest.raises(ClusterplanError, match=said):
        mixed(options, deadline_s=DAY_S)


def test_a_question_without_limits_is_refused():
    with pytest.raises(ClusterplanError, match="--deadline"):
        mixed(hardware=TWO, devices=None)


# --- Reports ----------------------------------------------------------------------------------------------------


def test_reports_fit_80_columns(both):
    text = render(both.document(), "table", Page(width=80))
    assert max(len(line) for line in text.splitlines()) <= 80
    assert "no kind of machine alone keeps to everything" in text
    assert "weighted by their sequences" in text
    assert "part 1" in render(both.document(), "csv")
    assert json.loads(render(both.document(), "json"))["schema"] == mix.SCHEMA


def test_seldom_synchronised_sites_say_what_is_assumed():
    answer = mixed(two_sites("1Gbit/s,20ms", sync_every="500"), hardware="dgx-h100", deadline_s=DAY_S, objective="wall")
    assert len(answer.mix.parts) == 2
    assert "DiLoCo" in answer.document()["convergence"]
    assert "every 500 steps" in render(answer.document(), "table")


def test_the_command_gives_exit_codes():
    base = ["mix", "llama-3.1-8b", "--hardware", "dgx-h100", "--tokens", "1T", "--devices", "8:256", "--json"]
    done = CliRunner().invoke(app, [*base, "--deadline", "60d"])
    assert done.exit_code == 0
    assert json.loads(done.stdout)["feasible"]
    done = CliRunner().invoke(app, [*base, "--deadline", "1d"])
    assert done.exit_code == 3
    assert json.loads(done.stdout)["blocking"]


def test_power_of_all_sites_together_is_kept():
    free = mixed(two_sites(sync_every="500"), hardware="dgx-h100", deadline_s=DAY_S, objective="wall")
    resolved = asked(**(JOB | {"hardware": "dgx-h100", "deadline_s": DAY_S, "objective": "wall", "power_w": 9e4}))
    capped = mix.mix(resolved, replace(mix.asked(resolved, CATALOG, **two_sites(sync_every="500")), power_w=9e4))
    drawn = sum(capped.mix.power_w(site) for site in (0, 1))
    assert drawn <= 9e4 < sum(free.mix.power_w(site) for site in (0, 1))
