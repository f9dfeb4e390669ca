"""`docs/tabular.md`: the estimators of scikit-learn that work.

`python -m tests.zoo.estimators_page` rewrites the page.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from tests.zoo import estimator_files
from tests.zoo.estimator_files import Export

PAGE = Path(__file__).parents[2] / "docs" / "tabular.md"

GROUPS = ("Classifiers", "Regressors", "Transformers, clusters, mixtures and outliers", "Strings", "Pipelines")

REFUSED: Mapping[str, str] = {"logistic-regression-maps": "zipmap=False"}
"""What is refused, and the remedy that the message names."""

_HEAD = """# Models of scikit-learn

Estimators and pipelines of scikit-learn with default options, as skl2onnx writes them, in small sizes. Every case is
built and compared with stored answers of ONNX Runtime, for six rows and for one: labels and other strings are equal,
numbers differ by at most 1e-4. `tests/zoo/test_estimators.py` checks all of them on `host`, and a part on the other
targets. `python -m tests.zoo.estimators_page` generates this page.

*Words* are labels that are strings. A case has the option `zipmap` off, which gives labels and probabilities as
tensors; the maps that the converter writes by default are refused, with this remedy. The option `columns` works, too.

[values](values.md) says how a model takes and gives strings. [zoo](zoo.md) has larger models of tabular data, and those
of XGBoost and LightGBM.
"""


def page() -> str:
    """The text of the page."""
    stored = [estimator_files.read(file) for file in estimator_files.names()]
    groups: dict[str, dict[str, list[Export]]] = {group: defaultdict(list) for group in GROUPS}
    for one in sorted(stored, key=lambda export: export.name):
        groups[one.group][one.name if one.group == "Pipelines" else one.name.partition(", ")[0]].append(one)
    right = len(stored) - len(REFUSED)
    lines = [_HEAD, f"{right} of {len(stored)} cases are right; {len(REFUSED)} is refused."]
    for group, estimators in groups.items():
        lines += [f"\n## {group}\n", "| estimator | cases | operators |", "|---|---|---|"]
        lines += [_line(name, exports) for name, exports in estimators.items()]
    return "\n".join(lines) + "\n"


def _line(name: str, exports: list[Export]) -> str:
    kinds = (one.name.removeprefix(name).removeprefix(", ") for one in exports)
    operators = sorted({node.op_type for one in exports for node in one.model.graph.node})
    return f"| {name} | {'; '.join(filter(None, kinds))} | {', '.join(operators)} |"


if __name__ == "__main__":
    PAGE.write_text(page())
