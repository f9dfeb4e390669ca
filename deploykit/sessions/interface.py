"""What a session takes and gives, as data and as text: `session.inputs`, `session.outputs`, `repr(session)`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from deploykit.artifact.manifest import AffineEntry, Manifest, PortEntry
from deploykit.sessions.structure import Structure


@dataclass(frozen=True)
class ValueInfo:
    """An input or an output.

    `shape` has numbers, names of dims, and formulas over them; `bounds` gives the least and the greatest value of each
    of these dims, None where there is no bound. `kind` says what the value is: a `tensor`; a `ragged` tensor, a list of
    arrays of which `shape` is that of one; a tensor of `string`s; a `sequence` or an `optional`, which consist of
    `items`; or `nothing`. An `instance` is a parameter of a dynamic model or what it returns, and `dtype` its type.
    `quantization` is set for integers that stand for `(integer - zero_point) * scale`."""

    name: str
    dtype: str
    shape: tuple[int | str, ...] = ()
    bounds: Mapping[str, tuple[int, int | None]] = field(default_factory=dict)
    kind: str = "tensor"
    items: tuple[ValueInfo, ...] = ()
    quantization: AffineEntry | None = None

    def __str__(self) -> str:
        if self.kind == "instance":
            return f"{self.name} {self.dtype}"
        if self.kind == "nothing":
            return f"{self.name} None"
        if self.items:
            return f"{self.name} {self.kind} of ({', '.join(map(str, self.items))})"
        ragged = "a list of " if self.kind == "ragged" else ""
        return f"{self.name} {ragged}{self.dtype}[{', '.join(map(str, self.shape))}]"


def inputs_of(manifest: Manifest) -> tuple[ValueInfo, ...]:
    """What a function takes, without the lengths of ragged inputs. `manifest` is the manifest of one function."""
    if manifest.dynamic is not None:
        return tuple(ValueInfo(name, kind, kind="instance") for name, kind in manifest.dynamic.takes.items())
    lengths = {str(extent) for port in manifest.inputs for extent in port.instance or ()}
    return tuple(info for info in _infos(manifest, manifest.inputs, manifest.taken) if info.name not in lengths)


def outputs_of(manifest: Manifest) -> tuple[ValueInfo, ...]:
    """What a function gives."""
    if manifest.dynamic is not None:
        return (ValueInfo("result", manifest.dynamic.gives, kind="instance"),)
    return tuple(_infos(manifest, manifest.outputs, manifest.given))


def text_of(manifest: Manifest) -> str:
    """The inputs, the outputs and the bounds of dims in a line, for each function."""
    if not manifest.functions:
        return _line(manifest)
    return "; ".join(f"{entry.name}: {_line(manifest.function(entry.name))}" for entry in manifest.functions)


def _line(manifest: Manifest) -> str:
    inputs, outputs = inputs_of(manifest), outputs_of(manifest)
    bounds: dict[str, tuple[int, int | None]] = {}
    for info in (*inputs, *outputs):
        for part in (info, *info.items):
            bounds |= part.bounds
    dims = [f"{name} {least}..{'' if most is None else most}" for name, (least, most) in bounds.items()]
    taken, given = (", ".join(map(str, infos)) or "nothing" for infos in (inputs, outputs))
    return ", ".join([f"{taken} -> {given}", *dims])


def _infos(manifest: Manifest, ports: Sequence[PortEntry], structures: Sequence[Structure]) -> Iterator[ValueInfo]:
    rest = iter(ports)
    for structure in structures:
        yield _info(manifest, structure, rest)


def _info(manifest: Manifest, structure: Structure, ports: Iterator[PortEntry]) -> ValueInfo:
    """The value whose ports come next."""
    if structure.kind in ("tensor", "string"):
        port = next(ports)
        if structure.kind == "string":
            next(ports)  # the bytes
        return _tensor(manifest, port, structure)
    if structure.kind == "optional":
        next(ports)  # whether it is present
    items = tuple(_info(manifest, item, ports) for item in structure.items)
    return ValueInfo(structure.name, structure.kind, kind=structure.kind, items=items)


def _tensor(manifest: Manifest, port: PortEntry, structure: Structure) -> ValueInfo:
    ragged = port.instance is not None
    shape = port.shape if port.instance is None else port.instance
    names = set(re.findall(r"[A-Za-z_]\w*", " ".join(map(str, port.shape))))
    bounds = {dim.name: (dim.minimum, dim.maximum) for dim in manifest.dims if dim.name in names}
    kind = "ragged" if ragged else structure.kind
    return ValueInfo(structure.name, port.dtype, shape, bounds, kind, quantization=port.quantization)
