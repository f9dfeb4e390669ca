"""A model with weights of int8 or fp16 instead of float32, and how much its answers change.

The change is measured when the model is built: the model before is built for this machine, too, and both run on the
same samples. An artifact that does not run here, such as one for the web, is measured by a build for this machine. For
a model of texts, the change is told in terms of its task: the directions of embeddings, or the classes that stay the
same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args

import numpy as np

from deploykit.basics.scratch import Scratch
from deploykit.checks.padded import plain
from deploykit.checks.samples import dims_of_contents, random_for_others, sample_inputs, symbolic_dims
from deploykit.checks.verify import default_sizes
from deploykit.compiler.batching.model import CellsModel
from deploykit.compiler.graph.join_matmuls import join_siblings
from deploykit.compiler.graph.quantize_weights import LEAST, Kind, quantize_weights
from deploykit.compiler.model import ImportedModel
from deploykit.compiler.observer import Observer
from deploykit.errors import ShapeError, ToolchainError, UsageError
from deploykit.pipeline import build_artifact
from deploykit.sessions.session import open as open_session
from deploykit.targets.base import PackageOptions, find_target

if TYPE_CHECKING:
    from deploykit.sessions.session import Session
    from deploykit.sessions.tasks.labels import Label
    from deploykit.sessions.tasks.texts import Span

KINDS: tuple[Kind, ...] = get_args(Kind)

BEYOND = {
    "int8": "infinities or NaN",
    "fp16": "numbers beyond 65504, the largest one, or NaN; try --quantize int8",
}
"""Why weights have no form of a kind."""

TEXTS = (
    "The train to the coast leaves at a quarter past nine.",
    "I did not like the second half of the film, but the music was wonderful.",
    "Rain.",
    "How do I reset the password of my account if I no longer have the phone number?",
    "Der Hund schläft unter dem Tisch.",
    "Les prix ont augmenté de trois pour cent depuis janvier.",
    "Marie Curie was born in Warsaw and did her research in Paris.",
    "The committee met on Tuesday. After four hours, it had agreed on schools and roads, and left the rest for spring.",
    "A cat sits on the mat.",
    "A kitten lies on a rug.",
    "Stock prices fell sharply after the announcement by the central bank.",
    "Preheat the oven to 180 degrees, then mix flour, sugar, butter and two eggs.",
    "def add(a, b): return a + b",
    "The mitochondria of a cell turn nutrients into energy that it can use.",
    "This is the worst phone that I ever bought: the battery lasts two hours, and the screen broke after a week!",
    "今日は天気がいいですね。",
)
"""What a model of texts is tried on."""

QUESTIONS = (
    ("When does the train leave?", TEXTS[0]),
    ("Where was Marie Curie born?", TEXTS[6]),
    ("When did the committee meet?", TEXTS[7]),
    ("How long does the battery last?", TEXTS[14]),
)


@dataclass
class Quantization:
    """The steps of a build with weights of a `kind` if they have at least `least` elements (`graph.quantize_weights`).
    A model of texts is tried on `texts`, or on `TEXTS`; others on random inputs. `runs_here` says whether the artifact
    does; then it is the one that is measured.

    Raises `UsageError` for another kind."""

    kind: str = "int8"
    texts: Sequence[str] = ()
    runs_here: bool = False
    least: int = LEAST
    before: ImportedModel | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise UsageError(f"weights cannot be '{self.kind}'; there are {' and '.join(KINDS)}")

    def quantized(self, model: ImportedModel) -> ImportedModel:
        """`model` with smaller weights, with a note on them, and on the change of its results unless `check` measures
        it. Raises `UsageError` for a dynamic model, or if no weight can be quantised."""
        if isinstance(model, CellsModel):
            raise UsageError("a dynamic model cannot be quantised")
        if self.texts and not _takes_texts(model):
            raise UsageError("texts to try the quantised model on are for a model of texts, which this one is not")
        module, found = quantize_weights(join_siblings(model.module), cast("Kind", self.kind), self.least)
        if not found.after and found.beyond:
            large = _count(found.beyond, "large weight")
            raise UsageError(f"there is nothing to quantise: {large} cannot be {self.kind}, for {BEYOND[self.kind]}")
        if not found.after:
            raise UsageError(
                f"there is nothing to quantise: no product and no table has a float32 weight of {self.least:,} elements"
            )
        sizes = f"{found.after / 1e6:,.1f} instead of {found.before / 1e6:,.1f} MB"
        changed = f"{_count(found.products, 'product')} and {_count(found.tables, 'table')}"
        notes = (*model.notes, f"the weights of {changed} are {self.kind}: {sizes}")
        result = replace(model, module=module, notes=notes)
        self.before = model
        return result if self.runs_here else replace(result, notes=(*notes, self.change(result)))

    def check(self, folder: Path) -> tuple[str, ...]:
        """A note on the change of results of the artifact in `folder`, which was built after `quantized`."""
        return (self.change(folder),)

    def change(self, after: ImportedModel | Path) -> str:
        """How results change, as a note. `after` is the quantised model, or its artifact."""
        before = self.before
        assert before is not None
        with ExitStack() as stack:
            folder = Path(stack.enter_context(Scratch()))
            try:
                places = [_built(before, folder / "before"), _built(after, folder / "after")]
            except ToolchainError as error:
                return f"the change of results is not known: {error}"
            old, new = (stack.enter_context(open_session(place)) for place in places)
            if before.task is None or not _takes_texts(before):
                return _difference(old, new)
            return MEASURES[before.task.kind](old, new, self.texts or TEXTS)


def _takes_texts(model: ImportedModel) -> bool:
    return model.task is not None and model.task.takes == "texts"


def _built(model: ImportedModel | Path, output: Path) -> Path:
    """The artifact of a model for this machine, built at `output`; an artifact is there already."""
    if isinstance(model, Path):
        return model
    options = PackageOptions(cpu="native")
    target = find_target("host")
    build_artifact(lambda: model, target, output, options, Observer(), source=None, capacities={})
    return output


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


MEASURES: dict[str, Callable[[Any, Any, Sequence[str]], str]] = {
    "embed": _embeddings,
    "classify": _classes,
    "tokens": _tokens,
    "answer": _answers,
    "fill": _masks,
}
"""For each kind of task, what to say of the change."""


def _difference(old: Session, new: Session) -> str:
    """The change of each output of floats for random inputs."""
    manifest = old.manifest
    later = dims_of_contents(manifest)
    sizes = {dim.name: default_sizes(dim)[1:2] or default_sizes(dim) for dim in symbolic_dims(manifest)}
    chosen = {name: found[0] for name, found in sizes.items() if name not in later}
    inputs, _ = sample_inputs(manifest, random_for_others(manifest, {}), chosen)
    try:
        before, after = (plain(session.run(inputs)) for session in (old, new))
    except ShapeError as error:
        return f"the change of results is not known: {error}"
    parts = []
    for name, value in before.items():
        if isinstance(value, np.ndarray) and np.issubdtype(value.dtype, np.floating) and value.size:
            a, b = value.astype(np.float64), after[name].astype(np.float64)
            share = float(np.linalg.norm(a - b)) / max(float(np.linalg.norm(a)), 1e-30)
            parts.append(f"{name} by {share:.2%}")
    if not parts:
        return "the change of results is not known: no output is a tensor of floats"
    return f"results for random inputs differ from those of float32: {', '.join(parts)} (root mean square)"


def _count(number: int, name: str) -> str:
    return f"{number} {name}{'' if number == 1 else 's'}"


def _directions(vectors: np.ndarray) -> np.ndarray:
    return np.asarray(vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-30))
