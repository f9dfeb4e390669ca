"""DeBERTa-v2 and v3: BERT whose scores also weigh what a query looks for at a distance, and what a key is at one.

    score(q, k) = (q . k + q . K[distance] + k . Q[distance]) / sqrt(3 size)

K and Q are the embeddings of distances as keys and as queries. Large models of version 2 add what neighbouring tokens
are, found by a convolution of the embeddings, to the result of the first layer:

    x = norm(layer(e) + activation(conv(e)))

Embeddings of padding are zeros there, so that tokens at the end of a text meet what they meet without padding.
(Sources: He et al., "DeBERTa: Decoding-enhanced BERT with Disentangled Attention", 2020; its repository for version 2.)
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from deploykit.errors import UnsupportedModelError
from deploykit.frontends.huggingface.blocks import BERT, Attention, head_size, post_norm
from deploykit.frontends.huggingface.distances import disentangled, log_places
from deploykit.frontends.huggingface.families.bert import ENCODER_ONLY
from deploykit.frontends.huggingface.folder import Config
from deploykit.frontends.huggingface.heads import (
    hidden_state,
    masked_words,
    question_answering,
    token_classification,
)
from deploykit.frontends.huggingface.layers import conv
from deploykit.frontends.huggingface.registry import Outputs, Text, head, text_encoder
from deploykit.frontends.huggingface.tensors import Module, Tensor, as_mask

NAMES = replace(
    BERT, query="attention.self.query_proj", key="attention.self.key_proj", value="attention.self.value_proj"
)
TABLE = "deberta.embeddings.word_embeddings.weight"


@text_encoder(
    {"deberta-v2": "DebertaV2"},
    base="deberta",
    defaults={
        "hidden_act": "gelu",
        "layer_norm_eps": 1e-7,
        "type_vocab_size": 0,
        "relative_attention": False,
        "max_relative_positions": -1,
        "position_buckets": -1,
        "norm_rel_ebd": "none",
        "share_att_key": False,
        "pos_att_type": [],
        "position_biased_input": True,
        "pooler_hidden_act": "gelu",
        "conv_kernel_size": 0,
        "conv_groups": 1,
        "conv_act": "tanh",
        "legacy": True,
        "tie_word_embeddings": True,
    },
    fixed={**ENCODER_ONLY, "relative_attention": True},
    harmless=("pooler_hidden_size",),
    unread=("embeddings.position_embeddings.", "lm_predictions.", "mask_predictions."),
)
def deberta(m: Module, c: Config, text: Text) -> Tensor:
    e, mask = m["embeddings"], as_mask(text.mask)
    x = e.embedding("word_embeddings", text.ids, c.vocab_size)
    if c.position_biased_input:
        x = x + e.positions("position_embeddings", x, c.max_position_embeddings)
    if text.types is not None:
        x = x + e.embedding("token_type_embeddings", text.types)
    elif c.type_vocab_size:
        x = x + e.weight("token_type_embeddings.weight").at(0, 0)
    if c.get("embedding_size", c.hidden_size) != c.hidden_size:
        x = e.linear("embed_proj", x, c.hidden_size, bias=False)
    x = e.layer_norm("LayerNorm", x, c.layer_norm_eps)
    for index, layer in enumerate(m.layers("encoder.layer", c.num_hidden_layers)):
        y = post_norm(layer, c, x, attention(m["encoder"], layer["attention.self"], c, mask), NAMES)
        x = with_neighbours(m["encoder.conv"], c, x, y, text.mask) if index == 0 and c.conv_kernel_size else y
    return x


def with_neighbours(m: Module, c: Config, embeddings: Tensor, y: Tensor, mask: Tensor) -> Tensor:
    """The result of the first layer with what the convolution finds around each token."""
    kernel = c.conv_kernel_size
    if kernel % 2 == 0:
        raise UnsupportedModelError(f"'conv_kernel_size' is {kernel} in {c.path}: only an odd one keeps the length")
    shown = (embeddings * mask.reshape(*mask.shape, 1).cast("float32")).transpose(0, 2, 1)
    found = conv(m, "conv", shown, c.hidden_size, kernel=kernel, pad=kernel // 2, groups=c.conv_groups)
    return m.layer_norm("LayerNorm", y + found.transpose(0, 2, 1).activation(c.conv_act), c.layer_norm_eps)


def attention(encoder: Module, m: Module, c: Config, mask: Tensor) -> Attention:
    """Attention whose scores depend on distances. The embeddings of distances as keys and queries are constants."""
    kinds = c.pos_att_type.split("|") if isinstance(c.pos_att_type, str) else c.pos_att_type or []
    longest = c.max_relative_positions if c.max_relative_positions > 0 else c.max_position_embeddings
    span = c.position_buckets if c.position_buckets > 0 else longest
    table = encoder.array("rel_embeddings.weight", 2 * span, c.hidden_size)
    if "layer_norm" in c.norm_rel_ebd.lower():
        table = normalised(table, c.layer_norm_eps) * encoder.array("LayerNorm.weight") + encoder.array(
            "LayerNorm.bias"
        )
    names = ("key_proj", "query_proj") if c.share_att_key else ("pos_key_proj", "pos_query_proj")
    keys, queries = (
        m.tensor(table @ m.array(f"{name}.weight").T + m.array(f"{name}.bias")) if kind in kinds else None
        for kind, name in zip(("c2p", "p2c"), names, strict=True)
    )
    size = head_size(c.hidden_size, c.num_attention_heads)
    if c.get("attention_head_size", size) != size:
        raise UnsupportedModelError(
            f"'attention_head_size' is {c.attention_head_size} in {c.path}; the importer computes only with {size}, "
            "'hidden_size' divided by 'num_attention_heads'"
        )
    scale = (size * (1 + len({"c2p", "p2c"} & set(kinds)))) ** -0.5
    places = log_places(c.position_buckets, longest)

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        added = disentangled((q, keys), (k, queries), c.num_attention_heads, places, mask, scale)
        return q.attend(k, v, c.num_attention_heads, added, scale=scale)

    return attend


def normalised(x: np.ndarray, epsilon: float) -> np.ndarray:
    centred = x - x.mean(1, keepdims=True)
    return np.asarray(centred / np.sqrt((centred**2).mean(1, keepdims=True) + epsilon), np.float32)


@head("deberta-v2", "ForSequenceClassification")
def classes(m: Module, c: Config, x: Tensor, text: Text) -> Outputs:
    pooled = m.linear("pooler.dense", x.at(1, 0)).activation(c.pooler_hidden_act)
    return {"logits": m.linear("classifier", pooled)}


@head("deberta-v2", "ForMaskedLM")
def words(m: Module, c: Config, x: Tensor, text: Text) -> Outputs:
    if c.legacy:
        return masked_words("cls.predictions", TABLE)(m, c, x, text)
    return masked_words("lm_predictions.lm_head", TABLE, dense="dense", norm="LayerNorm")(m, c, x, text)


head("deberta-v2", "Model")(hidden_state)
head("deberta-v2", "ForTokenClassification")(token_classification)
head("deberta-v2", "ForQuestionAnswering")(question_answering)
