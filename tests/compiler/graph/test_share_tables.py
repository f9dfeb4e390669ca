"""A table and the weight that is its transpose are stored once, and results have the same bits as if they were not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import deploykit
from deploykit.compiler.graph.quantize_weights import Kind, quantize_weights
from deploykit.compiler.model import ImportedModel
from tests.runtimes import HOST, Runtime
from tests.seeded import seeded

MODEL = """<ir_version: 10, opset_import: ["" : 21]>
words (int64[b, s] ids) => (float[b, s, 331] y) { e = Gather(table, ids)  h = Mul(e, scale)  y = MatMul(h, weight) }"""
ROWS, COLUMNS = 331, 64


def model(text: str = MODEL, *, tied: bool = True) -> onnx.ModelProto:
    """A model whose weight is the transpose of its table; if not `tied`, except for its last column."""
    found = seeded(text, {"table": (ROWS, COLUMNS), "scale": (COLUMNS,)})
    weight = numpy_helper.to_array(found.graph.initializer[0]).T.copy()
    if not tied:
        weight[3, -1] += 1e-3
    found.graph.initializer.append(numpy_helper.from_array(weight, "weight"))
    return found


def imported(kind: Kind | None, *, tied: bool) -> ImportedModel:
    found = deploykit.load(model(tied=tied), {"b": (1, 4), "s": (1, 16)})
    return found if kind is None else replace(found, module=quantize_weights(found.module, kind)[0])


@pytest.mark.sampled(part=6)
@pytest.mark.parametrize("kind", [None, "fp16", "int8"])
def test_same_bits(runtime: Runtime, kind: Kind | None) -> None:
    ids = np.random.default_rng(0).integers(-ROWS, ROWS, (3, 16))
    results, stored = [], []
    for tied in (True, False):
        with runtime.session(imported(kind, tied=tied)) as session:
            results.append([session(ids=ids[:b, :s])["y"][..., :-1] for b, s in ((1, 1), (2, 7), (3, 16))])
            stored.append(session.manifest.peak_memory.weights)
    for own, other in zip(*results, strict=True):
        np.testing.assert_array_equal(own, other)
    table = ROWS * COLUMNS * {None: 4, "fp16": 2, "int8": 1}[kind]
    assert table <= stored[1] - stored[0] < 1.1 * table


@pytest.mark.parametrize("kind", ["fp16", "int8"])
def test_a_note_counts_the_table_once(kind: Kind) -> None:
    once, twice = (quantize_weights(deploykit.load(model(tied=tied)).module, kind)[1].before for tied in (True, False))
    assert (once, twice) == (4 * ROWS * COLUMNS, 8 * ROWS * COLUMNS)


def test_a_table_with_another_reader_stays() -> None:
    text = MODEL.replace("[b, s] ids", "[b, s] ids, float[64] x").replace(
        " y) {", " y, float[331, 64] z) { z = Add(table, x) "
    )
    given = {"ids": np.arange(6).reshape(2, 3), "x": np.ones(COLUMNS, np.float32)}
    stored = []
    for tied in (True, False):
        with HOST.session(model(text, tied=tied)) as session:
            stored.append(session.manifest.peak_memory.weights)
            table = numpy_helper.to_array(model().graph.initializer[0])
            np.testing.assert_array_equal(session(**given)["z"], table + given["x"])
    assert stored[0] == stored[1]


def test_an_index_outside_is_refused() -> None:
    with HOST.session(model()) as session, pytest.raises(deploykit.DataError):
        session(ids=np.array([[ROWS]]))
