"""The blocks of channels in models that ONNX Runtime's optimiser saved at its highest level (domain
`com.microsoft.nchwc`).

There, numbers of channels are rounded up to a multiple of the block, which is 8 or 16 and depends on the machine that
saved the model: the model does not say it. Each operator gets it as the attribute `block` here, and is imported as an
operator on channels in their usual order.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir
import tvm

from deploykit.errors import UnsupportedModelError

NCHWC = "com.microsoft.nchwc"
BLOCK = "block"
BLOCKS = (8, 16)

NOTE = (
    "ONNX Runtime saved this model for one kind of CPU, and nothing in it tells which: blocks of {block} channels are "
    "assumed, as on this machine. Save it with the optimisation level 'extended' or lower to be sure"
)


def mark_blocks(model: ir.Model, label: str) -> str | None:
    """Give the operators of `NCHWC` their blocks. Returns a note if these had to be assumed.

    Raises `UnsupportedModelError` if there is no block that fits the whole model."""
    nodes = [node for node in model.graph if node.domain == NCHWC]
    if not nodes:
        return None
    fitting = [block for block in BLOCKS if all(_fits(block, *counts) for counts in _counts(nodes))]
    if not fitting:
        raise UnsupportedModelError(
            f"{label}: ONNX Runtime arranged its channels for a CPU that is not known here. Save the model with the "
            "optimisation level 'extended' or lower."
        )
    block = fitting[0] if len(fitting) == 1 else _own_block()
    for node in nodes:
        node.attributes[BLOCK] = ir.AttrInt64(BLOCK, block)
    return NOTE.format(block=block) if len(fitting) > 1 else None


def _own_block() -> int:
    """The block that ONNX Runtime has on this machine."""
    features = tvm.get_global_func("tvm.codegen.llvm.GetHostCPUFeatures")()
    return 16 if features.get("avx512f", False) or "neon" in features else 8


def _fits(block: int, padded: int, channels: int | None) -> bool:
    return padded % block == 0 and (channels is None or padded - channels < block)


def _counts(nodes: list[ir.Node]) -> Iterator[tuple[int, int | None]]:
    """Numbers of channels of blocked tensors, each with the number before it was rounded up, if that is known."""
    for node in nodes:
        if node.op_type == "Conv":
            yield _filters(node), None
        channels = node.attributes.get("channels")
        source = node.inputs[0].producer() if node.op_type == "ReorderOutput" and node.inputs[0] is not None else None
        if channels is not None and source is not None and source.op_type == "Conv" and source.domain == NCHWC:
            yield _filters(source), channels.as_int()


def _filters(node: ir.Node) -> int:
    weights = node.inputs[1]
    shape = None if weights is None or weights.const_value is None else weights.const_value.shape
    return 0 if shape is None else int(shape.numpy()[0])
