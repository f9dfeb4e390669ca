"""Prints one lowered kernel with a parallel loop as one WGSL compute shader.

Each invocation, or each team of invocations (see `teams`), runs one iteration of the loop. Binding 0 is a uniform with
the kernel's scalars and the extent of the loop in invocations. The other bindings are the kernel's pointers in order;
operands that lie in the same memory share a binding, and large constants have several. A binding is `read_write` if
this shader writes to it or if others write to its memory.

A shader with float16 tensors has two variants: its arrays consist of `f16` where the device has the feature
`shader-f16`, else of words (`arrays`). The rest is common to both. Values are `f32`, so sums have the accuracy of the
other targets, and results that ONNX computes in float16 are rounded after each operator.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING, Any

import tvm
from tvm import tirx
from tvm.ir import Call, PointerType, Range, TensorLoad, Var

from deploykit.compiler.codegen.c.names import Scopes
from deploykit.compiler.codegen.c.statements import may_be_known, sizes
from deploykit.compiler.codegen.c.uses import used_variables, written_buffers
from deploykit.compiler.codegen.shaders.accesses import Accesses
from deploykit.compiler.codegen.shaders.errors import NoShader
from deploykit.compiler.codegen.shaders.language import ShaderLanguage, Sharing
from deploykit.compiler.codegen.shaders.sections import F16, Section, Shader
from deploykit.compiler.codegen.shaders.wgsl import dots, support, teams
from deploykit.compiler.codegen.shaders.wgsl.arrays import LOCALS, Array, joined
from deploykit.compiler.codegen.shaders.wgsl.expressions import ExpressionPrinter
from deploykit.compiler.codegen.shaders.wgsl.types import LANES, WIDE, dtype_of, value_type
from deploykit.compiler.codegen.shaders.wgsl.words import WORDS
from deploykit.compiler.lowering.raw_abi import variables
from deploykit.compiler.tir.loaded_values import depends_on_memory

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tvm.ir import Expr

    from deploykit.compiler.devices.gpu import Gpu
    from deploykit.compiler.lowering.kernel import Kernel

_JUMPS = {"tirx.break_loop": "break;", "tirx.continue_loop": "continue;"}


def emit_wgsl(kernel: Kernel, sharing: Sharing, gpu: Gpu) -> Shader:
    """A kernel's shader for a device. Raises `NoShader` for what a shader cannot do, such as 64-bit floats."""
    assert gpu.lanes == LANES, f"{gpu.name} has other vectors"
    return _Shader(kernel, sharing, gpu).emit()


WGSL = ShaderLanguage("wgsl", emit_wgsl)


