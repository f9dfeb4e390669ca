/* Byte-pair encoding: of all pairs of neighbours that can be merged, the one of least rank first, the leftmost of
   those.

   The ranks of pairs are the leaves of a binary tree, and each node above has the least rank below it. So a piece of n
   symbols takes n log n steps, however long it is. */
#include "tables.h"

typedef struct word {
    uint32_t* ids;
    uint32_t* bytes; /* the length of each symbol in the text */
    uint32_t* next;
    uint32_t* previous;
    uint32_t* tree;
    uint32_t leaves; /* a power of two */
    uint32_t count;
} word;

static uint32_t length_of(uint32_t c) {
    return c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
}

/* The entry of MERGES for a pair, or NULL. */
static const uint32_t* merge_of(const dk_text* text, uint32_t left, uint32_t right) {
    const uint32_t* slots = (const uint32_t*)text->table[MERGES];
    uint32_t count = text->count[MERGES] / 4;
    uint32_t hash = (left * 0x9E3779B1u + right) * 0x85EBCA6Bu;
    uint32_t slot = (uint32_t)((uint64_t)hash * count >> 32);
    for (uint32_t i = count == 0 ? 0 : config(text, MERGE_PROBES); i > 0; --i) {
        const uint32_t* entry = slots + 4 * (size_t)slot;
        if (entry[0] == left && entry[1] == right) {
            return entry;
        }
        if (entry[0] == NONE) {
            return NULL;
        }
        slot = slot + 1 == count ? 0 : slot + 1;
    }
    return NULL;
}

static uint32_t rank_of(const dk_text* text, const word* w, uint32_t at) {
    const uint32_t* entry = w->next[at] == NONE ? NULL : merge_of(text, w->ids[at], w->ids[w->next[at]]);
    return entry == NULL ? NONE : entry[2];
}

static uint32_t lesser(uint32_t a, uint32_t b) {
    return a < b ? a : b;
}

static void set_rank(word* w, uint32_t at, uint32_t rank) {
    uint32_t node = w->leaves + at;
    w->tree[node] = rank;
    while (node > 1) {
        uint32_t least = lesser(w->tree[node], w->tree[node ^ 1]);
        node >>= 1;
        if (w->tree[node] == least) {
            break;
        }
        w->tree[node] = least;
    }
}

/* The leftmost symbol of least rank. */
static uint32_t best(const word* w) {
    uint32_t node = 1;
    while (node < w->leaves) {
        node = 2 * node + (w->tree[2 * node] > w->tree[2 * node + 1]);
    }
    return node - w->leaves;
}

static void merge_all(const dk_text* text, word* w) {
    w->leaves = 1;
    while (w->leaves < w->count) {
        w->leaves *= 2;
    }
    for (uint32_t i = 0; i < w->leaves; ++i) {
        w->tree[w->leaves + i] = i < w->count ? rank_of(text, w, i) : NONE;
    }
    for (uint32_t i = w->leaves - 1; i > 0; --i) {
        w->tree[i] = lesser(w->tree[2 * i], w->tree[2 * i + 1]);
    }
    while (w->tree[1] != NONE) {
        uint32_t at = best(w);
        uint32_t gone = w->next[at];
        w->ids[at] = merge_of(text, w->ids[at], w->ids[gone])[3];
        w->bytes[at] += w->bytes[gone];
        w->next[at] = w->next[gone];
        if (w->next[at] != NONE) {
            w->previous[w->next[at]] = at;
        }
        set_rank(w, gone, NONE);
        set_rank(w, at, rank_of(text, w, at));
        if (w->previous[at] != NONE) {
            set_rank(w, w->previous[at], rank_of(text, w, w->previous[at]));
        }
    }
}

static void add(word* w, uint32_t id, uint32_t bytes) {
    w->ids[w->count] = id;
    w->bytes[w->count] = bytes;
    w->previous[w->count] = w->count - 1; /* NONE for the first */
    w->next[w->count] = NONE;
    if (w->count > 0) {
        w->next[w->count - 1] = w->count;
    }
    ++w->count;
}

/* The node behind the characters that end a word. */
static uint32_t ended(const dk_text* text, uint32_t node) {
    uint32_t place = config(text, SUFFIX);
    uint32_t count = place == 0 ? 0 : word_at(text, POOL, place - 1);
    for (uint32_t i = 0; i < count && node != NONE; ++i) {
        node = dk_text_edges(text, node, word_at(text, POOL, place + i));
    }
    return node;
}

/* The token of one byte or character, or NONE. */
static uint32_t symbol(const dk_text* text, uint32_t c, bool last) {
    uint32_t root = text->count[TRIE] / 2;
    uint32_t node;
    if (config(text, OPTIONS) & OPTION_BYTES) {
        if (!last || config(text, SUFFIX) == 0) {
            return word_at(text, BYTES, c);
        }
        node = dk_text_edge(text, root, c);
    } else {
        node = dk_text_edges(text, root, c);
    }
    node = last && node != NONE ? ended(text, node) : node;
    return node == NONE ? NONE : value_of(text, node);
}

