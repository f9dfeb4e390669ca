"""`Context`: how operators add kernels, reshapes, runtime integers and requirements to a Relax function."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias, overload

import numpy as np
import tvm_ffi
from tvm import ir, relax, s_tir, te, tirx

from deploykit.compiler import constants
from deploykit.compiler.dims import simplify
from deploykit.compiler.dims.facts import Facts
from deploykit.compiler.dims.formulas import to_text
from deploykit.compiler.dtypes import numpy_dtype, storage_dtype, stored_elements
from deploykit.compiler.model import DataDim, Requirement
from deploykit.compiler.operators.building.copies import converted, converting, transposed, transposing
from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.compiler.operators.building.expressions import compute
from deploykit.compiler.operators.building.integers import check_shape, is_plain
from deploykit.compiler.operators.building.moved import channels_moved
from deploykit.compiler.operators.building.value import Value, constant, known

if TYPE_CHECKING:
    from deploykit.compiler.dims.expressions import IntExpr

Build: TypeAlias = "Callable[..., te.Tensor | Sequence[te.Tensor]]"
"""Takes one TE placeholder per input; returns the TE output or outputs."""

Bound: TypeAlias = "IntExpr | list[IntExpr] | Callable[[Sequence[IntExpr]], IntExpr | None] | None"
"""The bound of several dims: one for all, one for each, or a function that gives it for the next dim from the earlier
ones."""

UPDATES = "deploykit.updates"
"""The attribute of a kernel whose result is its first input but for the elements that it writes."""

MAXIMUM_RUNTIME_INTEGERS = 64
"""A runtime integer tensor longer than this is never read element by element as dims."""

FOLDED = 1 << 20
"""Constants of at least this many elements are converted at run time, which keeps the smaller dtype in the weights."""


@dataclass
class Shared:
    """State of one import, shared by the main graph and its subgraphs."""

    library: relax.BlockBuilder = field(default_factory=relax.BlockBuilder)
    functions: dict[ir.GlobalVar, relax.Function] = field(default_factory=dict)
    variables: set[tirx.Var] = field(default_factory=set)
    data_dims: list[DataDim] = field(default_factory=list)
    requirements: list[Requirement] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    draws: int = 0
    """The number of operators so far that draw random numbers."""
    facts: Facts = field(default_factory=Facts)
    names: set[str] = field(default_factory=set)

    def mark(self) -> tuple[int, ...]:
        """The current lengths of the lists, for `forget_since`."""
        return (*map(len, self._growing()), self.facts.mark())

    def forget_since(self, mark: tuple[int, ...]) -> None:
        """Drop the functions, data dims, requirements and notes that were added since `mark`, to import a subgraph
        again."""
        self.facts.forget_since(mark[-1])
        for kept, grown in zip(mark[:-1], self._growing(), strict=True):
            if isinstance(grown, dict):
                for key in list(grown)[kept:]:
                    del grown[key]
            else:
                del grown[kept:]

    def _growing(self) -> tuple[list[Any] | dict[Any, Any], ...]:
        return (self.functions, self.data_dims, self.requirements, self.notes)

    def unique(self, hint: str) -> str:
        """A C identifier close to `hint` that was not returned before."""
        base = re.sub(r"\W+", "_", hint).strip("_") or "value"
        base = f"_{base}" if base[0].isdigit() else base
        name, count = base, 1
        while name in self.names:
            count += 1
            name = f"{base}_{count}"
        self.names.add(name)
        return name


def emit_function(
    builder: relax.BlockBuilder,
    name: str,
    params: Sequence[relax.Var],
    body: Callable[[], Sequence[relax.Expr]],
) -> relax.Function:
    """Emit a function with a builder of its own. The function is one dataflow block, made of what `body` emits; it
    returns the tuple of `body()`.

    If `body` raises, the builder is left closed. The function is public, because passes drop unused parameters of
    private functions but do not change calls of them from control flow. A variable of the same name does not change the
    name of the function."""
    with builder.function(name, list(params), private=False):
        try:
            with builder.dataflow():
                outputs = builder.emit_output(relax.Tuple(list(body())))
        except BaseException:
            builder.emit_func_output(relax.Tuple([]))
            raise
        builder.emit_func_output(outputs)
    (function,) = (each for each in builder.get().functions.values() if isinstance(each, relax.Function))
    return function.with_attr("global_symbol", name)


def with_source(expr: relax.Expr, name: str) -> relax.Expr:
    """The call of an operator, with the name of that of the user's model which it comes from. Other expressions stay as
    they are."""
    if not isinstance(expr, relax.Call) or not name:
        return expr
    span = ir.Span(ir.SourceName(name), 0, 0, 0, 0)
    return relax.Call(expr.op, expr.args, expr.attrs, expr.ty_args, span)


def source_of(expr: relax.Expr) -> str | None:
    """The name that `with_source` has given; None without one."""
    return None if expr.span is None else str(expr.span.source_name.name)


@dataclass(frozen=True)
class Site:
    """An operator in the user's model, for names and messages: its kind, its name, and the names of its operands."""

    operator: str = ""
    name: str = ""
    operands: tuple[str, ...] = ()


