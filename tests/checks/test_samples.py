from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from deploykit.artifact.manifest import DimEntry, Manifest, MemoryEntry, PortEntry
from deploykit.checks.samples import random_for_others, sample_inputs
from deploykit.checks.sources import FileSource, RandomSource, parse_sources, read_inputs
from deploykit.errors import ShapeError, UsageError
from deploykit.sessions.structure import Structure

MODEL = Manifest(
    generator="test",
    name="model",
    prefix="model",
    target="host",
    cpu="native",
    inputs=(
        PortEntry(name="x", dtype="float32", shape=("batch", 3)),
        PortEntry(name="ids", dtype="int64", shape=("batch", "seq")),
    ),
    outputs=(),
    dims=(DimEntry(name="batch", minimum=2, maximum=8), DimEntry(name="seq", minimum=1)),
    peak_memory=MemoryEntry(formula="0", weights=0),
    files=(),
)


def test_sources_are_read() -> None:
    assert parse_sources(["x=random:7"]) == {"x": RandomSource(7)}
    assert parse_sources(["x=random:7:-1.5..2e3"]) == {"x": RandomSource(7, -1.5, 2000.0)}
    file = {"x": FileSource(Path("some/file.npy"))}
    assert parse_sources(["x=some/file.npy"]) == read_inputs({"x": "some/file.npy"}) == file
    assert read_inputs({"x": Path("some/file.npy")}) == file


@pytest.mark.parametrize("text", ["x", "=x.npy", "x=", "x=random", "x=random:", "x=random:1:5..2", "x=random:one"])
def test_malformed_sources_are_usage_errors(text: str) -> None:
    with pytest.raises(UsageError):
        parse_sources([text])


def test_an_input_given_twice_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="twice"):
        parse_sources(["x=random:1", "x=random:2"])


@pytest.mark.parametrize("dtype", ["float16", "float64", "bool", "int8", "uint64", ml_dtypes.bfloat16, ml_dtypes.int4])
def test_random_arrays_have_the_dtype_and_repeat(dtype: str) -> None:
    first, second = (RandomSource(3).array(np.dtype(dtype), (4, 5)) for _ in range(2))
    assert first.dtype == np.dtype(dtype)
    assert first.shape == (4, 5)
    assert np.array_equal(first, second)
    assert not np.array_equal(first, RandomSource(4).array(np.dtype(dtype), (4, 5)))


def test_integers_stay_in_their_range() -> None:
    array = RandomSource(0, 5, 9).array(np.dtype("int64"), (1000,))
    assert set(array.tolist()) == {5, 6, 7, 8, 9}
    assert set(RandomSource(0).array(np.dtype("int64"), (1000,)).tolist()) == {0, 1}


def test_sizes_come_from_the_call_then_the_files_then_the_minimum(tmp_path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((5, 3), np.float32))
    sources = {"x": FileSource(tmp_path / "x.npy"), "ids": RandomSource(0)}
    arrays, dims = sample_inputs(MODEL, sources, {})
    assert dims == {"batch": 5, "seq": 1}
    assert arrays["ids"].shape == (5, 1)
    arrays, dims = sample_inputs(MODEL, {"x": RandomSource(0), "ids": RandomSource(0)}, {"seq": 4})
    assert arrays["ids"].shape == (2, 4)


def test_unknown_names_and_bounds_are_refused() -> None:
    both = {"x": RandomSource(0), "ids": RandomSource(0)}
    with pytest.raises(UsageError, match="no input 'y'"):
        sample_inputs(MODEL, {**both, "y": RandomSource(0)}, {})
    with pytest.raises(UsageError, match="input 'ids' has no values"):
        sample_inputs(MODEL, {"x": RandomSource(0)}, {})
    with pytest.raises(UsageError, match="no symbolic dim 'n'"):
        sample_inputs(MODEL, both, {"n": 3})
    with pytest.raises(ShapeError, match=r"'batch' must be in 2\.\.8, found 9"):
        sample_inputs(MODEL, both, {"batch": 9})


