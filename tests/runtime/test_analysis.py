"""Static analysers find nothing in the C that ships."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import onnx
import pytest

import deploykit
from tests.frontends.running_mean import running_mean, weights

CONTROL = """<ir_version: 9, opset_import: ["": 20]>
control (float[n, 4] x, int64[m] at, bool flag) => (float[k, 4] y) {
    a = Gather<axis=0>(x, at)
    y = If(flag) <
        then_branch = yes () => (float[k, 4] b) { b = Relu(a) },
        else_branch = no () => (float[k, 4] c) { c = Softmax<axis=-1>(a) }
    >
}"""
ANALYSERS = {
    "gcc": ("gcc", "-std=c99", "-fanalyzer", "-O1", "-Wall", "-Wextra", "-Wconversion", "-c", "-o", "/dev/null"),
    "clang": ("clang", "--analyze", "--analyzer-output", "text", "-std=c99"),
    "cppcheck": ("cppcheck", "--enable=warning,portability,performance", "--std=c99", "-q"),
}


@pytest.fixture(scope="module", params=["convolutions", "control", "states"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An artifact with conditions and indices, with states, or with convolutions."""
    place = tmp_path_factory.mktemp("analysed") / "dist"
    if request.param == "states":
        deploykit.build(running_mean(weights()), "embedded", output=place)
    elif request.param == "control":
        deploykit.build(onnx.parser.parse_model(CONTROL), "embedded", {"n": (1, 9), "m": (1, 9)}, place)
    else:
        deploykit.build(request.getfixturevalue("model"), "embedded", {"n": (1, 2), "h": (3, 9)}, place)
    return place


@pytest.mark.slow
@pytest.mark.parametrize("analyser", ANALYSERS)
def test_nothing_is_found(analyser: str, folder: Path) -> None:
    if not shutil.which(analyser):
        pytest.skip(f"needs {analyser}")
    for source in sorted(folder.glob("*.c")):
        if source.name == "weights.c":
            continue
        declared = ["-Wmissing-prototypes"] if (analyser, source.name) == ("gcc", "kernels.c") else []
        call = [*ANALYSERS[analyser], *declared, f"-I{folder}", str(source)]
        found = subprocess.run(call, capture_output=True, text=True, check=False, cwd=folder)
        assert (found.returncode, found.stdout + found.stderr) == (0, ""), source.name
