"""`session.inputs`, `session.outputs` and `repr`: what a model takes and gives, for people and programs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import deploykit
from deploykit.errors import UsageError
from deploykit.sessions.interface import ValueInfo
from tests.dynamic import models
from tests.frontends.onnx.harness import parse
from tests.frontends.running_mean import running_mean, weights
from tests.ragged import token_model

DENSE = """(float[batch, 3, seq] x, bool[batch] m) => (float[batch, 3, twice] y, float[seq] k)
    { y = Concat<axis = 2>(x, x)  s = Shape<start = 2>(x)  k = ConstantOfShape(s) }"""


def opened(model: Any, folder: Path, **options: Any) -> deploykit.Session:
    deploykit.build(model, output=folder, **options)
    return deploykit.open(folder)


def test_tensors(tmp_path: Path) -> None:
    with opened(parse(DENSE), tmp_path / "dense", dims={"batch": (1, 8)}) as session:
        bounds = {"batch": (1, 8), "seq": (1, None)}
        assert session.inputs == (
            ValueInfo("x", "float32", ("batch", 3, "seq"), bounds),
            ValueInfo("m", "bool", ("batch",), {"batch": (1, 8)}),
        )
        assert session.outputs == (
            ValueInfo("y", "float32", ("batch", 3, "2*seq"), bounds),
            ValueInfo("k", "float32", ("seq",), {"seq": (1, None)}),
        )
        assert repr(session).startswith(
            "<Session model for host: x float32[batch, 3, seq], m bool[batch] -> y float32["
        )
        assert repr(session).endswith("batch 1..8, seq 1..>")


def test_ragged_inputs_bring_their_lengths(tmp_path: Path) -> None:
    with opened(token_model(), tmp_path / "ragged") as session:
        assert [info.kind for info in session.inputs] == ["ragged", "ragged"]
        assert [str(info) for info in session.inputs] == [
            "x a list of float32[lengths, 4]",
            "ids a list of int64[lengths]",
        ]
        given = {"x": [np.ones((2, 4), np.float32)], "ids": [np.arange(2)]}
        assert {info.name for info in session.outputs} == session.run(given).keys()


def test_several_functions(tmp_path: Path) -> None:
    with opened(running_mean(weights()), tmp_path / "mean") as session:
        assert [str(info) for info in session.functions["update"].inputs] == ["x float32[streams, 6]"]
        assert "update: x float32[streams, 6] -> samples float32[]" in repr(session)
        assert "read: query" in repr(session)
        assert repr(session.functions["read"]).startswith("<Function mean.read: query float32[batch, 6] -> scores")
        with pytest.raises(UsageError, match="several functions, project, update, read"):
            _ = session.inputs


def test_dynamic_models(tmp_path: Path) -> None:
    with opened(f"{Path(models.__file__)}:EarlyExit", tmp_path / "exit") as session:
        assert all(info.kind == "instance" for info in (*session.inputs, *session.outputs))
        assert "->" in repr(session)


def test_values_of_several_tensors(tmp_path: Path) -> None:
    """Sequences have as many items as the model was built for."""
    text = """(seq(float[n]) x, string[m] t) => (seq(float[n]) y, string[m] u) { y = Identity(x) u = Identity(t) }"""
    model = deploykit.load(parse(text), {"x_length": 2})
    with opened(model, tmp_path / "several") as session:
        items, texts = session.inputs
        assert (items.kind, [item.kind for item in items.items]) == ("sequence", ["tensor", "tensor"])
        assert str(items).startswith("x sequence of (")
        assert (texts.kind, texts.dtype, texts.shape) == ("string", "string", ("m",))
        assert str(session.outputs[1]) == "u string[m]"


def test_inputs_that_are_no_mapping(tmp_path: Path) -> None:
    with opened(parse(DENSE), tmp_path / "dense") as session:
        x = np.ones((1, 3, 2), np.float32)
        with pytest.raises(UsageError, match=r"inputs are given by name: pass \{'x': ..., 'm': ...\}, not list"):
            session.run([x])  # type: ignore[call-overload]
        with pytest.raises(UsageError, match=r"'model' is no dynamic model: it takes inputs by name \(x=..., m=...\)"):
            session(x)
