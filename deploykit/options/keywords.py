"""All options as keyword arguments, for type checkers. A test holds them equal to the dataclasses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict

if TYPE_CHECKING:
    from deploykit.compiler.decisions import Explanation


class LoadKeywords(TypedDict, total=False):
    """Those of the frontends of this package."""

    seed_input: str | None
    ragged: str | Sequence[str] | Mapping[str, str] | None
    masks: Sequence[str] | None
    stream: str | None
    weights: str | Path | None
    samples: str | Path | None
    policy: str | None
    fuse: bool
    route: Literal["own", "torch"] | None
    generate: bool
    cache: Literal["float32", "float16", "int8"]
    keep_bits: bool


class BuildKeywords(LoadKeywords, total=False):
    cpu: str
    devices: Sequence[str]
    format: str
    name: str | None
    settings: Mapping[str, str] | None
    board: str | None
    fast_math: bool
    precision: Literal["float32", "bf16"]
    keep: Sequence[str]
    index_checks: bool
    exact: bool
    reuse: bool
    optimize: Literal["speed", "memory", "size", "memory,size"]
    quantize: str | None
    head: Literal["q4", "q4_1", "q8"] | None
    check: bool | None
    check_at: Mapping[str, int | Sequence[int]] | None
    check_inputs: Mapping[str, Any] | None
    dump_dir: str | Path | None
    stop_after: str | None
    on_stage: Callable[[str], None]
    on_explanation: Callable[[Explanation], None]
