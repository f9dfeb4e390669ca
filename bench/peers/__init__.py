"""The peers that deploykit is compared with, on the same ONNX file and the same inputs.

onnxruntime    ONNX Runtime, CPU, all optimisations
openvino       OpenVINO, CPU, 32-bit floats (`bench.peers.openvino`)
pytorch        PyTorch in eager mode: the graph operator by operator (`bench.peers.pytorch`)
iree           IREE, llvm-cpu for this machine (`bench.peers.iree`)

A peer is optional: it takes part if its modules can be imported (`pip install -e '.[bench]'`).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from deploykit.checks import reference
from deploykit.checks.reference import Runner

Bounds = Mapping[str, tuple[int, int]]
"""The smallest and the largest size of symbolic dims, by name."""


@dataclass(frozen=True)
class Peer:
    """One peer. `load(model file, threads, bounds)` returns a function from inputs to outputs, by name, or raises what
    the peer raises if it cannot run the model. The next run may overwrite the arrays that the function returns. Not
    every peer uses `bounds`. `short` is its name as the title of a column.
    """

    title: str
    short: str
    modules: tuple[str, ...]
    load: Callable[[Path, int, Bounds], Runner]

    def missing(self) -> str | None:
        """Why the peer does not take part, or None."""
        for module in self.modules:
            try:
                importlib.import_module(module)
            except ImportError as error:
                return f"{module} cannot be imported ({error})"
        return None


def _onnxruntime(model: Path, threads: int, _: Bounds) -> Runner:
    return reference.load(model, "onnxruntime", threads, timed=True)


def _openvino(model: Path, threads: int, bounds: Bounds) -> Runner:
    from bench.peers import openvino

    return openvino.load(model, threads, bounds)


def _pytorch(model: Path, threads: int, _: Bounds) -> Runner:
    from bench.peers import pytorch

    return pytorch.load(model, threads)


def _iree(model: Path, threads: int, _: Bounds) -> Runner:
    from bench.peers import iree

    return iree.load(model, threads)


PEERS: Mapping[str, Peer] = {
    "onnxruntime": Peer("ONNX Runtime", "ORT", ("onnxruntime",), _onnxruntime),
    "openvino": Peer("OpenVINO", "OpenVINO", ("openvino",), _openvino),
    "pytorch": Peer("PyTorch", "PyTorch", ("torch",), _pytorch),
    "iree": Peer("IREE", "IREE", ("iree.compiler.tools.import_onnx", "iree.runtime"), _iree),
}
