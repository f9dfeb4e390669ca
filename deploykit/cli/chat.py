"""`deploykit chat`: talk to a language model, at a terminal or from a pipe."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from deploykit.cli.console import bad, messages, print_json, text_bytes, text_seconds
from deploykit.cli.generated import with_options
from deploykit.cli.options import ArtifactFolder, OnDevice, Threads
from deploykit.cli.verb import verb
from deploykit.errors import DeploykitError, UsageError
from deploykit.options.generation import USUAL_SINKS, Sampling

if TYPE_CHECKING:
    from deploykit.sessions.language.chat import Chat
    from deploykit.sessions.language.generation import Timings
    from deploykit.sessions.session import Session

FENCE = '"""'

JSON = ".json"
"""The ending of files with messages alone."""

HELP = f"""\
/help            this
/reset           begin anew
/system TEXT     begin anew with this system message
/stats           tokens, times and memory of the last answer
/save FILE       write the conversation: with what the model remembers, or as JSON if FILE ends with .json
/load FILE       go on with such a conversation
{FENCE}              begins and ends a message of several lines; so does \\ at the end of a line
Ctrl-C           stops an answer; at the prompt it clears the line
Ctrl-D           ends"""


@verb
@with_options(Sampling)
def chat(
    artifact: ArtifactFolder,
    *,
    system: Annotated[
        str | None,
        typer.Option(
            "--system", metavar="TEXT", help="A message that the conversation begins with.", show_default=False
        ),
    ] = None,
    restore: Annotated[
        Path | None,
        typer.Option(
            "--restore", metavar="FILE", help="Go on with a conversation that /save has written.", show_default=False
        ),
    ] = None,
    max_tokens: Annotated[
        int | None,
        typer.Option("--max-tokens", min=1, metavar="NUMBER", help="The most tokens of an answer.", show_default=False),
    ] = None,
    draft: Annotated[
        str | None,
        typer.Option(
            "--draft",
            metavar="ngram|DIR",
            help="Guess tokens from the text so far, faster where answers repeat it, or by the artifact of a smaller "
            "model with the same vocabulary.",
            show_default=False,
        ),
    ] = None,
    overflow: Annotated[
        Literal["error", "window"],
        typer.Option(
            "--overflow", help="Where the context is full: end the answer, or go on without the oldest tokens."
        ),
    ] = "error",
    sinks: Annotated[
        int, typer.Option("--sinks", min=0, metavar="NUMBER", help="First tokens that --overflow window keeps.")
    ] = USUAL_SINKS,
    options: Any,
    threads: Threads = 1,
    device: OnDevice = None,
    json_output: Annotated[
        bool, typer.Option("--json", help="Print JSON: a line for each answer.", show_default=False)
    ] = False,
) -> None:
    """Talk to a language model. It answers word by word, and remembers the conversation.

    At a terminal, /help lists what else there is. From a pipe, each line is a message, and its answer is one line:
    deploykit chat smol < questions.txt
    """
    from deploykit.sessions.session import open as open_artifact

    with ExitStack() as opened:
        session = opened.enter_context(open_artifact(artifact, threads=threads, device=device))
        smaller: Any = draft
        if draft not in (None, "ngram"):
            smaller = opened.enter_context(open_artifact(Path(draft), threads=threads, device=device))
        settings = {"max_tokens": max_tokens, "draft": smaller, "overflow": overflow, "sinks": sinks, **options}
        talk = session.chat(system, **settings)
        if restore is not None:
            if system is not None:
                raise UsageError("a conversation that is restored has its own system message: leave out --system")
            _load(talk, restore)
        converse(session, talk, json_output=json_output)


def run_prompt(session: Session, prompt: str, *, json_output: bool) -> None:
    """One answer, for `deploykit run --prompt`."""
    language = session.language
    given: Any = prompt if language.template is None else [{"role": "user", "content": prompt}]
    answer = session.generate(given)
    for piece in answer:
        if not json_output:
            typer.echo(piece.text, nl=False)
            sys.stdout.flush()
    if json_output:
        print_json({"text": answer.text, "tokens": answer.tokens, "reason": answer.reason, **_numbers(answer.timings)})
    else:
        typer.echo()


def converse(session: Session, talk: Chat, *, json_output: bool) -> None:
    """Answer what comes from the standard input, at a terminal or from a pipe."""
    if sys.stdin.isatty():
        _converse(session, talk)
    else:
        _answer_lines(talk, json_output=json_output)


