"""What is trained: the network's shape, and the job's data, batch and precision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Format = Literal["bf16", "fp16", "fp8", "fp4", "int8"]
"""Number format of the matrix products."""


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
    """MLA: rank of the compressed queries; 0 for a full query projection."""
    kv_lora_rank: int = 0
    """MLA: rank of the compressed keys and values; 0 for other kinds of attention."""
    rope_head_dim: int = 0
    """MLA: width of the rotary part of a head, shared by all heads for keys."""
    v_head_dim: int = 0
    """MLA: width of one value head."""
    qkv_bias: bool = False
    """Biases on query, key and value projections."""
    output_bias: bool = False
    """Bias on the output projection."""
    qk_norm: bool = False
    """A norm of width ``head_dim`` on queries and on keys."""

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
class Experts:
    """A mixture of experts in place of the dense feed-forward part."""

    experts: int
    """Routed experts in one layer."""
    top_k: int
    """Routed experts that each token visits."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A transformer, shape only."""

    name: str
    """Name of the profile."""
    source: str
    """Where the shape was published."""
    layers: int
    """Transformer layers, without the multi-token-prediction ones."""
    hidden: int
    """Width of the residual stream."""
    vocab: int
    """Entries of the vocabulary, not padded."""
    ffn: int
    """Width of the dense feed-forward part; 0 where every layer has experts."""
    gated_mlp: bool
    """Three matrices with a gate (SwiGLU) rather than two."""
    tied_embeddings: bool
    """Whether the output head is the transposed embedding."""
    attention: Attention
    """Attention of every layer."""
    moe: Experts | None = None
    """The mixture of experts, if there is one."""
    learned_positions: int = 0
    """Entries of a learned position embedding; 0 with rotary or relative positions."""
    norm_bias: bool = False
    """LayerNorm with weight and bias rather than RMSNorm with weight alone."""
    mlp_bias: bool = False
    """Biases in the feed-forward part."""
    mtp_layers: int = 0
    """Multi-token-prediction modules: a layer, a projection and two norms each; trained, not in ``layers``."""

    @property
    def is_moe(self) -> bool:
        """Whether any layer has experts."""
        return self.moe is not None

    @property
    def dense_layers(self) -> int:
        """Layers with a dense feed-forward part."""
        return self.moe.dense_layers if self.moe else self.layers

    @property
    def moe_layers(self) -> int:
        """Layers with experts."""
        return self.layers - self.dense_layers


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
