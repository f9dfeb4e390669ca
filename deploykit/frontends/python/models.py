"""`import_model`: a class of a Python file as a dynamic model."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

import numpy as np

from deploykit.compiler.batching.control import Control
from deploykit.compiler.batching.model import DynamicModel
from deploykit.compiler.batching.techniques import ALL, Techniques
from deploykit.dynamic.models import checked_weights, random_weights
from deploykit.dynamic.types import Type, unions_in
from deploykit.errors import UnsupportedModelError
from deploykit.frontends.python.declarations import Module, read_module
from deploykit.frontends.python.functions import CONTROL_FLOW, Callee, Program, components, require_plain
from deploykit.frontends.python.reading import read_body
from deploykit.frontends.python.source import Refused, read_source

for _module in ("expressions", "statements", "lists", "loops", "calls"):
    import_module(f"deploykit.frontends.python.{_module}")  # register what they read

MAIN = "main"
"""The method that runs one instance."""


def import_model(
    path: Path, name: str, weights: Mapping[str, np.ndarray] | None, techniques: Techniques = ALL
) -> DynamicModel:
    """The model of the class `name` in a file. Without `weights` they are random.

    Raises `UsageError` for a file or a class that cannot be read, or weights that do not fit, and
    `UnsupportedModelError` with all faults of the source."""
    module = read_module(read_source(path), name)
    program = Program(module, _callees(module), read_body, techniques)
    takes, gives = _read_main(program, name)
    module.source.raise_faults(name)
    assert gives is not None
    arrays = random_weights(module.weights, 0) if weights is None else checked_weights(name, module.weights, weights)
    control = Control(tuple(program.functions.values()), takes, gives)
    return DynamicModel(
        name,
        control,
        tuple(program.cells.cells),
        tuple(program.cells.names),
        tuple(program.constants.values()),
        unions_in([*(kind for _, kind in takes), gives], module.unions),
        arrays,
        techniques=techniques,
    )


def _read_main(program: Program, model: str) -> tuple[tuple[tuple[str, Type], ...], Type | None]:
    """Read `main` and all that it calls. Faults are noted."""
    module = program.module
    main = program.callees.get(f"self.{MAIN}")
    if main is None:
        raise UnsupportedModelError(f"'{model}' has no method '{MAIN}': it runs one instance")
    try:
        require_plain(main)
        takes = [(parameter.arg, program.parameter(main, parameter)) for parameter in main.parameters]
        gives = program.returns(main)
        program.version(main, tuple((kind, False) for _, kind in takes))
    except Refused as refused:
        module.source.refuse(refused)
        return (), None
    return tuple(takes), gives


def _callees(module: Module) -> dict[str, Callee]:
    """The functions of a module: methods as `self.name`."""
    nodes = {f"self.{name}": node for name, node in module.methods.items()} | dict(module.functions)
    calls = {name: _called(node) & nodes.keys() for name, node in nodes.items()}
    numbers = components(calls)
    inline: dict[str, bool] = {}

    def is_inline(name: str) -> bool:
        if name not in inline:
            inline[name] = False  # so that a recursion is not
            own = nodes[name]
            plain = not any(isinstance(each, CONTROL_FLOW) for each in ast.walk(own))
            ends = sum(isinstance(each, ast.Return) for each in ast.walk(own)) == 1
            ends = ends and isinstance(own.body[-1], ast.Return) and own.body[-1].value is not None
            inline[name] = plain and ends and name != f"self.{MAIN}" and all(map(is_inline, calls[name]))
        return inline[name]

    return {
        name: Callee(node.name, node, name.startswith("self."), numbers[name], is_inline(name))
        for name, node in nodes.items()
    }


def _called(node: ast.FunctionDef) -> set[str]:
    found = set()
    for each in ast.walk(node):
        match each:
            case ast.Call(ast.Attribute(ast.Name("self"), name)):
                found.add(f"self.{name}")
            case ast.Call(ast.Name(name)):
                found.add(name)
            case _:
                pass
    return found
