"""Random ragged operators compute what loops over single elements do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import deploykit
from deploykit import ragged
from deploykit.compiler.ragged.model import ragged_model
from deploykit.errors import DataError, DeploykitError, UsageError
from deploykit.ragged import Operator, Schedule, Tensor, compute, dim, lengths, operator, schedule
from tests.compiler.ragged.nestings import Nesting, nestings
from tests.compiler.ragged.reference import Reference
from tests.runtimes import HOST, RUNTIMES, Runtime

EMBEDDED = next(runtime for runtime in RUNTIMES if runtime.name == "embedded")
SLOW = {"deadline": None, "suppress_health_check": list(HealthCheck)}


@st.composite
def scheduled(draw: st.DrawFn, tensor: Tensor) -> Schedule:
    """A schedule of a tensor: a few steps, of which those that are refused are left out."""
    made = schedule(tensor)
    for _ in range(draw(st.integers(0, 4))):
        loops = st.sampled_from(made.loops)
        a, b = draw(loops), draw(loops)
        factor = draw(st.integers(1, 4))
        steps = (
            lambda s, a=a, factor=factor: s.split(a, factor),
            lambda s, a=a, b=b: s.fuse(a, b),
            lambda s, a=a, b=b: s.reorder(a, b),
            lambda s, a=a: s.vectorize(a),
            lambda s, a=a: s.unroll(a),
            lambda s, a=a: s.parallel(a),
            lambda s, a=a: s.remap(a),
            lambda s, a=a, factor=factor: s.pad(a, factor),
        )
        try:
            made = draw(st.sampled_from(steps))(made)
        except UsageError:
            continue
    return made


@st.composite
def cases(draw: st.DrawFn) -> tuple[Nesting, Operator]:
    """An operator over a random nesting of dims, whose inputs give all sizes."""
    nesting = draw(nestings(2, padded=True))
    dims = tuple(nesting.dims)
    x = ragged.input("x", dims, padding=nesting.padding)
    sized = [each for each in dims if list(each.extent.sizes()) and not list(each.extent.dims())]
    scale = ragged.input("scale", tuple(sized))
    element = x[dims] * scale[tuple(sized)]
    count = draw(st.integers(0, len(dims) - 1))
    kept, reduced = dims[: len(dims) - count], dims[len(dims) - count :]
    if reduced:
        kind = draw(st.sampled_from([ragged.sum, ragged.max]))
        value = ragged.maximum(kind(element, *reduced), -9) + 1
    else:
        value = element + ragged.cast(dims[-1], "float32")
    y = compute("y", kept, value)
    schedules = [draw(scheduled(y))] if draw(st.booleans()) else []
    return nesting, operator("random", y, schedules=schedules)


def check(runtime: Runtime, nesting: Nesting, made: Operator, seed: int) -> None:
    """Run an operator and compare. Elements of the padding of inputs are NaN."""
    random = np.random.default_rng(seed)
    empty = nesting.reference
    arrays: dict[str, Any] = dict(nesting.entries)
    model = ragged_model(made)
    for tensor in made.inputs:
        stored = list(empty.indices(tensor.dims, tensor.padding))
        real = set(empty.indices(tensor.dims))
        flat = np.array([random.standard_normal() if at in real else np.nan for at in stored], np.float32)
        (port,) = (port for port in model.inputs if port.name == tensor.name)
        dense = not any(True for each in tensor.dims for _ in each.extent.dims()) and not tensor.padding
        extents = [empty.index(each.extent, {}) for each in tensor.dims] if dense else []
        if not dense:
            known = [n for n in port.shape if isinstance(n, int)]
            zero = 0 in known
            rest = int(np.prod(known, dtype=np.int64)) if known else 1
            extents = [n if isinstance(n, int) else (0 if zero else len(flat) // rest) for n in port.shape]
            if sum(not isinstance(n, int) for n in port.shape) > 1 or zero:
                return
        arrays[tensor.name] = flat.reshape(extents)
    expected = Reference(made, nesting.sizes, arrays)
    given_names = {port.name for port in model.inputs}
    with runtime.session(model) as session:
        results = session(**{name: value for name, value in arrays.items() if name in given_names})
    for output in made.outputs:
        found = results[output.name]
        values = np.asarray(getattr(found, "values", found)).reshape(-1)
        np.testing.assert_allclose(values, expected.flat(output), rtol=1e-5, atol=1e-5)


@pytest.mark.slow
@given(case=cases(), seed=st.integers(0, 9))
@settings(max_examples=40, **SLOW)
def test_on_the_host(case: tuple[Nesting, Operator], seed: int) -> None:
    check(HOST, *case, seed)


@pytest.mark.slow
@given(case=cases(), seed=st.integers(0, 9))
@settings(max_examples=25, **SLOW)
def test_under_sanitizers(case: tuple[Nesting, Operator], seed: int) -> None:
    check(EMBEDDED, *case, seed)


batch = dim("batch", maximum=16)
m, k, n = (lengths(name, batch, maximum=300) for name in ("m", "k", "n"))
row, depth, column = dim("row", m[batch]), dim("depth", k[batch]), dim("column", n[batch])
a = ragged.input("a", (batch, row, depth))
b = ragged.input("b", (batch, depth, column))
products = operator(
    "products", compute("c", (batch, row, column), ragged.sum(a[batch, row, depth] * b[batch, depth, column], depth))
)


@pytest.mark.parametrize("threads", [1, 2])
def test_products_of_matrices_of_very_different_sizes(threads: int, tmp_path: Path) -> None:
    """A short instance may be divided into more units of work than the longest one."""
    random = np.random.default_rng(3)
    deploykit.build(products, output=tmp_path / "dist")
    with deploykit.open(tmp_path / "dist", threads=threads) as session:
        for _ in range(12):
            size = int(random.integers(0, 12))
            sizes = [random.integers(0, int(random.choice([2, 20, 300])), size=size) for _ in range(3)]
            left = [random.standard_normal((i, j), dtype=np.float32) for i, j in zip(sizes[0], sizes[1], strict=True)]
            right = [random.standard_normal((i, j), dtype=np.float32) for i, j in zip(sizes[1], sizes[2], strict=True)]
            flat = [np.concatenate([np.zeros(0, np.float32), *(x.reshape(-1) for x in xs)]) for xs in (left, right)]
            found = session(a=flat[0], b=flat[1], m=sizes[0], k=sizes[1], n=sizes[2])["c"]
            assert len(found) == size
            for own, x, y in zip(found, left, right, strict=True):
                np.testing.assert_allclose(own, x @ y, rtol=1e-4, atol=1e-4)


BIG = 2**31 - 1


@pytest.mark.parametrize("given_lengths", [[BIG] * 40, [BIG, 1], [0, 0, -1], [2**62, 2**62], [-(2**63)], [1, 1]])
@pytest.mark.parametrize("runtime", [HOST, EMBEDDED], ids=lambda runtime: runtime.name)
def test_lengths_that_do_not_fit_are_refused(runtime: Runtime, given_lengths: list[int]) -> None:
    instances = dim("instances", maximum=64)
    length = lengths("lengths", instances, maximum=BIG)
    token, other = dim("token", length[instances]), dim("other", length[instances])
    x = ragged.input("x", (instances, token))
    y = compute("y", (instances, token), ragged.sum(x[instances, other] * x[instances, token], other))
    with runtime.session(ragged_model(operator("refused", y)), dims={}) as session:
        values = np.ones(3, np.float32)
        with pytest.raises((DataError, DeploykitError)) as error:
            session(x=values, lengths=np.array(given_lengths))
        assert "faulty" not in str(error.value)
        np.testing.assert_array_equal(session(x=values, lengths=np.array([2, 0, 1]))["y"].values, [2, 2, 1])
