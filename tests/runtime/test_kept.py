"""Outputs that stay on the device, and are handed to later runs: the results are those of runs that hand on arrays."""

from __future__ import annotations

import gc
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest

import deploykit
from deploykit.artifact.devices import CODE
from deploykit.engines.native.adapters import adapters
from deploykit.engines.native.auto import AUTO
from deploykit.engines.native.gpu import GpuOptions
from deploykit.engines.native.held import Held
from deploykit.engines.native.on_gpu import OnGpu, open_gpu
from deploykit.engines.native.profiled import ProfiledOnGpu
from deploykit.errors import DataError, ShapeError, UsageError
from deploykit.sessions.device_array import DeviceArray
from tests.frontends.onnx.harness import parse
from tests.frontends.running_mean import INNER, WIDTH, running_mean, weights
from tests.seeded import seeded

CELL = """<ir_version: 9, opset_import: ["": 20]>
cell (float[n, 32] x, float[n, 48] h) => (float[n, 48] g, float[n, 5] y) {
    a = MatMul(x, w)  b = MatMul(h, u)  s = Add(a, b)  g = Tanh(s)  y = MatMul(g, v)
}"""
WEIGHTS = {"w": (32, 48), "u": (48, 48), "v": (48, 5)}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not all(map(adapters, CODE)), reason="needs a device with Vulkan and one with OpenCL"),
]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def cell(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kept") / "cell"
    deploykit.build(seeded(CELL, WEIGHTS), output=folder, devices=tuple(CODE))
    return folder


def sample(rows: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((rows, 32)).astype(np.float32)


def build(folder: Path, model: str | onnx.ModelProto, device: str) -> Path:
    model = parse(model) if isinstance(model, str) else model
    deploykit.build(model, output=folder, devices=[device])
    return folder


@pytest.mark.parametrize("device", ["cpu", *CODE, AUTO])
def test_a_loop_gives_the_same_bits(cell: Path, device: str) -> None:
    """At changing sizes; earlier values stay as they are."""
    with deploykit.open(cell, device=device) as session:
        for rows in (3, 1, 64, 3, 700):
            plain = kept = np.zeros((rows, 48), np.float32)
            values: list[DeviceArray] = []
            states: list[np.ndarray] = []
            for step in range(6):
                wanted = session(x=sample(rows, step), h=plain)
                found = session.run({"x": sample(rows, step), "h": kept}, keep=["g"])
                plain, kept = wanted["g"], found["g"]
                np.testing.assert_array_equal(found["y"], wanted["y"])
                assert isinstance(kept, DeviceArray)
                assert (kept.shape, kept.dtype) == (plain.shape, plain.dtype)
                assert kept.on_device == (device in CODE) or device == AUTO
                values.append(kept)
                states.append(plain)
            for value, state in zip(values, states, strict=True):
                np.testing.assert_array_equal(np.asarray(value), state)


@pytest.mark.parametrize("device", CODE)
def test_a_thousand_steps_transfer_no_kept_value(cell: Path, device: str) -> None:
    manifest = deploykit.open(cell).manifest
    library = cell / f"lib{manifest.prefix}.so"
    gpu = open_gpu(library, cell, manifest, device, GpuOptions())
    engine = OnGpu(library, cell, manifest, 1, gpu)
    hidden: np.ndarray | Held = np.zeros((4, 48), np.float32)
    wanted = hidden
    numbers = set()
    before = gpu.transferred
    for step in range(1000):
        hidden, y = engine.run_kept([sample(4, step % 7), hidden], [0])
        assert isinstance(hidden, Held)
        numbers.add(hidden.number)
        wanted, wanted_y = engine.run([sample(4, step % 7), wanted])
        np.testing.assert_array_equal(y, wanted_y)
    sent, fetched = (after - earlier for after, earlier in zip(gpu.transferred, before, strict=True))
    x, h, y_bytes = 4 * 32 * 4, 4 * 48 * 4, 4 * 5 * 4
    assert sent == 1000 * (x + x + h) + h
    assert fetched == 1000 * (y_bytes + y_bytes + h)
    assert len(numbers) == 2
    np.testing.assert_array_equal(hidden.read(), wanted)
    engine.close()
    gpu.close()


@pytest.mark.parametrize("device", CODE)
def test_the_profile_has_no_transfer_of_kept_values(cell: Path, device: str) -> None:
    """The GPU's own times: an upload and a download for each value in host memory."""
    with deploykit.open(cell, device=device, profile=True) as session:
        transfers = [index for index, name in enumerate(session.plan.steps) if "transfer" in name]

        def operations(h: object, keep: list[str]) -> tuple[object, int]:
            outputs = session.run({"x": sample(4), "h": h}, keep=keep)
            assert isinstance(session._profile, ProfiledOnGpu)
            _, (steps, _) = session._profile._last.get() or pytest.fail("there was no run")
            return outputs["g"], sum(step in transfers for step in steps)

        state, count = operations(np.zeros((4, 48), np.float32), ["g", "y"])
        assert (state.numpy().shape, count) == ((4, 48), 2)  # type: ignore[attr-defined]
        assert operations(state, ["g", "y"])[1] == 1
        assert operations(state, [])[1] == 3


@pytest.mark.parametrize("device", CODE)
def test_values_that_the_cpu_uses_stay_there(tmp_path: Path, device: str) -> None:
    """Float64 is computed on the CPU, and indices are checked there."""
    model = """(float[n] x, int64[k] i) => (float[n] a, double[n] d, float[k] p, int64[k] j)
    { a = Exp(x) c = Cast<to = 11>(a) d = Log(c) p = Gather(a, i) j = Neg(i) }"""
    x, i = np.linspace(-1, 1, 9, dtype=np.float32), np.array([3, 0, -1])
    with deploykit.open(build(tmp_path / "d", model, device), device=device) as session:
        wanted = session(x=x, i=i)
        kept = session.run({"x": x, "i": i}, keep=["a", "d", "p", "j"])
        again = session.run({"x": kept["a"], "i": i}, keep=["a"])["a"]
        for name, array in wanted.items():
            np.testing.assert_array_equal(kept[name].numpy(), array)
        assert [kept[name].on_device for name in ("a", "d", "p")] == [False, False, True]
        np.testing.assert_array_equal(again.numpy(), session(x=wanted["a"], i=i)["a"])
        turned = session.run({"x": x, "i": kept["j"]}, keep=["p"])["p"]
        np.testing.assert_array_equal(turned.numpy(), session(x=x, i=wanted["j"])["p"])


@pytest.mark.parametrize("device", CODE)
def test_a_size_that_only_the_run_can_tell(tmp_path: Path, device: str) -> None:
    model = "(float[n] x, bool[n] c) => (float[k] y) { s = Compress<axis = 0>(x, c) y = Exp(s) }"
    with deploykit.open(build(tmp_path / "d", model, device), device=device) as session:
        for size in (10, 5000, 7):
            x = np.linspace(-1, 1, size, dtype=np.float32)
            wanted = session(x=x, c=x > -0.5)["y"]
            found = session.run({"x": x, "c": x > -0.5}, keep=["y"])["y"]
            np.testing.assert_array_equal(found.numpy(), wanted)
            again = session.run({"x": found, "c": np.ones(len(wanted), bool)})["y"]
            np.testing.assert_array_equal(again, session(x=wanted, c=np.ones(len(wanted), bool))["y"])


@pytest.mark.parametrize("device", CODE)
def test_functions_hand_values_to_each_other(tmp_path: Path, device: str) -> None:
    deploykit.build(running_mean(weights()), output=tmp_path / "d", devices=[device])
    rows = np.random.default_rng(1).standard_normal((4, WIDTH)).astype(np.float32)
    with deploykit.open(tmp_path / "d", device=device) as session:
        session.reset({"streams": 4})
        functions = session.functions
        functions["update"](x=rows)
        wanted = functions["read"](query=rows)["scores"]
        session.reset({"streams": 4})
        projected = functions["project"].run({"rows": rows}, keep=["projected"])["projected"]
        assert projected.on_device
        assert projected.shape == (4, INNER)
        functions["update"](x=rows)
        scores = functions["read"].run({"query": rows}, keep=["scores"])["scores"]
        np.testing.assert_array_equal(scores.numpy(), wanted)
        with pytest.raises(ShapeError, match=r"input 'x' axis 1: expected 6, found 5"):
            functions["update"].run({"x": projected})
        np.testing.assert_array_equal(functions["project"](rows=rows)["projected"], projected.numpy())


@pytest.mark.parametrize("device", ["cpu", *CODE])
def test_misuse_is_refused_and_kept_values_stay(cell: Path, device: str) -> None:
    with deploykit.open(cell, device=device) as session, deploykit.open(cell, device=device) as other:
        kept = session.run({"x": sample(4), "h": np.zeros((4, 48), np.float32)}, keep=["g"])["g"]
        before = kept.numpy()
        with pytest.raises(UsageError, match=r"there is no output 'z' to keep; the model has 'g', 'y'"):
            session.run({"x": sample(4), "h": kept}, keep=["z"])
        with pytest.raises(UsageError, match=r"keep takes a list of names: pass \['g'\]"):
            session.run({"x": sample(4), "h": kept}, keep="g")
        with pytest.raises(ShapeError, match=r"input 'h' axis 0 \(dim 'n'\) is 4, but is 3 in input 'x' axis 0"):
            session.run({"x": sample(3), "h": kept}, keep=["g"])
        with pytest.raises(ShapeError, match=r"input 'x' axis 1: expected 32, found 48"):
            session.run({"x": kept, "h": kept}, keep=["g"])
        with pytest.raises(ShapeError, match="input 'x' is missing"):
            session.run({"h": kept})
        if device != "cpu":
            with pytest.raises(UsageError, match="input 'h' is on the device of another session: pass its numpy"):
                other.run({"x": sample(4), "h": kept})
        other.run({"x": sample(4), "h": kept.numpy()})
        np.testing.assert_array_equal(kept.numpy(), before)
        freed = session.run({"x": sample(4), "h": kept}, keep=["g"])["g"]
        freed.free()
        freed.free()
        with pytest.raises(UsageError, match="this DeviceArray was freed"):
            session.run({"x": sample(4), "h": freed})
    if device != "cpu":
        with pytest.raises(UsageError, match="the session of a value on the device is closed"):
            kept.numpy()
    kept.free()


@pytest.mark.parametrize("device", CODE)
def test_a_run_that_fails_leaves_kept_values(tmp_path: Path, device: str) -> None:
    model = "(float[n, 4] t, int64[k] i) => (float[n, 4] u, float[k, 4] y) { u = Neg(t) y = Gather(t, i) }"
    table = np.arange(20, dtype=np.float32).reshape(5, 4)
    with deploykit.open(build(tmp_path / "d", model, device), device=device) as session:
        kept = session.run({"t": table, "i": np.array([1])}, keep=["u", "y"])
        for _ in range(30):
            with pytest.raises(DataError, match="found 5 at element 0"):
                session.run({"t": kept["u"], "i": np.array([5])}, keep=["u", "y"])
        np.testing.assert_array_equal(kept["u"].numpy(), -table)
        np.testing.assert_array_equal(session.run({"t": kept["u"], "i": np.array([2])})["y"], -table[2:3])
    assert kept["y"].shape == (1, 4)


@pytest.mark.parametrize("device", ["cpu", *CODE])
def test_dtypes_of_kept_values(tmp_path: Path, device: str) -> None:
    model = "(bfloat16[n] b, int64[n] i, bool[n] c) => (bfloat16[n] d, int64[n] j, bool[n] e, float16[n] f)"
    model += "{ d = Abs(b) j = Neg(i) e = Not(c) f = Cast<to = 10>(b) }"
    b = np.array([-1.5, 2, -3], ml_dtypes.bfloat16)
    feeds = {"b": b, "i": np.array([1, -2, 1 << 40]), "c": np.array([True, False, True])}
    with deploykit.open(
        build(tmp_path / "d", model, "vulkan" if device == "cpu" else device), device=device
    ) as session:
        wanted = session.run(feeds)
        kept = session.run(feeds, keep=list(wanted))
        for name, array in wanted.items():
            assert kept[name].dtype == array.dtype
            np.testing.assert_array_equal(kept[name].numpy(), array)
        again = session.run({"b": kept["d"], "i": kept["j"], "c": kept["e"]})
        for name, array in session.run({"b": wanted["d"], "i": wanted["j"], "c": wanted["e"]}).items():
            np.testing.assert_array_equal(again[name], array)
        with pytest.raises(ShapeError, match=r"input 'c'.*expected.* bool, found"):
            session.run({"b": kept["d"], "i": kept["j"], "c": kept["f"]})


@pytest.mark.parametrize("device", CODE)
def test_memory_is_released(cell: Path, device: str) -> None:
    """By references that go, also in another order than they came."""
    with deploykit.open(cell, device=device) as session:
        zero = np.zeros((600, 48), np.float32)
        values = [session.run({"x": sample(600), "h": zero}, keep=["g"])["g"] for _ in range(20)]
        numbers = {value.value.number for value in values}  # type: ignore[union-attr]
        assert len(numbers) == 20
        del values[::2]
        gc.collect()
        values += [session.run({"x": sample(600), "h": zero}, keep=["g"])["g"] for _ in range(10)]
        assert {value.value.number for value in values} <= numbers  # type: ignore[union-attr]
