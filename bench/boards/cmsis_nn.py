"""CMSIS-NN, called directly: a program with one call for each layer of a model, and memory planned for it.

The calls are those that TensorFlow Lite Micro makes, without its interpreter. Activations, and what a layer needs
beside them, are in one arena, in which they have the places that a first fit by size gives them.

With activations of 16 bits a convolution gets biases of 32 bits, which is faster than 64 and rounds as exactly as with
activations of 8. All other layers with weights take biases of 64 bits and multiply with factors of 16.
"""

from __future__ import annotations

import math
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
from onnx import helper

from bench.boards.image import compiled, run
from bench.boards.layers import Layer, Tensor, read_layers
from bench.boards.sides import Side
from deploykit.basics.toolchain import Compiler
from deploykit.errors import DeploykitError, UnsupportedModelError
from deploykit.targets.embedded.boards import Board
from deploykit.targets.embedded.boards.image import compiler_for

_SUFFIXES = {"int8": "s8", "int16": "s16"}
"""What the names of functions end with, by the dtype of activations."""
_LEFT_SHIFTS = {"int8": 20, "int16": 15}
"""Bits by which numbers are shifted to the left before they are added."""
_INTEGER_BITS = 5
"""The integer bits of exponents' arguments of 8 bits."""
_STEPS = 512
"""The stretches of a table for a softmax of 16 bits."""
_LEAST_EXPONENT = -10.0
"""The first argument of the table of exponentials. The last one is 0."""
_OTHERS = ("_f16", "_f32", "_s4", "_s64")
"""Parts of names of files that are for other dtypes."""
_INCLUDES = '#include <string.h>\n\n#include "arm_nnfunctions.h"\n#include "side.h"\n\n'


class CmsisNN:
    """The library in `folder`, a clone of its repository."""

    def __init__(self, folder: Path, scratch: Path) -> None:
        self._folder, self._scratch = folder, scratch
        self._libraries: dict[str, Path] = {}
        self._include = f"-I{folder / 'Include'}"

    def missing(self, board: Board, model: onnx.ModelProto) -> str | None:
        """Why the library cannot run a model on a board, or `None`."""
        if board.core.compiler != "arm-none-eabi":
            return "it is for Arm"
        dtype = helper.tensor_dtype_to_np_dtype(model.graph.input[0].type.tensor_type.elem_type)
        return None if str(dtype) in _SUFFIXES else "it has no floats"

    def side(self, board: Board, model: onnx.ModelProto, folder: Path) -> Side:
        """Raises `UnsupportedModelError` for a model with layers that it has not."""
        layers = read_layers(model)
        library = self._library(board)
        program = Program(layers)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "buffers.c").write_text(program.buffers())
        compiler = compiler_for(board.core)
        objects = compiled(compiler, [folder / "buffers.c"], folder, (self._include,))
        room = [int(line) for line in run(board, compiler, [*objects, library], folder / "buffers.elf").split()]
        (folder / "layers.c").write_text(program.text(room))
        return Side([folder / "layers.c"], (self._include,), (library,), channels_last=True)

    def _library(self, board: Board) -> Path:
        """The functions for integers, compiled like all other sides."""
        core = board.core.name
        if core not in self._libraries:
            folder = self._scratch / core
            folder.mkdir(parents=True, exist_ok=True)
            compiler = compiler_for(board.core)
            self._libraries[core] = folder / "libcmsis-nn.a"
            sources = sources_for(self._folder, _OTHERS)
            archive(compiler, compiled(compiler, sources, folder, (self._include,)), self._libraries[core])
        return self._libraries[core]


def sources_for(folder: Path, others: Sequence[str] = ("_f16", "_f32")) -> list[Path]:
    """The sources of the clone in `folder`, without those that have one of `others` and not `_s8` in their names."""
    found = [
        path
        for path in sorted((folder / "Source").glob("*Functions/*.c"))
        if "_s8" in path.stem or not any(other in path.stem for other in others)
    ]
    if not found:
        raise DeploykitError(f"{folder} is no clone of CMSIS-NN: it has no Source/*Functions/*.c")
    return found


def archive(compiler: Compiler, objects: Sequence[Path], library: Path) -> None:
    library.unlink(missing_ok=True)
    command = f"{compiler.command[0].removesuffix('gcc')}ar"
    subprocess.run([command, "rcs", str(library), *map(str, objects)], check=True, capture_output=True)


