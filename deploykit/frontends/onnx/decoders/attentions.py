"""`Attention`: where a layer of a decoder attends, and how. `attend` computes it with keys and values in pages."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import onnx_ir as ir

from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.frontends.stepping import attended

if TYPE_CHECKING:
    from deploykit.compiler.operators.building.context import Context
    from deploykit.compiler.operators.building.value import Value
    from deploykit.frontends.onnx.decoders.places import Places
    from deploykit.frontends.stepping import Step

Find: TypeAlias = "Callable[[ir.Value | None], Value | None]"
"""The value of a step that stands for one of the graph."""


@dataclass(frozen=True)
class Attention(ABC):
    """Attention of a layer, whose result is `result`: `heads` of queries and of keys, all of `size` channels; the
    factor of scores, how many tokens a query sees, itself included (None: all), and the bound of scores (0: none)."""

    result: ir.Value
    heads: tuple[int, int]
    size: int
    scale: float
    window: int | None
    softcap: float

    @property
    @abstractmethod
    def reads(self) -> tuple[ir.Value | None, ...]:
        """The values of the graph that it needs in a step."""

    @abstractmethod
    def check(self, places: Places) -> None:
        """Raises `Unsupported` if the graph computes something else."""

    @abstractmethod
    def operands(self, ctx: Context, find: Find, positions: Value) -> tuple[Value, Value, Value]:
        """Queries, keys and values of a step, each (1, tokens, heads * size)."""

    @abstractmethod
    def shaped(self, ctx: Context, y: Value) -> Value:
        """The result (1, tokens, heads * size), as the graph has it."""


def attend(
    ctx: Context, attention: Attention, layer: int, step: Step, states: dict[str, Value], find: Find, positions: Value
) -> Value:
    """The result of a layer. Its state gets the keys and values of the step."""
    given = attention.operands(ctx, find, positions)
    dtype, (q, k, v) = given[0].dtype, (ctx.cast(x, "float32") for x in given)
    heads, shared = attention.heads
    for x, count in ((q, heads), (k, shared), (v, shared)):
        if not ctx.equal(x.shape[2], count * attention.size):
            raise Unsupported(f"{x} for {count} heads of {attention.size}")
    y = attended(
        *(step.pages, states, layer, (q, k, v)),
        scale=attention.scale,
        window=attention.window,
        softcap=attention.softcap,
    )
    return attention.shaped(ctx, ctx.cast(y, dtype))
