"""Parses an ONNX file without its large weights: each of these becomes a view of the mapped file.

The file is a protobuf message. Only the fields that lead to the bytes of an initializer are decoded here; all others
are copied to a message that protobuf parses. A file that is not written in the usual way of serializers is parsed
whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import onnx
import onnx_ir as ir

LARGE = 64 << 10
"""Bytes: an initializer of this size holds no shapes or indices that a check of the graph needs."""

Weight: TypeAlias = "ir.Tensor[np.ndarray]"
Weights: TypeAlias = dict[str, Weight]
"""Weights by name."""

GRAPH, INITIALIZER, RAW_DATA = 7, 5, 9
"""Field numbers in `ModelProto`, `GraphProto` and `TensorProto`."""

_DTYPES = frozenset(map(int, ir.DataType))

_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_FIXED = {_FIXED64: 8, _FIXED32: 4}


class _Odd(Exception):
    """A message is not written in the usual way of serializers."""


@dataclass(frozen=True)
class _Field:
    """The offset of a field in the file, and those of its value. `nested` says whether the value may be a message."""

    number: int
    start: int
    begin: int
    end: int
    nested: bool


def parse(data: memoryview) -> tuple[onnx.ModelProto, Weights]:
    """The model without the bytes of its large weights, and these weights by name. Raises what protobuf raises."""
    large: Weights = {}
    try:
        light: bytes | memoryview = _light_model(data, large)
    except _Odd:
        large, light = {}, data
    proto = onnx.ModelProto()
    proto.ParseFromString(light)
    return proto, large


def weight(name: str, data: memoryview, dtype: ir.DataType, shape: list[int]) -> Weight | None:
    """A tensor with the elements `data`; None if elements are not whole bytes, or if `data` does not fit `shape`."""
    if dtype in (ir.DataType.UNDEFINED, ir.DataType.STRING) or dtype.bitwidth % 8:
        return None
    form = dtype.numpy().newbyteorder("<")
    if min(shape, default=0) < 0 or int(np.prod(shape, dtype=object)) * form.itemsize != len(data):
        return None
    return ir.Tensor(np.frombuffer(data, form).reshape(shape), dtype, shape=ir.Shape(shape), name=name)


def _light_model(data: memoryview, large: Weights) -> bytes:
    parts: list[bytes | memoryview] = []
    for field in _fields(data, 0, len(data)):
        if field.number == GRAPH and field.nested:
            parts += _message(GRAPH, _light_graph(data, field, large))
        else:
            parts.append(data[field.start : field.end])
    return b"".join(parts)


def _light_graph(data: memoryview, graph: _Field, large: Weights) -> bytes:
    parts: list[bytes | memoryview] = []
    for field in _fields(data, graph.begin, graph.end):
        light = _light_tensor(data, field, large) if field.number == INITIALIZER and field.nested else None
        parts += [data[field.start : field.end]] if light is None else _message(INITIALIZER, light)
    return b"".join(parts)


def _light_tensor(data: memoryview, tensor: _Field, large: Weights) -> bytes | None:
    """The tensor without its bytes, which are added to `large`; None if the tensor is left as it is."""
    if tensor.end - tensor.begin < LARGE:
        return None
    fields = list(_fields(data, tensor.begin, tensor.end))
    raw = [field for field in fields if field.number == RAW_DATA]
    light = b"".join(data[field.start : field.end] for field in fields if field.number != RAW_DATA)
    proto = onnx.TensorProto()
    proto.ParseFromString(light)
    others = {field.name for field, _ in proto.ListFields()} - {"dims", "data_type", "name", "doc_string"}
    if len(raw) != 1 or others or not proto.name or proto.data_type not in _DTYPES:
        return None
    found = weight(proto.name, data[raw[0].begin : raw[0].end], ir.DataType(proto.data_type), list(proto.dims))
    if found is None or proto.name in large:
        return None
    large[proto.name] = found
    return light


def _message(number: int, value: bytes) -> list[bytes]:
    return [_varint(number << 3 | _LENGTH), _varint(len(value)), value]


def _varint(number: int) -> bytes:
    digits = bytearray()
    while number > 127:
        digits.append(number & 127 | 128)
        number >>= 7
    return bytes((*digits, number))


def _fields(data: memoryview, begin: int, end: int) -> Iterator[_Field]:
    while begin < end:
        start = begin
        tag, begin = _number(data, begin, end)
        kind = tag & 7
        if kind == _VARINT:
            _, after = _number(data, begin, end)
        elif kind == _LENGTH:
            length, begin = _number(data, begin, end)
            after = begin + length
        elif kind in _FIXED:
            after = begin + _FIXED[kind]
        else:
            raise _Odd
        if after > end:
            raise _Odd
        yield _Field(tag >> 3, start, begin, after, kind == _LENGTH)
        begin = after


def _number(data: memoryview, begin: int, end: int) -> tuple[int, int]:
    """A number in base 128, the lowest digit first, and the offset of its end."""
    value = shift = 0
    while begin < end and shift < 64:
        digit = data[begin]
        begin += 1
        value |= (digit & 127) << shift
        if digit < 128:
            return value, begin
        shift += 7
    raise _Odd
