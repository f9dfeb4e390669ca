"""Static analysers find nothing in the C that ships."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import onnx
import pytest
from onnxruntime.quantization import QuantType

import deploykit
from tests.compiler.codegen.test_sharing import repeated_net
from tests.compiler.program import nets
from tests.compiler.program.test_strips import given
from tests.frontends.running_mean import running_mean, weights
from tests.runtime.test_embedded_cpus import quantized

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


@pytest.fixture(scope="module", params=["convolutions", "control", "states", "quantised", "shared"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An artifact with conditions and indices, with states, or with convolutions, also of 8-bit integers and of layers
    that share code."""
    place = tmp_path_factory.mktemp("analysed") / "dist"
    if request.param == "states":
        deploykit.build(running_mean(weights()), "embedded", output=place)
    elif request.param == "control":
        deploykit.build(onnx.parser.parse_model(CONTROL), "embedded", {"n": (1, 9), "m": (1, 9)}, place)
    elif request.param == "quantised":
        net = quantized(place.parent, QuantType.QInt8, QuantType.QInt8, per_channel=True)
        deploykit.build(net, "embedded", {"n": (1, 2), "h": (3, 9)}, place, cpu="cortex-m4")
    elif request.param == "shared":
        net = repeated_net(0, 1)
        deploykit.build(nets.quantized(net, [given(net, 1)]), "embedded", output=place, optimize="size")
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


@pytest.mark.slow
def test_deviations_from_misra_are_those_of_the_page(folder: Path) -> None:
    """Every rule that is broken is on the page of the target, with the reason; and what costs nothing is kept."""
    if not shutil.which("cppcheck"):
        pytest.skip("needs cppcheck")
    page = (Path(deploykit.__file__).parents[1] / "docs" / "targets" / "embedded.md").read_text()
    listed = {rule for row in re.findall(r"^\| ([\d., ]+) \|", page, re.MULTILINE) for rule in row.split(", ")}
    sources = [str(path) for path in sorted(folder.glob("*.c")) if path.name != "weights.c"]
    call = ["cppcheck", "--addon=misra", "--std=c99", "--platform=arm32-wchar_t4", "-q", f"-I{folder}", *sources]
    found = subprocess.run(call, capture_output=True, text=True, check=True).stderr
    broken = set(re.findall(r"misra-c2012-([\d.]+)", found))
    assert "15.5" in broken
    assert broken <= listed, found
    assert not {"12.1", "12.3", "17.7", "18.4"} & broken
