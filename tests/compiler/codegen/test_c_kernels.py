"""The text of generated C: pinned by golden files, free of warnings with gcc and clang, and readable."""

from __future__ import annotations

import subprocess
from random import Random
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tvm import ir, tirx

from deploykit import runtime
from deploykit.compiler.codegen.c import support
from deploykit.compiler.codegen.c.kernels import ESTIMATES, c_expression, emit_c, emit_prototypes
from deploykit.compiler.codegen.c.names import Scopes
from deploykit.compiler.codegen.c.types import float_literal, integer_literal
from deploykit.compiler.dims import evaluate, magnitude
from deploykit.compiler.lowering.lower import lower
from tests.compiler.codegen import test_arithmetic, test_intrinsics
from tests.compiler.codegen.harness import SANITIZERS, compile_c, elementwise
from tests.compiler.lowering import test_lower

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

TEXTS: dict[str, Callable[[], tirx.PrimFunc]] = {
    **{
        name: lambda name=name: test_lower.FUNCTIONS[name]
        for name in ("row_argmax", "normalised_parallel", "flattened_transpose", "gather", "positions", "halving")
    },
    "shifted": test_lower.shifted,
    "half_precision": lambda: elementwise(lambda a, b: tirx.exp(a) + b * a, ["float16", "float16"]),
    "mixed_precision": lambda: elementwise(
        lambda a, b: tirx.Cast("float16", tirx.Cast("float32", a) * b), ["float16", "float32"]
    ),
    "wrapping": lambda: elementwise(lambda a, b: tirx.floordiv(a * b + 7, b), ["int32", "int32"]),
    "saturating": lambda: elementwise(lambda a: tirx.Cast("int8", tirx.nearbyint(a * 4.0)), ["float32"]),
    "logic": lambda: elementwise(
        lambda a, b: tirx.any(tirx.all(a > 1, b < 2), tirx.Not(tirx.isnan(a))), ["float64", "float64"]
    ),
    "vectorised_for_another": lambda: elementwise(
        lambda a: tirx.max(a, tirx.const(0.0, "float32")), ["float32"], lanes=8
    ),
}


@pytest.mark.parametrize("name", TEXTS)
def test_text(name: str, golden: Any) -> None:
    golden(emit_c([lower(TEXTS[name](), name, vectorize=False).kernel], "model"))


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_no_warnings(compiler: str, tmp_path: Path) -> None:
    source = tmp_path / "kernels.c"
    source.write_text(emit_c([lower(make(), name, vectorize=False).kernel for name, make in TEXTS.items()], "model"))
    compile_c(source, tmp_path / "kernels.o", "-c", "-O2", compiler=compiler)


@pytest.mark.slow
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_no_warnings_on_any_operator(compiler: str, tmp_path: Path) -> None:
    functions = {
        **test_arithmetic.FUNCTIONS,
        **{
            f"{name}_{dtype}": elementwise(getattr(tirx, name), [dtype] * (1 + (name in test_intrinsics.BINARY)))
            for name, dtype in test_intrinsics.CASES
        },
    }
    kernels = [lower(func, name, vectorize=False).kernel for name, func in functions.items()]
    source = tmp_path / "kernels.c"
    source.write_text(emit_c(kernels, "all") + emit_prototypes(kernels, "all"))
    compile_c(source, tmp_path / "kernels.o", "-c", "-O1", compiler=compiler)


def test_support_functions_come_before_their_callers() -> None:
    heads = [line for line in support.definitions("x = floormod_i32(a, b);").splitlines() if line.startswith("static")]
    assert [head.split("(")[0].split()[-1] for head in heads] == ["mod_i32", "floormod_i32"]


def test_names_are_legal_and_unique_among_open_scopes() -> None:
    scopes = Scopes({"expf"})
    assert [scopes.fresh(name) for name in ("x", "x", "float", "expf", "T.exp<3>", "", "7up")] == [
        *("x", "x_1", "float_1", "expf_1", "T_exp_3", "v", "v7up")
    ]
    with scopes.nested():
        assert scopes.fresh("x") == "x_2"
    assert scopes.fresh("x") == "x_2"


@given(st.floats(width=32))
def test_single_precision_literals_are_exact(value: float) -> None:
    text = float_literal(value, "float32")
    if "NAN" in text or "INFINITY" in text:
        return
    assert text.endswith("f")
    assert np.float32(text[:-1]) == np.float32(value)


def test_integer_literals_have_the_type_that_they_need() -> None:
    cases = {
        (-1, "int32"): "-1",
        (-(2**31), "int32"): "INT32_MIN",
        (2**31, "int64"): "INT64_C(2147483648)",
        (-(2**63), "int64"): "INT64_MIN",
        (7, "uint32"): "7u",
        (2**64 - 1, "uint64"): "UINT64_C(18446744073709551615)",
        (255, "uint8"): "255",
        (1, "bool"): "1",
    }
    assert {key: integer_literal(*key) for key in cases} == cases


