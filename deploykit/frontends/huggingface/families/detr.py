"""DETR: objects are what learned queries find in a picture, by a transformer on the last map of a ResNet.

The pictures of a batch have one size. (Source: Carion et al., "End-to-End Object Detection with Transformers", 2020.)
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from tvm import ir, te, tirx

from deploykit.compiler.dims.expressions import IntExpr
from deploykit.compiler.operators.building.expressions import compute
from deploykit.compiler.operators.elementwise import sigmoid
from deploykit.errors import UnsupportedModelError, UsageError
from deploykit.frontends.huggingface.architectures import Settings, any_picture, architecture
from deploykit.frontends.huggingface.families.resnet import RESNET, TIMM, resnet
from deploykit.frontends.huggingface.folder import Config
from deploykit.frontends.huggingface.layers import as_sequence, conv, feed_forward, for_batch, linear
from deploykit.frontends.huggingface.registry import Outputs
from deploykit.frontends.huggingface.tensors import Module, Tensor

DETR = Settings(
    "detr",
    {
        "num_channels": 3,
        "num_queries": 100,
        "activation_function": "relu",
        "backbone_config": None,
        "backbone": "resnet50",
        "use_timm_backbone": True,
    },
    only={"dilation": False, "position_embedding_type": "sine"},
)

TIMM_BACKBONE = Settings(
    "timm_backbone",
    {"backbone": "resnet50", "out_indices": [4]},
    only={"features_only": True, "output_stride": None},
)

TIMM_DEPTHS: Mapping[str, list[int]] = {"resnet50": [3, 4, 6, 3], "resnet101": [3, 4, 23, 3]}
"""The stages of the backbones that a configuration may only name; their weights have the names of `timm`."""

LAST_MAP = 4
"""The number of their last stage; the stem is 0."""

EPSILON = 1e-5
"""That of all normalisations, which is not an entry of the configuration."""

TEMPERATURE = 10000.0


def backbone(m: Module, c: Config, pixels: Tensor) -> Tensor:
    """The last of the maps that the configuration asks for."""
    given = c.backbone_config
    if given is None or given.get("model_type") == "timm_backbone":
        old = {"model_type": "timm_backbone", "backbone": c.backbone, **(c.get("backbone_kwargs") or {})}
        timm = TIMM_BACKBONE.of(Config(c.path, old if given is None else given))
        name, last = timm.backbone, timm.out_indices[-1]
        if name not in TIMM_DEPTHS or last != LAST_MAP:
            raise UnsupportedModelError(
                f"{c.path} says backbone={name!r} with the map {last}; there are {', '.join(TIMM_DEPTHS)} with the map "
                f"{LAST_MAP}"
            )
        part = RESNET.of(Config(c.path, {"depths": TIMM_DEPTHS[name], "num_channels": c.num_channels}))
        return resnet(m.under("_backbone"), part, pixels, TIMM)[-1]
    part = RESNET.of(Config(c.path, given))
    names = ["stem", *(f"stage{number + 1}" for number in range(len(part.depths)))]
    wanted = part.get("out_features") or names[-1:]
    if unknown := [name for name in wanted if name not in names]:
        raise UsageError(f"{c.path} says out_features={wanted!r}, but the backbone has no {unknown[0]}")
    return resnet(m, part, pixels)[max(names.index(name) for name in wanted)]


def detr(m: Module, c: Config, pixels: Tensor) -> tuple[Tensor, Tensor]:
    """The last hidden state of the queries (batch, queries, width), and that of the picture (batch, points, width)."""
    found = backbone(m["backbone.conv_encoder.model"], c, pixels)
    x = as_sequence(conv(m, "input_projection", found, c.d_model, kernel=1))
    height, width = found.shape[2:]
    places = sines(m, height, width, c.d_model)
    for layer in m.layers("encoder.layers", c.encoder_layers):
        y = attention(layer["self_attn"], c.encoder_attention_heads, x + places, x + places, x)
        x = layer.layer_norm("self_attn_layer_norm", x + y, EPSILON)
        x = after(layer, c, x, c.encoder_ffn_dim)
    wanted = m.weight("query_position_embeddings.weight", c.num_queries, c.d_model)
    wanted = wanted.reshape(1, c.num_queries, c.d_model)
    q = for_batch(wanted * 0.0, x.shape[0])
    for layer in m.layers("decoder.layers", c.decoder_layers):
        y = attention(layer["self_attn"], c.decoder_attention_heads, q + wanted, q + wanted, q)
        q = layer.layer_norm("self_attn_layer_norm", q + y, EPSILON)
        y = attention(layer["encoder_attn"], c.decoder_attention_heads, q + wanted, x + places, x)
        q = layer.layer_norm("encoder_attn_layer_norm", q + y, EPSILON)
        q = after(layer, c, q, c.decoder_ffn_dim)
    return m["decoder"].layer_norm("layernorm", q, EPSILON), x


def attention(m: Module, heads: int, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    width = int(queries.shape[2])
    q, k, v = (linear(m, n, x, width) for n, x in (("q_proj", queries), ("k_proj", keys), ("v_proj", values)))
    return linear(m, "out_proj", q.attend(k, v, heads), width)


def after(m: Module, c: Config, x: Tensor, hidden: int) -> Tensor:
    """The feed-forward network of a block and its normalisation."""
    return m.layer_norm("final_layer_norm", x + feed_forward(m, x, c.activation_function, hidden), EPSILON)


def sines(m: Module, height: IntExpr, width: IntExpr, channels: int) -> Tensor:
    """Where each point of a picture lies (1, height * width, channels): sines and cosines of its row, then of its
    column, at several wavelengths."""
    half = channels // 2
    waves = m.tensor([TEMPERATURE ** (2 * (i // 2) / half) for i in range(half)], "float32")

    def build(wave: te.Tensor) -> te.Tensor:
        def element(_: ir.Expr, point: ir.Expr, channel: ir.Expr) -> ir.Expr:
            down = channel < half
            place = tirx.Select(down, tirx.floordiv(point, width), tirx.floormod(point, width)) + 1
            size = tirx.Select(down, tirx.Cast("float32", as_expr(height)), tirx.Cast("float32", as_expr(width)))
            index = tirx.floormod(channel, half)
            share = tirx.Cast("float32", place) / (size + tirx.const(1e-6, "float32"))
            angle = share * tirx.const(2 * math.pi, "float32") / wave(index)
            return tirx.Select(tirx.floormod(index, 2) == 0, tirx.sin(angle), tirx.cos(angle))

        return compute((1, height * width, channels), element, name="sines")

    m.named("position_embedding")
    return waves.of(m.ctx.kernel("sines", build, waves.value, dtype="float32"))


def as_expr(size: IntExpr) -> ir.Expr:
    return tirx.IntImm("int64", size) if isinstance(size, int) else size


def one_pixel(c: Config) -> int:
    return 1


@architecture("DetrForObjectDetection", DETR, any_picture(one_pixel))
def detection(m: Module, c: Config, pixels: Tensor) -> Outputs:
    """Scores of classes and of "no object", and boxes (x and y of the centre, width, height; parts of the picture)."""
    queries, points = detr(m["model"], c, pixels)
    boxes = queries
    for index, width in enumerate((c.d_model, c.d_model, 4)):
        boxes = linear(m, f"bbox_predictor.layers.{index}", boxes, width)
        boxes = boxes.activation("relu") if index < 2 else boxes.elementwise("sigmoid", sigmoid)
    return {
        "logits": m.linear("class_labels_classifier", queries),
        "pred_boxes": boxes,
        "last_hidden_state": queries,
        "encoder_last_hidden_state": points,
    }


@architecture("DetrModel", DETR, any_picture(one_pixel))
def model(m: Module, c: Config, pixels: Tensor) -> Outputs:
    queries, points = detr(m, c, pixels)
    return {"last_hidden_state": queries, "encoder_last_hidden_state": points}
