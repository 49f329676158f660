import math
import os
import re
from dataclasses import fields, is_dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusterplan.errors import ClusterplanError, ProfileError
from clusterplan.hardware import Accelerator, Fabric
from clusterplan.reading import FOLDERS, GIVEN, change, check, dump_model, json_schema, parse_toml, read
from clusterplan.site import Cooling, Prices
from clusterplan.trace import Figure
from clusterplan.workload import Layer, Model, StateSpace

ACCELERATOR = """
name = "toy"
vendor = "nobody"
device = "one board"

[datasheet]
source = "sheet, column 2"
memory_gib = 80
memory_gb_per_s = 3350
tdp_w = 700
bf16_tflops = 1000
compute_units = 132

[measured]
source = "a meter"
idle_w = 70.5

[[fitted]]
source = "fit of 2026"
gemm_efficiency = { bf16 = 0.8 }
in_training_efficiency_pct = 95
attention_efficiency = { flash2 = 0.5 }
attention_backward_ratio = 0.7

[[fitted]]
source = "fit of 2025"
gemm_efficiency = { fp8 = 0.7 }
memory_efficiency = 0.85
k_ramp = 170
wave_hardness = 0.5
tile_m = 128
tile_n = 256

[assumed]
source = "a guess, 0.05-0.2"
failures_per_device_year = 0.1
clock_exponent = 2.5
embodied_kg_co2e = 150
"""

FABRIC = """
name = "toy"
technology = "wires"
[datasheet]
source = "sheet"
port_gbit_per_s = 400
efficiency = 0.9
decay_per_doubling = 0.01
switch_w_per_port = 20
optic_w = 12
[[tiers]]
kind = "measured"
source = "a test"
name = "leaf"
span_devices = 256
oversubscription = 1
latency_us = 4
[[tiers]]
kind = "assumed"
source = "a guess"
name = "spine"
span_devices = 65536
oversubscription = 2
latency_us = 9
"""

MODEL = """
name = "toy"
source = "a paper"
layers = 4
hidden = 64
vocab = 1000
ffn = 256
gated_mlp = true
tied_embeddings = false
[attention]
heads = 8
kv_heads = 2
head_dim = 8
"""


@pytest.fixture
def profile(tmp_path):
    """Writes a profile named toy and returns its path."""

    def write(text: str | bytes, folder: str = "accelerators") -> Path:
        path = tmp_path / folder / "toy.toml"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


def problems(path: Path, text: str) -> list[str]:
    """What is wrong with the profile, without its path; each in one line."""
    found = check(path)
    assert all(line.startswith(f"{path}:") and line.isprintable() for line in found)
    return [re.sub("^(:[0-9]+)?: ", "", line.removeprefix(str(path))) for line in found]


# --- What is right ---


def test_units_in_keys_become_si(profile):
    device = read(Accelerator, profile(ACCELERATOR))
    assert device.memory_bytes == 80 * 2**30
    assert device.memory_bytes_per_s == 3.35e12
    assert device.bf16_flop_per_s == 1e15
    assert device.in_training_efficiency == 0.95
    assert device.failures_per_device_s == 0.1 / (8766 * 3600)


def test_figures_know_their_line(profile):
    device = read(Accelerator, profile(ACCELERATOR))
    origin = device.memory_bytes.origin
    assert (origin.profile, origin.key) == ("accelerators/toy", "memory_gib")
    assert (origin.kind, origin.source) == ("datasheet", "sheet, column 2")
    assert device.idle_w.origin.kind == "measured"
    assert device.embodied_kg_co2e.origin.kind == "assumed"


def test_parts_of_a_mapping_may_come_from_two_tables(profile):
    device = read(Accelerator, profile(ACCELERATOR))
    assert device.gemm_efficiency == {"bf16": 0.8, "fp8": 0.7}
    assert device.gemm_efficiency["bf16"].origin.source == "fit of 2026"
    assert device.gemm_efficiency["fp8"].origin.source == "fit of 2025"
    assert device.gemm_efficiency["fp8"].origin.key == "gemm_efficiency.fp8"


