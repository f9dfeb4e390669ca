"""The sequences of a session, and steps for all of them together.

A `Sequence` is a list of tokens. The model remembers some of them, from the first one on; a step reads others of any
number of sequences, as many as there is room for, and gives the scores of what follows their last ones. So long prompts
and single tokens, of one conversation or of many, go through the model together.
"""

from __future__ import annotations

import base64
import ctypes
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from deploykit.errors import DeploykitError, UsageError
from deploykit.language.pages import PageTable
from deploykit.language.programs.rendering import rendered
from deploykit.language.saved import Caches, Saved
from deploykit.language.template import ChatTemplate, checked_messages

if TYPE_CHECKING:
    from deploykit.artifact.manifest import Manifest
    from deploykit.artifact.tasks import LanguageEntry
    from deploykit.text import Tokenizer

PAGES = "pages"
"""The dim of the memory of the model."""

NAMING = 8
"""How many of its first tokens name a text in an error."""


class PagesExhausted(UsageError):
    """There are no pages for more tokens of a sequence. The others go on."""


@dataclass(eq=False)
class Sequence:
    """Tokens; `row` is that of the table of pages, None once the sequence has ended. After a step that read all of
    them, `scores` (words) are those of what follows. `guesses` are what may follow; they are read with the tokens, and
    `further` (guesses, words) are the scores of what follows each of them, as far as there was room."""

    tokens: list[int]
    row: int | None
    scores: np.ndarray | None = None
    guesses: list[int] = field(default_factory=list)
    further: list[np.ndarray] = field(default_factory=list)
    problem: DeploykitError | None = None

    def part(self, start: int, stop: int) -> list[int]:
        """The tokens from one to another; guesses follow the last one."""
        count = len(self.tokens)
        return self.tokens[start:stop] + self.guesses[max(start - count, 0) : max(stop - count, 0)]


