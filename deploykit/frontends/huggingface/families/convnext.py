"""ConvNeXt: blocks of a wide convolution of each channel and a feed-forward network at each point.

(Source: Liu et al., "A ConvNet for the 2020s", 2022.)
"""

from __future__ import annotations

from deploykit.errors import UsageError
from deploykit.frontends.huggingface.architectures import Settings, any_picture, architecture, lists, pair
from deploykit.frontends.huggingface.folder import Config
from deploykit.frontends.huggingface.layers import channels_norm, conv, feed_forward
from deploykit.frontends.huggingface.registry import Outputs
from deploykit.frontends.huggingface.tensors import Module, Tensor

CONVNEXT = Settings(
    "convnext",
    {
        "num_channels": 3,
        "patch_size": 4,
        "num_stages": 4,
        "hidden_sizes": [96, 192, 384, 768],
        "depths": [3, 3, 9, 3],
        "hidden_act": "gelu",
        "layer_norm_eps": 1e-12,
        "layer_scale_init_value": 1e-6,
    },
)

EPSILON = 1e-6
"""That of all normalisations but the last one, which has the one of the configuration."""


def convnext(m: Module, c: Config, pixels: Tensor) -> Tensor:
    """The pictures after the last stage."""
    size, stages = pair(c, "patch_size"), lists(c, "depths", "hidden_sizes")
    if len(stages) != c.num_stages:
        raise UsageError(f"{c.path} says num_stages={c.num_stages}, but depths has {len(stages)} numbers")
    e = m["embeddings"]
    x = conv(e, "patch_embeddings", pixels, c.hidden_sizes[0], kernel=size, stride=size)
    x = channels_norm(e, "layernorm", x, EPSILON)
    for index, (depth, width) in enumerate(stages):
        stage = m[f"encoder.stages.{index}"]
        if index > 0:
            x = channels_norm(stage, "downsampling_layer.0", x, EPSILON)
            x = conv(stage, "downsampling_layer.1", x, width, kernel=2, stride=2)
        for layer in stage.layers("layers", depth):
            x = x + block(layer, c, x, width)
    return x


def block(m: Module, c: Config, x: Tensor, width: int) -> Tensor:
    x = conv(m, "dwconv", x, width, kernel=7, pad=3, groups=width).transpose(0, 2, 3, 1)
    x = m.layer_norm("layernorm", x, EPSILON)
    x = feed_forward(m, x, c.hidden_act, 4 * width, ("pwconv1", "pwconv2"))
    if c.layer_scale_init_value > 0:
        x = x * m.weight("layer_scale_parameter", width)
    return x.transpose(0, 3, 1, 2)


def pooled(m: Module, c: Config, x: Tensor) -> Tensor:
    return m.layer_norm("layernorm", x.mean(2, 3), c.layer_norm_eps)


def least(c: Config) -> int:
    """The size of a picture that the last stage reduces to one point."""
    return int(max(pair(c, "patch_size")) * 2 ** (c.num_stages - 1))


@architecture("ConvNextModel", CONVNEXT, any_picture(least))
def model(m: Module, c: Config, pixels: Tensor) -> Outputs:
    x = convnext(m, c, pixels)
    return {"last_hidden_state": x, "pooler_output": pooled(m, c, x)}


@architecture("ConvNextForImageClassification", CONVNEXT, any_picture(least))
def classes(m: Module, c: Config, pixels: Tensor) -> Outputs:
    m, head = m["convnext"], m
    return {"logits": head.linear("classifier", pooled(m, c, convnext(m, c, pixels)))}
