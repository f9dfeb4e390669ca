"""`deploykit doctor`: which tools are installed, and how to install the others."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from deploykit.basics.caches import MOST_BYTES, compiled_files, compiled_folder
from deploykit.cli.console import doubtful, good, messages, print_json, results, table, text_bytes
from deploykit.cli.options import Json
from deploykit.cli.verb import verb
from deploykit.errors import ToolchainError

if TYPE_CHECKING:
    from deploykit.engines.native.adapters import Adapter


@verb
def doctor(
    *,
    app: Annotated[
        bool, typer.Option("--app", help="Look for the tools and archives of the sample app for Android instead.")
    ] = False,
    json_output: Json = False,
) -> None:
    """Look for every tool that deploykit can use, and for GPUs. A tool is found or not; the list says its version, what
    it is for, and how to install it.

    Exit code 4 when a tool that every build needs is missing.
    """
    from deploykit.doctor import app_tools, diagnose

    diagnosis = diagnose(app_tools() if app else None)
    files = compiled_files()
    folder, total = compiled_folder(), sum(size for _, size, _ in files)
    gpus, absent = ([], {}) if app else _gpus()
    if json_output:
        tools = [asdict(f) for f in diagnosis.findings]
        cache = {"folder": str(folder or ""), "files": len(files), "bytes": total}
        print_json(
            {"tools": tools, "missing": diagnosis.missing, "gpus": [asdict(gpu) for gpu in gpus], "cache": cache}
        )
        raise typer.Exit(ToolchainError.exit_code if diagnosis.missing else 0)
    rows = table("", "tool", "version", "what for", "where, or how to install")
    for finding in diagnosis.findings:
        mark = good("found") if finding.found else doubtful("absent")
        rows.add_row(mark, finding.name, finding.version or "", finding.purpose, finding.path or finding.install)
    results.print(rows)
    if gpus:
        found = table("device", "GPU", "kind", "driver", "forms of kernels", "memory", "largest tensor")
        for gpu in gpus:
            forms = ", ".join(gpu.features) or "plain"
            sizes = (text_bytes(gpu.memory_bytes), text_bytes(gpu.binding_bytes))
            usable = (forms, *sizes) if gpu.unusable is None else (doubtful(gpu.unusable), "", "")
            found.add_row(f"{gpu.device}:{gpu.number}", gpu.name, gpu.kind, gpu.driver, *usable)
        results.print(found)
    if not app and folder is not None:
        held = f"{len(files)} files, {text_bytes(total)} of at most {text_bytes(MOST_BYTES)}"
        results.print(f"What compilers made for earlier builds is kept in {folder}: {held}", soft_wrap=True)
    for device, reason in absent.items():
        messages.print(f"{device}: {reason}")
    if diagnosis.missing:
        raise ToolchainError(f"missing: {', '.join(diagnosis.missing)}. Install one of the tools listed for it.")
    messages.print(f"Everything that a build{' of the app' if app else ''} needs is here.")


def _gpus() -> tuple[list[Adapter], dict[str, str]]:
    """The GPUs under each driver, and why drivers find none."""
    from deploykit.artifact.devices import CODE
    from deploykit.engines.native.adapters import adapters, why_none

    try:
        found = {driver: adapters(driver) for driver in CODE}
        return [gpu for each in found.values() for gpu in each], {
            d: why_none(d) for d, each in found.items() if not each
        }
    except ToolchainError as error:
        return [], dict.fromkeys(CODE, str(error))
