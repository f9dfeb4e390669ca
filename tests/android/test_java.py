"""The Java classes of a package on a desktop JVM, with the library for x86-64 of the same AAR."""

from __future__ import annotations

import ast
import re
import zipfile
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

import deploykit
from deploykit.targets.android import AndroidTarget
from tests.android.conftest import DIMS, Run, aar_of, needs_desktop, needs_java, on_desktop

pytestmark = [needs_java, needs_desktop]

TYPES = """
<ir_version: 10, opset_import: ["" : 20]>
elements (float16[n] a, uint8[n] b, bool[n] c, double[n] d, int32[n] e, int16[n] f, int64 g)
    => (float16[n] a2, uint8[n] b2, bool[n] c2, double[n] d2, int32[n] e2, int16[n] f2, int64 g2, int64[1, k] none)
{
    a2 = Add(a, a)
    b2 = Max(b, b)
    c2 = Not(c)
    d2 = Neg(d)
    e2 = Sub(e, e)
    f2 = Abs(f)
    g2 = Neg(g)
    none = NonZero(e2)
}
"""


def values(b: int, n: int) -> dict[str, np.ndarray]:
    x = ((np.arange(b * n) % 7 - 3) * 0.125).astype(np.float32).reshape(b, n)
    return {"x": x, "ids": np.arange(b) * 5 % 16}


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 3])
def test_results(desktop: Run, model: onnx.ModelProto, threads: int) -> None:
    reference = ReferenceEvaluator(model)
    lines = [ast.literal_eval(line) for line in desktop("results", threads)]
    for index, (b, n) in enumerate([(1, 1), (3, 7), (8, 64), (2, 33)]):
        expected = reference.run(None, values(b, n))
        shapes, arrays = lines[4 * index : 4 * index + 4 : 2], lines[4 * index + 1 : 4 * index + 4 : 2]
        for shape, array, want in zip(shapes, arrays, expected, strict=True):
            np.testing.assert_allclose(np.reshape(array, shape), want, rtol=1e-4, atol=1e-6)


def test_direct_buffers(desktop: Run) -> None:
    assert desktop("direct") == [
        "true",
        "heap: DeploykitException: the buffer is not direct: make it with ByteBuffer.allocateDirect",
        "elements: ShapeException: the elements are FLOAT, not LONG",
    ]


def test_errors_are_those_of_c(desktop: Run) -> None:
    found = dict(line.split(": ", 1) for line in desktop("errors"))
    missing, nowhere, device = found.pop("missing"), found.pop("nowhere"), found.pop("device")
    assert device.startswith("DeviceException: there is no device 'gpu': there are [cpu (CPU, ")
    unread = "WeightsException: the asset 'lookup/weights.bin' cannot be read: there is no"
    assert missing.startswith(f"{unread} file /")
    assert nowhere.startswith(f"{unread} file /")
    assert nowhere.endswith("/nowhere/lookup/weights.bin")
    assert found == {
        "rank": "ShapeException: input 'x': expected rank 2 [b, n], found rank 1",
        "axis": "ShapeException: input 'ids' axis 0 (dim 'b') is 3, but is 2 in input 'x' axis 0",
        "bounds": "ShapeException: input 'x' axis 0 (dim 'b'): expected 1..8, found 9",
        "type": "ShapeException: input 'x': expected float32, found int64",
        "short": "ShapeException: input 'x': its shape needs 24 bytes, found 12",
        "deep": "ShapeException: input 'x': expected rank 2 [b, n], found rank 20",
        "data": "DataException: Gather 'rows': the indices 'ids' must be -16..15, found 99 at element 0",
        "sizes": "ShapeException: sizes out of their bounds: b 1..8, n 1..64",
        "threads": "DeploykitException: threads must be at least 1, found 0",
        "after": "FLOAT[1, 16]",
        "closed": "ClosedException: the model is closed",
        "reserve": "ClosedException: the model is closed",
    }


def test_memory(desktop: Run) -> None:
    less, after, short = desktop("memory")
    assert (less, after) == ("true", "FLOAT[8, 16]")
    assert short.startswith("short: MemoryException: a run needs ")
    assert short.endswith(" bytes of memory, and 10 are free")


