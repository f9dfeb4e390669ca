"""Folds reshapes into the kernels before them that only move elements.

A move copies one element of its source to each index of its result: slices, transposes, repeats. A reshape of a move
whose result nothing else uses becomes part of the move. So moves follow each other directly, and fuse with the kernel
that reads them:

    reshape(move(x), shape)    ->    move'(x)

A reshape is folded if its result is read by kernels, or by products of two computed operands. Each new dim must be an
old one, a part of an old one, or several old ones joined, where elements repeat along all but one of these. Any other
reshape would need divisions that the move does not have.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from tvm import ir, relax, s_tir, sym, te, tirx

from deploykit.compiler.decisions import Decision, Declined, Note, unheard
from deploykit.compiler.graph.bindings import Graph, arguments_of, operator_of, rewritten
from deploykit.compiler.schedules.kernel.stages import Stage, read
from deploykit.compiler.tir.rewriting import Expr, collect, substitute
from deploykit.compiler.tir.values import const


@dataclass(frozen=True)
class Move:
    """A move: at `axes`, a result of `shape` has the element of `source` at `indices`. All are in terms of the dims of
    the graph."""

    source: relax.Expr
    shape: tuple[Expr, ...]
    axes: tuple[ir.Var, ...]
    indices: tuple[Expr, ...]

    def reshaped(self, shape: Sequence[Expr]) -> Move | Declined:
        """The move that is this one followed by a reshape to `shape`, or the reason why there is none."""
        fresh = [ir.Var(f"i{dim}", "int64") for dim in range(len(shape))]
        used = {var for index in self.indices for var in collect(index, ir.Var)}
        old = [(extent, axis if axis in used else None) for extent, axis in zip(self.shape, self.axes, strict=True)]
        values = _regrouped(old, list(zip(shape, fresh, strict=True)))
        if values is None:
            return Declined("its places would need divisions")
        indices = tuple(substitute(index, values) for index in self.indices)
        return Move(self.source, tuple(shape), tuple(fresh), indices)

    def call(self, builder: relax.BlockBuilder) -> relax.Call:
        """A call of a kernel that does the move. Dims that are not an extent of source or result become its
        parameters."""
        sizes = list(self.source.ty.shape.values)
        source = te.placeholder(sizes, str(self.source.ty.dtype), name="x")

        def element(*place: ir.Var) -> Expr:
            values = dict(zip(self.axes, place, strict=True))
            return source(*(substitute(index, values) for index in self.indices))

        moved = te.compute(self.shape, element, name="moved")
        extents = [*sizes, *self.shape]
        used = [var for expr in (*extents, *self.indices) for var in collect(expr, ir.Var)]
        given = {extent for extent in extents if isinstance(extent, ir.Var)}
        scalars = [var for var in dict.fromkeys(used) if var not in given and var not in self.axes]
        func = te.create_prim_func([source, *scalars, moved], "int64").without_attr("global_symbol")
        name = builder.add_func(s_tir.renew_defs(func), "moved")
        result = relax.TensorType(list(self.shape), str(self.source.ty.dtype))
        return relax.call_tir(name, relax.Tuple([self.source, *scalars]), result)


def is_move(stage: Stage) -> bool:
    """Whether a stage copies elements of one tensor unchanged, from indices that do not depend on their values."""
    if not stage.pointwise or stage.store is None or not isinstance(stage.store.value, ir.TensorLoad):
        return False
    return not _is_indirect(stage.store.value)


def move_of(mod: ir.IRModule, value: relax.Expr | None) -> Move | Declined:
    """The move that the kernel called by `value` computes, or the reason why it is not a move."""
    if value is None or operator_of(value) != "relax.call_tir":
        return Declined("what it reads is not computed by a kernel")
    func, fields = mod[value.args[0]], list(value.args[1].fields)
    nest = read(func)
    if isinstance(nest, Declined):
        return nest
    stage = nest.stages[0]
    if len(nest.stages) != 1 or not isinstance(stage, Stage) or stage.store is None or not is_move(stage):
        return Declined("what it reads is computed, not only moved")
    load = stage.store.value
    sources = [field for param, field in zip(func.params, fields, strict=False) if load.source.same_as(param)]
    if len(sources) != 1:
        return Declined("what it reads is moved from several tensors")
    indices = [substitute(index, _dims(func, fields)) for index in load.indices]
    known = {axis.var for axis in stage.axes} | {var for n in sources[0].ty.shape for var in collect(n, ir.Var)}
    if any(var not in known for index in indices for var in collect(index, ir.Var)):
        return Declined("what it reads is moved by sizes that its source does not have")
    shape = tuple(value.ty_args[0].shape.values)
    return Move(sources[0], shape, tuple(axis.var for axis in stage.axes), tuple(indices))


def _is_indirect(load: ir.TensorLoad) -> bool:
    return any(collect(index, ir.TensorLoad) for index in load.indices)


def fold_reshapes(mod: ir.IRModule, note: Note = unheard) -> ir.IRModule:
    """`mod`, with reshapes of moves folded into the moves."""
    builder = relax.BlockBuilder(mod)
    return rewritten(mod, builder, lambda func: partial(_folded, builder, _folds(mod, Graph(func), note)))


@dataclass(frozen=True)
class _Folds:
    """The moves that replace reshapes, by the reshapes' variables, and the moves that are not needed any more."""

    moves: Mapping[relax.Var, Move]
    gone: Collection[relax.Var]


