"""The host code of a program: `model.h`, the whole public interface, and `model.c`, its steps as straight-line C99.

What becomes what:

* the program's name -> the prefix of every public symbol, so that two models link into one program;
* each dim -> an `int64_t` field of `<prefix>_dims`; `bind` finds its value from the shapes of the inputs and checks it;
* each data dim -> a local variable; each tensor -> a local pointer into the caller's memory, the weights or the arena;
* steps -> statements, in order (`steps`);
* kernels for a GPU -> calls of its driver, with the number of a shader (`driver_calls`). Where the host reads what a
  kernel computed, the run may return and go on later; the model then keeps the variables of the run;
* a program that is compiled with -DDK_SLICED -> `run_steps`, too, which goes on where the last call paused;
* kernels for one kind of CPU -> `init` checks that the model runs on such a CPU; kernels for several kinds -> `init`
  chooses the best kind that fits;
* a kernel with a parallel loop -> a struct of its arguments, and a function that runs a part of the loop, which
  `dk_parallel_for` calls.

`header` gives templates the interface, `functions` the bodies. `reads` finds what the steps read, and `order` checks
that it is set before.

The code calls `deploykit.c` for checks and `memcpy` for copies; it allocates nothing and has no globals.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm import tirx

from deploykit.compiler.codegen.host.control import emit_control
from deploykit.compiler.codegen.host.functions import (
    HOST_ARENA,
    HOST_STATES,
    calls_in,
    first_change,
    functions_view,
    host_memory,
    resident_ports,
    steps_view,
)
from deploykit.compiler.codegen.host.header import interface_view
from deploykit.compiler.codegen.host.identifiers import c_string, identifier
from deploykit.compiler.codegen.host.lines import Lines, in_comment, render, statement
from deploykit.compiler.codegen.host.order import require_order
from deploykit.compiler.codegen.host.reads import Reads
from deploykit.compiler.codegen.host.scope import Scope, function_prefix, prefix_of
from deploykit.compiler.codegen.native.cpus import TILES, find_cpu
from deploykit.compiler.codegen.native.functions import uses_tiles
from deploykit.compiler.program.ir import Function, Program, RunInstances
from deploykit.errors import UnsupportedModelError

MAX_RANK = 16
"""`DK_MAX_RANK`."""


def emit_host(programs: Sequence[Program], version: str, stem: str = "model") -> dict[str, str]:
    """The text of `<stem>.h` and `<stem>.c`, which say that `version` of deploykit generated them.

    `programs` are one model for several CPUs, the best first. When there is more than one, the steps of each are in a
    file of their own, `part_<cpu>.c`. When a program has several functions, each function has such files of its own,
    whose names begin with its prefix, and `model.h` includes their headers.

    Raises `UnsupportedModelError` for ranks above `MAX_RANK`, and `ValueError` for a program that makes no sense: it
    has no outputs, or a dim that neither an input's shape gives nor the caller chooses, or it reads a data dim before
    it sets it.
    """
    program = programs[0]
    for part in programs:
        for function in part.functions:
            _require_interface(program, function)
            require_order(Reads(part, function))
    texts: dict[str, str] = {}
    if len(program.public) > 1:
        headers = [f"{function_prefix(program, function)}.h" for function in program.public]
        view = {"name": in_comment(program.name), "version": version, "headers": headers}
        texts[f"{stem}.h"] = render("headers.h.j2", view)
    for function in program.functions:
        own = function_prefix(program, function)
        alone = program.public == (function,)
        names = (stem, "part_") if alone else (own, f"{own}_part_")
        texts |= _emit_function(programs, function, version, *names)
        texts |= emit_control(program, function, version)
    return texts


def _emit_function(parts: Sequence[Program], function: Function, version: str, stem: str, start: str) -> dict[str, str]:
    """The files of one function: `<stem>.h`, `<stem>.c`, and for each of several parts a file with its steps, whose
    name begins with `start`."""
    program = parts[0]
    scope = Scope(program, function)
    called = function.name in {name for other in program.functions for name in calls_in(other.steps)}
    memory = host_memory(scope)
    view = interface_view(program, function, version) | functions_view(scope)
    view |= {"header": f"{stem}.h", "storage": "" if called else "static ", "level": ""}
    view |= {"host_memory": None if called else memory}
    view |= {"resident": None if program.gpu is None else resident_ports(scope)}
    view |= {"host_arena": program.gpu is None or called or memory & HOST_ARENA}
    view |= {"control": any(isinstance(step, RunInstances) for step in function.steps)}
    saved = max(len(Scope(part, _same(part, function)).data_dims) for part in parts)
    view |= {"sliced": program.gpu is None and len(parts) == 1 and not view["control"], "saved": saved}
    view |= {"change": first_change(scope)}
    view |= {"parts": [], "levels": _levels(parts), "steps_name": f"{scope.prefix}_steps" if called else "steps"}
    view |= {"gpu": program.gpu, "part_bytes": program.gpu and program.gpu.binding_bytes}
    if view["states"]:
        on_host = program.gpu is None or memory & HOST_STATES
        view["states"] |= {"on_host": "needed" if on_host else f"{scope.prefix}_state_header"}
    own_files = {}
    if len(parts) == 1:
        view |= steps_view(scope)
    else:
        view["parts"] = [{"steps": f"{scope.prefix}_steps_{identifier(part.cpu)}"} for part in parts]
        for part, names in zip(parts, view["parts"], strict=True):
            level = f"_{identifier(part.cpu)}"
            own = steps_view(Scope(part, _same(part, function), kernel_prefix(part, parts), level))
            own |= {"steps_name": names["steps"], "storage": "", "cpu": part.cpu, "gpu": False, "level": level}
            own_files[f"{start}{identifier(part.cpu)}.c"] = render("part.c.j2", view | own)
    header, code = render("model.h.j2", view), render("model.c.j2", view)
    return {f"{stem}.h": header} | own_files | {f"{stem}.c": code}


def _same(part: Program, function: Function) -> Function:
    """The function of this name in another program of the model."""
    return next(each for each in part.functions if each.name == function.name)


def _levels(parts: Sequence[Program]) -> list[Lines]:
    """The entries of the table of CPUs. There are none when any CPU runs the kernels."""
    if not parts[0].cpu:
        return []
    entries = []
    for part in parts:
        tiles = any(not kernel.gpu and uses_tiles(kernel.func) for kernel in part.kernels)
        needed = [feature for feature in find_cpu(part.cpu).requires if tiles or feature not in TILES]
        macros = [f"DK_CPU_{identifier(feature).upper()}" for feature in needed]
        entries.append(statement(f"{{{c_string(part.cpu)}, {' | '.join(macros) or '0'}}},"))
    return entries


def kernel_prefix(part: Program, programs: Sequence[Program]) -> str:
    """What the symbols of a program's kernels start with. `programs` are all programs of one library."""
    start = prefix_of(part)
    return f"{start}_{identifier(part.cpu)}" if len(programs) > 1 else start


def _require_interface(program: Program, function: Function) -> None:
    if not function.outputs and not function.states:
        raise ValueError(f"'{program.name}' has no outputs")
    for port in (*function.inputs, *function.outputs):
        if len(port.shape) > MAX_RANK:
            raise UnsupportedModelError(f"'{port.name}' has rank {len(port.shape)}, more than {MAX_RANK}")
    bound = {extent for port in function.inputs for extent in port.shape if isinstance(extent, tirx.Var)}
    for dim in function.dims:
        if dim.capacity_of is None and dim.var not in bound:
            raise ValueError(f"dim '{dim.name}' is no axis of an input of '{program.name}'")
