"""What certain lengths of ragged inputs mean for an artifact: the memory of a run, and what padding would have cost.

The arithmetic of the padded model is a formula over the batch and the padded dim. A ragged run computes what the padded
model would compute for each instance alone, at its own length. The rest of what it computes for a batch that is padded
to the longest instance is wasted. Without this formula, the arithmetic is that of the steps of the artifact whose cost
is a formula over dims.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from deploykit.artifact.formula import evaluate
from deploykit.artifact.manifest import Manifest
from deploykit.artifact.plan import Plan
from deploykit.checks.lengths import largest_sums, longest_dims, note_sizes, sizes_in_costs
from deploykit.errors import UsageError
from deploykit.sessions.ragged_array import whole_numbers
from deploykit.sessions.ragged_ports import RaggedPorts, ragged_ports


@dataclass(frozen=True)
class LengthsReport:
    """An artifact at certain lengths, by the names of the inputs that take them. `sizes` are those of all dims.

    `arena` is the memory for intermediate results in bytes. `useful` is the number of operations of the ragged run,
    `padded` that of a run with every instance padded to the longest. `uncounted` is the number of steps that are in
    neither, because their cost is not known.
    """

    lengths: Mapping[str, tuple[int, ...]]
    sizes: Mapping[str, int]
    arena: int
    useful: int = 0
    padded: int = 0
    uncounted: int = 0

    @property
    def wasted(self) -> float | None:
        """The share of the arithmetic of a padded run that would be wasted; None if there is no arithmetic."""
        return max(0.0, 1 - self.useful / self.padded) if self.padded else None


def at_lengths(
    manifest: Manifest, plan: Plan, lengths: Mapping[str, Sequence[int]], at: Mapping[str, int]
) -> LengthsReport:
    """The report of an artifact at these lengths. `at` gives the sizes of other dims; by default they are at their
    maximum.

    Raises `UsageError` if lengths or a dim are missing, do not fit together, or are out of their bounds.
    """
    ports = ragged_ports(manifest)
    if ports is None:
        raise UsageError(f"'{manifest.name}' has no ragged inputs, so there are no lengths")
    arrays = {name: whole_numbers(lengths[name]) for name in ports.lengths if name in lengths}
    for name in (*ports.lengths, *lengths):
        if name not in arrays:
            raise UsageError(f"the lengths '{name}' are missing or unknown; the model has {', '.join(ports.lengths)}")
    sizes = _sizes(manifest, ports, arrays, at)
    plain = {name: tuple(array.tolist()) for name, array in arrays.items()}
    arithmetic = _arithmetic(manifest, ports, plan, arrays, sizes)
    return LengthsReport(plain, sizes, evaluate(manifest.peak_memory.formula, sizes), *arithmetic)


def _sizes(
    manifest: Manifest, ports: RaggedPorts, arrays: Mapping[str, np.ndarray], at: Mapping[str, int]
) -> dict[str, int]:
    """The sizes of all dims, those of the longest instances not among them."""
    found = dict(at)
    derived = {port.shape[0] for port in (*ports.inputs, *ports.lengths.values())}
    for dim in manifest.dims:
        if dim.name not in derived and dim.name not in found:
            if dim.maximum is None:
                raise UsageError(f"dim '{dim.name}' has no maximum: say at which size, --at {dim.name}=SIZE")
            found[dim.name] = dim.maximum
    for name, longest in longest_dims(manifest, ports).items():
        if longest.maximum is not None and arrays[name].max(initial=0) > longest.maximum:
            raise UsageError(f"the lengths '{name}' must be at most {longest.maximum}, found {arrays[name].max()}")
    note_sizes(manifest, ports, arrays, found)
    known = {dim.name: dim for dim in manifest.dims}
    for name in at:
        if name not in known:
            raise UsageError(f"the model has no dim '{name}'; its dims are: {', '.join(known) or 'none'}")
    for dim in known.values():
        if found[dim.name] < dim.minimum or (dim.maximum is not None and found[dim.name] > dim.maximum):
            upper = "" if dim.maximum is None else dim.maximum
            raise UsageError(f"dim '{dim.name}' is {found[dim.name]}, outside of {dim.minimum}..{upper}")
    return {name: found[name] for name in known}


def _arithmetic(
    manifest: Manifest,
    ports: RaggedPorts,
    plan: Plan,
    arrays: Mapping[str, np.ndarray],
    sizes: Mapping[str, int],
) -> tuple[int, int, int]:
    """The operations of a ragged and of a padded run, and how many steps are not counted."""
    longest = {name: int(array.max(initial=0)) for name, array in arrays.items()}
    formula = next((entry.flops for entry in manifest.padded if entry.flops is not None), None)
    if formula is None:
        known = [work.flops for work in plan.work if work.flops is not None]
        most = {name: np.full_like(array, longest[name]) for name, array in arrays.items()}
        full = sizes_in_costs(manifest, most, _padded_sizes(manifest, ports, longest, sizes))
        own = sizes_in_costs(manifest, arrays, sizes)
        useful, padded = (sum(evaluate(flops, each) for flops in known) for each in (own, full))
        return useful, padded, len(plan.work) - len(known)
    (batch,) = {entry.batch for entry in manifest.padded}

    def operations(instances: int, extents: Mapping[str, int]) -> int:
        padded = {entry.dim: extents[entry.lengths] for entry in manifest.padded}
        return evaluate(formula, {**sizes, **padded, batch: instances})

    count = next(iter(arrays.values())).size
    alone = [{name: int(array[i]) for name, array in arrays.items()} for i in range(count)]
    useful = sum(operations(1, extents) for extents in alone if any(extents.values()))
    return useful, operations(count, longest) if count else 0, 0


def _padded_sizes(
    manifest: Manifest, ports: RaggedPorts, longest: Mapping[str, int], sizes: Mapping[str, int]
) -> dict[str, int]:
    """The sizes of the dims if all instances have the longest lengths."""
    sums = {port.shape[0] for port in ports.inputs}
    names = {dim.name: longest[name] for name, dim in longest_dims(manifest, ports).items()}
    unbounded = manifest.model_copy(update={"dims": [d.model_copy(update={"maximum": None}) for d in manifest.dims]})
    return largest_sums(unbounded, {name: size for name, size in sizes.items() if name not in sums} | names)
