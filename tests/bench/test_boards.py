"""`python -m bench.boards`: the models, the layers that they are read as, the figures of the table, and a run."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from bench.boards import image
from bench.boards.__main__ import measure, prepared
from bench.boards.cmsis_nn import CmsisNN, Program, multiplier, planned, table
from bench.boards.layers import Layer, Tensor, read_layers
from bench.boards.models import MODELS, quantized
from bench.boards.ours import Ours
from bench.boards.page import pages
from bench.boards.report import Figures, Report, Row
from bench.boards.sides import Side
from bench.tables import markdown
from deploykit.errors import DeploykitError, UnsupportedModelError
from deploykit.targets.embedded.boards import Board, find_board
from deploykit.targets.embedded.boards.image import missing

_FIGURES = Figures(2_000_000, 1000, 2000, 300, 40, 0, True)


def _board(name: str) -> Board:
    board = find_board(name)
    if reason := missing(board):
        pytest.skip(reason)
    return board


@pytest.mark.parametrize(
    ("name", "products"),
    [("dscnn", 2_656_768), ("vww", 7_489_664), ("resnet8", 12_501_632), ("autoencoder", 264_192)],
)
def test_models_have_the_products_of_their_topology(name: str, products: int) -> None:
    assert sum(layer.products for layer in read_layers(quantized(MODELS[name]()))) == products


def test_a_model_is_read_as_layers() -> None:
    layers = read_layers(quantized(MODELS["resnet8"]()))
    assert [layer.kind for layer in layers].count("conv") == 9
    assert [layer.kind for layer in layers][-3:] == ["average_pool", "dense", "softmax"]
    added = next(layer for layer in layers if layer.kind == "add")
    assert [tensor.shape for tensor in added.inputs] == [(32, 32, 16)] * 2
    pooled = layers[-3]
    assert (pooled.output.scale, pooled.output.zero) == (pooled.inputs[0].scale, pooled.inputs[0].zero)
    assert layers[-1].output.scale == 1 / 256


def test_layers_of_16_bits_are_symmetric() -> None:
    layers = read_layers(quantized(MODELS["resnet8"](), "int16"))
    assert [layer.kind for layer in layers] == [layer.kind for layer in read_layers(quantized(MODELS["resnet8"]()))]
    assert {(tensor.dtype, tensor.zero) for layer in layers for tensor in (*layer.inputs, layer.output)} == {
        ("int16", 0)
    }
    first, added = layers[0], next(layer for layer in layers if layer.kind == "add")
    assert first.limits == added.limits == (0, 32767)  # a Relu
    assert added.inputs[0].bytes == 2 * 32 * 32 * 16
    beside = next(layer for layer in layers if layer.output == added.inputs[1])
    assert beside.limits == (0, 32767) or not beside.relu
    assert layers[-2].scales is not None
    assert (len(layers[-2].scales), layers[-1].output.scale) == (1, 1 / 32768)


def test_calls_of_16_bits() -> None:
    layers = read_layers(quantized(MODELS["dscnn"](), "int16"))
    text = Program(layers).text([64] * len(layers))
    for name in ("convolve_wrapper", "depthwise_conv_wrapper", "fully_connected", "avgpool", "softmax"):
        assert f"arm_{name}_s16(" in text, name
    assert "_s8(" not in text
    assert "static const int32_t bias_0[]" in text  # of a convolution
    assert "static const int64_t bias_1[]" in text
    assert "{0, 32767}" in text


def test_tables_of_a_softmax() -> None:
    """Numbers of the library's own tests."""
    exponentials = table(math.exp, -10, 0)
    assert (len(exponentials), exponentials[0], exponentials[75], exponentials[-3:]) == (
        513,
        2,
        7,
        [31512, 32133, 32767],
    )
    inverses = table(lambda x: 1 / (1 + x), 0, 1)
    assert (len(inverses), inverses[3], inverses[-3:]) == (513, 32578, [16416, 16400, 16384])


def test_a_model_of_floats_has_no_such_kernels(tmp_path: Path) -> None:
    library = CmsisNN(tmp_path, tmp_path)
    board = find_board("mps2-an386")
    assert library.missing(board, MODELS["cnn"]()) == "it has no floats"
    assert library.missing(board, quantized(MODELS["cnn"](), "int16")) is None


def test_other_operators_are_refused() -> None:
    with pytest.raises(UnsupportedModelError, match="MatMul"):
        read_layers(quantized(MODELS["transformer"]()))


def test_a_model_that_stays_in_float_is_refused() -> None:
    with pytest.raises(UnsupportedModelError, match="lstm in float"):
        quantized(MODELS["lstm"]())


@pytest.mark.parametrize("value", [0.5, 1.0, 0.00123, 3.7, 1 - 2**-40])
def test_multipliers(value: float) -> None:
    number, shift = multiplier(value)
    assert 1 << 30 <= number < 1 << 31
    assert number / (1 << 31) * 2.0**shift == pytest.approx(value, rel=2**-30)


