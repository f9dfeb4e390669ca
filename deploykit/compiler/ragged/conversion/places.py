"""Indices of the same element in two shapes of a tensor, without divisions where the form of an index allows it, and
conditions that the ranges of indices decide."""

from __future__ import annotations

from collections.abc import Sequence

import tvm_ffi
from tvm import ir, sym, tirx

from deploykit.compiler.ragged.conversion.contents import RaggedDim
from deploykit.compiler.schedules.kernel.stages import Axis, analyzer
from deploykit.compiler.tir.rewriting import Expr, Node, call_name, collect
from deploykit.compiler.tir.values import as_index, const, dtype_of, static


def product(extents: Sequence[Expr]) -> Expr:
    result: Expr = const(1)
    for extent in extents:
        result = result * extent
    return result


def equal(a: Expr, b: Expr) -> bool:
    """Whether two extents are always equal, as far as can be proved."""
    return bool(sym.Analyzer().can_prove_equal(a, b))


def groups(old: Sequence[Expr], new: Sequence[Expr]) -> list[tuple[list[int], list[int]]] | None:
    """The axes of two shapes with the same elements in groups of equal products, each as short as possible; None if
    products cannot be compared."""
    known = sym.Analyzer()
    found: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(old) or j < len(new):
        a, b = [i] if i < len(old) else [], [j] if j < len(new) else []
        while not known.can_prove_equal(product([old[x] for x in a]), product([new[y] for y in b])):
            left, right = product([old[x] for x in a]), product([new[y] for y in b])
            grow_right = bool(b) and _divides(known, right, left) and b[-1] + 1 < len(new)
            if (grow_right or not a or a[-1] + 1 >= len(old)) and (not b or b[-1] + 1 < len(new)):
                if len(b) + j >= len(new):
                    return None
                b.append(j + len(b))
            elif not a or a[-1] + 1 < len(old):
                if len(a) + i >= len(old):
                    return None
                a.append(i + len(a))
            else:
                return None
        found.append((a, b))
        i, j = i + len(a), j + len(b)
    return found


def _divides(known: sym.Analyzer, part: Expr, whole: Expr) -> bool:
    """Whether a product is a true part of another one, as far as can be seen."""
    a, b = static(known.simplify(part)), static(known.simplify(whole))
    if a is not None and b is not None:
        return a < b
    return len(_factors(part)) < len(_factors(whole)) or (len(_factors(part)) == len(_factors(whole)) and (a or 0) == 1)


def _factors(expr: Expr) -> list[ir.Var]:
    if isinstance(expr, tirx.Mul):
        return _factors(expr.a) + _factors(expr.b)
    return [expr] if isinstance(expr, ir.Var) else []


def moved(indices: Sequence[Expr], shape: Sequence[Expr], other: Sequence[Expr], known: sym.Analyzer) -> list[Expr]:
    """The indices, along `other`, of the element at `indices` along `shape`. Both shapes have the same elements in
    row-major order. `known` has the ranges of the variables."""
    grouped = groups(shape, other)
    if grouped is None:
        return unraveled(raveled(indices, shape), list(other), known)
    found: list[Expr] = []
    for old, new in grouped:
        index = raveled([indices[axis] for axis in old], [shape[axis] for axis in old])
        found += unraveled(index, [other[axis] for axis in new], known)
    return found


def raveled(indices: Sequence[Expr], shape: Sequence[Expr]) -> Expr:
    index: Expr = const(0)
    for place, extent in zip(indices, shape, strict=True):
        index = index * extent + as_index(place)
    return index


def unraveled(index: Expr, shape: Sequence[Expr], known: sym.Analyzer) -> list[Expr]:
    """The coordinates of a row-major index in a box."""
    found: list[Expr] = []
    index = known.simplify(index)
    for extent in list(shape[:0:-1]):
        index, rest = _divided(index, extent, known)
        found.append(rest)
    return [index, *found[::-1]] if shape else []


