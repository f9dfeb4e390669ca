"""The encoder of BART: blocks as those of BERT, and positions that count from 2.

The architecture is `BartEncoder`, which `BartModel.encoder.save_pretrained` writes. A folder of the whole model works
if its configuration names this architecture; the decoder is left out. (Source: Lewis et al., "BART: Denoising
Sequence-to-Sequence Pre-training", 2019.)
"""

from __future__ import annotations

from deploykit.frontends.huggingface.blocks import Names, masked, post_norm
from deploykit.frontends.huggingface.folder import Config
from deploykit.frontends.huggingface.heads import hidden_state
from deploykit.frontends.huggingface.registry import Text, head, text_encoder, untyped
from deploykit.frontends.huggingface.tensors import Module, Tensor, as_mask

NAMES = Names(
    query="self_attn.q_proj",
    key="self_attn.k_proj",
    value="self_attn.v_proj",
    out="self_attn.out_proj",
    norm="self_attn_layer_norm",
    up="fc1",
    down="fc2",
    out_norm="final_layer_norm",
)
FIRST = 2
"""The position of the first token."""


@text_encoder(
    {"bart": "Bart"},
    base="",
    types=untyped,
    defaults={"hidden_act": "gelu", "scale_embedding": False, "layer_norm_eps": 1e-5},
    aliases={
        "d_model": "hidden_size",
        "encoder_layers": "num_hidden_layers",
        "encoder_ffn_dim": "intermediate_size",
        "encoder_attention_heads": "num_attention_heads",
        "activation_function": "hidden_act",
    },
    fixed={
        "is_decoder": False,
        "normalize_before": False,
        "normalize_embedding": True,
        "add_final_layer_norm": False,
        "static_position_embeddings": False,
        "extra_pos_embeddings": 2,
    },
    harmless=(
        *("decoder_layers", "decoder_ffn_dim", "decoder_attention_heads"),
        *("is_encoder_decoder", "add_bias_logits", "num_hidden_layers"),
    ),
    unread=("model.decoder.", "decoder.", "lm_head.", "final_logits_bias", "classification_head.", "qa_outputs."),
)
def bart(m: Module, c: Config, text: Text) -> Tensor:
    whole, e = m.under("model"), m.under("model.encoder", "encoder")
    if whole.has("shared.weight"):
        whole.tied("encoder.embed_tokens.weight", "shared.weight")
    own = e.has("embed_tokens.weight")
    x = (e if own else whole).embedding("embed_tokens" if own else "shared", text.ids, c.vocab_size)
    x = x * c.hidden_size**0.5 if c.scale_embedding else x
    x = x + e.positions("embed_positions", x, c.max_position_embeddings + FIRST, FIRST)
    x, attend = e.layer_norm("layernorm_embedding", x, c.layer_norm_eps), masked(c, as_mask(text.mask))
    for layer in e.layers("layers", c.num_hidden_layers):
        x = post_norm(layer, c, x, attend, NAMES)
    return x


head("bart", "Encoder")(hidden_state)
