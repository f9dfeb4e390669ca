"""One function of an artifact: the user's arrays in, new arrays out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, overload

import numpy as np
from numpy.typing import ArrayLike

from deploykit.basics.dtypes import LogicalDtype, as_array, from_storage, logical_dtype, to_storage
from deploykit.basics.sizes import whole
from deploykit.engines import KeepingEngine, on_host
from deploykit.engines.native.held import Held
from deploykit.errors import ShapeError, UsageError
from deploykit.sessions.device_array import DeviceArray
from deploykit.sessions.interface import ValueInfo, inputs_of, outputs_of, text_of
from deploykit.sessions.ragged_array import Ragged
from deploykit.sessions.ragged_ports import packed, ragged_ports, unpacked
from deploykit.sessions.structure import put_together, taken_apart

if TYPE_CHECKING:
    from deploykit.artifact.manifest import DimEntry, Manifest, PortEntry
    from deploykit.engines import Engine

Value: TypeAlias = ArrayLike | Ragged | DeviceArray
"""An input as a session takes it: an array, a number or a list, or what an earlier run kept on the device; for a ragged
input see `deploykit.sessions.ragged_ports`."""


class Function:
    """One function of an artifact. Call it with the inputs by name; it returns the outputs by name, as new arrays. Any
    thread may call it at any time."""

    def __init__(
        self, name: str | None, manifest: Manifest, engine: Engine, again: Callable[[str | None], Function]
    ) -> None:
        """`manifest` is the manifest of this function. `name` is None for the only function of an artifact. `again`
        gives the same function of the artifact opened again."""
        self._again = again
        self._name = name
        self._engine = engine
        self._dims = {dim.name: dim for dim in manifest.dims}
        self._inputs = {port.name: (port, array_dtype(port)) for port in manifest.inputs}
        self._outputs = [(port.name, array_dtype(port)) for port in manifest.outputs]
        self._inputs_as = {structure.name: structure for structure in manifest.inputs_as}
        self._outputs_as = manifest.outputs_as
        self._ragged = ragged_ports(manifest)
        self._manifest = manifest

    def __call__(self, /, **inputs: Value) -> dict[str, np.ndarray]:
        """Run the function. Arrays must have the dtype of their input; numbers and lists are converted to it.

        A ragged input is a list of arrays, one for each instance, or a `Ragged`; a ragged output is a `Ragged`. Lengths
        need not be given then.

        Raises `ShapeError` when a name, dtype, rank or dim does not fit, and `UsageError` when memory is short.
        """
        return self.run(inputs)

    @overload
    def run(self, inputs: Mapping[str, Value]) -> dict[str, np.ndarray]: ...

    @overload
    def run(self, inputs: Mapping[str, Value], keep: Collection[str]) -> dict[str, Any]: ...

    def run(self, inputs: Mapping[str, Value], keep: Collection[str] = ()) -> dict[str, Any]:
        """The same as a call, for inputs whose names are not Python identifiers, and to keep outputs on the device.

        Each output in `keep` is a `DeviceArray`, which later runs take as an input; on a GPU it stays in its memory.
        Raises `UsageError` for a name in `keep` that is no output, or that is ragged or consists of several tensors,
        and for a `DeviceArray` of another session."""
        try:
            values = inputs.values()
        except AttributeError:
            raise self._no_names(inputs) from None
        if keep or any(isinstance(value, DeviceArray) for value in values):
            return self._run_kept(inputs, keep)
        taken = self._arrays(inputs)
        results = self._engine.run(taken, self._name)
        return self._outputs_of(taken, results)

    @property
    def inputs(self) -> tuple[ValueInfo, ...]:
        """Names, dtypes, shapes and bounds of what it takes; ragged inputs bring their lengths with them."""
        return inputs_of(self._manifest)

    @property
    def outputs(self) -> tuple[ValueInfo, ...]:
        """Names, dtypes, shapes and bounds of what it gives."""
        return outputs_of(self._manifest)

    def __repr__(self) -> str:
        return f"<Function {self._manifest.name}: {text_of(self._manifest)}>"

    def _no_names(self, given: object) -> UsageError:
        """The error for inputs that are no mapping."""
        names = ", ".join(f"'{info.name}': ..." for info in self.inputs)
        return UsageError(f"inputs are given by name: pass {{{names}}}, not {type(given).__name__}")

    def _run_kept(self, inputs: Mapping[str, Value], keep: Collection[str]) -> dict[str, Any]:
        """A run some of whose inputs or outputs stay on the device."""
        stay = self._kept_outputs(keep)
        if inputs.keys() != self._inputs.keys():
            self._refuse_names(inputs, self._inputs)
        taken = [self._given(name, inputs[name]) for name in self._inputs]
        if isinstance(self._engine, KeepingEngine):
            results = self._engine.run_kept(taken, stay, self._name)
        else:
            results = list(self._engine.run(on_host(self._inputs, taken), self._name))
        arrays = {
            name: DeviceArray(result, dtype) for (name, dtype), result in zip(self._outputs, results, strict=True)
        }
        return {name: array if name in keep else array.value for name, array in arrays.items()}

    def _given(self, name: str, value: Value) -> np.ndarray | Held:
        """An input as engines take it."""
        given: Any = value.value if isinstance(value, DeviceArray) else value
        return given if isinstance(given, Held) else _stored(*self._inputs[name], given)

    def _kept_outputs(self, keep: Collection[str]) -> list[int]:
        """The indices of outputs to keep."""
        if isinstance(keep, str):
            raise UsageError(f"keep takes a list of names: pass ['{keep}']")
        if self._ragged is not None or self._outputs_as or self._inputs_as or self._manifest.dynamic is not None:
            kind = "dynamic" if self._manifest.dynamic is not None else "ragged" if self._ragged is not None else ""
            why = f"this model is {kind}" if kind else "inputs or outputs of this model consist of several tensors"
            raise UsageError(f"values stay on the device only where each is one tensor: {why}")
        names = [name for name, _ in self._outputs]
        for name in keep:
            if name not in names:
                raise UsageError(f"there is no output '{name}' to keep; the model has {', '.join(map(repr, names))}")
        return [names.index(name) for name in keep]

    def _outputs_of(self, taken: Sequence[np.ndarray], results: Sequence[np.ndarray]) -> dict[str, Any]:
        arrays = [from_storage(r, dtype) for (_, dtype), r in zip(self._outputs, results, strict=True)]
        if self._ragged is not None:
            arrays = packed(self._ragged, self._manifest, taken, arrays)
        if self._outputs_as:
            parts = iter(arrays)
            return {structure.name: put_together(structure, parts) for structure in self._outputs_as}
        return {name: array for (name, _), array in zip(self._outputs, arrays, strict=True)}

    def __reduce__(self) -> tuple[Callable[[str | None], Function], tuple[str | None]]:
        """A copy, also in another process, is a function of the artifact opened again."""
        return self._again, (self._name,)

    def peak_bytes(self, dims: Mapping[str, int]) -> int:
        """Bytes of arena that a run with these dims needs, in addition to weights, states, inputs and outputs.

        Raises `UsageError` for a missing, unknown or out-of-bounds dim.
        """
        require_known(dims, self._dims)
        return self._engine.arena_bytes([value_of(dim, dims.get(name)) for name, dim in self._dims.items()], self._name)

    def _arrays(self, inputs: Mapping[str, Any]) -> list[np.ndarray]:
        if self._ragged is not None:
            inputs = unpacked(self._ragged, inputs)
        if self._inputs_as:
            inputs = self._ports(inputs)
        if inputs.keys() != self._inputs.keys():
            self._refuse_names(inputs, self._inputs)
        return [_stored(port, dtype, inputs[name]) for name, (port, dtype) in self._inputs.items()]

    def _ports(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The values by port, taken from inputs that may consist of several ports."""
        if inputs.keys() != self._inputs_as.keys():
            self._refuse_names(inputs, self._inputs_as)
        parts = [part for name, structure in self._inputs_as.items() for part in taken_apart(structure, inputs[name])]
        return dict(zip(self._inputs, parts, strict=True))

    def _refuse_names(self, inputs: Mapping[str, Any], known: Iterable[str]) -> None:
        listed = ", ".join(f"'{name}'" for name in known) or "no inputs"
        for name in inputs:
            if name not in known:
                raise ShapeError(f"there is no input '{name}'; the model has {listed}")
        for name in known:
            if name not in inputs:
                raise ShapeError(f"input '{name}' is missing; the model has {listed}")


