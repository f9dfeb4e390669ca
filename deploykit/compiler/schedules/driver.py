"""The order in which rules are tried, and the reasons they gave."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tvm import tirx

from deploykit.compiler.schedules.access import Views
from deploykit.compiler.schedules.conv import conv
from deploykit.compiler.schedules.device import Device
from deploykit.compiler.schedules.elementwise import elementwise
from deploykit.compiler.schedules.epilogue import merge_epilogues
from deploykit.compiler.schedules.inline import inline
from deploykit.compiler.schedules.matmul import matmul
from deploykit.compiler.schedules.nest import Nest, Opaque, Stage, read, sequence
from deploykit.compiler.schedules.plain import plain
from deploykit.compiler.schedules.reduction import reduction

Rule = Callable[[Stage, Views, Device], "list[Any] | str"]

RULES: Mapping[str, Rule] = {
    "matmul": matmul,
    "conv": conv,
    "elementwise": elementwise,
    "reduction": reduction,
}
"""Rules by name, in the order they are tried."""


def schedule(func: tirx.PrimFunc, device: Device) -> tirx.PrimFunc:
    """`func` scheduled for `device`: same parameters, same values up to the order of floating-point additions."""
    return _run(func, device)[0]


def explain(func: tirx.PrimFunc, device: Device) -> tuple[str, ...]:
    """A line for each stage of `func`: which rule took it and why the ones before declined."""
    return _run(func, device)[1]


def _run(func: tirx.PrimFunc, device: Device) -> tuple[tirx.PrimFunc, tuple[str, ...]]:
    nest = read(func)
    if isinstance(nest, str):
        return func, (f"kept as it is: {nest}",)
    nest = merge_epilogues(inline(nest))
    views = Views()
    statements: list[Any] = []
    notes: list[str] = []
    for stage in nest.stages:
        if isinstance(stage, Opaque):
            statements.append(stage.body)
            notes.append("imperative block: kept as it is")
            continue
        scheduled, note = _apply(stage, views, device)
        statements.extend(scheduled)
        notes.append(note)
    return _write(nest, statements, views), tuple(notes)


def _write(nest: Nest, statements: Sequence[Any], views: Views) -> tirx.PrimFunc:
    """The PrimFunc of `nest` with a new body that declares temporaries and flat views first."""
    declared: list[Any] = []
    for buffer in nest.func.params:
        if tirx.is_buffer_var(buffer):
            declared.extend(views.declarations(buffer))
    for buffer in nest.temporaries:
        declared.extend([tirx.AllocBuffer(buffer), *views.declarations(buffer)])
    return nest.func.with_body(sequence([*declared, *statements]))


def _apply(stage: Stage, views: Views, device: Device) -> tuple[list[Any], str]:
    reasons: list[str] = []
    for name, rule in RULES.items():
        result = rule(stage, views, device)
        if not isinstance(result, str):
            return result, "; ".join([f"{stage.name}: {name}", *reasons])
        reasons.append(f"not {name}: {result}")
    return plain(stage), "; ".join([f"{stage.name}: plain", *reasons])
