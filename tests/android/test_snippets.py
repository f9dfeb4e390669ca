"""The programs in Java and Kotlin of the page of Android, and of READMEs, compile against the classes of packages."""

from __future__ import annotations

import re
import shutil
import subprocess
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

import deploykit
from bench.cases import CASES
from deploykit.targets.android import AndroidTarget
from deploykit.targets.android.jars import find_java_compiler
from deploykit.targets.android.java import stubs
from tests.android.conftest import aar_of, needs_java
from tests.dynamic import models
from tests.frontends.huggingface.test_picture_answers import folder_of as picture_folder_of
from tests.frontends.huggingface.test_texts import folder_of
from tests.frontends.running_mean import running_mean, weights
from tests.language.models import write_language_model
from tests.ragged import ragged_model

pytestmark = [needs_java, pytest.mark.slow]

PAGE = Path(__file__).parents[2] / "docs" / "targets" / "android.md"

LOG = "package android.util; public final class Log { LOGS }".replace(
    "LOGS", " ".join(f"public static int {name}(String tag, String text) {{ return 0; }}" for name in "iw")
)

ENCODER = """
    (int64[tokens] ids, int64[batch] lengths) => (float[tokens,4] hidden, int64[batch] counts)
    <float[9,4] table = {TABLE}>
    { hidden = Gather(table, ids)  counts = Neg(lengths) }
""".replace("TABLE", ", ".join(["0.5"] * 36))


def _encoder() -> deploykit.compiler.model.ImportedModel:
    instances = {"ids": ("lengths",), "hidden": ("lengths", 4)}
    return replace(ragged_model(ENCODER, instances, {"batch": (0, 8), "tokens": (0, 64)}), name="encoder")


@dataclass(frozen=True)
class Subject:
    """A model that snippets are about: how it is built, and what those of the page and of its README find declared."""

    build: Callable[[Path], object]
    declared: Mapping[str, str]
    in_readme: Mapping[str, str]


def _built(model: object, dims: object = None) -> Callable[[Path], object]:
    return lambda folder: deploykit.build(model, AndroidTarget(["x86_64"]), dims, folder)  # type: ignore[arg-type]


def _sentiment(folder: Path) -> None:
    source = folder_of(folder.with_name("source") / "Sentiment", "bert-classes")
    deploykit.build(source, AndroidTarget(["x86_64"]), output=folder)


def _flowers(folder: Path) -> None:
    source = picture_folder_of(folder.with_name("source") / "Flowers", "classify")
    deploykit.build(source, AndroidTarget(["x86_64"]), output=folder)


def _smol(folder: Path) -> None:
    source = write_language_model(folder.with_name("smol.gguf"))
    deploykit.build(source, AndroidTarget(["x86_64"]), output=folder)


SUBJECTS = {
    "Cnn": Subject(
        _built(CASES["cnn"].make(), {"batch": (1, 8)}), {"image": "float[]"}, {"image": "float[]", "batch": "long"}
    ),
    "Mean": Subject(
        _built(running_mean(weights())),
        {"streams": "long", "x": "float[]", "query": "float[]"},
        {"rows": "float[]", "rows2": "long"},
    ),
    "Encoder": Subject(_built(_encoder()), dict.fromkeys(("first", "second", "third"), "long[]"), {"ids": "Ragged"}),
    "Sentiment": Subject(_sentiment, {}, {}),
    "Flowers": Subject(_flowers, {"bitmap": "Bitmap"}, {"bitmap": "Bitmap"}),
    "Smol": Subject(_smol, {}, {}),
    "TreeLSTM": Subject(_built(f"{models.__file__}:TreeLSTM"), {}, {}),
}
"""By the name of the class."""

OTHERS = {"Tree": "TreeLSTM", "Profile": "Cnn"}
"""Of snippets that do not name the class of the model: a class in them, and that of the model."""


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Path]]:
    """The places of the classes for each model: those of the package, and those of Android."""
    place = tmp_path_factory.mktemp("snippets")
    android = place / "android"
    for name, text in {**stubs(), "android/util/Log.java": LOG}.items():
        (android / "src" / name).parent.mkdir(parents=True, exist_ok=True)
        (android / "src" / name).write_text(text)
    sources = map(str, (android / "src").rglob("*.java"))
    subprocess.run([find_java_compiler().path, "--release", "8", "-d", str(android), *sources], check=True)
    found = {}
    for name, subject in SUBJECTS.items():
        subject.build(place / name)
        with zipfile.ZipFile(aar_of(place / name)) as archive:
            archive.extract("classes.jar", place / name)
        found[name] = [place / name / "classes.jar", android]
    return found


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def subject_of(block: str) -> str:
    words = set(re.findall(r"\w+", block))
    named = [name for name in SUBJECTS if name in words] or [OTHERS[word] for word in OTHERS if word in words]
    assert len(named) == 1, f"it is not clear which model the snippet is about:\n{block}"
    return named[0]


