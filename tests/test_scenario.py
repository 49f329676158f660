import dataclasses
import io
import json
import sys
from pathlib import Path

import pytest
import tomli_w
from hypothesis import given, settings
from hypothesis import strategies as st

from clusterplan.catalog import ENVIRONMENT, Catalog
from clusterplan.errors import ClusterplanError, ProfileError
from clusterplan.reading import GIVEN
from clusterplan.scenario import (
    LAYOUT,
    Assumed,
    Scenario,
    dump,
    inputs,
    override,
    parse_scenario,
    read_scenario,
    resolve,
    spelled_out,
)

DAY_S = 86_400
CONFIG = json.dumps(
    {
        "model_type": "gpt2",
        "n_embd": 768,
        "n_layer": 12,
        "n_head": 12,
        "n_positions": 1024,
        "vocab_size": 50257,
    }
)


@pytest.fixture(autouse=True)
def _nothing_of_the_user(monkeypatch, tmp_path):
    monkeypatch.delenv(ENVIRONMENT, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def ask(**given):
    return override(Scenario(), {"model": "llama-3.1-70b", "hardware": "dgx-h100", **given})


def answer(scenario):
    return resolve(scenario, Catalog(), lambda model: 1e6 * model.layers)


# --- Reading ---


def test_quantities_may_be_texts_or_numbers_with_a_unit():
    text = """
    model = "gpt-1t"
    hardware = "dgx-h100, dgx-h200"
    tokens = "15T"
    deadline_days = 90
    budget = "80M"
    power_mw = 50
    devices = "1k:16k"
    confidence = 0.9
    seq_len = 8192
    """
    scenario = parse_scenario(text)
    assert scenario.hardware == ("dgx-h100", "dgx-h200")
    assert scenario.tokens == 15 * 10**12
    assert scenario.deadline_s == 90 * DAY_S
    assert scenario.budget_usd == 80e6
    assert scenario.power_w == 50e6
    assert scenario.devices == (1000, 16000)
    assert scenario.confidence == 0.9
    assert parse_scenario(text.replace("deadline_days = 90", 'deadline = "90d"')) == scenario
    assert parse_scenario(text.replace('"1k:16k"', "[1000, 16000]")) == scenario


def test_the_cut_and_the_changes_have_their_tables():
    scenario = parse_scenario(
        '[layout]\ntp = 8\nrecompute = "full"\n[set]\n"site.usd_per_kwh" = 0.05\n[set.stack]\nmax_tp = 4'
    )
    assert (scenario.tp, scenario.recompute) == (8, "full")
    assert scenario.sets == {"site.usd_per_kwh": "0.05", "stack.max_tp": "4"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tokns = 1", "job.toml: tokns: unknown key; did you mean: tokens"),
        ("deadlin = '90d'", "job.toml: deadlin: unknown key; did you mean: deadline"),
        ("[layout]\ntpp = 8", "job.toml: [layout] tpp: unknown key; did you mean: "),
        ("[layuot]\ntp = 8", "job.toml: layuot: unknown key; did you mean: layout"),
        ("tp = 8", "job.toml: tp: unknown key"),
        ("tokens = -1", "job.toml: tokens: cannot read '-1' as"),
        ("tokens = 0", "it must be more than 0"),
        ("tokens = 1.5", "it is not a whole number"),
        ("tokens = nan", "job.toml: tokens: must be finite, not nan"),
        ("tokens = inf", "job.toml: tokens: must be finite, not inf"),
        ("tokens = true", "job.toml: tokens: must be a quantity, not true"),
        ("tokens = []", "job.toml: tokens: must be a quantity, not a list"),
        ("tokens = 1e300", "the most that is planned for"),
        ("tokens = 0x" + "f" * 5000, "has a number larger than 1e+30"),
        ("deadline = 90", "a number alone needs its unit"),
        ("deadline_days = 90\ndeadline = '1d'", "deadline_s is given twice"),
        ("confidence = 90", "it is more than 1"),
        ("devices = [1, 2, 3]", "must be a number of devices, or two, not a list"),
        ("devices = [2, 1]", "it ends before it begins"),
        ("devices = true", "must be a number of devices, or two, not true"),
        ("model = 3", "job.toml: model: must be a text, not 3"),
        ("model = ' '", "job.toml: model: is empty"),
        ('model = "a\\nb"', "job.toml: model: is not one line of printable text: 'a\\nb'"),
        ("hardware = [1]", "job.toml: hardware: must be a text, not 1"),
        ("hardware = 1", "job.toml: hardware: must be a text or a list of texts, not 1"),
        ("objective = 'costs'", "must be wall, cost, energy, carbon, water, devices, not 'costs'; did you mean: cost"),
        ("precision = 'bf61'", "must be bf16, fp16, fp8, fp4, int8, not 'bf61'; did you mean: bf16"),
        ("batch_fixed = 1", "must be true or false, not 1"),
        ("layout = 3", "job.toml: [layout]: must be a table, not 3"),
        ("set = 3", "job.toml: [set]: must be a table, not 3"),
        ("assumed = 3", "job.toml: assumed: must be an array of tables"),
        ("[[assumed]]\nkey = 'site'", "job.toml: [assumed 1]: has no value and no why"),
        ("[[assumed]]\nkey = 'sight'\nvalue = 'x'\nwhy = 'y'", "[assumed 1] key: unknown key; did you mean: site"),
        ("[[assumed]]\nkey = 'tokens'\nvalue = 'x'\nwhy = 'y'", "[assumed 1] value: cannot read 'x' as"),
        ("[[assumed]]\nkay = 'tokens'", "[assumed 1] kay: unknown key; did you mean: key"),
        ("model = ", "job.toml: is not TOML"),
    ],
)
def test_each_mistake_is_named_with_its_place(text, message):
    with pytest.raises(ClusterplanError) as caught:
        parse_scenario(text, "job.toml")
    assert message in str(caught.value)
    assert str(caught.value).startswith("job.toml: ")
    assert str(caught.value).isprintable()


