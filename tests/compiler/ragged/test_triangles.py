"""Products whose reduced dim, or whose columns, end at a place that depends on the row: triangles, and what is like
them.

Rows of the right operand that only some rows of the result need hold NaN and infinite values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tvm import tirx

from deploykit import ragged
from deploykit.compiler.decisions import Declined
from deploykit.compiler.ragged.dense import instance_kernel, product_kernel
from deploykit.compiler.ragged.model import ragged_model
from deploykit.compiler.ragged.storage import Storage
from deploykit.ragged import Operator, Tensor, compute, dim, input, lengths, operator, schedule  # noqa: A004
from deploykit.sessions.session import Session
from tests.runtimes import HOST, Runtime


@dataclass(frozen=True)
class Triangle:
    """`result[i, h, j] = sum(left[i, h, k] * right[k, h, j] for k < end) + shift[i, j]`, with `end = step * i + more`,
    and the number of rows in addition if `step` is negative. `heads`: there is no `h` if it is 0. `batched`: for each
    instance of a batch. `stored`: the left operand has only elements that are read."""

    step: int = 1
    more: int = 1
    heads: int = 0
    batched: bool = True
    stored: bool = True

    def end(self, row: int, rows: int) -> int:
        return self.step * row + self.more + (rows if self.step < 0 else 0)

    def depth(self, rows: int) -> int:
        return rows * max(self.step, 1) + self.more

    def operator(self, *, loops: bool = False) -> Operator:
        """With `loops`, the result is computed in plain loops."""
        batch = dim("batch", maximum=8)
        length = lengths("lengths", batch, maximum=800)
        row = dim("row", length[batch]) if self.batched else dim("row", maximum=800)
        end = row * self.step + self.more + (row.extent if self.step < 0 else 0)
        term, depth = dim("term", end), dim("depth", row.extent * max(self.step, 1) + self.more)
        lead = (batch,) if self.batched else ()
        head = (dim("head", self.heads),) if self.heads else ()
        column = dim("column", maximum=300)
        left = input("left", (*lead, row, *head, term if self.stored else depth))
        right, shift = input("right", (*lead, depth, *head, column)), input("shift", (*lead, row, column))
        total = ragged.sum(left[(*lead, row, *head, term)] * right[(*lead, term, *head, column)], term)
        result = compute("result", (*lead, row, *head, column), total + shift[(*lead, row, column)])
        return operator("triangle", result, schedules=[schedule(result)] if loops else [])

    def check(self, session: Session, rows: Sequence[int], columns: int) -> None:
        random = np.random.default_rng(len(rows) + columns)
        empty = np.zeros(0, np.float32)
        lefts, results = [empty], [empty]
        rights = [np.zeros((0, *([self.heads] * (self.heads > 0)), columns), np.float32)]
        shifts = [np.zeros((0, columns), np.float32)]
        for count in rows:
            heads, depth = max(self.heads, 1), self.depth(count)
            left = random.standard_normal((count, heads, depth), dtype=np.float32)
            right = random.standard_normal((depth, heads, columns), dtype=np.float32)
            shift = random.standard_normal((count, columns), dtype=np.float32)
            right[random.integers(depth // 3, depth, size=depth // 10)] = random.choice([np.nan, np.inf, -np.inf])
            for i in range(count):
                end = self.end(i, count)
                lefts.append((left[i, :, :end] if self.stored else left[i]).reshape(-1))
                with np.errstate(invalid="ignore"):
                    results.append((np.einsum("hk,khj->hj", left[i, :, :end], right[:end]) + shift[i]).reshape(-1))
            rights.append(right.reshape(depth, *rights[0].shape[1:]))
            shifts.append(shift)
        arrays = {"left": np.concatenate(lefts), "right": np.concatenate(rights), "shift": np.concatenate(shifts)}
        if not self.batched and not self.stored:
            arrays["left"] = arrays["left"].reshape(*rows, *rights[0].shape[1:-1], -1)
        ranks = {port.name: len(port.shape) for port in ragged_model(self.operator()).inputs}
        given = {name: array.reshape(-1) if ranks[name] == 1 else array for name, array in arrays.items()}
        if self.batched:
            given["lengths"] = np.array(rows, np.int64)
        found = session(**given)["result"]
        values = np.asarray(getattr(found, "values", found)).reshape(-1)
        np.testing.assert_allclose(values, np.concatenate(results), rtol=1e-3, atol=1e-3)


CASES = {
    "triangle": Triangle(),
    "without a diagonal": Triangle(more=0),
    "steep": Triangle(step=3, more=2),
    "falling": Triangle(step=-1, more=0),
    "heads": Triangle(heads=3),
    "within a square": Triangle(stored=False),
    "alone": Triangle(batched=False),
    "alone within a square": Triangle(batched=False, stored=False, more=0, heads=2),
    "alone and falling": Triangle(batched=False, step=-1, heads=2),
}


@pytest.mark.sampled(part=8)
@pytest.mark.parametrize("name", CASES)
def test_results(runtime: Runtime, name: str) -> None:
    case = CASES[name]
    with runtime.session(ragged_model(case.operator())) as session:
        if not case.batched:
            for rows in (1, 5, 40):
                case.check(session, [rows], 19)
            return
        case.check(session, [5, 0, 31, 1], 19)
        case.check(session, [40], 3)
        case.check(session, [0], 2)


@pytest.mark.sampled(part=8)
@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_sizes_around_tiles_and_chunks(name: str) -> None:
    case = CASES[name]
    with HOST.session(ragged_model(case.operator())) as session:
        for rows in (11, 12, 13, 25, 192, 193, 205, 417, 600):
            case.check(session, [rows], 65)
        if case.batched:
            case.check(session, [300, 2, 417, 48, 0, 96], 31)


@pytest.mark.slow
@given(
    st.builds(
        Triangle, st.sampled_from([1, 2, -1]), st.integers(0, 3), st.integers(0, 2), st.booleans(), st.booleans()
    ),
    st.lists(st.integers(1, 90), min_size=1, max_size=4),
    st.integers(1, 70),
)
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
def test_random_triangles(case: Triangle, rows: list[int], columns: int) -> None:
    with HOST.session(ragged_model(case.operator())) as session:
        case.check(session, rows if case.batched else rows[:1], columns)


@pytest.mark.parametrize("name", ["triangle", "alone", "falling"])
def test_plain_loops_compute_the_same(name: str) -> None:
    case = CASES[name]
    with HOST.session(ragged_model(case.operator(loops=True))) as session:
        case.check(session, [77], 33)


@pytest.mark.parametrize("name", CASES)
def test_a_dense_kernel_computes_them(name: str) -> None:
    (result,) = CASES[name].operator().outputs
    storage = storage_of(result)
    found = (instance_kernel if CASES[name].batched else product_kernel)(storage, result)
    assert not isinstance(found, Declined)


@dataclass(frozen=True)
class Scores:
    """`result[i, h, j] = sum(left[i, h, k] * right[j, h, k] for k < depth) * 2 + shift[i]` for `j < end`, with the end
    of a `Triangle`. `outer`: `h` comes before `i` in the result. `turned`: the right operand is `right[k, h, j]`."""

    ends: Triangle = Triangle()
    depth: int = 16
    outer: bool = False
    turned: bool = False

    def operator(self, *, loops: bool = False) -> Operator:
        ends = self.ends
        batch = dim("batch", maximum=8)
        length = lengths("lengths", batch, maximum=800)
        row, depth = dim("row", length[batch]), dim("depth", self.depth)
        column = dim("column", row * ends.step + ends.more + (row.extent if ends.step < 0 else 0))
        across = dim("across", row.extent * max(ends.step, 1) + ends.more)
        head = (dim("head", ends.heads),) if ends.heads else ()
        left, shift = input("left", (batch, row, *head, depth)), input("shift", (batch, row))
        order = (depth, *head, across) if self.turned else (across, *head, depth)
        at = (depth, *head, column) if self.turned else (column, *head, depth)
        total = ragged.sum(left[(batch, row, *head, depth)] * input("right", (batch, *order))[(batch, *at)], depth)
        dims = (batch, *head, row, column) if self.outer else (batch, row, *head, column)
        result = compute("result", dims, total * 2 + shift[batch, row])
        return operator("scores", result, schedules=[schedule(result)] if loops else [])

    def check(self, session: Session, rows: Sequence[int]) -> None:
        random = np.random.default_rng(len(rows))
        ends, heads, empty = self.ends, max(self.ends.heads, 1), np.zeros(0, np.float32)
        lefts, rights, shifts, results = [empty], [empty], [empty], [empty]
        for count in rows:
            across = ends.depth(count)
            left = random.standard_normal((count, heads, self.depth), dtype=np.float32)
            right = random.standard_normal((across, heads, self.depth), dtype=np.float32)
            shift = random.standard_normal(count, dtype=np.float32)
            right[random.integers(0, across, size=across // 10)] = random.choice([np.nan, np.inf, -np.inf])
            with np.errstate(invalid="ignore"):
                whole = np.einsum("ihk,jhk->ihj", left, right) * 2 + shift[:, None, None]
            places = [(i, h) for i in range(count) for h in range(heads)]
            for i, h in sorted(places, key=lambda place: place[::-1]) if self.outer else places:
                results.append(whole[i, h, : ends.end(i, count)])
            lefts.append(left.reshape(-1))
            rights.append((right.transpose(2, 1, 0) if self.turned else right).reshape(-1))
            shifts.append(shift)
        arrays = {"left": lefts, "right": rights, "shift": shifts}
        given = {name: np.concatenate(parts) for name, parts in arrays.items()}
        for port in ragged_model(self.operator()).inputs:
            if len(port.shape) > 1:
                given[port.name] = given[port.name].reshape(sum(rows), *map(int, port.shape[1:]))  # type: ignore[arg-type]
        found = session(**given, lengths=np.array(rows, np.int64))["result"]
        values = np.asarray(getattr(found, "values", found)).reshape(-1)
        np.testing.assert_allclose(values, np.concatenate(results), rtol=1e-3, atol=1e-3)


SCORES = {
    "triangle": Scores(),
    "heads": Scores(Triangle(heads=2), depth=5, outer=True),
    "inner heads": Scores(Triangle(heads=3, more=0)),
    "by columns": Scores(Triangle(more=2), turned=True),
    "falling": Scores(Triangle(step=-1, more=0, heads=2), outer=True, depth=9),
    "steep": Scores(Triangle(step=3, more=2), depth=1),
    "deep": Scores(depth=3000),
}


@pytest.mark.sampled(part=8)
@pytest.mark.parametrize("name", SCORES)
def test_columns(runtime: Runtime, name: str) -> None:
    case = SCORES[name]
    with runtime.session(ragged_model(case.operator())) as session:
        case.check(session, [5, 0, 31, 1])
        case.check(session, [40])
        case.check(session, [0])


@pytest.mark.sampled(part=8)
@pytest.mark.slow
@pytest.mark.parametrize("name", SCORES)
def test_columns_around_tiles_and_panels(name: str) -> None:
    case = SCORES[name]
    with HOST.session(ragged_model(case.operator())) as session:
        for rows in (11, 12, 13, 25, 32, 33, 193, 417):
            case.check(session, [rows])
        case.check(session, [300, 2, 417, 48, 0, 96])


@pytest.mark.slow
@given(
    st.builds(
        Scores,
        st.builds(Triangle, st.sampled_from([1, 2, -1]), st.integers(0, 3), st.integers(0, 2)),
        st.integers(1, 70),
        st.booleans(),
        st.booleans(),
    ),
    st.lists(st.integers(1, 90), min_size=1, max_size=4),
)
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
def test_random_columns(case: Scores, rows: list[int]) -> None:
    with HOST.session(ragged_model(case.operator())) as session:
        case.check(session, rows)


@pytest.mark.parametrize("name", ["triangle", "falling"])
def test_plain_loops_compute_the_same_columns(name: str) -> None:
    case = SCORES[name]
    with HOST.session(ragged_model(case.operator(loops=True))) as session:
        case.check(session, [77])


@pytest.mark.parametrize("name", SCORES)
def test_a_dense_kernel_computes_columns(name: str) -> None:
    (result,) = SCORES[name].operator().outputs
    assert not isinstance(instance_kernel(storage_of(result), result), Declined)


def storage_of(tensor: Tensor) -> Storage:
    dims = [*tensor.dims, *(tensor.reduction.dims if tensor.reduction else ())]
    return Storage({size: tirx.Var(size.name, "int64") for each in dims for size in each.extent.sizes()})


def refused() -> dict[str, Tensor]:
    """Products that have ends, and which the rule for them does not take."""
    row, column = dim("row", 9), dim("column", 9)
    term, across = dim("term", row + 1), dim("across", column + 1)
    inner = lengths("inner", row, maximum=9)
    counted = dim("counted", inner[row])
    square = dim("square", 9)
    many, wide = input("many", (row, square)), input("wide", (square, column))
    ragged_left = input("ragged_left", (row, counted))
    return {
        "it ends with the column": compute(
            "a", (row, column), ragged.sum(many[row, across] * wide[across, column], across)
        ),
        "it ends with lengths": compute(
            "b", (row, column), ragged.sum(ragged_left[row, counted] * wide[counted, column], counted)
        ),
        "it is no product": compute("c", (row, column), ragged.sum(many[row, term] + wide[term, column], term)),
    }


@pytest.mark.parametrize("name", refused())
def test_declined(name: str) -> None:
    tensor = refused()[name]
    assert isinstance(product_kernel(storage_of(tensor), tensor), Declined)
