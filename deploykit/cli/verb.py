"""What all verbs have in common: `--debug`, and one exit code per kind of failure.

    0    done
    1    results differ
    2    wrong use: option, name, shape, path, artifact; or a file or memory is missing
    3    broken or unsupported model
    4    missing or failing tool
    70   a defect of deploykit (`EX_SOFTWARE` of sysexits.h)
    130  interrupted (Ctrl-C), 143 terminated

An error is one message on standard error, without a traceback unless `--debug` asks for it. For a defect of deploykit
the traceback is in a file, together with what else a report needs (`fault`). With `--json` a verb also prints the error
as JSON on standard output.
"""

from __future__ import annotations

import atexit
import errno
import functools
import inspect
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable
from dataclasses import asdict
from types import FrameType
from typing import Annotated, Any

import typer

from deploykit.basics.installation import without_compiler
from deploykit.basics.parallel import busy
from deploykit.cli.console import bad, messages
from deploykit.cli.fault import write_report
from deploykit.errors import DeploykitError, InternalError, UnsupportedModelError, UsageError

_stopped_by: list[int] = []
"""The signals that asked this process to stop. They are kept here because libraries may replace the exception."""

Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.", show_default=False)]


def verb(function: Callable[..., None]) -> Callable[..., None]:
    """Make a command of a function: adds `--debug`, turns exceptions into messages and exit codes, and joins the lines
    of each paragraph of the docstring, so that `--help` can wrap them.
    """

    @functools.wraps(function)
    def command(*, debug: bool, **options: Any) -> None:
        try:
            function(**options)
        except KeyboardInterrupt:
            raise _stopped() from None
        except (typer.Exit, typer.Abort, typer.TyperException):
            raise
        except Exception as error:
            if _stopped_by:
                raise _stopped() from None
            if isinstance(error, OSError) and error.errno == errno.EPIPE:
                raise
            code = _report(error, debug=debug, as_json=bool(options.get("json_output")))
            raise typer.Exit(code) from None

    paragraphs = inspect.cleandoc(function.__doc__ or "").split("\n\n")
    command.__doc__ = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
    signature = inspect.signature(function, eval_str=True)
    option = inspect.Parameter("debug", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Debug)
    command.__signature__ = signature.replace(parameters=[*signature.parameters.values(), option])  # type: ignore[attr-defined]
    command.__annotations__ = {**inspect.get_annotations(function, eval_str=True), "debug": Debug}
    return command


def stop_on_signals() -> None:
    """Make Ctrl-C and SIGTERM end the process through the same clean-up as an error."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _stop)


def leave(code: object) -> None:
    """End the process at once after a signal, or while abandoned native code still runs; else return.

    That native code uses what an orderly end destroys. After a signal, an orderly end would take too long."""
    if _stopped_by and not busy():
        atexit._run_exitfuncs()  # noqa: SLF001  the first part of an orderly end
    if _stopped_by or busy():
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 1)


def _stop(number: int, _frame: FrameType | None) -> None:
    _stopped_by.append(number)
    raise KeyboardInterrupt


def _stopped() -> typer.Exit:
    messages.print(bad("interrupted"))
    return typer.Exit(128 + (_stopped_by[0] if _stopped_by else signal.SIGINT))


def _report(error: Exception, *, debug: bool, as_json: bool) -> int:
    """Print the error and return the exit code."""
    if debug:
        messages.print("".join(traceback.format_exception(error)))
    if isinstance(error, ModuleNotFoundError):
        error = without_compiler(error) or error
    if not isinstance(error, (DeploykitError, OSError, MemoryError)):
        error = InternalError("in the command", error)
    message, code = _explain(error)
    report = write_report(error) if isinstance(error, InternalError) else None
    messages.print(bad("error:"), message)
    if report:
        messages.print(f"The traceback is in {report}, with the versions and the command.")
    if as_json:
        description = {"kind": type(error).__name__, "message": message, "exit_code": code}
        if isinstance(error, UnsupportedModelError):
            description["problems"] = [asdict(problem) for problem in error.problems]
        if report:
            description["report"] = str(report)
        typer.echo(json.dumps({"error": description}, indent=2))
    return code


def _explain(error: Exception) -> tuple[str, int]:
    """The message and the exit code of an error."""
    if isinstance(error, DeploykitError):
        return str(error), error.exit_code
    if isinstance(error, MemoryError):
        return f"not enough memory: {error}".strip(": "), UsageError.exit_code
    assert isinstance(error, OSError)
    where = f"{error.filename}: " if error.filename else ""
    return f"{where}{error.strerror or error}", UsageError.exit_code
