"""Changes of single fields of a model: `mutate(model, random, count)` returns a changed copy and a text for each
change.

A field is an attribute, a dim, a dtype, a name, an edge, an opset, a weight, a node or an output, of the graph or of a
nested graph. New contents are extremes, near misses, contents of other fields, and nothing.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, helper, numpy_helper

from deploykit.frontends.onnx.graphs import nested

Mutation = Callable[[onnx.ModelProto, random.Random], str | None]
"""Changes the model in place and describes the change; `None` if the model has no such field."""

INTEGERS = (0, 1, -1, 2, 3, -2, 7, 64, -64, 255, 1000, 2**31 - 1, 2**31, -(2**31), 2**33, 2**62, 2**63 - 1, -(2**63))
FLOATS = (0.0, -1.0, 1e-45, 0.5, 1e30, float("inf"), float("-inf"), float("nan"))
STRINGS = (
    b"",
    b"x",
    b"NOTSET",
    b"SAME_UPPER",
    b"linear",
    b"constant",
    b"wrap",
    b"sum",
    b"\xff\xfe",
    b"i,j->ij",
    b"..." * 40,
)
NAMES = ("", "x", "main", "a b", "\u00e9", "0", "a/b:0", "int", "y" * 300)
DIMS = (0, 1, -1, 2, 5, 1000, 2**31, 2**40, 2**62, 2**63 - 1)
TYPES = tuple(t for t in TensorProto.DataType.values() if t)


def mutate(model: onnx.ModelProto, chooser: random.Random, count: int) -> tuple[onnx.ModelProto, list[str]]:
    """A copy with up to `count` changes, and their descriptions."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    said: list[str] = []
    for _ in range(20 * count):
        try:
            change = chooser.choices(list(MUTATIONS), list(MUTATIONS.values()))[0](copy, chooser)
        except Exception:  # noqa: BLE001  a field refuses the value, or an earlier change broke it
            continue
        if change is not None:
            said.append(change)
        if len(said) == count:
            break
    return copy, said


def graphs(graph: onnx.GraphProto) -> tuple[onnx.GraphProto, ...]:
    """The graph and all graphs nested in it."""
    return (graph, *nested(graph.node))


def _graph(model: onnx.ModelProto, chooser: random.Random) -> onnx.GraphProto:
    return chooser.choice(graphs(model.graph))


def _node(model: onnx.ModelProto, chooser: random.Random) -> onnx.NodeProto | None:
    nodes = [node for graph in graphs(model.graph) for node in graph.node]
    return chooser.choice(nodes) if nodes else None


def _names(graph: onnx.GraphProto) -> list[str]:
    inner = [name for node in graph.node for name in (*node.input, *node.output)]
    return [*(v.name for v in (*graph.input, *graph.output)), *(t.name for t in graph.initializer), *inner] or [""]


def _integer(chooser: random.Random, old: int) -> int:
    near = [old + 1, old - 1, -old, 2 * old]
    new = chooser.choice(near) if chooser.random() < 0.4 else chooser.choice(INTEGERS)
    return max(-(2**63), min(2**63 - 1, new))


# Attributes


def attribute_value(model: onnx.ModelProto, chooser: random.Random) -> str | None:
    attributes = [(n, a) for g in graphs(model.graph) for n in g.node for a in n.attribute]
    if not attributes:
        return None
    node, attribute = chooser.choice(attributes)
    before = _short(attribute)
    _change(attribute, chooser)
    return f"{node.op_type}: {before} -> {_short(attribute)}"


