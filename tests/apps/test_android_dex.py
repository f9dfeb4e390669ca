"""What a release of the sample app for Android holds, read back: the methods that its code calls, and its resources.

Java's own library is left out: javac has compared with that of Java 8.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from apps.android.build import entries
from apps.android.steps import archives
from apps.android.steps.manifest import LEAST, PACKAGE
from apps.android.steps.models import built
from apps.android.steps.parts import MAIN, MODELS, compile_parts
from apps.android.steps.signing import key_of_this_machine, sign
from apps.android.steps.zips import write_aligned
from tests.android.conftest import needs_desktop, needs_java
from tests.apps.class_files import Jar, Member

androguard = pytest.importorskip("androguard", reason="needs androguard: pip install -e '.[android]'")

pytestmark = [needs_java, needs_desktop, pytest.mark.slow]

FRAMEWORKS = {
    24: "org.robolectric:android-all-instrumented:jar:7.0.0_r1-robolectric-r1-i7",
    29: "org.robolectric:android-all-instrumented:jar:10-robolectric-5803371-i7",
    34: "org.robolectric:android-all-instrumented:jar:14-robolectric-10818077-i7",
    36: "org.robolectric:android-all-instrumented:jar:16-robolectric-13921718-i7",
}
"""By API, Android's framework."""

GUARDED: Mapping[str, int] = {}
"""Methods that the app calls only where `Build.VERSION.SDK_INT` says so, as `android/view/View.name`: the first API."""

HIDDEN = ("UnsupportedAppUsage", "SystemApi", "TestApi")
"""What annotations of hidden members of Android end with."""


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory, android_models: Path) -> dict[str, bytes]:
    """The entries of a release."""
    if lacking := archives.missing(archives.BUILD, archives.KOTLIN):
        pytest.skip(f"needs {lacking[0]}: {archives.FETCH}")
    folder = tmp_path_factory.mktemp("release")
    return entries(compile_parts(["x86_64"], folder, android_models, debug=False), folder)


@pytest.fixture(scope="module")
def called(release: Mapping[str, bytes]) -> set[tuple[str, str, str]]:
    """The class, name and descriptor of each method of the framework that the code calls."""
    from androguard.core.analysis.analysis import Analysis
    from androguard.core.dex import DEX
    from loguru import logger

    logger.disable("androguard")
    analysis = Analysis(DEX(release["classes.dex"]))
    analysis.create_xref()
    own = {found.name for found in analysis.get_internal_classes()}
    external = [method for method in analysis.get_methods() if method.is_external()]
    methods = {(found.class_name[1:-1], found.name, found.descriptor.replace(" ", "")) for found in external}
    assert f"L{PACKAGE.replace('.', '/')}/DrawActivity;" in own
    assert ("android/app/Activity", "onCreate", "(Landroid/os/Bundle;)V") in methods
    return {method for method in methods if method[0].startswith(("android/", "com/", "dalvik/", "libcore/", "sun/"))}


@pytest.fixture(params=FRAMEWORKS, ids=str)
def framework(request: pytest.FixtureRequest) -> Iterator[tuple[int, Jar]]:
    path = archives.path_of(FRAMEWORKS[request.param])
    if not path.exists():
        pytest.skip(f"needs {path.name}: `python -m apps.android.build --fetch all`")
    with Jar(path) as jar:
        yield request.param, jar


@pytest.fixture
def plain() -> Iterator[Jar]:
    """The framework as it is, with the annotations of its members."""
    if lacking := archives.missing(archives.BUILD, archives.KOTLIN):
        pytest.skip(f"needs {lacking[0]}: {archives.FETCH}")
    with Jar(archives.find_tools().framework) as jar:
        yield jar


def _is_hidden(member: Member) -> bool:
    return not member.visible or any(each.endswith(HIDDEN) for each in member.annotations)


def test_methods_are_there(called: set[tuple[str, str, str]], framework: tuple[int, Jar]) -> None:
    api, jar = framework
    absent = [method for method in sorted(called) if jar.member(*method) is None]
    assert [method for method in absent if api >= GUARDED.get(f"{method[0]}.{method[1]}", LEAST)] == []


def test_no_method_is_hidden(called: set[tuple[str, str, str]], plain: Jar) -> None:
    """A class that is hidden as a whole, without an annotation at its members, is not found out."""
    found = {method: plain.member(*method) for method in called}
    assert [method for method, member in sorted(found.items()) if member is not None and _is_hidden(member)] == []
    assert any(found.values())


