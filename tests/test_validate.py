"""Measured runs beside predictions: what a row becomes, what is taken for what it leaves blank, why it is skipped."""

import math
from pathlib import Path

import pytest

from clusterplan.catalog import Catalog, measured_files
from clusterplan.measured import Measured, read_measured
from clusterplan.stated import layout_of
from clusterplan.validate import UNKNOWN_ERROR_FRACTION, Judge, source_name

RUNS = Path(__file__).parent / "data" / "runs.csv"


@pytest.fixture(scope="module")
def judge():
    return Judge(Catalog())


def run(**changes):
    """Llama 3 8B on two nodes of eight H100, everything stated."""
    stated = {
        "id": "a", "source": "paper, table 1", "line": 2, "quality": "A", "model": "Llama 3 8B", "family": "dense",
        "layers": 32, "hidden": 4096, "heads": 32, "kv_heads": 8, "ffn": 14336, "gated_mlp": True, "vocab": 128256,
        "tied_embeddings": False, "seq_len": 8192, "accelerator": "H100-SXM-80GB", "scaleup_domain": 8,
        "scaleout_gbit_s": 400, "accelerators": 16, "tp": 2, "sp": True, "pp": 2, "vpp": 2, "cp": 1,
        "sharding": "zero1", "micro_batch": 1, "global_batch": 64, "recompute": "selective", "precision": "bf16",
        "attention": "flash", "framework": "Megatron-Core 0.10", "step_time_s": 4.0,
    }  # fmt: skip
    return Measured(**stated | changes)


def test_a_complete_row_is_predicted_and_nothing_is_inferred(judge):
    found = judge.row(run())
    assert found.skipped is None
    assert found.inferred == ()
    assert (found.stack, found.stack_assumed) == ("megatron-core", False)
    assert found.measured_step_s == 4.0
    assert found.error_fraction == pytest.approx(found.predicted_step_s / 4.0 - 1)
    assert found.low_s < found.predicted_step_s < found.high_s
    assert found.layout == "tp2-pp2-vpp2-dp4-mb1, selective recompute, zero1, interleaved"
    assert found.verdict == "fits"


DEEPSEEK = {
    "model": "any name", "family": "moe", "layers": 61, "hidden": 7168, "heads": 128, "kv_heads": 128, "ffn": 18432,
    "vocab": 129280, "experts": 256, "top_k": 8, "moe_ffn": 2048, "shared_experts": 1, "dense_layers": 3,
    "accelerators": 512, "tp": 1, "pp": 8, "ep": 64, "seq_len": 4096, "global_batch": 4096, "vpp": None,
    "step_time_s": 40.0,
}  # fmt: skip


def test_what_columns_cannot_say_comes_from_the_model_that_has_these_figures(judge):
    found = judge.row(run(**DEEPSEEK))
    assert "layers: those of deepseek-v3" in found.inferred
    other = judge.row(run(**DEEPSEEK | {"layers": 60}))
    assert not [name for name in other.inferred if name.startswith("layers")]
    machine, _ = judge.machine(run(**DEEPSEEK), [])
    assert judge.question(run(**DEEPSEEK), machine, []).model.attention.is_latent


def test_a_model_without_anything_that_columns_cannot_say_infers_nothing(judge):
    machine, _ = judge.machine(run(), [])
    assert judge.question(run(), machine, []).model.name == "llama-3.1-8b"
    assert judge.row(run()).inferred == ()


def test_a_rate_of_tokens_is_as_good_as_a_time(judge):
    by_rate = judge.row(run(step_time_s=None, tokens_per_s=64 * 8192 / 4.0))
    assert by_rate.error_fraction == pytest.approx(judge.row(run()).error_fraction)


@pytest.mark.parametrize(
    ("blank", "taken"),
    [
        ("vpp", "vpp: 1"),
        ("recompute", "recompute: none"),
        ("sharding", "sharding: zero1"),
        ("precision", "precision: bf16"),
        ("scaleout_gbit_s", "scaleout_gbit_s: 400"),
        ("framework", "framework: megatron-core"),
    ],
)
def test_what_is_blank_is_taken_from_the_software_and_named(judge, blank, taken):
    found = judge.row(run(**{blank: None}))
    assert found.skipped is None
    assert found.inferred == (taken,)


