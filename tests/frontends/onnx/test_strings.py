"""Strings, sequences and optionals as inputs and outputs, and the operators on them."""

from __future__ import annotations

import itertools
import random
import re
import shutil
import tempfile
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import deploykit
from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.compiler.operators.strings.regular_expressions import Automaton, compiled
from deploykit.engines.native import library as native
from deploykit.sessions.strings import decode, encode
from tests.frontends.onnx.harness import Check, parse

WORDS = ["", "a", "Straße", "日本語", "MONDAY", "naïve café", "x" * 300, "😀 e\u0301"]


def run(text: str, *feeds: Mapping[str, Any], **options: Any) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        deploykit.build(parse(text, 24), output=f"{folder}/model", **options)
        with deploykit.open(f"{folder}/model") as session:
            return [session.run(feed) for feed in feeds]


def strings(*values: Any) -> np.ndarray:
    return np.array(values, object)


def test_strings_are_stored_as_utf_8() -> None:
    array = strings(*WORDS, "a").reshape(3, 3)
    spans, data = encode(array)
    assert spans.shape == (3, 3)
    assert data.nbytes == sum(len(w.encode()) for w in WORDS)
    np.testing.assert_array_equal(decode(spans, data), array)
    with pytest.raises(deploykit.ShapeError, match=r"1\.5"):
        encode(strings("a", 1.5))


MOVES = """(string[n] x, string[n] y, int64[k] where, bool[n] which) => (
    string[a] gathered, string[b,2] stacked, string[c] chosen, string[d,e] reshaped, bool[f] same, int64[g] codes,
    string[h] joined, string[i] named) {
    gathered = Gather(x, where)
    one = Constant<value_ints=[-1, 1]>()
    left = Reshape(x, one)
    right = Reshape(y, one)
    stacked = Concat<axis=1>(left, right)
    chosen = Where(which, x, y)
    reshaped = Transpose(left)
    same = Equal(x, y)
    codes = ai.onnx.ml.LabelEncoder<keys_strings=["b", "é", "b", ""], values_int64s=[1, 2, 3, 4], default_int64=9>(x)
    joined = StringConcat(x, y)
    named = ai.onnx.ml.LabelEncoder<keys_int64s=[3, 9], values_strings=["three", "neun"], default_string="?">(codes)
}"""


def moves(x: list[str], y: list[str], where: list[int], which: list[bool]) -> tuple[dict[str, Any], dict[str, Any]]:
    feeds = {"x": strings(*x), "y": strings(*y), "where": np.array(where), "which": np.array(which)}
    codes = [{"b": 3, "é": 2, "": 4}.get(s, 9) for s in x]
    expected = {
        "gathered": [x[i] for i in where],
        "stacked": [list(pair) for pair in zip(x, y, strict=True)],
        "chosen": [a if c else b for a, b, c in zip(x, y, which, strict=True)],
        "reshaped": [x],
        "same": [a == b for a, b in zip(x, y, strict=True)],
        "codes": codes,
        "joined": [a + b for a, b in zip(x, y, strict=True)],
        "named": [{3: "three", 9: "neun"}.get(code, "?") for code in codes],
    }
    return feeds, expected


def test_operators_that_move_and_compare_strings(check: Check) -> None:
    cases = [
        moves(["b"], ["b"], [0], [False]),
        moves(
            ["b", "é", "", "日本", "b"],
            ["b", "e", "", "日本語", "é"],
            [4, -5, 2, 2, 2, 1, 0],
            [True, False] * 2 + [True],
        ),
        moves(["x" * 100, "b"], ["", "y" * 33], [1], [True, True]),
    ]
    dims = {"n": (1, 8), "k": (1, 8), "x_utf8": (0, 200), "y_utf8": (0, 200)}
    with check.runtime.session(parse(MOVES, 24), dims=dims) as session:
        for feeds, expected in cases:
            got = session.run(feeds)
            for name, want in expected.items():
                assert got[name].tolist() == want, name


def test_spans_outside_the_bytes_are_refused() -> None:
    text = "(string[n] x) => (string[n] y) { y = Identity(x) }"
    with tempfile.TemporaryDirectory() as folder:
        deploykit.build(parse(text), output=f"{folder}/model")
        with deploykit.open(f"{folder}/model") as session:
            assert session(x=["ab", "c"])["y"].tolist() == ["ab", "c"]
            for bad in (4, 3 + (1 << 32), 4 << 32, -1):
                with pytest.raises(deploykit.ShapeError, match=r"strings_of_x_outside_of_their_bytes.* must be 0"):
                    session._engine.run([np.array([0, bad]), np.zeros(3, np.uint8)])
    assert native.DK_ERROR_DATA == 7