def require_known(sizes: Mapping[str, int], dims: Mapping[str, DimEntry]) -> None:
    for name in sizes:
        if name not in dims:
            raise UsageError(f"there is no dim '{name}'; the model has {', '.join(dims) or 'none'}")


def value_of(dim: DimEntry, given: int | None) -> int:
    value = dim.minimum if given is None and dim.capacity_of is not None else given
    if value is None:
        raise UsageError(f"dim '{dim.name}' is missing")
    value = whole(dim.name, value)
    if value < dim.minimum or (dim.maximum is not None and value > dim.maximum):
        upper = "" if dim.maximum is None else dim.maximum
        raise UsageError(f"dim '{dim.name}' must be in {dim.minimum}..{upper}, found {value}")
    return value


def array_dtype(port: PortEntry) -> LogicalDtype:
    """The dtype of the array for a port; spans of strings are int64 numbers."""
    return logical_dtype("int64" if port.dtype == "string" else port.dtype)


def _stored(port: PortEntry, dtype: LogicalDtype, value: ArrayLike) -> np.ndarray:
    """The elements of one input as they are stored in memory, after checks of dtype and rank."""
    if type(value) is np.ndarray and value.dtype is dtype.storage is dtype.array and value.ndim == len(port.shape):
        return to_storage(value, dtype)
    array = as_array(port.name, value, dtype.array)
    if array.dtype.newbyteorder("=") != dtype.array:
        raise ShapeError(f"input '{port.name}': expected dtype {dtype.array}, found {array.dtype}; convert it first")
    if array.ndim != len(port.shape):
        shape = ", ".join(map(str, port.shape))
        raise ShapeError(f"input '{port.name}': expected rank {len(port.shape)} [{shape}], found shape {array.shape}")
    return to_storage(array, dtype)
