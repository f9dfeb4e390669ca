"""Memory and time of the processes of pages and of the GPU."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.apps.devtools import Page

PROCESSES = ("renderer", "GPU")
PAUSE = 0.003
"""Seconds between two looks at the memory."""
TICK = 0.01
"""Seconds between two values of a process's time."""


def own_memory(page: Page) -> dict[int, int]:
    """Bytes that processes have for themselves, in Linux. Chromium has some in reserve."""
    processes = page.of_browser("SystemInfo.getProcessInfo")["processInfo"]
    return {each["id"]: anonymous(each["id"]) for each in processes if each["type"] in PROCESSES}


def anonymous(process: int) -> int:
    """Bytes of memory of a process that are no files; 0 once it has ended."""
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return 0
    return sum(int(size) for size in re.findall(r"Rss(?:Anon|Shmem):\s+(\d+) kB", status)) * 1024


def grown(before: Mapping[int, int]) -> int:
    """Bytes that processes take beyond what they took before."""
    return sum(max(anonymous(process) - own, 0) for process, own in before.items())


@contextmanager
def peak(before: Mapping[int, int]) -> Iterator[list[int]]:
    """Looks at what processes take beyond what they took before; gives the most."""
    most = [0]
    done = threading.Event()

    def look() -> None:
        while not done.wait(PAUSE):
            most[0] = max(most[0], grown(before))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield most
    finally:
        done.set()
        thread.join()


def cpu_seconds(page: Page) -> float:
    """What the processes of pages and of the GPU have computed so far."""
    processes = page.of_browser("SystemInfo.getProcessInfo")["processInfo"]
    return float(sum(each["cpuTime"] for each in processes if each["type"] in PROCESSES))
