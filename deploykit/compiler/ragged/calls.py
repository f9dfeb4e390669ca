"""Calls of kernels that are written as loops rather than as tensor expressions."""

from __future__ import annotations

from collections.abc import Mapping

from tvm import ir, relax, s_tir, tirx

from deploykit.compiler.dims.expressions import IntExpr
from deploykit.compiler.dtypes import storage_dtype
from deploykit.compiler.operators.building.context import Context, Site
from deploykit.compiler.operators.building.kernel_calls import OPAQUE
from deploykit.compiler.operators.building.value import Value
from deploykit.compiler.ragged.expressions import over
from deploykit.compiler.ragged.totals import product
from deploykit.compiler.tir.rewriting import Buffer, collect


def called(
    ctx: Context,
    name: str,
    body: tirx.Stmt,
    inputs: Mapping[Buffer, Value],
    results: Mapping[Buffer, tuple[IntExpr, str]],
) -> list[Value]:
    """The flat results of the kernel `body`. It reads the buffers of `inputs`, which are flat, and writes those of
    `results`, for which their number of elements and their dtype are given."""
    site, flat = ctx.site, {}
    for buffer, value in inputs.items():
        ctx.site = Site("ragged", f"{buffer.name}_flat")
        flat[buffer] = ctx.reshape(value, (product(value.shape),))
    ctx.site = site
    shapes = {buffer: value.shape for buffer, value in flat.items()}
    shapes |= {buffer: (elements,) for buffer, (elements, _) in results.items()}
    own = {
        buffer: tirx.decl_buffer(shape, str(buffer.ty.dtype), buffer.name, layout=None)
        for buffer, shape in shapes.items()
    }
    params = list(own.values())
    found = over(body, own)
    extents = [n for (n,) in shapes.values()]
    used = {*collect(found, ir.Var), *(var for n in extents if isinstance(n, ir.Expr) for var in collect(n, ir.Var))}
    given = {n for n in extents if isinstance(n, ir.Var)}
    scalars = sorted((v for v in ctx.shared.variables if v in used and v not in given), key=lambda var: var.name)
    func = tirx.PrimFunc([*params[: len(flat)], *scalars, *params[len(flat) :]], found)
    func = func.with_attr("s_tir", True).with_attr("tirx.noalias", True).with_attr("op_pattern", OPAQUE)
    gvar = ctx.shared.library.add_func(s_tir.renew_defs(func), name)
    types = [relax.TensorType((elements,), storage_dtype(dtype)) for elements, dtype in results.values()]
    arguments = relax.Tuple([*(ctx.tensor(value) for value in flat.values()), *scalars])
    call = relax.call_tir(gvar, arguments, types if len(types) > 1 else types[0])
    made = ctx.builder.emit(call, name)
    parts = [ctx.builder.emit(relax.TupleGetItem(made, i)) for i in range(len(types))] if len(types) > 1 else [made]
    return [Value(dtype, (n,), var=part) for (n, dtype), part in zip(results.values(), parts, strict=True)]
