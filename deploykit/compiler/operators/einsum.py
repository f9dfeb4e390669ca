"""Einsum for any equation, as matrix products.

Each operand is first reduced to distinct labels that another operand or the result needs (diagonals, sums). Then the
operands are contracted from left to right. Each contraction is one batched matrix product; its axes are the labels that
both keep, the labels that are summed, and the labels of only one. The last result is transposed. The dims of `...` are
labels, too, and broadcast. (Source: ONNX operator Einsum, numpy.einsum.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tvm import ir, te

from deploykit.compiler.dims.expressions import IntExpr
from deploykit.compiler.operators.building.broadcast import broadcast_shapes, elementwise
from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.conversion import compute_dtype
from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.compiler.operators.building.expressions import compute, reduce_axis
from deploykit.compiler.operators.building.sizes import require_equal
from deploykit.compiler.operators.building.value import Value
from deploykit.compiler.operators.joining import expand
from deploykit.compiler.operators.layout import transpose
from deploykit.compiler.operators.matmul import wide_matmul

_ELLIPSIS = "..."


@dataclass(frozen=True)
class _Term:
    """A tensor with one label per axis."""

    value: Value
    labels: tuple[str, ...]

    def size(self, label: str) -> IntExpr:
        return self.value.shape[self.labels.index(label)]


def einsum(ctx: Context, equation: str, *operands: Value) -> Value:
    """numpy.einsum of operands of one dtype. The result has this dtype; sums are kept in a dtype that may be wider.

    Raises `Unsupported` for an equation that does not fit the operands."""
    inputs, output = parse(equation, [v.rank for v in operands])
    dtype = operands[0].dtype
    wide = compute_dtype(dtype)
    terms = [_Term(ctx.cast(v, wide), labels) for v, labels in zip(operands, inputs, strict=True)]
    terms = [_diagonal(ctx, term) for term in terms]
    for label in dict.fromkeys(label for term in terms for label in term.labels if not label.startswith(_ELLIPSIS)):
        first, *others = [term.size(label) for term in terms if label in term.labels]
        for other in others:
            require_equal(ctx, f"the sizes of '{label}' differ", first, other)
    result = terms[0]
    for position, term in enumerate(terms):
        later = {label for other in terms[position + 1 :] for label in other.labels} | set(output)
        if position:
            result = _contract(ctx, result, term, later)
        result = _sum_away(ctx, result, later)
    order = [result.labels.index(label) for label in output]
    return ctx.cast(transpose(ctx, result.value, order), dtype)


def parse(equation: str, ranks: Sequence[int]) -> tuple[list[tuple[str, ...]], tuple[str, ...]]:
    """The labels of the operands and of the result. The axes of `...` are labelled from the right.

    Raises `Unsupported` for an equation that does not fit operands of these ranks."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    parts = left.split(",")
    if len(parts) != len(ranks):
        raise Unsupported(f"the equation '{equation}' has {len(parts)} terms for {len(ranks)} inputs")
    inputs = [_labels(part, rank, equation) for part, rank in zip(parts, ranks, strict=True)]
    broadcast = max((labels for labels in (_dots(labels) for labels in inputs)), key=len)
    if arrow:
        output = _spread(right, broadcast)
    else:
        named = sorted(label for label in left.replace(".", "").replace(",", ""))
        output = (*broadcast, *(label for label in named if named.count(label) == 1))
    known = {label for labels in inputs for label in labels}
    if len(set(output)) != len(output) or not set(output) <= known:
        raise Unsupported(f"the equation '{equation}' repeats or invents a label of the result")
    return inputs, output


def _labels(part: str, rank: int, equation: str) -> tuple[str, ...]:
    dots = rank - len(part.replace(_ELLIPSIS, ""))
    if dots < 0 or (dots and _ELLIPSIS not in part):
        raise Unsupported(f"the term '{part}' of the equation '{equation}' for an input of rank {rank}")
    return _spread(part, tuple(f"{_ELLIPSIS}{k}" for k in reversed(range(dots))))


