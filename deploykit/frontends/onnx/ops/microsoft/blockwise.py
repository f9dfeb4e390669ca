"""Imports MatMulNBits, MatMulBnb4, GatherBlockQuantized of `com.microsoft`: weights in 2, 4 or 8 bits with a scale for
each block. They become float32 when the model is imported, so they must be constants.

Bytes hold their numbers from the lowest bits on. A block without a zero point has the middle of its range as zero.
"""

from __future__ import annotations

import numpy as np

from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.compiler.operators.building.value import Value
from deploykit.compiler.operators.quantized.numbers import INTEGERS
from deploykit.frontends.onnx.attributes import MICROSOFT
from deploykit.frontends.onnx.node import Node
from deploykit.frontends.onnx.registry import operator
from deploykit.frontends.onnx.standard import Standard

NOTE = "weights in {bits} bits of {operator} are stored as float32; --quantize int8 stores them in 8 bits"

_FP4 = (0.0, 0.0052083333, 0.66666667, 1.0, 0.33333333, 0.5, 0.16666667, 0.25)
_NF4 = (
    *(-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453),
    *(-0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0),
    *(0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224),
    *(0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0),
)
CODES = (np.array([*_FP4, *(-v for v in _FP4)], np.float32), np.array(_NF4, np.float32))
"""The numbers of the formats FP4 and NF4 by their codes. (Source: Dettmers et al., QLoRA, appendix E; bitsandbytes.)"""


@operator("MatMulNBits", domain=MICROSOFT)
def matmul_n_bits(
    ctx: Context,
    node: Node,
    x: Value,
    weights: Value,
    scales: Value,
    zeros: Value | None = None,
    group_index: Value | None = None,
    bias: Value | None = None,
) -> Value:
    """MatMulNBits: `x` times a matrix whose columns are stored one after the other, in blocks."""
    onnx, bits, columns, depth = Standard(ctx, node), node.int("bits", 4), node.int("N"), node.int("K")
    block = node.int("block_size")
    if group_index is not None or node.int("weight_prepacked", 0):
        raise Unsupported("weights in another order; quantise the model again without g_idx and weight_prepacked")
    matrix = blocks_to_floats(weights, scales, zeros, (columns, depth), bits=bits, block=block)
    note_floats(ctx, node, bits)
    y = onnx("MatMul", x, ctx.constant(matrix.T, x.dtype))
    return y if bias is None else onnx("Add", y, bias)


@operator("MatMulBnb4", domain=MICROSOFT)
def matmul_bnb4(ctx: Context, node: Node, x: Value, weights: Value, greatest: Value) -> Value:
    """MatMulBnb4: `x` times a matrix of codes of FP4 or NF4. The first code of a byte is in its upper bits."""
    columns, depth, block = node.int("N"), node.int("K"), node.int("block_size")
    if node.int("training_mode", 0):
        raise Unsupported("training")
    packed = constant_of(weights).reshape(-1)
    codes = np.stack([packed >> 4, packed & 15], axis=1).reshape(-1)[: columns * depth]
    scale = np.repeat(constant_of(greatest).reshape(-1).astype(np.float32), block)[: columns * depth]
    matrix = (node.numbered("quant_type", CODES, 1)[codes] * scale).reshape(columns, depth)
    note_floats(ctx, node, 4)
    return Standard(ctx, node)("MatMul", x, ctx.constant(matrix.T if node.int("transB", 1) else matrix, x.dtype))


@operator("GatherBlockQuantized", domain=MICROSOFT)
def gather_block_quantized(
    ctx: Context, node: Node, table: Value, indices: Value, scales: Value, zeros: Value | None = None
) -> Value:
    """GatherBlockQuantized: rows of a table whose elements are in blocks along `quantize_axis`."""
    bits, block = node.int("bits", 4), node.int("block_size", 128)
    axis, packed = node.axis(table.rank, 1, "quantize_axis"), table.dtype == "uint8"
    numbers = constant_of(table)
    if table.dtype not in (*INTEGERS, "int4", "uint4"):
        raise Unsupported(f"a table of {table.dtype}")
    if packed:
        axis = table.rank - 1
        numbers = unpacked(numbers, bits)
    scale = _spread(constant_of(scales).astype(np.float32), axis, block, numbers.shape[axis])
    middle = 1 << bits - 1 if packed else 0
    if zeros is None:
        zero = np.array(middle, np.float32)
    else:
        given = constant_of(zeros)
        given = unpacked(given, bits)[..., : constant_of(scales).shape[axis]] if packed else given
        zero = _spread(given.astype(np.float32), axis, block, numbers.shape[axis])
    floats = (numbers.astype(np.float32) - zero) * scale
    note_floats(ctx, node, bits)
    return Standard(ctx, node)(
        "Gather", ctx.constant(floats, scales.dtype), indices, axis=node.axis(table.rank, 0, "gather_axis")
    )


def blocks_to_floats(
    weights: Value,
    scales: Value,
    zeros: Value | None,
    shape: tuple[int, int],
    *,
    bits: int,
    block: int,
) -> np.ndarray:
    """The floats of a matrix of `shape` (rows, depth) in blocks of `block` numbers along its rows.

    Raises `Unsupported` for tensors that are not constant, or whose sizes do not fit."""
    if bits not in (2, 4, 8):
        raise Unsupported(f"bits is {bits}; it must be 2, 4 or 8")
    rows, depth = shape
    count = -(-depth // block)
    stored, scale = constant_of(weights), constant_of(scales).astype(np.float32)
    if stored.size != rows * count * block * bits // 8 or scale.size != rows * count:
        raise Unsupported(f"weights {weights} and scales {scales} of a matrix of {rows} times {depth}")
    numbers = unpacked(stored.reshape(rows, count, -1), bits).astype(np.float32)
    zero: np.ndarray | int = 1 << bits - 1
    if zeros is not None:
        given = constant_of(zeros)
        if zeros.dtype == "uint8":
            given = unpacked(given.reshape(rows, -1), bits)[:, :count]
        if given.size != rows * count:
            raise Unsupported(f"zero points {zeros} of a matrix of {rows} times {depth}")
        zero = given.reshape(rows, count, 1).astype(np.float32)
    return ((numbers - zero) * scale.reshape(rows, count, 1)).reshape(rows, -1)[:, :depth]


def unpacked(packed: np.ndarray, bits: int) -> np.ndarray:
    """The numbers of `bits` bits in bytes, along the last axis."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    numbers = packed.view(np.uint8)[..., None] >> shifts & np.uint8((1 << bits) - 1)
    return np.asarray(numbers.reshape(*packed.shape[:-1], -1))


def _spread(parameters: np.ndarray, axis: int, block: int, size: int) -> np.ndarray:
    """Each entry of `axis` for the `block` numbers that it belongs to."""
    return np.repeat(parameters, block, axis).take(range(size), axis)


def constant_of(value: Value) -> np.ndarray:
    """The elements of weights. Raises `Unsupported` if they are not constant."""
    if value.array is None:
        raise Unsupported("weights that are not constant")
    return value.array


def note_floats(ctx: Context, node: Node, bits: int) -> None:
    """Note that weights of few bits take those of floats."""
    note = NOTE.format(bits=bits, operator=node.op_type)
    if note not in ctx.shared.notes:
        ctx.shared.notes.append(note)
