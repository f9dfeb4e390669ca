"""The text of a conversation, as `runtime/language/template.c` makes it with a program."""

from __future__ import annotations

import ctypes
import json
import time
from collections.abc import Mapping
from typing import Any

from deploykit.errors import UsageError
from deploykit.language.library import CRendering, library

OK, BUFFER, ARENA = 0, 3, 4


def rendered(
    program: bytes, given: Mapping[str, Any], now: int | None = None, functions: ctypes.CDLL | None = None
) -> str:
    """The text of what is given: `messages`, `tools`, and whatever else the template knows. The time is that of the
    local clock, or `now`, in seconds since 1970. Raises `UsageError` for what the template refuses."""
    try:
        text = json.dumps(given, ensure_ascii=False, allow_nan=False).encode("utf-8", "surrogatepass")
    except (TypeError, ValueError) as error:
        raise UsageError(f"these messages are no JSON: {error}") from error
    clock = int(time.time()) + time.localtime().tm_gmtoff if now is None else now
    room = 4 * len(text) + 65536
    while True:
        out, workspace = ctypes.create_string_buffer(room), ctypes.create_string_buffer(16 * room)
        call = CRendering(program, len(program), text, len(text), None, 0, clock)
        call.workspace, call.workspace_bytes = ctypes.addressof(workspace), len(workspace)
        call.text, call.capacity = ctypes.addressof(out), room
        status = (functions or library()).dk_render(ctypes.byref(call))
        if status == OK:
            return out.raw[: call.bytes].decode("utf-8", "surrogatepass")
        if status not in (BUFFER, ARENA) or room > 1 << 26:
            raise UsageError(call.error.decode("utf-8", "replace"))
        room *= 4
