"""Exponentials up to 1: their errors, and both ends of the range."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import te

from deploykit.compiler.operators.softmax_exp import LEAST, power_of
from deploykit.compiler.schedules import Device
from tests.compiler.schedules.harness import BOTH, Compiled


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("device", BOTH, ids=lambda device: device.name)
def test_powers(device: Device, dtype: str) -> None:
    n = te.var("n", "int64")
    x = te.placeholder((n,), dtype, name="x")
    kernel = Compiled(te.create_prim_func([x, te.compute((n,), lambda i: power_of(x(i)), name="y")]), device)
    ends = [0.0, -0.0, LEAST, np.nextafter(np.dtype(dtype).type(LEAST), -np.inf), -1e30, -np.inf, np.nan]
    for values in (np.linspace(LEAST, 0, 9001), np.array(ends), np.array([-1.0])):
        arguments = values.astype(dtype)
        found = np.empty_like(arguments)
        kernel.bind([arguments, found])()
        exact = np.exp(arguments.astype("float64"))
        wanted = np.where(arguments < LEAST, 0, exact) if dtype == "float32" else exact
        np.testing.assert_allclose(found, wanted, rtol=2e-7 if dtype == "float32" else 1e-15)
