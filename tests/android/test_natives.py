"""The native methods of each ABI's library, on a Java machine that checks every call: the results of a session."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import deploykit
from deploykit.artifact.devices import CODE
from deploykit.artifact.formula import evaluate
from deploykit.artifact.manifest import Manifest, read_manifest
from deploykit.basics.dtypes import logical_dtype
from deploykit.engines.native.bionic import can_run
from deploykit.errors import DataError, DeploykitError, ShapeError
from deploykit.sessions.instances import Instances
from deploykit.targets.android import AndroidTarget
from deploykit.targets.android.abis import ABIS
from tests.android.conftest import DIMS, needs_desktop, needs_java
from tests.android.natives import MISUSE, SYSTEMS, Buffer, Natives, signatures
from tests.android.test_java import values
from tests.dynamic import models
from tests.dynamic.instances import instances
from tests.frontends.running_mean import WIDTH, running_mean, weights

pytestmark = [needs_java, needs_desktop, pytest.mark.slow]

ARENA, CAPACITY, DEVICE = 4, 5, 10
"""Statuses: memory for a run is short, that of an output is, and the device failed."""

NO_ADAPTER = -2

MAX_RANK = 16
VERSION = 0x00010006
TEXT = 256

each_abi = pytest.mark.parametrize(
    "abi",
    [
        pytest.param(abi, marks=pytest.mark.skipif(not can_run(SYSTEMS[abi][0]), reason=f"cannot run {abi} here"))
        for abi in ABIS
    ],
)


class Model:
    """A loaded model, as `Session.java` and `Function.java` use it."""

    def __init__(self, package: Path, natives: Natives, *, threads: int = 1, mapped: bool = True) -> None:
        self._manifest = read_manifest(package)
        self.natives = natives
        self.handle = natives("create", threads)
        assert self.handle != 0
        path = natives.assets / "weights.bin"
        data = path.read_bytes()
        if mapped:
            assert natives("map", self.handle, 0, -1, bytearray(bytes(path)), 0, len(data)) == 0
        else:
            assert natives("allocate", self.handle, 0, len(data)) == 0
            for at in range(0, len(data), 1000):
                natives("fill", self.handle, 0, at, bytearray(data[at : at + 1000]), len(data[at : at + 1000]))
        assert natives("init", self.handle) == 0

    def bind(self, inputs: Mapping[str, np.ndarray], function: int = 0) -> Bound:
        """Check the inputs. Raises `DeploykitError` with the status and the text of an error."""
        names: list[str | None] = [*(entry.name for entry in self._manifest.functions)] or [None]
        bound = Bound(self._manifest.function(names[function]), inputs, self.natives)
        self._check(self.natives("bind", self.handle, function, bound.given, bound.described, bound.needs))
        return bound

    def run(self, inputs: Mapping[str, np.ndarray], function: int = 0) -> list[np.ndarray]:
        """The outputs. Raises what `bind` raises."""
        self.natives("keep", self.handle, function, 1)
        status = CAPACITY
        while status in (ARENA, CAPACITY):
            bound = self.bind(inputs, function)
            self._check(self.natives("reserve", self.handle, int(bound.needs[0])))
            made = [self.natives.buffer(np.zeros(size, np.uint8)) for size in bound.needs[1:]]
            status = self.natives("run", self.handle, function, bound.given, made, bound.shapes, bound.needs)
        self._check(status)
        for buffer, given in zip(bound.given, inputs.values(), strict=True):
            np.testing.assert_array_equal(buffer.array, given)
        return bound.results(made)

    def _check(self, status: int) -> None:
        if status != 0:
            text = bytearray(TEXT)
            self.natives("error", self.handle, text)
            raise DeploykitError(f"{status}: {text.rstrip(bytes(1)).decode()}")


class Bound:
    """What Java passes for a run, with `inputs` in the order of the manifest."""

    def __init__(self, manifest: Manifest, inputs: Mapping[str, np.ndarray], natives: Natives) -> None:
        self._dtypes = [logical_dtype(port.dtype).storage for port in manifest.outputs]
        self.given = [natives.buffer(array) for array in inputs.values()]
        described = np.zeros((len(inputs), 2 + MAX_RANK), np.int64)
        for row, port, array in zip(described, manifest.inputs, inputs.values(), strict=True):
            row[: 2 + array.ndim] = (logical_dtype(port.dtype).code, array.ndim, *array.shape)
        self.described = described.reshape(-1)
        self.needs = np.zeros(1 + len(manifest.outputs), np.int64)
        self.shapes = np.zeros(len(manifest.outputs) * (1 + MAX_RANK), np.int64)

    def results(self, made: list[Buffer]) -> list[np.ndarray]:
        found = []
        for dtype, buffer, (rank, *extents) in zip(self._dtypes, made, self.shapes.reshape(len(made), -1), strict=True):
            found.append(np.frombuffer(buffer.array.tobytes(), dtype, prod(extents[:rank])).reshape(extents[:rank]))
        return found


@pytest.fixture(scope="module")
def mean(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("android") / "mean"
    deploykit.build(running_mean(weights()), AndroidTarget(), output=folder)
    return folder


@each_abi
@pytest.mark.parametrize("threads", [1, 3])
def test_results_and_memory(package: Path, abi: str, threads: int, tmp_path: Path) -> None:
    with deploykit.open(package) as session, Natives(package, abi, tmp_path) as natives:
        assert natives.version == VERSION
        model = Model(package, natives, threads=threads, mapped=threads == 1)
        for b, n in [(1, 1), (8, 64), (3, 7), (2, 33)]:
            inputs = values(b, n)
            expected = session.run(inputs).values()
            for found, want in zip(model.run(inputs), expected, strict=True):
                np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-6, strict=True)
            assert model.bind(inputs).needs[0] == session.peak_bytes({"b": b, "n": n})
            assert natives("memory", 0, np.array([b, n, 0])) >= session.peak_bytes({"b": b, "n": n}) + 64 * b
        assert natives("memory", 0, np.array([9, 1, 0])) == 2**63 - 1
        natives("close", model.handle)
        assert natives.end() == (0, "")


@each_abi
def test_errors_leave_the_model_alone(package: Path, abi: str, tmp_path: Path) -> None:
    good = values(2, 3)
    with deploykit.open(package) as session, Natives(package, abi, tmp_path) as natives:
        model = Model(package, natives)
        for status, inputs in [(1, good | {"ids": np.arange(3)}), (7, good | {"ids": np.array([0, 99])})]:
            with pytest.raises((ShapeError, DataError)) as expected:
                session.run(inputs)
            with pytest.raises(DeploykitError) as found:
                model.run(inputs)
            assert str(found.value) == f"{status}: {expected.value}"
            natives("keep", model.handle, 0, 0)
        assert model.run(good)[0].shape == (2, 16)
        natives("close", model.handle)
        assert natives.end() == (0, "")


@each_abi
def test_states_and_profiles(mean: Path, abi: str, tmp_path: Path) -> None:
    """Every native method of the class is called."""
    _, update, read = range(3)
    x = np.linspace(-1, 1, 3 * WIDTH, dtype=np.float32).reshape(3, WIDTH)
    with Natives(mean, abi, tmp_path) as natives:
        model = Model(mean, natives)
        states = read_manifest(mean).states
        assert states is not None
        for streams in (1, 9):
            header = 64  # notes the sizes
            expected = header + evaluate(states.formula, {"streams": streams})
            assert natives("stateBytes", np.array([streams])) == expected
        assert natives("stateBytes", np.array([10])) == 2**63 - 1
        assert natives("reset", model.handle, np.array([3])) == 0
        level, steps = bytearray(TEXT), 40
        natives("level", model.handle, level)
        assert level.rstrip(b"\0").decode() in ABIS[abi].levels
        for number in (1, 2):
            assert natives("measure", model.handle, steps) == 0
            assert model.run({"x": x}, update) == [number]
            columns = [np.zeros(steps, np.int64) for _ in range(3)]
            natives("measured", *columns)
            assert columns[0].sum() >= 2
            assert ((columns[0] > 0) >= (columns[1] > 0)).all()
            assert not columns[2].any()
        (found,) = model.run({"query": x[:2]}, read)
        scores = x[:2] @ weights() @ (x @ weights()).T
        np.testing.assert_allclose(found, scores, rtol=1e-4, atol=1e-5)
        with pytest.raises(DeploykitError, match=r"^1: .* is 1, but the states are made for 3$"):
            model.run({"x": x[:1]}, update)
        natives("stop", model.handle, 1)
        with pytest.raises(DeploykitError, match=r"^13: "):
            model.run({"query": x[:2]}, read)
        natives("stop", model.handle, 0)
        np.testing.assert_array_equal(model.run({"query": x[:2]}, read)[0], found)
        assert natives("mapped", model.handle) == 1
        assert natives("allocate", natives("create", 1), 0, 64) == 0
        natives("fill", model.handle, 0, 1 << 40, bytearray(8), 8)  # behind the weights: nothing happens
        assert natives("memory", read, np.array([2, 3])) > 2 * 3 * 4
        natives("close", model.handle)
        assert natives.called == set(signatures(mean))
        assert natives.end() == (0, "")


@pytest.mark.sampled(part=6)
@each_abi
def test_a_dynamic_model_asks_for_memory(abi: str, tmp_path: Path) -> None:
    """Its memory grows from run to run, until the instances fit."""
    deploykit.build(f"{models.__file__}:TreeLSTM", AndroidTarget([abi]), output=tmp_path / "trees")
    entry = read_manifest(tmp_path / "trees").dynamic
    assert entry is not None
    encoding = Instances(entry, dict)
    with deploykit.open(tmp_path / "trees") as session, Natives(tmp_path / "trees", abi, tmp_path) as natives:
        model = Model(tmp_path / "trees", natives)
        for count in (1, 300, 2):
            batch = instances("TreeLSTM", count, seed=count)
            results, launches, _ = model.run(encoding.inputs(batch))
            np.testing.assert_allclose(results, session(batch), rtol=1e-4, atol=1e-5)
            assert launches.tolist() == [number for _, number in session.launches]
        natives("close", model.handle)
        assert natives.end() == (0, "")


@pytest.mark.sampled(part=6)
@each_abi
def test_devices(model: onnx.ModelProto, abi: str, tmp_path: Path) -> None:
    """Where no driver has an adapter, the CPU goes on."""
    deploykit.build(model, AndroidTarget([abi]), DIMS, tmp_path / "gpu", devices=tuple(CODE))
    with deploykit.open(tmp_path / "gpu") as session, Natives(tmp_path / "gpu", abi, tmp_path) as natives:
        loaded = Model(tmp_path / "gpu", natives)
        for driver, name in enumerate(CODE):
            code, text = bytearray((natives.assets / CODE[name]).read_bytes()), bytearray(TEXT)
            assert natives("adapter", driver, 99, bytearray(TEXT), bytearray(TEXT)) == NO_ADAPTER
            assert natives("open", loaded.handle, driver, 99, code, None, text) == DEVICE
            assert text[0] != 0
        natives("leave", loaded.handle)
        for found, want in zip(loaded.run(values(3, 7)), session.run(values(3, 7)).values(), strict=True):
            np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-6, strict=True)
        natives("close", loaded.handle)
        assert natives.end() == (0, "")


@each_abi
@pytest.mark.parametrize("refused", ["class", "methods"])
def test_a_library_that_java_does_not_take(package: Path, abi: str, refused: str, tmp_path: Path) -> None:
    with Natives(package, abi, tmp_path, refused) as natives:
        assert natives.version == -1
        assert natives.end() == (0, "")


def test_the_machine_finds_misuse(package: Path, tmp_path: Path) -> None:
    """Arrays that Java never passes make the library do what the machine has to refuse."""
    needs, described = np.zeros(3, np.int64), np.zeros(36, np.int64)
    cases: list[tuple[str, str, Callable[[list[Buffer]], tuple[Any, ...]]]] = [
        ("fill", "GetByteArrayRegion of 9 elements from 0 on, of 8", lambda _: (0, 0, bytearray(8), 9)),
        ("bind", "GetObjectArrayElement of 1 elements from 1 on, of 1", lambda own: (0, own[:1], described, needs)),
        ("bind", "GetLongArrayRegion of 18 elements from 18 on, of 20", lambda own: (0, own, described[:20], needs)),
        ("error", "GetArrayLength of a reference that is not live", lambda _: (None,)),
    ]
    for number, (name, message, arguments) in enumerate(cases):
        with Natives(package, "x86_64", tmp_path / str(number)) as natives:
            model = Model(package, natives, mapped=False)
            given = arguments([natives.buffer(array) for array in values(2, 3).values()])
            with pytest.raises(EOFError, match=f"exit code {MISUSE}: misuse: {message}"):
                natives(name, model.handle, *given)
