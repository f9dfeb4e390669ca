"""Running an artifact from Python: `open(folder)`, then `session(x=array)`.

A session checks the artifact, converts between the user's arrays and the elements in memory, and lets an engine do the
run. Any number of threads may use a session at the same time, with the results that each would get alone. Runs of a
model on the CPU go on side by side, each in memory of its own, as many as there are processors; those on a GPU, those
that change the states of a model, and those in node or a browser take turns.
"""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, overload

import numpy as np

from deploykit.artifact.manifest import Manifest, read_manifest, verify_files
from deploykit.basics.forks import renew_after_fork
from deploykit.basics.scratch import Scratch
from deploykit.engines import Engine, EngineOptions, Memory
from deploykit.engines.lanes import ClosedError
from deploykit.engines.native.functions import Functions, once
from deploykit.errors import UsageError
from deploykit.sessions.function import Function, Value, array_dtype, require_known, value_of
from deploykit.sessions.instances import Instances
from deploykit.sessions.interface import ValueInfo, text_of
from deploykit.sessions.language.engine import PAGES
from deploykit.sessions.submissions import Handle, Submissions
from deploykit.sessions.tasks.answering import Answering
from deploykit.targets.base import find_target

if TYPE_CHECKING:
    from deploykit.artifact.plan import Plan
    from deploykit.dynamic.traces import Launch
    from deploykit.engines.native.profiled import Profiled, ProfiledOnGpu

T = TypeVar("T")


