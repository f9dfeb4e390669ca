"""The memory plan as a picture: arena offset over step, one bar per slot.

A bar spans the steps during which its slot is alive and the bytes that it occupies. Neighbours differ in colour
(M. Okabe and K. Ito's palette for colour-blind readers, lightened). A bar shows its name and size if they fit. The
dashed line is the size of the arena. The dotted line is the most bytes alive at one step, a lower bound for any plan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deploykit.artifact.plan import Bar, MemoryPlan, Plan, at_sizes
from deploykit.errors import UsageError
from deploykit.inspection.lengths import LengthsReport
from deploykit.inspection.lengths_picture import draw_lengths

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.patches import Rectangle

_FORMATS = (".png", ".svg")
_COLOURS = ("#8cc7ee", "#f2c063", "#7fcdb4", "#e8a8c8", "#f3e98a", "#8fb0d6", "#eaa27c", "#c9c9c9")
_INK = "#333333"
_CHARACTER, _LINE = 0.62, 1.3
"""Width of a character and height of a line of text, relative to the font size."""
_LONGEST_FORMULA = 70
_NAMED_STEPS = 40
"""With more steps than this, the axis shows numbers instead of names."""


def draw(plan: Plan, at: Mapping[str, int], path: Path | str, lengths: LengthsReport | None = None) -> None:
    """Draw the arena of `plan` with the dims at the sizes `at`, as PNG or SVG by the suffix of `path`. Above it are the
    bars of the `lengths`, if they are given.

    Raises:
        UsageError: `path` has another suffix or cannot be written, or a dim has no value or one out of its bounds.
    """
    target = Path(path)
    if target.suffix.lower() not in _FORMATS:
        raise UsageError(f"cannot draw '{target.name}': the name must end in {' or '.join(_FORMATS)}")
    _require_values(plan, at)
    found = at_sizes(plan, at)
    # Imported here and in the functions below because it is slow, and only pictures need it.
    import matplotlib as mpl

    metadata = {"Date": None} if target.suffix.lower() == ".svg" else None
    with mpl.rc_context({"text.parse_math": False, "svg.hashsalt": plan.name}):
        figure = _draw(plan, at, found, lengths)
        try:
            figure.savefig(target, metadata=metadata)
        except OSError as error:
            raise UsageError(f"cannot write '{target}': {error.strerror}") from error


def _require_values(plan: Plan, at: Mapping[str, int]) -> None:
    for dim in plan.dims:
        if dim.name not in at:
            raise UsageError(f"dim '{dim.name}' has no value; give one for each of: {_names(plan)}")
        if at[dim.name] < dim.minimum or (dim.maximum is not None and at[dim.name] > dim.maximum):
            bounds = f"{dim.minimum}..{'' if dim.maximum is None else dim.maximum}"
            raise UsageError(f"dim '{dim.name}' is {at[dim.name]}, outside of {bounds}")
    known = {dim.name for dim in plan.dims}
    for name in at:
        if name not in known:
            raise UsageError(f"the model has no dim '{name}'; its dims are: {_names(plan) or 'none'}")


def _names(plan: Plan) -> str:
    return ", ".join(dim.name for dim in plan.dims)


def _draw(plan: Plan, at: Mapping[str, int], found: MemoryPlan, lengths: LengthsReport | None) -> Any:
    from matplotlib.figure import Figure

    bars = found.bars
    count = max([len(plan.steps), *(bar.last + 1 for bar in bars)])
    width, height, above = min(8 + count * 0.12, 24), min(6.5 + count * 0.02, 10), _height_above(lengths)
    figure = Figure(figsize=(width, height + above), dpi=130, layout="constrained")
    if lengths is None:
        axes = figure.add_subplot()
    else:
        names = list(lengths.lengths)
        grid = figure.add_gridspec(len(names) + 1, 1, height_ratios=(*[above / len(names)] * len(names), height))
        for row, name in enumerate(names):
            draw_lengths(figure.add_subplot(grid[row]), name, lengths)
        axes = figure.add_subplot(grid[-1])
    _title(axes, plan, at, found)
    if not bars:
        axes.text(0.5, 0.5, "this model needs no arena", ha="center", va="center", transform=axes.transAxes)
        axes.set_axis_off()
        return figure
    _axes(axes, plan, found)
    patches = [_bar(axes, bar, colour) for bar, colour in zip(bars, _colouring(bars), strict=True)]
    figure.draw_without_rendering()
    for bar, patch in zip(bars, patches, strict=True):
        _label(axes, bar, patch)
    return figure


def _height_above(lengths: LengthsReport | None) -> float:
    """Inches for the bars of lengths."""
    return 0 if lengths is None else sum(min(1.6 + 0.16 * len(each), 6) for each in lengths.lengths.values())


def _title(axes: Axes, plan: Plan, at: Mapping[str, int], found: MemoryPlan) -> None:
    dims = "  ".join(f"{name}={value}" for name, value in at.items())
    axes.set_title(f"{_shortened(plan.name, 60)}  {dims}".rstrip(), loc="left", fontsize=13, fontweight="bold", pad=24)
    stated = f" = {plan.arena} bytes" if plan.dims and len(plan.arena) <= _LONGEST_FORMULA else ""
    facts = [f"arena {_bytes(found.total)}{stated}"]
    if found.bars:
        facts += [f"{len(found.bars)} slots", f"{_bytes(sum(bar.size for bar in found.bars))} without reuse"]
    axes.annotate(
        "   ·   ".join(facts), (0, 1), (0, 8), "axes fraction", "offset points", fontsize=10, color=_INK, va="bottom"
    )


def _axes(axes: Axes, plan: Plan, found: MemoryPlan) -> None:
    from matplotlib.ticker import EngFormatter, MaxNLocator

    steps, bars, total = plan.steps, found.bars, found.total
    count = max(len(steps), *(bar.last + 1 for bar in bars))
    axes.set_xlim(0, count)
    axes.set_ylim(0, total * 1.06)
    axes.set_ylabel("offset in the arena")
    axes.yaxis.set_major_formatter(EngFormatter(unit="B"))
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#e6e6e6", linewidth=0.8)
    axes.set_axisbelow(True)
    if len(steps) <= _NAMED_STEPS:
        names = [_shortened(step, 30) for step in steps]
        axes.set_xticks([i + 0.5 for i in range(len(steps))], names, rotation=40, ha="right", fontsize=8)
        axes.set_xlabel("step")
    else:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=20))
        axes.set_xlabel("step number")
    alive = max(sum(bar.size for bar in bars if bar.first <= step <= bar.last) for step in range(count))
    _level(axes, total, f"peak {_bytes(total)}", "--")
    if alive < total * 0.985:
        _level(axes, alive, f"most alive at once {_bytes(alive)}", ":")


def _level(axes: Axes, height: int, text: str, style: str) -> None:
    axes.axhline(height, color=_INK, linestyle=style, linewidth=1.2, zorder=4)
    axes.annotate(
        text,
        (1, height),
        (-4, 2),
        ("axes fraction", "data"),
        "offset points",
        ha="right",
        va="bottom",
        fontsize=9,
        color=_INK,
        zorder=5,
        bbox={"facecolor": "white", "alpha": 0.75, "edgecolor": "none", "pad": 1},
    )


def _shortened(name: str, length: int) -> str:
    printable = "".join(c if c.isprintable() else "?" for c in name)
    return printable if len(printable) <= length else f"{printable[: length - 1]}…"


def _colouring(bars: Sequence[Bar]) -> list[str]:
    """A colour for each bar that differs from those of the bars it touches, if there are enough colours."""
    colours: dict[int, int] = {}
    for index, bar in enumerate(bars):
        taken = [colours[other] for other in colours if _touch(bar, bars[other])]
        start = index % len(_COLOURS)
        choices = sorted(range(len(_COLOURS)), key=lambda c: (taken.count(c), (c - start) % len(_COLOURS)))
        colours[index] = choices[0]
    return [_COLOURS[colours[index]] for index in range(len(bars))]


def _touch(a: Bar, b: Bar) -> bool:
    return a.first <= b.last + 1 and b.first <= a.last + 1 and a.offset <= b.end + 64 and b.offset <= a.end + 64


def _bar(axes: Axes, bar: Bar, colour: str) -> Rectangle:
    from matplotlib.colors import to_rgb
    from matplotlib.patches import Rectangle

    span = bar.last + 1 - bar.first
    edge = tuple(0.72 * part for part in to_rgb(colour))
    patch = Rectangle((bar.first, bar.offset), span, bar.size, facecolor=colour, edgecolor=edge, linewidth=0.6)
    axes.add_patch(patch)
    return patch


def _label(axes: Axes, bar: Bar, patch: Rectangle) -> None:
    """Write name and size into the bar, horizontally or upright, in the largest font that fits.

    If they do not fit, write only the name, or nothing."""
    box = patch.get_window_extent()
    point = axes.figure.dpi / 72
    short = _shortened(bar.name, 28)
    both, beside = f"{short}\n{_bytes(bar.size)}", f"{short}  {_bytes(bar.size)}"
    sizes = {both: (9, 8, 7), beside: (9, 8, 7), short: (9, 8, 7, 6, 5)}
    for text, upright, points in ((t, u, p) for t in sizes for u in (False, True) for p in sizes[t]):
        lines = text.split("\n")
        length = max(map(len, lines)) * points * point * _CHARACTER
        height = len(lines) * points * point * _LINE
        if height <= box.width and length <= box.height if upright else length <= box.width and height <= box.height:
            centre = (bar.first + bar.last + 1) / 2, bar.offset + bar.size / 2
            axes.annotate(text, centre, ha="center", va="center", fontsize=points, rotation=90 if upright else 0)
            return


def _bytes(count: int) -> str:
    """A size with three digits: `1234567` -> `1.23 MB`."""
    value, unit = float(f"{count:.3g}"), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if value < 1000:
            break
        value, unit = value / 1000, larger
    return f"{value:g} {unit}"
