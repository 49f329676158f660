import ast
import math
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusterplan import units
from clusterplan.errors import QuantityError
from clusterplan.units import SUFFIXES, parse, parse_range, say, to_si, unit_of

COUNTS = get_args(units.Count)
DIMENSIONS = (*COUNTS, *get_args(units.Measure))
ALPHABET = "0123456789.,_eE+-$%/ :kKMGTBbidhmsywWhJnuµ٣€\n"
FORMATS = {
    "usd": units.format_usd,
    "time": units.format_time,
    "power": units.format_power,
    "energy": units.format_energy,
    "memory": units.format_bytes,
    "bandwidth": units.format_bandwidth,
    "fraction": units.format_fraction,
}
WITHIN = {
    "usd": (0.01, 1e15),
    "time": (1e-9, 3e10),
    "power": (1e-3, 1e12),
    "energy": (1e-3, 1e20),
    "memory": (1, 1e20),
    "bandwidth": (1, 1e17),
    "fraction": (1e-8, 1),
}


# --- keys ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "value", "field", "expected"),
    [
        ("hbm_gib", 80, "hbm_bytes", 80 * 2**30),
        ("hbm_gb_per_s", 3350, "hbm_bytes_per_s", 3.35e12),
        ("scaleout_gbit_per_s", 400, "scaleout_bytes_per_s", 50e9),
        ("llc_mb", 50, "llc_bytes", 50e6),
        ("bf16_tflops", 989.4, "bf16_flop_per_s", 989.4e12),
        ("rack_kw", 132, "rack_w", 132_000),
        ("site_mw", 50, "site_w", 50e6),
        ("latency_us", 5, "latency_s", 5e-6),
        ("life_years", 4, "life_s", 4 * 8766 * 3600),
        ("repair_days", 2, "repair_s", 172_800),
        ("term_months", 12, "term_s", 8766 * 3600),
        ("boost_mhz", 1980, "boost_hz", 1.98e9),
        ("overlap_pct", 95, "overlap_fraction", 0.95),
        ("psu_efficiency_pct", 96, "psu_efficiency", 0.96),
        ("used_mwh", 1, "used_j", 3.6e9),
        ("energy_usd_per_mwh", 80, "energy_usd_per_kwh", 0.08),
        ("carbon_usd_per_t_co2e", 50, "carbon_usd_per_kg_co2e", 0.05),
        ("facility_usd_per_mw", 12e6, "facility_usd_per_w", 12),
        ("grid_g_co2e_per_kwh", 380, "grid_kg_co2e_per_kwh", 0.38),
        ("embodied_t_co2e", 1.5, "embodied_kg_co2e", 1500),
        ("failures_per_device_year", 8766 * 3600, "failures_per_device_s", 1),
        ("failures_per_node_day", 86_400, "failures_per_node_s", 1),
        ("failures_per_1000_node_days", 86.4e6, "failures_per_node_s", 1),
        ("rated_kw_per_rack", 132, "rated_w_per_rack", 132_000),
        ("scaleout_gbit_per_s_per_device", 400, "scaleout_bytes_per_s_per_device", 50e9),
        ("interest_pct_per_year", 8, "interest_fraction_per_year", 0.08),
        ("w_per_gb_per_s", 3, "w_per_bytes_per_s", 3e-9),
        ("w_per_gb", 3, "w_per_byte", 3e-9),
        ("building_t_co2e_per_mw", 500, "building_kg_co2e_per_w", 0.5),
    ],
)
def test_keys_by_head(key, value, field, expected):
    assert to_si(key, value) == (field, pytest.approx(expected, rel=1e-15))


@pytest.mark.parametrize(
    "key",
    [
        *("layers", "top_k", "min", "max", "name", "seq_len", "experts_per_token", "rent_usd_per_device_h", "pue"),
        *("supply_c", "approach_k", "grid_water_l_per_kwh", "demand_usd_per_kw_month", "flop_per_token", "", "_"),
    ],
)
def test_keys_that_stay(key):
    assert to_si(key, 7) == (key, 7)


@pytest.mark.parametrize("key", ["latency_per_hop_us", "failures_per_rack_h", "usd_per_server_h"])
def test_a_unit_that_may_be_a_rate_is_refused(key):
    with pytest.raises(QuantityError, match=f"storage/x.toml: the unit of {key} is not known"):
        to_si(key, 1.0, where="storage/x.toml")


