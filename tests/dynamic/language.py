"""Models without much to compute, whose control flow uses all that models may be written with."""

from __future__ import annotations

from dataclasses import dataclass

from deploykit.dynamic import Model, Tensor, sum, tanh, zeros  # noqa: A004

N = 5
OFFSET, RATE = -2 * N + 3, 0.25


class Integers(Model):
    def main(self, a: int, b: int, flag: bool) -> tuple[int, int, int, int, int, int, int, bool, bool]:
        quotient, rest = 0, 0
        if b != 0:
            quotient, rest = a // b, a % b
        small = min(a, b) * 3 - max(a, -b)
        a, b = b, a
        a += 2
        a -= b
        a *= -3
        c = d = a % 1009
        d = d + flag * 2 + (flag == True)  # noqa: E712
        hashed = N
        for _ in range(12):
            hashed = (hashed * hashed + hashed + OFFSET) % 1009
            hashed = (hashed + hashed * 3) % 997
        return quotient, rest, small, c, d, hashed, +b, a < b <= c != d, not (flag and a > 0) or b == c


class Floats(Model):
    def main(self, x: float, y: float, n: int) -> tuple[float, float, float, float, float, bool, bool, bool]:
        product = x * y - x * y + x * RATE
        total: float = n
        mean = n / 3 + total / 7
        best = max(min(x, y), n)
        if x < y:
            x = x - 1
        elif x == y:
            x = y * 2.0
        else:
            x, y = y, x
        return product, mean, best, -x + 1, float(n) - float(y), x < n, 0.0 <= y < x < 2, x < 1e308 * 10.0


class Conditions(Model):
    """Operands that only some conditions compute: computing them all would fail."""

    def at(self, xs: list[int], index: int) -> int:
        assert index < len(xs), "out of range"
        return xs[index]

    def main(self, xs: list[int], i: int, n: int) -> tuple[bool, bool, bool, int, int]:
        found = i >= 0 and i < len(xs) and xs[i] > 0
        missing = i < 0 or i >= len(xs) or self.at(xs, i) < 0 or False
        chained = 0 <= i < len(xs) and 0 < n < 10 // n < 9
        choice = xs[i] if 0 <= i < len(xs) else (-1 if i < 0 else -2)
        if found and not missing:
            if n > 2:
                kind = 1
            elif n == 0:
                kind = 100 // (n + 1)
            else:
                kind = n
        elif missing:
            kind = 7
        else:
            kind = -7
        return found, missing, chained, choice, kind


class Loops(Model):
    def main(self, xs: list[int], n: int) -> tuple[list[int], list[int], int, int, int, int, int]:  # noqa: C901
        odd: list[int] = []
        last, place = -1, -1
        for place, x in enumerate(xs):  # noqa: B007
            if x % 2 == 0:
                continue
            last = x
            if len(odd) >= 3:
                break
            odd = [*odd, x]
        pairs, previous = 0, 0
        for i, (a, b) in enumerate(zip(xs, reversed(xs))):  # noqa: B905
            for j in range(i, n):
                if j == a:
                    break
                if a > b and j > 2:
                    continue
                pairs += i * j + b - previous
                previous = a
            else_value = pairs
            pairs = else_value
        a, b = 0, 1
        while b < n * 10:
            a, b = b, a + b
            if a == 8:
                break
        grown = xs
        for x in grown:
            grown = [*grown, x + 1]
        countdown = 0
        for i in reversed(range(n)):
            countdown = countdown * 3 + i
            n = n - 1
        going = True
        while going:
            n += 3
            going = n % 7 != 0
        x = 99
        for x in xs:  # noqa: B007
            pass
        return odd, grown, last * 1000 + place, pairs, a, countdown + n, x


