"""The one hierarchy of errors. Each message says what was found, where in the user's model, and what to do next.

An error that deploykit raises on purpose blames the model, the call or the tools. Any other exception is a defect of
deploykit and becomes an `InternalError`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass


class DeploykitError(Exception):
    """Base of all errors that deploykit raises. `exit_code` is what the command line returns."""

    exit_code = 1


class InternalError(DeploykitError):
    """A defect of deploykit: neither the model nor the call is to blame. `__cause__` is the original exception."""

    exit_code = 70
    """`EX_SOFTWARE` of sysexits.h."""

    def __init__(self, place: str, cause: Exception) -> None:
        self.__cause__ = cause
        summary = next(iter(str(cause).splitlines()), "")
        super().__init__(
            f"internal error {place}: {type(cause).__name__}: {summary}\n"
            "This is a defect of deploykit, not of the model. Please report it with the model and the traceback."
        )


@contextmanager
def defects(place: str) -> Iterator[None]:
    """Turn unexpected exceptions of the block into an `InternalError` at `place`.

    Errors that deploykit raises on purpose, `OSError` and `MemoryError` pass unchanged."""
    try:
        yield
    except (DeploykitError, OSError, MemoryError):
        raise
    except Exception as error:
        raise InternalError(place, error) from error


class MismatchError(DeploykitError):
    """Results differ from the reference by more than the tolerance."""

    exit_code = 1


class UsageError(DeploykitError):
    """The user's call cannot be carried out as stated: wrong name, shape, dtype, path, option."""

    exit_code = 2


class ArtifactError(UsageError):
    """An artifact folder is missing, damaged, or from another version."""


class ShapeError(UsageError):
    """An input's rank, dtype or dims do not fit the model."""


class DataError(ShapeError):
    """A value in an input, or computed from the inputs, is out of its range: an index or a size."""


@dataclass(frozen=True)
class Problem:
    """One node that cannot be compiled."""

    operator: str
    node: str
    opset: int
    reason: str

    def __str__(self) -> str:
        return f"{self.operator} '{self.node}' (opset {self.opset}): {self.reason}"


NODES_SHOWN = 4
"""How many nodes a message names among those with the same operator and the same reason."""


class UnsupportedModelError(DeploykitError):
    """The model is broken or uses what deploykit cannot compile.

    `problems` holds every problem; the message groups those with the same operator and the same reason."""

    exit_code = 3

    def __init__(self, message: str, problems: Sequence[Problem] = ()) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join([message, *(f"  - {line}" for line in _grouped(self.problems))]))


def _grouped(problems: Sequence[Problem]) -> list[str]:
    groups: dict[tuple[str, int, str], list[str]] = {}
    for problem in problems:
        groups.setdefault((problem.operator, problem.opset, problem.reason), []).append(problem.node)
    lines = []
    for (operator, opset, reason), nodes in groups.items():
        names = ", ".join(f"'{n}'" for n in nodes[:NODES_SHOWN])
        more = f" and {len(nodes) - NODES_SHOWN} more nodes" if len(nodes) > NODES_SHOWN else ""
        lines.append(f"{operator} (opset {opset}): {reason}; at {names}{more}")
    return lines


class DeviceError(DeploykitError):
    """The device that kernels run on failed, is lost, or has not enough memory."""

    exit_code = 5


class ToolchainError(DeploykitError):
    """A compiler or tool that the target needs is missing or failed."""

    exit_code = 4
