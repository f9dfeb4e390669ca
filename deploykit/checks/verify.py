"""Does an artifact compute what its model says? Both run on the same inputs at several sizes of each symbolic dim.

The sizes of a dim are those that the caller asks for, else those of the arrays given as inputs, else three defaults
within its bounds: the smallest, an odd one and a larger one. Dims are combined in two ways: all small or all large
together, and crossed (one small, the next large). `checks.samples` says how many bytes random strings have. If the
artifact's own shape checks refuse default sizes, the check is skipped and says why; sizes that were asked for must be
accepted. For ragged inputs, the length of the longest instance is such a size (`checks.lengths`); an artifact that was
converted from a padded model is compared with that model (`checks.padded`). A stream runs part by part, and its model
on all frames at once (`checks.streamed`).

If an output is out of the tolerance of its dtype, `checks.rounding` measures how far rounding moves the reference.
An error of that order is not a mismatch: the output is then undecided at these inputs. A check is skipped if the
reference does not repeat its own results, because the model draws random numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from deploykit.artifact.formula import evaluate
from deploykit.artifact.manifest import MANIFEST, DimEntry, Manifest, read_manifest
from deploykit.artifact.plan import WorkEntry, read_plan
from deploykit.basics.dtypes import logical_dtype
from deploykit.basics.installation import full_package_needed
from deploykit.basics.sizes import whole
from deploykit.checks import reference as references
from deploykit.checks import samples
from deploykit.checks.comparison import STRING, Difference, Tolerance, compare_values, tolerance_of_steps
from deploykit.checks.lengths import largest_sums, sums_of
from deploykit.checks.padded import PaddedForm, padded_form, plain
from deploykit.checks.sources import Input, Source, read_inputs
from deploykit.checks.streamed import Incomparable, StreamedForm, streamed_form
from deploykit.errors import ArtifactError, ShapeError, UsageError
from deploykit.frontends.onnx.quantized_ports import steps_of
from deploykit.frontends.onnx.reader import read
from deploykit.sessions.session import Session
from deploykit.sessions.session import open as open_artifact

_ODD = 7
_LARGE = 32

CHANGE = "results for random inputs change"
"""How the note of a build begins that tells what weights or products of fewer bits change."""

END_BYTES = 1 << 30
"""Bytes of memory that a run at the upper ends of the bounds may take in `verify_ends`."""

SHORT_BYTES = 64 << 20
"""Bytes of memory of a short run."""


class ReferenceRefusal(UsageError):
    """The reference refuses inputs that the artifact accepts."""


@dataclass(frozen=True)
class CheckedRun:
    """One run at one choice of sizes. `skipped` says why there was no run, or is None."""

    sizes: Mapping[str, int]
    differences: tuple[Difference, ...] = ()
    skipped: str | None = None

    @property
    def within(self) -> bool:
        return all(difference.within for difference in self.differences)


@dataclass(frozen=True)
class Report:
    """`where` says what ran, and how, where that is not obvious. `change` is what the build said of a model whose
    numbers have fewer bits than those of the reference."""

    reference: str
    checks: tuple[CheckedRun, ...]
    where: str = ""
    change: str = ""

    @property
    def within(self) -> bool:
        """Whether every output of every check is within tolerance."""
        return all(check.within for check in self.checks)

    @property
    def wrong(self) -> bool:
        """Whether an output is out of tolerance by more than rounding explains."""
        return any(difference.wrong for check in self.checks for difference in check.differences)


@dataclass(frozen=True)
class _Trial:
    """What the checks of a report have in common. Without a `tolerance`, that of each output's dtype applies."""

    session: Session
    model: Path
    reference: str
    form: PaddedForm | StreamedForm | None
    run_reference: references.Runner
    sources: Mapping[str, Source]
    tolerance: Tolerance | None = None
    steps: Mapping[str, float] = field(default_factory=dict)

    def compare(self, actual: Mapping[str, Any], expected: Mapping[str, Any]) -> Iterator[Difference]:
        """The errors of each output. Those of a quantised one have its step."""
        for structure in self.session.manifest.given:
            name, step = structure.name, self.steps.get(structure.name)
            allowed = self.tolerance or (None if step is None else tolerance_of_steps(step))
            for difference in compare_values(structure, actual[name], expected[name], allowed):
                yield replace(difference, step=step)

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The outputs of the artifact, as those of the reference are."""
        if isinstance(self.form, StreamedForm):
            return self.form.run(self.session, inputs)
        outputs = self.session.run(inputs)
        return plain(outputs) if self.form is None else self.form.comparable(inputs, outputs)

    def at(self, sizes: Mapping[str, int], *, exact: bool) -> _Trial:
        """The trial at these sizes, which a stream runs in parts of."""
        form = streamed_form(self.session.manifest, sizes, exact=exact)
        return self if form is None else replace(self, form=form, run_reference=form.around(self.run_reference))

    def sampled(self, sizes: Mapping[str, int]) -> tuple[dict[str, Any], dict[str, int]]:
        """Inputs at these sizes, and the sizes."""
        manifest = self.session.manifest
        if isinstance(self.form, StreamedForm):
            return self.form.sampled(manifest, self.sources, sizes)
        return samples.sample_inputs(manifest, self.sources, sizes)


def _trial(
    session: Session,
    model: Path,
    reference: str,
    sources: Mapping[str, Source],
    tolerance: Tolerance | None = None,
) -> _Trial:
    run, padded = references.load(model, reference), padded_form(session.manifest, model)
    around = padded.around(run) if padded else run
    return _Trial(session, model, reference, padded, around, sources, tolerance, steps_of(read(model)))


@full_package_needed()
def verify(
    artifact: str | Path,
    model: str | Path | None = None,
    *,
    at: Mapping[str, int | Sequence[int]] | None = None,
    inputs: Mapping[str, Input] | None = None,
    seed: int = 0,
    tolerance: Tolerance | None = None,
    reference: str = "onnxruntime",
    threads: int = 1,
    device: str | None = None,
    on_check: Callable[[CheckedRun], None] = lambda _check: None,
) -> Report:
    """Run the artifact in a folder and a reference on the same inputs, and compare their outputs.

    `model` is by default the file that the artifact was built from, if it is found in this folder or beside the
    artifact. It may also be another artifact of the same model, such as the one for the host of a Hugging Face folder.
    `at` gives sizes of dims by name, `{"batch": (1, 3)}`; other dims have the sizes of the arrays in
    `inputs`, else a smallest, an odd and a larger one. `inputs` gives values by name, as arrays or as texts in the
    forms of `deploykit.checks.sources`; other inputs are random from `seed`. The default tolerance is that of each
    output's dtype; with a given `tolerance` no output is undecided. `threads` and `device` are those of
    `deploykit.open`. `on_check` is called after each check.

    Outputs that differ raise nothing: see `within` and `wrong` of the report.

    Raises:
        UsageError: a dim or input is unknown, no sizes are accepted, the reference refuses the inputs, or the model is
            not found.
        ToolchainError: the reference is not installed.
        UnsupportedModelError: the reference cannot load the model.
    """
    with ExitStack() as opened:
        session = opened.enter_context(open_artifact(artifact, threads=threads, device=device))
        path = references.model_of(Path(artifact), session.manifest, model)
        given = samples.random_for_others(session.manifest, read_inputs(inputs or {}), seed)
        if (path / MANIFEST).is_file():
            reference = f"the artifact {path}"
            peer = opened.enter_context(_same_model(path, session.manifest))
            trial = _Trial(session, path, reference, None, lambda arrays: plain(peer.run(arrays)), given, tolerance)
        else:
            trial = _trial(session, path, reference, given, tolerance)
        checks = []
        for sizes, required in _choices(session.manifest, at or {}, samples.given_sizes(session.manifest, given)):
            check = _check(trial, sizes, required=required)
            on_check(check)
            checks.append(check)
        where = session.where
    if all(check.skipped for check in checks):
        raise UsageError(f"the model accepts none of the sizes tried: {checks[-1].skipped}. Give sizes with --at")
    change = next((note for note in session.manifest.notes if note.startswith(CHANGE)), "")
    return Report(reference, tuple(checks), where, change)


def _same_model(folder: Path, manifest: Manifest) -> Session:
    """Another artifact of the model of `manifest`. Raises `UsageError` if it is of another one."""
    other = read_manifest(folder)
    if other.source != manifest.source or other.name != manifest.name:
        raise UsageError(f"{folder} was built from another model: build both from the same folder or file")
    return open_artifact(folder)


def verify_ends(
    artifact: Path, model: Path, inputs: Mapping[str, Input] | None = None, operations: int | None = None
) -> Report:
    """Compare an artifact with ONNX Runtime twice: with every dim at its lower bound, and with every dim at its upper.

    Dims of arrays in `inputs` have the sizes of these arrays. A dim without an upper bound has the largest of its
    default sizes. While the upper run would take more than `END_BYTES`, the largest dim is halved. An end is skipped if
    the artifact or ONNX Runtime refuses its sizes.

    With `operations` runs are short: at most so many floating-point operations and `SHORT_BYTES`.

    Raises what `verify` raises, and `UsageError` if both ends are skipped, or if even the lower run is not short."""
    with open_artifact(artifact) as session:
        given = samples.random_for_others(session.manifest, read_inputs(inputs or {}))
        dims = [dim for dim in _compared_dims(session.manifest) if dim.name not in sums_of(session.manifest)]
        sizes = samples.given_sizes(session.manifest, given)
        low = {dim.name: dim.minimum for dim in dims} | sizes
        high = {dim.name: default_sizes(dim)[-1] if dim.maximum is None else dim.maximum for dim in dims} | sizes
        if operations is None:
            high = _halved(low, high, lambda sizes: _bytes(session, sizes) <= END_BYTES)
        else:
            work = read_plan(artifact).work

            def short(sizes: Mapping[str, int]) -> bool:
                return _bytes(session, sizes) <= SHORT_BYTES and _operations(session, work, sizes) <= operations

            high = _halved(low, high, short)
            if not short(high):
                needed = f"{_operations(session, work, high):.2g} floating-point operations"
                raise UsageError(f"a run takes {needed} and {_bytes(session, high):,} bytes; --check does it")
        trial = _trial(session, model, "onnxruntime", given)
        ends = [low] if low == high else [low, high]
        checks = tuple(_end(trial, sizes) for sizes in ends)
    if all(check.skipped for check in checks):
        raise UsageError(
            f"the model runs at neither end of its bounds: {checks[-1].skipped}. State bounds that fit, or give sizes "
            "with --at"
        )
    return Report(trial.reference, checks)


def _end(trial: _Trial, sizes: Mapping[str, int]) -> CheckedRun:
    try:
        return _check(trial, sizes, required=False)
    except ReferenceRefusal as error:
        return CheckedRun(dict(sizes), skipped=str(error))


def mismatch(report: Report) -> str:
    """A message that lists each wrong output, with the sizes and the index where it differs most; and what is known of
    the cause."""
    faults = [
        f"output '{difference.name}' at {sizes_text(check)}: {fault(difference)}"
        for check in report.checks
        for difference in check.differences
        if difference.wrong
    ]
    lines = [f"the artifact differs from {report.reference}:", *(f"  - {line}" for line in faults)]
    if report.change:
        lines.append(f"Its build has said: {report.change}. --rtol and --atol tell how much may differ.")
    return "\n".join(lines)


def undecided(report: Report) -> Iterator[str]:
    """A note for each undecided output, with advice on how to get a decision."""
    for check in report.checks:
        for difference in check.differences:
            if difference.undecided:
                yield (
                    f"output '{difference.name}' at {sizes_text(check)} differs from {report.reference} by "
                    f"{error_text(difference)}, {difference.roundings:.1f} times the effect of changing weights and "
                    "inputs in their last bit: not judged; give typical values with --input"
                )


def fault(difference: Difference) -> str:
    """A text that says why an output is out of tolerance."""
    if difference.problem:
        return difference.problem
    if difference.dtype == STRING:
        return f"{difference.outside:,} strings differ, the first at {list(difference.worst or ())}"
    return (
        f"{difference.outside:,} elements out of tolerance, worst at {list(difference.worst or ())}, "
        f"largest error {error_text(difference)}"
    )


def error_text(difference: Difference) -> str:
    """The largest error of an output, for a quantised one in steps: `2 steps of 0.0213`."""
    if difference.steps is None or difference.step is None:
        return f"{difference.absolute:.3g}"
    number = f"{difference.steps:.3g}"
    return f"{number} {'step' if number == '1' else 'steps'} of {difference.step:.3g}"


def sizes_text(check: CheckedRun) -> str:
    return ", ".join(f"{name}={size}" for name, size in check.sizes.items()) or "fixed"


def _halved(
    low: Mapping[str, int], high: Mapping[str, int], fits: Callable[[Mapping[str, int]], bool]
) -> dict[str, int]:
    """The sizes `high`, the largest halved until they fit, but none below `low`."""
    sizes = dict(high)
    while sizes and not fits(sizes):
        name = max(sizes, key=lambda key: sizes[key] - low[key])
        if sizes[name] == low[name]:
            break
        sizes[name] = max(low[name], sizes[name] // 2)
    return sizes


def _bytes(session: Session, chosen: Mapping[str, int]) -> int:
    """Bytes of the arena and of the inputs, at most."""
    sizes = largest_sums(session.manifest, chosen)
    inputs = sum(
        logical_dtype(port.dtype).array.itemsize
        * math.prod(sizes.get(str(e), e if isinstance(e, int) else 1) for e in port.shape)
        for port in session.manifest.inputs
    )
    return session.peak_bytes(sizes) + inputs


def _operations(session: Session, work: Sequence[WorkEntry], chosen: Mapping[str, int]) -> int:
    """Floating-point operations of a run, as far as they are known before it."""
    sizes, found = largest_sums(session.manifest, chosen), 0
    for entry in work:
        with suppress(ArtifactError):
            found += evaluate(entry.flops or "0", sizes)
    return found


def default_sizes(dim: DimEntry) -> tuple[int, ...]:
    """The smallest size, an odd one and a larger one, within the bounds."""
    sizes = (dim.minimum, max(_ODD, dim.minimum | 1), max(_LARGE, 2 * dim.minimum))
    return tuple(dict.fromkeys(size if dim.maximum is None else min(size, dim.maximum) for size in sizes))


def _choices(
    manifest: Manifest, at: Mapping[str, int | Sequence[int]], given: Mapping[str, int]
) -> list[tuple[dict[str, int], bool]]:
    """The sizes of each check, and whether the artifact must accept them. `given` are the sizes of given arrays."""
    dims = _compared_dims(manifest)
    unknown = sorted(set(at) - {dim.name for dim in dims})
    if unknown:
        raise UsageError(f"there is no symbolic dim '{unknown[0]}'; the model has {_names(dims)}")
    later = samples.dims_of_contents(manifest, at)
    asked = {name: _sizes_of(name, sizes) for name, sizes in (*given.items(), *at.items())}
    candidates = {dim.name: asked.get(dim.name) or default_sizes(dim) for dim in dims if dim.name not in later}
    rounds = max((len(sizes) for sizes in candidates.values()), default=1)
    choices: list[tuple[dict[str, int], bool]] = []
    for crossed in (False, True):
        for index in range(rounds):
            choice = {}
            for position, (name, sizes) in enumerate(candidates.items()):
                at_index = min(index, len(sizes) - 1)
                choice[name] = sizes[-1 - at_index if crossed and position % 2 else at_index]
            required = bool(at) and not crossed
            if choice not in [known for known, _ in choices]:
                choices.append((choice, required))
    return choices


def _compared_dims(manifest: Manifest) -> list[DimEntry]:
    """The dims whose sizes are chosen. A padded model is not run without instances."""
    batches = {port.shape[0] for port in manifest.inputs if port.name in {entry.lengths for entry in manifest.padded}}
    return [
        dim.model_copy(update={"minimum": max(dim.minimum, 1)}) if dim.name in batches else dim
        for dim in samples.symbolic_dims(manifest)
    ]


def _sizes_of(name: str, given: int | Sequence[int]) -> tuple[int, ...]:
    sizes = given if isinstance(given, Sequence) and not isinstance(given, str) else (given,)
    return tuple(whole(name, size) for size in sizes)


def _check(trial: _Trial, sizes: Mapping[str, int], *, required: bool) -> CheckedRun:
    trial = trial.at(sizes, exact=required)
    arrays, dims = trial.sampled(sizes)
    try:
        actual = trial.run(arrays)
    except Incomparable as error:
        return CheckedRun(dims, skipped=str(error))
    except ShapeError as error:
        if required:
            raise
        return CheckedRun(dims, skipped=str(error))
    try:
        expected = trial.run_reference(arrays)
    except Exception as error:  # each reference raises exceptions of its own
        raise ReferenceRefusal(f"the reference cannot run the model at {dims}: {error}") from error
    differences = tuple(trial.compare(actual, expected))
    check = CheckedRun(dims, differences)
    if not check.within and not _repeats(trial, arrays, expected):
        return CheckedRun(
            dims, skipped=f"{trial.reference} does not repeat its results: the model draws random numbers"
        )
    judged = check.within or trial.tolerance is not None or (trial.model / MANIFEST).is_file()
    return check if judged else _with_spreads(check, trial, arrays, expected)


def _repeats(trial: _Trial, inputs: Mapping[str, Any], expected: Mapping[str, Any]) -> bool:
    """Whether the reference gives the same results again."""
    again = trial.run_reference(inputs)
    return all(difference.within for difference in trial.compare(again, expected))


def _with_spreads(
    check: CheckedRun, trial: _Trial, inputs: Mapping[str, Any], expected: Mapping[str, Any]
) -> CheckedRun:
    from deploykit.checks.rounding import spreads

    around = trial.form.around if trial.form else lambda run: run
    found = spreads(trial.model, trial.reference, inputs, expected, trial.compare, around)
    differences = (d.in_roundings(found[d.name]) if d.name in found else d for d in check.differences)
    return replace(check, differences=tuple(differences))


def _names(dims: Sequence[DimEntry]) -> str:
    return ", ".join(dim.name for dim in dims) or "none"
