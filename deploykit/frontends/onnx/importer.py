"""ONNX graph -> Relax, node by node in order.

A node is tried, in this order: folding (all inputs constant), shape arithmetic (all inputs known), the operator's own
importer, the model's own function of that name, the ONNX function body of the operator. Whatever cannot be imported
is collected, and the model is refused with the whole list.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import onnx
import onnx_ir as ir
from tvm import ir as tvm_ir
from tvm import relax, tirx

from deploykit.compiler.program.ir import Dim, Port
from deploykit.errors import Problem, UnsupportedModelError, UsageError
from deploykit.frontends.dtypes import storage_dtype
from deploykit.frontends.model import DimBounds, ImportedModel
from deploykit.frontends.onnx import folding, ops, registry, symbolic
from deploykit.frontends.onnx.context import Context, Shared, emit_function
from deploykit.frontends.onnx.node import Node, dtype_name
from deploykit.frontends.onnx.reader import read
from deploykit.frontends.onnx.registry import Unsupported, normalise_domain
from deploykit.frontends.onnx.value import AnyValue, Value, constant

ops.load()

Scope = dict[str, "AnyValue | None"]


def load_onnx(
    source: str | Path | bytes | onnx.ModelProto | ir.Model, dims: DimBounds | None = None, name: str | None = None
) -> ImportedModel:
    """Import an ONNX model.

    `dims` pins symbolic dims or gives their bounds. Raises `UsageError` (no such file or dim) and
    `UnsupportedModelError` with every problem found.
    """
    model = source if isinstance(source, ir.Model) else read(source)
    if name is None:
        name = Path(source).stem if isinstance(source, (str, Path)) else (model.graph.name or "model")
    return GraphImporter(model, dict(dims or {}), name).run()


class GraphImporter:
    """One import of one model."""

    def __init__(self, model: ir.Model, dims: DimBounds, name: str) -> None:
        self.model = model
        self.bounds = dims
        self.name = name
        self.shared = Shared()
        self.problems: list[Problem] = []
        self.dims: dict[str, Dim | int] = {}
        self.opsets = {normalise_domain(d): v for d, v in model.opset_imports.items()}
        self.functions = {(normalise_domain(f.domain), f.name): f for f in model.functions.values()}

    def run(self) -> ImportedModel:
        self._check_known(self.model.graph, set())
        if self.problems:
            self._refuse()
        builder = relax.BlockBuilder()
        graph = self.model.graph
        inputs = [v for v in graph.inputs if v.name not in graph.initializers]
        ports = tuple(self._port(v) for v in inputs)
        unknown = set(self.bounds) - set(self.dims)
        if unknown:
            raise UsageError(
                f"the model has no dim named {', '.join(sorted(unknown))}; "
                f"its dims are: {', '.join(self.dims) or 'none'}"
            )
        params = [
            relax.Var(self.shared.unique(p.name), relax.TensorType(p.shape, storage_dtype(p.dtype))) for p in ports
        ]
        context = Context(self.shared, builder)
        scope: Scope = {p.name: Value(p.dtype, p.shape, var=v) for p, v in zip(ports, params, strict=True)}
        results: list[Value] = []

        def body() -> list[relax.Expr]:
            self.graph(context, graph, scope)
            results.extend(self._results(graph, scope))
            return [context.tensor(v) for v in results]

        emit_function(builder, "main", params, body, private=False)
        module = builder.get()
        main = module["main"]
        functions = {**dict(self.shared.library.get().functions), **self.shared.functions}
        functions[tvm_ir.GlobalVar("main")] = main
        return ImportedModel(
            name=self.name,
            module=tvm_ir.IRModule(functions),
            inputs=ports,
            outputs=tuple(Port(v.name or "", r.dtype, r.shape) for v, r in zip(graph.outputs, results, strict=True)),
            dims=tuple(d for d in self.dims.values() if isinstance(d, Dim)),
            data_dims=tuple(self.shared.data_dims),
            requirements=tuple(self.shared.requirements),
            notes=tuple(self.shared.notes),
            reimport=lambda dims: GraphImporter(self.model, {**self.bounds, **dims}, self.name).run(),
        )

    # Interface

    def _port(self, value: ir.Value) -> Port:
        if not isinstance(value.type, ir.TensorType):
            raise UnsupportedModelError(f"input '{value.name}' is {value.type}, not a tensor; only tensors can be fed.")
        if value.shape is None:
            raise UnsupportedModelError(f"input '{value.name}' has no declared rank. Add its shape to the model.")
        shape = tuple(self._dim(value.name or "", axis, n) for axis, n in enumerate(value.shape))
        try:
            return Port(value.name or "", dtype_name(value.dtype), shape)
        except Unsupported as error:
            raise UnsupportedModelError(f"input '{value.name}': {error}") from error

    def _dim(self, port: str, axis: int, size: int | ir.SymbolicDim) -> int | tirx.Var:
        if isinstance(size, int):
            return size
        name = size.value or f"{port}_dim{axis}"
        if name not in self.dims:
            self.dims[name] = self._new_dim(name)
        dim = self.dims[name]
        return dim.var if isinstance(dim, Dim) else dim

    def _new_dim(self, name: str) -> Dim | int:
        bound = self.bounds.get(name, (1, None))
        if isinstance(bound, int):
            return bound
        minimum, maximum = bound
        var = tirx.Var(self.shared.unique(name), "int64")
        self.shared.variables.add(var)
        extent = (maximum if maximum is not None else 2**40) - minimum + 1
        self.shared.analyzer.bind(var, tvm_ir.Range.from_min_extent(minimum, extent))
        return Dim(name, var, minimum, maximum)

    def _results(self, graph: ir.Graph, scope: Scope) -> list[Value]:
        results = []
        for output in graph.outputs:
            value = scope.get(output.name or "")
            if not isinstance(value, Value) and not self.problems:
                reason = "a sequence or optional; only tensors can be returned"
                self.problems.append(Problem("output", output.name or "", self.opsets.get("", 1), reason))
            results.append(value)
        if self.problems:
            self._refuse()
        return cast("list[Value]", results)

    # Nodes

    def graph(self, context: Context, graph: ir.Graph, scope: Scope) -> None:
        """Import the nodes of a graph into `scope`, which holds its inputs and all outer names."""
        for name, initializer in graph.initializers.items():
            if initializer.const_value is not None and name not in scope:
                scope[name] = _weight(name, initializer.const_value)
        for node in graph:
            self.node(context, node, scope, self.opsets)

    def node(self, context: Context, source: ir.Node | _View, scope: Scope, opsets: Mapping[str, int]) -> None:
        inputs = [scope[v.name] if v is not None and v.name else None for v in source.inputs]
        if any(v is not None and v.name and scope[v.name] is POISON for v in source.inputs):
            scope.update({v.name: POISON for v in source.outputs if v.name})
            return
        node = self._describe(source, opsets)
        context.node_name = node.name
        try:
            results = self._import(context, node, inputs, scope)
        except Unsupported as error:
            results = self._problem(node, str(error))
        except (
            ArithmeticError,
            AssertionError,
            AttributeError,
            LookupError,
            TypeError,
            ValueError,
            RuntimeError,
        ) as error:
            results = self._problem(node, f"its inputs or attributes make no sense ({type(error).__name__}: {error})")
        for value, result in zip(source.outputs, results, strict=False):
            if value.name:
                scope[value.name] = result

    def _problem(self, node: Node, reason: str) -> tuple[AnyValue | None, ...]:
        """Note why a node cannot be imported; its outputs, and what depends on them, are then passed over."""
        self.problems.append(Problem(node.op_type, node.name, node.opset, reason.strip().splitlines()[-1]))
        return tuple(POISON for _ in node.outputs)

    def _describe(self, source: ir.Node | _View, opsets: Mapping[str, int]) -> Node:
        domain = normalise_domain(source.domain)
        first_output = next((v.name for v in source.outputs if v.name), "")
        return Node(
            op_type=source.op_type,
            domain=domain,
            name=source.name or first_output or source.op_type,
            opset=opsets.get(domain, 1),
            attributes=dict(source.attributes),
            inputs=tuple(source.inputs),
            outputs=tuple(source.outputs),
            opsets=opsets,
        )

    def _import(
        self, context: Context, node: Node, inputs: list[AnyValue | None], scope: Scope
    ) -> tuple[AnyValue | None, ...]:
        folded = folding.fold(node, inputs) or symbolic.evaluate(context, node, inputs)
        if folded is not None:
            return folded
        importer = registry.find(node.domain, node.op_type, node.opset)
        if importer is not None:
            if any(a.type == ir.AttributeType.GRAPH for a in node.attributes.values()):
                result = importer(context, node, *inputs, importer=self, scope=scope)
            else:
                result = importer(context, node, *inputs)
            return result if isinstance(result, tuple) else (result,)
        return self._expand(context, node, inputs)

    def _expand(self, context: Context, node: Node, inputs: list[AnyValue | None]) -> tuple[AnyValue | None, ...]:
        """Import a function operator through its body."""
        function = self.functions.get((node.domain, node.op_type)) or folding.function_body(node, inputs)
        if function is None:
            raise Unsupported("no lowering for this operator")
        scope: Scope = {
            v.name or "": i for v, i in zip(function.inputs, [*inputs, *([None] * len(function.inputs))], strict=False)
        }
        opsets = {normalise_domain(d): v for d, v in function.opset_imports.items()}
        for inner in function:
            self.node(context, _resolve(inner, function, node), scope, {**self.opsets, **opsets})
        results = tuple(scope.get(v.name or "") for v in function.outputs)
        if any(r is POISON for r in results):
            raise Unsupported("its function body uses an operator that is not supported (listed as well)")
        return results

    # Refusal

    def _check_known(self, graph: ir.Graph, seen: set[int]) -> None:
        """Collect nodes that have neither an importer nor a function body, before any work is done."""
        for source in graph:
            node = self._describe(source, self.opsets)
            found = (
                registry.find(node.domain, node.op_type, node.opset)
                or (node.domain, node.op_type) in self.functions
                or folding.has_function_body(node)
            )
            if not found:
                self._problem(node, _unknown(node))
            for attribute in source.attributes.values():
                if attribute.type == ir.AttributeType.GRAPH:
                    self._check_known(attribute.as_graph(), seen)

    def _refuse(self) -> None:
        problems = tuple(dict.fromkeys(self.problems))
        nodes = "1 node" if len(problems) == 1 else f"{len(problems)} nodes"
        raise UnsupportedModelError(f"{self.name} cannot be compiled because of {nodes}:", problems)


class _Poison:
    """Stands for the results of a node that could not be imported."""


POISON = cast("Value", _Poison())


def _weight(name: str, tensor: ir.TensorProtocol) -> Value:
    """An initializer's value; onnx-ir finds only when it reads the data whether they fit their dtype and shape."""
    try:
        dtype_name(tensor.dtype)
        return constant(tensor.numpy())
    except (AssertionError, TypeError, Unsupported, ValueError) as error:
        raise UnsupportedModelError(
            f"weight '{name}' cannot be read: {error}. The model may be corrupt; export it again."
        ) from error


def _unknown(node: Node) -> str:
    if node.domain and node.domain not in ("ai.onnx.ml", "ai.onnx.preview.training"):
        return f"domain '{node.domain}' is not known"
    return "no lowering for this operator"


def _resolve(inner: ir.Node, function: ir.Function, node: Node) -> _View:
    """A copy of a function's node whose attribute references are replaced by the caller's attributes."""
    attributes = []
    for attribute in inner.attributes.values():
        if not attribute.is_ref():
            attributes.append(attribute)
            continue
        name = attribute.ref_attr_name or ""
        given = node.attributes.get(name) or function.attributes.get(name)
        if given is not None and given.value is not None:
            attributes.append(ir.Attr(attribute.name, given.type, given.value))
    return _View(
        inner.op_type,
        inner.domain,
        f"{node.name}/{inner.name or inner.op_type}",
        {a.name: a for a in attributes},
        inner.inputs,
        inner.outputs,
    )


@dataclass(frozen=True)
class _View:
    """A node of a function body as seen by one call: resolved attributes, the body's own value names."""

    op_type: str
    domain: str
    name: str
    attributes: Mapping[str, ir.Attr]
    inputs: Sequence[ir.Value | None]
    outputs: Sequence[ir.Value]
