"""The encoder of T5: blocks with a normalisation by the root mean square in front, without biases, and with positions
only as a bias by distance, which all blocks share. Scores are not scaled.

The architecture is `T5EncoderModel`. A folder of the whole model works if its configuration names this architecture;
the decoder is left out. (Source: Raffel et al., "Exploring the Limits of Transfer Learning with a Unified Text-to-Text
Transformer", 2019.)
"""

from __future__ import annotations

from deploykit.frontends.huggingface.distances import bias, buckets
from deploykit.frontends.huggingface.folder import Config
from deploykit.frontends.huggingface.heads import hidden_state
from deploykit.frontends.huggingface.registry import Text, head, text_encoder, unlimited
from deploykit.frontends.huggingface.tensors import Module, Tensor, as_mask


@text_encoder(
    {"t5": "T5"},
    base="",
    positions=unlimited,
    defaults={
        "feed_forward_proj": "relu",
        "layer_norm_epsilon": 1e-6,
        "relative_attention_num_buckets": 32,
        "relative_attention_max_distance": 128,
    },
    fixed={"is_decoder": False},
    harmless=(
        *("num_decoder_layers", "n_positions", "is_encoder_decoder"),
        *("dense_act_fn", "is_gated_act", "scale_decoder_outputs"),
    ),
    unread=("decoder.", "lm_head."),
)
def t5(m: Module, c: Config, text: Text) -> Tensor:
    m.tied("encoder.embed_tokens.weight", "shared.weight")
    x, encoder = m.embedding("shared", text.ids, c.vocab_size), m["encoder"]
    table = encoder.weight(
        "block.0.layer.0.SelfAttention.relative_attention_bias.weight", c.relative_attention_num_buckets, c.num_heads
    )
    places = buckets(c.relative_attention_num_buckets, c.relative_attention_max_distance)
    added = bias(table, places, as_mask(text.mask))
    for layer in encoder.layers("block", c.num_layers):
        attention, mlp = layer["layer.0"], layer["layer.1"]
        x = x + attend(attention["SelfAttention"], c, attention.rms_norm("layer_norm", x, c.layer_norm_epsilon), added)
        x = x + feed_forward(mlp["DenseReluDense"], c, mlp.rms_norm("layer_norm", x, c.layer_norm_epsilon))
    return encoder.rms_norm("final_layer_norm", x, c.layer_norm_epsilon)


def attend(m: Module, c: Config, x: Tensor, added: Tensor) -> Tensor:
    q, k, v = (m.linear(name, x, c.num_heads * c.d_kv, bias=False) for name in "qkv")
    return m.linear("o", q.attend(k, v, c.num_heads, added, scale=1.0), c.d_model, bias=False)


def feed_forward(m: Module, c: Config, x: Tensor) -> Tensor:
    gated, _, activation = c.feed_forward_proj.rpartition("-")
    if not gated:
        y = m.linear("wi", x, c.d_ff, bias=False).activation(activation)
    else:
        activation = "gelu_new" if activation == "gelu" else activation
        y = m.linear("wi_0", x, c.d_ff, bias=False).activation(activation) * m.linear("wi_1", x, c.d_ff, bias=False)
    return m.linear("wo", y, c.d_model, bias=False)


head("t5", "EncoderModel")(hidden_state)
