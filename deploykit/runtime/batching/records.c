/* Results of a dynamic model that consist of records: what the roots refer to is copied to the caller's memory, in the
   form that instances have (instances.h), but each record comes before those that it refers to first.

   Behind the words in use, `places` has the place of each record that is copied, 0 for none. A list of the records
   follows, 2 words for each: its handle and its type. */
#include "instances.h"

#include <string.h>

static int32_t* places_of(const dk_queue* queue) {
    return queue->words + queue->words_used;
}

/* The words of a record, and the layout of those that repeat in it. */
typedef struct dk_record_view {
    const int32_t* layout;
    const int32_t* parts; /* the words that the layout describes, `count` times */
    int64_t count;
    int64_t size;
} dk_record_view;

static dk_record_view view_of(const int32_t* words, int32_t handle, const dk_type* type) {
    dk_record_view view = {NULL, words + handle, 0, 2};
    if (type->kind == DK_TYPE_LIST) {
        view.layout = type->layout;
        view.parts = words + words[handle + DK_LIST_FIRST];
        view.count = words[handle + DK_LIST_LENGTH];
        view.size = DK_LIST_ITEMS + view.count * type->layout[0];
    } else if (type->kind == DK_TYPE_UNION) {
        int32_t variant;
        view.layout = type->layout;
        for (variant = words[handle]; variant > 0; --variant) {
            view.layout += 1 + view.layout[0];
        }
        view.parts = words + handle + 1;
        view.count = 1;
        view.size = 1 + view.layout[0];
    }
    return view;
}

/* Give the records that `words` refer to a place, where they have none. Returns 0 after a failure. */
static int
visit(dk_queue* queue, const dk_type* types, const int32_t* words, const int32_t* layout, dk_records* found) {
    int32_t* places = places_of(queue);
    int32_t i;
    for (i = 0; i < layout[0]; ++i) {
        const int32_t type = layout[1 + i];
        int32_t* record = places + queue->words_used + 2 * found->count;
        if (type < 0 || places[words[i]] != 0) {
            continue;
        }
        if (record + 2 > queue->words + queue->word_count) {
            return dk_fail_words(queue, 4 * (int64_t)queue->words_used);
        }
        record[0] = words[i];
        record[1] = type;
        places[words[i]] = (int32_t)found->words;
        ++found->count;
        found->words += view_of(queue->words, words[i], &types[type]).size;
        found->elements += types[type].kind == DK_TYPE_TENSOR ? types[type].count : 0;
        if (found->words > INT32_MAX) {
            return dk_fail_words(queue, found->words);
        }
    }
    return 1;
}

dk_status dk_find_records(
    dk_queue* queue, const dk_type* types, int32_t first, int64_t rows, const int32_t* layout, dk_records* found
) {
    int32_t* places = places_of(queue);
    int64_t i;
    found->count = 0;
    found->words = 1;
    found->elements = 0;
    if (2 * (int64_t)queue->words_used > queue->word_count) {
        dk_fail_words(queue, queue->words_used);
        return queue->status;
    }
    memset(places, 0, (size_t)queue->words_used * sizeof *places);
    for (i = 0; i < rows && queue->status == DK_OK; ++i) {
        visit(queue, types, queue->words + first + i * layout[0], layout, found);
    }
    for (i = 0; i < found->count && queue->status == DK_OK; ++i) {
        const int32_t* record = places + queue->words_used + 2 * i;
        const dk_record_view view = view_of(queue->words, record[0], &types[record[1]]);
        int64_t part;
        for (part = 0; part < view.count && queue->status == DK_OK; ++part) {
            visit(queue, types, view.parts + part * view.layout[0], view.layout, found);
        }
    }
    return queue->status;
}

static void translate(const int32_t* places, const int32_t* from, int32_t* to, const int32_t* layout) {
    int32_t i;
    for (i = 0; i < layout[0]; ++i) {
        to[i] = layout[1 + i] < 0 ? from[i] : places[from[i]];
    }
}

void dk_give_records(
    const dk_queue* queue, const dk_type* types, int32_t first, int64_t rows, const int32_t* layout,
    const dk_records* found, int32_t* roots, int32_t* words, float* elements
) {
    const int32_t* places = places_of(queue);
    int32_t used = 0;
    int64_t i;
    words[0] = 0;
    for (i = 0; i < rows; ++i) {
        translate(places, queue->words + first + i * layout[0], roots + i * layout[0], layout);
    }
    for (i = 0; i < found->count; ++i) {
        const int32_t* record = places + queue->words_used + 2 * i;
        const dk_type* type = &types[record[1]];
        const dk_record_view view = view_of(queue->words, record[0], type);
        const int32_t place = places[record[0]];
        int32_t* to = words + place;
        int64_t part;
        if (type->kind == DK_TYPE_TENSOR) {
            dk_copy(elements + used, queue->pool + queue->words[record[0]], type->count * (int64_t)sizeof *elements);
            to[0] = used;
            to[1] = 0;
            used += type->count;
            continue;
        }
        *to++ = queue->words[record[0]];
        if (type->kind == DK_TYPE_LIST) {
            to[0] = place + DK_LIST_ITEMS;
            to[1] = to[2] = (int32_t)view.count;
            to += DK_LIST_ITEMS - 1;
        }
        for (part = 0; part < view.count; ++part, to += view.layout[0]) {
            translate(places, view.parts + part * view.layout[0], to, view.layout);
        }
    }
}
