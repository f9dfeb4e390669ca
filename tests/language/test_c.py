"""The C of models that generate, under sanitizers: answers are those of Python."""

from __future__ import annotations

import subprocess
from pathlib import Path

import deploykit
from deploykit.sessions.session import Session
from tests.language.models import write_language_model

PROGRAM = r"""
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "model_messages.h"
#include "tokenizer.h"
#include "weights.h"

static model_session session;

static void answer(dk_status status) {
    dk_piece piece = {0};
    while (status == DK_OK && !piece.last) {
        status = model_next(&session, &piece);
        if (status == DK_OK) fwrite(piece.text, 1, piece.bytes, stdout);
    }
    if (status != DK_OK) printf("[%d %s]", (int)status, model_session_error(&session));
    else printf("[%s]", piece.stopped ? "stop" : "length");
    putchar(0);
}

/* What is saved goes on in other memory, also in the middle of an answer. */
static int saved(char* workspace, size_t bytes) {
    const dk_language_room room = {40, 7, 200}, small = {6, 6, 200};
    const dk_message talk[1] = {{DK_USER, "abc", 3}};
    dk_answering asked = {0};
    dk_piece piece = {0};
    asked.sampling = dk_sampling_greedy();
    asked.most = 9;
    asked.ignore_end = true;
    model_set_workspace(&session, &room, workspace, bytes);
    if (model_saved_bytes(&session) != 0) return 1;
    answer(model_save(&session, &piece, 0));
    if (model_chat(&session, talk, 1, &asked) != DK_OK || model_next(&session, &piece) != DK_OK) return 1;
    size_t size = model_saved_bytes(&session);
    unsigned char* memory = malloc(size);
    answer(model_save(&session, memory, size - 1));
    if (model_save(&session, memory, size) != DK_OK) return 1;
    fwrite(piece.text, 1, piece.bytes, stdout);
    answer(DK_OK); /* the answer goes on */
    memset(workspace, 0xff, bytes);
    model_set_workspace(&session, &room, workspace, bytes);
    if (model_restore(&session, memory, size) != DK_OK) return 1;
    if (session.language.pages.lengths[0] != session.language.count - 1) return 1;
    answer(model_chat(&session, talk, 1, &asked));
    answer(model_restore(&session, memory, size - 1));
    memory[size / 2] ^= 1;
    answer(model_restore(&session, memory, size));
    memory[size / 2] ^= 1;
    answer(model_chat(&session, talk, 1, &asked)); /* as before */
    model_set_workspace(&session, &small, workspace, bytes);
    answer(model_restore(&session, memory, size));
    free(memory);
    model_set_workspace(&session, &room, workspace, bytes);
    asked.slides = true;
    asked.sinks = 3;
    asked.most = 70;
    answer(model_complete(&session, "hello", 5, &asked));
    asked.most = 9;
    char text[90];
    memset(text, 'b', 90);
    memset(text, 'a', 45);
    answer(model_complete(&session, text, 90, &asked));
    asked.slides = false;
    answer(model_complete(&session, "a\xc3" "b\xff", 4, &asked)); /* not UTF-8 */
    asked.sampling.temperature = NAN;
    answer(model_complete(&session, "hello", 5, &asked));
    asked.sampling.temperature = INFINITY;
    answer(model_complete(&session, "hello", 5, &asked));
    asked.sampling.temperature = 0;
    answer(model_complete(&session, NULL, 5, &asked));
    answer(model_chat(&session, NULL, 0, &asked));
    asked.slides = true;
    asked.sinks = 39;
    answer(model_complete(&session, "hello", 5, &asked));
    return 0;
}

/* Conversations in JSON. */
static int spoken(void) {
    static const char talk[] = "{\"messages\": [{\"role\": \"user\", \"content\": \"a\\u0062c\"}]}";
    dk_answering asked = {0};
    asked.sampling = dk_sampling_greedy();
    asked.most = 9;
    asked.ignore_end = true;
    answer(model_chat_json(&session, talk, sizeof talk - 1, &asked));
    char text[300];
    memset(text, 'a', 300);
    const dk_message large[1] = {{DK_USER, text, 300}};
    answer(model_chat(&session, large, 1, &asked));
    return 0;
}

int main(void) {
    const dk_language_room room = {40, 7, 200};
    const dk_message talk[3] = {{DK_USER, "abc", 3}, {DK_ASSISTANT, "de", 2}, {DK_USER, "f", 1}};
    const dk_message wrong[1] = {{(dk_role)7, "x", 1}};
    const char* const stops[1] = {"n\n"};
    const size_t stop_bytes[1] = {2};
    dk_answering asked = {0};
    asked.sampling = dk_sampling_greedy();
    asked.most = 9;
    asked.ignore_end = true;
    answer(model_next(&session, &(dk_piece){0}));
    model_open(&session, &model_weights, MODEL_WEIGHTS_BYTES, &model_tokenizer, MODEL_TOKENIZER_BYTES);
    answer(model_complete(&session, "hello", 5, &asked));
    size_t bytes = model_workspace_bytes(&session, &room);
    char* workspace = aligned_alloc(64, bytes);
    answer(model_set_workspace(&session, &room, workspace, bytes - 64));
    if (model_set_workspace(&session, &room, workspace, bytes) != DK_OK) return 1;
    answer(model_complete(&session, "hello", 5, &asked));
    answer(model_chat(&session, talk, 1, &asked));
    answer(model_chat(&session, talk, 3, &asked));
    asked.stops = stops;
    asked.stop_bytes = stop_bytes;
    asked.stop_count = 1;
    answer(model_chat(&session, talk, 1, &asked));
    asked.stop_count = 0;
    asked.sampling.temperature = 0.9f;
    asked.sampling.top_p = 0.95f;
    asked.seed = 5;
    answer(model_complete(&session, "hello", 5, &asked));
    asked.most = 0;
    answer(model_complete(&session, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", 37, &asked));
    answer(model_chat(&session, wrong, 1, &asked));
    answer(model_chat_json(&session, "{\"messages\": 1", 14, &asked));
    answer(model_complete(&session, "", 0, &asked));
    answer(model_complete(&session, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", 45, &asked));
    asked.sampling.top_p = 2;
    answer(model_complete(&session, "hello", 5, &asked));
    asked.sampling = dk_sampling_greedy();
    asked.most = 9;
    const int32_t tokens[4] = {1, 2, 3, 4}, unknown[2] = {1, 50};
    dk_language* own = &session.language;
    dk_model* base = &session.model.base;
    answer(dk_language_continue_tokens(own, base, tokens, 4, &asked));
    answer(dk_language_continue_tokens(own, base, unknown, 2, &asked));
    answer(dk_language_continue_tokens(own, base, tokens, 41, &asked));
    answer(dk_language_continue_tokens(own, base, NULL, 0, &asked));
    answer(dk_language_read(own, base));
    dk_status status = model_complete(&session, "aaaaaaaaaaaaaaaaaaaa", 20, &asked);
    for (int32_t left = dk_language_unread(own); left > 0 && status == DK_OK; left = dk_language_unread(own)) {
        printf("%d ", (int)left);
        status = dk_language_read(own, base);
    }
    answer(status);
    const dk_language_room large = {41, 7, 200};
    printf("%d", model_workspace_bytes(&session, &large) == SIZE_MAX);
    putchar(0);
    if (spoken() != 0 || saved(workspace, bytes) != 0) return 1;
    free(workspace);
    return 0;
}
"""


