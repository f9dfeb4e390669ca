"""The text of a shader, with the sections that differ between devices.

In a package, a section for some devices begins with `// if FEATURE` or `// if !FEATURE`, and a section for all devices
with `// always`; gpu-module.mjs puts the text together. A FEATURE that is a number means that the device can bind that
many bytes at once. Directives come before everything else.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

F16, SUBGROUPS = "shader-f16", "subgroups"
"""Features of devices (W3C, "WebGPU", section 24.1). Only arrays in memory are of 16-bit floats. Arithmetic is in 32
bits, so Vulkan's 16-bit storage is enough for them."""

DOT_4X8 = "packed_4x8_integer_dot_product"
"""A feature of the language on some devices (W3C, "WGSL", section 4.1.2)."""

_DIRECTIVE = re.compile(r"^(?:enable|diagnostic).*\n", re.MULTILINE)

_VECTOR = re.compile(r"\bvec([234])<(f32|i32|u32|f16)>")
_LETTERS = {"f32": "f", "i32": "i", "u32": "u", "f16": "h"}


@dataclass(frozen=True)
class Section:
    """Text for devices with `feature` (`present`) or without it (not `present`); for all devices if it is empty."""

    text: str
    feature: str = ""
    present: bool = True

    def applies(self, features: Collection[str]) -> bool:
        return not self.feature or (self.feature in features) == self.present


@dataclass(frozen=True)
class Shader:
    """A shader as its sections, in order."""

    sections: tuple[Section, ...]

    def text(self, features: Collection[str] = ()) -> str:
        """The whole text for a device with these features."""
        whole = "".join(section.text for section in self.sections if section.applies(features))
        return "".join(_DIRECTIVE.findall(whole)) + _DIRECTIVE.sub("", whole)

    def packaged(self) -> str:
        """All sections, as a package stores them."""
        if not any(section.feature for section in self.sections):
            return self.text()
        return "".join(f"// {_condition(section)}\n{section.text}" for section in self.sections)


def _condition(section: Section) -> str:
    if not section.feature:
        return "always"
    return f"if {'' if section.present else '!'}{section.feature}"


def shortened(text: str) -> str:
    """Shaders without indentation and with the predeclared short names of vector types (W3C, "WGSL"): a tenth fewer
    bytes when compressed."""
    aliased = _VECTOR.sub(lambda found: f"vec{found[1]}{_LETTERS[found[2]]}", text)
    return re.sub(r"^ +", "", aliased, flags=re.MULTILINE)
