"""Which rows of each stage of a chain are computed when.

The last stage is computed row by row. For each of its rows, a *strip*, every stage before computes the rows that the
next ones need and that are not there yet; strips in front of the first row compute a part of what it needs. No row is
computed twice: rows that a later strip needs again are *kept*. So a stage has a *window* of rows in memory, from the
first that is still read to the last that is computed:

    conv 3 x 3 of y, strip 5      y: rows 4 and 5 are kept, row 6 is computed, rows 5 and 6 are kept for strip 6

What is needed of a row outside of a tensor is padding, which is not stored. Rows that nothing reads are not computed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from deploykit.compiler.program.strips.rows import RowKernels


@dataclass(frozen=True)
class Stage:
    """A stage of a chain. `made_by` gives the stage that computes a source, by the position of the source; the other
    sources are there before the chain."""

    rows: RowKernels
    made_by: Mapping[int, int]

    @property
    def count(self) -> int:
        """The number of rows of its result."""
        return len(self.rows.of_row)


@dataclass(frozen=True)
class Window:
    """The rows of a stage's result that are in memory during a strip: from `first` to before `stop`. Those before `new`
    are kept from the strip before. Those from `next_first` on are kept for the next strip; there are none if that is
    `stop`. `read` says whether the strip reads any."""

    first: int
    new: int
    stop: int
    next_first: int
    read: bool

    def moved(self, by: int) -> Window:
        """The window that is `by` rows further on."""
        return Window(self.first + by, self.new + by, self.stop + by, self.next_first + by, self.read)

    @property
    def loaded(self) -> int:
        """How many kept rows the strip needs in the window."""
        return self.new - self.first if self.read or self.new < self.stop else 0

    @property
    def saved(self) -> int:
        """How many rows are to be kept that are not kept yet, or not as the first ones."""
        changed = self.new < self.stop or self.next_first > self.first
        return self.stop - self.next_first if changed else 0


@dataclass(frozen=True)
class Run:
    """Rows that one kernel computes one after the other, `count` of them from `first` on. Each row reads what the one
    before reads, `steps[position]` rows later."""

    kernel: int
    first: int
    count: int
    steps: Mapping[int, int]

    def moved(self, by: int) -> Run:
        """The run of rows that are `by` further on."""
        return replace(self, first=self.first + by)


@dataclass(frozen=True)
class Strip:
    """What is computed for a row of the last stage, or before the first: `runs` and `windows` of each stage."""

    runs: tuple[tuple[Run, ...], ...]
    windows: tuple[Window, ...]


@dataclass(frozen=True)
class Turns:
    """Strips that do the same, each to rows that are as much further on than those of the one before: `strip`, which is
    the first, and `times` of them in all. `further` says how much further on, by the stage and the position of a
    source, or None for its result."""

    strip: Strip
    times: int
    further: Mapping[tuple[int, int | None], int]


def turns(stages: Sequence[Stage]) -> Iterator[Turns]:
    """All strips of a chain in order."""
    found = strips(stages)
    first = 0
    while first < len(found):
        stop = first + 1
        further = _further(stages, found[first], found[stop]) if stop < len(found) else {}
        while (
            stop < len(found)
            and _same(found[stop - 1], found[stop])
            and further == _further(stages, found[stop - 1], found[stop])
        ):
            stop += 1
        yield Turns(found[first], stop - first, further if stop - first > 1 else {})
        first = stop


def strips(stages: Sequence[Stage]) -> list[Strip]:
    """The strips of a chain. A stage comes after those that it reads."""
    ends = [[0] * len(stages), *_ends(stages)]
    firsts = [_firsts(stages, done, ends[-1]) for done in ends]
    found = []
    for before, after, first, following in zip(ends, ends[1:], firsts, firsts[1:], strict=False):
        runs = [tuple(_runs(stage.rows, *rows)) for stage, *rows in zip(stages, before, after, strict=True)]
        read = {maker for stage, own in zip(stages, runs, strict=True) if own for maker in stage.made_by.values()}
        windows = enumerate(zip(first, before, after, following, strict=True))
        found.append(Strip(tuple(runs), tuple(Window(*rows, number in read) for number, rows in windows)))
    return found


def _further(stages: Sequence[Stage], strip: Strip, following: Strip) -> dict[tuple[int, int | None], int]:
    """How much further on the rows of a strip are than those of the one before."""
    found: dict[tuple[int, int | None], int] = {}
    for number, stage in enumerate(stages):
        here, there = strip.windows[number], following.windows[number]
        found[number, None] = there.new - here.new
        if here.new < here.stop and there.new < there.stop:
            one, other = stage.rows.needs[here.new], stage.rows.needs[there.new]
            found |= {(number, position): other[position][0] - one[position][0] for position in one}
    return found


def _same(strip: Strip, following: Strip) -> bool:
    """Whether strips do the same, each to its own rows."""
    for number, (one, other) in enumerate(zip(strip.windows, following.windows, strict=True)):
        by = other.new - one.new
        if one.moved(by) != other or [run.moved(by) for run in strip.runs[number]] != list(following.runs[number]):
            return False
    return True


def _ends(stages: Sequence[Stage]) -> Iterator[list[int]]:
    """After each strip, the number of rows of each stage that are computed.

    In each strip a stage gets as much further on as the last stage needs for a row, so the first strips compute rows of
    the first stages alone."""
    last = _needed(stages, [0] * len(stages), [*([0] * (len(stages) - 1)), stages[-1].count])
    strip = 0
    while any(stop > 0 for stop in _aims(stages, strip - 1)):
        strip -= 1
    done = [0] * len(stages)
    while done != last:
        aims = [min(max(aim, have), end) for aim, have, end in zip(_aims(stages, strip), done, last, strict=True)]
        done = _needed(stages, done, aims)
        yield done
        strip += 1


def _aims(stages: Sequence[Stage], strip: int) -> list[int]:
    """The number of rows of each stage that are computed after a strip, if tensors went on beyond their ends."""
    aims: dict[int, int] = {len(stages) - 1: strip + 1}
    for number in reversed(range(len(stages))):
        for position, maker in stages[number].made_by.items():
            stride, stop = stages[number].rows.reach[position]
            aim = stride * (aims[number] - 1) + stop
            aims[maker] = max(aims.get(maker, aim), aim)
    return [aims[number] for number in range(len(stages))]


def _needed(stages: Sequence[Stage], done: Sequence[int], aims: Sequence[int]) -> list[int]:
    """The number of rows of each stage that are computed to get from `done` to `aims`."""
    stop = list(aims)
    for number in reversed(range(len(stages))):
        for position, maker in stages[number].made_by.items():
            needs = stages[number].rows.needs[done[number] : stop[number]]
            stop[maker] = max([stop[maker], *(need[position][1] for need in needs)])
    return stop


def _firsts(stages: Sequence[Stage], done: Sequence[int], last: Sequence[int]) -> list[int]:
    """The first row of each stage that is read once `done` rows of each are computed, of `last` in all; the next row
    that is computed, if that is before."""
    found = list(done)
    for number, stage in enumerate(stages):
        for position, maker in stage.made_by.items():
            left = stage.rows.needs[done[number] : last[number]]
            found[maker] = min([found[maker], *(need[position][0] for need in left)])
    return found


def _runs(rows: RowKernels, first: int, stop: int) -> Iterator[Run]:
    """The rows from `first` to before `stop`, in runs."""
    while first < stop:
        kernel, count = rows.of_row[first], 1
        steps = _steps(rows, first) if first + 1 < stop else {}
        while first + count < stop and rows.of_row[first + count] == kernel:
            if _steps(rows, first + count - 1) != steps:
                break
            count += 1
        yield Run(kernel, first, count, steps)
        first += count


def _steps(rows: RowKernels, row: int) -> dict[int, int]:
    """How much later the next row reads each source."""
    here, there = rows.needs[row], rows.needs[row + 1]
    return {position: there[position][0] - here[position][0] for position in here}
