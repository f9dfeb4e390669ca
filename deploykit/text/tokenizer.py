"""The runtime's tokenizer through ctypes.

The library of an artifact for this machine has it. For other artifacts its sources are compiled once
(`engines.native.kept_library`).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from deploykit import runtime
from deploykit.basics.parallel import processors
from deploykit.engines.lanes import Lanes
from deploykit.engines.native.kept_library import kept_library, library_with
from deploykit.errors import ArtifactError, UsageError

_OK, _CAPACITY = 0, 5
_TABLES = 24
CUTS = ("longest_first", "only_first", "only_second")


class _Text(ctypes.Structure):
    """`dk_text`."""

    _fields_ = (
        ("table", ctypes.c_void_p * _TABLES),
        ("count", ctypes.c_uint32 * _TABLES),
        ("need", ctypes.c_size_t),
        ("error", ctypes.c_char * 256),
    )


class _Input(ctypes.Structure):
    """`dk_text_input`."""

    _fields_ = (
        ("first", ctypes.c_char_p),
        ("first_bytes", ctypes.c_size_t),
        ("second", ctypes.c_char_p),
        ("second_bytes", ctypes.c_size_t),
        ("most", ctypes.c_int32),
        ("cut", ctypes.c_int),
        ("cut_left", ctypes.c_bool),
        ("bare", ctypes.c_bool),
    )


class _Tokens(ctypes.Structure):
    """`dk_text_tokens`."""

    _fields_ = (
        ("capacity", ctypes.c_int32),
        ("count", ctypes.c_int32),
        *((name, ctypes.c_void_p) for name in ("ids", "types", "bytes", "chars", "texts", "special")),
    )


class _Stream(ctypes.Structure):
    """`dk_text_stream`."""

    _fields_ = (
        ("bytes", ctypes.c_ubyte * 4),
        ("waiting", ctypes.c_uint32),
        ("stripped", ctypes.c_uint32),
        ("started", ctypes.c_bool),
    )


class _Ids(ctypes.Structure):
    """`dk_text_ids`."""

    _fields_ = (("ids", ctypes.c_void_p), ("count", ctypes.c_int32), ("skip_special", ctypes.c_bool))


@dataclass(frozen=True)
class Encoding:
    """The tokens of a text or of a pair; each array has a row for each token."""

    ids: NDArray[np.int32]
    type_ids: NDArray[np.int32]
    """The segments of tokens, as BERT's models want them."""
    offsets: NDArray[np.int32]
    """Where each token begins and ends in its text, in characters."""
    byte_offsets: NDArray[np.int32]
    texts: NDArray[np.int8]
    """0 or 1: the text that a token is from; -1: it was added."""
    special_mask: NDArray[np.uint8]
    """1: the token was added."""


@cache
def _library() -> ctypes.CDLL:
    """Raises `ToolchainError` if there is no C compiler."""
    return _declared(kept_library("text", runtime.TEXT))


def _library_in(folder: Path) -> ctypes.CDLL | None:
    """The library of an artifact, if it runs on this machine and has the tokenizer."""
    found = library_with(folder, "dk_text_open")
    return None if found is None else _declared(found)


def _declared(loaded: ctypes.CDLL) -> ctypes.CDLL:
    """The library with the types of its functions."""
    loaded.dk_text_open.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
    loaded.dk_text_workspace.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    loaded.dk_text_workspace.restype = ctypes.c_size_t
    loaded.dk_text_limit.argtypes = (ctypes.c_void_p,)
    loaded.dk_text_encode.argtypes = (*(ctypes.c_void_p,) * 3, ctypes.c_size_t, ctypes.c_void_p)
    loaded.dk_text_decode.argtypes = (
        *(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_bool),
        *(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p),
    )
    return loaded


