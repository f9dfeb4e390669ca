"""A C program that gives texts to a model of texts, through the functions of `model_texts.h`.

Its arguments are the files of weights and tables, and the room of the workspace: bytes of a text, texts, tokens. Texts
come from standard input, each as a number of bytes and the bytes. It prints a line for each result, or an error. With
CONSTANT, weights and tables are constants, and the workspace is one of the size that is known at compile time.
"""

from __future__ import annotations

import os
import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path

from deploykit.artifact.manifest import Manifest, read_manifest
from deploykit.basics.toolchain import compiled, find_c_compiler
from deploykit.targets import texts
from deploykit.targets.host import COPIED, INCLUDED

COMMON = r"""
#include "model_texts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void* aligned(size_t bytes) {
    void* found = NULL;
    return posix_memalign(&found, 64, bytes + !bytes) == 0 ? found : NULL;
}

#ifdef CONSTANT
#include "tokenizer.h"
#include "weights.h"
#else
static void* read_file(const char* path, size_t* bytes) {
    FILE* file = fopen(path, "rb");
    void* found;
    fseek(file, 0, SEEK_END);
    *bytes = (size_t)ftell(file);
    rewind(file);
    found = aligned(*bytes);
    *bytes = fread(found, 1, *bytes, file);
    fclose(file);
    return found;
}
#endif

static NAME_session session;
static char* texts[4096];
static size_t lengths[4096];
static size_t count;

static int failed(dk_status status) {
    printf("error %d %ld %s\n", (int)status, (long)session.model.base.need.extent, NAME_session_error(&session));
    return 0;
}

static dk_status answer(void);

int main(int words, char** word) {
    size_t weights_bytes, tables_bytes, bytes;
    dk_texts_room room = {(size_t)atol(word[3]), atoi(word[4]), atoi(word[5])};
#ifdef CONSTANT
    const void* weights = &NAME_weights;
    const void* tables = &NAME_tokenizer;
    weights_bytes = sizeof NAME_weights;
    tables_bytes = sizeof NAME_tokenizer;
#else
    void* weights = read_file(word[1], &weights_bytes);
    void* tables = read_file(word[2], &tables_bytes);
#endif
    dk_status status = answer();
    void* workspace;
    uint32_t length;
    if (status != DK_ERROR_USAGE) {
        puts("a session that is not open answers");
    }
    status = NAME_open(&session, weights, weights_bytes, tables, tables_bytes);
    if (status != DK_OK) {
        return failed(status);
    }
    bytes = NAME_workspace_bytes(&session, &room);
#ifdef CONSTANT
    if (room.texts == MACRO_TEXTS && room.tokens == MACRO_TOKENS && bytes != MACRO_WORKSPACE_BYTES(room.text_bytes)) {
        puts("the size at compile time is another one");
    }
#endif
    if (words > 6) {
        bytes -= (size_t)atol(word[6]); /* too small */
    }
    if (bytes >= SIZE_MAX / 2) {
        bytes = 64; /* the room is refused */
    }
    workspace = aligned(bytes); /* exactly so many, so that sanitizers see what is outside */
    status = NAME_set_workspace(&session, &room, workspace, bytes);
    if (status != DK_OK) {
        return failed(status);
    }
    while (fread(&length, sizeof length, 1, stdin) == 1) {
        texts[count] = malloc(length + !length);
        lengths[count] = fread(texts[count], 1, length, stdin);
        ++count;
    }
    status = answer();
    for (size_t i = 0; i < count; ++i) {
        free(texts[i]);
    }
    free(workspace);
    return status == DK_OK ? 0 : failed(status);
}
"""

ROWS = r"""
static dk_status answer(void) {
    float* rows = malloc(WIDTH * sizeof *rows * (count + !count));
    dk_status status = NAME_KIND(&session, (const char* const*)texts, lengths, count, rows);
    for (size_t i = 0; status == DK_OK && i < count; ++i) {
        for (size_t j = 0; j < WIDTH; ++j) {
            printf("%.9g ", (double)rows[WIDTH * i + j]);
        }
        printf("\n");
    }
    free(rows);
    return status;
}
"""

TOKENS = r"""
static dk_status answer(void) {
    size_t counts[4096], at = 0, room = ROOM;
    dk_span* spans = malloc(sizeof *spans * (room + !room));
    dk_status status = NAME_tokens(&session, (const char* const*)texts, lengths, count, spans, room, counts);
    for (size_t i = 0; status == DK_OK && i < count; ++i) {
        for (size_t end = at + counts[i]; at < end; ++at) {
            const dk_span* span = &spans[at];
            printf("%s %.9g %zu %zu ", NAME_labels[span->label], (double)span->score, span->begin, span->end);
        }
        printf("\n");
    }
    free(spans);
    return status;
}
"""

