/* Values of templates, and the memory that they are in; see template.h. */
#ifndef DEPLOYKIT_TEMPLATE_VALUES_H
#define DEPLOYKIT_TEMPLATE_VALUES_H

#include "template.h"

typedef enum dk_kind {
    DK_V_UNDEFINED,
    DK_V_MISSING, /* an argument that was not given */
    DK_V_NONE,
    DK_V_BOOL,
    DK_V_INT,
    DK_V_NUMBER, /* one that is no int64_t: its text */
    DK_V_STRING,
    DK_V_LIST,
    DK_V_TUPLE,
    DK_V_MAP,      /* keys and values in turns */
    DK_V_NAMESPACE /* the only values that change */
} dk_kind;

typedef struct dk_value {
    int32_t kind;
    int32_t count; /* bytes of a text, items of a list, pairs of a map */
    union {
        int64_t number;
        const char* text;
        const struct dk_value* items;
        struct dk_field** fields;
    } as;
} dk_value;

/* A field of a namespace, in a list. */
typedef struct dk_field {
    struct dk_field* next;
    dk_value name, value;
} dk_field;

/* Values and texts fill the memory from its beginning, the stack fills it from its end. */
typedef struct dk_machine {
    unsigned char* free;
    dk_value* top;
    dk_value* end;
    int64_t now;
    dk_status status; /* the first thing that went wrong */
    const char* error;
} dk_machine;

enum { DK_MOST_DEPTH = 64 /* of values within values */ };

/* Begin to use the part of a workspace that begins and ends at multiples of the size of a value. */
void dk_template_open(dk_machine* m, unsigned char* workspace, size_t bytes);

/* Note what went wrong, unless something did before. Returns undefined. */
dk_value dk_template_fail(dk_machine* m, dk_status status, const char* error);

/* Note that a value is of another kind than what is done with it wants. */
dk_value dk_template_wrong(dk_machine* m);

/* Memory for so many values; NULL if there is none. */
dk_value* dk_template_take(dk_machine* m, int64_t count);

void dk_template_push(dk_machine* m, dk_value v);

/* A text is written behind what there is: begin, put, end. */
const char* dk_template_begin(const dk_machine* m);
void dk_template_put(dk_machine* m, const char* text, size_t bytes);
void dk_template_put_number(dk_machine* m, dk_value v);
dk_value dk_template_end(dk_machine* m, const char* begin);

static inline dk_value dk_value_of(dk_kind kind, int64_t number) {
    dk_value v = {(int32_t)kind, 0, {number}};
    return v;
}

static inline bool dk_is_list(dk_value v) {
    return v.kind == DK_V_LIST || v.kind == DK_V_TUPLE;
}

static inline dk_value dk_text_of(const char* text, int64_t bytes) {
    dk_value v = {DK_V_STRING, (int32_t)bytes, {0}};
    v.as.text = text;
    return v;
}

static inline dk_value dk_items(dk_kind kind, const dk_value* items, int64_t count) {
    dk_value v = {(int32_t)kind, (int32_t)count, {0}};
    v.as.items = items;
    return v;
}

/* Where a character is in a set of some, -1 if nowhere. */
int32_t dk_template_place(const char* set, char c);

bool dk_template_same(const char* a, const char* b, int64_t bytes);
bool dk_template_equal(dk_machine* m, dk_value a, dk_value b, int32_t depth);
bool dk_template_truth(dk_value v);

/* The value of a key in a map, or of a field in a namespace; undefined if there is none. */
dk_value dk_template_look_up(dk_value map, dk_value key);

/* The characters of a text: how many bytes the first or the last one has. A byte that is no UTF-8 is one character. */
int32_t dk_template_next(const char* text, int32_t bytes, uint32_t* code);
int32_t dk_template_last(const char* text, int32_t bytes, uint32_t* code);

/* Whether values may be nested so deeply, and nothing went wrong; notes that they may not. */
bool dk_template_nests(dk_machine* m, int32_t depth);

/* What Python's str, repr and json.dumps give. `indent` is negative for one line. */
dk_value dk_template_str(dk_machine* m, dk_value v);
void dk_template_put_json(dk_machine* m, dk_value v, int32_t indent, bool ascii, int32_t depth);

/* What a text in JSON says. */
dk_value dk_template_read_json(dk_machine* m, const char* text, size_t bytes);

