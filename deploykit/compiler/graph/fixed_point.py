"""Requantisation in integers, for CPUs on which float32 is slow or missing.

A kernel that computes, from an int32 sum and constants `factor` and `bias`,

    saturate(round(float32(sum) * factor + bias) + zero)        each step rounded to float32, ties to even at the end

gets `factor` and `bias` as integers, in units of `2**-bits`, and calls `requantize` (`codegen.c.words`). That adds
exactly and rounds once, which gives another integer only if the exact result is nearer to a tie than all roundings of
float32 can move it. There the steps are repeated with integers of 24 bits. The results are those of float32, bit for
bit.

With `u = 2**-24` and results in `[-R, R]` before saturation, the product is at most `P = R + 1 + max |bias|`, and the
three roundings move a result by at most `3 u P (1 + 2 u)`; results that are further away saturate in both forms. This
distance is rounded up to three bits, so that kernels of several layers are the same and few results are computed twice.

It applies if all factors are positive, the largest less than 1/2 and none smaller than the largest by more than
`2**7`, and if biases are multiples of `2**-bits` and below `2**20`: then all of them are exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, frexp

import numpy as np
import tvm_ffi
from tvm import ir, relax, s_tir, tirx

from deploykit.compiler.constants import array_of, constant
from deploykit.compiler.operators.quantized.numbers import RANGES
from deploykit.compiler.tir.requantization import Requantization, requantization_of
from deploykit.compiler.tir.rewriting import Buffer, Expr, collect

ROUNDING = 2.0**-24
"""The relative error of a rounding to float32."""

MOST_BITS = 60
"""No factor has more bits behind the point."""

NEAR = 1 << 22
"""The least distance to a tie, in units of 2**-32, within which results are computed again."""

_KEPT = 3
"""The bits of a distance to a tie."""

_SATURATED = {**{name: RANGES[name] for name in ("int8", "uint8", "int16")}, "uint15": (0, (1 << 15) - 1)}
"""The least and the greatest number of integers with a function `saturate_...` in `codegen.c.words`. Those of 15 bits
are int16 behind a Relu."""


@dataclass(frozen=True)
class Constants:
    """Factors and biases in units of `2**-bits`; biases with zero point and one half. `near`, in units of `2**-32`, is
    how near to a tie float32 may give another result."""

    multipliers: np.ndarray
    addends: np.ndarray
    bits: int
    near: int


def in_fixed_point(module: ir.IRModule) -> ir.IRModule:
    """`module`, with requantisation in integers where that gives the same bits."""
    rewriter = _Rewriter(module, _shared_bits(module))
    for name, func in module.functions.items():
        if isinstance(func, relax.Function):
            rewriter.builder_.update_func(name, rewriter.visit_expr(func))
    return rewriter.builder_.get()


@relax.expr_functor.mutator
class _Rewriter(relax.PyExprMutator):  # type: ignore[misc]
    def __init__(self, module: ir.IRModule, bits: int) -> None:
        super().__init__(module)
        self.module, self.bits = module, bits

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        call = super().visit_call_(call)
        asked = _asked(self.module, call)
        if asked is None:
            return call
        found, places = asked
        made = _constants(call, asked, self.bits) or _constants(call, asked, MOST_BITS)
        if made is None:
            return call
        arguments = list(call.args[1].fields)
        for place, array in zip(places, (made.multipliers, made.addends), strict=True):
            arguments[place] = constant(array)
        func = _rewritten(self.module[call.args[0]], found, made)
        return relax.call_tir(self.builder_.add_func(func, "requantize"), relax.Tuple(arguments), call.ty)


def _asked(module: ir.IRModule, call: relax.Call) -> tuple[Requantization, tuple[int, int]] | None:
    """What a call computes, if it is requantisation with constants, and the places of these among its operands."""
    if getattr(call.op, "name", "") != "relax.call_tir":
        return None
    func, operands = module[call.args[0]], call.args[1].fields
    found = _read(func)
    if found is None or len(operands) != len(func.params) - 1:
        return None
    params = list(func.params)
    places = params.index(found.factor.source), params.index(found.bias.source)
    return (found, places) if all(isinstance(operands[place], ir.GenericConst) for place in places) else None


def _constants(call: relax.Call, asked: tuple[Requantization, tuple[int, int]], most: int) -> Constants | None:
    """The constants of a call in integers, with at most `most` bits."""
    found, places = asked
    factor, bias = (array_of(call.args[1].fields[place]) for place in places)
    return constants(factor, bias, (found.low, found.high), found.zero, most)


def _shared_bits(module: ir.IRModule) -> int:
    """The bits with which most kernels of a module can be the same: the fewest that one of them takes."""
    fewest = MOST_BITS

    def visit(node: relax.Expr) -> None:
        nonlocal fewest
        asked = _asked(module, node) if isinstance(node, relax.Call) else None
        made = _constants(node, asked, MOST_BITS) if asked is not None else None
        fewest = min(fewest, made.bits if made is not None else MOST_BITS)

    for func in module.functions.values():
        if isinstance(func, relax.Function):
            relax.analysis.post_order_visit(func, visit)
    return fewest


def constants(
    factor: np.ndarray, bias: np.ndarray, ends: tuple[int, int], zero: int, most: int = MOST_BITS
) -> Constants | None:
    """The constants in integers with at most `most` bits, if they are exact. `ends` are the least and the greatest
    result before `zero` is added."""
    if not factor.size or not bias.size or not (np.isfinite(factor).all() and np.isfinite(bias).all()):
        return None
    largest, reach = float(factor.max()), float(np.abs(bias).max())
    if factor.min() <= 0 or largest >= 0.5 or reach >= 2**20:
        return None
    bits = min(31 - frexp(largest)[1], most)
    least = ceil(3 * ROUNDING * (1 + 2 * ROUNDING) * (max(map(abs, ends)) + 1 + reach) * 2**32)
    lost = max(least.bit_length() - _KEPT, 0)
    near = max(NEAR, -(-least >> lost) << lost)
    multipliers, addends = (np.ldexp(v.astype(np.float64), bits) for v in (factor, bias))
    exact = all((v == np.floor(v)).all() for v in (multipliers, addends))
    if not exact or near >= 2**28 or (reach + abs(zero) + 1) * 2.0**bits >= 2**62:
        return None
    return Constants(
        multipliers.astype(np.int32), addends.astype(np.int64) + np.int64((2 * zero + 1) << (bits - 1)), bits, near
    )


def _read(func: tirx.PrimFunc) -> Requantization | None:
    """What `func` computes, if it is requantisation and nothing else."""
    stores = collect(func.body, tirx.BufferStore)
    return requantization_of(stores[0].value) if len(stores) == 1 else None


def _rewritten(func: tirx.PrimFunc, found: Requantization, made: Constants) -> tirx.PrimFunc:
    """`func`, with integer constants."""
    changed: dict[Buffer, Buffer] = {
        load.source: tirx.decl_buffer(load.source.shape, dtype, load.source.name, layout=None)
        for load, dtype in ((found.factor, "int32"), (found.bias, "int64"))
    }

    def loaded(load: ir.TensorLoad) -> Expr:
        return tirx.BufferLoad(changed[load.source], load.indices)

    numbers = [tirx.IntImm("int32", n) for n in (found.zero, made.bits)]
    result = tirx.call_pure_extern(
        "int32",
        "requantize",
        found.total,
        loaded(found.factor),
        loaded(found.bias),
        *numbers,
        tirx.IntImm("uint32", made.near),
    )
    low, high = found.low + found.zero, found.high + found.zero
    saturated = next((name for name, ends in _SATURATED.items() if ends == (low, high)), None)
    if saturated is not None:
        result = tirx.call_pure_extern("int32", f"saturate_{saturated}", result)
    else:
        result = tirx.max(tirx.min(result, tirx.IntImm("int32", high)), tirx.IntImm("int32", low))
    value = tirx.Cast(found.dtype, result)

    def store(old: tirx.BufferStore) -> tirx.Stmt:
        return tirx.BufferStore(old.buffer, value, old.indices)

    def region(old: tirx.BufferRegion) -> tirx.BufferRegion:
        return tirx.BufferRegion(changed.get(old.source, old.source), old.region)

    def block(old: s_tir.SBlock) -> s_tir.SBlock:
        return s_tir.SBlock(
            old.iter_vars,
            [region(read) for read in old.reads],
            old.writes,
            old.name_hint,
            old.body,
            old.init,
            old.alloc_buffers,
            old.match_buffers,
            old.annotations,
        )

    body = tvm_ffi.structural_map(func.body, [(tirx.BufferStore, store), (s_tir.SBlock, block)])
    params = [changed.get(param, param) for param in func.params]
    return tirx.PrimFunc(params, body, func.ret_type, func.attrs)
