"""Normalisations with symbolic dims."""

import numpy as np

from tests.frontends.onnx.harness import Check, numbers

SIZES = [(1, 4, 1, 1), (2, 4, 3, 5), (3, 4, 7, 2)]


def test_normalization_of_channels_and_groups(check: Check) -> None:
    model = """(float[n, 4, h, w] x, float[4] s, float[4] b) =>
        (float[n, 4, h, w] a, float[n, 4, h, w] c, float[n, 4, h, w] d, float[n, 4, h, w] e, float[n, 4, h, w] f) {
        a = InstanceNormalization(x, s, b)
        c = GroupNormalization <num_groups = 2> (x, s, b)
        d = MeanVarianceNormalization <axes = [2, 3]> (x)
        e = LRN <size = 3, alpha = 0.1> (x)
        f = LRN <size = 2, beta = 0.5> (x)
    }"""
    runs = [{"x": numbers(*size), "s": numbers(4, seed=1), "b": numbers(4, seed=2)} for size in SIZES]
    expected = [_channels(**run) for run in runs]
    check(model, *runs, expected=expected, rtol=1e-4)


def _channels(x: np.ndarray, s: np.ndarray, b: np.ndarray) -> list[np.ndarray]:
    wide = x.astype(np.float64)
    scale, shift = s.reshape(4, 1, 1), b.reshape(4, 1, 1)

    def normal(values: np.ndarray, axes: tuple[int, ...], epsilon: float) -> np.ndarray:
        return (values - values.mean(axes, keepdims=True)) / np.sqrt(values.var(axes, keepdims=True) + epsilon)

    def response(size: int, alpha: float, beta: float) -> np.ndarray:
        before, after = (size - 1) // 2, size - 1 - (size - 1) // 2
        padded = np.pad(wide**2, ((0, 0), (before, after), (0, 0), (0, 0)))
        total = sum(padded[:, i : i + 4] for i in range(size))
        return wide / (1 + alpha / size * total) ** beta

    groups = wide.reshape(x.shape[0], 2, 2, *x.shape[2:])
    return [
        y.astype(np.float32)
        for y in (
            normal(wide, (2, 3), 1e-5) * scale + shift,
            normal(groups, (2, 3, 4), 1e-5).reshape(x.shape) * scale + shift,
            normal(wide, (2, 3), 1e-18),
            response(3, 0.1, 0.75),
            response(2, 1e-4, 0.5),
        )
    ]


def test_normalization_of_the_last_axes(check: Check) -> None:
    model = """(float[n, m, 6] x, float[6] s, float[6] b, float16[m, 6] h, float16[6] g) =>
        (float[n, m, 6] a, float[n, m, 1] mean, float[n, m, 1] deviation, float[n, m, 6] c, float16[m, 6] d,
         float[n, m, 6] e, float[n, m, 6] f) {
        a, mean, deviation = LayerNormalization(x, s, b)
        c = RMSNormalization(x, s)
        d = RMSNormalization <epsilon = 0.001> (h, g)
        e = LpNormalization <p = 1, axis = 1> (x)
        f = LpNormalization(x)
    }"""
    runs = [
        {
            "x": numbers(n, m, 6),
            "s": numbers(6, seed=1),
            "b": numbers(6, seed=2),
            "h": numbers(m, 6, dtype="float16"),
            "g": numbers(6, dtype="float16"),
        }
        for n, m in ((1, 1), (3, 5))
    ]
    expected = [_trailing(**run) for run in runs]
    check(model, *runs, opset=23, expected=expected, rtol=2e-3)


def _trailing(x: np.ndarray, s: np.ndarray, b: np.ndarray, h: np.ndarray, g: np.ndarray) -> list[np.ndarray]:
    mean = x.mean(-1, keepdims=True)
    deviation = 1 / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    half = h.astype(np.float32)

    def root_mean_square(v: np.ndarray, epsilon: float) -> np.ndarray:
        return v / np.sqrt((v * v).mean(-1, keepdims=True) + epsilon)

    return [
        (x - mean) * deviation * s + b,
        mean,
        deviation,
        root_mean_square(x, 1e-5) * s,
        (root_mean_square(half, 0.001) * g.astype(np.float32)).astype(np.float16),
        x / np.abs(x).sum(1, keepdims=True),
        x / np.sqrt((x * x).sum(-1, keepdims=True)),
    ]


def test_statistics_of_the_batch(check: Check) -> None:
    model = """(float[n, 3, m] x, float[3] s, float[3] b, float[3] mean, float[3] variance) =>
        (float[n, 3, m] y, float[3] new_mean, float[3] new_variance, float[n, 3, m] z) {
        y, new_mean, new_variance = BatchNormalization <training_mode = 1, momentum = 0.75> (x, s, b, mean, variance)
        z = BatchNormalization(x, s, b, mean, variance)
    }"""
    fixed = {"s": numbers(3), "b": numbers(3, seed=1), "mean": numbers(3, seed=2), "variance": numbers(3, seed=3) ** 2}
    check(model, *({"x": numbers(n, 3, m), **fixed} for n, m in ((2, 1), (3, 5))), rtol=1e-4)