def _change(attribute: AttributeProto, chooser: random.Random) -> None:
    kind = attribute.type
    if kind == AttributeProto.INT:
        attribute.i = _integer(chooser, attribute.i)
    elif kind == AttributeProto.FLOAT:
        attribute.f = chooser.choice(FLOATS)
    elif kind == AttributeProto.STRING:
        attribute.s = chooser.choice(STRINGS)
    elif kind == AttributeProto.INTS:
        attribute.ints[:] = _changed(list(attribute.ints), chooser, lambda old: _integer(chooser, old))
    elif kind == AttributeProto.FLOATS:
        attribute.floats[:] = _changed(list(attribute.floats), chooser, lambda _: chooser.choice(FLOATS))
    elif kind == AttributeProto.STRINGS:
        attribute.strings[:] = _changed(list(attribute.strings), chooser, lambda _: chooser.choice(STRINGS))
    elif kind == AttributeProto.TENSOR:
        _change_tensor(attribute.t, chooser)


def _changed(items: list, chooser: random.Random, new: Callable) -> list:  # type: ignore[type-arg]
    choice = chooser.randrange(4)
    if choice == 0 and items:
        del items[chooser.randrange(len(items))]
    elif choice == 1:
        items.insert(chooser.randint(0, len(items)), new(1))
    elif choice == 2 and items:
        items[:] = []
    elif items:
        at = chooser.randrange(len(items))
        items[at] = new(items[at])
    return items


def attribute_gone(model: onnx.ModelProto, chooser: random.Random) -> str | None:
    nodes = [n for g in graphs(model.graph) for n in g.node if n.attribute]
    if not nodes:
        return None
    node = chooser.choice(nodes)
    at = chooser.randrange(len(node.attribute))
    said = f"{node.op_type}: without {_short(node.attribute[at])}"
    del node.attribute[at]
    return said


def attribute_added(model: onnx.ModelProto, chooser: random.Random) -> str | None:
    """Adds an attribute that the operator has and the node does not."""
    node = _node(model, chooser)
    if node is None or not onnx.defs.has(node.op_type, node.domain):
        return None
    schema = onnx.defs.get_schema(node.op_type, node.domain)
    known = {a.name for a in node.attribute}
    missing = [a for name, a in schema.attributes.items() if name not in known]
    if not missing:
        return None
    chosen = chooser.choice(missing)
    attribute = AttributeProto(name=chosen.name, type=int(chosen.type.value))
    _change(attribute, chooser)
    node.attribute.append(attribute)
    return f"{node.op_type}: with {_short(attribute)}"


def attribute_kind(model: onnx.ModelProto, chooser: random.Random) -> str | None:
    attributes = [(n, a) for g in graphs(model.graph) for n in g.node for a in n.attribute]
    if not attributes:
        return None
    node, attribute = chooser.choice(attributes)
    if chooser.random() < 0.3:
        attribute.ref_attr_name = chooser.choice(["alpha", attribute.name, ""])
        return f"{node.op_type}: {attribute.name} refers to '{attribute.ref_attr_name}'"
    attribute.type = chooser.choice(AttributeProto.AttributeType.values())
    return f"{node.op_type}: {attribute.name} of type {attribute.type}"


def _short(message: object) -> str:
    return " ".join(str(message).split())[:100]


# Inputs, outputs, weights


def dim(model: onnx.ModelProto, chooser: random.Random) -> str | None:
    values = [v for g in graphs(model.graph) for v in (*g.input, *g.output, *g.value_info)]
    values = [v for v in values if v.type.tensor_type.HasField("shape")]
    if not values:
        return None
    value = chooser.choice(values)
    dims = value.type.tensor_type.shape.dim
    choice = chooser.randrange(8)
    if choice == 0 and dims:
        del dims[chooser.randrange(len(dims))]
        return f"{value.name}: a dim less"
    if choice == 1:
        dims.add().dim_value = chooser.choice(DIMS)
        return f"{value.name}: a dim more"
    if choice == 2:
        value.type.tensor_type.ClearField("shape")
        return f"{value.name}: no shape"
    if not dims:
        return None
    chosen = chooser.choice(dims)
    if choice <= 5:
        chosen.dim_param = chooser.choice(["n", "m", "n", "batch size", "", "-1", "N"])
        return f"{value.name}: a dim '{chosen.dim_param}'"
    chosen.dim_value = chooser.choice(DIMS) if choice == 6 else _integer(chooser, chosen.dim_value)
    return f"{value.name}: a dim {chosen.dim_value}"


