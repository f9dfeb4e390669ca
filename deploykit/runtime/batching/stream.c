/* Continuous batching: instances that join, finish and go. */
#include "stream.h"

#include <string.h>

static int32_t state_of(const dk_stream* stream, int32_t instance) {
    return stream->queue.words[instance + DK_INSTANCE_STATE];
}

static int32_t next_of(const dk_stream* stream, int32_t instance) {
    return stream->queue.words[instance + DK_INSTANCE_NEXT];
}

/* Beginning */

static dk_status refuse(dk_model* model, const char* message) {
    (void)dk_fail_shape(model, message, NULL);
    return DK_ERROR_USAGE;
}

dk_status dk_check_verb(dk_model* model, dk_stream* stream, dk_verb verb) {
    if (verb == DK_VERB_RUN && stream->running + stream->finished > 0) {
        return refuse(model, "instances of a stream run: take their results, or cancel them, before a whole run");
    }
    if (verb == DK_VERB_TAKE && stream->finished == 0) {
        return refuse(model, "no instance has finished");
    }
    stream->verb = verb;
    stream->failed = -1;
    stream->tickets = NULL;
    return DK_OK;
}

dk_status dk_check_batch(dk_model* model, const dk_stream* stream, int64_t rows, int64_t maximum) {
    const int64_t total = stream->running + stream->finished + rows;
    if (maximum >= 0 && total > maximum) {
        const int64_t values[] = {total, maximum};
        return dk_fail_shape(model, "{} instances at a time, more than the {} of dim 'batch'", values);
    }
    return DK_OK;
}

void dk_end_stream(dk_stream* stream) {
    stream->running = 0;
    stream->finished = 0;
    stream->first = 0;
    stream->queue.frame = 0;
    stream->queue.status = DK_OK;
}

dk_status dk_stream_begin(dk_stream* stream, const dk_entry* entry, int64_t count, int64_t elements) {
    dk_queue* queue = &stream->queue;
    const int64_t reserved = stream->verb == DK_VERB_RUN && count > 0 ? count : 1;
    dk_end_stream(stream);
    if (stream->verb == DK_VERB_RUN) {
        stream->ticket = 0;
    }
    queue->launches = queue->words + reserved;
    if (dk_queue_begin(queue, entry->kinds, reserved + queue->cell_count) == DK_OK && stream->verb == DK_VERB_RUN) {
        dk_take_pool(queue, elements);
    }
    return queue->status;
}

dk_status dk_check_memory(
    const dk_queue* queue, const int32_t* words, int64_t word_count, const float* pool, int64_t pool_count
) {
    const int same = words == queue->words && dk_min(word_count, INT32_MAX) == queue->word_count &&
                     pool == queue->pool && dk_min(pool_count, INT32_MAX) == queue->pool_count;
    return same ? DK_OK : refuse(queue->model, "the memory has changed while instances run");
}

/* Joining */

/* Let the instance whose `main` takes the words at `root` run. Its record is at `instance`. */
static void enter(dk_stream* stream, const dk_entry* entry, int32_t instance, const int32_t* root, int32_t base) {
    dk_queue* queue = &stream->queue;
    const int32_t results = instance + DK_INSTANCE_RESULTS;
    const int32_t frame = dk_enter(queue, 0, entry->frame, 0, -instance, results);
    int32_t* words = queue->words;
    int32_t i;
    for (i = 0; i < entry->layout[0]; ++i) {
        words[frame + DK_FRAME_VARIABLES + i] = root[i] + (entry->layout[1 + i] < 0 ? 0 : base);
    }
    words[instance + DK_INSTANCE_NEXT] = 0;
    words[instance + DK_INSTANCE_STATE] = DK_RUNNING;
    dk_ready(queue, frame);
}

/* Add the record to the end of the list, with the next ticket. */
static void append(dk_stream* stream, int32_t instance) {
    int32_t* words = stream->queue.words;
    words[instance + DK_INSTANCE_TICKET] = stream->ticket;
    stream->ticket = stream->ticket == INT32_MAX ? 0 : stream->ticket + 1;
    if (stream->first == 0) {
        stream->first = instance;
    } else {
        words[stream->last + DK_INSTANCE_NEXT] = instance;
    }
    stream->last = instance;
    ++stream->running;
}

static dk_status join(
    dk_stream* stream, const dk_entry* entry, const int32_t* words, int64_t count, const float* tensors,
    int64_t elements, const int32_t* roots, int64_t rows
) {
    dk_queue* queue = &stream->queue;
    const int whole = stream->verb == DK_VERB_RUN;
    const int32_t size = DK_INSTANCE_RESULTS + entry->results;
    const int32_t pool = whole ? 0 : dk_take_pool(queue, elements);
    const int32_t base = whole ? 0 : dk_take(queue, count);
    dk_status status = queue->status;
    int32_t instances;
    int64_t row;
    if (status == DK_OK) {
        status = dk_copy_instances(queue, entry, words, count, tensors, elements, roots, rows, base, pool);
    }
    if (status != DK_OK) {
        return status;
    }
    instances = dk_take(queue, rows * size);
    if (instances == 0 || rows * entry->frame > queue->word_count - queue->words_used) {
        dk_fail_words(queue, rows * entry->frame);
        return queue->status;
    }
    for (row = rows - 1; row >= 0; --row) {
        enter(stream, entry, instances + (int32_t)row * size, roots + row * entry->layout[0], base);
    }
    for (row = 0; row < rows; ++row) {
        append(stream, instances + (int32_t)row * size);
    }
    return DK_OK;
}

