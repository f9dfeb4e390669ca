"""The page of a chat in Chromium, with a tiny language model: answers, stop, retry, copy, keys, phones, offline."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

import deploykit
from bench.browser import served
from tests.apps.conftest import Isolated, built, copied, opened, serving
from tests.apps.devtools import Page, chromium
from tests.apps.test_digits_app import CONTRAST
from tests.language.models import write_language_model

pytestmark = pytest.mark.slow

PAGE = "chat.html"
IDEA = "document.querySelector('#ideas button')"
TALK = "[...document.querySelectorAll('#talk > li')].map((item) => [item.className, item.innerText])"
TOOLS = "[...document.querySelectorAll('.tools button')].map((button) => button.textContent)"


@pytest.fixture(scope="session")
def dist(tmp_path_factory: pytest.TempPathFactory, environment: dict[str, str]) -> Path:
    """The page as it is put on a server, with weights that are small enough to be in many files."""
    folder = copied(tmp_path_factory.mktemp("chat"), environment)
    model = write_language_model(folder / "model.gguf", context=1024)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("deploykit.targets.webgpu.SHARD_BYTES", 1 << 14)
        deploykit.build(model, "webgpu", output=folder / "smol")
    return built(folder, environment)


@pytest.fixture(scope="module")
def browser(dist: Path) -> Iterator[Page]:
    with opened(dist, PAGE) as page:
        page.wait("!start.hidden")
        page.evaluate("document.getElementById('load').click()")
        ready(page)
        page.wait("document.getElementById('fact-offline').textContent === 'ready'")
        yield page


@pytest.fixture
def page(browser: Page) -> Iterator[Page]:
    """The page at a later visit: the model is there at once."""
    browser.resize(1200, 900)
    browser.evaluate("sessionStorage.clear()")
    browser.reload()
    ready(browser)
    yield browser
    assert browser.errors() == []


def ready(page: Page) -> None:
    page.wait("send && !send.disabled && start.hidden")


def ended(page: Page) -> None:
    page.wait(
        "talk.getAttribute('aria-busy') === 'false' && document.querySelector('#talk > li:last-child .tools') !== null"
    )


def write(page: Page, text: str) -> None:
    """Write a message by keys, and send it."""
    page.evaluate("text.focus()")
    page.call("Input.insertText", text=text)
    page.key("Enter")


def test_a_message_is_answered(page: Page) -> None:
    write(page, "abc")
    ended(page)
    (asked, question), (role, answer) = page.evaluate(TALK)
    assert (asked, question, role) == ("user", "abc", "assistant")
    assert len(answer.strip()) > len("Copy Retry")
    assert page.evaluate(TOOLS) == ["Copy", "Retry"]
    assert "tokens / s" in page.evaluate("document.getElementById('fact-speed').textContent")
    assert "tokens" in page.wait("document.getElementById('fact-context').textContent")
    assert page.evaluate("document.activeElement.id") == "text"


@pytest.mark.parametrize("stop", ["document.getElementById('stop').click()", ""])
def test_an_answer_is_stopped_and_asked_for_again(page: Page, stop: str) -> None:
    page.evaluate(f"{IDEA}.click()")
    page.wait("document.querySelector('#talk .assistant')?.textContent.length > 3")
    page.evaluate(stop) if stop else page.key("Escape")
    ended(page)
    before = page.evaluate(TALK)
    assert page.evaluate("document.getElementById('problem').hidden")
    page.evaluate("talk.isOld = talk.children[1], document.querySelectorAll('.tools button')[1].click()")
    page.wait("talk.children[1] !== talk.isOld")
    ended(page)
    after = page.evaluate(TALK)
    assert (len(after), after[0]) == (2, before[0])
    assert after[1] != before[1]
    page.evaluate("document.getElementById('clear').click()")
    assert page.evaluate("talk.children.length === 0 && !ideas.hidden")


def test_a_reload_keeps_the_conversation(page: Page) -> None:
    """Until it is ended. What is said next follows it, and an answer is asked for again."""

    def begun(place: int) -> None:
        page.wait(f"talk.children[{place}]?.textContent.length > 3")
        page.key("Escape")
        ended(page)

    write(page, "abc")
    begun(1)
    before = page.evaluate(TALK)
    page.reload()
    ready(page)
    assert page.evaluate(TALK) == before
    assert page.evaluate("ideas.hidden")
    write(page, "d")
    begun(3)
    assert page.evaluate(TALK)[:2] == before
    page.evaluate("document.querySelectorAll('.tools button')[1].click()")
    begun(1)
    assert [role for role, _ in page.evaluate(TALK)] == ["user", "assistant"]
    page.evaluate("document.getElementById('clear').click()")
    page.reload()
    ready(page)
    assert page.evaluate("talk.children.length === 0 && !ideas.hidden")


def test_an_answer_is_copied(page: Page) -> None:
    page.of_browser("Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"])
    write(page, "abc")
    ended(page)
    page.evaluate("document.querySelector('.tools button').click()")
    page.wait("document.querySelector('.tools button').textContent === 'Copied'")
    copied_text = page.evaluate("navigator.clipboard.readText()")
    shown = page.evaluate(
        "[...document.querySelector('#talk .assistant').children].slice(0, -1).map((part) => part.textContent).join('')"
    )
    assert "".join(copied_text.split()) == "".join(shown.split()) != ""


def test_a_line_is_begun_with_shift(page: Page) -> None:
    page.evaluate("document.body.focus(), document.activeElement.blur()")
    page.key("/")
    assert page.evaluate("document.activeElement.id") == "text"
    page.call("Input.insertText", text="one\ntwo\nthree")
    assert page.evaluate("talk.children.length") == 0
    assert page.evaluate("text.clientHeight") > 60, "the field grows"


@pytest.mark.parametrize("dark", [False, True])
def test_texts_stand_out(page: Page, dark: bool) -> None:
    page.resize(1200, 900, dark=dark)
    write(page, "abc")
    ended(page)
    contrasts = dict(page.evaluate(CONTRAST))
    assert len(contrasts) > 8
    assert {text: ratio for text, ratio in contrasts.items() if ratio < 4.5} == {}


@pytest.mark.parametrize(("width", "height"), [(320, 568), (390, 844), (844, 390), (1280, 720)])
def test_nothing_is_wider_than_the_screen(page: Page, width: int, height: int) -> None:
    page.resize(width, height, phone=width < 1000)
    write(page, "how wide is a text that has no end and no space " * 3)
    ended(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    box = page.evaluate("(({ top, bottom }) => [top, bottom])(form.getBoundingClientRect())")
    assert 0 <= box[0] < box[1] <= height, "the field stays on the screen"


def test_everything_has_a_name_for_screen_readers(page: Page) -> None:
    write(page, "abc")
    ended(page)
    nodes = page.call("Accessibility.getFullAXTree")["nodes"]
    named = {(node["role"]["value"], node.get("name", {}).get("value")) for node in nodes if "role" in node}
    buttons = {("button", name) for name in ("Send", "Copy", "Retry", "New conversation")}
    assert buttons | {("textbox", "Your message"), ("list", "Conversation")} <= named


def test_nothing_large_is_fetched_before_it_is_asked_for(dist: Path) -> None:
    asked: list[str] = []

    class Handler(Isolated):
        def do_GET(self) -> None:  # noqa: N802
            asked.append(self.path)
            super().do_GET()

    with served(partial(Handler, directory=str(dist))) as address, chromium() as page:
        # Without the app's worker, which keeps small files, as weights are in this test.
        page.call("Network.enable")
        page.call("Network.setBypassServiceWorker", bypass=True)
        page.evaluate("0")
        page.open(f"{address}/{PAGE}")
        page.wait("!start.hidden")
        assert "are fetched once" in page.evaluate("needs.textContent")
        assert "of memory" in page.evaluate("needs.textContent")
        page.evaluate("document.getElementById('load').click()")
        ready(page)
        assert [path for path in asked if path.endswith(".bin")]


def test_it_works_without_a_network_after_the_first_visit(dist: Path) -> None:
    with chromium() as page:
        with serving(dist) as address:
            page.open(f"{address}/{PAGE}")
            page.wait("!start.hidden")
            page.evaluate("document.getElementById('load').click()")
            page.wait("document.getElementById('fact-offline').textContent === 'ready'")
        page.reload()
        ready(page)
        with pytest.raises(RuntimeError, match="Failed to fetch"):
            page.evaluate("fetch('./elsewhere').then(() => 0)")
        write(page, "abc")
        ended(page)
        assert len(page.evaluate(TALK)) == 2
        assert page.errors() == []


def test_a_load_is_cancelled_and_goes_on(dist: Path) -> None:
    hold = threading.Event()

    class Slow(Isolated):
        def do_GET(self) -> None:  # noqa: N802
            if self.path.endswith(".bin"):
                hold.wait(30)
            super().do_GET()

    with served(partial(Slow, directory=str(dist))) as address, chromium() as page:
        page.open(f"{address}/{PAGE}")
        page.wait("!start.hidden")
        page.evaluate("document.getElementById('load').click()")
        page.wait("!fetching.hidden")
        page.evaluate("abort.click()")
        page.wait("fetching.hidden && !document.getElementById('load').hidden")
        assert page.evaluate("problem.hidden")
        hold.set()
        page.evaluate("document.getElementById('load').click()")
        ready(page)
