"""A build of a model with large weights needs little more memory than the weights of the artifact take."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

WIDTH, LAYERS, WORDS = 1024, 18, 8192
MEGABYTE = 1 << 20

BUILD = """
import json, resource, sys
import deploykit, deploykit.pipeline, deploykit.frontends.onnx, deploykit.targets.host

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

before = peak()
deploykit.build(sys.argv[1], dims={"n": (1, 4)}, output=sys.argv[2])
print(json.dumps(peak() - before))
"""


def model() -> onnx.ModelProto:
    """A lookup of rows of a table, and matrix products of large weights."""
    random = np.random.default_rng(0)
    weights = [numpy_helper.from_array(random.standard_normal((WORDS, WIDTH), dtype=np.float32), "table")]
    nodes = [helper.make_node("Gather", ["table", "ids"], ["x0"])]
    for layer in range(LAYERS):
        weights.append(numpy_helper.from_array(random.standard_normal((WIDTH, WIDTH), dtype=np.float32), f"w{layer}"))
        nodes.append(helper.make_node("MatMul", [f"x{layer}", f"w{layer}"], [f"x{layer + 1}"]))
    ids = helper.make_tensor_value_info("ids", TensorProto.INT64, ["n"])
    y = helper.make_tensor_value_info(f"x{LAYERS}", TensorProto.FLOAT, ["n", WIDTH])
    graph = helper.make_graph(nodes, "large", [ids], [y], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


@pytest.mark.slow
@pytest.mark.parametrize("external", [False, True])
def test_each_weight_is_in_memory_once(external: bool, tmp_path: Path) -> None:
    path = tmp_path / "large.onnx"
    onnx.save(model(), path, save_as_external_data=external, location="large.data")
    run = subprocess.run(
        [sys.executable, "-c", BUILD, path, tmp_path / "dist"], capture_output=True, text=True, check=True
    )
    weights = (WORDS + LAYERS * WIDTH) * WIDTH * 4
    assert (tmp_path / "dist" / "weights.bin").stat().st_size >= weights
    assert json.loads(run.stdout.splitlines()[-1]) < weights + 80 * MEGABYTE
