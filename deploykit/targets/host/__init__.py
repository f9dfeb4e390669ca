"""A shared library for this machine: native kernels through LLVM, host code in C, a thread pool.

lib<name>.so    the library: everything below, linked, except the weights
weights.bin     the constants; the caller loads or maps the file and passes its address
model.h         the interface of the model, deploykit.h the types, threads.h the pool
kernels.spv kernels.cl   the code of the kernels for the devices vulkan and opencl, if it was built for them
model_on_gpu.h <name>_on_gpu_kernels.h   the interface of the model on these devices, gpu.h that of their drivers
model.c part_*.c deploykit.c errors.c threads.c cpu.c kernels.o   the sources and objects of the library, to link them
                into a program instead; part_*.c exist if there are kernels for several CPUs
model_texts.h texts.h text.h tokenizer.bin   of a model of texts: the interface for texts, that of the tokenizer in the
                library, and its tables; model_texts.c, texts.c and others are their sources
model_pictures.h pictures.h   of a model of pictures: the interface for pictures; model_pictures.c, pictures.c and
                others are its sources. Of a model of sound they are called sounds
"""

from __future__ import annotations

import platform
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deploykit import runtime
from deploykit.artifact.devices import CODE, ON_GPU
from deploykit.basics.parallel import each
from deploykit.basics.scratch import Scratch
from deploykit.basics.toolchain import Compiler, compiled, find_c_compiler, find_cross_compiler
from deploykit.compiler.devices.gpu import CLASSES, NATIVE_GPU, USUAL, GpuClass
from deploykit.errors import ArtifactError, ToolchainError, UsageError
from deploykit.targets import answers
from deploykit.targets.base import Availability, PackageOptions
from deploykit.targets.host.glibc import old_libraries
from deploykit.targets.templates import render
from deploykit.text import FILE

if TYPE_CHECKING:
    from deploykit.artifact.manifest import Manifest
    from deploykit.compiler.program.ir import Program
    from deploykit.compiler.variant import Variant
    from deploykit.engines import Engine, EngineOptions

COPIED = (
    *(runtime.HEADER, *runtime.CORE),
    *(runtime.THREADS_HEADER, runtime.SHARES, runtime.THREADS),
    *(runtime.CPU_HEADER, runtime.CPU),
)
"""Sources that all models share."""

PUBLIC = ("init", "bind", "run", "arena_bytes", "output_shape", "last_error", "descriptor")
"""The symbols that the library exports for each function, without the function's prefix."""

OF_STATES = ("state_bytes", "reset_state", "set_state")
"""The further symbols of a function with states."""

OF_GPUS = ("resident",)
"""The further symbol of a function on a GPU."""

OF_STREAMS = ("submit", "step", "take", "has_room", "cancel")
"""The further symbols of a dynamic model."""


MODEL_ON_GPU = f"model{ON_GPU}"
"""The files with these functions, without their ends."""


INCLUDED = tuple(f"-I{path}" for path in (runtime.INCLUDE, runtime.BATCHING, runtime.GPU, *answers.INCLUDED))


class HostTarget:
    name = "host"
    description = "a shared library for this machine, with native kernels and a thread pool"

    def check(self) -> Availability:
        try:
            compiler = find_c_compiler()
        except ToolchainError as error:
            return Availability(build=False, run=True, detail=str(error))
        return Availability(build=True, run=True, detail=f"{compiler.family}: {compiler.version}")

    def variants(self, cpu: str, devices: Sequence[str] = ()) -> list[Variant]:
        from deploykit.compiler.codegen.native.cpus import find_cpu, levels, machine_of
        from deploykit.compiler.variant import native_levels, with_gpu
        from deploykit.engines.native.emulated import MACHINES

        for level in levels(cpu):
            if machine_of(find_cpu(level)) not in MACHINES.values():
                raise UsageError(f"target host is for 64-bit machines, and {level} is none: build for android")
        kind = class_of(devices)
        variants = native_levels(cpu)
        return [*variants, with_gpu(variants[-1], kind)] if devices else variants

    def emit(self, programs: Sequence[Program], options: PackageOptions) -> dict[str, bytes]:
        from deploykit.compiler.codegen.host.gpu import emit_kernels
        from deploykit.compiler.codegen.host.source import emit_host, kernel_prefix
        from deploykit.compiler.codegen.native.cpus import find_cpu
        from deploykit.compiler.codegen.native.objects import emit_object, join
        from deploykit.compiler.codegen.weights.blob import first_weight

        levels, on_gpu = split_gpu(programs)
        written = emit_host(levels, options.version) | answers.emit(levels[0], options.version)
        kernels: dict[str, bytes] = {}
        if on_gpu is not None:
            written |= emit_host([on_gpu], options.version, MODEL_ON_GPU)
            kernels = emit_kernels(on_gpu, options.devices, options.version, first_weight(levels[0], on_gpu))
        objects = [
            emit_object(
                [kernel for kernel in part.kernels if not kernel.gpu],
                kernel_prefix(part, levels if part.gpu is None else [part]),
                find_cpu(part.cpu or options.cpu),
                fast_math=options.compiling.fast_math,
            )
            for part in (*levels, *([] if on_gpu is None else [on_gpu]))
        ]
        return {name: text.encode() for name, text in written.items()} | kernels | {"kernels.o": join(objects)}

    def package(
        self, programs: Sequence[Program], emitted: Mapping[str, bytes], folder: Path, options: PackageOptions
    ) -> list[str]:
        from deploykit.compiler.codegen.host.header import package_view
        from deploykit.compiler.codegen.native.cpus import find_cpu, machine_of
        from deploykit.compiler.codegen.weights.blob import write_weights

        levels, on_gpu = split_gpu(programs)
        program = levels[0]
        view = package_view(program, options.version)
        for name, data in emitted.items():
            (folder / name).write_bytes(data)
        view["parts"] = len(levels) > 1
        view["on_gpu"] = None if on_gpu is None else package_view(on_gpu, options.version)
        view |= {"devices": options.devices, "files": CODE, **answers.views(program, options.version)}
        (folder / "README.md").write_text(render(__name__, "README.md", view), encoding="utf-8")
        copied = (
            *COPIED,
            *runtime.further_sources(states=bool(program.states.tensors), instances=program.runs_instances),
            *answers.sources(program),
        )
        if FILE in program.task_files:  # `deploykit.open` takes the tokenizer from the library
            copied = tuple(dict.fromkeys((*copied, *runtime.TEXT)))
        if on_gpu is not None:
            copied = (*copied, *runtime.gpu_sources(options.devices, instances=program.runs_instances))
        for source in copied:
            shutil.copyfile(source, folder / source.name)
        write_weights(program, folder / "weights.bin", on_gpu)
        machine = machine_of(find_cpu(program.cpu or options.cpu))
        public = [*exported(view["functions"], instances=program.runs_instances), *answers.exported(program)]
        if on_gpu is not None:
            public += exported(view["on_gpu"]["functions"], instances=False, on_gpu=True)
            public += [f"{view['on_gpu']['prefix']}_{device}" for device in options.devices]
        sources = [name for name in emitted if name.endswith(".c")]
        shared = [source for source in copied if source.suffix == ".c"]
        _link(machine, folder, view["prefix"], public, sources, shared)
        library = f"lib{view['prefix']}.so"
        return [library, "weights.bin", *emitted, *(source.name for source in copied), "README.md"]

    def engine(self, folder: Path, manifest: Manifest, scratch: Path, options: EngineOptions) -> Engine:
        from deploykit.engines.native.loading import load_library

        for library in folder.glob("lib*.so"):
            return load_library(library, self.sources(folder), folder, manifest, scratch, options)
        raise ArtifactError(f"{folder} holds no library: build the model again")

    def sources(self, folder: Path) -> list[Path]:
        of_gpus = {path.name for path in runtime.gpu_sources(CODE, instances=True)}
        found = [path for path in folder.glob("*.c") if ON_GPU not in path.stem and path.name not in of_gpus]
        return [*sorted(found), folder / "kernels.o"]