class Kept(Model):
    """Names that a round of a loop assigns before it ends early, or reads them."""

    w: Tensor[3, 3]

    def main(self, xs: list[int], ts: list[Tensor[3]]) -> tuple[int, int, Tensor[3], Tensor[3]]:
        a, b, t, u = 0, 0, zeros(3), zeros(3)
        for x, each in zip(xs, ts):  # noqa: B905
            if x < 0:
                a = x
                t = tanh(each @ self.w)
            if x % 3 == 0:
                continue
            if x > 6:
                b = 2 * x
                break
            gate = tanh(each @ self.w + t)
            u = gate * u + each
            a = b
            t = u + gate
            b = x + a
        return a, b, t, u


class Lists(Model):
    def total(self, xs: list[int]) -> int:
        found = 0
        for x in xs:
            found += x
        return found

    def main(
        self, rows: list[list[int]], pairs: list[tuple[int, float]], flags: list[bool]
    ) -> tuple[list[int], list[int], list[int], list[float], list[bool], int, list[int], list[int]]:
        lengths = [len(row) for row in rows]
        totals = [self.total(row) for row in rows]
        doubled = [[x * 2 for x in row] for row in rows]
        sums = [self.total(row) + i for i, row in enumerate(doubled)]
        base = [1, 2]
        left = [*base, 3]
        right = [*base, 4, 5]
        both = [*left, 6]
        longer = [*left, 7]
        mixed = [a * left[-1] + right[-2] + both[-1] for a, _ in pairs]
        floats = [b / 2 + a for a, b in pairs]
        inverted = [not flag for flag in reversed(flags)]
        chosen = rows[1] if len(rows) > 1 else base
        deep = [[(i, [i, i + 1]) for i in range(len(row))] for row in rows]
        count = 0
        for row in deep:
            for i, inner in row:
                count += i * inner[1] + len(inner)
        return lengths, totals, sums, floats, inverted, count, mixed, [*chosen, longer[3], both[3]]


@dataclass
class Nothing:
    pass


@dataclass
class Cell:
    value: int
    score: float
    rest: Chain


@dataclass
class Jump:
    rest: Chain
    size: tuple[int, bool]


Chain = Nothing | Cell | Jump


@dataclass
class Point:
    x: int
    y: int


class Records(Model):
    def reverse(self, chain: Chain, done: Chain) -> Chain:
        match chain:
            case Cell(value=value, rest=rest) as cell:
                return self.reverse(rest, Cell(value + 1, cell.score * 2, done))
            case Jump(rest, _):
                return self.reverse(rest, done)
            case _:
                return done

    def is_even(self, chain: Chain) -> bool:
        match chain:
            case Nothing():
                return True
            case Cell(_, _, rest):
                return self.is_odd(rest)
            case Jump(size=size, rest=rest):
                return self.is_odd(rest) if size[1] else self.is_even(rest)

    def is_odd(self, chain: Chain) -> bool:
        if isinstance(chain, Nothing):
            return False
        if isinstance(chain, Cell):
            return self.is_even(chain.rest)
        if not isinstance(chain, Jump):
            return True
        return self.is_even(chain.rest) if chain.size[1] else self.is_odd(chain.rest)

    def main(self, chain: Chain, points: list[Point]) -> tuple[bool, bool, list[int], float, int]:
        values: list[int] = []
        score = 0.0
        value = -1
        current = self.reverse(chain, Nothing())
        while isinstance(current, Cell):
            match current:
                case Cell(value, more, current):
                    values = [*values, value]
                    score = score * 0.5 + more
        moved = [Point(point.y, point.x + 1) for point in points]
        corner = Point(x=0, y=value)
        for point in moved:
            corner = Point(corner.x + point.x * point.y, max(corner.y, point.y))
        return self.is_even(chain), self.is_odd(chain), values, score, corner.x * 100 + corner.y


def gcd(a: int, b: int) -> int:
    return a if b == 0 else gcd(b, a % b)


def paths(rows: int, columns: int) -> int:
    if rows == 0 or columns == 0:
        return 1
    return paths(rows - 1, columns) + paths(rows, columns - 1)


