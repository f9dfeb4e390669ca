"""ViT, DeiT and DINOv2: a picture is a sequence of patches, with one or two tokens of the whole picture in front.

(Sources: Dosovitskiy et al., "An Image is Worth 16x16 Words", 2020; Touvron et al., "Training data-efficient image
transformers", 2020; Oquab et al., "DINOv2", 2023.)
"""

from __future__ import annotations

from deploykit.compiler.operators.building.integers import floor_div
from deploykit.errors import UnsupportedModelError
from deploykit.frontends.huggingface.architectures import Settings, any_picture, architecture, fixed_picture, pair
from deploykit.frontends.huggingface.folder import Config
from deploykit.frontends.huggingface.layers import (
    BICUBIC,
    as_picture,
    as_sequence,
    feed_forward,
    for_batch,
    linear,
    patches,
    resized,
)
from deploykit.frontends.huggingface.registry import Outputs
from deploykit.frontends.huggingface.tensors import Module, Tensor, concatenated

COMMON = {"num_channels": 3, "hidden_act": "gelu", "qkv_bias": True}
POOLER = {"pooler_act": "tanh", "pooler_output_size": None}
VIT = Settings("vit", {**COMMON, **POOLER, "layer_norm_eps": 1e-12, "image_size": 224, "patch_size": 16})
DEIT = Settings("deit", {**COMMON, **POOLER, "layer_norm_eps": 1e-12, "image_size": 224, "patch_size": 16})
DINO = Settings(
    "dinov2",
    {**COMMON, "layer_norm_eps": 1e-6, "image_size": 224, "patch_size": 14, "mlp_ratio": 4, "use_swiglu_ffn": False},
)


def vit(m: Module, c: Config, pixels: Tensor, *tokens: str) -> Tensor:
    """The last hidden state; `tokens` are the names of the tokens in front of the patches."""
    x = embedded(m["embeddings"], c, pixels, *tokens)
    x = x + m["embeddings"].weight("position_embeddings", 1, *x.shape[1:])
    for layer in m.layers("encoder.layer", c.num_hidden_layers):
        x = x + attention(layer, c, layer.layer_norm("layernorm_before", x, c.layer_norm_eps))
        y = layer.layer_norm("layernorm_after", x, c.layer_norm_eps)
        x = x + feed_forward(layer, y, c.hidden_act, c.intermediate_size, ("intermediate.dense", "output.dense"))
    return m.layer_norm("layernorm", x, c.layer_norm_eps)


def embedded(m: Module, c: Config, pixels: Tensor, *tokens: str) -> Tensor:
    x = patches(m["patch_embeddings"], "projection", c, pixels, c.hidden_size)
    first = [for_batch(m.weight(name, 1, 1, c.hidden_size), x.shape[0]) for name in tokens]
    return concatenated([*first, x], axis=1)


def attention(m: Module, c: Config, x: Tensor) -> Tensor:
    a = m["attention.attention"]
    q, k, v = (linear(a, name, x, c.hidden_size, bias=c.qkv_bias) for name in ("query", "key", "value"))
    return linear(m, "attention.output.dense", q.attend(k, v, c.num_attention_heads), c.hidden_size)


def vit_results(m: Module, c: Config, x: Tensor) -> Outputs:
    """The hidden state, and that of the first token through the pooler, if the weights have one."""
    if not m.has("pooler.dense.weight"):
        return {"last_hidden_state": x}
    width = c.pooler_output_size or c.hidden_size
    pooled = linear(m, "pooler.dense", x.at(1, 0), width).activation(c.pooler_act)
    return {"last_hidden_state": x, "pooler_output": pooled}


@architecture("ViTModel", VIT, fixed_picture)
def vit_model(m: Module, c: Config, pixels: Tensor) -> Outputs:
    return vit_results(m, c, vit(m, c, pixels, "cls_token"))


@architecture("ViTForImageClassification", VIT, fixed_picture)
def vit_classes(m: Module, c: Config, pixels: Tensor) -> Outputs:
    return {"logits": m.linear("classifier", vit(m["vit"], c, pixels, "cls_token").at(1, 0))}


