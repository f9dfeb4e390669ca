"""The command line on models whose inputs and outputs are strings, sequences and optionals."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import deploykit as package
from tests.frontends.onnx.harness import parse

MODELS = {
    "label": """(string[n] words) => (int64[n] codes) {
        codes = ai.onnx.ml.LabelEncoder<keys_strings=["cat", "dog"], values_int64s=[1, 2], default_int64=9>(words)
    }""",
    "join": "(string[n] x, string[n] y) => (string[n] z) { z = StringConcat(x, y) }",
    "upper": '(string[n] x) => (string[m] z) { z = StringNormalizer<case_change_action="UPPER">(x) }',
    "table": "(string[n, 2] x) => (string[2, n] z) { z = Transpose(x) }",
    "sequence": "(seq(float[n]) x) => (float[m] y) { y = ConcatFromSequence<axis=0>(x) }",
    "split": "(string[n] x, float[4] v) => (seq(float[2]) y, string[n] z) {"
    " k = Constant<value_int=2>() y = SplitToSequence(v, k) z = Identity(x) }",
    "optional": "(optional(float[n]) x, float[n] z) => (bool has, float[n] y) {"
    " has = OptionalHasElement(x) y = Relu(z) }",
}
DIMS = {
    "label": {"n": (1, 8), "words_utf8": (0, 64)},
    "join": {"n": (1, 8), "x_utf8": (0, 64), "y_utf8": (0, 64)},
    "upper": {"n": (1, 8), "x_utf8": (0, 64)},
    "table": {"n": (1, 8), "x_utf8": (0, 64)},
    "sequence": {"x_length": 2, "n_0": (1, 8), "n_1": (1, 8)},
    "split": {"n": (1, 8), "x_utf8": (0, 64)},
    "optional": {"x_present": 0, "n": (1, 8)},
}


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with each model and its artifact for this machine."""
    folder = tmp_path_factory.mktemp("values")
    for name, text in MODELS.items():
        onnx.save(parse(text, 21), folder / f"{name}.onnx")
        package.build(folder / f"{name}.onnx", "host", DIMS[name], folder / name)
    return folder


def test_strings_are_given_as_text(deploykit, artifacts: Path, tmp_path: Path) -> None:
    call = ("run", artifacts / "join", "--output", tmp_path / "z.npz")
    result = deploykit(*call, "--input", 'x=["a,b", "[b]ø"]', "--input", "y=c,")
    assert result.code == 0, result.err
    assert '"a,bc", "[b]ø"' in result.out
    assert "n=2, x_utf8=8, y_utf8=1" in result.err.replace("\n", " ")
    assert np.load(tmp_path / "z.npz")["z"].tolist() == ["a,bc", "[b]ø"]
    again = deploykit("run", artifacts / "upper", "--input", f"x={tmp_path / 'z.npz'}", "--json")
    assert again.code == 2
    assert "has no array called x or arr_0, only z" in again.err


def test_strings_are_given_in_files(deploykit, artifacts: Path, tmp_path: Path) -> None:
    words = ["dog", "日本", "cat"]
    np.save(tmp_path / "text.npy", np.array(words))
    np.save(tmp_path / "bytes.npy", np.char.encode(np.array(words), "utf-8"))
    np.savez(tmp_path / "both.npz", other=np.zeros(3), words=np.array(words))
    (tmp_path / "words.json").write_text(json.dumps(words))
    for name in ("text.npy", "bytes.npy", "both.npz", "words.json"):
        result = deploykit("run", artifacts / "label", "--input", f"words={tmp_path / name}", "--json")
        assert result.code == 0, result.err
        assert result.document["sizes"] == {"n": 3, "words_utf8": 12}
        assert result.document["outputs"][0]["mean"] == 4.0


def test_strings_of_rank_2_are_a_json_array(deploykit, artifacts: Path) -> None:
    result = deploykit("run", artifacts / "table", "--input", 'x=[["a","b"],["c","d"],["e",""]]', "--json")
    (output,) = result.document["outputs"]
    assert output["shape"] == [2, 3]
    assert output["strings"] == ["a", "c", "e", "b", "d", ""]
    flat = deploykit("run", artifacts / "table", "--input", "x=a,b")
    assert flat.code == 2
    assert "input 'x' has rank 2: write its strings as a JSON array" in flat.err