@dataclass
class Program:
    """The C of a model. `text(room)` has calls with buffers of `room` bytes, of which `buffers` prints the numbers."""

    layers: Sequence[Layer]
    _constants: list[str] = field(default_factory=list)

    def buffers(self) -> str:
        """A program that prints the bytes of the buffer of each layer."""
        lines = ["#include <stdio.h>", _INCLUDES, "int main(void) {"]
        lines += [
            f'    {{\n{_shapes(layer)}        printf("%d\\n", (int){_buffer(layer)});\n    }}' for layer in self.layers
        ]
        return "\n".join([*lines, "    return 0;", "}", ""])

    def text(self, room: Sequence[int]) -> str:
        dense = [layer.kind == "dense" and layer.output.dtype == "int8" for layer in self.layers]
        kept = [size if sums else 0 for sums, size in zip(dense, room, strict=True)]
        beside = [size - other for size, other in zip(room, kept, strict=True)]
        places, buffers, total = planned(self.layers, beside)
        source, result = self.layers[0].inputs[0], self.layers[-1].output
        at = {name: _place(offset, source.dtype) for name, offset in places.items()}
        lines = [_INCLUDES, f"static _Alignas(16) int8_t arena[{total}];"]
        opened, calls = [f"    memcpy({at[source.name]}, given_input, given_input_bytes);"], []
        for index, layer in enumerate(self.layers):
            lines += _constants(index, layer)
            if kept[index]:
                lines.append(f"static int32_t sums_{index}[{kept[index] // 4}];")
                opened += [_sums(index, layer)]
            buffer = f"sums_{index}" if kept[index] else f"arena + {buffers[index]}"
            size = kept[index] or beside[index]
            calls.append(_call(index, layer, at, f"{{{buffer if size else 'NULL'}, {size}}}"))
        lines += ["", "int side_open(void) {", *opened, "    return 0;", "}", ""]
        lines += ["int side_run(void) {", *calls, "    return 0;", "}", ""]
        lines += ["const void* side_output(void) {", f"    return {at[result.name]};", "}", ""]
        return "\n".join(lines)


