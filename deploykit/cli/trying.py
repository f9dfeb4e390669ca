"""`deploykit try`: try an artifact by hand, on a page or at a prompt."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import Annotated

import typer

from deploykit.cli.console import messages, print_json
from deploykit.cli.options import ArtifactFolder, OnDevice, Threads
from deploykit.cli.verb import verb
from deploykit.errors import UsageError

WEB = "webgpu"
PAGE = "demo.html"


@verb
def try_(
    artifact: ArtifactFolder,
    *,
    port: Annotated[
        int | None,
        typer.Option(
            "--port", min=1, max=65535, metavar="PORT", help="Port of the page.", show_default="any that is free"
        ),
    ] = None,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the page in the browser of this machine.")
    ] = True,
    threads: Threads = 1,
    device: OnDevice = None,
    json_output: Annotated[
        bool, typer.Option("--json", help="Print JSON: a line for each answer, or the address.", show_default=False)
    ] = False,
) -> None:
    """Try an artifact by hand: texts, pictures or sound in, answers out.

    An artifact for the web is served on this machine, and its page is opened in the browser. Ctrl-C ends it.

    Any other one answers each line that you write: a text, or the path of a picture or a sound. From a pipe, each line
    gives one line, with the score first: deploykit try dist < texts.txt

    A language model answers as `deploykit chat` does.

    A model that answers questions takes the text that they are about first, and one that compares pictures with texts
    takes these first, with ; between them.
    """
    from deploykit.artifact.manifest import read_manifest

    manifest = read_manifest(artifact)
    if manifest.target == WEB:
        if device is not None or threads != 1:
            raise UsageError("the page offers the devices and chooses the threads: leave out --device and --threads")
        _serve(artifact, port or 0, browser=browser, json_output=json_output)
        return
    if port is not None:
        raise UsageError(f"'{manifest.name}' has no page, so --port has no meaning: build it with --target {WEB}")
    if manifest.task is None:
        raise UsageError(
            f"'{manifest.name}' takes tensors, not texts, pictures or sound: run it with `deploykit run {artifact}`, "
            f"or build it with --target {WEB}, which makes a page for every model"
        )
    from deploykit.cli.chat import converse
    from deploykit.cli.prompt import prompt
    from deploykit.sessions.session import open as open_artifact

    with open_artifact(artifact, threads=threads, device=device) as session:
        if manifest.task.takes == "messages":
            converse(session, session.chat(), json_output=json_output)
        else:
            prompt(session, json_output=json_output)


def _serve(folder: Path, port: int, *, browser: bool, json_output: bool) -> None:
    """Serve the folder until Ctrl-C."""
    from deploykit.cli.page_server import listening, serve

    if not (folder / PAGE).exists():
        raise UsageError(f"{folder} has no page to try: {folder / 'README.md'} says how its functions are called")
    try:
        connection = listening(port)
    except OSError as error:
        raise UsageError(
            f"port {port} cannot be used ({os.strerror(error.errno or 0)}): choose another with --port"
        ) from error
    try:
        page = f"http://127.0.0.1:{connection.getsockname()[1]}/{PAGE}"
        if json_output:
            print_json({"address": page})
        else:
            typer.echo(page)
            messages.print("Ctrl-C ends it.")
        sys.stdout.flush()
        if browser and _has_screen():
            import webbrowser

            # Some browsers return only when they are closed.
            threading.Thread(target=webbrowser.open, args=(page,), daemon=True).start()
        serve(folder, PAGE, connection)
    except KeyboardInterrupt:
        messages.print("ended")


def _has_screen() -> bool:
    """Whether a browser can show a window, instead of taking over the terminal."""
    return sys.platform in ("darwin", "win32") or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
