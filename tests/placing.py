"""Targets that place results in memory differently from the default, to compare the two."""

from __future__ import annotations

import copy
from dataclasses import replace

from deploykit.compiler.program.inplace import InPlace
from deploykit.targets.base import Target, find_target


def placing(target: str | Target, in_place: InPlace) -> Target:
    """The target, which places results over their operands' memory as `in_place` says."""
    changed = copy.copy(find_target(target) if isinstance(target, str) else target)
    own = changed.variants
    changed.variants = lambda cpu: [replace(profile, in_place=in_place) for profile in own(cpu)]
    return changed
