/* The queue of nodes: recording, the flush, and the policies that need no look at the graph.

   A node is a cell, a depth and the next node; then 2 words for each result, which are a value; then its operands and
   its numbers; then its trace, if there is one. The depth is 1 more than the greatest of the nodes that it waits for,
   so what an earlier flush has launched counts like an input, and a flush has no more depths than nodes.

   A flush keeps its state behind the words in use, from `words_used` up to `flushing`. The arrays of a batch follow. */
#include "frontier.h"

/* Memory */

/* The capacity asked for is at least twice the present one: nobody knows how much the rest of the run takes. */
static int32_t fail(dk_queue* queue, const char* what, int64_t needed, int64_t available, int32_t dim) {
    if (queue->status != DK_OK) {
        return 0;
    }
    if (needed > INT32_MAX) {
        queue->status = dk_fail_capacity(queue->model, what, needed * 4, available * 4, -1, 0);
        dk_add_text(queue->model, ", more than a run can address: split the batch");
        return 0;
    }
    needed = dk_max(needed, dk_min(2 * available, INT32_MAX));
    queue->status = dk_fail_capacity(queue->model, what, needed * 4, available * 4, dim, available);
    return 0;
}

int32_t dk_fail_words(dk_queue* queue, int64_t more) {
    return fail(queue, "memory of the control flow", queue->words_used + more, queue->word_count, queue->words_dim);
}

int32_t dk_fail_pool(dk_queue* queue, int64_t more) {
    return fail(queue, "pool of tensors", queue->pool_used + more, queue->pool_count, queue->pool_dim);
}

/* Recording */

dk_status dk_queue_begin(dk_queue* queue, int32_t kinds, int64_t reserved) {
    queue->words_used = 0;
    queue->pool_used = 0;
    queue->status = DK_OK;
    queue->frame = 0;
    queue->ready = 0;
    queue->waiting = 0;
    queue->returned = 0;
    queue->first = 0;
    queue->last = 0;
    queue->rest = 0;
    queue->kept = 0;
    queue->last_kept = 0;
    queue->flushing = 0;
    queue->in_order = 0;
    queue->traced = 0;
    queue->last_traced = 0;
    queue->launched = 0;
    queue->shared_room = 0;
    queue->shared_count = 0;
    queue->free = 0;
    dk_take(queue, reserved + kinds);
    if (queue->status == DK_OK) {
        memset(queue->launches, 0, (size_t)queue->cell_count * sizeof *queue->launches);
        queue->free = (int32_t)reserved;
        memset(queue->words + reserved, 0, (size_t)kinds * sizeof *queue->words);
    }
    return queue->status;
}

/* The depth of a node with these operands. */
static int32_t depth_of(const dk_queue* queue, int32_t cell, const int32_t* operands) {
    const int32_t* words = queue->words;
    int32_t depth = 0;
    int32_t i;
    for (i = 0; i < queue->cells[cell].operands; ++i) {
        if (words[operands[i]] < 0 && words[words[operands[i] + 1] + DK_NODE_DEPTH] > depth) {
            depth = words[words[operands[i] + 1] + DK_NODE_DEPTH];
        }
    }
    return depth + 1;
}

int32_t dk_record(dk_queue* queue, int32_t cell, const int32_t* operands) {
    const dk_cell* kind = &queue->cells[cell];
    const int32_t inputs = kind->operands + kind->numbers;
    const int32_t before = kind->shared ? dk_find_shared(queue, cell, operands[0]) : 0;
    int32_t* words = queue->words;
    int32_t* fields;
    int32_t* value;
    int32_t node;
    int32_t i;
    if (before != 0) {
        return before;
    }
    node = dk_take(queue, DK_NODE_RESULTS + 2 * (int64_t)kind->results + inputs + queue->trace);
    if (node == 0) {
        return 0;
    }
    fields = words + node;
    value = fields + DK_NODE_RESULTS;
    for (i = 0; i < kind->results; ++i, value += 2) {
        value[0] = -1;
        value[1] = node;
    }
    for (i = 0; i < inputs; ++i) {
        value[i] = operands[i];
    }
    fields[DK_NODE_CELL] = cell;
    fields[DK_NODE_DEPTH] = depth_of(queue, cell, operands);
    fields[DK_NODE_NEXT] = 0;
    if (queue->first == 0) {
        queue->first = node;
    } else {
        words[queue->last + DK_NODE_NEXT] = node;
    }
    queue->last = node;
    return kind->shared ? dk_add_shared(queue, cell, operands[0], node + DK_NODE_RESULTS) : node + DK_NODE_RESULTS;
}

