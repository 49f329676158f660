"""Published runs against predictions, each with a tolerance of its own. No constant is fitted here.

A tolerance is a promise about the present model, not a wish: where a run is missed the reason is said, if it is known.
"""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from clusterplan import shapes, step
from clusterplan.estimate import estimate
from clusterplan.layer import price_layers
from clusterplan.plan import verdict
from clusterplan.scenario import Scenario, resolve
from clusterplan.workload import Attention, Model
from examples import CATALOG, cuts, layouts, machine, model, question


def gpt(layers, hidden, heads, vocab=51200):
    return Model(
        name="gpt",
        source="",
        layers=layers,
        hidden=hidden,
        vocab=vocab,
        ffn=4 * hidden,
        gated_mlp=False,
        tied_embeddings=True,
        attention=Attention(heads=heads, kv_heads=heads, head_dim=hidden // heads, qkv_bias=True, output_bias=True),
        learned_positions=2048,
        norm_bias=True,
        mlp_bias=True,
    )


PAPER = machine("dgx-a100", stack="megatron-lm-2022")
REPEATED = replace(PAPER, stack=replace(PAPER.stack, sequence_parallel=False))
H100 = machine("dgx-h100")

GPT_22B = gpt(48, 6144, 64)
GPT_175B = gpt(96, 12288, 96)
GPT_530B = gpt(105, 20480, 128)
GPT_1T = gpt(128, 25600, 160)
MT_NLG = gpt(105, 20480, 128, vocab=50304)
LLAMA_70B = model("llama-3.1-70b")
LLAMA_405B = model("llama-3.1-405b")


@dataclass(frozen=True, kw_only=True)
class Run:
    """One published configuration."""

    model: Model
    on: object
    batch: int
    pp: int
    seconds: float
    tolerance: float
    dp: int = 1
    tp: int = 8
    cp: int = 1
    vpp: int = 1
    micro_batch: int = 1
    seq_len: int = 2048
    recompute: str = "none"
    sharding: str = "none"
    precision: str = "fp16"

    def predicted(self):
        """Length of the step, its MFU, and the memory of the heaviest stage."""
        ask = question(
            self.model, self.on, seq_len=self.seq_len, batch=self.batch, fixed=True, precision=self.precision
        )
        some = cuts(tp=self.tp, cp=self.cp, micro_batch=self.micro_batch, recompute=self.recompute)
        row = layouts(pp=self.pp, vpp=self.vpp, dp=self.dp, sharding=self.sharding, batch=self.batch)
        table = price_layers(ask, some)
        stages = step.one_stage_table(ask, table, row)
        result = step.evaluate(ask, some, table, row, stages)
        return result.time.total_s[0], result.mfu[0], step.stage_memory(ask, some, row, stages).total_bytes.max()


# V. Korthikanti et al., Reducing Activation Recomputation in Large Transformer Models, arXiv:2205.05198, tables 3, 5:
# full recompute without sequence parallelism, and selective recompute with it; seconds of an iteration
def korthikanti(shape, batch, pp, vpp, full, selective, tolerance, micro_batch=1):
    common = {"model": shape, "batch": batch, "pp": pp, "vpp": vpp, "micro_batch": micro_batch, "tolerance": tolerance}
    return [
        Run(**common, on=REPEATED, recompute="full", seconds=full),
        Run(**common, on=PAPER, recompute="selective", seconds=selective),
    ]


# D. Narayanan et al., SC21, arXiv:2104.04473, table 2, PTD parallelism: full recompute, no sequence parallelism. The
# software of 2021 was slower than that of 2022, for which the stack's constants stand.
def narayanan(shape, batch, pp, dp, seconds):
    return Run(model=shape, on=REPEATED, batch=batch, pp=pp, dp=dp, recompute="full", seconds=seconds, tolerance=0.10)


# NVIDIA/dgxc-benchmarking v25.01, Llama 3.1 on DGX H100 with NeMo 24.09: recompute off, sequence parallelism on
def nemo(shape, dp, batch, seconds, tolerance, precision="bf16", **split):
    return Run(
        model=shape,
        on=H100,
        batch=batch,
        dp=dp,
        cp=2,
        seq_len=8192,
        sharding="zero1",
        precision=precision,
        seconds=seconds,
        tolerance=tolerance,
        **split,
    )


LARGE = {"tp": 8, "pp": 9, "vpp": 7}
SMALL = {"tp": 4, "pp": 4, "vpp": 5}

RUNS = {
    "korthikanti 22B": korthikanti(GPT_22B, 4, 1, 1, 1.42, 1.10, 0.08, micro_batch=4),
    "korthikanti 175B": korthikanti(GPT_175B, 64, 8, 3, 18.13, 13.75, 0.05),
    "korthikanti 530B": korthikanti(GPT_530B, 280, 35, 3, 49.05, 37.83, 0.05),
    "korthikanti 1T": korthikanti(GPT_1T, 512, 64, 1, 94.42, 71.49, 0.07),
    "narayanan 175B": [
        narayanan(GPT_175B, 1536, 12, 4, 76.8),
        narayanan(GPT_175B, 1536, 12, 8, 39.4),
        narayanan(GPT_175B, 1536, 12, 16, 20.8),
    ],
    "narayanan 530B": [
        narayanan(GPT_530B, 2240, 35, 2, 206.2),
        narayanan(GPT_530B, 2240, 35, 4, 105.6),
        narayanan(GPT_530B, 2240, 35, 8, 55.4),
    ],
    # The same paper, table 1: 1008B on 3,072 devices, 163 TFLOP/s each with recompute
    "narayanan 1T": [narayanan(GPT_1T, 3072, 64, 6, 102.6)],
    "nemo 405B": [
        nemo(LLAMA_405B, 4, 252, 17.20, 0.08, **LARGE),
        nemo(LLAMA_405B, 8, 504, 17.52, 0.08, **LARGE),
        nemo(LLAMA_405B, 16, 1008, 17.62, 0.08, **LARGE),
    ],
    "nemo 405B fp8": [
        nemo(LLAMA_405B, 4, 252, 11.24, 0.10, "fp8", **LARGE),
        nemo(LLAMA_405B, 8, 504, 11.31, 0.10, "fp8", **LARGE),
        nemo(LLAMA_405B, 16, 1008, 12.35, 0.10, "fp8", **LARGE),
    ],
    "nemo 70B": [
        nemo(LLAMA_70B, 2, 128, 14.72, 0.06, **SMALL),
        nemo(LLAMA_70B, 4, 256, 14.73, 0.06, **SMALL),
        nemo(LLAMA_70B, 16, 1024, 14.89, 0.06, **SMALL),
    ],
    # S. Smith et al., MT-NLG, arXiv:2201.11990, section 2.3: 280 devices a replica, seconds of an iteration. Missed: it
    # ran with DeepSpeed on top of Megatron, for which no stack is described, and slower than Megatron alone (above).
    "mt-nlg": [
        Run(
            model=MT_NLG,
            on=REPEATED,
            batch=1920,
            pp=35,
            dp=dp,
            recompute="full",
            precision="bf16",
            seconds=seconds,
            tolerance=0.30,
        )
        for dp, seconds in [(8, 60.1), (10, 50.2), (12, 44.4)]
    ],
    # Llama 3 Herd of Models, arXiv:2407.21783, table 4: 43 and 41 % MFU. The paper does not say how many chunks a stage
    # has, nor can its software be told from NeMo here; with eight chunks (126 layers on 16 x 8) we are too fast.
    "llama 3": [
        Run(
            model=LLAMA_405B,
            on=H100,
            batch=2048,
            pp=16,
            vpp=8,
            dp=dp,
            seq_len=8192,
            sharding="zero1",
            precision="bf16",
            seconds=seconds,
            tolerance=0.22,
        )
        for dp, seconds in [(64, 12.02), (128, 6.46)]
    ],
}
ROWS = [pytest.param(run, id=f"{name} {i}") for name, runs in RUNS.items() for i, run in enumerate(runs)]


@pytest.mark.parametrize("run", ROWS)
def test_step_time(run):
    assert_allclose(run.predicted()[0], run.seconds, rtol=run.tolerance)


def test_median_error():
    """Rows with a stack of their own: the goal is 5 % by the median of source medians."""
    errors = {
        name: np.median([abs(run.predicted()[0] / run.seconds - 1) for run in runs])
        for name, runs in RUNS.items()
        if name not in ("mt-nlg", "llama 3")
    }
    assert np.median(list(errors.values())) < 0.05


# Korthikanti et al., table 5: model-FLOP utilisation 41.5, 51.4, 56.0, 56.3 % with selective recompute
@pytest.mark.parametrize(
    ("name", "mfu"),
    [("korthikanti 22B", 0.415), ("korthikanti 175B", 0.514), ("korthikanti 530B", 0.56), ("korthikanti 1T", 0.563)],
)
def test_utilisation(name, mfu):
    assert_allclose(RUNS[name][1].predicted()[1], mfu, rtol=0.06)


# Korthikanti et al., table 5: selective recompute with sequence parallelism gives 29 to 32 % more than full recompute
@pytest.mark.parametrize("name", ["korthikanti 22B", "korthikanti 175B", "korthikanti 530B", "korthikanti 1T"])
def test_gain_of_selective_recompute(name):
    full, selective = (run.predicted()[0] for run in RUNS[name])
    assert 1.25 < full / selective < 1.35


# What ran on 80 GB must not be refused. Missed, and so left out: NeMo 405B on 576 devices, 81.8 GiB predicted.
@pytest.mark.parametrize(
    "run", [r for name, runs in RUNS.items() if name.startswith(("korth", "narayanan", "nemo 70B")) for r in runs]
)
def test_what_ran_fits(run):
    device = run.on.accelerator.memory_bytes
    assert verdict(run.predicted()[2], device, device) == "fits"


# Narayanan et al., SC21, section 5.3.2: interleaving gives more at small batches than at large ones
def test_interleaving_helps_small_batches_most():
    gains = []
    for batch in (24, 48, 96):
        plain, chunks = (
            Run(
                model=GPT_175B,
                on=REPEATED,
                batch=batch,
                pp=12,
                vpp=vpp,
                recompute="full",
                seconds=1,
                tolerance=0,
            ).predicted()[0]
            for vpp in (1, 2)
        )
        gains.append(plain / chunks)
    assert gains[0] > gains[1] > gains[2] > 1
    assert 1.08 < gains[0] < 1.25


# DeepSeek-V3 Technical Report, arXiv:2412.19437, table 1 and section 4.2: 180,000 H800 hours for 10^12 tokens on 2,048
# devices, PP16 with DualPipe, EP64, ZeRO-1, 15,360 sequences of 4,096. No constant was fitted to it. Its memory is
# missed: two copies of 32-bit gradients and 16-bit inputs of SwiGLU, which it keeps in 8 bits, are 5 % too much.
def test_deepseek_v3():
    scenario = Scenario(
        model="deepseek-v3", hardware=("hgx-h800",), stack="hai-llm", devices=(2048, 2048), tokens=10**12,
        global_batch=15360, seq_len=4096, precision="fp8", pp=16, ep=64, schedule="dualpipe", recompute="selective",
    )  # fmt: skip
    plan = estimate(resolve(scenario, CATALOG, lambda m: shapes.parameters(m).active)).plan
    published_s = 180e3 * 3600 / 2048 * 15360 * 4096 / 1e12
    assert_allclose(plan.step.time.total_s, published_s, rtol=0.10)
