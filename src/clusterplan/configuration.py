"""One configuration of a model (``config.json``) whose keys are checked as they are read.

The same thing has different keys in different families: names that stand for one another are listed here.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import NoReturn

from clusterplan.errors import ProfileError

LARGEST_COUNT = 1_000_000
"""assumed: no width, number of heads, experts or layers is larger; what is, is a slip of the keyboard."""
LARGEST_TABLE = 16_777_216
"""assumed: no vocabulary, no table of positions and no window has more entries."""
DEEPEST = 10_000
"""assumed: no network has more layers."""


class Keys:
    """One configuration; each key is checked as it is read, and it is known which were."""

    def __init__(self, table: dict[str, object], where: str, warnings: list[str] | None = None) -> None:
        self.table = dict(table)
        for part in ("attn_config", "ffn_config"):  # mpt, dbrx
            inner = table.get(part)
            if isinstance(inner, dict):
                self.table |= {f"{part}.{key}": value for key, value in inner.items()}
        self.where = where
        self.warnings: list[str] = [] if warnings is None else warnings
        self.used: set[str] = set()

    def fail(self, message: str) -> NoReturn:
        """Refuse the configuration."""
        raise ProfileError(message, where=self.where)

    def warn(self, message: str) -> None:
        """Note what the configuration leaves open."""
        if (text := f"{self.where}: {message}") not in self.warnings:
            self.warnings.append(text)

    def get(self, name: str) -> object:
        """The value under a name; null is taken for absent, as transformers does."""
        self.used.add(name)
        return self.table.get(name)

    def has(self, name: str) -> bool:
        """Whether the key is there and not null."""
        return self.get(name) is not None

    def whole(self, *names: str, least: int = 1, most: int = LARGEST_COUNT, default: int | None = None) -> int:
        """A whole number under any of its names."""
        return self.each(1, *names, least=least, most=most, default=default, listed=False)[0]

    def each(
        self,
        layers: int,
        *names: str,
        least: int = 1,
        most: int = LARGEST_COUNT,
        default: int | None = None,
        listed: bool = True,
    ) -> list[int]:
        """A whole number for each layer, under any of its names: one for all, or a list."""
        present = [name for name in names if self.has(name)]
        if not present:
            if default is None:
                others = f" (or {', '.join(names[1:])})" if names[1:] else ""
                state = "null" if names[0] in self.table else "missing"
                self.fail(f"{names[0]}{others} is {state}, and the shape cannot be told without it")
            return [default] * layers
        values = [self._each(name, layers, least, most, listed) for name in present]
        if any(value != values[0] for value in values):
            self.fail(
                f"{' and '.join(present)} differ: {[value[0] if len(set(value)) == 1 else value for value in values]}"
            )
        return values[0]

    def _each(self, name: str, layers: int, least: int, most: int, listed: bool) -> list[int]:
        value = self.table[name]
        if isinstance(value, list) and not listed:
            self.fail(f"{name} is a list, where one number for all layers is known")
        if isinstance(value, list) and len(value) != layers:
            self.fail(f"{name} has {len(value)} entries for {layers} layers")
        found = []
        for one in value if isinstance(value, list) else [value] * layers:
            if isinstance(one, bool) or not isinstance(one, int):
                self.fail(f"{name} = {quote(one)} is not a whole number")
            if not least <= one <= most:
                self.fail(f"{name} = {quote(one)} is not between {least} and {most}")
            found.append(one)
        return found

    def flag(self, name: str, default: bool | None = None) -> bool:
        """A boolean; numbers are refused."""
        if not self.has(name):
            if default is None:
                self.fail(f"{name} is missing, and its default is not known for this model_type")
            return default
        value = self.table[name]
        if not isinstance(value, bool):
            self.fail(f"{name} = {quote(value)} is neither true nor false")
        return value

    def switch(self, fact: Switch) -> bool:
        """A fact, or what its key says."""
        if isinstance(fact, bool):
            return fact
        return self.flag(*fact) if isinstance(fact, tuple) else fact(self)

    def share(self, *names: str) -> float | None:
        """A number from 0 to 1; None if absent."""
        for name in names:
            value = self.get(name)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
                self.fail(f"{name} = {quote(value)} is no share of a whole")
            return float(value)
        return None

    def text(self, name: str) -> str:
        """A string; empty if absent."""
        value = self.get(name)
        if value is None:
            return ""
        if not isinstance(value, str):
            self.fail(f"{name} = {quote(value)} is not a text")
        return value

    def numbers(self, name: str) -> list[int] | None:
        """A list of whole numbers, or their text with commas; None if absent."""
        value = self.get(name)
        if value is None:
            return None
        if isinstance(value, str) and all(part.strip().isdigit() for part in value.split(",")):
            value = [int(part) for part in value.split(",")]
        if not isinstance(value, list) or not all(isinstance(one, int) and not isinstance(one, bool) for one in value):
            self.fail(f"{name} = {quote(value)} is no list of whole numbers")
        return value

    @property
    def layers(self) -> int:
        """Layers of the model."""
        return self.whole(*LAYERS, most=DEEPEST)

    @property
    def hidden(self) -> int:
        """Width of the residual stream."""
        return self.whole(*HIDDEN)

    @property
    def heads(self) -> int:
        """Query heads."""
        return self.whole(*HEADS)


def quote(value: object) -> str:
    """A value as JSON has it, shortened."""
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else json.dumps(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


Switch = bool | tuple[str, bool] | Callable[[Keys], bool]
"""A fact of a family, or the key that says it and what its absence means, or how keys say it."""

HIDDEN = ("hidden_size", "n_embd", "n_embed", "d_model")
LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
HEADS = ("num_attention_heads", "n_head", "n_heads")
KV_HEADS = ("num_key_value_heads", "num_kv_heads", "attn_config.kv_n_heads", "num_attention_groups")
HEAD_DIM = ("head_dim", "attention_head_dim", "kv_channels")
FFN = ("intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size")
VOCAB = ("vocab_size", "padded_vocab_size")
EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts", "ffn_config.moe_num_experts")
TOP_K = ("num_experts_per_tok", "experts_per_token", "moe_k", "moe_topk", "moe_top_k", "ffn_config.moe_top_k")
EXPERT_FFN = ("moe_intermediate_size", "expert_ffn_hidden_size")
