"""The Java classes of a model, from templates: a typed class for the model, and classes that all models have alike.

An input or output becomes a `Tensor`; a dim becomes a parameter `long`. Types of elements that Java does not have are
the integers of their size. If the sizes of all inputs follow from dims, the model can also be run on arrays.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from deploykit.dtypes import logical_dtype
from deploykit.targets.templates import render

_PACKAGE = "deploykit.targets.android"

KINDS = {
    "float32": "float",
    "float64": "double",
    "float16": "short",
    "int64": "long",
    "int32": "int",
    "int16": "short",
    "int8": "byte",
    "uint64": "long",
    "uint32": "int",
    "uint16": "short",
    "uint8": "byte",
    "bool": "byte",
}
"""The Java types of elements, by storage dtype."""

CLASSES = (*("Assets", "AndroidSystem", "Device", "Memory", "Native", "Options", "Progress", "Session", "Tensor"),)
"""The classes that all models have, beside exceptions."""

EXCEPTIONS = {
    "DeploykitException": ("RuntimeException", "The base of what a model raises."),
    "ShapeException": ("DeploykitException", "An input's type, rank or sizes do not fit the model."),
    "DataException": ("DeploykitException", "A value inside of an input is out of its range."),
    "MemoryException": ("DeploykitException", "Memory is short."),
    "DeviceException": ("DeploykitException", "The device is missing, failed, or lacks what the model needs."),
    "WeightsException": ("DeploykitException", "The weights are missing, or not those of the model."),
    "ClosedException": ("DeploykitException", "The model is closed."),
}

_STUBS = {
    "android/app": ("ActivityManager",),
    "android/content": ("Context",),
    "android/content/res": ("AssetFileDescriptor", "AssetManager"),
    "android/os": ("ParcelFileDescriptor",),
    "androidx/annotation": ("NonNull", "Nullable"),
}
"""By folder, the classes of Android that the sources name. They are declared for the compiler, and do not ship."""

_KEYWORDS = """
abstract assert boolean break byte case catch char class const continue default do double else enum extends final
finally float for goto if implements import instanceof int interface long native new package private protected public
return short static strictfp super switch synchronized this throw throws transient try void volatile while true false
null
"""

KEYWORDS = frozenset(_KEYWORDS.split())

_WORDS = frozenset((*KEYWORDS, "executor", "session", "device", "bytes", "outputs"))
"""Words of the language, and names that the model's class has itself."""

_TAKEN = """
ActivityManager Arrays AssetFileDescriptor AutoCloseable ByteBuffer ByteOrder Closeable Collections Context Executor
File FileInputStream FileNotFoundException Future FutureTask IOException InputStream Integer List Long Math NonNull
Nullable Object OutOfMemoryError Override Result Runtime RuntimeException StandardCharsets String System
"""
"""Names of classes that the sources use."""


def sources(view: Mapping[str, Any]) -> dict[str, str]:
    """The sources by path. `view` is that of `package_view`, with the name of the package."""
    folder = str(view["package"]).replace(".", "/")
    model = model_view(view)
    texts = {f"{folder}/{model['class']}.java": render(_PACKAGE, "java/Model.java", model)}
    for name in CLASSES:
        texts[f"{folder}/{name}.java"] = render(_PACKAGE, f"java/{name}.java", view)
    for name, (base, meaning) in EXCEPTIONS.items():
        own = {"package": view["package"], "exception": name, "base": base, "meaning": meaning}
        texts[f"{folder}/{name}.java"] = render(_PACKAGE, "java/exception.java", own)
    return texts


def stubs() -> dict[str, str]:
    """Declarations of the classes of Android, by path."""
    return {
        f"{folder}/{name}.java": render(_PACKAGE, f"stubs/{name}.java", {})
        for folder, names in _STUBS.items()
        for name in names
    }