def test_the_network_between_nodes_is_not_inferred_where_there_is_one_node(judge):
    assert judge.row(run(accelerators=8, scaleout_gbit_s=None)).inferred == ()


def test_unknown_software_is_only_assumed_and_its_interval_is_wide(judge):
    found = judge.row(run(framework="in-house"))
    assert (found.stack, found.stack_assumed) == ("megatron-core", True)
    assert found.high_s / found.predicted_step_s == pytest.approx(1 + UNKNOWN_ERROR_FRACTION)
    assert found.predicted_step_s == judge.row(run()).predicted_step_s


def test_the_longest_name_in_the_framework_decides(judge):
    assert judge.row(run(framework="NeMo Megatron 22.09")).stack == "nemo-megatron-2022"
    assert judge.row(run(framework="Megatron-LM (2022)")).stack == "megatron-lm-2022"


@pytest.mark.parametrize(
    ("changes", "stack"),
    [
        ({"sharding": "none", "attention": None}, "megatron-lm-2022"),
        ({"sharding": "none", "attention": "naive"}, "megatron-lm-2022"),
        ({"sharding": "zero1", "attention": None}, "megatron-core"),
        ({"sharding": "none", "attention": "flash"}, "megatron-core"),
        ({"sharding": "none", "attention": None, "precision": "mxfp8"}, "megatron-core"),
    ],
)
def test_of_releases_under_one_name_the_one_that_can_do_it_is_taken(judge, changes, stack):
    found = judge.row(run(framework="Megatron-LM", **changes))
    assert (found.stack, found.stack_assumed) == (stack, False)


def test_a_step_beyond_the_peak_is_a_slip_and_not_judged(judge):
    assert "times the peak of 16 devices; is it in seconds" in judge.row(run(step_time_s=4e-3)).skipped
    assert judge.row(run(step_time_s=3.0)).skipped is None


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        *(
            ({name: None}, f"{name} is not stated")
            for name in ("layers", "hidden", "heads", "ffn", "vocab", "seq_len", "micro_batch", "global_batch")
        ),
        ({"accelerators": None}, "accelerators is not stated"),
        ({"accelerator": "Abacus"}, "no profile of accelerator Abacus"),
        ({"accelerator": None}, "no profile of accelerator None"),
        (
            {"accelerator": "h100-smx"},
            "no profile of accelerator h100-smx; did you mean: h100-sxm-80gb, h100-sxm5-80gb?",
        ),
        (
            {"precision": "bf61"},
            "no product efficiency of h100-sxm-80gb in bf61; formats are mxfp8, nvfp4, bf16, fp16, fp8, fp4, int8",
        ),
        ({"accelerators": 6}, "6 devices are no multiple of tp × pp × cp = 4"),
        ({"precision": "fp32"}, "no product efficiency of h100-sxm-80gb in fp32"),
        ({"family": "moe", "experts": 8}, "top_k is not stated"),
        ({"global_batch": 63}, "not possible as stated: batch divides by dp × micro-batch"),
        ({"layers": 10**30}, "layers is more than 10,000"),
        ({"step_time_s": 1e-300}, "measured_step_s is not between 1e-06 and 1e+09"),
        ({"scaleout_gbit_s": 1e-300}, "scaleout_gbit_s is not between 0.001 and 1e+06"),
        ({"vpp": 9000}, "pp × vpp is far more than layers"),
        ({"hidden": 16}, "hidden is less than heads"),
        ({"family": "moe", "experts": 8, "top_k": 9}, "top_k is more than experts"),
        ({"quality": "C"}, "quality C: a figure of a whole campaign"),
        ({"notes": "superseded by v2"}, "superseded by a later measurement, as its notes say"),
        ({"step_time_s": None}, "no time, rate or memory is stated"),
    ],
)
def test_why_a_row_is_skipped_is_said(judge, changes, reason):
    found = judge.row(run(**changes))
    assert found.skipped == reason
    assert found.predicted_step_s is None
    assert found.error_fraction is None


