"""Cuts and layouts: every rule can be broken and mended, layers are dealt out once, extreme stages are enough."""

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from clusterplan import layout, shapes
from clusterplan.errors import ClusterplanError
from examples import TINY, TINY_MOE, cuts, layouts, limits, machine, question

DENSE = limits(question(TINY, machine(), batch=64, fixed=True))
SPARSE = limits(question(TINY_MOE, machine(), batch=64, fixed=True))
GROUPED = replace(DENSE, heads=64, kv_heads=8)
EVEN = replace(DENSE, uneven_pipeline=False)


def broken(some_cuts, some_layouts, of):
    return {
        name
        for rules in (layout.broken_cut_rules(some_cuts, of), layout.broken_layout_rules(some_layouts, some_cuts, of))
        for name, mask in rules.items()
        if mask[0]
    }


def test_plain_layouts_are_legal():
    assert broken(cuts(tp=8), layouts(pp=2, dp=4), DENSE) == set()
    assert broken(cuts(tp=2, cp=2, ep=4), layouts(pp=4, vpp=2, dp=2, batch=64), SPARSE) == set()
    assert broken(cuts(tp=16), layouts(dp=4), replace(GROUPED, max_tp=16)) == set()  # a key-value head on two ranks


# A cut and a layout that break one rule, and what the repair says
CASES = {
    "heads divide by tp": ({"tp": 12}, {}, replace(DENSE, heads=64, kv_heads=12, seq_len=6144), "8 or 16"),
    "kv heads divide by tp": ({"tp": 12}, {}, replace(GROUPED, heads=24, seq_len=6144), "8 or 4"),
    "tp within the software's reach": ({"tp": 8}, {}, replace(DENSE, max_tp=4), "at most 4"),
    "cp within the software's reach": ({"cp": 8}, {}, replace(DENSE, max_cp=4), "at most 4"),
    "ep within the software's reach": ({"ep": 8}, {"dp": 8}, replace(SPARSE, max_ep=4), "at most 4"),
    "pp within the software's reach": ({}, {"pp": 8}, replace(DENSE, max_pp=4), "at most 4"),
    "sequence divides by 2 × cp × tp": ({"cp": 3}, {}, DENSE, "2046 or 2052"),
    "experts divide by ep": ({"ep": 3}, {"dp": 3, "batch": 63}, replace(SPARSE, batch_target=63), "2 or 4"),
    "ep needs experts": ({"ep": 2}, {"dp": 2}, DENSE, "only 1"),
    "etp is 1 or tp": ({"tp": 4, "etp": 2}, {"dp": 2}, SPARSE, "1 or 4"),
    "batch divides by dp × micro-batch": ({"micro_batch": 3}, {"dp": 2, "batch": 64}, DENSE, "60 or 66"),
    "batch near its target": ({}, {"batch": 68}, DENSE, "from 64"),
    "a layer for each stage": ({}, {"pp": 11}, DENSE, "at most 10"),
    "layers divide by pp × vpp": ({}, {"pp": 3, "batch": 64}, EVEN, "2 or 4"),
    "dp × cp × tp divides by ep × etp": ({"ep": 8}, {"dp": 4}, SPARSE, "8"),
    "stages inside replicas need experts inside tp × cp": (
        {"ep": 4},
        {"dp": 4, "pp": 2, "placement": "tp-cp-ep-pp-dp"},
        SPARSE,
        "placement tp-cp-ep-dp-pp",
    ),
    "replicas divide by the shard group": ({}, {"dp": 8, "sharding": "hsdp", "shard_group": 3}, DENSE, "2 or 4"),
    "a shard group needs hsdp": ({}, {"dp": 8, "shard_group": 4}, DENSE, "sharding hsdp"),
    "interleaving needs pp > 1": ({}, {"pp": 1, "vpp": 2, "schedule": "interleaved"}, DENSE, "vpp = 1"),
    "a schedule needs pp > 1": ({}, {"pp": 1, "schedule": "1f1b"}, DENSE, "schedule none"),
    "pp > 1 needs a schedule": ({}, {"pp": 2, "schedule": "none"}, DENSE, "1f1b"),
    "interleaving needs vpp > 1": ({}, {"pp": 2, "schedule": "interleaved"}, DENSE, "vpp = 2 or more"),
    "vpp needs interleaving": ({}, {"pp": 2, "vpp": 2, "schedule": "1f1b"}, DENSE, "vpp = 1"),
    "two directions need even stages and enough micro-batches": (
        {},
        {"pp": 4, "schedule": "dualpipe", "dp": 16},
        DENSE,
        "8 micro-batches or more",
    ),
    "interleaving divides micro-batches by pp": ({}, {"pp": 3, "vpp": 2, "batch": 64}, DENSE, "63 or 66"),
}


