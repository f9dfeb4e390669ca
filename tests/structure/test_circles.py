"""No two files import each other, directly or through others: not within functions, nor for type checkers.

Whoever reads a file can first read those that it imports. What breaks a circle: a `Protocol` that says what the lower
file needs of the upper one, a function that is passed, or one file for what cannot be told apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

from tests.imports import imports


def _in_circles(arrows: Mapping[str, AbstractSet[str]]) -> list[str]:
    """The modules in circles, those between circles, and what each imports of them."""
    left = {module: set(others) - {module} for module, others in arrows.items()}
    while ends := {module for module in left if not left[module] or not any(module in each for each in left.values())}:
        left = {module: others - ends for module, others in left.items() if module not in ends}
    return [f"{module} imports {other}" for module, others in sorted(left.items()) for other in sorted(others)]


def test_no_circle() -> None:
    assert _in_circles(imports("deploykit")) == []


def test_circles_are_found() -> None:
    arrows = {"a": {"b", "d"}, "b": {"c"}, "c": {"a"}, "d": set[str](), "e": {"a"}}
    assert _in_circles(arrows) == ["a imports b", "b imports c", "c imports a"]
