/* The steps that search: pieces, replacements, and added tokens. */
#include "tables.h"

enum { REMOVED, ISOLATED, WITH_PREVIOUS, WITH_NEXT, CONTIGUOUS };

/* Whether a part of a piece begins a piece of its own; `before` says whether the part in front of it is a match. */
static bool starts(uint32_t behavior, bool first, bool match, bool before) {
    switch (behavior) {
    case WITH_PREVIOUS:
        return first || !match || before;
    case WITH_NEXT:
        return first || match || !before;
    case CONTIGUOUS:
        return first || match != before;
    default:
        return true;
    }
}

/* The next match at or after `at`, and where it ends; both are the end of the piece if there is none. */
static uint32_t next_match(const dk_text* text, const uint32_t* automaton, piece in, uint32_t at, uint32_t* end) {
    for (; at < in.end; ++at) {
        uint32_t found = dk_text_match(text, automaton, in, at);
        if (found != NONE && found > at) {
            *end = found;
            return at;
        }
    }
    *end = in.end;
    return in.end;
}

/* Arguments: the automaton (3 words), the behavior, and whether matches are what lies between. */
void dk_text_split(const dk_text* text, const uint32_t* arguments, piece in, runes* to) {
    uint32_t behavior = arguments[3];
    bool invert = arguments[4] != 0;
    bool before = false;
    uint32_t at = in.begin;
    uint32_t end = in.begin;
    uint32_t match = at;
    while (at < in.end) {
        bool found;
        uint32_t stop;
        if (at == end) {
            match = next_match(text, arguments, in, at, &end);
        }
        found = (at == match) != invert;
        stop = at == match ? end : match;
        if (!(behavior == REMOVED && found)) {
            uint32_t first = to->count;
            bool start = starts(behavior, at == in.begin, found, before);
            for (; at < stop; ++at) {
                put_rune(to, in.from, at);
            }
            if (start && to->count > first) {
                to->marks[first] = MARK_START;
            }
        }
        at = stop;
        before = found;
    }
}

/* Arguments: the automaton (3 words), and the replacement in POOL. */
void dk_text_replace(const dk_text* text, const uint32_t* arguments, piece in, runes* to) {
    uint32_t count = word_at(text, POOL, arguments[3]);
    uint32_t at = in.begin;
    while (at < in.end) {
        uint32_t end;
        uint32_t match = next_match(text, arguments, in, at, &end);
        for (; at < match; ++at) {
            put_rune(to, in.from, at);
        }
        for (uint32_t j = 0; match < in.end && j < count && !to->full; ++j) {
            put(to, word_at(text, POOL, arguments[3] + 1 + j), in.from->begin[end - 1], in.from->end[end - 1]);
        }
        at = end;
    }
}

/* The longest added token that begins at `at`: its place in ADDED, or NONE. */
static uint32_t longest(const dk_text* text, uint32_t root, piece in, uint32_t at, uint32_t* end) {
    uint32_t node = root;
    uint32_t found = NONE;
    for (; at < in.end; ++at) {
        node = dk_text_edges(text, node, in.from->chars[at]);
        if (node == NONE) {
            break;
        }
        if (value_of(text, node) != NONE) {
            found = value_of(text, node);
            *end = at + 1;
        }
    }
    return found;
}

/* How many characters of the text of a token are white, up to one that is not. */
static uint32_t white(const dk_text* text, const uint32_t* arguments, piece in, bool backwards) {
    uint32_t count = 0;
    for (; count < in.end - in.begin; ++count) {
        uint32_t c = in.from->chars[backwards ? in.end - 1 - count : in.begin + count];
        if (c != 0x120 && !has(text, c, arguments[2])) {
            break;
        }
    }
    return count;
}

/* A token, with the range of its text. */
static void put_found(const dk_text* text, const uint32_t* arguments, uint32_t id, piece in, runes* to) {
    uint32_t begin = in.from->begin[in.begin];
    uint32_t end = in.from->end[in.end - 1];
    if (config(text, OPTIONS) & OPTION_TRIM) {
        uint32_t before = white(text, arguments, in, false);
        uint32_t after = white(text, arguments, in, true);
        id |= (before == 1 ? TOKEN_WHITE_BEFORE : 0) | (after == 1 ? TOKEN_WHITE_AFTER : 0);
        if (before > 1) {
            begin = begin + before < end ? begin + before : end;
        }
        if (after > 1 && end >= after) {
            end = end - after > begin ? end - after : begin;
        }
    }
    put(to, id, begin, end);
    if (!to->full) {
        to->marks[to->count - 1] = MARK_TOKEN;
    }
}

/* Arguments: the root of the tokens, the properties of their first characters, of white ones, and of those in words. */
void dk_text_find_tokens(const dk_text* text, const uint32_t* arguments, piece in, runes* to) {
    const uint32_t* chars = in.from->chars;
    uint32_t done = in.begin;
    uint32_t at = in.begin;
    uint32_t first = to->count;
    while (at < in.end) {
        uint32_t end = at + 1;
        uint32_t begin = at;
        uint32_t found = has(text, chars[at], arguments[1]) ? longest(text, arguments[0], in, at, &end) : NONE;
        uint32_t flags = found == NONE ? 0 : word_at(text, ADDED, 2 * found + 1);
        at = end;
        if (found == NONE ||
            ((flags & ADDED_SINGLE) && ((begin > in.begin && has(text, chars[begin - 1], arguments[3])) ||
                                        (end < in.end && has(text, chars[end], arguments[3]))))) {
            continue;
        }
        while ((flags & ADDED_LEFT) && begin > done && has(text, chars[begin - 1], arguments[2])) {
            --begin;
        }
        while ((flags & ADDED_RIGHT) && end < in.end && has(text, chars[end], arguments[2])) {
            ++end;
        }
        first = to->count;
        for (; done < begin; ++done) {
            put_rune(to, in.from, done);
        }
        if (to->count > first) {
            to->marks[first] = MARK_START;
        }
        if (begin < end) {
            put_found(text, arguments, word_at(text, ADDED, 2 * found), (piece){in.from, begin, end}, to);
        }
        done = end;
    }
    first = to->count;
    for (; done < in.end; ++done) {
        put_rune(to, in.from, done);
    }
    if (to->count > first) {
        to->marks[first] = MARK_START;
    }
}
