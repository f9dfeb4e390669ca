"""What a session accepts, converts, refuses, and says."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from tvm import tirx

import deploykit
import deploykit.sessions.session
from deploykit.artifact.manifest import read_manifest, verify_files
from deploykit.basics.dtypes import DTYPES
from deploykit.compiler.program.ir import Copy, Launch, Program
from deploykit.errors import ArtifactError, ShapeError, UsageError
from deploykit.pipeline import write_artifact
from deploykit.sessions.session import Session
from deploykit.targets.base import PackageOptions, find_target
from tests.runtime.programs import Draft, elementwise, mlp


def build(program: Program, folder: Path, target: str = "host") -> Path:
    write_artifact([program], find_target(target), folder, PackageOptions())
    return folder


@pytest.fixture(scope="module")
def mlp_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(mlp()[0], tmp_path_factory.mktemp("artifacts") / "mlp")


@pytest.fixture(scope="module")
def session(mlp_folder: Path) -> Session:
    return deploykit.open(mlp_folder)


X = np.random.default_rng(0).standard_normal((5, 8), dtype=np.float32)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({}, "input 'x' is missing; the model has 'x'"),
        ({"x": X, "z": X}, "there is no input 'z'; the model has 'x'"),
        ({"x": X[0]}, r"input 'x': expected rank 2 \[batch, 8\], found shape \(8,\)"),
        ({"x": X.astype(np.float64)}, "input 'x': expected dtype float32, found float64; convert it first"),
        ({"x": X[:, :7]}, "input 'x' axis 1: expected 8, found 7"),
        ({"x": X[:0]}, r"input 'x' axis 0 \(dim 'batch'\): expected 1\.\.64, found 0"),
        ({"x": np.zeros((65, 8), np.float32)}, r"input 'x' axis 0 \(dim 'batch'\): expected 1\.\.64, found 65"),
        ({"x": "text"}, "input 'x': no array of float32"),
        ({"x": [[1, 2], [3]]}, "input 'x': no array of float32"),
    ],
)
def test_refused_inputs(session: Session, inputs: dict[str, object], message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        session(**inputs)


def test_memory_layouts(session: Session) -> None:
    reference = mlp()[1]
    wide = np.random.default_rng(1).standard_normal((16, 10), dtype=np.float32)
    unaligned = np.frombuffer(b"\0" + X.tobytes(), np.uint8)[1:].view(np.float32).reshape(X.shape)
    for x in (wide[::2, 1:9], wide[:8, :8].T, X[::-1], unaligned, X.astype(">f4"), np.asfortranarray(X)):
        np.testing.assert_allclose(session(x=x)["y"], reference(x.astype(np.float32)), rtol=1e-5, atol=1e-6)


def test_lists_and_other_sequences(session: Session) -> None:
    np.testing.assert_allclose(session(x=X.tolist())["y"], session(x=X)["y"], rtol=1e-6)


def test_results_are_independent(session: Session) -> None:
    first = session(x=X)["y"]
    kept = first.copy()
    session(x=2 * X)
    np.testing.assert_array_equal(first, kept)


def test_alternating_sizes(session: Session) -> None:
    """Each size runs more than once, with other sizes in between."""
    reference = mlp()[1]
    rows = np.random.default_rng(2).standard_normal((64, 8), dtype=np.float32)
    results = {(turn, count): session(x=rows[turn:][:count])["y"] for turn in range(3) for count in range(1, 62)}
    for (turn, count), y in results.items():
        np.testing.assert_allclose(y, reference(rows[turn:][:count]), rtol=1e-5, atol=1e-6)


def test_peak_bytes(session: Session) -> None:
    assert session.peak_bytes({"batch": 1}) == 128
    assert session.peak_bytes({"batch": 64}) == session.manifest.peak_memory.at_bounds == 2048
    for dims, message in (({}, "dim 'batch' is missing"), ({"batch": 0}, r"must be in 1\.\.64, found 0")):
        with pytest.raises(UsageError, match=message):
            session.peak_bytes(dims)
    with pytest.raises(UsageError, match="there is no dim 'seq'; the model has batch"):
        session.peak_bytes({"seq": 1})


@pytest.mark.parametrize("target", ["host", "embedded"])
def test_every_dtype_passes_through(target: str, tmp_path: Path) -> None:
    draft = Draft("pass_all")
    n = draft.dim("n", 0)
    numbers = {name: dtype for name, dtype in DTYPES.items() if name != "string"}
    ports = [(draft.output(f"{name}_out", name, (n, 2)), draft.input(name, name, (n, 2))) for name in numbers]
    program = draft.program(*(Copy(y, x) for y, x in ports))
    values = {name: np.arange(-4, 4).reshape(4, 2).astype(dtype.array) for name, dtype in numbers.items()}
    with deploykit.open(build(program, tmp_path / "a", target)) as session:
        results, empty = session.run(values), session.run({name: value[:0] for name, value in values.items()})
    for name, value in values.items():
        assert results[f"{name}_out"].dtype == value.dtype
        np.testing.assert_array_equal(results[f"{name}_out"].astype(np.float64), value.astype(np.float64))
        assert empty[f"{name}_out"].shape == (0, 2)


@pytest.mark.parametrize(("dtype", "least"), [("int4", -8), ("uint4", 0), ("int2", -2), ("uint2", 0)])
def test_sub_byte_integers_are_extended(dtype: str, least: int, tmp_path: Path) -> None:
    draft = Draft(f"half_{dtype}")
    storage = str(DTYPES[dtype].storage)
    x, y = draft.input("x", dtype, (4,)), draft.output("y", "int8", (4,))
    wide = draft.kernel(elementwise(lambda a: a.astype("int8"), storage, result="int8"), "widen")
    session = deploykit.open(build(draft.program(Launch(wide, (x, y), (4,))), tmp_path / "a"))
    values = np.arange(least, least + 4)
    np.testing.assert_array_equal(session(x=values.astype(DTYPES[dtype].array))["y"], values)


def test_bfloat16_is_stored_as_its_bits(tmp_path: Path) -> None:
    draft = Draft("bits")
    x, y = draft.input("x", "bfloat16", ()), draft.output("y", "uint16", ())
    copy = draft.kernel(elementwise(lambda a: a, "uint16"), "take")
    session = deploykit.open(build(draft.program(Launch(copy, (x, y), (1,))), tmp_path / "a"))
    assert session(x=ml_dtypes.bfloat16(1.0))["y"] == 0x3F80
    assert session(x=1.0)["y"] == 0x3F80


def test_fractions_do_not_become_integers(tmp_path: Path) -> None:
    draft = Draft("whole")
    x, y = draft.input("x", "int64", ()), draft.output("y", "int64", ())
    session = deploykit.open(build(draft.program(Copy(y, x)), tmp_path / "a"))
    assert session(x=3)["y"] == 3
    with pytest.raises(ShapeError, match="expected int64, found fractional numbers"):
        session(x=3.5)


def test_integers_out_of_range_do_not_wrap(tmp_path: Path) -> None:
    draft = Draft("bytes")
    n = draft.dim("n", 0)
    x, y = draft.input("x", "uint8", (n,)), draft.output("y", "uint8", (n,))
    session = deploykit.open(build(draft.program(Copy(y, x)), tmp_path / "a"))
    assert session(x=[0, 255])["y"].tolist() == [0, 255]
    assert session(x=[])["y"].shape == (0,)
    with pytest.raises(ShapeError, match="input 'x': no array of uint8"):
        session(x=[256])


def test_two_sessions_at_once(mlp_folder: Path, tmp_path: Path) -> None:
    other, reference = mlp("other")
    with (
        deploykit.open(mlp_folder) as a,
        deploykit.open(build(other, tmp_path / "b")) as b,
    ):
        np.testing.assert_array_equal(a(x=X)["y"], b(x=X)["y"])
        np.testing.assert_allclose(a(x=X[:2])["y"], reference(X[:2]), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(b(x=X)["y"], reference(X), rtol=1e-5, atol=1e-6)


def test_sessions_in_threads(mlp_folder: Path) -> None:
    reference = mlp()[1]

    def work(seed: int) -> float:
        x = np.random.default_rng(seed).standard_normal((seed % 64 + 1, 8), dtype=np.float32)
        with deploykit.open(mlp_folder, threads=seed % 3 + 1) as session:
            return max(float(np.abs(session(x=x)["y"] - reference(x)).max()) for _ in range(50))

    with ThreadPoolExecutor(4) as pool:
        assert max(pool.map(work, range(12))) < 1e-5


def test_a_rebuilt_artifact_is_loaded_again(tmp_path: Path) -> None:
    x_value, results = np.float32(3), []
    for factor in (2.0, 5.0):
        draft = Draft("same_name")
        x, y = draft.input("x", "float32", ()), draft.output("y", "float32", ())
        scale = draft.kernel(elementwise(lambda a, f=factor: a * tirx.const(f, "float32"), "float32"), "scale")
        session = deploykit.open(build(draft.program(Launch(scale, (x, y), (1,))), tmp_path / "same"))
        results.append(float(session(x=x_value)["y"]))
    assert results == [6, 15]


@pytest.mark.parametrize("threads", [2, 5])
def test_threads(mlp_folder: Path, threads: int) -> None:
    reference = mlp()[1]
    with deploykit.open(mlp_folder, threads=threads) as session:
        for batch in (1, 3, 64, 2):
            x = np.random.default_rng(batch).standard_normal((batch, 8), dtype=np.float32)
            np.testing.assert_allclose(session(x=x)["y"], reference(x), rtol=1e-5, atol=1e-6)


def test_unsupported_numbers_of_threads_are_refused(mlp_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="threads must be at least 1, found 0"):
        deploykit.open(mlp_folder, threads=0)
    with pytest.raises(UsageError, match="this artifact runs on one thread"):
        deploykit.open(build(mlp()[0], tmp_path / "c", "embedded"), threads=2)


@pytest.mark.parametrize("name", ["weights.bin", "libmlp.so", "model.h"])
def test_changed_and_missing_files(mlp_folder: Path, tmp_path: Path, name: str) -> None:
    folder = shutil.copytree(mlp_folder, tmp_path / "copy")
    data = bytearray((folder / name).read_bytes())
    data[len(data) // 2] ^= 1
    (folder / name).write_bytes(data)
    with pytest.raises(ArtifactError, match=f"{name} has changed since it was built"):
        deploykit.open(folder)
    (folder / name).unlink()
    with pytest.raises(ArtifactError, match=f"{name} is missing"):
        deploykit.open(folder)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("inputs", [], "is not the library that the manifest of 'mlp' describes"),
        ("dims", [], "is not the library that the manifest of 'mlp' describes"),
        (
            "outputs",
            [{"name": "y", "dtype": "float64", "shape": [1, 3]}],
            "output 'y' is not what the manifest describes",
        ),
        ("prefix", "other", "does not hold the model 'other'"),
        ("peak_memory", {"formula": "0", "weights": 1 << 20}, "weights.bin has 176 bytes, the manifest says 1048576"),
        ("files", [], None),
        ("target", "toaster", "there is no target 'toaster'"),
        ("files", [{"name": "../x", "bytes": 0, "gzip_bytes": 0, "sha256": ""}], "'../x' is not inside the folder"),
    ],
)
def test_a_manifest_of_another_model(
    mlp_folder: Path, tmp_path: Path, field: str, value: object, message: str | None
) -> None:
    folder = shutil.copytree(mlp_folder, tmp_path / "copy")
    manifest = json.loads((folder / "manifest.json").read_text()) | {field: value}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    if message is None:
        deploykit.open(folder)(x=X)
        return
    with pytest.raises(UsageError, match=message):
        deploykit.open(folder)(x=X)


@settings(max_examples=100, deadline=None)
@given(st.binary(min_size=1, max_size=3), st.integers(0, 3000), st.booleans())
def test_damaged_manifests_are_refused(mlp_folder: Path, change: bytes, at: int, insert: bool) -> None:
    text = (mlp_folder / "manifest.json").read_bytes()
    changed = text[:at] + change + text[at if insert else at + len(change) :]
    with TemporaryDirectory() as folder, suppress(UsageError):
        (Path(folder) / "manifest.json").write_bytes(changed)
        verify_files(mlp_folder, read_manifest(Path(folder)))


def test_no_artifact(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="is no artifact folder"):
        deploykit.open(tmp_path / "nothing")


def outer_folder(folder: Path) -> Path:
    """`y[a, b] = x[a] + z[b]` and a copy of `x`, without upper bounds."""
    draft = Draft("outer")
    a, b = draft.dim("a", 0, None), draft.dim("b", 0, None)
    x, z = draft.input("x", "float32", (a, 0)), draft.input("z", "float32", (b, 0))
    y = draft.output("y", "float32", (a, b))
    scratch = draft.scratch("scratch", "float32", (a, b), a * b * 4)
    zero = draft.kernel(elementwise(lambda p: p * 0, "float32"), "zero")
    return build(draft.program(Launch(zero, (scratch, y), (a * b,)), Copy(y, x), Copy(y, z)), folder)


def test_sizes_that_overflow_are_refused(tmp_path: Path) -> None:
    session = deploykit.open(outer_folder(tmp_path / "outer"))
    assert session(x=np.zeros((2, 0), np.float32), z=np.zeros((3, 0), np.float32))["y"].shape == (2, 3)
    huge = np.zeros(((1 << 40) - 1, 0), np.float32)
    with pytest.raises(UsageError, match="intermediate results would need 9223372036854775807 bytes"):
        session(x=huge, z=huge)
    with pytest.raises(UsageError, match="intermediate results would need"):
        session(x=huge, z=huge[: 1 << 21])
    with pytest.raises(ShapeError, match="input 'x' axis 0: no tensor has extent 1099511627776"):
        session(x=np.zeros((1 << 40, 0), np.float32), z=huge)


@pytest.mark.parametrize(
    "size",
    [
        lambda a, b: a * b * (10 - tirx.floormod(a, 10)),
        lambda a, b: tirx.min(a * b * b, 64),
        lambda a, b: a * tirx.Select(tirx.floormod(b, 4) > 3, tirx.IntImm("int64", 1), b),
    ],
)
def test_sizes_saturate_if_intermediate_values_overflow(size: Callable[..., Any], tmp_path: Path) -> None:
    """An intermediate value may overflow although a term is subtracted later, or although the size itself is small."""
    draft = Draft("outer")
    a, b = draft.dim("a", 0, None), draft.dim("b", 0, None)
    x, y = draft.input("x", "float32", (a, b)), draft.output("y", "float32", (a, b))
    scratch = draft.scratch("scratch", "float32", (a, b), size(a, b))
    zero = draft.kernel(elementwise(lambda p: p * 0, "float32"), "zero")
    session = build(draft.program(Launch(zero, (scratch, y), (a * b,)), Copy(y, x)), tmp_path)
    assert deploykit.open(session).peak_bytes({"a": 1 << 39, "b": 1 << 39}) == (1 << 63) - 1


ANY_ARRAY = hnp.arrays(
    st.sampled_from([np.float32, np.float64, np.int64, np.bool_, np.complex64, np.str_]), hnp.array_shapes(min_dims=0)
)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.sampled_from(["x", "y", ""]), ANY_ARRAY))
def test_any_input_is_run_or_refused(session: Session, inputs: dict[str, np.ndarray]) -> None:
    with suppress(ShapeError):
        assert session.run(inputs)["y"].shape == (inputs["x"].shape[0], 3)


def test_a_run_that_needs_too_much_memory_leaves_the_session_usable(tmp_path: Path) -> None:
    model = onnx.parser.parse_model("""<ir_version: 9, opset_import: ["": 20]>
        large (float[n] x, int64[2] s) => (float[a, b] y) { q = Relu(x) e = Expand(q, s) y = Transpose(e) }""")
    deploykit.build(model, dims={"n": (1, 100)}, output=tmp_path / "large")
    with deploykit.open(tmp_path / "large") as session:
        for shape in ((2**40, 2**20), (2**25, 2**20)):
            with pytest.raises(UsageError, match="bytes"):
                session(x=np.ones(1, np.float32), s=np.array(shape))
            assert session(x=np.ones(4, np.float32), s=np.array([3, 4]))["y"].shape == (4, 3)
