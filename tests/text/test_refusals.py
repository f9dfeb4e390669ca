"""What is not supported or damaged is refused when a tokenizer is packed, by its name."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deploykit.errors import ArtifactError, UnsupportedModelError, UsageError
from deploykit.text import Tokenizer, pack, pack_fields
from tests.text.compared import packed
from tests.text.designs import design

Fields = dict[str, Any]


def fields(name: str) -> Fields:
    found: Fields = json.loads(design(name).to_str())
    return found


def put(*path: str | int, value: object) -> Callable[[Fields], None]:
    def change(given: Any) -> None:
        for name in path[:-1]:
            given = given[name]
        given[path[-1]] = value

    return change


SPLIT = {"type": "Split", "behavior": "Isolated", "invert": False}
CASES = [
    ("bert-cased", put("normalizer", value={"type": "Fancy"}), "normalizer: the type 'Fancy' is not supported"),
    ("bert-cased", put("normalizer", "odd", value=1), "normalizer: BertNormalizer has the unknown field 'odd'"),
    ("bert-cased", put("normalizer", "lowercase", value="yes"), "'lowercase' is 'yes', but must be true or false"),
    ("bert-cased", put("pre_tokenizer", value={"type": "UnicodeScripts"}), "type 'UnicodeScripts' is not supported"),
    ("qwen-2", put("pre_tokenizer", "pretokenizers", 0, "type", value="X"), r"pre_tokenizer\[0\]: the type 'X'"),
    ("bert-cased", put("pre_tokenizer", value=SPLIT | {"pattern": {"Regex": "(?<=a)b"}}), r"has the group '\(\?<='"),
    ("bert-cased", put("pre_tokenizer", value=SPLIT | {"pattern": {"Regex": "a*"}}), "it matches the empty text"),
    ("bert-cased", put("pre_tokenizer", value=SPLIT | {"pattern": {"Regex": r"\bx"}}), r"it has '\\b'"),
    ("bert-cased", put("pre_tokenizer", value=SPLIT | {"pattern": {"Regex": r"\p{Foo}"}}), "the property 'Foo'"),
    ("bert-cased", put("pre_tokenizer", value=SPLIT | {"pattern": {"Regex": "a++a"}}), "possessive quantifier"),
    ("bert-cased", put("pre_tokenizer", value=SPLIT | {"pattern": {"Regex": "(a"}}), "a group does not end"),
    ("bert-cased", put("pre_tokenizer", value=SPLIT | {"pattern": {"Regex": "^a"}}), r"it has '\^'"),
    ("bert-cased", put("pre_tokenizer", value=SPLIT | {"pattern": {}}), "pattern {} is not supported"),
    ("bert-cased", put("post_processor", value={"type": "Other"}), "post_processor: the type 'Other'"),
    ("bert-cased", put("post_processor", "single", value=[{"Sequence": {"id": "C", "type_id": 0}}]), "'single' is not"),
    ("bert-cased", put("decoder", value={"type": "CTC"}), "decoder: the type 'CTC' is not supported"),
    ("llama-2", put("decoder", "decoders", 3, "stop", value=1), "Strip after Fuse is supported for spaces"),
    ("bert-cased", put("model", "type", value="WordLevel"), "model: the type 'WordLevel' is not supported"),
    ("bert-cased", put("model", value=None), "it has no model"),
    ("bert-cased", put("model", "unk_token", value="<?>"), "unknown token '<\\?>' is not in the vocabulary"),
    ("bert-cased", put("model", "vocab", value={}), "the vocabulary is empty"),
    ("bert-cased", put("model", "vocab", "a", value=-1), "the token 'a' has the id -1"),
    ("bert-cased", put("model", "vocab", "a", value=3), "two tokens have the same id"),
    ("bert-cased", put("model", "vocab", "a", value=2**40), "the token 'a' has the id 1099511627776"),
    ("gpt-2", put("model", "dropout", value=0.1), "'dropout' is 0.1, which is not supported"),
    ("gpt-2", put("model", "continuing_subword_prefix", value="##"), "'continuing_subword_prefix' is '##'"),
    ("gpt-2", put("model", "merges", value=[["a", "nowhere"]]), "is not of two tokens that make a third one"),
    ("gpt-2", put("model", "merges", value=["a b c"]), "is not of two tokens that make a third one"),
    ("t5", put("model", "unk_id", value=None), "'unk_id' is None, and the vocabulary has"),
    ("t5", put("model", "vocab", value=[["a"]]), "of the vocabulary is not a text and a score"),
    ("xlm-roberta", put("normalizer", "precompiled_charsmap", value="AAAA"), "the character mapping is damaged"),
    ("xlm-roberta", put("normalizer", "precompiled_charsmap", value="%"), "the character mapping is damaged"),
    ("bert-cased", put("added_tokens", 0, "content", value=""), r"added_tokens\[0\]: the token is empty"),
    ("bert-cased", put("added_tokens", 0, "id", value=9), "has the id 9, but by the vocabulary it is 0"),
    ("mpnet", put("added_tokens", -1, "id", value=5000), "has the id 5000, but by the vocabulary it is"),
    ("bert-cased", put("added_tokens", 0, value=7), r"added_tokens\[0\]: 7 is no object"),
    ("bert-cased", put("surprise", value=1), "the file: the object has the unknown field 'surprise'"),
]


@pytest.mark.parametrize(("name", "change", "message"), CASES, ids=[case[2][:40] for case in CASES])
def test_a_part_is_refused_by_its_name(name: str, change: Callable[[Fields], None], message: str) -> None:
    given = fields(name)
    change(given)
    with pytest.raises(UnsupportedModelError, match=message):
        pack_fields(given)


def test_a_folder_without_a_tokenizer(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedModelError, match="is missing: save the tokenizer"):
        pack(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(UnsupportedModelError, match="is damaged"):
        pack(tmp_path)
    (tmp_path / "tokenizer.json").write_text("[]")
    with pytest.raises(UnsupportedModelError, match="no JSON object"):
        pack(tmp_path)


def test_the_limit_is_that_of_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text(design("bert-cased").to_str())
    assert Tokenizer(pack(tmp_path)).limit == 0
    (tmp_path / "tokenizer_config.json").write_text('{"model_max_length": 512}')
    assert Tokenizer(pack(tmp_path)).limit == 512
    (tmp_path / "tokenizer_config.json").write_text('{"model_max_length": 1e30}')
    assert Tokenizer(pack(tmp_path)).limit == 0


def test_tables_that_are_none() -> None:
    with pytest.raises(ArtifactError, match=r"pass the contents of tokenizer\.bin"):
        Tokenizer(b"")
    with pytest.raises(ArtifactError, match=r"pass the contents of tokenizer\.bin"):
        Tokenizer(bytes(1000))
    with pytest.raises(ArtifactError, match="another size"):
        Tokenizer(pack_fields(fields("bert-cased"))[:-8])


def test_what_cannot_be_cut() -> None:
    ours = packed("bert-cased")
    with pytest.raises(UsageError, match="special tokens alone are more"):
        ours.encode("a b c", most=1)
    with pytest.raises(UsageError, match="too short: cut the longest"):
        ours.encode("a b c d", "e", most=6, cut="only_second")