/* The steps of programs: eight bits, with an operand of 24. What is taken and left is on the stack. */
typedef enum dk_op {
    DK_OP_END,
    /* Values */
    DK_OP_NONE,
    DK_OP_FALSE,
    DK_OP_TRUE,
    DK_OP_UNDEFINED,
    DK_OP_MISSING,
    DK_OP_INT,  /* the operand, less 2^23 */
    DK_OP_TEXT, /* a text of the program */
    DK_OP_LIST, /* of so many values */
    DK_OP_TUPLE,
    DK_OP_MAP, /* of so many keys and values */
    DK_OP_NAMESPACE,
    DK_OP_POP,
    /* Variables */
    DK_OP_GIVEN, /* one of the caller, by its name */
    DK_OP_LOAD,  /* one of the frame */
    DK_OP_STORE,
    DK_OP_LOAD_OUTER, /* one of the first frame */
    DK_OP_SET_FIELD,  /* namespace, value */
    /* Parts of values */
    DK_OP_FIELD, /* by a name of the program */
    DK_OP_ITEM,
    DK_OP_SLICE,
    DK_OP_UNPACK, /* a list of so many values, the first one on top */
    /* Arithmetic */
    DK_OP_NOT,
    DK_OP_NEGATE,
    DK_OP_ADD,
    DK_OP_SUBTRACT,
    DK_OP_MULTIPLY,
    DK_OP_MODULO,
    DK_OP_DIVIDE, /* whole numbers, rounded down */
    DK_OP_JOIN,   /* so many values as texts */
    DK_OP_EQUAL,
    DK_OP_LESS,
    DK_OP_IN,
    DK_OP_IS,   /* whether the kind is one of these bits */
    DK_OP_CALL, /* a function, and from the eighth bit on, how many arguments */
    /* Order of steps */
    DK_OP_JUMP,
    DK_OP_JUMP_FALSE,
    DK_OP_JUMP_FALSE_KEEP, /* and pop only if there is no jump */
    DK_OP_JUMP_TRUE_KEEP,
    DK_OP_JUMP_GIVEN, /* if an argument is not missing */
    DK_OP_MACRO,      /* call the macro that begins there */
    DK_OP_ENTER,      /* so many arguments, and from the eighth bit on, variables in all */
    DK_OP_RETURN,
    /* Loops */
    DK_OP_FOR,    /* go over the items of a value; 1: collect values, as many as items at most */
    DK_OP_NEXT,   /* the next item; after the last one, a jump */
    DK_OP_APPEND, /* collect a value */
    DK_OP_DONE,   /* what was collected, as a list, if something was */
    DK_OP_LOOP, /* what a template calls `loop`: an attribute, and from the eighth bit on, how many loops are within */
    /* Text */
    DK_OP_OUT,
    DK_OP_DATA,
    DK_OP_CAPTURE,
    DK_OP_CAPTURED
} dk_op;

/* Attributes of `loop`. */
typedef enum dk_loop_part {
    DK_LOOP_INDEX0,
    DK_LOOP_INDEX,
    DK_LOOP_REVINDEX0,
    DK_LOOP_REVINDEX,
    DK_LOOP_FIRST,
    DK_LOOP_LAST,
    DK_LOOP_LENGTH,
    DK_LOOP_PREVITEM,
    DK_LOOP_NEXTITEM
} dk_loop_part;

/* The functions that filters, methods and tests are. */
typedef enum dk_function {
    DK_F_STRING,
    DK_F_LENGTH,
    DK_F_TOJSON,
    DK_F_STRIP,
    DK_F_LSTRIP,
    DK_F_RSTRIP,
    DK_F_STARTSWITH,
    DK_F_ENDSWITH,
    DK_F_SPLIT,
    DK_F_REPLACE,
    DK_F_UPPER,
    DK_F_LOWER,
    DK_F_CAPITALIZE,
    DK_F_TITLE,
    DK_F_JOIN,
    DK_F_FIRST,
    DK_F_LAST,
    DK_F_LIST,
    DK_F_REVERSE,
    DK_F_ITEMS,
    DK_F_KEYS,
    DK_F_VALUES,
    DK_F_GET,
    DK_F_DICTSORT,
    DK_F_DEFAULT,
    DK_F_IS_TRUE,
    DK_F_IS_FALSE,
    DK_F_RANGE,
    DK_F_RAISE,
    DK_F_STRFTIME,
    DK_F_NO_METHOD
} dk_function;

/* Call a function; argument i is `last[count - 1 - i]`. */
dk_value dk_template_call(dk_machine* m, int32_t function, const dk_value* last, int32_t count);

/* A namespace with the fields of a map. */
dk_value dk_template_namespace(dk_machine* m, dk_value fields);
void dk_template_set_field(dk_machine* m, dk_value space, dk_value name, dk_value v);

/* A part of a value by its name, or by its place. */
dk_value dk_template_item(dk_machine* m, dk_value of, dk_value key);

/* Two values with an operator between them; `a < b`; whether a value is in another one. */
dk_value dk_template_arithmetic(dk_machine* m, dk_op op, dk_value a, dk_value b);
dk_value dk_template_less(dk_machine* m, dk_value a, dk_value b);
dk_value dk_template_within(dk_machine* m, dk_value part, dk_value in);

/* The time in a form of strftime, in English. */
dk_value dk_template_tell(dk_machine* m, dk_value form);

/* A part of a list or of a text, as Python cuts it; undefined bounds are open. */
dk_value dk_template_slice(dk_machine* m, dk_value of, dk_value start, dk_value stop, dk_value step);

/* What a loop goes over, as a list. */
dk_value dk_template_list(dk_machine* m, dk_value of);

/* A text within a text, from its beginning; -1 if it is not there. */
int64_t dk_template_find(dk_value in, dk_value part, int64_t from);

#endif
