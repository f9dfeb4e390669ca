"""GPT-2: BERT's block with the normalisations in front, and attention to the tokens in front. Weights are stored as
(inputs, outputs).

(Source: Radford et al., "Language Models are Unsupervised Multitask Learners", 2019.)
"""

from __future__ import annotations

from dataclasses import replace

from deploykit.frontends.huggingface.decoders import Attention, Heads, everywhere, text_decoder
from deploykit.frontends.huggingface.folder import Config
from deploykit.frontends.huggingface.registry import Text
from deploykit.frontends.huggingface.tensors import Module, Tensor


@text_decoder(
    {"gpt2": "GPT2"},
    base="transformer",
    table="wte.weight",
    scores="LMHeadModel",
    defaults={
        "hidden_act": "gelu_new",
        "layer_norm_epsilon": 1e-5,
        "n_inner": None,
        "scale_attn_weights": True,
        "scale_attn_by_inverse_layer_idx": False,
        "tie_word_embeddings": True,
    },
    aliases={
        "n_embd": "hidden_size",
        "n_layer": "num_hidden_layers",
        "n_head": "num_attention_heads",
        "n_positions": "max_position_embeddings",
        "activation_function": "hidden_act",
    },
    harmless=(
        *("n_ctx", "reorder_and_upcast_attn"),
        *("summary_type", "summary_use_proj", "summary_activation", "summary_proj_to_labels"),
    ),
)
def gpt2(m: Module, c: Config, text: Text) -> Tensor:
    x = m.embedding("wte", text.ids, c.vocab_size)
    places = m.weight("wpe.weight", c.max_position_embeddings, c.hidden_size)
    x = x + text.placed(places.reshape(1, *places.shape))
    attend = Attention(c, text, [], everywhere(c))
    for number, layer in enumerate(m.layers("h", c.num_hidden_layers)):
        x = x + attention(layer["attn"], c, layer.layer_norm("ln_1", x, c.layer_norm_epsilon), attend, number)
        x = x + mlp(layer["mlp"], c, layer.layer_norm("ln_2", x, c.layer_norm_epsilon))
    return m.layer_norm("ln_f", x, c.layer_norm_epsilon)


def attention(m: Module, c: Config, x: Tensor, attend: Attention, number: int) -> Tensor:
    width, heads = c.hidden_size, Heads.of(c)
    scale = heads.size**-0.5 if c.scale_attn_weights else 1.0
    attend = replace(attend, scale=scale / (number + 1) if c.scale_attn_by_inverse_layer_idx else scale)
    q, k, v = dense(m, "c_attn", x, 3 * width).split(2, width, width, width)
    return dense(m, "c_proj", attend.attended(q, k, v, heads, number), width)


def mlp(m: Module, c: Config, x: Tensor) -> Tensor:
    y = dense(m, "c_fc", x, c.n_inner or 4 * c.hidden_size).activation(c.hidden_act)
    return dense(m, "c_proj", y, c.hidden_size)


def dense(m: Module, name: str, x: Tensor, width: int) -> Tensor:
    weight, bias = m.weight(f"{name}.weight", int(x.shape[2]), width), m.weight(f"{name}.bias", width)
    m.named(name)
    return x @ weight + bias
