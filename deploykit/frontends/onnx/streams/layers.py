"""Operators that look along time, in a stream: convolutions, pooling and recurrent layers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import onnx_ir as ir

from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.compiler.operators.building.value import Value
from deploykit.frontends.onnx.attributes import AUTO_PADS, axis_attribute, explicit_pads
from deploykit.frontends.onnx.streams.frames import CAUSAL, Frames, Now, Reach, placed
from deploykit.frontends.onnx.tensors import elements

if TYPE_CHECKING:
    from deploykit.frontends.onnx.node import Node
    from deploykit.frontends.onnx.streams.kept import Kept

WINDOWS = frozenset({"Conv", "MaxPool", "AveragePool", "LpPool"})
RECURRENT = frozenset({"LSTM", "GRU", "RNN"})

MOVES_ZEROS = frozenset({"Cast", "Expand", "Identity", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze"})
"""Operators that make zeros of zeros."""

Mark: TypeAlias = "Frames | Now | None"
"""What is known of the frames of a value; None: it does not depend on the stream."""


def reach_of(node: Node, kernel: Sequence[object], x: Frames) -> Reach:
    """The windows of a convolution or a pooling along time."""
    rank, place = len(kernel), x.axis - 2
    size = kernel[place]
    if not isinstance(size, int):
        raise Unsupported("the size of its windows along time is not known")
    stride = axis_attribute(node, "strides", rank, 1)[place]
    span = (size - 1) * axis_attribute(node, "dilations", rank, 1)[place] + 1
    automatic = node.choice("auto_pad", AUTO_PADS, "NOTSET")
    if automatic.startswith("SAME") and not (span == 1 and stride == 1):
        raise Unsupported(f"auto_pad {automatic} pads behind the last frame: {CAUSAL}")
    if node.int("ceil_mode", 0) == 1 and stride > 1:
        raise Unsupported("ceil_mode computes windows that end behind the last frame: export the model without it")
    pads = explicit_pads(node, rank)
    return Reach(span, stride, pads[place], pads[place + rank])


def windowed(node: Node, x: Value, frames: Frames, kernel: Sequence[object], kept: Kept) -> tuple[Node, Value, Frames]:
    """A convolution or a pooling as a stream computes it: without padding along time, and its data with the frames in
    front of the new ones."""
    reach = reach_of(node, kernel, frames)
    rank, place = len(kernel), frames.axis - 2
    frames.require_no_later()
    found = placed(frames, reach)
    if found.frames.length == 1 and reach.stride > 1:
        reach = replace(reach, stride=1)  # a window has one of them
        found = placed(frames, reach)
    if found.frames.behind:
        found = replace(found, frames=replace(found.frames, waits=f"{node.op_type} '{node.name}'"))
    least = node.op_type == "MaxPool" and reach.before > 0
    if least and frames.ahead:
        raise Unsupported("it pads frames that are padded already")
    if node.op_type == "AveragePool" and reach.before and node.int("count_include_pad", 0) == 0:
        raise Unsupported("its means leave padding out: set count_include_pad, or pad in front of it")
    x = kept.with_past(x, frames.axis, found.past)
    if least or (frames.early and reach.before + frames.ahead):
        x = kept.cleared(x, frames, max(found.past, 0), least=least)
    if node.choice("auto_pad", AUTO_PADS, "NOTSET").startswith("SAME"):
        return node, x, found.frames
    pads = explicit_pads(node, rank)
    pads[place] = pads[place + rank] = 0
    strides = axis_attribute(node, "strides", rank, 1)
    strides[place] = reach.stride
    return _with(_with(_with(node, "pads", pads), "strides", strides), "auto_pad", "NOTSET"), x, found.frames


def _with(node: Node, name: str, value: list[int] | str) -> Node:
    attribute = ir.AttrString(name, value) if isinstance(value, str) else ir.AttrInt64s(name, value)
    return replace(node, attributes={**node.attributes, name: attribute})


def recurrent(
    node: Node, inputs: Sequence[Value | None], frames: Frames, kept: Kept
) -> tuple[list[Value | None], list[str]]:
    """The operands of a recurrent layer that goes on from its states, and the names of these states."""
    if node.string("direction", "forward").lower() != "forward":
        raise Unsupported("it reads the last frame first: a stream can only have layers that read forward")
    frames.require_no_later()
    if frames.early or frames.ahead:
        raise Unsupported(f"a layer in front of it has fewer frames than the stream: {CAUSAL}")
    batch_first = node.int("layout", 0) == 1
    if frames.axis != int(batch_first):
        raise Unsupported("frames are not the axis that it goes along")
    operands = [*inputs, *[None] * (8 - len(inputs))]
    x, _, weights, _, lengths = operands[:5]
    if lengths is not None:
        raise Unsupported("it is given lengths, which a stream has not")
    if x is None or weights is None or not isinstance(weights.shape[2], int):
        raise Unsupported("the size of its state is not known")
    batch, size = x.shape[1 - frames.axis], weights.shape[2]
    shape = (batch, 1, size) if batch_first else (1, batch, size)
    names = []
    for place, kind in ((5, "h"), (6, "c"))[: 2 if node.op_type == "LSTM" else 1]:
        if operands[place] is not None and not _is_zero(node.inputs[place]):
            raise Unsupported("its first state is given, and that of a stream is zeros: export the model without it")
        name, operands[place] = kept.state(kind, x.dtype, shape)
        names.append(name)
    return operands[: 8 if node.op_type == "LSTM" else 6], names


def _is_zero(value: ir.Value | None) -> bool:
    """Whether all elements of a value are zeros."""
    if value is None:
        return True
    tensor = value.const_value
    source = value.producer()
    if tensor is None and source is not None and source.op_type in ("Constant", "ConstantOfShape"):
        given = source.attributes.get("value")
        tensor = None if given is None else given.as_tensor()
        if given is None and source.op_type == "ConstantOfShape":
            return True
    if tensor is not None:
        return not np.any(elements(tensor))
    return source is not None and source.op_type in MOVES_ZEROS and _is_zero(source.inputs[0])


def after(frames: Frames) -> Now:
    """The newest frame alone."""
    return Now((frames.early + 1) * frames.step, "sequence")
