"""From steps to the words and tables that the runtime reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from deploykit.text.automaton import automaton_of
from deploykit.text.bytelevel import alphabet
from deploykit.text.characters import (
    HANGUL,
    POINTS,
    Runes,
    Set,
    combining_classes,
    compositions,
    mapping,
    named,
    only,
)
from deploykit.text.classes import Classes
from deploykit.text.reading import refuse
from deploykit.text.regex import Ahead, Pattern, Refused, Take
from deploykit.text.steps import (
    BEHAVIORS,
    SELF,
    Bytes,
    Charsmap,
    Compose,
    Map,
    Prepend,
    Replace,
    Split,
    Step,
    Strip,
    Tokens,
)
from deploykit.text.tries import EMPTY

MAP, COMPOSE, SPLIT, REPLACE, PREPEND, STRIP, TOKENS, CHARSMAP, BYTES = range(9)
STEP_WORDS = 6
MOST_PROPERTIES = 32

SINGLE, LEFT, RIGHT = 1, 2, 4
"""Flags of an added token."""


@dataclass
class Program:
    """The tables that steps are packed into. First all sets are registered, then the classes are closed."""

    classes: Classes = field(default_factory=Classes)
    words: list[Sequence[int]] = field(default_factory=list)
    properties: list[Set] = field(default_factory=list)
    actions: list[int] = field(default_factory=list)
    lookup: list[tuple[int, int]] = field(default_factory=list)
    pool: list[int] = field(default_factory=list)
    columns: list[int] = field(default_factory=list)
    states: list[NDArray[np.uint16]] = field(default_factory=list)
    added: list[tuple[int, int]] = field(default_factory=list)
    _places: dict[Runes, int] = field(default_factory=dict)

    def place(self, runes: Runes) -> int:
        """Where characters are in the pool."""
        if runes not in self._places:
            self._places[runes] = len(self.pool)
            self.pool += [len(runes), *runes]
        return self._places[runes]

    def property(self, chars: Set) -> int:
        """The bit of a property."""
        for index, known in enumerate(self.properties):
            if np.array_equal(known, chars):
                return 1 << index
        if len(self.properties) == MOST_PROPERTIES:
            refuse("the file", "it has too many steps")
        self.properties.append(chars)
        self.classes.add(chars)
        return 1 << (len(self.properties) - 1)

    def entries(self, results: dict[int, Runes]) -> tuple[int, int]:
        """Where entries are put in the table of single characters."""
        first = len(self.lookup)
        self.lookup += [(point, self.place(runes)) for point, runes in sorted(results.items())]
        return first, len(self.lookup)


Roots = Callable[[Tokens | Charsmap], int]
"""Gives the root in the trie of what a step searches for."""

Later = Callable[[], Sequence[int]]
"""Gives the words of a step once the classes are known."""


def pack_steps(program: Program, steps: Sequence[Step], roots: Roots, where: str) -> None:
    """Pack steps. `where` names them in errors."""
    later: list[Later] = []
    for step in steps:
        try:
            later.append(_PACKERS[type(step)](program, step, roots))
        except Refused as refusal:
            refuse(where, f"a regular expression is not supported: {refusal}")
    program.classes.close()
    for words in later:
        try:
            program.words.append([*words(), *[0] * STEP_WORDS][:STEP_WORDS])
        except Refused as refusal:
            refuse(where, f"a regular expression is not supported: {refusal}")


def property_bits(program: Program) -> NDArray[np.uint32]:
    """The bits of each class."""
    found = np.zeros(len(program.classes.representatives), np.uint32)
    for index, chars in enumerate(program.properties):
        found |= chars[program.classes.representatives].astype(np.uint32) << np.uint32(index)
    return found


def _map(program: Program, step: Map, _roots: object) -> Later:
    """Results that many characters have in common are found by class, the others by character."""
    shapes: dict[Runes, list[int]] = {}
    for point, result in step.results.items():
        if result != (point,):
            shapes.setdefault(result, []).append(point)
    shared = {shape: points for shape, points in shapes.items() if SELF in shape or not shape or len(points) > 8}
    single = {point: shape for shape, points in shapes.items() if shape not in shared for point in points}
    marks = np.zeros(POINTS, np.uint32)
    for index, points in enumerate(shared.values()):
        marks[points] = index + 2
    marks[list(single)] = 1
    program.classes.add(marks)
    actions = np.array([0, EMPTY, *(program.place(shape) + 1 for shape in shared)], np.int64)
    first, last = program.entries(single)

    def words() -> Sequence[int]:
        start = len(program.actions)
        program.actions += actions[marks[program.classes.representatives]].tolist()
        return MAP, start, first, last

    return words


def _compose(program: Program, step: Compose, _roots: object) -> Later:
    classes = combining_classes()
    table = dict(mapping(step.decompositions))
    first, last = program.entries(table)
    program.classes.add(classes)
    moved = classes > 0
    moved[list(table)] = True
    moved[HANGUL.start : HANGUL.stop] = True
    if step.compose:
        moved[[b for _, b, _ in compositions()]] = True
        moved[0x1161:0x1176] = True
        moved[0x11A8:0x11C3] = True
    bit = program.property(~moved)
    return lambda: (COMPOSE, first, last, bit, int(step.compose))


def _register(program: Program, pattern: Pattern) -> None:
    for instruction in pattern.program:
        if isinstance(instruction, Take | Ahead):
            program.classes.add(instruction.chars)


def _automaton(program: Program, pattern: Pattern) -> tuple[int, int, int]:
    found = automaton_of(pattern, program.classes.representatives)
    place = len(program.columns), sum(map(np.size, program.states)), found.table.shape[1]
    program.columns += found.columns.tolist()
    program.states.append(found.table)
    return place


def _split(program: Program, step: Split, _roots: object) -> Later:
    _register(program, step.pattern)
    behavior = BEHAVIORS.index(step.behavior)
    return lambda: (SPLIT, *_automaton(program, step.pattern), behavior, int(step.invert))


def _replace(program: Program, step: Replace, _roots: object) -> Later:
    _register(program, step.pattern)
    place = program.place(step.content)
    return lambda: (REPLACE, *_automaton(program, step.pattern), place)


def _prepend(program: Program, step: Prepend, _roots: object) -> Later:
    place = program.place(step.content)
    return lambda: (PREPEND, place, EMPTY if step.unless is None else step.unless, int(step.at_start))


def _strip(program: Program, step: Strip, _roots: object) -> Later:
    bit = program.property(named("white"))
    return lambda: (STRIP, bit, int(step.left), int(step.right))


def _tokens(program: Program, step: Tokens, roots: Roots) -> Later:
    first = program.property(only(*(ord(token.text[0]) for token in step.added)))
    white, word = program.property(named("white")), program.property(named("word"))
    for token in step.added:
        flags = SINGLE * token.single_word | LEFT * token.left | RIGHT * token.right
        program.added.append((token.id, flags))
    return lambda: (TOKENS, roots(step), first, white, word)


def _charsmap(program: Program, step: Charsmap, roots: Roots) -> Later:
    _register(program, step.clusters)
    bit = program.property(step.alone)
    return lambda: (CHARSMAP, roots(step), bit, *_automaton(program, step.clusters))


def _bytes(program: Program, _step: Bytes, _roots: object) -> Later:
    place = program.place(alphabet())
    return lambda: (BYTES, place)


_PACKERS: dict[type, Callable[[Program, object, Roots], Later]] = {
    Map: _map,  # type: ignore[dict-item]
    Compose: _compose,  # type: ignore[dict-item]
    Split: _split,  # type: ignore[dict-item]
    Replace: _replace,  # type: ignore[dict-item]
    Prepend: _prepend,  # type: ignore[dict-item]
    Strip: _strip,  # type: ignore[dict-item]
    Charsmap: _charsmap,  # type: ignore[dict-item]
    Bytes: _bytes,  # type: ignore[dict-item]
    Tokens: _tokens,  # type: ignore[dict-item]
}
