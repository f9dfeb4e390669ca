"""Any text may be the name of an input, an output, a dim or a model. The generated C code compiles without a warning,
also when C++ includes it and together with the usual headers. It gives the same results as with plain names."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper
from typer.testing import CliRunner

import deploykit
from deploykit.artifact.folder import Artifact
from deploykit.artifact.formula import evaluate
from deploykit.artifact.plan import at_sizes, read_plan
from deploykit.cli import app
from deploykit.compiler.codegen.c.names import Scopes
from deploykit.compiler.codegen.host.identifiers import Names, constants, identifier, means_something, prefix
from deploykit.compiler.program.ir import Copy, Program
from deploykit.pipeline import write_artifact
from deploykit.sessions.session import Session
from deploykit.targets.base import PackageOptions, find_target
from tests.frontends.onnx.harness import parse
from tests.runtime.programs import Draft
from tests.words import words

HEADERS = {
    "c": "assert complex ctype errno fenv float inttypes limits locale math setjmp signal stdarg stdbool stdint stdio "
    "stdlib string time unistd",
    "c++": "cassert cerrno cfenv cfloat cinttypes climits cmath complex csetjmp csignal cstdio cstdlib cstring ctime "
    "algorithm string vector",
}
STANDARDS = [("c", "c99"), ("c", "gnu17"), ("c++", "c++11"), ("c++", "gnu++20")]
WARNINGS = ("-Wall", "-Wextra", "-Wpedantic", "-Werror")


DIMS = 75
"""Number of dims in one program. The time to write a program grows with the square of this number."""


def parts(kind: str) -> list[list[str]]:
    """All words, split into one list per program."""
    step = DIMS if kind == "dims" else len(words())
    return [words()[first : first + step] for first in range(0, len(words()), step)]


def named(title: str, kind: str, part: Sequence[str]) -> Program:
    """A program whose inputs, outputs or dims have words as names. Input `i` is copied to output `i`."""
    draft = Draft(title)
    steps = []
    for index, word in enumerate(part):
        extent = draft.dim(word, 1, 4) if kind == "dims" else index % 4 + 1
        source = draft.input(word if kind == "inputs" else f"from{index}", "float32", (extent, 2))
        target = draft.output(word if kind == "outputs" else f"into{index}", "float32", (extent, 2))
        steps.append(Copy(target, source))
    return draft.program(*steps)


def written(program: Program, target: str, folder: Path) -> Artifact:
    return write_artifact([program], find_target(target), folder, PackageOptions())


def included(folder: Path) -> None:
    """Compile programs that include the model's header after all others and before them, as C and as C++."""
    for language, standard in STANDARDS:
        others = [f"#include <{name}{'.h' if language == 'c' else ''}>\n" for name in HEADERS[language].split()]
        for lines in ([*others, '#include "model.h"\n'], ['#include "model.h"\n', *others]):
            source = "".join([*lines, "int main(void) { return 0; }\n"])
            command = ["gcc", "-x", language, f"-std={standard}", *WARNINGS, "-fsyntax-only", f"-I{folder}", "-"]
            result = subprocess.run(command, input=source, capture_output=True, text=True, check=False)
            assert result.returncode == 0, f"{standard}: {result.stderr[:2000]}"


def test_there_are_enough_words() -> None:
    assert len(words()) > 500


