"""The encoder of Whisper: two convolutions of a log-mel spectrum, and a transformer.

A folder that describes the spectrum makes a model of samples, any number up to the length that the model hears at once.
Without a description, the model takes spectra.
(Source: Radford et al., "Robust Speech Recognition via Large-Scale Weak Supervision", 2022.)
"""

from __future__ import annotations

from deploykit.errors import UsageError
from deploykit.frontends.huggingface.architectures import BATCH, Axis, Input, Settings, architecture
from deploykit.frontends.huggingface.folder import Config
from deploykit.frontends.huggingface.layers import conv, feed_forward, linear
from deploykit.frontends.huggingface.registry import Outputs
from deploykit.frontends.huggingface.sound import PREPROCESSOR, Spectrum, log_mel, read_spectrum
from deploykit.frontends.huggingface.tensors import Module, Tensor

WHISPER = Settings(
    "whisper",
    {"num_mel_bins": 80, "activation_function": "gelu", "max_source_positions": 1500, "classifier_proj_size": 256},
    only={"use_weighted_layer_sum": False},
)

EPSILON = 1e-5
"""That of all normalisations, which is not an entry of the configuration."""


def whisper(m: Module, c: Config, x: Tensor) -> Tensor:
    """The last hidden state (batch, max_source_positions, d_model)."""
    described = heard(c)
    spectrum = x if described is None else log_mel(x, described)
    x = conv(m, "conv1", spectrum, c.d_model, kernel=3, pad=1).activation("gelu")
    x = conv(m, "conv2", x, c.d_model, kernel=3, stride=2, pad=1).activation("gelu").transpose(0, 2, 1)
    x = x + m.weight("embed_positions.weight", c.max_source_positions, c.d_model)
    for layer in m.layers("layers", c.encoder_layers):
        x = x + attention(layer["self_attn"], c, layer.layer_norm("self_attn_layer_norm", x, EPSILON))
        y = layer.layer_norm("final_layer_norm", x, EPSILON)
        x = x + feed_forward(layer, y, c.activation_function, c.encoder_ffn_dim)
    return m.layer_norm("layer_norm", x, EPSILON)


def attention(m: Module, c: Config, x: Tensor) -> Tensor:
    q, k, v = (linear(m, f"{name}_proj", x, c.d_model, bias=name != "k") for name in "qkv")
    return linear(m, "out_proj", q.attend(k, v, c.encoder_attention_heads), c.d_model)


def heard(c: Config) -> Spectrum | None:
    """The spectrum that the folder describes. Raises `UsageError` if it does not fit the model."""
    found = read_spectrum(c.path.parent)
    needed = (c.num_mel_bins, 2 * c.max_source_positions)
    if found is not None and (found.bins, found.frames) != needed:
        raise UsageError(
            f"{c.path.parent / PREPROCESSOR} describes spectra of {found.bins} bins and {found.frames} frames, but the "
            f"configuration needs {needed[0]} and {needed[1]}"
        )
    return found


def sound(c: Config) -> list[Input]:
    """Samples (batch, samples), or log-mel spectra (batch, bins, frames) of the one length that the model takes."""
    found = heard(c)
    if found is not None:
        return [Input("samples", (Axis(BATCH), Axis("samples", 1, found.samples)))]
    return [Input("input_features", (Axis(BATCH), c.num_mel_bins, 2 * c.max_source_positions))]


@architecture("WhisperModel", WHISPER, sound)
def model(m: Module, c: Config, x: Tensor) -> Outputs:
    m.ctx.shared.notes.append("only the encoder of this model is built: its decoder makes text from the result")
    return {"encoder_last_hidden_state": whisper(m["encoder"], c, x)}


@architecture("WhisperForConditionalGeneration", WHISPER, sound)
def generation(m: Module, c: Config, x: Tensor) -> Outputs:
    return model(m["model"], c, x)


@architecture("WhisperForAudioClassification", WHISPER, sound)
def classes(m: Module, c: Config, x: Tensor) -> Outputs:
    y = linear(m, "projector", whisper(m["encoder"], c, x), c.classifier_proj_size)
    return {"logits": m.linear("classifier", y.mean(1))}
