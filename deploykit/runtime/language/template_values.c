/* Values of templates: memory, comparison, characters. */
#include "template_values.h"

#include <string.h>

void dk_template_open(dk_machine* m, unsigned char* workspace, size_t bytes) {
    const size_t over = (size_t)((uintptr_t)workspace % sizeof(dk_value));
    const size_t space = over == 0 ? 0 : sizeof(dk_value) - over;
    const size_t values = workspace == NULL || bytes < space ? 0 : (bytes - space) / sizeof(dk_value);
    m->free = values == 0 ? workspace : workspace + space;
    m->end = m->top = (dk_value*)(void*)m->free + values;
}

dk_value dk_template_fail(dk_machine* m, dk_status status, const char* error) {
    if (m->status == DK_OK) {
        m->status = status;
        m->error = error;
    }
    return dk_value_of(DK_V_UNDEFINED, 0);
}

dk_value dk_template_wrong(dk_machine* m) {
    return dk_template_fail(m, DK_ERROR_USAGE, "the template does something with a value that is not for its kind");
}

static dk_value full(dk_machine* m) {
    return dk_template_fail(m, DK_ERROR_ARENA, "the conversation needs more memory than the workspace has");
}

static size_t left(const dk_machine* m) {
    return (size_t)((unsigned char*)m->top - m->free);
}

dk_value* dk_template_take(dk_machine* m, int64_t count) {
    dk_value* made = (dk_value*)(void*)m->free;
    if (m->status != DK_OK || count < 0 || (uint64_t)count > left(m) / sizeof *made || count > INT32_MAX) {
        full(m);
        return NULL;
    }
    m->free += (size_t)count * sizeof *made;
    return made;
}

void dk_template_push(dk_machine* m, dk_value v) {
    if (left(m) < sizeof v) {
        full(m);
        return;
    }
    *--m->top = v;
}

const char* dk_template_begin(const dk_machine* m) {
    return (const char*)m->free;
}

void dk_template_put(dk_machine* m, const char* text, size_t bytes) {
    if (bytes > left(m)) {
        full(m);
    } else if (bytes > 0) {
        memcpy(m->free, text, bytes);
        m->free += bytes;
    }
}

dk_value dk_template_end(dk_machine* m, const char* begin) {
    const int64_t bytes = (const char*)m->free - begin;
    const size_t over = (size_t)((uintptr_t)m->free % sizeof(dk_value));
    const size_t space = over == 0 ? 0 : sizeof(dk_value) - over;
    if (bytes > INT32_MAX || space > left(m)) {
        return full(m);
    }
    m->free += space;
    return dk_text_of(begin, bytes);
}

int32_t dk_template_place(const char* set, char c) {
    for (int32_t i = 0; set[i] != '\0'; ++i) {
        if (set[i] == c) {
            return i;
        }
    }
    return -1;
}

bool dk_template_same(const char* a, const char* b, int64_t bytes) {
    for (int64_t i = 0; i < bytes; ++i) {
        if (a[i] != b[i]) {
            return false;
        }
    }
    return true;
}

static bool is_number(dk_value v) {
    return v.kind == DK_V_BOOL || v.kind == DK_V_INT;
}

bool dk_template_equal(dk_machine* m, dk_value a, dk_value b, int32_t depth) {
    if (is_number(a) && is_number(b)) {
        return a.as.number == b.as.number;
    }
    if ((a.kind == DK_V_NUMBER && (is_number(b) || b.kind == DK_V_NUMBER)) || (b.kind == DK_V_NUMBER && is_number(a)) ||
        depth > DK_MOST_DEPTH) {
        dk_template_fail(m, DK_ERROR_USAGE, "the template compares numbers with fractions");
        return false;
    }
    if (a.kind != b.kind || (a.kind >= DK_V_STRING && a.count != b.count)) {
        return false;
    }
    if (a.kind == DK_V_STRING) {
        return dk_template_same(a.as.text, b.as.text, a.count);
    }
    if (a.kind == DK_V_NAMESPACE) {
        return a.as.fields == b.as.fields;
    }
    for (int32_t i = 0; dk_is_list(a) && i < a.count; ++i) {
        if (!dk_template_equal(m, a.as.items[i], b.as.items[i], depth + 1)) {
            return false;
        }
    }
    for (int32_t i = 0; a.kind == DK_V_MAP && i < a.count; ++i) {
        const dk_value other = dk_template_look_up(b, a.as.items[2 * i]);
        if (other.kind == DK_V_UNDEFINED || !dk_template_equal(m, a.as.items[2 * i + 1], other, depth + 1)) {
            return false;
        }
    }
    return true;
}

