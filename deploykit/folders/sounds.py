"""What a model of sound from a Hugging Face folder is for.

`preprocessor_config.json` says how a sound becomes the tensor that the model takes, and the architecture says what the
outputs are.
"""

from __future__ import annotations

from deploykit.artifact.tasks import SoundEntry
from deploykit.compiler.model import ImportedModel
from deploykit.errors import UnsupportedModelError
from deploykit.folders.tasks import architecture_of, class_names, no_method, require_batch_of_one, scores_of
from deploykit.frontends.huggingface.folder import Folder
from deploykit.frontends.huggingface.letters import Samples, read_letters, read_samples
from deploykit.frontends.huggingface.pictures import PREPROCESSOR
from deploykit.frontends.huggingface.sound import read_spectrum

VALUES, SAMPLES = "input_values", "samples"
"""The inputs of models of sound, and of those that compute a spectrum."""

SOUND = ("ForCTC", "ForSequenceClassification", "ForAudioClassification")
"""Endings of names of architectures that transcribe or classify sound."""


def sound_task(model: ImportedModel, folder: Folder) -> SoundEntry:
    """The task. Raises `UnsupportedModelError` if sound cannot be prepared, or if no output is an answer."""
    architecture = architecture_of(folder)
    if not architecture.endswith(SOUND):
        raise UnsupportedModelError(no_method(model, folder))
    require_batch_of_one(model, model.inputs[0])
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
