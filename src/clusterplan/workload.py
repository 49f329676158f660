"""What is trained: the network's shape, and the job's data, batch and precision."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

Format = Literal["bf16", "fp16", "fp8", "fp4", "int8"]
"""Number format of the matrix products."""

SAME_FORMATS: Mapping[str, Format] = {"mxfp8": "fp8", "nvfp4": "fp4"}
"""Other names of formats, by how their scales are laid out: priced alike, since no measurement tells them apart."""

NormPlace = Literal["before", "after", "around"]
"""Where the norms of a part stand: before it, on its result, or both (sandwich)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attention:
    """Attention of one layer: multi-head, grouped-query, or latent (MLA) where ``kv_lora_rank`` is set."""

    heads: int
    """Query heads."""
    kv_heads: int
    """Key and value heads; equal to ``heads`` for plain multi-head attention."""
    head_dim: int
    """Width of one query or key head; for MLA its part without rotary position."""
    q_lora_rank: int = 0
    """Rank of compressed queries, with a norm between the two products; 0 for one full projection."""
    kv_lora_rank: int = 0
    """MLA: rank of the compressed keys and values; 0 for other kinds of attention."""
    rope_head_dim: int = 0
    """MLA: width of the rotary part of a head, shared by all heads for keys."""
    v_head_dim: int = 0
    """MLA: width of one value head."""
    rotary_dim: int | None = None
    """Width of a head that turns with its position, for other kinds; all of it if not given, 0 for none."""
    window: int = 0
    """Keys that a query sees at most, its own included; 0 for all before it."""
    is_chunked: bool = False
    """The window does not move with the query: the sequence is cut into chunks of its size."""
    index_heads: int = 0
    """Heads of an indexer that picks the ``window`` keys of each query (DeepSeek sparse attention); 0 for none."""
    index_dim: int = 0
    """Width of a head of the indexer."""
    qkv_bias: bool = False
    """Biases on query, key and value projections; for MLA on those down to the ranks."""
    output_bias: bool = False
    """Bias on the output projection."""
    qk_norm: bool = False
    """Norms on queries and on keys."""
    qk_norm_weights: Literal["head", "heads", "none"] = "head"
    """Weights of these norms: one set of ``head_dim`` for all heads, one for each head, or none."""
    sinks: bool = False
    """One learned logit for each query head that takes weight from the keys."""
    output_gate: bool = False
    """A gate for each value of each head, projected from the layer's input with the queries."""
    shared_kv: bool = False
    """Keys and values are those of a layer before: no projection of its own."""

    @property
    def is_latent(self) -> bool:
        """Whether keys and values are compressed (MLA)."""
        return self.kv_lora_rank > 0

    @property
    def qk_dim(self) -> int:
        """Width of a head in the product of queries and keys."""
        return self.head_dim + self.rope_head_dim

    @property
    def value_dim(self) -> int:
        """Width of a head in the product with values."""
        return self.v_head_dim or self.head_dim


