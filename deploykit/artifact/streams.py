"""What an artifact for a stream says of it: how many frames a run takes, and which results belong to which frames."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from deploykit.artifact.entries import Entry


class StreamOutput(Entry):
    """An output. The results of all runs, joined along `axis`, are those of the model for all frames so far. An output
    without an axis is a result for the newest frames; it has no rows until there have been `after` frames. It is then
    that of the model for `of`

        sequence    all frames so far
        window      the frames of its window that ends with the newest one
        first       its window, once: zeros that the model pads with are in front of the first frame of a stream, not of
                    each window
    """

    name: str
    axis: int | None = None
    after: int = 0
    of: Literal["sequence", "window", "first"] = "sequence"


class StreamEntry(Entry):
    """A run takes new frames alone, along these axes of `inputs`; their number is the dim `dim`, a multiple of `hop`.
    `window` is the number of frames of the model's window, if it has one; `fixed`: the model takes no other number."""

    dim: str
    hop: int
    inputs: Mapping[str, int]
    outputs: tuple[StreamOutput, ...]
    window: int | None = None
    fixed: bool = False
