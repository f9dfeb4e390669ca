"""Links a library of a model, or of several, for one ABI: kernels, host code, the thread pool, the drivers of GPUs, and
for Java the calls of its interface. What is the same for all models is there once.

Android's C library is neither present nor needed: its functions are declared in `runtime/android/include`, and the
linker gets libraries of the same names with empty functions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from deploykit import runtime
from deploykit.artifact.devices import CODE
from deploykit.basics.parallel import each
from deploykit.basics.scratch import Scratch
from deploykit.basics.toolchain import Compiler, compiled, find_android_compiler
from deploykit.compiler.devices.gpu import NATIVE_GPU
from deploykit.targets import answers
from deploykit.targets.android.abis import MACOS, MACOS_VERSION, Abi
from deploykit.targets.stubs import LOADER, MATHEMATICS, stub

_SYSTEM = """
memcpy memmove memset memcmp strlen strcmp strrchr strstr malloc calloc realloc free posix_memalign mmap64 munmap open
close mkstemp fopen fdopen fclose fread fwrite fgetc fseek ftell remove rename snprintf vsnprintf sscanf clock_gettime
getauxval
pthread_create pthread_join pthread_self
pthread_mutex_init pthread_mutex_lock pthread_mutex_unlock pthread_mutex_destroy
pthread_cond_init pthread_cond_wait pthread_cond_signal pthread_cond_broadcast pthread_cond_destroy
"""

LIBRARIES: Mapping[str, Sequence[str]] = {
    "c": tuple(_SYSTEM.split()),
    "m": MATHEMATICS,
    "dl": LOADER,
}
"""The functions of Android's libraries that a model's library may call, all there since Android 7."""

_ON_ANDROID = {name: f"lib{name}.so" for name in LIBRARIES}
_ON_LINUX = {"c": "libc.so.6", "m": "libm.so.6", "dl": "libdl.so.2"}
"""The names of these libraries on each system. Functions of threads are in a library that every JVM has loaded."""

_OF_ARM = tuple(f"__aeabi_mem{name}{size}" for name in ("cpy", "move", "set", "clr") for size in ("", "4", "8"))
"""The further functions of the C library on 32-bit Arm."""

_OPTIONS = ("-O2", "-g0", "-fPIC", "-ffunction-sections", "-fdata-sections", "-fno-unwind-tables")
_PAGE_BYTES = 16 << 10

_SMALL = {*runtime.CHECKS, *runtime.gpu_sources(CODE, instances=False)}
"""Sources whose time is short beside that of kernels."""

_SHARED = (*runtime.CORE, runtime.THREADS, runtime.CPU)


_OF_MODEL = """
dk_register dk_function_count dk_on_cpu dk_on_gpu dk_share_memory dk_leave_gpu dk_close_writer
JNI_open JNI_adapter JNI_leave JNI_answerBytes JNI_openAnswers JNI_beginAnswer JNI_stepAnswer JNI_render
JNI_pictureSize JNI_preparePicture JNI_prepareFrame JNI_objects JNI_segments
JNI_soundCount JNI_prepareSound JNI_letters
"""
"""The functions and tables of the interface for Java that each model of a library has for itself."""

_SHARED_BY_MODELS = {"DK_TEXTS": runtime.ANDROID_JNI_TEXT, "DK_PICTURES": runtime.CAMERA}
_OF_ONE_MODEL = {
    "DK_ON_GPU": runtime.ANDROID_JNI_GPU,
    "DK_MESSAGES": runtime.ANDROID_JNI_MESSAGES,
    "DK_PICTURES": runtime.ANDROID_JNI_PICTURES,
    "DK_SOUNDS": runtime.ANDROID_JNI_SOUNDS,
}
"""By the macro that a model has: further sources of the interface for Java, and what they need."""


@dataclass(frozen=True)
class Part:
    """A model in a library: the C files in `folder`, and objects. `java`: the macros of its interface for Java."""

    prefix: str
    folder: Path
    objects: tuple[Path, ...]
    java: Mapping[str, str | int] | None = None


def link(
    abi: Abi,
    parts: Sequence[Part],
    outputs: Mapping[Path, Sequence[str]],
    shared: Iterable[Path] = (),
    on_linux: Path | None = None,
    java_class: str | None = None,
) -> None:
    """Link models, and the sources `shared` by all of them, into libraries, `outputs` by path with the symbols that
    each exports; that at `on_linux` is for Linux instead of Android. Java loads libraries of models with macros for it,
    and can time their steps. `java_class` gives each of several models its functions.

    Raises `ToolchainError` with the linker's message."""
    compiler = find_android_compiler(abi.triple)
    with Scratch() as place:
        scratch = Path(place)
        arm = (runtime.ANDROID_ARM,) if abi.machine == "arm" else ()
        options = (*abi.options, f"-I{runtime.ANDROID_INCLUDE}")
        inputs = _objects(compiler, parts, (*shared, *arm), options, java_class, scratch)
        version = scratch / "exports.map"
        for output, exports in outputs.items():
            version.write_text(f"{{ global: {''.join(f'{name};' for name in exports)} local: *; }};\n")
            output.parent.mkdir(parents=True, exist_ok=True)
            stubs = _stubs(compiler, abi, scratch, _ON_LINUX if output == on_linux else _ON_ANDROID)
            compiler.link_alone([*inputs, *stubs], output, *_linked(output.name, version))