def open(  # noqa: A001 - `deploykit.open`
    folder: str | Path,
    *,
    threads: int = 1,
    cpu: str | None = None,
    device: str | None = None,
    callers: int | None = None,
    sanitize: bool = False,
    profile: bool = False,
) -> Session:
    """Open the artifact in `folder` as a session, with parallel loops on `threads` threads.

    Threads may call it at the same time: up to `callers` runs go on side by side, by default as many as there are
    processors, and further ones wait. Each of them has an arena (`Session.memory`).

    If an artifact has kernels for several CPUs, the session takes those for `cpu`, by default the best that this CPU
    can run. An artifact for another kind of CPU runs under an emulator, with one thread. An artifact for the web runs
    on the `device` `wasm`, in node, or `webgpu`, in Chromium; other artifacts have no `device` to choose.

    With `sanitize` each run is a process of its own that stops at the first invalid memory access or undefined
    behaviour; runs are then slow and have one thread. With `profile` the host code is compiled again so that
    `step_times` gives the time of each step.

    Raises `ArtifactError` when the folder holds no artifact, or one that is damaged, and `ToolchainError` when a
    compiler is needed to run it here and there is none.
    """
    return Session(
        Path(folder), threads=threads, cpu=cpu, device=device, callers=callers, sanitize=sanitize, profile=profile
    )


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
        callers: int | None = None,
        sanitize: bool = False,
        profile: bool = False,
    ) -> None:
        if threads < 1:
            raise UsageError(f"threads must be at least 1, found {threads}")
        if callers is not None and callers < 1:
            raise UsageError(f"callers must be at least 1, found {callers}")
        if sanitize and profile:
            raise UsageError("a sanitized session cannot be profiled")
        if cpu is not None and sanitize:
            raise UsageError("the kernels for a CPU cannot be chosen in a sanitized session")
        if device is not None and sanitize:
            raise UsageError("the device cannot be chosen in a sanitized session")
        self.manifest: Manifest = read_manifest(folder)
        verify_files(folder, self.manifest)
        self.folder = folder
        self._options: dict[str, Any] = {"threads": threads, "cpu": cpu, "device": device, "callers": callers}
        self._options |= {"sanitize": sanitize, "profile": profile}
        built = Scratch()
        scratch = built.path
        self._engine: Engine
        self._profile: Profiled | ProfiledOnGpu | None = None
        options = EngineOptions(threads, cpu, device, callers)
        self._most = options.lanes
        if sanitize:
            self._engine = _sanitized(folder, self.manifest, scratch, options)
        elif profile:
            self._profile = profiled = _profiled(folder, self.manifest.function(), scratch, options)
            self._engine = Functions(self.manifest, lambda _: profiled)
        else:
            self._engine = find_target(self.manifest.target).engine(folder, self.manifest, scratch, options)
        self._removed = weakref.finalize(self._engine, built.cleanup)
        names = [entry.name for entry in self.manifest.functions]
        self._place = folder.absolute()
        again = partial(_function, self._place, self._options)
        self.functions = {name: Function(name, self.manifest.function(name), self._engine, again) for name in names}
        self._function = None if names else Function(None, self.manifest, self._engine, again)
        self._instances = None
        self._submissions: Submissions | None = None
        self._executor: ThreadPoolExecutor
        self.renew()
        renew_after_fork(self)
        if self.manifest.dynamic is not None:
            self._instances = Instances(self.manifest.dynamic, self._only().run)
        if self.manifest.states is not None:
            self._reset({})

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
        `deploykit.sessions.submissions`. Its `Handle` is like a `concurrent.futures.Future`. Whole runs do not wait for
        it.

        Raises `ShapeError` and `DataError` for an instance that does not fit, and `UsageError` for another model, and
        for a session that runs elsewhere than in this process."""
        with self._starting:
            if self._submissions is None:
                dtypes = [array_dtype(port) for port in self.manifest.outputs]
                self._submissions = Submissions(self._dynamic(), self._engine.stream(), dtypes, self._later)
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

    async def run_async(self, inputs: Any, keep: Collection[str] = ()) -> Any:
        """The same as `run` in an asynchronous program: `await session.run_async({"x": array})`. A dynamic model takes
        its list of instances.

        The run is in one of as many threads as runs go on side by side, which all calls share. If the task is
        cancelled, a run that has not begun does not take place; the results of one that has are dropped."""
        by_name = isinstance(inputs, Mapping)
        run = partial(self.run, inputs, keep) if by_name else partial(self._dynamic().run, inputs)
        return await asyncio.wrap_future(self._later(run))

    def peak_bytes(self, dims: Mapping[str, int]) -> int:
        """The bytes of arena that the only function needs; see `Function`."""
        return self._only().peak_bytes(dims)

    def reset(self, sizes: Mapping[str, int] | None = None) -> None:
        """Make all states zeros. `sizes` gives their sizes by the names of dims; other dims have their least size.

        Raises `UsageError` for an artifact without states, and for a size out of its bounds.
        """
        task = self.manifest.task
        if task is not None and task.takes == "messages":
            self.language.resize((sizes or {}).get(PAGES))
        else:
            self._reset(sizes or {})

    def _reset(self, sizes: Mapping[str, int]) -> None:
        states = self.manifest.states
        if states is None:
            raise UsageError(f"'{self.manifest.name}' has no states")
        known = {dim.name: dim for dim in states.dims}
        require_known(sizes, known)
        self._engine.reset({name: value_of(dim, sizes.get(name)) for name, dim in known.items()})

    def _states(self) -> np.ndarray | None:
        """The block of states; None if there is none in memory of this process."""
        return getattr(self._engine, "states", None)

    @property
    def inputs(self) -> tuple[ValueInfo, ...]:
        """What the only function takes; see `Function.inputs`. A dynamic model takes instances of these parameters."""
        return self._only().inputs

    @property
    def outputs(self) -> tuple[ValueInfo, ...]:
        """What the only function gives; see `Function.outputs`."""
        return self._only().outputs

    def __repr__(self) -> str:
        return f"<Session {self.manifest.name} for {self.manifest.target}: {text_of(self.manifest)}>"

    @property
    def memory(self) -> Memory:
        """The bytes that the session holds in this process: weights, states, and an arena for each run that went on
        side by side with others. `peak_bytes` tells the size of one."""
        return self._engine.memory

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
        """The cells of a dynamic model, and how often the last run of this thread launched each, a batch counting once;
        if it made none, the last run of any thread. For instances that were submitted: since the first one that found
        no other. Raises `UsageError` for another model."""
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
        """The launches of the run that `launches` tells of, in order: the cell, and for each node the instance and the
        object that it ran for. Raises `UsageError` for another model, and if the run was not traced."""
        return self._dynamic().trace

    @property
    def plan(self) -> Plan:
        """The plan whose steps `step_times` measures. Raises `UsageError` unless the session was opened with
        `profile`."""
        return self._profiled().plan

    def step_times(self) -> tuple[np.ndarray, np.ndarray]:
        """Two arrays for the last run of this thread (if it made none, of any), with an element per step of `plan`: how
        often it ran, and its total seconds.

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
            names = ", ".join(f"{info.name}=..." for info in self.inputs)
            raise UsageError(f"'{self.manifest.name}' is no dynamic model: it takes inputs by name ({names})")
        return self._instances

    def _profiled(self) -> Profiled | ProfiledOnGpu:
        if self._profile is None:
            raise UsageError("this session has no times of steps: open it with profile=True")
        return self._profile

    def close(self) -> None:
        """Wait for the runs that go on, also for instances whose results are waited for; then end the threads and
        remove what was built. Later calls raise `UsageError`."""
        with self._starting:
            if self._submissions is not None:
                self._submissions.close()
            self._engine.close()
            self._executor.shutdown()
        self._removed()

    def renew(self) -> None:
        """Be as a forked process needs it: nothing is submitted, and threads start anew."""
        self._starting = threading.Lock()
        self._submissions = None
        self._executor = ThreadPoolExecutor(self._most, "deploykit")

    def _later(self, call: Callable[[], T]) -> Future[T]:
        """Call a function in one of a few threads. Raises `ClosedError`."""
        try:
            return self._executor.submit(call)
        except RuntimeError as error:
            raise ClosedError from error

    def __reduce__(self) -> tuple[Callable[..., Session], tuple[object, ...]]:
        """A copy, also in another process, is the artifact opened again with the same options. Its states are zeros."""
        return _reopened, (self._place, self._options)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _reopened(folder: Path, options: dict[str, Any]) -> Session:
    return Session(folder, **options)


def _function(folder: Path, options: dict[str, Any], name: str | None) -> Function:
    session = _reopened(folder, options)
    return session._only() if name is None else session.functions[name]  # noqa: SLF001


def _profiled(folder: Path, manifest: Manifest, scratch: Path, options: EngineOptions) -> Profiled | ProfiledOnGpu:
    from deploykit.engines.native.loading import load_profiled

    return load_profiled(find_target(manifest.target).sources(folder), folder, manifest, scratch, options)


def _sanitized(folder: Path, manifest: Manifest, scratch: Path, options: EngineOptions) -> Engine:
    from deploykit.engines.native.process import Process
    from deploykit.engines.native.sanitized import sanitized

    sources = find_target(manifest.target).sources(folder)
    start = once(lambda part: Process(sources, folder, part, scratch, sanitized()))
    return Functions(manifest, start, most=options.lanes)