def twice(x):
    N = x  # noqa: N806
    return N + N


class Calls(Model):
    def gcd(self, a: int, b: int) -> int:
        """Another function than that of the module."""
        return gcd(a, b) + 1 if a > b else -1

    def swapped(self, pair: tuple[int, int], times: int) -> tuple[int, int]:
        a, b = pair
        for _ in range(times):
            a, b = b, a + 1
        return a, b

    def main(self, a: int, b: int) -> tuple[int, int, int, int, tuple[int, int], int]:
        N = 3  # noqa: N806
        first, second = gcd(a, b), self.gcd(a, b)
        p, q = paths(a % 4, b % 4), gcd(b=b, a=a)
        return first, second, p, q, (twice(a), twice(b) + N), twice(N) + OFFSET


class Tensors(Model):
    w: Tensor[3, 3]
    rows: Tensor[4, 3]

    def mixed(self, x: Tensor[3], depth: int) -> Tensor[3]:
        if depth <= 0:
            return x
        before = x
        x = tanh(x @ self.w)
        return self.mixed(x, depth - 1) + before * RATE

    def main(self, xs: list[Tensor[3]], picks: list[int]) -> tuple[Tensor[3], float, list[Tensor[3]], int, list[float]]:
        kept = zeros(3)
        previous = kept
        history: list[Tensor[3]] = []
        for x in xs:
            previous, kept = kept, tanh(x + previous * 0.5)
            history = [kept, previous] if len(history) >= 4 else [*history, kept - previous]
        chosen = [self.rows[pick] + 1.0 for pick in picks]
        if len(chosen) > 0:
            kept = kept + sum(chosen)
        weight = self.rows[0]
        for pick in picks:
            if float(sum(weight)) > 0.0:
                weight = self.rows[pick] - weight
            else:
                kept, weight = weight, kept
        grown = [self.mixed(x, pick) for x, pick in zip(history, picks)]  # noqa: B905
        score, steps = float(sum(kept)), 0
        while score < 2.0 and steps < 5:
            steps += 1
            score = score + float(sum(tanh(kept * 0.5))) + 0.5
        return kept, score, grown, steps, [float(sum(each)) for each in grown]


class Sums(Model):
    """Sums of a list that is given, of one that is computed, and inside a loop."""

    w: Tensor[3, 3]

    def main(self, xs: list[Tensor[3]], n: int) -> tuple[Tensor[3], Tensor[3]]:
        state = sum(xs)
        for _ in range(n):
            state = tanh(sum([tanh(x @ self.w + state) for x in xs]))
        return sum([x @ self.w for x in xs]), state


class Parts(Model):
    """Parts of lists, indices from their ends, lists put together, and conditions in comprehensions."""

    rows: Tensor[4, 2]

    def doubled(self, xs: list[int]) -> list[int]:
        return [2 * x for x in xs if x > 0]

    def main(
        self, xs: list[int], ts: list[Tensor[2]], i: int, j: int
    ) -> tuple[list[int], list[int], list[int], list[int], list[int], list[Tensor[2]], list[Tensor[2]], Tensor[2]]:
        head, tail, middle = xs[:i], xs[j:], xs[i:j]
        grown = [*head, 7, *tail[1:-1], *middle]
        shrunk = [*head[:-1], i]
        kept = [x for x, y in zip(xs, [0, *xs]) if x != y if x % 3 > 0]  # noqa: B905
        pairs = [*self.doubled(xs), *[self.doubled([x, x])[-1] for x in xs if x > 0]]
        near = xs[i] if -len(xs) <= i < len(xs) else 0
        warm = [t + self.rows[j % 4 - 4] for t in ts if float(sum(t)) > 0.0]
        ts = [*ts[2:], self.rows[-1], *ts[:-1]]
        return grown, shrunk, kept, pairs, [near, *xs[-2:]], warm, ts[-3:], ts[-(len(ts) // 2) - 1]