def test_counts_stay_whole_and_open_fields_stay_open(profile):
    device = read(Accelerator, profile(ACCELERATOR))
    assert type(device.compute_units) is int
    assert device.fp8_flop_per_s is None
    assert device.best_published_mfu == {}


def test_a_whole_number_may_stand_for_a_figure(profile):
    tdp_w = read(Accelerator, profile(ACCELERATOR)).tdp_w
    assert isinstance(tdp_w, Figure)
    assert tdp_w == 700


def test_nested_tables_have_a_kind_each(profile):
    fabric = read(Fabric, profile(FABRIC, "fabrics"))
    assert [tier.latency_s for tier in fabric.tiers] == [4e-6, 9e-6]
    assert fabric.tiers[0].latency_s.origin.kind == "measured"
    assert fabric.tiers[1].latency_s.origin.key == "tiers.spine.latency_us"
    assert fabric.tiers[1].topology == "switch"


def test_a_model_has_one_source_and_no_figures(profile):
    model = read(Model, profile(MODEL, "models"))
    assert model.attention.kv_heads == 2
    assert model.moe is None
    assert model.source == "a paper"


def test_a_source_of_several_lines_is_one_line(profile):
    text = ACCELERATOR.replace('"a meter"', '"""a\n  meter"""')
    assert read(Accelerator, profile(text)).idle_w.origin.source == "a meter"


def test_a_byte_order_mark_is_no_content(profile):
    assert read(Accelerator, profile(b"\xef\xbb\xbf" + ACCELERATOR.encode())).tdp_w == 700


@pytest.mark.parametrize("record", FOLDERS.values(), ids=list(FOLDERS))
def test_every_record_has_a_json_schema_without_other_keys(record):
    schema = json_schema(record)
    assert schema["additionalProperties"] is False
    assert set(schema["properties"]) == {entry.name for entry in fields(record)}


# --- What is wrong ---

WRONG = [
    ("memory_gib = 80", "memry_gib = 80", "[datasheet] memry_gib: unknown key; did you mean: memory_gib"),
    ("idle_w = 70.5", "idel_kw = 0.07", "[measured] idel_kw: unknown key; did you mean: idle_kw"),
    ("tdp_w = 700", "tdp_w = '700'", "[datasheet] tdp_w: must be a number, not '700'"),
    ("tdp_w = 700", "tdp_w = true", "[datasheet] tdp_w: must be a number, not true"),
    ("tdp_w = 700", "tdp_w = 2026-01-01", "[datasheet] tdp_w: must be a number, not 2026-01-01"),
    ("tdp_w = 700", "tdp_w = nan", "[datasheet] tdp_w: must be finite, not nan"),
    ("tdp_w = 700", "tdp_w = -inf", "[datasheet] tdp_w: must be finite, not -inf"),
    ("tdp_w = 700", "tdp_w = -700", "[datasheet] tdp_w: must be more than 0, not -700"),
    ("tdp_w = 700", "tdp_w = 0", "[datasheet] tdp_w: must be more than 0, not 0"),
    ("tdp_w = 700", "tdp_w = 1e300", "[datasheet] tdp_w: must be at most 1e+30, not 1e+300"),
    ("tdp_w = 700", "tdp_w = [700]", "[datasheet] tdp_w: must be a number, not a list"),
    ("tdp_w = 700", "tdp_w = { a = 1 }", "[datasheet] tdp_w: must be a number, not a table"),
    ("tdp_w = 700", "", "missing: tdp_w"),
    ("tdp_w = 700", "tdp_w = 60", "[measured] idle_w: must be at most tdp_w = 60 W, not 70.5 W"),
    ("tdp_w = 700", "tdp_w = 700\ntdp_kw = 0.7", "[datasheet] tdp_kw: is given twice, here and as [datasheet] tdp_w"),
    ("idle_w = 70.5", "idle_w = 70.5\ntdp_w = 1", "[measured] tdp_w: is given twice, here and as [datasheet] tdp_w"),
    ("compute_units = 132", "compute_units = 132.5", "[datasheet] compute_units: must be a whole number, not 132.5"),
    ("compute_units = 132", "compute_units = 0", "[datasheet] compute_units: must be at least 1, not 0"),
    ("compute_units = 132", "compute_units = 10_000_000_000", "must be at most 1e+09, not 10000000000"),
    ("bf16 = 0.8 ", "bf16 = 80 ", "[fitted 1] gemm_efficiency.bf16: must be more than 0 and at most 1, not 80"),
    ("{ fp8 = 0.7 }", "0.7", "[fitted 2] gemm_efficiency: must be a table such as { name = 1.5 }, not 0.7"),
    ("_pct = 95", "_pct = 950", "in_training_efficiency_pct: must be more than 0 and at most 100, not 950"),
    ('vendor = "nobody"', "vendor = 3", "vendor: must be a text, not 3"),
    ('vendor = "nobody"', "vendor = 'x'\nidle_w = 3", "idle_w: is a number without a source; put it into [datasheet]"),
    ('name = "toy"', 'name = "tax"', "name: must be that of the file, 'toy', not 'tax'"),
    ('source = "a meter"', "", "[measured]: has no source"),
    ('source = "a meter"', "source = 3", "[measured] source: must be a text, not 3"),
    ("[measured]", "[mesured]", "mesured: unknown key; did you mean: measured"),
    ('source = "a meter"', 'source = "a meter"\nidle_per_hop_us = 1', "the unit of idle_per_hop_us is not known"),
]


