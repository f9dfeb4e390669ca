"""Runs a model in this process, with its host code compiled again so that each step is timed.

The kernels are those of the artifact. Timing a step takes two readings of the clock, some 50 ns in total.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from deploykit import runtime
from deploykit.artifact.manifest import Manifest
from deploykit.artifact.plan import read_plan
from deploykit.engines.native.in_process import InProcess
from deploykit.toolchain import find_c_compiler


class Profiled(InProcess):
    """The model made of `sources`, the C files and objects of an artifact folder; built in `scratch`.

    It runs the same kernels as `InProcess` would; `plan` is the plan of their steps. Raises `ToolchainError`, and what
    `InProcess` raises.
    """

    def __init__(
        self,
        sources: Sequence[Path],
        folder: Path,
        manifest: Manifest,
        threads: int,
        scratch: Path,
        cpu: str | None = None,
    ) -> None:
        super().__init__(_build(sources, scratch), folder, manifest, threads, cpu)
        self.plan = read_plan(folder, manifest.levels[self.level] if self.level else None)
        steps = max(len(self.plan.steps), 1)
        self._step_calls = (ctypes.c_int64 * steps)()
        self._step_nanoseconds = (ctypes.c_int64 * steps)()

    def run(self, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        for counts in (self._step_calls, self._step_nanoseconds):
            ctypes.memset(counts, 0, ctypes.sizeof(counts))
        self._library.attach_profile(self._step_calls, self._step_nanoseconds)
        return super().run(inputs)

    def last_run(self) -> tuple[np.ndarray, np.ndarray]:
        """Two arrays for the last run, with an element per step: its calls and its total seconds."""
        return np.array(self._step_calls), np.array(self._step_nanoseconds) * 1e-9


def _build(sources: Sequence[Path], scratch: Path) -> Path:
    compiler = find_c_compiler()
    objects = []
    for source in (*sources, runtime.PROFILE):
        made = source
        if source.suffix == ".c":
            made = scratch / f"{source.stem}.o"
            level = "-O0" if source.name == "weights.c" else "-O2"
            compiler.compile(source, made, level, "-fPIC", "-pthread", "-DDK_PROFILE")
        objects.append(made)
    library = scratch / "libprofiled.so"
    compiler.link_shared(objects, library)
    return library
