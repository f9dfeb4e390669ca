"""A defect of deploykit differs from a fault of the model: in its exit code, its message, and a file for a report."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import onnx
import pytest

from deploykit import InternalError, UnsupportedModelError, build, load
from deploykit.compiler.operators.building.context import Context
from deploykit.compiler.operators.building.value import Value
from deploykit.frontends.onnx import registry
from deploykit.frontends.onnx.node import Node
from deploykit.targets.base import PackageOptions
from deploykit.targets.host import HostTarget
from tests.frontends.onnx.harness import parse

DOMAIN = "acme.faults"


@pytest.fixture(autouse=True)
def operators() -> Iterator[None]:
    """Operators with defects."""

    @registry.operator("Assert", domain=DOMAIN)
    def fail(_: Context, __: Node, x: Value) -> Value:
        assert x.rank > 9, "on purpose"
        return x

    @registry.operator("Mistype", domain=DOMAIN)
    def mistype(_: Context, __: Node, x: Value) -> Value:
        return x + 1  # type: ignore[operator,no-any-return]

    yield
    for name in ("Assert", "Mistype"):
        del registry._OPERATORS[DOMAIN, name]


def model(call: str) -> onnx.ModelProto:
    proto = parse(f"(float[n, 2] x) => (float[n, 2] y) {{ h = Relu(x) y = {DOMAIN}.{call} }}")
    proto.opset_import.append(onnx.helper.make_opsetid(DOMAIN, 3))
    return proto


def saved(call: str, folder: Path) -> Path:
    onnx.save(model(call), folder / "model.onnx")
    return folder / "model.onnx"


@pytest.mark.parametrize(("operator", "kind"), [("Assert", "AssertionError"), ("Mistype", "TypeError")])
def test_an_operator_that_fails_is_exit_code_70(deploykit, tmp_path: Path, operator: str, kind: str) -> None:
    path = saved(f"{operator} (h)", tmp_path)
    result = deploykit("build", path, "-o", tmp_path / "dist", "--json")
    assert result.code == 70
    place = f"at {operator} 'y' (opset 3), node 2 of 2 of graph 'model', with inputs float32[n, 2]: {kind}"
    assert place in " ".join(result.err.split())
    assert "a defect of deploykit, not of the model" in result.err
    assert "Traceback" not in result.err
    report = Path(result.document["error"]["report"])
    assert str(report) in result.err
    text = report.read_text()
    report.unlink()
    assert "apache-tvm 0." in text
    assert "\n$ deploykit" in text
    assert "Traceback (most recent call last)" in text
    assert f"{kind}: " in text
    assert not (tmp_path / "dist").exists()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("Assert (h, x)", "it has 2 inputs, and the operator takes 1"),
        ("Assert ()", "it has 0 inputs, and the operator takes 1"),
        ('Assert ("")', "its input 1 is absent; it must be a tensor"),
    ],
)
def test_a_node_that_does_not_fit_its_operator_is_exit_code_3(deploykit, tmp_path: Path, call: str, words: str) -> None:
    proto = model(call.replace('""', "h"))
    if '""' in call:
        proto.graph.node[1].input[0] = ""
    onnx.save(proto, tmp_path / "model.onnx")
    result = deploykit("build", tmp_path / "model.onnx", "-o", tmp_path / "dist", "--json")
    assert (result.code, result.document["error"]["kind"]) == (3, "UnsupportedModelError")
    assert words in result.err


def test_the_python_api_keeps_the_cause() -> None:
    with pytest.raises(InternalError, match="at Mistype 'y'") as caught:
        load(model("Mistype (h)"))
    assert isinstance(caught.value.__cause__, TypeError)
    with pytest.raises(UnsupportedModelError) as refused:
        load(parse("(float[2, 3] x, float[4, 5] w) => (float[2, 5] y) { y = MatMul(x, w) }"))
    assert refused.value.__cause__ is not None


def test_a_defect_beyond_the_import_names_its_stage(tmp_path: Path) -> None:
    class Broken(HostTarget):
        def emit(self, _: object, __: PackageOptions) -> dict[str, bytes]:
            raise KeyError("on purpose")

    with pytest.raises(InternalError, match="in the stage 'emit': KeyError") as caught:
        build(parse("(float[n] x) => (float[n] y) { y = Relu(x) }"), Broken(), output=tmp_path / "dist")
    assert isinstance(caught.value.__cause__, KeyError)


def test_a_report_that_cannot_be_written_is_left_out(deploykit, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))
    result = deploykit("build", saved("Mistype (h)", tmp_path), "-o", tmp_path / "dist", "--json", "--debug")
    assert result.code == 70
    assert "report" not in json.loads(result.out)["error"]
    assert "Traceback" in result.err
