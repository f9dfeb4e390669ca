"""Fixtures that every test may use.

`golden` pins generated text: `golden(text)` compares `text` with `golden/<test module>/<test name>.txt` beside the
test. `pytest --update-golden` rewrites the file. A missing file is a failure.

`runtime` is each of `tests.runtimes.RUNTIMES` in turn. `check` compares a model's results on each of them with those of
ONNX's reference implementation.

`@pytest.mark.sampled(part=n)`: with `pytest --slice NAME`, about one in `n` cases of the test runs. The name alone
selects the cases. `make test` gives the commit as the name. Without the option, all cases run. On runtimes other than
the host, about one case in `n` times the runtime's cost runs. There, tests that take `check` are also sampled, with
`ELSEWHERE` as the least `n`. Other tests with `@pytest.mark.slow` are sampled with `SLOW` as `n`, and cases of other
tests that have several with `CASES`.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Protocol

import pytest

from tests.frontends.onnx.harness import Check
from tests.runtimes import HOST, RUNTIMES, Runtime

if TYPE_CHECKING:
    from pathlib import Path

ELSEWHERE = 60
SLOW = 32
CASES = 4


class Golden(Protocol):
    def __call__(self, text: str, name: str | None = None) -> None: ...


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite golden files instead of comparing")
    parser.addoption("--slice", metavar="NAME", help="of sampled tests, run the cases that this name selects")


def pytest_report_header(config: pytest.Config) -> str | None:
    name = config.getoption("--slice")
    return f"slice {name}: run the same cases again with --slice {name}" if name else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        runtime = _runtime(item)
        reason = runtime and runtime.exceptions.get(_case(item, runtime))
        if reason:
            item.add_marker(pytest.mark.xfail(reason=reason, strict=True))
    name = config.getoption("--slice")
    if name:
        chosen = [_is_in_slice(item, name) for item in items]
        config.hook.pytest_deselected(items=[item for item, runs in zip(items, chosen, strict=True) if not runs])
        items[:] = [item for item, runs in zip(items, chosen, strict=True) if runs]


def _is_in_slice(item: pytest.Item, name: str) -> bool:
    part = _part(item)
    digest = hashlib.sha256(f"{name} {item.nodeid}".encode()).digest()
    return int.from_bytes(digest[:8], "big") % part == 0


def _part(item: pytest.Item) -> int:
    """A slice holds about one in this many cases like this one."""
    marker, runtime = item.get_closest_marker("sampled"), _runtime(item) or HOST
    if runtime is not HOST and "check" in getattr(item, "fixturenames", ()):
        return max(ELSEWHERE, marker.kwargs["part"] if marker else 1) * runtime.cost
    if marker:
        return int(marker.kwargs["part"]) * runtime.cost
    if item.get_closest_marker("slow"):
        return SLOW
    return CASES if _parameters(item) - {"runtime"} else 1


def _parameters(item: pytest.Item) -> set[str]:
    return set(item.callspec.params) if hasattr(item, "callspec") else set()


def _runtime(item: pytest.Item) -> Runtime | None:
    found = item.callspec.params.get("runtime") if hasattr(item, "callspec") else None
    return found if isinstance(found, Runtime) else None


def _case(item: pytest.Item, runtime: Runtime) -> str:
    """The id of a test without the runtime."""
    place = item.nodeid.partition("[")[0]
    others = "-".join(part for part in item.callspec._idlist if part != runtime.name)  # type: ignore[attr-defined]
    return f"{place}[{others}]" if others else place


@pytest.fixture(params=[pytest.param(r, id=r.name, marks=[] if r is HOST else [pytest.mark.slow]) for r in RUNTIMES])
def runtime(request: pytest.FixtureRequest) -> Runtime:
    found: Runtime = request.param
    if found.missing:
        pytest.skip(found.missing)
    return found


@pytest.fixture
def check(runtime: Runtime) -> Check:
    return Check(runtime)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    folder: Path = request.path.parent / "golden" / request.path.stem.removeprefix("test_")
    default = re.sub(r"[^\w.-]+", "-", request.node.name.removeprefix("test_")).strip("-") + ".txt"
    update = request.config.getoption("--update-golden")

    def compare(text: str, name: str | None = None) -> None:
        """`name` is the name of the golden file, by default that of the test."""
        path = folder / (name or default)
        if update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            return
        assert path.exists(), f"{path} does not exist; run pytest --update-golden and read what it writes"
        assert text == path.read_text(encoding="utf-8"), f"differs from {path}; see pytest --update-golden"

    return compare
