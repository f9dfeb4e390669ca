"""The schedule of a dynamic model as a picture: launches from left to right, their nodes as squares.

A square has the colour of its cell and the number of its instance. More than `_ROWS` nodes of a launch stand side by
side.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deploykit.dynamic.traces import Launch
from deploykit.errors import UsageError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FORMATS = (".png", ".svg")
_COLOURS = ("#8cc7ee", "#f2c063", "#7fcdb4", "#e8a8c8", "#8fb0d6", "#eaa27c", "#c9b6e4", "#c9c9c9")
_INK = "#333333"
_ROWS, _GAP = 8, 0.6
"""The height of a launch, and the space between two launches, in squares."""
_SIDE = 0.26
"""Inches of a square."""
_NARROWEST, _HEAD, _ENTRY = 20, 3, 5.5
"""In squares: the least width, the space for the title, and the width of an entry of the legend."""
_MOST = 2000
"""Squares that a picture may have."""


def draw(trace: Sequence[Launch], title: str, path: Path) -> None:
    """Draw the launches of a run as PNG or SVG, by the suffix of `path`.

    Raises:
        UsageError: `path` has another suffix, or cannot be written; or the run has too many nodes for a picture.
    """
    nodes = sum(len(launch.nodes) for launch in trace)
    if path.suffix.lower() not in FORMATS:
        raise UsageError(f"cannot draw '{path.name}': the name must end in {' or '.join(FORMATS)}")
    if nodes > _MOST:
        raise UsageError(f"a picture has room for {_MOST} nodes, and this run has {nodes}: give it fewer instances")
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context({"text.parse_math": False, "svg.hashsalt": title, "svg.fonttype": "none"}):
        wide = sum(-(-len(launch.nodes) // _ROWS) + _GAP for launch in trace) + 1
        tallest = min(_ROWS, max((len(launch.nodes) for launch in trace), default=1))
        width = max(wide, _NARROWEST)
        columns = int(width // _ENTRY)
        below = 1 + -(-len({launch.cell for launch in trace}) // columns)
        height = tallest + _HEAD + below
        figure = Figure(figsize=(width * _SIDE, height * _SIDE), dpi=130)
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set_axis_off()
        axes.set_xlim(-0.5, width - 0.5)
        axes.set_ylim(-below, height - below)
        axes.text(0, tallest + 2.1, title, fontsize=11, fontweight="bold", color=_INK)
        axes.text(0, tallest + 1.1, f"{nodes} nodes in {len(trace)} launches", fontsize=9, color=_INK)
        _squares(axes, trace, columns)
        metadata = {"Date": None} if path.suffix.lower() == ".svg" else None
        try:
            figure.savefig(path, metadata=metadata)
        except OSError as error:
            raise UsageError(f"cannot write '{path}': {error.strerror}") from error


def _squares(axes: Axes, trace: Sequence[Launch], columns: int) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Rectangle

    launches = Counter(launch.cell for launch in trace)
    colours = {cell: _COLOURS[index % len(_COLOURS)] for index, cell in enumerate(sorted(launches))}
    left = 0.0
    for number, launch in enumerate(trace, 1):
        width = -(-len(launch.nodes) // _ROWS)
        for index, node in enumerate(launch.nodes):
            x, y = left + index // _ROWS, index % _ROWS
            axes.add_patch(Rectangle((x + 0.05, y + 0.05), 0.9, 0.9, facecolor=colours[launch.cell]))
            axes.text(x + 0.5, y + 0.48, str(node.instance), ha="center", va="center", fontsize=7, color=_INK)
        axes.text(left + width / 2, -0.2, str(number), ha="center", va="top", fontsize=6, color=_INK)
        left += width + _GAP
    marks = [
        Line2D([], [], marker="s", markersize=8, linestyle="", color=colour, label=f"{cell} x {launches[cell]}")
        for cell, colour in colours.items()
    ]
    style: dict[str, Any] = {"frameon": False, "fontsize": 8, "labelcolor": _INK, "handletextpad": 0.1}
    axes.legend(handles=marks, loc="lower left", ncols=columns, borderpad=0.3, columnspacing=1, **style)
