/* Which nodes a flush runs: those that the values depend on that frames wait for. The others are kept, so that they run
   in larger batches with what is recorded later; the last flush, when no frame waits, runs them.

   A node that is needed has a negative depth for the time of the choice. Lists of nodes are in the order of the
   program, which is that of their handles. */
#include "frontier.h"

/* Mark the node of a value if it is neither computed nor marked, and push it on the stack that ends at `end`. Returns
   the new end, 0 after a failure. */
static int32_t need(dk_queue* queue, int32_t value, int32_t end) {
    int32_t* words = queue->words;
    const int32_t node = words[value + 1];
    if (words[value] >= 0 || words[node + DK_NODE_DEPTH] < 0) {
        return end;
    }
    if (!dk_has_words(queue, (int64_t)end + 1)) {
        return 0;
    }
    words[node + DK_NODE_DEPTH] = -words[node + DK_NODE_DEPTH];
    words[end] = node;
    return end + 1;
}

/* Mark the nodes that frames wait for. Returns the first of them, 0 after a failure. */
static int32_t mark_needed(dk_queue* queue) {
    const int32_t* words = queue->words;
    int32_t end = queue->words_used;
    int32_t least = INT32_MAX;
    int32_t frame;
    for (frame = queue->waiting; frame != 0 && end != 0; frame = words[frame + DK_FRAME_NEXT]) {
        end = need(queue, words[frame + DK_FRAME_AWAITED], end);
    }
    while (end > queue->words_used) {
        const int32_t node = words[--end];
        const dk_cell* cell = &queue->cells[words[node + DK_NODE_CELL]];
        const int32_t* operands = words + node + DK_NODE_RESULTS + 2 * (ptrdiff_t)cell->results;
        int32_t i;
        least = node < least ? node : least;
        for (i = 0; i < cell->operands && end != 0; ++i) {
            end = need(queue, operands[i], end);
        }
    }
    return end == 0 ? 0 : least;
}

static void add(dk_queue* queue, int32_t* first, int32_t* last, int32_t node) {
    if (*first == 0) {
        *first = node;
    } else {
        queue->words[*last + DK_NODE_NEXT] = node;
    }
    *last = node;
    queue->words[node + DK_NODE_NEXT] = 0;
}

/* Add each node of a list to the nodes to launch if it is marked, else to those that are kept. */
static void divide(dk_queue* queue, int32_t node) {
    while (node != 0) {
        const int32_t next = queue->words[node + DK_NODE_NEXT];
        int32_t* depth = &queue->words[node + DK_NODE_DEPTH];
        if (*depth < 0) {
            *depth = -*depth;
            add(queue, &queue->first, &queue->last, node);
        } else {
            add(queue, &queue->kept, &queue->last_kept, node);
        }
        node = next;
    }
}

int32_t dk_begin_flush(dk_queue* queue, int all) {
    const int32_t recorded = queue->first;
    const int32_t kept = queue->kept;
    int32_t least = 0;
    if (queue->status != DK_OK) {
        return 0;
    }
    if (all || queue->waiting == 0) {
        if (kept != 0) {
            queue->words[queue->last_kept + DK_NODE_NEXT] = recorded;
            queue->first = kept;
            queue->last = recorded == 0 ? queue->last_kept : queue->last;
            queue->kept = 0;
        }
        return queue->first != 0;
    }
    least = mark_needed(queue);
    if (least == 0) {
        return 0;
    }
    queue->first = 0;
    if (kept != 0 && least <= queue->last_kept) {
        queue->kept = 0;
        divide(queue, kept);
    }
    divide(queue, recorded);
    return queue->first != 0;
}
