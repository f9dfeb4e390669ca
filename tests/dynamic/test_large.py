"""Deep and wide instances, and memory that ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import deploykit
from deploykit.errors import UsageError
from tests.dynamic import models
from tests.dynamic.harness import EMBEDDED, Built, assert_close, eager
from tests.dynamic.instances import instances

DEEP = 100_000
WIDE = 10_000

SOURCE = """
from __future__ import annotations
from dataclasses import dataclass
from deploykit.dynamic import Model, Tensor, sum, tanh


@dataclass
class End:
    word: int


@dataclass
class Link:
    word: int
    rest: Chain


Chain = End | Link


class Deep(Model):
    embedding: Tensor[7, 2]
    w: Tensor[2, 2]

    def main(self, chain: Chain) -> tuple[Tensor[2], int]:
        match chain:
            case End(word):
                return self.embedding[word], 1
            case Link(word, rest):
                state, size = self.main(rest)
                return tanh(state @ self.w + self.embedding[word]), size + 1


class Wide(Model):
    embedding: Tensor[7, 2]
    w: Tensor[2, 2]

    def leaf(self, word: int) -> Tensor[2]:
        return tanh(self.embedding[word] @ self.w) if word > 2 else self.embedding[word]

    def main(self, words: list[int]) -> tuple[Tensor[2], list[Tensor[2]]]:
        states = [self.leaf(word) for word in words]
        return sum(states), states
"""


def build(name: str, folder: Path) -> Path:
    source = folder / "large.py"
    source.write_text(SOURCE)
    deploykit.build(f"{source}:{name}", output=folder / "dist")
    return folder / "dist"


@pytest.mark.slow
def test_deep(tmp_path: Path) -> None:
    words = np.random.default_rng(0).integers(0, 7, DEEP).tolist()
    chain: tuple[Any, ...] = ("End", words[0])
    for word in words[1:]:
        chain = ("Link", word, chain)
    with deploykit.open(build("Deep", tmp_path)) as session:
        assert session._instances is not None
        random = deploykit.dynamic.models.random_weights({"embedding": (7, 2), "w": (2, 2)}, 0)
        expected = random["embedding"][words[0]]
        for word in words[1:]:
            expected = np.tanh(expected @ random["w"] + random["embedding"][word])
        for policy in ("critical", "depth"):
            session.policy = policy
            assert_close(session([chain]), [(expected, DEEP)])


def test_wide(tmp_path: Path) -> None:
    words = np.random.default_rng(0).integers(0, 7, WIDE).tolist()
    random = deploykit.dynamic.models.random_weights({"embedding": (7, 2), "w": (2, 2)}, 0)
    rows = np.where(np.arange(7)[:, None] > 2, np.tanh(random["embedding"] @ random["w"]), random["embedding"])[words]
    with deploykit.open(build("Wide", tmp_path)) as session:
        ((total, states),) = session([words])
        np.testing.assert_allclose(np.stack(states), rows, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(total, rows.sum(0, dtype=np.float64), rtol=1e-3)


def test_many_instances(built: Built) -> None:
    given = instances("TreeLSTM", 40, seed=8)
    expected = eager(models.TreeLSTM(), given)
    with deploykit.open(built("TreeLSTM")) as session:
        found = session(given * 50)
        for start in (0, 40 * 49):
            assert_close(found[start : start + 40], expected)


def test_memory_that_ends_on_a_microcontroller(tmp_path: Path) -> None:
    """A message names what a run needs, and the next run works."""
    source = Path(models.__file__)
    dims = EMBEDDED | {"capacity_control": 4096, "capacity_pool": 2048}
    deploykit.build(f"{source}:TreeLSTM", "embedded", dims, tmp_path / "dist")
    small, large = instances("TreeLSTM", 3), instances("TreeLSTM", 60, seed=1)
    with deploykit.open(tmp_path / "dist") as session:
        expected = session(small)
        with pytest.raises(UsageError) as refused:
            session(large)
        assert "capacity" in str(refused.value)
        assert_close(session(small), expected, 0.0)
