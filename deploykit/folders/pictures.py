"""What a model of pictures from a Hugging Face folder is for.

`preprocessor_config.json` says how a picture becomes the tensor that the model takes, and the architecture says what
the outputs are.
"""

from __future__ import annotations

from collections.abc import Mapping

from deploykit.artifact.tasks import PictureEntry, PictureKind
from deploykit.compiler.model import ImportedModel, Port
from deploykit.errors import UnsupportedModelError
from deploykit.folders.tasks import architecture_of, bounds_of, class_names, no_method, require_batch_of_one, scores_of
from deploykit.frontends.huggingface.folder import Folder
from deploykit.frontends.huggingface.pictures import PREPROCESSOR, read_picture
from deploykit.pictures import Picture

PIXELS = "pixel_values"
"""The input of models of pictures."""

KINDS: Mapping[str, tuple[PictureKind, tuple[str, ...]]] = {
    "ForImageClassification": ("classify", ("logits",)),
    "ForImageClassificationWithTeacher": ("classify", ("logits",)),
    "ForObjectDetection": ("detect", ("logits", "pred_boxes")),
    "ForSemanticSegmentation": ("segment", ("logits",)),
}
"""By the ending of an architecture's name: what the model is for, and the outputs that say it."""

VECTORS = ("image_embeds", "pooler_output")
"""Outputs that are a vector for each picture."""


def picture_task(model: ImportedModel, folder: Folder) -> PictureEntry:
    """The task. Raises `UnsupportedModelError` if pictures cannot be prepared, or if no output is an answer."""
    kind, outputs = _kind(model, folder)
    if kind is None:
        raise UnsupportedModelError(no_method(model, folder))
    picture = required_picture(folder)
    require_fit(model, model.inputs[0], picture)
    labels = _labels(kind, model, folder)
    return PictureEntry(
        kind=kind,
        pixels=PIXELS,
        picture=picture,
        outputs=outputs,
        labels=labels,
        # One class alone has a probability of its own.
        scores=scores_of(folder, "sigmoid" if len(labels) == 1 else "softmax") if kind == "classify" else "softmax",
    )


def _kind(model: ImportedModel, folder: Folder) -> tuple[PictureKind | None, tuple[str, ...]]:
    """What the model is for, and the outputs that say it."""
    names = {port.name for port in model.outputs}
    architecture = architecture_of(folder)
    for ending, (kind, outputs) in KINDS.items():
        if architecture.endswith(ending) and names.issuperset(outputs):
            return kind, outputs
    vectors = tuple(name for name in VECTORS if name in names)[:1]
    return ("embed" if vectors else None), vectors


def required_picture(folder: Folder) -> Picture:
    """How pictures are prepared. Raises `UnsupportedModelError` if the folder does not say it."""
    picture = read_picture(folder)
    if picture is None:
        raise UnsupportedModelError(f"the folder has no {PREPROCESSOR}, which says how pictures are prepared")
    return picture


def require_fit(model: ImportedModel, port: Port, picture: Picture) -> None:
    """Raises `UnsupportedModelError` if the model does not take one picture that was prepared at this input."""
    require_batch_of_one(model, port)
    shape = port.shape
    if len(shape) != 4:
        raise UnsupportedModelError(f"a batch of pictures has 4 axes, but the model takes {len(shape)}")
    _, channels, *size = shape
    if channels != 3:
        raise UnsupportedModelError(f"a picture has 3 channels, but the model takes {channels}")
    made = picture.crop or (picture.size if isinstance(picture.size, tuple) else None)
    if made is None:
        return
    bounds = [bounds_of(model, extent) for extent in size]
    if any(n < low or (high is not None and n > high) for n, (low, high) in zip(made, bounds, strict=True)):
        taken = "x".join(str(low) if low == high else f"{low}..{'' if high is None else high}" for low, high in bounds)
        raise UnsupportedModelError(
            f"the folder makes pictures {made[0]}x{made[1]} points large, but the model takes {taken}"
        )


def _labels(kind: PictureKind, model: ImportedModel, folder: Folder) -> tuple[str, ...]:
    """The names of classes. A detector has one more output, for "no object"."""
    if kind == "embed":
        return ()
    (logits,) = (port.shape for port in model.outputs if port.name == "logits")
    return class_names(folder, int(logits[1 if kind == "segment" else -1]) - (kind == "detect"))