def test_values_are_converted_as_in_a_session() -> None:
    x = np.ones((2, 3))
    arrays, dims = sample_inputs(MODEL, read_inputs({"x": x, "ids": [[1, 2], [3, 4]]}), {})
    assert arrays["x"] is x
    assert arrays["ids"].dtype == np.int64
    assert dims == {"batch": 2, "seq": 2}
    assert sample_inputs(MODEL, read_inputs({"x": x, "ids": [[], []]}), {})[0]["ids"].dtype == np.int64


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([[1.5]], "input 'ids': expected int64, found fractional numbers"),
        ([[2**63]], "input 'ids': no array of int64"),
        ([[1, 2], [3]], "input 'ids': no array of int64"),
        ([["one"]], "input 'ids': no array of int64"),
    ],
)
def test_values_that_do_not_fit_are_refused(ids: list[object], message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        sample_inputs(MODEL, read_inputs({"x": np.ones((2, 3)), "ids": ids}), {})


@pytest.mark.parametrize("content", [b"", b"not numpy", b"\x93NUMPY\x01\x00v\x00{'descr'"])
def test_files_that_hold_no_array_are_usage_errors(tmp_path, content: bytes) -> None:
    path = tmp_path / "x.npy"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=r"x\.npy"):
        FileSource(path).array(np.dtype("float32"))


def test_pickles_are_refused(tmp_path) -> None:
    path = tmp_path / "x.npy"
    np.save(path, np.array([{}], object), allow_pickle=True)
    with pytest.raises(UsageError):
        FileSource(path).array(np.dtype("float32"))


def test_raw_bits_take_the_dtype_of_the_input(tmp_path) -> None:
    array = np.array([1.5, -2.0], ml_dtypes.bfloat16)
    np.save(tmp_path / "x.npy", array)
    loaded = FileSource(tmp_path / "x.npy").array(np.dtype(ml_dtypes.bfloat16))
    assert np.array_equal(loaded, array)


@pytest.mark.parametrize("size", [10**20, 2**39])
def test_sizes_beyond_memory_are_refused(size: int) -> None:
    port = PortEntry(name="x", dtype="float32", shape=("batch", 1 << 20))
    manifest = Manifest.model_construct(
        inputs=(port,), outputs=(), dims=(DimEntry(name="batch", minimum=1, maximum=None, capacity_of=None),)
    )
    with pytest.raises(UsageError, match="there is no memory for"):
        sample_inputs(manifest, parse_sources(["x=random:0"]), {"batch": size})


@pytest.mark.parametrize("shape", [(), (1,), (3, 5), (0,), (2, 0), (100,)])
@pytest.mark.parametrize("size", [0, 1, 2, 3, 7, 64, 1001])
def test_random_strings_have_the_bytes_that_are_asked_for(shape: tuple[int, ...], size: int) -> None:
    strings = RandomSource(size).strings(shape, size)
    assert strings.shape == shape
    assert strings.tolist() == RandomSource(size).strings(shape, size).tolist()
    if strings.size:
        assert sum(len(text.encode()) for text in strings.reshape(-1)) == size
    if size > 1000 and strings.size:
        text = "".join(strings.reshape(-1))
        assert text != "".join(RandomSource(size + 1).strings(shape, size).reshape(-1))
        assert {len(letter.encode()) for letter in text} == {1, 2, 3}


STRINGS = MODEL.model_copy(
    update={
        "inputs": (
            PortEntry(name="a", dtype="string", shape=("batch",)),
            PortEntry(name="a_utf8", dtype="uint8", shape=("a_utf8",)),
        ),
        "inputs_as": (Structure("a", "string"),),
        "dims": (DimEntry(name="batch", minimum=1), DimEntry(name="a_utf8", minimum=2, maximum=20)),
    }
)


def test_lists_of_strings_stay_as_they_are() -> None:
    arrays, dims = sample_inputs(STRINGS, read_inputs({"a": ["cat", "no\0"]}), {})
    assert arrays["a"].dtype == np.dtype(object)
    assert arrays["a"].tolist() == ["cat", "no\0"]
    assert dims == {"batch": 2, "a_utf8": 6}
    with pytest.raises(ShapeError, match="an element is 1, a int, where a string is expected"):
        sample_inputs(STRINGS, read_inputs({"a": ["cat", 1]}), {})


def test_random_strings_have_eight_bytes_each_within_the_bounds() -> None:
    for batch, size in ((1, 8), (2, 16), (3, 20)):
        arrays, dims = sample_inputs(STRINGS, random_for_others(STRINGS, {}), {"batch": batch})
        assert dims == {"batch": batch, "a_utf8": size}
        assert sum(len(text.encode()) for text in arrays["a"]) == size
    _, dims = sample_inputs(STRINGS, {"a": RandomSource()}, {"a_utf8": 5})
    assert dims == {"batch": 1, "a_utf8": 5}


def test_ranges_wider_than_numbers_are_refused() -> None:
    with pytest.raises(UsageError, match="wider than the largest number"):
        parse_sources(["x=random:0:-1e400..1e400"])
