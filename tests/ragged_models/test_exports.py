"""Exports become models for ragged batches that compute what ONNX Runtime computes for each sequence.

`refused.txt` lists the exports that the conversion refuses, in lines `pattern: part of the message`; the first pattern
that fits counts. A listed export must be refused, so that the list tells what cannot be converted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fnmatch import fnmatch
from pathlib import Path

import numpy as np
import pytest

import deploykit
from deploykit.sessions.session import Session
from tests.ragged_models import corpus
from tests.runtimes import Runtime
from tests.zoo.judge import TOLERANCE, distance

LINES = Path(__file__).with_name("refused.txt").read_text().splitlines()
PATTERNS = dict(line.split(": ", 1) for line in LINES)
REFUSED = {
    name: next(reason for pattern, reason in PATTERNS.items() if fnmatch(name, pattern))
    for name in corpus.names()
    if any(fnmatch(name, pattern) for pattern in PATTERNS)
}
ACCEPTED = [name for name in corpus.names() if name not in REFUSED]
LENGTHS = ((7,), (1,), (corpus.LONGEST,), (5, 5, 5), (1, corpus.LONGEST, 17, 3), (1,) * 16)
MEAN_POOLED = [name for name in ACCEPTED if corpus.architecture(name) == "sentence"]


@pytest.mark.slow
@pytest.mark.sampled(part=200)
@pytest.mark.parametrize("name", ACCEPTED)
def test_an_export_is_right_at_all_lengths(name: str, runtime: Runtime) -> None:
    with runtime.session(corpus.read(name), dims=corpus.BOUNDS, ragged=corpus.RAGGED) as session:
        _check_interface(name, session)
        for number, lengths in enumerate([*LENGTHS, *_random()]):
            _check(name, session, lengths, number)


@pytest.mark.slow
@pytest.mark.sampled(part=24)
@pytest.mark.parametrize("name", MEAN_POOLED)
def test_sequences_may_be_empty(name: str, runtime: Runtime) -> None:
    """The mean over an empty sequence is zero, as in the padded model."""
    with runtime.session(corpus.read(name), dims=corpus.BOUNDS, ragged=corpus.RAGGED) as session:
        for number, lengths in enumerate([(0, 5, 0, 3), (4, 0), (0,), (0, 0)]):
            _check(name, session, lengths, number)


@pytest.mark.slow
@pytest.mark.sampled(part=160)
@pytest.mark.parametrize("name", ACCEPTED)
@pytest.mark.parametrize("threads", [1, 2])
def test_a_sequence_has_the_same_bits_alone_and_in_a_batch_if_asked(name: str, threads: int, tmp_path: Path) -> None:
    deploykit.build(corpus.read(name), dims=corpus.BOUNDS, ragged=corpus.RAGGED, exact=True, output=tmp_path / "out")
    with deploykit.open(tmp_path / "out", threads=threads) as session:
        for number, lengths in enumerate(_random()):
            batch = corpus.batch(name, lengths, number)
            together = session.run(batch.packed())
            for index, (one, length) in enumerate(zip(batch.instances, lengths, strict=True)):
                alone = session.run(corpus.Batch((one,), (length,)).packed())
                for output, values in alone.items():
                    assert np.array_equal(np.asarray(values[0]), np.asarray(together[output][index])), output


@pytest.mark.parametrize("name", [name for name in REFUSED if corpus.architecture(name) in corpus.LEAKS])
def test_a_leak_is_refused(name: str) -> None:
    with pytest.raises(deploykit.UnsupportedModelError):
        deploykit.load(corpus.read(name), corpus.BOUNDS, ragged=corpus.RAGGED)


@pytest.mark.slow
@pytest.mark.sampled(part=12)
@pytest.mark.parametrize("name", REFUSED)
def test_a_listed_export_is_refused(name: str) -> None:
    with pytest.raises(deploykit.UnsupportedModelError) as refusal:
        deploykit.load(corpus.read(name), corpus.BOUNDS, ragged=corpus.RAGGED)
    assert REFUSED[name] in str(refusal.value)


def test_every_leak_is_listed() -> None:
    leaks = [name for name in corpus.names() if corpus.architecture(name) in corpus.LEAKS]
    assert set(leaks) <= REFUSED.keys()
    assert all(any(fnmatch(name, pattern) for name in corpus.names()) for pattern in PATTERNS)


def _random() -> Iterator[tuple[int, ...]]:
    rng = np.random.default_rng(0)
    for count in (2, 9):
        yield tuple(rng.integers(1, corpus.LONGEST + 1, count).tolist())


def _check_interface(name: str, session: Session) -> None:
    """Check which ports are ragged, and that `lengths` has come in the place of the mask."""
    expected = [*(one for one in corpus.inputs(name) if one not in corpus.MASKS), "lengths"]
    assert [port.name for port in session.manifest.inputs] == expected
    for port in session.manifest.inputs[:-1]:
        assert port.instance is not None
    for port in session.manifest.outputs:
        assert (port.instance is not None) == corpus.is_per_position(name, port.name)


def _check(name: str, session: Session, lengths: Sequence[int], seed: int) -> None:
    batch = corpus.batch(name, lengths, seed)
    results = session.run(batch.packed())
    expected = corpus.reference(name, batch, max(1, *lengths))
    for index, outputs in enumerate(expected):
        for output, values in outputs.items():
            error = distance(np.asarray(results[output][index]), values)
            assert error <= TOLERANCE, f"{output} of sequence {index} in lengths {lengths} is off by {error:.2g}"