def test_a_file_is_read(tmp_path):
    (tmp_path / "job.toml").write_text(dump(ask(tokens="1T")))
    assert read_scenario(tmp_path / "job.toml") == ask(tokens="1T")
    with pytest.raises(ClusterplanError, match="no such file"):
        read_scenario(tmp_path / "jb.toml")
    (tmp_path / "job.toml").write_bytes(b"\xff")
    with pytest.raises(ClusterplanError, match="is not UTF-8"):
        read_scenario(tmp_path / "job.toml")


# --- Options over a file ---


def test_options_override_a_file():
    base = ask(tokens="1T", sets=["site.usd_per_kwh=0.05", "stack.max_tp=4"])
    scenario = override(base, {"tokens": "2T", "deadline": None, "allow": (), "sets": ["site.usd_per_kwh=0.06"]})
    assert scenario.tokens == 2 * 10**12
    assert scenario.model == base.model
    assert scenario.sets == {"site.usd_per_kwh": "0.06", "stack.max_tp": "4"}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"seq_len": "many"}, "--seq-len: cannot read 'many'"),
        ({"deadline_s": "90"}, "--deadline: cannot read '90'"),
        ({"model": ""}, "MODEL: is empty"),
        ({"sets": ["site.usd_per_kwh"]}, "--set: must be key=value, as site.usd_per_kwh=0.05, not 'site.usd_per_kwh'"),
        ({"precision": "fp7"}, "--precision: must be bf16"),
        ({"allow": "fp8,borderlin"}, "--allow: no technique is called 'borderlin'; did you mean: borderline?"),
        ({"micro_batch": 0}, "--micro-batch: cannot read '0'"),
    ],
)
def test_a_wrong_option_is_called_by_its_name(given, message):
    with pytest.raises(ClusterplanError) as caught:
        override(Scenario(), given)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    "wrong",
    [
        {"batch_ramp": "256"},
        {"batch_ramp": "0:1B"},
        {"batch_ramp": "256:soon"},
        {"batch_ramp": "5000:1B"},
        {"batch_ramp": "8:2T", "tokens": "1T"},
        {"eval_fraction": 1},
        {"long_context": "131072"},
        {"long_context": "131072:0"},
        {"long_context": "far:1B"},
        {"long_context": "1024:1B"},
        {"long_context": "131072:900T"},
        {"long_context": "131072:1T", "batch_ramp": "256:899T", "tokens": "900T"},
    ],
)
def test_wrong_phases_are_refused(wrong):
    with pytest.raises(ClusterplanError):
        answer(ask(**wrong))


