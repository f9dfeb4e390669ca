"""Generators of C from ONNX files: onnx2c and emx-onnx-cgen, which write one file with a function for a model."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import helper

from bench.boards.sides import Side
from deploykit.errors import DeploykitError
from deploykit.targets.embedded.boards import Board

_ENTRY = "entry"
_LONGEST = 300
"""Seconds after which a generator is given up."""


def _onnx2c(program: Path, model: Path) -> str:
    return _printed([str(program), str(model)])


def _emx(program: Path, model: Path) -> str:
    """Its variables are on the stack and its weights in the file: boards have no heap and no files."""
    written = model.with_suffix(".c")
    options = ("--model-name", _ENTRY, "--large-temp-threshold", "0", "--large-weight-threshold", "0")
    _printed([str(program), "compile", str(model), str(written), *options])
    return written.read_text()


@dataclass(frozen=True)
class Generator:
    """`program` is the command, `write(program, model file)` returns the C of a model."""

    program: Path
    write: Callable[[Path, Path], str]

    def missing(self, board: Board, model: onnx.ModelProto) -> str | None:  # noqa: ARG002 - plain C is for every board
        """Why a model cannot be generated for a board, or `None`."""
        integers = model.graph.input[0].type.tensor_type.elem_type == onnx.TensorProto.INT8
        return "it is compared in float" if integers else None

    def side(self, board: Board, model: onnx.ModelProto, folder: Path) -> Side:  # noqa: ARG002 - as above
        """Raises `DeploykitError` if the program fails."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "generated.onnx"
        onnx.save(model, path)
        text = self.write(self.program, path)
        (folder / "generated.c").write_text(f"{text}\n{_ends(model)}")
        return Side([folder / "generated.c"])


def onnx2c(program: str) -> Generator:
    return Generator(_found(program), _onnx2c)


def emx(program: str) -> Generator:
    return Generator(_found(program), _emx)


def _found(program: str) -> Path:
    found = shutil.which(program)
    if found is None:
        raise DeploykitError(f"there is no program {program}")
    return Path(found)


def _ends(model: onnx.ModelProto) -> str:
    """The functions of a side around the generated one."""
    ports = [*model.graph.input, *model.graph.output]
    declared = []
    for port, name in zip(ports, ("given", "found"), strict=True):
        kind = port.type.tensor_type
        dtype = {np.dtype(np.float32): "float", np.dtype(np.int8): "int8_t"}[
            helper.tensor_dtype_to_np_dtype(kind.elem_type)
        ]
        extents = "".join(f"[{dim.dim_value}]" for dim in kind.shape.dim)
        declared.append(f"static {dtype} {name}{extents};")
    lines = ['#include "side.h"', *declared, "", "int side_open(void) {"]
    lines += ["    memcpy(given, given_input, given_input_bytes);", "    return 0;", "}", "", "int side_run(void) {"]
    lines += [f"    {_ENTRY}(given, found);", "    return 0;", "}", "", "const void* side_output(void) {"]
    return "\n".join([*lines, "    return found;", "}", ""])


def _printed(call: Sequence[str]) -> str:
    try:
        done = subprocess.run(call, capture_output=True, text=True, check=False, timeout=_LONGEST)
    except subprocess.TimeoutExpired as error:
        raise DeploykitError(f"it takes more than {_LONGEST} seconds") from error
    if done.returncode != 0:
        words = (done.stdout + done.stderr).strip().splitlines()
        raise DeploykitError(words[-1] if words else f"it ends with {done.returncode}")
    return done.stdout