class _Tables:
    """Packed tables, and the memory of one thread to use them.

    Raises `ArtifactError` if the tables are damaged."""

    def __init__(self, tables: np.ndarray, library: ctypes.CDLL) -> None:
        """The tables start at a multiple of 8 bytes."""
        self._library = library
        self._tables = tables
        self._text = _Text()
        self._longest = 0
        self._arrays: dict[str, np.ndarray] = {}
        self._tokens = _Tokens()
        status = self._library.dk_text_open(ctypes.byref(self._text), tables.ctypes.data, tables.nbytes)
        if status != _OK:
            raise ArtifactError(self._text.error.decode())
        self._provide(512)
        self._make_room(256)

    def limit(self) -> int:
        return int(self._library.dk_text_limit(ctypes.byref(self._text)))

    def encode(self, given: _Input) -> Encoding:
        """Raises `UsageError` if the texts cannot be cut as they should."""
        self._provide(given.first_bytes + given.second_bytes)
        while True:
            status = self._library.dk_text_encode(
                ctypes.byref(self._text),
                ctypes.byref(given),
                *self._room,
                ctypes.byref(self._tokens),
            )
            if status != _CAPACITY:
                break
            self._make_room(self._tokens.count)
        if status != _OK:
            raise UsageError(self._text.error.decode())
        count = self._tokens.count
        arrays = {name: array[:count].copy() for name, array in self._arrays.items()}
        return Encoding(
            arrays["ids"], arrays["types"], arrays["chars"], arrays["bytes"], arrays["texts"], arrays["special"]
        )

    def decode(self, stream: _Stream, ids: _Ids, end: bool) -> bytes:
        written = ctypes.c_size_t()
        room = 64 + 8 * ids.count
        while True:
            text = ctypes.create_string_buffer(room)
            status = self._library.dk_text_decode(
                *map(ctypes.byref, (self._text, stream, ids)), end, text, room, ctypes.byref(written)
            )
            if status == _OK:
                return text.raw[: written.value]
            room = written.value

    def _provide(self, text_bytes: int) -> None:
        """A workspace for texts of so many bytes."""
        if text_bytes <= self._longest:
            return
        self._longest = 2 * text_bytes
        needed = self._library.dk_text_workspace(ctypes.byref(self._text), self._longest)
        self._workspace = np.empty(needed // 8 + 1, np.uint64)
        self._room = self._workspace.ctypes.data, self._workspace.nbytes

    def _make_room(self, capacity: int) -> None:
        """Arrays for so many tokens."""
        for name, columns, dtype in (
            *(("ids", (), np.int32), ("types", (), np.int32), ("bytes", (2,), np.int32), ("chars", (2,), np.int32)),
            *(("texts", (), np.int8), ("special", (), np.uint8)),
        ):
            self._arrays[name] = np.zeros((capacity, *columns), dtype)
            setattr(self._tokens, name, self._arrays[name].ctypes.data)
        self._tokens.capacity = capacity


class Tokenizer:
    """A tokenizer over packed tables, for any number of threads. `folder` is the artifact that they are from.

    Raises `ArtifactError` if the tables are damaged, and `ToolchainError` if there is no C compiler and the artifact
    has no library for this machine."""

    def __init__(self, tables: bytes, folder: Path | None = None) -> None:
        aligned = np.frombuffer(tables, np.uint8)
        if aligned.ctypes.data % 8:
            aligned = np.concatenate([np.zeros(8, np.uint8), aligned])[8:]
        library = (None if folder is None else _library_in(folder)) or _library()
        self._lanes = Lanes(lambda: _Tables(aligned, library), processors())

    @property
    def limit(self) -> int:
        """The most tokens that the model was made for; 0 if that is not known."""
        with self._lanes.one() as tables:
            return tables.limit()

    def encode(
        self,
        text: str | bytes,
        pair: str | bytes | None = None,
        *,
        most: int = 0,
        cut: str = "longest_first",
        cut_left: bool = False,
        bare: bool = False,
    ) -> Encoding:
        """Tokens of a text or of a pair. If there are more than `most` (0: no limit), texts are cut, by default the
        longest first; `bare` leaves special tokens out. Raises `UsageError` if they cannot be cut so."""
        first, second = _bytes(text), None if pair is None else _bytes(pair)
        given = _Input(
            first, len(first), second, len(second or b""), most, CUTS.index(cut), cut_left=cut_left, bare=bare
        )
        with self._lanes.one() as tables:
            return tables.encode(given)

    def decode(self, ids: Iterable[int], *, skip_special: bool = True) -> str:
        """The text of tokens. Those that the vocabulary does not have are left out."""
        return self.stream(skip_special=skip_special).end(ids)

    def stream(self, *, skip_special: bool = True) -> Stream:
        """Decodes tokens as they come, in one thread at a time."""
        return Stream(self._decode, skip_special=skip_special)

    def _decode(self, stream: _Stream, ids: _Ids, end: bool) -> bytes:
        with self._lanes.one() as tables:
            return tables.decode(stream, ids, end)


class Stream:
    """A text that is decoded token by token. What is not a whole character yet is held back."""

    def __init__(self, decode: Callable[[_Stream, _Ids, bool], bytes], *, skip_special: bool) -> None:
        self._decode = decode
        self._skip_special = skip_special
        self._state = _Stream()

    def add(self, ids: Iterable[int]) -> str:
        """The text that further tokens add."""
        return self._decoded(ids, end=False)

    def end(self, ids: Iterable[int] = ()) -> str:
        """The text that the last tokens add, and what is left: a character that is not whole is U+FFFD. The stream is
        then as new."""
        return self._decoded(ids, end=True)

    def _decoded(self, ids: Iterable[int], *, end: bool) -> str:
        array = np.fromiter(ids, np.int32)
        given = _Ids(array.ctypes.data, len(array), skip_special=self._skip_special)
        return self._decode(self._state, given, end).decode("utf-8", "surrogatepass")


def _bytes(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
