"""What a build with smaller weights does: it changes the model, measures the change, and puts notes on both.

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
from deploykit.compiler.graph.quantize_weights import LEAST, Quantized, quantize_weights
from deploykit.compiler.model import ImportedModel
from deploykit.compiler.observer import Observer
from deploykit.errors import ToolchainError, UsageError
from deploykit.pipeline import build_artifact
from deploykit.quantization.kinds import Kind, find_kind
from deploykit.quantization.measures import MEASURES, difference
from deploykit.quantization.trials import TEXTS
from deploykit.sessions.session import open as open_session
from deploykit.targets.base import PackageOptions, find_target


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
        find_kind(self.kind)

    def quantized(self, model: ImportedModel) -> ImportedModel:
        """`model` with smaller weights, with a note on them, and on the change of its results unless `check` measures
        it. Raises `UsageError` for a dynamic model, or if no weight can be quantised."""
        if isinstance(model, CellsModel):
            raise UsageError("a dynamic model cannot be quantised")
        if self.texts and not _takes_texts(model):
            raise UsageError("texts to try the quantised model on are for a model of texts, which this one is not")
        kind = find_kind(self.kind)
        # Products in groups are not joined: a joined weight may be no matrix.
        module = model.module if kind.grouped else join_siblings(model.module)
        module, found = quantize_weights(module, kind.name, self.least)
        if not found.after:
            raise UsageError(f"there is nothing to quantise: {_why_nothing(kind, found, self.least)}")
        sizes = f"{found.after / 1e6:,.1f} instead of {found.before / 1e6:,.1f} MB"
        changed = f"{_count(found.products, 'product')} and {_count(found.tables, 'table')}"
        notes = (*model.notes, f"the weights of {changed} are {kind.name}: {sizes}")
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
                return difference(old, new)
            return MEASURES[before.task.kind](old, new, self.texts or TEXTS)


def _takes_texts(model: ImportedModel) -> bool:
    return model.task is not None and model.task.takes in ("texts", "messages")


def _built(model: ImportedModel | Path, output: Path) -> Path:
    """The artifact of a model for this machine, built at `output`; an artifact is there already."""
    if isinstance(model, Path):
        return model
    options = PackageOptions(cpu="native")
    target = find_target("host")
    build_artifact(lambda: model, target, output, options, Observer(), source=None, capacities={})
    return output


def _why_nothing(kind: Kind, found: Quantized, least: int) -> str:
    if not found.beyond:
        return f"no product and no table has a float32 weight of {least:,} elements"
    instead = "" if kind.instead is None else f"; try --quantize {kind.instead}"
    return f"{_count(found.beyond, 'large weight')} cannot be {kind.name}, for {kind.beyond}{instead}"


def _count(number: int, name: str) -> str:
    return f"{number} {name}{'' if number == 1 else 's'}"
