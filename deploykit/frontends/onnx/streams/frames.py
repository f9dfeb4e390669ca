"""Where the frames of a value are, and which of them windows along time need.

A *full run* computes the model for all frames so far; a stream computes a few more frames with each run. A value of the
stream has its frames one after the other over all runs: its frame `i` is frame `i - early` of the full run's value. So
the first `early` frames of the stream belong to no full run. They are computed from zeros in the place of frames that
were never given, and are not to be used.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from deploykit.compiler.operators.building.errors import Unsupported

Of: TypeAlias = Literal["sequence", "window", "first"]

CAUSAL = "pad in front of the first frame only (causal), and export the model again"


@dataclass(frozen=True)
class Frames:
    """A value with frames along `axis`, one for each `step` frames of the input.

    `ahead` zeros are in front of the frames of the full run, which the stream does not have, and which the next
    operator has to count. `behind` is the number of frames at the end of the full run that the stream does not have,
    because they need frames that are still to come; `waits` is the node that needs them. `length` is the number of
    frames of a full run over the model's window, if it has one. `padded`: zeros in front of the first frame were used.
    `endless`: the frames depend on all frames before them, as those of recurrent layers do."""

    axis: int
    step: int = 1
    early: int = 0
    ahead: int = 0
    behind: int = 0
    waits: str = ""
    length: int | None = None
    padded: bool = False
    endless: bool = False

    def require_no_later(self) -> None:
        """Raises `Unsupported` if the full run has frames that need later ones."""
        if self.behind:
            raise Unsupported(f"{self.waits} pads behind the last frame, which a stream has not: {CAUSAL}")

    def at(self, axis: int) -> Frames:
        """The same frames along another axis."""
        return replace(self, axis=axis)


@dataclass(frozen=True)
class Now:
    """A value without frames that depends on them: that of the newest frames. It is one of a full run when the stream
    has had `after` frames of the input; `of` says of which frames (`artifact.streams`)."""

    after: int
    of: Of

    @classmethod
    def of_all(cls, values: Iterable[Now]) -> Now:
        """What a value is that depends on these."""
        found = list(values)
        kinds = {each.of for each in found}
        return cls(max(each.after for each in found), kinds.pop() if len(kinds) == 1 else "first")


@dataclass(frozen=True)
class Reach:
    """Windows along time: each covers `span` frames, the next one starts `stride` frames later, and the first one
    `before` frames in front of the data. `end` frames are added behind the data."""

    span: int
    stride: int
    before: int
    end: int


@dataclass(frozen=True)
class Placed:
    """How a stream computes windows: with `past` frames in front of the new ones, or without the first `-past` of them,
    so that it has a result for each `stride` new frames. `frames` are those of the results."""

    past: int
    frames: Frames


def placed(x: Frames, reach: Reach) -> Placed:
    """Where windows are in a stream. Its result `q` is result `q - early` of the full run, with the least `early` for
    which no window needs a frame that is still to come."""
    before, stride = reach.before + x.ahead, reach.stride
    least = reach.span - stride
    early = max(-((before - x.early - least) // stride), 0)
    past = early * stride + before - x.early
    # The full run has floor((n - x.early + before + end - span) / stride) + 1 results for n frames of the stream, which
    # itself has n / stride - early.
    behind = (before + reach.end - x.early - reach.span) // stride + 1 + early
    length = None if x.length is None else (x.length + before + reach.end - reach.span) // stride + 1
    if length is not None and length < 1:
        raise Unsupported(f"its windows of {reach.span} frames are longer than the {x.length} frames there are")
    found = replace(
        x, step=x.step * stride, early=early, ahead=0, behind=behind, length=length, padded=x.padded or before > 0
    )
    return Placed(past, found)
