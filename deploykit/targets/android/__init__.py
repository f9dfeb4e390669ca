"""A library for Android apps: kernels for the CPUs of phones and of emulators, without NDK and Gradle.

As an AAR, the form that Android's build tools take:

kotlin/<Name>Coroutines.kt        suspending functions, a source for apps in Kotlin
maven/<group>/<name>/<version>/   a Maven repository: the AAR (Java classes, libraries, weights), its .pom and sources,
                                  and a jar with the library for tests on a JVM of Linux
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

import hashlib
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deploykit import runtime
from deploykit.artifact.devices import CODE
from deploykit.basics.scratch import Scratch
from deploykit.errors import ToolchainError, UsageError
from deploykit.options.option import option
from deploykit.targets import answers
from deploykit.targets.android import weights_file
from deploykit.targets.base import Availability, PackageOptions
from deploykit.targets.licenses import license_of_model
from deploykit.targets.templates import render
from deploykit.text import FILE

if TYPE_CHECKING:
    from deploykit.artifact.manifest import Manifest
    from deploykit.compiler.dims.expressions import IntExpr
    from deploykit.compiler.program.ir import Program
    from deploykit.compiler.variant import Variant
    from deploykit.engines import Engine, EngineOptions
    from deploykit.targets.android.abis import Abi

AAR, LIBRARIES = "aar", "so"
INSIDE, APART = "inside", "apart"

INCLUDE = "include"
JNI = "jni"
LINUX = "linux"
WEIGHTS = "weights.bin"
STEPS = "steps.txt"

HEADERS = (runtime.HEADER, runtime.THREADS_HEADER)

JVM_MACHINES = ("x86_64", "aarch64")
"""The machines whose library for Linux a JVM can load in tests."""

_PACKAGE = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+")
_CLASS = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True)
class AndroidOptions:
    package: str | None = option(None, "the package of the Java classes, by default org.deploykit.<name>")
    class_: str | None = option(None, "the name of the model's class, by default that of the model")
    group: str = option("org.deploykit", "the group of the Maven coordinates")
    version: str = option("1.0", "the version of the Maven coordinates")
    weights: str = option(INSIDE, "where the weights are: inside of the AAR, or apart, in a file beside it")
    license: str | None = option(
        None, "the model's licence as an SPDX identifier, by default what its folder or file says"
    )
    url: str | None = option(None, "the address of a page about the model, for its description in a Maven repository")


class AndroidTarget:
    """The target for Android. `abis` are the names of the kinds of CPU to build for, by default all; an unknown one is
    refused with `UsageError`. `form` is the format of builds that do not choose one."""

    name = "android"
    description = "an AAR for Android apps, or libraries for C and C++ (--format so), without NDK and Gradle"
    formats = (AAR, LIBRARIES)
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
        from deploykit.compiler.codegen.native.objects import emit_objects
        from deploykit.targets.android.abis import ABIS, by_abi
        from deploykit.targets.android.jars import find_java_compiler
        from deploykit.targets.host import split_gpu

        levels, on_gpu = split_gpu(programs)
        if (options.format or self._form) == AAR:
            find_java_compiler()  # so that a build without one fails early
            _require_typed(levels[0])
        fast = options.compiling.fast_math
        emitted = {} if on_gpu is None else self._emit_on_gpu(levels[0], on_gpu, options)
        for abi, parts in by_abi(levels, self.abis).items():
            texts = emit_host(parts, options.version) | answers.emit(parts[0], options.version)
            emitted |= {f"{abi}-{name}": text.encode() for name, text in texts.items()}
            for part in parts:
                prefix = kernel_prefix(part, parts)
                objects = emit_objects(part.kernels, prefix, ABIS[abi].cpu(part.cpu), fast_math=fast)
                emitted |= {f"{abi}-{part.cpu}.{index}.o": data for index, data in enumerate(objects)}
        return emitted

    def _emit_on_gpu(self, program: Program, on_gpu: Program, options: PackageOptions) -> dict[str, bytes]:
        """The program for GPUs: its kernels, and for each ABI the texts and the kernels that are for CPUs."""
        from deploykit.compiler.codegen.host.gpu import emit_kernels
        from deploykit.compiler.codegen.host.source import emit_host, kernel_prefix
        from deploykit.compiler.codegen.native.objects import emit_objects
        from deploykit.compiler.codegen.weights.blob import first_weight
        from deploykit.targets.host import MODEL_ON_GPU

        files = emit_kernels(on_gpu, options.devices, options.version, first_weight(program, on_gpu))
        emitted = {name: files.pop(name) for name in CODE.values() if name in files}
        files |= {name: text.encode() for name, text in emit_host([on_gpu], options.version, MODEL_ON_GPU).items()}
        others = [kernel for kernel in on_gpu.kernels if not kernel.gpu]
        for abi in self.abis:
            least = abi.cpu(abi.levels[-1])
            objects = emit_objects(
                others, kernel_prefix(on_gpu, [on_gpu]), least, fast_math=options.compiling.fast_math
            )
            emitted |= {f"{abi.name}-{name}": data for name, data in files.items()}
            emitted |= {f"{abi.name}-on_gpu.{index}.o": data for index, data in enumerate(objects)}
        return emitted

    def package(
        self, programs: Sequence[Program], emitted: Mapping[str, bytes], folder: Path, options: PackageOptions
    ) -> list[str]:
        from deploykit.compiler.codegen.host.header import package_view
        from deploykit.compiler.codegen.weights.blob import write_weights
        from deploykit.targets.host import split_gpu

        levels, on_gpu = split_gpu(programs)
        program = levels[0]
        view = package_view(program, options.version)
        view |= {"on_gpu": on_gpu and package_view(on_gpu, options.version), "devices": options.devices, "files": CODE}
        view |= {"instances": program.dynamic, **answers.views(program, options.version)}
        view |= _names(view["prefix"], options.own or AndroidOptions())
        java = (options.format or self._form) == AAR
        headers = self._write_headers(program, emitted, folder, options.devices if on_gpu else ())
        with Scratch() as place:
            scratch = Path(place)
            weights = scratch / WEIGHTS
            write_weights(program, weights, on_gpu)
            if java:
                view["weights_hash"] = weights_file.prepend_hash(weights)
            view["file_bytes"] = weights.stat().st_size
            libraries = self._link(levels, view, emitted, scratch, java=java)
            names = _copied(libraries, folder)
            shipped = {
                abi: scratch / abi / JNI / library.name if java else library for abi, library in libraries.items()
            }
            on_linux = {
                abi.machine: path
                for abi in self.abis
                if (path := scratch / abi.name / LINUX / libraries[abi.name].name).exists()
            }
            view["libraries"] = {abi: library.stat().st_size for abi, library in shipped.items()}
            code = {name: emitted[name] for name in CODE.values() if name in emitted}
            if java:
                from deploykit.targets.android.aar import write_maven
                from deploykit.targets.android.java import coroutines, is_profiled

                view["build"] = _digest(emitted)
                view |= _licenses(program, options)
                assets = {STEPS: _steps(programs)} if is_profiled(view) else {}
                assets |= {FILE: program.task_files[FILE]} if view["texts"] or view["messages"] else {}
                name, text = coroutines(view)
                (folder / name).parent.mkdir()
                (folder / name).write_text(text, encoding="utf-8")
                if view["apart"]:
                    shutil.copyfile(weights, folder / WEIGHTS)
                    names.append(WEIGHTS)
                names = [*write_maven(view, shipped, on_linux, weights, assets | code, folder), *names, name]
                readme = "README.md"
            else:
                names += _copied_files(weights, code, folder)
                readme = "libraries.md"
        view["abis"] = [abi.name for abi in self.abis]
        (folder / "README.md").write_text(render(__name__, readme, view), encoding="utf-8")
        return [*names, *headers, "README.md"]

    def engine(self, folder: Path, manifest: Manifest, scratch: Path, options: EngineOptions) -> Engine:
        from deploykit.targets.android.running import open_engine

        return open_engine(folder, manifest, scratch, options)

    def sources(self, folder: Path) -> list[Path]:
        raise UsageError(f"{folder} is for Android: it can be neither sanitized nor profiled; build for host for that")

    def _write_headers(
        self, program: Program, emitted: Mapping[str, bytes], folder: Path, devices: Sequence[str]
    ) -> list[str]:
        start = f"{self.abis[0].name}-"
        (folder / INCLUDE).mkdir()
        found = {name.removeprefix(start): data for name, data in emitted.items() if name.startswith(start)}
        texts = {name: data for name, data in found.items() if name.endswith(".h")}
        further = _further(program)
        if devices:
            further = (*further, runtime.DRIVER_HEADER, runtime.INCLUDE / "gpu.h")
        for header in (*HEADERS, *(path for path in further if path.suffix == ".h" and path != runtime.TEXT_TABLES)):
            texts[header.name] = header.read_bytes()
        for name, data in texts.items():
            (folder / INCLUDE / name).write_bytes(data)
        return [f"{INCLUDE}/{name}" for name in texts]

    def _link(
        self,
        programs: Sequence[Program],
        view: Mapping[str, Any],
        emitted: Mapping[str, bytes],
        scratch: Path,
        *,
        java: bool,
    ) -> dict[str, Path]:
        """The libraries for C by ABI, in `scratch`. With `java` those for Java are beside them, in folders `JNI`, and
        those for Linux in folders `LINUX`. `programs` are those for CPUs."""
        from deploykit.basics.parallel import each
        from deploykit.targets.android.abis import by_abi
        from deploykit.targets.android.linking import link
        from deploykit.targets.host import exported

        program = programs[0]
        further = _further(program)
        exports = [*exported(view["functions"], instances=program.runs_instances), "dk_*", *answers.exported(program)]
        if view["on_gpu"] is not None:
            further = (*further, *runtime.gpu_sources(view["devices"], instances=program.runs_instances))
            exports += exported(view["on_gpu"]["functions"], instances=False, on_gpu=True)
            exports += [f"{view['on_gpu']['prefix']}_{device}" for device in view["devices"]]
        shared = [path for path in further if path.suffix == ".c"]
        macros = _macros(program, view) if java else None

        def linked(abi: Abi) -> Path:
            place, name = scratch / abi.name, f"lib{view['prefix']}.so"
            outputs = {place / "out" / name: exports} | ({place / JNI / name: ["JNI_OnLoad"]} if java else {})
            on_linux = place / LINUX / name if java and abi.machine in JVM_MACHINES else None
            if on_linux is not None:
                outputs[on_linux] = ["JNI_OnLoad"]
            place.mkdir()
            for file, data in emitted.items():
                if file.startswith(f"{abi.name}-"):
                    (place / file.removeprefix(f"{abi.name}-")).write_bytes(data)
            levels = ",".join(f'"{part.cpu}"' for part in by_abi(programs, [abi])[abi.name])
            of_abi = None if macros is None else macros | {"DK_LEVELS": levels}
            link(abi, place, sorted(place.glob("*.o")), outputs, shared, of_abi, on_linux)
            return place / "out" / name

        return dict(zip((abi.name for abi in self.abis), each(linked, self.abis), strict=True))


def _further(program: Program) -> tuple[Path, ...]:
    """The sources beside the core that a model needs, except those for GPUs."""
    own = runtime.further_sources(states=bool(program.states.tensors), instances=program.runs_instances)
    return (*own, *answers.sources(program))


def _names(prefix: str, own: AndroidOptions) -> dict[str, Any]:
    """The names of the Java package and of the Maven artifact, and whether the weights are apart. Raises `UsageError`
    for names that cannot be."""
    from deploykit.targets.android.java import KEYWORDS, class_name, is_free, package_name

    package = package_name(prefix) if own.package is None else own.package
    if not _PACKAGE.fullmatch(package) or KEYWORDS.intersection(package.split(".")):
        raise UsageError(f"'{package}' cannot be the name of a Java package: choose one like com.acme.model")
    if own.weights not in (INSIDE, APART):
        raise UsageError(f"weights of an AAR are {INSIDE} or {APART}, not '{own.weights}'")
    chosen = class_name(prefix) if own.class_ is None else own.class_
    if not _CLASS.fullmatch(chosen) or not (own.class_ is None or is_free(chosen)):
        raise UsageError(f"'{chosen}' cannot be the name of the model's class: choose another one, like Digits")
    names = {"package": package, "group": own.group, "release": own.version, "class": chosen}
    for name in ("group", "release"):
        if not _WORD.fullmatch(names[name]):
            raise UsageError(f"'{names[name]}' cannot be part of Maven coordinates: use letters, digits, '.', '_', '-'")
    return {**names, "apart": own.weights == APART}


def _licenses(program: Program, options: PackageOptions) -> dict[str, Any]:
    """What the texts of an AAR say of licences, and of a page about the model."""
    own = options.own or AndroidOptions()
    license_ = license_of_model(options.place, program.license, own.license)
    return {"url": own.url, "model_license": license_.name, "license_file": license_.text}


def _macros(program: Program, view: Mapping[str, Any]) -> dict[str, str | int]:
    widest = max((constant.data.dtype.itemsize for constant in program.constants), default=4)
    java_class = f"{view['package']}.Native".replace(".", "/")
    macros: dict[str, str | int] = {
        "DK_JAVA_CLASS": f'"{java_class}"',
        "DK_WEIGHTS_ALIGNMENT": max(widest, 4),
        "DK_WEIGHTS_HASH": f'"{view["weights_hash"]}"',
        "DK_MOST_DIMS": max(len(function["dims"]) for function in view["functions"]) or 1,
        "DK_PROGRAMS(PLAIN,STATEFUL)": _programs(view["functions"]),
    }
    macros |= {"DK_TEXTS": 1} if view["texts"] or view["messages"] else {}
    macros |= {"DK_SPEAKS": 1} if view["messages"] and view["messages"]["speaks"] else {}
    macros |= {"DK_MASKS": 1} if view["texts"] is not None and view["texts"]["kind"] == "fill" else {}
    macros |= {
        f"DK_{kind.upper()}": f"{view['prefix']}_task" for kind in ("messages", "pictures", "sounds") if view[kind]
    }
    if view["on_gpu"] is not None:
        macros |= {"DK_GPU_PROGRAMS(PLAIN,STATEFUL)": _programs(view["on_gpu"]["functions"])}
        macros |= {"DK_ON_GPU": view["on_gpu"]["prefix"]}
        macros |= {f"DK_{device.upper()}": 1 for device in view["devices"]}
    return macros


def _programs(functions: Sequence[Mapping[str, Any]]) -> str:
    """The functions of a model as `jni_programs.c` takes them."""
    return " ".join(
        f"STATEFUL({function['prefix']}, {function['states']['range']})"
        if function["states"]
        else f"PLAIN({function['prefix']})"
        for function in functions
    )


def _digest(emitted: Mapping[str, bytes]) -> str:
    """A text that is another one for other kernels."""
    digest = hashlib.blake2b(digest_size=8)
    for name in sorted(emitted):
        digest.update(name.encode())
        digest.update(emitted[name])
    return digest.hexdigest()


def _steps(programs: Sequence[Program]) -> bytes:
    """The names of the steps of each program, for profiles: lines `= <CPU> ...`, and behind each the steps of these
    programs in order, with a tab and what it computes if it takes time."""
    from deploykit.compiler.program.plan import plan_of

    texts: dict[str, list[str]] = {}
    for program in programs:
        plan = plan_of(program, program.public[0])
        results = {entry.step: f"\t{entry.result}" for entry in plan.work}
        text = "".join(f"{name}{results.get(number, '')}\n" for number, name in enumerate(plan.steps))
        texts.setdefault(text, []).append(program.level)
    return "".join(f"= {' '.join(names)}\n{text}" for text, names in texts.items()).encode()


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