N, M = tirx.Var("n", "int64"), tirx.Var("m", "int64")


def host_expression(random: Random, depth: int = 3) -> ir.Expr:
    """An integer expression over two variables, with every operator that host code may use."""
    if depth == 0:
        return random.choice([N, M, *(tirx.const(c, "int64") for c in (0, 1, 2, 5, 64, 2**33))])
    a, b = host_expression(random, depth - 1), host_expression(random, depth - 1)
    positive = tirx.const(random.choice([1, 3, 8]), "int64")
    forms = [
        lambda: a + b,
        lambda: a - b,
        lambda: a * random.choice([2, -3]),
        lambda: tirx.floordiv(a, positive),
        lambda: tirx.floormod(a, positive),
        lambda: tirx.truncdiv(a, positive),
        lambda: tirx.ceildiv(a, positive),
        lambda: tirx.min(a, b),
        lambda: tirx.max(a, b),
        lambda: tirx.Select(tirx.any(a < b, tirx.all(tirx.EQ(a, b), b > 0)), a, b),
        lambda: tirx.Cast("int64", tirx.Not(a <= b)),
    ]
    return random.choice(forms)()


Points: TypeAlias = "Sequence[tuple[int, int]]"


def printed(texts: Sequence[str], form: str, points: Points, folder: Path) -> list[str]:
    """The values of C expressions over `n` and `m`, printed in this format: all at one point, then at the next."""
    lines = [
        "#include <stdio.h>",
        '#include "deploykit.h"',
        "static void print(int64_t n, int64_t m) {",
        *(f'    printf("{form}\\n", {text});' for text in texts),
        "}",
        "int main(void) {",
        *(f"    print({n}, {m});" for n, m in points),
        "}",
    ]
    source, program = folder / "host.c", folder / "host"
    source.write_text("\n".join([*lines, ""]))
    subprocess.run(["gcc", *SANITIZERS, f"-I{runtime.INCLUDE}", source, "-o", program], check=True)
    return subprocess.run([program], capture_output=True, text=True, check=True).stdout.split()


def values(expressions: Sequence[ir.Expr], points: Points) -> list[int]:
    return [evaluate(e, {N: n, M: m}) for n, m in points for e in expressions]


def in_floating_point(expressions: Sequence[ir.Expr | int], points: Points, folder: Path) -> list[float]:
    texts = [f"(double)({c_expression(e, lambda v: f'(double){v.name}', functions=ESTIMATES)})" for e in expressions]
    return [float(text) for text in printed(texts, "%.17g", points, folder)]


def test_host_expressions_mean_the_same_in_c(tmp_path: Path) -> None:
    random = Random(0)
    expressions = [host_expression(random) for _ in range(300)]
    points = [(n, m) for n in (-9, 0, 1, 40) for m in (-7, 3, 64)]
    texts = [f"(long long)({c_expression(e, lambda v: v.name)})" for e in expressions]
    assert [int(value) for value in printed(texts, "%lld", points, tmp_path)] == values(expressions, points)


def test_estimates_are_at_least_what_the_integers_give(tmp_path: Path) -> None:
    """Includes remainders by constants. They are never negative, so integer code divides them without rounding down."""
    quarter = tirx.floordiv(tirx.floormod(N, 16), 4)
    padded = tirx.floordiv(N, 4) + tirx.floormod(quarter * 3, 4)
    expressions = [quarter, padded, tirx.floordiv(padded, 4) * M, tirx.max(padded, M) * 16, tirx.truncdiv(N + M, 3)]
    points = [(n, m) for n in (0, 1, 7, 64, 97) for m in (0, 3, 64)]
    found = in_floating_point(expressions, points, tmp_path)
    assert all(estimate >= value for estimate, value in zip(found, values(expressions, points), strict=True))


def test_magnitudes_in_floating_point_are_at_least_what_the_integers_give(tmp_path: Path) -> None:
    """This holds up to rounding, for sizes at which integers overflow as well."""
    random = Random(1)
    expressions = [host_expression(random, 4) for _ in range(300)]
    points = [(n, m) for n in (0, 1, 40, 1 << 40) for m in (-(1 << 40), -7, 3, (1 << 40) - 1)]
    most = in_floating_point([magnitude(e, [N]) for e in expressions], points, tmp_path)
    assert all(
        bound >= abs(value) * (1 - 1e-12) for bound, value in zip(most, values(expressions, points), strict=True)
    )


def test_division_is_plain_where_nothing_is_negative() -> None:
    text = c_expression(tirx.floordiv(N + 3, 4) * tirx.floormod(N, 8), lambda var: var.name, [N])
    assert text == "(n + 3) / 4 * (n % 8)"