def test_guards_are_for_methods_that_are_called(called: set[tuple[str, str, str]]) -> None:
    assert GUARDED.keys() <= {f"{owner}.{name}" for owner, name, _ in called}


def test_no_reflection_into_the_framework(release: Mapping[str, bytes], called: set[tuple[str, str, str]]) -> None:
    """Names of hidden classes are no texts of the code."""
    assert not any(owner.startswith(("com/android/internal", "dalvik/", "libcore/", "sun/")) for owner, _, _ in called)
    assert b"setAccessible" not in release["classes.dex"]
    assert b"getDeclaredMethod" not in release["classes.dex"]


def test_what_is_missing_is_seen(framework: tuple[int, Jar]) -> None:
    api, jar = framework
    back = ("android/window/OnBackInvokedDispatcher", "registerOnBackInvokedCallback")
    assert (jar.member(*back, "(ILandroid/window/OnBackInvokedCallback;)V") is not None) == (api >= 33)
    assert jar.member("android/app/Activity", "getString", "(I)Ljava/lang/String;") is not None, "inherited"


def test_what_is_hidden_is_seen(plain: Jar) -> None:
    thread = plain.member("android/app/ActivityThread", "currentActivityThread", "()Landroid/app/ActivityThread;")
    assert thread is not None
    assert _is_hidden(thread)
    stop = plain.member("android/app/Activity", "performStop", "(ZLjava/lang/String;)V")
    assert stop is not None
    assert _is_hidden(stop)


def test_a_release_has_no_debug_key_and_no_debugger(release: Mapping[str, bytes], tmp_path: Path) -> None:
    from androguard.core.apk import APK

    write_aligned(tmp_path / "unsigned.apk", release)
    sign(tmp_path / "unsigned.apk", tmp_path / "signed.apk", key_of_this_machine(tmp_path), own=True)
    apk = APK(str(tmp_path / "signed.apk"))
    assert apk.get_package() == PACKAGE
    assert apk.get_attribute_value("application", "debuggable") in (None, "false")
    subjects = [certificate.subject.human_friendly for certificate in apk.get_certificates()]
    assert subjects
    assert not any("Android Debug" in subject for subject in subjects)
    assert apk.get_permissions() == []


def test_every_resource_is_used() -> None:
    """Names in `values` and files of resources that neither code nor XML mentions would be in the APK for nothing."""
    texts = {path: path.read_text() for path in MAIN.rglob("*.*") if path.suffix in (".java", ".kt", ".xml")}
    whole = "\n".join(texts.values())
    names: dict[str, set[str]] = {}
    for path in (path for path in texts if path.parent.parent.name == "res"):
        kind = path.parent.name.split("-")[0]
        if kind != "values":
            names.setdefault(kind, set()).add(path.stem)
            continue
        for tag, name in re.findall(r'<([\w-]+) name="([\w.]+)"', texts[path]):
            names.setdefault({"string-array": "array"}.get(tag, tag), set()).add(name)
    assert {"string", "color", "layout", "style"} <= names.keys()
    for kind, found in names.items():
        if kind == "item":  # attributes within styles
            continue
        used = set(re.findall(rf"(?:R\.{kind}\.|@(?:\+)?{kind}/)([\w.]+)", whole))
        used |= set(re.findall(r'parent="([\w.]+)"', whole)) if kind == "style" else set()
        assert {name for name in found if name.replace(".", "_") not in used and name not in used} == set(), kind


def test_models_of_the_app_are_in_the_release(release: Mapping[str, bytes], android_models: Path) -> None:
    for model in MODELS:
        assert built(model, ["x86_64"], android_models).exists()
        assert f"assets/{model.name}/weights.bin" in release


def test_strings_are_in_both_languages(release: Mapping[str, bytes]) -> None:
    """As they are in the table of the APK: no text is left in one language."""
    from androguard.core.axml import ARSCParser

    table: Any = ARSCParser(release["resources.arsc"])
    found = {
        locale: set(re.findall(r'name="(\w+)"', table.get_string_resources(PACKAGE, locale).decode()))
        for locale in ("\0\0", "de")
    }
    assert found["de"]
    assert found["\0\0"] == found["de"]