def test_phases_are_kept():
    asked = ask(batch_ramp="256:100B", long_context="131072:800B", eval_fraction="2%", water="5ML", carbon="2kt")
    assert parse_scenario(dump(asked)) == asked


def test_a_range_of_batches_is_kept_and_replaced():
    ranged = ask(global_batch="1k:4096")
    assert (ranged.batch_low, ranged.global_batch, ranged.batch_fixed) == (1000, 4096, False)
    assert parse_scenario(dump(ranged)) == ranged
    assert parse_scenario('model = "gpt-1t"\nglobal_batch = "1000:4096"').batch_low == 1000
    job = answer(ranged).job
    assert (job.batch_low, job.global_batch, job.batch_fixed) == (1000, 4096, False)
    exact = override(ranged, {"global_batch": 512})
    assert (exact.batch_low, exact.global_batch, exact.batch_fixed) == (None, 512, True)
    with pytest.raises(ClusterplanError, match="range of sequences: it ends before it begins"):
        ask(global_batch="4096:1024")


def test_a_given_batch_is_exact_and_a_default_one_is_a_target():
    assert answer(ask(global_batch=2048)).job.batch_fixed
    resolved = answer(ask())
    assert not resolved.job.batch_fixed
    assert resolved.job.global_batch == round(16e6 / 8192)
    assert not answer(
        override(parse_scenario("global_batch = 512\nbatch_fixed = false"), {"model": "gpt-1t", "hardware": "dgx-h100"})
    ).job.batch_fixed


# --- Resolving ---


def test_what_is_open_is_taken_from_defaults_and_named():
    resolved = answer(ask())
    assumed = {one.key: one for one in resolved.assumed}
    assert set(assumed) == {
        "tokens", "seq_len", "global_batch", "precision", "devices", "confidence",
        "site", "cooling", "prices", "storage", "fabric.dgx-h100", "stack.dgx-h100",
    }  # fmt: skip
    assert all(one.why for one in resolved.assumed)
    assert assumed["tokens"].value == resolved.job.tokens == 20 * 80e6  # 20 for each of 80 layers × 1e6
    assert (assumed["seq_len"].value, assumed["seq_len"].unit) == (8192, "tokens")
    assert assumed["fabric.dgx-h100"].value == resolved.hardware[0].fabric.name == resolved.hardware[0].system.fabric
    assert assumed["site"].value == resolved.site.name


@pytest.mark.parametrize(("given_name", "name"), [("mxfp8", "fp8"), ("NVFP4", "fp4"), ("BF16", "bf16")])
def test_other_names_of_formats_are_priced_alike_with_one_warning(given_name, name):
    scenario = ask(hardware="dgx-b200", precision=given_name)
    found = answer(scenario)
    assert found.job.precision == name
    told = [text for text in found.warnings if "priced as" in text]
    assert told == (
        []
        if name == "bf16"
        else [f"{given_name.lower()} is priced as {name}: no measurement of a run tells them apart"]
    )
    assert scenario.precision == given_name.lower()  # a saved question keeps what was asked


def test_a_price_that_nobody_quoted_is_warned_of():
    told = [text for text in answer(ask(hardware="tpu-v5p-pod,dgx-h100")).warnings if "not quoted" in text]
    assert [text.partition(":")[0] for text in told] == ["the price of tpu-v5p-pod is assumed, not quoted"]
    assert "TPUs are not sold" in told[0]
    own = ask(hardware="tpu-v5p-pod", sets=("prices.system_usd.tpu-v5p-pod=400000",))
    assert not [text for text in answer(own).warnings if "not quoted" in text]


