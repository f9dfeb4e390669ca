"""Legalisation: matrix products and convolutions become kernels.

`relax.matmul`, `relax.nn.conv{1,2,3}d` and `relax.nn.conv{1,2,3}d_transpose` (channels first) become `call_tir` of the
anchors in `schedules.anchors`. Everything else is left as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tvm import ir, relax

from deploykit.compiler.schedules.anchors.conv import ConvShape, conv, conv_transpose
from deploykit.compiler.schedules.anchors.matmul import matmul
from deploykit.compiler.schedules.device import Device


def legalize(mod: ir.IRModule, device: Device) -> ir.IRModule:
    """`mod` with every matrix product and convolution as a kernel for `device`.

    Raises `ValueError` for a convolution that is not channels first.
    """
    legalizer = _Legalizer(mod, device)
    for name, func in mod.functions.items():
        if isinstance(func, relax.Function):
            legalizer.builder_.update_func(name, legalizer.visit_expr(func))
    return legalizer.builder_.get()


@relax.expr_functor.mutator
class _Legalizer(relax.PyExprMutator):  # type: ignore[misc]
    def __init__(self, mod: ir.IRModule, device: Device) -> None:
        super().__init__(mod)
        self.device = device

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        call = super().visit_call_(call)
        rule = RULES.get(getattr(call.op, "name", ""))
        return call if rule is None else rule(self.builder_, call)


def _matmul(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    a, b = call.args
    build = partial(matmul, dtype=_dtype(call))
    return builder.call_te(build, a, b, primfunc_name_hint="matmul")


def _conv(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    data, weight = call.args
    build = partial(conv, shape=_conv_shape(call), dtype=_dtype(call))
    return builder.call_te(build, data, weight, primfunc_name_hint="conv")


def _conv_transpose(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    data, weight = call.args
    extra = tuple(int(n) for n in call.attrs.output_padding)
    build = partial(conv_transpose, shape=_conv_shape(call), output_padding=extra, dtype=_dtype(call))
    return builder.call_te(build, data, weight, primfunc_name_hint="conv_transpose")


def _conv_shape(call: relax.Call) -> ConvShape:
    attrs = call.attrs
    if not attrs.data_layout.startswith("NC") or attrs.kernel_layout[:2] not in ("OI", "IO"):
        raise ValueError(f"a convolution has layout {attrs.data_layout}, {attrs.kernel_layout}; only NC* is known")
    return ConvShape(
        tuple(int(n) for n in attrs.strides),
        tuple(int(n) for n in attrs.padding),
        tuple(int(n) for n in attrs.dilation),
        int(attrs.groups),
    )


def _dtype(call: relax.Call) -> str:
    return str(call.attrs.out_dtype or call.args[0].ty.dtype)


RULES: dict[str, Callable[[relax.BlockBuilder, relax.Call], relax.Expr]] = {
    "relax.matmul": _matmul,
    **{f"relax.nn.conv{rank}d": _conv for rank in (1, 2, 3)},
    **{f"relax.nn.conv{rank}d_transpose": _conv_transpose for rank in (1, 2, 3)},
}
"""The operators taken, by name."""
