/* UTF-8, and the steps that look at one character at a time. */
#include "tables.h"

uint32_t dk_text_utf8(uint32_t c, unsigned char* bytes) {
    if (c < 0x80) {
        bytes[0] = (unsigned char)c;
        return 1;
    }
    if (c < 0x800) {
        bytes[0] = (unsigned char)(0xc0 | c >> 6);
        bytes[1] = (unsigned char)(0x80 | (c & 0x3f));
        return 2;
    }
    if (c < 0x10000) {
        bytes[0] = (unsigned char)(0xe0 | c >> 12);
        bytes[1] = (unsigned char)(0x80 | (c >> 6 & 0x3f));
        bytes[2] = (unsigned char)(0x80 | (c & 0x3f));
        return 3;
    }
    bytes[0] = (unsigned char)(0xf0 | (c >> 18 & 7));
    bytes[1] = (unsigned char)(0x80 | (c >> 12 & 0x3f));
    bytes[2] = (unsigned char)(0x80 | (c >> 6 & 0x3f));
    bytes[3] = (unsigned char)(0x80 | (c & 0x3f));
    return 4;
}

uint32_t dk_text_following(unsigned char byte, unsigned char* least, unsigned char* most) {
    *least = byte == 0xe0 ? 0xa0 : byte == 0xf0 ? 0x90 : 0x80;
    *most = byte == 0xed ? 0x9f : byte == 0xf4 ? 0x8f : 0xbf;
    return byte >= 0xf5 ? 0 : byte >= 0xf0 ? 3 : byte >= 0xe0 ? 2 : byte >= 0xc2 ? 1 : 0;
}

void dk_text_read(const unsigned char* bytes, size_t count, runes* to, uint32_t* places) {
    size_t i = 0;
    uint32_t start = to->count;
    while (i < count && !to->full) {
        uint32_t index = to->count - start;
        uint32_t c = bytes[i];
        places[index] = (uint32_t)i++;
        if (c >= 0x80) {
            unsigned char least, most;
            uint32_t more = dk_text_following((unsigned char)c, &least, &most);
            uint32_t left = more;
            c &= 0x3fu >> more;
            while (left > 0 && i < count && bytes[i] >= least && bytes[i] <= most) {
                c = c << 6 | (bytes[i++] & 0x3f);
                least = 0x80;
                most = 0xbf;
                --left;
            }
            if (more == 0 || left > 0) {
                c = 0xfffd;
            }
        }
        put(to, c, index, index + 1);
    }
    places[to->count - start] = (uint32_t)count;
}

uint32_t dk_text_look_up(const dk_text* text, uint32_t c, uint32_t from, uint32_t to) {
    while (from < to) {
        uint32_t middle = from + (to - from) / 2;
        uint32_t found = word_at(text, LOOKUP, 2 * middle);
        if (found == c) {
            return word_at(text, LOOKUP, 2 * middle + 1) + 1;
        }
        if (found < c) {
            from = middle + 1;
        } else {
            to = middle;
        }
    }
    return 0;
}

void dk_text_map(const dk_text* text, const uint32_t* arguments, piece in, runes* to) {
    for (uint32_t i = in.begin; i < in.end; ++i) {
        uint32_t c = in.from->chars[i];
        uint32_t place = word_at(text, ACTIONS, arguments[0] + class_of(text, c));
        uint32_t count;
        if (place == NONE) {
            place = dk_text_look_up(text, c, arguments[1], arguments[2]);
        }
        if (place == 0) {
            put_rune(to, in.from, i);
            continue;
        }
        count = word_at(text, POOL, place - 1);
        for (uint32_t j = 0; j < count && !to->full; ++j) {
            uint32_t other = word_at(text, POOL, place + j);
            put(to, other == NONE ? c : other, in.from->begin[i], in.from->end[i]);
        }
    }
}

void dk_text_strip(const dk_text* text, const uint32_t* arguments, piece in, runes* to) {
    uint32_t begin = in.begin;
    uint32_t end = in.end;
    while (arguments[1] && begin < end && has(text, in.from->chars[begin], arguments[0])) {
        ++begin;
    }
    while (arguments[2] && end > begin && has(text, in.from->chars[end - 1], arguments[0])) {
        --end;
    }
    for (; begin < end; ++begin) {
        put_rune(to, in.from, begin);
    }
}

/* Arguments: the characters in POOL; one that the piece must not begin with, or NONE; whether only at the start. */
void dk_text_prepend(const dk_text* text, const uint32_t* arguments, piece in, runes* to) {
    uint32_t count = word_at(text, POOL, arguments[0]);
    if (in.from->chars[in.begin] == arguments[1] || (arguments[2] && in.from->begin[in.begin] != 0)) {
        count = 0;
    }
    for (uint32_t j = 0; j < count && !to->full; ++j) {
        put(to, word_at(text, POOL, arguments[0] + 1 + j), in.from->begin[in.begin], in.from->end[in.begin]);
    }
    for (uint32_t i = in.begin; i < in.end; ++i) {
        put_rune(to, in.from, i);
    }
}

/* Arguments: the characters that stand for bytes, in POOL. */
void dk_text_bytes(const dk_text* text, const uint32_t* arguments, piece in, runes* to) {
    for (uint32_t i = in.begin; i < in.end; ++i) {
        unsigned char bytes[4];
        uint32_t count = dk_text_utf8(in.from->chars[i], bytes);
        for (uint32_t j = 0; j < count; ++j) {
            put(to, word_at(text, POOL, arguments[0] + 1 + bytes[j]), in.from->begin[i], in.from->end[i]);
        }
    }
}
