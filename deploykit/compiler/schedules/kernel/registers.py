"""Divides sums of imperative kernels, so that as many as fit a device's registers are computed at a time.

    for k:                       for k:
        a[lanes] += x[k] y[k]        a[lanes] += x[k] y[k]
        b[lanes] += x[k] z[k]    for k:
                                     b[lanes] += x[k] z[k]

The left form is better as long as all sums stay in registers; otherwise each of its steps would load and store them. A
loop is divided only if it does nothing but add to sums: its statements are over whole vectors of one length, and each
adds to a local array that no other statement of the loop reads.
"""

from __future__ import annotations

from collections.abc import Sequence

import tvm_ffi
from tvm import ir, tirx

from deploykit.compiler.devices.cpu import Device
from deploykit.compiler.tir.rewriting import collect, sequence, substitute
from deploykit.compiler.tir.values import bits_of, dtype_of, static

OPERANDS = 4
"""The number of registers kept for operands."""


def fit_registers(body: tirx.Stmt, device: Device) -> tirx.Stmt:
    """`body`, with its loops over sums divided into loops whose sums fit the registers."""
    if not device.vector_bits:
        return body

    def divided(loop: tirx.For) -> tirx.Stmt:
        sums = _sums(loop)
        if not sums:
            return loop
        vectors = max(_vectors(statement, device) for statement in sums)
        most = max(1, (device.vector_registers - OPERANDS) // vectors)
        count = max(n for n in range(1, most + 1) if len(sums) % n == 0)
        if count == len(sums):
            return loop
        return sequence([_again(loop, sums[start : start + count]) for start in range(0, len(sums), count)])

    result: tirx.Stmt = tvm_ffi.structural_map(body, (tirx.For, divided))
    return result


def _sums(loop: tirx.For) -> list[tirx.For]:
    """The statements of a loop that only adds to independent sums; empty for other loops."""
    parts = list(loop.body.seq) if isinstance(loop.body, tirx.SeqStmt) else []
    statements = [part for part in parts if isinstance(part, tirx.For) and _is_sum(part)]
    if loop.kind != tirx.ForKind.SERIAL or len(statements) < len(parts):
        return []
    targets = [_stored(statement).buffer for statement in statements]
    for target, statement in zip(targets, statements, strict=True):
        loaded = [load.source for load in collect(statement, ir.TensorLoad)]
        if any(source.same_as(other) for source in loaded for other in targets if not other.same_as(target)):
            return []
    distinct = all(not a.same_as(b) for n, a in enumerate(targets) for b in targets[:n])
    return statements if distinct and len({static(statement.extent) for statement in statements}) == 1 else []


def _is_sum(statement: tirx.For) -> bool:
    """Whether a loop is `local[lane] = local[lane] + ...` for all lanes of a vector."""
    if statement.kind != tirx.ForKind.VECTORIZED:
        return False
    store = statement.body
    if not isinstance(store, tirx.BufferStore) or not isinstance(store.value, tirx.Add) or len(store.indices) != 1:
        return False
    held = store.value.a
    return (
        isinstance(held, ir.TensorLoad)
        and store.indices[0].same_as(statement.loop_var)
        and held.source.same_as(store.buffer)
        and held.indices[0].same_as(statement.loop_var)
        and not any(load.source.same_as(store.buffer) for load in collect(store.value.b, ir.TensorLoad))
        and static(statement.extent) is not None
    )


def _stored(statement: tirx.For) -> tirx.BufferStore:
    """The store of a sum."""
    assert isinstance(statement.body, tirx.BufferStore)
    return statement.body


def _vectors(statement: tirx.For, device: Device) -> int:
    """The number of registers that a sum takes."""
    bits = (static(statement.extent) or 1) * bits_of(dtype_of(_stored(statement).buffer))
    return -(-bits // device.vector_bits)


def _again(loop: tirx.For, statements: Sequence[tirx.Stmt]) -> tirx.Stmt:
    """The loop, with only these statements."""
    var = ir.Var(loop.loop_var.name, dtype_of(loop.loop_var))
    return substitute(
        tirx.For(loop.loop_var, loop.min, loop.extent, loop.kind, sequence(statements)), {loop.loop_var: var}
    )
