"""The distribution `deploykit-run`: in an environment without a compiler, artifacts open and run as where they were
built."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tomllib
import venv
from pathlib import Path
from typing import Any

import pytest

import deploykit as dk
from tests.cli.test_try import built as built_for_texts
from tests.cli.test_try_files import built as built_for_files
from tests.cli.test_try_files import said

ROOT = Path(__file__).parents[2]
FULL = "building needs the full package: pip install deploykit"

ANSWERS = """
import json, sys
import deploykit
import numpy as np

folder, kind, *files = sys.argv[1:]
with deploykit.open(folder, threads=2) as session:
    if kind == "tensors":
        found = session(x=np.ones((3, 8), np.float32))["y"]
    elif kind == "embed":
        found = session.embed(["the cat sat", "who?"])
    elif kind == "transcribe":
        found = session.transcribe(files[0])
    else:
        pixels = np.arange(60 * 40 * 3).reshape(40, 60, 3).astype(np.uint8)
        labels = session.match(pixels, ["a cat", "the"]) if kind == "match" else session.classify(pixels)
        found = [[label.name, label.score] for label in labels]
modules = sorted({name.split(".")[0] for name in sys.modules})
print(json.dumps([found.tolist() if isinstance(found, np.ndarray) else found, modules]))
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment with only NumPy, pydantic and the small distribution."""
    place = tmp_path_factory.mktemp("small")
    source = place / "source"
    for name in ("deploykit", "packaging"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__", "build"))
    venv.create(place / "venv", with_pip=True)
    found = place / "venv" / "bin" / "python"
    subprocess.run([found, "-m", "pip", "install", "--quiet", source / "packaging" / "run"], check=True)
    return found


def environment(python: Path) -> dict[str, str]:
    """Without the checkout, and without any compiler."""
    return {"PATH": str(python.parent), "HOME": str(python.parent), "XDG_CACHE_HOME": str(python.parent / "none")}


def run(python: Path, *call: object) -> subprocess.CompletedProcess[str]:
    arguments = [str(each) for each in (python, *call)]
    return subprocess.run(
        arguments, env=environment(python), cwd=python.parent, capture_output=True, text=True, check=False, timeout=300
    )


def here(folder: Path, kind: str, *files: Path) -> Any:
    """The same answers in this environment."""
    call = [sys.executable, "-c", ANSWERS, folder, kind, *files]
    return json.loads(subprocess.run(call, capture_output=True, text=True, check=True, cwd=ROOT).stdout)[0]


def leaves(found: Any) -> list[Any]:
    return [leaf for each in found for leaf in leaves(each)] if isinstance(found, list) else [found]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["tensors", "embed", "classify", "match", "transcribe"])
def test_artifacts_open_and_answer_the_same(python: Path, model: Path, tmp_path: Path, kind: str) -> None:
    files: list[Path] = []
    if kind == "tensors":
        dk.build(model, output=tmp_path / "dist")
    elif kind == "embed":
        built_for_texts(tmp_path, kind)
    else:
        built_for_files(tmp_path, kind)
    if kind == "transcribe":
        files = [tmp_path / "said.wav"]
        said(files[0], 400, 16000)
    done = run(python, "-c", ANSWERS, tmp_path / "dist", kind, *files)
    assert done.returncode == 0, done.stderr
    found, modules = json.loads(done.stdout)
    expected = leaves(here(tmp_path / "dist", kind, *files))
    assert leaves(found) == [each if isinstance(each, str) else pytest.approx(each, abs=1e-6) for each in expected]
    others = set(modules) - sys.stdlib_module_names - {"__main__", "_distutils_hack"}
    allowed = {"deploykit", "numpy", "pydantic", "pydantic_core", "typing_extensions", "typing_inspection"}
    assert {name for name in others if not name.startswith("_sysconfigdata")} <= allowed | {"annotated_types"}


@pytest.mark.slow
def test_what_builds_is_refused(python: Path, model: Path, tmp_path: Path) -> None:
    for name in ("build", "load"):
        done = run(python, "-c", f"import deploykit; deploykit.{name}({str(model)!r})")
        assert f"ToolchainError: {FULL}" in done.stderr
    dk.build(model, output=tmp_path / "dist")
    done = run(python, "-c", f"import deploykit; deploykit.verify({str(tmp_path / 'dist')!r}, {str(model)!r})")
    assert f"ToolchainError: {FULL}" in done.stderr
    done = run(python, "-m", "deploykit", "--version")
    assert done.stderr == "error: the command line needs the package typer: pip install 'deploykit-run[cli]'\n"
    assert done.returncode == 1
    done = run(python, "-m", "pip", "check")
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
def test_the_command_line(python: Path, model: Path, artifact: Path) -> None:
    subprocess.run([python, "-m", "pip", "install", "--quiet", "typer"], check=True)
    command = python.parent / "deploykit"
    for call in (
        ("run", artifact, "--input", "x=random:0"),
        ("bench", artifact, "--seconds", "0"),
        ("inspect", artifact),
        ("targets",),
    ):
        done = run(command, *call)
        assert done.returncode == 0, done.stderr
    for call in (("build", model, "-o", "dist"), ("inspect", model), ("verify", artifact)):
        done = run(command, *call)
        assert (done.returncode, done.stderr.startswith(f"error: {FULL}")) == (4, True), done.stderr
    assert run(command, "--version").stdout == f"deploykit {project(ROOT)['version']}\n"


def project(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return found


def test_both_distributions_agree() -> None:
    full, small = project(ROOT), project(ROOT / "packaging" / "run")
    for key in ("version", "license", "requires-python", "scripts", "entry-points"):
        assert small[key] == full[key]
    further = [each for extra in small["optional-dependencies"].values() for each in extra]
    known = [*full["dependencies"], *full["optional-dependencies"]["pictures"]]
    assert {*small["dependencies"], *further} <= set(known)
