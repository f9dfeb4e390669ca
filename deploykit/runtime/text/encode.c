/* From texts to tokens: the steps, the model, what is cut, and the special tokens around. */
#include "tables.h"

#include <string.h>

/* The numbers of things that a text of some bytes may need. */
typedef struct sizes {
    uint64_t places;
    uint64_t runes;
    uint64_t symbols;
} sizes;

typedef struct area {
    unsigned char* at;
    uint64_t left;
} area;

enum {
    RUNE_BYTES = 13,
    SPARE = 64 /* runes that a short text may need beside those in proportion to its bytes */
};

static dk_status fail(dk_text* text, dk_status status, const char* words) {
    memcpy(text->error, words, strlen(words) + 1);
    return status;
}

static sizes sizes_of(const dk_text* text, uint64_t bytes) {
    sizes found;
    found.places = bytes + 2;
    found.runes = (bytes * config(text, RUNES_PER_BYTE) >> 4) + SPARE;
    found.symbols = (bytes * config(text, SYMBOLS_PER_BYTE) >> 4) + SPARE;
    return found;
}

/* Bytes for all of these, each aligned. */
static uint64_t bytes_of(const dk_text* text, sizes s) {
    uint64_t symbol = config(text, MODEL) == BPE ? BPE_BYTES : config(text, MODEL) == UNIGRAM ? UNIGRAM_BYTES : 0;
    return 4 * s.places + 2 * RUNE_BYTES * s.runes + (sizeof(token) + symbol) * s.symbols + 256;
}

size_t dk_text_workspace(const dk_text* text, size_t bytes) {
    return (size_t)bytes_of(text, sizes_of(text, bytes));
}

static void* take(area* from, uint64_t bytes) {
    void* taken = from->at;
    bytes = (bytes + 7) & ~(uint64_t)7;
    from->at += bytes;
    from->left -= bytes;
    return taken;
}

static runes take_runes(area* from, uint32_t count) {
    runes made = {0};
    made.chars = (uint32_t*)take(from, 4 * (uint64_t)count);
    made.begin = (uint32_t*)take(from, 4 * (uint64_t)count);
    made.end = (uint32_t*)take(from, 4 * (uint64_t)count);
    made.marks = (uint8_t*)take(from, count);
    made.capacity = count;
    return made;
}

static void apply(const dk_text* text, const uint32_t* step, piece in, runes* to) {
    static void (*const STEP[])(const dk_text*, const uint32_t*, piece, runes*) = {
        dk_text_map,   dk_text_compose,     dk_text_split,    dk_text_replace, dk_text_prepend,
        dk_text_strip, dk_text_find_tokens, dk_text_charsmap, dk_text_bytes,
    };
    uint32_t first = to->count;
    if (step[0] <= STEP_BYTES) {
        STEP[step[0]](text, step + 1, in, to);
    }
    if (to->count > first && to->marks[first] == MARK_NONE) {
        to->marks[first] = MARK_START;
    }
}

/* Where the piece that begins at a rune ends. */
static uint32_t piece_end(const runes* from, uint32_t at) {
    uint32_t end = at + 1;
    while (from->marks[at] != MARK_TOKEN && end < from->count && from->marks[end] == MARK_NONE) {
        ++end;
    }
    return end;
}

/* Run all steps. Returns which of the two sequences has the result. */
static runes* prepare(const dk_text* text, runes* from, runes* to) {
    const uint32_t* step = (const uint32_t*)text->table[STEPS];
    for (uint32_t i = config(text, STEP_COUNT); i > 0 && !from->full; --i, step += STEP_WORDS) {
        runes* before = from;
        to->count = 0;
        for (uint32_t at = 0, end; at < from->count; at = end) {
            piece in = {from, at, end = piece_end(from, at)};
            if (from->marks[at] != MARK_TOKEN) {
                apply(text, step, in, to);
                continue;
            }
            put_rune(to, from, at);
            if (!to->full) {
                to->marks[to->count - 1] = MARK_TOKEN;
            }
        }
        from = to;
        to = before;
    }
    return from;
}

static void tokenize(const dk_text* text, const runes* from, scratch* memory, token_list* to) {
    for (uint32_t at = 0, end; at < from->count; at = end) {
        piece in = {from, at, end = piece_end(from, at)};
        if (from->marks[at] == MARK_TOKEN) {
            put_token(to, from->chars[at] | TOKEN_FOUND, from->begin[at], from->end[at]);
        } else if (config(text, MODEL) == WORDPIECE) {
            dk_text_wordpiece(text, in, to);
        } else if (config(text, MODEL) == BPE) {
            dk_text_bpe(text, in, memory, to);
        } else {
            dk_text_unigram(text, in, memory, to);
        }
    }
}

