"""A package in the engines for programs outside of pages: every version of node from 18 on, Bun and Deno."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from tests.web.tools import installed, run

PROGRAM = Path(__file__).with_name("engines.mjs")

ENGINES = {
    "node 18": ("node18/bin/node",),
    "node 20": ("node20/bin/node",),
    "node 22": ("node22/bin/node",),
    "bun": (".bin/bun",),
    "deno": (".bin/deno", "run", "--no-prompt", "--allow-read", "--allow-sys"),
}
"""The program in `node_modules` and its arguments. All other tests run in the newest node."""


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_results_and_threads(package: Path, model: onnx.ModelProto, engine: str) -> None:
    program, *arguments = ENGINES[engine]
    result = run(str(installed(program)), *arguments, str(PROGRAM), str(package), folder=package.parent)
    assert result.returncode == 0, result.stderr
    one, two, in_worker = json.loads(result.stdout)
    x = np.sin(np.arange(60 * 8 * 64)).astype(np.float32).reshape(8, 3, 64, 20)
    expected, _ = ReferenceEvaluator(model).run(None, {"x": x, "shift": np.full(8, 21)})
    for found, threads in ((one, 1), (two, 2), (in_worker, 2)):
        assert (found["threads"], found["reason"], found["moved"]) == (threads, "asked for", 42)
        np.testing.assert_allclose(np.reshape(found["y"], expected.shape), expected, rtol=1e-4, atol=1e-6)
    assert one["y"] == two["y"] == in_worker["y"]
