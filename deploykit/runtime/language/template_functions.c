/* What filters, methods and tests of templates do, as Jinja and Python do it. */
#include "template_values.h"

#include <string.h>

static dk_value undefined(void) {
    return dk_value_of(DK_V_UNDEFINED, 0);
}

/* What Python's str.strip takes for white space. */
static bool is_white(uint32_t c) {
    return (c >= 9 && c <= 13) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

/* Whether a character is among those that are stripped. */
static bool strips(const char* at, int32_t length, uint32_t code, dk_value chars) {
    if (chars.kind != DK_V_STRING) {
        return is_white(code);
    }
    return dk_template_find(chars, dk_text_of(at, length), 0) >= 0;
}

static dk_value strip(dk_value text, dk_value chars, bool left, bool right) {
    uint32_t code;
    int32_t length;
    while (left && text.count > 0) {
        length = dk_template_next(text.as.text, text.count, &code);
        if (!strips(text.as.text, length, code, chars)) {
            break;
        }
        text.as.text += length;
        text.count -= length;
    }
    while (right && text.count > 0) {
        length = dk_template_last(text.as.text, text.count, &code);
        if (!strips(text.as.text + text.count - length, length, code, chars)) {
            break;
        }
        text.count -= length;
    }
    return text;
}

static int64_t characters(dk_value text) {
    int64_t found = 0;
    uint32_t code;
    for (int32_t i = 0; i < text.count; ++found) {
        i += dk_template_next(text.as.text + i, text.count - i, &code);
    }
    return found;
}

dk_value dk_template_list(dk_machine* m, dk_value of) {
    const int64_t count = of.kind == DK_V_STRING ? characters(of) : of.kind == DK_V_MAP ? of.count : 0;
    dk_value* items;
    if (dk_is_list(of) || of.kind == DK_V_UNDEFINED) {
        return dk_items(
            DK_V_LIST, of.kind == DK_V_UNDEFINED ? NULL : of.as.items, of.kind == DK_V_UNDEFINED ? 0 : of.count
        );
    }
    if (of.kind != DK_V_STRING && of.kind != DK_V_MAP) {
        return dk_template_wrong(m);
    }
    items = dk_template_take(m, count);
    for (int32_t i = 0, at = 0; items != NULL && i < count; ++i) {
        if (of.kind == DK_V_MAP) {
            items[i] = of.as.items[2 * i];
        } else {
            uint32_t code;
            items[i] = dk_text_of(of.as.text + at, dk_template_next(of.as.text + at, of.count - at, &code));
            at += items[i].count;
        }
    }
    return items == NULL ? undefined() : dk_items(DK_V_LIST, items, count);
}

/* A bound of a slice, within the length. */
static int64_t bound(dk_machine* m, dk_value v, int64_t length, int64_t usual, bool back) {
    const int64_t low = back ? -1 : 0, high = back ? length - 1 : length;
    int64_t at = v.as.number;
    if (v.kind == DK_V_UNDEFINED || v.kind == DK_V_NONE) {
        return usual;
    }
    if (v.kind != DK_V_INT) {
        dk_template_wrong(m);
        return usual;
    }
    at = at < 0 ? at + length : at;
    return at < low ? low : at > high ? high : at;
}

/* So many characters of a text behind the first `from`. */
static dk_value part_of(dk_value text, int64_t from, int64_t count) {
    uint32_t code;
    int32_t at = 0, begin;
    for (; from > 0; --from) {
        at += dk_template_next(text.as.text + at, text.count - at, &code);
    }
    begin = at;
    for (; count > 0; --count) {
        at += dk_template_next(text.as.text + at, text.count - at, &code);
    }
    return dk_text_of(text.as.text + begin, at - begin);
}

dk_value dk_template_slice(dk_machine* m, dk_value of, dk_value start, dk_value stop, dk_value step) {
    const int64_t length = of.kind == DK_V_STRING ? characters(of) : of.count;
    const int64_t by = step.kind == DK_V_INT ? step.as.number : 1;
    const int64_t from = bound(m, start, length, by < 0 ? length - 1 : 0, by < 0);
    const int64_t to = bound(m, stop, length, by < 0 ? -1 : length, by < 0);
    const int64_t span = by < 0 ? from - to : to - from;
    dk_value list, *items;
    const char* begin;
    int64_t count = 0;
    if (by == 0 || by > INT32_MAX || by < -INT32_MAX || (of.kind != DK_V_STRING && of.kind != DK_V_LIST) ||
        (step.kind != DK_V_INT && step.kind != DK_V_UNDEFINED && step.kind != DK_V_NONE)) {
        return dk_template_wrong(m);
    }
    if (span > 0) {
        count = (span - 1) / (by < 0 ? -by : by) + 1;
    }
    if (by == 1 || count == 0) {
        return of.kind == DK_V_STRING ? part_of(of, from, count)
                                      : dk_items(DK_V_LIST, count == 0 ? NULL : of.as.items + from, count);
    }
    list = dk_template_list(m, of);
    items = dk_template_take(m, count);
    for (int64_t i = 0; i < count && m->status == DK_OK; ++i) {
        items[i] = list.as.items[from + i * by];
    }
    if (of.kind == DK_V_LIST || m->status != DK_OK) {
        return dk_items(DK_V_LIST, items, count);
    }
    begin = dk_template_begin(m);
    for (int64_t i = 0; i < count; ++i) {
        dk_template_put(m, items[i].as.text, (size_t)items[i].count);
    }
    return dk_template_end(m, begin);
}

/* A text with other letters. Those beyond ASCII are refused: their cases are in tables that are not here. */
static dk_value cased(dk_machine* m, dk_value text, int32_t function) {
    const char* begin = dk_template_begin(m);
    bool within = false;
    for (int32_t i = 0; i < text.count; ++i) {
        char c = text.as.text[i];
        const bool upper = c >= 'A' && c <= 'Z', letter = upper || (c >= 'a' && c <= 'z');
        const bool raise =
            function == DK_F_UPPER || (function == DK_F_CAPITALIZE && i == 0) || (function == DK_F_TITLE && !within);
        if ((unsigned char)c >= 0x80) {
            return dk_template_fail(m, DK_ERROR_USAGE, "the template changes the case of letters beyond ASCII");
        }
        if (letter) {
            c = (char)(raise ? c & ~32 : c | 32);
        }
        within = letter;
        dk_template_put(m, &c, 1);
    }
    return dk_template_end(m, begin);
}

static dk_value ends_with(dk_machine* m, dk_value text, dk_value part, bool start) {
    if (part.kind == DK_V_TUPLE) {
        bool found = false;
        for (int32_t i = 0; i < part.count && !found && m->status == DK_OK; ++i) {
            found = part.as.items[i].kind == DK_V_STRING && ends_with(m, text, part.as.items[i], start).as.number != 0;
        }
        return dk_value_of(DK_V_BOOL, found);
    }
    if (part.kind != DK_V_STRING) {
        return dk_template_wrong(m);
    }
    return dk_value_of(
        DK_V_BOOL, part.count <= text.count &&
                       dk_template_same(text.as.text + (start ? 0 : text.count - part.count), part.as.text, part.count)
    );
}

static dk_value replace(dk_machine* m, dk_value text, dk_value old, dk_value by, int64_t most) {
    const char* begin = dk_template_begin(m);
    int64_t at = 0, found;
    if (old.kind != DK_V_STRING || by.kind != DK_V_STRING || old.count == 0) {
        return dk_template_wrong(m);
    }
    while (most != 0 && (found = dk_template_find(text, old, at)) >= 0 && m->status == DK_OK) {
        dk_template_put(m, text.as.text + at, (size_t)(found - at));
        dk_template_put(m, by.as.text, (size_t)by.count);
        at = found + old.count;
        --most;
    }
    dk_template_put(m, text.as.text + at, (size_t)(text.count - at));
    return dk_template_end(m, begin);
}

/* The parts of a text, which are on the stack until all are there. */
static dk_value split(dk_machine* m, dk_value text, dk_value by, int64_t most) {
    const bool white = by.kind != DK_V_STRING;
    const dk_value* before = m->top;
    dk_value* items;
    int64_t count, found;
    if ((white && by.kind != DK_V_UNDEFINED && by.kind != DK_V_NONE) || (!white && by.count == 0)) {
        return dk_template_wrong(m);
    }
    while (m->status == DK_OK) {
        if (white) {
            uint32_t code;
            text = strip(text, by, true, false);
            found = 0;
            while (found < text.count) {
                const int32_t length = dk_template_next(text.as.text + found, text.count - (int32_t)found, &code);
                if (is_white(code)) {
                    break;
                }
                found += length;
            }
            if (text.count == 0) {
                break;
            }
            found = found == text.count ? -1 : found;
        } else {
            found = dk_template_find(text, by, 0);
        }
        if (found < 0 || most-- == 0) {
            dk_template_push(m, white ? strip(text, by, false, true) : text);
            break;
        }
        dk_template_push(m, dk_text_of(text.as.text, found));
        text.as.text += found + (white ? 0 : by.count);
        text.count -= (int32_t)found + (white ? 0 : by.count);
    }
    count = before - m->top;
    items = dk_template_take(m, count);
    for (int64_t i = 0; items != NULL && i < count; ++i) {
        items[i] = before[-1 - i];
    }
    m->top += count;
    return items == NULL ? undefined() : dk_items(DK_V_LIST, items, count);
}

static dk_value join(dk_machine* m, dk_value of, dk_value by) {
    const dk_value list = dk_template_list(m, of), between = dk_template_str(m, by);
    dk_value* texts = dk_template_take(m, list.count);
    const char* begin;
    for (int32_t i = 0; texts != NULL && i < list.count; ++i) {
        texts[i] = dk_template_str(m, list.as.items[i]);
    }
    begin = dk_template_begin(m);
    for (int32_t i = 0; texts != NULL && i < list.count && m->status == DK_OK; ++i) {
        dk_template_put(m, between.as.text, i == 0 ? 0 : (size_t)between.count);
        dk_template_put(m, texts[i].as.text, (size_t)texts[i].count);
    }
    return m->status == DK_OK ? dk_template_end(m, begin) : undefined();
}

/* The pairs of a map as tuples, or only their keys (0) or values (1). */
static dk_value pairs(dk_machine* m, dk_value map, int32_t part) {
    dk_value* items;
    if (map.kind != DK_V_MAP) {
        return dk_template_wrong(m);
    }
    items = dk_template_take(m, map.count);
    for (int32_t i = 0; items != NULL && i < map.count; ++i) {
        items[i] = part < 2 ? map.as.items[2 * i + part] : dk_items(DK_V_TUPLE, map.as.items + 2 * (size_t)i, 2);
    }
    return items == NULL ? undefined() : dk_items(DK_V_LIST, items, map.count);
}

/* A character of a key as Jinja sorts it: its case does not matter. -1 behind the key. */
static int32_t folded(dk_machine* m, dk_value key, int32_t at) {
    const unsigned char c = at < key.count ? (unsigned char)key.as.text[at] : 0;
    if (c >= 0x80) {
        dk_template_fail(m, DK_ERROR_USAGE, "the template sorts letters beyond ASCII");
    }
    return at >= key.count ? -1 : c >= 'A' && c <= 'Z' ? c | 32 : c;
}

static bool sorts_before(dk_machine* m, dk_value a, dk_value b) {
    int32_t at = 0;
    if (a.kind == DK_V_INT && b.kind == DK_V_INT) {
        return a.as.number < b.as.number;
    }
    if (a.kind != DK_V_STRING || b.kind != DK_V_STRING) {
        dk_template_wrong(m);
        return false;
    }
    while (at < a.count && folded(m, a, at) == folded(m, b, at)) {
        ++at;
    }
    return folded(m, a, at) < folded(m, b, at);
}

/* The pairs of a map by their keys. */
static dk_value sorted(dk_machine* m, dk_value map) {
    const dk_value found = pairs(m, map, 2);
    dk_value* items = m->status == DK_OK ? dk_template_take(m, found.count) : NULL;
    for (int32_t i = 0; items != NULL && i < found.count && m->status == DK_OK; ++i) {
        int32_t place = i;
        for (; place > 0 && sorts_before(m, found.as.items[i].as.items[0], items[place - 1].as.items[0]); --place) {
            items[place] = items[place - 1];
        }
        items[place] = found.as.items[i];
    }
    return items == NULL ? undefined() : dk_items(DK_V_LIST, items, found.count);
}

static dk_value range(dk_machine* m, int64_t from, int64_t to, int64_t by) {
    const int64_t most = 1 << 24;
    int64_t count = 0;
    dk_value* items;
    if (by == 0 || from > most || from < -most || to > most || to < -most || by > most || by < -most) {
        return dk_template_wrong(m);
    }
    count = by > 0 ? (to - from + by - 1) / by : (from - to - by - 1) / -by;
    count = count < 0 ? 0 : count;
    items = dk_template_take(m, count);
    for (int64_t i = 0; items != NULL && i < count; ++i) {
        items[i] = dk_value_of(DK_V_INT, from + i * by);
    }
    return items == NULL ? undefined() : dk_items(DK_V_LIST, items, count);
}

static dk_value refuse(dk_machine* m, dk_value why) {
    const char* begin = dk_template_begin(m);
    const dk_value text = dk_template_str(m, why);
    begin = dk_template_begin(m);
    dk_template_put(m, "the template refuses these messages: ", 37);
    dk_template_put(m, text.as.text, (size_t)text.count);
    dk_template_put(m, "", 1);
    return dk_template_fail(m, DK_ERROR_USAGE, begin);
}

/* A part that is not there, and has the name of a method of Python's texts, lists or maps, is no value here. */
static dk_value no_method(dk_machine* m, dk_value of, dk_value name) {
    static const char texts[] =
        " capitalize casefold center count encode endswith expandtabs find format format_map index isalnum isalpha "
        "isascii isdecimal isdigit isidentifier islower isnumeric isprintable isspace istitle isupper join ljust lower "
        "lstrip maketrans partition removeprefix removesuffix replace rfind rindex rjust rpartition rsplit rstrip "
        "split "
        "splitlines startswith strip swapcase title translate upper zfill ";
    static const char lists[] = " append clear copy count extend index insert pop remove reverse sort ";
    static const char maps[] = " clear copy fromkeys get items keys pop popitem setdefault update values ";
    char word[16] = {' '};
    const dk_value methods = of.kind == DK_V_STRING ? dk_text_of(texts, sizeof texts - 1)
                             : of.kind == DK_V_LIST ? dk_text_of(lists, sizeof lists - 1)
                             : of.kind == DK_V_MAP  ? dk_text_of(maps, sizeof maps - 1)
                                                    : dk_text_of("", 0);
    if (name.kind == DK_V_STRING && name.count < 14) {
        memcpy(word + 1, name.as.text, (size_t)name.count);
        word[name.count + 1] = ' ';
        if (dk_template_find(methods, dk_text_of(word, name.count + 2), 0) >= 0) {
            return dk_template_fail(m, DK_ERROR_USAGE, "the template uses a method as a value");
        }
    }
    return undefined();
}

static int64_t number_of(dk_machine* m, dk_value v, int64_t usual) {
    if (v.kind != DK_V_INT && v.kind != DK_V_UNDEFINED && v.kind != DK_V_NONE) {
        dk_template_wrong(m);
    }
    return v.kind == DK_V_INT ? v.as.number : usual;
}

dk_value dk_template_call(dk_machine* m, int32_t function, const dk_value* last, int32_t count) {
    const dk_value a = count > 0 ? last[count - 1] : undefined(), b = count > 1 ? last[count - 2] : undefined();
    const dk_value c = count > 2 ? last[count - 3] : undefined(), d = count > 3 ? last[count - 4] : undefined();
    if (((function >= DK_F_STRIP && function <= DK_F_TITLE) || function == DK_F_STRFTIME) && a.kind != DK_V_STRING) {
        return dk_template_wrong(m);
    }
    switch (function) {
    case DK_F_STRING:
        return dk_template_str(m, a);
    case DK_F_LENGTH:
        if (a.kind == DK_V_STRING) {
            return dk_value_of(DK_V_INT, characters(a));
        }
        return dk_is_list(a) || a.kind == DK_V_MAP ? dk_value_of(DK_V_INT, a.count)
               : a.kind == DK_V_UNDEFINED          ? dk_value_of(DK_V_INT, 0)
                                                   : dk_template_wrong(m);
    case DK_F_TOJSON: {
        const char* begin = dk_template_begin(m);
        const int64_t indent = number_of(m, b, -1);
        dk_template_put_json(m, a, indent > 64 ? 64 : (int32_t)indent, dk_template_truth(c), 0);
        return dk_template_end(m, begin);
    }
    case DK_F_STRIP:
    case DK_F_LSTRIP:
    case DK_F_RSTRIP:
        return strip(a, b, function != DK_F_RSTRIP, function != DK_F_LSTRIP);
    case DK_F_STARTSWITH:
    case DK_F_ENDSWITH:
        return ends_with(m, a, b, function == DK_F_STARTSWITH);
    case DK_F_SPLIT:
        return split(m, a, b, number_of(m, c, -1));
    case DK_F_REPLACE:
        return replace(m, a, b, c, number_of(m, d, -1));
    case DK_F_UPPER:
    case DK_F_LOWER:
    case DK_F_CAPITALIZE:
    case DK_F_TITLE:
        return cased(m, a, function);
    case DK_F_JOIN:
        return join(m, a, b);
    case DK_F_FIRST:
    case DK_F_LAST: {
        const dk_value list = dk_template_list(m, a);
        return list.kind != DK_V_LIST || list.count == 0 ? undefined()
                                                         : list.as.items[function == DK_F_FIRST ? 0 : list.count - 1];
    }
    case DK_F_LIST:
        return dk_template_list(m, a);
    case DK_F_REVERSE:
        return dk_template_slice(
            m, a.kind == DK_V_STRING ? a : dk_template_list(m, a), undefined(), undefined(), dk_value_of(DK_V_INT, -1)
        );
    case DK_F_ITEMS:
    case DK_F_KEYS:
    case DK_F_VALUES:
        return pairs(m, a, function == DK_F_ITEMS ? 2 : function == DK_F_VALUES);
    case DK_F_GET: {
        const dk_value found = a.kind == DK_V_MAP ? dk_template_look_up(a, b) : dk_template_wrong(m);
        return found.kind != DK_V_UNDEFINED ? found : count > 2 ? c : dk_value_of(DK_V_NONE, 0);
    }
    case DK_F_DICTSORT:
        return sorted(m, a);
    case DK_F_DEFAULT:
        return a.kind == DK_V_UNDEFINED ? b : a;
    case DK_F_IS_TRUE:
    case DK_F_IS_FALSE:
        return dk_value_of(DK_V_BOOL, a.kind == DK_V_BOOL && (a.as.number != 0) == (function == DK_F_IS_TRUE));
    case DK_F_RANGE:
        return count == 1 ? range(m, 0, number_of(m, a, 0), 1)
                          : range(m, number_of(m, a, 0), number_of(m, b, 0), number_of(m, c, 1));
    case DK_F_RAISE:
        return refuse(m, a);
    case DK_F_STRFTIME:
        return dk_template_tell(m, a);
    case DK_F_NO_METHOD:
        return no_method(m, a, b);
    default:
        return dk_template_fail(m, DK_ERROR_DATA, "the program of the template is damaged");
    }
}