class Language:
    """What a session does for a language model. `run` runs `step`, `reset` makes its states, `block` gives
    them. Any number of threads may use it; steps take turns."""

    def __init__(
        self,
        manifest: Manifest,
        task: LanguageEntry,
        tokenizer: Tokenizer,
        library: ctypes.CDLL,
        run: Callable[[Mapping[str, Any]], Mapping[str, Any]],
        reset: Callable[[Mapping[str, int]], None],
        block: Callable[[], np.ndarray | None],
    ) -> None:
        self.task, self.tokenizer, self.library, self._run, self._reset = task, tokenizer, library, run, reset
        tables = set(task.files)
        self.vocabulary = task.words, *(entry.sha256 for entry in manifest.files if entry.name in tables)
        """Equal for models with the same words and tokenizer."""
        self._saved_as, self._block = manifest.states, block
        self.template = ChatTemplate(task.template, task.special) if task.template else None
        self._program = base64.b64decode(task.program)
        dims = {dim.name: dim for dim in manifest.dims}
        states = {dim.name: dim for dim in manifest.states.dims} if manifest.states is not None else {}
        self.at_once = dims["tokens"].maximum or task.context
        self._most = dims["sequences"].maximum or 1
        self._blocks = -(-task.context // task.page)
        self._bounds = states[PAGES].minimum, states[PAGES].maximum
        self._lock = threading.RLock()
        self._open: list[Sequence] = []
        self.pages = self._table(self._usual())

    def _usual(self) -> int:
        """As many pages as a sequence of the greatest length needs."""
        low, high = self._bounds
        return max(low, self._blocks if high is None else min(self._blocks, high))

    def _table(self, count: int) -> PageTable:
        self._reset({PAGES: count})
        return PageTable(
            count, self._most, self._blocks, self.task.page, self.task.window, self.library, whole=self.task.whole
        )

    def resize(self, pages: int | None = None) -> None:
        """Forget all, with memory for so many pages, by default for one sequence of the greatest length."""
        with self._lock:
            for sequence in self._open:
                sequence.row, sequence.problem = None, UsageError("the memory of the model was made anew")
            self._open.clear()
            self.pages = self._table(self._usual() if pages is None else pages)

    def conversation(self, messages: Iterable[Mapping[str, Any]], tools: Any = None) -> str:
        """The text of a conversation, by the program of the model, or by its template. Raises `UsageError`."""
        if self.template is None:
            raise UsageError("this model has no template of conversations: give it a text to continue")
        given = checked_messages(messages)
        if self._program and not self.task.lacks:
            return rendered(self._program, {"messages": given, "tools": tools}, functions=self.library)
        return self.template.render(given, tools=tools)

    # Sequences

    def begin(self, tokens: Iterable[int]) -> Sequence:
        """A new sequence. Raises `UsageError` for tokens that are none, for too many of them, and if there are too many
        sequences."""
        given = self.checked(tokens)
        with self._lock:
            return self._opened(given, self.pages.begin())

    def _opened(self, tokens: list[int], row: int | None) -> Sequence:
        """A sequence in a row of the table of pages. Raises `UsageError` if there was none."""
        if row is None:
            raise UsageError(
                f"there are {self._most} texts already, as many as this artifact takes: end one, or build it with "
                f"--dim sequences=..{2 * self._most}"
            )
        sequence = Sequence(tokens, row)
        self._open.append(sequence)
        return sequence

    def checked(self, tokens: Iterable[int]) -> list[int]:
        """The tokens. Raises `UsageError` for those that are none, and for too many or none at all."""
        given = [int(token) for token in tokens]
        if not given:
            raise UsageError("the text is empty: there is nothing to continue")
        if bad := [token for token in given if not 0 <= token < self.task.words]:
            raise UsageError(f"there is no token {bad[0]}; the model has {self.task.words}")
        if len(given) > self.task.context:
            raise UsageError(
                f"the text has {len(given)} tokens, and this artifact takes {self.task.context}: shorten it, or build "
                f"with --dim context=..{len(given)}"
            )
        return given

    def fork(self, sequence: Sequence) -> Sequence:
        """A new sequence with the same tokens, which shares what the model remembers of them."""
        with self._lock:
            # The last token is read again: the scores of what follows are asked for.
            row = self.pages.fork(self._row(sequence), len(sequence.tokens) - 1)
            return self._opened(list(sequence.tokens), row)

    def replace(self, sequence: Sequence, tokens: Iterable[int]) -> None:
        """Give a sequence other tokens. What it has in common with them stays in memory. Raises `UsageError`."""
        given = self.checked(tokens)
        with self._lock:
            common = next(
                (n for n, (a, b) in enumerate(zip(sequence.tokens, given, strict=False)) if a != b),
                min(len(sequence.tokens), len(given)),
            )
            # The last token is read again: the scores of what follows are asked for.
            self.pages.cut(self._row(sequence), min(common, len(given) - 1))
            sequence.tokens, sequence.scores, sequence.problem = given, None, None
            sequence.guesses, sequence.further = [], []

    def follow(self, sequence: Sequence, token: int) -> None:
        """Let a token follow those of a sequence. If it was the next guess, what follows is known already; else what
        was read of guesses is forgotten."""
        with self._lock:
            sequence.tokens.append(token)
            if sequence.further and sequence.guesses[0] == token:
                sequence.guesses.pop(0)
                sequence.scores = sequence.further.pop(0)
                return
            sequence.scores, sequence.guesses, sequence.further = None, [], []
            self.pages.cut(self._row(sequence), len(sequence.tokens) - 1)

    def end(self, sequence: Sequence) -> None:
        """Forget a sequence."""
        with self._lock:
            if sequence.row is not None:
                self.pages.end(sequence.row)
                self._open.remove(sequence)
                sequence.row = None

    def _row(self, sequence: Sequence) -> int:
        if sequence.row is None:
            raise sequence.problem or UsageError("this text has ended")
        return sequence.row

    def remembered(self, sequence: Sequence) -> int:
        """How many tokens of a sequence the model remembers."""
        return int(self.pages.lengths[self._row(sequence)])

    # What is saved

    def save(self, sequence: Sequence, note: bytes = b"") -> bytes:
        """The tokens of a sequence with what the model remembers of them, and a note of the caller. Raises `UsageError`
        where the memory of the model cannot be read."""
        with self._lock:
            return self._caches().save(self._row(sequence), sequence.tokens, note)

    def opened(self, saved: bytes) -> Saved:
        """What was saved: its `tokens`, and the `note` of the caller. Raises `DataError` if something was cut off or
        altered, and `UsageError` if it was saved with another build."""
        with self._lock:
            return self._caches().opened(saved, self.task.words)

    def restore(self, saved: bytes | Saved, instead: Sequence | None = None) -> Sequence:
        """The sequence that was saved; the sequence `instead` ends. Raises what `opened` raises, then `instead` stays,
        and `PagesExhausted`, then `instead` has ended, too."""
        with self._lock:
            caches = self._caches()
            found = saved if isinstance(saved, Saved) else self.opened(saved)
            if instead is not None:
                self.end(instead)
            sequence = self.begin(found.tokens)
            if not caches.restore(found, self._row(sequence)):
                self.end(sequence)
                raise self._full(
                    f"there is no room for the {len(found.tokens)} tokens that were saved, of", found.tokens
                )
            # The last token is read again: the scores of what follows are asked for.
            self.pages.cut(self._row(sequence), len(found.tokens) - 1)
            return sequence

    def _caches(self) -> Caches:
        block, entry = self._block(), self._saved_as
        if block is None or entry is None:
            raise UsageError(
                "what the model remembers is not in the memory of this process: open the artifact of this machine, on "
                "its CPU"
            )
        if not self.task.build:
            raise UsageError(
                "this artifact was built by an earlier version, which could not save texts: build it again"
            )
        return Caches(block, self.pages, entry.item_bytes, self.task.build)

    # Steps

    def step(self) -> bool:
        """Read tokens of all sequences, as many as there is room for; False if there was nothing to read. A sequence
        for which there are no pages gets a `problem`."""
        with self._lock:
            parts = self._parts()
            if not parts:
                return False
            self._read(parts)
            return True

    def scores(self, sequence: Sequence) -> np.ndarray:
        """The scores (words) of what follows a sequence; steps are taken until they are there. Raises what went wrong
        with it."""
        while sequence.scores is None:
            if sequence.problem is not None:
                raise sequence.problem
            if sequence.row is None or not self.step():
                raise sequence.problem or UsageError("this text has ended")
        return sequence.scores

    def _parts(self) -> list[tuple[Sequence, int, int]]:
        """The tokens to read: of each sequence from one to another. Single tokens come first: they are waited for."""
        room = self.at_once
        found = []
        waiting = [(len(s.tokens) - self.remembered(s), s) for s in self._open if s.problem is None]
        for count, sequence in sorted((pair for pair in waiting if pair[0] > 0), key=lambda pair: pair[0] > 1):
            more = min(count + len(sequence.guesses), room)
            if more and not self.pages.reserve(self._row(sequence), more):
                sequence.problem = self._full(f"at token {self.remembered(sequence) + more} of", sequence.tokens)
                continue
            if more:
                start = self.remembered(sequence)
                found.append((sequence, start, start + more))
                room -= more
        return found

    def _full(self, where: str, tokens: list[int]) -> PagesExhausted:
        """The error of a text, by how it begins."""
        begins = self.tokenizer.stream().end(tokens[:NAMING])
        return PagesExhausted(
            f"the memory is full, with {self.pages.count} pages of {self.task.page} tokens, {where} the text that "
            f"begins with {begins!r}: end other texts, or make it larger with "
            f"session.reset({{'{PAGES}': {2 * self.pages.count}}})"
        )

    def _read(self, parts: list[tuple[Sequence, int, int]]) -> None:
        try:
            scores = self._scores(parts, [max(0, stop - len(sequence.tokens) + 1) for sequence, _, stop in parts])
            for (sequence, start, stop), rows in zip(parts, scores, strict=True):
                self.pages.append(self._row(sequence), stop - start)
                if len(rows):
                    sequence.scores, sequence.further = rows[0], list(rows[1:])
        except BaseException:  # also an interrupt, after which the text may go on
            for sequence, *_ in parts:
                self.pages.fail(self._row(sequence))
            raise

    def _scores(
        self, parts: list[tuple[Sequence, int, int]], asked: list[int], every: bool = False
    ) -> list[np.ndarray]:
        """Run the model on parts of sequences. Returns the scores (rows, words) after as many of the last tokens of
        each part as are `asked`, or after `every` token."""
        table = np.maximum(self.pages.table[[self._row(sequence) for sequence, *_ in parts]], 0)
        used = max(-(-stop // self.task.page) for *_, stop in parts)
        counts = [stop - start for _, start, stop in parts]
        ends = np.cumsum(counts)
        rows = [
            np.arange(end - (count if every else want), end)
            for end, count, want in zip(ends, counts, asked, strict=True)
        ]
        found = self._run(
            {
                "tokens": np.concatenate([np.asarray(s.part(start, stop), np.int64) for s, start, stop in parts]),
                "positions": np.concatenate([np.arange(start, stop) for _, start, stop in parts]),
                "sequences": np.repeat(np.arange(len(parts)), counts),
                "pages": np.ascontiguousarray(table[:, :used]),
                "rows": np.concatenate(rows).astype(np.int64),
            }
        )
        return np.split(found[self.task.outputs[0]], np.cumsum([len(part) for part in rows])[:-1])

    def logits(self, tokens: Iterable[int]) -> np.ndarray:
        """The scores (tokens, words) of what follows each token of a text."""
        with self._lock:  # from the beginning: a step of another thread would read the text
            sequence = self.begin(tokens)
            try:
                found = []
                for start in range(0, len(sequence.tokens), self.at_once):
                    stop = min(start + self.at_once, len(sequence.tokens))
                    if not self.pages.reserve(self._row(sequence), stop - start):
                        raise self._full(f"at token {stop} of", sequence.tokens)
                    found += self._scores([(sequence, start, stop)], [1], every=True)
                    self.pages.append(self._row(sequence), stop - start)
                return np.concatenate(found)
            finally:
                self.end(sequence)