def test_items_of_a_sequence_are_given_one_by_one_or_in_one_file(deploykit, artifacts: Path, tmp_path: Path) -> None:
    items = [np.float32([1, 2, 3]), np.float32([4])]
    np.savez(tmp_path / "named.npz", x_1=items[1], x_0=items[0])
    np.savez(tmp_path / "plain.npz", *items)
    np.save(tmp_path / "0.npy", items[0])
    singly = [f"x_0={tmp_path / '0.npy'}", f"x_1={tmp_path / 'named.npz'}"]
    for given in ([f"x={tmp_path / 'named.npz'}"], [f"x={tmp_path / 'plain.npz'}"], singly):
        inputs = [part for text in given for part in ("--input", text)]
        result = deploykit("run", artifacts / "sequence", *inputs, "--output", tmp_path / "y.npz")
        assert result.code == 0, result.err
        assert np.load(tmp_path / "y.npz")["y"].tolist() == [1, 2, 3, 4]
    half = deploykit("run", artifacts / "sequence", "--input", "x=random:1", "--input", singly[1], "--json")
    assert half.document["sizes"] == {"n_0": 1, "n_1": 1}
    assert half.document["outputs"][0]["smallest"] < 4.0


def test_outputs_that_are_sequences_and_strings_are_written(deploykit, artifacts: Path, tmp_path: Path) -> None:
    call = ("run", artifacts / "split", "--input", "x=random:1", "--input", "v=random:1", "--at", "n=2,x_utf8=11")
    result = deploykit(*call, "--output", tmp_path / "out.npz", "--json")
    assert [output["name"] for output in result.document["outputs"]] == ["y_0", "y_1", "z"]
    assert sum(len(text.encode()) for text in result.document["outputs"][2]["strings"]) == 11
    with np.load(tmp_path / "out.npz") as file:
        assert {name: file[name].shape for name in file.files} == {"y_0": (2,), "y_1": (2,), "z": (2,)}


def test_strings_that_end_in_nul_are_not_written(deploykit, artifacts: Path, tmp_path: Path) -> None:
    call = ("run", artifacts / "upper", "--input", 'x=["a\\u0000"]')
    assert deploykit(*call, "--json").document["outputs"][0]["strings"] == ["A\0"]
    result = deploykit(*call, "--output", tmp_path / "out.npz")
    assert result.code == 2
    assert "output 'z' has strings that end in NUL" in result.err


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("label", "words=random:1:0..5", "input 'words' is strings, which have no range"),
        ("label", "words=nowhere.json", "nowhere.json"),
        ("join", "x=random:1", "input 'y' has no values; write y=cat,dog, y=FILE.json"),
        ("sequence", "x_0=random:1", "input 'x_1' has no values; write x_1=FILE.npy"),
        ("label", "words=[1, 2]", "input 'words': an element is 1"),
        ("label", 'words=["a"', "input 'words' is no JSON array"),
        ("label", 'words=[["a"]]', "input 'words': expected rank 1"),
        ("label", "words=" + "x" * 65, "words_utf8"),
        ("label", "words_utf8=random:1", "there is no input 'words_utf8'"),
        ("sequence", "x=nowhere.npy", "sequence of 2 items: give a .npz file with arrays called x_0 to x_1"),
        ("optional", "x=random:1", "built as absent: build with --dim x_present=1"),
    ],
)
def test_values_that_do_not_fit_are_exit_code_2(
    deploykit, artifacts: Path, name: str, given: str, message: str
) -> None:
    other = ("--input", "z=random:1") if name == "optional" else ()
    result = deploykit("run", artifacts / name, "--input", given, *other)
    assert result.code == 2
    assert message in " ".join(result.err.split())


@pytest.mark.parametrize("name", [name for name in MODELS if name != "upper"])  # ONNX Runtime needs a locale to run it
def test_every_value_is_verified(deploykit, artifacts: Path, name: str) -> None:
    result = deploykit("verify", artifacts / name, "--json")
    assert result.code == 0, result.err
    assert not any(check["skipped"] for check in result.document["checks"])
    assert all(check["outputs"] for check in result.document["checks"])


def test_the_reference_of_onnx_takes_strings(deploykit, artifacts: Path) -> None:
    result = deploykit("verify", artifacts / "join", "--reference", "onnx", "--at", "x_utf8=0,5,64", "--json")
    assert result.code == 0, result.err
    assert {check["sizes"]["x_utf8"] for check in result.document["checks"]} == {0, 5, 64}


