"""Attention without a matrix of scores: the softmax is computed online, one block of keys after the other.

The rule takes the consecutive stages of the `attention` anchors: scores (with stages computed from them as an
epilogue), peak, powers, total, weighted. Head sizes must be constant; operands and results may have any dtype, and all
is computed in float32, except in `tiles`. A unit of parallel work is a block of query rows of one head. For each block
of keys, it computes the scores into a local buffer, updates the running peak `m` and total `l` of each row, and adds
the values to sums that are rescaled when the peak rises:

    m' = max(m, max_j s_j),   l' = exp(m - m') l + sum_j exp(s_j - m'),   o' = exp(m - m') o + sum_j exp(s_j - m') v_j

In `blocks`, the lanes of vectors run over query rows, and so they do in `tiles`, where products of rounded factors are
computed in the registers of AMX; `rows` takes the few rows of a decoding step one by one. The number of rows decides
between them, at run time if it is symbolic. Keys that a condition on their position closes for all rows of a block (the
causal frontier) are skipped.

It declines other dtypes of scores, heads larger than `WIDEST_HEAD`, and stages that are not consecutive.
(Source: Milakov and Gimelshein, Online normalizer calculation for softmax, 2018; Dao et al., FlashAttention, 2022.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tvm import tirx

from deploykit.compiler.decisions import Declined
from deploykit.compiler.devices.cpu import Device
from deploykit.compiler.operators.anchors.attention import FACTORS, ROLE, ROLES
from deploykit.compiler.schedules.attention.blocks import AttentionBlocks
from deploykit.compiler.schedules.attention.problem import AttentionProblem
from deploykit.compiler.schedules.attention.rows import AttentionRows
from deploykit.compiler.schedules.attention.tiles import AttentionTiles
from deploykit.compiler.schedules.kernel.access import Views
from deploykit.compiler.schedules.kernel.loops import Code, loop, unravel
from deploykit.compiler.schedules.kernel.stages import Opaque, Stage
from deploykit.compiler.tir.rewriting import Expr
from deploykit.compiler.tir.values import as_index, const, dtype_of, static

WIDEST_HEAD = 256
"""The most elements of a query, key or value vector."""

LOCAL_BYTES = 16384
"""The most bytes of a local buffer, which a kernel keeps on its stack."""


def attention(stages: Sequence[Stage | Opaque], views: Views, device: Device) -> list[tirx.Stmt] | Declined:
    """Statements that compute all of `stages`, or the reason why they are not attention."""
    problem = problem_of(stages, views)
    return problem if isinstance(problem, Declined) else [_tasks(problem, device)]


def problem_of(stages: Sequence[Stage | Opaque], views: Views) -> AttentionProblem | Declined:
    """The attention that `stages` compute, or the reason why they are not attention."""
    named = [stage for stage in stages if isinstance(stage, Stage)]
    if tuple(stage.annotations.get(ROLE) for stage in named) != ROLES or len(named) != len(stages):
        return Declined("it is no attention")
    scores, _, _, total, weighted = named
    sizes = [static(axis.extent) for axis in (*scores.reduce, weighted.axes[-1])]
    if any(size is None or not 0 < size <= WIDEST_HEAD for size in sizes):
        return Declined(f"its heads are not of a constant size up to {WIDEST_HEAD}")
    if any(dtype_of(stage.outputs[0]) != "float32" for stage in (scores, total)):
        return Declined("its softmax is not in float32")
    return AttentionProblem(scores, total, weighted, views)


def _tasks(problem: AttentionProblem, device: Device) -> tirx.Stmt:
    """All units of work: the blocks of rows of every head."""
    lanes = device.lanes(32) if device.vector_bits else 4
    widest = max(problem.depth, problem.width)
    tiled = device.amx and not device.exact and str(problem.scores.annotations[FACTORS]) == "bf16"
    kind = AttentionTiles if tiled else AttentionBlocks
    tall = 2 if tiled or (device.vector_bits and 2 * lanes * widest * 4 <= LOCAL_BYTES) else 1
    few = max(1, lanes // 4)
    rows = as_index(problem.rows.extent)
    height = tall * lanes
    extents = [*(as_index(axis.extent) for axis in problem.lead), tirx.floordiv(rows + (height - 1), const(height))]

    def task(index: Expr) -> tirx.Stmt:
        code = Code()
        counts = [code.let("count", extent) for extent in extents]
        *lead, block = (code.let("place", place) for place in unravel(index, counts))
        first = code.let("row", block * height)
        count = code.let("rows", tirx.min(const(height), rows - first))
        sizes = sorted({lanes, height})
        options: list[tuple[int, Callable[[], tirx.Stmt]]] = [
            (few, lambda: AttentionRows(problem, device, few).run(lead, first, count))
        ]
        for size in sizes:
            blocks = kind(problem, device, size)
            options.append((size, lambda blocks=blocks: blocks.run(lead, first, count)))  # type: ignore[misc]
        code.add(_by_size(count, static(rows), height, options))
        return code.statement()

    total = extents[0]
    for extent in extents[1:]:
        total = total * extent
    return loop("task", total, task, tirx.ForKind.PARALLEL if device.parallel else tirx.ForKind.SERIAL)


def _by_size(
    count: Expr, rows: int | None, height: int, options: Sequence[tuple[int, Callable[[], tirx.Stmt]]]
) -> tirx.Stmt:
    """The first of `options` whose size is enough for `count` rows. Options that are never needed for `rows` rows in
    total are left out."""
    possible = None if rows is None else {min(height, rows), rows % height} - {0}
    sizes = [size for size, _ in options]
    needed = []
    for smaller, (size, build) in zip([0, *sizes], options, strict=False):
        if possible is None or any(smaller < n <= size for n in possible):
            needed.append((size, build))
    statement = needed[-1][1]()
    for size, build in reversed(needed[:-1]):
        statement = tirx.IfThenElse(count <= size, build(), statement)
    return statement
