"""The text of shaders, for people to read when it changes."""

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
    """Products, a bias with an activation, a softmax, over a symbolic batch; what is for some devices is marked."""
    _, shaders = program_of(seeded(MLP, WEIGHTS))
    golden("".join(f"// shader {number}\n{shader.packaged()}" for number, shader in enumerate(shaders)), "mlp.wgsl")
