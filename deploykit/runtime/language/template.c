/* Programs of templates: a stack of values, variables in frames, loops, and text that is written. */
#include "template_values.h"

#include <string.h>

enum { MAGIC = 0x31544b44, HEADER = 3, MOST_FRAMES = 32, MOST_LOOPS = 32, MOST_STEPS = 1 << 24 };

typedef struct frame {
    uint32_t back;   /* the step behind the call */
    dk_value* base;  /* variables are below it */
    size_t captured; /* where the text of the macro begins */
    int32_t loops;   /* that go on outside */
} frame;

typedef struct loop {
    dk_value items;
    int32_t index;  /* of the item; -1 before the first one */
    dk_value* room; /* for what is collected; NULL if nothing is */
    int32_t collected;
} loop;

typedef struct run {
    dk_machine m;
    const unsigned char* code;
    const unsigned char* texts; /* of each text, where it begins behind the table, and its bytes */
    size_t text_bytes;          /* behind the table */
    uint32_t steps, text_count;
    uint32_t at; /* the next step */
    dk_value given;
    char* out;
    size_t capacity, written;
    frame frames[MOST_FRAMES];
    loop loops[MOST_LOOPS];
    int32_t frame_count, loop_count;
} run;

static uint32_t word_at(const unsigned char* place) {
    return place[0] | (uint32_t)place[1] << 8 | (uint32_t)place[2] << 16 | (uint32_t)place[3] << 24;
}

static dk_value damaged(run* r) {
    return dk_template_fail(&r->m, DK_ERROR_DATA, "the program of the template is damaged");
}

static dk_value undefined(void) {
    return dk_value_of(DK_V_UNDEFINED, 0);
}

static dk_value pop(run* r) {
    return r->m.top < r->m.end ? *r->m.top++ : damaged(r);
}

static void push(run* r, dk_value v) {
    dk_template_push(&r->m, v);
}

/* Whether there are so many values on the stack. */
static bool has(run* r, uint32_t count) {
    if ((uint64_t)(r->m.end - r->m.top) < count) {
        damaged(r);
        return false;
    }
    return true;
}

static dk_value text_at(run* r, uint32_t which) {
    const unsigned char* entry = r->texts + 8 * (size_t)which;
    if (which >= r->text_count) {
        return damaged(r);
    }
    const uint32_t begin = word_at(entry), bytes = word_at(entry + 4);
    if (begin > r->text_bytes || bytes > r->text_bytes - begin || bytes > INT32_MAX) {
        return damaged(r);
    }
    return dk_text_of((const char*)r->texts + 8 * (size_t)r->text_count + begin, bytes);
}

/* A variable of a frame; NULL if it has no such one. */
static dk_value* variable(run* r, const frame* of, uint32_t which) {
    if (of->base == NULL || which >= (uint64_t)(of->base - r->m.top)) {
        damaged(r);
        return NULL;
    }
    return of->base - 1 - which;
}

static void write(run* r, dk_value v) {
    const dk_value text = dk_template_str(&r->m, v);
    if (r->m.status != DK_OK) {
        return;
    }
    if ((size_t)text.count > r->capacity - r->written) {
        dk_template_fail(&r->m, DK_ERROR_BUFFER, "the text of the conversation is longer than there is room for");
    } else if (text.count > 0) {
        memcpy(r->out + r->written, text.as.text, (size_t)text.count);
        r->written += (size_t)text.count;
    }
}

/* The text from a place on, which is taken back. */
static dk_value captured(run* r, size_t from) {
    const char* begin = dk_template_begin(&r->m);
    if (from > r->written) {
        return damaged(r);
    }
    dk_template_put(&r->m, r->out + from, r->written - from);
    r->written = from;
    return dk_template_end(&r->m, begin);
}

/* So many values from the stack, in the order in which they were pushed. */
static dk_value popped(run* r, dk_kind kind, uint32_t count) {
    dk_value* items = has(r, count) ? dk_template_take(&r->m, count) : NULL;
    if (items == NULL) {
        return undefined();
    }
    for (uint32_t i = 0; i < count; ++i) {
        items[i] = r->m.top[count - 1 - i];
    }
    r->m.top += count;
    return dk_items(kind, items, kind == DK_V_MAP ? count / 2 : count);
}

static dk_value joined(run* r, uint32_t count) {
    const dk_value list = popped(r, DK_V_LIST, count);
    dk_value arguments[2] = {dk_text_of("", 0), list};
    return r->m.status == DK_OK ? dk_template_call(&r->m, DK_F_JOIN, arguments, 2) : list;
}

