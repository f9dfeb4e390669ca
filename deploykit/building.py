"""`load` and `build`: from a model file to an artifact folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from deploykit.artifact import Artifact, check_output
from deploykit.errors import UsageError
from deploykit.manifest import describe_source

if TYPE_CHECKING:
    import onnx

    from deploykit.frontends.model import DimBounds, ImportedModel
    from deploykit.targets.base import Target

OPTIMISATION_LEVELS = {"O0": 0, "O1": 1, "O2": 2, "O3": 3}
"""`O0`: one kernel an operator; from `O1` on operators are fused. `O2` is the default; `O3` does the same today."""


def load(source: str | Path | onnx.ModelProto, dims: DimBounds | None = None) -> ImportedModel:
    """Import a model: a path of an ONNX file, or an `onnx.ModelProto`.

    `dims` pins symbolic dims (`{"seq": 128}`) or bounds them (`{"batch": (1, 64)}`). Raises `UsageError` and
    `UnsupportedModelError`.
    """
    from deploykit.frontends.onnx import load_onnx

    return load_onnx(source, dims)


def build(
    model: str | Path | onnx.ModelProto | ImportedModel,
    target: str | Target = "host",
    dims: DimBounds | None = None,
    output: str | Path = "dist",
    *,
    opt: str = "O2",
    cpu: str = "native",
    fast_math: bool = False,
    dump_dir: str | Path | None = None,
    stop_after: str | None = None,
    on_stage: Callable[[str], None] = lambda _: None,
) -> Artifact | None:
    """Compile a model for a target, by its name, and write its artifact folder at `output`, whole or not at all.

    `on_stage(name)` is called when each stage of `deploykit.compiler.pipeline.STAGES` begins; `dump_dir` receives what
    each produced as text; `stop_after` ends the build after a stage, and the result is then `None`. `fast_math` takes
    shorter forms of exp, tanh and the like, with errors up to 4 instead of 2 units in the last place.

    Raises `UsageError`, `UnsupportedModelError` and `ToolchainError`.
    """
    from deploykit.compiler.pipeline import STAGES, Observer, compile_program
    from deploykit.compiler.program.alternatives import with_alternatives
    from deploykit.compiler.program.placement import CAPACITY, require_capacities
    from deploykit.frontends.model import ImportedModel
    from deploykit.targets.base import PackageOptions, find_target, profiles_for, write_artifact

    if opt not in OPTIMISATION_LEVELS:
        raise UsageError(f"there is no optimisation level '{opt}'; there are {', '.join(OPTIMISATION_LEVELS)}")
    if stop_after is not None and stop_after not in STAGES:
        raise UsageError(f"there is no stage '{stop_after}'; there are {', '.join(STAGES)}")
    chosen = find_target(target) if isinstance(target, str) else target
    profiles = profiles_for(chosen, cpu)
    if stop_after is None:
        check_output(Path(output))
    observer = Observer(on_stage, Path(dump_dir) if dump_dir else None, stop_after)
    given = dict(dims or {})
    capacities = {name: given.pop(name) for name in list(given) if name.startswith(CAPACITY)}
    with observer.stage("import"):
        imported = model.with_dims(given) if isinstance(model, ImportedModel) else load(model, given)
    level = OPTIMISATION_LEVELS[opt]
    program = compile_program(imported, profiles[0], observer, level=level, capacities=capacities)
    if program is None or stop_after == "program":
        return None
    quiet = Observer(seconds=observer.seconds)
    others = [compile_program(imported, profile, quiet, level=level, capacities=capacities) for profile in profiles[1:]]
    program = with_alternatives(program, [other for other in others if other is not None])
    source = describe_source(Path(model)) if isinstance(model, str | Path) else None
    require_capacities(program, capacities)
    options = PackageOptions(cpu=cpu, fast_math=fast_math, observer=observer, source=source)
    return write_artifact(program, chosen, Path(output), options)
