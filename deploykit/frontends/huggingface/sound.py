"""The log-mel spectrum of sound as an operator, so that a model takes samples.

A spectrum has one frame for each `hop` samples: the powers of the frequencies of `points` samples around it, summed by
overlapping triangles that lie evenly on the mel scale. Its decimal logarithm is cut off at 8 below its maximum and
moved to about -1 to 1. Shorter sounds are followed by silence. (Source: Slaney, "Auditory Toolbox", 1998, for the
scale; Radford et al., "Robust Speech Recognition via Large-Scale Weak Supervision", 2022.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tvm import tirx

from deploykit.compiler.operators.padding import pad
from deploykit.compiler.operators.signal.fourier import stft
from deploykit.errors import UnsupportedModelError
from deploykit.frontends.huggingface.entries import SOUNDS, check_settings
from deploykit.frontends.huggingface.folder import inside, read_json
from deploykit.frontends.huggingface.tensors import Tensor

PREPROCESSOR = "preprocessor_config.json"
KIND = "WhisperFeatureExtractor"

LOWEST_POWER = 1e-10
RANGE = 8.0
"""How far below its maximum a spectrum is cut off, in powers of ten."""

HIGHEST = 8000.0
"""Hertz: the end of the last triangle."""

LINEAR_TO, LINEAR_MELS = 1000.0, 15.0
"""The mel scale is linear up to this frequency and number of mels, and logarithmic beyond it."""
STEP = math.log(6.4) / 27.0
"""The logarithmic part: each mel is a factor of exp(STEP)."""


@dataclass(frozen=True)
class Spectrum:
    """`samples` is the length of all sounds, `rate` is in samples per second, and `bins` is the number of triangles."""

    samples: int
    rate: int
    points: int
    hop: int
    bins: int

    @property
    def frames(self) -> int:
        return self.samples // self.hop


def read_spectrum(folder: Path) -> Spectrum | None:
    """The spectrum that `preprocessor_config.json` describes; None if there is no such file. Raises
    `UnsupportedModelError` for steps that are unknown."""
    if not (folder / PREPROCESSOR).exists():
        return None
    path = inside(folder, PREPROCESSOR)
    found = read_json(path)
    kind = found.get("feature_extractor_type") if isinstance(found, dict) else None
    if kind != KIND:
        raise UnsupportedModelError(f"{path} names the feature extractor {kind}; there is {KIND}")
    for name, value in {"dither": 0.0, "do_normalize": False, "padding_side": "right", "padding_value": 0.0}.items():
        if found.get(name, value) != value:
            raise UnsupportedModelError(f"{path} says {name}={found[name]!r}, but only {value!r} is known")
    check_settings(path, found, SOUNDS)
    defaults = {"feature_size": 80, "sampling_rate": 16000, "hop_length": 160, "chunk_length": 30, "n_fft": 400}
    numbers = {name: value if found.get(name) is None else found[name] for name, value in defaults.items()}
    rate = numbers["sampling_rate"]
    samples = numbers["chunk_length"] * rate
    return Spectrum(samples, rate, numbers["n_fft"], numbers["hop_length"], numbers["feature_size"])


def log_mel(x: Tensor, spectrum: Spectrum) -> Tensor:
    """The spectra (batch, bins, frames) of sounds (batch, samples)."""
    ctx, batch = x.ctx, x.shape[0]
    half = spectrum.points // 2
    silence = ctx.known([0, 0, 0, ctx.simplify(spectrum.samples - x.shape[1])])
    sound = pad(ctx, x.value, silence)
    # The last frame, at the end of the sound, is left out.
    mirrored = x.of(pad(ctx, sound, ctx.constant([0, half, 0, half], "int64"), mode="reflect"))
    mirrored = mirrored.slice(1, 0, (spectrum.frames - 1) * spectrum.hop + spectrum.points)
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(spectrum.points) / spectrum.points)
    parts = x.of(
        stft(
            ctx,
            mirrored.reshape(batch, mirrored.shape[1], 1).value,
            ctx.constant(spectrum.hop, "int64"),
            ctx.constant(window, "float32"),
        )
    )
    power = (parts * parts).sum(3) @ x.of(ctx.constant(triangles(spectrum), "float32"))
    log = power.maximum(LOWEST_POWER).elementwise("log", tirx.log) * (1 / math.log(10))
    lowest = (log.greatest(1, 2) - RANGE).reshape(batch, 1, 1)
    return ((log.maximum(lowest) + 4.0) / 4.0).transpose(0, 2, 1)


def triangles(spectrum: Spectrum) -> np.ndarray:
    """The weight of each frequency in each triangle: (frequencies, bins). A triangle has the area of a constant."""
    mels = np.linspace(0.0, _mels(HIGHEST), spectrum.bins + 2)
    corners = np.where(
        mels < LINEAR_MELS, mels * LINEAR_TO / LINEAR_MELS, LINEAR_TO * np.exp(STEP * (mels - LINEAR_MELS))
    )
    frequencies = np.linspace(0.0, spectrum.rate // 2, spectrum.points // 2 + 1)
    distances = corners[None, :] - frequencies[:, None]
    widths = np.diff(corners)
    rising, falling = -distances[:, :-2] / widths[:-1], distances[:, 2:] / widths[1:]
    height = 2.0 / (corners[2:] - corners[:-2])
    return np.asarray(np.maximum(0.0, np.minimum(rising, falling)) * height)


def _mels(hertz: float) -> float:
    if hertz < LINEAR_TO:
        return hertz * LINEAR_MELS / LINEAR_TO
    return LINEAR_MELS + math.log(hertz / LINEAR_TO) / STEP
