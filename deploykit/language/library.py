"""The runtime's `language.h` through ctypes."""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path

from deploykit import runtime
from deploykit.engines.native.kept_library import kept_library, library_with


class CPages(ctypes.Structure):
    """`dk_pages`."""

    _fields_ = (
        *((name, ctypes.c_int32) for name in ("count", "sequences", "blocks", "size", "window", "whole")),
        ("unused", ctypes.c_int32),
        *((name, ctypes.c_void_p) for name in ("table", "lengths", "first", "holders")),
    )


class CBias(ctypes.Structure):
    """`dk_bias`."""

    _fields_ = (("token", ctypes.c_int32), ("value", ctypes.c_float))


class CSampling(ctypes.Structure):
    """`dk_sampling`."""

    _fields_ = (
        ("temperature", ctypes.c_float),
        ("top_k", ctypes.c_int32),
        *((name, ctypes.c_float) for name in ("typical_p", "top_p", "min_p")),
        *((name, ctypes.c_float) for name in ("repetition_penalty", "presence_penalty", "frequency_penalty")),
        ("penalty_last", ctypes.c_int32),
        ("bias_count", ctypes.c_int32),
        ("biases", ctypes.c_void_p),
    )


class CChoice(ctypes.Structure):
    """`dk_choice`."""

    _fields_ = (("token", ctypes.c_int32), ("logprob", ctypes.c_float))


class CStops(ctypes.Structure):
    """`dk_stops`."""

    _fields_ = (
        ("texts", ctypes.c_void_p),
        ("lengths", ctypes.c_void_p),
        ("count", ctypes.c_int32),
        ("held", ctypes.c_void_p),
        ("held_bytes", ctypes.c_size_t),
    )


class CCaches(ctypes.Structure):
    """`dk_caches`."""

    _fields_ = (
        ("states", ctypes.c_void_p),
        ("page_bytes", ctypes.c_void_p),
        ("build", ctypes.c_char_p),
        ("count", ctypes.c_int32),
    )


class CSaved(ctypes.Structure):
    """`dk_saved`."""

    _fields_ = (
        *((name, ctypes.c_int32) for name in ("count", "read", "first")),
        ("tokens", ctypes.c_void_p),
        ("note", ctypes.c_void_p),
        ("note_bytes", ctypes.c_size_t),
        ("pages", ctypes.c_void_p),
    )


class CRendering(ctypes.Structure):
    """`dk_rendering`."""

    _fields_ = (
        ("program", ctypes.c_char_p),
        ("program_bytes", ctypes.c_size_t),
        ("json", ctypes.c_char_p),
        ("json_bytes", ctypes.c_size_t),
        ("messages", ctypes.c_void_p),
        ("count", ctypes.c_size_t),
        ("now", ctypes.c_int64),
        ("workspace", ctypes.c_void_p),
        ("workspace_bytes", ctypes.c_size_t),
        ("text", ctypes.c_void_p),
        ("capacity", ctypes.c_size_t),
        ("bytes", ctypes.c_size_t),
        ("error", ctypes.c_char_p),
    )


@cache
def library() -> ctypes.CDLL:
    """The library that was compiled for Python. Raises `ToolchainError` if it never was, and there is no C compiler."""
    return _declared(kept_library("language", runtime.LANGUAGE))


def library_of(folder: Path) -> ctypes.CDLL:
    """The library of an artifact, if it runs on this machine and has these functions; else that for Python."""
    found = library_with(folder, "dk_render")
    return library() if found is None else _declared(found)


def _declared(found: ctypes.CDLL) -> ctypes.CDLL:
    """The library with the types of its functions."""
    place, number, size = ctypes.c_void_p, ctypes.c_int32, ctypes.c_size_t
    for name, result, *arguments in (
        ("dk_pages_bytes", size, number, number, number),
        ("dk_pages_open", None, place, place),
        ("dk_pages_begin", number, place),
        ("dk_pages_fork", number, place, number, number),
        ("dk_pages_reserve", ctypes.c_bool, place, number, number),
        ("dk_pages_append", None, place, number, number),
        ("dk_pages_cut", None, place, number, number),
        ("dk_pages_fail", None, place, number),
        ("dk_pages_end", None, place, number),
        ("dk_saved_bytes", size, place, number, number, place, size),
        ("dk_save", None, place, number, place, number, place, ctypes.c_char_p, size, place),
        ("dk_saved_open", ctypes.c_int, place, place, place, number, ctypes.c_char_p, size),
        ("dk_restore", ctypes.c_bool, place, place, number, place),
        ("dk_sampling_fault", ctypes.c_char_p, place),
        ("dk_sample_bytes", size, number),
        ("dk_sample", ctypes.c_int, place, place, number, place, number, place, place, place),
        ("dk_probabilities", ctypes.c_int, place, place, number, place, number, place, place),
        ("dk_confirm", ctypes.c_int, place, place, number, place, number, number, place, place, place, place),
        ("dk_log_sum", ctypes.c_double, place, number),
        ("dk_render", ctypes.c_int, place),
        ("dk_stops_add", ctypes.c_bool, place, place, size, place, place),
    ):
        function = getattr(found, str(name))
        function.restype, function.argtypes = result, arguments
    return found