def test_no_run_is_certain():
    with pytest.raises(ClusterplanError, match="no run is certain"):
        answer(ask(confidence="100%"))


def test_what_is_given_is_not_assumed():
    given = {
        "tokens": "1T", "seq_len": 4096, "global_batch": 64, "precision": "bf16", "devices": 512, "confidence": "90%",
        "site": "se-lulea", "cooling": "air-chilled-water", "prices": "list-2026-11", "storage": "object-store",
        "fabric": "roce-400g", "stack": "megatron-core",
    }  # fmt: skip
    resolved = answer(ask(**given))
    assert resolved.assumed == ()
    assert (resolved.devices, resolved.confidence) == ((512, 512), 0.9)
    assert (resolved.site.name, resolved.hardware[0].fabric.name) == ("se-lulea", "roce-400g")
    assert resolved.job.tokens == 10**12


def test_learned_positions_bound_the_default_length():
    # gpt-1t has 2,048 learned positions; the default length is 8,192
    assert answer(ask(model="gpt-1t")).job.seq_len == 2048
    assert answer(ask(model="gpt-1t", seq_len=1024)).job.seq_len == 1024


def test_a_power_limit_is_a_figure_of_the_site():
    site = answer(ask(power="50MW")).site
    assert site.power_w == 50e6
    assert site.power_w.origin.source == GIVEN


def test_several_systems_each_bring_their_own():
    resolved = answer(ask(hardware="dgx-h100,tpu-v5p-pod"))
    assert [one.system.name for one in resolved.hardware] == ["dgx-h100", "tpu-v5p-pod"]
    assert {one.key for one in resolved.assumed} >= {"fabric.dgx-h100", "stack.tpu-v5p-pod"}


def test_figures_can_be_changed():
    sets = [
        "site.usd_per_kwh=0.05", "accelerator.tdp_w=500", "accelerator.memory_gib=96", "operations.detect_s=30",
        "stack.tp_hidden_fraction=0.5", "model.layers=40", "prices.rent_usd_per_device_h.dgx-h100=2.0",
        "system.fabric=roce-400g", "cooling.air.fan_pa=600",
    ]  # fmt: skip
    resolved = answer(ask(sets=sets))
    assert resolved.site.usd_per_kwh == 0.05
    assert resolved.site.usd_per_kwh.origin.kind == "assumed"
    assert resolved.hardware[0].accelerator.tdp_w == 500
    assert resolved.hardware[0].accelerator.memory_bytes == 96 * 2**30
    assert resolved.operations.detect_s == 30
    assert resolved.hardware[0].stack.tp_hidden_fraction == 0.5
    assert resolved.model.layers == 40
    assert resolved.prices.rent_usd_per_device_h["dgx-h100"] == 2
    assert resolved.hardware[0].fabric.name == "roce-400g"
    assert resolved.cooling.air.fan_pa == 600
    listed = parse_scenario('[set.stack]\nformats = ["bf16"]\ndefault_schedules = ["none"]\nschedules = "1f1b,none"')
    stack = answer(override(listed, {"model": "gpt-1t", "hardware": "dgx-h100"})).hardware[0].stack
    assert (stack.formats, stack.schedules) == (("bf16",), ("1f1b", "none"))
    assert Catalog().load(type(resolved.site), resolved.site.name).usd_per_kwh != 0.05


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"sets": ["sight.usd_per_kwh=1"]}, "--set sight.usd_per_kwh: no record is called 'sight'; did you mean: site"),
        ({"sets": ["site=1"]}, "--set site: names no figure; write site.KEY"),
        ({"sets": ["site.usd_per_kw=1"]}, "--set site.usd_per_kw: usd_per_kw: unknown key; did you mean: usd_per_kwh"),
        ({"sets": ["site.usd_per_kwh=cheap"]}, "--set site.usd_per_kwh: cannot read 'cheap' as"),
        ({"sets": ["site.ups_efficiency=95"]}, "must be more than 0 and at most 1, not 95"),
        ({"hardware": "gh200"}, "--hardware: 'gh200' may be any of 2 systems: gh200-quad, gh200-server"),
        ({"hardware": "h1000"}, "no system profile named 'h1000'"),
        ({"hardware": "dgx-h10"}, "no system profile named 'dgx-h10'; did you mean: dgx-h100"),
        ({"hardware": None}, "--hardware: no hardware is given; known systems: "),
        ({"model": None}, "MODEL: no model is given; known: "),
        ({"model": "llama-3.1-405"}, "no model profile named 'llama-3.1-405'; did you mean: llama-3.1-405b"),
        ({"model": "missing/config.json"}, "missing/config.json: no such file"),
        ({"site": "../sites/us-texas"}, "no site profile named '../sites/us-texas'"),
        ({"precision": "fp4"}, "--precision: fp4 is not available (dgx-h100 with"),
        (
            {"tokens": "1T", "seq_len": "8192", "global_batch": "1e9"},
            "--global-batch: one step of so many sequences of 8,192 tokens has more than the run's 1,000,000,000,000",
        ),
    ],
)
def test_what_cannot_be_resolved_is_an_error_of_one_line(given, message):
    scenario = override(Scenario(), {"model": "llama-3.1-70b", "hardware": "dgx-h100"} | given)
    with pytest.raises(ClusterplanError) as caught:
        answer(scenario)
    assert message in str(caught.value)
    assert str(caught.value).isprintable()


