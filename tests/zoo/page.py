"""`docs/zoo.md`: every export of the zoo with its measurements, from the results of the last runs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from statistics import median

from tests.zoo import packages
from tests.zoo.architectures import CASES
from tests.zoo.results import ROOT, TARGETS, Result, exceptions, failed

PAGE = ROOT / "docs" / "zoo.md"
FAMILIES = ("text", "decoder", "encoder-decoder", "vision", "audio", "multimodal", "time series", "tables", "packages")
"""The sections of the page, in order."""

MARKS = {
    "right": "✓",
    "wrong": "**wrong**",
    "refused": "refused",
    "crash": "crash",
    "unjudged": "?",
    "invalid": "-",
    "listed": "†",
}

INTRODUCTION = """\
# Exported models of other makers

`make zoo` measured these models:

- architectures of the `transformers` package, in tiny configurations with random weights, exported by PyTorch's two
  exporters;
- models of tabular data, exported by the converters for scikit-learn, XGBoost and LightGBM;
- models that Python packages ship, with their trained weights.

[tabular](tabular.md) lists the estimators of scikit-learn, one by one.

Batches, sequences and images have dynamic sizes. Each export is built once per target and run at four sizes of every
dim, among them 1 and odd sizes. Every output is compared with ONNX Runtime and, for models that PyTorch can run, with
PyTorch. Where ONNX Runtime itself is inaccurate, PyTorch in float64 decides.

The columns of the tables:

- host and the columns after it: ✓ is right at every size; - is an invalid model, which ONNX Runtime cannot run either;
  † has its reason under [Exceptions](#exceptions); a blank was not run. arm64 is `host` for 64-bit Arm, emulated by
  QEMU. embedded runs with sanitizers. wasm runs in node, webgpu in Chromium. vulkan and opencl are devices of `host`.
- error: the largest difference, divided by the largest magnitude of the output. Up to 1e-4 is right.
- ratio: the time of ONNX Runtime over that of `host`, on one thread, at the largest of the four sizes. Above 1,
  deploykit is faster.
- build: processor time of the build for `host`, with a check at both ends of the bounds."""


def write(results: Mapping[str, Result]) -> None:
    PAGE.write_text(text(results), encoding="utf-8")


def text(results: Mapping[str, Result]) -> str:
    made = {name: result for name, result in results.items() if result.targets and "error" not in result.export}
    parts = [INTRODUCTION, *_summary(made)]
    for family, names in _families(made).items():
        parts += [f"## {family.capitalize()}", _table(made[name] for name in names)]
    parts += _exceptions(made)
    parts += _not_exported(results)
    return "\n\n".join(parts) + "\n"


def _summary(made: Mapping[str, Result]) -> list[str]:
    rows = [
        "| target | exports | right | wrong | refused | crash | cannot be judged | invalid exports | listed |",
        "|---|" + "---:|" * 8,
    ]
    for target in TARGETS:
        count = Counter(_status(result, target) for result in made.values() if target in result.targets)
        if count:
            cells = [count[status] for status in MARKS]
            rows.append(f"| {target} | {count.total()} | " + " | ".join(map(str, cells)) + " |")
    architectures = {result.architecture.removesuffix("-past").removesuffix("-static") for result in made.values()}
    ratios = [r.targets["host"]["ratio"] for r in made.values() if r.targets.get("host", {}).get("ratio")]
    listed = {name.removesuffix("-past").removesuffix("-static") for name in CASES}
    shipped = sum(_family(result) == "packages" for result in made.values())
    tables = sum(_family(result) == "tables" for result in made.values())
    models = f"{len(architectures & listed)} of {len(listed)} architectures of `transformers`"
    others = f"{tables} models of tabular data, and {shipped} models from packages"
    lines = [f"There are {len(made)} exports of {len(architectures)} models: {models}, {others}."]
    if ratios:
        lines.append(f"The median ratio of {len(ratios)} exports is {median(ratios):.2f}.")
    return [" ".join(lines), "\n".join(rows)]


def _families(made: Mapping[str, Result]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {family: [] for family in FAMILIES}
    for name, result in made.items():
        found[_family(result)].append(name)
    return {family: names for family, names in found.items() if names}


def _status(result: Result, target: str) -> str:
    """The outcome of an export on a target, a key of `MARKS`."""
    return "listed" if f"{result.name} {target}" in exceptions() else str(result.targets[target]["status"])


def _family(result: Result) -> str:
    if result.exporter == packages.EXPORTER:
        return "packages"
    case = CASES.get(result.architecture)
    return case.family if case else "tables"


def _table(results: Iterable[Result]) -> str:
    rows = [
        f"| architecture | exporter | dims | {' | '.join(TARGETS)} | error | ratio | build |",
        "|---|---|---|" + "---|" * len(TARGETS) + "---:|---:|---:|",
    ]
    for result in results:
        marks = [MARKS[_status(result, t)] if t in result.targets else "" for t in TARGETS]
        errors = [found["error_max"] for found in result.targets.values() if found.get("error_max") is not None]
        host = result.targets.get("host", {})
        cells = [
            result.architecture,
            result.exporter,
            ", ".join(result.export.get("dims", ())),
            *marks,
            f"{max(errors):.0e}" if errors else "",
            f"{host['ratio']:.1f}" if host.get("ratio") else "",
            f"{host['build']:.1f} s" if host.get("build") else "",
        ]
        rows.append("| " + " | ".join(cells) + " |")
    return "\n".join(rows)


def _exceptions(made: Mapping[str, Result]) -> list[str]:
    known = exceptions()
    lines = [f"- {title}: {known.get(title) or reason}" for title, reason in failed(made).items()]
    return ["## Exceptions", "\n".join(lines)] if lines else []


def _not_exported(results: Mapping[str, Result]) -> list[str]:
    lines = [
        f"- {name}: {_plain(result.export['error'])[:160]}"
        for name, result in results.items()
        if "error" in result.export
    ]
    if not lines:
        return []
    return [
        "## What the exporters refuse",
        "These models were not built. The reasons are messages of the exporters.",
        "\n".join(lines),
    ]


def _plain(message: object) -> str:
    """A message on one line, without the codes that colour a terminal."""
    return " ".join(re.sub(r"\x1b\[\d+m", "", str(message)).split())
