/* Mappings of SentencePiece: what users see as one character, or else each character of it, becomes other characters.
 */
#include "tables.h"

/* The entry of the mapping that is a prefix of these characters, the shortest one: its place in POOL, or NONE. */
static uint32_t entry_of(const dk_text* text, uint32_t root, const uint32_t* chars, uint32_t count) {
    uint32_t node = root;
    for (uint32_t i = 0; i < count; ++i) {
        unsigned char bytes[4];
        uint32_t length = dk_text_utf8(chars[i], bytes);
        for (uint32_t j = 0; j < length; ++j) {
            node = dk_text_edge(text, node, bytes[j]);
            if (node == NONE) {
                return NONE;
            }
            if (value_of(text, node) != NONE) {
                return value_of(text, node);
            }
        }
    }
    return NONE;
}

/* Put the result for `replaced` characters. While a piece is at work, `begin` of a rune is as in dk_text_place. */
static void put_entry(const dk_text* text, uint32_t place, uint32_t replaced, runes* to, uint32_t first) {
    uint32_t count = word_at(text, POOL, place);
    for (uint32_t i = 0; i < count && !to->full; ++i) {
        put(to, word_at(text, POOL, place + 1 + i), i < replaced ? 0 : 1, 0);
    }
    if (count < replaced && to->count > first) {
        to->begin[to->count - 1] -= replaced - count;
    }
}

/* Arguments: the root of the mapping, the property of characters that are never part of a larger one next to each other
   and have no entry, and the automaton of what users see as one character. */
void dk_text_charsmap(const dk_text* text, const uint32_t* arguments, piece in, runes* to) {
    const uint32_t* chars = in.from->chars;
    uint32_t first = to->count;
    uint32_t i = in.begin;
    while (i < in.end && !to->full) {
        uint32_t end = i + 1;
        uint32_t bytes = 0;
        uint32_t place = NONE;
        unsigned char unused[4];
        if (has(text, chars[i], arguments[1]) && (end == in.end || has(text, chars[end], arguments[1]))) {
            put(to, chars[i++], 0, 0);
            continue;
        }
        end = dk_text_match(text, arguments + 2, in, i);
        end = end == NONE || end <= i ? i + 1 : end;
        for (uint32_t j = i; j < end && bytes < 6; ++j) {
            bytes += dk_text_utf8(chars[j], unused);
        }
        if (bytes < 6) {
            place = entry_of(text, arguments[0], chars + i, end - i);
        }
        if (place != NONE) {
            put_entry(text, place, end - i, to, first);
            i = end;
        }
        for (; i < end; ++i) {
            place = entry_of(text, arguments[0], chars + i, 1);
            if (place != NONE) {
                put_entry(text, place, 1, to, first);
            } else {
                put(to, chars[i], 0, 0);
            }
        }
    }
    dk_text_place(in.from, in.begin, in.end, to, first);
}
