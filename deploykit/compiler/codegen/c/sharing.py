"""Functions of kernels that share their code: `--optimize size`.

Kernels whose texts differ in numbers only call one function, which takes these numbers. Layers of a network that differ
in their sizes are such kernels. A number is an integer literal; a local array has the largest of the sizes. Each kernel
keeps its function, so callers do not change.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from deploykit.compiler.codegen.c.expressions import ExpressionPrinter
from deploykit.compiler.codegen.c.statements import INDENT, KernelPrinter
from deploykit.compiler.lowering.lower import with_named_values

if TYPE_CHECKING:
    from tvm import tirx
    from tvm.ir import Var

    from deploykit.compiler.lowering.kernel import Kernel

_LEAST = 400
"""Shorter functions, in characters, do not pay for the calls."""

_OPEN, _CLOSE, _SIZE = "\u27e8", "\u27e9", "#"
"""Marks around a literal, and the one of a size behind the first."""
_MARKED = re.compile(f"{_OPEN}({_SIZE}?)(\\d+)(u?){_CLOSE}")

_ATTRIBUTE = "DK_SHARED"
_DEFINITION = f"""
/* Before a function that is called with different numbers: copies of it would take the room that it saves. */
#if defined(__clang__)
#define {_ATTRIBUTE} __attribute__((noinline))
#elif defined(__GNUC__) && (__GNUC__ >= 8)
#define {_ATTRIBUTE} __attribute__((noipa))
#elif defined(__GNUC__)
#define {_ATTRIBUTE} __attribute__((noinline, noclone))
#else
#define {_ATTRIBUTE}
#endif
"""


class _MarkingExpressions(ExpressionPrinter):
    """Prints expressions with marks around literals that fit 32 bits."""

    def literal(self, text: str) -> str:
        found = re.fullmatch(r"(-?)(\d+u?)", text)
        return text if found is None else f"{found[1]}{_OPEN}{found[2]}{_CLOSE}"


class _Marking(KernelPrinter):
    """Prints a kernel with marks around its numbers, and with parameters named by their places."""

    expression_printer = _MarkingExpressions

    def _wanted(self, param: Var) -> str:
        return f"x{next(place for place, each in enumerate(self.func.params) if each.same_as(param))}"

    def _extent(self, size: int) -> str:
        return f"{_OPEN}{_SIZE}{size}{_CLOSE}"


def shared_macro(text: str) -> str:
    """The macro that functions of which `text` consists need."""
    return _DEFINITION if _ATTRIBUTE in text else ""


class _Form:
    """A kernel's function as one that may be shared: its parameters and its body. `text` is without its numbers."""

    def __init__(self, func: tirx.PrimFunc) -> None:
        self.marked = _Marking(func, "").text().partition("(")[2]
        self.text = _MARKED.sub(lambda found: f"{_OPEN}{found[1]}{found[3]}{_CLOSE}", self.marked)
        self.numbers = [int(found[2]) for found in _MARKED.finditer(self.marked)]


def with_shared_code(kernels: Iterable[Kernel], symbol: Callable[[Kernel], str], prefix: str) -> str:
    """The definitions of kernels whose values have no names (`lower`). Those of equal form call a function whose name
    begins with `prefix`. Values get names where that makes no two forms differ."""
    known = list(kernels)
    named = [with_named_values(kernel.func) for kernel in known]
    groups: dict[str, list[int]] = {}
    forms = [_Form(kernel.func) for kernel in known]
    for place, form in enumerate(forms):
        groups.setdefault(form.text, []).append(place)
    several = [places for form, places in groups.items() if len(places) > 1 and len(form) >= _LEAST]
    printers = [KernelPrinter(func, symbol(kernel)) for func, kernel in zip(named, known, strict=True)]
    texts: dict[int, str] = {}
    for number, places in enumerate(several):
        shorter = [_Form(named[place]) for place in places]
        alike = len({form.text for form in shorter}) == 1
        members = shorter if alike else [forms[place] for place in places]
        made = _shared(f"{prefix}_shared_{number}", members, [printers[place] for place in places])
        texts.update(zip(places, made, strict=True))
    return "\n".join(texts.get(place) or printer.text() for place, printer in enumerate(printers))


def _shared(name: str, members: Sequence[_Form], printers: Sequence[KernelPrinter]) -> list[str]:
    """The functions of kernels of one form; the shared function comes before the first."""
    places = list(zip(*(member.numbers for member in members), strict=True))
    taken: dict[tuple[tuple[int, ...], str], str] = {}
    place = iter(places)
    word = next(word for word in ("n", "number", "number_") if not re.search(rf"\b{word}\d", members[0].marked))

    def literal(found: re.Match[str]) -> str:
        values = next(place)
        if found[1]:
            return str(max(values))
        if len(set(values)) == 1:
            return f"{values[0]}{found[3]}"
        return taken.setdefault((values, found[3]), f"{word}{len(taken)}")

    text = _MARKED.sub(literal, members[0].marked)
    params, _, body = text.partition(") {\n")
    numbers = [f"{'u' if unsigned else ''}int32_t {param}" for (_, unsigned), param in taken.items()]
    listed = f",\n{INDENT * 2}".join([*re.split(r",\s+", params.strip()), *numbers])
    shared = f"{_ATTRIBUTE} static void {name}(\n{INDENT * 2}{listed}) {{\n{body}"
    texts = []
    for index, printer in enumerate(printers):
        head = f"{printer.prototype()} {{"
        given = [printer.names[param] for param in printer.func.params]
        given += [f"{values[index]}{unsigned}" for values, unsigned in taken]
        texts.append(f"{head}\n{INDENT}{name}({', '.join(given)});\n}}\n")
    return [f"{shared}\n{texts[0]}", *texts[1:]]
