/* Instances of a dynamic model: checks of what a caller wrote, and results. */
#include "instances.h"

#include <string.h>

dk_status dk_fail_model(dk_model* model, const char* message, int64_t value) {
    (void)dk_fail_shape(model, message, &value);
    return DK_ERROR_DATA;
}

/* The words that a layout describes, and the layout behind it. */
static const int32_t* behind(const int32_t* layout) {
    return layout + 1 + layout[0];
}

/* Note the types of what `words` refer to. `marks` has 1 + the type of the record at each word, 0: none. Records refer
   to those before `end`. */
static int mark(int32_t* marks, const int32_t* words, const int32_t* layout, int64_t end) {
    int32_t i;
    for (i = 0; i < layout[0]; ++i) {
        const int32_t type = layout[1 + i];
        const int32_t handle = words[i];
        if (type < 0) {
            continue;
        }
        if (handle < 1 || handle >= end || (marks[handle] != 0 && marks[handle] != 1 + type)) {
            return 0;
        }
        marks[handle] = 1 + type;
    }
    return 1;
}

/* Whether the record at `at`, of this type, lies within the `count` words and refers to records before it. */
static int
check(int32_t* marks, const int32_t* words, int64_t count, int64_t at, const dk_type* type, int64_t elements) {
    const int32_t* layout = type->layout;
    const int64_t number = words[at];
    int64_t i;
    switch (type->kind) {
    case DK_TYPE_TENSOR:
        return at + 2 <= count && words[at + 1] == 0 && number >= 0 && number + type->count <= elements;
    case DK_TYPE_LIST:
        if (number < 0 || number * layout[0] > count - at - DK_LIST_ITEMS ||
            words[at + DK_LIST_FIRST] != at + DK_LIST_ITEMS || words[at + 2] != number || words[at + 3] != number) {
            return 0;
        }
        for (i = 0; i < number; ++i) {
            if (!mark(marks, words + at + DK_LIST_ITEMS + i * layout[0], layout, at)) {
                return 0;
            }
        }
        return 1;
    default:
        if (number < 0 || number >= type->count) {
            return 0;
        }
        for (i = 0; i < number; ++i) {
            layout = behind(layout);
        }
        return layout[0] < count - at && mark(marks, words + at + 1, layout, at);
    }
}

/* Check `rows` roots, and all records that they refer to. */
static dk_status check_all(
    const dk_queue* queue, const dk_entry* entry, int32_t* marks, const int32_t* words, int64_t count, int64_t elements,
    const int32_t* roots, int64_t rows
) {
    const int32_t* layout = entry->layout;
    int64_t i;
    for (i = 0; i < rows; ++i) {
        if (!mark(marks, roots + i * layout[0], layout, count)) {
            return dk_fail_model(queue->model, "instance {} refers to no record", i);
        }
    }
    for (i = count - 1; i > 0; --i) {
        if (marks[i] != 0 && !check(marks, words, count, i, &entry->types[marks[i] - 1], elements)) {
            return dk_fail_model(queue->model, "the record at word {} of the instances is damaged", i);
        }
    }
    return DK_OK;
}

static void move_handles(int32_t* words, const int32_t* layout, int32_t base) {
    int32_t i;
    for (i = 0; i < layout[0]; ++i) {
        words[i] += layout[1 + i] < 0 ? 0 : base;
    }
}

/* Let a record that was copied refer to the new places. */
static void move(int32_t* record, const dk_type* type, int32_t base, int32_t pool) {
    const int32_t* layout = type->layout;
    int32_t i;
    switch (type->kind) {
    case DK_TYPE_TENSOR:
        record[0] += pool;
        break;
    case DK_TYPE_LIST:
        record[DK_LIST_FIRST] += base;
        for (i = 0; i < record[DK_LIST_LENGTH]; ++i) {
            move_handles(record + DK_LIST_ITEMS + (ptrdiff_t)i * layout[0], layout, base);
        }
        break;
    default:
        for (i = 0; i < record[0]; ++i) {
            layout = behind(layout);
        }
        move_handles(record + 1, layout, base);
        break;
    }
}

