"""Tensors whose number of rows only an instance knows: the same results as with NumPy, and clear errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import deploykit
from deploykit.compiler.batching.cells import Step
from deploykit.errors import DataError, ShapeError, UnsupportedModelError
from deploykit.frontends.python.models import import_model
from tests.dynamic.harness import assert_close, assert_same_bits, eager
from tests.dynamic.instances import Random, vector, whole

HEAD = """
from deploykit import dynamic
from deploykit.dynamic import Model, Tensor, concat, softmax, split, stack, sum, tanh


def halves(rows: Tensor["n", 4]) -> Tensor["n", 4]:
    a, b = split(rows, 2)
    return concat(b, a)


class Rows(Model):
    w: Tensor[4, 4]
    b: Tensor[4]
    t: Tensor[3, 4, 4]

    def main(self, x: Tensor["n", 4], y: Tensor["n", 4], v: Tensor["n"], u: Tensor[4], s: float) -> {returns}:
        {body}
"""


class Writer:
    """Writes random expressions of the types `Tensor["n", 4]` (`rows`) and `Tensor["n"]` (`column`)."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)

    def pick(self, *texts: str) -> str:
        return texts[whole(self.random, 0, len(texts) - 1)]

    def rows(self, depth: int) -> str:
        if depth == 0:
            return self.pick("x", "y")
        one, other = self.rows(depth - 1), self.pick("self.b", "(u + self.b)", "s", "0.5", self.rows(depth - 1))
        return self.pick(
            f"tanh({one})",
            f"-{one}",
            f"({one} + {other})",
            f"({other} * {one})",
            f"({one} - {other})",
            f"({one} / (2.0 + dynamic.exp({self.rows(0)})))",
            f"dynamic.maximum({one}, {other})",
            f"({one} @ self.w)",
            f"softmax({one})",
            f"halves({one})",
        )

    def column(self, depth: int) -> str:
        if depth == 0:
            return "v"
        return self.pick(
            f"({self.rows(depth - 1)} @ u)",
            f"sum({self.rows(depth - 1)}, axis=1)",
            f"dynamic.mean({self.rows(depth - 1)}, axis=-1)",
            f"({self.column(depth - 1)} * s)",
            f"({self.column(depth - 1)} + {self.column(depth - 1)})",
            f"softmax({self.column(depth - 1)})",
        )

    def tensor(self, depth: int) -> tuple[str, str]:
        """A type and an expression."""
        kind = whole(self.random, 0, 5)
        rows, column = self.rows(depth), self.column(depth)
        return [
            ('Tensor["n", 4]', rows),
            ('Tensor["n"]', column),
            ("Tensor[4]", f"({column} @ {rows})"),
            ("Tensor[()]", f"({column} @ {column})"),
            ("Tensor[4]", f"{self.pick('sum', 'dynamic.mean')}({rows}, axis={self.pick('0', '-2')})"),
            ("Tensor[()]", f"{self.pick('sum', 'dynamic.mean')}({self.pick(rows, column)})"),
        ][kind]


def instance(random: Random, count: int) -> tuple[Any, ...]:
    return vector(random, count, 4), vector(random, count, 4), vector(random, count), vector(random, 4), random.random()


def written(seed: int) -> str:
    writer = Writer(seed)
    kinds, texts = zip(*(writer.tensor(2) for _ in range(4)), strict=True)
    return HEAD.format(returns=f"tuple[{', '.join(kinds)}]", body=f"return {', '.join(texts)}")


def model_of(source: str) -> Any:
    names: dict[str, Any] = {"__name__": "rows"}
    exec(compile(source, "rows.py", "exec", dont_inherit=True), names)
    return names["Rows"]


@pytest.mark.slow
@pytest.mark.sampled(part=24)
@pytest.mark.parametrize("seed", range(60))
def test_random_expressions(seed: int, tmp_path: Path) -> None:
    source = written(seed)
    (tmp_path / "rows.py").write_text(source)
    random = np.random.default_rng(seed)
    given = [instance(random, count) for count in (1, 5, 2, 17, 1)]
    expected = eager(model_of(source)(), given)
    deploykit.build(f"{tmp_path / 'rows.py'}:Rows", output=tmp_path / "dist", exact=True)
    with deploykit.open(tmp_path / "dist") as session:
        session.policy = "alone"
        alone = session(given)
        assert_close(alone, expected, 1e-4)
        for policy in ("critical", "depth", "agenda"):
            session.policy = policy
            assert_same_bits(session(given), alone)


