"""Work in a process of its own, which it may crash, and which may be ended."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.connection import Connection


def apart(work: Callable[[], object], limit: float | None = None) -> object:
    """The result of `work`, or as a text the reason why there is none: its exception, the end of the process, or that
    it takes longer than `limit` seconds. Whatever it started ends with it."""
    spawn = get_context("spawn")
    receiver, sender = spawn.Pipe(duplex=False)
    process = spawn.Process(target=_run, args=(work, sender))
    process.start()
    assert process.pid is not None
    sender.close()
    try:
        if limit is not None and not receiver.poll(limit):
            os.killpg(process.pid, signal.SIGKILL)
            return f"no result within {limit:.0f} s"
        return receiver.recv()
    except EOFError:
        return "the process ended"
    finally:
        process.join()
        receiver.close()


def _run(work: Callable[[], object], sender: Connection) -> None:
    os.setpgid(0, 0)
    try:
        result = work()
    except Exception as error:  # noqa: BLE001 - the caller gets the reason
        result = str(error) or type(error).__name__
    sender.send(result)
