"""ONNX graph -> Relax, node by node in order.

For each node these ways are tried in order: folding (if all inputs are constant), shape arithmetic (if all inputs are
known), the operator's importer, the model's own function of that name, and the ONNX function body of the operator.
Nodes that cannot be imported are collected, and the model is refused with the whole list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias, cast

import onnx
import onnx_ir as ir
from tvm import ir as tvm_ir
from tvm import relax, tirx

from deploykit.artifact.manifest import printable
from deploykit.compiler.dims import checked_bounds
from deploykit.compiler.dims.expressions import IntExpr
from deploykit.compiler.dtypes import storage_dtype
from deploykit.compiler.model import Affine, Dim, DimBounds, ImportedModel, Port, Signature
from deploykit.compiler.operators.building.composite import leaves, names_of, structure_of, with_leaves
from deploykit.compiler.operators.building.context import Context, Shared, Site, emit_function
from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.compiler.operators.building.integers import check_shape
from deploykit.compiler.operators.building.value import POISON, AnyValue, OptionalValue, SequenceValue, Value, constant
from deploykit.compiler.operators.strings.spans import (
    MOVING,
    OF_STRINGS,
    STRING,
    check_spans,
    is_string,
    moved,
    string_of,
)
from deploykit.errors import Problem, UnsupportedModelError, UsageError
from deploykit.frontends.onnx import folding, ops, registry, symbolic
from deploykit.frontends.onnx.attempts import Refused, only_way
from deploykit.frontends.onnx.attributes import ML
from deploykit.frontends.onnx.blocked import mark_blocks
from deploykit.frontends.onnx.caches import dims_that_may_be_empty
from deploykit.frontends.onnx.misfit import reason_for
from deploykit.frontends.onnx.names import dim_name, license_of
from deploykit.frontends.onnx.node import Node, dtype_name
from deploykit.frontends.onnx.operands import require_operands
from deploykit.frontends.onnx.optimised import unknown_of_onnxruntime
from deploykit.frontends.onnx.quantized_ports import of_input, of_output
from deploykit.frontends.onnx.ranges import with_ranges
from deploykit.frontends.onnx.reader import FILES, read
from deploykit.frontends.onnx.registry import Spoiled, normalise_domain
from deploykit.frontends.onnx.schemas import require_dtypes
from deploykit.frontends.onnx.tensors import elements
from deploykit.frontends.onnx.views import View, place_of, resolved
from deploykit.sessions.structure import Structure

ops.load()

Scope = dict[str, "AnyValue | None"]

DEFAULTS_SINCE = 4
"""From this version of ONNX's format on, a weight that is also an input is the default of an optional input."""

NAMED = 3
"""How many names a note has."""

Finish: TypeAlias = Callable[[Context, Mapping[str, Value], Mapping[str, Value]], Mapping[str, Value]]
"""Computes the outputs of a model from its inputs and from the outputs of its graph. All are tensors."""


def load_onnx(
    source: str | Path | bytes | onnx.ModelProto | ir.Model,
    dims: DimBounds | None = None,
    name: str | None = None,
    seed_input: str | None = None,
    finish: Finish | None = None,
) -> ImportedModel:
    """Import an ONNX model.

    `dims` pins symbolic dims or gives their bounds. With `seed_input` the model gets another input of that name: an
    int64 scalar that seeds the random operators without a seed of their own. `finish` adds operators after the graph.
    Raises `UsageError` (no such file or dim) and `UnsupportedModelError` with every problem found.
    """
    model = source if isinstance(source, ir.Model) else read(source)
    if name is None:
        name = printable(Path(source).stem) if isinstance(source, (str, Path)) else (model.graph.name or "model")
    note = mark_blocks(model, name)
    imported = _imported(model, checked_bounds(dims or {}), name, seed_input, finish)
    return imported if note is None else replace(imported, notes=(note, *imported.notes))


