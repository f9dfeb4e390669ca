/* JSON and the values of templates. */
#include "template_values.h"

#include <string.h>

static void put_unit(dk_machine* m, uint32_t unit) {
    static const char hex[] = "0123456789abcdef";
    const char text[6] = {'\\', 'u', hex[unit >> 12 & 15], hex[unit >> 8 & 15], hex[unit >> 4 & 15], hex[unit & 15]};
    dk_template_put(m, text, sizeof text);
}

static void put_text(dk_machine* m, dk_value v, bool ascii) {
    static const char special[] = "\"\\\n\r\t\b\f", names[] = "\"\\nrtbf";
    int32_t length;
    dk_template_put(m, "\"", 1);
    for (int32_t i = 0; i < v.count; i += length) {
        const char c = v.as.text[i];
        const int32_t found = dk_template_place(special, c);
        uint32_t code;
        length = dk_template_next(v.as.text + i, v.count - i, &code);
        if (found >= 0) {
            const char escaped[2] = {'\\', names[found]};
            dk_template_put(m, escaped, 2);
        } else if (ascii && code >= 0x10000) {
            put_unit(m, 0xd800 + ((code - 0x10000) >> 10 & 0x3ff));
            put_unit(m, 0xdc00 + (code & 0x3ff));
        } else if (code < ' ' || (ascii && code >= 0x7f)) {
            put_unit(m, code);
        } else {
            dk_template_put(m, v.as.text + i, (size_t)length);
        }
    }
    dk_template_put(m, "\"", 1);
}

static void put_line(dk_machine* m, int32_t indent, int32_t depth) {
    if (indent >= 0) {
        dk_template_put(m, "\n", 1);
        for (int32_t i = 0; i < indent * depth && m->status == DK_OK; ++i) {
            dk_template_put(m, " ", 1);
        }
    }
}

void dk_template_put_json(dk_machine* m, dk_value v, int32_t indent, bool ascii, int32_t depth) {
    const bool map = v.kind == DK_V_MAP;
    if (!dk_template_nests(m, depth)) {
        return;
    }
    switch (v.kind) {
    case DK_V_NONE:
        dk_template_put(m, "null", 4);
        break;
    case DK_V_BOOL:
        dk_template_put(m, v.as.number ? "true" : "false", v.as.number ? 4 : 5);
        break;
    case DK_V_INT:
    case DK_V_NUMBER:
        dk_template_put_number(m, v);
        break;
    case DK_V_STRING:
        put_text(m, v, ascii);
        break;
    case DK_V_LIST:
    case DK_V_TUPLE:
    case DK_V_MAP:
        dk_template_put(m, map ? "{" : "[", 1);
        for (int32_t i = 0; i < v.count; ++i) {
            dk_template_put(m, indent >= 0 ? "," : ", ", i == 0 ? 0 : indent >= 0 ? 1 : 2);
            put_line(m, indent, depth + 1);
            if (map) {
                if (v.as.items[2 * i].kind != DK_V_STRING) {
                    dk_template_fail(m, DK_ERROR_USAGE, "the template writes JSON with keys that are no texts");
                    return;
                }
                put_text(m, v.as.items[2 * i], ascii);
                dk_template_put(m, ": ", 2);
            }
            dk_template_put_json(m, v.as.items[map ? 2 * i + 1 : i], indent, ascii, depth + 1);
        }
        if (v.count > 0) {
            put_line(m, indent, depth);
        }
        dk_template_put(m, map ? "}" : "]", 1);
        break;
    default:
        dk_template_fail(m, DK_ERROR_USAGE, "the template writes JSON of something that is not there");
    }
}

/* Where reading is. */
typedef struct reader {
    dk_machine* m;
    const char* at;
    const char* end;
} reader;

static dk_value damaged(reader* r) {
    r->at = r->end;
    return dk_template_fail(r->m, DK_ERROR_DATA, "the conversation is no JSON, or nested too deeply");
}

/* The next character that is no white space; 0 at the end. */
static char peek(reader* r) {
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\n' || *r->at == '\r' || *r->at == '\t')) {
        ++r->at;
    }
    return r->at < r->end ? *r->at : '\0';
}

static bool take(reader* r, const char* word) {
    const size_t bytes = strlen(word);
    if ((size_t)(r->end - r->at) < bytes || !dk_template_same(r->at, word, (int64_t)bytes)) {
        return false;
    }
    r->at += bytes;
    return true;
}

/* Four digits of hexadecimal; a number that is no unit if they are not there. */
static uint32_t read_unit(reader* r) {
    uint32_t unit = 0;
    for (int32_t i = 0; i < 4; ++i, ++r->at) {
        const char c = r->at < r->end ? *r->at : 'x';
        const uint32_t digit = c >= '0' && c <= '9'   ? (uint32_t)(c - '0')
                               : c >= 'a' && c <= 'f' ? (uint32_t)(c - 'a') + 10
                               : c >= 'A' && c <= 'F' ? (uint32_t)(c - 'A') + 10
                                                      : 16;
        if (digit == 16) {
            return 0x10000;
        }
        unit = unit << 4 | digit;
    }
    return unit;
}

