"""A conversation: messages, and answers that continue them. The model remembers what was said."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deploykit.basics.whole_file import whole_file
from deploykit.errors import UsageError
from deploykit.language.template import checked_messages
from deploykit.sessions.language.drafts import Drafts
from deploykit.sessions.language.generation import Generation, Piece, start

if TYPE_CHECKING:
    from deploykit.sessions.language.engine import Language, Sequence


class Chat:
    """A conversation with a model. `messages` may be read, and changed between answers: what they still have in common
    with what was read before is not read again. `settings` are those of `Session.generate`."""

    def __init__(self, language: Language, system: str | None, **settings: Any) -> None:
        self._language, self.settings = language, settings
        self.messages: list[dict[str, Any]] = [] if system is None else [{"role": "system", "content": system}]
        self._sequence: Sequence | None = None
        self._drafts: Drafts | None = None

    def send(self, text: str, **settings: Any) -> Iterator[Piece]:
        """Say something; gives the pieces of the answer. The message and the answer are among the messages once the
        answer ends, also if it is cut short. If there is an error, the conversation is as before."""
        message = {"role": "user", "content": text}
        answer = self.start([*self.messages, message], **settings)

        def pieces() -> Iterator[Piece]:
            failed = True
            try:
                yield from answer
                failed = False
            except GeneratorExit:
                failed = False
                raise
            finally:
                answer.close()
                if not failed:
                    self.messages += [message, {"role": "assistant", "content": answer.text}]

        self.answer = answer
        return pieces()

    def ask(self, text: str, **settings: Any) -> str:
        """Say something; returns the whole answer."""
        return "".join(piece.text for piece in self.send(text, **settings))

    def start(self, messages: list[dict[str, Any]], **settings: Any) -> Generation:
        """The answer to these messages, of which the model may remember some."""
        given = {**self.settings, **settings}
        tokens = prompt_of(self._language, messages, given.pop("tools", None))
        answer = start(self._language, tokens, sequence=self._sequence, keep=True, earlier=self._drafts, **given)
        self._sequence = answer.sequence
        if isinstance(answer.drafts, Drafts):
            self._drafts = answer.drafts
        return answer

    def reset(self) -> None:
        """Begin anew, with the same system message."""
        self.messages = [message for message in self.messages[:1] if message["role"] == "system"]
        self.close()

    def save(self, path: str | Path) -> None:
        """Write the conversation to a file, with what the model remembers of it: `restore` goes on without reading it
        again. Raises `UsageError`."""
        if self._sequence is None:
            raise UsageError("the model remembers nothing of this conversation: say something first")
        note = json.dumps({"messages": self.messages}, ensure_ascii=False).encode()
        saved = self._language.save(self._sequence, note)
        try:
            with whole_file(Path(path)) as file:
                file.write(saved)
        except OSError as error:
            raise UsageError(f"{path} cannot be written: {error.strerror or error}") from error

    def restore(self, path: str | Path) -> None:
        """Go on with a conversation that was saved, in place of this one. Raises `UsageError` for a file that cannot be
        read, was altered, or is of another build of a model; this conversation then stays."""
        try:
            saved = Path(path).read_bytes()
        except OSError as error:
            raise UsageError(f"{path} cannot be read: {error.strerror or error}") from error
        try:
            found = self._language.opened(saved)
            messages = _messages_of(found.note)
            self._sequence = self._language.restore(found, self._sequence)
        except UsageError as error:
            raise type(error)(f"{path}: {error}") from error
        self.messages = messages

    @property
    def used(self) -> int:
        """Tokens of the conversation so far."""
        return 0 if self._sequence is None else len(self._sequence.tokens)

    def close(self) -> None:
        """Let the model forget the conversation; the messages stay."""
        if self._sequence is not None:
            self._language.end(self._sequence)
            self._sequence = None
        if self._drafts is not None:
            self._drafts.close()
            self._drafts = None


def _messages_of(note: bytes) -> list[dict[str, Any]]:
    """The messages in what a conversation notes where it is saved."""
    try:
        return [dict(message) for message in checked_messages(json.loads(note)["messages"])]
    except (ValueError, TypeError, KeyError) as error:
        raise UsageError("what was saved is a text, and no conversation") from error


def prompt_of(language: Language, given: Any, tools: Any = None) -> list[int]:
    """The tokens of a text, of messages, or of a list of tokens. Raises `UsageError` for anything else, and for
    messages where the model has no template."""
    if isinstance(given, str):
        return [int(token) for token in language.tokenizer.encode(given).ids]
    items = list(given)
    if items and all(isinstance(item, Mapping) for item in items):
        text = language.conversation(items, tools)
        return [int(token) for token in language.tokenizer.encode(text, bare=True).ids]
    return [int(token) for token in items]
