"""Compiles the app's Java sources against Android's framework."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from apps.android.steps.running import run
from apps.android.steps.tools import path_of


def compile_java(sources: Iterable[Path], path: Iterable[Path], output: Path) -> Path:
    """The folder `output` with the classes of the Java files below the folders `sources`. `path` has what they name.

    Java's own library is that of Java 8, which Android 7 has but for few classes."""
    files = [file for folder in sources for file in sorted(folder.rglob("*.java"))]
    options = ("--release", "8", "-Xlint:-options", "-proc:none", "-encoding", "UTF-8", "-g:source,lines")
    joined = os.pathsep.join(map(str, path))
    run("javac", [path_of("javac"), *options, "-cp", joined, "-d", output, *files])
    return output
