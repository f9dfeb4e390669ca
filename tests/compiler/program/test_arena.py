"""The arena planner: no overlap at any sizes of dims, never above the sum of sizes, near the best greedy order."""

import time
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import tirx

import deploykit
from deploykit.compiler.dims import evaluate, to_text
from deploykit.compiler.model import Dim
from deploykit.compiler.observer import Observer
from deploykit.compiler.program.arena import SlotRequest, plan
from deploykit.compiler.program.ir import ALIGNMENT
from deploykit.pipeline import compile_program
from deploykit.targets.webgpu.variants import WASM
from tests.frontends.onnx.harness import parse

BATCH, SEQ, DEPTH = (tirx.Var(name, "int64") for name in ("batch", "seq", "depth"))


@dataclass
class Layout:
    """An arena at given dims, in bytes. Sizes are as requested, not rounded up."""

    offsets: tuple[int, ...]
    sizes: tuple[int, ...]
    total: int


def layout(arena, at):
    return Layout(
        tuple(evaluate(slot.offset, at) for slot in arena.slots),
        tuple(evaluate(slot.size, at) for slot in arena.slots),
        evaluate(arena.size, at),
    )


def aligned(size):
    return -(-size // ALIGNMENT) * ALIGNMENT


def alive_together(a, b):
    return a.first <= b.last and b.first <= a.last


@st.composite
def dims(draw):
    chosen = []
    for var in (BATCH, SEQ, DEPTH):
        minimum = draw(st.integers(0, 4))
        chosen.append(Dim(var.name, var, minimum, draw(st.none() | st.integers(minimum, 70))))
    return chosen


@st.composite
def sizes(draw):
    """Bytes of a tensor, in the form that importers write: products of extents, some of which are quotients, sums or
    selections."""
    extents = [
        st.sampled_from((BATCH, SEQ, DEPTH)),
        st.sampled_from((BATCH, SEQ)).map(lambda v: tirx.floordiv(v + 1, 2)),
        st.sampled_from((BATCH, SEQ)).map(lambda v: v + 3),
        st.sampled_from((BATCH, SEQ)).map(lambda v: v - 2),
        st.just(tirx.max(BATCH, SEQ)),
        st.just(tirx.Select(BATCH == 1, SEQ, BATCH)),
    ]
    size = draw(st.sampled_from((0, 1, 4, 20, 40, 64, 256, 1000, 4096)))
    for extent in draw(st.lists(st.one_of(extents), max_size=2)):
        size = extent * size
    return size


@st.composite
def requests(draw):
    result = []
    for index in range(draw(st.integers(0, 14))):
        first = draw(st.integers(0, 12))
        result.append(SlotRequest(f"t{index}", draw(sizes()), first, first + draw(st.integers(0, 4))))
    return result


def greedy_heights(wanted, at):
    """The arena heights of greedy placement, each tensor at the lowest free offset, for several common orders."""
    blocks = [(max(aligned(evaluate(r.size, at)), 0), r) for r in wanted]
    for key in (
        lambda b: -b[0],
        lambda b: -b[0] * (b[1].last - b[1].first + 1),
        lambda b: b[1].first,
        lambda b: -b[1].last,
    ):
        placed = []
        for size, request in sorted(blocks, key=key):
            offset = 0
            for start, end in sorted((o, o + s) for o, s, r in placed if alive_together(r, request)):
                if start - offset >= size:
                    break
                offset = max(offset, end)
            placed.append((offset, size, request))
        yield max((o + s for o, s, _ in placed), default=0)


@settings(deadline=None, max_examples=60)
@given(requests(), dims(), st.data())
def test_slots_alive_together_are_apart_at_any_dims(wanted, chosen, data):
    at = {d.name: data.draw(st.integers(d.minimum, d.maximum if d.maximum is not None else 5000)) for d in chosen}
    arena = plan(wanted, chosen)
    found = layout(arena, at)
    assert [s.name for s in arena.slots] == [r.name for r in wanted]
    assert found.sizes == tuple(max(evaluate(r.size, at), 0) for r in wanted)
    places = list(zip(wanted, found.offsets, found.sizes, strict=True))
    for index, (a, start, size) in enumerate(places):
        assert start >= 0
        assert start % ALIGNMENT == 0
        assert start + size <= found.total
        for b, other_start, other_size in places[:index]:
            if alive_together(a, b) and size and other_size:
                assert start + size <= other_start or other_start + other_size <= start


@settings(deadline=None, max_examples=60)
@given(requests(), dims(), st.data())
def test_the_arena_is_never_larger_than_all_slots(wanted, chosen, data):
    at = {d.name: data.draw(st.integers(d.minimum, d.maximum if d.maximum is not None else 5000)) for d in chosen}
    found = layout(plan(wanted, chosen), at)
    assert found.total <= sum(map(aligned, found.sizes))


@settings(deadline=None, max_examples=60)
@given(requests(), dims())
def test_at_the_upper_bounds_it_is_near_the_best_greedy_order(wanted, chosen):
    chosen = [Dim(d.name, d.var, d.minimum, 64 if d.maximum is None else d.maximum) for d in chosen]
    at = {d.name: d.maximum for d in chosen}
    assert layout(plan(wanted, chosen), at).total <= 1.1 * min(greedy_heights(wanted, at))


@settings(deadline=None, max_examples=60)
@given(requests(), dims())
def test_the_plan_is_deterministic(wanted, chosen):
    first, second = (plan(wanted, chosen) for _ in range(2))
    assert [to_text(s.offset) for s in first.slots] == [to_text(s.offset) for s in second.slots]
    assert to_text(first.size) == to_text(second.size)


def test_a_size_over_a_data_dim_is_refused():
    with pytest.raises(ValueError, match="the size of slot 'x' depends on 'seq', which is no dim"):
        plan([SlotRequest("x", SEQ * 4, 0, 1)], [Dim("batch", BATCH, 1, 4)])


def test_a_static_plan_is_plain_numbers():
    arena = plan([SlotRequest("a", 100, 0, 1), SlotRequest("b", 64, 1, 2), SlotRequest("c", 100, 2, 3)], [])
    assert [s.offset for s in arena.slots] == [0, 128, 0]
    assert arena.size == 192


def test_the_peak_of_a_chain_is_one_product():
    chain = [SlotRequest(f"h{i}", BATCH * width, i, i + 1) for i, width in enumerate((1024, 512, 512, 256))]
    arena = plan(chain, [Dim("batch", BATCH, 1, 64)])
    assert to_text(arena.size) == "1536*batch"


def test_nothing_to_plan_needs_no_memory():
    assert plan([], [Dim("batch", BATCH, 1, None)]).size == 0


def transformer(layers):
    """The tensors of a decoder with `layers` layers, 17 per layer, over batch and sequence length."""
    row = BATCH * SEQ
    wanted = []
    for layer in range(layers):
        t = 13 * layer
        for name, size, first, last in (
            ("norm", row * 3072, t, t + 3),
            ("q", row * 3072, t + 1, t + 4),
            ("k", row * 3072, t + 2, t + 4),
            ("v", row * 3072, t + 3, t + 6),
            ("scores", row * SEQ * 48, t + 4, t + 5),
            ("weights", row * SEQ * 48, t + 5, t + 6),
            ("largest", row * 48, t + 5, t + 5),
            ("context", row * 3072, t + 6, t + 7),
            ("projected", row * 3072, t + 7, t + 8),
            ("residual", row * 3072, t + 8, t + 13),
            ("norm2", row * 3072, t + 9, t + 10),
            ("up", row * 12288, t + 10, t + 11),
            ("gelu", row * 12288, t + 11, t + 12),
            ("down", row * 3072, t + 12, t + 13),
            ("out", row * 3072, t + 13, t + 22),
            ("mask", SEQ * SEQ * 4, t + 3, t + 5),
            ("odd", row * 40, t + 2, t + 5),
        ):
            wanted.append(SlotRequest(f"{name}{layer}", size, first, last))
    return wanted


@pytest.mark.parametrize("longest", [None, 512])
def test_a_large_model_is_planned_in_seconds_and_stays_readable(longest):
    chosen = [Dim("batch", BATCH, 1, None), Dim("seq", SEQ, 1, longest)]
    start = time.process_time()
    arena = plan(transformer(24), chosen)
    assert time.process_time() - start < 3
    assert len(arena.slots) == 408
    assert max(len(to_text(s.offset)) for s in arena.slots) < 500
    assert len(to_text(arena.size)) < 500
    at = {"batch": 4, "seq": 128}
    assert layout(arena, at).total <= 1.1 * min(greedy_heights(transformer(24), at))


def test_workspaces_of_a_product_without_columns_have_a_size():
    """Within the loop over its panels there is one; the size of the workspaces is also computed where there is none."""
    text = """(float[b,n,2] x, int64 l) => (float[b,c,d] y, float[b,e,f] z) {
        y = DFT<inverse = 1, onesided = 1>(x)  z = DFT<inverse = 1, onesided = 1>(x, l) }"""
    program = compile_program(deploykit.load(parse(text, 20)), WASM, Observer(), {})
    (function,) = program.functions
    assert any("workspace" in slot.name for slot in function.arena.slots)
    sizes = [evaluate(function.arena.size, {dim.var: size for dim in function.dims}) for size in (1, 2, 50)]
    assert sizes == sorted(sizes)
