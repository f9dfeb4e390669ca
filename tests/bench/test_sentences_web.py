"""`python -m bench.sentences_web`: the model that the peer gets, and the bytes that are code."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort

from bench.sentences_web.__main__ import code_bytes, make_peer

MODEL = """<ir_version: 9, opset_import: ["": 20]> model (float[n] x) => (float[n] y) {
    a = Abs(x)
    y = Neg(a)
}"""


def test_the_peer_gets_the_model_under_its_names(tmp_path: Path) -> None:
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        (tmp_path / name).write_text("{}")
    onnx.save(onnx.parser.parse_model(MODEL), tmp_path / "exported.onnx")
    make_peer(tmp_path, tmp_path / "exported.onnx", tmp_path / "peer")
    session = ort.InferenceSession(tmp_path / "peer" / "onnx" / "model.onnx")
    (found,) = session.run(["last_hidden_state"], {"x": np.array([1, -2], np.float32)})
    assert found.tolist() == [-1, -2]
    assert (tmp_path / "peer" / "tokenizer.json").exists()


def test_weights_and_vocabularies_are_no_code(tmp_path: Path) -> None:
    code = {"package/index.mjs": 500, "package/runtime/a.mjs": 700, "node_modules/a/b.wasm": 900}
    data = ["package/weights/000.bin", "package/tokenizer.bin", "peer/tokenizer.json", "settings.json"]
    for name in (*code, *data):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * code.get(name, 5000))
    sizes = {name: len(gzip.compress(b"x" * count)) for name, count in code.items()}
    ours = sizes["package/index.mjs"] + sizes["package/runtime/a.mjs"]
    found = code_bytes(tmp_path, [*code, *data, "package/index.mjs"])
    assert found == {"deploykit": ours, "transformers.js": sizes["node_modules/a/b.wasm"]}
