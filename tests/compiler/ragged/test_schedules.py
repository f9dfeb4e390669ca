"""Schedules compute what the operator says, and loops that cannot be so are refused."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import tirx

from deploykit import ragged
from deploykit.compiler.ragged.kernels import kernel_of
from deploykit.compiler.ragged.loops import hoisted
from deploykit.compiler.ragged.model import ragged_model
from deploykit.compiler.ragged.storage import Storage
from deploykit.errors import UsageError
from deploykit.ragged import Schedule, compute, dim, lengths, operator, schedule
from tests.compiler.ragged.reference import Reference
from tests.compiler.ragged.runs import inputs_of
from tests.runtimes import HOST, Runtime

batch = dim("batch", maximum=8)
length = lengths("lengths", batch, maximum=40)
row, column = dim("row", length[batch]), dim("column", length[batch])
below, width, out = dim("below", row + 1), dim("width", 12), dim("out", 20)
x, w = ragged.input("x", (batch, row, width)), ragged.input("w", (width, out))
y = compute("y", (batch, row, out), ragged.sum(x[batch, row, width] * w[width, out], width))
scores = compute("scores", (batch, row, column), ragged.sum(x[batch, row, width] * x[batch, column, width], width))
totals = compute("totals", (batch, row), ragged.sum(x[batch, below, 0] * x[batch, row, 1], below))
doubled = compute("doubled", (batch, row, width), x[batch, row, width] * 2)

SCHEDULES: dict[str, Schedule] = {
    "as written": schedule(y),
    "fused": schedule(y).fuse("batch", "row").parallel("batch.row"),
    "fused and split": schedule(y).fuse("batch", "row").split("batch.row", 4).parallel("batch.row.outer"),
    "all fused": schedule(scores).fuse("batch", "row").fuse("batch.row", "column").parallel("batch.row.column"),
    "dense fused": schedule(y).fuse("row", "out"),
    "fused twice": schedule(y).fuse("batch", "row").fuse("batch.row", "out").parallel("batch.row.out"),
    "tiled": schedule(scores)
    .tile("row", "column", 3, 8)
    .reorder("width", "row.inner", "column.inner")
    .vectorize("column.inner")
    .unroll("row.inner")
    .parallel("batch"),
    "split twice": schedule(y).split("out", 8).split("out.inner", 3),
    "reduced vector": schedule(y).split("width", 8).vectorize("width.inner"),
    "tail of a reduced vector": schedule(totals).split("below", 4).vectorize("below.inner"),
    "remapped": schedule(totals).remap("batch").parallel("batch"),
    "outermost width": schedule(doubled).reorder("width", "batch", "row"),
}


@pytest.mark.sampled(part=4)
@pytest.mark.parametrize("name", SCHEDULES)
def test_results(runtime: Runtime, name: str) -> None:
    made = SCHEDULES[name]
    wanted = operator("scheduled", made.tensor, schedules=[made])
    with runtime.session(ragged_model(wanted)) as session:
        for given in ([3, 0, 17, 1, 8], [], [0, 0], [40]):
            inputs, sizes = inputs_of(wanted, {"lengths": given})
            found = session(**inputs)[made.tensor.name]
            expected = Reference(wanted, sizes, inputs).flat(made.tensor)
            values = np.asarray(getattr(found, "values", found)).reshape(-1)
            np.testing.assert_allclose(values, expected, rtol=2e-5, atol=2e-5)


mixed = compute(
    "mixed", (batch, row, width), ragged.sum(scores[batch, row, column] * x[batch, column, width], column) * 0.5
)


@pytest.mark.sampled(part=6)
def test_products_of_instances_without_a_schedule(runtime: Runtime) -> None:
    """They are computed by the dense kernel for one instance, on a GPU, too."""
    wanted = operator("mixed", mixed)
    with runtime.session(ragged_model(wanted)) as session:
        for given in ([3, 0, 17, 1, 40], [], [0, 0], [40]):
            inputs, sizes = inputs_of(wanted, {"lengths": given})
            found = session(**inputs)["mixed"].values.reshape(-1)
            expected = Reference(wanted, sizes, inputs).flat(mixed)
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_several_tensors_in_one_parallel_loop(runtime: Runtime) -> None:
    left = schedule(doubled).fuse("batch", "row").parallel("batch.row")
    middle = schedule(totals).parallel("batch")
    right = schedule(scores).split("batch", 2).parallel("batch.outer")
    tensors = [each.tensor for each in (left, middle, right)]
    wanted = operator("several", *tensors, schedules=[left, middle, right], together=[tensors])
    with runtime.session(ragged_model(wanted)) as session:
        for given in ([3, 0, 17, 1, 8], [], [0]):
            inputs, sizes = inputs_of(wanted, {"lengths": given})
            results, expected = session(**inputs), Reference(wanted, sizes, inputs)
            for tensor in tensors:
                found = results[tensor.name]
                values = np.asarray(getattr(found, "values", found)).reshape(-1)
                np.testing.assert_allclose(values, expected.flat(tensor), rtol=2e-5, atol=2e-5)


def test_tensors_that_depend_on_each_other_are_not_computed_together() -> None:
    first = schedule(doubled).parallel("batch")
    after = schedule(compute("after", (batch, row, width), doubled[batch, row, width] + 1)).parallel("batch")
    with pytest.raises(UsageError, match="depend on each other"):
        operator("several", after.tensor, schedules=[first, after], together=[[doubled, after.tensor]])
    with pytest.raises(UsageError, match="needs one parallel loop"):
        operator("several", after.tensor, schedules=[after], together=[[doubled, after.tensor]])


def padded(storage: int, loop: int, operand: int = 1) -> Schedule:
    source = ragged.input("source", (batch, row, width), padding={row: operand})
    target = compute("target", (batch, row, width), source[batch, row, width] + 1, padding={row: storage})
    return schedule(target).pad("row", loop)


@pytest.mark.parametrize(("storage", "loop"), [(4, 4), (8, 4), (6, 3)])
def test_a_padded_loop_computes_only_padding_in_addition(storage: int, loop: int) -> None:
    made = padded(storage, loop, storage).split("row", loop).reorder("row.outer", "width", "row.inner")
    wanted = operator("padded", made.tensor, schedules=[made])
    with HOST.session(ragged_model(wanted)) as session:
        inputs, sizes = inputs_of(wanted, {"lengths": [3, 0, 5]})
        expected = Reference(wanted, sizes, inputs).flat(made.tensor)
        found = session(**inputs)["target"].reshape(-1)
        real = ~np.isnan(expected)
        np.testing.assert_array_equal(found[real], expected[real])
        assert not real.all()


def test_padding_never_reaches_a_valid_result() -> None:
    source = ragged.input("source", (batch, row, width), padding={row: 8})
    total = compute("total", (batch, width), ragged.sum(source[batch, row, width], row))
    wanted = operator("poisoned", total)
    with HOST.session(ragged_model(wanted)) as session:
        inputs, sizes = inputs_of(wanted, {"lengths": [3, 0, 8, 9]})
        reference = Reference(wanted, sizes, inputs)
        places = list(reference.indices(source.dims, source.padding))
        outside = [at[1] >= inputs["lengths"][at[0]] for at in places]
        inputs["source"].reshape(-1)[outside] = np.nan
        np.testing.assert_allclose(session(**inputs)["total"].reshape(-1), reference.flat(total), rtol=1e-5)


def beyond_the_last_row() -> Schedule:
    """A padded loop, whose padding sums up rows that are not stored."""
    source = ragged.input("source", (batch, row))
    total = compute("total", (batch, row), ragged.sum(source[batch, below], below), padding={row: 4})
    return schedule(total).pad("row", 4)


REFUSED = {
    "'source' is stored with padding to a multiple of 1": beyond_the_last_row,
    "'row' must stay inside of 'batch'": lambda: schedule(y).reorder("row", "batch"),
    "'below' must stay inside of 'row'": lambda: schedule(totals).reorder("below", "row"),
    "stored with padding to a multiple of 4": lambda: padded(4, 8, 8),
    "stored with padding to a multiple of 1": lambda: padded(4, 4, 1),
    "cannot be padded": lambda: schedule(totals).pad("below", 4),
    "not the next one": lambda: schedule(y).fuse("batch", "out"),
    "one is reduced": lambda: schedule(totals).fuse("row", "below"),
    "only loops over whole dims": lambda: schedule(y).split("batch", 2).fuse("batch.inner", "row"),
    "must be `.inner` of a split": lambda: schedule(y).reorder("width", "out"),
    "'row.inner' must stay inside of 'row.outer'": lambda: (
        schedule(y).split("row", 4).reorder("row.inner", "row.outer")
    ),
    "cannot be vectorised": lambda: schedule(y).vectorize("out"),
    "at most 64": lambda: schedule(doubled).split("width", 128).vectorize("width.inner"),
    "cannot be parallel": lambda: schedule(y).parallel("row"),
    "no loop 'rows'": lambda: schedule(y).split("rows", 2),
    "cannot be remapped": lambda: schedule(y).remap("out"),
    "nothing computes it": lambda: schedule(x),
}


@pytest.mark.parametrize("message", REFUSED)
def test_refused(message: str) -> None:
    with pytest.raises(UsageError, match=message):
        REFUSED[message]()


def test_a_loop_over_all_rows_has_no_indices_of_instances() -> None:
    """Elements of fused dims are at the index of the fused loop, so the array of owners is not read."""
    made = schedule(doubled).fuse("batch", "row").parallel("batch.row")
    (size,) = batch.extent.sizes()
    storage = Storage({size: tirx.Var("batch", "int64")})
    kernel = kernel_of(storage, made)
    text = str(hoisted(kernel.body, set(kernel.arrays)))
    assert "doubled[batch_row * T.int64(12) + width]" in text
