"""A model of two dynamic dims, built for Android, and its classes on a desktop JVM."""

from __future__ import annotations

import ctypes
import ctypes.util
import os
import platform
import re
import shutil
import subprocess
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest

import deploykit
from deploykit import runtime
from deploykit.artifact.devices import CODE
from deploykit.engines.native.adapters import adapters
from deploykit.engines.native.bionic import without_needed
from deploykit.targets.android import AndroidTarget
from deploykit.targets.android.jars import find_java_compiler
from deploykit.targets.android.java import stubs

JAVA = [shutil.which("java"), shutil.which("javac")]

needs_java = pytest.mark.skipif(not all(JAVA), reason="needs a JDK")

needs_desktop = pytest.mark.skipif(platform.machine() != "x86_64", reason="needs x86-64")

needs_gpus = pytest.mark.skipif(not all(map(adapters, CODE)), reason="needs a device with Vulkan and one with OpenCL")

DIMS = {"b": (1, 8), "n": (1, 64)}

TEXT = """
<ir_version: 10, opset_import: ["" : 20]>
lookup (float[b, n] x, int64[b] ids) => (float[b, 16] scores, int64[2, found] places)
<float[16, 16] table, float[16, 16] weight>
{
    one = Constant<value_ints: ints = [1]>()
    rows = Gather(table, ids)
    total = ReduceSum(x, one)
    sums = Add(rows, total)
    product = MatMul(sums, weight)
    scores = Tanh(product)
    places = NonZero(x)
}
"""

Run = Callable[..., list[str]]


@pytest.fixture(scope="session")
def model() -> onnx.ModelProto:
    model = onnx.parser.parse_model(TEXT)
    rng = np.random.default_rng(0)
    for name in ("table", "weight"):
        values = rng.standard_normal((16, 16)).astype(np.float32) / 4
        model.graph.initializer.append(onnx.numpy_helper.from_array(values, name))
    return model


@pytest.fixture(scope="session")
def package(model: onnx.ModelProto, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The artifact with an AAR for all ABIs."""
    if not all(JAVA):
        pytest.skip("needs a JDK")
    folder = tmp_path_factory.mktemp("android") / "lookup"
    deploykit.build(model, AndroidTarget(), DIMS, folder)
    return folder


@pytest.fixture(scope="session")
def libraries(model: onnx.ModelProto, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The artifact with libraries for C."""
    folder = tmp_path_factory.mktemp("android") / "lookup-so"
    deploykit.build(model, AndroidTarget(), DIMS, folder, format="so")
    return folder


def aar_of(package: Path) -> Path:
    (found,) = package.glob("maven/**/*.aar")
    return found


def jar_of(package: Path) -> Path:
    """The jar with the library for tests on a JVM."""
    (found,) = package.glob("maven/**/*-jvm.jar")
    return found


@pytest.fixture(scope="session")
def desktop(package: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return on_desktop(package, "Desktop", tmp_path_factory.mktemp("desktop"))


def on_desktop(
    package: Path, test: str, place: Path, further: Sequence[str] = (), *, declared: bool = False, jar: bool = False
) -> Run:
    """Runs a case of the class `test`, which needs `further` ones, on a JVM with the classes and the library of the
    AAR, or with that of the jar for a JVM; returns the lines that it prints. The first arguments of the case are the
    folders of the assets and of the test. `declared`: it also needs the classes of Android that are declared for the
    compiler."""
    with zipfile.ZipFile(aar_of(package)) as archive:
        archive.extractall(place)
    library = next((place / "jni" / "x86_64").iterdir())
    library.write_bytes(without_needed(library.read_bytes()))
    classes = place / "test"
    natives = [str(jar_of(package))] if jar else []
    path = os.pathsep.join([str(place / "classes.jar"), str(classes), *natives])
    sources = [str(Path(__file__).with_name(f"{name}.java")) for name in (test, *further)]
    for name, text in (stubs() if declared else {}).items():
        if Path(name).stem not in further and name.startswith("android/"):
            sources.append(str(place / "declared" / name))
            Path(sources[-1]).parent.mkdir(parents=True, exist_ok=True)
            Path(sources[-1]).write_text(text)
    subprocess.run([find_java_compiler().path, "-cp", path, "-d", str(classes), *sources], check=True)

    def run(case: str, *arguments: object) -> list[str]:
        options = ["-Xcheck:jni", "-Xmx512m", "-XX:+UseSerialGC"]
        options += [] if jar else [f"-Djava.library.path={library.parent}"]
        call = ["java", *options, "-cp", path, test, case, str(place / "assets"), str(place), *map(str, arguments)]
        # Drivers on a desktop take over signals that a JVM with several threads needs.
        chaining = Path(str(JAVA[0])).resolve().parents[1] / "lib" / "libjsig.so"
        own = {**os.environ, **({"LD_PRELOAD": str(chaining)} if chaining.exists() else {})}
        result = subprocess.run(call, capture_output=True, text=True, timeout=300, check=False, env=own)
        assert result.returncode == 0, result.stdout + result.stderr
        assert "WARNING" not in result.stdout + result.stderr, result.stdout + result.stderr
        return result.stdout.splitlines()

    return run


def marked(run: Run) -> Run:
    """The same for a program that marks its lines, because drivers print others."""
    return lambda *words: [line[2:] for line in run(*words) if line.startswith("> ")]


@pytest.fixture(scope="session")
def on_java(model: onnx.ModelProto, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Run]:
    """An AAR with kernels for all devices, and what runs it on a JVM."""
    package = tmp_path_factory.mktemp("android") / "lookup"
    deploykit.build(model, AndroidTarget(["x86_64"]), DIMS, package, devices=tuple(CODE))
    return package, marked(on_desktop(package, "Gpus", tmp_path_factory.mktemp("gpus")))


@pytest.fixture(scope="session")
def failing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a Vulkan library that fails as FAILING says."""
    real = ctypes.util.find_library("vulkan")
    if not adapters("vulkan") or real is None or not shutil.which("gcc"):
        pytest.skip("needs a device with Vulkan, and gcc")
    loaded = ctypes.CDLL(real)
    assert loaded
    mapped = re.search(r"\S*/libvulkan\.so\S*", Path("/proc/self/maps").read_text())
    assert mapped is not None
    folder = tmp_path_factory.mktemp("failing")
    source = Path(__file__).parents[1] / "driver" / "failing_vulkan.c"
    # It stays loaded: otherwise the system's library, which it has loaded, would be found next time.
    options = [
        "-shared",
        "-fPIC",
        "-std=c99",
        "-Wl,-soname,libvulkan.so.1,-z,nodelete",
        f'-DREAL="{mapped.group()}"',
        f"-I{runtime.GPU}",
    ]
    subprocess.run(["gcc", *options, str(source), "-o", str(folder / "libvulkan.so.1"), "-ldl"], check=True)
    return folder
