"""The lengths of a ragged batch as a picture: a bar for each instance, and beside it the padding that it does without.

The dark part of a row is an instance, the light part is what padding to the longest instance would add to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from deploykit.inspection.lengths import LengthsReport

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_INSTANCE, _PADDING, _INK = "#5b9bd5", "#e9e9e9", "#333333"
_NUMBERED = 32
"""With more instances than this, the bars have no numbers."""


def draw_lengths(axes: Axes, name: str, report: LengthsReport) -> None:
    """Draw the lengths `name` of a report."""
    from matplotlib.ticker import MaxNLocator

    lengths = report.lengths[name]
    rows, longest = np.arange(len(lengths)), max(lengths, default=0)
    height = 0.82 if len(lengths) <= _NUMBERED else 1.0
    axes.barh(rows, longest, height, color=_PADDING, label="padding")
    axes.barh(rows, lengths, height, color=_INSTANCE, label="instances")
    if len(lengths) <= _NUMBERED:
        for row, length in zip(rows, lengths, strict=True):
            axes.annotate(str(length), (length, row), (3, 0), textcoords="offset points", va="center", fontsize=8)
    axes.set_ylim(max(len(lengths), 1) - 0.5, -0.5)
    axes.set_xlim(0, max(longest, 1) * 1.04)
    axes.set_ylabel("instance")
    axes.set_xlabel("length")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title(name, loc="left", fontsize=13, fontweight="bold", pad=24)
    axes.legend(
        loc="lower right",
        bbox_to_anchor=(1, 1),
        borderaxespad=2,
        ncols=2,
        frameon=False,
        fontsize=9,
        reverse=True,
    )
    words = axes.annotate(
        "   ·   ".join(facts(lengths, report)),
        (0, 1),
        (0, 8),
        "axes fraction",
        "offset points",
        fontsize=10,
        color=_INK,
        va="bottom",
    )
    words.set_in_layout(False)


def facts(lengths: Sequence[int], report: LengthsReport) -> list[str]:
    """What the lengths mean, in a few words each."""
    values, padded = sum(lengths), len(lengths) * max(lengths, default=0)
    found = [f"{len(lengths)} instances, {values:,} in total", f"{padded:,} if padded to the longest"]
    if report.wasted is not None:
        found.append(f"{100 * report.wasted:.0f} % of the padded arithmetic would be wasted")
    return found
