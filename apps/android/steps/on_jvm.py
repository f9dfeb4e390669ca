"""Runs the app's tests on a JVM of this machine: Robolectric with the framework's own code and pixels."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Sequence
from pathlib import Path

from apps.android.steps import archives
from apps.android.steps.parts import Parts
from apps.android.steps.running import run
from apps.android.steps.tools import java_of, path_of
from apps.android.steps.zips import entries_of, write_aligned

SOURCES = Path(__file__).parents[1] / "app" / "src" / "test" / "java"

SDKS = (29, 34)
"""The Androids, by API, that tests run on where none are named. The frameworks of others are further archives."""

_JAVA = {36: 21}
"""By API, the least version of Java that Robolectric asks for, where a usual one is too old."""

_CONFIG = "com/android/tools/test_config.properties"
_OPTIONS = (
    "-Xmx1500m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Djava.awt.headless=true",
    "--add-opens=java.base/java.io=ALL-UNNAMED",  # ParcelFileDescriptor.getFd reads a private field
)
_FRAMEWORK = "android-all-instrumented"
_NO_DRIVERS = {"VK_DRIVER_FILES": "/none", "VK_ICD_FILENAMES": "/none", "OCL_ICD_VENDORS": "/none"}


def java_for(sdks: Sequence[int]) -> str:
    """The `java` that can run the frameworks of these Androids. Raises `ToolchainError` if there is none."""
    least = max(_JAVA.get(sdk, 0) for sdk in sdks)
    return java_of(least) if least else path_of("java")


class OnJvm:
    """The app of `parts` with its tests, compiled in `folder`. Pictures of screens are written to `pictures`."""

    def __init__(self, parts: Parts, folder: Path, pictures: Path) -> None:
        self._frameworks = folder / "frameworks"
        self._frameworks.mkdir()
        self._pictures = pictures
        path = [parts.classes, *parts.jars, *parts.on_jvm]
        for file in archives.find(archives.TESTS):
            if file.suffix == ".aar":
                path.append(_classes_of(file, folder / f"{file.stem}.jar"))
            elif not file.name.startswith(_FRAMEWORK):
                path.append(file)
        classes = folder / "tests"
        path.append(archives.find_tools().framework)
        files = sorted(SOURCES.rglob("*.java"))
        call = [
            path_of("javac"),
            "--release",
            "11",
            "-proc:none",
            "-nowarn",
            "-cp",
            os.pathsep.join(map(str, path)),
        ]
        run("javac", [*call, "-d", classes, *files])
        config = classes / _CONFIG
        config.parent.mkdir(parents=True)
        resources = folder / "resources.apk"
        write_aligned(resources, {**entries_of(parts.base), **parts.assets()})
        config.write_text(
            f"android_resource_apk={resources}\nandroid_merged_manifest={parts.manifest}\n"
            "android_custom_package=org.deploykit.app\n"
        )
        self._path = os.pathsep.join(map(str, [classes, *path]))

    def program(self, name: str, *words: object) -> str:
        """What a program of the tests prints, which needs nothing of Android."""
        return run(name, [path_of("java"), *_OPTIONS, "-Xcheck:jni", "-cp", self._path, name, *map(str, words)])

    def run(self, tests: Sequence[str], sdks: Sequence[int] = SDKS) -> str:
        """What JUnit prints of these classes on these Androids, by API, on a machine without drivers of GPUs.

        Raises `ToolchainError` with its words if a test fails, or if Java is too old for one of the Androids."""
        for file in archives.find(archives.FURTHER if set(sdks) - set(SDKS) else archives.TESTS):
            link = self._frameworks / file.name
            if file.name.startswith(_FRAMEWORK) and not link.exists():
                link.symlink_to(file)
        own = {"robolectric.offline": "true", "robolectric.dependency.dir": str(self._frameworks)}
        own |= {"robolectric.enabledSdks": ",".join(map(str, sdks)), "pictures": str(self._pictures)}
        call = [java_for(sdks), *_OPTIONS, *(f"-D{name}={value}" for name, value in own.items()), "-cp", self._path]
        return run("JUnit", [*call, "org.junit.runner.JUnitCore", *tests], _NO_DRIVERS)


def _classes_of(aar: Path, jar: Path) -> Path:
    with zipfile.ZipFile(aar) as archive:
        jar.write_bytes(archive.read("classes.jar"))
    return jar
