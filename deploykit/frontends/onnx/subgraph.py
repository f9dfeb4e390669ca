"""Imports subgraphs as Relax functions that get the values they capture as parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import onnx_ir as ir
from tvm import ir as tvm_ir
from tvm import relax, tirx

from deploykit.compiler.dtypes import storage_dtype
from deploykit.compiler.operators.building.composite import leaves, with_leaves
from deploykit.compiler.operators.building.context import Context, emit_function
from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.compiler.operators.building.value import (
    POISON,
    AnyValue,
    OptionalValue,
    SequenceValue,
    StackValue,
    Value,
)
from deploykit.frontends.onnx.registry import Spoiled

if TYPE_CHECKING:
    from deploykit.compiler.dims.expressions import IntExpr
    from deploykit.frontends.onnx.importer import GraphImporter, Scope


SEED = "seed"
"""The name of the parameter for the model's seed."""

Finish: TypeAlias = "Callable[[Context, Sequence[AnyValue]], Sequence[AnyValue]]"
"""Computes, inside a function, its results from the results of the graph."""


def as_they_are(ctx: Context, values: Sequence[AnyValue]) -> Sequence[AnyValue]:  # noqa: ARG001
    return values


@dataclass(frozen=True)
class Subgraph:
    """A function of the module. Its parameters are the explicit ones, then `captured` in order. It returns the leaves
    of the `results`. `sizes` are the data dims that it sets."""

    function: tvm_ir.GlobalVar
    captured: tuple[relax.Expr, ...]
    results: tuple[AnyValue, ...]
    sizes: frozenset[tirx.Var]

    @property
    def tensors(self) -> list[Value]:
        """The results as tensors. Raises `Unsupported` if one is not a tensor of numbers."""
        for result in self.results:
            if not isinstance(result, Value) or result.text is not None:
                kind = "strings" if isinstance(result, Value) else "a sequence or optional"
                raise Unsupported(f"a loop whose body gives {kind}; only tensors of numbers can be carried")
        return [result for result in self.results if isinstance(result, Value)]


def free_names(graph: ir.Graph) -> set[str]:
    """The names that a graph, including its inner graphs, reads from outside."""
    defined = {v.name for v in graph.inputs} | set(graph.initializers)
    free: set[str] = set()
    for node in graph:
        free |= {v.name for v in node.inputs if v is not None and v.name} - defined
        for attribute in node.attributes.values():
            if attribute.type == ir.AttributeType.GRAPH:
                free |= free_names(attribute.as_graph()) - defined
        defined |= {v.name for v in node.outputs}
    return {n for n in free | ({v.name for v in graph.outputs} - defined) if n}


def build(
    importer: GraphImporter,
    ctx: Context,
    name: str,
    graph: ir.Graph,
    scope: Mapping[str, AnyValue | None],
    captured: Sequence[str],
    parameters: Sequence[Value],
    arguments: Callable[[Context, Sequence[Value], Scope], Sequence[AnyValue]],
    finish: Finish = as_they_are,
    iteration: tirx.Var | None = None,
) -> Subgraph:
    """Import `graph` as a function.

    `parameters` describe the explicit parameters by dtype and shape. `arguments` computes, inside the function, the
    values of the graph's inputs from them. `iteration` is the iteration number if the function is the body of a loop.
    Requirements inside the function are checked when it runs, and are not assumed outside.
    """
    assumed, known = ctx.shared.facts.mark(), len(ctx.shared.data_dims)
    outer = {n: leaves(ctx, scope[n]) for n in captured if scope[n] is not POISON}
    tensors = [(n, v) for n, parts in outer.items() for v in parts if _computed(v)]
    tensors += [] if ctx.seed is None else [(SEED, ctx.seed)]
    given = [_parameter(ctx, f"{name}_p{i}", v) for i, v in enumerate(parameters)]
    inner_values = [_parameter(ctx, f"{name}_{n}", v) for n, v in tensors]
    builder = relax.BlockBuilder()
    function_name = ctx.shared.unique(name)
    results: list[AnyValue] = []

    def body() -> list[relax.Expr]:
        iterations = ctx.iterations if iteration is None else (*ctx.iterations, iteration)
        inner = Context(ctx.shared, builder, iterations, (*ctx.functions, function_name))
        inner.site = ctx.site
        inside = iter(inner_values)
        own = {n: iter([next(inside) if _computed(v) else v for v in parts]) for n, parts in outer.items()}
        local: Scope = {**scope, **{n: with_leaves(scope[n], own[n]) for n, parts in outer.items() if parts}}
        inner.seed = None if ctx.seed is None else inner_values[-1]
        values = arguments(inner, given, local)
        local.update({v.name or "": value for v, value in zip(graph.inputs, values, strict=False)})
        importer.graph(inner, graph, local)
        results.extend(finish(inner, [_result(v, local) for v in graph.outputs]))
        return [inner.tensor(leaf) for r in results for leaf in leaves(inner, r)]

    function = emit_function(builder, function_name, [v.var for v in (*given, *inner_values)], body)
    ctx.shared.facts.forget_since(assumed)
    gvar = tvm_ir.GlobalVar(function_name)
    relax.expr._update_type(gvar, function.ty)  # noqa: SLF001  a GlobalVar made by hand has no public way to its type
    ctx.shared.functions[gvar] = function
    sizes = frozenset(dim.var for dim in ctx.shared.data_dims[known:])
    return Subgraph(gvar, tuple(ctx.tensor(v) for _, v in tensors), tuple(results), sizes)


def _parameter(ctx: Context, name: str, like: Value) -> Value:
    var = relax.Var(ctx.shared.unique(name), relax.TensorType(like.shape, storage_dtype(like.dtype)))
    return Value(like.dtype, like.shape, var=var)


def _computed(value: Value) -> bool:
    """Whether a value is a tensor of the outer function, rather than known at import."""
    return value.var is not None or value.last is not None


def _result(output: ir.Value, scope: Mapping[str, AnyValue | None]) -> AnyValue:
    value = scope.get(output.name or "")
    if value is POISON:
        raise Spoiled
    if not isinstance(value, Value | SequenceValue | StackValue | OptionalValue):
        raise Unsupported(f"the subgraph's output '{output.name}' is not computed")
    return value


def unpacked(
    ctx: Context, call: relax.Call, dtypes: Sequence[str], shapes: Sequence[Sequence[IntExpr]]
) -> tuple[Value, ...]:
    """Emit a call that returns a tuple of tensors; returns these tensors."""
    result = ctx.builder.emit(call)
    return tuple(
        ctx.bind(relax.TupleGetItem(result, i), d, s) for i, (d, s) in enumerate(zip(dtypes, shapes, strict=True))
    )