# --- Models that are no profile ---


def test_a_config_is_read_from_its_path(tmp_path, monkeypatch):
    (tmp_path / "config.json").write_text(CONFIG)
    resolved = answer(ask(model=str(tmp_path / "config.json")))
    assert resolved.model.layers == 12
    monkeypatch.chdir(tmp_path)
    again = answer(ask(model="config.json"))
    assert again.model.hidden == 768
    assert again.scenario.model == "config.json"
    with pytest.raises(ProfileError, match=r"is a directory; did you mean: .*config.json"):
        answer(ask(model=f"{tmp_path}/"))


def test_a_config_on_standard_input_is_saved(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(CONFIG.encode())))
    resolved = answer(ask(model="-"))
    assert resolved.model.layers == 12
    assert answer(parse_scenario(dump(resolved.scenario))) == resolved  # standard input is at its end by now
    assert override(resolved.scenario, {"model": "gpt-1t"}).model_text == ""


@pytest.mark.parametrize("data", [b"", b"\xff\xfe", b"x" * (2**20 + 1), b"{", b"[]"])
def test_standard_input_that_is_no_config_is_an_error(monkeypatch, data):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    with pytest.raises(ProfileError):
        answer(ask(model="-"))


def test_a_model_may_be_a_profile_file(tmp_path):
    text = Path(Catalog().path("models", "gpt-1t")).read_text().replace('name = "gpt-1t"', 'name = "mine"')
    (tmp_path / "mine.toml").write_text(text)
    assert answer(ask(model=str(tmp_path / "mine.toml"))).model.hidden == 25600


# --- Saving ---


def test_a_saved_scenario_resolves_to_the_same(tmp_path):
    resolved = answer(ask(hardware="dgx-h100,gb200-nvl72", deadline="90d", sets=["site.usd_per_kwh=0.05"]))
    (tmp_path / "job.toml").write_text(dump(resolved.scenario))
    loaded = read_scenario(tmp_path / "job.toml")
    assert loaded == resolved.scenario
    assert answer(loaded) == resolved
    assert dump(answer(loaded).scenario) == dump(resolved.scenario)


def test_a_saved_scenario_keeps_its_defaults_when_they_change(tmp_path):
    saved = answer(ask()).scenario
    (tmp_path / "defaults.toml").write_text(
        (Catalog().directories[-1] / "defaults.toml").read_text().replace("seq_len = 8192", "seq_len = 1024")
    )
    changed = Catalog([tmp_path])
    assert resolve(ask(), changed, lambda _: 1e9).job.seq_len == 1024
    assert resolve(saved, changed, lambda _: 1e9).job.seq_len == 8192