@pytest.mark.parametrize(("line", "wrong", "message"), WRONG)
def test_each_mistake_is_named_with_its_place(profile, line, wrong, message):
    assert line in ACCELERATOR
    path = profile(ACCELERATOR.replace(line, wrong, 1))
    assert any(message in problem for problem in problems(path, wrong)), problems(path, wrong)
    with pytest.raises(ProfileError) as caught:
        read(Accelerator, path)
    assert str(caught.value).isprintable()


def test_all_mistakes_of_a_file_are_said_at_once(profile):
    text = ACCELERATOR.replace("tdp_w = 700", "tdp_w = -1").replace("idle_w = 70.5", "idle_watt = 1")
    path = profile(text.replace("clock_exponent", "clok_exponent"))
    assert len(problems(path, text)) == 4  # one more for what is missing
    with pytest.raises(ProfileError) as caught:
        read(Accelerator, path)
    assert all(word in str(caught.value) for word in ("tdp_w", "idle_watt", "clok_exponent", "missing"))


WRONG_TIERS = [
    ('kind = "measured"', "", "[tiers 1] kind: is missing; it must be datasheet, measured, fitted or assumed"),
    ('kind = "measured"', 'kind = "heard"', "[tiers 1] kind: is 'heard'"),
    ('source = "a guess"', "", "[tiers 2]: has no source"),
    ("latency_us = 9", "latencyy_us = 9", "[tiers 2] latencyy_us: unknown key; did you mean: latency_us"),
    ("latency_us = 9", "", "[tiers 2] missing: latency_s"),
    (
        "latency_us = 9",
        'latency_us = 9\ntopology = "ring"',
        "topology: must be 'switch', 'mesh' or 'torus', not 'ring'",
    ),
    ("span_devices = 65536", "span_devices = 256", "tiers"),
    ("oversubscription = 2", "oversubscription = 0.5", "[tiers 2] oversubscription: must be at least 1, not 0.5"),
    ("[[tiers]]", "[tiers]", "is not TOML"),
    ("optic_w = 12", "optic_w = 12\ntiers = 3", "[datasheet] tiers: is a table of its own: write [[tiers]]"),
]


@pytest.mark.parametrize(("line", "wrong", "message"), WRONG_TIERS)
def test_mistakes_in_nested_tables_are_named(profile, line, wrong, message):
    path = profile(FABRIC.replace(line, wrong, 1), "fabrics")
    assert any(message in problem for problem in problems(path, wrong)), problems(path, wrong)


def test_a_fabric_needs_a_level(profile):
    head = FABRIC.split("[[tiers]]")[0]
    assert problems(profile(head, "fabrics"), "") == ["missing: tiers"]
    assert "must have at least one level" in problems(profile("tiers = []\n" + head, "fabrics"), "")[0]


