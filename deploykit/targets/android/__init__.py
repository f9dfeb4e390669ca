"""A library for Android apps: kernels for the CPUs of phones and of emulators, without NDK and Gradle.

As an AAR, the form that Android's build tools take:

kotlin/<Name>Coroutines.kt        suspending functions, a source for apps in Kotlin
maven/<group>/<name>/<version>/   a Maven repository: the AAR (Java classes, libraries, weights), its .pom and sources,
                                  and a jar with the library for tests on a JVM of Linux or macOS
<abi>/lib<name>.so include/        the same code with functions for C, which the AAR's libraries do not export
README.md                         how an app uses it

As libraries for C and C++ (format `so`):

<abi>/lib<name>.so weights.bin kernels.spv kernels.cl include/ README.md

A library of a model of texts, or of one that generates, has the tokenizer and the functions for texts; its tables are
in `tokenizer.bin`, which is among the assets of an AAR.

With kernels for GPUs a library also has the drivers, and the program that runs on them; their code is the same for all
ABIs.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from deploykit import runtime
from deploykit.artifact.devices import CODE
from deploykit.basics.scratch import Scratch
from deploykit.errors import ToolchainError, UsageError
from deploykit.targets import answers
from deploykit.targets.android.naming import AndroidOptions
from deploykit.targets.base import Availability, PackageOptions
from deploykit.targets.templates import render

if TYPE_CHECKING:
    from deploykit.artifact.manifest import Manifest
    from deploykit.compiler.dims.expressions import IntExpr
    from deploykit.compiler.lowering.kernel import Kernel
    from deploykit.compiler.program.ir import Program
    from deploykit.compiler.variant import Variant
    from deploykit.engines import Engine, EngineOptions
    from deploykit.targets.android.abis import Abi
    from deploykit.targets.android.models import Libraries, Model

AAR, LIBRARIES = "aar", "so"

INCLUDE = "include"
JNI = "jni"
LINUX = "linux"
WEIGHTS = "weights.bin"

HEADERS = (runtime.HEADER, runtime.THREADS_HEADER)


class AndroidTarget:
    """The target for Android. `abis` are the names of the kinds of CPU to build for, by default all; an unknown one is
    refused with `UsageError`. `form` is the format of builds that do not choose one."""

    name = "android"
    description = "an AAR for Android apps, or libraries for C and C++ (--format so), without NDK and Gradle"
    formats = (AAR, LIBRARIES)
    alone = LIBRARIES
    Options = AndroidOptions

    def __init__(self, abis: Iterable[str] | None = None, form: str = AAR) -> None:
        self._abis = None if abis is None else tuple(abis)
        self._form = form

    @property
    def abis(self) -> list[Abi]:
        from deploykit.targets.android.abis import ABIS

        for name in self._abis or ():
            if name not in ABIS:
                raise UsageError(f"there is no ABI '{name}': there are {', '.join(ABIS)}")
        return [abi for abi in ABIS.values() if self._abis is None or abi.name in self._abis]

    def check(self) -> Availability:
        from deploykit.basics.toolchain import find_android_compiler
        from deploykit.targets.android.jars import find_java_compiler

        try:
            linker = find_android_compiler("aarch64-linux-android")
        except ToolchainError as error:
            return Availability(build=False, run=True, detail=str(error))
        try:
            java = find_java_compiler()
        except ToolchainError as error:
            return Availability(build=True, run=True, detail=f"only --format so: {error}")
        return Availability(build=True, run=True, detail=f"{linker.family}: {linker.version}; {java.version}")

    def variants(self, cpu: str, devices: Sequence[str] = ()) -> list[Variant]:
        from deploykit.targets.android.abis import on_gpu, variants
        from deploykit.targets.host import class_of

        if cpu != "native":
            raise UsageError("target android is built for all CPUs of Android devices: build without --cpu")
        kind = class_of(devices)
        return [*variants(self.abis), *([on_gpu(kind)] if devices else [])]

    def emit(self, programs: Sequence[Program], options: PackageOptions) -> dict[str, bytes]:
        from deploykit.compiler.codegen.host.source import emit_host, kernel_prefix
        from deploykit.targets.android.abis import ABIS, by_abi
        from deploykit.targets.android.jars import find_java_compiler
        from deploykit.targets.host import split_gpu

        levels, on_gpu = split_gpu(programs)
        if (options.format or self._form) == AAR:
            find_java_compiler()  # so that a build without one fails early
            _require_typed(levels[0])
        emitted = {} if on_gpu is None else self._emit_on_gpu(levels[0], on_gpu, options)
        for abi, parts in by_abi(levels, self.abis).items():
            texts = emit_host(parts, options.version) | answers.emit(parts[0], options.version)
            emitted |= {f"{abi}-{name}": text.encode() for name, text in texts.items()}
            for part in parts:
                prefix = kernel_prefix(part, parts)
                emitted |= self._objects(part.kernels, prefix, ABIS[abi], part.cpu, part.cpu, options)
        return emitted

    def _emit_on_gpu(self, program: Program, on_gpu: Program, options: PackageOptions) -> dict[str, bytes]:
        """The program for GPUs: its kernels, and for each ABI the texts and the kernels that are for CPUs."""
        from deploykit.compiler.codegen.host.gpu import emit_kernels
        from deploykit.compiler.codegen.host.source import emit_host, kernel_prefix
        from deploykit.compiler.codegen.weights.blob import first_weight
        from deploykit.targets.host import MODEL_ON_GPU

        files = emit_kernels(on_gpu, options.devices, options.version, first_weight(program, on_gpu))
        emitted = {name: files.pop(name) for name in CODE.values() if name in files}
        files |= {name: text.encode() for name, text in emit_host([on_gpu], options.version, MODEL_ON_GPU).items()}
        others = [kernel for kernel in on_gpu.kernels if not kernel.gpu]
        for abi in self.abis:
            prefix, least = kernel_prefix(on_gpu, [on_gpu]), abi.levels[-1]
            emitted |= {f"{abi.name}-{name}": data for name, data in files.items()}
            emitted |= self._objects(others, prefix, abi, least, "on_gpu", options)
        return emitted

    def _objects(
        self, kernels: Sequence[Kernel], prefix: str, abi: Abi, level: str, name: str, options: PackageOptions
    ) -> dict[str, bytes]:
        """The objects of kernels for a level of an ABI, as `<abi>-<name>.<number>.o`, and those for macOS, if they are
        asked for."""
        from deploykit.compiler.codegen.native.objects import emit_objects
        from deploykit.targets.android.abis import JVM_MACHINES, MACOS

        cpus = {abi.name: abi.cpu(level)}
        if MACOS in (options.own or AndroidOptions()).jvm and abi.machine in JVM_MACHINES:
            cpus[f"{MACOS}-{abi.name}"] = abi.cpu_on_macos(level)
        return {
            f"{start}-{name}.{index}.o": data
            for start, cpu in cpus.items()
            for index, data in enumerate(emit_objects(kernels, prefix, cpu, fast_math=options.compiling.fast_math))
        }

    def package(
        self, programs: Sequence[Program], emitted: Mapping[str, bytes], folder: Path, options: PackageOptions
    ) -> list[str]:
        from deploykit.targets.android.models import model_of

        java = (options.format or self._form) == AAR
        own = options.own or AndroidOptions()
        with Scratch() as place:
            scratch = Path(place)
            model = model_of(programs, emitted, options, own, scratch, java=java)
            view = model.view
            headers = self._write_headers(model, folder)
            libraries = self.link([model], view["prefix"], scratch, java=java)
            names = _copied(libraries.native, folder)
            view["libraries"] = libraries.sizes
            if java:
                from deploykit.targets.android.aar import write_maven
                from deploykit.targets.android.java import coroutines, readme_view

                name, text = coroutines(view)
                (folder / name).parent.mkdir()
                (folder / name).write_text(text, encoding="utf-8")
                if view["apart"]:
                    shutil.copyfile(model.weights, folder / WEIGHTS)
                    names.append(WEIGHTS)
                names = [*write_maven([model], view, libraries, folder), *names, name]
                view |= readme_view(view)
                readme = "README.md"
            else:
                names += _copied_files(model.weights, model.code, folder)
                readme = "libraries.md"
        view["abis"] = [abi.name for abi in self.abis]
        (folder / "README.md").write_text(render(__name__, readme, view), encoding="utf-8")
        return [*names, *headers, "README.md"]

    def package_together(
        self,
        models: Sequence[tuple[Sequence[Program], Mapping[str, bytes], PackageOptions]],
        folder: Path,
    ) -> list[str]:
        """Write one AAR of several models into `folder`, with a class for each, and one runtime. Beside it, in a folder
        for each model, is the source in Kotlin. Returns the names of the files.

        Raises `UsageError` if they cannot be in one AAR, and `ToolchainError`."""
        from deploykit.targets.android.together import write_together

        return write_together(partial(self.link, java=True), [abi.name for abi in self.abis], models, folder)

    def engine(self, folder: Path, manifest: Manifest, scratch: Path, options: EngineOptions) -> Engine:
        from deploykit.targets.android.running import open_engine

        return open_engine(folder, manifest, scratch, options)

    def sources(self, folder: Path) -> list[Path]:
        raise UsageError(f"{folder} is for Android: it can be neither sanitized nor profiled; build for host for that")

    def _write_headers(self, model: Model, folder: Path) -> list[str]:
        from deploykit.targets.android.models import further_sources

        start = f"{self.abis[0].name}-"
        (folder / INCLUDE).mkdir()
        found = {name.removeprefix(start): data for name, data in model.emitted.items() if name.startswith(start)}
        texts = {name: data for name, data in found.items() if name.endswith(".h")}
        further = further_sources(model.programs[0])
        if model.view["on_gpu"]:
            further = (*further, runtime.DRIVER_HEADER, runtime.INCLUDE / "gpu.h")
        for header in (*HEADERS, *(path for path in further if path.suffix == ".h" and path != runtime.TEXT_TABLES)):
            texts[header.name] = header.read_bytes()
        for name, data in texts.items():
            (folder / INCLUDE / name).write_bytes(data)
        return [f"{INCLUDE}/{name}" for name in texts]

    def link(self, models: Sequence[Model], name: str, scratch: Path, *, java: bool) -> Libraries:
        """The libraries by ABI, in `scratch`: those for C of one model, and with `java` those for Java."""
        from deploykit.basics.parallel import each
        from deploykit.targets.android import linking
        from deploykit.targets.android.abis import JVM_MACHINES, MACOS
        from deploykit.targets.android.models import Libraries, interface_for_java

        shared = dict.fromkeys(path for model in models for path in model.shared)
        java_class = None if len(models) == 1 else models[0].java_class("Library")
        interfaces = [(model, interface_for_java(model, models) if java else None) for model in models]
        file = f"lib{name}.so"

        def linked(abi: Abi) -> None:
            place = scratch / abi.name
            outputs = {place / "out" / file: models[0].exports} if len(models) == 1 else {}
            outputs |= {place / JNI / file: ["JNI_OnLoad"]} if java else {}
            on_linux = place / LINUX / file if java and abi.machine in JVM_MACHINES else None
            if on_linux is not None:
                outputs[on_linux] = ["JNI_OnLoad"]
            parts = [model.part(abi, place / f"of-{model.view['prefix']}", macros) for model, macros in interfaces]
            linking.link(abi, parts, outputs, shared, on_linux, java_class)
            if java and MACOS in models[0].view["jvm"] and abi.machine in JVM_MACHINES:
                mac = place / MACOS
                own = [model.part(abi, mac / model.view["prefix"], macros, macos=True) for model, macros in interfaces]
                linking.link_for_macos(abi.machine, own, mac / f"lib{name}.dylib", shared, java_class)

        each(linked, self.abis)
        found = {kind: {abi: scratch / abi.name / kind / file for abi in self.abis} for kind in ("out", JNI, LINUX)}
        found[MACOS] = {abi: scratch / abi.name / MACOS / f"lib{name}.dylib" for abi in self.abis}
        return Libraries(
            native={abi.name: path for abi, path in found["out"].items() if path.exists()},
            java={abi.name: path for abi, path in found[JNI].items() if path.exists()},
            on_jvm={
                f"{system}-{abi.machine}": path
                for system in (LINUX, MACOS)
                for abi, path in found[system].items()
                if path.exists()
            },
        )


def _copied(libraries: Mapping[str, Path], folder: Path) -> list[str]:
    """Copy the libraries of ABIs to the folder. Returns their names there."""
    for abi, library in libraries.items():
        (folder / abi).mkdir()
        shutil.copyfile(library, folder / abi / library.name)
    return [f"{abi}/{library.name}" for abi, library in libraries.items()]


def _copied_files(weights: Path, code: Mapping[str, bytes], folder: Path) -> list[str]:
    """Copy what all ABIs share to the folder. Returns the names there."""
    shutil.copyfile(weights, folder / WEIGHTS)
    for name, data in code.items():
        (folder / name).write_bytes(data)
    return [WEIGHTS, *code]


def _require_typed(program: Program) -> None:
    """Raise `UsageError` for a model that the Java classes cannot call."""
    for function in program.public:
        lengths = {port.name for port in function.inputs}
        for port in (*function.inputs, *function.outputs):
            first, *others = port.instance or ("",)
            flat = first not in lengths or any(extent in lengths for extent in others)
            if port.instance is not None and flat and any(map(_is_open, port.instance)):
                text = f"instances of '{port.name}' have extents that depend on dims, which the Java classes of an AAR"
                raise UsageError(f"{text} do not compute yet: build libraries with --format so")


def _is_open(extent: str | IntExpr) -> bool:
    """Whether an extent of instances is neither a number nor lengths."""
    from deploykit.compiler.dims import free_vars

    return not isinstance(extent, str) and bool(free_vars(extent))