def test_every_rule_has_a_case():
    rules = {**layout.broken_cut_rules(cuts(), DENSE), **layout.broken_layout_rules(layouts(), cuts(), DENSE)}
    assert set(CASES) == set(rules)


@pytest.mark.parametrize("rule", CASES)
def test_each_rule_is_broken_alone_and_named_with_its_repair(rule):
    cut, outer, of, repair = CASES[rule]
    row = layouts(**outer)
    assert broken(cuts(**cut), row, of) == {rule}
    text = layout.repairs(rule, row, cuts(**cut), of)
    assert text.startswith(f"{rule}: ")
    assert repair in text
    assert "\n" not in text


@pytest.mark.parametrize(
    ("rule", "mend"),
    [
        ("heads divide by tp", lambda c, o, v: (c | {"tp": v}, o)),
        ("kv heads divide by tp", lambda c, o, v: (c | {"tp": v}, o)),
        ("experts divide by ep", lambda c, o, v: (c | {"ep": v}, o)),
        ("etp is 1 or tp", lambda c, o, v: (c | {"etp": v}, o)),
        ("batch divides by dp × micro-batch", lambda c, o, v: (c, o | {"batch": v})),
        ("layers divide by pp × vpp", lambda c, o, v: (c, o | {"pp": v})),
        ("interleaving divides micro-batches by pp", lambda c, o, v: (c, o | {"batch": v})),
    ],
)
def test_repairs_mend(rule, mend):
    cut, outer, of, _ = CASES[rule]
    text = layout.repairs(rule, layouts(**outer), cuts(**cut), of)
    values = [int(v) for v in re.findall(r"\d+", re.split("nearest[^:]*: |; ", text)[-1])]
    assert values
    for value in values:
        mended_cut, mended = mend(cut, outer, value)
        assert rule not in broken(cuts(**mended_cut), layouts(**mended), of)


def test_batch_may_miss_its_target_by_a_twentieth():
    loose = replace(DENSE, batch_fixed=False, batch_target=1000)
    for batch, wrong in [(950, False), (1050, False), (949, True), (1051, True)]:
        assert ("batch near its target" in broken(cuts(), layouts(batch=batch), loose)) == wrong
    fixed = replace(loose, batch_fixed=True)
    assert "batch near its target" in broken(cuts(), layouts(batch=1001), fixed)
    assert "batch near its target" not in broken(cuts(), layouts(batch=1000), fixed)


def test_counts_by_head():
    some = cuts(tp=[8, 4], cp=[2, 1], ep=[4, 8], etp=[1, 4], micro_batch=[1, 2])
    rows = layouts(cut=[0, 1], pp=[4, 2], dp=[3, 8], batch=[96, 64])
    assert_array_equal(layout.stage_devices(rows, some), [48, 32])
    assert_array_equal(layout.used_devices(rows, some), [192, 64])
    assert_array_equal(layout.micro_batches(rows, some), [32, 4])
    assert_array_equal(layout.expert_replicas(rows, some), [12, 1])


@given(st.integers(1, 400), st.integers(1, 4096))
def test_nearest_divisors_divide(value, number):
    found = layout.nearest_divisors(value, number)
    assert found
    assert all(number % d == 0 for d in found)
    if number % value == 0:
        assert found[0] == value


# Layers ---------------------------------------------------------------------------------------------------------------


@given(st.integers(1, 200), st.integers(1, 64))
def test_chunks_part_the_layers(layers, chunks):
    if chunks > layers + 2:
        return
    starts = np.array(layout.chunk_starts(layers, chunks))
    sizes = np.diff(starts)
    assert starts[0] == 0
    assert starts[-1] == layers
    assert len(sizes) == chunks
    assert np.all(sizes >= 0)
    assert sizes.max() - sizes.min() <= 1
    # the ends, which hold embedding and head besides, are spared first
    if sizes.max() > sizes.min():
        assert sizes[-1] == sizes.min()


@given(st.integers(1, 200), st.integers(1, 64), st.integers(1, 12))
def test_a_heavy_end_carries_fewer_layers_where_that_helps(layers, chunks, end):
    if chunks > layers + 2:
        return
    plain, balanced = (np.diff(layout.chunk_starts(layers, chunks, e)) for e in (0, end))
    assert balanced.sum() == layers
    assert np.all(balanced >= 0)

    def busiest(sizes):
        return max(sizes[:-1].max(initial=0), sizes[-1] + end)

    assert busiest(balanced) <= busiest(plain)
    if busiest(balanced) == busiest(plain):
        assert_array_equal(balanced, plain)


