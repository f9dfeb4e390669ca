"""Random programs with integers, floats, lists, tensors, branches, loops and calls, which all end."""

from __future__ import annotations

import random

HEAD = """from __future__ import annotations

from deploykit.dynamic import Model, Tensor, sum, tanh


def step(n: int, xs: list[int], t: Tensor[3]) -> tuple[int, list[int], Tensor[3]]:
    if n <= 0 or len(xs) > 5:
        return n, xs, t
    m, ys, u = step(n - 1 - n % 2, [*xs, n], t * 0.5)
    return m + len(ys), [*ys, m % 7], tanh(u + t)


def pick(n: int, xs: list[int]) -> int:
    return xs[n % (2 * len(xs)) - len(xs)] if len(xs) > 0 else n


class Random(Model):
    rows: Tensor[4, 3]
    w: Tensor[3, 3]

    def main(self, a: int, b: int, p: list[int], f: float, t: Tensor[3]) -> tuple[
        int, int, int, list[int], list[int], float, float, Tensor[3], Tensor[3]
    ]:
        c, q, g, u = 1, [a, b], 0.5, self.rows[1]
"""

INTEGERS, LISTS, FLOATS, TENSORS = "abc", "pq", "fg", "tu"


class Writer:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.count = 0

    def one(self, *texts: str) -> str:
        return self.random.choice(texts)

    def integer(self, depth: int = 2) -> str:
        r = self.random
        if depth == 0 or r.random() < 0.3:
            return self.one(*INTEGERS, str(r.randint(-5, 9)), f"len({r.choice(LISTS)})")
        a, b = self.integer(depth - 1), self.integer(depth - 1)
        return self.one(
            f"({a} + {b})",
            f"({a} - {b})",
            f"({a} * {r.randint(-3, 3)})",
            f"({a} // {r.choice((-3, 2, 5))})",
            f"({a} % {r.choice((-4, 3, 7))})",
            f"min({a}, {b})",
            f"max({a}, {b})",
            f"({a} if {self.test(0)} else {b})",
            f"pick({a}, {r.choice(LISTS)})",
            f"-{r.choice(INTEGERS)}",
        )

    def real(self) -> str:
        f, g = self.random.choice(FLOATS), self.random.choice(FLOATS)
        return self.one(f"{f} * 0.5 + {g}", f"{f} - {self.integer(1)}", f"{self.integer(1)} / 3", f"min({f}, {g})", g)

    def items(self) -> str:
        p, q = self.random.choice(LISTS), self.random.choice(LISTS)
        return self.one(
            f"[*{p}, {self.integer(1)}] if len({p}) < 6 else [a]",
            f"[x + {self.integer(1)} for x in {p}]",
            f"[pick(x, {q}) for x in reversed({p})]",
            f"[x * y % 31 for x, y in zip({p}, {q})]",
            f"[i - x for i, x in enumerate({p})]",
            f"{p}[{self.integer(1)} :]",
            f"{p}[{self.integer(0)} : {self.integer(1)}]",
            f"[x for x in {p} if {self.test(0)}]",
            f"[pick(x, {q}) for x in {p} if x > {self.integer(0)}]",
            f"[*{p}[:2], {self.integer(1)}, *{q}[-2:]]",
            q,
        )

    def tensor(self) -> str:
        t, u = self.random.choice(TENSORS), self.random.choice(TENSORS)
        return self.one(
            f"tanh({t} + self.rows[{self.integer(1)} % 4])",
            f"{t} * 0.5 - {u}",
            f"tanh({t} @ self.w)",
            u,
            "self.rows[2]",
        )

    def test(self, depth: int = 1) -> str:
        a, b = self.integer(depth), self.integer(depth)
        tests = [
            f"{a} < {b}",
            f"{a} % 2 == 0",
            f"{a} <= {b} != c",
            f"{self.random.choice(FLOATS)} > {self.random.choice(FLOATS)} + 0.1",
        ]
        if depth:
            tests += [f"({self.test(0)} and {self.test(0)})", f"({self.test(0)} or not {self.test(0)})"]
        return self.one(*tests)

    def block(self, indent: int, depth: int, looping: bool) -> None:
        for _ in range(self.random.randint(1, 4)):
            self.statement(indent, depth, looping)

    def write(self, indent: int, text: str) -> None:
        self.lines.append("    " * indent + text)

    def statement(self, indent: int, depth: int, looping: bool) -> None:
        kind = self.random.random()
        if kind < 0.45 or depth == 0:
            self.write(indent, self.simple())
        elif kind < 0.65:
            self.write(indent, f"if {self.test()}:")
            self.block(indent + 1, depth - 1, looping)
            if self.random.random() < 0.4:
                self.write(indent, f"elif {self.test()}:")
                self.block(indent + 1, depth - 1, looping)
            if self.random.random() < 0.6:
                self.write(indent, "else:")
                self.block(indent + 1, depth - 1, looping)
        elif kind < 0.72 and looping:
            self.write(indent, f"if {self.test()}:")
            self.write(indent + 1, self.one("break", "continue"))
        else:
            self.loop(indent, depth)

    def loop(self, indent: int, depth: int) -> None:
        self.count += 1
        own = f"i{self.count}"
        p, q = self.random.choice(LISTS), self.random.choice(LISTS)
        head, first = self.random.choice(
            [
                (f"for {own} in range({self.random.randint(0, 3)}):", f"a = (a + {own}) % 101"),
                (f"for {own} in {p}:", f"b = ({own} + c) % 11"),
                (f"for c, {own} in enumerate(zip({p}, {q})):", f"a = (a - {own}[1]) % 103"),
                (f"for {self.random.choice(INTEGERS)} in reversed({p}):", "c = c % 13"),
                (f"while {own} < 3 and {self.test()}:", f"{own} += 1"),
            ]
        )
        if head.startswith("while"):
            self.write(indent, f"{own} = 0")
        self.write(indent, head)
        self.write(indent + 1, first)
        self.block(indent + 1, depth - 1, looping=True)

    def simple(self) -> str:
        r = self.random
        return self.one(
            f"{r.choice(INTEGERS)} = {self.integer()} % {r.choice((-17, 19))}",
            f"a, b, c = b, {self.integer(1)} % 23, a",
            f"{r.choice(LISTS)} = {self.items()}",
            "p, q = q, p",
            f"{r.choice(FLOATS)} = {self.real()}",
            f"{r.choice(FLOATS)} = float(sum({r.choice(TENSORS)}))",
            f"{r.choice(TENSORS)} = {self.tensor()}",
            "t, u = u, t",
            f"c, {r.choice(LISTS)}, {r.choice(TENSORS)} = step({self.integer(1)} % 5, q, t)",
            f"{r.choice(INTEGERS)} += {self.integer(1)} % 5",
        )


def program(seed: int) -> str:
    """The source of a module with a model `Random`."""
    writer = Writer(seed)
    for _ in range(9):
        writer.statement(2, 2, looping=False)
    ends = ["a, b, c = a % 1009, b % 1009, c % 1009", "return a, b, c, p, q, f, g, t, u"]
    return HEAD + "\n".join([*writer.lines, *("        " + line for line in ends)]) + "\n"
