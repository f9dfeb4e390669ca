"""Builds models once for each target, and compares what artifacts return with what the models return in Python."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

import deploykit
from deploykit.dynamic import Model
from deploykit.targets.base import Target

EMBEDDED = {
    "batch": (0, 64),
    "words": (0, 100_000),
    "capacity_control": (4096, 1 << 20),
    "capacity_pool": (4096, 1 << 20),
}
"""The bounds of dims on microcontrollers."""

Built: TypeAlias = Callable[..., Path]
"""`built(model, target="host", exact=False)`: the folder of the artifact of a class of `models`."""


def build(source: str, folder: Path, target: str | Target = "host", **options: Any) -> Path:
    """The folder of the artifact of `file.py:Model`."""
    dims = None
    if target == "embedded":
        name = "elements"
        dims = dict(EMBEDDED) | ({name: (0, 100_000)} if options.pop("elements", False) else {})
    options.pop("elements", None)
    deploykit.build(source, target, dims, folder, **options)
    return folder


def parameters(model: type[Model]) -> int:
    """How many parameters `main` takes."""
    main: Any = vars(model)["main"]
    return main.__code__.co_argcount - 1


def eager(model: Model, instances: Sequence[Any]) -> list[Any]:
    """What the model returns in Python for each instance."""
    main: Any = getattr(model, "main")  # noqa: B009
    single = parameters(type(model)) == 1
    return [main(each) if single else main(*each) for each in instances]


def leaves(value: Any) -> Iterator[Any]:
    """The numbers and tensors of results; a list also gives its length, an object its fields."""
    if isinstance(value, list | tuple):
        yield len(value)
        for item in value:
            yield from leaves(item)
    elif hasattr(value, "__dict__"):
        yield from leaves(list(vars(value).values()))
    else:
        yield value


def assert_close(found: Any, expected: Any, tolerance: float = 1e-5) -> None:
    """Numbers of the control flow are equal, tensors and floats are close."""
    pairs = list(zip(leaves(found), leaves(expected), strict=True))
    for ours, theirs in pairs:
        if isinstance(theirs, int):
            assert isinstance(ours, bool) is isinstance(theirs, bool)
            assert ours == theirs
        else:
            assert np.shape(ours) == np.shape(theirs)
            np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)


def assert_same_bits(found: Any, expected: Any) -> None:
    for ours, theirs in zip(leaves(found), leaves(expected), strict=True):
        np.testing.assert_array_equal(np.asarray(ours), np.asarray(theirs), strict=True)