def model_view(view: Mapping[str, Any]) -> dict[str, Any]:
    """What the template of the model's class needs."""
    dims = view["dims"]
    words = _unique([port["name"] for port in view["inputs"]] + [dim["name"] for dim in dims])
    inputs = [_port(port, word) for port, word in zip(view["inputs"], words, strict=False)]
    fields = output_words(port["name"] for port in view["outputs"])
    outputs = [_port(port, word) for port, word in zip(view["outputs"], fields, strict=True)]
    named = [_dim(dim, word) for dim, word in zip(dims, words[len(inputs) :], strict=True)]
    chosen = [dim for dim in named if not dim["capacity"]]
    tensors = [f"@NonNull Tensor {port['word']}" for port in inputs]
    simple = bool(inputs) and all(isinstance(axis["dim"], int) or axis["extent"] for axis in _axes(view["inputs"]))
    sizes = [dim["declared"] for dim in chosen] if simple else []
    arrays = [f"@NonNull {port['java']}[] {port['word']}" for port in inputs] + sizes if simple else []
    made = [_made(port, own["axes"], named) for port, own in zip(inputs, view["inputs"], strict=True)] if simple else []
    return {
        **{name: view[name] for name in ("package", "prefix")},
        "weights_bytes": view["file_bytes"],
        "class": class_name(view["prefix"]),
        "inputs": inputs,
        "outputs": outputs,
        "dims": named,
        "chosen": chosen,
        "tensors": tensors,
        "arrays": arrays,
        "made": made,
        "sizes": sizes,
    }


def package_name(prefix: str) -> str:
    """The package of a model's classes, if none is chosen."""
    word = prefix.lower()
    return f"org.deploykit.{word}_" if word in KEYWORDS else f"org.deploykit.{word}"


def class_name(prefix: str) -> str:
    """The name of a model's class: `my_model` becomes `MyModel`."""
    name = "".join(part[:1].upper() + part[1:] for part in prefix.split("_"))
    return f"{name}Model" if name in (*CLASSES, *EXCEPTIONS, *_TAKEN.split()) else name


def output_words(names: Iterable[str]) -> list[str]:
    """The names of the fields of a result, for outputs of these names."""
    return _unique(names)


def _port(port: Mapping[str, Any], word: str) -> dict[str, Any]:
    dtype = logical_dtype(port["type"].partition("[")[0])
    java = KINDS[dtype.storage.name]
    text = f"{port['name']} {port['type']}".replace("*/", "* /").replace("{", "(").replace("}", ")")
    return {"word": word, "text": text, "code": dtype.code, "java": java, "type": f"Tensor.Type.{java.upper()}"}


def _dim(dim: Mapping[str, Any], word: str) -> dict[str, Any]:
    bounds = f"{dim['minimum']}..{'' if dim['maximum'] < 0 else dim['maximum']}"
    value = f"{dim['minimum']}L" if dim["capacity"] else word
    own = {"declared": f"long {word}", "bounds": bounds, "bounds_text": f"{word} {bounds}", "value": value}
    return own | {"word": word, "capacity": dim["capacity"]}


def _axes(ports: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [axis | {"extent": axis["dim"] == "DK_AXIS_FIXED"} for port in ports for axis in port["axes"]]


def _made(port: Mapping[str, Any], axes: Sequence[Mapping[str, Any]], dims: Sequence[Mapping[str, Any]]) -> str:
    """The expression that makes a tensor of an array."""
    shape = [dims[axis["dim"]]["word"] if isinstance(axis["dim"], int) else str(axis["extent"]) for axis in axes]
    return f"Tensor.of({', '.join([port['word'], *shape])})"


def _unique(names: Iterable[str]) -> list[str]:
    """Java identifiers for names, all different."""
    found: list[str] = []
    for name in names:
        word = re.sub(r"[^0-9A-Za-z_]", "_", name).strip("_")
        word = word if word[:1].isalpha() else f"v{word}"
        word = f"{word}_" if word in _WORDS else word
        number, first = 2, word
        while word in found:
            word, number = f"{first}{number}", number + 1
        found.append(word)
    return found
