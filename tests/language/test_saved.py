"""Conversations that are saved and go on: nothing is read again, and what does not fit is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from gguf import GGMLQuantizationType as Format

import deploykit
from deploykit.errors import DataError, UsageError
from deploykit.language.pages import PageTable
from deploykit.language.saved import Caches
from deploykit.sessions.language.engine import PagesExhausted, Sequence
from deploykit.sessions.session import Session
from tests.language.models import write_language_model


def read(session: Session, sequence: Sequence) -> np.ndarray:
    while sequence.scores is None:
        assert session.language.step()
    return sequence.scores


def test_a_conversation_goes_on(artifact: Path, tmp_path: Path) -> None:
    settings = {"max_tokens": 5, "ignore_end": True}
    with deploykit.open(artifact) as session:
        chat = session.chat("s", **settings)
        chat.ask("abc")
        chat.save(tmp_path / "talk")
        messages, answer = list(chat.messages), chat.ask("d")
    with deploykit.open(artifact) as session:
        chat = session.chat(restore=tmp_path / "talk", **settings)
        assert chat.messages == messages
        assert chat.ask("d") == answer
        assert chat.answer.timings.prompt_tokens <= len("\nQ:d\nA:") + 2


@pytest.mark.parametrize("length", [1, 31, 32, 33, 40])
def test_the_same_is_remembered(session: Session, length: int) -> None:
    """At other places of the memory, in any number of pages."""
    session.reset({"pages": 6})
    language = session.language
    tokens = [int(token) for token in np.random.default_rng(length).integers(0, 40, length)]
    sequence = language.begin(tokens)
    expected = read(session, sequence)
    saved = language.save(sequence, b"a note")
    language.end(sequence)
    other = language.begin([1] * 40)  # holds the first pages
    read(session, other)
    restored = language.restore(saved)
    assert (restored.tokens, language.opened(saved).note) == (tokens, b"a note")
    assert language.remembered(restored) == length - 1
    np.testing.assert_allclose(read(session, restored), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("read_so_far", [0, 7])
def test_a_text_that_was_not_read(session: Session, read_so_far: int) -> None:
    language = session.language
    sequence = language.begin([3] * 9)
    language.at_once = read_so_far
    language.step()
    restored = language.restore(language.save(sequence), sequence)
    language.at_once = 40
    assert language.remembered(restored) == read_so_far
    np.testing.assert_allclose(read(session, restored), session.logits([3] * 9)[-1], rtol=0, atol=1e-5)


class Memory:
    """Two states of 12 and 40 bytes a page, behind 64 bytes; a page has room for 4 tokens."""

    ITEMS = (12, 40)

    def __init__(self, count: int, window: int | None) -> None:
        self.pages = PageTable(count, 3, 8, 4, window)
        sizes = [-(-count * item // 64) * 64 for item in self.ITEMS]
        self.block = np.zeros(64 + sum(sizes), np.uint8)
        self.states = [
            self.block[start : start + count * item].reshape(count, item)
            for start, item in zip((64, 64 + sizes[0]), self.ITEMS, strict=True)
        ]
        self.caches = Caches(self.block, self.pages, self.ITEMS, "ab" * 32)

    def begin(self) -> int:
        row = self.pages.begin()
        assert row is not None
        return row

    def read(self, row: int, count: int) -> None:
        """Tokens one by one, which leave something in their pages."""
        for _ in range(count):
            assert self.pages.reserve(row, 1)
            at = int(self.pages.lengths[row])
            for number, state in enumerate(self.states):
                state[self.pages.table[row, at // 4], at % 4 :: 4] = 7 * at + number
            self.pages.append(row, 1)

    def held(self, row: int) -> dict[int, list[bytes]]:
        """What is in the pages of a sequence, by their blocks."""
        found = enumerate(self.pages.table[row])
        return {block: [state[page].tobytes() for state in self.states] for block, page in found if page >= 0}


@pytest.mark.parametrize("window", [None, 1, 5, 9])
def test_pages_of_any_states(window: int | None) -> None:
    """Of any dtype, and without the pages that a window gave back."""
    for length in range(1, 32):
        memory, other = Memory(11, window), Memory(9, window)
        row = memory.begin()
        memory.read(row, length)
        saved = memory.caches.save(row, list(range(length + 1)), b"n")
        other.read(other.begin(), 3)
        place = other.begin()
        found = other.caches.opened(saved, 40)
        assert (found.tokens, found.note) == (list(range(length + 1)), b"n")
        assert other.caches.restore(found, place)
        assert int(other.pages.lengths[place]) == length
        assert other.held(place) == memory.held(row)


def test_pages_that_are_not_there() -> None:
    memory, other = Memory(8, None), Memory(8, None)
    row, place = memory.begin(), other.begin()
    memory.read(row, 20)
    other.read(place, 20)
    found = other.caches.opened(memory.caches.save(row, [0] * 20, b""), 40)
    before, unused = other.block.copy(), other.pages.unused
    assert not other.caches.restore(found, other.begin())
    assert (other.block == before).all()
    assert other.pages.unused == unused


def test_what_is_altered_or_cut_off() -> None:
    memory = Memory(8, None)
    row = memory.begin()
    memory.read(row, 5)
    saved = memory.caches.save(row, [1, 2, 3, 4, 39], b"note")
    for place in range(len(saved)):
        with pytest.raises(DataError, match="cut off or altered"):
            memory.caches.opened(saved[:place], 40)
        with pytest.raises(DataError, match="cut off or altered"):
            memory.caches.opened(saved[:place] + bytes([saved[place] ^ 4]) + saved[place + 1 :], 40)
    with pytest.raises(DataError, match="cut off or altered"):
        memory.caches.opened(saved + b"\0", 40)
    with pytest.raises(DataError):
        memory.caches.opened(saved, 39)


def test_another_build(session: Session, tmp_path: Path) -> None:
    """It is refused, and what there was stays: the conversation, and what is remembered of it."""
    deploykit.build(write_language_model(tmp_path / "model.gguf", Format.Q8_0), output=tmp_path / "dist")
    with deploykit.open(tmp_path / "dist") as other:
        chat = other.chat(max_tokens=3)
        chat.ask("abc")
        chat.save(tmp_path / "talk")
    own = session.chat(max_tokens=3)
    own.ask("q")
    messages, used = list(own.messages), own.used
    (tmp_path / "nothing").write_bytes(b"")
    text = session.language.begin([1, 2])
    (tmp_path / "text").write_bytes(session.language.save(text))
    session.language.end(text)
    for file, error in (
        ("talk", "another build of a model"),
        ("nothing", "cut off"),
        ("none", "cannot be read"),
        ("text", "is a text, and no conversation"),
    ):
        with pytest.raises(UsageError, match=error):
            own.restore(tmp_path / file)
        assert (own.messages, own.used) == (messages, used)
    with pytest.raises(UsageError, match="another build of a model"):
        session.chat(restore=tmp_path / "talk")
    with pytest.raises(UsageError, match="leave out 'system'"):
        session.chat("s", restore=tmp_path / "talk")
    with pytest.raises(UsageError, match="cannot be written"):
        own.save(tmp_path / "none" / "talk")
    with pytest.raises(UsageError, match="say something first"):
        session.chat().save(tmp_path / "talk")
    own.close()
    assert session.language.pages.unused == session.language.pages.count


def test_no_pages_for_what_was_saved(session: Session) -> None:
    session.reset({"pages": 3})
    language = session.language
    long, other = language.begin([1] * 35), language.begin([2] * 5)
    read(session, long)
    saved = language.save(long)
    read(session, other)
    with pytest.raises(
        PagesExhausted, match="no room for the 35 tokens that were saved, of the text that begins with 'bbbb"
    ):
        language.restore(saved)
    assert language.remembered(long) == 35
    restored = language.restore(saved, long)
    assert language.remembered(restored) == 34


def test_equal_builds_are_one(artifact: Path, tmp_path: Path) -> None:
    path = write_language_model(tmp_path / "model.gguf")
    task = deploykit.build(path, output=tmp_path / "again").manifest.task
    with deploykit.open(artifact) as session:
        assert session.manifest.task == task
