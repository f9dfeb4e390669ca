"""Lowers a scheduled PrimFunc to a kernel with the raw ABI.

A scheduled function (blocks, buffer params, symbolic shapes) becomes a `Kernel` with these parameters:

    pointer per buffer param, in order          float32 *x, float32 *y
    pointer per lifted workspace                float32 *w
    int64 scalars                               integer params in order, then free shape variables in order of
                                                first appearance in the buffer shapes
    int64 begin, end                            only with an outermost parallel loop

What becomes what:

* blocks -> loops, multi-dimensional buffers -> flat ones, vectorised loops -> vector operations (`vectorize=True`)
  or serial loops (`vectorize=False`);
* float arithmetic that would be simplified like that of real numbers -> other forms of it, see `inexact`;
* a size that depends on a condition over the scalars -> a variable, see `conditional_sizes`;
* the initial value of a reduction -> a loop nest before the reduction loops, so that it is stored for extent 0, too;
* a single outermost `parallel` loop of extent `e` -> a serial loop over `[begin, end)` and `parallel_extent = e`;
  every other parallel loop -> a serial loop;
* an allocation whose size is symbolic or above `stack_limit` bytes -> a pointer parameter, reported as `Workspace`.
  An allocation inside the outermost parallel loop gets separate memory for each iteration.

All scalars are int64; those of 32-bit integer params are cast inside the kernel.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import tvm
import tvm_ffi
from tvm import s_tir, tirx
from tvm.ir import IRModule, PrimType, Var, register_op_attr

from deploykit.compiler.decisions import Choice
from deploykit.compiler.dims import substitute
from deploykit.compiler.lowering import raw_abi
from deploykit.compiler.lowering.conditional_sizes import name_choices, opaque
from deploykit.compiler.lowering.kernel import Kernel
from deploykit.compiler.lowering.reduction_starts import initialise_first
from deploykit.compiler.schedules.kernel.stages import scalars_of
from deploykit.compiler.tir.inexact import EXACT, keep_inexact

if TYPE_CHECKING:
    from collections.abc import Sequence

    from deploykit.compiler.dims.expressions import IntExpr

STACK_LIMIT = 1024
"""Bytes. A buffer of constant size up to this stays on the stack of a kernel."""

HOST_STACK_LIMIT = 128 << 10
"""The same limit where stacks are large. It holds a register tile and data that stays in the second-level cache."""

for _operator in ("tirx.nearbyint", "tirx.erf", "tirx.log1p"):
    # Native code has these functions for vectors; by default TVM splits a vector operation with them into lanes.
    register_op_attr(_operator, "TVectorizable", value=True)


@dataclass(frozen=True)
class Workspace:
    """Scratch memory that a kernel takes as a pointer. `shape` is in elements, over the kernel's scalars."""

    dtype: str
    shape: tuple[IntExpr, ...]


@dataclass(frozen=True)
class LoweredKernel:
    """A lowered kernel. `scalars` are the variables of the scheduled function that its int64 parameters hold, in
    order."""

    kernel: Kernel
    scalars: tuple[Var, ...]
    workspaces: tuple[Workspace, ...]


@dataclass(frozen=True)
class LoweredPart:
    """A kernel that computes a part of a function. `operands` are indices into the buffers of the function followed by
    its temporaries; the kernel writes the last `outputs` of them."""

    kernel: LoweredKernel
    operands: tuple[int, ...]
    outputs: int


@dataclass(frozen=True)
class LoweredParts:
    """A function as kernels that run one after the other. `temporaries` are tensors that pass values between them;
    `choices` are the schedule rules that were applied to its stages."""

    temporaries: tuple[Workspace, ...]
    parts: tuple[LoweredPart, ...]
    choices: tuple[Choice, ...] = ()


def lower(
    func: tirx.PrimFunc,
    name: str,
    *,
    vectorize: bool = True,
    stack_limit: int = STACK_LIMIT,
    effort: IntExpr = 0,
    name_values: bool = True,
) -> LoweredKernel:
    """Lower `func` to the raw ABI. `effort` is the estimate that the kernel carries. Without `name_values`, a value
    that occurs several times has no name: kernels then have the same form whichever of their sizes are equal.

    Raises `ValueError` for a parameter that is neither a buffer nor an integer.
    """
    scalars = _scalars(func)
    plain, found = name_choices(keep_inexact(_without_offsets(func)), scalars)
    choices = opaque(found)
    flat = _flattened(initialise_first(plain))
    parallel = raw_abi.find_parallel(flat.body)
    body, lifted = raw_abi.lift_workspaces(flat.body, stack_limit, parallel)
    body = raw_abi.split_parallel(body, parallel)
    loops = tirx.PrimFunc([*flat.params, *lifted], body, flat.ret_type, flat.attrs)
    span = (parallel.begin, parallel.end) if parallel else ()
    finished = _run(_finishing(vectorize), loops)
    # Values are named last, because the simplifications cannot handle a named quotient of converted integers.
    needed = _run([tirx.transform.RemoveNoOp()], finished.with_body(raw_abi.drop_unread(finished.body)))
    needed = with_named_values(needed) if name_values else needed
    raw = _raw_abi(needed, name, scalars, choices, span)
    kernel = Kernel(name, raw, raw_abi.inline_binds(parallel.extent, choices) if parallel else None, effort)
    workspaces = tuple(
        Workspace(str(b.ty.dtype), tuple(raw_abi.inline_binds(extent, choices) for extent in b.ty.shape))
        for b in lifted
    )
    return LoweredKernel(kernel, scalars, workspaces)


