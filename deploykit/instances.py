"""Running a dynamic model from Python: instances in, what its `main` returns for each out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from deploykit.artifact.manifest import DynamicEntry
from deploykit.dynamic.decoding import decode, decode_records
from deploykit.dynamic.encoding import Encoded, encode
from deploykit.dynamic.policies import POLICIES
from deploykit.dynamic.signatures import Signature, parse_type
from deploykit.dynamic.traces import TRACE, Launch, launches_of
from deploykit.dynamic.types import Variant, is_flat, tensors_in
from deploykit.errors import UsageError


def signature_of(entry: DynamicEntry) -> Signature:
    """How the model of a manifest is called."""
    unions = {
        union: tuple(
            Variant(each.name, tuple((name, parse_type(kind)) for name, kind in each.fields.items()))
            for each in variants
        )
        for union, variants in entry.unions.items()
    }
    takes = tuple((name, parse_type(kind)) for name, kind in entry.takes.items())
    return Signature(takes, parse_type(entry.gives), unions)


class Instances:
    """Runs instances with `run`, which takes and returns arrays by the names of ports."""

    def __init__(self, entry: DynamicEntry, run: Callable[[Mapping[str, Any]], Mapping[str, np.ndarray]]) -> None:
        self.signature = signature_of(entry)
        self.policy = entry.policy
        self.tracing = False
        self._cells = tuple(cell.name for cell in entry.cells)
        self._run = run
        self._launches = np.zeros(len(entry.cells), np.int32)
        self._trace: list[Launch] | None = None
        self._takes_tensors = any(tensors_in(kind, self.signature.unions) for _, kind in self.signature.takes)

    def choose(self, policy: str) -> None:
        """Raises `UsageError` for an unknown policy."""
        if policy not in POLICIES:
            raise UsageError(f"there is no policy '{policy}'; there are {', '.join(POLICIES)}")
        self.policy = policy

    @property
    def launches(self) -> list[tuple[str, int]]:
        """The cells, and how often the last run launched each."""
        return list(zip(self._cells, self._launches.tolist(), strict=True))

    @property
    def trace(self) -> list[Launch]:
        """The launches of the last run, in order. Raises `UsageError` if that was not traced."""
        if self._trace is None:
            raise UsageError("the last run has no trace: set 'tracing' before it")
        return self._trace

    def run(self, instances: Iterable[Any]) -> list[Any]:
        """What `main` returns for each instance. Raises `ShapeError` and `DataError` for an instance that does not fit,
        and `DataError` where the model itself refuses it."""
        encoded = encode(self.signature, instances)
        *results, self._launches, rows = self._run(self._arrays(encoded, TRACE * self.tracing)).values()
        self._trace = launches_of(rows, self._cells, encoded.objects) if self.tracing else None
        return self.results(results, len(encoded.roots))

    def inputs(self, instances: Iterable[Any]) -> dict[str, np.ndarray]:
        """The arrays of instances, by the names of ports and in their order. Raises `ShapeError` and `DataError`."""
        return self._arrays(encode(self.signature, instances))

    def _arrays(self, encoded: Encoded, trace: int = 0) -> dict[str, np.ndarray]:
        inputs = {"instances": encoded.words, "roots": encoded.roots, "policy": self.policy_number() + trace}
        if self._takes_tensors:
            inputs["elements"] = encoded.elements
        return inputs

    def policy_number(self) -> np.ndarray:
        """The input `policy`."""
        return np.array(POLICIES[self.policy], np.int32)

    def results(self, outputs: Sequence[np.ndarray], rows: int) -> list[Any]:
        """What `main` returned for each of `rows` instances, from all outputs but the launches and the trace."""
        if not is_flat(self.signature.gives):
            return decode_records(self.signature, outputs)
        return decode(self.signature.gives, outputs, rows)

    def count(self, launches: np.ndarray | None) -> None:
        """Add further launches of the last run, or begin with none."""
        self._launches = np.zeros_like(self._launches) if launches is None else self._launches + launches
