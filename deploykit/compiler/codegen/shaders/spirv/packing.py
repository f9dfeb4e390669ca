"""Packs modules of SPIR-V, those of MobileNet v2 to a thirtieth; the driver unpacks them (`runtime/gpu/unpack.c`).

For each word, the contexts of the last 20, 11, 6, 3 and 1 symbols remember which symbol followed them last; a bit says
whether it follows again, until one does. If none does, the number of the word's bits and the bits are coded. All bits
go through a range coder with adaptive chances. (Sources: Martin, "Range encoding", 1979; Cleary and Witten, "Data
compression using adaptive coding and partial string matching", 1984.)

Symbols make code that is alike equal in different modules. The symbol of an id is its distance from the next new id;
but declarations of the module and variables of functions have names, which are hashes of the instructions that make
them. Any other word is its symbol. `SHAPES` says what is an id; the file begins with it, so that the driver knows no
instruction. What words mean only decides how small they become: any words can be packed.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from deploykit.compiler.codegen.shaders.spirv.numbers import SHAPES, USUAL_SHAPE
from deploykit.compiler.codegen.shaders.spirv.range_coder import RangeCoder

_ORDERS = (20, 11, 6, 3, 1)
_HISTORY = 32
_SLOTS = 17
"""Bits of the number of a slot; contexts with the same slot displace each other."""
_TRUST = 7
"""The bits of a slot that say how far its symbol is trusted, from 1 to 4; the others are those of its context."""
_NAMES = 15
"""Bits of the number of a name."""
_HEADER = 5
_MASK = 0xFFFFFFFF
_POWER, _SPREAD = 0x2C1B3C6D, 0x9E3779B1
_NAMED = 0x80000000

# What a word is, for contexts and chances. Bits 4 to 19 of an operand are the operation, bits 0 to 3 its place.
_COUNTS, _OPERATIONS, _STARTS, _LENGTHS, _OPERANDS = 0x200000, 0x200001, 0x200002, 0x210000, 0x100000


def pack(modules: Sequence[bytes]) -> bytes:
    """The packed form of modules, one after the other, each a multiple of 4 bytes."""
    coder = RangeCoder()
    packer = _Packer(coder)
    for number in (len(SHAPES), _shape(USUAL_SHAPE)):
        packer.number(_COUNTS, number)
    for operation, shape in SHAPES.items():
        packer.number(_COUNTS, operation)
        packer.number(_COUNTS, _shape(shape))
    for module in modules:
        words = array("I", module)
        packer.number(_COUNTS, len(words))
        packer.module(words)
    return coder.finish()


def _shape(text: str) -> int:
    """A shape as a number. Bits 0 to 6 say which operands are ids, bit 7 whether those after them are. Bits 8 and 9 are
    the place of the result, from 1 on. With bit 10 it is a function; with bit 11 it has a name in functions, too."""
    full = text + text[-1] * (8 - len(text))
    result = next((place for place, kind in enumerate(text, start=1) if kind in "rfv"), 0)
    ids = sum(1 << place for place, kind in enumerate(full) if kind != "w")
    return ids | result << 8 | ("f" in text) << 10 | ("v" in text) << 11


class _Packer:
    """Packs words."""

    def __init__(self, coder: RangeCoder) -> None:
        self._coder = coder
        self._shapes = {operation: _shape(shape) for operation, shape in SHAPES.items()}
        self._symbols = array("I", bytes(4 << _SLOTS))
        """What followed a context last, by slot."""
        self._owners = array("I", bytes(4 << _SLOTS))
        """Which context that is, and how far it is trusted; 0: none."""
        self._ids = array("I", bytes(4 << _NAMES))
        """The last id with a name, by the end of the name."""
        self._powers = [pow(_POWER, order, 1 << 32) for order in _ORDERS]

    def module(self, words: Sequence[int]) -> None:
        """Pack the words of a module."""
        self._names = [0] * len(words)
        """The names of ids; 0: none."""
        self._next = 1
        self._history, self._at = [0] * _HISTORY, 0
        self._hashes = [0] * len(_ORDERS)
        for place, word in enumerate(words[:_HEADER]):
            self._word(_STARTS + place, word, 0)
        at, inside, variables = _HEADER, False, 0
        while at < len(words):
            operation, count = words[at] & 0xFFFF, min(max(words[at] >> 16, 1), len(words) - at)
            shape = self._shapes.get(operation, _USUAL)
            result = shape >> 8 & 3
            name = self._word(_OPERATIONS, words[at], 0)
            for place in range(1, count):
                is_id = shape >> min(place - 1, 7) & 1
                symbol = self._word(_OPERANDS | operation << 4 | min(place, 15), words[at + place], is_id)
                name = name if place == result else _mixed(name, symbol)
            if shape & 0x400:
                inside, variables = True, 0
            if 0 < result < count and (not inside or shape & 0x800):
                variables += inside
                self._call(words[at + result], _mixed(name, variables) | _NAMED)
            at += count

    def _call(self, number: int, name: int) -> None:
        """Give an id its name."""
        if number < len(self._names):
            self._names[number] = name
            self._ids[name & (1 << _NAMES) - 1] = number

    def _word(self, place: int, word: int, is_id: int) -> int:
        """Code a word. Returns its symbol."""
        keys = [_mixed(_mixed(own, place), order) for order, own in enumerate(self._hashes)]
        tried: list[int] = []
        for order, key in enumerate(keys):
            slot = key >> 32 - _SLOTS
            owner = self._owners[slot]
            if owner & _TRUST == 0 or (owner ^ key) & ~_TRUST:
                continue
            found = self._id(self._symbols[slot]) if is_id else self._symbols[slot]
            if found < 0 or found in tried:
                continue
            self._coder.bit(place, order << 5 | (owner & _TRUST) - 1 << 3 | len(tried), found == word)
            if found == word:
                break
            tried.append(found)
        else:
            self._new_word(place, word, is_id)
        symbol = self._symbol(word) if is_id else word
        self._next += is_id and word == self._next
        for key in keys:
            self._learn(key, symbol)
        self._remember(symbol)
        return symbol

    def _new_word(self, place: int, word: int, is_id: int) -> None:
        """Code a word that no context knows."""
        if place == _OPERATIONS:
            self.number(place, word & 0xFFFF)
            self.number(_LENGTHS | word & 0xFFFF, word >> 16)
        else:
            self.number(place, self._next - word & _MASK if is_id else word)

    def _symbol(self, number: int) -> int:
        """The symbol of an id."""
        name = self._names[number] if number < len(self._names) else 0
        return name or self._next - number & _MASK & ~_NAMED

    def _id(self, symbol: int) -> int:
        """The id with a symbol; -1: there is none."""
        if not symbol & _NAMED:
            return self._next - symbol & _MASK
        found = self._ids[symbol & (1 << _NAMES) - 1]
        return found if found < len(self._names) and self._names[found] == symbol else -1

    def _learn(self, key: int, symbol: int) -> None:
        """Note that a symbol followed a context."""
        slot = key >> 32 - _SLOTS
        owner = self._owners[slot]
        trust = owner & _TRUST if (owner ^ key) & ~_TRUST == 0 else 0
        if trust and self._symbols[slot] == symbol:
            trust = min(trust + 1, 4)
        elif trust > 2:
            trust = 2
        else:
            self._symbols[slot], trust = symbol, 1
        self._owners[slot] = key & ~_TRUST | trust

    def _remember(self, symbol: int) -> None:
        """Put a symbol into the history, and into the hashes of the last ones."""
        for index, order in enumerate(_ORDERS):
            gone = self._history[(self._at - order) % _HISTORY] * self._powers[index]
            self._hashes[index] = self._hashes[index] * _POWER + symbol - gone & _MASK
        self._history[self._at % _HISTORY] = symbol
        self._at += 1

    def number(self, place: int, number: int) -> None:
        """Code how many bits a number has, and the bits after the first one."""
        size = number.bit_length()
        for bit in range(min(size + 1, 32)):
            self._coder.bit(place, 0x200 | bit, bit < size)
        for rest in range(size - 2, -1, -1):
            known = number >> rest + 1
            self._coder.bit(place, size << 10 | (known if known < 0x80 else 0x80 | rest), number >> rest & 1)


def _mixed(one: int, other: int) -> int:
    """A hash of two numbers."""
    mixed = (one * _POWER ^ other) * _SPREAD & _MASK
    return mixed ^ mixed >> 15


_USUAL = _shape(USUAL_SHAPE)