@pytest.mark.parametrize("reference", ["onnxruntime", "onnx"])
def test_an_output_that_may_be_absent(deploykit, tmp_path: Path, reference: str) -> None:
    optional = helper.make_optional_type_proto(tensor := helper.make_tensor_type_proto(TensorProto.FLOAT, [3]))
    some, none = helper.make_node("Optional", ["x"], ["some"]), helper.make_node("Optional", [], ["none"], type=tensor)
    then = helper.make_graph([some], "then", [], [helper.make_value_info("some", optional)])
    other = helper.make_graph([none], "else", [], [helper.make_value_info("none", optional)])
    inputs = [helper.make_tensor_value_info("c", TensorProto.BOOL, []), helper.make_value_info("x", tensor)]
    node = helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=other)
    graph = helper.make_graph([node], "maybe", inputs, [helper.make_value_info("y", optional)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    onnx.save(model, tmp_path / "maybe.onnx")
    package.build(tmp_path / "maybe.onnx", output=tmp_path / "maybe")
    for present in (False, True):
        np.save(tmp_path / "c.npy", np.array(present))
        given = ("--input", f"c={tmp_path / 'c.npy'}", "--input", "x=random:1")
        result = deploykit("run", tmp_path / "maybe", *given, "--output", tmp_path / "out.npz", "--json")
        assert result.document["outputs"][0]["dtype"] == ("float32" if present else "absent")
        with np.load(tmp_path / "out.npz") as file:
            assert file.files == ["y"] * present
        verified = deploykit("verify", tmp_path / "maybe", *given, "--reference", reference, "--json")
        assert verified.code == 0, verified.err
        assert verified.document["checks"][0]["outputs"][0]["dtype"] == ("float32" if present else "absent")


def test_strings_that_differ_are_a_mismatch(deploykit, artifacts: Path, tmp_path: Path) -> None:
    onnx.save(parse(MODELS["join"].replace("(x, y) }", "(y, x) }"), 21), tmp_path / "other.onnx")
    call = ("verify", artifacts / "join", "--model", tmp_path / "other.onnx")
    result = deploykit(*call, "--input", 'x=["a", "b"]', "--input", 'y=["a", "c"]', "--at", "n=2")
    assert result.code == 1
    assert "output 'z' at n=2, x_utf8=2, y_utf8=2: 1 strings differ, the first at [1]" in " ".join(result.err.split())


def test_an_artifact_with_strings_and_sequences_is_timed(deploykit, artifacts: Path) -> None:
    for name in ("split", "sequence", "optional"):
        call = ("bench", artifacts / name, "--seconds", "0", "--against", "onnxruntime", "--profile", "--json")
        result = deploykit(*call)
        assert result.code == 0, result.err
        assert [timing["name"] for timing in result.document["timings"]] == ["deploykit", "onnxruntime"]


@pytest.mark.parametrize("target", ["host", "embedded"])
@pytest.mark.parametrize("name", ["join", "sequence"])
def test_a_build_checks_its_work(deploykit, artifacts: Path, tmp_path: Path, name: str, target: str) -> None:
    bounds = [
        f"{dim}={size[0]}..{size[1]}" if isinstance(size, tuple) else f"{dim}={size}"
        for dim, size in DIMS[name].items()
    ]
    call = ("build", artifacts / f"{name}.onnx", "--target", target, "--dim", ",".join(bounds), "--check")
    result = deploykit(*call, "--output", tmp_path / "dist")
    assert result.code == 0, result.err
    assert "not checked" not in result.err


@pytest.mark.skipif(not (shutil.which("make") and shutil.which("cc")), reason="needs make and a C compiler")
@pytest.mark.parametrize("name", ["label", "join"])
def test_the_example_makes_strings(artifacts: Path, tmp_path: Path, name: str) -> None:
    package.build(artifacts / f"{name}.onnx", "embedded", DIMS[name], tmp_path / "dist")
    flags = "CFLAGS=-O1 -std=c99 -Wall -Wextra -Wpedantic -Wconversion -Werror"
    done = subprocess.run(["make", "run", flags], cwd=tmp_path / "dist", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    if name == "join":
        first = next(line for line in done.stdout.splitlines() if line.startswith("z:"))
        assert [len(text) for text in first.split()[1:]] == [18] * 4, first