@architecture("DeiTModel", DEIT, fixed_picture)
def deit_model(m: Module, c: Config, pixels: Tensor) -> Outputs:
    return vit_results(m, c, vit(m, c, pixels, "cls_token", "distillation_token"))


@architecture("DeiTForImageClassification", DEIT, fixed_picture)
def deit_classes(m: Module, c: Config, pixels: Tensor) -> Outputs:
    x = vit(m["deit"], c, pixels, "cls_token", "distillation_token")
    return {"logits": m.linear("classifier", x.at(1, 0))}


@architecture("DeiTForImageClassificationWithTeacher", DEIT, fixed_picture)
def deit_classes_of_both(m: Module, c: Config, pixels: Tensor) -> Outputs:
    """Classification by the token of the labels and by that of the teacher; `logits` is their mean."""
    x = vit(m["deit"], c, pixels, "cls_token", "distillation_token")
    own, teacher = m.linear("cls_classifier", x.at(1, 0)), m.linear("distillation_classifier", x.at(1, 1))
    return {"logits": (own + teacher) / 2.0, "cls_logits": own, "distillation_logits": teacher}


def dinov2(m: Module, c: Config, pixels: Tensor) -> Tensor:
    """The last hidden state of pictures of any size: the embeddings of positions are resized to the patches."""
    e = m["embeddings"]
    x = embedded(e, c, pixels, "cls_token")
    (tall, wide), (high, broad) = pair(c, "image_size"), pair(c, "patch_size")
    if tall != wide or high != broad:
        raise UnsupportedModelError(f"{c.path}: image_size and patch_size must be squares in models of type 'dinov2'")
    side = tall // high
    table = e.weight("position_embeddings", 1, side * side + 1, c.hidden_size)
    grid = [x.ctx.simplify(floor_div(n, high)) for n in pixels.shape[2:]]
    places = as_picture(table.slice(1, 1, side * side), side, side)
    x = x + table.slice(1, 0, 1).joined(as_sequence(resized(places, grid, BICUBIC)), axis=1)
    for layer in m.layers("encoder.layer", c.num_hidden_layers):
        y = attention(layer, c, layer.layer_norm("norm1", x, c.layer_norm_eps))
        x = x + y * layer.weight("layer_scale1.lambda1", c.hidden_size)
        y = dinov2_feed_forward(layer["mlp"], c, layer.layer_norm("norm2", x, c.layer_norm_eps))
        x = x + y * layer.weight("layer_scale2.lambda1", c.hidden_size)
    return m.layer_norm("layernorm", x, c.layer_norm_eps)


def dinov2_feed_forward(m: Module, c: Config, x: Tensor) -> Tensor:
    hidden = int(c.hidden_size * c.mlp_ratio)
    if not c.use_swiglu_ffn:
        return feed_forward(m, x, c.hidden_act, hidden)
    hidden = (int(hidden * 2 / 3) + 7) // 8 * 8
    both = linear(m, "weights_in", x, 2 * hidden)
    return linear(
        m, "weights_out", both.slice(2, 0, hidden).activation("silu") * both.slice(2, hidden, hidden), c.hidden_size
    )


def one_patch(c: Config) -> int:
    return max(pair(c, "patch_size"))


@architecture("Dinov2Model", DINO, any_picture(one_patch))
def dinov2_model(m: Module, c: Config, pixels: Tensor) -> Outputs:
    x = dinov2(m, c, pixels)
    return {"last_hidden_state": x, "pooler_output": x.at(1, 0)}


@architecture("Dinov2ForImageClassification", DINO, any_picture(one_patch))
def dinov2_classes(m: Module, c: Config, pixels: Tensor) -> Outputs:
    """Classification by the first token and the mean of the patches."""
    x = dinov2(m["dinov2"], c, pixels)
    patch_mean = x.slice(1, 1, x.ctx.simplify(x.shape[1] - 1)).mean(1)
    return {"logits": m.linear("classifier", x.at(1, 0).joined(patch_mean, axis=1))}
