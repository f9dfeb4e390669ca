/* What the files of the tokenizer share: the tables, and a text on its way to tokens.

   A text is a sequence of *runes*: characters with the range of characters of the input that they come from. A *piece*
   is a part of it that is treated alone; the first rune of a piece is marked. A token that was found in the text is one
   rune of its own. The steps of a tokenizer take the pieces of one sequence and append theirs to another. */
#ifndef DEPLOYKIT_TEXT_TABLES_H
#define DEPLOYKIT_TEXT_TABLES_H

#include "text.h"

#define NONE UINT32_MAX

/* The tables, in the order of the blob. */
enum {
    CONFIG,       /* uint32_t, as numbered below */
    STEPS,        /* uint32_t[STEP_WORDS] */
    PAGES,        /* uint16_t: the page of 256 classes for each 256 characters */
    CLASSES,      /* uint8_t: the class of each character of a page */
    PROPERTIES,   /* uint32_t: a bit set for each class */
    ACTIONS,      /* uint32_t: for each mapping and class, 0: keep, NONE: look it up, else its place in POOL plus 1 */
    LOOKUP,       /* uint32_t[2]: a character and its place in POOL, sorted */
    POOL,         /* uint32_t: counts, each followed by as many characters; NONE stands for the character itself */
    COMBINING,    /* uint8_t: the combining class of each class */
    COMPOSITIONS, /* uint32_t[3]: two characters and the one that they become, sorted */
    COLUMNS,      /* uint8_t: for each automaton, the column of each class, and at last that of the end */
    STATES,       /* uint16_t: for each automaton and state, the next one by columns */
    TRIE,         /* uint32_t[2]: a hash table of edges: `parent << 8 | byte`, and a value plus 1 or 0 */
    ADDED,        /* uint32_t[2]: the id and the flags of an added token */
    BYTES,        /* uint32_t: the tokens of single bytes */
    MERGES,       /* uint32_t[4]: a hash table: left, right, rank, result */
    SCORES,       /* double, of each token */
    SPACES,       /* uint8_t[2]: for each token, how many characters at its ends are white */
    TEMPLATE,     /* uint32_t[3]: kind, segment, id */
    SPELLED,      /* uint32_t: where the text of each token begins in TEXTS, and where the last one ends */
    TEXTS,        /* unsigned char */
    FLAGS,        /* uint8_t, of each token */
    FIRST         /* uint32_t[2]: tokens that read differently at the beginning, sorted, and the token to read there */
};

enum {
    MAGIC = 0x58544B44, /* "DKTX" */
    VERSION = 1
};

/* Words of CONFIG. */
enum {
    MODEL,
    UNKNOWN,    /* the id for what is not in the vocabulary, or NONE */
    CONTINUING, /* WordPiece: the node of the prefix of tokens that continue a word */
    MOST_CHARS, /* WordPiece: longer words are unknown */
    STEP_COUNT,
    EDGE_PROBES,  /* the longest search in TRIE */
    MERGE_PROBES, /* the longest search in MERGES */
    CLASS_COUNT,
    RUNES_PER_BYTE,   /* of the input, in sixteenths, with those that steps add */
    SYMBOLS_PER_BYTE, /* the same for bytes or characters that the model works on */
    TEMPLATE_SINGLE,  /* entries of TEMPLATE for one text; those for a pair follow */
    TEMPLATE_PAIR,
    LIMIT,
    OPTIONS,
    SUFFIX,   /* BPE: where the characters that end a word are in POOL, plus 1; 0: there are none */
    STRIPPED, /* how many spaces decoding takes off the beginning */
    CONFIG_WORDS
};

enum { WORDPIECE, BPE, UNIGRAM };

