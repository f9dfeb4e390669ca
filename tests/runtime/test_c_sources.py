"""The C code that ships: its text, strict compilers, the symbols that it needs, and several models in one program."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest
from tvm import tirx

import deploykit
from deploykit import runtime
from deploykit.basics.dtypes import DTYPES
from deploykit.compiler.codegen.host.source import emit_host
from deploykit.compiler.codegen.weights.c_source import write_weights_c
from deploykit.compiler.program.ir import BindDim, Copy, Program, SetDim
from deploykit.engines.native.sanitized import SANITIZERS
from deploykit.pipeline import write_artifact
from deploykit.targets.base import PackageOptions, find_target
from tests.conftest import Golden
from tests.runtime.programs import Draft, mlp
from tests.seeded import seeded

STRICT = ["-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
COMPILERS = [name for name in ("gcc", "clang", "clang-19") if shutil.which(name)]

compilers = pytest.mark.parametrize("compiler", COMPILERS)


def compile_and_run(compiler: str, program: Path, *arguments: object) -> str:
    subprocess.run([compiler, *STRICT, *map(str, arguments), "-o", program, "-lm", "-pthread"], check=True)
    return subprocess.run([program], check=True, capture_output=True, text=True).stdout


def embedded(program: Program, folder: Path) -> Path:
    write_artifact([program], find_target("embedded"), folder, PackageOptions(version="0"))
    return folder


@pytest.mark.parametrize("name", ["model.h", "model.c"])
def test_host_code(golden: Golden, name: str) -> None:
    golden(emit_host([mlp()[0]], "0")[name], name)


@pytest.mark.parametrize(
    "name", ["example/main.c", "Makefile", "CMakeLists.txt", "README.md", "weights.h", "weights.c"]
)
def test_embedded_project(golden: Golden, name: str, tmp_path: Path) -> None:
    golden((embedded(mlp()[0], tmp_path / "dist") / name).read_text(), Path(name).name)


def test_host_readme(golden: Golden, tmp_path: Path) -> None:
    write_artifact([mlp()[0]], find_target("host"), tmp_path / "dist", PackageOptions(version="0"))
    golden((tmp_path / "dist" / "README.md").read_text())


@compilers
def test_core(compiler: str, golden: Golden, tmp_path: Path) -> None:
    test = Path(__file__).with_name("core_test.c")
    options = ["-Wconversion", "-Wcast-qual", "-Wshadow", *SANITIZERS, f"-I{runtime.INCLUDE}"]
    golden(compile_and_run(compiler, tmp_path / "core", test, *runtime.CORE, *options), "core.txt")


@compilers
def test_invalid_calls_are_refused(compiler: str, tmp_path: Path) -> None:
    draft = Draft("model")
    n = draft.dim("n", 2, 8)
    x, weight = draft.input("x", "float32", (n,)), draft.constant("w", np.float32([1]))
    folder = embedded(draft.program(Copy(draft.output("y", "float32", (n,)), x)), tmp_path / "dist")
    assert weight
    test = Path(__file__).with_name("usage_test.c")
    sources = [folder / name for name in ("model.c", "kernels.c", "deploykit.c", "errors.c", "weights.c")]
    printed = compile_and_run(compiler, tmp_path / "usage", test, *sources, *SANITIZERS, f"-I{folder}").splitlines()
    statuses = {line.partition(":")[0]: line.partition(": ")[2] for line in printed if ": " in line}
    assert statuses["init of NULL"] == statuses["run of NULL"] == statuses["bind of NULL"] == "8 the model is NULL"
    uninitialised = [statuses[f"{call}"] for call in ("run before init", "run of noise", "bind before init")]
    assert uninitialised == ["8 the model is not initialised"] * 3
    assert statuses["run without inputs"] == statuses["bind without inputs"] == "8 the inputs are NULL"
    assert (statuses["run without outputs"], statuses["bind without dims"]) == (
        "8 the outputs are NULL",
        "8 the dims are NULL",
    )
    assert [statuses[f"n = {n}"] for n in range(-1, 10)] == ["1, 8"] * 3 + ["0, 0"] * 7 + ["1, 8"]
    assert printed[-4:-2] == ["1", "1"]
    assert (statuses["an output that there is not"], statuses["arena of no dims"]) == ("8", "1")
    assert (statuses["init"], statuses["run"]) == ("0 ", "0 ")


SMALL = """<ir_version: 9, opset_import: ["": 20]> net (float[n, 32] x) => (float[n, 8] y) {
    a = MatMul(x, w)
    b = Tanh(a)
    y = MatMul(b, v)
}"""


def refused(folder: Path) -> list[Path | str]:
    """What a compiler takes to build `refused_test.c`, with a model that is built in `folder`."""
    onnx.save(seeded(SMALL, {"w": (32, 64), "v": (64, 8)}), folder / "net.onnx")
    deploykit.build(folder / "net.onnx", "embedded", {"n": (2, 4)}, folder / "dist")
    test, dist = Path(__file__).with_name("refused_test.c"), folder / "dist"
    return [test, *sorted(dist.glob("*.c")), f"-I{dist}"]


@compilers
def test_a_model_that_cannot_start_stays_refused(compiler: str, tmp_path: Path) -> None:
    """With the text of the first cause, until it is mended."""
    sources = refused(tmp_path)
    printed = compile_and_run(compiler, tmp_path / "refused", *sources, *SANITIZERS).splitlines()
    assert printed.pop(0) == "before init: 8 the model is not initialised"
    starts = [printed[at : at + 4] for at in range(0, 28, 4)]
    weights = [(start[0].partition(": ")[2], {line.partition(": ")[2] for line in start}) for start in starts[:4]]
    assert [cause for cause, _ in weights] == [
        "6 weights: expected 10240 bytes, found 0",
        "6 weights: expected 10240 bytes, found 0",
        "6 the weights must start at a multiple of 64 bytes",
        "6 weights: expected 10240 bytes, found 10239",
    ]
    assert all(said == {cause} for cause, said in weights)
    short = "4 arena: needs 512 bytes, found 4"
    assert starts[4] == [f"init: {short}", f"run: {short}", "arena: 0 ", "run: 0 "]
    assert starts[5][0] == "init: 4 the arena must start at a multiple of 64 bytes"
    assert starts[5][1:] == ["run: 4 the arena must start at a multiple of 64 bytes", "arena: 0 ", "run: 0 "]
    assert starts[6] == ["init: 0 ", "run: 4 arena: needs 512 bytes, found 0", "arena: 0 ", "run: 0 "]
    assert printed[28:] == [
        "input: 3 input 'x' is in the arena, which a run overwrites",
        "output: 3 output 'y' is in the arena, which a run overwrites",
        "again: 0 ",
        "checksum: 1",
        "of nine digits: cbf43926",
    ]


@compilers
def test_texts_of_errors_can_be_left_out(compiler: str, tmp_path: Path) -> None:
    """The statuses stay, and no text is in the objects of the core."""
    sources = refused(tmp_path)
    printed = {
        options: compile_and_run(compiler, tmp_path / "refused", *sources, "-O1", *options)
        for options in ((), ("-DDK_NO_ERROR_TEXT",), ("-DDK_NO_ERROR_TEXT", "-DDK_ALIGNMENT=8"))
    }
    statuses = {options: re.findall(r": (\d+) ", text) for options, text in printed.items()}
    assert statuses[()] == statuses[("-DDK_NO_ERROR_TEXT",)]
    assert b"multiple" not in (tmp_path / "refused").read_bytes()
    # Where any multiple of 8 will do, so does the arena that is misplaced by 8 bytes.
    assert statuses["-DDK_NO_ERROR_TEXT", "-DDK_ALIGNMENT=8"][21:23] == ["0", "0"]


@pytest.mark.parametrize("sanitizer", ["thread", "address,undefined"])
def test_thread_pool(sanitizer: str, tmp_path: Path) -> None:
    test = Path(__file__).with_name("threads_test.c")
    options = [f"-fsanitize={sanitizer}", "-g1", "-O1", "-D_POSIX_C_SOURCE=200809L"]
    includes = [f"-I{runtime.INCLUDE}", f"-I{runtime.THREADS.parent}"]
    compile_and_run("gcc", tmp_path / "threads", test, runtime.THREADS, *options, *includes)


@compilers
def test_example_program(compiler: str, tmp_path: Path) -> None:
    folder = embedded(mlp()[0], tmp_path / "dist")
    make = ["make", "-s", "-C", str(folder), f"CC={compiler}", "CFLAGS=-O2 -Werror", "run"]
    output = subprocess.run(make, check=True, capture_output=True, text=True).stdout
    assert re.fullmatch(r"y float32\[64, 3\]:( -?[\d.e-]+){4} ... checksum [0-9a-f]{8}\n", output)


@pytest.mark.skipif(not shutil.which("cmake"), reason="needs cmake")
def test_cmake_project(tmp_path: Path) -> None:
    folder = embedded(mlp()[0], tmp_path / "dist")
    for step in (["-S", folder, "-B", tmp_path / "build"], ["--build", tmp_path / "build"]):
        subprocess.run(["cmake", *map(str, step)], check=True, capture_output=True)
    assert (
        "checksum"
        in subprocess.run([tmp_path / "build" / "example"], check=True, capture_output=True, text=True).stdout
    )


@compilers
def test_example_fills_every_dtype(compiler: str, tmp_path: Path) -> None:
    draft = Draft("all_dtypes")
    numbers = [name for name in DTYPES if name != "string"]  # tests/cli/test_values.py tests strings
    copies = [Copy(draft.output(f"{n}_out", n, (3,)), draft.input(f"{n} in", n, (3,))) for n in numbers]
    folder = embedded(draft.program(*copies), tmp_path / "dist")
    sources = [
        folder / name for name in ("example/main.c", "model.c", "kernels.c", "weights.c", "deploykit.c", "errors.c")
    ]
    lines = compile_and_run(compiler, tmp_path / "example", *sources, f"-I{folder}", *SANITIZERS).splitlines()
    assert [line.split("[")[0] for line in lines] == [f"{name}_out {name}" for name in numbers]


TWO_MODELS = """
#include "a/model.h"
#include "a/weights.h"
#include "b/model.h"
#include "b/weights.h"
#include <stdio.h>
static DK_ALIGNED unsigned char arena[2048];
static a_model first;
static b_model second;
int main(void) {
    float x[16] = {1, 2, 3, 4, 5, 6, 7, 8, 1}, y[6] = {0}, z[6] = {0};
    dk_tensor input = {x, sizeof x, DK_FLOAT32, 2, {2, 8}}, out = {y, sizeof y, DK_FLOAT32, 0, {0}}, other = out;
    other.data = z;
    if (a_init(&first, &a_weights, A_WEIGHTS_BYTES, arena, sizeof arena) || a_run(&first, &input, &out)
        || b_init(&second, &b_weights, B_WEIGHTS_BYTES, arena, sizeof arena) || b_run(&second, &input, &other)) {
        return 1;
    }
    printf("%d %d ", y[0] == z[0] && y[5] == z[5], (int)out.shape[0]);
    printf("%d", (int)(a_descriptor.inputs == b_descriptor.inputs));
    return 0;
}
"""


@compilers
def test_two_models_in_one_program(compiler: str, tmp_path: Path) -> None:
    folders = [embedded(mlp(name)[0], tmp_path / name) for name in ("a", "b")]
    (tmp_path / "main.c").write_text(TWO_MODELS)
    sources = [folder / name for folder in folders for name in ("model.c", "kernels.c", "weights.c")]
    core = [folders[0] / name for name in ("deploykit.c", "errors.c")]
    output = compile_and_run(compiler, tmp_path / "two", tmp_path / "main.c", *core, *sources, f"-I{folders[0]}")
    assert output == "1 2 0"


@compilers
def test_unread_data_dims_take_no_code(compiler: str, tmp_path: Path) -> None:
    """No code is generated for them, nor for the tensors and the dims that they are computed from."""
    draft = Draft("unread")
    a, b, c, d, seen = (tirx.Var(name, "int64") for name in ("first", "second", "third", "fourth", "seen"))
    size = draft.dim("size")
    count, scale = draft.input("count", "int64", (2,)), draft.input("scale", "int64", (size,))
    x, y = draft.input("x", "float32", (4,)), draft.output("y", "float32", (4,))
    steps = [BindDim(a, scale), SetDim(b, size), SetDim(c, a + 1), SetDim(d, c + b), BindDim(seen, count, 1, 0)]
    folder = embedded(draft.program(*steps, Copy(y, x)), tmp_path / "dist")
    subprocess.run([compiler, *STRICT, "-c", folder / "model.c", "-o", tmp_path / "model.o"], check=True)


def test_headers_compile_as_cpp(tmp_path: Path) -> None:
    folder = embedded(mlp()[0], tmp_path / "dist")
    (tmp_path / "app.cpp").write_text('#include "model.h"\n#include "weights.h"\n#include "threads.h"\nint main() {}\n')
    includes = [f"-I{folder}", f"-I{runtime.THREADS.parent}"]
    strict = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-std=c++11", "-fsyntax-only"]
    subprocess.run(["g++", *strict, *includes, tmp_path / "app.cpp"], check=True)


ALLOWED = {"memcpy", "memset", "memmove", "strlen"}


def test_only_string_functions_are_called(tmp_path: Path) -> None:
    folder = embedded(mlp()[0], tmp_path / "dist")
    objects = []
    for name in ("model", "kernels", "weights", "deploykit", "errors"):
        objects.append(tmp_path / f"{name}.o")
        subprocess.run(["gcc", *STRICT, "-O2", "-fno-pie", "-c", folder / f"{name}.c", "-o", objects[-1]], check=True)
    symbols = subprocess.run(["nm", *objects], check=True, capture_output=True, text=True).stdout
    kinds = re.findall(r"^(?:[0-9a-f]{16}| {16}) (\w) (\S+)$", symbols, re.MULTILINE)
    undefined = {name for kind, name in kinds if kind == "U"} - {name for kind, name in kinds if kind != "U"}
    assert undefined <= ALLOWED
    assert not [name for kind, name in kinds if kind in "BbDdC"], "data that can be written"


@compilers
def test_large_and_strange_constants(compiler: str, tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    constants = [
        random.standard_normal(5000).astype(np.float32),
        np.array([np.inf, -np.inf, np.nan, -0.0], np.float64),
        np.array([1.5, -2.25, 65504], np.float16),
        np.array([[-(2**63), 2**63 - 1]]),
        np.array(2**64 - 1, np.uint64),
        np.zeros((0, 3), np.int32),
        np.array([True, False, True]),
        random.integers(0, 256, 10_000, dtype=np.uint8),
        np.array([1e-45, 1e38, np.pi], np.float32),
    ]
    draft = Draft("constants")
    for index, value in enumerate(constants):
        draft.constant(f"c{index} #", value)
    program = draft.program()
    write_weights_c(program, tmp_path)
    (tmp_path / "main.c").write_text(
        '#include <stdio.h>\n#include "weights.h"\nint main(void) {'
        " fwrite(&constants_weights, sizeof constants_weights, 1, stdout); return 0; }\n"
    )
    expected = b"".join(
        value.tobytes().ljust(after.offset - here.offset, b"\0") if after else value.tobytes()
        for value, here, after in zip(constants, program.constants, [*program.constants[1:], None], strict=True)
    )
    sources = [tmp_path / "main.c", tmp_path / "weights.c", f"-I{runtime.INCLUDE}", "-o", tmp_path / "dump"]
    subprocess.run([compiler, *STRICT, *sources], check=True)
    written = subprocess.run([tmp_path / "dump"], check=True, capture_output=True).stdout
    assert written.startswith(expected)
    assert len(written) - len(expected) < 64
    assert max(map(len, (tmp_path / "weights.c").read_text().splitlines())) < 4200


def test_dtype_numbers_agree() -> None:
    enumerators = re.findall(
        r"(DK_\w+) = (\d+),?\n", runtime.HEADER.read_text().split("enum dk_dtype")[1].split("}")[0]
    )
    assert {name: int(number) for name, number in enumerators} == {d.c_name: d.code for d in DTYPES.values()}


def test_names_that_are_not_identifiers(tmp_path: Path) -> None:
    draft = Draft('9 "lives"/* \\')
    n = draft.dim("for", 1, 4)
    first, second = draft.input("int", "float32", (n,)), draft.input("a.b\n*/??)", "float32", (n,))
    steps = [Copy(draft.output("a-b", "float32", (n,)), first), Copy(draft.output("a b", "float32", (n,)), second)]
    folder = embedded(draft.program(*steps), tmp_path / "dist")
    sources = [
        folder / name for name in ("example/main.c", "model.c", "weights.c", "kernels.c", "deploykit.c", "errors.c")
    ]
    compile_and_run("gcc", tmp_path / "example", *sources, f"-I{folder}", "-Wno-trigraphs")
    assert "v9_lives_run" in (folder / "model.h").read_text()