@pytest.mark.parametrize(
    ("line", "wrong", "message"),
    [
        ("kv_heads = 2", "kv_heads = 3", "[attention] kv_heads: must divide heads = 8, not be 3"),
        ("kv_heads = 2", "", "[attention] missing: kv_heads"),
        ("ffn = 256", "ffn = 0", "ffn: must be more than 0: 4 layers have a dense feed-forward part"),
        ("layers = 4", "layers = 1_000_000", "layers: must be at most 10000, not 1000000"),
        ("hidden = 64", "hidden = 64.5", "hidden: must be a whole number, not 64.5"),
        ("hidden = 64", "hidden = 0xffffffffffffffffffffffffffffffffff", "has a number larger than 1e+30"),
        ("[attention]", "attention = 3\n[attentions]", "attention: must be a table, not 3"),
        ("gated_mlp = true", "gated_mlp = 1", "gated_mlp: must be true or false, not 1"),
    ],
)
def test_mistakes_in_models_are_named(profile, line, wrong, message):
    path = profile(MODEL.replace(line, wrong, 1), "models")
    assert any(message in problem for problem in problems(path, wrong)), problems(path, wrong)


def test_experts_are_compared_with_each_other(profile):
    moe = "\n[moe]\nexperts = 4\ntop_k = 5\nffn = 0\ndense_layers = 9\n"
    found = problems(profile(MODEL + moe, "models"), moe)
    assert found == ["[moe] ffn: must be at least 1, not 0"]
    found = problems(profile(MODEL + moe.replace("ffn = 0", "ffn = 32"), "models"), moe)
    assert found == [
        "[moe] top_k: must be at most experts = 4, not 5",
        "[moe] dense_layers: must be at most layers = 4, not 9",
    ]


KINDS = """
name = "toy"
source = "a paper"
layers = 5
hidden = 64
vocab = 1000
gated_mlp = true
tied_embeddings = false
pattern = "2 (mamba, full), mamba"
[kinds.mamba]
ffn = 256
[kinds.mamba.state_space]
inner = 128
state = 16
conv = 4
dt_rank = 8
[kinds.full.attention]
heads = 8
kv_heads = 2
head_dim = 8
rotary_dim = 0
[kinds.full.moe]
experts = 4
top_k = 2
ffn = 32
"""


def test_kinds_of_layers(profile):
    model = read(Model, profile(KINDS, "models"))
    assert model.layer_counts == {"mamba": 3, "full": 2}
    assert model.kinds["mamba"] == Layer(state_space=StateSpace(inner=128, state=16, conv=4, dt_rank=8), ffn=256)
    assert model.kinds["full"].attention.rotary_dim == 0
    assert model.attention is None


