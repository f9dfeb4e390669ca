"""Clips of numbers that are quantised on both sides, as ONNX Runtime's quantiser leaves them if integers are symmetric.

x -> QuantizeLinear -> DequantizeLinear -> Relu -> QuantizeLinear      becomes      x -> Relu -> QuantizeLinear

So the numbers are rounded once, and the clip becomes one of integers.
"""

from __future__ import annotations

import onnx

from deploykit.quantization.static.ends import DEQUANTIZE, QUANTIZE

CLIPS = ("Relu", "Clip")


def clip_before_rounding(graph: onnx.GraphProto) -> None:
    """Take the quantisation off what clips read, where nothing else reads it, in place."""
    writers = {name: node for node in graph.node for name in node.output}
    readers: dict[str, list[onnx.NodeProto]] = {}
    for node in graph.node:
        for name in node.input:
            readers.setdefault(name, []).append(node)
    outputs = {value.name for value in graph.output}
    for clip in [node for node in graph.node if node.op_type in CLIPS]:
        back = writers.get(clip.input[0])
        there = writers.get(back.input[0]) if back is not None and back.op_type == DEQUANTIZE else None
        if back is None or there is None or there.op_type != QUANTIZE or there.input[0] not in writers:
            continue
        own = [name for node in (back, there) for name in node.output]
        if any(len(readers[name]) > 1 or name in outputs for name in own):
            continue
        clip.input[0] = there.input[0]
        graph.node.remove(back)
        graph.node.remove(there)
    read = {name for node in graph.node for name in node.input} | outputs
    kept = [tensor for tensor in graph.initializer if tensor.name in read]
    del graph.initializer[:]
    graph.initializer.extend(kept)
