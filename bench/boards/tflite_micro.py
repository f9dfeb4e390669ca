"""TensorFlow Lite Micro, with the kernels of CMSIS-NN: its interpreter runs a `.tflite` file that is constant data.

The library is compiled from clones of its repository and of what it needs, like all other sides. Error texts and checks
for developers are left out, as its own builds for release have it. The arena has the bytes that the interpreter says it
used, when it had plenty.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import onnx
from onnx import helper

from bench.boards.cmsis_nn import archive, sources_for
from bench.boards.image import compiled, run
from bench.boards.sides import Side
from deploykit.basics.toolchain import Compiler
from deploykit.cli.console import messages
from deploykit.errors import DeploykitError
from deploykit.targets.embedded.boards import Board
from deploykit.targets.embedded.boards.image import compiler_for

NEEDED = ("tflite-micro", "flatbuffers", "gemmlowp", "ruy", "CMSIS-NN")
"""The folders of the clones."""
OPERATORS = ("AveragePool2D", "Add", "Conv2D", "DepthwiseConv2D", "FullyConnected", "Reshape", "Softmax")
"""Those of the models; others are not compiled."""
_PARTS = (
    "core/api",
    "core/c",
    "kernels",
    "kernels/internal",
    "micro",
    "micro/arena_allocator",
    "micro/memory_planner",
    "micro/tflite_bridge",
)
_KERNELS = ("add", "conv", "depthwise_conv", "fully_connected", "pooling", "reshape", "softmax")
_COMMON = ("kernel_util", "micro_tensor_utils")
_OPTIONS = (
    *("-DTF_LITE_STATIC_MEMORY", "-DTF_LITE_STRIP_ERROR_STRINGS", "-DNDEBUG", "-DCMSIS_NN"),
    *("-DKERNELS_OPTIMIZED_FOR_SPEED", "-fno-unwind-tables", "-fno-asynchronous-unwind-tables", "-w"),
    *("-std=gnu++17", "-fno-rtti", "-fno-exceptions", "-fno-threadsafe-statics"),
)
_PLENTY = 1 << 20
"""The bytes of the arena that shows how many are used."""
_MARGINS = (64, 256, 1024, 4096)
"""Bytes that an arena may need beyond those that are used in the end; the first that suffices is taken."""

_SIDE = """#include <cstring>

#include "tensorflow/lite/micro/micro_interpreter.h"
#include "tensorflow/lite/micro/micro_mutable_op_resolver.h"
#include "tensorflow/lite/schema/schema_generated.h"

extern "C" {{
#include "side.h"
extern const unsigned char model_data[];
void __cxa_pure_virtual(void) {{
    for (;;) {{
    }}
}}
int __aeabi_atexit(void*, void (*)(void*), void*) {{
    return 0;
}}
}}

alignas(16) static unsigned char arena[{arena}];
static tflite::MicroInterpreter* interpreter;

int side_open(void) {{
    static tflite::MicroMutableOpResolver<{count}> operators;
    {operators}
    static tflite::MicroInterpreter made(tflite::GetModel(model_data), operators, arena, sizeof arena);
    interpreter = &made;
    if (made.AllocateTensors() != kTfLiteOk) {{
        return 1;
    }}
    std::memcpy(made.input(0)->data.raw, given_input, given_input_bytes);
    return 0;
}}

int side_run(void) {{
    return interpreter->Invoke() == kTfLiteOk ? 0 : 2;
}}

const void* side_output(void) {{
    return interpreter->output(0)->data.raw;
}}

extern "C" unsigned side_arena(void) {{
    return (unsigned)interpreter->arena_used_bytes();
}}
"""
_ARENA = """#include <stdio.h>

#include "side.h"

unsigned side_arena(void);
const unsigned char given_input[1];
const unsigned given_input_bytes = 0, given_output_bytes = 0;