def test_an_end_worth_four_layers():
    assert_array_equal(np.diff(layout.chunk_starts(61, 16, 4)), [*[4] * 15, 1])
    assert_array_equal(np.diff(layout.chunk_starts(96, 8, 1)), [12] * 8)  # nothing is won


# Llama 3 Herd of Models, arXiv:2407.21783, section 3.3.2: 126 layers on 16 stages, one fewer on the first and the last
def test_llama_3():
    sizes = np.diff(layout.chunk_starts(126, 16))
    assert_array_equal(sizes, [7, *[8] * 14, 7])


@given(st.integers(1, 130), st.integers(1, 16), st.integers(1, 6), st.integers(0, 5))
def test_stages_hold_every_layer_once(layers, pp, vpp, dense):
    if pp * vpp > layers + 2:
        return
    model = replace(TINY_MOE, layers=layers, moe=replace(TINY_MOE.moe, dense_layers=min(dense, layers)))
    kinds = shapes.layer_kinds(model)
    by_stage = layout.layers_by_stage(kinds, pp, vpp)
    assert by_stage.shape == (pp, len(shapes.KINDS))
    assert_array_equal(by_stage.sum(axis=0), [model.dense_layers, model.moe_layers, 0])


def test_chunks_are_dealt_in_turn():
    # six layers, three chunks on each of two stages: 0 2 4 and 1 3 5, the first of them dense
    kinds = np.array([[1, 0, 0], *[[0, 1, 0]] * 5])
    assert_array_equal(layout.layers_by_stage(kinds, 2, 3), [[1, 2, 0], [0, 3, 0]])


@given(st.integers(2, 130), st.integers(1, 16), st.integers(1, 6), st.integers(0, 3))
def test_extreme_stages_are_first_of_their_kind(layers, pp, vpp, dense):
    if pp * vpp > layers + 2:
        return
    model = replace(TINY_MOE, layers=layers, moe=replace(TINY_MOE.moe, dense_layers=min(dense, layers)))
    by_stage = layout.layers_by_stage(shapes.layer_kinds(model), pp, vpp)
    kept = layout.extreme_stages(by_stage)
    assert {0, pp - 1} <= set(kept)
    assert len(set(kept)) == len(kept)
    for stage in range(1, pp - 1):
        assert any(s <= stage and np.array_equal(by_stage[s], by_stage[stage]) for s in kept if s)


def test_padded_table_repeats_its_last_stage():
    table = layout.stage_layers(shapes.layer_kinds(TINY), [(1, 1), (8, 1), (2, 2)])
    assert table.stage.shape == table.count.shape[:2] == table.is_first.shape
    assert_array_equal(table.stage[0], 0)
    assert table.is_first[0].all()
    assert table.is_last[0].all()
    assert_array_equal(np.unique(table.stage[2]), [0, 1])
    every = layout.stage_layers(shapes.layer_kinds(TINY), [(8, 1)], every=True)
    assert_array_equal(every.stage, [np.arange(8)])
    assert every.count.sum() == 8


# Recomputation --------------------------------------------------------------------------------------------------------


def test_recompute_modes_are_read_with_their_layers():
    assert layout.Recomputation.parse("selective") == layout.Recomputation(mode="selective")
    assert layout.Recomputation.parse("full:2") == layout.Recomputation(mode="full", layers=2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("half", "must be none, selective, block, full"),
        ("none:2", "none has no number of layers"),
        ("block:", "must name layers"),
        ("block:0", "must name layers"),
        ("block:two", "must name layers"),
        ("full:-1", "must name layers"),
    ],
)
def test_recompute_modes_that_are_none(text, message):
    with pytest.raises(ClusterplanError, match=message):
        layout.Recomputation.parse(text)


@pytest.mark.parametrize(
    ("text", "share", "group"),
    [("none", 0, 1), ("selective", 0, 1), ("block", 0.5, 1), ("block:3", 0.375, 1), ("full", 1, 1), ("full:4", 1, 4)],
)
def test_recompute_as_columns_of_a_stage_of_eight(text, share, group):
    columns = layout.Recomputation.parse(text).columns(8)
    assert (float(columns["recomputed"][0]), int(columns["checkpoint_layers"][0])) == (share, group)


@given(layers=st.integers(1, 200), pp=st.integers(1, 40), vpp=st.integers(1, 5))
def test_the_largest_stage_holds_as_many_as_any(layers, pp, vpp):
    if pp * vpp > layers + 2:
        return
    kinds = np.ones((layers, 1))
    stages = layout.layers_by_stage(kinds, pp, vpp)
    assert stages.max() == layout.largest_stage(layers, np.array([pp]), np.array([vpp]))[0]
