"""Calls of kernels given as tensor expressions, with integer parameters in a fixed order.

A dim that occurs in the shapes of the operands only within an expression, such as `(n - 3) // 2 + 1`, is an integer
parameter of the kernel. TVM orders several of them by address, which differs between processes. So kernels, and the
bytes of an artifact, would differ from build to build. Here they are in the order in which the arguments first mention
them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tvm import ir, relax, tirx
from tvm.relax.utils import gen_call_tir_inputs

from deploykit.compiler.tir.rewriting import collect

OPAQUE = 8
"""TVM's pattern of a kernel that is not fused with others."""
FUSABLE = 4
"""TVM's pattern of a kernel with which elementwise kernels behind it are fused."""
INJECTIVE = 2
"""TVM's pattern of a kernel that computes each element from one element of each operand, wherever that is."""


def call_te(
    builder: relax.BlockBuilder,
    build: Callable[..., Any],
    *args: Any,
    name: str,
    attributes: Mapping[str, Any] | None = None,
) -> relax.Call:
    """A call of the kernel that `build` describes, like that of `relax.BlockBuilder.call_te`."""
    func, given, result = gen_call_tir_inputs(build, *args, primfunc_attrs=attributes)
    ranks = {dim: rank for rank, dim in enumerate(dict.fromkeys(_dims(args)))}
    places = [place for place, argument in enumerate(given) if not is_tensor(argument)]
    order = list(range(len(func.params)))
    for place, source in zip(places, sorted(places, key=lambda place: ranks[given[place]]), strict=True):
        order[place] = source
    ordered = tirx.PrimFunc([func.params[place] for place in order], func.body, func.ret_type, func.attrs)
    return relax.call_tir(builder.add_func(ordered, name), [given[place] for place in order[: len(given)]], result)


def _dims(argument: Any) -> Iterator[ir.Var]:
    """The dims in an argument of a kernel, which is a tensor, a number, or a sequence of these."""
    if isinstance(argument, list | tuple):
        for part in argument:
            yield from _dims(part)
    elif isinstance(argument, ir.Expr):
        yield from collect(argument.ty.shape if is_tensor(argument) else argument, ir.Var)


def is_tensor(argument: relax.Expr) -> bool:
    return isinstance(argument.ty, relax.TensorType)
