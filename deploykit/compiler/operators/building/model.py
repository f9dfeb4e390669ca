"""Builds models with several functions and with states from operators, without a file format."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from tvm import ir, relax, tirx

from deploykit.compiler.dims import free_vars, substitute
from deploykit.compiler.dtypes import storage_dtype
from deploykit.compiler.model import Dim, ImportedModel, Port, Signature
from deploykit.compiler.operators.building.context import Context, Shared, emit_function
from deploykit.compiler.operators.building.value import Value
from deploykit.errors import UnsupportedModelError
from deploykit.sessions.structure import Structure

if TYPE_CHECKING:
    from deploykit.compiler.dims.expressions import IntExpr

Values: TypeAlias = Mapping[str, Value]

Body: TypeAlias = Callable[[Context, Values, Values], tuple[Values, Values]]
"""Takes the inputs and the states by name; returns the outputs, and the new values of the states that change."""


@dataclass
class ModelBuilder:
    """Builds an `ImportedModel`: dims and states first, then function by function."""

    name: str
    shared: Shared = field(default_factory=Shared)
    states: list[Port] = field(default_factory=list)
    signatures: dict[str, Signature] = field(default_factory=dict)
    _dims: dict[tirx.Var, Dim] = field(default_factory=dict)
    _functions: dict[str, tuple[ir.GlobalVar, relax.Function]] = field(default_factory=dict)

    def dim(self, name: str, minimum: int = 1, maximum: int | None = None) -> tirx.Var:
        """A dim of the functions that have it in the shape of an input."""
        var = tirx.Var(self.shared.unique(name), "int64")
        self._dims[var] = Dim(name, var, minimum, maximum)
        self.shared.variables.add(var)
        self.shared.facts.bind(var, minimum, maximum)
        return var

    def state(self, name: str, dtype: str, shape: Sequence[IntExpr]) -> None:
        """Add a tensor that keeps its contents between runs, initially zeros. The caller chooses its dims when it makes
        it."""
        self.states.append(Port(name, dtype, tuple(shape)))
        for var in (var for extent in shape for var in free_vars(extent)):
            dim = self._dims[var]
            self._dims[var] = Dim(dim.name, var, dim.minimum, dim.maximum, dim.capacity_of or name)

    def function(self, name: str, inputs: Sequence[Port], body: Body, states: Sequence[str] = ()) -> None:
        """Add a function. It may `call` earlier functions that have no `states`."""
        ports = [*inputs, *(port for port in self.states if port.name in states)]
        params = [
            relax.Var(self.shared.unique(p.name), relax.TensorType(p.shape, storage_dtype(p.dtype))) for p in ports
        ]
        values = [Value(port.dtype, port.shape, var=param) for port, param in zip(ports, params, strict=True)]
        named = dict(zip((port.name for port in ports), values, strict=True))
        given, old = ({name: named[name] for name in names} for names in ([port.name for port in inputs], states))
        context = Context(self.shared, relax.BlockBuilder(), functions=(name,))
        outputs: list[Port] = []
        updated: list[str] = []

        def results() -> list[relax.Expr]:
            found, changed = body(context, given, old)
            outputs.extend(Port(key, value.dtype, value.shape) for key, value in found.items())
            updated.extend(changed)
            return [context.tensor(value) for value in (*found.values(), *changed.values())]

        function = emit_function(context.builder, name, params, results)
        gvar = relax.BlockBuilder().add_func(function, name)
        self._functions[name] = gvar, function
        used = dict.fromkeys(var for port in inputs for extent in port.shape for var in free_vars(extent))
        dims = [self._dims[var] for var in used]
        self.signatures[name] = Signature(
            name=name,
            inputs=tuple(inputs),
            outputs=tuple(outputs),
            dims=tuple(dim for dim in dims if dim.capacity_of is None),
            inputs_as=tuple(Structure(port.name, "tensor") for port in inputs),
            outputs_as=tuple(Structure(port.name, "tensor") for port in outputs),
            states=tuple(port.name for port in ports[len(inputs) :]),
            updated=tuple(updated),
        )

    def call(self, context: Context, name: str, *operands: Value) -> tuple[Value, ...]:
        """The outputs of an earlier function without states. Raises `UnsupportedModelError` for one with states."""
        gvar, _ = self._functions[name]
        signature = self.signatures[name]
        if signature.states or signature.updated:
            raise UnsupportedModelError(f"'{name}' cannot be called by another function: it has states")
        shapes = [(port.shape, operand.shape) for port, operand in zip(signature.inputs, operands, strict=True)]
        sizes = {f: a for formal, actual in shapes for f, a in zip(formal, actual, strict=True) if f in self._dims}
        out = context.builder.emit(relax.Call(gvar, [context.tensor(operand) for operand in operands]), name)
        parts = [context.builder.emit(relax.TupleGetItem(out, i)) for i in range(len(signature.outputs))]
        return tuple(
            Value(port.dtype, tuple(substitute(n, sizes) for n in port.shape), var=part)
            for port, part in zip(signature.outputs, parts, strict=True)
        )

    def model(self) -> ImportedModel:
        """The model of the functions built so far."""
        functions = {**dict(self.shared.library.get().functions), **self.shared.functions}
        functions |= dict(self._functions.values())
        return ImportedModel(
            name=self.name,
            module=ir.IRModule(functions),
            functions=tuple(self.signatures.values()),
            data_dims=tuple(self.shared.data_dims),
            requirements=tuple(self.shared.requirements),
            notes=tuple(self.shared.notes),
            states=tuple(self.states),
            state_dims=tuple(dim for dim in self._dims.values() if dim.capacity_of is not None),
        )
