"""Dynamic models of many kinds, as a user writes them: small sizes, one class for each."""

from __future__ import annotations

from dataclasses import dataclass

from deploykit import dynamic
from deploykit.dynamic import Model, Tensor, concat, relu, sigmoid, softmax, split, stack, sum, tanh, zeros  # noqa: A004

H = 6
V = 20
LABELS = 5


@dataclass
class Leaf:
    word: int


@dataclass
class Node:
    left: Tree
    right: Tree


Tree = Leaf | Node


def lstm(
    w: Tensor[H, 4 * H], u: Tensor[H, 4 * H], b: Tensor[4 * H], x: Tensor[H], h: Tensor[H], c: Tensor[H]
) -> tuple[Tensor[H], Tensor[H]]:
    i, f, o, g = split(x @ w + h @ u + b, 4)
    c = sigmoid(f) * c + sigmoid(i) * tanh(g)
    return sigmoid(o) * tanh(c), c


class TreeLSTM(Model):
    """Binary, over the words at the leaves (Tai and others, 2015)."""

    embedding: Tensor[V, H]
    w: Tensor[H, 3 * H]
    wb: Tensor[3 * H]
    ul: Tensor[H, 5 * H]
    ur: Tensor[H, 5 * H]
    ub: Tensor[5 * H]
    out: Tensor[H, LABELS]
    bias: Tensor[LABELS]

    def encode(self, tree: Tree) -> tuple[Tensor[H], Tensor[H]]:
        match tree:
            case Leaf(word):
                i, o, u = split(self.embedding[word] @ self.w + self.wb, 3)
                c = sigmoid(i) * tanh(u)
                return sigmoid(o) * tanh(c), c
            case Node(left, right):
                hl, cl = self.encode(left)
                hr, cr = self.encode(right)
                i, fl, fr, o, u = split(hl @ self.ul + hr @ self.ur + self.ub, 5)
                c = sigmoid(i) * tanh(u) + sigmoid(fl) * cl + sigmoid(fr) * cr
                return sigmoid(o) * tanh(c), c

    def main(self, tree: Tree) -> Tensor[LABELS]:
        h, _ = self.encode(tree)
        return h @ self.out + self.bias


@dataclass
class Branch:
    word: int
    children: list[Branch]


class TreeGRU(Model):
    """A GRU over trees whose nodes have words and any number of children, which go on independently."""

    embedding: Tensor[V, H]
    wz: Tensor[H, H]
    uz: Tensor[H, H]
    wr: Tensor[H, H]
    ur: Tensor[H, H]
    wh: Tensor[H, H]
    uh: Tensor[H, H]

    def encode(self, tree: Branch) -> Tensor[H]:
        x = self.embedding[tree.word]
        states = [self.encode(child) for child in tree.children]
        h = zeros(H)
        if len(states) > 0:
            h = sum(states)
        z = sigmoid(x @ self.wz + h @ self.uz)
        r = sigmoid(x @ self.wr + h @ self.ur)
        return z * h + (1.0 - z) * tanh(x @ self.wh + (r * h) @ self.uh)

    def main(self, tree: Branch) -> Tensor[H]:
        return self.encode(tree)


class MatrixVector(Model):
    """A vector and a matrix for each node (MV-RNN; Socher and others, 2012)."""

    vectors: Tensor[V, 4]
    matrices: Tensor[V, 4, 4]
    w: Tensor[8, 4]
    wm: Tensor[4, 8]
    out: Tensor[4, 3]

    def encode(self, tree: Tree) -> tuple[Tensor[4], Tensor[4, 4]]:
        match tree:
            case Leaf(word):
                return self.vectors[word], self.matrices[word]
            case Node(left, right):
                (a, am), (b, bm) = self.encode(left), self.encode(right)
                vector = tanh(concat(bm @ a, am @ b) @ self.w)
                return vector, tanh(am @ bm + self.wm @ concat(a, b)) * 0.5

    def main(self, tree: Tree) -> Tensor[3]:
        vector, _ = self.encode(tree)
        return softmax(vector @ self.out)


@dataclass
class Word:
    index: int


@dataclass
class Phrase:
    head: Constituent
    parts: list[Constituent]


@dataclass
class Mark:
    weight: float
    features: Tensor[3]