void dk_resume(dk_queue* queue) {
    while (queue->waiting != 0) {
        const int32_t frame = queue->waiting;
        queue->waiting = queue->words[frame + DK_FRAME_NEXT];
        dk_ready(queue, frame);
    }
}

/* Policies without a graph. They keep the nodes in one list in the order of launches. */

/* Sort the nodes by a field below `count`; nodes with the same value keep their order. `lists` are 2 words for each. */
static void sort_nodes(dk_queue* queue, int32_t field, int32_t* lists, int32_t count) {
    int32_t* words = queue->words;
    int32_t node;
    int32_t i;
    memset(lists, 0, 2 * (size_t)count * sizeof *lists);
    for (node = queue->first; node != 0; node = words[node + DK_NODE_NEXT]) {
        int32_t* list = lists + 2 * (ptrdiff_t)words[node + field];
        if (list[0] == 0) {
            list[0] = node;
        } else {
            words[list[1] + DK_NODE_NEXT] = node;
        }
        list[1] = node;
    }
    queue->first = 0;
    for (i = 0; i < count; ++i, lists += 2) {
        if (lists[0] == 0) {
            continue;
        }
        if (queue->first == 0) {
            queue->first = lists[0];
        } else {
            words[queue->last + DK_NODE_NEXT] = lists[0];
        }
        queue->last = lists[1];
    }
    words[queue->last + DK_NODE_NEXT] = 0;
}

static int32_t sort_by_depth(dk_queue* queue) {
    int32_t* lists = queue->words + queue->words_used;
    int32_t depths = 1; /* no node has depth 0 */
    int32_t node;
    for (node = queue->first; node != 0; node = queue->words[node + DK_NODE_NEXT]) {
        if (queue->words[node + DK_NODE_DEPTH] >= depths) {
            depths = queue->words[node + DK_NODE_DEPTH] + 1;
        }
    }
    if (!dk_has_words(queue, queue->words_used + 2 * dk_max(depths, queue->cell_count))) {
        return 0;
    }
    sort_nodes(queue, DK_NODE_CELL, lists, queue->cell_count);
    sort_nodes(queue, DK_NODE_DEPTH, lists, depths);
    return 1;
}

/* Take the nodes at the head of the list that go together: those of one depth and cell, or a single one. */
static int32_t take_head(dk_queue* queue, dk_batch* batch) {
    const int32_t* words = queue->words;
    const int32_t first = queue->first;
    int32_t node = first;
    batch->cell = words[first + DK_NODE_CELL];
    batch->count = 0;
    do {
        node = words[node + DK_NODE_NEXT];
        ++batch->count;
    } while (queue->policy == DK_POLICY_DEPTH && node != 0 && words[node + DK_NODE_CELL] == batch->cell &&
             words[node + DK_NODE_DEPTH] == words[first + DK_NODE_DEPTH]);
    queue->first = node;
    return first;
}

/* Flushes */

/* Find places in the pool for the results of `count` nodes. */
static int32_t take_results(dk_queue* queue, const dk_cell* cell, int32_t count, int32_t* results) {
    int64_t end = queue->pool_used;
    int32_t i;
    for (i = 0; i < cell->results && end <= INT32_MAX; ++i) {
        end = dk_aligned(queue, end);
        results[i] = (int32_t)dk_min(end, INT32_MAX);
        end += (int64_t)count * cell->elements[i];
    }
    if (end > queue->pool_count) {
        return dk_fail_pool(queue, end - queue->pool_used);
    }
    queue->pool_used = (int32_t)end;
    return 1;
}

