"""The C interface of a stream, under sanitizers: instances that arrive, fail, are cancelled, and run out of memory."""

from __future__ import annotations

import struct
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import deploykit
from deploykit.artifact.manifest import Manifest, read_manifest
from deploykit.basics.dtypes import from_storage, logical_dtype
from deploykit.dynamic.policies import POLICIES
from deploykit.sessions.instances import Instances
from tests.dynamic import models
from tests.dynamic.harness import EMBEDDED, assert_close, assert_same_bits, eager
from tests.dynamic.instances import instances
from tests.dynamic.test_records import SOURCE as RECORDS
from tests.dynamic.test_records import require_equal
from tests.dynamic.test_submissions import SOURCE as WALK

DRIVER = Path(__file__).with_name("stream_driver.c")
FLAGS = ("-std=c99", "-O1", "-Wall", "-Wextra", "-Werror", "-fsanitize=address,undefined", "-fno-sanitize-recover")


def built(source: str, folder: Path, **options: Any) -> Path:
    """An artifact of C, and the driver."""
    dims = EMBEDDED | {"capacity_control": (4096, 1 << 20), "capacity_pool": (4096, 1 << 20)}
    if options.pop("elements"):
        dims["elements"] = (0, 100_000)
    deploykit.build(source, "embedded", dims, folder, **options)
    name = source.rpartition(":")[2]
    sources = [*folder.glob("*.c")]
    call = ["cc", *FLAGS, f"-DDK_PREFIX={name}", f"-I{folder}", DRIVER, *sources, "-lm", "-o", folder / "driver"]
    subprocess.run(call, check=True)
    return folder


class Stream:
    """What the driver does with instances: results by number, and the numbers of those that failed."""

    def __init__(self, folder: Path, policy: str = "critical") -> None:
        self.folder = folder
        self.manifest: Manifest = read_manifest(folder)
        assert self.manifest.dynamic is not None
        self.instances = Instances(self.manifest.dynamic, lambda _: {})
        self.policy = policy

    def run(
        self, given: list[Any], arrivals: list[int], cancelled: dict[int, int], damaged: tuple[int, ...] = ()
    ) -> None:
        request = [struct.pack("<2q", POLICIES[self.policy], len(given))]
        for number, (instance, arrival) in enumerate(zip(given, arrivals, strict=True)):
            inputs = self.instances.inputs([instance])
            if number in damaged:
                inputs["roots"][0, 0] = 1 << 20
            request.append(struct.pack("<2q", arrival, cancelled.get(number, -1)))
            empty = np.empty(0, np.float32)
            arrays = (inputs["instances"], inputs["roots"], inputs.get("elements", empty))
            request += [struct.pack("<q", array.size) + array.tobytes() for array in arrays]
        done = subprocess.run([self.folder / "driver"], input=b"".join(request), capture_output=True, check=False)
        assert done.returncode == 0, done.stderr.decode()
        self._read(done.stdout)

    def _read(self, reply: bytes) -> None:
        self.failed: set[int] = set()
        self.results: dict[int, Any] = {}
        self.launches = 0
        self._reply, self._at = reply, 0
        while self._at < len(reply):
            count = self._number()
            if count < 0:
                self.failed.add(self._number())
                continue
            numbers = [self._number() for _ in range(count)]
            *results, launches = [self._array(port.dtype) for port in self.manifest.outputs]
            self.launches += int(launches.sum())
            for number, result in zip(numbers, self.instances.results(results, count), strict=True):
                assert number not in self.results
                self.results[number] = result

    def _number(self) -> int:
        (value,) = struct.unpack_from("<q", self._reply, self._at)
        self._at += 8
        return int(value)

    def _array(self, dtype: str) -> np.ndarray:
        shape = [self._number() for _ in range(self._number())]
        size, start = self._number(), self._at
        self._at += size
        storage = logical_dtype(dtype).storage
        return from_storage(np.frombuffer(self._reply[start : self._at], storage).reshape(shape), logical_dtype(dtype))


def random_arrivals(count: int, seed: int, most: int = 12) -> list[int]:
    return np.random.default_rng(seed).integers(0, most, count).tolist()


@pytest.mark.slow
@pytest.mark.parametrize("model", ["EarlyExit", "Generator", "TwoTypes"])
def test_arrivals_in_random_order(model: str, tmp_path: Path) -> None:
    """With exact kernels: the bits of each instance alone. The memory is too small at first, so all begin again."""
    given = instances(model, 40, seed=9)
    source = f"{Path(models.__file__)}:{model}"
    folder = built(source, tmp_path / "dist", elements=True, exact=True)
    with deploykit.open(folder) as session:
        session.policy = "alone"
        expected = session(given)
    assert_close(expected, eager(getattr(models, model)(), given))
    for policy in ("critical", "depth", "agenda", "alone"):
        stream = Stream(folder, policy)
        stream.run(given, random_arrivals(40, seed=len(policy)), {})
        assert_same_bits([stream.results[number] for number in range(40)], expected)
        assert not stream.failed


