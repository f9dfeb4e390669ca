"""Dynamic models in Java: instances of every type, the results of Python, and its messages."""

from __future__ import annotations

import ast
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import deploykit
from deploykit.artifact.devices import CODE
from deploykit.artifact.manifest import read_manifest
from deploykit.dynamic.signatures import Signature
from deploykit.dynamic.types import Bool, Float, Int, List, Tensor, Tuple, Type, Union, Unions
from deploykit.engines.native.adapters import adapters
from deploykit.errors import DataError, ShapeError
from deploykit.sessions.instances import signature_of
from deploykit.targets.android import AndroidTarget
from deploykit.targets.android.java_words import class_name, package_name
from deploykit.targets.android.running import CHOICE, JAVA
from tests.android.conftest import aar_of, needs_desktop, needs_java, on_desktop
from tests.android.test_texts import text_of
from tests.conftest import Golden
from tests.dynamic import models
from tests.dynamic.instances import MAKERS, instances
from tests.web.dynamic_models import Leaf, Node, Span, Tree

pytestmark = [needs_java, needs_desktop, pytest.mark.slow]

MODELS = Path(models.__file__)
OF_WEB = MODELS.parents[1] / "web" / "dynamic_models.py"


class Lines:
    """Writes values for `Objects.java`. An object that occurs again is a line `s`."""

    def __init__(self, signature: Signature) -> None:
        self.lines: list[str] = []
        self._unions = signature.unions
        self._known: dict[int, int] = {}

    def add(self, value: Any, kind: Type) -> None:
        if id(value) in self._known and isinstance(kind, Union):
            self.lines.append(f"s {self._known[id(value)]}")
            return
        self._known[id(value)] = len(self.lines)
        match kind:
            case Int():
                self.lines.append(f"i {value}")
            case Float():
                self.lines.append(f"f {value!r}")
            case Bool():
                self.lines.append(f"b {int(value)}")
            case Tensor():
                self.lines.append(" ".join(["t", *map(str, np.ravel(value))]))
            case List(item):
                self._all("l", list(value), [item] * len(value))
            case Tuple(items):
                self._all("u", value, items)
            case Union(name):
                own = type(value).__name__
                fields = next(each.fields for each in self._unions[name] if each.name == own)
                self._all(f"o {own}", [getattr(value, field) for field, _ in fields], [each for _, each in fields])

    def _all(self, head: str, values: Iterable[Any], kinds: Iterable[Type]) -> None:
        pairs = list(zip(values, kinds, strict=True))
        self.lines.append(f"{head} {len(pairs)}")
        for value, kind in pairs:
            self.add(value, kind)


def java_of(package: Path, place: Path) -> Callable[..., list[Any]]:
    """Runs batches of instances in Java, each of which is a list or the text of a file; returns what is printed."""
    manifest = read_manifest(package)
    assert manifest.dynamic is not None
    signature = signature_of(manifest.dynamic)
    run = on_desktop(package, "Objects", place)
    kinds = tuple(kind for _, kind in signature.takes)
    name = f"{package_name(manifest.prefix)}.{class_name(manifest.prefix)}"

    def ran(*batches: list[Any] | str) -> list[Any]:
        files = []
        for number, batch in enumerate(batches):
            files.append(place / f"{number}.txt")
            writer = Lines(signature)
            if isinstance(batch, list):
                writer.add(batch, List(kinds[0] if len(kinds) == 1 else Tuple(kinds)))
            files[-1].write_text(batch if isinstance(batch, str) else "\n".join(writer.lines))
        return run("all", name, *files)

    return ran


def as_literals(values: Iterable[Any], package: Path) -> list[Any]:
    """Results as `Objects.java` prints them."""
    entry = read_manifest(package).dynamic
    assert entry is not None
    signature = signature_of(entry)
    return [as_literal(value, signature.gives, signature.unions) for value in values]


def as_literal(value: Any, kind: Type, unions: Unions) -> Any:
    match kind:
        case Tensor():
            return [float(str(each)) for each in np.ravel(value)]
        case List(item):
            return [as_literal(each, item, unions) for each in value]
        case Tuple(items):
            return tuple(as_literal(each, item, unions) for each, item in zip(value, items, strict=True))
        case Union(name):
            own = type(value).__name__
            fields = next(each.fields for each in unions[name] if each.name == own)
            return (own, *(as_literal(getattr(value, field), each, unions) for field, each in fields))
        case _:
            return value


