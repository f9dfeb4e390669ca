"""Pictures as users have them: arrays, pictures of Pillow, and files.

Files are read by Pillow, and become what transformers makes of them: a picture is turned as its EXIF entry says, what
is transparent is white, and grey or a palette becomes red, green and blue. (Pipelines of transformers drop
transparency; its image processors have this white.) The exception are 16-bit grey pictures: transformers cuts their
values off at 255, here 65535 becomes 255.
"""

from __future__ import annotations

import struct
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from deploykit.errors import UsageError
from deploykit.pictures import Pixels, rgb

if TYPE_CHECKING:
    from PIL import Image


def pixels_of(picture: object) -> Pixels:
    """The pixels (height, width, 3) of an array (height, width, 1, 3 or 4), of a picture of Pillow, or of a file.

    Raises `UsageError` for a file that is missing or damaged, and for what is no picture."""
    if isinstance(picture, str | Path):
        return _read(Path(picture))
    pillow = sys.modules.get("PIL.Image")
    if pillow is not None and isinstance(picture, pillow.Image):
        return _decoded(picture, "the picture")
    return rgb(picture)


def _read(path: Path) -> Pixels:
    try:
        from PIL import Image
    except ImportError as error:
        raise UsageError(
            f"{path} is read by Pillow, which is not installed: pip install 'deploykit[pictures]', or give the pixels "
            "as an array (height, width, 3)"
        ) from error
    try:
        with Image.open(path) as picture:
            return _decoded(picture, str(path))
    except Image.DecompressionBombError as error:
        raise UsageError(f"{path} is larger than Pillow reads: {error}") from error
    except OSError as error:
        raise UsageError(f"{path} cannot be read as a picture: {error}") from error


def _decoded(picture: Image.Image, name: str) -> Pixels:
    from PIL import ImageOps

    try:
        turned = ImageOps.exif_transpose(picture)
        transparent = turned.info.get("transparency")
        if turned.mode.startswith("I;16"):
            return rgb(_narrowed(np.asarray(turned), transparent))
        if turned.mode in ("I", "F"):
            raise UsageError(
                f"{name} has points of 32 bits, whose range is unknown: scale them to 0..255 and give an array (uint8)"
            )
        alpha = transparent is not None or {"A", "a"} & {*turned.getbands()}
        return rgb(np.asarray(turned.convert("RGBA" if alpha else "RGB")))
    except DAMAGED as error:
        raise UsageError(f"{name} cannot be decoded: {error}") from error


DAMAGED: tuple[Any, ...] = (OSError, SyntaxError, ValueError, EOFError, IndexError, KeyError, TypeError, struct.error)
"""What Pillow raises for damaged files."""


def _narrowed(grey: np.ndarray, transparent: int | None) -> Pixels:
    """16 bits as 8, to the nearest. One of the values may be transparent."""
    narrow = np.asarray((grey.astype(np.uint32) * 255 + 32767) // 65535, np.uint8)
    return narrow if transparent is None else np.where(grey == transparent, np.uint8(255), narrow)
