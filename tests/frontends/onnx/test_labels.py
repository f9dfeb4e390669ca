"""Encoders of strings: categories, labels, n-grams of words, and the different strings of a tensor."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import deploykit
from tests.frontends.onnx.harness import Check, by_onnxruntime

FLOAT, DOUBLE, INT, STRING = TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.INT64, TensorProto.STRING

LONG = "x" * 5000
WORDS = np.array([["red", "", "blue"], ["grün", "red", "Red"], [LONG, "re", "reds"]], object)
RUNS = ({"x": WORDS}, {"x": WORDS[:1]}, {"x": WORDS[1:]})
"""Strings that are keys below, and others: empty, long, not ASCII, in another case, longer or shorter than a key."""

KEYS = ["red", "grün", LONG, ""]


def model(
    operator: str, inputs: int, outputs: list[int], *, domain: str = "ai.onnx.ml", ml: int = 4, **attributes: Any
) -> onnx.ModelProto:
    names = [f"y{i}" for i in range(len(outputs))]
    node = helper.make_node(operator, ["x"], names, domain=domain, **attributes)
    x = helper.make_tensor_value_info("x", inputs, ["n", "m"])
    ports = [helper.make_tensor_value_info(name, kind, None) for name, kind in zip(names, outputs, strict=True)]
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("ai.onnx.ml", ml)]
    return helper.make_model(helper.make_graph([node], "model", [x], ports), opset_imports=imports, ir_version=10)


def agrees(check: Check, made: onnx.ModelProto, *runs: dict[str, np.ndarray]) -> None:
    check(made, *(runs or RUNS), expected=by_onnxruntime(made, *(runs or RUNS)))


def test_one_hot_encoders(check: Check) -> None:
    agrees(check, model("OneHotEncoder", STRING, [FLOAT], cats_strings=KEYS, zeros=1))


@pytest.mark.parametrize(
    ("x", "categories"),
    [
        (WORDS[:2, :2], {"cats_strings": KEYS}),
        (np.int64([[5, -1], [7, 5]]), {"cats_int64s": [7, -1, 5]}),
        (np.float32([[5.5, -1], [7, 5]]), {"cats_int64s": [7, -1, 5]}),
    ],
    ids=["strings", "integers", "floats"],
)
def test_values_of_no_category_are_refused_if_the_model_says_so(
    check: Check, x: np.ndarray, categories: dict[str, Any]
) -> None:
    kind = STRING if x.dtype == object else helper.np_dtype_to_tensor_dtype(x.dtype)
    made = model("OneHotEncoder", kind, [FLOAT], zeros=0, **categories)
    unknown = x.copy()
    unknown[1, 0] = "blue" if x.dtype == object else 6
    agrees(check, made, {"x": x})
    with (
        check.session(made, {"x": x}, {"x": unknown}) as session,
        pytest.raises(deploykit.ShapeError, match=r"the category numbers of 'x' must be .* at element 2"),
    ):
        session(x=unknown)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (INT, {"values_int64s": [3, 2**40, -5, 8], "default_int64": 77}),
        (FLOAT, {"values_floats": [0.5, -1.0, 2.0, 3.5], "default_float": 9.5}),
        (STRING, {"values_strings": ["Rot", "", "très long", "é"], "default_string": "?"}),
        (STRING, {"values_strings": ["Rot", "", "très long", "é"]}),
    ],
    ids=["integers", "floats", "strings", "default"],
)
@pytest.mark.parametrize("opset", [2, 4])
def test_labels_of_strings(check: Check, kind: int, values: dict[str, Any], opset: int) -> None:
    agrees(check, model("LabelEncoder", STRING, [kind], keys_strings=KEYS, ml=opset, **values))


def test_labels_of_numbers(check: Check) -> None:
    x, names = np.array([[1, 2, 3], [9, 2, -4]]), ["one", "", "drei"]
    whole = model("LabelEncoder", INT, [STRING], keys_int64s=[1, 2, 3], values_strings=names)
    agrees(check, whole, {"x": x}, {"x": x[:1]})
    floats = np.float32([[0.5, np.nan, np.inf], [-0.0, 2, 3]])
    keys = [0.5, float("nan"), float("inf")]
    made = model("LabelEncoder", FLOAT, [STRING], keys_floats=keys, values_strings=names, default_string="none")
    agrees(check, made, {"x": floats})


def test_labels_in_tensors(check: Check) -> None:
    """From opset 4 on, keys, values and the default may be tensors."""

    def tensors(*values: Any) -> list[onnx.TensorProto]:
        return [onnx.numpy_helper.from_array(value, "t") for value in values]

    keys, values, default = tensors(np.array(KEYS, object), np.arange(4.0), np.array([-1.0]))
    made = model("LabelEncoder", STRING, [DOUBLE], keys_tensor=keys, values_tensor=values, default_tensor=default)
    agrees(check, made)


@pytest.mark.parametrize("operator", ["LabelEncoder", "CategoryMapper"])
def test_positions_in_a_list_of_strings(check: Check, operator: str) -> None:
    first = operator == "LabelEncoder"
    given = {"classes_strings": KEYS} if first else {"cats_strings": KEYS, "cats_int64s": [4, 3, 2, -1]}
    agrees(check, model(operator, STRING, [INT], ml=1, default_int64=44, **given))
    numbers = {"x": np.array([[0, 1, -1], [2, 3, 4]])}
    agrees(check, model(operator, INT, [STRING], ml=1, default_string="?", **given), numbers)


@pytest.mark.parametrize("mode", ["TF", "IDF", "TFIDF"])
@pytest.mark.parametrize("skips", [0, 1])
def test_n_grams_of_words(check: Check, mode: str, skips: int) -> None:
    """The pool has two words, a pair, and a word that occurs in the pair only."""
    made = model(
        "TfIdfVectorizer",
        STRING,
        [FLOAT],
        domain="",
        mode=mode,
        min_gram_length=1,
        max_gram_length=2,
        max_skip_count=skips,
        ngram_counts=[0, 2],
        ngram_indexes=[1, 0, 3, 2],
        pool_strings=["the", "Käse", "the", "Käse", "Käse", ""],
        weights=[0.5, 2.0, -1.0, 4.0],
    )
    x = np.array([["the", "Käse", "", "the", "Käse"], ["", "the", "the", "Käse", "kase"], ["a"] * 5], object)
    agrees(check, made, {"x": x}, {"x": x[:, :1]}, {"x": x[1:2]})


@pytest.mark.parametrize("in_order", [0, 1])
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_different_strings(check: Check, in_order: int, axis: int | None) -> None:
    x = np.array([["b", "é", "b", "b"], ["", "a", "", "bb"], ["b", "é", "b", "b"], ["b", "a", "b", "é"]], object)
    more = {} if axis is None else {"axis": axis}
    made = model("Unique", STRING, [STRING, INT, INT, INT], domain="", sorted=in_order, **more)
    runs = ({"x": x}, {"x": x[:1]}, {"x": x[:, :1]})
    agrees(check, made, *runs)


def test_features_that_are_strings(check: Check) -> None:
    """Strings that are picked by computed indices, as classifiers pick labels."""
    text = """(int64[n,1] at, string[n,m] x) => (string[a,b] label, string[c,d] column) {
        names = Constant<value_strings=["dog", "", "Käfer"]>()
        label = ai.onnx.ml.ArrayFeatureExtractor(names, at)
        last = Constant<value_ints=[1]>()
        column = ai.onnx.ml.ArrayFeatureExtractor(x, last)
    }"""
    runs = [{"at": np.array([[2], [0], [1]]), "x": WORDS}, {"at": np.array([[1]]), "x": WORDS[:1]}]
    check(text, *runs, expected=by_onnxruntime(text, *runs))


def test_bytes_that_are_not_utf_8(check: Check) -> None:
    """They equal no key, and each of them is a character. In results they are replacement characters."""
    text = """<ir_version: 10, opset_import: ["": 21, "ai.onnx.ml": 4, "com.microsoft": 1]>
    model (string[n] x) => (int64[n] code, string[n,m] letters, string[n] cased) {
        code = ai.onnx.ml.LabelEncoder<keys_strings=["a", "é"], values_int64s=[1, 2], default_int64=-7>(x)
        letters = com.microsoft.Tokenizer<mark=0, mincharnum=1, pad_value="", tokenexp=".">(x)
        cased = StringNormalizer<case_change_action="UPPER">(x)
    }"""
    x = np.array([b"a", b"\xff", b"a\xc3", b"\xf0\x9f\x98", b"\x80\x80", "é".encode()], object)
    words = {"x": np.array(["xxxxxxxx"] * len(x), object)}
    with check.session(onnx.parser.parse_model(text), words) as session:
        got = session(x=x)
        assert got["code"].tolist() == [1, -7, -7, -7, -7, 2]
        bad = "\ufffd"
        assert got["letters"].tolist() == [
            ["a", "", ""],
            [bad, "", ""],
            ["a", bad, ""],
            [bad, bad, bad],
            [bad, bad, ""],
            ["é", "", ""],
        ]
        assert got["cased"].tolist() == ["A", bad, f"A{bad}", bad, bad * 2, "É"]


def test_texts_of_a_megabyte(check: Check) -> None:
    """One long string among short ones, through a label and a count of its words."""
    text = """<ir_version: 10, opset_import: ["": 21, "ai.onnx.ml": 4, "com.microsoft": 1]>
    model (string[n,1] x) => (float[n,2] counts, int64[n,1] code) {
        words = com.microsoft.Tokenizer<mark=0, mincharnum=1, pad_value="", tokenexp="[a-z]+">(x)
        rows = Flatten(words)
        counts = TfIdfVectorizer<max_gram_length=1, max_skip_count=0, min_gram_length=1, mode="TF", ngram_counts=[0],
            ngram_indexes=[0, 1], pool_strings=["a", "bc"]>(rows)
        code = ai.onnx.ml.LabelEncoder<keys_strings=["a", "é"], values_int64s=[1, 2], default_int64=-7>(x)
    }"""
    pairs = 1 << 18
    x = np.array([["bc a" + " bc" * pairs], ["a"]], object)
    with check.session(onnx.parser.parse_model(text), {"x": x}) as session:
        got = session(x=x)
        assert got["counts"].tolist() == [[1, pairs + 1], [1, 0]]
        assert got["code"].tolist() == [[-7], [1]]


@pytest.mark.parametrize(
    ("operator", "domain", "given", "words"),
    [
        ("OneHotEncoder", "ai.onnx.ml", {"cats_int64s": [1]}, "no categories for an input of string"),
        (
            "TfIdfVectorizer",
            "",
            {
                "pool_int64s": [1],
                "mode": "TF",
                "min_gram_length": 1,
                "max_gram_length": 1,
                "max_skip_count": 0,
                "ngram_counts": [0],
                "ngram_indexes": [0],
            },
            "no pool for an input of string",
        ),
    ],
)
def test_attributes_for_numbers_are_refused(operator: str, domain: str, given: dict[str, Any], words: str) -> None:
    with pytest.raises(deploykit.UnsupportedModelError, match=words):
        deploykit.load(model(operator, STRING, [FLOAT], domain=domain, **given))


def test_strings_are_moved_and_chosen(check: Check) -> None:
    """Operators that pick, repeat, choose and join strings, some of them constants."""
    text = """(string[n,m] x, int64[n] at, string[2] words, bool[n] flag) => (
        string[a,b] chosen, string[c,d] hot, string[e,f] joined, string[g,h] tiled, string[i,j,k] wide,
        string[l,o] rest, string[p] named, string[q,r] printed, int64[s] missing) {
        one = Constant<value_ints=[1]>()
        empty = Constant<value_string="">()
        none = Constant<value_string="none">()
        yes = Constant<value_string="yes">()
        depth = Constant<value_int=4>()
        repeats = Constant<value_ints=[2, 1]>()
        shape = Constant<value_ints=[2, 1, 1]>()
        far = Constant<value_ints=[99]>()
        same = Equal(x, empty)
        chosen = Where(same, none, x)
        hot = OneHot(at, depth, words)
        items = SequenceConstruct(x, chosen)
        joined = ConcatFromSequence<axis=1>(items)
        tiled = Tile(x, repeats)
        wide = Expand(x, shape)
        rest = Slice(x, one, far, one)
        named = Where(flag, yes, none)
        printed = Cast<to=8>(same)
        numbers = Cast<to=7>(same)
        missing = ReduceSum<keepdims=0>(numbers, one)
    }"""
    runs = [
        {"x": x, "at": np.arange(len(x)), "words": np.array(["off", "on"], object), "flag": np.arange(len(x)) % 2 == 0}
        for x in (WORDS, WORDS[:1, :2])
    ]
    check(text, *runs, expected=by_onnxruntime(text, *runs))
