"""ResNet: convolutions with shortcuts around every two or three of them.

(Source: He et al., "Deep Residual Learning for Image Recognition", 2015.)
"""

from __future__ import annotations

from dataclasses import dataclass

from deploykit.errors import UnsupportedModelError
from deploykit.frontends.huggingface.architectures import Settings, any_picture, architecture, lists
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


@dataclass(frozen=True)
class Names:
    """Where the weights are: of a convolution and of its normalisation, with numbers from 0, or from 1 for those that
    end with _1."""

    stem: tuple[str, str]
    block: str
    step: tuple[str, str]
    shortcut: tuple[str, str]


OWN = Names(
    stem=("embedder.embedder.convolution", "embedder.embedder.normalization"),
    block="encoder.stages.{stage}.layers.{number}",
    step=("layer.{step}.convolution", "layer.{step}.normalization"),
    shortcut=("shortcut.convolution", "shortcut.normalization"),
)
TIMM = Names(
    stem=("conv1", "bn1"),
    block="layer{stage_1}.{number}",
    step=("conv{step_1}", "bn{step_1}"),
    shortcut=("downsample.0", "downsample.1"),
)
"""Those of the package timm."""


def resnet(m: Module, c: Config, pixels: Tensor, names: Names = OWN) -> list[Tensor]:
    """The pictures after the stem and after each stage."""
    x = normed_conv(m, names.stem, pixels, c.embedding_size, 7, 2).activation(c.hidden_act)
    maps = [max_pool(x, 3, 2, 1)]
    for index, (depth, width) in enumerate(lists(c, "depths", "hidden_sizes")):
        x = maps[-1]
        for number in range(depth):
            halves = number == 0 and (index > 0 or c.downsample_in_first_stage)
            layer = m[names.block.format(stage=index, stage_1=index + 1, number=number)]
            x = block(layer, c, x, width, 2 if halves else 1, names)
        maps.append(x)
    return maps


def block(m: Module, c: Config, x: Tensor, width: int, stride: int, names: Names) -> Tensor:
    y = x
    steps = convolutions(m, c, width, stride)
    for number, (channels, kernel, step) in enumerate(steps):
        parts = tuple(name.format(step=number, step_1=number + 1) for name in names.step)
        y = normed_conv(m, parts, y, channels, kernel, step)
        y = y.activation("relu") if number < len(steps) - 1 else y
    changes = stride != 1 or x.shape[1] != width
    return (y + (normed_conv(m, names.shortcut, x, width, 1, stride) if changes else x)).activation(c.hidden_act)


def convolutions(m: Module, c: Config, width: int, stride: int) -> list[tuple[int, int, int]]:
    """The convolutions of a block: channels, kernel and stride of each."""
    if c.layer_type == "basic":
        return [(width, 3, stride), (width, 3, 1)]
    if c.layer_type != "bottleneck":
        raise UnsupportedModelError(f"{c.path} says layer_type={c.layer_type!r}; there are 'basic', 'bottleneck'")
    early, late = (stride, 1) if c.downsample_in_bottleneck else (1, stride)
    return [(width // 4, 1, early), (width // 4, 3, late), (width, 1, 1)]


def normed_conv(m: Module, names: tuple[str, ...], x: Tensor, width: int, kernel: int, stride: int) -> Tensor:
    y = conv(m, names[0], x, width, kernel=kernel, stride=stride, pad=kernel // 2, bias=False)
    return batch_norm(m, names[1], y)


def one_pixel(c: Config) -> int:
    return 1


@architecture("ResNetModel", RESNET, any_picture(one_pixel))
def model(m: Module, c: Config, pixels: Tensor) -> Outputs:
    x = resnet(m, c, pixels)[-1]
    return {"last_hidden_state": x, "pooler_output": x.mean(2, 3, keepdims=True)}


@architecture("ResNetForImageClassification", RESNET, any_picture(one_pixel))
def classes(m: Module, c: Config, pixels: Tensor) -> Outputs:
    return {"logits": m.linear("classifier.1", resnet(m["resnet"], c, pixels)[-1].mean(2, 3))}
