# mypy: ignore-errors
"""Models of sentences, lattices and graphs, as a user writes them. The gates of an LSTM are `i f o u`, of a GRU `r z`.

Tagger        an LSTM in each direction over the words of a sentence; classes of each word
CharTagger    the same over words that an LSTM over their characters makes
NestedRNN     a step of the outer network is as many steps of the inner one as the instance says
Lattice       LSTM steps for characters, and for words from the position where they start to the one where they end,
              whose state is the sum of those of its steps, as in ED-Batch (Chen et al., ICML 2023); classes of each
              character
LatticeGRU    the same with GRU steps and their mean
RandomGraph   a state of a position is made of those where its arcs come from; positions and arcs have three types
"""

from __future__ import annotations

from dataclasses import dataclass

from deploykit.dynamic import Model, Tensor, concat, sigmoid, split, sum, tanh, zeros  # noqa: A004

HIDDEN = 128
WORDS = 1024


@dataclass
class Word:
    """A word of a lattice, which starts at a position."""

    start: int
    label: int


def lstm(
    wx: Tensor[HIDDEN, 4 * HIDDEN],
    wh: Tensor[HIDDEN, 4 * HIDDEN],
    b: Tensor[4 * HIDDEN],
    x: Tensor[HIDDEN],
    h: Tensor[HIDDEN],
    c: Tensor[HIDDEN],
) -> tuple[Tensor[HIDDEN], Tensor[HIDDEN]]:
    i, f, o, u = split(x @ wx + h @ wh + b, 4)
    c = sigmoid(f) * c + sigmoid(i) * tanh(u)
    return sigmoid(o) * tanh(c), c


def gru(
    wx: Tensor[HIDDEN, 3 * HIDDEN],
    wh: Tensor[HIDDEN, 2 * HIDDEN],
    wn: Tensor[HIDDEN, HIDDEN],
    b: Tensor[3 * HIDDEN],
    x: Tensor[HIDDEN],
    h: Tensor[HIDDEN],
) -> Tensor[HIDDEN]:
    of_r, of_z, of_n = split(x @ wx + b, 3)
    from_r, from_z = split(h @ wh, 2)
    z = sigmoid(of_z + from_z)
    return z * h + (1.0 - z) * tanh(of_n + (sigmoid(of_r + from_r) * h) @ wn)


class Tagger(Model):
    embedding: Tensor[WORDS, HIDDEN]
    forward_x: Tensor[HIDDEN, 4 * HIDDEN]
    forward_h: Tensor[HIDDEN, 4 * HIDDEN]
    forward_b: Tensor[4 * HIDDEN]
    backward_x: Tensor[HIDDEN, 4 * HIDDEN]
    backward_h: Tensor[HIDDEN, 4 * HIDDEN]
    backward_b: Tensor[4 * HIDDEN]
    out_fw: Tensor[HIDDEN, 9]
    out_bw: Tensor[HIDDEN, 9]
    out_b: Tensor[9]

    def states(
        self,
        wx: Tensor[HIDDEN, 4 * HIDDEN],
        wh: Tensor[HIDDEN, 4 * HIDDEN],
        b: Tensor[4 * HIDDEN],
        xs: list[Tensor[HIDDEN]],
    ) -> list[Tensor[HIDDEN]]:
        h, c = zeros(HIDDEN), zeros(HIDDEN)
        found: list[Tensor[HIDDEN]] = []
        for x in xs:
            h, c = lstm(wx, wh, b, x, h, c)
            found = [*found, h]
        return found

    def main(self, words: list[int]) -> list[Tensor[9]]:
        xs = [self.embedding[word] for word in words]
        forward = self.states(self.forward_x, self.forward_h, self.forward_b, xs)
        back = [x for x in reversed(xs)]  # noqa: C416
        backward = self.states(self.backward_x, self.backward_h, self.backward_b, back)
        return [
            f @ self.out_fw + b @ self.out_bw + self.out_b for f, b in zip(forward, reversed(backward), strict=True)
        ]


class CharTagger(Model):
    embedding: Tensor[WORDS, HIDDEN]
    char_x: Tensor[HIDDEN, 4 * HIDDEN]
    char_h: Tensor[HIDDEN, 4 * HIDDEN]
    char_b: Tensor[4 * HIDDEN]
    forward_x: Tensor[HIDDEN, 4 * HIDDEN]
    forward_h: Tensor[HIDDEN, 4 * HIDDEN]
    forward_b: Tensor[4 * HIDDEN]
    backward_x: Tensor[HIDDEN, 4 * HIDDEN]
    backward_h: Tensor[HIDDEN, 4 * HIDDEN]
    backward_b: Tensor[4 * HIDDEN]
    out_w: Tensor[2 * HIDDEN, 9]

    def states(
        self,
        wx: Tensor[HIDDEN, 4 * HIDDEN],
        wh: Tensor[HIDDEN, 4 * HIDDEN],
        b: Tensor[4 * HIDDEN],
        xs: list[Tensor[HIDDEN]],
    ) -> list[Tensor[HIDDEN]]:
        h, c = zeros(HIDDEN), zeros(HIDDEN)
        found: list[Tensor[HIDDEN]] = []
        for x in xs:
            h, c = lstm(wx, wh, b, x, h, c)
            found = [*found, h]
        return found

    def word(self, characters: list[int]) -> Tensor[HIDDEN]:
        h, c = zeros(HIDDEN), zeros(HIDDEN)
        for character in characters:
            h, c = lstm(self.char_x, self.char_h, self.char_b, self.embedding[character], h, c)
        return h

    def main(self, words: list[list[int]]) -> list[Tensor[9]]:
        xs = [self.word(characters) for characters in words]
        forward = self.states(self.forward_x, self.forward_h, self.forward_b, xs)
        back = [x for x in reversed(xs)]  # noqa: C416
        backward = self.states(self.backward_x, self.backward_h, self.backward_b, back)
        return [concat(f, b) @ self.out_w for f, b in zip(forward, reversed(backward), strict=True)]


