/* Which cell comes next in a flush that follows the graph. Each rule takes the cell with the lower number of equals. */
#include "frontier.h"

/* Whether `sum / count` is below `other / others`. Integer parts and remainders: products of sums might overflow. */
static int is_less(int64_t sum, int32_t count, int64_t other, int32_t others) {
    const int64_t whole = sum / count;
    const int64_t other_whole = other / others;
    return whole != other_whole ? whole < other_whole : sum % count * others < other % others * count;
}

/* Whether the nodes of `a` have a lesser mean depth. */
static int is_shallower(const dk_ready_list* a, const dk_ready_list* b) {
    return is_less(dk_sum_of_depths(a), a->remaining, dk_sum_of_depths(b), b->remaining);
}

/* Whether a greater share of the nodes of `a` is ready, or the same share and more of them. */
static int is_riper(const dk_ready_list* a, const dk_ready_list* b) {
    const int64_t share_a = (int64_t)a->ready * b->remaining;
    const int64_t share_b = (int64_t)b->ready * a->remaining;
    return share_a != share_b ? share_a > share_b : a->ready > b->ready;
}

static int is_wider(const dk_ready_list* a, const dk_ready_list* b) {
    return a->ready > b->ready;
}

/* The best of the cells that have ready nodes, the first of equals. */
static int32_t best_cell(const dk_queue* queue, int (*is_better)(const dk_ready_list*, const dk_ready_list*)) {
    const dk_ready_list* lists = dk_ready_lists(queue);
    int32_t best = -1;
    int32_t cell;
    for (cell = 0; cell < queue->cell_count; ++cell) {
        if (lists[cell].ready > 0 && (best < 0 || is_better(&lists[cell], &lists[best]))) {
            best = cell;
        }
    }
    return best;
}

/* Write the cells of a state, in the order of its encoding. Returns their number. */
static int32_t encode(const dk_queue* queue, int32_t* order) {
    const dk_ready_list* lists = dk_ready_lists(queue);
    int32_t count = 0;
    int32_t cell;
    for (cell = 0; cell < queue->cell_count; ++cell) {
        int32_t at = count;
        if (lists[cell].ready == 0) {
            continue;
        }
        if (queue->table.encoding == DK_ENCODING_SORT) {
            for (; at > 0 && lists[order[at - 1]].ready < lists[cell].ready; --at) {
                order[at] = order[at - 1];
            }
        }
        order[at] = cell;
        ++count;
    }
    return count;
}

static uint32_t add_to_hash(uint32_t hash, int32_t cell) {
    return (hash ^ (uint32_t)cell) * 16777619u;
}

/* The hash of the state of the flush: FNV-1a, by whole words; never 0. */
static uint32_t hash_state(const dk_queue* queue) {
    int32_t* order = dk_cell_order(queue);
    const int32_t count = encode(queue, order);
    uint32_t hash = 2166136261u;
    int32_t i;
    for (i = 0; i < count; ++i) {
        hash = add_to_hash(hash, order[i]);
    }
    if (queue->table.encoding == DK_ENCODING_MAX) {
        hash = add_to_hash(hash, best_cell(queue, is_wider));
    }
    return hash == 0 ? 1 : hash;
}

/* The cell that the table gives for the state; without one, the ripest. */
static int32_t learned_cell(const dk_queue* queue) {
    const uint32_t mask = (uint32_t)queue->table.count - 1;
    const uint32_t hash = hash_state(queue);
    uint32_t i;
    for (i = 0; i < (uint32_t)queue->table.count; ++i) {
        const uint32_t* entry = queue->table.entries + 2 * (size_t)((hash + i) & mask);
        if (entry[0] == hash && dk_ready_lists(queue)[entry[1]].ready > 0) {
            return (int32_t)entry[1];
        }
        if (entry[0] == 0 || entry[0] == hash) {
            break;
        }
    }
    return best_cell(queue, is_riper);
}

/* Whether the longest chain of a cell from its own ready nodes is longer than from those of other cells: a launch
   shortens the longest chain of the cell in all that remains, and no other launch does. */
static int leads(const dk_queue* queue, int32_t cell) {
    const dk_ready_list* lists = dk_ready_lists(queue);
    const int32_t own = dk_ready_chains(queue, cell)[cell];
    int32_t other;
    for (other = 0; other < queue->cell_count; ++other) {
        if (other != cell && lists[other].ready > 0 && dk_ready_chains(queue, other)[cell] >= own) {
            return 0;
        }
    }
    return 1;
}

/* How much waits for the ready nodes of a cell, times their number: the sum of the longest chains of each cell that
   begin at them. */
static int64_t weight(const dk_queue* queue, int32_t cell) {
    const int32_t* chains = dk_ready_chains(queue, cell);
    int64_t sum = 0;
    int32_t other;
    for (other = 0; other < queue->cell_count; ++other) {
        sum += chains[other];
    }
    return sum * dk_ready_lists(queue)[cell].ready;
}

/* Whether a cell comes before another one: if it alone leads; then by the share of its nodes that is ready, weighted by
   what waits for them; then by its ready nodes. */
static int is_more_critical(const dk_queue* queue, int32_t cell, int32_t other) {
    const dk_ready_list* a = &dk_ready_lists(queue)[cell];
    const dk_ready_list* b = &dk_ready_lists(queue)[other];
    const int32_t more = leads(queue, cell) - leads(queue, other);
    const int64_t weight_a = weight(queue, cell);
    const int64_t weight_b = weight(queue, other);
    if (more != 0) {
        return more > 0;
    }
    if (is_less(weight_b, b->remaining, weight_a, a->remaining)) {
        return 1;
    }
    return !is_less(weight_a, a->remaining, weight_b, b->remaining) && a->ready > b->ready;
}

static int32_t critical_cell(const dk_queue* queue) {
    const dk_ready_list* lists = dk_ready_lists(queue);
    int32_t best = -1;
    int32_t cell;
    for (cell = 0; cell < queue->cell_count; ++cell) {
        if (lists[cell].ready > 0 && (best < 0 || is_more_critical(queue, cell, best))) {
            best = cell;
        }
    }
    return best;
}

int32_t dk_frontier_choose(const dk_queue* queue) {
    switch (queue->policy) {
    case DK_POLICY_CRITICAL:
        return critical_cell(queue);
    case DK_POLICY_AGENDA:
        return best_cell(queue, is_shallower);
    default:
        return learned_cell(queue);
    }
}