def test_only_numbers_are_scaled():
    assert to_si("span_gb", [1, 2.5]) == ("span_bytes", [1e9, 2.5e9])
    for wrong in ("80", True, None, {"a": 1}):
        assert to_si("span_gb", wrong) == ("span_bytes", wrong)
    with pytest.raises(QuantityError, match="span_gb is too large"):
        to_si("span_gb", 10**400)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_every_suffix_leads_to_si(suffix):
    unit = SUFFIXES[suffix]
    final = SUFFIXES[unit.si]
    assert (final.si, final.times, final.over, final.dimension) == (unit.si, 1, 1, unit.dimension)
    assert suffix == suffix.lower()
    field, value = to_si(f"thing_{suffix}", 1.0)
    assert field == f"thing_{unit.si}"
    assert value == unit.times / unit.over
    assert to_si(field, value) == (field, value)
    assert unit_of(f"thing_{suffix}") == unit.text
    if unit.times != unit.over:
        assert unit.text
        assert unit_of(field) != unit.text


@given(st.sampled_from(sorted(SUFFIXES)), st.lists(st.sampled_from(["peak", "rack", "s", "gb", "k"]), max_size=3))
def test_longest_suffix_wins(suffix, words):
    """Words before a suffix change it only where they make up a longer suffix with it."""
    key = "_".join(["x", *words, suffix])
    longer = [known for known in SUFFIXES if key.endswith(f"_{known}")]
    assert to_si(key, 1.0)[0].endswith(f"_{SUFFIXES[max(longer, key=len)].si}")


@given(st.text(alphabet="_abcghkmpers013/ .", max_size=20), st.floats(allow_nan=False))
def test_any_key_is_converted_or_refused(key, value):
    try:
        field, converted = to_si(key, value)
    except QuantityError:
        return
    assert isinstance(unit_of(field), str)
    if field == key:
        assert converted == value


@pytest.mark.parametrize(
    ("field", "text"),
    [
        *(("peak_bytes", "bytes"), ("total_s", "s"), ("mean_facility_w", "W"), ("total_usd", "USD"), ("mfu", "")),
        *(("fp8_flop_per_s", "FLOP/s"), ("bubble_fraction", ""), ("it_kwh", "kWh"), ("water_m3", "m3")),
        *(("usd_per_million_tokens", "USD/million tokens"), ("tokens_per_s", "tokens/s"), ("devices", "")),
        *(("operational_kg_co2e", "kg CO2e"), ("w_per_bytes_per_s", "W/(bytes/s)"), ("switch_w_per_port", "W/port")),
        *(("failures_per_device_s", "1/device-s"), ("support_fraction_per_year", "1/year"), ("top_k", "")),
    ],
)
def test_units_of_fields(field, text):
    assert unit_of(field) == text


# --- quantities ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "dimension", "expected"),
    [
        *((text, "tokens", 15 * 10**12) for text in ("15T", "15_000B", "15e12", "15 trillion", "15t", "15E12 tokens")),
        *((text, "tokens", 1000) for text in ("1,000", "1000", "1k", "1K", "1_000", "1e3", "+1000", " 1000 ", "1.0k")),
        ("15.6T", "tokens", 15_600_000_000_000),
        (".5T", "tokens", 500 * 10**9),
        ("405B", "parameters", 405 * 10**9),
        ("20G", "parameters", 20 * 10**9),
        ("9007199254740992", "tokens", 2**53),
        *((text, "devices", 16_384) for text in ("16384", "16,384", "16.384k", "16,384 GPUs", "16384 devices")),
        *((text, "usd", 80e6) for text in ("80M", "$80M", "USD 80M", "US$80M", "80 million", "80M USD", "80,000,000")),
        *((text, "usd_per_device_hour", 2.1) for text in ("$2.10/h", "2.10", "USD 2.1/GPU-hour", "$2.10 per GPU hour")),
        ("$1461/month", "usd_per_device_hour", 2),
        ("80 USD/MWh", "usd_per_kwh", 0.08),
        *((text, "time", 90 * 86_400) for text in ("90d", "90 days", "90 D", "2160h", "129600 min", "7776000s")),
        ("12 weeks", "time", 84 * 86_400),
        ("3 months", "time", 3 * 730.5 * 3600),
        ("1 year", "time", 8766 * 3600),
        *((text, "time", 5e-6) for text in ("5us", "5µs", "5μs", "0.005ms", "5000ns")),
        *((text, "power", 50e6) for text in ("50MW", "50000 kW", "50 mw", "0.05GW", "5e7 W", "50,000kW")),
        ("2 GWh", "energy", 7.2e12),
        ("80GiB", "memory", 80 * 2**30),
        ("80 GB", "memory", 80e9),
        ("640000 MiB", "memory", 625 * 2**30),
        ("80gb", "memory", 80e9),
        ("1024 bytes", "memory", 1024),
        *((text, "bandwidth", 50e9) for text in ("400Gbit/s", "400 gbit/s", "50GB/s", "50 GB / s", "0.4Tbit/s")),
        *((text, "fraction", 0.95) for text in ("95%", "95 %", "0.95", ".95", "95 per cent", "9.5e-1")),
    ],
)
def test_quantities_by_head(text, dimension, expected):
    value = parse(text, dimension)
    assert value == expected
    assert isinstance(value, int) == (dimension in COUNTS)


