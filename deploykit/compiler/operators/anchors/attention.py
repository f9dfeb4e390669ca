"""Scaled dot product attention as stages of one kernel: scores, a softmax over keys, sums of values.

Queries are `[..., rows, depth]`, keys `[..., depth, keys]`, values `[..., keys, width]`; leading dims broadcast. All
stages are computed in `DTYPE`, whatever the dtype of the operands. The stages have the annotation `ROLE`, by which the
schedule recognises them. The peak, the powers and the sums are anchors, so that stages computed from scores (scales,
masks) belong to the scores.
"""

from __future__ import annotations

from typing import Any

from tvm import te, tirx

from deploykit.compiler.operators.anchors.matmul import batch_index, broadcast, widened

DTYPE = "float32"
"""The dtype in which attention is computed."""

ROLE = "deploykit.attention"
"""Annotation of a stage of attention: one of `ROLES`."""

ROLES = ("scores", "peak", "powers", "total", "weighted")

FACTORS = "deploykit.factors"
"""Annotation of the stage of scores: the dtype to which queries, keys, powers and values may be rounded when they are
multiplied."""

SOFTMAX = "deploykit.softmax"
"""Annotation of the stage that stores a softmax over the last axis. It says what a row of only minus infinity gives:
`nan` or `zero`."""

ROUNDED = "deploykit.rounded"
"""Annotation of a stage that converts from one float dtype of up to 32 bits to another: `exact`, or `free` if the
rounding is optional."""


def scores(queries: te.Tensor, keys: te.Tensor, factors: str = DTYPE) -> te.Tensor:
    """`queries @ keys`, of shape `[..., rows, keys]`. `factors` is the dtype to which factors may be rounded."""
    lead_q, lead_k = list(queries.shape[:-2]), list(keys.shape[:-2])
    batch = broadcast(lead_q, lead_k)
    depth = te.reduce_axis((0, queries.shape[-1]), name="depth")

    def element(*index: Any) -> Any:
        *lead, row, key = index
        query = queries(*batch_index(lead_q, lead, batch), row, depth)
        other = keys(*batch_index(lead_k, lead, batch), depth, key)
        return te.sum(widened(query, DTYPE) * widened(other, DTYPE), axis=depth)

    return te.compute(
        (*batch, queries.shape[-2], keys.shape[-1]), element, name="scores", attrs={ROLE: "scores", FACTORS: factors}
    )


def weighted(x: te.Tensor, values: te.Tensor, empty: str) -> te.Tensor:
    """`softmax(x) @ values`. `empty` says what the softmax of a row of only minus infinity gives."""
    *lead, rows, keys = x.shape
    lead_v = list(values.shape[:-2])
    batch = broadcast(lead, lead_v)
    along = [te.reduce_axis((0, keys), name="along") for _ in range(3)]

    def role(name: str) -> dict[str, str]:
        return {ROLE: name, "deploykit.anchor": "attention"}

    peak = te.compute((*lead, rows), lambda *i: te.max(x(*i, along[0]), axis=along[0]), name="peak", attrs=role("peak"))
    powers = te.compute(x.shape, lambda *i: tirx.exp(x(*i) - peak(*i[:-1])), name="powers", attrs=role("powers"))
    total = te.compute(
        (*lead, rows), lambda *i: te.sum(powers(*i, along[1]), axis=along[1]), name="total", attrs=role("total")
    )

    def share(*index: Any) -> Any:
        one, none = tirx.const(1, x.dtype), tirx.const(0, x.dtype)
        if empty == "zero":
            return tirx.Select(total(*index) == none, none, one / total(*index))
        return one / total(*index)

    shares = te.compute((*lead, rows), share, name="share", attrs={"deploykit.anchor": "attention"})

    def element(*index: Any) -> Any:
        *at, row, column = index
        weight = powers(*batch_index(lead, at, batch), row, along[2])
        value = values(*batch_index(lead_v, at, batch), along[2], column)
        return te.sum(weight * widened(value, DTYPE), axis=along[2])

    shape = (*batch, rows, values.shape[-1])
    sums = te.compute(shape, element, name="weighted", attrs={ROLE: "weighted"})

    def result(*index: Any) -> Any:
        return sums(*index) * shares(*batch_index(lead, index[:-2], batch), index[-2])

    return te.compute(shape, result, name="attention")
