"""Shrinks classes and makes the code of Android of them, with R8."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from apps.android.steps.manifest import LEAST
from apps.android.steps.running import run
from apps.android.steps.tools import path_of
from apps.android.steps.zips import write_jar


def dex(r8: Path, classes: Path, jars: Iterable[Path], framework: Path, rules: Iterable[Path], folder: Path) -> Path:
    """`classes.dex` of a folder of classes and of jars, without what the rules let go. Java's own library is that of
    this machine's JDK; the compiler has seen that the app uses what Java 8 has."""
    whole, output = folder / "app.jar", folder / "dex"
    write_jar(whole, classes)
    output.mkdir()
    call: list[str | Path] = [
        path_of("java"),
        "-Xmx1g",
        "-XX:+UseSerialGC",
        "-cp",
        r8,
        "com.android.tools.r8.R8",
        "--release",
    ]
    call += ["--min-api", str(LEAST), "--lib", framework, "--lib", _jdk(), "--output", output]
    for file in rules:
        call += ["--pg-conf", file]
    run("R8", [*call, whole, *jars])
    return output / "classes.dex"


def _jdk() -> Path:
    return Path(path_of("javac")).resolve().parents[1]
