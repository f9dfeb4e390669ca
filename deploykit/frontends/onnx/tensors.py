"""Reads the elements of a tensor in a model, and checks that its data fits: onnx-ir looks at the data only then."""

from __future__ import annotations

from math import prod

import numpy as np
import onnx
import onnx_ir as ir

from deploykit.compiler.operators.building.errors import Unsupported

_DTYPES = frozenset(map(int, ir.DataType)) - {ir.DataType.UNDEFINED}
_FIELDS = ("float_data", "int32_data", "string_data", "int64_data", "double_data", "uint64_data")
_COMPLEX = (ir.DataType.COMPLEX64, ir.DataType.COMPLEX128)
_PACKED = 4
"""Bits: numbers of this width or less share the entries of a field, just as they share the bytes of raw data."""


def elements(tensor: ir.TensorProtocol) -> np.ndarray:
    """The elements of a tensor. Raises `Unsupported` if its data does not fit its dtype and shape, and `OSError` if its
    file cannot be read."""
    if isinstance(tensor, ir.serde.TensorProtoTensor):
        sound = _is_sound(tensor.raw)
    elif isinstance(tensor, ir.ExternalTensor):
        sound = _is_numeric(tensor) and tensor.length in (None, tensor.nbytes)
    elif isinstance(tensor, ir.StringTensor):
        sound = len(tensor.raw) == tensor.size and all(map(_is_text, tensor.raw))
    else:
        sound = True
    if not sound:
        shape = ", ".join(map(str, tensor.shape))
        raise Unsupported(f"its data does not fit {_name(tensor)}[{shape}]")
    return tensor.numpy()


def _is_sound(proto: onnx.TensorProto) -> bool:
    """Whether the tensor has exactly one value field: that of its dtype, with as many entries as the shape needs."""
    if (
        proto.data_type not in _DTYPES
        or proto.data_location == onnx.TensorProto.EXTERNAL
        or min(proto.dims, default=0) < 0
    ):
        return False
    dtype, count = ir.DataType(proto.data_type), prod(proto.dims)
    given = {name: len(getattr(proto, name)) for name in _FIELDS if getattr(proto, name)}
    if proto.HasField("raw_data"):
        return not given and len(proto.raw_data) == -(-count * dtype.bitwidth // 8)
    share = 8 // dtype.bitwidth if dtype.bitwidth <= _PACKED else 1
    entries = -(-count // share) * (2 if dtype in _COMPLEX else 1)
    own = onnx.helper.tensor_dtype_to_field(proto.data_type)
    return given == ({own: entries} if entries else {})


def _is_numeric(tensor: ir.ExternalTensor) -> bool:
    return tensor.dtype not in (ir.DataType.UNDEFINED, ir.DataType.STRING)


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _name(tensor: ir.TensorProtocol) -> str:
    number = tensor.raw.data_type if isinstance(tensor, ir.serde.TensorProtoTensor) else int(tensor.dtype)
    return ir.DataType(number).name if number in _DTYPES else f"type {number}"
