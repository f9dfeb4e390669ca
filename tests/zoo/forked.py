"""Runs work in a forked process with limits on time and memory, so that modules are imported only once."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Limits:
    """Limits of a process. `bytes`: of data; `None` is no limit."""

    seconds: int = 300
    bytes: int | None = 6 << 30


def run(work: Callable[[], dict[str, Any]], log: Path, limits: Limits) -> dict[str, Any]:
    """The result of `work`, or `{"error": ..., "kind": ...}`. Its output goes to `log`.

    Kinds of errors are the type of an exception, `Timeout`, and `Killed` (by a signal).
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    result = log.with_suffix(".result")
    result.unlink(missing_ok=True)
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        _child(work, log, result, limits)
    killed = _wait(child, limits.seconds)
    if result.exists():
        found: dict[str, Any] = json.loads(result.read_text())
        result.unlink()
        return found
    if killed == "timeout":
        return {"kind": "Timeout", "error": f"took longer than {limits.seconds} s"}
    return {"kind": "Killed", "error": f"ended by {killed}; see {log}"}


def _wait(child: int, seconds: float) -> str:
    """How the child process ended: `exit`, `timeout` or the name of a signal. Processes that it started are ended,
    too."""
    deadline = time.monotonic() + seconds
    ended = 0
    while ended == 0 and time.monotonic() < deadline:
        time.sleep(0.05)
        ended, status = os.waitpid(child, os.WNOHANG)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)
    if ended == 0:
        os.waitpid(child, 0)
        return "timeout"
    return signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else "exit"


def _child(work: Callable[[], dict[str, Any]], log: Path, result: Path, limits: Limits) -> None:
    os.setsid()
    file = log.open("w", buffering=1, errors="replace")
    os.dup2(file.fileno(), 1)
    os.dup2(file.fileno(), 2)
    sys.stdout = sys.stderr = file
    if limits.bytes is not None:
        resource.setrlimit(resource.RLIMIT_DATA, (limits.bytes, limits.bytes))
    try:
        found = work()
    except BaseException as error:  # noqa: BLE001  every failure is a result here
        traceback.print_exc()
        found = {"kind": type(error).__name__, "error": str(error).strip()[:2000], "trace": _place(error)}
    scratch = result.with_suffix(".part")
    scratch.write_text(json.dumps(found))
    scratch.rename(result)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _place(error: BaseException) -> str:
    """The innermost lines of the traceback."""
    frames = traceback.extract_tb(error.__traceback__)[-4:]
    return " < ".join(f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in reversed(frames))