Constituent = Word | Phrase | Mark


class TwoTypes(Model):
    """Trees with nodes of several types, each with its own weights, whose dataclasses refer to each other."""

    embedding: Tensor[V, H]
    marks: Tensor[3, H]
    head: Tensor[H, H]
    inner: Tensor[H, H]
    first: Tensor[H]
    out: Tensor[H, 2]

    def encode(self, part: Constituent) -> Tensor[H]:
        match part:
            case Word(index):
                return self.embedding[index]
            case Mark(weight, features):
                if weight > 0.5:
                    return relu(features @ self.marks)
                return tanh(features @ self.marks)
            case Phrase(head, parts):
                return self.phrase(head, parts)

    def phrase(self, head: Constituent, parts: list[Constituent]) -> Tensor[H]:
        state = self.first
        for part in parts:
            state = tanh(state @ self.inner + self.encode(part))
        return tanh(self.encode(head) @ self.head + state)

    def main(self, part: Constituent) -> Tensor[2]:
        return self.encode(part) @ self.out


class Tagger(Model):
    """Two LSTMs, forward and backward, that share their code (BiLSTM)."""

    embedding: Tensor[V, H]
    fw: Tensor[H, 4 * H]
    fu: Tensor[H, 4 * H]
    fb: Tensor[4 * H]
    bw: Tensor[H, 4 * H]
    bu: Tensor[H, 4 * H]
    bb: Tensor[4 * H]
    out: Tensor[2 * H, LABELS]

    def run(self, w: Tensor[H, 4 * H], u: Tensor[H, 4 * H], b: Tensor[4 * H], xs: list[Tensor[H]]) -> list[Tensor[H]]:
        h, c = zeros(H), zeros(H)
        hs: list[Tensor[H]] = []
        for x in xs:
            h, c = lstm(w, u, b, x, h, c)
            hs = [*hs, h]
        return hs

    def main(self, words: list[int]) -> list[Tensor[LABELS]]:
        xs = [self.embedding[word] for word in words]
        forward = self.run(self.fw, self.fu, self.fb, xs)
        backward = self.run(self.bw, self.bu, self.bb, [x for x in reversed(xs)])  # noqa: C416
        return [concat(f, b) @ self.out for f, b in zip(forward, reversed(backward))]  # noqa: B905


class CharTagger(Model):
    """An LSTM over the characters of each word, then one over the words."""

    characters: Tensor[V, H]
    cw: Tensor[H, 4 * H]
    cu: Tensor[H, 4 * H]
    cb: Tensor[4 * H]
    ww: Tensor[H, 4 * H]
    wu: Tensor[H, 4 * H]
    wb: Tensor[4 * H]
    out: Tensor[H, LABELS]

    def word(self, characters: list[int]) -> Tensor[H]:
        h, c = zeros(H), zeros(H)
        for character in characters:
            h, c = lstm(self.cw, self.cu, self.cb, self.characters[character], h, c)
        return h

    def main(self, sentence: list[list[int]]) -> tuple[list[Tensor[LABELS]], Tensor[H]]:
        words = [self.word(characters) for characters in sentence]
        h, c = zeros(H), zeros(H)
        tags: list[Tensor[LABELS]] = []
        for word in words:
            h, c = lstm(self.ww, self.wu, self.wb, word, h, c)
            tags = [*tags, softmax(h @ self.out)]
        return tags, h


class Nested(Model):
    """An RNN whose step is another RNN, of as many steps as the instance says."""

    embedding: Tensor[V, H]
    inner: Tensor[H, H]
    outer: Tensor[H, H]
    bias: Tensor[H]

    def main(self, words: list[int], steps: list[int]) -> tuple[Tensor[H], int]:
        state, total = zeros(H), 0
        for word, count in zip(words, steps):  # noqa: B905
            x = self.embedding[word]
            for _ in range(count):
                x = tanh(x @ self.inner + state)
                total += 1
            state = tanh(state @ self.outer + x + self.bias)
        return state, total


@dataclass
class Arc:
    start: int
    word: int


