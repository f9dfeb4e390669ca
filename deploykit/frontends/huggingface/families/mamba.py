"""Mamba and Falcon Mamba: layers with a short convolution and a selective state space in the place of attention.

    x = x + out(scan(activation(conv(a))) * activation(b))    with a, b = in(norm(x))

Falcon Mamba normalises what the state space is controlled by. (Sources: Gu and Dao, "Mamba: Linear-Time Sequence
Modeling with Selective State Spaces", 2023; Zuo et al., "Falcon Mamba: The First Competitive Attention-free 7B Language
Model", 2024.)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from deploykit.compiler.operators.activations import softplus
from deploykit.frontends.huggingface.decoders import text_decoder
from deploykit.frontends.huggingface.folder import Config
from deploykit.frontends.huggingface.recurrences import selective_scan, short_convolution
from deploykit.frontends.huggingface.registry import Text, unlimited
from deploykit.frontends.huggingface.tensors import Module, Tensor
from deploykit.frontends.memory import Carried, Memory, scan_name, taps_name


def inner(c: Config) -> int:
    """The channels of a layer."""
    return int(c.expand * c.hidden_size)


def remembers(c: Config) -> Memory:
    found: dict[str, Carried] = {}
    for layer in range(c.num_hidden_layers):
        found[taps_name(layer)] = Carried(c.conv_kernel_size - 1, inner(c))
        found[scan_name(layer)] = Carried(c.state_size, inner(c))
    return found


MAMBA: dict[str, Any] = {
    "base": "backbone",
    "table": "embeddings.weight",
    "positions": unlimited,
    "remembers": remembers,
    "defaults": {
        "hidden_size": 768,
        "num_hidden_layers": 32,
        "state_size": 16,
        "expand": 2,
        "conv_kernel_size": 4,
        "hidden_act": "silu",
        "layer_norm_epsilon": 1e-5,
        "use_bias": False,
        "use_conv_bias": True,
        "tie_word_embeddings": True,
    },
    "aliases": {"conv_kernel": "conv_kernel_size"},
    "fixed": {"rms_norm": True},
    "harmless": (
        *(
            "time_step_rank",
            "time_step_scale",
            "time_step_min",
            "time_step_max",
            "time_step_init_scheme",
            "time_step_floor",
        ),
        *("rescale_prenorm_residual", "residual_in_fp32", "use_mambapy", "use_falcon_mambapy"),
        *("use_associative_scan", "intermediate_size", "d_model", "d_inner", "n_layer", "fused_add_norm", "ssm_cfg"),
        *("pad_vocab_size_multiple", "layer_types"),
    ),
}
"""The facts of these families. What they harmlessly say is how a model is trained, or follows from other entries."""


@text_decoder({"mamba": "Mamba"}, **MAMBA)
def mamba(m: Module, c: Config, text: Text) -> Tensor:
    return layers(m, c, text, None)


@text_decoder({"falcon_mamba": "FalconMamba"}, **{**MAMBA, "defaults": {**MAMBA["defaults"], "mixer_rms_eps": 1e-6}})
def falcon_mamba(m: Module, c: Config, text: Text) -> Tensor:
    return layers(m, c, text, c.mixer_rms_eps)


def layers(m: Module, c: Config, text: Text, epsilon: float | None) -> Tensor:
    x = m.embedding("embeddings", text.ids, c.vocab_size)
    for number, layer in enumerate(m.layers("layers", c.num_hidden_layers)):
        y = text.counting(layer.rms_norm("norm", x, c.layer_norm_epsilon))
        x = x + mixer(layer["mixer"], c, text, y, number, epsilon)
    return m.rms_norm("norm_f", x, c.layer_norm_epsilon)


def mixer(m: Module, c: Config, text: Text, x: Tensor, number: int, epsilon: float | None) -> Tensor:
    """A layer. With an `epsilon`, its steps and what goes into states and out of them have a root mean square of 1."""
    width, rows = inner(c), int(c.state_size)
    x, gate = m.linear("in_proj", x, 2 * width, bias=c.use_bias).split(2, width, width)
    x = short_convolution(m, "conv1d", text, number, x, c.conv_kernel_size, bias=c.use_conv_bias)
    x = text.counting(x.activation(c.hidden_act))
    rank = int(m.weight("dt_proj.weight").shape[1])
    controls = m.linear("x_proj", x, rank + 2 * rows, bias=False).split(2, rank, rows, rows)
    if epsilon is not None:
        controls = [unit_mean_square(each, epsilon) for each in controls]
    steps, into, out = controls
    steps = m.linear("dt_proj", steps, width).elementwise("softplus", softplus)
    rates = m.tensor(np.ascontiguousarray(-np.exp(m.array("A_log", width, rows).astype(np.float32)).T))
    y = selective_scan(text, number, x, steps, rates, into, out) + x * m.weight("D", width)
    return m.linear("out_proj", y * gate.activation("silu"), c.hidden_size, bias=c.use_bias)


def unit_mean_square(x: Tensor, epsilon: float) -> Tensor:
    return x / ((x * x).mean(x.rank - 1, keepdims=True) + epsilon).root()