class Context:
    """The builder of one Relax function. `site` is that of the current operator. `operands` has the names of its
    inputs, by the identity of their values. `iterations` are the iteration numbers of the enclosing loops, the
    outermost first. `functions` are the names of the enclosing functions and its own, in the same order."""

    def __init__(
        self,
        shared: Shared,
        builder: relax.BlockBuilder,
        iterations: tuple[tirx.Var, ...] = (),
        functions: tuple[str, ...] = ("main",),
    ) -> None:
        self.shared = shared
        self.builder = builder
        self.iterations = iterations
        self.functions = functions
        self.seed: Value | None = None
        """What random numbers depend on if the operator has no seed: an int64 scalar of the caller."""
        self.site = Site()
        self.operands: Mapping[int, str] = {}
        self.checked: dict[tuple[relax.Expr, str], relax.Var] = {}
        """The results of index checks, by the tensor of indices and the text of the bounds."""
        self._materialised: dict[int, tuple[Value, relax.Expr]] = {}

    # Integer expressions

    def length(self, value: Value) -> int:
        """The number of elements of an operand that holds dims, axes or positions.

        Raises `Unsupported` if it is not known at import, or if no tensor has as many axes."""
        count = self.product(value.shape)
        if not isinstance(count, int):
            fixed = f": fix it, as in --dim {to_text(count)}=3" if isinstance(count, ir.Var) else ""
            raise Unsupported(f"an operand of unknown length {to_text(count)} would have to be read as dims{fixed}")
        if count > MAXIMUM_RUNTIME_INTEGERS and not value.is_known:
            raise Unsupported(f"an operand of {count} runtime integers would have to be read as dims")
        return count

    def simplify(self, expr: IntExpr) -> IntExpr:
        if isinstance(expr, (int, np.integer)):
            return int(expr)
        return self.shared.facts.simplify(expr)

    def proves(self, condition: ir.Expr | bool) -> bool:
        """Whether a condition over dims holds for all dims within their bounds."""
        condition = _condition(condition)
        return condition if isinstance(condition, bool) else self.shared.facts.proves(condition)

    def equal(self, a: IntExpr, b: IntExpr) -> bool:
        """Whether two dims are provably equal."""
        if isinstance(a, (int, np.integer)) and isinstance(b, (int, np.integer)):
            return int(a) == int(b)
        if _same(a, b):
            return True
        difference = simplify(_int64(a) - _int64(b))
        return difference == 0 if is_plain(difference) else self.proves(_int64(a) == _int64(b))

    def product(self, values: Sequence[IntExpr]) -> IntExpr:
        result: IntExpr = 1
        for value in values:
            result = result * value
        return self.simplify(result)

    def require(self, condition: ir.Expr | bool, message: str, *values: IntExpr) -> None:
        """Require that a condition over dims holds when the function runs. Nothing is emitted if it provably holds, or
        if it has been required before in this or an enclosing function.

        Raises `Unsupported` with the message if it provably does not hold."""
        condition = _condition(condition)
        if self.proves(condition):
            return
        if isinstance(condition, bool) or self.proves(tirx.Not(condition)):
            raise Unsupported(message.format(*map(to_text, values)))
        known = [r.condition for r in self.shared.requirements if r.function in self.functions]
        if any(tvm_ffi.structural_equal(condition, each) for each in known):
            return
        self.shared.requirements.append(
            Requirement(condition, f"{self.site.name}: {message}", tuple(values), self.functions[-1])
        )
        self.shared.facts.assume(condition)

    def name_of(self, value: Value) -> str:
        """The name of an operand of the current node in messages."""
        name = self.operands.get(id(value))
        return "an operand" if name is None else f"'{name}'"

    def new_dim(self, hint: str, minimum: IntExpr | None = None, maximum: IntExpr | None = None) -> tirx.Var:
        """A data dim: a new integer variable that a step of the program sets."""
        var = tirx.Var(self.shared.unique(hint), "int64")
        self.shared.variables.add(var)
        self.shared.data_dims.append(DataDim(var, minimum, maximum))
        ends = (end if isinstance(end, int) else None for end in (minimum, maximum))
        self.shared.facts.bind(var, *ends)
        return var

    def ints(self, value: Value, minimum: Bound = None, maximum: Bound = None, hint: str = "n") -> list[IntExpr]:
        """The elements of an integer tensor as integers or expressions, for use as dims, axes or sizes.

        If the tensor is computed at run time, each element becomes a data dim with the given bounds."""
        if value.is_known:
            known = [self._as_int(e) for e in value.known_elements().reshape(-1)]
            for position, element in enumerate(known):
                _check_bounds(hint, element, *(_bound(b, position, known[:position]) for b in (minimum, maximum)))
            return known
        count = self.length(value)
        if count == 0:
            return []
        flat = self.tensor(self.reshape(self.cast(value, "int64"), (count,)))
        dims: list[IntExpr] = []
        for i in range(count):
            low, high = (_bound(b, i, dims) for b in (minimum, maximum))
            dims.append(self.new_dim(f"{hint}{i}" if count > 1 else hint, low, high))
        shape = self.builder.emit(relax.op.tensor_to_shape(flat))
        self.builder.match_cast(shape, relax.ShapeType(dims))
        return dims

    def _as_int(self, element: object) -> IntExpr:
        if isinstance(element, (int, bool, np.integer, np.bool_)):
            return int(element)
        assert isinstance(element, ir.Expr)
        return self.simplify(tirx.Cast("int64", element) if str(element.ty.dtype) != "int64" else element)

    # Tensors

    def tensor(self, value: Value) -> relax.Expr:
        """The Relax expression of a value. Constants and known elements become tensors, once each."""
        if value.dtype == "string":
            raise Unsupported("tensors of strings are not supported by this operator")
        if value.var is not None:
            return value.var
        cached = self._materialised.get(id(value))
        if cached is None:
            cached = (value, self._materialise(value))
            self._materialised[id(value)] = cached
        return cached[1]

    def _materialise(self, value: Value) -> relax.Expr:
        if value.last is not None:
            order = [0, value.rank - 1, *range(1, value.rank - 1)]
            return self.tensor(self.transpose(value.last, order, at_once=True))
        if value.array is not None:
            return constants.constant(stored_elements(value.array, aligned=False))
        elements = list(value.known_elements().reshape(-1))
        result = self.kernel("known_elements", lambda: _store_elements(elements, value), dtype=value.dtype)
        assert isinstance(result, Value)
        assert result.var is not None
        return result.var

    def constant(self, array: object, dtype: str | None = None) -> Value:
        """A constant value of a logical dtype, from anything that numpy accepts."""
        return constant(np.asarray(array, dtype=numpy_dtype(dtype) if dtype else None))

    def known(self, elements: object, dtype: str = "int64") -> Value:
        """A value from integers and expressions over dims."""
        return known(np.asarray(elements, dtype=object), dtype)

    @overload
    def kernel(
        self, name: str, build: Build, *inputs: Value, dtype: str, pattern: int | None = None, updates: bool = False
    ) -> Value: ...

    @overload
    def kernel(
        self,
        name: str,
        build: Build,
        *inputs: Value,
        dtype: tuple[str, ...],
        pattern: int | None = None,
        updates: bool = False,
    ) -> tuple[Value, ...]: ...

    def kernel(
        self,
        name: str,
        build: Build,
        *inputs: Value,
        dtype: str | tuple[str, ...],
        pattern: int | None = None,
        updates: bool = False,
    ) -> Value | tuple[Value, ...]:
        """Add a kernel. `build` takes one TE placeholder of storage dtype per input and returns the TE outputs.

        `dtype` is the logical dtype of the output, or a tuple with the dtype of each; accordingly, the result is a
        value or a tuple of values. Expressions in the TE may use any dim of the model. `pattern` is that of TVM for
        the fusion with other kernels, where its own analysis would not find it. A kernel that `updates` writes only
        those elements of its result that differ from its first input, which it does not read."""
        args = [self.tensor(v) for v in inputs]
        placeholders = [
            te.placeholder(v.shape, storage_dtype(v.dtype), name=f"x{i}" if len(inputs) > 1 else "x")
            for i, v in enumerate(inputs)
        ]
        built = build(*placeholders)
        results = [built] if isinstance(built, te.Tensor) else list(built)
        dtypes = [dtype] if isinstance(dtype, str) else list(dtype)
        shapes = [tuple(self.simplify(n) for n in r.shape) for r in results]
        for shape in shapes:
            check_shape(shape)
        func, scalars = self._primitive_function(placeholders, results)
        func = func if pattern is None else func.with_attr("op_pattern", pattern)
        func = func.with_attr(UPDATES, 1) if updates else func
        gvar = self.shared.library.add_func(func, re.sub(r"\W+", "_", name))
        types = [relax.TensorType(s, storage_dtype(d)) for s, d in zip(shapes, dtypes, strict=True)]
        call = relax.call_tir(gvar, relax.Tuple([*args, *scalars]), types if len(types) > 1 else types[0])
        out = self.builder.emit(call, self._hint())
        if isinstance(dtype, str):
            return Value(dtypes[0], shapes[0], var=out)
        parts = [out] if len(types) == 1 else [self.builder.emit(relax.TupleGetItem(out, i)) for i in range(len(types))]
        return tuple(Value(d, s, var=p) for d, s, p in zip(dtypes, shapes, parts, strict=True))

    def _primitive_function(
        self, inputs: Sequence[te.Tensor], outputs: Sequence[te.Tensor]
    ) -> tuple[tirx.PrimFunc, list[tirx.Var]]:
        func = te.create_prim_func([*inputs, *outputs], index_dtype_override="int64").without_attr("global_symbol")
        bound = {n for t in (*inputs, *outputs) for n in t.shape if isinstance(n, tirx.Var)}
        used: dict[tirx.Var, None] = {}
        for tensor in (*inputs, *outputs):
            for n in tensor.shape:
                used.update(dict.fromkeys(_variables(n)))
        used.update(dict.fromkeys(tirx.analysis.undefined_vars(func.body, func.params)))
        scalars = sorted((v for v in used if v in self.shared.variables and v not in bound), key=lambda v: v.name)
        if scalars:
            params = [*func.params[: len(inputs)], *scalars, *func.params[len(inputs) :]]
            func = tirx.PrimFunc(params, func.body, func.ret_type).with_attr(dict(func.attrs))
        return s_tir.renew_defs(func), scalars

    def _hint(self) -> str:
        return re.sub(r"\W+", "_", self.site.name)[:40]

    def bind(self, expr: relax.Expr, dtype: str, shape: Sequence[IntExpr]) -> Value:
        """Emit a Relax expression of known logical dtype and shape. Returns its value."""
        named = with_source(expr, self.site.name)
        return Value(dtype, tuple(self.simplify(n) for n in shape), var=self.builder.emit(named, self._hint()))

    def reshape(self, value: Value, shape: Sequence[IntExpr]) -> Value:
        """The same elements in another shape with the same element count (a view, no copy)."""
        shape = tuple(self.simplify(n) for n in shape)
        check_shape(shape)
        if len(shape) == value.rank and all(_same(a, b) for a, b in zip(shape, value.shape, strict=True)):
            return value
        if value.array is not None and all(isinstance(n, int) for n in shape):
            return constant(value.array.reshape(shape))
        if value.elements is not None and all(isinstance(n, int) for n in shape):
            return known(value.elements.reshape(shape), value.dtype)
        if any(isinstance(n, int) and n == 0 for n in shape):
            # In a reshape, Relax takes a size of 0 as the size of the source.
            return self.zeros("empty", shape, value.dtype)
        if value.quantized is not None and value.quantized.restored is not None:
            return value.quantized.restored(self.reshape(value.quantized.x, shape))
        result = self.bind(relax.op.reshape(self.tensor(value), relax.ShapeExpr(shape)), value.dtype, shape)
        return replace(result, inexact=value.inexact)

    def zeros(self, name: str, shape: Sequence[IntExpr], dtype: str) -> Value:
        """A tensor of zeros written by a kernel of this name. It is not a constant, so any shape is possible."""
        zero = tirx.const(0, storage_dtype(dtype))
        return self.kernel(name, lambda: compute(shape, lambda *_: zero, name=name), dtype=dtype)

    def transpose(self, value: Value, order: Sequence[int], *, at_once: bool = False) -> Value:
        """numpy.transpose. Constants are transposed at import. 8-bit integers whose channels move in front keep them
        last, for an integer convolution or an operator that undoes it, unless they are needed `at_once`."""
        if value.quantized is None:
            moved = None if at_once or value.array is not None else channels_moved(value, order)
            return self._transposed(value, order) if moved is None else moved
        source = value.quantized
        if source.restored is not None:
            return source.restored(self.transpose(source.x, order, at_once=at_once))
        axis = source.axis if source.whole else list(order).index(source.axis % len(order))
        source = replace(source, x=self.transpose(source.x, order, at_once=at_once), axis=axis)
        return replace(self._transposed(value, order), quantized=source, inexact=True)

    def _transposed(self, value: Value, order: Sequence[int]) -> Value:
        if value.array is not None:
            return constant(transposed(value.array, order))
        if list(order) == list(range(value.rank)):
            return value
        shape = [value.shape[axis] for axis in order]
        large = [axis for axis in order if not (is_plain(value.shape[axis]) and value.shape[axis] == 1)]
        if large == sorted(large):
            return self.reshape(value, shape)
        return self.kernel("transpose", transposing(shape, order), value, dtype=value.dtype)

    def cast(
        self, value: Value, dtype: str, *, saturate: bool = True, round_mode: str = "up", free: bool = False
    ) -> Value:
        """`value` in another dtype, or `value` itself if it has this dtype. `saturate` and `round_mode` are those of
        ONNX `Cast`. `free`: rounding is optional for a float that is converted back later."""
        if value.dtype == dtype:
            return value
        if value.array is not None and value.array.size < FOLDED:
            return constant(converted(value.array, dtype, saturate=saturate, round_mode=round_mode))
        if value.elements is not None and dtype in ("int64", "int32") and value.dtype in ("int64", "int32"):
            return known(value.elements, dtype)
        build = converting(value, dtype, saturate=saturate, round_mode=round_mode, free=free)
        result = self.kernel("cast", build, value, dtype=dtype)
        return replace(result, narrow=value) if (value.dtype, dtype) == ("int32", "int64") else result