def _imported(
    model: ir.Model, dims: DimBounds, name: str, seed_input: str | None, finish: Finish | None
) -> ImportedModel:
    def attempt(taken: Mapping[str, bool], *, may_give_up: bool) -> ImportedModel | Refused:
        importer = GraphImporter(model, dims, name, seed_input, taken, finish, may_give_up=may_give_up)
        try:
            return importer.run()
        except UnsupportedModelError as error:
            only = {problem.node for problem in importer.problems} <= set(importer.undecided)
            return Refused(error, tuple(dict.fromkeys(importer.undecided)) if only else (), importer.one_sided)

    return only_way(attempt)


class GraphImporter:
    """One import of one model.

    `taken` fixes the conditions of some Ifs, by the names of their nodes; `undecided` collects the Ifs that need that.
    With `may_give_up`, an If may lose a branch that cannot be imported; `one_sided` is set if there is such an If."""

    def __init__(
        self,
        model: ir.Model,
        dims: DimBounds,
        name: str,
        seed_input: str | None,
        taken: Mapping[str, bool],
        finish: Finish | None,
        *,
        may_give_up: bool,
    ) -> None:
        self.taken = taken
        self.finish = finish
        self.undecided: list[str] = []
        self.may_give_up = may_give_up
        self.one_sided = False
        self.seed_input = seed_input
        self.model = model
        self.bounds = dims
        self.name = name
        self.shared = Shared()
        self.problems: list[Problem] = []
        self.cause: Exception | None = None
        self.dims: dict[str, Dim | int] = {}
        self.states: set[str] = set()
        self.emptiable = dims_that_may_be_empty(model.graph)
        self.opsets = {normalise_domain(d): v for d, v in model.opset_imports.items()}
        self.functions = {(normalise_domain(f.domain), f.name): f for f in model.functions.values()}

    def _note_defaults(self) -> None:
        """Note which inputs have a value in the model, which a run cannot replace. Before `DEFAULTS_SINCE`, weights
        had to be inputs, too."""
        graph = self.model.graph
        names = [f"'{value.name}'" for value in graph.inputs if value.name in graph.initializers]
        if names and (self.model.ir_version or 0) >= DEFAULTS_SINCE:
            more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
            self.shared.notes.append(
                f"inputs that have a value in the model are constants with that value, which runs cannot replace: "
                f"{', '.join(names[:NAMED])}{more}"
            )

    def run(self) -> ImportedModel:
        self._check_known(self.model.graph, set())
        if self.problems:
            self._refuse()
        builder = relax.BlockBuilder()
        graph = self.model.graph
        given = {v.name or "": self._input(v) for v in graph.inputs if v.name not in graph.initializers}
        self._note_defaults()
        if self.seed_input in given:
            raise UsageError(f"the model has an input '{self.seed_input}'; give the input for the seed another name")
        if self.seed_input is not None:
            given[self.seed_input] = Value("int64", ())
        context = Context(self.shared, builder)
        inputs_as, ports = self._interface(context, given)
        declared = [leaf for value in given.values() for leaf in leaves(context, value)]
        params = [
            relax.Var(self.shared.unique(p.name), relax.TensorType(p.shape, storage_dtype(p.dtype))) for p in ports
        ]
        parts = iter([replace(leaf, var=v) for leaf, v in zip(declared, params, strict=True)])
        scope: Scope = {name: with_leaves(value, parts) for name, value in given.items()}
        if self.seed_input is not None:
            context.seed = cast("Value", scope.pop(self.seed_input))
        results: dict[str, AnyValue | None] = {}

        def body() -> list[relax.Expr]:
            for name in given:
                if is_string(scope.get(name)):
                    check_spans(context, name, cast("Value", scope[name]))
            self.graph(context, graph, scope)
            found = self._results(graph, scope)
            if self.finish is not None:
                inputs = {name: value for name, value in scope.items() if name in given and isinstance(value, Value)}
                tensors = {name: value for name, value in found.items() if isinstance(value, Value)}
                found = dict(self.finish(context, inputs, tensors))
            results.update(found)
            return [context.tensor(leaf) for value in results.values() for leaf in leaves(context, value)]

        main = emit_function(builder, "main", params, body)
        self._require_known_dims()
        outputs_as, outputs = self._interface(context, results)
        ports = quantized(ports, {value.name: of_input(value) for value in graph.inputs})
        if self.finish is None:
            outputs = quantized(outputs, {value.name: of_output(value) for value in graph.outputs})
        functions = {**dict(self.shared.library.get().functions), **self.shared.functions}
        functions[tvm_ir.GlobalVar("main")] = main
        dims = tuple(d for d in self.dims.values() if isinstance(d, Dim))
        return ImportedModel(
            name=self.name,
            module=tvm_ir.IRModule(functions),
            functions=(Signature("main", ports, outputs, dims, inputs_as, outputs_as),),
            data_dims=tuple(self.shared.data_dims),
            requirements=tuple(self.shared.requirements),
            notes=tuple(self.shared.notes),
            license=license_of(self.model.metadata_props),
            files=tuple(self.model.meta.get(FILES, ())),
        )

    def _require_known_dims(self) -> None:
        unknown = set(self.bounds) - set(self.dims) - self.states
        if unknown:
            raise UsageError(
                f"the model has no dim named {', '.join(sorted(unknown))}; "
                f"its dims are: {', '.join([*self.dims, *sorted(self.states)]) or 'none'}"
            )

    def bound_of(self, state: str) -> tuple[int, int | None]:
        """The bounds that the user gave for a size of a state of a loop."""
        self.states.add(state)
        bound = self.bounds.get(state, (0, None))
        return (bound, bound) if isinstance(bound, int) else bound

    # Interface

    def _interface(
        self, context: Context, values: Mapping[str, AnyValue | None]
    ) -> tuple[tuple[Structure, ...], tuple[Port, ...]]:
        """The structures of values as the user sees them, and their ports."""
        structures = tuple(structure_of(name, value) for name, value in values.items())
        names = [name for structure in structures for name in names_of(structure)]
        parts = [leaf for value in values.values() for leaf in leaves(context, value)]
        for name in names:
            if names.count(name) > 1:
                raise UnsupportedModelError(f"two tensors of the interface are called '{name}'; rename one of them")
        strings = {s.name for s in _all(structures) if s.kind == "string"}
        dtypes = ["string" if name in strings else part.dtype for name, part in zip(names, parts, strict=True)]
        return structures, tuple(
            Port(name, dtype, part.shape) for name, dtype, part in zip(names, dtypes, parts, strict=True)
        )

    def _input(self, value: ir.Value) -> AnyValue:
        return self._declared(value.name or "", value.type, value.shape)

    def _declared(self, name: str, type_: object, shape: ir.Shape | None, item: str = "") -> AnyValue:
        """A placeholder for an input, until its tensors exist. `item` is a suffix for the names of an item's dims."""
        match type_:
            case ir.TensorType() if shape is None:
                raise UnsupportedModelError(f"input '{name}' has no declared rank. Add its shape to the model.")
            case ir.TensorType(dtype=dtype):
                return self._tensor(name, dtype, tuple(self._dim(name, i, n, item) for i, n in enumerate(shape or ())))
            case ir.SequenceType(elem_type=inner):
                count = self._pinned(f"{name}_length", f"a sequence: say how many items it has, --dim {name}_length=N")
                items = [self._declared(f"{name}_{i}", inner, shape, f"{item}_{i}") for i in range(count)]
                if not all(isinstance(v, Value) for v in items):
                    raise UnsupportedModelError(f"input '{name}' is {type_}; items must be tensors.")
                return SequenceValue(tuple(v for v in items if isinstance(v, Value)), _element(inner))
            case ir.OptionalType(elem_type=inner):
                there = self._pinned(
                    f"{name}_present", f"an optional: say whether it is given, --dim {name}_present=1 or =0"
                )
                return OptionalValue(cast("Value", self._declared(name, inner, shape, item)) if there else None)
        raise UnsupportedModelError(f"input '{name}' is {type_}, which cannot be fed.")

    def _tensor(self, name: str, data_type: ir.DataType, shape: tuple[IntExpr, ...]) -> Value:
        try:
            check_shape(shape)
            dtype = dtype_name(data_type)
        except Unsupported as error:
            raise UnsupportedModelError(f"input '{name}': {error}") from error
        if dtype != STRING:
            return Value(dtype, shape)
        size = self._dim(name, 0, ir.SymbolicDim(f"{name}_utf8"), minimum=0)
        return string_of(Value("int64", shape), Value("uint8", (size,)))

    def _pinned(self, name: str, what: str) -> int:
        """A number that the user must give, in the same way as the size of a dim."""
        count = self.bounds.get(name)
        if not isinstance(count, int) or count < 0:
            raise UsageError(f"input '{name.rpartition('_')[0]}' is {what}")
        self.dims[name] = count
        return count

    def _dim(
        self, port: str, axis: int, size: int | ir.SymbolicDim, item: str = "", minimum: int = 1
    ) -> int | tirx.Var:
        if isinstance(size, int):
            return size
        name = dim_name(port, axis, size.value, item)
        if name not in self.dims:
            self.dims[name] = self._new_dim(name, minimum)
        dim = self.dims[name]
        return dim.var if isinstance(dim, Dim) else dim

    def _new_dim(self, name: str, minimum: int = 1) -> Dim | int:
        bound = self.bounds.get(name, (0 if name in self.emptiable else minimum, None))
        if isinstance(bound, int):
            return bound
        minimum, maximum = bound
        var = tirx.Var(name, "int64")
        self.shared.names.add(name)
        self.shared.variables.add(var)
        self.shared.facts.bind(var, minimum, maximum)
        return Dim(name, var, minimum, maximum)

    def _results(self, graph: ir.Graph, scope: Scope) -> dict[str, AnyValue | None]:
        results = {output.name or "": scope.get(output.name or "") for output in graph.outputs}
        declared = {output.name or "": output.shape for output in graph.outputs}
        for name, value in () if self.problems else results.items():
            try:
                structure_of(name, value)
                if self.taken:
                    _check_rank(name, declared[name], value)
            except Unsupported as reason:
                self.problems.append(Problem("output", name, self.opsets.get("", 1), str(reason)))
        if self.problems:
            self._refuse()
        return results

    # Nodes

    def graph(self, context: Context, graph: ir.Graph, scope: Scope) -> None:
        """Import the nodes of a graph into `scope`, which holds its inputs and all outer names."""
        for name, initializer in graph.initializers.items():
            if initializer.const_value is not None and name not in scope:
                scope[name] = weight_value(name, initializer.const_value)
        for node in graph:
            self.node(context, node, scope, self.opsets)

    def node(self, context: Context, source: ir.Node | View, scope: Scope, opsets: Mapping[str, int]) -> None:
        inputs = [scope[v.name] if v is not None and v.name else None for v in source.inputs]
        if any(v is not None and v.name and scope[v.name] is POISON for v in source.inputs):
            scope.update({v.name: POISON for v in source.outputs if v.name})
            return
        node = self._describe(source, opsets)
        names = tuple("" if v is None else v.name or "" for v in source.inputs)
        context.site = Site(node.op_type, node.name, names)
        context.operands = {id(v): i.name or "" for v, i in zip(inputs, source.inputs, strict=True) if i is not None}
        try:
            results = with_ranges(context, node, inputs, self._import(context, node, inputs, scope))
        except Spoiled:
            results = tuple(POISON for _ in node.outputs)
        except Unsupported as error:
            results = self._problem(node, str(error), error)
        except Exception as error:  # noqa: BLE001  raised again unless the model is at fault
            results = self._problem(node, reason_for(error, node, inputs, place_of(source)), error)
        if len(results) < len(node.outputs) and any(v.name for v in node.outputs[len(results) :]):
            results = self._problem(node, f"it has {len(node.outputs)} outputs, and the operator gives {len(results)}")
        for value, result in zip(source.outputs, results, strict=False):
            if value.name:
                scope[value.name] = result

    def _problem(self, node: Node, reason: str, cause: Exception | None = None) -> tuple[AnyValue | None, ...]:
        """Note why a node cannot be imported. Nodes that depend on its outputs are then skipped."""
        self.cause = self.cause or cause
        self.problems.append(Problem(node.op_type, node.name, node.opset, reason.strip().splitlines()[-1]))
        return tuple(POISON for _ in node.outputs)

    def _describe(self, source: ir.Node | View, opsets: Mapping[str, int]) -> Node:
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
        strings = any(map(is_string, inputs))
        importer = registry.find(node.domain, node.op_type, node.opset)
        if strings and not node.domain:
            importer = registry.find(OF_STRINGS, node.op_type, node.opset) or importer
        if importer is not None:
            require_operands(importer, inputs)
        require_dtypes(node, inputs)
        folded = folding.fold(node, inputs)
        if folded is None and not strings:
            folded = symbolic.evaluate(context, node, inputs)
        if folded is not None:
            return folded
        if importer is not None:
            if any(a.type == ir.AttributeType.GRAPH for a in node.attributes.values()):
                return results_of(importer(context, node, *inputs, importer=self, scope=scope))
            if strings and node.domain in ("", ML) and node.op_type in MOVING:
                return moved(context, inputs, lambda given: importer(context, node, *given))
            return self.imported_by(importer, context, node, inputs)
        return self._expand(context, node, inputs)

    def imported_by(
        self, importer: registry.Importer, context: Context, node: Node, inputs: Sequence[AnyValue | None]
    ) -> tuple[AnyValue | None, ...]:
        """The results of an operator without graphs, by its importer."""
        return results_of(importer(context, node, *inputs))

    def _expand(self, context: Context, node: Node, inputs: list[AnyValue | None]) -> tuple[AnyValue | None, ...]:
        """Import a node through the body of its function."""
        function = self.functions.get((node.domain, node.op_type)) or folding.function_body(node, inputs)
        if function is None:
            raise Unsupported("no lowering for this operator")
        if len(inputs) > len(function.inputs):
            raise Unsupported(f"it has {len(inputs)} inputs, and the function has {len(function.inputs)}")
        scope: Scope = {
            v.name or "": i for v, i in zip(function.inputs, [*inputs, *([None] * len(function.inputs))], strict=False)
        }
        opsets = {normalise_domain(d): v for d, v in function.opset_imports.items()}
        for inner in function:
            self.node(context, resolved(inner, function, node), scope, {**self.opsets, **opsets})
        results = tuple(scope.get(v.name or "") for v in function.outputs)
        if any(r is POISON for r in results):
            raise Spoiled
        return results

    # Refusal

    def _check_known(self, graph: ir.Graph, seen: set[int]) -> None:
        """Collect the nodes that have neither an importer nor a function body, before the import begins."""
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
        raise UnsupportedModelError(f"{self.name} cannot be compiled because of {nodes}:", problems) from self.cause


