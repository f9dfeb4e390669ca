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
from types import MappingProxyType
from typing import Any, TypeAlias

from deploykit.errors import UnsupportedModelError
from deploykit.frontends.huggingface import families
from deploykit.frontends.huggingface.folder import Config
from deploykit.frontends.huggingface.tensors import Module, Tensor

Outputs: TypeAlias = Mapping[str, Tensor]
"""Results by the names that transformers gives them."""


IDS, MASK, TYPES = "input_ids", "attention_mask", "token_type_ids"
"""The inputs of a text model, as transformers names them."""


@dataclass(frozen=True)
class Text:
    """The inputs of a text model, each (batch, seq): ids of tokens, a mask that is 1 where a token counts, and the type
    of each token, if the family has types. A text has at most `longest` tokens; None if there is no limit."""

    ids: Tensor
    mask: Tensor
    types: Tensor | None = None
    longest: int | None = None


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
    weights that a file may have although no result needs them."""

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
) -> Callable[[Encoder], Encoder]:
    """Registers an encoder of texts for types of configurations, each with the beginning of its architectures' names.
    The other arguments are those of `Family`."""

    def register(encode: Encoder) -> Encoder:
        for name, prefix in prefixes.items():
            FAMILIES[name] = Family(
                name, prefix, base, encode, positions, types, defaults, aliases, fixed, harmless, unread
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
