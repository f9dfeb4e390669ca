from __future__ import annotations

from pathlib import Path

import onnx


def test_a_model_is_described(deploykit, model: Path) -> None:
    result = deploykit("inspect", model, "--dim", "batch=1..16", "--json")
    assert result.code == 0, result.err
    report = result.document
    assert report["operators"] == {"Add": 1, "MatMul": 1, "Relu": 1}
    assert report["inputs"] == [{"name": "x", "dtype": "float32", "shape": ["batch", 8]}]
    assert report["dims"] == [{"name": "batch", "minimum": 1, "maximum": 16, "capacity_of": None}]
    assert (report["weights"], report["weight_bytes"]) == (2, 4 * (8 * 4 + 4))
    assert report["flops"] == "72*batch"
    assert report["problems"] == []


def test_the_description_is_readable(deploykit, model: Path) -> None:
    result = deploykit("inspect", model)
    for text in ("3 nodes, opset ai.onnx 17", "[batch, 8]", "1..", "MatMul", "72*batch", "144 bytes"):
        assert text in result.out


def test_every_unsupported_node_is_listed(deploykit, tmp_path: Path) -> None:
    nodes = "".join(f"[node{n}] x{n + 1} = acme.Widget(x{n})" for n in range(20))
    text = f'<ir_version: 8, opset_import: ["" : 17, "acme" : 3]> m (float[n] x0) => (float[n] x20) {{ {nodes} }}'
    onnx.save(onnx.parser.parse_model(text), tmp_path / "strange.onnx")
    result = deploykit("inspect", tmp_path / "strange.onnx")
    assert result.code == 3
    assert all(f"node{n} " in result.out for n in range(20))
    assert "acme.Widget" in result.out
    document = deploykit("inspect", tmp_path / "strange.onnx", "--json").out
    assert document.count('"opset": 3') == 20


def test_subgraphs_count(deploykit, tmp_path: Path) -> None:
    text = """
        <ir_version: 8, opset_import: ["" : 17]>
        m (bool c, float[n] x) => (float[n] y) {
            y = If (c) <then_branch = a () => (float[n] t) { t = Relu(x) },
                        else_branch = b () => (float[n] e) { e = Neg(x) }>
        }
    """
    onnx.save(onnx.parser.parse_model(text), tmp_path / "branch.onnx")
    operators = deploykit("inspect", tmp_path / "branch.onnx", "--json").document["operators"]
    assert operators == {"If": 1, "Neg": 1, "Relu": 1}


def test_an_artifact_is_described(deploykit, artifact: Path) -> None:
    result = deploykit("inspect", artifact)
    assert result.code == 0
    for text in ("for host", "needs glibc 2.17, by", "[batch, 8]", "1..16", "sha256", "bytes of arena"):
        assert text in result.out
    assert deploykit("inspect", artifact, "--json").document["manifest"]["target"] == "host"


def test_an_artifact_shows_its_program(deploykit, artifact: Path) -> None:
    result = deploykit("inspect", artifact)
    assert "program dense" in result.out
    assert "dim    batch in 1..16" in result.out
    assert deploykit("inspect", artifact, "--json").document["plan"]["steps"]


def test_the_memory_plan_is_drawn(deploykit, artifact: Path, tmp_path: Path) -> None:
    for name, start in (("plan.svg", b"<?xml"), ("plan.png", b"\x89PNG")):
        assert deploykit("inspect", artifact, "--plan-picture", tmp_path / name, "--at", "batch=3").code == 0
        assert (tmp_path / name).read_bytes().startswith(start)


def test_a_picture_needs_an_artifact_and_sizes(deploykit, model: Path, artifact: Path, tmp_path: Path) -> None:
    picture = ("--plan-picture", tmp_path / "plan.svg")
    for call in ((model, *picture), (artifact, *picture, "--at", "batch=17"), (artifact, *picture, "--at", "rows=1")):
        assert deploykit("inspect", *call).code == 2
    assert deploykit("build", model, "-o", tmp_path / "dist").code == 0
    result = deploykit("inspect", tmp_path / "dist", *picture)
    assert result.code == 2
    assert "--at batch=SIZE" in result.err


def test_sizes_need_a_picture(deploykit, artifact: Path) -> None:
    result = deploykit("inspect", artifact, "--at", "batch=3")
    assert result.code == 2
    assert "--at gives sizes for --plan-picture" in result.err


def test_what_is_neither_is_exit_code_2_or_3(deploykit, tmp_path: Path) -> None:
    assert deploykit("inspect", tmp_path).code == 2
    assert deploykit("inspect", tmp_path / "nothing.onnx").code == 2
    (tmp_path / "noise.onnx").write_bytes(b"noise" * 100)
    assert deploykit("inspect", tmp_path / "noise.onnx").code == 3