@pytest.mark.parametrize("dimension", DIMENSIONS)
@pytest.mark.parametrize(
    "text",
    [
        *("", "  ", "nan", "NaN", "inf", "-inf", "Infinity", "0", "0.0", "-5", "-1e3", "1e400", "1e-400", "--5"),
        *("1e99999999999999999999", "٣", "15٣", "1,5", "12,34", "0,500", "1,0000", "1_5", "1.234,5", "1 000", "1..2"),
        *(
            "x" * 101,
            "9" * 100,
            "9" * 101,
            "9" * 10_000,
            "0x10",
            "twelve",
            "$",
            "€5",
            "\x00",
            "\ud800",
            "5\n6",
            "1e",
            "⅓",
        ),
    ],
)
def test_broken_quantities_are_refused_in_one_line(text, dimension):
    with pytest.raises(QuantityError) as caught:
        parse(text, dimension, where="--option")
    message = str(caught.value)
    assert message.startswith("--option: cannot read '")
    assert "known forms: " in message
    assert message.isprintable()
    assert len(message) < 500


@pytest.mark.parametrize(
    ("text", "dimension", "nearest"),
    [
        ("90", "time", ("90d", "90h")),
        ("3m", "time", ("3min", "3 months")),
        ("90dyas", "time", ("90 days",)),
        ("50", "power", ("50MW", "50kW")),
        ("50mW", "power", ("50MW",)),
        ("80", "memory", ("80GiB", "80GB")),
        ("80G", "memory", ("80GiB", "80GB")),
        ("80Gb", "memory", ("80GB", "80GiB")),
        ("400", "bandwidth", ("400GB/s", "400Gbit/s")),
        ("95", "fraction", ("95%",)),
        ("150", "fraction", ()),
        *((f"400{unit}", "bandwidth", ("400Gbit/s", "400GB/s")) for unit in ("Gb/s", "gb/s", "Gbps", "gbps", "G")),
    ],
)
def test_a_refused_unit_names_the_nearest(text, dimension, nearest):
    with pytest.raises(QuantityError) as caught:
        parse(text, dimension)
    assert caught.value.nearest == nearest
    for suggestion in nearest:
        assert parse(suggestion, dimension) > 0


@pytest.mark.parametrize(
    ("text", "dimension", "reason"),
    [
        ("1.5", "devices", "not a whole number"),
        ("0.5", "tokens", "less than 1 token"),
        ("200M", "devices", "more than 100,000,000 devices"),
        ("101%", "fraction", "more than 1"),
        ("1e4 years", "time", "more than 1,000 years"),
        ("€80M", "usd", "US dollars"),
        ("80M EUR", "usd", "US dollars"),
        ("80MM", "usd", "the unit 'MM' is not known"),
        ("50MWh", "power", "the unit 'MWh' is not known"),
    ],
)
def test_reasons(text, dimension, reason):
    with pytest.raises(QuantityError, match=reason):
        parse(text, dimension)


@pytest.mark.parametrize("dimension", DIMENSIONS)
def test_forms_that_errors_name_are_read(dimension):
    forms = units._SPELLINGS[dimension].forms
    for form in forms.split(", "):
        assert parse(form.split(" (")[0], dimension) > 0


def attempt(read, *arguments):
    try:
        return read(*arguments), ""
    except QuantityError as error:
        return None, str(error)


