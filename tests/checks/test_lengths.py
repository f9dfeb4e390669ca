"""Lengths of ragged inputs, given and random."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deploykit import Ragged
from deploykit.artifact.manifest import DimEntry, Manifest, MemoryEntry, PaddedEntry, PortEntry
from deploykit.checks.lengths import read_lengths
from deploykit.checks.samples import given_sizes, random_for_others, sample_inputs
from deploykit.checks.sources import read_inputs
from deploykit.errors import ShapeError, UsageError
from deploykit.sessions.ragged_ports import ragged_ports

MODEL = Manifest(
    generator="test",
    name="model",
    prefix="model",
    target="host",
    inputs=(
        PortEntry(name="x", dtype="float32", shape=("tokens", 4), instance=("lengths", 4)),
        PortEntry(name="ids", dtype="int64", shape=("tokens",), instance=("lengths",)),
        PortEntry(name="lengths", dtype="int64", shape=("batch",)),
    ),
    outputs=(),
    dims=(DimEntry(name="batch", minimum=1, maximum=64), DimEntry(name="tokens", minimum=0)),
    peak_memory=MemoryEntry(formula="0", weights=0),
    padded=(PaddedEntry(dim="seq", batch="batch", lengths="lengths", masks=("mask",), maximum=40),),
    files=(),
)

MATRICES = MODEL.model_copy(
    update={
        "inputs": (
            PortEntry(name="a", dtype="float32", shape=("total",), instance=("m", "k")),
            PortEntry(name="m", dtype="int64", shape=("batch",)),
            PortEntry(name="k", dtype="int64", shape=("batch",)),
        ),
        "dims": (DimEntry(name="batch", minimum=0), DimEntry(name="total", minimum=0)),
        "padded": (),
    }
)


def sample(manifest: Manifest, inputs: dict[str, Any], sizes: dict[str, int]) -> tuple[dict[str, Any], dict[str, int]]:
    return sample_inputs(manifest, random_for_others(manifest, read_inputs(inputs)), sizes)


@given(st.integers(1, 64), st.integers(1, 40), st.integers(0, 3))
def test_random_lengths_reach_the_longest(batch: int, longest: int, seed: int) -> None:
    sources = random_for_others(MODEL, {}, seed)
    arrays, dims = sample_inputs(MODEL, sources, {"batch": batch, "seq": longest})
    assert arrays["lengths"].shape == (batch,)
    assert arrays["lengths"].max() == longest
    assert arrays["lengths"].min() >= 0
    assert dims == {"batch": batch, "seq": longest, "tokens": arrays["lengths"].sum()}
    assert arrays["x"].shape == (dims["tokens"], 4)
    assert arrays["ids"].shape == (dims["tokens"],)


@given(st.integers(1, 64), st.data(), st.integers(0, 3))
def test_random_lengths_add_up(batch: int, data: st.DataObject, seed: int) -> None:
    tokens = data.draw(st.integers(0, 40 * batch))
    arrays, dims = sample_inputs(MODEL, random_for_others(MODEL, {}, seed), {"batch": batch, "tokens": tokens})
    lengths = arrays["lengths"]
    assert lengths.sum() == dims["tokens"] == tokens == len(arrays["ids"])
    assert lengths.max() == dims["seq"] <= 40
    assert lengths.min() >= min(1, tokens // batch)


def test_sum_and_longest_can_be_chosen_together() -> None:
    arrays, _ = sample(MODEL, {}, {"batch": 5, "tokens": 60, "seq": 30})
    assert (arrays["lengths"].sum(), arrays["lengths"].max()) == (60, 30)


@pytest.mark.parametrize(
    "sizes", [{"batch": 2, "tokens": 81}, {"batch": 2, "tokens": 9, "seq": 10}, {"batch": 2, "tokens": 9, "seq": 4}]
)
def test_sums_that_cannot_be_are_refused(sizes: dict[str, int]) -> None:
    with pytest.raises(UsageError, match="do not fit into 2 instances of at most"):
        sample(MODEL, {}, sizes)


def test_lengths_need_no_source() -> None:
    arrays, dims = sample_inputs(MODEL, read_inputs({"x": "random:1", "ids": "random:2"}), {})
    assert dims == {"batch": 1, "seq": 16, "tokens": 16}
    assert arrays["lengths"].tolist() == [16]


def test_given_lengths_determine_the_sizes() -> None:
    arrays, dims = sample(MODEL, {"lengths": [3, 0, 7]}, {})
    assert arrays["lengths"].tolist() == [3, 0, 7]
    assert dims == {"batch": 3, "tokens": 10, "seq": 7}
    assert given_sizes(MODEL, random_for_others(MODEL, read_inputs({"lengths": [3, 0, 7]}))) == dims
    with pytest.raises(UsageError, match="with these lengths 'seq' is 7, not 9"):
        sample(MODEL, {"lengths": [3, 0, 7]}, {"seq": 9})
    with pytest.raises(UsageError, match="with these lengths 'tokens' is 10, not 9"):
        sample(MODEL, {"lengths": [3, 0, 7]}, {"tokens": 9})


@pytest.mark.parametrize("ids", [[[1, 2], [3]], Ragged([1, 2, 3], [2, 1])])
def test_instances_determine_the_lengths(ids: Any) -> None:
    arrays, dims = sample(MODEL, {"ids": ids}, {})
    assert arrays["ids"].tolist() == [1, 2, 3]
    assert arrays["lengths"].tolist() == [2, 1]
    assert arrays["x"].shape == (3, 4)
    assert dims == {"batch": 2, "tokens": 3, "seq": 2}


def test_values_alone_tell_the_sum_of_random_lengths() -> None:
    arrays, dims = sample(MODEL, {"ids": np.arange(50)}, {"batch": 3})
    assert arrays["lengths"].sum() == dims["tokens"] == 50
    with pytest.raises(ShapeError, match="input 'lengths' is missing"):
        sample_inputs(MODEL, read_inputs({"ids": np.arange(50), "x": "random:0"}), {})


def test_files_hold_values_and_lengths(tmp_path: Path) -> None:
    np.savez(tmp_path / "one.npz", ids=np.arange(3), ids_lengths=[1, 2])
    np.savez(tmp_path / "two.npz", values=np.arange(3), lengths=[1, 2])
    np.save(tmp_path / "ids.npy", np.arange(3))
    np.save(tmp_path / "lengths.npy", [1, 2])
    one, two = ({"ids": f"{tmp_path}/{name}.npz"} for name in ("one", "two"))
    apart = {"ids": f"{tmp_path}/ids.npy", "lengths": f"{tmp_path}/lengths.npy"}
    for inputs in (one, two, apart):
        arrays, dims = sample(MODEL, inputs, {})
        assert arrays["ids"].tolist() == [0, 1, 2]
        assert dims == {"batch": 2, "tokens": 3, "seq": 2}
    np.savez(tmp_path / "none.npz", values=np.arange(3))
    with pytest.raises(UsageError, match="has no array called ids_lengths or lengths"):
        sample(MODEL, {"ids": f"{tmp_path}/none.npz"}, {})


def test_several_extents_are_drawn_apart() -> None:
    arrays, dims = sample(MATRICES, {}, {"batch": 6, "m": 3, "k": 5})
    m, k = arrays["m"], arrays["k"]
    assert (m.max(), k.max()) == (3, 5)
    assert arrays["a"].shape == (dims["total"],) == ((m * k).sum(),)
    with pytest.raises(UsageError, match="with these lengths 'total' is"):
        sample(MATRICES, {}, {"batch": 6, "total": 10**6})


def test_lengths_are_read() -> None:
    one, several = ragged_ports(MODEL), ragged_ports(MATRICES)
    assert read_lengths(one, ["12,80,7"])["lengths"].value.tolist() == [12, 80, 7]
    assert read_lengths(several, ["m=1,2", "k=3,4"]).keys() == {"m", "k"}
    for ports, texts, message in [
        (several, ["1,2"], "its inputs with lengths are m, k"),
        (None, ["1,2"], "the model has no ragged inputs"),
        (one, ["n=1"], "its inputs with lengths are lengths"),
        (one, ["1,,2"], "write LENGTH,LENGTH"),
        (one, ["1,-2"], "write LENGTH,LENGTH"),
        (one, ["1", "2"], "given twice"),
    ]:
        with pytest.raises(UsageError, match=message):
            read_lengths(ports, texts)