/* Take white characters at the ends of tokens out of their places. */
static void trim(const dk_text* text, token* tokens, uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) {
        token* t = tokens + i;
        bool found = (t->id & TOKEN_FOUND) != 0;
        uint32_t before = found ? (t->id & TOKEN_WHITE_BEFORE) != 0 : byte_at(text, SPACES, 2 * t->id);
        uint32_t after = found ? (t->id & TOKEN_WHITE_AFTER) != 0 : byte_at(text, SPACES, 2 * t->id + 1);
        if (before == 1 && (i == 0 || t->begin == 0) && (config(text, OPTIONS) & OPTION_TRIM_PREFIX)) {
            before = 0;
        }
        t->begin = t->begin + before < t->end ? t->begin + before : t->end;
        if (t->end >= after) {
            t->end = t->end - after > t->begin ? t->end - after : t->begin;
        }
    }
}

/* Change the numbers of tokens of two texts so that they are `most` in all. */
static bool cut(const dk_text_input* input, uint32_t most, uint32_t* first, uint32_t* second) {
    bool swap = *first > *second;
    uint32_t less = swap ? *second : *first;
    uint32_t more = swap ? *first : *second;
    if (input->cut == DK_TEXT_CUT_LONGEST && input->second == NULL) {
        *first = most;
    } else if (input->cut == DK_TEXT_CUT_LONGEST) {
        more = less > most ? less : most - less > less ? most - less : less;
        if (less + more > most) {
            less = most / 2;
            more = less + most % 2;
        }
        *first = swap ? more : less;
        *second = swap ? less : more;
    } else if (input->cut == DK_TEXT_CUT_FIRST && most > *second) {
        *first = most - *second;
    } else if (input->cut == DK_TEXT_CUT_SECOND && input->second != NULL && most > *first) {
        *second = most - *first;
    } else {
        return false;
    }
    return true;
}

typedef struct part {
    token* tokens;
    uint32_t count;
    const uint32_t* places; /* the byte where each character begins */
    uint32_t chars;
} part;

static void write_token(dk_text_tokens* to, token t, uint32_t type, int text, const part* from) {
    int32_t at = to->count++;
    bool placed = from != NULL && t.begin <= from->chars && t.end <= from->chars;
    if (at >= to->capacity) {
        return;
    }
    if (to->ids != NULL) {
        to->ids[at] = (int32_t)(t.id & TOKEN_ID);
    }
    if (to->types != NULL) {
        to->types[at] = (int32_t)type;
    }
    if (to->texts != NULL) {
        to->texts[at] = (int8_t)text;
    }
    if (to->special != NULL) {
        to->special[at] = text < 0;
    }
    if (to->chars != NULL) {
        to->chars[2 * at] = (int32_t)t.begin;
        to->chars[2 * at + 1] = (int32_t)t.end;
    }
    if (to->bytes != NULL) {
        to->bytes[2 * at] = placed ? (int32_t)from->places[t.begin] : 0;
        to->bytes[2 * at + 1] = placed ? (int32_t)from->places[t.end] : 0;
    }
}

static void assemble(const dk_text* text, const dk_text_input* input, const part* parts, dk_text_tokens* to) {
    bool pair = input->second != NULL;
    uint32_t entry = pair ? config(text, TEMPLATE_SINGLE) : 0;
    uint32_t end = entry + config(text, pair ? TEMPLATE_PAIR : TEMPLATE_SINGLE);
    to->count = 0;
    for (; entry < end && 3 * entry + 2 < text->count[TEMPLATE]; ++entry) {
        uint32_t kind = word_at(text, TEMPLATE, 3 * entry);
        uint32_t type = word_at(text, TEMPLATE, 3 * entry + 1);
        if (kind == PART_TOKEN && !input->bare) {
            token added = {word_at(text, TEMPLATE, 3 * entry + 2), 0, 0};
            write_token(to, added, type, -1, NULL);
        } else if (kind == PART_FIRST || (kind == PART_SECOND && pair)) {
            for (uint32_t i = 0; i < parts[kind].count; ++i) {
                write_token(to, parts[kind].tokens[i], type, (int)kind, parts + kind);
            }
        }
    }
}

