"""The forms of an artifact: where its sources are, and which files stand beside them for a build system.

`c`, the usual one, is a folder for make and CMake. In all other forms the C files are in `src/<name>/`, and
`src/<name>.h` includes all that an application needs: vendors' build systems put the folders of all libraries on one
search path, where `model.h` would mean several files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

C = "c"
CMSIS_PACK = "cmsis-pack"
RUST = "rust"

EXAMPLE = "example.c"
"""Stands for the template of the example in C, which depends on the kind of the model."""
SKETCH = "sketch.ino"
"""The template of an example of tensors alone, in C++ for Arduino."""


@dataclass(frozen=True)
class Form:
    """`files` are the files beside the sources, with their templates in `folder`, where `build.md` tells how to build
    them. `sources` is the folder of the C files. In paths, `{name}` stands for what the model's symbols start with.
    `entry` is the function of the example, and `uniform` says that all files are compiled with the same options."""

    folder: str
    files: Mapping[str, str]
    sources: str = "src/{name}"
    entry: str = "int main(void)"
    uniform: bool = False

    @property
    def templates(self) -> Mapping[str, str]:
        """The templates of the files."""
        found = {path: name if name in (EXAMPLE, SKETCH) else self.template(name) for path, name in self.files.items()}
        return found | ({"src/{name}.h": "name.h", "README.md": "README.md"} if self.sources else {})

    def template(self, name: str) -> str:
        """The path of a template of this form."""
        return f"{self.folder}/{name}" if self.folder else name


def _root(*names: str) -> dict[str, str]:
    """Files in the root of the artifact, which are called like their templates."""
    return dict(zip(names, names, strict=True))


FORMS: Mapping[str, Form] = {
    C: Form("", {"example/main.c": EXAMPLE, **_root("Makefile", "CMakeLists.txt", "README.md")}, sources=""),
    "arduino": Form("arduino", {"examples/{name}/{name}.ino": SKETCH, **_root("library.properties")}, uniform=True),
    "platformio": Form(
        "platformio",
        {
            **_root("library.json"),
            "examples/{name}/platformio.ini": "platformio.ini",
            "examples/{name}/src/main.cpp": SKETCH,
        },
        uniform=True,
    ),
    "zephyr": Form(
        "zephyr",
        {
            **{f"zephyr/{name}": name for name in ("module.yml", "CMakeLists.txt", "Kconfig")},
            "samples/{name}/CMakeLists.txt": "sample.cmake",
            "samples/{name}/prj.conf": "prj.conf",
            "samples/{name}/src/main.c": EXAMPLE,
        },
    ),
    "esp-idf": Form(
        "esp-idf",
        {
            **_root("CMakeLists.txt", "idf_component.yml", "Kconfig"),
            "examples/{name}/CMakeLists.txt": "example.cmake",
            "examples/{name}/main/CMakeLists.txt": "main.cmake",
            "examples/{name}/main/app_main.c": "app_main.c",
            "examples/{name}/main/example.c": EXAMPLE,
        },
        entry="int example(void)",
    ),
    CMSIS_PACK: Form("cmsis-pack", {"{vendor}.{name}.pdsc": "name.pdsc", "example/main.c": EXAMPLE}, uniform=True),
    RUST: Form(
        "rust",
        {
            **_root("Cargo.toml", "build.rs"),
            "src/lib.rs": "lib.rs",
            "src/size.c": "size.c",
            "examples/{name}.rs": "example.rs",
        },
    ),
}
