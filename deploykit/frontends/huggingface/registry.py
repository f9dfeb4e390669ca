"""Families: how a model of a type of configuration is computed, and which heads it may have.

A family is one module of `families/`. It registers functions that build the graph:

    @text_encoder("bert", base="bert")
    def bert(m: Module, c: Config, text: Text) -> Tensor: ...

    @head("bert", "ForSequenceClassification")
    def classification(m: Module, c: Config, x: Tensor) -> Outputs: ...
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from deploykit.errors import UnsupportedModelError
from deploykit.frontends.huggingface import families
from deploykit.frontends.huggingface.folder import Config
from deploykit.frontends.huggingface.tensors import Module, Tensor

Outputs: TypeAlias = Mapping[str, Tensor]
"""Results by the names that transformers gives them."""


@dataclass(frozen=True)
class Text:
    """The inputs of a text model, each (batch, seq): ids of tokens, a mask that is 1 where a token counts, and the type
    of each token, if the family has types."""

    ids: Tensor
    mask: Tensor
    types: Tensor | None = None


Encoder: TypeAlias = Callable[[Module, Config, Text], Tensor]
"""Computes the last hidden state (batch, seq, width)."""

Head: TypeAlias = Callable[[Module, Config, Tensor], Outputs]
"""Computes results from the last hidden state. The module is the whole model."""


@dataclass(frozen=True)
class Family:
    """`encode` computes the hidden state from the weights under `base`. `positions(config)` is the most tokens of a
    text; None if there is no limit."""

    name: str
    base: str
    encode: Encoder
    positions: Callable[[Config], int | None]
    types: bool
    heads: dict[str, Head] = field(default_factory=dict)


FAMILIES: dict[str, Family] = {}
"""Families by the type of their configurations."""


OTHER_TYPES: set[str] = set()
"""Types of configurations of models that are not of texts, for messages."""


def text_encoder(
    *types: str,
    base: str,
    positions: Callable[[Config], int | None] = lambda c: int(c.max_position_embeddings),
    token_types: bool = False,
) -> Callable[[Encoder], Encoder]:
    """Registers an encoder of texts for these types of configurations."""

    def register(encode: Encoder) -> Encoder:
        FAMILIES.update({name: Family(name, base, encode, positions, token_types) for name in types})
        return encode

    return register


def head(types: str | tuple[str, ...], ending: str) -> Callable[[Head], Head]:
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
        known = ", ".join(sorted({*FAMILIES, *OTHER_TYPES}))
        raise UnsupportedModelError(f"models of type '{kind}' have no importer of their own; there are {known}")
    return FAMILIES[kind]


def import_families() -> None:
    """Import the modules of families, which register what they know."""
    for module in pkgutil.iter_modules(families.__path__):
        importlib.import_module(f"{families.__name__}.{module.name}")
