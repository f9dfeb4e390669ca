"""`load` and `build`: from a model file to an artifact folder.

A signal ends both at once, even in native code: they raise what the signal's handler raises, and leave no files behind.
On the command line the process ends then. In another process, a thread may go on computing until its native code
returns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from deploykit.artifact.folder import Artifact, check_output
from deploykit.dynamic.files import is_class, read_samples, read_weights
from deploykit.errors import UsageError, defects
from deploykit.frontends.huggingface.folder import CONFIG, is_folder
from deploykit.frontends.huggingface.hub import downloaded, is_on_hub
from deploykit.parallel import interruptible
from deploykit.ragged.files import load_operator, operator_path
from deploykit.ragged.operators import Operator
from deploykit.scratch import sweep

if TYPE_CHECKING:
    import onnx

    from deploykit.checks.sources import Input
    from deploykit.compiler.decisions import Explanation
    from deploykit.compiler.model import DimBounds, ImportedModel
    from deploykit.frontends.huggingface.importer import Route
    from deploykit.quantization import Quantization
    from deploykit.targets.base import Target

Ragged: TypeAlias = "str | Sequence[str] | Mapping[str, str]"
"""The name of a ragged dim, or several; with the dim of the batch for each, or without."""


@interruptible
@defects("in the stage 'import'")
def load(
    source: str | Path | onnx.ModelProto | Operator,
    dims: DimBounds | None = None,
    *,
    seed_input: str | None = None,
    ragged: Ragged | None = None,
    masks: Sequence[str] | None = None,
    weights: str | Path | None = None,
    samples: str | Path | None = None,
    policy: str | None = None,
    fuse: bool = True,
    route: Route | None = None,
) -> ImportedModel:
    """Import a model, given as the path of an ONNX file or of a Hugging Face folder, as an `onnx.ModelProto`, or as an
    operator of `deploykit.ragged`, also as `ops.py:name`: the name of an operator in a Python file. `models.py:Name` is
    a dynamic model, a class of `deploykit.dynamic`, with `weights` from a .safetensors or .npz file, or random ones.
    `samples` is a .json file with a list of instances, from which the policy of its batches is learned; `policy`
    chooses it; without `fuse` the operators of its cells stay apart (see docs/dynamic.md).

    `route` chooses the importer of a folder: `own`, or `torch`, which exports it by PyTorch; by default the first one
    that covers it (see docs/huggingface.md).

    `dims` pins symbolic dims (`{"seq": 128}`) or bounds them (`{"batch": (1, 64)}`). `seed_input` adds an input of that
    name: an int64 scalar that random numbers depend on.

    `ragged` names a dim that is to be another size for each index of the batch: `"seq"`, or with the dim of the batch
    `{"seq": "batch"}`. The model takes padded batches; the result takes the instances of a batch one after the other,
    and their lengths (see docs/ragged.md). `masks` are the inputs that tell padding, by default those with usual names,
    such as `attention_mask`. `dims` may bound `tokens`, the sum of the lengths.

    Raises `UsageError` and `UnsupportedModelError`.
    """
    from deploykit.frontends.onnx import load_onnx

    place = operator_path(source)
    if place is not None and is_class(*place):
        from deploykit.compiler.batching.choosing import with_policy
        from deploykit.compiler.batching.model import bounded, cells_model
        from deploykit.compiler.batching.techniques import Techniques
        from deploykit.compiler.dims import checked_bounds
        from deploykit.frontends.python.models import import_model

        if seed_input or ragged or masks:
            raise UsageError("a dynamic model has neither a seed nor a ragged dim: these options are for ONNX files")
        arrays = None if weights is None else read_weights(Path(weights))
        model = import_model(*place, arrays, Techniques(joining=fuse))
        model = with_policy(model, None if samples is None else read_samples(Path(samples)), policy)
        return cells_model(bounded(model, checked_bounds(dims or {})))
    if weights is not None or samples is not None or policy is not None:
        raise UsageError("weights, samples and a policy are for a dynamic model, such as models.py:TreeLSTM")
    if place is not None or isinstance(source, Operator):
        from deploykit.compiler.ragged.model import ragged_model

        if dims or seed_input or ragged or masks:
            raise UsageError("an operator says itself what its dims are: these options are for ONNX files")
        if not isinstance(source, Operator):
            assert place is not None
            source = load_operator(*place)
        return ragged_model(source)
    if is_on_hub(source) or is_folder(source):
        from deploykit.folders import load_model

        if seed_input or ragged or masks:
            raise UsageError("a Hugging Face folder says itself what is ragged: these options are for ONNX files")
        return load_model(downloaded(source), dims, route)
    if route is not None:
        raise UsageError("a route is for a Hugging Face folder")
    if ragged is None:
        if masks is not None:
            raise UsageError("masks are for a ragged dim, which is not asked for")
        return load_onnx(source, dims, seed_input=seed_input)
    from deploykit.compiler.dims import checked_bounds
    from deploykit.compiler.ragged.conversion import TOKENS
    from deploykit.compiler.ragged.conversion import ragged as converted

    bounds = checked_bounds(dims or {})
    tokens = bounds.pop(TOKENS, None)
    pair = (tokens, tokens) if isinstance(tokens, int) else tokens
    return converted(load_onnx(source, bounds, seed_input=seed_input), _pairs(ragged), masks, pair)


def _pairs(ragged: Ragged) -> dict[str, str]:
    """The dims of batches by the names of ragged dims; empty names where they are not given."""
    if isinstance(ragged, Mapping):
        return dict(ragged)
    return dict.fromkeys([ragged] if isinstance(ragged, str) else ragged, "")


@interruptible
def build(
    model: str | Path | onnx.ModelProto | ImportedModel | Operator,
    target: str | Target = "host",
    dims: DimBounds | None = None,
    output: str | Path = "dist",
    *,
    cpu: str = "native",
    format: str = "",  # noqa: A002 - as on the command line
    settings: Mapping[str, str] | None = None,
    seed_input: str | None = None,
    ragged: Ragged | None = None,
    masks: Sequence[str] | None = None,
    weights: str | Path | None = None,
    samples: str | Path | None = None,
    policy: str | None = None,
    quantize: str | None = None,
    route: Route | None = None,
    fuse: bool = True,
    fast_math: bool = False,
    index_checks: bool = True,
    exact: bool = False,
    devices: Sequence[str] = (),
    dump_dir: str | Path | None = None,
    stop_after: str | None = None,
    check: bool | None = False,
    check_at: Mapping[str, int | Sequence[int]] | None = None,
    check_inputs: Mapping[str, Input] | None = None,
    on_stage: Callable[[str], None] = lambda _: None,
    on_explanation: Callable[[Explanation], None] = lambda _: None,
) -> Artifact | None:
    """Compile a model for a target, by its name, and write its artifact folder at `output`, whole or not at all. The
    model may be an operator of `deploykit.ragged`, or its place (`ops.py:name`), or the place of a dynamic model
    (`models.py:Name`); these cannot be checked.

    `on_stage(name)` is called when each stage of `deploykit.compiler.observer.STAGES` begins. `dump_dir` receives the
    result of each stage as text. `stop_after` names the last stage to run; the result is then `None`. `on_explanation`
    is called once per variant with what the passes and the rules for kernels did, and why others did not apply.

    `format` is the form of the artifact, where the target has several, and `settings` are what else the target can be
    told, by name; the page of a target describes both.

    Without `fuse` each operator keeps its own kernels: slower, but it shows what each operator computes and costs.
    `fast_math` uses shorter forms of exp, tanh and similar functions, with errors of up to 4 instead of 2 units in the
    last place. `quantize` stores large weights as `int8` or `fp16` and notes how much results change; a model of texts
    is tried on those in the file `samples`, a .json list, if there is one. Without `index_checks` a run does not refuse
    indices out of range, such as a token that is not in the vocabulary, and takes the nearest element instead. With
    `exact` the results of a row, such as a token of a ragged batch, have the same bits whatever else is in the batch.
    `devices` are what else to make kernels for: `vulkan`, `opencl`, or `vulkan:discrete` for a class of GPUs.
    `seed_input`, `ragged`, `masks`, `weights`, `samples`, `policy` and `route` are those of `load`.

    With `check` the artifact is run and compared with ONNX Runtime before it is put at `output`. The runs are at both
    ends of the bounds of its dims, or at the sizes `check_at`. `check_inputs` gives inputs by name, and other inputs
    are random; both arguments are given as to `deploykit.verify`. With `check=None` this is done as the command line
    does it by default: for `host`, if ONNX Runtime is installed, the model is small and the runs are short.

    Raises `UsageError`, `UnsupportedModelError` and `ToolchainError`, and `MismatchError` when `check` finds a result
    that differs by more than rounding; nothing is left at `output` then.
    """
    from deploykit.checks.final_check import (
        UNASKED_BYTES,
        check_artifact,
        check_unasked,
        checks_unasked,
        require_checkable,
    )
    from deploykit.compiler.dims import checked_bounds
    from deploykit.compiler.observer import STAGES, Observer
    from deploykit.compiler.program.placement import CAPACITY
    from deploykit.pipeline import build_artifact
    from deploykit.targets.base import PackageOptions, find_target, require_settings

    if stop_after is not None and stop_after not in STAGES:
        raise UsageError(f"there is no stage '{stop_after}'; there are {', '.join(STAGES)}")
    chosen = find_target(target) if isinstance(target, str) else target
    require_settings(chosen, format, settings or {})
    sweep()
    if stop_after is None:
        check_output(Path(output))
        if check:
            if operator_path(model) is not None or isinstance(model, Operator):
                raise UsageError("a model in Python cannot be checked: ONNX Runtime does not have it")
            if quantize is not None:
                raise UsageError("a quantised model cannot be checked: its results differ by more than rounding")
            require_checkable(model, chosen)
    observer = Observer(on_stage, Path(dump_dir) if dump_dir else None, stop_after, on_explanation=on_explanation)
    given = dict(dims or {})
    capacities = checked_bounds({name: given.pop(name) for name in list(given) if name.startswith(CAPACITY)})
    # An artifact for this machine is measured itself; for others there is a build for this machine.
    here = chosen.name == "host" and cpu == "native"
    quantization = None if quantize is None else _quantization(quantize, samples, here=here)
    compare = None if quantization is None or not here else quantization.check
    unasked = check is None and quantize is None and checks_unasked(model, chosen, cpu)
    if unasked and isinstance(model, str | Path):
        compare = partial(check_unasked, model=model)
    if check and not isinstance(model, Operator):
        compare = partial(check_artifact, model=model, at=check_at, inputs=check_inputs)
    options = PackageOptions(
        cpu=cpu,
        devices=tuple(devices),
        fast_math=fast_math,
        check=compare,
        check_bytes=UNASKED_BYTES if unasked else None,
        format=format,
        settings=settings or {},
    )
    learned = samples if quantize is None else None
    return build_artifact(
        partial(_imported, model, given, seed_input, ragged, masks, weights, learned, policy, fuse, route),
        chosen,
        Path(output),
        options,
        observer,
        change=None if quantization is None else quantization.quantized,
        source=_file_of(model),
        capacities=capacities,
        fuse=fuse,
        index_checks=index_checks,
        exact=exact,
    )


def _quantization(kind: str, samples: str | Path | None, *, here: bool) -> Quantization:
    from deploykit.quantization import Quantization

    texts = [] if samples is None else read_samples(Path(samples))
    if not all(isinstance(text, str) for text in texts):
        raise UsageError(f"{samples} is no list of texts")
    return Quantization(kind, texts, here)


def _file_of(model: object) -> Path | None:
    """The file of a model that is given by its path; the configuration of a folder."""
    place = operator_path(model)
    if place is not None:
        return place[0]
    if is_on_hub(model):
        return None
    if is_folder(model):
        return Path(str(model)) / CONFIG
    return Path(model) if isinstance(model, str | Path) else None


def _imported(
    model: str | Path | onnx.ModelProto | ImportedModel | Operator,
    dims: DimBounds,
    seed_input: str | None,
    ragged: Ragged | None,
    masks: Sequence[str] | None,
    weights: str | Path | None,
    samples: str | Path | None,
    policy: str | None,
    fuse: bool,
    route: Route | None,
) -> ImportedModel:
    from deploykit.compiler.model import ImportedModel

    if not isinstance(model, ImportedModel):
        return load(
            model,
            dims,
            seed_input=seed_input,
            ragged=ragged,
            masks=masks,
            weights=weights,
            samples=samples,
            policy=policy,
            fuse=fuse,
            route=route,
        )
    options = {"dims": dims, "seed_input": seed_input, "ragged": ragged, "masks": masks, "weights": weights}
    for name, given in (options | {"samples": samples, "policy": policy, "route": route}).items():
        if given:
            raise UsageError(f"the model is loaded already: give {name} to deploykit.load")
    model.require_unchanged()
    return model