def with_own_halves(data: bytes) -> bytes:
    """An object for macOS whose conversions of half precision have names of their own. The linker would take those of
    the system instead, which on x86-64 are called in another way."""
    return data.replace(b"___extendhfsf2\0", b"___dk_extendhf\0").replace(b"___truncsfhf2\0", b"___dk_truncsf\0")


def link_for_macos(
    machine: str, parts: Sequence[Part], output: Path, shared: Iterable[Path] = (), java_class: str | None = None
) -> None:
    """Link the library that a JVM of macOS loads, as `link` does. Its C library is that of the system.

    Raises `ToolchainError` with the linker's message."""
    compiler = find_android_compiler(f"{machine}-{MACOS}.{MACOS_VERSION}")
    output.parent.mkdir(parents=True, exist_ok=True)
    with Scratch() as place:
        options = ("-fvisibility=hidden", f"-I{runtime.MACOS_INCLUDE}")
        inputs = _objects(compiler, parts, shared, options, java_class, Path(place))
        compiler.link_library(inputs, output, f"-Wl,-install_name,@rpath/{output.name}")


def _objects(
    compiler: Compiler,
    parts: Sequence[Part],
    shared: Iterable[Path],
    further: Sequence[str],
    java_class: str | None,
    scratch: Path,
) -> list[Path]:
    """The objects of a library, in `scratch`. `further` are the options of its system."""
    places = (runtime.INCLUDE, runtime.CPU_HEADER.parent, runtime.BATCHING, runtime.GPU, *answers.INCLUDED)
    scalars = f"-DDK_MAX_SCALARS={NATIVE_GPU.scalars}"
    options = (*_OPTIONS, scalars, "-DDK_STOPPABLE", "-DDK_PHONE", *further, *(f"-I{path}" for path in places))
    macros = {name for part in parts for name in part.java or ()}
    core = [f"-DDK_WEIGHTS_ALIGNMENT={part.java['DK_WEIGHTS_ALIGNMENT']}" for part in parts[:1] if part.java]
    inputs = [path for part in parts for path in _compiled(compiler, part, options, scratch, len(parts) > 1)]
    for source in (*_SHARED, *shared):
        inputs.append(scratch / f"shared-{source.stem}.o")
        size = ("-Os",) if source in _SMALL else ()
        own = ("-fno-builtin",) if source == runtime.ANDROID_ARM else core if source in runtime.CORE else ()
        inputs[-1].write_bytes(compiled(compiler, source, *options, *size, *own))
    masks = ("-DDK_MASKS",) if "DK_MASKS" in macros else ()
    for source in _java_sources(macros):
        inputs.append(scratch / f"shared-{source.stem}.o")
        compiler.compile(source, inputs[-1], *options, *masks, "-Os")
    if java_class is not None:
        models = " ".join(f"X({part.prefix})" for part in parts)
        inputs.append(scratch / "models.o")
        named = (f'-DDK_JAVA_CLASS="{java_class}"', f"-DDK_MODELS(X)={models}")
        compiler.compile(runtime.ANDROID_JNI_MODELS, inputs[-1], *options, *named, "-Os")
    return inputs


def _compiled(compiler: Compiler, part: Part, options: Sequence[str], scratch: Path, several: bool) -> list[Path]:
    """The objects of a model. With several models in a library, its interface for Java has names of its own."""
    place = scratch / part.prefix
    place.mkdir()
    including = (*options, f"-I{part.folder}")

    def made(source: Path) -> Path:
        further = ["-O1"] if source.name.endswith("_control.c") else []
        further += ["-DDK_PROFILE"] if part.java is not None else []
        compiler.compile(source, place / f"{source.stem}.o", *including, *further)
        return place / f"{source.stem}.o"

    objects = [*part.objects, *each(made, sorted(part.folder.glob("*.c")))]
    macros = {**(part.java or {}), **({name: f"{part.prefix}_{name}" for name in _OF_MODEL.split()} if several else {})}
    further = [path for macro, path in _OF_ONE_MODEL.items() if macro in macros]
    for source in (*runtime.ANDROID_JNI, *further) if part.java is not None else ():
        objects.append(place / f"java-{source.stem}.o")
        compiler.compile(
            source, objects[-1], *including, *(f"-D{name}={value}" for name, value in macros.items()), "-Os"
        )
    return objects


def _java_sources(macros: Collection[str]) -> tuple[Path, ...]:
    """The sources of the interface for Java that models share; without macros there is no interface."""
    if not macros:
        return ()
    return (runtime.ANDROID_JNI_PROFILE, *(path for macro, path in _SHARED_BY_MODELS.items() if macro in macros))


def _linked(name: str, version: Path) -> list[str]:
    flags = (
        *("-z,defs", "-z,now", "-z,relro", f"-z,max-page-size={_PAGE_BYTES}"),
        *(f"-soname,{name}", f"--version-script={version}", "-Bsymbolic", "--gc-sections", "--as-needed"),
        "--hash-style=gnu",
    )
    return ["-s", *(f"-Wl,{flag}" for flag in flags)]


def _stubs(compiler: Compiler, abi: Abi, folder: Path, names: Mapping[str, str]) -> list[Path]:
    """Libraries in the place of the system's, with the functions of `LIBRARIES`."""
    paths = []
    for name, functions in LIBRARIES.items():
        paths.append(folder / names[name])
        further = _OF_ARM if name == "c" and abi.machine == "arm" else ()
        paths[-1].write_bytes(stub(compiler, paths[-1].name, (*functions, *further), abi.options))
    return paths
