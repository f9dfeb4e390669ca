"""Kernels with their own control flow: loops that scan, sort or scatter.

`imperative` turns a Python function that writes statements into TE outputs:

    def scan(code, mask, positions):
        count = code.cell("count", 0)
        with code.loop("i", n) as i, code.when(mask[i]):
            positions[count.value] = i
            count.value += 1

    (positions,) = imperative("scan", [mask], [((n,), "int64")], scan)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from tvm import ir, te, tirx

from deploykit.compiler.operators.building.integers import expr, is_plain

if TYPE_CHECKING:
    from deploykit.compiler.dims.expressions import IntExpr


def imperative(
    name: str,
    inputs: Sequence[te.Tensor],
    outputs: Sequence[tuple[Sequence[IntExpr], str]],
    body: Callable[..., None],
    attributes: Mapping[str, Any] | None = None,
) -> list[te.Tensor]:
    """TE outputs, each of (shape, storage dtype), which `body(code, *inputs, *outputs)` writes. `attributes` are
    annotations of the block of the kernel."""

    def statements(sources: Sequence[tirx.Buffer], targets: Sequence[tirx.Buffer]) -> tirx.Stmt:
        code = Code()
        body(code, *(Array(code, b) for b in (*sources, *targets)))
        return code.statement()

    result = te.extern(
        [tuple(shape) for shape, _ in outputs],
        list(inputs),
        statements,
        dtype=[dtype for _, dtype in outputs],
        name=name,
        attrs=attributes,
    )
    return [result] if isinstance(result, te.Tensor) else list(result)


class Code:
    """Statements, in the order in which they are written."""

    def __init__(self) -> None:
        self._open: list[list[tirx.Stmt]] = [[]]

    def statement(self) -> tirx.Stmt:
        return _sequence(self._open[0])

    def append(self, statement: tirx.Stmt) -> None:
        self._open[-1].append(statement)

    @contextmanager
    def loop(
        self, name: str, extent: IntExpr, start: IntExpr = 0, kind: int = tirx.ForKind.SERIAL
    ) -> Iterator[ir.Expr]:
        """`for (name = start; name < start + extent; ++name)`."""
        var = tirx.Var(name, "int64")
        with self._block() as body:
            yield var
        self.append(tirx.For(var, expr(start), expr(extent), kind, _sequence(body)))

    @contextmanager
    def lanes(self, count: int) -> Iterator[ir.Expr]:
        """A vectorised loop of `count` iterations, which must not depend on each other."""
        with self.loop("lane", count, kind=tirx.ForKind.VECTORIZED) as lane:
            yield lane

    @contextmanager
    def shared(self, name: str, extent: IntExpr) -> Iterator[ir.Expr]:
        """An outermost loop of the kernel, whose iterations may be distributed over threads."""
        with self.loop(name, extent, kind=tirx.ForKind.PARALLEL) as index:
            yield index

    @contextmanager
    def repeat(self, condition: ir.Expr) -> Iterator[None]:
        """`while (condition)`."""
        with self._block() as body:
            yield
        self.append(tirx.While(condition, _sequence(body)))

    @contextmanager
    def when(self, condition: ir.Expr | bool) -> Iterator[None]:
        """`if (condition)`. The body of a plain `False` is left out."""
        with self._block() as body:
            yield
        if not is_plain(condition):
            self.append(tirx.IfThenElse(condition, _sequence(body), None))
        elif condition:
            self._open[-1].extend(body)

    def cell(self, name: str, value: Any) -> Cell:
        """A local variable with an initial value. Its dtype is that of the value, or int64 for plain integers."""
        start = expr(value) if is_plain(value) else value
        buffer = tirx.decl_buffer((1,), start.ty.dtype, name, scope="local")
        self.append(tirx.AllocBuffer(buffer))
        cell = Cell(self, buffer)
        cell.value = start
        return cell

    def room(self, name: str, count: int, dtype: str) -> Array:
        """A local array of constant size. Its elements are undefined until they are written."""
        buffer = tirx.decl_buffer((count,), dtype, name, scope="local")
        self.append(tirx.AllocBuffer(buffer))
        return Array(self, buffer)

    @contextmanager
    def _block(self) -> Iterator[list[tirx.Stmt]]:
        self._open.append([])
        yield self._open[-1]
        self._open.pop()


class Array:
    """A tensor of a kernel. Reading an element gives an expression; assigning one writes a statement."""

    def __init__(self, code: Code, buffer: tirx.Buffer) -> None:
        self._code = code
        self._buffer = buffer

    @property
    def dtype(self) -> str:
        return str(self._buffer.ty.dtype)

    def __getitem__(self, index: IntExpr | tuple[IntExpr, ...]) -> ir.TensorLoad:
        return tirx.BufferLoad(self._buffer, _indices(index))

    def __setitem__(self, index: IntExpr | tuple[IntExpr, ...], value: Any) -> None:
        if isinstance(value, (bool, int, float)):
            value = tirx.const(value, self.dtype)
        self._code.append(tirx.BufferStore(self._buffer, value, _indices(index)))

    def __call__(self, *index: IntExpr) -> ir.Expr:
        return self[index]

    def vector(self, lanes: int, *index: IntExpr) -> ir.Expr:
        """The elements from `index` on, along the last axis, as a vector."""
        return tirx.BufferLoad(self._buffer, _vector(lanes, index))

    def strided(self, lanes: int, stride: int, start: int) -> ir.Expr:
        """Every `stride`th element, from `start` on, as a vector."""
        place = tirx.Ramp(expr(start), tirx.IntImm("int64", stride), lanes)
        return tirx.BufferLoad(self._buffer, [place])

    def put(self, value: ir.Expr, lanes: int, *index: IntExpr) -> None:
        """Write a vector to the elements from `index` on, along the last axis."""
        self._code.append(tirx.BufferStore(self._buffer, value, _vector(lanes, index)))


class Cell:
    """A local variable."""

    def __init__(self, code: Code, buffer: tirx.Buffer) -> None:
        self._array = Array(code, buffer)

    @property
    def value(self) -> ir.Expr:
        return self._array[0]

    @value.setter
    def value(self, value: Any) -> None:
        self._array[0] = value


@contextmanager
def loops(code: Code, shape: Sequence[IntExpr]) -> Iterator[list[ir.Expr]]:
    """One loop per axis, the last one innermost."""
    with ExitStack() as stack:
        yield [stack.enter_context(code.loop(f"i{axis}", size)) for axis, size in enumerate(shape)]


def _vector(lanes: int, index: tuple[IntExpr, ...]) -> list[ir.Expr]:
    *lead, last = _indices(index)
    return [*lead, last if lanes == 1 else tirx.Ramp(last, tirx.IntImm("int64", 1), lanes)]


def _indices(index: IntExpr | tuple[IntExpr, ...]) -> list[ir.Expr]:
    return [expr(i) for i in (index if isinstance(index, tuple) else (index,))]


def _sequence(statements: Sequence[tirx.Stmt]) -> tirx.Stmt:
    if not statements:
        return tirx.Evaluate(tirx.const(0, "int32"))
    return statements[0] if len(statements) == 1 else tirx.SeqStmt(list(statements))
