"""`inspect`: a model file, a Hugging Face folder or an artifact folder, described without running it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from deploykit.artifact.manifest import MANIFEST, Manifest, read_manifest
from deploykit.artifact.plan import Plan, read_listing, read_plan
from deploykit.errors import UsageError
from deploykit.inspection.lengths import LengthsReport, at_lengths
from deploykit.inspection.plan_picture import draw
from deploykit.sources.base import Certainty, find_frontend

if TYPE_CHECKING:
    from deploykit.compiler.model import DimBounds
    from deploykit.inspection.folder import FolderReport
    from deploykit.inspection.model import ModelReport


@dataclass(frozen=True)
class ArtifactReport:
    """The description of an artifact. `manifest`: inputs, outputs, dims, files, peak memory. `plan`: the memory plan
    and the cost of each step. `listing`: the steps of the program as text."""

    manifest: Manifest
    plan: Plan
    listing: str

    def at_lengths(self, lengths: Mapping[str, Sequence[int]], at: Mapping[str, int] | None = None) -> LengthsReport:
        """What these lengths of ragged inputs mean for memory and arithmetic. `lengths` are given by the name of the
        input that takes them. Other dims that `at` leaves out have their maximum.

        Raises `UsageError` if lengths or sizes are missing, unknown or out of their bounds.
        """
        return at_lengths(self.manifest, self.plan, lengths, at or {})

    def draw(
        self,
        path: str | Path,
        at: Mapping[str, int] | None = None,
        lengths: Mapping[str, Sequence[int]] | None = None,
    ) -> None:
        """Draw the memory plan, arena offset over step, as PNG or SVG by the suffix of `path`. Dims that `at` leaves
        out have their maximum. With `lengths` of ragged inputs the plan is that for these lengths, and bars above it
        show the lengths.

        Raises `UsageError` if a dim has no size or is out of its bounds, or if `path` has another suffix or cannot be
        written.
        """
        if lengths is not None:
            report = self.at_lengths(lengths, at)
            draw(self.plan, report.sizes, path, report)
            return
        sizes = dict(at or {})
        for dim in self.plan.dims:
            if dim.maximum is None and dim.name not in sizes:
                raise UsageError(f"dim '{dim.name}' has no maximum: say at which size to draw, --at {dim.name}=SIZE")
        draw(self.plan, {d.name: d.maximum for d in self.plan.dims if d.maximum is not None} | sizes, path)


def inspect(
    path: str | Path, dims: DimBounds | None = None, *, export: bool = False
) -> ModelReport | FolderReport | ArtifactReport:
    """Describe a model file, a Hugging Face folder or an artifact folder.

    For a model: operators and counts, inputs, outputs and dims, weights, which nodes cannot be compiled and why, and
    the cost of a run, with `dims` pinned or bounded as for a build. For a Hugging Face folder: how it is imported and
    why, and what a session does; what PyTorch imports is exported only if `export` asks for it. For an artifact: the
    contents of its manifest and plan.

    Raises:
        UsageError: the file cannot be read, there is no such dim, or `dims` is given for an artifact.
        UnsupportedModelError: the file is not a model, or is damaged.
        ArtifactError: the folder holds no artifact, or a damaged one.
    """
    what = Path(path)
    if (what / MANIFEST).exists():  # a frontend may need the compiler
        return _artifact(what, dims)
    frontend = find_frontend(what)
    if frontend.name == "huggingface":
        from deploykit.inspection.folder import inspect_folder

        return inspect_folder(what, dims, export=export)
    if what.is_dir() and frontend.recognises(what) < Certainty.CERTAIN:
        return _artifact(what, dims)
    if frontend.name != "onnx":
        raise UsageError(f"{what} is {frontend.description}: `deploykit build --explain` describes it")
    from deploykit.inspection.model import inspect_model

    return inspect_model(frontend.file(what) or what, dims)


def _artifact(folder: Path, dims: DimBounds | None) -> ArtifactReport:
    if dims:
        raise UsageError("bounds of dims go with a model; those of an artifact were fixed when it was built")
    return ArtifactReport(read_manifest(folder), read_plan(folder), read_listing(folder))
