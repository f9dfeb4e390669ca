"""Native objects: they have the expected symbols, are position independent, and the code for each CPU runs."""

from __future__ import annotations

import ctypes
import math
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tvm import tirx

from deploykit.compiler.codegen.native.cpus import CPUS, find_cpu, host_cpu
from deploykit.compiler.codegen.native.objects import PART, emit_object
from deploykit.compiler.lowering.lower import lower
from deploykit.errors import UsageError
from tests.compiler.codegen import test_intrinsics
from tests.compiler.codegen.harness import Library, elementwise

if TYPE_CHECKING:
    from pathlib import Path

    from deploykit.compiler.lowering.kernel import Kernel

RUNNABLE = [name for name in CPUS if name.startswith("x86")]
FEATURE_FLAGS = {"x86-64-v2": "ssse3", "x86-64-v3": "avx2", "x86-64-v4": "avx512vl", "x86-64-amx": "amx-tile"}


@pytest.fixture(scope="module")
def kernels() -> list[Kernel]:
    """Every intrinsic, serial and vectorised, and pairs of calls that a compiler may merge into one."""
    functions = {
        f"{name}_{dtype}_{lanes}": elementwise(
            getattr(tirx, name), [dtype] * (1 + (name in test_intrinsics.BINARY)), lanes=lanes
        )
        for name, dtype in test_intrinsics.CASES
        for lanes in (None, 8)
        if (dtype, lanes) in (("float16", None), ("float32", None), ("float32", 8), ("float64", 8))
    }
    functions["sin_and_cos"] = elementwise(lambda x: tirx.sin(x) + tirx.cos(x), ["float32"])
    functions["powers"] = elementwise(
        lambda x: tirx.pow(tirx.const(10.0, "float32"), x) + tirx.pow(tirx.const(2.0, "float32"), x), ["float32"]
    )
    return [lower(func, name).kernel for name, func in functions.items()]


def symbols(path: Path) -> list[tuple[str, str]]:
    """Kind and name of each symbol of an object, as `nm` lists them."""
    listing = subprocess.run(["nm", path], capture_output=True, text=True, check=True).stdout
    return [(kind, name) for kind, name in re.findall(r"^[0-9a-f ]* ([A-Za-z]) (\S+)$", listing, re.MULTILINE)]


def c99_math_functions() -> set[str]:
    names = {
        *("exp", "exp2", "log", "log2", "log10", "log1p", "tanh", "sin", "cos", "tan", "asin", "acos", "atan", "sinh"),
        *(
            "cosh",
            "asinh",
            "acosh",
            "atanh",
            "sqrt",
            "floor",
            "ceil",
            "trunc",
            "nearbyint",
            "rint",
            "fabs",
            "pow",
            "fmod",
        ),
        *("atan2", "hypot", "copysign", "nextafter", "fma", "erf", "fmin", "fmax", "round"),
    }
    return names | {f"{name}f" for name in names}


@pytest.mark.slow
@pytest.mark.parametrize("cpu", [*CPUS, "native"])
def test_only_standard_functions_are_called(kernels: list[Kernel], cpu: str, tmp_path: Path) -> None:
    path = tmp_path / "kernels.o"
    path.write_bytes(emit_object(kernels, "model", find_cpu(cpu)))
    found = symbols(path)
    assert {name for kind, name in found if kind == "T"} == {f"model_{k.name}" for k in kernels}
    assert not {kind for kind, _ in found} & set("WwVv")
    undefined = [name for kind, name in found if kind == "U"]
    assert len(undefined) == len(set(undefined))
    assert set(undefined) <= c99_math_functions() | {"memset", "memcpy"}


def require(cpu: str) -> None:
    """Skip the test where this machine cannot run the CPU's code."""
    if f"+{FEATURE_FLAGS[cpu]}" not in host_cpu().features:
        pytest.skip(f"this machine cannot run {cpu}")


