"""The page of expressions in Chromium: answers, the picture of the schedule, faults, replay, keys, phones, offline."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import deploykit
from bench.browser import find_chromium
from deploykit.dynamic.policies import POLICIES
from tests.apps.conftest import opened, reloaded, serving
from tests.apps.devtools import Page, chromium
from tests.apps.test_digits_app import CONTRAST
from tests.web.tools import run_tool

APP = Path(__file__).parents[2] / "apps" / "trees"
PACKAGE = "arithmetic"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the page, with the package that its README says to build."""
    if find_chromium() is None:
        pytest.skip("needs Chromium")
    folder = tmp_path_factory.mktemp("page") / "trees"
    shutil.copytree(APP, folder, ignore=shutil.ignore_patterns(PACKAGE, "__pycache__"))
    model = folder / "model"
    files = {"weights": model / "arithmetic.safetensors", "samples": model / "samples.json"}
    deploykit.build(f"{model / 'arithmetic.py'}:Arithmetic", "webgpu", output=folder / PACKAGE, **files)
    return folder


@pytest.fixture(scope="module")
def browser(folder: Path) -> Iterator[Page]:
    with opened(folder) as page:
        yield page


@pytest.fixture
def page(browser: Page) -> Iterator[Page]:
    with reloaded(browser, lambda page: page.wait("!pictures.hidden")):
        yield browser


def write(page: Page, *lines: str) -> None:
    """Replace what is in the editor, as keys do, and wait for the trees."""
    page.evaluate("expressions.focus(), expressions.select()")
    page.call("Input.insertText", text="\n".join(lines))
    settle(page, [line.strip() for line in lines if line])


def settle(page: Page, lines: list[str]) -> None:
    page.wait(f"{json.dumps(lines)}.join() === [...document.querySelectorAll('h3')].map((e) => e.textContent).join()")


def text(page: Page, selector: str) -> str:
    found = page.evaluate(f"document.querySelector({json.dumps(selector)}).textContent")
    return re.sub(r"\s+", " ", found).strip()


def choose(page: Page, policy: str) -> None:
    page.evaluate(f"document.querySelector('input[value={policy}]').click()")


def columns(page: Page) -> list[int]:
    """The number of squares of each launch."""
    script = "[...document.querySelectorAll('#schedule .launch')].map((e) => e.querySelectorAll('.use').length)"
    found: list[int] = page.evaluate(script)
    return found


def point(page: Page, selector: str) -> None:
    """Move the mouse to the middle of an element."""
    script = f"""(() => {{
      const element = document.querySelector({json.dumps(selector)});
      element.scrollIntoView({{ block: 'center' }});
      const {{ x, y, width, height }} = element.getBoundingClientRect();
      return [x + width / 2, y + height / 2];
    }})()"""
    x, y = page.evaluate(script)
    page.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)


def test_it_answers(page: Page) -> None:
    write(page, "(3 + 4) * 2 - 1", "2 - 9", "7")
    answers = page.evaluate("[...document.querySelectorAll('.answer')].map((e) => e.innerText.replace(/\\s+/g, ' '))")
    for answer, expected in zip(answers, ("exact 13 ≡ 3", "exact \u22127 ≡ 3", "exact 7"), strict=True):
        digit = expected[-1]
        assert re.fullmatch(rf"model {digit} \d+\.\d % {expected} ✓", answer)


EXPRESSIONS = ["(3 + 4) * 2 - 1", "-(9 + 1) * (2 + 3 * 4) + 58", "12 - (3 - (4 - 5))"]
SAME: list[Any] = [
    (
        "Minus",
        ("Times", ("Plus", ("Number", 3), ("Number", 4)), ("Number", 2)),
        ("Number", 1),
    ),
    (
        "Plus",
        (
            "Times",
            ("Negative", ("Plus", ("Number", 9), ("Number", 1))),
            ("Plus", ("Number", 2), ("Times", ("Number", 3), ("Number", 4))),
        ),
        ("Number", 58),
    ),
    ("Minus", ("Number", 12), ("Minus", ("Number", 3), ("Minus", ("Number", 4), ("Number", 5)))),
]