def _answer_lines(talk: Chat, *, json_output: bool) -> None:
    for line in sys.stdin:
        if not line.strip():
            continue
        text = talk.ask(line.rstrip("\r\n"))
        if json_output:
            reason, timings = talk.answer.reason, _numbers(talk.answer.timings)
            typer.echo(json.dumps({"text": text, "reason": reason, **timings}, ensure_ascii=False))
        else:
            typer.echo(" ".join(text.split()))
        sys.stdout.flush()


def _numbers(timings: Timings) -> dict[str, Any]:
    return {
        "prompt_tokens": timings.prompt_tokens,
        "prompt_seconds": round(timings.prompt_seconds, 4),
        "answer_tokens": timings.tokens,
        "answer_tokens_per_second": round(timings.rate, 1),
    }


class _Stopped(Exception):
    """Ctrl-C during an answer."""


@contextmanager
def _stoppable() -> Iterator[None]:
    """Let Ctrl-C end what is in here, and not the program."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise _Stopped

    before = signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _converse(session: Session, talk: Chat) -> None:
    """Answer what the user writes until the input ends."""
    import readline  # noqa: F401  lets `input` edit its line and go back in its history

    messages.print(f"{session.manifest.name}. /help lists what you can do; Ctrl-D ends.")
    while True:
        try:
            with _stoppable():
                text = _message()
        except EOFError:
            messages.print()
            return
        except _Stopped:
            messages.print()
            continue
        if not text.strip():
            continue
        try:
            if text.startswith("/"):
                talk = _command(session, talk, text)
            else:
                _show(talk, text)
        except DeploykitError as error:
            messages.print(bad("error:"), str(error))


def _message() -> str:
    """A message of one line, or of several between fences or with a backslash at their ends."""
    line = input("> ")
    if line.startswith(FENCE):
        lines = [line.removeprefix(FENCE)]
        while not lines[-1].endswith(FENCE):
            lines.append(input(". "))
        return "\n".join(lines).removesuffix(FENCE).strip("\n")
    lines = [line]
    while lines[-1].endswith("\\"):
        lines[-1] = lines[-1].removesuffix("\\")
        lines.append(input(". "))
    return "\n".join(lines)


def _show(talk: Chat, text: str) -> None:
    """Write an answer as it comes."""
    pieces = talk.send(text)
    try:
        with _stoppable():
            for piece in pieces:
                typer.echo(piece.text, nl=False)
                sys.stdout.flush()
    except _Stopped:
        pieces.close()  # type: ignore[attr-defined]
        messages.print(" [stopped]", end="")
    typer.echo()


def _command(session: Session, talk: Chat, text: str) -> Chat:
    """What a line that begins with / asks for; returns the conversation that goes on."""
    name, _, rest = text.partition(" ")
    if name == "/help":
        messages.print(HELP)
    elif name == "/reset":
        talk.reset()
    elif name == "/system":
        settings = talk.settings
        talk.close()
        talk = session.chat(rest or None, **settings)
    elif name == "/stats":
        _stats(session, talk)
    elif name == "/save":
        path = Path(_required(rest, name))
        if path.suffix == JSON:
            path.write_text(json.dumps(talk.messages, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        else:
            talk.save(path)
        messages.print(f"wrote {path}")
    elif name == "/load":
        _load(talk, Path(_required(rest, name)))
    else:
        raise UsageError(f"there is no {name}; /help lists what there is")
    return talk


def _required(rest: str, name: str) -> str:
    if not rest.strip():
        raise UsageError(f"{name} needs the name of a file")
    return rest.strip()


def _load(talk: Chat, path: Path) -> None:
    """Let a conversation be the one that was written to a file."""
    if path.suffix == JSON:
        talk.messages = _loaded(path)
    else:
        talk.restore(path)


def _loaded(path: Path) -> list[dict[str, Any]]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from error
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise UsageError(f"{path} is no list of messages")
    return found


def _stats(session: Session, talk: Chat) -> None:
    answer = getattr(talk, "answer", None)
    if answer is not None:
        timings = answer.timings
        messages.print(
            f"prompt: {timings.prompt_tokens} tokens in {text_seconds(timings.prompt_seconds)}, "
            f"{timings.prompt_rate:.1f} a second; answer: {timings.tokens} tokens, {timings.rate:.1f} a second"
        )
    memory = session.memory
    messages.print(
        f"context: {talk.used} of {session.language.task.context} tokens; memory: "
        f"weights {text_bytes(memory.weights)}, pages {text_bytes(memory.states)}, results {text_bytes(memory.arenas)}"
    )
