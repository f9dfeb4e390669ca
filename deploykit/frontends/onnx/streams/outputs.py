"""Outputs of a stream, and what the artifact and its notes say of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from deploykit.artifact.streams import StreamOutput
from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.frontends.onnx.streams.frames import Frames

if TYPE_CHECKING:
    from deploykit.compiler.operators.building.value import Value
    from deploykit.frontends.onnx.streams.asked import Asked
    from deploykit.frontends.onnx.streams.kept import Kept
    from deploykit.frontends.onnx.streams.layers import Mark


def output(kept: Kept, name: str, value: Value, mark: Mark, hop: int, offset: int) -> tuple[Value, StreamOutput]:
    """An output, without frames that are of no full run, and without rows that are not known yet. A run has a multiple
    of `hop` new frames, and the window of the model begins `offset` frames after the first one."""
    if isinstance(mark, Frames):
        mark.require_no_later()
        if mark.ahead:
            raise Unsupported("it begins with padding, which would need a frame of the stream")
        if offset:
            raise Unsupported("it has frames, beside a result of a window that is no multiple of the hop")
        entry = StreamOutput(name=name, axis=mark.axis, after=mark.early * mark.step)
        return kept.trimmed(value, mark) if mark.early else value, entry
    if mark is None or mark.after <= hop:
        return value, StreamOutput(name=name, of="sequence" if mark is None else mark.of)
    if value.rank == 0:
        raise Unsupported("it has no rows, which there would be none of until the window is full")
    return kept.ready(value, mark.after), StreamOutput(name=name, after=mark.after, of=mark.of)


def notes(asked: Asked, hop: int, outputs: Sequence[StreamOutput], mixing: Sequence[str]) -> Iterator[str]:
    """What a run takes and gives; `mixing` are the nodes that read a whole window."""
    if hop > 1:
        yield f"a run takes a multiple of {hop} new frames, '{asked.dim}'"
    for each in outputs:
        if each.axis is None and each.after:
            yield f"'{each.name}' has no rows until there have been {each.after} frames"
    for node in mixing:
        yield f"{node} reads all frames of the window in each run"
    for each in outputs:
        if each.of == "first":
            yield (
                f"'{each.name}' is that of the model for the first window of {asked.window} frames; later ones have "
                "frames where the model has padding in front of its window"
            )