dk_status dk_copy_instances(
    dk_queue* queue, const dk_entry* entry, const int32_t* words, int64_t count, const float* tensors, int64_t elements,
    const int32_t* roots, int64_t rows, int32_t base, int32_t pool
) {
    int32_t* marks = queue->words + queue->words_used;
    dk_status status;
    int64_t i;
    if (count > queue->word_count - queue->words_used) {
        dk_fail_words(queue, count);
        return queue->status;
    }
    memset(marks, 0, (size_t)count * sizeof *marks);
    status = check_all(queue, entry, marks, words, count, elements, roots, rows);
    if (status != DK_OK) {
        return status;
    }
    dk_copy(queue->words + base, words, count * (int64_t)sizeof *words);
    dk_copy(queue->pool + pool, tensors, elements * (int64_t)sizeof *tensors);
    for (i = count - 1; i > 0 && base + pool > 0; --i) {
        if (marks[i] != 0) {
            move(queue->words + base + i, &entry->types[marks[i] - 1], base, pool);
        }
    }
    return DK_OK;
}

int32_t dk_share(dk_queue* queue, const float* elements, const int32_t* sizes, int32_t count) {
    const int32_t first = dk_take(queue, 2 * (int64_t)count);
    int32_t i;
    if (first == 0) {
        return 0;
    }
    for (i = 0; i < count; ++i) {
        if (sizes[i] > queue->pool_count - queue->pool_used) {
            return dk_fail_pool(queue, sizes[i]);
        }
        if (elements != NULL) {
            dk_copy(queue->pool + queue->pool_used, elements, sizes[i] * (int64_t)sizeof *elements);
            elements += sizes[i];
        }
        queue->words[first + 2 * i] = queue->pool_used;
        queue->words[first + 2 * i + 1] = 0;
        queue->pool_used += sizes[i];
    }
    return first;
}

int32_t dk_append(dk_queue* queue, int32_t list, int32_t width) {
    int32_t* words = queue->words;
    const int32_t length = words[list + DK_LIST_LENGTH];
    int32_t first = words[list + DK_LIST_FIRST];
    int32_t longer;
    if (words[first + DK_ITEMS_USED] != length || words[first + DK_ITEMS_ROOM] == length) {
        const int64_t room = 2 * (int64_t)length + 4;
        const int32_t block = dk_take(queue, 2 + room * width);
        if (block == 0) {
            return 0;
        }
        dk_copy(words + block + 2, words + first, (int64_t)length * width * (int64_t)sizeof *words);
        first = block + 2;
        words[first + DK_ITEMS_ROOM] = (int32_t)room;
    }
    longer = dk_take(queue, 2);
    if (longer == 0) {
        return 0;
    }
    words[first + DK_ITEMS_USED] = length + 1;
    words[longer + DK_LIST_LENGTH] = length + 1;
    words[longer + DK_LIST_FIRST] = first;
    return longer;
}

int32_t dk_piece(const dk_queue* queue, const dk_batch* batch, int64_t bytes) {
    const dk_cell* cell = &queue->cells[batch->cell];
    int64_t pieces;
    int32_t i;
    for (i = 0; i < cell->results; ++i) {
        bytes += batch->count * (int64_t)cell->elements[i] * (int64_t)sizeof *queue->pool;
    }
    pieces = bytes / DK_PIECE_BYTES + 1;
    return (int32_t)dk_aligned(queue, (batch->count + pieces - 1) / pieces); /* the results of all pieces are aligned */
}

void* dk_scratch(dk_queue* queue, int64_t bytes) {
    const int64_t start = dk_aligned(queue, queue->pool_used);
    const int64_t needed = start - queue->pool_used + (bytes + 3) / 4;
    if (bytes == 0) {
        return NULL;
    }
    if (needed > queue->pool_count - queue->pool_used) {
        dk_fail_pool(queue, needed);
        return NULL;
    }
    return queue->pool + start;
}

void dk_give_tensors(
    const dk_queue* queue, int32_t first, int32_t stride, int64_t count, int32_t elements, float* result
) {
    int64_t i;
    for (i = 0; i < count; ++i) {
        const int32_t value = queue->words[first + i * stride];
        dk_copy(result + i * elements, queue->pool + queue->words[value], elements * (int64_t)sizeof *result);
    }
}

int64_t dk_give_lengths(const dk_queue* queue, int32_t first, int32_t stride, int64_t count, int32_t* lengths) {
    int64_t total = 0;
    int64_t i;
    for (i = 0; i < count; ++i) {
        lengths[i] = queue->words[queue->words[first + i * stride]];
        total += lengths[i];
    }
    return total;
}
