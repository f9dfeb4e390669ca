"""What a kernel is divided into for a GPU."""

from __future__ import annotations

from dataclasses import dataclass

from tvm import tirx

from deploykit.compiler.decisions import Choice
from deploykit.compiler.tir.rewriting import Buffer


@dataclass(frozen=True)
class Part:
    """Some stages as a function of their own. Its buffers are those that it reads, then those that it writes.
    `operands` are their indices among the buffers of the kernel followed by its temporaries; the last `outputs` are
    written. Variables of the kernel that it needs are integer parameters. `team`: a workgroup runs each iteration of
    the parallel loop, else an invocation does."""

    func: tirx.PrimFunc
    operands: tuple[int, ...]
    outputs: int
    team: bool


@dataclass(frozen=True)
class Divided:
    """A kernel as parts that run one after the other. `choices` are the rules that took its stages."""

    temporaries: tuple[Buffer, ...]
    parts: tuple[Part, ...]
    choices: tuple[Choice, ...]