static dk_value loop_part(run* r, uint32_t part, uint32_t outer) {
    const loop* of = r->loops + r->loop_count - 1 - (int32_t)outer;
    if (outer >= (uint32_t)r->loop_count) {
        return damaged(r);
    }
    const int32_t index = of->index, count = of->items.count;
    switch (part) {
    case DK_LOOP_INDEX0:
        return dk_value_of(DK_V_INT, index);
    case DK_LOOP_INDEX:
        return dk_value_of(DK_V_INT, (int64_t)index + 1);
    case DK_LOOP_REVINDEX0:
        return dk_value_of(DK_V_INT, (int64_t)count - 1 - index);
    case DK_LOOP_REVINDEX:
        return dk_value_of(DK_V_INT, (int64_t)count - index);
    case DK_LOOP_FIRST:
        return dk_value_of(DK_V_BOOL, index == 0);
    case DK_LOOP_LAST:
        return dk_value_of(DK_V_BOOL, index + 1 >= count);
    case DK_LOOP_LENGTH:
        return dk_value_of(DK_V_INT, count);
    case DK_LOOP_PREVITEM:
        return index > 0 && index <= count ? of->items.as.items[index - 1] : undefined();
    case DK_LOOP_NEXTITEM:
        return index + 1 < count ? of->items.as.items[index + 1] : undefined();
    default:
        return damaged(r);
    }
}

/* Begin the steps of a macro, or the first ones: its arguments are on the stack. */
static void enter(run* r, uint32_t to, uint32_t back) {
    const uint32_t word = to < r->steps ? word_at(r->code + 4 * (size_t)to) : DK_OP_END;
    const uint32_t arguments = word >> 8 & 0xff, variables = word >> 16;
    if ((word & 0xff) != DK_OP_ENTER || variables < arguments || !has(r, arguments)) {
        damaged(r);
        return;
    }
    if (r->frame_count == MOST_FRAMES) {
        dk_template_fail(&r->m, DK_ERROR_USAGE, "the macros of the template call each other too deeply");
        return;
    }
    frame* made = &r->frames[r->frame_count++];
    made->back = back;
    made->base = r->m.top + arguments;
    made->captured = r->written;
    made->loops = r->loop_count;
    for (uint32_t i = arguments; i < variables; ++i) {
        push(r, undefined());
    }
    r->at = to + 1;
}

static void leave(run* r) {
    if (r->frame_count < 2) {
        damaged(r);
        return;
    }
    const frame of = r->frames[--r->frame_count];
    const dk_value text = captured(r, of.captured);
    r->m.top = of.base;
    r->loop_count = of.loops;
    r->at = of.back;
    push(r, text);
}

static void begin_loop(run* r, bool collects) {
    const dk_value items = dk_template_list(&r->m, pop(r));
    if (r->loop_count == MOST_LOOPS) {
        dk_template_fail(&r->m, DK_ERROR_USAGE, "the loops of the template are nested too deeply");
    }
    if (r->m.status == DK_OK) {
        loop* made = &r->loops[r->loop_count++];
        made->items = items;
        made->index = -1;
        made->room = collects ? dk_template_take(&r->m, items.count) : NULL;
        made->collected = 0;
    }
}

/* Go on with a loop. */
static void go_round(run* r, dk_op op, uint32_t operand) {
    loop* of = r->loops + r->loop_count - 1;
    if (r->loop_count <= r->frames[r->frame_count - 1].loops) {
        damaged(r);
    } else if (op == DK_OP_APPEND) {
        const dk_value v = pop(r);
        if (of->room == NULL || of->collected >= of->items.count) {
            damaged(r);
        } else {
            of->room[of->collected++] = v;
        }
    } else if (op == DK_OP_DONE) {
        --r->loop_count;
        if (of->room != NULL) {
            push(r, dk_items(DK_V_LIST, of->room, of->collected));
        }
    } else if (of->index + 1 < of->items.count) {
        push(r, of->items.as.items[++of->index]);
    } else {
        r->at = operand;
    }
}