@pytest.mark.sampled(part=8)
@pytest.mark.parametrize(
    ("kind", "part"), [(kind, part) for kind in ("inputs", "outputs", "dims") for part in parts(kind)]
)
def test_every_word_can_name_a_port_or_a_dim(kind: str, part: list[str], tmp_path: Path) -> None:
    artifact = written(named("words", kind, part), "embedded", tmp_path / "dist")
    included(artifact.path)
    flags = f"CFLAGS=-std=c99 -O0 {' '.join(WARNINGS)} -Wno-trigraphs"
    made = subprocess.run(["make", "-C", artifact.path, "run", flags], capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr[:3000]
    expected = [[[i, -i]] * (i % 4 + 1) for i in range(len(part))]
    with Session(artifact.path) as session:
        assert [thing.name for thing in getattr(session.manifest, kind)] == part
        results = session.run(dict(zip([port.name for port in session.manifest.inputs], expected, strict=True)))
        assert [result.tolist() for result in results.values()] == expected
        if kind == "dims":
            assert session.peak_bytes(dict.fromkeys(part, 2)) == 0


@pytest.mark.sampled(part=8)
@pytest.mark.parametrize("word", words(), ids=ascii)
def test_every_word_can_name_a_model(word: str) -> None:
    """Several models with any names can be in one program together with the core."""
    own = prefix(word)
    assert identifier(own) == own
    assert len(own) < 200
    assert not means_something(f"{own}_model")
    assert own.lower() not in {"dk", "deploykit", "driver", "c", "m", "all", "clean", "example", "test"}
    assert not own.lower().startswith("dk_")


@pytest.mark.sampled(part=6)
@pytest.mark.parametrize(
    "word", ["dk", "DK_model", "m", "example", "deploykit", "int", "main", "test", "名前", "x" * 300]
)
def test_models_with_unusual_names_compile_and_run(word: str, tmp_path: Path) -> None:
    draft = Draft(word)
    n = draft.dim("n", 1, 4)
    source = draft.input("x", "float32", (n,))
    for target in ("embedded", "host"):
        artifact = written(draft.program(Copy(draft.output("y", "float32", (n,)), source)), target, tmp_path / target)
        included(artifact.path)
        with Session(artifact.path) as session:
            assert session(x=[3, 4])["y"].tolist() == [3, 4]
        draft.outputs.clear()
    subprocess.run(["make", "-C", tmp_path / "embedded", "run"], check=True, capture_output=True)


def test_constants_do_not_collide_with_each_other_or_their_sizes() -> None:
    names = ["x", "X", "x_bytes", "X_BYTES", "x bytes", "x_2", "x_bytes_bytes", *words()]
    found = constants(names)
    assert len(set(found)) == len(names)
    assert not {f"{word}_BYTES" for word in found} & set(found)


def test_names_of_a_scope_are_unique() -> None:
    names = Names(["taken"], "model_")
    wanted = ["x", "x", "X", "taken", "model_run", "size_t", "dk_init", "FLT_MAX", "é", "è", "9"]
    found = ["x", "x_2", "X", "taken_2", "nmodel_run", "size_t_2", "ndk_init", "nFLT_MAX", "v", "v_2", "v9"]
    assert [names.take(word) for word in wanted] == found


def test_names_in_kernels_are_not_words_of_c() -> None:
    scopes = Scopes()
    found = [scopes.fresh(word) for word in words()]
    assert len(set(found)) == len(found)
    assert not [word for word in found if means_something(word)]


def test_names_of_functions_and_parameters_of_python(tmp_path: Path) -> None:
    """`main` is a function of the compiler, `self` a parameter of a session, and `file` one of `np.savez`."""
    text = """(float[n] self, float[n] X, float[n] x) => (float[n] main, float[n] file) {
        main = Add(self, X)  file = Sub(X, x) }"""
    deploykit.build(parse(text), output=tmp_path / "dist")
    with deploykit.open(tmp_path / "dist") as session:
        results = session(self=[1.0], X=[2.0], x=[4.0])
        assert {name: result.tolist() for name, result in results.items()} == {"main": [3], "file": [-2]}
    sources = [argument for name in ("self", "X", "x") for argument in ("--input", f"{name}=random:0")]
    ran = CliRunner().invoke(app, ["run", str(tmp_path / "dist"), *sources, "--output", str(tmp_path / "out.npz")])
    assert ran.exit_code == 0, ran.output
    with np.load(tmp_path / "out.npz") as saved:
        assert sorted(saved) == ["file", "main"]


@pytest.mark.parametrize(
    ("target", "options"),
    [
        ("host", {}),
        pytest.param("webgpu", {}, marks=pytest.mark.skipif(not shutil.which("node"), reason="needs node")),
    ],
)
def test_formulas_name_dims_as_the_model_does(target: str, options: dict[str, object], tmp_path: Path) -> None:
    names = ["seq len", "seq_len", "seq_len + 1", "3", "*/", '"']
    inputs = [helper.make_tensor_value_info(f"x{i}", TensorProto.FLOAT, [name, 5]) for i, name in enumerate(names)]
    nodes = [
        helper.make_node("Concat", [x.name for x in inputs], ["all"], axis=0),
        helper.make_node("Softmax", ["all"], ["shares"], axis=0),
        helper.make_node("MatMul", ["shares", "turned"], ["y"]),
        helper.make_node("Transpose", ["all"], ["turned"]),
    ]
    graph = helper.make_graph(
        [nodes[0], nodes[3], *nodes[1:3]], "names", inputs, [helper.make_tensor_value_info("y", 1, ["rows", "columns"])]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    deploykit.build(model, target, dict.fromkeys(names, (1, 9)), tmp_path / "dist")
    plan = read_plan(tmp_path / "dist")
    with deploykit.open(tmp_path / "dist", **options) as session:  # type: ignore[arg-type]
        assert [dim.name for dim in session.manifest.dims] == names
        for sizes in ([1, 2, 3, 4, 5, 6], [9, 1, 1, 2, 1, 7]):
            at = dict(zip(names, sizes, strict=True))
            rows = sum(sizes)
            result = session.run({f"x{i}": np.ones((n, 5), np.float32) for i, n in enumerate(sizes)})["y"]
            assert result.shape == (rows, rows)
            peak = session.peak_bytes(at)
            assert peak == evaluate(session.manifest.peak_memory.formula, at) == at_sizes(plan, at).total > 0
            (shape,) = (port.shape for port in session.manifest.outputs)
            assert [evaluate(str(extent), at) for extent in shape] == [rows, rows]