@settings(max_examples=300)
@given(st.one_of(st.text(max_size=120), st.text(ALPHABET, max_size=12)), st.sampled_from(DIMENSIONS))
def test_any_text_is_read_or_refused(text, dimension):
    value, message = attempt(parse, text, dimension)
    assert message.isprintable()
    if not message:
        assert 0 < value < math.inf
        assert say(value, dimension)


@given(st.one_of(st.text(max_size=120), st.text("0123456789:kM,- ", max_size=14)))
def test_any_range_is_read_or_refused(text):
    ends, message = attempt(parse_range, text)
    assert message.isprintable()
    if not message:
        assert 1 <= ends[0] <= ends[1]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1024:16384", (1024, 16384)),
        ("1k:16k", (1000, 16000)),
        (" 1,024 : 16,384 ", (1024, 16384)),
        ("512", (512, 512)),
    ],
)
def test_ranges(text, expected):
    assert parse_range(text) == expected


@pytest.mark.parametrize("text", ["", ":", "1:", ":1", "1:2:3", "2:1", "0:5", "1:1.5", "1:inf", "1:" + "9" * 200])
def test_broken_ranges(text):
    with pytest.raises(QuantityError, match=r"^--devices: cannot read"):
        parse_range(text, where="--devices")


@pytest.mark.parametrize(
    ("text", "lacks", "nearest"), [("1000:", "largest", "1000:1M"), (" : 2,000", "smallest", "1:2,000")]
)
def test_an_open_range_names_what_it_lacks(text, lacks, nearest):
    with pytest.raises(QuantityError, match=f"its {lacks} number is missing") as caught:
        parse_range(text)
    assert caught.value.nearest == (nearest,)
    assert parse_range(nearest)


def test_a_range_the_wrong_way_round_names_the_right_one():
    with pytest.raises(QuantityError) as caught:
        parse_range("16k:1k")
    assert caught.value.nearest == ("1000:16000",)


@given(st.integers(1, 10**8), st.sampled_from(COUNTS))
def test_a_count_reads_the_same_in_every_writing(count, dimension):
    for text in (f"{count}", f"{count:,}", f"{count:_}", f"{count}e0", f"{count * 1000}e-3"):
        assert parse(text, dimension) == count


@given(st.floats(1e-3, 5e4), st.floats(1e-3, 5e4), st.sampled_from(["s", "h", "weeks"]))
def test_more_is_more(one, other, unit):
    low, high = sorted((one, other))
    assert parse(f"{low!r}{unit}", "time") <= parse(f"{high!r}{unit}", "time")


# --- said back ----------------------------------------------------------------------------------------------------


@given(st.sampled_from(sorted(WITHIN)), st.floats(0, 1))
def test_what_is_formatted_reads_back_to_three_digits(dimension, share):
    low, high = WITHIN[dimension]
    value = low * (high / low) ** share
    assert parse(FORMATS[dimension](value), dimension) == pytest.approx(value, rel=5.1e-3)


@given(st.sampled_from(sorted(WITHIN)), st.floats(0, 1), st.floats(0, 1))
def test_a_larger_quantity_never_looks_smaller(dimension, one, other):
    low, high = WITHIN[dimension]
    small, large = (low * (high / low) ** share for share in sorted((one, other)))
    assert parse(FORMATS[dimension](small), dimension) <= parse(FORMATS[dimension](large), dimension) * (1 + 1e-12)


