"""Counts the arithmetic that an artifact for ragged batches executes, instruction by instruction, under valgrind.

Callgrind tells how often each instruction runs, and objdump what it is. A fused multiply-add of a vector of 8 elements
is 16 operations, an addition, subtraction, multiplication or division of it 8; other instructions are none. Elements
that are computed and not used count, too. The artifact is built for x86-64-v3, because valgrind does not know AVX-512.
"""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

import deploykit
from bench.ragged.batches import batch_of
from bench.ragged.models import Model
from deploykit.artifact.manifest import read_manifest
from deploykit.basics.toolchain import find_c_compiler
from deploykit.engines.native.process import Build, Process
from deploykit.targets.base import find_target

CPU = "x86-64-v3"
TOOLS = ("valgrind", "objdump")
_RESULT = "callgrind.txt"
_INSTRUCTION = re.compile(r"^ *([0-9a-f]+):\tv?(fn?m(?:add|sub)\d*|add|sub|mul|div)([sp])([sd])\s+(.*)$")
_EXECUTED = re.compile(r"^0x([0-9a-f]+) \d+ (\d+)$")


def missing() -> str | None:
    """Why this machine cannot count, or None."""
    if platform.machine() != "x86_64":
        return "instructions are those of x86-64"
    absent = [tool for tool in TOOLS if shutil.which(tool) is None]
    return f"{' and '.join(absent)} not found" if absent else None


@dataclass(frozen=True)
class Arithmetic:
    """Counts runs of `model`, which is in the file `path`. Artifact and program are made in `folder`."""

    model: Model
    path: Path
    dims: Mapping[str, tuple[int, int]]
    folder: Path

    def share(self, lengths: np.ndarray) -> float:
        """The operations of the batch, divided by the sum of those of each of its sequences alone."""
        sizes, times = np.unique(lengths, return_counts=True)
        alone = sum(self.count(np.array([size])) * int(count) for size, count in zip(sizes, times, strict=True))
        return self.count(lengths) / alone

    def count(self, lengths: np.ndarray) -> int:
        """The floating-point operations of a run."""
        arrays = batch_of(self.model, lengths).packed()
        process, weights = self._program
        process.run([arrays[port.name] for port in read_manifest(self.folder / "counted").inputs])
        text = (self.folder / _RESULT).read_text()
        return sum(weights.get(address, 0) * times for address, times in _executed(text))

    @cached_property
    def _program(self) -> tuple[Process, Mapping[int, int]]:
        """What runs the artifact under valgrind, and the operations of its instructions by their address."""
        dist, scratch = self.folder / "counted", self.folder / "program"
        scratch.mkdir(parents=True, exist_ok=True)
        deploykit.build(self.path, dims=self.dims, output=dist, cpu=CPU, ragged={"seq": "batch"})
        manifest = read_manifest(dist)
        launcher = (
            *("valgrind", "--tool=callgrind", "--dump-instr=yes", "--compress-pos=no", "--log-file=/dev/null"),
            *(f"--toggle-collect={manifest.prefix}_run", f"--callgrind-out-file={self.folder / _RESULT}"),
        )
        build = Build(find_c_compiler(), (), link=("-no-pie",), launcher=launcher)
        process = Process(find_target("host").sources(dist), dist, manifest, scratch, build)
        return process, _operations(scratch / f"run_{manifest.prefix}")


def operations(text: str) -> dict[int, int]:
    """The operations of each instruction with any, by its address, from the output of `objdump -d`."""
    found = {}
    for line in text.splitlines():
        match = _INSTRUCTION.match(line)
        if match is not None:
            address, name, packed, kind, operands = match.groups()
            lanes = (32 if "%ymm" in operands else 16) // (4 if kind == "s" else 8) if packed == "p" else 1
            found[int(address, 16)] = lanes * (2 if name.startswith("f") else 1)
    return found


def _operations(program: Path) -> dict[int, int]:
    call = ["objdump", "-d", "--no-show-raw-insn", str(program)]
    return operations(subprocess.run(call, capture_output=True, text=True, check=True).stdout)


def _executed(text: str) -> Iterator[tuple[int, int]]:
    """The address of each instruction, and how often it ran. The line after `calls=` is about a whole call."""
    called = False
    for line in text.splitlines():
        match = None if called else _EXECUTED.match(line)
        called = line.startswith("calls=")
        if match is not None:
            yield int(match[1], 16), int(match[2])
