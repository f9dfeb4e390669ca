"""Two convolutions with pooling and a dense layer, for 28x28 images: image[batch, 1, 28, 28] -> scores[batch, 10]."""

from __future__ import annotations

import onnx

from bench.models.graph import Graph


def cnn() -> onnx.ModelProto:
    graph = Graph("cnn")
    value = graph.input("image", ("batch", 1, 28, 28))
    for channels_in, channels_out in ((1, 16), (16, 32)):
        weight, bias = graph.weight(channels_out, channels_in, 3, 3), graph.weight(channels_out)
        value = graph.node("Relu", graph.node("Conv", value, weight, bias, pads=[1, 1, 1, 1]))
        value = graph.node("MaxPool", value, kernel_shape=[2, 2], strides=[2, 2])
    features = graph.node("Flatten", value)
    graph.output(
        graph.node("Gemm", features, graph.weight(32 * 7 * 7, 10), graph.weight(10), output="scores"), ("batch", 10)
    )
    return graph.model()
