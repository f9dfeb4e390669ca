"""Trains `keywords.onnx`, and prints how often it is right about words that it has never heard.

    python -m apps.embedded.keywords.train [-o FILE]

A window holds a whole word at a random place, or a part of one, other words, or noise alone. Everything is seeded.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import onnx

from apps.embedded.keywords.network import WINDOW, energies, exported, forward, trained
from apps.embedded.keywords.sounds import CLASSES, OTHERS, QUIET, WORDS, noise, spoken

SEED = 11
WINDOWS = 9_000
CHECKED = 2_000
EPOCHS = 14
OTHER = len(CLASSES)
KINDS = OTHER + 3
"""Kinds of windows: those of classes, then `OTHER` words, and twice parts of words."""


def window(kind: int, random: np.random.Generator) -> tuple[np.ndarray, int]:
    """Samples of a window of one of KINDS kinds, and its class: noise, a word of each class, another word, and twice a
    half of a word or less."""
    samples = np.zeros(3 * WINDOW)
    if kind:
        whole = kind <= OTHER
        word = WORDS[kind - 1] if kind < OTHER else str(random.choice(OTHERS if whole else (*OTHERS, *WORDS)))
        sound = spoken(word, random) * random.uniform(0.25, 0.8)
        least, most = WINDOW, 2 * WINDOW - len(sound)
        if not whole:
            hidden = int(len(sound) * random.uniform(0.5, 0.9))
            least = most = least - hidden if random.random() < 0.5 else most + hidden
        at = int(random.integers(least, most + 1))
        samples[at : at + len(sound)] = sound
    samples = samples[WINDOW : 2 * WINDOW] + random.uniform(0.01, 0.06) * noise(WINDOW, random)
    return np.clip(samples, -1, 1), kind if kind < OTHER else CLASSES.index(QUIET)


def windows(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Energies of windows, as many of each kind, and their classes."""
    random = np.random.default_rng(seed)
    found = [window(index % KINDS, random) for index in range(count)]
    samples = np.stack([samples for samples, _ in found]).astype(np.float32)
    parts = [energies(part) for part in np.array_split(samples, 32)]
    return np.concatenate(parts), np.array([each for _, each in found])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m apps.embedded.keywords.train", description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=Path, default=Path(__file__).with_name("keywords.onnx"))
    output = parser.parse_args().output
    x, classes = windows(WINDOWS, SEED)
    mean, spread = float(x.mean()), float(x.std())
    random = np.random.default_rng(SEED)
    weights = trained((x - mean) / spread, classes, EPOCHS, random, lambda loss: print(f"loss {loss:.4f}", flush=True))
    onnx.save(exported(weights, mean, spread), output)
    unheard, expected = windows(CHECKED, SEED + 1)
    found = forward(weights, (unheard - mean) / spread)[0].argmax(1)
    print(f"{output}: {output.stat().st_size} bytes")
    print(f"{(found == expected).mean():.2%} of {CHECKED} windows held out")


if __name__ == "__main__":
    main()