def results_of(result: registry.Result) -> tuple[AnyValue | None, ...]:
    """The results of an importer as a tuple."""
    return result if isinstance(result, tuple) else (result,)


def _check_rank(name: str, declared: ir.Shape | None, value: AnyValue | None) -> None:
    if declared is not None and isinstance(value, Value) and value.text is None and value.rank != len(declared):
        raise Unsupported(f"'{name}' is declared with rank {len(declared)} and has rank {value.rank}")


def quantized(ports: Sequence[Port], found: Mapping[str | None, Affine | None]) -> tuple[Port, ...]:
    """Ports with what their integers mean."""
    return tuple(replace(port, quantization=found.get(port.name)) for port in ports)


def _all(structures: Iterable[Structure]) -> Iterator[Structure]:
    for structure in structures:
        yield structure
        yield from _all(structure.items)


def _element(type_: object) -> str | None:
    return dtype_name(type_.dtype) if isinstance(type_, ir.TensorType) else None


def weight_value(name: str, tensor: ir.TensorProtocol) -> Value:
    """An initializer's value."""
    try:
        array = elements(tensor)
        dtype_name(tensor.dtype)
        return constant(array)
    except Unsupported as error:
        raise UnsupportedModelError(
            f"weight '{name}' cannot be read: {error}. The model may be corrupt; export it again."
        ) from error


def _unknown(node: Node) -> str:
    if node.domain.startswith("com.microsoft"):
        return unknown_of_onnxruntime(node.op_type)
    if node.domain and node.domain not in ("ai.onnx.ml", "ai.onnx.preview.training"):
        return f"domain '{node.domain}' is not known"
    return "no lowering for this operator"
