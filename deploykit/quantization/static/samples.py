"""Samples of a model's inputs: `.npz` files with an array for each input.

The first axis of an array counts samples. Where an input has a batch as its first axis, a run takes as many samples as
that axis has elements, one if it is symbolic. An array with one more axis than the input has a whole input for each
sample. Floats are converted to the dtype of the input, and so are integers that fit it.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import helper

from deploykit.errors import UsageError

Feed = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Input:
    """An input of the model: its dtype, and its shape with None for symbolic dims."""

    name: str
    dtype: np.dtype
    shape: tuple[int | None, ...]

    @property
    def text(self) -> str:
        """The text in messages: `float32[batch, 3]` with `?` for symbolic dims."""
        return f"{self.dtype}[{', '.join('?' if n is None else str(n) for n in self.shape)}]"


def inputs_of(model: onnx.ModelProto) -> list[Input]:
    """The inputs that a run takes. Raises `UsageError` for one that is no tensor of a known rank."""
    constants = {tensor.name for tensor in model.graph.initializer}
    found = []
    for value in model.graph.input:
        if value.name in constants:
            continue
        kind = value.type.tensor_type
        if not kind.elem_type or not kind.HasField("shape"):
            raise UsageError(f"input '{value.name}' is no tensor of a known rank: it cannot be calibrated")
        shape = tuple(dim.dim_value if dim.HasField("dim_value") else None for dim in kind.shape.dim)
        found.append(Input(value.name, np.dtype(helper.tensor_dtype_to_np_dtype(kind.elem_type)), shape))
    return found


def read_samples(paths: Sequence[Path], inputs: Sequence[Input]) -> list[Feed]:
    """The inputs of each run, from files or from all `.npz` files of folders, in the order of their names.

    Raises `UsageError` if a file cannot be read, or does not fit the inputs."""
    files = [file for path in paths for file in (sorted(path.glob("*.npz")) if path.is_dir() else [path])]
    if not files:
        raise UsageError(f"there is no .npz file in {', '.join(map(str, paths))}")
    feeds = [feed for file in files for feed in _feeds(file, inputs)]
    if not feeds:
        raise UsageError(f"there is no sample in {', '.join(map(str, files))}")
    return feeds


def _feeds(file: Path, inputs: Sequence[Input]) -> Iterator[Feed]:
    """The inputs of each run from a file."""
    arrays = _arrays(file)
    names = [entry.name for entry in inputs]
    if missing := [name for name in names if name not in arrays]:
        found = ", ".join(arrays) or "none"
        raise UsageError(f"{file} has no array '{missing[0]}'; the model takes {', '.join(names)}, found {found}")
    if unknown := [name for name in arrays if name not in names]:
        raise UsageError(f"{file}: the model has no input '{unknown[0]}'; it takes {', '.join(names)}")
    split = {entry.name: _split(file, entry, arrays[entry.name]) for entry in inputs}
    counts = {name: len(parts) for name, parts in split.items()}
    if len(set(counts.values())) > 1:
        text = ", ".join(f"{count} of {name}" for name, count in counts.items())
        raise UsageError(f"{file} has samples for different numbers of runs: {text}")
    for index in range(next(iter(counts.values()), 0)):
        yield {name: parts[index] for name, parts in split.items()}


def _arrays(file: Path) -> dict[str, np.ndarray]:
    try:
        with np.load(file, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror or error}") from error
    except (AttributeError, TypeError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise UsageError(f"{file} is no .npz file of numbers: {error}") from error


def _split(file: Path, entry: Input, given: np.ndarray) -> list[np.ndarray]:
    """What each run takes of an array."""
    where = f"{file}: array '{entry.name}'"
    array = _converted(where, entry, given)
    if array.ndim == len(entry.shape) + 1:
        parts = list(array)
    elif array.ndim == len(entry.shape) and array.ndim:
        batch = entry.shape[0] or 1
        if len(array) % batch:
            raise UsageError(f"{where} has {len(array)} samples, and a run takes {batch}: give a multiple of {batch}")
        parts = [array[start : start + batch] for start in range(0, len(array), batch)]
    else:
        raise UsageError(
            f"{where} is {given.dtype}{list(given.shape)}, and the input is {entry.text}: its first axis counts samples"
        )
    for axis, (size, wanted) in enumerate(zip(parts[0].shape if parts else (), entry.shape, strict=False)):
        if wanted is not None and size != wanted:
            raise UsageError(
                f"{where} is {given.dtype}{list(given.shape)}, and the input is {entry.text}: axis {axis} of a sample "
                f"is {size} instead of {wanted}"
            )
    for index, part in enumerate(parts):
        if part.dtype.kind == "f" and not np.isfinite(part).all():
            raise UsageError(f"{where} has NaN or infinity in sample {index}: ranges cannot be found from it")
    return parts


def _converted(where: str, entry: Input, array: np.ndarray) -> np.ndarray:
    floats = array.dtype.kind == entry.dtype.kind == "f"
    integers = array.dtype.kind in "iu" and entry.dtype.kind in "iu"
    if array.dtype == entry.dtype:
        return array
    if not (floats or integers):
        raise UsageError(f"{where} is of {array.dtype}, and the input is {entry.text}")
    with np.errstate(over="ignore"):
        result = array.astype(entry.dtype)
    if integers and not np.array_equal(result, array):
        raise UsageError(f"{where} has numbers that {entry.dtype} does not hold; the input is {entry.text}")
    return result
