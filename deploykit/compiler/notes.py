"""What users are told of a variant: from the decisions that were made for it."""

from __future__ import annotations

from deploykit.compiler.decisions import Declined, Explanation
from deploykit.compiler.graph.bf16_products import BF16
from deploykit.compiler.variant import Variant

NAMES_SHOWN = 4
"""How many kernels a note names among those with the same reason."""


def notes_of(explanation: Explanation, variant: Variant, precision: str) -> list[str]:
    """Notes on kernels that a GPU does not run, and on products that were to be computed in bfloat16, if that is the
    `precision`."""
    in_bf16 = _in_bf16(explanation, variant) if precision == "bf16" else []
    return [*_on_the_cpu(explanation, variant), *in_bf16]


def _on_the_cpu(explanation: Explanation, variant: Variant) -> list[str]:
    kept = {kernel.name: kernel.kept.reason for kernel in explanation.kernels if kernel.kept is not None}
    if variant.gpu is None or not kept:
        return []
    names: dict[str, list[str]] = {}
    for name, reason in kept.items():
        names.setdefault(reason, []).append(name)
    reasons = "; ".join(f"{reason} ({', '.join(found[:NAMES_SHOWN])})" for reason, found in names.items())
    kernels = f"{len(kept)} of {len(explanation.kernels)} kernels"
    return [f"with the device '{variant.gpu.name}', {kernels} run on the CPU: {reasons}"]


def _in_bf16(explanation: Explanation, variant: Variant) -> list[str]:
    asked = [decision.outcome for decision in explanation.graph if decision.by == BF16]
    kept = [outcome.reason for outcome in asked if isinstance(outcome, Declined)]
    if not asked:
        return [f"on {variant.name}, nothing is in bf16: there is no product or convolution of float32"]
    said = f"on {variant.name}, {len(asked) - len(kept)} of {len(asked)} products and convolutions are in bf16"
    return [f"{said}; others stay in float32: {', '.join(dict.fromkeys(kept))}" if kept else said]
