"""Random programs mean the same in an artifact as in Python."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import deploykit
from deploykit.engines.web.chromium import find_chromium
from deploykit.targets.base import Target
from deploykit.targets.webgpu import GPU_MODULE, WebTarget
from tests.dynamic.harness import assert_close, build, eager
from tests.dynamic.instances import Random, vector, whole
from tests.dynamic.programs import program


def instance(random: Random) -> tuple[Any, ...]:
    items = [whole(random, -9, 9) for _ in range(whole(random, 0, 4))]
    number = float(random.standard_normal())
    return whole(random, -20, 20), whole(random, -20, 20), items, number, vector(random, 3)


@pytest.mark.slow
@pytest.mark.sampled(part=24)
@pytest.mark.parametrize("seed", range(60))
def test_program(seed: int, tmp_path: Path) -> None:
    check(seed, tmp_path, "host")


@pytest.mark.slow
@pytest.mark.sampled(part=24)
@pytest.mark.skipif(find_chromium() is None, reason="needs Chromium")
@pytest.mark.parametrize("seed", range(100, 124))
def test_program_on_a_gpu(seed: int, tmp_path: Path) -> None:
    check(seed, tmp_path, WebTarget([GPU_MODULE]), "webgpu")


def check(seed: int, tmp_path: Path, target: str | Target, device: str | None = None) -> None:
    """Compare the artifact of the program of a seed with its source."""
    source = tmp_path / "random_program.py"
    source.write_text(program(seed))
    names: dict[str, Any] = {"__name__": "random_program"}
    exec(
        compile(
            program(seed).replace("from __future__ import annotations", ""), str(source), "exec", dont_inherit=True
        ),
        names,
    )
    random = np.random.default_rng(seed)
    given = [instance(random) for _ in range(12)]
    expected = eager(names["Random"](), given)
    with deploykit.open(build(f"{source}:Random", tmp_path / "dist", target), device=device) as session:
        for policy in ("critical", "alone"):
            session.policy = policy
            assert_close(session(given), expected, 1e-4)