FILL = r"""
static dk_status answer(void) {
    size_t counts[4096], at = 0, room = ROOM;
    dk_word* words = room == 0 ? NULL : malloc(sizeof *words * room);
    dk_status status;
    if (count > 0 &&
        NAME_fill(&session, (const char* const*)texts, lengths, count, BEST, NULL, 1, counts) != DK_ERROR_USAGE) {
        puts("words at NULL are taken");
    }
    if (NAME_word(&session, 0, NULL, 0, NULL) != DK_ERROR_USAGE) {
        puts("a length at NULL is taken");
    }
    status = NAME_fill(&session, (const char* const*)texts, lengths, count, BEST, words, room, counts);
    for (size_t i = 0; status == DK_OK && i < count; ++i) {
        printf("%zu", counts[i]);
        for (size_t end = at + BEST * counts[i]; at < end && status == DK_OK; ++at) {
            size_t bytes = 0;
            char* word;
            status = NAME_word(&session, words[at].token, NULL, 0, &bytes);
            if (status != (bytes > 0 ? DK_ERROR_CAPACITY : DK_OK)) {
                puts("the length of a word is wrong");
            }
            word = malloc(bytes + !bytes); /* exactly so many */
            status = NAME_word(&session, words[at].token, word, bytes, &bytes);
            printf("\t%d\t%.9g\t%.*s", (int)words[at].token, (double)words[at].score, (int)bytes, word);
            free(word);
        }
        printf("\n");
    }
    free(words);
    return status;
}
"""

ANSWER = r"""
static dk_status answer(void) {
    dk_span span;
    dk_status status = NAME_answer(&session, texts[0], lengths[0], texts[1], lengths[1], &span);
    if (status == DK_OK) {
        printf("%.9g %zu %zu\n", (double)span.score, span.begin, span.end);
    }
    return status;
}
"""

STRICT = ("-O1", "-D_POSIX_C_SOURCE=200809L", "-Wall", "-Wextra", "-Wpedantic", "-Wcast-qual", "-Werror")


def source_of(manifest: Manifest, *, room: int = 4096, best: int = 5) -> str:
    """The program for a model. `room`: how many spans or words there is memory for; `best`: words for each mask."""
    assert manifest.task is not None
    prefix, kind = manifest.prefix, manifest.task.kind
    text = COMMON + {"tokens": TOKENS, "answer": ANSWER, "fill": FILL}.get(kind, ROWS)
    text = text.replace("NAME_KIND", f"{prefix}_{kind}").replace("NAME", prefix).replace("ROOM", str(room))
    text = text.replace("BEST", str(best))
    text = text.replace("MACRO", prefix.upper())
    return text.replace("WIDTH", f"{prefix.upper()}_{'WIDTH' if kind == 'embed' else 'CLASSES'}")


class Program:
    """The program for an artifact of the target host, linked with the parts of its library."""

    launcher: tuple[str, ...] = ()

    def __init__(self, dist: Path, place: Path, *options: str, room: int = 4096, best: int = 5) -> None:
        self.dist, self.program = dist, place / "app"
        place.mkdir(exist_ok=True)
        (place / "app.c").write_text(source_of(read_manifest(dist), room=room, best=best))
        self.build(place, *options)

    def build(self, place: Path, *options: str) -> None:
        compiler = find_c_compiler()
        objects = [self.dist / "kernels.o"]
        for source in (place / "app.c", *self.dist.glob("model*.c")):
            objects.append(place / f"{source.stem}.o")
            compiler.compile(source, objects[-1], *STRICT, *options, f"-I{self.dist}")
        for source in (path for path in (*COPIED, *texts.COPIED) if path.suffix == ".c"):
            objects.append(place / f"shared-{source.stem}.o")
            objects[-1].write_bytes(compiled(compiler, source, *STRICT, *options, *INCLUDED))
        compiler.link_program(objects, self.program, *options)

    def __call__(self, given: Sequence[str], *, room: Sequence[int] = (4096, 8, 400), less: int = 0) -> list[str]:
        """The lines that it prints. `less`: bytes that the workspace has too few."""
        files = [str(self.dist / name) for name in ("weights.bin", "tokenizer.bin")]
        call = [*self.launcher, str(self.program), *files, *map(str, room), *([str(less)] if less else [])]
        blocks = [text.encode("utf-8", "surrogatepass") for text in given]
        request = b"".join(struct.pack("<I", len(block)) + block for block in blocks)
        environment = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0"}
        done = subprocess.run(call, input=request, capture_output=True, check=False, env=environment)
        assert done.returncode == 0, done.stderr.decode()[-3000:]
        return done.stdout.decode().splitlines()


def words_of(lines: Sequence[str]) -> list[list[list[tuple[str, float]]]]:
    """What the lines say of the masks of texts: for each the words and their scores."""
    found = []
    for line in lines:
        masks, *fields = line.split("\t")
        words = list(zip(fields[2::3], map(float, fields[1::3]), strict=True))
        best = len(words) // int(masks)
        found.append([words[at : at + best] for at in range(0, len(words), best)])
    return found


def spans_of(line: str) -> tuple[list[tuple[str, int, int]], list[float]]:
    """What a line says of the tokens of a text: their classes and places, and their scores."""
    words = line.split()
    found = zip(words[::4], map(int, words[2::4]), map(int, words[3::4]), strict=True)
    return list(found), [float(score) for score in words[1::4]]
