"""Calls with many texts, pictures or sounds: the page gets its turn, calls are aborted, report progress, and refuse
unknown options."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

import deploykit
from bench.browser import find_chromium, in_chromium
from tests.frontends.huggingface.match_cases import TEXTS
from tests.frontends.huggingface.sound_cases import sound
from tests.frontends.huggingface.test_masks import folder_of as masks_of
from tests.frontends.huggingface.test_matches import folder_of as matches_of
from tests.frontends.huggingface.test_picture_answers import folder_of as pictures_of
from tests.frontends.huggingface.test_sound_answers import folder_of as sounds_of
from tests.frontends.huggingface.test_texts import folder_of as texts_of
from tests.frontends.huggingface.test_texts import sentences_of
from tests.web.test_ragged import evaluated, in_node
from tests.web.test_sound_models import array

pytestmark = pytest.mark.slow

PICTURE = "{ data: new Uint8Array(3 * 31 * 22), width: 22, height: 31 }"

SOUND = array(sound(700))

CASES: dict[str, tuple[Callable[[Path], Path], str, str, str]] = {
    "texts": (sentences_of, "embed", "['the cat', 'a', 'mats']", "['the cat', 'a']"),
    "masks": (lambda place: masks_of(place, "roberta-words"), "fill", "Array(3).fill('<mask>')", "'<mask>'"),
    "pictures": (lambda place: pictures_of(place, "classify"), "classify", f"Array(3).fill({PICTURE})", PICTURE),
    "pairs": (
        lambda place: matches_of(place, "clip"),
        "match",
        f"Array(3).fill({PICTURE}), {list(TEXTS)}",
        f"{{ picture: {PICTURE}, texts: {list(TEXTS)} }}",
    ),
    "sound": (sounds_of, "transcribe", f"Array(3).fill({SOUND})", f"{{ sound: {SOUND}, rate: 16000 }}"),
}
"""A folder, a method, its arguments before the options (three things), and a sample."""

CALLS = """(async () => {{
  const call = (options) => model.{method}({things}, {{ {rate} ...options }});
  const failed = (options) => call(options).then(String, String);
  const told = [];
  const found = await call({{ onProgress: (progress) => told.push(progress) }});
  const stop = new AbortController();
  const asked = [];
  const onProgress = ({{ done }}) => {{ asked.push(done); stop.abort('enough'); }};
  return {{
    count: found.length,
    told,
    aborted: await failed({{ signal: AbortSignal.abort('before') }}),
    stopped: await failed({{ signal: stop.signal, onProgress }}),
    asked,
    unknown: await failed({{ signals: 1 }}),
    sampled: await load({{ sample: {sample} }}).then(({{ device }}) => device),
    sample: await load({{ sample: [3] }}).catch(String),
  }};
}})()"""


@pytest.mark.parametrize("case", CASES)
def test_options_of_calls(case: str, tmp_path: Path) -> None:
    make, method, things, sample = CASES[case]
    deploykit.build(make(tmp_path / "model"), "webgpu", output=tmp_path / "web")
    rate = "rate: 16000," if case == "sound" else ""
    found = evaluated(tmp_path / "web", CALLS.format(method=method, things=things, rate=rate, sample=sample))
    assert found["count"] == 3
    assert [progress["total"] for progress in found["told"]] == [3] * len(found["told"])
    done = [progress["done"] for progress in found["told"]]
    assert done == sorted(set(done))
    assert done[-1] == 3
    assert found["aborted"] == "before"
    assert found["unknown"].startswith(f"UsageError: {method} has no option 'signals'")
    assert found["sampled"] == "wasm"
    assert found["sample"].startswith("ShapeError: ")
    if case in ("pictures", "pairs", "sound"):
        assert (found["stopped"], found["asked"]) == ("enough", [1])


def test_options_of_an_answer(tmp_path: Path) -> None:
    deploykit.build(texts_of(tmp_path / "model", "bert-answers"), "webgpu", output=tmp_path / "web")
    ask = "await model.answer('who sat?', 'the cat sat on a mat', {})"
    for options, words in (("{ signal: AbortSignal.abort(new RangeError('before')) }", "before"), ("{ n: 1 }", "'n'")):
        assert words in in_node(tmp_path / "web", ask.replace("{}", options))["message"]
    assert evaluated(tmp_path / "web", ask)["text"]


SAMPLED = """<!doctype html><script type="module">
  import { load } from './index.mjs';
  const model = await load({ sample: ['the cat', 'a mat'], cache: false, threads: 1 });
  await model.chosen;
  await fetch('/result', { method: 'POST', body: JSON.stringify(model.deviceReason) });
</script>"""


@pytest.mark.skipif(find_chromium() is None, reason="needs Chromium")
def test_devices_are_measured_with_texts(tmp_path: Path) -> None:
    deploykit.build(sentences_of(tmp_path / "model"), "webgpu", output=tmp_path / "web")
    (tmp_path / "web" / "sampled.html").write_text(SAMPLED)
    reason = in_chromium(tmp_path / "web", "sampled.html", gpu=True)
    assert re.match(r"measured with \[\d+\], .*: WebGPU [\d.]+ ms, WebAssembly [\d.]+ ms$", reason), reason


MANY = """(async () => {
  const texts = Array.from({ length: 3000 }, (_, index) => `the cat sat on ${'a mat '.repeat(1 + (index % 5))}`);
  let turns = 0;
  let timer = setImmediate(function turn() {
    turns += 1;
    timer = setImmediate(turn);
  });
  const stop = new AbortController();
  const start = performance.now();
  const found = await model.embed(texts);
  const whole = performance.now() - start;
  const counted = turns;
  setTimeout(() => stop.abort('enough'), whole / 20);
  const again = performance.now();
  const why = await model.embed(texts, { signal: stop.signal }).catch(String);
  const ended = performance.now() - again;
  clearImmediate(timer);
  const alone = await model.embed(texts[2999]);
  const apart = Math.max(...alone.map((x, index) => Math.abs(x - found[2999][index])));
  return { whole, turns: counted, why, part: ended / whole, count: found.length, apart };
})()"""


def test_a_long_call_gives_turns_to_the_page(tmp_path: Path) -> None:
    deploykit.build(sentences_of(tmp_path / "model"), "webgpu", output=tmp_path / "web")
    found = evaluated(tmp_path / "web", MANY)
    assert (found["count"], found["why"]) == (3000, "enough")
    assert found["turns"] > found["whole"] / 100 > 1, "a turn at least about every 100 ms"
    assert found["part"] < 0.5
    assert found["apart"] < 1e-5
