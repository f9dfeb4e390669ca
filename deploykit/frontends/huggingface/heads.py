"""Heads that several families have."""

from __future__ import annotations

from collections.abc import Callable

from deploykit.frontends.huggingface.folder import Config
from deploykit.frontends.huggingface.registry import Head, Outputs
from deploykit.frontends.huggingface.tensors import Module, Tensor


def hidden_state(m: Module, c: Config, x: Tensor) -> Outputs:
    return {"last_hidden_state": x}


def on_pooled(name: str, pooled: Callable[[Module, Tensor], Tensor]) -> Head:
    """Classification of a text by its pooled state."""

    def build(m: Module, c: Config, x: Tensor) -> Outputs:
        return {"logits": m.linear(name, pooled(m, x))}

    return build


def on_first(activation: str, dense: str = "classifier.dense", out: str = "classifier.out_proj") -> Head:
    """Classification of a text by the state of its first token, through a layer of its own."""

    def build(m: Module, c: Config, x: Tensor) -> Outputs:
        return {"logits": m.linear(out, m.linear(dense, x.at(1, 0)).activation(activation))}

    return build


def token_classification(m: Module, c: Config, x: Tensor) -> Outputs:
    return {"logits": m.linear("classifier", x)}


def question_answering(m: Module, c: Config, x: Tensor) -> Outputs:
    logits = m.linear("qa_outputs", x, 2)
    return {"start_logits": logits.at(2, 0), "end_logits": logits.at(2, 1)}


def masked_words(
    part: str,
    table: str,
    *,
    dense: str = "transform.dense",
    norm: str = "transform.LayerNorm",
    bias: str = "bias",
    activation: str | None = None,
) -> Head:
    """Scores of all words for each token: a layer and a product with the `table` of embeddings."""

    def build(m: Module, c: Config, x: Tensor) -> Outputs:
        h = m[part]
        y = h.linear(dense, x).activation(activation or c.hidden_act)
        y = h.layer_norm(norm, y, c.get("layer_norm_eps", 1e-12))
        m.named("logits")
        return {"logits": y @ m.weight(table).transpose(1, 0) + h.weight(bias)}

    return build