@pytest.mark.parametrize(
    ("line", "wrong", "message"),
    [
        ("top_k = 2", "top_k = 5", "[kinds.full.moe] top_k: must be at most experts = 4, not 5"),
        ("kv_heads = 2", "kv_heads = 3", "[kinds.full.attention] kv_heads: must divide heads = 8, not be 3"),
        ("kv_heads = 2", "kv_head = 2", "[kinds.full.attention] kv_head: unknown key; did you mean: kv_heads"),
        ("kv_heads = 2", "kv_heads = 2.5", "[kinds.full.attention] kv_heads: must be a whole number, not 2.5"),
        ("kv_heads = 2", "", "[kinds.full.attention] missing: kv_heads"),
        ("rotary_dim = 0", "rotary_dim = 9", "[kinds.full.attention] rotary_dim: must be at most head_dim = 8"),
        ("rotary_dim = 0", "is_chunked = true", "[kinds.full.attention] window: must be given"),
        ("rotary_dim = 0", "qk_norm_weights = 'all'", "qk_norm_weights: must be 'head', 'heads' or 'none', not 'all'"),
        ("dt_rank = 8", "", "[kinds.mamba.state_space] dt_rank: must be given (Mamba), or heads (Mamba-2)"),
        ("dt_rank = 8", "heads = 7", "[kinds.mamba.state_space] heads: must divide inner = 128, not be 7"),
        ("dt_rank = 8", "heads = 8\ngroups = 3", "[kinds.mamba.state_space] groups: must divide heads = 8, not be 3"),
        ("ffn = 256", "fnn = 256", "[kinds.mamba] fnn: unknown key; did you mean: ffn"),
        ("ffn = 256", "repeats = 0", "[kinds.mamba] repeats: must be at least 1, not 0"),
        ("[kinds.full.moe]", "[kinds.full.state_space]", "unknown key"),
        ("ffn = 32", "ffn = 32\ndense_layers = 1", "[kinds.full.moe] dense_layers: must not be given"),
        ("layers = 5", "layers = 6", "pattern: must have layers = 6 layers, not 5"),
        ("), mamba", ", mamba", "pattern: cannot be read"),
        ("), mamba", "), mamba2", "pattern: has mamba2, which kinds lacks"),
        ("2 (mamba, full), mamba", "5 mamba", "kinds: has full, which pattern lacks"),
        ("hidden = 64", "hidden = 64\nffn = 9", "ffn: must not be given beside kinds"),
        ("hidden = 64", "hidden = 64\nshared_norm = true", "shared_norm: must be false"),
        ("[kinds.mamba]", "[kinds.more]\n[kinds.mamba]", "[kinds.more]: must have attention"),
        ("[kinds.mamba]", "[kinds.mtp]\nffn = 1\n[kinds.mamba]", "[kinds.mtp]: is no name for a kind"),
        ("[kinds.mamba]", "[kinds.'a b']\nffn = 1\n[kinds.mamba]", "is no name for a kind"),
        ("[kinds.mamba]\nffn = 256", "[kinds]\nmamba = 3\n[kinds.other]", "[kinds.mamba]: must be a table, not 3"),
    ],
)
def test_mistakes_in_kinds_are_named(profile, line, wrong, message):
    text = KINDS.replace(line, wrong, 1)
    if "mamba = 3" in wrong:
        text = text.replace("[kinds.mamba.state_space]", "[kinds.other.state_space]")
    found = problems(profile(text, "models"), wrong)
    assert any(message in problem for problem in found), found


def test_two_mixers_in_a_layer_are_refused(profile):
    both = KINDS.replace(
        "[kinds.full.moe]", "[kinds.mamba.attention]\nheads = 1\nkv_heads = 1\nhead_dim = 8\n[kinds.full.moe]"
    )
    assert "[kinds.mamba]: must have at most one of attention, state_space or linear_attention" in problems(
        profile(both, "models"), both
    )


def test_a_model_has_attention_or_kinds(profile):
    without = MODEL[: MODEL.index("[attention]")]
    assert problems(profile(without, "models"), without) == [
        "attention: is missing; give it, or kinds of layers and their pattern"
    ]
    with_pattern = "pattern = '4 dense'\n" + MODEL
    assert "pattern: must not be given without kinds" in problems(profile(with_pattern, "models"), with_pattern)


def test_figures_of_kinds_can_be_changed(profile):
    model = read(Model, profile(KINDS, "models"))
    assert change(model, "kinds.full.attention.window", "128").kinds["full"].attention.window == 128
    assert change(model, "kinds.mamba.ffn", "512").kinds["mamba"].ffn == 512
    with pytest.raises(ProfileError, match="no part of kinds is named 'fall'; did you mean: full"):
        change(model, "kinds.fall.ffn", "1")
    with pytest.raises(ProfileError, match="top_k"):
        change(model, "kinds.full.moe.top_k", "9")


@pytest.mark.parametrize("text", [MODEL, KINDS], ids=["once", "kinds"])
def test_a_model_that_is_written_reads_back_equal(profile, text):
    model = read(Model, profile(text, "models"))
    assert read(Model, profile(dump_model(model), "models")) == model


