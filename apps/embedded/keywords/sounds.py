"""Words from a synthetic voice, in the noise of a synthetic microphone: nothing is recorded.

A phone is a place of two formants, the resonances of a voice, or a hiss. A word is two of them, one after the other.
The voice is a sum of harmonics of its pitch, each as loud as the formants make it (Klatt, "Software for a
cascade/parallel formant synthesizer", 1980, has the idea).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

RATE = 8000
"""Samples a second."""

FORMANTS = {"a": (750.0, 1250.0), "e": (480.0, 1900.0), "i": (290.0, 2350.0), "o": (450.0, 850.0), "u": (320.0, 650.0)}
"""In Hz."""

HISS = "s"

WORDS = ("ai", "ue", "so", "is")
"""The words to know."""

OTHERS = ("ia", "eu", "os", "si", "au", "oi", "ea", "uo", "sa", "es")
"""Words that are none of them."""

QUIET = "-"

CLASSES = (QUIET, *WORDS)


def spoken(word: str, random: np.random.Generator) -> np.ndarray:
    """A word as samples from -1 to 1, by a random voice."""
    pitch, size = random.uniform(95, 230), random.uniform(0.9, 1.12)
    lengths = [int(random.uniform(0.13, 0.22) * RATE) for _ in word]
    count = sum(lengths)
    turn = np.clip((np.arange(count) - lengths[0]) / (0.05 * RATE) + 0.5, 0, 1)  # from the first phone to the second
    times = np.arange(count) / RATE
    tones = pitch * (1 + random.uniform(-0.15, 0.15) * times / times[-1])
    phases = 2 * np.pi * np.cumsum(tones) / RATE
    voiced = [phone != HISS for phone in word]
    places = [FORMANTS.get(phone, FORMANTS["e"]) for phone in word]
    sound = np.zeros(count)
    for harmonic in range(1, int(0.48 * RATE / tones.max())):
        loud = np.zeros(count)
        for formant, (first, second) in enumerate(zip(*places, strict=True)):
            centre = size * (first + (second - first) * turn)
            loud += (0.55**formant) / (1 + ((harmonic * tones - centre) / (70 + 40 * formant)) ** 2)
        sound += loud * np.sin(harmonic * phases + random.uniform(0, 0.3))
    sound *= voiced[0] + (voiced[1] - voiced[0]) * turn
    hiss = np.diff(random.standard_normal(count + 1)) * 0.35
    sound += hiss * (1 - (voiced[0] + (voiced[1] - voiced[0]) * turn))
    edge = np.minimum(np.arange(count), np.arange(count)[::-1]) / (0.02 * RATE)
    return np.asarray(sound * np.minimum(edge, 1) / np.abs(sound).max())


def noise(count: int, random: np.random.Generator) -> np.ndarray:
    """A room: mostly low frequencies, and some of all."""
    white = random.standard_normal(count + 400)
    low = np.convolve(white, np.exp(-np.arange(40) / 12), "valid")[:count]
    return np.asarray(0.25 * low / low.std() + 0.15 * random.standard_normal(count))


@dataclass(frozen=True)
class Recording:
    """Samples from -1 to 1, and the words in them: where each ends, in samples, and its class."""

    samples: np.ndarray
    ends: tuple[tuple[int, int], ...]


def recording(words: list[str], random: np.random.Generator) -> Recording:
    """Words with pauses between them, in noise."""
    parts, ends, at = [], [], 0
    for word in words:
        pause = int(random.uniform(0.5, 0.9) * RATE)
        sound = spoken(word, random) * random.uniform(0.25, 0.8)
        parts += [np.zeros(pause), sound]
        at += pause + len(sound)
        ends.append((at, CLASSES.index(word) if word in WORDS else 0))
    parts.append(np.zeros(RATE))
    clean = np.concatenate(parts)
    loud = random.uniform(0.01, 0.06)
    return Recording(np.clip(clean + loud * noise(len(clean), random), -1, 1), tuple(ends))


def as_integers(samples: np.ndarray) -> np.ndarray:
    """What a microphone of 16 bits gives."""
    return np.asarray(np.rint(samples * 32767), np.int16)
