"""CLIP and SigLIP: a tower for pictures and one for texts, whose vectors are close where text and picture fit.

Texts of SigLIP have no mask: they are padded to one length, as the models were trained, and padding counts.
(Sources: Radford et al., "Learning Transferable Visual Models From Natural Language Supervision", 2021; Zhai et al.,
"Sigmoid Loss for Language Image Pre-Training", 2023.)
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm import tirx

from deploykit.compiler.operators.indexing import gather_nd
from deploykit.compiler.operators.ranking import top_k
from deploykit.errors import UnsupportedModelError
from deploykit.frontends.huggingface.architectures import (
    BATCH,
    Axis,
    Input,
    Settings,
    architecture,
    fixed_picture,
)
from deploykit.frontends.huggingface.folder import Config
from deploykit.frontends.huggingface.layers import feed_forward, for_batch, linear, patches
from deploykit.frontends.huggingface.registry import Outputs
from deploykit.frontends.huggingface.tensors import Module, Tensor, as_mask

SIZES = {"num_hidden_layers": 12, "num_attention_heads": 12, "hidden_size": 768, "intermediate_size": 3072}
PICTURES = {**SIZES, "num_channels": 3, "image_size": 224}
CLIP_ACTIVATION = {"hidden_act": "quick_gelu", "layer_norm_eps": 1e-5, "projection_dim": 512}
SIGLIP_ACTIVATION = {"hidden_act": "gelu_pytorch_tanh", "layer_norm_eps": 1e-6}

CLIP = Settings("clip", {"projection_dim": 512})
CLIP_VISION = Settings("clip_vision_model", {**PICTURES, **CLIP_ACTIVATION, "patch_size": 32})
CLIP_TEXT = Settings(
    "clip_text_model",
    {
        **SIZES,
        **CLIP_ACTIVATION,
        "num_attention_heads": 8,
        "hidden_size": 512,
        "intermediate_size": 2048,
        "vocab_size": 49408,
        "max_position_embeddings": 77,
        "eos_token_id": 49407,
    },
)
SIGLIP = Settings("siglip")
SIGLIP_VISION = Settings(
    "siglip_vision_model", {**PICTURES, **SIGLIP_ACTIVATION, "patch_size": 16, "vision_use_head": True}
)
SIGLIP_TEXT = Settings(
    "siglip_text_model",
    {**SIZES, **SIGLIP_ACTIVATION, "vocab_size": 32000, "max_position_embeddings": 64, "projection_size": None},
)

OLD_LAST_TOKEN = 2
"""Configurations with this end token are older than the entry: there, the token with the greatest id ends a text."""


def part(c: Config, name: str, settings: Settings) -> Config:
    """The configuration of a tower. `name_dict`, which old folders may have, takes its place."""
    found = c.get(f"{name}_dict")
    entries = (c.get(name) or {}) if found is None else found
    return settings.of(Config(c.path, entries))


def texts(c: Config, batch: str = BATCH) -> list[Input]:
    shape = (Axis(batch), Axis("seq", 1, c.max_position_embeddings))
    return [Input("input_ids", shape, "int64"), Input("attention_mask", shape, "int64")]


def unmasked_texts(c: Config, batch: str = BATCH) -> list[Input]:
    return texts(c, batch)[:1]


def encoder(m: Module, c: Config, x: Tensor, mask: Tensor | None = None, *, causal: bool = False) -> Tensor:
    """Blocks with a normalisation in front of attention and of the feed-forward network."""
    for layer in m.layers("layers", c.num_hidden_layers):
        a, y = layer["self_attn"], layer.layer_norm("layer_norm1", x, c.layer_norm_eps)
        q, k, v = (linear(a, name, y, c.hidden_size) for name in ("q_proj", "k_proj", "v_proj"))
        x = x + linear(a, "out_proj", q.attend(k, v, c.num_attention_heads, mask, causal=causal), c.hidden_size)
        y = layer.layer_norm("layer_norm2", x, c.layer_norm_eps)
        x = x + feed_forward(layer["mlp"], y, c.hidden_act, c.intermediate_size)
    return x


def embedded_text(m: Module, c: Config, ids: Tensor) -> Tensor:
    m.weight("token_embedding.weight", c.vocab_size, c.hidden_size)
    places = m.weight("position_embedding.weight", c.max_position_embeddings, c.hidden_size)
    return m.embedding("token_embedding", ids) + places.slice(0, 0, ids.shape[1])


def clip_vision(m: Module, c: Config, pixels: Tensor) -> tuple[Tensor, Tensor]:
    """The last hidden state, and the state of the first token for the whole picture."""
    e = m["embeddings"]
    x = patches(e, "patch_embedding", c, pixels, c.hidden_size, bias=False)
    first = for_batch(e.weight("class_embedding", c.hidden_size).reshape(1, 1, c.hidden_size), x.shape[0])
    x = first.joined(x, axis=1)
    x = x + e.weight("position_embedding.weight", *x.shape[1:])
    x = encoder(m["encoder"], c, m.layer_norm("pre_layrnorm", x, c.layer_norm_eps))
    return x, m.layer_norm("post_layernorm", x.at(1, 0), c.layer_norm_eps)


def clip_text(m: Module, c: Config, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """The last hidden state, and the state of the token that ends the text."""
    x = encoder(m["encoder"], c, embedded_text(m["embeddings"], c, ids), as_mask(mask), causal=True)
    x = m.layer_norm("final_layer_norm", x, c.layer_norm_eps)
    end = c.eos_token_id
    if not isinstance(end, int):
        raise UnsupportedModelError(f"{c.path} says eos_token_id={end!r}; a text of CLIP ends with one token")
    if end != OLD_LAST_TOKEN:
        ids = ids.elementwise("ends", lambda token: tirx.Cast("int64", token == end))
    _, place = top_k(x.ctx, ids.value, 1, 1)
    return x, x.of(gather_nd(x.ctx, x.value, place, batch=1))


def siglip_vision(m: Module, c: Config, pixels: Tensor) -> Tensor:
    """The last hidden state."""
    e = m["embeddings"]
    x = patches(e, "patch_embedding", c, pixels, c.hidden_size)
    x = x + e.weight("position_embedding.weight", *x.shape[1:])
    return m.layer_norm("post_layernorm", encoder(m["encoder"], c, x), c.layer_norm_eps)


def siglip_pooled(m: Module, c: Config, x: Tensor) -> Tensor:
    """What a learned query finds in the states, by attention."""
    width = c.hidden_size
    a = m["attention"]
    weight, bias = a.weight("in_proj_weight", 3 * width, width), a.weight("in_proj_bias", 3 * width)
    query = for_batch(m.weight("probe", 1, 1, width), x.shape[0])
    m.named("attention")
    q, k, v = (
        y @ weight.slice(0, i * width, width).transpose(1, 0) + bias.slice(0, i * width, width)
        for i, y in enumerate((query, x, x))
    )
    y = linear(a, "out_proj", q.attend(k, v, c.num_attention_heads), width)
    normed = m.layer_norm("layernorm", y, c.layer_norm_eps)
    return (y + feed_forward(m["mlp"], normed, c.hidden_act, c.intermediate_size)).at(1, 0)


def siglip_text(m: Module, c: Config, ids: Tensor) -> tuple[Tensor, Tensor]:
    """The last hidden state, and the state of the last token through the head."""
    x = encoder(m["encoder"], c, embedded_text(m["embeddings"], c, ids))
    x = m.layer_norm("final_layer_norm", x, c.layer_norm_eps)
    last = x.at(1, x.ctx.simplify(x.shape[1] - 1))
    return x, linear(m, "head", last, c.projection_size or c.hidden_size)


def projected(m: Module, name: str, x: Tensor, width: int) -> Tensor:
    return linear(m, name, x, width, bias=False)


def similarities(m: Module, picture: Tensor, text: Tensor) -> dict[str, Tensor]:
    """The cosines of vectors of pictures and texts, scaled, both ways."""
    picture, text = (x / (x * x).sum(1, keepdims=True).root() for x in (picture, text))
    scale = m.weight("logit_scale").reshape(1, 1).elementwise("exp", tirx.exp)
    logits = (text @ picture.transpose(1, 0)) * scale
    if m.has("logit_bias"):
        logits = logits + m.weight("logit_bias").reshape(1, 1)
    return {
        "logits_per_image": logits.transpose(1, 0),
        "logits_per_text": logits,
        "text_embeds": text,
        "image_embeds": picture,
    }


@architecture("CLIPVisionModel", CLIP_VISION, fixed_picture)
def clip_vision_model(m: Module, c: Config, pixels: Tensor) -> Outputs:
    x, pooled = clip_vision(m.under("vision_model"), c, pixels)
    return {"last_hidden_state": x, "pooler_output": pooled}


@architecture("CLIPVisionModelWithProjection", CLIP_VISION, fixed_picture)
def clip_vision_projection(m: Module, c: Config, pixels: Tensor) -> Outputs:
    x, pooled = clip_vision(m["vision_model"], c, pixels)
    return {"image_embeds": projected(m, "visual_projection", pooled, c.projection_dim), "last_hidden_state": x}


@architecture("CLIPTextModel", CLIP_TEXT, texts)
def clip_text_model(m: Module, c: Config, ids: Tensor, mask: Tensor) -> Outputs:
    x, pooled = clip_text(m.under("text_model"), c, ids, mask)
    return {"last_hidden_state": x, "pooler_output": pooled}


@architecture("CLIPTextModelWithProjection", CLIP_TEXT, texts)
def clip_text_projection(m: Module, c: Config, ids: Tensor, mask: Tensor) -> Outputs:
    x, pooled = clip_text(m["text_model"], c, ids, mask)
    return {"text_embeds": projected(m, "text_projection", pooled, c.projection_dim), "last_hidden_state": x}


def clip_inputs(c: Config) -> Sequence[Input]:
    return [
        *texts(part(c, "text_config", CLIP_TEXT), "texts"),
        *fixed_picture(part(c, "vision_config", CLIP_VISION)),
    ]


@architecture("CLIPModel", CLIP, clip_inputs)
def clip_model(m: Module, c: Config, ids: Tensor, mask: Tensor, pixels: Tensor) -> Outputs:
    _, text = clip_text(m["text_model"], part(c, "text_config", CLIP_TEXT), ids, mask)
    _, picture = clip_vision(m["vision_model"], part(c, "vision_config", CLIP_VISION), pixels)
    picture = projected(m, "visual_projection", picture, c.projection_dim)
    return similarities(m, picture, projected(m, "text_projection", text, c.projection_dim))


def clip_pictures(c: Config) -> Sequence[Input]:
    return fixed_picture(part(c, "vision_config", CLIP_VISION))


@architecture("CLIPForImageClassification", CLIP, clip_pictures)
def clip_classes(m: Module, c: Config, pixels: Tensor) -> Outputs:
    """Classification by the mean of the patches."""
    x, _ = clip_vision(m["vision_model"], part(c, "vision_config", CLIP_VISION), pixels)
    return {"logits": m.linear("classifier", x.slice(1, 1, x.ctx.simplify(x.shape[1] - 1)).mean(1))}


@architecture("SiglipVisionModel", SIGLIP_VISION, fixed_picture)
def siglip_vision_model(m: Module, c: Config, pixels: Tensor) -> Outputs:
    m = m.under("vision_model")
    x = siglip_vision(m, c, pixels)
    return {"last_hidden_state": x} | ({"pooler_output": siglip_pooled(m["head"], c, x)} if c.vision_use_head else {})


@architecture("SiglipTextModel", SIGLIP_TEXT, unmasked_texts)
def siglip_text_model(m: Module, c: Config, ids: Tensor) -> Outputs:
    x, pooled = siglip_text(m.under("text_model"), c, ids)
    return {"last_hidden_state": x, "pooler_output": pooled}


def siglip_inputs(c: Config) -> Sequence[Input]:
    return [
        *unmasked_texts(part(c, "text_config", SIGLIP_TEXT), "texts"),
        *fixed_picture(part(c, "vision_config", SIGLIP_VISION)),
    ]


@architecture("SiglipModel", SIGLIP, siglip_inputs)
def siglip_model(m: Module, c: Config, ids: Tensor, pixels: Tensor) -> Outputs:
    tower, v = m["vision_model"], part(c, "vision_config", SIGLIP_VISION)
    if not v.vision_use_head:
        raise UnsupportedModelError(f"{c.path} says vision_use_head=False, so pictures have no vector to compare")
    picture = siglip_pooled(tower["head"], v, siglip_vision(tower, v, pixels))
    _, text = siglip_text(m["text_model"], part(c, "text_config", SIGLIP_TEXT), ids)
    return similarities(m, picture, text)


def siglip_pictures(c: Config) -> Sequence[Input]:
    return fixed_picture(part(c, "vision_config", SIGLIP_VISION))


@architecture("SiglipForImageClassification", SIGLIP, siglip_pictures)
def siglip_classes(m: Module, c: Config, pixels: Tensor) -> Outputs:
    x = siglip_vision(m["vision_model"], part(c, "vision_config", SIGLIP_VISION), pixels)
    return {"logits": m.linear("classifier", x.mean(1))}
