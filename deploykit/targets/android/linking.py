"""Links a model's library for one ABI: kernels, host code, the thread pool, the drivers of GPUs, and for Java the calls
of its interface.

Android's C library is neither present nor needed: its functions are declared in `runtime/android/include`, and the
linker gets libraries of the same names with empty functions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from deploykit import runtime
from deploykit.artifact.devices import CODE
from deploykit.basics.parallel import each
from deploykit.basics.scratch import Scratch
from deploykit.basics.toolchain import Compiler, compiled, find_android_compiler
from deploykit.compiler.devices.gpu import NATIVE_GPU
from deploykit.targets import answers
from deploykit.targets.android.abis import Abi
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


def link(
    abi: Abi,
    folder: Path,
    objects: Iterable[Path],
    outputs: Mapping[Path, Sequence[str]],
    shared: Iterable[Path] = (),
    java: Mapping[str, str | int] | None = None,
    on_linux: Path | None = None,
) -> None:
    """Link `objects`, the C files of `folder` and the sources `shared` by all models into libraries, `outputs` by path
    with the symbols that each exports; that at `on_linux` is for Linux instead of Android. `java`: the macros of the
    interface for Java, for libraries that Java loads, and whose steps can be timed.

    Raises `ToolchainError` with the linker's message."""
    compiler = find_android_compiler(abi.triple)
    own = (runtime.ANDROID_INCLUDE, runtime.INCLUDE, runtime.CPU_HEADER.parent, runtime.BATCHING, runtime.GPU)
    places = (*own, *answers.INCLUDED)
    macros = [f"-D{name}={value}" for name, value in (java or {}).items()]
    scalars = f"-DDK_MAX_SCALARS={NATIVE_GPU.scalars}"
    options = (*_OPTIONS, scalars, "-DDK_STOPPABLE", "-DDK_PHONE", *abi.options, *(f"-I{path}" for path in places))
    with Scratch() as place:
        scratch = Path(place)

        def made(source: Path) -> Path:
            further = ["-O1"] if source.name.endswith("_control.c") else []
            further += ["-DDK_PROFILE"] if java is not None else []
            compiler.compile(source, scratch / f"{source.stem}.o", *options, f"-I{folder}", *further)
            return scratch / f"{source.stem}.o"

        inputs = [*objects, *each(made, sorted(folder.glob("*.c")))]
        for source in (*_SHARED, *shared, *((runtime.ANDROID_ARM,) if abi.machine == "arm" else ())):
            inputs.append(scratch / f"shared-{source.stem}.o")
            size = ("-Os",) if source in _SMALL else ()
            further = ("-fno-builtin",) if source == runtime.ANDROID_ARM else macros if source in runtime.CORE else ()
            inputs[-1].write_bytes(compiled(compiler, source, *options, *size, *further))
        for source in _java_sources(java):
            inputs.append(scratch / f"shared-{source.stem}.o")
            compiler.compile(source, inputs[-1], *options, *macros, "-Os", f"-I{folder}")
        version = scratch / "exports.map"
        for output, exports in outputs.items():
            version.write_text(f"{{ global: {''.join(f'{name};' for name in exports)} local: *; }};\n")
            output.parent.mkdir(parents=True, exist_ok=True)
            stubs = _stubs(compiler, abi, scratch, _ON_LINUX if output == on_linux else _ON_ANDROID)
            compiler.link_alone([*inputs, *stubs], output, *_linked(output.name, version))


def _java_sources(macros: Mapping[str, str | int] | None) -> tuple[Path, ...]:
    """The sources of the interface for Java; `macros` are None without one."""
    if macros is None:
        return ()
    further = {"DK_ON_GPU": runtime.ANDROID_JNI_GPU, "DK_TEXTS": runtime.ANDROID_JNI_TEXT}
    further |= {"DK_MESSAGES": runtime.ANDROID_JNI_MESSAGES}
    further |= {"DK_PICTURES": runtime.ANDROID_JNI_PICTURES, "DK_SOUNDS": runtime.ANDROID_JNI_SOUNDS}
    return (*runtime.ANDROID_JNI, *(path for macro, path in further.items() if macro in macros))


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