# --- Files that are none ---


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b" \n\n", "is empty"),
        (b"\xff\xfe\x00", "is not UTF-8 text (byte 1)"),
        (ACCELERATOR[:200].encode() + b'\nx = "', "is not TOML"),
        (b"x = " + b"[" * 5000, "is nested too deeply"),
        (b"x = " + b"9" * 5000, "is not TOML"),
        (b"\0\0\0", "is not TOML"),
        (b"#" * (2**20 + 1), "has 1,048,577 bytes; at most 1,048,576 are read"),
    ],
    ids=["empty", "blank", "utf-16", "truncated", "deep", "digits", "null", "large"],
)
def test_a_file_that_is_no_profile_is_an_error_of_one_line(profile, content, message):
    path = profile(content)
    with pytest.raises(ProfileError) as caught:
        read(Accelerator, path)
    assert message in str(caught.value)
    assert str(caught.value).isprintable()
    assert check(path) == [str(caught.value)]


def test_a_directory_and_a_missing_file(tmp_path):
    assert check(tmp_path) == [f"{tmp_path}: is a directory, not a file"]
    assert check(tmp_path / "none.toml") == [f"{tmp_path / 'none.toml'}: no such file"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe.toml")
    assert check(tmp_path / "pipe.toml") == [f"{tmp_path / 'pipe.toml'}: is not a regular file"]


def test_check_tells_what_a_file_describes_by_its_keys(tmp_path):
    (tmp_path / "toy.toml").write_text(ACCELERATOR.replace("idle_w = 70.5", "idle_w = 7000"))
    assert check(tmp_path / "toy.toml") == [
        f"{tmp_path / 'toy.toml'}:16: [measured] idle_w: must be at most tdp_w = 700 W, not 7000 W"
    ]
    (tmp_path / "toy.toml").write_text("colour = 'red'")
    assert "has no key of any profile" in check(tmp_path / "toy.toml")[0]


@given(st.text(max_size=200))
@settings(deadline=None)
def test_any_text_is_toml_or_an_error(text):
    try:
        message = str(type(parse_toml(text, "x.toml")))
    except ProfileError as problem:
        message = str(problem)
    assert message == "<class 'dict'>" or (message.startswith("x.toml: ") and message.isprintable())


LINES = ACCELERATOR.splitlines()
VALUES = st.sampled_from(
    [
        "nan",
        "-1",
        "0",
        "1e400",
        "true",
        "''",
        "[]",
        "{}",
        "[{}]",
        "{ a = 1 }",
        "[1, 'a']",
        "0.5",
        "1979-05-27",
        "99",
        '"x"',
    ]
)


@given(st.lists(st.tuples(st.integers(0, len(LINES) - 1), VALUES), max_size=6), st.sets(st.integers(0, len(LINES) - 1)))
@settings(deadline=None, max_examples=200)
def test_any_mistake_in_a_profile_is_an_error_that_can_be_printed(tmp_path_factory, changed, dropped):
    lines = list(LINES)
    for number, value in changed:
        if " = " in lines[number]:
            lines[number] = f"{lines[number].split(' = ')[0]} = {value}"
    path = tmp_path_factory.getbasetemp() / "accelerators" / "toy.toml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(
        "\n".join(line for number, line in enumerate(lines) if number not in dropped) + "\nx='y'\n"[: len(dropped)]
    )
    found = check(path)
    if not found:
        assert all(math.isfinite(value) for value in _numbers(read(Accelerator, path)))
    assert all(line.isprintable() for line in found)


def _numbers(record):
    for entry in fields(record):
        value = getattr(record, entry.name)
        if is_dataclass(value):
            yield from _numbers(value)
        elif isinstance(value, dict):
            yield from value.values()
        elif isinstance(value, int | float):
            yield value


# --- Changing a record ---


def test_a_changed_figure_is_assumed_and_the_rest_keeps_its_source(profile):
    device = read(Accelerator, profile(ACCELERATOR))
    changed = change(device, "memory_gib", "96")
    assert changed.memory_bytes == 96 * 2**30
    assert (changed.memory_bytes.origin.kind, changed.memory_bytes.origin.source) == ("assumed", GIVEN)
    assert changed.tdp_w.origin == device.tdp_w.origin
    assert device.memory_bytes == 80 * 2**30


