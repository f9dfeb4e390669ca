"""Layers of decoders that carry a state of fixed size along the tokens of a text (`operators.carried`)."""

from __future__ import annotations

from deploykit.errors import UnsupportedModelError
from deploykit.frontends.huggingface.layers import biased
from deploykit.frontends.huggingface.registry import Text
from deploykit.frontends.huggingface.tensors import Module, Tensor
from deploykit.frontends.memory import scan_name, taps_name


def short_convolution(m: Module, name: str, text: Text, layer: int, x: Tensor, taps: int, *, bias: bool) -> Tensor:
    """A causal convolution of each channel of `x` (batch, length, channels) over so many tokens, the own included."""
    if taps < 2:
        raise UnsupportedModelError(f"'{m.prefix}{name}' is a convolution over {taps} tokens; it needs at least 2")
    channels = int(x.shape[2])
    weight = m.weight(f"{name}.weight", channels, 1, taps).reshape(channels, taps).transpose(1, 0)
    shift = biased(m, name, bias)
    m.named(name)
    y = text.carried(
        taps_name(layer), taps - 1, x, lambda slots, state: slots.convolved(state, _rows(x).value, weight.value)
    )
    return y if shift is None else y + shift


def selective_scan(
    text: Text, layer: int, x: Tensor, steps: Tensor, rates: Tensor, into: Tensor, out: Tensor
) -> Tensor:
    """A selective state space of `x` and `steps` (batch, length, channels), with `rates` (rows, channels), and `into`
    and `out` (batch, length, rows)."""
    given = [each.value for each in (_rows(x), _rows(steps), rates, _rows(into), _rows(out))]
    return text.carried(scan_name(layer), int(rates.shape[0]), x, lambda slots, state: slots.scanned(state, *given))


def _rows(x: Tensor) -> Tensor:
    """Tokens (batch, length, width) one after the other."""
    return x.reshape(x.ctx.product(x.shape[:2]), x.shape[2])
