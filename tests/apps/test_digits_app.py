"""The sample web app in Chromium: drawing by mouse, finger and keys; offline; on a phone; with a screen reader."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from apps.web.model.drawings import SIZE, Drawing, draw, rasterise
from tests.apps.conftest import ready, serving
from tests.apps.devtools import Page, chromium

pytestmark = pytest.mark.slow

STROKES = {
    0: [
        "50 10, 25 20, 18 50, 25 80, 50 90, 75 80, 82 50, 75 20, 52 10",
        "60 15, 40 15, 30 50, 40 85, 60 85, 68 50, 58 14",
    ],
    1: ["50 10, 50 90", "35 30, 55 10, 55 90", "38 28, 50 12, 50 88; 30 88, 70 88"],
    2: ["25 30, 40 12, 65 15, 70 35, 50 60, 25 88, 78 88", "20 20, 60 15, 68 35, 30 70, 22 85, 40 80, 80 86"],
    3: ["25 15, 60 12, 70 28, 48 48, 72 65, 62 86, 25 84", "25 12, 72 12, 45 45, 70 60, 68 80, 45 90, 25 82"],
    4: ["40 12, 22 60, 80 60; 62 35, 60 90", "62 90, 62 12, 20 62, 82 62"],
    5: ["72 12, 32 12, 28 46, 55 42, 74 60, 66 84, 26 86", "32 14, 30 45, 58 44, 70 64, 55 86, 28 82; 32 14, 75 12"],
    6: ["62 12, 38 35, 28 68, 42 88, 66 80, 66 62, 45 56, 30 66", "45 10, 32 50, 34 80, 55 90, 70 75, 58 60, 36 66"],
    7: ["24 14, 76 14, 46 90", "24 14, 74 14, 48 90; 36 50, 70 48"],
    8: [
        "66 22, 50 10, 34 22, 42 40, 64 58, 68 76, 50 90, 32 78, 38 60, 60 40, 66 24",
        "50 48, 32 32, 50 12, 68 30, 50 48, 28 70, 50 90, 72 70, 52 50",
    ],
    9: ["68 26, 50 12, 32 26, 42 46, 66 36, 68 26, 66 60, 60 90", "66 16, 40 14, 32 36, 52 46, 68 20, 66 62, 40 90"],
}
"""Drawings by digit: strokes in a box of 100 by 100. The model was not trained on them."""

CONTRAST = """(() => {
  const rgba = (text) => text.match(/[\\d.]+/g).map(Number);
  const channel = (c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4);
  const light = (colour) => [0.2126, 0.7152, 0.0722].reduce((sum, part, i) => sum + part * channel(colour[i]), 0);
  const behind = (element) => {
    const [red, green, blue, part = 1] = rgba(getComputedStyle(element).backgroundColor);
    const under = part < 1 ? behind(element.parentElement) : [0, 0, 0];
    return [red, green, blue].map((colour, i) => part * colour + (1 - part) * under[i]);
  };
  const texts = [...document.querySelectorAll('body *')].filter((element) =>
    element.checkVisibility() && [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim()));
  return texts.map((element) => {
    const [a, b] = [light(rgba(getComputedStyle(element).color)), light(behind(element))];
    return [element.textContent.trim(), (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05)];
  });
})()"""


def strokes(text: str) -> Drawing:
    """A drawing on a pad of 1 by 1."""
    parts = [np.array([[float(x) for x in point.split()] for point in part.split(",")]) for part in text.split(";")]
    return [finely(part / 100) for part in parts]


def finely(stroke: np.ndarray) -> np.ndarray:
    """The stroke with more points in between, as a moving hand makes them."""
    at = np.linspace(0, len(stroke) - 1, 4 * (len(stroke) - 1) + 1)
    return np.stack([np.interp(at, np.arange(len(stroke)), stroke[:, axis]) for axis in (0, 1)], 1)


def on_screen(page: Page, stroke: np.ndarray) -> list[tuple[float, float]]:
    """Points of the pad in pixels of the page."""
    left, top, side = page.evaluate("(({ x, y, width }) => [x, y, width])(pad.getBoundingClientRect())")
    return [(left + side * x, top + side * y) for x, y in stroke]


def clear(page: Page) -> None:
    page.evaluate("document.getElementById('clear').click()")
    assert shown(page) == "?"


def shown(page: Page) -> str:
    """The text that the app shows once it has read the whole drawing."""
    page.wait("bars.ariaBusy === 'false'")
    return str(page.evaluate("digit.textContent"))


def seen(page: Page) -> np.ndarray:
    """The picture that the model gets, as the page shows it."""
    pixels = page.evaluate("[...picture.getContext('2d').getImageData(0, 0, 28, 28).data]")
    return np.reshape(pixels, (SIZE, SIZE, 4))[..., 3] / 255


def spoken(page: Page) -> str:
    """What a screen reader says once the drawing is at rest."""
    page.wait("document.getElementById('status').textContent.startsWith('This')")
    return str(page.evaluate("document.getElementById('status').textContent"))


def read(page: Page, drawing: Drawing, *, finger: bool = False) -> int:
    """The digit that the app reads in a drawing."""
    clear(page)
    for stroke in drawing:
        (page.touch if finger else page.mouse)(on_screen(page, stroke))
    return int(shown(page))


def test_digits_drawn_with_the_mouse_are_read(page: Page) -> None:
    found = {(digit, text): read(page, strokes(text)) for digit, texts in STROKES.items() for text in texts}
    assert {key: value for key, value in found.items() if key[0] != value} == {}


def test_made_up_handwriting_is_read(page: Page) -> None:
    random = np.random.default_rng(5)
    wrong = 0
    for digit in range(10):
        drawing = [np.clip(stroke[::2] * 0.6 + 0.5, 0, 1) for stroke in draw(digit, random)]
        wrong += read(page, drawing) != digit
    assert wrong <= 1


def test_examples_are_read(page: Page) -> None:
    found = []
    for _ in range(10):
        page.evaluate("document.getElementById('example').click()")
        found.append(int(shown(page)))
    assert found == list(range(10))


def test_the_model_gets_the_picture_that_it_was_trained_on(page: Page) -> None:
    for text in (STROKES[2][0], STROKES[4][0], "20 20"):
        clear(page)
        drawing = strokes(text)
        for stroke in drawing:
            page.mouse(on_screen(page, stroke))
        assert shown(page) != "?"
        # Points on a screen are whole pixels, which moves them by up to half a pixel.
        np.testing.assert_allclose(seen(page), rasterise(drawing), atol=0.12)


def test_bars_show_the_probabilities(page: Page) -> None:
    read(page, strokes(STROKES[3][0]))
    texts = page.evaluate("[...bars.children].map((item) => item.innerText.split(/\\s+/).join(' '))")
    shares = [float(text.split()[1].rstrip("%")) for text in texts]
    assert [text.split()[0] for text in texts] == [str(digit) for digit in range(10)]
    assert np.argmax(shares) == 3
    assert sum(shares) == pytest.approx(100, abs=5)
    assert page.evaluate("document.querySelector('.best .name').textContent") == "3"


def test_times_and_memory_are_shown(page: Page) -> None:
    read(page, strokes(STROKES[7][0]))
    facts = page.evaluate(
        "Object.fromEntries([...document.querySelectorAll('dl div')].map((d) => d.innerText.split('\\n')))"
    )
    assert facts["Inference"].endswith(" ms")
    assert facts["Loaded in"].endswith(" ms")
    assert 140 < float(facts["Weights"].split()[0]) < float(facts["Memory"].split()[0])


def test_why_a_device_was_chosen_is_shown(page: Page) -> None:
    page.wait("reason.innerText.startsWith('Auto is WebAssembly: this engine has no WebGPU')")
    page.evaluate("document.querySelector('[value=wasm]').click()")
    page.wait("devices.ariaBusy === 'false'")
    assert page.evaluate("reason.hidden")


def test_a_digit_is_drawn_with_keys(page: Page) -> None:
    page.evaluate("pad.focus()")
    page.key(*["ArrowLeft"] * 4, " ", *["ArrowRight"] * 9)
    for _ in range(11):
        page.key("ArrowDown", *(["ArrowLeft"] if _ % 2 else []))
    page.key(" ")
    assert page.evaluate("document.getElementById('status').textContent").startswith("Pen up, ")
    assert shown(page) == "7"
    assert spoken(page).startswith("This looks like 7, ")
    page.key("Backspace")
    assert shown(page) == "?"
    page.key(" ", "ArrowDown", "Escape")
    assert shown(page) == "?"
    page.key("Tab")
    assert page.evaluate("document.activeElement.id") == "undo"


def test_two_arrows_at_once_draw_diagonally(page: Page) -> None:
    press = "pad.dispatchEvent(new KeyboardEvent('{}', {{ key: '{}', bubbles: true }}))"
    page.evaluate("pad.focus()")
    page.key(" ")
    page.evaluate(press.format("keydown", "ArrowRight"))
    for _ in range(6):
        page.evaluate(press.format("keydown", "ArrowDown"))
    assert shown(page) != "?"
    np.testing.assert_allclose(np.diag(seen(page))[6:-6], 1)


def test_everything_has_a_name_for_screen_readers(page: Page) -> None:
    nodes = page.call("Accessibility.getFullAXTree")["nodes"]
    named = {(node["role"]["value"], node.get("name", {}).get("value")) for node in nodes if "role" in node}
    wanted = {("button", "Undo"), ("button", "Clear"), ("button", "Show me one"), ("heading", "Draw a digit")}
    wanted |= {("radio", name) for name in ("Auto", "WebGPU", "WASM")} | {("group", "Run on")}
    wanted |= {("application", "Drawing pad"), ("list", "Probability of each digit")}
    assert wanted <= named
    assert [
        node for node in nodes if node.get("role", {}).get("value") in {"button", "radio"} and not node["name"]["value"]
    ] == []


@pytest.mark.parametrize("dark", [False, True])
def test_texts_stand_out(page: Page, dark: bool) -> None:
    page.resize(1200, 900, dark=dark)
    page.evaluate("document.querySelector('[value=webgpu]').click()")
    read(page, strokes(STROKES[7][0]))
    contrasts = dict(page.evaluate(CONTRAST))
    assert len(contrasts) > 30
    assert {text: ratio for text, ratio in contrasts.items() if ratio < 4.5} == {}
    assert (np.asarray(page.screenshot())[:5, :5].mean() < 60) == dark


def test_the_app_reports_a_missing_device_and_continues(page: Page) -> None:
    page.evaluate("navigator.gpu && (GPU.prototype.requestAdapter = async () => null)")
    page.evaluate("document.querySelector('[value=webgpu]').click()")
    page.wait("!problem.hidden")
    message = page.evaluate("problem.textContent")
    assert message.startswith("WebGPU is not available here. Still running on WebAssembly. Reason: ")
    assert page.evaluate("problem.getAttribute('role')") == "alert"
    assert page.evaluate("document.querySelector('[name=device]:checked').value") == "auto"
    assert read(page, strokes(STROKES[3][0])) == 3
    page.evaluate("document.querySelector('[value=wasm]').click()")
    page.wait("problem.hidden && devices.ariaBusy === 'false'")
    assert page.evaluate("document.querySelector('[name=device]:checked').value") == "wasm"
    assert page.evaluate("digit.textContent") == "3"


def test_the_app_reports_a_failed_run_and_another_device_can_be_chosen(page: Page) -> None:
    page.evaluate("kept = ArrayBuffer.isView, ArrayBuffer.isView = () => { throw new Error('gone') }, 0")
    page.mouse(on_screen(page, strokes(STROKES[1][0])[0]))
    page.wait("!problem.hidden")
    assert page.evaluate("problem.textContent") == "The model has failed on WebAssembly. Reload the page. Reason: gone"
    page.evaluate("ArrayBuffer.isView = kept, document.querySelector('[value=wasm]').click()")
    page.wait("problem.hidden && digit.textContent === '1'")


LOSABLE = """const request = GPUAdapter.prototype.requestDevice;
GPUAdapter.prototype.requestDevice = async function (...given) {
  return (globalThis.lastDevice = await request.apply(this, given));
};"""


def test_it_runs_on_webgpu_and_goes_on_when_the_device_is_lost(dist: Path) -> None:
    with serving(dist) as address, chromium("--enable-unsafe-webgpu") as page:
        page.resize(1200, 900)
        page.call("Page.addScriptToEvaluateOnNewDocument", source=LOSABLE)
        page.open(f"{address}/")
        ready(page)
        choose_webgpu(page)
        assert [read(page, strokes(STROKES[digit][0])) for digit in (2, 4, 7)] == [2, 4, 7]
        page.evaluate("lastDevice.destroy()")
        page.mouse(on_screen(page, strokes(STROKES[4][1])[0]))
        page.wait("!problem.hidden && devices.ariaBusy === 'false'")
        message = page.evaluate("problem.textContent")
        assert message.startswith("The model has failed on WebGPU, and is loaded for WebAssembly. Reason: ")
        assert read(page, strokes(STROKES[9][0])) == 9
        assert page.errors() == []


VALUES = """[...document.querySelectorAll('.value')].map((value) => {
  const { width, height, right } = value.getBoundingClientRect();
  return width >= value.scrollWidth && height > 8 && right <= innerWidth && value.textContent.endsWith('%');
})"""
"""Whether each percentage is visible as a whole."""


@pytest.mark.parametrize("width", [320, 390, 600, 703, 704, 1200])
def test_percentages_are_seen_at_every_width(page: Page, width: int) -> None:
    page.resize(width, 844)
    read(page, strokes(STROKES[1][0]))
    assert page.evaluate(VALUES) == [True] * 10


@pytest.mark.parametrize(("width", "phone", "seen"), [(390, True, False), (390, False, False), (1200, False, True)])
def test_keys_are_explained_where_there_are_keys(page: Page, width: int, phone: bool, seen: bool) -> None:
    page.resize(width, 844, phone=phone)
    page.evaluate("document.activeElement.blur()")
    assert page.evaluate("keys.getBoundingClientRect().height > 10") == seen
    page.key("Tab")
    assert page.evaluate("document.activeElement.id") == "pad"
    assert page.evaluate("keys.getBoundingClientRect().height > 10"), "for those who come with a key"


def test_a_phone_shows_all_of_it_and_is_drawn_on_with_a_finger(page: Page, request: pytest.FixtureRequest) -> None:
    page.resize(390, 844, phone=True)
    assert read(page, strokes(STROKES[5][0]), finger=True) == 5
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    assert page.evaluate("document.querySelector('dl').getBoundingClientRect().bottom") <= 844
    assert page.evaluate(VALUES) == [True] * 10
    page.evaluate(
        "document.activeElement.blur(), document.querySelectorAll('dd').forEach((d) => (d.textContent = '8'))"
    )
    page.evaluate("new Promise((done) => setTimeout(done, 400))")
    shot = page.screenshot().resize((97, 211), Image.Resampling.BOX)
    stored = Path(__file__).parent / "golden" / "digits_app" / "phone.png"
    if request.config.getoption("--update-golden"):
        stored.parent.mkdir(parents=True, exist_ok=True)
        shot.save(stored, optimize=True)
    away = np.abs(np.asarray(shot, int) - np.asarray(Image.open(stored).convert("RGB"), int)).max(2)
    # Fonts differ from machine to machine; colours, sizes, places and the drawing do not.
    assert away.mean() < 6
    assert (away > 60).mean() < 0.03


@pytest.mark.parametrize(("width", "height"), [(320, 568), (768, 1024), (844, 390)])
def test_nothing_is_wider_than_the_screen(page: Page, width: int, height: int) -> None:
    page.resize(width, height, phone=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def choose_webgpu(page: Page) -> None:
    page.evaluate("document.querySelector('[value=webgpu]').click()")
    page.wait("devices.ariaBusy === 'false'")
    assert page.evaluate("document.getElementById('fact-device').textContent") == "WebGPU"


def test_it_works_without_a_network_after_the_first_visit(dist: Path) -> None:
    with chromium("--enable-unsafe-webgpu") as page:
        page.resize(1200, 900)
        with serving(dist) as address:
            page.open(f"{address}/")
            page.wait("document.getElementById('fact-offline').textContent === 'ready'")
        page.reload()
        ready(page)
        with pytest.raises(RuntimeError, match="Failed to fetch"):
            page.evaluate("fetch('./elsewhere').then(() => 0)")
        assert read(page, strokes(STROKES[8][0])) == 8
        choose_webgpu(page)
        assert shown(page) == "8"


def test_a_missing_model_is_reported(dist: Path, tmp_path: Path) -> None:
    shutil.copytree(dist, tmp_path / "dist", ignore=shutil.ignore_patterns("*.bin"))
    with serving(tmp_path / "dist") as address, chromium() as page:
        page.resize(1200, 900)
        page.open(f"{address}/")
        page.wait("!problem.hidden")
        assert page.evaluate("problem.textContent").startswith("The model cannot be loaded. Reason: ")


def test_it_runs_while_it_is_developed(app: Path, environment: dict[str, str]) -> None:
    vite = [str(app / "node_modules" / ".bin" / "vite"), "--port", "0", "--host", "127.0.0.1"]
    environment = environment | {"NO_COLOR": "1"}
    server = subprocess.Popen(vite, cwd=app, env=environment, stdout=subprocess.PIPE, text=True, process_group=0)
    try:
        lines = (re.search(r"http://\S+", line) for line in server.stdout or [])
        address = next(found[0] for found in lines if found)
        with chromium() as page:
            page.resize(1200, 900)
            page.open(address)
            ready(page)
            assert page.evaluate("crossOriginIsolated")
            assert read(page, strokes(STROKES[6][0])) == 6
            assert page.errors() == []
    finally:
        os.killpg(server.pid, signal.SIGTERM)  # vite, and what started it
        server.wait()