@pytest.mark.parametrize("text", ["500", "500.0", "500W", "0.5 kW"])
def test_a_figure_may_be_given_as_a_number_or_a_quantity(profile, text):
    assert change(read(Accelerator, profile(ACCELERATOR)), "tdp_w", text).tdp_w == 500


def test_parts_of_mappings_and_nested_records_can_be_changed(profile):
    device = read(Accelerator, profile(ACCELERATOR))
    changed = change(device, "gemm_efficiency.fp4", "0.6")
    assert changed.gemm_efficiency == {"bf16": 0.8, "fp8": 0.7, "fp4": 0.6}
    assert changed.gemm_efficiency["bf16"].origin.source == "fit of 2026"
    fabric = read(Fabric, profile(FABRIC, "fabrics"))
    changed = change(fabric, "tiers.spine.oversubscription", "7")
    assert [tier.oversubscription for tier in changed.tiers] == [1, 7]
    assert changed.tiers[1].oversubscription.origin.key == "tiers.spine.oversubscription"
    assert changed.tiers[1].latency_s.origin == fabric.tiers[1].latency_s.origin
    assert change(read(Model, profile(MODEL, "models")), "attention.heads", "16").attention.heads == 16


@pytest.mark.parametrize(
    ("key", "text", "message"),
    [
        ("tdp_q", "1", "tdp_q: unknown key; did you mean: tdp_w"),
        ("tdp_w", "-1", "tdp_w: must be more than 0, not -1"),
        ("tdp_w", "50", "idle_w: must be at most tdp_w = 50 W"),
        ("tdp_w", "much", "cannot read 'much'"),
        ("tdp_w", "1\nidle_w = 2", "cannot read"),
        ("compute_units", "many", "compute_units: must be a whole number, not 'many'"),
        ("compute_units", "1.5", "compute_units: must be a whole number, not 1.5"),
        ("gemm_efficiency", "0.5", "set gemm_efficiency.NAME"),
        ("tdp_w.bf16", "0.5", "set tdp_w"),
        ("", "1", "unknown key"),
        ("tdp_w", "9" * 5000, "cannot read"),
    ],
)
def test_a_wrong_change_is_an_error_of_one_line(profile, key, text, message):
    with pytest.raises(ProfileError if "cannot read" not in message else Exception) as caught:
        change(read(Accelerator, profile(ACCELERATOR)), key, text, where="--set")
    assert message in str(caught.value)
    assert str(caught.value).startswith("--set: ")
    assert str(caught.value).isprintable()


def test_a_changed_part_must_agree_with_the_whole(profile):
    with pytest.raises(ProfileError, match="tiers: must go from inside out"):
        change(read(Fabric, profile(FABRIC, "fabrics")), "tiers.leaf.span_devices", "100_000")


@given(st.text(max_size=12) | st.sampled_from(sorted(ACCELERATOR.split())), st.text(max_size=12) | VALUES)
@settings(deadline=None)
def test_any_change_is_a_record_or_an_error(tmp_path_factory, key, text):
    path = tmp_path_factory.getbasetemp() / "accelerators" / "toy.toml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(ACCELERATOR)
    try:
        changed = change(read(Accelerator, path), key, text, where="--set")
    except ClusterplanError as problem:
        message = str(problem)
    else:
        message = "--set: "
        assert all(math.isfinite(value) for value in _numbers(changed))
    assert message.startswith("--set: ")
    assert message.isprintable()


def test_parts_that_are_not_there_cannot_be_changed(profile):
    fabric = read(Fabric, profile(FABRIC, "fabrics"))
    with pytest.raises(ProfileError, match="no part of tiers is named 'spin'; did you mean: spine"):
        change(fabric, "tiers.spin.latency_us", "1")
    with pytest.raises(ProfileError, match="models/toy has no moe"):
        change(read(Model, profile(MODEL, "models")), "moe.top_k", "2")


def test_prices_and_cooling_have_their_own_forms():
    names = {entry.name for record in (Prices, Cooling) for entry in fields(record)}
    assert {"rent_usd_per_device_h", "air", "liquid"} <= names
