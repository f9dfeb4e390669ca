"""What a build with smaller weights, or products of fewer bits, does: it changes the model, measures the change, and
puts notes on both.

The change is measured when the model is built: the model before is built for this machine, too, and both run on the
same samples. An artifact that does not run here, such as one for the web, is measured by a build for this machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from deploykit.basics.scratch import Scratch
from deploykit.compiler.batching.model import CellsModel
from deploykit.compiler.graph.join_matmuls import join_siblings
from deploykit.compiler.graph.quantize_head import quantize_head
from deploykit.compiler.graph.quantize_weights import GREATEST, LEAST, Quantized, quantize_weights
from deploykit.compiler.model import ImportedModel
from deploykit.compiler.observer import Observer
from deploykit.errors import ToolchainError, UsageError
from deploykit.options.parts import USUAL, CompileOptions
from deploykit.pipeline import build_artifact
from deploykit.quantization.kinds import KINDS, Kind, find_kind
from deploykit.quantization.measures import MEASURES, difference
from deploykit.quantization.trials import TEXTS
from deploykit.sessions.session import open as open_session
from deploykit.targets.base import PackageOptions, find_target


@dataclass
class Quantization:
    """The steps of a build with weights of a `kind` if they have at least `least` elements (`graph.quantize_weights`),
    and the output layer of a language model of the kind `head` (`graph.quantize_head`); None: as they are. A model of
    texts is tried on `texts`, or on `TEXTS`; others on random inputs. `runs_here` says whether the artifact does; then
    it is the one that is measured. `compiling` is how it is compiled. `greatest` is the greatest integer of weights in
    int8.

    Raises `UsageError` for another kind."""

    kind: str | None = "int8"
    head: str | None = None
    texts: Sequence[str] = ()
    runs_here: bool = False
    least: int = LEAST
    compiling: CompileOptions = USUAL
    greatest: float = GREATEST
    before: ImportedModel | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        if self.kind is not None:
            find_kind(self.kind)
        if self.head is not None and not find_kind(self.head).grouped:
            heads = ", ".join(kind.name for kind in KINDS.values() if kind.grouped)
            raise UsageError(f"an output layer cannot be '{self.head}'; there are {heads}")

    def quantized(self, model: ImportedModel) -> ImportedModel:
        """`model` with smaller weights, with a note on them, and on the change of its results unless `check` measures
        it. Raises `UsageError` for a dynamic model, or if no weight can be quantised."""
        self.before = model
        if isinstance(model, CellsModel) and (self.kind or self.head):
            raise UsageError("a dynamic model cannot be quantised")
        if self.texts and not _takes_texts(model):
            raise UsageError("texts to try the quantised model on are for a model of texts, which this one is not")
        result = model
        if self.head is not None:
            result = _with_head(result, find_kind(self.head), self.least)
        if self.kind is not None:
            result = _with_kind(result, find_kind(self.kind), self.least, self.greatest)
        return result if self.runs_here else replace(result, notes=(*result.notes, self.change(result)))

    def check(self, folder: Path) -> tuple[str, ...]:
        """A note on the change of results of the artifact in `folder`, which was built after `quantized`."""
        return (self.change(folder),)

    def change(self, after: ImportedModel | Path) -> str:
        """How results change, as a note. `after` is the quantised model, or its artifact."""
        before = self.before
        assert before is not None
        if isinstance(before, CellsModel):
            return "how results of a dynamic model change is not measured"
        with ExitStack() as stack:
            folder = Path(stack.enter_context(Scratch()))
            try:
                places = [_built(before, folder / "before"), _built(after, folder / "after", self.compiling)]
            except ToolchainError as error:
                return f"the change of results is not known: {error}"
            old, new = (stack.enter_context(open_session(place)) for place in places)
            if before.task is None or not _takes_texts(before):
                return difference(old, new)
            return MEASURES[before.task.kind](old, new, self.texts or TEXTS)


def _with_kind(model: ImportedModel, kind: Kind, least: int, greatest: float) -> ImportedModel:
    """The model with large weights of a kind. Raises `UsageError` if no weight can be."""
    # Products in groups are not joined: a joined weight may be no matrix.
    module = model.module if kind.grouped else join_siblings(model.module)
    module, found = quantize_weights(module, kind.name, least, greatest)
    if not found.after:
        raise UsageError(f"there is nothing to quantise: {_why_nothing(kind, found, least)}")
    changed = f"{_count(found.products, 'product')} and {_count(found.tables, 'table')}"
    return replace(
        model, module=module, notes=(*model.notes, f"the weights of {changed} are {kind.name}: {_sizes(found)}")
    )


def _with_head(model: ImportedModel, kind: Kind, least: int) -> ImportedModel:
    """The model with the output layer of a kind. Raises `UsageError` if it has none, or if it cannot be."""
    module, head = quantize_head(model.module, kind.name, least)
    found = head.quantized
    if found.beyond:
        raise UsageError(f"the output layer cannot be {kind.name}, for {kind.beyond}; leave out --head")
    if not head.was:
        raise UsageError(
            "--head is for the output layer of a language model, and there is none: no product with a weight of "
            f"{least:,} elements gives a score for each row of a table of words"
        )
    if not found.products:
        note = f"the output layer is {kind.name}, as it was"
    else:
        tied = ", which is the table of words, too," if found.tables else ""
        note = f"the output layer{tied} is {kind.name} instead of {', '.join(sorted(head.was))}: {_sizes(found)}"
    return replace(model, module=module, notes=(*model.notes, note))


def _sizes(found: Quantized) -> str:
    if found.before < 1e6:
        return f"{found.after:,} instead of {found.before:,} bytes"
    return f"{found.after / 1e6:,.1f} instead of {found.before / 1e6:,.1f} MB"


def _takes_texts(model: ImportedModel) -> bool:
    return model.task is not None and model.task.takes in ("texts", "messages")


def _built(model: ImportedModel | Path, output: Path, compiling: CompileOptions = USUAL) -> Path:
    """The artifact of a model for this machine, built at `output`; an artifact is there already."""
    if isinstance(model, Path):
        return model
    options = PackageOptions(cpu="native", compiling=compiling)
    target = find_target("host")
    build_artifact(lambda: model, target, output, options, Observer(), source=None, capacities={})
    return output


def _why_nothing(kind: Kind, found: Quantized, least: int) -> str:
    if not found.beyond:
        return (
            f"no product and no table has a float32 weight of {least:,} elements; deploykit quantize, with samples of "
            "the inputs, quantises convolutions, too"
        )
    instead = "" if kind.instead is None else f"; try --quantize {kind.instead}"
    return f"{_count(found.beyond, 'large weight')} cannot be {kind.name}, for {kind.beyond}{instead}"


def _count(number: int, name: str) -> str:
    return f"{number} {name}{'' if number == 1 else 's'}"
