"""Does an artifact compute what its model says? Both run on the same inputs at several sizes of each symbolic dim.

Sizes that are not asked for: the smallest, an odd one and a larger one within the bounds, for all dims together and
crossed (one small, the next large). Where the artifact's own shape checks refuse such sizes, the check is skipped and
says why; sizes that were asked for must be accepted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from deploykit import reference as references
from deploykit import samples
from deploykit.comparison import Difference, Tolerance, compare
from deploykit.errors import ShapeError, UsageError
from deploykit.manifest import DimEntry, Manifest
from deploykit.session import Session

_ODD = 7
_LARGE = 32


@dataclass(frozen=True)
class Check:
    """One run at one choice of sizes. `skipped` is why there was none."""

    sizes: Mapping[str, int]
    differences: tuple[Difference, ...] = ()
    skipped: str | None = None

    @property
    def within(self) -> bool:
        return all(difference.within for difference in self.differences)


@dataclass(frozen=True)
class Report:
    reference: str
    checks: tuple[Check, ...]

    @property
    def within(self) -> bool:
        """Whether every output of every check is within tolerance."""
        return all(check.within for check in self.checks)


def verify(
    session: Session,
    model: str | Path,
    *,
    at: Mapping[str, Sequence[int]] | None = None,
    sources: Mapping[str, samples.Source] | None = None,
    seed: int = 0,
    tolerance: Tolerance | None = None,
    reference: str = "onnxruntime",
    on_check: Callable[[Check], None] = lambda _check: None,
) -> Report:
    """Compare an artifact with a reference that runs the model it was built from.

    `at` gives sizes by dim; the dims it leaves out take the default sizes. `sources` gives the values of inputs;
    those it leaves out are random from `seed`. The default tolerance is that of each output's dtype. `on_check` is
    called after each check.

    Raises:
        UsageError: a dim or input is unknown, no sizes are accepted, or the reference refuses the inputs.
        ToolchainError: the reference is not installed.
        UnsupportedModelError: the reference cannot load the model.
    """
    run_reference = references.load(model, reference)
    manifest = session.manifest
    given = dict(sources or {})
    for offset, port in enumerate(manifest.inputs):
        given.setdefault(port.name, samples.RandomSource(seed + offset))
    checks = []
    for sizes, required in _choices(manifest, at or {}):
        check = _check(session, run_reference, given, sizes, tolerance, required=required)
        on_check(check)
        checks.append(check)
    if all(check.skipped for check in checks):
        raise UsageError(f"the model accepts none of the sizes tried: {checks[-1].skipped}. Give sizes with --at")
    return Report(reference, tuple(checks))


def default_sizes(dim: DimEntry) -> tuple[int, ...]:
    """The smallest size, an odd one and a larger one, within the bounds."""
    sizes = (dim.minimum, max(_ODD, dim.minimum | 1), max(_LARGE, 2 * dim.minimum))
    return tuple(dict.fromkeys(size if dim.maximum is None else min(size, dim.maximum) for size in sizes))


def _choices(manifest: Manifest, at: Mapping[str, Sequence[int]]) -> list[tuple[dict[str, int], bool]]:
    """Sizes for each check, and whether they were asked for."""
    dims = samples.symbolic_dims(manifest)
    unknown = sorted(set(at) - {dim.name for dim in dims})
    if unknown:
        raise UsageError(f"there is no symbolic dim '{unknown[0]}'; the model has {_names(dims)}")
    candidates = {dim.name: tuple(at.get(dim.name) or default_sizes(dim)) for dim in dims}
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


def _check(
    session: Session,
    run_reference: references.Runner,
    sources: Mapping[str, samples.Source],
    sizes: Mapping[str, int],
    tolerance: Tolerance | None,
    *,
    required: bool,
) -> Check:
    arrays, dims = samples.sample_inputs(session.manifest, sources, sizes)
    try:
        actual = session.run(arrays)
    except ShapeError as error:
        if required:
            raise
        return Check(dims, skipped=str(error))
    try:
        expected = run_reference(arrays)
    except Exception as error:  # each reference raises exceptions of its own
        raise UsageError(f"the reference cannot run the model at {dims}: {error}") from error
    differences = tuple(
        compare(port.name, actual[port.name], np.asarray(expected[port.name]), tolerance)
        for port in session.manifest.outputs
    )
    return Check(dims, differences)


def _names(dims: Sequence[DimEntry]) -> str:
    return ", ".join(dim.name for dim in dims) or "none"