PROGRAMS = {
    "loops": (
        'list[Tensor["n", 4]]',
        """found = []
        h = x
        for row in y:
            h = tanh(h @ self.w + row)
            found = [*found, h]
        return found""",
    ),
    "branches": (
        'Tensor["n", 4]',
        """if s > 0.5:
            x = x + y
        else:
            x = x[1:] * 2
        return x * s""",
    ),
    "items": (
        "tuple[int, Tensor[4], Tensor[4]]",
        "z = tanh(x) + y\n        return len(z), z[0], sum([a * b for a, b in zip(z, x)])",
    ),
    "empty": ('tuple[Tensor[4], Tensor["n", 4]]', "return sum(x[1:1], axis=0), x[1:1] @ self.w"),
    "matrices": ('Tensor["n", 4]', "return stack(*[self.w * row for row in x]) @ u"),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str, tmp_path: Path) -> None:
    returns, body = PROGRAMS[name]
    source = HEAD.format(returns=returns, body=body).replace("found = []", f"found: {returns} = []")
    (tmp_path / "rows.py").write_text(source)
    random = np.random.default_rng(0)
    given = [instance(random, count) for count in (3, 1, 8, 2)]
    deploykit.build(f"{tmp_path / 'rows.py'}:Rows", output=tmp_path / "dist")
    with deploykit.open(tmp_path / "dist") as session:
        assert_close(session(given), eager(model_of(source)(), given))


def test_an_expression_is_one_cell(tmp_path: Path) -> None:
    body = "return tanh(x @ self.w + self.b) * s - y"
    (tmp_path / "rows.py").write_text(HEAD.format(returns='Tensor["n", 4]', body=body))
    deploykit.build(f"{tmp_path / 'rows.py'}:Rows", output=tmp_path / "dist")
    random = np.random.default_rng(0)
    with deploykit.open(tmp_path / "dist") as session:
        session([instance(random, count) for count in (1, 9, 4)])
        assert sum(count for _, count in session.launches) == 1


def test_softmax_computes_its_operand_once(tmp_path: Path) -> None:
    body = "return softmax(tanh(x @ self.w) @ u)"
    (tmp_path / "rows.py").write_text(HEAD.format(returns='Tensor["n"]', body=body))
    model = import_model(tmp_path / "rows.py", "Rows", None)
    products = [
        step for cell in model.cells for step in cell.entries if isinstance(step, Step) and step.operator == "matmul"
    ]
    assert len(products) == 2


def test_instances_that_do_not_fit(tmp_path: Path) -> None:
    """Nothing is lost: the next run is right."""
    (tmp_path / "rows.py").write_text(HEAD.format(returns="Tensor[4]", body="return softmax(v) @ (x + y)"))
    deploykit.build(f"{tmp_path / 'rows.py'}:Rows", output=tmp_path / "dist")
    x, y, v, u, s = instance(np.random.default_rng(0), 3)
    with deploykit.open(tmp_path / "dist") as session:
        with pytest.raises(DataError, match="tensors of different extents, one of 2"):
            session([(x, y[:2], v, u, s)])
        with pytest.raises(DataError, match="the softmax of an empty tensor"):
            session([(x[:0], y[:0], v[:0], u, s)])
        with pytest.raises(ShapeError, match=r"expected a tensor of shape \(4,\), found \(3,\)"):
            session([(x[:, :3], y, v, u, s)])
        with pytest.raises(ShapeError, match=r'expected Tensor\["n", 4\], found float'):
            session([(0.5, y, v, u, s)])
        (found,) = session([(x, y, v, u, s)])
        weights = np.exp(v - v.max())
        np.testing.assert_allclose(found, weights / weights.sum() @ (x + y), rtol=1e-5)


FAULTS = {
    "v * x": "each row of one tensor meets one of the other",
    "x + self.w": "each row of one tensor meets one of the other",
    "x @ y": "a product has no sum over rows",
    "u @ x": "a product has no sum over rows",
    "v @ u": "on the right there must be as many rows as on the left",
    "sum(x, axis=2)": "there is no axis 2",
    "sum(x, axis=-3)": "there is no axis -3",
    "concat(x, u)": "'concat' cannot take",
    "split(v, 2)[0]": "cannot be split",
    "stack(*[1, 2])": "'stack' takes tensors",
    "x // y": "tensors have the operators",
    "x @ self.t": "",
}


@pytest.mark.parametrize("text", FAULTS)
def test_faults(text: str, tmp_path: Path) -> None:
    (tmp_path / "rows.py").write_text(HEAD.format(returns="Tensor[4]", body=f"return {text}"))
    with pytest.raises(UnsupportedModelError) as refused:
        deploykit.build(f"{tmp_path / 'rows.py'}:Rows", output=tmp_path / "dist")
    assert FAULTS[text] in str(refused.value)


def test_changed_in_place(tmp_path: Path) -> None:
    (tmp_path / "rows.py").write_text(HEAD.format(returns='Tensor["n", 4]', body="x += y\n        return x"))
    with pytest.raises(UnsupportedModelError, match="this changes the tensor wherever it is used"):
        deploykit.build(f"{tmp_path / 'rows.py'}:Rows", output=tmp_path / "dist")
