"""What the tests of ragged models rely on: in ONNX Runtime, the exports of the corpus compute the same for a sequence
alone and for the same sequence in a padded batch, whatever the padding holds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from tests.ragged_models import corpus
from tests.zoo.judge import TOLERANCE, distance

MOST_BYTES = 3 << 20
LENGTHS = ((7,), (5, 5, 5), (1, corpus.LONGEST, 17, 3))
KEPT = [name for name in corpus.names() if corpus.architecture(name) not in corpus.LEAKS]
LEAKING = [name for name in corpus.names() if corpus.architecture(name) in corpus.LEAKS]


def test_the_corpus_is_small() -> None:
    assert len(corpus.names()) >= 140
    assert sum(path.stat().st_size for path in corpus.MODELS.iterdir()) < MOST_BYTES


@pytest.mark.parametrize("name", KEPT)
def test_padding_does_not_matter(name: str) -> None:
    assert max(_largest_effect(name, lengths) for lengths in LENGTHS) < TOLERANCE


@pytest.mark.parametrize("name", LEAKING)
def test_padding_matters(name: str) -> None:
    assert max(_largest_effect(name, lengths) for lengths in LENGTHS) > 0.1


def _largest_effect(name: str, lengths: Sequence[int]) -> float:
    """How far the results of a sequence alone are from those in a batch, padded to the longest and further."""
    batch = corpus.batch(name, lengths)
    alone = [
        corpus.reference(name, corpus.Batch((one,), (length,)), length)[0]
        for one, length in zip(batch.instances, lengths, strict=True)
    ]
    together = [corpus.reference(name, batch, length) for length in (max(lengths), corpus.LONGEST)]
    return max(
        distance(found[output], expected[output])
        for padded in together
        for found, expected in zip(padded, alone, strict=True)
        for output in expected
    )


@pytest.mark.parametrize("name", [name for name in KEPT if corpus.architecture(name) not in corpus.CAUSAL])
def test_the_mask_matters(name: str) -> None:
    """So the tests notice a conversion that ignores it."""
    masked = corpus.padded(name, corpus.batch(name, (9, 5)), 12)
    whole = {one: array for one, array in masked.items() if one not in corpus.MASKS}
    whole |= {one: np.full_like(masked[one], 12 if one == "sequence_lengths" else 1) for one in masked.keys() - whole}
    with_mask, without = corpus.run(name, masked), corpus.run(name, whole)
    assert max(distance(without[output][1], with_mask[output][1]) for output in with_mask) > 0.01