def test_a_default_that_rests_on_what_is_overridden_is_taken_anew():
    saved = answer(ask()).scenario
    assert answer(override(saved, {"model": "gpt-1t"})).job.tokens == 20 * 128e6
    assert answer(override(saved, {"seq_len": 4096})).job.global_batch == round(16e6 / 4096)
    assert answer(override(saved, {"hardware": "dgx-a100"})).hardware[0].fabric.name == "hdr-fat-tree"
    assert answer(override(saved, {"sets": ["system.fabric=roce-400g"]})).hardware[0].fabric.name == "roce-400g"
    assert answer(override(saved, {"model": "llama-3.1-70b"})) == answer(saved)


def test_inputs_hold_what_was_given():
    scenario = ask(tokens="1T", tp=8, sets=["site.usd_per_kwh=0.05"])
    assert inputs(scenario) == {
        "model": "llama-3.1-70b",
        "hardware": ["dgx-h100"],
        "tokens": 10**12,
        "layout": {"tp": 8},
        "set": {"site.usd_per_kwh": "0.05"},
    }
    json.dumps(inputs(answer(scenario).scenario))


# --- Whatever is given ---

names = st.text(st.characters(categories=("L", "N", "P", "S")), min_size=1, max_size=12)
tables = st.recursive(
    st.none().map(lambda _: "x") | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.dates(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
keys = st.sampled_from(
    [entry.name for entry in dataclasses.fields(Scenario)] + ["deadline", "budget", "power_mw", "layout", "set"]
) | st.text(max_size=6)


@given(st.text(max_size=150))
@settings(deadline=None)
def test_any_text_is_a_scenario_or_an_error(text):
    holds_or_says(lambda: parse_scenario(text, "job.toml"))


@given(st.dictionaries(keys, tables, max_size=4), st.dictionaries(st.sampled_from(LAYOUT), tables, max_size=2))
@settings(deadline=None, max_examples=300)
def test_any_table_is_a_scenario_or_an_error(content, layout):
    text = tomli_w.dumps(content | {"layout": layout} if layout else content)
    holds_or_says(lambda: parse_scenario(text, "job.toml"))


@given(st.dictionaries(keys, tables, max_size=4))
@settings(deadline=None, max_examples=300)
def test_any_options_are_a_scenario_or_an_error(given_values):
    holds_or_says(lambda: override(Scenario(), given_values))


def holds_or_says(make):
    """What is made survives being saved, or the error has one line."""
    try:
        scenario = make()
    except ClusterplanError as problem:
        message = str(problem)
    else:
        message = ""
        assert parse_scenario(dump(scenario)) == scenario
    assert message == "" or message.isprintable()


count = st.integers(1, 2**40)
positive = st.floats(1, 1e9)
scenarios = st.builds(
    Scenario,
    model=names,
    model_text=st.text(max_size=20),
    hardware=st.lists(names.filter(lambda name: "," not in name), max_size=3, unique=True).map(tuple),
    tokens=st.none() | count,
    deadline_s=st.none() | positive,
    budget_usd=st.none() | positive,
    power_w=st.none() | positive,
    devices=st.none() | st.tuples(st.integers(1, 1000), st.integers(1000, 10**6)),
    objective=st.none() | st.sampled_from(["wall", "cost"]),
    confidence=st.none() | st.floats(1e-3, 0.999),
    precision=st.none() | st.sampled_from(["bf16", "fp8"]),
    global_batch=st.none() | count,
    batch_fixed=st.booleans(),
    site=st.none() | names,
    tp=st.none() | count,
    recompute=st.none() | st.sampled_from(["none", "full"]),
    sets=st.dictionaries(names.map(lambda name: f"site.{name}"), names, max_size=3),
    assumed=st.lists(
        st.builds(Assumed, key=st.just("tokens"), value=count, unit=st.just("tokens"), why=names)
        | st.builds(Assumed, key=names.map(lambda name: f"stack.{name}"), value=names, unit=st.just(""), why=names),
        max_size=3,
    ).map(tuple),
)


@given(scenarios)
@settings(deadline=None)
def test_a_saved_scenario_is_loaded_back_equal(scenario):
    text = dump(scenario)
    loaded = parse_scenario(text)
    assert loaded == scenario
    assert dump(loaded) == text


def test_a_layout_in_short_is_that_to_compute():
    short = Scenario(beside="tp8-pp16-dp64-mb1,recompute=full", vpp=4, sharding="zero3")
    found = spelled_out(short)
    assert (found.tp, found.pp, found.dp, found.micro_batch, found.recompute) == (8, 16, 64, 1, "full")
    assert (found.beside, found.vpp, found.sharding) == (None, None, None)  # it takes the place of any other
    assert spelled_out(short, given=["sharding"]).sharding == "zero3"
    assert spelled_out(Scenario(tp=2)) == Scenario(tp=2)
    with pytest.raises(ClusterplanError, match="'tp8-dp2' has tp, which --tp gives, too") as problem:
        spelled_out(Scenario(beside="tp8-dp2", tp=4), given=["tp"])
    assert problem.value.where == "--layout"


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("accelerator.bf16_tflops", "1978.9", "h100-sxm-80gb: bf16_tflops is more than 700 W give"),
        ("system.rated_w", "5000", "dgx-h100: rated_w does not fit"),
        ("system.scaleout_gbit_per_s", "800", "is more than 8 ports of ndr-fat-tree carry"),
        ("fabric.port_gbit_per_s", "3200", "ndr-fat-tree: port_gbit_per_s is 3,200 Gbit/s; bits for bytes?"),
        ("site.usd_per_kwh", "89", "us-virginia: usd_per_kwh is unlikely for a large customer; usd_per_mwh = 89"),
    ],
)
def test_a_plan_warns_of_figures_that_are_likely_slips(key, value, text):
    def warned(**more):
        base = {"model": "llama-3.1-8b", "hardware": "dgx-h100", "site": "us-virginia"}
        return resolve(override(Scenario(), base | more), Catalog(), lambda _: 8e9).warnings

    assert any(text in one for one in warned(sets={key: value}))
    assert not any(text in one for one in warned())
    assert not any("ports of" in one for one in warned(fabric="roce-400g", sets={key: value}))  # not its own network


