"""Dynamic models on WebGPU, compared with themselves in Python, and with the same package in WebAssembly."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import deploykit
from deploykit.dynamic.policies import POLICIES
from deploykit.engines.web.chromium import find_chromium
from deploykit.errors import DataError
from deploykit.targets.webgpu import GPU_MODULE, WebTarget
from tests.dynamic import models, on_gpu
from tests.dynamic.harness import assert_close, eager
from tests.dynamic.instances import MAKERS, Random, instances, vector, whole
from tests.runtimes import NODE, _module_of_node

pytestmark = pytest.mark.skipif(find_chromium() is None or not NODE[1](), reason="needs Chromium and node")

HERE = Path(__file__).parent

Packaged = Callable[[Any], Path]

OWN: dict[str, Callable[[Random], Any]] = {
    "Halting": lambda random: (vector(random, on_gpu.H), whole(random, 0, 9)),
    "Late": lambda random: (vector(random, on_gpu.H), vector(random), bool(random.integers(2))),
    "Steps": lambda random: (vector(random, on_gpu.H), whole(random, 0, 5)),
    "Wide": lambda random: list(vector(random, 9, on_gpu.H)),
}


@pytest.fixture(scope="module")
def packaged(tmp_path_factory: pytest.TempPathFactory) -> Packaged:
    """`packaged(model)`: the package of a class of `models` or `on_gpu`, for node and for a GPU."""
    folders: dict[str, Path] = {}

    def get(model: Any) -> Path:
        name = model.__name__
        if name not in folders:
            folders[name] = tmp_path_factory.mktemp("packages") / name
            source = HERE / f"{model.__module__.rpartition('.')[2]}.py"
            deploykit.build(f"{source}:{name}", WebTarget([_module_of_node(), GPU_MODULE]), output=folders[name])
        return folders[name]

    return get


def check(model: Any, folder: Path, batches: list[list[Any]], policies: list[str]) -> None:
    """Results are those of the model in Python, and launches those in WebAssembly."""
    with deploykit.open(folder, device="webgpu") as session, deploykit.open(folder) as other:
        for given in batches:
            expected = eager(model(), given)
            for policy in policies:
                session.policy = other.policy = policy
                assert_close(session(given), expected)
                assert_close(other(given), expected)
                assert session.launches == other.launches


@pytest.mark.slow
@pytest.mark.sampled(part=3)
@pytest.mark.parametrize("name", MAKERS)
def test_results(name: str, packaged: Packaged) -> None:
    model = getattr(models, name)
    batches = [instances(name, count, seed=count) for count in (0, 1, 17)]
    check(model, packaged(model), batches, list(POLICIES))


@pytest.mark.slow
@pytest.mark.parametrize("name", OWN)
def test_values_that_control_flow_asks_for(name: str, packaged: Packaged) -> None:
    model = getattr(on_gpu, name)
    random = np.random.default_rng(4)
    batches = [[OWN[name](random) for _ in range(count)] for count in (11, 0, 1)]
    check(model, packaged(model), batches, ["critical", "alone"])


@pytest.mark.slow
def test_large_instances_raise_the_capacities(packaged: Packaged) -> None:
    deep: models.Tree = models.Leaf(0)
    for word in range(400):
        deep = models.Node(deep, models.Leaf(word % models.V))
    wide = instances("TreeLSTM", 1500, seed=1)
    check(models.TreeLSTM, packaged(models.TreeLSTM), [[deep], wide, [deep, *wide]], ["critical"])


@pytest.mark.slow
def test_a_run_goes_on_after_a_refusal(packaged: Packaged) -> None:
    given = instances("TreeLSTM", 3)
    with deploykit.open(packaged(models.TreeLSTM), device="webgpu") as session:
        with pytest.raises(DataError):
            session([models.Node(models.Leaf(0), models.Leaf(models.V))])
        assert_close(session(given), eager(models.TreeLSTM(), given))
