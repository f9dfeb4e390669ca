"""Writes an AAR of a model or of several, and the Maven repository that holds it: with a description (.pom), sources, a
jar for tests on a JVM, and checksums.

The jar holds `<package>/linux-<machine>/lib<name>.so`, and `<package>/macos-<machine>/lib<name>.dylib`, if they are
asked for. The AAR's classes load it where they are not on Android."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deploykit.basics.scratch import Scratch
from deploykit.targets.android.jars import find_java_compiler, jar, write_zip
from deploykit.targets.android.java import sources, stubs
from deploykit.targets.licenses import MODEL_LICENSE
from deploykit.targets.templates import render, render_shared

if TYPE_CHECKING:
    from deploykit.targets.android.models import Libraries, Model

_PACKAGE = "deploykit.targets.android"
_CHECKSUMS = ("md5", "sha1", "sha256")
_CHUNK = 1 << 20

MAPPED = ".bin"
"""The end of the names of assets that are mapped into memory, so that they are not compressed."""


def write_maven(models: Sequence[Model], view: dict[str, Any], libraries: Libraries, folder: Path) -> list[str]:
    """Write the repository `maven` into `folder`; returns the names of the files, the AAR first. `view` is what the
    templates of the archive say, and gets the name of the AAR; with one model it is that of the model.

    Raises `ToolchainError` if there is no Java compiler, and `UsageError` if classes of two models have one name."""
    name, release = view["prefix"], view["release"]
    place = f"maven/{str(view['group']).replace('.', '/')}/{name}/{release}"
    (folder / place).mkdir(parents=True)
    texts = sources([model.view for model in models])
    start = f"{place}/{name}-{release}"
    files = [f"{start}.aar", f"{start}.pom", f"{start}-sources.jar"]
    notices = {model.view["prefix"]: _notices(model.view, apart=len(models) > 1) for model in models}
    all_notices = {path: text for each in notices.values() for path, text in each.items()}
    own = [model.view for model in models]
    view |= {"models": [each["name"] for each in own], "natives": [f"{each['own']}Native" for each in own]}
    view["natives"] += ["Library"] if view["library"] else []
    view["model_licenses"] = list(dict.fromkeys(each["model_license"] for each in own if each["model_license"]))
    entries: dict[str, bytes | Path] = {f"jni/{abi}/{path.name}": path for abi, path in libraries.java.items()}
    entries |= all_notices
    for model in models:
        entries |= _assets(model, notices[model.view["prefix"]])
    _write_aar(view, find_java_compiler().compile(texts, stubs()), entries, folder / files[0])
    (folder / files[1]).write_text(render(_PACKAGE, "pom.xml", view), encoding="utf-8")
    write_zip(folder / files[2], jar({path: text.encode() for path, text in texts.items()} | all_notices))
    if libraries.on_jvm:
        files.append(f"{start}-jvm.jar")
        place = str(view["package"]).replace(".", "/")
        found = {f"{place}/{system}/{path.name}": path for system, path in libraries.on_jvm.items()}
        write_zip(folder / files[-1], {**jar(all_notices), **found})
    view |= {"aar": files[0], "on_jvm": bool(libraries.on_jvm)}
    return [*files, *_write_checksums(folder, files)]


def _notices(view: Mapping[str, Any], *, apart: bool) -> dict[str, bytes]:
    """The licences of the runtime and of the model, and who has which; `apart` from those of other models."""
    texts = {"LICENSE": render_shared("LICENSE", view).encode(), "NOTICE": render(_PACKAGE, "NOTICE", view).encode()}
    texts |= {} if view["license_file"] is None else {MODEL_LICENSE: view["license_file"]}
    place = f"META-INF/{view['prefix']}" if apart else "META-INF"
    return {f"{place}/{name}": text for name, text in texts.items()}


def _assets(model: Model, notices: Mapping[str, bytes]) -> dict[str, bytes | Path]:
    """The assets of a model."""
    place = f"assets/{model.view['prefix']}"
    found: dict[str, bytes | Path] = {
        f"{place}/NOTICE.txt": b"\n\n".join(notices[name] for name in sorted(notices, reverse=True))
    }
    found |= {f"{place}/{name}": data for name, data in {**model.assets, **model.code}.items()}
    if model.weights.stat().st_size > 0 and not model.view["apart"]:
        found[f"{place}/{model.weights.name}"] = model.weights
    return found


def _write_aar(
    view: Mapping[str, Any], classes: Mapping[str, bytes], further: Mapping[str, bytes | Path], path: Path
) -> None:
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
            **further,
        }
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