/* Bits of OPTIONS. */
enum {
    OPTION_BYTES = 1,        /* BPE works on bytes, not on characters */
    OPTION_FALLBACK = 2,     /* what is not in the vocabulary becomes tokens of bytes */
    OPTION_FUSE = 4,         /* unknown characters in a row become one token */
    OPTION_WHOLE = 8,        /* a piece that is in the vocabulary becomes that token */
    OPTION_TRIM = 16,        /* places do not include white characters at the ends of tokens */
    OPTION_TRIM_PREFIX = 32, /* a space at the beginning of a text was put there by a step */
    OPTION_LOSSY = 64,       /* the texts of tokens are bytes, which need not be UTF-8 */
    OPTION_FIRST = 128       /* a space that the first token begins with is left out */
};

#define STEP_WORDS 6

enum {
    STEP_MAP,
    STEP_COMPOSE,
    STEP_SPLIT,
    STEP_REPLACE,
    STEP_PREPEND,
    STEP_STRIP,
    STEP_TOKENS,
    STEP_CHARSMAP,
    STEP_BYTES
};

/* Bits of FLAGS. */
enum {
    FLAG_SPECIAL = 1,
    FLAG_BYTE = 2,   /* the token is a byte, which decoding puts together with those around it */
    FLAG_ABSENT = 4, /* there is no such token */
    FLAG_FIRST = 8,  /* at the beginning the token reads as FIRST says */
    FLAG_MERGED = 16 /* BPE: a piece that is this token becomes it */
};

/* Bits of ADDED. */
enum { ADDED_SINGLE = 1, ADDED_LEFT = 2, ADDED_RIGHT = 4 };

enum { PART_FIRST, PART_SECOND, PART_TOKEN };

enum { MARK_NONE, MARK_START, MARK_TOKEN };

typedef struct runes {
    uint32_t* chars; /* a character, or the id of a token */
    uint32_t* begin;
    uint32_t* end;
    uint8_t* marks;
    uint32_t count;
    uint32_t capacity;
    bool full; /* a rune found no room */
} runes;

/* Part of a text: from `begin` up to, but not including, `end`. */
typedef struct piece {
    const runes* from;
    uint32_t begin;
    uint32_t end;
} piece;

/* Bits beside the id of a token that was found in the text. Where one white character at an end of it is to be taken
   out of its place, that is left to the end, as it may depend on the tokens in front. */
#define TOKEN_FOUND 0x80000000u
#define TOKEN_WHITE_BEFORE 0x40000000u
#define TOKEN_WHITE_AFTER 0x20000000u
#define TOKEN_ID 0x1fffffffu

typedef struct token {
    uint32_t id;
    uint32_t begin;
    uint32_t end;
} token;

typedef struct token_list {
    token* at;
    uint32_t count;
    uint32_t capacity;
    bool full;
} token_list;

static inline uint32_t config(const dk_text* text, int word) {
    return ((const uint32_t*)text->table[CONFIG])[word];
}

/* An element of a table of uint32_t; 0 outside of it. */
static inline uint32_t word_at(const dk_text* text, int table, uint32_t at) {
    return at < text->count[table] ? ((const uint32_t*)text->table[table])[at] : 0;
}

/* An element of a table of bytes; 0 outside of it. */
static inline uint8_t byte_at(const dk_text* text, int table, uint32_t at) {
    return at < text->count[table] ? ((const uint8_t*)text->table[table])[at] : 0;
}

static inline uint32_t class_of(const dk_text* text, uint32_t c) {
    uint32_t page = ((const uint16_t*)text->table[PAGES])[c >> 8 & 0x1fff];
    return byte_at(text, CLASSES, page << 8 | (c & 0xff));
}

static inline bool has(const dk_text* text, uint32_t c, uint32_t bits) {
    return (word_at(text, PROPERTIES, class_of(text, c)) & bits) != 0;
}

static inline void put(runes* to, uint32_t c, uint32_t begin, uint32_t end) {
    if (to->count == to->capacity) {
        to->full = true;
        return;
    }
    to->chars[to->count] = c;
    to->begin[to->count] = begin;
    to->end[to->count] = end;
    to->marks[to->count++] = MARK_NONE;
}

