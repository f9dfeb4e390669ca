"""A shader's text with what differs from device to device.

In a package, a section for some devices begins with `// if FEATURE` or `// if !FEATURE`, what is for all with
`// always`; gpu-module.mjs puts the text together. A number is the feature of binding so many bytes at once. Directives
come before everything else.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

F16, SUBGROUPS = "shader-f16", "subgroups"
"""Features of devices (W3C, "WebGPU", section 24.1)."""

_DIRECTIVE = re.compile(r"^(?:enable|diagnostic).*\n", re.MULTILINE)


@dataclass(frozen=True)
class Section:
    """Text for devices with a `feature`, or without it, or for all where it is empty."""

    text: str
    feature: str = ""
    present: bool = True

    def applies(self, features: Collection[str]) -> bool:
        return not self.feature or (self.feature in features) == self.present


@dataclass(frozen=True)
class Shader:
    """The sections of a shader in order."""

    sections: tuple[Section, ...]

    def text(self, features: Collection[str] = ()) -> str:
        """All of it for a device with these features."""
        whole = "".join(section.text for section in self.sections if section.applies(features))
        return "".join(_DIRECTIVE.findall(whole)) + _DIRECTIVE.sub("", whole)

    def packaged(self) -> str:
        """All sections, as a package has them."""
        if not any(section.feature for section in self.sections):
            return self.text()
        return "".join(f"// {_condition(section)}\n{section.text}" for section in self.sections)


def _condition(section: Section) -> str:
    if not section.feature:
        return "always"
    return f"if {'' if section.present else '!'}{section.feature}"
