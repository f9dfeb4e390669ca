"""Finds the products and convolutions that stay in float32 when others are computed in 16 bits, by names.

A name is that of an operator of the user's model, as operators have it as their source (`source_of`), or of an output
of the model. For an output, the product meant is the last one before it. `*`, `?` and `[...]` in a name stand for other
characters.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

from tvm import ir, relax

from deploykit.compiler.graph.bindings import Graph, operator_of
from deploykit.compiler.model import ImportedModel
from deploykit.compiler.operators.building.context import source_of
from deploykit.errors import UsageError

PRODUCT = re.compile(r"relax\.(matmul|nn\.conv\dd(_transpose)?)$")

NAMES_SHOWN = 12
"""How many names an error lists."""


def kept_products(model: ImportedModel, module: ir.IRModule, names: Sequence[str]) -> frozenset[str]:
    """The names of the variables in `module`, that of `model`, whose products stay. Raises `UsageError` for a name of
    nothing."""
    graphs = {
        gvar.name_hint: Graph(func) for gvar, func in module.functions.items() if isinstance(func, relax.Function)
    }
    operators = [(source_of(value), var) for graph in graphs.values() for var, value in _products(graph)]
    outputs = [
        (port.name, last)
        for signature in model.functions
        for port, result in zip(signature.outputs, _results(module[signature.name]), strict=False)
        if (last := _last_before(graphs[signature.name], result)) is not None
    ]
    kept: set[str] = set()
    for name in names:
        found = [var for own, var in (*operators, *outputs) if own is not None and fnmatchcase(own, name)]
        if not found:
            raise UsageError(f"no product or convolution is called '{name}'; {_there_are(operators, outputs)}")
        kept.update(var.name for var in found)
    return frozenset(kept)


def _products(graph: Graph) -> Iterator[tuple[relax.Var, relax.Call]]:
    return ((var, value) for var, value in graph.values.items() if PRODUCT.match(operator_of(value)))


def _results(func: relax.Function) -> Sequence[relax.Expr]:
    """What a function returns, by output."""
    result = func.body.body
    values = {b.var: b.value for block in func.body.blocks for b in block.bindings if isinstance(b, relax.VarBinding)}
    while isinstance(result, relax.Var) and result in values:
        result = values[result]
    return list(result.fields) if isinstance(result, relax.Tuple) else [result]


def _last_before(graph: Graph, result: relax.Expr) -> relax.Var | None:
    """The last product on which `result` depends."""
    needed = {result}
    for var, value in reversed(graph.values.items()):
        if var in needed:
            if PRODUCT.match(operator_of(value)):
                return var
            needed.update(graph.operands(value))
    return None


def _there_are(*named: Sequence[tuple[str | None, relax.Var]]) -> str:
    names = list(dict.fromkeys(name for pairs in named for name, _ in pairs if name))
    more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    return f"there are {', '.join(names[:NAMES_SHOWN])}{more}" if names else "there are none with names"
