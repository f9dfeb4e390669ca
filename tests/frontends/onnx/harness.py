"""Small models written as text, built once and run at several sizes against ONNX's reference implementation."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
import onnx.parser
import onnxruntime
from onnx.reference import ReferenceEvaluator

from deploykit.frontends.onnx.names import dim_name
from deploykit.sessions.session import Session
from tests.runtimes import Runtime

Feeds = Mapping[str, np.ndarray]


def parse(text: str, opset: int = 21) -> onnx.ModelProto:
    """A model from a graph in ONNX's text form without its name: `(float[n] x) => (float[m] y) { y = Abs(x) }`."""
    header = f'<ir_version: 10, opset_import: ["" : {opset}, "ai.onnx.ml" : 5, "com.microsoft" : 1]> model '
    model: onnx.ModelProto = onnx.parser.parse_model(header + text)
    return model


@dataclass(frozen=True)
class Check:
    """Builds a model once for a runtime and compares every run with `expected` or, without it, with the reference
    implementation. The comparison includes dtypes and shapes."""

    runtime: Runtime

    def __call__(
        self,
        model: onnx.ModelProto | str,
        *runs: Feeds,
        opset: int = 21,
        expected: Sequence[Sequence[np.ndarray]] = (),
        rtol: float = 1e-5,
    ) -> None:
        if isinstance(model, str):
            model = parse(model, opset)
        with self.session(model, *runs) as session:
            for position, feeds in enumerate(runs):
                wanted = expected[position] if expected else ReferenceEvaluator(model).run(None, dict(feeds))
                for (name, got), want in zip(session.run(feeds).items(), wanted, strict=True):
                    where = f"{name} of {[x.shape for x in feeds.values()]}"
                    items = zip(got, want, strict=True) if isinstance(want, list) else [(got, want)]
                    for item, wanted_item in items:
                        _compare(item, np.asarray(wanted_item), rtol, where)

    def like_onnxruntime(self, model: onnx.ModelProto | str, *runs: Feeds, opset: int = 17, rtol: float = 1e-4) -> None:
        """Compare every run with ONNX Runtime."""
        self(model, *runs, opset=opset, expected=by_onnxruntime(model, *runs, opset=opset), rtol=rtol)

    @contextlib.contextmanager
    def session(self, model: onnx.ModelProto, *runs: Feeds) -> Iterator[Session]:
        """A session of the model. If dims need a bound, the bounds cover the sizes of `runs`."""
        dims = _bounds(model, runs) if self.runtime.bounded else None
        with self.runtime.session(model, dims=dims) as session:
            yield session


def _compare(got: np.ndarray, want: np.ndarray, rtol: float, what: str) -> None:
    """Check a result. Strings must be equal."""
    if want.dtype.kind in "OU":
        assert (got.shape, got.tolist()) == (want.shape, want.tolist()), what
        return
    assert (got.dtype, got.shape) == (want.dtype, want.shape), what
    np.testing.assert_allclose(got, want, rtol=rtol, atol=rtol, err_msg=what)


def _bounds(model: onnx.ModelProto, runs: Sequence[Feeds]) -> dict[str, tuple[int, int]]:
    """Bounds of every dim, with room around its sizes in `runs`. The bytes of strings are a dim."""
    sizes: dict[str, list[int]] = {}
    for value in model.graph.input:
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            if not dim.HasField("dim_value") or dim.dim_value < 0:
                name = dim_name(value.name, axis, dim.dim_param)
                sizes.setdefault(name, []).extend(np.shape(feeds[value.name])[axis] for feeds in runs)
        if value.type.tensor_type.elem_type == onnx.TensorProto.STRING:
            totals = [sum(len(s.encode()) for s in feeds[value.name].reshape(-1)) for feeds in runs]
            sizes[f"{value.name}_utf8"] = [0, *totals]
    return {name: (min(1, *found), 2 * max(found) + 2) for name, found in sizes.items() if found}


def graph(inputs: str, calls: Mapping[str, str], values: str = "") -> str:
    """A graph with an output for each call, by its declaration: `{"float[n] y": "Abs(x)"}`. `values` are initializers
    in angle brackets."""
    nodes = " ".join(f"{declared.rpartition(' ')[2]} = {call}" for declared, call in calls.items())
    return f"({inputs}) => ({', '.join(calls)}) {values} {{ {nodes} }}"


def each(inputs: str, calls: Sequence[str], rank: int, dtype: str = "float") -> str:
    """A graph with one output of `rank` for every operator call: `each("float[n] x", ["Abs(x)", "Neg(x)"], 1)`."""
    shapes = (",".join(f"y{i}_{axis}" for axis in range(rank)) for i in range(len(calls)))
    outputs = ", ".join(f"{dtype}[{shape}] y{i}" for i, shape in enumerate(shapes))
    return f"({inputs}) => ({outputs}) {{ {' '.join(f'y{i} = {call}' for i, call in enumerate(calls))} }}"


def by_onnxruntime(model: onnx.ModelProto | str, *runs: Feeds, opset: int = 21) -> list[Sequence[np.ndarray]]:
    """The results of ONNX Runtime, for `expected` of `check` where the reference implementation is incomplete."""
    if isinstance(model, str):
        model = parse(model, opset)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return [session.run(None, dict(feeds)) for feeds in runs]


def numbers(*shape: int, dtype: str = "float32", seed: int = 0) -> np.ndarray:
    """Reproducible small numbers."""
    values = np.random.default_rng(seed).standard_normal(shape) * 4
    return values.astype(dtype)