class Lowering:
    """Lowers the functions of a build. Equal ones are lowered once, as those for CPUs with vectors of the same size."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], list[tuple[tirx.PrimFunc, LoweredKernel]]] = {}

    def lower(
        self,
        func: tirx.PrimFunc,
        name: str,
        *,
        vectorize: bool,
        stack_limit: int,
        effort: IntExpr,
        name_values: bool,
    ) -> LoweredKernel:
        """As the function `lower`."""
        # The hash has all bits of numbers.
        key = (tvm_ffi.structural_hash(func), vectorize, stack_limit, name_values)
        alike = self._known.setdefault(key, [])
        for known, lowered in alike:
            if tvm_ffi.structural_equal(known, func):
                return _renamed(lowered, name, _scalars(func), effort)
        found = lower(
            *(func, name), vectorize=vectorize, stack_limit=stack_limit, effort=effort, name_values=name_values
        )
        alike.append((func, found))
        return found


def _renamed(lowered: LoweredKernel, name: str, scalars: tuple[Var, ...], effort: IntExpr) -> LoweredKernel:
    """What lowering an equal function with these scalars gives."""
    own = dict(zip(scalars, lowered.scalars, strict=True))
    given = dict(zip(lowered.scalars, scalars, strict=True))
    func = lowered.kernel.func.with_attr("global_symbol", name)
    kernel = replace(lowered.kernel, name=name, func=func, effort=substitute(effort, own))
    workspaces = tuple(
        Workspace(each.dtype, tuple(substitute(extent, given) for extent in each.shape)) for each in lowered.workspaces
    )
    return LoweredKernel(kernel, scalars, workspaces)


def with_named_values(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """The function, with a name for each value that occurs several times."""
    return _run([tirx.transform.CommonSubexprElim()], func)


def _without_offsets(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """The function, with buffer params that start where their pointer points (no element offset)."""
    plain = {
        param: tirx.decl_buffer(param.ty.shape, str(param.ty.dtype), param.name)
        for param in func.params
        if tirx.is_buffer_var(param) and isinstance(param.ty.elem_offset, Var)
    }
    return func.specialize(plain) if plain else func


def _flattened(func: tirx.PrimFunc) -> tirx.PrimFunc:
    blocks = [
        s_tir.transform.CanonicalizeLoop(),
        s_tir.transform.LowerInitBlock(),
        s_tir.transform.PlanAndUpdateBufferAllocationLocation(),
        s_tir.transform.ConvertBlocksToOpaque(),
    ]
    loops = [
        s_tir.transform.LowerMatchBuffer(),
        tirx.transform.StmtSimplify(),
        s_tir.transform.LowerOpaqueBlock(),
        tirx.transform.FlattenBuffer(),
        tirx.transform.StmtSimplify(),
    ]
    return _run(loops, _compacted(_run(blocks, func)))


def _compacted(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """The function with buffers that are as large as what is used of them, or as they are: the pass divides by the
    least value that it knows of a size, which may be zero."""
    try:
        return _run([s_tir.transform.CompactBufferAllocation()], func)
    except tvm.error.InternalError as error:
        if "Divide by zero" not in str(error):
            raise
        return func


def _finishing(vectorize: bool) -> list[tvm.ir.transform.Pass]:
    passes = [s_tir.transform.LoopPartition(), tirx.transform.VectorizeLoop(vectorize)]
    if vectorize:
        passes.append(tirx.transform.UnrollLoop())
    return [
        *passes,
        tirx.transform.StmtSimplify(),
        tirx.transform.RemoveNoOp(),
        s_tir.transform.RewriteUnsafeSelect(),
    ]


def _run(passes: Sequence[tvm.ir.transform.Pass], func: tirx.PrimFunc) -> tirx.PrimFunc:
    return tvm.ir.transform.Sequential(passes)(IRModule({"main": func}))["main"]


def _scalars(func: tirx.PrimFunc) -> tuple[Var, ...]:
    """The variables that become int64 parameters."""
    for param in func.params:
        if tirx.is_buffer_var(param):
            continue
        if not isinstance(param.ty, PrimType) or not str(param.ty.dtype).startswith(("int", "uint")):
            raise ValueError(f"parameter `{param.name}` of kernel `{func.attrs}` is neither a buffer nor an integer")
    return tuple(scalars_of(func))


def _raw_abi(
    func: tirx.PrimFunc, name: str, scalars: Sequence[Var], choices: Sequence[tirx.Bind], span: Sequence[Var]
) -> tirx.PrimFunc:
    """Replace buffer params by pointers, and integer params by int64 ones."""
    params: list[Var] = []
    prologue: list[tirx.Stmt] = [*choices]
    for buffer in func.params:
        if tirx.is_buffer_var(buffer):
            pointer = Var(buffer.name, buffer.data.ty)
            params.append(pointer)
            prologue.append(tirx.DeclBuffer(buffer, data=pointer))
    for scalar in scalars:
        if str(scalar.ty.dtype) == "int64":
            params.append(scalar)
            continue
        wide = Var(scalar.name, "int64")
        params.append(wide)
        prologue.insert(0, tirx.Bind(scalar, tirx.Cast(scalar.ty.dtype, wide)))
    params.extend(span)
    body = tirx.SeqStmt([*prologue, func.body]) if prologue else func.body
    loose = [v.name for v in tirx.analysis.undefined_vars(body, params)]
    if loose:
        raise ValueError(f"kernel `{name}` uses variables that are not in its buffer shapes: {', '.join(loose)}")
    raw = tirx.PrimFunc(params, body).with_attr("global_symbol", name)
    if func.attrs and func.attrs.get("tirx.noalias"):
        raw = raw.with_attr("tirx.noalias", True)
    if func.attrs and func.attrs.get(EXACT):
        raw = raw.with_attr(EXACT, True)
    return raw