static inline void put_rune(runes* to, const runes* from, uint32_t at) {
    put(to, from->chars[at], from->begin[at], from->end[at]);
}

static inline void put_token(token_list* to, uint32_t id, uint32_t begin, uint32_t end) {
    if (to->count == to->capacity) {
        to->full = true;
        return;
    }
    to->at[to->count].id = id;
    to->at[to->count].begin = begin;
    to->at[to->count++].end = end;
}

/* Memory for a model, while it is at one piece. */
typedef struct scratch {
    unsigned char* at;
    size_t bytes;
    size_t need; /* more than `bytes` once a piece found no room */
} scratch;

/* Bytes of scratch for each character or byte of a piece. */
enum { BPE_BYTES = 32, UNIGRAM_BYTES = 16 };

/* UTF-8: writes 1 to 4 bytes and returns how many. */
uint32_t dk_text_utf8(uint32_t c, unsigned char* bytes);

/* How many bytes follow the first byte of a character, and which the second one may be; 0 for all other bytes. */
uint32_t dk_text_following(unsigned char byte, unsigned char* least, unsigned char* most);

/* Append the characters of a text in UTF-8. `places` receives the byte where each begins, and at last the length. */
void dk_text_read(const unsigned char* bytes, size_t count, runes* to, uint32_t* places);

/* Where the result for a character is in POOL, plus 1, by the entries of LOOKUP from `from` up to `to`; 0: it stays. */
uint32_t dk_text_look_up(const dk_text* text, uint32_t c, uint32_t from, uint32_t to);

/* The node of TRIE that a byte leads to, or NONE. Roots are numbered from the number of slots. */
uint32_t dk_text_edge(const dk_text* text, uint32_t node, uint32_t byte);

/* The same for all bytes of a character. */
uint32_t dk_text_edges(const dk_text* text, uint32_t node, uint32_t c);

/* The value of a node, or NONE. */
static inline uint32_t value_of(const dk_text* text, uint32_t node) {
    return word_at(text, TRIE, 2 * node + 1) - 1;
}

/* Where the match of an automaton that begins at `at` ends, or NONE. `columns` and `states` say where it begins in the
   tables, `width` is its number of columns. */
uint32_t dk_text_match(const dk_text* text, const uint32_t* automaton, piece in, uint32_t at);

/* The steps: the words behind the number of the step are the arguments. */
void dk_text_map(const dk_text* text, const uint32_t* arguments, piece in, runes* to);
void dk_text_compose(const dk_text* text, const uint32_t* arguments, piece in, runes* to);
void dk_text_split(const dk_text* text, const uint32_t* arguments, piece in, runes* to);
void dk_text_replace(const dk_text* text, const uint32_t* arguments, piece in, runes* to);
void dk_text_prepend(const dk_text* text, const uint32_t* arguments, piece in, runes* to);
void dk_text_strip(const dk_text* text, const uint32_t* arguments, piece in, runes* to);
void dk_text_find_tokens(const dk_text* text, const uint32_t* arguments, piece in, runes* to);
void dk_text_charsmap(const dk_text* text, const uint32_t* arguments, piece in, runes* to);
void dk_text_bytes(const dk_text* text, const uint32_t* arguments, piece in, runes* to);

/* Put in the places of runes from `first` on, which a step made of the characters from `at` up to `end`. Their `begin`
   says how many characters each adds: 1 if it is an additional one, 0 if it replaces one, -n if it also stands for the
   n characters after that. */
void dk_text_place(const runes* from, uint32_t at, uint32_t end, runes* to, uint32_t first);

/* The models: append the tokens of a piece. */
void dk_text_wordpiece(const dk_text* text, piece in, token_list* to);
void dk_text_bpe(const dk_text* text, piece in, scratch* memory, token_list* to);
void dk_text_unigram(const dk_text* text, piece in, scratch* memory, token_list* to);

#endif
