"""What a model of pictures from a Hugging Face folder is for.

`preprocessor_config.json` says how a picture becomes the tensor that the model takes, and the architecture says what
the outputs are. A model whose pictures cannot be prepared takes tensors, and a note says why.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from deploykit.artifact.tasks import PictureEntry, PictureKind, Scores
from deploykit.compiler.model import ImportedModel
from deploykit.errors import UnsupportedModelError
from deploykit.frontends.huggingface.folder import Folder
from deploykit.frontends.huggingface.pictures import read_picture
from deploykit.pictures import Picture

PIXELS = "pixel_values"

KINDS: Mapping[str, tuple[PictureKind, tuple[str, ...]]] = {
    "ForImageClassification": ("classify", ("logits",)),
    "ForImageClassificationWithTeacher": ("classify", ("logits",)),
    "ForObjectDetection": ("detect", ("logits", "pred_boxes")),
    "ForSemanticSegmentation": ("segment", ("logits",)),
}
"""By the ending of an architecture's name: what the model is for, and the outputs that say it."""

VECTORS = ("image_embeds", "pooler_output")
"""Outputs that are a vector for each picture."""


def with_picture_task(model: ImportedModel, folder: Folder) -> ImportedModel:
    """The model with its task, if it has one. Raises `UsageError` if the folder says nonsense about pictures."""
    if [port.name for port in model.inputs] != [PIXELS]:
        return model
    kind, outputs = _kind(model, folder)
    if kind is None:
        return model
    try:
        picture = read_picture(folder)
    except UnsupportedModelError as error:
        return _with_note(model, str(error))
    if picture is None:
        return model
    if (problem := _misfit(model, picture)) is not None:
        return _with_note(model, problem)
    labels = _labels(kind, model, folder)
    task = PictureEntry(
        kind=kind,
        pixels=PIXELS,
        picture=picture,
        outputs=outputs,
        labels=labels,
        scores=_scores(folder, len(labels)) if kind == "classify" else "softmax",
    )
    return replace(model, task=task)


def _with_note(model: ImportedModel, problem: str) -> ImportedModel:
    return replace(model, notes=(*model.notes, f"the model takes tensors instead of pictures: {problem}"))


def _kind(model: ImportedModel, folder: Folder) -> tuple[PictureKind | None, tuple[str, ...]]:
    """What the model is for, and the outputs that say it."""
    names = {port.name for port in model.outputs}
    architecture = str((folder.config.get("architectures") or [""])[0])
    for ending, (kind, outputs) in KINDS.items():
        if architecture.endswith(ending) and names.issuperset(outputs):
            return kind, outputs
    vectors = tuple(name for name in VECTORS if name in names)[:1]
    return ("embed" if vectors else None), vectors


def _misfit(model: ImportedModel, picture: Picture) -> str | None:
    """Why the model does not take one picture that was prepared; None if it does."""
    (pixels,) = model.inputs
    batch, channels, *size = pixels.shape
    least = {dim.name: dim.minimum for dim in model.dims}
    smallest = batch if isinstance(batch, int) else least.get(str(getattr(batch, "name", "")), 1)
    if smallest != 1:
        return f"they run one after another, but a batch has {smallest} or more"
    if channels != 3:
        return f"it takes {channels} channels"
    made = picture.crop or (picture.size if isinstance(picture.size, tuple) else None)
    fixed = tuple(extent for extent in size if isinstance(extent, int))
    if made is not None and len(fixed) == 2 and fixed != made:
        return f"the folder makes them {made[0]}x{made[1]} points large, but the model takes {fixed[0]}x{fixed[1]}"
    return None


def _labels(kind: PictureKind, model: ImportedModel, folder: Folder) -> tuple[str, ...]:
    """The names of classes. A detector has one more output, for "no object"."""
    if kind == "embed":
        return ()
    names = folder.config.get("id2label") or {}
    (logits,) = (port.shape for port in model.outputs if port.name == "logits")
    count = int(logits[1 if kind == "segment" else -1]) - (kind == "detect")
    return tuple(str(names.get(str(index), f"LABEL_{index}")) for index in range(count))


def _scores(folder: Folder, classes: int) -> Scores:
    """How transformers makes scores of the classes of a picture."""
    problem = folder.config.get("problem_type")
    if problem == "regression":
        return "as_is"
    return "sigmoid" if problem == "multi_label_classification" or classes == 1 else "softmax"