class Lattice(Model):
    """An LSTM over characters, into which words enter at the character where they end (Zhang and Yang, 2018)."""

    characters: Tensor[V, H]
    words: Tensor[V, H]
    cw: Tensor[H, 4 * H]
    cu: Tensor[H, 4 * H]
    cb: Tensor[4 * H]
    ww: Tensor[H, 3 * H]
    wu: Tensor[H, 3 * H]
    wb: Tensor[3 * H]
    out: Tensor[H, LABELS]

    def word(self, word: int, h: Tensor[H], c: Tensor[H]) -> Tensor[H]:
        i, f, g = split(self.words[word] @ self.ww + h @ self.wu + self.wb, 3)
        return sigmoid(f) * c + sigmoid(i) * tanh(g)

    def main(self, sentence: list[int], arcs: list[list[Arc]]) -> list[Tensor[LABELS]]:
        h, c = zeros(H), zeros(H)
        states: list[tuple[Tensor[H], Tensor[H]]] = []
        for position, character in enumerate(sentence):
            h, c = lstm(self.cw, self.cu, self.cb, self.characters[character], h, c)
            for arc in arcs[position]:
                before, cell = states[arc.start]
                c = (c + self.word(arc.word, before, cell)) * 0.5
            states = [*states, (h, c)]
        return [state[0] @ self.out for state in states]


@dataclass
class Vertex:
    features: Tensor[3]
    before: list[int]


class Graph(Model):
    """A directed graph without cycles: the state of a vertex follows from those of earlier ones."""

    features: Tensor[3, H]
    incoming: Tensor[H, H]
    out: Tensor[H, 2]

    def main(self, vertices: list[Vertex]) -> list[Tensor[2]]:
        states: list[Tensor[H]] = []
        for vertex in vertices:
            state = vertex.features @ self.features
            for index in vertex.before:
                state = state + tanh(states[index] @ self.incoming)
            states = [*states, tanh(state)]
        return [state @ self.out for state in states]


class EarlyExit(Model):
    """Layers until the result is certain: control flow depends on tensors."""

    w: Tensor[H, H]
    exit: Tensor[H, 1]
    out: Tensor[H, 4]

    def main(self, x: Tensor[H]) -> tuple[Tensor[4], int, float]:
        steps, score = 0, 0.0
        while steps < 12:
            x = tanh(x @ self.w) + x
            steps += 1
            score = float(sum(x @ self.exit))
            if score > 1.5 or score < -1.5:
                break
        return softmax(x @ self.out), steps, score


@dataclass
class Empty:
    pass


@dataclass
class Push:
    value: Tensor[H]
    below: Stack


Stack = Empty | Push


class ShiftReduce(Model):
    """A parser whose stack is made of objects, and whose actions depend on tensors."""

    embedding: Tensor[V, H]
    left: Tensor[H, H]
    right: Tensor[H, H]
    score: Tensor[H, 1]

    def pop(self, stack: Stack) -> tuple[Tensor[H], Stack]:
        match stack:
            case Push(value, below):
                return value, below
            case Empty():
                return zeros(H), stack

    def main(self, words: list[int]) -> tuple[Tensor[H], int]:
        stack: Stack = Empty()
        size, reduced = 0, 0
        for word in words:
            stack = Push(tanh(self.embedding[word]), stack)
            size = size + 1
            going = True
            while going and size >= 2:
                top, below = self.pop(stack)
                second, rest = self.pop(below)
                if float(sum(top @ self.score)) > float(sum(second @ self.score)):
                    stack = Push(tanh(second @ self.left + top @ self.right), rest)
                    size -= 1
                    reduced += 1
                else:
                    going = False
        total = zeros(H)
        while size > 0:
            top, stack = self.pop(stack)
            total = total + top
            size -= 1
        return total, reduced


class Generator(Model):
    """Grows a tree from a vector: each node decides whether it has children, which go on independently of each other
    (doubly recurrent network; Alvarez-Melis and Jaakkola, 2017)."""

    down: Tensor[H, H]
    across: Tensor[H, H]
    grows: Tensor[H, 1]
    out: Tensor[H, 3]

    def grow(self, state: Tensor[H], depth: int) -> tuple[Tensor[H], int]:
        if depth >= 5 or float(sum(state @ self.grows)) < -0.3:
            return state, 1
        first = tanh(state @ self.down)
        second = tanh(first @ self.across + state)
        (a, left), (b, right) = self.grow(first, depth + 1), self.grow(second, depth + 1)
        return (a + b) * 0.5, left + right + 1

    def main(self, starts: list[Tensor[H]]) -> tuple[list[Tensor[3]], list[int]]:
        grown = [self.grow(start, 0) for start in starts]
        return [state @ self.out for state, _ in grown], [size for _, size in grown]


