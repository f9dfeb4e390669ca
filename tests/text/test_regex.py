"""Automata find the matches that the library's regular expressions find."""

from __future__ import annotations

import random

import numpy as np
import pytest
from tokenizers import Regex, pre_tokenizers

from deploykit.text.automaton import MATCH, Automaton, automaton_of
from deploykit.text.classes import Classes
from deploykit.text.regex import Ahead, Take, read_pattern
from tests.text.designs import CL100K, GPT4, O200K

PATTERNS = [
    *(CL100K, GPT4, O200K, r"a|ab|abc", r"abc|ab|a", r"(?:ab|a)(?:bc|c)?", r"a{2,3}?b|a+", r"a{2}", r"a{1,}b?"),
    *(r"[^ab]+(?=a)|b", r"a(?!b)|b+", r"(?i:ab)|K+", r"[a-c]+\d*|\W", r"\w+?b|.", r"[\[\]^-]|x", r"(?:a|b)*c|a"),
    *(r"\p{Lu}\p{Ll}*|\P{L}", r"[\p{^L}a]+", r"\x41|\x{42}|\u0043", r"a??b|a", r"(a|(b|c)d)+", r"{|a{,2}b|a{b"),
]
LETTERS = "aaabbbcdABKk \n19é中-]^{\u017f\u212a"


def found(automaton: Automaton, classes: Classes, text: str) -> list[tuple[int, int]]:
    matches, at = [], 0
    while at < len(text):
        end, state = None, 1
        for place in range(at, len(text) + 1):
            column = automaton.columns[classes.of[ord(text[place])] if place < len(text) else -1]
            entry = int(automaton.table[state, column])
            end = place if entry & MATCH else end
            state = entry & ~MATCH
            if state == 0:
                break
        if end is not None:
            matches.append((at, end))
        at = at + 1 if end is None else end
    return matches


@pytest.mark.parametrize("pattern", PATTERNS)
def test_matches(pattern: str) -> None:
    program = read_pattern(pattern)
    classes = Classes()
    for instruction in program.program:
        if isinstance(instruction, Take | Ahead):
            classes.add(instruction.chars)
    classes.close()
    automaton = automaton_of(program, classes.representatives)
    split = pre_tokenizers.Split(Regex(pattern), "removed", invert=True)
    source = random.Random(pattern)
    for _ in range(300):
        text = "".join(source.choices(LETTERS, k=source.randrange(1, 12)))
        assert found(automaton, classes, text) == [place for _, place in split.pre_tokenize_str(text)], text
    assert np.all((automaton.table & ~np.uint16(MATCH)) < len(automaton.table))
