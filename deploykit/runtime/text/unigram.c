/* Unigram: of all ways to cover a piece with tokens, the one whose scores have the greatest sum (Viterbi). */
#include "tables.h"

typedef struct lattice {
    double* score;    /* of the best way up to each character */
    uint32_t* before; /* where its last token begins */
    uint32_t* ids;    /* its last token */
} lattice;

static void offer(lattice* l, uint32_t from, uint32_t to, uint32_t id, double score) {
    if (l->before[to] == NONE || l->score[from] + score > l->score[to]) {
        l->score[to] = l->score[from] + score;
        l->before[to] = from;
        l->ids[to] = id;
    }
}

static void fill(const dk_text* text, piece in, lattice* l) {
    const double* scores = (const double*)text->table[SCORES];
    uint32_t count = in.end - in.begin;
    uint32_t tokens = text->count[SCORES] == 0 ? 0 : text->count[SCORES] - 1;
    for (uint32_t i = 0; i <= count; ++i) {
        l->score[i] = 0;
        l->before[i] = NONE;
    }
    for (uint32_t i = 0; i < count; ++i) {
        uint32_t node = text->count[TRIE] / 2;
        bool single = false;
        for (uint32_t j = i; j < count; ++j) {
            uint32_t id;
            node = dk_text_edges(text, node, in.from->chars[in.begin + j]);
            if (node == NONE) {
                break;
            }
            id = value_of(text, node);
            if (id < tokens) {
                offer(l, i, j + 1, id, scores[id]);
                single = single || j == i;
            }
        }
        if (!single) {
            /* The last score is that of an unknown character. */
            offer(l, i, i + 1, config(text, UNKNOWN), text->count[SCORES] == 0 ? 0 : scores[tokens]);
        }
    }
}

/* Turn the way around: afterwards `before` says where the token that begins at a character ends. */
static void turn(lattice* l, uint32_t count) {
    uint32_t end = count;
    uint32_t behind = NONE;
    uint32_t id = NONE;
    while (end > 0) {
        uint32_t begin = l->before[end];
        uint32_t other = l->ids[end];
        l->before[end] = behind;
        l->ids[end] = id;
        behind = end;
        id = other;
        end = begin;
    }
    l->before[0] = behind;
    l->ids[0] = id;
}

/* Characters in a row that are unknown: the token that has just these, tokens of bytes, or one unknown token. */
static void put_unknown(const dk_text* text, piece in, token_list* to) {
    const runes* from = in.from;
    uint32_t node = text->count[TRIE] / 2;
    uint32_t begin = from->begin[in.begin];
    uint32_t end = from->end[in.end - 1];
    uint32_t first = to->count;
    bool fallback = (config(text, OPTIONS) & OPTION_FALLBACK) != 0;
    for (uint32_t i = in.begin; i < in.end && node != NONE; ++i) {
        node = dk_text_edges(text, node, from->chars[i]);
    }
    if (node != NONE && value_of(text, node) != NONE) {
        put_token(to, value_of(text, node), begin, end);
        return;
    }
    for (uint32_t i = in.begin; i < in.end && fallback; ++i) {
        unsigned char bytes[4];
        uint32_t count = dk_text_utf8(from->chars[i], bytes);
        for (uint32_t j = 0; j < count && fallback; ++j) {
            fallback = word_at(text, BYTES, bytes[j]) != NONE;
            put_token(to, word_at(text, BYTES, bytes[j]), begin, end);
        }
    }
    if (!fallback) {
        to->count = first;
        put_token(to, config(text, UNKNOWN), begin, end);
    }
}

void dk_text_unigram(const dk_text* text, piece in, scratch* memory, token_list* to) {
    uint32_t count = in.end - in.begin;
    uint32_t room = count + 1;
    lattice l;
    if (((size_t)count + 1) * UNIGRAM_BYTES > memory->bytes) {
        memory->need = ((size_t)count + 1) * UNIGRAM_BYTES;
        return;
    }
    l.score = (double*)memory->at;
    l.before = (uint32_t*)(l.score + room);
    l.ids = l.before + room;
    fill(text, in, &l);
    turn(&l, count);
    for (uint32_t at = 0, end; at < count; at = end) {
        uint32_t id = l.ids[at];
        end = l.before[at];
        if (id != config(text, UNKNOWN)) {
            put_token(to, id, in.from->begin[in.begin + at], in.from->end[in.begin + end - 1]);
            continue;
        }
        while (end < count && l.ids[end] == id) {
            end = l.before[end];
        }
        put_unknown(text, (piece){in.from, in.begin + at, in.begin + end}, to);
    }
}
