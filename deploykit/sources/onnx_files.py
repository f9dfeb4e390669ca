"""ONNX files, and models in memory as an `onnx.ModelProto`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from deploykit.errors import UnsupportedModelError, UsageError
from deploykit.options.option import option
from deploykit.sources.base import Certainty
from deploykit.sources.folder import CACHE, GENERATE
from deploykit.sources.gguf_file import KEEP_BITS

if TYPE_CHECKING:
    from deploykit.compiler.model import DimBounds, ImportedModel

Ragged: TypeAlias = "str | Sequence[str] | Mapping[str, str]"
"""The name of a ragged dim, or several; with the dim of the batch for each, or without."""


def _pair(text: str) -> tuple[str, str]:
    """A ragged dim and the dim of its batch, which may be left out."""
    dim, _, batch = text.partition(":")
    return dim, batch


@dataclass(frozen=True)
class OnnxOptions:
    seed_input: str | None = option(
        None,
        "Add an int64 scalar input that random numbers depend on if the model gives no seed.",
        metavar="NAME",
    )
    ragged: Ragged | None = option(
        None,
        "A dim that has another size for each element of the batch, such as the length of a sentence: [b]seq[/], or "
        "with the dim of the batch [b]seq:batch[/]. The model takes padded batches and a mask; the artifact takes the "
        "elements one after the other and their lengths, and computes no padding.",
        metavar="DIM",
        many=True,
        read=lambda texts: dict(map(_pair, texts)),
    )
    masks: Sequence[str] | None = option(
        None,
        "For --ragged: an input that is 1 where there is data and 0 in the padding, or that holds lengths. By default, "
        "one with a usual name, such as attention_mask.",
        flags="--mask",
        metavar="NAME",
        many=True,
    )

    stream: str | None = option(
        None,
        "Run on new frames only: the dim that counts frames [b]time[/], or an axis of an input [b]x:2[/]; with the "
        "frames of its window [b]time=50[/], for a model that has one and does not say it. What the model needs of "
        "earlier frames is kept from run to run, until it is reset.",
        metavar="DIM|INPUT:AXIS",
    )

    generate: bool = GENERATE
    cache: Literal["float32", "float16", "int8"] = CACHE
    keep_bits: bool = KEEP_BITS

    def __post_init__(self) -> None:
        if self.stream is not None and (self.ragged is not None or self.seed_input is not None):
            raise UsageError("a stream is neither ragged nor does it have an input for a seed")
        if self.masks is not None and self.ragged is None:
            raise UsageError("masks are for a ragged dim, which is not asked for")


class OnnxFrontend:
    name = "onnx"
    description = "an ONNX file"
    form = "an ONNX file, or a folder with that of a decoder"
    Options = OnnxOptions
    unchecked = None

    def recognises(self, source: object) -> Certainty:
        if isinstance(source, str | Path):
            if _is_folder(source):
                return Certainty.CERTAIN
            return Certainty.LIKELY if Path(source).suffix == ".onnx" else Certainty.POSSIBLE
        module = type(source).__module__
        return Certainty.CERTAIN if module.partition(".")[0] in ("onnx", "onnx_ir") else Certainty.NO

    def load(self, source: Any, dims: DimBounds, options: OnnxOptions) -> ImportedModel:
        from deploykit.compiler.dims import checked_bounds
        from deploykit.compiler.ragged.conversion import TOKENS
        from deploykit.compiler.ragged.conversion import ragged as converted
        from deploykit.frontends.onnx import load_onnx

        if isinstance(source, str | Path):
            source = _file(source)
        if options.stream is not None:
            return _streamed(source, dims, options.stream)
        if options.ragged is None and options.generate and options.seed_input is None and isinstance(source, Path):
            return _loaded(source, dims, options)
        if options.ragged is None:
            return load_onnx(source, dims, seed_input=options.seed_input)
        bounds = checked_bounds(dims)
        tokens = bounds.pop(TOKENS, None)
        pair = (tokens, tokens) if isinstance(tokens, int) else tokens
        model = load_onnx(source, bounds, seed_input=options.seed_input)
        return converted(model, _pairs(options.ragged), options.masks, pair)

    def file(self, source: Any) -> Path | None:
        return _file(source) if isinstance(source, str | Path) else None


def _is_folder(source: str | Path) -> bool:
    """Whether a path is that of a folder with the ONNX file of a decoder."""
    if not Path(source).is_dir():
        return False
    from deploykit.frontends.onnx.decoders.files import model_in

    return model_in(Path(source)) is not None


def _file(source: str | Path) -> Path:
    """The ONNX file at a path, or in the folder there."""
    path = Path(source)
    if not path.is_dir():
        return path
    from deploykit.frontends.onnx.decoders.files import model_in

    return model_in(path) or path


def _loaded(path: Path, dims: DimBounds, options: OnnxOptions) -> ImportedModel:
    """The model of a file: one that generates, if it is a decoder, and if no dim of the file is asked for. A note says
    why one that takes what it remembers does not generate. Raises `UsageError` for dims that the model has not."""
    from deploykit.artifact.manifest import printable
    from deploykit.folders.decoders import generating_file
    from deploykit.frontends.onnx import load_onnx
    from deploykit.frontends.onnx.decoders.graph import dims_of, takes_memory
    from deploykit.frontends.onnx.reader import read
    from deploykit.frontends.stepping import DIMS

    model = read(path)
    if not takes_memory(model):
        return load_onnx(model, dims, printable(path.stem))
    if asked := dims.keys() & dims_of(model) - DIMS:
        reason = f"'{min(asked)}' is a dim of the file; without it, the model generates"
    else:
        try:
            return generating_file(path, model, dims, keep_bits=options.keep_bits, cache=options.cache)
        except UnsupportedModelError as error:
            reason = ": ".join([str(error).rstrip(":"), *(str(problem) for problem in error.problems[:1])])
    note = f"the model takes and gives back what it remembers, as the file says, for {reason}"
    imported = load_onnx(path, dims)  # it is read again: that which was read may be changed
    return replace(imported, notes=(*imported.notes, note))


def _streamed(source: Any, dims: DimBounds, stream: str) -> ImportedModel:
    """The model for new frames."""
    from deploykit.artifact.manifest import printable
    from deploykit.frontends.onnx.reader import read
    from deploykit.frontends.onnx.streams import import_stream

    model = read(source)
    name = printable(source.stem) if isinstance(source, Path) else (model.graph.name or "model")
    return import_stream(model, stream, dims, name)


def _pairs(ragged: Ragged) -> dict[str, str]:
    """The dims of batches by the names of ragged dims; empty names where they are not given."""
    if isinstance(ragged, Mapping):
        return dict(ragged)
    return dict.fromkeys([ragged] if isinstance(ragged, str) else ragged, "")
