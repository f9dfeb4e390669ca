"""A call of a kernel as stages in terms of the caller's tensors and dims."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import tvm_ffi
from tvm import ir, relax, s_tir, tirx

from deploykit.compiler.decisions import Declined
from deploykit.compiler.graph.bindings import arguments_of, operator_of
from deploykit.compiler.operators.building.kernel_calls import is_tensor
from deploykit.compiler.operators.cumulative import SCAN
from deploykit.compiler.operators.recurrent.roles import RECURRENT, Roles, roles
from deploykit.compiler.schedules.kernel.stages import Nest, Opaque, Stage, read
from deploykit.compiler.tir.rewriting import Buffer, Expr, substitute
from deploykit.compiler.tir.values import const


@dataclass(frozen=True)
class KernelCall:
    """A call. `operands` are the tensors that the kernel reads, by their buffers; `results` the buffers that it writes;
    `nest` its stages. Extents and indices are in terms of the dims of the caller. A kernel of loops in order has no
    stages but a `body`, whose `annotations` say what it computes."""

    name: str
    operands: Mapping[Buffer, relax.Expr]
    results: tuple[Buffer, ...]
    nest: Nest | Declined
    body: tirx.Stmt
    annotations: Mapping[str, str]

    @property
    def pointwise(self) -> Stage | None:
        """The only stage, if it is pointwise."""
        stage = self.stages[0] if len(self.stages) == 1 else None
        return stage if isinstance(stage, Stage) and stage.pointwise else None

    @property
    def scan(self) -> str | None:
        """The annotation `SCAN`."""
        return self.annotations.get(SCAN)

    @property
    def layer(self) -> Roles | None:
        """What the operands of a recurrent layer are."""
        return roles(self.annotations[RECURRENT]) if RECURRENT in self.annotations else None

    @property
    def stages(self) -> tuple[Stage | Opaque, ...]:
        """The stages; none if they cannot be told apart."""
        return () if isinstance(self.nest, Declined) else self.nest.stages

    @property
    def staged(self) -> bool:
        """Whether the kernel consists of stages alone."""
        return not isinstance(self.nest, Declined) and all(isinstance(stage, Stage) for stage in self.nest.stages)

    @property
    def temporaries(self) -> tuple[Buffer, ...]:
        """The buffers that the kernel allocates; none if its stages cannot be told apart."""
        return () if isinstance(self.nest, Declined) else self.nest.temporaries


def kernel_call(mod: ir.IRModule, value: relax.Expr) -> KernelCall | None:
    """The call that `value` is; None if it calls no kernel."""
    if operator_of(value) != "relax.call_tir":
        return None
    func = s_tir.renew_defs(mod[value.args[0]])
    types = value.ty_args[0]
    outputs = list(types.fields) if isinstance(types, relax.TupleType) else [types]
    given = [*arguments_of(value), *outputs]
    values: dict[ir.Var, Expr] = {}
    operands: dict[Buffer, relax.Expr] = {}
    results: list[Buffer] = []
    for position, (param, actual) in enumerate(zip(func.params, given, strict=True)):
        if not tirx.is_buffer_var(param):
            values[param] = actual
            continue
        type_ = actual if position >= len(given) - len(outputs) else actual.ty
        buffer = tirx.decl_buffer(list(type_.shape.values), str(type_.dtype), param.name, layout=None)
        values[param] = buffer
        for extent, size in zip(param.shape, type_.shape.values, strict=True):
            if isinstance(extent, ir.Var):
                values.setdefault(extent, size)
        if position >= len(given) - len(outputs):
            results.append(buffer)
        else:
            operands[buffer] = actual
    body = tvm_ffi.structural_map(func.body, (ir.Var, lambda var: values.get(var, var)))
    nest = read(tirx.PrimFunc([*operands, *results], body, None, func.attrs))
    if not isinstance(nest, Declined):
        nest = replace(nest, stages=tuple(_without_units(stage) for stage in nest.stages))
    found = body.block.annotations if isinstance(body, s_tir.SBlockRealize) else {}
    annotations = {str(name): str(value) for name, value in found.items()}
    return KernelCall(str(value.args[0].name_hint), operands, tuple(results), nest, body, annotations)


def _without_units(stage: Stage | Opaque) -> Stage | Opaque:
    """A stage that reads at 0 along axes of extent 1. It stores at their variables, as before."""
    if isinstance(stage, Opaque):
        return stage
    units: dict[ir.Var, Expr] = {axis.var: const(0) for axis in stage.axes if axis.static == 1}

    def load(node: ir.TensorLoad) -> Expr:
        return tirx.BufferLoad(node.source, [substitute(index, units) for index in node.indices])

    body = tvm_ffi.structural_map(stage.body, (ir.TensorLoad, load)) if units else stage.body
    return replace(stage, body=body)


def tensor_operands(value: relax.Expr) -> list[relax.Expr]:
    """The tensors among the operands of a kernel or an operator."""
    return [operand for operand in arguments_of(value) if is_tensor(operand)]
