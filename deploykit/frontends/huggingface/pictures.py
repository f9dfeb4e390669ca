"""Reads `preprocessor_config.json`: what transformers' image processors do with a picture in front of a model.

Entries that are missing or null have the defaults of the processor that the file names. The files of newer folders are
`processor_config.json`, with the same entries under `image_processor`. A picture of several in a batch is not padded:
each has its own size.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deploykit.errors import UnsupportedModelError, UsageError
from deploykit.frontends.huggingface.entries import PICTURES, check_settings
from deploykit.frontends.huggingface.folder import Folder
from deploykit.pictures import Edges, Filter, Picture

PREPROCESSOR, PROCESSOR, PART = "preprocessor_config.json", "processor_config.json", "image_processor"

BILINEAR, BICUBIC = 2, 3
FILTERS: Mapping[int, Filter] = {BILINEAR: "bilinear", BICUBIC: "bicubic"}
"""The filters by the numbers that Pillow gives them."""

HALVES = {"image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]}
IMAGENET = {"image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]}
OPENAI = {
    "image_mean": [0.48145466, 0.4578275, 0.40821073],
    "image_std": [0.26862954, 0.26130258, 0.27577711],
}
SQUARE = {"height": 224, "width": 224}
EDGE = {"shortest_edge": 224}
CROPPED = {"do_center_crop": True, "crop_size": SQUARE}
CLIP = {**OPENAI, **CROPPED, "resample": BICUBIC, "size": EDGE}
MOBILE_NET = {**HALVES, **CROPPED, "resample": BILINEAR, "size": {"shortest_edge": 256}}
DETR = {**IMAGENET, "resample": BILINEAR, "size": {"shortest_edge": 800, "longest_edge": 1333}}

DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "ViT": {**HALVES, "resample": BILINEAR, "size": SQUARE},
    "DeiT": {**HALVES, **CROPPED, "resample": BICUBIC, "size": {"height": 256, "width": 256}},
    "Beit": {**HALVES, "resample": BICUBIC, "size": SQUARE, "crop_size": SQUARE},
    "Bit": CLIP,
    "Blip": {**OPENAI, "resample": BICUBIC, "size": {"height": 384, "width": 384}},
    "CLIP": CLIP,
    "ChineseCLIP": CLIP,
    "Siglip": {**HALVES, "resample": BICUBIC, "size": SQUARE},
    "ConvNext": {**HALVES, "resample": BICUBIC, "size": {"shortest_edge": 384}, "crop_pct": 224 / 256},
    "Levit": {**IMAGENET, **CROPPED, "resample": BICUBIC, "size": EDGE, "crop_pct": 224 / 256},
    "MobileNetV1": MOBILE_NET,
    "MobileNetV2": MOBILE_NET,
    "MobileViT": {
        **HALVES,
        "do_center_crop": True,
        "do_normalize": False,
        "do_flip_channel_order": True,
        "resample": BICUBIC,
        "size": EDGE,
        "crop_size": {"height": 256, "width": 256},
    },
    "PoolFormer": {**IMAGENET, **CROPPED, "resample": BICUBIC, "size": EDGE, "crop_pct": 0.9},
    "Pvt": {**IMAGENET, "resample": BICUBIC, "size": SQUARE},
    "Segformer": {**IMAGENET, "resample": BILINEAR, "size": {"height": 512, "width": 512}},
    "Detr": DETR,
    "ConditionalDetr": DETR,
    "DeformableDetr": DETR,
    "RTDetr": {**IMAGENET, "do_normalize": False, "resample": BILINEAR, "size": {"height": 640, "width": 640}},
}
"""The defaults of each processor; a size that is one number is that of the shortest edge where the default says so."""

OF_MODELS: Mapping[str, str] = {
    "beit": "Beit",
    "clip": "CLIP",
    "conditional_detr": "ConditionalDetr",
    "convnext": "ConvNext",
    "deformable_detr": "DeformableDetr",
    "deit": "DeiT",
    "detr": "Detr",
    "dinov2": "Bit",
    "levit": "Levit",
    "mobilenet_v1": "MobileNetV1",
    "mobilenet_v2": "MobileNetV2",
    "mobilevit": "MobileViT",
    "mobilevitv2": "MobileViT",
    "poolformer": "PoolFormer",
    "pvt": "Pvt",
    "regnet": "ConvNext",
    "resnet": "ConvNext",
    "segformer": "Segformer",
    "siglip": "Siglip",
    "swin": "ViT",
    "vit": "ViT",
}
"""The processor of each type of model, for files of older folders, which name none."""

COMMON = {"do_resize": True, "do_rescale": True, "do_normalize": True, "rescale_factor": 1 / 255}

WITHOUT_EFFECT = {"do_convert_rgb", "do_convert_annotations", "do_reduce_labels", "do_pad", "do_center_crop"} | {
    *COMMON
}
"""Steps that are known here, that only change labels, or that only batches of several sizes need."""


def read_picture(folder: Folder) -> Picture | None:
    """What the folder says about pictures; None if it says nothing. Raises `UnsupportedModelError` for processors and
    steps that are unknown, and `UsageError` for entries that make no sense."""
    entries, where = _entries(folder)
    if entries is None:
        return None
    kind = _kind(entries, str(folder.config["model_type"]), where)
    found = {**COMMON, **DEFAULTS[kind], **{key: value for key, value in entries.items() if value is not None}}
    for key, value in found.items():
        if key.startswith("do_") and value and key not in {*WITHOUT_EFFECT, *DEFAULTS[kind]}:
            raise UnsupportedModelError(f"{where} says {key}={value!r}, a step that is unknown")
    if found.get("pad_size") is not None:
        raise UnsupportedModelError(f"{where} says pad_size={found['pad_size']!r}: padding pictures is unknown")
    picture = _geometry(kind, found, where)
    mean, deviation = (_channels(found, key, where) for key in ("image_mean", "image_std"))
    return Picture(
        *picture,
        scale=float(found["rescale_factor"]) if found["do_rescale"] else None,
        mean=mean if found["do_normalize"] else None,
        deviation=deviation if found["do_normalize"] else None,
        bgr=bool(found.get("do_flip_channel_order")),
    )


def prepared_size(folder: Folder) -> tuple[int, int] | None:
    """The height and width of the pictures that the folder makes, the least ones if they follow from the picture; None
    if it does not say. The processor may be an unknown one."""
    try:
        picture = read_picture(folder)
    except UnsupportedModelError:
        entries = _entries(folder)[0] or {}
        return _plain_size(entries.get("crop_size")) or _plain_size(entries.get("size"))
    made = None if picture is None else picture.crop or picture.size
    return (made.shortest, made.shortest) if isinstance(made, Edges) else made


def _plain_size(given: Any) -> tuple[int, int] | None:
    """A size in one of the usual forms; None for others."""
    found = given if isinstance(given, dict) else {"shortest_edge": given}
    height, width = (found.get(name) or found.get("shortest_edge") for name in ("height", "width"))
    return (height, width) if isinstance(height, int) and isinstance(width, int) else None


def _entries(folder: Folder) -> tuple[Mapping[str, Any] | None, str]:
    """What the folder says about pictures, if it says anything, and the path of the file."""
    entries, name = folder.json(PREPROCESSOR), PREPROCESSOR
    if entries is None and folder.has(PROCESSOR):
        entries, name = folder.part(PROCESSOR, PART), PROCESSOR
    if not isinstance(entries, dict | None):
        raise UsageError(f"{folder.path / name} is no JSON object")
    check_settings(folder.path / name, entries or {}, PICTURES)
    return entries, str(folder.path / name)


def _kind(entries: Mapping[str, Any], model_type: str, where: str) -> str:
    """The processor that a file names, without what its name ends with, or that of the type of model."""
    named = str(entries.get("image_processor_type") or entries.get("feature_extractor_type") or "")
    kind = named or OF_MODELS.get(model_type, "")
    for ending in ("Fast", "Pil", "ImageProcessor", "FeatureExtractor"):
        kind = kind.removesuffix(ending)
    if kind not in DEFAULTS:
        says = f"names the processor {named}" if named else "names no image processor"
        raise UnsupportedModelError(f"{where} {says}; there are {', '.join(f'{k}ImageProcessor' for k in DEFAULTS)}")
    return kind


def _geometry(
    kind: str, found: Mapping[str, Any], where: str
) -> tuple[tuple[int, int] | Edges | None, Filter, tuple[int, int] | None]:
    """The size, the filter and the crop."""
    if found["resample"] not in FILTERS:
        known = ", ".join(f"{number} ({name})" for number, name in FILTERS.items())
        raise UnsupportedModelError(f"{where} says resample={found['resample']!r}; there are {known}")
    by = FILTERS[found["resample"]]
    size = _size(kind, found, where) if found["do_resize"] else None
    crop = _pair(found, "crop_size", where) if found.get("do_center_crop") else None
    if kind in ENLARGED and size is not None:
        size = _enlarged(size, float(found["crop_pct"]), where)
    if kind != "ConvNext" or size is None:
        return size, by, crop
    if not isinstance(size, Edges) or size.longest is not None or crop is not None:
        raise UnsupportedModelError(
            f"{where}: a ConvNextImageProcessor has one size, of the shortest edge, and no crop"
        )
    square = (size.shortest, size.shortest)
    if size.shortest >= WARPED_FROM:
        return square, by, None
    return Edges(int(size.shortest / found["crop_pct"])), by, square


WARPED_FROM = 384
"""Pixels: from this size on, a ConvNextImageProcessor changes the aspect ratio instead of cropping."""


ENLARGED = ("Levit", "PoolFormer")
"""Processors whose size is that of a part of the resized picture."""


def _enlarged(size: tuple[int, int] | Edges, part: float, where: str) -> Edges:
    """The size of a picture of which `part` has `size`."""
    if not isinstance(size, Edges) or size.longest is not None or not 0 < part <= 1:
        raise UnsupportedModelError(f"{where}: its processor has one size, of the shortest edge, and crop_pct up to 1")
    return Edges(int(size.shortest / part))


def _size(kind: str, found: Mapping[str, Any], where: str) -> tuple[int, int] | Edges:
    size = found["size"]
    if isinstance(size, int) and "shortest_edge" in DEFAULTS[kind]["size"]:
        size = {"shortest_edge": size}
        if "longest_edge" in DEFAULTS[kind]["size"]:
            size["longest_edge"] = found.get("max_size", 1333)
    if not isinstance(size, dict) or {"height", "width"} <= size.keys():
        return _pair(found, "size", where)
    given = {key: value for key, value in size.items() if value is not None}
    if not {"shortest_edge"} <= given.keys() <= {"shortest_edge", "longest_edge"} or not all(
        isinstance(value, int) and value > 0 for value in given.values()
    ):
        raise UnsupportedModelError(f"{where} says size={size!r}; it must have height and width, or shortest_edge")
    return Edges(given["shortest_edge"], given.get("longest_edge"))


def _pair(found: Mapping[str, Any], name: str, where: str) -> tuple[int, int]:
    """A height and a width: a number, two of them, or both by name."""
    given = found.get(name)
    values = [given, given] if isinstance(given, int) else given
    if isinstance(given, dict):
        values = [given.get("height"), given.get("width")]
    if not isinstance(values, list) or len(values) != 2 or not all(isinstance(n, int) and n > 0 for n in values):
        raise UsageError(f"{where} says {name}={given!r}, which is no height and width")
    return values[0], values[1]


def _channels(found: Mapping[str, Any], name: str, where: str) -> tuple[float, ...]:
    """A number for each of three channels."""
    given = found[name]
    values = [given] * 3 if isinstance(given, int | float) else given
    if not isinstance(values, list) or len(values) != 3 or not all(isinstance(n, int | float) for n in values):
        raise UsageError(f"{where} says {name}={given!r}, which are not three numbers")
    return tuple(float(n) for n in values)
