"""What deploykit is measured against, on the same ONNX file and the same inputs.

onnxruntime    ONNX Runtime, CPU, all optimisations
pytorch        PyTorch in eager mode: the graph operator by operator (`bench.peers.pytorch`)
iree           IREE, llvm-cpu for this machine (`bench.peers.iree`)

A peer is optional: it takes part when its modules can be imported (`pip install -e '.[bench]'`).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from deploykit import reference
from deploykit.reference import Runner


@dataclass(frozen=True)
class Peer:
    """`load(model file, threads)` gives a function from inputs to outputs, by name; it raises what the peer raises when
    it cannot run the model. `short`: its name over a column.
    """

    title: str
    short: str
    modules: tuple[str, ...]
    load: Callable[[Path, int], Runner]

    def missing(self) -> str | None:
        """Why the peer does not take part here."""
        for module in self.modules:
            try:
                importlib.import_module(module)
            except ImportError as error:
                return f"{module} cannot be imported ({error})"
        return None


def _onnxruntime(model: Path, threads: int) -> Runner:
    return reference.load(model, "onnxruntime", threads)


def _pytorch(model: Path, threads: int) -> Runner:
    from bench.peers import pytorch

    return pytorch.load(model, threads)


def _iree(model: Path, threads: int) -> Runner:
    from bench.peers import iree

    return iree.load(model, threads)


PEERS: Mapping[str, Peer] = {
    "onnxruntime": Peer("ONNX Runtime", "ORT", ("onnxruntime",), _onnxruntime),
    "pytorch": Peer("PyTorch", "PyTorch", ("torch",), _pytorch),
    "iree": Peer("IREE", "IREE", ("iree.compiler.tools.import_onnx", "iree.runtime"), _iree),
}
