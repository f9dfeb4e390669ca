"""Sound as models take it: samples of one channel at the rate of the model.

`resampled` is a windowed sinc: each new sample is a weighted sum of the old ones around it. The filter passes
frequencies up to `ROLLOFF` of half the lower rate, ends after `ZEROS` zeros of the sinc on each side, and is faded out
by a Hann window. Its weights follow from the distance alone, so there is one set for each phase between the rates, and
any two rates work. These are the defaults of `torchaudio.functional.resample`, which transformers' pipelines use.

(Source: Smith, "Digital Audio Resampling", 2002.)
"""

from __future__ import annotations

import math
import wave
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from deploykit.errors import UsageError

ZEROS, ROLLOFF = 6, 0.99

INTEGERS: Mapping[int, np.dtype[Any]] = {1: np.dtype("u1"), 2: np.dtype("<i2"), 4: np.dtype("<i4")}
"""The samples of a wave file by their bytes; 3 bytes are widened to 4."""


DAMAGED = (OSError, EOFError, wave.Error, RuntimeError, ValueError, OverflowError)
"""What the reader of wave files raises for damaged ones."""


def samples_of(sound: object, rate: int | None, wanted: int) -> np.ndarray:
    """The samples of a sound at the `wanted` rate: float32 (samples,). A sound is an array (samples,) or (channels,
    samples) with its `rate`, or the path of a wave file, which has its own. Channels become their mean. Integers of 16
    bits become parts of the largest.

    Raises `UsageError` for a file that is missing or damaged, and for what is no sound."""
    if isinstance(sound, str | Path):
        if rate is not None:
            raise UsageError(f"{sound} says its own rate: give none")
        sound, rate = read_wave(Path(sound))
    if rate is None:
        raise UsageError(f"give the rate of the samples, in samples per second; the model takes {wanted}")
    samples = np.asarray(sound)
    if samples.ndim == 2 and samples.shape[0] > samples.shape[1]:
        raise UsageError(f"a sound is (samples,) or (channels, samples); this one is {list(samples.shape)}")
    if samples.ndim not in (1, 2) or 0 in samples.shape:
        raise UsageError(
            f"a sound is (samples,) or (channels, samples), and not empty; this one is {list(samples.shape)}"
        )
    if samples.dtype == np.int16:
        samples = samples.astype(np.float32) / np.float32(32768)
    if samples.dtype.kind != "f":
        raise UsageError(f"samples are floats in -1..1, or 16-bit integers (int16); these are {samples.dtype}")
    if not np.isfinite(samples).all():
        raise UsageError("samples must be finite: these have infinities or values that are no numbers")
    samples = samples.astype(np.float32)
    return resampled(samples.mean(axis=0) if samples.ndim == 2 else samples, rate, wanted)


def read_wave(path: Path) -> tuple[np.ndarray, int]:
    """The samples (channels, samples) of a wave file, in -1..1, and their rate. Raises `UsageError` for a file that is
    missing or damaged, or whose samples are no integers."""
    try:
        with wave.open(str(path)) as file:
            channels, width, rate, count = file.getparams()[:4]
            data = file.readframes(count)
    except DAMAGED as error:
        raise UsageError(f"{path} cannot be read as a wave file: {str(error) or 'it ends too early'}") from error
    if len(data) != count * channels * width or rate < 1:
        raise UsageError(f"{path} is damaged: it has {len(data)} bytes of {count * channels * width}")
    if width not in (1, 2, 3, 4):
        raise UsageError(f"{path} has samples of {width} bytes: convert it to 16 bits")
    if width == 3:
        data, width = _widened(data), 4
    values = np.frombuffer(data, INTEGERS[width]).astype(np.float64)
    values = (values - 128) / 128 if width == 1 else values / 2.0 ** (8 * width - 1)
    return values.reshape(-1, channels).T.astype(np.float32), rate


def _widened(data: bytes) -> bytes:
    """Integers of 3 bytes as integers of 4, times 256."""
    wide = np.zeros((len(data) // 3, 4), np.uint8)
    wide[:, 1:] = np.frombuffer(data, np.uint8).reshape(-1, 3)
    return wide.tobytes()


def resampled(samples: np.ndarray, rate: int, wanted: int) -> np.ndarray:
    """The samples at another rate, as float32. Raises `UsageError` for a rate that is no positive integer."""
    for given in (rate, wanted):
        if given != int(given) or given < 1:
            raise UsageError(f"a rate is a positive integer, in samples per second; found {given}")
    if rate == wanted:
        return samples.astype(np.float32)
    divisor = math.gcd(int(rate), int(wanted))
    old, new = int(rate) // divisor, int(wanted) // divisor
    count = -(-new * len(samples) // old)
    places = np.arange(count, dtype=np.int64) * old
    before, phases, order = places // new, places % new, np.arange(count) % new
    cutoff = min(old, new) * ROLLOFF / old
    reach = math.ceil(ZEROS / cutoff)
    sums = np.zeros(count)
    around = np.pad(samples.astype(np.float64), reach + 1)
    for tap in range(-reach, reach + 2):
        weights = _weights((tap - phases[:new] / new) * cutoff, cutoff)
        sums += around[before + tap + reach + 1] * weights[order]
    return sums.astype(np.float32)


def _weights(distances: np.ndarray, cutoff: float) -> np.ndarray:
    """The filter at these distances, in zeros of the sinc."""
    window = np.cos(np.clip(distances / ZEROS, -1, 1) * (np.pi / 2)) ** 2
    return np.asarray(np.sinc(distances) * window * cutoff)
