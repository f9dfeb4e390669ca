"""ResNet: convolutions with shortcuts around every two or three of them.

(Source: He et al., "Deep Residual Learning for Image Recognition", 2015.)
"""

from __future__ import annotations

from deploykit.errors import UnsupportedModelError
from deploykit.frontends.huggingface.architectures import Settings, any_picture, architecture
from deploykit.frontends.huggingface.folder import Config
from deploykit.frontends.huggingface.layers import batch_norm, conv, max_pool
from deploykit.frontends.huggingface.registry import Outputs
from deploykit.frontends.huggingface.tensors import Module, Tensor

RESNET = Settings(
    "resnet",
    {
        "num_channels": 3,
        "embedding_size": 64,
        "hidden_sizes": [256, 512, 1024, 2048],
        "depths": [3, 4, 6, 3],
        "layer_type": "bottleneck",
        "hidden_act": "relu",
        "downsample_in_first_stage": False,
        "downsample_in_bottleneck": False,
    },
)


def resnet(m: Module, c: Config, pixels: Tensor) -> list[Tensor]:
    """The pictures after the stem and after each stage."""
    x = normed_conv(m["embedder.embedder"], pixels, c.embedding_size, 7, 2).activation(c.hidden_act)
    maps = [max_pool(x, 3, 2, 1)]
    for index, (depth, width) in enumerate(zip(c.depths, c.hidden_sizes, strict=True)):
        x = maps[-1]
        for number, layer in enumerate(m.layers(f"encoder.stages.{index}.layers", depth)):
            halves = number == 0 and (index > 0 or c.downsample_in_first_stage)
            x = block(layer, c, x, width, 2 if halves else 1)
        maps.append(x)
    return maps


def block(m: Module, c: Config, x: Tensor, width: int, stride: int) -> Tensor:
    y = x
    steps = convolutions(m, c, width, stride)
    for number, (channels, kernel, step) in enumerate(steps):
        y = normed_conv(m[f"layer.{number}"], y, channels, kernel, step)
        y = y.activation("relu") if number < len(steps) - 1 else y
    changes = stride != 1 or x.shape[1] != width
    return (y + (normed_conv(m["shortcut"], x, width, 1, stride) if changes else x)).activation(c.hidden_act)


def convolutions(m: Module, c: Config, width: int, stride: int) -> list[tuple[int, int, int]]:
    """The convolutions of a block: channels, kernel and stride of each."""
    if c.layer_type == "basic":
        return [(width, 3, stride), (width, 3, 1)]
    if c.layer_type != "bottleneck":
        raise UnsupportedModelError(f"{c.path} says layer_type={c.layer_type!r}; there are 'basic', 'bottleneck'")
    early, late = (stride, 1) if c.downsample_in_bottleneck else (1, stride)
    return [(width // 4, 1, early), (width // 4, 3, late), (width, 1, 1)]


def normed_conv(m: Module, x: Tensor, width: int, kernel: int, stride: int) -> Tensor:
    y = conv(m, "convolution", x, width, kernel=kernel, stride=stride, pad=kernel // 2, bias=False)
    return batch_norm(m, "normalization", y)


def one_pixel(c: Config) -> int:
    return 1


@architecture("ResNetModel", RESNET, any_picture(one_pixel))
def model(m: Module, c: Config, pixels: Tensor) -> Outputs:
    x = resnet(m, c, pixels)[-1]
    return {"last_hidden_state": x, "pooler_output": x.mean(2, 3, keepdims=True)}


@architecture("ResNetForImageClassification", RESNET, any_picture(one_pixel))
def classes(m: Module, c: Config, pixels: Tensor) -> Outputs:
    return {"logits": m.linear("classifier.1", resnet(m["resnet"], c, pixels)[-1].mean(2, 3))}