def _condition(condition: ir.Expr | bool | np.bool_) -> ir.Expr | bool:
    """A condition as an expression: `a == b` gives an object that only becomes one on request."""
    if isinstance(condition, (bool, np.bool_)):
        return bool(condition)
    return condition.asobject() if hasattr(condition, "asobject") else condition


def _bound(bound: Bound, position: int, before: Sequence[IntExpr]) -> IntExpr | None:
    if isinstance(bound, list):
        return bound[position]
    return bound if bound is None or isinstance(bound, (int, ir.Expr)) else bound(before)


def _check_bounds(hint: str, element: IntExpr, low: IntExpr | None, high: IntExpr | None) -> None:
    """Raises `Unsupported` if a known integer is out of bounds."""
    if not is_plain(element):
        return
    if is_plain(low) and element < low:
        raise Unsupported(f"{hint} is {element}; the least is {low}")
    if is_plain(high) and element > high:
        raise Unsupported(f"{hint} is {element}; the largest is {high}")


def _same(a: IntExpr, b: IntExpr) -> bool:
    if isinstance(a, (int, np.integer)) or isinstance(b, (int, np.integer)):
        return isinstance(a, (int, np.integer)) and isinstance(b, (int, np.integer)) and int(a) == int(b)
    return bool(tvm_ffi.structural_equal(a, b, map_free_vars=False))


def _int64(value: IntExpr) -> ir.Expr:
    return tirx.IntImm("int64", int(value)) if isinstance(value, (int, np.integer)) else value


def _variables(expr: object) -> list[tirx.Var]:
    return list(tirx.analysis.undefined_vars(expr)) if isinstance(expr, ir.Expr) else []


def _store_elements(elements: list[object], value: Value) -> te.Tensor:
    """A TE kernel that writes expressions over dims to a tensor."""
    dtype = storage_dtype(value.dtype)
    shape = tuple(int(n) for n in value.shape)  # known elements have a static shape

    def element(*index: ir.Expr) -> ir.Expr:
        *rest, last = (tirx.Cast(dtype, _int64(e) if isinstance(e, (int, np.integer)) else e) for e in elements)
        result = last
        for position, chosen in reversed(list(zip(np.ndindex(*shape), rest, strict=False))):
            here = tirx.all(*(i == int(p) for i, p in zip(index, position, strict=True)))
            result = tirx.Select(here, chosen, result)
        return result

    return compute(shape, element, name="elements")
