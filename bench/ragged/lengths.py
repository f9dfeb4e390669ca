"""Random lengths of sequences, distributed as in eight public data sets.

The data sets are those of CoRa (Fegade et al., MLSys 2022). A batch is a run of consecutive sequences of a data set.
Their lengths are alike, because neighbours come from the same passage or list, so a batch of 8 needs less padding than
8 random sequences. `DATASETS` has the quantiles of the lengths, and how alike neighbours are. Correlated normal numbers
become lengths with these quantiles.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from statistics import NormalDist

import numpy as np

LEVELS = (0, 0.05, 0.25, 0.5, 0.75, 0.95, 0.995, 1)
"""The levels of the quantiles. Between them, the quantile function is linear."""

WIDTH, HIDDEN = 512, 2048
"""The sizes of the layer whose operations `padding` counts."""

CANDIDATES = 200
"""The number of batches of which `typical` returns one."""


@dataclass(frozen=True)
class Dataset:
    """`quantiles` at `LEVELS`. The correlation of the normal numbers of two sequences `n` apart is
    `shared * decay**n`."""

    name: str
    quantiles: tuple[float, ...]
    shared: float = 0
    decay: float = 0

    @property
    def longest(self) -> int:
        return int(self.quantiles[-1])

    def lengths(self, count: int, seed: int = 0) -> np.ndarray:
        """The lengths of `count` consecutive sequences."""
        rng = np.random.default_rng(seed)
        own, fresh = rng.standard_normal((2, count))
        scale = (1 - self.decay**2) ** 0.5
        shared = np.array(
            list(accumulate(fresh[1:] * scale, lambda old, new: self.decay * old + new, initial=fresh[0]))
        )
        mixed = self.shared**0.5 * shared + (1 - self.shared) ** 0.5 * own
        levels = [NormalDist().cdf(value) for value in mixed]
        return np.rint(np.interp(levels, LEVELS, self.quantiles)).astype(np.int64)

    def typical(self, batch: int) -> np.ndarray:
        """The lengths of a batch: the one of `CANDIDATES` random batches whose `padding` is closest to that of all."""
        batches = [self.lengths(batch, seed) for seed in range(CANDIDATES)]
        whole = sum(map(_padded, batches)) / sum(map(operations, batches))
        return min(batches, key=lambda lengths: abs(padding(lengths) - whole))


def operations(lengths: np.ndarray) -> float:
    """The multiplications and additions of an encoder layer for sequences of these lengths."""
    linear = 2 * (4 * WIDTH**2 + 2 * WIDTH * HIDDEN)
    return float((linear * lengths + 4 * WIDTH * lengths.astype(np.float64) ** 2).sum())


def padding(lengths: np.ndarray) -> float:
    """How many times the operations grow if each sequence is padded to the longest."""
    return _padded(lengths) / operations(lengths)


def _padded(lengths: np.ndarray) -> float:
    return operations(np.full(lengths.shape, lengths.max()))


DATASETS: Mapping[str, Dataset] = {
    found.name: found
    for found in (
        Dataset("RACE", (15, 170, 326, 374, 419, 512, 512, 512)),
        Dataset("Wiki512", (5, 51, 171, 512, 512, 512, 512, 512), 0.8, 0.99),
        Dataset("SQuAD", (37, 93, 159, 177, 205, 334, 378, 384), 0.2, 0.5),
        Dataset("Wiki128", (7, 50, 126, 128, 128, 128, 128, 128), 0.5, 0.9),
        Dataset("MNLI", (5, 17, 33, 41, 46, 80, 113, 128), 0.4, 0.5),
        Dataset("XNLI", (5, 20, 40, 66, 101, 128, 128, 128)),
        Dataset("MRPC", (20, 36, 52, 59, 67, 84, 94, 112), 0.4, 0.5),
        Dataset("CoLA", (4, 7, 10.3, 12, 13.7, 22, 24, 48), 0.7, 0.95),
    )
}
