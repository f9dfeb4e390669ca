"""The table of importers: which function imports which ONNX operator, from which opset on."""

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
    """A part of the node could not be imported, and the reason is already listed."""


def operator(*names: str, since: int = 1, domain: str = "") -> Callable[[Importer], Importer]:
    """Register `importer(ctx, node, *inputs)` for operators, from opset `since` until a later registration.

    Absent optional inputs arrive as `None` or are left out, so they need defaults. The result is a value, or a tuple
    with one entry per output (`None` for an output that is not computed).
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
    """All operators of a domain that have an importer."""
    return tuple(sorted(name for key, name in _OPERATORS if key == domain))


def normalise_domain(domain: str) -> str:
    """The domain with `ai.onnx`, the long name of the default domain, replaced by the empty one."""
    return "" if domain == "ai.onnx" else domain
