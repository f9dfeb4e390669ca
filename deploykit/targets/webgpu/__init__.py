"""A folder for web pages and node: the model as WebAssembly with vectors, and the JavaScript that loads it.

index.mjs index.d.mts package.json   the package: `load`, with the types of this model; index.d.ts points to them
model.wasm model-relaxed.wasm        kernels, host code and the C runtime; the second for engines with relaxed SIMD
model-gpu.wasm shaders.wgsl          the same for GPUs: kernels as shaders; the module has the kernels that cannot be
weights/                             the constants, in pieces of at most 4 MiB
text.wasm tokenizer.bin              of a model of texts: the module that encodes them, and its tables
runtime/                             the modules that index.mjs imports
demo.html README.md                  a page to try the model, and instructions
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deploykit.artifact.manifest import MANIFEST
from deploykit.artifact.plan import PLAN, plan_file
from deploykit.basics.parallel import each
from deploykit.basics.scratch import Scratch
from deploykit.basics.toolchain import find_wasm_compiler
from deploykit.errors import ToolchainError, UsageError
from deploykit.options.option import option
from deploykit.targets.base import Availability, PackageOptions, require_no_devices
from deploykit.targets.licenses import MODEL_LICENSE
from deploykit.targets.templates import render
from deploykit.targets.webgpu.declarations import pictured, typed
from deploykit.targets.webgpu.linking import link, link_language, link_text
from deploykit.targets.webgpu.npm import NpmOptions, npm_view
from deploykit.targets.webgpu.scripts import scripts

if TYPE_CHECKING:
    from deploykit.artifact.manifest import Manifest
    from deploykit.compiler.codegen.native.cpus import Cpu
    from deploykit.compiler.program.ir import Program
    from deploykit.compiler.variant import Variant
    from deploykit.engines import Engine, EngineOptions

SHARD_BYTES = 4 << 20
"""The most bytes of a file of weights: what an interrupted load loses of each file that was under way."""

CPU_MODULES = ("model", "model-relaxed")
GPU_MODULE = "model-gpu"
MODULES = (*CPU_MODULES, GPU_MODULE)
SHADER_FILE = "shaders.wgsl"
TEXT_MODULE, LANGUAGE_MODULE = "text.wasm", "language.wasm"

DEMO = "demo.html"
TYPES = "index.d.mts"
PAGES = ("index.mjs", TYPES, "index.d.ts", "package.json", "vite.jsx", DEMO, "README.md", "LICENSE", "NOTICE")
OF_FUNCTIONS = {TYPES: "functions.d.mts"}
OF_INSTANCES = {TYPES: "instances.d.mts", DEMO: "instances.html"}
"""The templates of a model of several functions, and of a dynamic one, where they are others."""

OF_TASKS = {
    "texts": "texts.html",
    "pictures": "pictures.html",
    "pairs": "pictures.html",
    "sound": "sound.html",
    "messages": "messages.html",
}
"""The pages of models by what they take."""

WEBGPU = "webgpu"
OF_DEVICES = {"wasm": CPU_MODULES, WEBGPU: (GPU_MODULE,)}
"""The modules for each device."""


SEVEN_BITS = 63.0
"""The greatest integer of weights that relaxed dot products of WebAssembly take."""


@dataclass(frozen=True)
class WebOptions(NpmOptions):
    device: str | None = option(None, "wasm or webgpu: leave out the files for the other one")


class WebTarget:
    """The target for web pages and node. `modules` are the WebAssembly modules to build; a package cannot be loaded on
    a device whose module is missing. Raises `UsageError` for an unknown module."""

    name = "webgpu"
    description = "a package for web pages and node: WebAssembly and WebGPU shaders, loaded by plain JavaScript"
    Options = WebOptions

    def __init__(self, modules: Iterable[str] = MODULES) -> None:
        self.modules = tuple(modules)
        if any(module in CPU_MODULES for module in self.modules):
            self.greatest_quantized = SEVEN_BITS
        if not self.modules or not set(self.modules) <= set(MODULES):
            raise UsageError(f"the modules {list(self.modules)} are not one or more of {', '.join(MODULES)}")

    def configured(self, own: WebOptions) -> WebTarget:
        if own.device is None:
            return self
        if own.device not in OF_DEVICES:
            raise UsageError(f"there is no device '{own.device}': there are {' and '.join(OF_DEVICES)}")
        return WebTarget(OF_DEVICES[own.device])

    def check(self) -> Availability:
        from deploykit.engines.web.node import find_node

        try:
            compiler = find_wasm_compiler()
        except ToolchainError as error:
            return Availability(build=False, run=False, detail=str(error))
        try:
            found = f"{compiler.family}: {compiler.version}"
            return Availability(build=True, run=True, detail=f"{found}; run in {find_node()}")
        except ToolchainError as error:
            return Availability(build=True, run=False, detail=str(error))

    def variants(self, cpu: str, devices: Sequence[str] = ()) -> list[Variant]:  # noqa: ARG002 - it is for every CPU
        from deploykit.targets.webgpu.variants import SHADERS, WASM

        require_no_devices(self, devices)
        return [WASM, SHADERS] if GPU_MODULE in self.modules else [WASM]

    def emit(self, programs: Sequence[Program], options: PackageOptions) -> dict[str, bytes]:
        from deploykit.compiler.codegen.host.source import emit_host
        from deploykit.compiler.codegen.shaders.bindings import emit_shaders
        from deploykit.targets.webgpu.cpus import WASM_RELAXED, WASM_SIMD

        on_cpu, *on_gpu = programs
        if not on_gpu and self.modules == (GPU_MODULE,):
            raise UsageError(f"the model runs on the CPU only: build one of the modules {', '.join(CPU_MODULES)}")
        emitted = {name: text.encode() for name, text in emit_host([on_cpu], options.version).items()}
        for module, cpu in zip(CPU_MODULES, (WASM_SIMD, WASM_RELAXED), strict=True):
            if module in self.modules:
                emitted |= _objects(on_cpu, module, cpu, fast_math=options.compiling.fast_math)
        for part in on_gpu:
            emitted |= {f"gpu-{name}": text.encode() for name, text in emit_host([part], options.version).items()}
            emitted |= _objects(part, GPU_MODULE, WASM_SIMD, fast_math=options.compiling.fast_math)
            shaders = (f"// shader {number}\n{shader.packaged()}" for number, shader in enumerate(emit_shaders(part)))
            emitted[SHADER_FILE] = "".join(shaders).encode()
        return emitted

    def package(
        self, programs: Sequence[Program], emitted: Mapping[str, bytes], folder: Path, options: PackageOptions
    ) -> list[str]:
        from deploykit.compiler.codegen.host.header import package_view
        from deploykit.targets.webgpu.instances import instances_view

        program = programs[0]
        view = package_view(program, options.version)
        modules = [module for module in self.modules if module != GPU_MODULE or SHADER_FILE in emitted]
        linked = _link(view["functions"], modules, emitted, folder, instances=program.runs_instances)
        on_cpu = set(modules) & set(CPU_MODULES)
        names = [*linked, *_write_weights(programs, folder, on_cpu=bool(on_cpu))]
        (folder / "runtime").mkdir()
        several = len(program.public) > 1 or bool(program.states.tensors)
        ragged = any(port["instance"] is not None for function in view["functions"] for port in function["ports"])
        view["dynamic"] = dynamic = None if program.dynamic is None else instances_view(program.dynamic)
        view["task"] = task = program.task
        takes = None if task is None else task.takes
        if task is not None and takes in ("texts", "pairs", "messages"):
            link_text(folder / TEXT_MODULE)
            names.append(TEXT_MODULE)
        if takes == "messages":
            link_language(folder / LANGUAGE_MODULE)
            names.append(LANGUAGE_MODULE)
        load = f"${'functions' if several else 'model'}.load"
        if dynamic is not None:
            load = f"$instances.dynamic({load}, {dynamic['entry']})"
        elif ragged:
            load = f"$ragged.ragged({load})"
        load = load if takes is None else f"${takes}.{takes}({load})"
        javascript = scripts(load, functions=several, ragged=ragged, instances=dynamic is not None, takes=takes)
        pages = [page for page in PAGES if page != DEMO or not several or takes == "messages"]
        view["script"] = "functions" if several else "model"
        view |= npm_view(view["prefix"], options.own or WebOptions(), options.place, program.license)
        if view["license_file"] is not None:
            (folder / MODEL_LICENSE).write_bytes(view["license_file"])
        for name, text in javascript.items():
            (folder / "runtime" / name).write_text(text, encoding="utf-8")
        load = "dynamic(loadFrom, CALL)" if dynamic else "ragged(loadFrom)" if ragged else "loadFrom"
        view |= {"ragged": ragged, "load": load if takes is None else f"{takes}({load})"}
        own = {} if takes is None else {DEMO: OF_TASKS[takes]}
        templates = (OF_FUNCTIONS if several else OF_INSTANCES if dynamic else {}) | own
        view["module_bytes"] = (folder / names[0]).stat().st_size
        view |= {"typed": typed, "pictured": pictured}
        plans = [] if several or dynamic else [PLAN, *(plan_file(level=part.level) for part in programs[1:])]
        view["fetched"] = [MANIFEST, *names, *(() if task is None else task.files), *plans]
        for name in pages:
            (folder / name).write_text(render(__name__, templates.get(name, name), view), encoding="utf-8")
        further = [] if view["license_file"] is None else [MODEL_LICENSE]
        return [*pages, *further, *names, *(f"runtime/{name}" for name in javascript)]

    def engine(self, folder: Path, manifest: Manifest, scratch: Path, options: EngineOptions) -> Engine:  # noqa: ARG002
        from deploykit.engines.web.browser import InBrowser
        from deploykit.engines.web.node import InNode

        if options.cpu is not None:
            raise UsageError("an artifact for the web has no choice of kernels")
        names = {file.name for file in manifest.files}
        on_cpu = any(f"{module}.wasm" in names for module in CPU_MODULES)
        device = options.device or ("wasm" if on_cpu else WEBGPU)
        if device not in OF_DEVICES:
            raise UsageError(f"there is no device '{device}': there are {' and '.join(OF_DEVICES)}")
        if device == "wasm":
            if not on_cpu:
                raise UsageError(f"'{manifest.name}' has no kernels for WebAssembly: open it with the device 'webgpu'")
            return InNode(folder, manifest, options.threads)
        if SHADER_FILE not in names:
            raise UsageError(f"'{manifest.name}' has no kernels for a GPU: open it with the device 'wasm'")
        if options.threads > 1:
            raise UsageError("a model on a GPU has one thread")
        return InBrowser(folder, manifest)

    def sources(self, folder: Path) -> list[Path]:
        raise UsageError(f"{folder} is for the web: it can be neither sanitized nor profiled by C compilers")


def _objects(program: Program, name: str, cpu: Cpu, *, fast_math: bool) -> dict[str, bytes]:
    """The kernels of the module `name`, as object files."""
    from deploykit.compiler.codegen.host.scope import prefix_of
    from deploykit.compiler.codegen.native.objects import emit_objects

    kernels = [kernel for kernel in program.kernels if not kernel.gpu]
    objects = emit_objects(kernels, prefix_of(program), cpu, fast_math=fast_math) if kernels else []
    return {f"{name}.{index}.o": data for index, data in enumerate(objects)}


def _link(
    functions: Sequence[Mapping[str, Any]],
    modules: Sequence[str],
    emitted: Mapping[str, bytes],
    folder: Path,
    *,
    instances: bool,
) -> list[str]:
    """Link the modules and write the shaders; returns the names of the files. `functions` are views for templates.
    `instances`: the model is dynamic."""
    from deploykit.compiler.codegen.shaders.sections import shortened

    several = len(functions) > 1
    entries: list[dict[str, str | int]] = [
        {
            "DK_PREFIX": function["prefix"],
            "DK_HEADER": f'"{function["prefix"] if several else "model"}.h"',
            "DK_EXPORTS": f'"{function["function"]}."' if function is not functions[0] else '""',
            "DK_INPUTS": len(function["inputs"]),
            "DK_OUTPUTS": len(function["outputs"]),
        }
        | ({"DK_STATES": 1} if function["states"] else {})
        for function in functions
    ]
    with Scratch() as scratch:
        place = Path(scratch)
        for name, data in emitted.items():
            target = place / "gpu" / name.removeprefix("gpu-") if name.startswith("gpu-") else place / name
            target.parent.mkdir(exist_ok=True)
            target.write_bytes(data)

        def module(name: str) -> str:
            gpu: dict[str, str | int] = {"DK_GPU": 1} if name == GPU_MODULE else {}
            macros = [entry | gpu for entry in entries]
            objects = sorted(place.glob(f"{name}.*.o"))
            link(place / "gpu" if gpu else place, objects, folder / f"{name}.wasm", macros, instances=instances)
            return f"{name}.wasm"

        names = each(module, modules)
    if SHADER_FILE in emitted:
        (folder / SHADER_FILE).write_text(shortened(emitted[SHADER_FILE].decode()), encoding="utf-8")
        names.append(SHADER_FILE)
    return names


def _write_weights(parts: Sequence[Program], folder: Path, *, on_cpu: bool) -> list[str]:
    """Write the constants in pieces, for WebAssembly (if `on_cpu`), for both devices, and for a GPU; returns the files'
    names."""
    from deploykit.compiler.codegen.weights.blob import weights_of

    needed = [{id(constant.data) for constant in part.constants} for part in parts]
    both = needed[0].intersection(*needed[1:])
    groups = {"wasm-": (parts[0], needed[0] - both), "": (parts[-1], both), "gpu-": (parts[-1], needed[-1] - both)}
    if not on_cpu:
        del groups["wasm-"]
    alone = None if parts[-1].gpu is None else parts[-1].gpu.binding_bytes
    (folder / "weights").mkdir()
    names: list[str] = []
    for prefix, (part, group) in groups.items():
        constants = [constant for constant in part.constants if id(constant.data) in group]
        for number, (goes_on, data) in enumerate(weights_of(constants, parts[-1].alignment, SHARD_BYTES, alone)):
            names.append(f"weights/{prefix}{number:03}{'-more' if goes_on else ''}.bin")
            (folder / names[-1]).write_bytes(data)
    return names