/* What is not in the vocabulary becomes tokens of bytes, or is unknown; if no token is for that, it is dropped.
   `unknown` is the length of what is unknown and has no symbol yet. */
static void add_missing(const dk_text* text, word* w, uint32_t c, uint32_t* unknown) {
    unsigned char bytes[4];
    uint32_t count = config(text, OPTIONS) & OPTION_BYTES ? 1 : dk_text_utf8(c, bytes);
    bool fallback = (config(text, OPTIONS) & OPTION_FALLBACK) != 0;
    for (uint32_t i = 0; i < count && fallback; ++i) {
        fallback = word_at(text, BYTES, bytes[i]) != NONE;
    }
    if (fallback) {
        for (uint32_t i = 0; i < count; ++i) {
            add(w, word_at(text, BYTES, bytes[i]), 1);
        }
    } else if (config(text, UNKNOWN) != NONE) {
        if (*unknown > 0 && !(config(text, OPTIONS) & OPTION_FUSE)) {
            add(w, config(text, UNKNOWN), *unknown);
            *unknown = 0;
        }
        *unknown += count;
    }
}

static void add_symbol(const dk_text* text, word* w, uint32_t c, bool last, uint32_t* unknown) {
    uint32_t id = symbol(text, c, last);
    if (id == NONE) {
        add_missing(text, w, c, unknown);
        return;
    }
    if (*unknown > 0) {
        add(w, config(text, UNKNOWN), *unknown);
        *unknown = 0;
    }
    add(w, id, config(text, OPTIONS) & OPTION_BYTES ? 1 : length_of(c));
}

static void read_symbols(const dk_text* text, piece in, word* w) {
    uint32_t unknown = 0;
    for (uint32_t i = in.begin; i < in.end; ++i) {
        unsigned char bytes[4];
        uint32_t count = dk_text_utf8(in.from->chars[i], bytes);
        if (!(config(text, OPTIONS) & OPTION_BYTES)) {
            add_symbol(text, w, in.from->chars[i], i + 1 == in.end, &unknown);
            continue;
        }
        for (uint32_t j = 0; j < count; ++j) {
            add_symbol(text, w, bytes[j], i + 1 == in.end && j + 1 == count, &unknown);
        }
    }
    if (unknown > 0) {
        add(w, config(text, UNKNOWN), unknown);
    }
}

/* Append the symbols that are left. Their places follow from their lengths. */
static void write_tokens(piece in, const word* w, token_list* to) {
    const runes* from = in.from;
    uint32_t rune = in.begin;
    uint32_t rune_end = length_of(from->chars[rune]);
    uint32_t at = 0;
    for (uint32_t i = w->count > 0 ? 0 : NONE; i != NONE; i = w->next[i]) {
        uint32_t begin;
        while (rune_end <= at && rune + 1 < in.end) {
            rune_end += length_of(from->chars[++rune]);
        }
        begin = from->begin[rune];
        at += w->bytes[i];
        while (rune_end < at && rune + 1 < in.end) {
            rune_end += length_of(from->chars[++rune]);
        }
        put_token(to, w->ids[i], begin, from->end[rune]);
    }
}

/* The token that is the whole piece, or NONE: if that is asked for, or if merging is known to lead to it. */
static uint32_t whole(const dk_text* text, piece in) {
    uint32_t node = text->count[TRIE] / 2;
    uint32_t id;
    for (uint32_t i = in.begin; i < in.end && node != NONE; ++i) {
        node = dk_text_edges(text, node, in.from->chars[i]);
    }
    if (node == NONE) {
        return NONE;
    }
    id = value_of(text, node);
    if ((config(text, OPTIONS) & OPTION_WHOLE) && id != NONE) {
        return id;
    }
    node = ended(text, node);
    id = node == NONE ? NONE : value_of(text, node);
    return id != NONE && (byte_at(text, FLAGS, id) & FLAG_MERGED) ? id : NONE;
}

void dk_text_bpe(const dk_text* text, piece in, scratch* memory, token_list* to) {
    word w = {0};
    size_t most = 0;
    uint32_t* words = (uint32_t*)memory->at;
    uint32_t id = whole(text, in);
    bool in_bytes = (config(text, OPTIONS) & (OPTION_BYTES | OPTION_FALLBACK)) != 0;
    if (id != NONE) {
        put_token(to, id, in.from->begin[in.begin], in.from->end[in.end - 1]);
        return;
    }
    for (uint32_t i = in.begin; i < in.end; ++i) {
        most += in_bytes ? length_of(in.from->chars[i]) : 1;
    }
    if (most * BPE_BYTES > memory->bytes) {
        memory->need = most * BPE_BYTES;
        return;
    }
    w.ids = words;
    w.bytes = words + most;
    w.next = words + 2 * most;
    w.previous = words + 3 * most;
    w.tree = words + 4 * most; /* at most 4 * most: two for each leaf, and fewer than 2 * most leaves */
    read_symbols(text, in, &w);
    if (w.count > 1) {
        merge_all(text, &w);
    }
    write_tokens(in, &w, to);
}