@pytest.mark.parametrize("policy", POLICIES)
def test_the_picture_is_the_schedule(page: Page, folder: Path, policy: str) -> None:
    """Compared with a run of the same package in Python."""
    write(page, *EXPRESSIONS)
    choose(page, policy)
    with deploykit.open(folder / PACKAGE) as session:
        session.tracing, session.policy = True, policy
        session(SAME)
        expected = [len(launch.nodes) for launch in session.trace]
    assert columns(page) == expected
    assert text(page, "#launches") == text(page, f"#policy-{policy} .count") == str(len(expected))
    assert text(page, "#nodes") == str(sum(expected))
    assert text(page, "#saved") == f"{round((1 - len(expected) / sum(expected)) * 100)} %"
    assert page.evaluate("document.querySelectorAll('#trees .node').length") == sum(expected)
    pairs = page.evaluate("""[...document.querySelectorAll('.use')].map((square) => {
      const { use } = square.dataset;
      const nodes = [...document.querySelectorAll(`.node[data-use='${use}']`)];
      return [nodes.length, ...[square, ...nodes].map((e) => getComputedStyle(e.firstElementChild).fill)];
    })""")
    assert all(count == 1 and square == node for count, square, node in pairs)
    assert len({colour for _, colour, _ in pairs}) == len({launch.cell for launch in session.trace})


def test_a_fault_is_shown_where_it_is(page: Page) -> None:
    page.evaluate("expressions.focus(), expressions.select()")
    page.call("Input.insertText", text="3 + 4\n3 + * 4\n120 - 1\n\n(3 - 2")
    settle(page, ["3 + 4"])
    faults = page.evaluate("[...faults.children].map((e) => [e.firstChild.data, e.querySelector('mark').textContent])")
    assert faults == [
        ["Line 2: a number is missing behind '+'.", "+"],
        ["Line 3: the model knows the numbers 0 to 99, and 120 is larger.", "120"],
        ["Line 5: this '(' is not closed.", "("],
    ]
    assert page.evaluate("expressions.ariaInvalid") == "true"
    assert sum(columns(page)) == 4
    write(page, "3 - 4")
    assert page.evaluate("[faults.childElementCount, expressions.ariaInvalid]") == [0, "false"]


def test_no_expressions_and_too_many(page: Page) -> None:
    page.evaluate("expressions.focus(), expressions.select(), document.execCommand('delete')")
    page.wait("!empty.hidden")
    assert page.evaluate("pictures.hidden && problem.hidden")
    page.call("Input.insertText", text="\n".join(["1 + 2 + 3 + 4 + 5 + 6 + 7"] * 40))
    page.wait("!problem.hidden")
    assert text(page, "#problem") == "These expressions have 560 nodes, and the pictures have room for 500."
    write(page, "1 + 2")
    assert page.evaluate("problem.hidden && !pictures.hidden")


def hot(page: Page, kind: str) -> set[str]:
    return set(page.evaluate(f'[...document.querySelectorAll("{kind}[data-hot]")].map((e) => e.dataset.use)'))


@pytest.mark.parametrize(("pointed", "other"), [(".node", ".use"), (".use", ".node")])
def test_a_node_and_its_launch_belong_together(page: Page, pointed: str, other: str) -> None:
    write(page, *EXPRESSIONS)
    launch, size = max(enumerate(columns(page)), key=lambda pair: pair[1])
    point(page, f"{pointed}[data-use='{launch}-1']")
    page.wait(f"document.querySelector(\".launch[data-launch='{launch}']\").dataset.hot")
    everyone = {f"{launch}-{index}" for index in range(size)}
    assert hot(page, pointed) == hot(page, other) == everyone
    assert page.evaluate(f"document.querySelector(\"{other}[data-hot='self']\").dataset.use") == f"{launch}-1"
    assert text(page, "#detail").startswith(f"Launch {launch + 1} of {len(columns(page))}: {size} \u00d7 “number”")
    point(page, "h1")
    page.wait("detail.textContent === ''")
    assert hot(page, ".use") == set()