def test_memory_is_compared_as_its_source_defines_it(judge):
    of = {
        name: judge.row(run(peak_mem_gib=40.0, memory_definition=name)) for name in ("allocated", "reserved", "device")
    }
    for name, found in of.items():
        assert found.predicted_peak_gib == getattr(found, f"predicted_{name}_gib")
        assert found.memory_definition == name
        assert found.memory_error_fraction == pytest.approx(found.predicted_peak_gib / 40 - 1)
    assert of["allocated"].predicted_peak_gib < of["reserved"].predicted_peak_gib < of["device"].predicted_peak_gib
    usual = judge.row(run(peak_mem_gib=40.0))
    assert usual.memory_definition == Catalog().load(type(judge.stacks[0]), "megatron-core").reported_memory


def test_a_run_out_of_memory_has_no_error_but_an_end(judge):
    found = judge.row(run(step_time_s=None, oom=True))
    assert (found.ran, found.error_fraction, found.skipped) == (False, None, None)
    assert judge.row(run(step_time_s=None, oom=False)).ran is True
    assert judge.row(run()).ran is True


def test_a_schedule_that_is_not_modelled_is_named_and_keeps_its_row_apart(judge):
    names = ("Megatron-LM", "Megatron-LM, GPipe schedule", "Megatron-LM, 1F1B schedule", "Megatron-LM, ZB-1p schedule")
    plain, bubble, same, zero = (judge.row(run(vpp=1, framework=name)) for name in names)
    assert plain.inferred == zero.inferred == ()
    assert zero.predicted_step_s < same.predicted_step_s
    assert bubble.inferred == ("schedule: 1f1b",)
    assert plain.series == bubble.series
    assert plain.layout != bubble.layout


@pytest.mark.parametrize(
    ("change", "is_same"),
    [
        ({"tp": 4}, True),
        ({"micro_batch": 2}, True),
        ({"recompute": "full"}, True),
        ({"global_batch": 128}, False),
        ({"accelerators": 32}, False),
        ({"precision": "fp8"}, False),
        ({"layers": 64}, False),
        ({"source": "another paper"}, False),
        ({"source": "paper, table 2"}, True),
        ({"framework": "NeMo Megatron 22.09"}, False),
    ],
)
def test_a_series_differs_in_nothing_but_layout(judge, change, is_same):
    assert (judge.row(run(**change)).series == judge.row(run()).series) == is_same


def test_more_network_is_never_slower(judge):
    times = [judge.row(run(scaleout_gbit_s=rate)).predicted_step_s for rate in (50, 100, 200, 400)]
    assert times == sorted(times, reverse=True)


def test_a_system_may_be_named_instead_of_its_accelerator(judge):
    assert judge.row(run(accelerator="dgx-h100")).predicted_step_s == judge.row(run()).predicted_step_s


def test_rows_keep_their_order_and_progress_counts_them(judge):
    seen = []
    rows = read_measured(RUNS)
    found = judge.rows(rows, seen.append)
    assert [row.id for row in found] == [row.id for row in rows]
    assert seen == list(range(1, len(rows) + 1))


def test_the_same_row_gives_the_same_answer(judge):
    assert judge.row(run()) == Judge(Catalog()).row(run())


def test_a_source_is_named_up_to_its_first_comma_or_bracket():
    assert source_name("A paper (arXiv:1), Table 2") == "A paper"
    assert source_name("x" * 80) == "x" * 60


def test_every_run_that_comes_with_the_package_is_predicted(judge):
    rows = [row for file in measured_files() for row in read_measured(file)]
    found = judge.rows(rows)
    assert [(row.id, row.skipped) for row in found if row.skipped] == []
    assert all(math.isfinite(row.predicted_step_s) and row.predicted_step_s > 0 for row in found)
    assert {row.family for row in found} == {"dense", "moe"}
    assert not any(row.stack_assumed for row in found)
    for row in found:
        sizes = (row.predicted_allocated_gib, row.predicted_reserved_gib, row.predicted_device_gib)
        assert sorted(sizes) == list(sizes), row.id


