"""Fuses attention: two matrix products and the softmax between them become one kernel.

    scores  = pointwise(matmul(q, k))        any number of pointwise kernels: scale, cap, mask, bias
    weights = softmax(scores)                along the last axis
    result  = matmul(weights, v)             or of where(isnan(weights), 0, weights)

The conditions: nothing else uses the values in between, sums and the softmax are float32, and the sizes of the heads
are constants up to `WIDEST_HEAD`. Scores and results may be rounded to narrower floats in between, and so may weights
if that rounding is not required. Kernels that only rearrange `q`, `k`, `v` or the result, or that change the elements
of an operand one by one, are absorbed, so that heads are read and written in place. The softmax must have the
annotation `anchors.attention.SOFTMAX` on its last stage. The result is a function of kernels, which is merged to one.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import partial

from tvm import ir, relax, tirx

from deploykit.compiler.constants import array_of
from deploykit.compiler.decisions import Decision, Declined, Note, unheard
from deploykit.compiler.graph.bindings import Graph, arguments_of, operator_of, rewritten
from deploykit.compiler.graph.fold_reshapes import is_move
from deploykit.compiler.graph.merge_kernels import merge_kernels
from deploykit.compiler.graph.outline import outlined, same_call
from deploykit.compiler.operators.anchors.attention import DTYPE, ROUNDED, SOFTMAX, scores, weighted
from deploykit.compiler.operators.building.kernel_calls import call_te, is_tensor
from deploykit.compiler.schedules.attention import WIDEST_HEAD
from deploykit.compiler.schedules.kernel.stages import Stage, read
from deploykit.compiler.tir.heavy import is_heavy
from deploykit.compiler.tir.rewriting import call_name, collect
from deploykit.compiler.tir.values import at_place, static

STORED = ("float32", "float16", "uint16")
"""The dtypes in which operands may be read; uint16 holds the bits of bfloat16."""

SHORT = 64
"""The most nodes of an expression that may be evaluated each time an operand is read."""


def fuse_attention(
    mod: ir.IRModule, note: Note = unheard, factors: str = DTYPE, kept: Collection[str] = ()
) -> ir.IRModule:
    """`mod`, with every attention as one kernel. `factors` is the dtype to which its factors may be rounded, unless one
    of its products is that of a variable whose name is in `kept`."""
    builder = relax.BlockBuilder(mod)
    entries = [name.name_hint for name, func in mod.functions.items() if isinstance(func, relax.Function)]
    result = rewritten(
        mod, builder, lambda func: lambda block: _Block(mod, builder, block, func, factors, kept).rewritten(note)
    )
    if result is mod:
        return mod
    return merge_kernels(relax.transform.DeadCodeElimination(entries)(result))


@dataclass
class _Match:
    """An attention that was found. `chain` are the variables of the kernels between the first product and the softmax.
    `empty` says what a row without open keys gives. `softmax` are the softmax and the kernels that round it. `side` are
    the kernels absorbed on an operand or on the result; `last` is the variable of the result."""

    queries: relax.Expr
    keys: relax.Expr
    values: relax.Expr
    empty: str
    first: relax.Var
    second: relax.Var
    last: relax.Var
    softmax: list[relax.Var]
    chain: list[relax.Var]
    side: list[relax.Var] = field(default_factory=list)

    def __str__(self) -> str:
        others = sorted(var.name for var in self.absorbed - {self.second})
        return f"attention, one kernel with {', '.join(others)}"

    @property
    def absorbed(self) -> set[relax.Var]:
        return {self.first, self.second, self.last, *self.softmax, *self.chain, *self.side}


class _Block:
    """Finds and replaces the attentions of a binding block."""

    def __init__(
        self,
        mod: ir.IRModule,
        builder: relax.BlockBuilder,
        block: relax.BindingBlock,
        func: relax.Function,
        factors: str,
        kept: Collection[str],
    ) -> None:
        self.mod, self.builder, self.block, self.factors, self.kept = mod, builder, block, factors, kept
        graph = Graph(func)
        self.uses, self.readers = graph.uses, graph.readers
        self.values = {b.var: b.value for b in block.bindings if isinstance(b, relax.VarBinding)}

    def rewritten(self, note: Note) -> relax.BindingBlock:
        """The block, with each attention as a call of one function. The absorbed bindings remain, unused."""
        found = {var: self.match(var) for var, value in self.values.items() if _is_product(value)}
        matches = [match for match in found.values() if isinstance(match, _Match)]
        for var, match in found.items():
            note(Decision("fuse_attention", var.name, match if isinstance(match, Declined) else str(match)))
        if not matches:
            return self.block
        calls = {match.last: self.call(match) for match in matches}
        bindings = [
            relax.VarBinding(binding.var, calls[binding.var]) if binding.var in calls else binding
            for binding in self.block.bindings
        ]
        return type(self.block)(bindings)

    def match(self, second: relax.Var) -> _Match | Declined:
        """The attention whose second product is `second`, or the reason why there is none."""
        weights, values = self.values[second].args
        rounded: list[relax.Var] = []
        while self.is_rounded(weights) and self.single(weights):
            rounded.append(weights)
            weights = arguments_of(self.values[weights])[0]
        guarded = self.without_nan(weights)
        if guarded is not None:
            rounded += [weights, guarded.isnan]
            weights = guarded.softmax
        empty = self.softmax(weights)
        if empty is None:
            return Declined(f"its left operand is no softmax in {DTYPE}")
        if self.uses[weights] != (1 if guarded is None else 2):
            return Declined("others read the softmax, too")
        empty = empty if guarded is None else "zero"
        chain = self.chain(arguments_of(self.values[weights])[0])
        if chain is None:
            return Declined("its softmax is not of a product, with elementwise kernels between that nothing else reads")
        if str(chain[0].ty.dtype) != DTYPE:
            return Declined(f"its scores are not in {DTYPE}")
        first, chain = chain[-1], chain[:-1]
        queries, keys = self.values[first].args
        sizes = [static(queries.ty.shape[-1]), static(values.ty.shape[-1])]
        if any(size is None or size > WIDEST_HEAD for size in sizes):
            return Declined(f"its heads are not of a constant size up to {WIDEST_HEAD}")
        inputs = (queries, keys, values)
        if any(len(x.ty.shape) < 2 for x in inputs) or any(str(x.ty.dtype) not in STORED for x in inputs):
            return Declined(f"its operands are no matrices of {', '.join(STORED)}")
        if any(str(x.ty.dtype) != DTYPE for x in (first, second)):
            return Declined(f"its products are not summed in {DTYPE}")
        match = _Match(queries, keys, values, empty, first, second, second, [*rounded, weights], chain)
        self.absorb_result(match)
        for operand in inputs:
            self.absorb_operand(match, operand)
        return match

    def softmax(self, weights: relax.Expr) -> str | None:
        """What the softmax that computes `weights` gives for an empty row; None if `weights` is no such softmax."""
        value = self.values.get(weights)
        kernel = self.kernel(value)
        stages = [] if kernel is None else kernel
        kinds = [stage.annotations[SOFTMAX] for stage in stages if SOFTMAX in stage.annotations]
        return str(kinds[-1]) if kinds and str(weights.ty.dtype) == DTYPE else None

    def is_rounded(self, var: relax.Expr) -> bool:
        """Whether `var` is another tensor rounded to another float dtype, where the rounding is not required."""
        stages = self.kernel(self.values.get(var))
        return stages is not None and len(stages) == 1 and stages[0].annotations.get(ROUNDED) == "free"

    def without_nan(self, var: relax.Expr) -> _Guarded | None:
        """The parts of `where(isnan(x), 0, x)`, if `var` is that."""
        stage = self.pointwise(self.values.get(var))
        chosen = None if stage is None or stage.store is None else stage.store.value
        if stage is None or not self.single(var) or not isinstance(chosen, tirx.Select):
            return None
        value = self.values[var]
        operands = dict(zip(self.mod[value.args[0]].params, arguments_of(value), strict=False))
        parts = (chosen.condition, chosen.true_value, chosen.false_value)
        place = [axis.var for axis in stage.axes]
        isnan, zero, softmax = (
            operands.get(part.source) if isinstance(part, ir.TensorLoad) else part for part in parts
        )
        same = all(_reads_at(part, place) for part in (chosen.condition, chosen.false_value))
        if not same or not _is_zero(zero) or not isinstance(isnan, relax.Var) or not self.single(isnan):
            return None
        test = self.pointwise(self.values.get(isnan))
        if test is None or not isinstance(softmax, relax.Var) or softmax not in arguments_of(self.values[isnan]):
            return None
        asked = test.store.value if test.store is not None else None
        if not isinstance(asked, ir.Call) or call_name(asked) != "isnan":
            return None
        return _Guarded(isnan, softmax) if _reads_at(asked.args[0], [axis.var for axis in test.axes]) else None

    def chain(self, var: relax.Expr) -> list[relax.Var] | None:
        """The variables from the operand of the softmax back to the first product."""
        value = self.values.get(var)
        if value is None or not self.single(var):
            return None
        if _is_product(value):
            return [var]
        for operand in self.in_place_arguments_of(value):
            rest = self.chain(operand)
            if rest is not None:
                return [var, *rest]
        return None

    def single(self, var: relax.Expr) -> bool:
        return self.uses[var] == 1

    def kernel(self, value: relax.Expr | None) -> list[Stage] | None:
        """The stages of the kernel that `value` calls; None if they cannot be told apart."""
        if value is None or operator_of(value) != "relax.call_tir":
            return None
        nest = read(self.mod[value.args[0]])
        if isinstance(nest, Declined) or not all(isinstance(stage, Stage) for stage in nest.stages):
            return None
        return [stage for stage in nest.stages if isinstance(stage, Stage)]

    def pointwise(self, value: relax.Expr | None) -> Stage | None:
        stages = self.kernel(value)
        return stages[0] if stages is not None and len(stages) == 1 and stages[0].pointwise else None

    def in_place_arguments_of(self, value: relax.Expr) -> list[relax.Var]:
        """The operands that a pointwise kernel reads only at the index that it writes."""
        stage = self.pointwise(value)
        if stage is None:
            return []
        found = []
        place = [axis.var for axis in stage.axes]
        for param, argument in zip(self.mod[value.args[0]].params, arguments_of(value), strict=False):
            reads = [load for load in stage.loads if load.source.same_as(param)]
            exact = all(at_place(load.indices, place) for load in reads)
            if reads and exact and isinstance(argument, relax.Var):
                found.append(argument)
        return found

    def absorb_operand(self, match: _Match, operand: relax.Expr) -> None:
        """Absorb the kernels that only rearrange an operand, or that change its elements one by one."""
        while (stage := self.pointwise(self.values.get(operand))) is not None:
            assert stage.store is not None
            tensors = [a for a in arguments_of(self.values[operand]) if is_tensor(a) and len(a.ty.shape)]
            short = len(collect(stage.store.value, ir.Expr)) <= SHORT
            cheap = short and self.single(operand) and not is_heavy(stage.store.value)
            if len(tensors) != 1 or not (is_move(stage) or cheap):
                return
            match.side.append(operand)
            operand = tensors[0]

    def absorb_result(self, match: _Match) -> None:
        """Absorb the kernels that only rearrange or round the result."""
        while self.single(match.last):
            readers = self.readers.get(match.last, [])
            stage = self.pointwise(self.values.get(readers[0])) if readers else None
            if stage is None or not (_is_permutation(stage) or ROUNDED in stage.annotations):
                return
            match.side.append(match.last)
            match.last = readers[0]

    def call(self, match: _Match) -> relax.Expr:
        """A call of a new function that computes the attention."""
        order = [binding for binding in self.block.bindings if binding.var in match.absorbed]

        def emitted(binding: relax.Binding, values: dict[relax.Expr, relax.Expr]) -> relax.Expr:
            return self.emitted(binding, match, values)

        return outlined(self.builder, "attention", order, emitted)

    def emitted(self, binding: relax.Binding, match: _Match, values: dict[relax.Expr, relax.Expr]) -> relax.Expr:
        builder, value = self.builder, binding.value
        if binding.var in match.softmax:
            return values[arguments_of(value)[0]]
        if binding.var == match.first:
            left, right = (values[operand] for operand in value.args)
            factors = DTYPE if {match.first.name, match.second.name} & set(self.kept) else self.factors
            return builder.emit(call_te(builder, partial(scores, factors=factors), left, right, name="scores"))
        if binding.var == match.second:
            left, right = (values[operand] for operand in value.args)
            build = partial(weighted, empty=match.empty)
            return builder.emit(call_te(builder, build, left, right, name="weighted"))
        return same_call(builder, value, values)


@dataclass(frozen=True)
class _Guarded:
    """The variables of `where(isnan(softmax), 0, softmax)`, which exporters write for rows without open keys."""

    isnan: relax.Var
    softmax: relax.Var


def _reads_at(value: ir.Expr, place: Sequence[ir.Var]) -> bool:
    """Whether `value` is the element of a tensor at exactly this place."""
    return isinstance(value, ir.TensorLoad) and at_place(value.indices, place)


def _is_zero(value: relax.Expr | None) -> bool:
    if isinstance(value, tirx.FloatImm):
        return float(value.value) == 0
    return isinstance(value, ir.GenericConst) and not array_of(value).any()


def _is_product(value: relax.Expr | None) -> bool:
    return operator_of(value) == "relax.matmul"


def _is_permutation(stage: Stage) -> bool:
    """Whether a stage permutes the axes of a tensor, with its elements unchanged."""
    assert stage.store is not None
    value = stage.store.value
    if not isinstance(value, ir.TensorLoad) or len(value.indices) != len(stage.axes):
        return False
    return {axis.var for axis in stage.axes} == {index for index in value.indices if isinstance(index, ir.Var)}
