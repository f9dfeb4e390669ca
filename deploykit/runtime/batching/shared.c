/* The table of shared nodes: their first results, by cell and operand. It is a hash table in the heap, with 0 where an
   entry is free, at most half full. A table that is full leaves its place to the heap: a run frees nothing. */
#include "batching.h"

#include <string.h>

enum { FIRST_ROOM = 64 };

/* The operand of a shared node, given its first result. */
static int32_t operand_of(const dk_queue* queue, int32_t value) {
    const int32_t cell = queue->words[value - DK_NODE_RESULTS + DK_NODE_CELL];
    return queue->words[value + 2 * queue->cells[cell].results];
}

/* The entry of a node: its first result, or 0 in a free entry for it. */
static int32_t* entry_of(const dk_queue* queue, int32_t cell, int32_t operand) {
    int32_t* entries = queue->words + queue->shared;
    uint32_t at = ((uint32_t)operand * 31 + (uint32_t)cell) * 2654435769u >> 8;
    for (;; ++at) {
        const int32_t value = entries[at & ((uint32_t)queue->shared_room - 1)];
        if (value == 0 ||
            (queue->words[value - DK_NODE_RESULTS + DK_NODE_CELL] == cell && operand_of(queue, value) == operand)) {
            return &entries[at & ((uint32_t)queue->shared_room - 1)];
        }
    }
}

/* A table of twice the room with the same values. Returns 0 after a failure. */
static int32_t grow(dk_queue* queue) {
    const int32_t room = queue->shared_room;
    const int32_t* before = queue->words + queue->shared;
    const int32_t larger = room == 0 ? FIRST_ROOM : 2 * room;
    const int32_t table = dk_take(queue, larger);
    int32_t i;
    if (table == 0) {
        return 0;
    }
    memset(queue->words + table, 0, (size_t)larger * sizeof *queue->words);
    queue->shared = table;
    queue->shared_room = larger;
    for (i = 0; i < room; ++i) {
        if (before[i] != 0) {
            const int32_t cell = queue->words[before[i] - DK_NODE_RESULTS + DK_NODE_CELL];
            *entry_of(queue, cell, operand_of(queue, before[i])) = before[i];
        }
    }
    return 1;
}

int32_t dk_find_shared(const dk_queue* queue, int32_t cell, int32_t operand) {
    return queue->shared_room == 0 ? 0 : *entry_of(queue, cell, operand);
}

int32_t dk_add_shared(dk_queue* queue, int32_t cell, int32_t operand, int32_t value) {
    if (2 * queue->shared_count >= queue->shared_room && !grow(queue)) {
        return 0;
    }
    *entry_of(queue, cell, operand) = value;
    ++queue->shared_count;
    return value;
}
