"""Packages of npm that benchmarks compare with, in the folder of the benchmark's results."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from deploykit.cli.console import messages


def install(package: str, folder: Path) -> None:
    """Put a package, such as `name@1.2.3`, into `folder`, unless one of this name is there. Its scripts, which may
    download native libraries, do not run."""
    name = package[: package.rindex("@")]
    if (folder / "node_modules" / name).exists():
        return
    npm = shutil.which("npm")
    if npm is None:
        sys.exit(f"npm not found: it brings {name} (Debian: `apt-get install npm`)")
    messages.print(f"npm install {package}")
    subprocess.run([npm, "install", "--silent", "--ignore-scripts", "--prefix", folder, package], check=True)
