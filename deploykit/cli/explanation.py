"""`deploykit build --explain`: tables of what the passes and the kernel rules did, and why others did not apply."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from deploykit.cli.console import doubtful, results, table

if TYPE_CHECKING:
    from rich.table import Table

    from deploykit.compiler.decisions import Choice, Explanation, KernelDecision


def show(explanations: Sequence[Explanation]) -> None:
    """Print the tables of every variant."""
    for explanation in explanations:
        if explanation.graph:
            results.print(_graph(explanation))
        if explanation.kernels:
            results.print(_kernels(explanation))
            _show_fallbacks(explanation.kernels)


def _graph(explanation: Explanation) -> Table:
    """A table with a row for each outcome of each pass, and the tensors and kernels with that outcome."""
    rows: dict[tuple[str, str, bool], list[str]] = {}
    for step in explanation.graph:
        done = isinstance(step.outcome, str)
        said = step.outcome if isinstance(step.outcome, str) else f"no: {step.outcome.reason}"
        rows.setdefault((step.by, said, done), []).append(step.subject)
    title = f"{explanation.variant}: passes over the graph"
    shown = table("pass", "what became of it", "tensors, kernels", title=title)
    passes = dict.fromkeys(name for name, _, _ in rows)
    for name in passes:
        for number, (said, subjects) in enumerate(_of_pass(name, rows)):
            shown.add_row("" if number else name, said, ", ".join(subjects))
    return shown


def _of_pass(name: str, rows: Mapping[tuple[str, str, bool], list[str]]) -> Iterable[tuple[str, list[str]]]:
    """The outcomes of one pass with their subjects: first what it did, then what it declined."""
    own = [(said, done, subjects) for (other, said, done), subjects in rows.items() if other == name]
    return [(said, subjects) for said, _, subjects in sorted(own, key=lambda row: not row[1])]


def _kernels(explanation: Explanation) -> Table:
    """A table with a row for each stage of a kernel; kernels with the same rules and reasons share their rows."""
    rows: dict[tuple[str, tuple[tuple[object, ...], ...]], list[KernelDecision]] = {}
    for kernel in explanation.kernels:
        rows.setdefault((_device(kernel), tuple(map(_alike, kernel.choices))), []).append(kernel)
    shown = table("kernel", "on", "stage", "rule", "rules before", title=f"{explanation.variant}: kernels")
    for (device, _), kernels in rows.items():
        names = ", ".join(kernel.name for kernel in kernels)
        for number, choice in enumerate(kernels[0].choices):
            rule = doubtful(choice.said) if choice.fallback else Text(choice.said)
            stage = choice.stage if len(kernels) == 1 else ""
            shown.add_row(*(("", "") if number else (names, device)), stage, rule, "\n".join(choice.reasons))
    return shown


def _alike(choice: Choice) -> tuple[object, ...]:
    """Everything that the table shows of a choice except the name of the stage."""
    return choice.said, choice.reasons


def _device(kernel: KernelDecision) -> str:
    if kernel.on_gpu:
        return "GPU"
    return "CPU" if kernel.kept is None else f"CPU: {kernel.kept.reason}"


def _show_fallbacks(kernels: Sequence[KernelDecision]) -> None:
    """Print the names of the kernels that no rule took, because these are slow."""
    slow = [kernel.name for kernel in kernels if kernel.fallback]
    if slow:
        results.print(doubtful("slow:"), f"no rule took {len(slow)} of {len(kernels)} kernels: {', '.join(slow)}")
