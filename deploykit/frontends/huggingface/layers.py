"""Layers of models of pictures and sound, on data (batch, channels, ...) or (batch, length, width).

Sizes of weights are checked against the configuration, so that weights of another model are refused.
"""

from __future__ import annotations

from collections.abc import Sequence

from deploykit.compiler.dims.expressions import IntExpr
from deploykit.compiler.operators.batch_normalization import batch_normalization
from deploykit.compiler.operators.building.windows import Windows, windows
from deploykit.compiler.operators.conv import convolution
from deploykit.compiler.operators.images.resampling import Method
from deploykit.compiler.operators.images.resize import resize_to
from deploykit.compiler.operators.joining import repeated
from deploykit.compiler.operators.pooling import max_pool as pool_maxima
from deploykit.errors import UsageError
from deploykit.frontends.huggingface.architectures import pair
from deploykit.frontends.huggingface.folder import Config
from deploykit.frontends.huggingface.tensors import Module, Tensor

BILINEAR = Method("linear", "half_pixel", "round_prefer_floor")
BICUBIC = Method("cubic", "half_pixel", "round_prefer_floor")
"""As torch.nn.functional.interpolate with align_corners=False."""


def conv(
    m: Module,
    name: str,
    x: Tensor,
    width: int,
    *,
    stride: int | Sequence[int] = 1,
    pad: int = 0,
    kernel: int | Sequence[int] | None = None,
    groups: int = 1,
    bias: bool = True,
) -> Tensor:
    """A convolution to `width` channels, with `pad` zeros around each axis. If `kernel` is given, the weights must have
    this size. Without `bias`, they must have none."""
    weight = m.weight(f"{name}.weight")
    rank = x.rank - 2
    sizes = weight.shape[2:] if kernel is None else _each(kernel, rank)
    inputs = x.shape[1]
    assert isinstance(inputs, int)
    m.weight(f"{name}.weight", width, inputs // groups, *(int(n) for n in sizes))
    shift = biased(m, name, bias)
    m.named(name)
    return convolved(x, weight, shift, stride=stride, pad=pad, groups=groups)


def convolved(
    x: Tensor, weight: Tensor, shift: Tensor | None, *, stride: int | Sequence[int] = 1, pad: int = 0, groups: int = 1
) -> Tensor:
    """A convolution with these weights and this bias."""
    over = _windows(x, weight.shape[2:], _each(stride, x.rank - 2), pad)
    bias = None if shift is None else shift.value
    return x.of(convolution(x.ctx, x.value, weight.value, bias, over, group=groups))


def biased(m: Module, name: str, bias: bool) -> Tensor | None:
    """The bias of a layer. Raises `UsageError` if there is one, but the configuration says that there is none, or the
    other way round."""
    if m.has(f"{name}.bias") != bias:
        says = "needs one" if bias else "has none"
        raise UsageError(
            f"'{m.prefix}{name}' in {m.weights.path}: the configuration {says}, a bias, the weights differ"
        )
    return m.weight(f"{name}.bias") if bias else None


def linear(m: Module, name: str, x: Tensor, width: int, *, bias: bool = True) -> Tensor:
    """A linear layer whose bias is there if the configuration says so."""
    biased(m, name, bias)
    return m.linear(name, x, width, bias=bias)


def batch_norm(m: Module, name: str, x: Tensor, epsilon: float = 1e-5) -> Tensor:
    """Batch normalisation by the stored statistics."""
    channels = x.shape[1]
    assert isinstance(channels, int)
    names = ("weight", "bias", "running_mean", "running_var")
    scale, shift, mean, variance = (m.weight(f"{name}.{part}", channels).value for part in names)
    m.named(name)
    return x.of(
        batch_normalization(x.ctx, x.value, scale, shift, mean=mean, variance=variance, epsilon=epsilon),
    )


def max_pool(x: Tensor, size: int, stride: int, pad: int) -> Tensor:
    return x.of(pool_maxima(x.ctx, x.value, _windows(x, [size] * 2, [stride] * 2, pad))[0])


def resized(x: Tensor, size: Sequence[IntExpr], method: Method) -> Tensor:
    """Pictures (batch, channels, ...) of another size."""
    return x.of(resize_to(x.ctx, x.value, range(2, x.rank), x.ctx.known(list(size)), method))


def for_batch(x: Tensor, batch: IntExpr) -> Tensor:
    """`x` (1, ...), once for each element of a batch."""
    return x.of(repeated(x.ctx, x.value, (batch, *x.shape[1:])))


def as_sequence(x: Tensor) -> Tensor:
    """A picture (batch, channels, height, width) as a sequence of its points (batch, height * width, channels)."""
    batch, channels, *sizes = x.shape
    return x.reshape(batch, channels, x.ctx.product(sizes)).transpose(0, 2, 1)


def as_picture(x: Tensor, height: IntExpr, width: IntExpr) -> Tensor:
    """The inverse of `as_sequence`."""
    batch, _, channels = x.shape
    return x.transpose(0, 2, 1).reshape(batch, channels, height, width)


def channels_norm(m: Module, name: str, x: Tensor, epsilon: float) -> Tensor:
    """Layer normalisation of the channels at each point of a picture."""
    return m.layer_norm(name, x.transpose(0, 2, 3, 1), epsilon).transpose(0, 3, 1, 2)


def patches(m: Module, name: str, c: Config, pixels: Tensor, width: int, *, bias: bool = True) -> Tensor:
    """A linear layer on each patch of a picture: (batch, patches, width)."""
    size = pair(c, "patch_size")
    return as_sequence(conv(m, name, pixels, width, kernel=size, stride=size, bias=bias))


def feed_forward(m: Module, x: Tensor, activation: str, hidden: int, names: tuple[str, str] = ("fc1", "fc2")) -> Tensor:
    """Two linear layers with a function between them."""
    y = linear(m, names[0], x, hidden).activation(activation)
    width = x.shape[-1]
    assert isinstance(width, int)
    return linear(m, names[1], y, width)


def _each(value: int | Sequence[int], rank: int) -> list[int]:
    return [value] * rank if isinstance(value, int) else list(value)


def _windows(x: Tensor, sizes: Sequence[IntExpr], strides: Sequence[int], pad: int) -> Windows:
    rank = x.rank - 2
    return windows(x.ctx, x.shape[2:], sizes, strides, [1] * rank, [pad] * (2 * rank))
