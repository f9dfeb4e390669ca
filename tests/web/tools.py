"""Tools in JavaScript: those of `package.json` at the root of the repository, and the large ones of `npm/package.json`
beside this file. `make packages` installs both."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LARGE = Path(__file__).parent / "npm"

ENVIRONMENT = os.environ | {
    "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    "NO_COLOR": "1",
    "NEXT_TELEMETRY_DISABLED": "1",
    "npm_config_audit": "false",
    "npm_config_fund": "false",
    "npm_config_offline": "true",
}
"""The environment of tools. The `node` next to this Python is preferred, if there is one."""


def installed(name: str) -> Path:
    """The folder of an npm package, or a file in it. Skips the test if it is not installed."""
    for place in (ROOT, LARGE):
        if (found := place / "node_modules" / name).exists():
            return found
    pytest.skip(f"needs {name}: make packages")


def run_tool(name: str, *arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a tool in `folder`. Skips the test if the tool is not installed."""
    return run(str(installed(f".bin/{name}")), *arguments, folder=folder)


def run(*call: str, folder: Path, timeout: float = 120) -> subprocess.CompletedProcess[str]:
    """Run a program in `folder`, with the environment of tools."""
    return subprocess.run(
        call, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, check=False, timeout=timeout
    )


def npm(*arguments: str, folder: Path) -> str:
    """What npm prints. Skips the test if there is no npm."""
    program = shutil.which("npm", path=ENVIRONMENT["PATH"])
    if program is None:
        pytest.skip("needs npm")
    result = run(program, *arguments, folder=folder)
    assert result.returncode == 0, result.stderr
    return result.stdout
