"""Products of 8-bit integers by relaxed dot products: the same as without them, and as NumPy's, for any numbers."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import deploykit
from deploykit.compiler.schedules.integer import dot
from deploykit.engines.web.node import find_node
from deploykit.targets.webgpu import WebTarget

SIZES = ((1, 1), (3, 4), (4, 5), (5, 8), (16, 9), (63, 12), (70, 37), (384, 24), (1030, 40), (2100, 17))
"""The terms and the columns of products."""

ROWS = (0, 1, 3, 4, 5, 29)
RELAXED = {"i16x8.relaxed_dot_i8x16_i7x16_s": b"\xfd\x92\x02", "i32x4.relaxed_dot_i8x16_i7x16_add_s": b"\xfd\x93\x02"}
MODULES = ("model", "model-relaxed")


def weights_of(low: int, high: int) -> dict[str, np.ndarray]:
    """Weights of any numbers from `low` to `high`, the ends among them, with columns of one number each."""
    random = np.random.default_rng(high)
    found = {}
    for number, size in enumerate(SIZES):
        weight = random.integers(low, high + 1, size).astype(np.int8)
        weight[:, :: max(1, size[1] // 2)] = (low, high)[number % 2]
        found[f"w{number}"] = weight
    found["filters"] = random.integers(low, high + 1, (10, 5, 3, 3)).astype(np.int8)
    return found


def model_of(dtype: str, weights: dict[str, np.ndarray]) -> onnx.ModelProto:
    """Products of all sizes, and a convolution."""
    inputs = [f"{dtype}[n, {depth}] x{i}" for i, (depth, _) in enumerate(SIZES)]
    outputs = [f"int32[n, {columns}] y{i}" for i, (_, columns) in enumerate(SIZES)]
    lines = [f"y{i} = MatMulInteger(x{i}, w{i})" for i in range(len(SIZES))]
    inputs.append(f"{dtype}[n, 5, h, 7] image")
    outputs.append("int32[n, 10, h, 7] z")
    lines.append("z = ConvInteger<pads=[1, 1, 1, 1]>(image, filters)")
    body = "\n".join(lines)
    text = (
        f'<ir_version: 9, opset_import: ["": 20]> products ({", ".join(inputs)}) => ({", ".join(outputs)}) {{ {body} }}'
    )
    model = onnx.parser.parse_model(text)
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in weights.items())
    return model


def inputs_of(dtype: str, rows: int) -> Iterator[dict[str, np.ndarray]]:
    """Inputs of any numbers, and of the extreme ones."""
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    shapes = {f"x{i}": (rows, depth) for i, (depth, _) in enumerate(SIZES)} | {"image": (rows, 5, 6, 7)}
    random = np.random.default_rng(rows)
    for choice in (range(low, high + 1), (low,), (high,), (low, high)):
        yield {name: random.choice(choice, shape).astype(dtype) for name, shape in shapes.items()}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dtype", "low", "high", "by_pairs"),
    [
        ("int8", -64, 63, True),
        ("uint8", -64, 63, True),
        ("int8", -64, 63, False),
        ("uint8", -128, 127, True),
    ],
    ids=["7 bits", "7 bits with an offset", "7 bits, never in pairs", "8 bits"],
)
def test_products_are_exact(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dtype: str, low: int, high: int, by_pairs: bool
) -> None:
    if not by_pairs:
        version = subprocess.run([find_node(), "--version"], capture_output=True, text=True, check=True).stdout
        if int(version[1:].split(".")[0]) < 22:
            pytest.skip("this node overwrites an operand of i32x4.relaxed_dot_i8x16_i7x16_add_s")
        relaxed = replace(dot.DOTS["relaxed_dot"], saturating=None)
        monkeypatch.setattr(dot, "DOTS", {**dot.DOTS, "relaxed_dot": relaxed})
        monkeypatch.setattr("deploykit.compiler.schedules.integer.product.DOTS", dot.DOTS)
    weights = weights_of(low, high)
    model = model_of(dtype, weights)
    folders = [tmp_path / module for module in MODULES]
    deploykit.build(model, WebTarget(MODULES), {"n": (0, 64), "h": (1, 8)}, folders[1])
    code = {module: (folders[1] / f"{module}.wasm").read_bytes() for module in MODULES}
    shutil.copytree(folders[1], folders[0])
    without_relaxed(folders[0])
    assert not any(instruction in code["model"] for instruction in RELAXED.values())
    pairs, quads = (instruction in code["model-relaxed"] for instruction in RELAXED.values())
    assert (pairs, quads) == ((by_pairs, True) if low >= -64 else (False, False))
    sessions = [deploykit.open(folder) for folder in folders]
    for rows in ROWS:
        for given in inputs_of(dtype, rows):
            plain, relaxed = (session.run(given) for session in sessions)
            for number in range(len(SIZES)):
                expected = given[f"x{number}"].astype(np.int32) @ weights[f"w{number}"].astype(np.int32)
                np.testing.assert_array_equal(plain[f"y{number}"], expected, err_msg=str(SIZES[number]))
                np.testing.assert_array_equal(relaxed[f"y{number}"], expected, err_msg=str(SIZES[number]))
            np.testing.assert_array_equal(plain["z"], convolved(given["image"], weights["filters"]))
            np.testing.assert_array_equal(relaxed["z"], plain["z"])
    for session in sessions:
        session.close()


def without_relaxed(folder: Path) -> None:
    """Let a package have the plain module in the place of the relaxed one, which node takes."""
    shutil.copyfile(folder / "model.wasm", folder / "model-relaxed.wasm")
    manifest = json.loads((folder / "manifest.json").read_text())
    files = {entry["name"]: entry for entry in manifest["files"]}
    files["model-relaxed.wasm"] |= {**files["model.wasm"], "name": "model-relaxed.wasm"}
    (folder / "manifest.json").write_text(json.dumps(manifest))


def convolved(image: np.ndarray, filters: np.ndarray) -> np.ndarray:
    """The convolution of a padded image."""
    padded = np.pad(image.astype(np.int32), [(0, 0), (0, 0), (1, 1), (1, 1)])
    height, width = image.shape[2:]
    total = np.zeros((len(image), len(filters), height, width), np.int32)
    for i in range(3):
        for j in range(3):
            part = padded[:, :, i : i + height, j : j + width]
            total += np.einsum("nchw,oc->nohw", part, filters[:, :, i, j].astype(np.int32))
    return total
