"""C programs build instances with the functions of a model, and run them; the example of the embedded target works."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np

import deploykit

SOURCE = """
from __future__ import annotations

from dataclasses import dataclass

from deploykit.dynamic import Model, Tensor


@dataclass
class Item:
    weight: float
    feature: Tensor[4]
    place: tuple[int, bool]


@dataclass
class Empty:
    pass


@dataclass
class Push:
    items: list[Item]
    below: Stack


Stack = Empty | Push


class Totals(Model):
    w: Tensor[4, 3]

    def main(self, stack: Stack, start: int) -> tuple[Tensor[3], float, int]:
        total, weight, count = self.w[start], 0.0, 0
        while isinstance(stack, Push):
            for item in stack.items:
                total = total + item.feature @ self.w
                weight += item.weight
                if item.place[1]:
                    count += item.place[0]
            stack = stack.below
        return total, weight, count
"""

PROGRAM = """
#include <stdio.h>
#include "Totals_instances.h"
#include "batching.h"
#include "model.h"
#include "weights.h"

static DK_ALIGNED unsigned char arena[TOTALS_ARENA_BYTES + 1];
static int32_t words[64];
static float elements[] = {1, 2, 3, 4, 5, 6, 7, 8};

int main(void) {
    static Totals_model model;
    dk_builder builder = dk_build_in(words, 64);
    const int32_t first = Totals_Item(&builder, 0.5, dk_build_tensor(&builder, 0), 3, 1);
    const int32_t second = Totals_Item(&builder, 0.25, dk_build_tensor(&builder, 4), 5, 0);
    const int32_t list = dk_build_list(&builder, 2, 1);
    const int32_t empty = Totals_Empty(&builder);
    int32_t roots[2], policy = DK_POLICY_CRITICAL + DK_TRACE, launches[8], trace[64 * DK_TRACED], count;
    int64_t row;
    float total[3];
    double weight;
    dk_tensor inputs[4], outputs[5];
    *dk_item(&builder, list, 0, 1) = first;
    *dk_item(&builder, list, 1, 1) = second;
    roots[0] = Totals_Push(&builder, list, empty);
    roots[1] = 2;
    inputs[0] = (dk_tensor){words, sizeof words, DK_INT32, 1, {builder.used}};
    inputs[1] = (dk_tensor){roots, sizeof roots, DK_INT32, 2, {1, 2}};
    inputs[2] = (dk_tensor){&policy, sizeof policy, DK_INT32, 0, {0}};
    inputs[3] = (dk_tensor){elements, sizeof elements, DK_FLOAT32, 1, {8}};
    outputs[0] = (dk_tensor){total, sizeof total, DK_FLOAT32, 0, {0}};
    outputs[1] = (dk_tensor){&weight, sizeof weight, DK_FLOAT32, 0, {0}};
    outputs[2] = (dk_tensor){&count, sizeof count, DK_FLOAT32, 0, {0}};
    outputs[3] = (dk_tensor){launches, sizeof launches, DK_FLOAT32, 0, {0}};
    outputs[4] = (dk_tensor){trace, sizeof trace, DK_FLOAT32, 0, {0}};
    Totals_init(&model, &Totals_weights, TOTALS_WEIGHTS_BYTES, arena, sizeof arena);
    if (Totals_run(&model, inputs, outputs) != DK_OK) {
        printf("%s\\n", Totals_last_error(&model));
        return 1;
    }
    printf("%.6g %.6g %.6g %.6g %d\\n", total[0], total[1], total[2], weight, (int)count);
    for (row = 0; row < outputs[4].shape[0]; ++row) {
        const int32_t* node = trace + DK_TRACED * row;
        --launches[node[DK_TRACE_CELL]];
        if (node[DK_TRACE_INSTANCE] != 0 || node[DK_TRACE_LAUNCH] < 0 || node[DK_TRACE_OBJECT] != roots[0]) {
            return 2;
        }
    }
    return row == 0 || launches[0] != 0; /* each node of an instance is a launch of its own here */
}
"""

BOUNDS = {"batch": (0, 4), "words": (0, 256), "elements": (0, 64), "capacity_control": 8192, "capacity_pool": 16384}


def test_a_program_builds_instances(tmp_path: Path) -> None:
    (tmp_path / "totals.py").write_text(SOURCE)
    dist = tmp_path / "dist"
    deploykit.build(f"{tmp_path / 'totals.py'}:Totals", "embedded", BOUNDS, dist)
    (tmp_path / "app.c").write_text(PROGRAM)
    sources = [*dist.glob("*.c")]
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-fsanitize=address,undefined", f"-I{dist}"]
    subprocess.run(["cc", *flags, tmp_path / "app.c", *sources, "-lm", "-o", tmp_path / "app"], check=True)
    printed = subprocess.run([tmp_path / "app"], check=True, capture_output=True, text=True).stdout.split()
    features = np.arange(1, 9, dtype=np.float32).reshape(2, 4)
    items = [("Item", 0.5, features[0], (3, True)), ("Item", 0.25, features[1], (5, False))]
    with deploykit.open(dist) as session:
        ((total, weight, count),) = session([(("Push", items, ("Empty",)), 2)])
    np.testing.assert_allclose([float(text) for text in printed], [*total, weight, count], rtol=1e-5)
    assert (weight, count) == (0.75, 3)


def test_the_example_runs(tmp_path: Path) -> None:
    (tmp_path / "totals.py").write_text(SOURCE)
    deploykit.build(f"{tmp_path / 'totals.py'}:Totals", "embedded", BOUNDS, tmp_path / "dist")
    made = subprocess.run(["make", "-C", tmp_path / "dist", "run"], check=True, capture_output=True, text=True).stdout
    assert "result_0 float32[1, 3]:" in made
