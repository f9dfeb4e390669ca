"""Options as values: keyword arguments, the command line and errors come from the dataclasses."""

from __future__ import annotations

import typing
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import onnx
import pytest

import deploykit
from deploykit.compiler.decisions import Explanation
from deploykit.errors import UsageError
from deploykit.options.keywords import BuildKeywords, LoadKeywords
from deploykit.options.option import options_of
from deploykit.options.parts import CheckOptions, CompileOptions, PlatformOptions, QuantizeOptions, WatchOptions
from deploykit.sources.base import Certainty, find_frontend, frontends
from deploykit.sources.onnx_files import Ragged
from tests.docs import options_page

KINDS = (PlatformOptions, CompileOptions, QuantizeOptions, CheckOptions, WatchOptions)
NAMES = {"Explanation": Explanation, "Ragged": Ragged, "Any": Any, "Literal": Literal, "Path": Path} | {
    "Callable": Callable,
    "Mapping": Mapping,
    "Sequence": Sequence,
}
MODEL = onnx.parser.parse_model('<ir_version: 9, opset_import: ["": 20]> f (float[n] x) => (float[n] y) { y = Abs(x) }')


def types_of(kinds: typing.Iterable[type]) -> dict[str, object]:
    return {
        name: eval(option.type.replace("Ragged", "str | Sequence[str] | Mapping[str, str]"), NAMES)
        for kind in kinds
        for name, option in options_of(kind).items()
    }


def test_keywords_are_the_fields_of_the_dataclasses() -> None:
    of_sources = types_of(frontend.Options for frontend in frontends().values())
    assert typing.get_type_hints(LoadKeywords, localns=NAMES) == of_sources
    assert typing.get_type_hints(BuildKeywords, localns=NAMES) == of_sources | types_of(KINDS)


def test_an_option_that_several_parts_have_is_the_same_in_each() -> None:
    seen: dict[str, tuple[object, object]] = {}
    for kind in (*KINDS, *(frontend.Options for frontend in frontends().values())):
        for name, option in options_of(kind).items():
            assert seen.setdefault(name, (option.type, option.default)) == (option.type, option.default)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"route": "own"}, "the option 'route' is for a Hugging Face folder; an ONNX file has no such option"),
        ({"samples": "a.json"}, "'samples' is for a dynamic model or quantize; an ONNX file has no such option"),
        ({"quantise": "int8"}, "there is no option 'quantise': did you mean 'quantize'?"),
        ({"colour": "red"}, "there is no option 'colour'"),
        ({"masks": ["m"]}, "masks are for a ragged dim, which is not asked for"),
        ({"check_at": {"n": 1}}, "sizes are for a check, which is not asked for"),
    ],
)
def test_options_without_a_meaning_are_refused(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as error:
        deploykit.build(MODEL, output=tmp_path / "dist", **options)
    assert message in str(error.value)
    assert not list(tmp_path.iterdir())


def test_options_of_builds_are_not_those_of_load() -> None:
    with pytest.raises(UsageError, match=r"the option 'cpu' is for deploykit\.build; an ONNX file has no such option"):
        deploykit.load(MODEL, cpu="portable")  # type: ignore[call-arg]


def test_default_values_say_nothing(tmp_path: Path) -> None:
    options: Any = {"route": None, "weights": None, "fuse": True, "masks": None, "devices": []}
    assert deploykit.build(MODEL, output=tmp_path / "dist", **options) is not None


def test_which_frontend_takes_a_source(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "models.py").write_text("class Tree: ...\nops = 1\n")
    sources = {
        "model.onnx": "onnx",
        str(tmp_path / "other.pb"): "onnx",
        tmp_path: "huggingface",
        "hf://org/name": "huggingface",
        f"{tmp_path}/models.py:Tree": "dynamic",
        f"{tmp_path}/models.py:ops": "operator",
        "missing.py:name": "operator",
    }
    assert {source: find_frontend(source).name for source in sources} == sources
    assert find_frontend(MODEL).name == "onnx"
    assert find_frontend(deploykit.load(MODEL)).name == "loaded"
    assert find_frontend("model.onnx").recognises("model.onnx") is Certainty.LIKELY


def test_what_is_no_source_is_refused() -> None:
    with pytest.raises(UsageError, match=r"a model is a dynamic model, .* or an operator .*; found dict"):
        deploykit.load({})  # type: ignore[arg-type]


def test_the_page_of_options_is_current() -> None:
    assert options_page.PAGE.read_text() == options_page.page()
