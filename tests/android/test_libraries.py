"""The libraries of a package: what they are made of, and that they compute the same on every ABI."""

from __future__ import annotations

import hashlib
import platform
import re
import shutil
import subprocess
import xml.etree.ElementTree as ET
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

import deploykit
from bench.cases import CASES
from bench.instructions.counters import RESULT, counted, counting, without_emulator
from deploykit import runtime
from deploykit.artifact.folder import Artifact
from deploykit.artifact.manifest import read_manifest
from deploykit.cli.build import archive_lines
from deploykit.engines.native.bionic import can_run, without_needed
from deploykit.errors import ArtifactError, DataError, ShapeError, ToolchainError, UsageError
from deploykit.targets.android import AndroidTarget
from deploykit.targets.android.abis import ABIS
from deploykit.targets.android.java import model_view
from deploykit.targets.android.java_words import class_name, methods
from deploykit.targets.android.linking import LIBRARIES
from tests.android.conftest import DIMS, aar_of, needs_java
from tests.android.test_java import values

OBJDUMP = {"arm64-v8a": "aarch64-linux-gnu-objdump", "armeabi-v7a": "arm-linux-gnueabi-objdump", "x86_64": "objdump"}
MACHINES = {"arm64-v8a": "aarch64", "armeabi-v7a": "arm", "x86_64": "x86_64"}

each_abi = pytest.mark.parametrize("abi", ABIS)


def readelf(*arguments: object) -> str:
    if not shutil.which("readelf"):
        pytest.skip("needs readelf")
    return subprocess.run(["readelf", *map(str, arguments)], capture_output=True, text=True, check=True).stdout


def library(folder: Path, abi: str) -> Path:
    return folder / abi / "liblookup.so"


@each_abi
@pytest.mark.parametrize(("b", "n"), [(1, 1), (3, 7), (8, 64)])
def test_every_abi_computes_the_same(
    libraries: Path, model: onnx.ModelProto, abi: str, b: int, n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not can_run(MACHINES[abi]):
        pytest.skip(f"needs QEMU and a C library for {MACHINES[abi]}")
    monkeypatch.setenv("DEPLOYKIT_ABI", abi)
    with deploykit.open(libraries) as session:
        feeds = values(b, n)
        expected = ReferenceEvaluator(model).run(None, feeds)
        for found, want in zip(session.run(feeds).values(), expected, strict=True):
            np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-6)
        with pytest.raises(ShapeError, match=r"dim 'b'"):
            session.run(values(9, 1))
        with pytest.raises(DataError, match="found 99"):
            session.run({"x": np.zeros((1, 1), np.float32), "ids": np.array([99])})


@pytest.mark.slow
@pytest.mark.skipif(without_emulator() is not None, reason="needs QEMU with plugins, and a compiler for arm64")
def test_each_level_runs_on_its_cpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A library for arm64-v8a takes the kernels that its CPU can run, and all compute the same bits."""
    case = CASES["mobilenet_int8"]
    deploykit.build(case.make(), AndroidTarget(["arm64-v8a"]), case.dims, tmp_path / "dist", format="so")
    image = np.random.default_rng(0).standard_normal((1, 3, 224, 224), dtype=np.float32)
    _, plugin = counting("main", tmp_path)
    monkeypatch.setenv("QEMU_PLUGIN", plugin)
    results, dots, matrices = [], [], []
    for model in ("cortex-a72", "cortex-a76", "max"):
        monkeypatch.setenv("QEMU_CPU", model)
        with deploykit.open(tmp_path / "dist") as session:
            (found,) = session.run({"image": image}).values()
        results.append(found)
        kinds = counted(tmp_path / RESULT).kinds
        dots.append(kinds["dot"])
        matrices.append(kinds["mmla"])
    assert dots[0] == 0
    assert dots[1] > 10_000_000
    assert matrices[:2] == [0, 0]
    assert matrices[2] > 5_000_000
    for found in results:
        np.testing.assert_array_equal(found, results[0])


@pytest.mark.slow
def test_dynamic_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each ABI has dims of its own for sizes that only a run can tell."""
    model = f"{Path(__file__).parents[1] / 'dynamic' / 'models.py'}:TreeLSTM"
    deploykit.build(model, AndroidTarget(), output=tmp_path / "dist", format="so")
    trees = [("Node", ("Leaf", 1), ("Leaf", 2)), ("Leaf", 3)]
    results = []
    for abi in ABIS:
        if can_run(MACHINES[abi]):
            monkeypatch.setenv("DEPLOYKIT_ABI", abi)
            with deploykit.open(tmp_path / "dist") as session:
                results.append(session(trees))
    for found in results:
        np.testing.assert_allclose(found, results[0], rtol=1e-5)


