"""Inputs, results and intermediate results that are larger than a GPU binds at once: the same bits as on a device that
binds them whole. The limits are lowered on purpose."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import deploykit
from deploykit.artifact.devices import CODE
from deploykit.compiler.variant import Variant
from deploykit.engines.native.adapters import adapters
from deploykit.engines.native.gpu import GpuOptions
from deploykit.engines.native.on_gpu import OnGpu, open_gpu
from deploykit.errors import DeviceError
from deploykit.targets.host import HostTarget
from tests.seeded import seeded

LIMIT = 1 << 14

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not all(map(adapters, CODE)), reason="needs a device with Vulkan and one with OpenCL"),
]


class Small(HostTarget):
    """A target whose kernels have several bindings for tensors of more than `LIMIT` bytes."""

    def variants(self, cpu: str, devices: Sequence[str] = ()) -> list[Variant]:
        return [
            variant if variant.gpu is None else replace(variant, gpu=replace(variant.gpu, binding_bytes=LIMIT))
            for variant in super().variants(cpu, devices)
        ]


MODELS = {
    "elementwise": "(float[n, 96] x) => (float[n, 96] y) { a = Mul(x, x) b = Exp(a) y = Sqrt(b) }",
    "bytes times bytes": "(uint8[n, 256] x) => (int32[n, 128] y) { y = MatMulInteger(x, w) }",
    "matmul": "(float[n, 24] x) => (float[n, 200] y) { a = MatMul(x, w) y = Relu(a) }",
    "two products": "(float[n, 24] x) => (float[n, 24] y) { a = MatMul(x, w) t = Transpose(w) y = MatMul(a, t) }",
    "softmax": "(float[n, 130] x) => (float[n, 130] y) { y = Softmax<axis = 1>(x) }",
    "columns": "(float[n, 130] x) => (float[130] y) { y = ReduceMean<keepdims = 0, axes = [0]>(x) }",
    "concat": "(float[n, 50] x, float[n, 40] z) => (float[m, 90] y) { y = Concat<axis = 1>(x, z) }",
    "rows": "(float[n, 50] x, float[n, 50] z) => (float[m, 50] y) { y = Concat<axis = 0>(x, z) }",
    "transpose": "(float[n, 70] x) => (float[70, n] y) { y = Transpose<perm = [1, 0]>(x) }",
    "halves": "(float16[n, 201] x) => (float16[n, 201] y) { y = Abs(x) }",
    "bytes": "(int8[n, 403] x) => (int8[n, 403] y, bool[n, 403] z) { y = Neg(x) z = Cast<to = 9>(x) }",
    "wide": "(int64[n, 45] x) => (int64[n, 45] y) { y = Add(x, x) }",
    "turned bytes": "(uint8[n, 201] x) => (uint8[201, n] y) { y = Transpose<perm = [1, 0]>(x) }",
}
DTYPES = {"float": np.float32, "float16": np.float16, "int8": np.int8, "int64": np.int64, "uint8": np.uint8}


def feeds(text: str, rows: int) -> list[np.ndarray]:
    random = np.random.default_rng(rows)
    found = []
    for dtype, width in re.findall(r"(\w+)\[n, (\d+)\]", text.partition("=>")[0]):
        found.append((8 * random.standard_normal((rows, int(width)))).astype(DTYPES[dtype]))
    return found


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("device", CODE)
def test_the_same_bits_below_and_above_the_limit(tmp_path: Path, device: str, name: str) -> None:
    text = MODELS[name]
    opset = 13 if name == "columns" else 21
    header = f'<ir_version: 9, opset_import: ["": {opset}]> large '
    shape, dtype = ((256, 128), np.int8) if "Integer" in text else ((24, 200), np.float32)
    model = seeded(header + text, {"w": shape} if "w)" in text else {}, dtype)
    deploykit.build(model, output=tmp_path / "whole", devices=[device])
    deploykit.build(model, Small(), {"n": (1, 100)}, tmp_path / "parts", devices=[device])
    with deploykit.open(tmp_path / "whole", device=device) as session:
        manifest = session.manifest
        names = [port.name for port in manifest.inputs]
        wanted = {rows: session.run(dict(zip(names, feeds(text, rows), strict=True))) for rows in (3, 40, 90, 7)}
    manifest = deploykit.open(tmp_path / "parts").manifest
    library = tmp_path / "parts" / f"lib{manifest.prefix}.so"
    for limit in (LIMIT, 3 * LIMIT // 2, 0):
        gpu = open_gpu(library, tmp_path / "parts", manifest, device, GpuOptions(binding_bytes=limit))
        engine = OnGpu(library, tmp_path / "parts", manifest, 1, gpu)
        for rows, outputs in wanted.items():
            for found, array in zip(engine.run(feeds(text, rows)), outputs.values(), strict=True):
                np.testing.assert_array_equal(found, array, err_msg=f"{rows} rows, {limit} bytes")
        engine.close()
        gpu.close()


@pytest.mark.parametrize("device", CODE)
def test_what_has_too_many_parts_is_refused(tmp_path: Path, device: str) -> None:
    """A shader has eight bindings, four for each of these tensors. The error names the tensor and the limit."""
    text = '<ir_version: 9, opset_import: ["": 21]> large (float[n, 64] x) => (float[n, 64] y) { y = Exp(x) }'
    deploykit.build(seeded(text, {}), Small(), {"n": (1, 1000)}, tmp_path / "d", devices=[device])
    manifest = deploykit.open(tmp_path / "d").manifest
    library = tmp_path / "d" / f"lib{manifest.prefix}.so"
    gpu = open_gpu(library, tmp_path / "d", manifest, device, GpuOptions(binding_bytes=LIMIT))
    engine = OnGpu(library, tmp_path / "d", manifest, 1, gpu)
    x = np.random.default_rng(0).standard_normal((257, 64)).astype(np.float32)
    with pytest.raises(DeviceError, match=f"'x' needs {257 * 256} bytes, found {LIMIT} that this GPU binds at once"):
        engine.run([x])
    (found,) = engine.run([x[:256]])
    np.testing.assert_allclose(found, np.exp(x[:256]), rtol=1e-5)
    engine.close()
    gpu.close()
