"""The program of a dynamic model: its cells, which are functions like others, and `main`, which runs instances."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING

import numpy as np
from tvm import tirx

from deploykit.compiler.batching.cells import evaluate
from deploykit.compiler.batching.model import BATCH, DIMS, ELEMENTS, WORDS, DynamicModel
from deploykit.compiler.model import Dim, Port
from deploykit.compiler.program.arena import SlotRequest, plan
from deploykit.compiler.program.assembly import laid_out
from deploykit.compiler.program.ir import (
    ArenaStorage,
    Constant,
    ConstantStorage,
    Function,
    InputStorage,
    OutputStorage,
    Program,
    RunInstances,
    Storage,
)
from deploykit.compiler.program.ir import Tensor as Buffer
from deploykit.compiler.program.placement import CAPACITY
from deploykit.dynamic.types import Bool, Float, Int, List, Tensor, Tuple, Type, is_flat, parts, tensors_in, width

if TYPE_CHECKING:
    from deploykit.compiler.dims.expressions import IntExpr
    from deploykit.compiler.model import DimBounds

INSTANCES, ROOTS, POLICY, LAUNCHES, TRACE = "instances", "roots", "policy", "launches", "trace"
"""The ports of `main` beside its results. `instances` and `roots` are words (`runtime/batching/instances.h`),
`elements` the elements of tensors in them, `policy` a number of `dk_policy`; `launches` counts those of each cell,
and `trace` has rows of `DK_TRACED` words (`runtime/batching/batching.h`)."""

FIRST_WORDS, FIRST_ELEMENTS = 4096, 16384
"""The least sizes of the memory of the control flow and of the pool. A run that needs more says so."""

TRACED = 4
"""`DK_TRACED`."""

_DTYPES: dict[type, str] = {Int: "int32", Bool: "bool", Float: "float64", Tensor: "float32"}


def with_main(program: Program, model: DynamicModel, capacities: DimBounds) -> Program:
    """The program of the cells with the function that runs instances, the only one for users."""
    cells = tuple(replace(function, internal=True) for function in program.functions)
    values = [evaluate(node, model.weights).reshape(-1) for node in model.constants]
    constants = list(program.constants)
    if values:
        constants.append(Constant("shared", np.concatenate(values), 0))
    shared = len(constants) - 1 if values else None
    main = _main(model, tuple(cell.name for cell in cells), shared, capacities, program.alignment)
    return replace(program, functions=(main, *cells), constants=tuple(laid_out(constants)))


def _main(
    model: DynamicModel, cells: tuple[str, ...], shared: int | None, capacities: DimBounds, alignment: int
) -> Function:
    every = {name: Dim(name, tirx.Var(name, "int64"), *model.bounds.get(name, (0, None))) for name in DIMS}
    batch, words, elements = (dim.var for dim in every.values())
    takes = tuple(kind for _, kind in model.control.takes)
    holds = tensors_in(Tuple(takes), model.unions)
    inputs = [
        Port(INSTANCES, "int32", (words,)),
        Port(ROOTS, "int32", (batch, width(Tuple(takes)))),
        Port(POLICY, "int32", ()),
    ]
    inputs += [Port(ELEMENTS, "float32", (elements,))] if holds else []
    dims = [every[WORDS], every[BATCH], *([every[ELEMENTS]] if holds else [])]
    room = [_capacity("control", FIRST_WORDS, capacities), _capacity("pool", FIRST_ELEMENTS, capacities)]
    totals: list[tuple[int, tirx.Var]] = []
    results = list(_results(model.control.gives, batch, totals))
    traced = tirx.Var("traced", "int64")
    outputs = [*results, Port(LAUNCHES, "int32", (len(cells),)), Port(TRACE, "int32", (traced, TRACED))]
    buffers: list[Buffer] = []

    def add(name: str, dtype: str, shape: tuple[IntExpr, ...], storage: Storage) -> int:
        buffers.append(Buffer(name, "uint8" if dtype == "bool" else dtype, shape, storage))
        return len(buffers) - 1

    given = {port.name: add(port.name, port.dtype, port.shape, InputStorage(i)) for i, port in enumerate(inputs)}
    taken = [add(port.name, port.dtype, port.shape, OutputStorage(i)) for i, port in enumerate(outputs)]
    sizes = [prod(node.shape) for node in model.constants]
    step = RunInstances(
        model=model,
        cells=cells,
        instances=given[INSTANCES],
        roots=given[ROOTS],
        elements=given.get(ELEMENTS),
        policy=given[POLICY],
        shared=None if shared is None else add("shared", "float32", (sum(sizes),), ConstantStorage(shared)),
        words=add("control", "int32", (room[0].var,), ArenaStorage(0)),
        pool=add("pool", "float32", (room[1].var,), ArenaStorage(1)),
        words_dim=room[0].var,
        pool_dim=room[1].var,
        outputs=tuple(taken[:-2]),
        launches=taken[-2],
        trace=taken[-1],
        traced=traced,
        totals=tuple(totals),
    )
    own = (*dims, *room)
    slots = [SlotRequest(dim.capacity_of or "", dim.var * 4, 0, 0) for dim in room]
    return Function("main", own, tuple(inputs), tuple(outputs), tuple(buffers), (step,), plan(slots, own, alignment))


def _capacity(what: str, least: int, capacities: DimBounds) -> Dim:
    name = f"{CAPACITY}{what}"
    given = capacities.get(name, (least, None))
    minimum, maximum = (given, given) if isinstance(given, int) else given
    return Dim(name, tirx.Var(name, "int64"), minimum, maximum, what)


def _results(gives: Type, batch: tirx.Var, totals: list[tuple[int, tirx.Var]]) -> Iterator[Port]:
    """The outputs of what `main` returns. A list has two: its items, and the length for each instance. What has other
    structure is words, as instances are, and the elements of the tensors in them."""
    if not is_flat(gives):
        words, elements = (tirx.Var(f"result_{name}", "int64") for name in ("words", "elements"))
        totals += [(1, words), (2, elements)]
        yield Port("result_roots", "int32", (batch, width(gives)))
        yield Port("result_words", "int32", (words,))
        yield Port("result_elements", "float32", (elements,))
        return
    kinds = [kind for kind, _ in parts(gives)]
    place = 0
    for number, kind in enumerate(kinds):
        name = "result" if len(kinds) == 1 else f"result_{number}"
        if isinstance(kind, List):
            total = tirx.Var(f"{name}_items", "int64")
            totals.append((place, total))
            yield Port(name, _dtype(kind.item), (total, *_shape(kind.item)))
            yield Port(f"{name}_lengths", "int32", (batch,))
            place += 2
        else:
            yield Port(name, _dtype(kind), (batch, *_shape(kind)))
            place += 1


def _dtype(kind: Type) -> str:
    return _DTYPES[type(kind)]


def _shape(kind: Type) -> tuple[int, ...]:
    return kind.shape if isinstance(kind, Tensor) else ()
