/* Opening the tables, and looking things up in them. */
#include "tables.h"

#include <string.h>

typedef struct header {
    uint32_t magic;
    uint32_t version;
    uint32_t bytes;
    uint32_t tables;
    struct {
        uint32_t offset;
        uint32_t count;
    } table[DK_TEXT_TABLES];
} header;

/* The bytes of an element of each table. */
static const uint8_t ELEMENTS[DK_TEXT_TABLES] = {4, 4, 2, 1, 4, 4, 4, 4, 1, 4, 1, 2,
                                                 4, 4, 4, 4, 8, 1, 4, 4, 1, 1, 4, 1};

static dk_status damaged(dk_text* text, const char* words) {
    memcpy(text->error, words, strlen(words) + 1);
    return DK_ERROR_WEIGHTS;
}

dk_status dk_text_open(dk_text* text, const void* tables, size_t bytes) {
    const header* head = (const header*)tables;
    memset(text, 0, sizeof *text);
    if (tables == NULL || (uintptr_t)tables % DK_TEXT_ALIGNMENT != 0) {
        return damaged(text, "the tables of the tokenizer are missing or misaligned: they begin at a multiple of 8");
    }
    if (bytes < sizeof *head || head->magic != MAGIC) {
        return damaged(text, "this is no tokenizer: pass the contents of tokenizer.bin");
    }
    if (head->version != VERSION || head->tables != DK_TEXT_TABLES) {
        return damaged(text, "the tokenizer was packed by another version: build the model again");
    }
    if (head->bytes != bytes) {
        return damaged(text, "the tables of the tokenizer are damaged: they have another size than they say");
    }
    for (int i = 0; i < DK_TEXT_TABLES; ++i) {
        size_t offset = head->table[i].offset;
        if (offset % DK_TEXT_ALIGNMENT != 0 || offset > bytes ||
            head->table[i].count > (bytes - offset) / ELEMENTS[i]) {
            return damaged(text, "the tables of the tokenizer are damaged: one ends behind the last byte");
        }
        text->table[i] = (const unsigned char*)tables + offset;
        text->count[i] = head->table[i].count;
    }
    if (text->count[CONFIG] < CONFIG_WORDS || text->count[PAGES] < 0x2000 || config(text, MODEL) > UNIGRAM ||
        config(text, STEP_COUNT) > text->count[STEPS] / STEP_WORDS || config(text, CLASS_COUNT) > 256 ||
        text->count[BYTES] < 256 || text->count[TRIE] < 2 || config(text, EDGE_PROBES) > 4096 ||
        config(text, MERGE_PROBES) > 4096 || config(text, RUNES_PER_BYTE) > 1 << 20 ||
        config(text, SYMBOLS_PER_BYTE) > 1 << 20) {
        return damaged(text, "the tables of the tokenizer are damaged: they are too short");
    }
    return DK_OK;
}

int32_t dk_text_limit(const dk_text* text) {
    return (int32_t)config(text, LIMIT);
}

uint32_t dk_text_edge(const dk_text* text, uint32_t node, uint32_t byte) {
    const uint32_t* slots = (const uint32_t*)text->table[TRIE];
    uint32_t count = text->count[TRIE] / 2;
    uint32_t key = node << 8 | byte;
    uint32_t slot = (uint32_t)((uint64_t)(key * 0x9E3779B1u) * count >> 32);
    for (uint32_t i = config(text, EDGE_PROBES); i > 0; --i) {
        if (slots[2 * slot] == key) {
            return slot;
        }
        if (slots[2 * slot] == NONE) {
            return NONE;
        }
        slot = slot + 1 == count ? 0 : slot + 1;
    }
    return NONE;
}

uint32_t dk_text_edges(const dk_text* text, uint32_t node, uint32_t c) {
    unsigned char bytes[4];
    uint32_t count;
    if (c < 0x80) {
        return dk_text_edge(text, node, c);
    }
    count = dk_text_utf8(c, bytes);
    for (uint32_t i = 0; i < count && node != NONE; ++i) {
        node = dk_text_edge(text, node, bytes[i]);
    }
    return node;
}

uint32_t dk_text_match(const dk_text* text, const uint32_t* automaton, piece in, uint32_t at) {
    const uint16_t* states = (const uint16_t*)text->table[STATES];
    uint32_t columns = automaton[0];
    uint32_t first = automaton[1];
    uint32_t width = automaton[2];
    uint32_t end_column = config(text, CLASS_COUNT);
    uint32_t state = 1;
    uint32_t found = NONE;
    for (;; ++at) {
        uint32_t column =
            byte_at(text, COLUMNS, columns + (at < in.end ? class_of(text, in.from->chars[at]) : end_column));
        uint32_t place = first + state * width + column;
        uint32_t next = place < text->count[STATES] ? states[place] : 0;
        if (next & 0x8000) {
            found = at;
        }
        state = next & 0x7fff;
        if (state == 0 || at >= in.end) {
            return found;
        }
    }
}
