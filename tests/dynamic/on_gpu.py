"""Models for GPUs: values that control flow asks for at other times than usual, and results that no cell computes."""

from __future__ import annotations

from dataclasses import dataclass

from deploykit.dynamic import Model, Tensor, sigmoid, sum, tanh, zeros  # noqa: A004

H = 6


@dataclass
class Step:
    state: Tensor[H]
    gain: float


class Halting(Model):
    """Runs a cell until the sum of its state is small: every step waits for a value."""

    w: Tensor[H, H]

    def main(self, x: Tensor[H], steps: int) -> tuple[Tensor[H], int]:
        taken = 0
        h = x
        while taken < steps and float(sum(h * h)) > 0.01:
            h = tanh(h @ self.w)
            taken += 1
        return h, taken


class Late(Model):
    """Asks for numbers that an earlier flush has computed, for numbers within instances, and for constant ones; returns
    tensors that are given or constant."""

    w: Tensor[H, H]
    scale: Tensor[H]

    def main(
        self, x: Tensor[H], bias: Tensor[()], deep: bool
    ) -> tuple[Tensor[H], Tensor[H], Tensor[H], list[Tensor[H]], float, float]:
        sums = [sum(x), sum(x) * bias]
        total = 0.0
        states: list[Tensor[H]] = [x, self.scale]
        if deep:
            h = sigmoid(x @ self.w) * sums[0] + sums[1]
            states = [*states, h]
            total = float(sum(h))
            if total > 0:
                total = total + float(sums[0]) + float(sums[1])
        return states[len(states) - 1], x, zeros(H), states, total, float(bias) + float(sum(self.scale))


class Steps(Model):
    """Returns objects with tensors."""

    w: Tensor[H, H]

    def main(self, x: Tensor[H], count: int) -> list[Step]:
        found: list[Step] = [Step(x, 1.0)]
        for _ in range(count):
            h = tanh(found[len(found) - 1].state @ self.w)
            found = [*found, Step(h, float(sum(h)))]
        return found


class Wide(Model):
    """Its cell reads more tensors at once than a GPU binds."""

    w: Tensor[H, H]

    def main(self, xs: list[Tensor[H]]) -> Tensor[H]:
        hs = [tanh(x @ self.w) for x in xs]
        total = hs[0] + hs[1] * hs[2] + hs[3] * hs[4] + hs[5] * hs[6] + hs[7] * hs[8]
        return tanh(total) @ self.w
