"""Measures the errors of elementwise functions, and their times next to NumPy's, on one thread.

    python -m bench.math [--cpu CPU] [NAME ...]

Each function of `FUNCTIONS` is built as a kernel for the CPU and compared with double precision on bit patterns spread
over all of float32, including special numbers. The error is in units of the last place of the exact result. The time is
per element, for a call on 65,536 numbers between -4 and 4 (for `log` and `pow` between 0 and 8). Next to the precise
functions are those of builds with fast math; their error counts only where they promise one (`covered`).
"""

from __future__ import annotations

import argparse
import ctypes
import math
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from tvm import te, tirx

from deploykit.cli.console import results, table
from deploykit.compiler.codegen.native.cpus import Cpu, find_cpu
from deploykit.compiler.codegen.native.objects import emit_object
from deploykit.compiler.lowering.lower import lower
from deploykit.compiler.schedules import schedule
from deploykit.compiler.schedules.pointwise.elementwise import BLOCK
from deploykit.compiler.variant import native

SIZE = 65_536
ROUNDS = 30
STEP = 9_973
"""Distance between the bit patterns that are tried."""
SMALLEST = 2.0**-125
"""The smallest magnitude for which functions with fast math promise an error."""


@dataclass(frozen=True)
class Function:
    """A function to measure. `exact` computes it in float64, and `peer` is timed next to it. `lowest` is the lower
    bound of the timed numbers. With fast math, nothing is promised for operands above `largest` in magnitude."""

    exact: Callable[..., np.ndarray]
    peer: Callable[..., np.ndarray] | None
    lowest: float = -4.0
    largest: float = math.inf
    operands: int = 1


FUNCTIONS = {
    "exp": Function(np.exp, np.exp),
    "exp2": Function(np.exp2, np.exp2),
    "sigmoid": Function(lambda x: np.where(x < 0, np.exp(x), 1) / (1 + np.exp(-np.abs(x))), None),
    "tanh": Function(np.tanh, np.tanh),
    "erf": Function(np.vectorize(math.erf, otypes=["d"]), None),
    "log": Function(np.log, np.log, 0.0),
    "log1p": Function(np.log1p, np.log1p, 0.0),
    "sin": Function(np.sin, np.sin, largest=2.0**20),
    "cos": Function(np.cos, np.cos, largest=2.0**20),
    "pow": Function(np.power, np.power, 0.0, operands=2),
}


def kernel(name: str, operands: int, cpu: Cpu, folder: Path, *, fast: bool) -> Callable[..., None]:
    """Compile a function; the result takes the operands and the output as arrays of one length."""
    n = tirx.Var("n", "int64")
    inputs = [te.placeholder((n,), "float32", name=f"x{i}") for i in range(operands)]
    result = te.compute((n,), lambda i: getattr(tirx, name)(*(x(i) for x in inputs)), name="y")
    variant = native(cpu)
    func = schedule(te.create_prim_func([*inputs, result], index_dtype_override="int64"), variant.device)
    lowered = lower(func, name, vectorize=True, stack_limit=variant.stack_limit).kernel
    (folder / f"{name}.o").write_bytes(emit_object([lowered], "math", cpu, fast_math=fast))
    shared = folder / f"{name}{'_fast' if fast else ''}.so"
    subprocess.run([shutil.which("cc") or "cc", "-shared", folder / f"{name}.o", "-o", shared, "-lm"], check=True)
    function = ctypes.CDLL(str(shared))[f"math_{name}"]

    def call(*arrays: np.ndarray) -> None:
        spans = [0, -(-arrays[0].size // BLOCK)] if lowered.parallel_extent is not None else []
        pointers = [ctypes.c_void_p(array.ctypes.data) for array in arrays]
        function(*pointers, *(ctypes.c_int64(number) for number in (arrays[0].size, *spans)))

    return call


def arguments(operands: int) -> list[np.ndarray]:
    """Operands with bit patterns spread over all of float32; a second operand has numbers of moderate size."""
    spread = np.arange(0, 2**32, STEP, dtype="uint64").astype("uint32").view("float32")
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 2.0, 0.5], "float32")
    first = np.concatenate([spread, special])
    if operands == 1:
        return [first]
    rng = np.random.default_rng(0)
    second = rng.choice([0.0, 0.5, 1.0, 2.0, 3.0, -1.0, -2.5, np.inf, -np.inf, np.nan], first.size)
    random = rng.standard_normal(first.size) * 8
    return [first, np.where(rng.random(first.size) < 0.5, second, random).astype("float32")]


