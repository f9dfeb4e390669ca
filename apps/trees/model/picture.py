"""Draws `docs/schedule.svg`: three trees, and the launches in which their nodes ran.

    python -m apps.trees.model.picture

The launches are those of a traced run. The small number at a node of a tree is the launch in which it ran.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import deploykit
from apps.trees.model.arithmetic import Minus, Number, Plus, Times, Tree
from apps.trees.model.train import FOLDER
from deploykit.dynamic.traces import Launch, TracedNode

PICTURE = Path(__file__).parents[3] / "docs" / "schedule.svg"
TREES: tuple[Tree, ...] = (
    Plus(Times(Number(3), Number(4)), Number(2)),
    Minus(Times(Plus(Number(7), Number(1)), Number(5)), Number(9)),
    Times(Number(6), Plus(Number(8), Number(2))),
)
SIGNS = {"Plus": "+", "Minus": "\u2212", "Times": "\u00d7"}
LEFT = (40, 290, 600)
COLOURS = {"Number": "#6b7690", "Plus": "#2b6cc9", "Minus": "#14806a", "Times": "#b8590f", "=": "#6a4bc4"}
COLUMN, ROW, RADIUS, SIDE = 50, 46, 14, 30
ABOVE, WIDTH, HEIGHT, ROWS = 34, 860, 500, 5


def traced() -> list[Launch]:
    """The launches of a run of the trees."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "arithmetic"
        weights = FOLDER / "arithmetic.safetensors"
        deploykit.build(f"{FOLDER / 'arithmetic.py'}:Arithmetic", weights=weights, output=target)
        with deploykit.open(target) as session:
            session.tracing = True
            session(TREES)
            return session.trace


def operands_of(tree: Tree) -> list[Tree]:
    return [] if isinstance(tree, Number) else list(vars(tree).values())


def places(tree: Tree, left: float, row: int = 1) -> Iterator[tuple[Tree, float, int]]:
    """The place of each node, an operator above the middle of its operands, and behind them."""
    below: list[float] = []
    for operand in operands_of(tree):
        for found in places(operand, left, row + 1):
            yield found
            left += isinstance(found[0], Number)
        below.append(found[1])
    yield tree, (below[0] + below[-1]) / 2 if below else left, row


def text(x: float, y: float, content: object, style: str) -> str:
    return f'<text x="{x:g}" y="{y:g}" {style}>{content}</text>'


FONT = 'font-family="sans-serif" font-size="14"'
WHITE = 'fill="#fff" text-anchor="middle" font-weight="bold"'
SMALL = 'fill="#5a6274" font-size="11"'


def draw_tree(tree: Tree, left: float, ran: dict[tuple[int, bool], int]) -> Iterator[str]:
    at = {id(each): (left + x * COLUMN, ABOVE + (row + 0.5) * ROW) for each, x, row in places(tree, 0.5)}
    parts = [each for each, _, _ in places(tree, 0.5)]
    x, y = at[id(tree)]
    nodes = [("=", "=", x, y - ROW, ran[id(tree), True])]
    yield f'<path d="M{x:g} {y - ROW:g}V{y:g}" stroke="#c3c7d1" stroke-width="1.5"/>'
    for part in parts:
        x, y = at[id(part)]
        kind = type(part).__name__
        nodes.append((kind, str(part.value) if isinstance(part, Number) else SIGNS[kind], x, y, ran[id(part), False]))
        for operand in operands_of(part):
            below = at[id(operand)]
            yield f'<path d="M{x:g} {y:g}L{below[0]:g} {below[1]:g}" stroke="#c3c7d1" stroke-width="1.5"/>'
    for kind, sign, x, y, launch in nodes:
        yield f'<circle cx="{x:g}" cy="{y:g}" r="{RADIUS}" fill="{COLOURS[kind]}"/>'
        yield text(x, y + 5, sign, WHITE)
        yield text(x + RADIUS + 1, y + RADIUS, launch, SMALL)


def kind_of(launch: Launch, node: TracedNode) -> str:
    """What a node computes. The last digit is read by the cell of `main`."""
    return "=" if launch.cell == "main" else type(node.object).__name__


def draw_schedule(trace: list[Launch], bottom: float) -> Iterator[str]:
    left = 20.0
    for number, launch in enumerate(trace, 1):
        columns = -(-len(launch.nodes) // ROWS)
        for index, node in enumerate(launch.nodes):
            kind = kind_of(launch, node)
            x, y = left + index // ROWS * SIDE, bottom - (1 + index % ROWS) * SIDE
            yield f'<rect x="{x:g}" y="{y:g}" width="{SIDE - 2}" height="{SIDE - 2}" rx="4" fill="{COLOURS[kind]}"/>'
            sign = str(node.object.value) if kind == "Number" else SIGNS.get(kind, "=")
            yield text(x + SIDE / 2 - 1, y + SIDE / 2 + 4, sign, WHITE)
        yield text(left + columns * SIDE / 2 - 1, bottom + 16, number, f'{SMALL} text-anchor="middle"')
        left += (columns + 1) * SIDE


def draw_legend(trace: list[Launch], x: float, y: float) -> Iterator[str]:
    nodes, launches = Counter[str](), Counter[str]()
    for launch in trace:
        kind = kind_of(launch, launch.nodes[0])
        nodes[kind] += len(launch.nodes)
        launches[kind] += 1
    for kind, colour in COLOURS.items():
        name = "last digit" if kind == "=" else kind.lower()
        yield f'<rect x="{x:g}" y="{y - 12:g}" width="14" height="14" rx="3" fill="{colour}"/>'
        counts = f"{nodes[kind]} in {launches[kind]} launch{'es' if launches[kind] > 1 else ''}"
        yield text(x + 22, y, f"{name}: {counts}", 'fill="#1d2330"')
        y += 26


def picture(trace: list[Launch]) -> str:
    """The SVG."""
    ran = {
        (id(node.object), launch.cell == "main"): number
        for number, launch in enumerate(trace, 1)
        for node in launch.nodes
    }
    nodes = sum(len(launch.nodes) for launch in trace)
    head = 'font-size="16" font-weight="bold"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" {FONT}>',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        text(20, 28, f"{len(TREES)} instances: {nodes} nodes, each with the launch in which it runs", head),
    ]
    for number, tree in enumerate(TREES):
        lines += draw_tree(tree, LEFT[number], ran)
    lines.append(text(20, 300, f"{len(trace)} launches, each of one cell", head))
    return "\n".join([*lines, *draw_schedule(trace, 470), *draw_legend(trace, 600, 345), "</svg>", ""])


if __name__ == "__main__":
    PICTURE.write_text(picture(traced()), encoding="utf-8")
