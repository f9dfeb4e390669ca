"""Writes an AAR, and the Maven repository that holds it: with a description (.pom), sources, a jar for tests on a JVM,
and checksums.

The jar holds `<package>/linux-<machine>/lib<name>.so`. The AAR's classes load it where they are not on Android."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from deploykit.basics.scratch import Scratch
from deploykit.targets.android.jars import find_java_compiler, jar, write_zip
from deploykit.targets.android.java import readme_view, sources, stubs
from deploykit.targets.licenses import MODEL_LICENSE
from deploykit.targets.templates import render, render_shared

_PACKAGE = "deploykit.targets.android"
_CHECKSUMS = ("md5", "sha1", "sha256")
_CHUNK = 1 << 20

MAPPED = ".bin"
"""The end of the names of assets that are mapped into memory, so that they are not compressed."""


def write_maven(
    view: dict[str, Any],
    libraries: Mapping[str, Path],
    on_linux: Mapping[str, Path],
    weights: Path,
    code: Mapping[str, bytes],
    folder: Path,
) -> list[str]:
    """Write the repository `maven` into `folder`; returns the names of the files, the AAR first. `view` is for
    templates and gets the name of the AAR; `libraries` are by ABI, those `on_linux` by machine, and `code` is that of
    kernels for GPUs, by its names.

    Raises `ToolchainError` if there is no Java compiler."""
    name, release = view["prefix"], view["release"]
    place = f"maven/{str(view['group']).replace('.', '/')}/{name}/{release}"
    (folder / place).mkdir(parents=True)
    texts = sources(view)
    start = f"{place}/{name}-{release}"
    files = [f"{start}.aar", f"{start}.pom", f"{start}-sources.jar"]
    classes, notices = find_java_compiler().compile(texts, stubs()), _notices(view)
    _write_aar(view, classes, libraries, weights, code, notices, folder / files[0])
    (folder / files[1]).write_text(render(_PACKAGE, "pom.xml", view), encoding="utf-8")
    write_zip(folder / files[2], jar({path: text.encode() for path, text in texts.items()} | notices))
    if on_linux:
        files.append(f"{start}-jvm.jar")
        place = str(view["package"]).replace(".", "/")
        found = {f"{place}/linux-{machine}/{path.name}": path for machine, path in on_linux.items()}
        write_zip(folder / files[-1], {**jar(notices), **found})
    view |= {"aar": files[0], "on_jvm": bool(on_linux), **readme_view(view)}
    return [*files, *_write_checksums(folder, files)]


def _notices(view: Mapping[str, Any]) -> dict[str, bytes]:
    """The licences of the runtime and of the model, and who has which."""
    texts = {"LICENSE": render_shared("LICENSE", view).encode(), "NOTICE": render(_PACKAGE, "NOTICE", view).encode()}
    texts |= {} if view["license_file"] is None else {MODEL_LICENSE: view["license_file"]}
    return {f"META-INF/{name}": text for name, text in texts.items()}


def _write_aar(
    view: Mapping[str, Any],
    classes: Mapping[str, bytes],
    libraries: Mapping[str, Path],
    weights: Path,
    code: Mapping[str, bytes],
    notices: Mapping[str, bytes],
    path: Path,
) -> None:
    asset = f"assets/{view['prefix']}/{weights.name}"
    with Scratch() as scratch:
        classes_jar = Path(scratch) / "classes.jar"
        write_zip(classes_jar, jar(classes))
        entries: dict[str, bytes | Path] = {
            "AndroidManifest.xml": render(_PACKAGE, "AndroidManifest.xml", view).encode(),
            "R.txt": b"",
            "classes.jar": classes_jar,
            "proguard.txt": render(_PACKAGE, "proguard.txt", view).encode(),
            "META-INF/com/android/build/gradle/aar-metadata.properties": render(
                _PACKAGE, "aar-metadata.properties", view
            ).encode(),
            **notices,
            f"assets/{view['prefix']}/NOTICE.txt": b"\n\n".join(
                notices[name] for name in sorted(notices, reverse=True)
            ),
            **{f"jni/{abi}/{library.name}": library for abi, library in libraries.items()},
            **{f"assets/{view['prefix']}/{name}": data for name, data in code.items()},
        }
        if weights.stat().st_size > 0 and not view["apart"]:
            entries[asset] = weights
        write_zip(path, entries, [*(name for name in entries if name.endswith(MAPPED)), "classes.jar"])


def _write_checksums(folder: Path, files: list[str]) -> list[str]:
    names = []
    for name in files:
        for algorithm in _CHECKSUMS:
            with (folder / name).open("rb") as file:
                digest = hashlib.file_digest(file, algorithm).hexdigest()
            names.append(f"{name}.{algorithm}")
            (folder / names[-1]).write_text(digest)
    return names