def _divided(index: Expr, extent: Expr, known: sym.Analyzer) -> tuple[Expr, Expr]:
    """Quotient and remainder of an index that is not negative."""
    if static(extent) == 1:
        return index, const(0)
    multiple: Expr = const(0)
    rest: Expr = const(0)
    for term in _terms(index):
        factor = without_factor(term, extent)
        if factor is None:
            rest = rest + term
        else:
            multiple = multiple + factor
    rest = known.simplify(rest)
    if known.can_prove(tirx.all(rest >= 0, rest < extent)):
        return known.simplify(multiple), rest
    return known.simplify(tirx.floordiv(index, extent)), known.simplify(tirx.floormod(index, extent))


def _terms(expr: Expr) -> list[Expr]:
    return _terms(expr.a) + _terms(expr.b) if isinstance(expr, tirx.Add) else [expr]


def without_factor(term: Expr, factor: Expr) -> Expr | None:
    """`term` divided by `factor`, if `factor` is one of its factors."""
    if term.same_as(factor):
        return const(1)
    whole, part = static(term), static(factor)
    if whole is not None and part is not None:
        return const(whole // part) if whole % part == 0 else None
    if isinstance(term, tirx.Mul):
        for one, other in ((term.a, term.b), (term.b, term.a)):
            found = without_factor(one, factor)
            if found is not None:
                return other * found
    return None


def never_negative(expr: Expr, known: sym.Analyzer) -> bool:
    """Whether an expression is at least 0: it is proved, or all its terms are products of such expressions."""
    if known.can_prove(expr >= 0):
        return True
    if isinstance(expr, tirx.Add | tirx.Mul):
        return never_negative(expr.a, known) and never_negative(expr.b, known)
    return False


def at_most(small: Expr, large: Expr, known: sym.Analyzer) -> bool:
    """Whether `small <= large`, also where `large` is the last index of a product of extents, and `small` an index."""
    if known.can_prove(small <= large):
        return True
    if static(small) == 0:
        return never_negative(large, known)
    count = known.simplify(large + 1)
    if not isinstance(count, tirx.Mul) or not never_negative(small, known):
        return False
    for outer, inner in ((count.a, count.b), (count.b, count.a)):
        quotient, rest = _divided(known.simplify(small), inner, known)
        if not collect(quotient, tirx.FloorDiv) and known.can_prove(tirx.all(rest < inner, quotient < outer)):
            return True
    return False


def ranges(axes: Sequence[Axis], dim: RaggedDim) -> sym.Analyzer:
    """An analyzer that knows the ranges of `axes`, and that the padded dims are at least 1."""
    known = analyzer(axes)
    for var in (dim.extent, dim.batch):
        known.bind(var, ir.Range(const(1), const(1 << 40)))
    return known


def decided(node: Node, known: sym.Analyzer) -> Node:
    """`node`, without choices and limits that ranges decide."""

    def select(choice: tirx.Select) -> Expr:
        truth = _truth(choice.condition, known)
        return choice if truth is None else choice.true_value if truth else choice.false_value

    def limit(node: Expr) -> Expr:
        small, large = (node.a, node.b) if isinstance(node, tirx.Min) else (node.b, node.a)
        if dtype_of(node) != "int64":
            return node
        if at_most(small, large, known):
            return node.a
        small, large = large, small
        return node.b if at_most(small, large, known) else node

    def call(node: ir.Call) -> Expr:
        if call_name(node) != "if_then_else":
            return node
        truth = _truth(node.args[0], known)
        return node if truth is None else node.args[1] if truth else node.args[2]

    result: Node = tvm_ffi.structural_map(node, [(tirx.Select, select), ((tirx.Min, tirx.Max), limit), (ir.Call, call)])
    return result


def _truth(condition: Expr, known: sym.Analyzer) -> bool | None:
    """Whether a condition over indices always holds (True) or never (False)."""
    if collect(condition, ir.TensorLoad):
        return None
    if isinstance(condition, tirx.LT) and static(condition.b) == 0 and never_negative(condition.a, known):
        return False
    if known.can_prove(condition):
        return True
    return False if known.can_prove(tirx.Not(condition)) else None
