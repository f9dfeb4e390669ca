/* WordPiece: the longest token first, again and again; a word that is not covered is unknown. */
#include "tables.h"

void dk_text_wordpiece(const dk_text* text, piece in, token_list* to) {
    const runes* from = in.from;
    uint32_t first = to->count;
    uint32_t at = in.begin;
    bool known = in.end - in.begin <= config(text, MOST_CHARS);
    while (known && at < in.end) {
        uint32_t node = at == in.begin ? text->count[TRIE] / 2 : config(text, CONTINUING);
        uint32_t end = at;
        uint32_t id = NONE;
        for (uint32_t i = at; i < in.end; ++i) {
            node = dk_text_edges(text, node, from->chars[i]);
            if (node == NONE) {
                break;
            }
            if (value_of(text, node) != NONE) {
                id = value_of(text, node);
                end = i + 1;
            }
        }
        known = id != NONE;
        if (known) {
            put_token(to, id, from->begin[at], from->end[end - 1]);
            at = end;
        }
    }
    if (!known) {
        to->count = first;
        put_token(to, config(text, UNKNOWN), from->begin[in.begin], from->end[in.end - 1]);
    }
}
