"""deploykit's side: the artifact for a board, and the calls of an application."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import onnx

import deploykit
from bench.boards.sides import Side
from deploykit.artifact.manifest import Manifest, PortEntry, read_manifest
from deploykit.targets.base import find_target
from deploykit.targets.embedded.boards import Board

_CALLS = """#include <string.h>

{includes}

static DK_ALIGNED unsigned char arena[{upper}_ARENA_BYTES + 1];
static {prefix}_model model;
static {given};
static {found};
static dk_tensor inputs[] = {{{input}}};
static dk_tensor outputs[] = {{{output}}};

int side_open(void) {{
    memcpy(given, given_input, given_input_bytes);
    return {prefix}_init(&model, &{prefix}_weights, {upper}_WEIGHTS_BYTES, arena, sizeof arena);
}}

int side_run(void) {{
    return {prefix}_run(&model, inputs, outputs);
}}

const void* side_output(void) {{
    return found;
}}
"""


@dataclass(frozen=True)
class Ours:
    """`optimize` is what the programs are arranged for."""

    optimize: Literal["speed", "memory"] = "speed"

    def missing(self, board: Board, model: onnx.ModelProto) -> str | None:  # noqa: ARG002 - nothing is
        return None

    def side(self, board: Board, model: onnx.ModelProto, folder: Path) -> Side:
        """Raises `DeploykitError` if the model cannot be built."""
        artifact = folder / "artifact"
        deploykit.build(model, target="embedded", board=board.name, optimize=self.optimize, output=artifact)
        headers = sorted(artifact.rglob("*.h"))
        (folder / "calls.c").write_text(_calls(read_manifest(artifact), headers))
        places = dict.fromkeys(header.parent for header in headers)
        sources = [*find_target("embedded").sources(artifact), folder / "calls.c"]
        return Side(sources, [f"-I{place}" for place in places])


def _calls(manifest: Manifest, headers: Sequence[Path]) -> str:
    """The functions of a side, for a model of one input and one output with fixed shapes."""
    (source,), (result,) = manifest.inputs, manifest.outputs
    upper = manifest.prefix.upper()
    own = [header.name for header in headers if f"{upper}_" in header.read_text()]
    return _CALLS.format(
        includes="\n".join(f'#include "{name}"' for name in ("side.h", *own)),
        prefix=manifest.prefix,
        upper=upper,
        given=_array("given", source),
        found=_array("found", result),
        input=_tensor("given", source),
        output=_tensor("found", result),
    )


def _array(name: str, port: PortEntry) -> str:
    kind = {"float32": "float", "int8": "signed char", "int16": "short"}[port.dtype]
    return f"{kind} {name}{''.join(f'[{extent}]' for extent in port.shape)}"


def _tensor(name: str, port: PortEntry) -> str:
    extents = ", ".join(map(str, port.shape))
    return f"{{{name}, sizeof {name}, DK_{port.dtype.upper()}, {len(port.shape)}, {{{extents}}}}}"
