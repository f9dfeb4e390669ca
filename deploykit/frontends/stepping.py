"""The function `step` of a decoder that reads texts part by part, and remembers what it has read.

It takes tokens of any number of sequences, one after the other: parts of prompts and single tokens alike. Each token
has its position in its sequence; what layers remember of it goes to the pages of that sequence, which are the states of
the model: keys and values (`operators.pages`), or a state that the next token goes on from (`operators.carried`).

    tokens     (tokens)             ids
    positions  (tokens)             the position of each in its sequence
    sequences  (tokens)             the row of `pages` for its sequence; its tokens follow each other
    pages      (sequences, blocks)  the pages of each sequence
    rows       (rows)               the tokens after which the next words are asked for
    logits     (rows, words)        their scores
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from deploykit.artifact.tasks import STEP
from deploykit.compiler.model import DimBounds, ImportedModel, Port
from deploykit.compiler.operators.building.context import Site
from deploykit.compiler.operators.building.indices import checked
from deploykit.compiler.operators.pages import Cache, Pages
from deploykit.errors import UsageError
from deploykit.frontends.huggingface.architectures import Axis
from deploykit.frontends.huggingface.arrays import extent
from deploykit.frontends.huggingface.folder import Folder
from deploykit.frontends.memory import Memory, cache_name, page_of, scales_name

if TYPE_CHECKING:
    from deploykit.compiler.operators.building.context import Context
    from deploykit.compiler.operators.building.model import ModelBuilder, Values
    from deploykit.compiler.operators.building.value import Value

TOKENS, SEQUENCES, CONTEXT, PAGES = "tokens", "sequences", "context", "pages"
DIMS = {TOKENS, SEQUENCES, CONTEXT, PAGES}
"""Dims that users may bound."""

AT_ONCE, TOGETHER, USUAL_CONTEXT = 512, 64, 4096
"""Bounds without others: tokens of a step, sequences, and tokens of a sequence."""


class Generating(NamedTuple):
    """A decoder that was imported to generate, its folder, its number of words, and the most tokens of a sequence. The
    pages of what is more than `window` tokens back are not read again; None: all are. `memory` is what layers
    remember."""

    model: ImportedModel
    folder: Folder
    words: int
    context: int
    window: int | None
    memory: Memory


@dataclass(frozen=True)
class Step:
    """What a step is given: the `ids` of its tokens, where they are, and the tokens whose next words are asked for."""

    ids: Value
    pages: Pages
    rows: Value


Body: TypeAlias = "Callable[[Context, Step, dict[str, Value]], Value]"
"""Gives the scores (rows, words) of a step, and replaces the states, which it gets by their names."""


def attended(
    pages: Pages,
    states: dict[str, Value],
    layer: int,
    operands: tuple[Value, Value, Value],
    *,
    scale: float,
    window: int | None = None,
    softcap: float = 0.0,
    biases: Value | None = None,
) -> Value:
    """Attention of a layer to queries, keys and values (1, tokens, heads * size), of which the last two are remembered
    (`operators.pages`)."""
    queries, keys, values = operands
    name = cache_name(layer)
    names = (name, scales_name(name))
    cache = pages.stored(Cache(*(states[name] for name in names if name in states)), keys, values)
    states.update(zip(names, (part for part in cache if part is not None), strict=False))
    return pages.attended(queries, cache, scale=scale, window=window, softcap=softcap, biases=biases)


def context_of(bounds: DimBounds, possible: int | None) -> int:
    """The most tokens of a sequence in a model that can have so many; None: any number.

    Raises `UsageError` for a dim that such a model does not have, and for a bound that is not possible."""
    if unknown := bounds.keys() - DIMS:
        raise UsageError(
            f"a model that generates has no dim '{min(unknown)}'; it has {TOKENS}, {SEQUENCES}, {CONTEXT} and {PAGES}. "
            "--no-generate builds one for whole texts"
        )
    asked = bounds.get(CONTEXT)
    if asked is None:
        return min(possible or USUAL_CONTEXT, USUAL_CONTEXT)
    high = asked if isinstance(asked, int) else asked[1]
    if high is None or high < 1:
        raise UsageError(f"'{CONTEXT}' needs an upper bound, as in --dim {CONTEXT}=..{USUAL_CONTEXT}")
    if possible is not None and high > possible:
        raise UsageError(f"'{CONTEXT}' is at most {possible} in this model")
    return high


def add_step(
    builder: ModelBuilder, bounds: DimBounds, context: int, memory: Memory, body: Body, dtype: str = "float32"
) -> None:
    """Add `step` to a model: with sequences of at most `context` tokens, of which it remembers what `memory` says, keys
    and values in this `dtype`. Raises what `body` raises, and `UsageError` for bounds that are not possible."""

    def within(name: str) -> DimBounds:
        return {name: bounds[name]} if name in bounds else {}

    # One token at a time is a step of its own; sizes of 1 are the beginning of each range.
    tokens, most = extent(builder, Axis(TOKENS, maximum=min(AT_ONCE, context)), within(TOKENS))
    sequences, together = extent(builder, Axis(SEQUENCES, maximum=TOGETHER), within(SEQUENCES))
    size = page_of(memory)
    most_blocks = -(-context // size)
    blocks = builder.dim("blocks", 1, most_blocks)
    # By default as many as all sequences of the greatest length have.
    pages, _ = extent(builder, Axis(PAGES), within(PAGES) or {PAGES: (1, (together or 1) * most_blocks)})
    rows = builder.dim("rows", 0, most)
    states = [port for name, part in memory.items() for port in part.ports(name, pages, dtype)]
    for port in states:
        builder.state(port.name, port.dtype, port.shape)

    def function(ctx: Context, given: Values, states: Values) -> tuple[Values, Values]:
        ctx.site = Site("step", "step", STEP)
        ids = given["tokens"]
        places = Pages.checked(ctx, given["positions"], given["sequences"], given["pages"], pages, context, size)
        asked = checked(ctx, given["rows"], [(0, ids.shape[0] - 1)], 4, "rows")
        changed = dict(states)
        return {"logits": body(ctx, Step(ids, places, asked), changed)}, changed

    shapes = ((tokens,), (tokens,), (tokens,), (sequences, blocks), (rows,))
    ports = [Port(name, "int64", shape) for name, shape in zip(STEP, shapes, strict=True)]
    builder.function("step", ports, function, [port.name for port in states])


def common_window(windows: Sequence[int | None]) -> int | None:
    """What is further back than this is not read by any layer; None: all is."""
    return None if None in windows else max((n for n in windows if n is not None), default=None)
