"""What must hold for every built-in profile."""

from dataclasses import fields, is_dataclass

import pytest

from clusterplan import shapes
from clusterplan.catalog import FOLDERS, Catalog, built_in_directory, check, measured_files
from clusterplan.hardware import Accelerator, Fabric, Stack, Storage, System
from clusterplan.measured import read_measured
from clusterplan.site import Cooling, Prices, Site
from clusterplan.trace import KINDS, Figure
from clusterplan.validate import Judge
from clusterplan.workload import Model

CATALOG = Catalog()
BUILT_IN = built_in_directory()
FILES = sorted(BUILT_IN.glob("*/*.toml"))


def every(record):
    return pytest.mark.parametrize("name", CATALOG.names(record))


def figures(record, parent=""):
    """Every float of a record with its name; those that a file left open have no origin."""
    for column in fields(record):
        value, name = getattr(record, column.name), f"{parent}{column.name}"
        parts = value if isinstance(value, tuple) else (value,)
        for part in parts:
            if is_dataclass(part):
                yield from figures(part, f"{name}.")
            elif isinstance(part, dict):
                for key, entry in part.items():
                    if is_dataclass(entry):
                        yield from figures(entry, f"{name}.{key}.")
                    else:
                        yield f"{name}.{key}", entry
            elif isinstance(part, float):
                yield name, part


@pytest.mark.parametrize(
    "path", [*FILES, BUILT_IN / "defaults.toml"], ids=lambda path: f"{path.parent.name}/{path.stem}"
)
def test_it_loads(path):
    assert check(path) == []


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_folder_has_profiles(folder):
    assert CATALOG.names(folder)


@pytest.mark.parametrize(
    ("record", "name"), [(FOLDERS[path.parent.name], path.stem) for path in FILES if path.parent.name in FOLDERS]
)
def test_every_figure_has_a_kind_and_a_source(record, name):
    found = list(figures(CATALOG.load(record, name)))
    assert found or record is Model
    for key, value in found:
        assert isinstance(value, Figure), key
        assert value.origin.kind in KINDS
        assert len(value.origin.source) >= 5, key


@every(System)
def test_what_a_system_names_exists(name):
    system = CATALOG.load(System, name)
    assert CATALOG.load(Accelerator, system.accelerator).name == system.accelerator
    assert CATALOG.load(Fabric, system.fabric).name == system.fabric
    assert CATALOG.load(Stack, system.stack).name == system.stack


def test_what_the_defaults_name_exists():
    defaults = CATALOG.defaults()
    assert CATALOG.load(Site, defaults.site).name == defaults.site
    assert CATALOG.load(Cooling, defaults.cooling).name == defaults.cooling
    assert CATALOG.load(Prices, defaults.prices).name == defaults.prices
    assert CATALOG.load(Storage, defaults.storage).name == defaults.storage
    for _, value in figures(defaults.operations):
        assert isinstance(value, Figure)


@every(Prices)
def test_prices_are_for_systems_that_exist(name):
    prices = CATALOG.load(Prices, name)
    assert set(prices.rent_usd_per_device_h) | set(prices.system_usd) <= set(CATALOG.names(System))
    assert prices.date[:4].isdigit()


NARROW_FORMATS_FIRST = {"rubin-288gb", "trainium3"}
"""Devices whose 8-bit units grew and whose 16-bit units did not: 4.4 and 3.75 times 16 bits, both dense."""


@every(Accelerator)
def test_peaks_are_dense(name):
    # Sheets print peaks with structured sparsity, twice the dense ones; half the width gives about twice the rate.
    device = CATALOG.load(Accelerator, name)
    sixteen = device.peak_flop_per_s("bf16") or device.peak_flop_per_s("fp16")
    assert sixteen is not None
    assert 9e13 <= sixteen <= 5.1e15  # from a NeuronCore of Trainium1 to the MI455X: 95 to 5,000 TFLOP/s
    for precision in ("fp8", "int8"):
        peak = device.peak_flop_per_s(precision)
        assert peak is None or 1 <= peak / sixteen <= (4.4 if name in NARROW_FORMATS_FIRST else 2.2)
    fp4 = device.peak_flop_per_s("fp4")
    assert fp4 is None or 2 <= fp4 / sixteen <= (8.8 if name in NARROW_FORMATS_FIRST else 6.6)


PUBLISHED_PARAMETERS = {
    "bloom-176b": 176_247_271_424,
    "deepseek-v2-236b": 235_741_434_880,
    "gpt-oss-120b": 116_829_156_672,
    "llama-2-70b": 68_976_648_192,
    "llama-3.1-405b": 405_853_388_800,
    "llama-3.1-70b": 70_553_706_496,
    "llama-3.1-8b": 8_030_261_248,
    "llama-4-maverick": 401_583_781_376 - 871_932_416,  # less the vision part
    "llama-4-scout": 108_641_793_536 - 871_932_416,
    "mistral-large-2-123b": 122_610_069_504,
    "mixtral-8x7b": 46_702_792_704,
    "olmo-2-32b": 32_234_279_936,
    "qwen2.5-72b": 72_706_203_648,
    "qwen3-235b-a22b": 235_093_634_560,
    "qwen3-30b-a3b": 30_532_122_624,
    "qwen3-32b": 32_762_123_264,
    "qwen3-coder-480b-a35b": 480_154_875_392,
}
"""Counts that the files of the published weights state."""


