"""A page of headless Chromium, driven through the DevTools protocol over a pair of pipes.

Messages are JSON, each with a zero byte at its end (`--remote-debugging-pipe`; https://chromedevtools.github.io/devtools-protocol).
"""

from __future__ import annotations

import base64
import io
import json
import os
import re
import select
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from PIL import Image

from bench.browser import CHROMIUM_OPTIONS, find_chromium

PATIENCE = 60.0
"""Seconds to wait for a condition in the page, and by default for any answer of the browser."""

KEYS = {" ": ("Space", 32), "Escape": ("Escape", 27), "Backspace": ("Backspace", 8), "Tab": ("Tab", 9)}
KEYS |= {"/": ("Slash", 191), "Enter": ("Enter", 13)}
KEYS |= {name: (name, 37 + at) for at, name in enumerate(("ArrowLeft", "ArrowUp", "ArrowRight", "ArrowDown"))}
"""The code and the number of a key, by its name."""


class Page:
    """One tab. `events` are the messages that are not the answer to a command, `patience` the seconds to wait for any
    answer of the browser."""

    def __init__(self, commands: io.RawIOBase, answers: io.FileIO) -> None:
        self.patience = PATIENCE
        self.events: list[dict[str, Any]] = []
        self._commands, self._answers, self._received = commands, answers, b""
        self._session: str | None = None
        self._last = 0
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """The result of a command of the protocol."""
        self._last += 1
        message = {"id": self._last, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        self._commands.write(json.dumps(message).encode() + b"\0")
        while True:
            found = self._receive()
            if found.get("id") == self._last:
                if "error" in found:
                    raise RuntimeError(f"{method}: {found['error']['message']}")
                result: dict[str, Any] = found["result"]
                return result
            self.events.append(found)

    def _receive(self) -> dict[str, Any]:
        end = time.monotonic() + self.patience
        while b"\0" not in self._received:
            if not select.select([self._answers], [], [], max(0.0, end - time.monotonic()))[0]:
                raise TimeoutError(f"Chromium does not answer within {self.patience:.0f} s")
            data = self._answers.read(1 << 16)
            if not data:
                raise RuntimeError("Chromium has ended")
            self._received += data
        message, _, self._received = self._received.partition(b"\0")
        found: dict[str, Any] = json.loads(message)
        return found

    def open(self, address: str) -> None:
        self.call("Page.navigate", url=address)
        self.wait("document.readyState === 'complete'")

    def reload(self) -> None:
        self.evaluate("globalThis.isOld = true")
        self.call("Page.reload")
        self.wait("!globalThis.isOld && document.readyState === 'complete'")

    def evaluate(self, expression: str) -> Any:
        """The value of an expression, awaited."""
        found = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in found:
            raise RuntimeError(f"{expression}: {found['exceptionDetails']}")
        return found["result"].get("value")

    def wait(self, condition: str) -> Any:
        """The value of an expression once it is true. The page may still be loading."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            try:
                if found := self.evaluate(condition):
                    return found
            except RuntimeError as error:
                if not re.search("context|navigated", str(error)):
                    raise
            time.sleep(0.02)
        raise TimeoutError(f"not within {PATIENCE:.0f} s: {condition}")

    def errors(self) -> list[str]:
        """Uncaught exceptions, and the errors on the console."""
        thrown = [e["params"]["exceptionDetails"] for e in self.events if e.get("method") == "Runtime.exceptionThrown"]
        calls = [e["params"] for e in self.events if e.get("method") == "Runtime.consoleAPICalled"]
        return [str(each) for each in (*thrown, *(call["args"] for call in calls if call["type"] == "error"))]

    def mouse(self, points: Sequence[tuple[float, float]]) -> None:
        """Press at the first point, move over the others, release at the last; in pixels of the page."""
        self._mouse("mousePressed", *points[0], buttons=1)
        for point in points[1:]:
            self._mouse("mouseMoved", *point, buttons=1)
        self._mouse("mouseReleased", *points[-1], buttons=0)

    def _mouse(self, kind: str, x: float, y: float, buttons: int) -> None:
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=buttons, clickCount=1)

    def touch(self, points: Sequence[tuple[float, float]]) -> None:
        """As `mouse`, with a finger."""
        for index, (x, y) in enumerate(points):
            kind = "touchMove" if index else "touchStart"
            self.call("Input.dispatchTouchEvent", type=kind, touchPoints=[{"x": x, "y": y}])
        self.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])

    def key(self, *names: str) -> None:
        """Press keys, one after the other."""
        for name in names:
            code, number = KEYS[name]
            common = {"key": name, "code": code, "windowsVirtualKeyCode": number}
            text = {"text": name} if len(name) == 1 else {}
            self.call("Input.dispatchKeyEvent", type="keyDown", **common, **text)
            self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    def resize(self, width: int, height: int, *, phone: bool = False, dark: bool = False) -> None:
        """Set the size of the window in pixels. A `phone` has a touch screen and no mouse."""
        size = {"width": width, "height": height, "deviceScaleFactor": 2 if phone else 1, "mobile": phone}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        self.call("Emulation.setTouchEmulationEnabled", enabled=phone)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        still = {"name": "prefers-reduced-motion", "value": "reduce"}
        self.call("Emulation.setEmulatedMedia", features=[scheme, still])

    def crash_gpu(self) -> None:
        """End the process that drives the GPU, as a fault of a driver does."""
        self.of_browser("Browser.crashGpuProcess")

    def of_browser(self, method: str, **params: Any) -> dict[str, Any]:
        """The result of a command for the whole browser."""
        session, self._session = self._session, None
        try:
            return self.call(method, **params)
        finally:
            self._session = session

    def screenshot(self) -> Image.Image:
        data = self.call("Page.captureScreenshot", format="png")["data"]
        return Image.open(io.BytesIO(base64.b64decode(data))).convert("RGB")


@contextmanager
def chromium(*options: str, profile: Path | None = None) -> Iterator[Page]:
    """A page of a browser, with a profile of its own if it gets none."""
    program = find_chromium()
    assert program is not None
    to_browser, commands = os.pipe()
    answers, from_browser = os.pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as own:
        # The shell assigns the pipes to the file descriptors that Chromium expects.
        script = f'exec "$@" 3<&{to_browser} 4>&{from_browser}'
        call = [program, *CHROMIUM_OPTIONS, *options, "--remote-debugging-pipe", f"--user-data-dir={profile or own}"]
        process = subprocess.Popen(
            ["/bin/bash", "-c", script, "chromium", *call],
            pass_fds=(to_browser, from_browser),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        try:
            with os.fdopen(commands, "wb", buffering=0) as writing, os.fdopen(answers, "rb", buffering=0) as reading:
                yield Page(writing, reading)
        finally:
            process.terminate()
            process.wait()
