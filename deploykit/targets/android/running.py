"""Runs an artifact for Android on this machine: the library for this machine's CPU in this process, else another one
under an emulator. `DEPLOYKIT_ABI` chooses the library, or with `java` the classes of an AAR on a JVM."""

from __future__ import annotations

import os
import platform
import zipfile
from collections.abc import Mapping
from pathlib import Path

from deploykit.artifact.manifest import MANIFEST, Manifest, files_of
from deploykit.engines import Engine, EngineOptions
from deploykit.engines.native.bionic import first_that_runs, open_bionic
from deploykit.errors import ArtifactError, UsageError
from deploykit.targets.android.on_jvm import OnJvm
from deploykit.targets.android.weights_file import without_hash

MACHINES = {"x86_64": "x86_64", "arm64-v8a": "aarch64", "armeabi-v7a": "arm"}
"""The machines of ABIs, those that run best here first."""

CHOICE = "DEPLOYKIT_ABI"

JAVA = "java"

JNI, WEIGHTS = "jni", "weights.bin"


def open_engine(folder: Path, manifest: Manifest, scratch: Path, options: EngineOptions) -> Engine:
    """An engine for an artifact folder; libraries are unpacked in `scratch`.

    Raises `ArtifactError`, `ToolchainError`, and `UsageError` if the options cannot be met."""
    if options.cpu is not None:
        raise UsageError("an artifact for Android chooses its kernels itself")
    in_java = os.environ.get(CHOICE) == JAVA
    found = _libraries(folder, manifest, scratch, in_java=in_java)
    abi = _for_java(folder, found, scratch) if in_java else _chosen(found)
    place = scratch if (scratch / JNI).exists() else folder
    own = scratch / abi
    own.mkdir(exist_ok=True)

    def native() -> Engine:
        return open_bionic(MACHINES[abi], found[abi], folder / "include", place, manifest, own, options)

    if not in_java:
        return native()
    (library,) = (scratch / JNI / abi).iterdir()
    return OnJvm(scratch, library, manifest, options, native)


def _for_java(folder: Path, found: Mapping[str, Path], scratch: Path) -> str:
    """The ABI whose library a JVM of this machine loads. Raises `UsageError` if there is none."""
    if not (scratch / "classes.jar").exists():
        raise UsageError(f"{CHOICE} is '{JAVA}', and {folder} holds no AAR: build it without --format so")
    for abi in found:
        if MACHINES[abi] == platform.machine():
            return abi
    raise UsageError(f"{CHOICE} is '{JAVA}': a JVM of this machine cannot load a library for {', '.join(found)}")


def _chosen(found: Mapping[str, Path]) -> str:
    wanted = os.environ.get(CHOICE)
    if wanted is not None:
        if wanted not in found:
            raise UsageError(f"{CHOICE} is '{wanted}': the artifact has libraries for {', '.join(found)}")
        return wanted
    machine = first_that_runs([MACHINES[abi] for abi in found])
    return next(abi for abi in found if MACHINES[abi] == machine)


def _libraries(folder: Path, manifest: Manifest, scratch: Path, *, in_java: bool) -> dict[str, Path]:
    """The libraries for C by ABI. What an AAR holds is unpacked in `scratch`: for Java also that of several models, of
    which the folder is one."""
    name = f"lib{manifest.prefix}.so"
    archives = [folder / file.name for file in manifest.files if file.name.endswith(".aar")]
    if in_java and not archives and (folder.parent / MANIFEST).exists():
        archives = [folder.parent / file.name for file in files_of(folder.parent) if file.name.endswith(".aar")]
    for archive in archives:
        try:
            with zipfile.ZipFile(archive) as unpacked:
                unpacked.extractall(scratch)
        except (OSError, zipfile.BadZipFile) as error:
            raise ArtifactError(f"{archive} cannot be read ({error}): build the model again") from error
        assets = scratch / "assets" / manifest.prefix
        if (folder / WEIGHTS).exists() and not (assets / WEIGHTS).exists():  # they are apart
            (assets / WEIGHTS).symlink_to((folder / WEIGHTS).resolve())
        for file in assets.glob("*"):
            if file.name == WEIGHTS:
                without_hash(file, scratch / WEIGHTS)
            else:
                (scratch / file.name).symlink_to(file)
    found = {abi: folder / abi / name for abi in MACHINES if (folder / abi / name).exists()}
    if not found:
        raise ArtifactError(f"{folder} holds no library: build the model again")
    return found