def test_a_device_of_several_systems_is_the_one_that_its_profile_names(tmp_path):
    (tmp_path / "systems").mkdir()
    text = Catalog().path("systems", "dgx-h100").read_text(encoding="utf-8")
    (tmp_path / "systems" / "a-first.toml").write_text(text.replace('name = "dgx-h100"', 'name = "a-first"'))
    own = Judge(Catalog([tmp_path]))
    assert own.systems["h100-sxm-80gb"].name == "dgx-h100"
    assert own.systems["a-first"].name == "a-first"


def test_a_device_that_may_be_in_several_systems_is_skipped(judge):
    assert judge.row(run(accelerator="GH200-96GB")).skipped == "GH200-96GB may be any of gh200-quad, gh200-server"


def test_a_device_without_runs_has_a_wider_interval(judge):
    known, unknown = judge.row(run()), judge.row(run(accelerator="H100-PCIe-80GB"))
    width = [one.high_s / one.predicted_step_s - 1 for one in (known, unknown)]
    assert width[1] == pytest.approx(math.hypot(width[0], 0.21))


def test_layers_that_do_not_divide_were_shared_out_with_an_eye_on_the_head(judge):
    """61 layers, a head and token prediction on 8 stages: seven full ones, and a last one with what is left."""
    machine, _ = judge.machine(run(**DEEPSEEK), [])
    by_hand = judge.question(run(**DEEPSEEK), machine, [])
    assert by_hand.end_layers == 4
    # Without one layer on the last stage, or one on the first and the last: what software does by itself.
    for layers in (62, 63, 64):
        row = run(**DEEPSEEK | {"layers": layers})
        assert judge.question(row, machine, []).end_layers == 0


def test_token_prediction_is_left_out_where_a_row_says_so(judge):
    machine, _ = judge.machine(run(**DEEPSEEK), [])
    assert judge.question(run(**DEEPSEEK), machine, []).model.mtp_layers == 1
    for changes in ({"model": "DeepSeek-V3 without MTP"}, {"id": "deepseekv3-woMTP"}):
        assert judge.question(run(**DEEPSEEK | changes), machine, []).model.mtp_layers == 0


@pytest.mark.parametrize(("framework", "etp"), [("NeMo 24.11", 4), ("Megatron-Bridge, NeMo container 25.11", 1)])
def test_experts_are_cut_as_the_software_does_by_default(judge, framework, etp):
    row = run(**DEEPSEEK | {"tp": 4, "ep": 8, "framework": framework})
    inferred = []
    machine, _ = judge.machine(row, inferred)
    cuts, _ = layout_of(row, judge.question(row, machine, inferred), inferred)
    assert cuts.etp[0] == etp


@pytest.mark.parametrize(
    ("framework", "stack"),
    [
        ("NeMo 25.05 (dgxc 25.05)", "nemo"),
        ("Megatron-Bridge, NeMo container 26.04.01", "megatron-bridge"),
        ("Megatron-Bridge, NeMo container 26.08", "megatron-bridge-2026"),
    ],
)
def test_releases_of_one_software_are_told_apart(judge, framework, stack):
    assert judge.row(run(framework=framework)).stack == stack


@pytest.mark.parametrize(
    ("changes", "taken"),
    [
        ({}, "none"),
        ({"micro_batch": 4}, "block:7"),
        # nothing is known of a run that ended for want of memory
        ({"micro_batch": 4, "oom": True}, "none"),
        # nothing would have helped
        ({"layers": 320, "step_time_s": 40.0}, "none"),
    ],
)
def test_blank_recompute_is_the_least_with_which_a_run_fits(judge, changes, taken):
    found = judge.row(run(recompute=None, **changes))
    assert f"recompute: {taken}" in found.inferred
