"""Subgraphs as Relax functions that take what they capture as parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import onnx_ir as ir
from tvm import ir as tvm_ir
from tvm import relax

from deploykit.frontends.dtypes import storage_dtype
from deploykit.frontends.onnx.context import Context, emit_function
from deploykit.frontends.onnx.registry import Unsupported
from deploykit.frontends.onnx.value import AnyValue, Value

if TYPE_CHECKING:
    from deploykit.frontends.onnx.importer import GraphImporter, Scope


@dataclass(frozen=True)
class Subgraph:
    """A function of the module. Its parameters are the explicit ones, then `captured` in order."""

    function: tvm_ir.GlobalVar
    captured: tuple[relax.Expr, ...]
    results: tuple[Value, ...]


def free_names(graph: ir.Graph) -> set[str]:
    """Names that a graph and the graphs in it read from outside."""
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
) -> Subgraph:
    """Import `graph` as a function.

    `parameters` describe the explicit parameters (only dtype and shape count). `arguments` gives, inside the function,
    the values of the graph's inputs from them.
    """
    outer = {n: scope[n] for n in captured}
    tensors = [(n, v) for n, v in outer.items() if isinstance(v, Value) and (v.var is not None or v.last is not None)]
    given = [_parameter(ctx, f"{name}_p{i}", v) for i, v in enumerate(parameters)]
    inner_values = [_parameter(ctx, f"{name}_{n}", v) for n, v in tensors]
    builder = relax.BlockBuilder()
    function_name = ctx.shared.unique(name)
    results: list[Value] = []

    def body() -> list[relax.Expr]:
        inner = Context(ctx.shared, builder)
        inner.node_name = ctx.node_name
        local: Scope = {**scope, **{n: v for (n, _), v in zip(tensors, inner_values, strict=True)}}
        values = arguments(inner, given, local)
        local.update({v.name or "": value for v, value in zip(graph.inputs, values, strict=False)})
        importer.graph(inner, graph, local)
        results.extend(_tensor_result(v, local) for v in graph.outputs)
        return [inner.tensor(r) for r in results]

    emit_function(builder, function_name, [v.var for v in (*given, *inner_values)], body, private=True)
    function = builder.get()[function_name]
    gvar = tvm_ir.GlobalVar(function_name)
    relax.expr._update_type(gvar, function.ty)  # noqa: SLF001  a GlobalVar made by hand has no public way to its type
    ctx.shared.functions[gvar] = function
    return Subgraph(gvar, tuple(ctx.tensor(v) for _, v in tensors), tuple(results))


def _parameter(ctx: Context, name: str, like: Value) -> Value:
    var = relax.Var(ctx.shared.unique(name), relax.TensorType(like.shape, storage_dtype(like.dtype)))
    return Value(like.dtype, like.shape, var=var)


def _tensor_result(output: ir.Value, scope: Mapping[str, AnyValue | None]) -> Value:
    value = scope.get(output.name or "")
    if not isinstance(value, Value):
        raise Unsupported(f"the subgraph's output '{output.name}' is not a tensor")
    return value
