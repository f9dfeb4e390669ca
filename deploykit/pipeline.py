"""From a model to an artifact folder, stage by stage. Read from top to bottom.

    import    a file becomes an `ImportedModel`: functions in Relax with named inputs, outputs and dims
    graph     the model is simplified and legalised: only kernels, views and control flow are left
    kernels   kernels are fused and scheduled
    program   steps, memory plan, packed constants: a `Program`
    emit      sources and objects
    package   the artifact folder

The stages graph, kernels and program run once for each variant of the target: a CPU level or a GPU. Each stage is a
function from one value to the next; `--dump-dir` writes its result as text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import tvm
from tvm import ir, relax, tirx

from deploykit.artifact.devices import names_of
from deploykit.artifact.folder import Artifact, Together, artifact_folder
from deploykit.artifact.manifest import MANIFEST, Manifest, SeveralManifest, describe_files, describe_source
from deploykit.basics.parallel import each
from deploykit.compiler.batching.model import CellsModel
from deploykit.compiler.codegen.host.interface import describe
from deploykit.compiler.codegen.host.scope import prefix_of
from deploykit.compiler.codegen.native.cpus import find_cpu, levels
from deploykit.compiler.codegen.native.elf import versions
from deploykit.compiler.codegen.shaders.lowering import shaders
from deploykit.compiler.cost import Cost, effort, work
from deploykit.compiler.decisions import Choice, Decision, Declined, Explanation, KernelDecision, Note, unheard
from deploykit.compiler.graph.fixed_point import in_fixed_point
from deploykit.compiler.graph.fold_reshapes import fold_reshapes
from deploykit.compiler.graph.fuse_attention import fuse_attention
from deploykit.compiler.graph.fuse_rows import fuse_rows
from deploykit.compiler.graph.gather_in_products import gather_in_products
from deploykit.compiler.graph.inline_calls import inline_calls
from deploykit.compiler.graph.join_matmuls import join_siblings
from deploykit.compiler.graph.join_scalars import join_scalars
from deploykit.compiler.graph.kept_products import kept_products
from deploykit.compiler.graph.legalize import legalize
from deploykit.compiler.graph.merge_kernels import merge_kernels
from deploykit.compiler.graph.narrow_operands import narrow_operands
from deploykit.compiler.graph.order_bindings import bind_dims_first
from deploykit.compiler.lowering.conditional_sizes import apart_from_choices
from deploykit.compiler.lowering.lower import LoweredKernel, LoweredParts, Lowering
from deploykit.compiler.model import DimBounds, ImportedModel
from deploykit.compiler.notes import notes_of
from deploykit.compiler.observer import Observer
from deploykit.compiler.operators.building.index_checks import without_checks
from deploykit.compiler.program.assembly import assembled, callees_first, require_capacities
from deploykit.compiler.program.builds import with_build
from deploykit.compiler.program.inplace import InPlace
from deploykit.compiler.program.instances import with_main
from deploykit.compiler.program.ir import ALIGNMENT, Function, Program
from deploykit.compiler.program.listing import listing
from deploykit.compiler.program.overwriting import overwritable_inputs, overwritable_operands
from deploykit.compiler.program.placement import place
from deploykit.compiler.program.plan import write_plan
from deploykit.compiler.program.pruning import without_unused_kernels
from deploykit.compiler.program.strips.compiling import StripCompiler, in_less_memory
from deploykit.compiler.program.trace import Pool, Trace, trace
from deploykit.compiler.program.variants import joined
from deploykit.compiler.ragged.groups import with_groups
from deploykit.compiler.schedules import Device, schedule_explained
from deploykit.compiler.schedules.gpu import Gpu
from deploykit.compiler.variant import Variant
from deploykit.errors import UsageError
from deploykit.options.parts import USUAL, CompileOptions

if TYPE_CHECKING:
    from deploykit.targets.base import PackageOptions, Target, TargetOfSeveral


def build_artifact(
    import_model: Callable[[], ImportedModel],
    target: Target,
    output: Path,
    options: PackageOptions,
    observer: Observer,
    *,
    source: Path | None,
    capacities: DimBounds,
    change: Callable[[ImportedModel], ImportedModel] | None = None,
) -> Artifact | None:
    """Run all stages; `None` when the observer stops before the end. Arguments are those of `compiled`."""
    found = compiled(import_model, target, options, observer, source=source, capacities=capacities, change=change)
    return None if found is None else write_artifact(found[0], target, output, found[1], observer)


def compiled(
    import_model: Callable[[], ImportedModel],
    target: Target,
    options: PackageOptions,
    observer: Observer,
    *,
    source: Path | None,
    capacities: DimBounds,
    change: Callable[[ImportedModel], ImportedModel] | None = None,
) -> tuple[tuple[Program, ...], PackageOptions] | None:
    """Run the stages up to the programs, and complete the options; `None` when the observer stops before the end.

    `change` makes another model of the imported one, such as a quantised one. `source` is the model's file, if it has
    one. `capacities` pins or bounds capacity dims by name."""
    variants = target.variants(options.cpu, options.devices)  # unknown ones are refused before anything is read
    options = replace(options, devices=names_of(options.devices))
    if not options.compiling.wide and not any((variant.layout or variant.device).bf16 for variant in variants):
        raise UsageError(f"target {target.name} has no {options.compiling.precision}: build without --precision")
    if options.compiling.saves_code and any(variant.vectorize for variant in variants):
        raise UsageError(f"target {target.name} has machine code, not C: build without --optimize size")
    if options.compiling.exact:
        variants = [replace(variant, device=replace(variant.device, exact=True)) for variant in variants]
    if options.compiling.saves_code:
        variants = [replace(variant, device=replace(variant.device, compact=True)) for variant in variants]
    with observer.stage("import"):
        model = import_model()
    if change is not None:
        with observer.stage("quantize"):
            model = change(model)
    programs = compile_variants(model, variants, observer, capacities, options.compiling)
    if programs is None or observer.stops_at("program"):
        return None
    require_capacities(programs[0], capacities)
    described = None if source is None else describe_source(source)
    return programs, replace(options, source=described, place=source, require_unchanged=model.require_unchanged)


def compile_variants(
    model: ImportedModel,
    variants: Sequence[Variant],
    observer: Observer,
    capacities: DimBounds,
    options: CompileOptions = USUAL,
) -> tuple[Program, ...] | None:
    """Compile one program per variant, joined by what they share; `None` when the observer stops before that.

    Each variant is dumped in its own folder. Only the stages of the first variant are announced. A dynamic model has a
    program for a GPU if all its kernels can be shaders, which may need that operators are not fused; if not, notes give
    the reasons.
    """
    observer.dump("import", model.module.script)
    if observer.stops_at("import"):
        return None
    quiet = replace(observer, on_stage=lambda _: None)
    lowering = Lowering()
    found = []
    for variant in variants:
        own = replace(observer if variant is variants[0] else quiet, variant=variant.name)
        result = compile_program(model, variant, own, capacities, options, lowering)
        if options.fuse and result is not None and not _runs_alone(result):
            apart = replace(options, fuse=False)  # such kernels read fewer tensors at once
            result = compile_program(model, variant, own, capacities, apart, lowering)
        found.append(result)
    programs = [result for result in found if result is not None]
    if len(programs) < len(variants):
        return None
    together = joined(_that_run(programs))
    return with_build(together, model, fast_math=options.fast_math, precision=options.precision)


def _runs_alone(program: Program) -> bool:
    """Whether a program can run as it is. The cells of a dynamic model must be on the device where their operands
    are."""
    return program.gpu is None or not program.runs_instances or all(kernel.gpu for kernel in program.kernels)


def _that_run(programs: Sequence[Program]) -> list[Program]:
    """The programs that can run as they are, with notes on the others."""
    notes: list[str] = []
    for program in programs:
        if program.gpu is not None and not _runs_alone(program):
            device = program.gpu.name
            notes += [f"the model does not run on the device '{device}', which cannot run all kernels", *program.notes]
    return [replace(program, notes=(*program.notes, *notes)) for program in programs if _runs_alone(program)]


def compile_program(
    model: ImportedModel,
    variant: Variant,
    observer: Observer,
    capacities: DimBounds,
    options: CompileOptions = USUAL,
    lowering: Lowering | None = None,
) -> Program | None:
    """Run the stages from graph to program for one variant; `None` when the observer stops before the last one.
    `lowering` is that of variants that may have the same kernels."""
    lowering = lowering or Lowering()
    noted: list[Decision] = []
    model = in_groups(model, variant, noted.append)
    with observer.stage("graph"):
        layout, calls = variant.layout or variant.device, variant.gpu is None
        computes = variant.device if calls else layout
        module = graph(model, layout, options, calls=calls, note=noted.append, computes=computes)
    early = len(noted)
    observer.dump("graph", module.script)
    observer.dump("graph", lambda: "\n".join(map(str, noted)), "decisions.txt")
    if observer.stops_at("graph"):
        observer.on_explanation(Explanation(variant.name, tuple(noted), ()))
        return None
    with observer.stage("kernels"):
        found = kernels(module, variant.device, variant.gpu, variant.in_place, fuse=options.fuse, note=noted.append)
    explanation = Explanation(variant.name, tuple(noted), tuple(found.decisions.values()))
    observer.on_explanation(explanation)
    observer.dump("kernels", found.module.script)
    observer.dump("kernels", lambda: "\n".join(map(str, [*noted[early:], *explanation.kernels])), "decisions.txt")
    if observer.stops_at("kernels"):
        return None
    with observer.stage("program"):
        result = program(model, found, variant, capacities, options, lowering)
        if not options.saves_memory:
            saving = replace(options, optimize="memory")
            smaller = partial(program, model, found, variant, capacities, saving, lowering)
            result = replace(result, in_less_memory=smaller)
        result = replace(result, notes=(*result.notes, *notes_of(explanation, variant, options.precision)))
    observer.dump("program", lambda: listing(result), "txt")
    return result


@dataclass(frozen=True)
class KernelModule:
    """A Relax module with scheduled kernels, and what is known of each kernel, by name.

    `unscheduled` has them as they were before. `shaders` holds those for a GPU, which are left unscheduled. `in_place`
    gives the inputs that the kernel's result may overwrite, `work` the cost of one call, `decisions` how the kernel is
    computed, and why."""

    module: ir.IRModule
    in_place: dict[str, tuple[int, ...]]
    work: dict[str, Cost | None]
    unscheduled: dict[str, tirx.PrimFunc] = field(default_factory=dict)
    shaders: dict[str, LoweredParts] = field(default_factory=dict)
    decisions: dict[str, KernelDecision] = field(default_factory=dict)


def graph(
    model: ImportedModel,
    device: Device,
    options: CompileOptions = USUAL,
    *,
    calls: bool = True,
    note: Note = unheard,
    computes: Device | None = None,
) -> ir.IRModule:
    """Simplify and legalise the model: with weights in the layout of `device`, for the device that `computes`, by
    default the same.

    Without `options.fuse` operators stay as they are. Without `calls` functions are inlined where others call them.
    Without `options.index_checks` a run does not detect indices that are out of range."""
    module = model.module if options.index_checks else without_checks(model.module)
    module = module if calls else inline_calls(module)
    clean = [relax.transform.CanonicalizeBindings(), relax.transform.DeadCodeElimination(_entries(module))]
    module = tvm.ir.transform.Sequential(clean)(module)
    kept = kept_products(model, module, options.keep) if options.keep else frozenset()
    if options.fuse:
        joined_ = join_siblings(module, note, apart=kept)
        module = fuse_attention(fold_reshapes(joined_, note), note, options.precision, kept)
    else:
        note(Decision("fusion", "all operators", Declined("it is not asked for")))
    dims = [dim for signature in model.functions for dim in signature.dims]
    box = {dim.var: (dim.minimum, dim.maximum) for dim in dims}
    return legalize(
        *(module, device, note, box),
        narrow=options.fast_math,
        precision=options.precision,
        kept=kept,
        computes=computes,
    )


def kernels(
    module: ir.IRModule,
    device: Device,
    gpu: Gpu | None = None,
    in_place: InPlace = InPlace.WHERE_FREE,
    *,
    fuse: bool = True,
    note: Note = unheard,
) -> KernelModule:
    """Fuse and schedule the kernels; those that `gpu` can run become shaders.

    Without `fuse` each operator keeps its own kernels. `in_place` says which results may take over the memory of their
    operand."""
    unused = relax.transform.DeadCodeElimination(_entries(module))
    if device.fixed_point:
        module = unused(in_fixed_point(module))
    fused = relax.transform.AnnotateTIROpPattern()(module)
    if fuse and gpu is None:
        fused = unused(narrow_operands(fused, note))
    if fuse and gpu is None and device.vector_bits:
        fused = unused(gather_in_products(fused, note))
    if fuse:
        fused = relax.transform.FuseOps(2)(fused)
    fused = unused(merge_kernels(fused, note))
    if fuse:
        fused = unused(fuse_rows(fused, note))
    if gpu is not None:
        fused = unused(join_scalars(fused, gpu.bindings, note))
    fused = bind_dims_first(fused)
    scheduled = {}
    overwritable: dict[str, tuple[int, ...]] = {}
    costs = {}
    on_gpu: dict[str, LoweredParts] = {}
    decisions: dict[str, KernelDecision] = {}
    for gvar, func in fused.functions.items():
        if isinstance(func, tirx.PrimFunc):
            inputs = () if in_place is InPlace.NEVER else overwritable_inputs(func)
            costs[gvar.name_hint] = work(func)
            parts = None if gpu is None else shaders(func, gvar.name_hint, gpu)
            if isinstance(parts, LoweredParts):
                on_gpu[gvar.name_hint] = parts
                overwritable[gvar.name_hint] = overwritable_operands(func, inputs, parts)
                decisions[gvar.name_hint] = KernelDecision(gvar.name_hint, parts.choices, on_gpu=True)
                scheduled[gvar] = func
                continue
            chosen: list[Choice] = []
            kernel = apart_from_choices(partial(_scheduled, device=device, chosen=chosen), func)
            decisions[gvar.name_hint] = KernelDecision(gvar.name_hint, tuple(chosen), kept=parts)
            overwritable[gvar.name_hint] = inputs
            scheduled[gvar] = kernel.without_attr("tirx.noalias") if inputs else kernel
        else:
            scheduled[gvar] = func
    plain = {gvar.name_hint: func for gvar, func in fused.functions.items() if isinstance(func, tirx.PrimFunc)}
    return KernelModule(ir.IRModule(scheduled), overwritable, costs, plain, on_gpu, decisions)


def in_groups(model: ImportedModel, variant: Variant, note: Note = unheard) -> ImportedModel:
    """The model, which computes a ragged batch in groups of instances if they do not depend on each other. A GPU
    computes all together."""
    found = model.instances
    if found is None:
        return model
    if variant.gpu is not None:
        found = Declined("a GPU computes the whole batch")
    if isinstance(found, Declined):
        note(Decision("groups", "the ragged batch", found))
        return model
    note(Decision("groups", "the ragged batch", f"groups of {variant.device.group_tokens} tokens"))
    return with_groups(model, variant.device.group_tokens)


def _scheduled(func: tirx.PrimFunc, device: Device, chosen: list[Choice]) -> tirx.PrimFunc:
    """Schedule `func`, and append the choices made to `chosen`."""
    result, choices = schedule_explained(func, device)
    chosen.extend(choices)
    return result


def program(
    model: ImportedModel,
    scheduled: KernelModule,
    variant: Variant,
    capacities: DimBounds,
    options: CompileOptions = USUAL,
    lowering: Lowering | None = None,
) -> Program:
    """Lower the kernels and plan the memory."""
    lowering = lowering or Lowering()

    def lowered_for_cpu(func: tirx.PrimFunc, name: str, cost: Cost | None) -> LoweredKernel:
        units = effort(cost, vectors=variant.device.vector_bits > 0)
        return lowering.lower(
            *(func, name),
            vectorize=variant.vectorize,
            stack_limit=variant.stack_limit,
            effort=units,
            name_values=not options.saves_code,
        )

    def lowered(kernel: tuple[str, tirx.PrimFunc]) -> LoweredKernel | LoweredParts:
        name, func = kernel
        return scheduled.shaders.get(name) or lowered_for_cpu(func, name, scheduled.work[name])

    kernels = {g.name_hint: f for g, f in scheduled.module.functions.items() if isinstance(f, tirx.PrimFunc)}
    ready = dict(zip(kernels, each(lowered, kernels.items()), strict=True))
    pool = Pool(scheduled.module, ready, scheduled.in_place, scheduled.work)
    schedule = partial(schedule_explained, device=variant.device)
    in_order = variant.device.vector_bits == 0
    strips = StripCompiler(pool, scheduled.unscheduled, schedule, lowered_for_cpu, in_order)
    alignment = ALIGNMENT if variant.gpu is None else variant.gpu.alignment
    resident = isinstance(model, CellsModel)
    saves = options.saves_memory and variant.gpu is None and model.instances is None and not resident

    def placed(traced: Trace) -> Function:
        return place(model, traced, capacities, alignment, variant.in_place, resident=resident)

    functions: dict[str, Function] = {}
    notes: list[str] = []
    for signature in callees_first(model, scheduled.module):
        traced = trace(model, signature, pool, functions)
        if saves:
            functions[signature.name], note = in_less_memory(traced, strips, placed)
            notes.append(note)
        else:
            functions[signature.name] = placed(traced)
    found = assembled(model, pool, functions, alignment, cpu=variant.cpu, gpu=variant.gpu)
    found = without_unused_kernels(replace(found, notes=(*found.notes, *notes)))
    return with_main(found, model.dynamic, capacities) if isinstance(model, CellsModel) else found


def write_artifact(
    programs: Sequence[Program], target: Target, output: Path, options: PackageOptions, observer: Observer | None = None
) -> Artifact | None:
    """Emit and package the programs of a model; `None` when the observer stops after `emit`.

    The artifact at `output` is written whole or not at all. Raises `UsageError` when `output` cannot be written or
    holds something else, and what the target raises.
    """
    observer = observer or Observer()
    with observer.stage("emit"):
        emitted = target.emit(programs, options)
    for name, data in emitted.items():
        if data.isascii():
            observer.dump("emit", partial(data.decode, "ascii"), name)
    if observer.stops_at("emit"):
        return None
    with artifact_folder(output) as folder:
        manifest = package(programs, emitted, target, folder, options, observer)
    return Artifact(output, manifest)


def write_together(
    models: Sequence[tuple[Sequence[Program], PackageOptions]],
    target: TargetOfSeveral,
    output: Path,
    observer: Observer,
) -> Together:
    """Write one artifact of several models, and in a folder for each the artifact of the model alone, in its
    format `alone`. Raises what `write_artifact` raises."""
    names = [prefix_of(programs[0]) for programs, _ in models]
    with observer.stage("emit"):
        if twice := {name for name in names if names.count(name) > 1}:
            raise UsageError(f"two models are called '{min(twice)}': give each its own with --name")
        parts = [(programs, target.emit(programs, options), options) for programs, options in models]
    with artifact_folder(output) as folder:
        with observer.stage("package"):
            written = target.package_together(parts, folder)
        manifests = []
        for name, (programs, emitted, options) in zip(names, parts, strict=True):
            place, own = folder / name, replace(options, format=target.alone, own=None)
            place.mkdir(exist_ok=True)
            beside = [file.removeprefix(f"{name}/") for file in written if file.startswith(f"{name}/")]
            manifests.append(package(programs, emitted, target, place, own, observer, beside))
            files = (*(entry.name for entry in manifests[-1].files), MANIFEST)
            written += [f"{name}/{file}" for file in files if f"{name}/{file}" not in written]
        manifest = SeveralManifest(
            generator=manifests[0].generator,
            target=target.name,
            models=tuple(names),
            files=describe_files(folder, written),
            times=dict(observer.seconds),
        )
        (folder / MANIFEST).write_text(manifest.to_json(), encoding="utf-8")
    return Together(output, manifest)


def package(
    programs: Sequence[Program],
    emitted: Mapping[str, bytes],
    target: Target,
    folder: Path,
    options: PackageOptions,
    observer: Observer,
    beside: Sequence[str] = (),
) -> Manifest:
    """Write the files of an artifact and its manifest into `folder`, and check the artifact if `options` ask for it.
    `beside` are files that are there, and belong to it."""
    with observer.stage("package"):
        names = [*target.package(programs, emitted, folder, options), *write_plan(programs, folder), *beside]
        for name, data in programs[0].task_files.items():
            (folder / name).write_bytes(data)
            names.append(name)
        files = describe_files(folder, names)
        glibc = _glibc(folder / name for name in names if name.endswith(".so"))
        options.require_unchanged()
    manifest = Manifest(
        generator=f"deploykit {options.version}",
        target=target.name,
        cpu=_cpu(options.cpu) if programs[0].cpu in levels(options.cpu) else None,
        fast_math=options.compiling.fast_math,
        precision=options.compiling.precision,
        levels=_levels(programs),
        devices=options.devices if any(program.gpu for program in programs) else (),
        glibc=glibc,
        files=files,
        source=options.source,
        times=dict(observer.seconds),
        **describe(programs[0]),
    )
    (folder / MANIFEST).write_text(manifest.to_json(), encoding="utf-8")
    check = options.check
    if check is not None and (check.most_bytes is None or manifest.peak_memory.weights <= check.most_bytes):
        with observer.stage("check"):
            notes = check.run(folder)
        manifest = manifest.model_copy(update={"notes": (*manifest.notes, *notes)})
        (folder / MANIFEST).write_text(manifest.to_json(), encoding="utf-8")
    return manifest


def _levels(programs: Sequence[Program]) -> tuple[str, ...]:
    """The CPUs that kernels are compiled for, if there are several; else empty."""
    levels = tuple(program.cpu for program in programs if program.gpu is None)
    return levels if len(levels) > 1 else ()


def _glibc(libraries: Iterable[Path]) -> str:
    """The least version of the GNU C library that libraries need; empty if they do not."""
    names = {name for library in libraries for name in versions(library.read_bytes())}
    found = [tuple(map(int, name[6:].split("."))) for name in names if re.fullmatch(r"GLIBC_[0-9.]+", name)]
    return ".".join(map(str, max(found, default=())))


def _cpu(name: str) -> str:
    """The CPU that kernels are compiled for; `native` becomes the name of this machine's CPU."""
    return find_cpu(name).mcpu if name == "native" else name


def _entries(module: ir.IRModule) -> list[str]:
    """Functions that dead code elimination must keep: those of the model, and the bodies of control flow."""
    return [g.name_hint for g, f in module.functions.items() if isinstance(f, relax.Function)]
