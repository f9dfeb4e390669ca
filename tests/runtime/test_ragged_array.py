"""`Ragged`, and ragged inputs and outputs of a session."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deploykit import Ragged
from deploykit.errors import ShapeError


def test_a_ragged_array_has_values_lengths_and_offsets() -> None:
    ragged = Ragged.of([[1, 2, 3], [], [4]])
    assert ragged.values.tolist() == [1, 2, 3, 4]
    assert ragged.lengths.tolist() == [3, 0, 1]
    assert ragged.offsets.tolist() == [0, 3, 3, 4]
    assert ragged.shapes.tolist() == [[3], [0], [1]]
    assert ragged.lengths.dtype == ragged.offsets.dtype == np.int64
    assert len(ragged) == 3
    assert [each.tolist() for each in ragged] == [[1, 2, 3], [], [4]]
    assert ragged[-1].tolist() == [4]
    assert repr(ragged) == "Ragged(int64[lengths], lengths=[3, 0, 1])"


def test_instances_are_views() -> None:
    ragged = Ragged(np.arange(12.0).reshape(4, 3), [3, 1])
    ragged[1][:] = 0
    assert ragged.values[3].tolist() == [0, 0, 0]
    assert ragged.shapes.tolist() == [[3, 3], [1, 3]]


def test_instances_with_several_ragged_extents_have_shapes() -> None:
    ragged = Ragged.of([np.ones((2, 3)), np.zeros((4, 1))], flat=True)
    assert ragged.values.shape == (10,)
    assert ragged.lengths.tolist() == ragged.shapes.tolist() == [[2, 3], [4, 1]]
    assert [each.shape for each in ragged] == [(2, 3), (4, 1)]
    padded = ragged.padded(fill=7)
    assert padded.shape == (2, 4, 3)
    assert padded[0, 2:].tolist() == [[7] * 3] * 2
    assert padded[1, :, 1:].tolist() == [[7] * 2] * 4


@pytest.mark.parametrize("rest", [(), (3,), (2, 2)])
def test_padding_fills_the_end_of_each_instance(rest: tuple[int, ...]) -> None:
    padded = Ragged(np.ones((5, *rest), np.float32), [3, 0, 2]).padded(-1)
    assert padded.shape == (3, 3, *rest)
    assert padded.dtype == np.float32
    assert (padded[:, :, ...].reshape(3, 3, -1)[..., 0] == [[1, 1, 1], [-1, -1, -1], [1, 1, -1]]).all()


def test_an_empty_batch_has_no_values() -> None:
    for ragged in (Ragged.of([]), Ragged(np.zeros((0, 4)), []), Ragged.of([], flat=True)):
        assert len(ragged) == 0
        assert list(ragged) == []
        assert ragged.offsets.tolist() == [0]
        assert ragged.padded().shape[0] == 0
    assert Ragged(np.zeros((0, 4)), []).padded().shape == (0, 0, 4)


@given(st.lists(st.integers(0, 5), max_size=6), st.integers(0, 3))
def test_instances_come_back_as_they_were(lengths: list[int], width: int) -> None:
    instances = [np.random.default_rng(n).random((n, width)) for n in lengths]
    ragged = Ragged.of(instances)
    assert all(np.array_equal(a, b) for a, b in zip(ragged, instances, strict=True))
    for row, instance in zip(ragged.padded(), instances, strict=True):
        assert np.array_equal(row[: len(instance)], instance)
        assert not row[len(instance) :].any()


def test_lists_take_the_dtype_of_the_arrays_beside_them() -> None:
    assert Ragged.of([[1, 2], np.float32([3])]).dtype == np.float32
    assert Ragged.of([[1], [2.5]]).dtype == np.float64
    assert Ragged.of([[], [2]]).dtype == np.int64
    assert Ragged.of([[1], []], ml_dtypes.bfloat16).dtype == ml_dtypes.bfloat16


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Ragged([1, 2], [1, -1]), "a length must be at least 0, found -1 for instance 1"),
        (lambda: Ragged([1, 2], [1, 2]), "the lengths add up to 3, but there are 2 values"),
        (lambda: Ragged([1, 2], [1.0, 1.0]), "lengths must be whole numbers, found float64"),
        (lambda: Ragged([1, 2], 2), r"found values of shape \(2,\) with lengths of shape \(\)"),
        (lambda: Ragged(1, [1]), r"found values of shape \(\) with lengths of shape \(1,\)"),
        (lambda: Ragged([[1], [2]], [[1, 2]]), r"found values of shape \(2, 1\) with lengths of shape \(1, 2\)"),
        (lambda: Ragged([1, 2], [[1, 2], [3]]), "lengths must be an array of whole numbers"),
        (lambda: Ragged([1, 2], [[1, 3]]), "the sizes of the instances add up to 3, but there are 2 values"),
        (
            lambda: Ragged.of([np.zeros((2, 3)), np.zeros((2, 4))]),
            r"instance 1 has shape \(2, 4\), expected \[length, 3\]",
        ),
        (lambda: Ragged.of([np.zeros(2), np.zeros((2, 4))]), r"instance 1 has shape \(2, 4\), expected \[length\]"),
        (lambda: Ragged.of([np.zeros(2), 3]), r"instance 1 has shape \(\), expected \[length\]"),
        (lambda: Ragged.of([np.zeros((2, 3)), np.zeros(2)], flat=True), r"expected \[length, \.\.\.\]"),
        (lambda: Ragged.of([np.zeros(2), np.zeros(2, np.float32)]), "instance 1 has dtype float32, expected float64"),
        (lambda: Ragged.of([[1.5]], np.int64), "instance 0 has fractional numbers, expected int64"),
        (lambda: Ragged.of([[300]], np.uint8), "instance 0 is no array of uint8"),
        (lambda: Ragged.of([[[1, 2], [3]]]), "instance 0 is no array of numbers"),
    ],
)
def test_what_does_not_fit_together_is_refused(make: Any, message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        make()


def test_other_instances_are_index_errors() -> None:
    with pytest.raises(IndexError, match="there is no instance 2: there are 2"):
        Ragged.of([[1], [2]])[2]
