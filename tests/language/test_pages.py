"""The pages of sequences: nothing is lost, nothing is shared that may be written."""

from __future__ import annotations

import numpy as np
import pytest

from deploykit.language.pages import PageTable

SIZE, BLOCKS, SEQUENCES, COUNT = 4, 6, 5, 14


class Model:
    """What a table should hold: for each place of each page, which token of which text was written there last."""

    def __init__(self, window: int | None, *, whole: bool) -> None:
        self.table = PageTable(COUNT, SEQUENCES, BLOCKS, SIZE, window, whole=whole)
        self.window = window
        self.written: dict[int, object] = {}
        self.texts: dict[int, list[object]] = {}

    def place(self, sequence: int, position: int) -> int:
        page = int(self.table.table[sequence, position // SIZE])
        assert 0 <= page < COUNT
        return page * SIZE + position % SIZE

    def append(self, sequence: int, tokens: list[object]) -> bool:
        if not self.table.reserve(sequence, len(tokens)):
            return False
        for token in tokens:
            text = self.texts[sequence]
            self.written[self.place(sequence, len(text))] = token
            text.append(token)
        self.table.append(sequence, len(tokens))
        return True

    def check(self) -> None:
        """Every token that the next one may look back to is where it was written."""
        held = set()
        for sequence, text in self.texts.items():
            assert self.table.lengths[sequence] == len(text)
            first = 0 if self.window is None else max(0, len(text) - self.window + 1)
            for position in range(first, len(text)):
                place = self.place(sequence, position)
                assert self.written[place] == text[position]
                held.add(place // SIZE)
        rows = self.table.table
        assert self.table.unused == COUNT - len(set(rows[rows >= 0].tolist()))
        assert len(held) <= COUNT - self.table.unused


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("window", [None, 1, 3, 9])
def test_any_history(window: int | None, whole: bool) -> None:
    random = np.random.default_rng(window or 0)
    for _ in range(60):
        model = Model(window, whole=whole)
        number = 0
        for _ in range(60):
            action = random.integers(0, 10)
            there = list(model.texts)
            if not there or action == 0:
                sequence = model.table.begin()
                assert (sequence is None) == (len(there) == SEQUENCES)
                if sequence is not None:
                    model.texts[sequence] = []
            elif action == 1:
                parent = int(random.choice(there))
                text = model.texts[parent]
                length = int(random.integers(0, len(text) + 1))
                sequence = model.table.fork(parent, length)
                assert (sequence is None) == (len(there) == SEQUENCES)
                if sequence is not None:
                    kept = int(model.table.lengths[sequence])
                    assert kept <= length
                    assert kept % SIZE == 0
                    model.texts[sequence] = text[:kept]
            elif action == 2:
                sequence = int(random.choice(there))
                before = len(model.texts[sequence])
                length = int(random.integers(0, before + 1))
                if random.integers(2):
                    model.table.cut(sequence, length)
                else:
                    model.table.fail(sequence)
                    length = before - whole
                kept = int(model.table.lengths[sequence])
                assert kept <= max(length, 0)
                assert kept in (before, kept // SIZE * SIZE) or not whole
                model.texts[sequence] = model.texts[sequence][:kept]
            elif action == 3:
                sequence = int(random.choice(there))
                model.table.end(sequence)
                del model.texts[sequence]
            else:
                sequence = int(random.choice(there))
                more = [(number, i) for i in range(int(random.integers(1, 6)))]
                number += 1
                before = model.table.unused
                if not model.append(sequence, list(more)):
                    assert model.table.unused == before
            model.check()
        for sequence in list(model.texts):
            model.table.end(sequence)
        assert model.table.unused == COUNT
