/* Encodes and decodes texts with exactly the memory that is needed, in blocks of their own.

   Input: the numbers of blobs and of texts, then their lengths and bytes. Output: a line for each blob and text. */
#include "text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct block {
    unsigned char* bytes;
    uint32_t count;
} block;

static void must(int holds, const char* what) {
    if (!holds) {
        fprintf(stderr, "%s\n", what);
        exit(1);
    }
}

static uint32_t read_number(void) {
    uint32_t number;
    must(fread(&number, sizeof number, 1, stdin) == 1, "the input is too short");
    return number;
}

static block read_block(void) {
    block read;
    read.count = read_number();
    read.bytes = malloc(read.count + (read.count == 0));
    must(fread(read.bytes, 1, read.count, stdin) == read.count, "the input is too short");
    return read;
}

static dk_text_tokens tokens_of(int32_t capacity) {
    dk_text_tokens made = {0};
    size_t count = (size_t)capacity;
    made.capacity = capacity;
    made.ids = malloc(4 * count + 1);
    made.types = malloc(4 * count + 1);
    made.bytes = malloc(8 * count + 1);
    made.chars = malloc(8 * count + 1);
    made.texts = malloc(count + 1);
    made.special = malloc(count + 1);
    return made;
}

static void release(dk_text_tokens* tokens) {
    free(tokens->ids);
    free(tokens->types);
    free(tokens->bytes);
    free(tokens->chars);
    free(tokens->texts);
    free(tokens->special);
}

/* Decode at once and one by one. */
static void decode(dk_text* text, const dk_text_tokens* tokens) {
    dk_text_stream stream = {0};
    dk_text_ids ids = {tokens->ids, tokens->count, false};
    size_t needed = 0;
    size_t written = 0;
    char* out;
    dk_text_decode(text, &stream, &ids, true, NULL, 0, &needed);
    if (needed > 1 << 24) {
        return;
    }
    out = malloc(needed + 1);
    must(dk_text_decode(text, &stream, &ids, true, out, needed, &written) == DK_OK, "decoding needs more than it said");
    for (int32_t i = 0; i < tokens->count; ++i) {
        char some[64];
        ids.ids = tokens->ids + i;
        ids.count = 1;
        dk_text_decode(text, &stream, &ids, false, some, sizeof some, &written);
    }
    free(out);
}

static dk_status encode(dk_text* text, const dk_text_input* input, size_t bytes, dk_text_tokens* tokens) {
    void* workspace = malloc(bytes);
    dk_status status = dk_text_encode(text, input, workspace, bytes, tokens);
    free(workspace);
    return status;
}

static void try_text(dk_text* text, block given) {
    dk_text_input input = {(const char*)given.bytes, given.count, (const char*)given.bytes, given.count, 0, 0, 0, 0};
    size_t bytes = dk_text_workspace(text, 2 * (size_t)given.count);
    dk_text_tokens none = {0};
    dk_text_tokens all;
    dk_status status;
    if (bytes > 1 << 28) {
        printf("large\n");
        return;
    }
    status = encode(text, &input, bytes, &none);
    if (status != DK_ERROR_CAPACITY && status != DK_OK) {
        printf("%d %s\n", status, text->error);
        return;
    }
    all = tokens_of(none.count);
    status = encode(text, &input, bytes, &all);
    must(status == DK_OK && all.count == none.count, "the same text has other tokens");
    decode(text, &all);
    for (size_t part = 1; part < 8; ++part) {
        status = encode(text, &input, bytes * part / 8, &all);
        must(status == DK_OK || status == DK_ERROR_ARENA, "a small workspace is another error");
    }
    release(&all);
    printf("ok %d\n", none.count);
}

int main(void) {
    uint32_t blobs = read_number();
    uint32_t texts = read_number();
    block* all = malloc((blobs + texts) * sizeof *all);
    for (uint32_t i = 0; i < blobs + texts; ++i) {
        all[i] = read_block();
    }
    for (uint32_t i = 0; i < blobs; ++i) {
        dk_text text;
        dk_status status = dk_text_open(&text, all[i].bytes, all[i].count);
        for (uint32_t j = 0; j < texts; ++j) {
            if (status != DK_OK) {
                printf("weights %d %s\n", status, text.error);
            } else {
                try_text(&text, all[blobs + j]);
            }
        }
    }
    for (uint32_t i = 0; i < blobs + texts; ++i) {
        free(all[i].bytes);
    }
    free(all);
    return 0;
}
