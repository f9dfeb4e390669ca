"""Divides a kernel into shaders: one per stage, or one for several stages over the same rows.

It declines what a shader cannot do and gives the reason: imperative blocks, tensors of dtypes that a GPU does not have,
stages that use more tensors than there are bindings. For a kernel that runs once for each instance of a ragged batch,
see `schedules.gpu.vloop`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from tvm import ir, tirx

from deploykit.compiler.decisions import Choice, Declined
from deploykit.compiler.devices.gpu import Gpu
from deploykit.compiler.operators.anchors.attention import ROLES
from deploykit.compiler.schedules.driver import prepared
from deploykit.compiler.schedules.fallback import plain
from deploykit.compiler.schedules.gpu.attention import attention
from deploykit.compiler.schedules.gpu.grouped import grouped, is_grouped
from deploykit.compiler.schedules.gpu.pages import paged
from deploykit.compiler.schedules.gpu.parts import Divided, Part
from deploykit.compiler.schedules.gpu.team import Way, team, team_rows
from deploykit.compiler.schedules.gpu.tile import tile
from deploykit.compiler.schedules.gpu.vloop import divide_vloop
from deploykit.compiler.schedules.gpu.winograd import is_transform, transform
from deploykit.compiler.schedules.kernel.access import Views
from deploykit.compiler.schedules.kernel.loops import collapsed, without_units
from deploykit.compiler.schedules.kernel.stages import Nest, Opaque, Stage, scalars_of
from deploykit.compiler.schedules.vloop import is_vloop
from deploykit.compiler.tir.rewriting import Buffer, collect, sequence, substitute
from deploykit.compiler.tir.values import dtype_of

ELEMENTS = "elements"
"""The name of the fallback rule: one invocation per element."""


Tiles = Callable[[Stage, Views], "list[Way] | Declined"]
"""Ways that compute a stage in tiles, or why there are none."""


@dataclass(frozen=True)
class _Piece:
    """A statement that becomes a part, and its buffers, of which the last `outputs` are written."""

    body: tirx.Stmt
    buffers: tuple[Buffer, ...]
    outputs: int
    team: bool


@dataclass(frozen=True)
class _Taken:
    """Stages that a rule took: the pieces that compute them, and one choice per stage."""

    pieces: list[_Piece]
    choices: list[Choice]


def divide(
    func: tirx.PrimFunc, gpu: Gpu, untiled: Declined | None = None, *, padding: bool = True
) -> Divided | Declined:
    """`func` in parts, each with one parallel loop, or the reason why it cannot run on `gpu`. `untiled`: the reason, if
    any, why tiles must not be used, so that every element has an invocation of its own. `padding`: vectors may reach
    beyond the end of tensors."""
    if is_vloop(func):
        return divide_vloop(func, gpu, partial(divide, untiled=untiled, padding=False))
    pages = paged(func, gpu)
    if pages is not None:
        return pages
    nest = prepared(func)
    if isinstance(nest, Declined):
        return nest
    stages = [stage for stage in nest.stages if isinstance(stage, Stage)]
    if len(stages) < len(nest.stages):
        return Declined("it holds an imperative block")
    if any(stage.guard is not None for stage in stages):
        return Declined("it stores under a condition")
    params = [param for param in func.params if tirx.is_buffer_var(param)]
    for buffer in dict.fromkeys(buffer for stage in stages for buffer in stage.touched):
        if dtype_of(buffer) not in gpu.dtypes:
            return Declined(f"it has tensors of {dtype_of(buffer)}")
    pieces: list[_Piece] = []
    choices: list[Choice] = []
    while len(choices) < len(stages):
        stage = stages[len(choices)]
        found = {} if untiled or is_grouped(stage) else _together(nest, len(choices), gpu)
        if isinstance(found, _Taken) and any(len(piece.buffers) > gpu.bindings for piece in found.pieces):
            found = {found.choices[0].rule: f"its stages together touch more than {gpu.bindings} tensors"}
        if not isinstance(found, _Taken):
            found = _alone(nest, stage, *_rule(stage, gpu, untiled, padding=padding), found)
        touched = len(found.pieces[0].buffers)
        if touched > gpu.bindings:
            return Declined(f"it reads and writes {touched} tensors at once, more than {gpu.bindings}")
        pieces += found.pieces
        choices += found.choices
    used = {buffer for piece in pieces for buffer in piece.buffers}
    temporaries = tuple(buffer for buffer in nest.temporaries if buffer in used)
    known = [*params, *temporaries]
    return Divided(temporaries, tuple(_part(nest, piece, known) for piece in pieces), tuple(choices))


def _together(nest: Nest, position: int, gpu: Gpu) -> _Taken | Mapping[str, str]:
    """Pieces that compute several stages from `position` on together, or by rule the reasons why that is not
    possible."""
    views = Views()
    stages = nest.stages[position : position + len(ROLES)]
    ways = attention(stages, views, gpu)
    if not isinstance(ways, Declined):
        gone = [buffer for stage in stages[:-1] if isinstance(stage, Stage) for buffer in stage.outputs]
        return _Taken([_piece(nest, stages, views, way, gone) for way in ways], _choices("attention", stages, {}))
    declined = {"attention": ways.reason}
    rows = team_rows(nest, position)
    if isinstance(rows, Declined):
        return {**declined, "team": rows.reason}
    views = Views()
    stages = nest.stages[position : position + len(rows.stages)]
    way = Way(team(rows, views, gpu), team=True)
    return _Taken([_piece(nest, stages, views, way, rows.shrunk)], _choices("team", stages, declined))


def _choices(rule: str, stages: Sequence[Stage | Opaque], declined: Mapping[str, str]) -> list[Choice]:
    return [Choice(stage.name, rule, declined) for stage in stages if isinstance(stage, Stage)]


def _rule(stage: Stage, gpu: Gpu, untiled: Declined | None, *, padding: bool) -> tuple[str, Tiles]:
    """The rule for a stage alone, and its name."""
    if is_transform(stage):
        return "winograd", lambda stage, views: untiled or transform(stage, views, gpu)
    if is_grouped(stage):
        return "grouped", lambda stage, views: untiled or grouped(stage, views, gpu)
    return "tile", lambda stage, views: untiled or tile(stage, views, gpu, padding=padding)


def _alone(nest: Nest, stage: Stage, rule: str, tiles: Tiles, declined: Mapping[str, str]) -> _Taken:
    """The pieces of a stage in tiles, or with one invocation per element."""
    views = Views()
    ways = tiles(stage, views)
    if not isinstance(ways, Declined):
        return _Taken([_piece(nest, [stage], views, way) for way in ways], _choices(rule, [stage], declined))
    piece = _piece(nest, [stage], views, Way(threads(stage)))
    return _Taken([piece], [Choice(stage.name, ELEMENTS, {**declined, rule: ways.reason}, fallback=True)])


def _piece(
    nest: Nest,
    stages: Sequence[Stage | Opaque],
    views: Views,
    way: Way,
    gone: Sequence[Buffer] = (),
) -> _Piece:
    """The piece for a way that computes `stages` without the temporaries that are `gone`."""
    buffers, outputs = _buffers(nest, [stage for stage in stages if isinstance(stage, Stage)], gone)
    declared = [view for buffer in buffers for view in views.declarations(buffer)]
    return _Piece(sequence([*declared, way.body]), buffers, outputs, way.team)


def _buffers(nest: Nest, stages: Sequence[Stage], gone: Sequence[Buffer]) -> tuple[tuple[Buffer, ...], int]:
    """The buffers that stages read but do not write, then those that they write, and the number of the latter."""
    written: dict[Buffer, None] = {}
    touched: set[Buffer] = set()
    for stage in stages:
        written |= dict.fromkeys(buffer for buffer in stage.outputs if buffer not in gone)
        own = {store.buffer for store in collect(stage.body, tirx.BufferStore)} - set(stage.outputs)
        # The reduced value of a stage with an epilogue stays in the invocation.
        touched |= {*stage.touched} - own
    params = [param for param in nest.func.params if tirx.is_buffer_var(param)]
    known = (*params, *nest.temporaries)
    read = [b for b in known if b in touched and b not in written and b not in gone]
    return (*read, *written), len(written)


def _part(nest: Nest, piece: _Piece, known: Sequence[Buffer]) -> Part:
    shapes = [extent for buffer in piece.buffers for extent in buffer.shape]
    used = {var for node in (piece.body, *shapes) for var in collect(node, ir.Var)}
    scalars = [var for var in scalars_of(nest.func) if var in used]
    func = tirx.PrimFunc([*piece.buffers, *scalars], piece.body)
    positions = [next(i for i, other in enumerate(known) if other.same_as(buffer)) for buffer in piece.buffers]
    return Part(func, tuple(positions), piece.outputs, piece.team)


def threads(stage: Stage) -> tirx.Stmt:
    """`stage`, with one invocation per element of its result."""
    axes, units = without_units(stage.axes)
    alone = replace(stage, axes=())
    body = substitute(sequence(plain(alone, in_place=False)), units)
    return collapsed(axes, body) if axes else body
