"""Kernels over data dims are launched after the dims are known, also after fusion."""

import numpy as np

from tests.frontends.onnx.harness import Check

DUPLICATES = np.array([2, 1, 1, 3, 4, 3], np.float32)


def test_pieces_of_a_kernel_with_several_results(check: Check) -> None:
    """Fusion joins taking one of several results with the slice after it, and puts both before the count that the slice
    needs."""
    check(
        "(float[n] x) => (float[a] y, int64[b] i, int64[c] v, int64[d] k) { y, i, v, k = Unique(x) }",
        {"x": DUPLICATES},
        {"x": DUPLICATES[:1]},
        {"x": DUPLICATES[::-1].copy()},
    )
