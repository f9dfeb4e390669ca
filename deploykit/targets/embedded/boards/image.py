"""Images of an artifact for the emulator of a board's core."""

from __future__ import annotations

import shutil
from pathlib import Path

from deploykit.basics.toolchain import Compiler, find_bare_compiler
from deploykit.engines.native.process import Build
from deploykit.errors import ToolchainError
from deploykit.targets.embedded.boards import STARTS, Board, Core, Emulator, Region

PICOLIBC = ("--specs=picolibc.specs",)
SEMIHOSTING = ("--oslib=semihost", "--crt0=hosted")
CONSOLE = ("-chardev", "stdio,id=console", "-semihosting-config", "enable=on,target=native,chardev=console")
LAUNCHED = ("-nographic", "-monitor", "none", "-serial", "none", *CONSOLE)


def compiler_for(core: Core) -> Compiler:
    """The compiler for a core, with its flags. Raises `ToolchainError` if it is not installed."""
    return find_bare_compiler(core.compiler, core.flags, core.link)


def start_of(core: Core) -> tuple[Path, ...]:
    """The C files that start a core, to be linked with a program."""
    return () if core.start is None else (STARTS / core.start,)


def emulated_build(board: Board) -> Build:
    """A build whose images run in the emulator of the board's core. Raises `ToolchainError` if there is none, or if a
    tool for it is not installed."""
    emulator = board.core.emulator
    if emulator is None:
        raise ToolchainError(f"there is no emulator for the board '{board.name}' ({board.core.title})")
    if shutil.which(emulator.program) is None:
        package = "qemu-system-arm" if emulator.program == "qemu-system-arm" else "qemu-system-misc"
        raise ToolchainError(f"{emulator.program} is not installed (Debian: `apt-get install {package}`)")
    return Build(
        compiler_for(board.core),
        (*PICOLIBC, "-O2", "-ffunction-sections", "-fdata-sections", "-DDK_SEMIHOSTING"),
        link=(
            *map(str, start_of(board.core)),
            *SEMIHOSTING,
            "-Wl,--gc-sections",
            *memory_of(emulator.flash, emulator.ram),
        ),
        launcher=launcher(emulator),
    )


def missing(board: Board) -> str | None:
    """Why images do not run in the emulator of the board's core here, or `None`."""
    try:
        emulated_build(board)
    except ToolchainError as error:
        return str(error)
    return None


def memory_of(flash: Region, ram: Region) -> tuple[str, ...]:
    """Options that tell picolibc's linker script where memories are."""
    places = {
        "__flash": flash.origin,
        "__flash_size": flash.bytes,
        "__ram": ram.origin,
        "__ram_size": ram.bytes,
    }
    return tuple(f"-Wl,--defsym={name}={value:#x}" for name, value in places.items())


def launcher(emulator: Emulator) -> tuple[str, ...]:
    """The command that starts an image, whose path follows."""
    return (emulator.program, "-M", emulator.machine, *emulator.options, *LAUNCHED, "-kernel")