/* Give the results of the nodes from `node` on their places, and list the places of the operands. */
static int32_t place(dk_queue* queue, dk_batch* batch, int32_t node) {
    const dk_cell* cell = &queue->cells[batch->cell];
    int32_t* words = queue->words;
    int32_t* results = words + queue->flushing;
    const int64_t first = dk_aligned(queue, (int64_t)queue->flushing + cell->results);
    const int64_t stride = dk_aligned(queue, batch->count);
    int32_t* indices = words + first;
    int32_t row;
    if (!dk_has_words(queue, first + stride * ((int64_t)cell->operands + cell->numbers)) ||
        !take_results(queue, cell, batch->count, results)) {
        return 0;
    }
    for (row = 0; row < batch->count; ++row, node = words[node + DK_NODE_NEXT]) {
        int32_t* field = words + node + DK_NODE_RESULTS;
        int32_t* index = indices + row;
        int32_t i;
        for (i = 0; i < cell->results; ++i, field += 2) {
            field[0] = results[i] + row * cell->elements[i];
        }
        for (i = 0; i < cell->operands; ++i, ++field, index += stride) {
            *index = words[*field];
        }
        for (i = 0; i < cell->numbers; ++i, ++field, index += stride) {
            *index = *field;
        }
    }
    batch->stride = (int32_t)stride;
    batch->indices = indices;
    batch->results = results;
    return 1;
}

/* Whether each node is deeper than the one before. None can go with another one then, so there is nothing to choose. */
static int32_t is_chain(const dk_queue* queue) {
    const int32_t* words = queue->words;
    int32_t node = queue->first;
    int32_t next = words[node + DK_NODE_NEXT];
    for (; next != 0; node = next, next = words[node + DK_NODE_NEXT]) {
        if (words[next + DK_NODE_DEPTH] <= words[node + DK_NODE_DEPTH]) {
            return 0;
        }
    }
    return 1;
}

/* Leave to the rest of the flush what is behind the first nodes, if these are large and their results fill a part. What
   earlier parts have computed counts like an input. */
static void take_part(dk_queue* queue) {
    int32_t* words = queue->words;
    int64_t elements = 0;
    int32_t count = 0;
    int32_t last = 0;
    int32_t node;
    for (node = queue->first; node != 0 && elements < queue->part; node = words[node + DK_NODE_NEXT]) {
        const int32_t number = words[node + DK_NODE_CELL];
        const dk_cell* cell = &queue->cells[number];
        int32_t i;
        for (i = 0; i < cell->results; ++i) {
            elements += cell->elements[i];
        }
        words[node + DK_NODE_DEPTH] =
            depth_of(queue, number, words + node + DK_NODE_RESULTS + 2 * (ptrdiff_t)cell->results);
        ++count;
        last = node;
    }
    if (node != 0 && elements >= count * (int64_t)DK_LARGE_NODE) {
        words[last + DK_NODE_NEXT] = 0;
        queue->last = last;
        queue->rest = node;
    }
}

static int32_t prepare(dk_queue* queue) {
    if (queue->part != 0 && queue->policy != DK_POLICY_ALONE) {
        take_part(queue);
    }
    queue->in_order = queue->policy == DK_POLICY_ALONE || is_chain(queue);
    if (!queue->in_order && queue->policy != DK_POLICY_DEPTH) {
        return dk_frontier_begin(queue);
    }
    queue->flushing = queue->words_used;
    return queue->in_order || sort_by_depth(queue);
}

int32_t dk_next_batch(dk_queue* queue, dk_batch* batch) {
    int32_t frontier;
    int32_t node;
    if (queue->first == 0) {
        queue->first = queue->rest;
        queue->rest = 0;
        queue->flushing = 0;
    }
    if (queue->status != DK_OK || queue->first == 0 || (queue->flushing == 0 && !prepare(queue))) {
        queue->flushing = 0;
        return 0;
    }
    frontier = !queue->in_order && queue->policy != DK_POLICY_DEPTH;
    node = frontier ? dk_frontier_take(queue, batch) : take_head(queue, batch);
    if (!place(queue, batch, node)) {
        return 0;
    }
    if (queue->trace != 0) {
        dk_trace_launch(queue, node, batch->count);
    }
    if (frontier) {
        dk_frontier_release(queue, node, batch->count);
    }
    ++queue->launches[batch->cell];
    ++queue->launched;
    return 1;
}
