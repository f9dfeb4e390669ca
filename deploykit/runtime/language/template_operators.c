/* Operators of templates and parts of values, as Python has them. */
#include "template_values.h"

void dk_template_set_field(dk_machine* m, dk_value space, dk_value name, dk_value v) {
    dk_field* field;
    if (space.kind != DK_V_NAMESPACE) {
        dk_template_wrong(m);
        return;
    }
    for (field = *space.as.fields; field != NULL; field = field->next) {
        if (dk_template_equal(m, field->name, name, 0)) {
            field->value = v;
            return;
        }
    }
    field = (dk_field*)(void*)dk_template_take(m, sizeof *field / sizeof v + 1);
    if (field != NULL) {
        field->name = name;
        field->value = v;
        field->next = *space.as.fields;
        *space.as.fields = field;
    }
}

dk_value dk_template_namespace(dk_machine* m, dk_value fields) {
    dk_value made = dk_value_of(DK_V_NAMESPACE, 0);
    made.as.fields = (dk_field**)(void*)dk_template_take(m, 1);
    if (fields.kind != DK_V_MAP || made.as.fields == NULL) {
        return dk_value_of(DK_V_UNDEFINED, 0);
    }
    *made.as.fields = NULL;
    for (int32_t i = 0; i < fields.count; ++i) {
        dk_template_set_field(m, made, fields.as.items[2 * i], fields.as.items[2 * i + 1]);
    }
    return made;
}

dk_value dk_template_item(dk_machine* m, dk_value of, dk_value key) {
    const bool by_place = key.kind == DK_V_INT && (dk_is_list(of) || of.kind == DK_V_STRING);
    int64_t place = key.as.number;
    if (of.kind == DK_V_UNDEFINED) {
        return dk_template_fail(m, DK_ERROR_USAGE, "the template wants a part of something that is not there");
    }
    if (by_place) {
        const dk_value call = of;
        const int64_t length = dk_template_call(m, DK_F_LENGTH, &call, 1).as.number;
        place += place < 0 ? length : 0;
        if (place < 0 || place >= length) {
            return dk_value_of(DK_V_UNDEFINED, 0);
        }
        return dk_is_list(of) ? of.as.items[place]
                              : dk_template_slice(
                                    m, of, dk_value_of(DK_V_INT, place), dk_value_of(DK_V_INT, place + 1),
                                    dk_value_of(DK_V_UNDEFINED, 0)
                                );
    }
    const dk_value found = dk_template_look_up(of, key), asked[2] = {key, of};
    return found.kind != DK_V_UNDEFINED ? found : dk_template_call(m, DK_F_NO_METHOD, asked, 2);
}

static bool is_int(dk_value v) {
    return (v.kind == DK_V_INT || v.kind == DK_V_BOOL) && v.as.number < (int64_t)1 << 31 &&
           v.as.number > -((int64_t)1 << 31);
}

/* One value several times, or two behind each other. */
static dk_value behind(dk_machine* m, dk_value a, dk_value b, int64_t times) {
    const char* begin = dk_template_begin(m);
    dk_value* items;
    if (a.kind == DK_V_STRING) {
        for (int64_t i = 0; i < times && m->status == DK_OK && a.count > 0; ++i) {
            dk_template_put(m, a.as.text, (size_t)a.count);
        }
        dk_template_put(m, b.as.text, (size_t)b.count);
        return dk_template_end(m, begin);
    }
    items = dk_template_take(m, (int64_t)a.count + b.count);
    for (int32_t i = 0; items != NULL && i < a.count + b.count; ++i) {
        items[i] = i < a.count ? a.as.items[i] : b.as.items[i - a.count];
    }
    return items == NULL ? dk_value_of(DK_V_UNDEFINED, 0) : dk_items(DK_V_LIST, items, (int64_t)a.count + b.count);
}

dk_value dk_template_arithmetic(dk_machine* m, dk_op op, dk_value a, dk_value b) {
    const int64_t x = a.as.number, y = b.as.number;
    if (op == DK_OP_ADD && a.kind == b.kind && (a.kind == DK_V_STRING || a.kind == DK_V_LIST)) {
        return behind(m, a, b, 1);
    }
    if (op == DK_OP_MULTIPLY && a.kind == DK_V_STRING && is_int(b)) {
        return behind(m, a, dk_text_of("", 0), y);
    }
    if (!is_int(a) || !is_int(b) || ((op == DK_OP_MODULO || op == DK_OP_DIVIDE) && y == 0)) {
        return dk_template_wrong(m);
    }
    switch (op) {
    case DK_OP_ADD:
        return dk_value_of(DK_V_INT, x + y);
    case DK_OP_SUBTRACT:
        return dk_value_of(DK_V_INT, x - y);
    case DK_OP_MULTIPLY:
        return dk_value_of(DK_V_INT, x * y);
    case DK_OP_MODULO:
        return dk_value_of(DK_V_INT, x % y + (x % y != 0 && (x < 0) != (y < 0) ? y : 0));
    default:
        return dk_value_of(DK_V_INT, x / y - (x % y != 0 && (x < 0) != (y < 0)));
    }
}

dk_value dk_template_less(dk_machine* m, dk_value a, dk_value b) {
    if (a.kind == DK_V_STRING && b.kind == DK_V_STRING) {
        int32_t i = 0;
        while (i < a.count && i < b.count && a.as.text[i] == b.as.text[i]) {
            ++i;
        }
        return dk_value_of(
            DK_V_BOOL, i < b.count && (i == a.count || (unsigned char)a.as.text[i] < (unsigned char)b.as.text[i])
        );
    }
    return is_int(a) && is_int(b) ? dk_value_of(DK_V_BOOL, a.as.number < b.as.number) : dk_template_wrong(m);
}

dk_value dk_template_within(dk_machine* m, dk_value part, dk_value in) {
    bool found = false;
    if (in.kind == DK_V_STRING) {
        return part.kind == DK_V_STRING ? dk_value_of(DK_V_BOOL, dk_template_find(in, part, 0) >= 0)
                                        : dk_template_wrong(m);
    }
    if (in.kind == DK_V_MAP) {
        return dk_value_of(DK_V_BOOL, dk_template_look_up(in, part).kind != DK_V_UNDEFINED);
    }
    if (!dk_is_list(in) && in.kind != DK_V_UNDEFINED) {
        return dk_template_wrong(m);
    }
    for (int32_t i = 0; dk_is_list(in) && i < in.count && !found; ++i) {
        found = dk_template_equal(m, part, in.as.items[i], 0);
    }
    return dk_value_of(DK_V_BOOL, found);
}
