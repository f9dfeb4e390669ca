"""`deploykit doctor`: which tools are installed, and how to install the others."""

from __future__ import annotations

from dataclasses import asdict

import typer

from deploykit.cli.console import doubtful, good, messages, print_json, results, table
from deploykit.cli.options import Json
from deploykit.cli.verb import verb
from deploykit.errors import ToolchainError


@verb
def doctor(*, json_output: Json = False) -> None:
    """Look for every tool that deploykit can use: found or not, version, what it is for, how to install it.

    Exit code 4 when a tool that every build needs is missing.
    """
    from deploykit.doctor import diagnose

    diagnosis = diagnose()
    if json_output:
        print_json({"tools": [asdict(f) for f in diagnosis.findings], "missing": diagnosis.missing})
        raise typer.Exit(ToolchainError.exit_code if diagnosis.missing else 0)
    rows = table("", "tool", "version", "what for", "where, or how to install")
    for finding in diagnosis.findings:
        mark = good("found") if finding.found else doubtful("absent")
        rows.add_row(mark, finding.name, finding.version or "", finding.purpose, finding.path or finding.install)
    results.print(rows)
    if diagnosis.missing:
        raise ToolchainError(f"missing: {', '.join(diagnosis.missing)}. Install one of the tools listed for it.")
    messages.print("Everything that a build needs is here.")