def dtype(model: onnx.ModelProto, chooser: random.Random) -> str | None:
    values = [v for g in graphs(model.graph) for v in (*g.input, *g.output, *g.value_info)]
    values = [v for v in values if v.type.HasField("tensor_type")]
    if not values:
        return None
    value = chooser.choice(values)
    value.type.tensor_type.elem_type = chooser.choice(TYPES)
    return f"{value.name}: type {value.type.tensor_type.elem_type}"


def all_dtypes(model: onnx.ModelProto, chooser: random.Random) -> str | None:
    """Replaces a dtype everywhere."""
    values = [v.type.tensor_type for g in graphs(model.graph) for v in (*g.input, *g.output, *g.value_info)]
    types = [v.elem_type for v in values]
    if not types:
        return None
    old, new = chooser.choice(types), chooser.choice(TYPES)
    for value in values:
        if value.elem_type == old:
            value.elem_type = new
    return f"type {old} -> {new}"


def symbols(model: onnx.ModelProto, chooser: random.Random) -> str | None:
    """Replaces a size by a symbol in all inputs."""
    dims = [d for v in model.graph.input for d in v.type.tensor_type.shape.dim if d.dim_value > 1]
    if not dims:
        return None
    size = chooser.choice(dims).dim_value
    for d in dims:
        if d.dim_value == size:
            d.dim_param = f"d{size}"
    for value in model.graph.output:
        for position, d in enumerate(value.type.tensor_type.shape.dim):
            d.dim_param = f"{value.name}_{position}"
    return f"size {size} a symbol"


def weight(model: onnx.ModelProto, chooser: random.Random) -> str | None:
    tensors = [t for g in graphs(model.graph) for t in g.initializer]
    if not tensors:
        return None
    tensor = chooser.choice(tensors)
    before = tensor.name
    _change_tensor(tensor, chooser)
    return f"weight {before}: {_short(tensor)}"


def _change_tensor(tensor: TensorProto, chooser: random.Random) -> None:
    choice = chooser.randrange(7)
    if choice == 0:
        tensor.data_type = chooser.choice(TYPES)
    elif choice == 1:
        tensor.dims[:] = _changed(list(tensor.dims), chooser, lambda _: chooser.choice(DIMS))
    elif choice == 2:
        tensor.raw_data = tensor.raw_data[: chooser.randint(0, len(tensor.raw_data))]
    elif choice == 3:
        tensor.name = chooser.choice(NAMES)
    elif choice == 4:
        tensor.data_location = TensorProto.EXTERNAL
        helper_entry = tensor.external_data.add()
        helper_entry.key, helper_entry.value = "location", chooser.choice(["none.bin", "", "../x", "/etc/passwd"])
    elif tensor.data_type in (TensorProto.INT64, TensorProto.INT32, TensorProto.FLOAT):
        array = numpy_helper.to_array(tensor).copy().reshape(-1)
        if array.size:
            at = chooser.randrange(array.size)
            integer = array.dtype.kind == "i"
            limit = np.iinfo(array.dtype).max if integer else 0
            new = _integer(chooser, int(array[at])) if integer else chooser.choice(FLOATS)
            array[at] = max(-limit - 1, min(limit, new)) if integer else new
            replaced = numpy_helper.from_array(array.reshape(tuple(tensor.dims)), tensor.name)
            tensor.CopyFrom(replaced)


def input_as_weight(model: onnx.ModelProto, chooser: random.Random) -> str | None:
    """Adds a weight of small random numbers for an input."""
    inputs = [v for v in model.graph.input if all(0 < d.dim_value < 100 for d in v.type.tensor_type.shape.dim)]
    if not inputs:
        return None
    value = chooser.choice(inputs)
    shape = [d.dim_value for d in value.type.tensor_type.shape.dim]
    values = np.random.default_rng(chooser.getrandbits(32)).integers(-2, 3, shape)
    stored = values.astype(helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type))
    model.graph.initializer.append(numpy_helper.from_array(stored, value.name))
    if chooser.random() < 0.7:
        model.graph.input.remove(value)
    return f"{value.name} a weight"


