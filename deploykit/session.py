"""Running an artifact from Python: `open(folder)`, then `session(x=array)`.

A session checks the artifact, converts between the user's arrays and the elements in memory, and lets an engine do the
run. Sessions are independent of each other; one session serves one thread at a time.
"""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeAlias, overload

import numpy as np
from numpy.typing import ArrayLike

from deploykit.artifact.manifest import DimEntry, Manifest, PortEntry, read_manifest, verify_files
from deploykit.device_array import DeviceArray
from deploykit.dtypes import LogicalDtype, as_array, from_storage, logical_dtype, to_storage
from deploykit.engines import Engine, EngineOptions, KeepingEngine, StreamEngine, on_host
from deploykit.engines.native.functions import Functions
from deploykit.engines.native.held import Held
from deploykit.errors import ShapeError, UsageError
from deploykit.instances import Instances
from deploykit.ragged_array import Ragged
from deploykit.ragged_ports import packed, ragged_ports, unpacked
from deploykit.sizes import whole
from deploykit.structure import put_together, taken_apart
from deploykit.submissions import Handle, Submissions
from deploykit.targets.base import find_target
from deploykit.tasks.answering import Answering

if TYPE_CHECKING:
    from deploykit.artifact.plan import Plan
    from deploykit.dynamic.traces import Launch
    from deploykit.engines.native.profiled import Profiled, ProfiledOnGpu

Value: TypeAlias = ArrayLike | Ragged | DeviceArray
"""An input as a session takes it: an array, a number or a list, or what an earlier run kept on the device; for a ragged
input see `deploykit.ragged_ports`."""


def open(  # noqa: A001 - `deploykit.open`
    folder: str | Path,
    *,
    threads: int = 1,
    cpu: str | None = None,
    device: str | None = None,
    sanitize: bool = False,
    profile: bool = False,
) -> Session:
    """Open the artifact in `folder` as a session, with parallel loops on `threads` threads.

    If an artifact has kernels for several CPUs, the session takes those for `cpu`, by default the best that this CPU
    can run. An artifact for another kind of CPU runs under an emulator, with one thread. An artifact for the web runs
    on the `device` `wasm`, in node, or `webgpu`, in Chromium; other artifacts have no `device` to choose.

    With `sanitize` each run is a process of its own that stops at the first invalid memory access or undefined
    behaviour; runs are then slow and have one thread. With `profile` the host code is compiled again so that
    `step_times` gives the time of each step.

    Raises `ArtifactError` when the folder holds no artifact, or one that is damaged, and `ToolchainError` when a
    compiler is needed to run it here and there is none.
    """
    return Session(Path(folder), threads=threads, cpu=cpu, device=device, sanitize=sanitize, profile=profile)


class Function:
    """One function of an artifact. Call it with the inputs by name; it returns the outputs by name, as new arrays."""

    def __init__(self, name: str | None, manifest: Manifest, engine: Engine) -> None:
        """`manifest` is the manifest of this function. `name` is None for the only function of an artifact."""
        self._name = name
        self._engine = engine
        self._dims = {dim.name: dim for dim in manifest.dims}
        self._inputs = {port.name: (port, _array_dtype(port)) for port in manifest.inputs}
        self._outputs = [(port.name, _array_dtype(port)) for port in manifest.outputs]
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
        if keep or any(isinstance(value, DeviceArray) for value in inputs.values()):
            return self._run_kept(inputs, keep)
        taken = self._arrays(inputs)
        results = self._engine.run(taken, self._name)
        return self._outputs_of(taken, results)

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

    def peak_bytes(self, dims: Mapping[str, int]) -> int:
        """Bytes of arena that a run with these dims needs, in addition to weights, states, inputs and outputs.

        Raises `UsageError` for a missing, unknown or out-of-bounds dim.
        """
        _require_known(dims, self._dims)
        return self._engine.arena_bytes([_value(dim, dims.get(name)) for name, dim in self._dims.items()], self._name)

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


