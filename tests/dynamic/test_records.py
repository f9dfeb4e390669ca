"""Models that return objects of dataclasses: a generator of trees, whose growth depends on tensors."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import deploykit

SOURCE = """
from __future__ import annotations

from dataclasses import dataclass

from deploykit.dynamic import Model, Tensor, sum, tanh

H = 8


@dataclass
class Branch:
    value: float
    state: Tensor[H]
    place: tuple[int, bool]
    children: list[Branch]


class Generator(Model):
    down: Tensor[H, H]
    across: Tensor[H, H]
    grow: Tensor[H]

    def node(self, h: Tensor[H], depth: int) -> Branch:
        value = float(sum(h * self.grow))
        count = 0
        if depth < 4 and value > -1.0:
            count = 2
            if value > 0.3:
                count = 3
        s = tanh(h @ self.down)
        states: list[Tensor[H]] = []
        for i in range(count):
            states = [*states, s]
            s = tanh(s @ self.across + h * (i + 1))
        return Branch(value, h, (depth, count > 2), [self.node(x, depth + 1) for x in states])

    def main(self, start: Tensor[H], scale: float) -> tuple[Branch, int, list[list[Tensor[H]]]]:
        return self.node(start * scale, 0), 7, [[start], [start, tanh(start)]]
"""

BOUNDS = {
    "batch": (0, 16),
    "words": (0, 4096),
    "elements": (0, 512),
    "capacity_control": 1 << 18,
    "capacity_pool": 1 << 18,
}


def loaded(path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module of a file."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, path.stem, module)
    spec.loader.exec_module(module)
    return module


def require_equal(found: Any, expected: Any) -> int:
    """The number of branches of two trees, which are equal."""
    assert type(found).__name__ == "Branch"
    assert abs(found.value - expected.value) < 1e-3
    np.testing.assert_allclose(found.state, expected.state, atol=1e-3)
    assert found.place == expected.place
    return 1 + sum(require_equal(*pair) for pair in zip(found.children, expected.children, strict=True))


@pytest.mark.parametrize(("target", "sanitize"), [("host", False), ("embedded", True)])
def test_generated_trees(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str, sanitize: bool) -> None:
    (tmp_path / "generator.py").write_text(SOURCE)
    bounds = BOUNDS if target == "embedded" else None
    deploykit.build(f"{tmp_path / 'generator.py'}:Generator", target, bounds, tmp_path / "dist")
    random = np.random.default_rng(0)
    instances = [(random.standard_normal(8, dtype=np.float32), float(scale)) for scale in range(9)]
    model = loaded(tmp_path / "generator.py", monkeypatch).Generator()
    with deploykit.open(tmp_path / "dist", sanitize=sanitize) as session:
        results = session(instances)
        assert session([]) == []
    sizes = []
    for (tree, seven, lists), instance in zip(results, instances, strict=True):
        expected, _, states = model.main(*instance)
        sizes.append(require_equal(tree, expected))
        assert seven == 7
        for found, state in zip(lists, states, strict=True):
            np.testing.assert_allclose(found, state, atol=1e-6)
    assert max(sizes) > 20


def test_shared_and_deep_results(tmp_path: Path) -> None:
    (tmp_path / "chain.py").write_text(
        """
from __future__ import annotations

from dataclasses import dataclass

from deploykit.dynamic import Model, Tensor


@dataclass
class End:
    pass


@dataclass
class Link:
    number: int
    next: Chain


Chain = End | Link


class Numbers(Model):
    w: Tensor[2]

    def main(self, count: int) -> tuple[Chain, Chain]:
        chain: Chain = End()
        for number in range(count):
            chain = Link(number, chain)
        return chain, chain
"""
    )
    deploykit.build(f"{tmp_path / 'chain.py'}:Numbers", output=tmp_path / "dist")
    with deploykit.open(tmp_path / "dist") as session:
        ((first, second),) = session([50_000])
    assert first is second
    number = 50_000
    while type(first).__name__ == "Link":
        number -= 1
        assert first.number == number
        first = first.next
    assert number == 0
