"""Which inputs a model takes: found from the arguments of `forward` and the configuration, and by trying.

Each proposal is a tuple of inputs; the first one that the model takes at the traced sizes, and that can be exported, is
the model's interface. Proposals with more dims come first.

    texts      input_ids, attention_mask, token_type_ids, bbox: (batch, seq); decoder_input_ids: (batch, target)
    pictures   pixel_values (batch, channels, height, width), of any size, or of the size in the configuration; also
               videos, with a number of frames in front of the channels
    sound      input_values (batch, samples), input_features (batch, frames, features), and other orders of these axes
    series     past_values (batch, length, channels), of the length in the configuration

If texts and pictures are compared with each other, the pictures have a batch of their own, `images`.
"""

from __future__ import annotations

import inspect
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch
from torch import nn

IDS, MASK, TYPES, TARGET = "input_ids", "attention_mask", "token_type_ids", "decoder_input_ids"
PIXELS, VALUES, FEATURES = "pixel_values", "input_values", "input_features"
LONG = 1024
"""The most tokens at which an export is compared: some models compute long texts in another way."""

AREAS = 5
"""The areas of a picture, along each side, that are brighter or darker. Noise alone looks the same to deep layers
everywhere."""

Size = int | str


@dataclass(frozen=True)
class Input:
    """An input: a name in `shape` is a dim, unless `fixed` gives it a size. Integers are below `high`; those of a mask
    are 1, then 0."""

    name: str
    shape: tuple[Size, ...]
    kind: Literal["ids", "mask", "boxes", "normal"] = "normal"
    high: int = 2
    fixed: Mapping[str, int] = field(default_factory=dict)

    def dims(self) -> dict[int, str]:
        """The dims by axis."""
        return {axis: n for axis, n in enumerate(self.shape) if isinstance(n, str) and n not in self.fixed}

    def sample(self, sizes: Mapping[str, int], random: np.random.Generator) -> torch.Tensor:
        known = {**sizes, **self.fixed}
        shape = [size if isinstance(size, int) else known[size] for size in self.shape]
        if self.kind == "ids":
            return torch.from_numpy(random.integers(0, self.high, shape))
        if self.kind == "mask":
            ends = random.integers((shape[-1] + 1) // 2, shape[-1] + 1, (*shape[:-1], 1))
            ends[0] = shape[-1]
            return torch.from_numpy((np.arange(shape[-1]) < ends).astype(np.int64))
        if self.kind == "boxes":
            corners = np.sort(random.integers(0, self.high, (*shape[:-1], 2, 2)), axis=-2)
            return torch.from_numpy(corners.reshape(shape))
        noise = torch.from_numpy(random.standard_normal(shape, dtype=np.float32))
        if self.name != PIXELS:
            return noise
        areas = torch.from_numpy(random.standard_normal((1, math.prod(shape[:-2]), AREAS, AREAS), dtype=np.float32))
        smooth = torch.nn.functional.interpolate(areas, tuple(shape[-2:]), mode="bilinear")
        return (noise + 2 * smooth.reshape(shape)) / 2


def rounds(side: int, longest: int | None, prepared: tuple[int, int] | None) -> tuple[dict[str, int], ...]:
    """Sizes of all dims: the traced ones, then those at which an export is compared. `side` is that of a usual
    picture, `longest` the most tokens, `prepared` the size of pictures that a folder makes. One picture has odd sides:
    models pad or resize where a side is no multiple of their patches, and an export may lack that."""
    most = LONG if longest is None else min(longest, LONG)
    lengths = (min(11, most), 1, min(8, most), min(33, most), most, min(5, most))
    half = max(32, side // 64 * 32)
    return tuple(
        dict(zip(("batch", "images", "target", "height", "width", "samples", "frames", "seq"), (*row, n), strict=True))
        for row, n in zip(
            (
                (3, 2, 7, side, side + 32, 4800, 48),
                (1, 1, 1, side, side, 1000, 16),
                (2, 3, 5, side + 64, side, 1603, 33),
                (3, 2, 9, half, half + 32, 8001, 64),
                (1, 1, 3, side + 37, side + 51, 6400, 80),
                *([] if prepared in (None, (side, side)) else [(1, 1, 4, *prepared, 5123, 56)]),
            ),
            lengths,
            strict=False,
        )
    )


def proposals(model: nn.Module, prepared: tuple[int, int] | None = None) -> Iterator[tuple[Input, ...]]:
    """Interfaces that the model may have, in the order in which to try them. `prepared` is the size of pictures that
    its folder makes."""
    config: Any = model.config
    names = set(inspect.signature(model.forward).parameters)
    texts = _texts(model, names)
    target = [Input(TARGET, ("batch", "target"), "ids", words(model))] if TARGET in names else []
    seen: list[list[Input]] = [
        *([one] for one in _pictures(config, names, prepared)),
        *([one] for one in _sounds(config, names)),
        *([one] for one in _series(config, names)),
    ]
    for one in seen if texts else ():
        apart = [Input(one[0].name, ("images", *one[0].shape[1:]))]
        for part, kept in itertools.product((apart, one), (texts, [i for i in texts if i.name in (IDS, MASK)])):
            yield (*kept, *part)
    if texts:
        yield (*texts, *target)
        yield (*(one for one in texts if one.name in (IDS, MASK)), *target)
        return
    for one in seen:
        if target:
            yield (*one, *target)
        yield tuple(one)


def _texts(model: nn.Module, names: set[str]) -> list[Input]:
    if IDS not in names:
        return []
    found = [Input(IDS, ("batch", "seq"), "ids", words(model))]
    if MASK in names:
        found.append(Input(MASK, ("batch", "seq"), "mask"))
    types = _entry(model.config, "type_vocab_size")
    if TYPES in names and types > 1:
        found.append(Input(TYPES, ("batch", "seq"), "ids", types))
    if "bbox" in names:
        found.append(Input("bbox", ("batch", "seq", 4), "boxes", _entry(model.config, "max_2d_position_embeddings")))
    return found


def _pictures(config: Any, names: set[str], prepared: tuple[int, int] | None) -> Iterator[Input]:
    if PIXELS not in names:
        return
    channels = _entry(config, "num_channels", "in_channels", "in_chans") or 3
    sizes = dict.fromkeys(size for size in (prepared, picture_size(config, prepared)) if size is not None)
    yield Input(PIXELS, ("batch", channels, "height", "width"))
    for size in sizes:
        yield Input(PIXELS, ("batch", channels, *size))
    if frames := _entry(config, "num_frames", "frames_per_clip"):
        for size in sizes:
            yield Input(PIXELS, ("batch", frames, channels, *size))


def _sounds(config: Any, names: set[str]) -> Iterator[Input]:
    bins = _entry(config, "num_mel_bins")
    if VALUES in names:
        yield Input(VALUES, ("batch", "samples"))
        yield Input(VALUES, ("batch", _entry(config, "audio_channels") or 1, "samples"))
        if length := _entry(config, "max_length"):
            yield Input(VALUES, ("batch", length, bins))
    if FEATURES in names:
        widths = ("input_feat_per_channel", "feature_projection_input_dim", "feature_size", "input_dim")
        for width in (_entry(config, *widths), bins):
            if width:
                yield Input(FEATURES, ("batch", "frames", width))
        if length := _entry(config, "max_source_positions"):
            yield Input(FEATURES, ("batch", bins, 2 * length))
        if side := _entry(config, "spec_size"):
            yield Input(FEATURES, ("batch", 1, side * side // max(bins, 1), bins))
    if "spectrogram" in names:
        yield Input("spectrogram", ("batch", "frames", _entry(config, "model_in_dim") or bins))


def _series(config: Any, names: set[str]) -> Iterator[Input]:
    length, channels = _entry(config, "context_length"), _entry(config, "num_input_channels")
    if "past_values" in names and length and channels:
        yield Input("past_values", ("batch", length, channels))


def picture_size(config: Any, usual: tuple[int, int] | None) -> tuple[int, int]:
    """The height and width of pictures that the configuration names; without any, the `usual` ones, or 224."""
    for part in (config, *(getattr(config, name, None) for name in PARTS)):
        found = getattr(part, "image_size", None) or getattr(part, "input_size", None)
        if isinstance(found, list | tuple) and len(found) == 2:
            return int(found[0]), int(found[1])
        if isinstance(found, int):
            return found, found
    return usual or (224, 224)


def longest_text(model: nn.Module) -> int | None:
    """The most tokens for which a model has positions; None if there is no limit."""
    tables = [
        (module.num_embeddings - int(getattr(module, "offset", 0) or 0), module)
        for name, module in model.named_modules()
        if isinstance(module, nn.Embedding) and name.rpartition(".")[2] in POSITIONS
    ]
    limits = [rows - (table.padding_idx + 1 if table.padding_idx is not None else 0) for rows, table in tables]
    text = model.config.get_text_config()
    rotary = getattr(text, "rope_parameters", None) or {}
    parts = [part for part in (rotary, *rotary.values()) if isinstance(part, dict)]
    scaled = [part for part in parts if part.get("rope_type") in SWITCHING]
    limits += [int(part.get("original_max_position_embeddings") or 0) for part in scaled]
    limits.append(_entry(text, *LIMITS))
    return min((limit for limit in limits if limit > 0), default=None)


POSITIONS = ("position_embeddings", "embed_positions", "position_embedding", "wpe", "pos_embed", "positions_embed")
LIMITS = ("max_position_embeddings", "n_positions", "max_seq_len")
SWITCHING = ("dynamic", "longrope")
"""Rotary positions whose angles are others for texts that are longer than those of the training."""


def words(model: nn.Module) -> int:
    """The number of rows of the table of tokens; without such a table, that of the words or hash buckets in the
    configuration."""
    try:
        rows = getattr(model.get_input_embeddings(), "num_embeddings", None)
    except NotImplementedError:
        rows = None
    return int(rows) if rows else _entry(model.config.get_text_config(), "vocab_size", "num_hash_buckets")


def _entry(config: Any, *names: str) -> int:
    """The first of these entries that is a number, in the configuration or in those of its parts; 0 without one."""
    parts: Sequence[Any] = [config, *(getattr(config, name, None) for name in PARTS)]
    for part, name in itertools.product(parts, names):
        found = getattr(part, name, None)
        if isinstance(found, int) and not isinstance(found, bool):
            return found
    return 0


PARTS = ("text_config", "vision_config", "audio_config", "image_config", "encoder", "backbone_config")
