"""`inspect`: a model file or an artifact folder, described without running it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from deploykit.artifact.manifest import Manifest, read_manifest
from deploykit.artifact.plan import Plan, read_listing, read_plan
from deploykit.errors import UsageError
from deploykit.inspection.picture import draw

if TYPE_CHECKING:
    from deploykit.compiler.model import DimBounds
    from deploykit.inspection.model import ModelReport


@dataclass(frozen=True)
class ArtifactReport:
    """`manifest`: inputs, outputs, dims, files, peak memory. `plan`: the memory plan and what each step costs.
    `listing`: the steps of the program as text."""

    manifest: Manifest
    plan: Plan
    listing: str

    def draw(self, path: str | Path, at: Mapping[str, int] | None = None) -> None:
        """Draw the memory plan, arena offset over step, as PNG or SVG by the suffix of `path`. A dim has the size that
        `at` gives it, else its maximum.

        Raises `UsageError` for a dim without size, one out of its bounds, another suffix, and a file that cannot be
        written.
        """
        sizes = dict(at or {})
        for dim in self.plan.dims:
            if dim.maximum is None and dim.name not in sizes:
                raise UsageError(f"dim '{dim.name}' has no maximum: say at which size to draw, --at {dim.name}=SIZE")
        draw(self.plan, {d.name: d.maximum for d in self.plan.dims if d.maximum is not None} | sizes, path)


def inspect(path: str | Path, dims: DimBounds | None = None) -> ModelReport | ArtifactReport:
    """Describe a model file or an artifact folder.

    Of a model: operators and counts, inputs, outputs and dims, weights, what cannot be compiled and why, and what a run
    costs, with `dims` pinned or bounded as for a build. Of an artifact: what its manifest and its plan say.

    Raises:
        UsageError: the file cannot be read, there is no such dim, or `dims` is given for an artifact.
        UnsupportedModelError: the file is no model, or a damaged one.
        ArtifactError: the folder holds no artifact, or one that is damaged.
    """
    what = Path(path)
    if what.is_dir():
        if dims:
            raise UsageError("bounds of dims go with a model; those of an artifact were fixed when it was built")
        return ArtifactReport(read_manifest(what), read_plan(what), read_listing(what))
    from deploykit.inspection.model import inspect_model

    return inspect_model(what, dims)
