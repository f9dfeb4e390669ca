"""`python -m bench.arm64`: the figures of its table, and the counts under them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import deploykit
from bench.arm64.__main__ import Row, run, show
from bench.arm64.levels import LEVELS
from bench.cases import CASES
from bench.instructions.counters import counted, without_emulator


def test_a_ratio_is_only_of_right_results(capsys: pytest.CaptureFixture[str]) -> None:
    row = Row("mlp", "dotprod", {"all": 2_000_000, "fma": 500_000}, {"all": 3_000_000, "fma": 900_000})
    assert row.ratio() == pytest.approx(1.5)
    assert show([row]) == 0
    assert "fma 25%" in capsys.readouterr().out
    row.within = False
    assert row.ratio() is None
    assert show([row]) == 1
    assert "WRONG" in capsys.readouterr().out


def test_counts_are_summed_by_kind_and_function(tmp_path: Path) -> None:
    (tmp_path / "counts").write_text("all 12\nfma 4\nat 10 5 f\nat 20 6 g\nat 10 1 f\n")
    counts = counted(tmp_path / "counts")
    assert counts.kinds == {"all": 12, "fma": 4}
    assert counts.by_symbol() == {"f": 6, "g": 6}


def test_files_of_a_system(tmp_path: Path) -> None:
    root = LEVELS["baseline"].root(tmp_path)
    assert "CPU part\t: 0xd08" in (root / "proc/cpuinfo").read_text()
    assert "asimddp" not in (root / "proc/cpuinfo").read_text()
    assert "asimddp" in (LEVELS["dotprod"].root(tmp_path) / "proc/cpuinfo").read_text()


@pytest.mark.skipif(without_emulator() is not None, reason="needs QEMU with plugins, and a compiler for arm64")
def test_counts_of_a_run(tmp_path: Path) -> None:
    """They are the same for every run, and hold the multiply-adds that the model needs."""
    case = CASES["mlp"]
    deploykit.build(case.make(), cpu="armv8-a", dims=case.dims, output=tmp_path / "mlp")
    port = deploykit.inspect(tmp_path / "mlp").manifest.inputs[0]
    inputs = {port.name: np.ones((1, *(int(extent) for extent in port.shape[1:])), np.float32)}
    found = []
    for scratch in (tmp_path / "first", tmp_path / "second"):
        scratch.mkdir()
        found.append(run(tmp_path / "mlp", inputs, LEVELS["baseline"], scratch)[1])
    assert found[0].kinds == found[1].kinds
    assert sum(found[0].blocks.values()) == found[0].kinds["all"] > found[0].kinds["fma"] > 1000
