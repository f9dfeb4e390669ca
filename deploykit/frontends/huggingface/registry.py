"""Families: how a model of a type of configuration is computed, and which heads it may have.

A family is one module of `families/`. It registers functions that build the graph:

    @text_encoder({"bert": "Bert"}, base="bert")
    def bert(m: Module, c: Config, text: Text) -> Tensor: ...

    @head("bert", "ForSequenceClassification")
    def classification(m: Module, c: Config, x: Tensor, text: Text) -> Outputs: ...
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from deploykit.compiler.operators.carried import Slots
from deploykit.errors import UnsupportedModelError
from deploykit.frontends.huggingface import families
from deploykit.frontends.huggingface.folder import Config
from deploykit.frontends.huggingface.tensors import Module, Tensor, as_mask
from deploykit.frontends.memory import Memory

if TYPE_CHECKING:
    from deploykit.compiler.operators.building.value import Value

Outputs: TypeAlias = Mapping[str, Tensor]
"""Results by the names that transformers gives them."""


IDS, MASK, TYPES = "input_ids", "attention_mask", "token_type_ids"
"""The inputs of a text model, as transformers names them."""


@dataclass(frozen=True)
class Text:
    """The inputs of a text model, each (batch, seq): ids of tokens, a mask that is 1 where a token counts, and the type
    of each token, if the family has types. A text has at most `longest` tokens; None if there is no limit.

    Decoders ask it what depends on where tokens are: in whole texts, which are here, or in parts of texts whose
    beginnings were read before (`generation.Step`)."""

    ids: Tensor
    mask: Tensor
    types: Tensor | None = None
    longest: int | None = None

    @cached_property
    def keys(self) -> Tensor:
        """Which keys count."""
        return as_mask(self.mask)

    def numbers(self) -> Tensor:
        """The number of each token among those of its text that count, from 1 on; 0 where it does not count."""
        return self.mask.counted(0)

    def placed(self, table: Tensor) -> Tensor:
        """The rows of a table (1, positions, width) for the positions of tokens."""
        return table.slice(1, 0, self.ids.shape[1])

    def attended(self, q: Tensor, k: Tensor, v: Tensor, way: Way) -> Tensor:
        """Attention to the tokens in front."""
        mask = self.keys
        if way.biases is not None:
            batch, count = self.mask.shape
            table = way.biases.slice(1, 0, count).reshape(1, way.heads[0], 1, count)
            mask = self.mask.reshape(batch, 1, 1, count).where_true(table, -np.inf)
        return q.attend(
            k,
            v,
            way.heads,
            mask,
            causal=True,
            scale=way.scale,
            window=(-1 if way.window is None else way.window - 1, -1),
            softcap=way.softcap,
        )

    @cached_property
    def slots(self) -> Slots:
        """Where states that are carried along tokens are."""
        return Slots.of_texts(self.ids.ctx, *self.ids.shape)

    def counting(self, x: Tensor) -> Tensor:
        """States of tokens (batch, length, width), 0 where they do not count."""
        return x * self.mask.reshape(*self.mask.shape, 1).cast("float32")

    def carried(self, name: str, rows: int, x: Tensor, run: Carry) -> Tensor:
        """What `run` computes, like `x` (batch, length, channels), with a state of so many rows of this name."""
        state = x.ctx.zeros(name, (self.ids.shape[0], rows, x.shape[2]), "float32")
        return x.of(run(self.slots, state)[1]).reshape(*x.shape)

    def asked(self, x: Tensor) -> Tensor:
        """The states of the tokens for which scores of the next words are asked: all."""
        return x


@dataclass(frozen=True)
class Way:
    """How a layer attends, by its number: the numbers of `heads` of queries and of keys, the factor of scores (None: by
    the size of heads), how many tokens a query sees, itself included (None: all), the bound of scores (0: none), and
    what is added to them by the positions of keys (heads, positions; None: nothing)."""

    layer: int
    heads: tuple[int, int]
    scale: float | None = None
    window: int | None = None
    softcap: float = 0.0
    biases: Tensor | None = None


Carry: TypeAlias = "Callable[[Slots, Value], tuple[Value, Value]]"
"""Computes the new state and results (tokens, channels), from a state."""

Encoder: TypeAlias = Callable[[Module, Config, Text], Tensor]
"""Computes the last hidden state (batch, seq, width)."""

Head: TypeAlias = Callable[[Module, Config, Tensor, Text], Outputs]
"""Computes results from the last hidden state. The module is the whole model."""


@dataclass(frozen=True)
class Family:
    """How models of a type are computed.

    `encode` computes the hidden state from the weights under `base`. `positions(config)` is the most tokens of a text;
    None if there is no limit. `types(config)` says whether tokens have types. Names of architectures are `prefix` and
    an ending of `heads`. `defaults` are the values of entries that a configuration may lack. `aliases` are the family's
    own names of entries, and the usual ones. `fixed` are entries that must have this value if they are there, because
    the family computes nothing else. `harmless` are entries that change no results. `unread` are beginnings of names of
    weights that a file may have although no result needs them. `remembers(config)` gives what a decoder
    remembers of tokens; None for other models."""

    name: str
    prefix: str
    base: str
    encode: Encoder
    positions: Callable[[Config], int | None]
    types: Callable[[Config], bool]
    defaults: Mapping[str, Any]
    aliases: Mapping[str, str]
    fixed: Mapping[str, Any]
    harmless: tuple[str, ...]
    unread: tuple[str, ...]
    remembers: Callable[[Config], Memory] | None = None
    heads: dict[str, Head] = field(default_factory=dict)


EMPTY: Mapping[str, Any] = MappingProxyType({})

FAMILIES: dict[str, Family] = {}
"""Families by the type of their configurations."""


def _has_positions(c: Config) -> int:
    return int(c.max_position_embeddings)


def _has_types(c: Config) -> bool:
    return int(c.get("type_vocab_size") or 0) > 1


def unlimited(_: Config) -> None:
    """Texts of any length."""


def untyped(_: Config) -> bool:
    """Tokens have no types."""
    return False


def text_encoder(
    prefixes: Mapping[str, str],
    *,
    base: str,
    positions: Callable[[Config], int | None] = _has_positions,
    types: Callable[[Config], bool] = _has_types,
    defaults: Mapping[str, Any] = EMPTY,
    aliases: Mapping[str, str] = EMPTY,
    fixed: Mapping[str, Any] = EMPTY,
    harmless: tuple[str, ...] = (),
    unread: tuple[str, ...] = (),
    remembers: Callable[[Config], Memory] | None = None,
) -> Callable[[Encoder], Encoder]:
    """Registers an encoder of texts for types of configurations, each with the beginning of its architectures' names.
    The other arguments are those of `Family`."""

    def register(encode: Encoder) -> Encoder:
        for name, prefix in prefixes.items():
            FAMILIES[name] = Family(
                name, prefix, base, encode, positions, types, defaults, aliases, fixed, harmless, unread, remembers
            )
        return encode

    return register


def head(types: str | Iterable[str], ending: str) -> Callable[[Head], Head]:
    """Registers a head of earlier registered families, by the ending of the name of its architecture."""

    def register(build: Head) -> Head:
        for name in (types,) if isinstance(types, str) else types:
            FAMILIES[name].heads[ending] = build
        return build

    return register


def find_family(config: Config) -> Family:
    """The family of a configuration. Raises `UnsupportedModelError` if there is none."""
    import_families()
    kind = str(config["model_type"])
    if kind not in FAMILIES:
        name = str((config.get("architectures") or [kind])[0])
        raise UnsupportedModelError(f"{name}: models of type '{kind}' have no importer of their own")
    return FAMILIES[kind]


def import_families() -> None:
    """Import the modules of families, which register what they know."""
    for module in pkgutil.iter_modules(families.__path__):
        importlib.import_module(f"{families.__name__}.{module.name}")
