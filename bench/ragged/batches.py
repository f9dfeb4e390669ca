"""One batch of sequences in the forms that the sides of a comparison take.

packed     all sequences one after the other, and their lengths
padded     each sequence padded to the longest, and a mask
sorted     the sequences sorted by length and split into small batches, each padded to its longest
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bench.ragged.models import MASK, Model

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Batch:
    """`values` are the inputs other than the mask, [tokens, rest...]."""

    lengths: np.ndarray
    values: Arrays

    def packed(self) -> dict[str, np.ndarray]:
        return {**self.values, "lengths": self.lengths}

    def padded(self, instances: Sequence[int] | None = None) -> dict[str, np.ndarray]:
        """These sequences, by default all, padded with zeros."""
        chosen = list(range(len(self.lengths))) if instances is None else list(instances)
        longest = int(self.lengths[chosen].max())
        starts = np.cumsum(self.lengths) - self.lengths
        found = {}
        for name, values in self.values.items():
            found[name] = np.zeros((len(chosen), longest, *values.shape[1:]), values.dtype)
            for row, instance in zip(found[name], chosen, strict=True):
                length = self.lengths[instance]
                row[:length] = values[starts[instance] : starts[instance] + length]
        return {**found, MASK: (np.arange(longest) < self.lengths[chosen, None]).astype(np.int64)}

    def sorted(self, size: int) -> list[dict[str, np.ndarray]]:
        """Batches of `size` sequences of similar lengths, the longest first."""
        order = np.argsort(-self.lengths, kind="stable").tolist()
        return [self.padded(order[start : start + size]) for start in range(0, len(order), size)]

    def valid(self, padded: np.ndarray) -> np.ndarray:
        """The elements of an output [batch, seq, ...] of the padded batch that are not padding, as packed."""
        return np.concatenate([row[:length] for row, length in zip(padded, self.lengths, strict=True)])


def batch_of(model: Model, lengths: np.ndarray, seed: int = 0) -> Batch:
    rng = np.random.default_rng(seed)
    tokens = int(lengths.sum())
    return Batch(lengths, {name: make(rng, tokens) for name, make in model.inputs.items()})
