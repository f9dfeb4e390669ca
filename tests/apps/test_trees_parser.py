"""The parser of the page of expressions: trees, exact values, and what is said of texts that are no expression."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

SOURCES = Path(__file__).parents[2] / "apps" / "trees" / "src"

SCRIPT = """
const { parse, exact, modulo10 } = await import(process.argv[1]);
const found = JSON.parse(process.argv[2]).map((text) => {
  try {
    const tree = parse(text);
    return { tree, value: String(exact(tree)), digit: modulo10(exact(tree)) };
  } catch ({ message, start, end, constructor }) {
    return { fault: constructor.name, message, start, end };
  }
});
console.log(JSON.stringify(found));
"""


def parsed(*texts: str) -> list[dict[str, Any]]:
    if not shutil.which("node"):
        pytest.skip("needs node")
    call = ["node", "--input-type=module", "-e", SCRIPT, (SOURCES / "parser.mjs").as_uri(), json.dumps(texts)]
    result = subprocess.run(call, capture_output=True, text=True, check=False, timeout=60)
    assert result.returncode == 0, result.stderr
    found: list[dict[str, Any]] = json.loads(result.stdout)
    return found


def shown(tree: dict[str, Any]) -> str:
    match tree["type"]:
        case "Number":
            return str(tree["value"])
        case "Negative":
            return f"-[{shown(tree['operand'])}]"
        case operator:
            return f"[{shown(tree['left'])} {operator} {shown(tree['right'])}]"


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("7", "7"),
        ("1 - 2 - 3", "[[1 Minus 2] Minus 3]"),
        ("1 + 2 * 3 - 4", "[[1 Plus [2 Times 3]] Minus 4]"),
        ("(1 + 2) * (3 - 4)", "[[1 Plus 2] Times [3 Minus 4]]"),
        ("-2 * 3", "[-[2] Times 3]"),
        ("--2", "-[-[2]]"),
        ("4 - -3", "[4 Minus -[3]]"),
        ("((5))", "5"),
        ("3\u00d74\u22121·2", "[[3 Times 4] Minus [1 Times 2]]"),
        (" 12*3 ", "[12 Times 3]"),
    ],
)
def test_trees(text: str, tree: str) -> None:
    (found,) = parsed(text)
    assert shown(found["tree"]) == tree


def test_parts_know_their_text() -> None:
    (found,) = parsed(" (3 + 4) * -2")
    tree = found["tree"]
    spans = [(each["start"], each["end"]) for each in (tree, tree["left"], tree["left"]["left"], tree["right"])]
    assert spans == [(1, 13), (1, 8), (2, 3), (11, 13)]


def test_values() -> None:
    """Compared with Python."""
    source = random.Random(0)
    texts = []
    for _ in range(200):
        text = str(source.randrange(100))
        for _ in range(source.randrange(12)):
            other = str(source.randrange(100))
            text = source.choice([f"{text} {source.choice('+-*')} {other}", f"-({text})", f"({text}) * {other}"])
        texts.append(text)
    for text, found in zip(texts, parsed(*texts), strict=True):
        value = eval(text)
        assert (int(found["value"]), found["digit"]) == (value, value % 10)


@pytest.mark.parametrize(
    ("text", "message", "part"),
    [
        ("3 + * 4", "a number is missing behind '+'", "+"),
        ("3 +", "a number is missing behind '+'", "+"),
        ("* 3", "a number is missing in front of '*'", "*"),
        ("()", "a number is missing behind '('", "("),
        ("(3 + 4", "this '(' is not closed", "("),
        ("3 + 4)", "this ')' closes nothing", ")"),
        ("3 4", "an operator is missing in front of '4'", "4"),
        ("(3 4)", "an operator is missing in front of '4'", "4"),
        ("3 (4)", "an operator is missing in front of '('", "("),
        ("100 - 1", "the model knows the numbers 0 to 99, and 100 is larger", "100"),
        ("1.5 + 2", "the model knows whole numbers only, and 1.5 is none", "1.5"),
        ("8 / 2", "the model has not learned '/': it knows + - * ( )", "/"),
        ("two + 2", "the model has not learned 't': it knows + - * ( )", "t"),
        ("3 + 😀", "the model has not learned '😀': it knows + - * ( )", "😀"),
        ("(2 ^ 3)", "the model has not learned '^': it knows + - * ( )", "^"),
    ],
)
def test_faults(text: str, message: str, part: str) -> None:
    (found,) = parsed(text)
    assert (found["fault"], found["message"]) == ("SyntaxFault", message)
    assert text.encode("utf-16-le")[2 * found["start"] : 2 * found["end"]].decode("utf-16-le") == part


def test_deep_texts_are_refused() -> None:
    deep, fits = parsed("(" * 10_000 + "1" + ")" * 10_000, "(" * 90 + "1" + ")" * 90)
    assert deep["message"] == "there are more than 100 levels here"
    assert fits["value"] == "1"
    (empty,) = parsed("")
    assert empty["message"] == "a number is missing here"