class Session(Answering):
    """A loaded artifact. Call it with the inputs by name; it returns the outputs by name, as new arrays.

    If the artifact has several functions, call those in `functions` instead. States are zeros of their least sizes
    until `reset`."""

    def __init__(
        self,
        folder: Path,
        *,
        threads: int = 1,
        cpu: str | None = None,
        device: str | None = None,
        sanitize: bool = False,
        profile: bool = False,
    ) -> None:
        if threads < 1:
            raise UsageError(f"threads must be at least 1, found {threads}")
        if sanitize and profile:
            raise UsageError("a sanitized session cannot be profiled")
        if cpu is not None and sanitize:
            raise UsageError("the kernels for a CPU cannot be chosen in a sanitized session")
        if device is not None and sanitize:
            raise UsageError("the device cannot be chosen in a sanitized session")
        self.manifest: Manifest = read_manifest(folder)
        verify_files(folder, self.manifest)
        self.folder = folder
        self._scratch = tempfile.TemporaryDirectory(prefix="deploykit-")
        scratch = Path(self._scratch.name)
        self._engine: Engine
        self._profile: Profiled | ProfiledOnGpu | None = None
        if sanitize:
            self._engine = _sanitized(folder, self.manifest, scratch)
        elif profile:
            options = EngineOptions(threads, cpu, device)
            self._profile = profiled = _profiled(folder, self.manifest.function(), scratch, options)
            self._engine = Functions(self.manifest, lambda _: profiled)
        else:
            target = find_target(self.manifest.target)
            self._engine = target.engine(folder, self.manifest, scratch, EngineOptions(threads, cpu, device))
        names = [entry.name for entry in self.manifest.functions]
        self.functions = {name: Function(name, self.manifest.function(name), self._engine) for name in names}
        self._function = None if names else Function(None, self.manifest, self._engine)
        self._instances = None
        self._submissions: Submissions | None = None
        self._stream: StreamEngine | None = None
        if self.manifest.dynamic is not None:
            self._instances = Instances(self.manifest.dynamic, self._only().run)
        if self.manifest.states is not None:
            self.reset()

    def __call__(self, instances: Iterable[Any] | None = None, /, **inputs: Value) -> Any:
        """Run the only function; see `Function`. Also raises `UsageError` if there are several functions.

        A dynamic model takes a list of instances (`deploykit.dynamic.encoding`) and returns a list of what its `main`
        returns for each."""
        if instances is None:
            return self._only().run(inputs)
        if inputs:
            raise UsageError("a dynamic model takes its instances as one list")
        return self._dynamic().run(instances)

    def submit(self, instance: Any) -> Handle:
        """Let an instance of a dynamic model run together with those that were submitted before; see
        `deploykit.submissions`. Its `Handle` is like a `concurrent.futures.Future`. Whole runs do not wait for it.

        Raises `ShapeError` and `DataError` for an instance that does not fit, and `UsageError` for another model, and
        for a session that runs elsewhere than in this process."""
        if self._submissions is None:
            dynamic = self._dynamic()
            self._stream = self._engine.stream()
            dtypes = [_array_dtype(port) for port in self.manifest.outputs]
            self._submissions = Submissions(dynamic, self._stream, dtypes)
        return self._submissions.submit(instance)

    def step(self) -> list[Handle]:
        """Run the instances that were submitted to their next flush, which all of them share. Returns the handles that
        are done, also with an error, and were not returned before."""
        return [] if self._submissions is None else self._submissions.step()

    def finished(self) -> Iterator[Handle]:
        """Run the instances that were submitted, also meanwhile, and give each handle as soon as it is done."""
        return iter(()) if self._submissions is None else self._submissions.finished()

    def cancel(self) -> None:
        """Cancel all instances that were submitted and are not done."""
        if self._submissions is not None:
            self._submissions.cancel()

    @overload
    def run(self, inputs: Mapping[str, Value]) -> dict[str, np.ndarray]: ...

    @overload
    def run(self, inputs: Mapping[str, Value], keep: Collection[str]) -> dict[str, Any]: ...

    def run(self, inputs: Mapping[str, Value], keep: Collection[str] = ()) -> dict[str, Any]:
        """Run the only function, and keep outputs on the device; see `Function.run`."""
        return self._only().run(inputs, keep)

    def peak_bytes(self, dims: Mapping[str, int]) -> int:
        """The bytes of arena that the only function needs; see `Function`."""
        return self._only().peak_bytes(dims)

    def reset(self, sizes: Mapping[str, int] | None = None) -> None:
        """Make all states zeros. `sizes` gives their sizes by the names of dims; other dims have their least size.

        Raises `UsageError` for an artifact without states, and for a size out of its bounds.
        """
        states = self.manifest.states
        if states is None:
            raise UsageError(f"'{self.manifest.name}' has no states")
        known = {dim.name: dim for dim in states.dims}
        _require_known(sizes or {}, known)
        self._engine.reset({name: _value(dim, (sizes or {}).get(name)) for name, dim in known.items()})

    @property
    def where(self) -> str:
        """What runs, and how, as a text for people; empty where that is obvious."""
        return getattr(self._engine, "where", "")

    @property
    def policy(self) -> str:
        """How a dynamic model chooses the next batch, one of `deploykit.dynamic.policies.POLICIES`. It may be changed
        between runs. Raises `UsageError` for another model, and for an unknown policy."""
        return self._dynamic().policy

    @policy.setter
    def policy(self, name: str) -> None:
        self._dynamic().choose(name)

    @property
    def launches(self) -> list[tuple[str, int]]:
        """The cells of a dynamic model, and how often the last run launched each, a batch counting once. For instances
        that were submitted: since the first one that found no other. Raises `UsageError` for another model."""
        return self._dynamic().launches

    @property
    def tracing(self) -> bool:
        """Whether runs of a dynamic model leave a `trace`, by default not. It may be changed between runs. Raises
        `UsageError` for another model."""
        return self._dynamic().tracing

    @tracing.setter
    def tracing(self, on: bool) -> None:
        self._dynamic().tracing = on

    @property
    def trace(self) -> list[Launch]:
        """The launches of the last run of a dynamic model, in order: the cell, and for each node the instance and the
        object that it ran for. Raises `UsageError` for another model, and if the run was not traced."""
        return self._dynamic().trace

    @property
    def plan(self) -> Plan:
        """The plan whose steps `step_times` measures. Raises `UsageError` unless the session was opened with
        `profile`."""
        return self._profiled().plan

    def step_times(self) -> tuple[np.ndarray, np.ndarray]:
        """Two arrays for the last run, with an element per step of `plan`: how often it ran, and its total seconds.

        Raises `UsageError` unless the session was opened with `profile`.
        """
        return self._profiled().last_run()

    def _only(self) -> Function:
        if self._function is None:
            self.manifest.function()
        assert self._function is not None
        return self._function

    def _dynamic(self) -> Instances:
        if self._instances is None:
            raise UsageError(f"'{self.manifest.name}' is no dynamic model: it takes inputs by name")
        return self._instances

    def _profiled(self) -> Profiled | ProfiledOnGpu:
        if self._profile is None:
            raise UsageError("this session has no times of steps: open it with profile=True")
        return self._profile

    def close(self) -> None:
        """End the threads and remove what was built. The session cannot be used afterwards."""
        self._engine.close()
        if self._stream is not None:
            self._stream.close()
        self._scratch.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_engine"):
            self._engine.close()
        stream = getattr(self, "_stream", None)
        if stream is not None:
            stream.close()


