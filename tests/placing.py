"""Targets that place results in memory, or split ragged batches or loops, differently from the default."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace

from deploykit.compiler.program.inplace import InPlace
from deploykit.compiler.variant import Variant
from deploykit.targets.base import Target, find_target


def placing(target: str | Target, in_place: InPlace) -> Target:
    """The target, which places results over their operands' memory as `in_place` says."""
    return _with(target, lambda variant: replace(variant, in_place=in_place))


def grouping(target: str | Target, tokens: int) -> Target:
    """The target, which computes ragged batches in groups of `tokens` tokens."""
    return _with(target, lambda variant: replace(variant, device=replace(variant.device, group_tokens=tokens)))


def threaded(target: str | Target) -> Target:
    """The target, whose kernels have parallel loops."""
    return _with(target, lambda variant: replace(variant, device=replace(variant.device, parallel=True)))


def _with(target: str | Target, change: Callable[[Variant], Variant]) -> Target:
    changed = copy.copy(find_target(target) if isinstance(target, str) else target)
    own = changed.variants
    changed.variants = lambda cpu, devices=(): [change(variant) for variant in own(cpu, devices)]
    return changed
