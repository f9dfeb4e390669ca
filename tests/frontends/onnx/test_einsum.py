"""Einsum, Det, Col2Im."""

from __future__ import annotations

import numpy as np
import pytest

from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.compiler.operators.einsum import parse
from tests.frontends.onnx.harness import Check, numbers

EQUATIONS = {
    "bid,bjd->bij": [("b", "i", "d"), ("b", "j", "d")],
    "ij,jk": [("i", "j"), ("j", "k")],
    "ij->ji": [("i", "j")],
    "ii->i": [("i", "i")],
    "bii->b": [("b", "i", "i")],
    "ij->": [("i", "j")],
    "i,j->ij": [("i",), ("j",)],
    "ij,ij->ij": [("i", "j"), ("i", "j")],
    "ij,jk,kl->il": [("i", "j"), ("j", "k"), ("k", "l")],
    "bhqd,hdk->bqk": [("b", "h", "q", "d"), ("h", "d", "k")],
    "...ij,...jk->...ik": [("b", "c", "i", "j"), ("c", "j", "k")],
    "ij,kj,j->ki": [("i", "j"), ("k", "j"), ("j",)],
    "ab,cd->": [("a", "b"), ("c", "d")],
}


@pytest.mark.slow
@pytest.mark.parametrize("equation", EQUATIONS)
def test_equations(check: Check, equation: str) -> None:
    shapes = EQUATIONS[equation]
    names = [f"x{i}" for i in range(len(shapes))]
    inputs = ", ".join(f"float[{','.join(shape)}] {name}" for shape, name in zip(shapes, names, strict=True))
    example = [np.zeros([1] * len(shape)) for shape in shapes]
    rank = np.einsum(equation, *example).ndim
    output = f"float[{','.join(f'o{i}' for i in range(rank))}]" if rank else "float"
    text = f'({inputs}) => ({output} y) {{ y = Einsum<equation = "{equation}">({", ".join(names)}) }}'
    labels = sorted({label for shape in shapes for label in shape})
    runs = []
    for sizes in (range(2, 2 + len(labels)), [1] * len(labels), [3, 1, 4, 2, 5, 6][: len(labels)]):
        size = dict(zip(labels, sizes, strict=True))
        runs.append(
            {
                n: numbers(*(size[k] for k in shape), seed=i)
                for i, (n, shape) in enumerate(zip(names, shapes, strict=True))
            }
        )
    check(text, *runs, rtol=1e-4)


def test_labels() -> None:
    assert parse("...i, i... -> ...", [3, 2]) == ([("...1", "...0", "i"), ("i", "...0")], ("...1", "...0"))
    assert parse("ba", [2]) == ([("b", "a")], ("a", "b"))
    for equation, ranks in [("ij", [3]), ("ij,jk->ik", [2]), ("ij->ik", [2]), ("ij->ii", [2])]:
        with pytest.raises(Unsupported):
            parse(equation, ranks)


def test_determinants(check: Check) -> None:
    text = "(float[b,n,n] x) => (float[b] y) { y = Det(x) }"
    singular = np.float32([[[0, 1], [0, 2]], [[0, 1], [1, 0]]])
    check(text, {"x": numbers(3, 4, 4)}, {"x": numbers(1, 1, 1)}, {"x": singular}, rtol=1e-4)


def test_columns_to_image(check: Check) -> None:
    text = """(float[n,c,m] x, int64[2] image, int64[2] block) => (float[p,q,r,s] y) {
        y = Col2Im<strides = [2, 1], pads = [1, 0, 1, 1], dilations = [1, 2]>(x, image, block) }"""
    check(
        text,
        {"x": numbers(2, 12, 12), "image": np.array([5, 5]), "block": np.array([2, 2])},
        {"x": numbers(1, 3, 4), "image": np.array([3, 1]), "block": np.array([3, 1])},
        rtol=1e-4,
    )
