"""What models are written with means the same in an artifact as in Python."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import deploykit
from deploykit.errors import DataError
from tests.dynamic import language
from tests.dynamic.harness import assert_close, build, eager
from tests.dynamic.instances import Random, vector, whole

LANGUAGE = Path(language.__file__)
LARGEST = 2**31 - 1


def integers(random: Random, most: int = 6, bound: int = 9) -> list[int]:
    return [whole(random, -bound, bound) for _ in range(whole(random, 0, most))]


def real(random: Random) -> float:
    return [whole(random, -2, 2), random.standard_normal() * 3, 0.1][whole(random, 0, 2)] * 1.0


def chain(random: Random, depth: int = 8) -> language.Chain:
    kind = whole(random, 0, 4) if depth else 0
    if kind == 0:
        return language.Nothing()
    if kind == 1:
        return language.Jump(chain(random, depth - 1), (whole(random, 0, 3), bool(whole(random, 0, 1))))
    return language.Cell(whole(random, -9, 9), real(random), chain(random, depth - 1))


def tensors(random: Random) -> tuple[list[np.ndarray], list[int]]:
    return [vector(random, 3) for _ in range(whole(random, 0, 6))], random.integers(0, 4, whole(random, 0, 6)).tolist()


MAKERS: dict[str, Callable[[Random], Any]] = {
    "Integers": lambda random: (whole(random, -40, 40), whole(random, -7, 7), bool(whole(random, 0, 1))),
    "Floats": lambda random: (real(random), real(random), whole(random, -3, 3)),
    "Conditions": lambda random: (integers(random), whole(random, -2, 7), whole(random, -1, 5)),
    "Loops": lambda random: (integers(random), whole(random, 0, 8)),
    "Kept": lambda random: (integers(random, 9), [vector(random, 3) for _ in range(9)]),
    "Lists": lambda random: (
        [integers(random, 4) for _ in range(whole(random, 0, 4))],
        [(whole(random, -5, 5), real(random)) for _ in range(whole(random, 0, 4))],
        [bool(whole(random, 0, 1)) for _ in range(whole(random, 0, 4))],
    ),
    "Records": lambda random: (
        chain(random),
        [language.Point(whole(random, -9, 9), whole(random, -9, 9)) for _ in range(whole(random, 0, 4))],
    ),
    "Calls": lambda random: (whole(random, 0, 60), whole(random, 0, 60)),
    "Tensors": tensors,
    "Parts": lambda random: (
        integers(random),
        [vector(random, 2) for _ in range(whole(random, 0, 6))],
        *(whole(random, -8, 8) for _ in range(2)),
    ),
    "Sums": lambda random: ([vector(random, 3) for _ in range(whole(random, 1, 19))], whole(random, 0, 3)),
}


@pytest.mark.parametrize("name", MAKERS)
def test_language(name: str, tmp_path: Path) -> None:
    random = np.random.default_rng(len(name))
    given = [MAKERS[name](random) for _ in range(300)]
    model = getattr(language, name)()
    with deploykit.open(build(f"{LANGUAGE}:{name}", tmp_path / name)) as session:
        for policy in ("critical", "alone"):
            session.policy = policy
            assert_close(session(given), eager(model, given))
            assert_close(session(given[:1]), eager(model, given[:1]))


def test_a_sum_of_a_list_has_a_logarithmic_depth(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    with deploykit.open(build(f"{LANGUAGE}:Sums", tmp_path / "dist")) as session:
        for count, depth in ((1, 0), (2, 1), (3, 2), (32, 5), (33, 6)):
            given = [([vector(random, 3) for _ in range(count)], 0)]
            assert_close(session(given), eager(language.Sums(), given))
            assert (
                sum(launches for _, launches in session.launches) == depth + 1
            )  # the products come first, and both sums share launches


FAILING = """
from deploykit.dynamic import Model, Tensor, sum


class Failing(Model):
    rows: Tensor[4, 3]

    def main(self, kind: int, a: int, b: int, xs: list[int], y: float) -> int:
        if kind == 0:
            return a + b
        if kind == 1:
            return a * b - a * b
        if kind == 2:
            return a // b
        if kind == 3:
            return a % b
        if kind == 4:
            return xs[a]
        if kind == 5:
            return xs[-1]
        if kind == 6:
            assert a < b
            return a
        if kind == 7:
            return 1 if float(sum(self.rows[a])) > 100.0 else 0
        if kind == 8:
            return 1 if 1.0 / y > 0.0 else 0
        if kind == 9:
            return 1 if a / b > 0.0 else 0
        if kind == 10:
            return -a
        if kind == 11:
            total = 0
            while total >= 0:
                total += a
            return total
        return kind
