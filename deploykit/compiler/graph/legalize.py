"""Legalises matrix products and convolutions: they become kernels.

`relax.matmul`, `relax.nn.conv{1,2,3}d` and `relax.nn.conv{1,2,3}d_transpose` (channels first) become `call_tir` of the
anchors in `operators.anchors`. Other kernels stay as they are, except that some indices are written differently
(`drop_unit_axes`), and that look-ups may read a table from the packed weight of a product (`share_tables`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeAlias

import numpy as np
from tvm import ir, relax, te

from deploykit.compiler.constants import constant, read
from deploykit.compiler.decisions import Decision, Declined, Note, unheard
from deploykit.compiler.devices.cpu import Device
from deploykit.compiler.dims.bounds import Box
from deploykit.compiler.graph import bf16_products, integer_products
from deploykit.compiler.graph.channels_last import follow, to_first, to_last
from deploykit.compiler.graph.drop_unit_axes import name_unit_axes
from deploykit.compiler.graph.grouped_products import GroupedProducts
from deploykit.compiler.graph.share_tables import Packed, share_tables
from deploykit.compiler.graph.winograd import Winograd
from deploykit.compiler.operators.anchors.channels_last import (
    conv_last,
    depthwise_last,
    depthwise_weight,
    depthwise_weight_array,
    pack_panels,
    pack_panels_array,
)
from deploykit.compiler.operators.anchors.conv import (
    ConvShape,
    conv,
    conv_transpose,
    output_size,
    transposed_size,
)
from deploykit.compiler.operators.anchors.matmul import accumulator, matmul, pack, pack_array, packed_matmul, place
from deploykit.compiler.operators.anchors.transposed_conv import (
    interleaved,
    phase_shape,
    phase_weight,
    phase_weight_array,
)
from deploykit.compiler.operators.building.kernel_calls import call_te
from deploykit.compiler.schedules.conv.direct import portable_width
from deploykit.compiler.schedules.conv.register_tiles import panel_vectors
from deploykit.compiler.schedules.conv.winograd import FEWEST_TILES
from deploykit.compiler.schedules.matmul.tile import panel_width
from deploykit.compiler.tir.values import bits_of, static

Say = Callable[[str, "str | Declined"], None]
"""Reports what became of an operator: the name of the rule, and the outcome or reason."""

Precision: TypeAlias = Literal["float32", "bf16"]

FEW_ROWS = 4
"""With fewer rows than this, a right operand that is computed at run time is not packed."""


@dataclass(frozen=True)
class _Setting:
    """What rules know besides an operator. `box` has the bounds of dims; constant weights of matrix products are
    appended to `packed`."""

    device: Device
    box: Box
    say: Say
    packed: list[Packed]
    precision: Precision
    kept: bool
    """Whether the operator stays in float32 because the user has said so."""


def legalize(
    mod: ir.IRModule,
    device: Device,
    note: Note = unheard,
    box: Box | None = None,
    *,
    narrow: bool = False,
    precision: Precision = "float32",
    kept: Collection[str] = (),
    computes: Device | None = None,
) -> ir.IRModule:
    """`mod`, with every matrix product and convolution as kernels for weights in the layout of `device`. `box` has the
    bounds of dims. `narrow`: products with weights in groups of few bits take left operands in 8 bits. These have the
    instructions of the device that `computes`, by default the same. `precision` is that of products and convolutions of
    float32 with constant weights, but for those of variables whose names are `kept`.

    Raises `ValueError` for a convolution that is not channels first.
    """
    legalizer = _Legalizer(
        *(mod, device, note, box or {}, precision, kept),
        partial(GroupedProducts, narrow=narrow, device=computes or device),
    )
    for name, func in mod.functions.items():
        if isinstance(func, relax.Function):
            legalizer.builder_.update_func(name, legalizer.visit_expr(func))
    entries = [name.name_hint for name, func in mod.functions.items() if isinstance(func, relax.Function)]
    clean = relax.transform.DeadCodeElimination(entries)
    return name_unit_axes(clean(share_tables(clean(legalizer.builder_.get()), legalizer.packed, note)))


@relax.expr_functor.mutator
class _Legalizer(relax.PyExprMutator):  # type: ignore[misc]
    def __init__(
        self,
        mod: ir.IRModule,
        device: Device,
        note: Note,
        box: Box,
        precision: Precision,
        kept: Collection[str],
        grouped: Callable[..., GroupedProducts],
    ) -> None:
        super().__init__(mod)
        self.device, self.note, self.box, self.precision = device, note, box, precision
        self.kept = kept
        self.name = ""
        self.packed: list[Packed] = []
        self.grouped = grouped(self.builder_, device)

    def visit_var_binding_(self, binding: relax.VarBinding) -> None:
        self.name = binding.var.name
        super().visit_var_binding_(binding)

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        call = super().visit_call_(call)
        grouped = self.grouped.rule(call)
        if grouped is not None:
            return grouped(call)
        exact = integer_products.rule(call)
        if exact is not None:
            return exact(self.builder_, call, self.device, self.packed)
        rule = RULES.get(getattr(call.op, "name", ""))
        if rule is not None:
            kept = self.name in self.kept
            setting = _Setting(self.device, self.box, self.say, self.packed, self.precision, kept)
            return rule(self.builder_, call, setting)
        followed = follow(self.builder_, call)
        if followed is None:
            return call
        if isinstance(followed, Declined):
            self.note(Decision("channels_last", self.name, followed))
            return call
        self.note(Decision("channels_last", self.name, "computed with its channels last"))
        return followed

    def say(self, by: str, outcome: str | Declined) -> None:
        """Note what became of the current operator."""
        self.note(Decision(by, self.name, outcome))


def _matmul(builder: relax.BlockBuilder, call: relax.Call, setting: _Setting) -> relax.Expr:
    a, b = call.args
    dtype = _dtype(call)
    if _in_bf16(a, b, setting):
        return bf16_products.matmul(builder, a, b, setting.device)
    unpacked = _unpacked(a, b, setting.device)
    setting.say("panels", unpacked or "a product with its right operand in panels")
    if unpacked is not None:
        return call_te(builder, partial(matmul, dtype=dtype), a, b, name="matmul")
    width = panel_width(setting.device, accumulator(dtype), b.ty.shape[-1])
    if isinstance(b, ir.GenericConst):
        with read(b) as array:
            panels = constant(pack_array(array, width))
        setting.packed.append(Packed(b, panels, partial(place, width)))
    else:
        panels = builder.emit(call_te(builder, pack, b, width, name="pack"))
    build = partial(packed_matmul, dtype=dtype)
    return call_te(builder, build, a, panels, b.ty.shape[-1], name="matmul")


def _in_bf16(left: relax.Expr, right: relax.Expr, setting: _Setting) -> bool:
    """Whether a product, or a convolution of dense weights, is one of bfloat16."""
    if setting.precision != "bf16":
        return False
    declined = bf16_products.declined(left, right, setting.device, kept=setting.kept)
    setting.say(bf16_products.BF16, declined or "a product of bfloat16")
    return declined is None


def _unpacked(a: relax.Expr, b: relax.Expr, device: Device) -> Declined | None:
    """The reason why the right operand is not packed at all, neither at build time nor by a kernel of its own."""
    if len(a.ty.shape) < 2 or len(b.ty.shape) < 2:
        return Declined("it is no product of two matrices")
    if isinstance(b, ir.GenericConst):
        return None
    if device.vector_bits > 0 and accumulator(str(a.ty.dtype)) == str(a.ty.dtype):
        return Declined("its right operand is computed: the kernel packs it piece by piece")
    rows = static(a.ty.shape[-2])
    if rows is not None and rows < FEW_ROWS:
        return Declined(f"its right operand is computed, and it has fewer than {FEW_ROWS} rows")
    return None


def _conv(builder: relax.BlockBuilder, call: relax.Call, setting: _Setting) -> relax.Expr:
    data, weight = call.args
    shape, dtype = _conv_shape(call), _dtype(call)
    if _static_shape(weight) is None or static(data.ty.shape[1]) is None:
        setting.say("convolutions", Declined("the sizes of its weights or its channels are not known: sums as written"))
        return call_te(builder, partial(conv, shape=shape, dtype=dtype), data, weight, name="conv")
    spatial = len(shape.strides)
    result = _conv_last(builder, to_last(builder, data, spatial), weight, _Conv(shape, dtype, setting))
    return to_first(builder, builder.emit(result), spatial)


@dataclass(frozen=True)
class _Conv:
    """A convolution without its operands."""

    shape: ConvShape
    dtype: str
    setting: _Setting


def _conv_last(builder: relax.BlockBuilder, data: relax.Expr, weight: relax.Expr, conv_: _Conv) -> relax.Expr:
    """The convolution of data with channels last; `weight` is `[O, C / groups, *kernel]` with known extents."""
    shape, dtype, setting = conv_.shape, conv_.dtype, conv_.setting
    outputs, _, *kernel = (int(extent) for extent in weight.ty.shape)
    pairs = enumerate(zip(data.ty.shape.values[1:-1], kernel, strict=True))
    spatial = [output_size(size, width, shape, dim) for dim, (size, width) in pairs]
    if shape.groups > 1 and shape.groups == outputs == int(data.ty.shape[-1]):
        kernels = _rearranged(builder, weight, depthwise_weight, depthwise_weight_array)
        setting.say("convolutions", "depthwise, along the channels")
        build = partial(depthwise_last, shape=shape, dtype=dtype)
        return call_te(builder, build, data, kernels, spatial, name="depthwise")
    width = _panel_channels(setting.device, accumulator(dtype), outputs // shape.groups)
    fewest = bf16_products.fewest_tiles(setting.device) if setting.precision == "bf16" else FEWEST_TILES
    winograd = Winograd(shape, conv_.dtype, spatial, width, fewest)
    dense = shape.groups == 1 and min(shape.padding) >= 0
    if setting.device.amx and dense and _in_bf16(data, weight, setting):
        return bf16_products.conv(builder, data, weight, shape, setting.device)
    untransformed = winograd.declined(data, weight, setting.device, setting.box)
    setting.say("winograd", untransformed or "a convolution in transformed tiles")
    if untransformed is None:
        return winograd.kernels(builder, data, weight, setting.device)
    if not setting.device.amx and dense and _in_bf16(data, weight, setting):
        return bf16_products.conv(builder, data, weight, shape, setting.device)
    tensor = partial(pack_panels, groups=shape.groups, width=width)
    array = partial(pack_panels_array, groups=shape.groups, width=width)
    panels = _rearranged(builder, weight, tensor, array)
    build = partial(conv_last, shape=shape, channels=outputs, dtype=dtype)
    return call_te(builder, build, data, panels, spatial, name="conv")


def _panel_channels(device: Device, dtype: str, channels: int) -> int:
    """The output channels of a panel."""
    if not device.vector_bits:
        return portable_width(channels, device, dtype)
    return panel_vectors(device, dtype, channels) * device.lanes(bits_of(dtype))


def _rearranged(
    builder: relax.BlockBuilder,
    weight: relax.Expr,
    tensor: Callable[[te.Tensor], te.Tensor],
    array: Callable[[np.ndarray], np.ndarray],
) -> relax.Expr:
    """The weights in another order: rearranged at build time if they are constant, else by a kernel."""
    if isinstance(weight, ir.GenericConst):
        with read(weight) as elements:
            return constant(array(elements))
    return builder.emit(call_te(builder, tensor, weight, name="rearranged"))


def _conv_transpose(builder: relax.BlockBuilder, call: relax.Call, setting: _Setting) -> relax.Expr:
    data, weight = call.args
    shape, dtype = _conv_shape(call), _dtype(call)
    extra = [int(n) for n in call.attrs.output_padding]
    sizes = _static_shape(weight)
    if sizes is None or any(step > 1 for step in shape.dilation):
        setting.say(
            "convolutions", Declined("the sizes of its weights are not known, or it is dilated: sums as written")
        )
        build = partial(conv_transpose, shape=shape, output_padding=extra, dtype=dtype)
        return call_te(builder, build, data, weight, name="conv_transpose")
    triples = enumerate(zip(data.ty.shape.values[2:], sizes[2:], extra, strict=True))
    extents = [transposed_size(size, width, shape, dim, more) for dim, (size, width, more) in triples]
    if isinstance(weight, ir.GenericConst):
        with read(weight) as array:
            weight = constant(phase_weight_array(array, shape))
    else:
        build = partial(phase_weight, shape=shape)
        weight = builder.emit(call_te(builder, build, weight, name="phase_weight"))
    phases = _Conv(phase_shape(sizes[2:], extra, shape), dtype, setting)
    result = builder.emit(_conv_last(builder, to_last(builder, data, len(extents)), weight, phases))
    build = partial(interleaved, shape=shape)
    whole = builder.emit(call_te(builder, build, result, extents, name="interleaved"))
    return to_first(builder, whole, len(extents))


def _static_shape(tensor: relax.Expr) -> list[int] | None:
    sizes = [static(extent) for extent in tensor.ty.shape]
    return [size for size in sizes if size is not None] if None not in sizes else None


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


RULES: dict[str, Callable[[relax.BlockBuilder, relax.Call, _Setting], relax.Expr]] = {
    "relax.matmul": _matmul,
    **{f"relax.nn.conv{rank}d": _conv for rank in (1, 2, 3)},
    **{f"relax.nn.conv{rank}d_transpose": _conv_transpose for rank in (1, 2, 3)},
}
"""The function that legalises each operator, by the operator's name."""