def test_places_of_tensors_in_use_together_are_apart() -> None:
    a, b, c = (Tensor(name, (1, 1, size), 1, 0) for name, size in (("a", 100), ("b", 50), ("c", 30)))
    layers = [Layer("dense", (a,), b), Layer("add", (a, b), c), Layer("softmax", (c,), replace(c, name="d"))]
    places, buffers, total = planned(layers, [0, 64, 0])
    spans = {"a": 100, "b": 50, "c": 30}
    together = sorted((places[name], places[name] + spans[name]) for name in spans)
    together = sorted([*together, (buffers[1], buffers[1] + 64)])
    assert all(before[1] <= after[0] for before, after in pairwise(together))
    assert total == together[-1][1] < 100 + 50 + 30 + 64 + 4 * 16


def test_a_ratio_is_only_of_right_results() -> None:
    row = Row("cortex-m4", "cnn", "int8", {"deploykit": _FIGURES, "peer": replace(_FIGURES, instructions=3_000_000)})
    assert row.ratio("peer") == pytest.approx(1.5)
    row.sides["peer"] = replace(row.sides["peer"], right=False)
    assert row.ratio("peer") is None
    assert not Report([row], ["peer"]).wrong
    row.sides["deploykit"] = replace(_FIGURES, right=False)
    assert Report([row], ["peer"]).wrong


def test_a_report_says_who_is_left_out() -> None:
    row = Row("cortex-m4", "cnn", "float", {"deploykit": _FIGURES}, {"peer": "it has no floats"})
    text = markdown(Report([row], ["peer"], ["all sides compiled by gcc"]))
    assert "| cortex-m4 | cnn | float | 2.000 M |  |  | 1,000 / - | 2,000 / - | 300 / - | 40 / - |" in text
    assert "without peer: it has no floats (cnn float on cortex-m4)" in text


def test_the_tables_of_the_page(tmp_path: Path) -> None:
    sides = {"deploykit": _FIGURES, "CMSIS-NN": replace(_FIGURES, instructions=1_000_000, ram=1200)}
    rows = [Row("cortex-m3", "cnn", "int8", sides), Row("cortex-m3", "lstm", "float", {"deploykit": _FIGURES})]
    (tmp_path / "report.json").write_text(json.dumps(Report(rows, ["CMSIS-NN"]).facts()))
    lines = list(pages(tmp_path / "report.json"))
    assert lines[2] == "| cortex-m3 | 2.00 / 1.00 | 0.50 |"
    assert "| RAM | 300 / 1,200 |" in lines
    assert not any("lstm" in line for line in lines)


def test_a_run_is_counted_exactly(tmp_path: Path) -> None:
    """A side of ten instructions more has ten more, and the stack and the sections are those of its source."""
    board = _board("mps2-an386")
    found = {}
    for extra in (0, 10):
        lines = "".join('    __asm__ volatile("nop");\n' for _ in range(extra))
        (tmp_path / "side.c").write_text(
            '#include "side.h"\n#include <string.h>\n'
            "static unsigned char kept[100];\nstatic const unsigned char table[200] = {1};\n"
            "int side_open(void) {\n    memcpy(kept, given_input, given_input_bytes);\n    return 0;\n}\n"
            "int side_run(void) {\n    volatile unsigned char room[512];\n    room[0] = kept[0];\n"
            f"{lines}    kept[0] = (unsigned char)(room[0] + table[kept[1]]);\n    return 0;\n}}\n"
            "const void* side_output(void) {\n    return kept;\n}\n"
        )
        given = np.array([5, 0], np.int8)
        found[extra] = image.measure(board, Side([tmp_path / "side.c"]), given, np.zeros(2, np.int8), tmp_path)
    assert found[10].instructions - found[0].instructions == 10
    assert found[10].output.tolist() == [6, 0]
    assert 512 <= found[10].stack < 600
    assert (found[10].ram, found[10].constants) == (100, 200)
    assert found[10].code - found[0].code == 20


def test_a_side_that_fails_says_so(tmp_path: Path) -> None:
    board = _board("mps2-an386")
    (tmp_path / "side.c").write_text(
        '#include "side.h"\nint side_open(void) {\n    return 7;\n}\nint side_run(void) {\n    return 0;\n}\n'
        "const void* side_output(void) {\n    return 0;\n}\n"
    )
    with pytest.raises(DeploykitError, match="failed at start: 7"):
        image.measure(board, Side([tmp_path / "side.c"]), np.zeros(1, np.int8), np.zeros(1, np.int8), tmp_path)


@pytest.mark.parametrize("name", ["mps2-an386", "mps3-an547", "riscv32-virt"])
def test_a_model_runs_on_a_core(name: str, tmp_path: Path) -> None:
    board = _board(name)
    for case in prepared(["cnn"], ["int8", "int16", "float"], tmp_path):
        row = measure(case, board, {"deploykit": Ours()}, tmp_path)
        assert row.without == {}
        figures = row.sides["deploykit"]
        assert figures.right
        assert figures.instructions > 100_000
        assert figures.constants > 20_000
        assert 0 < figures.stack < 4096
