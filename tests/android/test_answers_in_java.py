"""Models that generate in Java: answers are those of Python, and what is asked wrongly leaves the model alone."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pytest

import deploykit
from deploykit.engines.native.bionic import without_needed
from deploykit.sessions.session import Session
from deploykit.targets.android import AndroidTarget
from tests.android.conftest import Run, aar_of, needs_desktop, needs_java, on_desktop
from tests.android.natives import Natives, signatures
from tests.android.test_natives import each_abi
from tests.android.test_snippets import blocks
from tests.conftest import Golden
from tests.language.models import write_language_model

pytestmark = [needs_java, pytest.mark.slow]

PAGE = Path(__file__).parents[2] / "docs" / "language.md"

MAIN = """
fun main(words: Array<String>) {
    val assets = Assets.folder(File(words[0]))
    runBlocking { talk(Smol.open(assets, null)) }
}

suspend fun talk(model: Smol) {
    val hello = Prompt.text("hello")
    val settings = Settings().maxTokens(9).ignoreEnd(true)
    val whole = model.complete(hello, settings).text
    println(model.pieces(hello, settings).toList().joinToString("") { it.text } == whole)
    val slow = StringBuilder()
    model.pieces(hello, settings).collect { piece ->
        delay(5)
        slow.append(piece.text)
    }
    println(slow.toString() == whole)
    println(model.pieces(hello, settings).take(3).toList().size)
    println(model.complete(hello, settings).text == whole)
    model.generate(hello, settings).use {
        model.pieces(hello, settings).catch { error -> println(error.javaClass.simpleName) }.collect { }
    }
    model.close()
}
"""

THREE = [
    {"role": "user", "content": "abc"},
    {"role": "assistant", "content": "de"},
    {"role": "user", "content": "f"},
]


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("answers")
    deploykit.build(write_language_model(place / "model.gguf"), AndroidTarget(), output=place / "dist")
    return place / "dist"


@pytest.fixture(scope="module")
def talk(package: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return on_desktop(package, "Talk", tmp_path_factory.mktemp("talk"))


@pytest.fixture(scope="module")
def session(package: Path) -> Iterator[Session]:
    with deploykit.open(package) as opened:
        yield opened


@needs_desktop
def test_answers_are_those_of_python(talk: Run, session: Session) -> None:
    nine: dict[str, object] = {"max_tokens": 9, "ignore_end": True}
    drawn: dict[str, object] = {"temperature": 0.9, "top_p": 0.95, "seed": 5}
    whole = session.generate("hello", max_tokens=20, ignore_end=True).read()
    penalties = {"repetition_penalty": 1.3, "presence_penalty": 0.2, "frequency_penalty": 0.1, "penalty_last": 8}
    asked: list[tuple[object, dict[str, object]]] = [
        ("hello", nine),
        (THREE[:1], nine),
        (THREE, nine),
        ([1, 2, 3, 4], nine),
        ("hello", {"max_tokens": 20, "ignore_end": True, "stop": ["never", whole[5:8]]}),
        ("hello", {"max_tokens": 30, **drawn}),
        ("hello", {"max_tokens": 30, **drawn, "seed": 6, "top_k": 30, "min_p": 0.01, "typical_p": 0.9}),
        ("hello", {"max_tokens": 30, **drawn, **penalties, "logit_bias": {7: 4.0, 3: -np.inf}}),
        ("a" * 37, drawn),
        ("hello", {}),
        ("hello", {"max_tokens": 0}),
    ]
    for line, (prompt, settings) in zip(talk("answers", whole[5:8]), asked, strict=True):
        text, tokens, reason, logprobs = ast.literal_eval(line)
        answer = session.generate(prompt, **settings)  # type: ignore[arg-type]
        expected = [(piece.tokens[0], piece.logprobs[0]) for piece in answer][: len(answer.tokens)]
        assert (text, tokens, reason) == (answer.text, answer.tokens, answer.reason)
        assert tokens == [token for token, _ in expected]
        np.testing.assert_allclose(logprobs, [logprob for _, logprob in expected], rtol=1e-4, atol=1e-5)


@needs_desktop
def test_pieces(talk: Run) -> None:
    assert talk("pieces") == ["true true", "true LENGTH", "true", "the answer has ended"]


@needs_desktop
def test_what_was_read_is_remembered(talk: Run, session: Session) -> None:
    """Also in a conversation, whose answers are those of one in Python."""
    new, again, changed, reserved, chat, first, second, after_error, reset, same = talk("remembered")
    assert (new, again, changed, reserved) == ("5", "1", "1", "5")
    in_python = session.chat("s", max_tokens=4, ignore_end=True)
    for text, line in (("abc", first), ("d", second)):
        assert ast.literal_eval(line)[0] == in_python.ask(text)
    assert chat.split() == ["12", "8", "5"]
    assert (after_error, reset, same) == ("5", "[system: s]", "true")


@needs_desktop
def test_what_is_refused(talk: Run) -> None:
    busy = "BusyException: the model writes another answer: let it end, or close it"
    assert talk("refused") == [
        "DataException: temperature must be in 0..1e30; found NaN",
        "DataException: temperature must be in 0..1e30; found -1.0",
        "DataException: topP must be in 0..1; found 2.0",
        "DataException: topK must be 0 or more; found -1",
        "DataException: minP must be in 0..1; found NaN",
        "DataException: repetitionPenalty must be in 1e-30..1e30; found 0.0",
        "DataException: penaltyLast must be -1 or more; found -2",
        "DataException: presencePenalty must be in -1e30..1e30; found Infinity",
        "DataException: seed must be 0 or more; found -1",
        "DataException: maxTokens must be 0 or more; found -1",
        "DataException: the bytes of a text of stop must be in 1..256; found 0",
        "DataException: the bytes of a text of stop must be in 1..256; found 257",
        "DataException: the token of logitBias must be in 0..49; found 10000000",
        "DataException: logitBias must be a number up to 1e30; found NaN",
        "DataException: the prompt is empty: there is nothing to continue",
        "DataException: the prompt has 50 tokens, and the model takes 40: shorten it",
        "DataException: the prompt is empty: there is nothing to continue",
        "DataException: there is no token 10000000: there are 0..49",
        "DataException: there is no token -1: there are 0..49",
        "DataException: there is no role 'robot': there are system, developer, user, assistant, tool",
        "DataException: the prompt has 41 tokens, and the model takes 40: shorten it",
        "DataException: no token is possible: the scores are no numbers, or all were ruled out",
        "ShapeException: a prompt with its answer has 1..40 tokens; found 41",
        "ShapeException: a prompt with its answer has 1..40 tokens; found 0",
        busy,
        busy,
        "true",
        "true",
        "MemoryException: the prompt has 5 tokens, and there is memory for 4: take more with completeReserve",
        "2",
        "ClosedException: the model is closed",
        "ClosedException: the model is closed",
    ]


@needs_desktop
def test_memory_is_asked_for(talk: Run) -> None:
    sizes, first, reserve, answered, again = talk("memory")
    least, most = map(int, sizes.split())
    assert 0 < least < most
    short = f"MemoryException: the memory for answers needs {most} bytes of memory, and {most - 1} are free"
    assert (first, reserve) == (short, short)
    assert (answered, again) == ("9", "9")


@needs_desktop
def test_listeners_end_answers(talk: Run) -> None:
    assert talk("listeners") == [
        "CANCELLED " * 8 + "LENGTH",
        "IllegalStateException: of the listener",
        "true",
        "DataException",
        "cancelled 3",
        "true",
        "false CANCELLED 1",
    ]


@needs_desktop
def test_a_publisher_writes_what_is_requested(talk: Run) -> None:
    assert talk("publisher") == [
        *["true 9 true"] * 4,
        "true true",
        "0 true",
        "2 0",
        "BusyException: the model writes another answer: let it end, or close it",
        "BusyException",
        "true true",
        "true 3 1",
        "0 IllegalArgumentException",
        "DataException 0 true",
        "RejectedExecutionException",
        "NullPointerException: null",
        "true",
    ]


@needs_desktop
def test_many_threads(talk: Run) -> None:
    assert talk("misuse") == ["true 40 0", "true"]


@needs_desktop
def test_closing_ends_an_answer(talk: Run) -> None:
    assert talk("closing") == ["1 ClosedException"]


@needs_desktop
def test_texts_that_are_longer_than_the_context(talk: Run, session: Session) -> None:
    asked = (
        (THREE[:1], {"max_tokens": 70}),
        (THREE[:1], {"max_tokens": 70, "sinks": 0}),
        ("ab" * 40, {"max_tokens": 5, "sinks": 3}),
    )
    *lines, most, least, small = talk("windows")
    session.reset({"pages": 4})
    for line, (prompt, settings) in zip(lines, asked, strict=True):
        text, tokens, reason, _ = ast.literal_eval(line)
        answer = session.generate(prompt, overflow="window", ignore_end=True, **settings)  # type: ignore[arg-type]
        assert (text, reason, tokens) == (answer.read(), answer.reason, answer.tokens)
    assert most == "DataException: sinks must be at most 38, 2 less than there is memory for; found 39"
    assert least == "DataException: sinks must be 0 or more; found -1"
    assert small == "50 LENGTH"


@needs_desktop
def test_a_conversation_is_saved(talk: Run) -> None:
    """It goes on in another model, without reading again what was read."""
    said, again, anew, text, stays = talk("saved")
    assert (said, anew, stays) == ("true 3", "true true", "5")
    same, unread = again.split()
    assert same == "true"
    assert int(unread) <= len("\nQ:d\nA:") + 2
    assert text == "DataException: what was saved is no conversation of texts"


@needs_desktop
def test_a_conversation_goes_on_from_python_and_back(talk: Run, package: Path, tmp_path: Path) -> None:
    """Python runs the same model, built for this machine."""
    deploykit.build(package.parent / "model.gguf", output=tmp_path / "host")
    with deploykit.open(tmp_path / "host") as session:
        chat = session.chat(max_tokens=3, ignore_end=True)
        chat.ask("abc")
        chat.save(tmp_path / "talk")
        expected = chat.ask("d")
        text, unread = ast.literal_eval(*talk("restored", str(tmp_path / "talk"), str(tmp_path / "back")))
        assert text == expected
        assert unread <= len("\nQ:d\nA:") + 2
        going = session.chat(restore=tmp_path / "back", max_tokens=3, ignore_end=True)
        assert going.messages == chat.messages
        assert going.ask("e") == chat.ask("e")


@needs_desktop
def test_what_is_not_restored(talk: Run, tmp_path: Path) -> None:
    """It is refused by an exception of its own, and what the model remembers stays."""
    write_language_model(tmp_path / "other.gguf", name="qwen2")
    deploykit.build(tmp_path / "other.gguf", output=tmp_path / "other")
    with deploykit.open(tmp_path / "other") as session:
        chat = session.chat(max_tokens=2)
        chat.ask("a")
        chat.save(tmp_path / "talk")
    nothing = "DataException: there is no text to save: let the model write an answer first"
    altered = "DataException: this is no saved text, or it is cut off or altered"
    busy = "BusyException: the model writes another answer: let it end, or close it"
    closed = "ClosedException: the model is closed"
    assert talk("unsaved", str(tmp_path / "talk")) == [
        *(nothing, nothing),
        *[altered] * 4,
        "OtherBuildException: what was saved is of another model, or of another build of it",
        "1",
        *(busy, busy),
        "the disk is full",
        "MemoryException: what was saved has more tokens than the workspace is for",
        *(closed, closed),
    ]


@needs_desktop
def test_a_model_without_conversations(tmp_path: Path, golden: Golden) -> None:
    """Its prompts are texts and tokens, and the example of its README is one."""
    path = write_language_model(tmp_path / "model.gguf", template="")
    deploykit.build(path, AndroidTarget(["x86_64"]), output=tmp_path / "dist")
    golden((tmp_path / "dist" / "README.md").read_text().partition("## Integrate")[2], "README.md")
    message = "DataException: this model has no template of conversations here: give it a text to continue"
    assert on_desktop(tmp_path / "dist", "Talk", tmp_path)("unspoken") == [message, "9"]


@needs_desktop
def test_a_template_may_write_more_than_was_said(tmp_path: Path) -> None:
    template = "{% for i in range(60 * (messages[0].content | length)) %}a{% endfor %}"
    path = write_language_model(tmp_path / "model.gguf", template=template)
    deploykit.build(path, AndroidTarget(["x86_64"]), output=tmp_path / "dist")
    refusals = [
        f"DataException: the prompt has {count} tokens, and the model takes 40: shorten it"
        for count in (60 * 180, 60 * 4)
    ]
    assert on_desktop(tmp_path / "dist", "Talk", tmp_path)("repeated") == refusals


KOTLIN = (
    "org.jetbrains.kotlin:kotlin-stdlib:1.3.72",
    "org.jetbrains.kotlin:kotlin-stdlib-jdk7:1.3.72",
    "org.jetbrains.kotlinx:kotlinx-coroutines-core:1.3.8",
)


def from_maven(artifacts: Iterable[str], place: Path) -> list[Path]:
    """The jars of artifacts. The test is skipped where they cannot be had."""
    for artifact in artifacts:
        call = ["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={place}"]
        if subprocess.run(call, capture_output=True, timeout=300, check=False).returncode != 0:
            pytest.skip(f"cannot get {artifact}")
    return sorted(place.glob("*.jar"))


@needs_desktop
@pytest.mark.skipif(not all(map(shutil.which, ("kotlinc", "mvn"))), reason="needs kotlinc and mvn")
def test_the_flow_of_the_page(tmp_path: Path) -> None:
    """Its pieces are those of the answer, also for a slow collector, and a collector that leaves ends the answer."""
    deploykit.build(write_language_model(tmp_path / "smol.gguf"), AndroidTarget(["x86_64"]), output=tmp_path / "dist")
    with zipfile.ZipFile(aar_of(tmp_path / "dist")) as archive:
        archive.extractall(tmp_path)
    library = tmp_path / "jni" / "x86_64" / "libsmol.so"
    library.write_bytes(without_needed(library.read_bytes()))
    (block,) = blocks(PAGE.read_text(), "kotlin")
    (tmp_path / "Pieces.kt").write_text(f"import kotlinx.coroutines.*\nimport java.io.File\n{block}{MAIN}")
    path = os.pathsep.join(map(str, [tmp_path / "classes.jar", *from_maven(KOTLIN, tmp_path / "jars")]))
    options = ["-no-stdlib", "-jvm-target", "1.8", "-cp", path, "-d", str(tmp_path / "out")]
    call = ["kotlinc", str(tmp_path / "Pieces.kt"), *options]
    compiled = subprocess.run(call, capture_output=True, text=True, check=False)
    assert compiled.returncode == 0, compiled.stderr
    path = f"{path}{os.pathsep}{tmp_path / 'out'}"
    call = ["java", f"-Djava.library.path={library.parent}", "-cp", path, "PiecesKt", str(tmp_path / "assets")]
    ran = subprocess.run(call, capture_output=True, text=True, timeout=100, check=False)
    assert (ran.stdout.split(), ran.returncode) == (["true", "true", "3", "true", "BusyException"], 0), ran.stderr


@each_abi
def test_native_methods(package: Path, abi: str, tmp_path: Path, session: Session) -> None:
    """On each kind of CPU, with a Java machine that checks every call."""
    answer = session.generate("hello", max_tokens=12, temperature=0.9, seed=5, stop=["\n\n", "never"], ignore_end=True)
    answer.read()
    tokens = np.asarray(session.language.tokenizer.encode("hello").ids, np.int64)
    with Natives(package, abi, tmp_path) as natives:
        handle = natives("create", 2)
        for number, name in enumerate(("weights.bin", "tokenizer.bin")):
            path = natives.assets / name
            assert natives("map", handle, number, -1, bytearray(bytes(path)), 0, path.stat().st_size) == 0
        assert natives("init", handle) == 0
        assert natives("answerBytes", 41, 4) == 2**63 - 1
        assert natives("answerBytes", 40, 4) > natives("answerBytes", 40, 2) > 0
        for _ in range(2):
            assert natives("openAnswers", handle, 40, 2) == 0
        one = int(np.float32(1).view(np.uint32))
        warm = int(np.float32(0.9).view(np.uint32))
        settings = np.array([warm, 0, one, one, 0, one, 0, 0, 64, 5, 12, 1, 0, 4], np.int64)
        stops = bytearray(b"\n\nnever"), np.array([2, 5], np.int64)
        none, unread = np.zeros(0, np.int64), np.zeros(1, np.int64)
        for bad, status in ((none, 8), (np.array([50]), 7), (np.array([1 << 40]), 7), (np.zeros(41, np.int64), 5)):
            assert natives("beginAnswer", handle, bad, settings, none, *stops, unread) == status
            assert natives("stepAnswer", handle, bytearray(2304), np.zeros(7, np.int64)) == 8
        assert natives("beginAnswer", handle, tokens, settings, none, *stops, unread) == 0
        assert unread == len(tokens)
        text, found, steps = bytearray(), [], []
        step = np.zeros(7, np.int64)
        while not step[4]:
            piece = bytearray(2304)
            assert natives("stepAnswer", handle, piece, step) == 0
            steps.append(int(step[0]))
            if not step[0]:
                text += piece[: step[1]]
                found.append(int(step[2]))
        assert steps[:3] == [3, 1, 0]
        assert not any(steps[3:])
        assert (text.decode(), found[: len(answer.tokens)]) == (answer.text, answer.tokens)
        note, size, place = bytearray(b"a note"), np.zeros(1, np.int64), np.zeros(2, np.int64)
        assert natives("saveAnswer", handle, note, size) == 0
        part = bytearray(int(size[0]))
        natives("readSaved", handle, 0, part, len(part))
        natives("dropSaved", handle)
        for _ in range(2):
            for start in range(0, len(part), 1000):
                more = part[start : start + 1000]
                assert natives("addSaved", handle, more, len(more)) == 0
            assert natives("restoreAnswer", handle, place) == 0
            assert part[place[0] : place[0] + place[1]] == note
            natives("dropSaved", handle)
        assert natives("restoreAnswer", handle, place) == 7
        natives("close", handle)
        assert {name for name in signatures(package) if "nswer" in name or "Saved" in name} <= natives.called
        assert natives.end() == (0, "")
