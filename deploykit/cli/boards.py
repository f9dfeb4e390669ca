"""`deploykit boards`: the boards that sources can be made for."""

from __future__ import annotations

from deploykit.cli.console import print_json, results, table
from deploykit.cli.options import Json
from deploykit.cli.verb import verb


@verb
def boards(*, json_output: Json = False) -> None:
    """List the boards for build --board, with their cores and memories, and what emulates a core here."""
    from deploykit.targets.embedded.boards import board_names, find_board

    found = [find_board(name) for name in board_names()]
    if json_output:
        print_json([board.model_dump(mode="json") for board in found])
        return
    rows = table("board", "what it is", "core", ">MHz", ">flash, bytes", ">RAM, bytes", "emulated by")
    for board in found:
        emulator = board.core.emulator
        rows.add_row(
            board.name,
            board.title,
            board.core.name,
            f"{board.clock_hz / 1e6:g}",
            f"{board.flash.bytes:,}",
            f"{board.ram.bytes:,}",
            "" if emulator is None else emulator.machine,
        )
    results.print(rows)
