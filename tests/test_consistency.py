"""What contradicts itself in a record: each rule on both sides; rules of models are tested where files are read."""

from dataclasses import replace

import pytest

from clusterplan.consistency import inconsistent
from clusterplan.hardware import Accelerator, Fabric, Stack, System
from clusterplan.reading import FOLDERS
from clusterplan.site import Cooling, Prices, Site
from clusterplan.workload import Attention, Experts, StateSpace
from examples import CATALOG

DEVICE = CATALOG.load(Accelerator, "h100-sxm-80gb")
SYSTEM = CATALOG.load(System, "gb200-nvl72")
FABRIC = CATALOG.load(Fabric, "ndr-fat-tree")
STACK = CATALOG.load(Stack, "megatron-core")
SITE = CATALOG.load(Site, "us-virginia")
TANKS = CATALOG.load(Cooling, "immersion-single-phase")
PRICES = CATALOG.load(Prices, "list-2026-11")


@pytest.mark.parametrize("folder", FOLDERS)
def test_shipped_profiles_do_not_contradict_themselves(folder):
    record = FOLDERS[folder]
    for name in CATALOG.names(record):
        assert list(inconsistent(CATALOG.load(record, name))) == [], name


@pytest.mark.parametrize(
    ("record", "changes", "field"),
    [
        (DEVICE, {"idle_w": DEVICE.tdp_w + 1}, "idle_w"),
        (DEVICE, {"failure_fraction": {"memory": 0.6, "device": 0.5}}, "failure_fraction"),
        (SYSTEM, {"node_devices": 5}, "node_devices"),
        (SYSTEM, {"used_devices_per_domain": (64, 73)}, "used_devices_per_domain"),
        (FABRIC, {"tiers": ()}, "tiers"),
        (FABRIC, {"failures_per_switch_s": None}, "failures_per_link_s"),
        (FABRIC, {"tiers": FABRIC.tiers[::-1]}, "tiers"),
        (STACK, {"default_sharding": ("hsdp",), "sharding": ("zero1",)}, "default_sharding"),
        (STACK, {"formats": ()}, "formats"),
        (SITE, {"hottest_wet_bulb_c": None, "hottest_c": 35.0}, "hottest_c"),
        (SITE, {"hottest_wet_bulb_c": 36.0, "hottest_c": 35.0}, "hottest_wet_bulb_c"),
        (TANKS, {"liquid": None}, "immersion_fraction"),
        (PRICES, {"date": "yesterday"}, "date"),
        (PRICES, {"low": {"storage_usd_per_tb": 1e9}, "high": {"storage_usd_per_tb": 1e9}}, "low.storage_usd_per_tb"),
        (Attention(heads=8, kv_heads=8, head_dim=64), {"kv_heads": 3}, "kv_heads"),
        (Attention(heads=8, kv_heads=8, head_dim=64), {"is_chunked": True}, "window"),
        (Experts(experts=8, top_k=2, ffn=64), {"top_k": 9}, "top_k"),
        (StateSpace(inner=64, state=16, conv=4, dt_rank=4), {"dt_rank": 0}, "dt_rank"),
    ],
    ids=lambda part: part if isinstance(part, str) else "",
)
def test_what_contradicts_itself_is_named(record, changes, field):
    assert list(inconsistent(record)) == []
    assert [name for name, _ in inconsistent(replace(record, **changes))] == [field]


def test_records_without_rules_are_consistent():
    assert list(inconsistent(object())) == []