def planned(layers: Sequence[Layer], beside: Sequence[int]) -> tuple[dict[str, int], list[int], int]:
    """Places in the arena for tensors and for the buffers of layers, and the bytes of the arena."""
    last = {tensor.name: index for index, layer in enumerate(layers) for tensor in layer.inputs}
    last[layers[-1].output.name] = len(layers)
    source = layers[0].inputs[0]
    blocks: list[tuple[int, int, int, str | int]] = [(source.bytes, 0, last[source.name], source.name)]
    blocks += [(item.output.bytes, at, last[item.output.name], item.output.name) for at, item in enumerate(layers)]
    blocks += [(size, at, at, at) for at, size in enumerate(beside) if size]
    placed: list[tuple[int, int, int, int]] = []
    found: dict[str | int, int] = {}
    for size, first, end, name in sorted(blocks, key=lambda block: -block[0]):
        offset = 0
        for start, stop, begins, ends in sorted(placed):
            if first <= ends and begins <= end and offset < stop and start < offset + size:
                offset = -(-stop // 16) * 16
        placed.append((offset, offset + size, first, end))
        found[name] = offset
    total = max(stop for _, stop, _, _ in placed)
    tensors = {name: offset for name, offset in found.items() if isinstance(name, str)}
    return tensors, [found.get(at, 0) for at in range(len(layers))], total


def multiplier(value: float) -> tuple[int, int]:
    """`value` as a fixed-point number of 31 bits below 1, and the power of two that it is multiplied with."""
    fraction, exponent = math.frexp(value)
    number = round(fraction * (1 << 31))
    return (number // 2, exponent + 1) if number == 1 << 31 else (number, exponent)


def _place(offset: int, dtype: str) -> str:
    return f"arena + {offset}" if dtype == "int8" else f"({dtype}_t*)(arena + {offset})"


def table(function: Callable[[float], float], first: float, last: float) -> list[int]:
    """Numbers of 16 bits, in units of `2**-15`, between which a function is interpolated from `first` to `last`. Each
    is moved by half of the error in the middle of the stretch behind it, as TensorFlow Lite has it."""
    step = (last - first) / _STEPS
    found = []
    for index in range(_STEPS):
        at = first + index * step
        here, middle, there = (function(at + part * step) * (1 << 15) for part in (0, 0.5, 1))
        error = _rounded((there + _rounded(here)) / 2) - _rounded(middle)
        found.append(_rounded(here) - _rounded(error / 2))
    return [min(number, (1 << 15) - 1) for number in [*found, _rounded(function(last) * (1 << 15))]]


def _rounded(value: float) -> int:
    """Ties away from zero."""
    return int(math.copysign(math.floor(abs(value) + 0.5), value))


def _multipliers(layer: Layer) -> list[tuple[int, int]]:
    assert layer.scales is not None
    factor = layer.inputs[0].scale / layer.output.scale
    return [multiplier(factor * float(scale)) for scale in layer.scales]


def _numbers(values: object) -> str:
    return ", ".join(map(str, np.asarray(values).ravel().tolist()))


def _constants(index: int, layer: Layer) -> Iterator[str]:
    if layer.kind == "softmax" and layer.output.dtype == "int16":
        tables = {"exponentials": table(math.exp, _LEAST_EXPONENT, 0), "inverses": table(lambda x: 1 / (1 + x), 0, 1)}
        for name, numbers in tables.items():
            yield f"static const int16_t {name}_{index}[] = {{{_numbers(numbers)}}};"
    if layer.weight is None or layer.bias is None:
        return
    yield f"static const int8_t weight_{index}[] = {{{_numbers(layer.weight)}}};"
    wide = layer.output.dtype == "int16" and layer.kind != "conv"
    yield f"static const int{64 if wide else 32}_t bias_{index}[] = {{{_numbers(layer.bias)}}};"
    for name, column in (("factor", 0), ("shift", 1)):
        numbers = [pair[column] for pair in _multipliers(layer)]
        yield f"static const int32_t {name}_{index}[] = {{{_numbers(numbers)}}};"


def _dims(tensor: Tensor) -> str:
    return f"{{1, {', '.join(map(str, tensor.shape))}}}"


def _filter(layer: Layer) -> str:
    if layer.weight is None:
        return f"{{1, {layer.kernel[0]}, {layer.kernel[1]}, 1}}"
    if layer.kind == "dense":
        outputs, inputs = layer.weight.shape
        return f"{{{inputs}, 1, 1, {outputs}}}"
    return f"{{{', '.join(map(str, layer.weight.shape))}}}"


def _tile(pair: tuple[int, int]) -> str:
    """Rows and columns as the library has them: columns first."""
    return f"{{{pair[1]}, {pair[0]}}}"


def _shapes(layer: Layer) -> str:
    """Declarations of the dims and the parameters of a layer."""
    source, output = layer.inputs[0], layer.output
    lines = [
        f"const cmsis_nn_dims in = {_dims(source)}, out = {_dims(output)}, kernel = {_filter(layer)};",
        f"const cmsis_nn_dims channels = {{1, 1, 1, {output.shape[2]}}};",
    ]
    offsets = f"{-source.zero}, {output.zero}"
    steps = f"{_tile(layer.strides)}, {_tile(layer.padding)}"
    limits = f"{{{_numbers(layer.limits)}}}"
    match layer.kind:
        case "conv":
            lines.append(f"const cmsis_nn_conv_params params = {{{offsets}, {steps}, {{1, 1}}, {limits}}};")
        case "depthwise":
            lines.append(f"const cmsis_nn_dw_conv_params params = {{{offsets}, 1, {steps}, {{1, 1}}, {limits}}};")
        case "dense":
            lines.append(f"const cmsis_nn_fc_params params = {{{-source.zero}, 0, {output.zero}, {limits}}};")
        case "max_pool" | "average_pool":
            lines.append(f"const cmsis_nn_pool_params params = {{{steps}, {limits}}};")
    used = "".join(f"        (void){name};\n" for name in ("in", "out", "kernel", "channels"))
    return "".join(f"        {line}\n" for line in lines) + used


def _buffer(layer: Layer) -> str:
    """The expression of a layer's buffer size."""
    suffix = _SUFFIXES[layer.output.dtype]
    match layer.kind:
        case "conv":
            return f"arm_convolve_wrapper_{suffix}_get_buffer_size(&params, &in, &kernel, &out)"
        case "depthwise":
            return f"arm_depthwise_conv_wrapper_{suffix}_get_buffer_size(&params, &in, &kernel, &out)"
        case "dense":
            return f"arm_fully_connected_{suffix}_get_buffer_size(&kernel)"
        case "average_pool":
            return f"arm_avgpool_{suffix}_get_buffer_size(out.w, in.c)"
        case _:
            return "0"


def _sums(index: int, layer: Layer) -> str:
    """The sums of the rows of a weight, which the library wants once on cores with vectors."""
    assert layer.weight is not None
    outputs, inputs = layer.weight.shape
    numbers = f"{inputs}, {outputs}, weight_{index}, {-layer.inputs[0].zero}, 0, bias_{index}"
    return f"    arm_vector_sum_s8(sums_{index}, {numbers});"


def _call(index: int, layer: Layer, at: dict[str, str], context: str) -> str:
    """The call of a layer; `at` are the places of tensors, `context` the buffer of the layer."""
    sources, output = [at[tensor.name] for tensor in layer.inputs], at[layer.output.name]
    suffix, wide = _SUFFIXES[layer.output.dtype], layer.output.dtype == "int16"
    bias = "&bias" if wide and layer.kind == "conv" else f"bias_{index}"
    weights = f"&kernel, weight_{index}, &channels, {bias}, &out, {output}"
    scaled = f"(int32_t*)factor_{index}, (int32_t*)shift_{index}"
    size = layer.output.size
    declared = ""
    match layer.kind:
        case "conv" | "depthwise":
            name = f"arm_{'convolve' if layer.kind == 'conv' else 'depthwise_conv'}_wrapper_{suffix}"
            declared = f"const cmsis_nn_per_channel_quant_params scales = {{{scaled}}};"
            if bias == "&bias":
                declared += f" const cmsis_nn_bias_data bias = {{bias_{index}, 1}};"
            call = f"{name}(&context, &params, &scales, &in, {sources[0]}, {weights})"
        case "dense" if wide:
            declared = f"const cmsis_nn_per_tensor_quant_params scales = {{{_numbers(_only_multiplier(layer))}}};"
            call = f"arm_fully_connected_s16(&context, &params, &scales, &in, {sources[0]}, {weights})"
        case "dense":
            assert layer.scales is not None
            declared = f"const cmsis_nn_quant_params scales = {{{scaled}, {int(len(layer.scales) > 1)}}};"
            call = f"arm_fully_connected_wrapper_s8(&context, &params, &scales, &in, {sources[0]}, {weights})"
        case "max_pool" | "average_pool":
            name = f"arm_{'max_pool' if layer.kind == 'max_pool' else 'avgpool'}_{suffix}"
            call = f"{name}(&context, &params, &in, {sources[0]}, &kernel, &out, {output})"
        case "add":
            before, after = _added(layer)
            call = f"arm_elementwise_add_{suffix}({', '.join(sources)}, {before}, {output}, {after}, {size})"
        case _ if wide:
            declared = f"const cmsis_nn_softmax_lut_s16 tables = {{exponentials_{index}, inverses_{index}}};"
            scale = _numbers(multiplier(layer.inputs[0].scale * ((1 << 16) - 1) / -_LEAST_EXPONENT))
            call = f"arm_softmax_s16({sources[0]}, 1, {size}, {scale}, &tables, {output})"
        case _:
            call = f"(arm_softmax_s8({sources[0]}, 1, {size}, {_exponents(layer)}, {output}), ARM_CMSIS_NN_SUCCESS)"
    return (
        f"    {{\n{_shapes(layer)}        const cmsis_nn_context context = {context};\n        {declared}\n"
        f"        (void)context;\n        if ({call} != ARM_CMSIS_NN_SUCCESS) {{\n            return {index + 1};\n"
        "        }\n    }"
    )


def _added(layer: Layer) -> tuple[str, str]:
    """Arguments of a sum: those in front of the output, and those behind it."""
    twice = 2 * max(tensor.scale for tensor in layer.inputs)
    before = []
    for tensor in layer.inputs:
        before += [-tensor.zero, *multiplier(tensor.scale / twice)]
    shift = _LEFT_SHIFTS[layer.output.dtype]
    after = multiplier(twice / ((1 << shift) * layer.output.scale))
    return _numbers([*before, shift]), _numbers([layer.output.zero, *after, *layer.limits])


def _only_multiplier(layer: Layer) -> tuple[int, int]:
    """The factor of all outputs of a dense layer. Raises `UnsupportedModelError` if they have several."""
    found = set(_multipliers(layer))
    if len(found) > 1:
        raise UnsupportedModelError("it has one scale for the weight of a dense layer of 16 bits")
    return found.pop()


def _exponents(layer: Layer) -> str:
    """The multiplier and the shift of a softmax's arguments, and the least difference that counts."""
    number, shift = multiplier(min(layer.inputs[0].scale * (1 << (31 - _INTEGER_BITS)), (1 << 31) - 1.0))
    radius = ((1 << _INTEGER_BITS) - 1) * (1 << (31 - _INTEGER_BITS)) / (1 << shift)
    return _numbers([number, shift, -math.floor(radius)])
