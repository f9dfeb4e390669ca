"""Runs a model in this process, with its host code compiled again so that each step is timed.

The kernels are those of the artifact. Timing a step on the CPU takes two readings of the clock, some 50 ns in total. A
GPU times its steps itself.
"""

from __future__ import annotations

import ctypes
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np

from deploykit import runtime
from deploykit.artifact.manifest import Manifest
from deploykit.artifact.plan import Plan, read_plan
from deploykit.basics.last import LastOf
from deploykit.basics.parallel import each
from deploykit.basics.toolchain import find_c_compiler
from deploykit.compiler.devices.gpu import NATIVE_GPU
from deploykit.engines.native.gpu import Gpu
from deploykit.engines.native.held import Held
from deploykit.engines.native.in_process import InProcess
from deploykit.engines.native.library import Library
from deploykit.engines.native.loaded import Loaded
from deploykit.engines.native.on_gpu import OnGpu

Times: TypeAlias = tuple[np.ndarray, np.ndarray]


class StepTimes:
    """How often the steps of a plan ran, and how long they took on the CPU."""

    def __init__(self, plan: Plan, library: Library) -> None:
        self.plan = plan
        self._library = library
        steps = max(len(plan.steps), 1)
        self._calls = (ctypes.c_int64 * steps)()
        self._nanoseconds = (ctypes.c_int64 * steps)()

    def begin(self) -> None:
        """Count from zero, for the next run of a model in the library."""
        for counts in (self._calls, self._nanoseconds):
            ctypes.memset(counts, 0, ctypes.sizeof(counts))
        self._library.attach_profile(self._calls, self._nanoseconds)

    def taken(self) -> Times:
        """Two arrays with an element per step: its calls and its total seconds."""
        return np.array(self._calls), np.array(self._nanoseconds) * 1e-9


class Profiled(InProcess):
    """The model in a library that `build_profiled` made.

    It runs the same kernels as `InProcess` would; `plan` is the plan of their steps. Raises what `InProcess` raises.
    """

    def __init__(self, loaded: Loaded, folder: Path) -> None:
        """The plans are in `folder`."""
        super().__init__(loaded)
        levels = loaded.manifest.levels
        self.plan = read_plan(folder, levels[self.level] if self.level else None)
        self._times = StepTimes(self.plan, self._library)
        self._last = LastOf[Times]()

    def run(self, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        self._times.begin()
        results = super().run(inputs)
        self._last.put(self._times.taken())
        return results

    def last_run(self) -> Times:
        """Two arrays for the last run of this thread, with an element per step: its calls and its total seconds."""
        return self._last.get() or self._times.taken()


class ProfiledOnGpu(OnGpu):
    """The model in a library that `build_profiled` made, on `gpu`, which it closes. Raises what `OnGpu` raises."""

    def __init__(self, path: Path, folder: Path, manifest: Manifest, threads: int, gpu: Gpu) -> None:
        super().__init__(path, folder, manifest, threads, gpu)
        self.plan = read_plan(folder, NATIVE_GPU.name)
        self._times = StepTimes(self.plan, self._library)
        self._last = LastOf[tuple[Times, Times]]()
        """Calls and seconds of the steps, and the step and the nanoseconds of each operation of the GPU."""
        self._library.follow_profile(gpu.step)
        gpu.profile(on=True)

    def run(self, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        self._begin()
        results = super().run(inputs)
        self._end()
        return results

    def run_kept(self, inputs: Sequence[np.ndarray | Held], keep: Collection[int]) -> list[np.ndarray | Held]:
        self._begin()
        results = super().run_kept(inputs, keep)
        self._end()
        return results

    def _begin(self) -> None:
        self._gpu.times()
        self._times.begin()

    def _end(self) -> None:
        self._last.put((self._times.taken(), self._gpu.times()))

    def close(self) -> None:
        super().close()
        self._gpu.close()

    def last_run(self) -> Times:
        """As `Profiled.last_run`; where the GPU worked for a step, its time counts."""
        (calls, seconds), (steps, nanoseconds) = self._last.get() or (self._times.taken(), self._gpu.times())
        inside = (steps >= 0) & (steps < len(seconds))
        worked = np.zeros_like(seconds)
        np.add.at(worked, steps[inside], nanoseconds[inside] * 1e-9)
        return calls, np.where(worked > 0, worked, seconds)


def build_profiled(sources: Sequence[Path], scratch: Path) -> Path:
    """A library of C files and objects that counts and times steps, in `scratch`. Raises `ToolchainError`."""
    compiler = find_c_compiler()

    def built(source: Path) -> Path:
        if source.suffix != ".c":
            return source
        made = scratch / f"{source.stem}.o"
        level = "-O0" if source.name == "weights.c" else "-O2"
        scalars = f"-DDK_MAX_SCALARS={NATIVE_GPU.scalars}"
        compiler.compile(source, made, level, "-fPIC", "-pthread", "-DDK_PROFILE", scalars, f"-I{runtime.INCLUDE}")
        return made

    library = scratch / "libprofiled.so"
    compiler.link_shared(each(built, [*sources, runtime.PROFILE]), library, "-ldl")
    return library