@pytest.mark.parametrize("cpu", RUNNABLE)
def test_each_cpu_computes_the_same(cpu: str, tmp_path: Path) -> None:
    require(cpu)
    func = elementwise(lambda x, y: tirx.exp(x.astype("float32")) * y, ["float16", "float32"], lanes=16)
    kernel = lower(func, "k").kernel
    source, library = tmp_path / "k.o", tmp_path / "k.so"
    source.write_bytes(emit_object([kernel], "test", CPUS[cpu]))
    subprocess.run(["gcc", "-shared", "-Wl,-z,text", source, "-o", library, "-lm"], check=True)
    x, y = np.linspace(-4, 4, 64).astype("float16"), np.ones(64, "float32")
    z = np.empty_like(y)
    Library(ctypes.CDLL(str(library)), {}).run("k", [x, y, z], [4])
    np.testing.assert_allclose(z, np.exp(x.astype("float32")), rtol=1e-6)


@pytest.mark.parametrize("cpu", CPUS)
def test_no_debug_information_and_no_compiler_names(cpu: str, tmp_path: Path) -> None:
    data = emit_object([lower(elementwise(tirx.exp, ["float16"]), "k").kernel], "model", CPUS[cpu])
    assert b"tvm" not in data.lower()
    path = tmp_path / "k.o"
    path.write_bytes(data)
    machine = CPUS[cpu].triple.split("-")[0]
    link = [sys.executable, "-m", "ziglang", "cc", "-target", f"{machine}-linux-android", "-shared", "-nostdlib"]
    subprocess.run([*link, path, "-o", tmp_path / "k.so"], check=True)
    listing = subprocess.run(["readelf", "-aW", path], capture_output=True, text=True, check=True)
    assert listing.stderr == ""
    assert ".debug" not in listing.stdout
    assert " FILE " not in listing.stdout


def test_half_conversions_come_along_only_where_the_cpu_has_none(tmp_path: Path) -> None:
    kernel = lower(elementwise(lambda x: x + x, ["float16"]), "k").kernel
    path = tmp_path / "k.o"
    path.write_bytes(emit_object([kernel], "model", CPUS["x86-64-v2"]))
    assert ("t", "__extendhfsf2") in symbols(path)
    path.write_bytes(emit_object([kernel], "model", CPUS["x86-64-v3"]))
    assert symbols(path) == [("T", "model_k")]


def test_two_prefixes_link_together(tmp_path: Path) -> None:
    kernel = lower(elementwise(lambda x: x + 1.0, ["float16"]), "k").kernel
    objects = [tmp_path / f"{prefix}.o" for prefix in ("a", "b")]
    for path in objects:
        path.write_bytes(emit_object([kernel], path.stem, CPUS["x86-64-v2"]))
    library = tmp_path / "both.so"
    subprocess.run(["gcc", "-shared", *objects, "-o", library], check=True)
    assert {"a_k", "b_k"} <= {name for _, name in symbols(library)}


def test_kernels_that_were_compiled_apart_are_one_object(tmp_path: Path) -> None:
    count = 3 * PART + 1
    functions = [elementwise(lambda x, k=k: tirx.erf(x) + x * (k + 1), ["float16"]) for k in range(count)]
    kernels = [lower(func, f"k{k}").kernel for k, func in enumerate(functions)]
    source, library = tmp_path / "kernels.o", tmp_path / "kernels.so"
    source.write_bytes(emit_object(kernels, "test", CPUS["x86-64-v2"]))
    assert source.read_bytes() == emit_object(kernels, "test", CPUS["x86-64-v2"])
    subprocess.run(["gcc", "-shared", "-Wl,-z,text,-z,defs", source, "-o", library, "-lm"], check=True)
    x = np.linspace(-4, 4, 64).astype("float16")
    for k, kernel in enumerate(kernels):
        y = np.empty_like(x)
        Library(ctypes.CDLL(str(library)), {}).run(kernel.name, [x, y], [64])
        wide = x.astype("float64")
        np.testing.assert_allclose(y, np.vectorize(math.erf)(wide) + wide * (k + 1), rtol=2e-2, atol=2e-2)


def test_unknown_cpu() -> None:
    with pytest.raises(UsageError, match="choose one of native, portable, x86-64-v2"):
        find_cpu("pentium")


def test_no_kernels(tmp_path: Path) -> None:
    path = tmp_path / "none.o"
    path.write_bytes(emit_object([], "model", CPUS["x86-64-v2"]))
    assert not [name for kind, name in symbols(path) if kind in "TU"]
