/* Flushes on a device with memory of its own. */
#include "device.h"

#include "frontier.h"

/* A batch in the words, behind its indices: the words of its results and of its indices, and the next batch. */
enum {
    DK_PLANNED_CELL,
    DK_PLANNED_COUNT,
    DK_PLANNED_STRIDE,
    DK_PLANNED_RESULTS,
    DK_PLANNED_INDICES,
    DK_PLANNED_NEXT,
    DK_PLANNED_WORDS
};

/* Elements between two tensors that are downloaded together. */
#define NEAR_ELEMENTS 1024

static dk_slice slice_of(const dk_queue* queue, const char* name, const void* memory, int64_t elements) {
    const dk_slice slice = {DK_BUFFER_ARENA, name, (int64_t)(uintptr_t)dk_place(queue, memory), 4 * elements};
    return slice;
}

dk_slice dk_pool_slice(const dk_queue* queue, int64_t elements) {
    return slice_of(queue, "pool", queue->pool, elements);
}

dk_status dk_upload_instances(const dk_queue* queue, dk_driver* driver, int64_t elements) {
    const dk_slice slice = dk_pool_slice(queue, elements);
    return elements == 0 ? DK_OK : dk_check_driver(queue->model, driver, driver->upload(driver, &slice, queue->pool));
}

/* Keep a batch and its indices. Returns its word, 0 after a failure. */
static int32_t keep(dk_queue* queue, const dk_batch* batch) {
    const dk_cell* cell = &queue->cells[batch->cell];
    const int32_t indices = (int32_t)(batch->indices - queue->words);
    const int32_t at = indices + (cell->operands + cell->numbers) * batch->stride;
    int32_t* words = queue->words + at;
    if (!dk_has_words(queue, (int64_t)at + DK_PLANNED_WORDS)) {
        return 0;
    }
    words[DK_PLANNED_CELL] = batch->cell;
    words[DK_PLANNED_COUNT] = batch->count;
    words[DK_PLANNED_STRIDE] = batch->stride;
    words[DK_PLANNED_RESULTS] = (int32_t)(batch->results - queue->words);
    words[DK_PLANNED_INDICES] = indices;
    words[DK_PLANNED_NEXT] = 0;
    queue->flushing = at + DK_PLANNED_WORDS;
    return at;
}

dk_status dk_plan_flush(dk_queue* queue, dk_driver* driver, dk_plan* plan) {
    int32_t* words = queue->words;
    dk_batch batch;
    dk_slice indices;
    int32_t begin;
    int32_t last = 0;
    plan->first = 0;
    while (dk_next_batch(queue, &batch)) {
        const int32_t at = keep(queue, &batch);
        if (at == 0) {
            return queue->status;
        }
        if (last == 0) {
            plan->first = at;
        } else {
            words[last + DK_PLANNED_NEXT] = at;
        }
        last = at;
    }
    plan->next = plan->first;
    if (queue->status != DK_OK || last == 0) {
        return queue->status;
    }
    begin = words[plan->first + DK_PLANNED_INDICES];
    indices = slice_of(queue, "indices", words + begin, last - begin);
    return dk_check_driver(queue->model, driver, driver->upload(driver, &indices, words + begin));
}

int32_t dk_planned_batch(const dk_queue* queue, dk_plan* plan, dk_batch* batch) {
    const int32_t* planned = queue->words + plan->next;
    if (plan->next == 0) {
        return 0;
    }
    batch->cell = planned[DK_PLANNED_CELL];
    batch->count = planned[DK_PLANNED_COUNT];
    batch->stride = planned[DK_PLANNED_STRIDE];
    batch->results = queue->words + planned[DK_PLANNED_RESULTS];
    batch->indices = queue->words + planned[DK_PLANNED_INDICES];
    plan->next = planned[DK_PLANNED_NEXT];
    return 1;
}

/* Downloads of neighbouring parts of the pool are one: it has the elements from `first` up to `end`. */
typedef struct fetch {
    const dk_queue* queue;
    dk_driver* driver;
    int64_t first;
    int64_t end;
} fetch;

static dk_status end_fetch(fetch* self) {
    float* target = self->queue->pool + self->first;
    const dk_slice slice = slice_of(self->queue, "pool", target, self->end - self->first);
    if (self->first == self->end) {
        return DK_OK;
    }
    self->first = self->end = 0;
    return dk_check_driver(self->queue->model, self->driver, self->driver->download(self->driver, target, &slice));
}

/* Download `count` elements of the pool from `first` on. */
static dk_status add_fetch(fetch* self, int64_t first, int64_t count) {
    const int64_t least = dk_min(first, self->first);
    const int64_t most = dk_max(first + count, self->end);
    dk_status status = DK_OK;
    if (self->first != self->end && most - least <= self->end - self->first + count + NEAR_ELEMENTS) {
        self->first = least;
        self->end = most;
        return DK_OK;
    }
    status = end_fetch(self);
    self->first = first;
    self->end = first + count;
    return status;
}

dk_status dk_fetch_numbers(const dk_queue* queue, dk_driver* driver, const dk_plan* plan) {
    fetch numbers = {queue, driver, 0, 0};
    dk_plan rest = {plan->first, plan->first};
    dk_batch batch;
    dk_status status = DK_OK;
    while (status == DK_OK && dk_planned_batch(queue, &rest, &batch)) {
        const dk_cell* cell = &queue->cells[batch.cell];
        int32_t i;
        for (i = 0; i < cell->results && status == DK_OK; ++i) {
            if (cell->elements[i] == 1) {
                status = add_fetch(&numbers, batch.results[i], batch.count);
            }
        }
    }
    return status == DK_OK ? end_fetch(&numbers) : status;
}

dk_status dk_fetch_tensors(
    const dk_queue* queue, dk_driver* driver, int32_t first, int32_t stride, int64_t count, int32_t elements
) {
    fetch tensors = {queue, driver, 0, 0};
    dk_status status = DK_OK;
    int64_t i;
    for (i = 0; i < count && status == DK_OK; ++i) {
        status = add_fetch(&tensors, queue->words[queue->words[first + i * stride]], elements);
    }
    return status == DK_OK ? end_fetch(&tensors) : status;
}

dk_status dk_fetch_records(const dk_queue* queue, dk_driver* driver, const dk_type* types, const dk_records* found) {
    const int32_t* record = queue->words + 2 * (ptrdiff_t)queue->words_used;
    fetch tensors = {queue, driver, 0, 0};
    dk_status status = DK_OK;
    int64_t i;
    for (i = 0; i < found->count && status == DK_OK; ++i, record += 2) {
        const dk_type* type = &types[record[1]];
        if (type->kind == DK_TYPE_TENSOR) {
            status = add_fetch(&tensors, queue->words[record[0]], type->count);
        }
    }
    return status == DK_OK ? end_fetch(&tensors) : status;
}