def test_software_that_is_free_of_stalls_names_devices_that_there_are():
    def stall_s(device):
        asked = override(Scenario(), {"model": "gpt-oss-120b", "hardware": "dgx-h100"})
        asked = override(asked, {"sets": {"stack.free_of_stalls": device}})
        return resolve(asked, Catalog(), lambda _: 8e9).hardware[0].stack.moe_stall_s_per_layer

    assert stall_s("b200-sxm-180gb") > stall_s("h100-sxm-80gb") == 0
    with pytest.raises(ClusterplanError, match="no accelerator profile named 'h100-sxm'") as problem:
        stall_s("h100-sxm")
    assert problem.value.where == "megatron-core: free_of_stalls"
    assert "h100-sxm-80gb" in problem.value.nearest


def test_a_utilisation_of_nothing_is_refused():
    asked = override(Scenario(), {"model": "llama-3.1-8b", "hardware": "dgx-h100"})
    with pytest.raises(ClusterplanError, match="must be more than 0 and at most 1, not 0"):
        resolve(override(asked, {"sets": {"prices.utilisation_fraction": "0"}}), Catalog(), lambda _: 8e9)


def test_a_budget_beside_another_currency_says_which_money_it_is():
    def told(**more):
        asked = override(Scenario(), {"model": "llama-3.1-8b", "hardware": "dgx-h100", **more})
        return [text for text in resolve(asked, Catalog(), lambda _: 8e9).warnings if "US dollars" in text]

    (text,) = told(budget="60k", currency="EUR", usd_rate=0.5)
    assert text.endswith("$60,000, which are EUR 30,000")
    assert told(budget="60k") == told(currency="EUR", usd_rate=0.5) == []
