"""Running a dynamic model from Python: instances in, what its `main` returns for each out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from deploykit.artifact.manifest import DynamicEntry
from deploykit.basics.last import LastOf
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


@dataclass
class Record:
    """What is known of a run: how often it launched each cell, and the launches in order if it was traced."""

    launches: np.ndarray
    trace: list[Launch] | None = None


class Instances:
    """Runs instances with `run`, which takes and returns arrays by the names of ports. Threads may run at the same
    time; `launches` and `trace` are those of the last run of the thread that asks."""

    def __init__(self, entry: DynamicEntry, run: Callable[[Mapping[str, Any]], Mapping[str, np.ndarray]]) -> None:
        self.signature = signature_of(entry)
        self.policy = entry.policy
        self.tracing = False
        self._cells = tuple(cell.name for cell in entry.cells)
        self._run = run
        self._last = LastOf[Record]()
        self._takes_tensors = any(tensors_in(kind, self.signature.unions) for _, kind in self.signature.takes)

    def choose(self, policy: str) -> None:
        """Raises `UsageError` for an unknown policy."""
        if policy not in POLICIES:
            raise UsageError(f"there is no policy '{policy}'; there are {', '.join(POLICIES)}")
        self.policy = policy

    @property
    def launches(self) -> list[tuple[str, int]]:
        """The cells, and how often the last run launched each."""
        last = self._last.get()
        counts = [0] * len(self._cells) if last is None else last.launches.tolist()
        return list(zip(self._cells, counts, strict=True))

    @property
    def trace(self) -> list[Launch]:
        """The launches of the last run, in order. Raises `UsageError` if that was not traced."""
        last = self._last.get()
        if last is None or last.trace is None:
            raise UsageError("the last run has no trace: set 'tracing' before it")
        return last.trace

    def run(self, instances: Iterable[Any]) -> list[Any]:
        """What `main` returns for each instance. Raises `ShapeError` and `DataError` for an instance that does not fit,
        and `DataError` where the model itself refuses it."""
        encoded, tracing = encode(self.signature, instances), self.tracing
        *results, launches, rows = self._run(self._arrays(encoded, TRACE * tracing)).values()
        self._last.put(Record(launches, launches_of(rows, self._cells, encoded.objects) if tracing else None))
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

    def begin(self) -> Record:
        """Begin a run whose instances come one by one; `launches` are added to it."""
        record = Record(np.zeros(len(self._cells), np.int32))
        self.follow(record)
        return record

    def follow(self, record: Record) -> None:
        """Let this thread take part in a run: it is the last one of the thread."""
        self._last.put(record)
