"""`load` and `build`: from a source to a model, and from a source to an artifact folder.

A signal ends both at once, even in native code: they raise what the signal's handler raises, and leave no files behind.
On the command line the process ends then. In another process, a thread may go on computing until its native code
returns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, Unpack, cast, overload

from deploykit.artifact.folder import Artifact, Together, check_output
from deploykit.basics.caches import keeping
from deploykit.basics.installation import full_package_needed
from deploykit.basics.parallel import interruptible
from deploykit.basics.scratch import sweep
from deploykit.errors import UsageError, defects
from deploykit.options.keywords import BuildKeywords, LoadKeywords
from deploykit.options.option import Part, checked, chosen, options_of
from deploykit.options.parts import CheckOptions, CompileOptions, PlatformOptions, QuantizeOptions, WatchOptions
from deploykit.sources.base import Frontend, find_frontend, frontends, named

if TYPE_CHECKING:
    import onnx

    from deploykit.compiler.model import DimBounds, ImportedModel
    from deploykit.quantization import Quantization
    from deploykit.ragged.operators import Operator
    from deploykit.targets.base import Target

Source: TypeAlias = "str | Path | onnx.ModelProto | ImportedModel | Operator"

_COMMON = (
    *(Part("deploykit.build", kind) for kind in (PlatformOptions, CompileOptions, CheckOptions, WatchOptions)),
    Part("quantize", QuantizeOptions),
)


@interruptible
@defects("in the stage 'import'")
@full_package_needed()
def load(
    source: str | Path | onnx.ModelProto | Operator, dims: DimBounds | None = None, **options: Unpack[LoadKeywords]
) -> ImportedModel:
    """Import a model, given as the path of an ONNX file or of a Hugging Face folder, as an `onnx.ModelProto`, or as an
    operator of `deploykit.ragged`, also as `ops.py:name`: the name of an operator in a Python file. `models.py:Name` is
    a dynamic model, a class of `deploykit.dynamic`. A frontend of another package may take other sources.

    `dims` pins symbolic dims (`{"seq": 128}`) or bounds them (`{"batch": (1, 64)}`). Further options depend on the
    source; docs/options.md lists them.

    An ONNX file:
        seed_input: the name of an input to add, an int64 scalar that random numbers depend on.
        ragged: a dim that is to be another size for each index of the batch, `"seq"`, or with the dim of the batch
            `{"seq": "batch"}`. The model takes padded batches; the result takes the instances of a batch one after the
            other, and their lengths (see docs/ragged.md). `dims` may bound `tokens`, the sum of the lengths.
        masks: the inputs that tell padding, by default those with usual names, such as `attention_mask`.
    A Hugging Face folder:
        route: its importer, `own`, or `torch`, which exports it by PyTorch; by default the first one that covers it
            (see docs/huggingface.md).
    A Hugging Face folder, a GGUF file or an ONNX file:
        generate: without it, a language model takes whole texts and gives scores of the next words.
        keep_bits: without it, the weights of a GGUF or ONNX file become float32, or what `quantize` says.
    A dynamic model (see docs/dynamic.md):
        weights: a .safetensors or .npz file; without it they are random.
        samples: a .json file with a list of instances, from which the policy of its batches is learned.
        policy: the policy of its batches.
        fuse: whether equal products of its cells are joined.

    Raises `UsageError` and `UnsupportedModelError`.
    """
    frontend = find_frontend(source)
    return frontend.load(source, dims or {}, _own(frontend, source, options))


@overload
def build(
    model: Source,
    target: str | Target = "host",
    dims: DimBounds | None = None,
    output: str | Path = "dist",
    **options: Unpack[BuildKeywords],
) -> Artifact | None: ...


@overload
def build(
    model: tuple[Source, ...] | list[Any],
    target: str | Target = "host",
    dims: DimBounds | None = None,
    output: str | Path = "dist",
    **options: Unpack[BuildKeywords],
) -> Together: ...


@interruptible
@full_package_needed()
def build(
    model: Source | tuple[Source, ...] | list[Any],
    target: str | Target = "host",
    dims: DimBounds | None = None,
    output: str | Path = "dist",
    **options: Unpack[BuildKeywords],
) -> Artifact | Together | None:
    """Compile a model for a target, by its name, and write its artifact folder at `output`, whole or not at all. The
    model is given as to `load`, or is one that `load` returned. Options are those of `load` and these:

        cpu: the CPU that native kernels are compiled for, `native` for this machine.
        devices: what else to make kernels for, `vulkan`, `opencl`, or `vulkan:discrete` for a class of GPUs.
        format: the form of the artifact, where the target has several; the page of the target describes them.
        name: the name of the model, by default that of its file; those of several models have commas between them.
        settings: what else the target can be told, by name.
        board: the board that the target `embedded` makes sources for, or the path of a .toml file that describes one.
        fuse: without it each operator keeps its own kernels: slower, but it shows what each computes and costs.
        fast_math: shorter forms of exp, tanh and similar functions, with errors of up to 4 instead of 2 units in the
            last place.
        precision: `bf16` computes products and convolutions with weights on numbers of 16 bits; their sums are float32.
            The change of results is noted.
        keep: with `bf16`, names of operators or outputs whose products or convolutions stay in float32; `*` stands for
            any characters.
        index_checks: without them a run does not refuse indices out of range, such as a token that is not in the
            vocabulary, and takes the nearest element instead.
        exact: the results of a row, such as a token of a ragged batch, have the same bits whatever else is in the
            batch.
        reuse: take what earlier builds have compiled, and keep what this one compiles.
        optimize: with `memory`, chains of convolutions and the like compute a few rows at a time, where that lowers
            the memory of intermediate results. The results have the same bits. With `size`, for the target
            `embedded`, layers that differ in their sizes share code. Both is `memory,size`.
        quantize: store large weights as `int8`, `fp16`, `q4`, `q4_1` or `q8`, and note how much results change; a
            model of texts is tried on those in the file `samples`, a .json list, if there is one.
        head: store the output layer of a language model as `q4`, `q4_1` or `q8`, and the table of words with it if both
            are the same; with `quantize` or without it.
        check: run the artifact and compare it with ONNX Runtime before it is put at `output`. The runs are at both
            ends of the bounds of its dims, or at the sizes `check_at`. `check_inputs` gives inputs by name, and other
            inputs are random; both are given as to `deploykit.verify`. With `None` this is done as the command line
            does it by default: for `host`, if ONNX Runtime is installed, the model is small and the runs are short.
        dump_dir: receives the result of each stage as text.
        stop_after: the last stage to run, of `deploykit.compiler.observer.STAGES`; the result is then `None`.
        on_stage: called with the name of each stage when it begins.
        on_explanation: called once per variant with what the passes and the rules for kernels did, and why others did
            not apply.

    A list of models makes one artifact of several, for the targets `android` and `embedded`. Options and dims are for
    the models that have them. `check`, `dump_dir` and `stop_after` are for one model.

    Raises `UsageError`, `UnsupportedModelError` and `ToolchainError`, and `MismatchError` when `check` finds a result
    that differs by more than rounding; nothing is left at `output` then.
    """
    if isinstance(model, list | tuple):
        return _build_together(model, target, dims or {}, Path(output), options)
    from deploykit.checks.final_check import final_check
    from deploykit.compiler.dims import checked_bounds
    from deploykit.compiler.observer import STAGES, Observer
    from deploykit.compiler.program.placement import CAPACITY
    from deploykit.pipeline import build_artifact
    from deploykit.targets.base import FinalCheck, PackageOptions, configured, find_target, own_options

    frontend = find_frontend(model)
    compiling = chosen(CompileOptions, options)
    _require_precision(compiling)
    changes = _changes(options, compiling)
    common = [part for part in _COMMON if changes or part.options is not QuantizeOptions]
    own = _own(frontend, model, options, common)
    platform, watch = chosen(PlatformOptions, options), chosen(WatchOptions, options)
    if watch.stop_after is not None and watch.stop_after not in STAGES:
        raise UsageError(f"there is no stage '{watch.stop_after}'; there are {', '.join(STAGES)}")
    place = find_target(target) if isinstance(target, str) else target
    own_settings = own_options(place, platform.format, platform.target_settings)
    place = configured(place, own_settings)
    sweep()
    if watch.stop_after is None:
        check_output(Path(output))
    # An artifact for this machine is measured itself; for others there is a build for this machine.
    here = place.name == "host" and platform.cpu == "native"
    quantization = _quantization(options, compiling, place, here=here) if changes else None
    asked = chosen(CheckOptions, options)
    if quantization is None:
        check = final_check(model, frontend, place, platform.cpu, asked)
    elif asked.check:
        what = "a quantised model" if compiling.wide else f"a model in {compiling.precision}"
        raise UsageError(f"{what} cannot be checked: its results differ by more than rounding")
    else:
        check = FinalCheck(quantization.check) if here else None
    (name,) = _names(platform.name, 1)
    given = dict(dims or {})
    capacities = checked_bounds({name: given.pop(name) for name in list(given) if name.startswith(CAPACITY)})
    with keeping(compiling.reuse):
        return build_artifact(
            partial(_loaded, frontend, model, given, own, name),
            place,
            Path(output),
            PackageOptions(
                cpu=platform.cpu,
                devices=tuple(platform.devices),
                compiling=compiling,
                check=check,
                format=platform.format,
                own=own_settings,
            ),
            Observer(
                watch.on_stage,
                Path(watch.dump_dir) if watch.dump_dir else None,
                watch.stop_after,
                on_explanation=watch.on_explanation,
            ),
            change=None if quantization is None else quantization.quantized,
            source=frontend.file(model),
            capacities=capacities,
        )


def _build_together(
    models: Sequence[Source], target: str | Target, dims: DimBounds, output: Path, options: BuildKeywords
) -> Together:
    """Build one artifact of several models. Raises `UsageError` for what is for one model, and what no model has."""
    from deploykit.compiler.observer import Observer
    from deploykit.pipeline import compiled, write_together
    from deploykit.targets.base import PackageOptions, TargetOfSeveral, configured, find_target, own_options

    place = find_target(target) if isinstance(target, str) else target
    platform, watch = chosen(PlatformOptions, options), chosen(WatchOptions, options)
    if not hasattr(place, "package_together"):
        raise UsageError(f"target {place.name} takes one model, found {len(models)}: build each for itself")
    own_settings = own_options(place, platform.format, platform.target_settings)
    place = configured(place, own_settings)
    several = cast("TargetOfSeveral", place)
    if platform.format not in ("", several.formats[0]):
        raise UsageError(f"--format {platform.format} takes one model, found {len(models)}: build each for itself")
    if watch.dump_dir or watch.stop_after or options.get("check"):
        raise UsageError("check, dump_dir and stop_after are for one model: build each for itself to see that")
    model_names = _names(platform.name, len(models))
    check_output(output)
    compiling = chosen(CompileOptions, options)
    _require_precision(compiling)
    changes = _changes(options, compiling)
    quantization = _quantization(options, compiling, place, here=False) if changes else None
    package = PackageOptions(
        cpu=platform.cpu,
        devices=tuple(platform.devices),
        compiling=compiling,
        own=own_settings,
    )
    observer = Observer(watch.on_stage, on_explanation=watch.on_explanation)
    sweep()
    found = []
    with keeping(compiling.reuse):
        for (model, own, bounds), name in zip(_for_each(models, dims, options), model_names, strict=True):
            frontend = find_frontend(model)
            load = partial(_loaded, frontend, model, bounds, own, name)
            change = None if quantization is None else quantization.quantized
            source = frontend.file(model)
            found.append(compiled(load, place, package, observer, source=source, capacities={}, change=change))
        return write_together([each for each in found if each is not None], several, output, observer)


def _names(given: str | None, count: int) -> list[str | None]:
    """The names for `count` models, None for those of their files. Raises `UsageError` unless each has one."""
    names = [None] * count if given is None else given.split(",")
    if len(names) != count:
        raise UsageError(f"--name takes a name for each of {count} models, found {len(names)}: '{given}'")
    if not all(name is None or name.strip() for name in names):
        raise UsageError(f"--name takes names of at least one letter, found '{given}'")
    return list(names)


def _loaded(frontend: Frontend, source: Source, dims: DimBounds, own: Any, name: str | None) -> ImportedModel:
    """The model, called `name` if there is one."""
    model = frontend.load(source, dims, own)
    return model if name is None else replace(model, name=name.strip())


def _for_each(
    models: Sequence[Source], dims: DimBounds, options: BuildKeywords
) -> list[tuple[Source, Any, dict[str, Any]]]:
    """Each model with those of the options and of the dims that it has. Raises `UsageError` for what no model has."""
    common = {name for part in _COMMON for name in options_of(part.options)}
    frontends_ = [find_frontend(model) for model in models]
    own = []
    for model, frontend in zip(models, frontends_, strict=True):
        known = {name: value for name, value in options.items() if name in common | options_of(frontend.Options).keys()}
        own.append(_own(frontend, model, known, _COMMON))
    unknown = options.keys() - common - {name for each in frontends_ for name in options_of(each.Options)}
    _own(frontends_[0], models[0], {name: value for name, value in options.items() if name in unknown}, _COMMON)
    if not dims:
        return [(model, each, {}) for model, each in zip(models, own, strict=True)]
    names = []
    for model, frontend, each in zip(models, frontends_, own, strict=True):
        functions = frontend.load(model, {}, each).functions
        names.append({dim.name for function in functions for dim in function.dims})
    for name in dims:
        if not any(name in each for each in names):
            has = "; ".join(
                f"{named(model, frontend)} has {', '.join(sorted(each)) or 'none'}"
                for model, frontend, each in zip(models, frontends_, names, strict=True)
            )
            raise UsageError(f"no model has a dim '{name}': {has}")
    return [
        (model, each, {name: bounds for name, bounds in dims.items() if name in has})
        for model, each, has in zip(models, own, names, strict=True)
    ]


def _own(frontend: Frontend, source: object, given: Mapping[str, Any], common: Sequence[Part] = ()) -> Any:
    """The options of a frontend among those `given`. Raises `UsageError` for one that neither it nor `common` has."""
    sources = {each.name: Part(each.description, each.Options) for each in frontends().values()}
    checked(given, [sources[frontend.name], *common], [*sources.values(), *_COMMON], named(source, frontend))
    return chosen(frontend.Options, given)


def _require_precision(compiling: CompileOptions) -> None:
    """Raises `UsageError` if names are to stay in float32 where all is."""
    if isinstance(compiling.keep, str):
        raise UsageError(f"keep takes a list of names, found '{compiling.keep}'")
    if compiling.keep and compiling.wide:
        raise UsageError("--keep says what stays in float32 with --precision bf16; without that all does")


def _changes(given: Mapping[str, Any], compiling: CompileOptions) -> bool:
    """Whether results change by more than rounding."""
    options = chosen(QuantizeOptions, given)
    return not (options.quantize is None and options.head is None and compiling.wide)


def _quantization(given: Mapping[str, Any], compiling: CompileOptions, target: Target, *, here: bool) -> Quantization:
    from deploykit.compiler.graph.quantize_weights import GREATEST, LEAST
    from deploykit.dynamic.files import read_samples
    from deploykit.quantization import Quantization

    options = chosen(QuantizeOptions, given)
    texts = [] if options.samples is None else read_samples(Path(options.samples))
    if not all(isinstance(text, str) for text in texts):
        raise UsageError(f"{options.samples} is no list of texts")
    least, greatest = getattr(target, "least_quantized", LEAST), getattr(target, "greatest_quantized", GREATEST)
    return Quantization(options.quantize, options.head, texts, here, least, compiling, greatest)