/* Values, variables and parts of values. */
static bool step_value(run* r, dk_op op, uint32_t operand) {
    dk_value a, b, *place;
    switch (op) {
    case DK_OP_NONE:
        push(r, dk_value_of(DK_V_NONE, 0));
        return true;
    case DK_OP_UNDEFINED:
        push(r, undefined());
        return true;
    case DK_OP_MISSING:
        push(r, dk_value_of(DK_V_MISSING, 0));
        return true;
    case DK_OP_FALSE:
    case DK_OP_TRUE:
        push(r, dk_value_of(DK_V_BOOL, op == DK_OP_TRUE));
        return true;
    case DK_OP_INT:
        push(r, dk_value_of(DK_V_INT, (int64_t)operand - (1 << 23)));
        return true;
    case DK_OP_TEXT:
        push(r, text_at(r, operand));
        return true;
    case DK_OP_LIST:
    case DK_OP_TUPLE:
    case DK_OP_MAP:
        push(r, popped(r, op == DK_OP_LIST ? DK_V_LIST : op == DK_OP_TUPLE ? DK_V_TUPLE : DK_V_MAP, operand));
        return true;
    case DK_OP_NAMESPACE:
        push(r, dk_template_namespace(&r->m, popped(r, DK_V_MAP, operand)));
        return true;
    case DK_OP_POP:
        pop(r);
        return true;
    case DK_OP_GIVEN:
        push(r, dk_template_look_up(r->given, text_at(r, operand)));
        return true;
    case DK_OP_LOAD:
    case DK_OP_LOAD_OUTER:
    case DK_OP_STORE:
        a = op == DK_OP_STORE ? pop(r) : undefined();
        place = variable(r, r->frames + (op == DK_OP_LOAD_OUTER ? 0 : r->frame_count - 1), operand);
        if (place != NULL && op == DK_OP_STORE) {
            *place = a;
        } else if (place != NULL) {
            push(r, *place);
        }
        return true;
    case DK_OP_SET_FIELD:
        b = pop(r);
        a = pop(r);
        dk_template_set_field(&r->m, a, text_at(r, operand), b);
        return true;
    case DK_OP_FIELD:
        push(r, dk_template_item(&r->m, pop(r), text_at(r, operand)));
        return true;
    case DK_OP_ITEM:
        b = pop(r);
        a = pop(r);
        push(r, dk_template_item(&r->m, a, b));
        return true;
    case DK_OP_SLICE:
        if (has(r, 4)) {
            a = dk_template_slice(&r->m, r->m.top[3], r->m.top[2], r->m.top[1], r->m.top[0]);
            r->m.top += 4;
            push(r, a);
        }
        return true;
    case DK_OP_UNPACK:
        a = dk_template_list(&r->m, pop(r));
        if (a.kind != DK_V_LIST || (uint32_t)a.count != operand) {
            dk_template_wrong(&r->m);
            return true;
        }
        for (int32_t i = a.count; i > 0; --i) {
            push(r, a.as.items[i - 1]);
        }
        return true;
    default:
        return false;
    }
}

/* Arithmetic, comparisons and functions. */
static bool step_function(run* r, dk_op op, uint32_t operand) {
    dk_value a, b;
    switch (op) {
    case DK_OP_NOT:
        push(r, dk_value_of(DK_V_BOOL, !dk_template_truth(pop(r))));
        return true;
    case DK_OP_NEGATE:
        push(r, dk_template_arithmetic(&r->m, DK_OP_SUBTRACT, dk_value_of(DK_V_INT, 0), pop(r)));
        return true;
    case DK_OP_IS:
        a = pop(r);
        push(r, dk_value_of(DK_V_BOOL, a.kind >= 0 && a.kind < 24 && (operand >> a.kind & 1) != 0));
        return true;
    case DK_OP_JOIN:
        push(r, joined(r, operand));
        return true;
    case DK_OP_CALL:
        if (has(r, operand >> 8)) {
            a = dk_template_call(&r->m, (int32_t)(operand & 0xff), r->m.top, (int32_t)(operand >> 8));
            r->m.top += operand >> 8;
            push(r, a);
        }
        return true;
    default:
        break;
    }
    if (op < DK_OP_ADD || op > DK_OP_IN) {
        return false;
    }
    b = pop(r);
    a = pop(r);
    if (op == DK_OP_EQUAL) {
        push(r, dk_value_of(DK_V_BOOL, dk_template_equal(&r->m, a, b, 0)));
    } else if (op == DK_OP_LESS || op == DK_OP_IN) {
        push(r, op == DK_OP_LESS ? dk_template_less(&r->m, a, b) : dk_template_within(&r->m, a, b));
    } else {
        push(r, dk_template_arithmetic(&r->m, op, a, b));
    }
    return true;
}