def test_answers(tmp_path: Path, session: Session) -> None:
    path = write_language_model(tmp_path / "model.gguf")
    deploykit.build(path, "embedded", {"pages": (1, 2)}, tmp_path / "c")
    (tmp_path / "c" / "main.c").write_text(PROGRAM)
    flags = "-std=c11 -Wall -Wextra -Werror -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all"
    sources = sorted(path.name for path in (tmp_path / "c").glob("*.c"))
    subprocess.run(["clang", *flags.split(), *sources, "-lm", "-o", "app"], cwd=tmp_path / "c", check=True, timeout=200)
    call = subprocess.run([tmp_path / "c" / "app"], capture_output=True, timeout=60, check=False)
    assert call.returncode == 0, call.stderr.decode()
    found = call.stdout.decode().split("\0")

    def expected(prompt: object, **settings: object) -> str:
        given = {"max_tokens": 9, "ignore_end": True, **settings}
        answer = session.generate(prompt, **given)  # type: ignore[arg-type]
        return f"{answer.read()}[{answer.reason}]"

    one = [{"role": "user", "content": "abc"}]
    three = [*one, {"role": "assistant", "content": "de"}, {"role": "user", "content": "f"}]
    drawn = {"temperature": 0.9, "top_p": 0.95, "seed": 5}
    assert "no answer to go on with" in found[0] or found[0].startswith("[8 ")
    assert "there is no workspace" in found[1]
    assert "this room" in found[2]
    assert found[3:9] == [
        expected("hello"),
        expected(one),
        expected(three),
        expected(one, stop=["n\n"]),
        expected("hello", **drawn),
        expected("a" * 37, max_tokens=None, **drawn),
    ]
    for text, message in zip(
        found[9:14],
        ("a role that there is not", "no JSON", "the text is empty", "more tokens than", "top_p"),
        strict=True,
    ):
        assert message in text
    assert found[14] == expected([1, 2, 3, 4])
    errors = ("no such token", "more tokens than", "the text is empty", "no answer to go on with")
    for text, message in zip(found[15:19], errors, strict=True):
        assert message in text
    assert found[19] == f"20 13 6 {expected('a' * 20)}"
    assert found[20] == "1"
    assert found[21] == expected(one)
    assert "more bytes than the workspace" in found[22]
    faults = (
        "no text to save",
        "fewer bytes",
        None,
        None,
        "cut off or altered",
        "cut off or altered",
        None,
        "more tokens",
    )
    for text, fault in zip(found[23:31], faults, strict=True):
        assert text == expected(one) if fault is None else fault in text
    slides = {"overflow": "window", "sinks": 3}
    assert found[31] == expected("hello", max_tokens=70, **slides)
    assert found[32] == expected("a" * 45 + "b" * 45, **slides)
    assert found[33] == expected(b"a\xc3b\xff".decode("utf-8", "replace"))
    for text, fault in zip(
        found[34:39], ("temperature", "temperature", "the text is NULL", "no messages", "sinks"), strict=True
    ):
        assert fault in text


def test_the_example_talks(tmp_path: Path, session: Session) -> None:
    deploykit.build(write_language_model(tmp_path / "model.gguf"), "embedded", {"pages": (1, 2)}, tmp_path / "c")
    subprocess.run(["make", "-s"], cwd=tmp_path / "c", check=True, timeout=200)
    example = tmp_path / "c" / "build" / "example"
    call = subprocess.run([example], input=b"abc\n", capture_output=True, timeout=60, check=True)
    answer = session.generate([{"role": "user", "content": "abc"}])
    assert call.stdout.decode() == answer.read() + "\n"
