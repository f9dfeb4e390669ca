"""Strings as they are stored in memory: an int64 per string, `offset + (length << 32)`, and a block of UTF-8 bytes.

An element may be a `str` or `bytes`; equal ones share their bytes.
"""

from __future__ import annotations

import numpy as np

from deploykit.errors import ShapeError

_LENGTH = 32
_MOST = 1 << 32
_LETTERS = (*"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 ", "ø", "日")


def encode(array: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The spans, in the shape of `array`, and the bytes. Raises `ShapeError` for an element that is not text."""
    places: dict[bytes, int] = {}
    parts: list[bytes] = []
    total = 0
    spans = np.empty(array.shape, np.int64)
    flat = spans.reshape(-1)
    for i, element in enumerate(array.reshape(-1).tolist()):
        if not isinstance(element, str | bytes):
            raise ShapeError(f"an element is {element!r}, a {type(element).__name__}, where a string is expected")
        data = element.encode("utf-8", "surrogatepass") if isinstance(element, str) else element
        if data not in places:
            places[data] = total + (len(data) << _LENGTH)
            parts.append(data)
            total += len(data)
        flat[i] = places[data]
    if total >= _MOST:
        raise ShapeError(f"strings of {total} bytes in one tensor; at most {_MOST - 1} are possible")
    return spans, np.frombuffer(b"".join(parts), np.uint8)


def random_strings(generator: np.random.Generator, shape: tuple[int, ...], size: int) -> np.ndarray:
    """Random strings with `size` bytes in total. Strings may be empty; letters have one to three bytes."""
    letters = [_LETTERS[i] for i in generator.integers(0, len(_LETTERS), size)]
    widths = np.cumsum([len(letter.encode()) for letter in letters], dtype=np.int64)
    fitting = int(np.searchsorted(widths, size, "right"))
    text = "".join(letters[:fitting]).ljust(fitting + size - int(widths[fitting - 1] if fitting else 0), "x")
    result = np.empty(shape, object)
    cuts = np.sort(generator.integers(0, len(text) + 1, max(0, result.size - 1))).tolist()
    flat = result.reshape(-1)
    for i, (begin, end) in enumerate(zip([0, *cuts], [*cuts, len(text)], strict=True)):
        if i < result.size:
            flat[i] = text[begin:end]
    return result


def decode(spans: np.ndarray, data: np.ndarray) -> np.ndarray:
    """An array of `str` from spans and bytes. Bytes that are not UTF-8 become the replacement character."""
    memory = data.tobytes()
    result = np.empty(spans.shape, object)
    flat = result.reshape(-1)
    for i, span in enumerate(spans.reshape(-1).tolist()):
        begin = span & (_MOST - 1)
        flat[i] = memory[begin : begin + (span >> _LENGTH)].decode("utf-8", "replace")
    return result
