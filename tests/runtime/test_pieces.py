"""Batches that need more memory than caches hold: they are launched in pieces, with the same results."""

from __future__ import annotations

from pathlib import Path

from bench.dynamic.cases import CASES, prepare
from bench.dynamic.sides import build, error, open_artifact


def test_a_large_batch_is_launched_in_pieces(tmp_path: Path) -> None:
    """The matrices of the leaves of all trees have 10 MB."""
    prepared = prepare(CASES["mvrnn"], 48, tmp_path)
    instances = prepared.instances(prepared.structures(60))
    artifact = open_artifact(build(prepared, tmp_path), instances)
    assert artifact.outputs().shape == (300,)
    assert error(artifact.outputs("depth"), prepared.expected(instances)) < 1e-5
    assert artifact.launches("depth") < 60