/* Jumps, loops and text. */
static void step_order(run* r, dk_op op, uint32_t operand) {
    dk_value a;
    switch (op) {
    case DK_OP_JUMP:
        r->at = operand;
        break;
    case DK_OP_JUMP_FALSE:
        r->at = dk_template_truth(pop(r)) ? r->at : operand;
        break;
    case DK_OP_JUMP_FALSE_KEEP:
    case DK_OP_JUMP_TRUE_KEEP:
        if (has(r, 1)) {
            const bool jumps = dk_template_truth(*r->m.top) == (op == DK_OP_JUMP_TRUE_KEEP);
            r->at = jumps ? operand : r->at;
            r->m.top += !jumps;
        }
        break;
    case DK_OP_JUMP_GIVEN:
        r->at = pop(r).kind != DK_V_MISSING ? operand : r->at;
        break;
    case DK_OP_MACRO:
        enter(r, operand, r->at);
        break;
    case DK_OP_RETURN:
        leave(r);
        break;
    case DK_OP_FOR:
        begin_loop(r, operand != 0);
        break;
    case DK_OP_NEXT:
    case DK_OP_APPEND:
    case DK_OP_DONE:
        go_round(r, op, operand);
        break;
    case DK_OP_LOOP:
        push(r, loop_part(r, operand & 0xff, operand >> 8));
        break;
    case DK_OP_OUT:
        write(r, pop(r));
        break;
    case DK_OP_DATA:
        write(r, text_at(r, operand));
        break;
    case DK_OP_CAPTURE:
        push(r, dk_value_of(DK_V_INT, (int64_t)r->written));
        break;
    case DK_OP_CAPTURED:
        a = pop(r);
        push(r, a.kind == DK_V_INT && a.as.number >= 0 ? captured(r, (size_t)a.as.number) : damaged(r));
        break;
    default:
        damaged(r);
    }
}

static void go(run* r) {
    enter(r, 0, 0);
    for (int32_t steps = 0; r->m.status == DK_OK; ++steps) {
        if (r->at >= r->steps) {
            damaged(r);
            return;
        }
        const uint32_t word = word_at(r->code + 4 * (size_t)r->at++), operand = word >> 8;
        const dk_op op = (dk_op)(word & 0xff);
        if (op == DK_OP_END) {
            return;
        }
        if (steps == MOST_STEPS) {
            dk_template_fail(&r->m, DK_ERROR_USAGE, "the template does not come to an end");
        } else if (!step_value(r, op, operand) && !step_function(r, op, operand)) {
            step_order(r, op, operand);
        }
    }
}

/* What the caller gave as structs, as a map. */
static dk_value map_of(run* r, const dk_message* messages, size_t count) {
    static const char* const roles[] = {"system", "user", "assistant"};
    dk_value* items = dk_template_take(&r->m, count > INT32_MAX ? INT32_MAX : (int64_t)count);
    dk_value* whole = dk_template_take(&r->m, 2);
    for (size_t i = 0; i < count && r->m.status == DK_OK; ++i) {
        dk_value* pairs = dk_template_take(&r->m, 4);
        if (messages[i].role < DK_SYSTEM || messages[i].role > DK_ASSISTANT || messages[i].bytes > INT32_MAX) {
            return dk_template_fail(&r->m, DK_ERROR_USAGE, "a message has a role that there is not, or too many bytes");
        }
        if (pairs != NULL) {
            const char* role = roles[messages[i].role];
            pairs[0] = dk_text_of("role", 4);
            pairs[1] = dk_text_of(role, (int64_t)strlen(role));
            pairs[2] = dk_text_of("content", 7);
            pairs[3] = dk_text_of(messages[i].text, (int64_t)messages[i].bytes);
            items[i] = dk_items(DK_V_MAP, pairs, 2);
        }
    }
    if (r->m.status != DK_OK) {
        return undefined();
    }
    whole[0] = dk_text_of("messages", 8);
    whole[1] = dk_items(DK_V_LIST, items, (int64_t)count);
    return dk_items(DK_V_MAP, whole, 1);
}

static bool open_program(run* r, const unsigned char* program, size_t bytes) {
    const uint64_t header = 4 * HEADER;
    if (program == NULL || bytes < header || word_at(program) != MAGIC) {
        return false;
    }
    r->steps = word_at(program + 4);
    r->text_count = word_at(program + 8);
    const uint64_t before = header + 4 * (uint64_t)r->steps + 8 * (uint64_t)r->text_count;
    r->code = program + header;
    r->texts = program + header + 4 * (size_t)r->steps;
    r->text_bytes = bytes - (size_t)before;
    return before <= bytes;
}

dk_status dk_render(dk_rendering* own) {
    run r;
    memset(&r, 0, sizeof r);
    dk_template_open(&r.m, own->workspace, own->workspace_bytes);
    r.m.now = own->now;
    r.out = own->text;
    r.capacity = own->capacity;
    own->bytes = 0;
    if (!open_program(&r, own->program, own->program_bytes)) {
        damaged(&r);
    } else if (own->json != NULL) {
        r.given = dk_template_read_json(&r.m, own->json, own->json_bytes);
    } else {
        r.given = map_of(&r, own->messages, own->count);
    }
    if (r.m.status == DK_OK) {
        go(&r);
    }
    own->error = r.m.error;
    own->bytes = r.m.status == DK_OK ? r.written : 0;
    return r.m.status;
}
