"""Mixtures of experts, against ONNX Runtime."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.frontends.onnx.harness import Check, by_onnxruntime, numbers

EXPERTS, WIDTH, INNER = 4, 32, 16


def model_of(operator: str, tensors: dict[str, np.ndarray], inputs: list[str], **attributes: object) -> onnx.ModelProto:
    node = helper.make_node(operator, inputs, ["y"], domain="com.microsoft", **attributes)
    ports = [("x", ["n", WIDTH]), ("r", ["n", EXPERTS])] + ([("s", ["n", EXPERTS])] if "s" in inputs else [])
    graph = helper.make_graph(
        [node],
        "experts",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in ports],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", WIDTH])],
        [numpy_helper.from_array(array, name) for name, array in tensors.items()],
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def runs_of(*extra: str) -> list[dict[str, np.ndarray]]:
    return [
        {"x": numbers(n, WIDTH) / 4, "r": numbers(n, EXPERTS), **{name: np.abs(numbers(n, EXPERTS)) for name in extra}}
        for n in (1, 2, 5)
    ]


@pytest.mark.parametrize("activation", ["relu", "gelu", "silu", "identity", "swiglu"])
def test_experts(check: Check, activation: str) -> None:
    fused = 2 if activation == "swiglu" else 1
    tensors = {
        "w1": numbers(EXPERTS, fused * INNER, WIDTH, seed=1) / 16,
        "b1": numbers(EXPERTS, fused * INNER, seed=2),
        "w2": numbers(EXPERTS, WIDTH, INNER, seed=3) / 16,
        "b2": numbers(EXPERTS, WIDTH, seed=4),
    }
    more = {"swiglu_fusion": 1, "swiglu_limit": 1.5, "activation_alpha": 1.7, "activation_beta": 1.0}
    model = model_of(
        "MoE",
        tensors,
        ["x", "r", "w1", "b1", "w2", "b2"],
        k=2,
        activation_type=activation,
        normalize_routing_weights=int(activation != "relu"),
        **(more if fused == 2 else {}),
    )
    check(model, *runs_of(), expected=by_onnxruntime(model, *runs_of()), rtol=2e-3)


@pytest.mark.parametrize(("bits", "block"), [(4, 0), (8, 0), (4, 16), (8, 16)])
@pytest.mark.parametrize("given", [False, True])
def test_quantized_experts(check: Check, bits: int, block: int, *, given: bool) -> None:
    generator = np.random.default_rng(bits + block)
    blocks = {"block_size": block} if block else {}

    def scales(rows: int, depth: int, seed: int) -> np.ndarray:
        shape = (EXPERTS, rows, depth // block) if block else (EXPERTS, rows)
        return np.abs(numbers(*shape, seed=seed)) / (1 << bits + 2)

    tensors = {
        "w1": generator.integers(0, 256, (EXPERTS, INNER, WIDTH * bits // 8)).astype(np.uint8),
        "s1": scales(INNER, WIDTH, 1),
        "w2": generator.integers(0, 256, (EXPERTS, WIDTH, INNER * bits // 8)).astype(np.uint8),
        "s2": scales(WIDTH, INNER, 2),
    }
    inputs = ["x", "r", "w1", "s1", "", "w2", "s2"] + (["", "", "", "", "", "", "", "s"] if given else [])
    model = model_of("QMoE", tensors, inputs, k=2, expert_weight_bits=bits, activation_type="silu", **blocks)
    runs = runs_of(*(["s"] if given else []))
    rounded = bits == 8 and block  # ONNX Runtime then rounds the inputs of the layers to 8 bits
    check(model, *runs, expected=by_onnxruntime(model, *runs), rtol=0.15 if rounded else 0.005)
