"""The command line. Each verb (`build`, `run`, ...) has a module; `verb` holds what they have in common.

No module imports the compiler before a verb needs it, so that `--help` answers at once.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Annotated

import typer

from deploykit.basics.installation import installed_version
from deploykit.cli.bench import bench
from deploykit.cli.boards import boards
from deploykit.cli.build import build
from deploykit.cli.chat import chat
from deploykit.cli.doctor import doctor
from deploykit.cli.frontends import frontends
from deploykit.cli.inspect import inspect
from deploykit.cli.quantize import quantize
from deploykit.cli.run import run
from deploykit.cli.targets import targets
from deploykit.cli.trying import try_
from deploykit.cli.verb import leave, stop_on_signals
from deploykit.cli.verify import verify

app = typer.Typer(
    name="deploykit",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 done, 1 results differ, 2 wrong use, 3 unsupported model, 4 missing tool, "
    "70 a defect of deploykit.",
)
for _verb in (build, quantize, run, chat, try_, verify, bench, inspect, targets, boards, frontends, doctor):
    app.command(_verb.__name__.rstrip("_"))(_verb)


def _version(value: bool) -> None:
    if value:
        typer.echo(f"deploykit {installed_version()}")
        raise typer.Exit


@app.callback()
def deploykit(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.", show_default=False)
    ] = False,
) -> None:
    """Compile a model to a folder that runs without Python: a native library or plain C."""


def main() -> None:
    """The entry point of the `deploykit` command."""
    stop_on_signals()
    try:
        try:
            app()
        finally:
            sys.stdout.flush()
    except BrokenPipeError:  # the reader of the output, such as `head`, closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(128 + signal.SIGPIPE)
    except SystemExit as done:
        leave(done.code)
        raise