bool dk_template_truth(dk_value v) {
    switch (v.kind) {
    case DK_V_UNDEFINED:
    case DK_V_MISSING:
    case DK_V_NONE:
        return false;
    case DK_V_BOOL:
    case DK_V_INT:
        return v.as.number != 0;
    case DK_V_NUMBER: /* zero has no other digit in front of its exponent */
        for (int32_t i = 0; i < v.count && v.as.text[i] != 'e' && v.as.text[i] != 'E'; ++i) {
            if (v.as.text[i] >= '1' && v.as.text[i] <= '9') {
                return true;
            }
        }
        return false;
    case DK_V_NAMESPACE:
        return true;
    default:
        return v.count > 0;
    }
}

static bool is_key(dk_value found, dk_value key) {
    return found.kind == key.kind &&
           (key.kind == DK_V_STRING
                ? found.count == key.count && dk_template_same(found.as.text, key.as.text, key.count)
                : is_number(key) && found.as.number == key.as.number);
}

dk_value dk_template_look_up(dk_value map, dk_value key) {
    if (map.kind == DK_V_NAMESPACE) {
        for (const dk_field* field = *map.as.fields; field != NULL; field = field->next) {
            if (is_key(field->name, key)) {
                return field->value;
            }
        }
    }
    for (int32_t i = map.kind == DK_V_MAP ? map.count : 0; i > 0; --i) {
        if (is_key(map.as.items[2 * i - 2], key)) {
            return map.as.items[2 * i - 1];
        }
    }
    return dk_value_of(DK_V_UNDEFINED, 0);
}

int32_t dk_template_next(const char* text, int32_t bytes, uint32_t* code) {
    static const uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char* at = (const unsigned char*)text;
    const int32_t length = at[0] < 0x80   ? 1
                           : at[0] < 0xc0 ? 0
                           : at[0] < 0xe0 ? 2
                           : at[0] < 0xf0 ? 3
                           : at[0] < 0xf8 ? 4
                                          : 0;
    uint32_t found = length < 2 ? at[0] : at[0] & (0x7fu >> length);
    *code = at[0] < 0x80 ? at[0] : 0xfffd;
    for (int32_t i = 1; i < length; ++i) {
        if (i >= bytes || (at[i] & 0xc0) != 0x80) {
            return 1;
        }
        found = found << 6 | (at[i] & 0x3fu);
    }
    if (length < 2 || found < least[length]) {
        return 1;
    }
    *code = found;
    return length;
}

int32_t dk_template_last(const char* text, int32_t bytes, uint32_t* code) {
    for (int32_t length = 2; length <= 4 && length <= bytes; ++length) {
        if (dk_template_next(text + bytes - length, length, code) == length) {
            return length;
        }
    }
    return dk_template_next(text + bytes - 1, 1, code);
}

int64_t dk_template_find(dk_value in, dk_value part, int64_t from) {
    for (; from + part.count <= in.count; ++from) {
        if (dk_template_same(in.as.text + from, part.as.text, part.count)) {
            return from;
        }
    }
    return -1;
}

static void put_word(dk_machine* m, const char* word) {
    dk_template_put(m, word, strlen(word));
}

