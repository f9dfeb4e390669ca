"""`import_step`: the decoder of a folder as a model that reads texts part by part, and remembers what it has read
(`frontends.stepping`)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from deploykit.compiler.dims import checked_bounds
from deploykit.compiler.model import DimBounds
from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.compiler.operators.building.model import ModelBuilder
from deploykit.compiler.operators.carried import Slots
from deploykit.compiler.operators.indexing import pick
from deploykit.errors import UnsupportedModelError
from deploykit.frontends.huggingface.complete import check_fixed, check_read
from deploykit.frontends.huggingface.folder import Folder, read_folder
from deploykit.frontends.huggingface.registry import Carry, Family, Text, Way, find_family
from deploykit.frontends.huggingface.tensors import Module, Tensor, Weights
from deploykit.frontends.stepping import Generating, Step, add_step, attended, common_window, context_of

if TYPE_CHECKING:
    from deploykit.compiler.operators.building.context import Context
    from deploykit.compiler.operators.building.value import Value
    from deploykit.compiler.operators.pages import Pages

SCORES = ("ForCausalLM", "LMHeadModel")
"""Endings of architectures that score next words."""


@dataclass(frozen=True)
class Part(Text):
    """Tokens of several sequences, whose earlier tokens are in `pages`. `states` are what is remembered of them, by the
    names of states, which layers replace; `rows` are the tokens whose next words are asked for. `windows` collects
    those of layers."""

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
        self.windows.append(way.window)
        size = int(q.shape[2]) // way.heads[0]
        scale = size**-0.5 if way.scale is None else way.scale
        found = attended(
            *(self.pages, self.states, way.layer, (q.value, k.value, v.value)),
            scale=scale,
            window=way.window,
            softcap=way.softcap,
            biases=None if way.biases is None else way.biases.value,
        )
        return q.of(found)

    @cached_property
    def slots(self) -> Slots:
        assert self.pages is not None
        return Slots.of_pages(self.pages)

    def counting(self, x: Tensor) -> Tensor:
        return x

    def carried(self, name: str, _rows: int, x: Tensor, run: Carry) -> Tensor:
        self.states[name], y = run(self.slots, self.states[name])
        return x.of(y).reshape(*x.shape)

    def asked(self, x: Tensor) -> Tensor:
        assert self.rows is not None
        return x.of(pick(x.ctx, x.value, self.rows.value, 1))


def generates(folder: Folder) -> bool:
    """Whether the folder has a decoder with scores of next words that can be imported to generate."""
    names = folder.config.get("architectures") or [""]
    if not str(names[0]).endswith(SCORES):
        return False
    try:
        return find_family(folder.config).remembers is not None
    except UnsupportedModelError:
        return False


def import_step(source: Path | Folder, dims: DimBounds | None = None, cache: str = "float32") -> Generating:
    """Import a decoder to generate. `dims` bounds `tokens` of a step, `sequences` at a time, `pages` of memory, and
    `context`, the most tokens of a sequence. `cache` is the dtype of what it remembers (`operators.pages.DTYPES`).

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
    return _imported(folder, family, bounds, cache)


def _imported(folder: Folder, family: Family, bounds: DimBounds, cache: str) -> Generating:
    assert family.remembers is not None
    context = context_of(bounds, family.positions(folder.config))
    memory = family.remembers(folder.config)
    builder = ModelBuilder(Path(folder.name).stem if folder.documents else folder.name)
    weights = Weights(folder.path, folder.weights, folder.groups)
    windows: list[int | None] = []

    def body(ctx: Context, step: Step, states: dict[str, Value]) -> Value:
        ids = Tensor(ctx, step.ids)
        ids = ids.reshape(1, *ids.shape)
        text = Part(ids, ids, None, context, step.pages, Tensor(ctx, step.rows), states, windows)
        m = Module(ctx, weights)
        x = family.encode(m.under(family.base), folder.config, text)
        ending = next(name for name in SCORES if name in family.heads)
        logits = family.heads[ending](m, folder.config, x, text)["logits"]
        return logits.reshape(*logits.shape[1:]).value

    try:
        add_step(builder, bounds, context, memory, body, cache)
    except Unsupported as error:
        raise UnsupportedModelError(f"{folder.path} cannot be built to generate: {error}") from error
    check_read(family, folder, weights)
    model = replace(builder.model(), files=folder.files)
    return Generating(model, folder, int(folder.config.vocab_size), context, common_window(windows), memory)
