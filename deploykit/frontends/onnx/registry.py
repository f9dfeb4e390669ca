"""Which function imports which ONNX operator from which opset on."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from deploykit.compiler.operators.building.errors import Unsupported

if TYPE_CHECKING:
    from deploykit.compiler.operators.building.value import AnyValue

    Result: TypeAlias = AnyValue | tuple[AnyValue | None, ...]
    Importer: TypeAlias = Callable[..., Result]

_OPERATORS: dict[tuple[str, str], dict[int, Importer]] = {}


class Spoiled(Unsupported):
    """Raised where a part of the node could not be imported, for which the reason is listed already."""


def operator(*names: str, since: int = 1, domain: str = "") -> Callable[[Importer], Importer]:
    """Register `importer(ctx, node, *inputs)` for operators, from opset `since` until a later registration.

    Absent optional inputs arrive as `None` or are left out, so they need defaults. The result is a value, or a tuple
    with one entry an output (`None` where an output is not computed).
    """

    def register(importer: Importer) -> Importer:
        for name in names:
            _OPERATORS.setdefault((domain, name), {})[since] = importer
        return importer

    return register


def find(domain: str, name: str, opset: int) -> Importer | None:
    """The importer of an operator at an opset, or `None`."""
    versions = _OPERATORS.get((normalise_domain(domain), name), {})
    usable = [since for since in versions if since <= opset]
    return versions[max(usable)] if usable else None


def names(domain: str = "") -> tuple[str, ...]:
    """All operators of a domain with a lowering of their own."""
    return tuple(sorted(name for key, name in _OPERATORS if key == domain))


def normalise_domain(domain: str) -> str:
    """`ai.onnx` is the long spelling of the default domain."""
    return "" if domain == "ai.onnx" else domain
