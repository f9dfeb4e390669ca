"""Sums of products: matrix products, Einsum, attention, convolutions, pooling."""

from __future__ import annotations

import math

from tests.fuzz.drawing import Draw, Reject, Value


def matmul_weight(draw: Draw) -> None:
    x = draw.floats(range(1, 6))
    size = x.fixed(x.rank - 1)
    if size is None:
        raise Reject
    y = draw.one("MatMul", x, draw.weight(size, draw.random.choice([1, 3, 4, 8, 20]), scale=1 / math.sqrt(size)))
    if draw.chance(0.5):
        draw.one("Add", y, draw.weight(y.fixed(y.rank - 1) or 1))


def matmul(draw: Draw) -> None:
    """The product of a value with the transpose of a value that fits."""
    a = draw.floats(range(2, 5))

    def fits(v: Value) -> bool:
        return v.is_float and v.rank >= 2 and v.sizes(v.rank - 1) == a.sizes(a.rank - 1)

    b = draw.pick(fits)
    axes = [*range(b.rank - 2), b.rank - 1, b.rank - 2]
    draw.one("MatMul", a, draw.one("Transpose", b, perm=axes))


def gemm(draw: Draw) -> None:
    x = draw.floats(range(2, 3))
    transposed = draw.random.randint(0, 1)
    size = x.fixed(0 if transposed else 1)
    if size is None:
        raise Reject
    width = draw.random.choice([1, 5, 8])
    scale = 1 / math.sqrt(size)
    b_transposed = draw.random.randint(0, 1)
    weight = draw.weight(*((width, size) if b_transposed else (size, width)), scale=scale)
    c = draw.random.choice([None, draw.weight(width), draw.weight(1, width), draw.weight()])
    draw.one("Gemm", x, weight, c, transA=transposed, transB=b_transposed, alpha=0.5, beta=2.0)


def einsum_weight(draw: Draw) -> None:
    """A sum of products over one axis of a value and a weight, with the axes of the result in any order."""
    x = draw.floats(range(1, 5))
    letters = "abcdef"[: x.rank]
    axis = draw.axis(x) % x.rank
    size = x.fixed(axis)
    if size is None:
        raise Reject
    out = [*letters.replace(letters[axis], ""), "z"]
    draw.random.shuffle(out)
    weight = draw.weight(size, draw.random.choice([2, 4, 6]), scale=1 / math.sqrt(size))
    y = draw.one("Einsum", x, weight, equation=f"{letters},{letters[axis]}z->{''.join(out)}")
    if draw.chance(0.4):
        draw.one("Add", y, draw.weight())


def einsum(draw: Draw) -> None:
    """A product of two values that share axes of equal sizes. Shared axes are summed or kept, other axes are kept."""
    a, b = draw.floats(range(1, 5)), draw.floats(range(1, 5))
    first = "abcd"[: a.rank]
    second = ""
    for axis in range(b.rank):
        same = [c for i, c in enumerate(first) if a.sizes(i) == b.sizes(axis) and c not in second]
        second += draw.random.choice(same) if same and draw.chance(0.8) else "efgh"[axis]
    shared = [c for c in first if c in second]
    summed = [c for c in shared if draw.chance(0.6)]
    out = [c for c in dict.fromkeys(first + second) if c not in summed]
    draw.random.shuffle(out)
    if len(out) > 5:
        raise Reject
    draw.one("Einsum", a, b, equation=f"{first},{second}->{''.join(out)}")


def attention(draw: Draw) -> None:
    """softmax(q k') v with two heads, where q, k and v are projections of one value."""
    x = draw.floats(range(3, 4))
    size = x.fixed(2)
    if size is None or size % 2:
        raise Reject
    heads = draw.constant([0, 0, 2, size // 2])
    parts = []
    for _ in range(3):
        projected = draw.one("MatMul", x, draw.weight(size, size, scale=1 / math.sqrt(size)))
        parts.append(draw.one("Reshape", projected, heads))
    q, v = (draw.one("Transpose", parts[i], perm=[0, 2, 1, 3]) for i in (0, 2))
    k = draw.one("Transpose", parts[1], perm=[0, 2, 3, 1])
    scores = draw.one("MatMul", q, k)
    mixed = draw.one("MatMul", draw.one("Softmax", scores, axis=-1), v)
    back = draw.one("Transpose", mixed, perm=[0, 2, 1, 3])
    draw.one("Reshape", back, draw.constant([0, 0, size]))


def _image(draw: Draw) -> tuple[Value, int]:
    """A value that can be an image, and its number of channels."""
    x = draw.floats(range(3, 5))
    channels = x.fixed(1)
    if channels is None or channels > 32:
        raise Reject
    return x, channels


def _window(draw: Draw, spatial: int) -> dict[str, object]:
    kernel = [draw.random.choice([1, 2, 3, 3]) for _ in range(spatial)]
    window: dict[str, object] = {"kernel_shape": kernel}
    if draw.chance(0.5):
        window["strides"] = [draw.random.choice([1, 2]) for _ in range(spatial)]
    if draw.chance(0.8):
        window["pads"] = [draw.random.randint((k - 1) // 2, k - 1) if k > 1 else 0 for k in kernel * 2]
    return window


def conv(draw: Draw) -> None:
    x, channels = _image(draw)
    window = _window(draw, x.rank - 2)
    kernel = window["kernel_shape"]
    assert isinstance(kernel, list)
    groups = draw.random.choice([1, 1, channels])
    out = groups * draw.random.choice([1, 2]) if groups > 1 else draw.random.choice([1, 4, 8])
    if draw.chance(0.2):
        window["dilations"] = [2] * len(kernel)
    elif "pads" in window and draw.chance(0.2):
        del window["pads"]
        window["auto_pad"] = draw.random.choice(["SAME_UPPER", "SAME_LOWER"])
    scale = 1 / math.sqrt(math.prod(kernel) * channels / groups)
    weight = draw.weight(out, channels // groups, *kernel, scale=scale)
    bias = [draw.weight(out)] if draw.chance(0.5) else []
    draw.one("Conv", x, weight, *bias, group=groups, **window)


def conv_transpose(draw: Draw) -> None:
    x, channels = _image(draw)
    spatial = x.rank - 2
    kernel = [draw.random.choice([2, 3]) for _ in range(spatial)]
    weight = draw.weight(channels, draw.random.choice([1, 3]), *kernel, scale=1 / math.sqrt(channels))
    draw.one("ConvTranspose", x, weight, strides=[draw.random.choice([1, 2])] * spatial, kernel_shape=kernel)


def pool(draw: Draw) -> None:
    x, _ = _image(draw)
    window = _window(draw, x.rank - 2)
    kernel = window["kernel_shape"]
    assert isinstance(kernel, list)
    if "pads" in window:
        window["pads"] = [k // 2 for k in kernel] * 2  # the reference implementation is wrong for other pads
    if draw.chance(0.5):
        draw.one("MaxPool", x, **window)
        return
    draw.one("AveragePool", x, count_include_pad=draw.random.randint(0, 1), **window)


def global_pool(draw: Draw) -> None:
    x = draw.floats(range(4, 5))
    draw.one(draw.random.choice(["GlobalAveragePool", "GlobalMaxPool"]), x)


PROPOSALS = {
    matmul_weight: 6,
    matmul: 5,
    gemm: 2,
    einsum_weight: 4,
    einsum: 4,
    attention: 1,
    conv: 4,
    conv_transpose: 1,
    pool: 2,
    global_pool: 1,
}
