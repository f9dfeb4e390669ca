"""Programs that cannot be compiled: one message has every fault, with its place, its line, and what to write."""

from __future__ import annotations

from pathlib import Path

import pytest

import deploykit
from deploykit.errors import UnsupportedModelError, UsageError
from tests.conftest import Golden

FAULTY = Path(__file__).with_name("faulty")


@pytest.mark.parametrize("name", ["declarations", "expressions", "statements"])
def test_every_fault_is_reported(name: str, golden: Golden, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedModelError) as refused:
        deploykit.build(f"{FAULTY / f'{name}.py'}:{name.capitalize()}", output=tmp_path / "dist")
    golden(str(refused.value).replace(f"{FAULTY}/", "") + "\n")


ONE_EACH = {
    "hidden number": ("if n > 0:\n            N = 7\n        return N", "'N' has no value here"),
    "used up": ("pairs = zip(xs, xs)\n        return n", "one loop uses this up"),
    "tuple that is used up": ("pairs, k = reversed(xs), n\n        return n", "one loop uses this up"),
    "length of a zip": ("return len(zip(xs, xs))", "'len' takes a list"),
    "reversed enumerate": ("return len([i for i, _ in reversed(enumerate(xs))])", "'reversed' takes a list or a range"),
    "twice": ("return self.inner(n, x=n)", "'inner' takes x"),
    "infinite": ("return 1 if 1e999 > 0.0 else 0", "'1e309' cannot be used"),
    "decorated": ("return self.decorated(n)", "a function of a model has no decorators"),
    "changed tensor": ("w = self.w\n        w += w\n        return n", "this changes the tensor wherever it is used"),
    "loop variable": ("for i in xs:\n            pass\n        return i", "'i' has no value here"),
    "comprehension variable": ("ys = [i for i in xs]\n        return i", "'i' has no value here"),
}

PROGRAM = """
from deploykit.dynamic import Model, Tensor

N = 5

def decorator(f):
    return lambda self, x: 2 * f(self, x)

class Faulty(Model):
    w: Tensor[2]

    def inner(self, x: int) -> int:
        return x

    @decorator
    def decorated(self, x: int) -> int:
        return x

    def main(self, n: int, xs: list[int]) -> int:
        BODY
"""


@pytest.mark.parametrize("name", ONE_EACH)
def test_what_would_mean_something_else_is_refused(name: str, tmp_path: Path) -> None:
    body, message = ONE_EACH[name]
    source = tmp_path / "faulty.py"
    source.write_text(PROGRAM.replace("BODY", body))
    with pytest.raises(UnsupportedModelError) as refused:
        deploykit.build(f"{source}:Faulty", output=tmp_path / "dist")
    assert message in str(refused.value)
    assert "1 fault\n" in str(refused.value)


@pytest.mark.parametrize("value", ["1 // 0", "1e308 * 10", "-1e999", "5 % 0.0"])
def test_numbers_of_a_module_are_finite(value: str, tmp_path: Path) -> None:
    source = tmp_path / "faulty.py"
    source.write_text(PROGRAM.replace("BODY", "return n").replace("N = 5", f"N = {value}"))
    with pytest.raises(UnsupportedModelError, match=r"faulty\.py:4:\d+: "):
        deploykit.build(f"{source}:Faulty", output=tmp_path / "dist")


def test_a_type_without_a_smallest_object_is_refused(tmp_path: Path) -> None:
    source = tmp_path / "faulty.py"
    types = "from dataclasses import dataclass\n\n@dataclass\nclass Link:\n    rest: tuple[int, 'Link']\n"
    source.write_text(types + PROGRAM.replace("BODY", "return n"))
    with pytest.raises(UnsupportedModelError, match="no 'Link' can exist"):
        deploykit.build(f"{source}:Faulty", output=tmp_path / "dist")


def test_files_that_are_no_models(tmp_path: Path) -> None:
    source = tmp_path / "broken.py"
    source.write_text("class Model(:\n")
    with pytest.raises(UsageError, match=r"broken\.py"):
        deploykit.build(f"{source}:Model", output=tmp_path / "dist")
    source.write_text("class Other:\n    pass\n")
    with pytest.raises(UsageError):
        deploykit.build(f"{source}:Model", output=tmp_path / "dist")
    source.write_text("class Other:\n    pass\n")
    with pytest.raises(UnsupportedModelError, match="'Other' has no method 'main'"):
        deploykit.build(f"{source}:Other", output=tmp_path / "dist")