SPLITS = ["", " ", "a", " a  b c ", "a.b..c.", "..", "日本.語", "\u2003x\u00a0y\tz"]


@pytest.mark.parametrize("delimiter", ["", ".", "..", "本."])
@pytest.mark.parametrize("limit", [None, 0, 1, 2])
def test_split(delimiter: str, limit: int | None) -> None:
    attributes = [f'delimiter = "{delimiter}"'] if delimiter else []
    attributes += [] if limit is None else [f"maxsplit = {limit}"]
    given = f"<{', '.join(attributes)}>" if attributes else ""
    text = f"(string[n] x) => (string[a,b] pieces, int64[c] counts) {{ pieces, counts = StringSplit{given}(x) }}"
    (got,) = run(text, {"x": strings(*SPLITS)})
    pieces = [s.split(delimiter or None, -1 if limit is None else limit) for s in SPLITS]
    width = max(map(len, pieces))
    assert got["counts"].tolist() == [len(p) for p in pieces]
    assert got["pieces"].tolist() == [p + [""] * (width - len(p)) for p in pieces]


@pytest.mark.parametrize("action", ["NONE", "LOWER", "UPPER"])
@pytest.mark.parametrize("sensitive", [0, 1])
def test_normalizer(action: str, sensitive: int) -> None:
    stops = ["Monday", "ÉTÉ"]
    attributes = f'case_change_action="{action}", is_case_sensitive={sensitive}, stopwords=["Monday", "ÉTÉ"]'
    text = f"(string[n] x) => (string[m] y) {{ y = StringNormalizer<{attributes}>(x) }}"
    samples = [["Monday"], ["monday", "été", "Été", "straße", "İx", "ǆ"], ["MONDAY", "", "Tuesday", "ÉTÉ"]]

    def cased(word: str, how: str) -> str:
        return "".join({"LOWER": c.lower(), "UPPER": c.upper(), "NONE": c}[how] for c in word)

    for words, got in zip(samples, run(text, *({"x": strings(*s)} for s in samples)), strict=True):
        how = "NONE" if sensitive else ("LOWER" if action == "NONE" else action)
        left = [cased(w, action) for w in words if cased(w, how) not in [cased(s, how) for s in stops]]
        assert got["y"].tolist() == (left or [""])


PATTERNS = [
    *(r"www\.[\w.-]+\.\bcom\b", r"(\W|^)[\w.\-]{0,5}@(yahoo|gmail)(\W|$)", "a|bc*d+", "(?i)hel+o[^x]?", r"\bab\b.*"),
    *("[a-c]{2,3}(é|ü)+", ".*日本.*", "[^a-z]*", "(ab|a)(bc|c)?", r"\Ba|a\b.", "(?:a?){3}b", r"[ぁ-ん]+\d*", ""),
    *("(a*)*b", "x{0,2}y", r"[^\n]*b$", r"^a\b-\bb$", "(?s).", ".", r"[\D]\x41?", "a{2}|b{1,}", "[]a]+", "a+?b*?"),
]


def matches(automaton: Automaton, text: str) -> bool:
    state = 0
    for byte in text.encode():
        state = automaton.table[state, automaton.classes[byte]]
    return bool(automaton.accepts[state])


@pytest.mark.parametrize("pattern", PATTERNS)
def test_automata_agree_with_python(pattern: str) -> None:
    automaton, expression = compiled(pattern), re.compile(pattern, re.ASCII)
    alphabet = "abcxyé日本ü@.ん -_1A\nhelo"
    generator = random.Random(len(pattern))
    texts = ["".join(t) for n in range(3) for t in itertools.product(alphabet, repeat=n)]
    texts += ["".join(generator.choices("ab-xyé日本hello", k=generator.randint(3, 6))) for _ in range(2000)]
    texts += ["www.a.com", "www.é.com", "u@gmail", "-u1@yahoo!", "HELLO", "ab cd", "aa\u00fc"]
    for text in texts:
        assert matches(automaton, text) == (expression.fullmatch(text) is not None), text


@pytest.mark.parametrize("pattern", ["(a", "a)", "[a", "*a", "a**", "(?=a)", r"\1", "[b-a]", r"\p{L}", "a{2000}", "\\"])
def test_invalid_expressions_are_refused(pattern: str) -> None:
    with pytest.raises(Unsupported):
        compiled(pattern)


