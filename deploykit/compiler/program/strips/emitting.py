"""The steps of a chain that runs strip by strip.

    for each image                                       only if there may be several
        strip 0
        for strips 1 ... 10                              strips that do the same to other rows are a loop
            window = kept rows                           of each stage of which rows are kept
            for rows: kernel(window, ..., its rows of the next window)
            kept rows = the end of the window

Windows live during a strip, kept rows from the first strip to the last. Kernels read and write parts of windows, of the
tensors that the chain reads, and of its result. A part is a tensor that begins at another element (`Trace.starts`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tvm import tirx

from deploykit.compiler.dims import simplify
from deploykit.compiler.program.ir import Copy, Launch, Loop, Step
from deploykit.compiler.program.sizes import element_count
from deploykit.compiler.program.strips.rows import ROW
from deploykit.compiler.program.strips.sums import START
from deploykit.compiler.program.strips.timetable import Run, Stage, Turns, Window, turns
from deploykit.compiler.program.trace import Buffer, DraftTensor, Trace
from deploykit.compiler.tir.rewriting import Buffer as Operand
from deploykit.compiler.tir.values import dtype_of

if TYPE_CHECKING:
    from deploykit.compiler.cost import Cost
    from deploykit.compiler.dims.expressions import IntExpr
    from deploykit.compiler.lowering.lower import Workspace


@dataclass(frozen=True)
class ReadyKernel:
    """A kernel for a row as a step calls it: its index in the pool, its workspaces, and what a call costs."""

    index: int
    workspaces: tuple[Workspace, ...] = ()
    work: Cost | None = None


IMAGE_INDEX, STRIP_INDEX, ROW_INDEX, _DONE = (tirx.Var(name, "int64") for name in ("image", "strip", "row", "done"))
"""The numbers of iterations of loops; of the last nothing is read."""

Ready = Callable[[Launch, Stage, int], ReadyKernel]
"""Makes a kernel of a stage ready that is launched as a whole: the launch, the stage, the number of its kernel."""


@dataclass(frozen=True)
class Chain:
    """Launches of a trace that run strip by strip: the steps from `first` on, one for each stage. `images` is the
    number of images."""

    first: int
    stages: tuple[Stage, ...]
    images: IntExpr

    @property
    def stop(self) -> int:
        return self.first + len(self.stages)


def in_strips(trace: Trace, chain: Chain, ready: Ready) -> Trace:
    """`trace`, with the steps of `chain` replaced; `ready` makes its kernels ready."""
    made = copied(trace)
    made.steps[chain.first : chain.stop] = _Emitter(made, chain, ready).steps()
    return made


def copied(trace: Trace) -> Trace:
    """A trace that can be changed while `trace` stays."""
    return replace(
        trace,
        tensors=[replace(tensor) for tensor in trace.tensors],
        buffers=[replace(buffer) for buffer in trace.buffers],
        steps=list(trace.steps),
        last=list(trace.last),
        results=list(trace.results),
        starts=dict(trace.starts),
    )


@dataclass(frozen=True)
class _Rows:
    """Where a part of a tensor begins: at row `first`, `step` rows later in each turn of the inner loop, `further` rows
    later in each strip."""

    first: int
    step: int = 0
    further: int = 0


@dataclass
class _Emitter:
    """Emits the steps of a chain. `image`, `strip` and `row` are the variables of the loops that are being emitted."""

    trace: Trace
    chain: Chain
    ready: Ready
    kept: dict[int, int] = field(default_factory=dict)
    """The buffer for the kept rows of a stage."""
    partial: int | None = None
    """The buffer for the partial results of a reduction."""
    image: tirx.Var | None = None
    strip: tirx.Var | None = None
    row: tirx.Var | None = None

    def __post_init__(self) -> None:
        steps = self.trace.steps[self.chain.first : self.chain.stop]
        self.launches = [step for step in steps if isinstance(step, Launch)]
        self.results = [launch.tensors[len(launch.tensors) - launch.workspaces - 1] for launch in self.launches]
        self.turns = list(turns(self.chain.stages))
        self.inner = range(len(self.launches) - 1)
        self.last_reader = {
            maker: number for number, stage in enumerate(self.chain.stages) for maker in stage.made_by.values()
        }

    def steps(self) -> list[Step]:
        """The steps of the chain."""
        if self.chain.images == 1:
            return list(self.of_image())
        self.image = IMAGE_INDEX
        return [_loop(IMAGE_INDEX, self.chain.images, self.of_image())]

    def of_image(self) -> Iterator[Step]:
        """The steps for an image."""
        sums = self.chain.stages[-1].rows.sums
        if sums is not None:
            yield self.launch(len(self.inner), Run(START, 0, 1, {}), [self.sums(sums)], 1)
        for some in self.turns:
            yield from self.of_turns(some)

    def of_turns(self, some: Turns) -> Iterator[Step]:
        """The steps of strips that do the same."""
        if some.times == 1:
            yield from self.of_strip(some)
            return
        self.strip = STRIP_INDEX
        yield _loop(STRIP_INDEX, some.times, self.of_strip(some))
        self.strip = None

    def of_strip(self, some: Turns) -> Iterator[Step]:
        windows = [self.window(stage, some.strip.windows[stage]) for stage in self.inner]
        for number, runs in enumerate(some.strip.runs):
            if number in self.inner and (count := some.strip.windows[number].loaded):
                yield self.copy(number, count, (windows[number], 0), (self.rows_kept(number), 0))
            for run in runs:
                yield self.of_run(number, run, some, windows)
            for maker in self.inner:
                own = some.strip.windows[maker]
                if self.last_reader[maker] == number and own.saved:
                    first = own.next_first - own.first
                    yield self.copy(maker, own.saved, (self.rows_kept(maker), 0), (windows[maker], first))

    # Windows and kept rows

    def window(self, stage: int, rows: Window) -> int:
        """A buffer for the window of a stage."""
        return self.buffer(stage, "window", rows.stop - rows.first)

    def rows_kept(self, stage: int) -> int:
        """The buffer for the rows of a stage that are kept."""
        if stage not in self.kept:
            most = max(some.strip.windows[stage].new - some.strip.windows[stage].first for some in self.turns)
            self.kept[stage] = self.buffer(stage, "kept", most)
        return self.kept[stage]

    def buffer(self, stage: int, name: str, rows: int) -> int:
        draft = self.trace.tensors[self.results[stage]]
        elements = element_count((rows, *draft.shape[ROW + 1 :]))
        self.trace.buffers.append(Buffer(f"{draft.name}_{name}", draft.dtype, elements, ("memory", None)))
        return len(self.trace.buffers) - 1

    def copy(self, stage: int, count: int, target: tuple[int, int], source: tuple[int, int]) -> Copy:
        """A copy of `count` rows from a row of a buffer on to a row of another on."""
        result = self.results[stage]
        shape = (count, *self.trace.tensors[result].shape[ROW + 1 :])
        to, of = (self.part(result, shape, _Rows(row), buffer=buffer) for buffer, row in (target, source))
        return Copy(to, of)

    # Rows

    def of_run(self, number: int, run: Run, some: Turns, windows: Sequence[int]) -> Step:
        """The launch of a kernel for a row, or a loop of launches."""
        if run.count == 1:
            return self.of_row(number, run, some, windows)
        self.row = ROW_INDEX
        loop = _loop(ROW_INDEX, run.count, [self.of_row(number, run, some, windows)])
        self.row = None
        return loop

    def of_row(self, number: int, run: Run, some: Turns, windows: Sequence[int]) -> Launch:
        stage, launch = self.chain.stages[number], self.launches[number]
        params = [param for param in stage.rows.kernels[run.kernel].params if tirx.is_buffer_var(param)]
        shapes = [[int(extent) for extent in param.shape] for param in params]
        operands = list(launch.tensors[: len(launch.tensors) - launch.workspaces - 1])
        for position, source in stage.rows.sources.items():
            maker, first = stage.made_by.get(position), stage.rows.needs[run.first][position][0]
            step, further = run.steps.get(position, 0), some.further.get((number, position), 0)
            if maker is None:
                rows, buffer = _Rows(first, step, further), None
            else:
                rows, buffer = _Rows(first - some.strip.windows[maker].first, step), windows[maker]
            tensor = launch.tensors[position]
            operands[position] = self.part(
                tensor, shapes[position], rows, source.axis, buffer=buffer, of_image=maker is None and source.image
            )
        if number in self.inner:
            rows, buffer = _Rows(run.first - some.strip.windows[number].first, 1), windows[number]
        else:
            rows, buffer = _Rows(run.first, 1, some.further.get((number, None), 0)), None
        if stage.rows.sums is None:
            operands.append(self.part(self.results[number], shapes[-1], rows, buffer=buffer, of_image=buffer is None))
        else:
            operands.append(self.sums(stage.rows.sums))
            if run.first + 1 == stage.count:
                operands.append(self.part(self.results[number], shapes[-1], _Rows(0), of_image=True))
        return self.launch(number, run, operands, some.times)

    def sums(self, like: Operand) -> int:
        """The tensor of partial results of the last stage."""
        draft, shape = self.trace.tensors[self.results[-1]], tuple(int(extent) for extent in like.shape)
        if self.partial is None:
            self.partial = len(self.trace.buffers)
            name = f"{draft.name}_sums"
            self.trace.buffers.append(Buffer(name, dtype_of(like), element_count(shape), ("memory", None)))
        buffer = self.trace.buffers[self.partial]
        self.trace.tensors.append(DraftTensor(buffer.name, buffer.dtype, shape, self.partial))
        self.trace.starts[len(self.trace.tensors) - 1] = 0
        return len(self.trace.tensors) - 1

    def launch(self, number: int, run: Run, operands: Sequence[int], times: int) -> Launch:
        """The launch of a kernel for rows, which is run `times` times for each image."""
        launch = self.launches[number]
        ready = self.ready(launch, self.chain.stages[number], run.kernel)
        times = times * run.count
        return replace(
            launch,
            kernel=ready.index,
            tensors=(*operands, *(self.workspace(number, workspace) for workspace in ready.workspaces)),
            scalars=(),
            workspaces=len(ready.workspaces),
            flops=None if ready.work is None else simplify(ready.work.flops * self.chain.images * times),
            traffic=None if ready.work is None else simplify(ready.work.traffic * self.chain.images * times),
            per_run=True,
        )

    def workspace(self, stage: int, found: Workspace) -> int:
        name, count = f"{self.trace.tensors[self.results[stage]].name}_workspace", element_count(found.shape)
        self.trace.buffers.append(Buffer(name, found.dtype, count, ("memory", None)))
        self.trace.tensors.append(DraftTensor(name, found.dtype, found.shape, len(self.trace.buffers) - 1))
        return len(self.trace.tensors) - 1

    def part(
        self,
        tensor: int,
        shape: Sequence[IntExpr],
        rows: _Rows,
        axis: int = ROW,
        *,
        buffer: int | None = None,
        of_image: bool = False,
    ) -> int:
        """The part of a tensor from `rows` on, which are along `axis`; or of a `buffer` that holds rows of it. With
        `of_image`, those of the image that is computed."""
        draft = self.trace.tensors[tensor]
        row = int(element_count(draft.shape[axis + 1 :]))
        start: IntExpr = rows.first * row
        for var, step in ((self.row, rows.step), (self.strip, rows.further)):
            if var is not None and step:
                start = var * (step * row) + start
        if of_image and self.image is not None:
            start = self.image * int(element_count(draft.shape[1:])) + start
        own, name = (draft.buffer, draft.name) if buffer is None else (buffer, self.trace.buffers[buffer].name)
        self.trace.tensors.append(DraftTensor(name, draft.dtype, tuple(shape), own))
        number = len(self.trace.tensors) - 1
        self.trace.starts[number] = start
        return number


def _loop(index: tirx.Var, trips: IntExpr, body: Iterable[Step]) -> Loop:
    return Loop(index, trips, None, tuple(body), _DONE)
