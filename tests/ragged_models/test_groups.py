"""A ragged batch is computed in groups of instances on CPUs, with the bits of one run over the whole batch, and in
memory for a group. Where instances depend on each other, it is computed whole."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import numpy_helper

import deploykit
from deploykit.compiler.decisions import Declined
from deploykit.compiler.model import ImportedModel
from deploykit.compiler.observer import Observer
from deploykit.compiler.variant import PORTABLE_C
from deploykit.errors import DeploykitError
from deploykit.pipeline import compile_program
from deploykit.sessions.session import Session
from tests.placing import grouping
from tests.ragged_models import corpus
from tests.ragged_models.idioms import KEPT, WIDTH, model
from tests.ragged_models.test_exports import ACCEPTED
from tests.ragged_models.test_idioms import NOT_YET
from tests.runtimes import Runtime

TOKENS = 16
"""Of a group."""

LENGTHS = ((), (16,), (40,), (0, 0, 64), (64, 0), (8, 8), (8, 9), (16, 0, 1, 0), (3, 0, 64, 5, 5, 6, 0, 2), (1,) * 16)
EMPTY = ((0,), (0, 0))
"""Batches without tokens, which have no last token."""

BOUNDS = {"batch": (1, 16), "seq": (1, 64)}

CONSTANTS = {"axis0": np.array([0]), "axis1": np.array([1]), "axis2": np.array([2])}
CONSTANTS |= {"none": np.array(0), "half": np.float32(0.5), "limit": np.array(1)}

SUM = "s = ReduceSum<keepdims = 0>(kept, axis1)"
ADDED = "rf = Cast<to = 1>(r)  c = Unsqueeze(rf, axis1)  y = Add(s, c)"

APART = {
    "the sum of each": ("float[batch,3] y", f"{SUM}  y = Exp(s)"),
    "an input that all share": ("float[batch,seq,3] y", "w2 = MatMul(w, w)  s = Softmax(w2)  y = MatMul(x, s)"),
    "an input that is an output": ("float[batch,seq,3] y", "y = Identity(x)"),
    "one result twice": ("float[batch,seq,3] y, float[batch,seq,3] z", "y = Exp(x)  z = Identity(y)"),
    "indices": ("float[batch,seq,3] y", "y = Gather<axis = 0>(w, ids)"),
}

TOGETHER = {
    "takes elements of other instances": ("float[batch,3] y", f"{SUM}  f = Gather(s, none)  y = Sub(s, f)"),
    "computes with the number of an instance or of all": (
        "float[batch,3] y",
        f"{SUM}  n0 = Shape<start = 0, end = 1>(s)  n = Squeeze(n0, axis0)  r = Range(none, n, limit)  {ADDED}",
    ),
    "is computed by loops in order": ("float[batch,3] y", f"{SUM}  y = CumSum(s, none)"),
    "output 'y' has 'seq' twice": (
        "float[batch,seq,seq] y",
        "t = Transpose<perm = [0, 2, 1]>(x)  y = MatMul(x, t)",
    ),
    "output 'z' does not begin with 'batch'": ("float[batch,3] t, float z", f"{SUM}  t = Exp(s)  z = Exp(half)"),
}
"""By the reasons why instances are computed together."""


def built(outputs: str, nodes: str) -> ImportedModel:
    found = onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 17]>
        m (float[batch,seq,3] x, float[3,3] w, int64[batch,seq] ids, float[batch,seq] mask) => ({outputs})
        {{ p = Unsqueeze(mask, axis2)  kept = Mul(x, p)  {nodes} }}"""
    )
    found.graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in CONSTANTS.items())
    return deploykit.load(found, BOUNDS, ragged="seq")


def whole(found: ImportedModel) -> ImportedModel:
    """The model, which computes all instances together."""
    return replace(found, instances=None)


def bits(session: Session, given: Mapping[str, np.ndarray]) -> Iterator[bytes]:
    for values in session.run(given).values():
        yield np.asarray(getattr(values, "values", values)).tobytes()


def require_same(found: ImportedModel, runtime: Runtime, inputs: Sequence[Mapping[str, np.ndarray]]) -> None:
    with (
        runtime.grouping(TOKENS).session(found, exact=True) as groups,
        runtime.session(whole(found), exact=True) as together,
    ):
        for given in inputs:
            assert list(bits(groups, given)) == list(bits(together, given)), given["lengths"]


