"""Reduces a failing graph to a small one that fails in the same way.

These changes are repeated until none helps: keep one output, or drop one; make an intermediate result the output; make
a result an input; remove a node, and use an operand of the same shape as its result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import onnx
from onnx import helper

from tests.fuzz.drawing import SAMPLES, Reject, evaluate
from tests.fuzz.generate import Case, needed

Arrays = list[dict[str, np.ndarray]]


def shrink(case: Case, fails: Callable[[Case], bool], attempts: int = 200) -> Case:
    """The smallest case that is found for which `fails` holds, with at most `attempts` calls of `fails`."""
    budget = attempts
    progress = True
    while progress and budget > 0:
        progress = False
        for smaller in _smaller(case):
            budget -= 1
            if fails(smaller):
                case, progress = smaller, True
                break
            if budget <= 0:
                break
    return case


def _smaller(case: Case) -> Iterator[Case]:
    arrays = _arrays(case)
    graph = case.model.graph
    if len(graph.output) > 1:
        for output in graph.output:
            yield _rebuilt(case, arrays, list(graph.node), [output.name])
        for left in graph.output:
            yield _rebuilt(case, arrays, list(graph.node), [o.name for o in graph.output if o.name != left.name])
    names = [o.name for o in graph.output]
    for position in range(len(graph.node) - 2, -1, -1):
        for name in graph.node[position].output:
            yield _rebuilt(case, arrays, list(graph.node[: position + 1]), [name])
    for position in range(len(graph.node) - 1, -1, -1):
        yield _rebuilt(case, arrays, [n for i, n in enumerate(graph.node) if i != position], names)
    for position, node in enumerate(graph.node):
        for operand in node.input:
            if operand in arrays[0] and all(_alike(a[operand], a[node.output[0]]) for a in arrays):
                yield _rebuilt(case, arrays, _without(list(graph.node), position, operand), names)


def _alike(a: np.ndarray, b: np.ndarray) -> bool:
    return a.shape == b.shape and a.dtype == b.dtype


def _without(nodes: list[onnx.NodeProto], position: int, operand: str) -> list[onnx.NodeProto]:
    """The nodes without one, whose first result is replaced by one of its operands."""
    kept = []
    for node in (n for i, n in enumerate(nodes) if i != position):
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        copy.input[:] = [operand if name == nodes[position].output[0] else name for name in node.input]
        kept.append(copy)
    return kept


def _arrays(case: Case) -> Arrays:
    """All values at every sample, with floats as float64."""
    weights = {t.name: onnx.numpy_helper.to_array(t) for t in case.model.graph.initializer}
    result: Arrays = []
    for feeds in case.feeds:
        known = {n: _wide(a) for n, a in (weights | dict(feeds)).items()}
        for node in case.model.graph.node:
            found = evaluate(node, {n: known[n] for n in node.input if n}, case.model.opset_import[0].version)
            known |= {n: np.asarray(a) for n, a in zip(node.output, found, strict=True)}
        result.append(known)
    return result


def _wide(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float64) if array.dtype.kind == "f" else array


def _narrow(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float32) if array.dtype.kind == "f" else array


def _rebuilt(case: Case, arrays: Arrays, nodes: list[onnx.NodeProto], outputs: list[str]) -> Case:
    """A case of the nodes that compute these outputs. Values that they read and do not compute become inputs."""
    nodes = needed(nodes, outputs)
    computed = {name for node in nodes for name in node.output}
    weights = {t.name: t for t in case.model.graph.initializer}
    read = list(dict.fromkeys(name for node in nodes for name in node.input if name))
    fed = [n for n in (*read, *outputs) if n not in computed and n not in weights]
    declared = {v.name: v for v in case.model.graph.input}
    infos = [declared.get(n) or _input(n, [a[n] for a in arrays]) for n in dict.fromkeys(fed)]
    graph = helper.make_graph(
        nodes,
        "shrunk",
        infos,
        [_output(n, arrays[0][n]) for n in outputs],
        [weights[n] for n in read if n in weights],
    )
    model = helper.make_model(graph, opset_imports=list(case.model.opset_import), ir_version=case.model.ir_version)
    feeds = tuple({v.name: _narrow(a[v.name]) for v in infos} for a in arrays)
    expected: list[dict[str, np.ndarray]] = []
    for given in feeds:
        partial = Case(model, (given,), ({},))
        try:
            known = _arrays(partial)[0]
        except Reject:
            known = arrays[len(expected)]
        expected.append({n: known[n] for n in outputs})
    return Case(model, feeds, tuple(expected))


def _dtype(array: np.ndarray) -> int:
    return int(helper.np_dtype_to_tensor_dtype(_narrow(array).dtype))


def _input(name: str, arrays: list[np.ndarray]) -> onnx.ValueInfoProto:
    shape: list[int | str] = []
    for axis in range(arrays[0].ndim):
        sizes = tuple(a.shape[axis] for a in arrays)
        named = [dim for dim in SAMPLES[0] if tuple(sample[dim] for sample in SAMPLES) == sizes]
        shape.append(sizes[0] if len(set(sizes)) == 1 else named[0] if named else "d" + "_".join(map(str, sizes)))
    return helper.make_tensor_value_info(name, _dtype(arrays[0]), shape)


def _output(name: str, array: np.ndarray) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, _dtype(array), [f"{name}_{axis}" for axis in range(array.ndim)])
