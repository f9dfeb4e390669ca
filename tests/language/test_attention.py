"""Attention to pages gives what NumPy computes from whole texts, in any parts, on every runtime."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from deploykit.compiler.devices.cpu import Device
from deploykit.compiler.model import ImportedModel, Port
from deploykit.compiler.operators.building.context import Context, Site
from deploykit.compiler.operators.building.model import ModelBuilder, Values
from deploykit.compiler.operators.pages import PAGE, Pages, shape_of
from deploykit.frontends.memory import cache_name, scales_name
from deploykit.frontends.stepping import attended
from deploykit.sessions.session import Session
from tests.runtimes import HOST, Runtime

BLOCKS, SEQUENCES = 10, 3


@dataclass(frozen=True)
class Attention:
    heads: int
    group: int
    size: int
    window: int | None = None
    softcap: float = 0.0
    dtype: str = "float32"
    biased: bool = False

    @property
    def biases(self) -> np.ndarray | None:
        """What is added to scores (heads, positions)."""
        if not self.biased:
            return None
        shape = (self.heads * self.group, BLOCKS * PAGE)
        return np.asarray(np.random.default_rng(8).normal(size=shape) * 3, np.float32)

    @property
    def scale(self) -> float:
        return float(self.size**-0.5)

    def model(self) -> ImportedModel:
        builder = ModelBuilder("attention")
        tokens, sequences, blocks = (
            builder.dim("tokens", 1, 64),
            builder.dim("sequences", 1, 4),
            builder.dim("blocks", 1, 16),
        )
        pages = builder.dim("pages", 1, 64)
        numbers = cache_name(0)
        builder.state(numbers, self.dtype, shape_of(pages, self.heads, self.size))
        names = [numbers]
        if self.dtype == "int8":
            names.append(scales_name(numbers))
            builder.state(names[-1], "float32", shape_of(pages, self.heads, 1))

        def step(ctx: Context, given: Values, states: Values) -> tuple[Values, Values]:
            ctx.site = Site("attention", "attention")
            places = (given["positions"], given["sequences"], given["table"])
            found = Pages.checked(ctx, *places, pages, BLOCKS * PAGE)
            changed, operands = dict(states), (given["queries"], given["keys"], given["values"])
            biases = None if self.biases is None else ctx.constant(self.biases)
            y = attended(
                *(found, changed, 0, operands),
                scale=self.scale,
                window=self.window,
                softcap=self.softcap,
                biases=biases,
            )
            return {"attended": y}, changed

        narrow = (1, tokens, self.heads * self.size)
        wide = (1, tokens, self.heads * self.group * self.size)
        inputs = [Port("queries", "float32", wide), Port("keys", "float32", narrow), Port("values", "float32", narrow)]
        inputs += [Port("positions", "int64", (tokens,)), Port("sequences", "int64", (tokens,))]
        builder.function("step", [*inputs, Port("table", "int64", (sequences, blocks))], step, names)
        return builder.model()

    def expected(self, queries: np.ndarray, keys: np.ndarray, values: np.ndarray) -> np.ndarray:
        """What the tokens of a whole text attend to, (tokens, heads, size)."""
        keys, values = (np.repeat(each, self.group, axis=1).astype(np.float64) for each in (keys, values))
        scores = np.einsum("qhd,khd->hqk", queries, keys) * self.scale
        if self.softcap:
            scores = np.tanh(scores / self.softcap) * self.softcap
        if self.biases is not None:
            scores += self.biases[:, None, : len(queries)]
        back = np.arange(len(queries))[:, None] - np.arange(len(queries))
        seen = (back >= 0) & (back < (self.window or len(queries)))
        scores = np.where(seen, scores, -np.inf)
        weights = np.exp(scores - scores.max(axis=2, keepdims=True))
        return np.asarray(np.einsum("hqk,khd->qhd", weights / weights.sum(axis=2, keepdims=True), values))


CASES = {
    "plain": Attention(1, 1, 32),
    "groups": Attention(2, 3, 64, window=40),
    "wide": Attention(1, 2, 256, softcap=3.0),
    "odd": Attention(3, 1, 6, window=7),
    "halves": Attention(2, 2, 16, window=40, dtype="float16"),
    "odd halves": Attention(1, 3, 5, dtype="float16"),
    "bytes": Attention(2, 2, 64, window=40, dtype="int8"),
    "biases": Attention(2, 3, 32, biased=True),
    "biases of odd heads": Attention(3, 1, 6, window=40, biased=True),
    "biases and halves": Attention(1, 12, 32, dtype="float16", biased=True),
    "biases and bytes": Attention(2, 2, 64, dtype="int8", biased=True),
    "odd bytes": Attention(1, 3, 5, softcap=3.0, dtype="int8"),
}


@dataclass
class Texts:
    """Texts that are read part by part. What is not read, or is no longer seen, holds NaN."""

    session: Session
    case: Attention
    parts: Sequence[tuple[np.ndarray, ...]]
    table: np.ndarray

    def step(self, spans: list[tuple[int, int, int]], *, nan: bool = False) -> list[np.ndarray]:
        """Read `start..stop` of each text in `spans`; with `nan`, store numbers that are none at these places."""
        taken = [tuple(each[start:stop] for each in self.parts[text]) for text, start, stop in spans]
        queries, keys, values = (np.concatenate(each)[None] for each in zip(*taken, strict=True))
        if nan:
            keys, values = np.full_like(keys, np.nan), np.full_like(values, np.nan)
        used = [text for text, _, _ in spans]
        found = self.session(
            queries=queries.reshape(*queries.shape[:2], -1),
            keys=keys.reshape(*keys.shape[:2], -1),
            values=values.reshape(*values.shape[:2], -1),
            positions=np.concatenate([np.arange(start, stop) for _, start, stop in spans]),
            sequences=np.repeat(np.arange(len(spans)), [stop - start for _, start, stop in spans]),
            table=self.table[used, : -(-max(stop for _, _, stop in spans) // PAGE)],
        )["attended"]
        ends = np.cumsum([stop - start for _, start, stop in spans])[:-1]
        shape = (-1, self.case.heads * self.case.group, self.case.size)
        return [part.reshape(shape) for part in np.split(found[0], ends)]


def rounded(x: np.ndarray, dtype: str) -> np.ndarray:
    """Keys or values (tokens, heads, size) as a cache has them."""
    if dtype == "int8":
        scales = np.abs(x).max(axis=2, keepdims=True) / np.float32(127)
        return np.asarray(np.rint(x * (np.float32(1) / scales)) * scales)
    return x.astype(dtype).astype(np.float32)


@pytest.mark.sampled(part=6)
@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_parts_of_texts(name: str, runtime: Runtime) -> None:
    case, random = CASES[name], np.random.default_rng(4)
    lengths = (BLOCKS * PAGE, 33, 90)

    def drawn(length: int, heads: int) -> np.ndarray:
        return random.normal(size=(length, heads, case.size)).astype(np.float32) * 1.5

    parts = [(drawn(n, case.heads * case.group), drawn(n, case.heads), drawn(n, case.heads)) for n in lengths]
    # Queries stay as they are.
    expected = [case.expected(queries, *(rounded(each, case.dtype) for each in other)) for queries, *other in parts]
    with runtime.session(case.model()) as session:
        session.reset({"pages": SEQUENCES * BLOCKS})
        texts = Texts(session, case, parts, random.permutation(SEQUENCES * BLOCKS).reshape(SEQUENCES, BLOCKS))
        for text, length in enumerate(lengths):
            for start in range(0, length, 64):
                texts.step([(text, start, min(length, start + 64))], nan=True)
        done = [0] * SEQUENCES
        while any(at < length for at, length in zip(done, lengths, strict=True)):
            most = int(random.choice([1, 1, 3, 21]))
            spans = [(t, at, min(n, at + most)) for t, (at, n) in enumerate(zip(done, lengths, strict=True)) if at < n]
            for (text, start, stop), found in zip(spans, texts.step(spans), strict=True):
                np.testing.assert_allclose(found, expected[text][start:stop], rtol=0, atol=2e-5)
                done[text] = stop
                old = stop - (case.window or stop)
                if case.window and old > 0:
                    texts.step([(text, max(0, old - 20), old)], nan=True)


@pytest.mark.parametrize("name", ["groups", "odd bytes"])
def test_prefetches_change_no_bit(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same kernel without them, for texts of one page and of several."""
    case, random = CASES[name], np.random.default_rng(6)
    lengths = (BLOCKS * PAGE, 20)
    shapes = [(case.heads * case.group, case.size), (case.heads, case.size), (case.heads, case.size)]
    parts = [tuple(random.normal(size=(n, *shape)).astype(np.float32) for shape in shapes) for n in lengths]
    table = random.permutation(len(lengths) * BLOCKS).reshape(len(lengths), BLOCKS)

    def attended() -> list[np.ndarray]:
        with HOST.session(case.model()) as session:
            session.reset({"pages": len(lengths) * BLOCKS})
            texts = Texts(session, case, parts, table)
            spans = [(0, start, start + 64) for start in range(0, lengths[0], 64)]
            return [*(texts.step([span])[0] for span in spans), *texts.step([(0, 319, 320), (1, 0, 20)])]

    fetched = attended()
    monkeypatch.setattr(Device, "prefetches", False)
    for found, expected in zip(attended(), fetched, strict=True):
        np.testing.assert_array_equal(found, expected)
