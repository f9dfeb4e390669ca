"""Rewrites a function over padded tensors, proved not to depend on padding, to one over packed tensors.

Kernels are rewritten as `kernels` says. A product with weights becomes a product over all tokens; a product of two
ragged tensors is a kernel like others. Reshapes and checks of indices apply to packed tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from tvm import ir, relax, te, tirx

from deploykit.compiler.constants import constant
from deploykit.compiler.constants import read as reading
from deploykit.compiler.graph.bindings import operator_of
from deploykit.compiler.operators.anchors.matmul import matmul
from deploykit.compiler.operators.building import control_flow
from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.compiler.operators.building.index_checks import check, checked_bounds, is_check
from deploykit.compiler.operators.building.kernel_calls import OPAQUE, call_te
from deploykit.compiler.operators.recurrent.roles import Roles
from deploykit.compiler.ragged.conversion.blocks import new_kernel
from deploykit.compiler.ragged.conversion.contents import RaggedDim, axes_of
from deploykit.compiler.ragged.conversion.kernel_call import KernelCall, kernel_call
from deploykit.compiler.ragged.conversion.kernels import Flat, Maps, PerInstance, is_flat, packed_shape
from deploykit.compiler.ragged.conversion.prelude import Prelude
from deploykit.compiler.ragged.conversion.recurrent import packed_layer
from deploykit.compiler.schedules.vloop import new_instance, vloop
from deploykit.compiler.tir.rewriting import Buffer, collect, substitute


class Packing:
    """Packs the bindings of one function of `mod`. `prelude` gives the index arrays."""

    def __init__(self, mod: ir.IRModule, builder: relax.BlockBuilder, dim: RaggedDim, prelude: Prelude) -> None:
        self.mod, self.builder, self.dim, self.prelude = mod, builder, dim, prelude
        self.ragged, self.tokens = prelude.ragged, prelude.ragged.tokens
        self.values: dict[ir.Var, relax.Expr] = {}

    def run(self, func: relax.Function, params: Sequence[relax.Var | None]) -> list[relax.Expr]:
        """Emit the bindings of `func`, with `params` for its parameters: None for a mask, which is 1 everywhere, or
        with one dim the lengths. Returns the results."""
        for old, new in zip(func.params, params, strict=True):
            self.values[old] = self.mask(old) if new is None else new
        for block in func.body.blocks:
            for binding in block.bindings:
                if isinstance(binding, relax.MatchCast):
                    self.builder.match_cast(self.of(binding.value), binding.ty)
                    continue
                value = self.named(binding.var.name, binding)
                kept = isinstance(value, relax.Tuple)
                self.values[binding.var] = value if kept else self.builder.emit(value, binding.var.name)
        result = self.of(func.body.body)
        return list(result.fields) if isinstance(result, relax.Tuple) else [result]

    def of(self, expr: relax.Expr) -> relax.Expr:
        """`expr` with packed tensors for its variables."""
        return substitute(expr, self.values)

    def named(self, name: str, binding: relax.VarBinding) -> relax.Expr:
        try:
            return self.value(binding)
        except Unsupported as error:
            raise Unsupported(f"{name}: {error}") from error

    def value(self, binding: relax.VarBinding) -> relax.Expr:
        """What a variable is bound to."""
        value = binding.value
        if isinstance(value, relax.TupleGetItem):
            return relax.TupleGetItem(self.of(value.tuple_value), value.index)
        if isinstance(value, relax.Tuple):
            return relax.Tuple([self.of(part) for part in value.fields])
        if is_check(value):
            return check(self.of(value.args[1]), checked_bounds(value), str(value.args[3].value))
        operator = operator_of(value)
        if operator == "relax.reshape":
            shape = packed_shape(list(value.args[1].values), self.dim, self.ragged)
            return relax.op.reshape(self.of(value.args[0]), relax.ShapeExpr(shape))
        if operator == "relax.matmul":
            return self.product(value)
        call = kernel_call(self.mod, value)
        if call is not None:
            return self.kernel(value, call)
        types = binding.var.ty.fields if isinstance(binding.var.ty, relax.TupleType) else [binding.var.ty]
        tensors = [type_ for type_ in types if isinstance(type_, relax.TensorType)]
        if any(axes_of(list(type_.shape.values), self.dim)[1] for type_ in tensors):
            raise Unsupported(f"'{control_flow.called(value) or operator}' makes it, and cannot be ragged yet")
        return self.of(value)

    def mask(self, mask: relax.Var) -> relax.Expr:
        """A packed mask, or an input of lengths. A mask is needed only where a value of it is an operand of more than
        elementwise kernels."""
        dtype = str(mask.ty.dtype)
        if len(mask.ty.shape) == 1:
            lengths = self.prelude.lengths
            if dtype == "int64":
                return lengths
            call = call_te(self.builder, partial(_cast, dtype=dtype), lengths, name="cast")
            return self.builder.emit(call, mask.name)
        shape = packed_shape(list(mask.ty.shape.values), self.dim, self.ragged)
        one = tirx.const(1, dtype)
        call = call_te(self.builder, lambda: te.compute(shape, lambda *_: one, name="ones"), name="ones")
        return self.builder.emit(call, mask.name)

    # Products

    def product(self, value: relax.Call) -> relax.Expr:
        left, right = value.args
        dtype = str(value.attrs.out_dtype or left.ty.dtype)
        (batch, ragged), (batch_right, columns) = (axes_of(list(x.ty.shape.values), self.dim) for x in (left, right))
        if batch is None and batch_right is None:
            return relax.op.matmul(self.of(left), self.of(right), out_dtype=dtype)
        rank = len(left.ty.shape)
        rows = batch is not None and batch_right is None and len(ragged) == 1 and rank - 1 not in ragged
        if rows and batch == rank - 2 and len(right.ty.shape) == 2:
            return relax.op.matmul(self.of(left), self.of(right), out_dtype=dtype)
        if rows and self.dim.batch not in [v for n in right.ty.shape.values for v in collect(n, ir.Var)]:
            weight = self.without_axis(right, (batch or 0) - rank)
            stacked = batch == rank - 3 and ragged[0] == rank - 2  # the tokens are rows: [..., tokens, size]
            if weight is not None and (stacked or len(weight.ty.shape) == 2):
                return relax.op.matmul(self.of(left), self.of(weight), out_dtype=dtype)
        if isinstance(left, ir.GenericConst) and len(left.ty.shape) == 2 and columns == (len(right.ty.shape) - 1,):
            with reading(left) as array:  # the columns of the other operand are the tokens
                return relax.op.matmul(self.of(right), constant(array.T.copy()), out_dtype=dtype)
        call = call_te(self.builder, partial(matmul, dtype=dtype), left, right, name="matmul")
        self.mod = self.builder.get()
        found = kernel_call(self.mod, call)
        assert found is not None
        return self.kernel(call, found)

    def without_axis(self, weight: relax.Expr, axis: int) -> relax.Expr | None:
        """A right operand without the axis of size 1 along the batch, which is counted from the end."""
        shape = list(weight.ty.shape.values)
        if len(shape) < -axis:
            return weight
        extent = shape[axis]
        if not isinstance(extent, tirx.IntImm) or int(extent) != 1:
            return None
        if isinstance(weight, ir.GenericConst):
            with reading(weight) as array:
                return constant(np.squeeze(array, axis))
        del shape[axis]
        return self.builder.emit(relax.op.reshape(self.of(weight), relax.ShapeExpr(shape)))

    # Kernels

    def kernel(self, value: relax.Call, call: KernelCall) -> relax.Expr:
        shapes = [list(buffer.shape) for buffer in (*call.operands, *call.results)]
        if all(axes_of(shape, self.dim)[0] is None for shape in shapes) and is_flat(call, self.dim):
            return self.of(value)
        if call.layer is not None:
            made = self.recurrent(call, call.layer)
        elif not call.staged and call.scan is None:
            raise Unsupported(f"it is computed by loops in order ('{call.name}')")
        else:
            made = self.flat(call) if is_flat(call, self.dim) and call.scan is None else self.per_instance(call)
        used = set(collect(made.body, ir.Var))
        arrays = {buffer: array for buffer, array in made.arrays.items() if buffer in used}
        func, scalars = new_kernel([*made.inputs, *arrays], made.outputs, made.body, made.pattern)
        gvar = self.builder.add_func(func, call.name)
        given = [*(self.of(operand) for operand in call.operands.values()), *(array() for array in arrays.values())]
        types = [relax.TensorType(list(b.shape), str(b.ty.dtype)) for b in made.outputs]
        return relax.call_tir(gvar, relax.Tuple([*given, *scalars]), types if len(types) > 1 else types[0])

    def flat(self, call: KernelCall) -> _Made:
        ragged, prelude = self.prelude.ragged, self.prelude
        maps = Maps(
            tirx.decl_buffer([ragged.batch + 1], "int64", "offsets", layout=None),
            tirx.decl_buffer([self.tokens], "int64", "rows", layout=None),
            tirx.decl_buffer([self.tokens], "int64", "positions", layout=None),
        )
        flat = Flat(call, self.dim, ragged, maps)
        arrays = {
            maps.offsets: lambda: prelude.offsets,
            maps.rows: lambda: prelude.rows,
            maps.positions: lambda: prelude.positions,
        }
        return _Made(
            [flat.buffers[b] for b in call.operands], [flat.buffers[b] for b in call.results], flat.root(), arrays
        )

    def recurrent(self, call: KernelCall, layer: Roles) -> _Made:
        made, prelude = packed_layer(call, layer, self.dim, self.ragged), self.prelude
        arrays = {made.offsets: lambda: prelude.offsets, made.order: lambda: prelude.order}
        return _Made(made.inputs, made.outputs, made.body, arrays, OPAQUE)

    def per_instance(self, call: KernelCall) -> _Made:
        ragged, prelude = self.prelude.ragged, self.prelude
        instance = new_instance(ragged.batch)
        alone = PerInstance(call, self.dim, ragged, instance)
        body = vloop(alone.root(), instance, ragged.batch, self.dim.extent, alone.views)
        arrays = {
            instance.offsets: lambda: prelude.offsets,
            instance.squares: lambda: prelude.squares,
            instance.order: lambda: prelude.order,
        }
        inputs, outputs = ([alone.packed[b] for b in buffers] for buffers in (call.operands, call.results))
        return _Made(inputs, outputs, body, arrays, OPAQUE)


def _cast(source: te.Tensor, *, dtype: str) -> te.Tensor:
    return te.compute(source.shape, lambda *at: source(*at).astype(dtype), name="cast")


@dataclass(frozen=True)
class _Made:
    """A rewritten kernel. `arrays` are the index arrays that it may read, by their buffers."""

    inputs: list[Buffer]
    outputs: list[Buffer]
    body: tirx.Stmt
    arrays: Mapping[Buffer, Callable[[], relax.Var]]
    pattern: int | None = None