bool dk_template_nests(dk_machine* m, int32_t depth) {
    if (depth > DK_MOST_DEPTH) {
        dk_template_fail(m, DK_ERROR_USAGE, "the values of the conversation are nested too deeply");
    }
    return m->status == DK_OK;
}

void dk_template_put_number(dk_machine* m, dk_value v) {
    char digits[20];
    const int64_t number = v.as.number;
    int32_t at = (int32_t)sizeof digits;
    if (v.kind == DK_V_NUMBER) { /* as it was written */
        dk_template_put(m, v.as.text, (size_t)v.count);
        return;
    }
    uint64_t rest = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
    do {
        digits[--at] = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest > 0);
    if (number < 0) {
        put_word(m, "-");
    }
    dk_template_put(m, digits + at, sizeof digits - (size_t)at);
}

/* A text as Python's repr writes it. Which of the other characters it escapes is in tables that are not here. */
static void put_repr(dk_machine* m, dk_value v) {
    static const char hex[] = "0123456789abcdef";
    const bool twice =
        dk_template_find(v, dk_text_of("'", 1), 0) >= 0 && dk_template_find(v, dk_text_of("\"", 1), 0) < 0;
    const char quote = twice ? '"' : '\'';
    dk_template_put(m, &quote, 1);
    for (int32_t i = 0; i < v.count; ++i) {
        const char c = v.as.text[i];
        const char escaped[4] = {'\\', c == '\n' ? 'n' : c == '\r' ? 'r' : c == '\t' ? 't' : c, 0, 0};
        const char coded[4] = {'\\', 'x', hex[(unsigned char)c >> 4], hex[(unsigned char)c & 15]};
        if ((unsigned char)c >= 0x80) {
            dk_template_fail(m, DK_ERROR_USAGE, "the template writes a list or an object with letters beyond ASCII");
            return;
        }
        if (c == '\\' || c == quote || c == '\n' || c == '\r' || c == '\t') {
            dk_template_put(m, escaped, 2);
        } else if (c < ' ' || c == 0x7f) {
            dk_template_put(m, coded, 4);
        } else {
            dk_template_put(m, &c, 1);
        }
    }
    dk_template_put(m, &quote, 1);
}

static void put_value(dk_machine* m, dk_value v, int32_t depth) {
    if (!dk_template_nests(m, depth)) {
        return;
    }
    switch (v.kind) {
    case DK_V_NONE:
        put_word(m, "None");
        break;
    case DK_V_BOOL:
        put_word(m, v.as.number ? "True" : "False");
        break;
    case DK_V_INT:
    case DK_V_NUMBER:
        dk_template_put_number(m, v);
        break;
    case DK_V_STRING:
        if (depth > 0) {
            put_repr(m, v);
        } else {
            dk_template_put(m, v.as.text, (size_t)v.count);
        }
        break;
    case DK_V_LIST:
    case DK_V_TUPLE:
    case DK_V_MAP:
        put_word(m, v.kind == DK_V_LIST ? "[" : v.kind == DK_V_TUPLE ? "(" : "{");
        for (int32_t i = 0; i < v.count; ++i) {
            put_word(m, i == 0 ? "" : ", ");
            if (v.kind == DK_V_MAP) {
                put_value(m, v.as.items[2 * i], depth + 1);
                put_word(m, ": ");
            }
            put_value(m, v.as.items[v.kind == DK_V_MAP ? 2 * i + 1 : i], depth + 1);
        }
        put_word(m, v.kind == DK_V_LIST ? "]" : v.kind == DK_V_MAP ? "}" : v.count == 1 ? ",)" : ")");
        break;
    case DK_V_NAMESPACE:
        dk_template_fail(m, DK_ERROR_USAGE, "the template writes a namespace");
        break;
    default: /* undefined: nothing */
        break;
    }
}

dk_value dk_template_str(dk_machine* m, dk_value v) {
    const char* begin = dk_template_begin(m);
    if (v.kind == DK_V_STRING) {
        return v;
    }
    put_value(m, v, 0);
    return dk_template_end(m, begin);
}
