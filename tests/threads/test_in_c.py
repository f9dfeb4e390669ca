"""C runtimes and generated code under ThreadSanitizer, with sixteen threads."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest

import deploykit
from deploykit import runtime
from deploykit.artifact.manifest import Manifest, read_manifest
from deploykit.basics.dtypes import logical_dtype, to_storage
from deploykit.compiler.model import ImportedModel
from deploykit.dynamic.policies import POLICIES
from deploykit.engines.native.sanitized import SANITIZERS
from deploykit.sessions.instances import Instances
from tests.dynamic import models
from tests.dynamic.harness import EMBEDDED
from tests.dynamic.instances import instances
from tests.frontends.huggingface.test_texts import sentences_of
from tests.frontends.onnx.harness import parse
from tests.frontends.running_mean import WIDTH, running_mean, weights
from tests.placing import threaded
from tests.ragged import token_model
from tests.seeded import seeded
from tests.threads.test_forms import CELL, WEIGHTS, sample

DRIVER = Path(__file__).with_name("crowd.c")
FLAGS = ("-std=c99", "-O1", "-g1", "-fsanitize=thread", "-Wall", "-Wextra", "-Werror", "-pthread")
COMPILERS = [name for name in ("gcc", "clang") if shutil.which(name)]

pytestmark = pytest.mark.skipif(not COMPILERS, reason="needs gcc or clang")

Crowd = Callable[..., tuple[int, int]]
"""What the driver prints for these arguments."""


def given(manifest: Manifest, arrays: Mapping[str, np.ndarray]) -> str:
    """The header with inputs for the driver."""
    lines = [
        '#include "deploykit.h"',
        f"#define DK_PREFIX {manifest.prefix}",
        f"#define DK_OUTPUTS {len(manifest.outputs)}",
    ]
    lines.append(f"#define DK_WEIGHTS {manifest.shared_prefix or manifest.prefix}_weights")
    rows = []
    for index, port in enumerate(manifest.inputs):
        dtype = logical_dtype(port.dtype)
        stored = to_storage(np.asarray(arrays[port.name], dtype.array, order="C"), dtype)
        data = stored.tobytes()
        lines.append(f"static DK_ALIGNED unsigned char input_{index}[] = {{{', '.join(map(str, data or b'0'))}}};")
        shape = ", ".join(map(str, stored.shape)) or "0"
        rows.append(f"{{input_{index}, {len(data)}, (dk_dtype){dtype.code}, {stored.ndim}, {{{shape}}}}}")
    return "\n".join([*lines, f"static const dk_tensor inputs[] = {{{', '.join(rows)}}};"]) + "\n"


def built(
    folder: Path, manifest: Manifest, arrays: Mapping[str, np.ndarray], *options: str, compiler: str = COMPILERS[0]
) -> Crowd:
    """A driver of the artifact in `folder`, whose C files are compiled for ThreadSanitizer."""
    (folder / "given.h").write_text(given(manifest, arrays))
    return compiled(folder, DRIVER, *options, compiler=compiler)


def compiled(folder: Path, driver: Path, *options: str, compiler: str = COMPILERS[0]) -> Crowd:
    sources: list[Path] = [*folder.glob("*.c")]
    sources += folder.glob("*.o")
    call = [compiler, *FLAGS, *options, f"-I{folder}", driver, *sources, "-lm", "-o", folder / "crowd"]
    subprocess.run(call, check=True)

    def run(*words: object) -> tuple[int, int]:
        found = subprocess.run(
            [folder / "crowd", *map(str, words)], capture_output=True, text=True, timeout=300, check=False
        )
        assert (found.returncode, found.stderr) == (0, "")
        right, _, busy, _ = found.stdout.replace(",", "").split()
        return int(right), int(busy)

    return run


def embedded(
    model: onnx.ModelProto | ImportedModel | str, dims: Mapping[str, tuple[int, int]] | None, folder: Path
) -> tuple[Path, Manifest]:
    deploykit.build(model, "embedded", dims, folder)
    return folder, read_manifest(folder)


@pytest.mark.parametrize("compiler", COMPILERS)
def test_a_struct_for_each_thread_and_one_for_all(compiler: str, tmp_path: Path) -> None:
    folder, manifest = embedded(seeded(CELL, WEIGHTS), {"n": (1, 64)}, tmp_path / "dist")
    crowd = built(folder, manifest, sample(13), compiler=compiler)
    assert crowd("own", 60) == (16 * 60, 0)
    right, busy = crowd("one", 2000)
    assert right + busy == 16 * 2000
    assert right > 0
    assert busy > 0


def test_a_pool_for_all(tmp_path: Path) -> None:
    """Kernels in C whose loops run on a pool that all threads share."""
    folder = tmp_path / "dist"
    deploykit.build(seeded(CELL, WEIGHTS), threaded("embedded"), {"n": (1, 700)}, folder)
    for source in (runtime.THREADS, runtime.THREADS_HEADER, runtime.SHARES):
        shutil.copy(source, folder)
    crowd = built(folder, read_manifest(folder), sample(700), "-DDK_POOL")
    assert crowd("own", 10) == (16 * 10, 0)
    assert crowd("own", 10, 4) == (16 * 10, 0)
    right, busy = crowd("one", 50, 4)
    assert right + busy == 16 * 50


def test_the_pool_by_itself(tmp_path: Path) -> None:
    program = tmp_path / "threads"
    sources = (Path(__file__).parents[1] / "runtime" / "threads_test.c", runtime.THREADS)
    includes = (f"-I{runtime.INCLUDE}", f"-I{runtime.THREADS.parent}")
    subprocess.run([COMPILERS[0], *FLAGS, *includes, *sources, "-o", program], check=True)
    subprocess.run([program], check=True, timeout=300)


def test_states(tmp_path: Path) -> None:
    """Each thread has a block of its own."""
    deploykit.build(running_mean(weights()), "embedded", output=tmp_path / "dist")
    manifest = read_manifest(tmp_path / "dist").function("update")
    x = np.random.default_rng(0).standard_normal((3, WIDTH)).astype(np.float32)
    assert built(tmp_path / "dist", manifest, {"x": x}, "-DDK_STATES=3")("own", 60) == (16 * 60, 0)


def test_ragged(tmp_path: Path) -> None:
    folder, manifest = embedded(token_model(), None, tmp_path / "dist")
    lengths = np.array([3, 0, 9, 4])
    x = np.random.default_rng(0).standard_normal((16, 4)).astype(np.float32)
    crowd = built(folder, manifest, {"x": x, "ids": np.arange(16), "lengths": lengths})
    assert crowd("own", 200) == (16 * 200, 0)


@pytest.mark.parametrize("model", ["EarlyExit", pytest.param("Generator", marks=pytest.mark.slow)])
def test_instances(model: str, tmp_path: Path) -> None:
    """Whole runs, and streams."""
    folder, manifest = embedded(
        f"{Path(models.__file__)}:{model}", EMBEDDED | {"elements": (0, 100_000)}, tmp_path / "dist"
    )
    assert manifest.dynamic is not None
    batch: Sequence[object] = instances(model, 6, seed=1)
    arrays = Instances(manifest.dynamic, lambda _: {}).inputs(batch) | {"policy": np.int32(POLICIES["critical"])}
    crowd = built(folder, manifest, arrays, "-DDK_STREAM", f"-DDK_BATCH={len(batch)}")
    assert crowd("own", 10) == (160, 0)
    assert crowd("stream", 10) == (160, 0)
    right, busy = crowd("one", 200)
    assert right + busy == 16 * 200
    assert busy > 0


def test_sessions_of_texts(tmp_path: Path) -> None:
    folder = tmp_path / "dist"
    deploykit.build(sentences_of(tmp_path / "model"), "embedded", {"batch": (1, 3), "tokens": (1, 64)}, folder)
    manifest = read_manifest(folder)
    (width,) = {port.shape[-1] for port in manifest.outputs}
    names = (
        f"-DDK_PREFIX={manifest.prefix}",
        f"-DDK_WEIGHTS={manifest.prefix}_weights",
        f"-DDK_WIDTH={width}",
        f"-DDK_TABLES={manifest.prefix}_tokenizer",
    )
    crowd = compiled(folder, DRIVER.with_name("crowd_texts.c"), *names)
    assert crowd("own", 10) == (160, 0)
    right, busy = crowd("one", 200)
    assert right + busy == 16 * 200
    assert right > 0
    assert busy > 0


WIDTH_OF_PRODUCT = 300


@pytest.mark.parametrize("options", [(), ("-U__GCC_HAVE_SYNC_COMPARE_AND_SWAP_4",)], ids=["atomic", "without"])
def test_calls_inside_of_a_run(options: tuple[str, ...], tmp_path: Path) -> None:
    """They are refused, on a CPU without atomic instructions, too, and the run goes on."""
    folder = tmp_path / "dist"
    product = parse("(float[n, n] x) => (float[n, n] y) { y = MatMul(x, x) }")
    deploykit.build(product, threaded("embedded"), {"n": (1, WIDTH_OF_PRODUCT)}, folder)
    sources = [*folder.glob("*.c")]
    flags = ["-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", f"-DMODEL_ROWS={WIDTH_OF_PRODUCT}", f"-I{folder}"]
    driver = DRIVER.with_name("nested_test.c")
    subprocess.run(
        ["cc", *flags, *SANITIZERS, *options, driver, *sources, "-lm", "-o", tmp_path / "nested"], check=True
    )
    lines = subprocess.run([tmp_path / "nested"], check=True, capture_output=True, text=True).stdout.splitlines()
    assert lines[0].startswith("inside 12 12 12 12 it is in use: ")
    assert lines[-2:] == ["0 same, 0", "after 0 0 0 8 the inputs are NULL"]


@pytest.mark.parametrize(
    ("machine", "cpu"), [("thumb-freestanding-eabi", "cortex_m0"), ("riscv32-freestanding", "generic_rv32")]
)
def test_a_cpu_without_atomic_instructions_needs_no_library(machine: str, cpu: str, tmp_path: Path) -> None:
    for source in runtime.CORE:
        made = tmp_path / f"{source.stem}.o"
        options = ["-target", machine, f"-mcpu={cpu}", "-ffreestanding", f"-I{runtime.WASM_INCLUDE}", "-std=c99", "-O2"]
        call = [sys.executable, "-m", "ziglang", "cc", *options, f"-I{runtime.INCLUDE}", "-c", source, "-o", made]
        subprocess.run(call, check=True)
        assert b"dk_" in made.read_bytes()
        assert b"__atomic" not in made.read_bytes()