@pytest.mark.parametrize("name", PUBLISHED_PARAMETERS)
def test_a_model_has_the_parameters_of_its_published_weights(name):
    assert shapes.parameters(CATALOG.load(Model, name)).total == PUBLISHED_PARAMETERS[name]


@every(Accelerator)
def test_a_format_with_an_efficiency_has_a_peak(name):
    device = CATALOG.load(Accelerator, name)
    assert device.formats
    assert set(device.gemm_efficiency) == set(device.formats)


@every(Accelerator)
def test_memory_is_plausible(name):
    device = CATALOG.load(Accelerator, name)
    assert 16e9 <= device.memory_bytes <= 470e9
    assert 4e11 <= device.memory_bytes_per_s <= 2.4e13
    # Operations for each byte at the ridge: about 100 (Ascend) to 560 (TPU v6e) at 16 bits; the H20 has 37 by intent.
    ridge = (device.bf16_flop_per_s or device.fp16_flop_per_s) / device.memory_bytes_per_s
    assert (35 if name == "h20-96gb" else 80) <= ridge <= 570


@every(Accelerator)
def test_published_utilisation_is_below_what_products_reach(name):
    device = CATALOG.load(Accelerator, name)
    for precision, mfu in device.best_published_mfu.items():
        assert mfu <= device.gemm_efficiency[precision]


@every(System)
def test_scale_up_is_one_way_and_in_bytes(name):
    system = CATALOG.load(System, name)
    assert 25e9 <= system.scaleup_bytes_per_s <= 1.9e12  # NVLink 6 is 1.8 TB/s one way; the sheet says 3.6
    assert 3e9 <= system.scaleout_bytes_per_s <= 3.1e11  # 25 Gbit/s of a NeuronCore to three times 800 Gbit/s
    assert system.scaleout_bytes_per_s < system.scaleup_bytes_per_s
    assert 1e-7 <= system.scaleup_latency_s <= 1e-4


@every(System)
def test_parts_of_a_system_fit_together(name):
    system = CATALOG.load(System, name)
    assert system.devices % system.node_devices == 0
    assert system.scaleup_devices >= system.node_devices or system.scaleup_topology == "torus"
    per_rack = system.rated_w / system.racks
    assert 2e3 <= per_rack <= 9e5  # immersed racks of 640 cards are the densest


@every(System)
def test_the_nameplate_covers_the_devices(name):
    system = CATALOG.load(System, name)
    device = CATALOG.load(Accelerator, system.accelerator)
    assert system.rated_w >= 0.9 * system.devices * device.tdp_w
    assert system.rated_w <= 3 * system.devices * device.tdp_w
    others = system.host_w + system.nics * system.nic_w + system.scaleup_w
    assert others <= system.rated_w


@every(System)
def test_a_system_that_needs_liquid_sheds_heat_to_it(name):
    system = CATALOG.load(System, name)
    assert (system.liquid_fraction > 0.5) == (system.cooling == "liquid")


@every(System)
def test_device_and_software_share_a_format(name):
    system = CATALOG.load(System, name)
    formats = CATALOG.load(Accelerator, system.accelerator).formats
    stack = CATALOG.load(Stack, system.stack)
    assert stack.formats[0] in formats
    kernels = CATALOG.load(Accelerator, system.accelerator).attention_efficiency
    assert set(stack.attention_kernels) & (set(kernels) | {"eager"})


@every(Fabric)
def test_a_fabric_spans_a_large_cluster(name):
    fabric = CATALOG.load(Fabric, name)
    assert 1e9 <= fabric.port_bytes_per_s <= 3.1e11
    assert fabric.tiers[-1].span_devices >= 1024
    assert all(1e-7 <= tier.latency_s <= (1e-1 if "sites" in tier.name else 1e-3) for tier in fabric.tiers)


@every(Cooling)
def test_water_comes_back_warmer(name):
    cooling = CATALOG.load(Cooling, name)
    assert cooling.air.return_c > cooling.air.supply_c
    assert cooling.liquid is None or cooling.liquid.return_c > cooling.liquid.supply_c


@every(Site)
def test_a_site_is_on_earth(name):
    site = CATALOG.load(Site, name)
    assert -20 <= site.mean_c <= 35
    assert 0 < site.grid_kg_co2e_per_kwh < 1.2
    assert 0.01 < site.usd_per_kwh < 0.5


@every(Stack)
def test_bytes_of_the_training_state_are_those_of_mixed_precision(name):
    stack = CATALOG.load(Stack, name)
    state = stack.weight_bytes + stack.gradient_bytes + stack.optimizer_bytes
    assert 8 <= state <= 24  # 16 to 18 is usual
    assert stack.step_error_fraction > 0


def test_devices_are_marked_whose_runs_are_known():
    judge = Judge(CATALOG)
    runs = [row for file in measured_files() for row in read_measured(file)]
    known = {judge.systems[one.accelerator.lower()].accelerator for one in judge.rows(runs) if one.error_fraction}
    assert {name for name in CATALOG.names(Accelerator) if CATALOG.load(Accelerator, name).is_measured} == known