def test_match() -> None:
    text = '(string[n] x) => (bool[m] y) { y = RegexFullMatch<pattern="[^@]+@(a|日)+">(x) }'
    words = ["u@a", "u@日a", "@a", "u@", "é@aaaa", "u@b", ""]
    for got, given in zip(
        run(text, {"x": strings(*words)}, {"x": strings(words[1])}), (words, words[1:2]), strict=True
    ):
        assert got["y"].tolist() == [re.fullmatch("[^@]+@(a|日)+", w) is not None for w in given]


def test_operators_that_do_not_support_strings_say_so() -> None:
    with pytest.raises(deploykit.UnsupportedModelError, match="strings are not supported by this operator"):
        deploykit.load(parse("(string[n] x) => (int64[m,k] y) { y = NonZero(x) }"))


SEQUENCES = """(seq(float[n]) x, float[m] item, int64 at, bool t) => (
    seq(float[a]) more, float[b] one, seq(float[c]) less, int64 count, float[d] all, seq(float[e]) either) {
    more = SequenceInsert(x, item, at)
    one = SequenceAt(x, at)
    less = SequenceErase(x, at)
    count = SequenceLength(more)
    all = ConcatFromSequence<axis=0>(x)
    either = If(t) <then_branch = yes () => (seq(float[p]) s) { s = SequenceMap(x) <body = twice (float[q] i)
                    => (float[r] o) { o = Add(i, i) }> },
                    else_branch = no () => (seq(float[p]) s) { s = Identity(x) }>
}"""


@pytest.mark.parametrize("target", ["host", pytest.param("embedded", marks=pytest.mark.slow), "webgpu"])
def test_sequences(target: str) -> None:
    if target == "webgpu" and not shutil.which("node"):
        pytest.skip("needs node")
    dims = {"x_length": 3, "m": (1, 9), **{f"n_{i}": (0, 9) for i in range(3)}}
    item = np.array([-1.0, -2.0], np.float32)
    for sizes, at, t in [((1, 4, 2), 0, True), ((3, 3, 3), -2, False), ((0, 9, 1), 2, True)][
        : 3 if target == "host" else 1
    ]:
        x = [np.arange(n, dtype=np.float32) for n in sizes]
        feeds = {"x": x, "item": item, "at": np.array(at), "t": np.array(t)}
        (got,) = run(SEQUENCES, feeds, target=target, dims=dims)
        where = at % 3
        expected = {"more": [*x[:where], item, *x[where:]], "less": x[:where] + x[where + 1 :]}
        expected["either"] = [2 * i for i in x] if t else x
        for name, items in expected.items():
            assert [i.tolist() for i in got[name]] == [i.tolist() for i in items], name
        assert got["count"] == 4
        assert got["one"].tolist() == x[where].tolist()
        assert got["all"].tolist() == np.concatenate(x).tolist()


def test_sequences_and_optionals_are_fixed_when_a_model_is_built() -> None:
    model = parse(SEQUENCES, 24)
    with pytest.raises(deploykit.UsageError, match="--dim x_length=N"):
        deploykit.load(model)
    feeds = {"item": np.zeros(1, np.float32), "at": np.array(0), "t": np.array(True)}
    two = [np.zeros(1, np.float32)] * 2
    with pytest.raises(deploykit.ShapeError, match="sequence of 3 items, found 2 items"):
        run(SEQUENCES, {"x": two, **feeds}, dims={"x_length": 3})


def test_optionals() -> None:
    text = """(optional(float[n]) x, bool t) => (bool given, optional(float[m]) y) {
        given = OptionalHasElement(x)
        y = If(t) <then_branch = yes () => (optional(float[3]) s) { c = Constant<value=float[3] {1, 2, 3}>()
                                                                   s = Optional(c) },
                   else_branch = no () => (optional(float[3]) s) { s = Optional<type=float[3]>() }>
    }"""
    x = np.zeros(2, np.float32)
    for present, value in ((1, x), (0, None)):
        feeds = [{"x": value, "t": np.array(t)} for t in (True, False)]
        there, absent = run(text, *feeds, dims={"x_present": present})
        assert there["given"] == bool(present)
        assert there["y"].tolist() == [1, 2, 3]
        assert absent["y"] is None
    with pytest.raises(deploykit.ShapeError, match="built as absent"):
        run(text, {"x": x, "t": np.array(True)}, dims={"x_present": 0})