@dataclass
class Beam:
    state: Tensor[H]
    score: float
    length: int


class Search(Model):
    """Two hypotheses at a time; each step makes two of each and keeps the two that are best."""

    w: Tensor[H, H]
    low: Tensor[H]
    high: Tensor[H]
    score: Tensor[H, 1]

    def step(self, beam: Beam, high: bool) -> Beam:
        state = tanh(beam.state @ self.w + (self.high if high else self.low))
        return Beam(state, beam.score + float(sum(state @ self.score)), beam.length + 1)

    def better(self, a: Beam, b: Beam) -> Beam:
        return b if b.score > a.score else a

    def worse(self, a: Beam, b: Beam) -> Beam:
        return a if b.score > a.score else b

    def main(self, x: Tensor[H], limit: int) -> tuple[Tensor[H], float, int]:
        best = Beam(tanh(x), 0.0, 0)
        second = Beam(tanh(x * 0.5), -0.01, 0)
        while best.length < limit:
            a, b = self.step(best, high=False), self.step(best, high=True)
            c, d = self.step(second, high=False), self.step(second, high=True)
            first = self.better(self.better(a, b), self.better(c, d))
            second = self.better(self.worse(a, b), self.worse(c, d))
            best = first
            if best.score > 8.0:
                break
        return best.state, best.score, best.length


class Operators(Model):
    """All operators of tensors, with operands of each kind: weights, numbers, and values of an instance."""

    matrix: Tensor[4, 4]
    vector: Tensor[4]

    def main(
        self, x: Tensor[4], m: Tensor[4, 4], s: Tensor[()]
    ) -> tuple[Tensor[4], Tensor[4], Tensor[4, 4], Tensor[()], Tensor[4], Tensor[2, 4], Tensor[8], Tensor[()]]:
        products = x @ self.matrix + self.matrix @ x + m @ x + x @ m + m @ self.vector + self.vector @ m
        squares = m @ m + m @ self.matrix + self.matrix @ m + m * self.vector + x + s
        first, second = split(x, 2)
        elements = relu(x) - dynamic.maximum(x, 0.25) / dynamic.minimum(2.0 + x * x, 3.0) + concat(second, -first)
        reduced = sum(m, axis=0) + sum(m, 1)
        return (
            products,
            elements,
            squares,
            x @ x + self.vector @ x + s,
            dynamic.mean(m, axis=-1) + reduced + dynamic.sqrt(dynamic.exp(x)),
            dynamic.stack(x, self.vector),
            concat(self.vector, sigmoid(x)),
            dynamic.mean(softmax(m)) + sum(x) / 2 - 1,
        )


@dataclass
class Patch:
    pixels: Tensor["n", 3]
    weight: float


@dataclass
class Divided:
    first: Region
    second: Region


Region = Patch | Divided


class Regions(Model):
    """Attention over patches, of which each part of a picture has another number."""

    embedding: Tensor[3, H]
    bias: Tensor[H]
    wk: Tensor[H, H]
    wv: Tensor[H, H]
    gate: Tensor[H, H]

    def encode(self, region: Region, query: Tensor[H]) -> Tensor[H]:
        match region:
            case Patch(pixels, weight):
                x = tanh(pixels @ self.embedding + self.bias) * weight
                scores = softmax((x @ self.wk) @ query)
                return scores @ (x @ self.wv)
            case Divided(first, second):
                a, b = self.encode(first, query), self.encode(second, query)
                z = sigmoid((a + b) @ self.gate)
                return z * a + (1.0 - z) * b

    def main(self, region: Region, queries: Tensor["queries", H]) -> tuple[Tensor["queries", H], Tensor[H]]:
        found = [self.encode(region, query) for query in queries]
        rows = stack(*found) + queries
        return rows * rows - 0.5, dynamic.mean(rows, axis=0)
