"""The numeric packer: valid, no higher than any greedy order, and optimal on real networks."""

from hypothesis import given, settings
from hypothesis import strategies as st

from deploykit.compiler.program.packing import Block, PackingProblem, packings

BLOCKS = st.lists(
    st.builds(
        lambda size, first, span: Block(size * 64, first, first + span),
        st.integers(0, 40),
        st.integers(0, 20),
        st.integers(0, 8),
    ),
    max_size=40,
)


def alive_together(a, b):
    return a.first <= b.last and b.first <= a.last


@settings(deadline=None)
@given(BLOCKS)
def test_every_packing_keeps_blocks_that_live_together_apart(blocks):
    for packing in packings(PackingProblem(blocks)):
        places = list(zip(blocks, packing.offsets, strict=True))
        assert packing.height == max((offset + block.size for block, offset in places), default=0)
        for index, (a, low) in enumerate(places):
            for b, other in places[:index]:
                if alive_together(a, b):
                    assert low + a.size <= other or other + b.size <= low


@settings(deadline=None)
@given(BLOCKS)
def test_the_first_packing_is_the_lowest_and_not_below_what_is_alive(blocks):
    problem = PackingProblem(blocks)
    found = packings(problem)
    assert found[0].height == min(packing.height for packing in found)
    assert found[0].height >= problem.lower_bound
    assert found[0].height <= min(problem.packed(order).height for order in problem.orders())


@settings(deadline=None)
@given(BLOCKS)
def test_empty_blocks_push_nobody(blocks):
    problem, filled = PackingProblem(blocks), PackingProblem([block for block in blocks if block.size])
    assert packings(problem)[0].height == packings(filled)[0].height


@settings(deadline=None)
@given(st.lists(st.integers(1, 1000), max_size=30))
def test_chains_are_packed_at_the_lower_bound(sizes):
    problem = PackingProblem([Block(size, step, step + 1) for step, size in enumerate(sizes)])
    assert packings(problem)[0].height == problem.lower_bound


def test_bottlenecks_with_shortcuts_are_packed_at_the_lower_bound():
    blocks = []
    for layer in range(16):
        start = 3 * layer
        blocks += [Block(800, start, start + 1), Block(800, start + 1, start + 2), Block(3200, start + 2, start + 5)]
    problem = PackingProblem(blocks)
    assert packings(problem)[0].height == problem.lower_bound


def test_a_gap_is_used_only_by_what_fits():
    tall, low, wide = Block(300, 0, 2), Block(100, 0, 0), Block(200, 0, 2)
    late = [Block(100, 1, 2), Block(101, 1, 2)]
    problem = PackingProblem([tall, low, wide, *late])
    assert problem.packed(range(5)).offsets == (0, 300, 400, 300, 600)