@given(st.sampled_from(DIMENSIONS), st.integers(1, 9999), st.integers(-2, 7))
def test_what_is_said_is_the_quantity_in_full(dimension, digits, power):
    value = digits if dimension in COUNTS else digits * 10.0**power
    if dimension in WITHIN and not WITHIN[dimension][0] <= value <= WITHIN[dimension][1]:
        value = 0.125
        dimension = "fraction"
    text = say(value, dimension)
    short, _, full = text.partition(" (")
    if full and dimension not in COUNTS:
        assert float(full.rstrip(")").split()[0].replace(",", "")) == pytest.approx(value, rel=1e-14)
    elif dimension in WITHIN or dimension in COUNTS:
        assert parse(short, dimension) == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (say(15 * 10**12, "tokens"), "15T tokens (15,000,000,000,000)"),
        (say(16_384, "devices"), "16,384 devices"),
        (say(2048, "count"), "2,048"),
        (say(90 * 86_400, "time"), "90 days"),
        (say(36 * 3600, "time"), "36 h"),
        (say(3 * 730.5 * 3600, "time"), "91.3 days (7,889,400 s)"),
        (say(50e6, "power"), "50 MW"),
        (say(12_345_000, "power"), "12.3 MW (12,345,000 W)"),
        (say(80e6, "usd"), "$80 M"),
        (say(2.1, "usd_per_device_hour"), "$2.10/device-h"),
        (say(0.08, "usd_per_kwh"), "$0.08/kWh"),
        (say(80 * 2**30, "memory"), "80 GiB"),
        (say(50e9, "bandwidth"), "50 GB/s"),
        (say(0.95, "fraction"), "95 %"),
        (say(0.98765, "fraction"), "98.8 % (0.98765)"),
        (units.format_count(999_999), "999,999"),
        (units.format_count(999_999_999, "tokens"), "1B tokens"),
        (units.format_count(1_026_000_000_000), "1.03T"),
        (units.format_count(419.27), "419"),
        (units.format_bytes(71.2 * 2**30), "71.2 GiB"),
        (units.format_bytes(1023 * 2**20), "1,020 MiB"),
        (units.format_bytes(2**30), "1.00 GiB"),
        (units.format_time(8), "8.00 s"),
        (units.format_time(59.999), "1.00 min"),
        (units.format_time(3599), "1.00 h"),
        (units.format_time(1e-6), "1.00 us"),
        (units.format_time(1e-3), "1.00 ms"),
        (units.format_time(120 * 86_400), "120 days"),
        (units.format_time(0), "0 s"),
        (units.format_power(999_900), "1.00 MW"),
        (units.format_usd(51.3e6), "$51.3 M"),
        (units.format_usd(-2.5), "-$2.50"),
        (units.format_energy(21.6e12), "6.00 GWh"),
        (units.format_energy(3.6e9), "1.00 MWh"),
        (units.format_mass_co2e(11_390_000), "11.4 kt CO2e"),
        (units.format_mass_co2e(52_000), "52.0 t CO2e"),
        (units.format_water(12_345), "12,300 m³"),
        (units.format_bandwidth(3.35e12), "3.35 TB/s"),
        (units.format_fraction(0.4123), "41.2 %"),
        (units.format_power(math.nan), "nan W"),
        (units.format_power(math.inf), "inf GW"),
    ],
)
def test_said_by_head(said, expected):
    assert said == expected


# --- cost of the module -------------------------------------------------------------------------------------------


def test_heavy_modules_stay_out():
    source = Path(units.__file__).read_text(encoding="utf-8")
    imported = {
        name.split(".")[0]
        for node in ast.walk(ast.parse(source))
        for name in (
            [node.module] if isinstance(node, ast.ImportFrom) else [a.name for a in getattr(node, "names", [])]
        )
        if isinstance(node, ast.Import | ast.ImportFrom)
    }
    assert imported <= {"__future__", "clusterplan", *sys.stdlib_module_names}
    code = "import sys, clusterplan.units; sys.exit(bool({'numpy', 'pydantic', 'rich', 'difflib'} & set(sys.modules)))"
    environment = {"PYTHONPATH": str(Path(units.__file__).parents[1])}
    assert subprocess.run([sys.executable, "-c", code], env=environment, check=False).returncode == 0


# Water and carbon -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "cubic_metres"),
    [("50000m3", 50_000), ("50,000 m³", 50_000), ("50 ML", 50_000), ("2 GL", 2e6), ("20000 L", 20), ("3 kL", 3)],
)
def test_volumes_of_water(text, cubic_metres):
    assert parse(text, "water") == cubic_metres


@pytest.mark.parametrize(
    ("text", "kilograms"),
    [("20kt", 20e6), ("20,000 t", 20e6), ("20 kt CO2e", 20e6), ("900 kg", 900), ("1.5 Mt", 1.5e9), ("5tCO2eq", 5000)],
)
def test_masses_of_greenhouse_gas(text, kilograms):
    assert parse(text, "carbon") == kilograms


@pytest.mark.parametrize(
    ("text", "dimension"),
    [("5", "water"), ("5ml", "water"), ("5 gal", "water"), ("20", "carbon"), ("5mt", "carbon"), ("5 tons", "carbon")],
)
def test_what_may_be_misread_is_refused(text, dimension):
    with pytest.raises(QuantityError):
        parse(text, dimension)
