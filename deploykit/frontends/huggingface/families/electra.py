"""ELECTRA: BERT with embeddings of a width of their own. Its discriminator says which tokens were replaced.

(Source: Clark et al., "ELECTRA: Pre-training Text Encoders as Discriminators Rather Than Generators", 2020.)
"""

from __future__ import annotations

from deploykit.frontends.huggingface.blocks import masked, post_norm
from deploykit.frontends.huggingface.families.bert import DEFAULTS, ENCODER_ONLY, embeddings
from deploykit.frontends.huggingface.folder import Config
from deploykit.frontends.huggingface.heads import (
    hidden_state,
    masked_words,
    on_first,
    question_answering,
    token_classification,
)
from deploykit.frontends.huggingface.registry import Outputs, Text, head, text_encoder
from deploykit.frontends.huggingface.tensors import Module, Tensor, as_mask


@text_encoder(
    {"electra": "Electra"},
    base="electra",
    defaults={**DEFAULTS, "embedding_size": 128},
    fixed=ENCODER_ONLY,
    harmless=("summary_type", "summary_use_proj", "summary_activation"),
)
def electra(m: Module, c: Config, text: Text) -> Tensor:
    attend = masked(c, as_mask(text.mask))
    x = embeddings(m["embeddings"], c, text)
    if c.embedding_size != c.hidden_size:
        x = m.linear("embeddings_project", x, c.hidden_size)
    for layer in m.layers("encoder.layer", c.num_hidden_layers):
        x = post_norm(layer, c, x, attend)
    return x


@head("electra", "ForPreTraining")
def replaced_tokens(m: Module, c: Config, x: Tensor, text: Text) -> Outputs:
    h = m["discriminator_predictions"]
    return {"logits": h.linear("dense_prediction", h.linear("dense", x).activation(c.hidden_act), 1).at(2, 0)}


head("electra", "Model")(hidden_state)
head("electra", "ForSequenceClassification")(on_first("gelu"))
head("electra", "ForTokenClassification")(token_classification)
head("electra", "ForQuestionAnswering")(question_answering)
head("electra", "ForMaskedLM")(
    masked_words(
        "",
        "electra.embeddings.word_embeddings.weight",
        dense="generator_predictions.dense",
        norm="generator_predictions.LayerNorm",
        out="generator_lm_head",
        bias="generator_lm_head.bias",
        activation="gelu",
    )
)
