"""ALBERT: BERT whose blocks share weights in groups, with embeddings of a width of their own.

(Source: Lan et al., "ALBERT: A Lite BERT for Self-supervised Learning of Language Representations", 2019.)
"""

from __future__ import annotations

from deploykit.frontends.huggingface.blocks import Names, masked, post_norm
from deploykit.frontends.huggingface.families.bert import DEFAULTS, ENCODER_ONLY, embeddings
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

NAMES = Names(
    query="attention.query",
    key="attention.key",
    value="attention.value",
    out="attention.dense",
    norm="attention.LayerNorm",
    up="ffn",
    down="ffn_output",
    out_norm="full_layer_layer_norm",
)


@text_encoder(
    {"albert": "Albert"},
    base="albert",
    defaults={**DEFAULTS, "hidden_act": "gelu_new", "num_hidden_groups": 1, "inner_group_num": 1},
    fixed={**ENCODER_ONLY, "net_structure_type": 0, "num_memory_blocks": 0, "gap_size": 0, "down_scale_factor": 1},
    harmless=("embedding_size",),
    unread=("pooler.", "sop_classifier."),
)
def albert(m: Module, c: Config, text: Text) -> Tensor:
    attend = masked(c, as_mask(text.mask))
    x = m.linear("encoder.embedding_hidden_mapping_in", embeddings(m["embeddings"], c, text), c.hidden_size)
    for number in range(c.num_hidden_layers):
        group = number * c.num_hidden_groups // c.num_hidden_layers
        for layer in m[f"encoder.albert_layer_groups.{group}"].layers("albert_layers", c.inner_group_num):
            x = post_norm(layer, c, x, attend, NAMES)
    return x


head("albert", "Model")(hidden_and_pooled("albert", "pooler"))
head("albert", "ForSequenceClassification")(on_pooled("classifier", pooler("albert", "pooler")))
head("albert", "ForTokenClassification")(token_classification)
head("albert", "ForQuestionAnswering")(question_answering)
head("albert", "ForMaskedLM")(
    masked_words(
        "predictions",
        "albert.embeddings.word_embeddings.weight",
        dense="dense",
        norm="LayerNorm",
    )
)