/* A character that is written in hexadecimal, in UTF-8. */
static void read_code(reader* r) {
    uint32_t code = read_unit(r);
    char text[4];
    if (code > 0xffff) {
        damaged(r);
        return;
    }
    if (code >= 0xd800 && code < 0xe000) {
        const char* second = r->at;
        const uint32_t low = code < 0xdc00 && take(r, "\\u") ? read_unit(r) : 0;
        if (low >= 0xdc00 && low < 0xe000) {
            code = 0x10000 + ((code & 0x3ff) << 10 | (low & 0x3ff));
        } else {
            r->at = second;
            code = 0xfffd; /* half a character */
        }
    }
    if (code < 0x80) {
        text[0] = (char)code;
        dk_template_put(r->m, text, 1);
        return;
    }
    const int32_t more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    text[0] = (char)((0xff00u >> (more + 1) & 0xff) | code >> (6 * more));
    for (int32_t i = 1; i <= more; ++i) {
        text[i] = (char)(0x80 | (code >> (6 * (more - i)) & 0x3f));
    }
    dk_template_put(r->m, text, (size_t)more + 1);
}

/* A text; one without escapes stays where it is. */
static dk_value read_string(reader* r) {
    static const char names[] = "\"\\/nrtbf", values[] = "\"\\/\n\r\t\b\f";
    const char *begin = ++r->at, *made;
    while (r->at < r->end && *r->at != '"' && *r->at != '\\') {
        ++r->at;
    }
    if (r->at < r->end && *r->at == '"' && r->at - begin <= INT32_MAX) {
        return dk_text_of(begin, r->at++ - begin);
    }
    made = dk_template_begin(r->m);
    dk_template_put(r->m, begin, (size_t)(r->at - begin));
    while (r->at < r->end && *r->at != '"') {
        const char c = *r->at++;
        if (c != '\\') {
            dk_template_put(r->m, &c, 1);
        } else if (r->at < r->end && *r->at == 'u') {
            ++r->at;
            read_code(r);
        } else {
            const int32_t found = r->at < r->end ? dk_template_place(names, *r->at) : -1;
            if (found < 0) {
                return damaged(r);
            }
            dk_template_put(r->m, values + found, 1);
            ++r->at;
        }
    }
    if (r->at >= r->end) {
        return damaged(r);
    }
    ++r->at;
    return dk_template_end(r->m, made);
}

static dk_value read_number(reader* r) {
    const char* begin = r->at;
    int64_t number = 0;
    bool whole = true;
    for (; r->at < r->end && dk_template_place("+-.0123456789eE", *r->at) >= 0; ++r->at) {
        whole = whole && ((*r->at >= '0' && *r->at <= '9') || (*r->at == '-' && r->at == begin));
        if (whole && *r->at != '-' && r->at - begin < 19) {
            number = 10 * number + (*r->at - '0');
        }
    }
    if (r->at == begin || r->at - begin > 64 || r->at[-1] < '0' || r->at[-1] > '9') {
        return damaged(r);
    }
    if (whole && r->at - begin < 19) {
        return dk_value_of(DK_V_INT, *begin == '-' ? -number : number);
    }
    dk_value text = dk_text_of(begin, r->at - begin);
    text.kind = DK_V_NUMBER;
    return text;
}

static dk_value read_value(reader* r, int32_t depth);

/* The values of a list or a map, which are on the stack until all are there. */
static dk_value read_values(reader* r, bool map, int32_t depth) {
    dk_machine* m = r->m;
    const char close = map ? '}' : ']';
    const dk_value* before = m->top;
    dk_value* items;
    ++r->at;
    for (bool first = true; peek(r) != close; first = false) {
        if (!first && !take(r, ",")) {
            return damaged(r);
        }
        if (map) {
            if (peek(r) != '"') {
                return damaged(r);
            }
            dk_template_push(m, read_string(r));
            if (peek(r) != ':') {
                return damaged(r);
            }
            ++r->at;
        }
        dk_template_push(m, read_value(r, depth + 1));
        if (m->status != DK_OK) {
            return damaged(r);
        }
    }
    ++r->at;
    const int64_t count = before - m->top;
    items = dk_template_take(m, count);
    for (int64_t i = 0; items != NULL && i < count; ++i) {
        items[i] = before[-1 - i];
    }
    m->top += count;
    return items == NULL ? dk_value_of(DK_V_UNDEFINED, 0)
                         : dk_items(map ? DK_V_MAP : DK_V_LIST, items, map ? count / 2 : count);
}

static dk_value read_value(reader* r, int32_t depth) {
    const char c = peek(r);
    if (depth > DK_MOST_DEPTH) {
        return damaged(r);
    }
    if (c == '{' || c == '[') {
        return read_values(r, c == '{', depth);
    }
    if (c == '"') {
        return read_string(r);
    }
    if (c == 'n' && take(r, "null")) {
        return dk_value_of(DK_V_NONE, 0);
    }
    if ((c == 't' && take(r, "true")) || (c == 'f' && take(r, "false"))) {
        return dk_value_of(DK_V_BOOL, c == 't');
    }
    return read_number(r);
}

dk_value dk_template_read_json(dk_machine* m, const char* text, size_t bytes) {
    reader r = {m, text, text + bytes};
    const dk_value v = read_value(&r, 0);
    (void)peek(&r);
    return m->status == DK_OK && r.at < r.end ? damaged(&r) : v;
}
