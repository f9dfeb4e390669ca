"""Dynamic models on GPUs, compared with themselves in Python, and with the same artifact on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import deploykit
from deploykit.artifact.devices import CODE
from deploykit.dynamic.policies import POLICIES
from deploykit.errors import DataError
from deploykit.targets.webgpu import GPU_MODULE, WebTarget
from tests.dynamic import models, on_gpu
from tests.dynamic.harness import assert_close, eager
from tests.dynamic.instances import MAKERS, Random, instances, vector, whole
from tests.runtimes import NODE, _module_of_node, named

GPUS = ("webgpu", *CODE)

HERE = Path(__file__).parent

OWN: dict[str, Callable[[Random], Any]] = {
    "Halting": lambda random: (vector(random, on_gpu.H), whole(random, 0, 9)),
    "Late": lambda random: (vector(random, on_gpu.H), vector(random), bool(random.integers(2))),
    "Steps": lambda random: (vector(random, on_gpu.H), whole(random, 0, 5)),
    "Wide": lambda random: list(vector(random, 9, on_gpu.H)),
}


@dataclass(frozen=True)
class Built:
    """Builds classes of `models` and `on_gpu`, each once, for a GPU and a CPU."""

    gpu: str
    place: Path

    def __call__(self, model: Any) -> Path:
        folder = self.place / model.__name__
        if not folder.exists():
            source = f"{HERE / model.__module__.rpartition('.')[2]}.py:{model.__name__}"
            if self.gpu == "webgpu":
                deploykit.build(source, WebTarget([_module_of_node(), GPU_MODULE]), output=folder)
            else:
                deploykit.build(source, devices=[self.gpu], output=folder)
        return folder

    def check(self, model: Any, batches: list[list[Any]], policies: list[str]) -> None:
        """Results are those of the model in Python, and launches those on the CPU."""
        folder = self(model)
        with deploykit.open(folder, device=self.gpu) as session, deploykit.open(folder) as other:
            for given in batches:
                expected = eager(model(), given)
                for policy in policies:
                    session.policy = other.policy = policy
                    assert_close(session(given), expected)
                    assert_close(other(given), expected)
                    assert session.launches == other.launches


@pytest.fixture(scope="module", params=GPUS)
def built(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Built:
    missing = named(request.param).missing
    if missing is None and request.param == "webgpu" and not NODE[1]():
        missing = "needs node"
    if missing is not None:
        pytest.skip(missing)
    return Built(request.param, tmp_path_factory.mktemp(request.param))


@pytest.mark.slow
@pytest.mark.sampled(part=18)
@pytest.mark.parametrize("name", MAKERS)
def test_results(name: str, built: Built) -> None:
    model = getattr(models, name)
    batches = [instances(name, count, seed=count) for count in (0, 1, 17)]
    built.check(model, batches, list(POLICIES))


@pytest.mark.slow
@pytest.mark.sampled(part=10)
@pytest.mark.parametrize("name", OWN)
def test_values_that_control_flow_asks_for(name: str, built: Built) -> None:
    model = getattr(on_gpu, name)
    random = np.random.default_rng(4)
    batches = [[OWN[name](random) for _ in range(count)] for count in (11, 0, 1)]
    built.check(model, batches, ["critical", "alone"])


@pytest.mark.slow
def test_large_instances_raise_the_capacities(built: Built) -> None:
    deep: models.Tree = models.Leaf(0)
    for word in range(400):
        deep = models.Node(deep, models.Leaf(word % models.V))
    wide = instances("TreeLSTM", 1500, seed=1)
    built.check(models.TreeLSTM, [[deep], wide, [deep, *wide]], ["critical"])


@pytest.mark.slow
def test_a_run_goes_on_after_a_refusal(built: Built) -> None:
    given = instances("TreeLSTM", 3)
    with deploykit.open(built(models.TreeLSTM), device=built.gpu) as session:
        with pytest.raises(DataError):
            session([models.Node(models.Leaf(0), models.Leaf(models.V))])
        assert_close(session(given), eager(models.TreeLSTM(), given))
