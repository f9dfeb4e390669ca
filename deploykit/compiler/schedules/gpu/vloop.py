"""A vloop on a GPU: a kernel for one instance is divided into shaders, and each of these runs for all instances.

    for index in parallel(batch * each):            each: the iterations for the longest instance, at least 1
        place, first = index / each, index % each
        <the values of the instance at this place>
        for turn in range((own - first + each - 1) / each):         own: the iterations of this instance
            <iteration first + turn * each of the part for one instance>

An iteration that an instance does not have ends at once, for all invocations of a team alike. A part for some sizes
only is chosen by the longest instance; every part is correct for all sizes.

Shaders have no pointers, so parts access packed tensors instead of views of an instance (`packed`). A temporary has
room for the longest instance at each place. The values of an instance are loaded once in an invocation; those of the
prelude's arrays are known to be sizes. If they come from many arrays, a shader before the others puts them into one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import tvm_ffi
from tvm import ir, tirx

from deploykit.compiler.decisions import Declined
from deploykit.compiler.devices.gpu import Gpu
from deploykit.compiler.schedules.gpu.packed import Accesses, Place
from deploykit.compiler.schedules.gpu.parts import Divided, Part
from deploykit.compiler.schedules.gpu.team import same
from deploykit.compiler.schedules.kernel.access import Views, offset_of, size_of
from deploykit.compiler.schedules.kernel.loops import Code, loop
from deploykit.compiler.schedules.kernel.stages import scalars_of
from deploykit.compiler.schedules.vloop import Vloop, vloop_of
from deploykit.compiler.tir.loaded_values import stored_size
from deploykit.compiler.tir.rewriting import Buffer, Expr, collect, replace_loads, sequence, substitute
from deploykit.compiler.tir.values import as_index, const, dtype_of

FEW = 2
"""Up to this many index arrays are read where they are needed. The values from more are first put into one array."""

Divide = Callable[[tirx.PrimFunc, Gpu], Divided | Declined]


def divide_vloop(func: tirx.PrimFunc, gpu: Gpu, divide: Divide) -> Divided | Declined:
    """The shaders of a vloop, or the reason why there are none. `divide` divides the kernel for one instance."""
    found = vloop_of(func)
    arrays = _arrays(found)
    if any(dtype_of(array) != "int64" for array in arrays):
        return Declined("its index arrays are not of int64")
    if len(arrays) >= gpu.bindings:
        return Declined(f"it reads {len(arrays)} index arrays, and a shader has {gpu.bindings} bindings")
    together = _Together(found) if len(arrays) > FEW else None
    count = len(arrays) if together is None else 1
    divided = divide(found.alone, replace(gpu, bindings=gpu.bindings - count))
    if isinstance(divided, Declined):
        return divided
    whole = _Whole(func, found if together is None else together.vloop, divided, together)
    parts = [*map(whole.part, divided.parts)]
    if together is not None:
        gathered = whole.made([*arrays, together.values], [together.statement()], divided.parts[0])
        parts.insert(0, replace(gathered, outputs=1, team=False))
    return replace(divided, temporaries=tuple(whole.temporaries), parts=tuple(parts))


def _arrays(vloop: Vloop) -> list[Buffer]:
    """The index arrays that give the values of an instance."""
    return list(dict.fromkeys(load.source for bind in vloop.own for load in collect(bind.value, ir.TensorLoad)))


class _Together:
    """The values of all instances in one array, `values`, which a shader of its own computes. `vloop` reads them."""

    def __init__(self, given: Vloop) -> None:
        self.given, count = given, len(given.own)
        self.values = tirx.decl_buffer([as_index(given.loop.extent) * count], "int64", "values")
        self.spots = [given.loop.loop_var * count + number for number in range(count)]
        loads = [tirx.BufferLoad(self.values, [spot]) for spot in self.spots]
        own = [tirx.Bind(bind.var, load) for bind, load in zip(given.own, loads, strict=True)]
        self.vloop = replace(given, own=own)

    def statement(self) -> tirx.Stmt:
        def at(place: Expr) -> tirx.Stmt:
            code = Code()
            code.add(tirx.Bind(self.given.loop.loop_var, place))
            for bind in self.given.own:
                code.add(tirx.Bind(bind.var, replace_loads(bind.value, stored_size)))
            for bind, spot in zip(self.given.own, self.spots, strict=True):
                code.add(tirx.BufferStore(self.values, bind.var, [spot]))
            return code.statement()

        return loop("task", self.given.loop.extent, at, tirx.ForKind.PARALLEL)


class _Whole:
    """Makes shaders for all instances from parts for one."""

    def __init__(self, func: tirx.PrimFunc, vloop: Vloop, divided: Divided, together: _Together | None) -> None:
        self.func, self.vloop, self.arrays = func, vloop, _arrays(vloop)
        self.params = [param for param in func.params if tirx.is_buffer_var(param)]
        self.temporaries: list[Buffer] = [] if together is None else [together.values]
        self.places: dict[int, Place] = {}
        """The places of those buffers of parts that differ between instances, by their number."""
        for number, view in enumerate(vloop.views, len(self.params)):
            (load,) = collect(view.data, ir.TensorLoad)
            self.places[number] = Place(load.source, offset_of(load.source, list(load.indices)))
        for number, buffer in enumerate(divided.temporaries, len(self.params) + len(vloop.views)):
            room = self.at_most(size_of(buffer))
            size = as_index(vloop.loop.extent) * room
            self.temporaries.append(tirx.decl_buffer([size], dtype_of(buffer), buffer.name))
            self.places[number] = Place(self.temporaries[-1], vloop.loop.loop_var * room)
        self.known = [*self.params, *self.temporaries]

    def at_most(self, size: Expr) -> Expr:
        """A size for the longest instance."""
        return substitute(substitute(size, self.vloop.longest), self.vloop.most)

    def part(self, part: Part) -> Part:
        """The shader that runs `part` for all instances."""
        buffers = [param for param in part.func.params if tirx.is_buffer_var(param)]
        places = {b: self.places[n] for b, n in zip(buffers, part.operands, strict=True) if n in self.places}
        own = [self.places[n].packed if n in self.places else self.params[n] for n in part.operands]
        read, written = own[: -part.outputs], own[-part.outputs :]
        operands = [*dict.fromkeys(each for each in (*self.arrays, *read) if each not in written), *written]
        views = Views()
        task = self.task(part, Accesses(places, views))
        return self.made(operands, [*(s for buffer in operands for s in views.declarations(buffer)), *task], part)

    def made(self, operands: Sequence[Buffer], statements: Sequence[tirx.Stmt], like: Part) -> Part:
        """A part that consists of `statements` over these buffers, the rest of it `like` another part."""
        body = sequence(statements)
        used = {var for node in (body, *(n for b in operands for n in b.shape)) for var in collect(node, ir.Var)}
        scalars = [var for var in scalars_of(self.func) if var in used]
        numbers = tuple(next(i for i, other in enumerate(self.known) if other.same_as(b)) for b in operands)
        return replace(like, func=tirx.PrimFunc([*operands, *scalars], body), operands=numbers)

    def task(self, part: Part, accesses: Accesses) -> list[tirx.Stmt]:
        """The statements of the shader: declarations, then the parallel loop over all instances."""
        statements = accesses.without_views(part.func.body)
        declared = [each for each in statements if isinstance(each, tirx.DeclBuffer)]
        alone = _task(sequence([each for each in statements if not isinstance(each, tirx.DeclBuffer)]))
        chosen = _chosen_by(as_index(alone.extent), self.at_most)
        each = tirx.max(self.at_most(chosen), const(1))
        vloop = self.vloop

        def at(index: Expr) -> tirx.Stmt:
            code = Code()
            code.add(tirx.Bind(vloop.loop.loop_var, tirx.truncdiv(index, each)))
            first = code.let("first", tirx.truncmod(index, each))
            for bind in vloop.own:
                value = replace_loads(bind.value, stored_size)
                code.add(tirx.Bind(bind.var, same(value) if part.team else value))
            turns = tirx.truncdiv(chosen - first + (each - 1), each)

            def turn(number: Expr) -> tirx.Stmt:
                place = (first + number * each).astype(dtype_of(alone.loop_var))
                return sequence([tirx.Bind(alone.loop_var, place), accesses.rewritten(alone.body)])

            code.add(loop("turn", turns, turn))
            return substitute(code.statement(), vloop.most)

        return [*declared, loop("task", vloop.loop.extent * each, at, tirx.ForKind.PARALLEL)]


def _task(body: tirx.Stmt) -> tirx.For:
    """The parallel loop of a part, of one iteration if it has none."""
    if isinstance(body, tirx.For) and body.kind == tirx.ForKind.PARALLEL:
        return body
    return tirx.For(ir.Var("task", "int64"), const(0), const(1), tirx.ForKind.PARALLEL, body)


def _chosen_by(extent: Expr, at_most: Callable[[Expr], Expr]) -> Expr:
    """`extent`, with all conditions those for the longest instance."""

    def select(choice: tirx.Select) -> Expr:
        return tirx.Select(at_most(choice.condition), choice.true_value, choice.false_value)

    result: Expr = tvm_ffi.structural_map(extent, (tirx.Select, select))
    return result
