"""Times single kernels in turn with ONNX Runtime, on one thread.

    python -m bench.kernels [--seconds S] [NAME ...]

Each line is a model of one operator with constant weights and a symbolic batch (for products: rows), built for `host`
and run through `deploykit.Session`. `ratio` is ONNX Runtime's median time divided by ours: above 1 we are faster. NAME
selects the lines whose name contains it.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

import deploykit
from deploykit.checks.benchmark import bench
from deploykit.cli.console import results, table


@dataclass(frozen=True)
class Case:
    """One operator on data `shape` (the first dim is symbolic in the model) with weights of shape `weight`."""

    operator: str
    shape: tuple[int, ...]
    weight: tuple[int, ...] | None = None
    attributes: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        sizes = ["x".join(map(str, dims)) for dims in (self.shape, self.weight) if dims]
        extra = [f"{key}={value}" for key, value in self.attributes.items() if key in ("strides", "group")]
        return " ".join([self.operator.lower(), *sizes, *extra])

    def operations(self, result: Sequence[int]) -> int:
        """Multiplications and additions for a result of this shape; without weights, the number of its elements."""
        count = int(np.prod(result))
        if self.weight is None:
            return count
        depth = self.weight[0] if self.operator == "MatMul" else int(np.prod(self.weight[1:]))
        return 2 * count * depth


def _conv(channels: int, outputs: int, kernel: int, size: int, stride: int = 1, pad: int = 0, group: int = 1) -> Case:
    attributes = {"strides": [stride] * 2, "pads": [pad] * 4, "group": group}
    return Case("Conv", (1, channels, size, size), (outputs, channels // group, kernel, kernel), attributes)


CASES = (
    *(Case("MatMul", (rows, 768), (768, 768)) for rows in (1, 8, 128, 512)),
    Case("MatMul", (512, 1024), (1024, 1024)),
    Case("MatMul", (128, 3072), (3072, 768)),
    _conv(3, 64, 7, 224, stride=2, pad=3),
    _conv(64, 64, 3, 56, pad=1),
    _conv(64, 256, 1, 56),
    _conv(128, 128, 3, 56, stride=2, pad=1),
    _conv(256, 256, 3, 14, pad=1),
    _conv(1024, 256, 1, 14),
    _conv(512, 512, 3, 7, pad=1),
    _conv(144, 144, 3, 56, pad=1, group=144),
    Case("ConvTranspose", (1, 64, 28, 28), (64, 32, 4, 4), {"strides": [2, 2], "pads": [1] * 4}),
    Case("MaxPool", (1, 64, 112, 112), None, {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1] * 4}),
    Case("GlobalAveragePool", (1, 2048, 7, 7)),
    Case("Softmax", (256, 1000)),
    Case("Transpose", (64, 128, 256), None, {"perm": [0, 2, 1]}),
)


def model_of(case: Case) -> onnx.ModelProto:
    """The case as a model with input `x` and output `y`."""
    rng = np.random.default_rng(0)
    weights = [] if case.weight is None else [rng.standard_normal(case.weight).astype("float32")]
    data = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["n", *case.shape[1:]])
    result = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["n", *(None for _ in case.shape[1:])])
    node = helper.make_node(case.operator, ["x", *(["w"] if weights else [])], ["y"], **case.attributes)
    initializers = [numpy_helper.from_array(weight, "w") for weight in weights]
    graph = helper.make_graph([node], "kernel", [data], [result], initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def measure(case: Case, seconds: float) -> tuple[str, ...]:
    """Measure one case; returns a row of the table."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.onnx"
        onnx.save(model_of(case), path)
        deploykit.build(path, target="host", output=Path(folder) / "dist")
        x = np.random.default_rng(1).standard_normal(case.shape).astype("float32")
        with deploykit.open(Path(folder) / "dist") as session:
            (result,) = session(x=x).values()
        times = bench(Path(folder) / "dist", inputs={"x": x}, against="onnxruntime", model=path, seconds=seconds)
    assert times.peer is not None
    operations = case.operations(result.shape)
    ours, peer = times.ours.median, times.peer.median
    speeds = [f"{operations / median / 1e9:.1f}" for median in (ours, peer)]
    return (case.name, f"{ours * 1e6:.0f}", f"{peer * 1e6:.0f}", *speeds, f"{peer / ours:.2f}")


def rows(names: Sequence[str], seconds: float) -> Iterator[tuple[str, ...]]:
    for case in CASES:
        if not names or any(name in case.name for name in names):
            yield measure(case, seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description="Time single kernels in turn with ONNX Runtime.")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--seconds", type=float, default=1.0, help="time for each line (default: 1)")
    given = parser.parse_args()
    shown = table("kernel", ">us", ">us ORT", ">G/s", ">G/s ORT", ">ratio")
    for row in rows(given.names, given.seconds):
        shown.add_row(*row)
    results.print(shown)


if __name__ == "__main__":
    main()
