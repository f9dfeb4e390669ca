"""Models of several functions over one set of weights, with states that outlive a run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from operator import add, mul
from pathlib import Path

import numpy as np
import pytest

import deploykit
from deploykit.compiler.model import ImportedModel, Port
from deploykit.compiler.observer import Observer
from deploykit.compiler.operators.building.broadcast import elementwise
from deploykit.compiler.operators.building.context import Context, Site
from deploykit.compiler.operators.building.model import ModelBuilder, Values
from deploykit.compiler.operators.indexing import gather
from deploykit.compiler.operators.matmul import matmul
from deploykit.compiler.program.inplace import InPlace
from deploykit.compiler.program.ir import Call, Copy, Program, StateStorage
from deploykit.errors import ShapeError, UnsupportedModelError, UsageError
from deploykit.pipeline import compile_program
from deploykit.targets.base import find_target
from tests.frontends.running_mean import INNER, WIDTH, running_mean, weights
from tests.runtimes import Runtime

PANELS_FIT = "x86-64-v3"
"""A CPU whose panels divide the columns of the weights here, so that packing adds no zeros."""


def samples(streams: int, count: int, seed: int = 0) -> Iterator[np.ndarray]:
    random = np.random.default_rng(seed)
    yield from (random.standard_normal((streams, WIDTH), dtype=np.float32) for _ in range(count))


@pytest.mark.sampled(part=6)
def test_a_running_mean(runtime: Runtime) -> None:
    """`read` sees the samples that `update` adds, for several numbers of streams in turn."""
    weight = weights()
    with runtime.session(running_mean(weight)) as session:
        assert list(session.functions) == ["project", "update", "read"]
        for streams in (1, 3, 9, 4):
            session.reset({"streams": streams})
            total = np.zeros((streams, INNER), np.float32)
            for number, x in enumerate(samples(streams, 3), 1):
                assert session.functions["update"](x=x)["samples"] == number
                total += x @ weight
                query = next(samples(number, 1, seed=9))
                scores = session.functions["read"](query=query)["scores"]
                np.testing.assert_allclose(scores, query @ weight @ (total / number).T, rtol=1e-4, atol=1e-4)
        rows = next(samples(5, 1))
        projected = session.functions["project"](rows=rows)["projected"]
        np.testing.assert_allclose(projected, rows @ weight, rtol=1e-5, atol=1e-5)


def test_a_refused_run_leaves_states_alone(runtime: Runtime) -> None:
    with runtime.session(running_mean(weights())) as session:
        update = session.functions["update"]
        assert update(x=next(samples(1, 1)))["samples"] == 1, "states of the least sizes are there from the beginning"
        with pytest.raises(ShapeError, match="'streams'\\) is 2, but the states are made for 1"):
            update(x=next(samples(2, 1)))
        assert update(x=next(samples(1, 1)))["samples"] == 2
        with pytest.raises(UsageError, match=r"'streams' must be in 1\.\.9, found 10"):
            session.reset({"streams": 10})
        with pytest.raises(UsageError, match="no dim 'batch'"):
            session.reset({"batch": 1})
        assert update(x=next(samples(1, 1)))["samples"] == 3
        with pytest.raises(UsageError, match="several functions, project, update, read"):
            session(x=next(samples(1, 1)))


def test_the_artifact_describes_functions_and_states(tmp_path: Path) -> None:
    for target, cpu in (("host", PANELS_FIT), ("embedded", "native")):
        deploykit.build(running_mean(weights()), target, output=tmp_path / target, cpu=cpu)
    manifest = json.loads((tmp_path / "host" / "manifest.json").read_text())
    assert [function["name"] for function in manifest["functions"]] == ["project", "update", "read"]
    assert manifest["states"]["formula"] == "64*ceil(5*streams/16) + 64"
    assert [(dim["name"], dim["maximum"]) for dim in manifest["states"]["dims"]] == [("streams", 9)]
    assert manifest["peak_memory"]["weights"] == weights().nbytes + 64 + 12, "the weight is there once, and a one"
    listing = (tmp_path / "host" / "program.txt").read_text()
    assert "state  total: float32[streams, 5] @ state+0" in listing
    assert "= project(query)" in listing
    assert 'mean_update.h"' in (tmp_path / "embedded" / "model.h").read_text()


def program_of(model: ImportedModel, target: str = "host", in_place: InPlace = InPlace.WHERE_FREE) -> Program:
    variant = find_target(target).variants("x86-64-v3")[-1]
    program = compile_program(model, replace(variant, in_place=in_place), Observer(), {})
    assert program is not None
    return program


def test_functions_are_called_on_a_cpu_and_inlined_on_a_gpu() -> None:
    for target, called in (("host", True), ("webgpu", False)):
        steps = [step for function in program_of(running_mean(weights()), target).functions for step in function.steps]
        assert any(isinstance(step, Call) for step in steps) == called


def copies_to_states(program: Program, function: int) -> int:
    tensors = program.functions[function].tensors
    steps = [step for step in program.functions[function].steps if isinstance(step, Copy)]
    return sum(isinstance(tensors[step.target].storage, StateStorage) for step in steps)


def test_new_values_of_states_are_computed_in_place_where_that_is_safe() -> None:
    model = running_mean(weights())
    assert copies_to_states(program_of(model), 1) == 1, "the total is computed in place, the count is an output too"
    assert copies_to_states(program_of(model, in_place=InPlace.NEVER), 1) == 2


def swapping() -> ImportedModel:
    """`step(x, at)`: `a` becomes `b`, and `b` becomes `a + x`. It returns twice the old `b` at an index that
    is checked."""
    builder = ModelBuilder("swap")
    n = builder.dim("n", 1, 8)
    builder.state("a", "float32", (n,))
    builder.state("b", "float32", (n,))

    def step(ctx: Context, given: Values, states: Values) -> tuple[Values, Values]:
        ctx.site = Site("Step", "step")
        added = elementwise(ctx, "add", add, states["a"], given["x"])
        doubled = elementwise(ctx, "mul", mul, states["b"], ctx.constant(np.float32(2)))
        return {"y": gather(ctx, doubled, given["at"], 0)}, {"a": states["b"], "b": added}

    builder.function("step", [Port("x", "float32", (n,)), Port("at", "int64", ())], step, ["a", "b"])
    return builder.model()


@pytest.mark.parametrize("in_place", [InPlace.WHERE_FREE, InPlace.NEVER])
def test_states_that_are_swapped(runtime: Runtime, in_place: InPlace) -> None:
    with runtime.placing(in_place).session(swapping()) as session:
        session.reset({"n": 5})
        a, b = np.zeros(5, np.float32), np.zeros(5, np.float32)
        for number in range(4):
            x = np.arange(5, dtype=np.float32) + number
            assert session(x=x, at=np.int64(2))["y"] == 2 * b[2]
            a, b = b, a + x
            with pytest.raises(deploykit.DataError):
                session(x=x, at=np.int64(5))


def test_steps_that_may_fail_come_before_states_change() -> None:
    steps = program_of(swapping()).functions[0].steps
    kinds = [type(step).__name__ for step in steps]
    assert max(i for i, kind in enumerate(kinds) if kind == "CheckIndices") < min(
        i for i, kind in enumerate(kinds) if kind == "Copy"
    )


def test_only_users_call_functions_with_states() -> None:
    builder = ModelBuilder("inner")
    n = builder.dim("n", 1, 8)
    builder.state("a", "float32", (n,))

    def outer(ctx: Context, given: Values, _states: Values) -> tuple[Values, Values]:
        return {"y": builder.call(ctx, "inner", given["x"])[0]}, {}

    def inner(ctx: Context, given: Values, states: Values) -> tuple[Values, Values]:
        ctx.site = Site("Inner", "inner")
        total = elementwise(ctx, "add", add, states["a"], given["x"])
        return {"y": total}, {"a": total}

    builder.function("inner", [Port("x", "float32", (n,))], inner, ["a"])
    with pytest.raises(UnsupportedModelError, match="'inner' cannot be called by another function: it has states"):
        builder.function("outer", [Port("x", "float32", (n,))], outer)


def test_functions_share_their_weights(tmp_path: Path) -> None:
    """Functions share weights even where each of them packs the weights for its own kernels."""
    weight = np.random.default_rng(2).standard_normal((32, 48), dtype=np.float32)
    builder = ModelBuilder("shared")
    n = builder.dim("n", 1, 8)

    def product(ctx: Context, given: Values, _states: Values) -> tuple[Values, Values]:
        ctx.site = Site("Product", "product")
        return {"y": matmul(ctx, given["x"], ctx.constant(weight))}, {}

    for name in ("first", "second"):
        builder.function(name, [Port("x", "float32", (n, 32))], product)
    for target, cpu in (("host", PANELS_FIT), ("embedded", "native"), ("webgpu", "native")):
        artifact = deploykit.build(builder.model(), target, output=tmp_path / target, cpu=cpu)
        assert artifact is not None
        assert artifact.manifest.peak_memory.weights == weight.nbytes, target


def test_dims_are_given_when_a_model_is_loaded(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"give dims to deploykit\.load"):
        deploykit.build(running_mean(weights()), dims={"batch": 1}, output=tmp_path / "dist")
