"""What an export is compared with, where the model itself jumps."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch")
pytest.importorskip("transformers", reason="needs transformers")


def chosen(gap: float) -> Any:
    """A model that takes the greater of two scores, which differ by `gap`, and has other results."""
    from torch import nn

    class Choice(nn.Module):
        outputs = ("chosen", "one_of_four", "others")

        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(2, 2, bias=False)
            self.layer.weight = nn.Parameter(torch.eye(2))

        def forward(self, x: Any) -> tuple[Any, ...]:
            best = self.layer(x + torch.tensor([0.0, gap])).argmax().float()
            return best.reshape(1), torch.stack([best, x[0], x[1], x[0] + 1]), x

    return Choice()


@pytest.mark.parametrize("gap", [1e-7, 1e-2])
def test_elements_that_jump(gap: float) -> None:
    from deploykit.frontends.torch.exporting import Round

    model, x = chosen(gap), torch.ones(2)
    with torch.no_grad():
        results = zip(model.outputs, model(x), strict=True)
    found = Round(model, {}, (x,), {name: value.numpy() for name, value in results}).steady
    jumps = gap < 1e-3
    assert found["chosen"].tolist() == [not jumps]
    assert found["one_of_four"].tolist() == [not jumps, True, True, True]
    assert found["others"].all()


@pytest.mark.parametrize(
    ("rounds", "wrong", "reason"),
    [
        (3, {}, None),
        (3, {0: "swapped"}, None),
        (3, {0: "swapped", 1: "swapped"}, "'chosen' jumps where layers round differently"),
        (1, {0: "swapped"}, "'chosen' jumps"),
        (3, {1: "others"}, "'others' differs by "),
    ],
)
def test_differences(rounds: int, wrong: dict[int, str], reason: str | None) -> None:
    """A file that chooses otherwise at some sizes, or computes something else."""
    from deploykit.frontends.torch.exporting import Round, _differences

    model, x = chosen(1e-7), torch.ones(2)
    with torch.no_grad():
        expected = {name: value.numpy() for name, value in zip(model.outputs, model(x), strict=True)}
    calls = iter(range(rounds))

    def run(names: list[str], _: dict[str, np.ndarray]) -> list[np.ndarray]:
        kind = wrong.get(next(calls))
        found = [expected[name].copy() for name in names]
        for value in found[: 2 if kind == "swapped" else 0]:
            value[0] = 1 - value[0]
        found[2] += kind == "others"
        return found

    session: Any = SimpleNamespace(run=run, get_inputs=list)
    reasons = list(_differences(session, [SimpleNamespace(name="x")], [Round(model, {}, (x,), expected)] * rounds))
    assert [why[: len(reason or "")] for why in reasons] == ([reason] if reason else [])
