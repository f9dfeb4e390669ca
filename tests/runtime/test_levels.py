"""Artifacts with kernels for certain CPUs: all levels give the same results; CPUs that lack instructions are
refused."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

import deploykit
from deploykit import runtime
from deploykit.artifact.folder import Artifact
from deploykit.artifact.plan import read_plan
from deploykit.checks.profiling import profile
from deploykit.compiler.codegen.native.cpus import CHECKED, PORTABLE_LEVELS, find_cpu, host_cpu, levels
from deploykit.errors import UsageError


def runnable(cpu: str) -> bool:
    return set(find_cpu(cpu).requires) <= set(host_cpu().requires)


@pytest.fixture(scope="module")
def build(model: onnx.ModelProto, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Artifact]:
    """Returns a function that builds the model for a CPU, once for each CPU."""
    made: dict[str, Artifact] = {}

    def build(cpu: str) -> Artifact:
        if cpu not in made:
            artifact = deploykit.build(model, cpu=cpu, output=tmp_path_factory.mktemp("levels") / "dist")
            assert artifact is not None
            made[cpu] = artifact
        return made[cpu]

    return build


@pytest.mark.parametrize("cpu", [None, *PORTABLE_LEVELS])
def test_each_level_computes_the_same(
    build: Callable[[str], Artifact], model: onnx.ModelProto, cpu: str | None
) -> None:
    if cpu is not None and not runnable(cpu):
        pytest.skip(f"this CPU cannot run {cpu}")
    reference = ReferenceEvaluator(model)
    with deploykit.open(build("portable").path, cpu=cpu, threads=2) as session:
        for n, h in ((1, 20), (3, 11), (2, 64)):
            x = np.random.default_rng(n).standard_normal((n, 3, h, 20)).astype(np.float32)
            np.testing.assert_allclose(session(x=x)["y"], reference.run(None, {"x": x})[0], rtol=1e-4, atol=1e-6)


def test_the_manifest_names_the_levels_and_lower_levels_share_weights(build: Callable[[str], Artifact]) -> None:
    portable, single = build("portable").manifest, build("x86-64-v4").manifest
    assert (portable.cpu, portable.levels) == ("portable", PORTABLE_LEVELS)
    assert (single.cpu, single.levels) == ("x86-64-v4", ())
    assert portable.peak_memory.weights < 2.5 * single.peak_memory.weights
    assert {"part_x86_64_v2.c", "part_x86_64_v3.c", "part_x86_64_v4.c"} <= {file.name for file in portable.files}


def test_names_with_commas_are_levels(build: Callable[[str], Artifact], model: onnx.ModelProto) -> None:
    artifact = build("x86-64-amx,x86-64-v3,x86-64-amx")
    assert artifact.manifest.levels == ("x86-64-amx", "x86-64-v3")
    assert levels("x86-64-amx,portable") == ("x86-64-amx", *PORTABLE_LEVELS)
    x = np.random.default_rng(3).standard_normal((3, 3, 11, 20)).astype(np.float32)
    with deploykit.open(artifact.path) as session:
        np.testing.assert_allclose(
            session(x=x)["y"], ReferenceEvaluator(model).run(None, {"x": x})[0], rtol=1e-4, atol=1e-6
        )


@pytest.mark.parametrize("names", ["x86-64-v3,armv8-a", "portable,pentium", "x86-64-v3,"])
def test_levels_that_cannot_be_in_one_artifact(model: onnx.ModelProto, names: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"CPUs of one kind|unknown CPU"):
        deploykit.build(model, cpu=names, output=tmp_path / "dist")
    assert not (tmp_path / "dist").exists()


def test_a_missing_level_is_refused(build: Callable[[str], Artifact]) -> None:
    with pytest.raises(UsageError, match="has no kernels for armv8-a: it has x86-64-v4, x86-64-v3, x86-64-v2"):
        deploykit.open(build("portable").path, cpu="armv8-a")
    with pytest.raises(UsageError, match="it is for one CPU"):
        deploykit.open(build("x86-64-v2").path, cpu="x86-64-v2")


@pytest.mark.parametrize("cpu", [None, *PORTABLE_LEVELS])
def test_the_steps_of_each_level_are_timed(build: Callable[[str], Artifact], cpu: str | None) -> None:
    if cpu is not None and not runnable(cpu):
        pytest.skip(f"this CPU cannot run {cpu}")
    folder = build("portable").path
    with deploykit.open(folder, cpu=cpu, profile=True) as session, deploykit.open(folder, cpu=cpu) as plain:
        x = np.random.default_rng(0).standard_normal((2, 3, 24, 20)).astype(np.float32)
        np.testing.assert_array_equal(session(x=x)["y"], plain(x=x)["y"])
        calls, seconds = session.step_times()
        launched = [entry.step for entry in session.plan.work]
        assert len(calls) == len(session.plan.steps)
        assert (calls[launched] == 1).all()
        assert (seconds[launched] > 0).all()


def test_a_profile_is_of_the_best_level(build: Callable[[str], Artifact]) -> None:
    folder = build("portable").path
    found = profile(folder, {"x": np.ones((2, 3, 24, 20), np.float32)}, {"n": 2, "h": 24}, seconds=0)
    best = next(cpu for cpu in PORTABLE_LEVELS if runnable(cpu))
    plan = read_plan(folder, None if best == PORTABLE_LEVELS[0] else best)
    assert {step.name for step in found.steps} <= set(plan.steps)
    assert all(kernel.flops_per_second for kernel in found.kernels() if "conv" in kernel.name)


def test_sanitizers_accept_artifacts_with_levels(build: Callable[[str], Artifact]) -> None:
    x = np.ones((1, 3, 8, 20), np.float32)
    with (
        deploykit.open(build("portable").path) as session,
        deploykit.open(build("portable").path, sanitize=True) as slow,
    ):
        np.testing.assert_allclose(session(x=x)["y"], slow(x=x)["y"], rtol=1e-5)


def test_a_cpu_that_lacks_instructions_is_refused(build: Callable[[str], Artifact]) -> None:
    # What no kernel uses is not asked for: these have no products of tiles.
    missing = sorted(
        name for name in CHECKED[host_cpu().triple] - set(host_cpu().requires) if not name.startswith("amx")
    )
    if not missing:
        pytest.skip("this CPU has everything")
    base = "x86-64-v2" if host_cpu().triple.startswith("x86") else "armv8-a"
    with pytest.raises(UsageError, match=r"compiled for CPU .*, and this one lacks some of its instructions"):
        deploykit.open(build(f"{base}+{missing[0]}").path)


def test_the_host_code_and_the_compiler_detect_the_same_features(tmp_path: Path) -> None:
    """The host code itself detects the features of the CPU. LLVM detects them when a model is built for this
    machine."""
    names = sorted(CHECKED[host_cpu().triple])
    macros = {name: f"DK_CPU_{re.sub('[^a-z0-9]', '_', name).upper()}" for name in names}
    lines = "".join(f'if (f & {macro}) puts("{name}");' for name, macro in macros.items())
    source = tmp_path / "show.c"
    source.write_text(
        '#include "cpu.h"\n#include <stdio.h>\n'
        f"int main(void) {{ uint64_t f = dk_cpu_features(UINT64_MAX); {lines} }}\n"
    )
    program = tmp_path / "show"
    flags = ["-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", f"-I{runtime.CPU.parent}"]
    subprocess.run(["gcc", *flags, source, runtime.CPU, "-o", program], check=True)
    found = subprocess.run([program], check=True, capture_output=True, text=True).stdout.split()
    assert tuple(found) == host_cpu().requires


@pytest.mark.parametrize("name", ["pentium", "x86-64-v3+dotprod", "armv8-a+avx2"])
def test_unknown_cpus_and_features(name: str) -> None:
    with pytest.raises(UsageError, match="unknown"):
        find_cpu(name)
