"""Whether a model fits a board, and what would make it fit."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from deploykit.compiler.codegen.host.header import arena_bytes_at_bounds, at_upper_bounds, bytes_at_bounds
from deploykit.errors import UsageError
from deploykit.targets.embedded.boards import Board
from deploykit.targets.embedded.boards.footprint import Footprint, share
from deploykit.targets.embedded.boards.measuring import Measured

if TYPE_CHECKING:
    from deploykit.compiler.program.ir import Program

DEEPER_STACK = 1024
"""Bytes that are left for what the stack grows by with `--optimize memory`."""


def footprint(
    program: Program, board: Board, constants: Mapping[str, int], measured: Measured | str, *, shares_code: bool = False
) -> Footprint:
    """The footprint of a program at the upper bounds of its dims; `constants` are bytes of flash by what they are for,
    and `shares_code` says whether kernels do. A text in the place of `measured` says why that is not known. Raises
    `UsageError`, with what would make it fit, if it takes more than the board has."""
    flash, ram, compiler = dict(constants), _tensors(program), ""
    uncounted = [
        f"output '{port.name}', whose size depends on data"
        for function in program.public
        for port in function.outputs
        if bytes_at_bounds(function, port) is None
    ]
    if program.task is not None:
        uncounted.append("memory for texts, pictures or sounds beside the arena (WORKSPACE_BYTES in its header)")
    if isinstance(measured, Measured):
        flash |= {"code": measured.code, "constants": measured.constants}
        ram |= {"structs": measured.structs, "variables": measured.data, "stack": measured.stack or 0}
        compiler = measured.compiler
        uncounted += ["the stack, which has no known bound"] if measured.stack is None else []
    else:
        uncounted.append(f"code, structs and the stack: {measured}")
    found = Footprint(board=board, flash=flash, ram=ram, compiler=compiler, uncounted=tuple(uncounted))
    _require_room(found, program, shares_code=shares_code)
    return found


def _tensors(program: Program) -> dict[str, int]:
    """Bytes of RAM for tensors: functions run one after the other, so the one with the most counts."""
    each = [
        {
            "arena": arena_bytes_at_bounds(function) or 0,
            "inputs": sum(bytes_at_bounds(function, port) or 0 for port in function.inputs),
            "outputs": sum(bytes_at_bounds(function, port) or 0 for port in function.outputs),
        }
        for function in program.public
    ]
    most = max(each, key=lambda parts: sum(parts.values()))
    sizes = [at_upper_bounds(function, [program.states.size]) for function in program.public if function.states]
    return most | {"states": max((found[0] for found in sizes if found), default=0)}


def _require_room(found: Footprint, program: Program, *, shares_code: bool) -> None:
    board, reasons = found.board, []
    if sum(found.flash.values()) > board.flash.bytes:
        over = sum(found.flash.values()) - board.flash.bytes
        advice = "" if _in_bytes(program) else " Weights take fewer bytes with --quantize int8 or `deploykit quantize`."
        if not shares_code and over < found.flash.get("code", 0) // 2:
            advice += " Code takes fewer bytes with --optimize size."
        reasons.append(f"flash {share(found.flash, board.flash.bytes)}.{advice}")
    if sum(found.ram.values()) > board.ram.bytes:
        rest = sum(found.ram.values()) - sum(_tensors(program).values())
        reasons.append(f"RAM {share(found.ram, board.ram.bytes)}. {_smaller(program, board.ram.bytes - rest)}.")
    if reasons:
        lines = "\n".join(reasons)
        raise UsageError(f"the model does not fit the board '{board.name}' (`deploykit boards` lists others):\n{lines}")


def _smaller(program: Program, room: int) -> str:
    """What would make the tensors of a program fit into `room` bytes."""
    dims = {
        dim.name: dim
        for function in program.public
        for dim in function.dims
        if dim.maximum is not None and dim.maximum > dim.minimum
    }

    def fits(bounds: Mapping[str, int]) -> bool:
        return sum(_tensors(_bounded(program, bounds)).values()) <= room

    found = []
    for name, dim in dims.items():
        sizes = range(dim.minimum, (dim.maximum or dim.minimum) + 1)
        fitting = bisect_left(sizes, True, key=lambda size, name=name: not fits({name: size}))  # type: ignore[misc]
        if fitting:
            most = sizes[fitting - 1]
            found.append(f"--dim {name}={most}" if most == dim.minimum else f"--dim {name}={dim.minimum}..{most}")
    if _fits_in_less_memory(program, room):
        found.append("--optimize memory")
    if found:
        return f"It fits with {' or '.join(found)}"
    least = {name: dim.minimum for name, dim in dims.items()}
    if least and fits(least):
        return f"It fits with {' '.join(f'--dim {name}={size}' for name, size in least.items())}"
    fewer = sum(_tensors(_bounded(program, least)).values())
    at = f" with {' '.join(f'--dim {name}={size}' for name, size in least.items())}" if least else ""
    advice = "" if _in_bytes(program) else ", and a quarter in 8 bits (`deploykit quantize`)"
    return f"Its tensors take {fewer:,} bytes at least{at}{advice}"


def _in_bytes(program: Program) -> bool:
    """Whether most of the weights are integers of 8 bits or fewer: those of a model that is quantised already."""
    sizes = [(constant.data.nbytes, constant.data.itemsize == 1) for constant in program.constants]
    return 2 * sum(size for size, small in sizes if small) > sum(size for size, _ in sizes)


def _fits_in_less_memory(program: Program, room: int) -> bool:
    """Whether the tensors fit with `--optimize memory`, with some room for a deeper stack."""
    smaller = program.in_less_memory
    return smaller is not None and sum(_tensors(smaller()).values()) + DEEPER_STACK <= room


def _bounded(program: Program, bounds: Mapping[str, int]) -> Program:
    """The program with other upper bounds of dims."""
    functions = tuple(
        replace(
            function,
            dims=tuple(replace(dim, maximum=bounds.get(dim.name, dim.maximum)) for dim in function.dims),
        )
        for function in program.functions
    )
    return replace(program, functions=functions)
