"""Programs of templates under sanitizers: whatever the program and the conversation are, memory stays whole."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from deploykit import runtime
from deploykit.language.programs.statements import program_of
from deploykit.language.template import ChatTemplate
from tests.language.test_templates import GIVEN, TEMPLATES

DRIVER = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "template.h"

static uint64_t random = 88172645463325252u;

static uint32_t draw(uint32_t below) {
    random ^= random << 13;
    random ^= random >> 7;
    random ^= random << 17;
    return (uint32_t)((random >> 16) % below);
}

static unsigned char* read_file(const char* path, size_t* bytes) {
    FILE* file = fopen(path, "rb");
    unsigned char* made = malloc(1 << 20);
    *bytes = fread(made, 1, 1 << 20, file);
    fclose(file);
    return made;
}

/* A copy without a byte to spare, with some bytes or words changed, or cut off. */
static unsigned char* changed(const unsigned char* from, size_t* bytes, uint32_t changes, int words) {
    static const unsigned char likely[] = {0, 1, 2, 0xff, 0x7f, 0x80, '"', '[', '{', '}', ',', '\\', 'u', 0xc3, 0xf0};
    unsigned char* made;
    if (draw(20) == 0) {
        *bytes = draw((uint32_t)*bytes + 1);
    }
    made = malloc(*bytes + 1);
    memcpy(made, from, *bytes);
    made = realloc(made, *bytes == 0 ? 1 : *bytes);
    for (uint32_t i = 0; i < changes && *bytes > 4; ++i) {
        const size_t at = draw((uint32_t)*bytes);
        if (words && draw(2) == 0) {
            made[at / 4 * 4] = (unsigned char)draw(60); /* another step */
        } else if (words && draw(2) == 0) {
            memcpy(made + draw((uint32_t)*bytes / 4) * 4, made + draw((uint32_t)*bytes / 4) * 4, 4);
        } else {
            made[at] = draw(2) ? likely[draw(sizeof likely)] : (unsigned char)draw(256);
        }
    }
    return made;
}

int main(int count, char** paths) {
    int found[16] = {0};
    size_t program_bytes, json_bytes;
    const int rounds = atoi(paths[1]);
    for (int p = 3; p < count; ++p) {
        unsigned char* program = read_file(paths[p], &program_bytes);
        unsigned char* json = read_file(paths[2], &json_bytes);
        for (int i = 0; i < rounds; ++i) {
            dk_rendering own = {0};
            dk_message talk[2] = {{DK_USER, "a \xf0\x9f", 4}, {(dk_role)(draw(5) - 1), "\xc3(", 2}};
            size_t a = program_bytes, b = json_bytes;
            unsigned char* steps = changed(program, &a, draw(3) == 0 ? 0 : draw(6), 1);
            unsigned char* text = changed(json, &b, draw(3) == 0 ? 0 : draw(6), 0);
            own.program = steps;
            own.program_bytes = a;
            own.json = draw(8) == 0 ? NULL : (char*)text;
            own.json_bytes = b;
            own.messages = talk;
            own.count = 2;
            own.now = draw(2) == 0 ? 0 : (int64_t)random;
            own.workspace_bytes = draw(4) == 0 ? draw(3000) : 65536 + draw(64);
            char* memory = malloc(own.workspace_bytes + 1);
            own.workspace = memory + draw(2) * (own.workspace_bytes > 0);
            own.workspace_bytes -= own.workspace != memory;
            own.capacity = draw(4) == 0 ? draw(200) : 20000;
            own.text = malloc(own.capacity + 1);
            const dk_status status = dk_render(&own);
            if (status != DK_OK) {
                if (strlen(own.error) == 0) return 1;
            } else if (own.bytes > own.capacity) {
                return 1;
            }
            ++found[status];
            free(memory);
            free(own.text);
            free(steps);
            free(text);
        }
        free(program);
        free(json);
    }
    printf("%d %d %d %d %d", found[DK_OK], found[DK_ERROR_BUFFER], found[DK_ERROR_ARENA], found[DK_ERROR_DATA],
           found[DK_ERROR_USAGE]);
    return 0;
}
"""


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("driver")
    (folder / "driver.c").write_text(DRIVER)
    flags = "-std=c11 -Wall -Wextra -Werror -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all"
    sources = [path for path in runtime.TEMPLATE if path.suffix == ".c"]
    includes = [f"-I{runtime.INCLUDE}", f"-I{runtime.LANGUAGE_INCLUDE}"]
    command: list[str | Path] = [
        "clang",
        *flags.split(),
        *includes,
        folder / "driver.c",
        *sources,
        "-o",
        folder / "driver",
    ]
    subprocess.run(command, check=True, timeout=200)
    return folder / "driver"


def test_programs_and_conversations_that_were_altered(driver: Path, tmp_path: Path) -> None:
    (tmp_path / "given.json").write_text(json.dumps(GIVEN[-1], ensure_ascii=False), encoding="utf-8")
    paths = []
    for name, text in TEMPLATES.items():
        paths.append(tmp_path / f"{name}.bin")
        paths[-1].write_bytes(program_of(ChatTemplate(text, {}).parsed(), {}).steps)
    command: list[str | Path] = [driver, "600", tmp_path / "given.json", *paths]
    call = subprocess.run(command, capture_output=True, timeout=300, check=False)
    assert call.returncode == 0, call.stderr.decode()[-3000:]
    assert all(int(number) > 20 for number in call.stdout.split()), call.stdout
