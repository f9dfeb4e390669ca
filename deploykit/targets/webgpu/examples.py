"""An example of the instances of a dynamic model, as JSON and as an expression in JavaScript."""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import prod
from typing import Any

from deploykit.dynamic.signatures import Signature
from deploykit.dynamic.types import Bool, Float, Int, List, Tensor, Tuple, Type, Union, depth_of, least_depths

TAG = "type"
"""The member of an object that names its dataclass."""

RANDOM = "random"
"""In examples as JSON, `{"random": [4]}` stands for a tensor of random numbers."""

LINE = 100
"""Characters: a longer type or example has a line for each of its parts."""


def example(signature: Signature) -> Any:
    """An instance as JSON. Recursive types are entered once; numbers are 0, because they may be indices."""
    least = least_depths(signature.unions)
    values = [_example(kind, signature, least, depth=0) for _, kind in signature.takes]
    return values[0] if len(values) == 1 else values


def _example(kind: Type, signature: Signature, least: Mapping[str, float], depth: int) -> Any:
    match kind:
        case Int() | Float():
            return 0
        case Bool():
            return False
        case Tensor(shape):
            return {RANDOM: list(shape)}
        case List(item):
            # Items of inner lists may refer to other items by numbers, of which 0 need not be a right one.
            return [_example(item, signature, least, depth + 1) for _ in range(2 if depth == 0 else 0)]
        case Tuple(items):
            return [_example(item, signature, least, depth) for item in items]
        case Union(name):
            variants = signature.unions[name]
            variant = (max if depth == 0 else min)(variants, key=lambda each: depth_of(each, least))
            fields = {field: _example(each, signature, least, depth + 1) for field, each in variant.fields}
            return ({} if TAG in fields else {TAG: variant.name}) | fields


def written(value: Any, *, json_text: bool, indent: str = "") -> str:
    """An example as JSON or as an expression. What does not fit in a line has a line for each part."""
    if isinstance(value, dict) and RANDOM in value and not json_text:
        return f"new Float32Array({prod(value[RANDOM])})"
    if isinstance(value, str) and not json_text:
        return f"'{value}'"
    if not isinstance(value, dict | list):
        return json.dumps(value)
    inner = f"{indent}  "
    if isinstance(value, dict):
        names = {name: json.dumps(name) if json_text else name for name in value}
        parts = [f"{names[name]}: {written(each, json_text=json_text, indent=inner)}" for name, each in value.items()]
        line, ends = f"{{ {', '.join(parts)} }}", "{}"
    else:
        parts = [written(each, json_text=json_text, indent=inner) for each in value]
        line, ends = f"[{', '.join(parts)}]", "[]"
    if len(indent) + len(line) <= LINE and "\n" not in line:
        return line
    return ends[0] + "".join(f"\n{inner}{part}," for part in parts).removesuffix(",") + f"\n{indent}{ends[1]}"
