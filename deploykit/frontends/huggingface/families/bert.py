"""BERT: a stack of blocks, each attention and a feed-forward network, with a normalisation after each sum.

(Source: Devlin et al., "BERT: Pre-training of Deep Bidirectional Transformers", 2018.)
"""

from __future__ import annotations

from deploykit.frontends.huggingface.blocks import masked, post_norm
from deploykit.frontends.huggingface.folder import Config
from deploykit.frontends.huggingface.heads import (
    hidden_and_pooled,
    masked_words,
    on_pooled,
    pooler,
    question_answering,
    token_classification,
)
from deploykit.frontends.huggingface.registry import Text, head, text_encoder
from deploykit.frontends.huggingface.tensors import Module, Tensor, as_mask

ENCODER_ONLY = {
    "is_decoder": False,
    "add_cross_attention": False,
    "is_encoder_decoder": False,
    "position_embedding_type": "absolute",
    "pruned_heads": {},
}
"""Entries that encoders like BERT share, with the value that they are made for."""

DEFAULTS = {"hidden_act": "gelu", "layer_norm_eps": 1e-12, "type_vocab_size": 2, "tie_word_embeddings": True}


@text_encoder(
    {"bert": "Bert"},
    base="bert",
    defaults=DEFAULTS,
    fixed={**ENCODER_ONLY, "directionality": "bidi", "pooler_type": "first_token_transform"},
    harmless=("pooler_fc_size", "pooler_num_attention_heads", "pooler_num_fc_layers", "pooler_size_per_head"),
    unread=("pooler.", "cls.seq_relationship."),
)
def bert(m: Module, c: Config, text: Text) -> Tensor:
    attend = masked(c, as_mask(text.mask))
    x = embeddings(m["embeddings"], c, text)
    for layer in m.layers("encoder.layer", c.num_hidden_layers):
        x = post_norm(layer, c, x, attend)
    return x


def embeddings(e: Module, c: Config, text: Text) -> Tensor:
    """Those of the tokens, of their types and of their positions, normalised."""
    x = e.embedding("word_embeddings", text.ids, c.vocab_size) + types(e, text)
    x = x + e.positions("position_embeddings", x, c.max_position_embeddings)
    return e.layer_norm("LayerNorm", x, c.layer_norm_eps)


def types(e: Module, text: Text) -> Tensor:
    """The embeddings of the types of tokens, which are all 0 if they are no input."""
    if text.types is None:
        return e.weight("token_type_embeddings.weight").at(0, 0)
    return e.embedding("token_type_embeddings", text.types)


head("bert", "Model")(hidden_and_pooled("bert"))
head("bert", "ForSequenceClassification")(on_pooled("classifier", pooler("bert")))
head("bert", "ForTokenClassification")(token_classification)
head("bert", "ForQuestionAnswering")(question_answering)
head("bert", "ForMaskedLM")(masked_words("cls.predictions", "bert.embeddings.word_embeddings.weight"))
