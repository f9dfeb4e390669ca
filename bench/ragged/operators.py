"""The operators that `bench.ragged.kernels` times: those of `apps/ragged/ops.py`, and what they are compared with.

dense             a product of two matrices as an ONNX model, with symbolic dims
masked attention  attention that computes the score of each pair of tokens of a sequence, and ignores those of later
                  tokens, in the loops that the triangular attention of `apps/ragged/ops.py` has by default
"""

from __future__ import annotations

from pathlib import Path

import onnx

from apps.ragged import ops
from deploykit import ragged
from deploykit.ragged import Operator

OPERATORS = Path(ops.__file__)
LONGEST = 512
"""The largest extent that the operators of the file take."""

_BELOW = -1e9


def operators(folder: Path, longest: int) -> Path:
    """A file with the operators of `apps/ragged/ops.py` for extents up to `longest`."""
    if longest <= LONGEST:
        return OPERATORS
    path = folder / "ops.py"
    path.write_text(OPERATORS.read_text().replace(f"maximum={LONGEST}", f"maximum={longest}"))
    return path


def dense_product() -> onnx.ModelProto:
    return onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["": 17]> product (float[m, k] a, float[k, n] b) => (float[m, n] c)'
        " { c = MatMul(a, b) }"
    )


def masked_attention() -> Operator:
    batch, head, token, feature = ops.batch, ops.head, ops.token, ops.feature
    other = ragged.dim("other", ops.length[batch])
    products = ragged.sum(ops.query[batch, token, head, feature] * ops.key[batch, other, head, feature], feature)
    seen = ragged.where(other <= token, products * 0.25, _BELOW)
    scores = ragged.compute("scores", (batch, head, token, other), seen)
    score = scores[batch, head, token, other]
    weights = ragged.compute("weights", (batch, head, token, other), ragged.exp(score - ragged.max(score, other)))
    weight = weights[batch, head, token, other]
    mean = ragged.sum(weight * ops.value[batch, other, head, feature], other) / ragged.sum(weight, other)
    attended = ragged.compute("attended", (batch, token, head, feature), mean)
    rows = ragged.schedule(scores).split("feature", 8).vectorize("feature.inner").fuse("batch", "head")
    sums = ragged.schedule(attended).split("feature", 16).reorder("other", "feature.inner").vectorize("feature.inner")
    plans = [rows.parallel("batch.head"), sums.fuse("batch", "token").parallel("batch.token")]
    return ragged.operator("masked_attention", attended, schedules=plans)
