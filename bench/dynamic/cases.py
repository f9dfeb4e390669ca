"""The models of `bench/dynamic/sources` with instances for them.

Trees, sentences, lattices and graphs are those of `bench.dynamic.structures`; a case turns them into what the model's
`main` takes. A copy of the source has another hidden size.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from bench.dynamic import structures as generated

SOURCES = Path(__file__).with_name("sources")
MATRICES = 128
"""The words that have a matrix."""


@dataclass(frozen=True)
class Case:
    """`model` is the name of a class in the file `source`, `generate(count, seed=...)` makes structures, and
    `instance(module, structure)` is what `main` takes for one."""

    name: str
    source: str
    model: str
    generate: Callable[..., Sequence[Any]]
    instance: Callable[[ModuleType, Any], Any]


@dataclass(frozen=True)
class Prepared:
    """A case with a hidden size: its source, which is also imported, and its weights."""

    case: Case
    hidden: int
    path: Path
    module: ModuleType
    weights: Mapping[str, np.ndarray]

    def structures(self, count: int, seed: int = 0) -> Sequence[Any]:
        return self.case.generate(count, seed=seed)

    def instances(self, structures: Sequence[Any], module: ModuleType | None = None) -> list[Any]:
        return [self.case.instance(module or self.module, each) for each in structures]

    def expected(self, instances: Sequence[Any]) -> np.ndarray:
        """What the source computes in Python, flat."""
        model = getattr(self.module, self.case.model)(self.weights)
        return flat([called(model, each) for each in instances])


def prepare(case: Case, hidden: int, folder: Path) -> Prepared:
    source = (SOURCES / f"{case.source}.py").read_text()
    text, count = re.subn(r"^HIDDEN = \d+$", f"HIDDEN = {hidden}", source, flags=re.MULTILINE)
    assert count == 1
    path = folder / f"{case.source}_{hidden}.py"
    path.write_text(text)
    module = load(path)
    return Prepared(case, hidden, path, module, getattr(module, case.model)(seed=0).weights())


def load(path: Path, name: str = "bench_dynamic_sources") -> ModuleType:
    """Import a file as a new module."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # annotations are evaluated there
    spec.loader.exec_module(module)
    return module


def called(model: Any, instance: Any) -> Any:
    """What `main` returns."""
    return model.main(*instance) if isinstance(instance, tuple) else model.main(instance)


def flat(value: Any) -> np.ndarray:
    """All numbers in results."""
    found: list[np.ndarray] = []

    def add(part: Any) -> None:
        if isinstance(part, list | tuple):
            for each in part:
                add(each)
        else:
            found.append(np.asarray(part, np.float64).ravel())

    add(value)
    return np.concatenate(found) if found else np.empty(0)


def plain(value: Any) -> Any:
    """An instance as JSON has it."""
    if is_dataclass(value):
        return {"type": type(value).__name__, **{each.name: plain(getattr(value, each.name)) for each in fields(value)}}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return value.tolist() if isinstance(value, np.ndarray) else value


def _tree(module: ModuleType, tree: generated.Tree) -> Any:
    if isinstance(tree, generated.Leaf):
        return module.Leaf(tree.word)
    return module.Node(_tree(module, tree.left), _tree(module, tree.right))


def _phrase(module: ModuleType, tree: generated.Tree) -> Any:
    """A tree in which phrases of an even number of words are nouns."""
    if isinstance(tree, generated.Leaf):
        return module.Word(tree.word)
    kind = module.Verb if generated.leaves(tree) % 2 else module.Noun
    return kind(_phrase(module, tree.left), _phrase(module, tree.right))


def _words(_module: ModuleType, sentence: generated.Sentence) -> list[int]:
    return list(sentence.words)


def _characters(_module: ModuleType, sentence: generated.Sentence) -> list[list[int]]:
    return [list(word) for word in sentence.characters]


def _sentence_and_seed(_module: ModuleType, sentence: generated.Sentence) -> tuple[list[int], int]:
    return list(sentence.words), sum(sentence.words)


def _lattice(module: ModuleType, lattice: generated.Lattice) -> Any:
    ending: list[list[Any]] = [[] for _ in lattice.characters]
    for arc in lattice.words:
        ending[arc.end - 1].append(module.Word(arc.start, arc.label))
    return list(lattice.characters), ending


def _graph(module: ModuleType, graph: generated.Graph) -> Any:
    """Positions have the types 0, 1, 2 in turn, and the label of the first arc that ends there."""
    arcs: list[list[generated.Arc]] = [[] for _ in range(graph.positions)]
    for arc in graph.arcs:
        arcs[arc.end].append(arc)
    return [
        module.Position(end % 3, each[0].label if each else 0, [module.Arc(arc.start, arc.kind) for arc in each])
        for end, each in enumerate(arcs)
    ]


def _seeds(count: int, seed: int = 0) -> Sequence[int]:
    return range(seed << 20, (seed << 20) + count)


def _loops(_module: ModuleType, seed: int) -> tuple[list[int], list[int]]:
    """5 to 10 words, with 20 to 40 steps each."""
    rng = np.random.default_rng(seed)
    words = rng.integers(1024, size=rng.integers(5, 11))
    return words.tolist(), rng.integers(20, 41, len(words)).tolist()


def _tokens(module: ModuleType, seed: int) -> tuple[np.ndarray, int]:
    return _normal(seed, module.TOKENS, module.HIDDEN), seed


def _vector(module: ModuleType, seed: int) -> tuple[np.ndarray, int]:
    return _normal(seed, module.HIDDEN), seed


def _positions(_module: ModuleType, seed: int) -> tuple[int, int]:
    """8 to 20 positions."""
    return 8 + seed % 13, seed


def _search(module: ModuleType, seed: int) -> tuple[np.ndarray, int, int]:
    """8 to 24 words."""
    return _normal(seed, module.HIDDEN), seed % 1024, 8 + seed % 17


def _normal(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32) / 4


CASES: Mapping[str, Case] = {
    case.name: case
    for case in (
        Case("tree", "trees", "TreeLSTM", generated.trees, _tree),
        Case("treegru", "trees", "TreeGRU", generated.trees, _tree),
        Case("mvrnn", "trees", "MatrixTree", partial(generated.trees, vocabulary=MATRICES), _tree),
        Case("twotypes", "trees", "TwoTypes", generated.trees, _phrase),
        Case("tagger", "sequences", "Tagger", generated.sentences, _words),
        Case("chartagger", "sequences", "CharTagger", generated.sentences, _characters),
        Case("nested", "sequences", "NestedRNN", _seeds, _loops),
        Case("lattice", "sequences", "Lattice", generated.lattices, _lattice),
        Case("latticegru", "sequences", "LatticeGRU", generated.lattices, _lattice),
        Case("graph", "sequences", "RandomGraph", generated.graphs, _graph),
        Case("earlyexit", "decisions", "EarlyExit", _seeds, _tokens),
        Case("shiftreduce", "decisions", "ShiftReduce", generated.sentences, _sentence_and_seed),
        Case("generator", "decisions", "Generator", _seeds, _vector),
        Case("graphrnn", "decisions", "GraphRNN", _seeds, _positions),
        Case("search", "decisions", "Search", _seeds, _search),
    )
}