def _spread(part: str, broadcast: tuple[str, ...]) -> tuple[str, ...]:
    before, dots, after = part.partition(_ELLIPSIS)
    return (*before, *(broadcast if dots else ()), *after)


def _dots(labels: Sequence[str]) -> tuple[str, ...]:
    return tuple(label for label in labels if label.startswith(_ELLIPSIS))


def _diagonal(ctx: Context, term: _Term) -> _Term:
    """The term with each label once: axes with the same label become one, the diagonal."""
    labels = tuple(dict.fromkeys(term.labels))
    if labels == term.labels:
        return term
    for label, size in zip(term.labels, term.value.shape, strict=True):
        require_equal(ctx, f"the sizes of '{label}' differ", term.size(label), size)

    def build(t: te.Tensor) -> te.Tensor:
        shape = [term.size(label) for label in labels]
        return compute(shape, lambda *i: t(*(i[labels.index(label)] for label in term.labels)), name="diagonal")

    return _Term(ctx.kernel("diagonal", build, term.value, dtype=term.value.dtype), labels)


def _sum_away(ctx: Context, term: _Term, needed: set[str]) -> _Term:
    """The term summed over all labels that are not needed."""
    kept = tuple(label for label in term.labels if label in needed)
    if kept == term.labels:
        return term

    def build(t: te.Tensor) -> te.Tensor:
        axes = {label: reduce_axis(term.size(label), name="k") for label in term.labels if label not in kept}

        def element(*index: ir.Expr) -> ir.Expr:
            place = dict(zip(kept, index, strict=True)) | {label: axis.var for label, axis in axes.items()}
            return te.sum(t(*(place[label] for label in term.labels)), axis=list(axes.values()))

        return compute([term.size(label) for label in kept], element, name="sum")

    return _Term(ctx.kernel("sum", build, term.value, dtype=term.value.dtype), kept)


def _contract(ctx: Context, a: _Term, b: _Term, needed: set[str]) -> _Term:
    """The product of two terms, summed over the labels that both have and that are not needed."""
    a = _sum_away(ctx, a, needed | set(b.labels))
    b = _sum_away(ctx, b, needed | set(a.labels))
    common = [label for label in a.labels if label in b.labels]
    summed = [label for label in common if label not in needed]
    if not summed:
        return _multiply(ctx, a, b)
    batch = [label for label in common if label in needed]
    rows = [label for label in a.labels if label not in common]
    columns = [label for label in b.labels if label not in common]
    joint = {label: broadcast_shapes(ctx, [a.size(label)], [b.size(label)])[0] for label in common}
    left = _arranged(ctx, a, [batch, rows, summed], joint)
    right = _arranged(ctx, b, [batch, summed, columns], joint)
    product = wide_matmul(ctx, left, right)
    shape = [*(joint[label] for label in batch), *map(a.size, rows), *map(b.size, columns)]
    return _Term(ctx.reshape(product, shape), (*batch, *rows, *columns))


def _arranged(ctx: Context, term: _Term, groups: Sequence[Sequence[str]], joint: dict[str, IntExpr]) -> Value:
    """The term with its axes in the order of `groups`, and each group joined to one axis."""
    order = [label for group in groups for label in group]
    value = transpose(ctx, term.value, [term.labels.index(label) for label in order])
    sizes = {label: joint.get(label, term.size(label)) for label in order}
    value = expand(ctx, value, [sizes[label] for label in order])
    return ctx.reshape(value, [ctx.product([sizes[label] for label in group]) for group in groups])


def _multiply(ctx: Context, a: _Term, b: _Term) -> _Term:
    """The elementwise product over the labels of both terms."""
    labels = (*a.labels, *(label for label in b.labels if label not in a.labels))
    left = ctx.reshape(a.value, [*a.value.shape, *([1] * (len(labels) - len(a.labels)))])
    order = sorted(range(len(b.labels)), key=lambda i: labels.index(b.labels[i]))
    aligned = transpose(ctx, b.value, order)
    right = ctx.reshape(aligned, [b.size(label) if label in b.labels else 1 for label in labels])
    return _Term(elementwise(ctx, "product", lambda x, y: x * y, left, right), labels)
