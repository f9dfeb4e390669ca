"""Wav2Vec2: convolutions of sound, and a transformer whose positions are a convolution, too.

The sounds of a batch have one length. (Source: Baevski et al., "wav2vec 2.0: A Framework for Self-Supervised Learning
of Speech Representations", 2020.)
"""

from __future__ import annotations

import numpy as np

from deploykit.compiler.operators.normalization import instance_normalization
from deploykit.errors import UnsupportedModelError
from deploykit.frontends.huggingface.architectures import BATCH, Axis, Input, Settings, architecture, lists
from deploykit.frontends.huggingface.folder import Config
from deploykit.frontends.huggingface.layers import biased, conv, convolved, feed_forward, linear
from deploykit.frontends.huggingface.registry import Outputs
from deploykit.frontends.huggingface.tensors import Module, Tensor

WAV2VEC2 = Settings(
    "wav2vec2",
    {
        "hidden_act": "gelu",
        "layer_norm_eps": 1e-5,
        "feat_extract_norm": "group",
        "feat_extract_activation": "gelu",
        "conv_bias": False,
        "num_conv_pos_embeddings": 128,
        "num_conv_pos_embedding_groups": 16,
        "do_stable_layer_norm": False,
        "classifier_proj_size": 256,
    },
    only={"add_adapter": False, "adapter_attn_dim": None, "use_weighted_layer_sum": False},
)

EPSILON = 1e-5
"""That of the normalisations of convolutions, which is not an entry of the configuration."""


def features(m: Module, c: Config, samples: Tensor) -> Tensor:
    """What the convolutions find in sound: (batch, length, channels)."""
    if c.feat_extract_norm not in ("group", "layer"):
        raise UnsupportedModelError(
            f"{c.path} says feat_extract_norm={c.feat_extract_norm!r}; there are 'group', 'layer'"
        )
    x = samples.reshape(samples.shape[0], 1, samples.shape[1])
    for index, (width, kernel, stride) in enumerate(lists(c, "conv_dim", "conv_kernel", "conv_stride")):
        layer = m[f"conv_layers.{index}"]
        x = conv(layer, "conv", x, width, kernel=kernel, stride=stride, bias=c.conv_bias)
        if c.feat_extract_norm == "layer":
            x = layer.layer_norm("layer_norm", x.transpose(0, 2, 1), EPSILON).transpose(0, 2, 1)
        elif index == 0:
            scale, shift = (layer.weight(f"layer_norm.{part}", width).value for part in ("weight", "bias"))
            x = x.of(instance_normalization(x.ctx, x.value, scale, shift, epsilon=EPSILON))
        x = x.activation(c.feat_extract_activation)
    return x.transpose(0, 2, 1)


def wav2vec2(m: Module, c: Config, samples: Tensor) -> tuple[Tensor, Tensor]:
    """The last hidden state, and the normalised features in front of the transformer."""
    found = m["feature_projection"].layer_norm(
        "layer_norm", features(m["feature_extractor"], c, samples), c.layer_norm_eps
    )
    x = linear(m["feature_projection"], "projection", found, c.hidden_size)
    encoder = m["encoder"]
    x = x + positions(encoder["pos_conv_embed"], c, x)
    if c.do_stable_layer_norm:
        for layer in encoder.layers("layers", c.num_hidden_layers):
            x = x + attention(layer["attention"], c, layer.layer_norm("layer_norm", x, c.layer_norm_eps))
            x = x + dense(layer, c, layer.layer_norm("final_layer_norm", x, c.layer_norm_eps))
        return encoder.layer_norm("layer_norm", x, c.layer_norm_eps), found
    x = encoder.layer_norm("layer_norm", x, c.layer_norm_eps)
    for layer in encoder.layers("layers", c.num_hidden_layers):
        x = layer.layer_norm("layer_norm", x + attention(layer["attention"], c, x), c.layer_norm_eps)
        x = layer.layer_norm("final_layer_norm", x + dense(layer, c, x), c.layer_norm_eps)
    return x, found


def attention(m: Module, c: Config, x: Tensor) -> Tensor:
    q, k, v = (linear(m, name, x, c.hidden_size) for name in ("q_proj", "k_proj", "v_proj"))
    return linear(m, "out_proj", q.attend(k, v, c.num_attention_heads), c.hidden_size)


def dense(m: Module, c: Config, x: Tensor) -> Tensor:
    return feed_forward(m["feed_forward"], x, c.hidden_act, c.intermediate_size, ("intermediate_dense", "output_dense"))


def positions(m: Module, c: Config, x: Tensor) -> Tensor:
    """A convolution over time. Its kernel is stored as directions and a length for each of its places."""
    width, groups, kernel = c.hidden_size, c.num_conv_pos_embedding_groups, c.num_conv_pos_embeddings
    old = m.has("conv.weight_g")
    lengths, directions = (
        ("weight_g", "weight_v") if old else (f"parametrizations.weight.original{i}" for i in range(2))
    )
    v = m.weight(f"conv.{directions}", width, width // groups, kernel).value.array
    g = m.weight(f"conv.{lengths}", 1, 1, kernel).value.array
    assert v is not None
    assert g is not None
    weight = m.tensor(np.asarray(g * v / np.sqrt(np.square(v).sum((0, 1), keepdims=True)), v.dtype))
    m.named("conv")
    y = convolved(x.transpose(0, 2, 1), weight, biased(m, "conv", bias=True), pad=kernel // 2, groups=groups)
    return y.slice(2, 0, x.shape[1]).activation(c.feat_extract_activation).transpose(0, 2, 1)


def sound(c: Config) -> list[Input]:
    """Samples; at least as many as give one feature."""
    least = 1
    for kernel, stride in reversed(lists(c, "conv_kernel", "conv_stride")):
        least = (least - 1) * stride + kernel
    return [Input("input_values", (Axis(BATCH), Axis("samples", least)))]


@architecture("Wav2Vec2Model", WAV2VEC2, sound)
def model(m: Module, c: Config, samples: Tensor) -> Outputs:
    x, found = wav2vec2(m, c, samples)
    return {"last_hidden_state": x, "extract_features": found}


@architecture("Wav2Vec2ForCTC", WAV2VEC2, sound)
def letters(m: Module, c: Config, samples: Tensor) -> Outputs:
    """Scores of letters at each time; CTC decoding joins equal ones and drops blanks."""
    return {"logits": linear(m, "lm_head", wav2vec2(m["wav2vec2"], c, samples)[0], c.vocab_size)}


@architecture("Wav2Vec2ForSequenceClassification", WAV2VEC2, sound)
def classes(m: Module, c: Config, samples: Tensor) -> Outputs:
    x = linear(m, "projector", wav2vec2(m["wav2vec2"], c, samples)[0], c.classifier_proj_size)
    return {"logits": m.linear("classifier", x.mean(1))}
