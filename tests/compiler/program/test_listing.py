"""Programs as text."""

from __future__ import annotations

import pytest

import deploykit
from deploykit.compiler.observer import Observer
from deploykit.compiler.program.listing import listing
from deploykit.pipeline import compile_program
from deploykit.targets.base import find_target
from tests.conftest import Golden
from tests.frontends.running_mean import running_mean, weights
from tests.seeded import seeded

LOOP = """<ir_version: 9, opset_import: ["": 20]>
choices (float[n, 4] x, int64 times, bool flag) => (float[n, 4] y, int64[2, m] where) {
    more = Constant<value = bool {1}>()
    s = Loop(times, more, x) <body = steps (int64 i, bool on, float[n, 4] a) => (bool still, float[n, 4] b) {
        still = Identity(on)  b = Add(a, x)
    }>
    y = If(flag) <
        then_branch = yes () => (float[n, 4] t) { t = MatMul(s, w) },
        else_branch = no () => (float[n, 4] e) { e = Neg(s) }
    >
    where = NonZero(x)
}"""


@pytest.mark.parametrize("target", ["embedded", "webgpu"])
def test_control_flow_and_data_dims(target: str, golden: Golden) -> None:
    model = deploykit.load(seeded(LOOP, {"w": (4, 4)}), {"n": (1, 8)})
    program = compile_program(model, find_target(target).variants("native")[-1], Observer(), {})
    assert program is not None
    golden(listing(program))


@pytest.mark.parametrize("target", ["embedded", "webgpu"])
def test_functions_and_states(target: str, golden: Golden) -> None:
    program = compile_program(running_mean(weights()), find_target(target).variants("native")[-1], Observer(), {})
    assert program is not None
    golden(listing(program))
