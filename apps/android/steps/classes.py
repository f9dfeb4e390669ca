"""Compiles the app's sources against Android's framework: Kotlin first, which sees the Java sources, then Java."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from apps.android.steps import archives
from apps.android.steps.running import run
from apps.android.steps.tools import path_of


def compile_sources(sources: Sequence[Path], path: Iterable[Path], output: Path) -> Path:
    """The folder `output` with the classes of the files below the folders `sources`. `path` has what they name.

    Java's own library is that of Java 8, which Android 7 has but for few classes."""
    own = [*path, archives.find_tools().kotlin]
    _compile_kotlin(sources, own, output)
    files = [file for folder in sources for file in sorted(folder.rglob("*.java"))]
    options = ("--release", "8", "-Xlint:-options", "-proc:none", "-encoding", "UTF-8", "-g:source,lines")
    run("javac", [path_of("javac"), *options, "-cp", _joined([*own, output]), "-d", output, *files])
    return output


def _compile_kotlin(sources: Sequence[Path], path: Sequence[Path], output: Path) -> None:
    compiler = _joined([archives.find_tools().kotlin, *archives.find(archives.KOTLIN)])
    call = ["java", "-Xmx1g", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", compiler]
    call += ["org.jetbrains.kotlin.cli.jvm.K2JVMCompiler", "-no-stdlib", "-no-reflect", "-Werror"]
    # Checks of parameters name each of them, which is text in the app.
    call += ["-Xjdk-release=1.8", "-jvm-target", "1.8", "-Xno-param-assertions", "-Xno-call-assertions"]
    run("kotlinc", [*call, "-cp", _joined(path), "-d", output, *sources])


def _joined(path: Iterable[Path]) -> str:
    return os.pathsep.join(map(str, path))