class _Shader:
    def __init__(self, kernel: Kernel, sharing: Sharing, gpu: Gpu) -> None:
        self.kernel, self.func, self.sharing, self.gpu = kernel, kernel.func, sharing, gpu
        self.scopes = Scopes((*support.NAMES, *WORDS))
        self.names: dict[Var, str] = {}
        self.arrays: dict[Var, Array] = {}
        self.analyzer = tvm.sym.Analyzer()
        self.expressions = ExpressionPrinter(self.names.__getitem__, self._element, self._words, self.analyzer)
        self.lines: list[str] = []
        self.depth = 1
        self.written = written_buffers(self.func.body)
        self.used = used_variables(self.func.body)
        self.pointers = [p for p in self.func.params if isinstance(p.ty, PointerType)]
        self.accesses = Accesses(self.func, LANES)
        self.memory: dict[str, Array] = {}
        """The arrays by name."""
        self.place = "task" if kernel.team else "thread"
        """The name of the variable with the number of the iteration."""
        self.cells: dict[Var, tuple[str, bool]] = {}
        """Local buffers of which each element, or vector, is a variable."""

    def emit(self) -> Shader:
        scalars = [p for p in self.func.params if not isinstance(p.ty, PointerType)]
        parallel = self.kernel.parallel_extent is not None
        self.span = tuple(scalars[-2:]) if parallel else ()
        own = scalars[:-2] if parallel else scalars
        fields = [self.scopes.fresh(scalar.name) for scalar in own]
        for scalar, field in zip(own, fields, strict=True):
            self.names[scalar] = f"scalars.{field}"
        if self.span:
            self.names[self.span[0]] = self.place
        self._bindings()
        self._statement(self.func.body)
        members = ", ".join(f"{field}: i32" for field in (*fields, "threads"))
        head = f"struct Scalars {{ {members} }}\n@group(0) @binding(0) var<uniform> scalars: Scalars;\n"
        main = self._main()
        exchanged = teams.sections(main, self.gpu, alone=not parallel) if self.kernel.team else ()
        before = (*exchanged, *dots.sections(main))
        picks = [section for array in self.memory.values() for section in array.sections(main)]
        return Shader((*before, *picks, *self._sections(head, main, "".join(section.text for section in before))))

    def _main(self) -> str:
        size = self.gpu.workgroup
        if self.kernel.team:
            lines = ["fn work(task: i32) {", f"    if (task * {size} >= scalars.threads) {{ return; }}"]
        else:
            group = f"i32(group.x + group.y * {self.gpu.groups}u)"
            lines = [
                f"@compute @workgroup_size({size})",
                "fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) number: u32) {",
                f"    let thread = {group} * {size} + i32(number);",
                "    if (thread >= scalars.threads) { return; }",
            ]
        return "\n".join([*lines, *self.lines, "}"]) + "\n"

    def _sections(self, head: str, main: str, before: str) -> tuple[Section, ...]:
        """The sections of the shader: declarations of the arrays, which may differ between devices, and all other text.
        `before` is text in front of it that also calls functions."""
        arrays = list(self.memory.values())
        words, f16 = ("".join(array.declaration(f16=has) for array in arrays) for has in (False, True))
        parts, halves = ("".join(array.functions(main, f16=has) for array in arrays) for has in (False, True))
        if words == f16:
            return (Section(f"{head}{words}{support.definitions(before + parts + main)}{parts}{main}"),)
        halves += support.conversions(main)
        common = f"{head}{support.definitions(before + main, known=halves)}{main}"
        return (
            Section(f"enable f16;\n{f16}{halves}", F16),
            Section(f"{words}{support.definitions(parts + main, known=common)}{parts}", F16, present=False),
            Section(common),
        )

    # Memory

    def _bindings(self) -> None:
        """Create the arrays. Operands that share a binding must have the same dtype."""
        bindings = count(1)
        for group, parts in enumerate(self.sharing.parts):
            members = [p for p, g in zip(self.pointers, self.sharing.groups, strict=True) if g == group]
            dtypes = {str(p.ty.element_type.dtype) for p in members}
            if len(dtypes) > 1:
                raise ValueError(f"operands of {' and '.join(sorted(dtypes))} share their memory")
            wanted = members[0].name
            dtype, name = dtypes.pop(), self.scopes.fresh(f"{wanted}_in" if wanted in LOCALS else wanted)
            stored = any(member in self.written for member in members)
            access = "read_write" if stored or self.sharing.written[group] else "read"
            vectors = dtype in self.gpu.vectors and all(self.accesses.in_vectors(member) for member in members)
            names = [self.scopes.fresh(f"{name}_{number}") for number in range(len(parts))] or [name]
            blocks = not vectors and all(self.accesses.in_vectors(member, LANES * LANES) for member in members)
            arrays = [Array(own, dtype, next(bindings), access, stored, vectors, blocks) for own in names]
            self.memory[name] = joined(name, arrays, parts, self.sharing.whole[group]) if parts else arrays[0]
            self.arrays |= dict.fromkeys(members, self.memory[name])

    def _element(self, load: TensorLoad) -> str:
        index = load.indices[0]
        if load.source in self.cells:
            return self._cell(load.source, index)
        name = self.names[load.source]
        array = self.memory.get(name)
        if not isinstance(index, tirx.Ramp):
            place = self.expressions.position(load.indices)
            return array.load(place) if array else f"{name}[{place}]"
        if array and array.vectors:
            return array.load(self._vector_place(index))
        first, stride = self.expressions.index(index.base), self.expressions.index(index.stride)
        places = [f"({first}) + {lane} * {stride}" for lane in range(LANES)]
        kind = value_type(dtype_of(load))
        return f"vec4<{kind}>({', '.join(array.load(at) if array else f'{name}[{at}]' for at in places)})"

    def _words(self, load: TensorLoad) -> str:
        """Elements of 8 bits as the words that they are in memory: one, or a vector of four."""
        array, index = self.memory.get(self.names[load.source]), load.indices[0]
        if array is None or not (array.vectors or array.blocks) or not isinstance(index, tirx.Ramp):
            raise NoShader("words of elements that are not aligned")
        return array.words(self._vector_place(index))

    def _vector_place(self, index: tirx.Ramp) -> str:
        """The index of an aligned vector, counted in vectors."""
        quotient = tvm.sym.Analyzer().simplify(tirx.floordiv(index.base, int(index.lanes)))
        return self.expressions.index(quotient)

    def _cell(self, buffer: Var, index: Expr) -> str:
        name, in_vectors = self.cells[buffer]
        first = int(index.base if isinstance(index, tirx.Ramp) else index)
        if not in_vectors:
            return f"{name}_{first}"
        whole = f"{name}_{first // LANES}"
        return whole if isinstance(index, tirx.Ramp) else f"{whole}.{'xyzw'[first % LANES]}"

    # Statements

    def _line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    @contextmanager
    def _block(self, head: str) -> Iterator[None]:
        self._line(f"{head} {{")
        self.depth += 1
        with self.scopes.nested():
            yield
        self.depth -= 1
        self._line("}")

    def _statement(self, stmt: Any) -> None:
        handler = self._handlers.get(type(stmt))
        if handler is None:
            raise NoShader(f"no WGSL for the statement {type(stmt).__name__}")
        handler(self, stmt)

    def _sequence(self, stmt: tirx.SeqStmt) -> None:
        for part in stmt:
            self._statement(part)

    def _declare(self, stmt: tirx.DeclBuffer) -> None:
        for var in variables(stmt.buffer.ty.shape):
            if not self.analyzer.const_int_bound_is_bound(var):
                self.analyzer.bind(var, sizes(var))
        data = stmt.data
        source = data if isinstance(data, Var) else data.args[0]
        if not isinstance(source, Var):
            raise NoShader("no WGSL for a pointer into a buffer")
        name = self.arrays[source].name if source in self.arrays else self.names[source]
        before = source.ty.element_type.dtype if isinstance(source.ty, PointerType) else source.ty.dtype
        if str(before) != str(stmt.buffer.ty.dtype):
            raise NoShader("a buffer is seen with two element types")
        self.names[stmt.buffer] = name
        if source in self.cells:
            self.cells[stmt.buffer] = self.cells[source]

    def _allocate(self, stmt: tirx.AllocBuffer) -> None:
        size = 1
        for extent in stmt.buffer.ty.shape:
            size *= int(extent)
        dtype = str(stmt.buffer.ty.dtype)
        name = self.scopes.fresh(stmt.buffer.name)
        element = WIDE if dtype == "int64" else value_type(dtype)
        self.names[stmt.buffer] = name
        if not self.accesses.constant(stmt.buffer):
            self._line(f"var {name}: array<{element}, {size}>;")
            return
        in_vectors = size % LANES == 0
        if not in_vectors and self.accesses.has_vectors(stmt.buffer):
            raise NoShader("vectors in a local of another size")
        self.cells[stmt.buffer] = name, in_vectors
        count = size // LANES if in_vectors else size
        kind = f"vec4<{element}>" if in_vectors else element
        for index in range(count):
            self._line(f"var {name}_{index}: {kind};")

    def _bind(self, stmt: tirx.Bind) -> None:
        if depends_on_memory(stmt.value, self.expressions.from_memory):
            self.expressions.from_memory.add(stmt.var)
        elif may_be_known(stmt):
            self.analyzer.bind(stmt.var, stmt.value, allow_override=True)
        if stmt.var not in self.used:
            return
        value = self.expressions.value(stmt.value)
        wanted = "offset" if stmt.var.name.startswith("cse_v") else stmt.var.name
        name = self.scopes.fresh(wanted)
        self._line(f"let {name}: {self.expressions.type_of(stmt.value)} = {value};")
        self.names[stmt.var] = name

    def _for(self, loop: tirx.For) -> None:
        if self.span and isinstance(loop.min, Var) and loop.min.same_as(self.span[0]):
            self.names[loop.loop_var] = self.place
            self.analyzer.bind(loop.loop_var, sizes(loop.loop_var), allow_override=True)
            self._statement(loop.body)
            return
        self.analyzer.bind(loop.loop_var, Range.from_min_extent(loop.min, loop.extent), allow_override=True)
        end = tvm.sym.Analyzer().simplify(loop.min + loop.extent)
        first, last = self.expressions.index(loop.min), self.expressions.index(end)
        step = "1" if loop.step is None else self.expressions.index(loop.step)
        if not last.removeprefix("scalars.").isalnum():
            bound = self.scopes.fresh("end")
            self._line(f"let {bound} = {last};")
            last = bound
        with self.scopes.nested():
            name = self.scopes.fresh(loop.loop_var.name)
            self.names[loop.loop_var] = name
            with self._block(f"for (var {name}: i32 = {first}; {name} < {last}; {name} += {step})"):
                self._statement(loop.body)

    def _while(self, loop: tirx.While) -> None:
        with self._block(f"while ({self.expressions.value(loop.condition)})"):
            self._statement(loop.body)

    def _if(self, stmt: tirx.IfThenElse) -> None:
        with self._block(f"if ({self.expressions.value(stmt.condition)})"):
            self._statement(stmt.then_case)
        if stmt.else_case is not None:
            with self._block("else"):
                self._statement(stmt.else_case)

    def _store(self, stmt: tirx.BufferStore) -> None:
        name, place = self.names[stmt.buffer], stmt.indices[0]
        array = self.memory.get(name)
        value = self.expressions.stored(stmt.value, rounded=array is not None and array.half)
        if stmt.buffer in self.cells:
            self._line(f"{self._cell(stmt.buffer, place)} = {value};")
        elif isinstance(place, tirx.Ramp):
            self._store_vector(name, array, place, value)
        else:
            index = self.expressions.position(stmt.indices)
            self._line(array.store(index, value) if array else f"{name}[{index}] = {value};")

    def _store_vector(self, name: str, array: Array | None, place: tirx.Ramp, value: str) -> None:
        if array and array.vectors:
            self._line(array.store(self._vector_place(place), value))
            return
        first, stride = self.expressions.index(place.base), self.expressions.index(place.stride)
        whole = self.scopes.fresh("vector")
        self._line(f"let {whole} = {value};")
        for number, lane in enumerate("xyzw"):
            at, element = f"({first}) + {number} * {stride}", f"{whole}.{lane}"
            self._line(array.store(at, element) if array else f"{name}[{at}] = {element};")

    def _evaluate(self, stmt: tirx.Evaluate) -> None:
        value = stmt.value
        if not isinstance(value, Call):
            return
        if value.op.name not in _JUMPS:
            if value.op.name != "tirx.assume":
                raise NoShader(f"no WGSL for the statement {value.op.name}")
            return
        self._line(_JUMPS[value.op.name])

    def _attribute(self, stmt: tirx.AttrStmt) -> None:
        self._statement(stmt.body)

    def _break(self, _: Any) -> None:
        self._line("break;")

    def _continue(self, _: Any) -> None:
        self._line("continue;")

    _handlers: dict[type, Callable[[_Shader, Any], None]] = {  # noqa: RUF012
        tirx.SeqStmt: _sequence,
        tirx.DeclBuffer: _declare,
        tirx.AllocBuffer: _allocate,
        tirx.Bind: _bind,
        tirx.For: _for,
        tirx.While: _while,
        tirx.IfThenElse: _if,
        tirx.BufferStore: _store,
        tirx.Evaluate: _evaluate,
        tirx.AttrStmt: _attribute,
        tirx.Break: _break,
        tirx.Continue: _continue,
    }
