"""`docs/operators.md`: the support of every operator, from the suite's cases and the known failures.

`python -m tests.conformance.operators_page` rewrites the page.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import onnx

from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.frontends.onnx import registry
from deploykit.frontends.onnx.attributes import MICROSOFT
from deploykit.frontends.onnx.blocked import NCHWC
from deploykit.frontends.onnx.node import dtype_name
from deploykit.frontends.onnx.reader import OPSETS
from deploykit.frontends.onnx.registry import normalise_domain
from tests.conformance.suite import cases, known_failures

PAGE = Path(__file__).parents[2] / "docs" / "operators.md"

_HEAD = """# Operators

The support of each operator. `python -m tests.conformance.operators_page` generates this page from the ONNX backend
suite, and a test checks it against the cases that pass. Every operator is available on every target.

- *Opsets*: the versions of the operator that can be imported.
- *Lowering*: `own`, or `function` when the operator is expanded through its ONNX function body.
- *Dtypes*: the input types of the cases that pass.
- *Cases*: the cases that pass, of all whose graph contains the operator.

"""

_MICROSOFT = """
## com.microsoft

What ONNX Runtime adds to the standard: what its optimiser writes into saved models, what its quantiser writes, and what
language models are made of. `tests/frontends/onnx/microsoft` compares them with ONNX Runtime. Most are imported as
combinations of standard operators:

{names}.

- Models that its optimiser saved at its highest level (`com.microsoft.nchwc`: {blocked}) have their channels in blocks
  whose size is that of the machine that saved them. It is found from the numbers of channels; if they fit two sizes,
  that of the machine that imports is taken, with a note.
- Weights in 2, 4 or 8 bits (MatMulNBits, MatMulBnb4, GatherBlockQuantized, QMoE) become float32 at import, with a note;
  `--quantize int8` stores them in 8 bits.
- DynamicQuantizeLSTM keeps its inputs and states as floats.
- MoE and QMoE compute all experts for every token.
- GroupQueryAttention has no quantised cache, no cache of the size of a window, and no output `output_qk`.

Other operators are refused. If the optimiser wrote them, a model saved with the optimisation level `basic` has none.
"""


@dataclass
class _Row:
    passed: int = 0
    total: int = 0
    dtypes: set[str] = field(default_factory=set)
    remarks: set[str] = field(default_factory=set)


def page() -> str:
    """The text of the page."""
    rows = _rows()
    failures = known_failures()
    total = len(cases())
    lines = [_HEAD + f"{total - len(failures)} of {total} cases pass.\n"]
    for domain in ("", "ai.onnx.ml", "ai.onnx.preview.training"):
        names = sorted({s.name for s in onnx.defs.get_all_schemas() if s.domain == domain})
        supported = [n for n in names if _lowering(domain, n)]
        if supported:
            lines += [
                f"\n## {domain or 'ai.onnx'}\n",
                "| Operator | Opsets | Lowering | Dtypes | Cases | Remarks |",
                "|---|---|---|---|---|---|",
            ]
            lines += [_line(domain, name, rows[domain, name]) for name in supported]
        missing = [n for n in names if not _lowering(domain, n)]
        if missing:
            lines.append(f"\nNot supported: {', '.join(missing)}.")
    own, blocked = (", ".join(registry.names(domain)) for domain in (MICROSOFT, NCHWC))
    return "\n".join(lines) + "\n" + _MICROSOFT.format(names=own, blocked=blocked)


def _rows() -> dict[tuple[str, str], _Row]:
    rows: dict[tuple[str, str], _Row] = defaultdict(_Row)
    for case in cases().values():
        model = case.model
        if model is None:
            continue
        reason = known_failures().get(case.name)
        for key in {(normalise_domain(n.domain), n.op_type) for n in model.graph.node}:
            row = rows[key]
            row.total += 1
            if reason is None:
                row.passed += 1
                row.dtypes |= set(_dtypes(model))
            elif len(model.graph.node) == 1:
                row.remarks.add(reason.split(": ", 1)[-1])
    return rows


def _dtypes(model: onnx.ModelProto) -> Iterable[str]:
    for value in model.graph.input:
        try:
            yield dtype_name(value.type.tensor_type.elem_type)
        except Unsupported:
            continue


def _lowering(domain: str, name: str) -> str | None:
    newest = max((s.since_version for s in _schemas(domain, name)), default=0)
    if registry.find(domain, name, max(newest, OPSETS.stop - 1 if not domain else newest)):
        return "own"
    schemas = _schemas(domain, name)
    return "function" if any(s.has_function or s.has_context_dependent_function for s in schemas) else None


def _schemas(domain: str, name: str) -> list[onnx.defs.OpSchema]:
    return [s for s in onnx.defs.get_all_schemas_with_history() if s.domain == domain and s.name == name]


def _line(domain: str, name: str, row: _Row) -> str:
    lowering = _lowering(domain, name)
    versions = sorted({s.since_version for s in _schemas(domain, name) if not s.deprecated})
    usable = [v for v in versions if lowering == "function" or registry.find(domain, name, v)]
    dtypes = ", ".join(sorted(row.dtypes)) or "-"
    remarks = "; ".join(sorted(row.remarks))
    return f"| {name} | {', '.join(map(str, usable))} | {lowering} | {dtypes} | {row.passed}/{row.total} | {remarks} |"


if __name__ == "__main__":
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page())