@pytest.fixture(scope="module")
def trees(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trees") / "dist"
    deploykit.build(f"{OF_WEB}:TreeLSTM", AndroidTarget(["x86_64"]), output=folder, devices=tuple(CODE))
    return folder


@pytest.fixture(scope="module")
def spans(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("spans") / "dist"
    deploykit.build(f"{OF_WEB}:Spans", AndroidTarget(["x86_64"]), output=folder)
    return folder


def test_texts(trees: Path, spans: Path, golden: Golden) -> None:
    for package, classes in ((trees, ("Tree", "Node")), (spans, ("Spans", "Span", "Instances"))):
        path = aar_of(package)
        with zipfile.ZipFile(path.with_name(f"{path.stem}-sources.jar")) as archive:
            sources = {Path(name).stem: archive.read(name).decode() for name in archive.namelist()}
        for name in classes:
            golden(sources[name], f"{name}.java")
    golden(text_of((spans / "README.md").read_text()), "README.md")


@pytest.mark.sampled(part=16)
@pytest.mark.parametrize("name", MAKERS)
def test_results_are_those_of_python(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "dist"
    deploykit.build(f"{MODELS}:{name}", AndroidTarget(["x86_64"]), output=package)
    ran = java_of(package, tmp_path)
    batches = [instances(name, count, seed=count) for count in (1, 17, 0)]
    with deploykit.open(package) as session:
        expected = [session(batch) for batch in batches]
    for line, want in zip(ran(*batches), expected, strict=True):
        assert ast.literal_eval(line) == as_literals(want, package)
    monkeypatch.setenv(CHOICE, JAVA)
    with deploykit.open(package) as session:
        for batch, want in zip(batches, expected, strict=True):
            assert as_literals(session(batch), package) == as_literals(want, package)


def test_results_may_be_objects(tmp_path: Path) -> None:
    deploykit.build(f"{OF_WEB}:Marks", AndroidTarget(["x86_64"]), output=tmp_path / "dist")
    shared = Node(Leaf(3), Leaf(4))
    batch = [Node(shared, Node(shared, Leaf(5))), Leaf(1)]
    with deploykit.open(tmp_path / "dist") as session:
        expected = session(batch)
    (line,) = java_of(tmp_path / "dist", tmp_path)(batch)
    assert ast.literal_eval(line) == as_literals(expected, tmp_path / "dist")


def test_instances_may_be_deep(trees: Path, tmp_path: Path) -> None:
    tree: Tree = Leaf(0)
    for _ in range(30_000):
        tree = Node(tree, Leaf(1))
    with deploykit.open(trees) as session:
        expected = session([tree])
    (line,) = java_of(trees, tmp_path)("l 1\nd 30000 Node\no Leaf 1\ni 0\no Leaf 1\ni 1")
    assert ast.literal_eval(line) == as_literals(expected, trees)


def test_instances_that_the_model_refuses(trees: Path, tmp_path: Path) -> None:
    with deploykit.open(trees) as session, pytest.raises(DataError) as error:
        session([Leaf(3), Leaf(99)])
    assert java_of(trees, tmp_path)([Leaf(3), Leaf(99)]) == [f"DataException: {error.value}"]


def test_every_type(spans: Path, tmp_path: Path) -> None:
    random = np.random.default_rng(0)

    def span(start: int, flags: list[bool]) -> Span:
        vector, matrix = random.standard_normal(4), random.standard_normal((2, 4))
        return Span(start, float(random.random()), vector.astype(np.float32), matrix.astype(np.float32), flags)

    vector = random.standard_normal(4).astype(np.float32)
    batch = [(0.5, [span(3, [False, True]), span(-4, [])], (7, vector)), (-1e300, [], (2**31 - 1, vector))]
    with deploykit.open(spans) as session:
        expected = session(batch)
    (line,) = java_of(spans, tmp_path)(batch)
    assert ast.literal_eval(line) == as_literals(expected, spans)


def test_messages_are_those_of_python(spans: Path, tmp_path: Path) -> None:
    good, vector = Span(0, 0.0, np.zeros(4, np.float32), np.zeros((2, 4), np.float32), []), np.zeros(4, np.float32)
    short = Span(0, 0.0, np.zeros(3, np.float32), np.zeros((2, 4), np.float32), [])
    cases = [
        (ShapeError, [(0.0, [good], (1, vector)), (0.0, [good, short], (1, vector))]),
        (ShapeError, [(0.0, [good], (1, vector[:2]))]),
    ]
    with deploykit.open(spans) as session:
        expected = []
        for kind, batch in cases:
            with pytest.raises(kind) as error:
                session(batch)
            expected.append(f"{kind.__name__.replace('Error', 'Exception')}: {error.value}")
    good_lines = "l 1\nu 3\nf 0.0\nl 0\n"
    wrong = {
        f"{good_lines}i 5": "instance 0: expected tuple[int, Tensor[4]], found Integer 5",
        f"{good_lines}u 2\nf 0.5\nt 0 0 0 0": "instance 0: expected int, found Double 0.5",
        "l 1\nu 3\nf 0.0\nl 1\ni 5\nu 2\ni 1\nt 0 0 0 0": "instance 0: expected Span: "
        "Span(start, weight, vector, matrix, flags), found Integer 5",
        "l 1\nu 2\nf 0.0\nl 0": "instance 0: expected tuple[float, list[Span], tuple[int, Tensor[4]]], "
        "found Object[] of length 2",
    }
    found = java_of(spans, tmp_path)(*(batch for _, batch in cases), *wrong)
    assert found == [*expected, *(f"ShapeException: {message}" for message in wrong.values())]


@pytest.mark.parametrize("device", CODE)
def test_on_gpus(trees: Path, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if not adapters(device):
        pytest.skip(f"needs {device}")
    batch = [Node(Leaf(1), Node(Leaf(2), Leaf(3))), Leaf(4)]
    with deploykit.open(trees) as session:
        expected = session(batch)
    monkeypatch.setenv(CHOICE, JAVA)
    with deploykit.open(trees, device=device) as session:
        np.testing.assert_allclose(session(batch), expected, rtol=1e-4, atol=1e-5)
