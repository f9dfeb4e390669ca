"""Two models for one program, and an application that runs them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

from tests.seeded import seeded

TEXT = '<ir_version: 9, opset_import: ["": 20]> {} (float[n, 8] x) => (float[n, 3] y) {{ a = MatMul(x, w) y = {}(a) }}'
APP = """
#include <stdio.h>
#include "tanh/model.h"
#include "tanh/weights.h"
#include "sine/model.h"
#include "sine/weights.h"

static DK_ALIGNED unsigned char arena[TANH_NET_ARENA_BYTES + SINE_NET_ARENA_BYTES + 1];
static tanh_net_model first;
static sine_net_model second;
static float x[16] = {1, 2, 3, 4, 5, 6, 7, 8, -1, -2, -3, -4, -5, -6, -7, -8}, y[6], z[6];

int main(void) {
    dk_tensor inputs[] = {{x, sizeof x, DK_FLOAT32, 2, {2, 8}}};
    dk_tensor tanhs[] = {{y, sizeof y, DK_FLOAT32, 2, {0}}}, sines[] = {{z, sizeof z, DK_FLOAT32, 2, {0}}};
    int i;
    if (tanh_net_init(&first, &tanh_net_weights, TANH_NET_WEIGHTS_BYTES, arena, sizeof arena) != DK_OK ||
        sine_net_init(&second, &sine_net_weights, SINE_NET_WEIGHTS_BYTES, arena, sizeof arena) != DK_OK ||
        tanh_net_run(&first, inputs, tanhs) != DK_OK || sine_net_run(&second, inputs, sines) != DK_OK) {
        return 1;
    }
    for (i = 0; i < 6; ++i) {
        printf("%.9g %.9g\\n", (double)y[i], (double)z[i]);
    }
    return 0;
}
""".replace('"tanh/', '"tanh_net/').replace('"sine/', '"sine_net/')


def models(folder: Path) -> tuple[list[str], np.ndarray]:
    """Two files, and what they give for the app's input: an array [6, 2]."""
    x = np.stack([np.arange(1, 9), -np.arange(1, 9)]).astype(np.float32)
    files, expected = [], []
    for name, operator in {"tanh_net": "Tanh", "sine_net": "Sin"}.items():
        model = seeded(TEXT.format(name, operator), {"w": (8, 3)})
        onnx.save(model, folder / f"{name}.onnx")
        files.append(str(folder / f"{name}.onnx"))
        expected.append(ReferenceEvaluator(model).run(None, {"x": x})[0].reshape(-1))
    return files, np.stack(expected, axis=1)


def printed(*command: object) -> np.ndarray:
    output = subprocess.run([*map(str, command)], check=True, capture_output=True, text=True).stdout
    return np.array([[float(number) for number in line.split()] for line in output.splitlines()])