# Names, edges, nodes


def name(model: onnx.ModelProto, chooser: random.Random) -> str | None:
    """Replaces a name, everywhere in a graph or only in some places."""
    graph = _graph(model, chooser)
    old = chooser.choice(_names(graph))
    new = chooser.choice(NAMES) if chooser.random() < 0.7 else chooser.choice(_names(graph))
    everywhere = chooser.random() < 0.6
    for value in (*graph.input, *graph.output, *graph.initializer):
        if value.name == old:
            value.name = new
            if not everywhere:
                return f"'{old}' called '{new}' once"
    for node in graph.node:
        node.input[:] = [new if n == old else n for n in node.input]
        node.output[:] = [new if n == old else n for n in node.output]
    return f"'{old}' called '{new}'"


def edge(model: onnx.ModelProto, chooser: random.Random) -> str | None:
    node = _node(model, chooser)
    if node is None:
        return None
    ends = node.input if chooser.random() < 0.75 else node.output
    where = "reads" if ends is node.input else "gives"
    new = chooser.choice([*_names(model.graph), ""])
    choice = chooser.randrange(4)
    if choice == 0 and ends:
        del ends[chooser.randrange(len(ends))]
    elif choice == 1:
        ends.append(new)
    elif ends:
        ends[chooser.randrange(len(ends))] = new
    return f"{node.op_type} {where} {', '.join(ends)}"


def node(model: onnx.ModelProto, chooser: random.Random) -> str | None:
    graph = _graph(model, chooser)
    if not graph.node:
        return None
    at = chooser.randrange(len(graph.node))
    found = graph.node[at]
    choice = chooser.randrange(4)
    if choice == 0:
        del graph.node[at]
        return f"no {found.op_type}"
    if choice == 1:
        graph.node.insert(chooser.randint(0, len(graph.node)), found)
        return f"{found.op_type} twice"
    if choice == 2:
        old, found.op_type = found.op_type, chooser.choice(OPERATORS)
        return f"{old} -> {found.op_type}"
    found.domain = chooser.choice(["", "ai.onnx", "ai.onnx.ml", "acme", "com.microsoft"])
    return f"{found.op_type} of domain '{found.domain}'"


OPERATORS = sorted({s.name for s in onnx.defs.get_all_schemas() if not s.domain})


def opset(model: onnx.ModelProto, chooser: random.Random) -> str | None:
    if not model.opset_import or chooser.random() < 0.1:
        model.opset_import.add(domain=chooser.choice(["", "acme"]), version=chooser.choice([1, 7, 99]))
        return "an opset more"
    entry = chooser.choice(model.opset_import)
    entry.version = chooser.randint(1, 30) if chooser.random() < 0.8 else chooser.choice(INTEGERS)
    return f"opset {entry.version}"


def output(model: onnx.ModelProto, chooser: random.Random) -> str | None:
    graph = _graph(model, chooser)
    if chooser.random() < 0.4 and graph.output:
        del graph.output[chooser.randrange(len(graph.output))]
        return "an output less"
    new = chooser.choice(_names(graph))
    graph.output.append(helper.make_value_info(new, onnx.TypeProto()))
    if chooser.random() < 0.7:
        graph.output[-1].type.tensor_type.elem_type = TensorProto.FLOAT
    return f"output '{new}' more"


MUTATIONS: dict[Mutation, int] = {
    attribute_value: 12,
    attribute_gone: 2,
    attribute_added: 5,
    attribute_kind: 1,
    dim: 5,
    dtype: 2,
    all_dtypes: 2,
    symbols: 4,
    weight: 4,
    input_as_weight: 4,
    name: 2,
    edge: 4,
    node: 2,
    opset: 1,
    output: 1,
}
