"""Brings a padded model to a form in which the batch is always an axis of its own.

* Where a reshape joins the batch with other dims (`[batch * seq, width]`, `[batch * heads, seq, size]`), the tensor is
  kept in its shape before that: kernels that read it, and products, work on separate axes.
* An index into such a tensor that adds an index along `seq` to `b * seq` is taken apart, too. Whether it stays inside
  of its instance is for the proof to say.
* A tensor that is computed from positions alone (ranges, comparisons of them, causal masks) is not kept in memory: its
  formula takes its place in the kernels that read it. So indices that are such formulas become plain: `mask[i[b, k]]`,
  where `i[b, k]` is `b * seq + k`, becomes `mask[b, k]`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import tvm_ffi
from tvm import ir, relax, sym, tirx

from deploykit.compiler.constants import read as reading
from deploykit.compiler.decisions import Declined
from deploykit.compiler.graph.bindings import operator_of, with_blocks
from deploykit.compiler.operators.building.index_checks import check, checked_bounds, is_check
from deploykit.compiler.ragged.conversion.blocks import block, new_kernel, reshaped, root
from deploykit.compiler.ragged.conversion.contents import RaggedDim
from deploykit.compiler.ragged.conversion.kernel_call import KernelCall, kernel_call
from deploykit.compiler.ragged.conversion.masks import folded
from deploykit.compiler.ragged.conversion.places import decided, equal, groups, moved, ranges, raveled, without_factor
from deploykit.compiler.schedules.kernel.stages import Axis, Stage
from deploykit.compiler.tir.rewriting import Buffer, Expr, collect, substitute
from deploykit.compiler.tir.values import const, dtype_of

SHORT = 120
"""The most nodes of a formula that takes the place of a tensor."""


@dataclass(frozen=True)
class View:
    """A tensor of `shape` that has the elements of `base`, a tensor of another shape."""

    base: relax.Expr
    shape: tuple[Expr, ...]


@dataclass(frozen=True)
class Formula:
    """The elements of a tensor of `shape` in terms of its indices, for which `axes` stand. An index, such as the last
    position of each sequence, may also read tensors with one number for each sequence: `reads`, by their buffers."""

    shape: tuple[Expr, ...]
    axes: tuple[ir.Var, ...]
    value: Expr
    reads: Mapping[Buffer, relax.Expr] = field(default_factory=dict)

    def at(self, indices: Sequence[Expr]) -> Expr:
        return substitute(self.value, dict(zip(self.axes, indices, strict=True)))


def canonical(mod: ir.IRModule, name: str, dim: RaggedDim) -> ir.IRModule:
    """`mod`, with the function `name` in this form."""
    gvar = mod.get_global_var(name)
    func = mod[gvar]
    builder = relax.BlockBuilder(mod)
    rewriting = _Canonical(mod, builder, dim)
    blocks = [type(block)(rewriting.block(block.bindings)) for block in func.body.blocks]
    builder.update_func(gvar, with_blocks(func, blocks, rewriting.of(func.body.body)))
    unused = relax.transform.DeadCodeElimination([name])
    result: ir.IRModule = unused(relax.transform.Normalize()(builder.get()))
    return result


class _Canonical:
    def __init__(self, mod: ir.IRModule, builder: relax.BlockBuilder, dim: RaggedDim) -> None:
        self.mod, self.builder, self.dim = mod, builder, dim
        self.views: dict[ir.Var, View] = {}
        self.formulas: dict[ir.Var, Formula] = {}
        self.bindings: list[relax.Binding] = []

    def block(self, bindings: Sequence[relax.Binding]) -> list[relax.Binding]:
        self.bindings = []
        for binding in bindings:
            if not isinstance(binding, relax.VarBinding) or not self.rewritten(binding.var, binding.value):
                self.bindings.append(self.plain(binding))
        return self.bindings

    def bound(self, var: relax.Var, value: relax.Expr) -> None:
        self.bindings.append(relax.VarBinding(var, value))

    def plain(self, binding: relax.Binding) -> relax.Binding:
        """A binding that reads tensors as they were."""
        if isinstance(binding, relax.MatchCast):
            return relax.MatchCast(binding.var, self.of(binding.value), binding.ty)
        return relax.VarBinding(binding.var, self.of(binding.value))

    def of(self, value: relax.Expr) -> relax.Expr:
        """`value`, with the tensors that are views in their own shape."""
        made: dict[ir.Var, Expr] = {}
        for var in dict.fromkeys(collect(value, ir.Var)):
            view = self.views.get(var)
            if view is not None:
                whole = relax.Var(var.name, var.ty)
                self.bound(whole, relax.op.reshape(view.base, relax.ShapeExpr(list(view.shape))))
                made[var] = whole
        return substitute(value, made)

    def rewritten(self, var: relax.Var, value: relax.Expr) -> bool:
        """Bind a variable to something else than `value`, if that is called for."""
        operator = operator_of(value)
        if operator == "relax.reshape":
            return self.reshape(var, value)
        if is_check(value) and isinstance(value.args[1], relax.Var):
            return self.check(var, value)
        if operator == "relax.matmul":
            return self.product(var, value)
        call = kernel_call(self.mod, value)
        return call is not None and self.kernel(var, call)

    def joins_batch(self, shape: Sequence[Expr]) -> bool:
        """Whether a shape joins the batch with other dims."""
        return any(not n.same_as(self.dim.batch) and self.dim.batch in collect(n, ir.Var) for n in shape)

    def reshape(self, var: relax.Var, value: relax.Call) -> bool:
        source, shape = value.args[0], tuple(value.args[1].values)
        formula = self.formulas.get(source) if isinstance(source, relax.Var) else None
        if formula is not None:
            axes = tuple(ir.Var(f"i{n}", "int64") for n in range(len(shape)))
            known = ranges([Axis(axis, extent) for axis, extent in zip(axes, shape, strict=True)], self.dim)
            value = formula.at(moved(axes, shape, formula.shape, known))
            self.formulas[var] = Formula(shape, axes, value, formula.reads)
            return False
        view = self.views.get(source) if isinstance(source, relax.Var) else None
        base = source if view is None else view.base
        if not self.joins_batch(shape):
            if view is None:
                return False
            self.bound(var, relax.op.reshape(base, relax.ShapeExpr(list(shape))))
            return True
        apart = self.apart(list(base.ty.shape.values), shape)
        if apart is None:
            return False
        if len(apart) != len(base.ty.shape) or not all(a.same_as(b) for a, b in zip(apart, base.ty.shape, strict=True)):
            inner = relax.Var(f"{var.name}_apart", relax.TensorType(apart, str(base.ty.dtype)))
            self.bound(inner, relax.op.reshape(base, relax.ShapeExpr(apart)))
            base = inner
        self.views[var] = View(base, shape)
        return True

    def apart(self, base: list[Expr], shape: Sequence[Expr]) -> list[Expr] | None:
        """`shape`, with the axes of `base` instead of those that join the batch with others."""
        grouped = groups(base, shape)
        if grouped is None:
            return None
        found: list[Expr] = []
        for old, new in grouped:
            joined = self.joins_batch([shape[axis] for axis in new])
            found += [base[axis] for axis in old] if joined else [shape[axis] for axis in new]
        return None if self.joins_batch(found) else found

    def check(self, var: relax.Var, value: relax.Call) -> bool:
        indices = value.args[1]
        if indices in self.formulas:
            self.formulas[var] = self.formulas[indices]
            return False
        view = self.views.get(indices)
        if view is None:
            return False
        made = relax.Var(var.name, view.base.ty)
        self.bound(made, check(view.base, checked_bounds(value), str(value.args[3].value)))
        self.views[var] = View(made, view.shape)
        return True

    def product(self, var: relax.Var, value: relax.Call) -> bool:
        """A product of views as a product of the tensors that they view."""
        left, right = (self.views.get(x) if isinstance(x, relax.Var) else None for x in value.args)
        if left is None and right is None:
            return False
        a = value.args[0] if left is None else left.base
        b = value.args[1] if right is None else right.base
        lead, rank = len(a.ty.shape) - 2, len(value.args[0].ty.shape)
        if left is None or (right is None and (len(b.ty.shape) != 2 or rank != 2)):
            return False
        if right is not None and len(b.ty.shape) - 2 != lead:
            return False
        rows = left.shape[-2] if right is not None else None
        if rows is not None and not rows.same_as(a.ty.shape[-2]):
            return False
        shape = [*list(a.ty.shape.values)[:-1], b.ty.shape[-1]]
        dtype = str(value.attrs.out_dtype or a.ty.dtype)
        made = relax.Var(f"{var.name}_apart", relax.TensorType(shape, dtype))
        self.bound(made, relax.op.matmul(a, b, out_dtype=dtype))
        self.views[var] = View(made, tuple(var.ty.shape.values))
        return True

    # Kernels

    def kernel(self, var: relax.Var, call: KernelCall) -> bool:
        if isinstance(call.nest, Declined):
            updates = self.written_whole(call)
            if updates is not None:
                self.bound(var, updates)
            return updates is not None
        if len(call.results) != 1:
            return False
        if not all(isinstance(stage, Stage) for stage in call.stages):
            return False
        views = {b: self.views[x] for b, x in call.operands.items() if isinstance(x, relax.Var) and x in self.views}
        formulas = {
            b: self.formulas[x] for b, x in call.operands.items() if isinstance(x, relax.Var) and x in self.formulas
        }
        result = call.results[0]
        joined = self.joins_batch(list(result.shape))
        if not views and not formulas and not joined:
            self.note_formula(var, call)
            return False
        try:
            work = _Kernel(call, self.dim, views, formulas)
            stages = work.stages()
        except _Entangled:
            return False
        reads = {b: x for formula in formulas.values() for b, x in formula.reads.items()}
        kept = {b: x for b, x in call.operands.items() if b not in views and b not in formulas} if formulas else {}
        outcome = self.formula_of(stages, result, call, reads | kept)
        if outcome is not None and not joined:
            self.formulas[var] = outcome
        func, operands = work.made(stages)
        gvar = self.builder.add_func(func, call.name)
        type_ = relax.TensorType(work.shape(result), dtype_of(result))
        made = relax.Var(f"{var.name}_apart", type_) if joined else var
        given = [operand for operand in operands if isinstance(operand.ty, relax.TensorType)]
        scalars = [operand for operand in operands if not isinstance(operand.ty, relax.TensorType)]
        self.bound(made, relax.call_tir(gvar, relax.Tuple([*given, *scalars]), type_))
        if joined:
            self.views[var] = View(made, tuple(result.shape))
        return True

    def written_whole(self, call: KernelCall) -> relax.Expr | None:
        """The tensor that a scatter writes over all of another one, each element at its own place: `x[:] = updates`, as
        exporters write a mask that is changed in place. None for other kernels."""
        if not call.name.startswith("scatter") or len(call.operands) != 3 or len(call.results) != 1:
            return None
        (_, (indices, places), (given, updates)), result = call.operands.items(), call.results[0]
        last = collect(call.body, tirx.BufferStore)[-1]
        written = last.value
        if not isinstance(written, ir.TensorLoad) or not written.source.same_as(given):
            return None
        shapes = zip(given.shape, result.shape, strict=False)
        formula = self.formulas.get(places) if isinstance(places, relax.Var) else None
        if formula is None or len(given.shape) != len(result.shape) or not all(equal(a, b) for a, b in shapes):
            return None
        if len(indices.shape) != len(result.shape) + 1:
            return None
        axes = [Axis(ir.Var(f"i{n}", "int64"), extent) for n, extent in enumerate(result.shape)]
        known = ranges(axes, self.dim)
        for number, axis in enumerate(axes):
            place = known.simplify(decided(formula.at([*(each.var for each in axes), const(number)]), known))
            if not known.can_prove_equal(place, axis.var):
                return None
        return updates

    def note_formula(self, var: relax.Var, call: KernelCall) -> None:
        found = self.formula_of([stage for stage in call.stages if isinstance(stage, Stage)], call.results[0], call, {})
        if found is not None:
            self.formulas[var] = found

    def formula_of(
        self, stages: Sequence[Stage], result: Buffer, call: KernelCall, reads: Mapping[Buffer, relax.Expr]
    ) -> Formula | None:
        """The formula of a kernel that reads no tensor but single constants, and if it computes indices, `reads`."""
        if len(stages) != 1 or not stages[0].pointwise or stages[0].store is None:
            return None
        numbers = {buffer: _single(operand) for buffer, operand in call.operands.items()}

        def load(node: ir.TensorLoad) -> Expr:
            number = numbers.get(node.source)
            return node if number is None else number

        value = folded(tvm_ffi.structural_map(stages[0].store.value, (ir.TensorLoad, load)))
        if len(collect(value, ir.Expr)) > SHORT:
            return None
        axes = tuple(axis.var for axis in stages[0].axes)
        used = dict.fromkeys(each.source for each in collect(value, ir.TensorLoad))
        if any(buffer not in reads for buffer in used):
            return None
        extents = [extent for tensor in (result, *used) for extent in tensor.shape]
        if used and (dtype_of(result) != "int64" or any(self.dim.extent in collect(n, ir.Var) for n in extents)):
            return None
        return Formula(tuple(result.shape), axes, value, {buffer: reads[buffer] for buffer in used})


class _Entangled(Exception):
    """An index or a shape does not come apart."""


class _Kernel:
    """Rewrites a kernel so that it reads what views are views of, and formulas instead of tensors. Axes that join the
    batch with others are taken apart."""

    def __init__(
        self, call: KernelCall, dim: RaggedDim, views: Mapping[Buffer, View], formulas: Mapping[Buffer, Formula]
    ) -> None:
        self.call, self.dim, self.views, self.formulas = call, dim, views, formulas
        self.split: dict[Expr, list[Expr]] = {}
        for view in views.values():
            self.learn(view)
        self.kept = [buffer for buffer in call.operands if buffer not in formulas and buffer not in views]
        written = [*call.results, *call.temporaries]
        self.reads = {b: x for formula in formulas.values() for b, x in formula.reads.items()}
        self.buffers = {buffer: buffer for buffer in (*self.kept, *self.reads)}
        for buffer, view in views.items():
            self.buffers[buffer] = reshaped(buffer, list(view.base.ty.shape.values))
        for buffer in written:
            self.buffers[buffer] = reshaped(buffer, self.shape(buffer))

    def learn(self, view: View) -> None:
        """Note how the joined extents of a view come apart."""
        for old, new in groups(list(view.base.ty.shape.values), view.shape) or []:
            if len(new) == 1 and len(old) > 1:
                self.split[view.shape[new[0]]] = [view.base.ty.shape[axis] for axis in old]

    def parts(self, extent: Expr) -> list[Expr]:
        """The extents that a joined extent comes apart into."""
        if extent.same_as(self.dim.batch) or self.dim.batch not in collect(extent, ir.Var):
            return [extent]
        for known, parts in self.split.items():
            if tvm_ffi.structural_equal(known, extent) or equal(known, extent):
                return parts
        rest = without_factor(extent, self.dim.batch)
        if rest is None:
            raise _Entangled
        return [self.dim.batch, rest]

    def shape(self, buffer: Buffer) -> list[Expr]:
        return [part for extent in buffer.shape for part in self.parts(extent)]

    def stages(self) -> list[Stage]:
        return [self.stage(stage) for stage in self.call.stages if isinstance(stage, Stage)]

    def stage(self, stage: Stage) -> Stage:
        axes: list[Axis] = []
        values: dict[ir.Var, Expr] = {}
        places: dict[ir.Var, list[Expr]] = {}
        for axis in stage.axes:
            parts = self.parts(axis.extent)
            if len(parts) == 1:
                axes.append(axis)
                continue
            own = [Axis(ir.Var(f"{axis.var.name}_{n}", "int64"), part) for n, part in enumerate(parts)]
            axes += own
            places[axis.var] = [each.var for each in own]
            values[axis.var] = raveled([each.var for each in own], parts)
        known = ranges([*axes, *stage.reduce], self.dim)

        def load(node: ir.TensorLoad) -> Expr:
            indices = list(node.indices)
            formula = self.formulas.get(node.source)
            if formula is not None:
                return formula.at([substitute(index, values) for index in indices])
            view = self.views.get(node.source)
            if view is not None:
                at = self.viewed([substitute(index, values) for index in indices], view, known)
                return tirx.BufferLoad(self.buffers[node.source], at)
            if node.source in self.buffers:
                return tirx.BufferLoad(
                    self.buffers[node.source], self.apart(node.source, indices, places, known, values)
                )
            return node

        def store(node: tirx.BufferStore) -> tirx.Stmt:
            at = self.apart(node.buffer, list(node.indices), places, known, values)
            return tirx.BufferStore(self.buffers[node.buffer], node.value, at)

        def whole(statement: tirx.Stmt) -> tirx.Stmt:
            mapped = tvm_ffi.structural_map(statement, [(ir.TensorLoad, load), (tirx.BufferStore, store)])
            return folded(decided(substitute(mapped, values), known))

        init = None if stage.init is None else whole(stage.init)
        return Stage(stage.name, tuple(axes), stage.reduce, whole(stage.body), init, stage.annotations)

    def viewed(self, indices: Sequence[Expr], view: View, known: sym.Analyzer) -> list[Expr]:
        """The indices, in the base of a view, of its element at `indices`. An element that a tensor chooses is taken
        for one of its instance if its index is the sum of a position and of where the instance begins."""
        base = list(view.base.ty.shape.values)
        loads = [load for index in indices for load in collect(index, ir.TensorLoad)]
        along = [axis for axis, extent in enumerate(base) if extent.same_as(self.dim.extent)]
        if len(along) == 1 and loads and all(tvm_ffi.structural_equal(load, loads[0]) for load in loads):
            chosen = ir.Var("chosen", dtype_of(loads[0]))
            known.bind(chosen, ir.Range(const(0), self.dim.extent))
            named = [tvm_ffi.structural_map(index, (ir.TensorLoad, lambda _: chosen)) for index in indices]
            at = moved([self.simple(index, known) for index in named], view.shape, base, known)
            others = [index for axis, index in enumerate(at) if axis != along[0]]
            if at[along[0]].same_as(chosen) and chosen not in collect(others, ir.Var):
                return [loads[0] if index.same_as(chosen) else index for index in at]
        return moved([self.simple(index, known) for index in indices], view.shape, base, known)

    def apart(
        self,
        buffer: Buffer,
        indices: Sequence[Expr],
        places: Mapping[ir.Var, list[Expr]],
        known: sym.Analyzer,
        values: Mapping[ir.Var, Expr],
    ) -> list[Expr]:
        """The indices of a buffer whose joined extents are apart."""
        found: list[Expr] = []
        for index, extent in zip(indices, buffer.shape, strict=True):
            parts = [extent] if buffer in self.kept else self.parts(extent)
            if len(parts) == 1:
                found.append(self.simple(substitute(index, values), known) if collect(index, ir.Expr) else index)
            elif isinstance(index, ir.Var) and index in places:
                found += places[index]
            else:
                found += moved([substitute(index, values)], [extent], parts, known)
        return found

    def simple(self, index: Expr, known: sym.Analyzer) -> Expr:
        """An index without the conditions that its range decides."""
        return index if isinstance(index, ir.Var | tirx.IntImm) else known.simplify(decided(index, known))

    def made(self, stages: Sequence[Stage]) -> tuple[tirx.PrimFunc, list[relax.Expr]]:
        """The kernel of these stages, and its operands: tensors, then dims."""
        body = root(
            [block(stage, stage.axes, stage.reduce, stage.body, stage.init) for stage in stages],
            [self.buffers[buffer] for buffer in self.call.temporaries],
        )
        used = set(collect(body, ir.Var))
        every = {**self.call.operands, **self.reads}
        operands = {b: x for b, x in every.items() if b in self.buffers and self.buffers[b] in used}
        inputs = [self.buffers[b] for b in operands]
        func, scalars = new_kernel(inputs, [self.buffers[b] for b in self.call.results], body)
        given = [self.views[b].base if b in self.views else x for b, x in operands.items()]
        return func, [*given, *scalars]


def _single(operand: relax.Expr) -> Expr | None:
    """The number of a constant of one element."""
    if not isinstance(operand, ir.GenericConst):
        return None
    with reading(operand) as array:
        if array.size != 1 or array.dtype.kind not in "bifu":
            return None
        value, dtype = array.reshape(-1)[0], str(array.dtype)
        return tirx.const(bool(value) if dtype == "bool" else value.item(), dtype)