def test_failures_and_cancelled_instances(tmp_path: Path) -> None:
    (tmp_path / "walk.py").write_text(WALK)
    folder = built(f"{tmp_path / 'walk.py'}:Walk", tmp_path / "dist", elements=False)
    good = [(0.1 * n, n % 7, n % 3) for n in range(40)]
    bad = [(0.1, -1, 0), (0.1, 19, 0), (0.2, 5, 3), (0.3, 0, 9), (0.5, 25, 1)]
    with deploykit.open(folder) as session:
        expected = session(good)
    stream = Stream(folder)
    arrivals = random_arrivals(45, seed=0)
    cancelled = {number: arrivals[number] + number % 25 for number in range(0, 40, 3)}
    stream.run([*good, *bad], arrivals, cancelled)
    assert stream.failed == set(range(40, 45))
    assert {number for number in range(40) if number % 3} <= set(stream.results)
    assert 26 < len(stream.results) < 40
    for number, result in stream.results.items():
        assert_close([result], [expected[number]], 1e-6)


def test_damaged_instances_do_not_join(tmp_path: Path) -> None:
    folder = built(f"{Path(models.__file__)}:TreeLSTM", tmp_path / "dist", elements=False)
    given = instances("TreeLSTM", 12, seed=2)
    stream = Stream(folder)
    stream.run(given, random_arrivals(12, seed=1, most=3), {}, damaged=(0, 5, 11))
    assert stream.failed == {0, 5, 11}
    expected = eager(models.TreeLSTM(), given)
    for number in set(range(12)) - stream.failed:
        assert_close([stream.results[number]], [expected[number]])


def test_results_that_are_records(tmp_path: Path) -> None:
    (tmp_path / "generator.py").write_text(RECORDS)
    folder = built(f"{tmp_path / 'generator.py'}:Generator", tmp_path / "dist", elements=True)
    random = np.random.default_rng(0)
    given = [(random.standard_normal(8, dtype=np.float32), float(scale)) for scale in range(12)]
    with deploykit.open(folder) as session:
        expected = session(given)
    stream = Stream(folder)
    stream.run(given, random_arrivals(12, seed=5), {})
    for number, (tree, seven, _) in enumerate(expected):
        require_equal(stream.results[number][0], tree)
        assert stream.results[number][1] == seven == 7


@pytest.mark.slow
def test_wrong_calls(tmp_path: Path) -> None:
    """Calls that make no sense are refused, and leave everything as it was."""
    folder = built(f"{Path(models.__file__)}:TreeLSTM", tmp_path / "dist", elements=False)
    (tmp_path / "calls.c").write_text(CALLS)
    sources = [*folder.glob("*.c")]
    call = ["cc", *FLAGS, f"-I{folder}", tmp_path / "calls.c", *sources, "-lm", "-o", tmp_path / "calls"]
    subprocess.run(call, check=True)
    done = subprocess.run([tmp_path / "calls"], check=True, capture_output=True, text=True)
    assert done.stdout.splitlines() == [
        "8 no instance has finished",
        "8 the inputs are NULL",
        "8 instances of a stream run: take their results, or cancel them, before a whole run",
        "8 the memory has changed while instances run",
        "1 65 instances at a time, more than the 64 of dim 'batch'",
        "64 have finished, the first ticket is 0",
    ]


CALLS = """
#include <stdio.h>
#include <stdlib.h>
#include "TreeLSTM_instances.h"
#include "model.h"
#include "weights.h"

static TreeLSTM_model model;
static DK_ALIGNED unsigned char arena[1 << 22], other[1 << 22];
static int32_t words[64], policy = 4, tickets[64];
static float results[64 * 5];
static int32_t launches[8];

static void show(dk_status status) {
    if (status != DK_OK) {
        printf("%d %s\\n", (int)status, TreeLSTM_last_error(&model));
    }
}

int main(void) {
    dk_builder builder = dk_build_in(words, 64);
    const int32_t root = TreeLSTM_Node(&builder, TreeLSTM_Leaf(&builder, 1), TreeLSTM_Leaf(&builder, 2));
    dk_tensor inputs[3] = {
        {words, sizeof words, DK_INT32, 1, {0}},
        {NULL, 4, DK_INT32, 2, {1, 1}},
        {&policy, 4, DK_INT32, 0, {0}},
    };
    dk_tensor outputs[3] = {
        {results, sizeof results, DK_FLOAT32, 0, {0}},
        {launches, sizeof launches, DK_INT32, 0, {0}},
        {NULL, 0, DK_INT32, 0, {0}}, /* no trace */
    };
    int32_t ticket, i;
    inputs[0].shape[0] = builder.used;
    inputs[1].data = (void*)&root;
    TreeLSTM_init(&model, &TreeLSTM_weights, TREELSTM_WEIGHTS_BYTES, NULL, 0);
    model.dims.capacity_control = 1 << 16;
    model.dims.capacity_pool = 1 << 16;
    dk_set_arena(&model.base, arena, sizeof arena);
    show(TreeLSTM_step(&model));
    show(TreeLSTM_take(&model, outputs, tickets));
    show(TreeLSTM_submit(&model, NULL, &ticket));
    show(TreeLSTM_submit(&model, inputs, &ticket));
    show(TreeLSTM_run(&model, inputs, outputs));
    dk_set_arena(&model.base, other, sizeof other);
    show(TreeLSTM_step(&model));
    dk_set_arena(&model.base, arena, sizeof arena);
    for (i = 1; i < 65; ++i) {
        show(TreeLSTM_submit(&model, inputs, &ticket));
    }
    while (model.stream.running > 0) {
        show(TreeLSTM_step(&model));
    }
    show(TreeLSTM_take(&model, outputs, tickets));
    printf("%d have finished, the first ticket is %d\\n", (int)outputs[0].shape[0], (int)tickets[0]);
    return 0;
}
"""