def package_of(subject: str) -> str:
    return f"org.deploykit.{subject.lower()}"


def java_program(block: str, subject: str, declared: Mapping[str, str]) -> str:
    """A class with the statements of a block in a method, whose parameters are what the block finds declared."""
    imports = re.findall(r"^import .*\n", block, re.MULTILINE) or [f"import {package_of(subject)}.*;\n"]
    body = "".join(f"        {line}\n" for line in re.sub(r"^import .*\n", "", block, flags=re.MULTILINE).splitlines())
    parameters = {**({} if "try (" in block else {"model": subject}), **declared, "context": "Context"}
    listed = ", ".join(f"{kind} {name}" for name, kind in parameters.items())
    imported = [
        "import android.content.Context;\n",
        "import android.graphics.Bitmap;\n",
        "import android.util.Log;\n",
        "import java.util.*;\n",
        *imports,
    ]
    return f"{''.join(imported)}\nclass App {{\n    void snippet({listed}) {{\n{body}    }}\n}}\n"


def compile_java(program: str, places: list[Path], folder: Path) -> None:
    source = folder / "App.java"
    source.write_text(program)
    path = ":".join(map(str, places))
    call = [find_java_compiler().path, "--release", "8", "-Xlint:-options", "-cp", path, "-d", str(folder), str(source)]
    result = subprocess.run(call, capture_output=True, text=True, check=False)
    assert result.returncode == 0, f"{program}\n{result.stderr}"


def test_java_of_the_page(classes: Mapping[str, list[Path]], tmp_path: Path) -> None:
    found = blocks(PAGE.read_text(), "java")
    for block in found:
        subject = subject_of(block)
        compile_java(java_program(block, subject, SUBJECTS[subject].declared), classes[subject], tmp_path)
    assert {subject_of(block) for block in found} == set(SUBJECTS)
    with pytest.raises(AssertionError, match="cannot find symbol"):
        compile_java(java_program("model.close(unknown);", "Cnn", {}), classes["Cnn"], tmp_path)


def test_java_of_readmes(classes: Mapping[str, list[Path]], tmp_path: Path) -> None:
    for name, places in classes.items():
        (block,) = blocks(places[0].with_name("README.md").read_text(), "java")
        compile_java(java_program(block, name, SUBJECTS[name].in_readme), places, tmp_path)


def kotlin_program(block: str, declared: Mapping[str, str]) -> str:
    imports = "".join(re.findall(r"^import .*\n", block, re.MULTILINE))
    body = re.sub(r"^import .*\n", "", block, flags=re.MULTILINE)
    kinds = {"float[]": "FloatArray", "long": "Long"}
    listed = ", ".join(f"{name}: {kinds.get(kind, kind)}" for name, kind in {**declared, "context": "Context"}.items())
    of_android = "import android.content.Context\nimport android.graphics.Bitmap\n"
    return f"{of_android}{imports}\nfun snippet({listed}) {{\n{body}}}\n"


@pytest.mark.skipif(not shutil.which("kotlinc"), reason="needs kotlinc (Debian: kotlin)")
def test_kotlin(classes: Mapping[str, list[Path]], tmp_path: Path) -> None:
    """Of the page and of READMEs; the scripts of Gradle are left out."""
    scripts = ("android {", "dependencies {")
    page = [block for block in blocks(PAGE.read_text(), "kotlin") if not block.startswith(scripts)]
    declared = {"image": "float[]", "bitmap": "Bitmap"}
    programs = {f"page{number}": kotlin_program(block, declared) for number, block in enumerate(page)}
    for name, places in classes.items():
        readme = places[0].with_name("README.md").read_text()
        (block,) = [block for block in blocks(readme, "kotlin") if not block.startswith(scripts)]
        programs[name] = kotlin_program(block, SUBJECTS[name].in_readme)
    for name, program in programs.items():
        (tmp_path / f"{name}.kt").write_text(f"package {name.lower()}\n\n{program}")
    # Android projects have this library, or a later one of which it is a part.
    library = Path(str(shutil.which("kotlinc"))).resolve().parents[1] / "lib" / "kotlin-stdlib-jdk7.jar"
    path = ":".join(map(str, [library, *(place for places in classes.values() for place in places)]))
    call = ["kotlinc", *(str(tmp_path / f"{name}.kt") for name in programs), "-cp", path, "-d", str(tmp_path / "out")]
    result = subprocess.run(call, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "out" / "page0" / "Page0Kt.class").exists()
