"""Runs the artifact of a stream part by part, and its model on all frames at once.

The model runs on all frames so far, or on a window of them, whichever a result belongs to (`artifact.streams`). Where
its file fixes the number of frames, it runs on so many, and results of other numbers are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from deploykit.artifact.manifest import Manifest
from deploykit.artifact.streams import StreamEntry, StreamOutput
from deploykit.checks.reference import Runner
from deploykit.checks.samples import sample_inputs
from deploykit.errors import ShapeError, UsageError

if TYPE_CHECKING:
    from deploykit.checks.sources import Source
    from deploykit.sessions.session import Session


class Incomparable(UsageError):
    """The model has no results for the runs of a check."""


RUNS = 4
"""Runs of a check, beside those until there are results."""


@dataclass(frozen=True)
class StreamedForm:
    """How to compare a stream whose runs take `part` new frames. `total` are the frames of a check, and `states` the
    sizes of the states."""

    stream: StreamEntry
    part: int
    total: int
    states: Mapping[str, int]

    def longer(self, manifest: Manifest) -> Manifest:
        """The manifest with inputs for all frames of a check."""
        inputs = []
        for port in manifest.inputs:
            axis = self.stream.inputs.get(port.name)
            shape = tuple(self.total if place == axis else extent for place, extent in enumerate(port.shape))
            inputs.append(port.model_copy(update={"shape": shape}))
        dims = tuple(dim for dim in manifest.dims if dim.name != self.stream.dim)
        return manifest.model_copy(update={"inputs": tuple(inputs), "dims": dims})

    def sampled(
        self, manifest: Manifest, sources: Mapping[str, Source], sizes: Mapping[str, int]
    ) -> tuple[dict[str, Any], dict[str, int]]:
        """Inputs with all frames of a check, and the sizes of dims."""
        own = {name: size for name, size in sizes.items() if name != self.stream.dim}
        arrays, dims = sample_inputs(self.longer(manifest), sources, own)
        return arrays, {**dims, self.stream.dim: self.part}

    def run(self, session: Session, given: Mapping[str, Any]) -> dict[str, Any]:
        """The outputs of a session for all frames, as those `around` the model are.

        Raises `ShapeError` if the session does not take parts of this size, and `Incomparable`."""
        if session.manifest.states is not None:
            session.reset(self.states)
        runs = [session.run(self._cut(given, at - self.part, at)) for at in self._ends()]
        found = {}
        for output in self.stream.outputs:
            results = [run[output.name] for run in runs]
            if output.axis is not None:
                joined = np.concatenate(results, output.axis)
                found[output.name] = joined.take(range(self._count(joined, output)), output.axis)
                continue
            early = [at for at, result in zip(self._ends(), results, strict=True) if at < output.after and len(result)]
            if early:
                raise ShapeError(f"'{output.name}' has rows after {early[0]} frames, before there are {output.after}")
            found[output.name] = np.stack([results[at // self.part - 1] for at in self._compared(output)])
        return found

    def around(self, run: Runner) -> Runner:
        """A function that takes all frames, and runs the model with `run` for each result."""

        def results(given: Mapping[str, Any]) -> dict[str, Any]:
            found = {}
            whole = run(self._cut(given, 0, self._length()))
            for output in self.stream.outputs:
                if output.axis is not None:
                    found[output.name] = whole[output.name]
                    continue
                cuts = [(0 if output.of == "sequence" else at - self._window(), at) for at in self._compared(output)]
                found[output.name] = np.stack([run(self._cut(given, *cut))[output.name] for cut in cuts])
            return found

        return results

    def _ends(self) -> range:
        """The number of frames after each run."""
        return range(self.part, self.total + 1, self.part)

    def _length(self) -> int:
        """The frames of the model's run on all frames."""
        return self._window() if self.stream.fixed else self.total

    def _window(self) -> int:
        return self.stream.window or self.total

    def _count(self, joined: np.ndarray, output: StreamOutput) -> int:
        """How many frames of an output to compare: those of the frames that the model runs on."""
        assert output.axis is not None
        size = int(joined.shape[output.axis])
        more = self.total - self._length()
        return size if not more else size - more * size // self.total

    def _compared(self, output: StreamOutput) -> list[int]:
        """The numbers of frames after which the results of an output are compared. Raises `Incomparable` for none."""
        found = [at for at in self._ends() if at >= output.after]
        if output.of == "first":
            found = [at for at in found if at == output.after]
        elif output.of == "sequence" and self.stream.fixed:
            found = [at for at in found if at == self._window()]
        if not found:
            raise Incomparable(f"no run with {self.part} frames ends where the model has a result for '{output.name}'")
        return found

    def _cut(self, given: Mapping[str, Any], start: int, end: int) -> dict[str, Any]:
        """The inputs with these frames only."""
        return {name: self._part_of(name, value, start, end) for name, value in given.items()}

    def _part_of(self, name: str, value: Any, start: int, end: int) -> Any:
        axis = self.stream.inputs.get(name)
        return value if axis is None else np.ascontiguousarray(value.take(range(start, end), axis))


def streamed_form(manifest: Manifest, sizes: Mapping[str, int], *, exact: bool) -> StreamedForm | None:
    """How to compare an artifact at these sizes; None if it is not for a stream. A number of new frames that is no
    multiple of what the artifact takes becomes one, unless `exact`."""
    stream = manifest.stream
    if stream is None:
        return None
    (port, axis) = next((port, stream.inputs[port.name]) for port in manifest.inputs if port.name in stream.inputs)
    fixed = port.shape[axis]
    part = fixed if isinstance(fixed, int) else sizes.get(stream.dim, stream.hop)
    part = part if exact else max(part // stream.hop, 1) * stream.hop
    after = max((output.after for output in stream.outputs), default=0)
    least = (stream.window or 0) if stream.fixed else 0
    runs = max(-(-after // part) + RUNS, -(-least // part))
    states = () if manifest.states is None else manifest.states.dims
    return StreamedForm(stream, part, runs * part, {dim.name: sizes.get(dim.name, dim.minimum) for dim in states})