def test_the_part_of_a_node_is_marked(page: Page) -> None:
    write(page, "(3 + 4) * 2 - 1", "  7 - (2 * 5)")
    for expression, sign, part in ((0, "+", "(3 + 4)"), (0, "=", "(3 + 4) * 2 - 1"), (1, "2", "2")):
        script = f"[...document.querySelectorAll('[data-expression=\"{expression}\"] .node')]"
        use = page.evaluate(f"{script}.find((e) => e.textContent === '{sign}').dataset.use")
        point(page, f".node[data-use='{use}']")
        page.wait(f"[...document.querySelectorAll('h3 mark')].map((e) => e.textContent).join() === '{part}'")
    point(page, "h1")
    page.wait("!document.querySelector('h3 mark')")
    settle(page, ["(3 + 4) * 2 - 1", "7 - (2 * 5)"])


def states(page: Page) -> list[str]:
    """The state of each launch, which all its squares and nodes have."""
    found: list[str] = page.evaluate("""[...document.querySelectorAll('.launch')].map((launch) => {
      const marks = [...launch.querySelectorAll('.use')].flatMap(({ dataset: { use } }) =>
        [...document.querySelectorAll(`[data-use='${use}']`)]);
      return [...new Set(marks.map((mark) => mark.dataset.state))].join();
    })""")
    return found


def test_the_run_can_be_replayed(page: Page) -> None:
    write(page, *EXPRESSIONS)
    count = len(columns(page))
    assert states(page) == ["done"] * count
    for _ in range(count - 1):
        page.evaluate("document.querySelector('.back').click()")
    assert states(page) == ["last", *["later"] * (count - 1)]
    assert page.evaluate("getComputedStyle(document.querySelector('.answer b')).visibility") == "hidden"
    page.evaluate("document.querySelector('.forward').click()")
    assert states(page) == ["done", "last", *["later"] * (count - 2)]
    assert text(page, "#done") == f"2 / {count}"
    page.evaluate("document.querySelector('.play').click()")
    assert page.evaluate("document.querySelector('.play').ariaLabel") == "Pause"
    page.wait(f"document.querySelector('#done').textContent === '{count} / {count}'")
    assert states(page) == ["done"] * count
    assert page.evaluate("document.querySelector('.play').ariaLabel") == "Play"
    assert page.evaluate("getComputedStyle(document.querySelector('.answer b')).visibility") == "visible"


def test_keys(page: Page) -> None:
    write(page, *EXPRESSIONS)
    focused = "document.activeElement.ariaLabel ?? document.activeElement.id"
    page.evaluate("document.querySelector('.launch').focus()")
    page.key("ArrowRight", "ArrowRight")
    assert page.evaluate(focused).startswith("Launch 3: ")
    assert page.evaluate("document.querySelector(\"[data-launch='2']\").dataset.hot") == "launch"
    page.key(" ")
    assert text(page, "#done").startswith("3 / ")
    page.key("Tab")
    assert page.evaluate(focused) == "Step back"
    page.evaluate("document.querySelector('.card [tabindex=\"0\"]').focus()")
    labels = []
    for _ in range(3):
        labels.append(page.evaluate(focused))
        page.key("ArrowDown")
    assert len(set(labels)) == 3
    assert text(page, "#detail").startswith("Launch ")
    order = "[...document.querySelectorAll('[tabindex=\"0\"]')].length"
    assert page.evaluate(order) == 1 + len(EXPRESSIONS)  # a stop for the schedule, and one for each tree


