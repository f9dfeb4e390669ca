"""Runs a model on an emulated microcontroller, in a process of its own.

The image reads the command and the request from files of this machine, and writes its reply to one (semihosting).
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from deploykit.basics.scratch import Scratch
from deploykit.engines.native.process import Process
from deploykit.errors import DeploykitError

SECONDS = 600
"""How long a run may take before it counts as one that hangs."""


class Semihosted(Process):
    """The model in an image that the launcher of a `Build` starts. Arguments are those of `Process`."""

    def _call(self, arguments: list[str], request: bytes) -> bytes:
        with Scratch() as folder:
            place = Path(folder)
            (place / "command").write_text("\n".join(["runner", *arguments]), encoding="utf-8")
            (place / "request").write_bytes(request)
            try:
                result = subprocess.run(
                    self._command,
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    check=False,
                    cwd=place,
                    timeout=SECONDS,
                )
            except subprocess.TimeoutExpired as error:
                raise DeploykitError(
                    f"the model '{self._manifest.name}' did not answer within {SECONDS} seconds in the emulator"
                ) from error
            self._require(result)
            return (place / "reply").read_bytes()
