"""Dot products of 8-bit integers, four in a word (`schedules.gpu.dots`).

A device with the feature `DOT_4X8` has an instruction for two words. Others unpack the words, each once, because it is
for a compiler to see that several calls unpack the same.
"""

from __future__ import annotations

from deploykit.compiler.codegen.shaders.sections import DOT_4X8, Section

_INSTRUCTION = """\
fn dots_of_words(a: u32, b: vec4<u32>) -> vec4<i32> {
    return vec4<i32>(dot4I8Packed(a, b.x), dot4I8Packed(a, b.y), dot4I8Packed(a, b.z), dot4I8Packed(a, b.w));
}
"""

_UNPACKED = """\
fn dots_of_words(a: u32, b: vec4<u32>) -> vec4<i32> {
    let x = vec4<i32>(b);
    let left = (vec4<i32>(i32(a)) << vec4<u32>(24u, 16u, 8u, 0u)) >> vec4<u32>(24u);
    let first = vec4<i32>(left.x) * ((x << vec4<u32>(24u)) >> vec4<u32>(24u));
    let second = vec4<i32>(left.y) * ((x << vec4<u32>(16u)) >> vec4<u32>(24u));
    let third = vec4<i32>(left.z) * ((x << vec4<u32>(8u)) >> vec4<u32>(24u));
    return ((first + second) + third) + vec4<i32>(left.w) * (x >> vec4<u32>(24u));
}
"""


def sections(main: str) -> tuple[Section, ...]:
    """The function for devices with and without the feature, if `main` calls it."""
    if "dots_of_words(" not in main:
        return ()
    return Section(_INSTRUCTION, DOT_4X8), Section(_UNPACKED, DOT_4X8, present=False)
