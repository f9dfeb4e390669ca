"""Swin Transformer: attention within windows of a picture, which every other block shifts by half a window.

(Source: Liu et al., "Swin Transformer: Hierarchical Vision Transformer using Shifted Windows", 2021.)
"""

from __future__ import annotations

import numpy as np

from deploykit.compiler.operators.padding import pad
from deploykit.compiler.operators.slicing import Piece, take
from deploykit.compiler.operators.softmax import softmax
from deploykit.errors import UnsupportedModelError
from deploykit.frontends.huggingface.architectures import Settings, architecture, fixed_picture, lists, pair
from deploykit.frontends.huggingface.blocks import head_size
from deploykit.frontends.huggingface.folder import Config
from deploykit.frontends.huggingface.layers import as_sequence, conv, feed_forward, linear
from deploykit.frontends.huggingface.registry import Outputs
from deploykit.frontends.huggingface.tensors import Module, Tensor, concatenated

SWIN = Settings(
    "swin",
    {
        "image_size": 224,
        "patch_size": 4,
        "num_channels": 3,
        "embed_dim": 96,
        "depths": [2, 2, 6, 2],
        "num_heads": [3, 6, 12, 24],
        "window_size": 7,
        "mlp_ratio": 4.0,
        "qkv_bias": True,
        "hidden_act": "gelu",
        "use_absolute_embeddings": False,
        "layer_norm_eps": 1e-5,
    },
)

EPSILON = 1e-5
"""That of the normalisations of patches, which is not an entry of the configuration."""

CLOSED = -100.0
"""What is added to the products of points that are not neighbours, but share a shifted window."""


def swin(m: Module, c: Config, pixels: Tensor) -> Tensor:
    """The last hidden state (batch, points, width)."""
    e, size = m["embeddings"], pair(c, "patch_size")
    pixels = padded(pixels, 2, size)
    x = conv(e, "patch_embeddings.projection", pixels, c.embed_dim, kernel=size, stride=size)
    height, width = (int(n) for n in x.shape[2:])
    x = e.layer_norm("norm", as_sequence(x), EPSILON)
    if c.use_absolute_embeddings:
        x = x + e.weight("position_embeddings", 1, *x.shape[1:])
    for index, (depth, heads) in enumerate(lists(c, "depths", "num_heads")):
        stage = m[f"encoder.layers.{index}"]
        x = x.reshape(x.shape[0], height, width, x.shape[-1])
        for number, layer in enumerate(stage.layers("blocks", depth)):
            x = block(layer, c, x, heads, shifted=number % 2 == 1)
        if index < len(c.depths) - 1:
            x = merged(stage["downsample"], x)
            height, width = (height + 1) // 2, (width + 1) // 2
        x = as_points(x)
    return m.layer_norm("layernorm", x, c.layer_norm_eps)


def block(m: Module, c: Config, x: Tensor, heads: int, *, shifted: bool) -> Tensor:
    batch, height, width, channels = x.shape
    window = c.window_size
    if min(height, width) < window:
        raise UnsupportedModelError(
            f"{c.path}: a window of {window} is larger than a picture of {height}x{width} points"
        )
    shift = window // 2 if shifted and min(height, width) > window else 0
    y = padded(m.layer_norm("layernorm_before", x, c.layer_norm_eps), 1, (window, window))
    y = rolled(y, shift)
    tall, wide = (int(n) for n in y.shape[1:3])
    y = attention(m, c, windows_of(y, window), heads, closed(tall, wide, window, shift) if shift else None)
    y = rolled(pictures_of(y, tall, wide, window), -shift).slice(1, 0, height).slice(2, 0, width)
    x = as_points(x + y)
    y = m.layer_norm("layernorm_after", x, c.layer_norm_eps)
    hidden = int(c.mlp_ratio * channels)
    x = x + feed_forward(m, y, c.hidden_act, hidden, ("intermediate.dense", "output.dense"))
    return x.reshape(batch, height, width, channels)


def attention(m: Module, c: Config, x: Tensor, heads: int, mask: np.ndarray | None) -> Tensor:
    """Attention within windows (batch, windows, points, width). The product of two points has a bias for each head that
    depends on how they lie to each other; `mask` (windows, points, points) is added, too."""
    batch, windows, points, width = x.shape
    a = m["attention.self"]

    def by_head(name: str) -> Tensor:
        y = linear(a, name, x, width, bias=c.qkv_bias)
        return y.reshape(batch, windows, points, heads, head_size(width, heads)).transpose(0, 1, 3, 2, 4)

    q, k, v = (by_head(name) for name in ("query", "key", "value"))
    scores = (q @ k.transpose(0, 1, 2, 4, 3)) * head_size(width, heads) ** -0.5 + places(a, c.window_size, heads)
    if mask is not None:
        scores = scores + m.tensor(mask.reshape(1, windows, 1, points, points).astype(np.float32))
    y = x.of(softmax(x.ctx, scores.value, 4)) @ v
    y = y.transpose(0, 1, 3, 2, 4).reshape(batch, windows, points, width)
    return linear(m, "attention.output.dense", y, width)