"""

REFUSED = [
    ((0, LARGEST, 1, [], 0.0), "the integer 2147483648 has more than 32 bits"),
    ((0, -LARGEST, -2, [], 0.0), "the integer -2147483649 has more than 32 bits"),
    ((1, 2**20, 2**20, [], 0.0), "the integer 1099511627776 has more than 32 bits"),
    ((2, 3, 0, [], 0.0), "line 14: division by 0"),
    ((2, -LARGEST - 1, -1, [], 0.0), "the integer 2147483648 has more than 32 bits"),
    ((3, 3, 0, [], 0.0), "line 16: division by 0"),
    ((4, 2, 0, [1, 2], 0.0), "line 18: the index 2 is not in the list"),
    ((4, -3, 0, [1, 2], 0.0), "line 18: the index -3 is not in the list"),
    ((5, 0, 0, [], 0.0), "line 20: the index -1 is not in the list"),
    ((6, 3, 3, [], 0.0), "line 22: 'a < b' does not hold"),
    ((7, 4, 0, [], 0.0), "line 25: row 4 of 'rows' of 4"),
    ((7, -5, 0, [], 0.0), "line 25: row -5 of 'rows' of 4"),
    ((8, 0, 0, [], 0.0), "line 27: division by 0"),
    ((9, 1, 0, [], 0.0), "line 29: division by 0"),
    ((10, -LARGEST - 1, 0, [], 0.0), "the integer 2147483648 has more than 32 bits"),
    ((11, LARGEST, 0, [], 0.0), "the integer 4294967294 has more than 32 bits"),
]


def test_what_fails_in_python_is_refused(tmp_path: Path) -> None:
    source = tmp_path / "failing.py"
    source.write_text(FAILING)
    with deploykit.open(build(f"{source}:Failing", tmp_path / "dist")) as session:
        fine = (4, 1, 0, [1, 2], 0.0)
        for instance, message in REFUSED:
            with pytest.raises(DataError) as refused:
                session([fine, instance, fine])
            assert message in str(refused.value)
            assert session([fine]) == [2]


SHARED = """
from deploykit.dynamic import Model, Tensor


class Base(Model):
    w: Tensor[2]

    def value(self, n: int) -> int:
        return 1 if n > 0 else 2

    def other(self, n: int) -> int:
        return 10 if n > 0 else 20


class First(Base):
    first: Tensor[3]

    def other(self, n: int) -> int:
        return 30 if n > 0 else 40


class Second(Base):
    second: Tensor[2]

    def value(self, n: int) -> int:
        return 5 if n > 0 else 6

    def other(self, n: int) -> int:
        return 50 if n > 0 else 60


class Both(First, Second):
    own: Tensor[2]

    def main(self, n: int) -> tuple[int, int, Tensor[3], Tensor[2], Tensor[2]]:
        return self.value(n), self.other(n), self.first * 1.0, self.second + self.own, self.w * 1.0
"""


def test_bases_are_searched_in_the_order_of_python(tmp_path: Path) -> None:
    source = tmp_path / "bases.py"
    source.write_text(SHARED)
    names: dict[str, Any] = {"__name__": "bases"}
    exec(compile(SHARED, str(source), "exec", dont_inherit=True), names)
    with deploykit.open(build(f"{source}:Both", tmp_path / "dist")) as session:
        assert_close(session([1, -1]), eager(names["Both"](), [1, -1]))


def test_long_chains_of_numbers_are_computed_once(tmp_path: Path) -> None:
    """Each name stands for a number, not for the expression that it was given, which would double with each line."""
    steps = "".join("        a = (a + a * 3) % 1009\n" for _ in range(40))
    source = tmp_path / "chains.py"
    head = "from deploykit.dynamic import Model\n\n\nclass Chains(Model):\n    def main(self, a: int) -> int:\n"
    source.write_text(f"{head}{steps}        return a\n")
    with deploykit.open(build(f"{source}:Chains", tmp_path / "dist")) as session:
        expected = [pow(4, 40, 1009) * a % 1009 for a in (3, 1000)]
        assert session([3, 1000]) == expected