@dataclass(frozen=True, slots=True, kw_only=True)
class StateSpace:
    """A selective state space in place of attention: Mamba, or Mamba-2 where ``heads`` are given."""

    inner: int
    """Width of the expanded stream."""
    state: int
    """Entries of the state for each channel."""
    conv: int
    """Tokens that the convolution before it sees."""
    dt_rank: int = 0
    """Mamba: rank of the projection to step widths."""
    heads: int = 0
    """Mamba-2: heads, which share a step width; 0 for Mamba."""
    groups: int = 1
    """Mamba-2: groups of heads that share their input and output maps."""
    conv_bias: bool = True
    """Bias on the convolution."""
    bias: bool = False
    """Biases on the projections into and out of the part."""
    inner_norms: bool = False
    """Mamba: norms with weights on step widths and on both maps (Jamba). Mamba-2 always has one before its output."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearAttention:
    """Attention with a state of fixed size in place of keys and values."""

    rule: Literal["gated_delta", "lightning"]
    """How the state is updated: gated delta rule (Qwen3-Next), or decay alone (MiniMax-01)."""
    key_heads: int
    """Query and key heads."""
    value_heads: int
    """Value heads, one state each."""
    key_dim: int
    """Width of one query or key head."""
    value_dim: int
    """Width of one value head."""
    conv: int = 0
    """Tokens that the convolution before it sees; 0 for none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Experts:
    """A mixture of experts in place of the dense feed-forward part."""

    experts: int
    """Routed experts in one layer."""
    top_k: int
    """Routed experts that each token visits, those without weights included."""
    ffn: int
    """Width of one routed expert."""
    shared_ffn: int = 0
    """Width of all shared experts together; 0 for none."""
    dense_layers: int = 0
    """Leading layers that keep the dense feed-forward part."""
    router_bias: bool = False
    """One bias per expert in the router."""
    shared_gate: bool = False
    """A sigmoid gate of one output on the shared experts."""
    expert_bias: bool = False
    """Biases in the routed experts."""
    zero_experts: int = 0
    """Experts beside the others that return their input: in the router, but without weights and work."""

    groups: int = 1
    """Groups of experts, from which the router first chooses."""
    groups_per_token: int = 1
    """Groups that it takes; all of them where there is one."""

    @property
    def visited(self) -> float:
        """Experts with weights that a token visits, on the mean over even routing."""
        return self.top_k * self.experts / (self.experts + self.zero_experts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One kind of layer: at most one of the three mixers, then a dense feed-forward part, experts, both or neither."""

    attention: Attention | None = None
    state_space: StateSpace | None = None
    linear_attention: LinearAttention | None = None
    ffn: int = 0
    """Width of the dense feed-forward part; 0 for none. With experts it stands beside them."""
    moe: Experts | None = None
    """Experts in place of the dense feed-forward part, or beside it."""
    moe_norm: bool = False
    """Experts beside a dense part have a norm of their own instead of its first one."""
    repeats: int = 1
    """Mixers, each with its dense part, that follow one another in one layer; the experts stand beside all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A transformer, or a network of such layers, shape only.

    Where all layers have the same attention, and experts follow leading dense layers, the shape stands in
    ``attention``, ``ffn`` and ``moe``. Other models name their ``kinds`` of layers and the ``pattern`` in which they
    follow one another.
    """

    name: str
    """Name of the profile."""
    source: str
    """Where the shape was published."""
    layers: int
    """Layers, without the multi-token-prediction ones."""
    hidden: int
    """Width of the residual stream."""
    vocab: int
    """Entries of the vocabulary, not padded."""
    ffn: int = 0
    """Width of the dense feed-forward part; 0 where every layer has experts, or with ``kinds``."""
    gated_mlp: bool
    """Three matrices with a gate (SwiGLU) rather than two."""
    tied_embeddings: bool
    """Whether the output head is the transposed embedding."""
    attention: Attention | None = None
    """Attention of every layer; not given with ``kinds``."""
    moe: Experts | None = None
    """The mixture of experts, if there is one; not given with ``kinds``."""
    kinds: Mapping[str, Layer] = field(default_factory=dict)
    """Kinds of layers by name, where layers differ."""
    pattern: str = ""
    """Kinds of the layers in order, such as ``3 dense, 58 moe`` or ``10 (5 local, global), 2 local``."""
    learned_positions: int = 0
    """Entries of a learned position embedding; 0 with rotary or relative positions."""
    embedding_norm: bool = False
    """A norm after the embedding."""
    norm_place: NormPlace = "before"
    """Where the norms of attention and feed-forward part stand."""
    norm_weight: bool = True
    """Norms have weights."""
    norm_bias: bool = False
    """LayerNorm with weight and bias rather than RMSNorm with weight alone."""
    final_norm: bool = True
    """A norm before the output head."""
    is_parallel: bool = False
    """Attention and feed-forward part stand side by side and share one residual sum."""
    shared_norm: bool = False
    """Attention and feed-forward part side by side share their norm too."""
    mlp_bias: bool = False
    """Biases in the dense feed-forward part."""
    head_bias: bool = False
    """Bias on the output head."""
    mtp_layers: int = 0
    """Multi-token-prediction modules: a layer, a projection and three norms each; trained, not in ``layers``."""

    @property
    def layer_names(self) -> tuple[str, ...]:
        """Kind of each layer."""
        if self.kinds:
            return expand(self.pattern)
        dense = self.moe.dense_layers if self.moe else self.layers
        return ("dense",) * dense + ("moe",) * (self.layers - dense)

    @property
    def layer_counts(self) -> dict[str, int]:
        """Layers by kind, only of kinds that occur."""
        names = self.layer_names
        return {kind: names.count(kind) for kind in dict.fromkeys(names)}

    def layer(self, kind: str) -> Layer:
        """What a layer of a kind is made of; ``mtp`` is as the last layer."""
        if kind == "mtp":
            kind = self.layer_names[-1]
        if self.kinds:
            return self.kinds[kind]
        if kind == "moe":
            return Layer(attention=self.attention, moe=self.moe)
        return Layer(attention=self.attention, ffn=self.ffn)

    @property
    def every_layer(self) -> tuple[Layer, ...]:
        """The layers of each kind that occurs."""
        return tuple(map(self.layer, self.layer_counts))

    @property
    def is_moe(self) -> bool:
        """Whether any layer has experts."""
        return self.moe is not None or any(kind.moe for kind in self.kinds.values())

    @property
    def dense_layers(self) -> int:
        """Layers without experts."""
        return sum(count for kind, count in self.layer_counts.items() if self.layer(kind).moe is None)

    @property
    def moe_layers(self) -> int:
        """Layers with experts."""
        return self.layers - self.dense_layers

    @property
    def has_fixed_state(self) -> bool:
        """Whether any layer mixes tokens through a state of fixed size; the time of such layers is a rough figure."""
        return any(kind.state_space or kind.linear_attention for kind in self.kinds.values())


LONGEST_PATTERN = 10_000
"""Assumed: no network is deeper."""
_TOKEN = re.compile(r"\s*(?:(\d+)|([a-z][a-z0-9_-]*)|([(),]))")


@lru_cache(maxsize=256)
def expand(pattern: str) -> tuple[str, ...]:
    """Kinds of all layers of a pattern; empty if it cannot be read or is too long.

    A number before a name or a bracket repeats it.

    Examples
    --------
    >>> expand("2 (3 linear, full), full")
    ('linear', 'linear', 'linear', 'full', 'linear', 'linear', 'linear', 'full', 'full')
    """
    tokens, at = [], 0
    while pattern[at:].strip():
        match = _TOKEN.match(pattern, at)
        if not match:
            return ()
        tokens.append(match.group().strip())
        at = match.end()
    # Brackets become lists on a stack; each waits for its repetition, which came before it.
    stack: list[tuple[int, list[str]]] = [(1, [])]
    times, wants_item = 1, True
    for token in tokens:
        if token.isdigit() and wants_item and times == 1 and 1 <= int(token[:9]) <= LONGEST_PATTERN:
            times = int(token)
        elif token == "(" and wants_item:
            stack.append((times, []))
            times = 1
        elif token == "," and not wants_item:
            wants_item = True
        elif token == ")" and not wants_item and len(stack) > 1:
            repeat, inner = stack.pop()
            stack[-1][1].extend(inner * repeat)
        elif token[0].isalpha() and wants_item:
            stack[-1][1].extend([token] * times)
            times, wants_item = 1, False
        else:
            return ()
        if len(stack[-1][1]) > LONGEST_PATTERN:
            return ()
    return tuple(stack[0][1]) if len(stack) == 1 and not wants_item else ()


def compress(names: tuple[str, ...]) -> str:
    """Shortest pattern of runs and of repeated groups of runs that expands to these kinds.

    Examples
    --------
    >>> compress(("linear", "linear", "full") * 3 + ("full",))
    '3 (2 linear, full), full'
    """
    count = len(names)
    best: list[tuple[int, str]] = [(0, "")] * (count + 1)
    for start in range(count - 1, -1, -1):
        run = 1
        while start + run < count and names[start + run] == names[start]:
            run += 1
        choices = [(1, run, f"{run} {names[start]}" if run > 1 else names[start])]
        for length in range(2, (count - start) // 2 + 1):
            group, times = names[start : start + length], 1
            while names[start + times * length : start + (times + 1) * length] == group:
                times += 1
            if times > 1 and len(set(group)) > 1:
                runs = _runs(group)
                choices.append((1 + runs.count(",") + 1, times * length, f"{times} ({runs})"))
        best[start] = min(
            (size + best[start + taken][0], text + (f", {best[start + taken][1]}" if best[start + taken][1] else ""))
            for size, taken, text in choices
        )
    return best[0][1]


def _runs(names: tuple[str, ...]) -> str:
    """Names with each run counted once."""
    parts: list[tuple[str, int]] = []
    for name in names:
        if parts and parts[-1][0] == name:
            parts[-1] = (name, parts[-1][1] + 1)
        else:
            parts.append((name, 1))
    return ", ".join(f"{times} {name}" if times > 1 else name for name, times in parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What is done with the model: data, batch, precision."""

    tokens: float
    """Tokens that the whole run sees."""
    seq_len: int
    """Tokens of one sequence."""
    global_batch: int
    """Sequences of one optimizer step that are aimed at."""
    batch_fixed: bool
    """Whether ``global_batch`` is exact; otherwise a multiple of dp × micro-batch within 5 % of it will do."""
    precision: Format = "bf16"
    """Format of the matrix products."""
    batch_low: int | None = None
    """Fewest sequences of a step where a range is given, of which ``global_batch`` is the upper end."""
