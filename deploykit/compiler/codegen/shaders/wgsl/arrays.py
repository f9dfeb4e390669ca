"""The arrays of a shader, one per binding, and functions to load and store elements that have no type in memory.

| elements | array | loaded | stored |
|---|---|---|---|
| of 32 bits, int64 | of the element type | | |
| float32, int32 and uint32, all accesses aligned vectors | `vec4` of these | | |
| of 8 bits, all accesses aligned vectors | `u32` | unpacked | packed |
| float16, with the feature `shader-f16` | `f16` | converted | converted |
| the same, all accesses aligned vectors | `vec4<f16>` | converted | converted |
| float16 without the feature, all accesses aligned vectors | `vec2<u32>` | unpacked | rounded and packed |
| of 8 bits, all accesses four aligned words | `vec4<u32>` | as words | |
| other parts of words, that are only read | `u32` | by a shift | |
| other parts of words | `atomic<u32>` | by a shift | by two atomic operations |

The atomic operations leave the other elements of a word alone, so different invocations may write neighbours.

A tensor that is larger than the largest binding of some devices has several bindings, each an array of its own. A
device that can bind all of it binds it to the first array and loads and stores all elements there. Other devices use,
for each element, the array that it lies in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from deploykit.compiler.codegen.shaders.sections import Section
from deploykit.compiler.codegen.shaders.wgsl.types import LANES, WIDE, element_type, packed, value_type

_BITS_OF_BYTES = "vec4<u32>(0u, 8u, 16u, 24u)"


LOCALS = ("i", "value", "parts", "at")
"""Names in the functions that load and store an element. An array cannot have them."""


@dataclass(frozen=True)
class Array:
    """The array `name` at a binding. `access` is WGSL's access mode; `stored`: whether this shader writes to it;
    `vectors`: whether its elements are vectors of four; `blocks`: whether they are four words of 8-bit elements. A
    tensor with several bindings consists of the arrays `parts`, of `length` elements, vectors or blocks each; a device
    that binds `size` bytes at once has all of it in the first."""

    name: str
    dtype: str
    binding: int
    access: str
    stored: bool
    vectors: bool
    blocks: bool = False
    parts: tuple[Array, ...] = ()
    length: int = 0
    size: int = 0

    @property
    def called(self) -> bool:
        """Whether elements are loaded by `load_<name>(index)` and stored by `store_<name>(index, value)`."""
        return packed(self.dtype) > 1 or bool(self.parts)

    @property
    def half(self) -> bool:
        return self.dtype == "float16"

    def load(self, place: str) -> str:
        """The text that loads an element or a vector."""
        return f"load_{self.name}({place})" if self.called else f"{self.name}[{place}]"

    def store(self, place: str, value: str) -> str:
        return f"store_{self.name}({place}, {value});" if self.called else f"{self.name}[{place}] = {value};"

    def words(self, place: str) -> str:
        """The text that loads the word of a vector of four elements of 8 bits, or the words of a block."""
        return f"words_{self.name}({place})" if self.parts else f"{self.name}[{place}]"

    def declaration(self, *, f16: bool) -> str:
        """The declaration of the array. `f16`: whether the device has the feature."""
        if self.parts:
            return "".join(part.declaration(f16=f16) for part in self.parts)
        head = f"@group(0) @binding({self.binding}) var<storage, {self.access}> {self.name}"
        return f"{head}: array<{self._element(f16=f16)}>;\n"

    def _element(self, *, f16: bool) -> str:
        if self.half and f16:
            return "vec4<f16>" if self.vectors else "f16"
        if self.half and self.vectors:
            return "vec2<u32>"
        if self.blocks:
            return "vec4<u32>"
        if self.vectors:
            return "u32" if self.called else f"vec4<{element_type(self.dtype)}>"
        return "atomic<u32>" if self.stored and self.called else element_type(self.dtype)

    def functions(self, text: str, *, f16: bool) -> str:
        """The definitions of the load and store functions that `text` calls."""
        if not self.called:
            return ""
        if self.parts:
            loads = () if self.blocks else self.parts
            stores = self.parts if self.stored else ()
            called = "".join([*(part.load("") for part in loads), *(part.store("", "") for part in stores)])
            return "".join(part.functions(called, f16=f16) for part in self.parts)
        kind = self._kind
        if self.half and (f16 or self.vectors):
            element = f"{self.name}[i]"
            loaded = f"{kind}({element})" if f16 else f"floats_of_halves({element})"
            value = f"{kind.replace('32', '16')}(value)" if f16 else "halves_of_floats(value)"
            stored = f" {element} = {value}; "
        elif self.vectors:
            loaded, stored = self._bytes()
        else:
            loaded, stored = self._part(), self._atomic()
        load = f"fn load_{self.name}(i: i32) -> {kind} {{ return {loaded}; }}\n"
        store = f"fn store_{self.name}(i: i32, value: {kind}) {{{stored}}}\n"
        calls = {f"load_{self.name}(": load, f"store_{self.name}(": store}
        return "".join(function for call, function in calls.items() if call in text)

    def sections(self, text: str) -> tuple[Section, ...]:
        """If there are parts, the functions that `text` calls, which load or store an element, or load words, in the
        right one."""
        if not self.parts:
            return ()
        firsts = range(0, len(self.parts) * self.length, self.length)
        places = [f"i - {first}" if first else "i" for first in firsts]
        loads = [f"return {part.load(place)};" for part, place in zip(self.parts, places, strict=True)]
        stores = [f"{part.store(place, 'value')} return;" for part, place in zip(self.parts, places, strict=True)]
        words = [f"return {part.words(place)};" for part, place in zip(self.parts, places, strict=True)]
        functions = (
            (f"load_{self.name}", f"(i: i32) -> {self._kind}", loads),
            (f"store_{self.name}", f"(i: i32, value: {self._kind})", stores),
            (f"words_{self.name}", f"(i: i32) -> {'vec4<u32>' if self.blocks else 'u32'}", words),
        )
        whole = chosen = ""
        for name, head, uses in functions:
            if f"{name}(" in text:
                last_first = zip(firsts[:0:-1], uses[:0:-1], strict=True)
                picks = "".join(f"    if (i >= {first}) {{ {use} }}\n" for first, use in last_first)
                whole += f"fn {name}{head} {{\n    {uses[0]}\n}}\n"
                chosen += f"fn {name}{head} {{\n{picks}    {uses[0]}\n}}\n"
        holds = str(self.size)
        return (Section(whole, holds), Section(chosen, holds, present=False))

    @property
    def _kind(self) -> str:
        """The type of a loaded value."""
        kind = WIDE if self.dtype == "int64" else value_type(self.dtype)
        return f"vec4<{kind}>" if self.vectors else kind

    def _layout(self) -> tuple[str, str, int]:
        """The word that holds element `i`, the number of the element's first bit in it, and the bits of an element."""
        count = packed(self.dtype)
        shift = {4: 2, 2: 1}[count]
        return f"{self.name}[i >> {shift}u]", f"u32(i & {count - 1}) * {32 // count}u", 32 // count

    def _part(self) -> str:
        word, first, width = self._layout()
        word = f"atomicLoad(&{word})" if self.stored else word
        if self.half:
            return f"half_to_float({word} >> ({first}))"
        part = f"extractBits({word}, {first}, {width}u)"
        if self.dtype == "bool":
            return f"({part} != 0u)"
        return part if self.dtype.startswith("uint") else f"extractBits(i32({part}), 0u, {width}u)"

    def _bytes(self) -> tuple[str, str]:
        """The expressions that convert a word to a vector of four elements, and back."""
        word = f"{self.name}[i]"
        if self.dtype == "int8":
            loaded = f"((vec4<i32>(i32({word})) << vec4<u32>(24u, 16u, 8u, 0u)) >> vec4<u32>(24u))"
        else:
            loaded = f"((vec4<u32>({word}) >> {_BITS_OF_BYTES}) & vec4<u32>(255u))"
        if self.dtype == "bool":
            loaded = f"({loaded} != vec4<u32>(0u))"
        parts = f"(vec4<u32>(value) & vec4<u32>(255u)) << {_BITS_OF_BYTES}"
        return loaded, f"\n    let parts = {parts};\n    {word} = parts.x | parts.y | parts.z | parts.w;\n"

    def _atomic(self) -> str:
        word, first, width = self._layout()
        bits = {"bool": "select(0u, 1u, value)", "float16": "float_to_half(value)"}.get(self.dtype, "u32(value)")
        full = (1 << width) - 1
        return (
            f"\n    let at = {first};\n    atomicAnd(&{word}, ~({full}u << at));\n"
            f"    atomicOr(&{word}, ({bits} & {full}u) << at);\n"
        )


def joined(name: str, arrays: Sequence[Array], sizes: Sequence[int], whole: int) -> Array:
    """The arrays of a tensor's parts, which have these sizes in bytes, as one array. A device that binds `whole` bytes
    at once has all of it in the first."""
    first = arrays[0]
    width = np.dtype(first.dtype).itemsize * (LANES * LANES if first.blocks else LANES if first.vectors else 1)
    return replace(first, name=name, parts=tuple(arrays), length=sizes[0] // width, size=whole)
