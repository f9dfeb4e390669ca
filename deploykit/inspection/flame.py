"""The profile of a run as a picture: three rows of boxes, each as wide as the time that it stands for.

From top to bottom: the run; its kernels, the slowest first; the steps of each kernel in the order in which they run.
Colour shows the speed of a kernel's arithmetic: red for the fastest kernel of the run, yellow for kernels that only
move bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from deploykit.checks.profiling import Profile, Work
from deploykit.errors import UsageError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FORMATS = (".png", ".svg")
_WIDTH, _HEIGHT = 16.0, 4.2
"""Inches."""
_POINTS = 8
_CHARACTER = 0.62
"""Width of a character, relative to the font size."""
_ROW = 0.94


def draw(profile: Profile, title: str, path: Path) -> None:
    """Draw `profile` as PNG or SVG, by the suffix of `path`.

    Raises:
        UsageError: `path` has another suffix, or cannot be written.
    """
    if path.suffix.lower() not in FORMATS:
        raise UsageError(f"cannot draw '{path.name}': the name must end in {' or '.join(FORMATS)}")
    import matplotlib as mpl
    from matplotlib.figure import Figure

    figure = Figure(figsize=(_WIDTH, _HEIGHT), dpi=130, layout="constrained")
    axes = figure.add_subplot()
    axes.set_title(title, loc="left", fontsize=12, fontweight="bold")
    axes.set_axis_off()
    _boxes(axes, profile)
    metadata = {"Date": None} if path.suffix.lower() == ".svg" else None
    with mpl.rc_context({"text.parse_math": False, "svg.hashsalt": title}):
        try:
            figure.savefig(path, metadata=metadata)
        except OSError as error:
            raise UsageError(f"cannot write '{path}': {error.strerror}") from error


def _boxes(axes: Axes, profile: Profile) -> None:
    total = profile.seconds
    axes.set_xlim(0, total or 1)
    axes.set_ylim(0, 3)
    fastest = max((kernel.flops_per_second or 0 for kernel in profile.kernels()), default=0) or 1
    _box(axes, 0, 2, total, f"one run   {_time(total)}", "#dddddd")
    left = 0.0
    for kernel in profile.kernels():
        colour = _colour((kernel.flops_per_second or 0) / fastest)
        share = f"{100 * profile.share(kernel):.1f} %"
        _box(axes, left, 1, kernel.seconds, _lines(kernel.name, share, _time(kernel.seconds), *_speeds(kernel)), colour)
        inner = left
        for step in profile.steps:
            if step.name == kernel.name:
                _box(axes, inner, 0, step.seconds, _lines(step.result, _time(step.seconds)), colour)
                inner += step.seconds
        left += kernel.seconds


def _lines(*texts: str) -> str:
    return "\n".join(texts)


def _speeds(work: Work) -> Sequence[str]:
    flops, traffic = work.flops_per_second, work.bytes_per_second
    return [
        *([f"{flops / 1e9:.1f} GFLOP/s"] if flops else []),
        *([f"{traffic / 1e9:.1f} GB/s"] if traffic else []),
    ]


def _box(axes: Axes, left: float, bottom: float, width: float, text: str, colour: str) -> None:
    """Draw a box with as much of the text as fits."""
    from matplotlib.patches import Rectangle

    axes.add_patch(Rectangle((left, bottom), width, _ROW, facecolor=colour, edgecolor="white", linewidth=0.8))
    room = width / (axes.get_xlim()[1] or 1) * _WIDTH * 72
    columns = int(room / (_POINTS * _CHARACTER)) - 1
    if columns >= 6:
        shown = "\n".join(line if len(line) <= columns else f"{line[: columns - 1]}…" for line in text.split("\n"))
        axes.text(left + width / 2, bottom + _ROW / 2, shown, ha="center", va="center", fontsize=_POINTS, clip_on=True)


def _colour(speed: float) -> str:
    """A colour from yellow at speed 0 to red at 1."""
    green, blue = 235 - round(125 * speed), 150 - round(60 * speed)
    return f"#{250:02x}{green:02x}{blue:02x}"


def _time(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.3g} us"
