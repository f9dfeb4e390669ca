"""Random numbers: the generator itself, distributions, and what they depend on."""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import deploykit
from tests.frontends.onnx.harness import Check, parse

MASK = 0xFFFFFFFF


def philox(counter: Sequence[int], key: Sequence[int]) -> list[int]:
    """Philox4x32-10 in Python integers."""
    c, k = list(counter), list(key)
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(p1 >> 32) ^ c[1] ^ k[0], p1 & MASK, (p0 >> 32) ^ c[3] ^ k[1], p0 & MASK]
        k = [(k[0] + 0x9E3779B9) & MASK, (k[1] + 0xBB67AE85) & MASK]
    return c


def run(text: str, *feeds: Mapping[str, Any], opset: int = 21, **options: Any) -> list[dict[str, np.ndarray]]:
    with tempfile.TemporaryDirectory() as folder:
        deploykit.build(parse(text, opset), output=f"{folder}/model", **options)
        with deploykit.open(f"{folder}/model") as session:
            return [session.run(feed) for feed in feeds]


def test_the_generator_gives_the_published_words() -> None:
    assert philox((0, 0, 0, 0), (0, 0)) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    everything = philox((MASK,) * 4, (MASK, MASK))
    assert everything == [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]


@pytest.mark.parametrize("shape", [(1, 1), (3, 7), (0, 4)])
def test_uniform_numbers_come_from_the_generator(shape: tuple[int, int]) -> None:
    text = "(float[n,k] x) => (float[a,b] y, double[c,d] z) { y = RandomUniformLike<seed=3.5>(x)\n"
    text += "z = RandomUniformLike<seed=3.5, dtype=11>(x) }"
    (got,) = run(text, {"x": np.zeros(shape, np.float32)}, dims={"n": (0, None)})
    seed = struct.unpack("<I", struct.pack("<f", 3.5))[0]
    count = int(np.prod(shape))
    single = [(philox((i, 0, 0, 0), (seed, 0))[0] >> 8) * 2.0**-24 for i in range(count)]
    blocks = [philox((i, 0, 0, 0), (seed, 1)) for i in range(count)]
    double = [((w[0] >> 5 << 26) | (w[1] >> 6)) * 2.0**-53 for w in blocks]
    np.testing.assert_array_equal(got["y"], np.asarray(single, np.float32).reshape(shape))
    np.testing.assert_array_equal(got["z"], np.asarray(double).reshape(shape))


def test_distributions() -> None:
    text = """(float[n] x, float[r,c] p) => (float[a] u, double[b] v, float[d] w, int32[r,s] m, float[e] kept) {
        u = RandomUniformLike<low=2.0, high=5.0>(x)
        v = RandomNormalLike<dtype=11, mean=1.0, scale=3.0>(x)
        w = Bernoulli(x)
        m = Multinomial<sample_size=20000>(p)
        train = Constant<value=bool {1}>()
        ratio = Constant<value=float {0.25}>()
        kept = Dropout(x, ratio, train)
    }"""
    count = 200_001
    shares = np.array([[0.1, 0.2, 0.3, 0.4], [0.7, 0.1, 0.1, 0.1], [0.25, 0.25, 0.5, 0.0]])
    with np.errstate(divide="ignore"):
        logits = np.log(shares).astype(np.float32)
    (got,) = run(text, {"x": np.full(count, 0.3, np.float32), "p": logits})
    u, v = (got["u"] - 2) / 3, (got["v"] - 1) / 3
    assert 0 <= u.min() < 1e-4
    assert 1 - 1e-4 < u.max() <= 1
    deciles = np.bincount((u * 10).astype(int).clip(0, 9), minlength=10)
    assert ((deciles - count / 10) ** 2 / (count / 10)).sum() < 27.9  # chi squared, 9 degrees of freedom, p = 0.001
    assert abs(np.corrcoef(u[:-1], u[1:])[0, 1]) < 0.01
    for power, moment, deviation in ((1, 0, 1), (2, 1, 2**0.5), (3, 0, 15**0.5), (4, 3, 96**0.5)):
        assert abs((v**power).mean() - moment) < 4 * deviation / count**0.5
    assert set(np.unique(got["w"])) == {0.0, 1.0}
    assert abs(got["w"].mean() - 0.3) < 4 * (0.21 / count) ** 0.5
    assert abs((got["kept"] == 0).mean() - 0.25) < 4 * (0.1875 / count) ** 0.5
    np.testing.assert_allclose(got["kept"][got["kept"] != 0], 0.4, rtol=1e-6)
    for row, share in zip(got["m"], shares, strict=True):
        np.testing.assert_allclose(np.bincount(row, minlength=4) / 20000, share, atol=0.015)


def test_operators_draw_different_numbers_and_runs_the_same() -> None:
    text = "(float[n] x) => (float[a] y, float[b] z) { y = RandomUniformLike(x)\n z = RandomUniformLike(x) }"
    one, two = run(text, *[{"x": np.zeros(9, np.float32)}] * 2)
    assert not np.isin(one["y"], one["z"]).any()
    np.testing.assert_array_equal(one["y"], two["y"])


def test_a_seed_input_changes_the_numbers_of_operators_without_a_seed() -> None:
    text = """(float[n] x, bool t) => (float[a] y, float[b] z, float[c] branch) {
        y = RandomUniformLike(x)
        z = RandomUniformLike<seed=1.0>(x)
        branch = If(t) <then_branch = yes () => (float[m] s) { s = RandomUniformLike(x) },
                        else_branch = no () => (float[k] s) { s = Neg(x) }>
    }"""
    feed = {"x": np.zeros(6, np.float32), "t": np.array(True)}
    seeds = [0, 1, 1, 1 << 32]
    runs = run(text, *({**feed, "seed": np.array(s)} for s in seeds), seed_input="seed")
    for name in ("y", "branch"):
        assert len({tuple(r[name]) for r in runs}) == 3
        np.testing.assert_array_equal(runs[1][name], runs[2][name])
    assert len({tuple(r["z"]) for r in runs}) == 1
    with pytest.raises(deploykit.UsageError, match="'x'"):
        deploykit.load(parse(text), seed_input="x")


def test_iterations_of_loops_draw_different_numbers() -> None:
    text = """(int64 trips, float[n] x) => (float[k,m] rows) {
        go = Constant<value=bool {1}>()
        rows = Loop(trips, go) <body = step (int64 i, bool c) => (bool d, float[m] row) {
            d = Identity(c)
            row = RandomNormalLike(x)
        }>
    }"""
    (got,) = run(text, {"trips": np.array(5), "x": np.zeros(4, np.float32)})
    assert got["rows"].shape == (5, 4)
    assert len(np.unique(got["rows"])) == 20


def test_runtimes_draw_the_same_numbers(check: Check) -> None:
    text = """(float[n] x, float[r,c] p) => (float[a] u, double[b] v, int32[r,s] m) {
        u = RandomUniformLike(x)
        v = RandomNormalLike<dtype=11, seed=2.0>(x)
        m = Multinomial<sample_size=7>(p)
    }"""
    feed = {"x": np.zeros(9, np.float32), "p": np.log(np.array([[0.1, 0.2, 0.7]], np.float32))}
    (host,) = run(text, feed)
    with check.runtime.session(parse(text)) as session:
        other = session.run(feed)
    np.testing.assert_array_equal(host["u"], other["u"])
    np.testing.assert_array_equal(host["m"], other["m"])
    np.testing.assert_allclose(host["v"], other["v"], rtol=1e-12)