int main(void) {
    int failed = side_open();
    printf("%d %u\\n", failed, side_arena());
    return 0;
}
"""


class TfliteMicro:
    """The library in `folder`, which has clones of `NEEDED`. `models` are the files of models by the names of their
    graphs in ONNX."""

    def __init__(self, folder: Path, models: Mapping[str, Path], scratch: Path) -> None:
        self._folder, self._models, self._scratch = folder, models, scratch
        self._libraries: dict[str, Path] = {}
        absent = [name for name in NEEDED if not (folder / name).is_dir()]
        if absent:
            raise DeploykitError(f"{folder} has no clone of {', '.join(absent)}")
        places = ("tflite-micro", "flatbuffers/include", "gemmlowp", "ruy", "CMSIS-NN", "CMSIS-NN/Include")
        self._include = [f"-I{folder / place}" for place in places]

    def missing(self, board: Board, model: onnx.ModelProto) -> str | None:
        """Why the library cannot run a model on a board, or `None`."""
        if board.core.compiler != "arm-none-eabi":
            return "its fast kernels are for Arm"
        return None if model.graph.name in self._models else "it takes .tflite files"

    def side(self, board: Board, model: onnx.ModelProto, folder: Path) -> Side:
        """Raises `DeploykitError` if the model has other operators than `OPERATORS`."""
        compiler = compiler_for(board.core)
        library = self._library(board, compiler)
        folder.mkdir(parents=True, exist_ok=True)
        numbers = ",".join(map(str, self._models[model.graph.name].read_bytes()))
        (folder / "model.c").write_text(f"_Alignas(16) const unsigned char model_data[] = {{{numbers}}};\n")
        (folder / "arena.c").write_text(_ARENA)
        options = (*self._include, *_OPTIONS)
        (folder / "calls.cc").write_text(_side(_PLENTY))
        objects = compiled(compiler, [folder / "calls.cc"], folder, options)
        objects += compiled(compiler, [folder / "model.c", folder / "arena.c"], folder)
        failed, used = map(int, run(board, compiler, [*objects, library], folder / "arena.elf").split())
        for margin in _MARGINS:
            if failed:
                break
            (folder / "calls.cc").write_text(_side(used + margin))
            made = compiled(compiler, [folder / "calls.cc"], folder, options)
            if run(board, compiler, [*made, *objects[1:], library], folder / "arena.elf").startswith("0 "):
                return Side([folder / "model.c"], (), (*made, library))
        raise DeploykitError("it has operators that are not compiled, or needs a larger arena")

    def _library(self, board: Board, compiler: Compiler) -> Path:
        core = board.core.name
        if core not in self._libraries:
            messages.print(f"{core}: TensorFlow Lite Micro is compiled, which takes minutes")
            folder = self._scratch / core
            folder.mkdir(parents=True, exist_ok=True)
            objects = []
            for source in _sources(self._folder / "tflite-micro" / "tensorflow"):
                place = folder / source.parent.relative_to(self._folder)
                place.mkdir(parents=True, exist_ok=True)
                objects += compiled(compiler, [source], place, (*self._include, *_OPTIONS))
            kernels = folder / "kernels"
            kernels.mkdir(exist_ok=True)
            objects += compiled(compiler, sources_for(self._folder / "CMSIS-NN"), kernels, self._include)
            self._libraries[core] = folder / "libtflite-micro.a"
            archive(compiler, objects, self._libraries[core])
        return self._libraries[core]


def _sources(folder: Path) -> Iterator[Path]:
    lite = folder / "lite"
    for part in (*(lite / part for part in _PARTS), folder / "compiler/mlir/lite/schema"):
        yield from (path for path in sorted(part.glob("*.cc")) if _ships(path))
    if not (folder / "compiler/mlir/lite/core/api").is_dir():
        raise DeploykitError(f"{folder} is no clone of TensorFlow Lite Micro of the year 2025 or later")
    yield from (path for path in sorted((folder / "compiler/mlir/lite/core/api").glob("*.cc")) if _ships(path))
    kernels = lite / "micro" / "kernels"
    for name in _KERNELS:
        fast = kernels / "cmsis_nn" / f"{name}.cc"
        yield fast if fast.exists() else kernels / f"{name}.cc"
        yield kernels / f"{name}_common.cc"
    yield from (kernels / f"{name}.cc" for name in _COMMON)


def _ships(path: Path) -> bool:
    return not any(part in path.stem for part in ("_test", "test_", "mock", "fake", "generated_data", "recording"))


def _side(arena: int) -> str:
    operators = "\n    ".join(f"operators.Add{name}();" for name in OPERATORS)
    return _SIDE.format(arena=arena, count=len(OPERATORS), operators=operators)


def trained(path: Path) -> onnx.ModelProto:
    """The model of a `.tflite` file in ONNX, which is beside it with the ending `.onnx`. Its name is that of the file,
    and its symbolic dims are 1."""
    beside = path.with_suffix(".onnx")
    if not (path.exists() and beside.exists()):
        raise DeploykitError(f"there is no {beside if path.exists() else path}")
    model = onnx.load(beside)
    model.graph.name = path.stem
    for value in (*model.graph.input, *model.graph.output):
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param:
                dim.dim_value = 1
    return model


def coarse(model: onnx.ModelProto, seed: int) -> np.ndarray:
    """A random input of a trained model, with patches of 8 by 8 equal elements: like a picture more than noise is."""
    port = model.graph.input[0].type.tensor_type
    shape = [dim.dim_value for dim in port.shape.dim]
    small = [-(-size // 8) if axis in (1, 2) and len(shape) == 4 else size for axis, size in enumerate(shape)]
    value = np.random.default_rng(seed).uniform(-1, 1, small)
    for axis, size in enumerate(shape):
        if small[axis] != size:
            value = np.take(value, np.arange(size) // 8, axis)
    dtype = helper.tensor_dtype_to_np_dtype(port.elem_type)
    return (value * 127).round().astype(dtype) if dtype.kind == "i" else value.astype(dtype)