@needs_java
@pytest.mark.skipif(platform.machine() != "x86_64", reason="needs x86-64")
def test_an_aar_runs_in_this_process(package: Path, model: onnx.ModelProto) -> None:
    with deploykit.open(package, threads=2) as session:
        found = session.run(values(3, 7))
    np.testing.assert_allclose(found["scores"], ReferenceEvaluator(model).run(None, values(3, 7))[0], rtol=1e-4)


@each_abi
def test_a_library_asks_for_what_android_has(libraries: Path, abi: str) -> None:
    dynamic = readelf("-dW", library(libraries, abi))
    needed = set(re.findall(r"NEEDED.*\[(.*)\]", dynamic))
    assert needed <= {"libc.so", "libm.so", "libdl.so"}
    assert "libc.so" in needed
    assert "[liblookup.so]" in dynamic
    assert "TEXTREL" not in dynamic
    symbols = [line.split() for line in readelf("-sW", "--dyn-syms", library(libraries, abi)).splitlines()]
    undefined = {words[7] for words in symbols if len(words) > 7 and words[6] == "UND"}
    known = {name for names in LIBRARIES.values() for name in names}
    assert {name for name in undefined - known if not name.startswith("__aeabi_mem")} == set()
    defined = {words[7] for words in symbols if len(words) > 7 and words[6].isdigit()}
    assert {name for name in defined if not name.startswith(("lookup_", "dk_"))} == set()
    assert not any(words[3] == "TLS" for words in symbols if len(words) > 7)


@needs_java
@each_abi
def test_a_library_for_java_exports_what_java_needs(package: Path, abi: str, tmp_path: Path) -> None:
    with zipfile.ZipFile(aar_of(package)) as archive:
        path = Path(archive.extract(f"jni/{abi}/liblookup.so", tmp_path))
    symbols = [line.split() for line in readelf("-sW", "--dyn-syms", path).splitlines()]
    assert [words[7] for words in symbols if len(words) > 7 and words[6].isdigit()] == ["JNI_OnLoad"]


@each_abi
def test_segments_fit_pages_of_16_kib(libraries: Path, abi: str) -> None:
    loads = re.findall(r"LOAD .* (0x[0-9a-f]+)$", readelf("-lW", library(libraries, abi)), re.MULTILINE)
    assert loads
    assert set(loads) == {"0x4000"}
    headers = readelf("-lW", library(libraries, abi))
    assert not re.search(r"LOAD .* RWE ", headers)
    assert ".symtab" not in readelf("-SW", library(libraries, abi))


