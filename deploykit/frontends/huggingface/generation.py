"""`import_step`: a decoder that reads texts part by part, and remembers what it has read.

Its function `step` takes tokens of any number of sequences, one after the other: parts of prompts and single tokens
alike. Each token has its position in its sequence; its keys and values go to the pages of that sequence, which are the
states of the model (`operators.pages`).

    tokens     (tokens)             ids
    positions  (tokens)             the position of each in its sequence
    sequences  (tokens)             the row of `pages` for its sequence
    pages      (sequences, blocks)  the pages of each sequence
    rows       (rows)               the tokens after which the next words are asked for
    logits     (rows, words)        their scores
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from deploykit.compiler.dims import checked_bounds
from deploykit.compiler.model import DimBounds, ImportedModel, Port
from deploykit.compiler.operators.building.context import Site
from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.compiler.operators.building.indices import checked
from deploykit.compiler.operators.building.model import ModelBuilder, Values
from deploykit.compiler.operators.indexing import pick
from deploykit.compiler.operators.pages import PAGE, Pages, shape_of
from deploykit.errors import UnsupportedModelError, UsageError
from deploykit.frontends.huggingface.architectures import Axis
from deploykit.frontends.huggingface.arrays import extent
from deploykit.frontends.huggingface.complete import check_fixed, check_read
from deploykit.frontends.huggingface.folder import Folder, read_folder
from deploykit.frontends.huggingface.registry import Family, Text, Way, find_family
from deploykit.frontends.huggingface.tensors import Module, Tensor, Weights

if TYPE_CHECKING:
    from deploykit.compiler.operators.building.context import Context
    from deploykit.compiler.operators.building.value import Value

TOKENS, SEQUENCES, CONTEXT, PAGES = "tokens", "sequences", "context", "pages"
"""Dims that users may bound."""

AT_ONCE, TOGETHER, USUAL_CONTEXT = 512, 64, 4096
"""Bounds without others: tokens of a step, sequences, and tokens of a sequence."""

SCORES = ("ForCausalLM", "LMHeadModel")
"""Endings of architectures that score next words."""


class Generating(NamedTuple):
    """A decoder that was imported to generate, its folder, its number of words, and the most tokens of a sequence. The
    pages of what is more than `window` tokens back are not read again; None: all are."""

    model: ImportedModel
    folder: Folder
    words: int
    context: int
    window: int | None


@dataclass(frozen=True)
class Step(Text):
    """Tokens of several sequences, whose earlier tokens are in `pages`. `states` are the caches by the names of states,
    which layers replace; `rows` are the tokens whose next words are asked for. `windows` collects those of layers."""

    pages: Pages | None = None
    rows: Tensor | None = None
    states: dict[str, Value] = field(default_factory=dict)
    windows: list[int | None] = field(default_factory=list)

    def numbers(self) -> Tensor:
        return self.positions.reshape(1, *self.positions.shape) + self.positions.of(
            self.positions.ctx.constant(1, "int64")
        )

    @property
    def positions(self) -> Tensor:
        assert self.pages is not None
        return self.ids.of(self.pages.positions)

    def placed(self, table: Tensor) -> Tensor:
        return table.of(pick(table.ctx, table.value, self.positions.value, 1))

    def attended(self, q: Tensor, k: Tensor, v: Tensor, way: Way) -> Tensor:
        assert self.pages is not None
        name = cache_name(way.layer)
        cache = self.pages.stored(self.states[name], k.value, v.value)
        self.states[name] = cache
        self.windows.append(way.window)
        size = int(q.shape[2]) // way.heads[0]
        scale = size**-0.5 if way.scale is None else way.scale
        return q.of(self.pages.attended(q.value, cache, scale=scale, window=way.window, softcap=way.softcap))

    def asked(self, x: Tensor) -> Tensor:
        assert self.rows is not None
        return x.of(pick(x.ctx, x.value, self.rows.value, 1))


def cache_name(layer: int) -> str:
    """The state of a layer."""
    return f"cache_{layer}"


def generates(folder: Folder) -> bool:
    """Whether the folder has a decoder with scores of next words that can be imported to generate."""
    names = folder.config.get("architectures") or [""]
    if not str(names[0]).endswith(SCORES):
        return False
    try:
        return find_family(folder.config).remembers is not None
    except UnsupportedModelError:
        return False


def import_step(source: Path | Folder, dims: DimBounds | None = None) -> Generating:
    """Import a decoder to generate. `dims` bounds `tokens` of a step, `sequences` at a time, `pages` of memory, and
    `context`, the most tokens of a sequence.

    Raises `UsageError` for a folder that is damaged or whose parts do not fit, and `UnsupportedModelError` for a model
    that no family of decoders covers."""
    folder = source if isinstance(source, Folder) else read_folder(source)
    bounds = checked_bounds(dims or {})
    family = find_family(folder.config)
    folder = replace(folder, config=folder.config.completed(family.defaults, family.aliases))
    check_fixed(family, folder.config)
    kind = folder.config["model_type"]
    scores = next((f"{family.prefix}{ending}" for ending in SCORES if ending in family.heads), None)
    if family.remembers is None or scores is None:
        raise UnsupportedModelError(f"{folder.path}: a model of type '{kind}' does not generate text")
    if unknown := bounds.keys() - {TOKENS, SEQUENCES, CONTEXT, PAGES}:
        raise UsageError(
            f"a model that generates has no dim '{min(unknown)}'; it has {TOKENS}, {SEQUENCES}, {CONTEXT} and {PAGES}. "
            "--no-generate builds one for whole texts"
        )
    return _Importer(folder, family, bounds).imported()


class _Importer:
    def __init__(self, folder: Folder, family: Family, bounds: DimBounds) -> None:
        self.folder, self.family, self.bounds = folder, family, bounds
        self.context = self._context()

    def _context(self) -> int:
        """The most tokens of a sequence."""
        possible = self.family.positions(self.folder.config)
        asked = self.bounds.get(CONTEXT)
        if asked is None:
            return min(possible or USUAL_CONTEXT, USUAL_CONTEXT)
        high = asked if isinstance(asked, int) else asked[1]
        if high is None or high < 1:
            raise UsageError(f"'{CONTEXT}' needs an upper bound, as in --dim {CONTEXT}=..{USUAL_CONTEXT}")
        if possible is not None and high > possible:
            raise UsageError(f"'{CONTEXT}' is at most {possible} in this model")
        return high

    def imported(self) -> Generating:
        folder, family = self.folder, self.family
        builder = ModelBuilder(folder.path.resolve().stem if folder.documents else folder.path.resolve().name)
        # One token at a time is a step of its own; sizes of 1 are the beginning of each range.
        tokens, most = extent(builder, Axis(TOKENS, maximum=min(AT_ONCE, self.context)), self._within(TOKENS))
        sequences, together = extent(builder, Axis(SEQUENCES, maximum=TOGETHER), self._within(SEQUENCES))
        most_blocks = -(-self.context // PAGE)
        blocks = builder.dim("blocks", 1, most_blocks)
        # By default as many as all sequences of the greatest length have.
        pages, _ = extent(builder, Axis(PAGES), self._within(PAGES) or {PAGES: (1, (together or 1) * most_blocks)})
        rows = builder.dim("rows", 0, most)
        assert family.remembers is not None
        names = [cache_name(layer) for layer, _ in enumerate(family.remembers(folder.config))]
        for name, (heads, size) in zip(names, family.remembers(folder.config), strict=True):
            builder.state(name, "float32", shape_of(pages, heads, size))
        weights = Weights(folder.path, folder.weights)
        windows: list[int | None] = []

        def body(ctx: Context, given: Values, states: Values) -> tuple[Values, Values]:
            text = self._text(ctx, given, dict(states), pages)
            m = Module(ctx, weights)
            x = family.encode(m.under(family.base), folder.config, text)
            ending = next(name for name in SCORES if name in family.heads)
            logits = family.heads[ending](m, folder.config, x, text)["logits"]
            windows.extend(text.windows)
            return {"logits": logits.reshape(*logits.shape[1:]).value}, text.states

        ports = [
            Port("tokens", "int64", (tokens,)),
            Port("positions", "int64", (tokens,)),
            Port("sequences", "int64", (tokens,)),
            Port("pages", "int64", (sequences, blocks)),
            Port("rows", "int64", (rows,)),
        ]
        try:
            builder.function("step", ports, body, names)
        except Unsupported as error:
            raise UnsupportedModelError(f"{folder.path} cannot be built to generate: {error}") from error
        check_read(family, folder, weights)
        model = replace(builder.model(), files=folder.files)
        window = None if None in windows else max((n for n in windows if n is not None), default=None)
        return Generating(model, folder, int(folder.config.vocab_size), self.context, window)

    def _text(self, ctx: Context, given: Values, states: dict[str, Value], count: object) -> Step:
        ctx.site = Site("step", "step")
        ids = Tensor(ctx, given["tokens"])
        pages = Pages.checked(ctx, given["positions"], given["sequences"], given["pages"], count, self.context)
        rows = checked(ctx, given["rows"], [(0, ids.shape[0] - 1)], 4, "rows")
        ids = ids.reshape(1, *ids.shape)
        return Step(ids, ids, None, self.context, pages, Tensor(ctx, rows), states)

    def _within(self, name: str) -> DimBounds:
        return {name: self.bounds[name]} if name in self.bounds else {}
