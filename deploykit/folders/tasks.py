"""What a model of pictures or sound from a Hugging Face folder is for.

`preprocessor_config.json` says how a picture or a sound becomes the tensor that the model takes, and the architecture
says what the outputs are. A model for which they cannot be prepared takes tensors, and a note says why.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from deploykit.artifact.tasks import TENSORS_ONLY, PictureEntry, PictureKind, Scores, SoundEntry
from deploykit.compiler.model import ImportedModel, Port
from deploykit.errors import UnsupportedModelError, UsageError
from deploykit.frontends.huggingface.folder import Folder, inside
from deploykit.frontends.huggingface.letters import Samples, read_letters, read_samples
from deploykit.frontends.huggingface.pictures import PREPROCESSOR, read_picture
from deploykit.frontends.huggingface.sound import read_spectrum
from deploykit.frontends.huggingface.special import TOKENIZER
from deploykit.pictures import Picture
from deploykit.text import facts_of, pack, pack_fields

if TYPE_CHECKING:
    from deploykit.compiler.dims.expressions import IntExpr

PIXELS, VALUES, SAMPLES = "pixel_values", "input_values", "samples"
"""The inputs of models of pictures, of those of sound, and of those of sound that compute a spectrum."""

KINDS: Mapping[str, tuple[PictureKind, tuple[str, ...]]] = {
    "ForImageClassification": ("classify", ("logits",)),
    "ForImageClassificationWithTeacher": ("classify", ("logits",)),
    "ForObjectDetection": ("detect", ("logits", "pred_boxes")),
    "ForSemanticSegmentation": ("segment", ("logits",)),
}
"""By the ending of an architecture's name: what the model is for, and the outputs that say it."""

SOUND = ("ForCTC", "ForSequenceClassification", "ForAudioClassification")
"""Endings of names of architectures that transcribe or classify sound."""

VECTORS = ("image_embeds", "pooler_output")
"""Outputs that are a vector for each picture."""


def with_task(model: ImportedModel, folder: Folder) -> ImportedModel:
    """The model with its task; if it has none, a note says why. Raises `UsageError` if the folder says nonsense about
    it."""
    tasks: Mapping[str, Callable[[ImportedModel, Folder], PictureEntry | SoundEntry]] = {
        PIXELS: _picture_task,
        VALUES: _sound_task,
        SAMPLES: _sound_task,
    }
    names = [port.name for port in model.inputs]
    if len(names) != 1 or names[0] not in tasks:
        prepared = f"texts (input_ids, attention_mask), pictures ({PIXELS}) or sound ({VALUES})"
        return without_task(model, f"sessions prepare {prepared}, and it takes {_joined(names)}")
    try:
        return replace(model, task=tasks[names[0]](model, folder))
    except UnsupportedModelError as error:
        return without_task(model, str(error))


def without_task(model: ImportedModel, why: str) -> ImportedModel:
    """The model with the note that sessions quote where one calls a method that it does not have."""
    return replace(model, notes=(*model.notes, f"{TENSORS_ONLY}{why}"))


def no_method(model: ImportedModel, folder: Folder) -> str:
    """Why a model has no task whose outputs are no answer that a session knows."""
    gives = _joined([port.name for port in model.outputs])
    return f"sessions have no method for what {architecture_of(folder) or 'it'} gives ({gives})"


def _joined(names: Sequence[str]) -> str:
    return ", ".join(names[:SHOWN]) + (" and more" if len(names) > SHOWN else "")


SHOWN = 4
"""How many names a note shows."""


def _picture_task(model: ImportedModel, folder: Folder) -> PictureEntry:
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


