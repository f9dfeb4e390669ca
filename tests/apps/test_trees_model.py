"""The model of the page of expressions: its gradients, its training, and how often its weights are right."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from apps.trees.model import train
from apps.trees.model.arithmetic import Arithmetic, Minus, Negative, Number, Plus, Times, Tree
from apps.trees.model.picture import PICTURE, picture, traced
from apps.trees.model.train import FOLDER, Batch, accuracy, as_json, expression, gradients, value_of

WEIGHTS = FOLDER / "arithmetic.safetensors"


def some(count: int, leaves: int) -> list[Tree]:
    random = np.random.default_rng(5)
    return [expression(random, int(random.integers(1, leaves + 1))) for _ in range(count)]


def test_the_committed_weights_are_right() -> None:
    assert WEIGHTS.stat().st_size < 200_000
    assert accuracy(load_file(WEIGHTS)) > 0.995


def test_they_know_every_pair_of_numbers() -> None:
    model = Arithmetic(load_file(WEIGHTS))
    random = np.random.default_rng(0)
    for operator in (Plus, Minus, Times):
        pairs = [(a, b) for a in range(10) for b in range(10)] + random.integers(0, 100, (200, 2)).tolist()
        trees = [operator(Number(a), Number(b)) for a, b in pairs]
        assert [int(model.main(tree).argmax()) for tree in trees] == [value_of(tree) % 10 for tree in trees]


def test_gradients() -> None:
    """Compared with differences of the loss, in float64."""
    batch = Batch.of(some(6, 7))
    random = np.random.default_rng(0)
    weights = {name: getattr(Arithmetic(), name).astype(np.float64) for name in Arithmetic.weight_shapes()}
    noise = 0.1 * random.standard_normal((len(batch.digits), weights["numbers"].shape[1]))
    _, found = gradients(weights, batch, noise)
    assert found.keys() == weights.keys()
    for name, array in weights.items():
        direction = random.standard_normal(array.shape)
        losses = [gradients(weights | {name: array + step * direction}, batch, noise)[0] for step in (1e-6, -1e-6)]
        assert (losses[0] - losses[1]) / 2e-6 == pytest.approx((found[name] * direction).sum(), rel=1e-4, abs=1e-9)


def test_training_computes_what_the_model_does() -> None:
    """The loss of a batch without noise, from the eager model's answers for each part of each tree."""
    trees = some(10, 6)
    batch = Batch.of(trees)
    weights = load_file(WEIGHTS)
    loss, _ = gradients(weights, batch, np.zeros((len(batch.digits), 32), np.float32))
    model = Arithmetic(weights)
    parts = [part for tree in trees for part in parts_of(tree)]
    assert len(parts) == len(batch.digits)
    losses = [-np.log(float(model.main(part)[value_of(part) % 10])) for part in parts]
    assert loss == pytest.approx(np.mean(losses), rel=1e-3)


def parts_of(tree: Tree) -> list[Tree]:
    match tree:
        case Number():
            return [tree]
        case Negative(operand):
            return [tree, *parts_of(operand)]
        case Plus(left, right) | Minus(left, right) | Times(left, right):
            return [tree, *parts_of(left), *parts_of(right)]


def test_training_is_deterministic() -> None:
    first, second = ([loss for _, loss, _ in train.steps(3, seed=7)] for _ in range(2))
    assert first == second
    assert first != [loss for _, loss, _ in train.steps(3, seed=8)]


@pytest.mark.slow
def test_training_reaches_what_it_promises(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["train", "--output", str(tmp_path)])
    train.main()
    assert "right on " in capsys.readouterr().out
    weights = load_file(tmp_path / "arithmetic.safetensors")
    assert accuracy(weights) > 0.99
    assert {name: array.shape for name, array in weights.items()} == Arithmetic.weight_shapes()
    assert (tmp_path / "samples.json").read_text() == (FOLDER / "samples.json").read_text()


def test_samples_are_expressions() -> None:
    samples = json.loads((FOLDER / "samples.json").read_text())
    tree = Times(Negative(Number(3)), Minus(Number(4), Plus(Number(5), Number(6))))
    assert len(samples) == train.SAMPLES
    assert as_json(tree) == [
        "Times",
        ["Negative", ["Number", 3]],
        ["Minus", ["Number", 4], ["Plus", ["Number", 5], ["Number", 6]]],
    ]


def test_the_picture_of_the_documentation() -> None:
    """It shows what a run does now."""
    assert PICTURE.read_text(encoding="utf-8") == picture(traced())
