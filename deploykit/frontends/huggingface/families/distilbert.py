"""DistilBERT: BERT with half of the blocks, without types of tokens and without a pooler.

(Source: Sanh et al., "DistilBERT, a distilled version of BERT", 2019.)
"""

from __future__ import annotations

from deploykit.frontends.huggingface.blocks import Names, masked, post_norm
from deploykit.frontends.huggingface.folder import Config
from deploykit.frontends.huggingface.heads import (
    hidden_state,
    masked_words,
    on_first,
    question_answering,
    token_classification,
)
from deploykit.frontends.huggingface.registry import Text, head, text_encoder
from deploykit.frontends.huggingface.tensors import Module, Tensor, as_mask

NAMES = Names(
    query="attention.q_lin",
    key="attention.k_lin",
    value="attention.v_lin",
    out="attention.out_lin",
    norm="sa_layer_norm",
    up="ffn.lin1",
    down="ffn.lin2",
    out_norm="output_layer_norm",
)


@text_encoder(
    {"distilbert": "DistilBert"},
    base="distilbert",
    defaults={"hidden_act": "gelu", "layer_norm_eps": 1e-12, "tie_word_embeddings": True},
    aliases={
        "dim": "hidden_size",
        "hidden_dim": "intermediate_size",
        "n_heads": "num_attention_heads",
        "n_layers": "num_hidden_layers",
        "activation": "hidden_act",
    },
    fixed={"is_decoder": False, "is_encoder_decoder": False, "pruned_heads": {}, "tie_weights_": True},
    harmless=("sinusoidal_pos_embds",),
)
def distilbert(m: Module, c: Config, text: Text) -> Tensor:
    e, attend = m["embeddings"], masked(c, as_mask(text.mask))
    x = e.embedding("word_embeddings", text.ids, c.vocab_size)
    x = x + e.positions("position_embeddings", x, c.max_position_embeddings)
    x = e.layer_norm("LayerNorm", x, c.layer_norm_eps)
    for layer in m.layers("transformer.layer", c.num_hidden_layers):
        x = post_norm(layer, c, x, attend, NAMES)
    return x


head("distilbert", "Model")(hidden_state)
head("distilbert", "ForSequenceClassification")(on_first("relu", "pre_classifier", "classifier"))
head("distilbert", "ForTokenClassification")(token_classification)
head("distilbert", "ForQuestionAnswering")(question_answering)
head("distilbert", "ForMaskedLM")(
    masked_words(
        "",
        "distilbert.embeddings.word_embeddings.weight",
        dense="vocab_transform",
        norm="vocab_layer_norm",
        out="vocab_projector",
        bias="vocab_projector.bias",
    )
)