class NestedRNN(Model):
    embedding: Tensor[WORDS, HIDDEN]
    inner_w: Tensor[HIDDEN, HIDDEN]
    inner_b: Tensor[HIDDEN]
    outer_w: Tensor[2 * HIDDEN, HIDDEN]
    out_w: Tensor[HIDDEN, 4]

    def main(self, words: list[int], steps: list[int]) -> Tensor[4]:
        state = zeros(HIDDEN)
        for word, count in zip(words, steps, strict=True):
            x = self.embedding[word] + state
            for _ in range(count):
                x = tanh(x @ self.inner_w + self.inner_b)
            state = tanh(concat(state, x) @ self.outer_w)
        return state @ self.out_w


class Lattice(Model):
    char_embedding: Tensor[WORDS, HIDDEN]
    char_x: Tensor[HIDDEN, 4 * HIDDEN]
    char_h: Tensor[HIDDEN, 4 * HIDDEN]
    char_b: Tensor[4 * HIDDEN]
    word_embedding: Tensor[WORDS, HIDDEN]
    word_x: Tensor[HIDDEN, 4 * HIDDEN]
    word_h: Tensor[HIDDEN, 4 * HIDDEN]
    word_b: Tensor[4 * HIDDEN]
    out_w: Tensor[HIDDEN, 17]
    out_b: Tensor[17]

    def main(self, characters: list[int], words: list[list[Word]]) -> list[Tensor[17]]:
        """`words` are those that end with each character."""
        h, c = zeros(HIDDEN), zeros(HIDDEN)
        states = [(h, c)]
        found: list[Tensor[17]] = []
        for character, ending in zip(characters, words):  # noqa: B905
            h, c = lstm(self.char_x, self.char_h, self.char_b, self.char_embedding[character], h, c)
            for word in ending:
                before_h, before_c = states[word.start]
                x = self.word_embedding[word.label]
                word_h, word_c = lstm(self.word_x, self.word_h, self.word_b, x, before_h, before_c)
                h, c = h + word_h, c + word_c
            states = [*states, (h, c)]
            found = [*found, h @ self.out_w + self.out_b]
        return found


class LatticeGRU(Model):
    char_embedding: Tensor[WORDS, HIDDEN]
    char_x: Tensor[HIDDEN, 3 * HIDDEN]
    char_h: Tensor[HIDDEN, 2 * HIDDEN]
    char_n: Tensor[HIDDEN, HIDDEN]
    char_b: Tensor[3 * HIDDEN]
    word_embedding: Tensor[WORDS, HIDDEN]
    word_x: Tensor[HIDDEN, 3 * HIDDEN]
    word_h: Tensor[HIDDEN, 2 * HIDDEN]
    word_n: Tensor[HIDDEN, HIDDEN]
    word_b: Tensor[3 * HIDDEN]
    out_w: Tensor[HIDDEN, 17]
    out_b: Tensor[17]

    def main(self, characters: list[int], words: list[list[Word]]) -> list[Tensor[17]]:
        """`words` are those that end with each character."""
        h = zeros(HIDDEN)
        states = [h]
        found: list[Tensor[17]] = []
        for character, ending in zip(characters, words, strict=True):
            h = gru(self.char_x, self.char_h, self.char_n, self.char_b, self.char_embedding[character], h)
            for word in ending:
                x = self.word_embedding[word.label]
                h = h + gru(self.word_x, self.word_h, self.word_n, self.word_b, x, states[word.start])
            h = h / (1 + len(ending))
            states = [*states, h]
            found = [*found, h @ self.out_w + self.out_b]
        return found


@dataclass
class Arc:
    start: int
    kind: int


@dataclass
class Position:
    kind: int
    label: int
    arcs: list[Arc]


class RandomGraph(Model):
    embedding: Tensor[WORDS, HIDDEN]
    near_w: Tensor[HIDDEN, HIDDEN]
    far_w: Tensor[HIDDEN, HIDDEN]
    back_w: Tensor[HIDDEN, HIDDEN]
    first_w: Tensor[HIDDEN, HIDDEN]
    second_w: Tensor[HIDDEN, HIDDEN]
    third_w: Tensor[HIDDEN, HIDDEN]
    out_w: Tensor[HIDDEN, 4]

    def along(self, kind: int, h: Tensor[HIDDEN]) -> Tensor[HIDDEN]:
        if kind == 0:
            return tanh(h @ self.near_w)
        if kind == 1:
            return tanh(h @ self.far_w)
        return tanh(h @ self.back_w)

    def state(self, kind: int, x: Tensor[HIDDEN], h: Tensor[HIDDEN]) -> Tensor[HIDDEN]:
        if kind == 0:
            return tanh(x + h @ self.first_w)
        if kind == 1:
            return tanh(x + h @ self.second_w)
        return tanh(x + h @ self.third_w)

    def main(self, positions: list[Position]) -> Tensor[4]:
        states: list[Tensor[HIDDEN]] = []
        h = zeros(HIDDEN)
        for position in positions:
            h = zeros(HIDDEN)
            if len(position.arcs) > 0:
                h = sum([self.along(arc.kind, states[arc.start]) for arc in position.arcs])
            h = self.state(position.kind, self.embedding[position.label], h)
            states = [*states, h]
        return h @ self.out_w
