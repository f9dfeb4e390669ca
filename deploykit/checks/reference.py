"""References that artifacts are compared with: other ways to run the same ONNX model.

onnxruntime    ONNX Runtime, CPU
onnx           the reference evaluator of the onnx package: slow, knows every operator and opset
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from deploykit.artifact.manifest import Manifest, describe_source
from deploykit.errors import ToolchainError, UnsupportedModelError, UsageError
from deploykit.sources.base import find_frontend

NEEDS_EXPORT = "export it to ONNX, and name that file with --model, to compare with it"

Runner: TypeAlias = Callable[[Mapping[str, Any]], dict[str, Any]]
"""Inputs by name -> outputs by name: arrays, lists of arrays, or `None`, as a session takes and returns them."""


def load(model: str | Path, reference: str = "onnxruntime", threads: int = 1, *, timed: bool = False) -> Runner:
    """The model as a function that `reference`, one of `REFERENCES`, runs: exactly, or if it is `timed`, as fast as it
    does by default.

    Raises:
        UsageError: there is no such file or reference.
        ToolchainError: the reference is not installed.
        UnsupportedModelError: the reference cannot load the model.
    """
    if reference not in REFERENCES:
        raise UsageError(f"there is no reference '{reference}'; choose from {', '.join(REFERENCES)}")
    path = Path(model)
    frontend = find_frontend(path)
    if frontend.unchecked is not None:
        raise UsageError(f"{path} is {frontend.description}: {NEEDS_EXPORT}")
    if not path.is_file():
        raise UsageError(f"there is no model file {path}")
    return REFERENCES[reference](path, threads, timed)


def model_of(artifact: Path, manifest: Manifest, model: str | Path | None = None) -> Path:
    """The model file of an artifact: `model` if it is given, else the file that the artifact was built from.

    That file is found by name and checksum, in the working directory or beside the artifact. Raises `UsageError` if
    there is none.
    """
    if model is not None:
        return Path(model)
    from deploykit.frontends.huggingface.folder import CONFIG

    source = manifest.source
    if source is not None and source.file == CONFIG:
        raise UsageError(
            f"{artifact} was built from a Hugging Face folder: {NEEDS_EXPORT}; or build that for the host, too, and "
            "name the artifact with --model"
        )
    if source is not None:
        for path in (Path(source.file), artifact.parent / source.file):
            if path.is_file() and describe_source(path) == source:
                return path
    name = f"{source.file} as it was built" if source else "the model"
    raise UsageError(f"cannot find {name} here or beside {artifact}: say where it is with --model")


def _onnxruntime(path: Path, threads: int, timed: bool) -> Runner:
    try:
        import onnxruntime
    except ImportError as error:
        raise ToolchainError("onnxruntime is not installed; run: pip install onnxruntime") from error

    def opened(**settings: str) -> Any:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 4
        for name, value in settings.items():
            options.add_session_config_entry(f"session.{name}", value)
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])

    try:
        session = opened() if timed else _exact(opened)
    except Exception as error:  # onnxruntime's exceptions share no base of their own
        raise UnsupportedModelError(
            f"ONNX Runtime {onnxruntime.__version__} cannot load {path}: {error}. The reference 'onnx' may."
        ) from error
    inputs = {value.name: value.type for value in session.get_inputs()}
    outputs = [value.name for value in session.get_outputs()]

    def run(given: Mapping[str, Any]) -> dict[str, Any]:
        if not any(isinstance(value, np.ndarray) and value.dtype.kind not in "biufO" for value in given.values()):
            return dict(zip(outputs, session.run(outputs, dict(given)), strict=True))
        values = {name: _ort_value(onnxruntime, given[name]) for name in inputs}
        results = session.run_with_ort_values(outputs, values)
        return {name: value.numpy() for name, value in zip(outputs, results, strict=True)}

    return run


def _exact(opened: Callable[..., Any]) -> Any:
    """A session whose sums of two products of bytes do not saturate at 16 bits, as they do on CPUs without AVX512_VNNI
    or AVX_VNNI. ONNX Runtime 1.31 cannot change some models in this way, whose zero points have several readers: these
    are not optimised."""
    try:
        return opened(x64quantprecision="1")
    except Exception:  # noqa: BLE001  onnxruntime's exceptions share no base of their own
        return opened(disable_quant_qdq="1")


def _ort_value(onnxruntime: object, array: np.ndarray) -> object:
    """An array as ONNX Runtime takes it; a dtype of ml_dtypes needs its ONNX type with it."""
    import onnx

    create = onnxruntime.OrtValue  # type: ignore[attr-defined]
    if array.dtype.kind in "biuf":
        return create.ortvalue_from_numpy(array)
    return create.ortvalue_from_numpy_with_onnx_type(array, onnx.helper.np_dtype_to_tensor_dtype(array.dtype))


def _onnx(path: Path, _threads: int, _timed: bool) -> Runner:
    from onnx.reference import ReferenceEvaluator

    try:
        evaluator = ReferenceEvaluator(str(path))
    except Exception as error:  # the evaluator raises whatever the operator at fault raises
        raise UnsupportedModelError(f"onnx's reference evaluator cannot load {path}: {error}") from error

    optional = [type_.HasField("optional_type") for type_ in evaluator.output_types]

    def run(given: Mapping[str, Any]) -> dict[str, Any]:
        found = evaluator.run(None, dict(given))
        # The evaluator wraps the value of an optional, or None, in a list.
        values = [v[0] if boxed and isinstance(v, list) else v for boxed, v in zip(optional, found, strict=True)]
        return dict(zip(evaluator.output_names, values, strict=True))

    return run


REFERENCES: Mapping[str, Callable[[Path, int, bool], Runner]] = {"onnxruntime": _onnxruntime, "onnx": _onnx}
