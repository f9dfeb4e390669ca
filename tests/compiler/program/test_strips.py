"""Chains that run strip by strip: the same bits as without, in less memory."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import deploykit
from deploykit.artifact.manifest import read_manifest
from deploykit.artifact.plan import read_plan
from deploykit.compiler.program.strips.rows import RowKernels, Source
from deploykit.compiler.program.strips.timetable import Stage, Strip, strips, turns
from deploykit.targets.embedded.boards import find_board
from deploykit.targets.embedded.boards.image import missing
from tests.compiler.program.nets import mobile_net, quantized, random_net
from tests.seeded import seeded

BATCHES = (1, 2, 3)
DIMS = {"n": (1, 3)}


def given(model: onnx.ModelProto, batch: int) -> dict[str, np.ndarray]:
    """An input with ordinary numbers; with NaN for a batch of two, with negative zeros for one of three."""
    shape = [dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim[1:]]
    x = np.random.default_rng(batch).standard_normal((batch, *shape)).astype(np.float32)
    if batch == 2:
        x[0, 0, -1, 0] = np.nan
    if batch == 3:
        x.ravel()[::5] = -0.0
    return {"x": x}


def results(
    model: onnx.ModelProto, folder: Path, optimize: str, batches: Sequence[int] = BATCHES, **options: object
) -> tuple[list[bytes], int]:
    """The bits of the results for each batch, and the bytes of the arena."""
    options = {"target": "embedded", "dims": DIMS if batches == BATCHES else None, **options}
    sanitize = options["target"] == "embedded" and "board" not in options
    deploykit.build(model, output=folder, optimize=optimize, **options)  # type: ignore[arg-type]
    with deploykit.open(folder, sanitize=sanitize) as session:
        found = [session(**given(model, batch))["y"].tobytes() for batch in batches]
    return found, arena(folder)


def arena(folder: Path) -> int:
    return int(read_manifest(folder).peak_memory.at_bounds or 0)


def require_same(model: onnx.ModelProto, folder: Path, **options: object) -> float:
    """Build a model in both ways and compare the bits. Returns the part of the arena that is left."""
    usual, before = results(model, folder / "speed", "speed", **options)  # type: ignore[arg-type]
    saving, after = results(model, folder / "memory", "memory", **options)  # type: ignore[arg-type]
    assert saving == usual
    assert after <= before
    return after / before


@pytest.mark.parametrize("seed", range(2))
def test_random_nets_have_the_same_bits(seed: int, tmp_path: Path) -> None:
    require_same(random_net(seed, "n"), tmp_path)


@pytest.mark.slow
@pytest.mark.sampled(part=20)
@pytest.mark.parametrize("seed", range(2, 62))
@pytest.mark.parametrize(("target", "cpu"), [("embedded", "generic"), ("embedded", "cortex-m55"), ("host", "native")])
def test_more_random_nets_have_the_same_bits(seed: int, target: str, cpu: str, tmp_path: Path) -> None:
    require_same(random_net(seed, "n"), tmp_path, target=target, cpu=cpu)


@pytest.mark.parametrize(("seed", "cpu"), [(100, "cortex-m3"), (101, "cortex-m4")])
def test_random_nets_of_integers_have_the_same_bits(seed: int, cpu: str, tmp_path: Path) -> None:
    net = random_net(seed, 1)
    require_same(quantized(net, [given(net, 1)] * 2), tmp_path, batches=(1,), cpu=cpu)


@pytest.mark.slow
@pytest.mark.sampled(part=30)
@pytest.mark.parametrize("seed", range(103, 143))
@pytest.mark.parametrize(
    ("target", "cpu"), [("embedded", "cortex-m0plus"), ("embedded", "cortex-m7"), ("host", "native")]
)
def test_more_random_nets_of_integers(seed: int, target: str, cpu: str, tmp_path: Path) -> None:
    net = random_net(seed, 1)
    require_same(quantized(net, [given(net, 1)] * 2), tmp_path, batches=(1,), target=target, cpu=cpu)


@pytest.mark.slow
def test_half_of_the_memory_of_a_mobile_net_is_enough(tmp_path: Path) -> None:
    """In float for any batch, and in 8 bits: with no more arithmetic, and a note with the numbers."""
    net = mobile_net("n")
    assert require_same(net, tmp_path) < 0.3  # intermediate results are those of one image
    small = mobile_net(1)
    assert require_same(small, tmp_path / "one", batches=(1,)) < 0.4
    integers = quantized(small, [given(small, 1)] * 2)
    assert require_same(integers, tmp_path / "int8", batches=(1,), cpu="cortex-m4") < 0.4
    speed, memory = (tmp_path / "int8" / name for name in ("speed", "memory"))
    (note,), sizes = read_manifest(memory).notes, f"{arena(memory):,} bytes of arena instead of {arena(speed):,}"
    assert note.startswith(f"--optimize memory: {sizes}, with no more arithmetic; ")
    assert not read_manifest(speed).notes
    assert operations(memory) <= operations(speed)


def operations(folder: Path) -> int:
    """The arithmetic operations of a run, from the plan."""
    return sum(int(entry.flops or 0) for entry in read_plan(folder).work)


def test_what_cannot_be_a_chain_is_computed_as_usual(tmp_path: Path) -> None:
    """With heights that only the run knows: a note says so, and results are right."""
    text = """<ir_version: 9, opset_import: ["": 21]>
    net (float[n, 3, h, 9] x) => (float[n, 4, h, 9] y) {
        a = Conv<pads=[1, 1, 1, 1]>(x, w0) b = Relu(a)
        c = Conv<pads=[1, 1, 1, 1]>(b, w1) y = Relu(c)
    }"""
    model = seeded(text, {"w0": (8, 3, 3, 3), "w1": (4, 8, 3, 3)})
    deploykit.build(model, "embedded", {"n": (1, 2), "h": (3, 12)}, tmp_path / "net", optimize="memory", check=True)
    assert read_manifest(tmp_path / "net").notes == (
        "--optimize memory: no chain of operators takes less memory row by row",
    )


@pytest.mark.slow
def test_a_global_pooling_adds_in_the_same_order(tmp_path: Path) -> None:
    """Row by row, from 0: the mean of negative zeros is 0."""
    text = """<ir_version: 9, opset_import: ["": 21]>
    net (float[n, 3, 16, 9] x) => (float[n, 8, 1, 1] y) {
        a = Conv<pads=[1, 1, 1, 1]>(x, w0) b = Relu(a) c = Mul(b, w1) y = GlobalAveragePool(c)
    }"""
    model = seeded(text, {"w0": (8, 3, 3, 3)})
    for factor in (-0.0, 1.5):
        model.graph.initializer.append(numpy_helper.from_array(np.float32(factor), "w1"))
        assert require_same(model, tmp_path / str(factor)) < 0.3
        del model.graph.initializer[-1]
    with deploykit.open(tmp_path / "-0.0" / "memory") as session:
        assert not np.signbit(session(**given(model, 1))["y"]).any()


def test_a_dim_without_bound_is_told(tmp_path: Path) -> None:
    deploykit.build(mobile_net("n"), "host", output=tmp_path / "net", optimize="memory")
    assert read_manifest(tmp_path / "net").notes == ("--optimize memory: it needs an upper bound for every dim",)


def test_results_that_others_use_are_whole(tmp_path: Path) -> None:
    """A tensor that is an output, too, or that is read again after the chain, or transposed."""
    text = """<ir_version: 9, opset_import: ["": 21]>
    net (float[n, 3, 16, 9] x) => (float[n, 8, 16, 9] b, float[n, 16, 8, 9] y) {
        a = Conv<pads=[1, 1, 1, 1]>(x, w0) b = Relu(a)
        c = Conv<pads=[1, 1, 1, 1]>(b, w1) d = Relu(c)
        e = Conv<pads=[1, 1, 1, 1]>(d, w1) f = Add(e, b)
        g = Transpose<perm=[0, 2, 1, 3]>(f) h = Transpose<perm=[0, 2, 1, 3]>(d) y = Add(g, h)
    }"""
    require_same(seeded(text, {"w0": (8, 3, 3, 3), "w1": (8, 8, 3, 3)}), tmp_path)


@pytest.mark.skipif(missing(find_board("nrf52840dk")) is not None, reason="needs tools for Arm boards")
def test_a_board_computes_the_same(tmp_path: Path) -> None:
    net = mobile_net(1)
    assert require_same(net, tmp_path, batches=(1,), board="nrf52840dk") < 0.5


# Timetables


def made_up(numbers: random.Random, count: int) -> tuple[Stage, int]:
    """A stage that reads `count` rows of the one before, and the number of its rows."""
    kernel, stride, dilation = numbers.randint(1, 4), numbers.randint(1, 3), numbers.randint(1, 2)
    reach = dilation * (kernel - 1)
    before, after = numbers.randint(0, reach), numbers.randint(0, reach)
    rows = (count + before + after - reach - 1) // stride + 1
    if rows < 1:
        return made_up(numbers, count)

    def need(row: int) -> tuple[int, int]:
        first, stop = row * stride - before, row * stride - before + reach + 1
        first, stop = max(first, 0), min(stop, count)
        return (first, stop) if first < stop else (min(max(first, 0), count - 1), min(max(first, 0), count - 1) + 1)

    needs = tuple({0: need(row)} for row in range(rows))
    kernels = tuple((stop - first) % 5 for ((first, stop),) in (tuple(each.values()) for each in needs))
    found = RowKernels({0: Source(1, image=True)}, (), kernels, needs, {0: (stride, reach + 1 - before)})
    return Stage(found, {}), rows


def chain(seed: int) -> list[Stage]:
    """A chain of stages, some of which also read an earlier one with as many rows."""
    numbers = random.Random(seed)
    first, rows = made_up(numbers, numbers.randint(4, 40))
    stages, counts = [first], [rows]
    for number in range(1, numbers.randint(2, 6)):
        stage, rows = made_up(numbers, counts[-1])
        made_by, needs, reach = {0: number - 1}, stage.rows.needs, dict(stage.rows.reach)
        beside = [other for other, count in enumerate(counts[:-1]) if count == rows]
        if beside:
            made_by[1], reach[1] = beside[-1], (1, 1)
            needs = tuple({**each, 1: (row, row + 1)} for row, each in enumerate(needs))
        found = RowKernels({}, (), stage.rows.of_row, needs, reach)
        stages.append(Stage(found, made_by))
        counts.append(rows)
    return stages


@pytest.mark.parametrize("seed", range(300))
def test_every_row_is_computed_once_from_rows_that_are_there(seed: int) -> None:
    stages = chain(seed)
    computed = [0] * len(stages)
    kept: list[set[int]] = [set() for _ in stages]
    for strip in strips(stages):
        there = [set(rows) for rows in kept]
        for number, (stage, window) in enumerate(zip(stages, strip.windows, strict=True)):
            assert set(range(window.first, window.first + window.loaded)) <= kept[number]
            for row in rows_of(strip, number):
                assert row == computed[number]
                computed[number] += 1
                for position, maker in stage.made_by.items():
                    first, stop = stage.rows.needs[row][position]
                    source = strip.windows[maker]
                    assert source.first <= first < stop <= source.stop
                    assert set(range(first, stop)) <= there[maker]
                    assert source.loaded == source.new - source.first
                there[number].add(row)
        for number, window in enumerate(strip.windows):
            if window.saved or window.next_first > window.first or window.new < window.stop:
                kept[number] = set(range(window.next_first, window.stop)) & there[number]
    assert computed[-1] == stages[-1].count


def rows_of(strip: Strip, stage: int) -> Iterator[int]:
    for run in strip.runs[stage]:
        yield from range(run.first, run.first + run.count)


@pytest.mark.parametrize("seed", range(100))
def test_turns_are_all_strips(seed: int) -> None:
    stages = chain(seed)
    found: list[Mapping[int, list[int]]] = []
    for some in turns(stages):
        for turn in range(some.times):
            moves = [turn * some.further.get((number, None), 0) for number in range(len(stages))]
            found.append({n: [row + moves[n] for row in rows_of(some.strip, n)] for n in range(len(stages))})
    assert found == [{n: list(rows_of(strip, n)) for n in range(len(stages))} for strip in strips(stages)]
