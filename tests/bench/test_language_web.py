"""`python -m bench.language_web`: a run without peers, the model that transformers.js gets, the bytes that are code."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest

import deploykit
from bench.browser import find_chromium
from bench.language_web.__main__ import Side, compared, row
from bench.language_web.files import code_bytes, write_transformers
from tests.bench.commands import ran
from tests.language.models import write_language_model

DECODER = """<ir_version: 9, opset_import: ["": 20]>
decoder (float[n, 2, past, size] "past_key_values.0.key") => (float[n, 2, past, size] "present.0.key") {
    "present.0.key" = Add("past_key_values.0.key", w)
}"""


def test_transformers_gets_the_model_under_its_names(tmp_path: Path) -> None:
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        (tmp_path / name).write_text("{}")
    (tmp_path / "genai_config.json").write_text(json.dumps({"model": {"decoder": {"head_size": 4}}}))
    model = onnx.parser.parse_model(DECODER)
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.arange(4, dtype=np.float32), "w"))
    onnx.save(model, tmp_path / "model.onnx", save_as_external_data=True, location="model.onnx.data", size_threshold=0)
    assert write_transformers(tmp_path, tmp_path / "peer") == ["q4"]
    written = tmp_path / "peer" / "onnx" / "model_q4.onnx"
    session = ort.InferenceSession(written)
    (port,) = session.get_inputs()
    assert port.shape[3] == 4
    (found,) = session.run(None, {port.name: np.ones((1, 2, 1, 4), np.float32)})
    assert found[0, 0, 0].tolist() == [1, 2, 3, 4]
    assert (tmp_path / "peer" / "tokenizer.json").exists()
    names = {entry.value for entry in onnx.load(written, load_external_data=False).graph.initializer[0].external_data}
    assert "model_q4.onnx_data" in names


def test_weights_and_vocabularies_are_no_code(tmp_path: Path) -> None:
    code = {"package/index.mjs": 500, "node_modules/a/b.wasm": 900}
    data = ["package/weights/000.bin", "package/tokenizer.bin", "peer/tokenizer.json", "model.gguf", "sides.mjs"]
    for name in (*code, *data):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * code.get(name, 5000))
    expected = sum(len(gzip.compress(b"x" * count)) for count in code.values())
    assert code_bytes(tmp_path, [*code, *data, "package/index.mjs", "favicon.ico"]) == expected


def test_a_peer_is_compared_with_the_side_of_the_same_file() -> None:
    def speeds(cpu: float) -> dict[str, float]:
        return {"clock": 1.0, "cpu": cpu}

    place = {"device": "wasm", "threads": 1, "first": 1.5, "second": 0.5, "peak": 2e6, "end": 1e6, "code": 3000}
    ours = {"side": "deploykit", **place, "prompt": speeds(60), "answer": speeds(40)}
    peer = {"side": "wllama", **place, "prompt": speeds(20), "answer": speeds(10), "same": 0.875}
    other = {"side": "wllama", **place, "device": "webgpu", "same": 0.5}
    (line,) = compared([ours, peer, other], Side("wllama", "wllama", {}, "deploykit"))
    assert "reads 3.0 times and writes 4.0 times as fast as wllama" in line
    assert row(peer)[3:7] == ["1.0", "1.0", "20.0", "10.0"]
    assert row(other)[3:7] == [""] * 4, "what differs is not timed"


@pytest.mark.slow
@pytest.mark.skipif(find_chromium() is None, reason="needs Chromium")
def test_a_run_without_peers(tmp_path: Path) -> None:
    model = write_language_model(tmp_path / "model.gguf", context=1200)
    deploykit.build(model, "webgpu", output=tmp_path / "package")
    result = ran("bench.language_web", tmp_path / "package", "--repeats", "1", "--output", tmp_path / "bench")
    assert "in Chromium" in result.stdout
    (found,) = json.loads((tmp_path / "bench" / "report.json").read_text())["sides"]
    assert (found["side"], found["device"], found["threads"]) == ("deploykit", "wasm", 1)
    assert found["prompt"]["clock"] > 0
    assert found["answer"]["cpu"] > 0
    assert 0 < found["code"] < 200_000
    assert found["peak"] > 0
    assert found["first"] > 0
