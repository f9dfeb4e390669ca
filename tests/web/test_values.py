"""Packages of models with strings and sequences: in node, their types, and their demo."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import deploykit
from tests.frontends.onnx.harness import parse
from tests.web.conftest import in_node
from tests.web.test_browser import used_demo
from tests.web.test_types import complaints

MODEL = """(string[n] words, seq(float[m]) x) => (string[n] loud, int64[n] codes, float[k] y) {
    loud = StringConcat(words, words)
    codes = ai.onnx.ml.LabelEncoder<keys_strings=["cat", "dog"], values_int64s=[1, 2], default_int64=9>(words)
    y = ConcatFromSequence<axis=0>(x)
}"""


@pytest.fixture(scope="module")
def values(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("values") / "values"
    deploykit.build(parse(MODEL, 21), "webgpu", {"x_length": 2}, folder)
    return folder


INPUTS = """{
  words: new BigInt64Array([3n << 32n, 3n | (3n << 32n)]),
  words_utf8: new TextEncoder().encode('catdog'),
  x_0: new Float32Array([1, 2]),
  x_1: new Float32Array([3]),
}"""


def test_node_runs_them(values: Path) -> None:
    script = f"model.run({INPUTS}).then(({{ loud, loud_utf8, codes, y }}) => [[...codes.data], [...y.data],"
    script += " loud.dtype, [...loud.data], new TextDecoder().decode(loud_utf8.data)])"
    found = in_node(values, values.as_uri() + "/", script)
    assert "error" not in found, found
    codes, y, dtype, spans, text = found["value"]
    assert (codes, y, dtype) == ([1, 2], [1, 2, 3], "string")
    places = [(span & 0xFFFFFFFF, span >> 32) for span in spans]
    assert [text[begin : begin + length] for begin, length in places] == ["catcat", "dogdog"]


def test_node_refuses_spans_outside_of_the_bytes(values: Path) -> None:
    script = f"model.run({{ ...{INPUTS}, words_utf8: new Uint8Array(5) }})"
    found = in_node(values, values.as_uri() + "/", script)
    assert (found["error"], found["known"]) == ("DataError", True)


def test_python_runs_them_on_webassembly(values: Path) -> None:
    with deploykit.open(values) as session:
        results = session(words=["dog", "日本", ""], x=[[1.0], [2.0, 3.0]])
    assert results["loud"].tolist() == ["dogdog", "日本日本", ""]
    assert results["codes"].tolist() == [2, 9, 9]
    assert results["y"].tolist() == [1, 2, 3]


def test_types(values: Path, tmp_path: Path) -> None:
    shutil.copytree(values, tmp_path / "small")
    program = f"""import {{ load }} from './small/index.mjs';
    const model = await load();
    const {{ loud, loud_utf8 }} = await model.run({INPUTS});
    const dtype: 'string' = loud.dtype;
    const [span, bytes]: [bigint, Uint8Array] = [loud.data[0], loud_utf8.data];
    console.log(dtype, span, bytes);
    """
    assert complaints(tmp_path, program) == []
    (complaint,) = complaints(tmp_path, program.replace("words: new BigInt64Array", "words: new Array"))
    assert "'words'" in complaint or "BigInt64Array" in complaint


def test_the_demo_makes_and_shows_strings(values: Path, tmp_path: Path) -> None:
    shutil.copytree(values, tmp_path / "values")
    found = used_demo(tmp_path / "values", "values.html")
    assert found["error"] == ""
    cells = {name: text for name, _, text in zip(*[iter(found["cells"])] * 3, strict=True)}
    shown = [json.loads(text) for text in cells["loud"].split()]
    assert [len(text) for text in shown] == [4, 4, 6]
    assert all(text.isalpha() and text[: len(text) // 2] * 2 == text for text in shown)
