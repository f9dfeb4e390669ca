"""Runs that an app stops: they end between kernels, and the model goes on."""

from __future__ import annotations

import ast
import os
import platform
import subprocess
import zipfile
from pathlib import Path

import numpy as np
import onnx
import pytest

import deploykit
from deploykit.artifact.devices import CODE
from deploykit.engines.native.bionic import without_needed
from deploykit.targets.android import AndroidTarget
from tests.android.conftest import Run, aar_of, marked, needs_gpus, needs_java, on_desktop
from tests.frontends.huggingface.test_texts import sentences_of

pytestmark = [pytest.mark.skipif(platform.machine() != "x86_64", reason="needs x86-64"), needs_java]

TEXT = """
<ir_version: 10, opset_import: ["" : 20]>
spin (int64 trips, float[n] x) => (float[n] y)
{
    go = Constant<value: tensor = bool go {1}>()
    y = Loop(trips, go, x) <body = body (int64 i, bool more, float[n] a) => (bool goes_on, float[n] doubled) {
        goes_on = Identity(more)
        doubled = Add(a, a)
    }>
}
"""


@pytest.fixture(scope="module")
def spin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    package = tmp_path_factory.mktemp("android") / "spin"
    model = onnx.parser.parse_model(TEXT)
    deploykit.build(model, AndroidTarget(["x86_64"]), {"n": (1, 4096)}, package, devices=tuple(CODE))
    return package


@pytest.fixture(scope="module")
def stops(spin: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return marked(on_desktop(spin, "Stops", tmp_path_factory.mktemp("stops")))


def test_a_long_run_is_stopped(stops: Run, tmp_path: Path) -> None:
    assert stops("long", tmp_path, "cpu") == [
        "32.0",
        "CancellationException: the run was stopped",
        "32.0",
        "CancellationException: null",
        "32.0",
        "ClosedException: the model is closed",
    ]


def test_a_profile_has_runs(stops: Run, tmp_path: Path) -> None:
    assert stops("errors", tmp_path, "cpu") == [
        "DataException: a profile has at least 1 run; found 0",
        "DataException: a profile has at least 1 run; found -3",
    ]


@pytest.mark.parametrize("device", ["cpu", *(pytest.param(name, marks=needs_gpus) for name in CODE)])
def test_a_run_that_is_stopped_anywhere_leaves_the_model_usable(stops: Run, device: str, tmp_path: Path) -> None:
    assert stops("anywhere", tmp_path, device) == ["true"]


REPOSITORY = Path.home() / ".m2" / "repository"

KOTLIN = {name: [*REPOSITORY.glob(f"org/jetbrains/{name}-[12]*.jar")] for name in (
    "kotlin/*/2.4.21/kotlin-compiler-embeddable", "kotlin/*/2.4.21/kotlin-stdlib",
    "kotlin/*/2.4.21/kotlin-script-runtime", "kotlin/*/2.4.21/kotlin-daemon-embeddable",
    "kotlin/*/2.4.21/kotlin-build-tools-api", "annotations/13.0/annotations",
    "kotlinx/*/1.10.2/kotlinx-coroutines-core-jvm",
)}  # fmt: skip

needs_kotlin = pytest.mark.skipif(
    not all(KOTLIN.values()), reason="needs kotlin-compiler-embeddable 2.4.21 and kotlinx-coroutines-core-jvm 1.10.2"
)


def kotlin(package: Path, program: str, place: Path) -> list[str]:
    """The lines that a program in Kotlin prints, with the classes and the source in Kotlin of an AAR."""
    with zipfile.ZipFile(aar_of(package)) as archive:
        archive.extractall(place)
    library = next((place / "jni" / "x86_64").iterdir())
    library.write_bytes(without_needed(library.read_bytes()))
    tools = os.pathsep.join(str(jar) for jars in KOTLIN.values() for jar in jars)
    sources = [*(package / "kotlin").iterdir(), Path(__file__).with_name(program)]
    used = [jar for jars in KOTLIN.values() for jar in jars if "stdlib" in jar.name or "coroutines" in jar.name]
    path = os.pathsep.join(map(str, [place / "classes.jar", *used]))
    made = place / "made"
    options = ["-no-stdlib", "-no-reflect", "-Werror", "-jvm-target", "17", "-cp", path, "-d", str(made)]
    compiler = ["java", "-cp", tools, "org.jetbrains.kotlin.cli.jvm.K2JVMCompiler"]
    done = subprocess.run([*compiler, *options, *map(str, sources)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    name = f"{Path(program).stem}Kt"
    call = ["java", f"-Djava.library.path={library.parent}", "-cp", os.pathsep.join([str(made), path]), name]
    done = subprocess.run([*call, str(place / "assets")], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


@needs_kotlin
def test_a_coroutine_that_is_cancelled_stops_its_run(spin: Path, tmp_path: Path) -> None:
    assert kotlin(spin, "Suspending.kt", tmp_path) == [
        "32.0",
        "ShapeException",
        "cancelled soon",
        "32.0",
        "ClosedException",
    ]


def test_names_that_are_keywords_in_kotlin(tmp_path: Path) -> None:
    model = onnx.parser.parse_model(TEXT.replace("spin", "when").replace("trips", "in"))
    deploykit.build(model, AndroidTarget(["x86_64"]), {"n": (1, 4)}, tmp_path / "dist")
    text = (tmp_path / "dist" / "kotlin" / "WhenCoroutines.kt").read_text()
    assert "package org.deploykit.`when`\n" in text
    assert "suspend fun When.runSuspending(`in`: Tensor, x: Tensor): When.Result =" in text
    assert "suspending { run(`in`, x) }" in text


@needs_kotlin
@pytest.mark.slow
def test_a_flow_of_vectors(tmp_path: Path) -> None:
    folder = sentences_of(tmp_path / "model")
    deploykit.build(folder, AndroidTarget(["x86_64"]), output=tmp_path / "dist")
    vectors = [ast.literal_eval(line) for line in kotlin(tmp_path / "dist", "Flows.kt", tmp_path / "run")]
    with deploykit.open(tmp_path / "dist") as session:
        np.testing.assert_allclose(vectors, session.embed(["a", "b c", "a b a"]), rtol=1e-4, atol=1e-5)
