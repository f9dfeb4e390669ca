"""The tokenizer of a model of texts: its tokens, and what becomes of texts with more than the model takes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import deploykit
from deploykit.text import Tokenizer
from tests.frontends.huggingface.test_texts import TEXTS, folder_of
from tests.web.test_ragged import evaluated, in_node
from tests.web.test_remote import both
from tests.web.test_types import OPTIONS, check
from tests.web.tools import run

pytestmark = pytest.mark.slow

PAIR = ("who sat?", "the cat \U0001f600")
MOST = 40


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("tokens")
    deploykit.build(folder_of(place / "model", "bert-classes"), "webgpu", output=place / "web")
    return place / "web"


def test_tokens_are_those_of_python(web: Path) -> None:
    script = f"""(() => {{
      const {{ tokenizer, mostTokens }} = model;
      const plain = ({{ ids, types, special }}) => [[...ids], [...types], [...special]];
      const all = {json.dumps(TEXTS)}.map((text) => tokenizer.encode(text));
      return {{
        tokens: [...all.map(plain), plain(tokenizer.encode('{PAIR[0]}', {{ pair: {json.dumps(PAIR[1])} }}))],
        counts: {json.dumps(TEXTS)}.map((text) => tokenizer.count(text)),
        texts: all.map(({{ ids }}) => tokenizer.decode(ids)),
        special: tokenizer.decode(Array.from(all[1].ids, BigInt), {{ skipSpecial: false }}),
        cut: [...tokenizer.encode({json.dumps(TEXTS[-1])}, {{ truncate: true }}).ids],
        mostTokens,
      }};
    }})()"""
    found = evaluated(web, script)
    tokenizer = Tokenizer((web / "tokenizer.bin").read_bytes())
    expected = [*(tokenizer.encode(text) for text in TEXTS), tokenizer.encode(*PAIR)]
    assert found["tokens"] == [[list(e.ids), list(e.type_ids), list(e.special_mask)] for e in expected]
    assert found["counts"] == [len(e.ids) for e in expected[:-1]]
    assert found["texts"] == [tokenizer.decode(e.ids) for e in expected[:-1]]
    assert found["special"] == tokenizer.decode(expected[1].ids, skip_special=False)
    assert found["cut"] == list(tokenizer.encode(TEXTS[-1], most=MOST).ids)
    assert found["mostTokens"] == MOST


def test_long_texts_are_refused_where_they_must_not_be_cut(web: Path) -> None:
    texts = json.dumps(["a", TEXTS[-1]])
    assert len(evaluated(web, f"await model.classify({texts})")) == 2
    refused = in_node(web, f"await model.classify({texts}, {{ truncate: false }})")
    count = evaluated(web, f"model.tokenizer.count({json.dumps(TEXTS[-1])})")
    assert refused["error"] == "DataError"
    assert refused["message"].startswith(f"text 1 has {count} tokens, and the model takes {MOST}: shorten it")
    assert len(evaluated(web, "await model.classify(['a'], { truncate: false })")) == 1


@pytest.mark.parametrize("call", ["encode()", "encode('a', { pair: 1 })", "count(['a'])", "encode('a', { cut: true })"])
def test_wrong_calls(web: Path, call: str) -> None:
    assert in_node(web, f"model.tokenizer.{call}")["error"] == "UsageError"


def test_types(web: Path) -> None:
    (web.parent / "app.mts").write_text(
        "import { load } from './web/index.mjs';\nconst model = await load({ sample: ['a', 'b'] });\n"
        "const { ids } = model.tokenizer.encode('a', { pair: 'b', truncate: true });\n"
        "const text: string = model.tokenizer.decode([...ids, 1n], { skipSpecial: false });\n"
        "const most: number | null = model.mostTokens;\n"
        "const labels = await model.classify(['a'], { truncate: false, signal: AbortSignal.timeout(9) });\n"
        "console.log(text, most, labels[0][0].score, model.tokenizer.count('a', { pair: 'b' }));\n"
    )
    settings = {"compilerOptions": {**OPTIONS, "types": []}, "include": ["app.mts"]}
    (web.parent / "tsconfig.json").write_text(json.dumps(settings))
    assert check(web.parent) == []


def test_the_tokenizer_of_a_model_in_a_worker(web: Path) -> None:
    script = f"""
    const {{ tokenizer, mostTokens }} = await load({{ device: 'wasm' }});
    const text = {json.dumps(TEXTS[1])};
    const {{ ids, special }} = await tokenizer.encode(text, {{ pair: 'b' }});
    const refused = await Promise.resolve().then(() => tokenizer.encode(1)).catch(({{ name }}) => name);
    const [count, back] = [await tokenizer.count(text), await tokenizer.decode(ids)];
    return {{ ids, special, count, back, mostTokens, refused }};
    """
    found = both(web, script)
    assert found["mostTokens"] == MOST
    assert found["refused"] == "UsageError"


def test_what_a_model_in_a_worker_cannot_have(web: Path) -> None:
    program = f"import {{ load }} from '{web.as_uri()}/index.mjs';"
    program += "await load({ worker: true, fetch }).catch(({ name, message }) => console.log(name, message));"
    result = run("node", "--input-type=module", "-e", program, folder=web)
    assert result.stdout.startswith("UsageError 'fetch' is of this page, a model in a worker cannot have it")
