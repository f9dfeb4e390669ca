"""The models of `bench.dynamic.sources` with instances for them.

Words, sentences and lattices are those of `bench.dynamic.structures`; a case turns them into what the model's `main`
takes. A copy of the sources has another hidden size.
"""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from bench.dynamic import models
from bench.dynamic import structures as generated

SOURCES = Path(__file__).with_name("sources.py")
VOCABULARY = 1024
MATRICES = 128
"""The words that have a matrix."""
_NAMES = {"out.F": "out_fw", "out.B": "out_bw"}


@dataclass(frozen=True)
class Case:
    """`model` is the name of a class, `generate(count, seed=...)` makes structures, and `instance(module, structure,
    hidden)` is what `main` takes for one. With `peer`, weights and structures are those of a model in
    `bench.dynamic.models`, which DyNet has too."""

    name: str
    model: str
    generate: Callable[..., Sequence[Any]]
    instance: Callable[[ModuleType, Any, int], Any]
    peer: bool = False

    def weights(self, module: ModuleType, hidden: int) -> dict[str, np.ndarray]:
        if not self.peer:
            own: dict[str, np.ndarray] = getattr(module, self.model)(seed=0).weights()
            return own
        given = models.MODELS[self.name].weights(hidden)
        found = {}
        for name, array in given.items():
            stored = array if name.endswith("embedding") else np.ascontiguousarray(array.T)
            found[_NAMES.get(name, name.replace(".", "_").lower())] = stored
        return found


@dataclass(frozen=True)
class Prepared:
    """A case with a hidden size: its source, which is also imported, and its weights."""

    case: Case
    hidden: int
    path: Path
    module: ModuleType
    weights: Mapping[str, np.ndarray]

    @property
    def place(self) -> str:
        return f"{self.path}:{self.case.model}"

    def structures(self, count: int, seed: int = 0) -> Sequence[Any]:
        return self.case.generate(count, seed=seed)

    def instances(self, structures: Sequence[Any], module: ModuleType | None = None) -> list[Any]:
        return [self.case.instance(module or self.module, each, self.hidden) for each in structures]

    def expected(self, instances: Sequence[Any]) -> np.ndarray:
        """What the source computes in Python, flat."""
        model = getattr(self.module, self.case.model)(self.weights)
        return flat([called(model, each) for each in instances])


def prepare(case: Case, hidden: int, folder: Path) -> Prepared:
    path = folder / f"sources_{hidden}.py"
    text, count = re.subn(r"^HIDDEN = \d+$", f"HIDDEN = {hidden}", SOURCES.read_text(), flags=re.MULTILINE)
    assert count == 1
    path.write_text(text)
    module = load(path)
    return Prepared(case, hidden, path, module, case.weights(module, hidden))


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


def write_samples(prepared: Prepared, count: int, path: Path) -> Path:
    """A file of instances that are not those of the measured batch."""
    path.write_text(json.dumps([plain(each) for each in prepared.instances(prepared.structures(count, seed=1))]))
    return path


def _tree(module: ModuleType, tree: generated.Tree, _hidden: int, words: int = VOCABULARY) -> Any:
    if isinstance(tree, generated.Leaf):
        return module.Leaf(tree.word % words)
    return module.Node(_tree(module, tree.left, 0, words), _tree(module, tree.right, 0, words))


def _sentence(_module: ModuleType, sentence: generated.Sentence, _hidden: int) -> list[int]:
    return list(sentence.words)


def _lattice(module: ModuleType, lattice: generated.Lattice, _hidden: int) -> Any:
    ending: list[list[Any]] = [[] for _ in lattice.characters]
    for arc in lattice.words:
        ending[arc.end - 1].append(module.Word(arc.start, arc.label))
    return list(lattice.characters), ending


def _vector(_module: ModuleType, seed: int, hidden: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(hidden).astype(np.float32) / 4


def _seeds(count: int, seed: int = 0) -> Sequence[int]:
    return range(seed << 20, (seed << 20) + count)


CASES: Mapping[str, Case] = {
    case.name: case
    for case in (
        Case("tree", "TreeLSTM", generated.trees, _tree, peer=True),
        Case("tagger", "Tagger", generated.sentences, _sentence, peer=True),
        Case("lattice", "Lattice", generated.lattices, _lattice, peer=True),
        Case("treegru", "TreeGRU", generated.trees, _tree),
        Case("mvrnn", "MatrixTree", generated.trees, partial(_tree, words=MATRICES)),
        Case("earlyexit", "EarlyExit", _seeds, _vector),
        Case("shiftreduce", "ShiftReduce", generated.sentences, _sentence),
    )
}