def covered(function: Function, operands: Sequence[np.ndarray], exact: np.ndarray) -> np.ndarray:
    """Where a function promises its error with fast math: not for subnormal numbers, nor for too large ones."""
    inside: np.ndarray = ~((np.abs(exact) < SMALLEST) & (exact != 0))
    for x in operands:
        size = np.abs(x)
        inside &= ~((size < SMALLEST) & (size != 0)) & (np.isnan(x) | (size < function.largest) | np.isinf(x))
    return inside


def distance(got: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """The errors of results, in units of the last place; infinite if a NaN, an infinity or a zero's sign differs."""
    with np.errstate(all="ignore"):
        expected = exact.astype("float32")
        apart = np.abs(got.astype("float64") - exact) / np.spacing(np.abs(expected)).astype("float64")
    special = ~np.isfinite(expected) | (expected == 0)
    same = (got == expected) & (np.signbit(got) == np.signbit(expected)) | (np.isnan(got) & np.isnan(expected))
    nearly = (expected == 0) & (np.abs(got) < 2e-45)
    found: np.ndarray = np.where(
        special, np.where(same | nearly, 0.0, np.inf), np.where(np.isnan(apart), np.inf, apart)
    )
    return found


def error(call: Callable[..., None], function: Function, *, fast: bool) -> tuple[float, str]:
    """The largest error, and the operands where it occurs."""
    operands = arguments(function.operands)
    got = np.empty_like(operands[0])
    call(*operands, got)
    with np.errstate(all="ignore"):
        exact = function.exact(*(x.astype("float64") for x in operands))
    counts = covered(function, operands, exact) if fast else np.full(got.shape, fill_value=True)
    wrong = np.where(counts, distance(got, exact), 0.0)
    worst = int(np.argmax(wrong))
    return float(wrong[worst]), ", ".join(f"{x[worst]:.9g}" for x in operands)


def nanoseconds(run: Callable[[], object]) -> float:
    """Nanoseconds per element in the fastest run."""
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times) / SIZE * 1e9


def measure(name: str, cpu: Cpu, folder: Path) -> tuple[str, ...]:
    """Measure one function; returns a row of the table."""
    function = FUNCTIONS[name]
    rng = np.random.default_rng(1)
    operands = [
        rng.uniform(function.lowest, function.lowest + 8, SIZE).astype("float32") for _ in range(function.operands)
    ]
    out = np.empty(SIZE, "float32")
    cells = [name]
    for fast in (False, True):
        call = kernel(name, function.operands, cpu, folder, fast=fast)
        worst, place = error(call, function, fast=fast)
        ours = nanoseconds(partial(call, *operands, out))
        cells += [f"{worst:.2f}", place, f"{ours:.2f}"]
    peer = function.peer
    return *cells, "" if peer is None else f"{nanoseconds(lambda: peer(*operands, out=out)):.2f}"


def rows(names: Sequence[str], cpu: Cpu) -> list[tuple[str, ...]]:
    with tempfile.TemporaryDirectory() as folder:
        return [measure(name, cpu, Path(folder)) for name in names or FUNCTIONS]


def main() -> None:
    parser = argparse.ArgumentParser(description="Errors and times of elementwise functions.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(FUNCTIONS)}")
    parser.add_argument("--cpu", default="native", help="as for `deploykit build`")
    given = parser.parse_args()
    shown = table("function", ">ulp", "at", ">ns", ">fast ulp", "at", ">fast ns", ">NumPy ns")
    for row in rows(given.names, find_cpu(given.cpu)):
        shown.add_row(*row)
    results.print(shown)


if __name__ == "__main__":
    main()
