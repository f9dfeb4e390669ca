"""A ragged operator as an `ImportedModel`.

check the lengths; compute index arrays from them (the prelude); check that the totals fit the values
compute one tensor after the other, each by a kernel
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from deploykit.compiler.decisions import Declined
from deploykit.compiler.dims import simplify
from deploykit.compiler.dims.expressions import IntExpr
from deploykit.compiler.model import ImportedModel
from deploykit.compiler.operators.building import index_checks
from deploykit.compiler.operators.building.context import Context, Site
from deploykit.compiler.operators.building.model import ModelBuilder, Values
from deploykit.compiler.operators.building.value import Value
from deploykit.compiler.ragged.calls import called
from deploykit.compiler.ragged.defaults import default_schedule
from deploykit.compiler.ragged.dense import FlatKernel, InstanceKernel, flat_kernel, instance_kernel, product_kernel
from deploykit.compiler.ragged.kernels import RaggedKernel, kernel_of, together
from deploykit.compiler.ragged.ports import Interface, instance_of, interface, layout_of, shape_of
from deploykit.compiler.ragged.prelude import (
    greatest_kernel,
    loop_nest,
    map_body,
    operands_of,
    require_exact,
    sums_body,
    within,
)
from deploykit.compiler.ragged.storage import Order, Owners, Storage, Sums, integers
from deploykit.compiler.ragged.totals import product
from deploykit.compiler.tir.rewriting import Buffer
from deploykit.ragged.indices import LONGEST, Lengths
from deploykit.ragged.operators import Operator
from deploykit.ragged.schedules import Schedule
from deploykit.ragged.values import Tensor

Kernel: TypeAlias = FlatKernel | InstanceKernel | RaggedKernel


def ragged_model(operator: Operator) -> ImportedModel:
    """The model of one operator. Raises `UsageError` for an operator whose sizes no input gives."""
    builder = ModelBuilder(operator.name)
    found = interface(operator, builder)
    kernels = _kernels(found.storage, operator)

    def body(ctx: Context, given: Values, _states: Values) -> tuple[Values, Values]:
        return _Run(ctx, found, given).outputs(operator, kernels), {}

    builder.function("main", [*found.tensors.values(), *found.lengths.values()], body)
    model = builder.model()
    instances = {tensor.name: instance_of(found.storage, tensor) for tensor in operator.outputs}
    (signature,) = model.functions
    ports = tuple(replace(port, instance=instances[port.name]) for port in signature.outputs)
    return replace(model, functions=(replace(signature, outputs=ports),))


def _kernels(storage: Storage, operator: Operator) -> list[Kernel]:
    """The kernels that compute all tensors."""
    given = {each.tensor: each for each in operator.schedules}
    made = [together(storage, [kernel_of(storage, given[each]) for each in group]) for group in operator.together]
    grouped = {tensor for group in operator.together for tensor in group}
    computed = [tensor for tensor in operator.tensors if tensor.value is not None and tensor not in grouped]
    return [*made, *(_kernel(storage, tensor, given.get(tensor)) for tensor in computed)]


def _kernel(storage: Storage, tensor: Tensor, schedule: Schedule | None) -> Kernel:
    """How a tensor is computed: in the loops of its schedule, or else by a dense kernel where that is possible."""
    if schedule is None:
        for kernel in (flat_kernel, instance_kernel, product_kernel):
            found = kernel(storage, tensor)
            if not isinstance(found, Declined):
                return found
    return kernel_of(storage, schedule or default_schedule(storage, tensor))


@dataclass
class _Run:
    """Emits the Relax function. `arrays` are the values of the buffers of lengths and of sums, `longest` the greatest
    of some lengths."""

    ctx: Context
    found: Interface
    given: Values
    arrays: dict[Buffer, Value] = field(default_factory=dict)
    longest: dict[Lengths, IntExpr] = field(default_factory=dict)

    def outputs(self, operator: Operator, kernels: list[Kernel]) -> Values:
        for lengths in operator.lengths:
            self.arrays[self.found.storage.buffer(lengths)] = self._checked(lengths)
        for array in self.found.storage.arrays:
            self._sums(array)
        for made in self.found.storage.maps:
            self._map(made)
        for tensor, count in self.found.counted.items():
            self._require(tensor, count)
        values: dict[Tensor, Value] = {tensor: self.given[tensor.name] for tensor in self.found.tensors}
        waiting = list(kernels)
        while waiting:
            ready = next(kernel for kernel in waiting if all(each in values for each in kernel.operands))
            waiting.remove(ready)
            values.update(zip(ready.tensors, self._results(ready, values), strict=True))
        return {tensor.name: values[tensor] for tensor in operator.outputs}

    def _checked(self, lengths: Lengths) -> Value:
        """The lengths after a check. They are brought within their bounds, too, for builds without checks."""
        ctx, value = self.ctx, self.given[lengths.name]
        ctx.site = Site("lengths", lengths.name)
        most = LONGEST if lengths.maximum is None else lengths.maximum
        check = index_checks.check(ctx.tensor(value), [(0, most)], f"a length of input '{lengths.name}'", required=True)
        checked = ctx.bind(check, "int64", value.shape)
        source, target = integers(lengths.name), integers("within")
        (found,) = called(
            ctx,
            "lengths",
            within(source, target, product(value.shape), most),
            {source: checked},
            _entries(target, value),
        )
        return found

    def _sums(self, array: Sums) -> None:
        """Compute an array of sums and bind, or check, its last entry."""
        ctx, found = self.ctx, self.found
        ctx.site = Site("prelude", array.name)
        require_exact(found.storage, array)
        operands = operands_of(found.storage, loop_nest(array))
        entries, total = found.totals.elements(array.domain) + 1, integers("total")
        results = {array.buffer: (simplify(entries), "int64"), total: (1, "int64")}
        body = sums_body(array, operands, entries, total)
        inputs = {buffer: self.arrays[buffer] for buffer in operands if buffer in self.arrays}
        self.arrays[array.buffer], last = called(ctx, array.name, body, inputs, results)
        known = found.totals.known.get(array)
        if known is not None:
            check = index_checks.check(ctx.tensor(last), [(known, known)], found.totals.described(array), required=True)
            ctx.ints(ctx.bind(check, "int64", last.shape), known, known, f"sum_{array.name}")
        else:
            (found.totals.known[array],) = ctx.ints(last, 0, found.totals.bound(array), array.name)

    def _map(self, made: Owners | Order) -> None:
        """Compute the array of a fused or remapped loop."""
        ctx, found = self.ctx, self.found
        ctx.site = Site("prelude", made.name)
        operands, body, entries = map_body(found.storage, made, found.totals)
        inputs = {buffer: self.arrays[buffer] for buffer in operands}
        (self.arrays[made.buffer],) = called(ctx, made.name, body, inputs, {made.buffer: (entries, "int64")})

    def _longest(self, lengths: Lengths) -> IntExpr:
        """The greatest of some lengths, which the run reads."""
        if lengths not in self.longest:
            ctx, value = self.ctx, self.arrays[self.found.storage.buffer(lengths)]
            ctx.site = Site("prelude", lengths.name)
            found = ctx.kernel(f"longest_{lengths.name}", greatest_kernel, value, dtype="int64")
            most = LONGEST if lengths.maximum is None else lengths.maximum
            (self.longest[lengths],) = ctx.ints(found, 0, most, f"longest_{lengths.name}")
        return self.longest[lengths]

    def _require(self, each: Tensor | Lengths, count: IntExpr) -> None:
        """Require that an input has as many elements as the lengths say."""
        self.ctx.site = Site("ragged", each.name)
        total = self.found.totals.elements(layout_of(self.found.storage, each))
        message = "the lengths give {} elements of '" + each.name + "', found {}"
        self.ctx.require(total == count, message, total, count)

    def _results(self, kernel: Kernel, values: Mapping[Tensor, Value]) -> list[Value]:
        ctx, storage, totals = self.ctx, self.found.storage, self.found.totals
        tensor = kernel.tensors[0]
        ctx.site = Site("ragged", tensor.name)
        name = f"ragged_{tensor.name}"
        if isinstance(kernel, FlatKernel):
            seen = [ctx.reshape(values[each], kernel.shape(each, totals)) for each in kernel.operands]
            return [ctx.kernel(name, kernel.build(totals), *seen, dtype=tensor.dtype)]
        inputs = {kernel.buffers[each]: values[each] for each in kernel.operands}
        inputs |= {buffer: self.arrays[buffer] for buffer in kernel.arrays}
        results = {
            kernel.buffers[each]: (totals.elements(storage.layout(each.dims, each.padding)), each.dtype)
            for each in kernel.tensors
        }
        if isinstance(kernel, InstanceKernel):
            most = {lengths: self._longest(lengths) for extent in kernel.longest for lengths in extent.lengths()}
            body = kernel.statement(most)
        else:
            body = kernel.statement(totals)
        flat = called(ctx, name, body, inputs, results)
        shapes = [shape_of(storage, totals, each) for each in kernel.tensors]
        return [ctx.reshape(value, shape) for value, shape in zip(flat, shapes, strict=True)]


def _entries(buffer: Buffer, like: Value) -> dict[Buffer, tuple[IntExpr, str]]:
    return {buffer: (product(like.shape), "int64")}
