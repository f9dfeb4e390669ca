"""An AAR of several models: a class for each, one runtime, and in a folder for each model its artifact for C."""

from __future__ import annotations

import json
import os
import re
import zipfile
from pathlib import Path

import numpy as np
import onnx
import pytest

import deploykit
from deploykit.artifact.devices import CODE
from deploykit.errors import ArtifactError, UsageError
from deploykit.targets.android import AndroidTarget
from tests.android.conftest import DIMS, aar_of, jar_of, needs_desktop, needs_java, on_desktop
from tests.android.test_libraries import readelf
from tests.frontends.huggingface.test_texts import folder_of
from tests.language.models import write_language_model

pytestmark = needs_java

NEXT = """
<ir_version: 10, opset_import: ["" : 20]>
next (float[b, 16] scores) => (float[b, 16] more) <float[16, 16] mix> { more = MatMul(scores, mix) }
"""

SETTINGS = {"package": "com.acme.models", "class": "Lookup,Next,Opinion", "group": "com.acme", "version": "2.1"}


def next_model() -> onnx.ModelProto:
    model = onnx.parser.parse_model(NEXT)
    mix = np.random.default_rng(1).standard_normal((16, 16)).astype(np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(mix, "mix"))
    return model


@pytest.fixture(scope="module")
def together(model: onnx.ModelProto, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two ONNX models and a folder, with kernels for GPUs."""
    place = tmp_path_factory.mktemp("together")
    texts = folder_of(place / "opinion", "bert-classes")
    models = [model, next_model(), texts]
    built = deploykit.build(
        models, AndroidTarget(["x86_64"]), DIMS, place / "dist", devices=tuple(CODE), settings=SETTINGS
    )
    assert built.manifest.models == ("lookup", "next", "opinion")
    return built.path


def names(path: Path) -> set[str]:
    with zipfile.ZipFile(path) as archive:
        return set(archive.namelist())


@needs_desktop
@pytest.mark.slow
@pytest.mark.parametrize("device", ["cpu", "auto"])
@pytest.mark.parametrize("jar", [False, True])
def test_classes_share_tensors_and_a_library(together: Path, tmp_path: Path, device: str, *, jar: bool) -> None:
    x, ids = np.array([[1, 0, 2], [3, 0, 4]], np.float32), np.array([3, 5])
    with deploykit.open(together / "lookup") as lookup, deploykit.open(together / "next") as following:
        scores = lookup(x=x, ids=ids)["scores"]
        more = following(scores=scores)["more"]
        needs = lookup.peak_bytes({"b": 2, "n": 3})
    with deploykit.open(together / "opinion") as session:
        labels = session.classify("the cat")
    run = on_desktop(together, "Together", tmp_path, jar=jar)
    first, second, *rest, devices, wrong, memory, profile, last = run("all", device)
    for line, expected in ((first, scores), (second, more), (last, more)):
        np.testing.assert_allclose(np.array(line.split(), float), expected.ravel(), rtol=1e-4, atol=1e-5)
    assert [line.split()[0] for line in rest] == [label.name for label in labels]
    np.testing.assert_allclose([float(line.split()[1]) for line in rest], [label.score for label in labels], rtol=1e-5)
    assert device == "auto" or devices == "cpu cpu"
    assert "'scores'" in wrong
    assert int(memory.split()[0]) >= needs
    assert re.fullmatch(r"[1-9]\d* (true|false)", profile)


@pytest.mark.slow
def test_what_models_share_is_there_once(together: Path, tmp_path: Path) -> None:
    aar = aar_of(together)
    assert aar.relative_to(together) == Path("maven/com/acme/models/2.1/models-2.1.aar")
    found = names(aar)
    libraries = {name for name in found if name.startswith("jni/")}
    assert libraries == {"jni/x86_64/libmodels.so"}
    assert {f"assets/{name}/weights.bin" for name in ("lookup", "next", "opinion")} <= found
    assert {f"assets/{name}/{CODE['vulkan']}" for name in ("lookup", "next", "opinion")} <= found
    assert {"assets/opinion/tokenizer.bin", "META-INF/next/NOTICE"} <= found
    with zipfile.ZipFile(aar) as archive:
        library = archive.extract("jni/x86_64/libmodels.so", tmp_path)
        classes = archive.extract("classes.jar", tmp_path)
        rules = archive.read("proguard.txt").decode()
    symbols = [line.split() for line in readelf("--dyn-syms", "-W", library).splitlines()]
    assert [words[-1] for words in symbols if "GLOBAL" in words and "UND" not in words] == ["JNI_OnLoad"]
    own = {Path(name).stem for name in names(Path(classes)) if re.fullmatch(r"[^$]+\.class", name)}
    assert {"Options", "Tensor", "Label", "Device", "Lookup", "Next", "Opinion", "NextSession", "OpinionTexts"} <= own
    assert not {"Session", "Native", "Texts"} & own
    assert set(re.findall(r"models\.(\w+) ", rules)) == {"LookupNative", "NextNative", "OpinionNative", "Library"}
    assert "com/acme/models/linux-x86_64/libmodels.so" in names(jar_of(together))
    sources = names(aar.with_name("models-2.1-sources.jar"))
    assert {f"com/acme/models/{name}.java" for name in own} == {name for name in sources if name.endswith(".java")}
    assert (together / "next/kotlin/NextCoroutines.kt").exists()


@pytest.mark.slow
def test_a_library_of_all_is_smaller_than_those_of_each(model: onnx.ModelProto, together: Path, tmp_path: Path) -> None:
    """Drivers and runtime are there once."""
    with zipfile.ZipFile(aar_of(together)) as archive:
        whole = archive.getinfo("jni/x86_64/libmodels.so").file_size
    total = 0
    texts = folder_of(tmp_path / "opinion", "bert-classes")
    for name, each, dims in (("lookup", model, DIMS), ("next", next_model(), {"b": (1, 8)}), ("opinion", texts, {})):
        place = tmp_path / f"{name}-alone"
        deploykit.build(each, AndroidTarget(["x86_64"]), dims, place, devices=tuple(CODE))
        with zipfile.ZipFile(aar_of(place)) as archive:
            total += archive.getinfo(f"jni/x86_64/lib{name}.so").file_size
    assert whole < 0.8 * total


@needs_desktop
@pytest.mark.slow
def test_each_model_is_an_artifact(together: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    onnx.save(next_model(), tmp_path / "next.onnx")
    listed = json.loads((together / "manifest.json").read_text())
    files = {str(path.relative_to(together)) for path in together.rglob("*") if path.is_file()} - {"manifest.json"}
    assert {entry["name"] for entry in listed["files"]} == files
    with pytest.raises(
        ArtifactError, match=r"holds several models: name the folder of one: .*lookup, .*next, .*opinion"
    ):
        deploykit.verify(together, tmp_path / "next.onnx")
    for abi in ("x86_64", "java"):
        monkeypatch.setitem(os.environ, "DEPLOYKIT_ABI", abi)
        assert deploykit.verify(together / "next", tmp_path / "next.onnx", at={"b": (1, 5)}).within


@needs_desktop
@pytest.mark.slow
def test_a_model_that_generates_beside_another(tmp_path: Path) -> None:
    teller = write_language_model(tmp_path / "teller.gguf")
    target, own = AndroidTarget(["x86_64"]), {"package": "com.acme.talk"}
    built = deploykit.build([teller, next_model()], target, output=tmp_path / "dist", settings=own)
    with deploykit.open(built.path / "teller") as session:
        answer = session.generate("abc", max_tokens=6, temperature=0, ignore_end=True)
        answer.read()
    tokens, more, answered = on_desktop(built.path, "Beside", tmp_path / "java")("all")
    assert json.loads(tokens) == list(answer.tokens)
    assert (more, answered) == ("16", "6")
    other = write_language_model(tmp_path / "other.gguf")
    with pytest.raises(UsageError, match="teller and other generate, and an AAR has one such model at most"):
        deploykit.build([teller, other], target, output=tmp_path / "two")


def test_what_cannot_be_in_one_archive_is_refused(model: onnx.ModelProto, tmp_path: Path) -> None:
    target, out = AndroidTarget(["x86_64"]), tmp_path / "dist"
    for models, options, problem in (
        ([model, model], {}, "two models are called 'lookup': give each its own with --name"),
        ([model, next_model()], {"dims": {"q": 3}}, r"no model has a dim 'q': .* has b, n; .* has b$"),
        ([model, next_model()], {"format": "so"}, "--format so takes one model, found 2"),
        ([model, next_model()], {"route": "own"}, "the option 'route' is for"),
        ([model, next_model()], {"head": "q4"}, "--head is for the output layer of a language model"),
        ([model, next_model()], {"stop_after": "graph"}, "stop_after are for one model"),
        ([model, next_model()], {"settings": {"class": "A"}}, "class= has 1 names for 2 models"),
        ([model, next_model()], {"settings": {"class": "A,A"}}, "two classes are called A"),
        ([model, next_model()], {"settings": {"weights": "apart"}}, "leave weights=apart out"),
    ):
        with pytest.raises(UsageError, match=problem):
            deploykit.build(models, target, output=out, **options)
        assert not out.exists()
    with pytest.raises(UsageError, match="target host takes one model, found 2: build each for itself"):
        deploykit.build([model, next_model()], "host", output=out)
