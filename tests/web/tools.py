"""Tools in JavaScript, in the versions of `package.json` at the root of the repository; `make packages` installs
them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run_tool(name: str, *arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a tool in `folder`. The `node` next to this Python is preferred, if there is one.

    Skips the test if the tool is not installed.
    """
    tool = ROOT / "node_modules" / ".bin" / name
    if not tool.exists():
        pytest.skip(f"needs {name}: make packages")
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    call = [str(tool), *arguments]
    return subprocess.run(call, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=120)