def split_gpu(programs: Sequence[Program]) -> tuple[list[Program], Program | None]:
    """The programs for CPUs, and that for GPUs, if there is one."""
    levels = [program for program in programs if program.gpu is None]
    on_gpu = next((program for program in programs if program.gpu is not None), None)
    return levels, on_gpu and replace(on_gpu, suffix=ON_GPU)


def class_of(devices: Iterable[str]) -> GpuClass:
    """The class of GPUs that devices such as `vulkan:mobile` name. Raises `UsageError` for a device that native
    machines do not have, for an unknown class, and for several classes: all devices run the same kernels."""
    classes: dict[str, None] = {}
    for device in devices:
        name, colon, kind = device.partition(":")
        if name not in CODE:
            raise UsageError(f"there is no device '{name}': there are {' and '.join(CODE)}")
        if colon and kind not in CLASSES:
            raise UsageError(f"there is no class '{kind}' of devices: there are {', '.join(CLASSES)}")
        classes |= {kind: None} if colon else {}
    if len(classes) > 1:
        raise UsageError(f"an artifact is for one class of devices, not for {' and '.join(classes)}")
    return CLASSES[next(iter(classes))] if classes else USUAL


def exported(functions: Iterable[Mapping[str, Any]], *, instances: bool, on_gpu: bool = False) -> list[str]:
    """The symbols of a model that a library exports. `functions` are views for templates; `instances`: the model is
    dynamic; `on_gpu`: it is the model on a GPU."""
    further = (*(OF_STREAMS if instances else ()), *(OF_GPUS if on_gpu else ()))
    return [
        f"{function['prefix']}_{name}"
        for function in functions
        for name in (*PUBLIC, *(OF_STATES if function["states"] else ()), *further)
    ]


def _link(
    machine: str, folder: Path, prefix: str, public: Iterable[str], sources: Sequence[str], shared: Iterable[Path]
) -> None:
    """Link the library for a machine from the kernels and `sources` in `folder`, and from the sources `shared` by all
    models. It exports only the symbols `public` and those of `shared`."""
    compiler = find_c_compiler() if machine == platform.machine() else find_cross_compiler(machine)
    options = ("-O2", "-fPIC", "-pthread", f"-DDK_MAX_SCALARS={NATIVE_GPU.scalars}")
    with Scratch() as scratch:
        exports = Path(scratch) / "exports.map"
        exports.write_text(f"{{ global: {''.join(f'{name};' for name in public)} dk_*; local: *; }};\n")
        quick = ("-O1",)  # control flow is one long function, which takes several times as long to optimise further
        objects = each(
            lambda name: _compile(
                compiler, folder / name, Path(scratch), (*options, *(quick if name.endswith("_control.c") else ()))
            ),
            sources,
        )
        for source in shared:
            size = ("-Os",) if source in runtime.CHECKS else ()
            objects.append(Path(scratch) / f"{source.stem}.o")
            objects[-1].write_bytes(compiled(compiler, source, *options, *size, *INCLUDED))
        objects += [folder / "kernels.o", *old_libraries(compiler, machine, Path(scratch))]
        compiler.link_shared(objects, folder / f"lib{prefix}.so", "-s", f"-Wl,--version-script={exports}", "-ldl")


def _compile(compiler: Compiler, source: Path, scratch: Path, options: Sequence[str]) -> Path:
    output = scratch / f"{source.stem}.o"
    compiler.compile_kept(source, output, *options)
    return output
