"""Runs that an app stops: they end between kernels, and the model goes on."""

from __future__ import annotations

import platform
from pathlib import Path

import onnx
import pytest

import deploykit
from deploykit.artifact.devices import CODE
from deploykit.targets.android import AndroidTarget
from tests.android.conftest import Run, marked, needs_gpus, needs_java, on_desktop

pytestmark = [pytest.mark.skipif(platform.machine() != "x86_64", reason="needs x86-64"), needs_java]

TEXT = """
<ir_version: 10, opset_import: ["" : 20]>
spin (int64 trips, float[n] x) => (float[n] y)
{
    go = Constant<value: tensor = bool go {1}>()
    y = Loop(trips, go, x) <body = body (int64 i, bool more, float[n] a) => (bool goes_on, float[n] doubled) {
        goes_on = Identity(more)
        doubled = Add(a, a)
    }>
}
"""


@pytest.fixture(scope="module")
def stops(tmp_path_factory: pytest.TempPathFactory) -> Run:
    package = tmp_path_factory.mktemp("android") / "spin"
    model = onnx.parser.parse_model(TEXT)
    deploykit.build(model, AndroidTarget(["x86_64"]), {"n": (1, 4096)}, package, devices=tuple(CODE))
    return marked(on_desktop(package, "Stops", tmp_path_factory.mktemp("stops")))


def test_a_long_run_is_stopped(stops: Run, tmp_path: Path) -> None:
    assert stops("long", tmp_path, "cpu") == [
        "32.0",
        "CancellationException: the run was stopped",
        "32.0",
        "CancellationException: null",
        "32.0",
        "ClosedException: the model is closed",
    ]


def test_a_profile_has_runs(stops: Run, tmp_path: Path) -> None:
    assert stops("errors", tmp_path, "cpu") == [
        "DataException: a profile has at least 1 run; found 0",
        "DataException: a profile has at least 1 run; found -3",
    ]


@pytest.mark.parametrize("device", ["cpu", *(pytest.param(name, marks=needs_gpus) for name in CODE)])
def test_a_run_that_is_stopped_anywhere_leaves_the_model_usable(stops: Run, device: str, tmp_path: Path) -> None:
    assert stops("anywhere", tmp_path, device) == ["true"]
