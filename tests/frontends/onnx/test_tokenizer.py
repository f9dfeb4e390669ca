"""Tokenizer and MurmurHash3 of com.microsoft, compared with ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import deploykit
from tests.frontends.onnx.harness import Check, by_onnxruntime

SENTENCES = [
    "A good movie",
    "",
    "don't -- 1st naïve café!",
    "  ",
    "日本語 😀 x",
    "aab abab ba",
    "word_1,word-2;;a.b",
]


def model(shape: list[str] | None = None, **attributes: Any) -> onnx.ModelProto:
    given: dict[str, Any] = {"mark": 0, "mincharnum": 1, "pad_value": "#"} | attributes
    node = helper.make_node("Tokenizer", ["x"], ["y"], domain="com.microsoft", **given)
    x = helper.make_tensor_value_info("x", TensorProto.STRING, ["n"] if shape is None else shape)
    y = helper.make_tensor_value_info("y", TensorProto.STRING, None)
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(helper.make_graph([node], "model", [x], [y]), opset_imports=imports, ir_version=10)


def drawn(count: int = 60) -> list[str]:
    """Random texts of a few letters."""
    rng = np.random.default_rng(0)
    return ["".join(rng.choice(list("aab_é日 .,-1\n"), rng.integers(0, 12))) for _ in range(count)]


def agrees(check: Check, made: onnx.ModelProto) -> None:
    texts = np.array(SENTENCES + drawn(), object)
    runs = [{"x": texts}, {"x": texts[:1]}, {"x": texts[1:2]}, {"x": np.array(["x" * 3000, "a"], object)}]
    check(made, *runs, expected=by_onnxruntime(made, *runs))


EXPRESSIONS = [
    "[a-zA-Z0-9_]+",
    r"\b\w\w+\b",
    "a|ab|b",
    "[^ ]+",
    "(?i)A+",
    "a*",
    "^a",
    "[.,]$",
    r"\Bb",
    "(ab)+",
    "é.",
    "x{0}",
]


@pytest.mark.parametrize("expression", EXPRESSIONS)
@pytest.mark.parametrize("shortest", [1, 2])
def test_words_that_match(check: Check, expression: str, shortest: int) -> None:
    agrees(check, model(tokenexp=expression, mincharnum=shortest))


@pytest.mark.parametrize("separators", [[" "], [r"\s+", "[.,]"], ["a", "b", "é|日"], [r"\b"], ["aa|a"], ["[^a]+"]])
@pytest.mark.parametrize("shortest", [1, 2])
def test_words_between_separators(check: Check, separators: list[str], shortest: int) -> None:
    made = model(separators=separators, mincharnum=shortest)
    if separators == [r"\b"]:
        with pytest.raises(deploykit.UnsupportedModelError, match="matches the empty string"):
            deploykit.load(made)
        return
    agrees(check, made)


@pytest.mark.parametrize("given", [{"tokenexp": "."}, {"separators": [""]}], ids=["expression", "separator"])
def test_characters(check: Check, given: dict[str, Any]) -> None:
    agrees(check, model(**given))


@pytest.mark.parametrize("filler", ["", "日"])
@pytest.mark.parametrize("expression", ["[a-z]+", "."])
def test_marks_and_fillers(check: Check, filler: str, expression: str) -> None:
    agrees(check, model(mark=1, pad_value=filler, tokenexp=expression))


def test_rows_of_texts(check: Check) -> None:
    texts = np.array(SENTENCES[:6], object).reshape(2, 3)
    made = model(["n", "m"], tokenexp="[a-z]+", mark=1)
    runs = [{"x": texts}, {"x": texts[:, 1:2]}, {"x": texts[1:]}]
    check(made, *runs, expected=by_onnxruntime(made, *runs))


def test_counts_of_words(check: Check) -> None:
    """The graph of a vectorizer of scikit-learn, without its change of case, which needs a locale."""
    text = """<ir_version: 10, opset_import: ["": 17, "com.microsoft": 1]> model (string[n,1] x) => (float[n,k] y) {
        words = com.microsoft.Tokenizer<mark=0, mincharnum=1, pad_value="#", tokenexp="[a-zA-Z0-9_]+">(x)
        rows = Flatten(words)
        y = TfIdfVectorizer<max_gram_length=2, max_skip_count=0, min_gram_length=1, mode="TF", ngram_counts=[0, 3],
            ngram_indexes=[0, 2, 3, 1], pool_strings=["a", "good", "movie", "a", "good"]>(rows)
    }"""
    made = onnx.parser.parse_model(text)
    texts = np.array([["a good movie"], ["good a good a good"], ["none, here."], [""], ["#"]], object)
    runs = [{"x": texts}, {"x": texts[:1]}, {"x": texts[2:4]}]
    check(made, *runs, expected=by_onnxruntime(made, *runs))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "neither separators nor tokenexp"),
        ({"tokenexp": "(?u)\\w+"}, r"the regular expression '\(\?u\)\\\\w\+' has "),
        ({"tokenexp": "a", "mincharnum": 0}, "mincharnum is 0"),
        ({"tokenexp": ".", "mincharnum": 2}, "mincharnum is 2"),
        ({"separators": ["a"] * 9}, "9 separators; at most 8"),
    ],
)
def test_other_tokenizers_are_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(deploykit.UnsupportedModelError, match=words):
        deploykit.load(model(**given))


def hashes(dtype: int, **attributes: Any) -> onnx.ModelProto:
    result = TensorProto.UINT32 if attributes.get("positive", 1) else TensorProto.INT32
    node = helper.make_node("MurmurHash3", ["x"], ["y"], domain="com.microsoft", **attributes)
    x, y = (helper.make_tensor_value_info(*port, ["n"]) for port in (("x", dtype), ("y", result)))
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(helper.make_graph([node], "model", [x], [y]), opset_imports=imports, ir_version=10)


@pytest.mark.parametrize("attributes", [{}, {"positive": 0}, {"seed": 42}, {"seed": 2**32 - 1, "positive": 0}])
def test_hashes_of_strings(check: Check, attributes: dict[str, Any]) -> None:
    x = {"x": np.array(["", "a", "ab", "abc", "abcd", "abcde", "Käfer", "x" * 1000, *SENTENCES, *drawn()], object)}
    made = hashes(TensorProto.STRING, **attributes)
    check(made, x, expected=by_onnxruntime(made, x))


@pytest.mark.parametrize("dtype", ["int32", "uint32", "int64", "uint64", "float32", "float64"])
def test_hashes_of_numbers(check: Check, dtype: str) -> None:
    x = {"x": np.array([0, 1, 2, 77, 2**31 - 1], dtype)}
    made = hashes(int(helper.np_dtype_to_tensor_dtype(np.dtype(dtype))), seed=7)
    check(made, x, expected=by_onnxruntime(made, x))
