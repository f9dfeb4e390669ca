"""Signs an APK, and reads the signature back."""

from __future__ import annotations

import os
from pathlib import Path

from apps.android.steps.manifest import LEAST
from apps.android.steps.running import run
from apps.android.steps.tools import path_of
from deploykit.errors import UsageError

STORE_VARIABLE = "DEPLOYKIT_KEY_PASSWORD"
"""The environment variable with the password of a key store that the user gives."""

ALIAS = "app"
"""The name of the key in the store of this machine, and by default in that of the user."""

_OWN = "of this machine"


def key_of_this_machine(folder: Path) -> Path:
    """A key store in `folder`, made at first use. Stores want a key of the app's maker instead."""
    path = folder / "local.keystore"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        call: list[str | Path] = [
            path_of("keytool"),
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


def _password(key: Path, *, own: bool) -> dict[str, str]:
    password = _OWN if own else os.environ.get(STORE_VARIABLE)
    if password is None:
        raise UsageError(f"the password of {key} is missing: set {STORE_VARIABLE}")
    return {STORE_VARIABLE: password}


def sign(unsigned: Path, signed: Path, key: Path, *, own: bool) -> str:
    """Write the signed APK. `own`: the key is that of this machine. Returns what apksigner says of it."""
    call: list[str | Path] = [path_of("apksigner"), "sign", "--ks", key, "--ks-pass", f"env:{STORE_VARIABLE}"]
    call += ["--min-sdk-version", str(LEAST), "--v1-signing-enabled", "false", "--v4-signing-enabled", "false"]
    run("apksigner", [*call, "--out", signed, unsigned], _password(key, own=own))
    return run("apksigner", [path_of("apksigner"), "verify", "-v", "--min-sdk-version", str(LEAST), signed])


def sign_bundle(bundle: Path, key: Path, alias: str, *, own: bool) -> None:
    """Sign a bundle in its place, with the key of this name."""
    call: list[str | Path] = [path_of("jarsigner"), "-keystore", key, "-storepass:env", STORE_VARIABLE, bundle, alias]
    run("jarsigner", call, _password(key, own=own))