def test_what_ships_is_said(tmp_path: Path) -> None:
    """Products of 8-bit integers have weights in two orders."""
    model = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["" : 20]>
        product (float[n, 512] x) => (float[n, 512] y) <float[512, 512] w> { y = MatMul(x, w) }""")
    values = np.random.default_rng(0).standard_normal((512, 512)).astype(np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(values, "w"))
    built = deploykit.build(model, AndroidTarget(), {"n": (1, 8)}, tmp_path / "two", format="so", quantize="int8")
    stored = (tmp_path / "two" / "weights.bin").stat().st_size
    notes = [note for note in built.manifest.notes if "ship" in note]
    assert len(notes) == 1
    assert notes[0].startswith(f"{stored / 1e6:.1f} MB of weights ship, because ")
    assert notes[0].endswith("each uses 0.3 MB of them at most")
    assert f"| {stored} |" in (tmp_path / "two" / "README.md").read_text()
    target = AndroidTarget(["x86_64"])
    built = deploykit.build(model, target, {"n": (1, 8)}, tmp_path / "one", format="so", quantize="int8")
    assert not [note for note in built.manifest.notes if "ship" in note]


def test_the_register_of_the_system_is_free(libraries: Path) -> None:
    dump = OBJDUMP["arm64-v8a"]
    if not shutil.which(dump):
        pytest.skip(f"needs {dump}")
    code = subprocess.run([dump, "-d", library(libraries, "arm64-v8a")], capture_output=True, text=True, check=True)
    assert len(code.stdout) > 1000
    assert not re.search(r"\b[wx]18\b", code.stdout)


def test_weights_are_the_same_for_all_abis(libraries: Path, model: onnx.ModelProto, tmp_path: Path) -> None:
    weights = (libraries / "weights.bin").read_bytes()
    for abi in ABIS:
        deploykit.build(model, AndroidTarget([abi]), DIMS, tmp_path / abi, format="so")
        assert (tmp_path / abi / "weights.bin").read_bytes() == weights
        assert [path.name for path in tmp_path.joinpath(abi).iterdir() if path.name in ABIS] == [abi]


@needs_java
def test_what_an_aar_holds(package: Path) -> None:
    with zipfile.ZipFile(aar_of(package)) as archive:
        assert archive.testzip() is None
        infos = {info.filename: info for info in archive.infolist()}
        assert {info.date_time for info in infos.values()} == {(1980, 1, 1, 0, 0, 0)}
        manifest = ET.fromstring(archive.read("AndroidManifest.xml"))
        assert manifest.get("package") == "org.deploykit.lookup"
        assert "24" in str(manifest.find("uses-sdk").attrib)  # type: ignore[union-attr]
        assert set(infos) == {
            *("AndroidManifest.xml", "R.txt", "classes.jar", "proguard.txt", "assets/lookup/weights.bin"),
            "assets/lookup/steps.txt",
            "assets/lookup/NOTICE.txt",
            *("META-INF/LICENSE", "META-INF/NOTICE", "META-INF/com/android/build/gradle/aar-metadata.properties"),
            *(f"jni/{abi}/liblookup.so" for abi in ABIS),
        }
        assert infos["assets/lookup/weights.bin"].compress_type == zipfile.ZIP_STORED
        with archive.open("classes.jar") as inner, zipfile.ZipFile(inner) as classes:
            names = [name for name in classes.namelist() if name.endswith(".class")]
            assert all(name.startswith("org/deploykit/lookup/") for name in names)
            assert {classes.read(name)[:8] for name in names} == {b"\xca\xfe\xba\xbe\0\0\0\x34"}  # Java 8
    for algorithm in ("md5", "sha1", "sha256"):
        path = aar_of(package)
        digest = path.with_name(f"{path.name}.{algorithm}").read_text()
        assert digest == hashlib.new(algorithm, path.read_bytes()).hexdigest()


@needs_java
def test_licences_ship(model: onnx.ModelProto, tmp_path: Path) -> None:
    own = onnx.ModelProto()
    own.CopyFrom(model)
    onnx.helper.set_model_props(own, {"license": "Ask first.\nThen pay <me>."})
    settings = {"url": "https://example.org/?a=1&b=2"}
    deploykit.build(own, AndroidTarget(["x86_64"]), DIMS, tmp_path / "own", settings=settings)
    aar = aar_of(tmp_path / "own")
    for path in (aar, aar.with_name("lookup-1.0-sources.jar")):
        with zipfile.ZipFile(path) as archive:
            assert archive.read("META-INF/LICENSE").decode() == Path("LICENSE").read_text()
            assert "under its own licence: see LICENSE.model" in archive.read("META-INF/NOTICE").decode()
            assert archive.read("META-INF/LICENSE.model") == b"Ask first.\nThen pay <me>."
    with zipfile.ZipFile(aar) as archive:
        shown = archive.read("assets/lookup/NOTICE.txt").decode()
        metadata = archive.read("META-INF/com/android/build/gradle/aar-metadata.properties").decode()
    assert all(text in shown for text in ("is licensed under", "Then pay", "Apache License"))
    assert "minCompileSdk=24" in metadata.splitlines()
    settings = {"license": "MIT"}
    deploykit.build(model, AndroidTarget(["x86_64"]), DIMS, tmp_path / "mit", settings=settings)
    pom = ET.parse(aar_of(tmp_path / "mit").with_suffix(".pom"))
    names = [found.text for found in pom.iter("{http://maven.apache.org/POM/4.0.0}name")]
    assert names == ["lookup", "Apache-2.0", "MIT"]
    assert "<url>https://example.org/?a=1&amp;b=2</url>" in aar.with_suffix(".pom").read_text()


@needs_java
def test_a_build_gives_the_same_bytes(package: Path, model: onnx.ModelProto, tmp_path: Path) -> None:
    deploykit.build(model, AndroidTarget(), DIMS, tmp_path / "again")
    assert aar_of(tmp_path / "again").read_bytes() == aar_of(package).read_bytes()


@needs_java
def test_names_can_be_chosen(model: onnx.ModelProto, tmp_path: Path) -> None:
    settings = {"package": "com.acme.words", "class": "Words", "group": "com.acme", "version": "2.1"}
    deploykit.build(model, AndroidTarget(["x86_64"]), DIMS, tmp_path / "own", settings=settings)
    path = tmp_path / "own" / "maven/com/acme/lookup/2.1/lookup-2.1.aar"
    with zipfile.ZipFile(path) as archive, archive.open("classes.jar") as inner, zipfile.ZipFile(inner) as classes:
        assert "com/acme/words/Words.class" in classes.namelist()
        assert "com/acme/words/Lookup.class" not in classes.namelist()
    assert "<version>2.1</version>" in path.with_suffix(".pom").read_text()


@pytest.mark.sampled(part=6)
@needs_java
@pytest.mark.parametrize("name", ["native", "string", "Result", "tensor", "profile", "two-words", "1"])
def test_any_name_will_do(name: str, model: onnx.ModelProto, tmp_path: Path) -> None:
    renamed = onnx.ModelProto()
    renamed.CopyFrom(model)
    renamed.graph.name = name
    onnx.save(renamed, tmp_path / f"{name}.onnx")
    deploykit.build(tmp_path / f"{name}.onnx", AndroidTarget(["x86_64"]), DIMS, tmp_path / "dist")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"settings": {"package": "Words"}}, "cannot be the name of a Java package"),
        ({"settings": {"package": "com.acme.native"}}, "cannot be the name of a Java package"),
        ({"settings": {"version": "1/2"}}, "cannot be part of Maven coordinates"),
        ({"settings": {"colour": "red"}}, "no setting 'colour': it has package, class, group, version"),
        ({"settings": {"weights": "elsewhere"}}, "weights of an AAR are inside or apart, not 'elsewhere'"),
        ({"settings": {"class": "Tensor"}}, "'Tensor' cannot be the name of the model's class"),
        ({"settings": {"class": "my class"}}, "'my class' cannot be the name of the model's class"),
        ({"format": "apk"}, "no format 'apk': it has aar, so"),
        ({"cpu": "armv8-a"}, "build without --cpu"),
    ],
)
def test_refused_options(model: onnx.ModelProto, tmp_path: Path, options: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        deploykit.build(model, AndroidTarget(), DIMS, tmp_path / "dist", **options)  # type: ignore[arg-type]


def test_other_targets_have_no_formats(model: onnx.ModelProto, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="target host has no format 'aar': it has one form"):
        deploykit.build(model, "host", DIMS, tmp_path / "dist", format="aar")
    with pytest.raises(UsageError, match="target host is for 64-bit machines, and armv7-a is none"):
        deploykit.build(model, "host", DIMS, tmp_path / "dist", cpu="armv7-a")


def test_an_artifact_cannot_choose(libraries: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="it was built for cpu"):
        deploykit.open(libraries, device="gpu")
    with pytest.raises(UsageError, match="chooses its kernels itself"):
        deploykit.open(libraries, cpu="armv8-a")
    monkeypatch.setenv("DEPLOYKIT_ABI", "mips")
    with pytest.raises(UsageError, match="DEPLOYKIT_ABI is 'mips': the artifact has libraries for x86_64"):
        deploykit.open(libraries)


def test_an_aar_needs_a_java_compiler(model: onnx.ModelProto, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(ToolchainError, match="no Java compiler was found: install a JDK"):
        deploykit.build(model, AndroidTarget(["x86_64"]), DIMS, tmp_path / "dist")
    available = AndroidTarget().check()
    assert available.build
    assert available.detail.startswith("only --format so: an AAR holds Java classes")
    deploykit.build(model, AndroidTarget(["x86_64"]), DIMS, tmp_path / "dist", format="so")


@needs_java
def test_the_build_prints_the_size_of_each_library(package: Path) -> None:
    found = archive_lines(Artifact(package, read_manifest(package)))
    assert [line.split(":")[0] for line in found] == [f"In AAR  jni/{abi}/liblookup.so" for abi in ABIS]
    assert all(re.search(r": [\d,]+ bytes, [\d,]+ compressed$", line) for line in found)


def test_only_elf_files_are_adapted() -> None:
    with pytest.raises(ArtifactError, match="ELF"):
        without_needed(b"MZ")


def test_names_in_java() -> None:
    axes = [{"dim": 0, "extent": 0}, {"dim": "DK_AXIS_FIXED", "extent": 3}]
    formula = [{"dim": "DK_AXIS_FORMULA", "extent": 0}]
    function: dict[str, Any] = {
        "function": None,
        "states": None,
        "dims": [{"name": "new", "minimum": 1, "maximum": -1, "capacity": False}],
        "inputs": [{"name": "x.1", "type": "float16[new, 3]", "axes": axes}],
        "outputs": [{"name": "x.1", "type": "bool[new]", "axes": axes}, {"name": "x-1", "type": "int8", "axes": []}],
    }
    view: dict[str, Any] = {
        "package": "a.b",
        "prefix": "tensor",
        "own": "",
        "library": "",
        "file_bytes": 0,
        "class": class_name("tensor"),
        "on_gpu": None,
        "stateful": None,
        "dynamic": None,
        "instances": None,
        "texts": None,
        "pictures": None,
        "messages": None,
        "sounds": None,
    }
    view["functions"] = [function]
    assert [class_name(name) for name in ("tokens", "my_tokens")] == ["TokensModel", "MyTokens"]
    assert model_view(view)["class"] == "TensorModel"
    (found,) = model_view(view)["functions"]
    assert found["arrays"] == ["@NonNull short[] x_1", "long new_"]
    assert found["made"] == ["Tensor.of(x_1, new_, 3)"]
    assert [port["word"] for port in found["outputs"]] == ["x_1", "x_12"]
    function["inputs"] = [{"name": "x", "type": "float32[2*new]", "axes": formula}]
    assert model_view(view)["functions"][0]["arrays"] == []
    assert methods([None]) == [""]
    assert methods(["read", "Read", "read", "close", "a.b"]) == ["read", "Read2", "read3", "close2", "a_b"]


def test_places_in_the_tables_of_java(tmp_path: Path) -> None:
    """Compare the numbers of `jni.h` with those of a JDK."""
    compiler = shutil.which("javac")
    home = Path(compiler).resolve().parents[1] if compiler else Path()
    if not (home / "include" / "jni.h").exists() or not shutil.which("gcc"):
        pytest.skip("needs the headers of a JDK, and gcc")
    names = {
        6: "FindClass",
        23: "DeleteLocalRef",
        171: "GetArrayLength",
        173: "GetObjectArrayElement",
        200: "GetByteArrayRegion",
        204: "GetLongArrayRegion",
        208: "SetByteArrayRegion",
        212: "SetLongArrayRegion",
        215: "RegisterNatives",
        230: "GetDirectBufferAddress",
        231: "GetDirectBufferCapacity",
    }
    own = runtime.ANDROID_JNI_GPU.with_name("jni.h").read_text()
    assert {int(number) for number in re.findall(r"\(\*env\)\[(\d+)\]", own)} == set(names)
    checks = "".join(
        f'_Static_assert(offsetof(struct JNINativeInterface_, {name}) == {number} * sizeof(void*), "{name}");\n'
        for number, name in names.items()
    )
    checks += '_Static_assert(offsetof(struct JNIInvokeInterface_, GetEnv) == 6 * sizeof(void*), "GetEnv");\n'
    source = tmp_path / "places.c"
    source.write_text(f"#include <stddef.h>\n#include <jni.h>\n{checks}")
    places = [f"-I{home / 'include'}", f"-I{home / 'include' / 'linux'}"]
    subprocess.run(["gcc", "-std=c11", "-c", str(source), "-o", str(tmp_path / "places.o"), *places], check=True)
