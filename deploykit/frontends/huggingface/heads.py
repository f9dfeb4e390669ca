"""Heads that several families have."""

from __future__ import annotations

from collections.abc import Callable

from deploykit.frontends.huggingface.folder import Config
from deploykit.frontends.huggingface.registry import Head, Outputs, Text
from deploykit.frontends.huggingface.tensors import Module, Tensor


def hidden_state(m: Module, c: Config, x: Tensor, text: Text) -> Outputs:
    return {"last_hidden_state": x}


def pooler(base: str, part: str = "pooler.dense") -> Callable[[Module, Tensor], Tensor]:
    """The state of the first token, through the pooler, a part of the base."""
    return lambda m, x: m.under(base).linear(part, x.at(1, 0)).activation("tanh")


def hidden_and_pooled(base: str, part: str = "pooler.dense") -> Head:
    """The states of all tokens and, if the model has a pooler, the pooled one."""

    def build(m: Module, c: Config, x: Tensor, text: Text) -> Outputs:
        found = {"last_hidden_state": x}
        has = m.under(base).has(f"{part}.weight")
        return found | {"pooler_output": pooler(base, part)(m, x)} if has else found

    return build


def on_pooled(name: str, pooled: Callable[[Module, Tensor], Tensor]) -> Head:
    """Classification of a text by its pooled state."""

    def build(m: Module, c: Config, x: Tensor, text: Text) -> Outputs:
        return {"logits": m.linear(name, pooled(m, x))}

    return build


def on_first(activation: str, dense: str = "classifier.dense", out: str = "classifier.out_proj") -> Head:
    """Classification of a text by the state of its first token, through a layer of its own."""

    def build(m: Module, c: Config, x: Tensor, text: Text) -> Outputs:
        return {"logits": m.linear(out, m.linear(dense, x.at(1, 0)).activation(activation))}

    return build


def token_classification(m: Module, c: Config, x: Tensor, text: Text) -> Outputs:
    return {"logits": m.linear("classifier", x)}


def question_answering(m: Module, c: Config, x: Tensor, text: Text) -> Outputs:
    logits = m.linear("qa_outputs", x, 2)
    return {"start_logits": logits.at(2, 0), "end_logits": logits.at(2, 1)}


def masked_words(
    part: str,
    table: str,
    *,
    dense: str = "transform.dense",
    norm: str = "transform.LayerNorm",
    out: str = "decoder",
    bias: str = "bias",
    activation: str | None = None,
) -> Head:
    """Scores of all words for each token: a layer of the part, and a product with the `table` of embeddings. Older
    files have the table and the bias a second time, as the layer `out`."""

    def build(m: Module, c: Config, x: Tensor, text: Text) -> Outputs:
        h = m[part] if part else m
        y = h.linear(dense, x).activation(activation or c.hidden_act)
        y = h.layer_norm(norm, y, c.layer_norm_eps)
        tied, words = bool(c.tie_word_embeddings), int(c.vocab_size)
        weight = m.shared(f"{h.prefix}{out}.weight", table, tied=tied)
        shift = h.tied(f"{out}.bias", bias, words, tied=tied)
        m.named("logits")
        return {"logits": m.product(weight, y, words) + shift}

    return build
