"""SegFormer: stages of overlapping patches and attention to a reduced picture, and a decoder that joins all stages.

(Source: Xie et al., "SegFormer: Simple and Efficient Design for Semantic Segmentation with Transformers", 2021.)
"""

from __future__ import annotations

from deploykit.errors import UsageError
from deploykit.frontends.huggingface.architectures import Settings, any_picture, architecture, lists
from deploykit.frontends.huggingface.folder import Config
from deploykit.frontends.huggingface.layers import (
    BILINEAR,
    as_picture,
    as_sequence,
    batch_norm,
    conv,
    linear,
    resized,
)
from deploykit.frontends.huggingface.registry import Outputs
from deploykit.frontends.huggingface.tensors import Module, Tensor, concatenated

SEGFORMER = Settings(
    "segformer",
    {
        "num_channels": 3,
        "num_encoder_blocks": 4,
        "depths": [2, 2, 2, 2],
        "sr_ratios": [8, 4, 2, 1],
        "hidden_sizes": [32, 64, 160, 256],
        "patch_sizes": [7, 3, 3, 3],
        "strides": [4, 2, 2, 2],
        "num_attention_heads": [1, 2, 5, 8],
        "mlp_ratios": [4, 4, 4, 4],
        "hidden_act": "gelu",
        "decoder_hidden_size": 256,
    },
    only={"reshape_last_stage": True},
)

EPSILON = 1e-5
"""That of all normalisations: the entry `layer_norm_eps` has no effect."""


def segformer(m: Module, c: Config, pixels: Tensor) -> list[Tensor]:
    """The pictures after each stage."""
    maps = [pixels]
    stages = lists(
        c, "depths", "sr_ratios", "hidden_sizes", "patch_sizes", "strides", "num_attention_heads", "mlp_ratios"
    )
    if len(stages) != c.num_encoder_blocks:
        raise UsageError(
            f"{c.path} says num_encoder_blocks={c.num_encoder_blocks}, but depths has {len(stages)} numbers"
        )
    for stage in range(c.num_encoder_blocks):
        patch, width = m[f"patch_embeddings.{stage}"], c.hidden_sizes[stage]
        size, stride = c.patch_sizes[stage], c.strides[stage]
        x = conv(patch, "proj", maps[-1], width, kernel=size, stride=stride, pad=size // 2)
        height, broad = x.shape[2:]
        y = patch.layer_norm("layer_norm", as_sequence(x), EPSILON)
        for block in m.layers(f"block.{stage}", c.depths[stage]):
            normed = as_picture(block.layer_norm("layer_norm_1", y, EPSILON), height, broad)
            y = y + attention(block["attention"], c, normed, stage)
            normed = block.layer_norm("layer_norm_2", y, EPSILON)
            hidden = linear(block, "mlp.dense1", normed, int(width * c.mlp_ratios[stage]))
            spread = as_picture(hidden, height, broad)
            spread = conv(
                block, "mlp.dwconv.dwconv", spread, hidden.shape[-1], kernel=3, pad=1, groups=hidden.shape[-1]
            )
            y = y + linear(block, "mlp.dense2", as_sequence(spread).activation(c.hidden_act), width)
        maps.append(as_picture(m.layer_norm(f"layer_norm.{stage}", y, EPSILON), height, broad))
    return maps[1:]


def attention(m: Module, c: Config, x: Tensor, stage: int) -> Tensor:
    """Attention of all points of a picture to those of a smaller one."""
    a, width, ratio = m["self"], c.hidden_sizes[stage], c.sr_ratios[stage]
    points = as_sequence(x)
    seen = points
    if ratio > 1:
        seen = as_sequence(conv(a, "sr", x, width, kernel=ratio, stride=ratio))
        seen = a.layer_norm("layer_norm", seen, EPSILON)
    q, k, v = (linear(a, n, y, width) for n, y in (("query", points), ("key", seen), ("value", seen)))
    return linear(m, "output.dense", q.attend(k, v, c.num_attention_heads[stage]), width)


def decoded(m: Module, c: Config, maps: list[Tensor]) -> Tensor:
    """Scores of all classes at each point of the first stage's picture."""
    size = maps[0].shape[2:]
    same = []
    for stage, x in enumerate(maps):
        y = linear(m, f"linear_c.{stage}.proj", as_sequence(x), c.decoder_hidden_size)
        same.append(resized(as_picture(y, *x.shape[2:]), size, BILINEAR))
    x = conv(m, "linear_fuse", concatenated(same[::-1], axis=1), c.decoder_hidden_size, kernel=1, bias=False)
    x = batch_norm(m, "batch_norm", x).activation("relu")
    return conv(m, "classifier", x, m.weight("classifier.weight").value.shape[0], kernel=1)


def least(c: Config) -> int:
    """The smallest picture whose reduced pictures have at least one point at each stage."""
    size = 1
    while not all(points >= ratio for points, ratio in points_and_ratios(c, size)):
        size += 1
    return size


def points_and_ratios(c: Config, size: int) -> list[tuple[int, int]]:
    """The height of each stage's picture, for a picture of this height, and by how much the stage reduces it."""
    found = []
    for patch, stride, ratio in lists(c, "patch_sizes", "strides", "sr_ratios"):
        size = (size + patch // 2 * 2 - patch) // stride + 1
        found.append((size, ratio))
    return found


@architecture("SegformerForSemanticSegmentation", SEGFORMER, any_picture(least))
def segmentation(m: Module, c: Config, pixels: Tensor) -> Outputs:
    return {"logits": decoded(m["decode_head"], c, segformer(m["segformer.encoder"], c, pixels))}


@architecture("SegformerForImageClassification", SEGFORMER, any_picture(least))
def classes(m: Module, c: Config, pixels: Tensor) -> Outputs:
    return {"logits": m.linear("classifier", segformer(m["segformer.encoder"], c, pixels)[-1].mean(2, 3))}


@architecture("SegformerModel", SEGFORMER, any_picture(least))
def model(m: Module, c: Config, pixels: Tensor) -> Outputs:
    return {"last_hidden_state": segformer(m["encoder"], c, pixels)[-1]}
