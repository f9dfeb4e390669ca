"""Compiles the parts of the app: resources and manifest, classes, models."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from apps.android.steps import archives
from apps.android.steps.classes import compile_sources
from apps.android.steps.manifest import merged
from apps.android.steps.models import MODELS, aar_of, built, maven_of, taken
from apps.android.steps.resources import link_resources, unpack_aapt2

MAIN = Path(__file__).parents[1] / "app" / "src" / "main"


@dataclass(frozen=True)
class Parts:
    """What an APK is made of, in a folder: resources and manifest, classes before they are shrunk, AARs unpacked.
    `models` are the artifacts by the names of models, `on_jvm` the jars with the libraries for tests on a JVM."""

    aapt2: Path
    base: Path
    classes: Path
    rules: Path
    manifest: Path
    models: Mapping[str, Path]
    libraries: tuple[Path, ...]
    on_jvm: tuple[Path, ...]

    @property
    def jars(self) -> list[Path]:
        return [archives.find_tools().kotlin, *(library / "classes.jar" for library in self.libraries)]

    def assets(self) -> dict[str, bytes]:
        """The entries of the APK that are assets."""
        return self._files("assets", "assets")

    def natives(self) -> dict[str, bytes]:
        """The entries of the APK that are libraries."""
        return self._files("jni", "lib")

    def _files(self, folder: str, name: str) -> dict[str, bytes]:
        places = [library / folder for library in self.libraries]
        files = {f"{name}/{path.relative_to(place)}": path for place in places for path in sorted(place.rglob("*"))}
        return {name: path.read_bytes() for name, path in files.items() if path.is_file()}


def compile_parts(
    abis: Sequence[str] | None, scratch: Path, output: Path, *, debug: bool, made: Path | None = None
) -> Parts:
    """Everything up to the classes, in `scratch`. Models are built in `output`; `made` has AARs that were built before,
    which are taken instead. Raises `DeploykitError`."""
    tools = archives.find_tools()
    models = {} if made else {model.name: built(model, abis, output) for model in MODELS}
    repositories = [taken(model, made) if made else maven_of(model, models[model.name]) for model in MODELS]
    libraries = tuple(_unpacked(aar_of(repository), scratch) for repository in repositories)
    manifest = scratch / "AndroidManifest.xml"
    texts = {library.name: (library / "AndroidManifest.xml").read_text() for library in libraries}
    manifest.write_text(merged((MAIN / "AndroidManifest.xml").read_text(), texts))
    aapt2 = unpack_aapt2(tools.aapt2, scratch)
    base, generated, rules = link_resources(aapt2, MAIN / "res", manifest, tools.framework, scratch, debug=debug)
    jars = [library / "classes.jar" for library in libraries]
    classes = compile_sources([MAIN / "java", generated], [tools.framework, *jars], scratch / "classes")
    on_jvm = tuple(jar for repository in repositories for jar in repository.glob("*-jvm.jar"))
    return Parts(aapt2, base, classes, rules, manifest, models, libraries, on_jvm)


def _unpacked(aar: Path, scratch: Path) -> Path:
    folder = scratch / aar.stem
    with zipfile.ZipFile(aar) as archive:
        archive.extractall(folder)
    return folder
