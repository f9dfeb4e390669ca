"""What a user asks for as a stream: the axis of inputs whose frames come one after the other.

time        a dim of the model, which inputs have as an axis
x:2         axis 2 of the input 'x', whose size is then the window of the model, if it is fixed
time=50     a window of 50 frames, for the operators of a model that mix all frames
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import onnx_ir as ir

from deploykit.errors import UsageError
from deploykit.frontends.onnx.names import dim_name

NEW = "frames"
"""The dim of new frames where the model's file has a number."""


@dataclass(frozen=True)
class Asked:
    """The `dim` of new frames, the axes of inputs that have it, and the frames of the model's window, if it has one;
    `fixed`: the model's file has this number."""

    dim: str
    axes: Mapping[str, int]
    window: int | None
    fixed: bool

    @classmethod
    def of(cls, model: ir.Model, text: str) -> Asked:
        """What `text` asks of a model, whose input gets a dim in the place of a fixed size. Raises `UsageError`."""
        name, _, number = text.partition("=")
        window = _window(number, text) if number else None
        fixed = None
        inputs = {v.name or "": v for v in model.graph.inputs if v.name not in model.graph.initializers}
        port, colon, axis = name.rpartition(":")
        if colon:
            name, fixed = _named(inputs, port, axis)
            if fixed is not None and window not in (None, fixed):
                raise UsageError(f"--stream {text}: the model's window has {fixed} frames")
            window = fixed if window is None else window
        axes = {
            each: [place for place, size in enumerate(_shape(value)) if _name(each, place, size) == name]
            for each, value in inputs.items()
        }
        found = {each: places[0] for each, places in axes.items() if places}
        if not found or any(len(places) > 1 for places in axes.values()):
            dims = {
                _name(e, p, s) for e, v in inputs.items() for p, s in enumerate(_shape(v)) if not isinstance(s, int)
            }
            known = f"its dims are {', '.join(sorted(dims))}" if dims else "its inputs have fixed sizes"
            raise UsageError(f"no input has one axis '{name}' to stream; {known}. An axis is given as in --stream x:1")
        return cls(name, found, window, fixed is not None)

    def sizes(self, bounds: int | tuple[int, int | None] | None, hop: int) -> int | tuple[int, int | None]:
        """The numbers of new frames of a run within `bounds`. Raises `UsageError` if there is none."""
        low, high = (bounds, bounds) if isinstance(bounds, int) else bounds or (hop, None)
        first = max(-(-low // hop), 1) * hop
        last = None if high is None else high // hop * hop
        if last is not None and last < first:
            raise UsageError(
                f"'{self.dim}', the new frames of a run, is a multiple of {hop}: say --dim {self.dim}={first}"
            )
        return first if isinstance(bounds, int) else (first, last)


def _window(number: str, text: str) -> int:
    if not number.isdecimal() or int(number) < 1:
        raise UsageError(f"--stream {text}: a window is a number of frames, as in --stream time=50")
    return int(number)


def _named(inputs: Mapping[str, ir.Value], port: str, axis: str) -> tuple[str, int | None]:
    """The name of the dim of an axis, and its size in the file, if that is fixed; it gets a dim then."""
    if port not in inputs:
        raise UsageError(f"there is no input '{port}' to stream; the model has {', '.join(map(repr, inputs))}")
    shape = _shape(inputs[port])
    if not axis.removeprefix("-").isdecimal() or not -len(shape) <= int(axis) < len(shape):
        raise UsageError(f"input '{port}' has {len(shape)} axes; say which one to stream, as in --stream {port}:1")
    place = int(axis) % len(shape)
    size = shape[place]
    if not isinstance(size, int):
        return dim_name(port, place, size.value), None
    taken = {_name(e, p, s) for e, v in inputs.items() for p, s in enumerate(_shape(v))}
    name = next(each for each in (NEW, f"new_{NEW}", f"{port}_dim{place}") if each not in taken)
    inputs[port].shape = ir.Shape([ir.SymbolicDim(name) if p == place else s for p, s in enumerate(shape)])
    return name, size


def _shape(value: ir.Value) -> tuple[int | ir.SymbolicDim, ...]:
    return tuple(value.shape or ())


def _name(port: str, axis: int, size: int | ir.SymbolicDim) -> str:
    return "" if isinstance(size, int) else dim_name(port, axis, size.value)
