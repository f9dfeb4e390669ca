/* The normal forms of Unicode (standard annex 15).

   A character that results from several others, or that comes out beside another one, has the place of a character as
   if the results were written over the text from left to right. This is what other implementations report, too. */
#include "tables.h"

enum { S = 0xac00, L = 0x1100, V = 0x1161, T = 0x11a7, LS = 19, VS = 21, TS = 28 };

/* While a stretch is at work, `begin` of a rune is how many characters it adds (negative: replaces more than itself),
   and `end` is its combining class. */
static void put_part(const dk_text* text, runes* to, uint32_t c, bool first) {
    put(to, c, first ? 0 : 1, byte_at(text, COMBINING, class_of(text, c)));
}

static void decompose(const dk_text* text, const uint32_t* arguments, uint32_t c, runes* to) {
    uint32_t place = dk_text_look_up(text, c, arguments[0], arguments[1]);
    uint32_t count = place == 0 ? 0 : word_at(text, POOL, place - 1);
    if (c - S < LS * VS * TS) {
        put_part(text, to, L + (c - S) / (VS * TS), true);
        put_part(text, to, V + (c - S) % (VS * TS) / TS, false);
        if ((c - S) % TS != 0) {
            put_part(text, to, T + (c - S) % TS, false);
        }
    } else if (count == 0) {
        put_part(text, to, c, true);
    }
    for (uint32_t j = 0; j < count && !to->full; ++j) {
        put_part(text, to, word_at(text, POOL, place + j), j == 0);
    }
}

/* Sort marks by combining class; those of the same class stay in order. The free runes behind serve as room. */
static void sort(runes* of, uint32_t begin, uint32_t end) {
    uint32_t count = end - begin;
    uint32_t room = of->count;
    uint32_t done = room;
    if (of->capacity - of->count < count) {
        of->full = true;
        return;
    }
    for (uint32_t least = 1, next; done < room + count; least = next) {
        next = NONE;
        for (uint32_t i = begin; i < end; ++i) {
            if (of->end[i] == least) {
                of->chars[done] = of->chars[i];
                of->begin[done] = of->begin[i];
                of->end[done++] = least;
            } else if (of->end[i] > least && of->end[i] < next) {
                next = of->end[i];
            }
        }
    }
    for (uint32_t i = 0; i < count; ++i) {
        of->chars[begin + i] = of->chars[room + i];
        of->begin[begin + i] = of->begin[room + i];
        of->end[begin + i] = of->end[room + i];
    }
}

static void sort_marks(runes* of, uint32_t first) {
    uint32_t last = of->count;
    for (uint32_t i = first; i < last && !of->full; ++i) {
        uint32_t end = i;
        bool sorted = true;
        while (end < last && of->end[end] != 0) {
            sorted = sorted && (end == i || of->end[end - 1] <= of->end[end]);
            ++end;
        }
        if (!sorted) {
            sort(of, i, end);
        }
        i = end > i ? end - 1 : i;
    }
}

/* The character that two become, or NONE. */
static uint32_t composed(const dk_text* text, uint32_t a, uint32_t b) {
    uint32_t from = 0;
    uint32_t to = text->count[COMPOSITIONS] / 3;
    if (a - L < LS && b - V < VS) {
        return S + ((a - L) * VS + (b - V)) * TS;
    }
    if (a - S < LS * VS * TS && (a - S) % TS == 0 && b - T - 1 < TS - 1) {
        return a + (b - T);
    }
    while (from < to) {
        uint32_t middle = from + (to - from) / 2;
        uint32_t left = word_at(text, COMPOSITIONS, 3 * middle);
        uint32_t right = word_at(text, COMPOSITIONS, 3 * middle + 1);
        if (left == a && right == b) {
            return word_at(text, COMPOSITIONS, 3 * middle + 2);
        }
        if (left < a || (left == a && right < b)) {
            from = middle + 1;
        } else {
            to = middle;
        }
    }
    return NONE;
}

static void compose(const dk_text* text, runes* of, uint32_t first) {
    uint32_t base = NONE;
    uint32_t last = 0; /* the class of the mark in front, 0: there is none since `base` */
    uint32_t write = first;
    for (uint32_t read = first; read < of->count; ++read) {
        uint32_t class = of->end[read];
        if (base != NONE && (last == 0 || last < class)) {
            uint32_t c = composed(text, of->chars[base], of->chars[read]);
            if (c != NONE) {
                of->chars[base] = c;
                of->begin[base] += of->begin[read] - 1;
                continue;
            }
        }
        if (class == 0) {
            base = write;
        }
        last = class;
        of->chars[write] = of->chars[read];
        of->begin[write] = of->begin[read];
        of->end[write++] = class;
    }
    of->count = write;
}

void dk_text_place(const runes* from, uint32_t at, uint32_t end, runes* to, uint32_t first) {
    for (uint32_t i = first; i < to->count; ++i) {
        int32_t added = (int32_t)to->begin[i];
        uint32_t source = added > 0 && at > 0 ? at - 1 : at < end ? at : end - 1;
        to->begin[i] = from->begin[source];
        to->end[i] = from->end[source];
        at += added > 0 ? 0 : (uint32_t)(1 - added);
    }
}

/* Arguments: the decompositions in LOOKUP (2 words), the property of characters that stay as they are whatever is in
   front of them, and whether to compose. */
void dk_text_compose(const dk_text* text, const uint32_t* arguments, piece in, runes* to) {
    const uint32_t* chars = in.from->chars;
    uint32_t i = in.begin;
    while (i < in.end && !to->full) {
        uint32_t first = to->count;
        uint32_t end = i + 1;
        while (end < in.end && !has(text, chars[end], arguments[2])) {
            ++end;
        }
        if (end == i + 1 && has(text, chars[i], arguments[2])) {
            put_rune(to, in.from, i++);
            continue;
        }
        for (uint32_t j = i; j < end; ++j) {
            decompose(text, arguments, chars[j], to);
        }
        sort_marks(to, first);
        if (arguments[3] && !to->full) {
            compose(text, to, first);
        }
        dk_text_place(in.from, i, end, to, first);
        i = end;
    }
}