@pytest.mark.slow
@pytest.mark.sampled(part=320)
@pytest.mark.parametrize("name", ACCEPTED)
def test_exports_give_the_same_bits(name: str, runtime: Runtime) -> None:
    found = deploykit.load(corpus.read(name), corpus.BOUNDS, ragged=corpus.RAGGED)
    rng = np.random.default_rng(1)
    drawn = [rng.integers(1, 1 + rng.integers(1, 1 + corpus.LONGEST), rng.integers(1, 17)) for _ in range(6)]
    require_same(found, runtime, [corpus.batch(name, lengths.tolist(), n).packed() for n, lengths in enumerate(drawn)])


@pytest.mark.slow
@pytest.mark.sampled(part=120)
@pytest.mark.parametrize("name", [name for name in KEPT if name not in NOT_YET])
def test_idioms_give_the_same_bits(name: str, runtime: Runtime) -> None:
    found = deploykit.load(model(*KEPT[name]), BOUNDS, ragged="seq")
    rng = np.random.default_rng(0)
    given = []
    for lengths in LENGTHS:
        x = rng.standard_normal((sum(lengths), WIDTH), dtype=np.float32)
        given.append({"x": x, "lengths": np.array(lengths, np.int64)})
    require_same(found, runtime, given)


@pytest.mark.sampled(part=16)
@pytest.mark.parametrize("name", APART)
def test_instances_that_are_apart_are_computed_in_groups(name: str, runtime: Runtime) -> None:
    found = built(*APART[name])
    assert not isinstance(found.instances, Declined)
    rng = np.random.default_rng(0)
    given = []
    for lengths in (*LENGTHS, *EMPTY):
        x, w = (rng.standard_normal((n, 3), dtype=np.float32) for n in (sum(lengths), 3))
        ids = rng.integers(0, 3, sum(lengths))
        given.append({"x": x, "w": w, "ids": ids, "lengths": np.array(lengths, np.int64)})
    require_same(found, runtime, given)


@pytest.mark.parametrize("reason", TOGETHER)
def test_instances_that_depend_on_each_other_are_computed_together(reason: str) -> None:
    found = built(*TOGETHER[reason]).instances
    assert isinstance(found, Declined)
    assert reason in found.reason


def test_bad_indices_are_found_before_anything_is_written(tmp_path: Path) -> None:
    deploykit.build(built(*APART["indices"]), grouping("host", 4), output=tmp_path / "out")
    with deploykit.open(tmp_path / "out") as session:
        given = {"x": np.zeros((6, 3), np.float32), "w": np.ones((3, 3), np.float32)}
        given |= {"ids": np.array([0, 1, 2, 0, 1, 3]), "lengths": np.array([3, 3])}
        with pytest.raises(DeploykitError, match=r"'ids'.* element 5"):
            session.run(given)


def test_memory_is_that_of_a_group(tmp_path: Path) -> None:
    found = deploykit.load(corpus.read("sentence.t4.30-legacy-eager-14"), corpus.BOUNDS, ragged=corpus.RAGGED)
    deploykit.build(found, grouping("host", TOKENS), output=tmp_path / "groups")
    deploykit.build(whole(found), output=tmp_path / "whole")
    groups, together = deploykit.open(tmp_path / "groups"), deploykit.open(tmp_path / "whole")
    peaks = [groups.peak_bytes({"batch": 4, "tokens": tokens}) for tokens in (8, corpus.LONGEST, 256)]
    assert peaks[0] < peaks[1] == peaks[2] < together.peak_bytes({"batch": 4, "tokens": 256})


@pytest.mark.parametrize(
    ("name", "said"), [("indices", "groups of 512 tokens"), ("output 'y' has 'seq' twice", "no: the output 'y' has")]
)
def test_the_reason_is_explained(name: str, said: str) -> None:
    found: list[str] = []
    observer = Observer(on_explanation=lambda explained: found.extend(map(str, explained.graph)))
    compile_program(built(*(APART | TOGETHER)[name]), PORTABLE_C, observer, {})
    assert any(text.startswith("groups: ") and said in text for text in found)
