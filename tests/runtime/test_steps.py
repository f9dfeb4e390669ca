"""Every kind of step on every runtime."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import tirx

from deploykit.compiler.program.ir import BindDim, Check, Copy, CopySlice, If, Launch, Loop, Reserve, SetDim, Step
from deploykit.errors import ShapeError, UsageError
from tests.runtime.conftest import Opener
from tests.runtime.programs import Draft, elementwise, mlp_steps

pytestmark = pytest.mark.sampled(part=1)


def variable(name: str) -> tirx.Var:
    return tirx.Var(name, "int64")


@pytest.mark.parametrize("batch", [1, 5, 64])
def test_launch(run: Opener, batch: int) -> None:
    draft, steps, reference = mlp_steps()
    x = np.random.default_rng(batch).standard_normal((batch, 8), dtype=np.float32)
    np.testing.assert_allclose(run(draft, *steps)(x=x)["y"], reference(x), rtol=1e-5, atol=1e-6)


def take(dtype: str = "float32") -> tirx.PrimFunc:
    return elementwise(lambda a: a, dtype)


def test_bind_dim_reads_a_size_from_a_tensor(run: Opener) -> None:
    draft, n = Draft("bind"), variable("n")
    size = draft.dim("size")
    x, count = draft.input("x", "float32", (size,)), draft.input("count", "int32", ())
    y = draft.output("y", "float32", (n,))
    copy = draft.kernel(take(), "take")
    session = run(draft, BindDim(n, count, 0, 0, size), Reserve("y", n * 4, output=0), Launch(copy, (x, y), (n,)))
    x_value = np.arange(10, dtype=np.float32)
    for taken in (0, 3, 10):
        np.testing.assert_array_equal(session(x=x_value, count=taken)["y"], x_value[:taken])
    with pytest.raises(ShapeError, match=r"the value of 'count' must be 0\.\.10, found 11"):
        session(x=x_value, count=11)
    with pytest.raises(ShapeError, match=r"must be 0\.\.10, found -1"):
        session(x=x_value, count=-1)


def test_bind_dim_without_an_upper_bound(run: Opener) -> None:
    draft, n = Draft("bind_open"), variable("n")
    count = draft.input("count", "int64", (2,))
    y = draft.output("y", "int64", (n,))
    fill = draft.kernel(elementwise(lambda a: a, "int64"), "take")
    constant = draft.constant("zeros", np.arange(4096))
    session = run(draft, BindDim(n, count, 1, 0), Reserve("y", n * 8, output=0), Launch(fill, (constant, y), (n,)))
    np.testing.assert_array_equal(session(count=np.array([9, 4000]))["y"], np.arange(4000))
    with pytest.raises(ShapeError, match="'count' must be at least 0, found -5"):
        session(count=np.array([1, -5]))


def test_set_dim(run: Opener) -> None:
    draft, half = Draft("half"), variable("half")
    size = draft.dim("size")
    x, y = draft.input("x", "float32", (size,)), draft.output("y", "float32", (half,))
    copy = draft.kernel(take(), "take")
    steps = SetDim(half, size // 2), Reserve("y", half * 4, output=0), Launch(copy, (x, y), (half,))
    np.testing.assert_array_equal(run(draft, *steps)(x=np.arange(7, dtype=np.float32))["y"], [0, 1, 2])


def test_check(run: Opener) -> None:
    draft = Draft("check")
    a, b = draft.dim("a"), draft.dim("b")
    x, z = draft.input("x", "float32", (a,)), draft.input("z", "float32", (b,))
    y = draft.output("y", "float32", (a,))
    add = draft.kernel(elementwise(lambda p, q: p + q, "float32", "float32"), "add")
    condition = tirx.Or(a == b, b == 2 * a)
    check = Check(condition, 'cannot "add" {} to {}: 100%', (a, b))
    session = run(draft, check, Launch(add, (x, z, y), (a,)))
    ones = np.ones(6, np.float32)
    np.testing.assert_array_equal(session(x=ones[:3], z=ones)["y"], [2, 2, 2])
    with pytest.raises(ShapeError, match='cannot "add" 3 to 4: 100%'):
        session(x=ones[:3], z=ones[:4])


def test_reserve_in_the_arena_grows_a_capacity_dim(run: Opener) -> None:
    draft, n = Draft("capacity"), variable("n")
    capacity = draft.dim("room", 2, None, capacity_of="doubled")
    count = draft.input("count", "int64", ())
    y = draft.output("y", "int64", (n,))
    numbers = draft.constant("numbers", np.arange(1000))
    doubled = draft.scratch("doubled", "int64", (n,), capacity * 8)
    twice = draft.kernel(elementwise(lambda a: a * 2, "int64"), "twice")
    session = run(
        draft,
        BindDim(n, count, 0, 0, 1000),
        Reserve("doubled", n * 8, capacity * 8, capacity=capacity),
        Reserve("y", n * 8, output=0),
        Launch(twice, (numbers, doubled), (n,)),
        Launch(twice, (doubled, y), (n,)),
    )
    for taken in (1, 7, 1000, 3):
        np.testing.assert_array_equal(session(count=taken)["y"], np.arange(taken) * 4)
    with pytest.raises(UsageError, match="dim 'room' must be in 2"):
        session.peak_bytes({"room": 1})
    assert session.peak_bytes({"room": 16}) == max(run.alignment, 16 * 8)


def test_reserve_beyond_a_fixed_slot_fails(run: Opener) -> None:
    draft, n = Draft("bound"), variable("n")
    count, y = draft.input("count", "int64", ()), draft.output("y", "int64", ())
    copy = draft.kernel(elementwise(lambda a: a, "int64"), "take")
    session = run(draft, BindDim(n, count), Reserve("things", n * 8, 80), Launch(copy, (count, y), (1,)))
    assert session(count=10)["y"] == 10
    with pytest.raises(UsageError, match="'things' needs 88 bytes, found 80"):
        session(count=11)


def test_copy(run: Opener) -> None:
    draft = Draft("copies")
    size = draft.dim("size", 0)
    x, y = draft.input("x", "float64", (size, 2)), draft.output("y", "float64", (2, size))
    session = run(draft, Copy(y, x))
    x_value = np.arange(6, dtype=np.float64).reshape(3, 2)
    np.testing.assert_array_equal(session(x=x_value)["y"], x_value.reshape(2, 3))
    assert session(x=x_value[:0])["y"].shape == (2, 0)


def test_copies_check_the_room_of_outputs(run: Opener) -> None:
    """An output whose size is known only at run time grows even if no step reserves it."""
    draft, n = Draft("unreserved"), variable("n")
    count = draft.input("count", "int64", ())
    numbers = draft.constant("numbers", np.arange(3000))
    part = draft.view("part", "int64", (n,), numbers)
    y, z = draft.output("y", "int64", (n,)), draft.output("z", "int64", (n,))
    twice = draft.kernel(elementwise(lambda a: a * 2, "int64"), "twice")
    session = run(draft, BindDim(n, count, 0, 0, 3000), Copy(y, part), Launch(twice, (part, z), (n,)))
    for taken in (3000, 0, 5):
        results = session(count=taken)
        np.testing.assert_array_equal(results["y"], np.arange(taken))
        np.testing.assert_array_equal(results["z"], np.arange(taken) * 2)


def test_if(run: Opener) -> None:
    draft = Draft("branches")
    size = draft.dim("size")
    choice, x = draft.input("choice", "bool", ()), draft.input("x", "int32", (size,))
    y = draft.output("y", "int32", (size,))
    negate = draft.kernel(elementwise(lambda a: 0 - a, "int32"), "negate")
    session = run(draft, If(choice, (Launch(negate, (x, y), (size,)),), (Copy(y, x),)))
    x_value = np.arange(4, dtype=np.int32)
    np.testing.assert_array_equal(session(choice=True, x=x_value)["y"], -x_value)
    np.testing.assert_array_equal(session(choice=False, x=x_value)["y"], x_value)


def loop_program(*, bounded: bool, conditional: bool) -> tuple[Draft, tuple[Step, ...]]:
    """`x` is doubled up to `trips` times while it is below 100. `rows` records each value, `count` is their number."""
    draft = Draft("loops")
    i, count, trips = variable("i"), variable("count"), variable("trips")
    limit, x = draft.input("limit", "int64", ()), draft.input("x", "int64", (2,))
    y, rows = draft.output("y", "int64", (2,)), draft.output("rows", "int64", (count, 2))
    below = draft.scratch("below", "bool", (), 1)
    record = draft.scratch("record", "int64", (20, 2), 20 * 16)
    double = draft.kernel(elementwise(lambda a: a * 2, "int64", in_place=True), "double")
    test = draft.kernel(elementwise(lambda a: a < 100, "int64", result="bool"), "below_100")
    record_part = draft.view("record_part", "int64", (count, 2), record)
    twice = (
        CopySlice(record, y, i),
        Launch(double, (y, y), (2,)),
        Launch(test, (y, below), (1,)),
    )
    return draft, (
        BindDim(trips, limit, 0, 0, 20),
        Copy(y, x),
        Launch(test, (y, below), (1,)),
        Loop(i, trips if bounded else None, below if conditional else None, twice, count),
        Reserve("rows", count * 16, output=1),
        Copy(rows, record_part),
    )


@pytest.mark.parametrize(
    ("bounded", "conditional", "limit", "count"),
    [(True, False, 3, 3), (True, True, 20, 7), (True, True, 2, 2), (False, True, 0, 7), (True, False, 0, 0)],
)
def test_loop(run: Opener, bounded: bool, conditional: bool, limit: int, count: int) -> None:
    draft, steps = loop_program(bounded=bounded, conditional=conditional)
    results = run(draft, *steps)(limit=limit, x=np.array([1, 3]))
    expected = np.array([1, 3]) * 2 ** np.arange(count + 1)[:, None]
    np.testing.assert_array_equal(results["rows"], expected[:-1])
    np.testing.assert_array_equal(results["y"], expected[-1])


def test_formula_of_an_input_axis(run: Opener) -> None:
    draft = Draft("formula")
    n = draft.dim("n")
    x, z = draft.input("x", "float32", (n,)), draft.input("z", "float32", (2 * n + 1,))
    y = draft.output("y", "float32", (n,))
    add = draft.kernel(elementwise(lambda p, q: p + q, "float32", "float32"), "add")
    session = run(draft, Launch(add, (x, z, y), (n,)))
    assert session(x=np.ones(2, np.float32), z=np.ones(5, np.float32))["y"].tolist() == [2, 2]
    with pytest.raises(ShapeError, match=r"input 'z' axis 0 \(formula '2\*n \+ 1'\): expected 5, found 6"):
        session(x=np.ones(2, np.float32), z=np.ones(6, np.float32))


def test_sizes_with_maxima_and_divisions(run: Opener) -> None:
    """The arena's size is a maximum of quotients; its guard against overflow is computed in floating point."""
    draft = Draft("maxima")
    a, b = draft.dim("a", 0, 9 if run.runtime.bounded else None), draft.dim("b", 0, 9)
    x = draft.input("x", "float32", (a,))
    draft.input("z", "float32", (b,))
    y = draft.output("y", "float32", (a,))
    size = tirx.max(a * a * 4, tirx.max(tirx.floordiv(a * b * 8, b + 1), tirx.floormod(a - b, 7) * 4 + 4))
    scratch = draft.scratch("scratch", "float32", (a,), size)
    keep = draft.kernel(elementwise(lambda p: p, "float32"), "keep")
    session = run(draft, Launch(keep, (x, scratch), (a,)), Launch(keep, (scratch, y), (a,)))
    for m, n in ((0, 0), (3, 5), (9, 1)):
        x_value = np.arange(m, dtype=np.float32)
        np.testing.assert_array_equal(session(x=x_value, z=np.zeros(n, np.float32))["y"], x_value)
        size_there = max(m * m * 4, m * n * 8 // (n + 1), (m - n) % 7 * 4 + 4)
        assert session.peak_bytes({"a": m, "b": n}) == -(-size_there // run.alignment) * run.alignment
