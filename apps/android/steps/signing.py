"""Signs an APK, and reads the signature back."""

from __future__ import annotations

import os
from pathlib import Path

from apps.android.steps.manifest import LEAST
from apps.android.steps.running import run
from deploykit.errors import ToolchainError, UsageError

STORE_VARIABLE = "DEPLOYKIT_KEY_PASSWORD"
"""The environment variable with the password of a key store that the user gives."""

_OWN = "of this machine"


def key_of_this_machine(folder: Path) -> Path:
    """A key store in `folder`, made at first use. Stores want a key of the app's maker instead."""
    path = folder / "local.keystore"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        call: list[str | Path] = [
            "keytool",
            "-genkeypair",
            "-keystore",
            path,
            "-storepass",
            _OWN,
            "-alias",
            "app",
            "-keyalg",
            "RSA",
        ]
        run("keytool", [*call, "-keysize", "2048", "-validity", "10000", "-dname", "CN=deploykit sample app"])
    return path


def sign(unsigned: Path, signed: Path, key: Path, *, own: bool) -> str:
    """Write the signed APK. `own`: the key is that of this machine. Returns what apksigner says of it."""
    password = _OWN if own else os.environ.get(STORE_VARIABLE)
    if password is None:
        raise UsageError(f"the password of {key} is missing: set {STORE_VARIABLE}")
    os.environ[STORE_VARIABLE] = password
    call: list[str | Path] = [
        "apksigner",
        "sign",
        "--ks",
        key,
        "--ks-pass",
        f"env:{STORE_VARIABLE}",
        "--min-sdk-version",
        str(LEAST),
    ]
    try:
        run(
            "apksigner",
            [*call, "--v1-signing-enabled", "false", "--v4-signing-enabled", "false", "--out", signed, unsigned],
        )
        return run("apksigner", ["apksigner", "verify", "-v", "--min-sdk-version", str(LEAST), signed])
    except ToolchainError as error:
        hint = "" if "cannot be started" not in str(error) else " (`apt-get install apksigner`)"
        raise ToolchainError(f"{error}{hint}") from error
