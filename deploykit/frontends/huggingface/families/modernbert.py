"""ModernBERT: blocks with the normalisation in front, rotary positions, and attention to near tokens in most blocks.

    x = x + attention(norm(x)),    x = x + (gelu(a) * b) @ W    with a, b = norm(x) @ V

(Source: Warner et al., "Smarter, Better, Faster, Longer: A Modern Bidirectional Encoder", 2024.)
"""

from __future__ import annotations

from deploykit.frontends.huggingface.blocks import head_size
from deploykit.frontends.huggingface.decoders import FULL, LOCAL, kinds_of
from deploykit.frontends.huggingface.folder import Config
from deploykit.frontends.huggingface.heads import hidden_state
from deploykit.frontends.huggingface.registry import Outputs, Text, head, text_encoder
from deploykit.frontends.huggingface.rotary import Rotary, rotary, settings_of
from deploykit.frontends.huggingface.sentences import mean
from deploykit.frontends.huggingface.tensors import Module, Tensor, as_mask

THETAS = {FULL: "global_rope_theta", LOCAL: "local_rope_theta"}


@text_encoder(
    {"modernbert": "ModernBert"},
    base="model",
    defaults={
        "hidden_activation": "gelu",
        "norm_eps": 1e-5,
        "global_attn_every_n_layers": 3,
        "global_rope_theta": 160000.0,
        "local_rope_theta": 10000.0,
        "local_attention": 128,
        "classifier_activation": "gelu",
        "classifier_pooling": "cls",
        "attention_bias": False,
        "mlp_bias": False,
        "norm_bias": False,
        "classifier_bias": False,
        "decoder_bias": True,
        "tie_word_embeddings": True,
    },
    fixed={"is_decoder": False, "is_encoder_decoder": False},
    harmless=(
        *("layer_norm_eps", "position_embedding_type", "repad_logits_with_grad"),
        *("sparse_prediction", "sparse_pred_ignore_index"),
    ),
)
def modernbert(m: Module, c: Config, text: Text) -> Tensor:
    mask, size = as_mask(text.mask), head_size(c.hidden_size, c.num_attention_heads)
    turns = {kind: rotary(c, text, size, settings_of(c, kind, theta)) for kind, theta in THETAS.items()}
    kinds = kinds_of(c, lambda number: number % c.global_attn_every_n_layers != 0)
    x = norm(m, "embeddings.norm", c, m.embedding("embeddings.tok_embeddings", text.ids, c.vocab_size))
    for number, layer in enumerate(m.layers("layers", c.num_hidden_layers)):
        near = c.local_attention // 2 if kinds[number] == LOCAL else -1
        y = norm(layer, "attn_norm", c, x) if number else x
        x = x + attention(layer["attn"], c, y, mask, turns[kinds[number]], near)
        x = x + mlp(layer["mlp"], c, norm(layer, "mlp_norm", c, x))
    return norm(m, "final_norm", c, x)


def norm(m: Module, name: str, c: Config, x: Tensor) -> Tensor:
    return m.layer_norm(name, x, c.norm_eps, bias=c.norm_bias)


def attention(m: Module, c: Config, x: Tensor, mask: Tensor, turned: Rotary, near: int) -> Tensor:
    heads, width = c.num_attention_heads, c.hidden_size
    q, k, v = m.linear("Wqkv", x, 3 * width, bias=c.attention_bias).split(2, width, width, width)
    y = turned(q, heads).attend(turned(k, heads), v, heads, mask, window=(near, near))
    return m.linear("Wo", y, width, bias=c.attention_bias)


def mlp(m: Module, c: Config, x: Tensor) -> Tensor:
    width = c.intermediate_size
    a, b = m.linear("Wi", x, 2 * width, bias=c.mlp_bias).split(2, width, width)
    return m.linear("Wo", a.activation(c.hidden_activation) * b, c.hidden_size, bias=c.mlp_bias)


def prediction(m: Module, c: Config, x: Tensor) -> Tensor:
    """The layer that all heads begin with."""
    y = m.linear("head.dense", x, c.hidden_size, bias=c.classifier_bias).activation(c.classifier_activation)
    return norm(m, "head.norm", c, y)


@head("modernbert", "ForSequenceClassification")
def classes(m: Module, c: Config, x: Tensor, text: Text) -> Outputs:
    pooled = x.at(1, 0) if c.classifier_pooling == "cls" else mean(x, text.mask)
    return {"logits": m.linear("classifier", prediction(m, c, pooled))}


@head("modernbert", "ForTokenClassification")
def tokens(m: Module, c: Config, x: Tensor, text: Text) -> Outputs:
    return {"logits": m.linear("classifier", prediction(m, c, x))}


@head("modernbert", "ForQuestionAnswering")
def answers(m: Module, c: Config, x: Tensor, text: Text) -> Outputs:
    logits = m.linear("classifier", prediction(m, c, x), 2)
    return {"start_logits": logits.at(2, 0), "end_logits": logits.at(2, 1)}


@head("modernbert", "ForMaskedLM")
def words(m: Module, c: Config, x: Tensor, text: Text) -> Outputs:
    y = prediction(m, c, x)
    table = m.shared("decoder.weight", "model.embeddings.tok_embeddings.weight", tied=c.tie_word_embeddings)
    m.named("logits")
    y = m.product(table, y, int(c.vocab_size))
    return {"logits": y + m.weight("decoder.bias") if c.decoder_bias else y}


head("modernbert", "Model")(hidden_state)