def _folds(mod: ir.IRModule, graph: Graph, note: Note) -> _Folds:
    moves: dict[relax.Var, Move] = {}
    for var, value in graph.values.items():
        if operator_of(value) == "relax.reshape":
            found = _fold(mod, graph, moves, var)
            if isinstance(found, Move):
                moves[var] = found
            outcome = found if isinstance(found, Declined) else "part of the move before it"
            note(Decision("fold_reshapes", var.name, outcome))
    return _Folds(moves, {graph.values[var].args[0] for var in moves})


def _fold(mod: ir.IRModule, graph: Graph, moves: Mapping[relax.Var, Move], var: relax.Var) -> Move | Declined:
    """The move that replaces the reshape `var`, given the moves that replace earlier ones, or a reason against it."""
    source, shape = graph.values[var].args
    if not all(_takes_moves(graph.values[reader]) for reader in graph.readers.get(var, [])):
        return Declined("what reads it needs it in memory")
    if graph.uses[source] != 1:
        return Declined("others read what it reads, too")
    found = moves.get(source) or move_of(mod, graph.values.get(source))
    return found if isinstance(found, Declined) else found.reshaped(list(shape.values))


def _folded(builder: relax.BlockBuilder, folds: _Folds, block: relax.BindingBlock) -> relax.BindingBlock:
    if not any(binding.var in folds.moves or binding.var in folds.gone for binding in block.bindings):
        return block
    kept = [binding for binding in block.bindings if binding.var not in folds.gone]
    return type(block)([_replaced(binding, folds.moves, builder) for binding in kept])


def _replaced(binding: relax.Binding, moves: Mapping[relax.Var, Move], builder: relax.BlockBuilder) -> relax.Binding:
    move = moves.get(binding.var)
    return binding if move is None else relax.VarBinding(binding.var, move.call(builder))


def _takes_moves(value: relax.Expr) -> bool:
    """Whether an operator can read the result of a move without a copy of it in memory."""
    computed = not any(isinstance(operand, ir.GenericConst) for operand in arguments_of(value))
    return operator_of(value) in ("relax.call_tir", "relax.reshape") or (
        operator_of(value) == "relax.matmul" and computed
    )


def _dims(func: tirx.PrimFunc, fields: Sequence[relax.Expr]) -> dict[ir.Var, Expr]:
    """The values of a kernel's integer variables where it is called."""
    values: dict[ir.Var, Expr] = {}
    for param, field in zip(func.params, fields, strict=False):
        if not tirx.is_buffer_var(param):
            values[param] = field
            continue
        pairs = zip(param.shape, field.ty.shape, strict=True)
        values |= {formal: actual for formal, actual in pairs if isinstance(formal, ir.Var)}
    return values


_Dim = tuple[Expr, ir.Var | None]
"""An extent and the index along it. The index is `None` where elements repeat."""


def _regrouped(old: Sequence[_Dim], new: Sequence[_Dim]) -> dict[ir.Var, Expr] | None:
    """The indices along the `old` dims in terms of those along the `new` dims, both in row-major order; None if that
    would need divisions."""
    values: dict[ir.Var, Expr] = {axis: const(0) for extent, axis in old if axis is not None and _is_one(extent)}
    old, new = [[dim for dim in dims if not _is_one(dim[0])] for dims in (old, new)]
    while old or new:
        sizes = _group(old, new)
        if sizes is None:
            return None
        found = _values(old[: sizes[0]], new[: sizes[1]], last=sizes[0] == len(old))
        if found is None:
            return None
        values |= found
        old, new = old[sizes[0] :], new[sizes[1] :]
    return values


def _group(old: Sequence[_Dim], new: Sequence[_Dim]) -> tuple[int, int] | None:
    """The least numbers of leading dims of both sides that have the same product; one of the numbers is 1."""
    sizes = [(1, n) for n in range(1, len(new) + 1)] + [(n, 1) for n in range(2, len(old) + 1)]
    known = sym.Analyzer()
    for a, b in sizes:
        if a <= len(old) and b <= len(new) and known.can_prove_equal(_product(old[:a]), _product(new[:b])):
            return a, b
    return None


def _values(old: Sequence[_Dim], new: Sequence[_Dim], *, last: bool) -> dict[ir.Var, Expr] | None:
    """The indices along the `old` dims of a group of equal product. `last`: the group is the last one."""
    if len(old) == 1:
        if old[0][1] is None:
            return {}
        index: Expr = const(0)
        for extent, place in new:
            index = index * extent + place
        return {old[0][1]: sym.Analyzer().simplify(index)}
    used = [(position, axis) for position, (_, axis) in enumerate(old) if axis is not None]
    if last or len(used) > 1:
        return None
    place = new[0][1]
    return {axis: _part(place, old, position) for position, axis in used}


def _part(place: Expr, old: Sequence[_Dim], position: int) -> Expr:
    """The index along one of the `old` dims, given the index along all of them together."""
    if position + 1 < len(old):
        place = tirx.floordiv(place, _product(old[position + 1 :]))
    return place if position == 0 else tirx.floormod(place, old[position][0])


def _product(group: Sequence[_Dim]) -> Expr:
    product: Expr = const(1)
    for extent, _ in group:
        product = product * extent
    return product


def _is_one(extent: Expr) -> bool:
    return isinstance(extent, tirx.IntImm) and int(extent) == 1
