"""Texts that end an answer, as `runtime/language/stops.c` finds them."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from deploykit.errors import UsageError
from deploykit.language.library import CStops, library


class Stops:
    """Holds text back that may be the beginning of one of `texts`."""

    def __init__(self, texts: Sequence[str], functions: ctypes.CDLL | None = None) -> None:
        self._library = functions or library()
        if isinstance(texts, str):
            raise UsageError(f"stop takes a list of texts: pass [{texts!r:.40}]")
        self._bytes = [text.encode() for text in texts]
        if not all(self._bytes):
            raise UsageError("a text that ends an answer is empty")
        count = max(len(texts), 1)
        self._texts = (ctypes.c_char_p * count)(*self._bytes)
        self._lengths = (ctypes.c_size_t * count)(*map(len, self._bytes))
        self._room = ctypes.create_string_buffer(max(map(len, self._bytes), default=1))
        places = ctypes.addressof(self._texts), ctypes.addressof(self._lengths)
        self._stops = CStops(*places, len(texts), ctypes.addressof(self._room), 0)

    def add(self, text: str) -> tuple[str, bool]:
        """What can be shown after further text, and whether a stop was found."""
        given = text.encode("utf-8", "surrogatepass")
        shown = ctypes.create_string_buffer(len(given) + self._stops.held_bytes + 1)
        count = ctypes.c_size_t()
        found = self._library.dk_stops_add(
            *map(ctypes.byref, (self._stops,)), given, len(given), shown, ctypes.byref(count)
        )
        # A stop may begin with the last bytes of a character: never one of whole texts.
        return shown.raw[: count.value].decode("utf-8", "surrogatepass"), bool(found)

    def rest(self) -> str:
        """What was held back, when the text ends."""
        return self._room.raw[: self._stops.held_bytes].decode("utf-8", "surrogatepass")