def test_random_expressions_are_expressions(page: Page) -> None:
    for _ in range(10):
        before = page.evaluate("expressions.value")
        page.evaluate("example.click()")
        lines = page.evaluate("expressions.value")
        assert lines != before
        settle(page, lines.split("\n"))
        assert page.evaluate("faults.childElementCount") == 0
        assert page.evaluate("document.querySelectorAll('[data-right=true]').length") == lines.count("\n") + 1


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize(("width", "phone"), [(320, True), (390, True), (768, False), (1600, False)])
def test_it_fits(page: Page, width: int, phone: bool, dark: bool) -> None:
    page.resize(width, 844, phone=phone, dark=dark)
    choose(page, "alone")
    page.wait("document.querySelectorAll('.launch').length === Number(nodes.textContent)")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    small = page.evaluate("""[...document.querySelectorAll('button')].filter((e) => e.checkVisibility())
      .map((e) => e.getBoundingClientRect()).filter(({ width, height }) => Math.min(width, height) < 36).length""")
    assert small == 0
    contrasts = dict(page.evaluate(CONTRAST))
    assert {each: ratio for each, ratio in contrasts.items() if ratio < 4.5} == {}
    signs = page.evaluate("""(() => {
      const rgb = (e) => getComputedStyle(e).fill.match(/[\\d.]+/g).map(Number);
      const channel = (c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4);
      const light = (c) => 0.2126 * channel(c[0]) + 0.7152 * channel(c[1]) + 0.0722 * channel(c[2]);
      return [...document.querySelectorAll('.node')].map((node) => {
        const [a, b] = [light(rgb(node.firstElementChild)), light(rgb(node.lastElementChild))];
        return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
      });
    })()""")
    assert min(signs) >= 4.5


def test_it_works_offline(folder: Path) -> None:
    with chromium() as page:
        page.resize(1200, 900)
        with serving(folder) as address:
            page.open(f"{address}/")
            page.wait("!pictures.hidden")
            page.wait("navigator.serviceWorker.controller !== null")
        page.reload()
        page.wait("!pictures.hidden")
        write(page, "(3 + 4) * 2 - 1")
        assert text(page, ".digit") == "3"


def test_a_missing_model_is_reported(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "trees", ignore=shutil.ignore_patterns(PACKAGE))
    with serving(tmp_path / "trees") as address, chromium() as page:
        page.resize(1200, 900)
        page.open(f"{address}/")
        page.wait("!problem.hidden")
        assert text(page, "#problem").startswith("The model cannot run. README.md says how to build it. Reason: ")
        assert page.evaluate("loading.hidden")


def test_nothing_comes_from_elsewhere(folder: Path) -> None:
    files = [
        path
        for end in ("html", "css", "svg", "mjs")
        for path in (*folder.glob(f"*.{end}"), *folder.glob(f"src/*.{end}"))
    ]
    assert len(files) == 5 + len(list((folder / "src").iterdir()))
    for path in files:
        found = set(re.findall(r"https?://[^\s'\"]+", path.read_text()))
        assert found <= {"http://www.w3.org/2000/svg"}


def test_types(folder: Path) -> None:
    options = {"strict": True, "noEmit": True, "target": "es2023", "module": "nodenext", "allowJs": True}
    options |= {"checkJs": True, "skipLibCheck": True, "types": [], "lib": ["es2023", "dom", "dom.iterable"]}
    settings = {"compilerOptions": options, "files": ["src/main.mjs", "offline.mjs"]}
    (folder / "tsconfig.json").write_text(json.dumps(settings))
    result = run_tool("tsc", "-p", ".", "--pretty", "false", folder=folder)
    assert (result.returncode, result.stdout) == (0, "")


def test_the_worker_keeps_every_module(folder: Path) -> None:
    (listed,) = re.findall(r"MODULES = \[(.*)\]", (folder / "offline.mjs").read_text())
    assert re.findall(r"'(\w+)'", listed) == sorted(path.stem for path in (folder / "src").iterdir())
