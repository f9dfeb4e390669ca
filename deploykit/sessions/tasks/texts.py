"""Texts in, answers out: what a session does for a model whose artifact has a tokenizer.

A batch of texts is not padded if the model is ragged. Long lists run in parts of about `TOKENS_AT_ONCE` tokens, so that
memory does not grow with them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from deploykit.errors import UsageError
from deploykit.sessions.tasks.kinds import Run, require
from deploykit.sessions.tasks.labels import Label, labelled, softmax

if TYPE_CHECKING:
    from deploykit.artifact.manifest import Manifest
    from deploykit.artifact.tasks import TextEntry
    from deploykit.text import Encoding, Tokenizer

TOKENS_AT_ONCE = 1 << 14

LONGEST_ANSWER = 30
"""Tokens of an answer to a question."""


@dataclass(frozen=True)
class Span:
    """A part of a text, `text[start:end]`, with what the model says of it."""

    label: str
    score: float
    start: int
    end: int
    text: str


class Texts:
    """What a session does with texts. `run` runs the model."""

    def __init__(self, manifest: Manifest, task: TextEntry, tokenizer: Tokenizer, run: Run) -> None:
        self.task, self.tokenizer, self.run = task, tokenizer, run
        ports = {port.name: port for port in manifest.inputs}
        self._ragged = ports[task.ids].instance is not None
        self._mask = next((entry for entry in ports if entry not in (task.ids, task.types)), None)

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """A vector for each text, (texts, width)."""
        require(self.task, "embed")
        (output,) = self.task.outputs
        parts = [found[output] for _, found in self._runs([self._encode(text) for text in texts or ("",)])]
        return np.concatenate(parts)[: len(texts)]

    def classify(self, texts: Sequence[str]) -> list[list[Label]]:
        """The classes of each text, the most probable one first."""
        require(self.task, "classify")
        found: list[list[Label]] = []
        for _, results in self._runs([self._encode(text) for text in texts]):
            found += [labelled(row, self.task.labels, self.task.scores) for row in results[self.task.outputs[0]]]
        return found

    def tokens(self, texts: Sequence[str]) -> list[list[Span]]:
        """The class of each token of each text, without special tokens."""
        require(self.task, "tokens")
        found: list[list[Span]] = []
        given = iter(texts)
        for encodings, results in self._runs([self._encode(text) for text in texts]):
            for encoding, logits in zip(encodings, self._rows(results[self.task.outputs[0]], encodings), strict=True):
                found.append(self._spans(next(given), encoding, logits))
        return found

    def answer(self, question: str, context: str) -> Span:
        """The part of `context` that answers `question`. Its score is the probability of its ends."""
        require(self.task, "answer")
        encoding = self._encode(question, context)
        ((_, results),) = self._runs([encoding])
        start, end = (softmax(self._rows(results[name], [encoding])[0]) for name in self.task.outputs)
        inside = encoding.texts == 1
        if not inside.any():
            raise UsageError("the question leaves no room for the context: it has too many tokens")
        scores = np.triu(np.outer(np.where(inside, start, 0), np.where(inside, end, 0)))
        first, last = divmod(int(np.tril(scores, LONGEST_ANSWER - 1).argmax()), len(inside))
        begin, close = int(encoding.offsets[first, 0]), int(encoding.offsets[last, 1])
        return Span("answer", float(scores[first, last]), begin, close, context[begin:close])

    def fill(self, texts: Sequence[str], count: int = 5) -> list[list[list[Label]]]:
        """For each text and each mask in it, the `count` most probable tokens, the best first."""
        require(self.task, "fill")
        if count < 1:
            raise UsageError(f"count must be at least 1; found {count}")
        given = [self._encode(text) for text in texts]
        for encoding, text in zip(given, texts, strict=True):
            if self.task.mask_id not in encoding.ids:
                cut = f" in its first {self.task.most_tokens} tokens" if self.task.mask in text else ""
                raise UsageError(f"the text has no {self.task.mask}{cut}, which stands for what is to be filled in")
        found: list[list[list[Label]]] = []
        for encodings, results in self._runs(given):
            for encoding, logits in zip(encodings, self._rows(results[self.task.outputs[0]], encodings), strict=True):
                found.append([self._best(row, count) for row in logits[encoding.ids == self.task.mask_id]])
        return found

    def _best(self, logits: np.ndarray, count: int) -> list[Label]:
        """The most probable tokens."""
        scores = softmax(logits)
        order = np.argsort(-scores, kind="stable")[:count]
        return [Label(self.tokenizer.decode([index], skip_special=False), float(scores[index])) for index in order]

    def _encode(self, text: str, pair: str | None = None) -> Encoding:
        cut = "longest_first" if pair is None else "only_second"
        return self.tokenizer.encode(text, pair, most=self.task.most_tokens or 0, cut=cut)

    def _runs(self, encodings: Sequence[Encoding]) -> Iterator[tuple[Sequence[Encoding], Mapping[str, Any]]]:
        """The texts in parts, in order, each with the results for it."""
        part: list[Encoding] = []
        count = 0
        for encoding in encodings:
            size = len(encoding.ids)
            if part and (self.task.alone or count + size > TOKENS_AT_ONCE):
                yield part, self.run(self._inputs(part))
                part, count = [], 0
            part.append(encoding)
            count += size
        if part:
            yield part, self.run(self._inputs(part))

    def _inputs(self, encodings: Sequence[Encoding]) -> dict[str, Any]:
        ids = [encoding.ids.astype(np.int64) for encoding in encodings]
        found: dict[str, Any] = {self.task.ids: ids}
        if self.task.types is not None:
            found[self.task.types] = [encoding.type_ids.astype(np.int64) for encoding in encodings]
        if self._ragged:
            return found
        assert self._mask is not None
        found[self._mask] = [np.ones(len(row), np.int64) for row in ids]
        return {name: padded(rows) for name, rows in found.items()}

    def _rows(self, values: Any, encodings: Sequence[Encoding]) -> list[np.ndarray]:
        """The results for the tokens of each text, without padding."""
        return [np.asarray(row)[: len(e.ids)] for row, e in zip(values, encodings, strict=True)]

    def _spans(self, text: str, encoding: Encoding, logits: np.ndarray) -> list[Span]:
        found = []
        for row, (start, end), special in zip(logits, encoding.offsets.tolist(), encoding.special_mask, strict=True):
            if not special:
                scores = softmax(row)
                best = int(scores.argmax())
                found.append(Span(self.task.labels[best], float(scores[best]), start, end, text[start:end]))
        return found


def padded(rows: Sequence[np.ndarray], length: int | None = None, padding: int = 0) -> np.ndarray:
    """Rows of numbers as an array, padded behind to the longest one or to a length."""
    result = np.full((len(rows), max(map(len, rows)) if length is None else length), padding, np.int64)
    for row, values in zip(result, rows, strict=True):
        row[: len(values)] = values
    return result
