/* What is ready in a flush that follows the graph. While a node is in the flush, its depth moves to the state of the
   flush (frontier.h), and the place of its part of the state is where the depth was. */
#include "frontier.h"

typedef struct waiting_node {
    int32_t node;
    int32_t pending;   /* operands that are not computed */
    int32_t consumers; /* the end of its consumers; they begin where those of the node before end */
    int32_t depth;
} waiting_node;

enum { NODE_WORDS = sizeof(waiting_node) / 4 };

static waiting_node* waiting(const dk_queue* queue, int32_t node) {
    return (waiting_node*)(queue->words + queue->words[node + DK_NODE_DEPTH]);
}

static void add_depth(dk_ready_list* list, int64_t depth) {
    const int64_t sum = dk_sum_of_depths(list) + depth;
    memcpy(list->depths, &sum, sizeof sum);
}

/* The states of all nodes. They begin with an empty one, whose consumers end where those of the first node begin. */
static waiting_node* states_of(const dk_queue* queue) {
    return (waiting_node*)(dk_ready_lists(queue) + queue->cell_count);
}

/* For each cell, the greatest number of its nodes on a path that begins at a node. */
static int32_t* chains_of(const dk_queue* queue, const waiting_node* state) {
    const ptrdiff_t index = state - states_of(queue) - 1;
    return queue->words + dk_flush_of(queue)->chains + (queue->cell_count + index) * queue->cell_count;
}

/* Keep the greater of each two chains. */
static void lengthen(int32_t* chains, const int32_t* others, int32_t count) {
    int32_t i;
    for (i = 0; i < count; ++i) {
        if (others[i] > chains[i]) {
            chains[i] = others[i];
        }
    }
}

/* Add a node to the ready ones of its cell. */
static void append(dk_queue* queue, int32_t node) {
    const int32_t cell = queue->words[node + DK_NODE_CELL];
    dk_ready_list* list = dk_ready_lists(queue) + cell;
    queue->words[node + DK_NODE_NEXT] = 0;
    if (queue->policy == DK_POLICY_CRITICAL) {
        int32_t* chains = dk_ready_chains(queue, cell);
        if (list->ready == 0) {
            memset(chains, 0, (size_t)queue->cell_count * sizeof *chains);
        }
        lengthen(chains, chains_of(queue, waiting(queue, node)), queue->cell_count);
    }
    if (list->ready++ == 0) {
        list->first = node;
    } else {
        queue->words[list->last + DK_NODE_NEXT] = node;
    }
    list->last = node;
}

/* The first operand of a node, and how many are values. */
static const int32_t* operands_of(const dk_queue* queue, int32_t node, int32_t* count) {
    const dk_cell* cell = &queue->cells[queue->words[node + DK_NODE_CELL]];
    *count = cell->operands;
    return queue->words + node + DK_NODE_RESULTS + 2 * (ptrdiff_t)cell->results;
}

/* The node that computes `value`, or 0 if the value is there. */
static int32_t producer(const dk_queue* queue, int32_t value) {
    return queue->words[value] < 0 ? queue->words[value + 1] : 0;
}

/* Begin the state of the flush: count what each node waits for, and its consumers. Returns the number of edges. */
static int32_t count_edges(dk_queue* queue) {
    int32_t* words = queue->words;
    dk_ready_list* lists = dk_ready_lists(queue);
    waiting_node* state = states_of(queue);
    int32_t edges = 0;
    int32_t node;
    memset(lists, 0, (size_t)queue->cell_count * sizeof *lists);
    memset(state, 0, sizeof *state);
    for (node = queue->first; node != 0; node = words[node + DK_NODE_NEXT]) {
        dk_ready_list* list = &lists[words[node + DK_NODE_CELL]];
        int32_t count;
        const int32_t* operand = operands_of(queue, node, &count);
        ++state;
        state->node = node;
        state->pending = 0;
        state->consumers = 0;
        state->depth = words[node + DK_NODE_DEPTH];
        words[node + DK_NODE_DEPTH] = (int32_t)((int32_t*)state - words);
        ++list->remaining;
        add_depth(list, state->depth);
        for (; count > 0; --count, ++operand) {
            const int32_t from = producer(queue, *operand);
            if (from != 0) {
                ++waiting(queue, from)->consumers;
                ++state->pending;
                ++edges;
            }
        }
    }
    return edges;
}

