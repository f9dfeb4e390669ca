"""The text of shaders, as golden files that show each change."""

from __future__ import annotations

from tests.compiler.codegen.shaders.harness import program_of
from tests.conftest import Golden
from tests.seeded import seeded

MLP = """<ir_version: 9, opset_import: ["": 20]>
mlp (float[batch, 24] x) => (float[batch, 10] y) {
    h = MatMul(x, w)  b = Add(h, c)  r = Relu(b)  s = MatMul(r, v)  y = Softmax<axis = -1>(s)
}"""

WEIGHTS = {"w": (24, 32), "c": (32,), "v": (32, 10)}


def test_shaders(golden: Golden) -> None:
    """Matrix products, a bias with an activation, and a softmax over a symbolic batch. Device-dependent parts are
    marked."""
    _, shaders = program_of(seeded(MLP, WEIGHTS))
    golden("".join(f"// shader {number}\n{shader.packaged()}" for number, shader in enumerate(shaders)), "mlp.wgsl")
