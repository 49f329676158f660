"""Mistakes that are made in copying a datasheet are seen, with what was meant; no built-in profile is doubted."""

from dataclasses import replace

import pytest

from clusterplan.catalog import Catalog, built_in_directory, check_all
from clusterplan.hardware import Accelerator, Fabric, System
from clusterplan.plausible import (
    UNNAMED_SOURCE,
    implausible_device,
    implausible_fabric,
    implausible_site,
    implausible_system,
)
from clusterplan.site import Site
from clusterplan.trace import Figure, Origin

CATALOG = Catalog()
H100 = CATALOG.load(Accelerator, "h100-sxm-80gb")
DGX = CATALOG.load(System, "dgx-h100")
NDR = CATALOG.load(Fabric, "ndr-fat-tree")
TEXAS = CATALOG.load(Site, "us-texas")


def changed(record, factor=1.0, key="", **by):
    """The record with figures multiplied, in the key of their file or in another one."""
    figures = {name: getattr(record, name) for name in by}
    new = {
        name: Figure(by[name] * figure, Origin("x", key or getattr(figure, "origin", None).key, "datasheet", "a sheet"))
        for name, figure in figures.items()
    }
    return replace(record, **new)


def test_no_built_in_profile_is_doubted():
    assert {path: found for path, found in check_all([built_in_directory()]).items() if found} == {}


@pytest.mark.parametrize(
    ("record", "field", "meant"),
    [
        (changed(H100, bf16_flop_per_s=2), "bf16_flop_per_s", "Dense would be bf16_tflops = 989.4"),
        (changed(H100, fp8_flop_per_s=2), "fp8_flop_per_s", "Dense would be fp8_tflops = 1978.8"),
        (changed(H100, bf16_flop_per_s=2, fp8_flop_per_s=0.5), "bf16_flop_per_s", "is more than the fp8 peak"),
        (changed(H100, memory_bytes=1e9 / 2**30, key="memory_gb"), "memory_bytes", "memory_gib = 79.2"),
        (changed(H100, memory_bytes=0.91), "memory_bytes", "about 78.8 GiB"),
        (changed(H100, memory_bytes=1.1), "memory_bytes", "more than the 80 GB of its name"),
        (changed(H100, memory_bytes_per_s=8), "memory_bytes_per_s", "bits for bytes? memory_gb_per_s = 3350"),
        (changed(H100, memory_bytes_per_s=1e-3), "memory_bytes_per_s", "usual are 12 to 75"),
        (replace(H100, bf16_flop_per_s=None, fp16_flop_per_s=None), "bf16_flop_per_s", "no peak in 16 bits"),
        (changed(H100, tdp_w=1000), "tdp_w", "is 700,000 W for one device"),
    ],
)
def test_a_device(record, field, meant):
    found = list(implausible_device(record))
    assert any(name == field and meant in text for name, text in found), found


@pytest.mark.parametrize(
    ("record", "field", "meant"),
    [
        (changed(DGX, scaleup_bytes_per_s=2), "scaleup_bytes_per_s", "One way: scaleup_gb_per_s = 450"),
        (changed(DGX, scaleout_bytes_per_s=8, key="scaleout_gb_per_s"), "scaleout_bytes_per_s", "gbit_per_s = 400"),
        (changed(DGX, scaleout_bytes_per_s=2), "scaleout_bytes_per_s", "carry: scaleout_gbit_per_s = 400"),
        (changed(DGX, scaleout_bytes_per_s=16), "scaleout_bytes_per_s", "more than the scale-up bandwidth of 450 GB/s"),
        (changed(DGX, rated_w=0.1), "rated_w", "8 devices of 700 W are 5,600 W; with hosts, fans and supplies about"),
        (changed(DGX, rated_w=4), "rated_w", "about rated_w = 8340"),
        (changed(DGX, host_w=12), "host_w", "more than rated_w = 10,200"),
        (changed(DGX, racks=100), "racks", "of a rack"),
    ],
)
def test_a_system(record, field, meant):
    found = list(implausible_system(record, H100, NDR))
    assert any(name == field and meant in text for name, text in found), found


def test_twice_the_links_of_another_system_with_the_device():
    b200, device = CATALOG.load(System, "dgx-b200"), CATALOG.load(Accelerator, "b200-sxm-180gb")
    mine = replace(changed(b200, scaleup_bytes_per_s=2), name="mine")
    assert list(implausible_system(mine, device, NDR)) == []
    ((field, text),) = implausible_system(mine, device, NDR, [b200, mine])
    assert field == "scaleup_bytes_per_s"
    assert "is twice that of dgx-b200; both ways together? One way: scaleup_gb_per_s = 900" in text


def test_what_is_not_known_is_not_compared():
    assert list(implausible_system(changed(DGX, scaleup_bytes_per_s=2, rated_w=9), None, None)) == []


@pytest.mark.parametrize(
    ("found", "meant"),
    [
        (implausible_fabric(changed(NDR, port_bytes_per_s=8, key="port_gb_per_s")), "port_gbit_per_s = 400"),
        (implausible_fabric(changed(NDR, port_bytes_per_s=1e-3)), "ports have 8 to 2,400 Gbit/s"),
        (implausible_site(changed(TEXAS, grid_kg_co2e_per_kwh=1000)), "in grams? grid_g_co2e_per_kwh = 302.95"),
        (implausible_site(changed(TEXAS, usd_per_kwh=1000)), "usd_per_mwh = 66"),
        (implausible_site(replace(TEXAS, mean_c=59.0, hottest_c=100.0)), "in Fahrenheit? mean_c = 15"),
        (implausible_site(replace(TEXAS, mean_c=-40.0)), "as nowhere"),
        (implausible_site(replace(TEXAS, hottest_c=1.0)), "less than the yearly mean"),
        (implausible_site(replace(TEXAS, ups_efficiency=0.0625)), "the losses? ups_efficiency = 0.9375"),
        (implausible_site(changed(TEXAS, usd_per_kwh=100)), "in cents"),
    ],
)
def test_fabrics_and_places(found, meant):
    found = list(found)
    assert any(meant in text for _, text in found), found


def test_a_source_that_nobody_has_named():
    origin = replace(H100.tdp_w.origin, source=UNNAMED_SOURCE)
    found = dict(implausible_device(replace(H100, tdp_w=Figure(700, origin))))
    assert "still to be named" in found["tdp_w"]
    assert not dict(implausible_device(H100))