/* List the consumers of all nodes, from the words at `at` on. */
static void list_consumers(dk_queue* queue, int32_t at) {
    waiting_node* states = states_of(queue);
    int32_t node;
    int32_t i;
    for (i = 0; i <= dk_flush_of(queue)->left; ++i) {
        const int32_t consumers = states[i].consumers;
        states[i].consumers = at; /* where they begin; the next loop moves it to their end */
        at += consumers;
    }
    for (node = queue->first; node != 0; node = queue->words[node + DK_NODE_NEXT]) {
        int32_t count;
        const int32_t* operand = operands_of(queue, node, &count);
        for (; count > 0; --count, ++operand) {
            const int32_t from = producer(queue, *operand);
            if (from != 0) {
                queue->words[waiting(queue, from)->consumers++] = node;
            }
        }
    }
}

/* Find the chains of all nodes, the last node first. */
static void find_chains(dk_queue* queue) {
    const waiting_node* state = states_of(queue) + dk_flush_of(queue)->left;
    for (; state > states_of(queue); --state) {
        int32_t* chains = chains_of(queue, state);
        int32_t at = (state - 1)->consumers;
        memset(chains, 0, (size_t)queue->cell_count * sizeof *chains);
        for (; at < state->consumers; ++at) {
            lengthen(chains, chains_of(queue, waiting(queue, queue->words[at])), queue->cell_count);
        }
        ++chains[queue->words[state->node + DK_NODE_CELL]];
    }
}

int32_t dk_frontier_begin(dk_queue* queue) {
    const int64_t cells = queue->cell_count;
    int64_t end = queue->words_used + DK_FLUSH_WORDS + cells * (1 + DK_LIST_WORDS) + NODE_WORDS;
    int32_t edges;
    int32_t count = 0;
    int32_t node;
    for (node = queue->first; node != 0; node = queue->words[node + DK_NODE_NEXT]) {
        ++count;
    }
    end += (int64_t)count * NODE_WORDS;
    if (!dk_has_words(queue, end)) {
        return 0;
    }
    dk_flush_of(queue)->left = count;
    edges = count_edges(queue);
    dk_flush_of(queue)->chains = (int32_t)dk_min(end + edges, INT32_MAX);
    queue->flushing = dk_flush_of(queue)->chains;
    if (queue->policy == DK_POLICY_CRITICAL) {
        end += (cells + count) * cells;
    }
    if (!dk_has_words(queue, end + edges)) {
        return 0;
    }
    list_consumers(queue, dk_flush_of(queue)->chains - edges);
    if (queue->policy == DK_POLICY_CRITICAL) {
        queue->flushing = (int32_t)end + edges;
        find_chains(queue);
    }
    for (node = 1; node <= count; ++node) {
        const waiting_node* state = &states_of(queue)[node];
        if (state->pending == 0) {
            append(queue, state->node);
        }
    }
    return 1;
}

int32_t dk_frontier_take(dk_queue* queue, dk_batch* batch) {
    dk_ready_list* list = dk_ready_lists(queue) + dk_frontier_choose(queue);
    batch->cell = (int32_t)(list - dk_ready_lists(queue));
    batch->count = list->ready;
    list->ready = 0;
    list->remaining -= batch->count;
    dk_flush_of(queue)->left -= batch->count;
    if (dk_flush_of(queue)->left == 0) {
        queue->first = 0;
    }
    return list->first;
}

void dk_frontier_release(dk_queue* queue, int32_t node, int32_t count) {
    dk_ready_list* list = dk_ready_lists(queue) + queue->words[node + DK_NODE_CELL];
    int32_t next;
    for (; count > 0; --count, node = next) {
        const waiting_node* state = waiting(queue, node);
        int32_t at = (state - 1)->consumers;
        next = queue->words[node + DK_NODE_NEXT];
        add_depth(list, -(int64_t)state->depth);
        for (; at < state->consumers; ++at) {
            const int32_t consumer = queue->words[at];
            if (--waiting(queue, consumer)->pending == 0) {
                append(queue, consumer);
            }
        }
    }
}
