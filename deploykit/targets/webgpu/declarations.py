"""What the declarations for TypeScript say of inputs and outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from deploykit.basics.dtypes import logical_dtype

ARRAYS = {
    "float32": "Float32Array",
    "float64": "Float64Array",
    "float16": "Uint16Array",
    "int64": "BigInt64Array",
    "int32": "Int32Array",
    "int16": "Int16Array",
    "int8": "Int8Array",
    "uint64": "BigUint64Array",
    "uint32": "Uint32Array",
    "uint16": "Uint16Array",
    "uint8": "Uint8Array",
    "bool": "Uint8Array",
}
"""The JavaScript typed arrays, by storage dtype."""

_WHOLE = " | readonly (bigint | number)[]"
LISTS = {"int64": f" | Int32Array{_WHOLE}", "uint64": _WHOLE}
"""What else an input may be given as, by dtype, where that is not a list of numbers."""

OF_PICTURES = ("float32", "float64", "float16", "uint8")
"""The dtypes of inputs that take pictures, as in `picture.mjs`."""


def typed(port: Mapping[str, Any]) -> dict[str, str]:
    """The TypeScript types of a port: its array, what an input may be given as, and its shape as a tuple. For a ragged
    one, `instance` is the shape of an instance, `given` the type of a list of them, and `packed` that of their values
    with lengths or shapes."""
    dtype = port["type"].partition("[")[0]
    array = ARRAYS[logical_dtype(dtype).storage.name]
    extents = [str(axis["extent"]) if axis["dim"] == "DK_AXIS_FIXED" else "number" for axis in port["axes"]]
    elements = array + LISTS.get(dtype, " | readonly number[]" if dtype in ARRAYS and dtype != "float16" else "")
    types = {"dtype": dtype, "array": array, "elements": elements, "shape": f"[{', '.join(extents)}]"}
    if port["instance"] is None:
        return types
    first, *others = port["instance"]
    flat = not isinstance(first, str) or any(isinstance(extent, str) for extent in others)
    own = [str(extent) if isinstance(extent, int) else "number" for extent in port["instance"]]
    dense = f"{{ data: {elements}; shape: readonly number[] }}"
    several = own.count("number") > 1
    extents_type = "shapes: readonly ArrayLike<number>[]" if flat else "lengths: ArrayLike<number | bigint>"
    return types | {
        "instance": f"[{', '.join(own)}]",
        "given": f"readonly {dense}[]" if several else f"readonly ({elements} | {dense})[]",
        "packed": f"{{ values: {array}; {extents_type} }}",
    }


def pictured(ports: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The inputs that take pictures: one axis of four has 1 or 3 channels, or may have."""

    def may(axis: Mapping[str, Any]) -> bool:
        return axis["dim"] != "DK_AXIS_FIXED" or axis["extent"] in (1, 3)

    return [
        port
        for port in ports
        if port["instance"] is None
        and port["type"].partition("[")[0] in OF_PICTURES
        and len(port["axes"]) == 4
        and (may(port["axes"][1]) or may(port["axes"][3]))
    ]