static uint32_t special_tokens(const dk_text* text, const dk_text_input* input) {
    bool pair = input->second != NULL;
    uint32_t entry = pair ? config(text, TEMPLATE_SINGLE) : 0;
    uint32_t end = entry + config(text, pair ? TEMPLATE_PAIR : TEMPLATE_SINGLE);
    uint32_t count = 0;
    for (; entry < end && 3 * entry + 2 < text->count[TEMPLATE]; ++entry) {
        count += !input->bare && word_at(text, TEMPLATE, 3 * entry) == PART_TOKEN;
    }
    return count;
}

static dk_status shorten(dk_text* text, const dk_text_input* input, part* parts) {
    uint32_t special = special_tokens(text, input);
    uint32_t counts[2] = {parts[0].count, parts[1].count};
    if (input->most > 0 && special > (uint32_t)input->most) {
        return fail(text, DK_ERROR_USAGE, "the special tokens alone are more than the most tokens that are asked for");
    }
    if (input->most > 0 && counts[0] + counts[1] > (uint32_t)input->most - special &&
        !cut(input, (uint32_t)input->most - special, counts, counts + 1)) {
        return fail(
            text, DK_ERROR_USAGE, "the text that is to be cut is too short: cut the longest, or allow more tokens"
        );
    }
    for (int i = 0; i < 2; ++i) {
        if (counts[i] < parts[i].count) {
            parts[i].tokens += input->cut_left ? parts[i].count - counts[i] : 0;
            parts[i].count = counts[i];
        }
        if (config(text, OPTIONS) & OPTION_TRIM) {
            trim(text, parts[i].tokens, parts[i].count);
        }
    }
    return DK_OK;
}

dk_status
dk_text_encode(dk_text* text, const dk_text_input* input, void* workspace, size_t bytes, dk_text_tokens* tokens) {
    const char* texts[2] = {input->first, input->second};
    uint64_t lengths[2] = {input->first_bytes, input->second == NULL ? 0 : input->second_bytes};
    sizes room = sizes_of(text, lengths[0] + lengths[1]);
    uint64_t full = bytes_of(text, room);
    area free_area = {(unsigned char*)workspace, bytes};
    part parts[2] = {{0}, {0}};
    token_list found = {0};
    runes one, other;
    tokens->count = 0;
    text->error[0] = 0;
    if (lengths[0] >= 1 << 30 || lengths[1] >= 1 << 30) {
        return fail(text, DK_ERROR_USAGE, "the text has 1 GiB or more: encode parts of it");
    }
    text->need = (size_t)full;
    if (bytes < full) {
        uint64_t spent = 4 * room.places + 256;
        if (bytes < spent) {
            return fail(text, DK_ERROR_ARENA, "the workspace is too small for this text");
        }
        room.runes = (uint64_t)((double)room.runes * (double)(bytes - spent) / (double)(full - spent));
        room.symbols = (uint64_t)((double)room.symbols * (double)(bytes - spent) / (double)(full - spent));
    }
    if (workspace == NULL || (uintptr_t)workspace % DK_TEXT_ALIGNMENT != 0 || room.symbols >= TOKEN_ID) {
        return fail(text, DK_ERROR_ARENA, "the workspace is misaligned or too small");
    }
    one = take_runes(&free_area, (uint32_t)room.runes);
    other = take_runes(&free_area, (uint32_t)room.runes);
    found.at = (token*)take(&free_area, sizeof(token) * room.symbols);
    found.capacity = (uint32_t)room.symbols;
    for (int i = 0; i < 2 && texts[i] != NULL; ++i) {
        scratch memory = {0};
        const runes* ready;
        uint32_t* places = (uint32_t*)take(&free_area, 4 * (lengths[i] + 1));
        one.count = other.count = 0;
        dk_text_read((const unsigned char*)texts[i], (size_t)lengths[i], &one, places);
        parts[i].places = places;
        parts[i].chars = one.count;
        if (one.count > 0) {
            one.marks[0] = MARK_START;
        }
        ready = prepare(text, &one, &other);
        parts[i].tokens = found.at + found.count;
        memory.at = free_area.at;
        memory.bytes = (size_t)free_area.left;
        tokenize(text, ready, &memory, &found);
        parts[i].count = found.count - (uint32_t)(parts[i].tokens - found.at);
        if (one.full || other.full || found.full || memory.need > memory.bytes) {
            return fail(text, DK_ERROR_ARENA, "the workspace is too small for this text");
        }
    }
    if (shorten(text, input, parts) != DK_OK) {
        return DK_ERROR_USAGE;
    }
    assemble(text, input, parts, tokens);
    if (tokens->count > tokens->capacity) {
        return fail(text, DK_ERROR_CAPACITY, "there are more tokens than the arrays have room for");
    }
    return DK_OK;
}