def places(m: Module, window: int, heads: int) -> Tensor:
    """The bias (heads, points, points) of pairs of points of a window, by their distance down and to the right."""
    side = 2 * window - 1
    table = m.weight("relative_position_bias_table", side * side, heads).value.array
    assert table is not None
    where = np.stack(np.meshgrid(*[np.arange(window)] * 2, indexing="ij")).reshape(2, -1)
    down, right = where[:, :, None] - where[:, None, :] + window - 1
    return m.tensor(np.ascontiguousarray(table[down * side + right].transpose(2, 0, 1)))


def closed(height: int, width: int, window: int, shift: int) -> np.ndarray:
    """The mask of a shifted picture: a window at its end has points from both of its sides."""

    def regions(size: int) -> np.ndarray:
        at = np.arange(size)
        return (at >= size - window).astype(int) + (at >= size - shift)

    region = regions(height)[:, None] * 3 + regions(width)[None, :]
    rows = region.reshape(height // window, window, width // window, window).transpose(0, 2, 1, 3)
    rows = rows.reshape(-1, window * window)
    return np.where(rows[:, None, :] == rows[:, :, None], 0.0, CLOSED)


def windows_of(x: Tensor, window: int) -> Tensor:
    """The windows (batch, windows, points, channels) of pictures (batch, height, width, channels)."""
    batch, height, width, channels = x.shape
    x = x.reshape(batch, height // window, window, width // window, window, channels).transpose(0, 1, 3, 2, 4, 5)
    return x.reshape(batch, (height // window) * (width // window), window * window, channels)


def pictures_of(x: Tensor, height: int, width: int, window: int) -> Tensor:
    """The inverse of `windows_of`."""
    batch, _, _, channels = x.shape
    x = x.reshape(batch, height // window, width // window, window, window, channels).transpose(0, 1, 3, 2, 4, 5)
    return x.reshape(batch, height, width, channels)


def rolled(x: Tensor, shift: int) -> Tensor:
    """The picture moved up and to the left by `shift` points; those that leave it come in on the other side."""
    for axis in (1, 2) if shift else ():
        size = int(x.shape[axis])
        cut = shift % size
        x = x.slice(axis, cut, size - cut).joined(x.slice(axis, 0, cut), axis=axis)
    return x


def merged(m: Module, x: Tensor) -> Tensor:
    """A picture of half the size and twice the width, from squares of four points."""
    x = padded(x, 1, (2, 2))
    batch, height, width, channels = x.shape
    parts = [
        x.of(
            take(
                x.ctx,
                x.value,
                [Piece(0, batch), Piece(down, height // 2, 2), Piece(right, width // 2, 2), Piece(0, channels)],
            )
        )
        for right in range(2)
        for down in range(2)
    ]
    y = m.layer_norm("norm", concatenated(parts, axis=3), EPSILON)
    return linear(m, "reduction", y, 2 * channels, bias=False)


def padded(x: Tensor, axis: int, multiple: tuple[int, int]) -> Tensor:
    """`x` with zeros at the end of two axes, so that their sizes are multiples."""
    missing = [-int(n) % m for n, m in zip(x.shape[axis:], multiple, strict=False)]
    amounts = [0] * (2 * x.rank)
    amounts[x.rank + axis : x.rank + axis + 2] = missing
    return x.of(pad(x.ctx, x.value, x.ctx.constant(amounts, "int64"))) if any(missing) else x


def as_points(x: Tensor) -> Tensor:
    batch, height, width, channels = x.shape
    return x.reshape(batch, height * width, channels)


@architecture("SwinModel", SWIN, fixed_picture)
def model(m: Module, c: Config, pixels: Tensor) -> Outputs:
    x = swin(m, c, pixels)
    return {"last_hidden_state": x, "pooler_output": x.mean(1)}


@architecture("SwinForImageClassification", SWIN, fixed_picture)
def classes(m: Module, c: Config, pixels: Tensor) -> Outputs:
    return {"logits": m.linear("classifier", swin(m["swin"], c, pixels).mean(1))}
