"""BERT: a stack of blocks, each attention and a feed-forward network, with a normalisation after each sum.

(Source: Devlin et al., "BERT: Pre-training of Deep Bidirectional Transformers", 2018.)
"""

from __future__ import annotations

from deploykit.frontends.huggingface.folder import Config
from deploykit.frontends.huggingface.heads import masked_words, on_pooled, question_answering, token_classification
from deploykit.frontends.huggingface.registry import Outputs, Text, head, text_encoder
from deploykit.frontends.huggingface.tensors import Module, Tensor, as_mask


@text_encoder("bert", base="bert", token_types=True)
def bert(m: Module, c: Config, text: Text) -> Tensor:
    e, mask = m["embeddings"], as_mask(text.mask)
    assert text.types is not None
    x = e.embedding("word_embeddings", text.ids) + e.embedding("token_type_embeddings", text.types)
    x = x + e.weight("position_embeddings.weight").slice(0, 0, x.shape[1])
    x = e.layer_norm("LayerNorm", x, c.layer_norm_eps)
    for layer in m.layers("encoder.layer", c.num_hidden_layers):
        x = block(layer, c, x, mask)
    return x


def block(m: Module, c: Config, x: Tensor, mask: Tensor) -> Tensor:
    attention, a = m["attention.self"], m["attention.output"]
    q, k, v = (attention.linear(name, x, c.hidden_size) for name in ("query", "key", "value"))
    y = q.attend(k, v, c.num_attention_heads, mask)
    x = a.layer_norm("LayerNorm", x + a.linear("dense", y), c.layer_norm_eps)
    y = m["intermediate"].linear("dense", x, c.intermediate_size).activation(c.hidden_act)
    return m["output"].layer_norm("LayerNorm", x + m["output"].linear("dense", y), c.layer_norm_eps)


def pooled(m: Module, x: Tensor) -> Tensor:
    """The state of the first token, through the pooler."""
    return m.under("bert")["pooler"].linear("dense", x.at(1, 0)).activation("tanh")


@head("bert", "Model")
def hidden(m: Module, c: Config, x: Tensor) -> Outputs:
    found = {"last_hidden_state": x}
    return found | {"pooler_output": pooled(m, x)} if m.under("bert").has("pooler.dense.weight") else found


head("bert", "ForSequenceClassification")(on_pooled("classifier", pooled))
head("bert", "ForTokenClassification")(token_classification)
head("bert", "ForQuestionAnswering")(question_answering)
head("bert", "ForMaskedLM")(masked_words("cls.predictions", "bert.embeddings.word_embeddings.weight"))