def _profiled(folder: Path, manifest: Manifest, scratch: Path, options: EngineOptions) -> Profiled | ProfiledOnGpu:
    from deploykit.engines.native.loading import load_profiled

    return load_profiled(find_target(manifest.target).sources(folder), folder, manifest, scratch, options)


def _sanitized(folder: Path, manifest: Manifest, scratch: Path) -> Engine:
    from deploykit.engines.native.process import Process
    from deploykit.engines.native.sanitized import sanitized

    sources = find_target(manifest.target).sources(folder)
    return Functions(manifest, lambda part: Process(sources, folder, part, scratch, sanitized()))


def _require_known(sizes: Mapping[str, int], dims: Mapping[str, DimEntry]) -> None:
    for name in sizes:
        if name not in dims:
            raise UsageError(f"there is no dim '{name}'; the model has {', '.join(dims) or 'none'}")


def _value(dim: DimEntry, given: int | None) -> int:
    value = dim.minimum if given is None and dim.capacity_of is not None else given
    if value is None:
        raise UsageError(f"dim '{dim.name}' is missing")
    value = whole(dim.name, value)
    if value < dim.minimum or (dim.maximum is not None and value > dim.maximum):
        upper = "" if dim.maximum is None else dim.maximum
        raise UsageError(f"dim '{dim.name}' must be in {dim.minimum}..{upper}, found {value}")
    return value


def _array_dtype(port: PortEntry) -> LogicalDtype:
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
