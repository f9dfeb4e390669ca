"""Sixteen threads on one session, in each form and on each device: every result has the bits that it has alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import deploykit
from deploykit.artifact.devices import CODE
from deploykit.basics.parallel import processors
from deploykit.engines.native.adapters import adapters
from deploykit.engines.native.auto import AUTO
from deploykit.errors import DataError, ShapeError
from deploykit.sessions.device_array import DeviceArray
from tests.dynamic.harness import Built
from tests.dynamic.instances import instances
from tests.frontends.huggingface import test_picture_answers, test_sound_answers
from tests.frontends.huggingface.sound_cases import LENGTHS, sound
from tests.frontends.huggingface.test_texts import TEXTS, folder_of, sentences_of
from tests.frontends.onnx.harness import parse
from tests.frontends.running_mean import WIDTH, running_mean, weights
from tests.ragged import token_model
from tests.seeded import seeded
from tests.threads.crowds import THREADS, bits, require_alone, together

CELL = """<ir_version: 9, opset_import: ["": 20]>
cell (float[n, 32] x, float[n, 48] h) => (float[n, 48] g, float[n, 5] y) {
    a = MatMul(x, w)  b = MatMul(h, u)  s = Add(a, b)  g = Tanh(s)  y = MatMul(g, v)
}"""
WEIGHTS = {"w": (32, 48), "u": (48, 48), "v": (48, 5)}

FOUND = """(float[n] x, int64[k] i) => (int64[1, found] where, float[k] taken)
    { where = NonZero(x) taken = Gather(x, i) }"""

SIZES = (1, 3, 64, 7, 200)


def sample(rows: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(rows)
    return {name: random.standard_normal((rows, width)).astype(np.float32) for name, width in (("x", 32), ("h", 48))}


@pytest.fixture(scope="module")
def cell(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """For the CPU and, where there are any, for GPUs."""
    folder = tmp_path_factory.mktemp("threads") / "cell"
    devices = tuple(CODE) if all(map(adapters, CODE)) else ()
    deploykit.build(seeded(CELL, WEIGHTS), output=folder, devices=devices)
    return folder


on_gpus = pytest.mark.skipif(not all(map(adapters, CODE)), reason="needs a device with Vulkan and one with OpenCL")
DEVICES = [None, *(pytest.param(device, marks=[on_gpus, pytest.mark.slow]) for device in CODE)]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("callers", [None, 1, 16])
def test_arrays(cell: Path, threads: int, callers: int | None) -> None:
    with deploykit.open(cell, threads=threads, callers=callers) as session:
        require_alone(session.run, [sample(rows) for rows in SIZES], rounds=60)
        assert 1 <= session.memory.lanes <= (callers or processors())
        assert session.memory.arenas <= session.memory.lanes * session.peak_bytes({"n": max(SIZES)})


@pytest.mark.parametrize("device", [device for device in DEVICES if device is not None])
def test_devices(cell: Path, device: str) -> None:
    with deploykit.open(cell, device=device) as session:
        require_alone(session.run, [sample(rows) for rows in SIZES], rounds=10)


@pytest.mark.slow
@on_gpus
def test_the_choice_of_a_device(cell: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixteen threads make the first run, which measures. Their results are those of one of the devices."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    given = sample(64)
    expected = []
    for device in (None, *CODE):
        with deploykit.open(cell, device=device) as session:
            expected.append(bits(session.run(given)))
    with deploykit.open(cell, device=AUTO) as session:
        for found in together([lambda: session.run(given)] * THREADS):
            assert bits(found) in expected
        assert "ms" in session.where
        require_alone(session.run, [sample(rows) for rows in SIZES], rounds=5)


@pytest.mark.parametrize("device", DEVICES)
def test_values_that_stay_on_the_device(cell: Path, device: str | None) -> None:
    with deploykit.open(cell, device=device) as session:

        def steps(rows: int) -> list[Any]:
            given = sample(rows)
            state: Any = given["h"]
            found = []
            for _ in range(5):
                outputs = session.run({"x": given["x"], "h": state}, keep=["g"])
                state = outputs["g"]
                assert isinstance(state, DeviceArray)
                found.append(outputs["y"])
            return [*found, state.numpy()]

        require_alone(steps, SIZES[:3], rounds=4)


@pytest.mark.parametrize("device", DEVICES)
def test_profiles(cell: Path, device: str | None) -> None:
    """The times are those of the last run of the thread that asks."""
    with deploykit.open(cell, device=device, profile=True) as session:

        def run(rows: int) -> Any:
            outputs = session.run(sample(rows))
            calls, seconds = session.step_times()
            assert (seconds[calls > 0] >= 0).all()
            return outputs, calls

        require_alone(run, SIZES[:3], rounds=5)


def test_sizes_that_only_a_run_tells(tmp_path: Path) -> None:
    deploykit.build(parse(FOUND), output=tmp_path / "dist")
    with deploykit.open(tmp_path / "dist") as session:

        def run(rows: int) -> Any:
            x = np.random.default_rng(rows).integers(0, 2, rows).astype(np.float32)
            if rows % 5 == 0:
                with pytest.raises(DataError, match=f"{rows}"):
                    session.run({"x": x, "i": np.array([0, rows])})
                with pytest.raises(ShapeError, match="expected rank"):
                    session.run({"x": x[None], "i": np.array([0])})
                return rows
            return session.run({"x": x, "i": np.array([0, rows - 1])})

        require_alone(run, [1, 7, 3000, 10, 15, 64], rounds=30)


def test_ragged(tmp_path: Path) -> None:
    deploykit.build(token_model(), output=tmp_path / "dist")
    random = np.random.default_rng(0)

    def instances_of(lengths: list[int]) -> dict[str, Any]:
        x = [random.standard_normal((length, 4)).astype(np.float32) for length in lengths]
        return {"x": x, "ids": [np.arange(length) for length in lengths]}

    with deploykit.open(tmp_path / "dist") as session:

        def run(given: dict[str, Any]) -> Any:
            return {name: list(value) for name, value in session.run(given).items()}

        require_alone(run, [instances_of(lengths) for lengths in ([3], [1, 0, 5], [], [9, 9, 9, 1])], rounds=40)


def test_states_take_turns(tmp_path: Path) -> None:
    """Each update sees those before it: the counts of all threads are the numbers from 1 on."""
    deploykit.build(running_mean(weights()), output=tmp_path / "dist")
    random = np.random.default_rng(0)
    x = random.standard_normal((3, WIDTH)).astype(np.float32)
    with deploykit.open(tmp_path / "dist") as session:
        session.reset({"streams": 3})
        update, project, read = (session.functions[name] for name in ("update", "project", "read"))
        update(x=x)
        alone = bits(project(rows=x)), bits(read(query=x))
        session.reset({"streams": 3})

        def work() -> list[float]:
            found = []
            for _ in range(20):
                found.append(float(update(x=x)["samples"]))
                assert bits(project(rows=x)) == alone[0]
            return found

        counts = [count for each in together([work] * THREADS) for count in each]
        assert sorted(counts) == list(range(1, 20 * THREADS + 1))
        np.testing.assert_allclose(
            read(query=x)["scores"], np.frombuffer(alone[1]["scores"][2], "f4").reshape(3, 3), 1e-4
        )
        session.reset({"streams": 3})
        update(x=x)
        assert bits(read(query=x)) == alone[1]


@pytest.fixture(scope="module")
def answering(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], deploykit.Session]]:
    folders: dict[str, Path] = {}
    sessions = []

    def make(kind: str) -> deploykit.Session:
        if kind not in folders:
            place = tmp_path_factory.mktemp(kind)
            folder = {
                "classify": lambda path: folder_of(path, "bert-classes"),
                "embed": sentences_of,
                "pictures": lambda path: test_picture_answers.folder_of(path, "classify"),
                "sounds": test_sound_answers.folder_of,
            }[kind](place / "model")
            deploykit.build(folder, output=place / "dist")
            folders[kind] = place / "dist"
        sessions.append(deploykit.open(folders[kind]))
        return sessions[-1]

    yield make
    for session in sessions:
        session.close()


def test_texts(answering: Callable[[str], deploykit.Session]) -> None:
    session = answering("embed")
    require_alone(session.embed, [*TEXTS, TEXTS], rounds=10)


def test_the_first_call_makes_the_tokenizer(answering: Callable[[str], deploykit.Session]) -> None:
    """In all threads at the same time."""
    alone = bits(answering("embed").embed(TEXTS))
    fresh = answering("embed")
    assert all(bits(found) == alone for found in together([lambda: fresh.embed(TEXTS)] * THREADS))


def test_pictures(answering: Callable[[str], deploykit.Session]) -> None:
    session = answering("pictures")
    random = np.random.default_rng(1)
    shapes = [(31, 22, 3), (12, 19, 3), (1, 1, 3)]
    require_alone(session.classify, [random.integers(0, 256, shape, dtype=np.uint8) for shape in shapes], rounds=5)


def test_sounds(answering: Callable[[str], deploykit.Session]) -> None:
    session = answering("sounds")
    require_alone(lambda each: session.transcribe(each, 16000), [sound(length) for length in LENGTHS], rounds=5)


def test_instances(built: Built) -> None:
    """`launches` and `trace` are those of the last run of the thread that asks."""
    with deploykit.open(built("EarlyExit")) as session:
        session.tracing = True
        batches = [instances("EarlyExit", count, seed=count) for count in (1, 5, 12)]

        def run(batch: list[Any]) -> Any:
            results = session(batch)
            return results, session.launches, [(launch.cell, len(launch.nodes)) for launch in session.trace]

        require_alone(run, batches, rounds=15)


@pytest.mark.slow
@pytest.mark.parametrize("device", [None, "webgpu"])
def test_web(tmp_path: Path, device: str | None) -> None:
    deploykit.build(seeded(CELL, WEIGHTS), "webgpu", output=tmp_path / "dist")
    with deploykit.open(tmp_path / "dist", device=device) as session:
        require_alone(session.run, [sample(rows) for rows in SIZES], rounds=5)


@pytest.mark.slow
def test_sanitized(tmp_path: Path) -> None:
    deploykit.build(seeded(CELL, WEIGHTS), "embedded", {"n": (1, 64)}, output=tmp_path / "dist")
    with deploykit.open(tmp_path / "dist", sanitize=True) as session:
        require_alone(session.run, [sample(rows) for rows in SIZES[:3]], rounds=2)


@pytest.mark.slow
def test_android(tmp_path: Path) -> None:
    deploykit.build(seeded(CELL, WEIGHTS), "android", output=tmp_path / "dist")
    with deploykit.open(tmp_path / "dist") as session:
        require_alone(session.run, [sample(rows) for rows in SIZES], rounds=20)
