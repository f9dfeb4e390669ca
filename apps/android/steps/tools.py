"""The tools of the app's build: programs, and the archives that it brings. `deploykit doctor --app` lists them.

Steps take their programs from here, so that what is missing is named with how to install it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from apps.android.steps import archives
from deploykit.doctor import Tool, program
from deploykit.errors import ToolchainError

JDK, FETCH = "apt-get install default-jdk-headless", "python -m apps.android.build --fetch"

_OF_JDK = {
    "javac": "compiles the app's classes",
    "java": "runs R8, bundletool and the tests",
    "keytool": "makes a key of this machine",
    "jarsigner": "signs bundles",
}


def path_of(name: str) -> str:
    """The place of a program; those of a JDK in `$JAVA_HOME`, if it is set. Raises `ToolchainError`."""
    home = os.environ.get("JAVA_HOME")
    of_home = Path(home) / "bin" / name if home and name in _OF_JDK else None
    found = str(of_home) if of_home is not None and of_home.exists() else shutil.which(name)
    if found is None:
        (tool,) = (tool for tool in TOOLS if tool.name == name)
        raise ToolchainError(f"{name} was not found, which {tool.purpose}: `{tool.install}`")
    return found


def java_of(least: int) -> str:
    """The place of a `java` of this version at least: the usual one, else one of Debian's folder. Raises
    `ToolchainError`."""
    for java in (path_of("java"), *map(str, sorted(Path("/usr/lib/jvm").glob("*/bin/java")))):
        version, _ = program(java, version_flag="-version")() or ("", "")
        major = version.partition(".")[0]
        if major.isdecimal() and int(major) >= least:
            return java
    raise ToolchainError(f"no Java {least} or later was found: set JAVA_HOME to a JDK of this version")


def _of_jdk(name: str) -> Callable[[], tuple[str, str] | None]:
    """A probe for a program of a JDK, which has the version of its `java`."""

    def probe() -> tuple[str, str] | None:
        try:
            found = program(path_of("java"), version_flag="-version")()
            return None if found is None else (found[0], path_of(name))
        except ToolchainError:
            return None

    return probe


def _archive(*names: str) -> Callable[[], tuple[str, str] | None]:
    """A probe for archives, of which the first one has the version. Their contents are checked when they are used."""

    def probe() -> tuple[str, str] | None:
        if not all(archives.path_of(name).exists() for name in names):
            return None
        return archives.version_of(names[0]), str(archives.path_of(names[0]))

    return probe


def _main_first(use: str, word: str) -> list[str]:
    """The archives of a use, the one with this artifact first."""
    return sorted(archives.locked(use), key=lambda name: f":{word}:" not in name)


def _tools() -> tuple[Tool, ...]:
    aapt2, framework, r8, _, sentences = archives.locked(archives.BUILD)
    kotlin = _main_first(archives.KOTLIN, "kotlin-compiler-embeddable")
    bundle, tests = _main_first(archives.BUNDLE, "bundletool"), _main_first(archives.TESTS, "robolectric")
    peers = archives.locked(archives.FURTHER)
    programs = [
        Tool(name, purpose, JDK, _of_jdk(name), None if name == "jarsigner" else name)
        for name, purpose in _OF_JDK.items()
    ]
    return (
        *programs,
        Tool("apksigner", "signs APKs", "apt-get install apksigner", program("apksigner"), "apksigner"),
        Tool("mvn", "brings archives, once", "apt-get install maven", program("mvn")),
        Tool("aapt2", "compiles resources", FETCH, _archive(aapt2), "aapt2"),
        Tool("android-all", "Android's framework, to compile against", FETCH, _archive(framework), "android-all"),
        Tool("r8", "shrinks classes and makes the code of Android", FETCH, _archive(r8), "r8"),
        Tool(f"kotlinc and {len(kotlin) - 1} others", "compiles a screen in Kotlin", FETCH, _archive(*kotlin)),
        Tool("all-MiniLM-L6-v2", "the model of sentences", FETCH, _archive(sentences)),
        Tool(f"bundletool and {len(bundle) - 1} others", "makes app bundles (--aab)", FETCH, _archive(*bundle)),
        Tool(f"robolectric and {len(tests) - 1} others", "runs the app's tests", FETCH, _archive(*tests)),
        Tool(
            "tensorflow-lite, two android-all", "sizes and methods are compared with", f"{FETCH} all", _archive(*peers)
        ),
    )


TOOLS = _tools()