def _sound_task(model: ImportedModel, folder: Folder) -> SoundEntry:
    architecture = architecture_of(folder)
    if not architecture.endswith(SOUND):
        raise UnsupportedModelError(no_method(model, folder))
    _require_batch_of_one(model, model.inputs[0])
    (samples,) = (port.name for port in model.inputs)
    outputs, count = ("logits",), int(model.outputs[0].shape[-1])
    if samples == SAMPLES:
        spectrum = read_spectrum(folder.path)
        heard = None if spectrum is None else Samples(spectrum.rate, normal=False)
    else:
        heard = read_samples(folder)
    if heard is None:
        raise UnsupportedModelError(f"the folder has no {PREPROCESSOR}, which says how sound is prepared")
    if not architecture.endswith("ForCTC"):
        labels = class_names(folder, count)
        return SoundEntry(
            kind="classify",
            samples=samples,
            rate=heard.rate,
            normal=heard.normal,
            outputs=outputs,
            labels=labels,
            scores=scores_of(folder, "softmax"),
        )
    letters = read_letters(folder, count)
    if letters is None:
        raise UnsupportedModelError("the folder has no vocab.json, which has the letters")
    return SoundEntry(
        kind="transcribe",
        samples=samples,
        rate=heard.rate,
        normal=heard.normal,
        outputs=outputs,
        letters=letters.texts,
        blank=letters.blank,
        lower=letters.lower,
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


def architecture_of(folder: Folder) -> str:
    """The first architecture that the configuration names; empty if there is none."""
    return str((folder.config.get("architectures") or [""])[0])


def tables_of(folder: Folder, words: int | None) -> bytes:
    """The packed tokenizer of a folder whose model knows so many words, if that is known. Raises `UsageError` if the
    tokenizer does not belong to the model."""
    written = folder.documents
    tables = pack(inside(folder.path, TOKENIZER).parent) if written is None else pack_fields(written[TOKENIZER])
    facts = facts_of(tables)
    if words is not None and facts.ids > words:
        raise UsageError(
            f"{folder.path / TOKENIZER} has ids up to {facts.ids - 1}, but {folder.config.path} says that there are "
            f"{words} words: the tokenizer belongs to another model"
        )
    return tables


def required_picture(folder: Folder) -> Picture:
    """How pictures are prepared. Raises `UnsupportedModelError` if the folder does not say it."""
    picture = read_picture(folder)
    if picture is None:
        raise UnsupportedModelError(f"the folder has no {PREPROCESSOR}, which says how pictures are prepared")
    return picture


def require_fit(model: ImportedModel, port: Port, picture: Picture) -> None:
    """Raises `UnsupportedModelError` if the model does not take one picture that was prepared at this input."""
    _require_batch_of_one(model, port)
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


def _require_batch_of_one(model: ImportedModel, port: Port) -> None:
    smallest, _ = bounds_of(model, port.shape[0])
    if smallest != 1:
        raise UnsupportedModelError(f"pictures and sounds run one after another, but a batch has {smallest} or more")


def bounds_of(model: ImportedModel, extent: IntExpr) -> tuple[int, int | None]:
    """The least and the greatest size of an extent of an input; None: no limit."""
    if isinstance(extent, int):
        return extent, extent
    return next(((dim.minimum, dim.maximum) for dim in model.dims if dim.var.same_as(extent)), (1, None))


def _labels(kind: PictureKind, model: ImportedModel, folder: Folder) -> tuple[str, ...]:
    """The names of classes. A detector has one more output, for "no object"."""
    if kind == "embed":
        return ()
    (logits,) = (port.shape for port in model.outputs if port.name == "logits")
    return class_names(folder, int(logits[1 if kind == "segment" else -1]) - (kind == "detect"))


def class_names(folder: Folder, count: int) -> tuple[str, ...]:
    """The names of so many classes, by their numbers."""
    names = folder.config.get("id2label") or {}
    return tuple(str(names.get(str(index), f"LABEL_{index}")) for index in range(count))


def scores_of(folder: Folder, usual: Scores) -> Scores:
    """How transformers makes scores of classes: as `problem_type` says, or else in the `usual` way."""
    ways: dict[str, Scores] = {"regression": "as_is", "multi_label_classification": "sigmoid"}
    return ways.get(str(folder.config.get("problem_type")), usual)
