"""The sample of the zoo in the repository: `python -m tests.zoo.sample NAME.EXPORTER ...` adds exports to it.

    NAME.EXPORTER.onnx.xz   the file as the exporter wrote it
    NAME.EXPORTER.json      the inputs, the sizes of each round, and some elements of the results of PyTorch

Inputs are recomputed from their seeds. With the sample, tests need neither PyTorch nor transformers.
"""

from __future__ import annotations

import argparse
import json
import lzma
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tests.zoo.architectures import CASES
from tests.zoo.case import ROUNDS, Input
from tests.zoo.results import FOLDER

SAMPLE = Path(__file__).with_name("sample")
ELEMENTS = 16
"""Number of elements that are kept of each output in each round, evenly spread."""


@dataclass(frozen=True)
class Sample:
    """`expected`: for each round, the shape and the kept elements by output."""

    name: str
    model: bytes
    rounds: tuple[Mapping[str, np.ndarray], ...]
    expected: tuple[Mapping[str, tuple[tuple[int, ...], np.ndarray]], ...]


def names() -> list[str]:
    return sorted(path.name.removesuffix(".onnx.xz") for path in SAMPLE.glob("*.onnx.xz"))


def read(name: str) -> Sample:
    document = json.loads((SAMPLE / f"{name}.json").read_text())
    inputs = [Input(**{**one, "shape": tuple(one["shape"])}) for one in document["inputs"]]
    rounds = []
    for number, sizes in enumerate(document["sizes"]):
        rng = np.random.default_rng(number)
        rounds.append({one.name: one.sample(sizes, rng) for one in inputs})
    expected = tuple(
        {output: (tuple(kept["shape"]), np.array(kept["elements"])) for output, kept in one.items()}
        for one in document["expected"]
    )
    return Sample(name, lzma.decompress((SAMPLE / f"{name}.onnx.xz").read_bytes()), tuple(rounds), expected)


def elements(array: np.ndarray) -> np.ndarray:
    """The kept elements of an output."""
    flat = array.reshape(-1)
    return flat[np.linspace(0, max(flat.size - 1, 0), ELEMENTS).astype(int)] if flat.size else flat


def add(name: str, folder: Path = FOLDER) -> None:
    """Add an export to the sample."""
    from tests.zoo.check import part

    case = CASES[name.rpartition(".")[0]]
    export = json.loads((folder / name / "export.json").read_text())
    data = np.load(folder / name / "data.npz")
    used = {size for one in export["inputs"] for text in one["shape"] for size in str(text).split("+")}
    document: dict[str, Any] = {
        "inputs": export["inputs"],
        "sizes": [{k: v for k, v in case.at(number).items() if k in used} for number in range(ROUNDS)],
        "expected": [
            {
                output: {"shape": list(array.shape), "elements": [float(f"{v:.7g}") for v in elements(array)]}
                for output, array in (part(data, number, "float64") or part(data, number, "float32")).items()
            }
            for number in range(ROUNDS)
        ],
    }
    SAMPLE.mkdir(exist_ok=True)
    model = (folder / name / "model.onnx").read_bytes()
    (SAMPLE / f"{name}.onnx.xz").write_bytes(lzma.compress(model, preset=9 | lzma.PRESET_EXTREME))
    (SAMPLE / f"{name}.json").write_text(json.dumps(document, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="+", metavar="NAME.EXPORTER")
    for given in parser.parse_args().names:
        add(given)
