/* The state of a flush that follows the graph: first `dk_flush`, then room for the order of the cells, then for each
   cell its list of ready nodes, in the order in which they became ready. Then, for each node, what it waits for; then
   the consumers of all nodes, node by node. For DK_POLICY_CRITICAL, chains follow: for each cell those of its ready
   nodes, then those of each node. */
#ifndef DEPLOYKIT_FRONTIER_H
#define DEPLOYKIT_FRONTIER_H

#include "batching.h"

#include <string.h>

typedef struct dk_flush {
    int32_t left;   /* nodes that are not launched */
    int32_t chains; /* where the chains begin */
} dk_flush;

typedef struct dk_ready_list {
    int32_t first;
    int32_t last;
    int32_t ready;
    int32_t remaining; /* nodes that are not launched, ready or not */
    int32_t depths[2]; /* an int64_t: the sum of their depths */
} dk_ready_list;

enum { DK_FLUSH_WORDS = sizeof(dk_flush) / 4, DK_LIST_WORDS = sizeof(dk_ready_list) / 4 };

static inline dk_flush* dk_flush_of(const dk_queue* queue) {
    return (dk_flush*)(queue->words + queue->words_used);
}

static inline int32_t* dk_cell_order(const dk_queue* queue) {
    return queue->words + queue->words_used + DK_FLUSH_WORDS;
}

static inline dk_ready_list* dk_ready_lists(const dk_queue* queue) {
    return (dk_ready_list*)(dk_cell_order(queue) + queue->cell_count);
}

/* For each cell t, the greatest number of nodes of t on a path that begins at a ready node of `cell`. */
static inline int32_t* dk_ready_chains(const dk_queue* queue, int32_t cell) {
    return queue->words + dk_flush_of(queue)->chains + (ptrdiff_t)cell * queue->cell_count;
}

static inline int64_t dk_sum_of_depths(const dk_ready_list* list) {
    int64_t sum;
    memcpy(&sum, list->depths, sizeof sum);
    return sum;
}

/* Whether the words end at or behind `end`. If not, the run fails. */
static inline int32_t dk_has_words(dk_queue* queue, int64_t end) {
    return end <= queue->word_count ? 1 : dk_fail_words(queue, end - queue->words_used);
}

/* Find which nodes are ready and which wait for which. Returns 0 after a failure. */
int32_t dk_frontier_begin(dk_queue* queue);

/* The cell that comes next, by the policy of the queue. It has ready nodes. */
int32_t dk_frontier_choose(const dk_queue* queue);

/* Take the ready nodes of a cell: sets `cell` and `count` of the batch. Returns the first node of the list. */
int32_t dk_frontier_take(dk_queue* queue, dk_batch* batch);

/* After the launch of `count` nodes from `node` on: those that waited for nothing else are ready. */
void dk_frontier_release(dk_queue* queue, int32_t node, int32_t count);

#endif