dk_status dk_join(
    dk_stream* stream, const dk_entry* entry, const int32_t* words, int64_t count, const float* tensors,
    int64_t elements, const int32_t* roots, int64_t rows
) {
    dk_queue* queue = &stream->queue;
    const int32_t words_used = queue->words_used;
    const int32_t pool_used = queue->pool_used;
    const dk_status status = join(stream, entry, words, count, tensors, elements, roots, rows);
    if (status != DK_OK) {
        queue->words_used = words_used;
        queue->pool_used = pool_used;
        queue->status = DK_OK;
    }
    return status;
}

/* Going */

/* Take an instance out of the list; `before` is the one before it, 0 if it is the first. */
static void take_out(dk_stream* stream, int32_t before, int32_t instance) {
    const int32_t next = next_of(stream, instance);
    if (before == 0) {
        stream->first = next;
    } else {
        stream->queue.words[before + DK_INSTANCE_NEXT] = next;
    }
    if (next == 0) {
        stream->last = before;
    }
}

/* The list of frames from `frame` on without those of an instance. */
static int32_t without(dk_queue* queue, int32_t frame, int32_t instance) {
    int32_t first = 0;
    int32_t* link = &first;
    for (; frame != 0; frame = queue->words[frame + DK_FRAME_NEXT]) {
        if (dk_instance_of(queue, frame) != instance) {
            *link = frame;
            link = &queue->words[frame + DK_FRAME_NEXT];
        }
    }
    *link = 0;
    return first;
}

static void drop(dk_stream* stream, int32_t before, int32_t instance) {
    dk_queue* queue = &stream->queue;
    const int32_t state = state_of(stream, instance);
    take_out(stream, before, instance);
    if (state == DK_FINISHED) {
        --stream->finished;
        return;
    }
    --stream->running;
    queue->returned -= state == DK_RETURNED;
    queue->ready = without(queue, queue->ready, instance);
    queue->waiting = without(queue, queue->waiting, instance);
}

int dk_cancel(dk_stream* stream, int32_t ticket) {
    int32_t before = 0;
    int32_t instance = stream->first;
    while (instance != 0 && stream->queue.words[instance + DK_INSTANCE_TICKET] != ticket) {
        before = instance;
        instance = next_of(stream, instance);
    }
    if (instance != 0) {
        drop(stream, before, instance);
    }
    return instance != 0;
}

/* Remove the instance whose frame failed. */
static void drop_failed(dk_stream* stream) {
    dk_queue* queue = &stream->queue;
    stream->failed = queue->words[dk_instance_of(queue, queue->frame) + DK_INSTANCE_TICKET];
    dk_cancel(stream, stream->failed);
    queue->frame = 0;
    queue->status = DK_OK;
}

/* Results */

void dk_finish(dk_stream* stream) {
    int32_t* words = stream->queue.words;
    int32_t instance = stream->queue.returned == 0 ? 0 : stream->first;
    for (; instance != 0; instance = next_of(stream, instance)) {
        if (state_of(stream, instance) == DK_RETURNED) {
            words[instance + DK_INSTANCE_STATE] = DK_FINISHED;
            ++stream->finished;
            --stream->running;
        }
    }
    stream->queue.returned = 0;
}

dk_status dk_gather(dk_stream* stream, int32_t results) {
    dk_queue* queue = &stream->queue;
    int32_t instance = stream->first;
    int32_t at;
    stream->gathered = queue->words_used;
    at = dk_take(queue, results * (int64_t)stream->finished);
    for (; at != 0 && instance != 0; instance = next_of(stream, instance)) {
        if (state_of(stream, instance) == DK_FINISHED) {
            dk_copy(queue->words + at, queue->words + instance + DK_INSTANCE_RESULTS, results * (int64_t)sizeof at);
            at += results;
        }
    }
    return queue->status;
}

void dk_taken(dk_stream* stream, int32_t* launches) {
    const dk_queue* queue = &stream->queue;
    const int64_t bytes = queue->cell_count * (int64_t)sizeof *launches;
    int32_t before = 0;
    int32_t instance = stream->first;
    for (; instance != 0; instance = next_of(stream, instance)) {
        if (state_of(stream, instance) != DK_FINISHED) {
            before = instance;
            continue;
        }
        if (stream->tickets != NULL) {
            *stream->tickets++ = queue->words[instance + DK_INSTANCE_TICKET];
        }
        take_out(stream, before, instance);
    }
    stream->finished = 0;
    dk_copy(launches, queue->launches, bytes);
    memset(queue->launches, 0, (size_t)bytes);
}

dk_status dk_settle(dk_stream* stream, dk_status status) {
    dk_queue* queue = &stream->queue;
    if (stream->gathered != 0) {
        queue->words_used = stream->gathered;
        stream->gathered = 0;
    }
    switch (stream->verb) {
    case DK_VERB_RUN:
        dk_end_stream(stream);
        break;
    case DK_VERB_STEP:
        if (status == DK_ERROR_DATA && queue->frame != 0) {
            drop_failed(stream);
        } else if (status != DK_OK && status != DK_ERROR_USAGE) {
            dk_end_stream(stream);
        }
        break;
    case DK_VERB_TAKE:
        if (queue->status != DK_OK) { /* it is not the memory of the outputs that is too small */
            dk_end_stream(stream);
        }
        break;
    default:
        break;
    }
    return status;
}
