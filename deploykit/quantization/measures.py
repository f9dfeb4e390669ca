"""How much answers of a model change: both artifacts answer the same, and a note says what became different.

For a model of texts, the change is told in terms of its task: the directions of embeddings, or the classes that stay
the same. For any other model, it is the change of each output for random inputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from deploykit.checks.padded import plain
from deploykit.checks.samples import dims_of_contents, random_for_others, sample_inputs, symbolic_dims
from deploykit.checks.streamed import Incomparable, streamed_form
from deploykit.checks.verify import CHANGE, default_sizes
from deploykit.errors import ShapeError
from deploykit.quantization.trials import QUESTIONS
from deploykit.sessions.language.measures import information_of

if TYPE_CHECKING:
    from deploykit.artifact.manifest import Manifest
    from deploykit.sessions.session import Session
    from deploykit.sessions.tasks.labels import Label
    from deploykit.sessions.tasks.texts import Span


def _embeddings(old: Session, new: Session, texts: Sequence[str]) -> str:
    a, b = (_directions(session.embed(texts)) for session in (old, new))
    cosines = (a * b).sum(axis=1)
    return (
        f"embeddings of {len(texts)} texts: cosine similarity to those of float32 {cosines.mean():.4f}, at least "
        f"{cosines.min():.4f}"
    )


def _classes(old: Session, new: Session, texts: Sequence[str]) -> str:
    pairs = list(zip(old.classify(texts), new.classify(texts), strict=True))
    same = sum(a[0].name == b[0].name for a, b in pairs)
    largest = max(_largest_change(a, b) for a, b in pairs)
    return f"classes of {len(texts)} texts: {same} are those of float32, scores differ by at most {largest:.3f}"


def _largest_change(old: Sequence[Label], new: Sequence[Label]) -> float:
    scores = {label.name: label.score for label in new}
    return max(abs(label.score - scores[label.name]) for label in old)


def _tokens(old: Session, new: Session, texts: Sequence[str]) -> str:
    pairs = [pair for a, b in zip(old.tokens(texts), new.tokens(texts), strict=True) for pair in zip(a, b, strict=True)]
    return f"classes of {len(pairs)} tokens: {sum(a.label == b.label for a, b in pairs)} are those of float32"


def _answers(old: Session, new: Session, _: Sequence[str]) -> str:
    def place(span: Span) -> tuple[int, int]:
        return span.start, span.end

    same = sum(place(old.answer(*pair)) == place(new.answer(*pair)) for pair in QUESTIONS)
    return f"answers to {len(QUESTIONS)} questions: {same} are those of float32"


def _masks(old: Session, new: Session, texts: Sequence[str]) -> str:
    """The first word of each text is masked."""
    mask = old.texts.task.mask
    masked = [" ".join([mask, *text.split()[1:]]) for text in texts]
    pairs = zip(old.fill(masked, 1), new.fill(masked, 1), strict=True)
    same = sum(a[0][0].name == b[0][0].name for a, b in pairs)
    return f"the best token for {len(texts)} masks: {same} are those of float32"


def _next_words(old: Session, new: Session, texts: Sequence[str]) -> str:
    same = count = 0
    information = [0.0, 0.0]
    for text in texts:
        tokens = [int(token) for token in old.language.tokenizer.encode(text).ids]
        if len(tokens) < 2:
            continue
        found = [session.logits(tokens)[:-1] for session in (old, new)]
        same += int((found[0].argmax(axis=1) == found[1].argmax(axis=1)).sum())
        count += len(tokens) - 1
        for side, scores in enumerate(found):
            information[side] += information_of(scores, tokens[1:])
    if not count:
        return "the change of results is not known: the texts have no two tokens"
    before, after = (math.exp(total / count) for total in information)
    return (
        f"the most probable next token at {count} places of {len(texts)} texts: {same / count:.1%} are as before; "
        f"perplexity {after:.2f} instead of {before:.2f}"
    )


PICTURES = (64, 48, 224)
"""Sizes that models of pictures take which refuse small ones."""

MEASURES: dict[str, Callable[[Any, Any, Sequence[str]], str]] = {
    "embed": _embeddings,
    "classify": _classes,
    "tokens": _tokens,
    "answer": _answers,
    "fill": _masks,
    "generate": _next_words,
}
"""For each kind of task, what to say of the change."""


def difference(old: Session, new: Session) -> str:
    """The change of each output of floats for random inputs; of a stream, for those of several runs. Where the model
    refuses some sizes, others are tried."""
    for number, chosen in enumerate(choices := _sizes(old.manifest)):
        try:
            before, after = _results(old, new, chosen)
            break
        except (ShapeError, Incomparable) as error:
            if number == len(choices) - 1:
                return f"the change of results is not known: {error}"
    parts = []
    for name, value in before.items():
        if isinstance(value, np.ndarray) and np.issubdtype(value.dtype, np.floating) and value.size:
            a, b = value.astype(np.float64), after[name].astype(np.float64)
            share = float(np.linalg.norm(a - b)) / max(float(np.linalg.norm(a)), 1e-30)
            parts.append(f"{name} by {share:.2%}")
    if not parts:
        return "the change of results is not known: no output is a tensor of floats"
    return f"{CHANGE}: {', '.join(parts)} (root mean square)"


def _results(old: Session, new: Session, chosen: dict[str, int]) -> list[dict[str, Any]]:
    """The outputs of both for the same random inputs of these sizes."""
    manifest = old.manifest
    form = streamed_form(manifest, chosen, exact=False)
    sampled = partial(sample_inputs, manifest) if form is None else partial(form.sampled, manifest)
    inputs, _ = sampled(random_for_others(manifest, {}), chosen)
    return [plain(s.run(inputs)) if form is None else form.run(s, inputs) for s in (old, new)]


def _sizes(manifest: Manifest) -> list[dict[str, int]]:
    """The sizes to try, one choice after the other: all dims have an odd size, then those that are no batches have one
    of `PICTURES`."""
    later = dims_of_contents(manifest)
    dims = [dim for dim in symbolic_dims(manifest) if dim.name not in later]
    batches = {port.shape[0] for port in manifest.inputs if port.shape}
    odd = {dim.name: (default_sizes(dim)[1:2] or default_sizes(dim))[0] for dim in dims}
    choices = [odd]
    for size in PICTURES:
        wide = {d.name: max(d.minimum, min(size, d.maximum or size)) for d in dims if d.name not in batches}
        choices.append(odd | wide)
    return [choice for at, choice in enumerate(choices) if choice not in choices[:at]]


def _directions(vectors: np.ndarray) -> np.ndarray:
    return np.asarray(vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-30))
