# mypy: ignore-errors
"""Models whose control flow depends on tensors, as a user writes them.

Weights are random, so what they decide would be too: always the same, or different for each hidden size. Decisions are
random numbers of a seed therefore, to which the tensors add little: the work of an instance follows from its seed, and
control flow waits for the tensors all the same.

EarlyExit     an encoder of tokens, with as many layers as it takes, 12 at most
ShiftReduce   a parser with a stack LSTM (Dyer et al., ACL 2015) over the words that are shifted, which reduces two
              entries to one
Generator     a doubly recurrent network (Alvarez-Melis and Jaakkola, 2017): a node has children as long as it decides
              so, 3 at most, to a depth of 3
GraphRNN      a generator of graphs (You et al., ICML 2018): a network for positions, and one for their arcs
Search        a beam of four hypotheses, of which each gives two
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from deploykit.dynamic import Model, Tensor, concat, mean, random, relu, sigmoid, softmax, split, sum, tanh, zeros  # noqa: A004

HIDDEN = 128
WORDS = 1024
TOKENS = 16
LAYERS = 12
LITTLE = 1e-4


class EarlyExit(Model):
    mix_w: Tensor[TOKENS, TOKENS]
    up_w: Tensor[HIDDEN, 4 * HIDDEN]
    down_w: Tensor[4 * HIDDEN, HIDDEN]
    exit_w: Tensor[HIDDEN, 1]
    out_w: Tensor[HIDDEN, 4]

    def main(self, x: Tensor[TOKENS, HIDDEN], seed: int) -> tuple[Tensor[4], int]:
        layers = 0
        while layers < LAYERS:
            x = tanh(self.mix_w @ x + x)
            x = relu(x @ self.up_w) @ self.down_w + x
            layers += 1
            draw, seed = random(seed)
            if draw + LITTLE * float(sum(mean(x, 0) @ self.exit_w)) < 0.15:
                break
        return softmax(mean(x, 0) @ self.out_w), layers


@dataclass
class Empty:
    pass


@dataclass
class Push:
    """An entry with the state of the LSTM over the stack up to it."""

    value: Tensor[HIDDEN]
    h: Tensor[HIDDEN]
    c: Tensor[HIDDEN]
    below: Stack


Stack: TypeAlias = Empty | Push


class ShiftReduce(Model):
    embedding: Tensor[WORDS, HIDDEN]
    stack_x: Tensor[HIDDEN, 4 * HIDDEN]
    stack_h: Tensor[HIDDEN, 4 * HIDDEN]
    stack_b: Tensor[4 * HIDDEN]
    reduce_w: Tensor[2 * HIDDEN, HIDDEN]
    reduce_b: Tensor[HIDDEN]
    score_w: Tensor[HIDDEN, 1]

    def main(self, words: list[int], seed: int) -> tuple[Tensor[HIDDEN], int]:
        stack: Stack = Empty()
        size, reduced = 0, 0
        for word in words:
            stack = self.push(self.embedding[word], stack)
            size += 1
            going = size >= 2
            while going:
                draw, seed = random(seed)
                going = draw + LITTLE * float(sum(self.top(stack) @ self.score_w)) < 0.5
                if going:
                    stack = self.reduce(stack)
                    size, reduced = size - 1, reduced + 1
                    going = size >= 2
        while size > 1:
            stack = self.reduce(stack)
            size -= 1
        return self.top(stack), reduced

    def push(self, value: Tensor[HIDDEN], below: Stack) -> Stack:
        h, c = zeros(HIDDEN), zeros(HIDDEN)
        match below:
            case Push(_, before_h, before_c, _):
                h, c = before_h, before_c
        i, f, o, u = split(value @ self.stack_x + h @ self.stack_h + self.stack_b, 4)
        c = sigmoid(f) * c + sigmoid(i) * tanh(u)
        return Push(value, sigmoid(o) * tanh(c), c, below)

    def reduce(self, stack: Stack) -> Stack:
        first, below = self.pop(stack)
        second, rest = self.pop(below)
        return self.push(tanh(concat(second, first) @ self.reduce_w + self.reduce_b), rest)

    def pop(self, stack: Stack) -> tuple[Tensor[HIDDEN], Stack]:
        match stack:
            case Push(value, _, _, below):
                return value, below
            case Empty():
                return zeros(HIDDEN), stack

    def top(self, stack: Stack) -> Tensor[HIDDEN]:
        match stack:
            case Push(_, h, _, _):
                return h
            case Empty():
                return zeros(HIDDEN)


class Generator(Model):
    down_w: Tensor[HIDDEN, HIDDEN]
    across_w: Tensor[HIDDEN, HIDDEN]
    state_b: Tensor[HIDDEN]
    more_w: Tensor[HIDDEN, 1]
    label_w: Tensor[HIDDEN, 16]

    def grow(self, parent: Tensor[HIDDEN], depth: int, seed: int) -> tuple[Tensor[16], int]:
        """The sum of the labels of the nodes below `parent` and its own, and how many there are."""
        children: list[Tensor[HIDDEN]] = []
        sibling = zeros(HIDDEN)
        going = depth < 3
        while going:
            sibling = tanh(parent @ self.down_w + sibling @ self.across_w + self.state_b)
            children = [*children, sibling]
            draw, seed = random(seed)
            going = len(children) < 3 and draw + LITTLE * float(sum(sibling @ self.more_w)) < 0.7
        grown = [self.grow(child, depth + 1, seed + number) for number, child in enumerate(children)]
        label, count = softmax(parent @ self.label_w), 1
        for inner, size in grown:
            label, count = label + inner, count + size
        return label, count

    def main(self, start: Tensor[HIDDEN], seed: int) -> tuple[Tensor[16], int]:
        return self.grow(start, 0, seed)


class GraphRNN(Model):
    node_x: Tensor[HIDDEN, 2 * HIDDEN]
    node_h: Tensor[HIDDEN, 2 * HIDDEN]
    node_b: Tensor[2 * HIDDEN]
    start_w: Tensor[HIDDEN, HIDDEN]
    arcs: Tensor[2, 2 * HIDDEN]
    arc_h: Tensor[HIDDEN, 2 * HIDDEN]
    link_w: Tensor[HIDDEN, 1]
    out_w: Tensor[HIDDEN, 4]

    def step(self, gates: Tensor[2 * HIDDEN], h: Tensor[HIDDEN]) -> Tensor[HIDDEN]:
        z, new = split(gates, 2)
        return sigmoid(z) * h + (1.0 - sigmoid(z)) * tanh(new)

    def main(self, positions: int, seed: int) -> tuple[Tensor[4], int]:
        """Position `i` may have arcs to the 6 before it."""
        h, edge, links = zeros(HIDDEN), zeros(HIDDEN), 0
        for position in range(positions):
            h = self.step(edge @ self.node_x + h @ self.node_h + self.node_b, h)
            edge, linked = tanh(h @ self.start_w), 0
            for _ in range(min(6, position)):
                edge = self.step(self.arcs[linked] + edge @ self.arc_h, edge)
                draw, seed = random(seed)
                linked = 1 if draw + LITTLE * float(sum(edge @ self.link_w)) < 0.4 else 0
                links += linked
        return h @ self.out_w, links


@dataclass
class Beam:
    state: Tensor[HIDDEN]
    score: float
    word: int


class Search(Model):
    embedding: Tensor[WORDS, HIDDEN]
    state_w: Tensor[HIDDEN, HIDDEN]
    state_b: Tensor[HIDDEN]
    score_w: Tensor[HIDDEN, 1]

    def step(self, beam: Beam, word: int) -> Beam:
        state = tanh(beam.state @ self.state_w + self.embedding[word] + self.state_b)
        draw, _ = random(word)
        return Beam(state, beam.score - draw - LITTLE * float(sum(state @ self.score_w)), word)

    def insert(self, beams: list[Beam], beam: Beam) -> list[Beam]:
        """The hypotheses with one more, by their scores, and without the last if they were four."""
        found: list[Beam] = []
        placed = False
        for each in beams:
            if not placed and beam.score > each.score:
                found = [*found, beam]
                placed = True
            if len(found) < 4:
                found = [*found, each]
        return found if placed or len(found) >= 4 else [*found, beam]

    def main(self, start: Tensor[HIDDEN], word: int, length: int) -> tuple[Tensor[HIDDEN], float]:
        beams = [Beam(start, 0.0, word)]
        for _ in range(length):
            even = [self.step(beam, (5 * beam.word + 1) % WORDS) for beam in beams]
            odd = [self.step(beam, (7 * beam.word + 2) % WORDS) for beam in beams]
            kept: list[Beam] = []
            for beam in even:
                kept = self.insert(kept, beam)
            for beam in odd:
                kept = self.insert(kept, beam)
            beams = kept
        return beams[0].state, beams[0].score
