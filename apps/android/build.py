"""Builds the sample app for Android: a signed APK, without Android's SDK and Gradle.

    python -m apps.android.build [--abi ABI,... | --models DIR] [--debug] [--aab] [--key STORE] [--output DIR]
    python -m apps.android.build --fetch [all]

`--fetch` loads the archives that `archives.toml` lists, once; with `all` also those that only some tests and sizes are
compared with. Without it nothing is loaded.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from apps.android.steps import archives
from apps.android.steps.bundle import write_bundle
from apps.android.steps.dex import dex
from apps.android.steps.models import ROOT
from apps.android.steps.parts import Parts, compile_parts
from apps.android.steps.signing import ALIAS, key_of_this_machine, sign, sign_bundle
from apps.android.steps.sizes import Row, downloads, table
from apps.android.steps.zips import entries_of, write_aligned
from deploykit.basics.scratch import Scratch
from deploykit.errors import DeploykitError

RULES = Path(__file__).parent / "app" / "rules.pro"
OUTPUT = ROOT / "build" / "android-app"


def entries(parts: Parts, scratch: Path) -> dict[str, bytes]:
    """The entries of the APK: resources, code, the libraries and assets of the AARs."""
    tools = archives.find_tools()
    rules = [RULES, parts.rules, *(library / "proguard.txt" for library in parts.libraries)]
    code = dex(tools.r8, parts.classes, parts.jars, tools.framework, rules, scratch)
    return {**entries_of(parts.base), "classes.dex": code.read_bytes(), **parts.natives(), **parts.assets()}


@dataclass(frozen=True)
class Built:
    """An APK, and of an app bundle beside it what a phone of each ABI loads from a store."""

    apk: Path
    downloads: Row | None


def build(
    output: Path,
    abis: Sequence[str] | None = None,
    key: Path | None = None,
    *,
    debug: bool = False,
    bundle: bool = False,
    models: Path | None = None,
) -> Built:
    """Write the APK into the folder `output`, and with `bundle` an app bundle beside it, signed with a key store of the
    user or of this machine. `models` has AARs that were built before.

    Raises `DeploykitError`, which names the tool."""
    output.mkdir(parents=True, exist_ok=True)
    apk, unsigned, aab = output / "deploykit.apk", output / "deploykit-unsigned.apk", output / "deploykit.aab"
    store = key or key_of_this_machine(archives.folder())
    loaded = None
    with Scratch() as place:
        scratch = Path(place)
        parts = compile_parts(abis, scratch, output, debug=debug, made=models)
        found = entries(parts, scratch)
        write_aligned(unsigned, found)
        if bundle:
            write_bundle(parts.aapt2, parts.base, found, aab, scratch)
            sign_bundle(aab, store, ALIAS, own=key is None)
            loaded = downloads(aab, parts.aapt2, scratch)
    sign(unsigned, apk, store, own=key is None)
    return Built(apk, loaded)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--abi", help="ABIs, separated by commas; by default all")
    which.add_argument("--models", type=Path, help="a folder with AARs that were built before, which are taken")
    parser.add_argument("--debug", action="store_true", help="an app that a debugger may look into")
    parser.add_argument("--aab", action="store_true", help="also an app bundle, for a store")
    parser.add_argument("--key", type=Path, help="a key store; by default one of this machine is made")
    parser.add_argument("--output", type=Path, default=OUTPUT, help="the folder for the APK")
    usual = (archives.BUILD, archives.KOTLIN, archives.BUNDLE, archives.TESTS)
    fetched = {"usual": usual, "all": (*usual, archives.FURTHER)}
    parser.add_argument(
        "--fetch", nargs="?", const="usual", choices=fetched, help="load the archives that are missing, and end"
    )
    chosen = parser.parse_args()
    start = time.monotonic()
    try:
        if chosen.fetch:
            files = archives.fetch(*fetched[chosen.fetch])
            print(f"{len(files)} archives are in {archives.folder()}")
            return 0
        abis = chosen.abi and chosen.abi.split(",")
        own = {"debug": chosen.debug, "bundle": chosen.aab, "models": chosen.models}
        made = build(chosen.output, abis, chosen.key, **own)
    except DeploykitError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    print(table(made.apk, made.downloads))
    print(f"{made.apk}, in {time.monotonic() - start:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