def test_devices(desktop: Run) -> None:
    assert desktop("devices") == ["cpu 1"]


def test_weights_wherever_they_lie(desktop: Run) -> None:
    *places, length, stream, zeros, damaged, whole = desktop("places")
    assert places == [f"{offset} true [0]" for offset in (4, 1, 4104, 70000, -1)]
    assert length.startswith("length: WeightsException: the asset 'lookup/weights.bin' has ")
    assert stream.startswith("stream: WeightsException: the asset 'lookup/weights.bin' has 10 bytes, not ")
    assert zeros == "zeros: WeightsException: the weights are not those of this build of the model"
    assert damaged.startswith("damaged: WeightsException: the asset 'lookup/weights.bin' is damaged: its hash is ")
    assert whole == "whole true"


def test_weights_apart(package: Path, model: onnx.ModelProto, tmp_path: Path) -> None:
    settings = {"weights": "apart"}
    deploykit.build(model, AndroidTarget(["x86_64"]), DIMS, tmp_path / "apart", settings=settings)
    with zipfile.ZipFile(aar_of(tmp_path / "apart")) as archive:
        assert not [name for name in archive.namelist() if name.endswith("weights.bin")]
    with deploykit.open(package) as whole, deploykit.open(tmp_path / "apart") as apart:
        for found, want in zip(apart.run(values(3, 7)).values(), whole.run(values(3, 7)).values(), strict=True):
            np.testing.assert_array_equal(found, want)
    weights = tmp_path / "apart" / "weights.bin"
    run = on_desktop(tmp_path / "apart", "Desktop", tmp_path / "run")
    missing, scores, other = run("apart", weights)
    assert missing.startswith("missing: WeightsException: the asset 'lookup/weights.bin' cannot be read: ")
    assert missing.endswith("; the weights are not in the AAR: name their file with Options.weights")
    assert scores == "true FLOAT[3, 16]"
    assert other.startswith("other: WeightsException: ")


def test_weights_of_an_open_file(desktop: Run) -> None:
    assert desktop("descriptor") == ["1 FLOAT[1, 16]"]


@pytest.fixture(scope="module")
def in_app(package: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return on_desktop(package, "InApp", tmp_path_factory.mktemp("app"), ["Log"], declared=True)


def test_parameters_have_names(in_app: Run) -> None:
    run, opened, null = in_app("names")
    assert run == "[float[] x, long[] ids, long b, long n]"
    assert opened == "[java.lang.String name]"
    assert '"values" is null' in null


def test_an_app_is_told_of_copied_weights(in_app: Run) -> None:
    assert in_app("stored") == ["true FLOAT[1, 16]"]
    warning, run = in_app("compressed")
    assert run == "false FLOAT[1, 16]"
    assert re.fullmatch(
        r"lookup: the weights, \d+ bytes, were copied into memory, .* noCompress \+= \"bin\" .*", warning
    )


def test_threads_share_a_model(desktop: Run) -> None:
    assert desktop("threads") == ["800"]


def test_closing_stops_the_run(desktop: Run) -> None:
    assert desktop("closing") == ["closed"]


def test_runs_on_another_thread(desktop: Run) -> None:
    assert desktop("async") == ["FLOAT[3, 16]", "cancelled", "DataException"]


@pytest.mark.parametrize("count", [1000, pytest.param(10_000, marks=pytest.mark.slow)])
def test_nothing_is_left_open(desktop: Run, count: int) -> None:
    assert int(desktop("reopening", count)[0]) < 16 << 20


@pytest.mark.slow
def test_types_of_elements(tmp_path: Path) -> None:
    model = onnx.parser.parse_model(TYPES)
    deploykit.build(model, AndroidTarget(["x86_64"]), {"n": (1, 4)}, tmp_path / "elements")
    assert on_desktop(tmp_path / "elements", "Types", tmp_path)("all") == [
        *("[16384, 0]", "[-56, 3]", "[0, 1]", "[-0.5, 2.0]", "[0, 0]", "[5, 5]"),
        "LONG[] 1 LONG[1, 0]0",
    ]
