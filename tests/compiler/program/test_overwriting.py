"""The inputs in whose memory a kernel's result may be written: examples, and random kernels that run this way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from tvm import te, tirx, topi

from deploykit.compiler.program.overwriting import overwritable_inputs
from deploykit.compiler.schedules import Device
from tests.compiler.program.kernels import SIZES, Kernel, M, N, kernels
from tests.compiler.schedules.harness import BOTH, Compiled, fenced


def of(shapes: Sequence[tuple], build: Callable[..., te.Tensor], dtypes: Sequence[str] = ()) -> tuple[int, ...]:
    """The positions of the inputs that may be overwritten. They have these shapes, and dtype float32 by default."""
    dtypes = [*dtypes, *["float32"] * (len(shapes) - len(dtypes))]
    inputs = [te.placeholder(s, d, name=f"x{i}") for i, (s, d) in enumerate(zip(shapes, dtypes, strict=True))]
    results = build(*inputs)
    results = results if isinstance(results, list) else [results]
    return overwritable_inputs(te.create_prim_func([*inputs, *results], index_dtype_override="int64"))


def twice(x: te.Tensor) -> te.Tensor:
    return te.compute(x.shape, lambda *i: x(*i) * 2, name="twice")


def transposed(x: te.Tensor) -> te.Tensor:
    return te.compute(list(x.shape)[::-1], lambda i, j: x(j, i), name="transposed")


def test_operands_read_where_the_result_is_written() -> None:
    assert of([(N, M), (N, M), (M,)], lambda a, b, row: topi.add(twice(topi.add(a, row)), b)) == (0, 1)


def test_inputs_whose_intermediate_results_are_read_elsewhere() -> None:
    """The input is read at the index of its block, but the next block transposes it."""
    assert of([(N, N)], lambda a: transposed(twice(a))) == ()
    assert of([(N, N)], lambda a: twice(transposed(a))) == ()
    assert of([(N, N), (N, N)], lambda a, b: topi.add(transposed(twice(a)), b)) == (1,)
    assert of([(N, N)], lambda a: topi.add(transposed(twice(a)), a)) == ()


def test_transposed_there_and_back() -> None:
    assert of([(N, M)], lambda a: transposed(twice(transposed(a)))) == (0,)


def test_an_input_of_another_shape_with_as_many_elements() -> None:
    """The offset must match, not the index: if rows have another length, the offsets of later rows differ."""
    assert of([(3, 2)], lambda a: te.compute((2, 3), lambda i, j: tirx.if_then_else(j < 2, a(i, j), a(0, 0) * 0))) == ()
    assert of([(N, M)], lambda a: te.compute((N * M,), lambda i: a(i // M, i % M) + 1)) == (0,)
    assert of([(N * M,)], lambda a: te.compute((N, M), lambda i, j: a(i * M + j) + 1)) == (0,)
    assert of([(N, M)], lambda a: te.compute((M, N), lambda i, j: a(i, j) + 1)) == ()
    assert of([(1, N)], lambda a: te.compute((N, 1), lambda i, j: a(j, i) + 1)) == (0,)


def test_part_of_an_input() -> None:
    def joined(a: te.Tensor, b: te.Tensor) -> te.Tensor:
        return te.compute((N * 2, M), lambda i, j: tirx.if_then_else(i < N, a(i, j), b(i - N, j)))

    assert of([(N, M), (N, M)], joined) == ()
    assert of([(N, M)], lambda a: te.compute((N, M), lambda i, j: a(i * 0, j))) == ()


def test_elements_at_places_that_tensors_hold() -> None:
    """The indices are read at the offset of the result, the elements at other offsets."""

    def taken(a: te.Tensor, indices: te.Tensor) -> te.Tensor:
        return te.compute((N,), lambda i: a(indices(i)))

    assert of([(N,), (N,)], taken, ["int32", "int32"]) == (1,)
    assert of([(N,), (N,)], taken, ["float32", "int64"]) == ()


def test_reductions_keep_sums_in_the_result() -> None:
    def normalised(a: te.Tensor) -> te.Tensor:
        return topi.subtract(a, topi.sum(a, axis=1, keepdims=True))

    assert of([(N, M)], normalised) == ()
    assert of([(N, 1)], lambda a: topi.sum(a, axis=1, keepdims=True)) == ()


def test_kernels_with_several_results() -> None:
    assert of([(N,)], lambda a: [twice(a), topi.add(a, a)]) == ()


def test_elements_of_another_size() -> None:
    assert of([(N,), (N,)], lambda a, b: topi.add(topi.cast(a, "int64"), b), ["int32", "int64"]) == (1,)
    assert of([(N,)], lambda a: topi.cast(a, "int32"), ["float32"]) == (0,)


def over(kernel: Kernel, inputs: Sequence[int], device: Device) -> None:
    """Check that the result in the memory of each of `inputs` is the same as in separate memory."""
    compiled = Compiled(kernel.func.without_attr("tirx.noalias"), device)
    for n, m in SIZES:
        arguments = kernel.arguments(n, m)
        apart = [fenced(array) for array in arguments]
        compiled.bind(apart)()
        for position in inputs:
            shared = [fenced(array) for array in arguments]
            shared[-1] = shared[position].reshape(arguments[-1].shape)
            compiled.bind(shared)()
            np.testing.assert_array_equal(shared[-1], apart[-1], err_msg=f"over input {position} at {n}, {m}")


def only_own(kernel: Kernel, inputs: Sequence[int]) -> None:
    """Check that an element of one of `inputs` changes only the element of the result at the same offset."""
    compiled = Compiled(kernel.func, BOTH[1])
    for n, m in SIZES[:4]:
        before = [fenced(array) for array in kernel.arguments(n, m)]
        compiled.bind(before)()
        for position in inputs:
            for offset in range(before[position].size):
                after = [fenced(array) for array in kernel.arguments(n, m)]
                after[position].reshape(-1)[offset] += 64
                compiled.bind(after)()
                changed = np.flatnonzero(after[-1] != before[-1])
                assert set(changed) <= {offset}, f"input {position} at {n}, {m}"


random_kernels: Any = given(kernels())
"""Decorator for a test that takes a random kernel."""


@pytest.mark.slow
@pytest.mark.parametrize("device", BOTH, ids=lambda device: device.name)
@settings(max_examples=100, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@random_kernels
def test_random_kernels_over_their_inputs(device: Device, kernel: Kernel) -> None:
    inputs = overwritable_inputs(kernel.func)
    if inputs:
        over(kernel, inputs, device)
    if inputs and device is BOTH[0]:
        only_own(kernel, inputs)
