"""Instances of a dynamic model in JavaScript: their types in TypeScript.

    Tree = Leaf | Node      { type: 'Leaf'; word: number } | { type: 'Node'; left: Tree; right: Tree }
    Tensor[4]               Float32Array | readonly number[]
    list[int]               readonly number[]
    tuple[int, Tree]        readonly [number, Tree]

Results have `Float32Array` alone for a tensor, and arrays that may be changed; unions in them are `TreeResult`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from deploykit.compiler.codegen.host.interface import describe_dynamic
from deploykit.dynamic.policies import POLICIES
from deploykit.dynamic.signatures import Signature
from deploykit.dynamic.types import Bool, Float, Int, List, Tensor, Tuple, Type, Union, Variant, unions_in
from deploykit.errors import UsageError
from deploykit.targets.webgpu.examples import LINE, TAG, example, written

if TYPE_CHECKING:
    from deploykit.compiler.batching.model import DynamicModel

_TAKEN = frozenset(
    (
        *("AbortSignal", "Dims", "Error", "Float32Array", "Instance", "LoadOptions", "Model", "Own", "Policy"),
        *("Promise", "Result", "URL", "load"),
        *("DataError", "DeploykitError", "DeviceLostError", "IntegrityError", "MemoryError", "NetworkError"),
        *("ShapeError", "UnsupportedError", "UsageError", "WorkerError"),
        *("any", "bigint", "boolean", "never", "null", "number", "object", "string", "symbol", "undefined", "unknown"),
        "void",
    )
)
"""Names that the declarations use otherwise; a union of such a name gets a `_` behind it."""


def instances_view(model: DynamicModel) -> dict[str, Any]:
    """What the templates of a dynamic model need. Raises `UsageError` if a dataclass among several has a field `type`,
    because objects in JavaScript name their dataclass there."""
    signature = Signature(model.control.takes, model.control.gives, model.unions)
    takes = [kind for _, kind in signature.takes]
    taken, gives = unions_in(takes, signature.unions), unions_in([signature.gives], signature.unions)
    several = (variants for variants in (taken | gives).values() if len(variants) > 1)
    for variant in (variant for variants in several for variant in variants):
        if TAG in dict(variant.fields):
            text = f"'{variant.name}' has a field '{TAG}', which names the dataclass in JavaScript: rename it"
            raise UsageError(text)
    instances = [example(signature)]
    return {
        "unions": {_declared(union): _union(variants, given) for union, variants in taken.items()}
        | {_result(union): _union(variants, returned) for union, variants in gives.items()},
        "instance": given(takes[0]) if len(takes) == 1 else _parameters(signature),
        "result": returned(signature.gives),
        "signature": f"main({', '.join(f'{name}: {kind}' for name, kind in signature.takes)}) -> {signature.gives}",
        "entry": describe_dynamic(model).model_dump_json(),
        "policies": list(POLICIES),
        "policy": model.policy,
        "example": written(instances, json_text=False),
        "example_json": written(instances, json_text=True),
    }


def given(kind: Type) -> str:
    """The type of a value in an instance."""
    match kind:
        case Int() | Float():
            return "number"
        case Bool():
            return "boolean"
        case Tensor(shape):
            nested = "number"
            for _ in shape:
                nested = f"readonly {nested}[]" if nested == "number" else f"readonly ({nested})[]"
            return f"Float32Array | {nested}"
        case List(item):
            text = given(item)
            return f"readonly ({text})[]" if " " in text else f"readonly {text}[]"
        case Tuple(items):
            return f"readonly [{', '.join(map(given, items))}]"
        case Union(name):
            return _declared(name)


def returned(kind: Type) -> str:
    """The type of a value that `main` returns."""
    match kind:
        case Tensor():
            return "Own<Float32Array>"
        case List(item):
            return f"{returned(item)}[]"
        case Tuple(items):
            return f"[{', '.join(map(returned, items))}]"
        case Union(name):
            return _result(name)
        case _:
            return given(kind)


def _parameters(signature: Signature) -> str:
    """The type of a tuple of all parameters."""
    parts = [f"{name}: {given(kind)}{_shape(kind)}" for name, kind in signature.takes]
    line = ", ".join(parts)
    lines = "".join(f"  {part},\n" for part in parts)
    return f"readonly [{line}]" if len(line) <= LINE else f"readonly [\n{lines}]"


def _declared(union: str) -> str:
    return f"{union}_" if union in _TAKEN else union


def _result(union: str) -> str:
    return _declared(f"{union}Result")


def _union(variants: Sequence[Variant], typed: Callable[[Type], str]) -> str:
    objects = [_object(variant, typed, alone=len(variants) == 1) for variant in variants]
    lines = "".join(f"\n  | {each}" for each in objects) if len(objects) > 1 else objects[0]
    return " | ".join(objects) if sum(map(len, objects)) <= LINE else lines


def _object(variant: Variant, typed: Callable[[Type], str], *, alone: bool) -> str:
    """The type of objects of a dataclass. Where it is the only one, instances need not name it."""
    tag = [] if TAG in dict(variant.fields) else [f"{TAG}{'?' if alone and typed is given else ''}: '{variant.name}'"]
    fields = [f"{name}: {typed(kind)}{_shape(kind)}" for name, kind in variant.fields]
    text = f"{{ {'; '.join([*tag, *fields])} }}"
    if len(text) <= LINE:
        return text
    indent = "  " if alone else "      "
    return "".join(["{\n", *(f"{indent}{field};\n" for field in [*tag, *fields]), indent[2:], "}"])


def _shape(kind: Type) -> str:
    tensor = kind.item if isinstance(kind, List) else kind
    return f" /* {kind} */" if isinstance(tensor, Tensor) else ""
